//! Actions for an alert, in a separate thread, so that no command and no address delays a tick.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diskwright_base::units::format_count;
use diskwright_dashboard::alerts::AlertEvent;
use diskwright_remote::Webhook;

use super::super::{Failure, output};
use super::{AlertArguments, command, document, line, syslog};

/// Maximum number of queued events.
const WAITING: usize = 64;
/// Maximum number of actions per minute: people who are called a hundred times stop listening.
const MOST_A_MINUTE: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// After the end, no action starts later than this: a supervisor kills processes that take too long to stop, and a
/// recorder's log is still open then.
const GRACE: Duration = Duration::from_secs(20);

/// An event, and the machine that it is about.
type HostEvent = (AlertEvent, String);

/// The thread that performs the actions.
pub struct AlertActions {
    events: SyncSender<HostEvent>,
    ended: Arc<OnceLock<Instant>>,
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
            ended: Arc::clone(&ended),
            done: Vec::new(),
            left_out: 0,
        };
        let (events, received) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("alerts".into()).spawn(move || actor.run(&received))?;
        Ok(AlertActions { events, ended, thread })
    }

    /// Queues an event. If the queue is full, the event is dropped, which is reported.
    pub fn send(&self, event: &AlertEvent, host: &str) {
        if !event.change.notifies_people() {
            return;
        }
        if let Err(TrySendError::Full(_)) = self.events.try_send((event.clone(), host.to_owned())) {
            output::warn(format_args!("the alert actions are too slow; skipped: {}", line(event)));
        }
    }

    /// Waits for the current action and for those that start soon.
    pub fn end(self) {
        let _ = self.ended.set(Instant::now());
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
    ended: Arc<OnceLock<Instant>>,
    /// Times of the actions in the last minute.
    done: Vec<Instant>,
    left_out: usize,
}

impl AlertActor {
    fn run(&mut self, events: &Receiver<HostEvent>) {
        loop {
            let (event, host) = match events.recv_timeout(MINUTE) {
                Ok(sent) => sent,
                // skipped events are reported even if no further event comes
                Err(RecvTimeoutError::Timeout) => {
                    self.tell_left_out();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if self.syslog
                && let Err(error) = syslog::write(&event)
            {
                output::warn(format_args!("--alert-syslog: {error}"));
            }
            if self.command.is_none() && self.webhook.is_none() {
                continue;
            }
            if !self.may_act(Instant::now()) {
                continue;
            }
            self.act(&event, &host);
        }
        self.tell_left_out();
    }

    /// Applies the rate limit; skipped events are reported once it is over.
    fn may_act(&mut self, now: Instant) -> bool {
        self.done.retain(|done| now.duration_since(*done) < MINUTE);
        let is_over = self.ended.get().is_some_and(|ended| now.duration_since(*ended) >= GRACE);
        if is_over || self.done.len() >= MOST_A_MINUTE {
            self.left_out += 1;
            return false;
        }
        self.tell_left_out();
        self.done.push(now);
        true
    }

    fn tell_left_out(&mut self) {
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            let skipped = format_count(count as u64, "alert event was", "alert events were");
            let grace = GRACE.as_secs();
            output::warn(format_args!(
                "{skipped} skipped: --on-alert and --alert-webhook act at most {MOST_A_MINUTE} times per minute, and \
                 begin nothing {grace} s after the end"
            ));
        }
    }

    fn act(&self, event: &AlertEvent, host: &str) {
        let json = document(event, host);
        if let Some(text) = &self.command
            && let Err(error) = command::run(text, event, host, &json)
        {
            output::warn(format_args!("--on-alert: {error}"));
        }
        if let Some(webhook) = &self.webhook
            && let Err(error) = webhook.send(&json)
        {
            output::warn(format_args!("--alert-webhook: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::tests::event;
    use super::*;

    fn actor() -> AlertActor {
        let (command, ended) = (Some("true".into()), Arc::default());
        AlertActor { command, webhook: None, syslog: false, ended, done: Vec::new(), left_out: 0 }
    }

    #[test]
    fn the_rate_is_limited_and_recovers() {
        let mut actor = actor();
        let start = Instant::now();
        let acted = (0..50).filter(|_| actor.may_act(start)).count();
        assert_eq!((acted, actor.left_out), (MOST_A_MINUTE, 40));
        assert!(actor.may_act(start + MINUTE));
        assert_eq!(actor.left_out, 0);
    }

    #[test]
    fn what_was_left_out_is_said_at_the_end_too() {
        let mut actor = actor();
        let (events, received) = sync_channel(WAITING);
        (0..MOST_A_MINUTE + 2).for_each(|_| events.send((event(), String::new())).unwrap());
        drop(events);
        actor.run(&received);
        assert_eq!(actor.left_out, 0);
    }

    #[test]
    fn nothing_is_begun_long_after_the_end() {
        let mut actor = actor();
        let ended = Instant::now();
        actor.ended.set(ended).unwrap();
        assert!(actor.may_act(ended + GRACE / 2), "what waits is still done");
        assert!(!actor.may_act(ended + GRACE), "but not for ever");
    }
}
