//! Reports of a simulation, of the whole run or of an interval, as data.

use diskwright_base::Histogram;

use super::IoCounts;
use super::latency::DiskLatency;
use crate::Ns;
use crate::array::PassKind;
use crate::cache::CacheCounters;
use crate::confidence::Interval;
use crate::flash::FlashTotals;
use crate::load::Operations;
use crate::station::StationTotals;

/// Kind of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComponentKind {
    /// The host's processors.
    Processor,
    /// A bus.
    Bus,
    /// A controller's processor.
    Controller,
    /// A controller's port.
    Port,
    /// A controller's parity engine.
    Parity,
    /// A channel.
    Channel,
    /// A drive.
    Drive,
}

impl ComponentKind {
    /// Returns `processor`, `bus`, `controller`, `port`, `parity`, `channel` or `drive`.
    pub fn name(self) -> &'static str {
        match self {
            ComponentKind::Processor => "processor",
            ComponentKind::Bus => "bus",
            ComponentKind::Controller => "controller",
            ComponentKind::Port => "port",
            ComponentKind::Parity => "parity",
            ComponentKind::Channel => "channel",
            ComponentKind::Drive => "drive",
        }
    }
}

/// A component over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Its kind.
    pub kind: ComponentKind,
    /// Its name.
    pub name: String,
    /// Position of the controller that it is a part of: its processor, its port or its parity engine.
    pub controller: Option<usize>,
    /// Servers: 1 for a mechanical drive, otherwise the requests that it serves at a time.
    pub servers: u32,
    /// Time integrals of its queue.
    pub totals: StationTotals,
    /// Its counters: complete for drives; other components count only `bytes_read`, which then includes all bytes.
    pub counts: IoCounts,
    /// For an SSD or a volume: used share of its scarcest resource, 0 to 1. The resources of an SSD are the processor,
    /// the link, the dies and the channels; those of a volume operations and bytes, relative to the limits at the end
    /// of the period.
    pub scarcest_share: Option<f64>,
    /// Totals of an SSD's flash since the beginning of the simulation.
    pub flash: Option<FlashTotals>,
}

impl Component {
    /// Used share of its capacity, 0 to 1; NaN if no time passed. For SSDs and volumes it is the used share of their
    /// scarcest resource. A mechanical drive is busy from the start of a request to its completion, also while it waits
    /// for a shared channel.
    pub fn utilisation(&self) -> f64 {
        self.scarcest_share.unwrap_or(self.totals.utilisation() / f64::from(self.servers))
    }
}

/// An array over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayReport {
    /// Its name.
    pub name: String,
    /// Its requests.
    pub totals: StationTotals,
    /// Counters of the requests that it served.
    pub counts: IoCounts,
    /// Member I/Os for these requests.
    pub member_ios: u64,
    /// Blocks that could not be served because too many members have failed.
    pub lost_blocks: u64,
    /// Drive numbers of its members.
    pub members: Vec<u32>,
    /// Members that have failed and are not rebuilt, at the end of the period.
    pub failed: u32,
    /// The rebuild or scrub, at the end of the period.
    pub background: Option<BackgroundReport>,
    /// Bytes of each member that the rebuild or scrub processed in the period; 0 if it restarted.
    pub background_bytes: u64,
}

/// Progress of a rebuild or a scrub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundReport {
    /// Its task.
    pub task: PassKind,
    /// Bytes done of each member.
    pub done_bytes: u64,
    /// Bytes of each member in total.
    pub all_bytes: u64,
    /// Time at which it ended, ns of virtual time; `None` while it runs.
    pub ended_ns: Option<Ns>,
}

/// A workload over a period of time.
#[derive(Clone, Debug)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Its requests.
    pub counts: IoCounts,
    /// Response times of its requests, ns.
    pub responses: Histogram,
    /// Mean response time with its confidence interval by batch means, s; of the whole run only. See
    /// [`crate::confidence::interval_from_stretches`].
    pub response_s: Option<Interval>,
    /// Its operations since the start of counting.
    pub operations: Vec<Operations>,
}

/// A cache over a period of time.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheReport {
    /// Its name.
    pub name: String,
    /// Its counters; levels (`dirty_blocks`, `held_blocks`, `waiting`) are those at the end.
    pub counters: CacheCounters,
}

/// Report of a simulation over a period of time.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// Start, ns of virtual time.
    pub from: Ns,
    /// End, ns of virtual time.
    pub to: Ns,
    /// Workloads.
    pub workloads: Vec<WorkloadReport>,
    /// Components in the order of the path, drives last.
    pub components: Vec<Component>,
    /// Arrays.
    pub arrays: Vec<ArrayReport>,
    /// Caches.
    pub caches: Vec<CacheReport>,
    /// Interrupts, including those that do not come from disks.
    pub interrupts: f64,
    /// Processor time of interrupts, programmed transfers included, ns.
    pub interrupt_ns: f64,
    /// Processor time requested by programs, ns.
    pub compute_ns: f64,
    /// Response times of drives and arrays in the interval; empty for the whole run.
    pub latency: Vec<DiskLatency>,
}

impl SimulationReport {
    /// Length, s.
    pub fn elapsed_s(&self) -> f64 {
        (self.to - self.from) as f64 * 1e-9
    }

    /// Finds a component by its name.
    pub fn find_component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }

    /// Returns the component with the highest utilization, the first of equals; `None` if no time passed.
    pub fn bottleneck(&self) -> Option<&Component> {
        let known = self.components.iter().filter(|component| component.utilisation().is_finite());
        known.rev().max_by(|a, b| a.utilisation().total_cmp(&b.utilisation()))
    }
}
