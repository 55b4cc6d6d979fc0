//! Columns of an export and the source of their values: every counter of the catalogue that the log holds or that can
//! be computed, and counters of other tools under their own names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use diskwright_base::catalogue::{Formula, FormulaDivisor};
use diskwright_base::{Catalogue, CounterPlan, Frame, LogPiece, Schema, prometheus_names};
use diskwright_export::ExportColumn;

use super::Failure;
use super::counter_selection::{distinct_instances, matches_counter_id, unknown_counter_failure};
use super::instance_patterns::{matches_pattern, missing_instance_failure, unknown_instance_failure};
use super::log::Logs;

/// Result of the first pass over the logs.
pub struct ColumnSurvey {
    /// The selected columns: in the catalogue's order, then foreign ones in the order of appearance.
    pub columns: Vec<ExportColumn>,
    /// Ticks in the window.
    pub ticks: u64,
}

/// Source of a column's values under a schema.
pub enum ColumnSource {
    /// A column of the frame, and its scale.
    Stored(usize, f64),
    /// A formula.
    Computed(CounterPlan),
}

impl ColumnSource {
    /// Returns one value per tick; `buffer` holds the values if they had to be computed.
    pub fn read_values<'a>(&self, frame: &'a Frame, buffer: &'a mut Vec<f64>) -> &'a [f64] {
        match self {
            ColumnSource::Stored(column, 1.0) => return frame.column(*column),
            ColumnSource::Stored(column, scale) => {
                buffer.clear();
                buffer.extend(frame.column(*column).iter().map(|cell| cell * scale));
            }
            ColumnSource::Computed(plan) => plan.compute_values(frame, buffer),
        }
        buffer
    }
}

/// The user's selection of counters and instances.
struct ColumnSelection<'a> {
    counters: &'a [String],
    instances: &'a [String],
    /// Catalogue ids that each entry of `counters` names, unless it is a pattern.
    named: Vec<Vec<&'static str>>,
    raw: bool,
}

impl<'a> ColumnSelection<'a> {
    fn new(counters: &'a [String], instances: &'a [String], raw: bool) -> ColumnSelection<'a> {
        let ids = |name: &String| Catalogue::builtin().find_by_name(name).iter().map(|c| c.id.as_str()).collect();
        ColumnSelection { counters, instances, named: counters.iter().map(ids).collect(), raw }
    }

    fn wants_counter(&self, id: &str) -> bool {
        let mut entries = self.counters.iter().zip(&self.named);
        self.counters.is_empty()
            || entries.any(|(pattern, named)| matches_counter_id(pattern, id) || named.contains(&id))
    }

    fn wants_instance(&self, instance: &str) -> bool {
        self.instances.is_empty() || self.instances.iter().any(|pattern| matches_pattern(pattern, instance))
    }
}

/// Reads the logs once to find their series and count their ticks.
pub fn survey_columns(
    logs: &Logs,
    counters: &[String],
    instances: &[String],
    raw: bool,
) -> Result<ColumnSurvey, Failure> {
    let selection = ColumnSelection::new(counters, instances, raw);
    let mut series = SeriesPairs::default();
    let mut ticks = 0;
    let mut last_schema: Option<Arc<Schema>> = None;
    logs.read::<Failure>(|piece| {
        if let LogPiece::Frame(frame) = piece {
            ticks += frame.ticks().len() as u64;
            if last_schema.as_ref().is_none_or(|schema| !Arc::ptr_eq(schema, frame.schema())) {
                series.add_schema(frame.schema(), &selection);
                last_schema = Some(Arc::clone(frame.schema()));
            }
        }
        Ok(())
    })?;
    // an unknown name is an error even if others were found; other tools' counters may lack the instance
    let is_found = |name: &str| series.pairs.iter().any(|(counter, _)| matches_counter_id(name, counter));
    let may_lack = |name: &str| !series.pairs.is_empty() && name.to_ascii_lowercase().starts_with("foreign.");
    let unknown = counters
        .iter()
        .zip(&selection.named)
        .find(|(name, ids)| !name.contains('*') && ids.is_empty() && !is_found(name) && !may_lack(name));
    if let Some((name, _)) = unknown {
        return Err(unknown_counter_failure(name));
    }
    if let Some(failure) = series.missing_series_failure(instances) {
        return Err(failure);
    }
    Ok(ColumnSurvey { columns: series.into_columns(raw), ticks })
}

/// Pairs of counter and instance, in order of appearance.
#[derive(Default)]
struct SeriesPairs {
    pairs: Vec<(String, String)>,
    known: HashSet<(String, String)>,
    /// Instances that were not selected, of the selected counters.
    unselected: BTreeSet<String>,
}

