//! Logs of other tools as people paste them: without pressure, without times, often with a part of the counters.

use crate::common::*;
use diskwright_base::Note;
use diskwright_diagnosis::{Bottleneck, Judge, Verdict};

/// Judged by the default pack as a log of a format, with a warning of its reader.
fn judge_paste(recording: &Recording, format: &str, warning: &str) -> Verdict {
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let mut judge = Judge::new(vec![pack], recording.options());
    judge.add_note(&Note::new(START, Note::SOURCE, format));
    if !warning.is_empty() {
        judge.add_note(&Note::new(START, Note::WARNING, warning));
    }
    judge.add_frame(&recording.frame(0..recording.ticks));
    judge.finish().remove(0)
}

/// Rows of vmstat: pages in and out a second, blocked tasks, iowait, idle, bytes of cache, bytes read a second.
fn vmstat_recording(ticks: usize, [pages_in, pages_out, blocked, iowait, idle, cached, read]: [f64; 7]) -> Recording {
    Recording::new(ticks)
        .with("system.running", "", |_| 1.0)
        .with("system.blocked", "", move |_| blocked)
        .with("memory.free_bytes", "", |_| 31e6)
        .with("memory.cached_bytes", "", move |_| cached)
        .with("paging.swap_in_pages_per_s", "", move |_| pages_in)
        .with("paging.swap_out_pages_per_s", "", move |_| pages_out)
        .with("paging.block_in_bytes_per_s", "", move |_| read)
        .with("paging.block_out_bytes_per_s", "", |_| 212e3)
        .with("processor.iowait", "_total", move |_| iowait)
        .with("processor.idle", "_total", move |_| idle)
        .with("processor.busy", "_total", move |_| 1.0 - idle - iowait)
}

fn assert_bottleneck(verdict: &Verdict, bottleneck: Bottleneck) {
    let found: Vec<&str> = verdict.findings.iter().map(|f| f.rule.as_str()).collect();
    assert_eq!(verdict.bottleneck, bottleneck, "{found:?} {}", verdict.sentence);
}

fn ruled_out_bottlenecks(verdict: &Verdict) -> Vec<Bottleneck> {
    verdict.ruled_out.iter().map(|exclusion| exclusion.bottleneck).collect()
}

#[test]
fn slow_paging_of_a_slow_disk_is_a_shortage_of_memory() {
    let verdict = judge_paste(&vmstat_recording(12, [90.0, 380.0, 17.0, 0.97, 0.0, 38e6, 2.9e6]), "vmstat-text", "");
    assert_bottleneck(&verdict, Bottleneck::Memory);
    assert_eq!(verdict.findings[0].rule, "memory.swapping");
    // the same pages beside a copy of a hundred times as much are none
    let copy = judge_paste(&vmstat_recording(12, [9.0, 38.0, 3.0, 0.5, 0.4, 2e9, 190e6]), "vmstat-text", "");
    assert_bottleneck(&copy, Bottleneck::Disk);
}

#[test]
fn a_cache_that_is_read_anew_all_the_time_is_a_shortage_of_memory() {
    let verdict = judge_paste(&vmstat_recording(12, [0.0, 0.0, 14.0, 0.8, 0.02, 52e6, 33e6]), "vmstat-text", "");
    assert_bottleneck(&verdict, Bottleneck::Memory);
    assert!(verdict.ruled_out.iter().all(|r| r.bottleneck != Bottleneck::Memory));
    // with a cache of two gigabytes it is the disk
    assert_bottleneck(
        &judge_paste(&vmstat_recording(12, [0.0, 0.0, 14.0, 0.8, 0.02, 2e9, 33e6]), "vmstat-text", ""),
        Bottleneck::Disk,
    );
}

