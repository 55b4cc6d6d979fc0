//! /proc/mdstat: members of arrays, which are missing, arrays that do not run, and work in the background.

use diskwright_base::counter_ids::array;
use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::topology::{Device, DeviceKind, RaidLevel};

use super::Snapshot;

/// Array whose lines follow.
#[derive(Default)]
pub struct MdstatState {
    array: String,
}

/// Work in the background.
const WORK: [&str; 5] = ["resync", "recovery", "check", "reshape", "repair"];

/// Reads a line of mdstat.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    if line.starts_with("Personalities :") {
        snapshot.begin_piece("mdstat");
        return true;
    }
    if line.starts_with("unused devices:") {
        snapshot.mdstat.array.clear();
        return true;
    }
    if let Some((name, state)) = line.split_once(" : ").filter(|(name, _)| name.starts_with("md")) {
        return read_array(snapshot, name, state);
    }
    if snapshot.mdstat.array.is_empty() {
        return false;
    }
    // the container of an array whose format is a controller's (IMSM, DDF) never runs
    if line.contains("super external:") {
        let name = snapshot.mdstat.array.clone();
        put_inactive(snapshot, &name, false);
    }
    if let Some((required, working)) = parse_members(line) {
        read_members(snapshot, line, required, working);
        return true;
    }
    read_work(snapshot, line) || line.starts_with("bitmap:") || line.contains(" blocks")
}

/// Reads `active raid5 sdb1[0] sdc1[1](F) sdd1[2]`.
fn read_array(snapshot: &mut Snapshot<'_, '_>, name: &str, state: &str) -> bool {
    if !state.starts_with("active") && !state.starts_with("inactive") {
        return false;
    }
    name.clone_into(&mut snapshot.mdstat.array);
    let words: Vec<&str> = state.split_whitespace().collect();
    let members: Vec<(&str, &str)> = words.iter().filter_map(|word| word.split_once('[')).collect();
    let failed = members.iter().filter(|(_, rest)| rest.contains("(F)")).count();
    snapshot.put_value(array::FAILED, name, failed as f64);
    put_inactive(snapshot, name, state.starts_with("inactive"));
    let below: Vec<String> = members.iter().map(|(member, _)| (*member).to_owned()).collect();
    for member in &below {
        let disk = disk_of_partition(member);
        if let Some(disk) = &disk {
            let below = vec![disk.clone()];
            push_device(
                snapshot,
                Device { name: member.clone(), kind: DeviceKind::Partition, below, ..Device::default() },
            );
        }
        push_device(snapshot, Device { name: disk.unwrap_or_else(|| member.clone()), ..Device::default() });
    }
    let level = words.iter().find_map(|word| RaidLevel::parse(word).filter(|_| word.starts_with(['r', 'l'])));
    push_device(snapshot, Device { name: name.to_owned(), kind: DeviceKind::Md, below, level, ..Device::default() });
    true
}

/// Puts whether an array does not run, and tells it.
pub(super) fn put_inactive(snapshot: &mut Snapshot<'_, '_>, name: &str, is_inactive: bool) {
    snapshot.replace_value(array::INACTIVE, name, f64::from(u8::from(is_inactive)));
    let text = format!("{name} is inactive: the array does not run, and nothing on it can be read");
    snapshot.put_warning(text, is_inactive);
}

pub(super) fn push_device(snapshot: &mut Snapshot<'_, '_>, device: Device) {
    if snapshot.topology.devices.iter().all(|known| known.name != device.name) {
        snapshot.topology.devices.push(device);
    }
}

/// Parses `[6/4]`: members that are required, and those that work.
fn parse_members(line: &str) -> Option<(u32, u32)> {
    line.split(['[', ']']).find_map(|part| {
        let (required, working) = part.split_once('/')?;
        Some((required.parse().ok()?, working.parse().ok()?))
    })
}

fn read_members(snapshot: &mut Snapshot<'_, '_>, line: &str, required: u32, working: u32) {
    let name = snapshot.mdstat.array.clone();
    let missing = required.saturating_sub(working);
    snapshot.put_value(array::MEMBERS, &name, f64::from(working));
    snapshot.put_value(array::MISSING, &name, f64::from(missing));
    snapshot.put_value(array::BACKGROUND, &name, 0.0);
    snapshot.put_value(array::DEGRADED, &name, f64::from(u8::from(missing > 0)));
    let chunk =
        line.split(", ").find_map(|part| part.trim().split_once("k chunk")?.0.rsplit(' ').next()?.parse::<u64>().ok());
    if let Some(device) = snapshot.topology.devices.iter_mut().find(|device| device.name == name) {
        (device.members, device.missing) = (Some(required), missing);
        device.stripe_bytes = chunk.map(|kib| kib * 1024);
    }
}

/// Reads `[=>…]  recovery = 20.4% (…) finish=1374.5min speed=14140K/sec`.
fn read_work(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let Some(work) =
        WORK.into_iter().find(|work| line.contains(&format!("{work} ")) || line.contains(&format!("{work}=")))
    else {
        return false;
    };
    let name = snapshot.mdstat.array.clone();
    // a terminal may have cut `K/sec`; `resync=DELAYED` has no percentage
    let speed = line.split_once("speed=").and_then(|(_, rest)| rest.split_once('K')?.0.parse::<f64>().ok());
    let is_running = speed.is_some() || line.contains("% (") && line.contains("finish=");
    snapshot.replace_value(array::BACKGROUND, &name, f64::from(u8::from(is_running)));
    if let Some(speed) = speed {
        snapshot.put_value(array::SYNC_BYTES_PER_S, &name, speed * 1024.0);
    }
    if let Some(device) = snapshot.topology.devices.iter_mut().find(|device| device.name == name) {
        device.background = Some(work.to_owned());
    }
    true
}
