//! Histograms with few rows: steps of 1, 2 and 5 for times and distances.

use diskwright_base::Histogram;

/// From, to (values from the first up to just below the second) and count.
pub type HistogramStep = (u64, u64, u64);

/// Returns the steps from the smallest to the greatest value, including empty ones between them. A step's edge may fall
/// within a bucket of the histogram; the bucket then counts where its middle lies (0.8 % either way).
pub fn histogram_steps(histogram: &Histogram) -> Vec<HistogramStep> {
    let mut steps: Vec<HistogramStep> = Vec::new();
    for (from, to, count) in histogram.buckets() {
        let middle = from + (to - from) / 2;
        if steps.is_empty() {
            let (low, high) = step_around(middle);
            steps.push((low, high, 0));
        }
        while let Some(last) = steps.last()
            && middle >= last.1
            && last.1 < u64::MAX
        {
            steps.push((last.1, next_edge(last.1), 0));
        }
        if let Some(last) = steps.last_mut() {
            last.2 += count;
        }
    }
    steps
}

/// Returns the step that contains a value.
fn step_around(value: u64) -> (u64, u64) {
    let mut low = 0;
    loop {
        let high = next_edge(low);
        if value < high || high == u64::MAX {
            return (low, high);
        }
        low = high;
    }
}

/// Returns the edge after this one: 0, 1, 2, 5, 10, 20, …
fn next_edge(edge: u64) -> u64 {
    if edge == 0 {
        return 1;
    }
    let power = 10u64.pow(edge.ilog10());
    let times = match edge / power {
        1 => 2,
        2 => 5,
        _ => 10,
    };
    power.saturating_mul(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_contiguous_and_hold_every_value() {
        let mut histogram = Histogram::new();
        assert!(histogram_steps(&histogram).is_empty());
        for value in [0, 3, 4, 1500, 1999, 2001, u64::MAX] {
            histogram.record(value);
        }
        let steps = histogram_steps(&histogram);
        assert_eq!(steps[..3], [(0, 1, 1), (1, 2, 0), (2, 5, 2)]);
        assert!(steps.windows(2).all(|w| w[0].1 == w[1].0));
        assert!(steps.contains(&(1000, 2000, 2)) && steps.contains(&(2000, 5000, 1)));
        assert_eq!(steps.iter().map(|s| s.2).sum::<u64>(), 7);
        assert_eq!(steps.last().map(|s| s.1), Some(u64::MAX));
    }

    #[test]
    fn steps_begin_at_the_first_recorded_value() {
        let mut histogram = Histogram::new();
        histogram.record(120_000);
        assert_eq!(histogram_steps(&histogram), [(100_000, 200_000, 1)]);
    }
}
