//! Topology by hand: facts about disks and machine that a log lacks, added to the topology that diagnosis uses.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use diskwright_base::byte_size::parse_memory_size;
use diskwright_base::counter_ids::{interrupts, memory};
use diskwright_base::toml_reader;
use diskwright_base::units::format_count;
use diskwright_base::{Device, DeviceClass, DeviceKind, Frame, RaidLevel, Schema, Series, Topology};
use diskwright_hostfiles::bounded_file;
use serde::Deserialize;

use crate::IngestError;
use crate::volumes::{CloudFacts, add_volumes};

/// Most disks of a log that an error names.
const MAX_NAMED_DISKS: usize = 20;

/// Facts that the user knows about a log's machine, as given.
#[derive(Clone, Debug, Default)]
pub struct MachineFacts {
    /// Disks: `DISK=LEVEL[:MEMBERS[:CLASS]]`.
    pub arrays: Vec<String>,
    /// Models of disks: `DISK=MODEL`.
    pub drives: Vec<String>,
    /// Volumes and instance of a cloud.
    pub cloud: CloudFacts,
    /// A TOML file with the same information and more.
    pub file: Option<PathBuf>,
    /// Physical memory.
    pub memory: Option<String>,
    /// Number of processors.
    pub processors: Option<u32>,
    /// Clock interrupts per second.
    pub clock: Option<f64>,
    /// Network adapter interrupts per second.
    pub network_interrupts: Option<f64>,
}

/// All facts given about a log's machine.
#[derive(Clone, Debug, Default)]
pub struct MachineDescription {
    disks: Vec<DiskDescription>,
    sets: Vec<SetDescription>,
    /// Models alone: the word for the disk, and its model.
    models: Vec<(String, String)>,
    cloud: CloudFacts,
    machine: MachineOptions,
}

/// A software array over disks of the log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetDescription {
    name: String,
    level: String,
    disks: Vec<String>,
    stripe: Option<String>,
}

/// Machine facts that a log may lack.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineOptions {
    memory: Option<String>,
    processors: Option<u32>,
    clock: Option<f64>,
    network_interrupts: Option<f64>,
}

/// One disk as the user describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskDescription {
    disk: String,
    level: Option<String>,
    #[serde(default = "default_member_count")]
    members: u32,
    class: Option<DeviceClass>,
    stripe: Option<String>,
    /// Its model, as the disk would report it, or a drive of the catalogue.
    drive: Option<String>,
}

fn default_member_count() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyFile {
    #[serde(default)]
    array: Vec<DiskDescription>,
    #[serde(default)]
    set: Vec<SetDescription>,
    #[serde(default)]
    machine: MachineOptions,
}

impl MachineFacts {
    /// Returns all facts, checked; single ones override the file.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it or in the facts is impossible.
    pub fn describe(&self) -> Result<MachineDescription, IngestError> {
        let mut all = Vec::new();
        let (mut sets, mut machine) = (Vec::new(), MachineOptions::default());
        if let Some(path) = &self.file {
            let name = path.display();
            let text = bounded_file::read_text_file(path, bounded_file::MAX_DESCRIPTION_BYTES)
                .map_err(|source| IngestError::Io { path: path.clone(), source })?;
            let file: TopologyFile = toml_reader::read(&name.to_string(), &text)?;
            all.extend(file.array);
            (sets, machine) = (file.set, file.machine);
        }
        for text in &self.arrays {
            all.push(parse_disk_description(text)?);
        }
        all.iter().try_for_each(check_disk_description)?;
        sets.iter().try_for_each(check_array_set)?;
        let machine = MachineOptions {
            memory: self.memory.clone().or(machine.memory),
            processors: self.processors.or(machine.processors),
            clock: self.clock.or(machine.clock),
            network_interrupts: self.network_interrupts.or(machine.network_interrupts),
        };
        machine.check_values()?;
        let models = self.drives.iter().map(|text| parse_drive_model(text)).collect::<Result<_, _>>()?;
        Ok(MachineDescription { disks: all, sets, models, cloud: self.cloud.clone(), machine })
    }
}

