//! Two windows side by side: counter by counter with intervals that honour how
//! samples depend on each other, the verdict on each window, and whether the
//! change between them helped.
//!
//! One chance of 5 % to be wrong is spent on a comparison: half on the questions
//! that its answer stands on (what was asked, how long it took, the same at equal
//! load, what the verdicts blame), half on all other counters. Each interval is
//! at the level at which its own difference was tested, so that it leaves 0 out
//! exactly where the difference is told.

mod equal;
mod load;
mod outcome;
mod watch;
mod words;

use std::collections::{HashMap, HashSet};

use diskwright_statistics::many::{TestResult, tested};
use diskwright_statistics::{Bounds, Contrast, ERROR, MeanVariance, contrast};
use serde::Serialize;

use crate::verdict::Verdict;
pub use equal::EqualLoad;
pub use load::{ChangeDirection, QuantityChange};
pub use outcome::ChangeOutcome;
use watch::WindowMean;
pub use watch::{CounterWindow, WHOLE};

/// Where a mean may be a tenth as well as ten times of another, nothing is known of it.
const OPEN: f64 = 10.0;
/// Name of the contract.
pub const SCHEMA: &str = "diskwright.compare/1";
/// The chance to be wrong that each half of the questions has.
const HALF: f64 = ERROR / 2.0;

/// The answer: the JSON contract `diskwright.compare/1`, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowComparison {
    /// `diskwright.compare/1`.
    pub schema: &'static str,
    /// Whether the change helped.
    pub outcome: ChangeOutcome,
    /// The answer in words.
    pub sentence: String,
    /// What was asked of the machine: requests of all disks, or bytes of all links.
    pub load: Option<QuantityChange>,
    /// Sizes of the disks' requests and the share of reads among them.
    pub mix: Vec<QuantityChange>,
    /// How long a request of all disks took.
    pub response: Option<QuantityChange>,
    /// How long a request takes at the same load; `null` where it cannot be told.
    pub equal_load: Option<EqualLoad>,
    /// Why it cannot be told; `null` where it can, or where disks are not what is judged.
    pub equal_load_missing: Option<String>,
    /// What the verdict blamed, where the disks' response is not what is judged.
    pub goals: Vec<QuantityChange>,
    /// How many questions were asked; significance stands against that number.
    pub questions: usize,
    /// Counters of both windows.
    pub counters: Vec<ComparisonRow>,
    /// Counters and instances that only the first window has.
    pub only_before: Vec<CounterInstance>,
    /// Those that only the second has.
    pub only_after: Vec<CounterInstance>,
    /// Series beyond the most that are followed.
    pub left_out: usize,
    /// The verdict on the first window.
    pub before: Verdict,
    /// The verdict on the second.
    pub after: Verdict,
}

/// A counter of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterInstance {
    /// Its id.
    pub counter: String,
    /// Instance; `*` for all disks or links together.
    pub instance: String,
}

/// A counter of an instance in both windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Its id.
    pub counter: String,
    /// Instance; `*` for all disks or links together.
    pub instance: String,
    /// Unit of all values.
    pub unit: String,
    /// The first window.
    pub before: MeanEstimate,
    /// The second.
    pub after: MeanEstimate,
    /// The second mean less the first.
    pub difference: f64,
    /// Lower end of its interval at `level`; `null` where it cannot be told.
    pub difference_low: Option<f64>,
    /// Upper end.
    pub difference_high: Option<f64>,
    /// The second mean over the first; `null` where that is 0.
    pub ratio: Option<f64>,
    /// Lower end of its interval at `level`; `null` where it cannot be told.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// How often the intervals of difference and ratio would be wrong: the level
    /// at which this difference was tested among all others.
    pub level: Option<f64>,
    /// Chance that noise alone makes any counter differ as much; `null` where
    /// it cannot be told.
    pub significance: Option<f64>,
    /// The difference may be noise; `null` where it cannot be told.
    pub noise: Option<bool>,
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanEstimate {
    /// Mean over the window, weighted as the counter's kind demands.
    pub mean: f64,
    /// Lower end; `null` where there are too few ticks to tell.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl MeanEstimate {
    fn of(value: f64, trust: Option<&MeanVariance>, bounds: Bounds) -> MeanEstimate {
        let (low, high) = trust.map_or((f64::NAN, f64::NAN), |mean| contrast::interval(mean, bounds, ERROR));
        // an interval to nowhere says nothing
        let told = low.is_finite() && high.is_finite() && high <= OPEN * value.abs().max(low.abs());
        MeanEstimate { mean: value, low: told.then_some(low), high: told.then_some(high) }
    }
}

