//! `export LOG… --as FORMAT`: writes a log in other tools' formats.

use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use diskwright_base::units::format_count;
use diskwright_base::{Frame, LogPiece, Schema};
use diskwright_export::{
    CountingWriter, ExportBatch, ExportColumn, ExportError, ExportFormat, ExportSink, ExportTally, create_sink,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::csv_cells::CsvCells;
use super::export_columns::{self, ColumnSource, ColumnSurvey};
use super::log::{self, LogWindow, Logs};
use super::{Failure, damage, output, output_file, process_selection, time_argument};

/// Arguments of `export`.
#[derive(Args)]
pub struct Arguments {
    /// Logs: folders made by `record` or `import`, one of their files, logs of other tools, or an archive of them
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// The format
    #[arg(long = "as", value_enum)]
    form: ExportForm,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Export these counters: ids with * as a wildcard, or any name that `explain` knows (repeatable)
    #[arg(long, value_name = "GLOB")]
    counter: Vec<String>,
    /// Export only these instances, with * as a wildcard (repeatable)
    #[arg(long, value_name = "GLOB")]
    instance: Vec<String>,
    #[command(flatten)]
    window: LogWindow,
    /// Export only the stored series, nothing computed from them
    #[arg(long)]
    raw: bool,
    /// One row per tick and series (time, counter, instance, unit, value); the default for Parquet
    #[arg(long, conflicts_with = "wide")]
    long: bool,
    /// One row per tick, one column per series; the default for CSV
    #[arg(long)]
    wide: bool,
    /// Exit with 0 even if the log is damaged and ticks are lost
    #[arg(long)]
    allow_damage: bool,
    #[command(flatten)]
    cells: CsvCells,
    /// Print what was written as JSON; needs -o
    #[arg(long, requires = "output")]
    json: bool,
}

/// Output format.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ExportForm {
    /// Comma-separated values (RFC 4180); a gap is an empty cell
    Csv,
    /// JSON lines, one object per tick; a gap is null
    Jsonl,
    /// Apache Parquet; a gap is null
    Parquet,
    /// OpenMetrics text with timestamps, for `promtool tsdb create-blocks-from openmetrics`
    Prometheus,
}

impl Arguments {
    fn output_format(&self) -> Result<(ExportFormat, &'static str), Failure> {
        let refuse_form = |form: &str, option: &str| Err(Failure::Usage(format!("{form} has no {option} form")));
        match self.form {
            ExportForm::Csv if self.long => Ok((ExportFormat::CsvLong, "csv")),
            ExportForm::Csv => Ok((ExportFormat::Csv, "csv")),
            ExportForm::Parquet if self.wide => Ok((ExportFormat::ParquetWide, "parquet")),
            ExportForm::Parquet => Ok((ExportFormat::Parquet, "parquet")),
            ExportForm::Jsonl if self.long => refuse_form("jsonl", "--long"),
            ExportForm::Jsonl => Ok((ExportFormat::JsonLines, "jsonl")),
            ExportForm::Prometheus if self.long || self.wide => refuse_form("prometheus", "--long or --wide"),
            ExportForm::Prometheus => Ok((ExportFormat::Prometheus, "prometheus")),
        }
    }
}

/// Runs `export`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (format, name) = arguments.output_format()?;
    let path = arguments.output.as_deref().unwrap_or(Path::new("-"));
    let to_stdout = output_file::is_stdout(path);
    if to_stdout && arguments.form == ExportForm::Parquet && io::stdout().is_terminal() {
        return Err(Failure::Usage("Parquet is not for a terminal; give a file with -o".into()));
    }
    if to_stdout && arguments.json {
        return Err(Failure::Usage("--json reports what was written; give a file with -o".into()));
    }
    output_file::check_writable(path)?;
    let logs = log::open(&arguments.log, &arguments.window)?
        .with_processes(process_selection::are_processes_wanted(&arguments.counter))?;
    let logs = logs.with_steps(arguments.raw);
    process_selection::report_left_out(&logs);
    let survey = export_columns::survey_columns(&logs, &arguments.counter, &arguments.instance, arguments.raw)?;
    let ColumnSurvey { columns, ticks } = survey;
    let on_terminal = output_file::is_stdout(path) && io::stdout().is_terminal();
    let named_columns = name_columns(&columns, format, arguments.cells, on_terminal);
    let tally = output_file::write_in_pieces(path, |out| {
        write_columns(&logs, &columns, &named_columns, ticks, format, CountingWriter::new(out))
    })?;
    if tally.skipped_samples > 0 {
        let count = format_count(tally.skipped_samples, "sample was", "samples were");
        output::print_warning(format_args!("{count} left out: their time repeats or goes back within their series"));
    }
    if arguments.json {
        summary_document(arguments, &logs, name, columns.len(), &tally)?;
    }
    if arguments.allow_damage { Ok(()) } else { damage::require_no_losses(&logs.losses()) }
}