#[test]
fn tasks_that_wait_for_an_unknown_disk_name_the_commands_that_show_it() {
    let verdict = judge_paste(&vmstat_recording(12, [0.0, 0.0, 6.0, 0.7, 0.2, 2e9, 5e6]), "vmstat-text", "");
    assert_bottleneck(&verdict, Bottleneck::Disk);
    assert_eq!(verdict.findings[0].rule, "disk.tasks-blocked");
    let next: Vec<&str> = verdict.send_next.iter().map(|next| next.command.as_str()).collect();
    assert_eq!(next, ["iostat -xz 1 30", "pidstat -d 1 30"]);
    assert!(ruled_out_bottlenecks(&verdict).contains(&Bottleneck::Memory), "no page moves, and the cache is large");
}

#[test]
fn nothing_is_ruled_out_without_the_evidence_that_would_have_shown_it() {
    // processors alone show neither paging nor the cache
    let processors = Recording::new(12)
        .with("processor.iowait", "_total", |_| 0.6)
        .with("processor.idle", "_total", |_| 0.35)
        .with("processor.busy", "_total", |_| 0.05);
    let verdict = judge_paste(&processors, "top-text", "");
    assert_bottleneck(&verdict, Bottleneck::Disk);
    assert!(!ruled_out_bottlenecks(&verdict).contains(&Bottleneck::Memory), "{:?}", verdict.ruled_out);
    assert!(!ruled_out_bottlenecks(&verdict).contains(&Bottleneck::Interrupts), "{:?}", verdict.ruled_out);
    // an idle one rules out the disk, and asks for the rest
    let idle = Recording::new(12)
        .with("processor.iowait", "_total", |_| 0.0)
        .with("processor.idle", "_total", |_| 0.97)
        .with("processor.busy", "_total", |_| 0.03);
    let verdict = judge_paste(&idle, "top-text", "");
    assert_bottleneck(&verdict, Bottleneck::None);
    assert!(!ruled_out_bottlenecks(&verdict).contains(&Bottleneck::Memory), "{:?}", verdict.ruled_out);
    assert_eq!(verdict.send_next[0].command, "vmstat 1 30");
}

#[test]
fn nothing_is_ruled_out_where_there_is_not_enough_data() {
    let disk = Recording::new(12)
        .with("physical_disk.avg_queue_length", "sda", |_| 3.0)
        .with("physical_disk.avg_s_per_transfer", "sda", |_| 0.004)
        .with("physical_disk.busy", "sda", |_| 0.93);
    let verdict = judge_paste(&disk, "iostat-text", "");
    assert_bottleneck(&verdict, Bottleneck::Unknown);
    assert!(verdict.ruled_out.is_empty(), "{:?}", verdict.ruled_out);
    assert!(!verdict.send_next.is_empty());
}

#[test]
fn conditions_on_the_log_itself_are_no_reasons() {
    let disk = |name: &'static str| {
        Recording::new(12)
            .with("physical_disk.avg_queue_length", name, |_| 0.1)
            .with("physical_disk.avg_read_queue_length", name, |_| 0.05)
            .with("physical_disk.avg_s_per_transfer", name, |_| 0.03)
            .with("physical_disk.busy", name, |_| 0.1)
            .with("processor.iowait", "_total", |_| 0.01)
            .with("processor.busy", "_total", |_| 0.1)
    };
    let verdict = judge_paste(&disk("sda"), "iostat-text", "");
    for reason in verdict.ruled_out.iter().map(|exclusion| exclusion.because.as_str()) {
        assert!(!reason.contains("unseen") && !reason.contains("unknown"), "{reason}");
    }
}

#[test]
fn a_full_disk_comes_before_one_that_is_idle_much_of_the_time() {
    let disk = |recording: Recording, name: &'static str, [reads, seconds, queue, busy]: [f64; 4]| {
        recording
            .with("physical_disk.reads_per_s", name, move |_| reads)
            .with("physical_disk.writes_per_s", name, |_| 0.0)
            .with("physical_disk.transfers_per_s", name, move |_| reads)
            .with("physical_disk.avg_s_per_read", name, move |_| seconds)
            .with("physical_disk.avg_s_per_transfer", name, move |_| seconds)
            .with("physical_disk.avg_read_queue_length", name, move |_| queue)
            .with("physical_disk.avg_queue_length", name, move |_| queue)
            .with("physical_disk.busy", name, move |_| busy)
    };
    let lazy = disk(Recording::new(12), "sdb", [95.0, 0.008, 0.76, 0.36]);
    let both = disk(lazy, "sdd", [1700.0, 0.0041, 7.2, 0.96]);
    let verdict = judge_paste(&both, "iostat-text", "");
    assert_bottleneck(&verdict, Bottleneck::Disk);
    assert_eq!(verdict.instance, "sdd", "{:?}", verdict.findings);
}

