//! /proc/interrupts: numbers since boot of each processor. A single dump shows whether the queues of a network adapter
//! are served by one processor.

use diskwright_base::counter_ids::network;

use super::Snapshot;

/// Smallest number of interrupts that shows how they are spread.
const MIN_COUNT: f64 = 1e6;
/// Smallest number of columns that tells the table from others.
const MIN_PROCESSORS: usize = 2;

/// Sums of the rows of each network adapter.
#[derive(Default)]
pub struct InterruptState {
    adapters: Vec<AdapterRows>,
}

/// Rows of an adapter.
struct AdapterRows {
    name: String,
    queues: usize,
    by_processor: Vec<f64>,
}

/// Reads a line of the table, ` 56:  261934172   0   PCI-MSI 5767168-edge   ens192-rxtx-0`.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() >= MIN_PROCESSORS && words.iter().all(|word| is_processor(word)) {
        snapshot.begin_piece("interrupts");
        snapshot.interrupts.adapters.clear();
        return true;
    }
    let Some(number) = words.first().and_then(|word| word.strip_suffix(':')) else { return false };
    let counts: Vec<f64> = words[1..].iter().map_while(|word| word.parse().ok()).collect();
    let is_device = number.bytes().all(|b| b.is_ascii_digit());
    let has_name = words.len() > counts.len() + 1;
    let is_row = counts.len() >= MIN_PROCESSORS
        && (is_device && has_name || number.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
    if !is_row {
        return false;
    }
    snapshot.topology.processors = snapshot.topology.processors.max(counts.len() as u32);
    if is_device && let Some(adapter) = adapter_of_action(words.last().copied().unwrap_or("")) {
        add_row(snapshot, adapter, &counts);
    }
    true
}

fn is_processor(word: &str) -> bool {
    word.strip_prefix("CPU").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the network adapter by the name of one of its interrupts: `ens192-rxtx-0`, `eth0-TxRx-3`,
/// `mlx5_comp4@pci:…`, `virtio1-input.0`; `None` for other devices.
fn adapter_of_action(action: &str) -> Option<&str> {
    const INTERFACES: [&str; 8] = ["eth", "en", "em", "p1p", "p2p", "ib", "wl", "bond"];
    if let Some((adapter, queue)) = action.split_once('-') {
        let lower = queue.to_ascii_lowercase();
        let is_queue = ["rx", "tx", "input", "output", "fp", "queue", "comp"].iter().any(|word| lower.contains(word));
        let is_interface = INTERFACES.iter().any(|start| adapter.starts_with(start));
        let is_numbered = is_interface && lower.bytes().all(|b| b.is_ascii_digit());
        return (is_queue && (is_interface || adapter.starts_with("virtio")) || is_numbered).then_some(adapter);
    }
    let is_bare =
        INTERFACES.iter().any(|start| action.starts_with(start)) && action.ends_with(|c: char| c.is_ascii_digit());
    if is_bare {
        return Some(action);
    }
    let mellanox = action.strip_prefix("mlx").and_then(|rest| rest.split_once("comp")).is_some();
    mellanox.then(|| action.split_once('@').map_or("mlx", |(_, place)| place))
}

/// Adds a queue of an adapter, and puts the share of the processor that serves most of them.
fn add_row(snapshot: &mut Snapshot<'_, '_>, adapter: &str, counts: &[f64]) {
    let adapters = &mut snapshot.interrupts.adapters;
    let index = adapters.iter().position(|known| known.name == adapter).unwrap_or_else(|| {
        adapters.push(AdapterRows { name: adapter.to_owned(), queues: 0, by_processor: Vec::new() });
        adapters.len() - 1
    });
    let rows = &mut adapters[index];
    rows.queues += 1;
    rows.by_processor.resize(counts.len().max(rows.by_processor.len()), 0.0);
    rows.by_processor.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    let total: f64 = rows.by_processor.iter().sum();
    let share = rows.by_processor.iter().copied().fold(0.0, f64::max) / total;
    let queues = rows.queues as f64;
    snapshot.replace_value(network::INTERRUPT_QUEUES, adapter, queues);
    if total >= MIN_COUNT {
        snapshot.replace_value(network::INTERRUPT_BUSIEST_SHARE, adapter, share);
    }
}
