//! `[[drive]]`: groups of equal drives, and their devices.

use std::sync::Arc;

use super::host_path::for_each_table;
use super::part_names::{PartNames, is_drive_name};
use super::{Loader, MAX_DRIVES};
use crate::catalogue::{self, CatalogueEntry, DEVICE_TABLES, EntryKind};
use crate::description_toml::{DescriptionFields, did_you_mean};
use crate::device::DeviceModel;
use crate::diskspecs;
use crate::drive::{Model, QueuePolicy};
use crate::system::DriveGroupSpec;

/// Default capacity of a device that the description itself specifies, bytes.
const DEFAULT_CAPACITY_BYTES: u64 = 1_000_000_000_000;

/// Reads the drives of the files that `[system] catalogue` names.
pub(super) fn parse_own_catalogue(fields: &DescriptionFields<'_, '_>, load: Loader<'_>) -> Vec<CatalogueEntry> {
    let mut entries = Vec::new();
    for (path, offset) in fields.read_texts("catalogue") {
        let report = |message: String| fields.source.report_problem(offset, &fields.item, message);
        match load(path).map(|text| catalogue::read(path, &text)) {
            Ok(Ok(found)) => entries.extend(found),
            Ok(Err(problems)) => problems.0.iter().for_each(|problem| report(problem.to_string())),
            Err(reason) => report(format!("`{path}`: {reason}")),
        }
    }
    entries
}

/// Parses all groups of drives.
pub(super) fn parse_drives(
    top: &DescriptionFields<'_, '_>,
    names: &mut PartNames,
    own_catalogue: &[CatalogueEntry],
    load: Loader<'_>,
) -> Vec<DriveGroupSpec> {
    let mut groups: Vec<DriveGroupSpec> = Vec::new();
    if top.read_tables("drive").is_empty() {
        top.report_problem("there is no drive; add a [[drive]], such as model = \"st32171w\"");
    }
    for_each_table(top, "drive", |fields| {
        let name = names.drives.add_name(fields, "disk", &[]);
        let before: u32 = groups.iter().map(|group| group.count).sum();
        let count = fields.read_integer("count", 1, u64::from(MAX_DRIVES)).map_or(1, |n| n as u32);
        if before + count > MAX_DRIVES {
            fields.report_key_problem("count", format!("{} drives in all; the limit is {MAX_DRIVES}", before + count));
        }
        check_unique_names(fields, &groups, &name, count);
        let device = parse_device(fields, &name, own_catalogue, load);
        let channel = names.channels.parse_reference(fields, "channel");
        let order = parse_order(fields);
        let depth = fields.read_integer("depth", 1, u64::from(u32::MAX)).map(|n| n as u32);
        let Some(device) = device else {
            // keeps the numbers of the other drives right; the file is refused anyway
            groups.extend(placeholder_device().map(|device| DriveGroupSpec {
                name,
                count,
                device,
                channel,
                order: QueuePolicy::FirstComeFirstServed,
                depth: 1,
            }));
            return;
        };
        let own_order = match &device {
            DeviceModel::Mechanical(model) => model.queue_policy(),
            _ => QueuePolicy::FirstComeFirstServed,
        };
        if order.is_some() && !matches!(device, DeviceModel::Mechanical(_)) {
            fields.report_key_note("order", "`order` schedules the arm of a mechanical drive; this device has none");
        }
        let depth = depth.unwrap_or_else(|| device.slot_count());
        groups.push(DriveGroupSpec { name, count, device, channel, order: order.unwrap_or(own_order), depth });
    });
    groups
}

/// Checks that a group's drives are not named like those of earlier groups: `disk2` may be the third drive of `disk`,
/// and the default name of the second group.
fn check_unique_names(fields: &DescriptionFields<'_, '_>, before: &[DriveGroupSpec], name: &str, count: u32) {
    if before.iter().any(|group| group.name == name) {
        return; // reported already
    }
    let numbers = if count > 1 { 0..count } else { 0..0 };
    let mut names = std::iter::once(name.to_owned()).chain(numbers.map(|number| format!("{name}{number}")));
    if let Some(same) = names.find(|text| is_drive_name(before, text)) {
        fields.report_key_problem("name", format!("the name `{same}` is already used; choose another name"));
    }
}

/// A device in place of one that could not be read.
fn placeholder_device() -> Option<DeviceModel> {
    let entry = catalogue::built_in_entries().first()?;
    entry.build_device().ok()
}

