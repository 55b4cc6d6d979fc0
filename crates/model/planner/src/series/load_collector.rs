//! Sums over frames: the load of all disks together at each tick, and the load of each device over the whole log.

use std::collections::BTreeSet;
use std::sync::Arc;

use diskwright_base::counter_ids::{memory, paging, physical_disk};
use diskwright_base::topology::DEFAULT_PAGE_BYTES;
use diskwright_base::{Catalogue, CounterPlan, Frame, Histogram, RaidLevel, Schema, Topology};
use diskwright_diagnosis::recording_hints::LogOrigin;

use super::front_devices::{self, FrontDevice, LogDevices};
use super::missing_counters::{Completion, CounterRows};
use super::model_distance::{MIN_BUSY, MIN_BUSY_QUEUE};
use super::used_space::{SpaceCollector, SpacePlans};
use super::{FrontLoad, FrontSums, LoadCurve, LoadSeries, LoadTick, LoadedTick};

/// Maximum number of ticks with waiting requests that are kept per device.
const MAX_LOADED_TICKS: usize = 40_000;

const READS: usize = 0;
const WRITES: usize = 1;
const READ_BYTES: usize = 2;
const WRITE_BYTES: usize = 3;
const QUEUE: usize = 4;
const BUSY: usize = 5;
const READ_S: usize = 6;
const WRITE_S: usize = 7;
const RESPONSE: usize = 9;
const MERGES: usize = 10;
const IN_FLIGHT: usize = 11;
/// Counters of a device, in the order of the indexes above; the last six only complete others.
const COUNTERS: [&str; 18] = [
    "reads_per_s",
    "writes_per_s",
    "read_bytes_per_s",
    "write_bytes_per_s",
    "avg_queue_length",
    "busy",
    "avg_s_per_read",
    "avg_s_per_write",
    "transfers_per_s",
    "avg_s_per_transfer",
    "merges_per_s",
    "current_queue_length",
    "bytes_per_s",
    "avg_bytes_per_read",
    "avg_bytes_per_write",
    "avg_bytes_per_transfer",
    "avg_read_queue_length",
    "avg_write_queue_length",
];

/// Rows after those of the counters: requests per second whose bytes the log does not have.
const UNSIZED_READS: usize = COUNTERS.len();
const UNSIZED_WRITES: usize = COUNTERS.len() + 1;

type DevicePlans = [Option<CounterPlan>; COUNTERS.len()];

/// Plans for computing the load of a device.
struct FrontPlans {
    /// Index of the device among the series' fronts.
    front_index: usize,
    from_members: bool,
    level: Option<RaidLevel>,
    members: usize,
    instances: Vec<DevicePlans>,
}

/// Plans for everything that is read under a schema.
struct SchemaPlans {
    fronts: Vec<FrontPlans>,
    swap: [Option<CounterPlan>; 2],
    in_memory: Vec<[Option<CounterPlan>; 2]>,
    filesystems: Vec<SpacePlans>,
    swapped: Option<(CounterPlan, CounterPlan)>,
    refaults: [Option<CounterPlan>; 2],
}

/// Collects the load from a log's frames; a topology comes before the frames that it describes.
#[derive(Default)]
pub struct LoadCollector {
    /// Devices to which the load is limited; all if it is empty.
    only: Vec<String>,
    topology: Option<Topology>,
    plans: Option<(Arc<Schema>, SchemaPlans)>,
    series: LoadSeries,
    space: SpaceCollector,
    count: usize,
    scratch: Vec<f64>,
}

/// Values of one frame, one row per quantity.
struct DeviceValues {
    rows: Vec<Vec<f64>>,
}

impl LoadCollector {
    /// Collects only the load of these devices: an array by its own name or that of one of its disks, partitions,
    /// volumes and loop devices by theirs.
    pub fn for_devices(only: &[String]) -> LoadCollector {
        LoadCollector { only: only.to_vec(), ..LoadCollector::default() }
    }

    /// Sets the topology of the following frames.
    pub fn set_topology(&mut self, topology: Topology) {
        if self.topology.as_ref() != Some(&topology) {
            self.topology = Some(topology);
            self.plans = None;
        }
    }

