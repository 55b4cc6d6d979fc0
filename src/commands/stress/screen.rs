//! Output of `stress`: the list of classes, a load that was held, and the table of a verification.

use diskwright_base::units::format_value;
use diskwright_report::{Align, Ink, Style, TextTable};
use diskwright_stress::class::StressClass;
use diskwright_stress::pace::relative_error;
use diskwright_stress::run::{LoadMaximum, LoadOutcome};
use serde::Serialize;
use serde_json::{Value, json};

use super::verify::{JudgedLoad, StressTrial, TrialResult};
use crate::commands::output;

/// Maximum deviation of a load from its level, as a share of it.
const LEVEL_TOLERANCE: f64 = 0.05;
/// Share of the processors used by others above which the verdict may be about them.
const DISTURBING_SHARE: f64 = 0.3;

/// A class, and why this machine cannot run it.
type ClassRow<'a> = (&'a StressClass, Option<String>);

/// Draws the list of classes.
pub fn draw_class_list(rows: &[ClassRow<'_>]) -> String {
    let mut table = TextTable::new()
        .with_column("class", Align::Left)
        .with_text_column("loads")
        .with_text_column("why should say")
        .with_text_column("here");
    for (class, obstacle) in rows {
        let here = obstacle.clone().unwrap_or_else(|| "yes".into());
        table.add_row([class.id.clone(), class.load_description.clone(), class.expected_text.clone(), here]);
    }
    table.render(&output::wide_table_style())
}

/// Returns the list of classes as JSON.
pub fn list_json(rows: &[ClassRow<'_>]) -> Value {
    let row = |(class, obstacle): &ClassRow<'_>| {
        let mut value = json!(class);
        if let Value::Object(fields) = &mut value {
            fields.insert("obstacle".into(), json!(obstacle));
        }
        value
    };
    json!({ "schema": "diskwright.stress/1", "classes": rows.iter().map(row).collect::<Vec<_>>() })
}

/// The result of holding a single load.
pub struct HeldLoad<'a> {
    pub class: &'a StressClass,
    pub level: u32,
    pub scale: Option<LoadMaximum>,
    pub outcome: Option<LoadOutcome>,
    pub stop_reason: Option<String>,
    pub has_group: bool,
}

impl HeldLoad<'_> {
    /// Returns the result as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "schema": "diskwright.stress/1",
            "class": self.class.id,
            "asked": f64::from(self.level) / 100.0,
            "reached": self.outcome.map(|outcome| outcome.reached_share),
            "per_s": self.outcome.map(|outcome| outcome.per_s),
            "most": self.scale.map(|scale| scale.max_per_s),
            "unit": self.class.unit,
            "workers": self.scale.map(|scale| scale.workers),
            "wall_s": self.outcome.map(|outcome| outcome.wall_s),
            "cgroup": self.has_group,
            "stopped": self.stop_reason,
            "expect": self.class.expected_verdicts,
        })
    }

    /// Draws the result as text.
    pub fn draw_load(&self) -> String {
        let (style, class) = (output::stdout_style(), self.class);
        let Some(outcome) = &self.outcome else {
            return format!("{}: stopped before 100 % was measured.\n", class.id);
        };
        let requested = f64::from(self.level) / 100.0;
        let head = format!(
            "{}: requested {}, reached {}, for {}",
            class.id,
            format_percent(requested),
            format_percent(outcome.reached_share),
            format_value(outcome.wall_s, "s")
        );
        let mut out = format!("{}\n", style.paint(Ink::Bold, &head));
        if let Some(scale) = self.scale.filter(|_| class.unit != "fraction") {
            let (max_load, reached) =
                (format_value(scale.max_per_s, &class.unit), format_value(outcome.per_s, &class.unit));
            let threads = if scale.workers == 1 { "1 thread".into() } else { format!("{} threads", scale.workers) };
            out += &output::wrap_paragraph(&format!(
                "{reached} of {max_load} (100 % is {}; {threads})",
                class.full_level_description
            ));
        } else {
            out += &format!("100 % is {}.\n", class.full_level_description);
        }
        if relative_error(requested, outcome.reached_share) > LEVEL_TOLERANCE && self.stop_reason.is_none() {
            let warning = "The load is more than 5 % off its level: other programs use this part too, or its maximum \
                           has changed since it was measured.";
            out += &output::wrap_paragraph(warning);
        }
        out + &output::wrap_paragraph(&format!("`why` should say {}.", class.expected_text))
    }
}

