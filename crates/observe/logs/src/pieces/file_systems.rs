//! `df`, also -h, -i, -T and -P: sizes of file systems and what is free in them.

use diskwright_base::counter_ids::logical_disk;

use super::Snapshot;
use super::memory::parse_size;
use crate::top::parse_size_bytes;

/// Columns of the rows that follow.
#[derive(Default)]
pub struct FileSystemState {
    /// Bytes of a number without a letter; 0 before the headings.
    unit: f64,
    /// Set if the rows count inodes.
    is_inodes: bool,
    has_type: bool,
    /// Name of a device that stands on a line of its own.
    device: String,
}

/// Devices without a disk of the machine.
const IGNORED: [&str; 12] =
    ["tmpfs", "devtmpfs", "udev", "none", "shm", "overlay", "cgroup", "cgroup2", "proc", "sysfs", "devfs", "efivarfs"];

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.first() == Some(&"Filesystem") && words.contains(&"Mounted") {
        let size = words.iter().find(|word| word.ends_with("-blocks"));
        let unit = size.and_then(|word| {
            let number = word.trim_end_matches("-blocks");
            parse_size_bytes(number, 1.0)
        });
        let is_inodes = words.contains(&"Inodes");
        snapshot.begin_piece(if is_inodes { "df -i" } else { "df" });
        let (unit, has_type) = (unit.unwrap_or(1.0), words.contains(&"Type"));
        snapshot.file_systems = FileSystemState { unit, is_inodes, has_type, device: String::new() };
        return true;
    }
    if snapshot.file_systems.unit == 0.0 {
        return false;
    }
    if let [device] = words[..]
        && device.starts_with('/')
    {
        device.clone_into(&mut snapshot.file_systems.device);
        return true;
    }
    read_row(snapshot, &words)
}

/// Reads `/dev/sda1 50G 20G 28G 42% /`.
fn read_row(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    let state = &mut snapshot.file_systems;
    let device = std::mem::take(&mut state.device);
    let has_device = device.is_empty();
    let first = usize::from(has_device) + usize::from(state.has_type);
    let Some(share) = words.iter().position(|word| word.ends_with('%') || *word == "-") else { return false };
    let Some(mount) = words.get(share + 1..).map(|rest| rest.join(" ")).filter(|mount| mount.starts_with('/')) else {
        return false;
    };
    let unit = if state.is_inodes { 1.0 } else { state.unit };
    let size = |index: usize| parse_size(words.get(index)?, unit);
    let (Some(total), Some(free)) = (size(first), size(first + 2)) else { return false };
    let device = if has_device { words[0] } else { &device };
    if IGNORED.contains(&device) || total <= 0.0 {
        return true;
    }
    let (total_counter, free_counter) = if state.is_inodes {
        (logical_disk::INODES_TOTAL, logical_disk::INODES_FREE)
    } else {
        (logical_disk::TOTAL_BYTES, logical_disk::FREE_BYTES)
    };
    snapshot.put_value(total_counter, &mount, total);
    snapshot.put_value(free_counter, &mount, free);
    true
}
