//! A bottleneck that ended before its window did. A live view judges the last minute, and whoever has just removed a
//! limit must not be told for another minute that it is the bottleneck.

use diskwright_base::timestamp::{format_rfc3339, parse_rfc3339};
use diskwright_base::units::format_value;

use super::sentences::subject_phrase;
use super::verdict::{EndedBottleneck, HoldInterval, Verdict, VerdictBottleneck};

/// Shortest time without it after which a bottleneck counts as ended, nanoseconds. Our choice: half of the shortest
/// window that `why` watches by default.
const MIN_QUIET_NS: i64 = 15_000_000_000;
/// Smallest number of ticks of that time.
const MIN_QUIET_TICKS: f64 = 5.0;
/// The time without it must also be longer than its own longest pause within the window, times this.
const PAUSE_FACTOR: f64 = 1.5;

impl Verdict {
    /// The time since which none of the first bottleneck's findings holds, nanoseconds since 1970 UTC; `None` where one
    /// may still hold. A trouble that pauses has ended only after a longer pause than it made before.
    pub fn ended_ns(&self) -> Option<i64> {
        Some(self.ended_times(self.bottlenecks.first()?)?.1)
    }

    /// When a bottleneck's findings first and last held, if none holds any more, nanoseconds since 1970 UTC.
    fn ended_times(&self, listed: &VerdictBottleneck) -> Option<(i64, i64)> {
        let end_ns = parse_rfc3339(&self.window.to)?;
        let findings = listed.positions.iter().filter_map(|position| self.findings.get(*position));
        let mut stretches: Vec<(i64, i64)> =
            findings.flat_map(|finding| &finding.stretches).map(times_of).collect::<Option<_>>()?;
        stretches.sort_unstable();
        let (first_ns, mut last_ns) = *stretches.first()?;
        let mut longest_pause_ns = 0;
        for (from_ns, to_ns) in stretches {
            longest_pause_ns = longest_pause_ns.max(from_ns.saturating_sub(last_ns));
            last_ns = last_ns.max(to_ns);
        }
        let quiet_ns = end_ns.saturating_sub(last_ns);
        let tick_ns = self.window.seconds / self.window.ticks.max(1) as f64 * 1e9;
        let needed_ns =
            (MIN_QUIET_NS as f64).max(MIN_QUIET_TICKS * tick_ns).max(PAUSE_FACTOR * longest_pause_ns as f64);
        (quiet_ns as f64 >= needed_ns).then_some((first_ns, last_ns))
    }

    /// Takes out the bottlenecks that ended while others last, for a view of what is so now.
    pub fn drop_ended(&mut self) {
        if self.bottlenecks.iter().all(|listed| listed.was_there.is_some()) {
            return;
        }
        let (gone, lasting) = std::mem::take(&mut self.bottlenecks).into_iter().partition(|l| l.was_there.is_some());
        let gone: Vec<VerdictBottleneck> = gone;
        self.bottlenecks = lasting;
        let ended = gone.into_iter().find_map(|listed| {
            let ended_at = listed.was_there?.to;
            Some(EndedBottleneck { bottleneck: listed.bottleneck, instance: listed.instance, ended_at })
        });
        self.ended = self.ended.take().or(ended);
        self.follow_bottlenecks();
    }

    /// Tells that another bottleneck ended at a time, after which this verdict judges. It changes nothing if the same
    /// one is still there.
    pub fn set_after(&mut self, earlier: &Verdict, ended_ns: i64) {
        let is_same =
            |listed: &VerdictBottleneck| listed.bottleneck == earlier.bottleneck && listed.instance == earlier.instance;
        if self.bottlenecks.iter().any(is_same) {
            return;
        }
        let ago = parse_rfc3339(&self.window.to).map_or(0, |to_ns| to_ns.saturating_sub(ended_ns));
        let phrase = subject_phrase(earlier);
        let subject = phrase.trim_end_matches(" is").trim_end_matches(" are");
        let text = format!("{subject} held it back until {} ago.", format_value(ago as f64 / 1e9, "s"));
        let text = text[..1].to_uppercase() + &text[1..];
        match self.bottlenecks.first_mut() {
            Some(first) => {
                first.sentence = format!("{} {text}", first.sentence);
                self.follow_bottlenecks();
            }
            None => self.sentence = format!("{} {text}", self.sentence),
        }
        self.ended = Some(EndedBottleneck {
            bottleneck: earlier.bottleneck,
            instance: earlier.instance.clone(),
            ended_at: format_rfc3339(ended_ns),
        });
    }
}

/// Sets when each bottleneck that ended before the window was there.
pub(super) fn set_ends(verdict: &mut Verdict) {
    let times: Vec<Option<(i64, i64)>> = verdict.bottlenecks.iter().map(|listed| verdict.ended_times(listed)).collect();
    for (listed, times) in verdict.bottlenecks.iter_mut().zip(times) {
        let Some((first_ns, last_ns)) = times.filter(|_| listed.since.is_none()) else { continue };
        listed.was_there = Some(HoldInterval { from: format_rfc3339(first_ns), to: format_rfc3339(last_ns) });
    }
}

fn times_of(stretch: &HoldInterval) -> Option<(i64, i64)> {
    Some((parse_rfc3339(&stretch.from)?, parse_rfc3339(&stretch.to)?))
}
