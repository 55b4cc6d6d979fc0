//! Who uses a device or a file: mounts, swap, what the kernel stands on it,
//! and processes that have it open. The kernel's own exclusive claim (see
//! `guard`) is the surest witness; this names the users, and finds those that
//! claim nothing: loop devices, virtual machines and databases on raw devices.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::{major, minor};

/// Major and minor number of a device.
pub type Number = (u64, u64);

/// Processes that look at every new device for a moment or watch its health,
/// and are no reason to keep off. They count all the same if they may write.
const WATCHERS: &[&str] = &["(udev-worker)", "systemd-udevd", "udevd", "udisksd", "smartd", "multipathd"];
/// Time between the two looks at who has it open.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// So many processes are named.
const MOST_NAMED: usize = 3;

/// A device's folder in /sys.
pub fn sys(roots: &Roots, number: Number) -> PathBuf {
    roots.at(&format!("/sys/dev/block/{}:{}", number.0, number.1))
}

/// Who uses a device or one of its partitions.
pub fn of_device(roots: &Roots, number: Number) -> Vec<String> {
    let mut found = Vec::new();
    let mounts = fs::read(roots.at("/proc/self/mountinfo")).map(|text| mountinfo::parse(&text)).unwrap_or_default();
    let swaps = swaps(roots);
    let parts = with_partitions(roots, number);
    for (number, name) in &parts {
        // btrfs and the like show a made-up number, and the device as the source
        let is_it = |m: &&mountinfo::Mount| m.device == *number || m.device.0 == 0 && is(roots, &m.source, *number);
        let mut points: Vec<_> = mounts.iter().filter(is_it).map(|m| m.point.clone()).collect();
        points.dedup();
        found.extend(points.iter().map(|point| format!("{name} is mounted on {point}")));
        if swaps.iter().any(|path| is(roots, path, *number)) {
            found.push(format!("{name} is swap"));
        }
        for holder in names(&sys(roots, *number).join("holders")) {
            found.push(format!("{name} is held by {holder}"));
        }
        for filesystem in names(&roots.at("/sys/fs/btrfs")) {
            if roots.at(&format!("/sys/fs/btrfs/{filesystem}/devices/{name}")).exists() {
                found.push(format!("{name} is a member of the btrfs {filesystem}"));
            }
        }
        let over = loops(roots, |path| is(roots, path, *number));
        found.extend(over.into_iter().map(|name_of_loop| format!("{name} is below {name_of_loop}")));
    }
    let numbers: Vec<Number> = parts.iter().map(|part| part.0).collect();
    // a device is opened below /dev; other paths may lie on a network filesystem that is gone
    let is_it = |number: Option<Number>| number.is_some_and(|n| numbers.contains(&n));
    let opens = |open: &Open| open.path.starts_with("/dev/") && is_it(open.what().and_then(|m| device_of(&m)));
    found.extend(processes(roots, &opens));
    found
}

/// Who uses a file, told by its filesystem's device and its inode.
pub fn of_file(roots: &Roots, file: &Metadata) -> Vec<String> {
    let same = |path: &str| fs::metadata(roots.at(path)).is_ok_and(|m| m.dev() == file.dev() && m.ino() == file.ino());
    let mut found = Vec::new();
    if swaps(roots).iter().any(|path| same(path)) {
        found.push("it is swap".to_owned());
    }
    for name in loops(roots, same) {
        let uses = number_of(&roots.at(&format!("/sys/block/{name}/dev"))).map(|n| of_device(roots, n));
        let uses = uses.filter(|u| !u.is_empty()).map_or_else(String::new, |u| format!(", and {}", u.join(", ")));
        found.push(format!("it is the disk behind {name}{uses}"));
    }
    let is_it = |m: Metadata| m.dev() == file.dev() && m.ino() == file.ino();
    // looking at a file of a network filesystem that is gone waits for ever: ask /proc for its inode first
    let likely = |open: &Open| open.told("ino:", 10).is_none_or(|inode| inode == file.ino());
    found.extend(processes(roots, &|open| likely(open) && open.what().is_some_and(is_it)));
    found.extend(mapped(roots, file));
    found
}

