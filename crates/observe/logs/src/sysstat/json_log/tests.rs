use super::super::testing::{ReadOutcome, read_text};

const HEAD: &str = r#"{"sysstat": {"hosts": [{"nodename": "db1", "sysname": "Linux", "release": "6.1.0",
    "number-of-cpus": 4, "file-date": "2026-11-21", "statistics": ["#;

fn sample(second: u32, tps: &str) -> String {
    format!(
        r#"{{"timestamp": {{"date": "2026-11-21", "time": "19:05:{second:02}", "utc": 1, "interval": 1}},
        "disk": [{{"disk-device": "sda", "tps": {tps}, "await": 2.00}}]}}"#
    )
}

fn document(samples: &[String]) -> String {
    let boot = r#"{"boot": {"date": "2026-11-21", "time": "19:05:03", "utc": 1}}"#;
    format!("{HEAD}{}], \"restarts\": [{boot}]}}]}}}}\n", samples.join(", "))
}

fn tps(read: &ReadOutcome) -> Vec<f64> {
    read.series_values("physical_disk.transfers_per_s", "sda")
}

#[test]
fn samples_become_ticks_with_their_own_length() {
    let read = read_text(&document(&[sample(1, "5.00"), sample(2, "6.50"), sample(3, "7")]));
    assert_eq!(tps(&read), [5.0, 6.5, 7.0]);
    assert_eq!(read.ticks[0], (1_795_287_901_000_000_000, 1_000_000_000));
    let summary = read.summary.as_ref().unwrap();
    assert_eq!((summary.format, summary.host.as_str(), summary.foreign), ("sadf-json", "db1", 0));
    assert!(read.notes.iter().any(|n| n.kind == "gap" && n.text().contains("restarted")), "{:?}", read.notes);
    let topology = read.notes.iter().find(|n| n.kind == "topology").unwrap();
    assert!(topology.text().contains("\"processors\":4") && topology.text().contains("6.1.0"));
}

#[test]
fn a_document_cut_anywhere_yields_all_complete_samples() {
    let full_text = document(&[sample(1, "5.00"), sample(2, "6.00"), sample(3, "7.00")]);
    let mut max_ticks = 0;
    for cut in crate::sweep::sweep(full_text.len(), 120) {
        let read = read_text(&full_text[..cut]);
        let ticks = tps(&read).len();
        assert!(ticks >= max_ticks, "cut at {cut}");
        max_ticks = ticks;
        let is_told = match &read.summary {
            Ok(summary) => !summary.skipped.is_empty() || cut + 2 > full_text.trim_end().len(),
            Err(error) => !error.to_string().is_empty(),
        };
        assert!(is_told, "cut at {cut}");
    }
    assert_eq!(max_ticks, 3);
}