    /// Sets the program that made the log, by the name of its format.
    pub fn set_log_format(&mut self, format: &str) {
        self.series.is_of_windows |= LogOrigin::from_format(format) == LogOrigin::Perfmon;
    }

    /// Adds a frame.
    pub fn add_frame(&mut self, frame: &Frame) {
        if self.plans.as_ref().is_none_or(|(schema, _)| !Arc::ptr_eq(schema, frame.schema())) {
            let schema_plans = self.plan_schema(frame.schema());
            self.plans = Some((Arc::clone(frame.schema()), schema_plans));
        }
        let Some((schema, schema_plans)) = self.plans.take() else { return };
        self.add_values(frame, &schema_plans);
        self.plans = Some((schema, schema_plans));
    }

    /// Returns everything that was collected.
    pub fn finish(mut self) -> LoadSeries {
        self.series.fronts.retain(|front| front.sums.seconds > 0.0);
        self.series
    }

    fn plan_schema(&mut self, schema: &Schema) -> SchemaPlans {
        let mut found = front_devices::find_front_devices(schema, self.topology.as_ref());
        if !self.only.is_empty() {
            let others = found.keep_devices(&self.only, schema, self.topology.as_ref());
            for name in others.names {
                if !self.series.unselected_devices.contains(&name) {
                    self.series.unselected_devices.push(name);
                }
            }
            for nested in others.nested {
                if !self.series.nested_devices.contains(&nested) {
                    self.series.notes.push(nested.1.clone());
                    self.series.nested_devices.push(nested);
                }
            }
        }
        let swaps_elsewhere = found.swaps_elsewhere(self.topology.as_ref(), !self.only.is_empty());
        let LogDevices { fronts, in_memory, filesystems, notes } = found;
        for note in notes {
            if !self.series.notes.contains(&note) {
                self.series.notes.push(note);
            }
        }
        let catalogue = Catalogue::builtin();
        let plan = |counter: &str, instance: &str| CounterPlan::resolve_counter(catalogue, schema, counter, instance);
        let plans = |object: &str, instance: &str| -> DevicePlans {
            let mut plans = DevicePlans::default();
            for (index, name) in COUNTERS.iter().enumerate() {
                // most logs have what the others would complete
                if index <= IN_FLIGHT || plans[..=WRITE_BYTES].iter().any(Option::is_none) {
                    plans[index] = plan(&format!("{object}.{name}"), instance);
                }
            }
            plans
        };
        let fronts = fronts
            .iter()
            .map(|front| FrontPlans {
                front_index: self.front_index(front),
                from_members: front.from_members,
                level: front.level,
                members: front.members,
                instances: front.instances.iter().map(|instance| plans(front.object, instance)).collect(),
            })
            .collect();
        let filesystems = self.space.plan_filesystems(&mut self.series, schema, filesystems);
        let pair = |a: &str, b: &str, instance: &str| plan(a, instance).zip(plan(b, instance));
        let bytes = [physical_disk::READ_BYTES_PER_S, physical_disk::WRITE_BYTES_PER_S];
        SchemaPlans {
            fronts,
            swap: [paging::SWAP_IN_PAGES_PER_S, paging::SWAP_OUT_PAGES_PER_S]
                .map(|id| plan(id, "").filter(|_| !swaps_elsewhere)),
            in_memory: in_memory.iter().map(|device| bytes.map(|id| plan(id, device))).collect(),
            filesystems,
            swapped: pair(memory::SWAP_TOTAL_BYTES, memory::SWAP_FREE_BYTES, ""),
            refaults: [paging::REFAULTS_FILE_PER_S, paging::REFAULTS_ANON_PER_S].map(|id| plan(id, "")),
        }
    }

