//! `[[workload]]`: users or arrivals, their rates and their targets.

use diskwright_base::Rng;

use super::host_path::for_each_table;
use super::part_names::{PartNames, find_targets};
use super::transfers;
use super::{DescriptionFiles, workload_kinds};
use crate::description_toml::DescriptionFields;
use crate::description_toml::quantity::{self, TIME};
use crate::load::{
    ArrivalBatch, Bursts, ClosedSpec, DurationDistribution, Load, LoadError, LoadPhase, LoadSpec, OpenSpec,
    OperationClass,
};
use crate::system::{System, Workload, WorkloadTarget};
use crate::{Ns, array};

/// Kinds of workloads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkloadKind {
    /// Users who wait for their requests.
    Closed,
    /// Arrivals that do not wait.
    Open,
    Netbench,
    Scan,
    Oltp,
    Sort,
    Trace,
}

const WORKLOAD_KINDS: [(&str, WorkloadKind); 7] = [
    ("closed", WorkloadKind::Closed),
    ("open", WorkloadKind::Open),
    ("netbench", WorkloadKind::Netbench),
    ("scan", WorkloadKind::Scan),
    ("oltp", WorkloadKind::Oltp),
    ("sort", WorkloadKind::Sort),
    ("trace", WorkloadKind::Trace),
];

/// Parses all workloads of a system whose other parts were read. There may be none: a system may also be served to
/// programs.
pub(super) fn parse_workloads(
    top: &DescriptionFields<'_, '_>,
    names: &PartNames,
    system: &System,
    files: &DescriptionFiles<'_>,
) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::new();
    let mut workload_names = super::part_names::NameList::default();
    for_each_table(top, "workload", |fields| {
        let name = workload_names.add_name(fields, "workload", &[]);
        let targets = parse_targets(fields, names, system);
        let target_names: Vec<String> = targets.iter().map(|t| target_name(system, names, *t)).collect();
        let Some(load) = parse_load(fields, &target_names, system.host.cache.is_some(), files) else { return };
        if !targets.is_empty() && fields.source.has_no_problems() {
            refuse_unused_targets(fields, &target_names, &load);
            check_load(fields, system, &targets, &load);
        }
        workloads.push(Workload { name, targets, load });
    });
    workloads
}

/// Parses the targets of a workload: those that `on` names; by default the only array, or the only drive.
fn parse_targets(fields: &DescriptionFields<'_, '_>, names: &PartNames, system: &System) -> Vec<WorkloadTarget> {
    if fields.has_key("on") {
        let mut targets = Vec::new();
        for (text, offset) in fields.read_texts("on") {
            match find_targets(&system.drives, names, text) {
                Ok(found) => targets.extend(found),
                Err(message) => fields.source.report_problem(offset, &fields.item, message),
            }
        }
        if targets.len() > usize::from(u16::MAX) {
            fields.report_key_problem("on", "more than 65535 targets");
        }
        return targets;
    }
    fields.mark_known(&["on"]);
    match (system.arrays.len(), system.drive_count()) {
        (1, _) => vec![WorkloadTarget::Array(0)],
        (0, 1) => vec![WorkloadTarget::Drive(0)],
        (0, 0) => Vec::new(),
        _ => {
            let choices: Vec<&str> = names.arrays.iter().chain(names.drives.iter()).take(20).collect();
            fields.report_problem(format!("`on` is missing; choose one of {}", choices.join(", ")));
            Vec::new()
        }
    }
}

fn target_name(system: &System, names: &PartNames, target: WorkloadTarget) -> String {
    match target {
        WorkloadTarget::Array(index) => names.arrays.name(index).to_owned(),
        WorkloadTarget::Drive(drive) => system.drive_name(drive),
    }
}

/// Blocks of a target; `None` if it could not be read.
fn target_blocks(system: &System, target: WorkloadTarget) -> Option<u64> {
    match target {
        WorkloadTarget::Drive(drive) => {
            system.find_drive_group(drive).map(|(group, _)| system.drives[group].device.block_count())
        }
        WorkloadTarget::Array(index) => {
            let spec = system.arrays.get(index)?;
            let drive_blocks = |drive: &u32| {
                system.find_drive_group(*drive).map(|(group, _)| system.drives[group].device.block_count())
            };
            let member_sizes: Option<Vec<u64>> = spec.members.iter().map(drive_blocks).collect();
            let members = member_sizes?.into_iter().map(|blocks| spec.member_blocks.unwrap_or(blocks)).collect();
            let (level, unit_blocks, layout, copies) = (spec.level, spec.unit_blocks, spec.layout, spec.copies);
            array::ArrayGeometry::new(&array::ArrayDescription { level, members, unit_blocks, layout, copies })
                .ok()
                .map(|array| array.capacity_blocks())
        }
    }
}

