//! Survey of an archive's beginning, before it is read: the machine's size, its devices, the size of a page, the mount
//! points of filesystems. An archive has these as metrics of its first records.

use std::collections::HashMap;
use std::io::Read;

use diskwright_base::{Device, DeviceClass, DeviceKind, Topology};

use super::metadata::{InstanceDomains, Metric, SINGLE_VALUE_INDOM};
use super::metric_pace::MetricPace;
use super::records::{ArchiveLabel, RecordReader};
use super::values::{self, ValueSet};
use crate::Skips;

/// Largest number of records that are examined.
const MAX_RECORDS: usize = 200;
/// Largest number of bytes that are examined.
const MAX_BYTES: u64 = 16 << 20;

/// Results of the survey.
#[derive(Debug, Default)]
pub(super) struct ArchiveSurvey {
    pub topology: Topology,
    pub page_bytes: Option<f64>,
    /// Mount point by filesystem, which PCP names after its device.
    pub mounts: HashMap<String, String>,
    /// Time of the first record, nanoseconds since 1970.
    pub first_ns: Option<i64>,
    /// Intervals of metrics, by identifier.
    pub paces: HashMap<u32, MetricPace>,
}

/// Metrics that the survey reads.
const SURVEY_METRICS: &[&str] = &[
    "hinv.ncpu",
    "hinv.physmem",
    "hinv.pagesize",
    "mem.physmem",
    "kernel.uname.release",
    "kernel.uname.nodename",
    "filesys.mountdir",
    "kernel.percpu.cpu.idle",
];

/// Surveys an archive. `volume` and `indoms` are read from their beginning, behind the label.
pub(super) fn survey_archive<R: Read>(
    metrics: &[Metric],
    volume: &mut RecordReader<impl Read>,
    indoms: &mut InstanceDomains<R>,
    label: &ArchiveLabel,
) -> ArchiveSurvey {
    let mut survey = ArchiveSurvey::default();
    survey.topology.host.clone_from(&label.host);
    let survey_metrics: HashMap<u32, &Metric> =
        metrics.iter().filter(|m| SURVEY_METRICS.contains(&m.name.as_str())).map(|m| (m.pmid, m)).collect();
    let mut seen: HashMap<u32, SeenMetric> = HashMap::new();
    // faults are reported when the archive is read
    let mut ignored_skips = Skips::default();
    let mut sets = Vec::new();
    for _ in 0..MAX_RECORDS {
        let Ok(true) = volume.next() else { break };
        let body = volume.body();
        let Some(time_ns) = values::read_sets(body, label.version, &mut sets) else { continue };
        survey.first_ns.get_or_insert(time_ns);
        if sets.is_empty() {
            seen.values_mut().for_each(|metric| metric.last_ns = None);
        }
        indoms.advance(time_ns, &mut ignored_skips);
        for set in &sets {
            // a negative count is an error code
            let count = usize::try_from(set.count).unwrap_or(0);
            if count > 0 {
                seen.entry(set.pmid).or_default().add_values(time_ns, count);
            }
            if let Some(metric) = survey_metrics.get(&set.pmid) {
                survey.add_values(metric, set, body, indoms);
            }
        }
        if volume.record_offset() > MAX_BYTES {
            break;
        }
    }
    let pace = |metric: SeenMetric| MetricPace::from_intervals(metric.intervals_ns, metric.max_values);
    survey.paces = seen.into_iter().map(|(id, metric)| (id, pace(metric))).collect();
    survey.add_devices(&device_domains(metrics), indoms);
    survey
}

/// What the survey has seen of a metric.
#[derive(Default)]
struct SeenMetric {
    /// Time of the last values; `None` after a gap.
    last_ns: Option<i64>,
    intervals_ns: Vec<i64>,
    /// Largest number of values at a time.
    max_values: usize,
}

impl SeenMetric {
    fn add_values(&mut self, time_ns: i64, count: usize) {
        let interval_ns = self.last_ns.map(|last_ns| time_ns.saturating_sub(last_ns));
        self.intervals_ns.extend(interval_ns.filter(|interval| *interval > 0));
        self.last_ns = Some(time_ns);
        self.max_values = self.max_values.max(count);
    }
}

/// Instance domains of devices, with the kind that their metrics are about.
fn device_domains(metrics: &[Metric]) -> HashMap<u32, DeviceKind> {
    let prefixes = [("disk.dev.", DeviceKind::Disk), ("disk.md.", DeviceKind::Md), ("disk.dm.", DeviceKind::Dm)];
    let kind_of =
        |metric: &Metric| prefixes.iter().find(|(prefix, _)| metric.name.starts_with(prefix)).map(|(_, kind)| *kind);
    metrics.iter().filter_map(|metric| Some((metric.indom, kind_of(metric)?))).collect()
}

