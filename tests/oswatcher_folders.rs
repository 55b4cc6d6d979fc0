//! Folders of OSWatcher and ExaWatcher. In these fixtures the first report of a tool, which covers the time since boot,
//! has 77 in all columns, and the reports of intervals have another constant, so that a value of the wrong row shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{diskwright, folder, stderr, success};

/// Runs of a tool in a file of OSWatcher, thirty seconds apart.
const OSWATCHER_RUNS: u32 = 24;
/// Reports of a tool that runs continuously for ExaWatcher.
const EXAWATCHER_REPORTS: u32 = 48;

/// Start of a run, seconds of the day.
fn run_start_s(run: u32) -> u32 {
    5 * 3600 + 1 + run * 30
}

/// Clock time of a second of the day.
fn clock_time(second: u32) -> String {
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// First line of the text of sysstat's tools.
fn kernel_header(host: &str) -> String {
    format!("Linux 5.15.0-200.el8uek.x86_64 ({host}) \t11/23/2026 \t_x86_64_\t(4 CPU)\n\n")
}

fn iostat_report(value: u32) -> String {
    let (user, idle) = if value == 77 { (77, 13) } else { (20, 70) };
    format!(
        "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          {user}.00    0.00    5.00    5.00    0.00  \
         {idle}.00\n\nDevice            r/s     w/s     rkB/s     wkB/s r_await w_await aqu-sz  %util\n\
         sda             {value}.00   {value}.00    {value}.00    {value}.00   {value}.00   {value}.00  {value}.00  \
         {value}.00\n\n\n"
    )
}

fn vmstat_text(rows: u32) -> String {
    let row = |since_boot: bool| match since_boot {
        true => " 77 77   77   77     77    77   77   77    77    77  77   77 77  2 16  5  0\n",
        false => " 2  1      0 400000  10000 900000    0    0   100   200  500 1000 20  5 70  5  0\n",
    };
    let heads = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n\
                 \x20r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    // vmstat repeats its headings after 20 rows
    let all = (0..rows).map(|run| if run % 20 == 0 { heads.to_owned() + row(run == 0) } else { row(false).to_owned() });
    all.collect()
}

fn mpstat_report(end: u32) -> String {
    let row = |processor: &str| {
        format!(
            "{}  {processor:>3}   20.00    0.00    5.00    5.00    0.00    0.00    0.00    0.00    0.00   70.00\n",
            clock_time(end)
        )
    };
    let heads = "  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n";
    format!("{}{heads}{}{}{}\n", clock_time(end - 1), row("all"), row("0"), row("1"))
}

fn top_text(begin: u32, busy: u32) -> String {
    format!(
        "\ntop - {} up 54 min,  1 user,  load average: 7.93, 5.37, 3.95\n\
         Tasks:  95 total,   1 running,  94 sleeping,   0 stopped,   0 zombie\n\
         %Cpu(s): {busy}.0 us,  5.0 sy,  0.0 ni, {}.0 id,  5.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\
         MiB Mem :  24105.6 total,  17140.1 free,   2329.0 used,   5037.1 buff/cache\n\
         MiB Swap:      0.0 total,      0.0 free,      0.0 used.  21776.6 avail Mem \n\n    \
         PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n     \
         42 root      20   0  168140  11820   8480 S  {busy}.0   0.0   0:01.50 oracle\n",
        clock_time(begin),
        90 - busy
    )
}

const MEMINFO_TEXT: &str = "MemTotal:       16000000 kB\nMemFree:         400000 kB\nMemAvailable:    900000 kB\n\
                      Buffers:          10000 kB\nCached:          900000 kB\nDirty:              100 kB\n";

/// Writes a file and creates its folder.
fn write_file(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a folder of OSWatcher whose clock is in this time zone.
fn write_oswatcher_folder(top_folder: &Path, host: &str, zone: &str) {
    let file = |tool: &str, run: &dyn Fn(u32) -> String| {
        let zzz = |number: u32| format!("zzz ***Mon Nov 23 {} {zone} 2026\n", clock_time(run_start_s(number)));
        let text: String = (0..OSWATCHER_RUNS).map(|number| zzz(number) + &run(run_start_s(number))).collect();
        let path = top_folder.join(format!("archive/osw{tool}/{host}_{tool}_26.11.23.0500.dat"));
        write_file(path, &format!("Linux OSWbb v8.4.0\n{text}"));
    };
    let reports = || iostat_report(77) + &iostat_report(50).repeat(2);
    file("iostat", &|_| kernel_header(host) + &reports());
    file("vmstat", &|_| vmstat_text(3));
    file("mpstat", &|begin| {
        let average = mpstat_report(begin + 2).lines().skip(1).fold(String::new(), |all, line| {
            let (_, rest) = line.split_at(line.len().min(8));
            if rest.is_empty() { all } else { format!("{all}Average:{rest}\n") }
        });
        kernel_header(host) + &mpstat_report(begin + 1) + &mpstat_report(begin + 2) + &average
    });
    file("top", &|begin| top_text(begin, 77));
    file("meminfo", &|_| MEMINFO_TEXT.to_owned());
    file("ps", &|_| "F S USER PID\n4 S root 1\n".to_owned());
}

/// Writes a folder of ExaWatcher.
fn write_exawatcher_folder(top_folder: &Path, host: &str) {
    let rule = "#".repeat(60);
    let file = |module: &str, command: &str, text: String| {
        let head = format!(
            "{rule}\n# Starting Time:\t11/23/2026 05:00:00\n# Sample Interval(s):\t5\n# Archive Count:\t720\n\
             # Collection Module:\t{module}ExaWatcher\n# Collection Command:\t{command}\n{rule}\n"
        );
        let name = format!("archive/{module}.ExaWatcher/2026_11_23_05_00_00_{module}ExaWatcher_{host}.dat");
        write_file(top_folder.join(name), &(head + &text));
    };
    let zzz = |run: u32| format!("zzz <11/23/2026 {}> Count:{}\n", clock_time(5 * 3600 + run * 5), 720 - run);
    let all = |of: &dyn Fn(u32) -> String| (0..EXAWATCHER_REPORTS).map(of).collect::<String>();
    let reports = all(&|run| {
        format!("11/23/2026 {} AM\n{}", clock_time(5 * 3600 + run * 5), iostat_report(if run == 0 { 77 } else { 50 }))
    });
    file("Iostat", "/usr/bin/iostat -t -x  5  720", zzz(0) + &kernel_header(host) + &reports);
    file("Vmstat", "/usr/bin/vmstat 5 720", zzz(0) + &vmstat_text(EXAWATCHER_REPORTS));
    let reports = all(&|run| mpstat_report(5 * 3600 + run * 5 + 5));
    file("Mpstat", "/usr/bin/mpstat -P ALL  5  720", zzz(0) + &kernel_header(host) + &reports);
    file("Meminfo", "cat /proc/meminfo", all(&|run| zzz(run) + MEMINFO_TEXT));
    let frames = all(&|run| top_text(5 * 3600 + run * 5, if run == 0 { 77 } else { 20 }));
    file("Top", "/usr/bin/top -b -d 5 -n 720", zzz(0) + &frames);
}

/// Exports a log; returns the times of its rows, seconds of the day, and the distinct values of each column but gaps.
fn read_export(path: &Path) -> (Vec<u32>, BTreeMap<String, BTreeSet<String>>) {
    let done = diskwright(&["export", path.to_str().unwrap(), "--as", "csv"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let text = String::from_utf8(done.stdout).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut columns: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut times = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let clock: Vec<u32> = cells[0][11..19].split(':').map(|part| part.parse().unwrap()).collect();
        times.push(clock[0] * 3600 + clock[1] * 60 + clock[2]);
        for (name, cell) in names.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            columns.entry((*name).to_owned()).or_default().insert((*cell).to_owned());
        }
    }
    (times, columns)
}

/// Expects these times, a single value in each column, and these values in some columns.
fn expect_one_value(path: &Path, times: &[u32], some: &[(&str, &str)]) {
    let (found, columns) = read_export(path);
    assert_eq!(found, times, "{}", path.display());
    for (name, values) in &columns {
        assert_eq!(values.len(), 1, "{}: {name} has {values:?}", path.display());
    }
    for (name, value) in some {
        let values: Vec<&str> = columns.get(*name).into_iter().flatten().map(String::as_str).collect();
        assert_eq!(values, [*value], "{}: {name}", path.display());
    }
}

const IOSTAT_VALUES: &[(&str, &str)] = &[("physical_disk.reads_per_s{sda}", "50"), ("processor.user{_total}", "0.2")];
const PROCESSOR_VALUES: &[(&str, &str)] = &[("processor.user{_total}", "0.2")];

#[test]
fn skips_values_since_boot_in_each_oswatcher_run() {
    let top_folder = folder("watchers-osw");
    let archive = top_folder.join("archive");
    for (zone, shift) in [("UTC", 0), ("CET", 3600)] {
        write_oswatcher_folder(&top_folder, "db1.example.com", zone);
        let path = |tool: &str| archive.join(format!("osw{tool}/db1.example.com_{tool}_26.11.23.0500.dat"));
        let begun: Vec<u32> = (0..OSWATCHER_RUNS).map(|run| run_start_s(run) - shift).collect();
        let later: Vec<u32> = begun.iter().flat_map(|begin| [begin + 1, begin + 2]).collect();
        expect_one_value(&path("iostat"), &later, IOSTAT_VALUES);
        expect_one_value(&path("vmstat"), &later, PROCESSOR_VALUES);
        expect_one_value(&path("mpstat"), &later, PROCESSOR_VALUES);
        expect_one_value(&path("top"), &begun, &[("system.load_1", "7.93")]);
        expect_one_value(&path("meminfo"), &begun, &[("memory.free_bytes", "409600000")]);
        assert!(!read_export(&path("top")).1.contains_key("processor.user{_total}"), "shares since boot");
    }
    let done = diskwright(&["why", top_folder.to_str().unwrap(), "--json"]);
    let message = stderr(&done);
    assert!(message.contains("1 iostat-text, 1 proc-loop, 1 sar-text, 1 top-text, 1 vmstat-text"), "{message}");
    assert!(
        !message.contains("neither") && !message.contains("not of top") && !message.contains("not a row"),
        "{message}"
    );
    let verdict = success(&done);
    assert_eq!(verdict["host"], "db1.example.com");
}

#[test]
fn takes_intervals_from_exawatcher_headers() {
    let top_folder = folder("watchers-exa");
    write_exawatcher_folder(&top_folder, "cell1.example.com");
    let path = |module: &str| {
        let name = format!("2026_11_23_05_00_00_{module}ExaWatcher_cell1.example.com.dat");
        top_folder.join(format!("archive/{module}.ExaWatcher")).join(name)
    };
    let all: Vec<u32> = (0..EXAWATCHER_REPORTS).map(|run| 5 * 3600 + run * 5).collect();
    expect_one_value(&path("Iostat"), &all[1..], IOSTAT_VALUES);
    expect_one_value(&path("Vmstat"), &all[1..], PROCESSOR_VALUES);
    let ends: Vec<u32> = all.iter().map(|second| second + 5).collect();
    expect_one_value(&path("Mpstat"), &ends, PROCESSOR_VALUES);
    expect_one_value(&path("Meminfo"), &all, &[("memory.free_bytes", "409600000")]);
    expect_one_value(&path("Top"), &all, PROCESSOR_VALUES);
    let vmstat = success(&diskwright(&["why", path("Vmstat").to_str().unwrap(), "--json"]));
    assert_eq!(vmstat["host"], "cell1.example.com", "the file's name tells it");
    let done = diskwright(&["why", top_folder.to_str().unwrap(), "--json"]);
    assert!(!stderr(&done).contains("neither") && !stderr(&done).contains("not a row"), "{}", stderr(&done));
    assert_eq!(success(&done)["host"], "cell1.example.com");
}

#[test]
fn distinguishes_machines_by_file_names() {
    let top_folder = folder("watchers-two");
    for host in ["db1.example.com", "db2.example.com"] {
        write_oswatcher_folder(&top_folder, host, "UTC");
    }
    // vmstat, top and meminfo do not print the machine, so only the file names are left
    fs::remove_dir_all(top_folder.join("archive/oswiostat")).unwrap();
    fs::remove_dir_all(top_folder.join("archive/oswmpstat")).unwrap();
    let bundle = top_folder.to_str().unwrap();
    for host in ["db1.example.com", "db2.example.com"] {
        let done = diskwright(&["why", bundle, "--host", host, "--json"]);
        assert_eq!(success(&done)["host"], host, "{}", stderr(&done));
        assert!(stderr(&done).contains("it is of another machine"), "{}", stderr(&done));
    }
    let done = diskwright(&["why", bundle, "--json"]);
    assert!(stderr(&done).contains("the logs are of several machines"), "{}", stderr(&done));
}