    /// Returns the index of a device among those already known.
    fn front_index(&mut self, front: &FrontDevice) -> usize {
        let holds_swap = front.holds_swap(self.topology.as_ref());
        let device = self.topology.as_ref().and_then(|topology| topology.find_device(&front.name));
        let bytes = device.and_then(|device| device.bytes);
        let model = device.and_then(|device| device.model.clone()).filter(|_| front.members == 1);
        let is_same = |f: &FrontLoad| f.name == front.name && f.members == front.members && f.level == front.level;
        if let Some(index) = self.series.fronts.iter().position(is_same) {
            let known = &mut self.series.fronts[index];
            known.holds_swap = known.holds_swap.max(holds_swap);
            known.bytes = bytes.map(|bytes| bytes as f64).or(known.bytes);
            known.model = model.or(known.model.take());
            return index;
        }
        self.series.fronts.push(FrontLoad {
            name: front.name.clone(),
            level: front.level,
            members: front.members,
            from_members: front.from_members,
            leaves: front.leaves.clone(),
            counts_all_disk_requests: front.counts_all_disk_requests(),
            rates: Histogram::new(),
            sums: FrontSums::default(),
            curve: LoadCurve::default(),
            loaded: Vec::new(),
            loaded_s: 0.0,
            holds_swap,
            bytes: bytes.map(|bytes| bytes as f64),
            model,
            busy_sums: FrontSums::default(),
            busy_by_queue_s: 0.0,
        });
        self.series.fronts.len() - 1
    }

    fn add_values(&mut self, frame: &Frame, schema_plans: &SchemaPlans) {
        let count = frame.ticks().len();
        let mut sums = vec![[0.0; 7]; count];
        for front in &schema_plans.fronts {
            let mut total: Option<DeviceValues> = None;
            for plans in &front.instances {
                let instance_values = self.read_values(frame, plans);
                match &mut total {
                    None => total = Some(instance_values),
                    Some(total) => total.add_values(&instance_values),
                }
            }
            let Some(mut values) = total else { continue };
            if front.from_members {
                values.front_end_values(front.level, front.members);
            }
            self.add_front(frame, front.front_index, &values, &mut sums);
        }
        let swap = self.swap_rates(frame, schema_plans);
        self.space.read_frame(&mut self.series, frame, &schema_plans.filesystems);
        self.read_memory_pressure(frame, schema_plans);
        if schema_plans.fronts.is_empty() {
            return;
        }
        for (index, tick) in frame.ticks().iter().enumerate() {
            if tick.elapsed_ns == 0 {
                continue;
            }
            let seconds = tick.elapsed_ns as f64 * 1e-9;
            if sums[index][..4].iter().any(|v| v.is_nan()) {
                self.series.gaps.0 += 1;
                self.series.gaps.1 += seconds;
                continue;
            }
            let with_sizes = self.fill_unknown_sizes(seconds, sums[index]);
            let tick = self.without_swap(tick.time_ns, seconds, with_sizes, swap[index]);
            self.series.ticks.push(tick);
        }
        self.count += count;
    }

    /// Gives requests without bytes the mean size of those with bytes at this tick.
    fn fill_unknown_sizes(&mut self, seconds: f64, sums: [f64; 7]) -> [f64; 5] {
        let [reads, writes, read_bytes, write_bytes, queue, unsized_reads, unsized_writes] = sums;
        self.series.unsized_requests[0] += unsized_reads * seconds;
        self.series.unsized_requests[1] += unsized_writes * seconds;
        let all_bytes = |bytes: f64, count: f64, unknown: f64| match count - unknown {
            sized if unknown > 0.0 && sized > 0.0 => bytes * count / sized,
            _ => bytes,
        };
        let read_bytes = all_bytes(read_bytes, reads, unsized_reads);
        [reads, writes, read_bytes, all_bytes(write_bytes, writes, unsized_writes), queue]
    }

    /// Removes swapping from a tick: swapped pages are subtracted from the bytes, and requests in proportion.
    fn without_swap(&mut self, time_ns: i64, seconds: f64, sums: [f64; 5], swap: [f64; 2]) -> LoadTick {
        let [reads, writes, read_bytes, write_bytes, queue] = sums;
        let share = |swap: f64, bytes: f64| if bytes > 0.0 { (swap / bytes).clamp(0.0, 1.0) } else { 0.0 };
        let (read_share, write_share) = (share(swap[0], read_bytes), share(swap[1], write_bytes));
        let swapping = reads * read_share + writes * write_share;
        let totals = [read_bytes * read_share, write_bytes * write_share, swapping];
        for (sum, value) in self.series.swap.iter_mut().zip(totals) {
            *sum += value * seconds;
        }
        let kept_share = if reads + writes > 0.0 { 1.0 - swapping / (reads + writes) } else { 1.0 };
        LoadTick {
            time_ns,
            seconds: seconds as f32,
            reads: (reads * (1.0 - read_share)) as f32,
            writes: (writes * (1.0 - write_share)) as f32,
            read_bytes: (read_bytes * (1.0 - read_share)) as f32,
            write_bytes: (write_bytes * (1.0 - write_share)) as f32,
            queue: (queue * kept_share) as f32,
        }
    }

