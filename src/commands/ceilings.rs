//! Where the profiles that `probe` measured lie, and which of this machine's
//! devices they are of.

use std::path::PathBuf;

use diskwright_base::Topology;
use diskwright_diagnosis::Ceiling;
use diskwright_probe::{device, profile};

/// `DISKWRIGHT_STATE`, or the user's state folder (for root the machine's).
pub fn folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = variable("DISKWRIGHT_STATE").or_else(|| {
        if rustix::process::geteuid().is_root() {
            return Some(PathBuf::from("/var/lib/diskwright"));
        }
        let home = || variable("HOME").map(|home| home.join(".local/state"));
        variable("XDG_STATE_HOME").or_else(home).map(|state| state.join("diskwright"))
    });
    base.unwrap_or_else(|| std::env::temp_dir().join("diskwright")).join("profiles")
}

/// The ceilings of the devices that a topology names.
pub fn of(topology: &Topology) -> Vec<Ceiling> {
    let profiles = profile::load(&folder());
    let known = |d: &diskwright_base::Device| {
        let key = device::key(d, &d.name);
        let found = profiles.iter().find(|p| p.key == key)?;
        Some(Ceiling { device: d.name.clone(), requests_per_s: found.requests_per_s, bytes_per_s: found.bytes_per_s })
    };
    topology.devices.iter().filter_map(known).collect()
}
