//! Description of a mechanical drive as plain data: the content of a parameter file or a catalogue entry, before
//! anything is computed from it.

use super::SpecError;
use super::seek::SeekCurve;
use crate::Ns;

/// Description of a mechanical drive. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name of the drive.
    pub name: String,
    /// Recording surfaces.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Rotation speed, revolutions per minute.
    pub rpm: f64,
    /// Numbering order of the tracks.
    pub track_order: TrackOrder,
    /// Layout of spare sectors.
    pub sparing: Sparing,
    /// Zones, outermost first, with contiguous block numbers.
    pub zones: Vec<ZoneSpec>,
    /// Seek time by distance.
    pub seek: SeekCurve,
    /// Time to switch to another head of the same cylinder.
    pub head_switch_ns: Ns,
    /// Additional settle time of a write after a seek or a switch, ns; negative if a write settles faster than a
    /// read.
    pub write_settle_ns: i64,
    /// Method by which the time to a sector is found.
    pub positioning_model: PositioningModel,
    /// Times of the drive's processor.
    pub overheads: Overheads,
    /// Buffer and cache.
    pub cache: DriveCacheSpec,
    /// Speed and use of the channel to the host.
    pub channel: ChannelSpec,
    /// Policy that selects the next queued request.
    pub queue_policy: super::QueuePolicy,
    /// Number of requests that the drive queues; further ones wait in the host.
    pub queue_slots: u32,
}

/// Numbering of tracks over surfaces and cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackOrder {
    /// All surfaces of a cylinder in ascending order, then the next cylinder.
    Ascending,
    /// Ascending in the even cylinders of each zone, descending in the odd ones.
    SerpentineInZone,
    /// Ascending in even cylinders, descending in odd ones.
    Serpentine,
}

/// Layout of spares, and handling of sectors found bad in manufacturing (slips).
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
        /// True for spares at the front of the cylinder, false for spares at its end.
        front: bool,
        /// True if slips do not use the spares but shift all later sectors.
        slips_to_end: bool,
    },
    /// Sectors at the end of each group of this many cylinders.
    Range(u32),
    /// Sectors at the end of each zone.
    Zone,
}

/// Description of a zone. Angles are revolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Sectors on a track.
    pub sectors_per_track: u32,
    /// Angle of the zone's first sector.
    pub offset: f64,
    /// Skew from the end of a track to the start of the next in the same cylinder.
    pub track_skew: f64,
    /// Skew from the end of a cylinder to the start of the next.
    pub cylinder_skew: f64,
    /// Sectors at its front that hold no blocks.
    pub empty_sectors: u64,
    /// Spares of each region that has them, sectors (or tracks).
    pub spares: u32,
    /// Bad sectors (or tracks) left out, numbered within the zone.
    pub slips: Vec<u64>,
    /// Bad sectors (or tracks) and their replacements, numbered within the zone.
    pub defects: Vec<(u64, u64)>,
}

/// Method by which the time to a sector is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositioningModel {
    /// Seek and the exact angle of the disk.
    Exact,
    /// Seek and half a revolution.
    HalfTurn,
    /// A constant time.
    Constant(Ns),
}

/// Times of the drive's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// For each request, before the drive processes it.
    pub per_request: Ns,
    /// For a read hit, after a read and after a write.
    pub read_hit: [Ns; 2],
    /// For a read miss, after a read and after a write.
    pub read_miss: [Ns; 2],
    /// For a write acknowledged from the cache, after a read and after a write.
    pub write_hit: [Ns; 2],
    /// For a write acknowledged when it is on the disk, after a read and after a write.
    pub write_miss: [Ns; 2],
    /// At the end of a read.
    pub read_done: Ns,
    /// At the end of a write.
    pub write_done: Ns,
    /// To disconnect from the channel in a read, after a read and after a write.
    pub read_disconnect: [Ns; 2],
    /// To disconnect from the channel in a write.
    pub write_disconnect: Ns,
    /// Before data moves over the channel.
    pub prepare: Ns,
    /// To reconnect to the channel for the first time.
    pub reselect: Ns,
    /// To reconnect again later.
    pub reselect_again: Ns,
    /// Set for drives that disconnect between a write's command and its data, if the write follows another
    /// one without being contiguous to it.
    pub early_disconnect: Option<EarlyDisconnect>,
    /// Minimum seek time of a write that is not contiguous to the previous one.
    pub min_seek: Ns,
}

/// Times of a write that disconnects from the channel before its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyDisconnect {
    /// The command; replaces the write's overhead.
    pub command: Ns,
    /// To disconnect.
    pub disconnect: Ns,
    /// Until the drive reconnects.
    pub pause: Ns,
    /// From the command to the start of the seek.
    pub seek: Ns,
    /// To disconnect again, with the data in the buffer; replaces `write_disconnect`.
    pub disconnect_again: Ns,
}

/// Extent of a drive's read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveReadAhead {
    /// No read-ahead.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track; to the end of the next track if the segment reaches back into the track before,
    /// as it does in a sequential stream. Neither the segment nor `max_ahead` limits it: the oldest blocks are
    /// dropped.
    NextTrack,
}