/// Name in `below` of a stacked device that stands for disks that the archive does not describe. It is the name of no
/// device.
const UNDESCRIBED_DISKS: &str = "disks that the archive does not describe";

impl ArchiveSurvey {
    fn add_values<R: Read>(&mut self, metric: &Metric, set: &ValueSet, body: &[u8], indoms: &InstanceDomains<R>) {
        let mut values = set.read_values(body);
        let Some((instance, word)) = values.next() else { return };
        let text = || set.read_text(body, word).map(|t| t.into_owned()).unwrap_or_default();
        let number = || {
            let value = set.read_number(body, word, metric.value_type)?.as_f64() * metric.units.to_base_factor()?;
            (value > 0.0 && value < 1e18).then_some(value)
        };
        let topology = &mut self.topology;
        match metric.name.as_str() {
            "hinv.ncpu" => topology.processors = number().map_or(topology.processors, |n| n as u32),
            "kernel.percpu.cpu.idle" if topology.processors == 0 => topology.processors = set.count as u32,
            "hinv.physmem" | "mem.physmem" if topology.memory_bytes == 0 => {
                topology.memory_bytes = number().unwrap_or(0.0) as u64;
            }
            // in kilobytes, and so more exact than hinv.physmem in megabytes
            "mem.physmem" => topology.memory_bytes = number().map_or(topology.memory_bytes, |n| n as u64),
            "hinv.pagesize" => {
                self.page_bytes = number();
                topology.page_bytes = self.page_bytes.unwrap_or(0.0) as u64;
            }
            "kernel.uname.release" => topology.kernel = text(),
            "kernel.uname.nodename" => {
                let name = text();
                if !name.is_empty() {
                    topology.host = name;
                }
            }
            "filesys.mountdir" => {
                for (instance, word) in std::iter::once((instance, word)).chain(values) {
                    let mount = set.read_text(body, word).map(|t| t.into_owned()).unwrap_or_default();
                    if let (Some(device), false) = (indoms.instance_name(metric.indom, instance), mount.is_empty()) {
                        self.mounts.insert(device, mount);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds disks, md and dm devices. An archive does not say which devices a stacked one consists of. If there is a
    /// single disk, it is that one; else [`UNDESCRIBED_DISKS`] marks it as stacked.
    fn add_devices<R: Read>(&mut self, by_domain: &HashMap<u32, DeviceKind>, indoms: &InstanceDomains<R>) {
        let mut devices: Vec<(DeviceKind, String)> = Vec::new();
        for (&indom, &kind) in by_domain.iter().filter(|(indom, _)| **indom != SINGLE_VALUE_INDOM) {
            devices.extend(indoms.instance_names(indom).into_iter().map(|name| (kind, name)));
        }
        // disks, then dm, then md: the order of the devices in the topology
        let order =
            |kind: DeviceKind| [DeviceKind::Disk, DeviceKind::Dm, DeviceKind::Md].iter().position(|k| *k == kind);
        devices.sort_unstable_by(|a, b| order(a.0).cmp(&order(b.0)).then_with(|| a.1.cmp(&b.1)));
        devices.dedup();
        let disks: Vec<String> = devices
            .iter()
            .filter(|(kind, name)| *kind == DeviceKind::Disk && is_disk(name))
            .map(|(_, name)| name.clone())
            .collect();
        for (kind, name) in devices {
            let kind = match kind {
                DeviceKind::Disk if name.starts_with("loop") => DeviceKind::Loop,
                DeviceKind::Disk if name.starts_with("zram") => DeviceKind::Zram,
                known => known,
            };
            let below = match (kind, disks.as_slice()) {
                (DeviceKind::Disk | DeviceKind::Zram, _) => Vec::new(),
                (_, [only]) => vec![only.clone()],
                _ => vec![UNDESCRIBED_DISKS.to_owned()],
            };
            let class = match &name {
                n if n.starts_with("nvme") => DeviceClass::Nvme,
                n if n.starts_with("zram") || n.starts_with("ram") => DeviceClass::Memory,
                n if n.starts_with("nbd") || n.starts_with("rbd") => DeviceClass::Network,
                n if ["vd", "xvd"].iter().any(|p| n.starts_with(p)) => DeviceClass::Virtual,
                _ => DeviceClass::Unknown,
            };
            self.topology.devices.push(Device { name, kind, class, below, ..Device::default() });
        }
    }
}

fn is_disk(name: &str) -> bool {
    !["loop", "zram", "ram", "sr", "fd", "md", "dm-"].iter().any(|p| name.starts_with(p))
}
