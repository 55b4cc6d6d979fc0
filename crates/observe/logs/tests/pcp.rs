//! PCP archives written by the encoder of these tests, complete and broken.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use crate::pcp_encoder;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pcp_encoder::{Archive, START, example};
use crate::sweep::sweep;
use diskwright_base::Note;
use diskwright_logs::{FrameBatch, LogError, LogInput, LogOptions, LogPiece, ReadSummary, pcp};

/// Output of an archive's reading.
#[derive(Debug, Default)]
struct ReadOutcome {
    times_ns: Vec<i64>,
    elapsed_ns: Vec<u64>,
    /// Values by series, scaled, one per tick of the frames that have it.
    series: HashMap<(String, String), Vec<f64>>,
    notes: Vec<Note>,
    summary: Option<ReadSummary>,
}

impl ReadOutcome {
    fn values(&self, counter: &str, instance: &str) -> &[f64] {
        self.series.get(&(counter.into(), instance.into())).map_or(&[], Vec::as_slice)
    }

    fn skip_reasons(&self) -> Vec<&str> {
        self.summary.iter().flat_map(|s| &s.skipped).map(|s| s.reason.as_str()).collect()
    }
}

/// Collects a piece; a series that comes later has gaps before.
fn collect_piece(got: &mut ReadOutcome, piece: LogPiece<'_>) {
    match piece {
        LogPiece::Note(note) => got.notes.push(note),
        LogPiece::Frame(frame) => {
            let before = got.times_ns.len();
            got.times_ns.extend(frame.ticks().iter().map(|t| t.time_ns));
            got.elapsed_ns.extend(frame.ticks().iter().map(|t| t.elapsed_ns));
            for (column, series) in frame.schema().series.iter().enumerate() {
                let all = got.series.entry((series.counter.clone(), series.instance.clone())).or_default();
                all.resize(before, f64::NAN);
                all.extend(frame.column(column).iter().map(|v| v * series.scale));
            }
            let now = got.times_ns.len();
            got.series.values_mut().for_each(|all| all.resize(now, f64::NAN));
        }
    }
}

fn read_bytes(meta: &[u8], volumes: &[&[u8]]) -> (ReadOutcome, Result<(), LogError>) {
    let mut got = ReadOutcome::default();
    let mut sink = |piece: LogPiece<'_>| {
        collect_piece(&mut got, piece);
        ControlFlow::Continue(())
    };
    let mut batch = FrameBatch::new("pcp", &mut sink);
    let read = pcp::read_bytes(meta, volumes, &mut batch);
    let summary = batch.finish("archive").ok();
    got.summary = summary;
    (got, read)
}

fn read_file(path: &Path) -> Result<ReadOutcome, LogError> {
    let mut got = ReadOutcome::default();
    let mut sink = |piece: LogPiece<'_>| {
        collect_piece(&mut got, piece);
        ControlFlow::Continue(())
    };
    let summary = diskwright_logs::read(&mut LogInput::open(path)?, &LogOptions::default(), &mut sink)?;
    got.summary = Some(summary);
    Ok(got)
}

/// Asserts that values are equal, gaps included.
fn assert_same(found: &[f64], wanted: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * b.abs();
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(near), "{found:?} is not {wanted:?}");
}

