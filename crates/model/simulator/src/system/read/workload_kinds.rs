//! Documented workloads: `kind = "netbench"`, `"scan"`, `"oltp"`, `"sort"` and `"trace"`. Missing keys are as in
//! their specifications' defaults.

use diskwright_base::units::format_count;

use super::DescriptionFiles;
use super::transfers::{parse_access, parse_area, parse_target};
use super::workloads::parse_duration;
use crate::description_toml::DescriptionFields;
use crate::description_toml::quantity::{CAPACITY, SIZE};
use crate::io::BLOCK_BYTES;
use crate::load::{
    DurationDistribution, LoadSpec, NetbenchSpec, OltpSpec, Region, ScanSpec, SortSpec, Timing, TraceSpec,
};

const NS_PER_SECOND: f64 = 1e9;

fn parse_operation_limit(fields: &DescriptionFields<'_, '_>) -> Option<u64> {
    fields.read_integer("operations", 1, u64::MAX >> 1)
}

fn parse_users(fields: &DescriptionFields<'_, '_>) -> u32 {
    fields.read_integer("users", 1, 1 << 20).map_or(1, |n| n as u32)
}

fn parse_count(fields: &DescriptionFields<'_, '_>, key: &'static str, default: u32) -> u32 {
    fields.read_integer(key, 1, 1 << 20).map_or(default, |n| n as u32)
}

/// Parses a size in whole blocks, bytes.
fn parse_bytes(fields: &DescriptionFields<'_, '_>, key: &'static str, default: u64) -> u64 {
    fields.read_blocks(key, 1 << 40).map_or(default, |blocks| blocks * BLOCK_BYTES)
}

/// Parses NetBench's disk mix.
pub(super) fn parse_netbench(fields: &DescriptionFields<'_, '_>, cached: bool) -> LoadSpec {
    let defaults = NetbenchSpec::default();
    LoadSpec::Netbench(NetbenchSpec {
        clients: parse_users(fields),
        workspace_bytes: parse_bytes(fields, "workspace", defaults.workspace_bytes),
        target: 0,
        part: parse_area(fields),
        oplocks: fields.read_bool("oplocks").unwrap_or(defaults.oplocks),
        think: parse_duration(fields, "think").unwrap_or(DurationDistribution::NONE),
        compute: parse_duration(fields, "compute").unwrap_or(DurationDistribution::NONE),
        cached: fields.read_bool("cached").unwrap_or(cached),
        most_operations: parse_operation_limit(fields),
    })
}

/// Parses decision support: each target of the workload holds one file of the database.
pub(super) fn parse_scan(fields: &DescriptionFields<'_, '_>, targets: &[String]) -> LoadSpec {
    let defaults = ScanSpec::default();
    let part = parse_area(fields);
    let files = (0..targets.len().clamp(1, usize::from(u16::MAX))).map(|index| Region { target: index as u16, part });
    LoadSpec::Scan(ScanSpec {
        users: parse_users(fields),
        think: parse_duration(fields, "think").unwrap_or(DurationDistribution::NONE),
        files: files.collect(),
        query_bytes: parse_bytes(fields, "query", defaults.query_bytes),
        degree: parse_count(fields, "degree", defaults.degree),
        workers: parse_count(fields, "workers", defaults.workers),
        extent_bytes: parse_bytes(fields, "extent", defaults.extent_bytes),
        ahead: fields.read_integer("ahead", 0, 1 << 20).map_or(defaults.ahead, |n| n as u32),
        most_outstanding: parse_count(fields, "outstanding", defaults.most_outstanding),
        compute: parse_duration(fields, "compute").unwrap_or(DurationDistribution::NONE),
        most_operations: parse_operation_limit(fields),
    })
}

/// Parses a region: `{ on = "log", area = "1GB" }`.
fn parse_region(fields: &DescriptionFields<'_, '_>, key: &'static str, targets: &[String], default: Region) -> Region {
    let Some(inner) = fields.read_table(key) else { return default };
    let region = Region { target: parse_target(&inner, targets), part: parse_area(&inner) };
    inner.reject_unknown_keys();
    region
}

