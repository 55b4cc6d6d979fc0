//! Blocks `dm_layout_g1` and `dm_layout_g2`: zones, skews, spares.

use super::DiskspecsError;
use super::fields::FieldReader;
use super::parameter_syntax::{SourcePosition, SpecBlock, SpecValue};
use crate::drive::{Sparing, TrackOrder, ZoneSpec};

const G1_KEYS: &[&str] =
    &["LBN-to-PBN mapping scheme", "Sparing scheme used", "Rangesize for sparing", "Skew units", "Zones"];
const G1_ZONE_KEYS: &[&str] = &[
    "First cylinder number",
    "Last cylinder number",
    "Blocks per track",
    "Offset of first block",
    "Skew units",
    "Empty space at zone front",
    "Skew for track switch",
    "Skew for cylinder switch",
    "Number of spares",
    "slips",
    "defects",
];
/// Largest sector number.
const MAX_SECTORS: u64 = 1 << 50;

/// Content of a layout block.
pub(super) struct ParsedLayout {
    pub order: TrackOrder,
    pub sparing: Sparing,
    pub zones: Vec<ZoneSpec>,
}

/// Reads a layout block.
pub(super) fn read_layout(
    block: &SpecBlock,
    surfaces: u32,
    notes: &mut Vec<String>,
) -> Result<ParsedLayout, DiskspecsError> {
    match block.kind.as_str() {
        "dm_layout_g1" => read_g1(block, surfaces, notes),
        "dm_layout_g2" => read_g2(block, surfaces, notes),
        other => Err(block.position.error(format!("layout is `{other}`; expected `dm_layout_g1` or `dm_layout_g2`"))),
    }
}

/// Reads the unit of skews: true for revolutions, false for sectors, `default` if it is missing.
fn skews_are_revolutions(fields: &mut FieldReader<'_>, default: bool) -> Result<bool, DiskspecsError> {
    let position = fields.find_entry("Skew units").map(|e| e.position.clone());
    match (fields.read_word("Skew units")?, position) {
        (Some("revolutions"), _) => Ok(true),
        (Some("sectors"), _) => Ok(false),
        (Some(other), Some(position)) => {
            Err(position.error(format!("skew units are `{other}`; expected `sectors` or `revolutions`")))
        }
        _ => Ok(default),
    }
}

fn read_g1(block: &SpecBlock, surfaces: u32, notes: &mut Vec<String>) -> Result<ParsedLayout, DiskspecsError> {
    let mut fields = FieldReader::new(block)?;
    let order = match fields.require_integer("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => TrackOrder::Ascending,
        1 => TrackOrder::SerpentineInZone,
        _ => TrackOrder::Serpentine,
    };
    let range = fields.read_integer("Rangesize for sparing", 1, 1 << 24)?.unwrap_or(1) as u32;
    let cylinder = |front, slips_to_end| Sparing::Cylinder { front, slips_to_end };
    let scheme = fields.require_integer("Sparing scheme used", 0, 10)?;
    let sparing = match scheme {
        0 => Sparing::None,
        1 => Sparing::Tracks,
        2 => cylinder(false, false),
        3 => Sparing::Track,
        4 => cylinder(false, true),
        5 => cylinder(true, false),
        6 => cylinder(true, true),
        8 => Sparing::Range(range),
        // spares at the end of the disk or of a zone: within a zone, slips shift all later blocks
        _ => Sparing::Zone,
    };
    let in_revolutions = skews_are_revolutions(&mut fields, false)?;
    let zones = zone_blocks(&mut fields, "dm_layout_g1_zone")?;
    let mut zones = zones.into_iter().map(|zone| read_g1_zone(zone, in_revolutions)).collect::<Result<Vec<_>, _>>()?;
    for (index, zone) in zones.iter_mut().enumerate() {
        let dropped = drop_outside_zone(zone, surfaces, sparing);
        if dropped > 0 {
            notes.push(format!("zone {}: {dropped} slips or defects are outside it and are omitted", index + 1));
        }
        // in schemes 7 and 10 slips use none of the zone's spares, but sectors at its end
        let slipped = u32::try_from(zone.slips.len()).unwrap_or(u32::MAX);
        match scheme {
            7 => zone.spares = slipped,
            10 => zone.spares = zone.spares.saturating_add(slipped),
            _ => {}
        }
    }
    fields.reject_unknown(G1_KEYS)?;
    Ok(ParsedLayout { order, sparing, zones })
}

/// Drops slips and defects that lie outside their zone, and returns how many.
fn drop_outside_zone(zone: &mut ZoneSpec, surfaces: u32, sparing: Sparing) -> usize {
    let cylinders = u64::from(zone.last_cylinder.saturating_sub(zone.first_cylinder)) + 1;
    let tracks = cylinders * u64::from(surfaces);
    let limit = if sparing == Sparing::Tracks { tracks } else { tracks * u64::from(zone.sectors_per_track) };
    let before = zone.slips.len() + zone.defects.len();
    zone.slips.retain(|slip| *slip < limit);
    zone.defects.retain(|(bad, good)| *bad < limit && *good < limit);
    before - zone.slips.len() - zone.defects.len()
}

