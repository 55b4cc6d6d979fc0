//! Operations of a workload: `[[workload.class]]` and `[[workload.class.transfer]]`, or the same keys in the workload
//! itself if there is one class of one transfer.

use super::host_path::for_each_table;
use super::workloads::parse_duration;
use crate::description_toml::quantity::{self, SIZE};
use crate::description_toml::{DescriptionFields, DescriptionValue, did_you_mean, toml_number};
use crate::io::BLOCK_BYTES;
use crate::load::{AccessPattern, DurationDistribution, OperationClass, OperationTransfer, RequestSizes, TargetPart};

/// Keys of a transfer.
const TRANSFER_KEYS: [&str; 15] = [
    "read_share",
    "size",
    "write_size",
    "access",
    "streams",
    "around",
    "zipf",
    "align",
    "area",
    "total",
    "parallel",
    "pause",
    "compute",
    "cached",
    "posted",
];

/// Parses the classes of a workload on `targets`; `cached` is the default with a file cache. Without classes, all
/// targets are used equally; a class or a transfer without `on` uses the first.
pub(super) fn parse_classes(
    fields: &DescriptionFields<'_, '_>,
    targets: &[String],
    cached: bool,
) -> Vec<OperationClass> {
    if !fields.has_key("class") {
        fields.mark_known(&["class"]);
        let transfer = parse_transfer(fields, cached, 0);
        let class = |name: &str, target| {
            let transfers = vec![OperationTransfer { target, ..transfer.clone() }];
            OperationClass { name: name.into(), transfers, ..OperationClass::default() }
        };
        return match targets {
            [] | [_] => vec![class("all", 0)],
            several => several.iter().zip(0..).map(|(name, index)| class(name, index)).collect(),
        };
    }
    for key in TRANSFER_KEYS.into_iter().filter(|key| fields.has_key(key)) {
        fields.report_key_problem(key, format!("with [[workload.class]], `{key}` belongs to each class"));
    }
    fields.mark_known(&TRANSFER_KEYS);
    let mut classes = Vec::new();
    for_each_table(fields, "class", |class| {
        let number = classes.len() + 1;
        let name = class.read_text("name").map_or_else(|| format!("class{number}"), str::to_owned);
        let transfers = if class.has_key("transfer") {
            let mut transfers = Vec::new();
            for key in TRANSFER_KEYS.into_iter().filter(|key| class.has_key(key)) {
                class.report_key_problem(
                    key,
                    format!("with [[workload.class.transfer]], `{key}` belongs to each transfer"),
                );
            }
            class.mark_known(&TRANSFER_KEYS);
            for_each_table(class, "transfer", |inner| {
                let target = parse_target(inner, targets);
                transfers.push(parse_transfer(inner, cached, target));
            });
            transfers
        } else {
            class.mark_known(&["transfer"]);
            let target = parse_target(class, targets);
            vec![parse_transfer(class, cached, target)]
        };
        classes.push(OperationClass {
            name,
            weight: class.read_number("weight", 0.0, 1e12).unwrap_or(1.0),
            transfers,
            rounds: class.read_integer("rounds", 1, u64::from(u32::MAX)).map_or(1, |n| n as u32),
        });
    });
    classes
}

/// Parses `on` of a class or a transfer: one of the workload's targets.
pub(super) fn parse_target(fields: &DescriptionFields<'_, '_>, targets: &[String]) -> u16 {
    let Some(name) = fields.read_text("on") else { return 0 };
    match targets.iter().position(|t| t == name) {
        Some(index) => u16::try_from(index).unwrap_or(u16::MAX),
        None => {
            let known: Vec<&str> = targets.iter().map(String::as_str).collect();
            let suggestion = did_you_mean(name, &known);
            let known = known.join("\", \"");
            let message = format!("`{name}` is not a target of the workload, on = [\"{known}\"]{suggestion}");
            fields.report_key_problem("on", message);
            0
        }
    }
}

fn parse_transfer(fields: &DescriptionFields<'_, '_>, cached: bool, target: u16) -> OperationTransfer {
    let defaults = OperationTransfer::default();
    OperationTransfer {
        target,
        part: parse_area(fields),
        access: parse_access(fields),
        align_bytes: fields.read_blocks("align", 1 << 40).map_or(defaults.align_bytes, |blocks| blocks * BLOCK_BYTES),
        read_share: fields.read_share("read_share").unwrap_or(defaults.read_share),
        bytes: parse_sizes(fields, "size").unwrap_or(defaults.bytes),
        write_bytes: parse_sizes(fields, "write_size"),
        total_bytes: fields.read_blocks("total", 1 << 50).map(|blocks| blocks * BLOCK_BYTES),
        parallel: fields.read_integer("parallel", 1, 65_536).map_or(defaults.parallel, |n| n as u32),
        pause: parse_duration(fields, "pause").unwrap_or(DurationDistribution::NONE),
        compute: parse_duration(fields, "compute").unwrap_or(DurationDistribution::NONE),
        cached: fields.read_bool("cached").unwrap_or(cached),
        posted: fields.read_bool("posted").unwrap_or(defaults.posted),
    }
}