    /// Reads the values of an instance; what the log lacks is completed from what it has.
    fn read_values(&mut self, frame: &Frame, plans: &DevicePlans) -> DeviceValues {
        let mut known: [Option<Vec<f64>>; COUNTERS.len()] = std::array::from_fn(|index| {
            plans[index].as_ref().map(|plan| {
                let mut row = Vec::new();
                plan.compute_values(frame, &mut row);
                row
            })
        });
        complete_counters(&mut known, &mut self.series.completions);
        let mut without_bytes = [vec![0.0; frame.ticks().len()], vec![0.0; frame.ticks().len()]];
        for (direction, (bytes, count)) in [(READ_BYTES, READS), (WRITE_BYTES, WRITES)].into_iter().enumerate() {
            if let (None, Some(requests)) = (&known[bytes], &known[count]) {
                without_bytes[direction].clone_from(requests);
                known[bytes] = Some(vec![0.0; frame.ticks().len()]);
                let note = "the log counts the requests of some disks without bytes";
                if !self.series.notes.iter().any(|known| known == note) {
                    self.series.notes.push(note.into());
                }
            }
        }
        let gaps = || vec![f64::NAN; frame.ticks().len()];
        let rows = known.into_iter().map(|row| row.unwrap_or_else(gaps)).chain(without_bytes);
        let mut values = DeviceValues { rows: rows.collect() };
        values.complete_queues();
        values
    }

    /// Adds a device's ticks to the sums of the device and to the sums of all devices.
    fn add_front(&mut self, frame: &Frame, front_index: usize, values: &DeviceValues, sums: &mut [[f64; 7]]) {
        let (first, Some(front)) = (self.count, self.series.fronts.get_mut(front_index)) else { return };
        for (index, tick) in frame.ticks().iter().enumerate() {
            let seconds = tick.elapsed_ns as f64 * 1e-9;
            let value = |row: usize| values.rows[row][index];
            let rows = [READS, WRITES, READ_BYTES, WRITE_BYTES, QUEUE, UNSIZED_READS, UNSIZED_WRITES];
            for (sum, row) in sums[index].iter_mut().zip(rows) {
                *sum += value(row);
            }
            let (reads, writes, queue) = (value(READS), value(WRITES), value(QUEUE));
            if tick.elapsed_ns == 0 || (reads + writes).is_nan() {
                continue;
            }
            let or_zero = |v: f64| if v.is_nan() { 0.0 } else { v };
            let tick_sums = FrontSums {
                seconds,
                reads: reads * seconds,
                writes: writes * seconds,
                read_bytes: value(READ_BYTES) * seconds,
                write_bytes: value(WRITE_BYTES) * seconds,
                queue_s: queue * seconds,
                busy_s: or_zero(value(BUSY)) * seconds,
                read_s: or_zero(value(READ_S)) * reads * seconds,
                write_s: or_zero(value(WRITE_S)) * writes * seconds,
            };
            front.sums.add_sums(&tick_sums);
            let is_busy_by_queue = value(BUSY).is_nan() && queue >= MIN_BUSY_QUEUE * front.members as f64;
            if value(BUSY) >= MIN_BUSY || is_busy_by_queue {
                front.busy_sums.add_sums(&tick_sums);
                front.busy_by_queue_s += if is_busy_by_queue { seconds } else { 0.0 };
            }
            let merges = or_zero(value(MERGES)) * seconds;
            self.series.merged.0 += merges;
            self.series.merged.1 += (reads + writes) * seconds;
            front.rates.record_many(((reads + writes) * 100.0) as u64, (seconds * 1e3).max(1.0) as u64);
            let is_in_balance = front.curve.is_in_balance(tick, (reads + writes) * seconds, value(IN_FLIGHT));
            if queue.is_nan() || reads + writes <= 0.0 {
                continue;
            }
            let number = first + index;
            if is_in_balance {
                front.curve.add_tick(front.member_load(reads, writes), &tick_sums);
            }
            if queue < 2.0 * front.members as f64 {
                continue;
            }
            front.loaded_s += seconds;
            if front.loaded.len() < MAX_LOADED_TICKS {
                let (number, time_ns, seconds) = (number as u32, tick.time_ns, seconds as f32);
                let (requests, queue) = ((reads + writes) as f32, queue as f32);
                front.loaded.push(LoadedTick { number, time_ns, seconds, requests, queue });
            }
        }
    }

