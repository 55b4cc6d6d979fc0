//! What drives record of their own health: NVMe by its log pages, ATA by SMART and its statistics, SCSI
//! by LOG SENSE; and what a cloud volume records of its limits.
//!
//! `reach.rs` says how a disk is asked, or why it cannot be; `ask.rs` asks it; `calls.rs` is the two
//! ioctls, and the only unsafe code. `nvme.rs`, `ata.rs`, `scsi.rs` and `volume.rs` are pure functions
//! from bytes in the published layouts. Only commands that read are known here, and a disk that sleeps
//! is not woken.

mod ask;
pub mod ata;
mod bytes;
mod calls;
pub mod nvme;
pub mod reach;
pub mod scsi;
pub mod volume;

pub use ask::{HealthAnswer, ask};
pub use reach::DriveAccess;
pub use volume::VolumeLimits;

/// What a drive says of itself. `None` is what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveHealth {
    /// The drive itself says that it fails or will.
    pub failing: Option<bool>,
    /// Share of the rated life that is used, percent; may pass 100.
    pub wear_percent: Option<u64>,
    /// Spare blocks left, percent.
    pub spare_percent: Option<u64>,
    /// The spare below which the drive warns, percent.
    pub spare_limit_percent: Option<u64>,
    /// Degrees Celsius; none below 0.
    pub temperature_c: Option<u64>,
    /// From here on it is too warm, by its own data.
    pub temperature_limit_c: Option<u64>,
    /// Seconds above its own limits.
    pub hot_s: Option<u64>,
    /// Times that it slowed itself down because of heat.
    pub thermal_throttles: Option<u64>,
    /// Errors of the medium that it could not correct.
    pub media_errors: Option<u64>,
    /// Errors on the way between drive and host (CRC).
    pub link_errors: Option<u64>,
    /// Sectors that were replaced.
    pub reallocated: Option<u64>,
    /// Sectors that cannot be read at present.
    pub pending: Option<u64>,
    /// The newest self-test found a fault.
    pub self_test_failed: Option<bool>,
    /// Power-on hours since the newest self-test.
    pub self_test_age_h: Option<u64>,
    /// Hours that it was on.
    pub power_on_h: Option<u64>,
    /// Times that power went without a word.
    pub unsafe_shutdowns: Option<u64>,
    /// Times that the heads were parked.
    pub load_cycles: Option<u64>,
    /// Bytes that hosts wrote in its life.
    pub written_bytes: Option<u64>,
    /// Bytes that hosts read in its life.
    pub read_bytes: Option<u64>,
}