impl MachineDescription {
    /// True if no facts were given.
    pub fn is_empty(&self) -> bool {
        let MachineOptions { memory, processors, .. } = &self.machine;
        let is_of_machine = memory.is_some() || processors.is_some() || self.cloud.instance.is_some();
        !self.names_disks() && !is_of_machine && self.constant_counters().is_empty()
    }

    /// True if disks of the log are named; they must exist in it.
    pub fn names_disks(&self) -> bool {
        let names_models = !self.models.is_empty() || !self.cloud.volumes.is_empty();
        !self.disks.is_empty() || !self.sets.is_empty() || names_models
    }

    /// The models of disks that were given.
    pub fn declared_models(&self) -> impl Iterator<Item = &str> {
        let of_disks = self.disks.iter().filter_map(|disk| disk.drive.as_deref());
        of_disks.chain(self.models.iter().map(|(_, model)| model.as_str()))
    }

    /// Counters that are the same at all times: rates per second, and the size of memory.
    fn constant_counters(&self) -> Vec<(&'static str, f64)> {
        let MachineOptions { clock, network_interrupts, .. } = self.machine;
        let memory = self.machine.memory_bytes().map(|bytes| bytes as f64);
        let counters = [
            (interrupts::CLOCK_PER_S, clock),
            (interrupts::NETWORK_PER_S, network_interrupts),
            (memory::TOTAL_BYTES, memory),
        ];
        counters.into_iter().filter_map(|(id, value)| Some((id, value?))).collect()
    }

    /// Adds the given counters that a frame lacks; `None` if it has all of them. `last_schema` caches the extended
    /// schema for the next frame.
    pub fn add_missing_counters(&self, frame: &Frame, last_schema: &mut Option<Arc<Schema>>) -> Option<Frame> {
        let has = |id: &str| {
            let stored = id.strip_suffix("_per_s").unwrap_or(id);
            frame.schema().series.iter().any(|s| s.counter == id || s.counter == stored)
        };
        let added: Vec<(&str, f64)> = self.constant_counters().into_iter().filter(|(id, _)| !has(id)).collect();
        if added.is_empty() {
            return None;
        }
        let mut series = frame.schema().series.clone();
        let new_series = |(id, _): &(&str, f64)| Series { counter: (*id).into(), instance: String::new(), scale: 1.0 };
        series.extend(added.iter().map(new_series));
        let mut row = Vec::new();
        let schema = match last_schema.take().filter(|schema| schema.series == series) {
            Some(schema) => schema,
            None => Arc::new(Schema::new(series)),
        };
        *last_schema = Some(Arc::clone(&schema));
        let mut extended = Frame::new(schema, frame.ticks().len());
        for (index, tick) in frame.ticks().iter().enumerate() {
            row.clear();
            row.extend((0..frame.schema().series.len()).map(|column| frame.column(column)[index]));
            row.extend(added.iter().map(|(_, value)| value));
            extended.push(*tick, &row);
        }
        Some(extended)
    }

    /// Fills in what a topology does not know about the machine, and adds the devices.
    pub fn complete_topology(&self, topology: &mut Topology, devices: &[Device]) {
        if topology.memory_bytes == 0 {
            topology.memory_bytes = self.machine.memory_bytes().unwrap_or(0);
        }
        if topology.processors == 0 {
            topology.processors = self.machine.processors.unwrap_or(0);
        }
        if self.cloud.instance.is_some() {
            topology.cloud_instance.clone_from(&self.cloud.instance);
        }
        merge_devices(topology, devices);
    }
}

impl MachineOptions {
    fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_deref().and_then(|text| parse_memory_size(text).ok())
    }

    fn check_values(&self) -> Result<(), IngestError> {
        let usage_error = |option: &str, reason: String| Err(IngestError::Usage(format!("{option}: {reason}")));
        match self.memory.as_deref().map(parse_memory_size) {
            Some(Err(error)) => return usage_error("--memory", error.to_string()),
            Some(Ok(0)) => return usage_error("--memory", "memory must be more than zero, such as 256MB".into()),
            _ => {}
        }
        if self.processors == Some(0) {
            return usage_error("processors", "there must be at least one processor".into());
        }
        for (name, rate) in [("--clock", self.clock), ("--network-interrupts", self.network_interrupts)] {
            if let Some(rate) = rate.filter(|rate| !(0.0..=1e9).contains(rate)) {
                return usage_error(name, format!("{rate} is not a number of interrupts per second"));
            }
        }
        Ok(())
    }
}

