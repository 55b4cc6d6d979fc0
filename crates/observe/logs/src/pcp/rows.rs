//! Ticks from records.
//!
//! A logger writes a record for each group of metrics, each at its own time and interval; `metric_pace.rs` decides
//! which of them are one tick. If a metric comes again in a tick (it is in two groups, or on a shorter interval), its
//! growth is added up, and a level is averaged. The tick's time is that of the record that has most of the leading
//! metrics. The growth of a counter over another span than the tick's (a group on a longer interval, a record a few
//! milliseconds later) is scaled to the tick's length, so that its rate is right.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use diskwright_base::{Note, Schema, Series};

use super::archive_survey::ArchiveSurvey;
use super::mapping::{MetricUse, PcpConversion, PcpTarget};
use super::metadata::{InstanceDomains, Metric, SINGLE_VALUE_INDOM, Semantics};
use super::metric_pace::{MetricPace, TickPace};
use super::values::{PcpNumber, ValueSet};
use crate::FrameBatch;

/// Largest number of columns that are followed.
const MAX_COLUMNS: usize = 1 << 16;
/// Largest number of series ever made, so that names that come and go at every tick take bounded memory.
const MAX_SERIES: usize = 1 << 20;
/// Ticks after which a column without a value may be dropped when others come.
const STALE_TICKS: u64 = 100;
/// Ticks after which the leading interval is determined again.
const PACE_CHECK_TICKS: u64 = 32;

/// A column of the rows.
struct PcpColumn {
    counter: String,
    instance: String,
    scale: f64,
    conversion: PcpConversion,
    is_sum: bool,
    /// Value within this tick.
    value: f64,
    /// Time over which it grew, nanoseconds.
    span_ns: i64,
    /// Number of the last tick with a value.
    last_tick: u64,
}

/// An instance of a metric.
struct MetricInstance {
    instance: u32,
    name: Option<String>,
    columns: Vec<usize>,
    previous: Option<(PcpNumber, i64)>,
    /// Number of the last tick with a value.
    last_tick: u64,
    /// Time from which it grew in that tick.
    growth_start_ns: Option<i64>,
    /// Mean of a level in that tick.
    mean: f64,
    /// Number of values that the mean is of.
    value_count: f64,
}

/// A metric that is followed.
struct MetricFollower {
    metric: Metric,
    targets: Vec<PcpTarget>,
    /// Set if it opens a tick of its own.
    opens_tick: bool,
    /// Set if the ticks follow its interval.
    leads_tick: bool,
    pace: MetricPace,
    slots: Vec<MetricInstance>,
    slot_indexes: HashMap<u32, usize>,
    generation: u64,
    /// Number of the last tick with a value.
    last_tick: u64,
}

/// Builds the rows.
pub(super) struct PcpRows {
    followers: HashMap<u32, MetricFollower>,
    columns: Vec<PcpColumn>,
    /// Column by counter and instance.
    column_indexes: HashMap<(String, String), usize>,
    series_made: usize,
    schema: Option<Arc<Schema>>,
    row: Vec<f64>,
    /// Mount points by PCP's names of filesystems.
    mounts: HashMap<String, String>,
    open_tick: OpenTick,
    /// Time of the previous tick, nanoseconds; `None` before the first and after a mark.
    previous_ns: Option<i64>,
    pace: TickPace,
    /// Number of ticks so far.
    tick_count: u64,
}

/// The tick that is being filled.
#[derive(Default)]
struct OpenTick {
    is_open: bool,
    first_ns: i64,
    last_ns: i64,
    time_ns: i64,
    /// Time when its leading metrics came.
    leading_ns: Option<i64>,
    /// Number of leading values in the record that has most of them.
    max_leading: usize,
}

impl PcpRows {
    /// Prepares rows for these metrics and their uses, of an archive with these properties.
    pub fn new(metrics: &[Metric], uses: &[MetricUse], survey: ArchiveSurvey) -> PcpRows {
        let is_known = |u: &MetricUse| matches!(u, MetricUse::Series(t) if t.iter().any(PcpTarget::is_known));
        let has_known = uses.iter().any(is_known);
        let is_disk_metric = |u: &MetricUse| matches!(u, MetricUse::Series(t) if t.iter().any(PcpTarget::is_disk));
        let is_paced = |metric: &Metric| survey.paces.get(&metric.pmid).is_some_and(MetricPace::is_known);
        let has_disk = metrics.iter().zip(uses).any(|(m, u)| is_disk_metric(u) && is_paced(m));
        let mut followers = HashMap::new();
        for (metric, planned_use) in metrics.iter().zip(uses) {
            let MetricUse::Series(targets) = planned_use else { continue };
            let opens_tick = metric.semantics != Semantics::Discrete && (is_known(planned_use) || !has_known);
            let follower = MetricFollower {
                metric: metric.clone(),
                targets: targets.clone(),
                opens_tick,
                leads_tick: opens_tick && (is_disk_metric(planned_use) || !has_disk),
                pace: survey.paces.get(&metric.pmid).copied().unwrap_or_default(),
                slots: Vec::new(),
                slot_indexes: HashMap::new(),
                generation: 0,
                last_tick: u64::MAX,
            };
            followers.insert(metric.pmid, follower);
        }
        PcpRows {
            pace: leading_pace(&followers),
            followers,
            columns: Vec::new(),
            column_indexes: HashMap::new(),
            series_made: 0,
            schema: None,
            row: Vec::new(),
            mounts: survey.mounts,
            open_tick: OpenTick::default(),
            previous_ns: None,
            tick_count: 0,
        }
    }

