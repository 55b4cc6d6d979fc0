//! What is measured: a file, made and filled by us where it is not there, or a
//! block device. A file that we made goes away with the [`Target`].

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use diskwright_counters::live::Roots;
use rustix::fs::{FileType, Mode, OFlags, fstatvfs, ioctl_blksszget, major, minor};

use crate::draw::Dice;
use crate::error::ProbeError;
use crate::guard::{self, Findings, Said};

/// Size of a file that is made, where nobody says.
pub const USUAL_BYTES: u64 = 1 << 30;
/// At most this share of the free space is filled.
const MOST_OF_FREE: f64 = 0.5;
/// A write while filling, bytes.
const FILL: usize = 1 << 20;

/// What is measured.
#[derive(Debug)]
pub struct Target {
    /// As the user wrote it.
    pub name: String,
    path: PathBuf,
    /// Bytes that may be touched.
    pub bytes: u64,
    /// Smallest unit of direct I/O, bytes.
    pub sector: u64,
    /// The device or the one below the file: major and minor, 0 where there is none.
    pub device: (u64, u64),
    /// It is a block device.
    pub is_device: bool,
    /// What was found out about a device.
    pub findings: Findings,
    made: bool,
    keep: bool,
}

/// How to take a target.
#[derive(Clone, Debug, Default)]
pub struct Take {
    /// Something will be written.
    pub writes: bool,
    /// What the user said about devices and files that hold something.
    pub said: Said,
    /// Size of a file to make; [`USUAL_BYTES`] otherwise.
    pub bytes: Option<u64>,
    /// Leave a file that was made.
    pub keep: bool,
}

impl Target {
    /// Takes a file or device. A file that is not there is made and filled with
    /// bytes that nothing can make smaller; `filled` hears of the progress
    /// (bytes done, bytes in all) and ends it by `false`.
    ///
    /// # Errors
    /// When the guard refuses, when it is neither file nor block device, or
    /// when the system refuses.
    pub fn take(path: &Path, take: &Take, filled: &mut dyn FnMut(u64, u64) -> bool) -> Result<Target, ProbeError> {
        let name = path.display().to_string();
        let wrong = |because: &str| ProbeError::Target { target: name.clone(), because: because.into() };
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return make(path, &name, take, filled),
            Err(e) => return Err(ProbeError::io(&name, "cannot be looked at", e)),
        };
        let kind = found.file_type();
        if kind.is_dir() {
            return Err(wrong("a folder; name a file in it that is not there yet, and it is made, filled and removed"));
        }
        if kind.is_file() {
            return existing(path, &name, take, found.len());
        }
        use std::os::unix::fs::FileTypeExt;
        if kind.is_block_device() {
            return device(path, &name, take);
        }
        Err(wrong(match () {
            () if kind.is_char_device() => {
                "a character device (a terminal, a tape, a raw device): only files and block devices are measured"
            }
            () if kind.is_fifo() || kind.is_socket() => "a pipe or socket: only files and block devices are measured",
            () => "neither a file nor a block device",
        }))
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
        rustix::fs::open(&self.path, flags, Mode::empty()).map_err(|e| {
            let what = match e {
                rustix::io::Errno::INVAL if !buffered => {
                    "the filesystem knows no direct I/O; --buffered measures its cache"
                }
                rustix::io::Errno::ROFS => "is read-only",
                _ => "cannot be opened",
            };
            ProbeError::io(&self.name, what, e)
        })
    }

    /// True for a file that was made for this.
    pub fn was_made(&self) -> bool {
        self.made
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.made && !self.keep {
            // nobody is left to be told
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn device(path: &Path, name: &str, take: &Take) -> Result<Target, ProbeError> {
    let io = |what, e: rustix::io::Errno| ProbeError::io(name, what, e);
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| io("cannot be opened", e))?;
    let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|e| io("has no size", e))?;
    let number = rustix::fs::fstat(&file).map_err(|e| io("cannot be looked at", e))?.st_rdev;
    let sector = ioctl_blksszget(&file).map_or(512, u64::from);
    if bytes == 0 {
        return Err(ProbeError::Target { target: name.into(), because: "has no medium: its size is 0".into() });
    }
    let findings =
        guard::inspect(&Roots::default(), path, bytes).map_err(|e| ProbeError::io(name, "cannot be looked at", e))?;
    guard::allow(name, &findings, take.writes, &take.said)?;
    let device = (u64::from(major(number)), u64::from(minor(number)));
    let (name, path) = (name.to_owned(), path.to_owned());
    Ok(Target { name, path, bytes, sector, device, is_device: true, findings, made: false, keep: true })
}

/// A file that was there: reading is harmless, writing destroys it.
fn existing(path: &Path, name: &str, take: &Take, bytes: u64) -> Result<Target, ProbeError> {
    if bytes == 0 {
        return Err(ProbeError::Target { target: name.into(), because: "an empty file".into() });
    }
    let carries = vec!["a file that was there before".to_owned()];
    let findings = Findings { in_use: Vec::new(), carries };
    guard::allow(name, &findings, take.writes, &take.said)?;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| ProbeError::io(name, "cannot be opened", e))?;
    let mut target = of_file(path, name, &file, bytes)?;
    target.findings = findings;
    Ok(target)
}

