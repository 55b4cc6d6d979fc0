//! What changed when: the moment of a step, what began then, and no step where nothing changed.

use diskwright_base::{DeviceClass, FileRow, Note, ProcessRow, ProcessTable, Topology};
use diskwright_diagnosis::Verdict;
use diskwright_diagnosis::verdict::{BeganKind, Change};

use super::common::noise::Noise;
use super::common::{Recording, SECOND, START, device};

const STEP: i64 = SECOND as i64;

/// A number between -1 and 1 for each tick, the same in every run.
fn scatter(tick: usize) -> f64 {
    Noise::new(tick as u64 + 77).even() * 2.0 - 1.0
}

/// A disk whose requests take `calm_s` seconds, and `busy_s` in the ticks `busy`, when many more come.
fn recording(ticks: usize, busy: std::ops::Range<usize>) -> Recording {
    let reads = {
        let busy = busy.clone();
        move |tick: usize| (if busy.contains(&tick) { 300.0 } else { 20.0 }) * (1.0 + 0.2 * scatter(tick))
    };
    let read_s =
        move |tick: usize| (if busy.contains(&tick) { 0.068 } else { 0.022 }) * (1.0 + 0.2 * scatter(tick + 999));
    let (of_bytes, of_time, of_queue) = (reads.clone(), (reads.clone(), read_s.clone()), (reads.clone(), read_s));
    Recording::new(ticks)
        .with("physical_disk.reads", "sda", reads)
        .with("physical_disk.writes", "sda", |_| 0.0)
        .with("physical_disk.read_bytes", "sda", move |tick| of_bytes(tick) * 65_536.0)
        .with("physical_disk.write_bytes", "sda", |_| 0.0)
        .with("physical_disk.read_time_s", "sda", move |tick| of_time.0(tick) * of_time.1(tick))
        .with("physical_disk.write_time_s", "sda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "sda", move |tick| of_queue.0(tick) * of_queue.1(tick))
        .with("physical_disk.busy_time_s", "sda", |_| 1.0)
        .with("pressure.io_some_s", "", |_| 0.6)
        .topology(Topology { devices: vec![device("sda", DeviceClass::Rotational, &[], None)], ..Topology::default() })
}

/// A table of the five seconds before `end_s`, of processes with their bytes read a second.
fn table(end_s: i64, rows: &[(u32, &str, f64, &str)]) -> Note {
    let row = |(pid, name, read, disk): &(u32, &str, f64, &str)| ProcessRow {
        pid: *pid,
        name: (*name).into(),
        command_line: Some(format!("{name} /srv")),
        read_bytes_per_s: Some(*read),
        files: vec![FileRow { path: "/srv/x".into(), disks: vec![(*disk).into()], bytes: None }],
        ..ProcessRow::default()
    };
    let table = ProcessTable { elapsed_s: 5.0, rows: rows.iter().map(row).collect(), ..ProcessTable::default() };
    Note::processes(START + end_s * STEP, table)
}

/// Tables of `ticks` seconds, in which `tar` reads from `from_s` until `to_s`, and a victim is there all the time.
fn tables(ticks: usize, (from_s, to_s): (i64, i64)) -> Vec<Note> {
    let victim = (9, "postgres", 1.2e6, "sda");
    (1..=ticks as i64 / 5)
        .map(|index| {
            let end_s = index * 5;
            let seconds = (end_s.min(to_s) - (end_s - 5).max(from_s)).max(0) as f64;
            // a job on another disk begins at the same time
            let other = (70, "updatedb", 8e7, "sdb");
            match seconds > 0.0 {
                true => table(end_s, &[victim, (12, "tar", 1.9e7 * seconds / 5.0, "sda"), other]),
                false => table(end_s, &[victim]),
            }
        })
        .collect()
}

fn find<'v>(verdict: &'v Verdict, counter: &str) -> Vec<&'v Change> {
    verdict.changes.iter().filter(|change| change.counter == counter).collect()
}

const LATENCY: &str = "physical_disk.avg_s_per_transfer";
const QUEUE: &str = "physical_disk.avg_queue_length";

#[test]
fn the_moment_and_the_process_that_began_are_told() {
    for ticks in [120, 1200] {
        let (from, verdict) = (ticks / 2 + 3, recording(ticks, ticks / 2 + 3..ticks));
        let verdict = verdict.with_tables(&tables(ticks, (from as i64, ticks as i64)));
        let [latency] = find(&verdict, LATENCY).try_into().unwrap();
        let [queue] = find(&verdict, QUEUE).try_into().unwrap();
        for change in [latency, queue] {
            let late_s = (change.time_ns - START) as f64 / 1e9 - from as f64;
            assert!(late_s.abs() <= 1.5, "{late_s} s late of {ticks}: {change:?}");
            assert_eq!((change.instance.as_str(), change.until_ns), ("sda", None));
            let names: Vec<(&str, Option<u32>)> = change.began.iter().map(|b| (b.name.as_str(), b.pid)).collect();
            assert_eq!(names, [("tar", Some(12))], "not the victim, and not what uses another disk");
            assert_eq!(change.began[0].command_line.as_deref(), Some("tar /srv"));
        }
        assert!((latency.before - 0.022).abs() < 0.003 && (latency.after - 0.068).abs() < 0.006, "{latency:?}");
        assert!(queue.before < 1.0 && queue.after > 15.0, "{queue:?}");
    }
}

