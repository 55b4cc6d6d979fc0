//! Search for the control groups that are worth following.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskwright_base::Note;

use crate::live::Roots;
use crate::live::mountinfo;
use crate::live::open_file::{OpenFile, read_bytes, read_text};
use crate::live::sources::topology;
use crate::live::text_scan::{parse_number, trim_blanks};
use crate::live::tick_context::TickContext;

use super::files::{CgroupValues, FILES, FileKind, Hierarchy, IO_LIMITS_COLUMN, group_column};
use crate::live::counter_table::ABSENT;
use crate::live::watched_read::watch_read;

/// Largest number of folders that are visited in each hierarchy during a walk.
const MAX_FOLDERS: usize = 4000;
/// Greatest depth of folders that are visited.
const MAX_DEPTH: usize = 16;
/// Least I/O between two surveys that makes a group worth following, bytes.
const MIN_IO_BYTES: u64 = 1 << 20;
/// Share of the machine's memory above which a group is worth following.
const MIN_MEMORY_SHARE: f64 = 0.05;

/// Mount points of the hierarchies, and the machine's memory.
#[derive(Debug, Default)]
pub(super) struct CgroupMounts {
    roots: Vec<(Hierarchy, PathBuf)>,
    memory_bytes: u64,
}

impl CgroupMounts {
    /// Finds the mounts, and notes missing controllers.
    pub fn find_mounts(context: &mut TickContext) -> CgroupMounts {
        let mounts = mountinfo::read_mounts(context.roots);
        let mut roots = Vec::new();
        for hierarchy in Hierarchy::ALL {
            let is_mount = |m: &&mountinfo::Mount| match hierarchy {
                Hierarchy::Unified => m.kind == "cgroup2",
                other => m.kind == "cgroup" && m.options.split(',').any(|o| o == other.controller()),
            };
            if let Some(mount) = mounts.iter().find(is_mount) {
                roots.push((hierarchy, context.roots.resolve_path(&mount.point)));
            }
        }
        let found = CgroupMounts { memory_bytes: machine_memory_bytes(context), roots };
        found.note_missing(context);
        found
    }

    /// Returns true if no hierarchy is mounted.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    fn hierarchy_root(&self, hierarchy: Hierarchy) -> Option<&Path> {
        self.roots.iter().find(|(h, _)| *h == hierarchy).map(|(_, folder)| folder.as_path())
    }

    fn note_missing(&self, context: &mut TickContext) {
        if self.is_empty() {
            context.notes.push(context.time_ns, Note::UNSEEN, "no cgroups are mounted: their limits are not seen");
            return;
        }
        let Some(unified) = self.hierarchy_root(Hierarchy::Unified) else { return };
        let controllers = read_text(&unified.join("cgroup.controllers")).unwrap_or_default();
        let lacks = |name: &str| !controllers.split_whitespace().any(|c| c == name);
        for (name, hierarchy) in [("io", Hierarchy::Blkio), ("memory", Hierarchy::Memory)] {
            if lacks(name) && self.hierarchy_root(hierarchy).is_none() {
                let text = format!("cgroups: the {name} controller is missing, so its limits are not seen");
                context.notes.push(context.time_ns, Note::UNSEEN, text);
            }
        }
    }
}

fn machine_memory_bytes(context: &TickContext) -> u64 {
    topology::memory_bytes(&read_bytes(&context.roots.proc.join("meminfo")).unwrap_or_default())
}

/// A group and its folder in each hierarchy.
type CgroupFolders = (String, Vec<(Hierarchy, PathBuf)>);

/// Files of a group that decide if it is worth following.
const SURVEY_FILES: [&str; 12] = [
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
    "blkio.throttle.write_bps_device",
];
/// Time after which folders are walked again even if the counts are unchanged, nanoseconds: files appear in existing
/// groups.
const MAX_WALK_AGE_NS: u64 = 60_000_000_000;
/// Largest number of groups that are kept from survey to survey; if there are more, none are kept.
const MAX_KEPT_GROUPS: usize = 256;
/// Largest number of the groups' files that stay open; the others are opened for each read.
const MAX_OPEN_FILES: usize = 100;

/// A group with the files that are read in a survey.
struct SurveyedGroup {
    path: String,
    folders: Vec<(Hierarchy, PathBuf)>,
    files: Vec<(OpenFile, &'static FileKind)>,
    processor: Vec<(OpenFile, Hierarchy)>,
}

/// Searches for groups; keeps their files, and the I/O of each up to the last survey.
pub(super) struct Surveyor {
    /// Number of groups in each hierarchy: while these are unchanged and every known group exists, no group is new.
    counts: OpenFile,
    /// Text of `counts` at the last walk of the folders, and the time of the walk.
    last_walk: Option<(Vec<u8>, u64)>,
    groups: Vec<SurveyedGroup>,
    io_bytes: HashMap<String, u64>,
    text: Vec<u8>,
}

/// Properties that make a group worth following; the group with the greatest interest is followed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Interest {
    is_limited: bool,
    io_bytes: u64,
    memory_bytes: u64,
}

