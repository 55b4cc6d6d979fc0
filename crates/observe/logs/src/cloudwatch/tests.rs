use std::ops::ControlFlow;

use diskwright_base::Catalogue;

use super::*;
use crate::LogPiece;

/// Counter, instance, time in seconds, and value.
type CloudValue = (String, String, i64, f64);

/// Reads an answer; returns its values and notes.
fn read_values(text: &str) -> (Vec<CloudValue>, Vec<String>) {
    let (mut values, mut notes) = (Vec::new(), Vec::new());
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) => notes.push(note.into_text()),
            LogPiece::Frame(frame) => {
                for (column, series) in frame.schema().series.iter().enumerate() {
                    for (tick, value) in frame.ticks().iter().zip(frame.column(column)) {
                        let time_s = tick.time_ns / 1_000_000_000;
                        values.push((series.counter.clone(), series.instance.clone(), time_s, *value));
                    }
                }
            }
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
    crate::read(&mut input, &LogOptions::default(), &mut sink).unwrap();
    (values, notes)
}

fn value_of(values: &[CloudValue], counter: &str, instance: &str) -> Vec<f64> {
    values.iter().filter(|(c, i, _, _)| c == counter && i == instance).map(|value| value.3).collect()
}

#[test]
fn sums_become_rates_of_their_period() {
    let text = r#"$ aws cloudwatch get-metric-statistics --metric-name VolumeReadOps
{"Label": "VolumeReadOps", "Datapoints": [
 {"Timestamp": "2026-11-23T08:01:00Z", "Sum": 12000.0, "Unit": "Count"},
 {"Timestamp": "2026-11-23T08:00:00Z", "Sum": 6000.0, "Unit": "Count"}]}
{"Label": "VolumeIdleTime", "Datapoints": [
 {"Timestamp": "2026-11-23T08:00:00Z", "Sum": 6.0}, {"Timestamp": "2026-11-23T08:01:00Z", "Sum": 0.0}]}
{"Label": "VolumeTotalReadTime", "Datapoints": [
 {"Timestamp": "2026-11-23T08:00:00Z", "Sum": 30.0}, {"Timestamp": "2026-11-23T08:01:00Z", "Sum": 60.0}]}
"#;
    let (values, _) = read_values(text);
    assert_eq!(value_of(&values, "physical_disk.reads_per_s", "volume"), [100.0, 200.0]);
    assert_eq!(value_of(&values, "physical_disk.busy", "volume"), [0.9, 1.0]);
    assert_eq!(value_of(&values, "physical_disk.avg_s_per_read", "volume"), [0.005, 0.005]);
    // a point stands for the period behind its time
    assert_eq!(values[0].2, parse_rfc3339("2026-11-23T08:01:00Z").unwrap() / 1_000_000_000);
}

#[test]
fn metric_data_names_its_volumes() {
    let text = r#"{"MetricDataResults": [
 {"Id": "q1", "Label": "vol-0a1b2c VolumeQueueLength", "Timestamps": [1795000060, 1795000000], "Values": [7.5, 6.5]},
 {"Id": "burstBalance", "Label": "credits", "Timestamps": [1795000000], "Values": [0.0]},
 {"Id": "x", "Label": "SomethingElse", "Timestamps": [1795000000], "Values": [1.0]}], "Messages": []}"#;
    let (values, notes) = read_values(text);
    assert_eq!(value_of(&values, "physical_disk.avg_queue_length", "vol-0a1b2c")[..2], [6.5, 7.5]);
    assert!(notes.iter().any(|note| note.contains("burst credits")), "{notes:?}");
}

#[test]
fn every_metric_goes_to_a_counter_of_the_catalogue() {
    for metric in metrics().iter().filter(|metric| !metric.counter.starts_with("foreign.")) {
        assert!(Catalogue::builtin().get(&metric.counter).is_some(), "{}", metric.counter);
    }
}

#[test]
fn a_null_is_a_gap_and_moves_no_value_to_another_time() {
    let data = r#"{"MetricDataResults": [null, {"Id": "m1", "Label": "vol-0a VolumeQueueLength", "Messages": null,
        "Timestamps": ["2024-03-04T10:00:00Z", "2024-03-04T10:05:00Z", "2024-03-04T10:10:00Z"],
        "Values": [3.0, null, 5.0]}, {"Id": null, "Label": "x", "Values": null}]}"#;
    let (values, _) = read_values(data);
    let queue: Vec<(i64, f64)> =
        values.iter().filter(|v| v.0 == "physical_disk.avg_queue_length").map(|v| (v.2 % 3600, v.3)).collect();
    assert_eq!(queue, [(600, 3.0), (1200, 5.0)], "{values:?}");
    let statistics = r#"{"Label": "VolumeQueueLength", "Datapoints": [null,
        {"Timestamp": "2024-03-04T10:00:00Z", "Average": 3.0, "Unit": null},
        {"Timestamp": "2024-03-04T10:05:00Z", "Average": null}]}"#;
    let (values, _) = read_values(statistics);
    assert_eq!(value_of(&values, "physical_disk.avg_queue_length", "volume"), [3.0]);
}