fn check_array_set(set: &SetDescription) -> Result<(), IngestError> {
    let (name, members) = (&set.name, set.disks.len());
    let as_array = DiskDescription {
        disk: name.clone(),
        level: Some(set.level.clone()),
        members: u32::try_from(members).unwrap_or(u32::MAX),
        class: None,
        stripe: set.stripe.clone(),
        drive: None,
    };
    if members < 2 {
        return Err(IngestError::Usage(format!("array `{name}`: needs at least 2 disks, not {members}")));
    }
    check_disk_description(&as_array)
}

/// Reads `DISK=LEVEL[:MEMBERS[:CLASS]]`.
fn parse_disk_description(text: &str) -> Result<DiskDescription, IngestError> {
    let usage_error =
        |reason: &str| IngestError::Usage(format!("--array `{text}`: {reason}; write 'PhysicalDisk(0)=raid5:3'"));
    let (disk, description) = text.rsplit_once('=').ok_or_else(|| usage_error("no ="))?;
    let mut parts = description.split(':');
    let level = parts.next().unwrap_or_default();
    let mut result = DiskDescription {
        disk: disk.trim().into(),
        level: Some(level.into()),
        members: 1,
        class: None,
        stripe: None,
        drive: None,
    };
    for part in parts {
        match (part.parse(), parse_device_class(part)) {
            (Ok(members), _) => result.members = members,
            (_, Some(class)) => result.class = Some(class),
            _ => return Err(usage_error(&format!("`{part}` is neither a number of members nor a class"))),
        }
    }
    Ok(result)
}

/// Reads `DISK=MODEL`.
fn parse_drive_model(text: &str) -> Result<(String, String), IngestError> {
    let parts = text.rsplit_once('=').map(|(disk, model)| (disk.trim().to_owned(), model.trim().to_owned()));
    parts.filter(|(disk, model)| !disk.is_empty() && !model.is_empty()).ok_or_else(|| {
        IngestError::Usage(format!("--drive `{text}`: expected a disk and its model, such as 'sda=st4000nm0023'"))
    })
}

fn parse_device_class(word: &str) -> Option<DeviceClass> {
    serde_json::from_value(serde_json::Value::String(word.to_lowercase())).ok()
}

fn check_disk_description(description: &DiskDescription) -> Result<(), IngestError> {
    let disk = &description.disk;
    let usage_error = |reason: String| Err(IngestError::Usage(format!("array `{disk}`: {reason}")));
    let level = description.level.as_deref().map(|l| (l, parse_raid_level(l)));
    let min_members = match level {
        None => 1,
        Some((name, None)) => {
            let known = RaidLevel::ALL.map(RaidLevel::name).join(", ");
            return usage_error(format!("unknown level `{name}`; levels: single, {known}"));
        }
        Some((_, Some(RaidLevel::Linear | RaidLevel::Raid0))) => 1,
        Some((_, Some(RaidLevel::Raid1))) => 2,
        Some((_, Some(RaidLevel::Raid4 | RaidLevel::Raid5))) => 3,
        Some((_, Some(RaidLevel::Raid6 | RaidLevel::Raid10))) => 4,
    };
    if description.members < min_members {
        return usage_error(format!(
            "needs at least {}, not {}",
            format_count(min_members, "member", "members"),
            description.members
        ));
    }
    if let Some(Err(error)) = description.stripe.as_deref().map(parse_memory_size) {
        return usage_error(format!("stripe: {error}"));
    }
    Ok(())
}

fn parse_raid_level(name: &str) -> Option<RaidLevel> {
    if name.eq_ignore_ascii_case("jbod") { Some(RaidLevel::Linear) } else { RaidLevel::parse(name) }
}

