//! Samples of a simulation with the same counters as every other source, so that a simulated server can be recorded,
//! shown and diagnosed like a real one.
//!
//! Each interval is one tick. Drives and arrays are `physical_disk`s. The members of an array are always listed below
//! it, so that their activity is visible even if a real controller would hide it. Requests that wait for a processor, a
//! bus or a controller have not reached the disk and are not in its queue; requests that wait for the channel are in
//! it, as on a real host.

use std::sync::Arc;

use diskwright_base::counter_ids::{self, channel, controller, interrupts, physical_disk, processor};
use diskwright_base::latency_series::LatencyTable;
use diskwright_base::topology::{
    Device as TopologyDevice, DeviceClass, DeviceKind, RaidLevel as TopologyLevel, Topology,
};
use diskwright_base::{Schema, Series, Tick};

use crate::array::ArrayLevel;
use crate::device::DeviceModel;
use crate::io::BLOCK_BYTES;
use crate::run::{ArrayReport, Component, ComponentKind, IoCounts, SimulationReport};
use crate::station::StationTotals;
use crate::system::{System, WorkloadTarget};

/// Start of simulated time: 2000-01-01 00:00 UTC, in nanoseconds since 1970. Samples carry no wall-clock time, so that
/// one seed always gives the same log.
pub const EPOCH_NS: i64 = 946_684_800_000_000_000;

const SECONDS_PER_NS: f64 = 1e-9;

/// Converts interval reports to rows of samples.
#[derive(Debug)]
pub struct SampleRows {
    schema: Arc<Schema>,
    /// Latency distributions, if they are recorded, and the series that are always present.
    latency: Option<(LatencyTable, Vec<Series>)>,
    /// Time 0 of virtual time, ns since 1970.
    epoch_ns: i64,
    topology: Topology,
    /// Rates of the channels, bytes/s, if they are limited.
    link_rates: Vec<Option<u64>>,
    processors: u32,
    other_interrupts_per_s: f64,
    /// Processor time of an interrupt, ns.
    interrupt_ns: crate::Ns,
}

impl SampleRows {
    /// Creates rows for a system in simulated time, which starts at [`EPOCH_NS`].
    pub fn new(system: &System) -> SampleRows {
        SampleRows::starting_at(system, EPOCH_NS)
    }

    /// Creates rows for a system whose time 0 is `epoch_ns`, nanoseconds since 1970: for a system that runs in real
    /// time, the wall clock at its time 0.
    pub fn starting_at(system: &System, epoch_ns: i64) -> SampleRows {
        let schema = Schema::new(build_series(system));
        SampleRows {
            schema: Arc::new(schema),
            latency: None,
            epoch_ns,
            topology: build_topology(system),
            link_rates: system.channels.iter().map(|channel| channel.rate).collect(),
            processors: system.host.processors,
            other_interrupts_per_s: system.host.other_interrupts_per_s,
            interrupt_ns: system.host.interrupt_ns,
        }
    }

    /// Adds latency distributions by disk and operation, as in a trace of a real machine. Their columns are added with
    /// the first requests that need them, so that the schema is that of the last row.
    pub fn with_latency(mut self) -> SampleRows {
        self.latency = Some((LatencyTable::default(), self.schema.series.clone()));
        self
    }

    /// Columns of the last row.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Topology of drives, arrays and channels.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Fills `row` with a cell for each column and returns the tick of the interval.
    pub fn build_row(&mut self, report: &SimulationReport, row: &mut Vec<f64>) -> Tick {
        row.clear();
        self.push_processor_cells(report, row);
        let of_kind = |kind: ComponentKind| report.components.iter().filter(move |component| component.kind == kind);
        for drive in of_kind(ComponentKind::Drive) {
            push_disk_cells(&drive.totals, &drive.counts, row);
            row.extend([
                drive.utilisation(),
                drive.counts.flushes as f64,
                drive.counts.flush_ns as f64 * SECONDS_PER_NS,
            ]);
        }
        report.arrays.iter().for_each(|array| push_disk_cells(&array.totals, &array.counts, row));
        for (channel, rate) in of_kind(ComponentKind::Channel).zip(&self.link_rates) {
            let moved = channel.counts.byte_count() as f64;
            row.extend([
                channel.utilisation(),
                rate_per_s(moved, &channel.totals),
                rate.map_or(f64::NAN, |r| r as f64),
            ]);
        }
        for controller in of_kind(ComponentKind::Controller) {
            row.extend(controller_cells(report, controller));
        }
        report.arrays.iter().for_each(|array| row.extend(array_health_cells(array)));
        if let Some((table, always)) = &mut self.latency {
            for disk in &report.latency {
                table.add_requests(&disk.disk, disk.operation, disk.steps.iter().copied());
            }
            if table.take_changed() {
                let mut series = always.clone();
                table.append_series(&mut series);
                self.schema = Arc::new(Schema::new(series));
            }
            table.drain_cells(row);
        }
        Tick {
            time_ns: self.epoch_ns.saturating_add(i64::try_from(report.to).unwrap_or(i64::MAX)),
            elapsed_ns: report.to.saturating_sub(report.from),
        }
    }

