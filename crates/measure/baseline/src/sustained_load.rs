//! Minutes of work by all processors: overheating, or a cloud's processor credits that run out,
//! show as a falling rate.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::circumstances::{ObservedRange, max_temperature, measure_clock_hz};
use crate::document::median;
use crate::figure::{FigureKind, find_definition};
use crate::machine::WorkingSizes;
use crate::{BaselineError, timing};

/// Id of the figure that is repeated: of all figures, floating-point operations heat a processor most.
const LOAD_FIGURE_ID: &str = "processor.floating";
/// Duration of a part.
const PART_DURATION: Duration = Duration::from_secs(1);
/// Smallest number of parts: fewer have no distinct beginning and end.
pub const MIN_PARTS: usize = 12;
/// Largest number of stored rates, those of an hour: the file of a machine must stay small enough to be read.
const MAX_RATES: usize = 3600;
/// Smallest fall that counts, as a share; a smaller fall is noise.
const MIN_FALL_SHARE: f64 = 0.05;

/// Rate over time under sustained load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SustainedResult {
    /// The figure that was repeated.
    pub figure: String,
    /// Number of threads.
    pub threads: usize,
    /// Duration, s.
    pub seconds: f64,
    /// Rate of each part of about a second; beyond an hour, means of neighboring parts.
    pub rates: Vec<f64>,
    /// Median of the first quarter.
    pub first: f64,
    /// Median of the last quarter.
    pub last: f64,
    /// Fall of the rate, as a share of the first; negative if it rose.
    pub fell_by: f64,
    /// The fall is more than noise.
    pub has_fallen: bool,
    /// Clock measured between parts by a chain of dependent instructions, Hz.
    pub clock_hz: Option<ObservedRange>,
    /// Temperature of the hottest sensor, degrees Celsius, if there is one.
    pub temperature_c: Option<ObservedRange>,
}

/// Judges rates in chronological order.
#[must_use]
pub fn judge_rates(rates: Vec<f64>) -> SustainedResult {
    let quarter = rates.len().div_ceil(4).max(1);
    let (first, last) = match rates.as_slice() {
        [] => (0.0, 0.0),
        rates => (median(&rates[..quarter]), median(&rates[rates.len() - quarter..])),
    };
    let fell_by = if first > 0.0 { 1.0 - last / first } else { 0.0 };
    SustainedResult { first, last, fell_by, has_fallen: fell_by > MIN_FALL_SHARE, rates, ..SustainedResult::default() }
}

/// Runs the load for a time.
///
/// # Errors
/// When it was stopped or the system refused.
pub fn run_sustained_load(
    duration: Duration,
    threads: usize,
    root: &Path,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<SustainedResult, BaselineError> {
    let figure = find_definition(LOAD_FIGURE_ID)
        .ok_or_else(|| BaselineError::Unsupported(format!("{LOAD_FIGURE_ID} is not in the list")))?;
    let sizes = WorkingSizes::default();
    let rounds = timing::calibrate_rounds(figure, &sizes, threads, PART_DURATION)?;
    let start = Instant::now();
    let (mut rates, mut temperatures, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
    while start.elapsed() < duration {
        if stop.load(Ordering::Relaxed) {
            return Err(BaselineError::Stopped);
        }
        rates.push(timing::time_rounds(figure, &sizes, threads, rounds)?.figure_value(FigureKind::Rate, threads));
        temperatures.extend(max_temperature(root));
        clocks.push(measure_clock_hz());
        progress(start.elapsed().as_secs());
    }
    let range = |values: &[f64]| {
        let low = values.iter().copied().reduce(f64::min)?;
        Some(ObservedRange { low, high: values.iter().copied().fold(low, f64::max) })
    };
    let judged = judge_rates(rates);
    Ok(SustainedResult {
        figure: LOAD_FIGURE_ID.into(),
        threads,
        seconds: start.elapsed().as_secs_f64(),
        rates: downsample_rates(&judged.rates),
        clock_hz: range(&clocks),
        temperature_c: range(&temperatures),
        ..judged
    })
}

/// Reduces the rates to the number that is stored, in their order, as means of neighbors.
fn downsample_rates(rates: &[f64]) -> Vec<f64> {
    let rates_per_mean = rates.len().div_ceil(MAX_RATES).max(1);
    rates.chunks(rates_per_mean).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_a_fall_from_noise() {
        let steady = judge_rates(vec![10.0, 10.1, 9.9, 10.0, 10.0, 10.1, 9.9, 10.0]);
        assert_eq!((steady.first, steady.last, steady.has_fallen), (10.05, 9.95, false));
        let hot = judge_rates(vec![10.0, 10.0, 9.0, 9.0, 8.0, 8.0, 8.0, 8.0]);
        assert!(hot.has_fallen && (hot.fell_by - 0.2).abs() < 1e-12, "{hot:?}");
        assert!(!judge_rates(Vec::new()).has_fallen);
    }

    #[test]
    fn long_runs_keep_mean_rates() {
        assert_eq!(downsample_rates(&[3.0, 5.0]), [3.0, 5.0]);
        let day: Vec<f64> = (0..86_400).map(f64::from).collect();
        let rates = downsample_rates(&day);
        // 24 parts of a second each
        assert_eq!((rates.len(), rates[0], rates[1]), (3600, 11.5, 35.5));
        assert!(downsample_rates(&[]).is_empty());
    }

    #[test]
    fn it_works_for_as_long_as_it_should_and_stops() {
        let stop = AtomicBool::new(true);
        let stopped = run_sustained_load(Duration::from_secs(60), 1, Path::new("/"), &stop, &|_| {});
        assert!(matches!(stopped, Err(BaselineError::Stopped)));
    }
}
