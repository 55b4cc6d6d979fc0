//! Events that lead the answer: who was killed, in which group, at which limit, when; filesystems that turned read-only
//! or are full; devices that failed. Only those of the window.

use diskwright_base::catalogue::display_unit;
use diskwright_base::counter_ids::cgroup;
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::format_value;
use diskwright_base::{EventKind, HostEvent};
use serde::{Serialize, Serializer};

use crate::rules::LogOrigin;
use crate::run::{KillTick, Observation};

/// Largest number of events of a verdict; the newest are kept.
const MAX_EVENTS: usize = 64;
/// Time by which an event may lie outside of the tick that counts it, nanoseconds.
const MARGIN_NS: i64 = 2_000_000_000;
/// Time within which two sources report the same filesystem or device, nanoseconds.
const SAME_NS: i64 = 120_000_000_000;

/// An event of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictEvent {
    /// `oom_kill`, `read_only`, `device_failed` or `full`.
    pub kind: EventKind,
    /// When it happened, RFC 3339; `null` where no source tells, and for what lasted when the window began.
    #[serde(rename = "at", serialize_with = "serialize_time")]
    pub time_ns: Option<i64>,
    /// The time as a text printed it, where it is not known what time that is in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_text: Option<String>,
    /// The program that was killed, or the filesystem or device that it is about; `null` where no source tells.
    pub victim: Option<String>,
    /// Process id of the program.
    pub pid: Option<u32>,
    /// Cgroup or unit of the program.
    pub group: Option<String>,
    /// The limit of memory that was reached, bytes; `null` where the machine as a whole ran out, or no source tells.
    pub limit_bytes: Option<u64>,
    /// Number of events that it stands for.
    pub times: u64,
    /// What tells it: the kernel's own words, or the counter.
    pub because: String,
    /// It in one sentence, without its time.
    pub sentence: String,
}

fn serialize_time<S: Serializer>(time_ns: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    time_ns.map(format_rfc3339).serialize(serializer)
}

impl VerdictEvent {
    fn new(event: HostEvent) -> VerdictEvent {
        VerdictEvent {
            sentence: event_sentence(&event),
            kind: event.kind,
            time_ns: event.time_ns,
            time_text: event.time_text.filter(|_| event.time_ns.is_none()),
            victim: event.victim,
            pid: event.pid,
            group: event.group,
            limit_bytes: event.limit_bytes,
            times: event.times,
            because: event.because,
        }
    }
}

/// The events of the window, in the order of time; those of unknown time come first.
pub(crate) fn find_events(observed: &Observation) -> Vec<VerdictEvent> {
    let watch = &observed.events;
    let (from_ns, to_ns) = (observed.window.from_ns, observed.window.to_ns);
    let is_within =
        |time_ns: i64| from_ns.saturating_sub(MARGIN_NS) <= time_ns && time_ns <= to_ns.saturating_add(MARGIN_NS);
    let of_window = watch.noted.iter().filter(|(noted_ns, event)| is_within(event.time_ns.unwrap_or(*noted_ns)));
    let mut list: Vec<HostEvent> = Vec::new();
    for mut event in of_window.map(|(_, event)| event.clone()) {
        name_filesystem(&mut event, observed);
        if !list.iter().any(|known| is_same_state(known, &event)) {
            list.push(event);
        }
    }
    let noted = list.iter().filter(|event| event.kind == EventKind::OomKill).cloned().collect();
    list.extend(counted_kills(&watch.kills, noted, observed.notes.source));
    for (name, time_ns) in &watch.degraded {
        let because = format!("array.degraded of {name} rose");
        let event = HostEvent {
            time_ns: Some(*time_ns),
            victim: Some(name.clone()),
            ..HostEvent::new(EventKind::DeviceFailed, because)
        };
        list.push(event);
    }
    list.extend(full_filesystems(observed));
    list.sort_by_key(|event| event.time_ns);
    let left_out = list.len().saturating_sub(MAX_EVENTS);
    list.drain(..left_out);
    list.into_iter().map(VerdictEvent::new).collect()
}

/// True if two sources tell the same of a filesystem or device.
fn is_same_state(one: &HostEvent, other: &HostEvent) -> bool {
    let is_near = match (one.time_ns, other.time_ns) {
        (Some(one), Some(other)) => one.abs_diff(other) <= SAME_NS.unsigned_abs(),
        _ => true,
    };
    one.kind == other.kind && one.kind != EventKind::OomKill && one.victim == other.victim && is_near
}

/// Names a filesystem by its mount point, where the kernel named its device.
fn name_filesystem(event: &mut HostEvent, observed: &Observation) {
    let Some(topology) = observed.topology.as_ref().filter(|_| event.kind == EventKind::ReadOnly) else { return };
    let is_on_device = |device: &str| !device.is_empty() && event.victim.as_deref() == Some(device);
    let mut mounted = topology.filesystems.iter().filter(|filesystem| is_on_device(&filesystem.device));
    if let (Some(filesystem), None) = (mounted.next(), mounted.next()) {
        event.victim = Some(filesystem.mount.clone());
    }
}