    /// Breaks all series at a mark record: the values that follow do not continue those before.
    pub fn break_series(&mut self, time_ns: i64, batch: &mut FrameBatch<'_>) {
        self.close_tick(batch);
        if self.previous_ns.take().is_some() {
            let text = "a mark record: the logger stopped and began again";
            batch.push_note(Note::new(time_ns, Note::GAP, text));
        }
        for follower in self.followers.values_mut() {
            follower.slots.iter_mut().for_each(|s| s.previous = None);
            follower.pace.forget_last();
        }
    }

    /// Adds a record. `indoms` must stand at its time; `context` returns its place.
    pub fn add_record<R: Read>(
        &mut self,
        time_ns: i64,
        sets: &[ValueSet],
        body: &[u8],
        indoms: &InstanceDomains<R>,
        context: &dyn Fn() -> String,
        batch: &mut FrameBatch<'_>,
    ) {
        let latest = if self.open_tick.is_open { Some(self.open_tick.last_ns) } else { self.previous_ns };
        if latest.is_some_and(|latest| time_ns < latest) {
            batch.add_skip(context(), "a record that is older than the previous one");
            return;
        }
        if self.open_tick.is_open && !self.fits_open_tick(time_ns, sets) {
            self.close_tick(batch);
        }
        let mut leading_values = 0;
        let mut opens_tick = false;
        for set in sets {
            let Some(mut follower) = self.followers.remove(&set.pmid) else { continue };
            let values = self.add_set(&mut follower, time_ns, set, body, indoms, context, batch);
            follower.last_tick = self.tick_count;
            if values > 0 {
                follower.pace.record_arrival(time_ns, values);
                opens_tick |= follower.opens_tick;
                leading_values += if follower.leads_tick && !self.pace.is_faster(&follower.pace) { values } else { 0 };
            }
            self.followers.insert(set.pmid, follower);
        }
        if !self.open_tick.is_open && opens_tick {
            self.open_tick = OpenTick { is_open: true, first_ns: time_ns, ..OpenTick::default() };
        }
        if self.open_tick.is_open {
            self.open_tick.last_ns = time_ns;
            // of two records with equally many leading values the later: the growth of their counters ends there
            if leading_values >= self.open_tick.max_leading {
                (self.open_tick.max_leading, self.open_tick.time_ns) = (leading_values, time_ns);
            }
            if leading_values > 0 {
                self.open_tick.leading_ns.get_or_insert(time_ns);
            }
        }
    }

    /// Returns true if a record belongs to the open tick.
    fn fits_open_tick(&self, time_ns: i64, sets: &[ValueSet]) -> bool {
        let since_leading_ns = self.open_tick.leading_ns.map(|leading_ns| time_ns.saturating_sub(leading_ns));
        let followers = || sets.iter().filter(|s| s.count > 0).filter_map(|s| self.followers.get(&s.pmid));
        self.pace.can_extend_tick(time_ns.saturating_sub(self.open_tick.first_ns), since_leading_ns)
            && followers()
                .all(|f| f.last_tick != self.tick_count || self.pace.accepts_repeat(&f.pace, time_ns, since_leading_ns))
    }

    /// Adds one metric's values. Returns how many there were.
    #[allow(clippy::too_many_arguments, reason = "the record, and its place")]
    fn add_set<R: Read>(
        &mut self,
        follower: &mut MetricFollower,
        time_ns: i64,
        set: &ValueSet,
        body: &[u8],
        indoms: &InstanceDomains<R>,
        context: &dyn Fn() -> String,
        batch: &mut FrameBatch<'_>,
    ) -> usize {
        if set.count < 0 {
            batch.add_skip(format!("{}, {}", follower.metric.name, context()), "the logger could not read the metric");
            return 0;
        }
        let generation = indoms.generation(follower.metric.indom);
        if follower.generation != generation {
            drop_renamed(follower, indoms);
            follower.generation = generation;
        }
        let mut value_count = 0;
        for (position, (instance, word)) in set.read_values(body).enumerate() {
            // old loggers wrote any number if there are no instances
            let instance = if follower.metric.indom == SINGLE_VALUE_INDOM { SINGLE_VALUE_INDOM } else { instance };
            let Some(number) = set.read_number(body, word, follower.metric.value_type) else {
                batch.add_skip(
                    format!("{}, {}", follower.metric.name, context()),
                    "a value that is not of its metric's type",
                );
                continue;
            };
            let slot = match follower.slots.get(position) {
                Some(slot) if slot.instance == instance => position,
                _ => match follower.slot_indexes.get(&instance) {
                    Some(&slot) => slot,
                    None => match self.add_instance(follower, instance, indoms, context, batch) {
                        Some(slot) => slot,
                        None => continue,
                    },
                },
            };
            self.add_value(follower, slot, number, time_ns, context, batch);
            value_count += 1;
        }
        value_count
    }

