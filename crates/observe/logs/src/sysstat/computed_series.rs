//! Counters that a log gives in parts: a queue as rate times duration, a size as free plus used.

use std::collections::HashMap;

use diskwright_base::Series;
use diskwright_base::counter_ids::{logical_disk, memory, network, paging, physical_disk};

/// A cell that is computed from others of the row.
#[derive(Clone, Debug)]
pub struct ComputedCell {
    recipe: CellRecipe,
    column: u32,
}

/// Computation of a cell.
#[derive(Clone, Debug)]
pub enum CellRecipe {
    /// Product of two columns.
    Product(u32, u32),
    /// Sum of two columns.
    Sum(u32, u32),
    /// Share of one column in another.
    Share(u32, u32),
    /// Rate of a link, from the bytes in either direction and the share of the link that the busier one takes, percent.
    Link([u32; 3]),
    /// Physical memory, from its free and used parts.
    Memory(Box<MemoryColumns>),
}

/// Columns from which the size of memory is computed. sysstat changed the meaning of used memory: first it was all that
/// is not free, since 12.0 it excludes buffers, cache and slab. The share beside it shows which. Slab is not in every
/// report (`sar -r` without ALL): if neither sum has the share, used memory and the share determine the size.
#[derive(Clone, Debug)]
pub struct MemoryColumns {
    free_column: u32,
    used_column: u32,
    percent_column: u32,
    other_columns: Vec<u32>,
}

impl CellRecipe {
    /// Adds the column of the result.
    pub fn into_cell(self, column: u32) -> ComputedCell {
        ComputedCell { recipe: self, column }
    }
}

/// A series that can be computed.
pub struct ComputedSeries {
    /// Its counter.
    pub counter: String,
    /// Its instance.
    pub instance: String,
    /// Its scale.
    pub scale: f64,
    /// Computation.
    pub recipe: CellRecipe,
}

impl ComputedCell {
    /// Fills its cell, unless the log has a value there.
    pub fn compute(&self, row: &mut [f64]) {
        let value = match &self.recipe {
            CellRecipe::Product(a, b) => row[*a as usize] * row[*b as usize],
            CellRecipe::Sum(a, b) => row[*a as usize] + row[*b as usize],
            CellRecipe::Share(part, whole) => (row[*part as usize] / row[*whole as usize]).min(1.0),
            CellRecipe::Link(columns) => link_rate(columns.map(|column| row[column as usize])),
            CellRecipe::Memory(memory) => memory.total_memory(row),
        };
        let cell = &mut row[self.column as usize];
        if cell.is_nan() {
            *cell = value;
        }
    }
}

impl MemoryColumns {
    fn total_memory(&self, row: &[f64]) -> f64 {
        let (free, used) = (row[self.free_column as usize], row[self.used_column as usize]);
        let percent = row[self.percent_column as usize];
        let others: f64 = self.other_columns.iter().map(|c| row[*c as usize]).filter(|v| !v.is_nan()).sum();
        let (old, new) = (free + used, free + used + others);
        let percent_error = |total: f64| (used / total * 100.0 - percent).abs();
        let total = if percent_error(new) < percent_error(old) { new } else { old };
        // largest error of the share by rounding; `--dec=0` prints no decimals
        let rounding = if percent.fract() == 0.0 { 0.51 } else { 0.06 };
        if percent >= 1.0 && percent_error(total) > rounding { used / percent * 100.0 } else { total }
    }
}

/// Smallest share of a link, percent, that is exact enough to compute its rate.
const MIN_LINK_PERCENT: f64 = 5.0;

fn link_rate([received, sent, percent]: [f64; 3]) -> f64 {
    if percent >= MIN_LINK_PERCENT { received.max(sent) * 100.0 / percent } else { f64::NAN }
}

/// Shares: result, part, whole.
const COMPUTED_SHARES: [(&str, &str, &str); 2] = [
    (network::TCP_RETRANSMITTED_FRACTION, "foreign.net-etcp.retrans", "foreign.net-tcp.oseg"),
    (network::RECEIVED_DROP_FRACTION, network::RECEIVED_DROPPED_PER_S, network::RECEIVED_PACKETS_PER_S),
];

/// Pairs of counters of one instance, and their result: counter, first, second, whether it is their product.
const COMPUTED_PAIRS: [(&str, &str, &str, bool); 8] = [
    (physical_disk::AVG_READ_QUEUE_LENGTH, physical_disk::READS_PER_S, physical_disk::AVG_S_PER_READ, true),
    (physical_disk::AVG_WRITE_QUEUE_LENGTH, physical_disk::WRITES_PER_S, physical_disk::AVG_S_PER_WRITE, true),
    (physical_disk::FLUSH_QUEUE_LENGTH, physical_disk::FLUSHES_PER_S, physical_disk::AVG_S_PER_FLUSH, true),
    (logical_disk::AVG_READ_QUEUE_LENGTH, logical_disk::READS_PER_S, logical_disk::AVG_S_PER_READ, true),
    (logical_disk::AVG_WRITE_QUEUE_LENGTH, logical_disk::WRITES_PER_S, logical_disk::AVG_S_PER_WRITE, true),
    (logical_disk::TOTAL_BYTES, logical_disk::FREE_BYTES, "foreign.filesystem.MBfsused", false),
    (logical_disk::INODES_TOTAL, logical_disk::INODES_FREE, "foreign.filesystem.Iused", false),
    (paging::SCANNED_PAGES_PER_S, paging::SCANNED_DIRECT_PAGES_PER_S, "foreign.paging.pgscank", false),
];

