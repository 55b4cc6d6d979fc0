//! `show LOG`: counters of a log as a chart, a table or CSV; statistics of a request trace.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use diskwright_base::{Catalogue, CounterPlan, Frame, LogPiece, Note, Schema, text, units};
use diskwright_export::write_csv_cells;
use diskwright_ingest::Input;
use diskwright_report::downsample::bucket_unit;
use diskwright_report::{
    Align, Chart, ChartBucket, ChartLine, DisplayZone, Downsampler, TextTable, sparkline, terminal_chart,
};
use serde_json::{Value, json};

use super::csv_cells::CsvCells;
use super::latency::LatencyWindow;
use super::log::{self, LogWindow, Logs};
use super::{
    Failure, counter_selection, damage, instance_patterns, output, process_selection, show_arrays, show_trace,
    time_argument,
};

/// Arguments of `show`.
#[derive(Args)]
pub struct Arguments {
    /// A log: a folder made by `record`, one of its files, or a log of another tool; or a request trace
    #[arg(required = true)]
    log: Vec<PathBuf>,
    /// Show these counters: ids with * as a wildcard, or any name that `explain` knows (repeatable)
    #[arg(long, value_name = "GLOB")]
    counter: Vec<String>,
    /// Show only these instances, with * as a wildcard (repeatable)
    #[arg(long, value_name = "GLOB")]
    instance: Vec<String>,
    /// Format of a request trace (`list formats`), if its content does not show it
    #[arg(long, value_name = "FORMAT")]
    trace_format: Option<String>,
    #[command(flatten)]
    window: LogWindow,
    /// How to show it
    #[arg(long = "as", value_enum, default_value = "table")]
    form: ShowForm,
    /// For CSV: exit with 0 even if the log is damaged and ticks are lost
    #[arg(long)]
    allow_damage: bool,
    /// Show latency of single requests, if the log has it (`record --trace`): percentiles and heat
    /// maps by device and operation
    #[arg(long, conflicts_with_all = ["counter", "form"])]
    latency: bool,
    #[command(flatten)]
    cells: CsvCells,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ShowForm {
    /// A chart of each counter; for a request trace, all histograms
    Chart,
    /// Mean, minimum and maximum of each counter, with a sparkline
    Table,
    /// Every tick, with one column per counter; for a request trace, every request
    Csv,
}

/// Maximum number of points of a series in JSON and as the source of a sparkline.
const MAX_POINTS: usize = 120;
/// Maximum number of points of all series together; with very many series, each has fewer …
const MAX_CELLS: usize = 2 << 20;
/// … but at least as many as a sparkline needs.
const MIN_POINTS: usize = 12;

/// Runs `show`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let input = log::new_input(&arguments.log);
    if arguments.trace_format.is_some() || input.is_request_trace() {
        return show_request_trace(&input, arguments);
    }
    let logs = log::open_input(&input, &arguments.window)?
        .with_processes(process_selection::are_processes_wanted(&arguments.counter))?;
    if arguments.latency {
        return show_latencies(&logs.with_steps(true), arguments);
    }
    process_selection::report_left_out(&logs);
    let is_csv = arguments.form == ShowForm::Csv && !arguments.json;
    let arrays = match arguments.window.declares_arrays() && !is_csv {
        true => show_arrays::read_array_loads(&logs)?,
        false => Vec::new(),
    };
    let (schemas, mut bookmarks) = counter_selection::scan_schemas_and_notes(&logs)?;
    let missed = bookmarks.iter().fold(0, |sum: u64, note| sum.saturating_add(note.missed_ticks()));
    bookmarks.retain(|n| n.kind == Note::BOOKMARK);
    let wanted = if arguments.counter.is_empty() && counter_selection::are_all_uncatalogued(&schemas) {
        choose_uncatalogued_series(&schemas, &arguments.instance)?
    } else {
        counter_selection::choose_series(&arguments.counter, &arguments.instance, &schemas)?
    };
    if is_csv {
        print_csv(&logs, &wanted, arguments.cells)?;
        return if arguments.allow_damage { Ok(()) } else { damage::require_no_losses(&logs.losses()) };
    }
    let style = output::stdout_style();
    let count = if arguments.form == ShowForm::Chart && !arguments.json {
        terminal_chart::bucket_count(&style)
    } else {
        MAX_POINTS
    };
    let (from, to) = logs.range_ns;
    let mut sampler = Downsampler::new(from, to, count.min((MAX_CELLS / wanted.len().max(1)).max(MIN_POINTS)), &wanted)
        .from_beginning(logs.is_from_beginning());
    logs.read::<Failure>(|piece| {
        if let LogPiece::Frame(frame) = piece {
            sampler.push(frame);
        }
        Ok(())
    })?;
    let lines: Vec<(String, ChartLine)> = wanted
        .into_iter()
        .zip(sampler.finish())
        .map(|((counter, instance), buckets)| (counter, ChartLine { instance, buckets }))
        .collect();
    if arguments.json {
        let mut document = counters_document(&lines, &logs, (&bookmarks, missed));
        document["arrays"] = json!(arrays);
        return output::print_json(&document);
    }
    let (lines, idle) = if arguments.counter.is_empty() { drop_idle_devices(lines) } else { (lines, 0) };
    match arguments.form {
        ShowForm::Chart => print_charts(lines, logs.range_ns, &bookmarks),
        _ => output::print_text(&counters_table(&lines, logs.range_ns)),
    }?;
    output::print_text(&show_arrays::draw_arrays(&arrays, &output::wide_table_style()))?;
    print_left_out(&logs, idle, missed)
}

