//! The probe: measures how a disk performs under a known load.
//!
//! Reading order: `pattern` of the crate `results` (what to request), `request_generator` (the
//! requests of a pattern), `engine` (how they reach the target), `worker_loop` (the loop of a worker
//! that sends them), `run` (several jobs at the same time, on threads), `bench` (targets of suites),
//! `suites`, `programs` and `script` (sources of patterns). Before a run come `target`, the crate `guard` and
//! `fill`; after it `tally`, `summary` (from counts to the result), `combined_results` and
//! `profile`. Result files and their comparison are in the crate `results`.

pub mod bench;
pub mod combined_results;
pub mod device;
pub mod engine;
pub mod error;
pub mod fill;
pub mod live;
pub mod machine;
pub mod members;
pub mod page_cache;
pub mod profile;
pub mod programs;
pub mod request_generator;
pub mod run;
pub mod script;
pub mod steadiness;
pub mod suites;
pub mod summary;
pub mod tally;
pub mod target;
pub mod worker_loop;

pub use diskwright_guard as guard;
pub use diskwright_results::{facts, pattern, requirement, result};

// the starting points for users of the crate
pub use error::ProbeError;
pub use profile::Profile;
pub use run::{EngineKind, RunConfig};
pub use script::Script;
pub use suites::{SUITES, Suite, find_suite};
pub use target::{ProbeTarget, TargetOptions};
