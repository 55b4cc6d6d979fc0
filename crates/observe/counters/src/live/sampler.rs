//! One tick: the clocks, then every source, then the row.

use std::process::Command;
use std::sync::Arc;

use diskwright_base::{Note, Schema, Series, Tick, Topology};

use super::clock::{Clock, ClockReading, compare_readings};
use super::note_collector::NoteCollector;
use super::source_process::SourceProcess;
use super::source_reader::SourceReader;
use super::sources::SOURCES;
use super::tick_context::TickTimes;
use super::{Roots, SamplerOptions};

/// Columns from another measurement that are recorded at the sampler's ticks.
pub trait AttachedColumns: Send {
    /// Computes the cells of the tick; returns true if the series have changed.
    fn measure_tick(&mut self, stamp: Tick) -> bool;
    /// Appends the series.
    fn append_series(&self, out: &mut Vec<Series>);
    /// Appends one cell per series.
    fn append_cells(&mut self, out: &mut Vec<f64>);
    /// The notes since they were last taken, oldest first.
    fn take_notes(&mut self) -> Vec<Note>;
}

/// Adds facts to each topology that the sampler reads, and returns sentences on what cannot be added.
pub type TopologyFacts = Box<dyn FnMut(&mut Topology) -> Vec<String> + Send>;

/// The ways to read the sources.
enum RowReader {
    Threads(Box<SourceReader>),
    Process(Box<SourceProcess>),
}

impl RowReader {
    fn read_sources(&mut self, times: TickTimes, goes_on: &dyn Fn() -> bool, notes: &mut NoteCollector) -> bool {
        if let RowReader::Process(process) = self {
            match process.read_sources(times, goes_on) {
                Ok(is_complete) => return is_complete,
                Err(error) => {
                    let text = format!("no process can read this machine's counters ({error}); a thread reads them");
                    notes.push(times.time_ns, Note::WARNING, text);
                    *self = RowReader::Threads(Box::new(process.to_threads()));
                }
            }
        }
        match self {
            RowReader::Threads(reader) => reader.read_sources(times, goes_on),
            RowReader::Process(_) => unreachable!("replaced above"),
        }
    }

    fn take_changed(&mut self) -> bool {
        match self {
            RowReader::Threads(reader) => reader.take_changed(),
            RowReader::Process(process) => process.take_changed(),
        }
    }

    fn append_series(&self, out: &mut Vec<Series>) {
        match self {
            RowReader::Threads(reader) => reader.for_each_table(|table| table.append_series(out)),
            RowReader::Process(process) => process.append_series(out),
        }
    }

    fn append_cells(&self, out: &mut Vec<f64>) {
        match self {
            RowReader::Threads(reader) => reader.for_each_table(|table| table.append_cells(out)),
            RowReader::Process(process) => process.append_cells(out),
        }
    }

    fn move_notes(&mut self, notes: &mut NoteCollector) {
        match self {
            RowReader::Threads(reader) => reader.move_notes(notes),
            RowReader::Process(process) => process.move_notes(notes),
        }
    }
}

/// Reads the machine. Call [`Sampler::tick`], then read
/// [`tick_stamp`](Sampler::tick_stamp), [`schema`](Sampler::schema) and
/// [`row`](Sampler::row), and collect the notes.
///
/// A tick with the same set of instances as the tick before allocates
/// nothing, except at the slow interval.
pub struct Sampler {
    clock: Box<dyn Clock>,
    options: SamplerOptions,
    reader: RowReader,
    attached: Vec<Box<dyn AttachedColumns>>,
    notes: NoteCollector,
    topology_facts: Option<TopologyFacts>,
    last: Option<ClockReading>,
    next_slow_tick_ns: u64,
    tick_stamp: Tick,
    schema: Arc<Schema>,
    row: Vec<f64>,
}

impl Sampler {
    /// Creates a sampler. Nothing is read yet, and a missing file
    /// becomes a note at the first tick.
    pub fn new(roots: Roots, clock: Box<dyn Clock>, options: SamplerOptions) -> Sampler {
        let reader = RowReader::Threads(Box::new(SourceReader::for_all_sources(roots, options.clone())));
        Sampler::with_reader(reader, clock, options)
    }

    /// Creates a sampler that reads the source of this id in [`SOURCES`] only, to measure it; none if there is no such
    /// source.
    pub fn for_one_source(id: &str, roots: Roots, clock: Box<dyn Clock>, options: SamplerOptions) -> Sampler {
        let openers = SOURCES.iter().filter(|source| source.id == id).map(|source| source.open);
        let reader = RowReader::Threads(Box::new(SourceReader::new(roots, options.clone(), openers)));
        Sampler::with_reader(reader, clock, options)
    }

