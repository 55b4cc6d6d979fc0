//! Map from block numbers to sectors: zones, spares, slips, replaced sectors, skews. A lookup costs a few divisions
//! and at most three binary searches (zone, slips, replaced sectors).

use super::SpecError;
use super::spec::{Sparing, Spec, TrackOrder, ZoneSpec};
use crate::array::FastDivisor;

/// An angle in 2^-64 of a revolution, so that additions wrap as the disk does.
pub(super) type Angle = u64;

/// Converts revolutions to an angle.
pub(super) fn angle_from_turns(turns: f64) -> Angle {
    // the product is below 2^64, because the fraction is below 1
    (turns.rem_euclid(1.0) * 18_446_744_073_709_551_616.0) as u64
}

/// Physical address of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectorAddress {
    /// Cylinder.
    pub cylinder: u32,
    /// Surface.
    pub head: u32,
    /// Sector on its track.
    pub sector: u32,
    /// Index of its zone.
    pub(super) zone: u32,
    /// Angle of its front edge.
    pub(super) angle: Angle,
}

/// Consecutive blocks on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackRun {
    /// Address of the first block.
    pub place: SectorAddress,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of sectors from the first to the last block; more than `blocks` if a sector was slipped.
    pub sectors: u32,
}

/// Cached part of a track from some block to its end, if it has no holes, so that further lookups there need no
/// division. Empty if nothing is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownTrack {
    first: u64,
    blocks: u32,
    place: SectorAddress,
}

/// A zone with its precomputed tables.
#[derive(Clone, Debug)]
struct DriveZone {
    first_block: u64,
    end_block: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    sectors_divisor: FastDivisor,
    empty_sectors: u64,
    offset: Angle,
    track_skew: Angle,
    cylinder_skew: Angle,
    sector_width: Angle,
    /// Sectors of a spare region.
    region_sectors: u64,
    /// Sectors of a spare region that hold blocks.
    usable_sectors: u64,
    usable_divisor: FastDivisor,
    /// Spares at the front of a region.
    front_spares: u64,
    slips: Slips,
    /// Defective sectors (or tracks), sorted, and their replacements.
    defects: Vec<(u64, u64)>,
    defects_are_tracks: bool,
    /// Slips that move the start of all later tracks of the zone.
    skewing_slips: Vec<u64>,
    /// Tracks that start together after a slip: a track, or those of a cylinder.
    skewed_tracks: u64,
}

/// Effect of slipped sectors on the sectors after them.
#[derive(Clone, Debug)]
enum Slips {
    None,
    /// Slips use the spares of their region.
    InRegion(SlipTable),
    /// Slips shift all later sectors of the zone; positions are counted among usable sectors.
    ToEnd(SlipTable),
    /// Whole tracks are slipped.
    Tracks(SlipTable),
}

/// Sorted slips, and each slip minus its rank. The latter never decreases, so that one branchless search gives the
/// number of slips before a position.
#[derive(Clone, Debug)]
struct SlipTable {
    slips: Vec<u64>,
    slips_less_rank: Vec<u64>,
}

impl SlipTable {
    fn new(slips: Vec<u64>) -> SlipTable {
        let less_rank = slips.iter().zip(0..).map(|(slip, rank)| slip - rank).collect();
        SlipTable { slips, slips_less_rank: less_rank }
    }

    /// Returns how many slips, from the `from`-th on, lie before the physical position of `logical`, and how many
    /// positions follow until the next slip.
    #[inline]
    fn count_before(&self, from: usize, logical: u64) -> (u64, u64) {
        let (later, rank) = (&self.slips_less_rank[from..], from as u64);
        let skipped = later.partition_point(|slip| slip + rank <= logical);
        let contiguous = later.get(skipped).map_or(u64::MAX, |slip| slip + rank - logical);
        (skipped as u64, contiguous)
    }
}

/// Map of a drive from blocks to sectors.
#[derive(Clone, Debug)]
pub struct Geometry {
    zones: Vec<DriveZone>,
    /// End block of each zone, contiguous for searching.
    zone_ends: Vec<u64>,
    /// Size of a group of blocks in `zone_index`, as a power of two.
    zone_index_shift: u32,
    /// For each group of blocks, the index of the zone in which the group begins.
    zone_index: Vec<u32>,
    surfaces: FastDivisor,
    order: TrackOrder,
}

