//! `watch --no-screen`: alerts of this machine or of logs, one line each, for services and test scripts.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use diskwright_base::capture::MomentCapture;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::{LogPiece, Note};
use diskwright_counters::live::{Clock, SamplerOptions, SystemClock};
use diskwright_dashboard::Alert;
use diskwright_dashboard::alerts::{AlertChange, AlertEvent, rules};
use diskwright_datastore::{LogPosition, LogReader};
use diskwright_diagnosis::Pack;
use diskwright_report::captures;

use super::super::alerts::{AlertMonitor, event_document, event_line};
use super::super::capture::CaptureThread;
use super::super::log::{self, LogWindow, Logs};
use super::super::pacer::Pacer;
use super::super::{Failure, output};
use super::sources::WatchSource;
use crate::commands::live_sampler::live_sampler;

/// Interval between checks for more ticks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Name that stands for any alert.
const ANY_ALERT: &str = "any";

/// Waits for the first tick of a log whose recorder has only just started; false if the time was over before it came.
fn has_ticks(paths: &[PathBuf], may_continue: impl Fn() -> bool) -> Result<bool, Failure> {
    let [path] = paths else { return Ok(true) };
    let mut has_warned = false;
    while path.is_dir() && diskwright_datastore::is_log(path) && LogReader::open(path)?.time_range()?.is_none() {
        if !may_continue() {
            return Ok(false);
        }
        if !std::mem::replace(&mut has_warned, true) {
            output::print_warning(format_args!("{}: waiting for its first tick", path.display()));
        }
        crate::commands::pacer::sleep_interruptibly(POLL_INTERVAL);
    }
    Ok(true)
}

/// Output options, and conditions for the end.
pub struct UnattendedRun {
    /// Alerts whose beginning ends the run with failure; `any` means every alert.
    pub fail_on: Vec<String>,
    /// Print alerts as JSON lines.
    pub json: bool,
    /// Duration; for ever if it is `None`.
    pub duration: Option<Duration>,
    /// An alert was printed.
    pub has_alerts: Cell<bool>,
}

impl UnattendedRun {
    /// Checks that the alerts which end the run exist.
    pub fn check_alert_ids(&self, pack: &Pack) -> Result<(), Failure> {
        let mut ids = self.fail_on.iter().filter(|id| *id != ANY_ALERT);
        let result: Result<(), String> = ids.try_for_each(|id| rules::check_rule_id(pack, id));
        result.map_err(|error| Failure::Usage(format!("--fail-on: {error}")))
    }

    /// Watches this machine.
    pub fn watch_this_machine(
        &self,
        every: Duration,
        mut monitor: AlertMonitor,
        mut captures: Option<CaptureThread>,
    ) -> Result<(), Failure> {
        let mut pacer = Pacer::new(every, self.duration)?;
        let options = SamplerOptions { slow_interval: every.max(Duration::from_secs(10)), ..SamplerOptions::default() };
        let mut sampler = live_sampler(options);
        pacer.reset_start();
        pacer.sample_first_tick(&mut sampler);
        let result = loop {
            sampler.take_notes().iter().for_each(|note| monitor.handle_note(note));
            let events = monitor.handle_tick(sampler.schema(), sampler.tick_stamp(), sampler.row());
            let saved = captures.as_mut().map(|captures| {
                captures.handle_events(&events);
                captures.take_notes()
            });
            let printed = self.print_events(&events, monitor.host());
            if let Err(failure) = printed.and_then(|()| self.print_captures(&saved.unwrap_or_default())) {
                break Err(failure);
            }
            if !pacer.wait_for_tick(|_| {}) || !pacer.sample_tick(&mut sampler) {
                break Ok(());
            }
        };
        let saved = captures.map(CaptureThread::finish).unwrap_or_default();
        monitor.finish_actions();
        // a reader that has gone is told by the first failure
        result.and_then(|()| self.print_captures(&saved))
    }

    /// Prints captures that are complete: in lines, or as JSON in one line.
    fn print_captures(&self, notes: &[Note]) -> Result<(), Failure> {
        for note in notes {
            if self.json {
                output::print_data(format!("{}\n", diskwright_base::text::escape_json(note.text())).as_bytes())?;
                continue;
            }
            let Ok(capture) = serde_json::from_str::<MomentCapture>(note.text()) else { continue };
            let (time, alert) = (format_rfc3339(note.time_ns), &capture.alert);
            output::print_text(&format!("{time} captured for alert {alert}: {}\n", capture.short_text()))?;
            for line in captures::detail_lines(&capture) {
                output::print_text(&format!("  {}\n", output::escape_name(line)))?;
            }
        }
        Ok(())
    }

