//! `mdadm --detail`: state of an array, its members, and work in the background.

use diskwright_base::counter_ids::array;
use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::topology::{Device, DeviceKind, RaidLevel};

use super::{Snapshot, mdstat};

/// Array whose lines follow.
#[derive(Default)]
pub struct MdadmState {
    array: String,
    level: Option<RaidLevel>,
    required: Option<u32>,
    working: Option<u32>,
    members: Vec<String>,
}

/// Kinds of work, as `Rebuild Status : 23% complete` names them, and as the kernel does.
const WORK: [(&str, &str); 4] = [
    ("Rebuild Status", "recovery"),
    ("Resync Status", "resync"),
    ("Check Status", "check"),
    ("Reshape Status", "reshape"),
];

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    if let Some(name) = line.strip_prefix("/dev/md").and_then(|rest| rest.strip_suffix(':')) {
        let name = name.strip_prefix('/').map_or_else(|| format!("md{name}"), str::to_owned);
        snapshot.begin_piece(&format!("mdadm {name}"));
        snapshot.mdadm = MdadmState { array: name, ..MdadmState::default() };
        return true;
    }
    if snapshot.mdadm.array.is_empty() {
        return false;
    }
    if let Some((name, value)) = line.split_once(" : ") {
        read_fact(snapshot, name.trim(), value.trim());
        return true;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.starts_with(&["Number", "Major", "Minor"]) || line.ends_with(" :") {
        return true;
    }
    read_member(snapshot, &words)
}

fn read_fact(snapshot: &mut Snapshot<'_, '_>, name: &str, value: &str) {
    let array_name = snapshot.mdadm.array.clone();
    let number = || value.parse::<u32>().ok();
    match name {
        "Raid Level" => snapshot.mdadm.level = RaidLevel::parse(value),
        "Raid Devices" => snapshot.mdadm.required = number(),
        "Active Devices" => snapshot.mdadm.working = number(),
        "Failed Devices" => {
            if let Some(failed) = number() {
                snapshot.put_value(array::FAILED, &array_name, f64::from(failed));
            }
        }
        "State" => {
            let words: Vec<String> = value.split(',').map(|word| word.trim().to_lowercase()).collect();
            let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
            let is_inactive = has(&["inactive", "failed", "not started", "broken"]);
            mdstat::put_inactive(snapshot, &array_name, is_inactive);
            let is_busy = has(&["recovering", "resyncing", "checking", "reshaping"]);
            snapshot.put_value(array::BACKGROUND, &array_name, f64::from(u8::from(is_busy)));
            snapshot.put_value(array::DEGRADED, &array_name, f64::from(u8::from(has(&["degraded", "failed"]))));
        }
        _ if WORK.iter().any(|(title, _)| *title == name) => {
            snapshot.replace_value(array::BACKGROUND, &array_name, 1.0);
        }
        _ => {}
    }
    put_members(snapshot);
}

/// Puts the number of members, once it is known.
fn put_members(snapshot: &mut Snapshot<'_, '_>) {
    let (name, state) = (snapshot.mdadm.array.clone(), &snapshot.mdadm);
    if let (Some(required), Some(working)) = (state.required, state.working) {
        let missing = required.saturating_sub(working);
        snapshot.replace_value(array::MEMBERS, &name, f64::from(working));
        snapshot.replace_value(array::MISSING, &name, f64::from(missing));
        if missing > 0 {
            snapshot.replace_value(array::DEGRADED, &name, 1.0);
        }
    }
}

/// Reads `0  8  17  0  active sync  /dev/sdb1` and `-  0  0  1  removed`.
fn read_member(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    let is_row = words.len() >= 5
        && words[..4].iter().all(|word| *word == "-" || word.bytes().all(|b| b.is_ascii_digit()))
        && words[4].starts_with(|c: char| c.is_ascii_lowercase());
    let Some(member) = words.last().and_then(|word| word.strip_prefix("/dev/")).filter(|_| is_row) else {
        return is_row;
    };
    snapshot.mdadm.members.push(member.to_owned());
    let disk = disk_of_partition(member);
    if let Some(disk) = &disk {
        let below = vec![disk.clone()];
        let partition = Device { name: member.to_owned(), kind: DeviceKind::Partition, below, ..Device::default() };
        mdstat::push_device(snapshot, partition);
    }
    mdstat::push_device(snapshot, Device { name: disk.unwrap_or_else(|| member.to_owned()), ..Device::default() });
    let state = &snapshot.mdadm;
    let (required, working) = (state.required, state.working.unwrap_or(0));
    let array = Device {
        name: state.array.clone(),
        kind: DeviceKind::Md,
        below: state.members.clone(),
        level: state.level,
        members: required,
        missing: required.unwrap_or(0).saturating_sub(working),
        ..Device::default()
    };
    match snapshot.topology.devices.iter_mut().find(|device| device.name == array.name) {
        Some(known) => *known = array,
        None => snapshot.topology.devices.push(array),
    }
    true
}
