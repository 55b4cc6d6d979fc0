//! All integration tests of this crate in one program: one link instead of many.

mod any;
mod bulk;
mod common;
mod damage;
mod full_disk;
mod home;
mod keep;
mod killed;
mod latency_size;
mod log;
mod oracle;
#[path = "../../../../tests/sweep.rs"]
mod sweep;
