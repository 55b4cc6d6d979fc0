//! Behaviour of a design under a demand, by analysis: the simulator's solver, with common names for limits and parts.
//! Percentiles are the planner's own: over random designs they are nearer to the simulation than the solver's for disks
//! and volumes (docs/planner.md).

use std::sync::Arc;

use diskwright_simulator::analytic::{self, UnsolvedReason};
use diskwright_simulator::load::{
    AccessPattern, DurationDistribution, LoadSpec, OpenSpec, OperationClass, OperationTransfer, RequestSizes,
};
use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System, Workload, WorkloadTarget};
use diskwright_simulator::volume::{RateLimit, VolumeSpec};
use diskwright_simulator::{ArrayLevel, DeviceModel};

use crate::arithmetic::{usable_members, write_cost};
use crate::controller_path::DesignPath;
use crate::demand::Demand;
use crate::design_part::{DesignPart, volume_need};
use crate::reliability::gamma_share;

/// Name under which all members of a design are one of its parts.
pub const MEMBERS_PART: &str = "members";

/// Members of one part at a RAID level.
#[derive(Clone, Copy, Debug)]
pub struct StorageDesign<'a> {
    /// Drive or volume of each member.
    pub part: &'a DesignPart,
    /// Level.
    pub level: ArrayLevel,
    /// Members.
    pub count: u16,
    /// Stripe unit, bytes.
    pub unit_bytes: u64,
    /// Controllers in front of them; `None` for ports that limit nothing.
    pub path: Option<DesignPath<'a>>,
}

/// Predicted behaviour of a design.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignResponse {
    /// Mean response, s.
    pub mean_s: f64,
    /// Mean of reads and of writes, s; NaN if there are none.
    pub read_write_s: [f64; 2],
    /// Utilization of each part, the highest first.
    pub utilization: Vec<(String, f64)>,
}

impl DesignResponse {
    /// Utilization of the busiest part.
    pub fn busiest_share(&self) -> f64 {
        self.utilization.first().map_or(0.0, |part| part.1)
    }
}

/// Requests of a demand that a rotating disk serves without moving its arm, because they continue where the previous
/// request on the same disk ended.
struct SequentialRequests {
    /// Shares of the reads and of the writes.
    shares: [f64; 2],
    /// Time that such a request saves on an idle design, s: the response of a random request minus the transfer.
    saving_s: [f64; 2],
    /// Total work of the arms, relative to the work if every request were random.
    arm_work: f64,
}

/// Describes the volume for the solver. The solver treats all requests as random, so the limits are raised by the
/// factor by which sequential requests count less.
fn with_merged_limits(spec: &VolumeSpec, demand: &Demand, random: &Demand) -> VolumeSpec {
    let (need, random_need) = (volume_need(spec, demand), volume_need(spec, random));
    let raised = |limit: RateLimit, index: usize| RateLimit {
        baseline: limit.baseline * random_need[index] / need[index],
        burst: limit.burst * random_need[index] / need[index],
        ..limit
    };
    VolumeSpec { operations: raised(spec.operations, 0), bytes: raised(spec.bytes, 1), ..spec.clone() }
}

/// Rounds a size to blocks, at least one.
fn round_to_blocks(bytes: f64) -> u64 {
    ((bytes / 512.0).round().max(1.0) * 512.0) as u64
}

