//! Conversion of running totals to their growth within a tick.

/// Last value of each column that holds a running total.
#[derive(Default)]
pub(crate) struct RunningTotals {
    /// Number of the sample and its value, by column.
    previous: Vec<(u64, f64)>,
    /// Number of samples so far.
    sample_number: u64,
    /// Number of totals that went back in this sample.
    pub went_back: u64,
}

impl RunningTotals {
    /// Begins another sample.
    pub fn begin_sample(&mut self) {
        self.sample_number += 1;
        self.went_back = 0;
    }

    /// Forgets all totals, because another run begins.
    pub fn forget_all(&mut self) {
        self.previous.clear();
    }

    /// Returns the growth since the previous sample; `NaN` if it is not known, because that sample lacked the total
    /// or it went back.
    pub fn growth(&mut self, column: u32, value: f64) -> f64 {
        let index = column as usize;
        if self.previous.len() <= index {
            self.previous.resize(index + 1, (0, f64::NAN));
        }
        let (sample, previous) = std::mem::replace(&mut self.previous[index], (self.sample_number, value));
        if value < previous {
            self.went_back += 1;
        }
        if sample + 1 == self.sample_number && value >= previous { value - previous } else { f64::NAN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_known_between_two_samples() {
        let mut totals = RunningTotals::default();
        let mut added = Vec::new();
        for value in [Some(5.0), Some(7.0), None, Some(9.0), Some(10.0), Some(3.0), Some(4.0)] {
            totals.begin_sample();
            added.push(value.map_or(-1.0, |value| totals.growth(0, value)));
        }
        let known: Vec<f64> = added.iter().copied().filter(|v| !v.is_nan()).collect();
        assert_eq!(known, [2.0, -1.0, 1.0, 1.0], "{added:?}");
    }
}
