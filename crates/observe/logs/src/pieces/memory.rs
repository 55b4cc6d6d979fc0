//! `free` of procps and busybox, with and without the line `-/+ buffers/cache`.

use diskwright_base::counter_ids::memory;

use super::Snapshot;
use crate::top::parse_size_bytes;

/// Headings that were read last.
#[derive(Default)]
pub struct MemoryState {
    headings: Vec<String>,
    /// Bytes of a number without a unit.
    unit: f64,
}

/// Counters of the columns.
const COLUMNS: [(&str, &str); 6] = [
    ("total", memory::TOTAL_BYTES),
    ("free", memory::FREE_BYTES),
    ("available", memory::AVAILABLE_BYTES),
    ("buffers", memory::BUFFERS_BYTES),
    ("cached", memory::CACHED_BYTES),
    ("shared", memory::SHARED_BYTES),
];

/// Reads a line of free.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.starts_with(&["total", "used", "free"]) {
        snapshot.begin_piece("free");
        snapshot.memory.headings = words.iter().map(|word| (*word).to_owned()).collect();
        return true;
    }
    if snapshot.memory.headings.is_empty() {
        return false;
    }
    match words.first() {
        Some(&"Mem:") => read_memory(snapshot, &words[1..]),
        Some(&"Swap:") => read_swap(snapshot, &words[1..]),
        Some(&"-/+") => read_without_cache(snapshot, &words),
        Some(&"Low:" | &"High:" | &"Total:" | &"Comm:") => {}
        _ => return false,
    }
    true
}

/// Guesses the unit of a machine's memory: no machine that runs free has less than 16 MB.
fn guess_unit(total: f64) -> f64 {
    match total {
        total if total < 64.0 => 1_073_741_824.0,
        total if total < 16_384.0 => 1_048_576.0,
        total if total < 8e9 => 1024.0,
        _ => 1.0,
    }
}

/// Parses `7.6Gi`, `512M`, `16266528`.
pub(super) fn parse_size(word: &str, unit: f64) -> Option<f64> {
    parse_size_bytes(word.trim_end_matches('B').trim_end_matches('i').trim_end_matches('B'), unit)
}

fn read_memory(snapshot: &mut Snapshot<'_, '_>, cells: &[&str]) {
    let bare_total = cells.first().and_then(|total| total.parse::<f64>().ok());
    snapshot.memory.unit = bare_total.map_or(1.0, guess_unit);
    let unit = snapshot.memory.unit;
    let headings = snapshot.memory.headings.clone();
    for (heading, cell) in headings.iter().zip(cells) {
        let Some(bytes) = parse_size(cell, unit) else { continue };
        // one column for both since procps 3.3.10
        let counter = match heading.as_str() {
            "buff/cache" => Some(memory::CACHED_BYTES),
            name => COLUMNS.iter().find(|(known, _)| *known == name).map(|(_, counter)| *counter),
        };
        if let Some(counter) = counter {
            snapshot.put_value(counter, "", bytes);
        }
        if heading == "total" {
            snapshot.topology.memory_bytes = bytes as u64;
        }
    }
}

fn read_swap(snapshot: &mut Snapshot<'_, '_>, cells: &[&str]) {
    let size = |index: usize, unit: f64| cells.get(index).and_then(|cell| parse_size(cell, unit));
    let unit = snapshot.memory.unit;
    if let (Some(total), Some(free)) = (size(0, unit), size(2, unit)) {
        snapshot.put_value(memory::SWAP_TOTAL_BYTES, "", total);
        snapshot.put_value(memory::SWAP_FREE_BYTES, "", free);
    }
}

/// Reads `-/+ buffers/cache: USED FREE`: its free memory is what is available.
fn read_without_cache(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) {
    let unit = snapshot.memory.unit;
    if let Some(bytes) = words.last().and_then(|word| parse_size(word, unit)) {
        snapshot.put_value(memory::AVAILABLE_BYTES, "", bytes);
    }
}
