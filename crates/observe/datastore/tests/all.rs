//! All integration tests of this crate in one program: one link instead of many.

mod arbitrary_input;
mod bulk;
mod common;
mod damage;
mod full_disk;
mod killed;
mod latency_size;
mod log;
mod log_folder;
mod random_damage;
mod retention;
#[path = "../../../../tests/sweep.rs"]
mod sweep;
