//! Every command gives the same mean of a counter over the same ticks: the mean that the catalogue defines.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{diskwright, folder, stderr, success, text};

use diskwright_base::units::format_value;
use diskwright_base::{Schema, Series, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};
use serde_json::Value;

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-01-05T00:00:00Z.
const START_NS: i64 = 1_767_571_200 * SECOND_NS;

/// A tick: its length, the processor time that the kernel counted in it, the busy share of that, the number of reads,
/// the time of each, and the available share of memory.
struct TickRow {
    seconds: f64,
    processor_s: f64,
    busy_share: f64,
    reads: f64,
    seconds_per_read: f64,
    available_share: f64,
}

/// Ticks of different lengths, where weights by time, by processor time and by requests give different means.
fn sample_ticks() -> Vec<TickRow> {
    let row = |i: usize| TickRow {
        seconds: [1.0, 3.0, 1.0, 2.0, 0.5, 4.0][i % 6],
        processor_s: [2.0, 2.0, 1.0, 4.0, 1.0, 1.0][i % 6],
        busy_share: [0.9, 0.2, 0.5, 1.0, 0.1, 0.3][i % 6],
        reads: [10.0, 300.0, 1.0, 4000.0, 50.0, 0.0][i % 6],
        seconds_per_read: [0.05, 0.01, 0.2, 0.001, 0.03, 0.0][i % 6],
        available_share: [0.5, 0.4, 0.9, 0.3, 0.25, 0.7][i % 6],
    };
    (0..24).map(row).collect()
}

fn write_log(place: &Path) -> PathBuf {
    let series = |counter: &str, instance: &str, scale: f64| Series {
        counter: counter.into(),
        instance: instance.into(),
        scale,
    };
    let schema = Arc::new(Schema::new(vec![
        series("processor.user_s", "_total", 1e-6),
        series("processor.idle_s", "_total", 1e-6),
        series("processor.iowait_s", "_total", 1e-6),
        series("physical_disk.reads", "sda", 1.0),
        series("physical_disk.writes", "sda", 1.0),
        series("physical_disk.read_time_s", "sda", 1e-6),
        series("physical_disk.write_time_s", "sda", 1e-6),
        series("memory.total_bytes", "", 1.0),
        series("memory.available_bytes", "", 1.0),
    ]));
    let mut writer = LogWriter::create_or_append(place, WriterOptions::default()).expect("a new log");
    let mut time_ns = START_NS;
    for row in sample_ticks() {
        let elapsed_ns = (row.seconds * SECOND_NS as f64) as u64;
        time_ns += elapsed_ns as i64;
        let used = (row.processor_s * row.busy_share * 1e6).round();
        let read_time = (row.reads * row.seconds_per_read * 1e6).round();
        let idle = row.processor_s * 1e6 - used;
        let cells = [used, idle, 0.0, row.reads, 0.0, read_time, 0.0, 1e6, (row.available_share * 1e6).round()];
        writer.push(&schema, Tick { time_ns, elapsed_ns }, &cells).expect("room");
    }
    writer.close().expect("closed");
    place.to_owned()
}

const RULE_PACK: &str = r#"
[pack]
id = "means"
title = "means"
source = "ours"
explain = "Holds at every tick, so that its evidence is of the whole window."

[[rule]]
id = "disk.any"
title = "memory is used"
object = "machine"
bottleneck = "disk"
severity = "critical"
all = [{ counter = "memory.available_fraction", above = 0.0 }]
evidence = [
    "physical_disk.transfers_per_s", "processor.busy", "physical_disk.avg_s_per_transfer",
    "memory.available_fraction",
]
source = "ours"
explain = "It always holds."
"#;

/// Counter, instance, unit, mean as the catalogue defines it, and largest value of a tick.
fn expected_means() -> Vec<(&'static str, &'static str, &'static str, f64, f64)> {
    let rows = sample_ticks();
    let sum = |value: &dyn Fn(&TickRow) -> f64| rows.iter().map(value).sum::<f64>();
    let max = |value: &dyn Fn(&TickRow) -> f64| rows.iter().map(value).fold(0.0, f64::max);
    let (seconds, reads) = (sum(&|r| r.seconds), sum(&|r| r.reads));
    vec![
        ("physical_disk.transfers_per_s", "sda", "per_s", reads / seconds, max(&|r| r.reads / r.seconds)),
        ("processor.busy", "_total", "fraction", sum(&|r| r.busy_share * r.seconds) / seconds, max(&|r| r.busy_share)),
        (
            "physical_disk.avg_s_per_transfer",
            "sda",
            "s",
            sum(&|r| r.seconds_per_read * r.reads) / reads,
            max(&|r| r.seconds_per_read),
        ),
        (
            "memory.available_fraction",
            "",
            "fraction",
            sum(&|r| r.available_share * r.seconds) / seconds,
            max(&|r| r.available_share),
        ),
    ]
}