/// Upper bound of the number of groups in [`Geometry::zone_index`]: of some hundred groups, most contain no zone
/// boundary.
const ZONE_INDEX_BUCKETS: u64 = 512;

impl Geometry {
    /// Builds the map.
    ///
    /// # Errors
    /// If spares, slips or empty space leave nothing of a zone.
    pub fn new(spec: &Spec) -> Result<Geometry, SpecError> {
        let mut first = 0;
        let mut zones = Vec::with_capacity(spec.zones.len());
        for (index, zone) in spec.zones.iter().enumerate() {
            let zone_error = |reason: String| SpecError { item: format!("zone {}", index + 1), reason };
            let built = build_zone(spec, zone, first).map_err(zone_error)?;
            first = built.end_block;
            zones.push(built);
        }
        let zone_ends: Vec<u64> = zones.iter().map(|zone| zone.end_block).collect();
        let shift = (first / ZONE_INDEX_BUCKETS).checked_ilog2().map_or(0, |log| log + 1);
        let find_zone = |block: u64| zone_ends.partition_point(|end| *end <= block) as u32;
        let zone_index = (0..=first >> shift).map(|index| find_zone(index << shift)).collect();
        Ok(Geometry {
            zones,
            zone_ends,
            zone_index_shift: shift,
            zone_index,
            surfaces: FastDivisor::new(spec.surfaces.into()),
            order: spec.track_order,
        })
    }

    /// Capacity of the drive in blocks.
    pub fn capacity_blocks(&self) -> u64 {
        self.zone_ends.last().copied().unwrap_or(0)
    }

    /// Sectors per track at a place.
    pub fn sectors_per_track(&self, place: &SectorAddress) -> u32 {
        self.zones[place.zone as usize].sectors_per_track
    }

    /// Divisor for the sectors per track at a place.
    #[inline]
    pub(super) fn sectors_divisor(&self, place: &SectorAddress) -> FastDivisor {
        self.zones[place.zone as usize].sectors_divisor
    }

    /// Returns the address of a block; blocks beyond the drive map to the last one.
    #[inline]
    pub fn locate_block(&self, block: u64) -> SectorAddress {
        let block = block.min(self.capacity_blocks() - 1);
        let index = self.find_zone(block);
        let zone = &self.zones[index];
        self.sector_address(
            zone,
            index as u32,
            zone.replace_defect(zone.to_physical(block - zone.first_block + zone.empty_sectors)),
        )
    }

    /// Returns the run of at most `max_blocks` consecutive blocks from `first` on, on one track.
    #[inline]
    pub fn track_run(&self, first: u64, max_blocks: u32) -> TrackRun {
        let first = first.min(self.capacity_blocks() - 1);
        let index = self.find_zone(first);
        let zone = &self.zones[index];
        let logical = first - zone.first_block + zone.empty_sectors;
        let (physical, contiguous) = zone.to_physical_run(logical);
        let replaced = zone.replace_defect(physical);
        let place = self.sector_address(zone, index as u32, replaced);
        if replaced != physical && !zone.defects_are_tracks {
            return TrackRun { place, blocks: 1, sectors: 1 };
        }
        let left = u64::from(zone.sectors_per_track - place.sector).min(zone.end_block - first);
        let mut blocks = u64::from(max_blocks.max(1)).min(left);
        if !zone.defects.is_empty() && !zone.defects_are_tracks {
            let next = zone.defects.partition_point(|d| d.0 <= physical);
            if let Some(defect) = zone.defects.get(next) {
                blocks = blocks.min(defect.0 - physical);
            }
        }
        let end_of_track = physical - u64::from(place.sector) + u64::from(zone.sectors_per_track);
        let last = |blocks: u64| zone.to_physical(logical + blocks - 1);
        let mut end = if zone.is_plain() || blocks <= contiguous { physical + blocks - 1 } else { last(blocks) };
        if end >= end_of_track {
            let (mut low, mut high) = (1, blocks);
            while high - low > 1 {
                let middle = low.midpoint(high);
                if last(middle) < end_of_track { low = middle } else { high = middle }
            }
            blocks = low;
            end = last(blocks);
        }
        TrackRun { place, blocks: blocks as u32, sectors: (end - physical + 1) as u32 }
    }

