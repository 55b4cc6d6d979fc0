//! `zpool status`: pools that lack a disk, work in the background, and errors of disks; and the cache's numbers in
//! /proc/spl/kstat/zfs/arcstats.

use diskwright_base::counter_ids::{array, physical_disk};
use diskwright_base::topology::{Device, DeviceKind};

use super::Snapshot;

/// Pool whose lines follow.
#[derive(Default)]
pub struct ZfsState {
    pool: String,
    /// Set below the headings of its disks.
    has_headings: bool,
    is_degraded: bool,
    working: f64,
    missing: f64,
    errors: f64,
    /// Metadata in the cache, and its limit.
    arc_metadata: [f64; 2],
}

/// Beginnings of the names of groups of disks.
const GROUPS: [&str; 11] =
    ["mirror", "raidz", "draid", "spare", "replacing", "logs", "cache", "special", "dedup", "indirect", "spares"];
/// Words before a colon of what else is said of a pool.
const WORDS: [&str; 8] = ["status", "action", "see", "scan", "config", "errors", "scrub", "remove"];
const STATES: [&str; 8] = ["ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "AVAIL", "INUSE"];
/// Names of arcstats that are known; the first two are read.
const ARC_NAMES: [&str; 3] = ["arc_meta_used", "arc_meta_limit", "arc_"];

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    if let Some(pool) = text.strip_prefix("pool: ") {
        snapshot.begin_piece(&format!("zpool {pool}"));
        snapshot.zfs = ZfsState { pool: pool.trim().to_owned(), ..ZfsState::default() };
        let device = Device { name: snapshot.zfs.pool.clone(), kind: DeviceKind::Zfs, ..Device::default() };
        snapshot.topology.devices.push(device);
        return true;
    }
    if snapshot.zfs.pool.is_empty() {
        return read_cache_number(snapshot, text);
    }
    if let Some(state) = text.strip_prefix("state: ") {
        snapshot.zfs.is_degraded |= state.trim() != "ONLINE";
        put_state(snapshot);
        return true;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.starts_with(&["NAME", "STATE", "READ"]) {
        snapshot.zfs.has_headings = true;
        return true;
    }
    if snapshot.zfs.has_headings && words.get(1).is_some_and(|state| STATES.contains(state)) {
        read_device(snapshot, &words);
        return true;
    }
    read_work(snapshot, text);
    let is_named = text.split_once(':').is_some_and(|(word, _)| WORDS.contains(&word));
    let is_continued = !snapshot.zfs.has_headings && line.starts_with([' ', '\t']);
    is_named || is_continued || GROUPS.contains(&text)
}

/// Reads the work in the background: `resilver in progress since …`, `752G scanned out of 19.6T at 1.71M/s`.
fn read_work(snapshot: &mut Snapshot<'_, '_>, text: &str) {
    let pool = snapshot.zfs.pool.clone();
    if text.contains("resilver in progress") || text.contains("scrub in progress") {
        snapshot.replace_value(array::BACKGROUND, &pool, 1.0);
        // a resilver fills a disk that lacks data
        snapshot.zfs.is_degraded |= text.contains("resilver");
        put_state(snapshot);
    }
    let speed =
        text.split_once(" at ").and_then(|(_, rest)| rest.split_once("/s")).and_then(|(size, _)| parse_size(size));
    if let Some(speed) = speed.filter(|_| snapshot.value(array::BACKGROUND, &pool) == Some(1.0)) {
        snapshot.replace_value(array::SYNC_BYTES_PER_S, &pool, speed);
    }
}

/// Parses `1.71M`, `292K`, `4,43G`.
fn parse_size(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..end].replace(',', ".").parse().ok()?;
    let power = match &text[end..] {
        "" | "B" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    Some(number * 1024_f64.powi(power))
}

/// Reads the row of a disk, group or pool: `sdq  FAULTED  12  0  3  too many errors`.
fn read_device(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) {
    let (name, state) = (words[0], words[1]);
    let is_lost = matches!(state, "FAULTED" | "OFFLINE" | "UNAVAIL" | "REMOVED");
    snapshot.zfs.is_degraded |= is_lost || state == "DEGRADED";
    let is_group = GROUPS.iter().any(|group| name.starts_with(group)) || name == snapshot.zfs.pool;
    if !is_group && !matches!(state, "AVAIL" | "INUSE") {
        let counts: Vec<f64> = words[2..].iter().take(3).map_while(|word| parse_size(word)).collect();
        let zfs = &mut snapshot.zfs;
        zfs.missing += f64::from(u8::from(is_lost));
        zfs.working += f64::from(u8::from(!is_lost));
        zfs.errors += counts.iter().sum::<f64>();
        if let [reads, writes, ..] = counts[..]
            && reads + writes > 0.0
        {
            snapshot.replace_value(physical_disk::IO_ERRORS, name, reads + writes);
        }
    }
    put_state(snapshot);
}

fn put_state(snapshot: &mut Snapshot<'_, '_>) {
    let ZfsState { pool, is_degraded, working, missing, errors, .. } = &snapshot.zfs;
    let (pool, is_degraded, working, missing, errors) = (pool.clone(), *is_degraded, *working, *missing, *errors);
    snapshot.replace_value(array::DEGRADED, &pool, f64::from(u8::from(is_degraded)));
    if working + missing > 0.0 {
        snapshot.replace_value(array::MEMBERS, &pool, working);
        snapshot.replace_value(array::MISSING, &pool, missing);
        snapshot.replace_value(array::DEVICE_ERRORS, &pool, errors);
    }
}

/// Reads a line of arcstats: `arc_meta_used  4  18098941238`.
fn read_cache_number(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, kind, number] = words[..] else { return false };
    let (Ok(_), Ok(number)) = (kind.parse::<u8>(), number.parse::<f64>()) else { return false };
    let Some(place) = ARC_NAMES.iter().position(|known| name.starts_with(known)) else {
        return name.starts_with("memory_") || name.starts_with("dnode_");
    };
    snapshot.put_value(&format!("foreign.zfs.{name}"), "", number);
    if place < 2 {
        snapshot.zfs.arc_metadata[place] = number;
        let [used, limit] = snapshot.zfs.arc_metadata;
        if limit > 0.0 && used > limit {
            let text = "the metadata in the cache of ZFS exceeds its limit (arc_meta_used above arc_meta_limit), so \
                        arc_prune and arc_reclaim drop what is needed again";
            snapshot.push_warning(text);
        }
    }
    true
}
