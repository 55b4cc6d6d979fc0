//! What the verdicts of the last minutes blamed: bottlenecks that take turns are one trouble that persists.

use std::collections::VecDeque;

use diskwright_base::Tick;
use diskwright_base::units::format_duration;
use diskwright_diagnosis::{Bottleneck, Verdict};

use super::alert::AlternatedBottleneck;

/// Longest kept time, nanoseconds: longer than the hold time of any rule of ours.
const MAX_AGE_NS: i64 = 600_000_000_000;
/// Largest number of kept verdicts.
const MAX_VERDICTS: usize = 256;
/// A verdict counts for this long, nanoseconds: it is on as much time, and between two troubles that alternate there
/// is a verdict or two on half of each.
const VALID_NS: i64 = 30_000_000_000;
/// Smallest share of the verdicts from which a bottleneck alternated with another.
const MIN_SHARE: f64 = 0.15;
/// Share of the recent ticks from which tasks count as waiting.
const MIN_WAITING_SHARE: f64 = 0.5;

/// What one verdict blamed.
struct Blamed {
    time_ns: i64,
    bottlenecks: Vec<(Bottleneck, String)>,
    /// The highest confidence of them; 0 where nothing was blamed.
    confidence: f64,
}

/// What the last verdicts blamed.
#[derive(Default)]
pub(crate) struct BlameHistory {
    verdicts: VecDeque<Blamed>,
}

impl BlameHistory {
    /// Adds a verdict.
    pub fn add_verdict(&mut self, time_ns: i64, verdict: Option<&Verdict>) {
        let listed = verdict.map_or(&[][..], |verdict| &verdict.bottlenecks);
        let listed: Vec<_> = listed.iter().filter(|listed| listed.bottleneck.blames()).collect();
        self.verdicts.push_back(Blamed {
            time_ns,
            confidence: listed.iter().map(|listed| listed.confidence).fold(0.0, f64::max),
            bottlenecks: listed.iter().map(|listed| (listed.bottleneck, listed.instance.clone())).collect(),
        });
        let is_old = |blamed: &Blamed| time_ns - blamed.time_ns > MAX_AGE_NS;
        while self.verdicts.len() > MAX_VERDICTS || self.verdicts.front().is_some_and(is_old) {
            self.verdicts.pop_front();
        }
    }

    /// Forgets all: the clock was set back.
    pub fn clear(&mut self) {
        self.verdicts.clear();
    }

    /// The highest confidence of anything that a verdict of the last 30 seconds blamed; 0 without one.
    pub fn highest_confidence(&self, now_ns: i64) -> f64 {
        let recent = self.verdicts.iter().rev().take_while(|blamed| now_ns - blamed.time_ns < VALID_NS);
        recent.map(|blamed| blamed.confidence).fold(0.0, f64::max)
    }

    /// The bottlenecks that the verdicts since a time named, the most frequent first; empty where there were fewer
    /// than two that mattered.
    pub fn find_alternated(&self, since_ns: i64) -> Vec<AlternatedBottleneck> {
        let recent: Vec<&Blamed> = self.verdicts.iter().filter(|blamed| blamed.time_ns >= since_ns).collect();
        let mut list: Vec<AlternatedBottleneck> = Vec::new();
        for (bottleneck, instance) in recent.iter().flat_map(|blamed| &blamed.bottlenecks) {
            let share = 1.0 / recent.len() as f64;
            match list.iter_mut().find(|known| known.bottleneck == *bottleneck && known.instance == *instance) {
                Some(known) => known.share += share,
                None => list.push(AlternatedBottleneck { bottleneck: *bottleneck, instance: instance.clone(), share }),
            }
        }
        list.retain(|one| one.share >= MIN_SHARE);
        list.sort_by(|a, b| b.share.total_cmp(&a.share));
        if list.len() < 2 { Vec::new() } else { list }
    }
}

