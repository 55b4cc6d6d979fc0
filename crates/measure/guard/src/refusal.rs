//! Reasons for refusing a device or file.

use std::path::PathBuf;

/// Reason why a target is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// It is in use, and writing would break what uses it.
    #[error("{name} is in use ({why}); no option allows writing to it")]
    InUse {
        /// The device.
        name: String,
        /// Its users.
        why: String,
    },
    /// It is in use, and reading needs the user's consent.
    #[error("{name} is in use ({why}); to read it anyway, carefully, use --live")]
    NeedsLive {
        /// The device.
        name: String,
        /// Its users.
        why: String,
    },
    /// Writing destroys what it holds.
    #[error("writing to {name} destroys its content ({contents}); to allow that, use --destroy-data-on {name}")]
    NeedsName {
        /// The device.
        name: String,
        /// Its contents; the name is required even if nothing is known.
        contents: String,
    },
    /// The user named another device than the target.
    #[error("--destroy-data-on names {typed}, but the target is {name}; nothing was written")]
    OtherName {
        /// Name that the user gave.
        typed: String,
        /// Name of the target.
        name: String,
    },
    /// The path of an output, result or log is not a regular file.
    #[error("{path}: {problem}; give a new file, or a regular file to replace")]
    Output {
        /// Path of the output.
        path: PathBuf,
        /// What is at that path.
        problem: String,
    },
    /// The path is in /dev, /proc or /sys, where a new file would be in memory.
    #[error(
        "{path}: no such device; no file is created in /dev, /proc or /sys, where it would be in memory. \
         Give an existing device{near}, or a file elsewhere"
    )]
    KernelFolder {
        /// The path.
        path: PathBuf,
        /// ` (did you mean /dev/sda?)`, or the command that lists the devices.
        near: String,
    },
}
