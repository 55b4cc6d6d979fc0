//! The files that a shell loop sends, in a private folder, where the sampler reads them as if they were this machine's.
//! A file that was not sent again at a tick is gone there, and is removed here.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Largest number of files and links.
const MAX_FILES: usize = 100_000;
/// Largest size of all files, bytes.
const MAX_TREE_BYTES: usize = 64 << 20;
/// Largest number of folders that all targets of links together may need.
const MAX_LINK_FOLDERS: usize = 200_000;
/// Longest path, bytes.
const MAX_PATH_BYTES: usize = 500;
/// Largest number of links that are followed in a path, as many as Linux follows.
const MAX_LINKS_IN_PATH: usize = 40;
/// Folders that may be sent.
const SENT_FOLDERS: [&str; 3] = ["/proc/", "/sys/", "/etc/passwd"];

/// State of a file.
struct SentFile {
    bytes: usize,
    /// Number of the last tick that brought it.
    last_tick: u64,
    /// True for one that is sent at some ticks only.
    is_fact: bool,
}

/// A tree of files of another host.
pub struct FileTree {
    files: HashMap<String, SentFile>,
    /// Links and where they lead to.
    links: HashMap<String, String>,
    /// Folders that the targets of links needed so far, those of earlier targets too.
    link_folders: usize,
    tree_bytes: usize,
    tick: u64,
    /// File that is being received.
    open_path: String,
    open_text: Vec<u8>,
    folder: TempDir,
}

