//! Which requirement to relax if no design meets a demand: one at a time, or else two, by how much, and which designs
//! that gives.

use std::borrow::Cow;

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{format_count, format_value};
use diskwright_simulator::ArrayLevel;

use crate::answer::{AlsoRelaxed, Relaxation};
use crate::controller_path::{ControllerOffer, find_controllers};
use crate::demand::{Demand, ResponseTarget};
use crate::design_part::{DesignPart, add_allowed_volumes, list_parts};
use crate::limits::{MAX_DRIVES, PartFilter, PlanLimits};
use crate::plan_context::PlanContext;
use crate::search::{is_any_feasible, search_without_reasons};
use crate::short_list::{ShortList, simulate_short_list};

/// Largest factor by which a requirement is relaxed.
const MAX_FACTOR: f64 = 1e4;
/// The search ends when the bounds of the factor are this close: their ratio.
const FACTOR_PRECISION: f64 = 1.02;
/// Factor of each step by which the simulation corrects what the analysis found.
const STEP_FACTOR: f64 = 1.03;
/// Maximum number of such steps.
const MAX_STEPS: i32 = 8;

/// A demand and its limits, as they are or relaxed.
#[derive(Clone)]
struct Requirements<'a> {
    /// Parts and simulations, which do not depend on the requirements.
    base: &'a PlanContext<'a>,
    demand: Demand,
    limits: PlanLimits,
    change: PartsChange,
}

/// What the relaxed requirements change in the list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PartsChange {
    /// Nothing.
    None,
    /// Volumes have other sizes, or other numbers.
    Volumes,
    /// Other drives are allowed.
    All,
}

/// The first design that meets a demand.
struct FirstDesign {
    /// Its title.
    title: String,
    /// Its cost over the mission, if known.
    cost: Option<f64>,
    /// Number of designs that meet the demand in the analysis.
    designs: usize,
}

/// A requirement with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Response,
    Capacity,
    Budget,
    Loss,
    MaxDrives,
}

/// Requirements that are relaxed in pairs.
const MEASURES: [Measure; 5] =
    [Measure::Response, Measure::Capacity, Measure::Budget, Measure::Loss, Measure::MaxDrives];
/// Largest number of pairs that are told.
const MAX_PAIRS: usize = 3;

/// Returns the relaxations that give designs, the smallest first, then those of lists. If none alone does, pairs.
pub(crate) fn find_relaxations(context: &PlanContext<'_>) -> Vec<Relaxation> {
    let (demand, limits) = (context.demand.clone(), context.limits.clone());
    let base = Requirements { base: context, demand, limits, change: PartsChange::None };
    let mut found: Vec<Relaxation> =
        MEASURES.into_iter().filter_map(|measure| measure.find_relaxation(&base)).collect();
    found.sort_by(|a, b| a.factor.unwrap_or(f64::MAX).total_cmp(&b.factor.unwrap_or(f64::MAX)));
    found.extend(relax_levels(&base));
    found.extend(relax_names(&base));
    if found.is_empty() { relax_pairs(&base) } else { found }
}

/// Relaxes two requirements together, the smallest changes first: the first by as little as it takes with the second
/// given up, then the second by as little as it takes beside the first.
fn relax_pairs(base: &Requirements<'_>) -> Vec<Relaxation> {
    let pairs = MEASURES.iter().flat_map(|first| MEASURES.iter().map(move |second| (*first, *second)));
    let pairs = pairs.filter(|(first, second)| first != second);
    let mut found: Vec<Relaxation> =
        pairs.filter_map(|(first, second)| first.find_pair_relaxation(second, base)).collect();
    let change = |relaxation: &Relaxation| {
        relaxation.factor.unwrap_or(1.0) * relaxation.also.as_ref().map_or(1.0, |also| also.factor)
    };
    found.sort_by(|a, b| change(a).total_cmp(&change(b)));
    // of a pair in both orders, the smaller change
    let mut known: Vec<[&str; 2]> = Vec::new();
    found.retain(|relaxation| {
        let mut names = [relaxation.requirement, relaxation.also.as_ref().map_or("", |also| also.requirement)];
        names.sort_unstable();
        let is_new = !known.contains(&names);
        known.push(names);
        is_new
    });
    found.truncate(MAX_PAIRS);
    found
}

