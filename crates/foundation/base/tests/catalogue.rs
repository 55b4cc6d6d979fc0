//! The catalogue as data: its entries are whole and do not contradict each
//! other, every counter that the documents and other tools name is found, and
//! what a log brings resolves what it does not.

use std::collections::HashMap;
use std::sync::Arc;

use diskwright_base::catalogue::{OverInstances, UNITS};
use diskwright_base::{Catalogue, Counter, CounterKind, CounterPlan, Frame, Schema, Series, Tick};

fn all_counters() -> &'static [Counter] {
    Catalogue::builtin().counters()
}

fn schema(counters: &[&str]) -> Schema {
    let series = |c: &&str| Series { counter: (*c).into(), instance: "x".into(), scale: 1.0 };
    Schema::new(counters.iter().map(series).collect())
}

#[test]
fn every_entry_has_an_explanation_and_a_source() {
    for counter in all_counters() {
        let id = &counter.id;
        assert!(counter.explain.ends_with('.') && counter.explain.len() > 15, "{id}: explain");
        assert!(counter.trap.is_empty() || counter.trap.ends_with('.'), "{id}: trap");
        assert!(!counter.source.is_empty(), "{id}: source");
        for text in [&counter.explain, &counter.trap, &counter.source] {
            assert!(!text.contains('\n') && !text.contains("  "), "{id}: {text}");
            assert!(text.len() <= 420, "{id} goes on: {text}");
        }
        for name in counter.names.iter() {
            assert!(!name.trim().is_empty() && name.trim() == name, "{id}: name `{name}`");
        }
        for name in &counter.names.nt {
            assert_eq!(name.matches('\\').count(), 1, "{id}: {name} is not Object\\Counter");
        }
    }
    assert!(all_counters().len() >= 150);
}

#[test]
fn kinds_units_and_sums_do_not_mix() {
    use OverInstances::{Max, Mean, Sum, Weighted};
    for counter in all_counters() {
        let (id, unit, over) = (counter.id.as_str(), counter.unit.as_str(), counter.over_instances);
        assert!(UNITS.contains(&unit), "{id}: {unit}");
        match counter.kind {
            CounterKind::Total => {
                assert!(matches!(over, Sum | OverInstances::None), "{id}: a total adds up");
                assert!(!unit.ends_with("per_s") && unit != "fraction", "{id}: {unit} of a total");
                assert!(counter.derive.is_empty(), "{id}: a total is stored");
            }
            CounterKind::Rate => assert!(unit.ends_with("per_s"), "{id}: {unit} of a rate"),
            CounterKind::BusyFraction => {
                assert_eq!(unit, "fraction", "{id}");
                assert!(matches!(over, Mean | Max | OverInstances::None), "{id}: shares of time have no sum");
            }
            CounterKind::AveragePerOperation => {
                assert!(matches!(over, Weighted | OverInstances::None), "{id}: an average is weighted");
                let weight = counter.weight.as_deref().and_then(|w| Catalogue::builtin().get(w));
                assert_eq!(weight.map(|w| w.kind), Some(CounterKind::Rate), "{id}: weighted by a rate");
            }
            CounterKind::Level => assert!(over != Weighted, "{id}"),
        }
        assert!(unit != "fraction" || over != Sum, "{id}: a sum of shares is no share");
        assert!(over != Weighted || counter.kind == CounterKind::AveragePerOperation, "{id}");
    }
}

#[test]
fn ids_end_with_their_unit() {
    for counter in all_counters() {
        let (id, unit) = (counter.id.as_str(), counter.unit.as_str());
        let ending = [("_per_s", "per_s"), ("_s", "s"), ("_bytes", "bytes"), ("_fraction", "fraction")]
            .iter()
            .find(|(ending, _)| id.ends_with(ending));
        if let Some((_, expected)) = ending {
            assert!(unit == *expected || (*expected == "per_s" && unit.ends_with("_per_s")), "{id}: {unit}");
        }
    }
}

/// One name, one counter; `majflt/s` and the like are columns of several tools.
#[test]
fn no_two_counters_claim_one_name() {
    let mut owner: HashMap<&str, &str> = HashMap::new();
    for counter in all_counters() {
        for name in counter.names.nt.iter().chain(&counter.names.prometheus) {
            if let Some(other) = owner.insert(name, &counter.id) {
                panic!("{name} is both {other} and {}", counter.id);
            }
        }
    }
}

