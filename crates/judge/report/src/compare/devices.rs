//! The table of the disks: each judged by itself, the one in question first.

use diskwright_base::units::{format_significant, format_value};
use diskwright_diagnosis::compare::{ChangeOutcome, DeviceChange, QuantityChange, WindowComparison};
use maud::{Markup, Render};

use crate::markup::mark_code;
use crate::sections::html_table;
use crate::table::{Align, TextTable};

use super::rows::join_values;

/// Largest number of disks on the screen.
const MAX_SCREEN_DEVICES: usize = 6;
/// Largest number of disks on the page.
const MAX_PAGE_DEVICES: usize = 64;
const TITLES: [&str; 5] = ["disk", "requests", "latency", "at equal load", "effect"];

/// The table for a terminal, and the number of disks that it leaves out; `None` for fewer than two disks.
pub(super) fn screen_table(comparison: &WindowComparison, is_whole: bool) -> Option<(TextTable, usize)> {
    let devices = several_devices(comparison)?;
    let count = if is_whole { devices.len() } else { devices.len().min(MAX_SCREEN_DEVICES) };
    let mut table = TextTable::new().with_text_column(TITLES[0]);
    for title in &TITLES[1..4] {
        table = table.with_column(title, Align::Right);
    }
    table = table.with_column(TITLES[4], Align::Left);
    for device in &devices[..count] {
        table.add_row(cells(device));
    }
    Some((table, devices.len() - count))
}

/// The table of a page; empty for fewer than two disks.
pub(super) fn page_table(comparison: &WindowComparison) -> Markup {
    let Some(devices) = several_devices(comparison) else { return Markup::default() };
    let row = |device: &DeviceChange| {
        let [name, requests, latency, equal, effect] = cells(device);
        vec![
            name.render(),
            requests.render(),
            latency.render(),
            equal.render(),
            effect.render(),
            mark_code(&device.sentence),
        ]
    };
    let rows: Vec<Vec<Markup>> = devices.iter().take(MAX_PAGE_DEVICES).map(row).collect();
    html_table(&["Disk", "Requests", "Latency", "At equal load", "Effect", "In words"], &rows)
}

fn several_devices(comparison: &WindowComparison) -> Option<&[DeviceChange]> {
    Some(comparison.devices.as_slice()).filter(|devices| devices.len() > 1)
}

fn cells(device: &DeviceChange) -> [String; 5] {
    let change = |m: &Option<QuantityChange>| {
        let both =
            |m: &QuantityChange| join_values(&format_value(m.before, &m.unit), " to ", &format_value(m.after, &m.unit));
        m.as_ref().map_or("not measured".to_owned(), both)
    };
    let equal = device
        .requests
        .equal_load
        .as_ref()
        .map_or("unknown".to_owned(), |e| format!("x {}", format_significant(e.ratio)));
    let blamed = if device.blamed { ", blamed" } else { "" };
    let effect = format!("{}{blamed}", outcome_word(device.outcome));
    [device.instance.clone(), change(&device.requests.load), change(&device.requests.response), equal, effect]
}

/// Effect of a change on a disk in a word or two.
fn outcome_word(outcome: ChangeOutcome) -> &'static str {
    match outcome {
        ChangeOutcome::Helped => "better",
        ChangeOutcome::Worse => "worse",
        ChangeOutcome::LowerLoad => "lower load",
        ChangeOutcome::HigherLoad => "higher load",
        ChangeOutcome::DifferentLoad => "other requests",
        ChangeOutcome::Unchanged => "no change",
        ChangeOutcome::Unclear => "unclear",
    }
}
