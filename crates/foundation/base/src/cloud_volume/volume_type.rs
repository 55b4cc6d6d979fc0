//! What a provider promises of a type of volume, depending on its size.

use serde::{Deserialize, Serialize};

use super::{CloudVolume, REQUEST_BYTES, RateCap};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// Unit of a volume's rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl VolumeLimit {
    /// Value that a volume of a size has without paying for more.
    pub fn included_value(&self, gib: f64) -> f64 {
        let base = self.with_above.filter(|[above, _]| gib > *above).map_or(self.base, |[_, base_above]| base_above);
        let grown = self.grows_per_gib * gib;
        (if self.adds { base + grown } else { base.max(grown) }).min(self.max)
    }

    /// Maximum that a volume of a size can have.
    pub fn max_value(&self, gib: f64) -> f64 {
        if !self.sold {
            return self.included_value(gib);
        }
        let ratio = self.per_gib.map_or(f64::INFINITY, |per_gib| per_gib * gib);
        self.max.min(ratio).max(self.included_value(gib))
    }

    /// True if what is included depends on the size.
    fn depends_on_size(&self) -> bool {
        self.grows_per_gib > 0.0 || self.with_above.is_some()
    }

    /// True if all of it is bought, so that what a volume has is known only to its owner.
    fn is_all_bought(&self) -> bool {
        self.sold && self.free == Some(0.0)
    }
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

impl BurstRule {
    /// Seconds that a full bucket lasts at the full burst above a baseline; infinite if the baseline is no lower (AWS
    /// EC2 user guide: credits / (burst - 3 GiB)).
    pub fn burst_seconds(&self, baseline_iops: f64) -> f64 {
        let drain = self.iops - baseline_iops;
        if drain > 0.0 { self.credits / drain } else { f64::INFINITY }
    }
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

fn default_request_bytes() -> u64 {
    REQUEST_BYTES
}

fn default_write_cost() -> f64 {
    1.0
}

/// What a provider promises of a type of volume.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeType {
    /// Id: `aws-gp3`.
    pub id: String,
    /// Full name.
    pub name: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Other names: those of the provider's tools and metadata.
    #[serde(default)]
    pub also: Vec<String>,
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
    /// Largest request that counts as one, bytes.
    #[serde(default = "default_request_bytes")]
    pub request_bytes: u64,
    /// Requests that a write counts for, relative to a read.
    #[serde(default = "default_write_cost")]
    pub write_cost: f64,
    /// Reason not to trust its limits.
    pub unconfirmed: Option<String>,
    /// Date of the limits, `2026-10-07`.
    pub date: String,
    /// Source of the limits.
    pub source: String,
}

/// What is known of one volume, apart from its type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VolumeFacts {
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Operations per second that were bought.
    pub iops: Option<f64>,
    /// Rate that was bought, in the unit of the type.
    pub rate: Option<f64>,
}

impl VolumeType {
    /// True if this is one of its names: the id with its provider (`aws-gp3`) or without (`gp3`), or another one, in
    /// any case.
    pub fn has_name(&self, name: &str) -> bool {
        let short_id = self.id.split_once('-').map_or("", |(_, rest)| rest);
        [self.id.as_str(), short_id]
            .into_iter()
            .chain(self.also.iter().map(String::as_str))
            .any(|known| !known.is_empty() && known.eq_ignore_ascii_case(name))
    }

    /// True if its limits are known only with the size.
    pub fn needs_size(&self) -> bool {
        self.gib[0] < self.gib[1]
            && (self.iops.depends_on_size()
                || self.rate.depends_on_size()
                || self.burst.is_some()
                || self.byte_burst.is_some())
    }

