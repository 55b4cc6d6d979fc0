//! Contents of a tar or zip archive: logs are unpacked into a private temporary folder, other files are only counted.
//! Names from an archive never lead out of that folder, and links in it are not created.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diskwright_base::byte_size::ByteSize;
use diskwright_base::timestamp;
use diskwright_datastore::is_log;
use diskwright_hostfiles::private_files;
use diskwright_logs::{InputHead, LogInput, MAX_HEAD_BYTES, is_tar, spool_limit};

use super::content::{BundleContent, FoundLog};
use crate::IngestError;
use crate::report::Event;
use crate::temporary::TemporaryFolder;

/// Maximum nesting of archives.
const MAX_DEPTH: usize = 3;
/// Name of Diskwright's own log format in messages.
const OWN_FORMAT: &str = "diskwright";

/// True for a tar archive, compressed or not, and for a zip archive.
pub fn is_archive(path: &Path) -> bool {
    LogInput::open(path).is_ok_and(|input| {
        let head = input.head();
        is_tar(head.bytes) || is_zip(head.bytes)
    })
}

fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04")
}

/// True for a file that may hold a log once it is decompressed.
fn is_packed(head: &[u8]) -> bool {
    const MAGIC: [&[u8]; 4] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ\0", b"BZh"];
    MAGIC.iter().any(|magic| head.starts_with(magic)) || is_zip(head) || is_tar(head)
}

/// Classifies one file of a bundle: a log, an archive, or neither.
pub fn classify_file(path: PathBuf, name: &str, content: &mut BundleContent, depth: usize) -> Result<(), IngestError> {
    if path.is_dir() {
        content.logs.push(FoundLog { path, name: name.to_owned(), format: OWN_FORMAT });
        return Ok(());
    }
    let input = match LogInput::open_named(&path, name) {
        Ok(input) => input,
        Err(error) => {
            content.refused.push(error.to_string());
            return Ok(());
        }
    };
    let (tar, zip) = (is_tar(input.head().bytes), is_zip(input.head().bytes));
    if (tar || zip) && depth < MAX_DEPTH {
        let mut unpacking = ArchiveUnpacker::start_unpacking(name, content, depth)?;
        let result = if tar { unpacking.unpack_tar(input) } else { unpacking.unpack_zip(input) };
        if let Err(error) = result {
            content.refused.push(format!("{name}: the archive is truncated or damaged: {error}"));
        }
        return Ok(());
    }
    match diskwright_logs::format_of_head(&input.head()) {
        Some(format) => content.logs.push(FoundLog { path, name: name.to_owned(), format: format.id }),
        None => content.other_files += 1,
    }
    Ok(())
}

/// An archive that is being unpacked into a folder.
struct ArchiveUnpacker<'a> {
    /// Name of the archive in messages.
    name: &'a str,
    content: &'a mut BundleContent,
    folder: PathBuf,
    depth: usize,
}

