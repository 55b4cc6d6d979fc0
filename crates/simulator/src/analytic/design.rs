//! A light way in for who asks about very many volumes and arrays: no description, no
//! files, no names.
//!
//! ```
//! use diskwright_simulator::analytic::{Arrangement, DesignDemand, DesignSolver};
//! use diskwright_simulator::{ArrayLevel, catalogue};
//!
//! // 126 reads and 73 writes of 8 KiB a second on three equal volumes as RAID 5
//! let device = catalogue::find("aws-gp3").expect("in the catalogue").device().expect("possible");
//! let demand = DesignDemand::arrivals(126.0, 73.0, 8192);
//! let mut solver = DesignSolver::new();
//! let answer = solver.solve(&device, &Arrangement::array(ArrayLevel::Raid5, 3), &demand).expect("solved");
//! assert!(answer.response_s < 0.01 && answer.utilization < 0.2);
//! // with one of them failed
//! let degraded = Arrangement { failed: 1, ..Arrangement::array(ArrayLevel::Raid5, 3) };
//! let worse = solver.solve(&device, &degraded, &demand).expect("solved");
//! assert!(worse.utilization >= answer.utilization);
//! // more than a volume of 3000 operations a second serves
//! let much = DesignDemand::arrivals(4000.0, 0.0, 4096);
//! assert!(solver.solve(&device, &Arrangement::single(), &much).is_err());
//! ```
//!
//! A [`DesignSolver`] keeps the system that it builds and what mechanical drives cost, so that
//! neighbours in a search are cheap: one after the other of the same device and demand is quickest.
//! It answers for the steady state: of volumes with burst credits for that in which they are used up
//! ([`DesignAnswer::burst`] has the other one, and how long it lasts).

use super::steady::steady;
use super::{SystemSolution, UnsolvedReason, WorkloadSolution, credits, mechanical::CostMemory};
use crate::array::ArrayLevel;
use crate::device::DeviceModel;
use crate::load::{
    ClosedSpec, DurationDistribution, LoadSpec, OpenSpec, OperationClass, OperationTransfer, RequestSizes, TargetPart,
};
use crate::system::{Drives, Set, System, Workload, WorkloadTarget};

/// Random requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesignDemand {
    /// Users who wait for an answer before they ask again; 0 for arrivals that wait for nobody.
    pub users: u32,
    /// What a user does between, s, exponential.
    pub think_s: f64,
    /// Reads a second; of users only the ratio to writes counts.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
    /// Bytes of a read, whole blocks of 512.
    pub read_bytes: u64,
    /// Bytes of a write.
    pub write_bytes: u64,
    /// Share of the space in use, from its beginning.
    pub used: f64,
}

impl DesignDemand {
    /// Arrivals at random, of one size, over all of the space.
    pub fn arrivals(reads: f64, writes: f64, bytes: u64) -> DesignDemand {
        DesignDemand { users: 0, think_s: 0.0, reads, writes, read_bytes: bytes, write_bytes: bytes, used: 1.0 }
    }
}

/// What devices make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrangement {
    /// `None`: one device by itself.
    pub level: Option<ArrayLevel>,
    /// How many.
    pub members: u16,
    /// Bytes of a stripe unit.
    pub unit_bytes: u64,
    /// Members that have failed.
    pub failed: u16,
}

impl Arrangement {
    /// One device by itself.
    pub fn single() -> Arrangement {
        Arrangement { level: None, members: 1, unit_bytes: 65_536, failed: 0 }
    }

    /// A healthy array with stripe units of 64 KiB.
    pub fn array(level: ArrayLevel, members: u16) -> Arrangement {
        Arrangement { level: Some(level), members, ..Arrangement::single() }
    }
}

/// What a design does.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignAnswer {
    /// Requests a second.
    pub throughput_per_s: f64,
    /// Mean response, s.
    pub response_s: f64,
    /// That of reads; NaN where there are none.
    pub read_response_s: f64,
    /// That of writes; NaN where there are none.
    pub write_response_s: f64,
    /// Utilization of the devices that are used most.
    pub utilization: f64,
    /// While burst credits last, where they are used up: throughput, mean response, s, and for how long from
    /// full buckets, s. `None` where there are none or they never end.
    pub burst: Option<[f64; 3]>,
    /// For [`DesignAnswer::percentile_s`].
    workload: WorkloadSolution,
}

