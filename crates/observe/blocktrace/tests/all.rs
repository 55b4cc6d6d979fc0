//! All integration tests of this crate in one program: one link instead of many.

mod common;
mod live;
mod pairs;
mod recorded;
