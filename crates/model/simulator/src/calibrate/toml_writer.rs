//! Writes a description as a file of the catalogue (docs/drives.md).

use std::fmt::Write;

use super::CalibratedDevice;
use crate::Ns;
use crate::catalogue::{DriveClass, EntryKind};
use crate::drive::{DataSheet, DataSheetSeek, TrackRate};
use crate::flash::FlashSpec;
use crate::service_time::ServiceTimeDistribution;
use crate::volume::VolumeSpec;

/// Returns the file's text. Numbers have six digits, more than the accuracy of the measurements.
pub(super) fn catalogue_toml(device: &CalibratedDevice, kind: &EntryKind, form: &str, notes: &[String]) -> String {
    let (table_name, class, table) = match kind {
        EntryKind::Volume(spec) => ("volume", DriveClass::Plain, volume_keys(spec, format_number)),
        EntryKind::Flash(spec) => ("flash", DriveClass::NvmeSsd, flash_keys(spec)),
        EntryKind::Mechanical(sheet) => ("mechanical", DriveClass::Hdd, mechanical_keys(sheet)),
        EntryKind::Plain(_) => ("plain", DriveClass::Plain, Vec::new()),
    };
    let mut text = String::from("[[drive]]\n");
    let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}").unwrap_or_default();
    line("id", quote_toml(&device.id));
    line("name", quote_toml(&device.name));
    line("vendor", quote_toml("measured"));
    line("year", device.year.to_string());
    line("class", quote_toml(class.name()));
    line("capacity_gb", format!("{:.9}", device.bytes as f64 / 1e9));
    line("interface", quote_toml("as measured"));
    line("source", quote_toml(&device.source));
    line("notes", quote_toml(&[&[form.to_owned()], notes].concat().join("; ")));
    let _ = writeln!(text, "\n[drive.{table_name}]");
    for (key, value) in &table {
        let _ = writeln!(text, "{key} = {value}");
    }
    let keys: Vec<String> = table.iter().map(|(key, _)| quote_toml(key)).collect();
    let _ = writeln!(text, "\n[drive.sources]\n{} = [{}]", quote_toml("fitted to measurements"), keys.join(", "));
    text
}

