//! One reading of the hardware's files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use diskwright_base::arithmetic::pcie_bytes_per_s;

use crate::live::Roots;
use crate::live::counter_table::ABSENT;
use crate::live::mountinfo;
use crate::live::open_file::{read_bytes, read_number, read_text};
use crate::live::text_scan::{WordIter, parse_number, text_lines};
use crate::live::watched_read::{canonicalize, list_folder};

use super::adapter_statistics::{AdapterLosses, StatisticsReader};
use super::{
    ADAPTER_COLUMNS, CAP_COLUMN, CORRECTED_MEMORY_COLUMN, CORRECTED_PCIE_COLUMN, ENERGY_COLUMN, FAN_COLUMN,
    LINK_RATE_COLUMN, LINK_SPEED_COLUMN, LINK_WIDTH_COLUMN, PART_COLUMNS, POWER_COLUMN, TEMPERATURE_COLUMN,
    TEMPERATURE_LIMIT_COLUMN, UNCORRECTED_MEMORY_COLUMN, UNCORRECTED_PCIE_COLUMN,
};

/// Sensors that are drives: reading them is a command to the drive, which may wake it.
const DRIVE_SENSORS: &[&str] = &["drivetemp", "nvme"];
/// Largest number of parts that are kept.
const MAX_PARTS: usize = 512;

/// Package and number of a core.
pub(super) type CoreId = (Option<u64>, Option<u64>);

/// The values that were read. Each list has an instance and its values, in the order of the table's columns.
#[derive(Clone, Debug, Default)]
pub(super) struct HardwareReadings {
    pub parts: Vec<(String, [u64; PART_COLUMNS.len()])>,
    /// Whole seconds from the start of the reading until energy was read: the sensors before it may take long.
    pub energy_after_s: u64,
    /// Number of times that each online core was throttled since the start of the machine.
    pub throttles: Vec<(CoreId, u64)>,
    pub disks: Vec<(String, [u64; 2])>,
    pub adapters: Vec<(String, [u64; ADAPTER_COLUMNS.len()])>,
    pub filesystems: Vec<(String, [u64; 1])>,
}

fn sorted_entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let found = list_folder(folder);
    let mut entries: Vec<_> = found.map(|e| (e.file_name().to_string_lossy().into_owned(), e.path())).collect();
    entries.sort_unstable();
    entries
}

fn or_absent(value: Option<u64>) -> u64 {
    value.unwrap_or(ABSENT)
}

/// Reads all files.
pub(super) fn read_hardware(roots: &Roots) -> HardwareReadings {
    let start = Instant::now();
    let mut readings = HardwareReadings::default();
    let mut add = |name: String, values: &[(usize, Option<u64>)]| {
        if values.iter().all(|(_, value)| value.is_none()) || readings.parts.len() >= MAX_PARTS {
            return;
        }
        let mut row = [ABSENT; PART_COLUMNS.len()];
        values.iter().for_each(|(column, value)| row[*column] = or_absent(*value));
        readings.parts.push((name, row));
    };
    read_memory_errors(&roots.sys, &mut add);
    read_links(&roots.sys, &mut add);
    read_sensors(&roots.sys, &mut add);
    let energy_after_s = start.elapsed().as_secs();
    read_powercap(&roots.sys, &mut add);
    readings.energy_after_s = energy_after_s;
    readings.throttles = read_throttles(&roots.sys);
    readings.disks = read_disk_errors(&roots.sys);
    readings.adapters = read_adapter_errors(&roots.sys);
    readings.filesystems = read_filesystem_errors(roots);
    readings
}

/// Adds a part: its name, and its values by column.
type AddPart<'a> = dyn FnMut(String, &[(usize, Option<u64>)]) + 'a;

fn read_memory_errors(sys: &Path, add: &mut AddPart) {
    for (name, folder) in sorted_entries(&sys.join("devices/system/edac/mc")) {
        let count = |file: &str| read_number(&folder.join(file));
        let (corrected, uncorrected) = (count("ce_count"), count("ue_count"));
        add(name, &[(CORRECTED_MEMORY_COLUMN, corrected), (UNCORRECTED_MEMORY_COLUMN, uncorrected)]);
    }
}

/// Parses the number after the word that begins with `TOTAL`.
pub(super) fn parse_aer_total(text: &[u8]) -> Option<u64> {
    text_lines(text).find(|line| line.starts_with(b"TOTAL"))?.split(|b| *b == b' ').next_back().and_then(parse_number)
}

