//! `import FILE… --to DIR`: imports logs of other tools into a Diskwright log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use diskwright_base::LogPiece;
use diskwright_base::units::format_count;
use diskwright_datastore::{LogReader, LogWriter, is_log};
use diskwright_ingest::merge::{self, MemberRank, MergeMember, MergeOutput};
use diskwright_ingest::{
    FileFingerprint, GivenLog, ImportOptions, ImportTarget, IngestError, Input, KeptLog, Losses, MemoryBudget,
    ReadingOptions, Reporter, SkipReport, UnreadableLogs,
};
use diskwright_logs::{ReadSummary, Skip, TimeBasis};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::foreign::ForeignOptions;
use super::log::{self, LogWindow};
use super::metric_store::{self, StoreArguments};
use super::topology_options::TopologyOptions;
use super::{Failure, output, time_argument};

/// Arguments of `import`.
#[derive(Args)]
pub struct Arguments {
    /// Logs of any known format (`list formats`), or folders or archives of them; `-` is standard input
    #[arg(required_unless_present = "prometheus", conflicts_with = "prometheus", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// The log to write: a folder, created or appended to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    reading: ForeignOptions,
    #[command(flatten)]
    store: StoreArguments,
    /// Start of the window: 2026-11-21T22:15:00Z, or -10m (before the end); for a store, by default one hour ago
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// End of the window, written like --from; for a store, by default now
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    arrays: TopologyOptions,
    /// Import files again that the log already has
    #[arg(long)]
    again: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `import`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (mut summaries, mut joined_ticks) = (Vec::new(), None);
    let store_name = PathBuf::from("the store");
    if arguments.store.is_given()? {
        LogWindow::for_reading(None, None, arguments.reading.clone(), arguments.arrays.clone()).refuse_log_options()?;
        let window = LogWindow::for_store(arguments.from.clone(), arguments.until.clone())
            .with_option_names("--from", "--until");
        let input = metric_store::new_input(&arguments.store, &window)?;
        check_destination(&arguments.to)?;
        if let Some(summary) = input.import_store(&arguments.to)? {
            if !arguments.json {
                output::print_text(&summary_line(&store_name, &summary))?;
            }
            summaries.push((store_name, summary));
        }
    }
    let stop = install_stop_flag()?;
    let reporter = log::new_reporter();
    let input = Input::from_paths(&arguments.file, &reporter);
    let logs = input.logs()?;
    let existing_range = tick_range(&arguments.to);
    // true if only a part of the ticks is kept, or facts about the machine are added
    let is_changed =
        arguments.from.is_some() || arguments.until.is_some() || !arguments.arrays.describe_machine()?.is_empty();
    match logs {
        [] => {}
        [log] if !is_changed && (existing_range.is_none() || log.has_several_files()) => {
            let fingerprints = fingerprint_new_files(arguments, log)?;
            let import = ImportOptions { stop: &stop, files: &fingerprints };
            let target = ImportTarget { log_folder: &arguments.to, import };
            check_destination(&arguments.to)?;
            let summary = diskwright_ingest::import_log(log, &arguments.reading.reading_options(), &target, &reporter)?;
            report_import(arguments, &log.name, &summary, &reporter)?;
            summaries.push((PathBuf::from(&log.name), summary));
        }
        // the time basis of each log must be known before any is written
        several => {
            let given = (several, &reporter);
            joined_ticks = Some(import_several(arguments, given, &stop, (existing_range, is_changed), &mut summaries)?);
        }
    }
    diskwright_datastore::sync_log(&arguments.to)?;
    if !arguments.json {
        return Ok(());
    }
    output::print_json(&import_document(&summaries, joined_ticks))
}