    /// Creates a sampler that reads in another process, so that no file that hangs keeps this process from ending.
    /// `program` is a command that calls [`serve_sources`](super::serve_sources).
    pub fn in_process(
        program: fn() -> Command,
        roots: Roots,
        clock: Box<dyn Clock>,
        options: SamplerOptions,
    ) -> Sampler {
        let reader = RowReader::Process(Box::new(SourceProcess::new(program, roots, options.clone())));
        Sampler::with_reader(reader, clock, options)
    }

    fn with_reader(reader: RowReader, clock: Box<dyn Clock>, options: SamplerOptions) -> Sampler {
        Sampler {
            clock,
            options,
            reader,
            attached: Vec::new(),
            notes: NoteCollector::default(),
            topology_facts: None,
            last: None,
            next_slow_tick_ns: 0,
            tick_stamp: Tick::default(),
            schema: Arc::default(),
            row: Vec::new(),
        }
    }

    /// Records these columns too, from the next tick on.
    pub fn attach_columns(&mut self, columns: Box<dyn AttachedColumns>) {
        self.attached.push(columns);
    }

    /// Reads everything once. Files that block are left out, with a note.
    pub fn tick(&mut self) {
        self.tick_while(&|| true);
    }

    /// Reads everything once, unless `goes_on` returns false meanwhile: then the tick is given up, all its cells are
    /// gaps, and false is returned.
    pub fn tick_while(&mut self, goes_on: &dyn Fn() -> bool) -> bool {
        let times = self.read_times();
        self.tick_stamp = Tick { time_ns: times.time_ns, elapsed_ns: times.elapsed_ns };
        let is_complete = self.reader.read_sources(times, goes_on, &mut self.notes);
        if !is_complete {
            self.row.fill(f64::NAN);
            return false;
        }
        self.reader.move_notes(&mut self.notes);
        let mut changed = self.reader.take_changed();
        for attached in &mut self.attached {
            changed |= attached.measure_tick(self.tick_stamp);
            attached.take_notes().into_iter().for_each(|note| self.notes.push_note(note));
        }
        if changed {
            self.rebuild_schema();
        }
        self.row.clear();
        self.reader.append_cells(&mut self.row);
        self.attached.iter_mut().for_each(|attached| attached.append_cells(&mut self.row));
        debug_assert_eq!(self.row.len(), self.schema.series.len(), "a cell for each series");
        true
    }

    /// Reads the clocks, and notes sleep and steps since the last tick.
    fn read_times(&mut self) -> TickTimes {
        let now = self.clock.read_clocks();
        let passed = compare_readings(self.last, now);
        self.last = Some(now);
        if passed.slept_s > 0.0 {
            let text = format!("the machine slept for {:.1} s, without samples", passed.slept_s);
            self.notes.push(now.wall_ns, Note::CLOCK, text);
        }
        if passed.stepped_s != 0.0 {
            let text =
                format!("the wall clock was stepped by {:+.3} s; tick lengths are still right", passed.stepped_s);
            self.notes.push(now.wall_ns, Note::CLOCK, text);
        }
        let is_slow_tick = now.running_ns >= self.next_slow_tick_ns;
        if is_slow_tick {
            let every = u64::try_from(self.options.slow_interval.as_nanos()).unwrap_or(u64::MAX);
            self.next_slow_tick_ns = now.running_ns.saturating_add(every);
        }
        TickTimes {
            time_ns: now.wall_ns,
            running_ns: now.running_ns,
            since_boot_ns: now.since_boot_ns,
            elapsed_ns: passed.elapsed_ns,
            is_slow_tick,
        }
    }

    fn rebuild_schema(&mut self) {
        let mut series = Vec::new();
        self.reader.append_series(&mut series);
        self.attached.iter().for_each(|attached| attached.append_series(&mut series));
        self.schema = Arc::new(Schema::new(series));
    }

    /// Time of the last tick, and the time that it covers.
    pub fn tick_stamp(&self) -> Tick {
        self.tick_stamp
    }

    /// Series of the cells of the last tick; a new `Arc` after each change.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The cells of the last tick, unscaled, in the order of the schema.
    pub fn row(&self) -> &[f64] {
        &self.row
    }

    /// Adds a gap note at the start of the last tick, which was not sampled on time.
    /// With `blank`, its cells become gaps too, so that a long average is not
    /// mistaken for a regular tick.
    pub fn mark_gap(&mut self, text: String, blank: bool) {
        if blank {
            self.row.fill(f64::NAN);
        }
        let elapsed = i64::try_from(self.tick_stamp.elapsed_ns).unwrap_or(i64::MAX);
        self.notes.push(self.tick_stamp.time_ns.saturating_sub(elapsed), Note::GAP, text);
    }

    /// Adds a note at the last tick.
    pub fn add_note(&mut self, kind: &'static str, text: String) {
        self.notes.push(self.tick_stamp.time_ns, kind, text);
    }

