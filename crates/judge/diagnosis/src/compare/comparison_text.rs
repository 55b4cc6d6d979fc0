//! Sentences of a comparison.

use diskwright_base::units::{format_significant, format_value};

use super::answer_quantities::{
    ChangeDirection, MIN_CHANGE, QuantityChange, READ_SHARE_QUOTIENT, REQUESTS_COUNTER, SIZE_COUNTER,
};
use super::database_change::databases_sentence;
use super::device_change::DeviceChange;
use super::equal_load::RequestChanges;
use super::kill_change::{kills_sentence, undecided_kills_sentence};
use super::limit_change::exceeded_sentence;
use super::program_change::{changes_text, outcome_of_programs, programs_sentence};
use super::{ChangeOutcome, WindowComparison};
use crate::answer::verdict::VerdictBottleneck;
use crate::answer::{Verdict, subject_phrase};
use crate::rules::Bottleneck;

/// What decided the outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// Requests of disks, or the counters that a verdict blames.
    Counters,
    /// Who got more and who got less.
    Programs,
    /// Transactions of database servers.
    Databases,
    /// Programs that were killed.
    Kills,
    /// A limit that is gone.
    Limit,
}

/// What a sentence is about: a disk, or the machine.
pub(super) struct ChangeFacts<'a> {
    pub outcome: ChangeOutcome,
    /// The disk; `None` for all of them.
    pub device: Option<&'a str>,
    pub requests: &'a RequestChanges,
    pub goals: &'a [QuantityChange],
}

