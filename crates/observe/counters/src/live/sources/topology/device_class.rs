//! Class of a device, from which its performance can be expected.
//!
//! The kernel's `rotational` flag is trusted only for disks that are known not to be virtual: for a virtio disk it is 1
//! regardless of the storage behind it.

use diskwright_base::DeviceClass;

/// Properties of a device from which its class is derived.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceTraits<'a> {
    pub name: &'a str,
    /// Vendor and model as the device reports them, joined.
    pub model: &'a str,
    /// Path of the device in sysfs, which shows its attachment.
    pub sysfs_path: &'a str,
    pub rotational: Option<bool>,
}

/// Words in a model that only virtual and cloud disks use.
const VIRTUAL_MODELS: &[&str] = &[
    "amazon elastic block store",
    "blockvolume",
    "google persistentdisk",
    "google ephemeraldisk",
    "msft nvme accelerator",
    "msft virtual",
    "nvme_card-pd",
    "nutanix vdisk",
    "oracle blockvolume",
    "parallels virtual",
    "persistentdisk",
    "qemu",
    "vbox",
    "virtual disk",
    "virtual hd",
    "virtual-disk",
    "vmware virtual",
    "xen virtual",
];

/// Class by the start of the kernel name, which is the driver's; digits or letters follow.
const CLASS_BY_NAME: &[(&str, DeviceClass)] = &[
    ("zram", DeviceClass::Memory),
    ("ram", DeviceClass::Memory),
    ("pmem", DeviceClass::Memory),
    ("nbd", DeviceClass::Network),
    ("rbd", DeviceClass::Network),
    ("etherd", DeviceClass::Network),
    ("rnbd", DeviceClass::Network),
    ("vd", DeviceClass::Virtual),
    ("xvd", DeviceClass::Virtual),
    ("ublkb", DeviceClass::Network),
    ("mmcblk", DeviceClass::Flash),
];

/// Returns the class of a device that stands on no other.
pub(super) fn class_of_leaf(traits: &DeviceTraits) -> DeviceClass {
    let model = traits.model.to_lowercase();
    if let Some((_, class)) = CLASS_BY_NAME.iter().find(|(driver, _)| traits.name.starts_with(driver)) {
        return *class;
    }
    if VIRTUAL_MODELS.iter().any(|word| model.contains(word)) || traits.sysfs_path.contains("/virtio") {
        return DeviceClass::Virtual;
    }
    // iSCSI and Fibre Channel show their session in the path
    if ["/session", "/rport-"].iter().any(|part| traits.sysfs_path.contains(part)) {
        return DeviceClass::Network;
    }
    if ["/vbd-", "/vmbus", "/VMBUS"].iter().any(|part| traits.sysfs_path.contains(part)) {
        return DeviceClass::Virtual;
    }
    if traits.name.starts_with("nvme") {
        // over fabrics there is no PCI device
        let is_over_fabric = traits.sysfs_path.contains("/nvme-fabrics/");
        return if is_over_fabric { DeviceClass::Network } else { DeviceClass::Nvme };
    }
    match traits.rotational {
        Some(true) => DeviceClass::Rotational,
        Some(false) => DeviceClass::Flash,
        None => DeviceClass::Unknown,
    }
}

/// Returns the class of a device that stands on others: their class if they agree; else `Rotational` if one of them
/// rotates, because that is the slowest; else `Unknown`.
pub(super) fn class_of_stack(members: &[DeviceClass]) -> DeviceClass {
    match members.first() {
        Some(first) if members.iter().all(|c| c == first) => *first,
        Some(_) if members.contains(&DeviceClass::Rotational) => DeviceClass::Rotational,
        _ => DeviceClass::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, model: &str, place: &str, rotational: bool) -> DeviceClass {
        class_of_leaf(&DeviceTraits { name, model, sysfs_path: place, rotational: Some(rotational) })
    }

    #[test]
    fn the_rotational_flag_of_virtual_disks_is_ignored() {
        assert_eq!(class("vda", "", "/devices/pci0000:00/0000:00:02.0/virtio1/block/vda", true), DeviceClass::Virtual);
        assert_eq!(class("sda", "QEMU QEMU HARDDISK", "/devices/pci0/ata1/x", true), DeviceClass::Virtual);
        assert_eq!(class("sda", "VMware Virtual disk", "/devices/pci0/host0/x", false), DeviceClass::Virtual);
        assert_eq!(class("sda", "Msft Virtual Disk", "/devices/x", true), DeviceClass::Virtual);
        assert_eq!(class("sda", "Google PersistentDisk", "/devices/x", false), DeviceClass::Virtual);
        assert_eq!(class("xvda", "", "/devices/vbd-768/block/xvda", false), DeviceClass::Virtual);
        assert_eq!(class("nvme0n1", "Amazon Elastic Block Store", "/devices/pci0/nvme", false), DeviceClass::Virtual);
    }

    #[test]
    fn the_rotational_flag_of_real_disks_counts() {
        assert_eq!(class("sda", "ATA ST4000NM0035", "/devices/pci0/ata1/host0", true), DeviceClass::Rotational);
        assert_eq!(class("sdb", "ATA Samsung SSD 860", "/devices/pci0/ata2/host1", false), DeviceClass::Flash);
        assert_eq!(
            class("nvme0n1", "Amazon EC2 NVMe Instance Storage", "/devices/pci0/nvme", false),
            DeviceClass::Nvme
        );
        assert_eq!(class_of_leaf(&DeviceTraits { name: "sdc", ..DeviceTraits::default() }), DeviceClass::Unknown);
    }

    #[test]
    fn network_and_memory_devices_are_recognized() {
        assert_eq!(class("nbd3", "", "/devices/virtual/block/nbd3", false), DeviceClass::Network);
        assert_eq!(class("sdd", "LIO-ORG disk", "/devices/platform/host3/session1/target", true), DeviceClass::Network);
        assert_eq!(class("zram0", "", "/devices/virtual/block/zram0", false), DeviceClass::Memory);
    }

    #[test]
    fn a_stack_has_the_class_of_its_members() {
        assert_eq!(class_of_stack(&[DeviceClass::Nvme, DeviceClass::Nvme]), DeviceClass::Nvme);
        assert_eq!(class_of_stack(&[DeviceClass::Flash, DeviceClass::Rotational]), DeviceClass::Rotational);
        assert_eq!(class_of_stack(&[DeviceClass::Flash, DeviceClass::Nvme]), DeviceClass::Unknown);
        assert_eq!(class_of_stack(&[]), DeviceClass::Unknown);
    }
}
