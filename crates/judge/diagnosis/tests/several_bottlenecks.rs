//! Two troubles at once, by the default pack: both are named where neither is the reason for the other, and one where
//! it is.

use crate::common::*;
use diskwright_base::topology::{Swap, Topology};
use diskwright_base::{DeviceClass, Note, ProcessRow, ProcessTable, RaidLevel};
use diskwright_diagnosis::{Bottleneck, Verdict};

const MEMORY: Bottleneck = Bottleneck::Memory;
const DISK: Bottleneck = Bottleneck::Disk;
const CPU: Bottleneck = Bottleneck::Cpu;

/// Four processors, two disks of flash, and swap space on these devices.
fn machine(swaps: &[&str]) -> Recording {
    let devices = ["sda", "sdb"].map(|name| device(name, DeviceClass::Flash, &[], None));
    let zram = device("zram0", DeviceClass::Memory, &[], None);
    let swap = |name: &&str| Swap { path: format!("/dev/{name}"), device: (*name).to_owned(), bytes: 4 << 30 };
    let topology = Topology {
        devices: devices.into_iter().chain([zram]).collect(),
        swaps: swaps.iter().map(swap).collect(),
        processors: 4,
        ..Topology::default()
    };
    let quiet = [
        ("processor.user", 0.05),
        ("processor.system", 0.02),
        ("paging.refaults_file", 0.0),
        ("paging.refaults_anon", 0.0),
        ("memory.total_bytes", 8e9),
    ];
    and(Recording::new(60).topology(topology), &quiet)
}

/// Sets series of one value, in the place of those of the same counter.
fn and(recording: Recording, series: &[(&str, f64)]) -> Recording {
    series.iter().fold(recording, |r, &(counter, value)| {
        let instance = if counter.starts_with("processor.") { "_total" } else { "" };
        r.without(counter).with(counter, instance, move |_| value)
    })
}

/// Eight readers that queue at 8 ms.
fn with_full_disk(recording: Recording, name: &str) -> Recording {
    recording.with_disk(name, 1000.0, 0.0, 4096.0, 0.008)
}

fn with_idle_disk(recording: Recording, name: &str) -> Recording {
    recording.with_disk(name, 1.0, 1.0, 4096.0, 0.0002)
}

