//! Counters that a log gives in parts: a queue as rate times duration, a size
//! as what is free and what is used.

use std::collections::HashMap;

use diskwright_base::Series;

/// How a cell comes from others of the row.
#[derive(Clone, Debug)]
pub enum Extra {
    /// The product of two columns.
    Product(u32, u32, u32),
    /// The sum of two columns.
    Sum(u32, u32, u32),
    /// Physical memory from what is free and used.
    Memory(Box<Memory>, u32),
}

/// What tells the size of memory. sysstat changed what it counts as used:
/// first all that is not free, later (12.0) without buffers, cache and slab.
/// The share that stands beside it tells which.
#[derive(Clone, Debug)]
pub struct Memory {
    free: u32,
    used: u32,
    percent: u32,
    others: Vec<u32>,
}

/// An extra without its own column.
pub struct Recipe(Extra);

impl Recipe {
    /// With its column.
    pub fn into(self, column: u32) -> Extra {
        match self.0 {
            Extra::Product(a, b, _) => Extra::Product(a, b, column),
            Extra::Sum(a, b, _) => Extra::Sum(a, b, column),
            Extra::Memory(memory, _) => Extra::Memory(memory, column),
        }
    }
}

/// A series that can be computed.
pub struct Wanted {
    /// Its counter.
    pub counter: String,
    /// Its instance.
    pub instance: String,
    /// Its scale.
    pub scale: f64,
    /// How.
    pub extra: Recipe,
}

impl Extra {
    /// Fills its cell, unless the log brought it.
    pub fn compute(&self, row: &mut [f64]) {
        let (column, value) = match self {
            Extra::Product(a, b, column) => (*column, row[*a as usize] * row[*b as usize]),
            Extra::Sum(a, b, column) => (*column, row[*a as usize] + row[*b as usize]),
            Extra::Memory(memory, column) => (*column, memory.total(row)),
        };
        if row[column as usize].is_nan() {
            row[column as usize] = value;
        }
    }
}

impl Memory {
    fn total(&self, row: &[f64]) -> f64 {
        let (free, used) = (row[self.free as usize], row[self.used as usize]);
        let percent = row[self.percent as usize];
        let others: f64 = self.others.iter().map(|c| row[*c as usize]).filter(|v| !v.is_nan()).sum();
        let (old, new) = (free + used, free + used + others);
        let miss = |total: f64| (used / total * 100.0 - percent).abs();
        if miss(new) < miss(old) { new } else { old }
    }
}

/// Pairs of counters of one instance, and what they make: counter, first,
/// second, whether it is their product.
const PAIRS: [(&str, &str, &str, bool); 8] = [
    ("physical_disk.avg_read_queue_length", "physical_disk.reads_per_s", "physical_disk.avg_s_per_read", true),
    ("physical_disk.avg_write_queue_length", "physical_disk.writes_per_s", "physical_disk.avg_s_per_write", true),
    ("physical_disk.flush_queue_length", "physical_disk.flushes_per_s", "physical_disk.avg_s_per_flush", true),
    ("logical_disk.avg_read_queue_length", "logical_disk.reads_per_s", "logical_disk.avg_s_per_read", true),
    ("logical_disk.avg_write_queue_length", "logical_disk.writes_per_s", "logical_disk.avg_s_per_write", true),
    ("logical_disk.total_bytes", "logical_disk.free_bytes", "foreign.filesystem.MBfsused", false),
    ("logical_disk.inodes_total", "logical_disk.inodes_free", "foreign.filesystem.Iused", false),
    ("paging.scanned_pages_per_s", "paging.scanned_direct_pages_per_s", "foreign.paging.pgscank", false),
];

/// What can be computed of these series and is not there yet.
pub fn possible(by_target: &HashMap<(String, String), u32>, series: &[Series]) -> Vec<Wanted> {
    let of = |counter: &str, instance: &str| by_target.get(&(counter.to_owned(), instance.to_owned())).copied();
    let mut found = Vec::new();
    let mut want = |counter: &str, instance: &str, scale: f64, extra: Extra| {
        if of(counter, instance).is_none() {
            let (counter, instance) = (counter.to_owned(), instance.to_owned());
            found.push(Wanted { counter, instance, scale, extra: Recipe(extra) });
        }
    };
    for one in series {
        for (made, first, second, is_product) in PAIRS {
            if one.counter != first {
                continue;
            }
            let (Some(a), Some(b)) = (of(first, &one.instance), of(second, &one.instance)) else { continue };
            if is_product {
                want(made, &one.instance, one.scale * series[b as usize].scale, Extra::Product(a, b, 0));
            } else {
                want(made, &one.instance, one.scale, Extra::Sum(a, b, 0));
            }
        }
    }
    let either = |a: &str, b: &str| of(a, "").or_else(|| of(b, ""));
    let used = either("foreign.memory.kbmemused", "foreign.memory.memused");
    let percent = either("foreign.memory.%memused", "foreign.memory.memused-percent");
    if let (Some(free), Some(used), Some(percent)) = (of("memory.free_bytes", ""), used, percent) {
        let others = ["memory.buffers_bytes", "memory.cached_bytes", "memory.slab_bytes"];
        let others = others.into_iter().filter_map(|c| of(c, "")).collect();
        let memory = Memory { free, used, percent, others };
        want("memory.total_bytes", "", 1024.0, Extra::Memory(Box::new(memory), 0));
    }
    let swap_used = either("foreign.memory.kbswpused", "foreign.memory.swpused");
    if let (Some(free), Some(used)) = (of("memory.swap_free_bytes", ""), swap_used) {
        want("memory.swap_total_bytes", "", 1024.0, Extra::Sum(free, used, 0));
    }
    found
}
