//! Volumes and instances of clouds: which limits a provider sets for them.
//!
//! A [`VolumeType`] says what a provider promises of a type of volume, depending on its size. A [`CloudVolume`] is one
//! volume with its limits; it is part of a [`Topology`](crate::Topology), so that a log keeps it.

mod volume_type;

use serde::{Deserialize, Serialize};

pub use volume_type::{BurstRule, ByteBurstRule, RateUnit, VolumeFacts, VolumeLimit, VolumeType};

/// Seconds for which an instance holds its highest rates, at least once in 24 hours (AWS EC2 user guide,
/// ebs-optimized.md; Azure, disk-bursting.md).
pub const INSTANCE_BURST_S: f64 = 1800.0;

/// Largest request that counts as one operation at most volumes, bytes (AWS EC2 user guide, ebs-io-characteristics.md;
/// Azure, disks-types.md).
pub const REQUEST_BYTES: u64 = 262_144;

/// A limit of a rate: a token bucket that fills at the baseline and is drawn from at the rate of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateCap {
    /// Rate that is always allowed, per second.
    pub baseline: f64,
    /// Rate that is allowed while there are credits, per second; the baseline if there are none.
    pub burst: f64,
    /// Credits of a full bucket: requests or bytes above the baseline. 0 for a limit without credits.
    pub credits: f64,
}

impl RateCap {
    /// A limit without bursts.
    pub fn constant_rate(rate: f64) -> RateCap {
        RateCap { baseline: rate, burst: rate, credits: 0.0 }
    }

    /// True if requests beyond the baseline are paid with credits.
    pub fn has_credits(&self) -> bool {
        self.credits > 0.0
    }

    /// True for values that a limit can have: a log from elsewhere may hold anything.
    pub fn is_possible(&self) -> bool {
        let is_rate = |rate: f64| rate > 0.0 && rate.is_finite();
        is_rate(self.baseline)
            && is_rate(self.burst)
            && self.burst >= self.baseline
            && self.credits >= 0.0
            && self.credits.is_finite()
    }
}

/// A volume of a cloud, with its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CloudVolume {
    /// Id of its type: `aws-gp3`.
    #[serde(rename = "type")]
    pub type_id: String,
    /// Full name of its type.
    pub name: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Size, bytes, where its limits depend on it or where it was told.
    pub size_bytes: Option<u64>,
    /// Limit of requests per second.
    pub requests: RateCap,
    /// Limit of bytes per second.
    pub bytes: RateCap,
    /// Largest request that counts as one, bytes; a larger one counts as several.
    pub request_bytes: u64,
    /// Requests that a write counts for, relative to a read.
    pub write_cost: f64,
    /// Who told the type: an option, or the cloud's metadata.
    pub told_by: String,
    /// Source of the limits, with its date.
    pub source: String,
    /// Reason not to trust the limits, where there is one.
    pub unconfirmed: Option<String>,
}

impl CloudVolume {
    /// True for limits that a volume can have.
    pub fn is_possible(&self) -> bool {
        let has_valid_cost = self.write_cost > 0.0 && self.write_cost <= 1000.0;
        self.requests.is_possible() && self.bytes.is_possible() && self.request_bytes > 0 && has_valid_cost
    }
}

/// The limits of an instance for all its volumes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CloudInstance {
    /// Its type: `m6i.large`, `Standard_D8s_v5`, `n2-standard-8`.
    #[serde(rename = "type")]
    pub type_id: String,
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Limit of requests per second; `None` where the type is not in our table.
    pub requests: Option<RateCap>,
    /// Limit of bytes per second; `None` where the type is not in our table.
    pub bytes: Option<RateCap>,
    /// Who told the type.
    pub told_by: String,
    /// Source of the limits, with its date; empty without limits.
    pub source: String,
    /// Reason not to trust the limits, where there is one.
    pub unconfirmed: Option<String>,
}

impl CloudInstance {
    /// Returns both limits, if they are known and possible.
    pub fn caps(&self) -> Option<[RateCap; 2]> {
        let caps = [self.requests?, self.bytes?];
        caps.iter().all(RateCap::is_possible).then_some(caps)
    }
}

/// Requests per second as a provider counts them. The mean size stands for all requests, so that a mix of sizes is
/// counted somewhat too low; the kernel splits most requests that are larger.
pub fn counted_requests(requests_per_s: f64, bytes_per_s: f64, request_bytes: f64) -> f64 {
    // written as a comparison because `max` would replace a NaN
    let by_bytes = bytes_per_s / request_bytes;
    if by_bytes > requests_per_s { by_bytes } else { requests_per_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_count_as_several() {
        // AWS EC2 user guide, ebs-io-characteristics.md: a request of 1,024 KiB counts as 1,024 / 256 = 4
        assert_eq!(counted_requests(1.0, 1_048_576.0, REQUEST_BYTES as f64), 4.0);
        assert_eq!(counted_requests(100.0, 100.0 * 8192.0, REQUEST_BYTES as f64), 100.0);
        assert!(counted_requests(f64::NAN, 5.0, 262_144.0).is_nan());
    }

    #[test]
    fn impossible_limits_of_a_log_are_recognized() {
        let good = RateCap { baseline: 300.0, burst: 3000.0, credits: 5.4e6 };
        assert!(good.is_possible() && good.has_credits() && !RateCap::constant_rate(5.0).has_credits());
        let bad = [
            RateCap { baseline: 0.0, ..good },
            RateCap { baseline: f64::NAN, ..good },
            RateCap { burst: 200.0, ..good },
            RateCap { burst: f64::INFINITY, ..good },
            RateCap { credits: -1.0, ..good },
        ];
        assert!(bad.iter().all(|cap| !cap.is_possible()));
        let volume =
            CloudVolume { requests: good, bytes: good, request_bytes: 1, write_cost: 1.0, ..CloudVolume::default() };
        assert!(volume.is_possible());
        assert!(!CloudVolume { request_bytes: 0, ..volume.clone() }.is_possible());
        assert!(!CloudVolume { write_cost: f64::NAN, ..volume }.is_possible());
        let instance = CloudInstance { requests: Some(good), bytes: None, ..CloudInstance::default() };
        assert_eq!(instance.caps(), None);
        assert_eq!(CloudInstance { bytes: Some(good), ..instance }.caps(), Some([good, good]));
    }
}
