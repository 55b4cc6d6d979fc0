//! Tables of instances: the limits of a family in one line for each type.

use diskwright_base::cloud_volume::{CloudInstance, INSTANCE_BURST_S, RateCap};
use serde::Deserialize;

use super::{InstanceCap, InstanceCaps};

/// A type of instance: its name, then baseline and maximum of MB/s and IOPS (baseline MB/s, baseline IOPS, maximum
/// MB/s, maximum IOPS).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct InstanceRow(pub String, pub f64, pub f64, pub f64, pub f64);

/// Types of instances that share provider, date and source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceTable {
    /// `aws`, `azure`, `gcp`.
    pub provider: String,
    /// Reason not to trust the table.
    pub unconfirmed: Option<String>,
    /// Date of the table.
    pub date: String,
    /// Source of the table.
    pub source: String,
    /// The types.
    pub rows: Vec<InstanceRow>,
}

impl InstanceTable {
    /// Returns a row for each type.
    pub(super) fn expand(self) -> Vec<InstanceCaps> {
        let InstanceTable { provider, unconfirmed, date, source, rows } = self;
        let expand_row = |InstanceRow(id, mb_s, iops, max_mb_s, max_iops)| {
            let (baseline, most) = (InstanceCap { mb_s, iops }, InstanceCap { mb_s: max_mb_s, iops: max_iops });
            InstanceCaps {
                id,
                provider: provider.clone(),
                baseline,
                burst: (most != baseline).then_some(most),
                unconfirmed: unconfirmed.clone(),
                date: date.clone(),
                source: source.clone(),
            }
        };
        rows.into_iter().map(expand_row).collect()
    }
}

impl InstanceCaps {
    /// Returns the instance with its limits. It holds its highest rates for half an hour at least once in 24 hours, so
    /// a full bucket has as many credits. `told_by` is who told the type.
    pub fn cloud_instance(&self, told_by: &str) -> CloudInstance {
        let most = self.burst.unwrap_or(self.baseline);
        let cap =
            |baseline: f64, burst: f64| RateCap { baseline, burst, credits: (burst - baseline) * INSTANCE_BURST_S };
        CloudInstance {
            type_id: self.id.clone(),
            provider: self.provider.clone(),
            requests: Some(cap(self.baseline.iops, most.iops)),
            bytes: Some(cap(self.baseline.mb_s * 1e6, most.mb_s * 1e6)),
            told_by: told_by.into(),
            source: format!("{}, {}", self.source, self.date),
            unconfirmed: self.unconfirmed.clone(),
        }
    }
}