/// A text as a value of a TOML file.
pub fn quote_toml(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Formats a number with six digits.
fn format_number(value: f64) -> String {
    let digits = (5 - value.abs().max(1e-12).log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn format_us(time: Ns) -> String {
    format_number(time as f64 * 1e-3)
}

type TomlKeys = Vec<(&'static str, String)>;

fn volume_keys(spec: &VolumeSpec, format_number: fn(f64) -> String) -> TomlKeys {
    let mut keys = vec![("queue", spec.slots.to_string())];
    let mut limit = |key, rate: f64, unit: f64| {
        if rate.is_finite() {
            keys.push((key, format_number(rate / unit)));
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
    limit("stream_mb_s", spec.stream_bytes_per_s, 1e6);
    if let Some(shared) = spec.shared {
        let [read, write] = shared.each_s.map(|s| format_number(s * 1e6));
        let [reads, writes] = shared.bytes_per_s.map(|rate| format_number(rate / 1e6));
        let knee = format_number(shared.knee);
        let text = format!("{{ each_us = [{read}, {write}], mb_s = [{reads}, {writes}], knee = {knee} }}");
        keys.push(("shared", text));
    }
    keys.push(("operation_kb", format_number(spec.operation_bytes as f64 / 1024.0)));
    for (key, is_set) in [("merges", spec.merges), ("whole_operations", spec.whole_operations)] {
        if is_set {
            keys.push((key, "true".into()));
        }
    }
    if spec.write_cost != 1.0 {
        keys.push(("write_cost", format_number(spec.write_cost)));
    }
    if spec.window_ns > 0 {
        keys.push(("window_ms", format_number(spec.window_ns as f64 * 1e-6)));
    }
    keys.extend([("read", time_text(&spec.read, format_number)), ("write", time_text(&spec.write, format_number))]);
    keys
}

/// A time as the catalogue writes it.
fn time_text(time: &ServiceTimeDistribution, format_number: fn(f64) -> String) -> String {
    use ServiceTimeDistribution as Time;
    let format_us = |ns: Ns| format_number(ns as f64 * 1e-3);
    let quantiles = |points: &[(f64, Ns)]| {
        let points = points.iter().map(|(share, ns)| format!("[{share}, {}]", format_us(*ns)));
        format!("{{ quantiles_us = [{}] }}", points.collect::<Vec<_>>().join(", "))
    };
    match time {
        Time::Constant(ns) => format!("{{ constant_us = {} }}", format_us(*ns)),
        Time::Exponential { mean } => format!("{{ exponential_us = {} }}", format_us(*mean)),
        Time::Erlang { stages, mean } => format!("{{ erlang_us = {}, stages = {stages} }}", format_us(*mean)),
        Time::Uniform { min, max } => format!("{{ uniform_us = [{}, {}] }}", format_us(*min), format_us(*max)),
        Time::LogNormal { median, sigma } => {
            format!("{{ median_us = {}, sigma = {} }}", format_us(*median), format_number(*sigma))
        }
        Time::Quantiles(points) => quantiles(points),
        // no volume of the catalogue has one
        Time::Hyperexponential { mean, .. } => format!("{{ exponential_us = {} }}", format_us(*mean)),
    }
}

/// Keys and values of a volume's table in a description, a line each, with all digits.
pub fn volume_table(spec: &VolumeSpec) -> String {
    volume_keys(spec, |value| value.to_string()).iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn flash_keys(spec: &FlashSpec) -> TomlKeys {
    let pair = |read: Ns, write: Ns| format!("[{}, {}]", format_us(read), format_us(write));
    let mut keys = vec![
        ("queue", spec.queue_slots.to_string()),
        ("link_mb_s", format_number(spec.link_bytes_per_s / 1e6)),
        ("duplex", spec.duplex.to_string()),
        ("command_us", pair(spec.command_read, spec.command_write)),
        ("latency_us", pair(spec.latency_read, spec.latency_write)),
        ("channels", spec.channels.to_string()),
        ("dies", spec.dies_per_channel.to_string()),
        ("planes", spec.planes.to_string()),
        ("independent_planes", spec.independent_planes.to_string()),
        ("page_kb", (spec.page_bytes >> 10).to_string()),
        ("pages", spec.pages_per_block.to_string()),
        ("unit_kb", (spec.unit_bytes >> 10).to_string()),
        ("read_us", format_us(spec.read_ns)),
        ("program_us", format_us(spec.program_ns)),
        ("erase_us", format_us(spec.erase_ns)),
    ];
    keys.extend(spec.suspend_ns.map(|time| ("suspend_us", format_us(time))));
    keys.extend([
        ("channel_mb_s", format_number(spec.channel_bytes_per_s / 1e6)),
        ("spare", format_number(spec.spare_share)),
        ("buffer_mb", format_number(spec.buffer_bytes as f64 / 1_048_576.0)),
        ("protected", spec.survives_power_loss.to_string()),
        ("filled", format_number(spec.initial_state.filled_share)),
        ("overwritten", format_number(spec.initial_state.overwrite_passes)),
    ]);
    keys
}

fn mechanical_keys(sheet: &DataSheet) -> TomlKeys {
    let rate = |track: &TrackRate| match track {
        TrackRate::Sectors(rate) | TrackRate::Media(rate) | TrackRate::Sustained(rate) => format_number(rate / 1e6),
    };
    let mut keys = vec![
        ("rpm", format_number(sheet.rpm)),
        ("heads", sheet.heads.to_string()),
        ("zones", sheet.zones.to_string()),
        ("sustained_mb_s", format!("[{}, {}]", rate(&sheet.outer), rate(&sheet.inner))),
    ];
    if let DataSheetSeek::Points(ms) = &sheet.seek {
        keys.push(("seek_ms", format!("[{}]", ms.map(format_number).join(", "))));
    }
    keys.extend([
        ("head_switch_ms", format_number(sheet.head_switch_ms)),
        ("write_settle_ms", format_number(sheet.write_settle_ms)),
        ("command_ms", format_number(sheet.command_ms)),
        ("hit_ms", format_number(sheet.hit_ms)),
        ("cache_kb", (sheet.cache_bytes >> 10).to_string()),
        ("segments", sheet.segments.to_string()),
        ("read_ahead", sheet.read_ahead.to_string()),
        ("write_cache", sheet.write_cache.to_string()),
        ("interface_mb_s", format_number(sheet.interface_bytes_per_s / 1e6)),
        ("queue", sheet.queue_slots.to_string()),
        ("policy", format!("{:?}", sheet.queue_policy.name())),
    ]);
    keys
}
