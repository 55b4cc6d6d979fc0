//! Model of one mechanical drive. It receives a request and the time at which the request may begin, and returns when
//! the request completes and how its time was spent. The model has no clock and does not look ahead; its background
//! activity (reading ahead, writing acknowledged data) is computed when the next request arrives, so that a request
//! costs a few divisions and no memory.

mod background;
mod burst_transfer;
mod characteristics;
mod data_sheet;
mod drive_state;
mod geometry;
mod mechanism;
mod queue;
mod reads;
mod seek;
mod segments;
mod spec;
mod writes;

use std::sync::Arc;

pub use data_sheet::{DataSheet, DataSheetSeek, TrackRate};
pub use geometry::{Geometry, SectorAddress, TrackRun};
pub use queue::{DriveQueue, QueuePolicy};
pub use seek::{RootAndLine, SeekCurve};
pub use spec::{
    ChannelSpec, DriveCacheSpec, DriveReadAhead, EarlyDisconnect, Overheads, PositioningModel, Sparing, Spec,
    TrackOrder, ZoneSpec,
};

use crate::Ns;
use crate::io::Io;
use drive_state::DriveState;
use mechanism::Mechanism;

/// Impossible item in a drive's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{item}: {reason}")]
pub struct SpecError {
    /// Name of the item.
    pub item: String,
    /// Value of the item, and what is expected.
    pub reason: String,
}

/// Outcome of a request in the drive's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The request waited for the disk.
    Miss,
    /// A read that was entirely in the buffer.
    Full,
    /// A read whose first part was in the buffer, or was being read.
    Partial,
    /// A write that was acknowledged from the write cache.
    Early,
}

impl CacheOutcome {
    /// All outcomes.
    pub const ALL: [CacheOutcome; 4] =
        [CacheOutcome::Miss, CacheOutcome::Full, CacheOutcome::Partial, CacheOutcome::Early];

    /// Returns `miss`, `hit`, `part` or `early`.
    pub fn name(self) -> &'static str {
        match self {
            CacheOutcome::Miss => "miss",
            CacheOutcome::Full => "hit",
            CacheOutcome::Partial => "part",
            CacheOutcome::Early => "early",
        }
    }
}

/// Breakdown of a request's service time, ns. The parts add up to `done_at` minus the time of the request, except where
/// they overlap: `overhead` is the remaining time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceBreakdown {
    /// Time at which the host sees the completion.
    pub done_at: Ns,
    /// Waiting for the drive's background activity.
    pub waiting: Ns,
    /// Time of the drive's processor.
    pub overhead: Ns,
    /// Seek and head switches that the request waited for.
    pub seek: Ns,
    /// Rotation that the request waited for.
    pub rotation: Ns,
    /// Time of its sectors passing under the head.
    pub media: Ns,
    /// Time of the channel, where nothing else overlapped it.
    pub channel: Ns,
    /// Time at which the request took the channel for its data. A read that may release the channel takes it as late as
    /// the last block allows.
    pub channel_start: Ns,
    /// Time for which the request used the channel.
    pub channel_time: Ns,
    /// Outcome in the cache.
    pub outcome: CacheOutcome,
}

impl ServiceBreakdown {
    /// Returns a breakdown with this outcome and all times zero.
    pub(crate) fn for_outcome(outcome: CacheOutcome) -> ServiceBreakdown {
        ServiceBreakdown {
            done_at: 0,
            waiting: 0,
            overhead: 0,
            seek: 0,
            rotation: 0,
            media: 0,
            channel: 0,
            channel_start: 0,
            channel_time: 0,
            outcome,
        }
    }
}

/// Immutable model of a drive, shared by all drives of one kind.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    mechanism: Mechanism,
    overheads: Overheads,
    cache: DriveCacheSpec,
    channel: ChannelSpec,
    queue_policy: QueuePolicy,
    queue_slots: u32,
}