fn parse_order(fields: &DescriptionFields<'_, '_>) -> Option<QueuePolicy> {
    let words: Vec<(&'static str, QueuePolicy)> =
        QueuePolicy::ALL.into_iter().map(|policy| (policy.name(), policy)).collect();
    fields.read_word("order", &words)
}

/// Parses the device of a group: `model`, `file`, or an inline table.
fn parse_device(
    fields: &DescriptionFields<'_, '_>,
    name: &str,
    own_catalogue: &[CatalogueEntry],
    load: Loader<'_>,
) -> Option<DeviceModel> {
    let keys = ["model", "file"].into_iter().chain(DEVICE_TABLES);
    let device_keys: Vec<&str> = keys.clone().filter(|key| fields.has_key(key)).collect();
    fields.mark_known(&["model", "file", "capacity", "write_cache"]);
    fields.mark_known(&DEVICE_TABLES);
    let kind = match device_keys.as_slice() {
        ["model"] => find_catalogue_model(fields, own_catalogue)?,
        ["file"] => return load_diskspecs_file(fields, load),
        [table_name] => parse_inline_spec(fields, name, table_name)?,
        [] => {
            let choices =
                "model = \"…\" of `list drives`, file = \"….diskspecs\", or a table such as [drive.mechanical]";
            fields.report_problem(format!("the device is missing; give {choices}"));
            return None;
        }
        [first, second, ..] => {
            fields.report_key_problem(second, format!("`{first}` already describes the device; remove one of the two"));
            return None;
        }
    };
    let kind = apply_write_cache(fields, kind);
    kind.build_device().map_err(|message| fields.report_problem(message)).ok()
}

/// Finds a drive in the catalogues.
fn find_catalogue_model(fields: &DescriptionFields<'_, '_>, own_catalogue: &[CatalogueEntry]) -> Option<EntryKind> {
    if fields.has_key("capacity") {
        fields.report_key_problem("capacity", "a catalogue model has its own capacity; remove `capacity`");
    }
    let id = fields.read_text("model")?;
    let found =
        own_catalogue.iter().find(|entry| entry.id.eq_ignore_ascii_case(id)).or_else(|| catalogue::find_entry(id));
    if found.is_none() {
        let known: Vec<&str> =
            own_catalogue.iter().chain(catalogue::built_in_entries()).map(|entry| entry.id.as_str()).collect();
        let suggestion = did_you_mean(id, &known);
        let hint = if suggestion.is_empty() { "; `list drives` shows all of them" } else { "" };
        fields.report_key_problem("model", format!("the catalogue has no drive `{id}`{suggestion}{hint}"));
    }
    found.map(|entry| entry.kind.clone())
}

/// Loads a drive in DiskSim's format.
fn load_diskspecs_file(fields: &DescriptionFields<'_, '_>, load: Loader<'_>) -> Option<DeviceModel> {
    for key in ["capacity", "write_cache"].into_iter().filter(|key| fields.has_key(key)) {
        fields.report_key_problem(key, format!("the file itself sets `{key}`; remove it here"));
    }
    let path = fields.read_text("file")?;
    let loaded = load(path).map_err(|reason| format!("`{path}`: {reason}")).and_then(|text| {
        let found =
            diskspecs::read_drive(path, &text, &|other: &str| load(other)).map_err(|error| error.to_string())?;
        let model = Model::new(&found.spec).map_err(|error| format!("`{path}`: {error}"))?;
        Ok((model, found.notes))
    });
    match loaded {
        Ok((model, notes)) => {
            notes.into_iter().for_each(|note| fields.report_key_note("file", note));
            Some(DeviceModel::Mechanical(Arc::new(model)))
        }
        Err(message) => {
            fields.report_key_problem("file", message);
            None
        }
    }
}

/// Parses a specification in the description itself, with the catalogue's keys.
fn parse_inline_spec(fields: &DescriptionFields<'_, '_>, name: &str, table_name: &str) -> Option<EntryKind> {
    if table_name != "plain" && !fields.has_key("capacity") {
        fields.report_missing("capacity", "\"9.1GB\"");
    }
    let capacity = fields
        .read_capacity_blocks("capacity")
        .map_or(DEFAULT_CAPACITY_BYTES, |blocks| blocks * crate::io::BLOCK_BYTES);
    let table =
        DEVICE_TABLES.into_iter().find(|s| *s == table_name).and_then(|table_name| fields.read_value(table_name))?;
    let item = format!("{}, {table_name}", fields.item);
    catalogue::read_inline(fields.source, &item, (name, capacity), table_name, table)
}

/// Applies `write_cache`, which turns a mechanical drive's own write cache on or off.
fn apply_write_cache(fields: &DescriptionFields<'_, '_>, kind: EntryKind) -> EntryKind {
    match (fields.read_bool("write_cache"), kind) {
        (Some(on), EntryKind::Mechanical(mut sheet)) => {
            sheet.write_cache = on;
            EntryKind::Mechanical(sheet)
        }
        (Some(_), kind) => {
            fields.report_key_problem("write_cache", "`write_cache` applies only to mechanical drives");
            kind
        }
        (None, kind) => kind,
    }
}
