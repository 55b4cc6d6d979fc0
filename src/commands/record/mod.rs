//! `record DIR`: appends this machine's counters to a log until it is stopped. The sampler's thread never waits for a
//! disk: `log_thread` decouples it from the log, `log_keeper` writes there, `self_protection` asks the kernel to keep
//! the recorder alive when resources run short; `systemd` reports its state to systemd.

pub mod host_settings;
mod log_keeper;
mod log_thread;
mod program_pages;
pub mod self_protection;
mod systemd;
pub mod trace_control;
mod tracing;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use diskwright_base::byte_size::parse_capacity;
use diskwright_base::units::{UnitError, format_count, format_value, parse_duration};
use diskwright_base::{Note, RecordingCost};
use diskwright_counters::live::thread_priority::{PriorityGuard, ThreadRole};
use diskwright_counters::live::{Clock, Sampler, SamplerOptions, SystemClock};
use diskwright_dashboard::alerts::AlertEvent;
use diskwright_datastore::{LogWriter, StoreError, TrimSummary, WriterOptions, find_log_device};
use diskwright_diagnosis::packs;
use diskwright_webview::WebView;
use indicatif::ProgressBar;
use serde::Serialize;

use super::alerts::{AlertArguments, AlertMonitor};
use super::capture::{CaptureArguments, CaptureThread};
use super::databases::DatabaseArguments;
use super::live_volumes::{self, CloudOptions};
use super::metric_feeds::{FeedArguments, Feeds};
use super::own_cost::RecordingMeter;
use super::pacer::{self, Pacer};
use super::serve::{self, PageArguments};
use super::ssh::{HostRecording, SshArguments, record_hosts};
use super::trace::parse_budget;
use super::volume_options::VolumeOptions;
use super::{Failure, damage, first_given_option, output, process_limits};
use crate::commands::live_sampler::protected_sampler;
use crate::memory_reserve;
use host_settings::HostSettingsThread;
use log_keeper::{LogKeeper, LogTotals};
use log_thread::{LogThread, QueueEnd};
use systemd::ServiceManager;
use tracing::TraceThread;

/// Number of ticks without any counter that is told.
const MIN_EMPTY_TICKS: u64 = 3;
/// Time to wait for queued ticks at the end.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Columns of the progress bar that the log's name cannot use.
const BAR_COLUMNS: usize = 52;

/// Arguments of `record`.
#[derive(Args)]
pub struct Arguments {
    /// The log's folder; created if it does not exist, else appended to
    #[arg(required_unless_present_any = ["remote_write", "listen"])]
    dir: Option<PathBuf>,
    /// Sampling interval
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "DURATION")]
    every: Duration,
    /// How long to record; by default until Ctrl-C
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    lasts: Option<Duration>,
    /// Keep at most this much: an age in running time (14d) or a size (4GB); deletes the oldest part first
    /// (repeatable)
    #[arg(long, value_parser = parse_keep, value_name = "AGE|SIZE")]
    keep: Vec<RetentionArgument>,
    /// Sync the log to the device at this interval; a power cut loses at most this much
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    sync: Duration,
    /// Also trace single requests: latency distributions by device and operation, waiting before
    /// the device, order, and the processes behind them; needs root
    #[arg(long)]
    trace: bool,
    /// Maximum share of all processors' time for --trace; above it, tracing is reduced, and the log says so
    #[arg(long, default_value = "1%", value_parser = parse_budget, value_name = "SHARE", requires = "trace")]
    trace_budget: f64,
    #[command(flatten)]
    databases: DatabaseArguments,
    #[command(flatten)]
    volumes: VolumeOptions,
    #[command(flatten)]
    cloud: CloudOptions,
    #[command(flatten)]
    feeding: FeedArguments,
    #[command(flatten)]
    alerts: AlertArguments,
    #[command(flatten)]
    capture: CaptureArguments,
    /// Also serve the log as a web page, like `serve`: a port (on the loopback interface), or ADDRESS:PORT; by default
    /// 127.0.0.1:9190
    #[arg(long, requires = "dir", num_args = 0..=1, default_missing_value = serve::DEFAULT_LISTEN)]
    #[arg(value_name = "ADDRESS")]
    serve: Option<String>,
    #[command(flatten)]
    page: PageArguments,
    #[command(flatten)]
    ssh: SshArguments,
    /// Print what was recorded as JSON at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy)]
