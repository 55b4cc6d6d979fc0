//! Collects every counter of a window, by instance and combined, in a few buckets of time.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use diskwright_base::catalogue::FormulaDivisor;
use diskwright_base::{Catalogue, CounterKind, Frame, Note, Schema, Topology};
use diskwright_statistics::{MeanVariance, WeightedPoint};

use super::program_window::ProgramWindow;
use crate::compile::{NodeBuilder, SchemaIndex};
use crate::sums::{
    BucketPoint, CHUNK_TICKS, Chunk, ClockBucketTicks, ClockBuckets, ClockTimeline, NodeColumn, NodeColumns, NodeId,
    ProgramNode, pass_gap,
};

/// Largest number of buckets of a series: a few for each block that its uncertainty is computed from.
const MAX_BUCKETS: i64 = 256;
/// Largest number of series; each takes up to 4 KiB.
const MAX_SERIES: usize = 16_384;
/// Name of the instance that combines all disks (each counted once), or all links.
pub const ALL_INSTANCES: &str = "*";
/// Objects that always have a combined instance too.
const COMBINED_OBJECTS: [&str; 2] = ["physical_disk", "network"];

/// Counters of one window.
pub struct CounterWindow {
    topology: Option<Topology>,
    schema: Option<Arc<Schema>>,
    timeline: ClockTimeline,
    bucket_ticks: Vec<ClockBucketTicks>,
    program: WindowProgram,
    slots: Vec<NodeColumn>,
    scratch: [Vec<f64>; 3],
    counters: Vec<WindowCounter>,
    counter_indices: HashMap<(String, String), usize>,
    /// Number of series beyond the limit.
    pub left_out: usize,
    ticks: usize,
    /// What programs used, by the tables of processes.
    pub(crate) programs: ProgramWindow,
}

/// A counter of an instance.
pub(crate) struct WindowCounter {
    pub counter: String,
    pub instance: String,
    pub unit: String,
    buckets: ClockBuckets,
}

#[derive(Default)]
struct WindowProgram {
    nodes: Vec<ProgramNode>,
    slot_of: Vec<usize>,
    feeds: Vec<BucketFeed>,
}

struct BucketFeed {
    source: FeedSource,
    counter_index: usize,
}

enum FeedSource {
    /// The node's values.
    Node(NodeId),
    /// An amount per tick, converted to a rate per second.
    Amount(NodeId),
    /// A column of a counter that is not in the catalogue, and its scale.
    Column(usize, f64),
}

impl CounterWindow {
    /// Creates an empty window; `expected` is its start and end, nanoseconds since 1970 UTC.
    pub fn new(expected: (i64, i64)) -> CounterWindow {
        let mut timeline = ClockTimeline::with_max_buckets(MAX_BUCKETS);
        timeline.reserve_window(expected);
        CounterWindow {
            topology: None,
            schema: None,
            timeline,
            bucket_ticks: Vec::new(),
            program: WindowProgram::default(),
            slots: Vec::new(),
            scratch: Default::default(),
            counters: Vec::new(),
            counter_indices: HashMap::new(),
            left_out: 0,
            ticks: 0,
            programs: ProgramWindow::new(expected),
        }
    }

    /// Adds a topology or a table of processes; other notes are ignored. An unreadable one is reported by the judge.
    pub fn add_note(&mut self, note: &Note) {
        if note.kind == Note::PROCESSES
            && let Ok(table) = note.read_processes()
        {
            self.programs.add_table(note.time_ns, &table);
        }
        if note.kind == Note::TOPOLOGY
            && let Ok(topology) = note.read_topology()
        {
            self.topology = Some(Arc::unwrap_or_clone(topology));
            self.schema = None;
        }
    }

    /// Adds a batch of ticks.
    pub fn add_frame(&mut self, frame: &Frame) {
        self.prepare_schema(frame.schema());
        let count = frame.ticks().len();
        for start in (0..count).step_by(CHUNK_TICKS) {
            self.process_chunk(frame, start..(start + CHUNK_TICKS).min(count));
        }
    }

