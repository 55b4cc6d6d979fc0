//! Blocks `disksim_disk` and `dm_disk`: overheads, scheduler, and the complete drive.

use super::fields::FieldReader;
use super::mechanics::{MAX_TIME_MS, ms_to_ns};
use super::parameter_syntax::{self, SpecBlock, SpecDocument};
use super::{DiskspecsDrive, DiskspecsError, TextLoader, cache, layout, mechanics};
use crate::Ns;
use crate::drive::{ChannelSpec, DriveCacheSpec, EarlyDisconnect, Overheads, QueuePolicy, Spec};

/// Known parameters without any effect on times: output, computation method, and hints for schedulers outside the
/// drive.
const IGNORED_KEYS: &[&str] = &["Print stats", "Avg sectors per cylinder", "Calc sector by sector"];

/// Parameters of a queue; only its policy is modeled.
const QUEUE_KEYS: &[&str] = &[
    "Scheduling policy",
    "Cylinder mapping strategy",
    "Write initiation delay",
    "Read initiation delay",
    "Sequential stream scheme",
    "Maximum concat size",
    "Overlapping request scheme",
    "Sequential stream diff maximum",
    "Scheduling timeout scheme",
    "Timeout time/weight",
    "Timeout scheduling",
    "Scheduling priority scheme",
    "Priority scheduling",
];

/// Queue parameters that the model does not need: its queue knows the positions of blocks and the times of commands,
/// and a weight or a scheme means nothing without the feature that it belongs to.
const UNUSED_QUEUE_KEYS: &[&str] = &[
    "Scheduling policy",
    "Cylinder mapping strategy",
    "Write initiation delay",
    "Read initiation delay",
    "Maximum concat size",
    "Sequential stream diff maximum",
    "Timeout time/weight",
    "Timeout scheduling",
    "Priority scheduling",
];

/// All other parameters, for hints in errors.
const KNOWN_KEYS: &[&str] = &[
    "Model",
    "Max queue length",
    "Scheduler",
    "Per-request overhead time",
    "Time scale for overheads",
    "Bulk sector transfer time",
    "Allow almost read hits",
    "Allow read hits on write data",
    "Never disconnect",
    "Number of buffer segments",
    "Maximum number of write segments",
    "Segment size (in blks)",
    "Use separate write segment",
    "High (read) water mark",
    "Set watermark by reqsize",
    "Enable caching in buffer",
    "Buffer continuous read",
    "Minimum read-ahead (blks)",
    "Maximum read-ahead (blks)",
    "Read-ahead over requested",
    "Read-ahead on idle hit",
    "Read any free blocks",
    "Fast write level",
    "Immediate buffer read",
    "Immediate buffer write",
    "Stop prefetch in sector",
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Combine seq writes",
    "Disconnect write if seek",
    "Write hit stop prefetch",
    "Read directly to buffer",
    "Immed transfer partial hit",
    "Low (write) water mark",
    "Allow sneaky full read hits",
    "Allow sneaky partial read hits",
    "Allow sneaky intermediate read hits",
    "Allow write prebuffering",
    "Preseeking level",
    "Read disconnect afterread",
    "Write disconnect overhead",
    "Read hit over. after read",
    "Read miss over. after read",
    "Write hit over. after read",
    "Write miss over. after read",
    "Read completion overhead",
    "Write completion overhead",
    "Data preparation overhead",
    "First reselect overhead",
    "Other reselect overhead",
    "Extra write disconnect",
    "Minimum seek delay",
];

