use std::collections::HashSet;
use std::time::Duration;

use diskwright_results::facts::DeviceFacts;
use diskwright_results::requirement::{RequirementResult, Suitability};

use super::judge::{Measurement, Reasons, answer_program, judge_runs, judge_value};
use super::*;
use crate::engine::fake::FakeDevice;
use crate::result::Latency;
use crate::suites::Settings;
use crate::suites::tests::{MIB, run_on_fakes, settings};

fn program(id: &str) -> &'static Program {
    find_program(id).unwrap_or_else(|| panic!("no {id}"))
}

fn result<'a>(results: &'a [RequirementResult], id: &str) -> &'a RequirementResult {
    results.iter().find(|r| r.id == id).unwrap_or_else(|| panic!("no {id} in {results:?}"))
}

/// Measures a program on a device that serves four requests at once, each in the same time.
fn measure(id: &str, service_ns: u64, set: Settings) -> Vec<RunResult> {
    let suite = find_program_suite(id).expect("a suite");
    run_on_fakes(suite, set, |_| FakeDevice::with_service_time(4, service_ns)).0
}

fn long_runs() -> Settings {
    Settings { duration: Duration::from_secs(30), ..settings(512 * MIB) }
}

#[test]
fn every_program_is_complete_and_cites_its_sources() {
    let programs = load_programs().expect("readable");
    assert_eq!(programs.len(), PROGRAM_SUITES.len());
    for (program, suite) in programs.iter().zip(&PROGRAM_SUITES) {
        let id = &program.id;
        assert_eq!(suite.id, format!("for-{id}"));
        let ids: HashSet<&str> = program.requirements.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids.len(), program.requirements.len(), "{id}: an id twice");
        assert!(!program.more.is_empty() && !program.loads.is_empty(), "{id}");
        for requirement in &program.requirements {
            let name = format!("{id}/{}", requirement.id);
            let source = &requirement.source;
            assert!(!source.title.is_empty() && source.url.starts_with("https://"), "{name}");
            assert!(source.date.contains("20"), "{name}: no date");
            let has_load = |run: &String| program.loads.iter().any(|load| load.name == *run);
            let is_measured = requirement.run.as_ref().is_some_and(has_load) && requirement.figure.is_some();
            assert_ne!(is_measured, requirement.property.is_some(), "{name}: measured or a property");
            let is_limited = requirement.level != RequirementLevel::Unlimited;
            assert_eq!(requirement.limit().is_some(), is_measured && is_limited, "{name}");
            assert_eq!(requirement.effect.is_empty(), !is_limited, "{name}: what follows");
            assert_eq!(requirement.unit.is_empty(), !is_measured, "{name}: unit");
            // a figure without a published limit is our own choice
            assert!(is_limited || requirement.ours.is_some(), "{name}: ours");
        }
        let has_limit = program.requirements.iter().any(|r| r.limit().is_some());
        assert_eq!(program.no_number.is_some(), !has_limit, "{id}: what is published instead of numbers");
    }
}

#[test]
fn etcd_has_the_published_limits() {
    let limits: Vec<_> = program("etcd").requirements.iter().map(|r| (r.id.as_str(), r.limit())).collect();
    let expected = [
        ("wal-fsync", Some((LimitKind::Below, 0.010))),
        ("sequential-iops", Some((LimitKind::AtLeast, 50.0))),
        ("sequential-iops-heavy", Some((LimitKind::AtLeast, 500.0))),
        ("bandwidth", Some((LimitKind::AtLeast, 10e6))),
        ("bandwidth-large", Some((LimitKind::AtLeast, 100e6))),
    ];
    assert_eq!(limits, expected);
    let load = &program("etcd").loads[0];
    assert_eq!((load.size_bytes, load.durable, load.depth), (2300, Durability::Fdatasync, 1));
}

