//! Prices and limits: dated, sourced data with a region. An unknown value is `None` and never 0, and old rows are
//! reported.

pub mod bills;
mod instances;
mod list;
pub mod unused;

use std::sync::LazyLock;

pub use diskwright_base::cloud_volume::{BurstRule, ByteBurstRule, RateUnit, VolumeLimit, VolumeType};
use diskwright_base::{ProblemSource, Problems, timestamp, toml_reader};
use serde::{Deserialize, Serialize};

use crate::operation_rule::OperationRule;

pub use instances::{InstanceRow, InstanceTable};
pub use list::{DriveGroup, DrivePower, PriceList, Subsystem};

/// The built-in files.
pub const BUILT_IN_FILES: [(&str, &str); 5] = [
    // the first is overridden by the next ones
    ("instances.toml", include_str!("../../data/instances.toml")),
    ("volume_types.toml", include_str!("../../data/volume_types.toml")),
    ("volumes.toml", include_str!("../../data/volumes.toml")),
    ("drives.toml", include_str!("../../data/drives.toml")),
    ("controllers.toml", include_str!("../../data/controllers.toml")),
];

/// A cloud's volume type.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeOffer {
    /// Id: `aws-gp3`.
    pub id: String,
    /// Full name.
    pub name: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Other names: those of the provider's tools and metadata.
    #[serde(default)]
    pub also: Vec<String>,
    /// Region of the price.
    pub region: String,
    /// Medium of the volume.
    pub media: VolumeMedia,
    /// Entry of the simulator's catalogue with the same latencies and counting rule.
    pub like: String,
    /// Minimum and maximum size, GiB.
    pub gib: [f64; 2],
    /// Unit of its rates.
    pub unit: RateUnit,
    /// Operations per second.
    pub iops: VolumeLimit,
    /// Rate per second, in its unit.
    pub rate: VolumeLimit,
    /// Temporary burst of operations.
    pub burst: Option<BurstRule>,
    /// Temporary burst of bytes, which have separate credits.
    pub byte_burst: Option<ByteBurstRule>,
    /// Its price.
    pub price: VolumePrice,
    /// Annual failure rate as stated by the provider, lower and upper end.
    pub afr: Option<[f64; 2]>,
    /// Reason not to trust its price.
    pub unverified: Option<String>,
    /// Date of the price, `2026-10-07`.
    pub date: String,
    /// Source of the price.
    pub source: String,
}

/// Medium of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeMedia {
    /// Flash.
    Ssd,
    /// Disks.
    Hdd,
}

/// Price of a volume per month, or per hour of 1/730 month.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumePrice {
    /// `USD`.
    pub currency: String,
    /// Total price, if it has one size.
    pub month: Option<f64>,
    /// Price per GiB.
    pub gib_month: Option<f64>,
    /// Price per operation per second, each up to a number of them.
    pub iops_month: Option<Vec<[f64; 2]>>,
    /// Price per unit of the rate.
    pub rate_month: Option<f64>,
    /// Price per GiB and hour.
    pub gib_hour: Option<f64>,
    /// Price per operation per second and hour.
    pub iops_hour: Option<f64>,
    /// Price per unit of the rate and hour.
    pub rate_hour: Option<f64>,
}

/// Limits of all volumes of an instance together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceCaps {
    /// `m6i.large`.
    pub id: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Permanent limit.
    pub baseline: InstanceCap,
    /// Limit for at least 30 minutes once in 24 hours.
    #[serde(rename = "most")]
    pub burst: Option<InstanceCap>,
    /// Reason not to trust the row.
    pub unconfirmed: Option<String>,
    /// Date of the row.
    pub date: String,
    /// Source of the row.
    pub source: String,
}

/// Limits of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceCap {
    /// MB/s.
    pub mb_s: f64,
    /// Operations per second.
    pub iops: f64,
}

/// A price of hardware.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HardwarePrice {
    /// Price of one drive or subsystem.
    pub each: Option<f64>,
    /// Price of 10^12 bytes.
    pub per_tb: Option<f64>,
    /// `USD`.
    pub currency: String,
    /// Region of the price.
    pub region: String,
    /// Date of the price.
    pub date: String,
    /// Source of the price.
    pub source: String,
}

impl HardwarePrice {
    /// Price of a drive of this many bytes.
    pub fn price_for(&self, bytes: f64) -> Option<f64> {
        self.each.or_else(|| self.per_tb.map(|price| price * bytes / 1e12))
    }
}

impl VolumeOffer {
    /// Returns the type of the volume: its limits without the price.
    pub fn volume_type(&self) -> VolumeType {
        let rule = OperationRule::for_offer(self);
        VolumeType {
            id: self.id.clone(),
            name: self.name.clone(),
            provider: self.provider.clone(),
            also: self.also.clone(),
            gib: self.gib,
            unit: self.unit,
            iops: self.iops,
            rate: self.rate,
            burst: self.burst,
            byte_burst: self.byte_burst,
            request_bytes: rule.unit_bytes as u64,
            write_cost: rule.write_cost,
            unconfirmed: None,
            date: self.date.clone(),
            source: self.source.clone(),
        }
    }
}

static BUILT_IN_LIST: LazyLock<Result<PriceList, Problems>> = LazyLock::new(|| {
    let mut list = PriceList::default();
    for (file, text) in BUILT_IN_FILES {
        list.extend(read_price_list(file, text)?);
    }
    Ok(list)
});

/// Returns the built-in prices.
pub fn built_in_prices() -> PriceList {
    // tests read every file, so that a broken one is never shipped
    BUILT_IN_LIST.clone().unwrap_or_default()
}

/// Reads a file of prices; `file` names it in errors.
///
/// # Errors
/// All errors with their lines: every wrong key, or the first impossible value.
pub fn read_price_list(file: &str, text: &str) -> Result<PriceList, Problems> {
    let mut parsed: PriceList = toml_reader::read(file, text)?;
    parsed.expand_tables();
    parsed.check_rows().map_err(|(item, message)| {
        // finds the row itself, not a reference to it
        let offset = text.find(&format!("id = \"{item}\"")).unwrap_or(0);
        Problems(vec![ProblemSource { file, text }.create_problem(offset, &item, message)])
    })?;
    Ok(parsed)
}

/// Days since 1970-01-01 of `2026-10-07`; `None` for anything else.
pub fn day_number(date: &str) -> Option<i64> {
    timestamp::parse_leading_day(date).filter(|day| timestamp::format_day(*day) == date)
}

/// True if a row is older than a year.
pub fn is_outdated(date: &str, today: &str) -> bool {
    match (day_number(date), day_number(today)) {
        (Some(date), Some(today)) => today - date > 365,
        _ => false,
    }
}