    /// Bytes of a page in the counters of swapping and refaults.
    fn page_bytes(&self) -> f64 {
        self.topology.as_ref().map_or(DEFAULT_PAGE_BYTES, Topology::page_size_bytes)
    }

    /// Bytes per second read from and written to swap on disks, at each tick.
    fn swap_rates(&mut self, frame: &Frame, schema_plans: &SchemaPlans) -> Vec<[f64; 2]> {
        let page_bytes = self.page_bytes();
        let mut swap = vec![[0.0; 2]; frame.ticks().len()];
        for direction in 0..2 {
            let Some(plan) = &schema_plans.swap[direction] else { continue };
            plan.compute_values(frame, &mut self.scratch);
            for (sum, pages) in swap.iter_mut().zip(&self.scratch) {
                sum[direction] = if pages.is_nan() { 0.0 } else { pages * page_bytes };
            }
            for plan in schema_plans.in_memory.iter().filter_map(|plans| plans[direction].as_ref()) {
                plan.compute_values(frame, &mut self.scratch);
                for (sum, bytes) in swap.iter_mut().zip(&self.scratch) {
                    sum[direction] = (sum[direction] - if bytes.is_nan() { 0.0 } else { *bytes }).max(0.0);
                }
            }
        }
        swap
    }

    /// Reads the memory that is swapped out, and the refaults.
    fn read_memory_pressure(&mut self, frame: &Frame, schema_plans: &SchemaPlans) {
        if let Some((total, free)) = &schema_plans.swapped {
            let mut total_bytes = Vec::new();
            total.compute_values(frame, &mut total_bytes);
            free.compute_values(frame, &mut self.scratch);
            let mut used = total_bytes.iter().zip(&self.scratch).map(|(total, free)| total - free);
            self.series.swapped_out = used.rfind(|v| !v.is_nan()).or(self.series.swapped_out);
        }
        let page_bytes = self.page_bytes();
        for plan in schema_plans.refaults.iter().flatten() {
            plan.compute_values(frame, &mut self.scratch);
            let known = self.scratch.iter().zip(frame.ticks()).filter(|(pages, _)| !pages.is_nan());
            let bytes: f64 = known.map(|(pages, tick)| pages * page_bytes * tick.elapsed_ns as f64 * 1e-9).sum();
            *self.series.refault_bytes.get_or_insert(0.0) += bytes;
        }
    }
}

/// Completes the counters of a device that the log lacks.
fn complete_counters(known: &mut [Option<Vec<f64>>; COUNTERS.len()], done: &mut BTreeSet<Completion>) {
    let [reads, writes, read_bytes, write_bytes, queue, _, _, _, transfers, response, _, _, rest @ ..] = known;
    let [bytes, read_size, write_size, size, read_queue, write_queue] = rest;
    let rows = CounterRows {
        reads,
        writes,
        transfers,
        read_bytes,
        write_bytes,
        bytes,
        sizes: [read_size, write_size, size],
        queues: [read_queue, write_queue, queue],
        response,
    };
    rows.complete(done);
}

impl DeviceValues {
    fn add_values(&mut self, other: &DeviceValues) {
        for (row, (sums, values)) in self.rows.iter_mut().zip(&other.rows).enumerate() {
            for (sum, value) in sums.iter_mut().zip(values) {
                // for means and shares, the highest value represents all
                *sum = if matches!(row, BUSY | READ_S | WRITE_S | RESPONSE) { sum.max(*value) } else { *sum + value };
            }
        }
    }

