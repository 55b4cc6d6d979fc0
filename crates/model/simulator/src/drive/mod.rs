//! Model of one mechanical drive. It is given a request and the time at which the request may begin, and returns when
//! the request completes and how its time was spent. It has no clock and does not look ahead; its background activity
//! (reading ahead, writing acknowledged data) is computed when the next request arrives, so that a request costs a
//! few divisions and no memory.

mod ahead;
mod cache;
mod facts;
mod flow;
mod geometry;
mod mechanism;
mod printed;
mod queue;
mod reads;
mod seek;
mod serve;
mod spec;
mod writes;

use std::sync::Arc;

pub use geometry::{Geometry, SectorAddress, TrackRun};
pub use printed::{DataSheet, DataSheetSeek, TrackRate};
pub use queue::{DriveQueue, QueuePolicy};
pub use seek::{RootAndLine, Seek};
pub use spec::{
    ChannelSpec, DriveCacheSpec, DriveReadAhead, EarlyDisconnect, Overheads, PositioningModel, Sparing, Spec,
    TrackOrder, ZoneSpec,
};

use crate::Ns;
use crate::io::Io;
use mechanism::Mechanism;
use serve::DriveState;

/// Impossible item in a drive's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{item}: {reason}")]
pub struct SpecError {
    /// Name of the item.
    pub item: String,
    /// Value of the item, and what is expected.
    pub right: String,
}

/// Outcome of a request in the drive's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// The request waited for the disk.
    Miss,
    /// A read that was entirely in the buffer.
    Full,
    /// A read whose first part was in the buffer, or was being read.
    Part,
    /// A write that was acknowledged from the write cache.
    Early,
}

impl Hit {
    /// All outcomes.
    pub const ALL: [Hit; 4] = [Hit::Miss, Hit::Full, Hit::Part, Hit::Early];

    /// Returns `miss`, `hit`, `part` or `early`.
    pub fn name(self) -> &'static str {
        ["miss", "hit", "part", "early"][self as usize]
    }
}

/// Breakdown of a request's service time, ns. The parts add up to `done_at` minus the time of the request, except where
/// they overlap: `overhead` is the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceBreakdown {
    /// Time at which the host sees the completion.
    pub done: Ns,
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
    /// Time at which it took the channel for its data. A read that may release the channel takes it as late as the
    /// last block allows.
    pub channel_from: Ns,
    /// Time for which it used the channel.
    pub channel_for: Ns,
    /// Outcome in the cache.
    pub hit: Hit,
}

impl ServiceBreakdown {
    /// Returns a breakdown with this outcome and all times zero.
    pub(crate) fn of(hit: Hit) -> ServiceBreakdown {
        ServiceBreakdown {
            done: 0,
            waiting: 0,
            overhead: 0,
            seek: 0,
            rotation: 0,
            media: 0,
            channel: 0,
            channel_from: 0,
            channel_for: 0,
            hit,
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
    policy: QueuePolicy,
    slots: u32,
}

impl Model {
    /// Computes the tables of a drive.
    ///
    /// # Errors
    /// Names the impossible item of the description.
    pub fn new(spec: &Spec) -> Result<Model, SpecError> {
        spec.check()?;
        Ok(Model {
            name: spec.name.clone(),
            mechanism: Mechanism::new(spec)?,
            overheads: spec.overheads,
            cache: spec.cache,
            channel: spec.channel,
            policy: spec.policy,
            slots: spec.slots.max(1),
        })
    }

    /// Name of the drive.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Policy that selects the next of its queued requests.
    pub fn policy(&self) -> QueuePolicy {
        self.policy
    }

    /// Number of requests that the drive queues.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Capacity in blocks of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.mechanism.geometry.blocks()
    }

    /// Time of a revolution, ns.
    pub fn revolution(&self) -> Ns {
        self.mechanism.revolution()
    }

    /// Returns the same drive on a channel that takes `block` ns for a block of 512 bytes, unless the drive's own
    /// interface is slower.
    pub fn on_channel(&self, block: Ns) -> Model {
        let mut model = self.clone();
        model.channel.read_block = model.channel.read_block.max(block);
        model.channel.write_block = model.channel.write_block.max(block);
        model
    }

    /// Clips a request to the drive: at least one block, and the last block for a request that begins beyond the end.
    #[inline]
    fn within(&self, io: &Io) -> Io {
        let capacity = self.blocks();
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
        self.start_on(now, io, 0)
    }

    /// Serves a request on a channel that is busy until `channel_free`. The request's own use of the channel is
    /// in [`ServiceBreakdown::channel_from`] and [`ServiceBreakdown::channel_for`].
    #[inline]
    pub fn start_on(&mut self, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        self.state.serve(&self.model, now, io, channel_free)
    }

    /// Flushes the write cache: completes when all acknowledged writes are on the disk. The command itself costs as
    /// much as one that does not need the disk. `now` never goes back.
    pub fn flush(&mut self, now: Ns) -> ServiceBreakdown {
        self.state.flush(&self.model, now)
    }

    /// Returns the sector where a request begins, for [`MechanicalDrive::positioning`].
    #[inline]
    pub fn place(&self, io: &Io) -> SectorAddress {
        self.model.mechanism.geometry.place(io.first)
    }

    /// Time until the first sector of a request could be under the head if the request began now; 0 for a read that
    /// the cache holds.
    #[inline]
    pub fn positioning(&self, now: Ns, io: &Io, place: &SectorAddress) -> Ns {
        self.state.positioning(&self.model, now, io, place)
    }

    /// Cylinder under the arm.
    pub fn cylinder(&self) -> u32 {
        self.state.cylinder()
    }
}