    fn prepare_schema(&mut self, schema: &Arc<Schema>) {
        if self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema) {
            return;
        }
        let topology = self.topology.take();
        let schema_index = SchemaIndex::new(schema, topology.as_ref(), &[]);
        let mut builder = NodeBuilder::new(&schema_index);
        let mut feeds = Vec::new();
        for entry in Catalogue::builtin().counters() {
            let instances = schema_index.instances(entry.object_name());
            let is_amount = entry.kind == CounterKind::Total;
            if instances.is_empty() || (is_amount && totals_also_given_as_rates().contains(entry.id.as_str())) {
                continue;
            }
            for instance in instances {
                let Some(node) = builder.counter_node(&entry.id, instance) else { continue };
                let source = if is_amount { FeedSource::Amount(node) } else { FeedSource::Node(node) };
                self.add_feed(&mut feeds, &entry.id, instance, feed_unit(&entry.unit, is_amount), source);
            }
            let combined = schema_index.representative_instances(entry.object_name());
            let has_combined = combined.len() > 1 || COMBINED_OBJECTS.contains(&entry.object_name());
            if has_combined
                && !is_amount
                && let Some(node) = builder.combined_node(&entry.id, &combined)
            {
                self.add_feed(&mut feeds, &entry.id, ALL_INSTANCES, entry.unit.clone(), FeedSource::Node(node));
            }
        }
        for (column, series) in schema.series.iter().enumerate() {
            if Catalogue::builtin().get(&series.counter).is_none() {
                let source = FeedSource::Column(column, series.scale);
                self.add_feed(&mut feeds, &series.counter, &series.instance, String::new(), source);
            }
        }
        let nodes = builder.nodes;
        self.slots.resize_with(nodes.len(), NodeColumn::default);
        self.program = WindowProgram { slot_of: (0..nodes.len()).collect(), nodes, feeds };
        self.topology = topology;
        self.schema = Some(schema.clone());
    }

    fn add_feed(
        &mut self,
        feeds: &mut Vec<BucketFeed>,
        counter: &str,
        instance: &str,
        unit: String,
        source: FeedSource,
    ) {
        let key = (counter.to_owned(), instance.to_owned());
        let counter_index = match self.counter_indices.get(&key) {
            Some(&known) => known,
            None if self.counters.len() >= MAX_SERIES => {
                self.left_out += 1;
                return;
            }
            None => {
                let (counter, instance) = key.clone();
                self.counters.push(WindowCounter { counter, instance, unit, buckets: ClockBuckets::default() });
                self.counter_indices.insert(key, self.counters.len() - 1);
                self.counters.len() - 1
            }
        };
        feeds.push(BucketFeed { source, counter_index });
    }

    fn process_chunk(&mut self, frame: &Frame, range: Range<usize>) {
        self.timeline.cut_ticks(frame, range.clone(), &mut self.bucket_ticks);
        let [seconds, values, weights] = &mut self.scratch;
        let length = |ns: u64| if ns == 0 { f64::NAN } else { ns as f64 * 1e-9 };
        seconds.clear();
        seconds.extend(frame.ticks()[range.clone()].iter().map(|t| length(t.elapsed_ns)));
        let chunk = Chunk { frame, range: range.clone(), seconds };
        let mut columns = NodeColumns { slot_of: &self.program.slot_of, slots: &mut self.slots };
        // operands come before the nodes that read them
        for (id, node) in self.program.nodes.iter().enumerate() {
            columns.evaluate_node(id, node, &chunk);
        }
        for feed in &self.program.feeds {
            let buckets = &mut self.counters[feed.counter_index].buckets;
            let fill_columns =
                |values: &mut Vec<f64>, weights: &mut Vec<f64>, cells: &[f64], value_of: &dyn Fn(f64, f64) -> f64| {
                    values.clear();
                    values.extend(cells.iter().zip(seconds.iter()).map(|(&cell, &time)| value_of(cell, time)));
                    weights.clear();
                    weights.extend(values.iter().zip(seconds.iter()).map(|(value, time)| time + pass_gap(*value)));
                };
            match feed.source {
                FeedSource::Node(node) => {
                    let slot = columns.node_column(node);
                    buckets.add_chunk(self.ticks, &self.bucket_ticks, &slot.values, &slot.weights);
                    continue;
                }
                FeedSource::Amount(node) => {
                    fill_columns(values, weights, &columns.node_column(node).values, &|cell, time| cell / time)
                }
                FeedSource::Column(column, scale) => {
                    fill_columns(values, weights, &frame.column(column)[range.clone()], &|cell, _| cell * scale);
                }
            }
            buckets.add_chunk(self.ticks, &self.bucket_ticks, values, weights);
        }
        self.ticks += range.len();
    }

    /// The counters, in the catalogue's order.
    pub(crate) fn counters(&self) -> &[WindowCounter] {
        &self.counters
    }

    /// The machine's disks in the last schema, each once: stacked devices and memory disks are left out.
    pub(crate) fn disks(&self) -> Vec<String> {
        let Some(schema) = &self.schema else { return Vec::new() };
        let disks = crate::compile::physical_disks(schema, self.topology.as_ref());
        disks.into_iter().map(str::to_owned).collect()
    }

    /// Smallest bucket width that is at least this and at least the one in use.
    pub(crate) fn width_at_least(&self, min_ns: i64) -> i64 {
        self.timeline.width_at_least(min_ns)
    }

    /// A counter of an instance; `None` where the window lacks it.
    pub(crate) fn find_counter(&self, counter: &str, instance: &str) -> Option<&WindowCounter> {
        Some(&self.counters[*self.counter_indices.get(&(counter.to_owned(), instance.to_owned()))?])
    }

    /// Means of a counter of an instance over equal parts of the window: at most `count`, and so few that each part
    /// holds a tick; `None` for a gap. `None` where the window lacks the counter.
    pub fn part_means(
        &self,
        counter: &str,
        instance: &str,
        window: (i64, i64),
        count: usize,
    ) -> Option<Vec<Option<f64>>> {
        let found = self.find_counter(counter, instance)?;
        let (from_ns, to_ns) = window;
        let span = (to_ns as f64 - from_ns as f64).max(1.0);
        let filled = found.buckets.filled_buckets();
        let mut spacings_ns: Vec<i64> = filled.windows(2).map(|w| w[1].time_ns - w[0].time_ns).collect();
        spacings_ns.sort_unstable();
        // a part shorter than a tick would show a false gap
        let median_ns = spacings_ns.get(spacings_ns.len() / 2).map_or(span, |spacing_ns| *spacing_ns as f64);
        let count = ((span / (1.25 * median_ns.max(1.0))) as usize).clamp(1, count.max(1));
        let mut parts = vec![(0.0, 0.0); count];
        for BucketPoint { time_ns, value, weight } in filled {
            let index = ((time_ns as f64 - from_ns as f64) / span * count as f64).max(0.0) as usize;
            let part = &mut parts[index.min(count - 1)];
            *part = (part.0 + value * weight, part.1 + weight);
        }
        Some(parts.into_iter().map(|(product, weight)| (weight > 0.0).then(|| product / weight)).collect())
    }
}