/// A folder for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pcp-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write_file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.0.join(name), bytes).expect("written");
        self.0.join(name)
    }

    fn write_archive(&self, name: &str, archive: &Archive) -> PathBuf {
        self.write_file(&format!("{name}.meta"), &archive.meta);
        self.write_file(&format!("{name}.0"), &archive.volume);
        self.write_file(&format!("{name}.index"), &archive.index);
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const NAN: f64 = f64::NAN;

#[test]
fn both_versions_give_the_same_values() {
    for version in [2, 3] {
        let example = example(version);
        let (got, read) = read_bytes(&example.meta, &[&example.volume]);
        read.expect("whole");
        let wanted: Vec<i64> = (0..=6).map(|s| (START + s) * 1_000_000_000 + 10_000_000).collect();
        assert_eq!(got.times_ns, wanted, "version {version}");
        // counters are what was added; not known at first, after a mark, and of a new disk
        assert_same(got.values("physical_disk.reads", "sda"), &[NAN, 100.0, 100.0, 100.0, NAN, 100.0, 100.0]);
        assert_same(got.values("physical_disk.reads", "sdb"), &[NAN, 10.0, 10.0, NAN, NAN, NAN, NAN]);
        assert_same(got.values("physical_disk.reads", "sdc"), &[NAN, NAN, NAN, NAN, NAN, 10.0, 10.0]);
        let bytes = 400.0 * 1024.0;
        assert_same(got.values("physical_disk.read_bytes", "sda"), &[NAN, bytes, bytes, bytes, NAN, bytes, bytes]);
        // 32 bits wrap in the second second
        assert_same(got.values("physical_disk.busy_time_s", "sda"), &[NAN, 0.25, 0.25, 0.25, NAN, 0.25, 0.25]);
        // a metric that could not be read is a gap
        let free = 1024.0 * 1024.0 * 1024.0;
        assert_same(got.values("memory.free_bytes", ""), &[free, free, free, free, free, NAN, free]);
        // one metric, three counters; on a longer interval, in the tick it belongs to
        assert_same(got.values("system.load_1", ""), &[1.5, NAN, 1.5, NAN, 1.5, NAN, 1.5]);
        assert_same(got.values("system.load_15", ""), &[1.0, NAN, 1.0, NAN, 1.0, NAN, 1.0]);
        // what the catalogue does not know: 100 in two seconds
        assert_same(got.values("foreign.own.requests", ""), &[NAN, NAN, 50.0, NAN, NAN, NAN, 50.0]);
        assert_eq!(got.elapsed_ns, [0, 1, 1, 1, 0, 1, 1].map(|s| s * 1_000_000_000), "nothing is known across a mark");
        let kinds: Vec<&str> = got.notes.iter().map(|n| n.kind.as_str()).collect();
        assert_eq!(kinds, [Note::SOURCE, Note::TOPOLOGY, Note::GAP]);
        let skipped = got.skip_reasons();
        assert!(skipped.contains(&"the logger could not read the metric"), "{skipped:?}");
        assert!(skipped.contains(&"metrics whose values are not numbers"), "{skipped:?}");
        assert_eq!(skipped.len(), 2, "{skipped:?}");
    }
}

#[test]
fn the_machine_is_known_from_the_first_records() {
    let example = example(3);
    let (got, _) = read_bytes(&example.meta, &[&example.volume]);
    let topology = got.notes[1].read_topology().expect("JSON");
    assert_eq!((topology.host.as_str(), topology.kernel.as_str()), ("db1", "6.1.0"));
    assert_eq!((topology.processors, topology.memory_bytes), (4, 8 << 30));
    assert!(topology.find_device("sda").is_some() && topology.is_leaf("sda"));
}

#[test]
fn a_span_that_is_not_the_ticks_gives_the_same_rate() {
    use pcp_encoder::{COUNT, COUNTER, DISKS, READS, U64, Value, pmid};
    let mut a = Archive::new(3, "h", 1);
    let slow = pmid(60, 0, 5);
    a.describe(READS, "disk.dev.read", U64, DISKS, COUNTER, COUNT);
    a.describe(slow, "disk.dev.write", U64, DISKS, COUNTER, COUNT);
    let start = START as f64;
    a.instances(start, DISKS, &[(0, "sda")]);
    for n in 0..=4u32 {
        let value = |each| vec![(0, Value::U64(u64::from(n * each)))];
        let mut sets = vec![(READS, Ok(value(10)))];
        if n % 2 == 0 {
            sets.push((slow, Ok(value(30))));
        }
        a.record(start + f64::from(n), &sets);
    }
    let (got, _) = read_bytes(&a.meta, &[&a.volume]);
    assert_same(got.values("physical_disk.reads", "sda"), &[NAN, 10.0, 10.0, 10.0, 10.0]);
    // 60 in two seconds is 30 in a tick of one
    assert_same(got.values("physical_disk.writes", "sda"), &[NAN, NAN, 30.0, NAN, 30.0]);
}

/// Makes an archive that describes two disk counters and a load, without records.
fn disks_and_load() -> Archive {
    use pcp_encoder::{COUNT, COUNTER, DISKS, FREE, INSTANT, KBYTE, NONE, OWN, READS, U32, U64};
    let mut a = Archive::new(3, "h", 1);
    a.describe(READS, "disk.dev.read", U64, DISKS, COUNTER, COUNT);
    a.describe(WRITES, "disk.dev.write", U64, DISKS, COUNTER, COUNT);
    a.describe(FREE, "mem.util.free", U64, NONE, INSTANT, KBYTE);
    a.describe(OWN, "kernel.all.pswitch", U32, NONE, COUNTER, COUNT);
    a.instances(START as f64, DISKS, &[(0, "sda"), (1, "sdb")]);
    a
}

const WRITES: u32 = 60 << 22 | 5;

/// Returns both disks' values of a counter that grows by `each` per second.
fn disk_values(time_s: f64, each: f64) -> Result<Vec<(u32, pcp_encoder::Value)>, i32> {
    let value = pcp_encoder::Value::U64;
    Ok(vec![(0, value((time_s * each).round() as u64)), (1, value((time_s * each).round() as u64 * 2))])
}

/// Asserts that a counter's sum equals what `pmdumplog` would add up.
fn assert_sum(found: &[f64], wanted: f64) {
    let sum: f64 = found.iter().filter(|v| !v.is_nan()).sum();
    assert!((sum - wanted).abs() <= 0.003 * wanted, "{sum} is not {wanted}: {found:?}");
}

#[test]
fn a_metric_in_two_groups_of_one_moment_does_not_cut_ticks() {
    use pcp_encoder::{FREE, READS, Value};
    // groups that follow at once, whatever is in both: nothing, a level, a counter, all
    for (both, groups) in [(0, 2), (1, 2), (2, 2), (3, 2), (3, 4)] {
        let mut a = disks_and_load();
        for n in 0..40 {
            for group in 0..groups {
                let time_s = f64::from(n) * 10.0 + f64::from(group) * 0.015 + f64::from(n % 3) * 0.002;
                let mut sets = Vec::new();
                if group == 0 || both >= 2 {
                    sets.push((WRITES, disk_values(time_s, 100.0)));
                }
                if group > 0 || both >= 3 {
                    sets.push((READS, disk_values(time_s, 200.0)));
                }
                if group == 0 || both >= 1 {
                    sets.push((FREE, Ok(vec![(0, Value::U64(1024))])));
                }
                a.record(START as f64 + time_s, &sets);
            }
        }
        let (got, _) = read_bytes(&a.meta, &[&a.volume]);
        let shown = format!("{both} in {groups}: {:?}", got.elapsed_ns);
        assert_eq!(got.times_ns.len(), 40, "{shown}");
        assert!(got.elapsed_ns[1..].iter().all(|e| e.abs_diff(10_000_000_000) < 10_000_000), "{shown}");
        assert_sum(got.values("physical_disk.writes", "sda"), 39.0 * 1000.0);
        assert_sum(got.values("physical_disk.reads", "sdb"), 39.0 * 4000.0);
        assert_same(got.values("memory.free_bytes", ""), &[1_048_576.0; 40]);
        assert!(got.notes.iter().all(|n| n.kind != Note::GAP), "{shown}");
    }
}

#[test]
fn groups_that_start_seconds_apart_are_ticks_of_the_disks() {
    use pcp_encoder::{FREE, Value};
    for behind in [0.7, 2.0, 3.0, 6.0, 8.0, 9.8] {
        let mut a = disks_and_load();
        for n in 0..40 {
            let time_s = f64::from(n) * 10.0;
            a.record(START as f64 + time_s, &[(WRITES, disk_values(time_s, 100.0))]);
            a.record(START as f64 + time_s + behind, &[(FREE, Ok(vec![(0, Value::U64(1024))]))]);
        }
        let (got, _) = read_bytes(&a.meta, &[&a.volume]);
        let all = &got.elapsed_ns;
        let tens = all.iter().filter(|e| **e == 10_000_000_000).count();
        // the last of the other group has no disks behind it
        assert!(tens >= 38 && all.len() <= 41, "{behind}: {all:?}");
        assert_sum(got.values("physical_disk.writes", "sda"), 39.0 * 1000.0);
    }
}

#[test]
fn a_small_group_on_a_shorter_interval_goes_into_the_ticks_of_the_disks() {
    use pcp_encoder::{FREE, OWN, Value};
    let mut a = disks_and_load();
    for n in 0..200u32 {
        let time_s = f64::from(n);
        let fast = [(OWN, Ok(vec![(0, Value::Word(7 * n))])), (FREE, Ok(vec![(0, Value::U64(u64::from(n % 2) * 2))]))];
        a.record(START as f64 + time_s, &fast);
        if n % 10 == 0 {
            a.record(START as f64 + time_s + 0.02, &[(WRITES, disk_values(time_s, 100.0))]);
        }
    }
    let (got, _) = read_bytes(&a.meta, &[&a.volume]);
    let tens = got.elapsed_ns.iter().filter(|e| e.abs_diff(10_000_000_000) < 10_000_000).count();
    assert!(tens >= 19 && got.elapsed_ns.len() <= 21, "{:?}", got.elapsed_ns);
    assert_sum(got.values("physical_disk.writes", "sda"), 19.0 * 1000.0);
    assert_sum(got.values("system.context_switches", ""), 199.0 * 7.0);
    // 0 and 2 kB by turns
    let free = got.values("memory.free_bytes", "");
    assert!(free[1..19].iter().all(|v| (v - 1024.0).abs() < 1e-6), "{free:?}");
    // and where the disks are logged as often, no tick is lost
    let mut a = disks_and_load();
    for n in 0..200 {
        let time_s = f64::from(n) * 0.1;
        a.record(START as f64 + time_s, &[(WRITES, disk_values(time_s, 100.0))]);
    }
    let (got, _) = read_bytes(&a.meta, &[&a.volume]);
    assert_eq!(got.times_ns.len(), 200);
}

#[test]
fn old_loggers_may_number_single_values_freely() {
    use pcp_encoder::{OWN, READS, Value};
    let mut a = disks_and_load();
    for n in 0..6u32 {
        let any = [0, 0, 131_585, 7, 7, u32::MAX][n as usize];
        let reads = vec![(0, Value::Untold((1 << 40) + u64::from(n) * 1000))];
        a.record(START as f64 + f64::from(n), &[(OWN, Ok(vec![(any, Value::Word(9 * n))])), (READS, Ok(reads))]);
    }
    let (got, _) = read_bytes(&a.meta, &[&a.volume]);
    assert_same(got.values("system.context_switches", ""), &[NAN, 9.0, 9.0, 9.0, 9.0, 9.0]);
    assert_same(got.values("physical_disk.reads", "sda"), &[NAN, 1000.0, 1000.0, 1000.0, 1000.0, 1000.0]);
    assert_eq!(got.skip_reasons(), [""; 0]);
}

#[test]
fn any_file_name_opens_the_archive() {
    let folder = Folder::new("names");
    let example = example(3);
    let base = folder.write_archive("log", &example);
    for name in ["log", "log.0", "log.meta", "log.index"] {
        let got = read_file(&folder.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(got.times_ns.len(), 7, "{name}");
    }
    let message = LogInput::open(&folder.0.join("log.2")).err().expect("no such file").to_string();
    assert!(message.contains("log.2"), "{message}");
    // packed, and in two volumes of which the second begins with its own label
    std::fs::remove_file(base.with_extension("0")).expect("removed");
    let cut = record_offset(&example.volume, START as f64 + 3.0);
    let second = [example.label("db1", 4711, 1), example.volume[cut..].to_vec()].concat();
    folder.write_file("log.0.zst", &zstd::encode_all(&example.volume[..cut], 1).expect("packed"));
    folder.write_file("log.1", &second);
    folder.write_file("log.meta", &zstd::encode_all(example.meta.as_slice(), 1).expect("packed"));
    std::fs::rename(folder.0.join("log.meta"), folder.0.join("log.meta.zst")).expect("renamed");
    for name in ["log", "log.1", "log.0.zst"] {
        let got = read_file(&folder.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_same(got.values("physical_disk.reads", "sda"), &[NAN, 100.0, 100.0, 100.0, NAN, 100.0, 100.0]);
    }
    let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    std::io::Write::write_all(&mut packed, &second).expect("packed");
    folder.write_file("log.1.bz2", &packed.finish().expect("packed"));
    std::fs::remove_file(folder.0.join("log.1")).expect("removed");
    for name in ["log", "log.1.bz2"] {
        let got = read_file(&folder.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(got.times_ns.len(), 7, "{name}");
    }
}

/// Returns the offset of the first record not before `time_s`.
fn record_offset(volume: &[u8], time_s: f64) -> usize {
    let word = |from: usize| u32::from_be_bytes(volume[from..from + 4].try_into().expect("four"));
    let mut from = word(0) as usize;
    while f64::from(word(from + 4)) < time_s {
        from += word(from) as usize;
    }
    from
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = Folder::new("mixed");
    let example = example(3);
    folder.write_archive("one", &example);
    folder.write_file("lone.0", &example.volume);
    let message = read_file(&folder.0.join("lone.0")).expect_err("no meta").to_string();
    assert!(message.contains("lone.meta is not beside it"), "{message}");
    folder.write_file("index.index", &example.index);
    assert!(read_file(&folder.0.join("index.index")).is_err());
    folder.write_file("bare.meta", &example.meta);
    let message = read_file(&folder.0.join("bare")).expect_err("no volume").to_string();
    assert!(message.contains("no volume"), "{message}");
    folder.write_archive("two", &Archive { volume: example.label("db2", 4711, 0), ..example.clone() });
    let message = read_file(&folder.0.join("two")).expect_err("another's").to_string();
    assert!(message.contains("two.0") && message.contains("db2") && message.contains("db1"), "{message}");
    let other = self::example(2);
    folder.write_archive("three", &Archive { meta: other.meta, ..example.clone() });
    assert!(read_file(&folder.0.join("three")).is_err(), "a version 3 volume with the other version's metadata");
    // a later volume of another archive loses only itself
    folder.write_file("one.1", &Archive::new(3, "db9", 1).volume);
    let got = read_file(&folder.0.join("one")).expect("the first is whole");
    assert_eq!(got.times_ns.len(), 7);
    assert!(got.skip_reasons().iter().any(|s| s.contains("a volume is left out") && s.contains("db9")));
}

#[test]
fn an_archive_cut_anywhere_yields_what_precedes() {
    for version in [2, 3] {
        let example = example(version);
        let all_ticks = read_bytes(&example.meta, &[&example.volume]).0.times_ns.len();
        let mut max_ticks = 0;
        for length in sweep(example.volume.len(), 200) {
            let (got, read) = read_bytes(&example.meta, &[&example.volume[..length]]);
            assert!(got.times_ns.len() >= max_ticks, "a longer beginning holds no less");
            max_ticks = got.times_ns.len();
            if read.is_ok() && got.summary.is_some() {
                continue;
            }
            assert!(got.times_ns.is_empty(), "what came before is kept");
        }
        assert_eq!(max_ticks, all_ticks, "the last record adds to a tick that was there");
        for length in sweep(example.meta.len(), 200) {
            let _ = read_bytes(&example.meta[..length], &[&example.volume]);
        }
    }
}

/// Corrupts single bytes of the files of each version.
#[test]
fn any_corrupted_byte_is_survived() {
    for version in [2, 3] {
        let example = example(version);
        for index in sweep(example.volume.len(), 200) {
            let mut volume = example.volume.clone();
            volume[index] = [0x00, 0x7f, 0xff, 0x04][index % 4] ^ u8::from(index % 8 == 3);
            let _ = read_bytes(&example.meta, &[&volume]);
        }
        for index in sweep(example.meta.len(), 200) {
            let mut meta = example.meta.clone();
            meta[index] = [0x00, 0x7f, 0xff, 0x04][index % 4] ^ u8::from(index % 8 == 3);
            let _ = read_bytes(&meta, &[&example.volume]);
        }
    }
}

#[test]
fn reports_wrong_lengths_with_their_place() {
    let example = example(2);
    let first = 132;
    let mut volume = example.volume.clone();
    volume[first..first + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let (got, read) = read_bytes(&example.meta, &[&volume]);
    assert!(read.is_ok() && got.times_ns.is_empty());
    let mut volume = example.volume.clone();
    let number_of_metrics = first + 12;
    volume[number_of_metrics..number_of_metrics + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let (got, _) = read_bytes(&example.meta, &[&volume]);
    assert!(got.skip_reasons().contains(&"a record whose numbers contradict its length"), "{:?}", got.skip_reasons());
    assert_eq!(got.times_ns.len(), 7, "only that record is lost");
    let summary = got.summary.expect("ticks");
    assert!(summary.skipped.iter().any(|s| s.context.contains("byte 132")), "{:?}", summary.skipped);
}

#[test]
fn time_that_goes_back_is_left_out() {
    let mut example = example(3);
    let late = example.volume.clone();
    example.record(START as f64 + 2.0, &[(pcp_encoder::FREE, Ok(vec![(u32::MAX, pcp_encoder::Value::U64(1))]))]);
    assert!(example.volume.len() > late.len());
    let (got, _) = read_bytes(&example.meta, &[&example.volume]);
    assert_eq!(got.times_ns.len(), 7);
    assert!(got.skip_reasons().contains(&"a record that is older than the previous one"), "{:?}", got.skip_reasons());
}

/// Runs one of PCP's tools and returns its output; `None` where it is not installed.
fn run_tool(name: &str, arguments: &[&str]) -> Option<String> {
    let Ok(done) = Command::new(name).args(arguments).env("TZ", "UTC").output() else {
        println!("skipped: {name} is not installed (package pcp)");
        return None;
    };
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{name} {arguments:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
    Some(text)
}

/// Runs `pmval` and returns its rows: the second of the minute, and a value per instance.
fn run_pmval(base: &Path, metric: &str, more: &[&str]) -> Option<Vec<(f64, Vec<f64>)>> {
    let base = base.to_str().expect("plain");
    let text = run_tool("pmval", &[&["-a", base, "-f", "6"], more, &[metric]].concat())?;
    let is_row = |l: &&str| l.split_whitespace().next().is_some_and(|w| w.len() == 12 && w.matches(':').count() == 2);
    let number = |w: &str| w.parse().unwrap_or(NAN);
    let row = |l: &str| {
        let mut words = l.split_whitespace();
        let second = words.next().and_then(|w| w.rsplit(':').next()).map_or(NAN, number);
        (second, words.map(number).collect())
    };
    Some(text.lines().filter(is_row).map(row).collect())
}

#[test]
fn pcps_own_tools_read_the_same_from_encoded_archives() {
    let folder = Folder::new("tools");
    for version in [2, 3] {
        let base = folder.write_archive(&format!("v{version}"), &example(version));
        let got = read_file(&base).expect("whole");
        let shown = base.to_str().expect("plain");
        let Some(dump) = run_tool("pmdumplog", &["-a", shown]) else { return };
        assert!(dump.contains("disk.dev.read") && dump.contains("<mark>"), "{dump}");
        // at the moments of the records, so that pmval has nothing to interpolate
        let window = ["-O", "0.01sec", "-t", "1sec", "-w", "20"];
        for (metric, counter, scale) in [
            ("disk.dev.read", "physical_disk.reads", 1.0),
            ("disk.dev.read_bytes", "physical_disk.read_bytes", 1024.0),
            ("disk.dev.avactive", "physical_disk.busy_time_s", 1.0),
        ] {
            let rows = run_pmval(&base, metric, &window).expect("installed");
            let ours = got.values(counter, "sda");
            let mut compared = 0;
            for (second, theirs) in &rows {
                let tick = got.times_ns.iter().position(|t| ((*t as f64 * 1e-9) % 60.0 - second).abs() < 0.005);
                let Some((theirs, tick)) = theirs.first().filter(|v| !v.is_nan()).zip(tick) else { continue };
                // pmval undoes wraps only with an option
                let ours = ours[tick] / scale;
                assert!((theirs - ours).abs() < 1e-3, "version {version}, {metric} at {second}: {theirs}, {ours}");
                compared += 1;
            }
            assert!(compared >= 3, "version {version}, {metric}: {rows:?}");
        }
    }
}

/// Returns a recording of pmlogger (PCP 6.0) on a quiet virtual machine, without label and help texts.
fn recorded_fixture(version: u8) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/pcp_v{version}"))
}

#[test]
fn reads_recordings_of_real_loggers() {
    for version in [2, 3] {
        let got = read_file(&recorded_fixture(version)).expect("whole");
        assert_eq!(got.times_ns.len(), 10, "version {version}");
        let disks: f64 = got.values("physical_disk.writes", "vda").iter().filter(|v| !v.is_nan()).sum();
        assert_eq!(disks, 309.0, "version {version}: what pmdumplog shows of the last less the first");
        // two processors have two seconds a second
        let all = ["user_s", "system_s", "idle_s", "iowait_s"].map(|c| format!("processor.{c}"));
        for tick in 1..10 {
            let sum: f64 = all.iter().map(|c| got.values(c, "_total")[tick]).sum();
            let seconds = got.elapsed_ns[tick] as f64 * 1e-9;
            assert!((sum / seconds - 2.0).abs() < 0.1, "version {version}, tick {tick}: {sum} in {seconds}");
        }
        let summary = got.summary.as_ref().expect("read");
        assert!(summary.skipped.is_empty() && summary.foreign == 0, "{summary:?}");
        assert_eq!(summary.host, "vm");
    }
}

#[test]
fn values_of_a_real_archive_equal_those_of_pmdumplog() {
    for version in [2, 3] {
        let base = recorded_fixture(version);
        let got = read_file(&base).expect("whole");
        for (metric, counter, instance, scale) in [
            ("disk.dev.write", "physical_disk.writes", "vda", 1.0),
            ("disk.dev.aveq", "physical_disk.weighted_time_s", "vda", 1e-3),
            ("kernel.all.cpu.user", "processor.user_s", "_total", 1e-3),
            ("mem.util.free", "memory.free_bytes", "", 1024.0),
        ] {
            let Some(text) = run_tool("pmdumplog", &[base.to_str().expect("plain"), metric]) else { return };
            let last = |l: &str| l.rsplit(' ').next().and_then(|w| w.parse::<f64>().ok());
            let raw: Vec<f64> = text.lines().filter(|l| l.contains(" value ")).filter_map(last).collect();
            let theirs: Vec<f64> = match metric {
                "mem.util.free" => raw.iter().map(|v| v * scale).collect(),
                _ => raw.windows(2).map(|w| (w[1] - w[0]) * scale).collect(),
            };
            let ours = got.values(counter, instance).iter().copied().filter(|v| !v.is_nan());
            assert_same(&ours.collect::<Vec<_>>(), &theirs);
        }
    }
}
