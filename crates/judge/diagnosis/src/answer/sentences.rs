//! Texts of the verdict: sentences, labels of quantities, reasons why a rule did not hold.

use diskwright_base::catalogue::display_unit;
use diskwright_base::counter_ids::processor;
use diskwright_base::units::{format_amount, format_count, format_duration, format_significant, format_value};

use crate::answer::rule_outcome::{ConditionValue, RuleOutcome, window_value};
use crate::answer::verdict::{Culprit, Finding, seen_s};
use crate::rules::{Bottleneck, Condition, ConditionSpan, Operand, RuleQuantity};
use crate::run::Observation;

/// A value with its unit; a plain number where there is none.
pub(crate) fn value_text(value: f64, unit: &str) -> String {
    format_value(value, unit)
}

/// A limit with its unit; counts of requests and processes go without.
fn limit_text(limit: f64, unit: &str) -> String {
    match unit {
        "requests" | "count" | "processes" => format_significant(limit),
        _ => format_value(limit, unit),
    }
}

/// A condition's quantity as people say it: `average queue length`.
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
        "ceiling.used" => return "share of the measured ceiling".into(),
        "ceiling.latency_ratio" => return "latency relative to queue depth 1".into(),
        "busy_steadiness" => return "how the rate varies while requests queue".into(),
        "light_load_s" => return "response time at light load".into(),
        "light_load_bytes" => return "size of a request at light load".into(),
        _ => {}
    }
    let name = name.trim_end_matches("_per_s").trim_end_matches("_fraction").replace('_', " ");
    let name = match name.strip_prefix("avg ") {
        Some(rest) => {
            format!("average {rest}").replace("average s per", "seconds per").replace("bytes per", "size per")
        }
        None => name,
    };
    match object {
        "pressure" => match name.split_once(' ') {
            Some((resource, share)) => format!("{resource} pressure ({share})"),
            None => name,
        },
        "processor" => format!("processor {name}"),
        "memory" if !name.contains("memory") => format!("{name} memory"),
        _ => name,
    }
}

/// Closeness of a measured value to its limit, from 0 to 1.
pub(crate) fn limit_closeness(condition: &Condition, measured: ConditionValue) -> f64 {
    let ConditionValue { value, limit } = measured;
    if condition.compare.holds(value, limit) {
        return 1.0;
    }
    let ratio = if condition.compare.is_upper() { value / limit } else { limit / value };
    // closeness has no meaning for a limit of 0 or below
    if ratio.is_finite() { ratio.clamp(0.0, 0.999) } else { 0.0 }
}

/// Closeness of a rule to holding, and the reason in numbers why it did not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Approach {
    pub closeness: f64,
    /// Quantity and instance, so that each is reported once.
    pub subject: String,
    pub text: String,
}

