//! Events that lead the answer: from notes and from counters, in the window only.

use diskwright_base::{EventKind, Filesystem, HostEvent, Note, Topology};
use diskwright_diagnosis::verdict::VerdictEvent;
use diskwright_diagnosis::{Judge, Verdict};

use super::common::{Recording, SECOND, START};

const STEP: i64 = SECOND as i64;

fn judged(run: &Recording, notes: &[Note]) -> Verdict {
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let mut judge = Judge::new(vec![pack], run.options());
    notes.iter().for_each(|note| judge.add_note(note));
    judge.add_frame(&run.frame(0..run.ticks));
    judge.finish().remove(0)
}

fn kill(second: i64, group: Option<&str>) -> Note {
    let time_ns = START + second * STEP;
    let event = HostEvent {
        time_ns: Some(time_ns),
        victim: Some("web".into()),
        pid: Some(71),
        group: group.map(str::to_owned),
        limit_bytes: Some(8 << 20),
        ..HostEvent::new(EventKind::OomKill, "Memory cgroup out of memory: Killed process 71 (web)")
    };
    Note::event(time_ns, &event)
}

/// Kind, second, victim, group and number of each event.
type Summary<'e> = (EventKind, Option<i64>, Option<&'e str>, Option<&'e str>, u64);

fn summary(events: &[VerdictEvent]) -> Vec<Summary<'_>> {
    let second = |event: &VerdictEvent| event.time_ns.map(|time| (time - START) / STEP);
    events.iter().map(|e| (e.kind, second(e), e.victim.as_deref(), e.group.as_deref(), e.times)).collect()
}

#[test]
fn a_kill_is_told_once_by_its_note_and_its_counters() {
    let killed = |second: usize, kills: f64| move |tick: usize| if tick == second { kills } else { 0.0 };
    let run = Recording::new(60)
        .with("paging.oom_kills", "", killed(30, 1.0))
        .with("cgroup.oom_kills", "/app", killed(30, 1.0))
        .with("cgroup.oom_kills", "/app/web", killed(30, 1.0))
        .with("cgroup.memory_limit_bytes", "/app/web", |_| 8e6);
    let verdict = judged(&run, &[kill(30, Some("/app/web"))]);
    assert_eq!(summary(&verdict.events), [(EventKind::OomKill, Some(30), Some("web"), Some("/app/web"), 1)]);
    let sentence = &verdict.events[0].sentence;
    assert!(sentence.starts_with("web (71) in /app/web was killed because memory ran out"), "{sentence}");
    assert!(sentence.contains("limit of 8.00 MiB") || sentence.contains("limit of 8"), "{sentence}");
    // without a note, the counters tell group and limit, and not who it was
    let verdict = judged(&run, &[]);
    assert_eq!(summary(&verdict.events), [(EventKind::OomKill, Some(31), None, Some("/app/web"), 1)]);
    assert_eq!((verdict.events[0].pid, verdict.events[0].limit_bytes), (None, Some(8_000_000)));
    // two were killed, and the kernel's message of one was seen
    let two = Recording::new(60).with("paging.oom_kills", "", killed(30, 2.0));
    let events = judged(&two, &[kill(30, None)]).events;
    assert_eq!(events.iter().map(|e| e.times).sum::<u64>(), 2, "{events:?}");
    assert_eq!(judged(&Recording::new(60).with("paging.oom_kills", "", |_| 0.0), &[]).events, []);
}

#[test]
fn what_was_before_the_window_is_no_event_of_it() {
    let run = Recording::new(60).with("paging.oom_kills", "", |_| 0.0);
    assert_eq!(judged(&run, &[kill(-3600, None), kill(3600, None)]).events, []);
    assert_eq!(judged(&run, &[kill(10, None)]).events.len(), 1);
}

#[test]
fn an_event_of_unknown_time_has_none() {
    let event = HostEvent::new(EventKind::ReadOnly, "EXT4-fs (sdg1): Remounting filesystem read-only");
    let event = HostEvent { victim: Some("sdg1".into()), ..event };
    let verdict =
        judged(&Recording::new(60).with("paging.oom_kills", "", |_| 0.0), &[Note::event(START + STEP, &event)]);
    let document = serde_json::to_value(&verdict.events[0]).unwrap();
    assert_eq!((document["kind"].as_str(), document["at"].is_null()), (Some("read_only"), true));
    for field in ["group", "limit_bytes", "pid"] {
        assert!(document[field].is_null(), "{document}");
    }
}

#[test]
fn a_filesystem_is_named_by_its_mount_point_and_told_once() {
    let filesystem = Filesystem { mount: "/data".into(), kind: "ext4".into(), device: "sdg1".into() };
    let topology = Topology { filesystems: vec![filesystem], ..Topology::default() };
    let read_only = |victim: &str, second: i64| {
        let time_ns = START + second * STEP;
        let event = HostEvent::new(EventKind::ReadOnly, "it is so");
        Note::event(time_ns, &HostEvent { time_ns: Some(time_ns), victim: Some(victim.into()), ..event })
    };
    let run = Recording::new(60).with("paging.oom_kills", "", |_| 0.0);
    let notes = [Note::topology(START, topology), read_only("sdg1", 10), read_only("/data", 40)];
    assert_eq!(summary(&judged(&run, &notes).events), [(EventKind::ReadOnly, Some(10), Some("/data"), None, 1)]);
}

#[test]
fn a_filesystem_is_full_when_nothing_is_free() {
    let space = |free: fn(usize) -> f64, inodes: f64| {
        let run = Recording::new(60)
            .with("logical_disk.free_bytes", "/var", free)
            .with("logical_disk.total_bytes", "/var", |_| 1e10)
            .with("logical_disk.inodes_free", "/var", move |_| inodes)
            .with("logical_disk.inodes_total", "/var", |_| 1e6);
        judged(&run, &[]).events
    };
    let became = space(|tick| if tick < 20 { 5e9 } else { 0.0 }, 9e5);
    assert_eq!(summary(&became), [(EventKind::Full, Some(21), Some("/var"), None, 1)]);
    let was = space(|_| 0.0, 9e5);
    assert_eq!(summary(&was), [(EventKind::Full, None, Some("/var"), None, 1)]);
    assert!(was[0].sentence.contains("when the window began"), "{}", was[0].sentence);
    let freed = space(|tick| if (20..30).contains(&tick) { 0.0 } else { 5e9 }, 9e5);
    assert!(freed[0].sentence.contains("room again"), "{}", freed[0].sentence);
    assert!(space(|_| 5e9, 0.0)[0].sentence.contains("inode"));
    assert_eq!(space(|_| 2e8, 9e5), [], "two per cent are not nothing");
    assert_eq!(space(|_| 0.0, 0.0), [], "an image has nothing to give");
}

#[test]
fn an_array_that_loses_a_member_is_an_event_and_one_that_lacked_it_is_not() {
    let lost = Recording::new(60).with("array.degraded", "md0", |tick| if tick < 20 { 0.0 } else { 1.0 });
    assert_eq!(summary(&judged(&lost, &[]).events), [(EventKind::DeviceFailed, Some(21), Some("md0"), None, 1)]);
    assert_eq!(judged(&Recording::new(60).with("array.degraded", "md0", |_| 1.0), &[]).events, []);
}
