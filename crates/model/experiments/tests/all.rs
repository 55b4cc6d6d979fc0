//! All integration tests of this crate in one program: one link instead of many.

mod published_rows;
mod servers;
mod split;
mod subsystems;
