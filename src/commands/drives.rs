//! `list drives` and `explain DRIVE`: the catalogue of drives, published figures of each, and figures that the
//! simulator computes.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{format_significant, format_value};
use diskwright_report::{Align, Style, TextTable, explain};
use diskwright_simulator::DeviceModel;
use diskwright_simulator::catalogue::measure::{DatasheetCheck, DriveMeasurement, DrivePattern, measure_pattern};
use diskwright_simulator::catalogue::{CatalogueEntry, built_in_entries};
use serde_json::{Value, json};

use super::Failure;

/// Requests per simulated figure: quick, and stable to one or two percent.
const SIMULATED_REQUESTS: u32 = 20_000;
/// Random writes to an SSD: its buffer must fill many times before the flash behind it shows.
const SIMULATED_SSD_WRITES: u32 = 300_000;

/// Returns name, JSON entries and table for `list drives`.
pub fn list_drives() -> (&'static str, Vec<Value>, TextTable) {
    let mut table = TextTable::new()
        .with_text_column("drive")
        .with_column("year", Align::Right)
        .with_text_column("class")
        .with_column("holds", Align::Right);
    table = table.with_text_column("interface").with_text_column("name");
    for entry in built_in_entries() {
        table.add_row([
            entry.id.clone(),
            entry.year.to_string(),
            entry.class.name().to_owned(),
            ByteSize::capacity(entry.capacity_bytes as f64).to_string(),
            entry.interface.clone(),
            entry.name.clone(),
        ]);
    }
    ("drives", built_in_entries().iter().map(catalogue_entry_json).collect(), table)
}

/// Published figures of a drive, as JSON.
pub fn catalogue_entry_json(entry: &CatalogueEntry) -> Value {
    let sources: serde_json::Map<String, Value> =
        entry.sources.iter().map(|(key, source)| (key.clone(), json!(source))).collect();
    json!({
        "id": entry.id,
        "name": entry.name,
        "vendor": entry.vendor,
        "year": entry.year,
        "class": entry.class,
        "capacity_bytes": entry.capacity_bytes,
        "interface": entry.interface,
        "source": entry.source,
        "sources": sources,
        "notes": entry.notes,
    })
}

/// One simulated measurement of a drive.
struct DriveFigure {
    pattern: DrivePattern,
    size_kb: u32,
    queue_depth: u32,
    measurement: DriveMeasurement,
}

/// Measures the same patterns on each drive: at queue depth 1, and with a queue.
fn measure_figures(device: &DeviceModel) -> Vec<DriveFigure> {
    let max_depth = device.slot_count().clamp(1, if matches!(device, DeviceModel::Mechanical(_)) { 16 } else { 32 });
    let mut figures = Vec::new();
    for pattern in DrivePattern::ALL {
        let kb = if matches!(pattern, DrivePattern::RandomRead | DrivePattern::RandomWrite) { 4 } else { 128 };
        for depth in if max_depth > 1 { vec![1, max_depth] } else { vec![1] } {
            let measurement = measure_pattern(device, pattern, kb * 2, depth, request_count(device, pattern));
            figures.push(DriveFigure { pattern, size_kb: kb, queue_depth: depth, measurement });
        }
    }
    figures
}

fn request_count(device: &DeviceModel, pattern: DrivePattern) -> u32 {
    match device {
        DeviceModel::Flash(_) if pattern == DrivePattern::RandomWrite => SIMULATED_SSD_WRITES,
        DeviceModel::Volume(_) => 5 * SIMULATED_REQUESTS,
        _ => SIMULATED_REQUESTS,
    }
}

/// Simulates what a data sheet states; returns the simulated value, and whether it is close enough.
fn evaluate_check(device: &DeviceModel, check: &DatasheetCheck) -> (f64, bool) {
    check.run(device, request_count(device, check.pattern))
}

/// A drive and its simulated figures, as JSON.
pub fn drive_json(entry: &CatalogueEntry) -> Result<Value, Failure> {
    let device = entry.build_device().map_err(Failure::Failed)?;
    let simulated: Vec<Value> = measure_figures(&device)
        .into_iter()
        .map(|f| {
            json!({ "ask": f.pattern, "size_bytes": f.size_kb * 1024, "depth": f.queue_depth,
                "requests_per_s": f.measurement.iops,
                "bytes_per_s": f.measurement.bytes_per_s, "mean_s": f.measurement.mean_s })
        })
        .collect();
    let checks: Vec<Value> = entry
        .checks
        .iter()
        .map(|c| {
            let (simulated, holds) = evaluate_check(&device, c);
            let unit = if c.iops.is_some() { "requests/s" } else { "MB/s" };
            json!({ "ask": c.pattern, "size_bytes": c.kb * 1024.0, "depth": c.depth, "unit": unit,
                "printed": c.published,
                "bounds": c.iops.or(c.mb_s), "simulated": simulated, "holds": holds })
        })
        .collect();
    let mut document = catalogue_entry_json(entry);
    document["blocks"] = json!(device.block_count());
    document["slots"] = json!(device.slot_count());
    document["simulated"] = json!(simulated);
    document["checks"] = json!(checks);
    Ok(document)
}

/// Draws a drive as text.
pub fn drive_page(entry: &CatalogueEntry, style: &Style) -> Result<String, Failure> {
    let device = entry.build_device().map_err(Failure::Failed)?;
    let mut fields: Vec<(&str, String)> = vec![
        ("made by", format!("{}, {}", entry.vendor, entry.year)),
        ("holds", ByteSize::capacity(entry.capacity_bytes as f64).to_string()),
        ("interface", format!("{}; takes {} at a time", entry.interface, device.slot_count())),
    ];
    for figure in measure_figures(&device) {
        let DriveMeasurement { iops, bytes_per_s, mean_s } = figure.measurement;
        let depth_text =
            if figure.queue_depth == 1 { "one at a time".into() } else { format!("{} at a time", figure.queue_depth) };
        let rate = format!(
            "{}/s, {}, {} each",
            format_significant(iops),
            format_value(bytes_per_s, "bytes_per_s"),
            format_value(mean_s, "s")
        );
        fields
            .push(("simulated", format!("{} of {} KiB, {depth_text}: {rate}", figure.pattern.name(), figure.size_kb)));
    }
    for check in &entry.checks {
        let (simulated, holds) = evaluate_check(&device, check);
        let unit = if check.iops.is_some() { "/s" } else { " MB/s" };
        let remark = if holds { "near enough" } else { "not close enough" };
        let pattern_text =
            format!("{} of {} KiB, {} at a time", check.pattern.name(), format_significant(check.kb), check.depth);
        fields.push((
            "print says",
            format!(
                "{} ({pattern_text}); simulated {}{unit}, {remark}",
                check.published,
                format_significant(simulated)
            ),
        ));
    }
    let mut by_source: Vec<(&str, Vec<&str>)> = Vec::new();
    for (key, source) in &entry.sources {
        match by_source.iter_mut().find(|(other, _)| other == source) {
            Some((_, keys)) => keys.push(key),
            None => by_source.push((source, vec![key])),
        }
    }
    fields.extend(by_source.into_iter().map(|(source, keys)| ("from", format!("{source}: {}", keys.join(", ")))));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Ok(explain::explain_entry(&entry.id, &entry.name, &entry.notes, &fields, style))
}