/// Prints what the output lacks: ticks that `--keep` removed, those that the recorder missed, and the series of `idle`
/// devices.
fn print_left_out(logs: &Logs, idle: usize, missed: u64) -> Result<(), Failure> {
    if missed > 0 {
        let ticks = units::format_count(missed, "tick was", "ticks were");
        output::print_text(&format!("{ticks} due and missed by the recorder\n"))?;
    }
    if let Some(trimmed) = logs.trim_summary() {
        let segments = units::format_count(trimmed.segments, "segment", "segments");
        let (one, many) = (format!("older tick ({segments}) was"), format!("older ticks ({segments}) were"));
        output::print_text(&(units::format_count(trimmed.ticks, &one, &many) + " removed by --keep\n"))?;
    }
    match idle {
        0 => Ok(()),
        _ => {
            let (one, many) = ("series of an idle disk or link is", "series of idle disks and links are");
            let left_out = units::format_count(idle as u64, one, many);
            output::print_text(&format!("{left_out} left out; use --counter to see all\n"))
        }
    }
}

/// Shows latency distributions of single requests.
fn show_latencies(logs: &Logs, arguments: &Arguments) -> Result<(), Failure> {
    let window = LatencyWindow::read(logs, &arguments.instance)?;
    if let Some(failure) = window.missing_device_failure(&arguments.instance) {
        return Err(failure);
    }
    if window.is_empty() {
        let hint = "`diskwright record DIR --trace` keeps them";
        return Err(Failure::Failed(format!("this log has no latencies of single requests; {hint}")));
    }
    if arguments.json {
        let (from, to) = (time_argument::rfc3339(logs.range_ns.0), time_argument::rfc3339(logs.range_ns.1));
        let window_json = json!({ "from": from, "to": to });
        return output::print_json(&json!({
            "schema": "diskwright.show-latency/1",
            "window": window_json,
            "latency": window.to_json_groups(),
            "damage": damage::damage_entries(&logs.losses()),
        }));
    }
    output::print_text(&window.draw_text(&output::wide_table_style()))
}

/// Returns the series of a log that the catalogue does not know.
fn choose_uncatalogued_series(schemas: &[Arc<Schema>], instances: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let own = counter_selection::uncatalogued_series("foreign.*", instances, schemas);
    if own.is_empty() {
        return Err(counter_selection::no_series_failure(schemas));
    }
    if let Some(failure) = instance_patterns::missing_instance_failure(
        instances,
        &counter_selection::distinct_instances(&own),
        &BTreeSet::new(),
    ) {
        return Err(failure);
    }
    let before = "this log has no counter of the catalogue, only";
    Ok(counter_selection::limit_series(own, before, "foreign series"))
}

