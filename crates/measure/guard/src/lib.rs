//! Finds the users of a block device or file: the kernel's layers above and below it, and the
//! processes that have it open or mapped. Then decides whether it may be used. Devices and files are
//! compared by their numbers, never by their names.
//!
//! Reading order: `node` (numbers, and devices opened by them), `mounts`, `backing_file` (files
//! that are the same under several numbers), `loop_devices` and `device_mapper` (answers of their
//! drivers), `device_graph` (all devices with their layers, byte for byte), `walk` (from a target
//! down to what it lies on, and up to everything on the same bytes), `processes`, `exports`,
//! `usage` (the sentences), `claim` (the kernel's answer), `signature` (formats stored on a
//! device), `permit` (the decision), `output` (files that commands write).
//!
//! This crate only reads. It knows no suite, format or server.

mod backing_file;
pub mod claim;
mod device_graph;
mod device_mapper;
mod exports;
mod loop_devices;
mod mounts;
pub mod node;
pub mod output;
pub mod permit;
mod processes;
pub mod refusal;
pub mod signature;
mod swaps;
#[cfg(test)]
mod tests;
pub mod usage;
mod walk;

pub use claim::claim_exclusively;
pub use diskwright_hostfiles::private_files::proc_fd_path;
pub use node::DeviceNumber;
pub use output::{check_new, check_output};
pub use permit::{Consent, Findings, check_file, check_permission, inspect_device};
pub use refusal::Refusal;
