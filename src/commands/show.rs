//! `show LOG`: counters of a log as a chart, a table or CSV; of a request trace
//! its statistics.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use diskwright_base::{Catalogue, Frame, Note, Plan, Schema, units};
use diskwright_report::downsample::bucket_unit;
use diskwright_report::{Align, Bucket, Chart, Downsampler, Line, Table, Zone, chart, spark};
use serde_json::{Value, json};

use super::log::{Logs, Piece, Window, tell_damage};
use super::{Failure, output, select, show_trace, when};

/// Arguments of `show`.
#[derive(Args)]
pub struct Arguments {
    /// A log: a folder made by `record`, one of its files, or a log of another tool; or a request trace
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// Counters to show: ids with * as a wildcard, or any name that `explain` knows (repeatable)
    #[arg(long, value_name = "GLOB")]
    counter: Vec<String>,
    /// Only these instances, with * as a wildcard (repeatable)
    #[arg(long, value_name = "GLOB")]
    instance: Vec<String>,
    #[command(flatten)]
    window: Window,
    /// How to show it
    #[arg(long = "as", value_enum, default_value = "table")]
    form: Form,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    /// A chart of each counter; of a request trace all histograms
    Chart,
    /// Mean, least and most of each counter, with a sparkline
    Table,
    /// Every tick, a column a counter; of a request trace every request
    Csv,
}

/// Points of a series in JSON and in a sparkline's source.
const POINTS: usize = 120;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if show_trace::is_one(&arguments.log) {
        return trace(arguments);
    }
    let logs = Logs::open(&arguments.log, &arguments.window)?;
    let (schemas, mut bookmarks) = select::look(&logs)?;
    bookmarks.retain(|n| n.kind == Note::BOOKMARK);
    let wanted = select::choose(&arguments.counter, &arguments.instance, &schemas)?;
    if arguments.form == Form::Csv && !arguments.json {
        return csv(&logs, &wanted);
    }
    let style = output::style();
    let count = if arguments.form == Form::Chart && !arguments.json { chart::buckets(&style) } else { POINTS };
    let (from, to) = logs.range;
    let mut sampler = Downsampler::new(from, to, count, &wanted);
    logs.read(|piece| {
        match piece {
            Piece::Frame(frame) => sampler.push(frame),
            Piece::Damage(damage) => tell_damage(&damage),
            Piece::Note(_) => {}
        }
        Ok(())
    })?;
    let lines: Vec<(String, Line)> = wanted
        .into_iter()
        .zip(sampler.finish())
        .map(|((counter, instance), buckets)| (counter, Line { instance, buckets }))
        .collect();
    if arguments.json {
        return output::json(&document(&lines, logs.range, &bookmarks));
    }
    let (lines, idle) = if arguments.counter.is_empty() { without_idle(lines) } else { (lines, 0) };
    match arguments.form {
        Form::Chart => charts(lines, logs.range, &bookmarks),
        _ => output::text(&table(&lines, logs.range)),
    }?;
    match idle {
        0 => Ok(()),
        _ => output::text(&format!(
            "{idle} series of disks and links that did nothing are left out; name --counter to see them\n"
        )),
    }
}

/// The same command on a request trace, which has requests and no counters.
fn trace(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.counter.is_empty() || !arguments.window.is_whole() {
        let what = "a request trace has no counters, and is read as a whole";
        return Err(Failure::Usage(format!("{what}: leave out --counter, --from and --to")));
    }
    let (charts, csv) = (arguments.form == Form::Chart, arguments.form == Form::Csv);
    let wanted = show_trace::Wanted { devices: &arguments.instance, charts, csv, json: arguments.json };
    show_trace::run(&arguments.log, &wanted)
}

/// The overview without disks and links that moved nothing: a machine can have
/// hundreds.
fn without_idle(lines: Vec<(String, Line)>) -> (Vec<(String, Line)>, usize) {
    let moved = |line: &Line| line.summary().is_some_and(|(_, _, most)| most > 0.0);
    let active: Vec<(String, String)> = lines
        .iter()
        .filter(|(counter, line)| counter.ends_with("bytes_per_s") && moved(line))
        .map(|(counter, line)| (object_of(counter).to_owned(), line.instance.clone()))
        .collect();
    let count = lines.len();
    let keep = |(counter, line): &(String, Line)| {
        let object = object_of(counter);
        !matches!(object, "physical_disk" | "network") || active.iter().any(|(o, i)| o == object && *i == line.instance)
    };
    let kept: Vec<(String, Line)> = lines.into_iter().filter(keep).collect();
    let left_out = count - kept.len();
    (kept, left_out)
}

fn object_of(counter: &str) -> &str {
    counter.split('.').next().unwrap_or(counter)
}

/// Unit of a bucket's values: totals come out per second.
fn unit_of(counter: &str) -> String {
    bucket_unit(Catalogue::builtin(), counter)
}

