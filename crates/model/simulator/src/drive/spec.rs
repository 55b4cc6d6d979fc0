//! What a mechanical drive is made of, as data: what a parameter file or a
//! catalogue says, before anything is computed from it.

use super::SpecError;
use super::seek::Seek;
use crate::Ns;

/// A mechanical drive. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// What it is called.
    pub name: String,
    /// Recording surfaces.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Turns a minute.
    pub rpm: f64,
    /// In which order tracks are numbered.
    pub order: TrackOrder,
    /// Where spare sectors lie.
    pub sparing: Sparing,
    /// Zones, outermost first, without holes in the numbering of blocks.
    pub zones: Vec<ZoneSpec>,
    /// Time of the arm by distance.
    pub seek: Seek,
    /// Switching to another head of the same cylinder.
    pub head_switch: Ns,
    /// What a write waits longer than a read, after a seek or a switch, ns. Below zero
    /// where it waits less.
    pub write_settle: i64,
    /// Whether the moment of rotation is followed.
    pub access: PositioningModel,
    /// What the drive's processor takes.
    pub overheads: Overheads,
    /// Buffer and cache.
    pub cache: DriveCacheSpec,
    /// How fast blocks move to the host.
    pub channel: ChannelSpec,
    /// Which of its queued requests is next.
    pub policy: super::QueuePolicy,
    /// Requests that it holds at a time; the others wait outside.
    pub slots: u32,
}

/// Numbering of tracks over surfaces and cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackOrder {
    /// All surfaces of a cylinder from the first on, then the next cylinder.
    Up,
    /// Up in the even cylinders of each zone and down in the odd ones.
    SerpentineInZone,
    /// Up in even cylinders and down in odd ones.
    Serpentine,
}

/// Where spares lie, and what happens to the sectors that were found bad
/// before the drive was sold (slips).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparing {
    /// No spares.
    None,
    /// Whole tracks at the end of a zone; slips and defects are numbers of tracks.
    Tracks,
    /// Sectors at the end of each track.
    Track,
    /// Sectors of each cylinder.
    Cylinder {
        /// At its front, not its end.
        front: bool,
        /// Slips do not use them but push everything behind them on.
        slips_to_end: bool,
    },
    /// Sectors at the end of so many cylinders.
    Range(u32),
    /// Sectors at the end of each zone.
    Zone,
}

/// One zone. Angles are revolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Sectors on a track.
    pub sectors: u32,
    /// Where the first sector of the zone lies.
    pub offset: f64,
    /// From the end of a track to the start of the next in the same cylinder.
    pub track_skew: f64,
    /// The same from a cylinder to the next.
    pub cylinder_skew: f64,
    /// Sectors at its front that hold no blocks.
    pub empty: u64,
    /// Spares of each place that has them, sectors (or tracks).
    pub spares: u32,
    /// Bad sectors (or tracks) left out, numbered within the zone.
    pub slips: Vec<u64>,
    /// Bad sectors (or tracks), and what stands for them, numbered within the zone.
    pub defects: Vec<(u64, u64)>,
}

/// How the time to a sector is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositioningModel {
    /// Seek and the true angle of the disk.
    Exact,
    /// Seek and half a turn.
    HalfTurn,
    /// Always the same.
    Constant(Ns),
}

/// Times of the drive's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Of each request, before the drive looks at it.
    pub each: Ns,
    /// Read that hits, after a read and after a write.
    pub read_hit: [Ns; 2],
    /// Read that misses, after a read and after a write.
    pub read_miss: [Ns; 2],
    /// Write that is reported before it is on the disk, after a read and after a write.
    pub write_hit: [Ns; 2],
    /// Write that is reported when it is on the disk, after a read and after a write.
    pub write_miss: [Ns; 2],
    /// At the end of a read.
    pub read_done: Ns,
    /// At the end of a write.
    pub write_done: Ns,
    /// Leaving the channel in a read, after a read and after a write.
    pub read_leave: [Ns; 2],
    /// Leaving the channel in a write.
    pub write_leave: Ns,
    /// Before data move over the channel.
    pub prepare: Ns,
    /// Taking the channel again for the first time.
    pub reselect: Ns,
    /// Taking it again later.
    pub reselect_again: Ns,
    /// Some drives leave the channel between a write's command and its data, where the
    /// write comes after another one and does not go on behind it.
    pub early_disconnect: Option<EarlyDisconnect>,
    /// A write elsewhere than behind the last one waits so long at least.
    pub least_seek: Ns,
}

/// Times of a write that leaves the channel before its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyDisconnect {
    /// The command, in the place of the write's overhead.
    pub command: Ns,
    /// Leaving.
    pub disconnect: Ns,
    /// Until the channel is asked for again.
    pub pause: Ns,
    /// From the command to the start of the arm.
    pub seek: Ns,
    /// Leaving again, with the data in the buffer; in the place of `write_leave`.
    pub again: Ns,
}

/// How far a drive reads on after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track; to the end of the next one where the segment reaches back
    /// into the track before, as it does behind a stream. Neither the segment nor
    /// `most_ahead` bounds it: the oldest blocks give way.
    NextTrack,
}

