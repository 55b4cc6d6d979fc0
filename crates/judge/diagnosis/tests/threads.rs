//! One busy thread among several processors, and machines where nothing is blamed: who
//! does it, what programs wait for, and the neighbours that must not flip.

use crate::common::*;
use diskwright_base::{DeviceClass, Note, ProcessRow, ProcessTable, SleepRow, ThreadRow, Topology};
use diskwright_diagnosis::{Bottleneck, Verdict};

fn says(context: &str, verdict: &Verdict, truth: Bottleneck) {
    let held: Vec<String> = verdict.findings.iter().map(|f| format!("{} {}", f.rule, f.instance)).collect();
    assert_eq!(verdict.bottleneck, truth, "{context}: {held:?} {}", verdict.sentence);
}

/// A live machine of so many processors, so busy, with a thread that uses `thread` of one.
fn machine(processors: u32, busy: f64, thread: f64) -> Recording {
    let topology =
        Topology { devices: vec![device("vda", DeviceClass::Virtual, &[], None)], processors, ..Topology::default() };
    Recording::new(60)
        .topology(topology)
        .with("processor.user", "_total", move |_| busy)
        .with("processor.privileged", "_total", |_| 0.0)
        .with("processor.iowait", "_total", |_| 0.0)
        .with("processor.idle", "_total", move |_| 1.0 - busy)
        .with("processor.busy", "_total", move |_| busy)
        .with("pressure.memory_some_s", "", |_| 0.0)
        .with("system.busiest_thread", "", move |_| thread)
}

fn quiet_disk(recording: Recording) -> Recording {
    recording
        .disk("vda", 2.0, 0.0005, 0.001)
        .with("pressure.io_some_s", "", |_| 0.001)
        .with("pressure.cpu_some_s", "", |_| 0.02)
        .with("system.running", "", |_| 1.0)
}

fn table(rows: Vec<ProcessRow>, sleepers: &[(&str, &str, u32)]) -> Note {
    let sleep = |(name, waits_in, threads): &(&str, &str, u32)| SleepRow {
        name: (*name).into(),
        waits_in: (*waits_in).into(),
        threads: *threads,
    };
    let sleepers = sleepers.iter().map(sleep).collect();
    let table = ProcessTable { elapsed_s: 10.0, rows, sleepers, ..ProcessTable::default() };
    Note::new(START + 11 * SECOND as i64, Note::PROCESSES, serde_json::to_string(&table).unwrap())
}

fn row(pid: u32, name: &str, processor: f64) -> ProcessRow {
    ProcessRow { pid, name: name.into(), processor, ..ProcessRow::default() }
}

#[test]
fn one_thread_among_several_processors_is_named_with_its_process() {
    for processors in [2, 4, 16, 64] {
        let recording = quiet_disk(machine(processors, 1.05 / f64::from(processors), 0.99));
        let thread = ThreadRow { tid: 4713, name: "encoder".into(), processor: 0.98 };
        // one with more processors in use, by many threads, is not the one
        let server = ProcessRow {
            busiest_thread: Some(ThreadRow { tid: 9, name: "pool-1".into(), processor: 0.4 }),
            ..row(8, "server", 2.4)
        };
        let film = ProcessRow { busiest_thread: Some(thread.clone()), ..row(4711, "film", 1.0) };
        let verdict = recording.with_tables(&[table(vec![server, film], &[])]);
        says("one thread", &verdict, Bottleneck::Cpu);
        assert_eq!(verdict.findings[0].rule, "cpu.one-thread");
        assert_eq!((verdict.culprits[0].pid, &verdict.culprits[0].thread), (Some(4711), &Some(thread)));
        let expected = "thread encoder (4713) of film (process 4711) uses 99 % of one processor";
        assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
        assert!(verdict.sentence.contains("More processors will not"), "{}", verdict.sentence);
        assert!((0.6..0.8).contains(&verdict.confidence), "{}: who waits for it is not known", verdict.confidence);
        let advice: Vec<&str> = verdict.advice.iter().map(|a| a.id.as_str()).collect();
        assert_eq!(advice, ["cpu.wanted", "cpu.profile-thread", "cpu.use-threads", "cpu.faster"]);
    }
}

#[test]
fn real_time_tasks_that_take_the_processors_are_the_condition_and_named_first() {
    let recording = quiet_disk(machine(2, 1.0, 1.0)).with("system.realtime_processors", "", |_| 1.9);
    let hog = ProcessRow { realtime_priority: Some(50), ..row(4711, "hog", 1.9) };
    // the recorder's own class, and an ordinary program that starves
    let rows = vec![ProcessRow { realtime_priority: Some(1), ..row(7, "clock", 0.001) }, row(8, "server", 0.1), hog];
    let verdict = recording.with_tables(&[table(rows, &[])]);
    says("real-time tasks", &verdict, Bottleneck::Cpu);
    assert_eq!(verdict.findings[0].rule, "cpu.realtime");
    assert!(verdict.sentence.contains("real-time tasks take the processors"), "{}", verdict.sentence);
    let named: Vec<&str> = verdict.culprits.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(named, ["hog"]);
    assert!(verdict.culprits[0].description.contains("real-time priority 50"), "{}", verdict.culprits[0].description);
    assert_eq!(verdict.advice[0].command.as_deref(), Some("chrt --other --all-tasks --pid 0 4711"));
    assert_eq!(verdict.advice[1].id, "cpu.realtime-lower");
}

