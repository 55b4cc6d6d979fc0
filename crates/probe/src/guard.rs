//! What stands against touching a target. Reading a device that is in use
//! needs the user's word; writing needs more: a device that is mounted, held,
//! or in use is never written to, and one that carries anything only when its
//! name was typed behind `--destroy-data-on`.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use diskwright_counters::live::Roots;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::signature;
use crate::usage::{self, Number};

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

/// Looks at a block device from all sides: an open one, so that nobody puts
/// another in its place meanwhile.
#[must_use]
pub fn inspect(roots: &Roots, file: &OwnedFd, number: Number, bytes: u64) -> Findings {
    let mut findings = Findings { in_use: usage::of_device(roots, number), carries: Vec::new() };
    if findings.in_use.is_empty() && matches!(claim(file, OFlags::RDONLY), Err(Errno::BUSY)) {
        findings.in_use.push("the kernel does not give it exclusively".to_owned());
    }
    let parts = usage::with_partitions(roots, number);
    findings.carries.extend(parts.into_iter().skip(1).map(|(_, name)| format!("the partition {name}")));
    match signature::find(file, bytes) {
        Ok(marks) => findings.carries.extend(marks.into_iter().map(str::to_owned)),
        // a device that fails can still be measured by reading
        Err(error) => findings.carries.push(format!("what cannot be read ({error})")),
    }
    findings
}

/// Takes a block device for ourselves alone: the kernel gives it so only where
/// nobody else has it so (filesystems, arrays, device mapper and swap all do),
/// and as long as we have it, none of them gets it.
///
/// # Errors
/// `EBUSY` where somebody has it; what the system says otherwise.
pub fn claim(file: &OwnedFd, mode: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(again(file), mode | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
}

/// A path by which an open file is opened once more, whatever its name leads
/// to by now, and even where it has none.
#[must_use]
pub fn again(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
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
}