/// Describes the condition that kept a rule from holding at an instance. `None` where nothing was judged.
pub(crate) fn describe_approach(observed: &Observation, outcome: &RuleOutcome<'_>) -> Option<Approach> {
    let share = outcome.share?;
    let rule = outcome.rule;
    // a queue or latency above the range of a rule is the case of another rule, and rules nothing out
    let beyond = |(index, c): (usize, &Condition)| {
        let id = &c.quantity.counter.id;
        let slow = id.contains("avg_s_per") && rule.bottleneck == Bottleneck::Disk;
        let of_waiting = id.contains("queue_length") || slow;
        let band = || rule.all.iter().any(|other| other.compare.is_upper() && other.quantity == c.quantity);
        let measured = || window_value(observed, c, &outcome.stream.conditions[index]);
        let lower = !c.compare.is_upper() && (of_waiting || band());
        lower && measured().is_some_and(|m| !c.compare.holds(m.value, m.limit))
    };
    if rule.all.iter().enumerate().any(beyond) {
        return None;
    }
    let of = |index: usize, condition: &Condition| {
        let measured = window_value(observed, condition, &outcome.stream.conditions[index])?;
        // a counter of another object does not belong to the rule's instance
        let own = condition.quantity.counter.object == rule.object;
        let instance = if own { outcome.stream.instance.as_str() } else { "" };
        let quantity = format!("{} {instance}", condition.quantity.formula_text());
        Some((limit_closeness(condition, measured), quantity, measured_text(condition, measured, instance)))
    };
    let all = rule.all.iter().enumerate().filter_map(|(index, c)| of(index, c));
    let any = rule.any.iter().enumerate().filter_map(|(index, c)| of(rule.all.len() + index, c));
    let nearest = any.max_by(|a, b| a.0.total_cmp(&b.0));
    // the weakest of `all`, where the strongest of `any` counts as one of them
    let (closeness, quantity, text) = all.chain(nearest).min_by(|a, b| a.0.total_cmp(&b.0))?;
    if closeness < 1.0 {
        return Some(Approach { closeness, subject: quantity, text });
    }
    let place = at_instance(&outcome.stream.instance);
    let needed = rule.sustained.share;
    let unknown = rule.all.iter().enumerate().find(|(index, c)| c.is_window_value() && of(*index, c).is_none());
    let text = if let Some((_, condition)) = unknown {
        format!("{}{place}: unknown, too little of this window shows {}", rule.title, quantity_label(condition))
    } else if share < needed {
        let (share, needed) = (format_value(share, "fraction"), format_value(needed, "fraction"));
        format!("{}{place} held for only {share} of the time ({needed} needed)", rule.title)
    } else if outcome.stream.runs < rule.sustained.times {
        let (runs, times) = (format_count(outcome.stream.runs, "stretch", "stretches"), rule.sustained.times);
        format!("{}{place} held in only {runs} ({times} needed)", rule.title)
    } else {
        let (row, needed) = (rule.sustained.in_a_row_s > rule.sustained.at_least_s, outcome.needed_s);
        let held = if row { outcome.stream.longest_ns } else { outcome.stream.held_ns } as f64 * 1e-9;
        let stretch = if row { " without a break" } else { "" };
        let (held, needed) = (format_value(held, "s"), format_value(needed, "s"));
        format!("{}{place} held for only {held}{stretch} ({needed} needed)", rule.title)
    };
    Some(Approach { closeness: (share / needed.max(1e-9)).min(0.999), subject: text.clone(), text })
}

fn at_instance(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!(" on {instance}") }
}

fn measured_text(condition: &Condition, measured: ConditionValue, instance: &str) -> String {
    let unit = condition.unit();
    let unit = display_unit(&condition.quantity.counter.id, &unit);
    let limit = limit_text(measured.limit, unit);
    let limit = if condition.compare.is_upper() { format!("limit {limit}") } else { format!("only below {limit}") };
    format!("{} {}{} ({limit})", quantity_label(condition), value_text(measured.value, unit), at_instance(instance))
}

/// Names the bottleneck in the phrase before the colon.
fn bottleneck_phrase(bottleneck: Bottleneck, instance: &str) -> String {
    match (bottleneck, instance) {
        (Bottleneck::Memory, "") => "Memory is the bottleneck".into(),
        (Bottleneck::Memory, group) => format!("Memory is the bottleneck, in {group}"),
        (Bottleneck::Disk, "") => "The disks are the bottleneck".into(),
        (Bottleneck::Disk, disk) => format!("The disk {disk} is the bottleneck"),
        (Bottleneck::Cpu, "") => "The processors are the bottleneck".into(),
        (Bottleneck::Cpu, one) => format!("The processor {one} is the bottleneck"),
        (Bottleneck::Interrupts, "") => "Interrupts and copying are the bottleneck".into(),
        (Bottleneck::Interrupts, one) => format!("Interrupts on {one} are the bottleneck"),
        (Bottleneck::Channel, one) => format!("The channel{} is the bottleneck", to_instance(one)),
        (Bottleneck::Controller, one) => format!("The controller{} is the bottleneck", to_instance(one)),
        (Bottleneck::Network, one) => format!("The network{} is the bottleneck", at_instance(one)),
        (Bottleneck::Application, one) => {
            format!("The application's I/O pattern{} is the bottleneck", at_instance(one))
        }
        (Bottleneck::Throttle, "") => "A configured limit is the bottleneck".into(),
        (Bottleneck::Throttle, one) => format!("A limit on {one} is the bottleneck"),
        (Bottleneck::None, _) => "No bottleneck found".into(),
        (Bottleneck::Unknown, _) => "Not enough data".into(),
    }
}

fn to_instance(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!(" to {instance}") }
}

