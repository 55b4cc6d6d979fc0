//! Alerts: rules that held for their time, each with its begin, end, peak, culprit and next step.
//!
//! - `rules`: the alert rules, from `rules/alerts.toml` and a user's file
//! - `engine`: turns ticks into alerts; `hold_tracker`: one rule at one instance; `recent_verdict`: the verdict on the
//!   most recent ticks
//! - `alert`, `alert_text`: the alert and its texts

mod alert;
mod engine;
mod lane;
pub mod rules;
mod telling;
mod verdicts;

pub use alert::{Alert, AlertPeak, RESTATED_NS, SCHEMA, merge, of_note};
pub use engine::{AlertChange, AlertEngine, AlertEvent};
