//! Compares simulated values with published ones: gains in percentage points, everything else relatively; and means
//! over rows.

use crate::document::{Bound, ExperimentDocument, PublishedRow, RowUse};

/// Result of a simulated row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOutcome {
    /// The document's number.
    pub doc: String,
    /// The row's id.
    pub id: String,
    /// Permitted use of the row.
    pub usage: RowUse,
    /// True if errors are percentage points.
    pub gain: bool,
    /// Simulated value, in the row's unit; `None` if it was not simulated.
    pub simulated: Option<f64>,
    /// For a shape: number of comparisons that hold, and number of all its comparisons.
    pub holds: Option<(usize, usize)>,
    /// Naive prediction, in the row's unit.
    pub baseline: Option<f64>,
    /// Error of the simulated value: percentage points for a gain, otherwise a fraction; `None` for a shape.
    pub error: Option<f64>,
    /// Error of the naive prediction.
    pub baseline_error: Option<f64>,
    /// Reason why there is no value.
    pub failure: Option<String>,
}

/// Returns the error of a value against a row's published one: percentage points for a gain, otherwise a fraction of
/// the published value. For a bound, only the shortfall counts.
///
/// ```
/// use diskwright_experiments::judge::published_error;
/// assert_eq!(published_error(57.0, None, true, 53.0), 4.0);
/// assert_eq!(published_error(80.0, None, false, 76.0), 0.05);
/// ```
pub fn published_error(published: f64, bound: Option<Bound>, gain: bool, value: f64) -> f64 {
    let deviation = match bound {
        None => (value - published).abs(),
        Some(Bound::AtLeast) => (published - value).max(0.0),
        Some(Bound::Within) => (value.abs() - published.abs()).max(0.0),
    };
    if gain { deviation } else { deviation / published.abs() }
}

impl RowOutcome {
    /// True if the simulated value is further from the published one than the naive prediction is; `None` if the row
    /// lacks one of the two errors.
    pub fn is_worse_than_naive(&self) -> Option<bool> {
        Some(self.error? > self.baseline_error?)
    }
}

/// Judges a row by its simulated value.
pub fn judge_row(
    document: &ExperimentDocument,
    row: &PublishedRow,
    simulated: Result<f64, String>,
    holds: Option<(usize, usize)>,
) -> RowOutcome {
    // of a shape, only the comparisons are predicted
    let published = row.published.filter(|_| row.usage != RowUse::Shape);
    let error_of = |value: f64| published.map(|published| published_error(published, row.bound, row.gain, value));
    let baseline = document.baseline_value(row);
    let (simulated, failure) = match simulated {
        Ok(value) if value.is_finite() => (Some(value), None),
        Ok(_) => (None, Some("the simulation gave no number".to_owned())),
        Err(reason) => (None, Some(reason)),
    };
    RowOutcome {
        doc: document.doc.clone(),
        id: row.id.clone(),
        usage: row.usage,
        gain: row.gain,
        simulated,
        holds,
        baseline,
        error: simulated.and_then(error_of),
        baseline_error: baseline.and_then(error_of),
        failure,
    }
}

/// Means over rows of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowMeans {
    /// Number of predicted rows.
    pub rows: usize,
    /// Number of rows that were simulated.
    pub simulated: usize,
    /// Mean error of the simulated rows; NaN if there are none.
    pub error: f64,
    /// Mean error of the simulated rows that have a baseline; NaN if there are none.
    pub error_where_baseline: f64,
    /// Mean error of the baseline over the same rows; NaN if there are none.
    pub baseline_error: f64,
}

/// Means over the predicted rows of a document, or of all documents.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentSummary {
    /// The document's number; empty for all documents.
    pub doc: String,
    /// Gains: percentage points.
    pub gains: RowMeans,
    /// Rates, times, shares: fractions.
    pub others: RowMeans,
    /// Predicted rows that are worse than their naive prediction, and all that have one.
    pub worse_than_naive: (usize, usize),
    /// Shapes of which every comparison holds, and all simulated shapes.
    pub shapes: (usize, usize),
}