    /// Returns the same as [`Geometry::track_run`], faster on the track in `known`; updates `known`.
    #[inline]
    pub(super) fn track_run_cached(&self, known: &mut KnownTrack, first: u64, max_blocks: u32) -> TrackRun {
        let max_blocks = max_blocks.max(1);
        let mut ahead = first.wrapping_sub(known.first);
        if ahead >= u64::from(known.blocks) {
            let to_track_end = self.track_run(first, u32::MAX);
            if to_track_end.sectors != to_track_end.blocks || first >= self.capacity_blocks() {
                let fits = to_track_end.blocks <= max_blocks;
                return if fits { to_track_end } else { self.track_run(first, max_blocks) };
            }
            *known = KnownTrack { first, blocks: to_track_end.blocks, place: to_track_end.place };
            ahead = 0;
        }
        let blocks = u64::from(max_blocks).min(u64::from(known.blocks) - ahead) as u32;
        let mut place = known.place;
        place.sector += ahead as u32;
        place.angle = place.angle.wrapping_add(self.zones[place.zone as usize].sector_width.wrapping_mul(ahead));
        TrackRun { place, blocks, sectors: blocks }
    }

    /// Returns the index of the zone of a block, which must be below the capacity.
    #[inline]
    fn find_zone(&self, block: u64) -> usize {
        let mut index = self.zone_index[(block >> self.zone_index_shift) as usize] as usize;
        while self.zone_ends[index] <= block {
            index += 1;
        }
        index
    }

    #[inline]
    fn sector_address(&self, zone: &DriveZone, number: u32, physical: u64) -> SectorAddress {
        // sector numbers in zones of drives over 2 TB exceed 32 bits; their track numbers do not
        let (track, sector) = zone.sectors_divisor.div_rem(physical);
        let sector = sector as u32;
        let (in_zone, surface) = self.surfaces.div_rem(u64::from(track as u32));
        let (in_zone, surface) = (in_zone as u32, surface as u32);
        let cylinder = zone.first_cylinder + in_zone;
        let is_descending = match self.order {
            TrackOrder::Ascending => false,
            TrackOrder::SerpentineInZone => in_zone % 2 == 1,
            TrackOrder::Serpentine => cylinder % 2 == 1,
        };
        let switches = u64::from(surface) + (self.surfaces.divisor() - 1) * u64::from(in_zone);
        let mut angle = zone
            .offset
            .wrapping_add(zone.track_skew.wrapping_mul(switches))
            .wrapping_add(zone.cylinder_skew.wrapping_mul(u64::from(in_zone)))
            .wrapping_add(zone.sector_width.wrapping_mul(u64::from(sector)));
        if !zone.skewing_slips.is_empty() {
            let start = (track - track % zone.skewed_tracks) * u64::from(zone.sectors_per_track);
            let before = zone.skewing_slips.partition_point(|slip| *slip < start);
            angle = angle.wrapping_add(zone.sector_width.wrapping_mul(before as u64));
        }
        let head = if is_descending { self.surfaces.divisor() as u32 - 1 - surface } else { surface };
        SectorAddress { cylinder, head, sector, zone: number, angle }
    }
}

impl DriveZone {
    /// Returns true if the blocks of a track are its sectors without holes.
    #[inline]
    fn is_plain(&self) -> bool {
        matches!(self.slips, Slips::None | Slips::Tracks(_)) && self.region_sectors == self.usable_sectors
    }

    /// Maps a logical sector (without slips and spares) to the sector within the zone.
    #[inline]
    fn to_physical(&self, logical: u64) -> u64 {
        self.to_physical_run(logical).0
    }

