//! Facts of RAID controllers, as MegaCli, storcli, perccli, ssacli, hpssacli, arcconf and tw_cli print them: whether
//! writes are cached, whether the battery or capacitor that protects the cache works, and volumes that lack a disk.

use diskwright_base::counter_ids::controller;

use super::Snapshot;

/// Controller and table whose lines follow.
#[derive(Default)]
pub struct ControllerState {
    /// Number or place of the controller; empty before a line of one.
    name: String,
    /// Headings of the table of storcli or tw_cli that is being read.
    headings: Vec<String>,
    /// Volumes that lack a disk, by name.
    degraded: Vec<String>,
    /// Volume whose lines follow.
    volume: String,
    /// Volumes so far, for those without a name.
    volumes: usize,
    /// How each volume caches writes.
    policies: Vec<CachePolicy>,
    /// Set if a line says that the controller's cache works.
    is_cache_working: bool,
}

/// How a volume caches writes: what was set, and what holds now. True is through the cache to the disks.
#[derive(Default)]
struct CachePolicy {
    volume: String,
    is_set_through: Option<bool>,
    is_through: Option<bool>,
}

/// Which of the two policies of a volume a line tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolicyKind {
    Set,
    Current,
}

/// Name of a controller whose number no line tells.
const FIRST_CONTROLLER: &str = "0";
/// Words of the state of a volume that lacks a disk or rebuilds one.
const DEGRADED_WORDS: [&str; 9] =
    ["degraded", "dgrd", "pdgd", "interim recovery", "recovering", "rebuild", "offline", "ofln", "impacted"];
/// Words of a battery or capacitor that works, or is about to.
const WORKING_WORDS: [&str; 6] = ["ok", "optimal", "optl", "operational", "good", "charged"];

/// Reads a line such as `Current Cache Policy: WriteThrough, ReadAheadNone` or `Cache Status: Permanently Disabled`.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    if read_controller_name(snapshot, line) || read_table_line(snapshot, line) || read_drive_line(snapshot, line) {
        return true;
    }
    let is_open = !snapshot.controller.name.is_empty();
    if is_open && !line.is_empty() && line.bytes().all(|b| matches!(b, b'-' | b'=' | b'*')) {
        return true;
    }
    let Some((name, value)) = line.split_once([':', '=']) else { return false };
    let (name, value) = (name.trim().to_lowercase(), value.trim().to_lowercase());
    if read_fact(snapshot, &name, &value) {
        return true;
    }
    // what else such a program prints; times and lines of other tools have digits or signs before the first colon
    is_open && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b' ' | b'-' | b'/'))
}

/// Reads a line that names a controller: `Adapter 0 -- Virtual Drive Information:`, `Smart Array P420i in Slot 0`.
fn read_controller_name(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let after = |start: &str| line.strip_prefix(start);
    let rest = after("Adapter #")
        .or_else(|| after("Adapter "))
        .or_else(|| after("BBU status for Adapter:"))
        .or_else(|| after("Controller = "))
        .or_else(|| line.split_once(" in Slot ").filter(|(model, _)| model.contains("Array")).map(|(_, rest)| rest));
    let Some(rest) = rest else { return false };
    let number: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    if number.is_empty() {
        return false;
    }
    if snapshot.controller.name != number {
        snapshot.controller = ControllerState { name: number, ..ControllerState::default() };
    }
    true
}