/// Resolves the described disks to the names used in the log. A disk that is in no log is an error that lists the
/// existing ones. `recorded` is a topology of the log, for the sizes of disks.
pub fn resolve_devices(
    described: &MachineDescription,
    schemas: &[&Schema],
    recorded: &Topology,
) -> Result<Vec<Device>, IngestError> {
    let names = DiskNames::from_schemas(schemas);
    let mut positions: HashMap<&str, usize> = HashMap::new();
    let mut replaced: Vec<(Device, bool)> = Vec::new();
    for one in &described.disks {
        for name in names.find_disks(&one.disk)? {
            // what is said last of a disk counts
            if let Some(before) = positions.insert(name, replaced.len()) {
                replaced[before].1 = true;
            }
            replaced.push((device_from_description(one, name), false));
        }
    }
    let mut devices: Vec<Device> = replaced.into_iter().filter(|(_, is_old)| !is_old).map(|(d, _)| d).collect();
    add_models(&mut devices, described, &names)?;
    add_volumes(&mut devices, &described.cloud.volumes, recorded, |disk| names.find_disks(disk))?;
    let mut known: HashSet<String> = devices.iter().map(|device| device.name.clone()).collect();
    for set in &described.sets {
        let mut below: Vec<String> = Vec::new();
        let mut members: HashSet<&str> = HashSet::new();
        for disk in &set.disks {
            for name in names.find_disks(disk)? {
                if !members.insert(name) {
                    let because = format!("array `{}`: `{disk}` is named twice", set.name);
                    return Err(IngestError::Usage(because));
                }
                below.push(name.to_owned());
                if known.insert(name.to_owned()) {
                    devices.push(Device { name: name.to_owned(), members: Some(1), ..Device::default() });
                }
            }
        }
        known.insert(set.name.clone());
        devices.push(Device {
            name: set.name.clone(),
            kind: DeviceKind::Md,
            level: parse_raid_level(&set.level),
            stripe_bytes: set.stripe.as_deref().and_then(|s| parse_memory_size(s).ok()),
            below,
            ..Device::default()
        });
    }
    Ok(devices)
}

/// Adds the models that were given alone; of a disk that nothing else was said about, nothing else is changed.
fn add_models(
    devices: &mut Vec<Device>,
    described: &MachineDescription,
    names: &DiskNames<'_>,
) -> Result<(), IngestError> {
    let mut positions: HashMap<String, usize> =
        devices.iter().enumerate().map(|(position, device)| (device.name.clone(), position)).collect();
    for (disk, model) in &described.models {
        for name in names.find_disks(disk)? {
            let position = *positions.entry(name.to_owned()).or_insert_with(|| {
                devices.push(Device { name: name.to_owned(), ..Device::default() });
                devices.len() - 1
            });
            devices[position].model = Some(model.clone());
        }
    }
    Ok(())
}

/// Disks of a log, found by the words that a user may have for them: a log may have a hundred thousand.
struct DiskNames<'a> {
    names: Vec<&'a str>,
    /// Their positions, by the name in small letters.
    by_name: HashMap<String, Vec<usize>>,
    /// Their positions, by the name's first word.
    by_first_word: HashMap<&'a str, Vec<usize>>,
}