    /// Returns the limits of operations and of bytes per second of a volume of a size, with what was bought in addition
    /// (the rate in its unit).
    pub fn caps(&self, gib: f64, iops: Option<f64>, rate: Option<f64>) -> [RateCap; 2] {
        let unit = self.unit.bytes();
        let baseline = iops.map_or(self.iops.included_value(gib), |iops| iops.min(self.iops.max_value(gib)));
        let bytes = rate.map_or(self.rate.included_value(gib), |rate| rate.min(self.rate.max_value(gib))) * unit;
        let burst = self.burst.filter(|rule| gib < rule.below_gib && rule.iops > baseline);
        let byte_burst = self.byte_burst.filter(|rule| gib < rule.below_gib);
        let max_rate =
            byte_burst.map_or(bytes, |rule| ((rule.rate + rule.rate_per_gib * gib) * unit).min(rule.max * unit));
        let byte_burst = byte_burst.filter(|_| max_rate > bytes);
        [
            RateCap {
                baseline,
                burst: burst.map_or(baseline, |rule| rule.iops),
                credits: burst.map_or(0.0, |rule| rule.credits),
            },
            RateCap {
                baseline: bytes,
                burst: byte_burst.map_or(bytes, |_| max_rate),
                credits: byte_burst.map_or(0.0, |rule| (rule.credits + rule.credits_per_gib * gib) * unit),
            },
        ]
    }

    /// Returns one volume of this type with its limits. `told_by` is who told the type.
    ///
    /// # Errors
    /// When the limits depend on something that is not known, or when a volume of this type cannot have the size, the
    /// operations or the rate.
    pub fn provision(&self, facts: &VolumeFacts, told_by: &str) -> Result<CloudVolume, String> {
        let [min_gib, max_gib] = self.gib;
        let size_bytes = facts.size_bytes.or((min_gib == max_gib).then_some((min_gib * GIB) as u64));
        let gib = match size_bytes.map(|bytes| bytes as f64 / GIB) {
            // kernels and tools round a size in different ways
            Some(gib) if gib < min_gib * 0.9 && min_gib < max_gib || gib > max_gib * 1.01 => {
                return Err(format!("{} has {min_gib:.0} to {max_gib:.0} GiB, not {gib:.0}", self.id));
            }
            Some(gib) => gib,
            None if self.needs_size() => {
                return Err(format!("the limits of {} depend on its size: write {}:SIZE", self.id, self.id));
            }
            None => max_gib,
        };
        self.check_bought("operations per second", "IOPS", &self.iops, facts.iops, gib)?;
        self.check_bought(self.unit.name(), "rate", &self.rate, facts.rate, gib)?;
        let [requests, bytes] = self.caps(gib, facts.iops, facts.rate);
        Ok(CloudVolume {
            type_id: self.id.clone(),
            name: self.name.clone(),
            provider: self.provider.clone(),
            size_bytes,
            requests,
            bytes,
            request_bytes: self.request_bytes,
            write_cost: self.write_cost,
            told_by: told_by.into(),
            source: format!("{}, {}", self.source, self.date),
            unconfirmed: self.unconfirmed.clone(),
        })
    }