/// Reads the fact that a line states; returns false for other lines.
fn read_fact(snapshot: &mut Snapshot<'_, '_>, name: &str, value: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match name {
        "default cache policy" | "default write policy" | "write-cache setting" | "write cache(initial setting)" => {
            put_policy(snapshot, PolicyKind::Set, has(&THROUGH_WORDS));
        }
        "current cache policy" | "current write policy" | "write-cache mode" => {
            put_policy(snapshot, PolicyKind::Current, has(&THROUGH_WORDS));
        }
        // nobody gave it a part of the cache
        "cache status" | "write cache status" | "controller cache" if has(&["not configured"]) => {
            snapshot.controller.is_cache_working = true;
            put_policy(snapshot, PolicyKind::Set, true);
            put_policy(snapshot, PolicyKind::Current, true);
        }
        "cache status" | "write cache status" => {
            snapshot.controller.is_cache_working = !has(&["disabled", "failed"]);
            put_policy(snapshot, PolicyKind::Current, has(&["disabled", "failed"]));
        }
        // of a volume: the cache works, and this volume does not use it
        "caching" => {
            if snapshot.controller.is_cache_working {
                put_policy(snapshot, PolicyKind::Set, has(&["disabled"]));
            }
            put_policy(snapshot, PolicyKind::Current, has(&["disabled"]));
        }
        "battery/capacitor status" | "battery state" | "battery status" | "bbu status" | "cachevault status" => {
            put_fact(snapshot, controller::BATTERY_FAILED, !has(&WORKING_WORDS), BATTERY_FAILED);
        }
        "cache status details" | "cache disable reason" if has(&["battery", "backup power", "charge", "capacitor"]) => {
            put_fact(snapshot, controller::BATTERY_FAILED, true, BATTERY_FAILED);
        }
        "battery replacement required" | "battery pack missing" => {
            put_fact(snapshot, controller::BATTERY_FAILED, has(&["yes"]), BATTERY_FAILED);
        }
        "virtual drive" | "logical drive" | "logical device number" => {
            open_controller(snapshot);
            value.clone_into(&mut snapshot.controller.volume);
        }
        "state" | "status" | "status of logical device" if has(&DEGRADED_WORDS) || has(&["optimal", "ok"]) => {
            let is_of_volume = name != "status" || !snapshot.controller.volume.is_empty();
            if is_of_volume {
                let volume = snapshot.controller.volume.clone();
                put_volume(snapshot, &volume, has(&DEGRADED_WORDS));
            }
            return is_of_volume || !snapshot.controller.name.is_empty();
        }
        "cache board present"
        | "disk cache policy"
        | "access policy"
        | "read ahead policy"
        | "raid level"
        | "number of drives"
        | "cache ratio"
        | "adapter"
        | "temperature"
        | "voltage" => {}
        _ => return false,
    }
    true
}

/// Reads headings and rows of the tables of storcli (`0/0 RAID5 Dgrd RW Yes RWTD - ON 2.728 TB`) and tw_cli
/// (`u0 RAID-5 OK - - 64K 2793.91 OFF ON`).
fn read_table_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_heading = words.starts_with(&["DG/VD", "TYPE"])
        || words.starts_with(&["Unit", "UnitType"])
        || words.starts_with(&["Model", "State"]);
    if is_heading {
        open_controller(snapshot);
        snapshot.controller.headings = words.iter().map(|word| (*word).to_owned()).collect();
        return true;
    }
    let headings = &snapshot.controller.headings;
    let Some(first_heading) = headings.first().cloned() else { return false };
    let cell = |names: &[&str]| {
        let index = headings.iter().position(|heading| names.contains(&heading.as_str()))?;
        words.get(index).map(|word| word.to_lowercase())
    };
    let (state, cache) = (cell(&["State", "Status"]), cell(&["Cache"]));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some(first) = words.first() else { return false };
    let is_volume = first.split_once('/').is_some_and(|(group, drive)| is_number(group) && is_number(drive))
        || first.strip_prefix('u').is_some_and(is_number);
    match (is_volume, state) {
        (true, Some(state)) => {
            put_volume(snapshot, first, DEGRADED_WORDS.iter().any(|word| state.contains(word)) || state == "rec");
            if let Some(cache) = cache {
                // storcli writes R or NR, WB, AWB or WT, and D or C; tw_cli ON, OFF, W, Ri or RiW
                let is_off = cache.contains("wt") || matches!(cache.as_str(), "off" | "ri");
                snapshot.controller.volume = (*first).to_owned();
                put_policy(snapshot, PolicyKind::Current, is_off);
            }
            true
        }
        (false, Some(state)) if first_heading == "Model" && !line.contains([':', '=']) => {
            let is_working = WORKING_WORDS.iter().any(|word| state.contains(word));
            put_fact(snapshot, controller::BATTERY_FAILED, !is_working, BATTERY_FAILED);
            snapshot.controller.headings.clear();
            true
        }
        _ => false,
    }
}