/// Parses `8.0 GT/s PCIe` in tenths.
pub(super) fn parse_transfer_rate(text: &[u8]) -> Option<u64> {
    let word = WordIter::new(text).next_word()?;
    let mut parts = word.split(|b| *b == b'.');
    let (integer, tenth) = (parse_number(parts.next()?)?, parts.next().and_then(parse_number).unwrap_or(0));
    integer.checked_mul(10)?.checked_add(tenth)
}

fn read_lanes(file: &Path) -> Option<u64> {
    read_number(file).filter(|lanes| (1..=64).contains(lanes))
}

fn read_lane_speed(file: &Path) -> Option<u64> {
    parse_transfer_rate(read_text(file)?.as_bytes())
}

fn read_links(sys: &Path, add: &mut AddPart) {
    for (name, folder) in sorted_entries(&sys.join("bus/pci/devices")) {
        let class = read_text(&folder.join("class")).unwrap_or_default();
        // storage adapters, network adapters, and the bridges above them
        let is_adapter = class.starts_with("0x01") || class.starts_with("0x02");
        if !is_adapter && !class.starts_with("0x0604") {
            continue;
        }
        let errors = |file: &str| parse_aer_total(&read_bytes(&folder.join(file)).ok()?);
        let uncorrected =
            errors("aer_dev_nonfatal").zip(errors("aer_dev_fatal")).map(|(nonfatal, fatal)| nonfatal + fatal);
        let share = |now: Option<u64>, max: Option<u64>| Some(now? * 1_000_000 / max.filter(|max| *max > 0)?);
        // the other end of the link, whose folder in sysfs is above that of the device, may have fewer lanes
        let port = canonicalize(&folder).ok().and_then(|folder| Some(folder.parent()?.to_owned()));
        let max_of_link = |read: &dyn Fn(&Path) -> Option<u64>, file: &str| {
            let device_max = read(&folder.join(file))?;
            Some(
                port.as_ref()
                    .and_then(|port| read(&port.join(file)))
                    .map_or(device_max, |port_max| device_max.min(port_max)),
            )
        };
        let share_of_max = |read: &dyn Fn(&Path) -> Option<u64>, property: &str| {
            share(
                read(&folder.join(format!("current_link_{property}"))),
                max_of_link(read, &format!("max_link_{property}")),
            )
        };
        let (width, speed) = match is_adapter {
            true => (share_of_max(&read_lanes, "width"), share_of_max(&read_lane_speed, "speed")),
            false => (None, None),
        };
        let now = |property: &str| folder.join(format!("current_link_{property}"));
        let runs_at = read_lane_speed(&now("speed")).zip(read_lanes(&now("width"))).filter(|_| is_adapter);
        let rate = runs_at.map(|(tenths, lanes)| pcie_bytes_per_s(tenths as f64 / 10.0, lanes as f64).round() as u64);
        let corrected = errors("aer_dev_correctable");
        add(
            name,
            &[
                (CORRECTED_PCIE_COLUMN, corrected),
                (UNCORRECTED_PCIE_COLUMN, uncorrected),
                (LINK_WIDTH_COLUMN, width),
                (LINK_SPEED_COLUMN, speed),
                (LINK_RATE_COLUMN, rate),
            ],
        );
    }
}

fn read_sensors(sys: &Path, add: &mut AddPart) {
    let mut seen: HashSet<String> = HashSet::new();
    for (entry, folder) in sorted_entries(&sys.join("class/hwmon")) {
        let chip = read_text(&folder.join("name")).unwrap_or_else(|| entry.clone());
        if DRIVE_SENSORS.contains(&chip.as_str()) {
            continue;
        }
        for (file, _) in sorted_entries(&folder) {
            // power1_average beside power1_input is the same sensor
            let has_no_input = |sensor: &&str| !folder.join(format!("{sensor}_input")).exists();
            let average = || file.strip_suffix("_average").filter(has_no_input);
            let Some(sensor) = file.strip_suffix("_input").or_else(average) else { continue };
            let label = read_text(&folder.join(format!("{sensor}_label"))).unwrap_or_else(|| sensor.to_owned());
            let name = format!("{chip}/{label}");
            // two chips of the same kind have sensors with the same names
            let name = if seen.insert(name.clone()) { name } else { format!("{name} ({entry})") };
            let value = read_number(&folder.join(&file));
            match sensor.trim_end_matches(|c: char| c.is_ascii_digit()) {
                "temp" if value.is_some() => {
                    let limit = read_number(&folder.join(format!("{sensor}_crit"))).filter(|limit| *limit > 0);
                    add(name, &[(TEMPERATURE_COLUMN, value), (TEMPERATURE_LIMIT_COLUMN, limit)]);
                }
                "power" => add(name, &[(POWER_COLUMN, value)]),
                "fan" => add(name, &[(FAN_COLUMN, value)]),
                _ => {}
            }
        }
    }
}