/// Buffer and cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveCacheSpec {
    /// Segments; none is no cache.
    pub segments: u32,
    /// Blocks of one.
    pub segment_blocks: u32,
    /// Blocks of one request that the buffer takes; more wait for room.
    pub room: u32,
    /// One segment serves writes and nothing else; it serves no reads.
    pub separate_write: bool,
    /// Data stay after they were sent, and serve reads.
    pub keeps: bool,
    /// What was written serves reads.
    pub serves_written: bool,
    /// Reading on.
    pub ahead: DriveReadAhead,
    /// Blocks read on before anything else is done.
    pub least_ahead: u32,
    /// Most blocks read on.
    pub most_ahead: u32,
    /// What is read on may push the read's own data out.
    pub ahead_over_read: bool,
    /// A read's own data are given up once they were sent.
    pub forgets_read: bool,
    /// A full hit starts reading on again.
    pub ahead_on_hit: bool,
    /// A read of the very block that is being read on waits for it.
    pub almost_hits: bool,
    /// Full hits are sent while the disk is at work on a write.
    pub hits_aside: bool,
    /// Sectors before the wanted ones are kept as they pass.
    pub keeps_passing: bool,
    /// Reading on ends within a sector, not at its end.
    pub stops_in_sector: bool,
    /// A write to what is being read on ends that before `least_ahead`.
    pub write_hit_stops: bool,
    /// Share of a read that must be in the buffer before the channel is taken.
    pub read_mark: f64,
    /// Share of a write that is still to be written when the channel is taken again.
    pub write_mark: f64,
    /// The shares are of the request, not of a segment.
    pub mark_of_request: bool,
    /// The first blocks of a read, where they are in the buffer, are sent at once, and
    /// not only from `read_mark` on.
    pub sends_part: bool,
    /// A sector is read only when there is room for it, not into a place of its own.
    pub reads_into_buffer: bool,
    /// Writes are reported before they are on the disk.
    pub reports_early: bool,
    /// The queue prefers a write that goes on behind the one that is just being written.
    pub appends_first: bool,
    /// Such a write shares its segment, and is taken without waiting.
    pub appends: bool,
    /// Blocks of early writes that may wait for the disk behind each other.
    pub early_blocks: u32,
    /// Early writes elsewhere are taken while one is still being written ...
    pub takes_writes: bool,
    /// ... in so many segments at most.
    pub write_segments: u32,
    /// Reads a track from wherever the head lands.
    pub read_on_arrival: bool,
    /// Writes a track from wherever the head lands.
    pub write_on_arrival: bool,
}

impl DriveCacheSpec {
    /// No cache: a buffer of one block that keeps nothing.
    pub fn none() -> DriveCacheSpec {
        DriveCacheSpec {
            segments: 0,
            segment_blocks: 1,
            room: u32::MAX,
            separate_write: false,
            keeps: false,
            serves_written: false,
            ahead: DriveReadAhead::None,
            least_ahead: 0,
            most_ahead: 0,
            ahead_over_read: false,
            forgets_read: false,
            ahead_on_hit: false,
            almost_hits: false,
            hits_aside: false,
            keeps_passing: false,
            stops_in_sector: false,
            write_hit_stops: false,
            read_mark: 0.0,
            write_mark: 0.0,
            mark_of_request: true,
            sends_part: true,
            reads_into_buffer: true,
            reports_early: false,
            appends_first: true,
            appends: true,
            early_blocks: 1,
            takes_writes: false,
            write_segments: 1,
            read_on_arrival: false,
            write_on_arrival: false,
        }
    }
}

/// How fast blocks move over the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelSpec {
    /// A block to the host.
    pub read_block: Ns,
    /// A block from the host.
    pub write_block: Ns,
    /// The channel is kept from command to end.
    pub never_leaves: bool,
    /// It is kept while a read waits for more of its blocks.
    pub holds_reads: bool,
    /// It is kept while a write waits for room.
    pub holds_writes: bool,
}

impl Spec {
    /// Looks for what cannot be.
    ///
    /// # Errors
    /// Names the item and what would be right.
    pub fn check(&self) -> Result<(), SpecError> {
        let wrong = |what: &str, right: String| Err(SpecError { item: what.to_owned(), right });
        if self.surfaces == 0 || self.surfaces > 1024 {
            return wrong("surfaces", format!("{}; expected 1 to 1024", self.surfaces));
        }
        if self.cylinders == 0 || self.cylinders > 2_000_000 {
            return wrong("cylinders", format!("{}; expected 1 to 2 million", self.cylinders));
        }
        if !(self.rpm >= 1.0 && self.rpm <= 1e6) {
            return wrong("rotation speed", format!("{} rpm; expected 1 to 1,000,000", self.rpm));
        }
        if self.zones.is_empty() {
            return wrong("zones", "none; a drive needs at least one".into());
        }
        if self.cache.segments > 4096 {
            return wrong("segments", format!("{}; the limit is 4096", self.cache.segments));
        }
        let mut after = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            let item = format!("zone {}", index + 1);
            if zone.first_cylinder < after || zone.last_cylinder < zone.first_cylinder {
                let right = format!(
                    "cylinders {} to {}; the first must be at least {after}, and the last not below it",
                    zone.first_cylinder, zone.last_cylinder
                );
                return wrong(&item, right);
            }
            if zone.last_cylinder >= self.cylinders {
                let right = format!("it ends at cylinder {}, but the drive has {}", zone.last_cylinder, self.cylinders);
                return wrong(&item, right);
            }
            if zone.sectors == 0 || zone.sectors > 1_000_000 {
                return wrong(&item, format!("{} sectors per track; expected 1 to 1,000,000", zone.sectors));
            }
            after = zone.last_cylinder + 1;
        }
        Ok(())
    }
}
