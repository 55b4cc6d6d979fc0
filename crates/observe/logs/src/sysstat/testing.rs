//! Runs a reader over text in memory, for the tests of this folder.

use std::ops::ControlFlow;

use diskwright_base::Note;

use crate::{LogError, LogInput, LogOptions, LogPiece, ReadSummary};

/// Output of a log's reading.
pub struct ReadOutcome {
    /// Summary, or the error.
    pub summary: Result<ReadSummary, LogError>,
    /// The notes, in order.
    pub notes: Vec<Note>,
    /// Time and length of each tick, nanoseconds.
    pub ticks: Vec<(i64, u64)>,
    cells: Vec<Vec<(String, String, f64)>>,
}

impl ReadOutcome {
    /// Returns the values of a series in the catalogue's unit, one per tick; `NaN` for gaps and for ticks whose frame
    /// lacks the series.
    pub fn series_values(&self, counter: &str, instance: &str) -> Vec<f64> {
        let tick_value = |cells: &Vec<(String, String, f64)>| {
            cells.iter().find(|(c, i, _)| c == counter && i == instance).map_or(f64::NAN, |(_, _, v)| *v)
        };
        self.cells.iter().map(tick_value).collect()
    }

    /// Returns the values of one tick, for messages.
    pub fn tick_values(&self, index: usize) -> &[(String, String, f64)] {
        &self.cells[index]
    }
}

/// Reads a text as a log in any format.
pub fn read_text(text: &str) -> ReadOutcome {
    read_bytes(text.as_bytes(), &LogOptions::default())
}

/// Reads bytes with options.
pub fn read_bytes(bytes: &[u8], options: &LogOptions) -> ReadOutcome {
    let (mut notes, mut ticks, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Note(note) => notes.push(note),
            LogPiece::Frame(frame) => {
                for (index, tick) in frame.ticks().iter().enumerate() {
                    ticks.push((tick.time_ns, tick.elapsed_ns));
                    let cell = |(column, s): (usize, &diskwright_base::Series)| {
                        // scaled and rounded to what the tools print
                        let value = (frame.column(column)[index] * s.scale * 1e9).round() / 1e9;
                        (s.counter.clone(), s.instance.clone(), value)
                    };
                    cells.push(frame.schema().series.iter().enumerate().map(cell).collect());
                }
            }
        }
        ControlFlow::Continue(())
    };
    let read = LogInput::from_bytes("test", bytes.to_vec());
    let summary = read.and_then(|mut input| crate::read(&mut input, options, &mut sink));
    ReadOutcome { summary, notes, ticks, cells }
}