#[test]
fn all_derived_counters_resolve_from_the_stored_ones() {
    let stored: Vec<&str> = all_counters().iter().filter(|c| c.derive.is_empty()).map(|c| c.id.as_str()).collect();
    let schema = schema(&stored);
    for counter in all_counters() {
        let plan = CounterPlan::resolve_counter(Catalogue::builtin(), &schema, &counter.id, "x");
        assert_eq!(plan.map(|p| p.kind()), Some(counter.kind), "{}", counter.id);
    }
}

/// A disk of a live Linux machine in a tick of 2 s.
const DISK: &[(&str, f64)] = &[
    ("physical_disk.reads", 100.0),
    ("physical_disk.read_bytes", 819_200.0),
    ("physical_disk.read_time_s", 1.0),
    ("physical_disk.writes", 50.0),
    ("physical_disk.write_bytes", 3_276_800.0),
    ("physical_disk.write_time_s", 2.0),
    ("physical_disk.flushes", 10.0),
    ("physical_disk.flush_time_s", 0.5),
    ("physical_disk.busy_time_s", 1.2),
    ("physical_disk.weighted_time_s", 3.5),
];

fn value(given: &[(&str, f64)], wanted: &str) -> Option<f64> {
    let ids: Vec<&str> = given.iter().map(|(id, _)| *id).collect();
    let row: Vec<f64> = given.iter().map(|(_, value)| *value).collect();
    let mut frame = Frame::new(Arc::new(schema(&ids)), 1);
    frame.push(Tick { time_ns: 0, elapsed_ns: 2_000_000_000 }, &row);
    let plan = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), wanted, "x")?;
    plan.summary_value(&plan.summarise_ticks(&frame, |_| true))
}

#[track_caller]
fn assert_value(given: &[(&str, f64)], wanted: &str, expected: f64) {
    let found = value(given, wanted);
    assert!(found.is_some_and(|v| (v - expected).abs() < 1e-9), "{wanted}: {found:?}, expected {expected}");
}

#[test]
fn the_three_busy_counters_stay_distinct() {
    assert_value(DISK, "physical_disk.busy", 0.6);
    assert_value(DISK, "physical_disk.idle", 0.4);
    assert_value(DISK, "physical_disk.disk_time_nt", 1.0);
    assert_value(DISK, "physical_disk.avg_queue_length", 1.75);
    assert_value(DISK, "physical_disk.disk_read_time_nt", 0.5);
    assert_value(DISK, "physical_disk.disk_write_time_nt", 1.0);
}

#[test]
fn stored_totals_make_rates_and_weighted_averages() {
    assert_value(DISK, "physical_disk.transfers_per_s", 75.0);
    assert_value(DISK, "physical_disk.bytes_per_s", 2_048_000.0);
    assert_value(DISK, "physical_disk.avg_s_per_transfer", 0.02);
    assert_value(DISK, "physical_disk.avg_bytes_per_read", 8192.0);
    assert_value(DISK, "physical_disk.avg_bytes_per_transfer", 4_096_000.0 / 150.0);
    assert_value(DISK, "physical_disk.flush_queue_length", 0.25);
    assert_value(DISK, "physical_disk.avg_s_per_flush", 0.05);
    assert_eq!(value(&DISK[..3], "physical_disk.transfers_per_s"), None, "reads alone are not the transfers");
}

