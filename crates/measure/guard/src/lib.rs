//! Who uses a block device or file, told by numbers and never by names: what the
//! kernel stands on it, what it stands on, who has it open or mapped; and whether it
//! may be touched.
//!
//! Reading order: `node` (numbers, and devices opened by them), `mounts`, `file` (files
//! that are the same under several numbers), `loops` and `mapper` (what their drivers
//! say), `devices` (all devices with what each stands on, byte for byte), `walk` (from a
//! target down to what it lies on, and up to all that stands on the same bytes),
//! `processes`, `exports`, `usage` (the sentences), `claim` (the kernel's own word),
//! `signature` (what lies on a device), `permit` (what follows of it), `output` (files
//! that commands write).
//!
//! Does no I/O but to look. Knows no suite, format or server.

pub mod claim;
mod devices;
mod exports;
mod file;
mod loops;
mod mapper;
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

pub use claim::claim;
pub use diskwright_hostfiles::private::again;
pub use node::DeviceNumber;
pub use output::{check_new, check_output};
pub use permit::{Consent, Findings, allow, check_file, inspect};
pub use refusal::Refusal;