enum RetentionArgument {
    Age(Duration),
    Bytes(u64),
}

/// Parses `14d` as an age, `4GB` as a size; `5m` is five minutes, `5M` five mebibytes.
fn parse_keep(text: &str) -> Result<RetentionArgument, UnitError> {
    match parse_duration(text) {
        Ok(age) => Ok(RetentionArgument::Age(age)),
        Err(error @ UnitError::DurationRange(_)) => Err(error),
        Err(_) => parse_capacity(text).map(RetentionArgument::Bytes),
    }
}

/// Refuses options that have no effect without a log or without a page, and wrong addresses.
fn refuse_unused(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.dir.is_none() && !arguments.keep.is_empty() {
        return Err(Failure::Usage("--keep needs a log: record DIR".into()));
    }
    arguments.databases.addresses()?;
    if arguments.dir.is_none() && arguments.capture.is_given() {
        return Err(Failure::Usage("--capture needs a log: record DIR".into()));
    }
    match arguments.page.first_unused_option(arguments.feeding.has_server()).filter(|_| arguments.serve.is_none()) {
        Some(option) => Err(Failure::Usage(format!("{option} needs --serve"))),
        None => Ok(()),
    }
}

/// Returns the options of the log's writer: of several ages or sizes the smallest applies, because each is a maximum.
fn writer_options(sync: Duration, keep: &[RetentionArgument]) -> WriterOptions {
    let mut options = WriterOptions { sync_every: Some(sync), ..WriterOptions::default() };
    for keep in keep {
        match *keep {
            RetentionArgument::Age(age) => {
                options.keep_age = Some(options.keep_age.map_or(age, |known| known.min(age)));
            }
            RetentionArgument::Bytes(bytes) => {
                options.keep_bytes = Some(options.keep_bytes.map_or(bytes, |known| known.min(bytes)));
            }
        }
    }
    options
}

/// Runs `record`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    refuse_unused(arguments)?;
    if arguments.ssh.is_given()? {
        return record_over_ssh(arguments);
    }
    self_protection::return_freed_memory();
    // before anything is started or printed, so that a signal always ends it cleanly
    let mut pacer = Pacer::new(arguments.every, arguments.lasts)?;
    let mut log = arguments.dir.as_deref().map(|dir| ActiveLog::start(dir, arguments)).transpose()?;
    let mut feeds = Feeds::start(&arguments.feeding, arguments.page.host_names())?;
    let mut alerts = alert_monitor(arguments)?;
    live_volumes::prepare(&arguments.volumes, &arguments.cloud)?;
    let mut sampler = protected_sampler(sampler_options(arguments.every));
    attach_databases(arguments, &mut sampler)?;
    let _trace = start_trace(arguments, &mut sampler, log.as_mut())?;
    let _page = serve_page(arguments)?;
    pacer.reset_start();
    let bar = record_progress_bar(arguments.lasts, arguments.dir.as_deref());
    let dir = arguments.dir.as_deref();
    self_protection::protect_process();
    let _first = PriorityGuard::raise_priority(ThreadRole::Pacer);
    let (mut ticks, mut trims) = (0, self_protection::TrimSchedule::default());
    let mut meter = RecordingMeter::start();
    let mut manager = ServiceManager::from_environment();
    let has_begun = pacer.sample_first_tick(&mut sampler);
    manager.notify_ready();
    while has_begun && forward_tick(&mut sampler, log.as_mut(), &mut feeds, alerts.as_mut(), dir)? {
        ticks += 1;
        let meanwhile = |elapsed: Duration| {
            bar.set_position(elapsed.as_secs());
            manager.notify_alive(elapsed);
        };
        if !pacer.wait_for_tick(meanwhile) || !pacer.sample_tick(&mut sampler) {
            break;
        }
        report_shortage(log.as_mut());
        if let Some(cost) = meter.take_due(ticks) {
            log.iter_mut().for_each(|log| log.thread.queue_note(Note::cost(sampler.tick_stamp().time_ns, &cost)));
        }
        if trims.is_trim_due(sampler.row().len()) {
            self_protection::trim_memory();
        }
    }
    manager.notify_stopping();
    alerts.into_iter().for_each(AlertMonitor::finish_actions);
    // at the last tick, so that it is within the log's time
    let end_ns = sampler.tick_stamp().time_ns;
    let missed = pacer.take_missed_text().map(|text| Note::new(end_ns, Note::MISSED, text));
    let last_notes = missed.into_iter().chain([Note::cost(end_ns, &meter.take_cost(ticks))]);
    let ended = log.map(|log| log.end_log(last_notes));
    let sum = ended.as_ref().map_or(LogTotals { ticks, ..LogTotals::default() }, |ended| ended.totals);
    let (fed, fate) = feeds.finish_sending(dir.map(|dir| (dir, sum.lost_ticks)));
    finish_bar(&bar, dir, &sum, (pacer.missed_ticks(), &meter.total()));
    if arguments.json {
        let document = recording_document(&sum, &pacer, sampler.schema().series.len(), &fed, &meter.total());
        output::print_json(&document)?;
    }
    ended.map_or(Ok(()), |ended| ended.result)?;
    warn_if_empty(sum.ticks, &sampler);
    fate
}

