//! Open files of processes: names, positions and modes.

use std::fs;
use std::path::Path;

use diskwright_base::capture::{MissingPart, OpenFile, OpenFiles};
use rustix::fs::OFlags;

use super::patient_reader::PatientReader;
use super::{numbered_entries, process_folder, read_text, read_word};

/// Largest number of processes whose files are read.
const MAX_PROCESSES: usize = 6;
/// Largest number of descriptors that are counted.
const MAX_COUNTED: usize = 65_536;
/// Largest number of descriptors whose names are read.
const MAX_NAMED: usize = 2048;
/// Largest number of files that are kept of a process.
const MAX_KEPT: usize = 64;
/// Longest name of a file that is kept, characters.
const MAX_NAME_CHARS: usize = 1024;

/// Reads the open files of processes, in their order. The files themselves are not touched.
pub fn read_open_files(
    proc: &Path,
    pids: &[u32],
    reader: &mut PatientReader,
    missing: &mut Vec<MissingPart>,
) -> Vec<OpenFiles> {
    let mut list = Vec::new();
    for pid in pids.iter().copied().take(MAX_PROCESSES) {
        let folder = process_folder(proc, pid);
        let because = match reader.run(move || read_process(&folder, pid)) {
            Some(Ok(files)) => {
                list.push(files);
                continue;
            }
            Some(Err(error)) => error.to_string(),
            None => "its files in /proc did not respond".to_owned(),
        };
        missing.push(MissingPart { what: format!("open files of {pid}"), because });
    }
    list
}

fn read_process(folder: &Path, pid: u32) -> std::io::Result<OpenFiles> {
    let descriptors = folder.join("fd");
    // tells whether this user may see them
    fs::read_dir(&descriptors)?;
    let numbers = numbered_entries(&descriptors, MAX_COUNTED);
    let named = numbers.iter().take(MAX_NAMED).filter_map(|fd| {
        // a link in /proc is a name that the kernel keeps: to read it opens nothing
        let target = fs::read_link(descriptors.join(fd.to_string())).ok()?;
        let path: String = target.to_string_lossy().chars().take(MAX_NAME_CHARS).collect();
        Some(OpenFile { fd: *fd, path, ..OpenFile::default() })
    });
    let mut files: Vec<OpenFile> = named.collect();
    files.sort_by_key(|file| (interest_rank(&file.path), file.fd));
    files.truncate(MAX_KEPT);
    for file in &mut files {
        let info = read_text(&folder.join("fdinfo").join(file.fd.to_string())).unwrap_or_default();
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        file.offset_bytes = field("pos:").and_then(|text| text.parse().ok());
        file.mode =
            field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok()).map(mode_text).unwrap_or_default();
    }
    Ok(OpenFiles { pid, name: read_word(&folder.join("comm")), count: numbers.len() as u64, files })
}

/// Files and devices first, then what is no file.
fn interest_rank(path: &str) -> u8 {
    match path {
        "/dev/null" | "/dev/tty" => 2,
        _ if path.starts_with("/proc/") || path.starts_with("/sys/") => 1,
        _ if path.starts_with('/') => 0,
        _ => 2,
    }
}

/// Flags of an open file in words.
fn mode_text(bits: u32) -> String {
    let flags = OFlags::from_bits_retain(bits);
    let mut words = vec![match flags & OFlags::RWMODE {
        OFlags::WRONLY => "write",
        OFlags::RDWR => "read-write",
        _ => "read",
    }];
    // O_SYNC is O_DSYNC and another bit: both wait for the data
    let named = [
        (OFlags::APPEND, "append"),
        (OFlags::DIRECT, "direct"),
        (OFlags::DSYNC, "sync"),
        (OFlags::NONBLOCK, "nonblock"),
    ];
    words.extend(named.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| word));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};
    use std::time::Duration;

    use super::*;

    fn read_own() -> OpenFiles {
        let mut reader = PatientReader::new(Duration::from_secs(5));
        let mut missing = Vec::new();
        let mut list = read_open_files(Path::new("/proc"), &[std::process::id()], &mut reader, &mut missing);
        assert!(missing.is_empty(), "{missing:?}");
        list.remove(0)
    }

    #[test]
    fn a_file_has_its_name_position_and_mode_and_a_huge_table_is_bounded() {
        let folder = std::env::temp_dir().join(format!("moment-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        // a name with an escape sequence and a line break stays data
        let path = folder.join("a\u{1b}[31m\nb");
        fs::write(&path, "0123456789").expect("a file");
        let mut file = fs::File::options().read(true).append(true).open(&path).expect("it is there");
        file.seek(SeekFrom::Start(7)).expect("a file");
        let own = read_own();
        let found = own.files.iter().find(|file| file.path == path.to_string_lossy()).expect("it is open");
        assert_eq!((found.offset_bytes, found.mode.as_str()), (Some(7), "read-write append"));
        let many: Vec<fs::File> = (0..600).map(|_| file.try_clone().expect("a descriptor")).collect();
        let own = read_own();
        assert!(own.count > 600 && own.files.len() == MAX_KEPT, "{} of {}", own.files.len(), own.count);
        drop(many);
        fs::remove_dir_all(&folder).expect("was there");
    }

    #[test]
    fn a_process_that_is_gone_is_told() {
        let (mut reader, mut missing) = (PatientReader::new(Duration::from_secs(5)), Vec::new());
        assert!(read_open_files(Path::new("/proc"), &[u32::MAX], &mut reader, &mut missing).is_empty());
        assert_eq!(missing[0].what, format!("open files of {}", u32::MAX));
    }

    #[test]
    fn modes_are_words() {
        let bits = |flags: OFlags| mode_text(flags.bits());
        assert_eq!(bits(OFlags::WRONLY | OFlags::DIRECT), "write direct");
        assert_eq!(bits(OFlags::RDWR | OFlags::SYNC), "read-write sync");
        assert_eq!(bits(OFlags::RDONLY | OFlags::DSYNC | OFlags::NONBLOCK), "read sync nonblock");
    }
}