#[test]
fn broken_samples_are_left_out_with_their_place() {
    for (wrong, because) in [
        (r#"{"timestamp": {"date" "2026"}}"#, "colon"),
        (r#"{"timestamp": {"date": "2026-11-21", "time": "99:00:00"}}"#, "without a readable time"),
        (r#"{"cpu-load": []}"#, "without a readable time"),
        (r#"{"timestamp": {"date": "2026-11-21", "time": "19:05:02", "utc": 1}, "disk": [:]}"#, "broken"),
        (&sample(1, "1.0"), "a second sample with the same time"),
        (&sample(0, "1.0"), "time goes back"),
    ] {
        let read = read_text(&document(&[sample(1, "5.00"), wrong.to_owned(), sample(3, "7.00")]));
        assert_eq!(tps(&read), [5.0, 7.0], "{wrong}");
        let skipped = &read.summary.as_ref().unwrap().skipped;
        assert!(skipped.iter().any(|s| s.reason.contains(because)), "{wrong}: {skipped:?}");
    }
}

#[test]
fn impossible_numbers_are_gaps() {
    let read = read_text(&document(&[sample(1, "-5.00"), sample(2, "nan"), sample(3, "1e300"), sample(4, "0,50")]));
    let read = tps(&read);
    assert!(read[..3].iter().all(|v| v.is_nan()));
    assert_eq!(read[3], 0.5);
}

#[test]
fn nonsense_is_refused_with_a_place() {
    for (text, because) in [
        (format!("{HEAD}{}", "{\"a\":".repeat(200_000)), "nested too deeply"),
        (format!("{HEAD}#]"), "no JSON"),
        (format!("{HEAD}7]"), "a sample should be an object"),
        (format!("{}{HEAD}", "[".repeat(100)), "incomplete"),
        (format!("{HEAD}] \u{1} }}"), "no JSON"),
        (format!("{HEAD}]}}]}}}}"), "no sample"),
    ] {
        let error = read_text(&text).summary.unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
    }
}

#[test]
fn another_machine_is_left_out_and_named() {
    let one = document(&[sample(1, "5.00")]);
    let both = one.clone() + &one.replace("db1", "db2").replace("5.00", "9.00");
    let read = read_text(&both);
    assert_eq!(tps(&read), [5.0]);
    assert!(read.summary.unwrap().skipped[0].reason.contains("--host db2"));
}

#[test]
fn keys_of_older_releases_of_iostat_are_known() {
    let sample = |second: u32| {
        format!(
            r#"{{"timestamp": "2026-11-21T19:05:{second:02}+0100", "disk": [
            {{"disk_device": "sda", "r": 100.00, "w": 50.00, "rkB": 400.00, "r_await": 4.00}},
            {{"disk_device": "sdb", "tps": 9.00, "kB_read_per_sec": 2.00, "kB_wrtn_per_sec": 3.00}}]}}"#
        )
    };
    let read = read_text(&format!("{}{}, {}", HEAD.replace("file-date", "date"), sample(1), sample(2)));
    for (counter, disk, value) in [
        ("reads_per_s", "sda", 100.0),
        ("writes_per_s", "sda", 50.0),
        ("avg_read_queue_length", "sda", 0.4),
        ("read_bytes_per_s", "sdb", 2048.0),
        ("write_bytes_per_s", "sdb", 3072.0),
    ] {
        assert_eq!(read.series_values(&format!("physical_disk.{counter}"), disk), [value], "{counter}");
    }
}

#[test]
fn iostat_leaves_out_the_time_since_boot_and_multiplies_its_queues() {
    let head = HEAD.replace("file-date", "date");
    let sample = |second: u32, r: &str| {
        format!(
            r#"{{"timestamp": "2026-11-21T19:05:{second:02}+0100", "avg-cpu": {{"user": 1.0, "idle": 99.0}},
            "disk": [{{"disk_device": "sda", "r/s": {r}, "r_await": 4.00, "util": 50.0}}]}}"#
        )
    };
    let text = format!("{head}{}, {}, {}", sample(1, "9"), sample(2, "100"), sample(4, "200"));
    let read = read_text(&text);
    assert_eq!(read.series_values("physical_disk.avg_read_queue_length", "sda"), [0.4, 0.8]);
    assert_eq!(read.series_values("processor.idle", "_total"), [0.99, 0.99]);
    assert_eq!(read.ticks[0], (1_795_284_302_000_000_000, 1_000_000_000));
    assert_eq!(read.ticks[1].1, 2_000_000_000);
    let skipped = read.summary.unwrap().skipped;
    assert!(skipped[0].reason.contains("since boot") && skipped[1].reason.contains("incomplete"), "{skipped:?}");
}

#[test]
fn reports_without_times_are_counted_and_one_alone_is_kept() {
    let head = HEAD.replace("file-date", "date");
    let sample = "{\"disk\": [{\"disk_device\": \"sda\", \"tps\": 1.0}]}";
    let read = read_text(&format!("{head}{sample}, {sample}, {sample}]}}]}}}}"));
    // too little to tell the first from the time since boot
    assert_eq!(read.ticks, [(0, 1_000_000_000), (1_000_000_000, 1_000_000_000)]);
    assert_eq!(read.summary.unwrap().time_basis, crate::TimeBasis::Reports);
    let alone = read_text(&format!("{head}{sample}]}}]}}}}"));
    assert_eq!((tps(&alone), alone.ticks), (vec![1.0], vec![(0, 1_000_000_000)]));
    assert!(alone.summary.unwrap().skipped[0].reason.contains("a single report"));
}

