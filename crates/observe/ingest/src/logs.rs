//! Opened logs: one loop over everything in a window.

use std::cell::{Cell, Ref, RefCell};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use diskwright_base::{Device, Frame, LatencyView, LogPiece, Note, Topology};
use diskwright_datastore::{LogEnd, LogItem, LogPosition, LogReader, RecorderState, TrimSummary};
use diskwright_logs::PieceSink;

use crate::IngestError;
use crate::given_log::GivenLog;
use crate::log_source::{LogSource, join_sources, sum_trims};
use crate::losses::Losses;
use crate::machine::{self, MachineDescription};
use crate::memory_log::MemoryBudget;
use crate::merge::{self, MergeMember};
use crate::piece_store::PieceStore;
use crate::process_series::{ProcessFinder, ProcessSeries};
use crate::read_each::{UnreadableLogs, read_each_log};
use crate::reading_options::ReadingOptions;
use crate::report::Reporter;
use crate::skip_report::SkipReport;
use crate::stored_log::StoredReader;
use crate::temporary;

/// Opened logs of one machine, before a window of them is chosen.
pub struct OpenedLogs {
    sources: Vec<LogSource>,
    range_ns: (i64, i64),
    reporter: Reporter,
    budget: MemoryBudget,
}

impl OpenedLogs {
    /// Opens every log once, to learn its times; logs of other tools are read, into memory if they are not too long.
    /// What is skipped or left out is reported.
    ///
    /// # Errors
    /// When a log that the user named cannot be read or placed, or none can.
    pub fn open(logs: &[GivenLog], reading: &ReadingOptions, reporter: &Reporter) -> Result<OpenedLogs, IngestError> {
        temporary::sweep_leftovers();
        let budget = MemoryBudget::from_environment()?;
        let mut sources = Vec::new();
        let mut skips = SkipReport::default();
        let open = |log: &_, options: &_| LogSource::open(log, (options, reporter), &budget);
        let reading = (reading, UnreadableLogs::LeftOut);
        for (log, source, summary) in read_each_log(logs, reading, (reporter, || false), open)? {
            skips.add_summary(log, &summary, reporter);
            sources.push(source);
        }
        skips.report_skips(reporter);
        let members: Vec<MergeMember> = sources.iter().map(LogSource::to_merge_member).collect();
        let mut is_left_out = merge::find_left_out(&members, reporter)?.into_iter();
        sources.retain(|_| !is_left_out.next().unwrap_or(false));
        sources.sort_by_key(|source| source.range_ns);
        OpenedLogs::from_sources(sources, reporter, budget)
    }

    /// Takes logs that were read already, in the order of their times.
    ///
    /// # Errors
    /// When there is none.
    pub fn from_members(members: Vec<MergeMember>, reporter: &Reporter) -> Result<OpenedLogs, IngestError> {
        let sources = members.into_iter().map(LogSource::from_merge_member).collect();
        OpenedLogs::from_sources(sources, reporter, MemoryBudget::from_environment()?)
    }

