//! The fit: all forms are evaluated at their initial numbers. The best few of each kind are refined, then the best one
//! of each kind is refined further. The best of these is chosen.
//!
//! The error of a cell is the logarithm of predicted over measured, so that twice and half weigh the same. Absolute
//! errors are added up, not squares, so that a failed run affects the others little (least absolute deviations). Kinds
//! are compared by Schwarz's criterion, `2 n ln b + k ln n` for errors with a Laplace distribution of scale `b`
//! (Schwarz, "Estimating the dimension of a model", Annals of Statistics 6(2), 1978), so that each additional number
//! must pay off.

use super::known_cells::KnownCells;
use super::model_form::ModelForm;
use std::ops::{Range, RangeInclusive};

use super::{CalibrationCell, ModelKind, TriedModel, flash, limits, mechanical, shared, simulate_cell};
use crate::catalogue::EntryKind;

/// Relative difference between repeated runs of a few seconds: a smaller error is no better. Assumed, not measured by
/// repeating runs.
const MEASUREMENT_NOISE: f64 = 0.015;
/// Number of forms of a kind that are refined.
const REFINED_FORMS: usize = 3;
/// Evaluations per fitted number: in the refinement, and in the final fit.
const STEPS_PER_NUMBER: [usize; 2] = [15, 40];

/// A form with its numbers.
#[derive(Clone, Debug)]
pub(super) struct FittedForm {
    pub form: ModelForm,
    /// Mean absolute error.
    pub error: f64,
}

impl FittedForm {
    fn parameter_count(&self) -> usize {
        self.form.numbers.len() + self.form.chosen_count
    }

    fn schwarz_criterion(&self, cells: usize) -> f64 {
        let n = cells as f64;
        2.0 * n * self.error.max(MEASUREMENT_NOISE).ln() + self.parameter_count() as f64 * n.ln()
    }

    /// Returns the catalogue entry; `None` if the numbers are impossible.
    pub fn to_catalogue_entry(&self, known: &KnownCells) -> Option<EntryKind> {
        catalogue_entry(&self.form, &self.form.numbers, known)
    }

    /// Returns the summary of the fit.
    pub fn to_tried_model(&self, known: &KnownCells) -> TriedModel {
        TriedModel {
            kind: self.form.kind,
            form: self.form.description.clone(),
            parameters: self.parameter_count(),
            mean_error: self.error,
            criterion: self.schwarz_criterion(known.cells.len()),
        }
    }
}

