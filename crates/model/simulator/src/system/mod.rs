//! A system: the parts of a server's path to its disks, the arrays on them, and their workloads. Plain data:
//! [`crate::run`] simulates it.
//!
//! ```text
//! workload -> host (processors, file cache) -> bus -> controller (cache, parity) -> channel -> drive
//! ```
//!
//! Components refer to one another by their position in these lists.

mod change;
pub mod read;

pub use change::{SLOWDOWN_FACTOR_RANGE, ScheduledChange, SystemChange};

use crate::Ns;
use crate::array::{ArrayDescription, ArrayError, ArrayGeometry, ArrayLayout, ArrayLevel, ArrayPolicy};
use crate::cache::BlockCacheSpec;
use crate::device::DeviceModel;
use crate::drive::QueuePolicy as Order;
use crate::load::LoadSpec;

/// A complete system.
#[derive(Clone, Debug)]
pub struct System {
    /// Its name.
    pub name: String,
    /// Duration and sampling of a simulation.
    pub watch: WatchSpec,
    /// The host computer.
    pub host: HostSpec,
    /// Buses between host and controllers.
    pub buses: Vec<Bus>,
    /// Controllers (adapters).
    pub controllers: Vec<Controller>,
    /// Channels between controllers and drives.
    pub channels: Vec<Channel>,
    /// Groups of equal drives.
    pub drives: Vec<DriveGroupSpec>,
    /// Arrays of drives.
    pub arrays: Vec<ArraySpec>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Scheduled changes during a run; at equal times, in this order.
    pub events: Vec<ScheduledChange>,
}

/// Seed, duration and sampling of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchSpec {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Warm-up time, before anything is counted.
    pub warm_up: Ns,
    /// Counted time; a run may end earlier when all workloads have finished.
    pub duration: Ns,
    /// Length of a sample.
    pub interval: Ns,
}

impl Default for WatchSpec {
    /// One minute after a warm-up of ten seconds, with samples of a second.
    fn default() -> WatchSpec {
        const SECOND: Ns = 1_000_000_000;
        WatchSpec { seed: 1, warm_up: 10 * SECOND, duration: 60 * SECOND, interval: SECOND }
    }
}

/// The host computer: processor time of requests, and its file cache. By default, nothing takes time.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    /// Number of processors.
    pub processors: u32,
    /// Processor time of a request on its way down, ns.
    pub request_ns: Ns,
    /// Processor time of an interrupt, ns.
    pub interrupt_ns: Ns,
    /// Processor time per byte copied between the file cache and a program, ps.
    pub copy_byte_ps: u64,
    /// Processor time per byte folded into a parity by XOR, ps (software arrays).
    pub xor_byte_ps: u64,
    /// Processor time per byte multiplied in GF(256) and folded in (second and third parity), ps.
    pub gf_mul_byte_ps: u64,
    /// Interrupts per second from other sources (clock, network).
    pub other_interrupts_per_s: f64,
    /// The file cache.
    pub cache: Option<BlockCacheSpec>,
    /// Largest request to a volume, blocks; larger ones are split.
    pub transfer_blocks: Option<u32>,
    /// Rate of the host bus that all data cross, bytes/s.
    pub memory_rate: Option<u64>,
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            processors: 1,
            request_ns: 0,
            interrupt_ns: 0,
            copy_byte_ps: 0,
            xor_byte_ps: 0,
            gf_mul_byte_ps: 0,
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
    /// Its name.
    pub name: String,
    /// Bytes per second.
    pub rate: u64,
    /// Fixed time per transfer, ns.
    pub overhead_ns: Ns,
}

/// Transfer of data between a controller and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMode {
    /// By the controller: one interrupt per `interrupt_blocks`, or per request.
    Dma {
        /// Blocks per interrupt; `None` means one interrupt per request.
        interrupt_blocks: Option<u32>,
    },
    /// By a processor, byte by byte.
    Pio {
        /// Blocks per interrupt (usually one sector).
        interrupt_blocks: u32,
        /// Processor time per byte, ps.
        byte_ps: u64,
    },
}

/// A controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Its name.
    pub name: String,
    /// Its bus, by position.
    pub bus: Option<usize>,
    /// Its processor's time per request of the host, ns.
    pub command_ns: Ns,
    /// Its processor's time per member I/O of an array that it runs, ns.
    pub member_command_ns: Ns,
    /// Rate of its port, bytes/s.
    pub rate: Option<u64>,
    /// Time per byte folded into a parity by XOR, ps.
    pub xor_byte_ps: u64,
    /// Time per byte multiplied in GF(256) and folded in, ps.
    pub gf_mul_byte_ps: u64,
    /// Its cache, in front of the arrays that it runs, or of single drives.
    pub cache: Option<BlockCacheSpec>,
    /// Largest number of concurrent host requests; others wait outside.
    pub max_outstanding: Option<u32>,
    /// Largest request that it takes, blocks; larger ones are split.
    pub transfer_blocks: Option<u32>,
    /// Transfer of data between the controller and memory.
    pub transfer: TransferMode,
}

/// A channel (SCSI bus, ATA cable, SAS or PCIe link); one transfer at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Its controller, by position.
    pub controller: Option<usize>,
    /// Bytes per second; `None` means as fast as each drive's own interface.
    pub rate: Option<u64>,
    /// Arbitration, selection, command and status of a request, ns.
    pub overhead_ns: Ns,
    /// True if drives release the channel while they position.
    pub disconnects: bool,
}

