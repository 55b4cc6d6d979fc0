//! What is measured: a file, made and filled by us where it is not there, or a
//! block device. It is opened once, and what a run opens later is that very
//! file, whatever its name leads to by then. A file that we made has no name
//! where the filesystem can do that (so nothing is left even of a probe that
//! was killed), and goes away with the [`ProbeTarget`] otherwise.

use std::fs::{self, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use diskwright_counters::live::Roots;
use diskwright_guard::node::sys;
use diskwright_guard::{self as guard, Consent, DeviceNumber, Findings, again, usage};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, StatxFlags, fstatvfs, ioctl_blksszget, major, minor, statx};
use rustix::io::Errno;

use crate::device::TargetPlace;
use crate::error::ProbeError;
use crate::fill::{self, STEP};

/// Size of a file that is made, where nobody says.
pub const USUAL_BYTES: u64 = 1 << 30;
/// At most this share of the free space is filled.
const MOST_OF_FREE: f64 = 0.5;
/// Holes of a file are looked for in so many pieces at most.
const MOST_PIECES: usize = 100_000;
/// A file with more than this share of holes is said to have them.
const FEW_HOLES: f64 = 0.01;

/// What is measured.
#[derive(Debug)]
pub struct ProbeTarget {
    /// As the user wrote it.
    pub name: String,
    path: PathBuf,
    /// What runs open again; for a device that is written to, ours alone.
    file: OwnedFd,
    /// Bytes that may be touched.
    pub bytes: u64,
    /// Smallest unit of direct I/O, bytes.
    pub sector: u64,
    /// The device or the one below the file: major and minor, 0 where there is none.
    pub device: DeviceNumber,
    /// It is a block device.
    pub is_device: bool,
    /// What was found out about a device.
    pub findings: Findings,
    /// What to know before believing the numbers, a sentence each.
    pub cautions: Vec<String>,
    /// A good part of it was never written, so that reading asks no disk.
    pub is_sparse: bool,
    made: bool,
    /// A file that was made, has a name and goes away with this.
    named: Option<TemporaryName>,
}

/// The name of a file that goes away when this is dropped.
#[derive(Debug)]
struct TemporaryName {
    path: PathBuf,
    /// Device and inode: another file of that name is not ours.
    identity: (u64, u64),
    stays: bool,
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        let is_it = |m: Metadata| (m.dev(), m.ino()) == self.identity;
        if !self.stays && fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // nobody is left to be told
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How to take a target.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// Something will be written.
    pub writes: bool,
    /// What the user said about devices and files that hold something.
    pub said: Consent,
    /// Size of a file to make, [`USUAL_BYTES`] otherwise; of what is there
    /// already only so much is touched, from its start.
    pub bytes: Option<u64>,
    /// Leave a file that was made.
    pub keep: bool,
    /// Through the page cache, so that direct I/O is not needed.
    pub buffered: bool,
}

fn wrong(name: &str, because: impl Into<String>) -> ProbeError {
    ProbeError::Target { target: name.to_owned(), because: because.into() }
}

/// The place where something is named in a sentence: what was tried, and what
/// the system said.
fn io<E: Into<std::io::Error>>(name: &str, what: &'static str) -> impl Fn(E) -> ProbeError {
    move |error| ProbeError::io(name, what, error)
}

impl ProbeTarget {
    /// Takes a file or device. A file that is not there is made and filled with
    /// bytes that nothing can make smaller; `filled` hears of the progress
    /// (bytes done, bytes in all) and ends it by `false`.
    ///
    /// # Errors
    /// When the guard refuses, when it is neither file nor block device, or
    /// when the system refuses.
    pub fn take(
        path: &Path,
        take: &TargetOptions,
        filled: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<ProbeTarget, ProbeError> {
        let name = path.display().to_string();
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return make(path, &name, take, filled),
            Err(e) => return Err(ProbeError::io(&name, "cannot be examined", e)),
        };
        // only opened when it is known to be harmless: opening a tape winds it back
        if let Some(because) = unfit(&found) {
            return Err(wrong(&name, because));
        }
        let file = fs::File::open(path).map_err(io(&name, "cannot be opened"))?;
        let opened = file.metadata().map_err(io(&name, "cannot be examined"))?;
        if (opened.dev(), opened.ino(), opened.rdev()) != (found.dev(), found.ino(), found.rdev()) {
            return Err(wrong(&name, "it was replaced by another file a moment ago"));
        }
        let of_what = if found.is_file() { existing } else { device };
        let mut target = of_what(path, &name, take, file.into(), &opened)?;
        if let Some(bytes) = take.bytes {
            if bytes > target.bytes {
                return Err(wrong(&name, format!("{bytes} bytes are requested, but it has {}", target.bytes)));
            }
            target.bytes = bytes;
        }
        Ok(target)
    }

