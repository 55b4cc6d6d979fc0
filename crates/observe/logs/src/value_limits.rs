//! Limits of possible values, the same for all readers. They catch an underflow in the kernel, shares above 100 %, a
//! row of zeros after a pause. Impossible values become gaps, counted with their reason.
//!
//! Limits are far above what machines do, so that nothing true is lost: a disk's share of busy
//! time may pass 100 % a little, a process may take many processors, guests' time may stand
//! beside the time that holds it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use diskwright_base::catalogue::CounterKind;
use diskwright_base::counter_ids::memory;
use diskwright_base::{Catalogue, Counter, Frame, Schema};

use crate::Skips;

/// Smallest value shown by a 32-bit counter that ran backwards.
const UNDERFLOW_COUNT: f64 = 2_147_483_648.0;
/// Largest rate in bytes per second; no machine exceeds it.
const MAX_BYTES_PER_S: f64 = 2e12;
/// Free and cached memory from which on available memory cannot be 0.
const MIN_RECLAIMABLE_BYTES: f64 = 256.0 * 1_048_576.0;
const UNCOUNTED_MEMORY: &str = "available memory is 0 although memory is free or cached: the recorder did not count it";
const NEGATIVE_VALUE: &str = "a negative value of a counter that cannot be negative";
pub(crate) const IMPOSSIBLY_LARGE: &str =
    "an impossibly large value (a counter that went back, or a placeholder for an unknown value)";

/// Fault in the shares of a processor's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareFault {
    /// One of them is out of range.
    Value,
    /// All are 0.
    Zero,
    /// Their sum is out of range.
    Sum,
}

impl ShareFault {
    pub(crate) fn to_reason(self) -> &'static str {
        match self {
            ShareFault::Value => "an impossible share of time",
            ShareFault::Zero => "shares of a processor that are all zero: nothing was counted, or it was off",
            ShareFault::Sum => "shares of a processor's time that do not add up to 100 %",
        }
    }
}

/// Finds the fault of a processor's shares of time: none may be larger than `max_share`, and their sum must lie in
/// `sum`. Gaps are ignored.
///
/// The caller decides how far the sum may be off. Percentages that a tool printed side by side add up to 100, except
/// for rounding ([`find_percent_fault`]). A tool that leaves a share out has no smallest sum (`tool/tick_row.rs`).
/// [`ValueLimits`] gets columns of any reader, in which one share may include another, so it refuses only sums that no
/// rounding explains.
pub(crate) fn find_share_fault(
    shares: impl Iterator<Item = f64>,
    max_share: f64,
    sum: RangeInclusive<f64>,
) -> Option<ShareFault> {
    let (mut total, mut is_out) = (0.0, false);
    for share in shares.filter(|share| !share.is_nan()) {
        total += share;
        is_out |= !(0.0..=max_share).contains(&share);
    }
    match total {
        _ if is_out => Some(ShareFault::Value),
        0.0 => Some(ShareFault::Zero),
        total if !sum.contains(&total) => Some(ShareFault::Sum),
        _ => None,
    }
}

/// Finds the fault of printed percentages of a whole processor: they add up to 100, except for rounding.
pub(crate) fn find_percent_fault(shares: &[f64]) -> Option<ShareFault> {
    let slack = 0.6 * shares.len() as f64;
    find_share_fault(shares.iter().copied(), 100.1, 100.0 - slack..=100.0 + slack)
}

/// Columns with the shares of one processor's time, or of all processors.
#[derive(Debug, Default)]
struct ProcessorShares {
    instance: String,
    idle: Option<usize>,
    user: Option<usize>,
    system: Option<usize>,
    /// Included in `privileged`, if the log gives the kernel's time under that name.
    interrupts: Vec<usize>,
    others: Vec<usize>,
    /// Some tools count it beside the time of users, others include it there.
    guests: Vec<usize>,
    has_steal: bool,
    has_interrupts: bool,
}

