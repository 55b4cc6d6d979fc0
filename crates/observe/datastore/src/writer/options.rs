//! Options of writing a log.

use std::time::Duration;

use diskwright_base::{Note, Tick};

use crate::format::MAX_BLOCK_TICKS;

/// Options of writing a log.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Number of ticks in a block. More make the log smaller and the recorder's
    /// memory larger. Wide schemas get fewer.
    pub block_ticks: usize,
    /// Running time after which a new segment file begins.
    pub segment_span: Duration,
    /// Segments after which this much running time was recorded are deleted.
    /// The wall clock has no influence.
    pub keep_age: Option<Duration>,
    /// The oldest segments are deleted when the log is larger than this, bytes.
    pub keep_bytes: Option<u64>,
    /// Tick times are rounded to this, nanoseconds; 1 keeps them as they are.
    /// A microsecond is more precise than a tick's length ever needs to be, and
    /// further digits would be random and take space.
    pub time_unit_ns: u64,
    /// Kinds of notes of which the newest is repeated in each segment.
    pub keep_latest: Vec<String>,
    /// Kinds of notes of which every different text is repeated in each segment.
    pub keep_each: Vec<String>,
    /// Interval at which the ticks are synced to the device (blocks are synced at once), which
    /// limits the loss in a power cut. `None`: never, for logs that may be lost.
    pub sync_every: Option<Duration>,
    /// Bulk mode, for imports: ticks are not safe before their block is written,
    /// blocks are encoded fast instead of small, and a full
    /// disk is an error. See [`WriterOptions::for_bulk_import`].
    pub bulk: bool,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            block_ticks: 240,
            segment_span: Duration::from_secs(3600),
            keep_age: None,
            keep_bytes: None,
            time_unit_ns: 1000,
            keep_latest: [Note::TOPOLOGY, Note::CEILINGS, Note::SOURCE, Note::HOST].map(String::from).into(),
            keep_each: vec![Note::UNSEEN.into()],
            sync_every: Some(Duration::from_secs(10)),
            bulk: false,
        }
    }
}

impl WriterOptions {
    /// Returns the tick as a log with these options stores it: with its times rounded.
    pub fn round_tick(&self, tick: Tick) -> Tick {
        super::round_times(tick, self.time_unit_ns)
    }

    /// Options for importing another tool's log: long blocks, segments limited
    /// only by size, and times unchanged. Nothing is synced;
    /// [`crate::sync_log`] does that at the end.
    pub fn for_bulk_import() -> WriterOptions {
        WriterOptions {
            block_ticks: MAX_BLOCK_TICKS,
            segment_span: Duration::MAX,
            time_unit_ns: 1,
            sync_every: None,
            bulk: true,
            ..WriterOptions::default()
        }
    }
}

/// Result of adding a tick or note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The tick or note is in the log.
    Recorded,
    /// The disk did not accept the tick or note. A tick is lost, a note is tried again; when
    /// recording continues, a note reports the gap.
    Paused,
}

/// Limits the options to valid values. Because only whole segments are deleted,
/// a segment must cover little of the time to keep.
pub(super) fn limit_options(mut options: WriterOptions) -> WriterOptions {
    options.block_ticks = options.block_ticks.clamp(1, MAX_BLOCK_TICKS);
    if let Some(age) = options.keep_age {
        options.segment_span = options.segment_span.min(age / 8);
    }
    options
}