/// Returns the blocks of `Zones`.
fn zone_blocks<'a>(fields: &mut FieldReader<'a>, kind: &str) -> Result<Vec<&'a SpecBlock>, DiskspecsError> {
    let position = fields.require_entry("Zones")?.position.clone();
    let zones = fields.read_list("Zones")?;
    if zones.is_empty() {
        return Err(position.error("`Zones` is empty; a drive needs at least one"));
    }
    let block = |(position, value): &'a (SourcePosition, SpecValue)| match value {
        SpecValue::Block(block) if block.kind == kind => Ok(block),
        _ => Err(position.error(format!("`Zones` must hold only blocks `{kind} {{ … }}`"))),
    };
    zones.iter().map(block).collect()
}

/// Reads the parts of a zone that all layouts share.
fn read_zone_base(
    fields: &mut FieldReader<'_>,
    in_revolutions: bool,
    offset: &str,
) -> Result<ZoneSpec, DiskspecsError> {
    let in_revolutions = skews_are_revolutions(fields, in_revolutions)?;
    let first_cylinder = fields.require_integer("First cylinder number", 0, 1 << 24)? as u32;
    let last_cylinder = fields.require_integer("Last cylinder number", 0, 1 << 24)? as u32;
    let sectors = fields.require_integer("Blocks per track", 1, 1_000_000)? as u32;
    let mut angle = |key: &str| {
        let value = fields.read_number(key, -1e6, 1e6)?.unwrap_or(0.0);
        // whole sectors only, as in DiskSim's manual
        Ok::<_, DiskspecsError>(if in_revolutions { value } else { value.trunc() / f64::from(sectors) })
    };
    let (offset, track_skew, cylinder_skew) =
        (angle(offset)?, angle("Skew for track switch")?, angle("Skew for cylinder switch")?);
    Ok(ZoneSpec {
        first_cylinder,
        last_cylinder,
        sectors_per_track: sectors,
        offset,
        track_skew,
        cylinder_skew,
        empty_sectors: 0,
        spares: 0,
        slips: Vec::new(),
        defects: Vec::new(),
    })
}

fn read_g1_zone(block: &SpecBlock, in_revolutions: bool) -> Result<ZoneSpec, DiskspecsError> {
    let mut fields = FieldReader::new(block)?;
    let zone = read_zone_base(&mut fields, in_revolutions, "Offset of first block")?;
    let empty = fields.read_integer("Empty space at zone front", 0, MAX_SECTORS)?.unwrap_or(0);
    let spares = fields.read_integer("Number of spares", 0, 1 << 30)?.unwrap_or(0) as u32;
    let slips = fields.read_integers("slips", MAX_SECTORS)?;
    let defects = fields.read_integers("defects", MAX_SECTORS)?;
    if !defects.len().is_multiple_of(2) {
        let position = fields.find_entry("defects").map_or(fields.block_position(), |e| &e.position);
        return Err(position.error("`defects` must be pairs, a bad place and its replacement; the number is odd"));
    }
    let defects = defects.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    fields.reject_unknown(G1_ZONE_KEYS)?;
    Ok(ZoneSpec { empty_sectors: empty, spares, slips, defects, ..zone })
}

/// Reads zones with their first and last block. The map of all tracks, in a separate file, is not read: blocks are
/// contiguous in their zone.
fn read_g2(block: &SpecBlock, surfaces: u32, notes: &mut Vec<String>) -> Result<ParsedLayout, DiskspecsError> {
    let mut fields = FieldReader::new(block)?;
    if let Some(map) = fields.read_word("Layout Map File")? {
        notes.push(format!("the track map `{map}` is not read; spare and bad sectors are put at the ends of zones"));
    }
    let in_revolutions = skews_are_revolutions(&mut fields, false)?;
    let mut zones = Vec::new();
    let mut next = 0;
    for block in zone_blocks(&mut fields, "dm_layout_g2_zone")? {
        let mut fields = FieldReader::new(block)?;
        let zone = read_zone_base(&mut fields, in_revolutions, "Zone Skew")?;
        let first = fields.require_integer("First LBN", 0, MAX_SECTORS)?;
        let last = fields.require_integer("Last LBN", first, MAX_SECTORS)?;
        let cylinders = u64::from(zone.last_cylinder.saturating_sub(zone.first_cylinder)) + 1;
        let track_sectors = cylinders * u64::from(surfaces) * u64::from(zone.sectors_per_track);
        let spares = track_sectors.checked_sub(last - first + 1).filter(|_| first == next);
        let spares = spares.ok_or_else(|| {
            let expected = format!("begin at {next}, and at most {track_sectors} fit the cylinders");
            block.position.error(format!("blocks {first} to {last} of this zone; they must {expected}"))
        })?;
        next = last + 1;
        fields.reject_unknown(&["First LBN", "Last LBN", "Zone Skew", "Blocks per track"])?;
        zones.push(ZoneSpec { spares: u32::try_from(spares).unwrap_or(u32::MAX), ..zone });
    }
    fields.reject_unknown(&["Layout Map File", "Zones"])?;
    Ok(ParsedLayout { order: TrackOrder::Ascending, sparing: Sparing::Zone, zones })
}
