//! Performance of a machine: processor, memory, kernel and loopback network, measured by fixed
//! amounts of work.
//!
//! - [`figure`]: the list of what is measured, each with unit, direction and method.
//! - [`compute`], [`crypto`], [`memory`], [`kernel_operations`], [`loopback`]: the work itself, a file for each kind.
//! - [`timing`]: times a kernel of work in one or many threads; [`measurement`] repeats all of them and
//!   judges their spread; [`sustained_load`] runs for minutes and looks for heat.
//! - [`machine`] and [`circumstances`]: the measured machine, and the conditions during the measurement.
//! - [`document`]: the stored document; [`profile_store`] keeps one file per machine, [`compare`] compares two
//!   documents.
//!
//! The crate is always compiled with optimization, in development builds too (`Cargo.toml` of the workspace): figures
//! of unoptimized loops would measure the compiler.

pub mod circumstances;
pub mod compare;
pub mod compute;
pub mod crypto;
pub mod document;
pub mod figure;
pub mod kernel_operations;
pub mod loopback;
pub mod machine;
pub mod measurement;
pub mod memory;
pub mod profile_store;
pub mod sustained_load;
pub mod timing;
pub mod work_kernel;

/// Reason why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The operating system refused.
    #[error("{operation}: {source}")]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The same work gave two results: there is no figure, and a reason to test the hardware.
    #[error("{figure}: the same work gave two different results; processor or memory of this machine is faulty")]
    InconsistentResult {
        /// The figure.
        figure: &'static str,
    },
    /// This machine does not support the measurement.
    #[error("{0}")]
    Unsupported(String),
    /// The measurement was interrupted.
    #[error("interrupted; nothing was kept")]
    Stopped,
}

/// Returns a converter that adds the failed operation to an error of the system.
pub(crate) fn io_error<E: Into<std::io::Error>>(operation: &'static str) -> impl FnOnce(E) -> BaselineError {
    move |source| BaselineError::Io { operation, source: source.into() }
}
