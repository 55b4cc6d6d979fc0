//! Prices and limits: dated, sourced data with a region. An unknown value is `None` and never 0, and old rows are
//! reported.

pub mod bills;
mod list;

use std::sync::LazyLock;

use diskwright_base::{ProblemSource, Problems, timestamp, toml_reader};
use serde::{Deserialize, Serialize};

pub use list::{DriveGroup, DrivePower, PriceList, Subsystem};

/// The built-in files.
pub const BUILT_IN_FILES: [(&str, &str); 3] = [
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

/// Unit of a volume's rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum RateUnit {
    /// 2^20 bytes.
    #[serde(rename = "MiB")]
    Mebi,
    /// 10^6 bytes.
    #[serde(rename = "MB")]
    Mega,
}

impl RateUnit {
    /// Number of bytes.
    pub fn bytes(self) -> f64 {
        if self == RateUnit::Mebi { 1_048_576.0 } else { 1e6 }
    }

    /// `MiB/s` or `MB/s`.
    pub fn name(self) -> &'static str {
        if self == RateUnit::Mebi { "MiB/s" } else { "MB/s" }
    }
}

/// Limit of a volume for operations or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeLimit {
    /// Value that every volume has.
    #[serde(rename = "with")]
    pub base: f64,
    /// Free part of that value, if it is less.
    pub free: Option<f64>,
    /// Value instead above a size: size in GiB, value.
    pub with_above: Option<[f64; 2]>,
    /// Additional value per GiB.
    #[serde(default)]
    pub grows_per_gib: f64,
    /// True if the growth adds to the base value; else the larger of both applies.
    #[serde(default)]
    pub adds: bool,
    /// Maximum of any volume.
    #[serde(rename = "most")]
    pub max: f64,
    /// True if more can be bought.
    #[serde(default)]
    pub sold: bool,
    /// Maximum per GiB.
    pub per_gib: Option<f64>,
    /// Maximum per operation per second.
    pub per_iops: Option<f64>,
}

/// Burst of operations until the credits are used up.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstRule {
    /// Operations per second during the burst.
    pub iops: f64,
    /// Operations above the baseline in a full bucket.
    pub credits: f64,
    /// Only volumes below this size have it.
    pub below_gib: f64,
}

/// Burst of bytes until the byte credits are used up, in the unit of the rates.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteBurstRule {
    /// Rate per second during the burst.
    #[serde(default)]
    pub rate: f64,
    /// Additional rate per GiB.
    #[serde(default)]
    pub rate_per_gib: f64,
    /// Maximum per second.
    #[serde(rename = "most")]
    pub max: f64,
    /// Credits of a full bucket.
    #[serde(default)]
    pub credits: f64,
    /// Additional credits per GiB.
    #[serde(default)]
    pub credits_per_gib: f64,
    /// Only volumes below this size have it.
    pub below_gib: f64,
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
    let parsed: PriceList = toml_reader::read(file, text)?;
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
