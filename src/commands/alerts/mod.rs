//! Alerts for `watch` and `record`: the rules that are watched, and the recipients. The engine is in the crate
//! `dashboard`; actions, messages and system log entries are here.

mod actions;
mod command;
mod syslog;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskwright_base::{Frame, Note, Schema, Tick};
use diskwright_dashboard::alerts::{AlertChange, AlertEngine, AlertEvent, rules};
use diskwright_diagnosis::Pack;
use diskwright_report::identity::culprit_summary;

use super::log::Logs;
use super::{Failure, ceilings, local_host_name, output};
use actions::AlertActions;

/// Largest width of what a message says of a culprit, in characters.
const MAX_CULPRIT_COLUMNS: usize = 120;

/// Selection of alerts and their recipients.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Alerts")]
pub struct AlertArguments {
    /// Raise alerts: the built-in ones and your own from a file, by default ~/.config/diskwright/alerts.toml, if it
    /// exists
    #[arg(long, value_name = "FILE.toml", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option, reason = "the option may stand alone")]
    alerts: Option<Option<PathBuf>>,
    /// Leave an alert out, by its id (repeatable)
    #[arg(long, value_name = "ID")]
    no_alert: Vec<String>,
    /// Run a command when an alert begins, gets worse or ends: `sh -c COMMAND` with DISKWRIGHT_* variables, and the
    /// alert as JSON on standard input
    #[arg(long, value_name = "COMMAND")]
    on_alert: Option<String>,
    /// Send the alert as JSON to this address (HTTP POST) when it begins, gets worse or ends
    #[arg(long, value_name = "URL")]
    alert_webhook: Option<String>,
    /// Write to the system log (syslog or journal) when an alert begins, gets worse or ends
    #[arg(long)]
    alert_syslog: bool,
}

impl AlertArguments {
    /// Loads the rules that are watched.
    pub fn load_alert_pack(&self) -> Result<Pack, Failure> {
        let file = self.alerts.clone().flatten().or_else(|| super::find_user_config_file("alerts.toml"));
        let mut pack = match file {
            Some(path) => {
                let name = path.display().to_string();
                let text = super::read_description(&path)?;
                rules::builtin_with_own(&name, &text).map_err(|problems| Failure::Usage(problems.to_string()))?
            }
            None => rules::builtin_alerts(),
        };
        rules::remove_rules(&mut pack, &self.no_alert).map_err(|e| Failure::Usage(format!("--no-alert: {e}")))?;
        Ok(pack)
    }

    /// True if any option requests alerts.
    pub fn is_given(&self) -> bool {
        self.alerts.is_some() || !self.no_alert.is_empty() || self.has_actions()
    }

    /// True if an alert has any action.
    fn has_actions(&self) -> bool {
        self.on_alert.is_some() || self.alert_webhook.is_some() || self.alert_syslog
    }
}

/// Watches ticks for alerts and notifies the recipients.
pub struct AlertMonitor {
    engine: AlertEngine,
    actions: Option<AlertActions>,
    /// Alerts before this time have no actions.
    acts_from_ns: i64,
    /// True once the existing part of the log has been read.
    is_following: bool,
    /// Time of the last tick.
    last_ns: Option<i64>,
    /// Name of the watched machine.
    host: String,
    frame: Option<Frame>,
}

impl AlertMonitor {
    /// Creates a monitor with the requested actions. `verdict_pack` judges the ticks, so that alerts can name culprits.
    pub fn new(arguments: &AlertArguments, verdict_pack: Pack) -> Result<AlertMonitor, Failure> {
        let engine = AlertEngine::new(arguments.load_alert_pack()?, verdict_pack, ceilings::known_ceilings().to_vec());
        let actions = arguments.has_actions().then(|| AlertActions::start(arguments)).transpose()?;
        Ok(AlertMonitor::from_engine(engine, actions))
    }

    /// Creates a monitor without actions.
    #[cfg(test)]
    pub fn from_packs(pack: Pack, verdict_pack: Pack) -> AlertMonitor {
        let engine = AlertEngine::new(pack, verdict_pack, Vec::new());
        AlertMonitor::from_engine(engine, None)
    }

    fn from_engine(engine: AlertEngine, actions: Option<AlertActions>) -> AlertMonitor {
        let (acts_from_ns, host) = (i64::MIN, local_host_name());
        AlertMonitor { engine, actions, acts_from_ns, is_following: false, last_ns: None, host, frame: None }
    }

    /// Suppresses actions for alerts before a time, which are history.
    pub fn suppress_before(mut self, time_ns: i64) -> AlertMonitor {
        self.acts_from_ns = time_ns;
        self
    }

