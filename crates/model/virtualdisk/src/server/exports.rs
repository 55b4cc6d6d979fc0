//! Exports of a system: its arrays, and the drives that belong to none.

use diskwright_simulator::DeviceModel;
use diskwright_simulator::system::{System, WorkloadTarget};

/// An export that clients can open by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskExport {
    /// Its name in the description.
    pub name: String,
    /// The array or drive behind it.
    pub target: WorkloadTarget,
    /// Level of an array, or name of a drive in the catalog.
    pub kind: String,
    /// It has drives with moving heads.
    pub rotational: bool,
    /// All of its drives can discard blocks (TRIM). Mechanical drives cannot.
    pub supports_trim: bool,
}

/// Lists the exports of a system, the default one first: the target of the first workload, else the
/// first array, else the first drive.
pub fn list_exports(system: &System) -> Vec<DiskExport> {
    let members = || system.arrays.iter().flat_map(|array| array.members.iter().chain(&array.spares));
    let arrays = system.arrays.iter().enumerate().map(|(index, array)| DiskExport {
        name: array.name.clone(),
        target: WorkloadTarget::Array(index),
        kind: array.level.to_string(),
        rotational: is_rotational(system, WorkloadTarget::Array(index)),
        supports_trim: !target_drives(system, WorkloadTarget::Array(index))
            .iter()
            .any(|drive| is_mechanical(system, *drive)),
    });
    let standalone = (0..system.drive_count()).filter(|drive| !members().any(|member| member == drive));
    let drives = standalone.map(|drive| DiskExport {
        name: system.drive_name(drive),
        target: WorkloadTarget::Drive(drive),
        kind: system
            .find_drive_group(drive)
            .map_or_else(String::new, |(group, _)| system.drives[group].device.name().into()),
        rotational: is_rotational(system, WorkloadTarget::Drive(drive)),
        supports_trim: !is_mechanical(system, drive),
    });
    let mut exports: Vec<DiskExport> = arrays.chain(drives).collect();
    let default_target = system.workloads.first().and_then(|workload| workload.targets.first());
    if let Some(index) = exports.iter().position(|export| Some(&export.target) == default_target) {
        exports[..=index].rotate_right(1);
    }
    exports
}

/// Returns true if a target has drives with moving heads.
fn is_rotational(system: &System, target: WorkloadTarget) -> bool {
    target_drives(system, target).first().is_some_and(|drive| is_mechanical(system, *drive))
}

/// Returns the drives of a target, and the spares that may replace one.
fn target_drives(system: &System, target: WorkloadTarget) -> Vec<u32> {
    match target {
        WorkloadTarget::Drive(drive) => vec![drive],
        WorkloadTarget::Array(index) => {
            system.arrays.get(index).map_or_else(Vec::new, |array| [&array.members[..], &array.spares[..]].concat())
        }
    }
}

fn is_mechanical(system: &System, drive: u32) -> bool {
    let group = system.find_drive_group(drive);
    group.is_some_and(|(group, _)| matches!(system.drives[group].device, DeviceModel::Mechanical(_)))
}

/// Returns the drive with a name.
pub fn drive_by_name(system: &System, name: &str) -> Option<u32> {
    (0..system.drive_count()).find(|drive| system.drive_name(*drive) == name)
}

/// Returns an error text that lists the drives that exist.
pub fn unknown_drive(system: &System, name: &str) -> String {
    let names: Vec<String> = (0..system.drive_count().min(16)).map(|drive| system.drive_name(drive)).collect();
    let ellipsis = if system.drive_count() > 16 { ", …" } else { "" };
    format!("no drive is called `{name}`; the drives are {}{ellipsis}", names.join(", "))
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
        list_exports(&described.system).into_iter().map(|export| export.name).collect()
    }

    #[test]
    fn lists_arrays_then_standalone_drives() {
        assert_eq!(names(SYSTEM), ["data", "disk4", "log"]);
    }

    #[test]
    fn only_exports_without_mechanical_drives_support_trim() {
        let text = r#"
            [[drive]]
            name = "disk"
            count = 3
            model = "st34572w"
            [[drive]]
            name = "flash"
            count = 4
            model = "FLASH"
            [[array]]
            name = "disks"
            level = "raid1"
            drives = ["disk0", "disk1"]
            [[array]]
            name = "flashes"
            level = "raid1"
            drives = ["flash0", "flash1"]
            [[array]]
            name = "both"
            level = "raid1"
            drives = ["flash2", "disk2"]
        "#;
        let text = text.replace("FLASH", "intel-s3700-800");
        let described = read::read("test.toml", &text, &[], &|_| Err("no files".into())).expect("valid");
        let found: Vec<(String, bool)> =
            list_exports(&described.system).into_iter().map(|e| (e.name, e.supports_trim)).collect();
        let expected = [("disks", false), ("flashes", true), ("both", false), ("flash3", true)];
        assert_eq!(found, expected.map(|(name, trims)| (name.to_owned(), trims)));
    }

    #[test]
    fn the_target_of_the_first_workload_is_the_default() {
        let text = format!("{SYSTEM}\n[[workload]]\nname = \"a\"\nusers = 1\non = \"log\"\n");
        assert_eq!(names(&text), ["log", "data", "disk4"]);
    }
}
