//! A drive from its data sheet: rotation speed, heads, capacity, three seek times, rates at the outer and the inner
//! edge, switch times, cache. [`DataSheet::to_spec`] turns them into a [`Spec`] with a seek curve, zones and skews.
//!
//! Items that data sheets do not contain are kept simple: no spares and no bad sectors, one size of cache segment, and
//! blocks of 512 bytes even if the disk's physical sectors have 4 KB (a request is then not rounded up to whole
//! sectors, which is right for aligned requests of 4 KB or more, as they are usual today).

use super::seek::{RootAndLine, SeekCurve};
use super::{
    ChannelSpec, DriveCacheSpec, DriveReadAhead, Overheads, PositioningModel, QueuePolicy, Sparing, Spec, SpecError,
    TrackOrder, ZoneSpec,
};
use crate::Ns;
use crate::io::BLOCK_BYTES;

/// Largest number of zones; drives have 10 to 40, and the rates of neighboring zones differ by a few percent.
const MAX_ZONES: u32 = 64;
/// Points of a seek table, used if no root and line fit.
const SEEK_TABLE_POINTS: u32 = 64;
/// Largest read-ahead of a drive whose segments are larger, if nothing is published, blocks: the order of magnitude of
/// modern drives.
const MAX_READ_AHEAD_BLOCKS: u32 = 8192;

/// Amount of data on a track, in one of the forms in which it is published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrackRate {
    /// Sectors of 512 bytes on a track.
    Sectors(f64),
    /// User bytes per second while a track passes.
    Media(f64),
    /// User bytes per second of a long transfer, including head and cylinder switches.
    Sustained(f64),
}

/// Seek times of a read, as published.
#[derive(Clone, Debug, PartialEq)]
pub enum DataSheetSeek {
    /// Single cylinder, average of random seeks, full stroke, ms.
    Points([f64; 3]),
    /// A measured curve, ms.
    Curve(RootAndLine),
}

impl DataSheetSeek {
    /// Seek to the next cylinder, ms.
    fn single_cylinder_ms(&self) -> f64 {
        match self {
            DataSheetSeek::Points(ms) => ms[0],
            DataSheetSeek::Curve(curve) => curve.short_ms + curve.root_ms,
        }
    }
}

/// Data sheet of a mechanical drive. Times are milliseconds, as published.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSheet {
    /// Name of the drive.
    pub name: String,
    /// Rotation speed, revolutions per minute.
    pub rpm: f64,
    /// Recording surfaces with a head.
    pub heads: u32,
    /// Capacity, bytes. Optional if the cylinders are given.
    pub capacity_bytes: Option<u64>,
    /// Number of cylinders. Calculated from the capacity if not given.
    pub cylinders: Option<u32>,
    /// Data on the outermost tracks.
    pub outer: TrackRate,
    /// Data on the innermost tracks.
    pub inner: TrackRate,
    /// Number of zones.
    pub zones: u32,
    /// Seek times of a read.
    pub seek: DataSheetSeek,
    /// Time to switch to another head.
    pub head_switch_ms: f64,
    /// Additional settle time of a write after a seek or a switch.
    pub write_settle_ms: f64,
    /// Time of the drive's processor per request.
    pub command_ms: f64,
    /// Time of the drive's processor per request that does not wait for the disk: a cache hit, or a write acknowledged
    /// from the write cache.
    pub hit_ms: f64,
    /// Size of the buffer, bytes; 0 if there is none.
    pub cache_bytes: u64,
    /// Number of segments of the buffer.
    pub segments: u32,
    /// True if the drive reads ahead after a read.
    pub read_ahead: bool,
    /// True if the drive acknowledges writes from its cache.
    pub write_cache: bool,
    /// Rate of its interface, bytes per second.
    pub interface_bytes_per_s: f64,
    /// True if it keeps the channel from command to end (IDE, early SCSI).
    pub never_disconnects: bool,
    /// True if it reads and writes a track from wherever the head lands.
    pub on_arrival: bool,
    /// Number of requests that the drive queues.
    pub queue_slots: u32,
    /// Policy that selects the next queued request.
    pub queue_policy: QueuePolicy,
}