/// Reads a drive, standalone or on its bus.
pub(super) fn read_drive(file: &str, text: &str, load: &dyn TextLoader) -> Result<DiskspecsDrive, DiskspecsError> {
    let document = parameter_syntax::parse_document(file, text, load)?;
    let no_drive = || DiskspecsError {
        file: file.to_owned(),
        line: 1,
        message: "the file has no `disksim_disk NAME { … }`".into(),
    };
    let disks: Vec<&SpecBlock> = document.blocks.iter().filter(|b| b.kind == "disksim_disk").collect();
    let disk = match disks[..] {
        [] => return Err(no_drive()),
        [disk] => disk,
        // a file of several kinds of drives, of which one is instantiated
        [first, second, ..] => {
            let is_used = |b: &&&SpecBlock| document.instances.iter().any(|(_, block)| *block == b.name);
            let mut used = disks.iter().filter(is_used);
            match (used.next(), used.next()) {
                (Some(only), None) => only,
                _ => {
                    let names = format!("`{}` and `{}`", first.name, second.name);
                    return Err(second.position.error(format!("the file describes two drives, {names}; expected one")));
                }
            }
        }
    };
    let mut notes = Vec::new();
    let mut found = read_disk_block(disk, load, &mut notes)?;
    let bus = read_bus_times(&document, &disk.name)?;
    if let Some((read, write)) = bus {
        found.channel.read_block = found.channel.read_block.max(read);
        found.channel.write_block = found.channel.write_block.max(write);
    }
    let has_channel_time = found.channel.read_block > 0 && found.channel.write_block > 0;
    Ok(DiskspecsDrive { spec: found, notes, has_channel_time })
}

/// Reads the times of a block, for reads and writes, of the bus to which the drive is attached.
fn read_bus_times(document: &SpecDocument, drive: &str) -> Result<Option<(Ns, Ns)>, DiskspecsError> {
    let instance = document.instances.iter().find(|(_, block)| block == drive).map(|(name, _)| name);
    let bus = instance.and_then(|name| document.attachments.iter().find(|(drive, _)| drive == name));
    let bus = bus.map(|(_, bus)| bus);
    let block = bus.and_then(|bus| document.instances.iter().find(|(name, _)| name == bus)).map(|(_, block)| block);
    let found = document.blocks.iter().find(|b| b.kind == "disksim_bus" && Some(&b.name) == block);
    let Some(bus) = found else { return Ok(None) };
    let mut fields = FieldReader::new(bus)?;
    let mut time =
        |key: &str| Ok::<_, DiskspecsError>(ms_to_ns(fields.read_number(key, 0.0, MAX_TIME_MS)?.unwrap_or(0.0)));
    Ok(Some((time("Read block transfer time")?, time("Write block transfer time")?)))
}

/// Reader of times, scaled by the drive's factor; collects missing keys.
struct TimeFields<'a, 'b> {
    fields: &'b mut FieldReader<'a>,
    missing_keys: Vec<&'static str>,
    scale: f64,
}

impl TimeFields<'_, '_> {
    /// Reads a time of the drive's processor.
    fn scaled_time(&mut self, key: &'static str) -> Result<Ns, DiskspecsError> {
        Ok(ms_to_ns(self.number_or_missing(key)? * self.scale))
    }

    /// Reads a pause, which the factor does not scale.
    fn unscaled_time(&mut self, key: &'static str) -> Result<Ns, DiskspecsError> {
        Ok(ms_to_ns(self.number_or_missing(key)?))
    }

    fn number_or_missing(&mut self, key: &'static str) -> Result<f64, DiskspecsError> {
        let found = self.fields.read_number(key, 0.0, MAX_TIME_MS)?;
        if found.is_none() {
            self.missing_keys.push(key);
        }
        Ok(found.unwrap_or(0.0))
    }

    fn scaled_pair(&mut self, read: &'static str, write: &'static str) -> Result<[Ns; 2], DiskspecsError> {
        Ok([self.scaled_time(read)?, self.scaled_time(write)?])
    }
}