/// The device and its partitions: numbers and kernel names.
pub fn with_partitions(roots: &Roots, number: Number) -> Vec<(Number, String)> {
    let folder = sys(roots, number);
    let own = fs::canonicalize(&folder).ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    let mut all = vec![(number, own.unwrap_or_else(|| format!("{}:{}", number.0, number.1)))];
    for entry in names(&folder) {
        let folder = folder.join(&entry);
        if let (true, Some(number)) = (folder.join("partition").exists(), number_of(&folder.join("dev"))) {
            all.push((number, entry));
        }
    }
    all
}

/// Names in a folder, sorted; none where it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The number in a `dev` file of /sys.
fn number_of(path: &Path) -> Option<Number> {
    mountinfo::device_number(fs::read(path).ok()?.trim_ascii())
}

/// The number of the block device that a path leads to.
fn device_of(found: &Metadata) -> Option<Number> {
    let number = found.rdev();
    found.file_type().is_block_device().then(|| (u64::from(major(number)), u64::from(minor(number))))
}

fn is(roots: &Roots, path: &str, number: Number) -> bool {
    path.starts_with('/') && fs::metadata(roots.at(path)).ok().and_then(|m| device_of(&m)) == Some(number)
}

/// Paths of what is swapped on.
fn swaps(roots: &Roots) -> Vec<String> {
    let text = fs::read(roots.at("/proc/swaps")).unwrap_or_default();
    let first = |line: &[u8]| line.split(|b| b.is_ascii_whitespace()).next().map(mountinfo::unescape);
    text.split(|b| *b == b'\n').skip(1).filter_map(first).filter(|path| !path.is_empty()).collect()
}

/// Loop devices whose backing file is wanted.
fn loops(roots: &Roots, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let backing = |name: &String| fs::read_to_string(roots.at(&format!("/sys/block/{name}/loop/backing_file"))).ok();
    let over = |name: &String| backing(name).is_some_and(|path| wanted(path.trim_end_matches('\n')));
    names(&roots.at("/sys/block")).into_iter().filter(|n| n.starts_with("loop")).filter(over).collect()
}

/// Processes, but this one: number, folder, name.
fn others(roots: &Roots) -> impl Iterator<Item = (u32, PathBuf, String)> + '_ {
    let all = fs::read_dir(&roots.proc).into_iter().flatten().flatten();
    let number = |e: &fs::DirEntry| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
    all.filter_map(move |e| Some((number(&e)?, e.path()))).filter(|(id, _)| *id != std::process::id()).map(
        |(id, folder)| {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            (id, folder, name.trim_end().to_owned())
        },
    )
}

/// A file that a process has open.
struct Open {
    /// What its link shows.
    path: String,
    link: PathBuf,
    info: PathBuf,
}

impl Open {
    fn what(&self) -> Option<Metadata> {
        fs::metadata(&self.link).ok()
    }

    /// A number that /proc tells of it.
    fn told(&self, name: &str, radix: u32) -> Option<u64> {
        let text = fs::read_to_string(&self.info).ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(value.trim(), radix).ok()
    }

    fn only_reads(&self) -> bool {
        self.told("flags:", 8).is_some_and(|flags| flags & 3 == 0)
    }
}

/// Processes that have something open, as far as we may see. Programs that
/// only looked at it for a moment (losetup, blkid, udev) have gone at the second look.
fn processes(roots: &Roots, wanted: &dyn Fn(&Open) -> bool) -> Vec<String> {
    let has_it = |(_, folder, name): &(u32, PathBuf, String)| {
        names(&folder.join("fd")).into_iter().any(|descriptor| {
            let (link, info) = (folder.join("fd").join(&descriptor), folder.join("fdinfo").join(&descriptor));
            let Ok(path) = fs::read_link(&link) else { return false };
            let open = Open { path: path.to_string_lossy().into_owned(), link, info };
            // pipes, sockets and the like have no path
            let counts = || !(WATCHERS.contains(&name.as_str()) && open.only_reads());
            open.path.starts_with('/') && wanted(&open) && counts()
        })
    };
    let mut found: Vec<_> = others(roots).filter(has_it).collect();
    let begun = Instant::now();
    while !found.is_empty() && begun.elapsed() < SECOND_LOOK {
        std::thread::park_timeout(SECOND_LOOK.saturating_sub(begun.elapsed()));
    }
    found.retain(has_it);
    few(found.into_iter().map(|(id, _, name)| format!("process {id} ({name}) has it open")).collect())
}

