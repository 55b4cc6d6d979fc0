//! Two windows side by side: counter by counter with intervals that honour how
//! samples depend on each other, the verdict on each window, and whether the
//! change between them helped.

mod outcome;
mod watch;

use std::collections::HashMap;

use diskwright_statistics::{ERROR, Mean, many, mean};
use serde::Serialize;

use crate::verdict::Verdict;
pub use outcome::{Answer, Change, Movement, Outcome};
pub use watch::{WHOLE, Watch};

/// Name of the contract.
pub const SCHEMA: &str = "diskwright.compare/1";

/// The answer: the JSON contract `diskwright.compare/1`, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `diskwright.compare/1`.
    pub schema: &'static str,
    /// Whether the change helped.
    pub outcome: Outcome,
    /// The answer in words.
    pub sentence: String,
    /// What was asked of the machine: requests of all disks, or bytes of all links.
    pub load: Option<Movement>,
    /// How long a request of all disks took.
    pub response: Option<Movement>,
    /// How many questions were asked; significance stands against that number.
    pub questions: usize,
    /// Counters of both windows.
    pub counters: Vec<Row>,
    /// Counters and instances that only the first window has.
    pub only_before: Vec<Named>,
    /// Those that only the second has.
    pub only_after: Vec<Named>,
    /// Series beyond the most that are followed.
    pub left_out: usize,
    /// The verdict on the first window.
    pub before: Verdict,
    /// The verdict on the second.
    pub after: Verdict,
}

/// A counter of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Its id.
    pub counter: String,
    /// Instance; `*` for all disks or links together.
    pub instance: String,
}

/// A counter of an instance in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its id.
    pub counter: String,
    /// Instance; `*` for all disks or links together.
    pub instance: String,
    /// Unit of all values.
    pub unit: String,
    /// The first window.
    pub before: Estimate,
    /// The second.
    pub after: Estimate,
    /// The second mean less the first.
    pub difference: f64,
    /// Lower end of its 95 % interval; `null` where it cannot be told.
    pub difference_low: Option<f64>,
    /// Upper end.
    pub difference_high: Option<f64>,
    /// The second mean over the first; `null` where that is 0.
    pub ratio: Option<f64>,
    /// Chance that noise alone makes any counter differ as much; `null` where
    /// it cannot be told.
    pub significance: Option<f64>,
    /// The difference may be noise; `null` where it cannot be told.
    pub noise: Option<bool>,
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean over the window, weighted as the counter's kind demands.
    pub mean: f64,
    /// Lower end; `null` where there are too few ticks to tell.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Estimate {
    fn of(value: f64, mean: Option<&Mean>) -> Estimate {
        let (low, high) = mean.map_or((f64::NAN, f64::NAN), Mean::interval);
        let finite = |v: f64| Some(v).filter(|v| v.is_finite());
        Estimate { mean: value, low: finite(low), high: finite(high) }
    }
}

/// Holds the second window against the first.
pub fn compare(first: &Watch, second: &Watch, before: Verdict, after: Verdict) -> Comparison {
    let (mut counters, chances) = rows(first, second);
    let adjusted = many::holm(&chances);
    for (row, (chance, adjusted)) in counters.iter_mut().zip(chances.iter().zip(adjusted)) {
        if row.difference_low.is_none() {
            continue;
        }
        // two constants that are equal are no question
        row.significance = Some(if chance.is_nan() { 1.0 } else { adjusted });
        row.noise = row.significance.map(|s| s >= ERROR);
    }
    let answer = outcome::answer(&counters, &before, &after);
    Comparison {
        schema: SCHEMA,
        outcome: answer.outcome,
        sentence: answer.sentence,
        load: answer.load,
        response: answer.response,
        questions: chances.iter().filter(|c| !c.is_nan()).count(),
        counters,
        only_before: only(first, second),
        only_after: only(second, first),
        left_out: first.left_out + second.left_out,
        before,
        after,
    }
}

/// The counters of both windows with the chance that each differs by noise
/// alone, `NaN` where there is no question.
fn rows(first: &Watch, second: &Watch) -> (Vec<Row>, Vec<f64>) {
    let seen = second.seen().iter();
    let others: HashMap<(&str, &str), _> = seen.map(|s| ((s.counter.as_str(), s.instance.as_str()), s)).collect();
    let (mut rows, mut chances) = (Vec::new(), Vec::new());
    for one in first.seen() {
        let Some(other) = others.get(&(one.counter.as_str(), one.instance.as_str())) else { continue };
        let (Some((a, mean_a)), Some((b, mean_b))) = (one.mean(), other.mean()) else { continue };
        let difference = mean_a.as_ref().zip(mean_b.as_ref()).map(|(a, b)| mean::difference(a, b));
        let still = difference.as_ref().is_some_and(|d| d.value == 0.0 && d.interval == (0.0, 0.0));
        let told = difference.as_ref().filter(|d| d.interval.0.is_finite() && d.interval.1.is_finite());
        chances.push(told.filter(|_| !still).map_or(f64::NAN, |d| d.chance));
        rows.push(Row {
            counter: one.counter.clone(),
            instance: one.instance.clone(),
            unit: one.unit.clone(),
            before: Estimate::of(a, mean_a.as_ref()),
            after: Estimate::of(b, mean_b.as_ref()),
            difference: b - a,
            difference_low: told.map(|d| d.interval.0),
            difference_high: told.map(|d| d.interval.1),
            ratio: (a != 0.0).then(|| b / a),
            significance: None,
            noise: None,
        });
    }
    (rows, chances)
}

/// What one window has and the other lacks or never had a value of.
fn only(of: &Watch, without: &Watch) -> Vec<Named> {
    let measured = |w: &Watch| -> Vec<(String, String)> {
        let seen = w.seen().iter().filter(|s| s.mean().is_some());
        seen.map(|s| (s.counter.clone(), s.instance.clone())).collect()
    };
    let others: std::collections::HashSet<_> = measured(without).into_iter().collect();
    let named = |(counter, instance): (String, String)| Named { counter, instance };
    measured(of).into_iter().filter(|key| !others.contains(key)).map(named).collect()
}