fn format_percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Verdicts and loads of a class over all its trials.
#[derive(Serialize)]
pub struct ClassTally {
    class: String,
    right: usize,
    wrong: usize,
    undecided: usize,
    failed: usize,
    skipped: usize,
    /// Number of trials whose load was within 5 % of the requested load.
    close: usize,
}

/// Counts the trials of each class by their results.
pub fn tally_trials(trials: &[StressTrial]) -> Vec<ClassTally> {
    let mut classes: Vec<&str> = Vec::new();
    for trial in trials {
        if !classes.contains(&trial.class.id.as_str()) {
            classes.push(&trial.class.id);
        }
    }
    let tally_class = |class: &str| {
        let trials_of_class = || trials.iter().filter(|trial| trial.class.id == class);
        let count = |outcome| trials_of_class().filter(|trial| trial.outcome() == outcome).count();
        ClassTally {
            class: class.to_owned(),
            right: count(TrialOutcome::Right),
            wrong: count(TrialOutcome::Wrong),
            undecided: count(TrialOutcome::Undecided),
            failed: count(TrialOutcome::Failed),
            skipped: count(TrialOutcome::Skipped),
            close: trials_of_class().filter(|trial| trial.is_close()).count(),
        }
    };
    classes.into_iter().map(tally_class).collect()
}

/// Outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum TrialOutcome {
    Right,
    Wrong,
    /// Wrong, but others used so much that the verdict may be about them.
    Undecided,
    Skipped,
    Failed,
}

impl TrialOutcome {
    /// Returns the word for the table; what needs attention has capitals.
    fn word(self) -> &'static str {
        match self {
            TrialOutcome::Right => "right",
            TrialOutcome::Wrong => "WRONG",
            TrialOutcome::Undecided => "undecided",
            TrialOutcome::Skipped => "skipped",
            TrialOutcome::Failed => "FAILED",
        }
    }
}

impl StressTrial {
    fn judged_load(&self) -> Option<&JudgedLoad> {
        if let TrialResult::Judged(judged) = &self.result { Some(judged) } else { None }
    }

    fn requested_share(&self) -> f64 {
        f64::from(self.class.test_level) / 100.0
    }

    fn is_close(&self) -> bool {
        self.judged_load().is_some_and(|judged| {
            relative_error(self.requested_share(), judged.outcome.reached_share) <= LEVEL_TOLERANCE
        })
    }

    /// True if others used so much of the processors that the verdict may be about them.
    fn is_disturbed(&self) -> bool {
        self.others.is_some_and(|share| share > DISTURBING_SHARE)
    }

    fn outcome(&self) -> TrialOutcome {
        match &self.result {
            TrialResult::Judged(judged) if judged.wrong.is_none() => TrialOutcome::Right,
            TrialResult::Judged(_) if self.is_disturbed() => TrialOutcome::Undecided,
            TrialResult::Judged(_) => TrialOutcome::Wrong,
            TrialResult::Skipped(_) => TrialOutcome::Skipped,
            TrialResult::Failed(_) => TrialOutcome::Failed,
        }
    }

