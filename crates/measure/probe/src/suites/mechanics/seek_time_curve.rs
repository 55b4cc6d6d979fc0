//! The seek curve: a + b sqrt(d) while the arm speeds up and slows down,
//! c + e d where it coasts (Ruemmler and Wilkes, "An introduction to disk
//! drive modeling", IEEE Computer 27(3), 1994).

/// A seek curve of two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekCurve {
    /// Constant of the short-distance part.
    pub a: f64,
    /// Factor of the square root.
    pub b: f64,
    /// Constant of the long-distance part.
    pub c: f64,
    /// Factor of the distance.
    pub e: f64,
    /// Distance from which on the straight line applies.
    pub bend: f64,
}

impl SeekCurve {
    /// Returns the value of the curve at a distance.
    pub fn value_at(&self, distance: f64) -> f64 {
        if distance < self.bend { self.a + self.b * distance.sqrt() } else { self.c + self.e * distance }
    }
}

/// Smallest number of points of each part.
const MIN_POINTS_PER_PART: usize = 3;

/// Fits the curve to points (distance, time), sorted by distance. The bend is where the squared relative
/// errors are smallest. `None` with fewer than six points.
pub fn fit_curve(points: &[(f64, f64)]) -> Option<SeekCurve> {
    let weight = |y: f64| 1.0 / y.abs().max(1e-9).powi(2);
    (MIN_POINTS_PER_PART..=points.len().checked_sub(MIN_POINTS_PER_PART)?)
        .filter_map(|cut| {
            let (short, long) = points.split_at(cut);
            let (a, b, short_error) = fit_line(short.iter().map(|&(d, y)| (d.sqrt(), y, weight(y))))?;
            let (c, e, long_error) = fit_line(long.iter().map(|&(d, y)| (d, y, weight(y))))?;
            let bend = (short[cut - 1].0 * long[0].0).sqrt();
            Some((short_error + long_error, SeekCurve { a, b, c, e, bend }))
        })
        .min_by(|x, y| x.0.total_cmp(&y.0))
        .map(|(_, curve)| curve)
}

/// Fits a straight line through weighted points (x, y, weight). Returns the constant, the slope, and the
/// weighted sum of squared residuals.
fn fit_line(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Option<(f64, f64, f64)> {
    let sum = |term: fn(f64, f64) -> f64| points.clone().map(|(x, y, w)| w * term(x, y)).sum::<f64>();
    let (weight, x, y) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (xx, xy) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let denominator = weight * xx - x * x;
    if denominator <= 0.0 {
        return None;
    }
    let slope = (weight * xy - x * y) / denominator;
    let constant = (y - slope * x) / weight;
    let squares = points.map(|(x, y, w)| w * (y - constant - slope * x).powi(2)).sum();
    Some((constant, slope, squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_two_parts_is_found_again() {
        // the HP C2200A of Ruemmler and Wilkes: 3.45 + 0.597 sqrt(d) ms below 616 cylinders, 10.8 + 0.012 d above
        let truth = |d: f64| if d < 616.0 { 3.45 + 0.597 * d.sqrt() } else { 10.8 + 0.012 * d };
        let distances = [2.0, 5.0, 10.0, 30.0, 80.0, 200.0, 400.0, 580.0, 700.0, 900.0, 1100.0, 1400.0];
        let points: Vec<(f64, f64)> = distances.iter().map(|&d| (d, truth(d))).collect();
        let found = fit_curve(&points).unwrap();
        assert!((found.a - 3.45).abs() < 1e-6 && (found.b - 0.597).abs() < 1e-6, "{found:?}");
        assert!((found.c - 10.8).abs() < 1e-6 && (found.e - 0.012).abs() < 1e-6, "{found:?}");
        assert!((580.0..700.0).contains(&found.bend));
        assert_eq!(fit_curve(&points[..5]), None);
    }
}
