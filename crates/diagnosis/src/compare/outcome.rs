//! Whether a change helped: what was asked is held apart from how long it took,
//! so that "faster, because nobody asked" is not taken for success.

use diskwright_base::units::{digits, display};
use serde::Serialize;

use super::{Row, WHOLE};
use crate::rule::Bottleneck;
use crate::verdict::Verdict;

/// Whether the change helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// More is served, or the same faster, or a bottleneck is gone.
    Helped,
    /// The same or less is served, and it takes longer; or a bottleneck came.
    Worse,
    /// Less was asked, which alone explains what became faster.
    LessAsked,
    /// More was asked, which alone explains what became slower.
    MoreAsked,
    /// No difference beyond noise.
    Unchanged,
    /// It cannot be told.
    Unclear,
}

/// How a quantity moved between the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It grew beyond noise, by a twentieth at least.
    Up,
    /// It fell beyond noise, by a twentieth at least.
    Down,
    /// Neither.
    Same,
    /// There are too few ticks to tell.
    Unknown,
}

/// A quantity of the whole machine in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Movement {
    /// Its counter.
    pub counter: String,
    /// Its unit.
    pub unit: String,
    /// Mean of the first window.
    pub before: f64,
    /// Mean of the second.
    pub after: f64,
    /// How it moved.
    pub change: Change,
}

/// What is said of two windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Whether the change helped.
    pub outcome: Outcome,
    /// The same in words.
    pub sentence: String,
    /// What was asked.
    pub load: Option<Movement>,
    /// How long it took.
    pub response: Option<Movement>,
}

/// A change by less than this share is the same for people.
const LEAST_CHANGE: f64 = 0.05;
/// Requests a second below which disks are asked for nothing to speak of.
const LEAST_REQUESTS: f64 = 1.0;
/// The same for links.
const LEAST_BYTES: f64 = 10_000.0;

const REQUESTS: &str = "physical_disk.transfers_per_s";
const RESPONSE: &str = "physical_disk.avg_s_per_transfer";
/// What a machine is asked for where it is not its disks, best first.
const TRAFFIC: [&str; 2] = ["network.bytes_per_s", "network.received_bytes_per_s"];

/// The row of a counter that stands for the machine.
fn whole<'a>(rows: &'a [Row], counter: &str) -> Option<&'a Row> {
    let of = |instance: &str| rows.iter().find(|r| r.counter == counter && r.instance == instance);
    let mut all = rows.iter().filter(|r| r.counter == counter);
    let only = || all.next().filter(|_| all.next().is_none());
    of(WHOLE).or_else(|| of("")).or_else(|| of("_total")).or_else(only)
}

fn movement(row: &Row) -> Movement {
    let (before, after) = (row.before.mean, row.after.mean);
    let small = (after - before).abs() < LEAST_CHANGE * before.abs().max(after.abs());
    let change = match row.noise {
        None => Change::Unknown,
        Some(true) => Change::Same,
        Some(false) if small => Change::Same,
        Some(false) if after > before => Change::Up,
        Some(false) => Change::Down,
    };
    Movement { counter: row.counter.clone(), unit: row.unit.clone(), before, after, change }
}

/// What was asked of the machine. Disk traffic that was paging is no demand:
/// it goes away with what caused it.
fn load(rows: &[Row], paging: bool) -> Option<Movement> {
    let asked = |m: &Movement, least: f64| m.before.max(m.after) >= least;
    let of = |counter: &str| whole(rows, counter).map(movement);
    let requests = of(REQUESTS).filter(|m| asked(m, LEAST_REQUESTS) && !paging);
    requests.or_else(|| TRAFFIC.iter().filter_map(|c| of(c)).find(|m| asked(m, LEAST_BYTES)))
}

/// Says whether the change helped.
pub(super) fn answer(rows: &[Row], before: &Verdict, after: &Verdict) -> Answer {
    let paging = before.bottleneck == Bottleneck::Memory || after.bottleneck == Bottleneck::Memory;
    let load = load(rows, paging);
    let response = whole(rows, RESPONSE).map(movement).filter(|_| !paging);
    let outcome = outcome(load.as_ref(), response.as_ref(), before.bottleneck, after.bottleneck);
    let mut parts = vec![lead(outcome, load.as_ref(), response.as_ref(), before, after)];
    parts.extend(numbers(load.as_ref(), response.as_ref()));
    parts.push(now(before, after));
    Answer { outcome, sentence: parts.join(" "), load, response }
}