fn read_disk_block(block: &SpecBlock, load: &dyn TextLoader, notes: &mut Vec<String>) -> Result<Spec, DiskspecsError> {
    let mut fields = FieldReader::new(block)?;
    let model = fields.require_block("Model")?;
    let slots = fields.read_integer("Max queue length", 0, 1 << 20)?.unwrap_or(1).max(1) as u32;
    let overheads = read_overheads(&mut fields, notes)?;
    let cache = cache::read_cache(&mut fields, slots)?;
    let per_block = ms_to_ns(fields.require_number("Bulk sector transfer time", 0.0, MAX_TIME_MS)?);
    let channel = ChannelSpec {
        read_block: per_block,
        write_block: per_block,
        never_disconnects: fields.read_flag("Never disconnect")?,
        holds_reads: fields.read_flag("Hold bus entire read xfer")?,
        holds_writes: fields.read_flag("Hold bus entire write xfer")?,
    };
    let policy = match fields.find_entry("Scheduler") {
        Some(_) => read_scheduler(fields.require_block("Scheduler")?, slots, notes)?,
        None => QueuePolicy::FirstComeFirstServed,
    };
    for key in IGNORED_KEYS {
        fields.find_entry(key);
    }
    fields.reject_unknown(KNOWN_KEYS)?;
    let model_spec = read_disk_model(model, load, notes)?;
    let spec = Spec {
        name: block.name.clone(),
        overheads,
        cache,
        channel,
        queue_policy: policy,
        queue_slots: slots,
        ..model_spec
    };
    spec.check_limits().map_err(|e| model.position.error(e.to_string()))?;
    Ok(spec)
}

/// Reads `dm_disk`: layout and mechanics.
fn read_disk_model(block: &SpecBlock, load: &dyn TextLoader, notes: &mut Vec<String>) -> Result<Spec, DiskspecsError> {
    if block.kind != "dm_disk" {
        return Err(block.position.error(format!("model `{}` is not supported; expected `dm_disk`", block.kind)));
    }
    let mut fields = FieldReader::new(block)?;
    let surfaces = fields.require_integer("Number of data surfaces", 1, 1024)? as u32;
    let stated_cylinders = fields.require_integer("Number of cylinders", 1, 2_000_000)? as u32;
    let stated = fields.read_integer("Block count", 0, 1 << 50)?;
    let layout = layout::read_layout(fields.require_block("Layout Model")?, surfaces, notes)?;
    // a last zone that ends at the number of cylinders counts them from 1; DiskSim accepts such files
    let last = layout.zones.iter().map(|zone| zone.last_cylinder).max().unwrap_or(0);
    let cylinders = if last == stated_cylinders { stated_cylinders + 1 } else { stated_cylinders };
    if cylinders != stated_cylinders {
        notes.push(format!(
            "{stated_cylinders} cylinders are stated, but the last zone ends at number {last}: one more"
        ));
    }
    let mechanics = mechanics::read_mechanics(fields.require_block("Mechanical Model")?, load)?;
    fields.reject_unknown(&[
        "Number of data surfaces",
        "Number of cylinders",
        "Block count",
        "Layout Model",
        "Mechanical Model",
    ])?;
    let spec = Spec {
        name: block.name.clone(),
        surfaces,
        cylinders,
        rpm: mechanics.rpm,
        track_order: layout.order,
        sparing: layout.sparing,
        zones: layout.zones,
        seek: mechanics.seek,
        head_switch_ns: mechanics.head_switch,
        write_settle_ns: mechanics.write_settle,
        positioning_model: mechanics.access,
        overheads: Overheads::default(),
        cache: DriveCacheSpec::none(),
        channel: ChannelSpec::default(),
        queue_policy: QueuePolicy::FirstComeFirstServed,
        queue_slots: 1,
    };
    spec.check_limits().map_err(|e| block.position.error(e.to_string()))?;
    let model = crate::drive::Model::new(&spec).map_err(|e| block.position.error(e.to_string()))?;
    if let Some(stated) = stated.filter(|stated| *stated != model.capacity_blocks()) {
        notes.push(format!("{} blocks are given, but the zones hold {}", stated, model.capacity_blocks()));
    }
    Ok(spec)
}

