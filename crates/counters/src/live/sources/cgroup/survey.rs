//! Which control groups there are, and which of them are worth following.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use diskwright_base::Note;

use crate::live::held::{read_bytes, read_number, read_text};
use crate::live::moment::TickContext;
use crate::live::mountinfo;
use crate::live::sources::topology;

use super::files::{CgroupValues, FILES, Hierarchy, IO_LIMITS, of_group};
use crate::live::totals::ABSENT;

/// At most so many folders are looked at in a survey.
const MOST_FOLDERS: usize = 4000;
/// And at most so deep.
const DEEPEST: usize = 16;
/// I/O between two surveys that makes a group worth following, bytes.
const MUCH_IO: u64 = 1 << 20;
/// Share of the machine's memory that makes a group worth following.
const MUCH_MEMORY: f64 = 0.05;

/// Where the hierarchies are mounted.
#[derive(Debug, Default)]
pub(super) struct CgroupMounts {
    roots: Vec<(Hierarchy, PathBuf)>,
    memory_bytes: u64,
}

impl CgroupMounts {
    /// Finds them, and tells what is missing.
    pub fn find(context: &mut TickContext) -> CgroupMounts {
        let mounts = mountinfo::read(context.roots);
        let mut roots = Vec::new();
        for hierarchy in Hierarchy::ALL {
            let is = |m: &&mountinfo::Mount| match hierarchy {
                Hierarchy::Unified => m.kind == "cgroup2",
                other => m.kind == "cgroup" && m.options.split(',').any(|o| o == other.controller()),
            };
            if let Some(mount) = mounts.iter().find(is) {
                roots.push((hierarchy, context.roots.at(&mount.point)));
            }
        }
        let found = CgroupMounts { memory_bytes: memory_bytes(context), roots };
        found.tell(context);
        found
    }

    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    fn root(&self, hierarchy: Hierarchy) -> Option<&Path> {
        self.roots.iter().find(|(h, _)| *h == hierarchy).map(|(_, folder)| folder.as_path())
    }

    fn tell(&self, context: &mut TickContext) {
        if self.is_empty() {
            context.notes.push(
                context.time_ns,
                Note::UNSEEN,
                "no control groups are mounted: their limits are not seen",
            );
            return;
        }
        let Some(unified) = self.root(Hierarchy::Unified) else { return };
        let controllers = read_text(&unified.join("cgroup.controllers")).unwrap_or_default();
        let lacks = |name: &str| !controllers.split_whitespace().any(|c| c == name);
        for (name, hierarchy) in [("io", Hierarchy::Blkio), ("memory", Hierarchy::Memory)] {
            if lacks(name) && self.root(hierarchy).is_none() {
                let text = format!("control groups: the {name} controller is missing, so its limits are not seen");
                context.notes.push(context.time_ns, Note::UNSEEN, text);
            }
        }
    }
}

fn memory_bytes(context: &TickContext) -> u64 {
    topology::memory(&read_bytes(&context.roots.proc.join("meminfo")).unwrap_or_default())
}

/// A group and its folder in each hierarchy.
type CgroupFolders = (String, Vec<(Hierarchy, PathBuf)>);

/// Remembers what groups did up to the last survey.
#[derive(Debug, Default)]
pub(super) struct Surveyor {
    bytes: HashMap<String, u64>,
}

/// What makes a group worth following; the greater, the more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Interest {
    limited: bool,
    io_bytes: u64,
    memory_bytes: u64,
}

