//! The split of rows into those that may set parameters and those that must not is frozen, and so are the published
//! values and the naive predictions: moving, changing or omitting a row fails here.

use diskwright_experiments::data;
use diskwright_experiments::document::RowUse::{self, Fit, None, Predict, Shape};

/// Id, use and published value of every row (SAS 1998, Compaq 1997, NT Magazine 1998, NT Resource Kit, InfoStor 1999).
const ROWS: &[(&str, RowUse, f64)] = &[
    // SAS 1998
    ("M25", Fit, 86.4),
    ("M26", Fit, 215.0),
    ("M27a", Predict, 113.9),
    ("M27b", Predict, 94.4),
    ("M28a", Predict, 36.0),
    ("M28b", Predict, 28.7),
    ("M28c", Predict, 23.0),
    ("M28d", Predict, 19.2),
    ("M29a", Predict, 25.0),
    ("M29b", Predict, 2.0),
    ("M29c", Predict, 2.0),
    ("M30a", Predict, 41.4),
    ("M30b", Predict, 34.1),
    ("M30c", Predict, 31.1),
    ("M30d", Predict, 11.1),
    ("M31", Predict, 57.8),
    ("M32a", Fit, 39.7),
    ("M32b", Predict, 50.0),
    ("M33", Predict, 44.0),
    ("M34", Shape, 31.0),
    ("M35a", Predict, 45.0),
    ("M35b", Predict, 36.0),
    ("M31.second", Predict, 58.2),
    ("M31.third", Predict, 58.6),
    ("M31.fourth", Predict, 58.6),
    ("M31.fifth", Predict, 58.7),
    ("M31.sixth", Predict, 58.7),
    ("M31.seventh", Predict, 58.7),
    ("M31.eighth", Predict, 58.8),
    ("M31.ninth", Predict, 59.0),
    ("M31.tenth", Predict, 59.1),
    ("M41", Shape, 77.8),
    ("M42", Shape, f64::NAN),
    ("M43", Shape, f64::NAN),
    // Compaq 1997
    ("M10", Fit, 57.0),
    ("M11", Predict, 25.0),
    ("M12", Predict, 50.0),
    ("M13", Predict, 68.0),
    ("M14", Predict, 33.0),
    ("M15", Predict, 54.0),
    ("M16", Predict, 28.0),
    ("M17", Predict, 57.0),
    ("M18", Predict, 3.0),
    ("M19", Predict, 60.0),
    // NT Magazine 1998
    ("M20.three", Fit, 3.8),
    ("M20.ten", Predict, 4.9),
    ("M21.three", Fit, 13.9),
    ("M21.ten", Predict, 9.2),
    ("M22.three", Fit, 16.0),
    ("M22.ten", Predict, 12.0),
    ("M23.three", Fit, 0.12),
    ("M23.ten", Predict, 0.049),
    ("M24.reads.three", Fit, 126.0),
    ("M24.reads.ten", Predict, 147.0),
    ("M24.writes.three", Fit, 73.0),
    ("M24.writes.ten", Predict, 117.0),
    ("M20.disks", Predict, 7.34),
    // NT Resource Kit
    ("M1", Fit, 97.6),
    ("M2", Predict, 75.0),
    ("M3", Predict, 96.335),
    ("M4", Predict, 62.703),
    ("M5a", Fit, 655.0),
    ("M5b", Predict, 50.0),
    ("M5c", Predict, 1124.0),
    ("M6a", Fit, 23.4),
    ("M6b", Predict, 96.0),
    ("M6c", Predict, 3651.5),
    ("M7", Predict, 6.5),
    ("M7.from", Predict, 64.0),
    ("M8a", Predict, 28.7),
    ("M8a.processor", Predict, 100.0),
    ("M8a.interrupt", Predict, 93.5),
    ("M8b", Predict, 100.0),
    ("M8b.processor", Predict, 53.0),
    ("M8b.interrupt", Predict, 2.0),
    ("M9", Predict, 3.0),
    ("S1", Fit, 68.948),
    ("S2", Fit, 74.107),
    ("S3", Predict, 73.5),
    ("S4", Predict, 102.487),
    ("S5", Fit, 45.024),
    ("S6", Predict, 64.3),
    ("S7", Predict, 80.7),
    ("S8", Predict, 86.646),
    ("S9.records", None, 179.343),
    ("S9.data", None, 11.75),
    ("S9.random_records", None, 215.76),
    ("S9.random_data", None, 9.91),
    ("S10.one", Shape, 58.673),
    ("S10.two", Shape, 1.0505),
    ("S10.three", Shape, 0.629),
    ("S10.four", Shape, 0.366),
    ("S11.sequential", Predict, 100.0),
    ("S11.random", Predict, 100.0),
    // InfoStor 1999
    ("M36", Fit, 35.0),
    ("M37", Predict, 5.0),
    ("M38.three", Fit, 6000.0),
    ("M38.settled", Predict, 4000.0),
    ("M39.sequential", Shape, 70.0),
    ("M39.hundred", Shape, 5000.0),
    ("M39.seven_hundred", Shape, 7000.0),
    ("M40.first", None, 36157.0),
    ("M40.second", None, 8665.0),
    ("M40.server", None, 13844.0),
];