impl Model {
    /// Computes the tables of a drive.
    ///
    /// # Errors
    /// Names the impossible item of the description.
    pub fn new(spec: &Spec) -> Result<Model, SpecError> {
        spec.check_limits()?;
        Ok(Model {
            name: spec.name.clone(),
            mechanism: Mechanism::new(spec)?,
            overheads: spec.overheads,
            cache: spec.cache,
            channel: spec.channel,
            queue_policy: spec.queue_policy,
            queue_slots: spec.queue_slots.max(1),
        })
    }

    /// Name of the drive.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Policy that selects the next queued request.
    pub fn queue_policy(&self) -> QueuePolicy {
        self.queue_policy
    }

    /// Number of requests that the drive queues.
    pub fn queue_slots(&self) -> u32 {
        self.queue_slots
    }

    /// Capacity in blocks of 512 bytes.
    pub fn capacity_blocks(&self) -> u64 {
        self.mechanism.geometry.capacity_blocks()
    }

    /// Time of a revolution, ns.
    pub fn revolution_ns(&self) -> Ns {
        self.mechanism.revolution_ns()
    }

    /// Returns the same drive on a channel that takes `block` ns for a block of 512 bytes, unless the drive's own
    /// interface is slower.
    pub fn with_channel_block_time(&self, block: Ns) -> Model {
        let mut model = self.clone();
        model.channel.read_block = model.channel.read_block.max(block);
        model.channel.write_block = model.channel.write_block.max(block);
        model
    }

    /// Clips a request to the drive: at least one block, and the last block for a request that begins beyond the end.
    #[inline]
    fn clip_to_capacity(&self, io: &Io) -> Io {
        let capacity = self.capacity_blocks();
        let first = io.first.min(capacity - 1);
        let blocks = u64::from(io.blocks.max(1)).min(capacity - first) as u32;
        Io { first, blocks, write: io.write }
    }

    /// Map from blocks to sectors.
    pub fn geometry(&self) -> &Geometry {
        &self.mechanism.geometry
    }
}

/// A mechanical drive with its state.
#[derive(Clone, Debug)]
pub struct MechanicalDrive {
    model: Arc<Model>,
    state: DriveState,
}

impl MechanicalDrive {
    /// Creates an idle drive, its arm over the outermost track, its cache empty.
    pub fn new(model: &Arc<Model>) -> MechanicalDrive {
        MechanicalDrive { state: DriveState::new(model), model: Arc::clone(model) }
    }

    /// Model of the drive.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Serves a request that begins now, on a channel that no other drive uses; `now` never goes back.
    #[inline]
    pub fn start(&mut self, now: Ns, io: &Io) -> ServiceBreakdown {
        self.start_on_shared_channel(now, io, 0)
    }

    /// Serves a request on a channel that is busy until `channel_free`. The request's own use of the channel is
    /// in [`ServiceBreakdown::channel_start`] and [`ServiceBreakdown::channel_time`].
    #[inline]
    pub fn start_on_shared_channel(&mut self, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        self.state.serve_request(&self.model, now, io, channel_free)
    }

    /// Flushes the write cache: completes when all acknowledged writes are on the disk. The command itself costs as
    /// much as one that does not need the disk. `now` never goes back.
    pub fn flush(&mut self, now: Ns) -> ServiceBreakdown {
        self.state.flush_cache(&self.model, now)
    }

    /// Returns the sector where a request begins, for [`MechanicalDrive::positioning_time`].
    #[inline]
    pub fn locate_request(&self, io: &Io) -> SectorAddress {
        self.model.mechanism.geometry.locate_block(io.first)
    }

    /// Time until the first sector of a request could be under the head if the request began now; 0 for a read that
    /// the cache holds.
    #[inline]
    pub fn positioning_time(&self, now: Ns, io: &Io, place: &SectorAddress) -> Ns {
        self.state.positioning_time(&self.model, now, io, place)
    }

    /// Cylinder under the arm.
    pub fn cylinder(&self) -> u32 {
        self.state.cylinder()
    }
}
