//! Sentences of a comparison.

use diskwright_base::units::{format_significant, format_value};

use super::answer_quantities::{
    ChangeDirection, MIN_CHANGE, QuantityChange, READ_SHARE_QUOTIENT, REQUESTS_COUNTER, SIZE_COUNTER,
};
use super::{ChangeOutcome, WindowComparison};
use crate::answer::Verdict;
use crate::rules::Bottleneck;

/// The answer: differences of the load, the effect of the change, the response time at equal load, the numbers, the
/// present bottleneck.
pub(super) fn comparison_sentence(comparison: &WindowComparison) -> String {
    let mut parts = Vec::new();
    let load_changes: Vec<String> =
        comparison.load.iter().chain(&comparison.mix).filter(|m| has_changed(m)).map(change_text).collect();
    let begins_with_load =
        !load_changes.is_empty() && !matches!(comparison.outcome, ChangeOutcome::LowerLoad | ChangeOutcome::HigherLoad);
    if begins_with_load {
        parts.push(format!("The load differs: {}.", load_changes.join("; ")));
    }
    parts.push(outcome_sentence(comparison));
    parts.extend(equal_load_sentence(comparison, !load_changes.is_empty()));
    let is_load_told = begins_with_load && comparison.load.as_ref().is_some_and(has_changed);
    parts.extend(load_and_response_text(
        comparison.load.as_ref().filter(|_| !is_load_told),
        comparison.response.as_ref(),
    ));
    if comparison.outcome == ChangeOutcome::Unchanged && comparison.before.bottleneck != comparison.after.bottleneck {
        let why = "although no measured value changed beyond noise: the machine is close to a limit of the rules";
        parts.push(format!("The verdicts on the two windows differ, {why}."));
    }
    parts.push(current_bottleneck_sentence(&comparison.before, &comparison.after));
    parts.join(" ")
}

fn has_changed(m: &QuantityChange) -> bool {
    matches!(m.change, ChangeDirection::Up | ChangeDirection::Down)
}

fn direction_of_change(quantity: Option<&QuantityChange>) -> ChangeDirection {
    quantity.map_or(ChangeDirection::Unknown, |m| m.change)
}

fn outcome_sentence(comparison: &WindowComparison) -> String {
    let (before, after) = (&comparison.before, &comparison.after);
    let known = after.bottleneck != Bottleneck::Unknown;
    let gone = before.bottleneck.blames() && before.bottleneck != after.bottleneck && known;
    let by_goals = !comparison.goals.is_empty();
    let (load, response) =
        (direction_of_change(comparison.load.as_ref()), direction_of_change(comparison.response.as_ref()));
    let words = match comparison.outcome {
        ChangeOutcome::Helped if gone => {
            return format!("The change helped: {} no longer a bottleneck.", subject_phrase(before));
        }
        ChangeOutcome::Helped if by_goals => return format!("The change helped: {}.", blamed_changes_text(comparison)),
        ChangeOutcome::Helped if load == ChangeDirection::Up && response == ChangeDirection::Down => {
            "The change helped: the machine serves more, and each request takes less time."
        }
        ChangeOutcome::Helped => "The change helped: each request takes less time at the same load.",
        ChangeOutcome::Worse if by_goals => return format!("It got worse: {}.", blamed_changes_text(comparison)),
        ChangeOutcome::Worse if load == ChangeDirection::Down && response == ChangeDirection::Up => {
            "It got worse: the machine serves less, and each request takes longer."
        }
        ChangeOutcome::Worse => "It got worse: each request takes longer at the same load.",
        ChangeOutcome::LowerLoad => {
            "The load was lower in the second window, so nothing shows that the change itself helped."
        }
        ChangeOutcome::HigherLoad => return higher_load_sentence(comparison, response),
        ChangeOutcome::DifferentLoad => {
            "These windows do not show whether the change helped: they had different requests."
        }
        ChangeOutcome::Unchanged => return unchanged_sentence(comparison),
        ChangeOutcome::Unclear => "These windows do not show whether the change helped.",
    };
    words.to_owned()
}

/// Sentence on a higher load; it mentions response times only where they were measured.
fn higher_load_sentence(comparison: &WindowComparison, response: ChangeDirection) -> String {
    let (goals, higher) = (blamed_changes_text(comparison), "The load was higher in the second window");
    match response {
        _ if !goals.is_empty() => format!("{higher}. That alone may explain this: {goals}."),
        ChangeDirection::Up => format!("{higher}. That alone may explain why each request takes longer."),
        ChangeDirection::Same | ChangeDirection::Down => format!("{higher}, and requests were no slower."),
        ChangeDirection::Unknown => format!("{higher}, so nothing shows what the change itself did."),
    }
}

