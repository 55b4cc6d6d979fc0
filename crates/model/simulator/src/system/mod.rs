//! A system: the parts of a server's path to its disks, what lies on them, and
//! what is asked of them. Plain data: [`crate::run`] simulates it.
//!
//! ```text
//! workload -> host (processors, file cache) -> bus -> controller (cache, parity) -> channel -> drive
//! ```
//!
//! Components refer to one another by their position in these lists.

mod change;
pub mod read;

pub use change::{SLOWEST, ScheduledChange, SystemChange};

use crate::Ns;
use crate::array::{ArrayDescription, ArrayError, ArrayGeometry, ArrayLayout, ArrayLevel, ArrayPolicy};
use crate::cache::BlockCacheSpec;
use crate::device::DeviceModel;
use crate::drive::QueuePolicy as Order;
use crate::load::LoadSpec;

/// A whole system.
#[derive(Clone, Debug)]
pub struct System {
    /// What it is called.
    pub name: String,
    /// How long it is watched.
    pub watch: WatchSpec,
    /// The computer.
    pub host: HostSpec,
    /// Buses between host and controllers.
    pub buses: Vec<Bus>,
    /// Controllers (adapters).
    pub controllers: Vec<Controller>,
    /// Channels between controllers and drives.
    pub channels: Vec<Channel>,
    /// Drives in groups of equal ones.
    pub drives: Vec<Drives>,
    /// Sets made of drives.
    pub arrays: Vec<Set>,
    /// What is asked.
    pub workloads: Vec<Workload>,
    /// What happens in the course of a run; of one moment, in this order.
    pub events: Vec<ScheduledChange>,
}

/// How a simulation is watched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchSpec {
    /// The seed of all chance.
    pub seed: u64,
    /// Time before anything is counted.
    pub warm_up: Ns,
    /// Time that is counted; the end may come earlier when all workloads have finished.
    pub duration: Ns,
    /// Length of a sample.
    pub interval: Ns,
}

impl Default for WatchSpec {
    /// A minute after ten seconds of warming up, by the second.
    fn default() -> WatchSpec {
        const SECOND: Ns = 1_000_000_000;
        WatchSpec { seed: 1, warm_up: 10 * SECOND, duration: 60 * SECOND, interval: SECOND }
    }
}

/// The computer: what a request costs its processors, and its file cache.
/// Nothing costs anything by default.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    /// Processors.
    pub processors: u32,
    /// Processor time of a request on its way down, ns.
    pub request: Ns,
    /// Processor time of an interrupt, ns.
    pub interrupt: Ns,
    /// Processor time of a byte that is copied between the file cache and a program, ps.
    pub copy_byte_ps: u64,
    /// Processor time of a byte folded into a parity by XOR, ps (software arrays).
    pub xor_byte_ps: u64,
    /// Processor time of a byte multiplied and folded in (second and third parity), ps.
    pub galois_byte_ps: u64,
    /// Interrupts a second that come anyway (clock, network).
    pub other_interrupts_per_s: f64,
    /// The file cache.
    pub cache: Option<BlockCacheSpec>,
    /// The largest request that goes to a volume, blocks; larger ones are split.
    pub transfer_blocks: Option<u32>,
    /// Rate of the host bus that all data cross, bytes/s.
    pub memory_rate: Option<u64>,
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            processors: 1,
            request: 0,
            interrupt: 0,
            copy_byte_ps: 0,
            xor_byte_ps: 0,
            galois_byte_ps: 0,
            other_interrupts_per_s: 0.0,
            cache: None,
            transfer_blocks: None,
            memory_rate: None,
        }
    }
}

/// A bus between host and controllers; one transfer at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bus {
    /// What it is called.
    pub name: String,
    /// Bytes a second.
    pub rate: u64,
    /// Time of a transfer besides its bytes, ns.
    pub overhead: Ns,
}

