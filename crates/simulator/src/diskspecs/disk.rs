//! `disksim_disk` and `dm_disk`: cache, overheads, and the parts together.

use super::fields::{DiskspecsFields, number};
use super::mechanics::{MOST_MS, ns};
use super::syntax::{self, SpecBlock, SpecDocument};
use super::{Diskspecs, DiskspecsError, TextLoader, layout, mechanics};
use crate::Ns;
use crate::drive::{ChannelSpec, DriveCacheSpec, DriveReadAhead, EarlyDisconnect, Overheads, QueuePolicy, Spec};

/// Known, without a part in the model, and the value that says so.
const LEFT: &[(&str, f64)] = &[
    ("Allow sneaky full read hits", 0.0),
    ("Allow sneaky partial read hits", 0.0),
    ("Allow sneaky intermediate read hits", 0.0),
    ("Allow write prebuffering", 0.0),
    ("Preseeking level", 0.0),
    ("Immed transfer partial hit", 1.0),
];

/// Known, and without any effect on times.
const SILENT: &[&str] = &[
    "Print stats",
    "Avg sectors per cylinder",
    "Calc sector by sector",
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Combine seq writes",
    "Disconnect write if seek",
    "Write hit stop prefetch",
    "Read directly to buffer",
    // they pass beside the disk's own work, on a channel that one drive has
    "Low (write) water mark",
    "Read disconnect afterread",
    "Read disconnect afterwrite",
    "Write disconnect overhead",
    "Extradisc 2nd disconnect overhead",
];