impl FileTree {
    /// Creates an empty tree, in memory where that is possible.
    pub fn new() -> io::Result<FileTree> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let mut builder = tempfile::Builder::new();
        builder.prefix("diskwright-host-");
        let folder = builder.tempdir_in(&parent).or_else(|_| builder.tempdir())?;
        Ok(FileTree {
            files: HashMap::new(),
            links: HashMap::new(),
            link_folders: 0,
            tree_bytes: 0,
            tick: 0,
            open_path: String::new(),
            open_text: Vec::new(),
            folder,
        })
    }

    /// The folder that stands for `/`.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Begins a tick.
    pub fn begin_tick(&mut self) {
        self.tick += 1;
    }

    /// Adds a line of a file. Lines of a file come one after the other.
    ///
    /// # Errors
    /// When the path is none that is sent, or limits are exceeded, or the file cannot be written.
    pub fn add_line(&mut self, path: &str, text: &[u8], is_fact: bool) -> io::Result<()> {
        if path != self.open_path {
            self.close_file()?;
            check_path(path)?;
            path.clone_into(&mut self.open_path);
            let is_new = !self.files.contains_key(path);
            if is_new && self.files.len() >= MAX_FILES {
                return Err(refused("more than 100,000 files"));
            }
            let file = self.files.entry(path.to_owned()).or_insert(SentFile { bytes: 0, last_tick: 0, is_fact });
            file.last_tick = self.tick;
        }
        if self.tree_bytes + self.open_text.len() + text.len() > MAX_TREE_BYTES {
            return Err(refused("files of more than 64 MiB"));
        }
        self.open_text.extend_from_slice(text);
        self.open_text.push(b'\n');
        Ok(())
    }

    /// Writes a file that is sent in one piece.
    ///
    /// # Errors
    /// As [`FileTree::add_line`].
    pub fn put_file(&mut self, path: &str, text: &[u8]) -> io::Result<()> {
        self.close_file()?;
        self.add_line(path, text, true)?;
        // it is no line
        self.open_text.pop();
        self.close_file()
    }

    /// Writes the file that is being received. It keeps its inode, because the sampler keeps files open.
    pub fn close_file(&mut self) -> io::Result<()> {
        if self.open_path.is_empty() {
            return Ok(());
        }
        let path = std::mem::take(&mut self.open_path);
        let target = self.local_path(&path);
        if let Some(file) = self.files.get_mut(&path) {
            self.tree_bytes = self.tree_bytes - file.bytes + self.open_text.len();
            file.bytes = self.open_text.len();
        }
        let mut written = fs::write(&target, &self.open_text);
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            let folder = target.parent().unwrap_or(self.root());
            written = fs::create_dir_all(folder).and_then(|()| fs::write(&target, &self.open_text));
        }
        self.open_text.clear();
        match written {
            // the same name for a file and a folder: the first holds
            Err(error) if is_other_kind(&error) => Ok(()),
            other => other,
        }
    }

    /// Adds a link: `/sys/block/sda` to `../devices/…/sda`.
    ///
    /// # Errors
    /// When there are too many, or one leads out of the tree.
    pub fn add_link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.close_file()?;
        check_path(path)?;
        // a link below a link: `..` in its target counts from where it really is
        let path = &self.real_path(path);
        let Some(resolved) = resolve_link(path, target) else { return Ok(()) };
        if self.links.get(path).is_some_and(|known| *known == resolved) {
            return Ok(());
        }
        self.link_folders += resolved.split('/').count();
        if self.links.len() >= MAX_FILES || self.link_folders > MAX_LINK_FOLDERS {
            return Err(refused("too many links"));
        }
        let (link, folder) = (self.local_path(path), self.local_path(&resolved));
        // what it leads to is made, so that files below the link can be written
        let folders =
            fs::create_dir_all(link.parent().unwrap_or(self.root())).and_then(|()| fs::create_dir_all(&folder));
        match folders {
            Err(error) if is_other_kind(&error) => return Ok(()),
            other => other?,
        }
        let _ = fs::remove_file(&link);
        if symlink(&folder, &link).is_ok() {
            self.links.insert(path.to_owned(), resolved);
        }
        Ok(())
    }

    /// The path without the links above its last part.
    fn real_path(&self, path: &str) -> String {
        let Some((above, name)) = path.rsplit_once('/') else { return path.to_owned() };
        let mut above = above.to_owned();
        let is_link = |above: &str| {
            above
                .match_indices('/')
                .map(|(end, _)| end)
                .chain([above.len()])
                .find_map(|end| self.links.get(&above[..end]).map(|target| format!("{target}{}", &above[end..])))
        };
        for _ in 0..MAX_LINKS_IN_PATH {
            match is_link(&above) {
                Some(longer) => above = longer,
                None => break,
            }
        }
        format!("{above}/{name}")
    }

    /// Ends a tick: removes files that it did not bring, facts only if it brought facts.
    pub fn end_tick(&mut self, has_facts: bool) -> io::Result<()> {
        self.close_file()?;
        let tick = self.tick;
        let root = self.folder.path().to_owned();
        let mut freed = 0;
        self.files.retain(|path, file| {
            let stays = file.last_tick == tick || file.is_fact && !has_facts;
            if !stays {
                freed += file.bytes;
                let local = root.join(path.trim_start_matches('/'));
                let _ = fs::remove_file(&local);
                // the folder of a process that ended
                remove_empty_folders(&root, &local);
            }
            stays
        });
        self.tree_bytes -= freed;
        Ok(())
    }

    fn local_path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }
}

/// Removes the folder of a file and those above it while they are empty, up to two levels below the root.
fn remove_empty_folders(root: &Path, file: &Path) {
    let is_deep = |folder: &&Path| folder.strip_prefix(root).is_ok_and(|rest| rest.components().count() > 1);
    for folder in file.ancestors().skip(1).take_while(is_deep) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// True where a file stands in place of a folder, or a folder in place of a file.
fn is_other_kind(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, IsADirectory, NotADirectory};
    matches!(error.kind(), AlreadyExists | IsADirectory | NotADirectory)
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the host sent {what}"))
}

/// Refuses paths outside of what is sent.
fn check_path(path: &str) -> io::Result<()> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_inside = SENT_FOLDERS.iter().any(|folder| path.starts_with(folder));
    let is_sane = path.len() <= MAX_PATH_BYTES && !path.contains('\0') && path.split('/').skip(1).all(is_plain);
    if is_inside && is_sane { Ok(()) } else { Err(refused("a file outside of /proc and /sys")) }
}

