//! Writes a description as a file of the catalogue (docs/drives.md).

use std::fmt::Write;

use super::CalibratedDevice;
use crate::Ns;
use crate::catalogue::{DriveClass, EntryKind};
use crate::drive::{DataSheet, DataSheetSeek, TrackRate};
use crate::flash::FlashSpec;
use crate::volume::VolumeSpec;

/// Returns the file's text. Numbers have six digits, more than the accuracy of the measurements.
pub(super) fn toml(device: &CalibratedDevice, kind: &EntryKind, form: &str, notes: &[String]) -> String {
    let (class, table) = match kind {
        EntryKind::Volume(spec) => (DriveClass::Plain, volume(spec)),
        EntryKind::Flash(spec) => (DriveClass::NvmeSsd, flash(spec)),
        EntryKind::Mechanical(sheet) => (DriveClass::Hdd, mechanical(sheet)),
        EntryKind::Plain(_) => (DriveClass::Plain, Vec::new()),
    };
    let sort = ["mechanical", "flash", "volume", "plain"][match kind {
        EntryKind::Mechanical(_) => 0,
        EntryKind::Flash(_) => 1,
        EntryKind::Volume(_) => 2,
        EntryKind::Plain(_) => 3,
    }];
    let mut text = String::from("[[drive]]\n");
    let quoted = |value: &str| toml::Value::from(value).to_string();
    let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}").unwrap_or_default();
    line("id", quoted(&device.id));
    line("name", quoted(&device.name));
    line("vendor", quoted("measured"));
    line("year", device.year.to_string());
    line("class", quoted(class.name()));
    line("capacity_gb", format!("{:.9}", device.bytes as f64 / 1e9));
    line("interface", quoted("as measured"));
    line("source", quoted(&device.source));
    line("notes", quoted(&[&[form.to_owned()], notes].concat().join("; ")));
    let _ = writeln!(text, "\n[drive.{sort}]");
    for (key, value) in &table {
        let _ = writeln!(text, "{key} = {value}");
    }
    let keys: Vec<String> = table.iter().map(|(key, _)| quoted(key)).collect();
    let _ = writeln!(text, "\n[drive.sources]\n{} = [{}]", quoted("fitted to measurements"), keys.join(", "));
    text
}

/// Formats a number with six digits.
fn number(value: f64) -> String {
    let digits = (5 - value.abs().max(1e-12).log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn us(time: Ns) -> String {
    number(time as f64 * 1e-3)
}

type TomlKeys = Vec<(&'static str, String)>;

fn volume(spec: &VolumeSpec) -> TomlKeys {
    let mut keys = vec![("queue", spec.slots.to_string())];
    let mut limit = |key, rate: f64, unit: f64| {
        if rate.is_finite() {
            keys.push((key, number(rate / unit)));
        }
    };
    for (limited, names, unit) in [
        (spec.operations, ["iops", "burst_iops", "iops_credits"], 1.0),
        (spec.bytes, ["mb_s", "burst_mb_s", "mb_credits"], 1e6),
    ] {
        limit(names[0], limited.baseline, unit);
        if limited.credits > 0.0 {
            limit(names[1], limited.burst, unit);
            limit(names[2], limited.credits, unit);
        }
    }
    if let Some([operations, bytes]) = spec.writes {
        limit("write_iops", operations.baseline, 1.0);
        limit("write_mb_s", bytes.baseline, 1e6);
    }
    limit("stream_mb_s", spec.stream, 1e6);
    if let Some(shared) = spec.shared {
        let [read, write] = shared.each_s.map(|s| number(s * 1e6));
        let [reads, writes] = shared.bytes_per_s.map(|rate| number(rate / 1e6));
        let knee = number(shared.knee);
        let text = format!("{{ each_us = [{read}, {write}], mb_s = [{reads}, {writes}], knee = {knee} }}");
        keys.push(("shared", text));
    }
    keys.push(("operation_kb", (spec.operation_bytes >> 10).to_string()));
    for (key, time) in [("read", &spec.read), ("write", &spec.write)] {
        keys.push((key, format!("{{ constant_us = {} }}", number(time.mean() * 1e-3))));
    }
    keys
}

fn flash(spec: &FlashSpec) -> TomlKeys {
    let pair = |read: Ns, write: Ns| format!("[{}, {}]", us(read), us(write));
    let mut keys = vec![
        ("queue", spec.slots.to_string()),
        ("link_mb_s", number(spec.link / 1e6)),
        ("duplex", spec.duplex.to_string()),
        ("command_us", pair(spec.command_read, spec.command_write)),
        ("latency_us", pair(spec.latency_read, spec.latency_write)),
        ("channels", spec.channels.to_string()),
        ("dies", spec.dies.to_string()),
        ("planes", spec.planes.to_string()),
        ("independent_planes", spec.independent_planes.to_string()),
        ("page_kb", (spec.page >> 10).to_string()),
        ("pages", spec.pages.to_string()),
        ("unit_kb", (spec.unit >> 10).to_string()),
        ("read_us", us(spec.read)),
        ("program_us", us(spec.program)),
        ("erase_us", us(spec.erase)),
    ];
    keys.extend(spec.suspend.map(|time| ("suspend_us", us(time))));
    keys.extend([
        ("channel_mb_s", number(spec.channel / 1e6)),
        ("spare", number(spec.spare)),
        ("buffer_mb", number(spec.buffer as f64 / 1_048_576.0)),
        ("protected", spec.protected.to_string()),
        ("filled", number(spec.start.filled)),
        ("overwritten", number(spec.start.overwritten)),
    ]);
    keys
}

fn mechanical(sheet: &DataSheet) -> TomlKeys {
    let rate = |track: &TrackRate| match track {
        TrackRate::Sectors(rate) | TrackRate::Media(rate) | TrackRate::Sustained(rate) => number(rate / 1e6),
    };
    let mut keys = vec![
        ("rpm", number(sheet.rpm)),
        ("heads", sheet.heads.to_string()),
        ("zones", sheet.zones.to_string()),
        ("sustained_mb_s", format!("[{}, {}]", rate(&sheet.outer), rate(&sheet.inner))),
    ];
    if let DataSheetSeek::Points(ms) = &sheet.seek {
        keys.push(("seek_ms", format!("[{}]", ms.map(number).join(", "))));
    }
    keys.extend([
        ("head_switch_ms", number(sheet.head_switch_ms)),
        ("write_settle_ms", number(sheet.write_settle_ms)),
        ("command_ms", number(sheet.command_ms)),
        ("hit_ms", number(sheet.hit_ms)),
        ("cache_kb", (sheet.cache >> 10).to_string()),
        ("segments", sheet.segments.to_string()),
        ("read_ahead", sheet.read_ahead.to_string()),
        ("write_cache", sheet.write_cache.to_string()),
        ("interface_mb_s", number(sheet.interface / 1e6)),
        ("queue", sheet.slots.to_string()),
        ("policy", format!("{:?}", sheet.policy.name())),
    ]);
    keys
}