fn spec_error(item: &str, reason: String) -> SpecError {
    SpecError { item: item.to_owned(), reason }
}

fn ms_to_ns(ms: f64) -> Ns {
    (ms * 1e6).round() as Ns
}

impl DataSheet {
    /// Builds the drive's description.
    ///
    /// # Errors
    /// Names the impossible item and what is expected.
    pub fn to_spec(&self) -> Result<Spec, SpecError> {
        self.check_limits()?;
        let (outer, inner) = (self.sectors_per_track(self.outer), self.sectors_per_track(self.inner));
        for (item, sectors) in [("outer tracks", outer), ("inner tracks", inner)] {
            if !(1.0..=500_000.0).contains(&sectors) {
                return Err(spec_error(item, format!("{sectors:.1} sectors per track; expected 1 to 500,000")));
            }
        }
        if inner > outer {
            return Err(spec_error(
                "inner tracks",
                format!("{inner:.0} sectors, more than the {outer:.0} of outer tracks"),
            ));
        }
        let (cylinders, shape) = self.cylinders_and_exponent(outer, inner)?;
        let seek = match &self.seek {
            DataSheetSeek::Points(ms) => fit_seek_curve(*ms, cylinders)?,
            DataSheetSeek::Curve(curve) => SeekCurve::RootAndLine(curve.clone()),
        };
        let skews = self.skew_shares();
        let spec = Spec {
            name: self.name.clone(),
            surfaces: self.heads,
            cylinders,
            rpm: self.rpm,
            track_order: TrackOrder::SerpentineInZone,
            sparing: Sparing::None,
            zones: build_zones(self.zones.min(cylinders), cylinders, outer, inner, shape, skews),
            seek,
            head_switch_ns: ms_to_ns(self.head_switch_ms),
            write_settle_ns: ms_to_ns(self.write_settle_ms).cast_signed(),
            positioning_model: PositioningModel::Exact,
            overheads: self.build_overheads(),
            cache: self.build_cache(),
            channel: self.build_channel(),
            queue_policy: self.queue_policy,
            queue_slots: self.queue_slots,
        };
        spec.check_limits()?;
        Ok(spec)
    }

    fn check_limits(&self) -> Result<(), SpecError> {
        if !(60.0..=100_000.0).contains(&self.rpm) {
            return Err(spec_error("rpm", format!("{}; expected 60 to 100,000", self.rpm)));
        }
        if !(1..=1024).contains(&self.heads) {
            return Err(spec_error("heads", format!("{}; expected 1 to 1024", self.heads)));
        }
        if !(1..=MAX_ZONES).contains(&self.zones) {
            return Err(spec_error("zones", format!("{}; expected 1 to {MAX_ZONES}", self.zones)));
        }
        let seeks = match &self.seek {
            DataSheetSeek::Points(ms) => *ms,
            DataSheetSeek::Curve(_) => [self.seek.single_cylinder_ms(); 3],
        };
        let times = [
            ("seek", seeks[0]),
            ("seek", seeks[1]),
            ("seek", seeks[2]),
            ("head switch", self.head_switch_ms),
            ("write settle", self.write_settle_ms),
            ("command", self.command_ms),
            ("hit", self.hit_ms),
        ];
        if let Some((item, ms)) = times.into_iter().find(|(_, ms)| !(0.0..=1000.0).contains(ms)) {
            return Err(spec_error(item, format!("{ms} ms; expected 0 to 1000")));
        }
        if !(1e3..=1e12).contains(&self.interface_bytes_per_s) {
            let reason = format!("{} bytes/s; expected 1 kB/s to 1 TB/s", self.interface_bytes_per_s);
            return Err(spec_error("interface", reason));
        }
        let cylinders = self.cylinders.unwrap_or(1);
        if !(1..=2_000_000).contains(&cylinders) {
            return Err(spec_error("cylinders", format!("{cylinders}; expected 1 to 2,000,000")));
        }
        if self.segments > 4096 || (self.segments == 0 && self.cache_bytes > 0) {
            return Err(spec_error("segments", format!("{}; a cache has 1 to 4096", self.segments)));
        }
        Ok(())
    }

