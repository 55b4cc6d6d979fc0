//! Conditions on a machine during a measurement: time that a hypervisor gave to other machines, other programs, limits,
//! frequency, heat.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use diskwright_hostfiles::cgroup::throttled_s;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::compute::{CYCLES_PER_CHAIN_STEP, run_dependent_chain};

/// Unit in which the kernel reports processor time to programs (USER_HZ): hundredths of a second,
/// whatever unit the kernel itself uses.
const TICKS_PER_S: f64 = 100.0;

/// Lowest and highest value observed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedRange {
    /// Lowest.
    pub low: f64,
    /// Highest.
    pub high: f64,
}

impl ObservedRange {
    /// Returns the range extended to a value.
    fn extend_range(range: Option<ObservedRange>, value: f64) -> ObservedRange {
        let range = range.unwrap_or(ObservedRange { low: value, high: value });
        ObservedRange { low: range.low.min(value), high: range.high.max(value) }
    }
}

/// Conditions during a measurement, as documents store them; a value that this machine
/// does not report is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BaselineCircumstances {
    /// Share of all processors' time that the hypervisor gave to other virtual machines, 0 to 1.
    pub steal_share: Option<f64>,
    /// Share of all processors' time that other programs and the kernel's interrupts took, 0 to 1.
    pub others_share: Option<f64>,
    /// Time in which a limit of the cgroup kept this program from running, s.
    pub throttled_s: Option<f64>,
    /// Frequency of the first processor as the kernel reports it, Hz.
    pub frequency_hz: Option<ObservedRange>,
    /// Clock measured by a chain of dependent instructions, Hz: about the real clock on most processors, and always
    /// comparable with itself.
    pub clock_hz: Option<ObservedRange>,
    /// Number of times that a processor was slowed down because of its heat.
    pub thermal_throttles: Option<u64>,
    /// Temperature of the hottest sensor, degrees Celsius.
    pub temperature_c: Option<ObservedRange>,
}

/// Totals since boot, read at one moment.
#[derive(Clone, Debug, Default)]
struct MachineTotals {
    /// Time of all processors, s: busy without steal, idle, and stolen; and this program's own.
    busy_s: f64,
    idle_s: f64,
    steal_s: f64,
    own_s: f64,
    /// Throttled time of each control group, s.
    throttled_s: Vec<f64>,
    thermal_throttles: Option<u64>,
}

/// Observes the conditions while something is measured.
pub struct CircumstanceWatch<'a> {
    root: &'a Path,
    start: MachineTotals,
    observed: BaselineCircumstances,
}

/// Reads a file that contains one number.
fn read_number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Reads `file` in all subfolders whose names are `prefix` and a number: `cpu0`, `thermal_zone1`.
fn read_numbered_entries(folder: &Path, prefix: &str, file: &str) -> Vec<f64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_numbered = |name: &str| {
        name.strip_prefix(prefix).is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let numbered = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_numbered));
    numbered.filter_map(|entry| read_number(&entry.path().join(file))).collect()
}

/// Parses the busy, idle and stolen seconds of all processors from `/proc/stat`.
#[must_use]
pub fn parse_processor_times(stat: &str) -> Option<(f64, f64, f64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let values: Vec<f64> = line.split_whitespace().map_while(|value| value.parse().ok()).collect();
    let seconds = |index: usize| values.get(index).copied().unwrap_or(0.0) / TICKS_PER_S;
    // user and nice already contain the time of guests, whose columns follow steal
    (values.len() >= 4)
        .then(|| (seconds(0) + seconds(1) + seconds(2) + seconds(5) + seconds(6), seconds(3) + seconds(4), seconds(7)))
}

/// Returns the processor time of this program, s.
fn process_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)).as_secs_f64()
}

/// Reads the totals of this moment.
fn read_totals(root: &Path) -> MachineTotals {
    let stat = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let (busy_s, idle_s, steal_s) = parse_processor_times(&stat).unwrap_or_default();
    let throttles =
        read_numbered_entries(&root.join("sys/devices/system/cpu"), "cpu", "thermal_throttle/core_throttle_count");
    let thermal_throttles = (!throttles.is_empty()).then(|| throttles.iter().sum::<f64>() as u64);
    MachineTotals {
        busy_s,
        idle_s,
        steal_s,
        own_s: process_cpu_seconds(),
        throttled_s: throttled_s(root),
        thermal_throttles,
    }
}

/// Returns the throttled time, s, of the group that was throttled most in the interval. Each group
/// is compared with itself: a group that was throttled for a long time before the start would hide what
/// happened to the others in the interval.
fn max_throttled_seconds(start: &[f64], end: &[f64]) -> Option<f64> {
    let increases = start.iter().zip(end).map(|(start, end)| (end - start).max(0.0));
    increases.reduce(f64::max).filter(|_| start.len() == end.len())
}