    fn add_value(
        &mut self,
        follower: &mut MetricFollower,
        slot: usize,
        number: PcpNumber,
        time_ns: i64,
        context: &dyn Fn() -> String,
        batch: &mut FrameBatch<'_>,
    ) {
        let slot = &mut follower.slots[slot];
        let is_repeat = std::mem::replace(&mut slot.last_tick, self.tick_count) == self.tick_count;
        let (mut value, mut span_ns) = (number.as_f64(), 0);
        if follower.metric.semantics == Semantics::Counter {
            let previous = slot.previous.replace((number, time_ns));
            // a hostile archive can have two values with the same time
            let previous = previous.filter(|(_, previous_ns)| *previous_ns < time_ns);
            let growth = previous.map(|(previous, _)| number.growth_since(previous, follower.metric.value_type));
            if growth == Some(None) {
                batch.add_skip(format!("{}, {}", follower.metric.name, context()), "a counter went back");
            }
            // a sum that lacks one of its parts is not known
            value = growth.flatten().unwrap_or(f64::NAN);
            if !is_repeat {
                slot.growth_start_ns = previous.map(|(_, previous_ns)| previous_ns);
            }
            span_ns = slot.growth_start_ns.map_or(0, |from| time_ns.saturating_sub(from));
        } else if is_repeat {
            // the change of the mean is added to the cell
            slot.value_count += 1.0;
            value = (value - slot.mean) / slot.value_count;
            slot.mean += value;
        } else {
            (slot.mean, slot.value_count) = (value, 1.0);
        }
        for &column in &slot.columns {
            let column = &mut self.columns[column];
            let is_added = is_repeat || (column.is_sum && column.last_tick == self.tick_count);
            column.value = if is_added { column.value + value } else { value };
            (column.span_ns, column.last_tick) = (span_ns, self.tick_count);
        }
    }

    /// Makes a slot for an instance, with its columns.
    fn add_instance<R: Read>(
        &mut self,
        follower: &mut MetricFollower,
        instance: u32,
        indoms: &InstanceDomains<R>,
        context: &dyn Fn() -> String,
        batch: &mut FrameBatch<'_>,
    ) -> Option<usize> {
        let name = if follower.metric.indom == SINGLE_VALUE_INDOM {
            None
        } else {
            indoms.instance_name(follower.metric.indom, instance)
        };
        if name.is_none() && follower.metric.indom != SINGLE_VALUE_INDOM {
            batch.add_skip(format!("{}, {}", follower.metric.name, context()), "an instance without a name");
            return None;
        }
        let mut columns = Vec::new();
        for target in &follower.targets {
            let Some(catalogue_name) = target.map_instance(name.as_deref()) else { continue };
            let catalogue_name = self.catalogue_instance(&follower.metric.name, catalogue_name);
            match self.find_column(target, catalogue_name) {
                Some(column) => columns.push(column),
                None => batch.add_skip(context(), "more series than the limit"),
            }
        }
        if follower.slots.len() >= MAX_COLUMNS {
            return None;
        }
        follower.slot_indexes.insert(instance, follower.slots.len());
        let slot = MetricInstance {
            instance,
            name,
            columns,
            previous: None,
            last_tick: u64::MAX,
            growth_start_ns: None,
            mean: f64::NAN,
            value_count: 0.0,
        };
        follower.slots.push(slot);
        debug_assert_eq!(follower.slot_indexes.len(), follower.slots.len(), "an instance has one slot");
        Some(follower.slots.len() - 1)
    }

    /// Converts an instance's name to the catalogue's.
    fn catalogue_instance(&self, metric: &str, name: &str) -> String {
        if metric.starts_with("filesys.") {
            return self.mounts.get(name).cloned().unwrap_or_else(|| name.to_owned());
        }
        if metric.starts_with("cgroup.") {
            return name.replacen("::", "@", 1);
        }
        name.to_owned()
    }

