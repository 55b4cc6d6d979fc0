//! What stands against touching a target. Reading a device that is in use
//! needs the user's word; writing needs more: a device that is mounted, held,
//! or in use is never written to, and one that carries anything only when its
//! name was typed behind `--destroy-data-on`.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::{FileType, Mode, OFlags, fstat, major, minor};

use crate::signature;

/// What was found out about a block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why it is in use: mounted, held, swapped on. Never written to.
    pub in_use: Vec<String>,
    /// What it carries: partitions, signatures. Written to only by name.
    pub carries: Vec<String>,
}

/// Why a target is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// It is in use, and writing would break what uses it.
    #[error("{name} is in use ({why}); nothing here writes to it, whatever is said")]
    InUse {
        /// The device.
        name: String,
        /// By what.
        why: String,
    },
    /// It is in use, and reading needs the user's word.
    #[error("{name} is in use ({why}); to read it all the same, carefully, say --live")]
    NeedsLive {
        /// The device.
        name: String,
        /// By what.
        why: String,
    },
    /// Writing destroys what it holds.
    #[error("writing to {name} destroys what it holds ({what}); if that is wanted, say --destroy-data-on {name}")]
    NeedsName {
        /// The device.
        name: String,
        /// What it carries; `nothing known` too takes the name.
        what: String,
    },
    /// Another name was typed than the target's.
    #[error("--destroy-data-on names {typed}, and the target is {name}; nothing was written")]
    OtherName {
        /// What was typed.
        typed: String,
        /// The target.
        name: String,
    },
}

/// What the user said.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// `--live`
    pub live: bool,
    /// `--destroy-data-on NAME`
    pub destroy: Option<String>,
}

/// Whether a device may be used: to read, or to write as well.
///
/// # Errors
/// With the reason, in one sentence that says what would help.
pub fn allow(name: &str, findings: &Findings, writes: bool, said: &Said) -> Result<(), Refusal> {
    let name = name.to_owned();
    if let Some(why) = (!findings.in_use.is_empty()).then(|| findings.in_use.join(", ")) {
        if writes {
            return Err(Refusal::InUse { name, why });
        }
        if !said.live {
            return Err(Refusal::NeedsLive { name, why });
        }
    }
    if !writes {
        return Ok(());
    }
    match &said.destroy {
        Some(typed) if *typed == name => Ok(()),
        Some(typed) => Err(Refusal::OtherName { typed: typed.clone(), name }),
        None => {
            let nothing = "no known signature, and perhaps data all the same";
            let what = if findings.carries.is_empty() { nothing.into() } else { findings.carries.join(", ") };
            Err(Refusal::NeedsName { name, what })
        }
    }
}

/// Looks at a block device from all sides.
///
/// # Errors
/// When it cannot be opened or read.
pub fn inspect(roots: &Roots, path: &Path, bytes: u64) -> std::io::Result<Findings> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let number = fstat(&file)?.st_rdev;
    let number = (u64::from(major(number)), u64::from(minor(number)));
    let mut findings = Findings { in_use: uses(roots, number), carries: Vec::new() };
    findings.in_use.extend(exclusively(path));
    findings.carries.extend(partitions(roots, number));
    findings.carries.extend(signature::find(&file, bytes)?.into_iter().map(str::to_owned));
    Ok(findings)
}

/// The kernel gives a block device exclusively only where nobody else has it
/// so: filesystems, arrays, device mapper and swap all do.
fn exclusively(path: &Path) -> Option<String> {
    let opened: rustix::io::Result<OwnedFd> =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
    matches!(opened, Err(rustix::io::Errno::BUSY)).then(|| "the kernel does not give it exclusively".to_owned())
}

fn sys(roots: &Roots, number: (u64, u64)) -> PathBuf {
    roots.at(&format!("/sys/dev/block/{}:{}", number.0, number.1))
}

