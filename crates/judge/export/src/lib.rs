//! Exports samples to other tools' formats: CSV, JSON lines, Parquet, Prometheus text.
//!
//! An [`ExportSink`] gets ticks in batches and writes them at once, so memory
//! does not depend on the length of a log. A gap never becomes a zero: it is an
//! empty cell, a `null`, or no sample.

mod counting_writer;
mod csv;
mod jsonl;
mod number;
mod parquet;
mod prometheus;
mod timestamp;

use std::io;

use diskwright_base::{CounterKind, Tick};
use thiserror::Error;

pub use counting_writer::CountingWriter;
pub use csv::{write_csv_cells, write_csv_number};
pub use timestamp::format_rfc3339;

/// Reason why an export stopped.
#[derive(Debug, Error)]
pub enum ExportError {
    /// Writing the output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The Parquet writer failed.
    #[error("Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

impl ExportError {
    /// Returns the I/O error that caused this one, if any.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            ExportError::Io(error) => Some(error),
            ExportError::Parquet(error) => {
                std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>())
            }
        }
    }
}

/// Format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// CSV (RFC 4180): one line per tick, one column per series.
    Csv,
    /// CSV (RFC 4180): one line per tick and series.
    CsvLong,
    /// One JSON object per tick.
    JsonLines,
    /// Parquet: one row per tick and series.
    Parquet,
    /// Parquet: one row per tick, one column per series.
    ParquetWide,
    /// OpenMetrics text with timestamps.
    Prometheus,
}

/// An exported series.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportColumn {
    /// Canonical counter id, or `foreign.` and the name in another tool.
    pub counter: String,
    /// Instance, such as the device; empty if there is only one.
    pub instance: String,
    /// Unit of the values, such as `bytes_per_s`; empty if unknown.
    pub unit: String,
    /// Kind of the counter, if the catalogue contains it.
    pub kind: Option<CounterKind>,
    /// Explanation; empty if unknown.
    pub explain: String,
    /// Its metric in Prometheus, if the catalogue has one.
    pub metric: Option<String>,
}

impl ExportColumn {
    /// Returns `counter{instance}`, or the counter alone.
    pub fn name(&self) -> String {
        match self.instance.as_str() {
            "" => self.counter.clone(),
            instance => format!("{}{{{instance}}}", self.counter),
        }
    }
}

/// A batch of ticks with the columns of a pass, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct ExportBatch<'a> {
    /// The ticks.
    pub ticks: &'a [Tick],
    /// For each wanted column one value per tick, `NaN` for a gap;
    /// `None` if the log has no such series at these ticks.
    pub values: &'a [Option<&'a [f64]>],
}

/// Counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportTally {
    /// Number of lines, objects or rows; of samples in Prometheus text.
    pub rows: u64,
    /// Number of values that are numbers.
    pub values: u64,
    /// Number of values that are gaps.
    pub gaps: u64,
    /// Number of samples skipped because the format accepts one per series and
    /// millisecond, in order of time.
    pub skipped_samples: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Writer of ticks in one of the formats.
///
/// The caller reads the log once per pass and passes the columns that the pass
/// wants. Only Prometheus text, where all samples of a series precede the next
/// series, has more than one pass.
pub trait ExportSink {
    /// Returns how often the log must be read.
    fn pass_count(&self) -> usize {
        1
    }

    /// Returns the indices of the columns that a pass wants, in the order of a batch's values.
    fn wanted_columns(&self, pass: usize) -> Vec<usize>;

    /// Writes a batch of ticks.
    ///
    /// # Errors
    /// When writing fails.
    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError>;

    /// Ends a pass over the log.
    ///
    /// # Errors
    /// When writing the buffered samples fails.
    fn end_pass(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    /// Writes the rest and returns the counts.
    ///
    /// # Errors
    /// When writing fails.
    fn finish(self: Box<Self>) -> Result<ExportTally, ExportError>;
}

/// Creates a sink of a format. `ticks` is the expected number of ticks, which determines
/// how much is buffered in memory; a wrong number only costs memory or time.
///
/// # Errors
/// When writing the beginning fails.
pub fn create_sink(
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
        ExportFormat::Prometheus => Box::new(prometheus::ExpositionSink::new(columns, ticks, out)),
    })
}

impl ExportTally {
    /// Counts the cells of a batch.
    fn count_values(&mut self, values: &[f64]) {
        let gaps = values.iter().filter(|value| value.is_nan()).count() as u64;
        self.gaps += gaps;
        self.values += values.len() as u64 - gaps;
    }
}
