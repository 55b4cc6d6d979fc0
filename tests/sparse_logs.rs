//! Logs that have little: one tick, partitions only, counters of no overview. What they have is shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use crate::common::{diskwright, folder, json, stderr, success, text};

use diskwright_base::{Schema, Series, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};

/// Writes a log of some ticks, a second apart, of these counters and instances; the first tick covers no known time.
fn write_log(folder: &Path, name: &str, series: &[(&str, &str)], ticks: u64) -> PathBuf {
    let log = folder.join(name);
    let series = series.iter().map(|(counter, instance)| Series {
        counter: (*counter).into(),
        instance: (*instance).into(),
        scale: 1.0,
    });
    let schema = Arc::new(Schema::new(series.collect()));
    let mut writer = LogWriter::create_or_append(&log, WriterOptions::default()).expect("a log");
    for number in 0..ticks {
        let time_ns = 1_790_000_000_123_456_789 + number as i64 * 1_000_000_000;
        let tick = Tick { time_ns, elapsed_ns: if number == 0 { 0 } else { 1_000_000_000 } };
        let row: Vec<f64> = (0..schema.series.len()).map(|column| 8.0 + column as f64).collect();
        writer.push(&schema, tick, &row).expect("writable");
    }
    writer.close().expect("writable");
    log
}

fn output_text(done: &Output) -> String {
    assert!(done.status.success(), "{}", stderr(done));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn the_levels_of_a_single_tick_are_shown() {
    let folder = folder("sparse-one-tick");
    let log = write_log(&folder, "log", &[("system.running", ""), ("memory.available_bytes", "")], 1);
    let document = success(&diskwright(&["show", text(&log), "--json"]));
    let running =
        document["series"].as_array().expect("a list").iter().find(|line| line["counter"] == "system.running");
    assert_eq!(running.map(|line| &line["mean"]), Some(&8.0.into()), "{document}");
    let table = output_text(&diskwright(&["show", text(&log)]));
    let line = table.lines().find(|line| line.starts_with("system.running")).expect("a line");
    assert!(line.contains(" 8") && !line.contains("no data"), "{line}");
    output_text(&diskwright(&["show", text(&log), "--as", "chart"]));
    let page = folder.join("page.html");
    output_text(&diskwright(&["report", text(&log), "-o", text(&page)]));
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.contains("tasks running or waiting") && !page.contains("NaN"), "the chart has its value");
    let verdict = success(&diskwright(&["why", text(&log), "--json"]));
    assert!(verdict["sentence"].as_str().is_some_and(|text| text.contains("only a tick")), "{}", verdict["sentence"]);
    let compared = diskwright(&["compare", text(&log), text(&log)]);
    assert!(stderr(&compared).contains("has only 1 tick"), "{}", stderr(&compared));
    let _ = fs::remove_dir_all(&folder);
}

const PARTITION: [(&str, &str); 3] =
    [("logical_disk.reads", "vda1"), ("logical_disk.read_bytes", "vda1"), ("logical_disk.read_time_s", "vda1")];

#[test]
fn a_log_of_partitions_only_is_shown() {
    let folder = folder("sparse-partitions");
    let log = write_log(&folder, "log", &PARTITION, 5);
    for more in [&[][..], &["--instance", "vda1"], &["--instance", "vda*"], &["--as", "csv"], &["--as", "chart"]] {
        let done = diskwright(&[&["show", text(&log)], more].concat());
        let shown = output_text(&done);
        let name = if more.contains(&"chart") { "vda1: " } else { "logical_disk.reads_per_s" };
        assert!(shown.contains(name), "{more:?}: {shown}");
        assert!(stderr(&done).contains("none of the counters of the overview"), "{more:?}: {}", stderr(&done));
    }
    let page = folder.join("page.html");
    output_text(&diskwright(&["report", text(&log), "-o", text(&page)]));
    assert!(fs::read_to_string(&page).expect("a page").contains("vda1: reads per second"));
    let compared = success(&diskwright(&["compare", text(&log), text(&log), "--json"]));
    assert!(!compared["counters"].as_array().expect("a list").is_empty(), "{compared}");
    let missing = diskwright(&["show", text(&log), "--instance", "vdb1"]);
    assert!(missing.status.code() == Some(1), "{}", stderr(&missing));
    let _ = fs::remove_dir_all(&folder);
}

/// The overview has counters of other objects, so that only the instance leads to what is wanted.
#[test]
fn an_instance_that_no_overview_names_is_found() {
    let folder = folder("sparse-instances");
    let series = [&PARTITION[..], &[("system.running", ""), ("foreign.queue.length", "mail")]].concat();
    let log = write_log(&folder, "log", &series, 5);
    for (instance, counter) in [("vda1", "logical_disk.read_bytes_per_s"), ("mail", "foreign.queue.length")] {
        let document = success(&diskwright(&["show", text(&log), "--instance", instance, "--json"]));
        let series = document["series"].as_array().expect("a list");
        assert!(series.iter().any(|line| line["counter"] == counter), "{document}");
        assert!(series.iter().all(|line| line["instance"] == instance), "{document}");
    }
    let overview = json(&diskwright(&["show", text(&log), "--json"]));
    assert_eq!(overview["series"].as_array().map(Vec::len), Some(1), "{overview}");
    let _ = fs::remove_dir_all(&folder);
}