impl Requirements<'_> {
    /// True if a design meets them in the analysis.
    fn are_met(&self) -> bool {
        self.with_context(&self.limits, |context| is_any_feasible(context.judging_inputs()).then_some(())).is_some()
    }

    /// Returns the cheapest design that meets them, also in the simulation.
    fn first_design(&self) -> Option<FirstDesign> {
        let limits = PlanLimits { list_length: 1, ..self.limits.clone() };
        self.with_context(&limits, |context| {
            let mut outcome = search_without_reasons(context.judging_inputs());
            let ShortList { list, .. } = simulate_short_list(context, &mut outcome);
            let first = list.first()?;
            Some(FirstDesign { title: context.design_title(first), cost: first.cost, designs: outcome.feasible.len() })
        })
    }

    /// Passes the inputs of a search to `ask`; `None` if the limits exclude everything.
    fn with_context<T>(&self, limits: &PlanLimits, ask: impl FnOnce(&PlanContext<'_>) -> Option<T>) -> Option<T> {
        let (base, demand) = (self.base, &self.demand);
        limits.check_consistency().ok()?;
        let drive_count = base.parts.iter().take_while(|part| part.volume.is_none()).count();
        let (parts, offers, shared_parts): (Cow<'_, [DesignPart]>, Cow<'_, [ControllerOffer]>, usize) =
            match self.change {
                PartsChange::None => (base.parts.into(), base.offers.into(), base.parts.len()),
                PartsChange::Volumes => {
                    let mut parts = base.parts.get(..drive_count)?.to_vec();
                    add_allowed_volumes(demand, limits, &mut parts).ok()?;
                    (parts.into(), base.offers.into(), drive_count)
                }
                PartsChange::All => (list_parts(demand, limits).ok()?.into(), find_controllers(limits).ok()?.into(), 0),
            };
        let simulations = base.simulations;
        ask(&PlanContext { demand, limits, parts: &parts, offers: &offers, simulations, shared_parts })
    }
}

impl Measure {
    /// Its value; `None` if it is not required.
    fn required_value(self, base: &Requirements<'_>) -> Option<f64> {
        match self {
            Measure::Response => base.demand.response.map(|target| target.target_s),
            Measure::Capacity => base.demand.capacity_bytes,
            Measure::Budget => base.limits.budget,
            Measure::Loss => base.limits.max_loss,
            Measure::MaxDrives => Some(f64::from(base.limits.max_drives)),
        }
    }

    /// Largest factor by which it may be relaxed.
    fn max_factor(self, now: f64) -> f64 {
        match self {
            Measure::Loss => 1.0 / now,
            Measure::MaxDrives => f64::from(MAX_DRIVES) / now,
            _ => MAX_FACTOR,
        }
    }

    /// The value relaxed by a factor, as it would be typed.
    fn relaxed_value(self, now: f64, factor: f64) -> f64 {
        match self {
            Measure::Capacity => -round_up(-now / factor),
            Measure::MaxDrives => (now * factor).ceil().min(f64::from(MAX_DRIVES)),
            Measure::Budget => round_up(now * factor).ceil(),
            Measure::Loss => round_up(now * factor).min(1.0),
            Measure::Response => round_up(now * factor),
        }
    }

