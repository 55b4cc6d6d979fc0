//! From figures to answers. A figure that is known only within bounds is judged where the bounds decide.

use diskwright_base::units::format_value;
use diskwright_results::facts::DeviceFacts;
use diskwright_results::requirement::{LimitKind, ProgramAnswer, RequirementLevel, RequirementResult, Suitability};

use super::{Figure, Program, Property, Requirement, figure_of};
use crate::result::RunResult;

/// A value, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The value.
    pub exact: Option<f64>,
    /// It is at least this.
    pub at_least: Option<f64>,
    /// It is at most this.
    pub at_most: Option<f64>,
}

impl Measurement {
    /// Creates a value that is known.
    pub fn exact(value: f64) -> Measurement {
        Measurement { exact: Some(value), at_least: Some(value), at_most: Some(value) }
    }

    /// Creates a value that lies between two bounds, each of which may be unknown.
    pub fn between(at_least: Option<f64>, at_most: Option<f64>) -> Measurement {
        Measurement { exact: None, at_least, at_most }
    }

    /// Returns whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.at_least.is_none() && self.at_most.is_none()
    }

    /// Formats it with its unit.
    pub fn describe(&self, unit: &str) -> String {
        let text = |value: f64| format_value(value, unit);
        match (self.exact, self.at_least, self.at_most) {
            (Some(value), ..) => text(value),
            (None, Some(low), Some(high)) => format!("{} to {}", text(low), text(high)),
            (None, Some(low), None) => format!("{} or more", text(low)),
            (None, None, Some(high)) => format!("{} or less", text(high)),
            (None, None, None) => "-".into(),
        }
    }

    /// Returns whether it meets a limit; `None` if that is not known.
    fn meets(&self, kind: LimitKind, limit: f64) -> Option<bool> {
        let (is_good, is_bad) = match kind {
            LimitKind::Below => (self.at_most.map(|v| v < limit), self.at_least.map(|v| v >= limit)),
            LimitKind::AtMost => (self.at_most.map(|v| v <= limit), self.at_least.map(|v| v > limit)),
            LimitKind::AtLeast => (self.at_least.map(|v| v >= limit), self.at_most.map(|v| v < limit)),
        };
        if is_good == Some(true) {
            Some(true)
        } else if is_bad == Some(true) {
            Some(false)
        } else {
            None
        }
    }
}

/// Formats a limit: `less than 10 ms`.
pub fn describe_limit(kind: LimitKind, limit: f64, unit: &str) -> String {
    let words = match kind {
        LimitKind::Below => "less than",
        LimitKind::AtMost => "at most",
        LimitKind::AtLeast => "at least",
    };
    format!("{words} {}", format_value(limit, unit))
}

/// Judges the requirements of a program by its runs on a target.
pub fn judge_runs(program: &Program, runs: &[RunResult], device: &DeviceFacts) -> Vec<RequirementResult> {
    let judge = |requirement: &Requirement| match (&requirement.run, requirement.figure, requirement.property) {
        (_, _, Some(property)) => judge_property(requirement, property, device),
        (Some(run), Some(figure), None) => {
            let measured = measure_figure(runs, run, figure);
            let result = judge_value(requirement, &measured, &RUN_REASONS);
            RequirementResult { run: Some(run.clone()), ..result }
        }
        _ => new_result(requirement),
    };
    program.requirements.iter().map(judge).collect()
}

/// Returns a figure over all repeats of a run: the worst one.
fn measure_figure(runs: &[RunResult], name: &str, figure: Figure) -> Measurement {
    let is_rate = matches!(figure, Figure::RequestsPerS | Figure::BytesPerS);
    let each = runs.iter().filter(|run| run.name == name).map(|run| measure_in_run(run, figure));
    let worst = |a: Measurement, b: Measurement| {
        let pick = |a: Option<f64>, b: Option<f64>| Some(if is_rate { a?.min(b?) } else { a?.max(b?) });
        Measurement {
            exact: pick(a.exact, b.exact),
            at_least: pick(a.at_least, b.at_least),
            at_most: pick(a.at_most, b.at_most),
        }
    };
    each.reduce(worst).unwrap_or_default()
}

/// Returns a figure of one run. A percentile with too few requests lies between the highest known percentile and the
/// longest request; requests without a completion took longer than any other.
fn measure_in_run(run: &RunResult, figure: Figure) -> Measurement {
    let latency = &run.latency_s;
    let has_lost = run.unanswered > 0;
    match (figure_of(run, figure), figure) {
        _ if latency.max.is_none() && !has_lost => Measurement::default(),
        (value, Figure::Max) if has_lost => {
            Measurement::between(Some(value.unwrap_or_default().max(run.unanswered_s)), None)
        }
        (Some(value), Figure::P99) if has_lost => Measurement::between(Some(value), None),
        (None, Figure::P99) => {
            let low = latency.p95.or(latency.p50).or(latency.min);
            Measurement::between(low, latency.max.filter(|_| !has_lost))
        }
        (Some(value), _) => Measurement::exact(value),
        (None, _) => Measurement::default(),
    }
}

/// Reasons for requirements that are not decided.
#[derive(Clone, Copy, Debug)]
pub struct Reasons {
    /// Why there is no value.
    pub unknown: &'static str,
    /// Why the known bounds do not decide, and what to do.
    pub undecided: &'static str,
}

/// Reasons where loads were run.
const RUN_REASONS: Reasons = Reasons {
    unknown: "no request of its run completed, or it was not measured",
    undecided: "there were too few requests to decide; measure longer with --for",
};

