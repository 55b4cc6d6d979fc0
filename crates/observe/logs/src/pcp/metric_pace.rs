//! Intervals at which metrics are logged, which separate one tick from the next.
//!
//! A logger may have a metric in two groups that run milliseconds apart, groups that start
//! seconds apart, and groups of different intervals. Ticks follow the interval that most
//! values of disks have (of all counters if no disk is logged).

use std::collections::HashMap;

/// Longest time between groups of one tick that run one after the other, nanoseconds.
const MAX_GROUP_LAG_NS: i64 = 500_000_000;

const SECOND_NS: i64 = 1_000_000_000;

/// Returns the weight of an interval: intervals of a second and more count alike, shorter ones by their length.
fn interval_weight(interval_ns: i64) -> i64 {
    interval_ns.clamp(0, SECOND_NS)
}

/// Interval at which one metric comes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MetricPace {
    /// Time when it came last; `None` before its first value and after a mark.
    last_ns: Option<i64>,
    /// Its usual interval, nanoseconds; 0 while unknown.
    usual_interval_ns: i64,
    /// Number of values that it had then.
    value_count: usize,
}

impl MetricPace {
    /// Returns the pace of a metric whose intervals (nanoseconds) the survey has seen. The median counts,
    /// weighted so that the tiny intervals between groups of one tick count almost nothing.
    pub fn from_intervals(mut intervals: Vec<i64>, values: usize) -> MetricPace {
        intervals.sort_unstable();
        let total_weight: i64 = intervals.iter().map(|i| interval_weight(*i)).sum();
        let mut passed_weight = 0;
        let middle = intervals.iter().find(|i| {
            passed_weight += interval_weight(**i);
            2 * passed_weight >= total_weight
        });
        MetricPace { last_ns: None, usual_interval_ns: middle.copied().unwrap_or(0), value_count: values }
    }

    /// Forgets the last value at a mark record: the time since then is no interval.
    pub fn forget_last(&mut self) {
        self.last_ns = None;
    }

    /// Returns true if it came more than once.
    pub fn is_known(&self) -> bool {
        self.usual_interval_ns > 0
    }

    /// Records that it came. The usual interval follows slowly, so that a pause does not count as an interval.
    pub fn record_arrival(&mut self, time_ns: i64, values: usize) {
        let (since, usual) = (self.time_since_last(time_ns), self.usual_interval_ns);
        (self.last_ns, self.value_count) = (Some(time_ns), values);
        let step = (usual as f64 / 8.0 * interval_weight(since) as f64 / SECOND_NS as f64) as i64;
        self.usual_interval_ns = if since <= 0 {
            usual
        } else if usual == 0 {
            since
        } else if since > usual {
            since.min(usual.saturating_add(step))
        } else {
            // `step` is at most an eighth of `usual`
            since.max(usual - step)
        };
    }

    fn time_since_last(&self, time_ns: i64) -> i64 {
        self.last_ns.map_or(0, |last| time_ns.saturating_sub(last))
    }

    /// Returns true if it comes again from another group of the same tick.
    fn is_echo(&self, time_ns: i64) -> bool {
        let since = self.time_since_last(time_ns);
        since <= MAX_GROUP_LAG_NS && since.saturating_mul(8) < self.usual_interval_ns
    }
}

/// Interval of the ticks, nanoseconds: the common interval of the leading metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TickPace(i64);

