//! Conditions that stop a load: heat, low memory, a nearly full disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use diskwright_hostfiles::disk_space::DiskSpace;

/// Margin below a critical temperature at which a load stops, thousandths of a degree.
const CRITICAL_MARGIN_MILLIDEGREES: i64 = 5_000;
/// Largest amount of memory that a load has to leave available, bytes.
const MAX_RESERVE_BYTES: u64 = 1 << 30;

/// Sensors checked while a load runs.
#[derive(Debug)]
pub struct SafetyWatch {
    /// Temperature files with their critical values, thousandths of a degree.
    sensors: Vec<(PathBuf, i64)>,
    /// Path of `/proc/meminfo`.
    meminfo: PathBuf,
    /// Folder on the filesystem whose free space is checked.
    folder: Option<File>,
}

impl SafetyWatch {
    /// Finds the sensors of the host below a root (`/`), and opens the folder whose disk is checked.
    #[must_use]
    pub fn new(root: &Path, folder: Option<&Path>) -> SafetyWatch {
        let folder = folder.and_then(|folder| File::open(folder).ok());
        SafetyWatch { sensors: find_sensors(&root.join("sys/class")), meminfo: root.join("proc/meminfo"), folder }
    }

    /// Returns true if any temperature with a critical limit can be read.
    #[must_use]
    pub fn has_sensors(&self) -> bool {
        !self.sensors.is_empty()
    }

    /// Returns the reason to stop now, if there is one.
    #[must_use]
    pub fn stop_reason(&self) -> Option<String> {
        for (file, critical) in &self.sensors {
            if let Some(now) = read_number(file).filter(|now| *now >= critical - CRITICAL_MARGIN_MILLIDEGREES) {
                let (now, critical) = (now / 1000, critical / 1000);
                return Some(format!("heat: {} is at {now} °C, its critical limit is {critical} °C", file.display()));
            }
        }
        if let Some((available, reserve)) =
            available_and_reserve(&self.meminfo).filter(|(available, reserve)| available < reserve)
        {
            let (available, reserve) = (available >> 20, reserve >> 20);
            return Some(format!("low memory: {available} MiB are available, {reserve} MiB must stay available"));
        }
        let space = self.folder.as_ref().and_then(|folder| DiskSpace::for_file(folder).ok());
        let full = space.filter(DiskSpace::is_reserve_used)?;
        Some(format!(
            "the filesystem is nearly full: {} bytes are free, {} must stay free",
            full.free_bytes, full.reserve_bytes
        ))
    }
}

/// Returns the available memory, and how much must stay available: a twentieth of all memory, at most 1 GiB. Bytes.
#[must_use]
pub fn available_and_reserve(meminfo: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(meminfo).ok()?;
    let bytes_of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some((bytes_of("MemAvailable")?, (bytes_of("MemTotal")? / 20).min(MAX_RESERVE_BYTES)))
}

fn read_number(file: &Path) -> Option<i64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Finds sensors with a critical limit, of thermal zones and of hardware monitors.
fn find_sensors(class: &Path) -> Vec<(PathBuf, i64)> {
    let folders = |name: &str| fs::read_dir(class.join(name)).into_iter().flatten().flatten().map(|e| e.path());
    let mut found = Vec::new();
    for zone in folders("thermal").filter(|zone| zone.join("temp").exists()) {
        let critical = (0..32).find_map(|trip| {
            let kind = fs::read_to_string(zone.join(format!("trip_point_{trip}_type"))).ok()?;
            (kind.trim() == "critical").then(|| read_number(&zone.join(format!("trip_point_{trip}_temp"))))?
        });
        found.extend(critical.map(|critical| (zone.join("temp"), critical)));
    }
    for monitor in folders("hwmon") {
        let input_and_limit = |sensor: u32| {
            let critical = read_number(&monitor.join(format!("temp{sensor}_crit")))?;
            Some((monitor.join(format!("temp{sensor}_input")), critical))
        };
        found.extend((1..=64).filter_map(input_and_limit));
    }
    // a limit of 0 means that there is none
    found.retain(|(_, critical)| *critical > CRITICAL_MARGIN_MILLIDEGREES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_file(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn heat_is_judged_by_the_limit_of_each_sensor() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let trip = "sys/class/thermal/thermal_zone0/trip_point_1_";
        write_file(root, "sys/class/thermal/thermal_zone0/temp", "60000\n");
        write_file(root, &format!("{trip}type"), "critical\n");
        write_file(root, &format!("{trip}temp"), "105000\n");
        write_file(root, "sys/class/hwmon/hwmon2/temp3_input", "70000\n");
        write_file(root, "sys/class/hwmon/hwmon2/temp3_crit", "84800\n");
        write_file(root, "sys/class/hwmon/hwmon2/temp4_crit", "0\n");
        let watch = SafetyWatch::new(root, None);
        assert!(watch.has_sensors() && watch.sensors.len() == 2);
        assert_eq!(watch.stop_reason(), None);
        write_file(root, "sys/class/hwmon/hwmon2/temp3_input", "79800\n");
        let reason = watch.stop_reason().unwrap();
        assert!(reason.starts_with("heat: ") && reason.contains("at 79 °C") && reason.contains("84 °C"), "{reason}");
    }

    #[test]
    fn low_memory_is_a_twentieth_of_all_and_at_most_1_gib() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write_file(root, "proc/meminfo", "MemTotal:  4000000 kB\nMemFree: 1 kB\nMemAvailable:  200001 kB\n");
        let watch = SafetyWatch::new(root, None);
        assert_eq!((watch.stop_reason(), watch.has_sensors()), (None, false));
        write_file(root, "proc/meminfo", "MemTotal:  4000000 kB\nMemFree: 1 kB\nMemAvailable:  199999 kB\n");
        assert!(watch.stop_reason().unwrap().starts_with("low memory: 195 MiB are available"));
        write_file(root, "proc/meminfo", "MemTotal: 400000000 kB\nMemAvailable: 1048575 kB\n");
        assert!(watch.stop_reason().unwrap().contains("1024 MiB must stay available"));
    }
}