/// Sentence on unchanged windows; it mentions the time per request only where that was judged.
fn unchanged_sentence(comparison: &WindowComparison) -> String {
    let by = if comparison.load.iter().chain(&comparison.response).chain(&comparison.goals).any(is_small_change) {
        "by 5 %"
    } else {
        "beyond noise"
    };
    match (comparison.goals.is_empty(), &comparison.load, &comparison.response) {
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
fn blamed_changes_text(comparison: &WindowComparison) -> String {
    let changes: Vec<String> = comparison.goals.iter().filter(|m| has_changed(m)).map(change_text).collect();
    changes.join("; ")
}

/// Sentence on the response time at equal load, where it adds something.
fn equal_load_sentence(comparison: &WindowComparison, has_load_changed: bool) -> Option<String> {
    if let Some(reason) = comparison.equal_load_missing.as_ref().filter(|_| has_load_changed) {
        return Some(format!("Service at equal load cannot be compared: {reason}."));
    }
    let equal = comparison
        .equal_load
        .as_ref()
        .filter(|e| has_load_changed || e.change != direction_of_change(comparison.response.as_ref()))?;
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
fn load_and_response_text(load: Option<&QuantityChange>, response: Option<&QuantityChange>) -> Option<String> {
    let both: Vec<String> = load.into_iter().chain(response).map(change_text).collect();
    let mut text = both.join("; ") + ".";
    let upper = text.get(..1)?.to_uppercase();
    text.replace_range(..1, &upper);
    (!both.is_empty()).then_some(text)
}

/// `requests of the disks: 120/s before and 180/s after, +50 % (between +40 % and +61 %)`.
fn change_text(m: &QuantityChange) -> String {
    let quantity = match m.counter.as_str() {
        REQUESTS_COUNTER => "requests of the disks:",
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

/// `the disk sda is`, `memory is`.
fn subject_phrase(verdict: &Verdict) -> String {
    let with_instance = |noun: &str| match verdict.instance.as_str() {
        "" => noun.to_owned(),
        instance => format!("{noun} ({instance})"),
    };
    match verdict.bottleneck {
        Bottleneck::Disk => format!("{} is", with_instance("the disk")),
        Bottleneck::Memory => format!("{} is", with_instance("memory")),
        Bottleneck::Cpu => "the processors are".into(),
        Bottleneck::Interrupts => "interrupts and copying are".into(),
        Bottleneck::Network => format!("{} is", with_instance("the network")),
        Bottleneck::Application => "the application's I/O pattern is".into(),
        Bottleneck::Throttle => format!("{} is", with_instance("a configured limit")),
        Bottleneck::Channel => format!("{} is", with_instance("the channel")),
        Bottleneck::Controller => format!("{} is", with_instance("the controller")),
        Bottleneck::None => "nothing is".into(),
        Bottleneck::Unknown => "an unknown bottleneck is".into(),
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
        WindowComparison { outcome, load: Some(load), goals, ..nothing }
    }

    #[test]
    fn says_nothing_about_requests_that_were_not_judged() {
        let more = quantity("network.bytes_per_s", (100.0, 150.0), ChangeDirection::Up);
        let busier = quantity("processor.busy", (0.5, 0.9), ChangeDirection::Up);
        let sentence = outcome_sentence(&comparison(ChangeOutcome::HigherLoad, more.clone(), vec![busier.clone()]));
        assert!(
            sentence.starts_with("The load was higher in the second window. That alone may explain this: "),
            "{sentence}"
        );
        assert!(sentence.contains("processor.busy") && !sentence.contains("slower"), "{sentence}");
        let sentence = outcome_sentence(&comparison(ChangeOutcome::HigherLoad, more, Vec::new()));
        assert!(!sentence.contains("slower"), "{sentence}");
        // requests that take longer beside processors that were as busy before
        let (same, busy) = ((100.0, 100.0), (0.9, 0.9));
        let load = quantity("network.bytes_per_s", same, ChangeDirection::Same);
        let goals = vec![quantity("processor.busy", busy, ChangeDirection::Same)];
        let response =
            Some(quantity(super::super::answer_quantities::RESPONSE_COUNTER, (0.01, 0.02), ChangeDirection::Up));
        let both = WindowComparison { response, ..comparison(ChangeOutcome::Unchanged, load, goals) };
        assert_eq!(outcome_sentence(&both), "Neither the load nor what the verdict blames differs beyond noise.");
    }

    #[test]
    fn a_small_difference_beyond_noise_is_no_noise() {
        let load = quantity(REQUESTS_COUNTER, (100.0, 103.0), ChangeDirection::Same);
        let text = change_text(&load);
        assert!(text.contains("a difference of less than 5 % (between +2 % and +4 %)"), "{text}");
        let response =
            Some(quantity(super::super::answer_quantities::RESPONSE_COUNTER, (0.01, 0.01), ChangeDirection::Same));
        let both = WindowComparison { response, ..comparison(ChangeOutcome::Unchanged, load, Vec::new()) };
        assert_eq!(outcome_sentence(&both), "Neither the load nor the time per request differs by 5 %.");
        let text = change_text(&quantity(REQUESTS_COUNTER, (100.0, 100.0), ChangeDirection::Same));
        assert!(text.contains("no difference beyond noise"), "{text}");
    }
}
