//! Volumes and the instance of this machine, where it is one of a cloud: what options say, and what the cloud's
//! metadata service reports (`--cloud`). Nothing is asked on other machines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use diskwright_base::cloud_volume::{VolumeFacts, VolumeType};
use diskwright_base::{CloudInstance, Topology};
use diskwright_counters::live::TopologyFacts;
use diskwright_ingest::{DeclaredVolume, set_live_volumes};
use diskwright_planner::prices::{PriceList, built_in_prices};
use diskwright_remote::instance_metadata::{
    CloudProvider, InstanceMetadata, MetadataService, MetadataVolume, VolumePlace,
};

use super::Failure;
use super::volume_options::{VolumeOptions, find_instance};

/// Variable with another address of the service, for tests.
const ADDRESS_VARIABLE: &str = "DISKWRIGHT_METADATA_URL";

/// Whether to ask a cloud.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Clouds")]
pub struct CloudOptions {
    /// Ask the metadata service of this cloud for the types of instance and volumes: aws, azure, gcp, or none
    /// [default: the cloud that this machine's firmware names, if any]
    #[arg(long, value_name = "CLOUD")]
    cloud: Option<String>,
}

impl CloudOptions {
    /// True if it was given.
    pub fn is_given(&self) -> bool {
        self.cloud.is_some()
    }

    /// Refuses to ask where logs are read: they have what was asked when they were recorded.
    pub fn refuse_for_logs(&self) -> Result<(), Failure> {
        match self.cloud {
            Some(_) => Err(Failure::Usage("--cloud is asked while this machine is watched; not for logs".into())),
            None => Ok(()),
        }
    }

    /// The cloud to ask.
    fn provider(&self) -> Result<Option<CloudProvider>, Failure> {
        let Some(name) = &self.cloud else { return Ok(CloudProvider::of_machine(Path::new("/sys"))) };
        if name == "none" {
            return Ok(None);
        }
        let known = CloudProvider::ALL.into_iter().find(|provider| provider.name() == name);
        known.map(Some).ok_or_else(|| Failure::Usage(format!("--cloud `{name}`: expected aws, azure, gcp or none")))
    }
}

/// What is known of this machine's volumes.
#[derive(Clone, Debug, Default)]
struct LiveVolumes {
    declared: Vec<DeclaredVolume>,
    declared_instance: Option<CloudInstance>,
    /// The cloud that was asked, and what it told.
    told: Option<(CloudProvider, Result<InstanceMetadata, String>)>,
}

static LIVE_VOLUMES: OnceLock<LiveVolumes> = OnceLock::new();

/// Reads the options and asks the cloud, before this machine is sampled.
pub fn prepare(volumes: &VolumeOptions, cloud: &CloudOptions) -> Result<(), Failure> {
    let (declared, declared_instance) = (volumes.declared_volumes()?, volumes.declared_instance()?);
    let told = cloud.provider()?.map(|provider| (provider, ask(provider)));
    let known = LiveVolumes { declared, declared_instance, told };
    LIVE_VOLUMES.get_or_init(|| known);
    Ok(())
}

fn ask(provider: CloudProvider) -> Result<InstanceMetadata, String> {
    let address = std::env::var(ADDRESS_VARIABLE).ok();
    let service = MetadataService::new(provider, address.as_deref()).map_err(|error| error.to_string())?;
    service.ask().map_err(|error| error.to_string())
}

/// What is to be added to each topology of this machine; `None` where nothing is known.
pub fn topology_facts() -> Option<TopologyFacts> {
    let known = LIVE_VOLUMES.get()?;
    if known.declared.is_empty() && known.declared_instance.is_none() && known.told.is_none() {
        return None;
    }
    let prices = built_in_prices();
    let mut said = BTreeSet::new();
    Some(Box::new(move |topology| {
        // each sentence once: the topology is read again and again
        let sentences = known.describe(topology, &prices, Path::new("/dev"));
        sentences.into_iter().filter(|sentence| said.insert(sentence.clone())).collect()
    }))
}

