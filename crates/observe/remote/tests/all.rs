//! All integration tests of this crate in one program: one link instead of many.

mod common;
mod fake_store;
mod instance_metadata;
mod metrics;
mod remote_write;
mod stores;
mod synthetic;
