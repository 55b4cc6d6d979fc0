//! Permission to use a target. Reading a device that is in use needs the user's consent. A device
//! that is in use (mounted, held, swapped on) is never written to; any other device only if the user
//! named it with `--destroy-data-on`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;

use diskwright_counters::live::Roots;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::claim::claim_exclusively;
use crate::node::DeviceNumber;
use crate::refusal::Refusal;
use crate::{signature, usage};

/// Findings about a block device or file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Its users: mounts, holders, swap, processes. If there are any, it is never written to.
    pub in_use: Vec<String>,
    /// Its contents: partitions, signatures.
    pub carries: Vec<String>,
}

/// Consent of the user.
#[derive(Clone, Debug, Default)]
pub struct Consent {
    /// `--live`
    pub live: bool,
    /// `--destroy-data-on NAME`
    pub destroy: Option<String>,
}

/// Checks whether a device may be read, or written as well.
///
/// # Errors
/// The [`Refusal`] gives the reason, and what the user can do.
pub fn check_permission(name: &str, findings: &Findings, writes: bool, consent: &Consent) -> Result<(), Refusal> {
    let name = name.to_owned();
    if let Some(why) = (!findings.in_use.is_empty()).then(|| findings.in_use.join(", ")) {
        if writes {
            return Err(Refusal::InUse { name, why });
        }
        if !consent.live {
            return Err(Refusal::NeedsLive { name, why });
        }
    }
    if !writes {
        return Ok(());
    }
    match &consent.destroy {
        Some(typed) if *typed == name => Ok(()),
        Some(typed) => Err(Refusal::OtherName { typed: typed.clone(), name }),
        None => {
            let unknown = "no known signature, but perhaps data";
            let contents = if findings.carries.is_empty() { unknown.into() } else { findings.carries.join(", ") };
            Err(Refusal::NeedsName { name, contents })
        }
    }
}

/// Checks whether a regular file may be opened for writing, or created: nothing uses it, and it is
/// not in /dev, /proc or /sys. Files that are not regular are left to the caller.
///
/// # Errors
/// [`Refusal::InUse`] with its users, or [`Refusal::KernelFolder`].
pub fn check_file(path: &Path) -> Result<(), Refusal> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return crate::check_new(path),
        // opening it will report the error
        _ => return Ok(()),
    }
    let Ok(file) = File::open(path) else { return Ok(()) };
    let name = path.display().to_string();
    let in_use = usage::file_users(&Roots::default(), &file, &name);
    if in_use.is_empty() { Ok(()) } else { Err(Refusal::InUse { name, why: in_use.join(", ") }) }
}

/// Inspects a block device of `bytes` bytes: its users and its contents. The caller has it open as
/// `file`, so that no other device can take its place meanwhile.
#[must_use]
pub fn inspect_device(roots: &Roots, file: &OwnedFd, number: DeviceNumber, bytes: u64) -> Findings {
    let mut findings = Findings { in_use: usage::device_users(roots, number), carries: Vec::new() };
    if findings.in_use.is_empty() && matches!(claim_exclusively(file, OFlags::RDONLY), Err(Errno::BUSY)) {
        findings.in_use.push("the kernel does not grant exclusive access".to_owned());
    }
    // the first entry is the device itself
    let partitions = usage::with_partitions(roots, number).into_iter().skip(1);
    findings.carries.extend(partitions.map(|(_, name)| format!("the partition {name}")));
    match signature::find_signatures(file, bytes) {
        Ok(formats) => findings.carries.extend(formats.into_iter().map(str::to_owned)),
        // no refusal: a failing device can still be measured by reading
        Err(error) => findings.carries.push(format!("unreadable content ({error})")),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consent(live: bool, destroy: Option<&str>) -> Consent {
        Consent { live, destroy: destroy.map(str::to_owned) }
    }

    #[test]
    fn each_refusal_has_its_reason_and_its_way_out() {
        let free = Findings::default();
        let marked = Findings { carries: vec!["XFS".into()], ..Findings::default() };
        let mounted = Findings { in_use: vec!["sda1 is mounted on /".into()], carries: vec!["XFS".into()] };
        let name = "/dev/sda";
        // reading
        assert_eq!(check_permission(name, &free, false, &consent(false, None)), Ok(()));
        assert_eq!(check_permission(name, &marked, false, &consent(false, None)), Ok(()));
        assert!(matches!(
            check_permission(name, &mounted, false, &consent(false, None)),
            Err(Refusal::NeedsLive { .. })
        ));
        assert_eq!(check_permission(name, &mounted, false, &consent(true, None)), Ok(()));
        // writing
        assert!(matches!(check_permission(name, &free, true, &consent(true, None)), Err(Refusal::NeedsName { .. })));
        assert!(matches!(check_permission(name, &marked, true, &consent(false, None)), Err(Refusal::NeedsName { .. })));
        assert_eq!(check_permission(name, &marked, true, &consent(false, Some(name))), Ok(()));
        assert!(matches!(
            check_permission(name, &marked, true, &consent(false, Some("sda"))),
            Err(Refusal::OtherName { .. })
        ));
        // in use: no option helps
        assert!(matches!(
            check_permission(name, &mounted, true, &consent(true, Some(name))),
            Err(Refusal::InUse { .. })
        ));
    }
}