/// What `iostat -x`, NT and others leave out comes from what they bring.
#[test]
fn ready_made_counters_resolve_each_other() {
    let d = |name: &'static str| -> &'static str { name };
    let queue = (d("physical_disk.avg_queue_length"), 1.5);
    let rates = [(d("physical_disk.reads_per_s"), 40.0), (d("physical_disk.writes_per_s"), 10.0)];
    let bytes = [(d("physical_disk.read_bytes_per_s"), 4e6), (d("physical_disk.write_bytes_per_s"), 1e6)];
    let queues = [(d("physical_disk.avg_read_queue_length"), 0.9), (d("physical_disk.avg_write_queue_length"), 0.3)];
    assert_value(&[queue], "physical_disk.disk_time_nt", 1.0);
    assert_value(&[("physical_disk.avg_queue_length", 0.4)], "physical_disk.disk_time_nt", 0.4);
    assert_value(&rates, "physical_disk.transfers_per_s", 50.0);
    assert_value(&bytes, "physical_disk.bytes_per_s", 5e6);
    assert_value(&[bytes, rates].concat(), "physical_disk.avg_bytes_per_transfer", 1e5);
    assert_value(&queues, "physical_disk.avg_queue_length", 1.2);
    assert_value(&queues, "physical_disk.disk_time_nt", 1.0);
    assert_value(&[queues, rates].concat(), "physical_disk.avg_s_per_transfer", 0.024);
    assert_value(&[vec![queue], rates.to_vec()].concat(), "physical_disk.avg_s_per_transfer", 0.03);
    let flushing = [vec![queue, ("physical_disk.flushes_per_s", 100.0)], rates.to_vec()].concat();
    assert_value(&flushing, "physical_disk.avg_s_per_transfer", 0.01);
    assert_value(&[("physical_disk.idle", 0.3)], "physical_disk.busy", 0.7);
    assert_value(&[("physical_disk.busy", 0.7)], "physical_disk.idle", 0.3);
    assert_value(&[("physical_disk.transfers_per_s", 50.0), rates[1]], "physical_disk.reads_per_s", 40.0);
    assert_value(&[queue, queues[1]], "physical_disk.avg_read_queue_length", 1.2);
    assert_value(&[("processor.idle", 0.2), ("processor.iowait", 0.1)], "processor.busy", 0.7);
    assert_value(&[("processor.user", 0.5), ("processor.privileged", 0.2)], "processor.busy", 0.7);
    assert_value(&[("processor.busy", 0.7), ("processor.user", 0.5)], "processor.privileged", 0.2);
    assert_value(&[("paging.pages_input_per_s", 8.0), ("paging.pages_output_per_s", 4.0)], "paging.pages_per_s", 12.0);
    assert_value(&[("system.interrupts", 2000.0)], "interrupts.total_per_s", 1000.0);
    let sorted = [("interrupts.clock_per_s", 100.0), ("interrupts.network_per_s", 0.0)];
    let all = [vec![("interrupts.total_per_s", 426.5)], sorted.to_vec()].concat();
    assert_value(&all, "interrupts.disk_per_s", 326.5);
    assert_value(&all, "interrupts.disk_share", 326.5 / 426.5);
    assert_eq!(value(&all[..2], "interrupts.disk_share"), None, "the network's are unknown");
    // neither the queue nor the busy time can be derived from the capped number alone
    assert_eq!(value(&[("physical_disk.disk_time_nt", 1.0)], "physical_disk.avg_queue_length"), None);
    assert_eq!(value(&[("physical_disk.disk_time_nt", 0.4)], "physical_disk.busy"), None);
}

#[test]
fn processor_shares_are_of_all_columns_but_guests() {
    let cpu = [
        ("processor.user_s", 0.8),
        ("processor.nice_s", 0.2),
        ("processor.system_s", 0.3),
        ("processor.idle_s", 1.0),
        ("processor.iowait_s", 1.0),
        ("processor.irq_s", 0.1),
        ("processor.softirq_s", 0.4),
        ("processor.steal_s", 0.2),
        ("processor.guest_s", 0.5),
    ];
    assert_value(&cpu, "processor.busy", 0.5);
    assert_value(&cpu, "processor.privileged", 0.2);
    assert_value(&cpu, "processor.interrupt", 0.125);
    assert_value(&cpu, "processor.user", 0.2);
    assert_value(&cpu, "processor.steal", 0.05);
}

#[test]
fn limits_and_levels_make_shares() {
    assert_value(
        &[("cgroup.write_bytes", 1e6), ("cgroup.write_limit_bytes_per_s", 1e6)],
        "cgroup.write_bytes_limit_used",
        0.5,
    );
    assert_value(&[("cgroup.reads_per_s", 90.0), ("cgroup.read_limit_per_s", 100.0)], "cgroup.read_limit_used", 0.9);
    assert_value(&[("cgroup.cpu_throttled_periods", 5.0), ("cgroup.cpu_periods", 20.0)], "cgroup.cpu_throttled", 0.25);
    assert_value(&[("cgroup.cpu_throttled_s", 0.5)], "cgroup.processors_throttled", 0.25);
    let memory = [("cgroup.memory_bytes", 3e8), ("cgroup.memory_high_bytes", 2e8), ("cgroup.memory_limit_bytes", 4e8)];
    assert_value(&memory, "cgroup.memory_high_used_fraction", 1.5);
    let swap = [("memory.swap_total_bytes", 4e9), ("memory.swap_free_bytes", 3e9)];
    assert_value(&swap, "memory.swap_used_fraction", 0.25);
    assert_value(&swap, "paging.file_usage", 0.25);
    let dirty = [("memory.dirty_bytes", 3e8), ("memory.writeback_bytes", 1e8), ("memory.dirty_threshold_bytes", 8e8)];
    assert_value(&dirty, "memory.dirty_fraction", 0.5);
    let none = [("memory.swap_total_bytes", 0.0), ("memory.swap_free_bytes", 0.0)];
    assert_eq!(value(&none, "memory.swap_used_fraction"), None, "no swap is no share");
}

