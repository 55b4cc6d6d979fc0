//! Events that explain an outage by themselves: a program that was killed because memory ran out, a filesystem that
//! allows no writes any more, a device that failed, a full filesystem. A source that sees one writes a note of it.
//! What a source does not tell is `None`, and never guessed.

use serde::{Deserialize, Serialize};

use crate::kernel_messages::{KERNEL, KernelMessage, MessageClass, read_message};
use crate::text::truncate_text;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A program was killed because memory ran out.
    OomKill,
    /// A filesystem allows no writes any more.
    ReadOnly,
    /// A disk, or another device that holds data, does not work any more.
    DeviceFailed,
    /// A filesystem is full.
    Full,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 4] = [EventKind::OomKill, EventKind::ReadOnly, EventKind::DeviceFailed, EventKind::Full];

    /// Its name in data.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::OomKill => "oom_kill",
            EventKind::ReadOnly => "read_only",
            EventKind::DeviceFailed => "device_failed",
            EventKind::Full => "full",
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostEvent {
    /// Its kind.
    pub kind: EventKind,
    /// When it happened, nanoseconds since 1970 UTC.
    pub time_ns: Option<i64>,
    /// The time as the source printed it, where it is not known what time that is in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_text: Option<String>,
    /// The program that was killed, or the filesystem or device that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// Process id of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Cgroup or unit of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The cgroup whose limit was reached, where it is not the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_group: Option<String>,
    /// The limit of memory that was reached, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Number of events that it stands for.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u64,
    /// The source's own words.
    pub because: String,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(times: &u64) -> bool {
    *times == 1
}

impl HostEvent {
    /// An event of which only the kind and the source's words are known.
    pub fn new(kind: EventKind, because: impl Into<String>) -> HostEvent {
        HostEvent {
            kind,
            time_ns: None,
            time_text: None,
            victim: None,
            pid: None,
            group: None,
            limit_group: None,
            limit_bytes: None,
            times: 1,
            because: because.into(),
        }
    }
}

/// Longest text of a message that is kept, characters.
const MAX_MESSAGE_CHARS: usize = 160;
/// Longest name of a program or cgroup, bytes.
const MAX_NAME_BYTES: usize = 512;
/// Limits from this size on stand for no limit: the kernel writes the largest number of pages.
const MAX_LIMIT_KB: u64 = 1 << 50;

/// Makes events of messages of the kernel and of programs that report the same, in their order. A kill takes several
/// messages: who asked for memory, the limit that was reached, the cgroups, the program.
#[derive(Clone, Debug, Default)]
pub struct EventReader {
    /// What the messages before that of the kill told.
    pending: Option<PendingKill>,
    /// The last program that was told to be killed, for messages that repeat it.
    last_pid: Option<u32>,
    /// Nothing but messages about kills came since the last one.
    is_after_kill: bool,
}

/// A kill of which the program is not yet told.
#[derive(Clone, Debug, Default)]
struct PendingKill {
    /// Message with which it began.
    because: String,
    limit_bytes: Option<u64>,
    limit_group: Option<String>,
    group: Option<String>,
    /// Process that the line about the cgroups names.
    pid: Option<u32>,
    victim: Option<String>,
}

impl EventReader {
    /// Adds a message; returns the events that are complete, which is one or none for most.
    pub fn add_message(&mut self, program: &str, message: &str) -> Vec<HostEvent> {
        if program == KERNEL && self.add_detail(message) {
            return Vec::new();
        }
        let Some(found) = read_message(program, message) else { return Vec::new() };
        match found.class {
            MessageClass::MemoryKill => self.add_kill(program, message),
            MessageClass::CgroupLimit => {
                let limit = number_after(message, "limit ").filter(|kilobytes| *kilobytes < MAX_LIMIT_KB);
                let pending = self.pending_kill(message);
                pending.limit_bytes = pending.limit_bytes.or(limit.and_then(|kilobytes| kilobytes.checked_mul(1024)));
                Vec::new()
            }
            _ => {
                self.is_after_kill = false;
                Vec::from_iter(event_of_message(&found, message))
            }
        }
    }

    /// The kill that began and of which no program was told, at the end of a text.
    pub fn finish(&mut self) -> Option<HostEvent> {
        self.pending.take().map(PendingKill::into_event)
    }

    fn pending_kill(&mut self, message: &str) -> &mut PendingKill {
        let because = || PendingKill { because: truncate_text(message, MAX_MESSAGE_CHARS), ..PendingKill::default() };
        self.pending.get_or_insert_with(because)
    }

    /// Adds a line between the first and the last of a kill; true if it was one.
    fn add_detail(&mut self, message: &str) -> bool {
        if let Some(fields) = message.strip_prefix("oom-kill:constraint=") {
            let field = |name: &str| {
                let start = fields.find(name)? + name.len();
                fields[start..].split(',').next().filter(|value| is_name(value))
            };
            let (limit_group, group) = (field(",oom_memcg="), field(",task_memcg="));
            let (victim, pid) = (field(",task="), field(",pid=").and_then(|pid| pid.parse().ok()));
            let pending = self.pending_kill(message);
            pending.limit_group = limit_group.map(str::to_owned);
            pending.group = group.map(str::to_owned);
            (pending.victim, pending.pid) = (victim.map(str::to_owned), pid);
            return true;
        }
        // until Linux 4.18
        if let Some(rest) = message.strip_prefix("Task in ")
            && let Some((group, limit_group)) = rest.split_once(" killed as a result of limit of ")
            && is_name(group)
            && is_name(limit_group)
        {
            let pending = self.pending_kill(message);
            (pending.group, pending.limit_group) = (Some(group.to_owned()), Some(limit_group.trim().to_owned()));
            return true;
        }
        false
    }

    fn add_kill(&mut self, program: &str, message: &str) -> Vec<HostEvent> {
        if message.contains("invoked oom-killer") {
            let before = self.pending.take().map(PendingKill::into_event);
            self.pending_kill(message);
            (self.is_after_kill, self.last_pid) = (false, None);
            return Vec::from_iter(before);
        }
        let told = killed_program(message);
        if let Some((pid, victim)) = told {
            // the kernel before 4.19 announces the kill and then reports it
            if self.is_after_kill && self.last_pid == Some(pid) && self.pending.is_none() {
                return Vec::new();
            }
            (self.is_after_kill, self.last_pid) = (true, Some(pid));
            let mut pending = self.pending.take().unwrap_or_default();
            if pending.pid.is_some_and(|known| known != pid) {
                pending = PendingKill::default();
            }
            pending.because = truncate_text(message, MAX_MESSAGE_CHARS);
            (pending.pid, pending.victim) = (Some(pid), Some(victim.to_owned()));
            return vec![pending.into_event()];
        }
        // systemd reports what the kernel just reported
        if self.is_after_kill && program.starts_with("systemd") && program != "systemd-oomd" {
            return Vec::new();
        }
        let group = match program {
            "systemd-oomd" => message.strip_prefix("Killed ").and_then(|rest| rest.split(' ').next()),
            _ => message.split_once(": ").map(|(unit, _)| unit).filter(|unit| !unit.contains(' ')),
        };
        self.is_after_kill = true;
        let mut event = HostEvent::new(EventKind::OomKill, truncate_text(message, MAX_MESSAGE_CHARS));
        event.group = group.filter(|name| is_name(name)).map(str::to_owned);
        vec![event]
    }
}

impl PendingKill {
    fn into_event(self) -> HostEvent {
        let limit_group = self.limit_group.filter(|limited| self.group.as_ref() != Some(limited));
        HostEvent {
            victim: self.victim,
            pid: self.pid,
            group: self.group,
            limit_group,
            limit_bytes: self.limit_bytes,
            ..HostEvent::new(EventKind::OomKill, self.because)
        }
    }
}

/// The event that a single message tells.
fn event_of_message(found: &KernelMessage<'_>, message: &str) -> Option<HostEvent> {
    let mut event = HostEvent::new(found.event?, truncate_text(message, MAX_MESSAGE_CHARS));
    event.victim = Some(found.name).filter(|name| !name.is_empty()).map(str::to_owned);
    Some(event)
}

/// Returns pid and name of `Killed process 812 (java) total-vm:…`, of `Kill process 771 (indexd) score …` and of
/// `sending SIGTERM to process 9123 uid 1000 "chrome": …`.
fn killed_program(message: &str) -> Option<(u32, &str)> {
    let rest = ["Killed process ", "Kill process ", "sending SIGKILL to process ", "sending SIGTERM to process "]
        .iter()
        .find_map(|text| message.split_once(text).map(|(_, rest)| rest))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let pid = rest[..digits].parse().ok()?;
    let rest = rest[digits..].trim_start_matches([',', ' ']);
    let quoted = || rest.split_once('"').and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name);
    // a name may have parentheses: `(sd-pam)`
    let in_brackets = || {
        let rest = rest.split_once('(')?.1;
        let end = [") total-vm", ") score", "), UID"].iter().find_map(|text| rest.find(text));
        Some(&rest[..end.or_else(|| rest.find(')'))?])
    };
    let name = if message.contains("sending SIG") { quoted() } else { in_brackets() };
    name.filter(|name| is_name(name)).map(|name| (pid, name))
}

fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_NAME_BYTES
}

/// Returns the number behind some words: `limit 262144kB`.
fn number_after(message: &str, words: &str) -> Option<u64> {
    let rest = message.split_once(words)?.1;
    rest.split([',', ' ']).next()?.strip_suffix("kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &[&str]) -> Vec<HostEvent> {
        let mut reader = EventReader::default();
        let mut list: Vec<HostEvent> = lines.iter().flat_map(|line| reader.add_message(KERNEL, line)).collect();
        list.extend(reader.finish());
        list
    }

    const CALLED: &str = "indexd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";
    const USAGE: &str = "memory: usage 262144kB, limit 262144kB, failcnt 31";
    const KILLED: &str = "Memory cgroup out of memory: Killed process 771 (indexd) total-vm:900kB, anon-rss:800kB";

    #[test]
    fn a_kill_in_a_cgroup_has_program_group_and_limit() {
        let groups = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                      oom_memcg=/app.slice,task_memcg=/app.slice/web,task=indexd,pid=771,uid=0";
        let [event] = events(&[CALLED, "Call Trace:", USAGE, groups, KILLED]).try_into().unwrap();
        assert_eq!((event.kind, event.time_ns), (EventKind::OomKill, None));
        assert_eq!((event.victim.as_deref(), event.pid), (Some("indexd"), Some(771)));
        assert_eq!(event.group.as_deref(), Some("/app.slice/web"));
        assert_eq!((event.limit_group.as_deref(), event.limit_bytes), (Some("/app.slice"), Some(262_144 * 1024)));
        let old = "Task in /docker/3f killed as a result of limit of /docker/3f";
        let announced = "Memory cgroup out of memory: Kill process 771 (indexd) score 990 or sacrifice child";
        let list = events(&[CALLED, old, USAGE, announced, "Killed process 771 (indexd) total-vm:900kB"]);
        let [event] = list.try_into().unwrap();
        assert_eq!((event.group.as_deref(), event.limit_group), (Some("/docker/3f"), None));
        assert_eq!((event.pid, event.limit_bytes), (Some(771), Some(262_144 * 1024)));
    }

    #[test]
    fn what_a_text_lacks_is_not_made_up() {
        let [event] = events(&[KILLED]).try_into().unwrap();
        assert_eq!((event.victim.as_deref(), event.group, event.limit_bytes), (Some("indexd"), None, None));
        let [event] = events(&[CALLED]).try_into().unwrap();
        assert_eq!((event.victim, event.pid, event.limit_bytes), (None, None, None));
        let global = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
                      task_memcg=/user.slice,task=java,pid=812,uid=0";
        let killed = "Out of memory: Killed process 812 (java) total-vm:900kB";
        let [event] = events(&[CALLED, global, killed]).try_into().unwrap();
        assert_eq!((event.group.as_deref(), event.limit_group, event.limit_bytes), (Some("/user.slice"), None, None));
        // the largest number of pages stands for no limit
        let unlimited = "memory: usage 262144kB, limit 9007199254740988kB, failcnt 0";
        let [event] = events(&[unlimited, KILLED]).try_into().unwrap();
        assert_eq!(event.limit_bytes, None);
        // the limit of one kill is not that of the next
        let other = "Out of memory: Killed process 9 (java) total-vm:900kB";
        assert_eq!(events(&[USAGE, KILLED, other])[1].limit_bytes, None);
        let of_another = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                          oom_memcg=/a,task_memcg=/a,task=x,pid=5,uid=0";
        assert_eq!(events(&[of_another, KILLED])[0].group, None);
    }

    #[test]
    fn names_with_brackets_and_other_programs_are_read() {
        let killed = "Out of memory: Killed process 12 ((sd-pam)) total-vm:9kB";
        assert_eq!(events(&[killed])[0].victim.as_deref(), Some("(sd-pam)"));
        let mut reader = EventReader::default();
        let mut of = |program: &str, message: &str| reader.add_message(program, message);
        let unit = "shop.service: A process of this unit has been killed by the OOM killer.";
        let [event] = of("systemd", unit).try_into().unwrap();
        assert_eq!((event.group.as_deref(), event.victim), (Some("shop.service"), None));
        assert_eq!(of(KERNEL, KILLED).len(), 1);
        assert_eq!(of("systemd", unit), Vec::new(), "the same kill");
        let [event] = of("systemd-oomd", "Killed /user.slice/app.scope due to memory pressure").try_into().unwrap();
        assert_eq!(event.group.as_deref(), Some("/user.slice/app.scope"));
        let early = "sending SIGTERM to process 9123 uid 1000 \"chrome\": oom_score 900, VmRSS 900 MiB";
        let [event] = of("earlyoom", early).try_into().unwrap();
        assert_eq!((event.pid, event.victim.as_deref()), (Some(9123), Some("chrome")));
    }

    #[test]
    fn filesystems_and_devices_are_told_by_their_names() {
        use EventKind::{DeviceFailed, Full, ReadOnly};
        for (message, kind, victim) in [
            ("EXT4-fs (sdg1): Remounting filesystem read-only", ReadOnly, Some("sdg1")),
            ("BTRFS info (device sdg1): forced readonly", ReadOnly, Some("sdg1")),
            ("XFS (sdg1): Shutting down filesystem.", ReadOnly, Some("sdg1")),
            ("FAT-fs (sdg1): Filesystem has been set read-only", ReadOnly, Some("sdg1")),
            ("md/raid1:md0: Disk failure on sdg1, disabling device.", DeviceFailed, Some("sdg1")),
            ("sd 6:0:0:0: [sdg] rejecting I/O to offline device", DeviceFailed, Some("sdg")),
            ("nvme nvme3: Removing after probe failure status: -19", DeviceFailed, Some("nvme3")),
            ("cp: write error: No space left on device", Full, None),
        ] {
            let [event] = events(&[message]).try_into().unwrap();
            assert_eq!((event.kind, event.victim.as_deref()), (kind, victim), "{message}");
        }
        for message in [
            "I/O error, dev sdg, sector 9",
            "critical medium error, dev sdg, sector 9 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
            "Buffer I/O error on dev sdg, logical block 0, async page read",
            "ata7: hard resetting link",
            "EXT4-fs error (device sdg1): ext4_find_entry:1455",
            "EXT4-fs (sdg1): re-mounted 3f ro. Quota mode: none.",
            "device-mapper: multipath: 253:3: Failing path 8:16.",
        ] {
            assert_eq!(events(&[message]), Vec::new(), "{message}");
        }
    }
}
