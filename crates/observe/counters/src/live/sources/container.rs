//! Namespaces and masked files, which make the sampler see a container instead of the machine. Reported once, at the
//! start.

use std::hint::black_box;

use crate::live::mountinfo::{self, Mount};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::read_link;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use diskwright_base::Note;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "container",
    files: &["/proc/self/ns/pid", "/proc/self/ns/cgroup", "/proc/self/mountinfo"],
    explain: "Whether the sampler sees the whole machine or only a container.",
    parse_any: |bytes| _ = black_box(masked_files(&mountinfo::parse_mounts(bytes))),
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(Container { is_reported: false })),
};

/// The machine's initial namespaces: kind, fixed link target, and the consequence of being in another namespace.
const INITIAL_NAMESPACES: &[(&str, &str, &str)] = &[
    ("pid", "pid:[4026531836]", "processes outside of it are not seen, though their load is"),
    ("cgroup", "cgroup:[4026531835]", "cgroups outside of it and their limits are not seen"),
];

/// Returns the files of /proc that another mount covers, each with a sentence for a note.
pub(crate) fn masked_files(mounts: &[Mount]) -> Vec<(String, String)> {
    let covers = mounts.iter().filter(|m| m.point.starts_with("/proc/"));
    covers
        .filter_map(|m| {
            let mount_text = match m.kind.as_str() {
                "fuse.lxcfs" => "is a container's view (lxcfs), not the machine's",
                "tmpfs" | "devtmpfs" => "is masked in this container",
                // parts of proc that are mounted again read-only
                _ => return None,
            };
            Some((m.point.clone(), format!("{} {mount_text}", m.point)))
        })
        .collect()
}

struct Container {
    is_reported: bool,
}

impl CounterSource for Container {
    fn read_tick(&mut self, context: &mut TickContext) {
        if std::mem::replace(&mut self.is_reported, true) {
            return;
        }
        for (kind, initial_link, consequence) in INITIAL_NAMESPACES {
            let link = read_link(&context.roots.proc.join("self/ns").join(kind));
            if link.is_ok_and(|link| link.as_os_str() != *initial_link) {
                let text = format!("the sampler runs in a separate {kind} namespace: {consequence}");
                context.notes.push(context.time_ns, Note::UNSEEN, text);
            }
        }
        let mounts = mountinfo::read_mounts(context.roots);
        for (_, text) in masked_files(&mounts) {
            context.notes.push(context.time_ns, Note::UNSEEN, text);
        }
        let hides_processes =
            |m: &&Mount| m.point == "/proc" && m.option_value("hidepid").is_some_and(|v| v != "0" && v != "off");
        if mounts.iter().any(|m| hides_processes(&m)) {
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
    fn masks_are_noted_and_remounts_are_not() {
        let mounts = mountinfo::parse_mounts(
            b"1 0 0:9 /stat /proc/stat rw - fuse.lxcfs lxcfs rw\n\
              2 0 0:8 / /proc/timer_list rw - devtmpfs devtmpfs rw\n\
              3 0 0:7 /sys /proc/sys ro - proc proc rw\n\
              4 0 0:6 / /procfoo rw - tmpfs tmpfs rw\n",
        );
        let found: Vec<String> = masked_files(&mounts).into_iter().map(|(file, _)| file).collect();
        assert_eq!(found, ["/proc/stat", "/proc/timer_list"]);
    }

    #[test]
    fn namespaces_and_hidden_processes_are_noted_once() {
        let machine = FakeMachine::new();
        machine
            .put_ordinary_files()
            .put_link("proc/self/ns/pid", "pid:[4026532999]")
            .put_link("proc/self/ns/cgroup", "cgroup:[4026531835]");
        machine.put_file("proc/self/mountinfo", "1 0 0:5 / /proc rw - proc proc rw,hidepid=2\n");
        let mut watch = machine.watch_default();
        watch.tick().tick_after(10.0);
        let count_notes = |text: &str| watch.notes_of_kind(Note::UNSEEN).iter().filter(|n| n.contains(text)).count();
        assert_eq!(count_notes("a separate pid namespace"), 1);
        assert_eq!(count_notes("a separate cgroup namespace"), 0);
        assert_eq!(count_notes("hidepid"), 1);
    }
}
