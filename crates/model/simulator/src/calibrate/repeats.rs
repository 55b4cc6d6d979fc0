//! Repeated measurements of the same setting: the device's own variation, and the median of each setting.
//!
//! A description cannot be closer to a measurement than a repetition of the measurement is. Two values drawn from a
//! normal distribution with standard deviation s differ by 2 s / sqrt(pi) on average. Each is 0.8 s from the mean on
//! average, which is that difference divided by sqrt(2): the error that remains if the description is right.

use serde::Serialize;

use super::CalibrationCell;
use crate::catalogue::measure::DriveLoad;

/// Variation among measurements of the same setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasurementNoise {
    /// Settings that were measured at least twice.
    pub settings: usize,
    /// Mean difference between two measurements of a setting, as a share.
    pub mean: f64,
    /// Mean difference of the setting that varies most.
    pub worst: f64,
    /// Name of that setting.
    pub worst_run: String,
    /// Mean error that measurements with this variation leave for a correct description, as a share.
    #[serde(rename = "least_error")]
    pub min_error: f64,
}

/// Ratio of the expected distance from the middle to that between two values of a normal distribution.
const MEDIAN_DEVIATION_RATIO: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// Groups cells by setting, in the order of the first cell of each. Loads of a log are not grouped.
fn group_by_setting(cells: &[CalibrationCell], held_out: Option<bool>) -> Vec<Vec<&CalibrationCell>> {
    let mut found: Vec<(Option<&DriveLoad>, Vec<&CalibrationCell>)> = Vec::new();
    for cell in cells.iter().filter(|cell| held_out.is_none_or(|held_out| cell.held_out == held_out)) {
        let setting = Some(&cell.load).filter(|_| cell.response_s.is_none());
        match found.iter_mut().find(|(known, _)| known.is_some() && *known == setting) {
            Some((_, repeats)) => repeats.push(cell),
            None => found.push((setting, vec![cell])),
        }
    }
    found.into_iter().map(|(_, repeats)| repeats).collect()
}

/// Mean difference between all pairs, as a share.
fn mean_difference(repeats: &[&CalibrationCell]) -> Option<f64> {
    let pairs = repeats.iter().enumerate().flat_map(|(index, a)| repeats[index + 1..].iter().map(move |b| (a, b)));
    let differences: Vec<f64> = pairs.map(|(a, b)| (a.per_s / b.per_s).ln().abs().exp() - 1.0).collect();
    (!differences.is_empty()).then(|| differences.iter().sum::<f64>() / differences.len() as f64)
}

/// Returns the variation among measurements of the same setting; `None` if no setting was measured twice.
pub(super) fn measure_noise(cells: &[CalibrationCell]) -> Option<MeasurementNoise> {
    let group_difference =
        |repeats: Vec<&CalibrationCell>| Some((mean_difference(&repeats)?, repeats.first()?.name.clone()));
    let differences: Vec<(f64, String)> =
        group_by_setting(cells, None).into_iter().filter_map(group_difference).collect();
    let (worst, worst_run) = differences.iter().max_by(|a, b| a.0.total_cmp(&b.0)).cloned()?;
    let mean = differences.iter().map(|(difference, _)| difference).sum::<f64>() / differences.len() as f64;
    let min_error = MEDIAN_DEVIATION_RATIO * mean;
    Some(MeasurementNoise { settings: differences.len(), mean, worst, worst_run, min_error })
}

/// Returns one cell for each setting, with the median of its measurements.
pub(super) fn median_cells(cells: &[CalibrationCell]) -> Vec<CalibrationCell> {
    let median_cell = |repeats: Vec<&CalibrationCell>| {
        let first = repeats.first()?;
        let mut rates: Vec<f64> = repeats.iter().map(|cell| cell.per_s).collect();
        rates.sort_by(f64::total_cmp);
        // for an even number, the middle of the two on the logarithmic scale that errors are judged on
        let middle = (rates[(rates.len() - 1) / 2] * rates[rates.len() / 2]).sqrt();
        let per_s = if rates.len() == 1 { first.per_s } else { middle };
        Some(CalibrationCell { per_s, ..(*first).clone() })
    };
    [false, true]
        .into_iter()
        .flat_map(|held_out| group_by_setting(cells, Some(held_out)))
        .filter_map(median_cell)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(depth: u32, per_s: f64) -> CalibrationCell {
        let load = DriveLoad { sequential: false, read_share: 1.0, blocks: 8, depth, range: None };
        CalibrationCell { name: format!("depth {depth}"), load, per_s, response_s: None, held_out: depth == 4 }
    }

    #[test]
    fn repeated_settings_give_the_noise() {
        assert_eq!(measure_noise(&[cell(1, 100.0), cell(4, 300.0)]), None);
        let found =
            measure_noise(&[cell(1, 100.0), cell(4, 300.0), cell(1, 110.0), cell(4, 360.0)]).expect("two settings");
        assert_eq!((found.settings, found.worst_run.as_str()), (2, "depth 4"));
        assert!((found.mean - 0.15).abs() < 1e-12 && (found.worst - 0.2).abs() < 1e-12, "{found:?}");
        assert!((found.min_error - 0.15 / 2f64.sqrt()).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_setting_becomes_its_median_and_a_logs_loads_stay() {
        let log = CalibrationCell { response_s: Some(0.01), ..cell(1, 50.0) };
        let all =
            [cell(4, 300.0), cell(1, 90.0), cell(1, 500.0), cell(1, 110.0), log.clone(), log.clone(), cell(4, 432.0)];
        let found = median_cells(&all);
        let cells: Vec<(u32, f64, bool)> =
            found.iter().map(|cell| (cell.load.depth, cell.per_s, cell.held_out)).collect();
        assert_eq!(cells[..3], [(1, 110.0, false), (1, 50.0, false), (1, 50.0, false)]);
        assert!(cells.len() == 4 && cells[3].2 && (cells[3].1 - 360.0).abs() < 1e-9, "{cells:?}");
    }
}
