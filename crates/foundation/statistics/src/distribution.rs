//! Student's t and Fisher's F, by the regularized incomplete beta function of `statrs`.
//!
//! Sources: NIST Digital Library of Mathematical Functions, 8.17; both distributions in terms of that function:
//! Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.6 and 26.7.

pub use statrs::function::gamma::ln_gamma;

use crate::is_positive;

/// Regularized incomplete beta function: the probability that a beta variable with parameters `a` and `b` is below `x`.
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if !is_positive(x) {
        return 0.0;
    }
    // statrs requires 0 to 1
    statrs::function::beta::beta_reg(a, b, x.min(1.0))
}

/// Two-sided p-value: the probability that Student's t with `df` degrees of freedom is farther from 0 than `t`. 1 if
/// there are no degrees of freedom.
pub fn student_p_value(t: f64, df: f64) -> f64 {
    if t.is_nan() || !is_positive(df) {
        return 1.0;
    }
    incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

/// Returns the value that `|t|` exceeds with probability `error`. Infinite if there are no degrees of freedom.
pub fn student_limit(error: f64, df: f64) -> f64 {
    if !is_positive(df) {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 2.0);
    while student_p_value(high, df) > error {
        low = high;
        high *= 2.0;
        if high > 1e12 {
            return f64::INFINITY;
        }
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if student_p_value(middle, df) > error {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// P-value: the probability that Fisher's F, with these degrees of freedom of its numerator and its denominator, is
/// greater than `f`. 1 if there are no degrees of freedom.
pub fn fisher_p_value(f: f64, numerator_df: f64, denominator_df: f64) -> f64 {
    if !is_positive(f) || !is_positive(numerator_df) || !is_positive(denominator_df) {
        return 1.0;
    }
    incomplete_beta(denominator_df / (denominator_df + numerator_df * f), denominator_df / 2.0, numerator_df / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() <= within, "{value} is not {expected}");
    }

    #[test]
    fn gamma_of_whole_and_half_numbers() {
        near(ln_gamma(1.0), 0.0, 1e-12);
        near(ln_gamma(11.0), 3_628_800f64.ln(), 1e-12);
        near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-12);
    }

    #[test]
    fn students_table() {
        // the two-sided 5 % and 1 % columns of every printed table
        for (df, five, one) in [(1.0, 12.706, 63.657), (4.0, 2.776, 4.604), (10.0, 2.228, 3.169), (120.0, 1.980, 2.617)]
        {
            near(student_limit(0.05, df), five, 5e-4);
            near(student_limit(0.01, df), one, 5e-4);
        }
        // df 1 is Cauchy's: the chance beyond 1 is a half
        near(student_p_value(1.0, 1.0), 0.5, 1e-12);
        near(student_p_value(-1.0, 1.0), 0.5, 1e-12);
        assert_eq!(student_p_value(9.0, 0.0), 1.0);
        assert_eq!(student_limit(0.05, -1.0), f64::INFINITY);
    }

    #[test]
    fn fishers_table() {
        near(fisher_p_value(3.3258, 5.0, 10.0), 0.05, 1e-5);
        near(fisher_p_value(4.0, 1.0, 8.0), student_p_value(2.0, 8.0), 1e-12);
        assert_eq!(fisher_p_value(f64::NAN, 3.0, 3.0), 1.0);
    }

    #[test]
    fn far_tails_keep_their_size() {
        // t with 4 degrees of freedom has the chance 1 - t/sqrt(4+t²) (1 + 2/(4+t²)) in closed form
        let t: f64 = 30.0;
        let s = t / (4.0 + t * t).sqrt();
        let exact = 1.0 - 1.5 * s + 0.5 * s.powi(3);
        near(student_p_value(t, 4.0) / exact, 1.0, 1e-6);
    }
}
