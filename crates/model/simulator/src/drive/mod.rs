//! One mechanical drive at a time of its own: it is told a request and the
//! moment at which it may begin, and says when it is done and where the time
//! went. It looks neither at a clock nor ahead; what it does on its own
//! (reading on, writing what it already reported) is worked out when the next
//! request comes, so that a request costs a few divisions and no memory.

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

/// What cannot be in a drive's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{item}: {right}")]
pub struct SpecError {
    /// Which item.
    pub item: String,
    /// What it says, and what would be right.
    pub right: String,
}

/// What the cache made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// The disk had to be waited for.
    Miss,
    /// A read that was in the buffer as a whole.
    Full,
    /// A read whose first part was in the buffer, or was just being read.
    Part,
    /// A write that was reported before it was on the disk.
    Early,
}

impl Hit {
    /// All of them.
    pub const ALL: [Hit; 4] = [Hit::Miss, Hit::Full, Hit::Part, Hit::Early];

    /// `miss`, `hit`, `part` or `early`.
    pub fn name(self) -> &'static str {
        ["miss", "hit", "part", "early"][self as usize]
    }
}

/// How a request was served. The parts add up to `done` minus the moment of
/// the request, but for what overlaps: `other` is the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceBreakdown {
    /// When the host knows that it is done.
    pub done: Ns,
    /// Waiting for what the drive still did on its own.
    pub waiting: Ns,
    /// The drive's processor.
    pub overhead: Ns,
    /// Arm and head switches that were waited for.
    pub seek: Ns,
    /// Rotation that was waited for.
    pub rotation: Ns,
    /// Sectors passing under the head.
    pub media: Ns,
    /// The channel, as far as nothing else hid it.
    pub channel: Ns,
    /// When it took the channel for its data. A read that may leave the channel takes it as late as the
    /// last block allows.
    pub channel_from: Ns,
    /// How long it needed it.
    pub channel_for: Ns,
    /// What the cache made of it.
    pub hit: Hit,
}

impl ServiceBreakdown {
    /// Nothing yet.
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

/// What never changes of a drive; drives of one kind share it.
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
    /// Works out the tables of a drive.
    ///
    /// # Errors
    /// Names what cannot be in the description.
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

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which of the requests that it holds is next.
    pub fn policy(&self) -> QueuePolicy {
        self.policy
    }

    /// Requests that it holds at a time.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Blocks of 512 bytes that it holds.
    pub fn blocks(&self) -> u64 {
        self.mechanism.geometry.blocks()
    }

    /// Time of a revolution, ns.
    pub fn revolution(&self) -> Ns {
        self.mechanism.revolution()
    }

    /// The same drive on a channel that needs `block` ns for a block of 512
    /// bytes, where the drive's own interface is not slower.
    pub fn on_channel(&self, block: Ns) -> Model {
        let mut model = self.clone();
        model.channel.read_block = model.channel.read_block.max(block);
        model.channel.write_block = model.channel.write_block.max(block);
        model
    }

    /// The part of a request that lies on the drive: at least one block, the
    /// last one for what begins beyond it.
    #[inline]
    fn within(&self, io: &Io) -> Io {
        let all = self.blocks();
        let first = io.first.min(all - 1);
        let blocks = u64::from(io.blocks.max(1)).min(all - first) as u32;
        Io { first, blocks, write: io.write }
    }

    /// Its map.
    pub fn geometry(&self) -> &Geometry {
        &self.mechanism.geometry
    }
}

/// A drive.
#[derive(Clone, Debug)]
pub struct MechanicalDrive {
    model: Arc<Model>,
    state: DriveState,
}

impl MechanicalDrive {
    /// A drive at rest, its arm over the outermost track, its cache empty.
    pub fn new(model: &Arc<Model>) -> MechanicalDrive {
        MechanicalDrive { state: DriveState::new(model), model: Arc::clone(model) }
    }

    /// What it is.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Serves a request that the drive takes up now; `now` never goes back.
    /// The channel is its own.
    #[inline]
    pub fn start(&mut self, now: Ns, io: &Io) -> ServiceBreakdown {
        self.start_on(now, io, 0)
    }

    /// The same on a channel that others use until `channel_free`. When the
    /// request holds the channel itself is told by [`ServiceBreakdown::channel_from`]
    /// and [`ServiceBreakdown::channel_for`].
    #[inline]
    pub fn start_on(&mut self, now: Ns, io: &Io, channel_free: Ns) -> ServiceBreakdown {
        self.state.serve(&self.model, now, io, channel_free)
    }

    /// All that was reported early is to be on the disk; the command is as one that needs nothing of
    /// the disk. `now` never goes back.
    pub fn flush(&mut self, now: Ns) -> ServiceBreakdown {
        self.state.flush(&self.model, now)
    }

    /// Where a request begins, for [`MechanicalDrive::positioning`].
    #[inline]
    pub fn place(&self, io: &Io) -> SectorAddress {
        self.model.mechanism.geometry.place(io.first)
    }

    /// Time until the first sector of a request could be under the head, if it
    /// were taken up now; none for a read that the cache holds.
    #[inline]
    pub fn positioning(&self, now: Ns, io: &Io, place: &SectorAddress) -> Ns {
        self.state.positioning(&self.model, now, io, place)
    }

    /// The cylinder that the arm stands over.
    pub fn cylinder(&self) -> u32 {
        self.state.cylinder()
    }
}