impl StorageDesign<'_> {
    /// Capacity for data, bytes.
    pub fn usable_bytes(&self) -> f64 {
        usable_members(self.level, self.count) * self.part.capacity_bytes
    }

    /// I/Os per second of each member: small requests, or as many as the stripe units that they span.
    pub fn member_load(&self, demand: &Demand) -> f64 {
        let pieces = |bytes: f64| match self.is_striped() {
            true => (bytes / self.unit_bytes as f64).max(1.0),
            false => 1.0,
        };
        let reads = demand.reads_per_s * pieces(demand.read_size_bytes);
        let writes = demand.writes_per_s * pieces(demand.write_size_bytes) * write_cost(self.level, self.count);
        (reads + writes) / f64::from(self.count)
    }

    /// True if the design has stripe units.
    pub fn is_striped(&self) -> bool {
        self.count > 1 && !matches!(self.level, ArrayLevel::Linear | ArrayLevel::Raid1)
    }

    /// Returns the design as a system under a demand, with `extra` drives beside it.
    pub fn to_system(&self, demand: &Demand, extra: u16) -> System {
        let mut group = DriveGroupSpec::new("member", u32::from(self.count + extra), self.part.device.clone());
        if let DeviceModel::Mechanical(model) = &self.part.device {
            (group.order, group.depth) = (model.queue_policy(), model.queue_slots());
        }
        let mut system = System { drives: vec![group], ..System::new("design") };
        let mut target = WorkloadTarget::Drive(0);
        if self.count > 1 {
            let mut set = ArraySpec::new("array", self.level, (0..u32::from(self.count)).collect());
            set.unit_blocks = self.unit_bytes / 512;
            system.arrays = vec![set];
            target = WorkloadTarget::Array(0);
        }
        let load = LoadSpec::Open(OpenSpec {
            gap: DurationDistribution::Exponential { mean_s: 1.0 / demand.requests_per_s() },
            classes: operation_classes(demand),
            most_outstanding: 20_000,
            ..OpenSpec::default()
        });
        system.workloads = vec![Workload { name: "demand".into(), targets: vec![target], load }];
        if extra > 0 {
            // drives beside the members wait as spares
            let spares = u32::from(self.count)..u32::from(self.count + extra);
            system.arrays.iter_mut().for_each(|set| set.spares = spares.clone().collect());
        }
        if let Some(path) = &self.path {
            path.attach_drives(&mut system);
        }
        system
    }

    /// Shares of the reads and of the writes that continue where the previous request on the same rotating disk ended:
    /// the previous request must belong to the stream as well, and be of the same kind. In a stream over stripe units,
    /// each member has a stream. Small writes to parity read first, so they never continue, and their I/Os stand
    /// between the reads; copies are read in turns, and data read from one copy was not read from the other.
    fn sequential_shares(&self, demand: &Demand) -> [f64; 2] {
        let share = demand.sequential_share.unwrap_or(0.0);
        let (reads, info) = (demand.read_share(), self.level.info());
        if info.parities > 0 {
            let ios = reads + (1.0 - reads) * write_cost(self.level, self.count);
            return [share * share * reads / ios.max(1e-9), 0.0];
        }
        let is_mirrored = matches!(self.level, ArrayLevel::Raid1 | ArrayLevel::Raid10 | ArrayLevel::Raid01);
        let has_copies = is_mirrored && self.count > 1;
        [if has_copies { 0.0 } else { share * share * reads }, share * share * (1.0 - reads)]
    }

    /// Savings by requests that continue the previous one; `None` if there are none, or if every position is treated as
    /// random.
    fn sequential_requests(
        &self,
        demand: &Demand,
        random: &Demand,
    ) -> Result<Option<SequentialRequests>, UnsolvedReason> {
        let shares = self.sequential_shares(demand);
        let is_arm = matches!(&self.part.device, DeviceModel::Mechanical(_));
        let Some(rate) = self.part.stream_bytes_per_s.filter(|_| is_arm && shares != [0.0, 0.0]) else {
            return Ok(None);
        };
        let Some(idle) = StorageDesign { path: None, ..*self }.predict_response(&random.scaled_by(1e-4))? else {
            return Ok(None);
        };
        let transfer = [demand.read_size_bytes, demand.write_size_bytes].map(|bytes| bytes / rate);
        let saving_s = [0, 1].map(|kind| (idle.read_write_s[kind] - transfer[kind]).max(0.0));
        // I/Os of each kind on the members; small writes to parity need several
        let ios = [demand.reads_per_s, demand.writes_per_s * write_cost(self.level, self.count)];
        // the time saved, as I/Os
        let saved = [0, 1].map(|kind| match idle.read_write_s[kind] > 0.0 {
            true => ios[kind] * shares[kind] * saving_s[kind] / idle.read_write_s[kind],
            false => 0.0,
        });
        let arm_work = 1.0 - (saved[0] + saved[1]) / (ios[0] + ios[1]);
        Ok(Some(SequentialRequests { shares, saving_s, arm_work }))
    }

    /// Predicts the response of the design; `None` if it cannot keep up.
    ///
    /// # Errors
    /// The part that cannot be solved.
    pub fn predict_response(&self, demand: &Demand) -> Result<Option<DesignResponse>, UnsolvedReason> {
        // percentiles of a user's own drive are the solver's, as for other members
        let limits = match &self.part.device {
            DeviceModel::Volume(spec) if self.part.volume.is_some() => self.volume_limits(spec, demand),
            _ => Vec::new(),
        };
        if limits.first().is_some_and(|limit| limit.1 >= 1.0) {
            return Ok(None);
        }
        // positions are treated as random: the order of sequential requests is left to the simulation
        let random = Demand { sequential_share: None, ..demand.clone() };
        // a cache accepts writes at once, and passes on the same I/Os as without it
        let write_back = self.path.filter(|path| path.write_back);
        let path = self.path.map(|path| DesignPath { write_back: false, ..path });
        let without_cache = StorageDesign { path, ..*self };
        let sequential = self.sequential_requests(demand, &random)?;
        let load = sequential.as_ref().map_or(random.clone(), |sequential| random.scaled_by(sequential.arm_work));
        let mut system = without_cache.to_system(&load, 0);
        let is_merged = demand.sequential_share.is_some_and(|share| share > 0.0);
        let first_group = system.drives.first_mut().filter(|_| is_merged);
        if let (DeviceModel::Volume(spec), Some(group)) = (&self.part.device, first_group) {
            group.device = DeviceModel::Volume(Arc::new(with_merged_limits(spec, demand, &random)));
        }
        match analytic::solve(&system) {
            Ok(solution) => {
                let is_volume = !limits.is_empty();
                let mut busiest = limits;
                // the limits of a volume are its parts
                for (name, busy) in solution.utilisations.into_iter().filter(|_| !is_volume) {
                    // equal members are one part
                    let name = match self.path.and_then(|path| path.part_name(&name)) {
                        Some(name) => name,
                        None if name.starts_with("member") => MEMBERS_PART.to_owned(),
                        None => name,
                    };
                    match busiest.iter_mut().find(|part| part.0 == name) {
                        Some(part) => part.1 = part.1.max(busy),
                        None => busiest.push((name, busy)),
                    }
                }
                busiest.sort_by(|a, b| b.1.total_cmp(&a.1));
                let mut kinds_s = [solution.read_response_s, solution.write_response_s];
                let mut mean_s = solution.response_s;
                if let Some(sequential) = sequential {
                    for kind in [0, 1] {
                        kinds_s[kind] -= sequential.shares[kind] * sequential.saving_s[kind];
                    }
                    mean_s = demand.mean_of(kinds_s);
                }
                if let (Some(path), true) = (write_back, demand.writes_per_s > 0.0) {
                    kinds_s[1] = path.pass_s(demand.write_size_bytes);
                    mean_s = demand.mean_of(kinds_s);
                }
                Ok(Some(DesignResponse { mean_s, read_write_s: kinds_s, utilization: busiest }))
            }
            Err(UnsolvedReason::Overload(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Limits of parallel volumes, each of which has its share of the requests: the limits of operations and of bytes
    /// by name, with their utilization, the highest first.
    fn volume_limits(&self, spec: &VolumeSpec, demand: &Demand) -> Vec<(String, f64)> {
        let each = demand.scaled_by(1.0 / f64::from(self.count));
        let need = volume_need(spec, &each);
        let names = self.part.volume.as_ref().map(|volume| [volume.iops.1.clone(), volume.rate.1.clone()]);
        let names = names.unwrap_or_else(|| ["IOPS".into(), "throughput".into()]);
        let limits = [spec.operations.baseline, spec.bytes.baseline];
        let shares = need.into_iter().zip(limits).map(|(need, limit)| need / limit);
        let mut limits: Vec<(String, f64)> = names.into_iter().zip(shares).collect();
        limits.sort_by(|a, b| b.1.total_cmp(&a.1));
        limits
    }

    /// Estimates the 95th and 99th percentile of the response. Reads and writes each have a gamma distribution with
    /// their mean, and with the sum of two variances: that of an idle design, and that of waits. The variance of a wait
    /// W is W² + 2/3 W E[S³] / E[S²] (Takács, for M/G/1: W² + λ E[S³] / (3 (1 - ρ)) with W = λ E[S²] / (2 (1 - ρ))).
    /// Small writes to parity wait twice. Designs on the short list have the percentiles of the simulation instead.
    pub fn estimate_percentiles(&self, demand: &Demand, response: &DesignResponse) -> Option<[f64; 2]> {
        let idle = self.predict_response(&demand.scaled_by(1e-4)).ok()??;
        let (share, cv2) = (demand.read_share(), self.squared_variation());
        // number of times that a read and a write wait
        let wait_counts = [1.0, if self.level.info().parities > 0 { 2.0 } else { 1.0 }];
        // a member's service time
        let [idle_read_s, idle_write_s] = idle.read_write_s;
        let service = if idle_read_s > 0.0 { idle_read_s } else { idle_write_s / wait_counts[1] };
        // 2/3 E[S³] / E[S²]
        let wait_factor_s = 2.0 / 3.0
            * match &self.part.volume {
                // a request that waits for a limit waits for its next token
                Some(_) => response.busiest_share() * f64::from(self.count) / demand.requests_per_s(),
                None => service * (1.0 + 3.0 * cv2) / (1.0 + cv2),
            };
        // share, mean and variance of the reads and of the writes
        let mut kinds: Vec<(f64, f64, f64)> = Vec::new();
        for (kind, share) in [share, 1.0 - share].into_iter().enumerate().filter(|(_, share)| *share > 0.0) {
            let (mean, idle) = (response.read_write_s[kind], idle.read_write_s[kind]);
            let wait = (mean - idle).max(0.0);
            let idle_variance = cv2 * service.min(idle).powi(2) * wait_counts[kind];
            let variance = idle_variance + wait * wait / wait_counts[kind] + wait * wait_factor_s;
            kinds.push((share, mean, variance.max(1e-6 * mean * mean)));
        }
        let share_below = |time: f64| -> f64 {
            kinds.iter().map(|(share, mean, v)| share * gamma_share(mean * mean / v, time * mean / v)).sum()
        };
        Some([0.95, 0.99].map(|percentile| {
            let (mut low, mut high) = (0.0, 100.0 * response.mean_s);
            for _ in 0..40 {
                let middle = 0.5 * (low + high);
                if share_below(middle) < percentile { low = middle } else { high = middle }
            }
            high
        }))
    }

    /// Squared coefficient of variation of an idle member's service time: of a drive, arm and rotation; of a volume, as
    /// described; of flash, little.
    fn squared_variation(&self) -> f64 {
        match &self.part.device {
            DeviceModel::Mechanical(_) => 0.12,
            DeviceModel::Volume(spec) => spec.read.variation_squared(),
            DeviceModel::Plain(spec) => spec.service.variation_squared(),
            DeviceModel::Flash(_) => 0.02,
        }
    }
}

/// Operation classes of a demand: random requests, and requests that continue where the last one ended (in one stream).
fn operation_classes(demand: &Demand) -> Vec<OperationClass> {
    let transfer = OperationTransfer {
        read_share: demand.read_share(),
        bytes: RequestSizes::One(round_to_blocks(demand.read_size_bytes.max(512.0))),
        write_bytes: Some(RequestSizes::One(round_to_blocks(demand.write_size_bytes.max(512.0)))),
        ..OperationTransfer::default()
    };
    let sequential = demand.sequential_share.unwrap_or(0.0);
    let mut classes = Vec::new();
    if sequential < 1.0 {
        classes.push(OperationClass::with_transfer("random", 1.0 - sequential, transfer.clone()));
    }
    if sequential > 0.0 {
        let access = AccessPattern::Sequential { streams: 1 };
        classes.push(OperationClass::with_transfer("sequential", sequential, OperationTransfer { access, ..transfer }));
    }
    classes
}
