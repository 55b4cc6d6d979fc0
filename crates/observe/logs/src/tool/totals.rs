//! Conversion of running totals to their growth within a tick.

/// Last value of each column that holds a running total.
#[derive(Default)]
pub(crate) struct RunningTotals {
    before: Vec<(u64, f64)>,
    /// Number of samples so far.
    sample: u64,
    /// Number of totals that went back in this sample.
    pub back: u64,
}

impl RunningTotals {
    /// Begins another sample.
    pub fn begin(&mut self) {
        self.sample += 1;
        self.back = 0;
    }

    /// Forgets all totals, because another run begins.
    pub fn forget(&mut self) {
        self.before.clear();
    }

    /// Returns the growth since the previous sample; `NaN` where it is not known, because that sample lacked the total
    /// or it went back.
    pub fn added(&mut self, column: u32, value: f64) -> f64 {
        let index = column as usize;
        if self.before.len() <= index {
            self.before.resize(index + 1, (0, f64::NAN));
        }
        let (sample, before) = std::mem::replace(&mut self.before[index], (self.sample, value));
        if value < before {
            self.back += 1;
        }
        if sample + 1 == self.sample && value >= before { value - before } else { f64::NAN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_known_between_two_samples() {
        let mut totals = RunningTotals::default();
        let mut added = Vec::new();
        for value in [Some(5.0), Some(7.0), None, Some(9.0), Some(10.0), Some(3.0), Some(4.0)] {
            totals.begin();
            added.push(value.map_or(-1.0, |value| totals.added(0, value)));
        }
        let known: Vec<f64> = added.iter().copied().filter(|v| !v.is_nan()).collect();
        assert_eq!(known, [2.0, -1.0, 1.0, 1.0], "{added:?}");
    }
}