fn outcome(load: Option<&Movement>, response: Option<&Movement>, before: Bottleneck, after: Bottleneck) -> Outcome {
    let of = |m: Option<&Movement>| m.map_or(Change::Unknown, |m| m.change);
    let (gone, came) = (before != Bottleneck::None && after == Bottleneck::None, {
        before == Bottleneck::None && after != Bottleneck::None
    });
    match (of(load), of(response)) {
        // a bottleneck that is gone or came speaks for itself, unless the load explains it
        (Change::Down, _) if gone => Outcome::LessAsked,
        (_, Change::Up) if gone => Outcome::Unclear,
        _ if gone => Outcome::Helped,
        (Change::Up, _) if came => Outcome::MoreAsked,
        _ if came => Outcome::Worse,
        (Change::Up | Change::Same, Change::Down) => Outcome::Helped,
        (Change::Down, Change::Down | Change::Same) => Outcome::LessAsked,
        (Change::Up, Change::Same | Change::Up) => Outcome::MoreAsked,
        (Change::Same | Change::Down, Change::Up) => Outcome::Worse,
        (Change::Same, Change::Same) => Outcome::Unchanged,
        _ => Outcome::Unclear,
    }
}

fn lead(
    outcome: Outcome,
    load: Option<&Movement>,
    response: Option<&Movement>,
    before: &Verdict,
    after: &Verdict,
) -> String {
    let change = |m: Option<&Movement>| m.map_or(Change::Unknown, |m| m.change);
    let gone = before.bottleneck != Bottleneck::None && before.bottleneck != after.bottleneck;
    let words = match outcome {
        Outcome::Helped if gone => return format!("The change helped: {} no longer a bottleneck.", is(before)),
        Outcome::Helped if change(load) == Change::Up => {
            "The change helped: more is served, and each request takes less time."
        }
        Outcome::Helped => "The change helped: each request takes less time under the same load.",
        Outcome::Worse if change(load) == Change::Down => {
            "It got worse: less is served, and each request takes longer."
        }
        Outcome::Worse if change(response) == Change::Up => {
            "It got worse: each request takes longer, though no more is asked."
        }
        Outcome::Worse => "It got worse.",
        Outcome::LessAsked => {
            "Less was asked of the machine in the second window: nothing says that the change itself helped."
        }
        Outcome::MoreAsked if change(response) == Change::Up => {
            "More was asked of the machine in the second window, which alone may explain why each request takes longer."
        }
        Outcome::MoreAsked => "More was asked of the machine in the second window, and it was served no slower.",
        Outcome::Unchanged => "No difference beyond noise in what was asked and in how long it took.",
        Outcome::Unclear => "Whether the change helped cannot be told from these windows.",
    };
    words.to_owned()
}

/// Load and response in numbers, as far as they are known.
fn numbers(load: Option<&Movement>, response: Option<&Movement>) -> Option<String> {
    let told = |m: &Movement, what: &str| {
        let moved = match m.change {
            Change::Same => ", the same within noise".to_owned(),
            Change::Unknown => ", too few ticks to tell noise from change".to_owned(),
            _ if m.before == 0.0 => String::new(),
            _ => {
                let percent = (m.after / m.before - 1.0) * 100.0;
                format!(", {}{} %", if percent > 0.0 { "+" } else { "" }, digits(percent))
            }
        };
        format!("{what} {} before and {} after{moved}", display(m.before, &m.unit), display(m.after, &m.unit))
    };
    let asked =
        load.map(|m| told(m, if m.counter == REQUESTS { "Requests of the disks:" } else { "Network traffic:" }));
    let took = response.map(|m| told(m, "a request took"));
    let both: Vec<String> = asked.into_iter().chain(took).collect();
    if both.is_empty() {
        return None;
    }
    let mut text = both.join("; ") + ".";
    if let Some(first) = text.get(..1) {
        let upper = first.to_uppercase();
        text.replace_range(..1, &upper);
    }
    Some(text)
}

/// `the disk sda is`, `memory is`.
fn is(verdict: &Verdict) -> String {
    let of = |noun: &str| match verdict.instance.as_str() {
        "" => noun.to_owned(),
        instance => format!("{noun} ({instance})"),
    };
    match verdict.bottleneck {
        Bottleneck::Disk => format!("{} is", of("the disk")),
        Bottleneck::Memory => format!("{} is", of("memory")),
        Bottleneck::Cpu => "the processors are".into(),
        Bottleneck::Interrupts => "interrupts and copying are".into(),
        Bottleneck::Network => format!("{} is", of("the network")),
        Bottleneck::Application => "the application's own way of asking is".into(),
        Bottleneck::Throttle => format!("{} is", of("a limit that somebody set")),
        Bottleneck::Channel => format!("{} is", of("the channel")),
        Bottleneck::Controller => format!("{} is", of("the controller")),
        Bottleneck::None => "nothing is".into(),
    }
}

/// What holds the machine back now.
fn now(before: &Verdict, after: &Verdict) -> String {
    let same = before.bottleneck == after.bottleneck && before.instance == after.instance;
    let capital = |text: String| text[..1].to_uppercase() + &text[1..];
    match (before.bottleneck, after.bottleneck) {
        (Bottleneck::None, Bottleneck::None) => "Nothing held the machine back in either window.".into(),
        (_, Bottleneck::None) => "Nothing holds the machine back now.".into(),
        (_, _) if same => format!("{} still what holds the machine back.", capital(is(after))),
        _ => format!("{} now what holds the machine back.", capital(is(after))),
    }
}