#[test]
fn devices_come_and_go_without_a_new_series_for_the_old() {
    let with = |s: &str, device: &str| s.replace("sda", device);
    let samples = [sample(1, "1.0"), with(&sample(2, "2.0"), "sdb"), sample(3, "3.0")];
    let read = read_text(&document(&samples));
    let a = tps(&read);
    // with a table of disks that lacks one that was there before, and no row of zeros: `-z`
    assert_eq!(a, [1.0, 0.0, 3.0]);
    let b = read.series_values("physical_disk.transfers_per_s", "sdb");
    assert!(b[0].is_nan() && b[1..] == [2.0, 0.0], "{b:?}");
}

#[test]
fn lines_outside_and_between_are_counted_and_a_document_that_was_cut_ends_with_the_next() {
    let one = document(&[sample(1, "5.00"), sample(2, "6.00")]);
    let cut = one.split_once("}], \"restarts\"").unwrap().0;
    let two = document(&[sample(3, "7.00"), sample(4, "8.00")]);
    let text = format!("nohup: ignoring input\n[root@db1 ~]# {{ sadf }}\n{one}\nzzz ***Sat Nov 21\n{two}");
    let read = read_text(&text);
    assert_eq!(tps(&read), [5.0, 6.0, 7.0, 8.0]);
    let skipped = read.summary.unwrap().skipped;
    assert_eq!((skipped[0].context.as_str(), skipped[0].count), ("byte 0", 3), "{skipped:?}");
    let read = read_text(&format!("{cut}}}]}}, {two}"));
    assert_eq!(tps(&read).last(), Some(&8.0));
    let read = read_text(&format!("{cut}\n{two}"));
    assert!(tps(&read).ends_with(&[7.0, 8.0]), "{:?}", tps(&read));
    let read = read_text(&one.replace(&sample(2, "6.00"), "message from root\n"));
    assert_eq!(tps(&read), [5.0]);
}

#[test]
fn each_document_of_iostat_loses_its_report_since_boot_also_behind_one_that_was_cut() {
    let head = HEAD.replace("file-date", "date");
    let sample = |second: u32, r: &str| {
        format!(
            r#"{{"timestamp": "2026-11-21T19:05:{second:02}+0000",
            "disk": [{{"disk_device": "sda", "tps": {r}, "util": 50.0}}]}}"#
        )
    };
    let text =
        format!("{head}{}, {},\n{head}{}, {}", sample(1, "999"), sample(2, "5"), sample(3, "999"), sample(4, "6"));
    assert_eq!(tps(&read_text(&text)), [5.0, 6.0]);
}
#[test]
fn does_not_recognize_pidstat_documents() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "a", "date": "2026-11-21", "statistics": [
        {"timestamp": "19:05:46", "context-switch": [{"UID": "0", "PID": "7", "cswch/s": 5.0, "cmd": "db"}]},
        {"timestamp": "19:05:47", "context-switch": [{"UID": "0", "PID": "7", "cswch/s": 6.0, "cmd": "db"}]}]}]}}"#;
    assert!(read_text(text).summary.is_err());
}

#[test]
fn a_broken_list_of_restarts_loses_no_sample() {
    let broken = document(&[sample(1, "5.00"), sample(2, "6.00")])
        .replace("\"time\": \"19:05:03\", \"utc\"", "\"time\": @@ \"utc\"");
    assert!(broken.contains("@@"));
    let read = read_text(&(broken + &document(&[sample(7, "7.00")])));
    assert_eq!(tps(&read), [5.0, 6.0, 7.0]);
    assert!(!read.summary.unwrap().skipped.is_empty());
}