    /// Keeps what `read` delivers as one log with this name.
    ///
    /// # Errors
    /// Those of `read`, and when it delivers no tick.
    pub fn from_pieces<E: Into<IngestError>>(
        name: &str,
        reporter: &Reporter,
        read: impl FnOnce(&mut PieceSink<'_>) -> Result<(), E>,
    ) -> Result<OpenedLogs, IngestError> {
        let budget = MemoryBudget::from_environment()?;
        let (mut store, mut failure) = (PieceStore::new(&budget)?, None);
        let result = read(&mut |piece: LogPiece<'_>| match store.add_piece(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        });
        failure.map_or(Ok(()), Err)?;
        result.map_err(Into::into)?;
        let no_ticks = || IngestError::Refused(format!("{name} returned no ticks"));
        let (stored, range_ns) = store.finish()?.ok_or_else(no_ticks)?;
        OpenedLogs::from_sources(vec![LogSource::from_stored(stored, name.to_owned(), range_ns)], reporter, budget)
    }

    fn from_sources(
        sources: Vec<LogSource>,
        reporter: &Reporter,
        budget: MemoryBudget,
    ) -> Result<OpenedLogs, IngestError> {
        let first = sources.iter().map(|source| source.range_ns.0).min();
        let last = sources.iter().map(|source| source.range_ns.1).max();
        let range_ns = first.zip(last).ok_or(IngestError::NoneReadable)?;
        Ok(OpenedLogs { sources, range_ns, reporter: reporter.clone(), budget })
    }

    /// First and last tick, nanoseconds since 1970 UTC.
    pub fn range_ns(&self) -> (i64, i64) {
        self.range_ns
    }

    /// Returns the logs limited to a window, with facts about their machine; those that overlap are joined.
    /// `starts_at_beginning` is true if the user gave no start.
    ///
    /// # Errors
    /// When the logs are of several machines, a disk that was described is in none of them, or one cannot be read.
    pub fn into_logs(
        self,
        window: (i64, i64),
        starts_at_beginning: bool,
        machine: MachineDescription,
    ) -> Result<Logs, IngestError> {
        let mut losses = Losses::default();
        let sources = join_sources(self.sources, window, &mut losses, (&self.reporter, &self.budget))?;
        let mut logs = Logs {
            starts_at_beginning,
            end: find_log_end(&sources)?,
            sources,
            machine,
            described_disks: Vec::new(),
            processes: None,
            losses: RefCell::new(losses),
            distributions: LatencyReading::Percentiles,
            has_latency: Cell::new(false),
            reporter: self.reporter,
            range_ns: window,
        };
        if logs.machine.names_disks() {
            logs.described_disks = logs.find_described_disks()?;
        }
        Ok(logs)
    }
}

/// Logs opened for reading, with the window in nanoseconds since 1970 UTC.
pub struct Logs {
    sources: Vec<LogSource>,
    /// Facts given about the machine.
    machine: MachineDescription,
    /// The disks among these facts.
    described_disks: Vec<Device>,
    /// Processes read as counters, if that was requested.
    processes: Option<ProcessSeries>,
    losses: RefCell<Losses>,
    distributions: LatencyReading,
    /// True once latency distributions were seen.
    has_latency: Cell<bool>,
    starts_at_beginning: bool,
    /// End of a single Diskwright log.
    end: LogEnd,
    reporter: Reporter,
    /// First and last time that will be read.
    pub range_ns: (i64, i64),
}

/// Treatment of latency distributions.
#[derive(Clone, Copy, PartialEq)]
enum LatencyReading {
    Percentiles,
    /// Step by step, as they are stored.
    Steps,
    Omitted,
}

impl Logs {
    /// Finds the described disks by their names in the logs' first frames.
    fn find_described_disks(&self) -> Result<Vec<Device>, IngestError> {
        let (mut schemas, mut recorded) = (Vec::new(), Topology::default());
        for source in &self.sources {
            let mut reader = source.stored.open_reader()?;
            let mut frame = Frame::default();
            // the notes of a frame's time come before it
            while let Some(item) = reader.next(&mut frame)? {
                match item {
                    LogItem::Frame => {
                        schemas.push(Arc::clone(frame.schema()));
                        break;
                    }
                    LogItem::Note(note) if note.kind == Note::TOPOLOGY => {
                        let known = note.read_topology().map(Arc::unwrap_or_clone).unwrap_or_default();
                        recorded.devices.extend(known.devices);
                    }
                    LogItem::Note(_) | LogItem::Damage(_) => {}
                }
            }
        }
        machine::resolve_devices(&self.machine, &schemas.iter().map(Arc::as_ref).collect::<Vec<_>>(), &recorded)
    }

    /// Returns the same logs for another reader, limited to a range.
    pub fn for_range(&self, range: (i64, i64)) -> Logs {
        Logs {
            sources: self.sources.clone(),
            machine: self.machine.clone(),
            described_disks: self.described_disks.clone(),
            processes: None,
            losses: RefCell::default(),
            distributions: LatencyReading::Percentiles,
            has_latency: Cell::new(false),
            starts_at_beginning: false,
            end: self.end,
            reporter: self.reporter.clone(),
            range_ns: (range.0.max(self.range_ns.0), range.1.min(self.range_ns.1)),
        }
    }

    /// Names and times of the logs, or groups of logs, that do not overlap.
    pub fn name_ranges(&self) -> Vec<(String, (i64, i64))> {
        self.sources.iter().map(|source| (source.name.clone(), source.range_ns)).collect()
    }

    /// Reads process tables as counters too, if wanted.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn with_processes(mut self, wanted: bool) -> Result<Logs, IngestError> {
        self.processes = None;
        if wanted {
            let mut finder = ProcessFinder::default();
            self.read(|piece| {
                finder.add_piece(&piece);
                Ok::<(), IngestError>(())
            })?;
            self.processes = finder.finish();
        }
        Ok(self)
    }

    /// Reads latency distributions step by step, as they are stored, instead of their percentiles.
    pub fn with_steps(mut self, wanted: bool) -> Logs {
        self.distributions = if wanted { LatencyReading::Steps } else { LatencyReading::Percentiles };
        self
    }

    /// Leaves latency distributions out: computing their percentiles takes longer than reading the rest of a log.
    pub fn without_distributions(self) -> Logs {
        Logs { distributions: LatencyReading::Omitted, ..self }
    }

    /// True if latency distributions were read so far.
    pub fn has_latency(&self) -> bool {
        self.has_latency.get()
    }

    /// Number of processes that did too little to be read as counters.
    pub fn processes_left_out(&self) -> usize {
        self.processes.as_ref().map_or(0, |processes| processes.left_out)
    }

    /// Reads everything in the window, log after log, oldest first.
    /// Damage is reported at the first reading.
    ///
    /// # Errors
    /// Those of `handle`, and when a log cannot be read.
    pub fn read<E: From<IngestError>>(&self, handle: impl FnMut(LogPiece<'_>) -> Result<(), E>) -> Result<(), E> {
        self.read_into(self.range_ns, &self.losses, handle)?;
        self.losses.borrow_mut().report_losses(&self.reporter);
        Ok(())
    }

    /// Reads a part of the window. Damage in it is not reported, because the part is read repeatedly.
    ///
    /// # Errors
    /// Those of `handle`, and when a log cannot be read.
    pub fn read_between<E: From<IngestError>>(
        &self,
        range: (i64, i64),
        handle: impl FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read_into(range, &RefCell::default(), handle)
    }

    fn read_into<E: From<IngestError>>(
        &self,
        range: (i64, i64),
        losses: &RefCell<Losses>,
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.machine.is_empty() {
            // a log without a topology has at least the given facts
            handle(LogPiece::Note(self.topology_note(range.0, Topology::default())))?;
        }
        for source in &self.sources {
            if source.range_ns.0 <= range.1 && range.0 <= source.range_ns.1 {
                self.read_source(source.stored.open_reader()?, range, losses, &mut handle)?;
            }
        }
        Ok(())
    }

    /// True if no start was given, so that the first tick counts in full, although it began before the range.
    pub fn is_from_beginning(&self) -> bool {
        self.starts_at_beginning
    }

    /// True for a single Diskwright log that is read in place.
    pub fn can_grow(&self) -> bool {
        self.growing_path().is_some()
    }

    /// Path of a single Diskwright log that is read in place.
    fn growing_path(&self) -> Option<&Path> {
        match self.sources.as_slice() {
            [source] => source.stored.path_in_place(),
            _ => None,
        }
    }

    /// True if the window ends at the end of the log, so that a recorder that resumes makes it longer.
    pub fn may_grow(&self) -> bool {
        self.can_grow() && self.sources.first().is_some_and(|source| source.range_ns.1 <= self.range_ns.1)
    }

    /// Returns whether a recorder adds to the log.
    pub fn recorder_state(&self) -> RecorderState {
        self.growing_path().map_or(RecorderState::Unknown, diskwright_datastore::read_recorder_state)
    }

    /// True if the recorder ended the log cleanly. A killed recorder is silent, which is reported to whoever follows
    /// its log.
    pub fn has_ended(&self) -> bool {
        self.recorder_state() == RecorderState::Ended
    }

    /// Host name in the log; empty if there is none.
    pub fn host_name(&self) -> String {
        let mut host = String::new();
        let until = self.range_ns.0.saturating_add(60_000_000_000);
        let _ = self.read_between((self.range_ns.0, until), |piece| {
            if let LogPiece::Note(note) = piece
                && note.kind == Note::TOPOLOGY
                && let Ok(topology) = note.read_topology()
            {
                host.clone_from(&topology.host);
            }
            Ok::<(), IngestError>(())
        });
        host
    }

    /// Extends the range to ticks recorded since the log was opened; true if there are more than before.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn refresh_end(&mut self) -> Result<bool, IngestError> {
        let Some(path) = self.growing_path() else { return Ok(false) };
        let reader = LogReader::open(path)?;
        let Some(range) = reader.time_range()? else { return Ok(false) };
        let before = (self.range_ns.1, self.end.next_tick);
        self.sources.iter_mut().for_each(|source| source.range_ns = range);
        self.end = reader.log_end(self.end)?;
        self.range_ns.1 = self.range_ns.1.max(range.1);
        // --keep may have removed ticks meanwhile, and the clock may be set back to before the first tick
        self.range_ns.0 = if self.starts_at_beginning { range.0 } else { self.range_ns.0.max(range.0) };
        Ok(before != (self.range_ns.1, self.end.next_tick))
    }

    /// Reads one Diskwright log up to its current end: ticks added since a position, whatever the clock did, or from a
    /// time on if nothing was read yet. Returns the position to continue from. Other logs are read in full. Damage is
    /// not reported.
    ///
    /// # Errors
    /// Those of `handle`, and when a log cannot be read.
    pub fn read_new<E: From<IngestError>>(
        &self,
        (position, from_ns): (LogPosition, i64),
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<LogPosition, E> {
        let Some(path) = self.growing_path().filter(|_| self.may_grow()) else {
            return self.read_between((from_ns, self.range_ns.1), handle).map(|()| position);
        };
        if !self.machine.is_empty() {
            handle(LogPiece::Note(self.topology_note(from_ns, Topology::default())))?;
        }
        let mut reader = LogReader::open(path).map_err(IngestError::from)?;
        let mut from_ns = from_ns;
        if position != LogPosition::default() && position.tick <= self.end.next_tick {
            reader.resume_from(position);
            from_ns = i64::MIN;
        }
        self.read_source(StoredReader::Log(Box::new(reader)), (from_ns, i64::MAX), &RefCell::default(), &mut handle)
    }

    /// Reads the ticks of a range from a tick number on, with the notes of the range.
    ///
    /// # Errors
    /// Those of `handle`, and when a log cannot be read.
    pub fn read_from_tick<E: From<IngestError>>(
        &self,
        tick: u64,
        range: (i64, i64),
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for source in &self.sources {
            let mut reader = source.stored.open_reader()?;
            reader.start_at_tick(tick);
            self.read_source(reader, range, &RefCell::default(), &mut handle)?;
        }
        Ok(())
    }

    /// Number of the tick after the last, for a log that can grow.
    pub fn next_tick(&self) -> u64 {
        self.end.next_tick
    }

    /// Time of the last tick. If the clock was set back, it is before the latest time in the log.
    pub fn last_ns(&self) -> i64 {
        let last = self.end.time_ns.filter(|_| self.may_grow());
        last.map_or(self.range_ns.1, |last| last.min(self.range_ns.1).max(self.range_ns.0))
    }

    /// Damage in the window; known once the logs were read.
    pub fn losses(&self) -> Ref<'_, Losses> {
        self.losses.borrow()
    }

    /// Ticks removed from these logs by their retention limits.
    pub fn trim_summary(&self) -> Option<TrimSummary> {
        sum_trims(&self.sources)
    }

    fn topology_note(&self, time_ns: i64, mut topology: Topology) -> Note {
        self.machine.complete_topology(&mut topology, &self.described_disks);
        Note::topology(time_ns, topology)
    }

    fn read_source<E: From<IngestError>>(
        &self,
        mut reader: StoredReader,
        (from_ns, to_ns): (i64, i64),
        losses: &RefCell<Losses>,
        handle: &mut impl FnMut(LogPiece<'_>) -> Result<(), E>,
    ) -> Result<LogPosition, E> {
        reader.set_window(from_ns, to_ns);
        let mut frame = Frame::default();
        let mut extended = None;
        let mut view = match self.distributions {
            LatencyReading::Omitted => LatencyView::without_figures(),
            _ => LatencyView::default(),
        };
        while let Some(item) = reader.next(&mut frame).map_err(IngestError::from)? {
            match item {
                LogItem::Frame => {
                    let viewed =
                        if self.distributions == LatencyReading::Steps { None } else { view.view_frame(&frame) };
                    self.has_latency.set(self.has_latency.get() || viewed.is_some());
                    let frame = viewed.as_ref().unwrap_or(&frame);
                    let extended = self.machine.add_missing_counters(frame, &mut extended);
                    handle(LogPiece::Frame(extended.as_ref().unwrap_or(frame)))?;
                }
                LogItem::Note(note) if note.kind == Note::TOPOLOGY && !self.machine.is_empty() => {
                    let topology = Arc::unwrap_or_clone(note.read_topology().map_err(IngestError::from)?);
                    handle(LogPiece::Note(self.topology_note(note.time_ns, topology)))?;
                }
                LogItem::Note(note) => {
                    let frame = self.processes.as_ref().and_then(|processes| processes.frame_from_note(&note));
                    frame.map_or(Ok(()), |frame| handle(LogPiece::Frame(&frame)))?;
                    handle(LogPiece::Note(note))?;
                }
                LogItem::Damage(damage) => {
                    let note = losses.borrow_mut().record_damage(damage);
                    note.map_or(Ok(()), |note| handle(LogPiece::Note(note)))?;
                }
            }
        }
        Ok(reader.position())
    }
}

/// Position of the end of a single Diskwright log; empty for others, which do not grow.
fn find_log_end(sources: &[LogSource]) -> Result<LogEnd, IngestError> {
    let path = if let [source] = sources { source.stored.path_in_place() } else { None };
    path.map_or(Ok(LogEnd::default()), |path| Ok(LogReader::open(path)?.log_end(LogEnd::default())?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diskwright_base::{Schema, Series, Tick};
    use diskwright_datastore::{LogWriter, WriterOptions};

    use super::*;

    #[test]
    fn log_without_its_oldest_part_begins_later() {
        const SECOND: i64 = 1_000_000_000;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let keep_age = Some(Duration::from_secs(100));
        let options = WriterOptions { block_ticks: 5, keep_age, sync_every: None, ..WriterOptions::default() };
        let mut writer = LogWriter::create_or_append(&log, options).unwrap();
        let series = Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 };
        let schema = Arc::new(Schema::new(vec![series]));
        let mut record = |seconds: std::ops::Range<i64>| {
            for second in seconds {
                let tick = Tick { time_ns: second * SECOND, elapsed_ns: SECOND.unsigned_abs() };
                writer.push(&schema, tick, &[1.0]).unwrap();
            }
        };
        record(1000..1050);
        let given = GivenLog::given_directly(&log);
        let opened = OpenedLogs::open(&[given], &ReadingOptions::default(), &Reporter::silent()).unwrap();
        let range = opened.range_ns();
        let mut logs = opened.into_logs(range, true, MachineDescription::default()).unwrap();
        assert_eq!(logs.range_ns, (1000 * SECOND, 1049 * SECOND));
        record(1050..3000);
        assert!(logs.refresh_end().unwrap());
        assert!(logs.range_ns.0 > 2000 * SECOND, "{:?}", logs.range_ns);
        assert_eq!(logs.range_ns.1, 2999 * SECOND);
    }
}