#[track_caller]
fn assert_finds(table: &[(&str, &str)]) {
    for (name, id) in table {
        let found: Vec<&str> = Catalogue::builtin().find_by_name(name).iter().map(|c| c.id.as_str()).collect();
        assert!(found.contains(id), "{name} finds {found:?}, not {id}");
    }
}

/// Every counter that the five documents name, as they write it (NT Resource Kit
/// twice slips into names of no counter, `Disk Bytes/Write` and `Avg. Disk
/// Write Bytes/sec`; Compaq 1997 and InfoStor 1999 name objects and tools only).
const DOCUMENTS: &[(&str, &str)] = &[
    // SAS 1998
    ("Memory: Available Bytes", "memory.available_bytes"),
    ("Memory: Pages/Sec", "paging.pages_per_s"),
    ("Server: Pool Non-paged Failures", "network.server_pool_nonpaged_failures"),
    ("Server: Pool Non-paged Peak", "network.server_pool_nonpaged_peak_bytes"),
    ("Server: Pool Page Failures", "network.server_pool_paged_failures"),
    ("Memory: Committed Bytes", "memory.committed_bytes"),
    ("Memory Pages/Sec", "paging.pages_per_s"),
    ("Memory Page Faults/Sec", "paging.faults_per_s"),
    ("Memory cache Faults/Sec", "paging.cache_faults_per_s"),
    ("Physical Disk: %Disk Time", "physical_disk.disk_time_nt"),
    ("Physical Disk: Average Disk sec/Transfer", "physical_disk.avg_s_per_transfer"),
    ("Physical Disk: Disk Queue Length", "physical_disk.current_queue_length"),
    ("Physical Disk: Disk Bytes/sec", "physical_disk.bytes_per_s"),
    ("Memory: %Processor Time", "processor.busy"),
    ("System: %Processor Time", "processor.busy"),
    ("System: Processor Queue Length", "system.processor_queue_length"),
    ("Processor: Interrupts/Sec", "processor.interrupts_per_s"),
    ("Processor (_Total): %Processor Time", "processor.busy"),
    // NT Magazine 1998
    ("LogicalDisk: %Disk Time", "logical_disk.disk_time_nt"),
    ("LogicalDisk: Avg. Disk Queue Length", "logical_disk.avg_queue_length"),
    ("LogicalDisk: Avg. Disk sec/Transfer", "logical_disk.avg_s_per_transfer"),
    ("LogicalDisk: Disk Transfers/sec", "logical_disk.transfers_per_s"),
    ("disk reads/sec", "logical_disk.reads_per_s"),
    ("disk writes/sec", "physical_disk.writes_per_s"),
    // NT Resource Kit
    ("Memory: Page Reads/sec", "paging.page_reads_per_s"),
    ("Memory: Page Writes/sec", "paging.page_writes_per_s"),
    ("Memory: Pages input/sec", "paging.pages_input_per_s"),
    ("Memory: Pages output/sec", "paging.pages_output_per_s"),
    ("Cache: Copy Read Hits %", "memory.cache_copy_read_hits"),
    ("Cache: Read Ahead/sec", "memory.cache_read_aheads_per_s"),
    ("System: File Data Operation/sec", "system.file_data_operations_per_s"),
    ("System: File Read Operations/sec", "system.file_read_operations_per_s"),
    ("System: File Read Bytes/sec", "system.file_read_bytes_per_s"),
    ("System: File Write Operations/sec", "system.file_write_operations_per_s"),
    ("System: File Write Bytes/sec", "system.file_write_bytes_per_s"),
    ("Processor: %Interrupt Time", "processor.interrupt"),
    ("System: Total Interrupts/sec", "interrupts.total_per_s"),
    ("System: % Total Interrupt Time", "processor.interrupt"),
    ("System: % Total Interrupts", "processor.interrupt"),
    ("Processor: % Processor Time", "processor.busy"),
    ("System: %Total Processor Time", "processor.busy"),
    ("Logical Disk: % Free Space", "logical_disk.free_fraction"),
    ("Physical Disk: % Free Space", "logical_disk.free_fraction"),
    ("Logical Disk: Free Megabytes", "logical_disk.free_bytes"),
];