fn pressure(io: f64, memory: f64, cpu: f64) -> [(&'static str, f64); 3] {
    [("pressure.io_some_s", io), ("pressure.memory_some_s", memory), ("pressure.cpu_some_s", cpu)]
}

fn swapping(pages: f64) -> [(&'static str, f64); 3] {
    [("paging.swap_in_pages", pages), ("paging.swap_out_pages", pages), ("paging.major_faults", pages)]
}

/// The bottlenecks, first one first, each with its instance. What is listed is not ruled out, and has a sentence, a
/// confidence and evidence of its own.
fn listed(verdict: &Verdict) -> Vec<(Bottleneck, &str)> {
    for listed in &verdict.bottlenecks {
        assert!(verdict.ruled_out.iter().all(|r| r.bottleneck != listed.bottleneck), "{:?}", verdict.ruled_out);
        assert!(verdict.sentence.contains(&listed.sentence), "{}", verdict.sentence);
        assert!(listed.confidence > 0.5, "{listed:?}");
        assert!(!listed.positions.is_empty() && !listed.advice.is_empty());
        let rules = listed.positions.iter().map(|position| &verdict.findings[*position]);
        assert!(rules.clone().all(|f| f.bottleneck == listed.bottleneck && listed.findings.contains(&f.rule)));
    }
    if let Some(first) = verdict.bottlenecks.first() {
        assert_eq!((first.bottleneck, &first.instance), (verdict.bottleneck, &verdict.instance));
        assert_eq!(verdict.findings.first().map(|f| f.bottleneck), Some(first.bottleneck));
    }
    verdict.bottlenecks.iter().map(|listed| (listed.bottleneck, listed.instance.as_str())).collect()
}

#[test]
fn paging_in_memory_does_not_hide_a_full_disk() {
    let thrash = and(machine(&["zram0"]), &swapping(20_000.0));
    let thrash = thrash.with_disk("zram0", 20_000.0, 20_000.0, 4096.0, 0.00001);
    let both = and(with_full_disk(with_idle_disk(thrash, "sda"), "sdb"), &pressure(0.9, 0.6, 0.1));
    let verdict = both.by_default();
    assert_eq!(listed(&verdict), [(MEMORY, ""), (DISK, "sdb")], "{:#?}", verdict.set_aside);
}

#[test]
fn a_disk_that_is_busy_with_paging_is_no_bottleneck_of_its_own() {
    let paging = with_full_disk(with_idle_disk(machine(&["sdb"]), "sda"), "sdb");
    let verdict = and(and(paging, &swapping(900.0)), &pressure(0.9, 0.6, 0.1)).by_default();
    assert_eq!(listed(&verdict), [(MEMORY, "")]);
    // nor is one that reads again what the kernel had to drop
    let refaults = with_full_disk(with_idle_disk(machine(&["zram0"]), "sda"), "sdb");
    let refaults = and(refaults, &[("paging.refaults_file", 800.0)]);
    let verdict = and(and(refaults, &swapping(0.0)), &pressure(0.9, 0.6, 0.1)).by_default();
    assert_eq!(listed(&verdict), [(MEMORY, "")]);
    // the other disk is, where paging does not reach it
    let apart = with_full_disk(with_full_disk(machine(&["sda"]), "sda"), "sdb");
    let verdict = and(and(apart, &swapping(900.0)), &pressure(0.9, 0.6, 0.1)).by_default();
    assert_eq!(listed(&verdict), [(MEMORY, ""), (DISK, "sdb")]);
}

#[test]
fn full_processors_and_a_full_disk_are_two() {
    let both = with_full_disk(with_idle_disk(machine(&[]), "sda"), "sdb");
    let both = and(both, &[("processor.user", 0.97), ("processor.busy", 0.99), ("system.running", 12.0)]);
    let verdict = and(both, &pressure(0.9, 0.0, 0.8)).by_default();
    assert_eq!(listed(&verdict), [(DISK, "sdb"), (CPU, "")]);
}

#[test]
fn processors_that_page_are_no_bottleneck_of_their_own_but_those_that_compute_are() {
    let thrash = |user: f64, system: f64| {
        let paging = with_idle_disk(machine(&["zram0"]), "sda").with_disk("zram0", 9e3, 9e3, 4096.0, 0.00001);
        let shares = [("processor.user", user), ("processor.system", system), ("processor.busy", user + system)];
        let loaded = and(and(paging, &swapping(9000.0)), &shares);
        and(and(loaded, &[("system.running", 12.0)]), &pressure(0.1, 0.6, 0.8)).by_default()
    };
    assert_eq!(listed(&thrash(0.3, 0.68)), [(MEMORY, "")]);
    let computing = thrash(0.9, 0.09);
    let mut found = listed(&computing);
    found.sort();
    assert_eq!(found, [(MEMORY, ""), (CPU, "")]);
}

#[test]
fn a_quota_beside_a_full_disk_is_not_ruled_out() {
    let both = with_full_disk(with_idle_disk(machine(&[]), "sda"), "sdb");
    let quota = both
        .with("cgroup.cpu_periods", "/jobs", |_| 10.0)
        .with("cgroup.cpu_throttled_periods", "/jobs", |_| 9.0)
        .with("cgroup.cpu_throttled_s", "/jobs", |_| 0.8);
    let verdict = and(quota, &pressure(0.9, 0.0, 0.1)).by_default();
    let found = listed(&verdict);
    assert!(found.contains(&(DISK, "sdb")) && found.contains(&(Bottleneck::Throttle, "/jobs")), "{found:?}");
}

#[test]
fn two_full_disks_are_two_unless_they_are_one_array() {
    let two = with_full_disk(with_full_disk(machine(&[]), "sda"), "sdb");
    let verdict = and(two, &pressure(0.9, 0.0, 0.0)).by_default();
    assert_eq!(listed(&verdict), [(DISK, "sda"), (DISK, "sdb")]);
    let members = array(2, DeviceClass::Flash, RaidLevel::Raid0);
    let one = with_full_disk(with_full_disk(Recording::new(60).topology(members), "sda"), "sdb");
    assert_eq!(listed(&and(one, &pressure(0.9, 0.0, 0.0)).by_default()), [(DISK, "md0")]);
    // without a topology they may be
    let unknown = with_full_disk(with_full_disk(Recording::new(60), "sda"), "sdb");
    assert_eq!(and(unknown, &pressure(0.9, 0.0, 0.0)).by_default().bottlenecks.len(), 1);
}

#[test]
fn a_bottleneck_that_led_before_can_lead_again() {
    let two = with_full_disk(with_full_disk(machine(&[]), "sda"), "sdb");
    let first = and(two, &pressure(0.9, 0.0, 0.0)).by_default();
    let mut verdict = first.clone();
    verdict.put_first(DISK, "sdb");
    assert_eq!(listed(&verdict), [(DISK, "sdb"), (DISK, "sda")]);
    assert_eq!(verdict.findings[0].instance, "sdb");
    assert!(verdict.sentence.starts_with(&verdict.bottlenecks[0].sentence));
    verdict.put_first(DISK, "sda");
    assert_eq!(verdict, first);
    verdict.put_first(MEMORY, "");
    assert_eq!(verdict, first, "what is not listed cannot lead");
}

#[test]
fn nothing_is_listed_where_nothing_is_blamed() {
    let verdict = and(with_idle_disk(machine(&[]), "sda"), &pressure(0.0, 0.0, 0.0)).by_default();
    assert_eq!((verdict.bottleneck, verdict.bottlenecks.len()), (Bottleneck::None, 0));
}

/// A table of processes: name, cgroup, bytes read a second.
fn table(rows: &[(&str, &str, f64)]) -> Note {
    let row = |(index, (name, cgroup, read)): (usize, &(&str, &str, f64))| ProcessRow {
        pid: 100 + index as u32,
        name: (*name).to_owned(),
        cgroup: (*cgroup).to_owned(),
        read_bytes_per_s: Some(*read),
        write_bytes_per_s: Some(0.0),
        ..ProcessRow::default()
    };
    let rows = rows.iter().enumerate().map(row).collect();
    Note::processes(START + 30 * SECOND as i64, ProcessTable { elapsed_s: 60.0, rows, ..ProcessTable::default() })
}

/// The commands against the first bottleneck, each with the one that takes it back.
fn commands(verdict: &Verdict) -> Vec<(&str, Option<&str>)> {
    let typed = verdict.advice.iter().filter_map(|advice| Some((advice.command.as_deref()?, advice.undo.as_deref())));
    typed.collect()
}

#[test]
fn what_to_type_has_the_process_the_unit_and_the_disk() {
    let with_scheduler = |scheduler: &str| {
        let full = and(with_full_disk(with_idle_disk(machine(&[]), "sda"), "sdb"), &pressure(0.9, 0.0, 0.0));
        let mut topology = full.described().clone();
        topology.devices[1].scheduler = Some(scheduler.to_owned());
        full.topology(topology).with_tables(&[table(&[("tar", "/system.slice/backup.service", 4e6)])])
    };
    let priorities = with_scheduler("bfq");
    assert_eq!(
        commands(&priorities)[0],
        ("ionice -c3 -p $(ls /proc/100/task)", Some("ionice -c2 -n4 -p $(ls /proc/100/task)"))
    );
    assert!(priorities.advice.iter().all(|advice| advice.id != "disk.find-process"), "the process is known");
    let without = with_scheduler("none");
    let typed = commands(&without);
    assert_eq!(
        typed[0].0, "systemctl set-property --runtime backup.service IOReadBandwidthMax='/dev/sdb 2000000'",
        "half of what it reads itself"
    );
    assert!(typed.contains(&("kill -STOP 100", Some("kill -CONT 100"))), "{typed:?}");
    assert!(typed.iter().all(|(command, _)| !command.starts_with("ionice")), "this scheduler ignores it");
}

#[test]
fn a_process_is_acted_on_only_at_once_and_only_if_it_was_active_to_the_end() {
    let full = || and(with_full_disk(with_idle_disk(machine(&[]), "sda"), "sdb"), &pressure(0.9, 0.0, 0.0));
    let tar = || table(&[("tar", "/system.slice/backup.service", 4e6)]);
    let names_process = |verdict: &Verdict| {
        commands(verdict).iter().any(|(command, _)| command.contains("/proc/100/") || command.ends_with(" 100"))
    };
    let judged_at = |clock: fn() -> i64, tables: &[Note]| full().read_by_clock(tables, Some(clock));
    let [soon, late]: [fn() -> i64; 2] = [|| START + 120 * SECOND as i64, || START + 3600 * SECOND as i64];
    assert!(names_process(&judged_at(soon, &[tar()])));
    let later = judged_at(late, &[tar()]);
    assert!(!names_process(&later), "the id may be that of another by now");
    assert!(commands(&later)[0].0.contains("backup.service"), "the unit is still that one: {later:#?}");
    let ended = judged_at(soon, &[tar(), table(&[("cat", "/", 1.0)])]);
    assert!(!names_process(&ended));
}

#[test]
fn a_database_is_not_stopped_and_a_thread_of_the_kernel_is_not_reniced() {
    let full = || and(with_full_disk(with_idle_disk(machine(&[]), "sda"), "sdb"), &pressure(0.9, 0.0, 0.0));
    assert!(commands(&full().with_tables(&[table(&[("postgres", "/jobs", 4e6)])])).is_empty());
    assert!(commands(&full().with_tables(&[table(&[("kworker/0:1", "/", 4e6)])])).is_empty());
}

/// Full processors, and processes that use them: name, share of a processor.
fn hogs(rows: &[(&str, f64)]) -> Verdict {
    let full =
        [("processor.user", 0.95), ("processor.system", 0.04), ("processor.busy", 0.99), ("system.running", 12.0)];
    let busy = and(with_idle_disk(machine(&[]), "sda"), &full);
    let row = |(index, (name, processor)): (usize, &(&str, f64))| ProcessRow {
        pid: 100 + index as u32,
        name: (*name).to_owned(),
        cgroup: "/".to_owned(),
        processor: *processor,
        nice: Some(0),
        ..ProcessRow::default()
    };
    let rows = rows.iter().enumerate().map(row).collect();
    let table = ProcessTable { elapsed_s: 60.0, rows, ..ProcessTable::default() };
    let note = Note::processes(START + 60 * SECOND as i64, table);
    and(busy, &pressure(0.0, 0.0, 0.9)).with_tables(&[note])
}

#[test]
fn a_command_names_all_of_several_equal_hogs() {
    let tasks = |pids: &[u32]| pids.iter().map(|pid| format!(" $(ls /proc/{pid}/task)")).collect::<String>();
    let renice = |nice: i32, pids: &[u32]| format!("renice -n {nice} -p{}", tasks(pids));
    let expect = |rows: &[(&str, f64)], pids: &[u32], name: &str| {
        let verdict = hogs(rows);
        assert_eq!(verdict.bottleneck, Bottleneck::Cpu, "{}", verdict.sentence);
        let advice = verdict.advice.first().expect("advice");
        assert_eq!(advice.command.as_deref(), Some(renice(19, pids).as_str()), "{rows:?}");
        assert_eq!(advice.undo.as_deref(), Some(renice(0, pids).as_str()));
        assert!(advice.text.contains(name), "{}", advice.text);
    };
    expect(&[("burn", 1.0), ("burn", 1.0), ("burn", 1.0), ("sshd", 0.01)], &[100, 101, 102], "burn (3 processes)");
    expect(&[("sort", 1.0), ("gzip", 0.9), ("convert", 0.95)], &[100, 101, 102], "sort, convert and gzip");
    // a bystander of the same name is left alone, and so is one of another
    expect(&[("burn", 2.0), ("burn", 0.3), ("cron", 0.4)], &[100], "burn (the most active of 2)");
    expect(&[("burn", 1.0); 8], &[100, 101, 102, 103, 104], "burn (the 5 most active of 8)");
    // none of six has a fifth, and five have most
    let six: Vec<(String, f64)> = (0..6).map(|i| (format!("job{i}"), 1.0)).collect();
    let six: Vec<(&str, f64)> = six.iter().map(|(name, used)| (name.as_str(), *used)).collect();
    expect(&six, &[100, 101, 102, 103, 104], "job0, job1, job2, job3 and job4");
}

#[test]
fn a_disk_that_several_equal_readers_fill_is_kept_for_others_by_one_command() {
    let full = and(with_full_disk(with_idle_disk(machine(&[]), "sda"), "sdb"), &pressure(0.9, 0.0, 0.0));
    let mut topology = full.described().clone();
    topology.devices[1].scheduler = Some("bfq".to_owned());
    let readers = table(&[("tar", "/jobs", 2e6), ("tar", "/jobs", 2e6), ("rsync", "/jobs", 1.9e6)]);
    let verdict = full.topology(topology).with_tables(&[readers]);
    let typed = commands(&verdict);
    let tasks = "$(ls /proc/100/task) $(ls /proc/101/task) $(ls /proc/102/task)";
    let ionice = typed.iter().find(|(command, _)| command.starts_with("ionice")).expect("ionice");
    assert_eq!(
        *ionice,
        (format!("ionice -c3 -p {tasks}").as_str(), Some(format!("ionice -c2 -n4 -p {tasks}").as_str()))
    );
    assert!(typed.contains(&("kill -STOP 100 101 102", Some("kill -CONT 100 101 102"))), "{typed:?}");
}

#[test]
fn many_equal_disks_are_told_as_one_trouble() {
    let names: Vec<String> = (0..24).map(|number| format!("disk{number}")).collect();
    let devices = names.iter().map(|name| device(name, DeviceClass::Flash, &[], None)).collect();
    let topology = Topology { devices, processors: 4, ..Topology::default() };
    let of = |count: usize| {
        let recording = names[..count]
            .iter()
            .fold(Recording::new(60).topology(topology.clone()), |r, name| with_full_disk(r, name));
        and(recording, &pressure(0.9, 0.0, 0.0)).by_default()
    };
    let (two, many) = (of(2), of(24));
    assert_eq!(listed(&two).len(), 2);
    assert_eq!(listed(&many).len(), 1, "{}", many.sentence);
    assert!(many.sentence.contains("The same holds for 23 others: "), "{}", many.sentence);
    assert_eq!(many.bottlenecks[0].positions.len(), 24);
}
