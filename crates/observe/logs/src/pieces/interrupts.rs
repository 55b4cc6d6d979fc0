//! /proc/interrupts and /proc/softirqs: numbers since boot of each processor. A single dump shows how they are spread,
//! two how fast they come, and a single one whether the queues of a network adapter are served by one processor.

use diskwright_base::counter_ids::{interrupts, network};

use super::Snapshot;

/// Each processor's share of the interrupts of devices; the catalogue has none that is counted since boot.
const INTERRUPT_SHARE: &str = "foreign.interrupts.share_since_boot";
/// Each processor's share of the packets that soft interrupts take.
const RECEIVE_SHARE: &str = "foreign.interrupts.softirq_net_rx_share";
/// Packets that a processor's soft interrupts took.
pub(super) const RECEIVE_TOTAL: &str = "foreign.interrupts.softirq_net_rx";
/// Smallest number of interrupts that shows how they are spread.
const MIN_COUNT: f64 = 1e5;
/// Smallest number of interrupts of an adapter that shows which processors serve it.
const MIN_ADAPTER_COUNT: f64 = 1e6;
/// Smallest number of columns that tells the table from others.
const MIN_PROCESSORS: usize = 2;
/// Share of one processor from which on the answer tells it.
pub(super) const MIN_TOLD_SHARE: f64 = 0.8;

/// Sums of the rows of devices.
#[derive(Default)]
pub struct InterruptState {
    by_processor: Vec<f64>,
    adapters: Vec<AdapterRows>,
    /// Set until the first row shows which of the files it is.
    is_begun: bool,
    /// Number of rows of this dump and of the one before.
    row_count: u32,
    previous_row_count: u32,
}

/// Rows of a network adapter.
struct AdapterRows {
    name: String,
    queues: usize,
    by_processor: Vec<f64>,
}

/// Soft interrupts and their counters.
const SOFT: [(&str, &str); 5] = [
    ("NET_RX", interrupts::SOFTIRQ_NET_RX),
    ("NET_TX", interrupts::SOFTIRQ_NET_TX),
    ("BLOCK", interrupts::SOFTIRQ_BLOCK),
    ("TIMER", interrupts::SOFTIRQ_TIMER),
    ("SCHED", interrupts::SOFTIRQ_SCHED),
];
const OTHER_SOFT: [&str; 5] = ["HI", "IRQ_POLL", "TASKLET", "HRTIMER", "RCU"];

/// Reads a line of the table, ` 56:  261934172   0   PCI-MSI 5767168-edge   ens192-rxtx-0`.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_processor = |word: &&str| {
        word.strip_prefix("CPU").is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    if words.len() >= MIN_PROCESSORS && words.iter().all(is_processor) {
        snapshot.interrupts.is_begun = true;
        return true;
    }
    let Some(number) = words.first().and_then(|word| word.strip_suffix(':')) else { return false };
    let counts: Vec<f64> = words[1..].iter().map_while(|word| word.parse().ok()).collect();
    if counts.len() < MIN_PROCESSORS {
        return false;
    }
    let is_soft = OTHER_SOFT.contains(&number) || SOFT.iter().any(|(name, _)| *name == number);
    let is_number = number.bytes().all(|b| b.is_ascii_digit());
    let has_name = words.len() > counts.len() + 1;
    let is_hard = is_number && has_name || number.bytes().all(|b| b.is_ascii_uppercase());
    if !is_soft && !is_hard {
        return false;
    }
    if std::mem::take(&mut snapshot.interrupts.is_begun) {
        snapshot.begin_piece(if is_soft { "softirqs" } else { "interrupts" });
        snapshot.interrupts.adapters.clear();
    }
    snapshot.interrupts.row_count += 1;
    if is_soft {
        read_soft(snapshot, number, &counts);
    } else {
        add_totals(snapshot, number, &counts, &words[counts.len() + 1..]);
        snapshot.topology.processors = snapshot.topology.processors.max(counts.len() as u32);
        if is_number && let Some(adapter) = adapter_of_action(words.last().copied().unwrap_or("")) {
            add_adapter_row(snapshot, adapter, &counts);
        }
        if is_number && counts.iter().sum::<f64>() >= MIN_COUNT {
            add_row(snapshot, &counts);
        }
    }
    true
}