/// Records other hosts.
fn record_over_ssh(arguments: &Arguments) -> Result<(), Failure> {
    let of_this_machine = [
        ("--trace", arguments.trace),
        ("--serve", arguments.serve.is_some()),
        ("--capture", arguments.capture.is_given()),
        ("--alerts", arguments.alerts.is_given()),
        ("--listen or --remote-write", arguments.feeding.is_given()),
        ("--postgres or --mysql", arguments.databases.first_given_option().is_some()),
        ("--cloud", arguments.cloud.is_given()),
        ("--volume-type or --instance-type", arguments.volumes.first_given_option().is_some()),
    ];
    if let Some(option) = first_given_option(&of_this_machine) {
        return Err(Failure::Usage(format!("{option} is for this machine, and --ssh records others")));
    }
    let Some(dir) = &arguments.dir else { return Err(Failure::Usage("--ssh needs a folder: record DIR".into())) };
    record_hosts(&HostRecording {
        ssh: &arguments.ssh,
        dir,
        every: arguments.every,
        lasts: arguments.lasts,
        writer: writer_options(arguments.sync, &arguments.keep),
        as_json: arguments.json,
    })
}

/// What was recorded, as JSON.
fn recording_document(
    sum: &LogTotals,
    pacer: &Pacer,
    series: usize,
    fed: &impl Serialize,
    cost: &RecordingCost,
) -> serde_json::Value {
    serde_json::json!({
        "schema": "diskwright.record/1",
        "ticks": sum.ticks,
        "ticks_lost": sum.lost_ticks,
        "ticks_late": pacer.late_ticks(),
        "ticks_missed": pacer.missed_ticks(),
        "ticks_removed": sum.removed_ticks,
        "series": series,
        "elapsed_s": pacer.elapsed().as_secs_f64(),
        "cost": cost,
        "remote_write": fed,
        "trimmed": damage::trimmed_json(sum.trimmed),
    })
}

/// Starts the threads that ask databases.
fn attach_databases(arguments: &Arguments, sampler: &mut Sampler) -> Result<(), Failure> {
    let columns = arguments.databases.start(arguments.every, slow_interval(arguments.every))?;
    columns.into_iter().for_each(|columns| sampler.attach_columns(columns));
    Ok(())
}

/// Interval of the costly work, and of notes on activity.
fn slow_interval(every: Duration) -> Duration {
    every.max(Duration::from_secs(10))
}

/// Options of a sampler with ticks of this length.
fn sampler_options(every: Duration) -> SamplerOptions {
    SamplerOptions { slow_interval: slow_interval(every), raises_priority: true, ..SamplerOptions::default() }
}

