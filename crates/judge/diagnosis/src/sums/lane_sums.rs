//! Sums over ticks that are bit-identical however a log is cut into frames, and that still add several ticks at once
//! (SIMD): tick number `i` of the whole log always goes to lane `i % 4`.

/// Lanes of a sum.
pub(crate) const LANES: usize = 4;

/// Sums of a weighted mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LaneSums {
    products: [f64; LANES],
    weights: [f64; LANES],
}

impl LaneSums {
    /// Adds all ticks with a weight; `phase` is the number of the first of them in the log.
    pub fn add_ticks(&mut self, phase: usize, values: &[f64], weights: &[f64]) {
        // ticks before the first that belongs to lane 0
        let head = ((LANES - phase % LANES) % LANES).min(values.len());
        let (first, values) = values.split_at(head);
        let (first_weights, weights) = weights.split_at(head);
        for (index, (&v, &w)) in first.iter().zip(first_weights).enumerate() {
            self.add_tick(phase + index, v, w);
        }
        let aligned = values.len() / LANES * LANES;
        let quads = values[..aligned].chunks_exact(LANES).zip(weights[..aligned].chunks_exact(LANES));
        for (v, w) in quads {
            for lane in 0..LANES {
                // false for a gap, whose weight is NaN
                let has_weight = w[lane] > 0.0;
                self.products[lane] += if has_weight { v[lane] * w[lane] } else { 0.0 };
                self.weights[lane] += if has_weight { w[lane] } else { 0.0 };
            }
        }
        for index in aligned..values.len() {
            self.add_tick(phase + head + index, values[index], weights[index]);
        }
    }

    /// Adds the ticks at which the rule held: those whose mask in `held` is not 0.
    pub fn add_held(&mut self, phase: usize, values: &[f64], weights: &[f64], held: &[u8]) {
        for (index, ((&v, &w), &held)) in values.iter().zip(weights).zip(held).enumerate() {
            if held != 0 {
                self.add_tick(phase + index, v, w);
            }
        }
    }

    /// Adds tick number `index` of the log.
    pub fn add_tick(&mut self, index: usize, value: f64, weight: f64) {
        if weight > 0.0 {
            self.products[index % LANES] += value * weight;
            self.weights[index % LANES] += weight;
        }
    }

    /// Sum of the values times their weights.
    pub fn weighted_sum(&self) -> f64 {
        self.products.iter().sum()
    }

    /// Sum of the weights.
    pub fn total_weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The weighted mean; `None` where no tick had a weight.
    pub fn mean(&self) -> Option<f64> {
        let weight = self.total_weight();
        (weight > 0.0).then(|| self.weighted_sum() / weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_bit_identical_however_ticks_are_cut() {
        let values: Vec<f64> = (0..101).map(|i| 1.0 / (i as f64 + 0.7)).collect();
        let mut weights: Vec<f64> = (0..101).map(|i| 0.1 + (i % 7) as f64).collect();
        weights[13] = f64::NAN;
        let mut uncut = LaneSums::default();
        uncut.add_ticks(0, &values, &weights);
        for cut in [1, 2, 3, 5, 8, 64, 100] {
            let mut parts = LaneSums::default();
            for start in (0..101).step_by(cut) {
                let end = (start + cut).min(101);
                parts.add_ticks(start, &values[start..end], &weights[start..end]);
            }
            assert_eq!(parts, uncut, "cut at {cut}");
        }
        let held = vec![1; 101];
        let mut masked = LaneSums::default();
        masked.add_held(0, &values, &weights, &held);
        assert_eq!(masked, uncut);
    }
}
