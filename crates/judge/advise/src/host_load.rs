//! A host's load in a log, as far as advice needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskwright_base::counter_ids::{array, cgroup, logical_disk, memory, paging, physical_disk, pressure, processor};
use diskwright_base::counter_plan::{CounterPlan, CounterSummary};
use diskwright_base::{Catalogue, Frame, Schema};

use crate::drive_health::{HealthLoad, HealthReader};

/// Sums over a tick in which readers waited for each read: nearly all requests were reads, and few were in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequentialReads {
    /// Number of reads.
    pub reads: f64,
    /// Bytes read.
    pub bytes: f64,
    /// Sum of the reads' response times, s.
    pub read_s: f64,
    /// Seconds with a request in flight.
    pub busy_s: f64,
}

impl SequentialReads {
    /// Mean bytes of a read.
    #[must_use]
    pub fn bytes_per_read(&self) -> f64 {
        self.bytes / self.reads
    }
}

/// Sums over a log for one disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskLoad {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Number of reads.
    pub reads: f64,
    /// Number of writes.
    pub writes: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub write_bytes: f64,
    /// Sum of the response times of all reads, s.
    pub read_s: f64,
    /// Sum of the response times of all writes, s.
    pub write_s: f64,
    /// Seconds with a request in flight.
    pub busy_s: f64,
    /// Of those, seconds with one request in flight on average.
    pub single_request_s: f64,
    /// Ticks in which readers waited for each read.
    sequential_reads: Vec<SequentialReads>,
    /// Ticks with many writes in flight and no pause: seconds, bytes written, bytes in flight times seconds.
    queued_writes: [f64; 3],
}

/// A host's load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Load of each disk.
    pub disks: BTreeMap<String, DiskLoad>,
    /// Health of drives, by disk.
    pub health: BTreeMap<String, HealthLoad>,
    /// Mean of other counters, by counter and instance.
    pub means: BTreeMap<(String, String), f64>,
    /// Last values of filesystems, by mount point: bytes that users may still fill, all bytes, free inodes, all inodes.
    /// `NaN` if the log lacks them.
    pub space: BTreeMap<String, [f64; 4]>,
}

/// Counters whose mean is kept.
const MEAN_COUNTERS: &[&str] = &[
    paging::SWAP_IN_PAGES_PER_S,
    paging::SWAP_OUT_PAGES_PER_S,
    paging::REFAULTS_PER_S,
    paging::ALLOCATION_STALLS_PER_S,
    paging::COMPACT_STALLS_PER_S,
    paging::MAJOR_FAULTS_PER_S,
    memory::DIRTY_BYTES,
    memory::WRITEBACK_BYTES,
    memory::AVAILABLE_FRACTION,
    pressure::MEMORY_SOME,
    pressure::IO_FULL,
    processor::STEAL,
    processor::BUSY,
    cgroup::CPU_THROTTLED,
    cgroup::MEMORY_LIMIT_HITS_PER_S,
    cgroup::MEMORY_LIMIT_BYTES,
    cgroup::MEMORY_HIGH_BYTES,
    cgroup::MEMORY_SOME,
    physical_disk::STALLED,
    array::BACKGROUND,
];

/// Requests in flight, averaged over the busy time, up to which requests are taken to come one at a time.
const MAX_SINGLE_REQUESTS: f64 = 1.5;
/// Number of writes in flight from which they queue.
const MIN_QUEUED_WRITES: f64 = 4.0;
/// Busy share from which a disk is taken to write as fast as it can. A disk with pauses could do more.
const SATURATED_SHARE: f64 = 0.9;

/// Counters whose last value is kept for each filesystem.
const SPACE_COUNTERS: [&str; 4] =
    [logical_disk::FREE_BYTES, logical_disk::TOTAL_BYTES, logical_disk::INODES_FREE, logical_disk::INODES_TOTAL];

