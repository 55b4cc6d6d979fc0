//! Texts of the verdict: sentences, labels of quantities, reasons why a rule did not hold.

use diskwright_base::catalogue::display_unit;
use diskwright_base::counter_ids::{physical_disk, processor};
use diskwright_base::units::{format_amount, format_count, format_duration, format_significant, format_value};

use crate::answer::blame::database_blame::{DATABASE, database_subject};
use crate::answer::rule_outcome::{ConditionValue, RuleOutcome, window_value};
use crate::answer::verdict::{Culprit, Finding, seen_s};
use crate::rules::{Bottleneck, Condition, ConditionSpan, Operand, Pseudo, RuleLimit, RuleQuantity};
use crate::run::Observation;

/// A limit with its unit; a count of requests or processes without one.
fn limit_text(limit: f64, unit: &str) -> String {
    match unit {
        "requests" | "count" | "processes" => format_significant(limit),
        _ => format_value(limit, unit),
    }
}

/// Label of a condition's quantity for sentences: `average queue length`.
pub(crate) fn quantity_label(condition: &Condition) -> String {
    let quantity = &condition.quantity;
    let text = product_label(quantity).map_or_else(|| formula_label(quantity), str::to_owned);
    match condition.over {
        ConditionSpan::Tick => text,
        ConditionSpan::Change { .. } => format!("change of {text} since the start"),
        ConditionSpan::Step => format!("change of {text} from tick to tick"),
        ConditionSpan::Norm => format!("{text} relative to its own median of a day"),
        ConditionSpan::RunsOut => format!("time until {text} is used up"),
        ConditionSpan::Steadiness => format!("variation of {text}"),
        ConditionSpan::Trend => format!("trend of {text}"),
    }
}

/// Name of a product of two counters: seconds per request times requests per second are requests in flight (Little's
/// law).
fn product_label(quantity: &RuleQuantity) -> Option<&'static str> {
    let last = |id: &str| id.rsplit('.').next().unwrap_or_default().to_owned();
    let Some(Operand::Counter(times)) = &quantity.times else { return None };
    if !quantity.plus.is_empty() || !quantity.minus.is_empty() || quantity.over.is_some() {
        return None;
    }
    match (last(&quantity.counter.id).as_str(), last(&times.id).as_str()) {
        ("avg_s_per_read", "reads_per_s") => Some("reads in flight"),
        ("avg_s_per_write", "writes_per_s") => Some("writes in flight"),
        ("avg_s_per_transfer", "transfers_per_s") => Some("requests in flight"),
        ("iowait", "processors") => Some("processors that wait for I/O"),
        _ => None,
    }
}

fn formula_label(quantity: &RuleQuantity) -> String {
    let mut text = counter_label(&quantity.counter.id);
    for name in &quantity.plus {
        text += &format!(" and {}", counter_label(&name.id));
    }
    for name in &quantity.minus {
        text += &format!(" less {}", counter_label(&name.id));
    }
    match &quantity.times {
        Some(Operand::Number(number)) => text += &format!(" x {number}"),
        Some(Operand::Counter(name)) => text += &format!(" x {}", counter_label(&name.id)),
        None => {}
    }
    match &quantity.over {
        Some(Operand::Number(number)) => text += &format!(" / {number}"),
        Some(Operand::Counter(name)) if name.id.ends_with("processors") => text += " per processor",
        Some(Operand::Counter(name)) => text += &format!(" / {}", counter_label(&name.id)),
        None => {}
    }
    match quantity.per {
        Some(per) => text + " per " + per.name(),
        None => text,
    }
}

/// Label of a counter: `paging.swap_in_pages_per_s` is `swap in pages`, `pressure.io_some` is `io pressure (some)`.
fn counter_label(id: &str) -> String {
    let (object, name) = id.split_once('.').unwrap_or(("", id));
    match name {
        "ceiling.used" => return "share of its measured maximum".into(),
        "volume.used" => return "share of the most that its cloud allows".into(),
        "volume.baseline_used" => return "share of what it sustains".into(),
        "instance.used" => return "share of the most that the cloud allows of the instance".into(),
        "instance.baseline_used" => return "share of what the instance sustains".into(),
        "ceiling.latency_ratio" => return "latency relative to queue depth 1".into(),
        "busy_steadiness" => return "how the rate varies while requests queue".into(),
        "light_load_s" => return "response time at light load".into(),
        "light_load_bytes" => return "size of a request at light load".into(),
        _ => {}
    }
    let stem = name.trim_end_matches("_per_s").trim_end_matches("_fraction");
    let words = if let Some(operation) = stem.strip_prefix("avg_s_per_") {
        format!("seconds per {operation}")
    } else if let Some(operation) = stem.strip_prefix("avg_bytes_per_") {
        format!("average size per {operation}")
    } else if let Some(quantity) = stem.strip_prefix("avg_") {
        format!("average {quantity}")
    } else {
        stem.to_owned()
    };
    let label = words.replace('_', " ");
    match object {
        "pressure" => match label.split_once(' ') {
            Some((resource, share)) => format!("{resource} pressure ({share})"),
            None => label,
        },
        "processor" => format!("processor {label}"),
        "interrupts" => format!("{label} interrupts"),
        "memory" if !label.contains("memory") => format!("{label} memory"),
        _ => label,
    }
}