impl ProcessorShares {
    fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        let main = [self.idle, self.user, self.system].into_iter().flatten();
        main.chain(self.others.iter().chain(&self.interrupts).chain(&self.guests).copied())
    }

    /// Returns true if the shares may add up to all of the time; false also for a row of zeros.
    fn can_add_up(&self, value: impl Fn(usize) -> f64) -> bool {
        let known = |column: Option<usize>| column.map(&value).filter(|v| !v.is_nan());
        let (Some(idle), Some(user), Some(system)) = (known(self.idle), known(self.user), known(self.system)) else {
            return true;
        };
        let sum = |columns: &[usize]| columns.iter().map(|c| value(*c)).filter(|v| !v.is_nan()).sum::<f64>();
        let interrupts = if self.has_interrupts { sum(&self.interrupts) } else { 0.0 };
        let total = idle + user + system + interrupts + sum(&self.others);
        // tools from before Linux 2.6.11 do not show the time that a hypervisor took
        let min_sum = if self.has_steal { 0.5 } else { 0.1 };
        total + sum(&self.guests) >= min_sum && total <= 1.5
    }
}

/// Limits of a schema's columns.
#[derive(Debug, Default)]
pub struct ValueLimits {
    schema: Arc<Schema>,
    /// Smallest value of each column.
    min_values: Vec<f64>,
    /// Largest value of each column.
    max_values: Vec<f64>,
    /// Columns of running totals, each with the largest growth per second.
    total_limits: Vec<(usize, f64)>,
    shares: Vec<ProcessorShares>,
    /// Columns of available, free and cached memory.
    memory: Option<[usize; 3]>,
}

impl ValueLimits {
    /// Returns the limits of a schema's columns.
    pub fn for_schema(schema: &Arc<Schema>) -> ValueLimits {
        let mut limits = ValueLimits {
            shares: group_processor_shares(schema),
            schema: Arc::clone(schema),
            ..ValueLimits::default()
        };
        for (column, series) in schema.series.iter().enumerate() {
            let counter = Catalogue::builtin().get(&series.counter).filter(|_| series.scale > 0.0);
            let max = counter.map_or(f64::INFINITY, |c| max_counter_value(c, &series.instance) / series.scale);
            let is_total = counter.is_some_and(|c| c.kind == CounterKind::Total);
            limits.total_limits.extend(is_total.then_some((column, max)));
            limits.min_values.push(if counter.is_some() { 0.0 } else { f64::NEG_INFINITY });
            limits.max_values.push(if is_total { f64::INFINITY } else { max });
        }
        let column = |id: &str| schema.series.iter().position(|s| s.counter == id);
        let memory = [memory::AVAILABLE_BYTES, memory::FREE_BYTES, memory::CACHED_BYTES].map(column);
        if let [Some(available), Some(free), Some(cached)] = memory {
            limits.memory = Some([available, free, cached]);
        }
        limits
    }

    /// Returns true if these limits belong to the schema.
    pub fn apply_to(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(&self.schema, schema)
    }

    /// Returns true if no cell of a row must be left out.
    pub fn accepts_row(&self, row: &[f64], elapsed_ns: u64) -> bool {
        let seconds = limit_seconds(elapsed_ns);
        // without an early exit the comparison is vectorized
        let cells = row.iter().zip(&self.min_values).zip(&self.max_values);
        let is_out = cells.fold(false, |out, ((value, min), max)| out | (value < min) | (value > max));
        !is_out
            && !self.total_limits.iter().any(|(column, max)| row[*column] > max * seconds)
            && self.shares.iter().all(|shares| shares.can_add_up(|column| self.scale_value(column, row[column])))
            && self.find_uncounted_memory(|column| row[column]).is_none()
    }

    /// Finds the column of available memory if it is 0 and cannot be 0, as in logs that were converted from older ones.
    fn find_uncounted_memory(&self, value: impl Fn(usize) -> f64) -> Option<usize> {
        let [available, free, cached] = self.memory?;
        let reclaimable = self.scale_value(free, value(free)) + self.scale_value(cached, value(cached));
        (value(available) == 0.0 && value(free) > 0.0 && reclaimable > MIN_RECLAIMABLE_BYTES).then_some(available)
    }

