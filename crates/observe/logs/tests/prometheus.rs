//! Exposition pages made by these tests, in the shapes of the exporters' pages.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use crate::text_log::read_as_format;
use diskwright_base::{Catalogue, CounterPlan, Frame, Note};
use diskwright_logs::{LogError, LogInput, LogOptions, LogPiece, ReadSummary, prometheus, read};

/// Output of a reading.
struct ReadOutcome {
    frames: Vec<Frame>,
    notes: Vec<Note>,
    summary: Result<ReadSummary, LogError>,
}

fn read_pages(text: &str, options: &LogOptions) -> ReadOutcome {
    let (mut frames, mut notes) = (Vec::new(), Vec::new());
    let mut input = LogInput::from_bytes("pages.prom", text.as_bytes().to_vec()).unwrap();
    let summary = read(&mut input, options, &mut |piece| {
        match piece {
            LogPiece::Frame(frame) => frames.push(frame.clone()),
            LogPiece::Note(note) => notes.push(note),
        }
        ControlFlow::Continue(())
    });
    ReadOutcome { frames, notes, summary }
}

impl ReadOutcome {
    /// Returns the mean of a counter over the whole log.
    fn mean_of(&self, counter: &str, instance: &str) -> Option<f64> {
        let mut sum = diskwright_base::CounterSummary::default();
        let mut last = None;
        for frame in &self.frames {
            let Some(plan) = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), counter, instance)
            else {
                continue;
            };
            sum.merge_summary(&plan.summarise_ticks(frame, |_| true));
            last = Some(plan);
        }
        last.and_then(|plan| plan.summary_value(&sum))
    }

    fn assert_near(&self, counter: &str, instance: &str, value: f64) {
        let found = self.mean_of(counter, instance).unwrap_or_else(|| panic!("no {counter}"));
        assert!((found - value).abs() < 1e-9 * value.max(1.0), "{counter}: {found}");
    }

    fn skip_lines(&self) -> Vec<String> {
        let summary = self.summary.as_ref().unwrap();
        summary.skipped.iter().map(|s| format!("{}: {} x{}", s.context, s.reason, s.count)).collect()
    }
}

/// Makes a page of a Linux machine `offset` seconds after its start, without a time.
fn make_page(offset: u64) -> String {
    let t = offset as f64;
    let disk = "device=\"sda\"";
    let rest: String = ["nice", "system", "iowait", "irq", "softirq", "steal"]
        .map(|mode| format!("node_cpu_seconds_total{{cpu=\"0\",mode=\"{mode}\"}} 5\n"))
        .concat();
    format!(
        "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n\
         # TYPE node_cpu_seconds_total counter\n\
         node_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} {}\n\
         node_cpu_seconds_total{{cpu=\"0\",mode=\"user\"}} {}\n\
         {rest}\
         # TYPE node_disk_io_now gauge\n\
         node_disk_io_now{{{disk}}} 3\n\
         # TYPE node_disk_io_time_weighted_seconds_total counter\n\
         node_disk_io_time_weighted_seconds_total{{{disk}}} {}\n\
         node_disk_info{{{disk},major=\"8\",minor=\"0\",model=\"DISK\",rotational=\"1\"}} 1\n\
         node_disk_read_time_seconds_total{{{disk}}} {}\n\
         node_disk_reads_completed_total{{{disk}}} {}\n\
         node_disk_writes_completed_total{{{disk}}} 7\n\
         # TYPE node_memory_MemTotal_bytes gauge\n\
         node_memory_MemTotal_bytes 1.6e+10\n\
         node_memory_MemAvailable_bytes 4e+09\n\
         node_network_speed_bytes{{device=\"eth0\"}} -125000\n\
         node_uname_info{{nodename=\"db1\",release=\"6.1.0\"}} 1\n\
         node_vmstat_pswpin {}\n\
         go_goroutines 8\n\
         go_gc_cycles_total {}\n",
        100.0 + 0.25 * t,
        50.0 + 0.75 * t,
        10.0 + 4.0 * t,
        5.0 + 2.0 * t,
        1000.0 + 100.0 * t,
        20.0 * t,
        3.0 * t,
    )
}

fn make_timed_page(offset: u64) -> String {
    make_page(offset) + &format!("node_time_seconds {}\n", 1_700_000_000 + offset)
}

