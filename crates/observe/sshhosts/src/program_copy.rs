//! The program that is copied to a host: its bytes, its hash, and the processor that it runs on.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::SshError;

/// Largest program that is copied, bytes. A debug build with all its symbols is half of it.
const MAX_PROGRAM_BYTES: u64 = 512 << 20;
/// Names that `uname -m` has for the machine numbers of ELF files (ELF specification, `e_machine`).
const MACHINES: [(u16, &str); 4] = [(62, "x86_64"), (183, "aarch64"), (243, "riscv64"), (22, "s390x")];

/// A program to copy.
#[derive(Clone, Debug)]
pub struct ProgramCopy {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes, in hexadecimal digits.
    pub hash: String,
    /// Processor, as `uname -m` prints it.
    pub machine: &'static str,
}

impl ProgramCopy {
    /// Reads a program: this one (`/proc/self/exe`), or one for another processor.
    ///
    /// # Errors
    /// When it cannot be read, or is no program of Linux.
    pub fn read(path: &Path) -> Result<ProgramCopy, SshError> {
        let fail = |because: String| SshError::Copy { path: PathBuf::from(path), because };
        let file = File::open(path).map_err(|error| fail(error.to_string()))?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(fail("not a regular file".into()));
        }
        let mut bytes = Vec::new();
        file.take(MAX_PROGRAM_BYTES + 1).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
        if bytes.len() as u64 > MAX_PROGRAM_BYTES {
            return Err(fail("larger than 512 MiB".into()));
        }
        let machine = machine_of(&bytes).ok_or_else(|| fail("no program of Linux for a known processor".into()))?;
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(ProgramCopy { bytes, hash, machine })
    }
}

/// The processor of a 64-bit ELF program with little-endian numbers, or of s390x.
fn machine_of(bytes: &[u8]) -> Option<&'static str> {
    let head = bytes.get(..20)?;
    if &head[..5] != b"\x7fELF\x02" {
        return None;
    }
    let number = match head[5] {
        1 => u16::from_le_bytes([head[18], head[19]]),
        _ => u16::from_be_bytes([head[18], head[19]]),
    };
    MACHINES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_one_for_this_processor() {
        let copy = ProgramCopy::read(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(copy.machine, std::env::consts::ARCH);
        assert_eq!(copy.hash.len(), 64);
    }

    #[test]
    fn a_text_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let error = ProgramCopy::read(&file).unwrap_err().to_string();
        assert!(error.ends_with("no program of Linux for a known processor"), "{error}");
    }
}
