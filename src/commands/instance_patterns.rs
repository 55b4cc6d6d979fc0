//! Patterns of instance names, in which `*` stands for anything, and messages about patterns that match nothing.

use std::collections::BTreeSet;

use super::{Failure, name_search, output};

/// Maximum number of instances named in a message.
const MAX_NAMED_INSTANCES: usize = 12;

/// Failure if the counters do not have the given instances; `None` if the counters have no instances at all.
pub fn unknown_instance_failure(patterns: &[String], known: &BTreeSet<&str>) -> Option<Failure> {
    let known = || known.iter().copied().filter(|name| !name.is_empty());
    known().next()?;
    let suggestion = patterns
        .iter()
        .map(|name| name_search::suggestion_hint(name, known()))
        .find(|hint| !hint.is_empty())
        .unwrap_or_default();
    let mut names: Vec<String> = known().take(MAX_NAMED_INSTANCES).map(output::escape_name).collect();
    if known().count() > MAX_NAMED_INSTANCES {
        names.push("...".into());
    }
    let (patterns, names) = (patterns.join("` or `"), names.join(", "));
    Some(Failure::Failed(format!(
        "these counters have no instance `{patterns}` in the log{suggestion}; instances: {names}"
    )))
}

/// Failure for a given instance that was not found, even if others were. A pattern may match nothing.
pub fn missing_instance_failure(
    patterns: &[String],
    found: &BTreeSet<&str>,
    others: &BTreeSet<&str>,
) -> Option<Failure> {
    let is_missing = |name: &&String| !name.contains('*') && !found.contains(name.as_str());
    let missing: Vec<String> = patterns.iter().filter(is_missing).cloned().collect();
    let known: BTreeSet<&str> = found.iter().chain(others.iter()).copied().collect();
    if missing.is_empty() { None } else { unknown_instance_failure(&missing, &known) }
}

/// Matches a name against a pattern in which `*` stands for anything.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((head, tail_pattern)) = pattern.split_once('*') else { return pattern == name };
    let Some(tail) = name.strip_prefix(head) else { return false };
    (0..=tail.len())
        .filter(|&position| tail.is_char_boundary(position))
        .any(|position| matches_pattern(tail_pattern, &tail[position..]))
}