    /// Replaces impossible values by gaps.
    pub fn clear_impossible(&self, row: &mut [f64], elapsed_ns: u64, skips: &mut Skips) {
        let seconds = limit_seconds(elapsed_ns);
        let mut leave_out = |row: &mut [f64], column: usize| {
            let series = &self.schema.series[column];
            let name = format!("{} {}", series.counter, series.instance);
            skips.add_skip(name.trim_end(), if row[column] < 0.0 { NEGATIVE_VALUE } else { IMPOSSIBLY_LARGE });
            row[column] = f64::NAN;
        };
        for column in 0..row.len() {
            if row[column] < self.min_values[column] || row[column] > self.max_values[column] {
                leave_out(row, column);
            }
        }
        for (column, max) in &self.total_limits {
            if row[*column] > max * seconds {
                leave_out(row, *column);
            }
        }
        for shares in &self.shares {
            if shares.can_add_up(|column| self.scale_value(column, row[column])) {
                continue;
            }
            skips.add_skip(format!("processor {}", shares.instance), ShareFault::Sum.to_reason());
            shares.columns().for_each(|column| row[column] = f64::NAN);
        }
        if let Some(column) = self.find_uncounted_memory(|column| row[column]) {
            skips.add_skip(self.schema.series[column].counter.as_str(), UNCOUNTED_MEMORY);
            row[column] = f64::NAN;
        }
    }

    /// As [`ValueLimits::clear_impossible`], for all ticks of a frame; `None` if nothing is left out.
    pub fn clear_frame(&self, frame: &Frame, skips: &mut Skips) -> Option<Frame> {
        let ticks = frame.ticks();
        let is_out = |column: usize| {
            let (min, max) = (self.min_values[column], self.max_values[column]);
            frame.column(column).iter().fold(false, |out, value| out | (*value < min) | (*value > max))
        };
        let grows_too_fast = |(column, max): &(usize, f64)| {
            let mut cells = frame.column(*column).iter().zip(ticks);
            cells.any(|(value, tick)| *value > max * limit_seconds(tick.elapsed_ns))
        };
        let can_always_add_up = |shares: &ProcessorShares| {
            let cell = |tick: usize| move |column: usize| self.scale_value(column, frame.column(column)[tick]);
            (0..ticks.len()).all(|tick| shares.can_add_up(cell(tick)))
        };
        let has_fault = (0..self.min_values.len()).any(is_out)
            || self.total_limits.iter().any(grows_too_fast)
            || !self.shares.iter().all(can_always_add_up)
            || (0..ticks.len()).any(|tick| self.find_uncounted_memory(|column| frame.column(column)[tick]).is_some());
        if !has_fault {
            return None;
        }
        let mut cleared = Frame::new(Arc::clone(frame.schema()), ticks.len());
        let mut row = vec![f64::NAN; self.min_values.len()];
        for (index, tick) in ticks.iter().enumerate() {
            row.iter_mut().enumerate().for_each(|(column, cell)| *cell = frame.column(column)[index]);
            self.clear_impossible(&mut row, tick.elapsed_ns, skips);
            cleared.push(*tick, &row);
        }
        Some(cleared)
    }

    fn scale_value(&self, column: usize, value: f64) -> f64 {
        value * self.schema.series[column].scale
    }
}

/// Returns the seconds that limits per second are multiplied by: at least 1, for short ticks are measured less exactly.
fn limit_seconds(elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { f64::INFINITY } else { (elapsed_ns as f64 * 1e-9).max(1.0) }
}

/// Largest possible value of a counter, in its unit.
pub(crate) fn max_value(id: &str) -> f64 {
    Catalogue::builtin().get(id).map_or(f64::INFINITY, |counter| max_counter_value(counter, ""))
}

