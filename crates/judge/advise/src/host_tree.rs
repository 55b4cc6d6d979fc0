//! The facts of a host as files: path and text. A live host, a folder copied from a host, and a note of a log all have
//! this form.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use diskwright_counters::live::mountinfo;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{file_extents, filesystem_space, role};

/// Maximum size of a fact, bytes; a longer file, such as the interrupts of hundreds of processors, is truncated.
const MAX_FACT_BYTES: u64 = 1 << 20;
/// Maximum number of names that match a part of a pattern; if a host has more, only the first are judged.
const MAX_ENTRIES: usize = 4096;

/// Files of a host that describe its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostTree {
    /// Text by path below the root, without a slash before it: `sys/block/sda/queue/scheduler`.
    pub files: BTreeMap<String, String>,
    /// Targets of links, by path below the root: `sys/devices/pci0000:00/…`.
    #[serde(rename = "places")]
    pub link_targets: BTreeMap<String, String>,
    /// Files that exist and could not be read, with the reason.
    #[serde(rename = "lacking")]
    pub unreadable: BTreeMap<String, String>,
}

/// Reason why a fact is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeGap {
    /// The host has no such file.
    Absent,
    /// The file exists and cannot be read.
    Refused(String),
}

/// Patterns of the files that are read from a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactsFile {
    /// Settings, and facts that change with hardware and software.
    settings: Vec<String>,
    /// Facts that change by themselves: counts, free space.
    moving: Vec<String>,
    /// Files that are read from each folder on the path from the root of the devices to a disk.
    ancestors: Vec<String>,
    /// Links whose target is a fact.
    links: Vec<String>,
}

fn fact_patterns() -> &'static FactsFile {
    static FACTS: OnceLock<FactsFile> = OnceLock::new();
    FACTS.get_or_init(|| {
        diskwright_base::toml_reader::read("facts.toml", include_str!("data/facts.toml"))
            .unwrap_or_else(|wrong| panic!("{wrong}"))
    })
}

impl HostTree {
    /// Reads a host below a root: `/`, or a folder with its files.
    #[must_use]
    pub fn read(root: &Path) -> HostTree {
        let mut reader = TreeReader {
            root,
            real_root: fs::canonicalize(root).ok(),
            tree: HostTree::default(),
            folder_names: HashMap::new(),
        };
        let facts = fact_patterns();
        for pattern in facts.settings.iter().chain(&facts.moving) {
            reader.read_pattern(pattern);
        }
        facts.links.iter().for_each(|pattern| reader.read_links(pattern));
        reader.read_ancestors(&facts.ancestors);
        let mut tree = reader.tree;
        filesystem_space::add_space(&mut tree, root);
        tree.add_extents(root);
        role::add_programs(&mut tree, root);
        tree
    }

    /// Adds how fragmented the largest open files are, if a disk rotates: flash needs no seeks. For a copy of another
    /// host's files, the text in the copy is used.
    fn add_extents(&mut self, root: &Path) {
        let name = file_extents::EXTENTS_FILE;
        if root != Path::new("/") {
            self.files.extend(fs::read_to_string(root.join(name)).ok().map(|text| (name.into(), text)));
            return;
        }
        let rotates = |(path, text): (&String, &String)| path.ends_with("/queue/rotational") && text.trim() == "1";
        let Some(mountinfo) = self.get("proc/self/mountinfo").filter(|_| self.files.iter().any(rotates)) else {
            return;
        };
        let (lines, because) = file_extents::read_scatter(mountinfo);
        if !lines.is_empty() {
            self.files.insert(name.into(), lines.join("\n"));
        }
        self.unreadable.extend(because.map(|because| (name.into(), because)));
    }