fn read_throttles(sys: &Path) -> Vec<(CoreId, u64)> {
    let mut seen: HashSet<CoreId> = HashSet::new();
    let mut found = Vec::new();
    for (_, folder) in sorted_entries(&sys.join("devices/system/cpu")) {
        let Some(count) = read_number(&folder.join("thermal_throttle/core_throttle_count")) else { continue };
        let topology = |file: &str| read_number(&folder.join("topology").join(file));
        // each thread of a core shows the core's count
        let core = (topology("physical_package_id"), topology("core_id"));
        if seen.insert(core) {
            found.push((core, count));
        }
    }
    found
}

fn read_powercap(sys: &Path, add: &mut AddPart) {
    let mut seen: HashSet<String> = HashSet::new();
    // a package may appear twice under the same name (intel-rapl:0, intel-rapl-mmio:0): in
    // reverse order intel-rapl comes first, and only the first counts
    for (zone, folder) in sorted_entries(&sys.join("class/powercap")).into_iter().rev() {
        // skip parts of a zone (intel-rapl:0:0), and the control type itself
        if zone.matches(':').count() != 1 {
            continue;
        }
        let name = read_text(&folder.join("name")).unwrap_or(zone);
        if !seen.insert(name.clone()) {
            continue;
        }
        let number = |file: &str| read_number(&folder.join(file));
        // a limit that is switched off, or 0 (psys), limits nothing
        let is_on = number("enabled") != Some(0);
        let limit = number("constraint_0_power_limit_uw").filter(|limit| is_on && *limit > 0);
        add(name, &[(ENERGY_COLUMN, number("energy_uj")), (CAP_COLUMN, limit)]);
    }
}

/// Parses `0x1f`.
pub(super) fn parse_hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii().strip_prefix(b"0x")?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|n| *n != ABSENT)
}

fn read_disk_errors(sys: &Path) -> Vec<(String, [u64; 2])> {
    let count = |folder: &Path, file: &str| parse_hexadecimal(&read_bytes(&folder.join("device").join(file)).ok()?);
    let disk = |(name, folder): (String, PathBuf)| {
        let errors = count(&folder, "ioerr_cnt")?;
        Some((name, [errors, or_absent(count(&folder, "iotmo_cnt"))]))
    };
    sorted_entries(&sys.join("block")).into_iter().filter_map(disk).collect()
}

fn read_adapter_errors(sys: &Path) -> Vec<(String, [u64; ADAPTER_COLUMNS.len()])> {
    // a copied /sys may have adapters of this machine's names
    let is_live = sys == Path::new("/sys");
    let mut statistics = StatisticsReader::default();
    let adapter = |(name, folder): (String, PathBuf)| {
        folder.join("device").exists().then(|| {
            let statistic = |file: &str| read_number(&folder.join("statistics").join(file));
            let damaged = statistic("rx_crc_errors").zip(statistic("rx_frame_errors")).map(|(crc, frame)| crc + frame);
            let changes = read_number(&folder.join("carrier_changes"));
            let lost = if is_live { statistics.read_losses(&name) } else { Ok(AdapterLosses::default()) };
            let lost = lost.unwrap_or_default();
            let missed = statistic("rx_missed_errors");
            (name, [missed, damaged, changes, lost.received, lost.sent, lost.over_allowance].map(or_absent))
        })
    };
    sorted_entries(&sys.join("class/net")).into_iter().filter_map(adapter).collect()
}

fn read_filesystem_errors(roots: &Roots) -> Vec<(String, [u64; 1])> {
    let folders = sorted_entries(&roots.sys.join("fs/ext4"));
    if folders.is_empty() {
        return Vec::new();
    }
    let mounts = mountinfo::read_mounts(roots);
    let filesystem = |(device, folder): (String, PathBuf)| {
        let errors = read_number(&folder.join("errors_count"))?;
        let node = read_text(&roots.sys.join("class/block").join(&device).join("dev"))?;
        let numbers = mountinfo::parse_device_number(node.as_bytes())?;
        let mount = mounts.iter().find(|mount| mount.device == numbers && mount.root == "/")?;
        Some((mount.point.clone(), [errors]))
    };
    folders.into_iter().filter_map(filesystem).collect()
}