/// True for a counter of seconds per request.
fn is_latency(counter: &str) -> bool {
    counter.contains(".avg_s_per_")
}

/// True for a counter of requests that queue or are in flight.
fn is_queue_length(counter: &str) -> bool {
    counter.ends_with("queue_length")
}

/// Closeness of a measured value to its limit, from 0 to 1 (the condition holds).
fn limit_closeness(condition: &Condition, measured: ConditionValue) -> f64 {
    let ConditionValue { value, limit } = measured;
    if condition.compare.holds(value, limit) {
        return 1.0;
    }
    let ratio = if condition.compare.is_upper() { value / limit } else { limit / value };
    // closeness has no meaning for a limit of 0 or below
    if ratio.is_finite() { ratio.clamp(0.0, 0.999) } else { 0.0 }
}

/// A rule that nearly held at an instance, and the reason in numbers why it did not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NearMiss {
    /// From 0 to 1.
    pub closeness: f64,
    /// Quantity and instance, so that each is reported once.
    pub subject: String,
    pub text: String,
    /// True where the window was too short to know.
    pub is_unknown: bool,
}

/// True for a condition on what a log can show at all: it tells which logs a rule is for.
fn is_about_the_log(condition: &Condition) -> bool {
    let pseudo = condition.quantity.counter.pseudo;
    matches!(pseudo, Some(Pseudo::WaitingUnseen | Pseudo::PagingUnseen | Pseudo::DisksUnseen))
}

/// True where a condition says that a rule is for logs that show less.
fn is_for_other_logs(observed: &Observation, outcome: &RuleOutcome<'_>, index: usize, condition: &Condition) -> bool {
    let measured = || window_value(observed, condition, &outcome.progress.conditions[index]);
    is_about_the_log(condition) && measured().is_some_and(|m| !condition.compare.holds(m.value, m.limit))
}

/// Describes the condition that kept a rule from holding at an instance. `None` where nothing was judged.
pub(crate) fn describe_near_miss(observed: &Observation, outcome: &RuleOutcome<'_>) -> Option<NearMiss> {
    let share = outcome.share?;
    let rule = outcome.rule;
    // a queue or latency above this rule's range is judged by another rule, so it is no reason to rule the bottleneck
    // out
    let is_beyond_range = |(index, c): (usize, &Condition)| {
        let counter = &c.quantity.counter.id;
        let measures_waiting = is_queue_length(counter) || (is_latency(counter) && rule.bottleneck == Bottleneck::Disk);
        let is_range = || rule.all.iter().any(|other| other.compare.is_upper() && other.quantity == c.quantity);
        let measured = || window_value(observed, c, &outcome.progress.conditions[index]);
        let is_lower_limit = !c.compare.is_upper() && (measures_waiting || is_range());
        is_lower_limit && measured().is_some_and(|m| !c.compare.holds(m.value, m.limit))
    };
    if rule.all.iter().enumerate().any(is_beyond_range) {
        return None;
    }
    if rule.all.iter().enumerate().any(|(index, c)| is_for_other_logs(observed, outcome, index, c)) {
        return None;
    }
    let measure = |index: usize, condition: &Condition| {
        if is_about_the_log(condition) {
            return None;
        }
        let measured = window_value(observed, condition, &outcome.progress.conditions[index])?;
        // a counter of another object has no value at the rule's instance
        let is_rules_object = condition.quantity.counter.object == rule.object;
        let instance = if is_rules_object { outcome.progress.instance.as_str() } else { "" };
        Some(NearMiss {
            closeness: limit_closeness(condition, measured),
            subject: format!("{} {instance}", condition.quantity.formula_text()),
            text: measured_text(condition, measured, instance),
            is_unknown: false,
        })
    };
    let all = rule.all.iter().enumerate().filter_map(|(index, c)| measure(index, c));
    let any = rule.any.iter().enumerate().filter_map(|(index, c)| measure(rule.all.len() + index, c));
    let nearest = any.max_by(|a, b| a.closeness.total_cmp(&b.closeness));
    // the condition farthest from its limit; of `any`, only the nearest counts
    let farthest = all.chain(nearest).min_by(|a, b| a.closeness.total_cmp(&b.closeness))?;
    if farthest.closeness < 1.0 {
        return Some(farthest);
    }
    let is_unknown = |(index, c): (usize, &Condition)| c.is_window_value() && measure(index, c).is_none();
    let unknown = rule.all.iter().enumerate().find(|(index, c)| is_unknown((*index, c))).map(|(_, c)| c);
    let text = too_short_text(outcome, share, unknown);
    let closeness = (share / rule.sustained.share.max(1e-9)).min(0.999);
    Some(NearMiss { closeness, subject: text.clone(), text, is_unknown: unknown.is_some() })
}

