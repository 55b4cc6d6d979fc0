//! Events of a log of messages that lead an answer: kills, filesystems that turned read-only, devices that failed. Only
//! those of the measured time and of the machine that was measured are handed over; others are history. A time that the
//! log does not tell stays unknown.

use diskwright_base::kernel_messages::KERNEL;
use diskwright_base::text::is_same_host;
use diskwright_base::{EventReader, HostEvent};

use super::event_times::EventTime;
use crate::MeasuredTime;

/// Largest number of events that are kept.
const MAX_EVENTS: usize = 1000;
/// Lines about a kill that have no time before them when others have.
const BARE_LINES: [&str; 2] = ["oom-kill:constraint=", "Task in "];

/// Events of a log, each with its time and the machine that its line names.
#[derive(Default)]
pub(super) struct HostEvents {
    reader: EventReader,
    found: Vec<(HostEvent, EventTime, String)>,
    /// Time and machine of the last line about a kill: a kill of which no program is told ends where the next begins.
    last: (EventTime, String),
}

impl HostEvents {
    /// Adds a message.
    pub fn add_message(&mut self, (program, message): (&str, &str), moment: &EventTime, host: &str) {
        let events = self.reader.add_message(program, message);
        self.keep(events, &(moment.clone(), host.to_owned()));
        self.last = (moment.clone(), host.to_owned());
    }

    /// Adds a line that has no form of a log; only lines about a kill count.
    pub fn add_bare_line(&mut self, line: &str) {
        let line = line.trim();
        if BARE_LINES.iter().any(|start| line.starts_with(start)) {
            self.reader.add_message(KERNEL, line);
        }
    }

    fn keep(&mut self, events: Vec<HostEvent>, now: &(EventTime, String)) {
        for event in events.into_iter().take(MAX_EVENTS.saturating_sub(self.found.len())) {
            let (moment, host) =
                if event.because.contains("invoked oom-killer") { self.last.clone() } else { now.clone() };
            self.found.push((event, moment, host));
        }
    }

    /// The events of the measured time and of the measured machine, whose name is `host` where it is known.
    pub fn finish(mut self, measured: Option<&MeasuredTime>, host: &str) -> Vec<HostEvent> {
        let last = self.reader.finish();
        let now = self.last.clone();
        self.keep(Vec::from_iter(last), &now);
        let hosts: Vec<String> = self.found.iter().map(|(.., host)| host.clone()).collect();
        let is_of_machine = |named: &str| is_of_machine(named, host, &hosts);
        let current = self.found.iter().filter(|(_, moment, named)| is_of_machine(named) && !moment.is_unreadable());
        let current = current.filter(|(_, moment, _)| moment.may_be_within(measured));
        let placed = current.map(|(event, moment, _)| HostEvent {
            time_ns: moment.exact_ns(measured),
            time_text: Some(moment.to_text()).filter(|text| !text.is_empty()),
            ..event.clone()
        });
        placed.collect()
    }
}

/// True if a line's machine is the measured one. Where that has no name, all lines must name the same one.
pub(super) fn is_of_machine(named: &str, host: &str, all: &[String]) -> bool {
    if host.is_empty() {
        return all.iter().all(|other| other.is_empty() || named.is_empty() || is_same_host(other, named));
    }
    named.is_empty() || is_same_host(named, host)
}