/// `Bottlenecks have taken turns for 2 min: disk sda (62 % of the time), cpu (38 %).`
pub(crate) fn alternation_sentence(alternated: &[AlternatedBottleneck], seconds: f64) -> String {
    let part = |(index, one): (usize, &AlternatedBottleneck)| {
        let of = if index == 0 { " of the time" } else { "" };
        let name = format!("{} {}", one.bottleneck.name(), one.instance);
        format!("{} ({:.0} %{of})", name.trim_end(), 100.0 * one.share.min(1.0))
    };
    let parts: Vec<String> = alternated.iter().enumerate().map(part).collect();
    format!("Bottlenecks have taken turns for {}: {}.", format_duration(seconds), parts.join(", "))
}

/// Whether tasks waited lately: at the last tick, or at half of the time that a verdict is on.
#[derive(Default)]
pub(crate) struct WaitMeter {
    /// End and length of each tick, and whether tasks waited.
    ticks: VecDeque<(i64, i64, bool)>,
}

impl WaitMeter {
    /// Adds a tick; true where tasks waited lately.
    pub fn add_tick(&mut self, tick: &Tick, waits: bool) -> bool {
        self.ticks.push_back((tick.time_ns, i64::try_from(tick.elapsed_ns).unwrap_or(i64::MAX), waits));
        while self.ticks.front().is_some_and(|(time_ns, ..)| tick.time_ns - time_ns >= VALID_NS) {
            self.ticks.pop_front();
        }
        let sum_ns = |is_wanted: fn(bool) -> bool| -> f64 {
            self.ticks.iter().filter(|(.., waits)| is_wanted(*waits)).map(|(_, ns, _)| *ns as f64).sum()
        };
        waits || sum_ns(|waits| waits) >= MIN_WAITING_SHARE * sum_ns(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(names: &[&[(Bottleneck, &str)]]) -> BlameHistory {
        let mut history = BlameHistory::default();
        for (index, listed) in names.iter().enumerate() {
            history.verdicts.push_back(Blamed {
                time_ns: index as i64 * 5_000_000_000,
                bottlenecks: listed
                    .iter()
                    .map(|(bottleneck, instance)| (*bottleneck, (*instance).to_owned()))
                    .collect(),
                confidence: if listed.is_empty() { 0.0 } else { 0.7 },
            });
        }
        history
    }

    #[test]
    fn two_that_take_turns_alternate_and_one_that_lasts_does_not() {
        let (disk, cpu) = ((Bottleneck::Disk, "sda"), (Bottleneck::Cpu, ""));
        let turns = history(&[&[disk], &[cpu], &[disk], &[disk, cpu]]);
        let found = turns.find_alternated(0);
        assert_eq!((found[0].bottleneck, found[0].share, found[1].share), (Bottleneck::Disk, 0.75, 0.5));
        let text = alternation_sentence(&found, 120.0);
        assert_eq!(text, "Bottlenecks have taken turns for 2 min: disk sda (75 % of the time), cpu (50 %).");
        assert!(turns.find_alternated(15_000_000_001).is_empty(), "nothing since");
        let (of_disk, of_cpu) = ([disk], [cpu]);
        let mut lasts = vec![&of_disk[..]; 9];
        lasts.push(&of_cpu);
        assert!(history(&lasts).find_alternated(0).is_empty(), "a tenth is no alternation");
    }

    #[test]
    fn a_verdict_counts_for_half_a_minute() {
        let history = history(&[&[(Bottleneck::Disk, "sda")], &[]]);
        assert_eq!(history.highest_confidence(5_000_000_000), 0.7);
        assert_eq!(history.highest_confidence(31_000_000_000), 0.0);
    }

    #[test]
    fn a_lull_ends_no_wait_and_a_moment_begins_none() {
        let mut meter = WaitMeter::default();
        let mut feed = |second: i64, waits| {
            meter.add_tick(&Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, waits)
        };
        assert!((1..=20).all(|second| feed(second, true)));
        assert!((21..=30).all(|second| feed(second, false)), "two thirds of the last half minute waited");
        assert!(!(31..=60).all(|second| feed(second, false)));
        assert!(feed(61, true) && !feed(62, false), "one second of half a minute");
    }
}