    /// Checks what was bought of a limit.
    fn check_bought(
        &self,
        unit: &str,
        word: &str,
        limit: &VolumeLimit,
        bought: Option<f64>,
        gib: f64,
    ) -> Result<(), String> {
        let max_value = limit.max_value(gib);
        match bought {
            None if limit.is_all_bought() => {
                Err(format!("{} has the {word} that were bought for it: write {}:SIZE:IOPS:RATE", self.id, self.id))
            }
            Some(_) if !limit.sold => Err(format!("{} sells no {word}: its size decides", self.id)),
            Some(value) if !(value > 0.0 && value <= max_value) => {
                Err(format!("{} has at most {max_value:.0} {unit} at this size, not {value:.0}", self.id))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(base: f64, max: f64) -> VolumeLimit {
        VolumeLimit {
            base,
            free: None,
            with_above: None,
            grows_per_gib: 0.0,
            adds: false,
            max,
            sold: false,
            per_gib: None,
            per_iops: None,
        }
    }

    fn gp2() -> VolumeType {
        VolumeType {
            id: "aws-gp2".into(),
            name: "AWS EBS gp2".into(),
            provider: "aws".into(),
            also: vec!["general purpose".into()],
            gib: [1.0, 16_384.0],
            unit: RateUnit::Mebi,
            iops: VolumeLimit { grows_per_gib: 3.0, ..limit(100.0, 16_000.0) },
            rate: VolumeLimit { with_above: Some([170.0, 250.0]), ..limit(128.0, 250.0) },
            burst: Some(BurstRule { iops: 3000.0, credits: 5.4e6, below_gib: 1000.0 }),
            byte_burst: None,
            request_bytes: REQUEST_BYTES,
            write_cost: 1.0,
            unconfirmed: None,
            date: "2026-10-07".into(),
            source: "AWS EC2 user guide, general-purpose.md".into(),
        }
    }

    fn sized(gib: f64) -> VolumeFacts {
        VolumeFacts { size_bytes: Some((gib * GIB) as u64), ..VolumeFacts::default() }
    }

    /// The published table: 100 GiB has 300 IOPS and bursts for 2,000 s; from 1,000 GiB on there is no burst.
    #[test]
    fn limits_follow_the_size() {
        let volume = gp2().provision(&sized(100.0), "--volume-type").unwrap();
        assert_eq!(volume.requests, RateCap { baseline: 300.0, burst: 3000.0, credits: 5.4e6 });
        assert_eq!(volume.requests.credits / (volume.requests.burst - volume.requests.baseline), 2000.0);
        assert_eq!(volume.bytes, RateCap::constant_rate(128.0 * 1_048_576.0));
        assert_eq!(gp2().provision(&sized(1000.0), "x").unwrap().requests, RateCap::constant_rate(3000.0));
        assert_eq!(gp2().provision(&sized(5334.0), "x").unwrap().requests.baseline, 16_000.0);
        assert_eq!((volume.told_by.as_str(), volume.size_bytes), ("--volume-type", Some(107_374_182_400)));
        assert!(volume.is_possible());
    }

    #[test]
    fn what_is_missing_or_impossible_is_told() {
        let refuse = |kind: &VolumeType, facts: &VolumeFacts| kind.provision(facts, "x").unwrap_err();
        assert!(refuse(&gp2(), &VolumeFacts::default()).contains("write aws-gp2:SIZE"));
        assert!(refuse(&gp2(), &sized(20_000.0)).contains("1 to 16384 GiB, not 20000"));
        assert!(refuse(&gp2(), &VolumeFacts { iops: Some(500.0), ..sized(10.0) }).contains("sells no IOPS"));
        let sold = VolumeLimit { sold: true, free: Some(0.0), per_gib: Some(500.0), ..limit(100.0, 64_000.0) };
        let io1 = VolumeType { iops: sold, burst: None, rate: limit(500.0, 500.0), ..gp2() };
        assert!(refuse(&io1, &sized(10.0)).contains("were bought"));
        let bought = VolumeFacts { iops: Some(5000.0), ..sized(10.0) };
        assert_eq!(io1.provision(&bought, "x").unwrap().requests, RateCap::constant_rate(5000.0));
        assert!(refuse(&io1, &VolumeFacts { iops: Some(5001.0), ..sized(10.0) }).contains("at most 5000"));
        assert!(refuse(&io1, &VolumeFacts { iops: Some(f64::NAN), ..sized(10.0) }).contains("at most"));
    }

    #[test]
    fn bytes_burst_with_credits_of_their_own() {
        // AWS EC2 user guide, hdd-vols.md: 500 GiB of st1 have 20 MiB/s, burst to 125 MiB/s, with 0.5 TiB of credits
        let byte_burst = ByteBurstRule {
            rate: 0.0,
            rate_per_gib: 0.244140625,
            max: 500.0,
            credits: 0.0,
            credits_per_gib: 1024.0,
            below_gib: 16_385.0,
        };
        let rate = VolumeLimit { grows_per_gib: 0.0390625, ..limit(0.0, 500.0) };
        let st1 = VolumeType { rate, iops: limit(500.0, 500.0), burst: None, byte_burst: Some(byte_burst), ..gp2() };
        let [_, bytes] = st1.caps(512.0, None, None);
        assert_eq!(bytes, RateCap { baseline: 20.0 * 1_048_576.0, burst: 125.0 * 1_048_576.0, credits: 512.0 * GIB });
    }

    #[test]
    fn a_type_is_found_by_each_of_its_names() {
        assert!(["aws-gp2", "GP2", "General Purpose"].iter().all(|name| gp2().has_name(name)));
        assert!(!gp2().has_name("gp3") && !gp2().has_name(""));
    }
}
