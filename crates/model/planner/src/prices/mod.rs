//! Prices and limits: dated, sourced data with a region. What is not known is
//! `None` and never 0, and rows that are old are said to be.

pub mod bills;
mod list;

use std::sync::LazyLock;

use diskwright_base::{ProblemSource, Problems, moment, toml_reader};
use serde::{Deserialize, Serialize};

pub use list::{DriveGroup, DrivePower, PriceList, Subsystem};

/// The built-in files.
pub const FILES: [(&str, &str); 3] = [
    ("volumes.toml", include_str!("../../data/volumes.toml")),
    ("drives.toml", include_str!("../../data/drives.toml")),
    ("controllers.toml", include_str!("../../data/controllers.toml")),
];

/// A volume type of a cloud.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeOffer {
    /// How it is named: `aws-gp3`.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Where the price holds.
    pub region: String,
    /// What is behind it.
    pub media: VolumeMedia,
    /// Entry of the simulator's catalogue whose latencies and way of counting it has.
    pub like: String,
    /// Least and largest size, GiB.
    pub gib: [f64; 2],
    /// Unit of its rates.
    pub unit: RateUnit,
    /// Operations a second.
    pub iops: VolumeLimit,
    /// Rate, in its unit a second.
    pub rate: VolumeLimit,
    /// What it may do for a while.
    pub burst: Option<BurstRule>,
    /// The same of its bytes, which have credits of their own.
    pub byte_burst: Option<ByteBurstRule>,
    /// What it costs.
    pub price: VolumePrice,
    /// Annual failure rate as the provider says, lower and upper end.
    pub afr: Option<[f64; 2]>,
    /// Why its price is not to be trusted.
    pub unverified: Option<String>,
    /// Day of the price, `2026-10-07`.
    pub date: String,
    /// Where that is written.
    pub source: String,
}

/// What is behind a volume.
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
    /// Its bytes.
    pub fn bytes(self) -> f64 {
        if self == RateUnit::Mebi { 1_048_576.0 } else { 1e6 }
    }

    /// `MiB/s` or `MB/s`.
    pub fn name(self) -> &'static str {
        if self == RateUnit::Mebi { "MiB/s" } else { "MB/s" }
    }
}

/// How much of something a volume may do.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeLimit {
    /// What every volume has.
    pub with: f64,
    /// Of that, what costs nothing, where that is less.
    pub free: Option<f64>,
    /// Above a size in GiB a volume has so much instead.
    pub with_above: Option<[f64; 2]>,
    /// More with each GiB.
    #[serde(default)]
    pub grows_per_gib: f64,
    /// What grows comes on top of what every volume has; else the larger of both.
    #[serde(default)]
    pub adds: bool,
    /// The most that any volume has.
    pub most: f64,
    /// Can more be bought?
    #[serde(default)]
    pub sold: bool,
    /// At most so many for each GiB.
    pub per_gib: Option<f64>,
    /// At most so many for each operation a second.
    pub per_iops: Option<f64>,
}

/// What a volume may do until its credits are used up.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstRule {
    /// Operations a second meanwhile.
    pub iops: f64,
    /// Operations above the baseline that a full bucket has.
    pub credits: f64,
    /// Volumes below this size have it.
    pub below_gib: f64,
}

/// What a volume may move until its byte credits are used up, in the unit of its rates.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteBurstRule {
    /// A second meanwhile.
    #[serde(default)]
    pub rate: f64,
    /// More with each GiB.
    #[serde(default)]
    pub rate_per_gib: f64,
    /// At most so much a second.
    pub most: f64,
    /// Credits of a full bucket.
    #[serde(default)]
    pub credits: f64,
    /// More with each GiB.
    #[serde(default)]
    pub credits_per_gib: f64,
    /// Volumes below this size have it.
    pub below_gib: f64,
}

/// What a volume costs a month, or an hour of 1/730 month.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumePrice {
    /// `USD`.
    pub currency: String,
    /// The whole of it, where it has one size.
    pub month: Option<f64>,
    /// A GiB.
    pub gib_month: Option<f64>,
    /// An operation a second, up to a number each.
    pub iops_month: Option<Vec<[f64; 2]>>,
    /// A unit of the rate.
    pub rate_month: Option<f64>,
    /// A GiB an hour.
    pub gib_hour: Option<f64>,
    /// An operation a second, an hour.
    pub iops_hour: Option<f64>,
    /// A unit of the rate, an hour.
    pub rate_hour: Option<f64>,
}

/// What all volumes of an instance may do together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceCaps {
    /// `m6i.large`.
    pub id: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// For ever.
    pub baseline: InstanceCap,
    /// For 30 minutes at least once in 24 hours.
    pub most: Option<InstanceCap>,
    /// Day of the row.
    pub date: String,
    /// Where that is written.
    pub source: String,
}

/// Rates of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceCap {
    /// MB/s.
    pub mb_s: f64,
    /// Operations a second.
    pub iops: f64,
}

/// A price of hardware.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HardwarePrice {
    /// Of one drive or subsystem.
    pub each: Option<f64>,
    /// Of 10^12 bytes.
    pub per_tb: Option<f64>,
    /// `USD`.
    pub currency: String,
    /// Where it holds.
    pub region: String,
    /// Its day.
    pub date: String,
    /// Where that is written.
    pub source: String,
}

impl HardwarePrice {
    /// Of a drive of so many bytes.
    pub fn of(&self, bytes: f64) -> Option<f64> {
        self.each.or_else(|| self.per_tb.map(|price| price * bytes / 1e12))
    }
}

static BUILT_IN: LazyLock<Result<PriceList, Problems>> = LazyLock::new(|| {
    let mut all = PriceList::default();
    for (file, text) in FILES {
        all.extend(read(file, text)?);
    }
    Ok(all)
});

/// The built-in prices.
pub fn built_in() -> PriceList {
    // the tests read every file, so that a broken one is never shipped
    BUILT_IN.clone().unwrap_or_default()
}

/// Reads a file of prices; `file` is how errors name it.
///
/// # Errors
/// What is wrong, with its line: every key, or the first value that cannot be.
pub fn read(file: &str, text: &str) -> Result<PriceList, Problems> {
    let parsed: PriceList = toml_reader::read(file, text)?;
    parsed.check().map_err(|(item, message)| {
        // the row itself, and not where another names it
        let offset = text.find(&format!("id = \"{item}\"")).unwrap_or(0);
        Problems(vec![ProblemSource { file, text }.problem(offset, &item, message)])
    })?;
    Ok(parsed)
}

/// Days since 1970-01-01 of `2026-10-07`; `None` for anything else.
pub fn day_number(date: &str) -> Option<i64> {
    moment::day_in(date).filter(|day| moment::date_of(*day) == date)
}

/// True where a row is older than a year.
pub fn is_old(date: &str, today: &str) -> bool {
    match (day_number(date), day_number(today)) {
        (Some(date), Some(today)) => today - date > 365,
        _ => false,
    }
}
