//! Percentiles over time: a value is weighted by its duration.

/// Values with their durations in seconds, sorted.
#[derive(Clone, Debug, Default)]
pub struct TimeDistribution {
    sorted: Vec<(f32, f32)>,
    seconds: f64,
}

impl TimeDistribution {
    /// Builds the distribution of values and their seconds; unknown values (NaN) are left out.
    pub fn from_values(values: impl Iterator<Item = (f32, f32)>) -> TimeDistribution {
        let mut sorted: Vec<(f32, f32)> = values.filter(|(v, s)| v.is_finite() && *s > 0.0).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let seconds = sorted.iter().map(|(_, s)| f64::from(*s)).sum();
        TimeDistribution { sorted, seconds }
    }

    /// The smallest value that was not exceeded for `percent` of the time: the inverse of the distribution (Hyndman and
    /// Fan 1996, definition 1), weighted by time. `None` if there are no values.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let target_s = self.seconds * percent / 100.0 * (1.0 - 1e-9);
        let mut covered_s = 0.0;
        for (value, seconds) in &self.sorted {
            covered_s += f64::from(*seconds);
            if covered_s >= target_s {
                return Some(f64::from(*value));
            }
        }
        self.sorted.last().map(|(value, _)| f64::from(*value))
    }

    /// The mean over time.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.sorted.iter().map(|(v, s)| f64::from(*v) * f64::from(*s)).sum();
        (self.seconds > 0.0).then(|| sum / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_as_long_as_it_held() {
        let all =
            TimeDistribution::from_values([(10.0, 90.0), (100.0, 6.0), (1000.0, 4.0), (f32::NAN, 50.0)].into_iter());
        assert_eq!(all.percentile(50.0), Some(10.0));
        assert_eq!(all.percentile(90.0), Some(10.0));
        assert_eq!(all.percentile(95.0), Some(100.0));
        assert_eq!(all.percentile(99.0), Some(1000.0));
        assert_eq!(all.percentile(100.0), Some(1000.0));
        assert_eq!(all.mean(), Some(55.0));
        assert_eq!(TimeDistribution::default().percentile(95.0), None);
    }
}