/// Where a link leads to, by its words alone; `None` if that is outside of `/sys`.
fn resolve_link(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { path.split('/').skip(1).collect() };
    if !target.starts_with('/') {
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    let resolved = format!("/{}", parts.join("/"));
    (resolved.starts_with("/sys/") && check_path(&resolved).is_ok()).then_some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tree: &FileTree, path: &str) -> Option<String> {
        fs::read_to_string(tree.local_path(path)).ok()
    }

    #[test]
    fn files_come_and_go_with_ticks() {
        let mut tree = FileTree::new().unwrap();
        tree.begin_tick();
        tree.add_line("/proc/71/stat", b"71 (a) R", false).unwrap();
        tree.add_line("/proc/stat", b"cpu 1", false).unwrap();
        tree.add_line("/proc/stat", b"cpu0 1", false).unwrap();
        tree.add_line("/proc/sys/kernel/hostname", b"db1", true).unwrap();
        tree.end_tick(true).unwrap();
        assert_eq!(read(&tree, "/proc/stat").unwrap(), "cpu 1\ncpu0 1\n");
        tree.begin_tick();
        tree.add_line("/proc/stat", b"cpu 2", false).unwrap();
        tree.end_tick(false).unwrap();
        assert_eq!(read(&tree, "/proc/stat").unwrap(), "cpu 2\n");
        assert_eq!(read(&tree, "/proc/71/stat"), None);
        assert!(!tree.local_path("/proc/71").exists());
        assert_eq!(read(&tree, "/proc/sys/kernel/hostname").unwrap(), "db1\n");
        tree.begin_tick();
        tree.end_tick(true).unwrap();
        assert_eq!(read(&tree, "/proc/sys/kernel/hostname"), None);
    }

    #[test]
    fn links_lead_nowhere_else() {
        let mut tree = FileTree::new().unwrap();
        tree.add_link("/sys/block/sda", "../devices/pci0000:00/block/sda").unwrap();
        tree.begin_tick();
        tree.add_line("/sys/block/sda/size", b"8", true).unwrap();
        tree.end_tick(true).unwrap();
        assert_eq!(read(&tree, "/sys/devices/pci0000:00/block/sda/size").unwrap(), "8\n");
        for target in ["/etc", "../../../../../../etc", "../../proc/1", "/sys/../etc"] {
            tree.add_link("/sys/block/evil", target).unwrap();
            assert!(!tree.local_path("/sys/block/evil").exists(), "{target}");
        }
    }

    #[test]
    fn a_link_below_a_link_counts_from_where_it_is() {
        let mut tree = FileTree::new().unwrap();
        tree.add_link("/sys/block/sda", "../devices/pci0/2:0:0:0/block/sda").unwrap();
        tree.add_link("/sys/block/sda/device", "../../../2:0:0:0").unwrap();
        tree.begin_tick();
        tree.add_line("/sys/block/sda/device/model", b"A", true).unwrap();
        tree.end_tick(true).unwrap();
        assert_eq!(read(&tree, "/sys/devices/pci0/2:0:0:0/model").unwrap(), "A\n");
    }

    #[test]
    fn targets_that_change_without_end_are_refused() {
        let mut tree = FileTree::new().unwrap();
        let deep = "a/".repeat(200);
        let refused = (0..2000).find(|number| tree.add_link("/sys/block/x", &format!("../z{number}/{deep}")).is_err());
        assert!(refused.is_some_and(|number| number < 1100), "{refused:?}");
    }

    #[test]
    fn links_in_a_circle_end() {
        let mut tree = FileTree::new().unwrap();
        tree.add_link("/sys/a", "/sys/b/c").unwrap();
        tree.add_link("/sys/b", "/sys/a").unwrap();
        tree.add_link("/sys/a/x", "y").unwrap();
        tree.begin_tick();
        let _ = tree.add_line("/sys/a/x/z", b"1", true);
        let _ = tree.end_tick(true);
    }

    #[test]
    fn paths_outside_are_refused() {
        let mut tree = FileTree::new().unwrap();
        let long = format!("/proc/{}", "a".repeat(600));
        for path in
            ["/etc/shadow", "/proc/../etc/x", "/sys//x", "proc/stat", "/proc/", "/root/.ssh/x", &long, "/proc/a\0b"]
        {
            assert!(tree.add_line(path, b"x", false).is_err(), "{path}");
        }
    }

    #[test]
    fn the_folder_goes_with_the_tree() {
        let tree = FileTree::new().unwrap();
        let root = tree.root().to_owned();
        drop(tree);
        assert!(!root.exists());
    }
}