/// How data come into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMode {
    /// By the controller: one interrupt for each so many blocks, or for each request.
    Dma {
        /// Blocks an interrupt; `None`: one a request.
        interrupt_blocks: Option<u32>,
    },
    /// By a processor, byte by byte.
    Pio {
        /// Blocks an interrupt (one sector usually).
        interrupt_blocks: u32,
        /// Processor time of a byte, ps.
        byte_ps: u64,
    },
}

/// A controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// What it is called.
    pub name: String,
    /// Its bus, by position.
    pub bus: Option<usize>,
    /// Its processor's time for a request of the host, ns.
    pub command: Ns,
    /// Its processor's time for each member I/O of an array that it runs, ns.
    pub member_command: Ns,
    /// Rate of its port: everything that passes it, bytes/s.
    pub rate: Option<u64>,
    /// Time of a byte folded into a parity by XOR, ps.
    pub xor_byte_ps: u64,
    /// Time of a byte multiplied and folded in, ps.
    pub galois_byte_ps: u64,
    /// Its cache; before the arrays that it runs, or before single drives.
    pub cache: Option<BlockCacheSpec>,
    /// Requests of the host that it works on at a time; others wait outside.
    pub outstanding: Option<u32>,
    /// The largest request that it takes, blocks; larger ones are split.
    pub transfer_blocks: Option<u32>,
    /// How data come into memory.
    pub transfer: TransferMode,
}

/// A channel (SCSI bus, ATA cable, SAS or PCIe link); one transfer at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// What it is called.
    pub name: String,
    /// Its controller, by position.
    pub controller: Option<usize>,
    /// Bytes a second; `None`: as fast as each drive's own interface.
    pub rate: Option<u64>,
    /// Arbitration, selection, command and status of a request, ns.
    pub overhead: Ns,
    /// True where a drive lets the channel go while it positions.
    pub disconnects: bool,
}

/// Equal drives.
#[derive(Clone, Debug)]
pub struct Drives {
    /// What they are called; a single one of several is `name0`, `name1`...
    pub name: String,
    /// How many.
    pub count: u32,
    /// What they are.
    pub device: DeviceModel,
    /// Their channel, by position.
    pub channel: Option<usize>,
    /// Which of the requests that a drive sees is next.
    pub order: Order,
    /// Requests that a drive sees at a time (tagged queueing); others wait in
    /// the order in which they came.
    pub depth: u32,
}

/// Who runs an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunBy {
    /// The host (software): it pays the parity and sees every member I/O.
    Host,
    /// A controller (hardware), by position: the host sees one request.
    Controller(usize),
}

/// An array of drives.
#[derive(Clone, Debug)]
pub struct Set {
    /// What it is called.
    pub name: String,
    /// Level.
    pub level: ArrayLevel,
    /// Layout; the level's usual one if `None`.
    pub layout: Option<ArrayLayout>,
    /// Copies, where the level keeps copies; the level's usual if `None`.
    pub copies: Option<u16>,
    /// Members: drives by number over all groups, in the order of the groups.
    pub members: Vec<u32>,
    /// Stripe unit, blocks.
    pub unit_blocks: u64,
    /// Blocks of each member that are used; all if `None`.
    pub member_blocks: Option<u64>,
    /// Who runs it.
    pub run_by: RunBy,
    /// Choices of its planner.
    pub policy: ArrayPolicy,
    /// Members that have failed before the beginning, by position.
    pub failed: Vec<u16>,
    /// Spare drives, by number.
    pub spares: Vec<u32>,
    /// How it rebuilds onto a spare; it does not if `None`.
    pub rebuild: Option<Background>,
    /// How it is scrubbed; it is not if `None`.
    pub scrub: Option<Background>,
}

/// Work in the background: a rebuild or a scrub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Background {
    /// Blocks of a member in one step.
    pub step_blocks: u32,
    /// Steps under way at a time.
    pub depth: u32,
    /// Most bytes a second of a member; as fast as it goes if `None`.
    pub rate: Option<u64>,
}