    /// Returns the text of a file.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn text_of(&self, path: &str) -> Result<&str, TreeGap> {
        match (self.files.get(path), self.unreadable.get(path)) {
            (Some(text), _) => Ok(text),
            (None, Some(because)) => Err(TreeGap::Refused(because.clone())),
            (None, None) => Err(TreeGap::Absent),
        }
    }

    /// Returns the text of a file; `None` if there is none, for whatever reason.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns the number at the beginning of a file. Negative numbers are not read: no setting has one.
    #[must_use]
    pub fn number_in(&self, path: &str) -> Option<f64> {
        first_number(self.get(path)?)
    }

    /// Returns the names in a folder, sorted, including files that cannot be read.
    #[must_use]
    pub fn names_in(&self, folder: &str) -> Vec<&str> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let mut names: Vec<&str> = self
            .files
            .keys()
            .chain(self.link_targets.keys())
            .chain(self.unreadable.keys())
            .filter_map(|path| path.strip_prefix(&prefix)?.split('/').next())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Target of a device's link: `sys/devices/pci0000:00/…`.
    #[must_use]
    pub fn link_target(&self, link: &str) -> Option<&str> {
        self.link_targets.get(link).map(String::as_str)
    }

    /// Returns true if this path, or anything below it, is known.
    #[must_use]
    pub fn has_any_below(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let is_known = |keys: &BTreeMap<String, String>| {
            keys.contains_key(path)
                || keys.range(folder.clone()..).next().is_some_and(|(key, _)| key.starts_with(&folder))
        };
        is_known(&self.files) || is_known(&self.link_targets)
    }

    /// Returns the tree for a log, without facts that are long and change all the time.
    #[must_use]
    pub fn for_log(mut self) -> HostTree {
        self.files.remove("proc/interrupts");
        self
    }

    /// Returns the tree without facts that change by themselves: two such trees are equal if nobody changed anything.
    #[must_use]
    pub fn without_moving(&self) -> HostTree {
        let facts = fact_patterns();
        let is_moving = |path: &str| {
            let mut patterns = facts.moving.iter().flat_map(|pattern| expand_braces(pattern));
            patterns.any(|pattern| matches_pattern(&pattern, path))
                || matches!(path, filesystem_space::SPACE_FILE | file_extents::EXTENTS_FILE | role::PROCESSES_FILE)
        };
        let keep_settings = |facts: &BTreeMap<String, String>| {
            facts.iter().filter(|(path, _)| !is_moving(path)).map(|(path, text)| (path.clone(), text.clone())).collect()
        };
        let mut files: BTreeMap<String, String> = keep_settings(&self.files);
        // the use of a swap area changes, and containers add and remove mounts without a disk
        files.entry("proc/swaps".into()).and_modify(|text| *text = strip_swap_usage(text));
        files.entry("proc/self/mountinfo".into()).and_modify(|text| *text = lasting_mounts(text));
        let unreadable = keep_settings(&self.unreadable);
        HostTree { files, link_targets: self.link_targets.clone(), unreadable }
    }
}

/// Parses the first word of a text, if it is a plain number of zero or more: not `nan`, `1e9`, `0x10` or `-3`.
pub(crate) fn first_number(text: &str) -> Option<f64> {
    let word = text.split_whitespace().next()?;
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    word.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

/// Removes the column of used space from `/proc/swaps`; other text is returned unchanged.
fn strip_swap_usage(text: &str) -> String {
    let area = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().take(3).chain(words.last()).copied().collect::<Vec<_>>().join(" ")
    };
    text.lines().map(area).collect::<Vec<_>>().join("\n")
}

/// Keeps the lines of mounts on disks or other machines.
fn lasting_mounts(text: &str) -> String {
    let is_lasting = |line: &&str| {
        let mounts = mountinfo::parse_mounts(line.as_bytes());
        mounts.iter().any(|mount| mount.is_on_disk() || mount.is_remote() || mount.point == "/")
    };
    text.lines().filter(is_lasting).collect::<Vec<_>>().join("\n")
}

/// Returns true if the kernel's error means that the device does not have the setting that the file stands for.
fn is_missing_setting(error: &std::io::Error) -> bool {
    let errors = [Errno::INVAL, Errno::NODEV, Errno::NODATA, Errno::NXIO, Errno::NOENT, Errno::OPNOTSUPP, Errno::NOSYS];
    errors.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Describes why something that exists could not be read.
fn refusal_reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "only root can read it".into(),
        _ => format!("reading it failed: {error}"),
    }
}

/// Reads the facts of a host into a tree.
struct TreeReader<'a> {
    root: &'a Path,
    /// The root without symbolic links.
    real_root: Option<PathBuf>,
    tree: HostTree,
    /// Names in each folder, sorted. Each folder is listed once, because most patterns match no file of this host.
    folder_names: HashMap<String, Rc<Vec<String>>>,
}