/// A group of equal drives.
#[derive(Clone, Debug)]
pub struct DriveGroupSpec {
    /// Name of the group; the drives of a larger group are `name0`, `name1`...
    pub name: String,
    /// Number of drives.
    pub count: u32,
    /// Their device model.
    pub device: DeviceModel,
    /// Their channel, by position.
    pub channel: Option<usize>,
    /// Scheduling policy for the requests that a drive sees.
    pub order: Order,
    /// Requests that a drive sees at a time (tagged queueing); others wait in the order of arrival.
    pub depth: u32,
}

/// The part that runs an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunBy {
    /// The host (software): it computes the parity and sees every member I/O.
    Host,
    /// A controller (hardware), by position: the host sees one request.
    Controller(usize),
}

/// An array of drives.
#[derive(Clone, Debug)]
pub struct ArraySpec {
    /// Its name.
    pub name: String,
    /// RAID level.
    pub level: ArrayLevel,
    /// Layout; the level's default if `None`.
    pub layout: Option<ArrayLayout>,
    /// Number of copies, for levels with copies; the level's default if `None`.
    pub copies: Option<u16>,
    /// Members: drives by number over all groups, in the order of the groups.
    pub members: Vec<u32>,
    /// Stripe unit, blocks.
    pub unit_blocks: u64,
    /// Blocks used of each member; all if `None`.
    pub member_blocks: Option<u64>,
    /// The part that runs it.
    pub run_by: RunBy,
    /// Choices of its planner.
    pub policy: ArrayPolicy,
    /// Positions of members that have failed before the start.
    pub failed: Vec<u16>,
    /// Drive numbers of spares.
    pub spares: Vec<u32>,
    /// Settings of rebuilds onto spares; `None` for no rebuild.
    pub rebuild: Option<BackgroundWork>,
    /// Settings of a scrub; `None` for no scrub.
    pub scrub: Option<BackgroundWork>,
}

/// Background work: a rebuild or a scrub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundWork {
    /// Blocks of a member in one step.
    pub step_blocks: u32,
    /// Steps in flight.
    pub depth: u32,
    /// Largest rate, bytes/s of a member; unlimited if `None`.
    pub rate: Option<u64>,
}

/// Target of a workload: a drive (by number over all groups) or an array (by position).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadTarget {
    /// A single drive.
    Drive(u32),
    /// An array.
    Array(usize),
}

/// A workload of a system.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its targets; loads refer to them by position.
    pub targets: Vec<WorkloadTarget>,
    /// Its load.
    pub load: LoadSpec,
}

impl Controller {
    /// A controller without any costs, with direct memory access.
    pub fn new(name: &str) -> Controller {
        Controller {
            name: name.to_owned(),
            bus: None,
            command_ns: 0,
            member_command_ns: 0,
            rate: None,
            xor_byte_ps: 0,
            gf_mul_byte_ps: 0,
            cache: None,
            max_outstanding: None,
            transfer_blocks: None,
            transfer: TransferMode::Dma { interrupt_blocks: None },
        }
    }
}

impl DriveGroupSpec {
    /// Equal drives without a channel, first come first served, with unlimited queue depth.
    pub fn new(name: &str, count: u32, device: DeviceModel) -> DriveGroupSpec {
        let (order, depth) = (Order::FirstComeFirstServed, u32::MAX);
        DriveGroupSpec { name: name.to_owned(), count, device, channel: None, order, depth }
    }
}

impl ArraySpec {
    /// An array of these drives with stripe units of 64 KiB, run by the host.
    pub fn new(name: &str, level: ArrayLevel, members: Vec<u32>) -> ArraySpec {
        ArraySpec {
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
    /// Creates a system with only a host, which takes no time.
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

    /// Number of drives in all groups.
    pub fn drive_count(&self) -> u32 {
        self.drives.iter().map(|group| group.count).sum()
    }

    /// Returns the group of a drive, and its position there.
    pub fn find_drive_group(&self, drive: u32) -> Option<(usize, u32)> {
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
        self.find_drive_group(drive).map(|(group, _)| self.drives[group].device.block_count())
    }

    /// Returns the geometry of an array of this system's drives. Drives that do not exist count as empty, which is an
    /// error.
    pub fn array_geometry(&self, array: &ArraySpec) -> Result<ArrayGeometry, ArrayError> {
        let members = array.members.iter().map(|drive| self.member_blocks(array, *drive).unwrap_or(0)).collect();
        let ArraySpec { level, unit_blocks, layout, copies, .. } = *array;
        ArrayGeometry::new(&ArrayDescription { level, members, unit_blocks, layout, copies })
    }

    /// Returns the blocks of a drive that an array uses, as a member or a spare; `None` if there is no such drive.
    pub fn member_blocks(&self, array: &ArraySpec, drive: u32) -> Option<u64> {
        let blocks = self.drive_blocks(drive)?;
        Some(array.member_blocks.map_or(blocks, |max_blocks| max_blocks.min(blocks)))
    }

    /// Returns a drive's name: that of its group, followed by its position if the group has several.
    pub fn drive_name(&self, drive: u32) -> String {
        match self.find_drive_group(drive) {
            Some((group, _)) if self.drives[group].count == 1 => self.drives[group].name.clone(),
            Some((group, number)) => format!("{}{number}", self.drives[group].name),
            None => format!("drive {drive}"),
        }
    }
}