/// Warns of a recording without any counter. One that is stopped at once has read nothing yet.
fn warn_if_empty(ticks: u64, sampler: &Sampler) {
    if ticks >= MIN_EMPTY_TICKS && sampler.schema().series.is_empty() {
        let limit = process_limits::describe_open_files().map_or(String::new(), |limit| format!("; {limit}"));
        output::print_warning(format_args!("no counter of this machine could be read: all ticks are empty{limit}"));
    }
}

/// Starts the thread that traces. Without it, nothing is recorded less unless tracing was requested.
fn start_trace(
    arguments: &Arguments,
    sampler: &mut Sampler,
    log: Option<&mut ActiveLog>,
) -> Result<Option<TraceThread>, Failure> {
    let budget = arguments.trace.then_some(arguments.trace_budget);
    match TraceThread::start(arguments.dir.clone(), budget) {
        Ok((trace, columns)) => {
            sampler.attach_columns(columns);
            Ok(Some(trace))
        }
        Err(error) if budget.is_some() => Err(error.into()),
        Err(error) => {
            let note = lack_note("`trace on`", &error);
            log.into_iter().for_each(|log| log.thread.queue_note(note.clone()));
            Ok(None)
        }
    }
}

/// Says that memory is short, once the reserve is in use.
fn report_shortage(log: Option<&mut ActiveLog>) {
    if memory_reserve::take_shortage() {
        let text = "memory is short: the reserve of this process is in use";
        output::print_warning(text);
        let note = Note::new(SystemClock.read_clocks().wall_ns, Note::WARNING, text);
        log.into_iter().for_each(|log| log.thread.queue_note(note.clone()));
    }
}

/// Clears the bar. On a terminal, a line replaces it, because the bar leaves no trace of what was recorded.
fn finish_bar(bar: &ProgressBar, dir: Option<&Path>, sum: &LogTotals, (missed, cost): (u64, &RecordingCost)) {
    bar.finish_and_clear();
    if let Some(TrimSummary { segments, ticks, bytes, .. }) = sum.trimmed {
        let place = format!("in {} ({bytes} bytes)", format_count(segments, "segment", "segments"));
        let removed = format_count(ticks, &format!("older tick {place} was"), &format!("older ticks {place} were"));
        output::print_warning(format_args!("{removed} removed by --keep"));
    }
    if let (Some(dir), true) = (dir, io::stderr().is_terminal()) {
        let (dir, LogTotals { ticks, lost_ticks: lost, .. }) = (dir.display(), sum);
        let ticks = format_count(*ticks, "tick", "ticks");
        let missed = if missed > 0 { format!(", missed {missed}") } else { String::new() };
        let removed = match sum.removed_ticks {
            0 => String::new(),
            removed => format!("; {removed} of the log went with removed or moved files"),
        };
        let cost = cost.processor_share().map_or(String::new(), |share| {
            let memory =
                cost.resident_bytes.map_or(String::new(), |bytes| format!(", {}", format_value(bytes, "bytes")));
            format!("; it cost {} of a processor{memory}", format_value(share, "fraction"))
        });
        output::print_note(format_args!(
            "{dir}: recorded {ticks}, lost {lost}{missed}{removed}{cost}; next: diskwright why {dir}"
        ));
    }
}

/// Serves the page of the log, if requested.
fn serve_page(arguments: &Arguments) -> Result<Option<WebView>, Failure> {
    let Some((listen, dir)) = arguments.serve.as_ref().zip(arguments.dir.as_ref()) else { return Ok(None) };
    let has_alerts = arguments.alerts.is_given();
    serve::serve_recording(listen, &arguments.page, (dir, arguments.every), has_alerts).map(Some)
}