    /// Maps a logical sector to the sector within the zone, and returns how many sectors from there on follow without a
    /// hole, at least. For slips of whole tracks, holes between tracks are not counted.
    #[inline]
    fn to_physical_run(&self, logical: u64) -> (u64, u64) {
        let (logical, contiguous) = match &self.slips {
            Slips::ToEnd(slips) => {
                let (skipped, contiguous) = slips.count_before(0, logical);
                (logical + skipped, contiguous)
            }
            Slips::Tracks(slips) => {
                let sectors = u64::from(self.sectors_per_track);
                return (logical + slips.count_before(0, logical / sectors).0 * sectors, u64::MAX);
            }
            _ => (logical, u64::MAX),
        };
        if self.region_sectors == self.usable_sectors {
            return match &self.slips {
                Slips::InRegion(slips) => {
                    let (skipped, contiguous) = slips.count_before(0, logical);
                    (logical + skipped, contiguous)
                }
                _ => (logical, contiguous),
            };
        }
        let (region, in_region) = self.usable_divisor.div_rem(logical);
        let within = region * self.region_sectors + self.front_spares + in_region;
        let contiguous = contiguous.min(self.usable_sectors - in_region);
        match &self.slips {
            Slips::InRegion(slips) => {
                let from = slips.slips.partition_point(|slip| *slip < region * self.region_sectors);
                let (skipped, until) = slips.count_before(from, within);
                (within + skipped, contiguous.min(until))
            }
            _ => (within, contiguous),
        }
    }

    /// Returns the replacement of a defective sector, or the sector itself.
    #[inline]
    fn replace_defect(&self, physical: u64) -> u64 {
        if self.defects.is_empty() {
            return physical;
        }
        let sectors = u64::from(self.sectors_per_track);
        let key = if self.defects_are_tracks { physical / sectors } else { physical };
        match self.defects.binary_search_by_key(&key, |d| d.0) {
            Ok(index) if self.defects_are_tracks => self.defects[index].1 * sectors + physical % sectors,
            Ok(index) => self.defects[index].1,
            Err(_) => physical,
        }
    }
}

/// Sorts and deduplicates slips, so that each is at least as large as its rank.
fn sort_and_dedup(mut slips: Vec<u64>) -> Vec<u64> {
    slips.sort_unstable();
    slips.dedup();
    slips
}

/// Returns the layout of spares in a zone: sectors of a region with spares, how many of these are spares, and whether
/// the whole zone is a single region.
fn spare_regions(sparing: Sparing, spares: u64, sectors: u64, cylinder: u64, zone_sectors: u64) -> (u64, u64, bool) {
    match sparing {
        Sparing::None => (zone_sectors, 0, true),
        Sparing::Tracks => (zone_sectors, spares * sectors, true),
        Sparing::Zone => (zone_sectors, spares, true),
        Sparing::Track => (sectors, spares, false),
        Sparing::Cylinder { .. } => (cylinder, spares, false),
        Sparing::Range(cylinders) => (cylinder * u64::from(cylinders.max(1)), spares, false),
    }
}

/// Builds a zone whose first block is `first`.
fn build_zone(spec: &Spec, zone: &ZoneSpec, first: u64) -> Result<DriveZone, String> {
    let sectors = u64::from(zone.sectors_per_track);
    let cylinder = sectors * u64::from(spec.surfaces);
    let zone_sectors = cylinder * (u64::from(zone.last_cylinder - zone.first_cylinder) + 1);
    let spares = u64::from(zone.spares);
    let (region, spare, is_whole_zone) = spare_regions(spec.sparing, spares, sectors, cylinder, zone_sectors);
    if spare >= region {
        return Err(format!("{spare} spare sectors in each {region} leave none for blocks"));
    }
    let slips = sort_and_dedup(zone.slips.clone());
    let limit = if spec.sparing == Sparing::Tracks { zone_sectors / sectors } else { zone_sectors };
    let replaced = zone.defects.iter().flat_map(|&(bad, good)| [bad, good]);
    if let Some(beyond) = slips.iter().copied().chain(replaced).find(|s| *s >= limit) {
        return Err(format!("a slip or defect at {beyond}, but the zone ends at {limit}"));
    }
    let (front, to_end) = match spec.sparing {
        Sparing::Cylinder { front, slips_to_end } => (if front { spares } else { 0 }, slips_to_end),
        _ => (0, false),
    };
    // a region cut off by the zone's end has no spares
    let usable = if is_whole_zone { zone_sectors - spare } else { zone_sectors - (zone_sectors / region) * spare };
    let slipped = if to_end { slips.len() as u64 } else { 0 };
    let blocks = usable.checked_sub(zone.empty_sectors + slipped).filter(|b| *b > 0);
    let blocks =
        blocks.ok_or_else(|| format!("{} empty sectors at its front leave none of {usable}", zone.empty_sectors))?;
    let skewed_tracks = match spec.sparing {
        Sparing::Track => 1,
        Sparing::Cylinder { .. } => u64::from(spec.surfaces),
        _ => 0,
    };
    let has_no_gaps = is_whole_zone || spare == 0;
    Ok(DriveZone {
        first_block: first,
        end_block: first + blocks,
        first_cylinder: zone.first_cylinder,
        sectors_per_track: zone.sectors_per_track,
        sectors_divisor: FastDivisor::new(sectors),
        empty_sectors: zone.empty_sectors,
        offset: angle_from_turns(zone.offset),
        track_skew: angle_from_turns(zone.track_skew),
        cylinder_skew: angle_from_turns(zone.cylinder_skew),
        sector_width: angle_from_turns(1.0 / f64::from(zone.sectors_per_track)).max(1),
        region_sectors: if has_no_gaps { zone_sectors } else { region },
        usable_sectors: if has_no_gaps { zone_sectors } else { region - spare },
        usable_divisor: FastDivisor::new(if has_no_gaps { zone_sectors } else { region - spare }),
        front_spares: front,
        skewing_slips: if skewed_tracks > 0 { slips.clone() } else { Vec::new() },
        skewed_tracks,
        slips: match spec.sparing {
            _ if slips.is_empty() => Slips::None,
            Sparing::Tracks => Slips::Tracks(SlipTable::new(slips)),
            Sparing::Cylinder { .. } if to_end => {
                Slips::ToEnd(SlipTable::new(usable_positions(&slips, region, spare, front)))
            }
            _ => Slips::InRegion(SlipTable::new(slips)),
        },
        defects_are_tracks: spec.sparing == Sparing::Tracks,
        defects: sort_defects(&zone.defects),
    })
}