    /// Pushes the cells of processors and interrupts, in the order of [`HOST_COUNTERS`].
    fn push_processor_cells(&self, report: &SimulationReport, row: &mut Vec<f64>) {
        let elapsed_s = report.elapsed_s();
        let total_s = elapsed_s * f64::from(self.processors);
        let station = report.components.iter().find(|component| component.kind == ComponentKind::Processor);
        let other_interrupts = self.other_interrupts_per_s * elapsed_s;
        // other interrupts are calculated, not simulated: they delay no request
        let other_interrupts_s = other_interrupts * self.interrupt_ns as f64 * SECONDS_PER_NS;
        let busy_s = station
            .map_or(f64::NAN, |processor| processor.totals.service_ns as f64 * SECONDS_PER_NS + other_interrupts_s);
        // a service that lasts longer than an interval is counted in full when it begins: cap it
        let busy_s = busy_s.min(total_s);
        let interrupts_s = (report.interrupt_ns * SECONDS_PER_NS).min(busy_s);
        let queue = station.map_or(f64::NAN, |processor| processor.totals.mean_queue());
        // program time is counted when it is requested, and may end in the next interval
        let programs_s = (report.compute_ns * SECONDS_PER_NS).min(busy_s - interrupts_s);
        row.extend([
            programs_s,
            busy_s - interrupts_s - programs_s,
            interrupts_s,
            total_s - busy_s,
            0.0,
            0.0,
            0.0,
            0.0,
            queue,
            f64::from(self.processors),
            report.interrupts,
            report.interrupts,
            other_interrupts,
            report.interrupts - other_interrupts,
        ]);
    }
}

/// Counters of the host: `(counter, instance)`. Kinds of processor time that are 0 do not occur in a simulated host.
const HOST_COUNTERS: [(&str, &str); 14] = [
    (processor::USER_S, "_total"),
    (processor::SYSTEM_S, "_total"),
    (processor::IRQ_S, "_total"),
    (processor::IDLE_S, "_total"),
    (processor::NICE_S, "_total"),
    (processor::IOWAIT_S, "_total"),
    (processor::SOFTIRQ_S, "_total"),
    (processor::STEAL_S, "_total"),
    (counter_ids::system::RUNNING, ""),
    (counter_ids::system::PROCESSORS, ""),
    (counter_ids::system::INTERRUPTS, ""),
    (interrupts::TOTAL, ""),
    (interrupts::CLOCK, ""),
    (interrupts::DISK, ""),
];

/// Counters of a disk, in the order of [`push_disk_cells`].
const DISK_COUNTERS: [&str; 8] = [
    physical_disk::READS,
    physical_disk::READ_BYTES,
    physical_disk::READ_TIME_S,
    physical_disk::WRITES,
    physical_disk::WRITE_BYTES,
    physical_disk::WRITE_TIME_S,
    physical_disk::BUSY_TIME_S,
    physical_disk::WEIGHTED_TIME_S,
];
/// Counters of drives only: arrays have no resources of their own to be utilized, and pass flushes on.
const DRIVE_COUNTERS: [&str; 3] = [physical_disk::UTILISATION, physical_disk::FLUSHES, physical_disk::FLUSH_TIME_S];
const CHANNEL_COUNTERS: [&str; 3] = [channel::BUSY, channel::BYTES_PER_S, channel::LINK_BYTES_PER_S];
const CONTROLLER_COUNTERS: [&str; 2] = [controller::BUSY, controller::BYTES_PER_S];
const ARRAY_COUNTERS: [&str; 5] = [
    counter_ids::array::MEMBERS,
    counter_ids::array::FAILED,
    counter_ids::array::DEGRADED,
    counter_ids::array::BACKGROUND,
    counter_ids::array::SYNC_BYTES,
];

/// Lists the columns of a system.
fn build_series(system: &System) -> Vec<Series> {
    let new_series =
        |counter: &str, instance: &str| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
    let mut series: Vec<Series> =
        HOST_COUNTERS.iter().map(|(counter, instance)| new_series(counter, instance)).collect();
    for name in (0..system.drive_count()).map(|drive| system.drive_name(drive)) {
        series.extend(DISK_COUNTERS.iter().map(|counter| new_series(counter, &name)));
        series.extend(DRIVE_COUNTERS.iter().map(|counter| new_series(counter, &name)));
    }
    let arrays = system.arrays.iter().map(|spec| spec.name.clone());
    for name in arrays.clone() {
        series.extend(DISK_COUNTERS.iter().map(|counter| new_series(counter, &name)));
    }
    for channel in &system.channels {
        series.extend(CHANNEL_COUNTERS.iter().map(|counter| new_series(counter, &channel.name)));
    }
    for controller in &system.controllers {
        series.extend(CONTROLLER_COUNTERS.iter().map(|counter| new_series(counter, &controller.name)));
    }
    for name in arrays {
        series.extend(ARRAY_COUNTERS.iter().map(|counter| new_series(counter, &name)));
    }
    series
}

