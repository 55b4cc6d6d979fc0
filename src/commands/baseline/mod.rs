//! `baseline`: measures the speed of this machine and saves the result, so that a later run can show whether the
//! machine has become slower.

pub mod comparison;
mod disk;
pub mod saved;
mod screen;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use diskwright_base::units::{parse_duration, parse_share};
use diskwright_baseline::BaselineError;
use diskwright_baseline::circumstances::CircumstanceWatch;
use diskwright_baseline::compare::{BaselineComparison, compare_baselines};
use diskwright_baseline::document::{BaselineDocument, SCHEMA, ThreadScaling};
use diskwright_baseline::figure::{self, FIGURES, FigureDefinition, GROUPS};
use diskwright_baseline::machine::BaselineMachine;
use diskwright_baseline::measurement::{self, BaselinePlan};
use diskwright_baseline::sustained_load;
use diskwright_counters::live::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Failure, name_search, output, output_file, time_argument};
use saved::BaselineUpdate;

/// Arguments of `baseline`.
#[derive(Args)]
pub struct Arguments {
    /// Measure only these groups or figures: processor, memory, kernel, network, memory.latency, …; nothing is saved
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// Measure for some seconds, with one thread, and compare with the saved baseline
    #[arg(long, conflicts_with_all = ["sustained", "disk", "replace"])]
    check: bool,
    /// Afterwards, keep all processors busy for this long, and judge whether they slow down (heat, credits)
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    sustained: Option<Duration>,
    /// Afterwards, measure a disk or file with `probe quick`; a missing file is created, and removed at the end
    #[arg(long, value_name = "TARGET")]
    disk: Option<PathBuf>,
    /// Replace the saved baseline of this machine with this one
    #[arg(long)]
    replace: bool,
    /// Save a baseline even if other programs or other machines of the host used the processors meanwhile
    #[arg(long)]
    even_busy: bool,
    /// Do not save the result
    #[arg(long)]
    no_save: bool,
    /// Fail (exit code 1) if this machine is slower than its baseline by more than this with one thread
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    fail_if_slower: Option<f64>,
    /// Write the result to this JSON file, for `compare`
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Write charts of scaling and of memory latency to this SVG file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Minimum duration of a sustained load; a shorter one has no beginning and end to compare.
const MIN_SUSTAINED: Duration = Duration::from_secs(sustained_load::MIN_PARTS as u64);

/// Runs `baseline`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let figures = choose_figures(&arguments.only)?;
    if arguments.sustained.is_some_and(|duration| duration < MIN_SUSTAINED) {
        return Err(Failure::Usage(format!("--sustained takes at least {} s", MIN_SUSTAINED.as_secs())));
    }
    output_file::check_all_writable(arguments.output.iter().chain(&arguments.svg))?;
    arguments.disk.as_deref().map_or(Ok(()), disk::check_target)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let document = measure_machine(arguments, &figures, &stop)?;
    let before = saved::load_baseline(&document.machine.host);
    let against = before.filter(|_| !arguments.replace).map(|before| (compare_baselines(&before, &document), before));
    let update = saved::save_result(arguments, &document);
    if let Some(path) = &arguments.output {
        output_file::write_file(path, output::format_json_document(&document)?.as_bytes())?;
    }
    if let Some(path) = &arguments.svg {
        let charts =
            diskwright_report::curves::render_svg_file("Speed of this machine", &screen::baseline_charts(&document));
        output_file::write_file(path, charts.as_bytes())?;
    }
    if output_file::is_any_stdout(arguments.output.iter().chain(&arguments.svg)) {
        // the requested output has been written to standard output
    } else if arguments.json {
        output::print_json(&answer_json(&document, against.as_ref(), &update)?)?;
    } else {
        output::print_text(&screen::draw_baseline(&document, against.as_ref(), &update))?;
    }
    check_result(arguments, &document, against.as_ref())
}

/// Returns the requested figures.
fn choose_figures(only: &[String]) -> Result<Vec<&'static FigureDefinition>, Failure> {
    if only.is_empty() {
        return Ok(FIGURES.iter().collect());
    }
    let mut figure_ids = Vec::new();
    for name in only {
        let figures = figure::select_figures(name);
        if figures.is_empty() {
            let known = GROUPS.iter().map(|(group, _)| *group).chain(FIGURES.iter().map(|figure| figure.id));
            let (suggestion, groups) =
                (name_search::suggestion_hint(name, known), GROUPS.iter().map(|(group, _)| *group).collect::<Vec<_>>());
            let reason = format!("there is no group or figure `{name}`{suggestion}; groups: {}", groups.join(", "));
            return Err(Failure::Usage(reason));
        }
        figure_ids.extend(figures.into_iter().map(|figure| figure.id));
    }
    Ok(FIGURES.iter().filter(|figure| figure_ids.contains(&figure.id)).collect())
}

