//! Selection of a log's counters.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use diskwright_base::counter_ids::{memory, network, paging, physical_disk, processor, system};
use diskwright_base::{Catalogue, CounterPlan, LogPiece, Note, Schema};

use super::instance_patterns::{matches_pattern, missing_instance_failure, unknown_instance_failure};
use super::log::Logs;
use super::{Failure, name_search, output};

/// Counters shown if none is named: enough for an overview of a machine.
const OVERVIEW_COUNTERS: &[&str] = &[
    processor::BUSY,
    system::RUNNING,
    memory::AVAILABLE_FRACTION,
    paging::SWAP_IN_PAGES_PER_S,
    paging::SWAP_OUT_PAGES_PER_S,
    "pressure.*_some",
    physical_disk::TRANSFERS_PER_S,
    physical_disk::BYTES_PER_S,
    physical_disk::AVG_S_PER_TRANSFER,
    physical_disk::AVG_QUEUE_LENGTH,
    physical_disk::BUSY,
    network::RECEIVED_BYTES_PER_S,
    network::SENT_BYTES_PER_S,
];

/// Largest number of series shown that nobody named.
const MAX_UNNAMED_SERIES: usize = 200;

/// Kinds of notes that are kept completely; process tables are too many.
const KEPT_NOTE_KINDS: &[&str] = &[
    Note::BOOKMARK,
    Note::GAP,
    Note::MISSED,
    Note::UNSEEN,
    Note::CLOCK,
    Note::WARNING,
    Note::TOPOLOGY,
    Note::ALERT,
    Note::EVENT,
];

/// First pass over logs: returns the series, and the notes that people read or that describe the topology.
pub fn scan_schemas_and_notes(logs: &Logs) -> Result<(Vec<Arc<Schema>>, Vec<Note>), Failure> {
    let mut schemas: Vec<Arc<Schema>> = Vec::new();
    let mut notes = Vec::new();
    logs.read::<Failure>(|piece| {
        match piece {
            LogPiece::Frame(frame) if !schemas.iter().any(|s| Arc::ptr_eq(s, frame.schema())) => {
                schemas.push(Arc::clone(frame.schema()));
            }
            LogPiece::Note(note) if KEPT_NOTE_KINDS.contains(&note.kind.as_str()) => notes.push(note),
            _ => {}
        }
        Ok(())
    })?;
    Ok((schemas, notes))
}

/// Returns the selected counters and instances that the log has. If none is named, these are the counters of the
/// overview, or all that the log has, if the overview names none of them.
pub fn choose_series(
    counters: &[String],
    instances: &[String],
    schemas: &[Arc<Schema>],
) -> Result<Vec<(String, String)>, Failure> {
    if !counters.is_empty() {
        return find_series(&counters.iter().map(String::as_str).collect::<Vec<_>>(), instances, schemas);
    }
    find_series(OVERVIEW_COUNTERS, instances, schemas).or_else(|failure| {
        let all = find_all_series(instances, schemas).ok_or(failure)?;
        Ok(limit_series(all, "this log has none of the counters of the overview; all", "series"))
    })
}

/// Returns all series of these instances; `None` if one of the instances has none.
fn find_all_series(instances: &[String], schemas: &[Arc<Schema>]) -> Option<Vec<(String, String)>> {
    let mut all = find_series(&["*"], &[], schemas).unwrap_or_default();
    all.extend(uncatalogued_series("foreign.*", &[], schemas));
    let (wanted, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(_, instance)| instances.is_empty() || instances.iter().any(|p| matches_pattern(p, instance)));
    let lack = missing_instance_failure(instances, &distinct_instances(&wanted), &distinct_instances(&others));
    (!wanted.is_empty() && lack.is_none()).then_some(wanted)
}

/// Keeps as many series as a screen can show, and says that nobody named them.
pub fn limit_series(mut series: Vec<(String, String)>, before: &str, what: &str) -> Vec<(String, String)> {
    let all = series.len();
    series.truncate(MAX_UNNAMED_SERIES);
    let shown = match all > MAX_UNNAMED_SERIES {
        true => format!("; the first {MAX_UNNAMED_SERIES} are shown, --counter 'NAME*' chooses"),
        false => String::new(),
    };
    output::print_warning(format_args!("{before} {all} {what}{shown}"));
    series
}

