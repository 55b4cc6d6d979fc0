//! Parquet: tidy (one row per tick and series) or wide (one row per tick, one column per
//! series). Times are microseconds, UTC; gaps are nulls; names are encoded with a
//! dictionary; pages are compressed with zstd.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use crate::counting_writer::CountingWriter;
use crate::{ExportBatch, ExportColumn, ExportError, ExportSink, ExportTally};

/// Number of rows in a group of the tidy form.
const LONG_GROUP_ROWS: usize = 1 << 20;
/// Largest number of cells in a group of the wide form, in all its columns.
const WIDE_GROUP_CELLS: usize = 1 << 22;
/// Largest number of rows in a group of the wide form.
const MAX_WIDE_GROUP_ROWS: usize = 1 << 17;

type ParquetFileWriter = SerializedFileWriter<CountingWriter>;
type ParquetRowGroup<'a> = SerializedRowGroupWriter<'a, CountingWriter>;

/// Type of the column of times.
fn time_type() -> Result<TypePtr, ExportError> {
    let stamp = LogicalType::timestamp(true, TimeUnit::MICROS);
    let field = Type::primitive_type_builder("time", Physical::INT64).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(field.with_logical_type(Some(stamp)).build()?))
}

/// Type of a column of texts.
fn text_type(name: &str) -> Result<TypePtr, ExportError> {
    let field = Type::primitive_type_builder(name, Physical::BYTE_ARRAY).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(field.with_logical_type(Some(LogicalType::String)).build()?))
}

/// Type of a column of values.
fn value_type(name: &str) -> Result<TypePtr, ExportError> {
    let field = Type::primitive_type_builder(name, Physical::DOUBLE).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(field.build()?))
}

/// Creates the file writer; the columns in `plain` get no dictionary.
fn create_writer(fields: Vec<TypePtr>, plain: &[&str], out: CountingWriter) -> Result<ParquetFileWriter, ExportError> {
    let schema = Arc::new(Type::group_type_builder("log").with_fields(fields).build()?);
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_created_by(concat!("diskwright ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in plain {
        // measured values rarely repeat often enough for a dictionary
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(*column), false);
    }
    Ok(SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?)
}

/// Writes a column of doubles with nulls for gaps.
fn put_values(
    group: &mut ParquetRowGroup<'_>,
    values: &[f64],
    scratch: &mut ParquetScratch,
) -> Result<(), ExportError> {
    scratch.levels.clear();
    scratch.levels.extend(values.iter().map(|value| i16::from(!value.is_nan())));
    scratch.present.clear();
    scratch.present.extend(values.iter().filter(|value| !value.is_nan()));
    if let Some(mut column) = group.next_column()? {
        column.typed::<DoubleType>().write_batch(&scratch.present, Some(&scratch.levels), None)?;
        column.close()?;
    }
    Ok(())
}

/// Writes the column of times.
fn put_times(group: &mut ParquetRowGroup<'_>, times: &[i64]) -> Result<(), ExportError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(times, None, None)?;
        column.close()?;
    }
    Ok(())
}

/// Returns a text that will be repeated. An empty one would have a dangling pointer, and
/// comparing two such texts with vector instructions takes hundreds of cycles on some
/// processors, so it points into the heap instead.
fn repeated_text(text: &str) -> ByteArray {
    if text.is_empty() { ByteArray::from("-").slice(0, 0) } else { ByteArray::from(text) }
}

/// Reusable buffers for nulls.
#[derive(Default)]
struct ParquetScratch {
    levels: Vec<i16>,
    present: Vec<f64>,
}

/// Sink of the tidy form: `time`, `counter`, `instance`, `unit`, `value`. Within a
/// group, the rows of a series are adjacent as far as they were in one batch.
pub(crate) struct ParquetLongSink {
    writer: ParquetFileWriter,
    /// Counter, instance and unit of each series.
    names: Vec<[ByteArray; 3]>,
    times: Vec<i64>,
    values: Vec<f64>,
    /// Index of a series, and its number of consecutive rows.
    runs: Vec<(usize, usize)>,
    texts: Vec<ByteArray>,
    scratch: ParquetScratch,
    tally: ExportTally,
}