/// Adds a device's interrupts.
fn add_row(snapshot: &mut Snapshot<'_, '_>, counts: &[f64]) {
    let sums = &mut snapshot.interrupts.by_processor;
    sums.resize(counts.len().max(sums.len()), 0.0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    snapshot.topology.processors = sums.len() as u32;
}

/// Adds a row to the totals of its class.
fn add_totals(snapshot: &mut Snapshot<'_, '_>, number: &str, counts: &[f64], names: &[&str]) {
    let names = names.join(" ").to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| names.contains(part));
    let class = match number {
        "LOC" => interrupts::CLOCK,
        "RES" | "CAL" | "TLB" | "IPI" => interrupts::INTER_PROCESSOR,
        _ if has(&["timer", "hpet"]) => interrupts::CLOCK,
        _ if has(&["nvme", "ahci", "ata", "scsi", "megasas", "mpt", "virtio-blk", "ide"]) => interrupts::DISK,
        _ if has(&[
            "eth", "ens", "eno", "enp", "em1", "wlan", "mlx", "ixgbe", "igb", "-rx", "rxtx", "input.", "vmxnet",
        ]) =>
        {
            interrupts::NETWORK
        }
        _ => interrupts::OTHER,
    };
    let sum: f64 = counts.iter().sum();
    snapshot.add_total(class, "", sum);
    snapshot.add_total(interrupts::TOTAL, "", sum);
}

fn read_soft(snapshot: &mut Snapshot<'_, '_>, name: &str, counts: &[f64]) {
    snapshot.topology.processors = counts.len() as u32;
    let sum: f64 = counts.iter().sum();
    snapshot.add_total(interrupts::SOFTIRQ_TOTAL, "", sum);
    if let Some((_, counter)) = SOFT.iter().find(|(known, _)| *known == name) {
        snapshot.put_total(counter, "", sum);
    }
    if name == "NET_RX" {
        for (index, count) in counts.iter().enumerate() {
            snapshot.put_total(RECEIVE_TOTAL, &format!("cpu{index}"), *count);
        }
    }
}

/// Reports rows that are missing, because their sums then are too small.
pub fn compare_rows(snapshot: &mut Snapshot<'_, '_>) {
    let state = &mut snapshot.interrupts;
    let rows = std::mem::take(&mut state.row_count);
    let before = std::mem::replace(&mut state.previous_row_count, rows);
    if rows > 0 && before > 0 && rows != before {
        snapshot.add_skip("interrupts", "a dump with more or fewer rows than the one before: its sums differ");
    }
}

/// Puts each processor's share of the interrupts of devices in this dump.
pub fn put_interrupt_shares(snapshot: &mut Snapshot<'_, '_>) {
    let sums = std::mem::take(&mut snapshot.interrupts.by_processor);
    let total: f64 = sums.iter().sum();
    for (index, sum) in sums.iter().enumerate() {
        snapshot.replace_value(INTERRUPT_SHARE, &format!("cpu{index}"), sum / total);
    }
}

/// Puts each processor's share of the packets received.
pub fn put_receive_shares(snapshot: &mut Snapshot<'_, '_>) {
    let processors = snapshot.totals.instances(RECEIVE_TOTAL);
    let counts: Vec<f64> =
        processors.iter().map(|name| snapshot.totals.added(RECEIVE_TOTAL, name).unwrap_or(0.0)).collect();
    let total: f64 = counts.iter().sum();
    if total <= 0.0 {
        return;
    }
    for (name, count) in processors.iter().zip(&counts) {
        let share = count / total;
        snapshot.replace_value(RECEIVE_SHARE, name, share);
        if share >= MIN_TOLD_SHARE && total >= MIN_COUNT && counts.len() > 1 {
            snapshot.push_warning(format!(
                "{name} takes {:.0} % of the packets received (NET_RX) of {} processors",
                share * 100.0,
                counts.len()
            ));
        }
    }
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
fn add_adapter_row(snapshot: &mut Snapshot<'_, '_>, adapter: &str, counts: &[f64]) {
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
    if total >= MIN_ADAPTER_COUNT {
        snapshot.replace_value(network::INTERRUPT_BUSIEST_SHARE, adapter, share);
    }
}
