//! Alerts: rules that held for their time, each with its begin, end, peak, culprit and next step.
//!
//! - `rules`: which there are, from `rules/alerts.toml` and a user's file
//! - `engine`: from ticks to alerts; `lane`: one rule at one instance; `verdicts`: the verdict on the last moments
//! - `alert`, `telling`: what an alert is and says

mod alert;
mod engine;
mod lane;
pub mod rules;
mod telling;
mod verdicts;

pub use alert::{Alert, AlertPeak, RESTATED_NS, SCHEMA, merge, of_note};
pub use engine::{AlertChange, AlertEngine, AlertEvent};