/// Parameters of a queue; only its policy is modelled.
const QUEUE: &[&str] = &[
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

/// All other parameters, for hints.
const KNOWN: &[&str] = &[
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

/// Reads a drive, alone or on its bus.
pub(super) fn read(file: &str, text: &str, load: &dyn TextLoader) -> Result<Diskspecs, DiskspecsError> {
    let document = syntax::read(file, text, load)?;
    let none =
        || DiskspecsError {
            file: file.to_owned(), line: 1, what: "the file has no `disksim_disk NAME { … }`".into()
        };
    let disks: Vec<&SpecBlock> = document.blocks.iter().filter(|b| b.kind == "disksim_disk").collect();
    let disk = match disks[..] {
        [] => return Err(none()),
        [one] => one,
        // a file of many kinds of which one hangs somewhere
        [first, second, ..] => {
            let used = |b: &&&SpecBlock| document.instances.iter().any(|(_, block)| *block == b.name);
            let mut used = disks.iter().filter(used);
            match (used.next(), used.next()) {
                (Some(only), None) => only,
                _ => {
                    let names = format!("`{}` and `{}`", first.name, second.name);
                    return Err(second.at.error(format!("the file describes two drives, {names}; expected one")));
                }
            }
        }
    };
    let mut notes = Vec::new();
    let mut found = drive(disk, load, &mut notes)?;
    let bus = bus(&document, &disk.name)?;
    if let Some((read, write)) = bus {
        found.channel.read_block = found.channel.read_block.max(read);
        found.channel.write_block = found.channel.write_block.max(write);
    }
    let channel_is_told = found.channel.read_block > 0 && found.channel.write_block > 0;
    Ok(Diskspecs { spec: found, notes, channel_is_told })
}

/// Times of a block on the bus that the drive hangs on, of reads and writes.
fn bus(document: &SpecDocument, drive: &str) -> Result<Option<(Ns, Ns)>, DiskspecsError> {
    let instance = document.instances.iter().find(|(_, block)| block == drive).map(|(name, _)| name);
    let on = instance.and_then(|name| document.hangs.iter().find(|(on, _)| on == name)).map(|(_, on)| on);
    let block = on.and_then(|on| document.instances.iter().find(|(name, _)| name == on)).map(|(_, block)| block);
    let found = document.blocks.iter().find(|b| b.kind == "disksim_bus" && Some(&b.name) == block);
    let Some(bus) = found else { return Ok(None) };
    let mut fields = DiskspecsFields::new(bus)?;
    let mut time = |key: &str| Ok::<_, DiskspecsError>(ns(fields.number(key, 0.0, MOST_MS)?.unwrap_or(0.0)));
    Ok(Some((time("Read block transfer time")?, time("Write block transfer time")?)))
}

/// Reader of times, scaled as the drive says; what is missing is told.
struct TimeFields<'a, 'b> {
    fields: &'b mut DiskspecsFields<'a>,
    missing: Vec<&'static str>,
    scale: f64,
}

impl TimeFields<'_, '_> {
    fn get(&mut self, key: &'static str) -> Result<Ns, DiskspecsError> {
        let found = self.fields.number(key, 0.0, MOST_MS)?;
        if found.is_none() {
            self.missing.push(key);
        }
        Ok(ns(found.unwrap_or(0.0) * self.scale))
    }

    fn pair(&mut self, read: &'static str, write: &'static str) -> Result<[Ns; 2], DiskspecsError> {
        Ok([self.get(read)?, self.get(write)?])
    }
}

fn drive(block: &SpecBlock, load: &dyn TextLoader, notes: &mut Vec<String>) -> Result<Spec, DiskspecsError> {
    let mut fields = DiskspecsFields::new(block)?;
    let model = fields.need_block("Model")?;
    let overheads = overheads(&mut fields, notes)?;
    let cache = cache(&mut fields)?;
    let per_block = ns(fields.need_number("Bulk sector transfer time", 0.0, MOST_MS)?);
    let never_leaves = fields.whole("Never disconnect", 0, 1)?.unwrap_or(0) == 1;
    let policy = match fields.entry("Scheduler") {
        Some(_) => scheduler(fields.need_block("Scheduler")?, notes)?,
        None => QueuePolicy::FirstCome,
    };
    let slots = fields.whole("Max queue length", 0, 1 << 20)?.unwrap_or(1).max(1) as u32;
    for (key, off) in LEFT {
        if let Some(entry) = fields.entry(key) {
            let value = number(&entry.at, key, &entry.value, -1.0, 100.0)?;
            if value != *off {
                notes.push(format!("{}:{}: `{key} = {value}` is not modelled", entry.at.file, entry.at.line));
            }
        }
    }
    for key in SILENT {
        fields.entry(key);
    }
    fields.finish(KNOWN)?;
    let channel = ChannelSpec { read_block: per_block, write_block: per_block, never_leaves };
    let model_spec = disk_model(model, load, notes)?;
    let spec = Spec { name: block.name.clone(), overheads, cache, channel, policy, slots, ..model_spec };
    spec.check().map_err(|e| model.at.error(e.to_string()))?;
    Ok(spec)
}

/// `dm_disk`: layout and mechanics.
fn disk_model(block: &SpecBlock, load: &dyn TextLoader, notes: &mut Vec<String>) -> Result<Spec, DiskspecsError> {
    if block.kind != "dm_disk" {
        return Err(block.at.error(format!("model `{}` is not supported; expected `dm_disk`", block.kind)));
    }
    let mut fields = DiskspecsFields::new(block)?;
    let surfaces = fields.need_whole("Number of data surfaces", 1, 1024)? as u32;
    let cylinders = fields.need_whole("Number of cylinders", 1, 2_000_000)? as u32;
    let told = fields.whole("Block count", 0, 1 << 50)?;
    let layout = layout::read(fields.need_block("Layout Model")?, surfaces, notes)?;
    let mechanics = mechanics::read(fields.need_block("Mechanical Model")?, load, notes)?;
    fields.finish(&[
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
        order: layout.order,
        sparing: layout.sparing,
        zones: layout.zones,
        seek: mechanics.seek,
        head_switch: mechanics.head_switch,
        write_settle: mechanics.write_settle,
        access: mechanics.access,
        overheads: Overheads::default(),
        cache: DriveCacheSpec::none(),
        channel: ChannelSpec::default(),
        policy: QueuePolicy::FirstCome,
        slots: 1,
    };
    spec.check().map_err(|e| block.at.error(e.to_string()))?;
    let model = crate::drive::Model::new(&spec).map_err(|e| block.at.error(e.to_string()))?;
    if let Some(told) = told.filter(|told| *told != model.blocks()) {
        notes.push(format!("{} blocks are given, but the zones hold {}", told, model.blocks()));
    }
    Ok(spec)
}

fn overheads(fields: &mut DiskspecsFields<'_>, notes: &mut Vec<String>) -> Result<Overheads, DiskspecsError> {
    let scale = fields.number("Time scale for overheads", 0.0, 1000.0)?.unwrap_or(1.0);
    let at = fields.at();
    let extra = fields.whole("Extra write disconnect", 0, 1)?.unwrap_or(0) == 1;
    let mut times = TimeFields { fields, missing: Vec::new(), scale };
    let each = times.get("Per-request overhead time")?;
    let plus = |pair: [Ns; 2]| pair.map(|time| time + each);
    let early = EarlyDisconnect {
        command: times.get("Extradisc command overhead")? + each,
        disconnect: times.get("Extradisc disconnect overhead")?,
        pause: times.get("Extradisc inter-disconnect delay")?,
        seek: times.get("Extradisc seek delta")?,
    };
    let overheads = Overheads {
        read_hit: plus(times.pair("Read hit over. after read", "Read hit over. after write")?),
        read_miss: plus(times.pair("Read miss over. after read", "Read miss over. after write")?),
        write_hit: plus(times.pair("Write hit over. after read", "Write hit over. after write")?),
        write_miss: plus(times.pair("Write miss over. after read", "Write miss over. after write")?),
        read_done: times.get("Read completion overhead")?,
        write_done: times.get("Write completion overhead")?,
        prepare: times.get("Data preparation overhead")?,
        reselect: times.get("First reselect overhead")?,
        reselect_again: times.get("Other reselect overhead")?,
        early_disconnect: extra.then_some(early),
        least_seek: times.get("Minimum seek delay")?,
    };
    if !times.missing.is_empty() {
        let keys = times.missing.join("`, `");
        notes.push(format!("{}:{}: missing, and treated as none: `{keys}`", at.file, at.line));
    }
    Ok(overheads)
}

fn cache(fields: &mut DiskspecsFields<'_>) -> Result<DriveCacheSpec, DiskspecsError> {
    let segments = fields.need_whole("Number of buffer segments", 0, 4096)? as u32;
    let segment_blocks = fields.need_whole("Segment size (in blks)", 1, 1 << 30)? as u32;
    let mut flag = |key: &str, most: u64| Ok::<_, DiskspecsError>(fields.whole(key, 0, most)?.unwrap_or(0));
    let ahead = match flag("Buffer continuous read", 4)? {
        0 => DriveReadAhead::None,
        1 => DriveReadAhead::Track,
        2 => DriveReadAhead::Cylinder,
        3 => DriveReadAhead::Segment,
        _ => DriveReadAhead::NextTrack,
    };
    Ok(DriveCacheSpec {
        segments,
        segment_blocks,
        ahead,
        separate_write: flag("Use separate write segment", 1)? == 1,
        keeps: flag("Enable caching in buffer", 2)? > 0,
        serves_written: flag("Allow read hits on write data", 1)? == 1,
        least_ahead: flag("Minimum read-ahead (blks)", 1 << 30)? as u32,
        most_ahead: flag("Maximum read-ahead (blks)", 1 << 30)? as u32,
        ahead_on_hit: flag("Read-ahead on idle hit", 1)? == 1,
        almost_hits: flag("Allow almost read hits", 1)? == 1,
        keeps_passing: flag("Read any free blocks", 1)? == 1,
        stops_in_sector: flag("Stop prefetch in sector", 1)? == 1,
        mark_of_request: flag("Set watermark by reqsize", 1)? == 1,
        reports_early: flag("Fast write level", 2)? > 0,
        read_on_arrival: flag("Immediate buffer read", 2)? > 0,
        write_on_arrival: flag("Immediate buffer write", 2)? > 0,
        ahead_over_read: fields.number("Read-ahead over requested", -1.0, 1.0)?.unwrap_or(0.0) > 0.0,
        write_segments: fields.whole("Maximum number of write segments", 0, 4096)?.unwrap_or(1) as u32,
        read_mark: fields.number("High (read) water mark", 0.0, 1.0)?.unwrap_or(0.0),
    })
}

/// Scheduling policies of DiskSim's manual by number; those with a nearest one here are told.
fn policy_of(number: u64) -> (QueuePolicy, bool) {
    match number {
        1 => (QueuePolicy::FirstCome, true),
        2 | 5 => (QueuePolicy::Elevator, true),
        3 | 6 => (QueuePolicy::CircularLook, true),
        4 | 7 => (QueuePolicy::ShortestSeek, true),
        8 | 9 => (QueuePolicy::ShortestPositioning, true),
        10..=16 => (QueuePolicy::ShortestPositioning, false),
        _ => (QueuePolicy::Elevator, false),
    }
}

fn scheduler(block: &SpecBlock, notes: &mut Vec<String>) -> Result<QueuePolicy, DiskspecsError> {
    if block.kind != "disksim_ioqueue" {
        return Err(block.at.error(format!("scheduler `{}` is not supported; expected `disksim_ioqueue`", block.kind)));
    }
    let mut fields = DiskspecsFields::new(block)?;
    let number = fields.need_whole("Scheduling policy", 1, 30)?;
    let (policy, exact) = policy_of(number);
    if !exact {
        notes.push(format!("scheduling policy {number} is not modelled; {} is used instead", policy.name()));
    }
    for key in QUEUE {
        fields.entry(key);
    }
    fields.finish(QUEUE)?;
    Ok(policy)
}