/// Reads `logicaldrive 1 (279.4 GB, RAID 1, Interim Recovery Mode)`.
fn read_drive_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let is_volume = line.starts_with("logicaldrive ");
    if !is_volume && !line.starts_with("physicaldrive ") {
        return false;
    }
    open_controller(snapshot);
    if let Some((name, facts)) = line.split_once('(').filter(|_| is_volume) {
        let facts = facts.to_lowercase();
        let is_degraded = DEGRADED_WORDS.iter().any(|word| facts.contains(word)) || facts.contains("failed");
        put_volume(snapshot, name.trim(), is_degraded);
    }
    true
}

/// Words of a policy under which each write goes to the disks.
const THROUGH_WORDS: [&str; 4] = ["writethrough", "write through", "write-through", "disabled"];
const CACHE_OFF: &str = "the controller writes through: its write cache is off";
const SET_BACK: &str = "the controller writes through although it is set to write back: its write cache is off, mostly \
                        because the battery or capacitor has failed, is charged or is tested";
const SET_THROUGH: &str = "the controller writes through because it is set so; nothing is broken";
const BATTERY_FAILED: &str = "the backup power of the controller's cache has failed or is missing";
const DISKS_MISSING: &str = "a volume of the controller lacks disks";

fn open_controller(snapshot: &mut Snapshot<'_, '_>) {
    if snapshot.controller.name.is_empty() {
        FIRST_CONTROLLER.clone_into(&mut snapshot.controller.name);
    }
}

/// Counts a volume that lacks a disk.
fn put_volume(snapshot: &mut Snapshot<'_, '_>, volume: &str, is_degraded: bool) {
    open_controller(snapshot);
    let state = &mut snapshot.controller;
    state.volumes += 1;
    let volume = if volume.is_empty() { format!("#{}", state.volumes) } else { volume.to_owned() };
    if is_degraded && !state.degraded.contains(&volume) {
        state.degraded.push(volume);
    }
    let (name, count) = (state.name.clone(), state.degraded.len());
    if count > 0 {
        snapshot.push_warning(DISKS_MISSING);
    }
    snapshot.replace_value(controller::DEGRADED_VOLUMES, &name, count as f64);
}

/// Puts a policy of the volume whose lines are read, and what follows from all of them: a cache that is off against
/// what was set is a fault, one that was set so is none.
fn put_policy(snapshot: &mut Snapshot<'_, '_>, kind: PolicyKind, is_through: bool) {
    open_controller(snapshot);
    let state = &mut snapshot.controller;
    let index = state.policies.iter().position(|policy| policy.volume == state.volume).unwrap_or_else(|| {
        state.policies.push(CachePolicy { volume: state.volume.clone(), ..CachePolicy::default() });
        state.policies.len() - 1
    });
    match kind {
        PolicyKind::Set => state.policies[index].is_set_through = Some(is_through),
        PolicyKind::Current => state.policies[index].is_through = Some(is_through),
    }
    let off = || state.policies.iter().filter(|policy| policy.is_through == Some(true));
    let is_set_so = off().any(|policy| policy.is_set_through == Some(true));
    let is_fault = off().any(|policy| policy.is_set_through != Some(true));
    let is_set_back = off().any(|policy| policy.is_set_through == Some(false));
    if !state.policies.iter().any(|policy| policy.is_through.is_some()) {
        return;
    }
    let name = state.name.clone();
    for (counter, is_so) in [(controller::WRITE_CACHE_OFF, is_fault), (controller::WRITE_THROUGH_SET, is_set_so)] {
        snapshot.replace_value(counter, &name, f64::from(u8::from(is_so)));
    }
    let texts = [(SET_BACK, is_set_back), (CACHE_OFF, is_fault && !is_set_back), (SET_THROUGH, is_set_so)];
    for (text, is_told) in texts.map(|(text, is_told)| (format!("controller {name}: {text}"), is_told)) {
        snapshot.put_warning(text, is_told);
    }
}

/// Puts a fact that is bad if it is so for any volume.
fn put_fact(snapshot: &mut Snapshot<'_, '_>, counter: &str, is_bad: bool, warning: &'static str) {
    open_controller(snapshot);
    let name = snapshot.controller.name.clone();
    let was_bad = snapshot.value(counter, &name) == Some(1.0);
    snapshot.replace_value(counter, &name, f64::from(u8::from(is_bad || was_bad)));
    if is_bad && !was_bad {
        snapshot.push_warning(warning);
    }
}
