use std::sync::Arc;

use diskwright_base::{Frame, Schema, Series, Tick};
use diskwright_datastore::{LogItem, LogReader, LogWriter, WriterOptions};
use diskwright_logs::TimeBasis;

use super::{MemberRank, MergeMember, MergeOutput, join_group};
use crate::losses::Losses;
use crate::report::Reporter;
use crate::stored_log::StoredLog;

const SECOND: i64 = 1_000_000_000;

/// A log of ticks that end at these seconds, each this many seconds long, with one read per second.
fn member(path: &std::path::Path, counter: &str, seconds: &[i64], length: i64) -> MergeMember {
    let series = Series { counter: counter.into(), instance: "sda".into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![series]));
    let mut writer = LogWriter::create_or_append(path, WriterOptions::default()).unwrap();
    for second in seconds {
        let tick = Tick { time_ns: second * SECOND, elapsed_ns: (length * SECOND) as u64 };
        writer.push(&schema, tick, &[length as f64]).unwrap();
    }
    writer.close().unwrap();
    let range = LogReader::open(path).unwrap().time_range().unwrap().unwrap();
    let (name, stored, times) = (counter.to_owned(), StoredLog::InPlace(path.to_owned()), TimeBasis::Utc);
    MergeMember {
        name,
        stored,
        range_ns: range,
        time_basis: times,
        format: "",
        rank: MemberRank::Series,
        is_bundled: false,
    }
}

/// The finest log, and another one, had their clocks set back.
#[test]
fn repeated_times_of_a_member_are_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let fine: Vec<i64> = (101..=200).chain(151..=260).collect();
    let coarse: Vec<i64> = (11..=20).chain(16..=26).map(|ten| ten * 10).collect();
    let members = vec![
        member(&folder.path().join("fine"), "physical_disk.reads", &fine, 1),
        member(&folder.path().join("coarse"), "physical_disk.writes", &coarse, 10),
    ];
    let made = folder.path().join("made");
    let mut writer = LogWriter::create_or_append(&made, WriterOptions::default()).unwrap();
    let output = &mut MergeOutput::Log(&mut writer);
    let joined = join_group(members, (i64::MIN, i64::MAX), output, &mut Losses::default(), &Reporter::silent());
    joined.unwrap_or_else(|fault| panic!("{fault}"));
    writer.close().unwrap();
    let (mut times, mut sums) = (Vec::new(), [0.0; 2]);
    let (mut reader, mut frame) = (LogReader::open(&made).unwrap(), Frame::default());
    while let Some(item) = reader.next(&mut frame).unwrap() {
        if item == LogItem::Frame {
            times.extend(frame.ticks().iter().map(|tick| tick.time_ns / SECOND));
            for (sum, name) in sums.iter_mut().zip(["physical_disk.reads", "physical_disk.writes"]) {
                let column = frame.schema().column(name, "sda").map_or(&[][..], |column| frame.column(column));
                *sum += column.iter().filter(|value| !value.is_nan()).sum::<f64>();
            }
        }
    }
    assert_eq!(times, (101..=260).collect::<Vec<i64>>());
    assert!((sums[0] - 160.0).abs() < 1e-6 && (sums[1] - 160.0).abs() < 1e-6, "{sums:?}");
}

/// Idle time of one tool and iowait of another, which do not agree, would make a busy machine.
#[test]
fn shares_of_a_processor_are_of_one_tool_and_contradictions_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let share = |name: &str, cells: &[(&str, f64)]| {
        let path = folder.path().join(name);
        let series = |counter: &str| Series { counter: counter.into(), instance: "_total".into(), scale: 1.0 };
        let schema = Arc::new(Schema::new(cells.iter().map(|(counter, _)| series(counter)).collect()));
        let mut writer = LogWriter::create_or_append(&path, WriterOptions::default()).unwrap();
        let values: Vec<f64> = cells.iter().map(|(_, value)| *value).collect();
        for second in 101..=110 {
            let tick = Tick { time_ns: second * SECOND, elapsed_ns: SECOND as u64 };
            writer.push(&schema, tick, &values).unwrap();
        }
        writer.close().unwrap();
        let range_ns = LogReader::open(&path).unwrap().time_range().unwrap().unwrap();
        let (name, stored, time_basis) = (name.to_owned(), StoredLog::InPlace(path), TimeBasis::Utc);
        MergeMember { name, stored, range_ns, time_basis, format: "", is_bundled: false, rank: MemberRank::default() }
    };
    let members = vec![
        share("iostat", &[("processor.iowait", 0.004), ("processor.user", 0.01)]),
        share("vmstat", &[("processor.iowait", 0.98), ("processor.idle", 0.01)]),
    ];
    let made = folder.path().join("made");
    let mut writer = LogWriter::create_or_append(&made, WriterOptions::default()).unwrap();
    let output = &mut MergeOutput::Log(&mut writer);
    let joined = join_group(members, (i64::MIN, i64::MAX), output, &mut Losses::default(), &Reporter::silent());
    joined.unwrap_or_else(|fault| panic!("{fault}"));
    writer.close().unwrap();
    let (mut waits, mut told) = (Vec::new(), String::new());
    let (mut reader, mut frame) = (LogReader::open(&made).unwrap(), Frame::default());
    while let Some(item) = reader.next(&mut frame).unwrap() {
        match item {
            LogItem::Frame => {
                let column = frame.schema().column("processor.iowait", "_total").unwrap();
                waits.extend_from_slice(frame.column(column));
            }
            LogItem::Note(note) if note.text().contains("contradict") => told = note.text().to_owned(),
            _ => {}
        }
    }
    assert!(waits.len() == 10 && waits.iter().all(|wait| (wait - 0.98).abs() < 1e-6), "{waits:?}");
    assert!(told.contains("iowait is 98 % in vmstat, which is used, and 0.4 % in iostat"), "{told}");
}