/// Judges a requirement by a value, or says why that cannot be done.
pub fn judge_value(requirement: &Requirement, measured: &Measurement, reasons: &Reasons) -> RequirementResult {
    let result = RequirementResult {
        measured: measured.exact,
        measured_at_least: measured.at_least,
        measured_at_most: measured.at_most,
        ..new_result(requirement)
    };
    if measured.is_unknown() {
        return RequirementResult { why: reasons.unknown.to_owned(), ..result };
    }
    let found = measured.describe(&requirement.unit);
    let Some((kind, limit)) = requirement.limit() else {
        let why = format!("{found}; its vendor publishes no limit, so it is not judged");
        return RequirementResult { why, ..result };
    };
    let wanted = describe_limit(kind, limit, &requirement.unit);
    let met = measured.meets(kind, limit);
    let margin = measured.exact.map(|value| match kind {
        LimitKind::Below | LimitKind::AtMost => (limit - value) / limit,
        LimitKind::AtLeast => (value - limit) / limit,
    });
    let why = match met {
        Some(true) => format!("{found}, and {wanted} is wanted"),
        Some(false) => format!("{found}, but {wanted} is wanted: {}", requirement.effect),
        None => format!("{found}, and {wanted} is wanted: {}", reasons.undecided),
    };
    RequirementResult { met, margin, why, ..result }
}

/// Returns a result without a value.
fn new_result(requirement: &Requirement) -> RequirementResult {
    let limit = requirement.limit();
    RequirementResult {
        id: requirement.id.clone(),
        title: requirement.title.clone(),
        level: requirement.level,
        limit: limit.map(|(_, limit)| limit),
        limit_kind: limit.map(|(kind, _)| kind),
        unit: requirement.unit.clone(),
        source: requirement.source.clone(),
        ours: requirement.ours.clone(),
        ..RequirementResult::default()
    }
}

/// Filesystems whose data are on another machine, by their names in the mount table.
const NETWORK_FILESYSTEMS: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "9p",
    "afs",
    "lustre",
    "glusterfs",
    "fuse.glusterfs",
    "fuse.sshfs",
];

/// Judges a property; `met` stays unknown where the property does not apply or is not shown.
fn judge_property(requirement: &Requirement, property: Property, device: &DeviceFacts) -> RequirementResult {
    let filesystem = device.filesystem.as_deref().unwrap_or_default();
    let is_network = NETWORK_FILESYSTEMS.contains(&filesystem);
    let has_option = |option: &str| device.options.as_deref().unwrap_or_default().split(',').any(|o| o == option);
    let class = device.class.as_str();
    let (found, met) = match property {
        Property::LocalFilesystem if filesystem.is_empty() => ("a device, without a filesystem".to_owned(), Some(true)),
        Property::LocalFilesystem => (filesystem.to_owned(), Some(!is_network)),
        Property::NotRotating => {
            let met = match class {
                "rotational" => Some(false),
                "flash" | "nvme" => Some(true),
                _ => None,
            };
            (if class.is_empty() { "unknown" } else { class }.to_owned(), met)
        }
        Property::HardMount if !filesystem.starts_with("nfs") => (format!("not on NFS ({filesystem})"), None),
        Property::HardMount if has_option("soft") || has_option("softerr") => ("soft".to_owned(), Some(false)),
        Property::HardMount if has_option("hard") => ("hard".to_owned(), Some(true)),
        Property::HardMount => ("neither hard nor soft is shown".to_owned(), None),
    };
    let why = match met {
        Some(true) => format!("{found}, as wanted"),
        Some(false) => format!("{found}: {}", requirement.effect),
        None if property == Property::NotRotating => format!("{found}: the kernel does not show what is behind it"),
        None => found.clone(),
    };
    RequirementResult { found: Some(found), met, why, ..new_result(requirement) }
}

/// Answers whether storage is good enough, from judged requirements.
///
/// A property alone never makes the answer yes: that a disk is local does not show that it is fast enough.
pub fn answer_program(program: &Program, results: &[RequirementResult]) -> ProgramAnswer {
    let has_required = results.iter().any(|r| r.level == RequirementLevel::Required && r.limit.is_some());
    let deciding = if has_required { RequirementLevel::Required } else { RequirementLevel::Recommended };
    let is_deciding = |r: &&RequirementResult| r.level <= deciding;
    let failed = results.iter().filter(is_deciding).find(|r| r.met == Some(false));
    let undecided = results.iter().filter(is_deciding).find(|r| r.limit.is_some() && r.met.is_none());
    let has_number = results.iter().filter(is_deciding).any(|r| r.limit.is_some());
    let (answer, because) = if let Some(result) = failed {
        (Suitability::No, format!("{}: {}", describe_subject(result), result.why))
    } else if let Some(result) = undecided {
        (Suitability::Unknown, format!("{}: {}", describe_subject(result), result.why))
    } else if has_number {
        (Suitability::Yes, describe_success(results))
    } else {
        let text = program.no_number.clone().unwrap_or_else(|| "its vendor publishes no limit".into());
        (Suitability::NotPublished, text)
    };
    let (id, title, more) = (program.id.clone(), program.title.clone(), program.more.clone());
    ProgramAnswer { id, title, answer, because, more }
}

/// Names a requirement, with its device if there are several.
fn describe_subject(result: &RequirementResult) -> String {
    match &result.device {
        Some(device) => format!("{device}, {}", result.title),
        None => result.title.clone(),
    }
}

/// Describes what is met, and which recommendations are not.
fn describe_success(results: &[RequirementResult]) -> String {
    let missed: Vec<String> = results
        .iter()
        .filter(|r| r.level == RequirementLevel::Recommended && r.met == Some(false))
        .map(|r| format!("{} ({})", describe_subject(r), r.why))
        .collect();
    if missed.is_empty() {
        return "everything that its vendor publishes a limit for is met".into();
    }
    format!("what its vendor requires is met; not met of what it recommends: {}", missed.join("; "))
}
