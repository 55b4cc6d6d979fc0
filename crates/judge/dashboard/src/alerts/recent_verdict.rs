//! The verdict on the most recent ticks, for alerts: the bottleneck, its culprits, and what to do.

use diskwright_base::timestamp::now_ns;
use diskwright_base::{Ceiling, LogPiece};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};

use crate::history::{History, RecentHistory};

/// Shortest judged window.
const WINDOW_NS: i64 = 30_000_000_000;
/// Time between verdicts.
const JUDGE_INTERVAL_NS: i64 = 5_000_000_000;
/// Smallest number of ticks of the judged window.
const MIN_TICKS: i64 = 6;

/// Judges the most recent ticks at intervals and keeps the last verdict.
pub(crate) struct RecentVerdict {
    judge: Judge,
    /// Time of the last verdict, nanoseconds since 1970 UTC.
    judged_ns: Option<i64>,
    /// The last verdict; `None` where there were too few ticks.
    pub verdict: Option<Verdict>,
}

impl RecentVerdict {
    /// Creates a judge for this pack, without a verdict so far.
    pub fn new(pack: Pack, ceilings: Vec<Ceiling>) -> RecentVerdict {
        let options = JudgeOptions { ceilings, clock: Some(now_ns), ..JudgeOptions::default() };
        RecentVerdict { judge: Judge::new(vec![pack], options), judged_ns: None, verdict: None }
    }

    /// Length of the judged window where ticks have this length, nanoseconds: ticks must be kept for that long.
    pub fn needed_ns(interval_ns: i64) -> i64 {
        WINDOW_NS.max(interval_ns.saturating_mul(MIN_TICKS))
    }

    /// Judges if the interval between verdicts has passed, or the clock was set back; returns true if it judged.
    pub fn judge_if_due(&mut self, recent: &RecentHistory, time_ns: i64, interval_ns: i64) -> bool {
        if self.judged_ns.is_some_and(|last| (0..JUDGE_INTERVAL_NS).contains(&(time_ns - last))) {
            return false;
        }
        self.judged_ns = Some(time_ns);
        let mut verdict = self.judge_window(recent, (time_ns - RecentVerdict::needed_ns(interval_ns), time_ns));
        if let (Some(verdict), Some(last)) = (&mut verdict, &self.verdict) {
            verdict.put_first(last.bottleneck, &last.instance);
        }
        self.verdict = verdict;
        true
    }

    /// Judges at once.
    pub fn judge_now(&mut self, recent: &RecentHistory, time_ns: i64, interval_ns: i64) {
        self.judged_ns = None;
        self.judge_if_due(recent, time_ns, interval_ns);
    }

    fn judge_window(&mut self, recent: &RecentHistory, (from, to): (i64, i64)) -> Option<Verdict> {
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