    fn trial_remark(&self) -> String {
        let mut parts: Vec<String> = match &self.result {
            TrialResult::Judged(judged) => judged.wrong.clone().into_iter().collect(),
            TrialResult::Skipped(reason) | TrialResult::Failed(reason) => vec![reason.clone()],
        };
        if self.judged_load().is_some() && !self.is_close() {
            parts.push("load off by more than 5 %".into());
        }
        let expects = |judged: &JudgedLoad| {
            json!(judged.verdict.bottleneck).as_str().is_some_and(|named| self.class.expects_verdict(named))
        };
        if let Some(judged) = self.judged_load().filter(|judged| judged.wrong.is_none() && !expects(judged)) {
            let busy = judged.busy.map_or(String::new(), |busy| format!(" ({})", format_percent(busy)));
            parts.push(format!("the processors were saturated first{busy}"));
        }
        if let Some(others) = self.others.filter(|_| self.is_disturbed()) {
            parts.push(format!("other programs used {} of the processors before", format_percent(others)));
        }
        parts.join("; ")
    }
}

/// Draws the table of trials.
pub fn draw_trials(trials: &[StressTrial]) -> String {
    let style = output::wide_table_style();
    let mut table = TextTable::new().with_column("class", Align::Left);
    for title in ["requested", "reached"] {
        table = table.with_column(title, Align::Right);
    }
    table = table
        .with_text_column("expected")
        .with_text_column("verdict")
        .with_column("confidence", Align::Right)
        .with_column("result", Align::Left);
    table = table.with_text_column("remark");
    for trial in trials {
        let judged = trial.judged_load();
        let reached = judged.map_or(String::new(), |judged| format_percent(judged.outcome.reached_share));
        let confidence = judged.map_or(String::new(), |judged| format!("{:.2}", judged.verdict.confidence));
        let verdict = judged.map_or(String::new(), verdict_text);
        let (requested, expected) =
            (format_percent(trial.requested_share()), trial.class.expected_verdicts.join(" or "));
        let row = [trial.class.id.clone(), requested, reached, expected, verdict, confidence];
        table.add_row(row.into_iter().chain([trial.outcome().word().to_owned(), trial.trial_remark()]));
    }
    format!("{}\n{}", table.render(&style), draw_tally(trials, &style))
}

fn verdict_text(judged: &JudgedLoad) -> String {
    let word = json!(judged.verdict.bottleneck);
    let rule = judged.verdict.findings.first().map_or(String::new(), |finding| format!(" ({})", finding.rule));
    format!("{}{rule}", word.as_str().unwrap_or_default())
}

fn draw_tally(trials: &[StressTrial], style: &Style) -> String {
    let tallies = tally_trials(trials);
    let sum = |field: fn(&ClassTally) -> usize| tallies.iter().map(field).sum::<usize>();
    let undecided = sum(|tally| tally.undecided);
    let judged = sum(|tally| tally.right) + sum(|tally| tally.wrong) + undecided;
    let line = format!(
        "{} of {judged} right, {undecided} undecided, {} failed, {} skipped; load within 5 % in {} of {judged}",
        sum(|tally| tally.right),
        sum(|tally| tally.failed),
        sum(|tally| tally.skipped),
        sum(|tally| tally.close),
    );
    format!("{}\n", style.paint(Ink::Bold, &line))
}

/// Returns a trial as JSON.
pub fn trial_json(trial: &StressTrial) -> Value {
    let judged = trial.judged_load();
    let reason = match &trial.result {
        TrialResult::Judged(judged) => judged.wrong.clone(),
        TrialResult::Skipped(reason) | TrialResult::Failed(reason) => Some(reason.clone()),
    };
    json!({
        "class": trial.class.id,
        "run": trial.run,
        "result": trial.outcome(),
        "asked": trial.requested_share(),
        "reached": judged.map(|judged| judged.outcome.reached_share),
        "per_s": judged.map(|judged| judged.outcome.per_s),
        "most": judged.map(|judged| judged.scale.max_per_s),
        "unit": trial.class.unit,
        "workers": judged.map(|judged| judged.scale.workers),
        "expect": trial.class.expected_verdicts,
        "verdict": judged.map(|judged| json!(judged.verdict.bottleneck)),
        "findings": judged.map(|judged| judged.verdict.findings.iter().map(|f| &f.rule).collect::<Vec<_>>()),
        "confidence": judged.map(|judged| judged.verdict.confidence),
        "reason": reason,
        "others_busy": trial.others,
        "processors_busy": judged.and_then(|judged| judged.busy),
    })
}
