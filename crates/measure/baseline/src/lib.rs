//! What a machine does: processor, memory, kernel and loopback network, by work of a fixed amount.
//!
//! - [`figure`]: the list of what is measured, each with unit, direction and method.
//! - [`compute`], [`crypto`], [`memory`], [`system`], [`loopback`]: the work itself, a file for each kind.
//! - [`timing`]: how a kernel of work is timed in one or many threads; [`rounds`] repeats all of them and
//!   judges their spread; [`sustained`] runs for minutes and looks for heat.
//! - [`machine`] and [`circumstances`]: what was measured, and what it suffered meanwhile.
//! - [`document`]: what is kept, [`store`] where, [`compare`] two of them side by side.
//!
//! The crate is always compiled with optimization, in development builds too (`Cargo.toml` of the workspace): figures
//! of unoptimized loops would measure the compiler.

pub mod circumstances;
pub mod compare;
pub mod compute;
pub mod crypto;
pub mod document;
pub mod figure;
pub mod kernel;
pub mod loopback;
pub mod machine;
pub mod memory;
pub mod rounds;
pub mod store;
pub mod sustained;
pub mod system;
pub mod timing;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The same work gave two results: no figure, and a reason to test the hardware.
    #[error("{figure}: the same work gave two different results; processor or memory of this machine is faulty")]
    Wrong {
        /// The figure.
        figure: &'static str,
    },
    /// This machine cannot do it.
    #[error("{0}")]
    Cannot(String),
    /// Somebody asked to stop.
    #[error("interrupted; nothing was kept")]
    Stopped,
}

/// Says what was tried in an error of the system.
pub(crate) fn io<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> BaselineError {
    move |source| BaselineError::Io { what, source: source.into() }
}
