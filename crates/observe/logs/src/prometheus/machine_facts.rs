//! Facts about the machine that series carry: its name, its size, its disks.

use std::collections::HashSet;

use diskwright_base::{Device, DeviceClass, DeviceKind, RaidLevel, Topology};

use super::metric_names::{MetricVocabulary, current_name};

/// Collects facts, series by series.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    topology: Topology,
    /// Names of devices that are collected.
    known_devices: HashSet<String>,
}

impl MachineFacts {
    /// Collects facts from the labels of a series.
    pub fn learn_series<'a>(&mut self, metric: &str, label: impl Fn(&str) -> Option<&'a str>) {
        let facts = &MetricVocabulary::builtin().facts;
        let metric = current_name(metric);
        let find_fact = |pairs: &[(String, String)]| {
            let found = pairs.iter().filter(|(name, _)| *name == metric).find_map(|(_, name)| label(name));
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if let Some(host) = find_fact(&facts.host) {
            self.topology.host = host;
        }
        if let Some(kernel) = find_fact(&facts.kernel) {
            self.topology.kernel = kernel;
        }
        if facts.disks.iter().any(|name| *name == metric)
            && let Some(name) = label("device").filter(|name| !name.is_empty())
        {
            self.learn_disk(name, label);
        }
    }

    fn learn_disk<'a>(&mut self, name: &str, label: impl Fn(&str) -> Option<&'a str>) {
        // other exporters' labels do not say what a stacked device consists of, so it is left out
        let is_stacked = ["dm-", "md", "loop"].iter().any(|prefix| name.starts_with(prefix));
        let has_kind = label("kind").is_some();
        if (is_stacked && !has_kind) || !self.known_devices.insert(name.to_owned()) {
            return;
        }
        let label_text = |name: &str| label(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let rotational =
            label("rotational").and_then(|text| ["0", "1"].iter().position(|w| *w == text)).map(|r| r == 1);
        let model = label_text("model");
        let to_json = |text: Option<&str>| serde_json::Value::from(text.unwrap_or_default());
        let class = match serde_json::from_value::<DeviceClass>(to_json(label("class"))) {
            Ok(class) => class,
            Err(_) => device_class(name, model.as_deref().unwrap_or_default(), rotational),
        };
        let kind = serde_json::from_value::<DeviceKind>(to_json(label("kind"))).unwrap_or_default();
        let below = label("below").unwrap_or_default();
        self.topology.devices.push(Device {
            name: name.to_owned(),
            kind,
            class,
            below: below.split(',').filter(|b| !b.is_empty()).map(str::to_owned).collect(),
            level: label("level").and_then(RaidLevel::parse),
            rotational,
            model,
            serial: label_text("serial"),
            ..Device::default()
        });
    }

    /// Returns all facts, with the machine's size, if it is known; `name` is the host name if no series gave one.
    pub fn topology(&self, name: &str, processors: Option<f64>, memory_bytes: Option<f64>) -> Topology {
        let mut topology = self.topology.clone();
        if topology.host.is_empty() {
            name.clone_into(&mut topology.host);
        }
        let positive = |number: Option<f64>| number.filter(|n| n.is_finite() && *n >= 1.0);
        topology.processors = positive(processors).map_or(0, |n| n as u32);
        topology.memory_bytes = positive(memory_bytes).map_or(0, |n| n as u64);
        topology
    }
}

/// Returns the class of a device by its name, its model and the kernel's rotational flag.
fn device_class(name: &str, model: &str, rotational: Option<bool>) -> DeviceClass {
    const CLASS_PREFIXES: &[(&str, DeviceClass)] = &[
        ("zram", DeviceClass::Memory),
        ("ram", DeviceClass::Memory),
        ("pmem", DeviceClass::Memory),
        ("nbd", DeviceClass::Network),
        ("rbd", DeviceClass::Network),
        ("vd", DeviceClass::Virtual),
        ("xvd", DeviceClass::Virtual),
        ("mmcblk", DeviceClass::Flash),
    ];
    const HYPERVISORS: &[&str] = &["qemu", "vmware", "virtual", "vbox", "persistentdisk", "elastic block"];
    if let Some((_, class)) = CLASS_PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return *class;
    }
    let model = model.to_lowercase();
    if HYPERVISORS.iter().any(|maker| model.contains(maker)) {
        return DeviceClass::Virtual;
    }
    match rotational {
        _ if name.starts_with("nvme") => DeviceClass::Nvme,
        Some(true) => DeviceClass::Rotational,
        Some(false) => DeviceClass::Flash,
        None => DeviceClass::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_names_are_learned() {
        let mut machine = MachineFacts::default();
        let mut learn = |metric: &str, labels: &[(&'static str, &'static str)]| {
            machine.learn_series(metric, |name| labels.iter().find(|(n, _)| *n == name).map(|(_, v)| *v));
        };
        learn("node_uname_info", &[("nodename", "db1"), ("release", "6.1")]);
        learn("node_disk_info", &[("device", "sda"), ("rotational", "1"), ("model", "ST4000")]);
        learn("node_disk_info", &[("device", "sdb"), ("rotational", "1"), ("model", "QEMU_HARDDISK")]);
        learn("node_disk_info", &[("device", "dm-0"), ("rotational", "0")]);
        learn(
            "diskwright_device_info",
            &[("device", "md0"), ("kind", "md"), ("class", "rotational"), ("below", "sda,sdb"), ("level", "raid1")],
        );
        let topology = machine.topology("x:9100", Some(4.0), Some(f64::NAN));
        assert_eq!((topology.host.as_str(), topology.processors, topology.memory_bytes), ("db1", 4, 0));
        let classes: Vec<DeviceClass> = topology.devices.iter().map(|d| d.class).collect();
        assert_eq!(classes, [DeviceClass::Rotational, DeviceClass::Virtual, DeviceClass::Rotational]);
        assert_eq!(topology.leaves_under("md0"), ["sda", "sdb"]);
    }
}