/// Parses `area`: the first bytes (`"60MB"`), a range (`{ from = "1GB", size = "60MB" }`), or a share (`"10%"`,
/// `{ from = "90%", to = "100%" }`).
pub(super) fn parse_area(fields: &DescriptionFields<'_, '_>) -> TargetPart {
    let Some(value) = fields.read_value("area") else { return TargetPart::All };
    if value.get_ref().is_table() {
        return fields.read_table("area").map_or(TargetPart::All, |inner| parse_area_table(&inner));
    }
    let text = value.get_ref().as_str().unwrap_or_default();
    if text.ends_with('%') || !value.get_ref().is_str() {
        return fields.read_share("area").map_or(TargetPart::All, |to| TargetPart::Share { from: 0.0, to });
    }
    fields
        .read_capacity_blocks("area")
        .map_or(TargetPart::All, |blocks| TargetPart::Bytes { from: 0, bytes: blocks * BLOCK_BYTES })
}

fn parse_area_table(inner: &DescriptionFields<'_, '_>) -> TargetPart {
    let part = if inner.has_key("size") {
        let from = inner.read_capacity_blocks("from").unwrap_or(0);
        let size = inner.read_capacity_blocks("size").unwrap_or(0);
        TargetPart::Bytes { from: from * BLOCK_BYTES, bytes: size * BLOCK_BYTES }
    } else {
        if !inner.has_key("from") && !inner.has_key("to") {
            inner.report_problem("expected { from = \"1GB\", size = \"60MB\" } or { from = \"0%\", to = \"10%\" }");
        }
        inner.mark_known(&["size"]);
        TargetPart::Share { from: inner.read_share("from").unwrap_or(0.0), to: inner.read_share("to").unwrap_or(1.0) }
    };
    inner.reject_unknown_keys();
    part
}

/// Parses `access = "random"` with `around` or `zipf`, or `"sequential"` with `streams`.
pub(super) fn parse_access(fields: &DescriptionFields<'_, '_>) -> AccessPattern {
    let sequential = fields.read_word("access", &[("random", false), ("sequential", true)]);
    let streams = fields.read_integer("streams", 0, 1 << 20);
    let zipf = fields.read_number("zipf", 0.0, 100.0);
    let around = fields.read_table("around").map(|inner| {
        for key in ["mean", "deviation"].into_iter().filter(|key| !inner.has_key(key)) {
            inner.report_missing(key, "0.5");
        }
        let (mean, deviation) = (inner.read_share("mean"), inner.read_share("deviation"));
        inner.reject_unknown_keys();
        AccessPattern::Normal { mean: mean.unwrap_or(0.5), deviation: deviation.unwrap_or(0.1) }
    });
    if sequential == Some(true) || (sequential.is_none() && streams.is_some()) {
        for key in ["zipf", "around"].into_iter().filter(|key| fields.has_key(key)) {
            fields.report_key_problem(key, format!("`{key}` applies only to random access: access = \"random\""));
        }
        return AccessPattern::Sequential { streams: streams.unwrap_or(0) as u32 };
    }
    if streams.is_some() {
        fields.report_key_problem("streams", "`streams` applies only to sequential access: access = \"sequential\"");
    }
    match (around, zipf) {
        (Some(_), Some(_)) => {
            fields.report_key_problem("zipf", "`zipf` and `around` are both distributions of places; use one of them");
            AccessPattern::Uniform
        }
        (Some(normal), None) => normal,
        (None, Some(theta)) => AccessPattern::Zipf { theta },
        (None, None) => AccessPattern::Uniform,
    }
}

/// Parses `"4KB"`, a list of sizes with their weights (`[["4KB", 0.7], ["64KB", 0.3]]`), or a uniform range
/// (`{ from = "4KB", to = "64KB" }`).
fn parse_sizes(fields: &DescriptionFields<'_, '_>, key: &'static str) -> Option<RequestSizes> {
    let value = fields.read_value(key)?;
    if value.get_ref().is_table() {
        let inner = fields.read_table(key)?;
        for key in ["from", "to"].into_iter().filter(|key| !inner.has_key(key)) {
            inner.report_missing(key, SIZE.example);
        }
        let (from, to) = (inner.read_request_blocks("from"), inner.read_request_blocks("to"));
        inner.reject_unknown_keys();
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK_BYTES;
        return Some(RequestSizes::Uniform { from: bytes(from?), to: bytes(to?) });
    }
    let Some(list) = value.get_ref().as_array() else {
        return fields.read_request_blocks(key).map(|blocks| RequestSizes::One(u64::from(blocks) * BLOCK_BYTES));
    };
    let weighted: Option<Vec<(u64, f64)>> = list.iter().map(parse_weighted_size).collect();
    if weighted.as_ref().is_none_or(Vec::is_empty) {
        fields.report_key_problem(
            key,
            format!("`{key}` as a list needs sizes with weights: [[\"4KB\", 0.7], [\"64KB\", 0.3]]"),
        );
        return None;
    }
    weighted.map(RequestSizes::Weighted)
}

/// Parses `["4KB", 0.7]`.
fn parse_weighted_size(value: DescriptionValue<'_, '_>) -> Option<(u64, f64)> {
    let pair = value.get_ref().as_array()?;
    let (size, weight) = (pair.first()?, pair.get(1)?);
    let blocks = quantity::parse_blocks(size.get_ref().as_str()?).ok()?;
    let weight = toml_number(weight).filter(|weight| *weight >= 0.0)?;
    (pair.len() == 2 && blocks > 0).then_some((blocks * BLOCK_BYTES, weight))
}
