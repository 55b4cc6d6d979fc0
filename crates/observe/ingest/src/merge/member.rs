//! A log that is joined with others.

use diskwright_logs::TimeBasis;

use crate::stored_log::StoredLog;

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
    /// True for a log of a folder or archive: if it cannot be joined, the others are.
    pub is_bundled: bool,
}