fn measurement_bar(length: u64, message: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length.max(1)), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {eta}") {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar
}

fn measure_machine(
    arguments: &Arguments,
    figures: &[&'static FigureDefinition],
    stop: &AtomicBool,
) -> Result<BaselineDocument, Failure> {
    let (root, start) = (Path::new("/"), Instant::now());
    let measured = time_argument::rfc3339(SystemClock.read_clocks().wall_ns);
    let machine = BaselineMachine::read(root);
    let sizes = machine.working_sizes(root);
    let plan = if arguments.check {
        BaselinePlan::quick_check(figures)
    } else {
        BaselinePlan::full_baseline(figures, machine.processors)
    };
    let mut watch = CircumstanceWatch::start(root);
    let bar = measurement_bar(plan.step_count(), "measuring this machine");
    let (figures, skipped) = measurement::measure_figures(&plan, &sizes, &mut watch, stop, &|steps| bar.inc(steps))?;
    bar.finish_and_clear();
    let circumstances = watch.finish();
    let has_arrays = figures.iter().any(|figure| ["memory.read", "memory.triad"].contains(&figure.id.as_str()));
    let mut remarks: Vec<String> = machine.small_array_remark(&sizes).into_iter().filter(|_| has_arrays).collect();
    remarks.extend(saved::low_figure_doubts(&circumstances));
    let sustained = match arguments.sustained {
        None => None,
        Some(duration) => {
            let bar = measurement_bar(duration.as_secs(), "sustained load");
            let result = sustained_load::run_sustained_load(duration, machine.processors, root, stop, &|seconds| {
                bar.set_position(seconds)
            })?;
            bar.finish_and_clear();
            Some(result)
        }
    };
    let disk = arguments.disk.as_deref().map(disk::measure_disk).transpose()?;
    // a signal to this process alone does not end the probe; even so, nothing is saved
    if stop.load(Ordering::Relaxed) {
        return Err(BaselineError::Stopped.into());
    }
    Ok(BaselineDocument {
        schema: SCHEMA.into(),
        measured,
        extent: if arguments.check { "check" } else { "full" }.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        machine,
        seconds: start.elapsed().as_secs_f64(),
        scaling: ThreadScaling::from_figures(&figures, "processor.integer"),
        figures,
        skipped,
        sustained,
        disk,
        circumstances,
        remarks,
    })
}

/// A comparison with the saved baseline, and that baseline.
type Against = (BaselineComparison, BaselineDocument);

fn answer_json(
    document: &BaselineDocument,
    against: Option<&Against>,
    update: &BaselineUpdate,
) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(document)?;
    if let Value::Object(fields) = &mut value {
        let against = against.map(|(comparison, before)| {
            json!({
                "measured": before.measured,
                "speed_one_thread": comparison.speed_one_thread,
                "speed_all_threads": comparison.speed_all_threads,
                "groups": comparison.groups,
                "differences": comparison.differences,
            })
        });
        fields.insert("against".into(), against.unwrap_or_default());
        fields.insert("saved".into(), serde_json::to_value(update)?);
    }
    Ok(value)
}

/// Fails if nothing could be measured, or if the machine is slower than allowed.
fn check_result(arguments: &Arguments, document: &BaselineDocument, against: Option<&Against>) -> Result<(), Failure> {
    if document.figures.iter().all(|figure| figure.median.is_none()) {
        return Err(Failure::Failed("no figure is reliable: too noisy, or none could be measured".into()));
    }
    let Some(allowed) = arguments.fail_if_slower else { return Ok(()) };
    let Some((comparison, before)) = against else {
        let reason =
            if arguments.replace { "--replace compares with no baseline" } else { "there is no saved baseline" };
        return Err(Failure::Failed(format!("not compared: {reason}")));
    };
    let Some(speed) = comparison.speed_one_thread else {
        let day = before.measured.get(..10).unwrap_or(&before.measured);
        return Err(Failure::Failed(format!("no reliable figure in common with the baseline of {day}")));
    };
    if 1.0 - speed <= allowed {
        return Ok(());
    }
    let share = |value: f64| diskwright_base::units::format_value(value, "fraction");
    Err(Failure::Failed(format!("slower than the baseline by {}; the limit is {}", share(1.0 - speed), share(allowed))))
}
