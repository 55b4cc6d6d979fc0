//! All integration tests of this crate in one program: one link instead of many.

mod comes_and_goes;
mod machine;
mod samples;
