//! Fits free parameters by a downhill simplex (Nelder and Mead 1965) within bounds; deterministic.

/// Minimizes a function within bounds; returns the point, and the value there.
///
/// Coefficients are the authors' (reflection 1, expansion 2, contraction and shrinking one half). Points beyond the
/// bounds are moved to them. The search ends after `max_evaluations` evaluations, or when the simplex is smaller than a
/// ten-thousandth of the bounds.
pub fn minimize_within_bounds(
    start: &[f64],
    bounds: &[[f64; 2]],
    max_evaluations: usize,
    mut function: impl FnMut(&[f64]) -> f64,
) -> (Vec<f64>, f64) {
    let clamp = |point: Vec<f64>| clamp_to_bounds(point, bounds);
    let mut evaluations = 0;
    let mut measure = |point: &[f64]| {
        evaluations += 1;
        let value = function(point);
        (if value.is_nan() { f64::INFINITY } else { value }, evaluations)
    };
    let mut corners = vec![clamp(start.to_vec())];
    for index in 0..start.len() {
        let [min, max] = bounds[index];
        let step = (max - min) * 0.15;
        let mut corner = corners[0].clone();
        corner[index] += if corner[index] + step > max { -step } else { step };
        corners.push(clamp(corner));
    }
    let mut simplex: Vec<(Vec<f64>, f64)> = corners.into_iter().map(|c| (c.clone(), measure(&c).0)).collect();
    loop {
        simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
        let last = simplex.len() - 1;
        let is_small = |index: usize| {
            let span = bounds[index][1] - bounds[index][0];
            simplex.iter().all(|(p, _)| (p[index] - simplex[0].0[index]).abs() <= span * 1e-4)
        };
        if last == 0 || (0..start.len()).all(is_small) {
            break;
        }
        let center: Vec<f64> = (0..start.len())
            .map(|index| simplex[..last].iter().map(|(p, _)| p[index]).sum::<f64>() / last as f64)
            .collect();
        let worst = simplex[last].clone();
        let point_at = |factor: f64| clamp(center.iter().zip(&worst.0).map(|(c, w)| c + factor * (c - w)).collect());
        let reflected = point_at(1.0);
        let (value, count) = measure(&reflected);
        let next = if value < simplex[0].1 {
            let expanded = point_at(2.0);
            let expanded_value = measure(&expanded).0;
            Some(if expanded_value < value { (expanded, expanded_value) } else { (reflected, value) })
        } else if value < simplex[last - 1].1 {
            Some((reflected, value))
        } else {
            let contracted = point_at(if value < worst.1 { 0.5 } else { -0.5 });
            let contracted_value = measure(&contracted).0;
            (contracted_value < worst.1.min(value)).then_some((contracted, contracted_value))
        };
        match next {
            Some(corner) => simplex[last] = corner,
            None => shrink_simplex(&mut simplex, &mut |p| measure(p).0),
        }
        if count >= max_evaluations {
            break;
        }
    }
    simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
    simplex.swap_remove(0)
}

/// Moves a point that is beyond the bounds to them.
fn clamp_to_bounds(mut point: Vec<f64>, bounds: &[[f64; 2]]) -> Vec<f64> {
    for (x, [min, max]) in point.iter_mut().zip(bounds) {
        *x = x.clamp(*min, *max);
    }
    point
}

/// Moves all corners half way towards the best one.
fn shrink_simplex(simplex: &mut [(Vec<f64>, f64)], measure: &mut dyn FnMut(&[f64]) -> f64) {
    let best = simplex[0].0.clone();
    for (point, value) in &mut simplex[1..] {
        for (x, b) in point.iter_mut().zip(&best) {
            *x = (*x + b) / 2.0;
        }
        *value = measure(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minimum_of_one_parameter() {
        let (point, value) = minimize_within_bounds(&[1.0], &[[0.0, 10.0]], 200, |p| (p[0] - 7.3).powi(2));
        assert!((point[0] - 7.3).abs() < 0.01 && value < 1e-4, "{point:?} {value}");
    }

    #[test]
    fn finds_rosenbrocks_minimum_and_respects_bounds() {
        // Rosenbrock's function: minimum at (1, 1)
        let bent = |p: &[f64]| 100.0 * (p[1] - p[0] * p[0]).powi(2) + (1.0 - p[0]).powi(2);
        let (point, _) = minimize_within_bounds(&[-1.0, 1.0], &[[-2.0, 2.0], [-2.0, 2.0]], 1000, bent);
        assert!((point[0] - 1.0).abs() < 0.02 && (point[1] - 1.0).abs() < 0.04, "{point:?}");
        let (point, _) = minimize_within_bounds(&[1.0], &[[0.5, 2.0]], 100, |p| p[0]);
        assert_eq!(point, [0.5]);
        assert_eq!(minimize_within_bounds(&[], &[], 10, |_| 1.0), (vec![], 1.0));
    }

    #[test]
    fn nan_is_never_the_minimum() {
        let (point, value) =
            minimize_within_bounds(&[5.0], &[[0.0, 10.0]], 200, |p| if p[0] > 6.0 { f64::NAN } else { 10.0 - p[0] });
        assert!(point[0] <= 6.0 && value.is_finite());
    }
}
