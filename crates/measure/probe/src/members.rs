//! Members of a striped target, as the kernel shows them.

use diskwright_base::Topology;

use crate::facts::DeviceFacts;

/// Returns the kernel names of the members of the array that a target is or lies on: the devices below
/// the first device, from the target down, that has more than one. Empty if there is no such device.
pub fn find_members(topology: &Topology, facts: &DeviceFacts) -> Vec<String> {
    let mut name = facts.name.clone();
    // a chain of single devices is short; a longer one is a cycle in a broken description
    for _ in 0..16 {
        match topology.find_device(&name).map(|d| &d.below[..]) {
            Some([lower]) => name.clone_from(lower),
            Some([]) | None => return Vec::new(),
            Some(members) => return members.to_vec(),
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use diskwright_base::Device;

    use super::*;

    #[test]
    fn members_are_found_below_partitions_and_volumes() {
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
            ..Topology::default()
        };
        let of = |name: &str| find_members(&topology, &DeviceFacts { name: name.into(), ..DeviceFacts::default() });
        assert_eq!(of("md0p1"), ["sda", "sdb"]);
        assert_eq!(of("btrfs:x"), ["loop1", "loop2"]);
        assert!(of("sda").is_empty() && of("unheard-of").is_empty() && of("").is_empty());
        assert!(of("a").is_empty(), "a ring ends");
    }
}