impl<'a> ChangeFacts<'a> {
    pub fn of_device(device: &'a DeviceChange) -> ChangeFacts<'a> {
        ChangeFacts { outcome: device.outcome, device: Some(&device.instance), requests: &device.requests, goals: &[] }
    }

    fn of_machine(comparison: &'a WindowComparison) -> ChangeFacts<'a> {
        ChangeFacts {
            outcome: comparison.outcome,
            device: None,
            requests: &comparison.requests,
            goals: &comparison.goals,
        }
    }

    fn load_direction(&self) -> ChangeDirection {
        direction_of_change(self.requests.load.as_ref())
    }

    fn response_direction(&self) -> ChangeDirection {
        direction_of_change(self.requests.response.as_ref())
    }

    fn load_changes(&self) -> Vec<String> {
        let changed = self.requests.load.iter().chain(&self.requests.mix).filter(|m| has_changed(m));
        changed.map(|m| self.change_text(m)).collect()
    }

    fn change_text(&self, m: &QuantityChange) -> String {
        change_text(m, self.device)
    }
}

/// The answer: differences of the load, the effect of the change, the response time at equal load, the numbers, the
/// other disks, the present bottleneck. With `by_device`, it is about the first disk.
pub(super) fn comparison_sentence(comparison: &WindowComparison, by_device: bool, decided_by: DecidedBy) -> String {
    let first = comparison.devices.first().filter(|_| by_device);
    let mut facts = first.map_or_else(|| ChangeFacts::of_machine(comparison), ChangeFacts::of_device);
    facts.outcome = comparison.outcome;
    // the only disk needs no name
    facts.device = facts.device.filter(|_| comparison.devices.len() > 1);
    let outcome = match first {
        _ if decided_by == DecidedBy::Databases => databases_sentence(&comparison.databases, comparison.outcome),
        _ if decided_by == DecidedBy::Kills => kills_sentence(&comparison.kills, comparison.outcome),
        _ if decided_by == DecidedBy::Limit => {
            comparison.exceeded_limit.as_ref().map(exceeded_sentence).unwrap_or_default()
        }
        _ if decided_by == DecidedBy::Programs => programs_sentence(&comparison.programs, comparison.outcome),
        Some(_) if is_disputed(comparison) => disputed_sentence(comparison),
        _ => outcome_sentence(&facts, Some((&comparison.before, &comparison.after))),
    };
    let mut parts = vec![change_sentences(&facts, outcome)];
    if decided_by != DecidedBy::Programs && outcome_of_programs(&comparison.programs) == Some(comparison.outcome) {
        parts.push(format!("Of the programs, {}.", changes_text(&comparison.programs, comparison.outcome)));
    }
    if decided_by != DecidedBy::Kills {
        parts.extend(undecided_kills_sentence(&comparison.kills));
    }
    let is_decided = matches!(comparison.outcome, ChangeOutcome::Helped | ChangeOutcome::Worse);
    if let Some(missing) = comparison.programs_missing.as_ref().filter(|_| !is_decided) {
        parts.push(format!("{}.", missing.replacen("too", "Too", 1)));
    }
    if let Some(first) = first.filter(|_| !is_disputed(comparison)) {
        parts.extend(devices_sentence(first, &comparison.devices[1..]));
    }
    if comparison.outcome == ChangeOutcome::Unchanged && comparison.before.bottleneck != comparison.after.bottleneck {
        let why = "although no measured value changed beyond noise: the machine is close to a limit of the rules";
        parts.push(format!("The verdicts on the two windows differ, {why}."));
    }
    parts.push(current_bottleneck_sentence(&comparison.before, &comparison.after));
    parts.join(" ")
}

/// The same about one disk, without verdicts.
pub(super) fn device_sentence(facts: &ChangeFacts<'_>) -> String {
    change_sentences(facts, outcome_sentence(facts, None))
}

/// Differences of the load, the outcome, the response time at equal load, the numbers.
fn change_sentences(facts: &ChangeFacts<'_>, outcome: String) -> String {
    let mut parts = Vec::new();
    let load_changes = facts.load_changes();
    let begins_with_load =
        !load_changes.is_empty() && !matches!(facts.outcome, ChangeOutcome::LowerLoad | ChangeOutcome::HigherLoad);
    if begins_with_load {
        parts.push(format!("The load differs: {}.", load_changes.join("; ")));
    }
    parts.push(outcome);
    parts.extend(equal_load_sentence(facts, !load_changes.is_empty()));
    let is_load_told = begins_with_load && facts.requests.load.as_ref().is_some_and(has_changed);
    parts.extend(load_and_response_text(facts, facts.requests.load.as_ref().filter(|_| !is_load_told)));
    parts.join(" ")
}

/// True where no disk is blamed, and the disks changed in opposite directions.
fn is_disputed(comparison: &WindowComparison) -> bool {
    let outcomes = comparison.devices.iter().map(|device| device.outcome);
    comparison.outcome == ChangeOutcome::Unclear
        && comparison.devices.first().is_some_and(DeviceChange::has_changed)
        && outcomes.filter(|outcome| *outcome != ChangeOutcome::Unclear).count() > 1
}

fn disputed_sentence(comparison: &WindowComparison) -> String {
    let named = |outcome: ChangeOutcome| {
        let devices = comparison.devices.iter().filter(|device| device.outcome == outcome);
        name_list(devices.map(|device| device.instance.as_str()))
    };
    format!(
        "The disks changed in opposite directions, and no verdict blames one: requests take less time on {}, and \
         longer on {}.",
        named(ChangeOutcome::Helped),
        named(ChangeOutcome::Worse)
    )
}

/// Largest number of disks that a sentence names.
const MAX_NAMED_DEVICES: usize = 3;

/// `sda, sdb and 2 more`.
fn name_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(MAX_NAMED_DEVICES);
    match names.as_slice() {
        [named @ .., last] if more == 0 && !named.is_empty() => format!("{} and {last}", named.join(", ")),
        _ if more > 0 => format!("{} and {more} more", names[..MAX_NAMED_DEVICES].join(", ")),
        _ => names.join(", "),
    }
}

/// Which disk the answer is about and why, and what became of the others.
fn devices_sentence(first: &DeviceChange, others: &[DeviceChange]) -> Option<String> {
    if others.is_empty() {
        return None;
    }
    let why = match first.outcome {
        _ if first.blamed => "which a verdict blames",
        ChangeOutcome::Helped | ChangeOutcome::Worse => "which changed most",
        _ => "the busiest disk",
    };
    let groups = [
        (ChangeOutcome::Worse, "got worse"),
        (ChangeOutcome::Helped, "got better"),
        (ChangeOutcome::HigherLoad, "had a higher load"),
        (ChangeOutcome::LowerLoad, "had a lower load"),
        (ChangeOutcome::DifferentLoad, "had different requests"),
        (ChangeOutcome::Unchanged, "did not change beyond noise"),
        (ChangeOutcome::Unclear, "cannot be compared"),
    ];
    let text = |(outcome, words): &(ChangeOutcome, &str)| {
        let names: Vec<&str> =
            others.iter().filter(|d| d.outcome == *outcome).map(|device| device.instance.as_str()).collect();
        (!names.is_empty()).then(|| format!("{} {words}", name_list(names.into_iter())))
    };
    let parts: Vec<String> = groups.iter().filter_map(text).collect();
    Some(format!("Judged by {}, {why}; other disks: {}.", first.instance, parts.join("; ")))
}

fn has_changed(m: &QuantityChange) -> bool {
    matches!(m.change, ChangeDirection::Up | ChangeDirection::Down)
}

fn direction_of_change(quantity: Option<&QuantityChange>) -> ChangeDirection {
    quantity.map_or(ChangeDirection::Unknown, |m| m.change)
}

/// The effect of the change; with the verdicts on the windows, also whether what the first blames is gone.
fn outcome_sentence(facts: &ChangeFacts<'_>, verdicts: Option<(&Verdict, &Verdict)>) -> String {
    let relieved = verdicts.filter(|(before, after)| is_relieved(before, after)).map(|(before, _)| before);
    let by_goals = !facts.goals.is_empty();
    let (load, response) = (facts.load_direction(), facts.response_direction());
    let words = match (facts.outcome, relieved) {
        (ChangeOutcome::Helped, Some(before)) => {
            return format!("The change helped: {} no longer a bottleneck.", subject_phrase(before));
        }
        (ChangeOutcome::Helped, _) if by_goals => return format!("The change helped: {}.", blamed_changes_text(facts)),
        (ChangeOutcome::Helped, _) if load == ChangeDirection::Up && response == ChangeDirection::Down => {
            "The change helped: the machine serves more, and each request takes less time."
        }
        (ChangeOutcome::Helped, _) => "The change helped: each request takes less time at the same load.",
        (ChangeOutcome::Worse, _) if by_goals => return format!("It got worse: {}.", blamed_changes_text(facts)),
        (ChangeOutcome::Worse, _) if load == ChangeDirection::Down && response == ChangeDirection::Up => {
            "It got worse: the machine serves less, and each request takes longer."
        }
        (ChangeOutcome::Worse, _) => "It got worse: each request takes longer at the same load.",
        (ChangeOutcome::LowerLoad, _) => {
            "The load was lower in the second window, so nothing shows that the change itself helped."
        }
        (ChangeOutcome::HigherLoad, _) => return higher_load_sentence(facts, response),
        (ChangeOutcome::DifferentLoad, _) => {
            "These windows do not show whether the change helped: they had different requests."
        }
        (ChangeOutcome::Unchanged, _) => return unchanged_sentence(facts),
        (ChangeOutcome::Unclear, _) => "These windows do not show whether the change helped.",
    };
    match facts.device {
        Some(_) => words.replace("the machine serves", "it serves"),
        None => words.to_owned(),
    }
}

/// True where the first bottleneck of the first window is none of the second. Of disks, each is one of its own.
fn is_relieved(before: &Verdict, after: &Verdict) -> bool {
    let is_same = |listed: &VerdictBottleneck| {
        let is_other_disk = before.bottleneck == Bottleneck::Disk && listed.instance != before.instance;
        listed.bottleneck == before.bottleneck && !is_other_disk
    };
    let is_known = after.bottleneck != Bottleneck::Unknown;
    before.bottleneck.blames() && is_known && !after.bottlenecks.iter().any(is_same)
}

/// Sentence on a higher load; it mentions response times only where they were measured.
fn higher_load_sentence(facts: &ChangeFacts<'_>, response: ChangeDirection) -> String {
    let (goals, higher) = (blamed_changes_text(facts), "The load was higher in the second window");
    match response {
        _ if !goals.is_empty() => format!("{higher}. That alone may explain this: {goals}."),
        ChangeDirection::Up => format!("{higher}. That alone may explain why each request takes longer."),
        ChangeDirection::Same | ChangeDirection::Down => format!("{higher}, and requests were no slower."),
        ChangeDirection::Unknown => format!("{higher}, so nothing shows what the change itself did."),
    }
}

/// Sentence on unchanged windows; it mentions the time per request only where that was judged.
fn unchanged_sentence(facts: &ChangeFacts<'_>) -> String {
    let by = if facts.requests.load.iter().chain(&facts.requests.response).chain(facts.goals).any(is_small_change) {
        "by 5 %"
    } else {
        "beyond noise"
    };
    match (facts.goals.is_empty(), &facts.requests.load, &facts.requests.response) {
        (false, None, _) => format!("What the verdict blames does not differ {by}."),
        (false, Some(_), _) => format!("Neither the load nor what the verdict blames differs {by}."),
        (true, _, None) => format!("The load does not differ {by}. Nothing shows how long a request takes."),
        (true, _, Some(_)) => format!("Neither the load nor the time per request differs {by}."),
    }
}

/// True for a difference that is significant but less than a twentieth.
fn is_small_change(m: &QuantityChange) -> bool {
    let is_near = (m.after - m.before).abs() < MIN_CHANGE * m.before.abs().max(m.after.abs());
    m.change == ChangeDirection::Same && is_near && excludes_no_difference(m.ratio_low, m.ratio_high)
}

/// True where the interval of a ratio excludes 1.
fn excludes_no_difference(low: Option<f64>, high: Option<f64>) -> bool {
    low.is_some_and(|low| low > 1.0) || high.is_some_and(|high| high < 1.0)
}

/// Changes of the blamed counters, in numbers.
fn blamed_changes_text(facts: &ChangeFacts<'_>) -> String {
    let changes: Vec<String> = facts.goals.iter().filter(|m| has_changed(m)).map(|m| facts.change_text(m)).collect();
    changes.join("; ")
}

/// Sentence on the response time at equal load, where it adds something.
fn equal_load_sentence(facts: &ChangeFacts<'_>, has_load_changed: bool) -> Option<String> {
    if let Some(reason) = facts.requests.equal_load_missing.as_deref().filter(|_| has_load_changed) {
        return Some(format!("Service at equal load cannot be compared: {reason}."));
    }
    let equal = facts.requests.equal_load.as_ref();
    let equal = equal.filter(|e| has_load_changed || e.change != facts.response_direction())?;
    let load = format!("{} to {}", format_value(equal.load_low, ""), format_value(equal.load_high, "per_s"));
    let range = interval_text(Some(equal.ratio_low), equal.ratio_high);
    let is_near = (1.0 - equal.ratio.min(1.0 / equal.ratio)) < MIN_CHANGE;
    let words = match equal.change {
        ChangeDirection::Up => {
            format!("a request took {} longer{range}", percent_text(equal.ratio).trim_start_matches('+'))
        }
        ChangeDirection::Down => {
            format!("a request took {} less time{range}", percent_text(equal.ratio).trim_start_matches('-'))
        }
        _ if is_near && excludes_no_difference(Some(equal.ratio_low), equal.ratio_high) => {
            format!("the time per request differed by less than 5 %{range}")
        }
        _ => format!("a request took equally long within noise{range}"),
    };
    Some(format!("At equal load ({load} requests) {words}."))
}

/// Load and response time in numbers, as far as they are known and not mentioned yet.
fn load_and_response_text(facts: &ChangeFacts<'_>, load: Option<&QuantityChange>) -> Option<String> {
    let both: Vec<String> = load.into_iter().chain(&facts.requests.response).map(|m| facts.change_text(m)).collect();
    let mut text = both.join("; ") + ".";
    let upper = text.get(..1)?.to_uppercase();
    text.replace_range(..1, &upper);
    (!both.is_empty()).then_some(text)
}

/// `requests of the disks: 120/s before and 180/s after, +50 % (between +40 % and +61 %)`.
fn change_text(m: &QuantityChange, device: Option<&str>) -> String {
    let quantity = match m.counter.as_str() {
        REQUESTS_COUNTER => &format!("requests of {}:", device.unwrap_or("the disks")),
        SIZE_COUNTER => "size of a request:",
        READ_SHARE_QUOTIENT => "share of reads:",
        super::answer_quantities::RESPONSE_COUNTER => "a request took",
        counter if counter.starts_with("network.") => "network traffic:",
        counter => &format!("{counter}:"),
    };
    let range = interval_text(m.ratio_low, m.ratio_high);
    let change = match m.change {
        ChangeDirection::Same if is_small_change(m) => format!("a difference of less than 5 %{range}"),
        ChangeDirection::Same => format!("no difference beyond noise{range}"),
        ChangeDirection::Unknown => "too few or too uneven ticks to distinguish change from noise".to_owned(),
        _ if m.before == 0.0 => "more than noise".to_owned(),
        _ => format!("{}{range}", percent_text(m.after / m.before)),
    };
    format!(
        "{quantity} {} before and {} after, {change}",
        format_value(m.before, &m.unit),
        format_value(m.after, &m.unit)
    )
}

/// `+50 %`, `-3 %`, `12 times`.
fn percent_text(ratio: f64) -> String {
    if ratio >= 10.0 {
        return format!("{} times", format_significant(ratio));
    }
    let percent = (ratio - 1.0) * 100.0;
    // would be shown as -0
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    format!("{}{} %", if percent > 0.0 { "+" } else { "" }, format_significant(percent))
}

/// ` (between -12 % and +15 %)`; empty where it is unknown or has no width.
fn interval_text(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) if high > low => format!(" (between {} and {})", percent_text(low), percent_text(high)),
        (Some(low), None) => format!(" (at least {})", percent_text(low)),
        _ => String::new(),
    }
}

