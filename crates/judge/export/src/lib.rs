//! Samples in other tools' formats: CSV, JSON lines, Parquet, Prometheus text.
//!
//! A [`ExportSink`] takes ticks batch by batch and writes them on at once, so memory
//! does not depend on how long a log is. A gap never becomes a zero: it is an
//! empty cell, a `null`, or no sample.

mod csv;
mod jsonl;
mod number;
mod output;
mod parquet;
mod prometheus;
mod time;

use std::io;

use diskwright_base::{CounterKind, Tick};
use thiserror::Error;

pub use csv::{csv_cells, csv_number};
pub use output::CountingWriter;
pub use time::rfc3339;

/// Why an export stopped.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The output does not take it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The Parquet writer gave up.
    #[error("Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

impl ExportError {
    /// The operating system's error, where it was one.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            ExportError::Io(error) => Some(error),
            ExportError::Parquet(error) => {
                std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>())
            }
        }
    }
}

/// A format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// RFC 4180: a line a tick, a column a series.
    Csv,
    /// RFC 4180: a line a tick and series.
    CsvLong,
    /// One JSON object a tick.
    JsonLines,
    /// Parquet: a row a tick and series.
    Parquet,
    /// Parquet: a row a tick, a column a series.
    ParquetWide,
    /// OpenMetrics text with timestamps.
    Prometheus,
}

/// A series as it is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportColumn {
    /// Canonical counter id, or `foreign.` and another tool's name.
    pub counter: String,
    /// What it is about; empty where there is only one.
    pub instance: String,
    /// Unit of the values, such as `bytes_per_s`; empty where it is not known.
    pub unit: String,
    /// How it behaves, where the catalogue knows it.
    pub kind: Option<CounterKind>,
    /// What it says; empty where that is not known.
    pub explain: String,
    /// Its metric in Prometheus, where the catalogue names one.
    pub metric: Option<String>,
}

impl ExportColumn {
    /// `counter{instance}`, or the counter alone.
    pub fn name(&self) -> String {
        match self.instance.as_str() {
            "" => self.counter.clone(),
            instance => format!("{}{{{instance}}}", self.counter),
        }
    }
}

/// Some ticks of the columns that a pass wants, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct ExportBatch<'a> {
    /// The ticks.
    pub ticks: &'a [Tick],
    /// For each wanted column a value a tick, `NaN` where there is a gap;
    /// `None` where the log has no such series at these ticks.
    pub values: &'a [Option<&'a [f64]>],
}

/// What an export came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportTally {
    /// Lines, objects or rows; samples, in Prometheus text.
    pub rows: u64,
    /// Values that are numbers.
    pub values: u64,
    /// Values that are gaps.
    pub gaps: u64,
    /// Samples left out because the format takes one a series and millisecond,
    /// in order of time.
    pub left_out: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Takes ticks and writes them in some format.
///
/// The caller reads the log once for each pass and hands over what that pass
/// wants: only Prometheus text, where all of a series comes before the next,
/// has more than one.
pub trait ExportSink {
    /// How often the log must be read.
    fn passes(&self) -> usize {
        1
    }

    /// Positions of the columns that a pass wants, in the order of a batch's values.
    fn wanted(&self, pass: usize) -> Vec<usize>;

    /// Takes some ticks.
    ///
    /// # Errors
    /// When the output does not take them.
    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError>;

    /// The log has been read to its end once more.
    ///
    /// # Errors
    /// When the output does not take what was held back.
    fn end_pass(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    /// Writes what is left, and says what it came to.
    ///
    /// # Errors
    /// When the output does not take it.
    fn finish(self: Box<Self>) -> Result<ExportTally, ExportError>;
}

/// A sink of a format. `ticks` is how many are expected, which settles how
/// much is held in memory; a wrong number costs memory or time and no more.
///
/// # Errors
/// When the output does not take the format's beginning.
pub fn sink(
    format: ExportFormat,
    columns: Vec<ExportColumn>,
    ticks: u64,
    out: CountingWriter,
) -> Result<Box<dyn ExportSink>, ExportError> {
    Ok(match format {
        ExportFormat::Csv => Box::new(csv::CsvWideSink::new(&columns, out)?),
        ExportFormat::CsvLong => Box::new(csv::CsvLongSink::new(&columns, out)?),
        ExportFormat::JsonLines => Box::new(jsonl::JsonLines::new(&columns, out)),
        ExportFormat::Parquet => Box::new(parquet::ParquetLongSink::new(&columns, out)?),
        ExportFormat::ParquetWide => Box::new(parquet::ParquetWideSink::new(&columns, out)?),
        ExportFormat::Prometheus => Box::new(prometheus::Exposition::new(columns, ticks, out)),
    })
}

impl ExportTally {
    /// Counts the cells of a batch.
    fn count(&mut self, values: &[f64]) {
        let gaps = values.iter().filter(|value| value.is_nan()).count() as u64;
        self.gaps += gaps;
        self.values += values.len() as u64 - gaps;
    }
}
