//! Meaning of all messages of a log together: troubles that repeat or do not end have values, which rules judge; those
//! that came once, or were over, are told.

use std::collections::BTreeMap;

use diskwright_base::counter_ids::{array, cgroup, hardware, network_filesystem, paging, physical_disk, system};
use diskwright_base::kernel_messages::MessageClass;

use super::disks::DiskTroubles;
use super::event_times::EventTime;
use crate::kernel_threads;

/// A message that is known.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub class: MessageClass,
    /// Text by which it is known.
    pub text: &'static str,
    pub name: String,
    pub message: String,
    /// The machine; empty if the line does not name it.
    pub host: String,
    pub moment: EventTime,
    /// Set while the machine starts, when drivers look for devices.
    pub is_at_start: bool,
}

impl Event {
    /// The message with its time.
    pub fn to_text(&self) -> String {
        let time = self.moment.to_text();
        if time.is_empty() { self.message.clone() } else { format!("{} ({time})", self.message) }
    }
}

/// Result.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// Values of counters, by counter and instance.
    pub values: Vec<(&'static str, String, f64)>,
    /// Troubles that came once or were over.
    pub passed: Vec<String>,
    /// What else must be told.
    pub told: Vec<String>,
}

/// Name of the processors among the parts of the hardware.
const PROCESSORS: &str = "processors";
/// Cgroup whose name no line tells.
const UNNAMED_CGROUP: &str = "the cgroup at its limit";
/// Messages of one kind that make it more than one event.
const MIN_REPEATS: u32 = 2;
/// Times that heat lowers the clock for a moment, from which on it is no exception.
const MIN_THROTTLES: f64 = 3.0;
/// Count of a processor's own events, in the message, from which on the same holds.
const MIN_THROTTLE_EVENTS: f64 = 10.0;

/// Counts of a trouble that ends by itself.
#[derive(Default)]
struct Spell {
    count: u32,
    /// Not answered or not ended.
    open: u32,
    first: String,
}

impl Spell {
    fn begin(&mut self, event: &Event) {
        if self.count == 0 {
            self.first = event.to_text();
        }
        self.count += 1;
        self.open += 1;
    }
}

/// All troubles of a log.
#[derive(Default)]
struct Troubles {
    findings: Findings,
    disks: DiskTroubles,
    servers: BTreeMap<String, Spell>,
    voltage: Spell,
    heat: BTreeMap<String, Spell>,
    heat_events: f64,
    hung: Spell,
    hung_flushers: u32,
    /// Signs that memory ran out, by text; one event may leave all of them.
    kills: BTreeMap<&'static str, f64>,
    /// First message of each class that is only told, and their number.
    others: Vec<(MessageClass, String, u32)>,
}

/// Judges the messages of a log, in their order.
pub(super) fn judge_events(events: &[Event]) -> Findings {
    let mut troubles = Troubles::default();
    for event in events {
        troubles.add_event(event);
    }
    troubles.finish()
}

impl Troubles {
    fn add_event(&mut self, event: &Event) {
        match event.class {
            MessageClass::Server => self.add_server(event),
            MessageClass::HungTask => {
                self.hung.begin(event);
                let name = event.name.rsplit_once(':').map_or(event.name.as_str(), |(name, _)| name);
                self.hung_flushers += u32::from(kernel_threads::is_flusher(name));
            }
            MessageClass::MemoryKill => *self.kills.entry(event.text).or_default() += 1.0,
            MessageClass::CgroupLimit => self.add_cgroup(event),
            MessageClass::Throttle if event.is_at_start => {}
            MessageClass::Throttle => {
                self.heat.entry(event.name.clone()).or_default().begin(event);
                let total = event.message.split_once("total events = ").map(|(_, rest)| rest.trim_end_matches(')'));
                self.heat_events = self.heat_events.max(total.and_then(|total| total.parse().ok()).unwrap_or(0.0));
            }
            MessageClass::ThrottleEnd => {
                if let Some(spell) = self.heat.get_mut(&event.name) {
                    spell.open = 0;
                }
            }
            MessageClass::LowVoltage => self.voltage.begin(event),
            MessageClass::VoltageEnd => self.voltage.open = 0,
            MessageClass::Array => self.put_value(array::DEGRADED, &event.name, 1.0),
            MessageClass::Corrected | MessageClass::Hardware | MessageClass::NoSpace | MessageClass::FailingDrive => {
                match self.others.iter_mut().find(|(class, ..)| *class == event.class) {
                    Some((.., count)) => *count += 1,
                    None => self.others.push((event.class, event.to_text(), 1)),
                }
            }
            _ => self.disks.add_event(event),
        }
    }