/// Largest possible value in the counter's unit; of a running total, its largest growth per second.
fn max_counter_value(counter: &Counter, instance: &str) -> f64 {
    let id = counter.id.as_str();
    let (object, name) = id.split_once('.').unwrap_or(("", id));
    let is_total = counter.kind == CounterKind::Total;
    let is_single = object == "pressure" || (object == "processor" && instance != "_total" && !instance.is_empty());
    match (counter.unit.as_str(), counter.kind) {
        ("fraction", CounterKind::BusyFraction) => match object {
            // rounding, and ticks of the clock that fall into the next row
            "processor" | "pressure" | "cgroup" => 1.1,
            // a queue under another name, and what a process's threads wait together
            _ if name.ends_with("_nt") || object == "process" => 1e5,
            _ => 10.0,
        },
        ("fraction", _) => 100.0,
        ("processors" | "requests", _) => 1e6,
        ("s", _) if is_total && is_single => 10.0,
        ("s", CounterKind::Total | CounterKind::AveragePerOperation) => 1e6,
        ("per_s" | "pages_per_s", _) => UNDERFLOW_COUNT,
        ("count" | "pages", _) if is_total => UNDERFLOW_COUNT,
        ("count", _) if object == "system" => 1e7,
        ("bytes_per_s", _) => MAX_BYTES_PER_S,
        ("bytes", _) if is_total => MAX_BYTES_PER_S,
        ("bytes", CounterKind::AveragePerOperation) => 1e12,
        _ => 1e18,
    }
}

/// Groups a schema's columns of processor shares by processor.
fn group_processor_shares(schema: &Schema) -> Vec<ProcessorShares> {
    let mut processors: Vec<ProcessorShares> = Vec::new();
    let mut privileged: Vec<(usize, usize)> = Vec::new();
    let mut indexes = std::collections::HashMap::new();
    for (column, series) in schema.series.iter().enumerate() {
        let is_guest = series.counter.starts_with("foreign.") && is_guest(&series.counter);
        let Some(name) = series.counter.strip_prefix("processor.").or(is_guest.then_some("guest")) else { continue };
        if !matches!(
            name,
            "idle" | "user" | "system" | "privileged" | "nice" | "iowait" | "steal" | "irq" | "softirq" | "guest"
        ) {
            continue;
        }
        let instance = if series.instance.is_empty() { "_total" } else { &series.instance };
        let index = *indexes.entry(instance).or_insert_with(|| {
            processors.push(ProcessorShares { instance: instance.to_owned(), ..ProcessorShares::default() });
            processors.len() - 1
        });
        let shares = &mut processors[index];
        match name {
            "idle" => shares.idle = Some(column),
            "user" => shares.user = Some(column),
            "system" => (shares.system, shares.has_interrupts) = (Some(column), true),
            "privileged" => privileged.push((index, column)),
            "irq" | "softirq" => shares.interrupts.push(column),
            "guest" => shares.guests.push(column),
            _ => {
                shares.has_steal |= name == "steal";
                shares.others.push(column);
            }
        }
    }
    for (index, column) in privileged {
        processors[index].system.get_or_insert(column);
    }
    processors.retain(|s| s.idle.is_some() && s.user.is_some() && s.system.is_some());
    processors
}

/// Recognises mpstat's and sar's `%guest` and `%gnice`, and vmstat's `gu`.
fn is_guest(counter: &str) -> bool {
    let known = ["foreign.cpu.", "foreign.vmstat."].iter().find_map(|report| counter.strip_prefix(report));
    known.is_some_and(|name| matches!(name.trim_start_matches('%'), "guest" | "gnice" | "guest_nice" | "gu"))
}

#[cfg(test)]
mod tests {
    use diskwright_base::Series;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn schema(series: &[(&str, &str, f64)]) -> Arc<Schema> {
        let to_series = |(counter, instance, scale): &(&str, &str, f64)| Series {
            counter: (*counter).into(),
            instance: (*instance).into(),
            scale: *scale,
        };
        Arc::new(Schema::new(series.iter().map(to_series).collect()))
    }

    /// Returns what remains of a value over a tick, and the reasons of skips.
    fn left(series: (&str, &str, f64), value: f64, elapsed_ns: u64) -> (bool, Vec<String>) {
        let limits = ValueLimits::for_schema(&schema(&[series]));
        let (mut row, mut skips) = ([value], Skips::default());
        let held = limits.accepts_row(&row, elapsed_ns);
        limits.clear_impossible(&mut row, elapsed_ns, &mut skips);
        assert_eq!(held, !row[0].is_nan(), "{series:?} {value}");
        (held, skips.into_list().into_iter().map(|s| s.reason).collect())
    }