impl Surveyor {
    /// Creates a surveyor that knows no group yet.
    pub fn new(roots: &Roots) -> Surveyor {
        Surveyor {
            counts: OpenFile::in_one_read(roots.proc.join("cgroups"), "").without_notes(),
            last_walk: None,
            groups: Vec::new(),
            io_bytes: HashMap::new(),
            text: Vec::new(),
        }
    }

    /// Finds groups that are worth following and not known yet, those of greatest interest first.
    pub fn find_interesting(
        &mut self,
        mounts: &CgroupMounts,
        context: &mut TickContext,
        known: impl Fn(&str) -> bool,
    ) -> Vec<CgroupFolders> {
        let counts = self.counts.read(context).map(<[u8]>::to_vec);
        let is_unchanged = |(text, time_ns): &(Vec<u8>, u64)| {
            counts.as_ref() == Some(text) && context.running_ns.saturating_sub(*time_ns) < MAX_WALK_AGE_NS
        };
        let mut is_new = self.last_walk.as_ref().is_none_or(|walk| !is_unchanged(walk));
        let found = loop {
            if is_new {
                self.walk_hierarchies(mounts, context);
            }
            match self.read_groups(mounts, context, &known, is_new) {
                Some(found) => break found,
                // a group has gone, and a new one may have appeared
                None => is_new = true,
            }
        };
        self.last_walk =
            counts.filter(|_| self.groups.len() <= MAX_KEPT_GROUPS).map(|counts| match self.last_walk.take() {
                Some((text, time_ns)) if text == counts => (counts, time_ns),
                _ => (counts, context.running_ns),
            });
        if self.last_walk.is_none() {
            self.groups.clear();
        }
        found
    }

    /// Finds the groups and their files.
    fn walk_hierarchies(&mut self, mounts: &CgroupMounts, context: &mut TickContext) {
        self.last_walk = None;
        let mut groups: BTreeMap<String, Vec<(Hierarchy, PathBuf)>> = BTreeMap::new();
        let mut is_complete = true;
        for (hierarchy, root) in &mounts.roots {
            let mut folders_left = MAX_FOLDERS;
            walk_folder(root, "", MAX_DEPTH, &mut folders_left, &mut |path, folder| {
                groups.entry(path).or_default().push((*hierarchy, folder));
            });
            is_complete &= folders_left > 0;
        }
        if !is_complete {
            let text = format!("there are more than {MAX_FOLDERS} cgroups; the others are ignored");
            context.notes.push_limited(context.time_ns, Note::UNSEEN, "cgroup folders", || text);
        }
        let keeps_groups = groups.len() <= MAX_KEPT_GROUPS;
        let mut open_count = 0;
        let group = |(path, folders): CgroupFolders| {
            let group = SurveyedGroup::open_files(path, folders, keeps_groups && open_count < MAX_OPEN_FILES);
            open_count += group.files.len() + group.processor.len();
            group
        };
        self.groups = groups.into_iter().map(group).collect();
    }

    /// Reads the files of the groups and returns those worth following; `None` if a group has gone since the walk.
    fn read_groups(
        &mut self,
        mounts: &CgroupMounts,
        context: &mut TickContext,
        known: &impl Fn(&str) -> bool,
        is_new: bool,
    ) -> Option<Vec<CgroupFolders>> {
        let mut bytes = HashMap::new();
        let mut found: Vec<(Interest, CgroupFolders)> = Vec::new();
        for group in &mut self.groups {
            // a followed group is checked where it is read
            if known(&group.path) {
                continue;
            }
            if !is_new && group.has_gone() {
                return None;
            }
            let (mut interest, total) = group.read_interest(context, &mut self.text, is_new)?;
            let before = self.io_bytes.get(&group.path).copied().unwrap_or(total);
            interest.io_bytes = total.saturating_sub(before);
            bytes.insert(group.path.clone(), total);
            let uses_much_memory = interest.memory_bytes as f64 > MIN_MEMORY_SHARE * mounts.memory_bytes as f64;
            // the root's memory and I/O are those of the whole machine
            if interest.is_limited || (group.path != "/" && (interest.io_bytes >= MIN_IO_BYTES || uses_much_memory)) {
                found.push((interest, (group.path.clone(), group.folders.clone())));
            }
        }
        self.io_bytes = bytes;
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.0.cmp(&b.1.0)));
        Some(found.into_iter().map(|(_, group)| group).collect())
    }
}