/// A difference that is asked about.
pub(crate) struct Question {
    /// `None` where it cannot be told.
    contrast: Option<Contrast>,
    /// The answer stands on it.
    leads: bool,
    /// As it stands against all others.
    tested: TestResult,
}

impl Question {
    fn of(contrast: Option<Contrast>) -> Question {
        let contrast = contrast.filter(Contrast::is_known);
        Question { contrast, leads: false, tested: TestResult { adjusted: f64::NAN, level: ERROR } }
    }

    fn chance(&self) -> f64 {
        self.contrast.as_ref().filter(|c| !c.is_same()).map_or(f64::NAN, Contrast::chance)
    }

    /// Chance that noise alone gives as much anywhere in the comparison.
    fn significance(&self) -> Option<f64> {
        let contrast = self.contrast.as_ref()?;
        // two constants that are equal are no question
        Some(if contrast.is_same() { 1.0 } else { (self.tested.adjusted * ERROR / HALF).min(1.0) })
    }

    /// `None` also where it may be noise and may as well be many times: the windows swing too
    /// much to tell "no difference" from a large one.
    fn is_noise(&self) -> Option<bool> {
        let noise = self.significance()? >= ERROR;
        (!noise || !self.is_open()).then_some(noise)
    }

    /// The second mean may be both a small part and many times of the first.
    fn is_open(&self) -> bool {
        let ratio = self.contrast.as_ref().and_then(|c| c.ratio(self.tested.level));
        ratio.is_some_and(|(low, high)| high > OPEN * OPEN * low)
    }
}