/// Shows a request trace, which has requests and no counters.
fn show_request_trace(input: &Input, arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.counter.is_empty() || !arguments.window.is_whole() {
        let reason = "a request trace has no counters and is read whole";
        return Err(Failure::Usage(format!("{reason}; omit --counter, --from and --to")));
    }
    if arguments.latency {
        let reason = "--latency is for logs; a request trace shows its times without it";
        return Err(Failure::Usage(reason.into()));
    }
    arguments.window.refuse_log_options()?;
    let (charts, csv) = (arguments.form == ShowForm::Chart, arguments.form == ShowForm::Csv);
    let cells = arguments.cells;
    let (devices, format) = (arguments.instance.as_slice(), arguments.trace_format.as_deref());
    let wanted = show_trace::TraceView { devices, charts, csv, cells, json: arguments.json, format };
    show_trace::run(input, &wanted)
}

/// Removes disks and links that moved nothing from the overview: a machine can have hundreds. If a log lacks the bytes,
/// none is removed.
fn drop_idle_devices(lines: Vec<(String, ChartLine)>) -> (Vec<(String, ChartLine)>, usize) {
    let mut has_moved: HashMap<(String, String), bool> = HashMap::new();
    for (counter, line) in lines.iter().filter(|(counter, _)| counter.ends_with("bytes_per_s")) {
        if let Some((_, _, max)) = line.summary() {
            *has_moved.entry((counter_object(counter).to_owned(), line.instance.clone())).or_default() |= max > 0.0;
        }
    }
    let count = lines.len();
    let keep = |(counter, line): &(String, ChartLine)| {
        let object = counter_object(counter);
        let key = (object.to_owned(), line.instance.clone());
        !matches!(object, "physical_disk" | "network") || has_moved.get(&key).is_none_or(|moved| *moved)
    };
    let kept: Vec<(String, ChartLine)> = lines.into_iter().filter(keep).collect();
    let left_out = count - kept.len();
    (kept, left_out)
}

fn counter_object(counter: &str) -> &str {
    counter.split('.').next().unwrap_or(counter)
}

/// Unit of a bucket's values: totals are shown per second.
fn displayed_unit(counter: &str) -> String {
    bucket_unit(Catalogue::builtin(), counter)
}

fn counters_table(lines: &[(String, ChartLine)], range: (i64, i64)) -> String {
    let style = output::wide_table_style();
    let mut table = TextTable::new()
        .with_text_column("counter")
        .with_text_column("instance")
        .with_column("least", Align::Right)
        .with_column("mean", Align::Right)
        .with_column("most", Align::Right)
        .with_column("over time", Align::Left);
    for (counter, line) in lines {
        let unit = displayed_unit(counter);
        let format = |v: f64| units::format_value(v, &unit);
        let cells = line.summary().map(|(min, mean, max)| [format(min), format(mean), format(max)]);
        let [min, mean, max] = cells.unwrap_or_else(|| ["".into(), "no data".into(), "".into()]);
        let means: Vec<f64> = line.buckets.iter().map(|b| b.mean).collect();
        let sparks = sparkline::sparkline(&means, None, 12, style.unicode);
        table.add_row([counter.clone(), line.instance.clone(), min, mean, max, sparks]);
    }
    format!("{}\n{}", DisplayZone::local().format_range(range.0, range.1), table.render(&style))
}

fn print_charts(lines: Vec<(String, ChartLine)>, range: (i64, i64), bookmarks: &[Note]) -> Result<(), Failure> {
    let style = output::stdout_style();
    let mut by_counter: Vec<(String, Vec<ChartLine>)> = Vec::new();
    for (counter, line) in lines {
        match by_counter.last_mut() {
            Some((last, group)) if *last == counter => group.push(line),
            _ => by_counter.push((counter, vec![line])),
        }
    }
    for (counter, group) in by_counter {
        let chart = Chart::new(&counter, range.0, range.1, group);
        output::print_text(&format!(
            "{}\n",
            terminal_chart::draw_chart(&chart, bookmarks, &DisplayZone::local(), &style, 10)
        ))?;
    }
    Ok(())
}