    /// Watches logs. A log that has ended is read whole, and with `--for` also what a recorder adds meanwhile; of a log
    /// that is being recorded, only ticks from now on are read.
    pub fn watch_logs(&self, paths: &[PathBuf], window: &LogWindow, monitor: AlertMonitor) -> Result<(), Failure> {
        let (pacer, begin) = (Pacer::new(POLL_INTERVAL, self.duration)?, Instant::now());
        let may_continue = || !pacer.is_stopped() && self.duration.is_none_or(|duration| begin.elapsed() < duration);
        if !has_ticks(paths, may_continue)? {
            return Ok(());
        }
        let mut logs = log::open(paths, window)?;
        let mut grows = WatchSource::is_recorded(&logs);
        let now_ns = SystemClock.read_clocks().wall_ns;
        let mut monitor = if grows { monitor.suppress_before(now_ns) } else { monitor }.for_logs(&logs);
        let mut position = LogPosition::default();
        let mut result = self.scan_new_ticks(&logs, (&mut position, logs.range_ns.0), &mut monitor);
        monitor.start_following();
        // without a duration, only a running recorder is waited for
        let waits_for_recorder = self.duration.is_some() && logs.may_grow();
        if waits_for_recorder && !grows && logs.has_ended() {
            monitor.handle_recorder_end();
        }
        while result.is_ok() && (grows || waits_for_recorder) && may_continue() {
            crate::commands::pacer::sleep_interruptibly(POLL_INTERVAL);
            // checked before the log is read: no tick comes after the end
            let has_ended = logs.has_ended();
            let next_ns = logs.range_ns.1.saturating_add(1);
            if logs.refresh_end()? {
                grows = true;
                result = self.scan_new_ticks(&logs, (&mut position, next_ns), &mut monitor);
            } else if has_ended {
                grows = false;
                monitor.handle_recorder_end();
            } else if grows {
                let events = monitor.check_silence(SystemClock.read_clocks().wall_ns);
                result = self.print_events(&events, monitor.host());
            }
        }
        if result.is_ok() && !self.has_alerts.get() {
            let (from, to) = (format_rfc3339(logs.range_ns.0), format_rfc3339(logs.last_ns()));
            output::print_note(format_args!("no alert began in the log between {from} and {to}"));
        }
        if result.is_ok() && !grows && !waits_for_recorder && logs.may_grow() {
            let last = format_rfc3339(logs.last_ns());
            output::print_note(format_args!(
                "the log ended at {last}; --for DURATION waits for a recorder that continues it"
            ));
        }
        monitor.finish_actions();
        result
    }

    /// Scans the ticks after a position, or from a time if there is no position yet.
    fn scan_new_ticks(
        &self,
        logs: &Logs,
        (position, from_ns): (&mut LogPosition, i64),
        monitor: &mut AlertMonitor,
    ) -> Result<(), Failure> {
        *position = logs.read_new((*position, from_ns), |piece| match piece {
            LogPiece::Note(note) => {
                monitor.handle_note(&note);
                Ok(())
            }
            LogPiece::Frame(frame) => {
                let events = monitor.handle_frame(frame);
                let new: Vec<AlertEvent> = events.into_iter().filter(|event| monitor.is_new(event)).collect();
                self.print_events(&new, monitor.host())
            }
        })?;
        Ok(())
    }

    /// Returns why an alert ends the run, if it does.
    fn exit_reason(&self, alert: &Alert) -> Option<String> {
        let is_selected = |id: &String| id == ANY_ALERT || *id == alert.id;
        if self.fail_on.iter().any(is_selected) {
            return Some(format!("alert {} began", alert.id));
        }
        let shared = self.fail_on.iter().find(|id| alert.also.contains(id))?;
        Some(format!("alert {shared} began; it shares alert {}, which has the same cause", alert.id))
    }

    /// Prints events; fails if one of them ends the run.
    fn print_events(&self, events: &[AlertEvent], host: &str) -> Result<(), Failure> {
        for event in events.iter().filter(|event| event.change != AlertChange::Still) {
            self.has_alerts.set(true);
            if !self.json {
                output::print_text(&format!("{} {}\n", format_rfc3339(event.time_ns), event_line(event)))?;
            } else if event.change.notifies_people() {
                let text = event_document(event, host);
                output::print_data(format!("{}\n", diskwright_base::text::escape_json(&text)).as_bytes())?;
            }
            if event.change.is_new()
                && let Some(reason) = self.exit_reason(&event.alert)
            {
                return Err(Failure::Failed(format!("--fail-on: {reason}")));
            }
        }
        Ok(())
    }
}