    /// Skews: shares of a revolution for each head switch and each cylinder switch.
    fn skew_shares(&self) -> [f64; 2] {
        let revolution_ms = 60_000.0 / self.rpm;
        // writes must not miss a revolution either; a hundredth of a revolution is added because a skew is a whole
        // number of sectors
        let skew = |ms: f64| (ms + self.write_settle_ms) / revolution_ms + 0.01;
        [skew(self.head_switch_ms), skew(self.seek.single_cylinder_ms().max(self.head_switch_ms))]
    }

    /// Sectors of 512 bytes on a track.
    fn sectors_per_track(&self, rate: TrackRate) -> f64 {
        let sectors_per_revolution = |bytes: f64| bytes * 60.0 / self.rpm / BLOCK_BYTES as f64;
        let [head, cylinder] = self.skew_shares();
        let heads = f64::from(self.heads);
        match rate {
            TrackRate::Sectors(sectors) => sectors,
            TrackRate::Media(bytes) => sectors_per_revolution(bytes),
            // a track takes a revolution and the switch to the next track
            TrackRate::Sustained(bytes) => {
                sectors_per_revolution(bytes) * (1.0 + (head * (heads - 1.0) + cylinder) / heads)
            }
        }
    }

    /// Returns the number of cylinders, and the exponent by which the sectors per track decrease from the outer edge
    /// inwards so that the capacity is met.
    fn cylinders_and_exponent(&self, outer: f64, inner: f64) -> Result<(u32, f64), SpecError> {
        let heads = f64::from(self.heads);
        match (self.cylinders, self.capacity_bytes) {
            (None, None) => Err(spec_error("capacity", "it is missing; give it or the cylinders".into())),
            (Some(cylinders), None) => Ok((cylinders, 1.0)),
            (None, Some(bytes)) => {
                let cylinders = bytes as f64 / BLOCK_BYTES as f64 / (heads * (outer + inner) / 2.0);
                if !(1.0..=2_000_000.0).contains(&cylinders) {
                    let reason = format!("it gives {cylinders:.0} cylinders; expected 1 to 2,000,000");
                    return Err(spec_error("capacity", reason));
                }
                Ok((cylinders.round() as u32, 1.0))
            }
            (Some(cylinders), Some(bytes)) => {
                let mean = bytes as f64 / BLOCK_BYTES as f64 / (heads * f64::from(cylinders));
                // sectors(u) = inner + (outer - inner) (1 - u)^k have the mean inner + (outer - inner) / (k + 1)
                let k = (outer - inner) / (mean - inner) - 1.0;
                let linear_mean = (outer + inner) / 2.0;
                if (mean / linear_mean - 1.0).abs() < 0.02 {
                    return Ok((cylinders, 1.0));
                }
                if !(0.2..=5.0).contains(&k) {
                    let reason =
                        format!("it gives {mean:.0} sectors per track, but the edges have {outer:.0} and {inner:.0}");
                    return Err(spec_error("capacity", reason));
                }
                Ok((cylinders, discrete_exponent(self.zones.min(cylinders), k)))
            }
        }
    }

    fn build_overheads(&self) -> Overheads {
        let (miss, hit) = (ms_to_ns(self.command_ms), ms_to_ns(self.hit_ms));
        Overheads {
            read_hit: [hit; 2],
            read_miss: [miss; 2],
            write_hit: [hit; 2],
            write_miss: [miss; 2],
            ..Overheads::default()
        }
    }

    fn build_channel(&self) -> ChannelSpec {
        let block = (BLOCK_BYTES as f64 * 1e9 / self.interface_bytes_per_s).round() as Ns;
        ChannelSpec {
            read_block: block,
            write_block: block,
            never_disconnects: self.never_disconnects,
            ..ChannelSpec::default()
        }
    }