/// Sentence on the present bottleneck.
fn current_bottleneck_sentence(before: &Verdict, after: &Verdict) -> String {
    let same = before.bottleneck == after.bottleneck && before.instance == after.instance;
    let capital = |text: String| text[..1].to_uppercase() + &text[1..];
    match (before.bottleneck, after.bottleneck) {
        (Bottleneck::None, Bottleneck::None) => "Neither window has a bottleneck.".into(),
        (Bottleneck::Unknown, Bottleneck::None) => "The second window has no bottleneck.".into(),
        (_, Bottleneck::None) => "No bottleneck remains.".into(),
        // an undecided finding: requests queue, and the log does not show whether tasks wait for them
        (_, Bottleneck::Unknown) if after.findings.iter().any(|f| f.bottleneck == Bottleneck::Unknown) => {
            "The log does not show which bottleneck the second window has.".into()
        }
        (_, Bottleneck::Unknown) => "The second window has too little data to name a bottleneck.".into(),
        (_, _) if same => format!("{} still the bottleneck.", capital(subject_phrase(after))),
        _ => format!("{} now the bottleneck.", capital(subject_phrase(after))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CounterWindow;
    use super::*;
    use crate::run::{Judge, JudgeOptions};

    fn quantity(counter: &str, (before, after): (f64, f64), change: ChangeDirection) -> QuantityChange {
        let (counter, unit) = (counter.to_owned(), "per_s".to_owned());
        let ratio = after / before;
        let (ratio_low, ratio_high) = (Some(ratio - 0.01), Some(ratio + 0.01));
        QuantityChange { counter, unit, before, after, change, ratio_low, ratio_high }
    }

    /// A comparison of nothing with these quantities.
    fn comparison(outcome: ChangeOutcome, load: QuantityChange, goals: Vec<QuantityChange>) -> WindowComparison {
        let pack = crate::rules::builtin_pack("default").unwrap().unwrap();
        let verdict = Judge::new(vec![pack], JudgeOptions::default()).finish().remove(0);
        let window = CounterWindow::new((0, 1));
        let nothing = super::super::compare_windows(&window, &window, verdict.clone(), verdict);
        let requests = RequestChanges { load: Some(load), ..RequestChanges::default() };
        WindowComparison { outcome, requests, goals, ..nothing }
    }

    fn outcome_sentence_of(comparison: &WindowComparison) -> String {
        let facts = ChangeFacts::of_machine(comparison);
        outcome_sentence(&facts, Some((&comparison.before, &comparison.after)))
    }

    #[test]
    fn says_nothing_about_requests_that_were_not_judged() {
        let more = quantity("network.bytes_per_s", (100.0, 150.0), ChangeDirection::Up);
        let busier = quantity("processor.busy", (0.5, 0.9), ChangeDirection::Up);
        let sentence = outcome_sentence_of(&comparison(ChangeOutcome::HigherLoad, more.clone(), vec![busier.clone()]));
        assert!(
            sentence.starts_with("The load was higher in the second window. That alone may explain this: "),
            "{sentence}"
        );
        assert!(sentence.contains("processor.busy") && !sentence.contains("slower"), "{sentence}");
        let sentence = outcome_sentence_of(&comparison(ChangeOutcome::HigherLoad, more, Vec::new()));
        assert!(!sentence.contains("slower"), "{sentence}");
        // requests that take longer beside processors that were as busy before
        let (same, busy) = ((100.0, 100.0), (0.9, 0.9));
        let load = quantity("network.bytes_per_s", same, ChangeDirection::Same);
        let goals = vec![quantity("processor.busy", busy, ChangeDirection::Same)];
        let response =
            Some(quantity(super::super::answer_quantities::RESPONSE_COUNTER, (0.01, 0.02), ChangeDirection::Up));
        let mut both = comparison(ChangeOutcome::Unchanged, load, goals);
        both.requests.response = response;
        assert_eq!(outcome_sentence_of(&both), "Neither the load nor what the verdict blames differs beyond noise.");
    }

    #[test]
    fn a_small_difference_beyond_noise_is_no_noise() {
        let load = quantity(REQUESTS_COUNTER, (100.0, 103.0), ChangeDirection::Same);
        let text = change_text(&load, None);
        assert!(text.contains("a difference of less than 5 % (between +2 % and +4 %)"), "{text}");
        let response =
            Some(quantity(super::super::answer_quantities::RESPONSE_COUNTER, (0.01, 0.01), ChangeDirection::Same));
        let mut both = comparison(ChangeOutcome::Unchanged, load, Vec::new());
        both.requests.response = response;
        assert_eq!(outcome_sentence_of(&both), "Neither the load nor the time per request differs by 5 %.");
        let text = change_text(&quantity(REQUESTS_COUNTER, (100.0, 100.0), ChangeDirection::Same), None);
        assert!(text.contains("no difference beyond noise"), "{text}");
    }
}
