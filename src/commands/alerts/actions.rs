//! Actions for an alert, in a separate thread, so that no command and no address delays a tick.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diskwright_base::units::format_count;
use diskwright_dashboard::alerts::AlertEvent;
use diskwright_remote::Webhook;

use super::super::{Failure, output};
use super::{AlertArguments, command, event_document, event_line, syslog};

/// Maximum number of queued events.
const MAX_QUEUED_EVENTS: usize = 64;
/// Maximum number of actions per minute: people who are called a hundred times stop listening.
const MAX_ACTIONS_PER_MINUTE: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// After the end, no action starts later than this: a supervisor kills processes that take too long to stop, and a
/// recorder's log is still open then.
const END_GRACE: Duration = Duration::from_secs(20);

/// An event, and the machine that it is about.
type HostEvent = (AlertEvent, String);

/// The thread that performs the actions.
pub struct AlertActions {
    events: SyncSender<HostEvent>,
    end_time: Arc<OnceLock<Instant>>,
    thread: JoinHandle<()>,
}

impl AlertActions {
    /// Starts the thread; a wrong address is reported at once.
    pub fn start(arguments: &AlertArguments) -> Result<AlertActions, Failure> {
        let webhook = arguments.alert_webhook.as_deref().map(Webhook::new).transpose();
        let webhook = webhook.map_err(|error| Failure::Usage(error.to_string()))?;
        let ended = Arc::new(OnceLock::new());
        let mut actor = AlertActor {
            command: arguments.on_alert.clone(),
            webhook,
            syslog: arguments.alert_syslog,
            end_time: Arc::clone(&ended),
            recent_actions: Vec::new(),
            skipped_events: 0,
        };
        let (events, received) = sync_channel(MAX_QUEUED_EVENTS);
        let thread = std::thread::Builder::new()
            .name("alerts".into())
            .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
            .spawn(move || actor.run(&received))?;
        Ok(AlertActions { events, end_time: ended, thread })
    }

    /// Queues an event. If the queue is full, the event is dropped, which is reported.
    pub fn queue_event(&self, event: &AlertEvent, host: &str) {
        if !event.change.notifies_people() {
            return;
        }
        if let Err(TrySendError::Full(_)) = self.events.try_send((event.clone(), host.to_owned())) {
            output::print_warning(format_args!("the alert actions are too slow; skipped: {}", event_line(event)));
        }
    }

    /// Waits for the current action and for those that start soon.
    pub fn finish_actions(self) {
        let _ = self.end_time.set(Instant::now());
        drop(self.events);
        // each action has its own time limit
        let _ = self.thread.join();
    }
}

struct AlertActor {
    command: Option<String>,
    webhook: Option<Webhook>,
    syslog: bool,
    /// Time at which the thread was asked to end.
    end_time: Arc<OnceLock<Instant>>,
    /// Times of the actions in the last minute.
    recent_actions: Vec<Instant>,
    skipped_events: usize,
}

impl AlertActor {
    fn run(&mut self, events: &Receiver<HostEvent>) {
        loop {
            let (event, host) = match events.recv_timeout(MINUTE) {
                Ok(sent) => sent,
                // skipped events are reported even if no further event comes
                Err(RecvTimeoutError::Timeout) => {
                    self.report_skipped();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if self.syslog
                && let Err(error) = syslog::write_event(&event)
            {
                output::print_warning(format_args!("--alert-syslog: {error}"));
            }
            if self.command.is_none() && self.webhook.is_none() {
                continue;
            }
            if !self.may_act(Instant::now()) {
                continue;
            }
            self.perform_actions(&event, &host);
        }
        self.report_skipped();
    }

    /// Returns true if actions may be performed now: within the rate limit, and not long after the end. Events that
    /// were skipped are reported as soon as actions are performed again.
    fn may_act(&mut self, now: Instant) -> bool {
        self.recent_actions.retain(|done| now.duration_since(*done) < MINUTE);
        let is_too_late = self.end_time.get().is_some_and(|ended| now.duration_since(*ended) >= END_GRACE);
        if is_too_late || self.recent_actions.len() >= MAX_ACTIONS_PER_MINUTE {
            self.skipped_events += 1;
            return false;
        }
        self.report_skipped();
        self.recent_actions.push(now);
        true
    }

    fn report_skipped(&mut self) {
        let count = std::mem::take(&mut self.skipped_events);
        if count > 0 {
            let skipped = format_count(count as u64, "alert event was", "alert events were");
            let grace = END_GRACE.as_secs();
            output::print_warning(format_args!(
                "{skipped} skipped: --on-alert and --alert-webhook act at most {MAX_ACTIONS_PER_MINUTE} times per \
                 minute, and begin nothing {grace} s after the end"
            ));
        }
    }

    fn perform_actions(&self, event: &AlertEvent, host: &str) {
        let json = event_document(event, host);
        if let Some(text) = &self.command
            && let Err(error) = command::run_command(text, event, host, &json)
        {
            output::print_warning(format_args!("--on-alert: {error}"));
        }
        if let Some(webhook) = &self.webhook
            && let Err(error) = webhook.send(&json)
        {
            output::print_warning(format_args!("--alert-webhook: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::tests::sample_event;
    use super::*;

    fn idle_actor() -> AlertActor {
        let (command, ended) = (Some("true".into()), Arc::default());
        AlertActor {
            command,
            webhook: None,
            syslog: false,
            end_time: ended,
            recent_actions: Vec::new(),
            skipped_events: 0,
        }
    }

    #[test]
    fn the_rate_is_limited_and_recovers() {
        let mut actor = idle_actor();
        let start = Instant::now();
        let acted = (0..50).filter(|_| actor.may_act(start)).count();
        assert_eq!((acted, actor.skipped_events), (MAX_ACTIONS_PER_MINUTE, 40));
        assert!(actor.may_act(start + MINUTE));
        assert_eq!(actor.skipped_events, 0);
    }

    #[test]
    fn reports_skipped_events_at_the_end() {
        let mut actor = idle_actor();
        let (events, received) = sync_channel(MAX_QUEUED_EVENTS);
        (0..MAX_ACTIONS_PER_MINUTE + 2).for_each(|_| events.send((sample_event(), String::new())).unwrap());
        drop(events);
        actor.run(&received);
        assert_eq!(actor.skipped_events, 0);
    }

    #[test]
    fn begins_no_action_long_after_the_end() {
        let mut actor = idle_actor();
        let ended = Instant::now();
        actor.end_time.set(ended).unwrap();
        assert!(actor.may_act(ended + END_GRACE / 2), "what waits is still done");
        assert!(!actor.may_act(ended + END_GRACE), "but not for ever");
    }
}