    /// The requirements with another value of this one.
    fn with_value<'a>(self, base: &Requirements<'a>, value: f64) -> Requirements<'a> {
        let Requirements { base, mut demand, mut limits, change } = base.clone();
        let change = change.max(match self {
            Measure::Capacity | Measure::MaxDrives => PartsChange::Volumes,
            Measure::Response | Measure::Budget | Measure::Loss => PartsChange::None,
        });
        match self {
            Measure::Response => {
                demand.response = demand.response.map(|target| ResponseTarget { target_s: value, ..target });
            }
            Measure::Capacity => demand.capacity_bytes = Some(value),
            Measure::Budget => limits.budget = Some(value),
            Measure::Loss => limits.max_loss = Some(value),
            Measure::MaxDrives => limits.max_drives = value as u16,
        }
        Requirements { base, demand, limits, change }
    }

    /// Finds the smallest relaxation of this requirement alone that gives a design.
    fn find_relaxation(self, base: &Requirements<'_>) -> Option<Relaxation> {
        let now = self.required_value(base)?;
        let max_factor = self.max_factor(now);
        let relaxed = |factor: f64| self.with_value(base, self.relaxed_value(now, factor));
        let factor = smallest_factor(max_factor, |factor| relaxed(factor).are_met())?;
        let attempt = |factor: f64| Some((factor, relaxed(factor).first_design()?));
        // the simulation may need more than the analysis, or meet less
        let mut steps = (0..=MAX_STEPS).map(|step| (factor * STEP_FACTOR.powi(step)).min(max_factor));
        let mut best = steps.find_map(attempt)?;
        for _ in 0..MAX_STEPS {
            let less = best.0 / STEP_FACTOR;
            let better = (best.0 <= factor && less > 1.0).then(|| attempt(less)).flatten();
            let Some(better) = better else { break };
            best = better;
        }
        let (factor, first) = best;
        Some(self.describe_relaxation(base, now, self.relaxed_value(now, factor), first))
    }

    /// Finds the smallest relaxation of this requirement that gives a design if another one is relaxed too, and that of
    /// the other one beside it.
    fn find_pair_relaxation(self, other: Measure, base: &Requirements<'_>) -> Option<Relaxation> {
        let (now, other_now) = (self.required_value(base)?, other.required_value(base)?);
        let (most, other_most) = (self.max_factor(now), other.max_factor(other_now));
        let relaxed = |factor: f64, other_factor: f64| {
            let one = self.with_value(base, self.relaxed_value(now, factor));
            other.with_value(&one, other.relaxed_value(other_now, other_factor))
        };
        let factor = smallest_factor(most, |factor| relaxed(factor, other_most).are_met())?;
        let other_factor = smallest_factor(other_most, |other_factor| relaxed(factor, other_factor).are_met())?;
        // the simulation may need more than the analysis
        let mut steps = (0..=MAX_STEPS).map(|step| {
            let step = STEP_FACTOR.powi(step);
            ((factor * step).min(most), (other_factor * step).min(other_most))
        });
        let (factor, other_factor, first) =
            steps.find_map(|(factor, other)| Some((factor, other, relaxed(factor, other).first_design()?)))?;
        let needed = self.relaxed_value(now, factor);
        let other_needed = other.relaxed_value(other_now, other_factor);
        let also = AlsoRelaxed {
            requirement: other.name(),
            now: other_now,
            needed: other_needed,
            factor: other.factor(other_now, other_needed),
            option: other.option_text(other_needed),
        };
        let sentence = format!(
            "{}, and {}: with {} and {}, {}",
            self.subject(base, now),
            other.subject(base, other_now),
            self.show_value(base, needed),
            other.show_value(base, other_needed),
            first.describe_designs(&base.limits.currency)
        );
        Some(Relaxation { also: Some(also), ..self.new_relaxation(now, needed, first, sentence) })
    }

    /// Its name in JSON.
    fn name(self) -> &'static str {
        match self {
            Measure::Response => "response",
            Measure::Capacity => "capacity",
            Measure::Budget => "budget",
            Measure::Loss => "loss",
            Measure::MaxDrives => "max_drives",
        }
    }

    /// The option that sets a value.
    fn option_text(self, value: f64) -> String {
        match self {
            Measure::Response if value < 1e-3 => format!("--response {}us", format_plain(value * 1e6)),
            Measure::Response => format!("--response {}ms", format_plain(value * 1e3)),
            Measure::Capacity => format!("--capacity {}GB", format_plain(value / 1e9)),
            Measure::Budget => format!("--budget {value}"),
            Measure::Loss => format!("--max-loss {}%", format_plain(value * 100.0)),
            Measure::MaxDrives => format!("--max-drives {value}"),
        }
    }

    /// A value for people.
    fn show_value(self, base: &Requirements<'_>, value: f64) -> String {
        match self {
            Measure::Response => format_value(value, "s"),
            Measure::Capacity => ByteSize::capacity(value).to_string(),
            Measure::Budget => format!("{value:.0} {}", base.limits.currency),
            Measure::Loss => format!("{} %", format_plain(value * 100.0)),
            Measure::MaxDrives => format_count(value as u64, "drive", "drives"),
        }
    }

    /// The requirement with its value.
    fn subject(self, base: &Requirements<'_>, now: f64) -> String {
        let shown = self.show_value(base, now);
        match self {
            Measure::Response => {
                let statistic = base.demand.response.map_or("mean", |target| target.statistic.name());
                format!("{statistic} response of {shown}")
            }
            Measure::Capacity => format!("capacity of {shown}"),
            Measure::Budget => format!("budget of {shown}"),
            Measure::Loss => format!("chance of losing data of at most {shown}"),
            Measure::MaxDrives => format!("at most {shown}"),
        }
    }

    /// By how much it is relaxed.
    fn factor(self, now: f64, needed: f64) -> f64 {
        if self == Measure::Capacity { now / needed } else { needed / now }
    }

    fn describe_relaxation(self, base: &Requirements<'_>, now: f64, needed: f64, first: FirstDesign) -> Relaxation {
        let sentence = format!(
            "{}: with {}, {}",
            self.subject(base, now),
            self.show_value(base, needed),
            first.describe_designs(&base.limits.currency)
        );
        self.new_relaxation(now, needed, first, sentence)
    }

    fn new_relaxation(self, now: f64, needed: f64, first: FirstDesign, sentence: String) -> Relaxation {
        Relaxation {
            requirement: self.name(),
            now: Some(now),
            needed: Some(needed),
            factor: Some(self.factor(now, needed)),
            option: Some(self.option_text(needed)),
            also: None,
            designs: first.designs,
            design: first.title,
            cost: first.cost,
            sentence,
        }
    }
}

