//! Source of a host's history.

use diskwright_dashboard::{Alert, History};
use diskwright_diagnosis::Verdict;
use diskwright_report::heat_map::HeatChart;
use serde_json::Value;

/// Start and end of a stretch, nanoseconds since 1970 UTC.
pub type Stretch = (i64, i64);

/// A host, live or from logs.
pub trait HostSource: Send + Sync {
    /// Name of the host.
    fn name(&self) -> String;

    /// Prepares it for reading, which may take long the first time.
    ///
    /// # Errors
    /// Reason why it cannot be read, in words.
    fn prepare(&self) -> Result<(), String> {
        Ok(())
    }

    /// Opens a separate reader.
    ///
    /// # Errors
    /// Reason why it cannot be read.
    fn history(&self) -> Result<Box<dyn History + '_>, String>;

    /// Picks up what was recorded since the last call.
    ///
    /// # Errors
    /// Reason why it cannot be read.
    fn refresh(&self) -> Result<(), String>;

    /// True if the recording continues; for a log that has ended, once [`Self::refresh`] finds that it grows.
    fn is_live(&self) -> bool;

    /// The usual time between ticks, nanoseconds.
    fn interval_ns(&self) -> i64;

    /// Verdict on the whole log, if it is known already.
    fn verdict(&self) -> Option<Result<Verdict, String>> {
        None
    }

    /// Alerts of a stretch in addition to those in its history, and whether the whole log has been searched for them.
    fn alerts(&self, _stretch: Stretch) -> (Vec<Alert>, bool) {
        (Vec::new(), true)
    }

    /// True if bookmarks can be set.
    fn can_set_bookmarks(&self) -> bool;

    /// Sets a bookmark.
    ///
    /// # Errors
    /// Reason why it cannot be stored.
    fn set_bookmark(&self, time_ns: i64, text: &str) -> Result<(), String>;

    /// HTML page of `report` about a stretch.
    ///
    /// # Errors
    /// Reason why there is none.
    fn report_page(&self, stretch: Stretch) -> Result<String, String>;

    /// Distributions of latency over a stretch.
    ///
    /// # Errors
    /// Reason why they cannot be read.
    fn heat_charts(&self, stretch: Stretch) -> Result<Vec<HeatChart>, String>;

    /// Comparison of two stretches: `diskwright.compare/1`.
    ///
    /// # Errors
    /// Reason why they cannot be compared.
    fn compare_stretches(&self, first: Stretch, second: Stretch) -> Result<Value, String>;
}
