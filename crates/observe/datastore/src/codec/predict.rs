//! Computations whose results in encoder and decoder must be equal to the last bit:
//! differences, prediction from other columns, and smoothing. Floats are used only in
//! ways that IEEE 754 defines exactly (product, sum, comparison), never fused or reordered.

/// Largest number of columns that one column is predicted from.
pub(super) const MAX_PARENTS: usize = 6;
/// Number of smoothings: none, the value before, and sliding means over 2 to 32 values.
pub(super) const SMOOTHING_COUNT: u32 = 7;
/// Largest whole number that is exact in all later computations.
pub(super) const MAX_EXACT_WHOLE: u64 = 1 << 51;

/// The columns that predict a column, each with its factor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parents {
    pub count: usize,
    pub columns: [u8; MAX_PARENTS],
    pub factors: [PredictorFactor; MAX_PARENTS],
}

/// A factor: a small whole number, or a float with a mantissa of nine bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PredictorFactor {
    Whole(i32),
    /// Mantissa (256 to 511, negative too) times two to the exponent.
    Float(i32, i32),
}

/// Exponents that a float factor can have.
pub(super) const EXPONENTS: std::ops::Range<i32> = -48..16;

impl Default for PredictorFactor {
    fn default() -> PredictorFactor {
        PredictorFactor::Whole(0)
    }
}

impl PredictorFactor {
    /// Returns its exact value.
    pub fn value(self) -> f64 {
        match self {
            PredictorFactor::Whole(factor) => f64::from(factor),
            PredictorFactor::Float(mantissa, exponent) => {
                let power = f64::from_bits(((exponent + 1023) as u64) << 52);
                f64::from(mantissa) * power
            }
        }
    }

    /// Returns the factor nearest to a number; `None` if the number is out of range.
    pub fn nearest(number: f64) -> Option<PredictorFactor> {
        let rounded = number.round();
        if rounded != 0.0 && rounded.abs() < 4096.0 && (number - rounded).abs() < 0.004 * rounded.abs() {
            return Some(PredictorFactor::Whole(rounded as i32));
        }
        if !number.is_normal() {
            return None;
        }
        let mut exponent = (number.to_bits() >> 52 & 0x7ff) as i32 - 1023 - 8;
        // rounding raises it by one at most
        if exponent + 1 < EXPONENTS.start {
            return None;
        }
        let mut mantissa = (number / f64::from_bits(((exponent + 1023) as u64) << 52)).round() as i32;
        if mantissa.abs() == 512 {
            mantissa /= 2;
            exponent += 1;
        }
        debug_assert!((256..512).contains(&mantissa.abs()), "a mantissa of nine bits, not {mantissa}");
        EXPONENTS.contains(&exponent).then_some(PredictorFactor::Float(mantissa, exponent))
    }
}

/// Predicts a column from its parents into `predicted`; `forms` are the columns of
/// the group, one after the other.
pub(super) fn predict_from_parents(parents: &Parents, forms: &[i64], sums: &mut [f64], predicted: &mut [i64]) {
    let ticks = predicted.len();
    if parents.count == 0 {
        return predicted.fill(0);
    }
    sums.fill(0.0);
    for (&column, factor) in parents.columns.iter().zip(&parents.factors).take(parents.count) {
        let start = usize::from(column) * ticks;
        let factor = factor.value();
        for (sum, &form) in sums.iter_mut().zip(&forms[start..start + ticks]) {
            *sum += factor * form as f64;
        }
    }
    // Adding this number leaves no bits for fractions, so it rounds to the nearest integer.
    const ROUNDING_OFFSET: f64 = 6755399441055744.0;
    const MAX_SUM: f64 = (1u64 << 50) as f64;
    for (predicted, &sum) in predicted.iter_mut().zip(sums.iter()) {
        *predicted = ((sum.clamp(-MAX_SUM, MAX_SUM) + ROUNDING_OFFSET).to_bits() as i64)
            .wrapping_sub(ROUNDING_OFFSET.to_bits() as i64);
    }
}