impl LiveVolumes {
    /// Sets volumes and instance in a topology; options override the cloud. Returns what cannot be told, a sentence
    /// each.
    fn describe(&self, topology: &mut Topology, prices: &PriceList, dev: &Path) -> Vec<String> {
        let mut sentences = Vec::new();
        match &self.told {
            Some((provider, Ok(metadata))) => {
                if !metadata.instance_type.is_empty() {
                    let (kind, told_by) = (&metadata.instance_type, provider.service_name());
                    topology.cloud_instance = Some(find_instance(prices, kind, provider.name(), told_by));
                }
                for volume in &metadata.volumes {
                    sentences.extend(set_told_volume(topology, volume, *provider, prices, dev));
                }
            }
            Some((_, Err(because))) => sentences.push(because.clone()),
            None => {}
        }
        if self.declared_instance.is_some() {
            topology.cloud_instance.clone_from(&self.declared_instance);
        }
        sentences.extend(set_live_volumes(topology, &self.declared));
        let is_aws = self.told.as_ref().is_some_and(|(provider, _)| *provider == CloudProvider::Aws);
        let untyped = topology.cloud_volumes().find(|device| device.cloud_volume.is_none());
        if let Some(device) = untyped.filter(|_| is_aws) {
            sentences.push(format!(
                "AWS does not report an instance the types of its volumes; name them, such as --volume-type \
                 {}=gp3:SIZE:IOPS:RATE",
                device.name
            ));
        }
        sentences
    }
}

/// Sets a volume that a cloud told; returns why it cannot be set.
fn set_told_volume(
    topology: &mut Topology,
    told: &MetadataVolume,
    provider: CloudProvider,
    prices: &PriceList,
    dev: &Path,
) -> Option<String> {
    let name = find_device_name(&told.place, dev)?;
    let device = topology.devices.iter_mut().find(|device| device.name == name)?;
    let size_bytes = told.size_bytes.or(device.bytes);
    let service = provider.service_name();
    let Some(kind) = prices.find_volume_type(&told.type_name, size_bytes) else {
        return Some(format!("{service}: {name} is a volume of type {}, whose limits are not known", told.type_name));
    };
    if is_bought_unseen(&kind, told) {
        return Some(format!(
            "{service} does not report what was bought for {name}, a volume of type {}; name it: --volume-type \
             {name}={}:SIZE:IOPS:RATE",
            told.type_name, kind.id
        ));
    }
    let rate = told.bytes_per_s.map(|bytes| bytes / kind.unit.bytes());
    match kind.provision(&VolumeFacts { size_bytes, iops: told.iops, rate }, service) {
        Ok(volume) => {
            device.cloud_volume = Some(volume);
            None
        }
        Err(because) => Some(format!("{service}: {name}: {because}")),
    }
}

/// True for a type of which more can be bought than comes with it, where nothing tells how much was.
fn is_bought_unseen(kind: &VolumeType, told: &MetadataVolume) -> bool {
    kind.iops.sold && told.iops.is_none() || kind.rate.sold && told.bytes_per_s.is_none()
}