    #[test]
    fn removes_impossible_values_and_keeps_odd_ones() {
        let wrapped = 4_294_967_295.0;
        for (counter, instance, scale, good, bad) in [
            ("processor.iowait", "_total", 0.01, 100.6, 3_035_110_221.0),
            ("processor.idle", "cpu3", 0.01, 101.0, 120.0),
            ("pressure.io_some", "", 0.01, 100.3, 250.0),
            ("physical_disk.busy", "md0", 0.01, 130.0, 42_949_672.0),
            ("physical_disk.disk_time_nt", "0 C:", 0.01, 80_000.0, 1e9),
            ("physical_disk.avg_queue_length", "sda", 1.0, 5000.0, 4_294_967.3),
            ("physical_disk.current_queue_length", "sda", 1.0, 300.0, wrapped),
            ("physical_disk.avg_s_per_transfer", "sda", 0.001, 300_000.0, wrapped),
            ("physical_disk.reads_per_s", "sda", 1.0, 14e6, wrapped),
            ("physical_disk.read_bytes_per_s", "sda", 1024.0, 2e7, wrapped),
            ("physical_disk.reads", "sda", 1.0, 14e7, 10.0 * wrapped),
            ("physical_disk.read_bytes", "sda", 512.0, 4e8, 1.8e19),
            ("physical_disk.busy_time_s", "sda", 0.001, 10_600.0, 1.8e19),
            ("processor.user_s", "cpu0", 0.01, 1010.0, wrapped),
            ("processor.idle_s", "_total", 0.01, 400_000.0, 1.8e19),
            ("pressure.io_some_s", "", 1e-6, 10_100_000.0, 1.8e19),
            ("paging.swap_in_pages_per_s", "", 1.0, 1e6, wrapped),
            ("system.running", "", 1.0, 4000.0, wrapped),
            ("system.blocked", "", 1.0, 4000.0, 18_446_744_073_709_551_615.0),
            ("memory.free_bytes", "", 1024.0, 3e10, 18_446_744_073_709_551_000.0),
        ] {
            assert_eq!(left((counter, instance, scale), good, 10 * S), (true, vec![]), "{counter}");
            assert_eq!(
                left((counter, instance, scale), bad, 10 * S),
                (false, vec![IMPOSSIBLY_LARGE.to_owned()]),
                "{counter}"
            );
            assert_eq!(
                left((counter, instance, scale), -1.0, 10 * S),
                (false, vec![NEGATIVE_VALUE.to_owned()]),
                "{counter}"
            );
        }
        assert!(left(("foreign.node.temperature", "", 1.0), -40.0, S).0, "what is not known is not judged");
        assert!(left(("process.processor", "7", 1.0), 63.9, S).0, "a process takes many processors");
        assert!(left(("processor.user_s", "cpu0", 0.01), 1e9, 0).0, "nor what is of no known time");
    }

