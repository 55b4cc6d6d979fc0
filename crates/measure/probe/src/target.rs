//! Measurement targets: a block device, or a file, which is created and filled if it does not
//! exist. A target is opened once; every run reopens that very file, even if its name leads to
//! another by then. A created file has no name if the filesystem supports that, so that not even a
//! killed probe leaves anything behind; otherwise it is removed with the [`ProbeTarget`].

use std::fs::{self, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use diskwright_counters::live::Roots;
use diskwright_guard::node::sysfs_folder;
use diskwright_guard::{self as guard, Consent, DeviceNumber, Findings, proc_fd_path, usage};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, StatxFlags, fstatvfs, ioctl_blksszget, major, minor, statx};
use rustix::io::Errno;

use crate::device::TargetPlace;
use crate::error::ProbeError;
use crate::fill::{self, CHUNK_BYTES};

/// Default size of a created file, bytes.
pub const DEFAULT_FILE_BYTES: u64 = 1 << 30;
/// Largest share of the free space that a created file may use.
const MAX_FREE_SPACE_SHARE: f64 = 0.5;
/// Largest number of extents of a file that are examined for holes.
const MAX_EXTENTS: usize = 100_000;
/// Smallest share of holes that is reported.
const MIN_REPORTED_HOLE_SHARE: f64 = 0.01;

/// A file or device to measure.
#[derive(Debug)]
pub struct ProbeTarget {
    /// Its name, as the user wrote it.
    pub name: String,
    path: PathBuf,
    /// The open target, which runs reopen; a device that is written to is opened exclusively.
    file: OwnedFd,
    /// Size of the part that may be accessed, bytes.
    pub bytes: u64,
    /// Smallest unit of direct I/O, bytes.
    pub sector: u64,
    /// Number of the device, or of the device below the file: major and minor, 0 if there is none.
    pub device: DeviceNumber,
    /// It is a block device.
    pub is_device: bool,
    /// Findings of the guard about a device.
    pub findings: Findings,
    /// Cautions about the results, a sentence each.
    pub cautions: Vec<String>,
    /// More than 1 % of it was never written; reading that part needs no disk access.
    pub is_sparse: bool,
    /// The file was created for this target.
    created: bool,
    /// Name of a created file that is removed with this target.
    temporary_name: Option<TemporaryName>,
}

/// Name of a file that is removed when this is dropped.
#[derive(Debug)]
struct TemporaryName {
    path: PathBuf,
    /// Device and inode: a different file of that name is not removed.
    identity: (u64, u64),
    keep: bool,
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        let is_same_file = |m: Metadata| (m.dev(), m.ino()) == self.identity;
        if !self.keep && fs::symlink_metadata(&self.path).is_ok_and(is_same_file) {
            // `drop` cannot report an error
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Options for opening a target.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// Something will be written.
    pub writes: bool,
    /// The user's consent to use devices and files that hold data.
    pub consent: Consent,
    /// Size of a file to create, [`DEFAULT_FILE_BYTES`] by default. Of an existing target, only this
    /// many bytes are accessed, from its start.
    pub bytes: Option<u64>,
    /// Size of a file to create if `bytes` is not given; at most half of the free space.
    pub default_bytes: Option<u64>,
    /// Keep a created file.
    pub keep: bool,
    /// I/O goes through the page cache, so that the filesystem need not support direct I/O.
    pub buffered: bool,
    /// A created file is allocated and not filled, so that its blocks are written for the first time when they are
    /// measured. It is filled where the filesystem cannot allocate.
    pub new_blocks: bool,
}

fn target_error(name: &str, because: impl Into<String>) -> ProbeError {
    ProbeError::Target { target: name.to_owned(), because: because.into() }
}

/// Returns a function that adds the name of the target and the failed operation to a system error.
fn io_error<E: Into<std::io::Error>>(name: &str, operation: &'static str) -> impl Fn(E) -> ProbeError {
    move |error| ProbeError::io(name, operation, error)
}

impl ProbeTarget {
    /// Opens a file or device. A missing file is created and filled with bytes that cannot be
    /// reduced; `progress` receives the bytes done and the total, and stops the filling by
    /// returning `false`.
    ///
    /// # Errors
    /// If the guard refuses, if the path is neither a file nor a block device, or if the system
    /// refuses.
    pub fn open_or_create(
        path: &Path,
        options: &TargetOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<ProbeTarget, ProbeError> {
        let name = path.display().to_string();
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return create_file(path, &name, options, progress),
            Err(e) => return Err(ProbeError::io(&name, "cannot be examined", e)),
        };
        // only files and block devices are opened: opening a tape rewinds it
        if let Some(because) = reason_not_measurable(&metadata) {
            return Err(target_error(&name, because));
        }
        let file = fs::File::open(path).map_err(io_error(&name, "cannot be opened"))?;
        let opened = file.metadata().map_err(io_error(&name, "cannot be examined"))?;
        if (opened.dev(), opened.ino(), opened.rdev()) != (metadata.dev(), metadata.ino(), metadata.rdev()) {
            return Err(target_error(&name, "it was replaced by another file a moment ago"));
        }
        let open = if metadata.is_file() { open_existing_file } else { open_device };
        let mut target = open(path, &name, options, file.into(), &opened)?;
        if let Some(bytes) = options.bytes {
            if bytes > target.bytes {
                return Err(target_error(&name, format!("{bytes} bytes are requested, but it has {}", target.bytes)));
            }
            target.bytes = bytes;
        }
        Ok(target)
    }