/// Relaxes the levels by one more, those with redundancy first.
fn relax_levels(base: &Requirements<'_>) -> Option<Relaxation> {
    let all = [
        ArrayLevel::Raid1,
        ArrayLevel::Raid10,
        ArrayLevel::Raid5,
        ArrayLevel::Raid6,
        ArrayLevel::Raid0,
        ArrayLevel::Linear,
    ];
    let missing = all.into_iter().filter(|level| !base.limits.levels.contains(level));
    missing.into_iter().find_map(|level| {
        let mut relaxed = base.clone();
        relaxed.limits.levels.push(level);
        let first = relaxed.are_met().then(|| relaxed.first_design()).flatten()?;
        let names: Vec<&str> = relaxed.limits.levels.iter().map(|level| level.name()).collect();
        let safety = match level {
            ArrayLevel::Raid0 | ArrayLevel::Linear => " (which loses data when the first drive fails)",
            _ => "",
        };
        let now: Vec<&str> = base.limits.levels.iter().map(|level| level.name()).collect();
        let sentence = format!(
            "levels {}: with {} as well{safety}, {}",
            now.join(", "),
            level.name(),
            first.describe_designs(&base.limits.currency)
        );
        Some(name_relaxation("levels", Some(format!("--levels {}", names.join(","))), first, sentence))
    })
}

/// Leaves out each list of names, or the instance.
fn relax_names(base: &Requirements<'_>) -> Vec<Relaxation> {
    let limits = &base.limits;
    let kinds: Vec<String> = limits.only.iter().map(PartFilter::name).collect();
    let alternatives = [
        ("only", format!("--only {}", kinds.join(",")), PlanLimits { only: Vec::new(), ..limits.clone() }),
        (
            "drives",
            format!("--drives {}", limits.drives.join(",")),
            PlanLimits { drives: Vec::new(), ..limits.clone() },
        ),
        (
            "instance",
            format!("--instance {}", limits.instance.as_deref().unwrap_or_default()),
            PlanLimits { instance: None, ..limits.clone() },
        ),
    ];
    let is_given = [!limits.only.is_empty(), !limits.drives.is_empty(), limits.instance.is_some()];
    let given = alternatives.into_iter().zip(is_given).filter(|(_, is_given)| *is_given);
    given
        .filter_map(|((requirement, option, limits), _)| {
            let relaxed = Requirements { limits, change: PartsChange::All, ..base.clone() };
            let first = relaxed.are_met().then(|| relaxed.first_design()).flatten()?;
            let sentence = format!("without {option}: {}", first.describe_designs(&base.limits.currency));
            Some(name_relaxation(requirement, None, first, sentence))
        })
        .collect()
}

fn name_relaxation(
    requirement: &'static str,
    option: Option<String>,
    first: FirstDesign,
    sentence: String,
) -> Relaxation {
    Relaxation {
        requirement,
        now: None,
        needed: None,
        factor: None,
        option,
        also: None,
        designs: first.designs,
        design: first.title,
        cost: first.cost,
        sentence,
    }
}