/// Passes on the sampler's last tick and its notes; false if the log's thread has failed.
fn forward_tick(
    sampler: &mut Sampler,
    log: Option<&mut ActiveLog>,
    feeds: &mut Feeds,
    alerts: Option<&mut AlertMonitor>,
    dir: Option<&Path>,
) -> Result<bool, Failure> {
    let notes = sampler.take_notes();
    for note in &notes {
        feeds.handle_note(note)?;
    }
    feeds.publish_tick(sampler, dir);
    let raised = alerts.map(|alerts| {
        notes.iter().for_each(|note| alerts.handle_note(note));
        alerts.handle_tick(sampler.schema(), sampler.tick_stamp(), sampler.row())
    });
    let Some(log) = log else { return Ok(true) };
    let facts: Vec<Note> = log.facts.iter().flat_map(HostSettingsThread::take_notes).collect();
    facts.into_iter().chain(notes).for_each(|note| log.thread.queue_note(note));
    let goes_on = log.thread.queue_tick(sampler.schema(), sampler.tick_stamp(), sampler.row());
    let raised = raised.unwrap_or_default();
    raised.iter().for_each(|event| log.thread.queue_note(event.to_log_note()));
    log.handle_captures(&raised);
    Ok(goes_on)
}

/// Returns the alert monitor of a recording, if requested. The default pack names culprits.
fn alert_monitor(arguments: &Arguments) -> Result<Option<AlertMonitor>, Failure> {
    if !arguments.alerts.is_given() && !arguments.capture.is_given() {
        return Ok(None);
    }
    let verdict_pack =
        packs::builtin_pack("default").ok_or_else(|| Failure::Failed("there is no default pack".into()))??;
    AlertMonitor::new(&arguments.alerts, verdict_pack).map(Some)
}

/// Warns of something that the recorder goes on without, and returns the note about it.
fn lack_note(what: &str, error: &io::Error) -> Note {
    let text = format!("recorded without {what}: {error}");
    output::print_warning(&text);
    Note::new(SystemClock.read_clocks().wall_ns, Note::UNSEEN, text)
}

/// A log that is being written.
struct ActiveLog {
    dir: PathBuf,
    thread: LogThread<StoreError>,
    /// `None` where no thread could be started for it.
    facts: Option<HostSettingsThread>,
    /// `None` where no captures are requested, or no thread could be started for them.
    captures: Option<CaptureThread>,
    totals: Arc<Mutex<LogTotals>>,
}

/// A log that was ended.
struct FinishedLog {
    totals: LogTotals,
    result: Result<(), Failure>,
}

impl ActiveLog {
    fn start(dir: &Path, arguments: &Arguments) -> Result<ActiveLog, Failure> {
        let options = writer_options(arguments.sync, &arguments.keep);
        diskwright_guard::check_new(&dir.join("log"))?;
        let (keeper, sum) = LogKeeper::new(LogWriter::create_or_append(dir, options)?);
        let thread =
            LogThread::start(log_thread::MAX_QUEUED_BYTES, keeper, LogKeeper::write_entry, LogKeeper::close_log);
        let mut thread =
            thread.map_err(|e| Failure::Failed(format!("the thread that writes the log cannot start: {e}")))?;
        warn_of_own_disk(dir)?.into_iter().for_each(|note| thread.queue_note(note));
        let facts = HostSettingsThread::start();
        let lack = facts.as_ref().err().map(|error| lack_note("settings of this host", error));
        lack.into_iter().for_each(|note| thread.queue_note(note));
        let captures = CaptureThread::start_if_given(&arguments.capture);
        let lack = captures.as_ref().err().map(|error| lack_note("captures", error));
        lack.into_iter().for_each(|note| thread.queue_note(note));
        let captures = captures.unwrap_or_default();
        Ok(ActiveLog { dir: dir.to_owned(), thread, facts: facts.ok(), captures, totals: sum })
    }

    /// Begins a capture where an alert began, and writes what is complete.
    fn handle_captures(&mut self, events: &[AlertEvent]) {
        let Some(captures) = &mut self.captures else { return };
        captures.handle_events(events);
        captures.take_notes().into_iter().for_each(|note| self.thread.queue_note(note));
    }

