//! One tick: the clocks, then every source, then the row.

use std::sync::Arc;

use diskwright_base::{Note, Schema, Tick};

use super::clock::{Clock, Reading, passed};
use super::moment::Moment;
use super::notes::Notes;
use super::sources::{SOURCES, Source};
use super::{Options, Roots};

/// Reads the machine. Call [`Sampler::tick`], then look at
/// [`stamp`](Sampler::stamp), [`schema`](Sampler::schema) and
/// [`row`](Sampler::row), and collect the notes.
///
/// A tick whose set of instances is that of the tick before allocates
/// nothing, the slow beat apart.
pub struct Sampler {
    roots: Roots,
    options: Options,
    clock: Box<dyn Clock>,
    sources: Vec<Box<dyn Source>>,
    notes: Notes,
    last: Option<Reading>,
    next_slow_ns: u64,
    stamp: Tick,
    schema: Arc<Schema>,
    row: Vec<f64>,
}

impl Sampler {
    /// Makes ready to read. Nothing is read yet, and a file that is missing
    /// is a note at the first tick.
    pub fn new(roots: Roots, clock: Box<dyn Clock>, options: Options) -> Sampler {
        let sources = SOURCES.iter().filter_map(|s| (s.open)(&roots, &options)).collect();
        Sampler {
            roots,
            options,
            clock,
            sources,
            notes: Notes::default(),
            last: None,
            next_slow_ns: 0,
            stamp: Tick::default(),
            schema: Arc::default(),
            row: Vec::new(),
        }
    }

    /// Reads everything once.
    pub fn tick(&mut self) {
        let now = self.clock.read();
        let passed = passed(self.last, now);
        self.last = Some(now);
        self.stamp = Tick { time_ns: now.wall_ns, elapsed_ns: passed.elapsed_ns };
        if passed.slept_s > 0.0 {
            let text = format!("the machine slept for {:.1} s, which no sample covers", passed.slept_s);
            self.notes.push(now.wall_ns, Note::CLOCK, text);
        }
        if passed.stepped_s != 0.0 {
            let text =
                format!("the wall clock was stepped by {:+.3} s; the lengths of ticks are right", passed.stepped_s);
            self.notes.push(now.wall_ns, Note::CLOCK, text);
        }
        let slow = now.running_ns >= self.next_slow_ns;
        if slow {
            let every = u64::try_from(self.options.slow_every.as_nanos()).unwrap_or(u64::MAX);
            self.next_slow_ns = now.running_ns.saturating_add(every);
        }
        let mut at = Moment {
            roots: &self.roots,
            options: &self.options,
            notes: &mut self.notes,
            time_ns: now.wall_ns,
            running_ns: now.running_ns,
            since_boot_ns: now.since_boot_ns,
            elapsed_ns: passed.elapsed_ns,
            slow,
            trouble: false,
            rescan: false,
        };
        let mut changed = false;
        for source in &mut self.sources {
            source.tick(&mut at);
            for table in source.tables() {
                changed |= table.take_changed();
            }
        }
        if changed {
            self.rebuild();
        }
        self.row.clear();
        for source in &mut self.sources {
            for table in source.tables() {
                table.cells(&mut self.row);
            }
        }
    }

    fn rebuild(&mut self) {
        let mut series = Vec::new();
        for source in &mut self.sources {
            for table in source.tables() {
                table.series(&mut series);
            }
        }
        self.schema = Arc::new(Schema { series });
    }

    /// When the last tick was, and how much time it covers.
    pub fn stamp(&self) -> Tick {
        self.stamp
    }

    /// What the cells of the last tick are; another `Arc` after each change.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The cells of the last tick, unscaled, in the order of the schema.
    pub fn row(&self) -> &[f64] {
        &self.row
    }

    /// The notes since they were last taken, oldest first.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.take()
    }
}