impl<'a> ArchiveUnpacker<'a> {
    fn start_unpacking(
        name: &'a str,
        content: &'a mut BundleContent,
        depth: usize,
    ) -> Result<ArchiveUnpacker<'a>, IngestError> {
        let folder = match &content.unpacked {
            Some(folder) => Rc::clone(folder),
            None => Rc::clone(content.unpacked.insert(Rc::new(TemporaryFolder::new()?))),
        };
        content.archives += 1;
        let folder = folder.log_path().join(format!("archive-{}", content.archives));
        private_files::create_folder(&folder)?;
        Ok(ArchiveUnpacker { name, content, folder, depth })
    }

    fn unpack_tar(&mut self, input: LogInput) -> io::Result<()> {
        let reporter = self.content.reporter.clone();
        let looking = reporter.start(Event::UnpackingStarted { name: self.name.to_owned() });
        let mut ours = BTreeSet::new();
        let mut archive = tar::Archive::new(input);
        for entry in archive.entries()? {
            let mut entry = entry?;
            looking.tell_progress(Event::FileUnpacked);
            let kind = entry.header().entry_type();
            if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse()) {
                continue;
            }
            let inner = entry.path()?.into_owned();
            let written = since_1970(entry.header().mtime().unwrap_or(0));
            self.unpack_file(&inner, written, &mut entry, &mut ours)?;
        }
        self.add_own_logs(ours);
        Ok(())
    }

    /// Unpacks a zip archive. Its table of contents is at its end, so the archive is first copied to a file.
    fn unpack_zip(&mut self, mut input: LogInput) -> io::Result<()> {
        // beside its folder, because entries in the archive may have any name
        let copy = self.folder.with_extension("zip");
        let mut file = private_files::create(&copy).map_err(io::Error::other)?;
        self.copy_limited(&mut input, &mut file)?;
        let mut archive = zip::ZipArchive::new(File::open(&copy)?)?;
        let mut ours = BTreeSet::new();
        for index in 0..archive.len() {
            let mut entry = match archive.by_index(index) {
                Ok(entry) => entry,
                Err(error) => {
                    self.content.refused.push(format!("{}: file {}: {error}", self.name, index + 1));
                    continue;
                }
            };
            if !entry.is_file() {
                continue;
            }
            let inner = PathBuf::from(String::from_utf8_lossy(entry.name_raw()).into_owned());
            let written = entry.last_modified().and_then(zip_time).unwrap_or(UNIX_EPOCH);
            self.unpack_file(&inner, written, &mut entry, &mut ours)?;
        }
        self.add_own_logs(ours);
        std::fs::remove_file(&copy)
    }

    /// Unpacks a file that may be a log; counts any other.
    fn unpack_file(
        &mut self,
        inner: &Path,
        written: SystemTime,
        stream: &mut dyn Read,
        ours: &mut BTreeSet<(PathBuf, String)>,
    ) -> io::Result<()> {
        let mut head = Vec::new();
        Read::take(&mut *stream, MAX_HEAD_BYTES as u64).read_to_end(&mut head)?;
        let file_name = inner.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let is_ours = diskwright_datastore::is_log_file_name(file_name);
        let format = diskwright_logs::format_of_head(&InputHead { name: file_name, bytes: &head });
        if !is_ours && format.is_none() && !is_packed(&head) {
            self.content.other_files += 1;
            return Ok(());
        }
        let target = self.folder.join(safe_relative_path(inner));
        let folder = target.parent().unwrap_or(&self.folder).to_owned();
        private_files::create_folder(&folder).map_err(io::Error::other)?;
        let mut file = private_files::create(&target).map_err(io::Error::other)?;
        self.copy_limited(&mut Cursor::new(head).chain(stream), &mut file)?;
        file.set_modified(written)?;
        let name = format!("{}: {}", self.name, inner.display());
        if is_ours {
            let inner_folder = inner.parent().unwrap_or(inner).display();
            ours.insert((folder, format!("{}: {inner_folder}", self.name)));
        } else if let Some(format) = format {
            self.forget_replaced(&target, &name);
            self.content.logs.push(FoundLog { path: target, name, format: format.id });
        } else {
            self.forget_replaced(&target, &name);
            let index = self.content.logs.len();
            let result = classify_file(target.clone(), &name, self.content, self.depth + 1);
            result.map_err(|failure| io::Error::other(failure.to_string()))?;
            // the packed file is needed only if it is itself a log
            if self.content.logs.get(index).is_none_or(|log| log.path != target) {
                std::fs::remove_file(&target)?;
            }
        }
        Ok(())
    }

    /// Forgets a file that a later entry of the same name replaced, as unpacking by hand does (`tar -r`).
    fn forget_replaced(&mut self, path: &Path, name: &str) {
        // what a replaced archive contained is forgotten too
        let inner_prefix = format!("{name}: ");
        self.content.logs.retain(|log| !log.name.starts_with(&inner_prefix));
        let Some(index) = self.content.logs.iter().position(|log| log.path == path) else { return };
        let replaced = self.content.logs.remove(index).name;
        if replaced != name {
            self.content.refused.push(format!("{replaced}: {name} has the same place and replaces it"));
        }
    }

    fn add_own_logs(&mut self, folders: BTreeSet<(PathBuf, String)>) {
        let logs = folders.into_iter().filter(|(folder, _)| is_log(folder));
        self.content.logs.extend(logs.map(|(path, name)| FoundLog { path, name, format: OWN_FORMAT }));
    }

    /// Copies within the limit of all unpacked bytes, and leaves the filesystem its reserve.
    fn copy_limited(&mut self, from: &mut dyn Read, to: &mut File) -> io::Result<()> {
        const PIECE_BYTES: u64 = 8 << 20;
        let limit = spool_limit()?;
        loop {
            // one byte more than the limit leaves, so that exceeding it is noticed
            let max_bytes = PIECE_BYTES.min(limit - self.content.bytes.min(limit)) + 1;
            let copied = io::copy(&mut Read::take(&mut *from, max_bytes), to)?;
            self.content.bytes += copied;
            if self.content.bytes > limit {
                let limit = ByteSize::capacity(limit as f64);
                return Err(io::Error::other(format!(
                    "its logs unpack to more than {limit}; unpack it yourself, or set DISKWRIGHT_SPOOL_LIMIT"
                )));
            }
            if copied < max_bytes {
                return to.flush();
            }
            if let Some(Err(reason)) = self.content.unpacked.as_ref().map(|folder| folder.check_free_space()) {
                return Err(io::Error::other(reason));
            }
        }
    }
}

/// Turns a name from an archive into a path below a folder, without parts that would lead out of it.
fn safe_relative_path(name: &Path) -> PathBuf {
    let names = name.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    let path: PathBuf = names.collect();
    if path.as_os_str().is_empty() { PathBuf::from("unnamed") } else { path }
}

/// Converts a tar archive's time. A time before 1970 is stored as a negative number, which is read as a huge one.
fn since_1970(seconds: u64) -> SystemTime {
    /// The year 9999.
    const LATEST: u64 = 253_402_300_799;
    UNIX_EPOCH + Duration::from_secs(if seconds > LATEST { 0 } else { seconds })
}

/// Converts a zip archive's time, which names no zone and is taken as UTC.
fn zip_time(time: zip::DateTime) -> Option<SystemTime> {
    let day = timestamp::day_number(time.year().into(), time.month().into(), time.day().into())?;
    let clock = [time.hour(), time.minute(), time.second()].map(u64::from);
    let is_clock = clock[0] < 24 && clock[1] < 60 && clock[2] < 60;
    let seconds = u64::try_from(day).ok()? * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2];
    is_clock.then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_names_stay_inside_the_folder() {
        for (name, path) in [
            ("../../etc/passwd", "etc/passwd"),
            ("/var/log/sa/sa01", "var/log/sa/sa01"),
            ("./a/../b", "a/b"),
            ("..", "unnamed"),
            ("", "unnamed"),
        ] {
            assert_eq!(safe_relative_path(Path::new(name)), Path::new(path), "{name}");
        }
    }
}
