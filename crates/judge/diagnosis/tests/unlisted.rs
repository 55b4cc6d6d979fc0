//! Blamed activity that belongs to no listed process is told.

use crate::common::*;
use diskwright_base::{Note, ProcessRow, ProcessTable, Topology};
use diskwright_diagnosis::{Judge, Verdict};

/// Verdict by a rule on a recording whose tables list these processes.
fn judged(recording: &Recording, rules: &str, rows: Vec<ProcessRow>, unreadable: u32) -> Verdict {
    let mut judge = Judge::new(vec![pack(rules)], recording.options());
    let topology = Topology { processors: 4, ..Topology::default() };
    judge.add_note(&Note::topology(START, topology));
    judge.add_note(&Note::processes(
        START,
        ProcessTable { elapsed_s: 60.0, unreadable, rows, ..ProcessTable::default() },
    ));
    judge.add_frame(&recording.frame(0..60));
    judge.finish().remove(0)
}

fn computing(processor: f64) -> Vec<ProcessRow> {
    vec![ProcessRow { pid: 7, name: "make".into(), processor, ..ProcessRow::default() }]
}

#[test]
fn processor_time_of_ended_processes_is_told() {
    let recording = Recording::new(60)
        .with("processor.user", "_total", |_| 0.4)
        .with("processor.system", "_total", |_| 0.1)
        .with("processor.busy", "_total", |_| 0.5);
    let rules = "[[rule]]\nid = 'r'\nobject = 'machine'\nbottleneck = 'cpu'\n\
        all = [{ counter = 'processor.busy', above = 0.2 }]\n";
    let told = |rows| judged(&recording, rules, rows, 0).unlisted;
    assert_eq!(
        told(computing(0.44)),
        ["78 % of 200 % of processor time belongs to processes that ended or are not listed"]
    );
    assert!(told(computing(1.6)).is_empty(), "the list has most of it");
    let many: Vec<ProcessRow> = (0..50)
        .map(|pid| ProcessRow { pid, name: format!("p{pid}"), processor: 0.04, ..ProcessRow::default() })
        .collect();
    let verdict = judged(&recording, rules, many, 0);
    assert!(verdict.culprits.is_empty());
    assert_eq!(verdict.unlisted, ["no program has 5 % of the 200 % of processor time that many share"]);
    assert!(told(Vec::new()).is_empty(), "a table without processor time proves nothing");
}

#[test]
fn bytes_of_a_disk_that_no_listed_process_moved_are_told() {
    let recording = Recording::new(60).disk("sda", 2500.0, 0.003, 1.0);
    let rules = "[[rule]]\nid = 'd'\nobject = 'physical_disk'\nbottleneck = 'disk'\n\
        all = [{ counter = 'busy', above = 0.5 }]\n";
    let reading = |rate: Option<f64>| {
        vec![ProcessRow {
            pid: 7,
            name: "tar".into(),
            read_bytes_per_s: rate,
            blocked_share: 1.0,
            ..ProcessRow::default()
        }]
    };
    let told = |rate, unreadable| judged(&recording, rules, reading(rate), unreadable).unlisted;
    let share = "75 % of the 10.2 MB/s that sda read belongs to the kernel, or to processes that ended";
    assert_eq!(told(Some(2.56e6), 0), [format!("{share} or are not listed")]);
    assert_eq!(told(Some(2.56e6), 3), [format!("{share}, are not listed or hide their I/O")]);
    assert!(told(Some(9e6), 0).is_empty());
    assert!(told(None, 0).is_empty());
    assert_eq!(told(None, 3), ["the I/O of processes could not be read: run as root to see who reads and writes"]);
}
