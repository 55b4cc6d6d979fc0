//! Facts of RAID controllers, as MegaCli, storcli, perccli, ssacli and hpssacli print them: whether writes are cached,
//! and whether the battery or capacitor that protects the cache works.

use super::Snapshot;

/// Whether writes go through the controller's cache; the catalogue has no such counter.
const CACHE_OFF: &str = "foreign.controller.write_cache_off";
/// Whether the backup of the cache's power fails.
const BATTERY_FAILED: &str = "foreign.controller.battery_failed";
/// Whether a volume lacks members.
const DEGRADED: &str = "foreign.controller.degraded_volumes";

/// Reads a line such as `Current Cache Policy: WriteThrough, ReadAheadNone` or `Cache Status: Permanently Disabled`.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let (name, value) = (name.trim().to_lowercase(), value.trim().to_lowercase());
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match name.as_str() {
        "current cache policy" | "current write policy" => {
            let is_off = has(&["writethrough", "write through", "write-through"]);
            put_fact(snapshot, CACHE_OFF, is_off, "the controller writes through: its write cache is off");
        }
        "cache status" | "write cache status" => {
            let is_off = has(&["disabled", "not configured"]);
            put_fact(snapshot, CACHE_OFF, is_off, "the controller's write cache is off");
        }
        "battery/capacitor status" | "battery state" | "battery status" | "bbu status" | "cachevault status" => {
            let is_failed = !has(&["ok", "optimal", "operational", "good"]);
            put_fact(snapshot, BATTERY_FAILED, is_failed, "the backup power of the controller's cache has failed");
        }
        "cache status details" | "cache disable reason" if has(&["battery", "backup power", "charge"]) => {
            put_fact(snapshot, BATTERY_FAILED, true, "the backup power of the controller's cache has failed");
        }
        "battery replacement required" | "battery pack missing" => {
            put_fact(snapshot, BATTERY_FAILED, has(&["yes"]), "the battery of the controller's cache must be replaced");
        }
        "state" if has(&["degraded", "optimal", "offline"]) => {
            put_fact(snapshot, DEGRADED, !has(&["optimal"]), "a volume of the controller lacks disks");
        }
        "default cache policy"
        | "default write policy"
        | "cache board present"
        | "disk cache policy"
        | "access policy"
        | "read ahead policy"
        | "virtual drive"
        | "raid level"
        | "number of drives"
        | "cache status details"
        | "cache disable reason"
        | "cache ratio"
        | "adapter"
        | "temperature"
        | "voltage" => {}
        _ => return false,
    }
    true
}

fn put_fact(snapshot: &mut Snapshot<'_, '_>, counter: &str, is_bad: bool, warning: &'static str) {
    let was_bad = snapshot.value(counter, "") == Some(1.0);
    snapshot.replace_value(counter, "", f64::from(u8::from(is_bad || was_bad)));
    if is_bad && !was_bad {
        snapshot.push_warning(warning);
    }
}