    fn find_column(&mut self, target: &PcpTarget, instance: String) -> Option<usize> {
        let key = (target.counter.clone(), instance);
        if let Some(&column) = self.column_indexes.get(&key) {
            return Some(column);
        }
        if self.columns.len() >= MAX_COLUMNS || self.series_made >= MAX_SERIES {
            return None;
        }
        self.series_made += 1;
        self.schema = None;
        self.column_indexes.insert(key.clone(), self.columns.len());
        self.columns.push(PcpColumn {
            counter: key.0,
            instance: key.1,
            scale: target.scale,
            conversion: target.conversion,
            is_sum: target.is_sum,
            value: f64::NAN,
            span_ns: 0,
            last_tick: self.tick_count,
        });
        Some(self.columns.len() - 1)
    }

    /// Emits the open tick.
    pub fn close_tick(&mut self, batch: &mut FrameBatch<'_>) {
        if !std::mem::take(&mut self.open_tick.is_open) {
            return;
        }
        if self.schema.is_none() {
            self.drop_stale();
        }
        let time_ns = self.open_tick.time_ns;
        let elapsed = self.previous_ns.map(|before| time_ns.saturating_sub(before));
        self.row.clear();
        for column in &self.columns {
            let is_now = column.last_tick == self.tick_count;
            self.row.push(if is_now { cell_value(column, elapsed) } else { f64::NAN });
        }
        let schema = self.schema.get_or_insert_with(|| {
            let to_series =
                |c: &PcpColumn| Series { counter: c.counter.clone(), instance: c.instance.clone(), scale: c.scale };
            Arc::new(Schema::new(self.columns.iter().map(to_series).collect()))
        });
        batch.push_tick(schema, time_ns, Some(elapsed.unwrap_or(0).unsigned_abs()), &self.row);
        self.previous_ns = Some(time_ns);
        self.tick_count += 1;
        if self.tick_count.is_multiple_of(PACE_CHECK_TICKS) {
            self.pace = leading_pace(&self.followers);
        }
    }

    /// Drops columns without a value for long, so that names that come and go do not make rows ever wider.
    fn drop_stale(&mut self) {
        let ticks = self.tick_count;
        let is_stale = |c: &PcpColumn| c.last_tick + STALE_TICKS < ticks;
        if !self.columns.iter().any(is_stale) {
            return;
        }
        // new index of each column, `None` for those that are dropped
        let mut new_indexes: Vec<Option<usize>> = Vec::with_capacity(self.columns.len());
        let mut kept = Vec::new();
        for column in std::mem::take(&mut self.columns) {
            if is_stale(&column) {
                new_indexes.push(None);
            } else {
                new_indexes.push(Some(kept.len()));
                kept.push(column);
            }
        }
        self.columns = kept;
        self.column_indexes =
            self.columns.iter().enumerate().map(|(i, c)| ((c.counter.clone(), c.instance.clone()), i)).collect();
        assert_eq!(self.column_indexes.len(), self.columns.len(), "a counter's instance has one column");
        for follower in self.followers.values_mut() {
            // if a column is dropped, the instance gets another slot when it comes again
            follower.slots.retain_mut(|slot| {
                let column_count = slot.columns.len();
                slot.columns = slot.columns.iter().filter_map(|&c| new_indexes[c]).collect();
                slot.columns.len() == column_count
            });
            follower.slot_indexes = follower.slots.iter().enumerate().map(|(i, s)| (s.instance, i)).collect();
        }
    }
}

fn leading_pace(followers: &HashMap<u32, MetricFollower>) -> TickPace {
    TickPace::from_paces(followers.values().filter(|f| f.leads_tick).map(|f| &f.pace))
}

/// Returns a column's cell for a tick that is `elapsed` long.
fn cell_value(column: &PcpColumn, elapsed: Option<i64>) -> f64 {
    match (column.conversion, elapsed) {
        (PcpConversion::Level, _) => column.value,
        (PcpConversion::Rate, _) => column.value / (column.span_ns as f64 * 1e-9),
        (PcpConversion::Total, None) => f64::NAN,
        // kept exact if nothing has to be converted
        (PcpConversion::Total, Some(elapsed)) if elapsed == column.span_ns => column.value,
        (PcpConversion::Total, Some(elapsed)) => column.value * elapsed as f64 / column.span_ns as f64,
    }
}

/// Drops the slots of instances that have another name now, or none.
fn drop_renamed<R: Read>(follower: &mut MetricFollower, indoms: &InstanceDomains<R>) {
    let indom = follower.metric.indom;
    if indom == SINGLE_VALUE_INDOM {
        return;
    }
    let before = follower.slots.len();
    follower.slots.retain(|s| s.name.as_deref().is_some_and(|n| indoms.has_name(indom, s.instance, n)));
    if follower.slots.len() != before {
        follower.slot_indexes = follower.slots.iter().enumerate().map(|(i, s)| (s.instance, i)).collect();
    }
}