    /// Waits until everything is written, but not for ever.
    fn end_log(mut self, last_notes: impl Iterator<Item = Note>) -> FinishedLog {
        last_notes.for_each(|note| self.thread.queue_note(note));
        let captures = self.captures.take().map(CaptureThread::finish).unwrap_or_default();
        captures.into_iter().for_each(|note| self.thread.queue_note(note));
        let facts = self.facts.iter().flat_map(HostSettingsThread::take_notes);
        facts.for_each(|note| self.thread.queue_note(note));
        let unqueued = self.thread.lost_ticks;
        let dir = self.dir.display();
        let end = self.thread.end_thread(QUEUE_TIMEOUT, |ticks| {
            let timeout_s = QUEUE_TIMEOUT.as_secs();
            // with nothing queued, the disk still has to finish the end of the log
            let unwritten = match ticks {
                0 => String::new(),
                _ => format!("; {} not yet written", format_tick_count(ticks)),
            };
            output::print_warning(format_args!("{dir}: waiting up to {timeout_s} s for its disk{unwritten}"));
        });
        let mut sum = *self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        sum.lost_ticks += unqueued;
        let result = match end {
            QueueEnd::Written => Ok(()),
            QueueEnd::Failed(error) => Err(error.into()),
            QueueEnd::Stuck(ticks) => {
                sum.lost_ticks += ticks;
                let ticks = if ticks == 0 { "no ticks are".to_owned() } else { format_tick_count(ticks) };
                Err(Failure::Failed(format!(
                    "{dir}: its disk does not respond; at the end {ticks} lost (the kernel may keep this process \
                     until the disk responds)"
                )))
            }
        };
        FinishedLog { totals: sum, result }
    }
}

fn format_tick_count(ticks: u64) -> String {
    format_count(ticks, "tick is", "ticks are")
}

/// Shortens a path to its end, which says more than its beginning, in this many columns.
fn last_columns(path: &str, columns: usize) -> String {
    let letters: Vec<char> = path.chars().collect();
    let width = |from: usize| diskwright_report::text::display_width(&letters[from..].iter().collect::<String>());
    match (0..=letters.len()).find(|from| width(*from) + usize::from(*from > 0) * 3 <= columns) {
        Some(0) => path.to_owned(),
        from => format!("...{}", letters[from.unwrap_or(letters.len())..].iter().collect::<String>()),
    }
}

/// Warns if the log is on a disk that it measures, because it then measures its own writes (NT Resource Kit, Disk
/// Testing Tips). The warning goes to standard error and into the log.
fn warn_of_own_disk(dir: &Path) -> Result<Option<Note>, Failure> {
    let (major, minor) = find_log_device(dir)?;
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let Some(device) = link.ok().and_then(|l| l.file_name().map(|n| n.to_string_lossy().into_owned())) else {
        return Ok(None);
    };
    let text = format!("the log is on {device}, which is being measured, so the figures include the log's own writes");
    output::print_warning(&text);
    Ok(Some(Note::new(SystemClock.read_clocks().wall_ns, Note::WARNING, text)))
}

fn record_progress_bar(duration: Option<Duration>, dir: Option<&Path>) -> ProgressBar {
    // a bar of two lines would leave one of them behind
    let max_columns = usize::from(console::Term::stderr().size().1).saturating_sub(BAR_COLUMNS);
    let destination =
        dir.map_or_else(String::new, |dir| format!(" to {}", last_columns(&dir.display().to_string(), max_columns)));
    let message = format!("recording{destination}; press Ctrl-C to stop");
    pacer::watch_progress_bar(duration, message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{RetentionArgument, last_columns, writer_options};

    #[test]
    fn smallest_of_several_limits_applies() {
        let day = |days: u64| Duration::from_secs(days * 86_400);
        let (age, bytes) = (RetentionArgument::Age, RetentionArgument::Bytes);
        for keep in [[age(day(7)), age(day(14)), bytes(4), bytes(2)], [bytes(2), age(day(14)), bytes(4), age(day(7))]] {
            let options = writer_options(day(1), &keep);
            assert_eq!((options.keep_age, options.keep_bytes), (Some(day(7)), Some(2)));
        }
    }

    #[test]
    fn shows_the_end_of_a_long_path() {
        assert_eq!(last_columns("/srv/log", 8), "/srv/log");
        assert_eq!(last_columns("/srv/customers/17/log", 10), ".../17/log");
        assert_eq!(last_columns("/srv/\u{6f22}\u{5b57}", 7), "...\u{6f22}\u{5b57}");
        assert_eq!(last_columns("/srv/log", 0), "...");
        assert_eq!(last_columns("", 0), "");
    }
}