/// Says why a rule whose conditions hold did not: for how long it held, or which quantity of the window is unknown.
fn too_short_text(outcome: &RuleOutcome<'_>, share: f64, unknown: Option<&Condition>) -> String {
    let rule = outcome.rule;
    let subject = format!("{}{}", rule.title, at_instance(&outcome.progress.instance));
    let needed = rule.sustained.share;
    if let Some(condition) = unknown {
        let label = quantity_label(condition);
        return format!("{subject}: unknown, because {label} was recorded for too little of this window");
    }
    if share < needed {
        let (share, needed) = (format_value(share, "fraction"), format_value(needed, "fraction"));
        return format!("{subject} held for only {share} of the time ({needed} needed)");
    }
    if outcome.progress.runs < rule.sustained.times {
        let (runs, times) = (format_count(outcome.progress.runs, "stretch", "stretches"), rule.sustained.times);
        return format!("{subject} held in only {runs} ({times} needed)");
    }
    let (in_a_row, needed) = (rule.sustained.in_a_row_s > rule.sustained.at_least_s, outcome.needed_s);
    let held = if in_a_row { outcome.progress.longest_ns } else { outcome.progress.held_ns } as f64 * 1e-9;
    let stretch = if in_a_row { " without a break" } else { "" };
    let (held, needed) = (format_value(held, "s"), format_value(needed, "s"));
    format!("{subject} held for only {held}{stretch} ({needed} needed)")
}

fn at_instance(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!(" on {instance}") }
}

fn measured_text(condition: &Condition, measured: ConditionValue, instance: &str) -> String {
    let unit = condition.unit();
    let unit = display_unit(&condition.quantity.counter.id, &unit);
    let limit = limit_text(measured.limit, unit);
    let limit = match condition.limit {
        RuleLimit::EachDisk { each_disk } if measured.limit > each_disk => {
            let disks = format_significant(measured.limit / each_disk);
            format!("{limit}, {} for each of {disks} disks", format_significant(each_disk))
        }
        _ => limit,
    };
    let limit = if condition.compare.is_upper() { format!("limit {limit}") } else { format!("only below {limit}") };
    format!("{} {}{} ({limit})", quantity_label(condition), format_value(measured.value, unit), at_instance(instance))
}

/// What a bottleneck is called if it is the only one, and if it is one of several.
pub(crate) const ONLY_BOTTLENECK: &str = "the bottleneck";
pub(crate) const ONE_BOTTLENECK: &str = "a bottleneck";

/// Names the bottleneck in the phrase before the colon; `noun` is [`ONLY_BOTTLENECK`] or [`ONE_BOTTLENECK`].
fn bottleneck_phrase(bottleneck: Bottleneck, instance: &str, noun: &str) -> String {
    match (bottleneck, instance) {
        (Bottleneck::Memory, "") => format!("Memory is {noun}"),
        (Bottleneck::Memory, instance) => format!("Memory is {noun}, in {instance}"),
        (Bottleneck::Disk, "") => format!("The disks are {noun}"),
        (Bottleneck::Disk, instance) => format!("The disk {instance} is {noun}"),
        (Bottleneck::Cpu, "") => format!("The processors are {noun}"),
        (Bottleneck::Cpu, instance) => format!("The processor {instance} is {noun}"),
        (Bottleneck::Interrupts, "") => format!("Interrupts and copying are {noun}"),
        (Bottleneck::Interrupts, instance) => format!("Interrupts on {instance} are {noun}"),
        (Bottleneck::Channel, instance) => format!("The channel{} is {noun}", to_instance(instance)),
        (Bottleneck::Controller, "") => format!("The controller is {noun}"),
        (Bottleneck::Controller, instance) => format!("The controller {instance} is {noun}"),
        (Bottleneck::Network, instance) => format!("The network{} is {noun}", at_instance(instance)),
        (Bottleneck::Application, instance) => {
            format!("The application's I/O pattern{} is {noun}", at_instance(instance))
        }
        (Bottleneck::Throttle, "") => format!("A configured limit is {noun}"),
        (Bottleneck::Throttle, instance) => format!("A limit on {instance} is {noun}"),
        (Bottleneck::None, _) => "No bottleneck found".into(),
        (Bottleneck::Unknown, _) => "Not enough data".into(),
    }
}