/// Parses transactions.
pub(super) fn parse_oltp(fields: &DescriptionFields<'_, '_>, targets: &[String]) -> LoadSpec {
    let defaults = OltpSpec::default();
    let never = fields.read_value("checkpoint").and_then(|v| v.get_ref().as_str()) == Some("never");
    let checkpoint = if never { Some(0) } else { fields.read_nonzero_time_ns("checkpoint") };
    LoadSpec::Oltp(OltpSpec {
        users: parse_users(fields),
        think: parse_duration(fields, "think").unwrap_or(DurationDistribution::NONE),
        data: parse_region(fields, "data", targets, defaults.data),
        access: parse_access(fields),
        pages: parse_count(fields, "pages", defaults.pages),
        hit_share: fields.read_share("hit_share").unwrap_or(defaults.hit_share),
        changed: fields.read_integer("changed", 0, 1 << 20).map_or(defaults.changed, |n| n as u32),
        buffers: fields.read_integer("buffers", 1, 1 << 28).unwrap_or(defaults.buffers),
        compute: parse_duration(fields, "compute").unwrap_or(DurationDistribution::NONE),
        log: parse_region(fields, "log", targets, defaults.log),
        log_bytes: parse_bytes(fields, "log_record", defaults.log_bytes),
        most_log_bytes: parse_bytes(fields, "log_write", defaults.most_log_bytes),
        checkpoint_s: checkpoint.map_or(defaults.checkpoint_s, |ns| ns as f64 / NS_PER_SECOND),
        most_outstanding: parse_count(fields, "outstanding", defaults.most_outstanding),
        most_write_bytes: parse_bytes(fields, "coalesce", defaults.most_write_bytes),
        most_operations: parse_operation_limit(fields),
    })
}

/// Parses an external sort.
pub(super) fn parse_sort(fields: &DescriptionFields<'_, '_>, targets: &[String], cached: bool) -> LoadSpec {
    let defaults = SortSpec::default();
    let seconds =
        |key: &'static str, default: f64| fields.read_time_ns(key).map_or(default, |ns| ns as f64 / NS_PER_SECOND);
    let size_bytes =
        |key: &'static str, default: u64| fields.read_quantity(key, &SIZE).map_or(default, |bytes| bytes as u64);
    LoadSpec::Sort(SortSpec {
        data_bytes: fields.read_quantity("data", &CAPACITY).map_or(defaults.data_bytes, |bytes| bytes as u64),
        record_bytes: size_bytes("record", defaults.record_bytes),
        key_bytes: size_bytes("keys", defaults.key_bytes),
        memory_factor: fields.read_number("memory_factor", 1.0, 100.0).unwrap_or(defaults.memory_factor),
        memory_bytes: size_bytes("memory", defaults.memory_bytes),
        processors: parse_count(fields, "processors", defaults.processors),
        compare_s: seconds("compare", defaults.compare_s),
        record_s: seconds("move", defaults.record_s),
        input: parse_region(fields, "input", targets, defaults.input),
        work: parse_region(fields, "work", targets, defaults.work),
        output: parse_region(fields, "output", targets, defaults.output),
        io_bytes: parse_bytes(fields, "request", defaults.io_bytes),
        merge_bytes: parse_bytes(fields, "merge_request", defaults.merge_bytes),
        window: parse_count(fields, "window", defaults.window),
        cached: fields.read_bool("cached").unwrap_or(cached),
    })
}

/// Parses a recorded stream of requests; its devices are the targets, in their order.
pub(super) fn parse_trace(
    fields: &DescriptionFields<'_, '_>,
    files: &DescriptionFiles<'_>,
    cached: bool,
) -> Option<LoadSpec> {
    let closed = fields.read_word("timing", &[("open", false), ("closed", true)]).unwrap_or(false);
    let scale = fields.read_number("scale", 0.0, 1e6).unwrap_or(1.0);
    let depth = fields.read_integer("depth", 1, 1 << 20);
    if depth.is_some() && !closed {
        fields.report_key_problem("depth", "`depth` applies only to closed timing: timing = \"closed\"");
    }
    let fold = fields.read_bool("fold").unwrap_or(true);
    let cached = fields.read_bool("cached").unwrap_or(cached);
    let path = fields.require_text("file", "\"day.csv\"")?;
    let (requests, omitted_count, remarks) = match (files.trace)(path) {
        Ok(found) => found,
        Err(reason) => {
            fields.report_key_problem("file", format!("`{path}`: {reason}"));
            return None;
        }
    };
    if requests.is_empty() {
        fields.report_key_problem("file", format!("`{path}` has no reads or writes"));
        return None;
    }
    if omitted_count > 0 {
        let omitted = format_count(
            omitted_count,
            "request is neither a read nor a write and is omitted",
            "requests are neither reads nor writes and are omitted",
        );
        fields.report_key_note("file", omitted);
    }
    remarks.into_iter().for_each(|remark| fields.report_key_note("file", remark));
    let timing = match closed {
        true => Timing::Closed { depth: depth.map_or(1, |n| n as u32), scale },
        false => Timing::Open { scale },
    };
    Some(LoadSpec::Trace(TraceSpec { requests: requests.into(), timing, fold, cached }))
}
