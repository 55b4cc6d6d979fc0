//! All integration tests of this crate in one program: one link instead of many.

mod held;
mod servers;
mod split;
mod subsystems;
