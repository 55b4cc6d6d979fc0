//! What a striped target stands on, as the kernel shows it.

use std::path::Path;

use diskwright_base::Topology;

use crate::device::Facts;

/// Kernel names of the members of the set that a target is, or lies on: the
/// first device below it that stands on more than one. Empty where there is none.
///
/// A file is placed by its path (absolute, links followed): the number that
/// btrfs gives a file's device is not the one of its mount.
pub fn members(topology: &Topology, facts: &Facts, file: Option<&Path>) -> Vec<String> {
    let holds = |mount: &str| file.is_some_and(|file| file.starts_with(mount));
    // the last mount of the longest path is the one that is seen
    let mounted = topology.filesystems.iter().filter(|f| holds(&f.mount)).max_by_key(|f| f.mount.len());
    let mut name = mounted.map(|f| f.device.clone()).filter(|d| !d.is_empty()).unwrap_or_else(|| facts.name.clone());
    // a chain of one below the other is short; a ring is a broken description
    for _ in 0..16 {
        match topology.device(&name).map(|d| &d.below[..]) {
            Some([one]) => name.clone_from(one),
            Some([]) | None => return Vec::new(),
            Some(several) => return several.to_vec(),
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Device, Filesystem};

    use super::*;

    #[test]
    fn members_are_found_below_partitions_and_filesystems() {
        let device = |name: &str, below: &[&str]| Device {
            name: name.into(),
            below: below.iter().map(|s| s.to_string()).collect(),
            ..Device::default()
        };
        let topology = Topology {
            devices: vec![
                device("sda", &[]),
                device("md0", &["sda", "sdb"]),
                device("md0p1", &["md0"]),
                device("btrfs:x", &["loop1", "loop2"]),
                device("a", &["b"]),
                device("b", &["a"]),
            ],
            filesystems: [("/", "sda"), ("/data", "btrfs:x"), ("/data2", "md0")]
                .map(|(mount, device)| Filesystem { mount: mount.into(), device: device.into(), ..Default::default() })
                .to_vec(),
            ..Topology::default()
        };
        let of = |name: &str, file: Option<&str>| {
            let facts = Facts { name: name.into(), ..Facts::default() };
            members(&topology, &facts, file.map(Path::new))
        };
        assert_eq!(of("md0p1", None), ["sda", "sdb"]);
        assert_eq!(of("", Some("/data/d/file")), ["loop1", "loop2"]);
        assert!(of("", Some("/etc/passwd")).is_empty() && of("", Some("/database")).is_empty());
        assert!(of("sda", None).is_empty() && of("unheard-of", None).is_empty());
        assert!(of("a", None).is_empty(), "a ring ends");
    }
}
