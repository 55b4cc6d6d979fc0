//! The verdict on the most recent ticks, for alerts: the bottleneck, its culprits, and what to do.

use diskwright_base::{Ceiling, LogPiece};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};

use crate::history::{History, RecentHistory};

/// Length of the judged window.
const OVER_NS: i64 = 30_000_000_000;
/// Time between verdicts.
const EVERY_NS: i64 = 5_000_000_000;
/// Smallest number of ticks of the judged window.
const LEAST_TICKS: i64 = 6;

/// Judges the most recent ticks at intervals and keeps the last verdict.
pub(crate) struct VerdictWatch {
    judge: Judge,
    judged_ns: Option<i64>,
    /// The last verdict; `None` where there were too few ticks.
    pub verdict: Option<Verdict>,
}

impl VerdictWatch {
    /// Creates a judge for this pack without a verdict yet.
    pub fn new(pack: Pack, ceilings: Vec<Ceiling>) -> VerdictWatch {
        let options = JudgeOptions { ceilings, ..JudgeOptions::default() };
        VerdictWatch { judge: Judge::new(vec![pack], options), judged_ns: None, verdict: None }
    }

    /// Nanoseconds of ticks that must be kept, with ticks of this length.
    pub fn needs(interval_ns: i64) -> i64 {
        OVER_NS.max(interval_ns.saturating_mul(LEAST_TICKS))
    }

    /// Judges if the interval has passed since the last verdict; returns true where it judged.
    pub fn tick(&mut self, recent: &RecentHistory, time_ns: i64, interval_ns: i64) -> bool {
        if self.judged_ns.is_some_and(|last| (0..EVERY_NS).contains(&(time_ns - last))) {
            return false;
        }
        self.judged_ns = Some(time_ns);
        self.verdict = self.judge(recent, (time_ns - VerdictWatch::needs(interval_ns), time_ns));
        true
    }

    fn judge(&mut self, recent: &RecentHistory, (from, to): (i64, i64)) -> Option<Verdict> {
        let judge = &mut self.judge;
        judge.restart(Some((from, to)));
        let mut ticks = 0;
        let each = &mut |piece: LogPiece<'_>| match piece {
            LogPiece::Frame(frame) => {
                ticks += frame.ticks().len();
                judge.add_frame(frame);
            }
            LogPiece::Note(note) => judge.add_note(&note),
        };
        recent.read(from, to, each).ok()?;
        if ticks < 2 { None } else { judge.finish().into_iter().next() }
    }
}