/// Returns the series of these counters and instances that the log has.
fn find_series(
    patterns: &[&str],
    instances: &[String],
    schemas: &[Arc<Schema>],
) -> Result<Vec<(String, String)>, Failure> {
    let catalogue = Catalogue::builtin();
    let mut ids: Vec<&str> = Vec::new();
    let mut wanted: Vec<(String, String)> = Vec::new();
    for &pattern in patterns {
        let own = if is_uncatalogued(pattern) { uncatalogued_series(pattern, instances, schemas) } else { Vec::new() };
        if !own.is_empty() {
            wanted.extend(own);
            continue;
        }
        let found: Vec<&str> = if pattern.contains('*') {
            catalogue.counters().iter().map(|c| c.id.as_str()).filter(|id| matches_counter_id(pattern, id)).collect()
        } else {
            catalogue.find_by_name(pattern).iter().map(|c| c.id.as_str()).collect()
        };
        if found.is_empty() {
            return Err(unknown_counter_failure(pattern));
        }
        ids.extend(found.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
    }
    let mut known: HashSet<(String, String)> = HashSet::new();
    let mut others: BTreeSet<&str> = BTreeSet::new();
    for id in ids {
        let object = id.split('.').next().unwrap_or(id);
        for schema in schemas {
            for instance in schema.instances(object) {
                let named = instances.is_empty() || instances.iter().any(|p| matches_pattern(p, instance));
                let pair = (id.to_owned(), instance.to_owned());
                if known.contains(&pair) || CounterPlan::resolve_counter(catalogue, schema, id, instance).is_none() {
                    continue;
                }
                if named {
                    known.insert(pair.clone());
                    wanted.push(pair);
                } else {
                    others.insert(instance);
                }
            }
        }
    }
    if wanted.is_empty() {
        return Err(unknown_instance_failure(instances, &others).unwrap_or_else(|| no_series_failure(schemas)));
    }
    let lack = missing_instance_failure(instances, &distinct_instances(&wanted), &others);
    match lack {
        Some(failure) => Err(failure),
        None => Ok(wanted),
    }
}

/// Failure for a name that no counter has, with the nearest one.
pub fn unknown_counter_failure(name: &str) -> Failure {
    let ids = || Catalogue::builtin().counters().iter().map(|counter| counter.id.as_str());
    let parts = ids().filter_map(|id| id.split_once('.').map(|(_, part)| part));
    let near = name_search::suggestion_hint(&name.to_ascii_lowercase(), ids().chain(parts));
    Failure::Usage(format!("there is no counter `{name}`{near}; `diskwright list counters` prints all"))
}

/// Distinct instances of pairs of counter and instance.
pub fn distinct_instances(pairs: &[(String, String)]) -> BTreeSet<&str> {
    pairs.iter().map(|(_, instance)| instance.as_str()).collect()
}

/// Failure if no selected series exists.
pub fn no_series_failure(schemas: &[Arc<Schema>]) -> Failure {
    let mut text = "the log contains none of these counters and instances".to_owned();
    let own = uncatalogued_series("foreign.*", &[], schemas);
    if let (true, Some((first, _))) = (are_all_uncatalogued(schemas), own.first()) {
        let count = own.len();
        text = format!(
            "the log has no counter of the catalogue, only {count} foreign series, such as {first}; \
             `diskwright show` lists them"
        );
    }
    Failure::Failed(text)
}

/// True for the name of a series that the catalogue does not know.
fn is_uncatalogued(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("foreign.")
}

/// True if the catalogue knows none of a log's series.
pub fn are_all_uncatalogued(schemas: &[Arc<Schema>]) -> bool {
    let mut series = schemas.iter().flat_map(|schema| &schema.series).peekable();
    series.peek().is_some() && series.all(|series| is_uncatalogued(&series.counter))
}

/// Returns the selected series that the catalogue does not know.
pub fn uncatalogued_series(pattern: &str, instances: &[String], schemas: &[Arc<Schema>]) -> Vec<(String, String)> {
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    let mut found = Vec::new();
    for series in schemas.iter().flat_map(|schema| &schema.series).filter(|series| is_uncatalogued(&series.counter)) {
        let is_named = instances.is_empty() || instances.iter().any(|p| matches_pattern(p, &series.instance));
        if is_named && matches_counter_id(pattern, &series.counter) && known.insert((&series.counter, &series.instance))
        {
            found.push((series.counter.clone(), series.instance.clone()));
        }
    }
    found
}

/// Matches a counter's id, whatever case the pattern is in.
pub fn matches_counter_id(pattern: &str, id: &str) -> bool {
    matches_pattern(&pattern.to_ascii_lowercase(), &id.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::matches_counter_id;
    use crate::commands::instance_patterns::matches_pattern;

    #[test]
    fn star_matches_anything() {
        assert!(matches_pattern("physical_disk.*", "physical_disk.busy"));
        assert!(matches_pattern("*_some", "io_some"));
        assert!(matches_pattern("a*b*c", "aXbYc"));
        assert!(!matches_pattern("a*b", "aXc"));
        assert!(matches_pattern("*", ""));
        assert!(!matches_pattern("busy", "busy2"));
        assert!(matches_counter_id("Physical_Disk.*", "physical_disk.busy") && !matches_pattern("SDA*", "sda1"));
    }
}