/// Buffer and cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveCacheSpec {
    /// Number of segments; 0 means no cache.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Blocks of one request that the buffer holds; further ones wait for space.
    pub buffer_blocks: u32,
    /// One segment is reserved for writes; it serves no reads.
    pub has_write_segment: bool,
    /// Data is kept after it was sent, and serves reads.
    pub keeps_data: bool,
    /// Written data serves reads.
    pub serves_written: bool,
    /// Extent of read-ahead.
    pub read_ahead: DriveReadAhead,
    /// Blocks read ahead before any other request is served.
    pub min_ahead: u32,
    /// Largest read-ahead, blocks; 0 means as much as the segment holds.
    pub max_ahead: u32,
    /// Where `max_ahead` is 0: read-ahead may replace the data of the read itself.
    pub ahead_over_read: bool,
    /// The data of a read is dropped once it was sent.
    pub forgets_read: bool,
    /// A full hit restarts read-ahead.
    pub ahead_on_hit: bool,
    /// A read of the block that read-ahead is reading counts as a hit and waits for it.
    pub almost_hits: bool,
    /// Full hits are served while the disk is busy with a write.
    pub serves_hits_during_writes: bool,
    /// Read-ahead stops within a sector, not at its end.
    pub stops_in_sector: bool,
    /// A write to blocks being read ahead stops the read-ahead before `min_ahead`.
    pub write_hit_stops: bool,
    /// Share of a read that must be in the buffer before the drive reconnects.
    pub read_mark: f64,
    /// Share of a write that is still to be written when the drive reconnects.
    pub write_mark: f64,
    /// The marks are shares of the request, not of a segment.
    pub marks_are_request_shares: bool,
    /// The first blocks of a read that are in the buffer are sent at once, and not only from `read_mark` on.
    pub sends_part: bool,
    /// A sector is read only if the buffer has room for it; otherwise one sector has its own buffer.
    pub reads_into_buffer: bool,
    /// Writes are acknowledged from the cache, before they are on the disk.
    pub acknowledges_early: bool,
    /// The queue prefers a write contiguous to the one that is being written.
    pub appends_first: bool,
    /// A write contiguous to the one that is being written shares its segment, and is accepted without waiting.
    pub appends: bool,
    /// Blocks of contiguous acknowledged writes that may wait for the disk.
    pub early_blocks: u32,
    /// Further writes are accepted while one is still being written, in up to `write_segments` segments.
    pub accepts_concurrent_writes: bool,
    /// Largest number of segments with data still to be written.
    pub write_segments: u32,
    /// A track is read from wherever the head lands.
    pub read_on_arrival: bool,
    /// A track is written from wherever the head lands.
    pub write_on_arrival: bool,
}

impl DriveCacheSpec {
    /// Returns a drive without a cache: its buffer holds any request, and keeps nothing after it.
    pub fn none() -> DriveCacheSpec {
        DriveCacheSpec {
            segments: 0,
            segment_blocks: 1,
            buffer_blocks: u32::MAX,
            has_write_segment: false,
            keeps_data: false,
            serves_written: false,
            read_ahead: DriveReadAhead::None,
            min_ahead: 0,
            max_ahead: 0,
            ahead_over_read: false,
            forgets_read: false,
            ahead_on_hit: false,
            almost_hits: false,
            serves_hits_during_writes: false,
            stops_in_sector: false,
            write_hit_stops: false,
            read_mark: 0.0,
            write_mark: 0.0,
            marks_are_request_shares: true,
            sends_part: true,
            reads_into_buffer: true,
            acknowledges_early: false,
            appends_first: true,
            appends: true,
            early_blocks: 1,
            accepts_concurrent_writes: false,
            write_segments: 1,
            read_on_arrival: false,
            write_on_arrival: false,
        }
    }
}

/// Speed and use of the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Time of a block to the host, ns.
    pub read_block: Ns,
    /// Time of a block from the host, ns.
    pub write_block: Ns,
    /// The channel is kept from command to end.
    pub never_disconnects: bool,
    /// The channel is kept while a read waits for more of its blocks.
    pub holds_reads: bool,
    /// The channel is kept while a write waits for space in the buffer.
    pub holds_writes: bool,
}

impl Spec {
    /// Checks the description for impossible values.
    ///
    /// # Errors
    /// Names the item and what is expected.
    pub fn check_limits(&self) -> Result<(), SpecError> {
        let error = |item: &str, reason: String| Err(SpecError { item: item.to_owned(), reason });
        if self.surfaces == 0 || self.surfaces > 1024 {
            return error("surfaces", format!("{}; expected 1 to 1024", self.surfaces));
        }
        if self.cylinders == 0 || self.cylinders > 2_000_000 {
            return error("cylinders", format!("{}; expected 1 to 2 million", self.cylinders));
        }
        if !(self.rpm >= 1.0 && self.rpm <= 1e6) {
            return error("rotation speed", format!("{} rpm; expected 1 to 1,000,000", self.rpm));
        }
        if self.zones.is_empty() {
            return error("zones", "none; a drive needs at least one".into());
        }
        if self.cache.segments > 4096 {
            return error("segments", format!("{}; the limit is 4096", self.cache.segments));
        }
        let mut after = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            let item = format!("zone {}", index + 1);
            if zone.first_cylinder < after || zone.last_cylinder < zone.first_cylinder {
                let reason = format!(
                    "cylinders {} to {}; the first must be at least {after}, and the last not below it",
                    zone.first_cylinder, zone.last_cylinder
                );
                return error(&item, reason);
            }
            if zone.last_cylinder >= self.cylinders {
                let reason =
                    format!("it ends at cylinder {}, but the drive has {}", zone.last_cylinder, self.cylinders);
                return error(&item, reason);
            }
            if zone.sectors_per_track == 0 || zone.sectors_per_track > 1_000_000 {
                return error(&item, format!("{} sectors per track; expected 1 to 1,000,000", zone.sectors_per_track));
            }
            after = zone.last_cylinder + 1;
        }
        Ok(())
    }
}