impl DesignAnswer {
    /// The response that a share of the requests does not exceed, s.
    pub fn percentile_s(&self, share: f64) -> f64 {
        self.workload.percentile_s(share)
    }
}

/// Solves designs one after the other.
#[derive(Debug)]
pub struct DesignSolver {
    system: System,
    memory: CostMemory,
}

impl Default for DesignSolver {
    fn default() -> DesignSolver {
        DesignSolver::new()
    }
}

impl DesignSolver {
    /// With nothing known yet.
    pub fn new() -> DesignSolver {
        DesignSolver { system: System::new("design"), memory: CostMemory::default() }
    }

    /// Solves a design.
    ///
    /// # Errors
    /// Names what cannot be solved, overload included.
    pub fn solve(
        &mut self,
        device: &DeviceModel,
        arrangement: &Arrangement,
        demand: &DesignDemand,
    ) -> Result<DesignAnswer, UnsolvedReason> {
        self.describe(device, arrangement, demand);
        let first = steady(&self.system, &mut self.memory);
        let Some((burst, left_s)) = credits::sustained(&self.system, first.as_ref().ok()) else {
            return Ok(answer(&self.system, first?, None));
        };
        let kept = std::mem::replace(&mut self.system, burst);
        let sustained = steady(&self.system, &mut self.memory);
        self.system = kept;
        let first = answer(&self.system, first?, None);
        Ok(answer(&self.system, sustained?, Some([first.throughput_per_s, first.response_s, left_s])))
    }

    /// The design as a system.
    fn describe(&mut self, device: &DeviceModel, arrangement: &Arrangement, demand: &DesignDemand) {
        let members = if arrangement.level.is_some() { arrangement.members } else { 1 };
        let mut drives = Drives::new("device", u32::from(members), device.clone());
        if let DeviceModel::Mechanical(model) = device {
            (drives.order, drives.depth) = (model.policy(), model.slots());
        }
        self.system.drives.clear();
        self.system.drives.push(drives);
        self.system.arrays.clear();
        if let Some(level) = arrangement.level {
            let mut set = Set::new("array", level, (0..u32::from(members)).collect());
            set.unit_blocks = (arrangement.unit_bytes / crate::io::BLOCK_BYTES).max(1);
            set.failed = (0..arrangement.failed).collect();
            self.system.arrays.push(set);
        }
        let target = if arrangement.level.is_some() { WorkloadTarget::Array(0) } else { WorkloadTarget::Drive(0) };
        let all = demand.reads + demand.writes;
        let transfer = OperationTransfer {
            part: if demand.used < 1.0 { TargetPart::Share { from: 0.0, to: demand.used } } else { TargetPart::All },
            read_share: demand.reads / all,
            bytes: RequestSizes::One(demand.read_bytes),
            write_bytes: (demand.write_bytes != demand.read_bytes).then_some(RequestSizes::One(demand.write_bytes)),
            ..OperationTransfer::default()
        };
        let classes = vec![OperationClass::of("request", 1.0, transfer)];
        let exponential = |mean_s: f64| DurationDistribution::Exponential { mean_s };
        let load = match demand.users {
            0 => LoadSpec::Open(OpenSpec { gap: exponential(1.0 / all), classes, ..OpenSpec::default() }),
            users => {
                let think = if demand.think_s > 0.0 { exponential(demand.think_s) } else { DurationDistribution::NONE };
                LoadSpec::Closed(ClosedSpec { users, think, classes, ..ClosedSpec::default() })
            }
        };
        self.system.workloads.clear();
        self.system.workloads.push(Workload { name: "demand".into(), targets: vec![target], load });
    }
}

fn answer(system: &System, state: super::steady::SteadyState, burst: Option<[f64; 3]>) -> DesignAnswer {
    let solution: SystemSolution = credits::solution(system, &[(1.0, state)]);
    let utilization = solution.bottleneck().map_or(0.0, |(_, share)| *share);
    let mut workloads = solution.workloads;
    DesignAnswer {
        throughput_per_s: solution.throughput_per_s,
        response_s: solution.response_s,
        read_response_s: solution.read_response_s,
        write_response_s: solution.write_response_s,
        utilization,
        burst,
        workload: workloads.swap_remove(0),
    }
}