#[test]
fn durations_of_a_log_without_times_are_told_in_reports() {
    const WARNING: &str = "the reports have no times, and their interval is not known: they are counted";
    let mut recording = vmstat_recording(9, [0.0, 0.0, 6.0, 0.7, 0.2, 2e9, 5e6]);
    recording.start(0);
    let verdict = judge_paste(&recording, "vmstat-text", WARNING);
    assert_eq!(verdict.window.reports, Some(9));
    assert!(verdict.sentence.contains("in all 9 reports"), "{}", verdict.sentence);
    assert!(!verdict.window.is_dated);
    let json = serde_json::to_value(&verdict.window).unwrap();
    assert!(json["from"].is_null() && json["to"].is_null(), "{json}");
    assert!(verdict.certainty_limits.iter().all(|limit| !limit.contains("9 s")), "{:?}", verdict.certainty_limits);
    // with an interval, seconds are seconds
    let verdict = judge_paste(&recording, "vmstat-text", "counted from midnight UTC");
    assert_eq!(verdict.window.reports, None);
    assert!(verdict.sentence.contains("of 9 s"), "{}", verdict.sentence);
}

#[test]
fn a_log_laid_beside_others_is_judged_by_the_time_that_it_covers() {
    // two reports of a disk beside ten rows of processors
    let while_seen = |value: f64| move |tick: usize| if tick < 2 { value } else { f64::NAN };
    let beside = Recording::new(12)
        .with("physical_disk.avg_write_queue_length", "sdc", while_seen(0.93))
        .with("physical_disk.avg_queue_length", "sdc", while_seen(0.95))
        .with("physical_disk.avg_s_per_write", "sdc", while_seen(0.0093))
        .with("physical_disk.busy", "sdc", while_seen(0.98))
        .with("system.blocked", "", |_| 7.0)
        .with("processor.iowait", "_total", |_| 0.77)
        .with("processor.busy", "_total", |_| 0.21);
    let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
    let judged = |sources: &[&str]| {
        let mut judge = Judge::new(vec![pack.clone()], beside.options());
        sources.iter().for_each(|source| judge.add_note(&Note::new(START, Note::SOURCE, *source)));
        judge.add_frame(&beside.frame(0..beside.ticks));
        judge.finish().remove(0)
    };
    assert_bottleneck(&judged(&["vmstat-text", "iostat-text"]), Bottleneck::Disk);
    // of one log, two seconds of twelve prove little
    assert_ne!(judged(&["iostat-text"]).bottleneck, Bottleneck::Disk);
}

#[test]
fn a_machine_that_hardly_waits_is_healthy_by_rows_of_vmstat() {
    let verdict = judge_paste(&vmstat_recording(12, [0.0, 0.0, 0.0, 0.11, 0.81, 2e9, 8e5]), "vmstat-text", "");
    assert_bottleneck(&verdict, Bottleneck::None);
    assert!(ruled_out_bottlenecks(&verdict).contains(&Bottleneck::Memory), "{:?}", verdict.ruled_out);
}

/// A recording of levels that stay: counter, instance, value.
fn levels(cells: &[(&'static str, &'static str, f64)]) -> Recording {
    cells.iter().fold(Recording::new(12), |recording, (counter, instance, value)| {
        let value = *value;
        recording.with(counter, instance, move |_| value)
    })
}