/// Measures the rate of a chain of dependent instructions, as a clock, Hz: the best of some short
/// runs, so that an interruption does not count.
#[must_use]
pub fn measure_clock_hz() -> f64 {
    const STEPS: u64 = 300_000;
    let run = |_| {
        let start = Instant::now();
        run_dependent_chain(STEPS);
        STEPS as f64 * CYCLES_PER_CHAIN_STEP / start.elapsed().as_secs_f64().max(1e-9)
    };
    (0..5).map(run).fold(0.0, f64::max)
}

/// Returns the temperature of the hottest sensor, degrees Celsius.
#[must_use]
pub fn max_temperature(root: &Path) -> Option<f64> {
    let zones = read_numbered_entries(&root.join("sys/class/thermal"), "thermal_zone", "temp");
    let sensors = read_numbered_entries(&root.join("sys/class/hwmon"), "hwmon", "temp1_input");
    // sensors that are not connected read as 0 or less
    zones.into_iter().chain(sensors).map(|milli| milli / 1000.0).filter(|t| *t > 0.0).reduce(f64::max)
}

impl<'a> CircumstanceWatch<'a> {
    /// Starts to observe the machine whose files lie below a folder, `/` for this one.
    #[must_use]
    pub fn start(root: &'a Path) -> CircumstanceWatch<'a> {
        let mut watch =
            CircumstanceWatch { root, start: read_totals(root), observed: BaselineCircumstances::default() };
        watch.sample();
        watch
    }

    /// Samples clock, frequency and temperature. It takes some milliseconds; call it while nothing
    /// is measured.
    pub fn sample(&mut self) {
        let observed = &mut self.observed;
        observed.clock_hz = Some(ObservedRange::extend_range(observed.clock_hz, measure_clock_hz()));
        let path = self.root.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
        if let Some(kilohertz) = read_number(&path) {
            observed.frequency_hz = Some(ObservedRange::extend_range(observed.frequency_hz, kilohertz * 1e3));
        }
        if let Some(celsius) = max_temperature(self.root) {
            observed.temperature_c = Some(ObservedRange::extend_range(observed.temperature_c, celsius));
        }
    }

    /// Returns the conditions since the start.
    #[must_use]
    pub fn finish(mut self) -> BaselineCircumstances {
        self.sample();
        let (start, end) = (self.start, read_totals(self.root));
        let increase = |total: fn(&MachineTotals) -> f64| (total(&end) - total(&start)).max(0.0);
        let (busy, idle, steal) = (increase(|t| t.busy_s), increase(|t| t.idle_s), increase(|t| t.steal_s));
        let total = busy + idle + steal;
        if total > 0.0 {
            self.observed.steal_share = Some(steal / total);
            self.observed.others_share = Some(((busy - increase(|t| t.own_s)) / total).max(0.0));
        }
        self.observed.throttled_s = max_throttled_seconds(&start.throttled_s, &end.throttled_s);
        let throttles = end.thermal_throttles.zip(start.thermal_throttles);
        self.observed.thermal_throttles = throttles.map(|(end, start)| end.saturating_sub(start));
        self.observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_as_the_kernel_counts_it() {
        // user nice system idle iowait irq softirq steal guest guest_nice
        let stat = "cpu  100 20 30 400 50 6 4 70 10 0\ncpu0 1 1 1 1\n";
        assert_eq!(parse_processor_times(stat), Some((1.6, 4.5, 0.7)));
        assert_eq!(parse_processor_times("cpu  1 x\n"), None);
        // kernels before 2.6.11 have no steal
        assert_eq!(parse_processor_times("cpu  100 0 0 100\n"), Some((1.0, 1.0, 0.0)));
    }

    #[test]
    fn separates_steal_other_programs_and_throttling() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        put("proc/stat", "cpu  0 0 0 0 0 0 0 0\n");
        put("proc/self/cgroup", "0::/app\n");
        put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        // the parent group was throttled much more, but before the start
        put("sys/fs/cgroup/cpu.stat", "usage_usec 5\nthrottled_usec 1000000000\n");
        put("sys/fs/cgroup/app/cpu.stat", "usage_usec 5\nthrottled_usec 1000000\n");
        put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
        put("sys/class/thermal/thermal_zone0/temp", "61000\n");
        let watch = CircumstanceWatch::start(root.path());
        put("proc/stat", "cpu  100000 0 0 100000 0 0 0 50000\n");
        put("sys/fs/cgroup/app/cpu.stat", "usage_usec 5\nthrottled_usec 3500000\n");
        put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "5\n");
        put("sys/class/thermal/thermal_zone0/temp", "85000\n");
        let seen = watch.finish();
        assert_eq!((seen.steal_share, seen.throttled_s, seen.thermal_throttles), (Some(0.2), Some(2.5), Some(2)));
        assert_eq!(seen.temperature_c, Some(ObservedRange { low: 61.0, high: 85.0 }));
        // 1,000 s busy of 2,500, and this test took next to nothing of it
        assert!(seen.others_share.is_some_and(|share| (0.38..=0.4).contains(&share)), "{seen:?}");
        assert!(seen.frequency_hz.is_none() && seen.clock_hz.is_some_and(|clock| clock.low > 1e7), "{seen:?}");
    }
}
