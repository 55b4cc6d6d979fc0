//! Samples in memory. A [`Frame`] is a batch of ticks in columns, and the
//! only form in which samples are passed on: a live sampler fills a frame tick by
//! tick, a log reader fills one block by block, and diagnosis, charts and
//! exports read them.
//!
//! A cell is an `f64`. `NaN` is a recorded gap: the value was not available at
//! that tick (a note gives the reason), and it is never replaced by a zero.
//! Totals (counts of events) are stored as the increase
//! during the tick, so they stay small, and a reset or a wrap is handled once,
//! where the kernel is read.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::name_limit::limit_name;

/// One sampling time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tick {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Nanoseconds of running time that the tick covers, by a clock that
    /// neither steps nor counts suspension; 0 on the first tick, when nothing
    /// is known of the time before.
    pub elapsed_ns: u64,
}

impl Tick {
    /// Time at which the tick began, nanoseconds since 1970 UTC.
    pub fn start_ns(&self) -> i64 {
        self.time_ns.saturating_sub(i64::try_from(self.elapsed_ns).unwrap_or(i64::MAX))
    }
}

/// One measured quantity of one instance, in the order of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Canonical counter id, such as `physical_disk.reads`.
    pub counter: String,
    /// Instance of the object (`sda`, `cpu0`, `/var`); empty where there is only one.
    pub instance: String,
    /// Factor from a stored cell to the counter's unit. It lets cells keep
    /// the kernel's integers (milliseconds have the scale 0.001).
    pub scale: f64,
}

/// The series of a frame. A device that appears or disappears makes a new schema.
#[derive(Default)]
pub struct Schema {
    /// The series, in column order. They must not change after a column was looked up.
    pub series: Vec<Series>,
    /// Column of each series, by the hash of its names; built at the first lookup.
    columns_by_hash: OnceLock<HashMap<u64, u32>>,
}

impl Clone for Schema {
    fn clone(&self) -> Schema {
        Schema::new(self.series.clone())
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        self.series == other.series
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("series", &self.series).finish()
    }
}

impl Schema {
    /// A schema of these series. Names that are too long are cut.
    pub fn new(mut series: Vec<Series>) -> Schema {
        for one in &mut series {
            limit_name(&mut one.counter);
            limit_name(&mut one.instance);
        }
        Schema { series, columns_by_hash: OnceLock::new() }
    }

    /// Column of a counter's instance; the first where there are several.
    pub fn column(&self, counter: &str, instance: &str) -> Option<usize> {
        let is_match = |s: &Series| s.counter == counter && s.instance == instance;
        let index = *self.columns_by_hash().get(&hash_names(counter, instance))? as usize;
        match self.series.get(index) {
            Some(found) if is_match(found) => Some(index),
            // two names with the same hash
            _ => self.series.iter().position(is_match),
        }
    }

    fn columns_by_hash(&self) -> &HashMap<u64, u32> {
        self.columns_by_hash.get_or_init(|| {
            let mut columns = HashMap::with_capacity(self.series.len());
            for (index, series) in (0..).zip(&self.series) {
                columns.entry(hash_names(&series.counter, &series.instance)).or_insert(index);
            }
            columns
        })
    }

    /// Instances that have any series whose counter id starts with `object.`,
    /// in the order of their first appearance.
    pub fn instances(&self, object: &str) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for s in &self.series {
            let is_of_object = s.counter.split_once('.').is_some_and(|(o, _)| o == object);
            if is_of_object && seen.insert(&s.instance) {
                found.push(&s.instance);
            }
        }
        found
    }
}

/// Hash of a series' names, the same in every schema.
fn hash_names(counter: &str, instance: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (counter, instance).hash(&mut hasher);
    hasher.finish()
}

/// A batch of ticks, column by column. It is designed to be refilled: clearing
/// keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    schema: Arc<Schema>,
    ticks: Vec<Tick>,
    capacity: usize,
    cells: Vec<f64>,
}

impl Frame {
    /// An empty frame with room for `capacity` ticks.
    pub fn new(schema: Arc<Schema>, capacity: usize) -> Frame {
        let mut frame = Frame::default();
        frame.reset(schema, capacity);
        frame
    }

    /// Empties the frame and gives it another schema or size.
    pub fn reset(&mut self, schema: Arc<Schema>, capacity: usize) {
        let capacity = capacity.max(1);
        let cells = schema.series.len() * capacity;
        if self.cells.capacity() / 4 > cells {
            // give back the memory of a machine that had many more devices
            self.cells = Vec::new();
        }
        self.cells.resize(cells, f64::NAN);
        self.ticks.clear();
        self.ticks.reserve(capacity);
        self.schema = schema;
        self.capacity = capacity;
    }

    /// Removes the ticks, keeps schema and memory.
    pub fn clear(&mut self) {
        self.ticks.clear();
    }

    /// The series of the columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The ticks, oldest first.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// Number of ticks that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// True when no further tick fits.
    pub fn is_full(&self) -> bool {
        self.ticks.len() == self.capacity
    }

    /// True when there is no tick.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// Adds a tick; `row` has one cell per series.
    ///
    /// # Panics
    /// When the frame is full or the row has another width than the schema:
    /// both are mistakes of the caller, not of the data.
    pub fn push(&mut self, tick: Tick, row: &[f64]) {
        assert!(!self.is_full(), "frame is full");
        assert_eq!(row.len(), self.schema.series.len(), "row width");
        let index = self.ticks.len();
        for (column, &value) in row.iter().enumerate() {
            let start = self.column_start(column);
            self.cells[start + index] = value;
        }
        self.ticks.push(tick);
    }