#[test]
fn reads_rates_and_levels_from_several_pages() {
    let got =
        read_pages(&[make_timed_page(0), make_timed_page(15), make_timed_page(30)].concat(), &LogOptions::default());
    let summary = got.summary.as_ref().unwrap();
    assert_eq!((summary.ticks, summary.host.as_str()), (3, "db1"));
    assert_eq!(summary.range.unwrap().0, 1_700_000_000_000_000_000);
    got.assert_near("processor.busy", "cpu0", 0.75);
    got.assert_near("physical_disk.avg_s_per_read", "sda", 0.02);
    got.assert_near("physical_disk.avg_queue_length", "sda", 4.0);
    got.assert_near("physical_disk.reads_per_s", "sda", 100.0);
    got.assert_near("physical_disk.stalled", "sda", 0.0);
    got.assert_near("paging.swap_in_pages_per_s", "", 20.0);
    got.assert_near("memory.available_fraction", "", 0.25);
    assert!(got.mean_of("network.link_bytes_per_s", "eth0").is_none(), "an unknown speed is no speed");
    // two of go, the info series of disk and machine, and the clock
    assert_eq!(summary.foreign, 5);
    let topology = got.notes.iter().find(|n| n.kind == Note::TOPOLOGY).unwrap();
    let topology = topology.read_topology().unwrap();
    assert_eq!((topology.processors, topology.memory_bytes), (1, 16_000_000_000));
    assert_eq!(topology.devices[0].rotational, Some(true));
}

#[test]
fn reads_levels_from_one_page_and_reports_that_rates_need_two() {
    let got = read_pages(&make_timed_page(0), &LogOptions::default());
    got.assert_near("memory.available_fraction", "", 0.25);
    assert_eq!(got.mean_of("physical_disk.reads_per_s", "sda"), None);
    assert!(got.notes.iter().any(|n| n.kind == Note::WARNING && n.text().contains("rates need two")));
}

#[test]
fn one_page_that_shows_when_the_machine_started_gives_averages_since_then() {
    let page = make_timed_page(0) + "node_boot_time_seconds 1699999000\n";
    let got = read_pages(&page, &LogOptions::default());
    // 1000 reads of 5 ms each in 1000 s
    got.assert_near("physical_disk.reads_per_s", "sda", 1.0);
    got.assert_near("physical_disk.avg_s_per_read", "sda", 0.005);
    assert!(got.notes.iter().any(|n| n.kind == Note::WARNING && n.text().contains("since the machine started")));
}

#[test]
fn pages_without_times_show_levels_and_need_an_interval_for_more() {
    let pages = [make_page(0), make_page(15)].concat();
    let counted = read_pages(&pages, &LogOptions::default());
    assert_eq!(counted.mean_of("physical_disk.reads_per_s", "sda"), None);
    counted.assert_near("memory.available_fraction", "", 0.25);
    let interval = LogOptions { interval: Some(Duration::from_secs(15)), ..LogOptions::default() };
    let got = read_pages(&pages, &interval);
    got.assert_near("physical_disk.reads_per_s", "sda", 100.0);
    let assumed =
        |note: &&Note| note.kind == Note::WARNING && note.text().contains("times are assumed from --interval");
    assert_eq!(got.notes.iter().filter(assumed).count(), 1);
    assert_eq!(
        read_pages(&[make_timed_page(0), make_timed_page(15)].concat(), &interval).notes.iter().filter(assumed).count(),
        0
    );
}

#[test]
fn skips_a_page_that_lost_its_time() {
    let pages: Vec<String> = [0, 15, 30, 45].map(make_timed_page).into();
    let clock = |page: &String| page.lines().filter(|l| !l.contains("node_time")).map(|l| format!("{l}\n")).collect();
    for lost in 0..4 {
        let mut pages = pages.clone();
        pages[lost] = clock(&pages[lost]);
        // the option would count on from the page before
        let options = LogOptions { interval: Some(Duration::from_secs(1)), ..LogOptions::default() };
        let got = read_pages(&pages.concat(), &options);
        let all: Vec<(i64, u64)> = got
            .frames
            .iter()
            .flat_map(|f| f.ticks())
            .map(|t| (t.time_ns / 1_000_000_000 % 100, t.elapsed_ns))
            .collect();
        assert_eq!(all.len(), 3, "{lost}: {all:?}");
        assert!(all.iter().all(|(_, elapsed)| [0, 15, 30].map(|s| s * 1_000_000_000).contains(elapsed)), "{all:?}");
        assert!(got.skip_lines().iter().any(|s| s.contains("a page without a timestamp")), "{:?}", got.skip_lines());
    }
}

