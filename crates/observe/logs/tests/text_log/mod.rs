//! Reading of text logs, for the tests of their readers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use diskwright_base::Note;
use diskwright_logs::{LogError, LogInput, LogOptions, LogPiece, ReadSummary, read};

/// Output of a log's reading.
pub struct ReadLog {
    pub summary: Result<ReadSummary, LogError>,
    pub notes: Vec<Note>,
    /// Time and length of each tick, seconds.
    pub ticks: Vec<(f64, f64)>,
    /// Values by counter and instance, in the counter's unit.
    pub cells: Vec<BTreeMap<(String, String), f64>>,
}

impl ReadLog {
    pub fn column_values(&self, counter: &str, instance: &str) -> Vec<f64> {
        let key = (counter.to_owned(), instance.to_owned());
        self.cells.iter().map(|cells| cells.get(&key).copied().unwrap_or(f64::NAN)).collect()
    }

    /// Returns the column without the first tick, which has no growth.
    pub fn growth_values(&self, counter: &str, instance: &str) -> Vec<f64> {
        let column = self.column_values(counter, instance);
        assert!(column[0].is_nan(), "{counter}: {column:?}");
        column[1..].to_vec()
    }

    pub fn skip_counts(&self) -> Vec<(String, u64)> {
        let summary = self.summary.as_ref().expect("read");
        summary.skipped.iter().map(|skip| (skip.reason.clone(), skip.count)).collect()
    }
}

/// Reads text as a log of a format that it must be recognized as.
pub fn read_as_format(format: &str, text: &str, options: &LogOptions) -> ReadLog {
    let (mut notes, mut ticks, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) => notes.push(note),
            LogPiece::Frame(frame) => {
                for (index, tick) in frame.ticks().iter().enumerate() {
                    ticks.push((tick.time_ns as f64 * 1e-9, tick.elapsed_ns as f64 * 1e-9));
                    let cell = |(column, s): (usize, &diskwright_base::Series)| {
                        let value = (frame.column(column)[index] * s.scale * 1e6).round() / 1e6;
                        ((s.counter.clone(), s.instance.clone()), value)
                    };
                    cells.push(frame.schema().series.iter().enumerate().map(cell).collect());
                }
            }
        }
        ControlFlow::Continue(())
    };
    let summary = LogInput::from_bytes("loop", text.as_bytes().to_vec())
        .and_then(|mut input| read(&mut input, options, &mut sink));
    if let Ok(summary) = &summary {
        assert_eq!(summary.format, format);
    }
    ReadLog { summary, notes, ticks, cells }
}
