//! `[[event]]`: changes to drives during a run.

use super::arrays::{drive_name, parse_background};
use super::host_path::for_each_table;
use super::part_names::find_drives;
use crate::description_toml::DescriptionFields;
use crate::system::{SLOWDOWN_FACTOR_RANGE, ScheduledChange, System, SystemChange};

/// The actions, by key.
const EVENT_KEYS: [&str; 5] = ["fail", "replace", "slow", "hang", "release"];

/// Parses all events, in the order of their time.
pub(super) fn parse_events(top: &DescriptionFields<'_, '_>, system: &System) -> Vec<ScheduledChange> {
    let mut events = Vec::new();
    for_each_table(top, "event", |fields| parse_event(fields, system, &mut events));
    events.sort_by_key(|change| change.time_ns);
    events
}

fn parse_event(fields: &DescriptionFields<'_, '_>, system: &System, events: &mut Vec<ScheduledChange>) {
    if !fields.has_key("at") {
        fields.report_missing("at", "\"30s\"");
    }
    let time_ns = fields.read_time_ns("at").unwrap_or(0);
    let end = system.watch.warm_up.saturating_add(system.watch.duration);
    if time_ns > end {
        fields.report_key_note("at", "this is after the end of the run, which `[watch]` sets");
    }
    let actions: Vec<&str> = EVENT_KEYS.into_iter().filter(|key| fields.has_key(key)).collect();
    match actions.as_slice() {
        [] => fields.report_problem("the event does nothing; give one of fail, replace, slow, hang, release"),
        [_] => {}
        [_, second, ..] => fields.report_key_problem(second, "the event has two actions; write an [[event]] for each"),
    }
    let rebuild = parse_background(fields, "rebuild");
    if rebuild.is_some() && !fields.has_key("replace") {
        fields.report_key_problem("rebuild", "`rebuild` applies only to `replace`");
    }
    let changes = [
        parse_member_changes(fields, system, "fail", |array, member| SystemChange::Fail { array, member }),
        parse_member_changes(fields, system, "replace", |array, member| SystemChange::Replace {
            array,
            member,
            settings: rebuild,
        }),
        parse_slow_changes(fields, system),
        parse_drive_changes(fields, system, "hang", |drive| SystemChange::Hang { drive, on: true }),
        parse_drive_changes(fields, system, "release", |drive| SystemChange::Hang { drive, on: false }),
    ];
    events.extend(changes.into_iter().flatten().map(|change| ScheduledChange { time_ns, change }));
}

/// Returns the same change for all drives that a key names.
fn parse_drive_changes(
    fields: &DescriptionFields<'_, '_>,
    system: &System,
    key: &'static str,
    change: impl Fn(u32) -> SystemChange,
) -> Vec<SystemChange> {
    let mut found = Vec::new();
    for (text, offset) in fields.read_texts(key) {
        match find_drives(&system.drives, text) {
            Ok(matched) => found.extend(matched.into_iter().map(&change)),
            Err(message) => fields.source.report_problem(offset, &fields.item, message),
        }
    }
    found
}

/// Returns the same change for all array members that a key names.
fn parse_member_changes(
    fields: &DescriptionFields<'_, '_>,
    system: &System,
    key: &'static str,
    change: impl Fn(usize, u16) -> SystemChange,
) -> Vec<SystemChange> {
    let mut found = Vec::new();
    for (text, offset) in fields.read_texts(key) {
        let drives = find_drives(&system.drives, text).unwrap_or_else(|message| {
            fields.source.report_problem(offset, &fields.item, message);
            Vec::new()
        });
        for drive in drives {
            let position = |spec: &crate::system::ArraySpec| spec.members.iter().position(|member| *member == drive);
            match system.arrays.iter().enumerate().find_map(|(array, spec)| Some((array, position(spec)?))) {
                Some((array, member)) => found.push(change(array, member as u16)),
                None => {
                    let name = drive_name(&system.drives, drive);
                    let message = format!("`{name}` is not a member of an array; only members can fail or be replaced");
                    fields.source.report_problem(offset, &fields.item, message);
                }
            }
        }
    }
    found
}

/// Parses `slow = { drive = "disk1", factor = 10 }`.
fn parse_slow_changes(fields: &DescriptionFields<'_, '_>, system: &System) -> Vec<SystemChange> {
    let Some(inner) = fields.has_key("slow").then(|| fields.read_table("slow")).flatten() else {
        fields.mark_known(&["slow"]);
        return Vec::new();
    };
    if !inner.has_key("drive") {
        inner.report_missing("drive", "\"disk1\"");
    }
    if !inner.has_key("factor") {
        inner.report_missing("factor", "10");
    }
    let factor = inner.read_number("factor", SLOWDOWN_FACTOR_RANGE.0, SLOWDOWN_FACTOR_RANGE.1).unwrap_or(1.0);
    let changes = parse_drive_changes(&inner, system, "drive", |drive| SystemChange::Slow { drive, factor });
    inner.reject_unknown_keys();
    changes
}