fn to_instance(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!(" to {instance}") }
}

/// The verdict in one sentence, from its strongest finding.
pub(crate) fn verdict_sentence(
    (instance, noun): (&str, &str),
    finding: &Finding,
    label: &str,
    window: WindowLength,
) -> String {
    let subject = match finding.bottleneck {
        Bottleneck::Disk if finding.object == "logical_disk" => format!("The filesystem {instance} is {noun}"),
        Bottleneck::Disk if finding.object == "array" => format!("The array {instance} is {noun}"),
        _ if finding.object == DATABASE => database_subject(finding, noun),
        Bottleneck::Application if finding.object == "network" => format!("The application is {noun}"),
        // an undecided finding names its disk
        Bottleneck::Unknown if !instance.is_empty() => format!("Not enough data: {instance}"),
        Bottleneck::Unknown => "Undecided".into(),
        bottleneck => bottleneck_phrase(bottleneck, instance, noun),
    };
    format!(
        "{subject}: {} ({}; {}).",
        finding.title,
        measurement_text(finding, label),
        finding_held_text(finding, window)
    )
}

/// The verdict on a thread that one processor limits: the machine has spare capacity, the program does not.
pub(crate) fn one_thread_sentence(
    noun: &str,
    finding: &Finding,
    culprit: Option<&Culprit>,
    window: WindowLength,
) -> String {
    let culprit_text = match culprit.and_then(|c| Some((c, c.pid?, c.thread.as_ref()?))) {
        Some((process, pid, thread)) if thread.name == process.name => {
            format!("thread {} of {} (process {pid})", thread.tid, process.name)
        }
        Some((process, pid, thread)) => {
            format!("thread {} ({}) of {} (process {pid})", thread.name, thread.tid, process.name)
        }
        None => "a thread".into(),
    };
    let used = format_value(finding.value, finding.display_unit());
    let busy = finding.evidence.iter().find(|e| e.counter == processor::BUSY).and_then(|e| e.value);
    let idle = match busy {
        Some(busy) => {
            format!("while {} of the machine's processor time is unused", format_value(1.0 - busy, "fraction"))
        }
        None => "while other processors are idle".into(),
    };
    let held = finding_held_text(finding, window);
    format!(
        "One thread is {noun}, not the machine: {culprit_text} uses {used} of one processor {idle} ({held}). \
         More processors will not make this program faster."
    )
}

/// The measured value, the time that it describes, and the limit.
fn measurement_text(finding: &Finding, label: &str) -> String {
    if let Some(from) = &finding.limit_from {
        return from.clone();
    }
    if finding.counter == physical_disk::STALLED {
        return stall_text(finding);
    }
    let value = format_value(finding.value, finding.display_unit());
    let mut limit = limit_text(finding.limit, finding.display_unit());
    if let Some(each) = finding.each_disk_text() {
        limit += &format!(": {each}");
    }
    let differs = |mean: &f64| (mean - finding.value).abs() > 0.05 * finding.value.abs();
    match finding.mean.filter(differs).filter(|_| finding.share_of_value() < 0.995) {
        Some(mean) => {
            let mean = format_value(mean, finding.display_unit());
            format!("{label} {value} in that time, {mean} over the whole window, limit {limit}")
        }
        None => format!("{label} {value}, limit {limit}"),
    }
}