#[test]
fn rows_uses_and_published_values_are_frozen() {
    let documents = data::load_documents().expect("data");
    let rows: Vec<_> = documents.iter().flat_map(|document| &document.rows).collect();
    let written: Vec<(&str, RowUse)> = rows.iter().map(|row| (row.id.as_str(), row.usage)).collect();
    let frozen: Vec<(&str, RowUse)> = ROWS.iter().map(|(id, usage, _)| (*id, *usage)).collect();
    assert_eq!(written, frozen);
    for (row, (id, _, published)) in rows.iter().zip(ROWS) {
        assert_eq!(row.published, (!published.is_nan()).then_some(*published), "{id}");
    }
}

/// Checks that every id of published-results.md is present, as a row or in parts.
#[test]
fn every_published_row_is_present() {
    let documents = data::load_documents().expect("data");
    let ids = (1..=11).map(|n| format!("S{n}")).chain((1..=43).map(|n| format!("M{n}")));
    for id in ids {
        let found = documents.iter().flat_map(|d| &d.rows).any(|row| row.matches_id(&id));
        assert!(found, "{id} is missing");
    }
}

/// Checks the naive predictions: "The naive baseline: for gains, the fitted gain of the same group for every row; for
/// rates and times, the fitted row scaled ideally by the number of disks." Rows of other quantities have one where the
/// source gives one.
#[test]
fn predicted_gains_rates_and_times_have_a_naive_prediction() {
    let documents = data::load_documents().expect("data");
    let baseline = |doc: &str, id: &str| {
        let document = documents.iter().find(|d| d.doc == doc).expect("there");
        document.find_row(id).and_then(|row| document.baseline_value(row)).unwrap_or(f64::NAN)
    };
    for id in ["M11", "M12", "M13", "M14", "M15", "M16", "M17", "M18"] {
        assert_eq!(baseline("001", id), 57.0, "{id}");
    }
    let scaled = [
        ("003", "S3", 74.107 * 1.5),
        ("003", "S4", 74.107 * 2.0),
        ("003", "S6", 45.024 * 2.0),
        ("003", "S7", 45.024 * 3.0),
        ("003", "S8", 45.024 * 4.0),
        ("002", "M20.ten", 3.8 / 3.0 * 10.0),
        ("002", "M21.ten", 13.9 * 3.0 / 10.0),
        ("000", "M31", 86.4 / 4.0),
    ];
    for (doc, id, value) in scaled {
        assert!((baseline(doc, id) / value - 1.0).abs() < 1e-5, "{id}: {}", baseline(doc, id));
    }
    let without: Vec<&str> = documents
        .iter()
        .flat_map(|d| d.rows.iter().filter(|row| row.usage == Predict && d.baseline_value(row).is_none()))
        .map(|row| row.id.as_str())
        .collect();
    assert_eq!(without, ["M19", "M7.from", "M8a.interrupt", "M8b.interrupt", "M9"], "no fitted row of the quantity");
}
