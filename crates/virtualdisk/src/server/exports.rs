//! What of a system is served: arrays, and drives that belong to none.

use diskwright_simulator::device::Device;
use diskwright_simulator::system::{System, Target};

/// Something that clients can open by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// Its name in the description.
    pub name: String,
    /// What it is.
    pub target: Target,
    /// The level of an array, or what a drive is called in the catalogue.
    pub kind: String,
    /// Heads move below it.
    pub rotational: bool,
}

/// The exports of a system, the default one first: what the first workload
/// uses, else the first array, else the first drive.
pub fn exports(system: &System) -> Vec<Export> {
    let members = || system.arrays.iter().flat_map(|set| set.members.iter().chain(&set.spares));
    let arrays = system.arrays.iter().enumerate().map(|(at, set)| Export {
        name: set.name.clone(),
        target: Target::Array(at),
        kind: set.level.to_string(),
        rotational: is_rotational(system, Target::Array(at)),
    });
    let single = (0..system.drive_count()).filter(|drive| !members().any(|member| member == drive));
    let drives = single.map(|drive| Export {
        name: system.drive_name(drive),
        target: Target::Drive(drive),
        kind: system.group_of(drive).map_or_else(String::new, |(group, _)| system.drives[group].device.name().into()),
        rotational: is_rotational(system, Target::Drive(drive)),
    });
    let mut exports: Vec<Export> = arrays.chain(drives).collect();
    let first = system.workloads.first().and_then(|workload| workload.targets.first());
    if let Some(at) = exports.iter().position(|export| Some(&export.target) == first) {
        exports[..=at].rotate_right(1);
    }
    exports
}

/// Whether heads move below a target.
fn is_rotational(system: &System, target: Target) -> bool {
    let drive = match target {
        Target::Drive(drive) => Some(drive),
        Target::Array(at) => system.arrays.get(at).and_then(|set| set.members.first().copied()),
    };
    let group = drive.and_then(|drive| system.group_of(drive));
    group.is_some_and(|(group, _)| matches!(system.drives[group].device, Device::Mechanical(_)))
}

/// A drive by its name.
pub fn drive_by_name(system: &System, name: &str) -> Option<u32> {
    (0..system.drive_count()).find(|drive| system.drive_name(*drive) == name)
}

/// Says which drives there are instead.
pub fn unknown_drive(system: &System, name: &str) -> String {
    let names: Vec<String> = (0..system.drive_count().min(16)).map(|drive| system.drive_name(drive)).collect();
    let more = if system.drive_count() > 16 { ", …" } else { "" };
    format!("no drive is called `{name}`; there are {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use diskwright_simulator::system::read;

    use super::*;

    const SYSTEM: &str = r#"
        [[drive]]
        name = "disk"
        count = 5
        model = "st34572w"
        [[drive]]
        name = "log"
        model = "st34572w"
        [[array]]
        name = "data"
        level = "raid5"
        drives = ["disk0", "disk1", "disk2"]
        spares = ["disk3"]
    "#;

    fn names(text: &str) -> Vec<String> {
        let described = read::read("test.toml", text, &[], &|_| Err("no files".into())).expect("valid");
        exports(&described.system).into_iter().map(|export| export.name).collect()
    }

    #[test]
    fn arrays_then_drives_of_none() {
        assert_eq!(names(SYSTEM), ["data", "disk4", "log"]);
    }

    #[test]
    fn what_the_first_workload_uses_is_the_default() {
        let text = format!("{SYSTEM}\n[[workload]]\nname = \"a\"\nusers = 1\non = \"log\"\n");
        assert_eq!(names(&text), ["log", "data", "disk4"]);
    }
}