/// Lists the series that can be computed from these and are not there yet.
pub fn computable_series(by_target: &HashMap<(String, String), u32>, series: &[Series]) -> Vec<ComputedSeries> {
    let column_of = |counter: &str, instance: &str| by_target.get(&(counter.to_owned(), instance.to_owned())).copied();
    let mut computable = Vec::new();
    let mut add_missing = |counter: &str, instance: &str, scale: f64, recipe: CellRecipe| {
        if column_of(counter, instance).is_none() {
            let (counter, instance) = (counter.to_owned(), instance.to_owned());
            computable.push(ComputedSeries { counter, instance, scale, recipe });
        }
    };
    for base in series {
        for (result, first, second, is_product) in COMPUTED_PAIRS {
            if base.counter != first {
                continue;
            }
            let instance = base.instance.as_str();
            let (Some(a), Some(b)) = (column_of(first, instance), column_of(second, instance)) else { continue };
            if is_product {
                let scale = base.scale * series[b as usize].scale;
                add_missing(result, instance, scale, CellRecipe::Product(a, b));
            } else {
                add_missing(result, instance, base.scale, CellRecipe::Sum(a, b));
            }
        }
    }
    for base in series {
        let instance = base.instance.as_str();
        for (result, part, whole) in COMPUTED_SHARES.into_iter().filter(|(_, part, _)| base.counter == *part) {
            if let (Some(part), Some(whole)) = (column_of(part, instance), column_of(whole, instance)) {
                add_missing(result, instance, 1.0, CellRecipe::Share(part, whole));
            }
        }
        let columns = [network::RECEIVED_BYTES_PER_S, network::SENT_BYTES_PER_S, "foreign.net-dev.%ifutil"];
        if base.counter == columns[0]
            && let [Some(received), Some(sent), Some(percent)] = columns.map(|counter| column_of(counter, instance))
        {
            add_missing(network::LINK_BYTES_PER_S, instance, base.scale, CellRecipe::Link([received, sent, percent]));
        }
    }
    let either = |a: &str, b: &str| column_of(a, "").or_else(|| column_of(b, ""));
    let used = either("foreign.memory.kbmemused", "foreign.memory.memused");
    let percent = either("foreign.memory.%memused", "foreign.memory.memused-percent");
    if let (Some(free), Some(used), Some(percent)) = (column_of(memory::FREE_BYTES, ""), used, percent) {
        let others = [memory::BUFFERS_BYTES, memory::CACHED_BYTES, memory::SLAB_BYTES];
        let others = others.into_iter().filter_map(|c| column_of(c, "")).collect();
        let memory =
            MemoryColumns { free_column: free, used_column: used, percent_column: percent, other_columns: others };
        add_missing(memory::TOTAL_BYTES, "", 1024.0, CellRecipe::Memory(Box::new(memory)));
    }
    let swap_used = either("foreign.memory.kbswpused", "foreign.memory.swpused");
    if let (Some(free), Some(used)) = (column_of(memory::SWAP_FREE_BYTES, ""), swap_used) {
        add_missing(memory::SWAP_TOTAL_BYTES, "", 1024.0, CellRecipe::Sum(free, used));
    }
    computable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_memory_from_the_share_of_used_memory() {
        // 16 GiB: free, used, share, buffers, cached
        let total = |row: [f64; 5]| {
            MemoryColumns { free_column: 0, used_column: 1, percent_column: 2, other_columns: vec![3, 4] }
                .total_memory(&row)
        };
        let size = 16_777_216.0;
        // used is all that is not free
        assert_eq!(total([1_677_721.0, 15_099_495.0, 90.0, 100_000.0, 8_000_000.0]), size);
        // used is without buffers and cache, and no slab
        assert_eq!(total([4_777_216.0, 6_000_000.0, 35.76, 1_000_000.0, 5_000_000.0]), size);
        // 3 GiB of slab stand in no column
        let without_slab = total([1_631_488.0, 6_000_000.0, 35.76, 1_000_000.0, 5_000_000.0]);
        assert!((without_slab / size - 1.0).abs() < 1e-3, "{without_slab}");
        // whole percents are too coarse to doubt a sum
        assert_eq!(total([4_777_216.0, 6_000_000.0, 36.0, 1_000_000.0, 5_000_000.0]), size);
        assert!(total([f64::NAN, 1.0, 1.0, 1.0, 1.0]).is_nan());
    }
}