/// Collects a load from frames.
#[derive(Default)]
pub struct HostLoadReader {
    load: HostLoad,
    schema: Option<Arc<Schema>>,
    disks: Vec<(String, DiskPlans)>,
    health: HealthReader,
    means: Vec<((String, String), CounterPlan)>,
    space: Vec<(String, [Option<CounterPlan>; 4])>,
    sums: BTreeMap<(String, String), (CounterPlan, CounterSummary)>,
}

/// Plans for the counters of a disk at each tick; a log may lack some.
struct DiskPlans([Option<CounterPlan>; 8]);

const DISK_COUNTERS: [&str; 8] = [
    physical_disk::READS_PER_S,
    physical_disk::WRITES_PER_S,
    physical_disk::READ_BYTES_PER_S,
    physical_disk::WRITE_BYTES_PER_S,
    physical_disk::AVG_READ_QUEUE_LENGTH,
    physical_disk::AVG_WRITE_QUEUE_LENGTH,
    physical_disk::BUSY,
    physical_disk::AVG_QUEUE_LENGTH,
];

impl HostLoadReader {
    /// Adds a frame.
    pub fn add_frame(&mut self, frame: &Frame) {
        if self.schema.as_ref().is_none_or(|schema| !Arc::ptr_eq(schema, frame.schema())) {
            self.resolve_plans(frame.schema());
        }
        self.health.add_frame(frame);
        let tick_seconds: Vec<f64> = frame.ticks().iter().map(|tick| tick.elapsed_ns as f64 / 1e9).collect();
        self.load.seconds += tick_seconds.iter().sum::<f64>();
        let mut values: [Vec<f64>; 8] = Default::default();
        for (disk, plans) in &self.disks {
            for (plan, out) in plans.0.iter().zip(&mut values) {
                match plan {
                    Some(plan) => plan.compute_values(frame, out),
                    None => {
                        out.clear();
                        out.resize(tick_seconds.len(), f64::NAN);
                    }
                }
            }
            let load = self.load.disks.entry(disk.clone()).or_default();
            for (index, seconds) in tick_seconds.iter().enumerate() {
                load.add_tick(*seconds, values.each_ref().map(|column| column[index]));
            }
        }
        for (name, plan) in &self.means {
            let (_, sum) = self.sums.entry(name.clone()).or_insert_with(|| (plan.clone(), CounterSummary::default()));
            sum.merge_summary(&plan.summarise_ticks(frame, |_| true));
        }
        self.read_last_space(frame);
    }

    fn read_last_space(&mut self, frame: &Frame) {
        let mut values = Vec::new();
        for (mount, plans) in &self.space {
            let last_values = self.load.space.entry(mount.clone()).or_insert([f64::NAN; 4]);
            for (plan, last) in plans.iter().zip(last_values) {
                let Some(plan) = plan else { continue };
                plan.compute_values(frame, &mut values);
                *last = values.iter().rev().find(|value| value.is_finite()).copied().unwrap_or(*last);
            }
        }
    }

    /// Returns the load; `None` if no frame was added.
    #[must_use]
    pub fn into_load(mut self) -> Option<HostLoad> {
        self.load.health = self.health.into_loads();
        // keep only filesystems that were mounted at the end
        self.load.space.retain(|mount, _| self.space.iter().any(|(known, _)| known == mount));
        for (name, (plan, sum)) in &self.sums {
            plan.summary_value(sum).map(|mean| self.load.means.insert(name.clone(), mean));
        }
        Some(self.load).filter(|load| load.seconds > 0.0)
    }

    fn resolve_plans(&mut self, schema: &Arc<Schema>) {
        let catalogue = Catalogue::builtin();
        let plan = |counter: &str, instance: &str| CounterPlan::resolve_counter(catalogue, schema, counter, instance);
        let disks = schema.instances("physical_disk");
        self.disks = disks
            .iter()
            .map(|disk| ((*disk).to_owned(), DiskPlans(DISK_COUNTERS.map(|counter| plan(counter, disk)))))
            .collect();
        let mounts = schema.instances("logical_disk");
        self.space = mounts
            .iter()
            .map(|mount| ((*mount).to_owned(), SPACE_COUNTERS.map(|counter| plan(counter, mount))))
            .collect();
        self.health.resolve_plans(schema);
        self.means.clear();
        for counter in MEAN_COUNTERS {
            let object = counter.split('.').next().unwrap_or(counter);
            for instance in schema.instances(object) {
                let name = ((*counter).to_owned(), instance.to_owned());
                self.means.extend(plan(counter, instance).map(|plan| (name, plan)));
            }
        }
        self.schema = Some(Arc::clone(schema));
    }
}