fn read_overheads(fields: &mut FieldReader<'_>, notes: &mut Vec<String>) -> Result<Overheads, DiskspecsError> {
    let scale = fields.read_number("Time scale for overheads", 0.0, 1000.0)?.unwrap_or(1.0);
    let position = fields.block_position();
    let disconnects_early = fields.read_flag("Extra write disconnect")?;
    let mut times = TimeFields { fields, missing_keys: Vec::new(), scale };
    let per_request = times.scaled_time("Per-request overhead time")?;
    let early = EarlyDisconnect {
        command: times.scaled_time("Extradisc command overhead")?,
        disconnect: times.scaled_time("Extradisc disconnect overhead")?,
        pause: times.unscaled_time("Extradisc inter-disconnect delay")?,
        disconnect_again: times.scaled_time("Extradisc 2nd disconnect overhead")?,
        seek: times.scaled_time("Extradisc seek delta")?,
    };
    let overheads = Overheads {
        per_request,
        read_hit: times.scaled_pair("Read hit over. after read", "Read hit over. after write")?,
        read_miss: times.scaled_pair("Read miss over. after read", "Read miss over. after write")?,
        write_hit: times.scaled_pair("Write hit over. after read", "Write hit over. after write")?,
        write_miss: times.scaled_pair("Write miss over. after read", "Write miss over. after write")?,
        read_done: times.scaled_time("Read completion overhead")?,
        write_done: times.scaled_time("Write completion overhead")?,
        read_disconnect: times.scaled_pair("Read disconnect afterread", "Read disconnect afterwrite")?,
        write_disconnect: times.scaled_time("Write disconnect overhead")?,
        prepare: times.scaled_time("Data preparation overhead")?,
        reselect: times.scaled_time("First reselect overhead")?,
        reselect_again: times.scaled_time("Other reselect overhead")?,
        early_disconnect: disconnects_early.then_some(early),
        min_seek: times.unscaled_time("Minimum seek delay")?,
    };
    if !times.missing_keys.is_empty() {
        let keys = times.missing_keys.join("`, `");
        notes.push(format!("{}:{}: missing, and treated as none: `{keys}`", position.file, position.line));
    }
    Ok(overheads)
}

/// Returns the scheduling policy for a number of DiskSim's manual, and a note on how it differs from DiskSim's policy;
/// the note is empty if it does not.
fn policy_from_number(number: u64) -> Option<(QueuePolicy, &'static str)> {
    Some(match number {
        1 => (QueuePolicy::FirstComeFirstServed, ""),
        2 | 5 => (QueuePolicy::Elevator, ""),
        3 | 6 => (QueuePolicy::CircularLook, ""),
        4 | 7 => (QueuePolicy::ShortestSeek, ""),
        8 | 9 => (QueuePolicy::ShortestPositioning, "does not age; here requests that waited long come first"),
        14 | 15 => (QueuePolicy::ShortestPositioning, "ages with a weight of its own; here it is always the same"),
        _ => return None,
    })
}

/// Reads the scheduler. If the drive queues a single request, there is nothing to choose and any queue is accepted.
fn read_scheduler(block: &SpecBlock, slots: u32, notes: &mut Vec<String>) -> Result<QueuePolicy, DiskspecsError> {
    if block.kind != "disksim_ioqueue" {
        return Err(block
            .position
            .error(format!("scheduler `{}` is not supported; expected `disksim_ioqueue`", block.kind)));
    }
    let mut fields = FieldReader::new(block)?;
    let number = fields.require_integer("Scheduling policy", 1, 30)?;
    let position = fields.require_entry("Scheduling policy")?.position.clone();
    let policy = match policy_from_number(number) {
        Some((policy, "")) => policy,
        Some((policy, note)) => {
            if slots > 1 {
                notes.push(format!("{}:{}: scheduling policy {number} {note}", position.file, position.line));
            }
            policy
        }
        None if slots > 1 => {
            let expected = "1 to 9, 14 or 15 where `Max queue length` is above 1";
            return Err(position.error(format!("`Scheduling policy = {number}` is not modeled; expected {expected}")));
        }
        None => QueuePolicy::Elevator,
    };
    for key in QUEUE_KEYS {
        let stated = fields.read_number(key, 0.0, 1e9)?.unwrap_or(0.0);
        if slots > 1 && stated != 0.0 && !UNUSED_QUEUE_KEYS.contains(key) {
            let position = &fields.require_entry(key)?.position;
            return Err(
                position.error(format!("`{key} = {stated}` is not modeled where `Max queue length` is above 1"))
            );
        }
    }
    fields.reject_unknown(QUEUE_KEYS)?;
    Ok(policy)
}
