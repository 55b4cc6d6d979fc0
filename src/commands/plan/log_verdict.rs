//! What the log's verdict means for a plan: whether disks are what holds the machine back.

use diskwright_base::text::quote_for_shell;
use diskwright_base::units::format_value;
use diskwright_diagnosis::recording_hints::LogOrigin;
use diskwright_diagnosis::verdict::VerdictBottleneck;
use diskwright_diagnosis::{Bottleneck, Judge, JudgeOptions, Verdict, packs};
use diskwright_planner::series::measured_demand::LoadSummary;
use diskwright_report::{Ink, Style};

use super::screen::{wrap_indented, wrap_painted};
use crate::commands::Failure;
use crate::commands::ceilings;
use crate::commands::log::Logs;

/// Confidence from which on the log agrees that disks are short; below, it suggests it. Our choice.
const MIN_AGREED_CONFIDENCE: f64 = 0.5;
/// Share of the disks' requests from which paging is told beside a verdict on the disk.
const MIN_PAGING_SHARE: f64 = 0.02;

/// Creates a judge of a log by the default pack, as `why` has it.
pub fn new_judge(logs: &Logs) -> Result<Judge, Failure> {
    let pack = packs::builtin_pack("default").transpose()?;
    let options = JudgeOptions {
        expected: Some(logs.range_ns),
        ceilings: ceilings::known_ceilings().to_vec(),
        ..JudgeOptions::default()
    };
    Ok(Judge::new(pack.into_iter().collect(), options))
}

/// Advice that more disks help: a rule that gives it blames their number.
const MORE_DISKS: &[&str] = &["disk.more-spindles", "disk.size-by-operations", "disk.spread-load"];
/// Advice that a faster disk, or a cache before it, helps where more disks do not.
const FASTER_DISKS: &[&str] = &["disk.faster-device", "disk.single-stream-latency", "disk.caching-controller"];

/// What a plan for disks can do about a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// Disks or volumes are short: more of them help.
    MoreDisks,
    /// Requests wait for the latency of a disk: a faster one helps, more of them do not.
    FasterDisks,
    /// The way to the disks is full: disks on the same way gain nothing.
    WiderWay,
    /// A disk is blamed for something that other disks of its kind do not have: a fault, a filesystem that is full.
    Repair,
    /// Something else is short: disks would not help.
    Other,
    /// Nothing is short, or the log does not show it.
    Unproven,
}

impl Remedy {
    /// The remedy for one of the bottlenecks of a verdict, by the advice of its leading rule.
    fn of_bottleneck(verdict: &Verdict, listed: &VerdictBottleneck) -> Remedy {
        let leading = listed.positions.first().and_then(|position| verdict.findings.get(*position));
        let advises = |ids: &[&str]| leading.is_some_and(|f| f.advice.iter().any(|id| ids.contains(&id.as_str())));
        match listed.bottleneck {
            _ if !verdict.is_of_storage(listed) => Remedy::Other,
            Bottleneck::Channel | Bottleneck::Controller => Remedy::WiderWay,
            Bottleneck::Throttle => Remedy::MoreDisks,
            _ if advises(MORE_DISKS) => Remedy::MoreDisks,
            _ if advises(FASTER_DISKS) => Remedy::FasterDisks,
            _ => Remedy::Repair,
        }
    }

    /// True where it is about storage.
    fn is_of_storage(self) -> bool {
        matches!(self, Remedy::MoreDisks | Remedy::FasterDisks | Remedy::WiderWay | Remedy::Repair)
    }
}

/// Remedies for all that a verdict blames, the leading one first; one entry if it blames nothing.
fn remedies_of(verdict: &Verdict) -> Vec<Remedy> {
    let remedies: Vec<Remedy> = verdict.bottlenecks.iter().map(|b| Remedy::of_bottleneck(verdict, b)).collect();
    if remedies.is_empty() { vec![Remedy::Unproven] } else { remedies }
}

/// Draws what the verdict means, before any disk is offered; empty where there is nothing to say.
pub fn draw_verdict(verdict: &Verdict, summary: &LoadSummary, style: &Style) -> String {
    let (title, lines) = verdict_lines(verdict, summary);
    let warns = !matches!(remedies_of(verdict).first(), Some(Remedy::MoreDisks | Remedy::Unproven) | None);
    let ink = if warns { Ink::Bad } else { Ink::Bold };
    let mut out = wrap_painted(ink, &title, style);
    for line in lines {
        out += &wrap_indented(&line, 2, style);
    }
    out + "\n"
}