impl FirstDesign {
    /// `12 designs, the cheapest raid10 of 4 x hus726t6tale6l4 (547 USD)`.
    fn describe_designs(&self, currency: &str) -> String {
        let cost = self.cost.map_or("price unknown".to_owned(), |cost| format!("{cost:.0} {currency}"));
        let (title, designs) = (&self.title, self.designs.max(1));
        match designs {
            1 => format!("one design: {title} ({cost})"),
            _ => format!("{designs} designs, the first {title} ({cost})"),
        }
    }
}

/// Finds the smallest factor above 1 that is enough, by bisection; `None` if the largest is not.
fn smallest_factor(max_factor: f64, is_enough: impl Fn(f64) -> bool) -> Option<f64> {
    if max_factor.is_nan() || max_factor <= 1.0 || !is_enough(max_factor) {
        return None;
    }
    let (mut fails, mut works) = (1.0_f64, max_factor);
    while works / fails > FACTOR_PRECISION {
        let middle = (fails * works).sqrt();
        if is_enough(middle) { works = middle } else { fails = middle }
    }
    Some(works)
}

/// Rounds up to three significant digits; a negative number toward 0.
fn round_up(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().log10().floor() - 2.0);
    // a value of three digits stays, although it is a fraction
    (value / unit - 1e-9).ceil() * unit
}

/// A number of at most three digits as an option takes it.
fn format_plain(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::ResponseStatistic;
    use crate::plan_context::SimulationCache;
    use crate::prices::built_in_prices;
    use crate::search::search_designs;

    /// Asking only whether a design exists, and searching without reasons, have the answers of the whole search.
    #[test]
    fn short_searches_agree_with_the_whole_one() {
        let demand = Demand { capacity_bytes: Some(4e12), ..Demand::from_rates(300.0, 100.0, 8192.0) };
        let (mut met, mut unmet) = (0, 0);
        for only in [PartFilter::Hdd, PartFilter::Provider("aws".into())] {
            let limits = PlanLimits {
                only: vec![only],
                max_drives: 8,
                spares: vec![0],
                ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23")
            };
            for (ms, budget) in [(0.05, None), (5.0, None), (9.0, None), (30.0, None), (30.0, Some(1.0))] {
                let response = Some(ResponseTarget { target_s: ms * 1e-3, statistic: ResponseStatistic::Mean });
                let (demand, limits) = (Demand { response, ..demand.clone() }, PlanLimits { budget, ..limits.clone() });
                let parts = list_parts(&demand, &limits).expect("parts");
                let context = PlanContext {
                    demand: &demand,
                    limits: &limits,
                    parts: &parts,
                    offers: &[],
                    simulations: &SimulationCache::default(),
                    shared_parts: parts.len(),
                };
                let whole = search_designs(&demand, &limits, &parts, &[]);
                let short = search_without_reasons(context.judging_inputs());
                assert_eq!(format!("{:?}", short.feasible), format!("{:?}", whole.feasible));
                let doubtful = |outcome: &crate::search::SearchOutcome| {
                    let failures = outcome.failing.iter().filter_map(|judged| judged.failure.clone());
                    failures.filter(|failure| failure.limit == crate::judged_design::RESPONSE_LIMIT).collect::<Vec<_>>()
                };
                assert_eq!(doubtful(&short), doubtful(&whole));
                assert_eq!(is_any_feasible(context.judging_inputs()), !whole.feasible.is_empty(), "{ms} ms");
                if whole.feasible.is_empty() { unmet += 1 } else { met += 1 }
            }
        }
        assert!(met >= 3 && unmet >= 3, "{met} met, {unmet} not");
    }

    #[test]
    fn the_smallest_factor_is_found() {
        let found = smallest_factor(1e4, |factor| factor >= 3.05).expect("one is enough");
        assert!((3.05..=3.05 * FACTOR_PRECISION).contains(&found), "{found}");
        assert_eq!(smallest_factor(1e4, |_| false), None);
        assert_eq!(smallest_factor(1.0, |_| true), None);
        for (value, rounded) in [(6.0801e-3, 6.09e-3), (0.002, 0.002), (1234.0, 1240.0), (-1239.0, -1230.0)] {
            assert!((round_up(value) / rounded - 1.0).abs() < 1e-9, "{value}: {}", round_up(value));
        }
        assert_eq!((format_plain(6.1), format_plain(100.0)), ("6.1".into(), "100".into()));
    }
}
