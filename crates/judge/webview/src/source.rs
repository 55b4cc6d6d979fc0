//! What is shown: a host's history, wherever it comes from.

use diskwright_dashboard::{Alert, History};
use diskwright_diagnosis::Verdict;
use diskwright_report::heat::HeatChart;
use serde_json::Value;

/// From when to when, nanoseconds since 1970 UTC.
pub type Stretch = (i64, i64);

/// A host, live or from logs.
pub trait HostSource: Send + Sync {
    /// What it is called.
    fn name(&self) -> String;

    /// Makes it ready to be read, which may take long the first time.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn prepare(&self) -> Result<(), String> {
        Ok(())
    }

    /// A reader of its own for each who asks.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn history(&self) -> Result<Box<dyn History + '_>, String>;

    /// Takes in what has come since.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn refresh(&self) -> Result<(), String>;

    /// True where the end moves; of a log that stands still, from when on [`Self::refresh`] finds that it grows.
    fn is_live(&self) -> bool;

    /// The usual time between ticks, nanoseconds.
    fn interval_ns(&self) -> i64;

    /// A verdict on all of it, where somebody has found it already.
    fn verdict(&self) -> Option<Result<Verdict, String>> {
        None
    }

    /// Alerts of a stretch beside those that its history holds, and whether all of it was looked through for them.
    fn alerts(&self, _stretch: Stretch) -> (Vec<Alert>, bool) {
        (Vec::new(), true)
    }

    /// True where bookmarks can be set.
    fn can_mark(&self) -> bool;

    /// Sets a bookmark.
    ///
    /// # Errors
    /// Why it cannot be kept.
    fn mark(&self, time_ns: i64, text: &str) -> Result<(), String>;

    /// The page of `report` about a stretch.
    ///
    /// # Errors
    /// Why there is none.
    fn report(&self, stretch: Stretch) -> Result<String, String>;

    /// Distributions of latency over a stretch.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn heat(&self, stretch: Stretch) -> Result<Vec<HeatChart>, String>;

    /// Two stretches beside each other: `diskwright.compare/1`.
    ///
    /// # Errors
    /// Why they cannot be compared.
    fn compare(&self, first: Stretch, second: Stretch) -> Result<Value, String>;
}
