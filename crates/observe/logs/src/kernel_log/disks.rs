//! Messages about disks, their links and paths. What a driver writes about one attempt is one event, however many lines
//! it has; a reset after which the device answers is over; errors of a disk that was pulled out are none.

use std::collections::{BTreeMap, HashMap};

use diskwright_base::diskstats::disk_of_partition;
use diskwright_base::kernel_messages::MessageClass;

use super::troubles::{Event, Findings, put_disk};

/// Lines of one device within this time are of one attempt, seconds.
const MAX_EPISODE_S: f64 = 60.0;
/// Time around the removal of a device in which its errors come, seconds.
const GONE_S: std::ops::Range<f64> = -5.0..30.0;
/// Largest number of disks that are kept.
const MAX_DISKS: usize = 1000;
/// Number of removals from which on a plug is loose.
const MIN_REMOVALS: usize = 3;

/// All disks.
#[derive(Default)]
pub(super) struct DiskTroubles {
    disks: BTreeMap<String, DiskTrouble>,
    /// Removals: number of the message, and its time.
    removals: Vec<(usize, Option<f64>)>,
    removable: Vec<String>,
    event_count: usize,
    start_count: usize,
    start_text: String,
}

/// One disk, port or controller.
#[derive(Default)]
struct DiskTrouble {
    /// Errors by the text of the message: one event leaves several.
    errors: HashMap<&'static str, f64>,
    error_places: Vec<(usize, Option<f64>)>,
    episodes: u32,
    last_reset_s: Option<f64>,
    is_open: bool,
    first: String,
}

impl DiskTroubles {
    pub fn add_event(&mut self, event: &Event) {
        self.event_count += 1;
        let clock_s = event.moment.clock_s();
        let place = (self.event_count, clock_s);
        match event.class {
            MessageClass::Gone => self.removals.push(place),
            MessageClass::Attached if event.text.contains("removable") => {
                self.removable.push(disk_of_name(&event.name))
            }
            MessageClass::Recovery => {
                if let Some(disk) = self.disks.get_mut(&disk_of_name(&event.name)) {
                    disk.is_open = false;
                }
            }
            MessageClass::Reset if event.is_at_start => {
                if self.start_count == 0 {
                    self.start_text = event.to_text();
                }
                self.start_count += 1;
            }
            MessageClass::Error | MessageClass::FileSystem | MessageClass::Reset => {
                let name = disk_of_name(&event.name);
                if self.disks.len() >= MAX_DISKS && !self.disks.contains_key(&name) {
                    return;
                }
                let disk = self.disks.entry(name).or_default();
                if disk.first.is_empty() {
                    disk.first = event.to_text();
                }
                if event.class == MessageClass::Reset {
                    disk.add_reset(clock_s);
                    // the request had completed, and only its interrupt was lost
                    disk.is_open = !event.message.contains("completion polled");
                } else {
                    *disk.errors.entry(event.text).or_default() += 1.0;
                    disk.error_places.push(place);
                }
            }
            _ => {}
        }
    }

    pub fn finish(self, findings: &mut Findings) {
        for (name, disk) in &self.disks {
            let errors = disk.errors.values().copied().fold(0.0, f64::max);
            if errors > 0.0 && self.is_pulled_out(name, disk) {
                findings.passed.push(format!("{name} was taken away while it was used: {}", disk.first));
            } else if errors > 0.0 || disk.episodes > 1 || disk.is_open {
                put_disk(findings, name, errors + f64::from(disk.episodes));
            } else if disk.episodes > 0 {
                findings.passed.push(format!("{name} was reset once, and answered again: {}", disk.first));
            }
        }
        if self.start_count > 0 {
            let count = self.start_count;
            findings.passed.push(format!(
                "resets and time limits while the machine started, which are usual when drivers look for devices, \
                 {count} in all: {}",
                self.start_text
            ));
        }
    }

    /// True if all errors of a disk came when a device was pulled out.
    fn is_pulled_out(&self, name: &str, disk: &DiskTrouble) -> bool {
        let is_removable = self.removable.iter().any(|known| known == name);
        let is_near = |&(number, clock_s): &(usize, Option<f64>)| {
            self.removals.iter().any(|(removal, removal_s)| match (clock_s, removal_s) {
                (Some(clock_s), Some(removal_s)) => {
                    let since_s = clock_s - removal_s;
                    GONE_S.contains(&since_s) || is_removable && since_s >= 0.0
                }
                _ => number > *removal,
            })
        };
        self.removals.len() < MIN_REMOVALS && disk.error_places.iter().all(is_near)
    }
}

impl DiskTrouble {
    fn add_reset(&mut self, clock_s: Option<f64>) {
        let is_same = match (self.last_reset_s, clock_s) {
            (Some(last_s), Some(clock_s)) => (clock_s - last_s).abs() <= MAX_EPISODE_S,
            _ => self.is_open,
        };
        self.episodes += u32::from(self.episodes == 0 || !is_same);
        self.last_reset_s = clock_s;
        self.is_open = true;
    }
}

/// Returns the disk of a partition, `sda` of `sda1` and `nvme0n1` of `nvme0n1p2`, and of a number, `sdb` of `8:16`.
fn disk_of_name(name: &str) -> String {
    if let Some(minor) = name.strip_prefix("8:").and_then(|minor| minor.parse::<u8>().ok()) {
        return format!("sd{}", char::from(b'a' + minor / 16));
    }
    disk_of_partition(name).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::disk_of_name;

    #[test]
    fn a_partition_counts_for_its_disk() {
        for (name, disk) in [
            ("sda1", "sda"),
            ("sdaa12", "sdaa"),
            ("nvme0n1p2", "nvme0n1"),
            ("nvme0n1", "nvme0n1"),
            ("nvme0", "nvme0"),
            ("mmcblk0p1", "mmcblk0"),
            ("mmcblk0", "mmcblk0"),
            ("dm-3", "dm-3"),
            ("md0", "md0"),
            ("ata3", "ata3"),
            ("8:32", "sdc"),
            ("vda1", "vda"),
        ] {
            assert_eq!(disk_of_name(name), disk, "{name}");
        }
    }
}