impl ParquetLongSink {
    /// Writes the schema of rows that each hold one value with its counter, instance and unit.
    pub fn new(columns: &[ExportColumn], out: CountingWriter) -> Result<ParquetLongSink, ExportError> {
        let mut fields = vec![time_type()?];
        for name in ["counter", "instance", "unit"] {
            fields.push(text_type(name)?);
        }
        fields.push(value_type("value")?);
        let names = columns.iter().map(|c| [&c.counter, &c.instance, &c.unit].map(|t| repeated_text(t)));
        Ok(ParquetLongSink {
            writer: create_writer(fields, &["value"], out)?,
            names: names.collect(),
            times: Vec::new(),
            values: Vec::new(),
            runs: Vec::new(),
            texts: Vec::new(),
            scratch: ParquetScratch::default(),
            tally: ExportTally::default(),
        })
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        if self.times.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        put_times(&mut group, &self.times)?;
        for text_index in 0..3 {
            let Some(mut column) = group.next_column()? else { continue };
            self.texts.clear();
            for &(series, rows) in &self.runs {
                self.texts.extend(std::iter::repeat_n(&self.names[series][text_index], rows).cloned());
            }
            column.typed::<ByteArrayType>().write_batch(&self.texts, None, None)?;
            column.close()?;
        }
        put_values(&mut group, &self.values, &mut self.scratch)?;
        group.close()?;
        self.tally.rows += self.times.len() as u64;
        self.tally.count_values(&self.values);
        self.times.clear();
        self.values.clear();
        self.runs.clear();
        Ok(())
    }
}

impl ExportSink for ParquetLongSink {
    fn wanted_columns(&self, _pass: usize) -> Vec<usize> {
        (0..self.names.len()).collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        for (column, values) in batch.values.iter().enumerate() {
            let Some(values) = values else { continue };
            self.times.extend(batch.ticks.iter().map(|tick| tick.time_ns.div_euclid(1000)));
            self.values.extend_from_slice(values);
            self.runs.push((column, values.len()));
            if self.times.len() >= LONG_GROUP_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.write_group()?;
        self.tally.bytes = finish_file(self.writer)?;
        Ok(self.tally)
    }
}

/// Sink of the wide form: `time` and one column per series.
pub(crate) struct ParquetWideSink {
    writer: ParquetFileWriter,
    times: Vec<i64>,
    columns: Vec<Vec<f64>>,
    max_rows: usize,
    scratch: ParquetScratch,
    tally: ExportTally,
}

impl ParquetWideSink {
    /// Writes the schema: the time, then one column for each of ours.
    pub fn new(columns: &[ExportColumn], out: CountingWriter) -> Result<ParquetWideSink, ExportError> {
        let mut fields = vec![time_type()?];
        for column in columns {
            fields.push(value_type(&column.name())?);
        }
        Ok(ParquetWideSink {
            writer: create_writer(fields, &[], out)?,
            times: Vec::new(),
            columns: vec![Vec::new(); columns.len()],
            max_rows: (WIDE_GROUP_CELLS / columns.len().max(1)).clamp(1, MAX_WIDE_GROUP_ROWS),
            scratch: ParquetScratch::default(),
            tally: ExportTally::default(),
        })
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        if self.times.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        put_times(&mut group, &self.times)?;
        for values in &mut self.columns {
            put_values(&mut group, values, &mut self.scratch)?;
            values.clear();
        }
        group.close()?;
        self.tally.rows += self.times.len() as u64;
        self.times.clear();
        Ok(())
    }
}

impl ExportSink for ParquetWideSink {
    fn wanted_columns(&self, _pass: usize) -> Vec<usize> {
        (0..self.columns.len()).collect()
    }

    fn write(&mut self, batch: &ExportBatch<'_>) -> Result<(), ExportError> {
        let mut from = 0;
        while from < batch.ticks.len() {
            let to = batch.ticks.len().min(from + self.max_rows - self.times.len());
            self.times.extend(batch.ticks[from..to].iter().map(|tick| tick.time_ns.div_euclid(1000)));
            for (column, values) in self.columns.iter_mut().zip(batch.values) {
                match values {
                    Some(values) => column.extend_from_slice(&values[from..to]),
                    None => column.resize(self.times.len(), f64::NAN),
                }
            }
            if self.times.len() == self.max_rows {
                self.write_group()?;
            }
            from = to;
        }
        batch.values.iter().flatten().for_each(|values| self.tally.count_values(values));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ExportTally, ExportError> {
        self.write_group()?;
        self.tally.bytes = finish_file(self.writer)?;
        Ok(self.tally)
    }
}

/// Writes the file's footer; returns the total number of bytes.
fn finish_file(writer: ParquetFileWriter) -> Result<u64, ExportError> {
    Ok(writer.into_inner()?.finish_output()?)
}
