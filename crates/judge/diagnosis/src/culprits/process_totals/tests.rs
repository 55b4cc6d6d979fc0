use diskwright_base::{ProcessContainer, ProcessPlace};

use super::*;

fn row(pid: u32, name: &str) -> ProcessRow {
    ProcessRow { pid, name: name.into(), cgroup: format!("/jobs/{name}"), ..ProcessRow::default() }
}

fn table(rows: Vec<ProcessRow>) -> ProcessTable {
    ProcessTable { elapsed_s: 10.0, rows, ..ProcessTable::default() }
}

#[test]
fn names_the_process_that_moves_the_bytes_with_numbers() {
    let mut culprits = Culprits::default();
    let reader = ProcessRow { read_bytes_per_s: Some(30e6), blocked_share: 0.5, ..row(7, "fio") };
    let other = ProcessRow { write_bytes_per_s: Some(1e6), processor: 3.0, ..row(8, "cc1") };
    culprits.add_table(&table(vec![reader.clone(), other.clone()]));
    culprits.add_table(&table(vec![reader, other]));
    let found = culprits.for_bottleneck(Bottleneck::Disk, None, None);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].pid, Some(7));
    assert_eq!(found[0].description, "reads 30 MB/s, waits for I/O for 50 % of the time");
    let busy = culprits.for_bottleneck(Bottleneck::Cpu, None, None);
    assert_eq!((busy[0].name.as_str(), busy[0].description.as_str()), ("cc1", "300 % of a processor"));
}

#[test]
fn a_program_that_runs_before_all_others_is_described_with_its_priority() {
    let mut culprits = Culprits::default();
    let hog = ProcessRow { processor: 2.0, realtime_priority: Some(50), ..row(9, "hog") };
    culprits.add_table(&table(vec![hog, ProcessRow { processor: 0.1, ..row(8, "cc1") }]));
    let busy = culprits.for_bottleneck(Bottleneck::Cpu, None, None);
    assert_eq!(busy[0].description, "200 % of a processor at real-time priority 50");
}

#[test]
fn a_worker_of_the_kernel_is_one_culprit_whatever_it_works_on() {
    let mut culprits = Culprits::default();
    for work in ["-kblockd", "+kblockd", "-events", "+flush-8:0"] {
        let name = format!("kworker/1:2H{work}");
        culprits.add_table(&table(vec![ProcessRow { processor: 0.5, cgroup: "/".into(), ..row(13, &name) }]));
    }
    let found: Vec<(String, u32, String)> = culprits
        .for_bottleneck(Bottleneck::Cpu, None, None)
        .into_iter()
        .map(|c| (c.name, c.processes, c.description))
        .collect();
    assert_eq!(found, [("kworker/1:2H+flush-8:0".to_owned(), 1, "50 % of a processor".to_owned())]);
    assert_eq!(culprits.program_activities(true).len(), 1);
}

#[test]
fn counts_requested_bytes_where_only_those_are_known() {
    let mut culprits = Culprits::default();
    let reader = ProcessRow { requested_read_bytes_per_s: Some(5e6), ..row(1404, "sqlservr") };
    culprits.add_table(&table(vec![reader, row(9, "explorer")]));
    let found = culprits.for_bottleneck(Bottleneck::Disk, None, None);
    assert_eq!((found.len(), found[0].name.as_str()), (1, "sqlservr"));
}

#[test]
fn workers_of_one_name_are_named_together() {
    let mut culprits = Culprits::default();
    let worker = |pid, bytes| ProcessRow { read_bytes_per_s: Some(bytes), blocked_share: 0.25, ..row(pid, "fio") };
    culprits.add_table(&table(vec![worker(5, 1e6), worker(6, 2e6), worker(7, 1e6)]));
    let found = culprits.for_bottleneck(Bottleneck::Disk, None, None);
    assert_eq!((found.len(), found[0].pid, found[0].processes), (1, Some(6), 3));
    assert_eq!(found[0].description, "3 processes together: reads 4 MB/s, waits for I/O for 25 % of the time");
    // each is blocked for a quarter of the time, not their sum
    let mut culprits = Culprits::default();
    let blocked = |pid| ProcessRow { waits_in: Some("io_schedule".into()), ..worker(pid, 1e6) };
    culprits.add_table(&table(vec![blocked(5), blocked(6), blocked(7)]));
    let programs = culprits.program_activities(true);
    assert_eq!((programs.len(), programs[0].processes, programs[0].blocked), (1, 3, 0.25));
}

#[test]
fn open_files_are_those_of_the_blamed_disk() {
    let file = |path: &str, disks: &[&str]| FileRow {
        path: path.into(),
        disks: disks.iter().map(|d| (*d).to_owned()).collect(),
        bytes: Some(1),
    };
    let files = vec![file("/srv/base/1", &["dm-0", "sdb"]), file("/etc/x", &["sda"]), file("/pool/y", &[])];
    let mut culprits = Culprits::default();
    let reader = ProcessRow { read_bytes_per_s: Some(1e6), processor: 0.5, files, more_files: 3, ..row(7, "postgres") };
    culprits.add_table(&table(vec![reader]));
    let blamed = BlamedDisk { name: "sdb".into(), read_bytes_per_s: Some(2e6), ..BlamedDisk::default() };
    let found = culprits.for_bottleneck(Bottleneck::Disk, None, Some(&blamed));
    let paths: Vec<&str> = found[0].files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["/srv/base/1", "/pool/y"]);
    assert!(found[0].description.contains("; open files: /srv/base/1, /pool/y and 3 more"), "{}", found[0].description);
    assert!(culprits.for_bottleneck(Bottleneck::Cpu, None, None)[0].files.is_empty());
}

