//! `export LOG… --as FORMAT`: a log in other tools' formats.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use diskwright_base::{Frame, Schema};
use diskwright_export::{Batch, Column, ExportError, Format, Out, Sink, Tally, sink};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tempfile::NamedTempFile;

use super::columns::{self, Source, Survey};
use super::log::{Logs, Piece, Window, tell_damage};
use super::{Failure, output, when};

/// Arguments of `export`.
#[derive(Args)]
pub struct Arguments {
    /// Logs: folders made by `record` or `import`, one of their files, or logs of other tools
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// The format
    #[arg(long = "as", value_enum)]
    form: Form,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Counters to export: ids with * as a wildcard, or any name that `explain` knows (repeatable)
    #[arg(long, value_name = "GLOB")]
    counter: Vec<String>,
    /// Only these instances, with * as a wildcard (repeatable)
    #[arg(long, value_name = "GLOB")]
    instance: Vec<String>,
    #[command(flatten)]
    window: Window,
    /// Only the series that the log holds, nothing computed from them
    #[arg(long)]
    raw: bool,
    /// A row a tick and series (time, counter, instance, unit, value); Parquet is so anyway
    #[arg(long, conflicts_with = "wide")]
    long: bool,
    /// A row a tick and a column a series; CSV is so anyway
    #[arg(long)]
    wide: bool,
    /// Print what was written as JSON; needs -o
    #[arg(long, requires = "output")]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    /// Comma-separated values (RFC 4180); a gap is an empty cell
    Csv,
    /// JSON lines, an object a tick; a gap is null
    Jsonl,
    /// Apache Parquet; a gap is null
    Parquet,
    /// OpenMetrics text with timestamps, for `promtool tsdb create-blocks-from openmetrics`
    Prometheus,
}

impl Arguments {
    fn format(&self) -> Result<(Format, &'static str), Failure> {
        let only = |form: &str, option: &str| Err(Failure::Usage(format!("{form} has no {option} form")));
        match self.form {
            Form::Csv if self.long => Ok((Format::CsvLong, "csv")),
            Form::Csv => Ok((Format::Csv, "csv")),
            Form::Parquet if self.wide => Ok((Format::ParquetWide, "parquet")),
            Form::Parquet => Ok((Format::Parquet, "parquet")),
            Form::Jsonl if self.long => only("jsonl", "--long"),
            Form::Jsonl => Ok((Format::JsonLines, "jsonl")),
            Form::Prometheus if self.long || self.wide => only("prometheus", "--long or --wide"),
            Form::Prometheus => Ok((Format::Prometheus, "prometheus")),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (format, name) = arguments.format()?;
    if arguments.output.is_none() && arguments.form == Form::Parquet && io::stdout().is_terminal() {
        return Err(Failure::Usage("Parquet is not for a terminal; name a file with -o".into()));
    }
    let logs = Logs::open(&arguments.log, &arguments.window)?;
    let survey = columns::survey(&logs, &arguments.counter, &arguments.instance, arguments.raw)?;
    let Survey { columns, ticks } = survey;
    let tally = match &arguments.output {
        None => write(&logs, &columns, ticks, format, Out::new(Box::new(io::stdout())))?,
        Some(path) => to_file(path, |out| write(&logs, &columns, ticks, format, out))?,
    };
    if tally.left_out > 0 {
        let count = tally.left_out;
        eprintln!("diskwright: {count} samples left out, whose time repeats or goes back within their series");
    }
    if !arguments.json {
        return Ok(());
    }
    output::json(&json!({
        "schema": "diskwright.export/1",
        "file": arguments.output,
        "format": name,
        "rows": tally.rows,
        "series": columns.len(),
        "values": tally.values,
        "gaps": tally.gaps,
        "left_out": tally.left_out,
        "bytes": tally.bytes,
        "from": when::rfc3339(logs.range.0),
        "to": when::rfc3339(logs.range.1),
    }))
}

/// Writes a file that is there wholly or not at all.
fn to_file(path: &Path, write: impl FnOnce(Out) -> Result<Tally, Failure>) -> Result<Tally, Failure> {
    let wrap = |e: io::Error| Failure::Failed(format!("{}: {e}", path.display()));
    // a pipe or a device takes the bytes as they come
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return write(Out::new(Box::new(File::options().write(true).open(path).map_err(wrap)?)));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // permissions as any new file has them: the system takes off what the user's mask says
    let builder = &mut tempfile::Builder::new();
    let made = builder.prefix(".diskwright-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder);
    let made: NamedTempFile = made.map_err(wrap)?;
    let file = made.as_file().try_clone().map_err(wrap)?;
    let tally = write(Out::new(Box::new(file)))?;
    made.persist(path).map_err(|e| wrap(e.error))?;
    Ok(tally)
}

fn write(logs: &Logs, columns: &[Column], ticks: u64, format: Format, out: Out) -> Result<Tally, Failure> {
    let mut sink = sink(format, columns.to_vec(), ticks, out).map_err(failure)?;
    let bar = bar(ticks * sink.passes() as u64);
    for pass in 0..sink.passes() {
        let wanted: Vec<&Column> = sink.wanted(pass).into_iter().filter_map(|at| columns.get(at)).collect();
        let mut known: Option<(Arc<Schema>, Vec<Option<Source>>)> = None;
        let mut room = vec![Vec::new(); wanted.len()];
        logs.read(|piece| {
            match piece {
                Piece::Frame(frame) => {
                    if known.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema())) {
                        known = Some((Arc::clone(frame.schema()), columns::resolve(&wanted, frame.schema())));
                    }
                    let sources = known.as_ref().map(|(_, sources)| sources.as_slice()).unwrap_or_default();
                    put(sink.as_mut(), frame, sources, &mut room)?;
                    bar.inc(frame.ticks().len() as u64);
                }
                Piece::Damage(damage) if pass == 0 => tell_damage(&damage),
                Piece::Damage(_) | Piece::Note(_) => {}
            }
            Ok(())
        })?;
        sink.end_pass().map_err(failure)?;
    }
    bar.finish_and_clear();
    sink.finish().map_err(failure)
}

/// Hands the wanted values of a frame to the sink.
fn put(sink: &mut dyn Sink, frame: &Frame, sources: &[Option<Source>], room: &mut [Vec<f64>]) -> Result<(), Failure> {
    let mut values = Vec::with_capacity(sources.len());
    for (source, room) in sources.iter().zip(room) {
        values.push(source.as_ref().map(|source| source.values(frame, room)));
    }
    sink.write(&Batch { ticks: frame.ticks(), values: &values }).map_err(failure)
}

fn failure(error: ExportError) -> Failure {
    match error.io().map(io::Error::kind) {
        Some(ErrorKind::BrokenPipe) => Failure::ClosedPipe,
        _ => error.into(),
    }
}

/// A bar of the ticks that were written, on a terminal.
fn bar(ticks: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(ticks), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("exporting {wide_bar} {pos}/{len} ticks") {
        bar.set_style(style);
    }
    bar
}