/// Holds the second window against the first.
pub fn compare(first: &CounterWindow, second: &CounterWindow, before: Verdict, after: Verdict) -> WindowComparison {
    let (mut counters, mut questions) = rows(first, second);
    let picked = load::AnswerRows::of(&counters, &before, &after);
    let mut asked: Vec<Question> = vec![load::read_share(first, second, &picked)];
    let equal = picked.response.map(|row| equal::compare(first, second, &counters[row]));
    asked.push(Question::of(equal.as_ref().and_then(|e| Some(e.as_ref().ok()?.contrast))));
    picked.rows().for_each(|row| questions[row].leads = true);
    asked.iter_mut().for_each(|q| q.leads = true);
    let rows = questions.len();
    questions.append(&mut asked);
    let count = judge(&mut questions);
    for (row, question) in counters.iter_mut().zip(&questions) {
        fill(row, question);
    }
    let (share, at_equal) = (&questions[rows], &questions[rows + 1]);
    let told = load::AnswerQuantities::of(&counters, &picked, share);
    let equal = equal.map(|e| e.map(|e| e.told(at_equal)));
    let (equal_load, equal_load_missing) = match equal {
        Some(Ok(equal)) => (Some(equal), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    let outcome = outcome::outcome(&told, equal_load.as_ref(), &before, &after);
    let mut comparison = WindowComparison {
        schema: SCHEMA,
        outcome,
        sentence: String::new(),
        load: told.load,
        mix: told.mix,
        response: told.response,
        equal_load,
        equal_load_missing,
        goals: told.goals,
        questions: count,
        counters,
        only_before: only(first, second),
        only_after: only(second, first),
        left_out: first.left_out + second.left_out,
        before,
        after,
    };
    comparison.sentence = words::sentence(&comparison);
    comparison
}

/// Tests all questions, those that lead apart from the others, and says how many
/// there were. The same difference under two names is one question.
fn judge(questions: &mut [Question]) -> usize {
    let key = |q: &Question| q.contrast.as_ref().map(|c| c.chance().to_bits());
    let same = |q: &Question| q.chance() > 0.0 && q.chance() < 1.0;
    let leading: HashSet<u64> = questions.iter().filter(|q| q.leads && same(q)).filter_map(key).collect();
    for question in questions.iter_mut().filter(|q| same(q)) {
        question.leads |= key(question).is_some_and(|k| leading.contains(&k));
    }
    let mut count = 0;
    for leads in [true, false] {
        let mut place_of: HashMap<u64, usize> = HashMap::new();
        let mut chances: Vec<f64> = Vec::new();
        let places: Vec<usize> = questions
            .iter()
            .map(|q| {
                let chance = if q.leads == leads { q.chance() } else { f64::NAN };
                let known = place_of.get(&chance.to_bits()).copied().filter(|_| same(q) && !chance.is_nan());
                known.unwrap_or_else(|| {
                    chances.push(chance);
                    place_of.insert(chance.to_bits(), chances.len() - 1);
                    chances.len() - 1
                })
            })
            .collect();
        let results = tested(&chances, HALF);
        for (question, place) in questions.iter_mut().zip(places).filter(|(q, _)| q.leads == leads) {
            question.tested = results[place];
        }
        count += chances.iter().filter(|c| !c.is_nan()).count();
    }
    count
}

/// Puts the judgement into a row.
fn fill(row: &mut ComparisonRow, question: &Question) {
    let Some(contrast) = &question.contrast else { return };
    let (low, high) = contrast.difference(question.tested.level);
    if contrast.is_same() {
        row.difference = 0.0;
    }
    row.significance = question.significance();
    row.noise = question.is_noise();
    row.level = Some(question.tested.level);
    if row.noise.is_none() {
        return;
    }
    // so few independent values may leave an end open
    let closed = |v: f64| Some(v).filter(|v| v.is_finite());
    (row.difference_low, row.difference_high) = (closed(low), closed(high));
    let ratio = contrast.ratio(question.tested.level);
    (row.ratio_low, row.ratio_high) = (ratio.and_then(|r| closed(r.0)), ratio.and_then(|r| closed(r.1)));
}

/// The counters of both windows, and for each whether they differ.
fn rows(first: &CounterWindow, second: &CounterWindow) -> (Vec<ComparisonRow>, Vec<Question>) {
    let (mut rows, mut questions) = (Vec::new(), Vec::new());
    for one in first.seen() {
        let Some(other) = second.of(&one.counter, &one.instance) else { continue };
        let (Some(a), Some(b)) = (one.measured(), other.measured()) else { continue };
        let bounds = bounds(&one.unit, &a, &b);
        let contrast = a.trust.as_ref().zip(b.trust.as_ref()).map(|(a, b)| Contrast::of(a, b, bounds));
        questions.push(Question::of(contrast));
        rows.push(ComparisonRow {
            counter: one.counter.clone(),
            instance: one.instance.clone(),
            unit: one.unit.clone(),
            before: MeanEstimate::of(a.mean, a.trust.as_ref(), bounds),
            after: MeanEstimate::of(b.mean, b.trust.as_ref(), bounds),
            difference: b.mean - a.mean,
            difference_low: None,
            difference_high: None,
            ratio: (a.mean != 0.0).then(|| b.mean / a.mean),
            ratio_low: None,
            ratio_high: None,
            level: None,
            significance: None,
            noise: None,
        });
    }
    (rows, questions)
}

/// What a counter can be, by what it was: nothing that was never below 0 can be,
/// and no share that was never above 1.
fn bounds(unit: &str, a: &WindowMean, b: &WindowMean) -> Bounds {
    let (low, high) = (a.ends.0.min(b.ends.0), a.ends.1.max(b.ends.1));
    match () {
        () if low < 0.0 => Bounds::NONE,
        () if unit == "fraction" && high <= 1.0 => Bounds::SHARE,
        () => Bounds::POSITIVE,
    }
}

/// What one window has and the other lacks or never had a value of.
fn only(of: &CounterWindow, without: &CounterWindow) -> Vec<CounterInstance> {
    let measured = |w: &CounterWindow| -> Vec<(String, String)> {
        let seen = w.seen().iter().filter(|s| s.measured().is_some());
        seen.map(|s| (s.counter.clone(), s.instance.clone())).collect()
    };
    let others: HashSet<_> = measured(without).into_iter().collect();
    let named = |(counter, instance): (String, String)| CounterInstance { counter, instance };
    measured(of).into_iter().filter(|key| !others.contains(key)).map(named).collect()
}