#[test]
fn names_only_the_processes_of_the_blamed_cgroup() {
    let mut culprits = Culprits::default();
    let reader = |pid, name| ProcessRow { read_bytes_per_s: Some(1e6), ..row(pid, name) };
    culprits.add_table(&table(vec![reader(7, "fio"), reader(8, "dd")]));
    let found = culprits.for_bottleneck(Bottleneck::Throttle, Some("/jobs/dd"), None);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].kind.as_str(), found[0].name.as_str()), ("cgroup", "/jobs/dd"));
    assert_eq!((found[1].pid, found[1].share), (Some(8), Some(1.0)));
}

#[test]
fn memory_is_bounded_and_the_busiest_are_kept() {
    let mut culprits = Culprits::default();
    for round in 0..100u32 {
        let mut rows: Vec<ProcessRow> =
            (0..1000).map(|i| ProcessRow { processor: 1e-3, ..row(10 + round * 1000 + i, "x") }).collect();
        rows.push(ProcessRow { processor: 1.0, ..row(1, "hog") });
        culprits.add_table(&table(rows));
    }
    // thousands of equals are neither all kept nor all forgotten
    assert!((MAX_PROCESSES..=2 * MAX_PROCESSES + 1000).contains(&culprits.processes.len()));
    assert_eq!(culprits.for_bottleneck(Bottleneck::Cpu, None, None)[0].name, "hog");
}

/// It waits most and moves least: the one that moves the bytes is the cause.
#[test]
fn who_moves_the_bytes_comes_before_who_waits_for_them() {
    let mut culprits = Culprits::default();
    let hogs = [(7, "tar"), (8, "rsync"), (9, "cp")]
        .map(|(pid, name)| ProcessRow { read_bytes_per_s: Some(30e6), ..row(pid, name) });
    let victim = ProcessRow { read_bytes_per_s: Some(1e5), block_delay: Some(0.9), ..row(5, "postgres") };
    let reader = ProcessRow { read_bytes_per_s: Some(7e6), block_delay: Some(0.9), ..row(6, "mysqld") };
    culprits.add_table(&table([vec![victim, reader], hogs.to_vec()].concat()));
    let found = culprits.for_bottleneck(Bottleneck::Disk, None, None);
    let names: Vec<&str> = found.iter().map(|culprit| culprit.name.as_str()).collect();
    assert_eq!(names, ["tar", "rsync", "cp", "mysqld", "postgres"]);
}

#[test]
fn what_went_into_the_page_cache_is_told_from_what_the_disk_took() {
    let mut culprits = Culprits::default();
    let writer = ProcessRow { write_bytes_per_s: Some(6.44e6), ..row(7, "cp") };
    culprits.add_table(&table(vec![writer]));
    let words = |taken: f64| culprits.for_loaded_disk(Bottleneck::Disk, None, None, Some(taken)).remove(0).description;
    assert_eq!(words(1.07e6), "writes 6.44 MB/s to the page cache (the disk took 1.07 MB/s in all)");
    assert_eq!(words(6.4e6), "writes 6.44 MB/s");
    // of several disks, another may have taken the rest
    let other = BlamedDisk { name: "sdb".into(), ..BlamedDisk::default() };
    let found = culprits.for_loaded_disk(Bottleneck::Disk, None, Some(&other), Some(1.07e6));
    assert!(found[0].description.starts_with("writes 6.44 MB/s (by total I/O"), "{}", found[0].description);
}

#[test]
fn a_culprit_says_who_it_is_and_where_it_runs() {
    let place = ProcessPlace {
        container: Some(ProcessContainer { runtime: "docker".into(), name: Some("db".into()), id: "0123".into() }),
        ..ProcessPlace::default()
    };
    let worker = |pid: u32, read: f64, line: &str| ProcessRow {
        read_bytes_per_s: Some(read),
        user: Some("70".into()),
        command_line: Some(line.into()),
        place: Some(Box::new(place.clone())),
        ..row(pid, "postgres")
    };
    let mut culprits = Culprits::default();
    culprits.add_table(&table(vec![worker(5, 1e6, "postgres: idle"), worker(6, 3e6, "postgres: app COMMIT")]));
    // a later table may list it without its names
    culprits.add_table(&table(vec![ProcessRow { read_bytes_per_s: Some(1e6), ..row(6, "postgres") }]));
    let found = culprits.for_bottleneck(Bottleneck::Disk, Some("/jobs/postgres"), None);
    assert_eq!(found[0].place.container, place.container, "the cgroup has the name of its container");
    assert_eq!(found[1].command_line.as_deref(), Some("postgres: app COMMIT"), "of the most active one");
    assert_eq!((found[1].user.as_deref(), &found[1].place.container), (Some("70"), &place.container));
}

#[test]
fn the_path_of_a_cgroup_tells_the_unit_where_no_table_does() {
    let mut culprits = Culprits::default();
    let cron = ProcessRow { cgroup: "/system.slice/cron.service".into(), processor: 1.0, ..row(7, "tar") };
    culprits.add_table(&table(vec![cron]));
    assert_eq!(culprits.for_bottleneck(Bottleneck::Cpu, None, None)[0].place.unit.as_deref(), Some("cron.service"));
}