/// The verdict in one sentence, from its strongest finding.
pub(crate) fn verdict_sentence(instance: &str, finding: &Finding, label: &str, window_s: f64) -> String {
    let subject = match finding.bottleneck {
        // an undecided finding names its disk
        Bottleneck::Unknown if !instance.is_empty() => format!("Not enough data: {instance}"),
        bottleneck => bottleneck_phrase(bottleneck, instance),
    };
    format!(
        "{subject}: {} ({}; {}).",
        finding.title,
        measurement_text(finding, label),
        held_text(finding.share, finding.judged_s, window_s)
    )
}

/// The verdict on a thread that one processor limits: the machine has spare capacity, the program does not.
pub(crate) fn one_thread_sentence(finding: &Finding, culprit: Option<&Culprit>, window_s: f64) -> String {
    let culprit_text = match culprit.and_then(|c| Some((c, c.pid?, c.thread.as_ref()?))) {
        Some((process, pid, thread)) if thread.name == process.name => {
            format!("thread {} of {} (process {pid})", thread.tid, process.name)
        }
        Some((process, pid, thread)) => {
            format!("thread {} ({}) of {} (process {pid})", thread.name, thread.tid, process.name)
        }
        None => "a thread".into(),
    };
    let used = value_text(finding.value, finding.display_unit());
    let busy = finding.evidence.iter().find(|e| e.counter == processor::BUSY).and_then(|e| e.value);
    let idle = match busy {
        Some(busy) => {
            format!("while {} of the machine's processor time is unused", format_value(1.0 - busy, "fraction"))
        }
        None => "while other processors are idle".into(),
    };
    let held = held_text(finding.share, finding.judged_s, window_s);
    format!(
        "One thread is the bottleneck, not the machine: {culprit_text} uses {used} of one processor {idle} ({held}). \
         More processors will not make this program faster."
    )
}

/// The measured value, the time it is of, and the limit.
fn measurement_text(finding: &Finding, label: &str) -> String {
    if let Some(from) = &finding.limit_from {
        return from.clone();
    }
    if finding.counter.ends_with(".stalled") {
        return stall_text(finding);
    }
    let value = value_text(finding.value, finding.display_unit());
    let limit = limit_text(finding.limit, finding.display_unit());
    let differs = |mean: &f64| (mean - finding.value).abs() > 0.05 * finding.value.abs();
    match finding.mean.filter(differs).filter(|_| finding.share < 0.995) {
        Some(mean) => {
            let mean = value_text(mean, finding.display_unit());
            format!("{label} {value} in that time, {mean} over the whole window, limit {limit}")
        }
        None => format!("{label} {value}, limit {limit}"),
    }
}

/// Number and length of a device's stalls, and the requests that they held up.
fn stall_text(finding: &Finding) -> String {
    let times = if finding.times == 1 { "1 stall".into() } else { format!("{} stalls", finding.times) };
    let longest = value_text(finding.longest_s, "s");
    let caught = finding.evidence.iter().find(|e| e.counter.ends_with(".current_queue_length"));
    let caught = match caught.and_then(|e| e.max) {
        Some(max_waiting) => format!(", up to {} held up", format_amount(max_waiting, "request", "requests")),
        None => String::new(),
    };
    let time = finding.longest_from.get(11..19).unwrap_or_default();
    format!("{times}, the longest {longest} at {time} UTC{caught}")
}

/// Share of the judged time for which a rule held. The judged time may be less than the window; nothing is known about
/// the rest.
fn held_text(share: f64, judged_s: f64, window_s: f64) -> String {
    let (share, judged) = (format_value(share, "fraction"), format_duration(judged_s));
    match seen_s(judged_s, window_s) {
        Some(_) => format!("{share} of the {judged} it was seen"),
        None => format!("{share} of {judged}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_window_is_told_in_hours() {
        assert_eq!(held_text(0.544, 1195.0, 1195.0), "54.4 % of 19 min 55 s");
        assert_eq!(held_text(1.0, 86_400.0, 86_400.0), "100 % of 1 d");
        assert_eq!(held_text(1.0, 60.0, 60.0), "100 % of 60 s");
    }

    #[test]
    fn a_share_is_told_of_the_time_that_was_judged() {
        assert_eq!(held_text(1.0, 26.0, 60.0), "100 % of the 26 s it was seen");
        assert_eq!(held_text(0.875, 60.0, 61.0), "87.5 % of 60 s");
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
