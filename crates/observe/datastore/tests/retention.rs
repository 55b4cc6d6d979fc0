//! Removal of old segments: by running time, whatever the wall clock does, and counted.
#![allow(clippy::expect_used)]

use std::time::Duration;

use crate::common::{LogContents, SECOND, TempDir, options, row, schema};
use diskwright_base::Tick;
use diskwright_datastore::{LogReader, LogWriter, WriterOptions};

const KEEP_S: u64 = 120;

fn options_with_limit(block: usize) -> WriterOptions {
    WriterOptions { keep_age: Some(Duration::from_secs(KEEP_S)), ..options(block) }
}

/// Computes the wall time of a tick from its number, in seconds.
type Clock = fn(u64) -> i64;

/// Records a tick a second; `clock` gives the wall time of each, in seconds.
fn record(dir: &TempDir, ticks: std::ops::Range<u64>, clock: impl Fn(u64) -> i64, elapsed_s: u64) -> LogWriter {
    let schema = schema(3);
    let mut writer = LogWriter::create_or_append(&dir.0, options_with_limit(10)).expect("a log");
    for i in ticks {
        let tick = Tick { time_ns: clock(i) * SECOND, elapsed_ns: elapsed_s * 1_000_000_000 };
        writer.push(&schema, tick, &row(i, 3)).expect("writable");
    }
    writer
}

/// Numbers of the ticks that are left, by their first cell.
fn remaining_ticks(dir: &TempDir) -> Vec<u64> {
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.damages, [], "what was removed on purpose is no damage");
    seen.rows.iter().map(|row| (f64::from_bits(row[1]) as u64).saturating_sub(1) / 1000).collect()
}

#[test]
fn clock_steps_do_not_remove_ticks_within_the_limit() {
    const DAY: i64 = 86_400;
    let clocks: [(&str, Clock); 6] = [
        ("ahead for three seconds", |i| i as i64 + if (1300..1303).contains(&i) { 400 * DAY } else { 0 }),
        ("ahead from then on", |i| i as i64 + if i >= 1300 { 400 * DAY } else { 0 }),
        ("back from then on", |i| i as i64 - if i >= 1300 { 400 * DAY } else { 0 }),
        ("back for three seconds", |i| i as i64 - if (1300..1303).contains(&i) { 400 * DAY } else { 0 }),
        ("ahead at every segment's end", |i| i as i64 + if i % 15 > 12 { 40 * DAY } else { 0 }),
        ("asleep for a week, twice", |i| i as i64 + (i as i64 / 500) * 7 * DAY),
    ];
    for (name, clock) in clocks {
        let dir = TempDir::new();
        for end in [1301, 1302, 1303, 1304, 1310, 1340, 1500] {
            let first = remaining_ticks_or_none(&dir).last().map_or(0, |last| last + 1);
            let writer = record(&dir, first..end, clock, 1);
            for closed in [false, true] {
                let found = remaining_ticks(&dir);
                assert_eq!(found.last(), Some(&(end - 1)), "{name}");
                let max_ticks = KEEP_S + KEEP_S / 4 + 10 * 8;
                assert!(found.len() as u64 >= KEEP_S, "{name}: {} of {end} ticks are left", found.len());
                assert!(found.len() as u64 <= max_ticks, "{name}: {} ticks are left", found.len());
                if closed {
                    break;
                }
            }
            drop(writer);
        }
    }
}

fn remaining_ticks_or_none(dir: &TempDir) -> Vec<u64> {
    if dir.0.join("00000001.dwlog").exists() || diskwright_datastore::is_log(&dir.0) {
        remaining_ticks(dir)
    } else {
        Vec::new()
    }
}

#[test]
fn time_without_recording_does_not_count_as_age() {
    let dir = TempDir::new();
    // The machine is started ten times, a month apart, and runs for 20 s each.
    for run in 0..10 {
        drop(record(&dir, run * 20..run * 20 + 20, |i| (i as i64 / 20) * 30 * 86_400 + i as i64, 1));
    }
    let found = remaining_ticks(&dir);
    assert!(found.len() >= KEEP_S as usize && found.len() <= 150, "{} ticks are left", found.len());
}

#[test]
fn segments_of_earlier_releases_are_measured_by_their_ticks() {
    let dir = TempDir::new();
    for run in 0..8 {
        let writer = record(&dir, run * 20..run * 20 + 20, |i| i as i64, 1);
        // As after a kill: there is no end record with the running time.
        std::mem::forget(writer);
        std::fs::remove_file(dir.0.join("lock")).expect("was locked");
    }
    drop(record(&dir, 160..260, |i| i as i64, 1));
    let found = remaining_ticks(&dir);
    assert!(found.len() >= KEEP_S as usize && found.len() <= 170, "{} ticks are left", found.len());
}

#[test]
fn removed_ticks_are_counted_and_later_losses_are_reported() {
    let dir = TempDir::new();
    let mut writer = record(&dir, 0..1000, |i| i as i64, 1);
    writer.finish().expect("writable");
    let here = writer.trim_summary();
    drop(writer);
    let first = remaining_ticks(&dir)[0];
    assert_eq!(here.ticks, first, "all ticks before the first that is left");
    assert_eq!(here.range, Some((0, (first as i64 - 1) * SECOND)));
    assert!(here.segments >= 8 && here.bytes > 1000, "{here:?}");
    assert_eq!(LogReader::open(&dir.0).expect("a log").trim_summary(), Some(here));
    // The next recorder continues the count, and returns its own part.
    let mut writer = record(&dir, 1000..1500, |i| i as i64, 1);
    writer.finish().expect("writable");
    let all = LogReader::open(&dir.0).expect("a log").trim_summary().expect("some");
    assert_eq!(all.ticks, remaining_ticks(&dir)[0]);
    assert_eq!(all.segments, here.segments + writer.trim_summary().segments);
    drop(writer);
    // If another process removes the oldest segment, that is a loss.
    let oldest = oldest_segment(&dir);
    std::fs::remove_file(oldest).expect("was there");
    let seen = LogContents::read_log(&dir.0);
    let lost_ticks: Option<u64> = seen.damages.iter().map(|damage| damage.ticks).sum();
    assert_eq!(lost_ticks, Some(1500 - all.ticks - seen.ticks.len() as u64));
    assert!(lost_ticks > Some(0));
}

fn oldest_segment(dir: &TempDir) -> std::path::PathBuf {
    let entries = std::fs::read_dir(&dir.0).expect("a folder").map(|e| e.expect("an entry").path());
    entries.filter(|path| path.extension().is_some()).min().expect("a segment")
}

#[test]
fn old_segments_are_removed_with_syncs_too() {
    let dir = TempDir::new();
    let schema = schema(3);
    let options = WriterOptions { sync_every: Some(Duration::from_secs(1)), ..options_with_limit(10) };
    let mut writer = LogWriter::create_or_append(&dir.0, options).expect("a log");
    for i in 0..1000 {
        let tick = Tick { time_ns: i as i64 * SECOND, elapsed_ns: 1_000_000_000 };
        writer.push(&schema, tick, &row(i, 3)).expect("writable");
    }
    writer.finish().expect("writable");
    assert_eq!(writer.durable_ticks(), 1000);
    let found = remaining_ticks(&dir);
    assert!(found.len() >= KEEP_S as usize && found.len() <= 200, "{} ticks are left", found.len());
    assert_eq!(writer.trim_summary().ticks, 1000 - found.len() as u64);
}
