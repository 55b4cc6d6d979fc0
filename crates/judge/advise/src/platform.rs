//! The machine, as far as its firmware and its disks identify it: the cloud, the instance type, the kind of a volume.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host_tree::HostTree;

/// What identifies a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostPlatform {
    /// Manufacturer, as named by the firmware.
    pub vendor: Option<String>,
    /// Model, as named by the firmware.
    pub product: Option<String>,
    /// The cloud that it runs in.
    pub cloud: Option<&'static str>,
    /// Type of the instance, if the cloud shows it.
    pub instance_type: Option<String>,
    /// Kind of each disk that the cloud provides, by name of the disk.
    pub volumes: BTreeMap<String, &'static str>,
}

/// Asset tag of every Azure machine (cloud-init, DataSourceAzure).
const AZURE_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// Models of the clouds' disks: Amazon EBS and instance store (Amazon EC2 User Guide, "Map Amazon EBS volumes to NVMe
/// device names"), Google's disks (google-guest-configs, udev rules), Azure's (azure-vm-utils, udev rules).
const VOLUME_MODELS: &[(&str, &str)] = &[
    ("Amazon Elastic Block Store", "Amazon EBS volume; /sys does not show its type"),
    ("Amazon EC2 NVMe Instance Storage", "local disk of the instance, empty after a stop"),
    ("nvme_card-pd", "Google Persistent Disk or Hyperdisk; /sys does not show which"),
    ("nvme_card", "Google local SSD, empty after a stop"),
    ("PersistentDisk", "Google Persistent Disk; /sys does not show its type"),
    ("EphemeralDisk", "Google local SSD, empty after a stop"),
    ("MSFT NVMe Accelerator v1.0", "Azure managed disk; /sys does not show its type"),
    ("Microsoft NVMe Direct Disk", "local disk of the Azure machine, empty after a stop"),
    ("Microsoft NVMe Direct Disk v2", "local disk of the Azure machine, empty after a stop"),
];

impl HostPlatform {
    /// Identifies the platform from a host's facts.
    #[must_use]
    pub fn from_tree(tree: &HostTree) -> HostPlatform {
        let field = |name: &str| {
            let text = tree.get(&format!("sys/class/dmi/id/{name}"))?.trim();
            // placeholders that some manufacturers leave unchanged
            Some(text)
                .filter(|text| !matches!(*text, "" | "To Be Filled By O.E.M." | "System Product Name"))
                .map(str::to_owned)
        };
        let (vendor, product) = (field("sys_vendor"), field("product_name"));
        let cloud = match (vendor.as_deref(), product.as_deref(), field("chassis_asset_tag").as_deref()) {
            (Some("Amazon EC2"), ..) => Some("Amazon EC2"),
            (_, Some("Google Compute Engine"), _) => Some("Google Compute Engine"),
            (_, _, Some(AZURE_TAG)) => Some("Azure"),
            _ => None,
        };
        // on Nitro instances the product is the instance type, such as m5.large; on older ones it is Xen's
        let instance_type = product.clone().filter(|name| cloud == Some("Amazon EC2") && name.contains('.'));
        let volume = |disk: &str| {
            let model = tree.get(&format!("sys/block/{disk}/device/model"))?.trim();
            VOLUME_MODELS.iter().find(|(known, _)| *known == model).map(|(_, kind)| (disk.to_owned(), *kind))
        };
        let volumes = tree.names_in("sys/block").into_iter().filter_map(volume).collect();
        HostPlatform { vendor, product, cloud, instance_type, volumes }
    }

    /// Describes the platform in a few words; `None` if nothing is known.
    #[must_use]
    pub fn describe_platform(&self) -> Option<String> {
        let name = match (self.cloud, &self.instance_type) {
            (Some(cloud), Some(instance)) => format!("{cloud} {instance}"),
            (Some(cloud), None) => format!("{cloud}; the firmware does not show the instance type"),
            (None, _) => [&self.vendor, &self.product].into_iter().flatten().cloned().collect::<Vec<_>>().join(" "),
        };
        Some(name).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform_of(files: &[(&str, &str)]) -> HostPlatform {
        let files = files.iter().map(|(path, text)| (format!("sys/{path}"), (*text).to_owned())).collect();
        HostPlatform::from_tree(&HostTree { files, ..HostTree::default() })
    }

    #[test]
    fn recognizes_clouds_from_firmware() {
        let amazon = platform_of(&[
            ("class/dmi/id/sys_vendor", "Amazon EC2"),
            ("class/dmi/id/product_name", "m5.large"),
            ("block/nvme0n1/device/model", "Amazon Elastic Block Store              "),
        ]);
        assert_eq!(amazon.describe_platform().as_deref(), Some("Amazon EC2 m5.large"));
        assert_eq!(amazon.instance_type.as_deref(), Some("m5.large"));
        assert!(amazon.volumes["nvme0n1"].starts_with("Amazon EBS volume"));
        let google = platform_of(&[
            ("class/dmi/id/sys_vendor", "Google"),
            ("class/dmi/id/product_name", "Google Compute Engine"),
            ("block/sda/device/model", "PersistentDisk"),
        ]);
        assert_eq!((google.cloud, google.instance_type), (Some("Google Compute Engine"), None));
        assert!(google.volumes["sda"].starts_with("Google Persistent Disk"));
        let azure = platform_of(&[
            ("class/dmi/id/sys_vendor", "Microsoft Corporation"),
            ("class/dmi/id/product_name", "Virtual Machine"),
            ("class/dmi/id/chassis_asset_tag", AZURE_TAG),
        ]);
        assert_eq!(azure.cloud, Some("Azure"));
        // Hyper-V outside the cloud has the same vendor
        let own = platform_of(&[
            ("class/dmi/id/sys_vendor", "Microsoft Corporation"),
            ("class/dmi/id/product_name", "Virtual Machine"),
        ]);
        assert_eq!(
            (own.cloud, own.describe_platform().as_deref()),
            (None, Some("Microsoft Corporation Virtual Machine"))
        );
        assert_eq!(platform_of(&[]).describe_platform(), None);
    }
}
