//! A log that is joined with others.

use diskwright_logs::{ReadSummary, TimeBasis};

use crate::stored_log::StoredLog;

/// How well a log measures what others measure too; the better comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRank {
    /// Interval after interval.
    #[default]
    Series,
    /// One moment or one interval.
    Moment,
    /// One report, which may be the average since boot.
    SinceBoot,
    /// Lists and messages, which name some of what a tool counts.
    Lists,
}

impl MemberRank {
    /// Returns the rank of a log of another tool.
    pub fn of_summary(summary: &ReadSummary) -> MemberRank {
        match summary {
            ReadSummary { format: "snapshot-text", .. } => MemberRank::Lists,
            ReadSummary { may_be_since_boot: true, .. } => MemberRank::SinceBoot,
            ReadSummary { ticks: 0..=1, .. } => MemberRank::Moment,
            _ => MemberRank::Series,
        }
    }
}

/// A log that is joined with others.
pub struct MergeMember {
    /// Name that the user gave.
    pub name: String,
    /// Its content.
    pub stored: StoredLog,
    /// First and last tick.
    pub range_ns: (i64, i64),
    /// Origin of its times.
    pub time_basis: TimeBasis,
    /// Id of its format; empty for a Diskwright log.
    pub format: &'static str,
    /// How well it measures what others measure too.
    pub rank: MemberRank,
    /// True for a log of a folder or archive: if it cannot be joined, the others are.
    pub is_bundled: bool,
}
