//! Impossible values in every format: the second row of each fixture is changed, and the means are those without it.

use std::ops::ControlFlow;
use std::path::Path;

use diskwright_base::counter_plan::{CounterPlan, CounterSummary};
use diskwright_base::{Catalogue, Note};
use diskwright_logs::{FrameBatch, LogInput, LogOptions, LogPiece, ReadSummary, pcp};

use crate::pcp_encoder::{
    Archive, BUSY, COUNT, COUNTER, DISKS, FREE, INSTANT, KBYTE, MSEC, NONE, READS, START, U64, Value,
};

/// Returns the mean of a counter over a log, and the reasons of skips with their counts.
fn read_mean(text: &str, counter: &str, instance: &str) -> (f64, Vec<(String, u64)>) {
    let mut sum = MeanSink::new(counter, instance);
    let mut input = LogInput::from_bytes("log", text.as_bytes().to_vec()).unwrap();
    let options = LogOptions { interval: Some(std::time::Duration::from_secs(1)), ..LogOptions::default() };
    let summary = diskwright_logs::read(&mut input, &options, &mut |piece| sum.add_piece(&piece)).unwrap();
    sum.finish(&summary)
}

struct MeanSink<'a> {
    series: (&'a str, &'a str),
    sum: CounterSummary,
    plan: Option<CounterPlan>,
}

impl<'a> MeanSink<'a> {
    fn new(counter: &'a str, instance: &'a str) -> MeanSink<'a> {
        MeanSink { series: (counter, instance), sum: CounterSummary::default(), plan: None }
    }

    fn add_piece(&mut self, piece: &LogPiece<'_>) -> ControlFlow<()> {
        if let LogPiece::Frame(frame) = piece
            && let Some(found) =
                CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), self.series.0, self.series.1)
        {
            self.sum.merge_summary(&found.summarise_ticks(frame, |_| true));
            self.plan = Some(found);
        }
        ControlFlow::Continue(())
    }

    fn finish(self, summary: &ReadSummary) -> (f64, Vec<(String, u64)>) {
        let value = self.plan.and_then(|p| p.summary_value(&self.sum)).unwrap_or(f64::NAN);
        (value, summary.skipped.iter().map(|s| (s.reason.clone(), s.count)).collect())
    }
}