/// Imports logs of one machine and joins those that overlap in time; each is read separately first. `is_changed` is
/// true if only a part of the ticks is kept, or facts about the machine are added. Returns the number of ticks written.
fn import_several(
    arguments: &Arguments,
    (logs, reporter): (&[GivenLog], &Reporter),
    stop: &AtomicBool,
    (existing_range, is_changed): (Option<(i64, i64)>, bool),
    summaries: &mut Vec<(PathBuf, ReadSummary)>,
) -> Result<u64, Failure> {
    // a file that the log already has ends the import, also one of a bundle
    logs.iter().try_for_each(|log| fingerprint_new_files(arguments, log).map(drop))?;
    let is_stopped = || stop.load(Ordering::Relaxed);
    let reading = (&arguments.reading.reading_options(), UnreadableLogs::Refused);
    let budget = MemoryBudget::from_environment()?;
    let read = diskwright_ingest::read_each_log(logs, reading, (reporter, is_stopped), |log, options| {
        keep_log(arguments, log, stop, (options, reporter, &budget))
    })?;
    let mut members = Vec::new();
    let mut skips = SkipReport::default();
    for (log, kept, summary) in read {
        let name = PathBuf::from(&log.name);
        if !arguments.json {
            skips.add_summary(log, &summary, reporter);
            output::print_text(&summary_line(&name, &summary))?;
        }
        if let Some((stored, range_ns)) = kept {
            members.push(MergeMember {
                name: log.name.clone(),
                stored,
                range_ns,
                time_basis: summary.time_basis,
                format: summary.format,
                rank: MemberRank::of_summary(&summary),
                is_bundled: log.is_bundled,
            });
        }
        summaries.push((name, summary));
    }
    skips.report_skips(reporter);
    let mut is_left_out = merge::find_left_out(&members, reporter)?.into_iter();
    members.retain(|_| !is_left_out.next().unwrap_or(false));
    members.sort_by_key(|member| member.range_ns);
    merge::check_same_host(&members)?;
    if let Some(existing_range) = existing_range {
        members.iter().try_for_each(|member| refuse_other_clock(member, &arguments.to, existing_range))?;
        members.iter().for_each(|member| warn_of_overlap(member, &arguments.to, existing_range));
    }
    if is_changed {
        return keep_window(arguments, members, reporter);
    }
    let mut writer = open_destination(&arguments.to)?;
    let ticks_before = writer.tick_count();
    for group in merge::group_overlapping(members) {
        let output = &mut MergeOutput::Log(&mut writer);
        merge::join_group(group, (i64::MIN, i64::MAX), output, &mut Losses::default(), reporter)?;
    }
    let ticks = writer.tick_count() - ticks_before;
    writer.close()?;
    Ok(ticks)
}

/// Reads one log of another tool, to be joined with others.
fn keep_log(
    arguments: &Arguments,
    log: &GivenLog,
    stop: &AtomicBool,
    (reading, reporter, budget): (&ReadingOptions, &Reporter, &MemoryBudget),
) -> Result<(Option<KeptLog>, ReadSummary), IngestError> {
    let files = &fingerprint_new_files(arguments, log)?;
    diskwright_ingest::keep_log(log, (reading, reporter), ImportOptions { stop, files }, budget)
}

/// Writes the ticks in the window, with the given facts about the machine.
fn keep_window(arguments: &Arguments, members: Vec<MergeMember>, reporter: &Reporter) -> Result<u64, Failure> {
    let (from, until) = (arguments.from.clone(), arguments.until.clone());
    let window =
        LogWindow::for_described_machine(from, until, arguments.arrays.clone()).with_option_names("--from", "--until");
    let logs = window.open_members(members, reporter)?;
    let mut writer = open_destination(&arguments.to)?;
    let ticks_before = writer.tick_count();
    logs.read::<Failure>(|piece| match piece {
        LogPiece::Frame(frame) => Ok(writer.push_frame(frame)?),
        LogPiece::Note(note) => Ok(writer.add_note(&note).map(drop)?),
    })?;
    let ticks = writer.tick_count() - ticks_before;
    writer.close()?;
    Ok(ticks)
}

/// Refuses a destination below /dev, /proc or /sys.
fn check_destination(to: &Path) -> Result<(), Failure> {
    Ok(diskwright_guard::check_new(&to.join("log"))?)
}

/// Opens the log that is written.
fn open_destination(to: &Path) -> Result<LogWriter, Failure> {
    check_destination(to)?;
    Ok(diskwright_ingest::open_writer(to)?)
}

/// First and last tick of the log that is appended to.
fn tick_range(to: &Path) -> Option<(i64, i64)> {
    LogReader::open(to).ok().filter(|_| to.is_dir() && is_log(to))?.time_range().ok()?
}

/// Refuses to append a log without dates to one with dates, and vice versa.
fn refuse_other_clock(member: &MergeMember, to: &Path, existing_range: (i64, i64)) -> Result<(), Failure> {
    let is_dated = |times: TimeBasis| times < TimeBasis::NoDate;
    if is_dated(member.time_basis) == is_dated(TimeBasis::default().with_end(existing_range.1)) {
        return Ok(());
    }
    let (name, to) = (&member.name, to.display());
    let (without, with) =
        if is_dated(member.time_basis) { (to.to_string(), name) } else { (name.clone(), &to.to_string()) };
    let message =
        format!("the times of {without} have no date, but those of {with} have one; import them into two folders");
    Err(Failure::Failed(message))
}