impl TreeReader<'_> {
    fn read_pattern(&mut self, pattern: &str) {
        for pattern in expand_braces(pattern) {
            for path in self.expand_pattern(&pattern) {
                self.read_file(path);
            }
        }
    }

    fn read_file(&mut self, path: String) {
        if !self.is_listed(&path) {
            return;
        }
        let mut bytes = Vec::new();
        // reading a pipe in a copied folder would block
        let file = self.root.join(&path);
        if !fs::metadata(&file).is_ok_and(|metadata| metadata.is_file()) {
            return;
        }
        let read = fs::File::open(&file).and_then(|file| file.take(MAX_FACT_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => {
                let text = String::from_utf8_lossy(&bytes);
                // one processor stands for all
                let text = if path == "proc/cpuinfo" { text.split("\n\n").next().unwrap_or_default() } else { &text };
                self.tree.files.insert(path, text.trim_end_matches(['\n', '\0', ' ']).to_owned());
            }
            Err(error) if is_missing_setting(&error) => {}
            Err(error) => _ = self.tree.unreadable.insert(path, refusal_reason(&error)),
        }
    }

    fn read_links(&mut self, pattern: &str) {
        for pattern in expand_braces(pattern) {
            for path in self.expand_pattern(&pattern) {
                let Some(target) = self.resolve_link(&path) else { continue };
                self.tree.link_targets.insert(path, target);
            }
        }
    }

    /// Resolves a link below the root. A link of a copied folder may be dangling.
    fn resolve_link(&mut self, path: &str) -> Option<String> {
        if !self.is_listed(path) {
            return None;
        }
        let link = self.root.join(path);
        if !fs::symlink_metadata(&link).ok()?.is_symlink() {
            return None;
        }
        let root = self.real_root.as_ref()?;
        if let Ok(target) = fs::canonicalize(&link) {
            let inside = target.strip_prefix(root).map(|inside| inside.to_string_lossy().into_owned());
            // an absolute link of a copied folder points into this host
            return inside.ok().or_else(|| Some(fs::read_link(&link).ok()?.to_string_lossy().into_owned()));
        }
        Some(fs::read_link(&link).ok()?.to_string_lossy().into_owned())
    }

    /// Reads files of the folders on the path from the root of the devices to each disk.
    fn read_ancestors(&mut self, patterns: &[String]) {
        let mut folders: Vec<String> = Vec::new();
        let targets: Vec<String> = self.tree.link_targets.values().cloned().collect();
        for target in targets.iter().filter(|target| target.starts_with("sys/devices/")) {
            let mut folder = Path::new(target);
            while let Some(parent) = folder.parent().filter(|parent| parent.components().count() > 2) {
                folders.push(parent.to_string_lossy().into_owned());
                folder = parent;
            }
        }
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            for pattern in patterns {
                self.read_pattern(&format!("{folder}/{pattern}"));
            }
        }
    }

    /// Returns the names in a folder, sorted; none if it cannot be read.
    fn list_folder(&mut self, folder: &str) -> Rc<Vec<String>> {
        if let Some(names) = self.folder_names.get(folder) {
            return Rc::clone(names);
        }
        let mut names = read_folder(&self.root.join(folder)).unwrap_or_else(|error| {
            let is_missing =
                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) || is_missing_setting(&error);
            if !is_missing {
                self.tree.unreadable.insert(folder.to_owned(), refusal_reason(&error));
            }
            Vec::new()
        });
        names.sort_unstable();
        let names = Rc::new(names);
        self.folder_names.insert(folder.to_owned(), Rc::clone(&names));
        names
    }

    fn is_listed(&mut self, path: &str) -> bool {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.list_folder(folder).binary_search_by(|known| known.as_str().cmp(name)).is_ok()
    }

    /// Returns the paths below the root that match a pattern without braces. Only parts with a star are looked up.
    fn expand_pattern(&mut self, pattern: &str) -> Vec<String> {
        let mut paths = vec![String::new()];
        for part in pattern.split('/') {
            if !part.contains('*') {
                paths.iter_mut().for_each(|path| *path = join_path(path, part));
                continue;
            }
            let mut deeper = Vec::new();
            for path in &paths {
                let names = self.list_folder(path);
                let matching = names.iter().filter(|name| matches_part(part, name)).take(MAX_ENTRIES);
                deeper.extend(matching.map(|name| join_path(path, name)));
            }
            paths = deeper;
        }
        paths
    }
}

fn read_folder(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn join_path(path: &str, part: &str) -> String {
    if path.is_empty() { part.to_owned() } else { format!("{path}/{part}") }
}

/// Expands `a/{b,c}/d` to `a/b/d` and `a/c/d`; one level of braces.
fn expand_braces(pattern: &str) -> Vec<String> {
    let parts = pattern.split_once('{').and_then(|(before, tail)| Some((before, tail.split_once('}')?)));
    let Some((before, (inner, after))) = parts else { return vec![pattern.to_owned()] };
    inner.split(',').flat_map(|word| expand_braces(&format!("{before}{word}{after}"))).collect()
}

/// Matches a name against a pattern with at most one star.
fn matches_part(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
        }
    }
}