fn parse_load(
    fields: &DescriptionFields<'_, '_>,
    targets: &[String],
    cached: bool,
    files: &DescriptionFiles<'_>,
) -> Option<LoadSpec> {
    let default = if fields.has_key("rate") { WorkloadKind::Open } else { WorkloadKind::Closed };
    match fields.read_word("kind", &WORKLOAD_KINDS).unwrap_or(default) {
        WorkloadKind::Closed => Some(parse_plain_load(fields, targets, cached, false)),
        WorkloadKind::Open => Some(parse_plain_load(fields, targets, cached, true)),
        WorkloadKind::Netbench => Some(workload_kinds::parse_netbench(fields, cached)),
        WorkloadKind::Scan => Some(workload_kinds::parse_scan(fields, targets)),
        WorkloadKind::Oltp => Some(workload_kinds::parse_oltp(fields, targets)),
        WorkloadKind::Sort => Some(workload_kinds::parse_sort(fields, targets, cached)),
        WorkloadKind::Trace => workload_kinds::parse_trace(fields, files, cached),
    }
}

/// Parses users who wait, or arrivals that do not.
fn parse_plain_load(fields: &DescriptionFields<'_, '_>, targets: &[String], cached: bool, open: bool) -> LoadSpec {
    let classes = transfers::parse_classes(fields, targets, cached);
    let phases = parse_phases(fields, &classes);
    let most_operations = fields.read_integer("operations", 1, u64::MAX >> 1);
    if open {
        refuse_keys(fields, &["users", "outstanding", "think"], "closed arrivals: kind = \"closed\", without a rate");
        LoadSpec::Open(OpenSpec { classes, phases, most_operations, ..parse_arrivals(fields) })
    } else {
        let open = ["arrivals", "batch", "bursts", "most_outstanding", "rate"];
        refuse_keys(fields, &open, "open arrivals: kind = \"open\"");
        let defaults = ClosedSpec::default();
        LoadSpec::Closed(ClosedSpec {
            users: fields.read_integer("users", 1, 1 << 20).map_or(defaults.users, |n| n as u32),
            outstanding: fields.read_integer("outstanding", 1, 1 << 20).map_or(defaults.outstanding, |n| n as u32),
            think: parse_duration(fields, "think").unwrap_or(DurationDistribution::NONE),
            classes,
            phases,
            most_operations,
        })
    }
}

