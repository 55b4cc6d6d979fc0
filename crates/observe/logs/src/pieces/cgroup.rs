//! cpu.stat of a cgroup: the share of periods in which it was stopped.

use diskwright_base::counter_ids::cgroup;

use super::Snapshot;
use super::pressure::cgroup_of_file;

/// Usual length of a period, seconds (cpu.cfs_period_us).
const PERIOD_S: f64 = 0.1;

/// Numbers that were read.
#[derive(Default)]
pub struct CgroupState {
    periods: f64,
}

/// Reads a line of cpu.stat.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (Some(name), Some(number), None) = (words.next(), words.next(), words.next()) else { return false };
    let Ok(number) = number.parse::<f64>() else { return false };
    let instance = if snapshot.file.is_empty() { "/".to_owned() } else { cgroup_of_file(&snapshot.file) };
    let throttled_s = match name {
        "nr_periods" => {
            snapshot.begin_piece(&format!("cpu.stat {instance}"));
            snapshot.cgroup.periods = number;
            return true;
        }
        "nr_throttled" => {
            let share = if snapshot.cgroup.periods > 0.0 { number / snapshot.cgroup.periods } else { 0.0 };
            snapshot.put_value(cgroup::CPU_THROTTLED, &instance, share.min(1.0));
            return true;
        }
        "throttled_time" => number * 1e-9,
        "throttled_usec" => number * 1e-6,
        _ => {
            return matches!(
                name,
                "usage_usec" | "user_usec" | "system_usec" | "nr_bursts" | "burst_usec" | "burst_time"
            );
        }
    };
    // since the cgroup began; its time passes only while it runs
    let seconds = snapshot.cgroup.periods * PERIOD_S;
    if seconds > 0.0 {
        snapshot.put_value(cgroup::PROCESSORS_THROTTLED, &instance, throttled_s / seconds);
    }
    true
}