/// The clock of Windows' exporter has whole seconds.
#[test]
fn growth_of_a_page_without_a_later_time_counts_with_the_next() {
    for clock in [10, 7] {
        let same = make_page(12) + &format!("node_time_seconds {}\n", 1_700_000_000 + clock);
        let got = read_pages(
            &[make_timed_page(0), make_timed_page(10), same, make_timed_page(20)].concat(),
            &LogOptions::default(),
        );
        assert_eq!(got.summary.as_ref().unwrap().ticks, 3);
        got.assert_near("physical_disk.reads_per_s", "sda", 100.0);
        got.assert_near("processor.busy", "cpu0", 0.75);
        let because = if clock == 10 { "the same time" } else { "time goes backwards" };
        assert!(got.skip_lines().iter().any(|s| s.contains(because)), "{:?}", got.skip_lines());
    }
}

#[test]
fn reads_open_metrics_with_timestamps_and_exemplars() {
    let page = |time_s: f64, reads: f64| {
        format!(
            "# TYPE node_disk_reads_completed counter\n# UNIT x seconds\n\
             node_disk_reads_completed_total{{device=\"sda\"}} {reads} {time_s} # {{id=\"}} 1\"}} 0.5\n# EOF\n"
        )
    };
    let got = read_pages(&[page(1.7e9, 5.0), page(1.7e9 + 10.0, 105.0)].concat(), &LogOptions::default());
    got.assert_near("physical_disk.reads_per_s", "sda", 10.0);
}

#[test]
fn reads_windows_names_and_computes_busy_from_idle() {
    let page = |offset: u64| {
        let t = offset as f64;
        format!(
            "\u{feff}# TYPE wmi_cpu_time_total counter\r\n\
             wmi_cpu_time_total{{core=\"0,0\",mode=\"idle\"}} {}\r\n\
             wmi_cpu_time_total{{core=\"0,0\",mode=\"user\"}} {}\r\n\
             wmi_physical_disk_idle_seconds_total{{disk=\"0\"}} {}\r\n\
             wmi_physical_disk_read_latency_seconds_total{{disk=\"0\"}} {}\r\n\
             wmi_physical_disk_read_seconds_total{{disk=\"0\"}} {}\r\n\
             wmi_physical_disk_reads_total{{disk=\"0\"}} {}\r\n\
             wmi_physical_disk_reads_total{{disk=\"_Total\"}} {}\r\n\
             wmi_cs_hostname{{hostname=\"FILES\"}} 1\r\n\
             wmi_os_time {}\r\n",
            0.4 * t,
            0.6 * t,
            0.1 * t,
            0.5 * t,
            0.5 * t,
            50.0 * t,
            50.0 * t,
            1.7e9 + t
        )
    };
    let got = read_pages(&[page(0), page(10), page(20)].concat(), &LogOptions::default());
    got.assert_near("processor.busy", "0,0", 0.6);
    got.assert_near("physical_disk.busy", "0", 0.9);
    got.assert_near("physical_disk.avg_s_per_read", "0", 0.01);
    assert!(got.mean_of("physical_disk.reads_per_s", "_Total").is_none());
    assert_eq!(got.summary.unwrap().host, "FILES");
}

#[test]
fn skips_broken_lines_and_reads_the_rest() {
    let broken = "node_load1{ 1\nnode_load1 x\nnode_load5 +Inf\nnode_load15 NaN\n\
                  node_procs_running 2\nnode_procs_running 3\n";
    let got = read_pages(&[make_timed_page(0).as_str(), broken, &make_timed_page(15)].concat(), &LogOptions::default());
    let skipped = got.skip_lines();
    let expect_skip = |text: &str| assert!(skipped.iter().any(|s| s.contains(text)), "{text}: {skipped:?}");
    expect_skip("line 28: the labels do not end");
    expect_skip("line 29: the value is not a number");
    expect_skip("line 30: an infinite value");
    expect_skip("line 33: a series twice in one page");
    got.assert_near("system.running", "", 2.0);
    assert_eq!(got.mean_of("system.load_15", ""), None);
}

#[test]
fn a_restarted_counter_is_a_gap_and_reported() {
    let page = |offset: u64, reads: u64| {
        format!(
            "node_disk_reads_completed_total{{device=\"sda\"}} {reads}\nnode_time_seconds {}\n",
            1_700_000_000 + offset
        )
    };
    let got =
        read_pages(&[page(0, 1000), page(10, 1100), page(20, 50), page(30, 150)].concat(), &LogOptions::default());
    got.assert_near("physical_disk.reads_per_s", "sda", 10.0);
    assert!(got.skip_lines()[0].contains("restarted"));
}

#[test]
fn rejects_samples_ordered_by_series() {
    let dump = "node_load1 1 1700000000\nnode_load1 2 1700000015\nnode_load1 3 1700000030\nnode_load5 1 1700000000\n";
    let message = read_pages(dump, &LogOptions::default()).summary.unwrap_err().to_string();
    assert!(message.contains("line 4") && message.contains("ordered by series"), "{message}");
}

