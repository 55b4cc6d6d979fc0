//! Damage in the logs that a command reads, as it stands in every answer: `damage[]`, and `trimmed`.

use diskwright_datastore::{Damage, TrimSummary};
use diskwright_ingest::Losses;
use serde_json::{Value, json};

use super::{Failure, time_argument};

/// Fails if ticks are lost: for commands whose output replaces the log.
pub fn require_no_losses(losses: &Losses) -> Result<(), Failure> {
    if losses.has_no_lost_ticks() {
        return Ok(());
    }
    let sum = losses.format_sum();
    Err(Failure::Failed(format!("all readable ticks were written, but {sum} (see --allow-damage)")))
}

/// Returns `damage[]` of an answer.
pub fn damage_entries(losses: &Losses) -> Vec<Value> {
    let to_json = |damage: &Damage| {
        json!({
            "where": damage.describe_place(),
            "ticks_lost": damage.ticks,
            "because": damage.describe_cause(),
            "from": damage.after_ns.map(time_argument::rfc3339),
            "to": damage.before_ns.map(time_argument::rfc3339),
        })
    };
    let mut entries: Vec<Value> = losses.places().iter().map(to_json).collect();
    let (extra_places, extra_ticks) = losses.unlisted_places_and_ticks();
    if extra_places > 0 {
        entries.push(json!({
            "where": format!("{extra_places} further places"),
            "ticks_lost": extra_ticks,
            "because": "too many to list",
            "from": null,
            "to": null,
        }));
    }
    entries
}

/// Returns `trimmed` of an answer.
pub fn trimmed_json(trimmed: Option<TrimSummary>) -> Value {
    trimmed.map_or(Value::Null, |trimmed| {
        json!({
            "segments": trimmed.segments,
            "ticks": trimmed.ticks,
            "bytes": trimmed.bytes,
            "from": trimmed.range.map(|range| time_argument::rfc3339(range.0)),
            "to": trimmed.range.map(|range| time_argument::rfc3339(range.1)),
        })
    })
}