/// Refuses keys of the other kind of workload.
fn refuse_keys(fields: &DescriptionFields<'_, '_>, keys: &[&'static str], belongs: &str) {
    for key in keys.iter().filter(|key| fields.has_key(key)) {
        fields.report_key_problem(key, format!("`{key}` belongs to {belongs}"));
    }
    fields.mark_known(keys);
}

/// Parses the keys of a workload with open arrivals.
fn parse_arrivals(fields: &DescriptionFields<'_, '_>) -> OpenSpec {
    let defaults = OpenSpec::default();
    if !fields.has_key("rate") {
        fields.report_missing("rate", "\"100/s\"");
    }
    let rate = fields.read_per_s("rate").filter(|rate| {
        let is_positive = *rate > 0.0;
        if !is_positive {
            fields.report_key_problem("rate", "`rate` is zero; it must be greater than 0/s");
        }
        is_positive
    });
    let gap_s = rate.map_or(0.01, |rate| 1.0 / rate);
    let steady = fields.read_word("arrivals", &[("poisson", false), ("steady", true)]).unwrap_or(false);
    let bursts = fields.read_table("bursts").and_then(|inner| {
        let bursts = Some(()).and_then(|()| {
            let (on, off) = (parse_duration(&inner, "on"), parse_duration(&inner, "off"));
            Some(Bursts { on: on?, off: off? })
        });
        if bursts.is_none() {
            inner.report_problem("bursts need an `on` and an `off` time, such as { on = \"1s\", off = \"9s\" }");
        }
        inner.reject_unknown_keys();
        bursts
    });
    OpenSpec {
        gap: if steady {
            DurationDistribution::Constant { s: gap_s }
        } else {
            DurationDistribution::Exponential { mean_s: gap_s }
        },
        batch: parse_batch(fields).unwrap_or(defaults.batch),
        bursts,
        most_outstanding: fields
            .read_integer("most_outstanding", 1, u64::from(u32::MAX - 1))
            .map_or(defaults.most_outstanding, |n| n as u32),
        ..defaults
    }
}

/// Parses `batch = 8`, or `{ mean = 2.5 }` for a geometric distribution.
fn parse_batch(fields: &DescriptionFields<'_, '_>) -> Option<ArrivalBatch> {
    if fields.read_value("batch")?.get_ref().is_table() {
        let inner = fields.read_table("batch")?;
        if !inner.has_key("mean") {
            inner.report_missing("mean", "2.5");
        }
        let mean = inner.read_number("mean", 1.0, 65_536.0);
        inner.reject_unknown_keys();
        return mean.map(ArrivalBatch::Geometric);
    }
    fields.read_integer("batch", 1, 65_536).map(|n| ArrivalBatch::Fixed(n as u32))
}

/// Parses `[[workload.phase]]`: changes of a load over time.
fn parse_phases(fields: &DescriptionFields<'_, '_>, classes: &[OperationClass]) -> Vec<LoadPhase> {
    let mut phases = Vec::new();
    for_each_table(fields, "phase", |phase| {
        let from = phase.read_number("from", 0.0, 1000.0);
        let to = phase.read_number("to", 0.0, 1000.0);
        let level = phase.read_number("level", 0.0, 1000.0);
        if level.is_some() && (from.is_some() || to.is_some()) {
            phase.report_key_problem("level", "`level` holds for the whole phase; give either it or `from` and `to`");
        }
        let (from, to) = (level.or(from).or(to).unwrap_or(1.0), level.or(to).or(from).unwrap_or(1.0));
        if !phase.has_key("lasts") {
            phase.report_missing("lasts", "\"10s\"; lasts = \"for ever\" ends the list");
        }
        let is_endless = phase.read_value("lasts").and_then(|v| v.get_ref().as_str()) == Some("for ever");
        let lasts = if is_endless { Some(Ns::MAX) } else { phase.read_nonzero_time_ns("lasts") };
        phases.push(LoadPhase { lasts: lasts.unwrap_or(1), from, to, weights: parse_weights(phase, classes) });
    });
    phases
}

/// Parses `weights = [1, 0, 2]`, one for each class.
fn parse_weights(phase: &DescriptionFields<'_, '_>, classes: &[OperationClass]) -> Vec<f64> {
    let Some(value) = phase.read_value("weights") else { return Vec::new() };
    let list = value
        .get_ref()
        .as_array()
        .map(|list| list.iter().map(crate::description_toml::toml_number).collect::<Vec<_>>());
    match list {
        Some(list) if list.len() == classes.len() && list.iter().all(|w| w.is_some_and(|w| w >= 0.0)) => {
            list.into_iter().flatten().collect()
        }
        _ => {
            let message = format!("`weights` must be a list of {} numbers of at least 0, one per class", classes.len());
            phase.report_key_problem("weights", message);
            Vec::new()
        }
    }
}

/// Parses a duration that may be random: `"7s"`, or one of `{ exponential = "7s" }`,
/// `{ uniform = ["1s", "3s"] }`, `{ erlang = "7s", stages = 4 }`,
/// `{ normal = "7s", deviation = "1s" }`, `{ hyper = "7s", cv2 = 4 }`.
pub(super) fn parse_duration(fields: &DescriptionFields<'_, '_>, key: &'static str) -> Option<DurationDistribution> {
    let seconds = |ns: Ns| ns as f64 / 1e9;
    if !fields.read_value(key)?.get_ref().is_table() {
        return fields.read_time_ns(key).map(|ns| DurationDistribution::Constant { s: seconds(ns) });
    }
    let inner = fields.read_table(key)?;
    let time = |key: &'static str| inner.read_time_ns(key).map(seconds);
    let mut found = Vec::new();
    found.extend(time("exponential").map(|mean_s| DurationDistribution::Exponential { mean_s }));
    let stages = inner.read_integer("stages", 1, 10_000);
    found.extend(
        time("erlang").map(|mean_s| DurationDistribution::Erlang { mean_s, stages: stages.unwrap_or(2) as u32 }),
    );
    let deviation_s = time("deviation");
    found.extend(
        time("normal").map(|mean_s| DurationDistribution::Normal { mean_s, deviation_s: deviation_s.unwrap_or(0.0) }),
    );
    let cv2 = inner.read_number("cv2", 1.0, 1e6);
    found.extend(time("hyper").map(|mean_s| DurationDistribution::Hyper { mean_s, cv2: cv2.unwrap_or(1.0) }));
    if inner.has_key("uniform") {
        found.extend(parse_uniform(&inner));
    }
    inner.mark_known(&["uniform"]);
    for (key, distribution) in [("stages", "erlang"), ("deviation", "normal"), ("cv2", "hyper")] {
        // if there is no distribution, only its absence is reported
        if found.len() == 1 && inner.has_key(key) && !inner.has_key(distribution) {
            inner.report_key_problem(key, format!("`{key}` belongs to `{distribution}`"));
        }
    }
    if found.len() != 1 && fields.source.has_no_problems() {
        let kinds = "exponential, uniform, erlang, normal, hyper";
        inner.report_problem(format!("expected one distribution of {kinds}, such as {{ exponential = \"7s\" }}"));
    }
    inner.reject_unknown_keys();
    found.into_iter().next()
}

/// Parses `uniform = ["1s", "3s"]`.
fn parse_uniform(inner: &DescriptionFields<'_, '_>) -> Option<DurationDistribution> {
    let times = inner.read_texts("uniform");
    let read = |index: usize| {
        times.get(index).and_then(|(text, _)| quantity::parse_time_ns(text).ok()).map(|ns| ns as f64 / 1e9)
    };
    match (times.len(), read(0), read(1)) {
        (2, Some(from_s), Some(to_s)) if from_s <= to_s => Some(DurationDistribution::Uniform { from_s, to_s }),
        _ => {
            let message =
                format!("`uniform` needs two values, each {}, the smaller first: [\"1s\", \"3s\"]", TIME.description);
            inner.report_key_problem("uniform", message);
            None
        }
    }
}

/// Refuses targets that no part of the workload uses.
fn refuse_unused_targets(fields: &DescriptionFields<'_, '_>, targets: &[String], load: &LoadSpec) {
    let class_targets =
        |classes: &[OperationClass]| classes.iter().flat_map(|c| &c.transfers).map(|t| t.target).collect();
    let used: Vec<u16> = match load {
        LoadSpec::Closed(ClosedSpec { classes, .. }) | LoadSpec::Open(OpenSpec { classes, .. }) => {
            class_targets(classes)
        }
        LoadSpec::Netbench(mix) => vec![mix.target],
        LoadSpec::Oltp(oltp) => vec![oltp.data.target, oltp.log.target],
        LoadSpec::Sort(sort) => vec![sort.input.target, sort.work.target, sort.output.target],
        // scans have a file on each target; a trace's devices are the targets, by position
        LoadSpec::Scan(_) | LoadSpec::Trace(_) => return,
    };
    if let Some((name, _)) = targets.iter().zip(0..).find(|(_, index)| !used.contains(index)) {
        let message = format!("no part of this workload uses `{name}`; remove it, or set `on` of a part to it");
        fields.report_key_problem("on", message);
    }
}

/// Checks the load with its own rules.
fn check_load(fields: &DescriptionFields<'_, '_>, system: &System, targets: &[WorkloadTarget], load: &LoadSpec) {
    let sizes: Option<Vec<u64>> = targets.iter().map(|target| target_blocks(system, *target)).collect();
    let Some(sizes) = sizes else { return };
    if let Err(LoadError { item, reason }) = Load::new(load, &sizes, Rng::new(1, 0)) {
        let key = match item.as_str() {
            "part" => "area",
            "phases" => "phase",
            "classes" | "transfers" => "class",
            "gap" => "rate",
            "bytes" => "size",
            "write_bytes" => "write_size",
            "total_bytes" => "total",
            "align_bytes" => "align",
            "clients" => "users",
            "query_bytes" => "query",
            "workspace_bytes" => "workspace",
            "extent_bytes" => "extent",
            "most_outstanding" if !fields.has_key("most_outstanding") => "outstanding",
            "log_bytes" => "log_record",
            "most_log_bytes" => "log_write",
            "most_write_bytes" => "coalesce",
            "checkpoint_s" => "checkpoint",
            "data_bytes" => "data",
            "record_bytes" => "record",
            "key_bytes" => "keys",
            "memory_bytes" => "memory",
            "io_bytes" => "request",
            "merge_bytes" => "merge_request",
            other => other,
        };
        fields.report_key_problem(key, format!("`{key}`: {reason}"));
    }
}