/// The title, and the lines below it.
fn verdict_lines(verdict: &Verdict, summary: &LoadSummary) -> (String, Vec<String>) {
    let remedies = remedies_of(verdict);
    let leading = remedies.first().copied().unwrap_or(Remedy::Unproven);
    let (has_storage, has_others) =
        (remedies.iter().any(|remedy| remedy.is_of_storage()), remedies.contains(&Remedy::Other));
    let is_unknown = verdict.bottleneck == Bottleneck::Unknown;
    let is_memory_open = leaves_memory_open(verdict);
    let mut lines = vec![verdict.sentence.clone()];
    let title = match leading {
        Remedy::Other if remedies.contains(&Remedy::MoreDisks) => {
            "Before you buy: disks are only a part of the trouble."
        }
        Remedy::Other => "Before you buy: disks are not what holds this machine back.",
        Remedy::WiderWay => "Before you buy: the way to the disks is full, and more disks on it would gain nothing.",
        Remedy::FasterDisks => "Before you buy: single requests wait for a disk, and more disks do not shorten that.",
        Remedy::Repair => "Before you buy: the log blames a disk, but does not show that there are too few.",
        Remedy::MoreDisks if has_others => "The log agrees that disks are short, but not they alone.",
        Remedy::MoreDisks if is_memory_open => "The log suggests that disks are short, and does not rule out memory.",
        Remedy::MoreDisks if verdict.confidence < MIN_AGREED_CONFIDENCE => "The log suggests that disks are short.",
        Remedy::MoreDisks => "The log agrees that disks are short.",
        Remedy::Unproven if is_unknown => {
            "The log does not show what holds this machine back, so nothing proves that disks would help."
        }
        Remedy::Unproven => "No bottleneck in this log: the plan is for this load, not against a shortage.",
    };
    lines.extend(remedy_line(leading).map(str::to_owned));
    if has_others && !has_storage {
        lines.push("The designs below serve the same load. `diskwright why` shows what to do first.".into());
    }
    if is_unknown {
        lines.extend(verdict.missing.instructions.first().map(|how| format!("What would show it: {how}")));
    }
    if leading.is_of_storage() && is_memory_open {
        lines.push(memory_line(verdict));
    }
    lines.extend(device_line(verdict, summary));
    lines.extend(paging_line(summary).or_else(|| page_reads_line(verdict)));
    (title.into(), lines)
}

/// What helps instead of more disks, and what the designs are good for then.
fn remedy_line(leading: Remedy) -> Option<&'static str> {
    match leading {
        Remedy::WiderWay => Some(
            "A faster channel or controller, or a second one, helps. The designs below serve the same load; their way \
             is judged only with `--controllers`.",
        ),
        Remedy::FasterDisks => Some(
            "A disk of lower latency, a cache, or more requests at once help. Of the designs below, compare the mean \
             response, not the number of disks.",
        ),
        Remedy::Repair => Some("The designs below serve the same load. `diskwright why` shows what to see to first."),
        _ => None,
    }
}

/// True where memory is neither blamed nor ruled out: paging looks like a slow disk.
fn leaves_memory_open(verdict: &Verdict) -> bool {
    let is_blamed = verdict.bottlenecks.iter().any(|listed| listed.bottleneck == Bottleneck::Memory);
    !is_blamed && !verdict.ruled_out.iter().any(|exclusion| exclusion.bottleneck == Bottleneck::Memory)
}

/// What shows whether memory is short, on the system that the log is of.
fn memory_line(verdict: &Verdict) -> String {
    let command = match verdict.missing.source {
        LogOrigin::Perfmon => r#"typeperf -si 1 -sc 30 "\Memory\Available Bytes" "\Memory\Page Reads/sec""#,
        _ => "vmstat 1 30",
    };
    format!("Paging looks like a slow disk. Before you buy, look whether memory is short: `{command}`")
}

/// The way to a plan for the blamed disk alone, where the load is that of several.
fn device_line(verdict: &Verdict, summary: &LoadSummary) -> Option<String> {
    let is_disk = |listed: &&VerdictBottleneck| listed.bottleneck == Bottleneck::Disk;
    let blamed = &verdict.bottlenecks.iter().find(is_disk)?.instance;
    let count = summary.devices.len();
    let is_one_of_them = count > 1 && summary.devices.iter().any(|device| device.name == *blamed);
    let option = quote_for_shell(blamed);
    is_one_of_them.then(|| {
        format!("The plan is for all {count} devices together; `--device {option}` plans for what is blamed alone.")
    })
}

/// How much of the load is paging, and what is left of it with enough memory.
fn paging_line(summary: &LoadSummary) -> Option<String> {
    let swap = summary.swap.as_ref().filter(|swap| swap.share >= MIN_PAGING_SHARE)?;
    let left = format_value(summary.requests_per_s.mean, "per_s");
    Some(format!(
        "{} of the disks' requests were paging, {}. The plan leaves them out: with enough memory, {left} remain on \
         average.",
        format_value(swap.share, "fraction"),
        format_value(swap.requests_per_s, "per_s"),
    ))
}

/// How much of the disks' work was page reads and writes, by Windows's counters. They include mapped files, so the plan
/// keeps them.
fn page_reads_line(verdict: &Verdict) -> Option<String> {
    let values = verdict.findings.iter().flat_map(|finding| {
        let evidence = finding.evidence.iter().filter_map(|e| Some((e.counter.as_str(), e.value?)));
        std::iter::once((finding.counter.as_str(), finding.value)).chain(evidence)
    });
    let mut shares = values.filter(|(counter, _)| counter.ends_with(".page_share")).map(|(_, share)| share);
    let share = shares.find(|share| *share >= MIN_PAGING_SHARE)?;
    Some(format!(
        "{} of the disk's transfers were page reads and writes. The plan includes them; with enough memory, most of \
         them would not be there.",
        format_value(share.min(1.0), "fraction"),
    ))
}