#[test]
fn joins_files_of_one_page_each() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    let paths: Vec<_> = (0..3)
        .map(|number| {
            let path = folder.join(format!("{number}.prom"));
            std::fs::write(&path, make_timed_page(number * 15) + if number == 1 { "broken\n" } else { "" }).unwrap();
            path
        })
        .collect();
    let named = |paths: &[PathBuf]| paths.iter().map(|p| (p.clone(), p.display().to_string())).collect::<Vec<_>>();
    assert!(prometheus::are_pages(&named(&paths)));
    let mut input = prometheus::open_joined(named(&paths)).unwrap();
    let summary = read(&mut input, &LogOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(summary.ticks, 3);
    let skipped = &summary.skipped[0].context;
    assert!(skipped.ends_with("1.prom: line 28"), "{:?}", summary.skipped);
    assert!(!prometheus::are_pages(&named(&paths[..1])));
    assert!(!prometheus::are_pages(&named(&[paths[0].clone(), folder])));
}

/// Pages are numbered over all files, so that without the file's name nobody would find the page.
#[test]
fn a_restarted_counter_in_a_joined_log_names_its_file() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("restarted");
    std::fs::create_dir_all(&folder).unwrap();
    let files = [1000, 1100, 50].into_iter().enumerate().map(|(number, reads)| {
        let path = folder.join(format!("{number}.prom"));
        let time = 1_700_000_000 + 10 * number;
        let page = format!("node_disk_reads_completed_total{{device=\"sda\"}} {reads}\nnode_time_seconds {time}\n");
        std::fs::write(&path, page).unwrap();
        (path.clone(), path.display().to_string())
    });
    let mut input = prometheus::open_joined(files.collect()).unwrap();
    let summary = read(&mut input, &LogOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    let skip = &summary.skipped[0];
    assert!(skip.reason.contains("restarted") && skip.context.ends_with("2.prom: page 3"), "{skip:?}");
}

#[test]
fn no_broken_input_panics() {
    let full_page = [make_timed_page(0), make_timed_page(15)].concat();
    for cut in (0..full_page.len()).step_by(7) {
        if let Err(error) = read_pages(&full_page[..cut], &LogOptions::default()).summary {
            assert!(error.to_string().contains("pages.prom"), "{error}");
        }
    }
    let long = format!("node_load1 1\nnode_x{{a=\"{}\"}} 1\nnode_load5 2\n", "y".repeat(3 << 20));
    let got = read_pages(&long, &LogOptions::default());
    assert!(got.skip_lines()[0].contains("longer than 1 MiB"));
    got.assert_near("system.load_5", "", 2.0);
}

#[test]
fn many_series_are_followed_up_to_a_limit() {
    let page: String = (0..50_100).map(|i| format!("node_x{{n=\"{i}\"}} 1\n")).collect();
    let got = read_pages(&format!("node_load1 1\n{page}"), &LogOptions::default());
    assert!(got.skip_lines()[0].contains("more series than the limit"));
}

#[test]
fn flushes_of_etcd_are_latencies_of_its_disk() {
    let page = |fast: u32, slow: u32| {
        let bucket = |bound: &str, count: u32| {
            format!("etcd_disk_wal_fsync_duration_seconds_bucket{{le=\"{bound}\"}} {count}\n")
        };
        let buckets = [bucket("0.004", fast), bucket("0.016", fast + slow), bucket("+Inf", fast + slow)].concat();
        format!("# TYPE etcd_disk_wal_fsync_duration_seconds histogram\n{buckets}")
    };
    let disk = "disk of etcd's log";
    let read = |text: &str| {
        let read = read_as_format("prometheus-text", text, &LogOptions::default());
        let last = |counter: &str| read.column_values(counter, disk).last().copied();
        [last("physical_disk.sync_write_latency_p50_s"), last("physical_disk.sync_write_latency_p99_s")]
    };
    let [half, most] = read(&page(9000, 1000)).map(Option::unwrap);
    assert!((half - 0.004 * 5.0 / 9.0).abs() < 1e-5 && (most - (0.004 + 0.012 * 0.9)).abs() < 1e-5, "{half} {most}");
    // two pages tell what came between
    let two = page(9000, 1000) + "# EOF\n" + &page(9000, 5000);
    let [half, _] = read(&two).map(Option::unwrap);
    assert!((half - 0.01).abs() < 1e-5, "{half}");
    // few flushes have no percentile
    assert!(read(&page(90, 10)).iter().all(|value| value.is_none_or(f64::is_nan)));
}