/// Programs that run from a file or have it mapped; those hold no descriptor.
fn mapped(roots: &Roots, file: &Metadata) -> Vec<String> {
    let inode = file.ino().to_string();
    let device = format!("{:02x}:{:02x}", major(file.dev()), minor(file.dev()));
    let mut found = Vec::new();
    for (id, folder, name) in others(roots) {
        let Ok(maps) = fs::read_to_string(folder.join("maps")) else { continue };
        let is_it = |line: &str| {
            let mut words = line.split_ascii_whitespace().skip(3);
            words.next() == Some(&device) && words.next() == Some(&inode)
        };
        if maps.lines().any(is_it) {
            found.push(format!("process {id} ({name}) runs from it or has it mapped"));
        }
    }
    few(found)
}

fn few(mut found: Vec<String>) -> Vec<String> {
    let more = found.len().saturating_sub(MOST_NAMED);
    found.truncate(MOST_NAMED);
    if more > 0 {
        found.push(format!("{more} processes more"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up machine: sda with sda1, which an array holds, and sdb.
    fn machine() -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        write("sys/dev/block/8:0/sda1/dev", "8:1\n");
        write("sys/dev/block/8:0/sda1/partition", "1\n");
        write("sys/dev/block/8:1/holders/md0", "");
        write("sys/dev/block/8:16/dev", "8:16\n");
        write("sys/fs/btrfs/b7f0/devices/8:48", "");
        write("proc/self/mountinfo", "30 1 8:16 / /data rw - xfs /dev/sdb rw\n");
        write("proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n");
        write("swap file", "swap");
        write("disk.img", "disk");
        write("sys/block/loop3/loop/backing_file", "/disk.img\n");
        write("sys/block/loop3/dev", "7:3\n");
        write("sys/dev/block/7:3/holders/dm-1", "");
        let roots = Roots::under(folder.path());
        (folder, roots)
    }

    #[test]
    fn mounts_holders_members_and_partitions_are_seen() {
        let (_folder, roots) = machine();
        assert_eq!(of_device(&roots, (8, 0)), ["sda1 is held by md0"]);
        assert_eq!(with_partitions(&roots, (8, 0))[1], ((8, 1), "sda1".to_owned()));
        assert_eq!(of_device(&roots, (8, 16)), ["8:16 is mounted on /data"]);
        assert_eq!(of_device(&roots, (8, 48)), ["8:48 is a member of the btrfs b7f0"]);
        assert!(of_device(&roots, (8, 64)).is_empty());
    }

    #[test]
    fn files_in_use_are_seen() {
        let (folder, roots) = machine();
        let of = |name: &str| of_file(&roots, &fs::metadata(folder.path().join(name)).unwrap());
        assert_eq!(of("swap file"), ["it is swap"]);
        assert_eq!(of("disk.img"), ["it is the disk behind loop3, and 7:3 is held by dm-1"]);
        assert!(of("sys/block/loop3/dev").is_empty());
    }

    #[test]
    fn processes_with_a_file_open_are_seen() {
        let (folder, roots) = machine();
        let file = folder.path().join("disk.img");
        let found = fs::metadata(&file).unwrap();
        for id in [4_000_001, 4_000_002] {
            let process = folder.path().join(format!("proc/{id}"));
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::create_dir_all(process.join("fdinfo")).unwrap();
            fs::write(process.join("fdinfo/5"), "pos:\t0\nflags:\t0100000\n").unwrap();
            std::os::unix::fs::symlink(&file, process.join("fd/5")).unwrap();
        }
        fs::write(folder.path().join("proc/4000001/comm"), "postgres\n").unwrap();
        fs::write(folder.path().join("proc/4000002/comm"), "(udev-worker)\n").unwrap();
        let said = of_file(&roots, &found);
        assert_eq!(said[1..], ["process 4000001 (postgres) has it open"], "{said:?}");
        let line =
            format!("55-56 r-xp 00000000 {:02x}:{:02x} {} /a b\n", major(found.dev()), minor(found.dev()), found.ino());
        fs::write(folder.path().join("proc/4000002/maps"), line).unwrap();
        assert!(of_file(&roots, &found).iter().any(|s| s.contains("4000002") && s.contains("runs from it")));
    }
}
