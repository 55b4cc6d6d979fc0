//! What can be said of noisy series in time, and how sure it is: means, slopes,
//! steps and rhythms. Pure arithmetic on lists of [`BlockMean`]s; it knows no
//! counter and reads no file.
//!
//! Samples of a server depend on their neighbours: a busy minute follows a busy
//! minute. Formulas for independent samples would then find trends in noise. So
//! everything here starts from means of long blocks ([`blocks`]), estimates how
//! much neighbouring blocks still depend on each other ([`memory`]), and counts
//! as many independent values as that leaves. Each file names the source of
//! its formulas and holds a worked example as a test.

pub mod adjusted;
pub mod blocks;
pub mod contrast;
pub mod distribution;
pub mod line;
pub mod many;
pub mod mean;
pub mod memory;
#[cfg(test)]
mod noise;
pub mod rhythm;
pub mod spectrum;
pub mod step;

pub use blocks::blocks;
pub use contrast::{Bounds, Contrast};
pub use line::{Crossing, LineFit};
pub use mean::MeanVariance;
pub use rhythm::{Period, Rhythm};
pub use step::StepFit;

/// A mean over a short stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockMean {
    /// Its middle, in seconds since any moment that is common to the list.
    pub at_s: f64,
    /// The mean.
    pub value: f64,
    /// What it weighs: seconds, or operations; more than 0.
    pub weight: f64,
}

/// Share of cases in which an interval or a test may be wrong: intervals hold
/// the truth 19 times of 20.
pub const ERROR: f64 = 0.05;

/// False for `NaN` too, which a plain negated comparison would let through.
fn is_positive(value: f64) -> bool {
    value > 0.0
}