#[test]
fn a_quota_of_processor_time_names_who_computes() {
    let recording = quiet_disk(machine(4, 0.2, 0.4))
        .with("cgroup.cpu_periods", "/web", |_| 10.0)
        .with("cgroup.cpu_throttled_periods", "/web", |_| 9.0)
        .with("cgroup.cpu_throttled_s", "/web", |_| 0.5);
    let of_web = |process: ProcessRow| ProcessRow { cgroup: "/web".into(), ..process };
    let logger = ProcessRow { write_bytes_per_s: Some(1e4), ..row(7, "logger", 0.01) };
    let rows = vec![of_web(logger), of_web(row(8, "render", 0.5)), row(9, "other", 0.9)];
    let verdict = recording.with_tables(&[table(rows, &[])]);
    says("a quota", &verdict, Bottleneck::Throttle);
    let named: Vec<(&str, &str)> = verdict.culprits.iter().map(|c| (c.kind.as_str(), c.name.as_str())).collect();
    assert_eq!(named, [("cgroup", "/web"), ("process", "render")]);
}

#[test]
fn its_neighbours_do_not_flip() {
    says("an idle machine", &quiet_disk(machine(4, 0.02, 0.03)).by_default(), Bottleneck::None);
    says("a modest thread", &quiet_disk(machine(4, 0.25, 0.6)).by_default(), Bottleneck::None);
    let short = quiet_disk(machine(4, 0.25, 0.0)).with("system.busiest_thread", "", |_| f64::NAN);
    says("what is not known", &short.by_default(), Bottleneck::None);
    let one = quiet_disk(machine(1, 0.7, 0.95)).by_default();
    says("one processor", &one, Bottleneck::None);
    let full = |busy: f64| {
        machine(2, busy, 0.97)
            .disk("vda", 2.0, 0.0005, 0.001)
            .with("pressure.io_some_s", "", |_| 0.0)
            .with("pressure.cpu_some_s", "", |_| 0.8)
            .with("system.running", "", |_| 9.0)
            .by_default()
    };
    let saturated = full(0.99);
    says("all processors", &saturated, Bottleneck::Cpu);
    assert!(saturated.findings.iter().all(|f| f.rule != "cpu.one-thread"), "{}", saturated.sentence);
    assert!(saturated.advice.iter().any(|a| a.id == "cpu.add"));
}

#[test]
fn a_saturated_disk_stays_ahead_of_a_busy_thread() {
    for thread in [0.2, 0.5, 0.99] {
        let verdict = machine(4, 0.1 + thread / 4.0, thread)
            .disk("vda", 120.0, 0.066, 1.0)
            .with("pressure.io_some_s", "", |_| 0.95)
            .with("pressure.cpu_some_s", "", |_| 0.02)
            .with("system.blocked", "", |_| 8.0)
            .with("system.running", "", |_| 1.0)
            .by_default();
        says("a saturated disk", &verdict, Bottleneck::Disk);
    }
}

#[test]
fn where_nothing_is_blamed_programs_tell_what_they_wait_for() {
    let recording = quiet_disk(machine(4, 0.05, 0.08));
    let rows = || vec![row(31, "shop", 0.08), row(32, "client", 0.01), row(33, "cron", 0.0)];
    let sleepers = [("shop", "futex_wait_queue", 24), ("client", "sk_wait_data", 1), ("cron", "hrtimer_nanosleep", 1)];
    let verdict = recording.with_tables(&[table(rows(), &sleepers), table(rows(), &sleepers)]);
    says("a lock", &verdict, Bottleneck::None);
    let programs: Vec<(&str, &str, u32)> =
        verdict.programs.iter().map(|p| (p.name.as_str(), p.sleeps[0].kind.as_str(), p.sleeps[0].threads)).collect();
    assert_eq!(programs, [("shop", "lock", 24), ("client", "network", 1)]);
    assert_eq!(
        verdict.programs[0].description,
        "8 % of a processor, 24 threads wait for a lock, or for work (futex_wait_queue)"
    );
    assert!(verdict.programs[1].next_step.contains("ss -tnp"), "{}", verdict.programs[1].next_step);
    // where something is blamed it is told who does it, and nothing else
    let busy = quiet_disk(machine(4, 0.3, 0.99));
    assert!(busy.with_tables(&[table(rows(), &sleepers)]).programs.is_empty());
}
