//! /proc/interrupts: numbers since boot of each processor. A single dump shows how they are spread, two how fast they
//! come.

use super::Snapshot;

/// Smallest number of interrupts that shows how they are spread.
const MIN_COUNT: f64 = 1e5;
/// Smallest number of columns that tells the table from others.
const MIN_PROCESSORS: usize = 2;

/// Sums of the rows of network adapters.
#[derive(Default)]
pub struct InterruptState {
    by_processor: Vec<f64>,
}

/// Reads a line of the table, ` 56:  261934172   0   PCI-MSI 5767168-edge   ens192-rxtx-0`.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_heading = words.len() >= MIN_PROCESSORS
        && words.iter().enumerate().all(|(index, word)| *word == format!("CPU{index}") || word.starts_with("CPU"));
    if is_heading {
        snapshot.begin_piece("interrupts");
        snapshot.interrupts.by_processor.clear();
        return true;
    }
    let Some(number) = words.first().and_then(|word| word.strip_suffix(':')) else { return false };
    let counts: Vec<f64> = words[1..].iter().map_while(|word| word.parse().ok()).collect();
    let has_name = words.len() > counts.len() + 1;
    let is_row = counts.len() >= MIN_PROCESSORS
        && (number.bytes().all(|b| b.is_ascii_digit()) && has_name || number.bytes().all(|b| b.is_ascii_uppercase()));
    if !is_row {
        return false;
    }
    let total: f64 = counts.iter().sum();
    if number.bytes().all(|b| b.is_ascii_digit()) && total >= MIN_COUNT {
        add_row(snapshot, &counts);
    }
    true
}

/// Adds a device's interrupts, and puts the share of the processor that takes most.
fn add_row(snapshot: &mut Snapshot<'_, '_>, counts: &[f64]) {
    let sums = &mut snapshot.interrupts.by_processor;
    sums.resize(counts.len().max(sums.len()), 0.0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    let total: f64 = sums.iter().sum();
    let shares: Vec<f64> = sums.iter().map(|sum| sum / total).collect();
    snapshot.topology.processors = shares.len() as u32;
    snapshot.replace_shares(&shares);
}
