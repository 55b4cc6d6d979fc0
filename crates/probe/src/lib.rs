//! The probe: measures what a disk does under a load that is known.
//!
//! Reading order: `pattern` (what is asked), `draw` (the requests of a
//! pattern), `engine` (how they reach the target), `drive` (the loops), `run`
//! (jobs at the same time, on threads), `bench` (what suites measure on),
//! `suites` and `script` (where patterns come from). Before all of it stand
//! `target`, the crate `guard` and `fill`; behind it `tally`,
//! `result`, `together`, `document` (the result file), `compare` and `profile`.

pub mod bench;
pub mod cached;
pub mod circumstances;
pub mod compare;
pub mod device;
pub mod document;
pub mod draw;
pub mod drive;
pub mod engine;
pub mod error;
pub mod fill;
pub mod live;
pub mod machine;
pub mod members;
pub mod pattern;
pub mod profile;
pub mod result;
pub mod run;
pub mod script;
pub mod steady;
pub mod suites;
pub mod tally;
pub mod target;
pub mod together;

pub use diskwright_guard as guard;
