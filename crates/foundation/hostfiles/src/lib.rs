//! Files, folders and programs of the host, opened so that nobody else decides
//! what is opened: links are not followed, folders of other users are refused,
//! new files are private, programs come from fixed folders, children are bounded.
//!
//! - [`private`]: files that only their owner reads, in folders that only we or root change.
//! - [`kernel`]: the kernel's own file systems, in which nothing is ever created.
//! - [`program`]: programs of the host, and limits for those that we run.
//! - [`holes`]: stretches of files that were never written.
//! - [`group`]: the control groups of this process, and what they limit.
//! - [`mounts`]: the kernel's table of mounts.
//! - [`room`]: what is left on a filesystem.
//!
//! Knows no format and no device. Who uses a device is not told here.

pub mod group;
pub mod holes;
pub mod kernel;
pub mod mounts;
pub mod private;
pub mod program;
pub mod room;