#[test]
fn every_counter_that_the_documents_name_is_found() {
    assert_finds(DOCUMENTS);
}

/// NT Resource Kit names these of the logical and of the physical disk.
const DISKS: &[(&str, &str)] = &[
    ("% Disk Time", "disk_time_nt"),
    ("%Disk Read Time", "disk_read_time_nt"),
    ("%Disk Write Time", "disk_write_time_nt"),
    ("Avg. Disk Queue Length", "avg_queue_length"),
    ("Avg. Disk Read Queue Length", "avg_read_queue_length"),
    ("Avg. Disk Write Queue Length", "avg_write_queue_length"),
    ("Current Disk Queue Length", "current_queue_length"),
    ("Disk Queue Length", "current_queue_length"),
    ("Avg. Disk sec / Transfer", "avg_s_per_transfer"),
    ("Avg. Disk sec / Read", "avg_s_per_read"),
    ("Avg. Disk sec/Write", "avg_s_per_write"),
    ("Disk Bytes / sec", "bytes_per_s"),
    ("Disk Read Bytes/sec", "read_bytes_per_s"),
    ("Disk Write Bytes/sec", "write_bytes_per_s"),
    ("Avg. Disk Bytes / Transfer", "avg_bytes_per_transfer"),
    ("Avg. Disk Bytes/Read", "avg_bytes_per_read"),
    ("Avg. Disk Bytes/Write", "avg_bytes_per_write"),
    ("Disk Transfers / sec", "transfers_per_s"),
    ("Disk Reads/Sec", "reads_per_s"),
    ("Disk Writes/sec", "writes_per_s"),
];

#[test]
fn disk_counters_are_found_on_both_objects() {
    for (name, id) in DISKS {
        for (object, ours) in [("Physical Disk", "physical_disk"), ("Logical Disk", "logical_disk")] {
            let id = format!("{ours}.{id}");
            assert_finds(&[(name, &id), (&format!("{object}: {name}"), &id)]);
            let path = format!(r"\\SERVER\{}(0 C:)\{name}", object.replace(' ', ""));
            let found: Vec<&str> = Catalogue::builtin().find_by_name(&path).iter().map(|c| c.id.as_str()).collect();
            assert_eq!(found, [id], "{path}");
        }
    }
}

/// Columns of iostat, sar and pidstat.
const SYSSTAT: &[(&str, &str)] = &[
    // iostat -x
    ("r/s", "physical_disk.reads_per_s"),
    ("rkB/s", "physical_disk.read_bytes_per_s"),
    ("rrqm/s", "physical_disk.reads_merged_per_s"),
    ("r_await", "physical_disk.avg_s_per_read"),
    ("rareq-sz", "physical_disk.avg_bytes_per_read"),
    ("w/s", "physical_disk.writes_per_s"),
    ("wMB/s", "physical_disk.write_bytes_per_s"),
    ("wrqm/s", "physical_disk.writes_merged_per_s"),
    ("w_await", "physical_disk.avg_s_per_write"),
    ("wareq-sz", "physical_disk.avg_bytes_per_write"),
    ("d/s", "physical_disk.discards_per_s"),
    ("dkB/s", "physical_disk.discard_bytes_per_s"),
    ("d_await", "physical_disk.avg_s_per_discard"),
    ("f/s", "physical_disk.flushes_per_s"),
    ("f_await", "physical_disk.avg_s_per_flush"),
    ("aqu-sz", "physical_disk.avg_queue_length"),
    ("avgqu-sz", "physical_disk.avg_queue_length"),
    ("%util", "physical_disk.busy"),
    // sar -d, -b
    ("tps", "physical_disk.transfers_per_s"),
    ("areq-sz", "physical_disk.avg_bytes_per_transfer"),
    ("avgrq-sz", "physical_disk.avg_bytes_per_transfer"),
    ("await", "physical_disk.avg_s_per_transfer"),
    ("util-percent", "physical_disk.busy"),
    ("rtps", "physical_disk.reads_per_s"),
    ("bwrtn/s", "physical_disk.write_bytes_per_s"),
    // sar -r, -S, -B, -W
    ("kbavail", "memory.available_bytes"),
    ("kbmemfree", "memory.free_bytes"),
    ("kbdirty", "memory.dirty_bytes"),
    ("kbcommit", "memory.committed_bytes"),
    ("%swpused", "memory.swap_used_fraction"),
    ("fault/s", "paging.faults_per_s"),
    ("majflt/s", "paging.major_faults_per_s"),
    ("pgpgin/s", "paging.block_in_bytes_per_s"),
    ("pgscand/s", "paging.scanned_direct_pages_per_s"),
    ("pswpin/s", "paging.swap_in_pages_per_s"),
    ("pswpout/s", "paging.swap_out_pages_per_s"),
    // sar -u, -w, -q, -I SUM, -n DEV
    ("%user", "processor.user"),
    ("%system", "processor.privileged"),
    ("%sys", "processor.system"),
    ("%iowait", "processor.iowait"),
    ("%steal", "processor.steal"),
    ("%soft", "processor.softirq"),
    ("%idle", "processor.idle"),
    ("cswch/s", "system.context_switches_per_s"),
    ("proc/s", "system.forks_per_s"),
    ("intr/s", "system.interrupts_per_s"),
    ("runq-sz", "system.processor_queue_length"),
    ("blocked", "system.blocked"),
    ("ldavg-5", "system.load_5"),
    ("%sio", "pressure.io_some"),
    ("%fmem", "pressure.memory_full"),
    ("rxkB/s", "network.received_bytes_per_s"),
    ("txdrop/s", "network.sent_dropped_per_s"),
    // pidstat
    ("kB_rd/s", "process.read_bytes_per_s"),
    ("iodelay", "process.block_delay"),
];

