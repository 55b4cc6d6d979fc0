//! All integration tests of this crate in one program: one link instead of many.

mod blktrace;
mod broken;
mod common;
mod peers;
mod remaps;
mod samples;