fn summary_document(
    arguments: &Arguments,
    logs: &Logs,
    name: &str,
    series: usize,
    tally: &ExportTally,
) -> Result<(), Failure> {
    output::print_json(&json!({
        "schema": "diskwright.export/1",
        "file": arguments.output.as_ref().map(|path| path.display().to_string()),
        "format": name,
        "rows": tally.rows,
        "series": series,
        "values": tally.values,
        "gaps": tally.gaps,
        "left_out": tally.skipped_samples,
        "bytes": tally.bytes,
        "from": time_argument::rfc3339(logs.range_ns.0),
        "to": time_argument::rfc3339(logs.range_ns.1),
        "damage": damage::damage_entries(&logs.losses()),
    }))
}

/// Names the columns as the format requires; on a terminal no name can begin a line.
fn name_columns(
    columns: &[ExportColumn],
    format: ExportFormat,
    cells: CsvCells,
    on_terminal: bool,
) -> Vec<ExportColumn> {
    let mut named = columns.to_vec();
    if on_terminal {
        for column in &mut named {
            (column.counter, column.instance) =
                (output::escape_name(&column.counter), output::escape_name(&column.instance));
        }
    }
    if format == ExportFormat::CsvLong {
        for column in &mut named {
            column.counter = cells.csv_cell(&column.counter).into_owned();
            column.instance = cells.csv_cell(&column.instance).into_owned();
        }
    }
    named
}

/// Writes the columns under the names in `named_columns`, which has one entry for each column.
fn write_columns(
    logs: &Logs,
    columns: &[ExportColumn],
    named_columns: &[ExportColumn],
    ticks: u64,
    format: ExportFormat,
    out: CountingWriter,
) -> Result<ExportTally, Failure> {
    let mut sink = create_sink(format, named_columns.to_vec(), ticks, out).map_err(export_failure)?;
    let bar = tick_bar(ticks * sink.pass_count() as u64);
    let only_processes = columns.iter().all(|column| process_selection::is_process_counter(&column.counter));
    for pass in 0..sink.pass_count() {
        let selected: Vec<&ExportColumn> =
            sink.wanted_columns(pass).into_iter().filter_map(|index| columns.get(index)).collect();
        let mut current: Option<(Arc<Schema>, Vec<Option<ColumnSource>>)> = None;
        let mut buffers = vec![Vec::new(); selected.len()];
        logs.read::<Failure>(|piece| {
            if let LogPiece::Frame(frame) = piece {
                if current.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema())) {
                    current =
                        Some((Arc::clone(frame.schema()), export_columns::resolve_sources(&selected, frame.schema())));
                }
                let sources = current.as_ref().map(|(_, sources)| sources.as_slice()).unwrap_or_default();
                bar.inc(frame.ticks().len() as u64);
                if only_processes && sources.iter().all(Option::is_none) {
                    return Ok(());
                }
                write_frame(sink.as_mut(), frame, sources, &mut buffers)?;
            }
            Ok(())
        })?;
        sink.end_pass().map_err(export_failure)?;
    }
    bar.finish_and_clear();
    sink.finish().map_err(export_failure)
}

/// Passes the values of a frame to the sink: one list for each column, `None` for a column that the frame lacks.
fn write_frame(
    sink: &mut dyn ExportSink,
    frame: &Frame,
    sources: &[Option<ColumnSource>],
    buffers: &mut [Vec<f64>],
) -> Result<(), Failure> {
    let mut values = Vec::with_capacity(sources.len());
    for (source, buffer) in sources.iter().zip(buffers) {
        values.push(source.as_ref().map(|source| source.read_values(frame, buffer)));
    }
    sink.write(&ExportBatch { ticks: frame.ticks(), values: &values }).map_err(export_failure)
}

fn export_failure(error: ExportError) -> Failure {
    match error.io_error().map(io::Error::kind) {
        Some(ErrorKind::BrokenPipe) => Failure::ClosedPipe,
        _ => error.into(),
    }
}

/// Progress bar of the ticks written, on a terminal.
fn tick_bar(ticks: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(ticks), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("exporting {wide_bar} {pos}/{len} ticks") {
        bar.set_style(style);
    }
    bar
}