    /// The notes since they were last taken, oldest first.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = self.notes.take_notes();
        if let Some(facts) = &mut self.topology_facts {
            let mut problems = Vec::new();
            for note in notes.iter_mut().filter(|note| note.kind == Note::TOPOLOGY) {
                if let Ok(topology) = note.read_topology() {
                    let mut topology = Arc::unwrap_or_clone(topology);
                    let told = facts(&mut topology);
                    problems.extend(told.into_iter().map(|text| Note::new(note.time_ns, Note::WARNING, text)));
                    *note = Note::topology(note.time_ns, topology);
                }
            }
            notes.extend(problems);
        }
        notes
    }

    /// Sets what is added to each topology: facts that no file of the kernel has.
    pub fn set_topology_facts(&mut self, facts: TopologyFacts) {
        self.topology_facts = Some(facts);
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Catalogue, Note};

    use super::*;
    use crate::live::fake::FakeMachine;

    #[test]
    fn a_machine_without_any_file_is_still_sampled() {
        let machine = FakeMachine::new();
        let mut watch = machine.watch_default();
        watch.tick().tick_after(1.0).tick_after(10.0);
        assert!(watch.sampler.row().is_empty());
        let unseen = watch.notes_of_kind(Note::UNSEEN);
        for file in ["diskstats", "stat", "meminfo", "vmstat", "interrupts", "mdstat", "net/dev"] {
            let count = unseen.iter().filter(|n| n.contains(&format!("proc/{file}: does not exist here"))).count();
            assert_eq!(count, 1, "{file}");
        }
        // files that appear later are read from the next slow tick on
        machine.put_ordinary_files();
        watch.tick_after(10.0);
        assert_eq!(watch.value("system.load_1", ""), 0.5);
    }

    #[test]
    fn masked_and_damaged_files_become_notes_and_gaps() {
        let machine = FakeMachine::new();
        machine
            .put_ordinary_files()
            .put_file("proc/stat", "")
            .put_file("proc/meminfo", b"\xff\0\n\n:\n")
            .put_file("proc/vmstat", "pgfault x\n");
        let mut watch = machine.watch_default();
        watch.tick().tick_after(1.0);
        assert!(watch.has_note(Note::UNSEEN, "proc/stat: it is empty (masked in a container?)"));
        assert!(watch.find_value("processor.user_s", "_total").is_none());
        assert!(watch.find_value("memory.total_bytes", "").is_none());
    }

    #[test]
    fn sleep_and_clock_steps_are_noted_and_tick_lengths_stay_right() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        let mut watch = machine.watch_default();
        watch.tick();
        assert_eq!(watch.sampler.tick_stamp().elapsed_ns, 0);
        machine.clock.sleep(3600.0);
        watch.tick_after(1.0);
        assert_eq!(watch.sampler.tick_stamp().elapsed_ns, 1_000_000_000);
        assert!(watch.has_note(Note::CLOCK, "slept for 3600.0 s"));
        machine.clock.step_wall_clock(-30.0);
        let before = watch.sampler.tick_stamp().time_ns;
        watch.tick_after(2.5);
        assert_eq!(watch.sampler.tick_stamp().elapsed_ns, 2_500_000_000);
        assert!(watch.sampler.tick_stamp().time_ns < before);
        assert!(watch.has_note(Note::CLOCK, "stepped by -30.000 s"));
        watch.tick_after(1.0);
        assert_eq!(watch.notes_of_kind(Note::CLOCK).len(), 2);
    }

    #[test]
    fn a_gap_is_noted_at_its_start_and_blanks_all_cells() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        let mut watch = machine.watch_default();
        watch.tick().tick_after(60.0);
        assert!(!watch.sampler.row().iter().all(|cell| cell.is_nan()));
        watch.sampler.mark_gap("stopped".into(), true);
        assert!(watch.sampler.row().iter().all(|cell| cell.is_nan()));
        let begin = watch.sampler.tick_stamp().time_ns - 60_000_000_000;
        let notes = watch.sampler.take_notes();
        assert_eq!(notes.last(), Some(&Note::new(begin, Note::GAP, "stopped")));
    }

    #[test]
    fn the_row_fits_the_schema_and_all_of_it_is_in_the_catalogue() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        let mut watch = machine.watch_default();
        watch.tick();
        let schema = watch.sampler.schema().clone();
        assert_eq!(schema.series.len(), watch.sampler.row().len());
        for series in &schema.series {
            assert!(Catalogue::builtin().get(&series.counter).is_some(), "{}", series.counter);
        }
        watch.tick_after(1.0);
        assert!(Arc::ptr_eq(watch.sampler.schema(), &schema), "nothing changed");
    }
}
