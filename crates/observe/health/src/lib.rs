//! Health data that drives record: NVMe log pages, ATA SMART attributes and statistics, SCSI LOG SENSE; and the limits
//! that a cloud volume records.
//!
//! `access.rs` determines how a disk is queried, or why it cannot be; `query.rs` queries it; `ioctls.rs` has the two
//! ioctls, and the only unsafe code. `nvme.rs`, `ata.rs`, `scsi.rs` and `volume.rs` parse bytes in the published
//! layouts, without I/O. Only read commands are used, and a sleeping disk is not woken.

pub mod access;
pub mod ata;
mod bytes;
mod ioctls;
pub mod nvme;
mod query;
pub mod scsi;
pub mod volume;

pub use access::DriveAccess;
pub use query::{HealthReport, query_health};
pub use volume::VolumeLimits;

/// Health of a drive, as it reports it. `None` is a value that it does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveHealth {
    /// The drive reports a failure or predicts one.
    pub failing: Option<bool>,
    /// Share of the rated life that is used, percent; may pass 100.
    pub wear_percent: Option<u64>,
    /// Spare blocks left, percent.
    pub spare_percent: Option<u64>,
    /// The spare below which the drive warns, percent.
    pub spare_limit_percent: Option<u64>,
    /// Temperature, degrees Celsius; `None` below 0.
    pub temperature_c: Option<u64>,
    /// Temperature limit that the drive states, degrees Celsius.
    pub temperature_limit_c: Option<u64>,
    /// Seconds above its own temperature limits.
    pub hot_s: Option<u64>,
    /// Number of times that it throttled itself because of heat.
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
    /// Power-on hours.
    pub power_on_h: Option<u64>,
    /// Number of times that power was lost without a shutdown command.
    pub unsafe_shutdowns: Option<u64>,
    /// Number of times that the heads were parked.
    pub load_cycles: Option<u64>,
    /// Bytes that hosts wrote in its lifetime.
    pub written_bytes: Option<u64>,
    /// Bytes that hosts read in its lifetime.
    pub read_bytes: Option<u64>,
}