fn table(lines: &[(String, Line)], range: (i64, i64)) -> String {
    let style = output::wide_style();
    let mut table = Table::new()
        .text("counter")
        .text("instance")
        .column("least", Align::Right)
        .column("mean", Align::Right)
        .column("most", Align::Right)
        .column("over time", Align::Left);
    for (counter, line) in lines {
        let unit = unit_of(counter);
        let show = |v: f64| units::display(v, &unit);
        let cells = line.summary().map(|(least, mean, most)| [show(least), show(mean), show(most)]);
        let [least, mean, most] = cells.unwrap_or_else(|| ["".into(), "no data".into(), "".into()]);
        let means: Vec<f64> = line.buckets.iter().map(|b| b.mean).collect();
        let sparks = spark::sparkline(&means, None, 12, style.unicode);
        table.row([counter.clone(), line.instance.clone(), least, mean, most, sparks]);
    }
    format!("{}\n{}", Zone::local().range(range.0, range.1), table.render(&style))
}

fn charts(lines: Vec<(String, Line)>, range: (i64, i64), bookmarks: &[Note]) -> Result<(), Failure> {
    let style = output::style();
    let mut by_counter: Vec<(String, Vec<Line>)> = Vec::new();
    for (counter, line) in lines {
        match by_counter.last_mut() {
            Some((last, group)) if *last == counter => group.push(line),
            _ => by_counter.push((counter, vec![line])),
        }
    }
    for (counter, group) in by_counter {
        let drawn = Chart::new(&counter, range.0, range.1, group);
        output::text(&format!("{}\n", chart::draw(&drawn, bookmarks, &Zone::local(), &style, 10)))?;
    }
    Ok(())
}

fn document(lines: &[(String, Line)], range: (i64, i64), bookmarks: &[Note]) -> Value {
    let number = |v: f64| if v.is_finite() { json!(v) } else { Value::Null };
    let point = |b: &Bucket| number(b.mean);
    let series: Vec<Value> = lines
        .iter()
        .map(|(counter, line)| {
            let summary = line.summary();
            json!({
                "counter": counter,
                "instance": line.instance,
                "unit": unit_of(counter),
                "least": summary.map(|s| number(s.0)),
                "mean": summary.map(|s| number(s.1)),
                "most": summary.map(|s| number(s.2)),
                "points": line.buckets.iter().map(point).collect::<Vec<_>>(),
            })
        })
        .collect();
    let marks: Vec<Value> =
        bookmarks.iter().map(|b| json!({ "at": when::rfc3339(b.time_ns), "text": b.text })).collect();
    json!({
        "schema": "diskwright.show/1",
        "window": { "from": when::rfc3339(range.0), "to": when::rfc3339(range.1) },
        "series": series,
        "bookmarks": marks,
    })
}

/// Second pass for CSV: a line a tick, an empty cell for a gap.
fn csv(logs: &Logs, wanted: &[(String, String)]) -> Result<(), Failure> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let name = |(counter, instance): &(String, String)| {
        if instance.is_empty() { counter.clone() } else { format!("{counter}[{instance}]") }
    };
    let header = ["time".to_owned(), "elapsed_s".to_owned()].into_iter().chain(wanted.iter().map(name));
    out.write_record(header)?;
    let mut known: Option<(Arc<Schema>, Vec<Option<Plan>>)> = None;
    logs.read(|piece| {
        match piece {
            Piece::Frame(frame) => {
                let fresh = known.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema()));
                if fresh {
                    let plan = |(c, i): &(String, String)| Plan::resolve(Catalogue::builtin(), frame.schema(), c, i);
                    known = Some((Arc::clone(frame.schema()), wanted.iter().map(plan).collect()));
                }
                let plans = known.as_ref().map(|(_, plans)| plans.as_slice()).unwrap_or_default();
                rows(&mut out, frame, plans)?;
                output::text(&String::from_utf8_lossy(out.get_ref()))?;
                out = csv::Writer::from_writer(Vec::new());
            }
            Piece::Damage(damage) => tell_damage(&damage),
            Piece::Note(_) => {}
        }
        Ok(())
    })
}

fn rows(out: &mut csv::Writer<Vec<u8>>, frame: &Frame, plans: &[Option<Plan>]) -> Result<(), Failure> {
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); plans.len()];
    for (column, plan) in columns.iter_mut().zip(plans) {
        match plan {
            Some(plan) => plan.values(frame, column),
            None => column.resize(frame.ticks().len(), f64::NAN),
        }
    }
    for (at, tick) in frame.ticks().iter().enumerate() {
        let elapsed = if tick.elapsed_ns == 0 { String::new() } else { (tick.elapsed_ns as f64 * 1e-9).to_string() };
        let cell = |v: f64| if v.is_nan() { String::new() } else { v.to_string() };
        let cells = columns.iter().map(|c| cell(c[at]));
        out.write_record([when::rfc3339(tick.time_ns), elapsed].into_iter().chain(cells))?;
    }
    out.flush()?;
    Ok(())
}
