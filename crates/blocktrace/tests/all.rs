//! All integration tests of this crate in one program: one link instead of many.
