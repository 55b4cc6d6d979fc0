//! Alerts: rules that held for their hold time, each with its beginning, end, peak, culprits and next step.
//!
//! - `rules`: the alert rules, from `rules/alerts.toml` and a user's file
//! - `engine`: turns ticks into alerts; `hold_tracker`: one rule at one instance; `recent_verdict`: the verdict on the
//!   most recent ticks; `blame_history`: what the last verdicts blamed
//! - `alert`, `alert_text`: the alert and its texts

mod alert;
mod alert_text;
mod blame_history;
mod engine;
mod event_alerts;
mod hold_tracker;
mod recent_verdict;
pub mod rules;
mod silenced_cause;

pub use alert::{Alert, AlertPeak, AlternatedBottleneck, RESTATE_INTERVAL_NS, SCHEMA, alert_from_note, merge_alert};
pub use engine::{AlertChange, AlertEngine, AlertEvent};