/// Warns that ticks which overlap the existing log are not joined with it.
fn warn_of_overlap(member: &MergeMember, to: &Path, existing_range: (i64, i64)) {
    if member.range_ns.0 >= existing_range.1 || member.range_ns.1 <= existing_range.0 {
        return;
    }
    let (from, until, to, name) = (
        time_argument::rfc3339(existing_range.0),
        time_argument::rfc3339(existing_range.1),
        to.display(),
        &member.name,
    );
    output::print_warning(format_args!(
        "{to} already covers {from} to {until}, and {name} overlaps with it, so shared ticks are judged twice; \
         import all files of that time together into a new folder"
    ));
}

/// Reports what was read from a file, unless JSON was requested.
fn report_import(arguments: &Arguments, name: &str, summary: &ReadSummary, reporter: &Reporter) -> Result<(), Failure> {
    if arguments.json {
        return Ok(());
    }
    diskwright_ingest::report_skipped(name, summary, reporter);
    output::print_text(&summary_line(Path::new(name), summary))
}

/// Returns the fingerprints of the files; refuses those that the log already has.
fn fingerprint_new_files(arguments: &Arguments, log: &GivenLog) -> Result<Vec<FileFingerprint>, IngestError> {
    let mut fingerprints = Vec::new();
    for (path, name) in log.input_files() {
        let Some(fingerprint) = FileFingerprint::from_file(&path, name) else { continue };
        if !arguments.again {
            diskwright_ingest::refuse_repeated_import(&arguments.to, &path, &fingerprint)?;
        }
        fingerprints.push(fingerprint);
    }
    Ok(fingerprints)
}

/// Returns a flag set by the first signal, so that a half-made log is removed; the second signal kills.
fn install_stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn summary_line(file: &Path, summary: &ReadSummary) -> String {
    let ReadSummary { format, series, foreign, ticks, values, gaps, .. } = summary;
    let (from, to) = summary.range.unwrap_or_default();
    let span = format!("{} to {}", time_argument::rfc3339(from), time_argument::rfc3339(to));
    let foreign_text =
        if *foreign == 0 { String::new() } else { format!(" ({foreign} of counters not in the catalogue)") };
    let file = output::escape_name(file.display());
    let [ticks, values, gaps] = [
        format_count(*ticks, "tick", "ticks"),
        format_count(*values, "value", "values"),
        format_count(*gaps, "gap", "gaps"),
    ];
    format!("{file}: {format}, {ticks}, {series} series{foreign_text}, {values}, {gaps}, {span}\n")
}

/// Returns the answer for all files. `joined_ticks` is the number of ticks that joining logs wrote, if any were joined.
fn import_document(summaries: &[(PathBuf, ReadSummary)], joined_ticks: Option<u64>) -> Value {
    let sum = |field: fn(&ReadSummary) -> u64| summaries.iter().map(|(_, s)| field(s)).sum::<u64>();
    let mut formats: Vec<&str> = summaries.iter().map(|(_, s)| s.format).collect();
    formats.dedup();
    let ranges = || summaries.iter().filter_map(|(_, s)| s.range);
    let skipped: Vec<Value> = summaries.iter().flat_map(|(file, s)| skipped_json(file, s)).collect();
    let file = |(file, summary): &(PathBuf, ReadSummary)| {
        let ReadSummary { format, host, ticks, .. } = summary;
        json!({ "file": file, "format": format, "host": host, "ticks": ticks })
    };
    let files: Vec<Value> = summaries.iter().map(file).collect();
    json!({
        "schema": "diskwright.import/1",
        "format": formats.join(", "),
        "series": summaries.iter().map(|(_, s)| s.series).max(),
        "foreign_series": summaries.iter().map(|(_, s)| s.foreign).max(),
        "ticks": joined_ticks.unwrap_or_else(|| sum(|s| s.ticks)),
        "values": sum(|s| s.values),
        "gaps": sum(|s| s.gaps),
        "skipped": skipped,
        "from": ranges().map(|r| r.0).min().map(time_argument::rfc3339),
        "to": ranges().map(|r| r.1).max().map(time_argument::rfc3339),
        "files": files,
    })
}

fn skipped_json(file: &Path, summary: &ReadSummary) -> Vec<Value> {
    let to_json = |skipped: &Skip| {
        let place = format!("{}: {}", file.display(), skipped.context);
        json!({ "where": place, "because": skipped.reason, "times": skipped.count })
    };
    summary.skipped.iter().map(to_json).collect()
}
