//! Programs of the host. Root takes them from fixed folders only, so that
//! no user's PATH decides what root runs. Children have limits.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Resource, Rlimit, geteuid, prlimit};

/// Folders in which distributions install programs.
const PROGRAM_FOLDERS: &[&str] = &["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"];

/// Finds the path of a program: in fixed folders first; for users other than root, then by PATH.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let fixed = PROGRAM_FOLDERS.iter().map(PathBuf::from);
    let path = if geteuid().is_root() { None } else { std::env::var_os("PATH") };
    let path_folders = path.iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute());
    fixed.chain(path_folders).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Variables of our environment that are hidden from children.
const SECRET_VARIABLES: &[&str] = &["DISKWRIGHT_PASSWORD"];

/// Creates a command that runs a program without our secrets.
#[must_use]
pub fn command_without_secrets(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for name in SECRET_VARIABLES {
        command.env_remove(name);
    }
    command
}

/// Resource limits of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// Bytes of address space.
    pub memory_bytes: u64,
    /// Seconds of processor time.
    pub processor_s: u64,
    /// Bytes of the largest file that it writes.
    pub file_bytes: u64,
}

impl Default for ChildLimits {
    /// Enough for a converter that streams: half a gibibyte, ten minutes, and small files.
    fn default() -> ChildLimits {
        ChildLimits { memory_bytes: 512 << 20, processor_s: 600, file_bytes: 64 << 20 }
    }
}

/// Sets the limits of a child that was just started. It runs without them for
/// some microseconds, which are too short to get beyond its loader.
///
/// # Errors
/// If the kernel refuses.
pub fn limit_child(child: &Child, limits: ChildLimits) -> std::io::Result<()> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let set = |resource, value| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        prlimit(id, resource, limit).map(drop).map_err(std::io::Error::from)
    };
    set(Resource::As, limits.memory_bytes)?;
    set(Resource::Cpu, limits.processor_s)?;
    set(Resource::Fsize, limits.file_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn programs_are_found_in_fixed_folders() {
        assert_eq!(find_program("sh").unwrap().file_name().unwrap(), "sh");
        assert!(find_program("no-such-program").is_none());
    }

    #[test]
    fn a_child_gets_no_secrets() {
        let removed: Vec<_> = command_without_secrets("sh")
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(n, _)| n.to_owned())
            .collect();
        assert_eq!(removed, SECRET_VARIABLES);
    }

    #[test]
    fn a_child_cannot_take_more_than_its_limit() {
        let script = "read go; dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null";
        let tried = |memory_bytes| {
            let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
            limit_child(&child, ChildLimits { memory_bytes, ..ChildLimits::default() }).unwrap();
            drop(child.stdin.take());
            child.wait().unwrap().success()
        };
        assert!(tried(1 << 30));
        assert!(!tried(100 << 20));
    }
}