#[test]
fn what_goes_up_and_down_has_its_beginning_and_its_end() {
    let verdict = recording(300, 103..207).with_tables(&tables(300, (103, 207)));
    let [up, down] = find(&verdict, LATENCY).try_into().unwrap();
    assert!((up.time_ns - START - 103 * STEP).abs() <= 3 * STEP / 2 && up.is_rise(), "{up:?}");
    assert!((down.time_ns - START - 207 * STEP).abs() <= 3 * STEP / 2 && !down.is_rise(), "{down:?}");
    assert_eq!(up.until_ns, Some(down.time_ns));
    assert_eq!((down.began.len(), down.ended[0].name.as_str(), down.ended[0].pid), (0, "tar", Some(12)));
    let document = serde_json::to_value(up).unwrap();
    for field in ["at", "counter", "instance", "before", "after", "began", "until", "unit"] {
        assert!(!document[field].is_null(), "{field}: {document}");
    }
}

#[test]
fn nothing_is_named_that_did_not_begin_then() {
    // a process that began long before, and none at all
    for tables in [tables(120, (20, 120)), Vec::new()] {
        let verdict = recording(120, 63..120).with_tables(&tables);
        let [latency] = find(&verdict, LATENCY).try_into().unwrap();
        assert_eq!(latency.began, []);
        assert_eq!(verdict.has_process_tables, !tables.is_empty());
    }
}

#[test]
fn a_bookmark_a_mount_a_resync_and_a_limit_are_told() {
    let make = |background: Option<&str>, mounts: &[&str]| {
        let mut sda = device("sda", DeviceClass::Rotational, &[], None);
        sda.background = background.map(str::to_owned);
        let filesystem = |mount: &&str| diskwright_base::Filesystem { mount: (*mount).into(), ..Default::default() };
        Topology { devices: vec![sda], filesystems: mounts.iter().map(filesystem).collect(), ..Topology::default() }
    };
    let run =
        recording(120, 60..120).with("cgroup.memory_limit_bytes", "/app", |tick| if tick < 60 { 2e9 } else { 1e9 });
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let mut judge = diskwright_diagnosis::Judge::new(vec![pack], run.options());
    let far = Note::new(START + 20 * STEP, Note::BOOKMARK, "lunch");
    let near = Note::new(START + 59 * STEP, Note::BOOKMARK, "deploy 7");
    judge.add_note(&Note::topology(START, make(None, &["/"])));
    [far, near].iter().for_each(|note| judge.add_note(note));
    judge.add_frame(&run.frame(0..61));
    judge.add_note(&Note::topology(START + 62 * STEP, make(Some("resync"), &["/", "/backup"])));
    judge.add_frame(&run.frame(61..120));
    let verdict = judge.finish().remove(0);
    let [latency] = find(&verdict, LATENCY).try_into().unwrap();
    let mut kinds: Vec<(String, BeganKind)> = latency.began.iter().map(|b| (b.name.clone(), b.kind)).collect();
    kinds.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("/app", BeganKind::Limit),
        ("/backup", BeganKind::Mount),
        ("deploy 7", BeganKind::Bookmark),
        ("sda", BeganKind::Resync),
    ];
    assert_eq!(kinds, expected.map(|(name, kind)| (name.to_owned(), kind)));
}

#[test]
fn a_steady_machine_has_no_change() {
    let steady = recording(600, 0..600).with_tables(&[]);
    assert_eq!(steady.changes, []);
    let idle = recording(600, 0..0).with_tables(&[]);
    assert_eq!(idle.changes, []);
    // the first tick, a burst, and what comes and goes
    for busy in [0..1, 0..3, 300..303, 598..600] {
        assert_eq!(find(&recording(600, busy.clone()).with_tables(&[]), LATENCY), Vec::<&Change>::new(), "{busy:?}");
    }
    let wobbles = |tick: usize| if (tick / 15).is_multiple_of(2) { 20.0 } else { 300.0 };
    let verdict = Recording::new(600)
        .with("physical_disk.reads", "sda", wobbles)
        .with("physical_disk.read_time_s", "sda", move |tick| wobbles(tick) * 0.02)
        .with("physical_disk.weighted_time_s", "sda", move |tick| wobbles(tick) * 0.02)
        .by_default();
    assert_eq!(verdict.changes, []);
    let noise: Vec<f64> = Noise::new(3).remembering(0.9, 600).iter().map(|n| (4.0 + 1.5 * n).max(0.0)).collect();
    let verdict = Recording::new(600).with("system.running", "", move |tick| noise[tick]).by_default();
    assert_eq!(verdict.changes, []);
}

#[test]
fn a_gap_hides_when_it_was() {
    let run = recording(200, 100..200);
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let mut judge = diskwright_diagnosis::Judge::new(vec![pack], run.options());
    judge.add_frame(&run.frame(0..80));
    judge.add_frame(&run.frame(120..200));
    assert_eq!(judge.finish()[0].changes, []);
}

#[test]
fn changes_do_not_depend_on_how_ticks_are_cut() {
    let run = recording(400, 150..290);
    let pack = || vec![diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap()];
    let whole = run.judge(pack(), run.options(), 400).remove(0).changes;
    assert!(whole.len() >= 4, "{whole:?}");
    for cut in [1, 7, 256] {
        assert_eq!(run.judge(pack(), run.options(), cut).remove(0).changes, whole, "{cut}");
    }
}