/// Sorts defects, keeps one per bad sector, and drops those replaced by themselves.
fn sort_defects(listed: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut defects = listed.to_vec();
    defects.sort_unstable();
    defects.dedup_by_key(|d| d.0);
    defects.retain(|(bad, good)| bad != good);
    defects
}

/// Converts slips to positions among the sectors that hold blocks.
fn usable_positions(slips: &[u64], region: u64, spare: u64, front: u64) -> Vec<u64> {
    let usable = region - spare;
    let position = |slip: &u64| {
        let within = (slip % region).checked_sub(front).filter(|w| *w < usable)?;
        Some(slip / region * usable + within)
    };
    slips.iter().filter_map(position).collect()
}

#[cfg(test)]
mod tests {
    use diskwright_base::Rng;

    use super::*;

    #[test]
    fn a_known_track_gives_the_same_runs() {
        let load = |name: &str| {
            let path = format!("{}/tests/drives/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))
        };
        let text = load("disk7200.diskspecs").expect("one of our own files");
        let mut drive = crate::diskspecs::read_drive("disk7200.diskspecs", &text, &load).expect("a drive");
        let mut rng = Rng::new(3, 0);
        for holes in [false, true] {
            if holes {
                for zone in &mut drive.spec.zones {
                    zone.slips = (0..200).map(|_| rng.next_below(20_000)).collect();
                    zone.defects = (0..50).map(|_| (rng.next_below(20_000), rng.next_below(20_000))).collect();
                }
            }
            let geometry = Geometry::new(&drive.spec).expect("a possible map");
            let mut known = KnownTrack::default();
            for _ in 0..2000 {
                let zone = &geometry.zones[rng.next_below(geometry.zones.len() as u64) as usize];
                let mut first = zone.first_block + rng.next_below((zone.end_block - zone.first_block).min(20_000));
                for _ in 0..rng.next_below(6) {
                    let max_blocks = rng.next_below(300) as u32;
                    let run = geometry.track_run(first, max_blocks);
                    assert_eq!(
                        geometry.track_run_cached(&mut known, first, max_blocks),
                        run,
                        "{max_blocks} from {first}"
                    );
                    first += u64::from(run.blocks) / (1 + rng.next_below(2));
                }
            }
            for max_blocks in [1, 9] {
                let beyond = geometry.capacity_blocks() + 5;
                assert_eq!(
                    geometry.track_run_cached(&mut known, beyond, max_blocks),
                    geometry.track_run(beyond, max_blocks)
                );
            }
        }
    }
}
