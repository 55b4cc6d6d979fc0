//! How fragmented the largest open files are, read within a deadline. All local filesystems are read; the
//! check then leaves out those that are not on a rotating disk.
//!
//! The results become a text among the facts of the host, so that they are stored together.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use diskwright_counters::live::{mountinfo, sources::mounts};
use diskwright_hostfiles::deadline::collect_within;
use diskwright_hostfiles::extents;

/// Name of the text in the tree. Each line is about a file: mount point (escaped as the kernel does), bytes, pieces,
/// `all` if all of its extents were read or else `some`, and its path, which may contain blanks.
pub(crate) const EXTENTS_FILE: &str = "extents";
/// Time limit for all files together.
const DEADLINE: Duration = Duration::from_millis(200);
/// Maximum number of files whose extents are read, the largest first.
const MAX_FILES: usize = 12;
/// Minimum size of a file: a smaller one is read quickly even if it is fragmented.
const MIN_BYTES: u64 = 32 << 20;
/// Maximum number of extents that are read of a file.
const MAX_EXTENTS: usize = 16_384;
/// Maximum number of descriptors of processes that are inspected.
const MAX_DESCRIPTORS: usize = 8192;

/// How fragmented an open file is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileExtents {
    pub mount: String,
    pub path: String,
    pub bytes: f64,
    pub pieces: f64,
    /// False if not all extents were read: the file may have more pieces.
    pub is_complete: bool,
}

/// Reads how fragmented the largest open files of this machine are; `mountinfo` is its table of mounts. Returns the
/// lines of [`EXTENTS_FILE`], and if some are missing, why.
pub(crate) fn read_scatter(mountinfo: &str) -> (Vec<String>, Option<String>) {
    let mounts = mountinfo::parse_mounts(mountinfo.as_bytes());
    let points: Vec<String> = mounts::local_mounts(&mounts).iter().map(|mount| mount.point.clone()).collect();
    let all_points: Vec<String> = mounts.iter().map(|mount| mount.point.clone()).collect();
    let (lines, is_late) = collect_within(DEADLINE, move |sender| {
        let files = find_large_files(Path::new("/proc"), &points, &all_points);
        let _ = files.iter().try_for_each(|file| sender.send(extents_line(file)));
    });
    let because = format!("the files' extents were not read within {} ms", DEADLINE.as_millis());
    (lines.into_iter().flatten().collect(), is_late.then_some(because))
}

/// An open file: its descriptor in /proc, its path, and the mount point above it.
struct OpenFile {
    descriptor: PathBuf,
    path: String,
    mount: String,
    bytes: u64,
}

/// Finds the largest regular files that processes have open on these mount points, largest first.
fn find_large_files(proc: &Path, points: &[String], all_points: &[String]) -> Vec<OpenFile> {
    let folder = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let is_process = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let descriptors = folder(proc).filter(is_process).flat_map(|process| folder(&process.path().join("fd")));
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut found: Vec<OpenFile> = Vec::new();
    for descriptor in descriptors.take(MAX_DESCRIPTORS).map(|entry| entry.path()) {
        // until the mount is known to be local, only the link is read: a file on a server that does not respond blocks
        let Some(path) = fs::read_link(&descriptor).ok().and_then(|path| path.to_str().map(str::to_owned)) else {
            continue;
        };
        let is_plain = path.starts_with('/') && !path.ends_with(" (deleted)") && !path.contains(char::is_control);
        let Some(mount) = is_plain.then(|| mount_of(&path, all_points)).flatten() else { continue };
        if !points.contains(mount) {
            continue;
        }
        let Ok(metadata) = fs::metadata(&descriptor) else { continue };
        if metadata.is_file() && metadata.len() >= MIN_BYTES && seen.insert((metadata.dev(), metadata.ino())) {
            found.push(OpenFile { descriptor, mount: mount.clone(), path, bytes: metadata.len() });
        }
    }
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.path.cmp(&b.path)));
    found.truncate(MAX_FILES);
    found
}

/// Finds the mount point above a path: the longest that fits.
fn mount_of<'a>(path: &str, points: &'a [String]) -> Option<&'a String> {
    let is_below = |point: &&String| {
        path.strip_prefix(point.as_str()).is_some_and(|rest| point.ends_with('/') || rest.starts_with('/'))
    };
    points.iter().filter(is_below).max_by_key(|point| point.len())
}

/// Reads the extents of a file, and returns its line of [`EXTENTS_FILE`].
fn extents_line(open: &OpenFile) -> Option<String> {
    // does not wait for a lease, and leaves the time of the last access unchanged
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOATIME).bits() as i32;
    let open_with = |flags: i32| OpenOptions::new().read(true).custom_flags(flags).open(&open.descriptor);
    // only the owner of the file may leave that time unchanged
    let plain = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file: File = open_with(flags).or_else(|_| open_with(plain)).ok()?;
    let scatter = extents::count_pieces(&file, MAX_EXTENTS).ok().filter(|scatter| scatter.pieces > 0)?;
    let mount = mountinfo::escape_path(&open.mount);
    let complete = if scatter.is_complete { "all" } else { "some" };
    Some(format!("{mount} {} {} {complete} {}", scatter.bytes, scatter.pieces, open.path))
}

/// Parses the text of [`EXTENTS_FILE`]; skips lines that it cannot parse.
pub(crate) fn parse_extents(text: &str) -> Vec<FileExtents> {
    let parse_line = |line: &str| {
        let mut parts = line.splitn(5, ' ');
        let mount = mountinfo::unescape_path(parts.next()?.as_bytes());
        let (bytes, pieces): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let is_complete = match parts.next()? {
            "all" => true,
            "some" => false,
            _ => return None,
        };
        let path = parts.next()?.to_owned();
        (pieces > 0).then_some(FileExtents { mount, path, bytes: bytes as f64, pieces: pieces as f64, is_complete })
    };
    text.lines().filter_map(parse_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_holds_a_file() {
        let points = ["/", "/srv", "/srv/data base"].map(str::to_owned);
        let mount = |path: &str| mount_of(path, &points).map(String::as_str);
        assert_eq!(mount("/srv/data base/a"), Some("/srv/data base"));
        assert_eq!((mount("/srvx/a"), mount("/srv/a")), (Some("/"), Some("/srv")));
        assert_eq!(mount("pipe:[7]"), None);
    }

    #[test]
    fn large_files_that_this_process_holds_are_found() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().canonicalize().unwrap().join("large file");
        let file = File::create_new(&path).unwrap();
        file.set_len(4 << 40).or_else(|_| file.set_len(MIN_BYTES)).unwrap();
        let point = ["/".to_owned()];
        let found = find_large_files(Path::new("/proc"), &point, &point);
        let found = found.iter().find(|found| Path::new(&found.path) == path).expect("it is the largest");
        assert_eq!(found.mount, "/");
        // never written: it has no extents
        assert_eq!(extents_line(found), None);
    }

    #[test]
    fn lines_are_read_back() {
        let found = parse_extents("/srv\\040x 1048576 12 some /srv x/a file\nbroken\n/ 1 0 all /b\n/ 1 1 most /c");
        let expected = FileExtents {
            mount: "/srv x".into(),
            path: "/srv x/a file".into(),
            bytes: 1_048_576.0,
            pieces: 12.0,
            is_complete: false,
        };
        assert_eq!(found, [expected]);
    }
}