impl SeriesPairs {
    fn push_pair(&mut self, counter: &str, instance: &str) {
        let pair = (counter.to_owned(), instance.to_owned());
        if self.known.insert(pair.clone()) {
            self.pairs.push(pair);
        }
    }

    fn add_schema(&mut self, schema: &Schema, selection: &ColumnSelection<'_>) {
        let index = index_series(schema);
        for series in &schema.series {
            if !selection.wants_counter(&series.counter) {
                continue;
            }
            if selection.wants_instance(&series.instance) {
                self.push_pair(&series.counter, &series.instance);
            } else if !self.unselected.contains(&series.instance) {
                self.unselected.insert(series.instance.clone());
            }
        }
        if selection.raw {
            return;
        }
        let computed = Catalogue::builtin().counters().iter().filter(|c| !c.derive.is_empty());
        let mut instances: HashMap<&str, Vec<&str>> = HashMap::new();
        for counter in computed.filter(|c| selection.wants_counter(&c.id)) {
            let all = instances.entry(counter.object_name()).or_insert_with(|| schema.instances(counter.object_name()));
            for instance in all.iter().filter(|i| counter.derive.iter().any(|derive| has_inputs(derive, i, &index))) {
                if selection.wants_instance(instance) {
                    self.push_pair(&counter.id, instance);
                } else if !self.unselected.contains(*instance) {
                    self.unselected.insert((*instance).to_owned());
                }
            }
        }
    }

    /// Returns the failure if nothing was found or a given instance does not exist.
    fn missing_series_failure(&self, instances: &[String]) -> Option<Failure> {
        let unselected: BTreeSet<&str> = self.unselected.iter().map(String::as_str).collect();
        if self.pairs.is_empty() {
            let none = || Failure::Failed("the log contains none of these counters and instances".into());
            return Some(unknown_instance_failure(instances, &unselected).unwrap_or_else(none));
        }
        missing_instance_failure(instances, &distinct_instances(&self.pairs), &unselected)
    }

    fn into_columns(self, raw: bool) -> Vec<ExportColumn> {
        let catalogue = Catalogue::builtin();
        let positions: HashMap<&str, usize> =
            catalogue.counters().iter().enumerate().map(|(number, counter)| (counter.id.as_str(), number)).collect();
        let mut columns: Vec<ExportColumn> = self.pairs.into_iter().map(export_column).collect();
        if !raw {
            columns.sort_by_key(|column| positions.get(column.counter.as_str()).copied().unwrap_or(usize::MAX));
        }
        columns
    }
}

type SeriesIndex<'a> = HashMap<(&'a str, &'a str), usize>;

/// The first column of each series.
fn index_series(schema: &Schema) -> SeriesIndex<'_> {
    let mut index = HashMap::new();
    for (number, series) in schema.series.iter().enumerate() {
        index.entry((series.counter.as_str(), series.instance.as_str())).or_insert(number);
    }
    index
}

/// True if the schema has all inputs of a formula.
fn has_inputs(derive: &Formula, instance: &str, index: &SeriesIndex<'_>) -> bool {
    let has = |id: &String| index.contains_key(&(id.as_str(), instance));
    let has_divisor = match &derive.per {
        FormulaDivisor::Counters(ids) => ids.iter().any(has),
        _ => true,
    };
    has_divisor && derive.sum.iter().all(has) && derive.minus.iter().all(has)
}

fn export_column((counter, instance): (String, String)) -> ExportColumn {
    let entry = Catalogue::builtin().get(&counter);
    ExportColumn {
        unit: entry.map(|e| e.unit.clone()).unwrap_or_default(),
        kind: entry.map(|e| e.kind),
        explain: entry.map(|e| e.explain.clone()).unwrap_or_default(),
        metric: entry.map(prometheus_names::metric_name),
        counter,
        instance,
    }
}

/// Finds the source of each column's values under a schema; `None` for columns that it lacks.
pub fn resolve_sources(columns: &[&ExportColumn], schema: &Schema) -> Vec<Option<ColumnSource>> {
    let index = index_series(schema);
    let source = |column: &&ExportColumn| match index.get(&(column.counter.as_str(), column.instance.as_str())) {
        Some(&column) => Some(ColumnSource::Stored(column, schema.series[column].scale)),
        None => {
            let plan = CounterPlan::resolve_counter(Catalogue::builtin(), schema, &column.counter, &column.instance);
            plan.map(ColumnSource::Computed)
        }
    };
    columns.iter().map(source).collect()
}
