//! `[[array]]`.

use super::MAX_TABLES;
use super::host_path::for_each_table;
use super::part_names::{PartNames, find_drive_group, find_drives, is_drive_name};
use crate::array::{
    ArrayDescription, ArrayError, ArrayGeometry, ArrayLayout, ArrayLevel, ArrayPolicy, ArrayState, CopyChoice,
    LevelForm, ParityUpdate, levels,
};
use crate::description_toml::{DescriptionFields, did_you_mean};
use crate::io::BLOCK_BYTES;
use crate::system::{ArraySpec, BackgroundWork, DriveGroupSpec, RunBy};
use diskwright_base::byte_size::ByteSize;

/// Largest number of members of an array; one more is read, to report that there are too many.
const MAX_MEMBERS: usize = 128;
/// Default stripe unit: 64 KB, the usual setting of controllers.
const DEFAULT_UNIT_BLOCKS: u64 = (64 << 10) / BLOCK_BYTES;

const READ_POLICIES: [(&str, CopyChoice); 6] = [
    ("round-robin", CopyChoice::RoundRobin),
    ("nearest", CopyChoice::Nearest),
    ("idle-or-nearest", CopyChoice::IdleOrNearest),
    ("process", CopyChoice::Process),
    ("primary", CopyChoice::Primary),
    ("least-busy", CopyChoice::LeastBusy),
];

const WRITE_POLICIES: [(&str, ParityUpdate); 4] = [
    ("fewest", ParityUpdate::Fewest),
    ("md", ParityUpdate::Md),
    ("read-modify-write", ParityUpdate::ReadModifyWrite),
    ("reconstruct", ParityUpdate::Reconstruct),
];

/// Parses all arrays, and notes in `names` which array uses each drive.
pub(super) fn parse_arrays(
    top: &DescriptionFields<'_, '_>,
    names: &mut PartNames,
    drives: &[DriveGroupSpec],
) -> Vec<ArraySpec> {
    let drive_count: u32 = drives.iter().map(|group| group.count).sum();
    names.used_by = vec![None; drive_count as usize];
    let is_only = top.read_tables("array").len() == 1;
    let mut arrays = Vec::new();
    for_each_table(top, "array", |fields| {
        if arrays.len() < MAX_TABLES {
            arrays.push(parse_array(fields, names, drives, is_only));
        }
    });
    arrays
}

fn parse_array(
    fields: &DescriptionFields<'_, '_>,
    names: &mut PartNames,
    drives: &[DriveGroupSpec],
    is_only: bool,
) -> ArraySpec {
    let groups = names.drives.clone();
    let name = names.arrays.add_name(fields, "array", &[&groups]);
    // a name equal to a group's has been reported already
    if groups.find_index(&name).is_none() && is_drive_name(drives, &name) {
        fields.report_key_problem("name", format!("the name `{name}` is already used; choose another name"));
    }
    let index = names.arrays.len() - 1;
    let level = parse_level(fields);
    let spares =
        parse_drive_references(fields, "spares", drives).into_iter().map(|(drive, _)| drive).collect::<Vec<_>>();
    let members = parse_members(fields, drives, &spares, is_only);
    for drive in members.iter().chain(&spares) {
        claim_drive(fields, names, drives, *drive, index);
    }
    let run_by = parse_run_by(fields, names);
    let mut policy = ArrayPolicy::default();
    policy.read_from = fields.read_word("read_from", &READ_POLICIES).unwrap_or(policy.read_from);
    let default_write_by = if run_by == RunBy::Host { ParityUpdate::Md } else { ParityUpdate::Fewest };
    policy.write_by = fields.read_word("write_by", &WRITE_POLICIES).unwrap_or(default_write_by);
    policy.join_ios = fields.read_bool("join").unwrap_or(policy.join_ios);
    let spec = ArraySpec {
        name,
        level: level.unwrap_or(ArrayLevel::Linear),
        layout: parse_layout(fields),
        copies: fields.read_integer("copies", 1, 128).map(|n| n as u16),
        unit_blocks: fields.read_blocks("stripe_unit", 1 << 21).unwrap_or(DEFAULT_UNIT_BLOCKS),
        member_blocks: fields.read_capacity_blocks("member_space"),
        run_by,
        policy,
        failed: parse_failed_members(fields, drives, &members),
        rebuild: parse_background(fields, "rebuild"),
        scrub: parse_background(fields, "scrub"),
        members,
        spares,
    };
    if level.is_some() && !spec.members.is_empty() {
        check_geometry(fields, &spec, drives);
    }
    spec
}

