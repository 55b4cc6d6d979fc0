//! Recorders that are killed, and readers beside recorders that write as fast as they can.
#![allow(clippy::expect_used)]

use crate::common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{LogContents, TempDir, options, push_ticks, schema, tick_numbers};
use diskwright_base::Note;
use diskwright_datastore::{LogWriter, Loss};

const CHILD_VARIABLE: &str = "DWLOG_TEST_CHILD_WRITES_TO";

/// Not a test itself: the program that the next test kills.
#[test]
fn the_child_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_VARIABLE) else { return };
    let first: u64 = std::env::var("DWLOG_TEST_FIRST").expect("set beside").parse().expect("a number");
    let schema = schema(40);
    let mut writer = LogWriter::create_or_append(std::path::Path::new(&dir), options(7)).expect("a log");
    for i in first.. {
        if i % 5 == 0 {
            writer.add_note(&Note::new(common::tick(i).time_ns, Note::WARNING, format!("{i}"))).expect("writable");
        }
        push_ticks(&mut writer, &schema, i..i + 1);
        writeln!(std::io::stdout(), "pushed {i}").expect("the parent listens");
    }
}

#[test]
fn a_killed_recorder_loses_no_tick_reported_as_recorded() {
    let dir = TempDir::new();
    let program = std::env::current_exe().expect("running");
    let mut next = 0;
    for wanted in [1, 6, 7, 8, 13, 14, 15, 50, 500, 501, 502, 503] {
        let mut child = Command::new(&program)
            .args(["--exact", "killed::the_child_that_is_killed", "--nocapture"])
            .env(CHILD_VARIABLE, &dir.0)
            .env("DWLOG_TEST_FIRST", next.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut pushed = None;
        let mut seen = 0;
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("pushed ").or_else(|| line.split("pushed ").nth(1)) {
                pushed = number.parse::<u64>().ok().or(pushed);
                seen += 1;
                if seen == wanted {
                    child.kill().expect("alive");
                }
            }
        }
        child.wait().expect("ended");
        let pushed = pushed.expect("at least one tick");
        let log = LogContents::read_log(&dir.0);
        let found = log.checked_numbers();
        assert!(found.len() as u64 > pushed, "{} ticks, {pushed} was pushed", found.len());
        assert_eq!(found, tick_numbers(0..found.len() as u64));
        assert!(log.damages.iter().all(|d| d.loss == Loss::Unfinished && d.ticks.is_none_or(|t| t == 0)));
        next = found.len() as u64;
    }
    let texts = LogContents::read_log(&dir.0);
    let mut marked: Vec<u64> = texts.note_texts().iter().map(|t| t.parse().expect("a number")).collect();
    marked.dedup();
    // A note may be written before a tick that the kill prevented, and again by the next recorder.
    assert_eq!(marked, (0..=marked.len() as u64 - 1).map(|i| i * 5).collect::<Vec<_>>());
}

#[test]
fn readers_beside_a_fast_recorder_see_a_complete_prefix() {
    let dir = TempDir::new();
    let schema = schema(20);
    let done = AtomicBool::new(false);
    let mut writer = LogWriter::create_or_append(&dir.0, options(9)).expect("new log");
    push_ticks(&mut writer, &schema, 0..1);
    std::thread::scope(|scope| {
        let (path, stop) = (&dir.0, &done);
        let reading = scope.spawn(move || {
            let mut max_ticks = 0;
            while !stop.load(Ordering::Relaxed) {
                let seen = LogContents::read_log(path);
                let found = seen.checked_numbers();
                assert_eq!(found, tick_numbers(0..found.len() as u64));
                assert!(found.len() >= max_ticks, "{} after {max_ticks}", found.len());
                let torn = seen.damages.iter().find(|d| d.loss != Loss::Unfinished);
                assert_eq!(torn, None);
                max_ticks = found.len();
            }
        });
        for i in 1..4000 {
            push_ticks(&mut writer, &schema, i..i + 1);
        }
        done.store(true, Ordering::Relaxed);
        reading.join().expect("no reader complained");
    });
}