/// Number and length of a device's stalls, and the requests that they held up.
fn stall_text(finding: &Finding) -> String {
    let longest = format_value(finding.longest_s, "s");
    let stalls = match finding.times {
        1 => format!("1 stall of {longest}"),
        times => format!("{times} stalls, the longest {longest}"),
    };
    let queue = finding.evidence.iter().find(|e| e.counter == physical_disk::CURRENT_QUEUE_LENGTH);
    let held_up = match queue.and_then(|e| e.max) {
        Some(max_waiting) => format!(", up to {} held up", format_amount(max_waiting, "request", "requests")),
        None => String::new(),
    };
    let time = finding.longest_from.get(11..19).unwrap_or_default();
    format!("{stalls} at {time} UTC{held_up}")
}

/// Length of a window; reports, where a log has no times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowLength {
    Seconds(f64),
    Reports(u64),
}

impl WindowLength {
    /// Length of an observed window.
    pub fn from_observation(observed: &Observation) -> WindowLength {
        observed.report_count().map_or(WindowLength::Seconds(observed.window.seconds()), WindowLength::Reports)
    }

    /// The length in words: `5 min`, `10 reports`.
    pub fn to_text(self) -> String {
        match self {
            WindowLength::Seconds(seconds) => format_duration(seconds),
            WindowLength::Reports(count) => format_count(count, "report", "reports"),
        }
    }
}

/// Number of reports in which a rule held, of those that were judged: a report without time counts as a second.
fn reports_held_text(share: f64, judged_s: f64) -> String {
    let judged = judged_s.round();
    match (share * judged).round() {
        _ if judged <= 1.0 => "in the one report".into(),
        held if held >= judged => format!("in all {judged} reports"),
        held => format!("in {held} of {judged} reports"),
    }
}

/// Share of the time for which the leading condition of a finding held, with the time.
pub(crate) fn finding_held_text(finding: &Finding, window: WindowLength) -> String {
    match (&finding.since, window) {
        (Some(_), WindowLength::Seconds(_)) => {
            format!(
                "{} of the last {}",
                format_value(finding.share_of_value(), "fraction"),
                format_duration(finding.judged_s)
            )
        }
        _ => held_text(finding.share_of_value(), finding.judged_s, window),
    }
}

/// Share of the judged time for which a rule held. The judged time may be less than the window; nothing is known about
/// the rest.
pub(crate) fn held_text(share: f64, judged_s: f64, window: WindowLength) -> String {
    let window_s = match window {
        WindowLength::Seconds(seconds) => seconds,
        WindowLength::Reports(_) => return reports_held_text(share, judged_s),
    };
    let (share, judged) = (format_value(share, "fraction"), format_duration(judged_s));
    match seen_s(judged_s, window_s) {
        Some(_) => format!("{share} of the {judged} it was seen"),
        None => format!("{share} of {judged}"),
    }
}

/// `the disk sda is`, `memory is`.
pub(crate) fn subject_phrase(verdict: &super::Verdict) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_window_is_told_in_hours() {
        assert_eq!(held_text(0.544, 1195.0, WindowLength::Seconds(1195.0)), "54.4 % of 19 min 55 s");
        assert_eq!(held_text(1.0, 86_400.0, WindowLength::Seconds(86_400.0)), "100 % of 1 d");
        assert_eq!(held_text(1.0, 60.0, WindowLength::Seconds(60.0)), "100 % of 60 s");
    }

    #[test]
    fn a_share_is_told_of_the_time_that_was_judged() {
        assert_eq!(held_text(1.0, 26.0, WindowLength::Seconds(60.0)), "100 % of the 26 s it was seen");
        assert_eq!(held_text(0.875, 60.0, WindowLength::Seconds(61.0)), "87.5 % of 60 s");
    }

    #[test]
    fn a_log_without_times_is_told_in_reports() {
        let of = |share: f64, judged: f64| held_text(share, judged, WindowLength::Reports(10));
        assert_eq!(
            [of(1.0, 10.0), of(0.7, 10.0), of(1.0, 1.0)],
            ["in all 10 reports", "in 7 of 10 reports", "in the one report"]
        );
        assert_eq!(WindowLength::Reports(1).to_text(), "1 report");
    }

    #[test]
    fn a_product_is_called_what_it_is() {
        let pack = crate::rules::builtin_pack("default").expect("there").expect("valid");
        let labels: Vec<String> = pack.rules.iter().flat_map(|rule| rule.conditions()).map(quantity_label).collect();
        for name in ["reads in flight", "processors that wait for I/O", "running per processor"] {
            assert!(labels.iter().any(|label| label == name), "{name}: {labels:#?}");
        }
        assert!(labels.iter().all(|label| !label.contains("seconds per read x")), "{labels:#?}");
    }
}