/// Who uses the device or one of its partitions.
fn uses(roots: &Roots, number: (u64, u64)) -> Vec<String> {
    let mut found = Vec::new();
    let mounts = fs::read(roots.at("/proc/self/mountinfo")).map(|text| mountinfo::parse(&text)).unwrap_or_default();
    let swaps = fs::read_to_string(roots.at("/proc/swaps")).unwrap_or_default();
    for (number, name) in with_partitions(roots, number) {
        for mount in mounts.iter().filter(|m| m.device == number) {
            found.push(format!("{name} is mounted on {}", mount.point));
        }
        // btrfs and the like show a made-up number and the device as the source
        let source = format!("/dev/{name}");
        for mount in mounts.iter().filter(|m| m.device != number && m.source == source) {
            found.push(format!("{name} is mounted on {}", mount.point));
        }
        if swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(&source)) {
            found.push(format!("{name} is swap"));
        }
        let holders = fs::read_dir(sys(roots, number).join("holders")).into_iter().flatten().flatten();
        for holder in holders {
            found.push(format!("{name} is held by {}", holder.file_name().to_string_lossy()));
        }
    }
    found.dedup();
    found
}

fn partitions(roots: &Roots, number: (u64, u64)) -> Vec<String> {
    with_partitions(roots, number).into_iter().skip(1).map(|(_, name)| format!("the partition {name}")).collect()
}

/// The device and its partitions: numbers and kernel names.
fn with_partitions(roots: &Roots, number: (u64, u64)) -> Vec<((u64, u64), String)> {
    let folder = sys(roots, number);
    let own = fs::canonicalize(&folder).ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    let mut all = vec![(number, own.unwrap_or_else(|| format!("{}:{}", number.0, number.1)))];
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let text = fs::read(entry.path().join("dev")).unwrap_or_default();
        let is_partition = entry.path().join("partition").exists();
        if let (true, Some(number)) = (is_partition, mountinfo::device_number(text.trim_ascii())) {
            all.push((number, entry.file_name().to_string_lossy().into_owned()));
        }
    }
    all
}

/// Whether an open file is a block device.
pub fn is_block(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::BlockDevice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(live: bool, destroy: Option<&str>) -> Said {
        Said { live, destroy: destroy.map(str::to_owned) }
    }

    #[test]
    fn each_refusal_has_its_reason_and_its_way_out() {
        let free = Findings::default();
        let marked = Findings { carries: vec!["XFS".into()], ..Findings::default() };
        let mounted = Findings { in_use: vec!["sda1 is mounted on /".into()], carries: vec!["XFS".into()] };
        let name = "/dev/sda";
        // reading
        assert_eq!(allow(name, &free, false, &said(false, None)), Ok(()));
        assert_eq!(allow(name, &marked, false, &said(false, None)), Ok(()));
        assert!(matches!(allow(name, &mounted, false, &said(false, None)), Err(Refusal::NeedsLive { .. })));
        assert_eq!(allow(name, &mounted, false, &said(true, None)), Ok(()));
        // writing
        assert!(matches!(allow(name, &free, true, &said(true, None)), Err(Refusal::NeedsName { .. })));
        assert!(matches!(allow(name, &marked, true, &said(false, None)), Err(Refusal::NeedsName { .. })));
        assert_eq!(allow(name, &marked, true, &said(false, Some(name))), Ok(()));
        assert!(matches!(allow(name, &marked, true, &said(false, Some("sda"))), Err(Refusal::OtherName { .. })));
        // in use: no word helps
        assert!(matches!(allow(name, &mounted, true, &said(true, Some(name))), Err(Refusal::InUse { .. })));
    }

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
        write("proc/swaps", "Filename Type Size Used Priority\n/dev/8:32 partition 1 0 -2\n");
        write(
            "proc/self/mountinfo",
            "30 1 8:16 / /data rw - xfs /dev/sdb rw\n31 1 0:40 / /b rw - btrfs /dev/8:48 rw\n",
        );
        let roots = Roots::under(folder.path());
        (folder, roots)
    }

    #[test]
    fn mounts_holders_swap_and_partitions_are_seen() {
        let (_folder, roots) = machine();
        assert_eq!(uses(&roots, (8, 0)), ["sda1 is held by md0"]);
        assert_eq!(partitions(&roots, (8, 0)), ["the partition sda1"]);
        assert_eq!(uses(&roots, (8, 16)), ["8:16 is mounted on /data"]);
        assert_eq!(uses(&roots, (8, 32)), ["8:32 is swap"]);
        assert_eq!(uses(&roots, (8, 48)), ["8:48 is mounted on /b"]);
        assert!(uses(&roots, (8, 64)).is_empty());
    }
}
