//! Safe access to files, folders and programs of the host: another user cannot redirect what is
//! opened. Links are not followed, folders of other users are refused,
//! new files are private, programs come from fixed folders, children are bounded.
//!
//! - [`bounded_file`]: whole files that a user names, up to a limit.
//! - [`private_files`]: files that only their owner reads, in folders that only we or root change.
//! - [`kernel_filesystems`]: the kernel's own file systems, in which nothing is ever created.
//! - [`programs`]: programs of the host, and limits for those that we run.
//! - [`holes`]: ranges of files that were never written.
//! - [`extents`]: the places of files on their disks.
//! - [`cgroup`]: the control groups of this process and their limits.
//! - [`mounts`]: the kernel's table of mounts.
//! - [`deadline`]: work that may never end, in a thread that is left behind.
//! - [`disk_space`]: free space on a filesystem.
//! - [`removed_on_signal`]: files that go when a signal ends the program.
//!
//! This crate knows no format and no device, and does not report who uses a device.

pub mod bounded_file;
pub mod cgroup;
pub mod deadline;
pub mod disk_space;
pub mod extents;
pub mod holes;
pub mod kernel_filesystems;
pub mod mounts;
pub mod private_files;
pub mod programs;
pub mod removed_on_signal;