    /// Adds the ticks of `range` (positions) of a frame with as many columns.
    ///
    /// # Panics
    /// When they do not fit or the frames differ in width: both are mistakes
    /// of the caller, not of the data.
    pub fn append_ticks(&mut self, other: &Frame, range: std::ops::Range<usize>) {
        assert_eq!(other.schema.series.len(), self.schema.series.len(), "frame width");
        let index = self.ticks.len();
        self.ticks.extend_from_slice(&other.ticks[range.clone()]);
        assert!(self.ticks.len() <= self.capacity, "more ticks than capacity");
        for column in 0..self.schema.series.len() {
            let start = self.column_start(column) + index;
            self.cells[start..start + range.len()].copy_from_slice(&other.column(column)[range.clone()]);
        }
    }

    /// Replaces the ticks; the caller then fills the columns.
    ///
    /// # Panics
    /// When there are more ticks than the frame's capacity.
    pub fn set_ticks(&mut self, ticks: &[Tick]) {
        assert!(ticks.len() <= self.capacity, "more ticks than capacity");
        self.ticks.clear();
        self.ticks.extend_from_slice(ticks);
    }

    /// Index of a column's first cell; each column has room for the frame's capacity.
    fn column_start(&self, column: usize) -> usize {
        debug_assert!(column < self.schema.series.len(), "column {column} of {}", self.schema.series.len());
        debug_assert!(self.ticks.len() <= self.capacity, "{} ticks in {}", self.ticks.len(), self.capacity);
        column * self.capacity
    }

    /// The cells of one series, unscaled, one per tick.
    pub fn column(&self, column: usize) -> &[f64] {
        let start = self.column_start(column);
        &self.cells[start..start + self.ticks.len()]
    }

    /// The cells of one series, mutable, to be filled.
    pub fn column_mut(&mut self, column: usize) -> &mut [f64] {
        let start = self.column_start(column);
        &mut self.cells[start..start + self.ticks.len()]
    }

    /// All cells, column after column with room for the frame's capacity each,
    /// for a reader that fills them before it knows how many ticks there will
    /// be; [`Frame::set_ticks`] then sets them.
    pub fn cells_mut(&mut self) -> &mut [f64] {
        &mut self.cells
    }

    /// Keeps only the ticks of `range` (positions), dropping the others.
    pub fn keep_ticks(&mut self, range: std::ops::Range<usize>) {
        if range.start == 0 {
            self.ticks.truncate(range.end);
            return;
        }
        let length = self.ticks.len();
        for column in 0..self.schema.series.len() {
            let start = self.column_start(column);
            self.cells[start..start + length].copy_within(range.clone(), 0);
        }
        self.ticks.truncate(range.end);
        self.ticks.drain(..range.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_much_narrower_frame_releases_memory() {
        let many =
            (0..5000).map(|i| Series { counter: "physical_disk.reads".into(), instance: i.to_string(), scale: 1.0 });
        let mut frame = Frame::new(Arc::new(Schema::new(many.collect())), 240);
        frame.reset(schema(), 240);
        assert!(frame.cells.capacity() <= 4 * 480, "{}", frame.cells.capacity());
        let kept = frame.cells.capacity();
        frame.reset(schema(), 200);
        assert_eq!(frame.cells.capacity(), kept, "a little less is kept");
    }

    fn schema() -> Arc<Schema> {
        let series =
            |instance: &str| Series { counter: "physical_disk.reads".into(), instance: instance.into(), scale: 1.0 };
        Arc::new(Schema::new(vec![series("sda"), series("sdb")]))
    }

    #[test]
    fn a_column_is_found_among_many_and_the_first_of_equals_counts() {
        let one = |i: usize| Series { counter: "a.b".into(), instance: format!("d{i}"), scale: 1.0 };
        let many: Vec<Series> = (0..200_000).chain([7]).map(one).collect();
        let schema = Schema::new(many);
        assert!((0..200_000).all(|i| schema.column("a.b", &format!("d{i}")) == Some(i)));
        assert_eq!((schema.column("a.b", "d200000"), schema.column("a.", "bd1")), (None, None));
        assert_eq!(schema.instances("a").len(), 200_000);
    }

    #[test]
    fn columns_hold_what_rows_brought() {
        let mut frame = Frame::new(schema(), 3);
        for i in 0..3 {
            let tick = Tick { time_ns: i, elapsed_ns: 1 };
            frame.push(tick, &[i as f64, 10.0 + i as f64]);
        }
        assert!(frame.is_full());
        assert_eq!(frame.column(0), [0.0, 1.0, 2.0]);
        let mut other = Frame::new(schema(), 4);
        other.push(Tick { time_ns: -1, elapsed_ns: 1 }, &[7.0, 8.0]);
        other.append_ticks(&frame, 1..3);
        assert_eq!((other.column(1), other.ticks()[2].time_ns), ([8.0, 11.0, 12.0].as_slice(), 2));
        assert_eq!(other.capacity(), 4);
        frame.keep_ticks(1..3);
        assert_eq!(frame.column(1), [11.0, 12.0]);
        assert_eq!(frame.ticks()[0].time_ns, 1);
    }

    #[test]
    fn instances_are_those_of_the_object_only() {
        assert_eq!(schema().instances("physical_disk"), ["sda", "sdb"]);
        assert!(schema().instances("physical").is_empty());
        assert_eq!(schema().column("physical_disk.reads", "sdb"), Some(1));
    }
}
