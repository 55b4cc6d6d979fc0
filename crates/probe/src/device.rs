//! What is behind a target, as far as the kernel shows it: enough to repeat a
//! measurement, and to know the device again.

use std::fs;
use std::path::Path;

use diskwright_base::{Device, Topology};
use diskwright_counters::live::{Roots, mountinfo};
use serde::{Deserialize, Serialize};

/// A device and the machine that it was measured in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Kernel name of the block device, of the one below a file too; empty
    /// where there is none (a network filesystem).
    pub name: String,
    /// What it is known again by: model and serial number, or what there is.
    pub key: String,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Size, bytes.
    pub bytes: Option<u64>,
    /// `rotational`, `flash`, `nvme`, `virtual`, `network`, `memory`, `unknown`.
    pub class: String,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Requests that the block layer queues at most.
    pub queue_requests: Option<u32>,
    /// Largest request before the block layer splits it, bytes.
    pub max_request_bytes: Option<u64>,
    /// Filesystem of a file: type, where it is mounted, its options.
    pub filesystem: Option<String>,
    /// Mount point.
    pub mount: Option<String>,
    /// Mount options.
    pub options: Option<String>,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Online processors.
    pub processors: u32,
}

/// Looks up what is behind a device number.
pub fn facts(roots: &Roots, topology: &Topology, number: (u64, u64), is_file: bool) -> Facts {
    let mount = is_file.then(|| mount(roots, number)).flatten();
    let name = match &mount {
        // btrfs, overlay and the like have numbers of their own: their source tells more
        Some(mount) if number.0 == 0 => mount.source.strip_prefix("/dev/").unwrap_or_default().to_owned(),
        _ => whole(roots, number).unwrap_or_default(),
    };
    let device = topology.device(&name).cloned().unwrap_or_default();
    let class = serde_json::to_value(device.class).ok().and_then(|v| v.as_str().map(str::to_owned));
    Facts {
        key: key(&device, &name),
        name,
        model: device.model,
        serial: device.serial,
        bytes: device.bytes,
        class: class.unwrap_or_default(),
        scheduler: device.scheduler,
        write_cache: device.write_cache,
        queue_requests: device.queue_requests,
        max_request_bytes: device.max_request_bytes,
        filesystem: mount.as_ref().map(|m| m.kind.clone()),
        mount: mount.as_ref().map(|m| m.point.clone()),
        options: mount.map(|m| m.options),
        host: topology.host.clone(),
        kernel: topology.kernel.clone(),
        processors: topology.processors,
    }
}

/// The name of the whole disk that has this number: a partition's is its disk's.
fn whole(roots: &Roots, number: (u64, u64)) -> Option<String> {
    let folder = fs::canonicalize(roots.at(&format!("/sys/dev/block/{}:{}", number.0, number.1))).ok()?;
    let folder = if folder.join("partition").exists() { folder.parent()? } else { &folder };
    folder.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn mount(roots: &Roots, number: (u64, u64)) -> Option<mountinfo::Mount> {
    let text = fs::read(roots.at("/proc/self/mountinfo")).ok()?;
    // the last mount of a device is the one that is seen
    mountinfo::parse(&text).into_iter().rev().find(|m| m.device == number)
}

/// What a device is known again by: serial number (and model), the file below
/// a loop device, or name and size where there is nothing better.
pub fn key(device: &Device, name: &str) -> String {
    let model = device.model.as_deref().unwrap_or_default().trim();
    match (device.serial.as_deref().map(str::trim).filter(|s| !s.is_empty()), &device.backing) {
        (Some(serial), _) => format!("serial:{model}:{serial}"),
        (None, Some(file)) => format!("file:{}:{}", Path::new(file).display(), device.bytes.unwrap_or(0)),
        (None, None) => format!("name:{name}:{model}:{}", device.bytes.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_again_by_the_best_there_is() {
        let device = Device { model: Some("WDC WD40 ".into()), serial: Some("X1".into()), ..Device::default() };
        assert_eq!(key(&device, "sda"), "serial:WDC WD40:X1");
        let loop_device = Device { backing: Some("/a".into()), bytes: Some(5), ..Device::default() };
        assert_eq!(key(&loop_device, "loop0"), "file:/a:5");
        assert_eq!(key(&Device { bytes: Some(7), ..Device::default() }, "vda"), "name:vda::7");
    }
}