    /// Opens it for a run.
    ///
    /// # Errors
    /// When the system refuses; where the filesystem knows no direct I/O the
    /// error says so.
    pub fn open(&self, writes: bool, buffered: bool, dsync: bool) -> Result<OwnedFd, ProbeError> {
        let mut flags = if writes { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
        if !buffered {
            flags |= OFlags::DIRECT;
        }
        if dsync {
            flags |= OFlags::DSYNC;
        }
        rustix::fs::open(again(&self.file), flags, Mode::empty()).map_err(|e| not_opened(&self.name, e, buffered))
    }

    /// True for a file that was made for this.
    pub fn was_made(&self) -> bool {
        self.made
    }

    /// Where it is, as the kernel numbers places.
    pub fn place(&self) -> TargetPlace {
        let found = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
        // kernels before 5.8 do not tell
        let told = found.filter(|f| StatxFlags::from_bits_retain(f.stx_mask).contains(StatxFlags::MNT_ID));
        TargetPlace { number: self.device, is_file: !self.is_device, mount: told.map(|f| f.stx_mnt_id) }
    }

    /// Where it lies, or would lie if it had a name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Why something is not measured at all.
pub fn unfit(found: &Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    if kind.is_dir() {
        Some("a folder; give the name of a new file in it, which is created, filled and removed")
    } else if kind.is_char_device() {
        Some("a character device (a terminal, a tape, a raw device): only files and block devices are measured")
    } else if kind.is_fifo() || kind.is_socket() {
        Some("a pipe or socket: only files and block devices are measured")
    } else if kind.is_file() && found.len() == 0 {
        Some("an empty file; remove it, and a new one is created, filled and removed")
    } else {
        None
    }
}

fn not_opened(name: &str, error: Errno, buffered: bool) -> ProbeError {
    let what = match error {
        Errno::INVAL | Errno::OPNOTSUPP if !buffered => {
            "the filesystem does not support direct I/O; --buffered measures its cache"
        }
        Errno::ROFS => "is read-only, and cannot be written to",
        Errno::TXTBSY => "is in use as a running program or as swap, and cannot be written to",
        Errno::BUSY => "is in use, and cannot be opened to write",
        _ => "cannot be opened",
    };
    ProbeError::io(name, what, error)
}

fn number(packed: u64) -> DeviceNumber {
    (u64::from(major(packed)), u64::from(minor(packed)))
}

fn device(
    path: &Path,
    name: &str,
    take: &TargetOptions,
    file: OwnedFd,
    found: &Metadata,
) -> Result<ProbeTarget, ProbeError> {
    let roots = Roots::default();
    let bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(io(name, "has no size"))?;
    if bytes == 0 {
        return Err(wrong(name, "has no medium: its size is 0"));
    }
    let sector = ioctl_blksszget(&file).map_or(512, u64::from);
    let device = number(found.rdev());
    let read_only = fs::read_to_string(sys(&roots, device).join("ro")).is_ok_and(|text| text.trim() == "1");
    if take.writes && read_only {
        return Err(wrong(name, "the device is read-only; only suites that only read can measure it"));
    }
    let findings = guard::inspect(&roots, &file, device, bytes);
    guard::allow(name, &findings, take.writes, &take.said)?;
    let file = if take.writes {
        // as long as we have it, nobody mounts it
        guard::claim(&file, OFlags::RDWR).map_err(|e| not_opened(name, e, true))?
    } else {
        file
    };
    let mut target = ProbeTarget::of(path, name, file, bytes, sector, device);
    (target.is_device, target.findings) = (true, findings);
    Ok(target)
}

/// A file that was there: reading is harmless, writing destroys it.
fn existing(
    path: &Path,
    name: &str,
    take: &TargetOptions,
    file: OwnedFd,
    found: &Metadata,
) -> Result<ProbeTarget, ProbeError> {
    let bytes = found.len();
    let mut findings = Findings::default();
    let ours = fill::is_ours(&file, bytes).unwrap_or(false);
    findings.carries.push(if ours {
        "a file that an earlier probe filled and kept; it can be removed".into()
    } else {
        "a file that existed before".into()
    });
    if found.nlink() > 1 {
        findings.carries.push(format!("it has {} names (hard links)", found.nlink()));
    }
    if take.writes {
        let open = fs::File::from(file.try_clone().map_err(io(name, "cannot be examined"))?);
        findings.in_use = usage::of_file(&Roots::default(), &open, name);
    }
    guard::allow(name, &findings, take.writes, &take.said)?;
    let mut target = of_file(path, name, file, bytes, take.buffered)?;
    if take.writes {
        // now, and not after half of the suite
        drop(target.open(true, take.buffered, false)?);
    }
    target.findings = findings;
    let holes = holes(&target.file, bytes, MOST_PIECES);
    target.is_sparse = holes.is_some();
    target.cautions.extend(holes);
    Ok(target)
}

impl ProbeTarget {
    fn of(path: &Path, name: &str, file: OwnedFd, bytes: u64, sector: u64, device: DeviceNumber) -> ProbeTarget {
        let (name, path) = (name.to_owned(), path.to_owned());
        let (findings, cautions) = (Findings::default(), Vec::new());
        ProbeTarget {
            name,
            path,
            file,
            bytes,
            sector,
            device,
            is_device: false,
            findings,
            cautions,
            is_sparse: false,
            made: false,
            named: None,
        }
    }
}

fn of_file(path: &Path, name: &str, file: OwnedFd, bytes: u64, buffered: bool) -> Result<ProbeTarget, ProbeError> {
    let found = rustix::fs::fstat(&file).map_err(io(name, "cannot be examined"))?;
    let device = number(found.st_dev);
    let told = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    // kernels before 6.1 and many filesystems do not tell what direct I/O needs
    let told = told.filter(|t| t.stx_mask & StatxFlags::DIOALIGN.bits() != 0).map(|t| t.stx_dio_offset_align);
    if told == Some(0) && !buffered {
        return Err(not_opened(name, Errno::INVAL, false));
    }
    let sector = told.filter(|t| *t > 0).map_or_else(|| direct_unit(&Roots::default(), device), u64::from);
    let on = rustix::fs::fstatfs(&file).ok();
    let (kind, block) = on.map_or((0, 0), |on| (on.f_type as u32, on.f_bsize as u64));
    let mut target = ProbeTarget::of(path, name, file, bytes, sector.max(unit_of_blocks(kind, block)), device);
    target.cautions.extend(filesystem(kind).map(str::to_owned));
    // a filesystem without direct I/O says so when it is asked, better now than after filling
    drop(target.open(false, buffered, false)?);
    Ok(target)
}

/// What a filesystem does with direct I/O that is not what it says. The
/// numbers are those of statfs(2).
fn filesystem(kind: u32) -> Option<&'static str> {
    match kind {
        0x0102_1994 | 0x8584_58f6 => Some("the file is in memory (tmpfs): this measures memory, not a disk"),
        BTRFS => Some(
            "btrfs copies on every write, and sends direct writes to files with checksums through the page cache: \
             writes here measure that too (chattr +C on the folder turns both off)",
        ),
        0x2fc1_2fc1 => Some("ZFS may answer direct reads from its own cache"),
        0x6573_5546 => Some("the file is on FUSE: the program that serves it may answer from its cache"),
        // NFS, SMB, 9P, Ceph, Lustre
        0x6969 | 0xff53_4d42 | 0xfe53_4d42 | 0x0102_1997 | 0x00c3_6400 | 0x0bd0_0bd0 => {
            Some("the file is on another machine: its cache answers too, and every number includes the network")
        }
        _ => None,
    }
}

/// Their numbers of statfs(2).
const BTRFS: u32 = 0x9123_683e;
const F2FS: u32 = 0xf2f5_2010;

/// The smallest direct request of filesystems that send less than a whole block of theirs through the
/// page cache, and say nothing; 0 of all others. `block` is that of statfs(2), bytes.
fn unit_of_blocks(kind: u32, block: u64) -> u64 {
    if matches!(kind, BTRFS | F2FS) { block } else { 0 }
}

/// A sentence about the holes of a file: reading them asks no disk.
fn holes(file: &OwnedFd, bytes: u64, most: usize) -> Option<String> {
    let (mut offset, mut data, mut pieces) = (0, 0, 0);
    while pieces < most {
        let Ok(from) = rustix::fs::seek(file, SeekFrom::Data(offset)) else { break };
        offset = rustix::fs::seek(file, SeekFrom::Hole(from)).ok()?;
        data += offset.min(bytes).saturating_sub(from);
        if offset >= bytes {
            break;
        }
        pieces += 1;
    }
    // of a file in more pieces than that, those that were looked at have to do
    let seen = if pieces == most { offset.min(bytes) } else { bytes };
    let share = 1.0 - data as f64 / seen.max(1) as f64;
    (share > FEW_HOLES).then(|| {
        let percent = (share * 100.0).round();
        format!("{percent:.0} % of the file is holes or was never written: reading those needs no disk access")
    })
}

/// The logical sector of the disk below a file, 512 where it is not shown.
fn direct_unit(roots: &Roots, device: DeviceNumber) -> u64 {
    let folder = sys(roots, device);
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
    // a partition's queue is its disk's
    let unit =
        read(folder.join("queue/logical_block_size")).or_else(|| read(folder.join("../queue/logical_block_size")));
    unit.unwrap_or(512)
}

fn make(
    path: &Path,
    name: &str,
    take: &TargetOptions,
    filled: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ProbeTarget, ProbeError> {
    guard::check_new(path)?;
    let (file, named) = match nameless(path).filter(|_| !take.keep) {
        Some(file) => (file, None),
        None => {
            let made = fs::File::options().read(true).write(true).create_new(true).open(path);
            let made = made.map_err(io(name, "cannot be created"))?;
            let found = made.metadata().map_err(io(name, "cannot be examined"))?;
            // from here on it goes away whatever happens, also when this program stands in another folder by then
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            (made.into(), Some(TemporaryName { path, identity: (found.dev(), found.ino()), stays: false }))
        }
    };
    let bytes = room(name, &file, take.bytes)?;
    let mut target = of_file(path, name, file, bytes, take.buffered)?;
    (target.made, target.named) = (true, named);
    let whole = fill::fill(&target.file, bytes, filled).map_err(io(name, "cannot be filled"))?;
    if !whole {
        return Err(wrong(name, "interrupted while it was being filled; it was removed"));
    }
    if take.keep {
        // it is whole now, and its user wants it
        if let Some(named) = &mut target.named {
            named.stays = true;
        }
    }
    Ok(target)
}

/// A file that has no name, in the folder where it would be.
fn nameless(path: &Path) -> Option<OwnedFd> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok()
}

/// How large a file is made: as asked for, or the usual size, and at most half
/// of what is free.
fn room(name: &str, file: &OwnedFd, asked: Option<u64>) -> Result<u64, ProbeError> {
    let room = fstatvfs(file).map_err(io(name, "its filesystem cannot be examined"))?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let most = (free as f64 * MOST_OF_FREE) as u64;
    let bytes = match asked {
        Some(bytes) if bytes > most => {
            let because = format!("{bytes} bytes requested, {free} are free, and at most half of that may be used");
            return Err(wrong(name, because));
        }
        Some(bytes) => bytes,
        None => USUAL_BYTES.min(most),
    } / STEP as u64
        * STEP as u64;
    if bytes == 0 {
        let what = match asked {
            Some(asked) => format!("{asked} bytes are requested"),
            None => format!("half of the free space is {most} bytes"),
        };
        return Err(wrong(name, format!("a file of at least 1 MiB is needed, and {what}")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, take: &TargetOptions) -> Result<ProbeTarget, String> {
        ProbeTarget::take(path, take, &mut |_, _| true).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_is_made_filled_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.dat");
        let asked = TargetOptions { bytes: Some(3 << 20), writes: true, ..TargetOptions::default() };
        let target = take(&path, &asked).unwrap();
        assert_eq!(target.bytes, 3 << 20);
        // nothing can be seen of it, but what runs open is there and nothing in it repeats
        let mut bytes = vec![0; 3 << 20];
        let file = fs::File::from(target.open(true, true, false).unwrap());
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert_ne!(bytes[..STEP], bytes[STEP..2 * STEP]);
        assert_eq!(target.findings, Findings::default());
        drop(target);
        assert!(!path.exists());
        drop(take(&path, &TargetOptions { keep: true, ..asked.clone() }).unwrap());
        assert!(path.exists());
        let said = take(&path, &asked).unwrap_err();
        assert!(said.contains("an earlier probe filled"), "{said}");
    }

    #[test]
    fn another_file_of_that_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.dat");
        fs::write(&path, "ours").unwrap();
        let found = fs::metadata(&path).unwrap();
        let named = || TemporaryName { path: path.clone(), identity: (found.dev(), found.ino()), stays: false };
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        fs::write(&path, "another").unwrap();
        drop(named());
        assert_eq!(fs::read(&path).unwrap(), b"another");
        fs::rename(folder.path().join("elsewhere"), &path).unwrap();
        drop(named());
        assert!(!path.exists());
    }

    #[test]
    fn holes_links_and_sizes_are_said() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("data");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(4 << 20).unwrap();
        let target = take(&path, &TargetOptions::default()).unwrap();
        assert!(target.cautions.iter().any(|c| c.contains("75 % of the file is holes")), "{:?}", target.cautions);
        assert_eq!(
            take(&path, &TargetOptions { bytes: Some(1 << 20), ..TargetOptions::default() }).unwrap().bytes,
            1 << 20
        );
        let said = take(&path, &TargetOptions { bytes: Some(8 << 20), ..TargetOptions::default() }).unwrap_err();
        assert!(said.contains("8388608 bytes are requested, but it has 4194304"), "{said}");
        fs::hard_link(&path, folder.path().join("second")).unwrap();
        let said = take(&path, &TargetOptions { writes: true, ..TargetOptions::default() }).unwrap_err();
        assert!(said.contains("2 names"), "{said}");
    }

    #[test]
    fn a_file_that_others_use_is_not_written_to() {
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("data");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let name = path.display().to_string();
        let destroy = TargetOptions {
            writes: true,
            said: Consent { live: true, destroy: Some(name) },
            ..TargetOptions::default()
        };
        assert!(take(&path, &destroy).is_ok());
        let reader = fs::File::open(&path).unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").stdin(reader).spawn().unwrap();
        let said = take(&path, &destroy);
        other.kill().unwrap();
        other.wait().unwrap();
        let said = said.unwrap_err();
        assert!(said.contains("(sleep) has it open") && said.contains("in use"), "{said}");
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        fs::write(&file, [1; 8192]).unwrap();
        let empty = folder.path().join("empty");
        fs::write(&empty, []).unwrap();
        let usual = TargetOptions::default();
        assert!(take(folder.path(), &usual).unwrap_err().contains("a folder"));
        assert!(take(Path::new("/dev/null"), &usual).unwrap_err().contains("character device"));
        assert!(take(&empty, &usual).unwrap_err().contains("empty"));
        assert!(take(&folder.path().join("no/such/file"), &usual).unwrap_err().contains("cannot be created"));
        let writes = TargetOptions { writes: true, ..TargetOptions::default() };
        let said = take(&file, &writes).unwrap_err();
        assert!(said.contains("--destroy-data-on") && said.contains("data"), "{said}");
        assert_eq!(take(&file, &usual).unwrap().bytes, 8192);
        let huge = TargetOptions { bytes: Some(1 << 60), ..TargetOptions::default() };
        assert!(take(&folder.path().join("huge"), &huge).unwrap_err().contains("are free"));
        assert!(!folder.path().join("huge").exists());
    }

    #[test]
    fn filesystems_that_read_small_requests_from_memory_get_none() {
        assert_eq!((unit_of_blocks(BTRFS, 4096), unit_of_blocks(F2FS, 16_384)), (4096, 16_384));
        // ext4 and XFS refuse what they cannot do
        assert_eq!((unit_of_blocks(0xef53, 4096), unit_of_blocks(0x5846_5342, 4096)), (0, 0));
        assert!(filesystem(0x00c3_6400).is_some_and(|text| text.contains("another machine")));
        assert_eq!(filesystem(0xef53), None);
    }

    #[test]
    fn holes_are_a_share_of_what_was_looked_at() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("sparse");
        let file = fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
        // half of each of eight pieces is data
        file.set_len(16 << 20).unwrap();
        (0..8u64).for_each(|piece| file.write_all_at(&[7; 1 << 20], piece << 21).unwrap());
        file.sync_all().unwrap();
        let file = OwnedFd::from(file);
        let Some(all) = holes(&file, 16 << 20, MOST_PIECES) else {
            return eprintln!("skipped: the filesystem has no holes");
        };
        assert!(all.starts_with("50 %"), "{all}");
        // the first four end before the fifth hole begins
        let some = holes(&file, 16 << 20, 4).unwrap();
        assert!(some.starts_with("43 %"), "{some}");
    }

    #[test]
    fn an_interrupted_filling_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.dat");
        let asked = TargetOptions { bytes: Some(8 << 20), ..TargetOptions::default() };
        assert!(ProbeTarget::take(&path, &asked, &mut |done, _| done < 2 << 20).is_err());
        assert!(!path.exists());
    }
}