/// Kills that counters show and no note tells. The log of another tool may count since the machine started in its first
/// tick, and where its messages tell of kills, its counters are made of them.
fn counted_kills(ticks: &[KillTick], mut noted: Vec<HostEvent>, source: LogOrigin) -> Vec<HostEvent> {
    let is_ours = source == LogOrigin::Live;
    if !is_ours && !noted.is_empty() {
        return Vec::new();
    }
    let mut list = Vec::new();
    for tick in ticks.iter().filter(|tick| is_ours || !tick.is_first) {
        let is_of_tick = |event: &HostEvent| {
            let time = event.time_ns.unwrap_or(tick.to_ns);
            tick.from_ns - MARGIN_NS <= time && time <= tick.to_ns.saturating_add(MARGIN_NS)
        };
        let counted = tick.groups.iter().map(|(_, kills, _)| *kills).fold(tick.total.unwrap_or(0.0), f64::max);
        let mut open = counted.round() as u64;
        // a note stands for one kill, so it cannot explain those of two ticks
        let mut known_groups: Vec<String> = Vec::new();
        noted.retain(|event| {
            let is_known = open > 0 && is_of_tick(event);
            if is_known {
                open = open.saturating_sub(event.times);
                known_groups.extend(event.group.clone());
            }
            !is_known
        });
        for (path, kills, limit) in leaf_groups(&tick.groups) {
            let told = known_groups.iter().filter(|known| is_below(known, path)).count() as u64;
            let times = (kills.round() as u64).saturating_sub(told).min(open);
            if times > 0 {
                open -= times;
                let because = "memory.events of the cgroup counts oom_kill".to_owned();
                let limit_bytes = limit.filter(|limit| *limit > 0.0).map(|limit| limit as u64);
                list.push(HostEvent { group: Some(path.to_owned()), limit_bytes, ..kill_event(tick, times, because) });
            }
        }
        if open > 0 {
            list.push(kill_event(tick, open, "/proc/vmstat counts oom_kill".to_owned()));
        }
    }
    list
}

fn kill_event(tick: &KillTick, times: u64, because: String) -> HostEvent {
    HostEvent { time_ns: Some(tick.to_ns), times, ..HostEvent::new(EventKind::OomKill, because) }
}

/// The cgroups in which a kill happened itself: a cgroup counts those of the cgroups below.
fn leaf_groups(groups: &[(String, f64, Option<f64>)]) -> impl Iterator<Item = (&str, f64, Option<f64>)> {
    let is_leaf = |path: &str| !groups.iter().any(|(other, ..)| other != path && is_below(other, path));
    let leaves = groups.iter().filter(move |(path, ..)| is_leaf(path));
    leaves.map(|(path, kills, limit)| (path.as_str(), *kills, *limit))
}

/// True for a cgroup that is another one or below it.
fn is_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Filesystems that were full in the window.
fn full_filesystems(observed: &Observation) -> impl Iterator<Item = HostEvent> {
    observed.events.filesystems.iter().filter_map(|(mount, state)| {
        let since_ns = state.full_since_ns?;
        let size = format_value(state.total_bytes, "bytes");
        let what = if state.is_out_of_inodes {
            format!("no inode of {mount} is free, although it has space")
        } else {
            format!("{mount} ({size}) has no free space")
        };
        let end = match (state.had_room, state.has_room_again) {
            (false, false) => "; already so when the window began",
            (false, true) => "; already so when the window began, and it has room again",
            (true, true) => "; it has room again",
            (true, false) => "",
        };
        Some(HostEvent {
            time_ns: Some(since_ns).filter(|_| state.had_room),
            victim: Some(mount.clone()),
            ..HostEvent::new(EventKind::Full, format!("{what}{end}"))
        })
    })
}

/// An event in one sentence, without its time.
pub fn event_sentence(event: &HostEvent) -> String {
    let named = event.victim.as_deref();
    match event.kind {
        EventKind::OomKill => kill_sentence(event),
        EventKind::ReadOnly => match named {
            Some(name) => format!("{name} turned read-only: nothing can be written there any more"),
            None => "a filesystem turned read-only".to_owned(),
        },
        EventKind::DeviceFailed => match (named, event.because.starts_with("array.")) {
            (Some(name), true) => format!("{name} lost a member: a disk of the array failed or was taken away"),
            (Some(name), false) => format!("{name} failed: {}", event.because),
            (None, _) => format!("a device failed: {}", event.because),
        },
        EventKind::Full => match named {
            // our own words name it
            Some(name) if event.because.contains(name) => event.because.clone(),
            Some(name) => format!("{name} is full: {}", event.because),
            None => format!("a filesystem is full: {}", event.because),
        },
    }
}

fn kill_sentence(event: &HostEvent) -> String {
    let victim = match (event.victim.as_deref(), event.pid) {
        (Some(name), Some(pid)) => format!("{name} ({pid})"),
        (Some(name), None) => name.to_owned(),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) if event.times > 1 => format!("{} programs", event.times),
        (None, None) => "a program".to_owned(),
    };
    let verb = if event.times > 1 { "were" } else { "was" };
    let group = event.group.as_ref().map_or_else(String::new, |group| format!(" in {group}"));
    let unit = display_unit(cgroup::MEMORY_LIMIT_BYTES, "bytes");
    let limit = event.limit_bytes.map(|bytes| format_value(bytes as f64, unit));
    let reason = match (limit, event.limit_group.as_deref()) {
        (Some(limit), Some(above)) => format!("{above} reached its limit of {limit}"),
        (Some(limit), None) => format!("its cgroup reached its limit of {limit}"),
        (None, Some(above)) => format!("{above} reached its limit"),
        (None, None) => String::new(),
    };
    let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
    // counters tell that somebody was killed, and not who
    let unnamed = match (&event.victim, event.pid) {
        (None, None) => format!("; no source tells which program ({})", event.because),
        _ => String::new(),
    };
    format!("{victim}{group} {verb} killed because memory ran out{reason}{unnamed}")
}
