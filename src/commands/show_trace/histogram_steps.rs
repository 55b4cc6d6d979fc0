//! Histograms with few rows: steps of 1, 2 and 5 for times and distances.

use diskwright_base::Histogram;

/// A row of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramStep {
    /// Smallest value.
    pub from: u64,
    /// All values are less than this one.
    pub to: u64,
    /// Number of values.
    pub count: u64,
}

/// Returns the steps from the smallest to the greatest value, including empty ones between them. A step's edge may fall
/// within a bucket of the histogram; the bucket then counts where its middle lies (0.8 % either way).
pub fn histogram_steps(histogram: &Histogram) -> Vec<HistogramStep> {
    let mut steps: Vec<HistogramStep> = Vec::new();
    for (from, to, count) in histogram.buckets() {
        let middle = from + (to - from) / 2;
        if steps.is_empty() {
            let (from, to) = step_around(middle);
            steps.push(HistogramStep { from, to, count: 0 });
        }
        while let Some(last) = steps.last()
            && middle >= last.to
            && last.to < u64::MAX
        {
            steps.push(HistogramStep { from: last.to, to: next_edge(last.to), count: 0 });
        }
        if let Some(last) = steps.last_mut() {
            last.count += count;
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
    let multiple = match edge / power {
        1 => 2,
        2 => 5,
        _ => 10,
    };
    power.saturating_mul(multiple)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_step(from: u64, to: u64, count: u64) -> HistogramStep {
        HistogramStep { from, to, count }
    }

    #[test]
    fn steps_are_contiguous_and_hold_every_value() {
        let mut histogram = Histogram::new();
        assert!(histogram_steps(&histogram).is_empty());
        for value in [0, 3, 4, 1500, 1999, 2001, u64::MAX] {
            histogram.record(value);
        }
        let steps = histogram_steps(&histogram);
        assert_eq!(steps[..3], [new_step(0, 1, 1), new_step(1, 2, 0), new_step(2, 5, 2)]);
        assert!(steps.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert!(steps.contains(&new_step(1000, 2000, 2)) && steps.contains(&new_step(2000, 5000, 1)));
        assert_eq!(steps.iter().map(|step| step.count).sum::<u64>(), 7);
        assert_eq!(steps.last().map(|step| step.to), Some(u64::MAX));
    }

    #[test]
    fn steps_begin_at_the_first_recorded_value() {
        let mut histogram = Histogram::new();
        histogram.record(120_000);
        assert_eq!(histogram_steps(&histogram), [new_step(100_000, 200_000, 1)]);
    }
}