fn of_file(path: &Path, name: &str, file: &OwnedFd, bytes: u64) -> Result<Target, ProbeError> {
    let found = rustix::fs::fstat(file).map_err(|e| ProbeError::io(name, "cannot be looked at", e))?;
    let device = (u64::from(major(found.st_dev)), u64::from(minor(found.st_dev)));
    Ok(Target {
        name: name.to_owned(),
        path: path.to_owned(),
        bytes,
        // what a filesystem needs is not told everywhere; its block always does
        sector: direct_unit(&Roots::default(), device),
        device,
        is_device: FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice,
        findings: Findings::default(),
        made: false,
        keep: true,
    })
}

/// The logical sector of the disk below a file, 512 where it is not shown.
fn direct_unit(roots: &Roots, device: (u64, u64)) -> u64 {
    let folder = roots.at(&format!("/sys/dev/block/{}:{}", device.0, device.1));
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
    // a partition's queue is its disk's
    let unit =
        read(folder.join("queue/logical_block_size")).or_else(|| read(folder.join("../queue/logical_block_size")));
    unit.unwrap_or(512)
}

fn make(path: &Path, name: &str, take: &Take, filled: &mut dyn FnMut(u64, u64) -> bool) -> Result<Target, ProbeError> {
    let io = |what: &'static str| move |e: std::io::Error| ProbeError::io(name, what, e);
    let mut file = fs::File::options().write(true).create_new(true).open(path).map_err(io("cannot be made"))?;
    // from here on it goes away whatever happens
    let handle = OwnedFd::from(file.try_clone().map_err(io("cannot be opened"))?);
    let mut target = of_file(path, name, &handle, 0)?;
    (target.made, target.keep) = (true, take.keep);
    let room = fstatvfs(&file).map_err(|e| ProbeError::io(name, "its filesystem cannot be looked at", e))?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let most = (free as f64 * MOST_OF_FREE) as u64;
    let bytes = match take.bytes {
        Some(bytes) if bytes > most => {
            let because = format!("{bytes} bytes asked for, {free} are free, and at most half of that is filled");
            return Err(ProbeError::Target { target: name.into(), because });
        }
        Some(bytes) => bytes,
        None => USUAL_BYTES.min(most),
    } / FILL as u64
        * FILL as u64;
    if bytes == 0 {
        let because = format!("a file of at least 1 MiB is needed, and half of the free space is {most} bytes");
        return Err(ProbeError::Target { target: name.into(), because });
    }
    let mut dice = Dice::new(bytes, u64::MAX);
    let mut buffer = vec![0u8; FILL];
    for done in 0..bytes / FILL as u64 {
        for word in buffer.chunks_exact_mut(8) {
            word.copy_from_slice(&dice.bits().to_ne_bytes());
        }
        file.write_all(&buffer).map_err(io("cannot be filled"))?;
        if !filled((done + 1) * FILL as u64, bytes) {
            return Err(ProbeError::Target { target: name.into(), because: "interrupted while it was filled".into() });
        }
    }
    file.sync_all().map_err(io("cannot be filled"))?;
    // what was just written must not be answered from memory in a buffered run
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    target.bytes = bytes;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, take: &Take) -> Result<Target, String> {
        Target::take(path, take, &mut |_, _| true).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_is_made_filled_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.dat");
        let asked = Take { bytes: Some(3 << 20), writes: true, ..Take::default() };
        let target = take(&path, &asked).unwrap();
        assert_eq!(target.bytes, 3 << 20);
        let bytes = fs::read(&path).unwrap();
        // nothing repeats
        assert_ne!(bytes[..FILL], bytes[FILL..2 * FILL]);
        drop(target);
        assert!(!path.exists());
        drop(take(&path, &Take { keep: true, ..asked }).unwrap());
        assert!(path.exists());
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        fs::write(&file, [1; 8192]).unwrap();
        let empty = folder.path().join("empty");
        fs::write(&empty, []).unwrap();
        let usual = Take::default();
        assert!(take(folder.path(), &usual).unwrap_err().contains("a folder"));
        assert!(take(Path::new("/dev/null"), &usual).unwrap_err().contains("character device"));
        assert!(take(&empty, &usual).unwrap_err().contains("empty"));
        assert!(take(&folder.path().join("no/such/file"), &usual).unwrap_err().contains("cannot be made"));
        let writes = Take { writes: true, ..Take::default() };
        let said = take(&file, &writes).unwrap_err();
        assert!(said.contains("--destroy-data-on") && said.contains("data"), "{said}");
        assert_eq!(take(&file, &usual).unwrap().bytes, 8192);
        let huge = Take { bytes: Some(1 << 60), ..Take::default() };
        assert!(take(&folder.path().join("huge"), &huge).unwrap_err().contains("are free"));
        assert!(!folder.path().join("huge").exists());
    }

    #[test]
    fn an_interrupted_filling_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.dat");
        let asked = Take { bytes: Some(8 << 20), ..Take::default() };
        assert!(Target::take(&path, &asked, &mut |done, _| done < 2 << 20).is_err());
        assert!(!path.exists());
    }
}