fn parse_level(fields: &DescriptionFields<'_, '_>) -> Option<ArrayLevel> {
    let text = match fields.read_value("level") {
        Some(value) => match value.get_ref().as_integer() {
            Some(number) => number.as_str().to_owned(),
            None => fields.read_text("level")?.to_owned(),
        },
        None => {
            fields.report_missing("level", "\"raid5\"");
            return None;
        }
    };
    let level = ArrayLevel::parse(&text);
    if level.is_none() {
        let known: Vec<&str> = levels().iter().map(|l| l.id.as_str()).collect();
        let suggestion = did_you_mean(&text, &known);
        fields
            .report_key_problem("level", format!("unknown level `{text}`; known are {}{suggestion}", known.join(", ")));
    }
    level
}

fn parse_layout(fields: &DescriptionFields<'_, '_>) -> Option<ArrayLayout> {
    let text = fields.read_text("layout")?;
    let layout = ArrayLayout::parse(text);
    if layout.is_none() {
        let known: Vec<&str> = ArrayLayout::ALL.iter().map(|l| l.name()).collect();
        let suggestion = did_you_mean(text, &known);
        fields.report_key_problem(
            "layout",
            format!("unknown layout `{text}`; known are {}{suggestion}", known.join(", ")),
        );
    }
    layout
}

/// Parses a list of drive references; returns each drive with the position of its reference in the text.
fn parse_drive_references(
    fields: &DescriptionFields<'_, '_>,
    key: &'static str,
    drives: &[DriveGroupSpec],
) -> Vec<(u32, usize)> {
    let mut found = Vec::new();
    for (text, offset) in fields.read_texts(key) {
        match find_drives(drives, text) {
            Ok(matched) => found.extend(matched.into_iter().map(|drive| (drive, offset))),
            Err(message) => fields.source.report_problem(offset, &fields.item, message),
        }
    }
    found
}

/// Parses the members; by default, all drives but the spares if there is only one array.
fn parse_members(
    fields: &DescriptionFields<'_, '_>,
    drives: &[DriveGroupSpec],
    spares: &[u32],
    is_only: bool,
) -> Vec<u32> {
    if !fields.has_key("drives") && is_only {
        fields.mark_known(&["drives"]);
        let drive_count = drives.iter().map(|group| group.count).sum::<u32>();
        return (0..drive_count).filter(|drive| !spares.contains(drive)).collect();
    }
    if !fields.has_key("drives") {
        fields.report_missing("drives", "[\"disk0-3\"]");
    }
    let mut members = Vec::new();
    for (drive, offset) in parse_drive_references(fields, "drives", drives) {
        if members.contains(&drive) {
            let message = format!("`{}` is listed twice as a member", drive_name(drives, drive));
            fields.source.report_problem(offset, &fields.item, message);
        } else if members.len() <= MAX_MEMBERS {
            members.push(drive);
        }
    }
    members
}

/// Returns the name of a drive.
pub(super) fn drive_name(drives: &[DriveGroupSpec], drive: u32) -> String {
    match find_drive_group(drives, drive) {
        Some((group, _)) if group.count == 1 => group.name.clone(),
        Some((group, number)) => format!("{}{number}", group.name),
        None => format!("drive {drive}"),
    }
}

/// Assigns a drive to an array, unless another use of it was found before.
fn claim_drive(
    fields: &DescriptionFields<'_, '_>,
    names: &mut PartNames,
    drives: &[DriveGroupSpec],
    drive: u32,
    array: usize,
) {
    let owner = names.used_by.get(drive as usize).copied().flatten();
    match owner {
        Some(owner) if owner == array => {
            fields
                .report_key_problem("spares", format!("`{}` is both a member and a spare", drive_name(drives, drive)));
        }
        Some(owner) => {
            let owner_name = names.arrays.name(owner).to_owned();
            fields.report_key_problem(
                "drives",
                format!("`{}` already belongs to `{owner_name}`", drive_name(drives, drive)),
            );
        }
        None => {
            if let Some(used) = names.used_by.get_mut(drive as usize) {
                *used = Some(array);
            }
        }
    }
}

fn parse_run_by(fields: &DescriptionFields<'_, '_>, names: &PartNames) -> RunBy {
    match fields.read_text("run_by") {
        None | Some("host") => RunBy::Host,
        Some(name) => match names.controllers.find_index(name) {
            Some(index) => RunBy::Controller(index),
            None => {
                let message = names.controllers.unknown_message("controller", name);
                fields.report_key_problem("run_by", format!("{message}; \"host\" means software RAID"));
                RunBy::Host
            }
        },
    }
}

/// Parses the failed members, given by position or by name.
fn parse_failed_members(fields: &DescriptionFields<'_, '_>, drives: &[DriveGroupSpec], members: &[u32]) -> Vec<u16> {
    let Some(value) = fields.read_value("failed") else { return Vec::new() };
    let numbers = match value.get_ref().as_array() {
        Some(list) => list.iter().all(|v| v.get_ref().is_integer()),
        None => value.get_ref().is_integer(),
    };
    if numbers {
        let last = (members.len() as u64).saturating_sub(1);
        return fields.read_integers("failed", 0, last).into_iter().map(|n| n as u16).collect();
    }
    let mut failed = Vec::new();
    for (drive, offset) in parse_drive_references(fields, "failed", drives) {
        match members.iter().position(|m| *m == drive) {
            Some(member) => failed.push(member as u16),
            None => {
                let message = format!("`{}` has failed but is not a member of this array", drive_name(drives, drive));
                fields.source.report_problem(offset, &fields.item, message);
            }
        }
    }
    failed
}

