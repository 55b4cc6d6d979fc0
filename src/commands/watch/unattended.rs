//! `watch --no-screen`: alerts of this machine or of logs, one line each, for services and test scripts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use diskwright_base::LogPiece;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_counters::live::{Clock, Roots, Sampler, SamplerOptions, SystemClock};
use diskwright_dashboard::Alert;
use diskwright_dashboard::alerts::{AlertChange, AlertEvent, rules};
use diskwright_datastore::{LogPosition, LogReader};
use diskwright_diagnosis::Pack;

use super::super::alerts::{AlertDesk, document, line};
use super::super::live::Pacer;
use super::super::log::{LogWindow, Logs};
use super::super::{Failure, output};
use super::sources::WatchSource;

/// Interval between checks for more ticks.
const NAP: Duration = Duration::from_millis(200);
/// Name that stands for any alert.
const ANY: &str = "any";

/// Waits for the first tick of a log whose recorder has only just started; false if the time was over before.
fn has_ticks(paths: &[PathBuf], goes_on: impl Fn() -> bool) -> Result<bool, Failure> {
    let [path] = paths else { return Ok(true) };
    let mut is_told = false;
    while path.is_dir() && diskwright_datastore::is_log(path) && LogReader::open(path)?.time_range()?.is_none() {
        if !goes_on() {
            return Ok(false);
        }
        if !std::mem::replace(&mut is_told, true) {
            output::warn(format_args!("{}: waiting for its first tick", path.display()));
        }
        crate::commands::live::nap(NAP);
    }
    Ok(true)
}

/// Output options, and conditions for the end.
pub struct UnattendedRun {
    /// Alerts whose beginning ends the run with failure; `any` is each.
    pub fail_on: Vec<String>,
    /// Print alerts as JSON lines.
    pub json: bool,
    /// Duration; for ever if it is `None`.
    pub lasts: Option<Duration>,
}

impl UnattendedRun {
    /// Checks that the alerts which end the run exist.
    pub fn check(&self, pack: &Pack) -> Result<(), Failure> {
        let mut ids = self.fail_on.iter().filter(|id| *id != ANY);
        let known: Result<(), String> = ids.try_for_each(|id| rules::check_rule_id(pack, id));
        known.map_err(|error| Failure::Usage(format!("--fail-on: {error}")))
    }

    /// Watches this machine.
    pub fn live(&self, every: Duration, mut desk: AlertDesk) -> Result<(), Failure> {
        let mut pacer = Pacer::new(every, self.lasts)?;
        let options = SamplerOptions { slow_interval: every.max(Duration::from_secs(10)), ..SamplerOptions::default() };
        let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), options);
        pacer.begin();
        sampler.tick();
        let end = loop {
            sampler.take_notes().iter().for_each(|note| desk.note(note));
            let events = desk.tick(sampler.schema(), sampler.tick_stamp(), sampler.row());
            if let Err(failure) = self.print(&events, desk.host()) {
                break Err(failure);
            }
            if !pacer.wait(|_| {}) {
                break Ok(());
            }
            pacer.tick(&mut sampler);
        };
        desk.end();
        end
    }

    /// Watches logs: all of one that has ended, and with `--for` what a recorder adds to it meanwhile; of one that is
    /// being recorded, ticks from now on.
    pub fn logged(&self, paths: &[PathBuf], window: &LogWindow, desk: AlertDesk) -> Result<(), Failure> {
        let (pacer, begin) = (Pacer::new(NAP, self.lasts)?, Instant::now());
        let goes_on = || !pacer.is_stopped() && self.lasts.is_none_or(|lasts| begin.elapsed() < lasts);
        if !has_ticks(paths, goes_on)? {
            return Ok(());
        }
        let mut logs = Logs::open(paths, window)?;
        let mut grows = WatchSource::is_recorded(&logs);
        let now_ns = SystemClock.read_clocks().wall_ns;
        let mut desk = if grows { desk.act_from(now_ns) } else { desk }.for_logs(&logs);
        let mut position = LogPosition::default();
        let mut end = self.scan(&logs, (&mut position, logs.range.0), &mut desk);
        desk.begin_to_follow();
        // without a duration, only a running recorder is waited for
        let waits = self.lasts.is_some() && logs.may_grow();
        if waits && !grows && logs.has_ended() {
            desk.recorder_ended();
        }
        while end.is_ok() && (grows || waits) && goes_on() {
            crate::commands::live::nap(NAP);
            // checked before the log is read: no tick comes after the end
            let has_ended = logs.has_ended();
            let behind_ns = logs.range.1.saturating_add(1);
            if logs.grow()? {
                grows = true;
                end = self.scan(&logs, (&mut position, behind_ns), &mut desk);
            } else if has_ended {
                grows = false;
                desk.recorder_ended();
            } else if grows {
                let events = desk.clock(SystemClock.read_clocks().wall_ns);
                end = self.print(&events, desk.host());
            }
        }
        if end.is_ok() && !grows && !waits && logs.may_grow() {
            let last = format_rfc3339(logs.last_ns());
            output::note(format_args!(
                "the log ended at {last}; --for DURATION waits for a recorder that continues it"
            ));
        }
        desk.end();
        end
    }

    /// Reads on from a position, or from a time if there is none.
    fn scan(
        &self,
        logs: &Logs,
        (position, from_ns): (&mut LogPosition, i64),
        desk: &mut AlertDesk,
    ) -> Result<(), Failure> {
        *position = logs.follow((*position, from_ns), |piece| match piece {
            LogPiece::Note(note) => {
                desk.note(&note);
                Ok(())
            }
            LogPiece::Frame(frame) => {
                let events = desk.frame(frame);
                let new: Vec<AlertEvent> = events.into_iter().filter(|event| desk.is_new(event)).collect();
                self.print(&new, desk.host())
            }
        })?;
        Ok(())
    }

    /// Returns why an alert ends the run, if it does.
    fn failure(&self, alert: &Alert) -> Option<String> {
        let named = |id: &String| id == ANY || *id == alert.id;
        if self.fail_on.iter().any(named) {
            return Some(format!("alert {} began", alert.id));
        }
        let shared = self.fail_on.iter().find(|id| alert.also.contains(id))?;
        Some(format!("alert {shared} began; it shares alert {}, which has the same cause", alert.id))
    }

    /// Prints events; fails if one of them ends the run.
    fn print(&self, events: &[AlertEvent], host: &str) -> Result<(), Failure> {
        for event in events.iter().filter(|event| event.change != AlertChange::Still) {
            if !self.json {
                output::text(&format!("{} {}\n", format_rfc3339(event.time_ns), line(event)))?;
            } else if event.change.notifies_people() {
                let text = document(event, host);
                output::data(format!("{}\n", diskwright_base::text::escape_json(&text)).as_bytes())?;
            }
            if event.change.is_new()
                && let Some(reason) = self.failure(&event.alert)
            {
                return Err(Failure::Failed(format!("--fail-on: {reason}")));
            }
        }
        Ok(())
    }
}