impl<'a> DiskNames<'a> {
    fn from_schemas(schemas: &[&'a Schema]) -> DiskNames<'a> {
        let mut found = DiskNames { names: Vec::new(), by_name: HashMap::new(), by_first_word: HashMap::new() };
        let mut known: HashSet<&str> = HashSet::new();
        for object in ["physical_disk", "logical_disk"] {
            for name in schemas.iter().flat_map(|s| s.instances(object)) {
                if name.eq_ignore_ascii_case("_total") || !known.insert(name) {
                    continue;
                }
                let position = found.names.len();
                found.names.push(name);
                found.by_name.entry(name.to_ascii_lowercase()).or_default().push(position);
                found.by_first_word.entry(name.split(' ').next().unwrap_or(name)).or_default().push(position);
            }
        }
        found
    }

    /// Finds the disks that the user's word refers to: a disk's name, `Object(name)`, the number before the drive
    /// letters of NT's disks (`0` of `0 C: D:`), or `*`.
    fn find_disks(&self, word: &str) -> Result<Vec<&'a str>, IngestError> {
        let inner = word.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(word);
        if inner == "*" && !self.names.is_empty() {
            return Ok(self.names.clone());
        }
        let by_name = self.by_name.get(&inner.to_ascii_lowercase());
        let mut positions: Vec<usize> =
            by_name.into_iter().chain(self.by_first_word.get(inner)).flatten().copied().collect();
        positions.sort_unstable();
        positions.dedup();
        if positions.is_empty() {
            let known = self.names.iter().take(MAX_NAMED_DISKS).copied().collect::<Vec<_>>().join(", ");
            let more = if self.names.len() > MAX_NAMED_DISKS { ", …" } else { "" };
            return Err(IngestError::Usage(format!("the log has no disk `{word}`; its disks: {known}{more}")));
        }
        Ok(positions.into_iter().map(|position| self.names[position]).collect())
    }
}

fn device_from_description(description: &DiskDescription, name: &str) -> Device {
    let level = description.level.as_deref().and_then(parse_raid_level).filter(|_| description.members > 1);
    Device {
        name: name.to_owned(),
        class: description.class.unwrap_or_default(),
        level,
        members: Some(description.members),
        stripe_bytes: description.stripe.as_deref().and_then(|s| parse_memory_size(s).ok()),
        model: description.drive.clone(),
        ..Device::default()
    }
}

/// Merges the described devices into a topology, which may be empty. Facts that the log shows are kept, except for the
/// level, members and other values that were given.
fn merge_devices(topology: &mut Topology, devices: &[Device]) {
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (position, device) in topology.devices.iter().enumerate() {
        positions.entry(device.name.clone()).or_insert(position);
    }
    for described in devices {
        match positions.get(&described.name).map(|position| &mut topology.devices[*position]) {
            Some(known) => {
                known.level = described.level.or(known.level);
                // a model alone says nothing about members
                if described.members.is_some() || !described.below.is_empty() {
                    known.members = described.members;
                }
                if let Some(model) = &described.model {
                    known.model = Some(model.clone());
                }
                if !described.below.is_empty() {
                    known.below.clone_from(&described.below);
                }
                known.stripe_bytes = described.stripe_bytes.or(known.stripe_bytes);
                if described.cloud_volume.is_some() {
                    known.cloud_volume.clone_from(&described.cloud_volume);
                }
                if described.class != DeviceClass::Unknown {
                    known.class = described.class;
                }
            }
            None => {
                positions.insert(described.name.clone(), topology.devices.len());
                topology.devices.push(described.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Series;

    use super::*;

    fn parse_descriptions(texts: &[&str]) -> Result<MachineDescription, IngestError> {
        MachineFacts { arrays: texts.iter().map(|t| t.to_string()).collect(), ..MachineFacts::default() }.describe()
    }

    fn schema_with_disks(disks: &[&str]) -> Schema {
        let one = |d: &&str| Series { counter: "physical_disk.busy".into(), instance: d.to_string(), scale: 1.0 };
        Schema::new(disks.iter().map(one).collect())
    }

    #[test]
    fn parses_array_descriptions() {
        let log = schema_with_disks(&["0 C: D:", "1 E:", "_Total"]);
        let descriptions = parse_descriptions(&["PhysicalDisk(0)=raid5:3", "1 E:=single:rotational"]).unwrap();
        let devices = resolve_devices(&descriptions, &[&log], &Topology::default()).unwrap();
        assert_eq!(
            (devices[0].name.as_str(), devices[0].level, devices[0].members),
            ("0 C: D:", Some(RaidLevel::Raid5), Some(3))
        );
        assert_eq!((devices[1].level, devices[1].members, devices[1].class), (None, Some(1), DeviceClass::Rotational));
        let mut topology = Topology::default();
        merge_devices(&mut topology, &devices);
        assert_eq!(topology.spindle_count("0 C: D:"), 3);
    }

    #[test]
    fn adds_missing_machine_facts_and_keeps_recorded_ones() {
        let given = MachineFacts { clock: Some(100.0), network_interrupts: Some(20.0), ..MachineFacts::default() };
        let given = given.describe().unwrap();
        let one = |id: &str| Series { counter: id.into(), instance: String::new(), scale: 1.0 };
        let mut frame = Frame::new(Arc::new(Schema::new(vec![one("interrupts.clock"), one("a")])), 2);
        frame.push(diskwright_base::Tick { time_ns: 5, elapsed_ns: 1 }, &[7.0, 8.0]);
        let mut before = None;
        let extended = given.add_missing_counters(&frame, &mut before).unwrap();
        let again = given.add_missing_counters(&frame, &mut before).unwrap();
        assert!(Arc::ptr_eq(extended.schema(), again.schema()), "one schema for all frames");
        assert_eq!(extended.schema().column("interrupts.clock_per_s", ""), None);
        let network = extended.schema().column("interrupts.network_per_s", "").unwrap();
        assert_eq!((extended.column(network), extended.column(1)), (&[20.0][..], &[8.0][..]));
        assert_eq!(extended.ticks(), frame.ticks());
        let given = MachineFacts { memory: Some("256MB".into()), ..MachineFacts::default() }.describe().unwrap();
        let extended = given.add_missing_counters(&frame, &mut None).unwrap();
        let total = extended.schema().column("memory.total_bytes", "").unwrap();
        assert_eq!(extended.column(total), &[268_435_456.0][..]);
        assert!(MachineDescription::default().add_missing_counters(&frame, &mut None).is_none());
        let mut known = Topology { processors: 4, ..Topology::default() };
        let given = MachineFacts { memory: Some("256MB".into()), processors: Some(2), ..MachineFacts::default() };
        given.describe().unwrap().complete_topology(&mut known, &[]);
        assert_eq!((known.processors, known.memory_bytes), (4, 268_435_456));
    }

    #[test]
    fn star_matches_every_disk_and_later_options_win() {
        let log = schema_with_disks(&["sda", "sdb"]);
        let descriptions = parse_descriptions(&["*=single", "sdb=raid10:8"]).unwrap();
        let found = resolve_devices(&descriptions, &[&log], &Topology::default()).unwrap();
        let members: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.members)).collect();
        assert_eq!(members, [("sda", Some(1)), ("sdb", Some(8))]);
    }

    #[test]
    fn a_model_is_added_to_what_is_known_of_a_disk() {
        let log = schema_with_disks(&["sda", "sdb", "sdc"]);
        let (arrays, drives) = (vec!["sdb=raid10:8".into()], vec!["*=ST4000NM0023".into(), "sdc=other".into()]);
        let given = MachineFacts { arrays, drives, ..MachineFacts::default() }.describe().unwrap();
        assert!(!given.is_empty() && given.names_disks());
        let devices = resolve_devices(&given, &[&log], &Topology::default()).unwrap();
        let recorded = Device { name: "sda".into(), members: Some(1), bytes: Some(5), ..Device::default() };
        let mut topology = Topology { devices: vec![recorded.clone()], ..Topology::default() };
        merge_devices(&mut topology, &devices);
        let known = |name: &str| topology.find_device(name).cloned().unwrap();
        assert_eq!(known("sda"), Device { model: Some("ST4000NM0023".into()), ..recorded });
        assert_eq!((known("sdb").members, known("sdb").model.as_deref()), (Some(8), Some("ST4000NM0023")));
        assert_eq!((known("sdc").members, known("sdc").model.as_deref()), (None, Some("other")));
        for text in ["sda", "=x", "sda="] {
            let facts = MachineFacts { drives: vec![text.into()], ..MachineFacts::default() };
            assert!(facts.describe().unwrap_err().is_usage(), "{text}");
        }
    }

    #[test]
    fn rejects_impossible_descriptions_with_a_reason() {
        let cases = [
            ("sda", "no ="),
            ("sda=raid5:2", "at least 3"),
            ("sda=raid9:4", "raid9"),
            ("sda=raid5:x", "`x`"),
            ("sda=raid5:0", "at least 3"),
        ];
        for (text, expected) in cases {
            let message = parse_descriptions(&[text]).unwrap_err();
            assert!(message.is_usage());
            assert!(message.to_string().contains(expected), "{message}");
        }
        let message = resolve_devices(
            &parse_descriptions(&["sdz=raid1:2"]).unwrap(),
            &[&schema_with_disks(&["sda"])],
            &Topology::default(),
        )
        .unwrap_err();
        assert!(message.to_string().contains("sdz") && message.to_string().contains("sda"), "{message}");
    }
}