    fn build_cache(&self) -> DriveCacheSpec {
        let blocks = self.cache_bytes / BLOCK_BYTES;
        if blocks == 0 || self.segments == 0 {
            return DriveCacheSpec { acknowledges_early: false, ..self.build_bufferless_cache() };
        }
        let segment_blocks = (blocks / u64::from(self.segments)).clamp(1, 1 << 30) as u32;
        let max_ahead = if self.read_ahead { segment_blocks.min(MAX_READ_AHEAD_BLOCKS) } else { 0 };
        DriveCacheSpec {
            segments: self.segments,
            segment_blocks,
            // drives divide their buffers as requests need it
            buffer_blocks: blocks.min(1 << 30) as u32,
            early_blocks: segment_blocks.saturating_mul((self.segments / 2).max(1)),
            // a stream of writes continues as soon as there is room for the next one
            write_mark: 1.0,
            marks_are_request_shares: false,
            keeps_data: true,
            serves_written: true,
            read_ahead: if self.read_ahead { DriveReadAhead::Segment } else { DriveReadAhead::None },
            max_ahead,
            ahead_over_read: true,
            ahead_on_hit: true,
            almost_hits: true,
            stops_in_sector: true,
            acknowledges_early: self.write_cache,
            ..self.build_bufferless_cache()
        }
    }

    fn build_bufferless_cache(&self) -> DriveCacheSpec {
        let on_arrival = self.on_arrival;
        DriveCacheSpec { read_on_arrival: on_arrival, write_on_arrival: on_arrival, ..DriveCacheSpec::none() }
    }
}

/// Returns the exponent with which `count` zones have the mean that a smooth curve of the exponent `smooth` has. With
/// the same exponent, a few zones would hold some percent more or less, because the outermost and the innermost zone
/// have the full rates of the edges.
fn discrete_exponent(count: u32, smooth: f64) -> f64 {
    if count < 3 {
        return smooth;
    }
    let target_sum = f64::from(count) / (smooth + 1.0);
    let sum = |k: f64| (0..count).map(|index| (f64::from(index) / f64::from(count - 1)).powf(k)).sum::<f64>();
    // the sum decreases with the exponent
    let (mut low, mut high) = (0.01_f64, 100.0_f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        (low, high) = if sum(middle) > target_sum { (middle, high) } else { (low, middle) };
    }
    low
}

/// Builds the zones from the outer to the inner edge.
fn build_zones(count: u32, cylinders: u32, outer: f64, inner: f64, shape: f64, skews: [f64; 2]) -> Vec<ZoneSpec> {
    let bound = |index: u32| (u64::from(cylinders) * u64::from(index) / u64::from(count)) as u32;
    let zone = |index: u32| {
        // the outermost zone has the outer rate and the innermost the inner one; a single zone has the mean of the
        // curve, from which the capacity was computed
        let share = match count {
            1 => 1.0 / (shape + 1.0),
            _ => (1.0 - f64::from(index) / f64::from(count - 1)).powf(shape),
        };
        let sectors = (inner + (outer - inner) * share).round().max(1.0);
        let round_up_to_sectors = |skew: f64| (skew * sectors).ceil() / sectors;
        ZoneSpec {
            first_cylinder: bound(index),
            last_cylinder: bound(index + 1) - 1,
            sectors_per_track: sectors as u32,
            offset: 0.0,
            track_skew: round_up_to_sectors(skews[0]),
            cylinder_skew: round_up_to_sectors(skews[1]),
            empty_sectors: 0,
            spares: 0,
            slips: Vec::new(),
            defects: Vec::new(),
        }
    };
    (0..count).map(zone).collect()
}