    /// Opens the target for a run.
    ///
    /// # Errors
    /// If the system refuses. If the filesystem does not support direct I/O, the error says so.
    pub fn open(&self, writes: bool, buffered: bool, dsync: bool) -> Result<OwnedFd, ProbeError> {
        let mut flags = if writes { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
        if !buffered {
            flags |= OFlags::DIRECT;
        }
        if dsync {
            flags |= OFlags::DSYNC;
        }
        rustix::fs::open(proc_fd_path(&self.file), flags, Mode::empty())
            .map_err(|e| open_error(&self.name, e, buffered))
    }

    /// Returns whether the file was created for this target.
    pub fn was_made(&self) -> bool {
        self.created
    }

    /// Returns the target's location, in numbers of the kernel.
    pub fn kernel_place(&self) -> TargetPlace {
        let found = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
        // kernels before 5.8 do not report it
        let reported = found.filter(|f| StatxFlags::from_bits_retain(f.stx_mask).contains(StatxFlags::MNT_ID));
        TargetPlace { device_number: self.device, is_file: !self.is_device, mount_id: reported.map(|f| f.stx_mnt_id) }
    }

    /// Returns the path that the user gave; a file without a name is not found there.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns why a file cannot be measured; `None` if it can.
pub fn reason_not_measurable(found: &Metadata) -> Option<&'static str> {
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

fn open_error(name: &str, error: Errno, buffered: bool) -> ProbeError {
    let operation = match error {
        Errno::INVAL | Errno::OPNOTSUPP if !buffered => {
            "the filesystem does not support direct I/O; --buffered measures its cache"
        }
        Errno::ROFS => "is read-only, and cannot be written to",
        Errno::TXTBSY => "is in use as a running program or as swap, and cannot be written to",
        Errno::BUSY => "is in use, and cannot be opened to write",
        _ => "cannot be opened",
    };
    ProbeError::io(name, operation, error)
}

fn device_number(packed: u64) -> DeviceNumber {
    (u64::from(major(packed)), u64::from(minor(packed)))
}

/// Opens a block device; for writing, exclusively.
fn open_device(
    path: &Path,
    name: &str,
    options: &TargetOptions,
    file: OwnedFd,
    metadata: &Metadata,
) -> Result<ProbeTarget, ProbeError> {
    let roots = Roots::default();
    let bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(io_error(name, "has no size"))?;
    if bytes == 0 {
        return Err(target_error(name, "has no medium: its size is 0"));
    }
    let sector = ioctl_blksszget(&file).map_or(512, u64::from);
    let device = device_number(metadata.rdev());
    let read_only = fs::read_to_string(sysfs_folder(&roots, device).join("ro")).is_ok_and(|text| text.trim() == "1");
    if options.writes && read_only {
        return Err(target_error(name, "the device is read-only; only suites that only read can measure it"));
    }
    let findings = guard::inspect_device(&roots, &file, device, bytes);
    guard::check_permission(name, &findings, options.writes, &options.consent)?;
    let file = if options.writes {
        // while it is open exclusively, it cannot be mounted
        guard::claim_exclusively(&file, OFlags::RDWR).map_err(|e| open_error(name, e, true))?
    } else {
        file
    };
    let mut target = ProbeTarget::new(path, name, file, bytes, sector, device);
    (target.is_device, target.findings) = (true, findings);
    Ok(target)
}

/// Opens an existing file: reading is harmless, writing destroys it.
fn open_existing_file(
    path: &Path,
    name: &str,
    options: &TargetOptions,
    file: OwnedFd,
    metadata: &Metadata,
) -> Result<ProbeTarget, ProbeError> {
    let bytes = metadata.len();
    let mut findings = Findings::default();
    let is_ours = fill::was_filled_by_probe(&file, bytes).unwrap_or(false);
    findings.carries.push(if is_ours {
        "a file that an earlier probe filled and kept; it can be removed".into()
    } else {
        "a file that existed before".into()
    });
    if metadata.nlink() > 1 {
        findings.carries.push(format!("it has {} names (hard links)", metadata.nlink()));
    }
    if options.writes {
        let open = fs::File::from(file.try_clone().map_err(io_error(name, "cannot be examined"))?);
        findings.in_use = usage::file_users(&Roots::default(), &open, name);
    }
    guard::check_permission(name, &findings, options.writes, &options.consent)?;
    let mut target = target_of_file(path, name, file, bytes, options.buffered)?;
    if options.writes {
        // if it cannot be written to, find out now, not after half of the suite
        drop(target.open(true, options.buffered, false)?);
    }
    target.findings = findings;
    let holes = describe_holes(&target.file, bytes, MAX_EXTENTS);
    target.is_sparse = holes.is_some();
    target.cautions.extend(holes);
    Ok(target)
}

impl ProbeTarget {
    fn new(path: &Path, name: &str, file: OwnedFd, bytes: u64, sector: u64, device: DeviceNumber) -> ProbeTarget {
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
            created: false,
            temporary_name: None,
        }
    }
}

/// Creates the target of an open file, and checks that it can be opened for runs.
fn target_of_file(
    path: &Path,
    name: &str,
    file: OwnedFd,
    bytes: u64,
    buffered: bool,
) -> Result<ProbeTarget, ProbeError> {
    let metadata = rustix::fs::fstat(&file).map_err(io_error(name, "cannot be examined"))?;
    let device = device_number(metadata.st_dev);
    let reported = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    // kernels before 6.1 and many filesystems do not report what direct I/O needs
    let reported = reported.filter(|t| t.stx_mask & StatxFlags::DIOALIGN.bits() != 0).map(|t| t.stx_dio_offset_align);
    if reported == Some(0) && !buffered {
        return Err(open_error(name, Errno::INVAL, false));
    }
    let sector = reported.filter(|t| *t > 0).map_or_else(|| logical_sector_bytes(&Roots::default(), device), u64::from);
    let filesystem_info = rustix::fs::fstatfs(&file).ok();
    let (kind, block) = filesystem_info
        .map_or((0, 0), |filesystem_info| (filesystem_info.f_type as u32, filesystem_info.f_bsize as u64));
    let mut target = ProbeTarget::new(path, name, file, bytes, sector.max(min_direct_bytes(kind, block)), device);
    target.cautions.extend(filesystem_caution(kind).map(str::to_owned));
    // a filesystem without direct I/O refuses only now: better than after filling
    drop(target.open(false, buffered, false)?);
    Ok(target)
}

/// Returns a caution if a filesystem does something unexpected with direct I/O. The numbers are
/// those of statfs(2).
fn filesystem_caution(kind: u32) -> Option<&'static str> {
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

/// Filesystem number of btrfs in statfs(2).
const BTRFS: u32 = 0x9123_683e;
/// Filesystem number of F2FS in statfs(2).
const F2FS: u32 = 0xf2f5_2010;

/// Returns the smallest direct request of filesystems that silently send requests smaller than a
/// block through the page cache; 0 for all others. `block` is the block size of statfs(2), bytes.
fn min_direct_bytes(kind: u32, block: u64) -> u64 {
    if matches!(kind, BTRFS | F2FS) { block } else { 0 }
}

/// Returns a sentence about the holes of a file, which can be read without disk access; `None` if
/// they are few. Examines at most `max_extents` extents.
fn describe_holes(file: &OwnedFd, bytes: u64, max_extents: usize) -> Option<String> {
    let (mut offset, mut data_bytes, mut extents) = (0, 0, 0);
    while extents < max_extents {
        let Ok(from) = rustix::fs::seek(file, SeekFrom::Data(offset)) else { break };
        offset = rustix::fs::seek(file, SeekFrom::Hole(from)).ok()?;
        data_bytes += offset.min(bytes).saturating_sub(from);
        if offset >= bytes {
            break;
        }
        extents += 1;
    }
    // of a file with more extents, only the examined part counts
    let examined_bytes = if extents == max_extents { offset.min(bytes) } else { bytes };
    let share = 1.0 - data_bytes as f64 / examined_bytes.max(1) as f64;
    (share > MIN_REPORTED_HOLE_SHARE).then(|| {
        let percent = (share * 100.0).round();
        format!("{percent:.0} % of the file is holes or was never written: reading those needs no disk access")
    })
}

/// Returns the logical sector size of the disk below a file, bytes; 512 if it is not shown.
fn logical_sector_bytes(roots: &Roots, device: DeviceNumber) -> u64 {
    let folder = sysfs_folder(roots, device);
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
    // a partition uses its disk's queue
    let sector =
        read(folder.join("queue/logical_block_size")).or_else(|| read(folder.join("../queue/logical_block_size")));
    sector.unwrap_or(512)
}

/// Creates and fills a file, without a name if the filesystem supports that and it need not be kept.
fn create_file(
    path: &Path,
    name: &str,
    options: &TargetOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ProbeTarget, ProbeError> {
    guard::check_new(path)?;
    let (file, temporary_name) = match create_unnamed_file(path).filter(|_| !options.keep) {
        Some(file) => (file, None),
        None => {
            let file = fs::File::options().read(true).write(true).create_new(true).open(path);
            let file = file.map_err(io_error(name, "cannot be created"))?;
            let metadata = file.metadata().map_err(io_error(name, "cannot be examined"))?;
            // from here on it is removed after any error, even if the working directory changes
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            (file.into(), Some(TemporaryName { path, identity: (metadata.dev(), metadata.ino()), keep: false }))
        }
    };
    let default_bytes = options.default_bytes.unwrap_or(DEFAULT_FILE_BYTES);
    let bytes = choose_file_bytes(name, &file, options.bytes, default_bytes)?;
    let mut target = target_of_file(path, name, file, bytes, options.buffered)?;
    (target.created, target.temporary_name) = (true, temporary_name);
    let is_allocated = options.new_blocks && fill::allocate_file(&target.file, bytes);
    let is_complete =
        is_allocated || fill::fill_file(&target.file, bytes, progress).map_err(io_error(name, "cannot be filled"))?;
    if !is_complete {
        return Err(target_error(name, "interrupted while it was being filled; it was removed"));
    }
    if options.keep {
        // the file is complete now, and the user wants to keep it
        if let Some(temporary_name) = &mut target.temporary_name {
            temporary_name.keep = true;
        }
    }
    Ok(target)
}

/// Creates a file without a name, in the folder of `path`.
fn create_unnamed_file(path: &Path) -> Option<OwnedFd> {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok()
}

/// Chooses the size of a created file: the requested or the default size, and at most half of the
/// free space.
fn choose_file_bytes(
    name: &str,
    file: &OwnedFd,
    requested: Option<u64>,
    default_bytes: u64,
) -> Result<u64, ProbeError> {
    let space = fstatvfs(file).map_err(io_error(name, "its filesystem cannot be examined"))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let max_bytes = (free as f64 * MAX_FREE_SPACE_SHARE) as u64;
    let bytes = match requested {
        Some(bytes) if bytes > max_bytes => {
            let because = format!("{bytes} bytes requested, {free} are free, and at most half of that may be used");
            return Err(target_error(name, because));
        }
        Some(bytes) => bytes,
        None => default_bytes.min(max_bytes),
    } / CHUNK_BYTES as u64
        * CHUNK_BYTES as u64;
    if bytes == 0 {
        let reason = match requested {
            Some(requested) => format!("{requested} bytes are requested"),
            None => format!("half of the free space is {max_bytes} bytes"),
        };
        return Err(target_error(name, format!("a file of at least 1 MiB is needed, and {reason}")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
