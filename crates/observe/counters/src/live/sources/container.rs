//! Namespaces and masked files that show a container instead of the machine. Reported
//! once, at the start.

use std::fs;
use std::hint::black_box;

use crate::live::moment::TickContext;
use crate::live::mountinfo::{self, Mount};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use diskwright_base::Note;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "container",
    files: &["/proc/self/ns/pid", "/proc/self/ns/cgroup", "/proc/self/mountinfo"],
    explain: "Whether the sampler sees the whole machine or only a container.",
    parse_any: |bytes| _ = black_box(masks(&mountinfo::parse(bytes))),
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(Container { told: false })),
};

/// Kind and fixed number of the machine's initial namespaces, and the consequence of being in another one.
const FIRST: &[(&str, &str, &str)] = &[
    ("pid", "pid:[4026531836]", "processes outside of it are not seen, though their load is"),
    ("cgroup", "cgroup:[4026531835]", "cgroups outside of it and their limits are not seen"),
];

/// Returns the files of /proc that another mount covers, each with a sentence on it.
pub(crate) fn masks(mounts: &[Mount]) -> Vec<(String, String)> {
    let over = mounts.iter().filter(|m| m.point.starts_with("/proc/"));
    over.filter_map(|m| {
        let what = match m.kind.as_str() {
            "fuse.lxcfs" => "is a container's view (lxcfs), not the machine's",
            "tmpfs" | "devtmpfs" => "is masked in this container",
            // parts of proc that are mounted again read-only
            _ => return None,
        };
        Some((m.point.clone(), format!("{} {what}", m.point)))
    })
    .collect()
}

struct Container {
    told: bool,
}

impl CounterSource for Container {
    fn tick(&mut self, context: &mut TickContext) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        for (kind, first, means) in FIRST {
            let link = fs::read_link(context.roots.proc.join("self/ns").join(kind));
            if link.is_ok_and(|link| link.as_os_str() != *first) {
                let text = format!("the sampler runs in a separate {kind} namespace: {means}");
                context.notes.push(context.time_ns, Note::UNSEEN, text);
            }
        }
        let mounts = mountinfo::read(context.roots);
        for (_, text) in masks(&mounts) {
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
        let hides = |m: &&Mount| m.point == "/proc" && m.option("hidepid").is_some_and(|v| v != "0" && v != "off");
        if mounts.iter().any(|m| hides(&m)) {
            let text = "/proc is mounted with hidepid: processes of other users are not seen";
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    #[test]
    fn masks_are_told_and_remounts_are_not() {
        let mounts = mountinfo::parse(
            b"1 0 0:9 /stat /proc/stat rw - fuse.lxcfs lxcfs rw\n\
              2 0 0:8 / /proc/timer_list rw - devtmpfs devtmpfs rw\n\
              3 0 0:7 /sys /proc/sys ro - proc proc rw\n\
              4 0 0:6 / /procfoo rw - tmpfs tmpfs rw\n",
        );
        let found: Vec<String> = masks(&mounts).into_iter().map(|(file, _)| file).collect();
        assert_eq!(found, ["/proc/stat", "/proc/timer_list"]);
    }

    #[test]
    fn namespaces_and_hidden_processes_are_told_once() {
        let machine = FakeMachine::new();
        machine
            .ordinary()
            .link("proc/self/ns/pid", "pid:[4026532999]")
            .link("proc/self/ns/cgroup", "cgroup:[4026531835]");
        machine.put("proc/self/mountinfo", "1 0 0:5 / /proc rw - proc proc rw,hidepid=2\n");
        let mut watch = machine.watch();
        watch.tick().tick_after(10.0);
        let count_notes = |text: &str| watch.notes(Note::UNSEEN).iter().filter(|n| n.contains(text)).count();
        assert_eq!(count_notes("a separate pid namespace"), 1);
        assert_eq!(count_notes("a separate cgroup namespace"), 0);
        assert_eq!(count_notes("hidepid"), 1);
    }
}