/// Pushes the cells of a disk.
fn push_disk_cells(totals: &StationTotals, counts: &IoCounts, row: &mut Vec<f64>) {
    row.extend([
        counts.reads as f64,
        counts.bytes_read as f64,
        counts.read_ns as f64 * SECONDS_PER_NS,
        counts.writes as f64,
        counts.bytes_written as f64,
        counts.write_ns as f64 * SECONDS_PER_NS,
        totals.busy_ns as f64 * SECONDS_PER_NS,
        totals.queue_ns as f64 * SECONDS_PER_NS,
    ]);
}

fn rate_per_s(amount: f64, totals: &StationTotals) -> f64 {
    amount / (totals.elapsed_ns as f64 * SECONDS_PER_NS)
}

/// Returns the utilization and the bytes/s of a controller: those of the busiest of its processor, its port and its
/// parity engine.
fn controller_cells(report: &SimulationReport, controller: &Component) -> [f64; 2] {
    debug_assert!(controller.controller.is_some(), "`{}` belongs to no controller", controller.name);
    let parts = report.components.iter().filter(|part| part.controller == controller.controller);
    let (busy, moved) = parts.fold((0.0, 0), |(busy, moved): (f64, u64), part| {
        (busy.max(part.utilisation()), moved.max(part.counts.byte_count()))
    });
    [busy, rate_per_s(moved as f64, &controller.totals)]
}

/// Returns the cells of an array's health.
fn array_health_cells(array: &ArrayReport) -> [f64; 5] {
    let background = array.background.as_ref().filter(|b| b.ended_ns.is_none());
    let missing = array.failed as usize;
    [
        array.members.len().saturating_sub(missing) as f64,
        missing as f64,
        f64::from(u8::from(missing > 0)),
        f64::from(u8::from(background.is_some())),
        array.background_bytes as f64,
    ]
}

/// Builds the topology that diagnosis works with.
fn build_topology(system: &System) -> Topology {
    let mut devices: Vec<TopologyDevice> = Vec::new();
    for (number, group) in
        (0..system.drive_count()).filter_map(|n| system.find_drive_group(n).map(|(group, _)| (n, group)))
    {
        let group = &system.drives[group];
        let channel = group.channel.and_then(|index| system.channels.get(index));
        devices.push(TopologyDevice {
            name: system.drive_name(number),
            class: device_class(&group.device),
            members: Some(1),
            bytes: Some(group.device.block_count().saturating_mul(BLOCK_BYTES)),
            model: Some(group.device.name().to_owned()),
            device_depth: Some(group.depth.min(group.device.slot_count())),
            link_bytes_per_s: channel.and_then(|channel| channel.rate).map(|rate| rate as f64),
            path: channel.map(|channel| channel.name.clone()),
            ..TopologyDevice::default()
        });
    }
    for spec in &system.arrays {
        let below: Vec<String> = spec.members.iter().map(|member| system.drive_name(*member)).collect();
        let first = spec.members.first().and_then(|member| system.find_drive_group(*member));
        devices.push(TopologyDevice {
            name: spec.name.clone(),
            kind: DeviceKind::Md,
            class: first.map_or(DeviceClass::Unknown, |(group, _)| device_class(&system.drives[group].device)),
            level: raid_level(spec.level),
            below,
            stripe_bytes: Some(spec.unit_blocks.saturating_mul(BLOCK_BYTES)),
            missing: spec.failed.len() as u32,
            ..TopologyDevice::default()
        });
    }
    Topology { host: system.name.clone(), processors: system.host.processors, devices, ..Topology::default() }
}

/// Returns the device class that rules distinguish.
fn device_class(device: &DeviceModel) -> DeviceClass {
    match device {
        DeviceModel::Mechanical(_) => DeviceClass::Rotational,
        DeviceModel::Flash(_) => DeviceClass::Flash,
        DeviceModel::Volume(_) => DeviceClass::Virtual,
        DeviceModel::Plain(_) => DeviceClass::Unknown,
    }
}

/// Returns the topology's level with the same cost of a write.
fn raid_level(level: ArrayLevel) -> Option<TopologyLevel> {
    match level {
        ArrayLevel::Linear => Some(TopologyLevel::Linear),
        ArrayLevel::Raid0 => Some(TopologyLevel::Raid0),
        ArrayLevel::Raid1 => Some(TopologyLevel::Raid1),
        ArrayLevel::Raid10 | ArrayLevel::Raid01 => Some(TopologyLevel::Raid10),
        ArrayLevel::Raid3 | ArrayLevel::Raid4 => Some(TopologyLevel::Raid4),
        ArrayLevel::Raid5 => Some(TopologyLevel::Raid5),
        ArrayLevel::Raid6 | ArrayLevel::Raid7 => Some(TopologyLevel::Raid6),
    }
}

/// Returns the name of a workload's target.
pub fn target_name(system: &System, target: WorkloadTarget) -> String {
    match target {
        WorkloadTarget::Drive(drive) => system.drive_name(drive),
        WorkloadTarget::Array(index) => system.arrays.get(index).map_or_else(String::new, |spec| spec.name.clone()),
    }
}