/// What each tool alone can rule out, while all that it shows is healthy.
#[test]
fn a_tool_rules_out_only_what_it_would_have_shown() {
    use Bottleneck::{Cpu, Disk, Interrupts, Memory};
    let free = [
        ("memory.total_bytes", "", 16e9),
        ("memory.available_bytes", "", 11e9),
        ("memory.swap_total_bytes", "", 2e9),
        ("memory.swap_free_bytes", "", 2e9),
    ];
    let top =
        [("processor.iowait", "_total", 0.0), ("processor.idle", "_total", 0.97), ("processor.busy", "_total", 0.03)];
    let rates = [("physical_disk.transfers_per_s", "sda", 9.0), ("physical_disk.bytes_per_s", "sda", 9e4)];
    let disk = [
        ("physical_disk.avg_queue_length", "sda", 0.1),
        ("physical_disk.avg_s_per_transfer", "sda", 0.0004),
        ("physical_disk.busy", "sda", 0.04),
        ("physical_disk.transfers_per_s", "sda", 90.0),
    ];
    let netstat = [("network.listen_overflow_fraction", "TCP", 0.0), ("network.udp_lost_fraction", "UDP", 0.0)];
    let drops = [("network.received_drop_fraction", "eth0", 0.0)];
    let sockets = [("network.full_listen_queues", "TCP", 0.0)];
    for (name, cells, allowed) in [
        ("free", &free[..], &[][..]),
        ("top", &top, &[Disk, Cpu]),
        ("iostat -d", &rates, &[]),
        ("iostat -dx", &disk, &[Disk]),
        ("netstat -s", &netstat, &[]),
        ("ip -s link", &drops, &[]),
        ("ss -l", &sockets, &[]),
    ] {
        let found = ruled_out_bottlenecks(&judge_paste(&levels(cells), "snapshot-text", ""));
        assert!(found.iter().all(|bottleneck| allowed.contains(bottleneck)), "{name}: {found:?}");
    }
    let vmstat = judge_paste(&vmstat_recording(12, [0.0, 0.0, 0.0, 0.0, 0.95, 2e9, 0.0]), "vmstat-text", "");
    let found = ruled_out_bottlenecks(&vmstat);
    assert!(found.iter().all(|bottleneck| [Memory, Disk, Cpu, Interrupts].contains(bottleneck)), "{found:?}");
    assert!(found.contains(&Memory) && found.contains(&Disk) && found.contains(&Cpu), "{found:?}");
}

/// One task of many processors that always waits is a small mean.
#[test]
fn a_mean_over_all_processors_rules_out_no_disk_that_one_task_may_wait_for() {
    let processors = |iowait: f64| {
        levels(&[
            ("processor.iowait", "_total", iowait),
            ("processor.idle", "_total", 0.9 - iowait),
            ("processor.busy", "_total", 0.1),
        ])
    };
    for (iowait, blocked, is_ruled_out) in [(0.03, None, false), (0.004, None, true), (0.03, Some(0.0), true)] {
        let recording = match blocked {
            Some(tasks) => processors(iowait).with("system.blocked", "", move |_| tasks),
            None => processors(iowait),
        };
        let verdict = judge_paste(&recording, "vmstat-text", "");
        assert_eq!(ruled_out_bottlenecks(&verdict).contains(&Bottleneck::Disk), is_ruled_out, "{iowait} {blocked:?}");
    }
}

#[test]
fn memory_is_not_asked_for_where_much_is_available() {
    for (available, is_asked) in [(11e9, false), (2e9, true)] {
        let recording = levels(&[("memory.total_bytes", "", 16e9), ("memory.available_bytes", "", available)]);
        let verdict = judge_paste(&recording, "snapshot-text", "");
        let asked = verdict.send_next.iter().any(|next| next.shows.contains("whether memory is short"));
        assert_eq!(asked, is_asked, "{available}: {:?}", verdict.send_next);
    }
}