fn counters_document(lines: &[(String, ChartLine)], logs: &Logs, (bookmarks, missed): (&[Note], u64)) -> Value {
    let range = logs.range_ns;
    let number = |v: f64| if v.is_finite() { json!(v) } else { Value::Null };
    let point = |b: &ChartBucket| number(b.mean);
    let series: Vec<Value> = lines
        .iter()
        .map(|(counter, line)| {
            let summary = line.summary();
            json!({
                "counter": counter,
                "instance": line.instance,
                "unit": displayed_unit(counter),
                "least": summary.map(|s| number(s.0)),
                "mean": summary.map(|s| number(s.1)),
                "most": summary.map(|s| number(s.2)),
                "points": line.buckets.iter().map(point).collect::<Vec<_>>(),
            })
        })
        .collect();
    let marks: Vec<Value> =
        bookmarks.iter().map(|b| json!({ "at": time_argument::rfc3339(b.time_ns), "text": b.text() })).collect();
    json!({
        "schema": "diskwright.show/1",
        "window": { "from": time_argument::rfc3339(range.0), "to": time_argument::rfc3339(range.1) },
        "series": series,
        "bookmarks": marks,
        "damage": damage::damage_entries(&logs.losses()),
        "ticks_missed": missed,
        "trimmed": damage::trimmed_json(logs.trim_summary()),
    })
}

/// Second pass for CSV: one line per tick, an empty cell for a gap.
fn print_csv(logs: &Logs, wanted: &[(String, String)], cells: CsvCells) -> Result<(), Failure> {
    let mut out = b"time,elapsed_s".to_vec();
    for (counter, instance) in wanted {
        let name = if instance.is_empty() { counter.clone() } else { format!("{counter}[{instance}]") };
        out.push(b',');
        out.extend_from_slice(text::quote_csv_cell(&cells.terminal_cell(&name)).as_bytes());
    }
    out.push(b'\n');
    let only_processes = wanted.iter().all(|(counter, _)| process_selection::is_process_counter(counter));
    let mut current: Option<(Arc<Schema>, Vec<Option<CounterPlan>>)> = None;
    logs.read::<Failure>(|piece| {
        let LogPiece::Frame(frame) = piece else { return Ok(()) };
        if current.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema())) {
            let plan = |(c, i): &(String, String)| {
                CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), c, i)
                    .or_else(|| CounterPlan::for_foreign_series(frame.schema(), c, i))
            };
            current = Some((Arc::clone(frame.schema()), wanted.iter().map(plan).collect()));
        }
        let plans = current.as_ref().map(|(_, plans)| plans.as_slice()).unwrap_or_default();
        if only_processes && plans.iter().all(Option::is_none) {
            return Ok(());
        }
        write_csv_rows(&mut out, frame, plans);
        output::print_data(&out)?;
        out.clear();
        Ok(())
    })
}

fn write_csv_rows(out: &mut Vec<u8>, frame: &Frame, plans: &[Option<CounterPlan>]) {
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); plans.len()];
    for (column, plan) in columns.iter_mut().zip(plans) {
        match plan {
            Some(plan) => plan.compute_values(frame, column),
            None => column.resize(frame.ticks().len(), f64::NAN),
        }
    }
    for (index, tick) in frame.ticks().iter().enumerate() {
        out.extend_from_slice(time_argument::rfc3339(tick.time_ns).as_bytes());
        let elapsed_s = if tick.elapsed_ns == 0 { f64::NAN } else { tick.elapsed_ns as f64 * 1e-9 };
        write_csv_cells(out, [Some([elapsed_s].as_slice())], 0);
        write_csv_cells(out, columns.iter().map(|column| Some(column.as_slice())), index);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_whose_bytes_were_not_recorded_is_not_idle() {
        let line = |counter: &str, instance: &str, value: f64| {
            let buckets = vec![ChartBucket::from_value(Some(value).filter(|value| !value.is_nan()))];
            (counter.to_owned(), ChartLine { instance: instance.to_owned(), buckets })
        };
        let lines = vec![
            line("physical_disk.busy", "0 C:", 0.99),
            line("physical_disk.busy", "sda", 0.0),
            line("physical_disk.bytes_per_s", "sda", 0.0),
            line("physical_disk.bytes_per_s", "sdb", 4096.0),
            line("physical_disk.bytes_per_s", "sdc", f64::NAN),
            line("network.received_bytes_per_s", "eth0", 0.0),
            line("network.sent_bytes_per_s", "eth0", 1.0),
            line("network.received_bytes_per_s", "eth1", 0.0),
            line("processor.busy", "_total", 0.0),
        ];
        let (kept, left_out) = drop_idle_devices(lines);
        let names: Vec<&str> = kept.iter().map(|(_, line)| line.instance.as_str()).collect();
        assert_eq!((names, left_out), (vec!["0 C:", "sdb", "sdc", "eth0", "eth0", "_total"], 3));
    }
}