fn catalogue_entry(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> Option<EntryKind> {
    Some(match form.kind {
        ModelKind::Limits => EntryKind::Volume(Box::new(limits::limited_volume(form, numbers, known))),
        ModelKind::Shared => EntryKind::Volume(Box::new(shared::shared_volume(form, numbers, known))),
        ModelKind::Flash => EntryKind::Flash(Box::new(flash::flash_spec(form, numbers, known))),
        ModelKind::Mechanical => EntryKind::Mechanical(Box::new(mechanical::data_sheet(form, numbers, known)?)),
    })
}

/// Mean absolute error of a form with these numbers on the selected cells; infinite if no such device exists.
fn mean_error(form: &ModelForm, numbers: &[f64], known: &KnownCells, cells: impl Fn(&CalibrationCell) -> bool) -> f64 {
    let Some(model) = catalogue_entry(form, numbers, known).and_then(|entry| entry.build_device().ok()) else {
        return f64::INFINITY;
    };
    let error = |cell: &CalibrationCell| simulate_cell(&model, cell, 1).log_error(cell).abs();
    let errors: Vec<f64> = known.cells.iter().filter(|cell| cells(cell)).map(|cell| error(cell)).collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    if mean.is_finite() { mean } else { f64::INFINITY }
}

/// Returns the best form of each kind, the best of all first.
pub(super) fn fit_best_forms(known: &KnownCells, forms: Vec<ModelForm>) -> Vec<FittedForm> {
    let n = known.cells.len();
    let mut evaluated: Vec<FittedForm> = forms
        .into_iter()
        .map(|form| FittedForm { error: mean_error(&form, &form.numbers, known, |_| true), form })
        .collect();
    evaluated.retain(|found| found.error.is_finite());
    evaluated.sort_by(|a, b| a.schwarz_criterion(n).total_cmp(&b.schwarz_criterion(n)));
    let mut found: Vec<FittedForm> = Vec::new();
    for kind in [ModelKind::Limits, ModelKind::Shared, ModelKind::Flash, ModelKind::Mechanical] {
        let of_kind = evaluated.iter().filter(|found| found.form.kind == kind).take(REFINED_FORMS);
        let refined = of_kind.map(|form| refine_form(form, known, STEPS_PER_NUMBER[0]));
        found.extend(refined.min_by(|a, b| a.schwarz_criterion(n).total_cmp(&b.schwarz_criterion(n))));
    }
    let mut found: Vec<FittedForm> = found.iter().map(|form| refine_form(form, known, STEPS_PER_NUMBER[1])).collect();
    found.sort_by(|a, b| a.schwarz_criterion(n).total_cmp(&b.schwarz_criterion(n)));
    found
}

/// Improves the numbers, on a logarithmic scale.
fn refine_form(from: &FittedForm, known: &KnownCells, steps: usize) -> FittedForm {
    let mut form = from.form.clone();
    for part in fit_parts(&form) {
        let cells = |cell: &CalibrationCell| part.cells.contains(&cell.load.read_share);
        let start: Vec<f64> = part.numbers.clone().map(|index| form.numbers[index].ln()).collect();
        let with_logs = |logs: &[f64]| {
            let mut numbers = form.numbers.clone();
            part.numbers.clone().zip(logs).for_each(|(index, log)| numbers[index] = log.exp());
            numbers
        };
        let (logs, _) =
            minimize_downhill(&start, steps * start.len(), |logs| mean_error(&form, &with_logs(logs), known, cells));
        form.numbers = with_logs(&logs);
    }
    let error = mean_error(&form, &form.numbers, known, |_| true);
    if error < from.error { FittedForm { form, error } } else { from.clone() }
}

/// Numbers that are fitted together, to the cells with these read shares.
struct FitPart {
    numbers: Range<usize>,
    cells: RangeInclusive<f64>,
}

/// Returns the parts that are fitted one after another: the numbers of reads, of writes and of mixes, if the kind has
/// separate ones; finally all numbers.
fn fit_parts(form: &ModelForm) -> Vec<FitPart> {
    let count = form.numbers.len();
    let part = |numbers: Range<usize>, cells| FitPart { numbers, cells };
    let mut parts = Vec::new();
    if form.kind == ModelKind::Flash && count > flash::READ_NUMBERS {
        let writes = flash::READ_NUMBERS + flash::WRITE_NUMBERS;
        parts.extend([part(0..flash::READ_NUMBERS, 1.0..=1.0), part(flash::READ_NUMBERS..writes, 0.0..=0.0)]);
        if count > writes {
            parts.push(part(writes..count, 0.01..=0.99));
        }
    }
    parts.push(part(0..count, 0.0..=1.0));
    parts
}

/// Width of the initial simplex: a factor of 1.28.
const SIMPLEX_WIDTH: f64 = 0.25;

/// Minimizes by the simplex method of Nelder and Mead ("A simplex method for function minimization", Computer Journal
/// 7(4), 1965) with its usual coefficients, for `max_evaluations` evaluations.
pub(super) fn minimize_downhill(
    start: &[f64],
    max_evaluations: usize,
    function: impl Fn(&[f64]) -> f64,
) -> (Vec<f64>, f64) {
    let n = start.len();
    let mut simplex: Vec<(Vec<f64>, f64)> = vec![(start.to_vec(), function(start))];
    for index in 0..n {
        let mut corner = start.to_vec();
        corner[index] += SIMPLEX_WIDTH;
        let value = function(&corner);
        simplex.push((corner, value));
    }
    let mut used = n + 1;
    loop {
        simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
        if used >= max_evaluations || n == 0 {
            return simplex.swap_remove(0);
        }
        let center: Vec<f64> =
            (0..n).map(|index| simplex[..n].iter().map(|(corner, _)| corner[index]).sum::<f64>() / n as f64).collect();
        let worst = simplex[n].clone();
        let point_along = |factor: f64| -> (Vec<f64>, f64) {
            let corner: Vec<f64> = center.iter().zip(&worst.0).map(|(c, w)| c + factor * (c - w)).collect();
            let value = function(&corner);
            (corner, value)
        };
        let reflected = point_along(1.0);
        used += 1;
        if reflected.1 < simplex[0].1 {
            let expanded = point_along(2.0);
            used += 1;
            simplex[n] = if expanded.1 < reflected.1 { expanded } else { reflected };
        } else if reflected.1 < simplex[n - 1].1 {
            simplex[n] = reflected;
        } else {
            let contracted = if reflected.1 < worst.1 { point_along(0.5) } else { point_along(-0.5) };
            used += 1;
            if contracted.1 < worst.1.min(reflected.1) {
                simplex[n] = contracted;
                continue;
            }
            let first = simplex[0].0.clone();
            for corner in &mut simplex[1..] {
                let nearer: Vec<f64> = corner.0.iter().zip(&first).map(|(c, f)| 0.5 * (c + f)).collect();
                *corner = (nearer.clone(), function(&nearer));
            }
            used += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimizes_rosenbrocks_valley() {
        // Rosenbrock 1960, from the usual start: the minimum is (1, 1)
        let valley = |x: &[f64]| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2);
        let (found, value) = minimize_downhill(&[-1.2, 1.0], 400, valley);
        assert!(value < 1e-6, "{value}");
        assert!(found.iter().all(|x| (x - 1.0).abs() < 0.01), "{found:?}");
    }
}