#[test]
fn a_fast_device_is_good_enough_for_etcd_and_a_slow_one_is_not() {
    // 0.5 ms: 2,000 commits a second, one after another
    let runs = measure("etcd", 500_000, long_runs());
    assert_eq!((runs[0].size_bytes, runs[0].pattern.as_ref().map(|p| p.buffered)), (2300.0, Some(true)));
    let results = judge_runs(program("etcd"), &runs, &DeviceFacts::default());
    let fsync = result(&results, "wal-fsync");
    assert!((fsync.measured.unwrap() / 5e-4 - 1.0).abs() < 0.05 && fsync.met == Some(true), "{fsync:?}");
    assert!((fsync.margin.unwrap() - 0.95).abs() < 0.01, "{fsync:?}");
    assert!((result(&results, "sequential-iops").measured.unwrap() - 2000.0).abs() < 100.0);
    assert_eq!(answer_program(program("etcd"), &results).answer, Suitability::Yes);

    // 31 ms: 968 commits in 30 s, too few for a 99th percentile, but no percentile can be under 31 ms
    let runs = measure("etcd", 31_000_000, long_runs());
    let results = judge_runs(program("etcd"), &runs, &DeviceFacts::default());
    let fsync = result(&results, "wal-fsync");
    assert_eq!((fsync.measured, fsync.met, fsync.margin), (None, Some(false), None));
    assert!(fsync.measured_at_least.is_some_and(|s| (0.029..0.033).contains(&s)), "{fsync:?}");
    assert!(fsync.why.contains("less than 10 ms is wanted: while a commit waits"), "{}", fsync.why);
    assert_eq!(result(&results, "sequential-iops").met, Some(false));
    let answer = answer_program(program("etcd"), &results);
    assert_eq!(answer.answer, Suitability::No);
    assert!(answer.because.starts_with("commit (2,300 B, fdatasync), 99th percentile: "), "{}", answer.because);
}

#[test]
fn a_missed_recommendation_is_reported_and_does_not_decide() {
    // 5 ms: 200 commits a second are enough, and too few for a heavily loaded cluster
    let runs = measure("etcd", 5_000_000, long_runs());
    let results = judge_runs(program("etcd"), &runs, &DeviceFacts::default());
    assert_eq!(result(&results, "sequential-iops-heavy").met, Some(false));
    let answer = answer_program(program("etcd"), &results);
    assert_eq!(answer.answer, Suitability::Yes);
    assert!(answer.because.contains("heavily loaded cluster (200/s, but at least 500/s"), "{}", answer.because);
}

#[test]
fn a_run_that_is_too_short_decides_nothing() {
    let runs = measure("etcd", 9_000_000, Settings { duration: Duration::from_millis(500), ..settings(512 * MIB) });
    let results = judge_runs(program("etcd"), &runs, &DeviceFacts::default());
    // of 55 commits of 9 ms the median is known; the longest is too
    assert_eq!(result(&results, "wal-fsync").met, Some(true));
    let mut slow_end = runs.clone();
    slow_end[0].latency_s.max = Some(0.5);
    let results = judge_runs(program("etcd"), &slow_end, &DeviceFacts::default());
    let fsync = result(&results, "wal-fsync");
    assert_eq!(fsync.met, None);
    assert!(fsync.why.contains("measure longer with --for"), "{}", fsync.why);
    assert_eq!(answer_program(program("etcd"), &results).answer, Suitability::Unknown);
    // nothing at all
    let results = judge_runs(program("etcd"), &[], &DeviceFacts::default());
    assert_eq!(answer_program(program("etcd"), &results).answer, Suitability::Unknown);
}

#[test]
fn the_worst_repeat_counts() {
    let run = |p99: f64| RunResult {
        name: "commit-2300".into(),
        latency_s: Latency { p99: Some(p99), max: Some(1.0), ..Latency::default() },
        requests_per_s: 1.0 / p99,
        ..RunResult::default()
    };
    let results = judge_runs(program("etcd"), &[run(0.004), run(0.012), run(0.008)], &DeviceFacts::default());
    assert_eq!(result(&results, "wal-fsync").measured, Some(0.012));
    assert!((result(&results, "sequential-iops").measured.unwrap() - 83.3).abs() < 0.1);
}

#[test]
fn a_request_that_never_completed_counts_as_long() {
    let run = RunResult {
        name: "fsync-16m".into(),
        unanswered: 1,
        unanswered_s: 12.0,
        latency_s: Latency { max: Some(0.1), ..Latency::default() },
        ..RunResult::default()
    };
    let results = judge_runs(program("redis-aof"), &[run], &DeviceFacts::default());
    let everysec = result(&results, "everysec");
    assert_eq!((everysec.met, everysec.measured_at_least), (Some(false), Some(12.0)));
}

#[test]
fn on_a_device_commits_are_whole_sectors_without_the_page_cache() {
    let runs = measure("etcd", 500_000, Settings { is_device: true, sector: 4096, ..long_runs() });
    assert_eq!((runs[0].size_bytes, runs[0].pattern.as_ref().map(|p| p.buffered)), (4096.0, Some(false)));
}

