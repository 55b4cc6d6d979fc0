//! All tests of the crate in one program, so that it is linked once.

mod apply;
mod cases;
mod hostile;
mod pages;