#[test]
fn tasks_that_wait_beside_idle_disks_wait_for_something_else() {
    let idle_disk = |recording: Recording| {
        let recording = recording.with("physical_disk.busy", "sdx", |_| 0.001);
        recording.with("physical_disk.avg_queue_length", "sdx", |_| 0.0)
    };
    let waiting = idle_disk(vmstat_recording(12, [0.0, 0.0, 20.0, 0.98, 0.01, 2e9, 0.0]));
    let verdict = judge_paste(&waiting, "vmstat-text", "");
    assert_bottleneck(&verdict, Bottleneck::Unknown);
    assert!(verdict.sentence.contains("not for the disks shown"), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("Disks shown: sdx."), "{}", verdict.sentence);
    let evidence: Vec<&str> = verdict.findings[0].evidence.iter().map(|e| e.counter.as_str()).collect();
    assert!(evidence.contains(&"processor.iowait") && evidence.contains(&"physical_disk.busy"), "{evidence:?}");
    assert!(verdict.advice.iter().any(|advice| advice.text.contains("wchan")), "{:?}", verdict.advice);
}

#[test]
fn what_is_broken_stands_in_the_answer_even_if_it_limits_nothing() {
    let healthy = || vmstat_recording(12, [0.0, 0.0, 0.0, 0.0, 0.95, 2e9, 0.0]);
    let full = healthy()
        .with("logical_disk.total_bytes", "/var", |_| 1e10)
        .with("logical_disk.free_bytes", "/var", |_| 0.0)
        .with("logical_disk.read_only", "/var", |_| 0.0);
    let inactive = healthy().with("array.inactive", "md31", |_| 1.0);
    for (recording, part) in [(full, "/var: it is full"), (inactive, "md31: the array does not run")] {
        let verdict = judge_paste(&recording, "vmstat-text", "");
        assert_bottleneck(&verdict, Bottleneck::None);
        assert!(verdict.sentence.contains(part), "{}", verdict.sentence);
    }
    let alone = levels(&[
        ("logical_disk.total_bytes", "/var", 1e10),
        ("logical_disk.free_bytes", "/var", 0.0),
        ("logical_disk.read_only", "/var", 0.0),
    ]);
    let verdict = judge_paste(&alone, "snapshot-text", "");
    assert!(verdict.sentence.starts_with("The filesystem /var is the bottleneck"), "{}", verdict.sentence);
}

#[test]
fn counters_of_a_log_are_not_asked_for_again() {
    let log = levels(&[
        ("physical_disk.disk_time_nt", "0", 0.76),
        ("memory.available_bytes", "", 48e6),
        ("paging.page_reads_per_s", "", 0.9),
        ("paging.page_writes_per_s", "", 0.1),
    ]);
    let verdict = judge_paste(&log, "perfmon-text", "");
    let shown: Vec<&str> = verdict.send_next.iter().map(|next| next.shows.as_str()).collect();
    assert!(!shown.iter().any(|shows| shows.contains("memory")), "{shown:?}");
    assert!(shown.iter().any(|shows| shows.contains("processors")), "{shown:?}");
}

/// The paper judges disks by snapshots of their queue. With the average, they are judged too; without either, the one
/// rule that remains rules nothing out.
#[test]
fn a_document_rules_out_no_disk_that_it_could_not_judge() {
    let judge = |cells: &[(&'static str, &'static str, f64)]| {
        let pack = diskwright_diagnosis::packs::builtin_pack("sas-1998").unwrap().unwrap();
        let recording = levels(cells);
        recording.judge(vec![pack], recording.options(), recording.ticks).remove(0)
    };
    let seconds = ("physical_disk.avg_s_per_transfer", "0", 0.08);
    let processor = ("processor.busy", "_total", 0.1);
    let without = judge(&[seconds, processor, ("physical_disk.disk_time_nt", "0", 1.0)]);
    assert!(!ruled_out_bottlenecks(&without).contains(&Bottleneck::Disk), "{:?}", without.ruled_out);
    let busy = ("physical_disk.disk_time_nt", "0", 1.0);
    let average = judge(&[seconds, processor, busy, ("physical_disk.avg_queue_length", "0", 16.0)]);
    assert_bottleneck(&average, Bottleneck::Disk);
    let snapshot = judge(&[seconds, processor, busy, ("physical_disk.current_queue_length", "0", 1.0)]);
    assert!(ruled_out_bottlenecks(&snapshot).contains(&Bottleneck::Disk), "{:?}", snapshot.ruled_out);
}