impl TickPace {
    /// Returns the interval of most values of these metrics.
    pub fn from_paces<'a>(leading: impl Iterator<Item = &'a MetricPace>) -> TickPace {
        let mut intervals: HashMap<i64, usize> = HashMap::new();
        for pace in leading.filter(|p| p.usual_interval_ns > 0) {
            *intervals.entry(pace.usual_interval_ns).or_default() += pace.value_count.max(1);
        }
        let mut sorted: Vec<(i64, usize)> = intervals.into_iter().collect();
        sorted.sort_unstable();
        let total_values: usize = sorted.iter().map(|(_, values)| values).sum();
        let mut passed_values = 0;
        let middle = sorted.iter().find(|(_, values)| {
            passed_values += values;
            2 * passed_values >= total_values
        });
        TickPace(middle.map_or(0, |(interval, _)| *interval))
    }

    /// Returns true if a record may still belong to a tick. A tick ends with its leading metrics. `age_ns` is the
    /// time since its first record, `since_leading_ns` the time since its leading metrics came.
    pub fn can_extend_tick(self, age_ns: i64, since_leading_ns: Option<i64>) -> bool {
        match since_leading_ns {
            Some(since_leading_ns) => since_leading_ns <= MAX_GROUP_LAG_NS,
            None => age_ns <= MAX_GROUP_LAG_NS.max(self.0.saturating_add(self.0 / 2)),
        }
    }

    /// Returns true if a metric that the tick has already may be added again: from another group of the same tick,
    /// or because it comes far more often than the leading ones.
    pub fn accepts_repeat(self, pace: &MetricPace, time_ns: i64, since_leading_ns: Option<i64>) -> bool {
        pace.is_echo(time_ns) || (since_leading_ns.is_none() && self.is_faster(pace))
    }

    /// Returns true for a metric that comes far more often than the ticks.
    pub fn is_faster(self, pace: &MetricPace) -> bool {
        pace.usual_interval_ns > 0 && pace.usual_interval_ns.saturating_mul(3) / 2 < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND_NS;

    #[test]
    fn learns_an_interval_and_forgets_a_pause() {
        let mut pace = MetricPace::default();
        (0..20).for_each(|n| pace.record_arrival(n * 10 * S, 1));
        assert_eq!(pace.usual_interval_ns, 10 * S);
        pace.record_arrival(4000 * S, 1);
        assert!(pace.usual_interval_ns < 12 * S, "an hour's pause is not an interval: {}", pace.usual_interval_ns);
        (1..40).for_each(|n| pace.record_arrival((4000 + n) * S, 1));
        assert_eq!(pace.usual_interval_ns, S);
        assert_eq!(MetricPace::from_intervals(vec![S, S, 3600 * S, S], 1).usual_interval_ns, S);
        assert_eq!(
            MetricPace::from_intervals(vec![S / 4, S / 4, S / 4, S / 4, S / 4, S / 4, 9 * S], 1).usual_interval_ns,
            S / 4
        );
    }

    #[test]
    fn a_second_group_of_a_tick_is_an_echo_and_a_fast_logger_is_not() {
        let mut twice = MetricPace::from_intervals(vec![S / 100, S / 50, 10 * S], 1);
        for n in 1..1000 {
            twice.record_arrival(n * 10 * S, 1);
            for echo in 1..5 {
                assert!(twice.is_echo(n * 10 * S + echo * S / 100), "{n}");
                twice.record_arrival(n * 10 * S + echo * S / 100, 1);
            }
            assert!(!twice.is_echo((n + 1) * 10 * S));
        }
        (0..2000).for_each(|n| twice.record_arrival(10_000 * S + n * S / 10, 1));
        assert!(!twice.is_echo(twice.last_ns.unwrap_or(0) + S / 10), "ten a second are ten ticks");
    }

    #[test]
    fn the_interval_of_most_values_leads() {
        let pace = |usual_ns, values| MetricPace { last_ns: None, usual_interval_ns: usual_ns, value_count: values };
        let interval_of = |all: &[MetricPace]| TickPace::from_paces(all.iter()).0;
        assert_eq!(interval_of(&[pace(10 * S, 500), pace(S, 20), pace(60 * S, 30)]), 10 * S);
        assert_eq!(interval_of(&[pace(2 * S, 1), pace(S, 1)]), S, "nothing is lost where it is even");
        assert_eq!(interval_of(&[pace(0, 500)]), 0, "a metric of one record has no interval");
        assert_eq!(interval_of(&[]), 0);
    }
}