    /// Computes queues by Little's law if the log only has response times.
    fn complete_queues(&mut self) {
        for index in 0..self.rows[QUEUE].len() {
            let requests = self.rows[READS][index] + self.rows[WRITES][index];
            if self.rows[QUEUE][index].is_nan() {
                self.rows[QUEUE][index] = match self.rows[RESPONSE][index] {
                    _ if requests == 0.0 => 0.0,
                    response => response * requests,
                };
            }
            for (bytes, count) in [(READ_BYTES, READS), (WRITE_BYTES, WRITES)] {
                // no queue without requests
                if self.rows[bytes][index].is_nan() && self.rows[count][index] == 0.0 {
                    self.rows[bytes][index] = 0.0;
                }
            }
        }
    }

    /// Converts the load on the members to that on an array, as if all its writes were small.
    fn front_end_values(&mut self, level: Option<RaidLevel>, members: usize) {
        for index in 0..self.rows[READS].len() {
            let (reads, writes) = (self.rows[READS][index], self.rows[WRITES][index]);
            let (front_reads, front_writes) = front_end_from_members(level, members, reads, writes);
            let ratio = |front: f64, back: f64| if back > 0.0 { front / back } else { 1.0 };
            self.rows[READ_BYTES][index] *= ratio(front_reads, reads);
            self.rows[WRITE_BYTES][index] *= ratio(front_writes, writes);
            self.rows[UNSIZED_READS][index] *= ratio(front_reads, reads);
            self.rows[UNSIZED_WRITES][index] *= ratio(front_writes, writes);
            self.rows[READS][index] = front_reads;
            self.rows[WRITES][index] = front_writes;
        }
    }
}

/// Converts all I/Os of the members to reads and writes of an array, as if all writes were small. If members read less
/// than such writes need, there were full stripes or cached parities: then all reads are attributed to the writes.
pub fn front_end_from_members(level: Option<RaidLevel>, members: usize, reads: f64, writes: f64) -> (f64, f64) {
    let parse = |level: RaidLevel| diskwright_simulator::ArrayLevel::parse(level.name());
    let (Some(level), Ok(members)) = (level.and_then(parse), u16::try_from(members)) else { return (reads, writes) };
    let front_end = |reads| crate::arithmetic::front_end_from_member_io(level, members, reads, writes);
    front_end(reads).or_else(|| Some((0.0, front_end(f64::MAX)?.1))).unwrap_or((reads, writes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::member_load;

    #[test]
    fn inverts_the_raid_5_example_of_nt_magazine() {
        // 126 reads and 73 writes per second on RAID 5 of three: 139 per disk
        assert_eq!(member_load(Some(RaidLevel::Raid5), 3, 126.0, 73.0).round(), 139.0);
        let (reads, writes) = (126.0 + 2.0 * 73.0, 2.0 * 73.0);
        assert_eq!(front_end_from_members(Some(RaidLevel::Raid5), 4, reads, writes), (126.0, 73.0));
        // with three members, a small write reads the other data: one read and two writes
        assert_eq!(front_end_from_members(Some(RaidLevel::Raid5), 3, 126.0 + 73.0, writes), (126.0, 73.0));
        // full stripes read nothing
        assert_eq!(front_end_from_members(Some(RaidLevel::Raid5), 4, 0.0, writes), (0.0, 73.0));
        assert_eq!(front_end_from_members(Some(RaidLevel::Linear), 3, 5.0, 7.0), (5.0, 7.0));
        assert_eq!(front_end_from_members(Some(RaidLevel::Raid10), 4, 126.0, 146.0), (126.0, 73.0));
        assert_eq!(front_end_from_members(Some(RaidLevel::Raid6), 8, 126.0 + 3.0 * 73.0, 3.0 * 73.0), (126.0, 73.0));
        assert_eq!(front_end_from_members(Some(RaidLevel::Raid1), 3, 126.0, 219.0), (126.0, 73.0));
    }
}
