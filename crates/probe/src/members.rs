//! What a striped target stands on, as the kernel shows it.

use diskwright_base::Topology;

use crate::device::Facts;

/// Kernel names of the members of the set that a target is, or lies on: the
/// first device below it that stands on more than one. Empty where there is none.
pub fn members(topology: &Topology, facts: &Facts) -> Vec<String> {
    let mounted = facts.mount.as_ref().and_then(|mount| topology.filesystems.iter().find(|f| f.mount == *mount));
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
            filesystems: vec![Filesystem { mount: "/data".into(), kind: "btrfs".into(), device: "btrfs:x".into() }],
            ..Topology::default()
        };
        let of = |name: &str, mount: Option<&str>| {
            let facts = Facts { name: name.into(), mount: mount.map(str::to_owned), ..Facts::default() };
            members(&topology, &facts)
        };
        assert_eq!(of("md0p1", None), ["sda", "sdb"]);
        assert_eq!(of("loop1", Some("/data")), ["loop1", "loop2"]);
        assert!(of("sda", None).is_empty() && of("unheard-of", None).is_empty());
        assert!(of("a", None).is_empty(), "a ring ends");
    }
}
