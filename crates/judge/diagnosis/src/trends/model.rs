//! What is told of a trend.

use serde::Serialize;

use crate::rule::Bottleneck;

/// Where a judged quantity of an instance is heading.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// The leading counter's id.
    pub counter: String,
    /// The quantity in full.
    pub quantity: String,
    /// Instance; empty for the machine.
    pub instance: String,
    /// Unit of all values.
    pub unit: String,
    /// The rule whose limit is looked at: the next to be crossed.
    pub rule: String,
    /// What the rule says when it holds.
    pub title: String,
    /// What the rule blames.
    pub bottleneck: Bottleneck,
    /// `above`, `at_least`, `below` or `at_most`.
    pub compare: &'static str,
    /// The rule's limit.
    pub limit: f64,
    /// `line`, `step` or `flat`: what describes it best.
    pub shape: TrendShape,
    /// The level at the window's end: of the line, since the step, or the mean.
    pub now: f64,
    /// Growth a day of the straight line.
    pub slope_per_day: f64,
    /// Lower end of its 95 % interval; `null` where nothing can be said.
    pub slope_low: Option<f64>,
    /// Upper end.
    pub slope_high: Option<f64>,
    /// Chance that noise alone gives such a slope somewhere in the log.
    pub slope_significance: f64,
    /// When the line crosses the limit, RFC 3339; only for a `line`.
    pub crosses: Option<String>,
    /// Not before this moment, by the interval.
    pub crosses_earliest: Option<String>,
    /// Not after this one; `null` where the slope could be none.
    pub crosses_latest: Option<String>,
    /// The step, where there is one.
    pub step: Option<TrendStep>,
    /// The rhythm that explains most, where there is one.
    pub rhythm: Option<TrendRhythm>,
    /// All of them, those that explain most first.
    pub rhythms: Vec<TrendRhythm>,
    /// Significant and large enough to be told on the screen.
    pub matters: bool,
    /// The quantity over the window in at most 60 points, `null` for a gap;
    /// empty where nothing significant was found.
    pub series: Vec<Option<f64>>,
}

/// What describes a series best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrendShape {
    /// It grows or falls steadily.
    Line,
    /// It changed its level once.
    Step,
    /// Nothing but noise, or a rhythm.
    Flat,
}

/// A change of level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendStep {
    /// When, RFC 3339.
    pub at: String,
    /// Mean until then.
    pub before: f64,
    /// Mean since then.
    pub after: f64,
    /// Chance that noise alone looks like it somewhere in the log.
    pub significance: f64,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendRhythm {
    /// `day`, `week` or `other`.
    pub period: &'static str,
    /// Its length, seconds.
    pub period_s: f64,
    /// How often the window holds it.
    pub times: f64,
    /// Share of the variance about the trend that it explains.
    pub share: f64,
    /// When it is highest: `14:00` (UTC), a day of the week, or the first time
    /// in the window, RFC 3339.
    pub peak: String,
    /// How far its highest part lies above the lowest.
    pub swing: f64,
    /// Chance that noise alone looks like it somewhere in the log.
    pub significance: f64,
}