/// Parses `rebuild` or `scrub`: `true`, or a table of step, depth and rate.
pub(super) fn parse_background(fields: &DescriptionFields<'_, '_>, key: &'static str) -> Option<BackgroundWork> {
    let defaults = BackgroundWork::default();
    if let Some(is_on) = fields.read_value(key)?.get_ref().as_bool() {
        return is_on.then_some(defaults);
    }
    let inner = fields.read_table(key)?;
    let background = BackgroundWork {
        step_blocks: inner.read_request_blocks("step").unwrap_or(defaults.step_blocks),
        depth: inner.read_integer("depth", 1, 1024).map_or(defaults.depth, |n| n as u32),
        rate: inner.read_bytes_per_s("rate"),
    };
    inner.reject_unknown_keys();
    Some(background)
}

/// Checks the geometry of an array.
fn check_geometry(fields: &DescriptionFields<'_, '_>, spec: &ArraySpec, drives: &[DriveGroupSpec]) {
    let member_sizes: Vec<u64> = spec.members.iter().map(|drive| drive_blocks(drives, *drive)).collect();
    let (min, max) = (member_sizes.iter().copied().min().unwrap_or(0), member_sizes.iter().copied().max().unwrap_or(0));
    let info = spec.level.info();
    if min != max && info.form != LevelForm::Linear {
        let size = |blocks: u64| ByteSize::capacity((blocks * BLOCK_BYTES) as f64);
        let message = format!("members hold {} to {}; the size of the smallest counts", size(min), size(max));
        fields.report_key_note("drives", message);
    }
    if let Some(used) = spec.member_blocks.filter(|used| *used > min || *used == 0) {
        let message = format!("`member_space` is {used} blocks, but the smallest member holds {min}");
        fields.report_key_problem("member_space", message);
        return;
    }
    let members = member_sizes.iter().map(|blocks| spec.member_blocks.unwrap_or(*blocks)).collect();
    let (unit_blocks, layout, copies) = (spec.unit_blocks, spec.layout, spec.copies);
    let description = ArrayDescription { level: spec.level, members, unit_blocks, layout, copies };
    match ArrayGeometry::new(&description) {
        Err(error) => fields.report_key_problem(error_key(&error), error.to_string()),
        Ok(array) => check_rebuild_settings(fields, spec, &array),
    }
}

/// Returns the key that an error is about.
fn error_key(error: &ArrayError) -> &'static str {
    match error {
        ArrayError::NoUnit(_) | ArrayError::TooSmall { .. } | ArrayError::UnitTooLarge(_) => "stripe_unit",
        ArrayError::WrongLayout { .. } => "layout",
        ArrayError::WrongCopies { .. } => "copies",
        _ => "drives",
    }
}

/// Checks that failures, spares and rebuilds are consistent.
fn check_rebuild_settings(fields: &DescriptionFields<'_, '_>, spec: &ArraySpec, array: &ArrayGeometry) {
    let failed = ArrayState::with_failed(spec.failed.iter().copied()).failed;
    let lost = failed.count() as usize;
    let survives = spec.level.info().form != LevelForm::Linear && spec.level != ArrayLevel::Raid0;
    if lost > 0 && !survives {
        fields.report_key_note(
            "failed",
            format!("{} has no redundancy; data of a failed member are not served", spec.level),
        );
    }
    // with a spare, the rebuild waits for a failure during the run
    if spec.rebuild.is_some() && lost == 0 && spec.spares.is_empty() {
        fields.report_key_note("rebuild", "no member has failed, so there is nothing to rebuild; set failed = [0]");
    }
    if spec.rebuild.is_some() && lost > 0 && spec.spares.is_empty() {
        fields.report_key_problem("rebuild", "a rebuild needs a spare drive: spares = [\"…\"]");
    }
    if spec.rebuild.is_some() && !array.survives_failures(failed) {
        fields.report_key_note("rebuild", "too many members have failed: there is nothing to rebuild them from");
    } else if spec.rebuild.is_some() && lost > spec.spares.len() && !spec.spares.is_empty() {
        let spares = spec.spares.len();
        fields.report_key_note("rebuild", format!("{lost} members have failed; there are spares for {spares} of them"));
    }
    if !spec.spares.is_empty() && spec.rebuild.is_none() && lost > 0 {
        fields.report_key_note("spares", "the spare is idle without a rebuild: rebuild = true");
    }
}

fn drive_blocks(drives: &[DriveGroupSpec], drive: u32) -> u64 {
    find_drive_group(drives, drive).map_or(0, |(group, _)| group.device.block_count())
}
