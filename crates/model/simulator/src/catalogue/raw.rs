//! The format of a file of drives, as serde reads it. Every key carries its unit in its name.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::DriveClass;
use super::measure::DatasheetCheck;

/// A file of drives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogueFile {
    #[serde(default)]
    pub drive: Vec<Spanned<RawDrive>>,
}

/// One device.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDrive {
    pub id: String,
    pub name: String,
    pub vendor: String,
    pub year: u16,
    pub class: DriveClass,
    pub capacity_gb: f64,
    pub interface: String,
    pub source: String,
    #[serde(default)]
    pub notes: String,
    /// Sources of values: by source, the keys that it covers.
    #[serde(default)]
    pub sources: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub checks: Vec<DatasheetCheck>,
    pub mechanical: Option<RawMechanical>,
    pub flash: Option<RawFlash>,
    pub volume: Option<RawVolume>,
    pub plain: Option<RawPlain>,
}

/// See [`crate::drive::DataSheet`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMechanical {
    pub rpm: f64,
    pub heads: u32,
    pub cylinders: Option<u32>,
    #[serde(default = "one_zone")]
    pub zones: u32,
    pub sectors: Option<[f64; 2]>,
    pub media_mb_s: Option<[f64; 2]>,
    pub sustained_mb_s: Option<[f64; 2]>,
    pub seek_ms: Option<[f64; 3]>,
    pub seek_curve: Option<RawCurve>,
    pub head_switch_ms: f64,
    pub write_settle_ms: f64,
    pub command_ms: f64,
    pub hit_ms: Option<f64>,
    pub cache_kb: f64,
    pub segments: u32,
    pub read_ahead: bool,
    pub write_cache: bool,
    pub interface_mb_s: f64,
    #[serde(default)]
    pub never_leaves: bool,
    #[serde(default)]
    pub on_arrival: bool,
    pub queue: u32,
    pub policy: String,
}

fn one_zone() -> u32 {
    1
}

/// See [`crate::drive::RootAndLine`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCurve {
    pub from: f64,
    pub short: f64,
    pub root: f64,
    pub long: f64,
    pub slope: f64,
}

/// See [`crate::flash::FlashSpec`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFlash {
    pub queue: u32,
    pub link_mb_s: f64,
    pub duplex: bool,
    pub command_us: [f64; 2],
    pub latency_us: [f64; 2],
    pub channels: u32,
    pub dies: u32,
    pub planes: u32,
    pub independent_planes: bool,
    pub page_kb: f64,
    pub pages: u32,
    pub unit_kb: f64,
    pub read_us: f64,
    pub program_us: f64,
    pub erase_us: f64,
    pub suspend_us: Option<f64>,
    pub channel_mb_s: f64,
    pub spare: f64,
    pub buffer_mb: f64,
    #[serde(default)]
    pub protected: bool,
    pub slc_gb: Option<f64>,
    pub slc_program_us: Option<f64>,
    pub slc_fold_mb_s: Option<f64>,
    pub filled: f64,
    pub overwritten: f64,
}

/// See [`crate::volume::VolumeSpec`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVolume {
    pub queue: u32,
    pub iops: Option<f64>,
    pub burst_iops: Option<f64>,
    pub iops_credits: Option<f64>,
    pub mb_s: Option<f64>,
    pub burst_mb_s: Option<f64>,
    pub mb_credits: Option<f64>,
    pub write_iops: Option<f64>,
    pub write_mb_s: Option<f64>,
    pub shared: Option<RawShared>,
    pub operation_kb: f64,
    #[serde(default)]
    pub merges: bool,
    #[serde(default)]
    pub whole_operations: bool,
    #[serde(default = "default_write_cost")]
    pub write_cost: f64,
    #[serde(default)]
    pub window_ms: f64,
    pub read: RawDistribution,
    pub write: RawDistribution,
    pub stream_mb_s: Option<f64>,
}

/// See [`crate::volume::SharedWork`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawShared {
    pub each_us: [f64; 2],
    pub mb_s: Option<[f64; 2]>,
    pub knee: f64,
}

fn default_write_cost() -> f64 {
    1.0
}

/// See [`crate::device::PlainSpec`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlain {
    pub servers: u32,
    pub service: RawDistribution,
    pub mb_s: Option<f64>,
}

/// See [`crate::service_time::ServiceTimeDistribution`]: exactly one of the first six keys.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDistribution {
    pub constant_us: Option<f64>,
    pub exponential_us: Option<f64>,
    pub erlang_us: Option<f64>,
    pub uniform_us: Option<[f64; 2]>,
    pub median_us: Option<f64>,
    pub quantiles_us: Option<Vec<(f64, f64)>>,
    /// Valid with `erlang_us`.
    pub stages: Option<u32>,
    /// Valid with `median_us`.
    pub sigma: Option<f64>,
}
