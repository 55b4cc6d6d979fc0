//! Counter names in rules: resolves short names, with units and suggestions for mistyped names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use diskwright_base::user_input::did_you_mean;
use diskwright_base::{Catalogue, CounterKind};
use serde::{Serialize, Serializer};

use crate::rules::pseudo_counters::{self, PSEUDO_COUNTERS, Pseudo};

/// A counter that a rule names, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleCounter {
    /// Object, as in the catalogue, or `machine`.
    pub object: String,
    /// Full id, such as `physical_disk.busy` or `machine.waiting`.
    pub id: String,
    /// Unit, as in the catalogue.
    pub unit: String,
    /// The pseudo counter; `None` for a counter of the catalogue.
    pub pseudo: Option<Pseudo>,
    /// True for an amount per tick, which is summed over ticks instead of averaged.
    pub is_total: bool,
}

impl Serialize for RuleCounter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id)
    }
}

impl RuleCounter {
    /// Resolves `text` in a rule on `object`: a counter of the object, a pseudo counter of it, or a full id. The error
    /// is a sentence with a suggestion.
    pub fn resolve_name(object: &str, text: &str) -> Result<RuleCounter, String> {
        RuleCounter::find_name(object, text).ok_or_else(|| {
            let suggestion = did_you_mean(text, candidate_names(object).iter().map(String::as_str));
            format!("unknown counter `{text}`{suggestion}")
        })
    }

    /// Like [`RuleCounter::resolve_name`], without the suggestion, which takes long to find.
    pub fn find_name(object: &str, text: &str) -> Option<RuleCounter> {
        RuleCounter::from_id(&format!("{object}.{text}")).or_else(|| RuleCounter::from_id(text))
    }

    /// True where the value describes the whole window.
    pub fn is_window_value(&self) -> bool {
        self.pseudo.is_some_and(Pseudo::is_window_value)
    }

    fn from_id(id: &str) -> Option<RuleCounter> {
        let (object, short) = id.split_once('.')?;
        if let Some(entry) = pseudo_counters::find_pseudo_counter(object, short) {
            return Some(RuleCounter {
                object: object.into(),
                id: id.into(),
                unit: entry.unit.into(),
                pseudo: Some(entry.pseudo),
                is_total: false,
            });
        }
        let counter = Catalogue::builtin().get(id)?;
        // processes are not series: they come in tables and only name culprits
        (object != "process").then(|| RuleCounter {
            object: object.into(),
            id: id.into(),
            unit: counter.unit.clone(),
            pseudo: None,
            is_total: counter.kind == CounterKind::Total,
        })
    }
}

/// Candidates for a suggestion in a rule on `object`: its own short names, and all full ids.
fn candidate_names(object: &str) -> Vec<String> {
    let prefix = format!("{object}.");
    let pseudo = PSEUDO_COUNTERS.iter().flat_map(|p| p.objects.iter().map(move |o| format!("{o}.{}", p.name)));
    let ids: Vec<String> = Catalogue::builtin().counters().iter().map(|c| c.id.clone()).chain(pseudo).collect();
    let short = ids.iter().filter_map(|id| id.strip_prefix(&prefix)).map(str::to_owned).collect::<Vec<_>>();
    short.into_iter().chain(ids).collect()
}

/// Objects that a rule can be about.
pub fn rule_objects() -> &'static BTreeSet<&'static str> {
    static OBJECTS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        let known = Catalogue::builtin().counters().iter().map(|c| c.object_name());
        known.chain(["machine"]).filter(|o| *o != "process").collect()
    });
    &OBJECTS
}

/// Unit of `a / b`.
pub fn quotient_unit(a: &str, b: &str) -> String {
    if a == b {
        return "fraction".into();
    }
    match b {
        "" | "count" | "requests" => a.into(),
        "per_s" if a.ends_with("_per_s") => a.trim_end_matches("_per_s").into(),
        _ if a == format!("{b}_per_s") => "per_s".into(),
        _ => format!("{a}/{b}"),
    }
}

/// Unit of `a * b`.
pub fn product_unit(a: &str, b: &str) -> String {
    match (a, b) {
        ("" | "count" | "requests" | "fraction", other) | (other, "" | "count" | "requests" | "fraction") => {
            other.into()
        }
        ("s", "per_s") | ("per_s", "s") => "requests".into(),
        _ => format!("{a}*{b}"),
    }
}

/// True where values of the two units can be added or compared. Counts of spindles, requests and processes are
/// compatible.
pub fn are_comparable(a: &str, b: &str) -> bool {
    let comparable_unit = |unit: &str| match unit {
        "" | "count" | "requests" | "processes" => "count".to_owned(),
        "per_s" | "requests_per_s" | "pages_per_s" | "count_per_s" => "per_s".into(),
        other => other.to_owned(),
    };
    comparable_unit(a) == comparable_unit(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_full_names() {
        assert_eq!(RuleCounter::resolve_name("physical_disk", "reads").unwrap().id, "physical_disk.reads");
        assert_eq!(RuleCounter::resolve_name("machine", "physical_disk.reads").unwrap().id, "physical_disk.reads");
        let ceiling = RuleCounter::resolve_name("physical_disk", "ceiling.requests_per_s").unwrap();
        assert_eq!(ceiling.pseudo, Some(Pseudo::CeilingRequests));
        let wrong = RuleCounter::resolve_name("physical_disk", "avg_queue_lenght").unwrap_err();
        assert_eq!(wrong, "unknown counter `avg_queue_lenght`; did you mean `avg_queue_length`?");
        assert_eq!(RuleCounter::resolve_name("physical_disk", "xyzzy").unwrap_err(), "unknown counter `xyzzy`");
    }

    #[test]
    fn units_multiply_and_divide() {
        assert_eq!(quotient_unit("bytes_per_s", "per_s"), "bytes");
        assert_eq!(quotient_unit("per_s", "per_s"), "fraction");
        assert_eq!(quotient_unit("bytes", "count"), "bytes");
        assert_eq!(product_unit("requests", "s"), "s");
        assert!(are_comparable("count", "requests"));
        assert!(!are_comparable("s", "per_s"));
    }
}