/// Asserts that a number of a command agrees to a millionth.
fn assert_close(command: &str, counter: &str, found: &Value, expected: f64) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{command}: {counter} has no number: {found}"));
    assert!((found - expected).abs() <= 1e-6 * expected, "{command}: {counter} is {found}, not {expected}");
}

fn find_row<'a>(list: &'a Value, counter: &str, instance: &str) -> &'a Value {
    let all = list.as_array().expect("a list");
    let is_wanted = |r: &&Value| r["counter"] == counter && (r["instance"] == instance || r["instance"].is_null());
    all.iter().find(is_wanted).unwrap_or_else(|| panic!("{counter} {instance} is not in {list}"))
}

#[test]
fn every_command_gives_the_mean_of_the_catalogue() {
    let place = folder("means");
    let (one, two) = (write_log(&place.join("one")), write_log(&place.join("two")));
    let (rules, page) = (place.join("means.toml"), place.join("page.html"));
    fs::write(&rules, RULE_PACK).expect("written");
    let why = success(&diskwright(&["why", text(&one), "--pack", text(&rules), "--json"]));
    let compared = success(&diskwright(&["compare", text(&one), text(&two), "--json"]));
    let reported = diskwright(&["report", text(&one), "--pack", text(&rules), "-o", text(&page)]);
    assert!(reported.status.success());
    let html = fs::read_to_string(&page).expect("a page");
    for (counter, instance, unit, mean, max) in expected_means() {
        let shown = success(&diskwright(&["show", text(&one), "--counter", counter, "--json"]));
        let shown = find_row(&shown["series"], counter, instance);
        assert_close("show", counter, &shown["mean"], mean);
        assert_close("show, most", counter, &shown["most"], max);
        let evidence = find_row(&why["findings"][0]["evidence"], counter, instance);
        assert_close("why", counter, &evidence["value"], mean);
        assert_close("why, most", counter, &evidence["max"], max);
        assert_close("compare", counter, &find_row(&compared["counters"], counter, instance)["before"]["mean"], mean);
        let sentence = format!("mean {}, maximum {}.", format_value(mean, unit), format_value(max, unit));
        assert!(html.contains(&sentence), "the page does not say of {counter}: {sentence}");
    }
}

#[test]
fn every_command_refuses_window_ends_in_the_wrong_order() {
    let place = folder("means-ends");
    let log = write_log(&place.join("one"));
    let (log, page) = (text(&log), place.join("page.html"));
    let (early, late) = ("2026-01-05T00:00:10Z", "2026-01-05T00:00:30Z");
    let cases: &[(&[&str], &str)] = &[
        (&["why", log, "--from", late, "--to", early], "--from is not before --to"),
        (&["why", log, "--from", early, "--to", early], "--from is not before --to"),
        (&["show", log, "--from", late, "--to", early], "--from is not before --to"),
        (&["watch", log, "--once", "--from", late, "--to", early], "--from is not before --to"),
        (&["serve", log, "--from", late, "--to", early], "--from is not before --to"),
        (&["export", log, "--as", "csv", "--from", late, "--to", early], "--from is not before --to"),
        (&["report", log, "-o", text(&page), "--from", late, "--to", early], "--from is not before --to"),
        (&["compare", log, "--from", late, "--at", early], "--from is not before --at"),
        (&["compare", log, "--at", late, "--against-to", early], "--at is not before --against-to"),
        (&["plan", "--demand-only", "--from", log, "--since", late, "--until", early], "--since is not before --until"),
        (&["why", log, "--from", "2026-01-06T00:00:00Z"], "the log has nothing between --from and --to"),
    ];
    for (arguments, reason) in cases {
        let done = diskwright(arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", stderr(&done));
        assert!(stderr(&done).contains(reason), "{arguments:?}: {}", stderr(&done));
    }
}
