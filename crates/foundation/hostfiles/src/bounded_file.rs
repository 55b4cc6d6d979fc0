//! Whole files that a user names, read up to a limit: the name may be that of a device or a pipe that never ends.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest description that a person writes: a system, prices, rules, panels, a topology.
pub const MAX_DESCRIPTION_BYTES: u64 = 4 << 20;

/// Reads a file of at most `max_bytes`. A regular file that is larger is refused before it is read.
///
/// # Errors
/// If it cannot be read; [`io::ErrorKind::FileTooLarge`] if it is larger.
pub fn read_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_open_file(File::open(path)?, max_bytes)
}

/// Reads a file as text, as [`read_file`] does.
///
/// # Errors
/// As [`read_file`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text_file(path: &Path, max_bytes: u64) -> io::Result<String> {
    let bytes = read_file(path, max_bytes)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text"))
}

/// Reads the rest of an open file, as [`read_file`] does.
///
/// # Errors
/// As [`read_file`].
pub fn read_open_file(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    // files of the kernel have a length of 0, and more to read
    if found.is_file() && found.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes { Err(too_large(max_bytes)) } else { Ok(bytes) }
}

fn too_large(max_bytes: u64) -> io::Error {
    let limit = match max_bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than the limit of {limit}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "1234").unwrap();
        assert_eq!(read_file(&path, 4).unwrap(), b"1234");
        assert_eq!(read_text_file(&path, 5).unwrap(), "1234");
        let error = read_file(&path, 3).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::FileTooLarge, LIMIT_OF_THREE));
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text_file(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_file(&folder.path().join("none"), 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    const LIMIT_OF_THREE: &str = "larger than the limit of 3 bytes";

    #[test]
    fn a_file_without_end_is_refused() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let error = read_file(Path::new(device), 4 << 10).unwrap_err();
            assert_eq!(error.to_string(), "larger than the limit of 4 KiB", "{device}");
        }
    }

    #[test]
    fn a_hole_of_a_terabyte_is_refused_without_reading_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let error = read_open_file(file, MAX_DESCRIPTION_BYTES).unwrap_err();
        assert_eq!(error.to_string(), "larger than the limit of 4 MiB");
    }

    #[test]
    fn files_of_the_kernel_have_no_length_and_are_read() {
        assert!(!read_file(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    }
}