    #[test]
    fn removes_all_shares_that_do_not_add_up() {
        let names = ["user", "nice", "system", "iowait", "steal", "irq", "softirq", "idle"];
        let make_schema = |names: &[&str]| -> Arc<Schema> {
            let id = |n: &&str| if n.starts_with("foreign") { (*n).to_owned() } else { format!("processor.{n}") };
            let ids: Vec<String> = names.iter().map(id).collect();
            schema(&ids.iter().map(|id| (id.as_str(), "cpu1", 0.01)).collect::<Vec<_>>())
        };
        let holds = |names: &[&str], row: &[f64]| {
            let limits = ValueLimits::for_schema(&make_schema(names));
            let (mut cells, mut skips) = (row.to_vec(), Skips::default());
            let held = limits.accepts_row(row, S);
            limits.clear_impossible(&mut cells, S, &mut skips);
            assert!(held || cells.iter().all(|v| v.is_nan()), "{cells:?}");
            assert_eq!(skips.into_list().len(), usize::from(!held));
            held
        };
        assert!(holds(&names, &[2.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.1, 96.4]));
        assert!(holds(&names, &[100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), "busy for all of the time");
        assert!(!holds(&names, &[0.0; 8]), "after a pause");
        assert!(!holds(&names, &[90.0, 0.0, 80.0, 0.0, 0.0, 0.0, 0.0, 30.0]));
        let guest = [&names[..], &["foreign.cpu.%guest"]].concat();
        assert!(holds(&guest, &[5.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 5.0, 85.0]), "guests stand beside in mpstat");
        assert!(holds(&guest, &[90.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 5.0, 85.0]), "and in user elsewhere");
        assert!(!holds(&guest, &[0.0; 9]));
        // Windows: interrupts are part of the privileged time
        let nt = ["user", "privileged", "softirq", "idle"];
        assert!(holds(&nt, &[5.0, 90.0, 80.0, 5.0]));
        // before steal was printed, the sum lacked it
        assert!(holds(&["user", "system", "idle"], &[20.0, 10.0, 5.0]));
        assert!(!holds(&["user", "system", "idle"], &[0.0, 0.0, 0.0]));
        // a selection of columns need not add up
        assert!(holds(&["user", "idle"], &[0.0, 0.0]) && holds(&["idle"], &[0.0]));
        assert!(holds(&names, &[f64::NAN; 8]));
    }

    #[test]
    fn printed_shares_add_up_but_for_rounding() {
        for (shares, fault) in [
            (&[10.0, 5.0, 0.0, 85.0][..], None),
            (&[33.3, 33.3, 33.3], None),
            (&[10.0, 5.0, 0.0, 15.0], Some(ShareFault::Sum)),
            (&[0.0; 4], Some(ShareFault::Zero)),
            (&[10.0, 5.0, 900.0, 85.0], Some(ShareFault::Value)),
            (&[-1.0, 101.0], Some(ShareFault::Value)),
        ] {
            assert_eq!(find_percent_fault(shares), fault, "{shares:?}");
        }
        assert_eq!(find_share_fault([f64::NAN, 0.4, 0.6].into_iter(), 1.0, 0.9..=1.1), None);
    }

    #[test]
    fn a_frame_is_copied_only_for_a_fault() {
        let schema = schema(&[("processor.iowait", "_total", 0.01), ("physical_disk.reads", "sda", 1.0)]);
        let frame = |rows: &[[f64; 2]]| {
            let mut frame = Frame::new(Arc::clone(&schema), rows.len());
            for (index, row) in rows.iter().enumerate() {
                let time_ns = (index as i64 + 1) * S as i64;
                frame.push(diskwright_base::Tick { time_ns, elapsed_ns: S }, row);
            }
            frame
        };
        let limits = ValueLimits::for_schema(&schema);
        let mut skips = Skips::default();
        assert!(limits.clear_frame(&frame(&[[1.0, 5.0], [f64::NAN, 6.0]]), &mut skips).is_none());
        let bad = frame(&[[1.0, 5.0], [4e9, 6.0], [2.0, 1e18]]);
        let cleared = limits.clear_frame(&bad, &mut skips).expect("two faults");
        assert!(cleared.column(0)[1].is_nan() && cleared.column(1)[2].is_nan());
        assert_eq!((cleared.column(0)[2], cleared.column(1)[1], cleared.ticks()), (2.0, 6.0, bad.ticks()));
        assert_eq!(skips.into_list().iter().map(|s| s.count).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn available_memory_of_nothing_beside_a_cache_was_not_counted() {
        let columns = ["available", "free", "cached"].map(|name| format!("memory.{name}_bytes"));
        let limits = ValueLimits::for_schema(&schema(&columns.each_ref().map(|id| (id.as_str(), "", 1024.0))));
        let gib = f64::from(1 << 20);
        for (row, is_gap) in [
            ([0.0, gib, 45.0 * gib], true),
            // the kernel's reserves may be all that is left
            ([0.0, 50_000.0, 90_000.0], false),
            ([0.0, f64::NAN, gib], false),
            ([1.0, gib, gib], false),
        ] {
            let (mut cleared, mut skips) = (row, Skips::default());
            limits.clear_impossible(&mut cleared, S, &mut skips);
            assert_eq!((cleared[0].is_nan(), limits.accepts_row(&row, S)), (is_gap, !is_gap), "{row:?}");
            let mut frame = Frame::new(Arc::clone(&limits.schema), 1);
            frame.push(diskwright_base::Tick { time_ns: 1, elapsed_ns: S }, &row);
            assert_eq!(limits.clear_frame(&frame, &mut skips).is_some(), is_gap);
        }
    }
}
