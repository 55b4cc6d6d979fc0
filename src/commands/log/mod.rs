//! Reads logs for the commands: the logs named on the command line, the requested window, and one loop over everything
//! in it.

mod window;

use std::cell::{Cell, Ref, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use diskwright_base::{Device, Frame, LatencyView, LogPiece, Note, Topology};
use diskwright_datastore::{LogEnd, LogItem, LogPosition, LogReader, RecorderState, TrimSummary};
use diskwright_logs::{ReadSummary, TimeBasis};

use super::bundle::{self, BundleSkips, GivenLog};
use super::damage::Losses;
use super::foreign::{self, ForeignOptions};
use super::merge::{self, MergeMember, UnreadableLogs};
use super::process_series::ProcessSeries;
use super::topology_options::{self, MachineDescription};
use super::{Failure, temporary, time_argument};

pub use window::LogWindow;

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

/// A Diskwright log, or the conversion of another tool's log.
#[derive(Clone)]
struct LogSource {
    path: PathBuf,
    /// Name that the user gave.
    name: String,
    range_ns: (i64, i64),
    time_basis: TimeBasis,
    /// Id of its format; empty for a Diskwright log.
    format: &'static str,
    trimmed: Option<TrimSummary>,
    /// True for a log of a bundle.
    is_bundled: bool,
    /// Temporary folder of a converted log; removed with this value.
    temporary_folder: Option<Arc<temporary::TemporaryFolder>>,
}

impl LogSource {
    fn to_merge_member(&self) -> MergeMember {
        let (name, path) = (self.name.clone(), self.path.clone());
        MergeMember {
            name,
            path,
            range_ns: self.range_ns,
            time_basis: self.time_basis,
            format: self.format,
            is_bundled: self.is_bundled,
        }
    }
}

impl Logs {
    /// Opens every log once, to learn its times; logs of other tools are first converted to Diskwright logs, which are
    /// removed with the value.
    pub fn open(paths: &[PathBuf], window: &LogWindow) -> Result<Logs, Failure> {
        Logs::open_given(bundle::expand_paths(paths)?, window)
    }

    /// Opens logs that were already found.
    pub fn open_given(logs: Vec<GivenLog>, window: &LogWindow) -> Result<Logs, Failure> {
        let description = window.topology.describe_machine()?;
        let mut sources = Vec::new();
        let mut skips = BundleSkips::default();
        let open = |log: &GivenLog, options: &ForeignOptions| match log.is_ours() {
            true => open_ours(log).map(|source| (source, ReadSummary::default())),
            false => open_foreign(log, options),
        };
        let reading = (&window.foreign, UnreadableLogs::LeftOut);
        for (log, source, summary) in merge::read_each_log(&logs, reading, || false, open)? {
            skips.add_summary(log, &summary);
            sources.push(source);
        }
        skips.report_skips();
        let members: Vec<MergeMember> = sources.iter().map(LogSource::to_merge_member).collect();
        let mut is_left_out = merge::find_left_out(&members)?.into_iter();
        sources.retain(|_| !is_left_out.next().unwrap_or(false));
        sources.sort_by_key(|s| s.range_ns);
        Logs::from_sources(sources, window, description)
    }

    /// Opens the one log that a store was read into; its window was fixed there.
    pub fn open_fetched(folder: temporary::TemporaryFolder, window: &LogWindow) -> Result<Logs, Failure> {
        let description = window.topology.describe_machine()?;
        let no_ticks = || Failure::Failed("the store returned no ticks".into());
        let range = LogReader::open(folder.log_path())?.time_range()?.ok_or_else(no_ticks)?;
        let (path, name) = (folder.log_path().to_owned(), "the store".to_owned());
        let source = LogSource {
            path,
            name,
            range_ns: range,
            time_basis: TimeBasis::Utc,
            format: "",
            trimmed: None,
            is_bundled: false,
            temporary_folder: Some(Arc::new(folder)),
        };
        Logs::from_sources(vec![source], &LogWindow::default(), description)
    }

    fn from_sources(
        sources: Vec<LogSource>,
        window: &LogWindow,
        description: MachineDescription,
    ) -> Result<Logs, Failure> {
        let first = sources.iter().map(|s| s.range_ns.0).min();
        let last = sources.iter().map(|s| s.range_ns.1).max();
        let (Some(first), Some(last)) = (first, last) else {
            return Err(Failure::Failed("none of the logs could be read".into()));
        };
        let (from, to) = window.parse_ends(last)?;
        let range = (from.unwrap_or(first).max(first), to.unwrap_or(last).min(last));
        if range.0 > range.1 {
            let covered = format!("{} to {}", time_argument::rfc3339(first), time_argument::rfc3339(last));
            let [from, to] = window.end_option_names();
            return Err(Failure::Usage(format!("the log has nothing between {from} and {to}; it covers {covered}")));
        }
        let mut losses = Losses::default();
        let sources = join_sources(sources, range, &mut losses)?;
        let mut logs = Logs {
            starts_at_beginning: from.is_none(),
            end: find_log_end(&sources)?,
            sources,
            machine: description,
            described_disks: Vec::new(),
            processes: None,
            losses: RefCell::new(losses),
            distributions: LatencyReading::Percentiles,
            has_latency: Cell::new(false),
            range_ns: range,
        };
        if logs.machine.names_disks() {
            logs.described_disks = logs.find_described_disks()?;
        }
        Ok(logs)
    }

    /// Finds the described disks by their names in the logs' first frames.
    fn find_described_disks(&self) -> Result<Vec<Device>, Failure> {
        let mut schemas = Vec::new();
        for source in &self.sources {
            let mut reader = LogReader::open(&source.path)?;
            let mut frame = Frame::default();
            while let Some(item) = reader.next(&mut frame)? {
                if item == LogItem::Frame {
                    schemas.push(Arc::clone(frame.schema()));
                    break;
                }
            }
        }
        topology_options::resolve_devices(&self.machine, &schemas.iter().map(Arc::as_ref).collect::<Vec<_>>())
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
            range_ns: (range.0.max(self.range_ns.0), range.1.min(self.range_ns.1)),
        }
    }

    /// Reads process tables as counters too, if wanted.
    pub fn with_processes(mut self, wanted: bool) -> Result<Logs, Failure> {
        self.processes = if wanted { ProcessSeries::find_in_logs(&self)? } else { None };
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
    pub fn read(&self, handle: impl FnMut(LogPiece<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        self.read_into(self.range_ns, &self.losses, handle)?;
        self.losses.borrow_mut().report_losses();
        Ok(())
    }

    /// Reads a part of the window. Damage in it is not reported, because the part is read repeatedly.
    pub fn read_between(
        &self,
        range: (i64, i64),
        handle: impl FnMut(LogPiece<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.read_into(range, &RefCell::default(), handle)
    }

    fn read_into(
        &self,
        range: (i64, i64),
        losses: &RefCell<Losses>,
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.machine.is_empty() {
            // a log without a topology has at least the given facts
            handle(LogPiece::Note(self.topology_note(range.0, Topology::default())))?;
        }
        for source in &self.sources {
            if source.range_ns.0 <= range.1 && range.0 <= source.range_ns.1 {
                self.read_source(LogReader::open(&source.path)?, range, losses, &mut handle)?;
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
        matches!(self.sources.as_slice(), [source] if source.temporary_folder.is_none())
    }

    /// True if the window ends at the end of the log, so that a recorder that resumes makes it longer.
    pub fn may_grow(&self) -> bool {
        self.can_grow() && self.sources.first().is_some_and(|source| source.range_ns.1 <= self.range_ns.1)
    }

    /// Returns whether a recorder adds to the log.
    pub fn recorder_state(&self) -> RecorderState {
        match self.sources.as_slice() {
            [source] if self.can_grow() => diskwright_datastore::read_recorder_state(&source.path),
            _ => RecorderState::Unknown,
        }
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
            Ok(())
        });
        host
    }

    /// Extends the range to ticks recorded since the log was opened; true if there are more than before.
    pub fn refresh_end(&mut self) -> Result<bool, Failure> {
        let [source] = self.sources.as_mut_slice() else { return Ok(false) };
        if source.temporary_folder.is_some() {
            return Ok(false);
        }
        let reader = LogReader::open(&source.path)?;
        let Some(range) = reader.time_range()? else { return Ok(false) };
        let before = (self.range_ns.1, self.end.next_tick);
        source.range_ns = range;
        self.end = reader.log_end(self.end)?;
        self.range_ns.1 = self.range_ns.1.max(range.1);
        // --keep may have removed ticks meanwhile, and the clock may be set back to before the first tick
        self.range_ns.0 = if self.starts_at_beginning { range.0 } else { self.range_ns.0.max(range.0) };
        Ok(before != (self.range_ns.1, self.end.next_tick))
    }

    /// Reads one Diskwright log up to its current end: ticks added since a position, whatever the clock did, or from a
    /// time on if nothing was read yet. Returns the position to continue from. Other logs are read in full. Damage is
    /// not reported.
    pub fn read_new(
        &self,
        (position, from_ns): (LogPosition, i64),
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), Failure>,
    ) -> Result<LogPosition, Failure> {
        let [source] = self.sources.as_slice() else {
            return self.read_between((from_ns, self.range_ns.1), handle).map(|()| position);
        };
        if !self.may_grow() {
            return self.read_between((from_ns, self.range_ns.1), handle).map(|()| position);
        }
        if !self.machine.is_empty() {
            handle(LogPiece::Note(self.topology_note(from_ns, Topology::default())))?;
        }
        let mut reader = LogReader::open(&source.path)?;
        let mut from_ns = from_ns;
        if position != LogPosition::default() && position.tick <= self.end.next_tick {
            reader.resume_from(position);
            from_ns = i64::MIN;
        }
        self.read_source(reader, (from_ns, i64::MAX), &RefCell::default(), &mut handle)
    }

    /// Reads the ticks of a range from a tick number on, with the notes of the range.
    pub fn read_from_tick(
        &self,
        tick: u64,
        range: (i64, i64),
        mut handle: impl FnMut(LogPiece<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for source in &self.sources {
            let mut reader = LogReader::open(&source.path)?;
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

    fn read_source(
        &self,
        mut reader: LogReader,
        (from_ns, to_ns): (i64, i64),
        losses: &RefCell<Losses>,
        handle: &mut impl FnMut(LogPiece<'_>) -> Result<(), Failure>,
    ) -> Result<LogPosition, Failure> {
        reader.set_window(from_ns, to_ns);
        let mut frame = Frame::default();
        let mut extended = None;
        let mut view = match self.distributions {
            LatencyReading::Omitted => LatencyView::without_figures(),
            _ => LatencyView::default(),
        };
        while let Some(item) = reader.next(&mut frame)? {
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
                    let topology = Arc::unwrap_or_clone(note.read_topology()?);
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
fn find_log_end(sources: &[LogSource]) -> Result<LogEnd, Failure> {
    match sources {
        [source] if source.temporary_folder.is_none() => Ok(LogReader::open(&source.path)?.log_end(LogEnd::default())?),
        _ => Ok(LogEnd::default()),
    }
}

fn sum_trims(sources: &[LogSource]) -> Option<TrimSummary> {
    let join = |a: TrimSummary, b: TrimSummary| {
        let (first, second) = (a.range.or(b.range), b.range.or(a.range));
        TrimSummary {
            segments: a.segments + b.segments,
            ticks: a.ticks + b.ticks,
            bytes: a.bytes + b.bytes,
            range: first.zip(second).map(|(first, second)| (first.0.min(second.0), first.1.max(second.1))),
        }
    };
    sources.iter().filter_map(|source| source.trimmed).reduce(join)
}

/// Joins logs of one machine that overlap in time.
fn join_sources(sources: Vec<LogSource>, window: (i64, i64), losses: &mut Losses) -> Result<Vec<LogSource>, Failure> {
    let members: Vec<MergeMember> = sources.iter().map(LogSource::to_merge_member).collect();
    if members.len() < 2 {
        return Ok(sources);
    }
    merge::check_same_host(&members)?;
    let mut remaining = sources.into_iter();
    let mut joined = Vec::new();
    for group in merge::group_overlapping(members) {
        let group_sources: Vec<LogSource> = remaining.by_ref().take(group.len()).collect();
        if group_sources.len() == 1 {
            joined.extend(group_sources);
            continue;
        }
        let folder = temporary::TemporaryFolder::new()?;
        let mut writer = foreign::open_writer(folder.log_path())?;
        merge::join_group(group, window, &mut writer, losses, Some(&folder))?;
        writer.close()?;
        let Some(range) = LogReader::open(folder.log_path())?.time_range()? else { continue };
        let name = group_sources.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
        let trimmed = sum_trims(&group_sources);
        joined.push(LogSource {
            path: folder.log_path().to_owned(),
            name,
            range_ns: range,
            time_basis: TimeBasis::Utc,
            format: "",
            trimmed,
            is_bundled: false,
            temporary_folder: Some(Arc::new(folder)),
        });
    }
    Ok(joined)
}

/// Opens a Diskwright log; a folder can be nothing else, whatever is wrong with it.
fn open_ours(log: &GivenLog) -> Result<LogSource, Failure> {
    let reader = LogReader::open(&log.path)?;
    let Some(range) = reader.time_range()? else { return Err(empty_log_failure(&log.path, reader)) };
    Ok(LogSource {
        path: log.path.clone(),
        name: log.name.clone(),
        range_ns: range,
        time_basis: TimeBasis::default().with_end(range.1),
        format: "",
        trimmed: reader.trim_summary(),
        is_bundled: log.is_bundled,
        temporary_folder: None,
    })
}

/// Returns the failure for a log without any tick, after its damage was reported.
fn empty_log_failure(path: &Path, mut reader: LogReader) -> Failure {
    let mut losses = Losses::default();
    let mut frame = Frame::default();
    while let Ok(Some(item)) = reader.next(&mut frame) {
        if let LogItem::Damage(damage) = item {
            losses.record_damage(damage);
        }
    }
    losses.report_losses();
    Failure::Failed(format!("{}: contains no ticks", path.display()))
}

/// Converts another tool's log to a Diskwright log.
fn open_foreign(log: &GivenLog, reading: &ForeignOptions) -> Result<(LogSource, ReadSummary), Failure> {
    let no_tick = || Failure::Failed(format!("{}: contains no ticks", log.name));
    let folder = temporary::TemporaryFolder::new()?;
    // a signal removes the folder and ends the command
    let target = foreign::ImportTarget {
        log_folder: folder.log_path(),
        stop: &AtomicBool::new(false),
        temporary_folder: Some(&folder),
        files: &[],
    };
    let summary = foreign::import_log(Path::new(&log.name), log.open()?, reading, &target)?;
    let range = LogReader::open(folder.log_path())?.time_range()?.ok_or_else(no_tick)?;
    let source = LogSource {
        path: folder.log_path().to_owned(),
        name: log.name.clone(),
        range_ns: range,
        time_basis: summary.time_basis,
        format: summary.format,
        trimmed: None,
        is_bundled: log.is_bundled,
        temporary_folder: Some(Arc::new(folder)),
    };
    Ok((source, summary))
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
        let opened = Logs::open(std::slice::from_ref(&log), &LogWindow::default());
        let mut logs = opened.unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(logs.range_ns, (1000 * SECOND, 1049 * SECOND));
        record(1050..3000);
        assert!(logs.refresh_end().unwrap_or_else(|fault| panic!("{fault}")));
        assert!(logs.range_ns.0 > 2000 * SECOND, "{:?}", logs.range_ns);
        assert_eq!(logs.range_ns.1, 2999 * SECOND);
    }
}
