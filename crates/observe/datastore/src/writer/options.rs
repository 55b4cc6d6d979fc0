//! How a log is written.

use std::time::Duration;

use diskwright_base::{Note, Tick};

use crate::format::MAX_TICKS;

/// How a log is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Ticks in a block: the more, the smaller the log and the larger the
    /// recorder's memory. Wide schemas get fewer.
    pub block_ticks: usize,
    /// Running time after which a new segment file begins.
    pub segment_span: Duration,
    /// Segments behind which so much running time was recorded are deleted.
    /// What the wall clock does meanwhile has no say in it.
    pub keep_age: Option<Duration>,
    /// The oldest segments are deleted when the log is larger than this, bytes.
    pub keep_bytes: Option<u64>,
    /// Tick times are rounded to this, nanoseconds; 1 keeps them as they are.
    /// A microsecond is far less than a tick's length is ever needed to, and
    /// digits that are mere chance cost as much as any others.
    pub time_unit_ns: u64,
    /// Kinds of notes whose newest is repeated in each segment.
    pub keep_latest: Vec<String>,
    /// Kinds of notes of which every different text is repeated in each segment.
    pub keep_each: Vec<String>,
    /// The device is asked to have the ticks so often, and each block: a power
    /// cut costs no more. `None`: never, for logs that nobody will miss.
    pub sync_every: Option<Duration>,
    /// For bulk imports: ticks are not safe before their block is written,
    /// blocks are written quickly rather than as small as can be, and a full
    /// disk is an error. See [`WriterOptions::bulk`].
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
    /// The tick as a log with these options keeps it: its times rounded.
    pub fn kept(&self, tick: Tick) -> Tick {
        super::rounded(tick, self.time_unit_ns)
    }

    /// Options for moving another tool's log into ours: long blocks, segments
    /// that end by their bytes alone, and times as they are. Nothing is synced;
    /// [`crate::sync`] does that at the end.
    pub fn bulk() -> WriterOptions {
        WriterOptions {
            block_ticks: MAX_TICKS,
            segment_span: Duration::MAX,
            time_unit_ns: 1,
            sync_every: None,
            bulk: true,
            ..WriterOptions::default()
        }
    }
}

/// What became of a tick or note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is in the log.
    Recorded,
    /// The disk does not take it. A tick is lost, a note is tried again; a
    /// note tells of the gap when recording goes on.
    Paused,
}

/// Sizes that agree with each other: what is deleted is whole segments, so
/// these must be small beside what is kept.
pub(super) fn settle(mut options: WriterOptions) -> WriterOptions {
    options.block_ticks = options.block_ticks.clamp(1, MAX_TICKS);
    if let Some(age) = options.keep_age {
        options.segment_span = options.segment_span.min(age / 8);
    }
    options
}
