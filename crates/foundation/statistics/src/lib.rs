//! Statistics of noisy time series: means, slopes, steps and rhythms, with their uncertainty. Pure arithmetic on lists
//! of [`WeightedPoint`]s; it knows no counter and reads no file.
//!
//! Samples of a server depend on their neighbors: a busy minute follows a busy
//! minute. Formulas for independent samples would then find trends in noise. So
//! everything here starts from means of long blocks ([`blocks`]), estimates how
//! much neighboring blocks still depend on each other ([`autocorrelation`]), and counts
//! only as many independent values as this dependence leaves. Each file names the
//! source of its formulas, and has a worked example as a test.

pub mod autocorrelation;
pub mod blocks;
pub mod contrast;
pub mod covariance_analysis;
pub mod day_line;
pub mod distribution;
pub mod level_changes;
pub mod line_fit;
pub mod mean;
pub mod multiple_tests;
#[cfg(test)]
mod noise;
pub mod rhythm;
pub mod spectrum;
pub mod step;

pub use blocks::block_means;
pub use contrast::{Bounds, Contrast};
pub use level_changes::{LevelChange, MinChange, find_level_changes};
pub use line_fit::{Crossing, LineFit};
pub use mean::MeanVariance;
pub use rhythm::{Period, Rhythm};
pub use step::StepFit;

/// A value of a series with its time and weight: one sample, or the mean of a block of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightedPoint {
    /// Time of the sample or middle of the block, in seconds since an origin common to the list.
    pub time_s: f64,
    /// The sample, or the mean of the block.
    pub value: f64,
    /// Weight, in seconds or operations; more than 0.
    pub weight: f64,
}

/// Error rate of intervals and tests: 95 % intervals contain the true value.
pub const ERROR_RATE: f64 = 0.05;

/// True for a number above 0; false for `NaN` too, which `!(value <= 0.0)` would let through.
fn is_positive(value: f64) -> bool {
    value > 0.0
}
