//! Percentiles of a mixture of response times with known means and variances: each is modelled by a gamma distribution,
//! which is exact for sums of exponential times.

use diskwright_statistics::distribution::ln_gamma;

/// One kind of response: its share, mean and variance.
pub(super) type ResponseKind = (f64, f64, f64);

/// Returns the value that this share of the responses does not exceed; NaN if there are none.
pub(super) fn mixture_percentile(kinds: &[ResponseKind], share: f64) -> f64 {
    let weight_sum: f64 = kinds.iter().map(|(weight, _, _)| weight).sum();
    let max = kinds.iter().map(|(_, mean, variance)| mean + 60.0 * variance.sqrt()).fold(0.0, f64::max);
    if weight_sum.is_nan() || weight_sum <= 0.0 || max <= 0.0 {
        return f64::NAN;
    }
    let weight_below = |time_s: f64| {
        kinds.iter().map(|(weight, mean, variance)| weight * gamma_cdf(*mean, *variance, time_s)).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, max);
    while high - low > 1e-4 * high {
        let middle = (low + high) / 2.0;
        if weight_below(middle) < share * weight_sum { low = middle } else { high = middle }
    }
    high
}

/// Probability that a gamma distributed time with this mean and variance is at most `time_s`.
fn gamma_cdf(mean: f64, variance: f64, time_s: f64) -> f64 {
    if mean <= 0.0 {
        return 1.0;
    }
    let shape = mean * mean / variance.max(1e-6 * mean * mean);
    if shape > 5000.0 {
        return if time_s >= mean { 1.0 } else { 0.0 };
    }
    incomplete_gamma(shape, time_s * shape / mean)
}

/// The regularized lower incomplete gamma function: its series below a + 1, and Legendre's continued fraction above
/// (Abramowitz and Stegun, 6.5.29 and 6.5.31).
fn incomplete_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > 1e-10 * sum {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front * sum;
    }
    let (mut b, mut c) = (x + 1.0 - a, f64::MAX);
    let mut d = 1.0 / b;
    let mut fraction = d;
    for i in 1..500 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < 1e-10 {
            break;
        }
    }
    1.0 - front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_exponential_and_erlang_times() {
        // the 95th percentile of an exponential time is ln 20 means
        let one = mixture_percentile(&[(1.0, 2.0, 4.0)], 0.95);
        assert!((one / (2.0 * 20f64.ln()) - 1.0).abs() < 1e-3, "{one}");
        // a mixture of two equal ones has the same percentile
        let two = mixture_percentile(&[(1.0, 2.0, 4.0), (3.0, 2.0, 4.0)], 0.95);
        assert!((two / one - 1.0).abs() < 1e-3);
        // a sum of four: 7.7537 of its stages (chi squared with 8 degrees of freedom, 15.507 / 2)
        let sum = mixture_percentile(&[(1.0, 4.0, 4.0)], 0.95);
        assert!((sum / 7.7537 - 1.0).abs() < 1e-3, "{sum}");
        assert!(mixture_percentile(&[], 0.95).is_nan());
    }
}