impl SurveyedGroup {
    fn open_files(path: String, folders: Vec<(Hierarchy, PathBuf)>, stays_open: bool) -> SurveyedGroup {
        let open_file = |file: PathBuf| {
            file.exists().then(|| OpenFile::in_one_read(file, "").allow_empty().without_notes().keep_open(stays_open))
        };
        let open_kind = |kind: &'static FileKind| {
            let (_, folder) = folders.iter().find(|(h, _)| *h == kind.hierarchy)?;
            Some((open_file(folder.join(kind.name))?, kind))
        };
        let files = FILES.iter().filter(|kind| SURVEY_FILES.contains(&kind.name)).filter_map(open_kind).collect();
        let open_processor_limit = |(hierarchy, folder): &(Hierarchy, PathBuf)| {
            let name = match hierarchy {
                Hierarchy::Unified => "cpu.max",
                Hierarchy::Cpu => "cpu.cfs_quota_us",
                _ => return None,
            };
            Some((open_file(folder.join(name))?, *hierarchy))
        };
        let processor = folders.iter().filter_map(open_processor_limit).collect();
        SurveyedGroup { path, folders, files, processor }
    }

    /// Returns true if the group is gone. One file stands for all its folders: if the group is gone from another
    /// hierarchy, its files there fail to read. A group without files contributes nothing.
    fn has_gone(&self) -> bool {
        self.files.first().is_some_and(|(file, _)| !file.path().exists())
    }

    /// Returns the group's interest, and the total bytes that it moved. Files that fail at the first read are dropped;
    /// `None` where a file fails that could be read before: its group has gone.
    fn read_interest(
        &mut self,
        context: &mut TickContext,
        text: &mut Vec<u8>,
        is_new: bool,
    ) -> Option<(Interest, u64)> {
        let mut values = CgroupValues::new();
        let (mut is_limited, mut has_gone) = (false, false);
        self.files.retain_mut(|(file, kind)| {
            let length = file.read_into(context, text);
            length.into_iter().for_each(|length| (kind.read)(&text[..length], &mut values));
            has_gone |= length.is_none();
            length.is_some()
        });
        self.processor.retain_mut(|(file, hierarchy)| {
            let length = file.read_into(context, text);
            is_limited |= length.is_some_and(|length| is_cpu_limit(*hierarchy, &text[..length]));
            has_gone |= length.is_none();
            length.is_some()
        });
        if has_gone && !is_new {
            return None;
        }
        let or_zero = |value: u64| if value == ABSENT { 0 } else { value };
        let total =
            values.io.iter().flat_map(|io| &io.numbers[2..4]).fold(0, |s: u64, n| s.saturating_add(or_zero(*n)));
        let limits = [group_column::MEMORY_LIMIT, group_column::MEMORY_HIGH].map(|column| values.group[column]);
        is_limited |= limits.iter().any(|limit| *limit != ABSENT)
            || values.io.iter().any(|io| io.numbers[IO_LIMITS_COLUMN..].iter().any(|limit| *limit != ABSENT));
        Some((Interest { is_limited, io_bytes: 0, memory_bytes: or_zero(values.group[group_column::MEMORY]) }, total))
    }
}

/// Returns true for a limit: `max 100000` in version 2 and -1 in version 1 mean no limit.
fn is_cpu_limit(hierarchy: Hierarchy, text: &[u8]) -> bool {
    match hierarchy {
        Hierarchy::Unified => !text.starts_with(b"max"),
        _ => parse_number(trim_blanks(text)).is_some(),
    }
}

fn walk_folder(
    folder: &Path,
    path: &str,
    depth_left: usize,
    folders_left: &mut usize,
    on_group: &mut impl FnMut(String, PathBuf),
) {
    if *folders_left == 0 {
        return;
    }
    *folders_left -= 1;
    on_group(if path.is_empty() { "/".into() } else { path.into() }, folder.to_owned());
    // a folder has two links, and one more from each folder in it, so 2 means no subfolders; filesystems that do not
    // count links show 1
    let has_no_subfolders = watch_read(folder, || std::fs::metadata(folder)).is_ok_and(|folder| folder.nlink() == 2);
    if depth_left == 0 || has_no_subfolders {
        return;
    }
    let Ok(entries) = watch_read(folder, || std::fs::read_dir(folder)) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        let path = format!("{path}/{}", entry.file_name().to_string_lossy());
        walk_folder(&entry.path(), &path, depth_left - 1, folders_left, on_group);
    }
}