fn read_fixture(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// Returns the text with the second occurrence of `from` changed, or the only one.
fn change_fixture(name: &str, from: &str, to: &str) -> String {
    let text = read_fixture(name);
    let first = text.find(from).unwrap_or_else(|| panic!("{name} has no {from}"));
    let position = text[first + from.len()..].find(from).map_or(first, |next| first + from.len() + next);
    format!("{}{to}{}", &text[..position], &text[position + from.len()..])
}

/// Checks that the mean is the same as without the row, and that the reason is reported once.
fn assert_left_out(name: &str, from: &str, to: &str, counter: &str, instance: &str, reason: &str) {
    let (original, before) = read_mean(&read_fixture(name), counter, instance);
    let (found, skipped) = read_mean(&change_fixture(name, from, to), counter, instance);
    assert!((found / original - 1.0).abs() < 0.01, "{name}, {to}: {counter} is {found}, not {original}");
    assert!(before.iter().all(|(because, _)| !because.contains(reason)), "{name}: {before:?}");
    assert!(skipped.iter().any(|(because, times)| because.contains(reason) && *times == 1), "{name}: {skipped:?}");
}

const SADF: &str = concat!(
    r#""usr": 13.00, "nice": 0.00, "sys": 3.00, "iowait": 40.00, "steal": 0.00, "irq": 0.00, "soft": 0.50, "#,
    r#""guest": 0.00, "gnice": 0.00, "idle": 43.50"#
);
const MPSTAT: &str = concat!(
    r#""all", "usr": 20.00, "nice": 0.00, "sys": 5.00, "iowait": 1.00, "irq": 0.00, "soft": 0.20, "steal": 0.00, "#,
    r#""guest": 0.00, "gnice": 0.00, "idle": 73.80"#
);
const IOSTAT: &str = r#""user": 12.00, "nice": 0.00, "system": 3.50, "iowait": 40.00, "steal": 0.00, "idle": 44.50"#;
const SADF_XML: &str = concat!(
    r#"usr="13.00" nice="0.00" sys="3.00" iowait="40.00" steal="0.00" irq="0.00" soft="0.50" guest="0.00" "#,
    r#"gnice="0.00" idle="43.50""#
);

/// Replaces all numbers of a row by zeros.
fn replace_by_zeros(row: &str) -> String {
    let mut is_number = false;
    let zero = |c: char| match c {
        '0'..='9' | '.' if is_number => None,
        '0'..='9' => {
            is_number = true;
            Some('0')
        }
        _ => {
            is_number = false;
            Some(c)
        }
    };
    row.chars().filter_map(zero).collect()
}

#[test]
fn processors_of_zeros_after_a_pause_are_not_busy() {
    for (name, row) in [
        ("sar-text.txt", "12.00      0.00      3.50     40.00      0.00     44.50"),
        ("iostat-text.txt", "12.00    0.00    3.50   40.00    0.00   44.50"),
        ("sadf-rows.csv", "12.00;0.00;3.50;40.00;0.00;44.50"),
        ("vmstat-text.txt", "12  3 45 40  0"),
        ("sadf-json.json", SADF),
        ("sadf-xml.xml", SADF_XML),
        ("mpstat-json.json", MPSTAT),
        ("iostat-json.json", IOSTAT),
    ] {
        assert_left_out(name, row, &replace_by_zeros(row), "processor.idle", "_total", "do not add up");
    }
}

#[test]
fn a_share_above_all_is_a_kernels_underflow() {
    for (name, row) in [
        ("sar-text.txt", "12.00      0.00      3.50     40.00      0.00     44.50"),
        ("iostat-text.txt", "12.00    0.00    3.50   40.00    0.00   44.50"),
        ("sadf-rows.csv", "12.00;0.00;3.50;40.00;0.00;44.50"),
        ("vmstat-text.txt", "12  3 45 40  0"),
        ("sadf-json.json", SADF),
        ("sadf-xml.xml", SADF_XML),
        ("iostat-json.json", IOSTAT),
    ] {
        // what is left of the row adds up to more than half, and stays
        let to = row.replacen("40.00", "3035110221", 1).replacen("45 40", "45 3035110221", 1);
        assert_ne!(row, to, "{name}");
        assert_left_out(name, row, &to, "processor.iowait", "_total", "impossibly large");
        let (idle, _) = read_mean(&change_fixture(name, row, &to), "processor.idle", "_total");
        assert!((0.42..0.46).contains(&idle), "{name}: {idle}");
    }
    let to = "\"all\", \"usr\": 4294967295";
    assert_left_out("mpstat-json.json", "\"all\", \"usr\": 20.00", to, "processor.user", "_total", "impossibly large");
}

#[test]
fn queues_times_and_rates_of_a_wrapped_counter_are_gaps() {
    let name = "iostat-text.txt";
    for (column, to, counter) in [
        ("    9.00   45.00", " 4294967.30   45.00", "physical_disk.avg_queue_length"),
        ("    9.00   45.00", "    9.00 4294967295.00", "physical_disk.avg_s_per_transfer"),
        ("   5.00 100.00", "   5.00 429496729.50", "physical_disk.busy"),
        (" 400.00  1200.00", " 400.00 4294967295.00", "physical_disk.write_bytes_per_s"),
    ] {
        assert_left_out(name, column, to, counter, "sda", "impossibly large");
    }
    // arrays and old kernels pass 100 % a little
    let (busy, skipped) =
        read_mean(&change_fixture(name, "   5.00 100.00", "   5.00 108.30"), "physical_disk.busy", "sda");
    assert!(busy > 1.0 && skipped.iter().all(|(because, _)| !because.contains("large")), "{busy} {skipped:?}");
    assert_left_out("vmstat-text.txt", " 2  9 ", " 4294967295  9 ", "system.running", "", "impossibly large");
    // the reader of sysstat has its own words for values below 0
    let (_, skipped) =
        read_mean(&change_fixture("sar-text.txt", "200.00", "-20.00"), "physical_disk.transfers_per_s", "sda");
    assert!(skipped.iter().any(|(because, times)| because.contains("below 0") && *times == 1), "{skipped:?}");
}

#[test]
fn the_limits_hold_for_performance_monitor_and_exporters() {
    let csv = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\A\\Processor(_Total)\\% Processor Time\",\
               \"\\\\A\\PhysicalDisk(0 C:)\\Current Disk Queue Length\",\"\\\\A\\PhysicalDisk(0 C:)\\Disk Reads/sec\"\n\
               \"03/02/2026 09:15:00.000\",\"10\",\"3\",\"50\"\n\
               \"03/02/2026 09:15:01.000\",\"10\",\"3\",\"50\"\n\
               \"03/02/2026 09:15:02.000\",\"42949672.95\",\"4294967295\",\"1.8E+19\"\n\
               \"03/02/2026 09:15:03.000\",\"10\",\"3\",\"50\"\n";
    for (counter, instance, wanted) in [
        ("processor.busy", "_total", 0.1),
        ("physical_disk.current_queue_length", "0 C:", 3.0),
        ("physical_disk.reads_per_s", "0 C:", 50.0),
    ] {
        let (found, skipped) = read_mean(csv, counter, instance);
        assert!((found - wanted).abs() < 1e-9, "{counter}: {found}");
        assert!(skipped.iter().any(|(because, times)| because.contains("large") && *times == 3), "{skipped:?}");
    }
    let page = |time_s: f64, queue: &str, total: &str| {
        format!(
            "node_time_seconds {time_s}\nnode_disk_io_now{{device=\"sda\"}} {queue}\n\
             node_disk_reads_completed_total{{device=\"sda\"}} {total}\n"
        )
    };
    let pages = [
        page(1.7e9, "3", "1000"),
        page(1.7e9 + 1.0, "3", "1050"),
        page(1.7e9 + 2.0, "4294967295", "18446744073709551000"),
        page(1.7e9 + 3.0, "-1", "1150"),
        page(1.7e9 + 4.0, "3", "1200"),
    ];
    for (counter, wanted) in [("physical_disk.current_queue_length", 3.0), ("physical_disk.reads_per_s", 50.0)] {
        let (found, skipped) = read_mean(&pages.concat(), counter, "sda");
        assert!((found - wanted).abs() < 1e-9, "{counter}: {found}");
        assert!(skipped.iter().any(|(because, _)| because.contains("large")), "{skipped:?}");
        assert!(skipped.iter().any(|(because, _)| because.contains("negative")), "{skipped:?}");
    }
}

/// Returns the processes in a log's tables, with their shares of a processor, and the reasons of skips.
fn read_processes(text: &str) -> (Vec<(String, f64)>, Vec<String>) {
    let mut found = Vec::new();
    let mut input = LogInput::from_bytes("log", text.as_bytes().to_vec()).unwrap();
    let summary = diskwright_logs::read(&mut input, &LogOptions::default(), &mut |piece| {
        if let LogPiece::Note(note) = piece
            && note.kind == Note::PROCESSES
        {
            let table = note.read_processes().unwrap();
            found.extend(table.rows.iter().map(|row| (row.name.clone(), row.processor)));
        }
        ControlFlow::Continue(())
    });
    (found, summary.unwrap().skipped.into_iter().map(|s| s.reason).collect())
}

#[test]
fn a_process_takes_many_processors_but_not_millions() {
    let row = |second: u32, share: &str| {
        format!("08:00:{second:02}      1000       412    {share}    2.00    0.00    0.00    {share}     1  postgres\n")
    };
    let text = |last: &str| {
        format!(
            "Linux 6.1.0-18-amd64 (db1) \t03/02/26 \t_x86_64_\t(2 CPU)\n\n\
             08:00:00      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n{}{}{}",
            row(10, "150.00"),
            row(20, last),
            row(30, "150.00"),
        )
    };
    let (rows, skipped) = read_processes(&text("350.00"));
    assert!(rows.iter().any(|(name, share)| name == "postgres" && *share == 3.5), "{rows:?} {skipped:?}");
    let (found, skipped) = read_processes(&text("42949672.95"));
    assert!(found.iter().all(|(_, share)| *share <= 1.5), "{found:?}");
    assert!(skipped.iter().any(|because| because.contains("impossibly large")), "{skipped:?}");
    let mut csv = String::from("\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\A\\Process(sqlservr)\\% Processor Time\"\n");
    for second in 0..30 {
        let share = if second == 7 { "429496729500" } else { "180" };
        csv += &format!("\"03/02/2026 09:15:{second:02}.000\",\"{share}\"\n");
    }
    let (found, skipped) = read_processes(&csv);
    assert!(!found.is_empty() && found.iter().all(|(_, share)| (*share - 1.8).abs() < 1e-9), "{found:?}");
    assert!(skipped.iter().any(|because| because.contains("impossibly large")), "{skipped:?}");
}

#[test]
fn the_limits_hold_for_pcp_archives() {
    let mut a = Archive::new(3, "h", 1);
    a.describe(READS, "disk.dev.read", U64, DISKS, COUNTER, COUNT);
    a.describe(BUSY, "disk.dev.avactive", U64, DISKS, COUNTER, MSEC);
    a.describe(FREE, "mem.util.free", U64, NONE, INSTANT, KBYTE);
    a.instances(START as f64, DISKS, &[(0, "sda")]);
    for n in 0..10u64 {
        let jump = if n >= 5 { u64::MAX / 2 } else { 0 };
        let free = if n == 5 { u64::MAX } else { 2 };
        let single_value = |value| Ok(vec![(0, value)]);
        a.record(
            START as f64 + n as f64,
            &[
                (READS, single_value(Value::U64(n * 50 + jump))),
                (BUSY, single_value(Value::U64(n * 500 + jump))),
                (FREE, single_value(Value::U64(free))),
            ],
        );
    }
    for (counter, instance, wanted) in [
        ("physical_disk.reads_per_s", "sda", 50.0),
        ("physical_disk.busy", "sda", 0.5),
        ("memory.free_bytes", "", 2048.0),
    ] {
        let mut sum = MeanSink::new(counter, instance);
        let mut sink = |piece: LogPiece<'_>| sum.add_piece(&piece);
        let mut batch = FrameBatch::new("pcp", &mut sink);
        pcp::read_bytes(&a.meta, &[&a.volume], &mut batch).unwrap();
        let summary = batch.finish("archive").unwrap();
        let (found, skipped) = sum.finish(&summary);
        assert!((found / wanted - 1.0).abs() < 1e-6, "{counter}: {found}, {skipped:?}");
        assert!(skipped.iter().any(|(because, times)| because.contains("large") && *times == 3), "{skipped:?}");
    }
}