/// Subtracts the smoothing's guess from each value. The first value has no
/// guess and is kept.
pub(super) fn smooth(values: &[i64], smoothing: u32, residuals: &mut [i64]) {
    let Some(shift) = smoothing.checked_sub(1) else { return residuals.copy_from_slice(values) };
    let half = (1i64 << shift) >> 1;
    let Some(&first) = values.first() else { return };
    let mut sum = first.wrapping_shl(shift);
    residuals[0] = first;
    for (residual, &value) in residuals.iter_mut().zip(values).skip(1) {
        let guess = sum.wrapping_add(half) >> shift;
        *residual = value.wrapping_sub(guess);
        sum = sum.wrapping_add(value).wrapping_sub(sum >> shift);
    }
}

/// Reverses [`smooth`] in place.
pub(super) fn unsmooth(values: &mut [i64], smoothing: u32) {
    let Some(shift) = smoothing.checked_sub(1) else { return };
    let half = (1i64 << shift) >> 1;
    let Some((&mut first, later)) = values.split_first_mut() else { return };
    let mut sum = first.wrapping_shl(shift);
    for value in later {
        let guess = sum.wrapping_add(half) >> shift;
        *value = value.wrapping_add(guess);
        sum = sum.wrapping_add(*value).wrapping_sub(sum >> shift);
    }
}

/// Replaces each value by its difference from the one before; the first becomes 0.
pub(super) fn take_differences(values: &mut [i64]) {
    let mut previous = values.first().copied().unwrap_or(0);
    for value in values {
        let current = *value;
        *value = current.wrapping_sub(previous);
        previous = current;
    }
}

/// Reverses [`take_differences`], starting from `first`.
pub(super) fn accumulate_differences(values: &mut [i64], first: i64) {
    let mut sum = first;
    for value in values {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_and_differences_are_reversible() {
        let values: Vec<i64> = (0..100i64).map(|i| i * i * 37 % 1001 - 300).chain([i64::MAX, i64::MIN, 0]).collect();
        for smoothing in 0..SMOOTHING_COUNT {
            let mut residuals = vec![0; values.len()];
            smooth(&values, smoothing, &mut residuals);
            unsmooth(&mut residuals, smoothing);
            assert_eq!(residuals, values, "smoothing {smoothing}");
        }
        let mut forms = values.clone();
        take_differences(&mut forms);
        assert_eq!(forms[0], 0);
        accumulate_differences(&mut forms, values[0]);
        assert_eq!(forms, values);
    }

    #[test]
    fn factors_are_near_the_numbers_they_encode() {
        for number in [1.0, -1.0, 8.0, 0.125, 0.3333, -1e-7, 1234.5, 100.1, 2.5e-9] {
            let near = PredictorFactor::nearest(number).expect("within range").value();
            assert!((near - number).abs() <= number.abs() / 250.0, "{number} {near}");
        }
        assert_eq!(PredictorFactor::nearest(7.99), Some(PredictorFactor::Whole(8)));
        for out in [0.0, 1e-300, 1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(PredictorFactor::nearest(out), None);
        }
    }

    #[test]
    fn parents_predict_rounded_sums() {
        let forms = [10, -20, 30, 1, 1, 1];
        let parents = Parents {
            count: 2,
            columns: [0, 1, 0, 0, 0, 0],
            factors: [
                PredictorFactor::Float(384, -9),
                PredictorFactor::Whole(-2),
                PredictorFactor::default(),
                PredictorFactor::default(),
                PredictorFactor::default(),
                PredictorFactor::default(),
            ],
        };
        let mut predicted = [0; 3];
        predict_from_parents(&parents, &forms, &mut [0.0; 3], &mut predicted);
        assert_eq!(predicted, [6, -17, 20]);
    }
}
