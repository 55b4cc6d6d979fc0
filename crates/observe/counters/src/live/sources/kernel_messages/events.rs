//! Events that the kernel's messages tell: kills because memory ran out, filesystems that allow no writes any more,
//! devices that failed. Each becomes a note. A message that repeats itself (a failed disk writes thousands) is one
//! event.

use std::collections::HashMap;

use diskwright_base::kernel_messages::KERNEL;
use diskwright_base::{EventKind, EventReader, HostEvent, Note};

use crate::live::tick_context::TickContext;

/// Time without a message about the same filesystem or device after which the next one is another event, nanoseconds.
const MIN_QUIET_NS: u64 = 60_000_000_000;
/// Largest number of filesystems and devices that are remembered.
const MAX_REMEMBERED: usize = 256;
/// Largest number of kills that are noted in [`KILL_PERIOD_NS`]: where programs are killed and started again for days,
/// the counters have the number.
const MAX_KILLS: u32 = 16;
const KILL_PERIOD_NS: u64 = 60_000_000_000;
/// Longest time between a message and the tick that reads it, beyond the length of the tick, nanoseconds. The clock of
/// the messages drifts from that of the ticks; a time outside is not believed.
const MAX_DELAY_NS: u64 = 2_000_000_000;

/// Reads the messages of `/dev/kmsg`.
#[derive(Default)]
pub(super) struct KernelEvents {
    reader: EventReader,
    /// Running time of the last message about each filesystem or device.
    last_seen: HashMap<(EventKind, String), u64>,
    /// Begin of the period in which kills are counted, and their number.
    kills: (u64, u32),
}

impl KernelEvents {
    /// Adds a record: `6,1234,5678901,-` and the message behind it. `find_disk` returns the disk of a device.
    pub fn add_record(
        &mut self,
        head: &str,
        message: &str,
        context: &mut TickContext,
        find_disk: impl Fn(&str) -> Option<String>,
    ) {
        let mut fields = head.split(',');
        // programs write here too, with a facility of their own
        let is_of_kernel = fields.next().and_then(|priority| priority.parse::<u32>().ok()).is_some_and(|p| p < 8);
        if !is_of_kernel {
            return;
        }
        let micros = fields.nth(1).and_then(|micros| micros.parse::<u64>().ok());
        for mut event in self.reader.add_message(KERNEL, message) {
            if event.kind == EventKind::DeviceFailed {
                let disk = event.victim.as_deref().and_then(&find_disk);
                event.victim = disk.or(event.victim);
            }
            if self.is_new(&event, context.running_ns) {
                event.time_ns = Some(time_of_message(micros, context));
                context.notes.push_note(Note::event(context.time_ns, &event));
            }
        }
    }

    fn is_new(&mut self, event: &HostEvent, now_ns: u64) -> bool {
        if event.kind == EventKind::OomKill {
            let (since_ns, count) = &mut self.kills;
            if now_ns.saturating_sub(*since_ns) >= KILL_PERIOD_NS {
                (*since_ns, *count) = (now_ns, 0);
            }
            *count += 1;
            return *count <= MAX_KILLS;
        }
        if self.last_seen.len() >= MAX_REMEMBERED {
            self.last_seen.retain(|_, seen_ns| now_ns.saturating_sub(*seen_ns) < MIN_QUIET_NS);
        }
        let key = (event.kind, event.victim.clone().unwrap_or_default());
        if self.last_seen.len() >= MAX_REMEMBERED && !self.last_seen.contains_key(&key) {
            return false;
        }
        let before = self.last_seen.insert(key, now_ns);
        before.is_none_or(|seen_ns| now_ns.saturating_sub(seen_ns) >= MIN_QUIET_NS)
    }
}

/// Time of a message, nanoseconds since 1970; that of the tick where the message's own cannot be.
fn time_of_message(micros: Option<u64>, context: &TickContext) -> i64 {
    let age_ns = micros.and_then(|micros| context.running_ns.checked_sub(micros.checked_mul(1000)?));
    let age_ns = age_ns.filter(|age| *age <= context.elapsed_ns + MAX_DELAY_NS).unwrap_or(0);
    context.time_ns.saturating_sub(i64::try_from(age_ns).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use diskwright_base::{EventKind, HostEvent, Note};

    use crate::live::fake::{FakeMachine, FakeWatch};

    fn events(watch: &FakeWatch) -> Vec<HostEvent> {
        watch.notes_of_kind(Note::EVENT).iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    #[test]
    fn a_kill_is_noted_with_program_and_group_and_old_ones_are_not() {
        let machine = FakeMachine::new();
        let old = "4,1,1,-;Out of memory: Killed process 5 (old) total-vm:9kB\n";
        machine.put_ordinary_files().put_file("dev/kmsg", old);
        let mut watch = machine.watch_default();
        watch.tick();
        let groups = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                      oom_memcg=/app,task_memcg=/app,task=web,pid=71,uid=0";
        let lines = [
            "4,2,2,-;web invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "6,3,2,-;memory: usage 8192kB, limit 8192kB, failcnt 31",
            &format!("6,4,2,-;{groups}"),
            "3,5,2,-;Memory cgroup out of memory: Killed process 71 (web) total-vm:900kB, anon-rss:800kB",
            // a program's own words
            "11,6,2,-;Out of memory: Killed process 99 (fake) total-vm:900kB",
        ];
        machine.put_file("dev/kmsg", format!("{old}{}\n", lines.join("\n")));
        watch.tick_after(1.0);
        let [event] = events(&watch).try_into().unwrap();
        assert_eq!((event.kind, event.victim.as_deref(), event.pid), (EventKind::OomKill, Some("web"), Some(71)));
        assert_eq!((event.group.as_deref(), event.limit_bytes), (Some("/app"), Some(8 << 20)));
        assert!(event.time_ns.is_some());
    }

    #[test]
    fn a_flood_of_messages_about_a_failed_disk_is_one_event() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("dev/kmsg", "").put_file("sys/block/sda/sda1/partition", "1\n");
        let mut watch = machine.watch_default();
        watch.tick();
        let line = "3,2,2,-;sd 0:0:0:0: [sda] rejecting I/O to offline device\n";
        let all = line.repeat(300) + "2,9,9,-;EXT4-fs (sda1): Remounting filesystem read-only\n";
        machine.put_file("dev/kmsg", all);
        watch.tick_after(1.0);
        let kinds: Vec<(EventKind, Option<String>)> = events(&watch).into_iter().map(|e| (e.kind, e.victim)).collect();
        assert_eq!(
            kinds,
            [(EventKind::DeviceFailed, Some("sda".to_owned())), (EventKind::ReadOnly, Some("sda1".to_owned()))]
        );
    }
}