    /// Treats all further ticks as new: if the clock is set back, so is the time from which actions are performed.
    pub fn start_following(&mut self) {
        self.is_following = true;
    }

    /// True if an event is new and its actions must be performed.
    pub fn is_new(&self, event: &AlertEvent) -> bool {
        event.time_ns >= self.acts_from_ns
    }

    fn track_clock(&mut self, frame: &Frame) {
        for tick in frame.ticks() {
            if self.is_following && self.last_ns.is_some_and(|last| tick.time_ns < last) {
                self.acts_from_ns = self.acts_from_ns.min(tick.start_ns());
            }
            self.last_ns = Some(tick.time_ns);
        }
    }

    /// Adapts the monitor to logs: only a Diskwright recorder is known to record without gaps.
    pub fn for_logs(mut self, logs: &Logs) -> AlertMonitor {
        if !logs.can_grow() {
            self.engine.expect_pauses();
        }
        self.host = logs.host_name();
        self
    }

    /// Name of the watched machine; empty for logs that do not name theirs.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Handles a note, before its tick.
    pub fn handle_note(&mut self, note: &Note) {
        self.engine.add_note(note);
    }

    /// Handles a tick; returns changes of alerts.
    pub fn handle_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Vec<AlertEvent> {
        let frame = self.frame.get_or_insert_with(|| Frame::new(Arc::clone(schema), 1));
        if Arc::ptr_eq(frame.schema(), schema) {
            frame.clear();
        } else {
            frame.reset(Arc::clone(schema), 1);
        }
        frame.push(tick, row);
        let events = self.engine.add_tick(frame, 0);
        self.queue_actions(&events);
        events
    }

    /// Handles all ticks of a frame; returns changes of alerts.
    pub fn handle_frame(&mut self, frame: &Frame) -> Vec<AlertEvent> {
        self.track_clock(frame);
        let mut events = Vec::new();
        self.engine.add_frame(frame, &mut |event| events.push(event));
        self.queue_actions(&events);
        events
    }

    /// Notes that the recorder exited cleanly, so it is not silent until another one continues the log.
    pub fn handle_recorder_end(&mut self) {
        self.engine.recorder_ended();
    }

    /// Checks for silence while no tick comes.
    pub fn check_silence(&mut self, now_ns: i64) -> Vec<AlertEvent> {
        let events = self.engine.check_clock(now_ns);
        self.queue_actions(&events);
        events
    }

    fn queue_actions(&self, events: &[AlertEvent]) {
        if let Some(actions) = &self.actions {
            let new = events.iter().filter(|event| self.is_new(event));
            new.for_each(|event| actions.queue_event(event, &self.host));
        }
    }

    /// Waits for running actions, but not for long.
    pub fn finish_actions(self) {
        if let Some(actions) = self.actions {
            actions.finish_actions();
        }
    }
}

/// Name of an alert's change, for other programs.
fn change_name(change: AlertChange) -> &'static str {
    match change {
        AlertChange::End => "end",
        AlertChange::Worse => "worse",
        AlertChange::Begin | AlertChange::Also | AlertChange::Still => "begin",
    }
}

/// Formats `diskwright.alert/1` for other programs: the alert, its change and its machine.
pub fn event_document(event: &AlertEvent, host: &str) -> String {
    let mut value = serde_json::json!(event.alert);
    value["state"] = change_name(event.change).into();
    value["host"] = host.into();
    value.to_string()
}

/// Formats an alert in one line.
pub fn event_line(event: &AlertEvent) -> String {
    let alert = &event.alert;
    let change = match event.change {
        AlertChange::Begin => "begins",
        AlertChange::Also => "has another symptom",
        AlertChange::Worse => "gets worse",
        AlertChange::Still => "lasts",
        AlertChange::End => "ended",
    };
    let instance = if alert.instance.is_empty() { String::new() } else { format!(" {}", alert.instance) };
    let culprits = alert
        .culprits
        .first()
        .map_or_else(String::new, |culprit| format!(" Culprit: {}.", culprit_summary(culprit, MAX_CULPRIT_COLUMNS)));
    let next_step = if alert.next_step.is_empty() { String::new() } else { format!(" Next: {}", alert.next_step) };
    let event_text = match event.change {
        AlertChange::End => format!("it began at {}", alert.begin),
        AlertChange::Also => alert.also.last().cloned().unwrap_or_default(),
        AlertChange::Worse => {
            format!("{}: {}{culprits}{next_step}", alert.also.last().unwrap_or(&alert.id), alert.sentence)
        }
        AlertChange::Begin | AlertChange::Still => format!("{}{culprits}{next_step}", alert.sentence),
    };
    output::escape_name(format!("alert {}{instance} {change}: {event_text}", alert.id))
}