impl DocumentSummary {
    /// Summarizes outcomes. Percentage points and relative errors are never averaged together.
    pub fn from_outcomes(doc: &str, outcomes: &[&RowOutcome]) -> DocumentSummary {
        let predicted = || outcomes.iter().copied().filter(|o| o.usage == RowUse::Predict);
        let shapes: Vec<(usize, usize)> = outcomes.iter().filter_map(|o| o.holds).collect();
        let worse: Vec<bool> = predicted().filter_map(RowOutcome::is_worse_than_naive).collect();
        DocumentSummary {
            doc: doc.to_owned(),
            gains: mean_errors(predicted().filter(|o| o.gain)),
            others: mean_errors(predicted().filter(|o| !o.gain)),
            worse_than_naive: (worse.iter().filter(|worse| **worse).count(), worse.len()),
            shapes: (shapes.iter().filter(|(holding, comparisons)| holding == comparisons).count(), shapes.len()),
        }
    }
}

fn mean_errors<'a>(outcomes: impl Iterator<Item = &'a RowOutcome>) -> RowMeans {
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mut rows, mut errors, mut errors_with_baseline, mut baselines) = (0, Vec::new(), Vec::new(), Vec::new());
    for outcome in outcomes {
        rows += 1;
        let Some(error) = outcome.error else { continue };
        errors.push(error);
        if let Some(baseline) = outcome.baseline_error {
            errors_with_baseline.push(error);
            baselines.push(baseline);
        }
    }
    RowMeans {
        rows,
        simulated: errors.len(),
        error: average(&errors),
        error_where_baseline: average(&errors_with_baseline),
        baseline_error: average(&baselines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_count_only_the_shortfall() {
        assert_eq!(published_error(50.0, Some(Bound::AtLeast), true, 71.0), 0.0);
        assert_eq!(published_error(50.0, Some(Bound::AtLeast), true, 43.0), 7.0);
        assert_eq!(published_error(5.0, Some(Bound::Within), true, -3.0), 0.0);
        assert_eq!(published_error(5.0, Some(Bound::Within), true, -8.0), 3.0);
    }

    fn row_outcome(usage: RowUse, gain: bool, error: Option<f64>, baseline_error: Option<f64>) -> RowOutcome {
        RowOutcome {
            doc: "003".into(),
            id: "x".into(),
            usage,
            gain,
            simulated: error,
            holds: None,
            baseline: baseline_error,
            error,
            baseline_error,
            failure: None,
        }
    }

    #[test]
    fn a_row_is_worse_than_naive_only_if_both_errors_are_known() {
        let is_worse = |error, baseline| row_outcome(RowUse::Predict, true, error, baseline).is_worse_than_naive();
        assert_eq!(is_worse(Some(38.5), Some(0.0)), Some(true));
        assert_eq!(is_worse(Some(3.0), Some(3.0)), Some(false));
        assert_eq!((is_worse(Some(3.0), None), is_worse(None, Some(3.0))), (None, None));
    }

    #[test]
    fn means_cover_predicted_rows_only() {
        let all = [
            row_outcome(RowUse::Fit, false, Some(9.0), Some(9.0)),
            row_outcome(RowUse::Shape, false, Some(9.0), Some(9.0)),
            row_outcome(RowUse::Predict, true, Some(4.0), Some(20.0)),
            row_outcome(RowUse::Predict, true, Some(8.0), None),
            row_outcome(RowUse::Predict, false, Some(0.1), Some(0.5)),
            row_outcome(RowUse::Predict, false, None, Some(0.9)),
        ];
        let summary = DocumentSummary::from_outcomes("003", &all.iter().collect::<Vec<_>>());
        assert_eq!((summary.gains.rows, summary.gains.simulated, summary.gains.error), (2, 2, 6.0));
        assert_eq!((summary.gains.error_where_baseline, summary.gains.baseline_error), (4.0, 20.0));
        assert_eq!((summary.others.rows, summary.others.simulated, summary.others.baseline_error), (2, 1, 0.5));
        assert_eq!((summary.others.error, summary.worse_than_naive), (0.1, (0, 2)));
        assert!(DocumentSummary::from_outcomes("", &[]).gains.error.is_nan());
    }
}