    fn put_value(&mut self, counter: &'static str, instance: &str, value: f64) {
        self.findings.values.retain(|(known, name, _)| *known != counter || name != instance);
        self.findings.values.push((counter, instance.to_owned(), value));
    }

    /// Adds `nfs: server fs2 not responding, still trying` and `nfs: server fs2 OK`.
    fn add_server(&mut self, event: &Event) {
        let state = event.message.split_once(event.name.as_str()).map_or("", |(_, state)| state.trim_start());
        let is_silent = state.starts_with("not responding") || state.contains("not responded");
        if is_silent {
            self.servers.entry(event.name.clone()).or_default().begin(event);
        } else if let Some(spell) = self.servers.get_mut(&event.name).filter(|_| state.starts_with("OK")) {
            spell.open = spell.open.saturating_sub(1);
        }
    }

    /// Adds `memory: usage 1048576kB, limit 1048576kB, failcnt 141`: a cgroup whose limit was reached.
    fn add_cgroup(&mut self, event: &Event) {
        let number = |word: &str| {
            let (_, rest) = event.message.split_once(word)?;
            rest.split([',', ' ']).next()?.strip_suffix("kB")?.parse::<f64>().ok()
        };
        let (Some(usage), Some(limit)) = (number("usage "), number("limit ")) else { return };
        *self.kills.entry(event.text).or_default() += 1.0;
        self.put_value(cgroup::MEMORY_BYTES, UNNAMED_CGROUP, usage * 1024.0);
        self.put_value(cgroup::MEMORY_LIMIT_BYTES, UNNAMED_CGROUP, limit * 1024.0);
    }

    fn finish(mut self) -> Findings {
        std::mem::take(&mut self.disks).finish(&mut self.findings);
        let kills = self.kills.values().copied().fold(0.0, f64::max);
        if kills > 0.0 {
            self.put_value(paging::OOM_KILLS, "", kills);
        }
        if self.hung.count >= MIN_REPEATS {
            self.put_value(system::HUNG_TASKS, "", f64::from(self.hung.count));
            self.put_value(system::HUNG_FLUSHERS, "", f64::from(self.hung_flushers));
        } else if self.hung.count > 0 {
            let text = format!("a task waited for minutes, once: {}", self.hung.first);
            self.findings.passed.push(text);
        }
        for (server, spell) in std::mem::take(&mut self.servers) {
            if spell.count < MIN_REPEATS && spell.open == 0 {
                let text = format!("the server {server} did not respond once, and then responded: {}", spell.first);
                self.findings.passed.push(text);
                continue;
            }
            self.put_value(network_filesystem::MAJOR_TIMEOUTS, &server, f64::from(spell.count));
            self.put_value(network_filesystem::UNANSWERED, &server, f64::from(spell.open));
        }
        self.finish_power();
        self.finish_others();
        self.findings
    }

    fn finish_power(&mut self) {
        // each processor of a package writes the same
        let throttles = self.heat.values().map(|spell| f64::from(spell.count)).fold(0.0, f64::max);
        let is_open = self.heat.values().any(|spell| spell.open > 0);
        if is_open || throttles >= MIN_THROTTLES || self.heat_events >= MIN_THROTTLE_EVENTS {
            if throttles > 0.0 {
                self.put_value(hardware::THERMAL_THROTTLES, PROCESSORS, throttles);
            }
        } else if let Some(spell) = self.heat.values().next() {
            let text = format!("heat lowered the clock for a moment, and it is as usual again: {}", spell.first);
            self.findings.passed.push(text);
        }
        if self.voltage.count >= MIN_REPEATS || self.voltage.open > 0 {
            self.put_value(hardware::UNDER_VOLTAGES, PROCESSORS, f64::from(self.voltage.count));
        } else if self.voltage.count > 0 {
            let text = format!("the voltage was too low for a moment, and is as usual again: {}", self.voltage.first);
            self.findings.passed.push(text);
        }
    }

    fn finish_others(&mut self) {
        for (class, first, count) in std::mem::take(&mut self.others) {
            let what = match class {
                MessageClass::Corrected => "hardware found and corrected errors",
                MessageClass::Hardware => "hardware found errors that it could not correct, or a processor hung",
                MessageClass::NoSpace => "a file system was full",
                _ => "a drive reports that it fails",
            };
            let times = if count > 1 { format!(", {count} times, first") } else { String::new() };
            let text = format!("{what}{times}: {first}");
            if class == MessageClass::Corrected { &mut self.findings.passed } else { &mut self.findings.told }
                .push(text);
        }
    }
}

/// Puts the value of a disk.
pub(super) fn put_disk(findings: &mut Findings, disk: &str, value: f64) {
    findings.values.push((physical_disk::KERNEL_MESSAGES, disk.to_owned(), value));
}