impl Surveyor {
    /// Groups that are worth following and not known yet, the best first.
    pub fn survey(
        &mut self,
        mounts: &CgroupMounts,
        context: &mut TickContext,
        known: impl Fn(&str) -> bool,
    ) -> Vec<CgroupFolders> {
        let mut groups: BTreeMap<String, Vec<(Hierarchy, PathBuf)>> = BTreeMap::new();
        let mut complete = true;
        for (hierarchy, root) in &mounts.roots {
            let mut left = MOST_FOLDERS;
            walk(root, "", DEEPEST, &mut left, &mut |path, folder| {
                groups.entry(path).or_default().push((*hierarchy, folder));
            });
            complete &= left > 0;
        }
        if !complete {
            let text = format!("there are more than {MOST_FOLDERS} control groups; the others are ignored");
            context.notes.limited(context.time_ns, Note::UNSEEN, "cgroup folders", || text);
        }
        let mut bytes = HashMap::new();
        let mut found: Vec<(Interest, CgroupFolders)> = Vec::new();
        for (path, folders) in groups {
            if known(&path) {
                continue;
            }
            let (interest, total) = self.interest(&path, &folders);
            bytes.insert(path.clone(), total);
            let much = interest.memory_bytes as f64 > MUCH_MEMORY * mounts.memory_bytes as f64;
            // the root's memory and I/O are the machine's
            if interest.limited || (path != "/" && (interest.io_bytes >= MUCH_IO || much)) {
                found.push((interest, (path, folders)));
            }
        }
        self.bytes = bytes;
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.0.cmp(&b.1.0)));
        found.into_iter().map(|(_, group)| group).collect()
    }

    /// How interesting a group is, and the bytes it ever moved.
    fn interest(&self, path: &str, folders: &[(Hierarchy, PathBuf)]) -> (Interest, u64) {
        const WANTED: [&str; 11] = [
            "io.stat",
            "io.max",
            "memory.current",
            "memory.max",
            "memory.high",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "blkio.throttle.io_service_bytes",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
            "blkio.throttle.read_bps_device",
        ];
        let mut values = CgroupValues::new();
        let wanted = |name: &str| WANTED.contains(&name) || name == "blkio.throttle.write_bps_device";
        for kind in FILES.iter().filter(|kind| wanted(kind.name)) {
            let Some((_, folder)) = folders.iter().find(|(h, _)| *h == kind.hierarchy) else { continue };
            if let Ok(text) = read_bytes(&folder.join(kind.name)) {
                (kind.read)(&text, &mut values);
            }
        }
        let present = |value: u64| if value == ABSENT { 0 } else { value };
        let total =
            values.io.iter().flat_map(|io| &io.numbers[2..4]).fold(0, |s: u64, n| s.saturating_add(present(*n)));
        let limits = [of_group::MEMORY_LIMIT, of_group::MEMORY_HIGH].map(|column| values.group[column]);
        let limited = limits.iter().any(|limit| *limit != ABSENT)
            || values.io.iter().any(|io| io.numbers[IO_LIMITS..].iter().any(|limit| *limit != ABSENT))
            || has_cpu_limit(folders);
        let before = self.bytes.get(path).copied().unwrap_or(total);
        let io_bytes = total.saturating_sub(before);
        (Interest { limited, io_bytes, memory_bytes: present(values.group[of_group::MEMORY]) }, total)
    }
}

/// `max 100000` in version 2 and -1 in version 1 are no limits.
fn has_cpu_limit(folders: &[(Hierarchy, PathBuf)]) -> bool {
    folders.iter().any(|(hierarchy, folder)| match hierarchy {
        Hierarchy::Unified => read_text(&folder.join("cpu.max")).is_some_and(|t| !t.starts_with("max")),
        Hierarchy::Cpu => read_number(&folder.join("cpu.cfs_quota_us")).is_some(),
        _ => false,
    })
}

fn walk(folder: &Path, path: &str, deeper: usize, left: &mut usize, found: &mut impl FnMut(String, PathBuf)) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    found(if path.is_empty() { "/".into() } else { path.into() }, folder.to_owned());
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    if deeper == 0 {
        return;
    }
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        let path = format!("{path}/{}", entry.file_name().to_string_lossy());
        walk(&entry.path(), &path, deeper - 1, left, found);
    }
}