fn matches_pattern(pattern: &str, path: &str) -> bool {
    let (mut parts, mut names) = (pattern.split('/'), path.split('/'));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if matches_part(part, name) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_counters::live::fake::FakeMachine;

    #[test]
    fn patterns_support_braces_and_stars() {
        assert_eq!(expand_braces("a/{b,c}/{d,e}"), ["a/b/d", "a/b/e", "a/c/d", "a/c/e"]);
        assert!(matches_pattern("sys/block/*/queue/x", "sys/block/sda/queue/x"));
        assert!(!matches_pattern("sys/block/*/queue/x", "sys/block/sda/sda1/queue/x"));
        assert!(matches_part("dev-*", "dev-sda1") && !matches_part("dev-*", "rd0") && !matches_part("a*a", "a"));
    }

    #[test]
    fn follows_links_below_the_root() {
        let machine = FakeMachine::new();
        machine
            .put_file("sys/devices/pci0000:00/0000:00:1d.0/current_link_speed", "8.0 GT/s PCIe\n")
            .put_file("sys/devices/pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1/queue/scheduler", "[none] mq-deadline\n")
            .put_link("sys/block/nvme0n1", "../devices/pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1");
        let tree = HostTree::read(machine.folder());
        assert_eq!(tree.get("sys/block/nvme0n1/queue/scheduler"), Some("[none] mq-deadline"));
        assert_eq!(
            tree.link_target("sys/block/nvme0n1"),
            Some("sys/devices/pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1")
        );
        assert_eq!(tree.get("sys/devices/pci0000:00/0000:00:1d.0/current_link_speed"), Some("8.0 GT/s PCIe"));
        assert_eq!(tree.text_of("sys/block/nvme0n1/queue/wbt_lat_usec"), Err(TreeGap::Absent));
        assert_eq!(tree.names_in("sys/block"), ["nvme0n1"]);
        assert!(tree.has_any_below("sys/block/nvme0n1/queue") && !tree.has_any_below("sys/block/nvme"));
    }

    #[test]
    fn moving_facts_are_no_change() {
        let machine = FakeMachine::new();
        machine.put_file("proc/sys/vm/swappiness", "60\n").put_file("proc/sys/fs/aio-nr", "12\n");
        let before = HostTree::read(machine.folder());
        machine.put_file("proc/sys/fs/aio-nr", "99\n");
        let after = HostTree::read(machine.folder());
        assert_ne!(before, after);
        assert_eq!(before.without_moving(), after.without_moving());
        machine.put_file("proc/sys/vm/swappiness", "10\n");
        assert_ne!(before.without_moving(), HostTree::read(machine.folder()).without_moving());
    }

    #[test]
    fn parses_plain_numbers_only() {
        let numbers = ["30", "8.0 GT/s PCIe", " 4\t2", "18446744073709551616"].map(first_number);
        assert_eq!(numbers, [Some(30.0), Some(8.0), Some(4.0), Some(18_446_744_073_709_551_616.0)]);
        for text in ["", "nan", "inf", "1e9", "-1", "0x10", "<unknown>", "1.2.3", &"9".repeat(400)] {
            assert_eq!(first_number(text), None, "{text}");
        }
    }

    #[test]
    fn read_error_is_a_refusal_unless_the_setting_is_missing() {
        let error = |errno: Errno| std::io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(is_missing_setting(&error(Errno::INVAL)) && is_missing_setting(&error(Errno::OPNOTSUPP)));
        assert!(!is_missing_setting(&error(Errno::IO)) && !is_missing_setting(&error(Errno::ACCESS)));
        assert_eq!(refusal_reason(&error(Errno::ACCESS)), "only root can read it");
        assert!(refusal_reason(&error(Errno::IO)).starts_with("reading it failed: Input/output error"));
    }

    #[test]
    fn swap_usage_and_container_mounts_are_no_change() {
        let tree = |swaps: &str, mounts: &str| {
            let files = [("proc/swaps", swaps), ("proc/self/mountinfo", mounts)];
            let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
            HostTree { files: files.into(), ..HostTree::default() }.without_moving()
        };
        let (root, area) = ("21 1 8:1 / / rw - ext4 /dev/sda1 rw", "Filename Type Size Used Priority\n/dev/sdb ");
        let before = tree(&format!("{area}partition 100 0 -2"), root);
        let container = format!("{root}\n90 21 0:50 / /run/made-up rw - overlay overlay rw");
        assert_eq!(before, tree(&format!("{area}partition 100 77 -2"), &container));
        assert_eq!(before, before.without_moving(), "settling again changes nothing");
        assert_ne!(before, tree(&format!("{area}partition 100 0 5"), root));
        assert_ne!(before, tree(&format!("{area}partition 100 0 -2"), &root.replace("rw -", "ro -")));
    }
}
