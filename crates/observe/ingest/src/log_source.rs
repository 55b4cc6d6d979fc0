//! One opened log, with its times.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use diskwright_base::Frame;
use diskwright_datastore::{LogItem, LogReader, TrimSummary};
use diskwright_logs::{ReadSummary, TimeBasis};

use crate::IngestError;
use crate::given_log::GivenLog;
use crate::import::{ImportOptions, keep_log};
use crate::losses::Losses;
use crate::memory_log::MemoryBudget;
use crate::merge::{self, MemberRank, MergeMember, MergeOutput};
use crate::piece_store::PieceStore;
use crate::reading_options::ReadingOptions;
use crate::report::Reporter;
use crate::stored_log::StoredLog;

/// A Diskwright log, or another tool's log that was read.
#[derive(Clone)]
pub struct LogSource {
    pub stored: StoredLog,
    /// Name that the user gave.
    pub name: String,
    pub range_ns: (i64, i64),
    time_basis: TimeBasis,
    /// Id of its format; empty for a Diskwright log.
    format: &'static str,
    pub trimmed: Option<TrimSummary>,
    /// How well it measures what others measure too.
    rank: MemberRank,
    /// True for a log of a bundle.
    is_bundled: bool,
}

impl LogSource {
    /// Opens any log.
    pub fn open(
        log: &GivenLog,
        (reading, reporter): (&ReadingOptions, &Reporter),
        budget: &MemoryBudget,
    ) -> Result<(LogSource, ReadSummary), IngestError> {
        match log.is_ours() {
            true => open_ours(log, reporter).map(|source| (source, ReadSummary::default())),
            false => open_foreign(log, (reading, reporter), budget),
        }
    }

    /// A log with times in UTC.
    pub fn from_stored(stored: StoredLog, name: String, range_ns: (i64, i64)) -> LogSource {
        let (time_basis, format, trimmed, is_bundled) = (TimeBasis::Utc, "", None, false);
        LogSource { stored, name, range_ns, time_basis, format, trimmed, rank: MemberRank::Series, is_bundled }
    }

    /// A log that was read to be joined with others.
    pub fn from_merge_member(member: MergeMember) -> LogSource {
        let MergeMember { name, stored, range_ns, time_basis, format, rank, is_bundled } = member;
        LogSource { stored, name, range_ns, time_basis, format, trimmed: None, rank, is_bundled }
    }

    pub fn to_merge_member(&self) -> MergeMember {
        MergeMember {
            name: self.name.clone(),
            stored: self.stored.clone(),
            range_ns: self.range_ns,
            time_basis: self.time_basis,
            format: self.format,
            rank: self.rank,
            is_bundled: self.is_bundled,
        }
    }
}

/// Opens a Diskwright log; a folder can be nothing else, whatever is wrong with it.
fn open_ours(log: &GivenLog, reporter: &Reporter) -> Result<LogSource, IngestError> {
    let reader = LogReader::open(&log.path)?;
    let Some(range) = reader.time_range()? else { return Err(empty_log_error(&log.path, reader, reporter)) };
    Ok(LogSource {
        stored: StoredLog::InPlace(log.path.clone()),
        name: log.name.clone(),
        range_ns: range,
        time_basis: TimeBasis::default().with_end(range.1),
        format: "",
        trimmed: reader.trim_summary(),
        rank: MemberRank::Series,
        is_bundled: log.is_bundled,
    })
}

/// Returns the error for a log without any tick, after its damage was reported.
fn empty_log_error(path: &Path, mut reader: LogReader, reporter: &Reporter) -> IngestError {
    let mut losses = Losses::default();
    let mut frame = Frame::default();
    while let Ok(Some(item)) = reader.next(&mut frame) {
        if let LogItem::Damage(damage) = item {
            losses.record_damage(damage);
        }
    }
    losses.report_losses(reporter);
    IngestError::NoTicks { name: path.display().to_string() }
}

/// Reads another tool's log.
fn open_foreign(
    log: &GivenLog,
    (reading, reporter): (&ReadingOptions, &Reporter),
    budget: &MemoryBudget,
) -> Result<(LogSource, ReadSummary), IngestError> {
    // a signal ends the command
    let import = ImportOptions { stop: &AtomicBool::new(false), files: &[] };
    let (kept, summary) = keep_log(log, (reading, reporter), import, budget)?;
    let (stored, range_ns) = kept.ok_or_else(|| IngestError::NoTicks { name: log.name.clone() })?;
    let source = LogSource {
        stored,
        name: log.name.clone(),
        range_ns,
        time_basis: summary.time_basis,
        format: summary.format,
        trimmed: None,
        rank: MemberRank::of_summary(&summary),
        is_bundled: log.is_bundled,
    };
    Ok((source, summary))
}

/// Joins logs of one machine that overlap in time, as far as they lie in a window.
pub fn join_sources(
    sources: Vec<LogSource>,
    window: (i64, i64),
    losses: &mut Losses,
    (reporter, budget): (&Reporter, &MemoryBudget),
) -> Result<Vec<LogSource>, IngestError> {
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
        let mut store = PieceStore::new(budget)?;
        merge::join_group(group, window, &mut MergeOutput::Store(&mut store), losses, reporter)?;
        let Some((stored, range_ns)) = store.finish()? else { continue };
        let name = group_sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
        let trimmed = sum_trims(&group_sources);
        joined.push(LogSource { trimmed, ..LogSource::from_stored(stored, name, range_ns) });
    }
    Ok(joined)
}

/// Sums what retention limits removed from the logs.
pub fn sum_trims(sources: &[LogSource]) -> Option<TrimSummary> {
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
