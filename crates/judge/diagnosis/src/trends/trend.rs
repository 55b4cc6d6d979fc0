//! The trend of a quantity, as verdicts report it.

use diskwright_base::catalogue::display_unit;
use serde::Serialize;

use crate::culprits::GrowingProgram;
use crate::rules::Bottleneck;

/// Trend of a judged quantity of an instance.
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
    /// The rule whose limit is compared: the next to be crossed.
    pub rule: String,
    /// Statement of the rule.
    pub title: String,
    /// Bottleneck that the rule points at.
    pub bottleneck: Bottleneck,
    /// `above`, `at_least`, `below` or `at_most`.
    pub compare: &'static str,
    /// The rule's limit.
    pub limit: f64,
    /// `line`, `step` or `flat`: the shape that describes it best.
    pub shape: TrendShape,
    /// The level at the end of the window: the line's value there, the mean since the step, or the mean of all.
    pub now: f64,
    /// Growth per day of the straight line.
    pub slope_per_day: f64,
    /// Lower end of the slope's 95 % interval; `null` where it is unknown.
    pub slope_low: Option<f64>,
    /// Upper end of that interval.
    pub slope_high: Option<f64>,
    /// P-value: the probability that noise alone gives such a slope anywhere in the log.
    pub slope_significance: f64,
    /// Time at which the line crosses the limit, RFC 3339; only for a `line`.
    pub crosses: Option<String>,
    /// Earliest crossing by the interval, RFC 3339.
    pub crosses_earliest: Option<String>,
    /// Latest crossing by the interval; `null` where the slope may be zero.
    pub crosses_latest: Option<String>,
    /// The step, where there is one.
    pub step: Option<TrendStep>,
    /// The rhythm that explains most, where there is one.
    pub rhythm: Option<TrendRhythm>,
    /// All rhythms, those that explain most first.
    pub rhythms: Vec<TrendRhythm>,
    /// True if the trend is significant and large enough to be shown.
    pub matters: bool,
    /// The program whose memory grew most, if memory is what runs out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growing: Option<GrowingProgram>,
    /// The quantity over the window in at most 60 points, `null` for a gap; empty where nothing significant was found.
    pub series: Vec<Option<f64>>,
}

impl Trend {
    /// Unit in which screens show the values; see [`display_unit`].
    pub fn display_unit(&self) -> &str {
        display_unit(&self.counter, &self.unit)
    }
}

/// Shape that describes a series best.
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
    /// Time of the step, RFC 3339.
    #[serde(rename = "at")]
    pub time: String,
    /// Mean before it.
    pub before: f64,
    /// Mean after it.
    pub after: f64,
    /// P-value: the probability that noise alone gives such a step anywhere in the log.
    pub significance: f64,
}

/// A rhythm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendRhythm {
    /// `day`, `week` or `other`.
    pub period: &'static str,
    /// Its length, seconds.
    pub period_s: f64,
    /// Number of periods in the window.
    pub times: f64,
    /// Share of the variance about the trend that it explains.
    pub share: f64,
    /// Time of the peak: `14:00` (UTC), a day of the week, or the first peak in the window, RFC 3339.
    pub peak: String,
    /// Difference between its highest and its lowest part.
    pub swing: f64,
    /// P-value: the probability that noise alone gives such a rhythm anywhere in the log.
    pub significance: f64,
}
