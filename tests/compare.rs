//! `compare` and the trends of `why`, on logs made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{diskwright, folder, json, stderr, text};

use diskwright_base::{Schema, Series, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};

const SECOND_NS: i64 = 1_000_000_000;
/// 2026-01-05T00:00:00Z, a Monday.
const START_NS: i64 = 1_767_571_200 * SECOND_NS;

/// Pseudo-random number from -1 to 1, the same in every run.
fn pseudo_noise(number: usize) -> f64 {
    let mut x = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Writes a log of a disk that serves `load(tick)` reads a second, each in `each(tick)` seconds, and of memory of which
/// the share `free(tick)` is available; returns its path.
pub(crate) fn write_log(
    place: &Path,
    ticks: usize,
    every_s: u64,
    load: impl Fn(usize) -> f64,
    each: impl Fn(usize) -> f64,
    free: impl Fn(usize) -> f64,
) -> PathBuf {
    let series = |counter: &str, instance: &str, scale: f64| Series {
        counter: counter.into(),
        instance: instance.into(),
        scale,
    };
    let schema = Arc::new(Schema::new(vec![
        series("physical_disk.reads", "sda", 1.0),
        series("physical_disk.writes", "sda", 1.0),
        series("physical_disk.read_time_s", "sda", 1e-6),
        series("physical_disk.write_time_s", "sda", 1e-6),
        series("physical_disk.weighted_time_s", "sda", 1e-6),
        series("physical_disk.read_bytes", "sda", 512.0),
        series("memory.total_bytes", "", 1024.0),
        series("memory.available_bytes", "", 1024.0),
    ]));
    let mut writer = LogWriter::create_or_append(place, WriterOptions::default()).expect("a new log");
    for tick in 0..ticks {
        let seconds = every_s as f64;
        let reads = (load(tick) * seconds * (1.0 + 0.1 * pseudo_noise(tick))).round();
        let time = (reads * each(tick) * (1.0 + 0.1 * pseudo_noise(tick + 100_000)) * 1e6).round();
        let row = [reads, 0.0, time, 0.0, time, reads * 8.0, 16e6, (16e6 * free(tick)).round()];
        let tick = Tick {
            time_ns: START_NS + (tick as i64 + 1) * every_s as i64 * SECOND_NS,
            elapsed_ns: every_s * SECOND_NS as u64,
        };
        writer.push(&schema, tick, &row).expect("room");
    }
    writer.close().expect("closed");
    place.to_owned()
}

#[test]
fn compares_two_logs() {
    let place = folder("compare-two");
    let slow = write_log(&place.join("slow"), 600, 1, |_| 200.0, |_| 0.03, |_| 0.5);
    let fast = write_log(&place.join("fast"), 600, 1, |_| 200.0, |_| 0.002, |_| 0.5);
    let done = diskwright(&["compare", text(&slow), text(&fast), "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let both = json(&done);
    assert_eq!((&both["schema"], &both["outcome"]), (&"diskwright.compare/1".into(), &"helped".into()), "{both}");
    assert_eq!((&both["before"]["bottleneck"], &both["after"]["bottleneck"]), (&"disk".into(), &"none".into()));
    let of = |counter: &str| {
        let rows = both["counters"].as_array().expect("a list");
        rows.iter().find(|r| r["counter"] == counter && r["instance"] == "sda").expect("there").clone()
    };
    let latency = of("physical_disk.avg_s_per_transfer");
    assert_eq!(latency["noise"], false);
    let ratio = latency["ratio"].as_f64().expect("a number");
    assert!((ratio - 2.0 / 30.0).abs() < 0.01, "{latency}");
    for field in ["unit", "before", "after", "difference", "difference_low", "difference_high", "significance"] {
        assert!(latency.get(field).is_some_and(|v| !v.is_null()), "{field}: {latency}");
    }
    assert_eq!(of("physical_disk.transfers_per_s")["noise"], true);
    let device = &both["devices"][0];
    assert_eq!(
        (&device["instance"], &device["outcome"], &device["blamed"]),
        (&"sda".into(), &"helped".into(), &true.into())
    );

    let page = place.join("page.html");
    let done = diskwright(&["compare", text(&slow), text(&fast), "-o", text(&page)]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let screen = String::from_utf8_lossy(&done.stdout);
    assert!(screen.contains("The change helped") && screen.contains("read latency  "), "{screen}");
    assert!(screen.lines().all(|l| l.chars().count() <= 120), "{screen}");
    let html = fs::read_to_string(&page).expect("the page");
    assert!(html.contains("<svg") && html.contains("The change helped") && !html.contains("src=\"http"));
}

#[test]
fn report_shows_other_packs_only_with_all_packs() {
    let place = folder("compare-packs");
    let slow = write_log(&place.join("slow"), 120, 1, |_| 200.0, |_| 0.03, |_| 0.5);
    let page = |more: &[&str]| {
        let file = place.join("page.html");
        let done = diskwright(&[&["report", text(&slow), "-o", text(&file)], more].concat());
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        fs::read_to_string(&file).expect("the page")
    };
    let others = "What other packs say";
    assert!(!page(&[]).contains(others) && page(&["--all-packs"]).contains(others));
}

#[test]
fn page_shows_application_figures_given_by_beside() {
    let place = folder("compare-beside");
    let slow = write_log(&place.join("slow"), 120, 1, |_| 200.0, |_| 0.03, |_| 0.5);
    let fast = write_log(&place.join("fast"), 120, 1, |_| 200.0, |_| 0.002, |_| 0.5);
    let (beside, page) = (place.join("beside.json"), place.join("page.html"));
    let file = r#"{"schema": "diskwright.beside/1", "title": "Ten disks carry more", "names": ["three", "ten <disks>"],
        "sections": [{"title": "Application", "bars": [{"title": "Rate", "unit": "per_s", "names": ["three", "ten"],
        "groups": [["done", [60.5, null]]]}]}]}"#;
    fs::write(&beside, file).expect("a file");
    let compared = |more: &[&str]| diskwright(&[&["compare", text(&slow), text(&fast)], more].concat());
    let done = compared(&["-o", text(&page), "--beside", text(&beside)]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let html = fs::read_to_string(&page).expect("the page");
    for wanted in ["<h1>Ten disks carry more</h1>", "The change helped", "ten &lt;disks&gt;", "60.5/s"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    // --beside needs a page, and an error in its file is reported with file and line
    assert_eq!(compared(&["--beside", text(&beside)]).status.code(), Some(2));
    fs::write(&beside, "{\n\"schema\": 1}").expect("a file");
    let done = compared(&["-o", text(&page), "--beside", text(&beside)]);
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("beside.json: line 2"), "{}", stderr(&done));
}

#[test]
fn compares_two_windows_of_one_log() {
    let place = folder("compare-one");
    let full_log = write_log(&place.join("log"), 1200, 1, |i| if i < 600 { 200.0 } else { 20.0 }, |_| 0.002, |_| 0.5);
    let change = "2026-01-05T00:10:00Z";
    let cut = json(&diskwright(&["compare", text(&full_log), "--at", change, "--json"]));
    assert_eq!(cut["outcome"], "less_asked", "{}", cut["sentence"]);
    assert_eq!((&cut["before"]["window"]["ticks"], &cut["after"]["window"]["ticks"]), (&600.into(), &600.into()));
    let named = ["compare", text(&full_log), "--to", change, "--against-from", change, "--json"];
    let windows = json(&diskwright(&named));
    assert_eq!((&windows["sentence"], &windows["before"]["window"]), (&cut["sentence"], &cut["before"]["window"]));
    // the windows exchanged
    let back = ["compare", text(&full_log), "--from", change, "--against-to", change, "--json"];
    assert_eq!(json(&diskwright(&back))["outcome"], "more_asked");
}

#[test]
fn refuses_wrong_comparisons() {
    let place = folder("compare-wrong");
    let one = write_log(&place.join("one"), 30, 1, |_| 10.0, |_| 0.001, |_| 0.5);
    let probe = place.join("probe.json");
    fs::write(&probe, "{ \"schema\": \"diskwright.probe/1\", \"runs\": [] }\n").expect("writable");
    let missing = place.join("nothing");
    let cases: &[(&[&str], i32)] = &[
        (&["compare"], 2),
        (&["compare", text(&one)], 2),
        (&["compare", text(&one), text(&one), "--at", "-5s"], 2),
        (&["compare", text(&one), "--at", "soon"], 2),
        (&["compare", text(&one), text(&one), "--against-from", "2030-01-01T00:00:00Z"], 2),
        (&["compare", text(&one), text(&missing)], 1),
        (&["compare", text(&probe), text(&probe)], 1),
    ];
    for (case, code) in cases {
        let done = diskwright(case);
        assert_eq!(done.status.code(), Some(*code), "{case:?}: {}", stderr(&done));
        assert!(done.stdout.is_empty() && !stderr(&done).is_empty(), "{case:?}");
    }
}

#[test]
fn reports_trends_only_for_long_logs() {
    let place = folder("compare-trends");
    // a week in ticks of five minutes; available memory falls by 6 % a day and crosses 5 % after ten days
    let day = |i: usize| i as f64 / 288.0;
    let free = |i: usize| 0.65 - 0.06 * day(i) + 0.005 * pseudo_noise(i + 7);
    let leak = write_log(&place.join("leak"), 2016, 300, |_| 50.0, |i| if day(i) < 3.0 { 0.002 } else { 0.02 }, free);
    let verdict = json(&diskwright(&["why", text(&leak), "--json"]));
    let trends = verdict["trends"].as_array().expect("a list");
    let of = |counter: &str| trends.iter().find(|t| t["counter"] == counter).unwrap_or_else(|| panic!("no {counter}"));
    let memory = of("memory.available_fraction");
    assert_eq!((&memory["shape"], &memory["matters"]), (&"line".into(), &true.into()), "{memory}");
    let slope = |field: &str| memory[field].as_f64().expect("a number");
    assert!(slope("slope_low") < -0.0595 && slope("slope_high") > -0.0605 && slope("slope_per_day") < -0.055);
    assert!(["2026-01-13", "2026-01-14", "2026-01-15"].contains(&&memory["crosses"].as_str().expect("a time")[..10]));
    let latency = of("physical_disk.avg_s_per_transfer");
    assert_eq!(latency["shape"], "step", "{latency}");
    assert!(latency["step"]["at"].as_str().is_some_and(|time| time.starts_with("2026-01-0")), "{latency}");
    assert!(verdict["trend_questions"].as_u64().is_some_and(|n| n >= 4));

    let done = diskwright(&["why", text(&leak)]);
    let screen = String::from_utf8_lossy(&done.stdout);
    assert!(screen.contains("Where it is heading") && screen.contains("memory: available falls by"), "{screen}");
    let page = place.join("page.html");
    assert_eq!(diskwright(&["report", text(&leak), "-o", text(&page)]).status.code(), Some(0));
    assert!(fs::read_to_string(&page).expect("the page").contains("Where it is heading"));

    let short = json(&diskwright(&["why", text(&leak), "--to", "2026-01-05T00:55:00Z", "--json"]));
    assert_eq!(short["trends"].as_array().map(Vec::len), Some(0));
}
