//! Cloud volumes by hand: types and limits of volumes that a log does not tell.

use std::collections::HashMap;

use diskwright_base::cloud_volume::{VolumeFacts, VolumeType};
use diskwright_base::{CloudInstance, Device, Topology};

use crate::IngestError;

/// A disk of a log that is a volume of a cloud, as the user says.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredVolume {
    /// The user's word for the disk.
    pub disk: String,
    /// Its type.
    pub kind: VolumeType,
    /// Its size, and what was bought for it.
    pub facts: VolumeFacts,
}

/// What the user says about a cloud.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloudFacts {
    /// Disks that are volumes.
    pub volumes: Vec<DeclaredVolume>,
    /// The instance, with its limits for all volumes.
    pub instance: Option<CloudInstance>,
}

/// Name of the option that declares volumes, for messages and as who told a type.
pub const VOLUME_OPTION: &str = "--volume-type";

impl DeclaredVolume {
    /// Sets the volume of a device. A size that was not given is that of the device, if it is known.
    fn set_volume(&self, device: &mut Device, recorded: Option<&Device>) -> Result<(), IngestError> {
        let size_bytes = self.facts.size_bytes.or_else(|| recorded.and_then(|known| known.bytes));
        let provisioned = self.kind.provision(&VolumeFacts { size_bytes, ..self.facts }, VOLUME_OPTION);
        let volume = provisioned.map_err(|because| {
            IngestError::Usage(format!("{VOLUME_OPTION} {}={}: {because}", self.disk, self.kind.id))
        })?;
        device.cloud_volume = Some(volume);
        Ok(())
    }
}

/// Adds declared volumes to described devices; of a disk that nothing else was said about, nothing else is changed.
/// `find` gives the disks that a word stands for, `recorded` is a topology of the log.
pub(crate) fn add_volumes<'a>(
    devices: &mut Vec<Device>,
    volumes: &[DeclaredVolume],
    recorded: &Topology,
    find: impl Fn(&str) -> Result<Vec<&'a str>, IngestError>,
) -> Result<(), IngestError> {
    let mut positions: HashMap<String, usize> =
        devices.iter().enumerate().map(|(position, device)| (device.name.clone(), position)).collect();
    for volume in volumes {
        for name in find(&volume.disk)? {
            let position = *positions.entry(name.to_owned()).or_insert_with(|| {
                devices.push(Device { name: name.to_owned(), ..Device::default() });
                devices.len() - 1
            });
            volume.set_volume(&mut devices[position], recorded.find_device(name))?;
        }
    }
    Ok(())
}

/// Sets declared volumes in the topology of this machine. Returns what could not be set, a sentence each.
pub fn set_live_volumes(topology: &mut Topology, volumes: &[DeclaredVolume]) -> Vec<String> {
    let mut problems = Vec::new();
    for volume in volumes {
        let is_meant =
            |device: &&mut Device| device.name == volume.disk || format!("/dev/{}", device.name) == volume.disk;
        let Some(device) = topology.devices.iter_mut().find(is_meant) else {
            problems.push(format!("{VOLUME_OPTION} {}: this machine has no such disk", volume.disk));
            continue;
        };
        let known = device.clone();
        if let Err(error) = volume.set_volume(device, Some(&known)) {
            problems.push(error.to_string());
        }
    }
    problems
}