/// What a workload uses: positions of drives (by number over all groups) or arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadTarget {
    /// A drive by itself.
    Drive(u32),
    /// An array.
    Array(usize),
}

/// What is asked of a system.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// What it uses; loads speak of these by position.
    pub targets: Vec<WorkloadTarget>,
    /// What it does.
    pub load: LoadSpec,
}

impl Controller {
    /// A controller that costs nothing, by direct memory access.
    pub fn new(name: &str) -> Controller {
        Controller {
            name: name.to_owned(),
            bus: None,
            command: 0,
            member_command: 0,
            rate: None,
            xor_byte_ps: 0,
            galois_byte_ps: 0,
            cache: None,
            outstanding: None,
            transfer_blocks: None,
            transfer: TransferMode::Dma { interrupt_blocks: None },
        }
    }
}

impl Drives {
    /// Equal drives on no channel, first come first served, which see all that
    /// waits for them.
    pub fn new(name: &str, count: u32, device: DeviceModel) -> Drives {
        let (order, depth) = (Order::FirstCome, u32::MAX);
        Drives { name: name.to_owned(), count, device, channel: None, order, depth }
    }
}

impl Set {
    /// An array of these drives with stripe units of 64 KiB, run by the host.
    pub fn new(name: &str, level: ArrayLevel, members: Vec<u32>) -> Set {
        Set {
            name: name.to_owned(),
            level,
            layout: None,
            copies: None,
            members,
            unit_blocks: 128,
            member_blocks: None,
            run_by: RunBy::Host,
            policy: ArrayPolicy::default(),
            failed: Vec::new(),
            spares: Vec::new(),
            rebuild: None,
            scrub: None,
        }
    }
}

impl System {
    /// Nothing but a host that costs nothing.
    pub fn new(name: &str) -> System {
        System {
            name: name.to_owned(),
            watch: WatchSpec::default(),
            host: HostSpec::default(),
            buses: Vec::new(),
            controllers: Vec::new(),
            channels: Vec::new(),
            drives: Vec::new(),
            arrays: Vec::new(),
            workloads: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Drives of all groups.
    pub fn drive_count(&self) -> u32 {
        self.drives.iter().map(|group| group.count).sum()
    }

    /// The group of a drive, and its position there.
    pub fn group_of(&self, drive: u32) -> Option<(usize, u32)> {
        let mut left = drive;
        for (position, group) in self.drives.iter().enumerate() {
            if left < group.count {
                return Some((position, left));
            }
            left -= group.count;
        }
        None
    }

    /// Blocks of a drive.
    pub fn drive_blocks(&self, drive: u32) -> Option<u64> {
        self.group_of(drive).map(|(group, _)| self.drives[group].device.blocks())
    }

    /// The geometry of a set of this system's drives; drives that there are
    /// not count as empty, which no array can be made of.
    pub fn array_of(&self, set: &Set) -> Result<ArrayGeometry, ArrayError> {
        let members = set.members.iter().map(|drive| self.member_blocks(set, *drive).unwrap_or(0)).collect();
        let Set { level, unit_blocks, layout, copies, .. } = *set;
        ArrayGeometry::new(&ArrayDescription { level, members, unit_blocks, layout, copies })
    }

    /// Blocks of a drive that a set uses, as a member or a spare; `None` where there is no such drive.
    pub fn member_blocks(&self, set: &Set, drive: u32) -> Option<u64> {
        let blocks = self.drive_blocks(drive)?;
        Some(set.member_blocks.map_or(blocks, |most| most.min(blocks)))
    }

    /// What a drive is called: that of its group, with its position there where there are several.
    pub fn drive_name(&self, drive: u32) -> String {
        match self.group_of(drive) {
            Some((group, _)) if self.drives[group].count == 1 => self.drives[group].name.clone(),
            Some((group, number)) => format!("{}{number}", self.drives[group].name),
            None => format!("drive {drive}"),
        }
    }
}