/// Mean of a counter of an instance.
pub(crate) struct WindowMean {
    /// Weighted mean.
    pub mean: f64,
    /// Mean with its variance; `None` where there are too few points.
    pub variance: Option<MeanVariance>,
    /// Smallest and largest mean of a bucket.
    pub range: (f64, f64),
}

impl WindowCounter {
    /// Mean over the window; `None` where nothing was measured.
    pub fn window_mean(&self) -> Option<WindowMean> {
        let points = self.bucket_means();
        let range = points
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, p)| (low.min(p.value), high.max(p.value)));
        let points: Vec<WeightedPoint> = points.into_iter().map(|(_, point)| point).collect();
        let mean = (!points.is_empty()).then(|| diskwright_statistics::blocks::weighted_mean(&points))?;
        Some(WindowMean { mean, variance: MeanVariance::from_points(&points), range })
    }

    /// Means by bucket: the bucket's middle, nanoseconds since 1970, and the mean at that time, in seconds since the
    /// first bucket.
    pub fn bucket_means(&self) -> Vec<(i64, WeightedPoint)> {
        let filled = self.buckets.filled_buckets();
        let first = filled.first().map_or(0, |f| f.time_ns);
        let seconds = |time_ns: i64| (time_ns as f64 - first as f64) / 1e9;
        let point = |f: &BucketPoint| {
            (f.time_ns, WeightedPoint { time_s: seconds(f.time_ns), value: f.value, weight: f.weight })
        };
        filled.iter().map(point).filter(|(_, p)| p.value.is_finite() && p.weight.is_finite()).collect()
    }
}

fn feed_unit(unit: &str, is_amount: bool) -> String {
    match unit {
        _ if !is_amount => unit.to_owned(),
        "count" => "per_s".into(),
        // seconds per second
        "s" => "fraction".into(),
        unit => format!("{unit}_per_s"),
    }
}

/// Totals that another counter gives per second or per operation: the total itself depends on the length of the window.
fn totals_also_given_as_rates() -> &'static HashSet<&'static str> {
    static TOTALS: OnceLock<HashSet<&'static str>> = OnceLock::new();
    TOTALS.get_or_init(|| {
        let formulas = Catalogue::builtin().counters().iter().flat_map(|c| &c.derive);
        formulas
            .filter(|d| !matches!(d.per, FormulaDivisor::Nothing))
            .flat_map(|d| d.sum.iter().map(String::as_str))
            .collect()
    })
}