#[test]
fn columns_of_sysstat_are_found() {
    assert_finds(SYSSTAT);
}

/// Series of node_exporter and windows_exporter, metrics of PCP, names of the kernel.
const EXPORTERS: &[(&str, &str)] = &[
    ("node_disk_reads_completed_total", "physical_disk.reads"),
    ("node_disk_io_time_seconds_total", "physical_disk.busy_time_s"),
    ("node_disk_io_time_weighted_seconds_total", "physical_disk.weighted_time_s"),
    ("node_disk_io_now", "physical_disk.current_queue_length"),
    ("node_disk_flush_requests_time_seconds_total", "physical_disk.flush_time_s"),
    ("node_filesystem_avail_bytes", "logical_disk.free_bytes"),
    ("node_memory_MemAvailable_bytes", "memory.available_bytes"),
    ("node_memory_Committed_AS_bytes", "memory.committed_bytes"),
    ("node_vmstat_pgmajfault", "paging.major_faults"),
    ("node_vmstat_pswpin", "paging.swap_in_pages"),
    (r#"node_cpu_seconds_total{mode="iowait"}"#, "processor.iowait_s"),
    ("node_cpu_seconds_total", "processor.steal_s"),
    ("node_pressure_io_stalled_seconds_total", "pressure.io_full_s"),
    ("node_pressure_memory_waiting_seconds_total", "pressure.memory_some_s"),
    ("node_intr_total", "system.interrupts"),
    ("node_network_receive_bytes_total", "network.received_bytes"),
    ("node_md_degraded", "array.missing"),
    ("windows_physical_disk_read_latency_seconds_total", "physical_disk.read_time_s"),
    ("windows_physical_disk_idle_seconds_total", "physical_disk.idle"),
    ("windows_memory_swap_page_reads_total", "paging.page_reads_per_s"),
    ("windows_system_processor_queue_length", "system.processor_queue_length"),
    ("disk.dev.read_rawactive", "physical_disk.read_time_s"),
    ("disk.dev.aveq", "physical_disk.weighted_time_s"),
    ("disk.dev.total", "physical_disk.transfers_per_s"),
    ("disk.partitions.avactive", "logical_disk.busy_time_s"),
    ("mem.vmstat.pswpout", "paging.swap_out_pages"),
    ("kernel.all.pressure.io.some.total", "pressure.io_some_s"),
    ("/proc/meminfo MemAvailable", "memory.available_bytes"),
    ("pgmajfault", "paging.major_faults"),
];

#[test]
fn names_of_prometheus_exporters_and_pcp_are_found() {
    assert_finds(EXPORTERS);
}

#[test]
fn unknown_names_are_not_found() {
    for name in ["", "  ", r"\", "flux capacitor", r"PhysicalDisk\Avg. Disk Mood"] {
        assert!(Catalogue::builtin().find_by_name(name).is_empty(), "{name}");
    }
}