#[test]
fn programs_without_published_numbers_are_measured_and_not_judged() {
    for id in ["kafka", "postgres"] {
        let runs = measure(id, 1_000_000, Settings { duration: Duration::from_secs(2), ..settings(512 * MIB) });
        let device = DeviceFacts { filesystem: Some("ext4".into()), class: "nvme".into(), ..DeviceFacts::default() };
        let results = judge_runs(program(id), &runs, &device);
        let answer = answer_program(program(id), &results);
        assert_eq!(answer.answer, Suitability::NotPublished, "{id}: {results:?}");
        let measured = results.iter().filter(|r| r.level == RequirementLevel::Unlimited);
        for figure in measured {
            assert!(figure.measured.is_some_and(|v| v > 0.0) && figure.met.is_none(), "{id}: {figure:?}");
            assert!(figure.why.contains("publishes no limit"), "{}", figure.why);
        }
    }
}

#[test]
fn properties_of_the_target_are_judged() {
    let device = |filesystem: &str, options: &str, class: &str| DeviceFacts {
        filesystem: Some(filesystem.to_owned()).filter(|f| !f.is_empty()),
        options: Some(options.to_owned()),
        class: class.into(),
        ..DeviceFacts::default()
    };
    for (id, requirement, device, met) in [
        ("kafka", "block-storage", device("nfs4", "rw,hard", ""), Some(false)),
        ("kafka", "block-storage", device("xfs", "rw", "flash"), Some(true)),
        ("kafka", "block-storage", device("", "", "flash"), Some(true)),
        ("postgres", "nfs-hard", device("nfs4", "rw,soft,proto=tcp", ""), Some(false)),
        ("postgres", "nfs-hard", device("nfs", "rw,hard", ""), Some(true)),
        ("postgres", "nfs-hard", device("ext4", "rw", "flash"), None),
        ("elasticsearch", "local", device("cifs", "rw", ""), Some(false)),
        ("elasticsearch", "solid-state", device("ext4", "rw", "rotational"), Some(false)),
        ("elasticsearch", "solid-state", device("ext4", "rw", "nvme"), Some(true)),
        ("elasticsearch", "solid-state", device("ext4", "rw", "virtual"), None),
    ] {
        let results = judge_runs(program(id), &[], &device);
        let found = result(&results, requirement);
        assert_eq!(found.met, met, "{id} {requirement}: {found:?}");
        let answer = answer_program(program(id), &results).answer;
        let expected = if met == Some(false) { Suitability::No } else { Suitability::NotPublished };
        assert_eq!(answer, expected, "{id} {requirement}");
    }
}

#[test]
fn bounds_decide_where_they_can() {
    let etcd = program("etcd");
    let reasons = Reasons { unknown: "nothing", undecided: "too wide" };
    let judge = |low: Option<f64>, high: Option<f64>| {
        judge_value(&etcd.requirements[0], &Measurement::between(low, high), &reasons).met
    };
    assert_eq!(judge(Some(0.001), Some(0.009)), Some(true));
    assert_eq!(judge(Some(0.001), Some(0.010)), None);
    assert_eq!(judge(Some(0.010), None), Some(false));
    assert_eq!(judge(Some(0.001), None), None);
    assert_eq!(judge(None, None), None);
    assert_eq!(judge_value(&etcd.requirements[0], &Measurement::default(), &reasons).why, "nothing");
    let wide = judge_value(&etcd.requirements[0], &Measurement::between(Some(0.001), None), &reasons);
    assert_eq!(wide.why, "1 ms or more, and less than 10 ms is wanted: too wide");
}

#[test]
fn only_reads_are_measured_where_writing_is_not_allowed() {
    let suite = find_program_suite("vm-host").expect("a suite");
    let set = Settings { writes: false, ..settings(64 * MIB) };
    let (runs, remarks) = run_on_fakes(suite, set, |_| FakeDevice::with_service_time(4, 1_000_000));
    assert!(runs.iter().all(|run| run.read_share == 1.0));
    assert!(remarks.iter().any(|r| r.id == "only_read"), "{remarks:?}");
    let results = judge_runs(program("vm-host"), &runs, &DeviceFacts::default());
    assert_eq!(result(&results, "read-latency").met, Some(true));
    assert_eq!(result(&results, "write-latency").met, None);
    assert_eq!(answer_program(program("vm-host"), &results).answer, Suitability::Unknown);
}