/// Fits a seek curve through three published times: single cylinder, the mean over uniform random distances, full
/// stroke.
///
/// The curve is `a + b sqrt(d)` up to a knee and a straight line from there, with equal value and slope at the knee.
/// That determines two of the five unknowns, the first and the last time two more; the knee is placed so that the mean
/// is met. The mean of such curves lies between 1/3 (a line throughout) and 8/15 (a root throughout) of the way from
/// the first to the last time. Data sheets outside of that range get a power of the distance, whose mean is
/// `2 / ((p + 1) (p + 2))`.
///
/// # Errors
/// If the three times do not rise, or the mean is too close to the first or the last.
pub(super) fn fit_seek_curve(ms: [f64; 3], cylinders: u32) -> Result<SeekCurve, SpecError> {
    let [single, mean, full] = ms;
    let last = f64::from(cylinders.max(2) - 1);
    if single == mean && mean == full || cylinders <= 2 {
        return Ok(SeekCurve::Constant(mean));
    }
    if !(single <= mean && mean <= full) {
        let reason =
            format!("{single}, {mean} and {full} ms; they must rise from next cylinder to mean to full stroke");
        return Err(spec_error("seek", reason));
    }
    let share = (mean - single) / (full - single);
    if !(0.1..=0.9).contains(&share) {
        let reason = format!("a mean of {mean} ms; it must lie in the middle 80 % between {single} and {full} ms");
        return Err(spec_error("seek", reason));
    }
    let with_knee = |knee: f64| SeekKnee::new(single, full, last, knee);
    let (mut low, mut high) = (1.0, last);
    if !(with_knee(low).mean_seek(last) < mean && mean < with_knee(high).mean_seek(last)) {
        return Ok(power_seek_table(single, full, share, cylinders));
    }
    // the later the knee, the longer the mean
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if with_knee(middle).mean_seek(last) < mean { low = middle } else { high = middle }
    }
    let SeekKnee { knee, short: a, root: b, long: c, slope: e } = with_knee(low);
    Ok(SeekCurve::RootAndLine(RootAndLine {
        long_from_cylinders: knee,
        short_ms: a,
        root_ms: b,
        long_ms: c,
        slope_ms: e,
        measured_ms: Vec::new(),
    }))
}

/// A root curve up to a knee, and its tangent from there.
struct SeekKnee {
    knee: f64,
    short: f64,
    root: f64,
    long: f64,
    slope: f64,
}

impl SeekKnee {
    /// Builds the curve through `one` at distance 1 and `full` at distance `last`.
    fn new(single: f64, full: f64, last: f64, knee: f64) -> SeekKnee {
        let root = knee.sqrt();
        let b = (full - single) / (root / 2.0 + last / (2.0 * root) - 1.0);
        let (a, e) = (single - b, b / (2.0 * root));
        SeekKnee { knee, short: a, root: b, long: a + b * root / 2.0, slope: e }
    }

    /// Mean over the distances between two uniform random places, whose density is `2 (D - d) / D²`.
    fn mean_seek(&self, last: f64) -> f64 {
        let (x, d) = (self.knee, last);
        let short = self.short * (d * x - x * x / 2.0) + self.root * (d * x.powf(1.5) / 1.5 - x.powf(2.5) / 2.5);
        let slope = self.slope * (d * (d * d - x * x) / 2.0 - (d.powi(3) - x.powi(3)) / 3.0);
        (short + self.long * (d - x).powi(2) / 2.0 + slope) * 2.0 / (d * d)
    }
}

/// Builds the table of `one + (full - one) (d / D)^p`.
fn power_seek_table(single: f64, full: f64, share: f64, cylinders: u32) -> SeekCurve {
    // p from 2 / ((p + 1) (p + 2)) = share
    let p = (-3.0 + (1.0 + 8.0 / share).sqrt()) / 2.0;
    let last = cylinders - 1;
    let mut points = Vec::new();
    for index in 0..SEEK_TABLE_POINTS {
        let distance = f64::from(last).powf(f64::from(index) / f64::from(SEEK_TABLE_POINTS - 1)).round() as u32;
        let ms = single + (full - single) * (f64::from(distance - 1) / f64::from((last - 1).max(1))).powf(p);
        if points.last().is_none_or(|&(before, _)| before < distance) {
            points.push((distance, ms));
        }
    }
    SeekCurve::Table(points)
}