impl DiskLoad {
    fn add_tick(&mut self, seconds: f64, values: [f64; 8]) {
        let [reads, writes, read_bytes, write_bytes, read_queue, write_queue, busy, queue] = values;
        if !(reads + writes).is_finite() || seconds <= 0.0 {
            return;
        }
        let or_zero = |value: f64| if value.is_finite() { value } else { 0.0 };
        self.seconds += seconds;
        self.reads += reads * seconds;
        self.writes += writes * seconds;
        self.read_bytes += or_zero(read_bytes) * seconds;
        self.write_bytes += or_zero(write_bytes) * seconds;
        self.read_s += or_zero(read_queue) * seconds;
        self.write_s += or_zero(write_queue) * seconds;
        self.busy_s += or_zero(busy) * seconds;
        if busy > 0.0 && queue / busy <= MAX_SINGLE_REQUESTS {
            self.single_request_s += busy * seconds;
        }
        // few writes, and few reads in flight: our choice
        let is_nearly_all_reads = reads > 0.0 && or_zero(write_bytes) < 0.02 * or_zero(read_bytes);
        if is_nearly_all_reads && read_queue.is_finite() && read_queue <= 4.0 {
            self.sequential_reads.push(SequentialReads {
                reads: reads * seconds,
                bytes: read_bytes * seconds,
                read_s: read_queue * seconds,
                busy_s: or_zero(busy) * seconds,
            });
        }
        let has_pauses = busy < SATURATED_SHARE;
        if write_queue >= MIN_QUEUED_WRITES && !has_pauses && writes > 0.0 && write_bytes.is_finite() {
            let in_flight_bytes = write_queue * write_bytes / writes;
            let [queued_s, bytes, byte_seconds] = &mut self.queued_writes;
            *queued_s += seconds;
            *bytes += write_bytes * seconds;
            *byte_seconds += in_flight_bytes * seconds;
        }
    }

    /// Share of the time that the disk was busy.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        self.busy_s / self.seconds
    }

    /// Share of the busy time with one request in flight.
    #[must_use]
    pub fn single_request_share(&self) -> Option<f64> {
        (self.busy_s > 0.0).then(|| self.single_request_s / self.busy_s)
    }

    /// Mean bytes of a read.
    #[must_use]
    pub fn bytes_per_read(&self) -> Option<f64> {
        (self.reads > 0.0).then(|| self.read_bytes / self.reads)
    }

    /// Mean bytes of a write.
    #[must_use]
    pub fn bytes_per_write(&self) -> Option<f64> {
        (self.writes > 0.0).then(|| self.write_bytes / self.writes)
    }

    /// Ticks in which readers waited for each read.
    pub(crate) fn sequential_reads(&self) -> &[SequentialReads] {
        &self.sequential_reads
    }

    /// Seconds in which writes queued, and the bytes written per second and mean bytes in flight in that time; `None`
    /// if writes never queued.
    #[must_use]
    pub fn queued_writes(&self) -> Option<(f64, f64, f64)> {
        let [seconds, bytes, byte_seconds] = self.queued_writes;
        (seconds > 0.0).then(|| (seconds, bytes / seconds, byte_seconds / seconds))
    }
}

impl HostLoad {
    /// Mean of a counter.
    #[must_use]
    pub fn mean_of(&self, counter: &str, instance: &str) -> Option<f64> {
        self.means.get(&(counter.to_owned(), instance.to_owned())).copied()
    }
}