/// Name of the device at a place, by the links that the clouds' own rules make (azure-vm-utils and its predecessor in
/// the agent; google-guest-configs).
fn find_device_name(place: &VolumePlace, dev: &Path) -> Option<String> {
    let links: Vec<PathBuf> = match place {
        VolumePlace::AzureSystem => vec!["disk/azure/os".into(), "disk/azure/root".into()],
        VolumePlace::AzureUnit(unit) => {
            vec![format!("disk/azure/data/by-lun/{unit}").into(), format!("disk/azure/scsi1/lun{unit}").into()]
        }
        VolumePlace::GoogleDevice(name) => vec![format!("disk/by-id/google-{name}").into()],
    };
    let resolve = |link: &PathBuf| std::fs::canonicalize(dev.join(link)).ok();
    let device = links.iter().find_map(resolve)?;
    Some(device.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_base::Device;

    fn disk(name: &str, gib: u64) -> Device {
        Device { name: name.into(), bytes: Some(gib << 30), ..Device::default() }
    }

    /// A folder like /dev with these links.
    fn fake_dev(links: &[(&str, &str)]) -> tempfile::TempDir {
        let dev = tempfile::tempdir().unwrap();
        for (link, name) in links {
            let (link, target) = (dev.path().join(link), dev.path().join(name));
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::fs::write(&target, "").unwrap();
            std::os::unix::fs::symlink(target, link).unwrap();
        }
        dev
    }

    fn told(place: VolumePlace, type_name: &str, gib: Option<u64>) -> MetadataVolume {
        let size_bytes = gib.map(|gib| gib << 30);
        MetadataVolume { place, type_name: type_name.into(), size_bytes, ..MetadataVolume::default() }
    }

    fn describe(live: &LiveVolumes, topology: &mut Topology, dev: &Path) -> Vec<String> {
        live.describe(topology, &built_in_prices(), dev)
    }

    #[test]
    fn disks_of_azure_are_found_by_their_unit() {
        let dev = fake_dev(&[
            ("disk/azure/root", "sda"),
            ("disk/azure/scsi1/lun0", "sdc"),
            ("disk/azure/data/by-lun/3", "sdd"),
        ]);
        let metadata = InstanceMetadata {
            instance_type: "Standard_D8s_v5".into(),
            volumes: vec![
                told(VolumePlace::AzureSystem, "Premium_LRS", Some(30)),
                told(VolumePlace::AzureUnit(0), "Premium_LRS", Some(1024)),
                told(VolumePlace::AzureUnit(3), "PremiumV2_LRS", Some(100)),
                told(VolumePlace::AzureUnit(9), "Premium_LRS", Some(8)),
            ],
        };
        let live = LiveVolumes { told: Some((CloudProvider::Azure, Ok(metadata))), ..LiveVolumes::default() };
        let mut topology =
            Topology { devices: vec![disk("sda", 30), disk("sdc", 1024), disk("sdd", 100)], ..Topology::default() };
        let sentences = describe(&live, &mut topology, dev.path());
        let kind = |name: &str| Some(topology.find_device(name)?.cloud_volume.as_ref()?.type_id.as_str());
        assert_eq!((kind("sda"), kind("sdc"), kind("sdd")), (Some("azure-p4"), Some("azure-p30"), None));
        assert_eq!(sentences.len(), 1, "{sentences:?}");
        assert!(sentences[0].contains("does not report what was bought for sdd"), "{sentences:?}");
        let instance = topology.cloud_instance.as_ref().unwrap();
        assert_eq!(instance.caps().unwrap()[0].baseline, 12_800.0);
        assert_eq!(instance.told_by, "Azure instance metadata");
    }

    #[test]
    fn disks_of_google_take_their_size_from_the_kernel_and_options_override() {
        let dev = fake_dev(&[("disk/by-id/google-data", "sdb")]);
        let metadata = InstanceMetadata {
            instance_type: "n2-standard-8".into(),
            volumes: vec![told(VolumePlace::GoogleDevice("data".into()), "PERSISTENT-SSD", None)],
        };
        let mut live = LiveVolumes { told: Some((CloudProvider::Google, Ok(metadata))), ..LiveVolumes::default() };
        let mut topology = Topology { devices: vec![disk("sdb", 500)], ..Topology::default() };
        assert!(describe(&live, &mut topology, dev.path()).is_empty());
        let volume = topology.devices[0].cloud_volume.clone().unwrap();
        // 6,000 and 30 for each GiB (Persistent Disk performance)
        assert_eq!((volume.type_id.as_str(), volume.requests.baseline), ("gcp-pd-ssd", 21_000.0));
        let kind = built_in_prices().find_volume_type("pd-balanced", None).unwrap();
        live.declared = vec![DeclaredVolume { disk: "sdb".into(), kind, facts: VolumeFacts::default() }];
        assert!(describe(&live, &mut topology, dev.path()).is_empty());
        assert_eq!(topology.devices[0].cloud_volume.as_ref().unwrap().type_id, "gcp-pd-balanced");
    }

    #[test]
    fn what_aws_does_not_tell_is_said() {
        let metadata = InstanceMetadata { instance_type: "z99.large".into(), volumes: Vec::new() };
        let live = LiveVolumes { told: Some((CloudProvider::Aws, Ok(metadata))), ..LiveVolumes::default() };
        let ebs = Device { model: Some("Amazon Elastic Block Store".into()), ..disk("nvme0n1", 8) };
        let mut topology = Topology { devices: vec![ebs], ..Topology::default() };
        let sentences = describe(&live, &mut topology, Path::new("/nonexistent"));
        assert!(sentences[0].contains("--volume-type nvme0n1=gp3:SIZE"), "{sentences:?}");
        assert_eq!(topology.cloud_instance.as_ref().map(CloudInstance::caps), Some(None), "not in the table");
        let failed = (CloudProvider::Aws, Err("AWS instance metadata: no answer".to_owned()));
        let live = LiveVolumes { told: Some(failed), ..LiveVolumes::default() };
        assert!(describe(&live, &mut Topology::default(), Path::new("/x"))[0].contains("no answer"));
    }
}
