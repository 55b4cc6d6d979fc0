//! What is provisioned of a volume and was never used, in money a month.
//!
//! What was used is the highest rate of a log. The bill of the volume is compared with that of the same volume with so
//! much as was used, but no less than comes with every volume of its size: the difference is what would be saved.

use serde::Serialize;

use super::bills::VolumeChoice;
use super::{PriceList, VolumeOffer};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// A volume as it is provisioned, and the highest rates that were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProvisionedVolume {
    /// Name of the disk.
    pub device: String,
    /// Id of its type.
    pub type_id: String,
    /// Size, bytes, where known.
    pub size_bytes: Option<f64>,
    /// Limit of requests per second.
    pub requests_per_s: f64,
    /// Limit of bytes per second.
    pub bytes_per_s: f64,
    /// Highest requests per second that were seen.
    pub max_requests_per_s: f64,
    /// Highest bytes per second that were seen.
    pub max_bytes_per_s: f64,
    /// Space in use, bytes, where known.
    pub used_bytes: Option<f64>,
}

/// What of a volume was never used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnusedProvision {
    /// Name of the disk.
    pub device: String,
    /// Id of its type.
    #[serde(rename = "type")]
    pub type_id: String,
    /// Limit of requests per second.
    pub requests_per_s: f64,
    /// Highest requests per second that were seen.
    pub max_requests_per_s: f64,
    /// Requests per second that can be given back: the limit beyond what was used and beyond what comes with every
    /// volume.
    pub unused_requests_per_s: f64,
    /// Limit of bytes per second.
    pub bytes_per_s: f64,
    /// Highest bytes per second that were seen.
    pub max_bytes_per_s: f64,
    /// Bytes per second that can be given back.
    pub unused_bytes_per_s: f64,
    /// Size, bytes; null where unknown.
    pub size_bytes: Option<f64>,
    /// Space in use, bytes; null where unknown.
    pub used_bytes: Option<f64>,
    /// What the volume costs a month, with capacity; null where its size or a price is not known.
    pub month: Option<f64>,
    /// What the unused requests and bytes per second cost a month; null where no price is known.
    pub unused_month: Option<f64>,
    /// What the unused capacity costs a month; null where it is not known. A volume cannot be made smaller: this is
    /// saved by a new, smaller one.
    pub unused_capacity_month: Option<f64>,
    /// Currency; null without a price.
    pub currency: Option<String>,
    /// Region of the price; null without a price.
    pub region: Option<String>,
    /// Date of the price; null without a price.
    pub price_date: Option<String>,
    /// Source of the price; null without a price.
    pub price_source: Option<String>,
    /// Why there is no price, or what to know of the figures.
    pub because: Option<String>,
}

impl PriceList {
    /// Compares what is provisioned of a volume with what was used.
    pub fn unused_provision(&self, volume: &ProvisionedVolume) -> UnusedProvision {
        let mut unused = UnusedProvision {
            device: volume.device.clone(),
            type_id: volume.type_id.clone(),
            requests_per_s: volume.requests_per_s,
            max_requests_per_s: volume.max_requests_per_s,
            unused_requests_per_s: (volume.requests_per_s - volume.max_requests_per_s).max(0.0),
            bytes_per_s: volume.bytes_per_s,
            max_bytes_per_s: volume.max_bytes_per_s,
            unused_bytes_per_s: (volume.bytes_per_s - volume.max_bytes_per_s).max(0.0),
            size_bytes: volume.size_bytes,
            used_bytes: volume.used_bytes,
            month: None,
            unused_month: None,
            unused_capacity_month: None,
            currency: None,
            region: None,
            price_date: None,
            price_source: None,
            because: None,
        };
        match self.volumes.iter().find(|offer| offer.id == volume.type_id) {
            Some(offer) => price_unused(offer, volume, &mut unused),
            None => unused.because = Some(format!("no price of {} is known; add one with --prices", volume.type_id)),
        }
        unused
    }
}

/// Fills in what can be given back, and what it costs.
fn price_unused(offer: &VolumeOffer, volume: &ProvisionedVolume, unused: &mut UnusedProvision) {
    let unit = offer.unit.bytes();
    let gib = volume.size_bytes.map_or(offer.gib[0], |bytes| bytes / GIB);
    let has = VolumeChoice { gib, iops: volume.requests_per_s, rate: volume.bytes_per_s / unit };
    // no volume has less than what comes with its size, which costs nothing
    let included_iops = offer.iops.free.map_or(offer.iops.included_value(gib), |_| offer.iops.base);
    let included_rate = offer.rate.free.map_or(offer.rate.included_value(gib), |_| offer.rate.base);
    let needed_rate = (volume.max_bytes_per_s / unit).max(included_rate);
    // a rate may need operations
    let iops_for_rate = offer.rate.per_iops.filter(|_| offer.rate.sold).map_or(0.0, |per| needed_rate / per);
    let needed_iops = volume.max_requests_per_s.max(included_iops).max(iops_for_rate);
    let needs = VolumeChoice { gib, iops: needed_iops.min(has.iops), rate: needed_rate.min(has.rate) };
    unused.unused_requests_per_s = if offer.iops.sold { has.iops - needs.iops } else { 0.0 };
    unused.unused_bytes_per_s = if offer.rate.sold { (has.rate - needs.rate) * unit } else { 0.0 };
    let (bill, lower) = (offer.monthly_bill(&has), offer.monthly_bill(&needs));
    let difference = |a: Option<f64>, b: Option<f64>| Some((a? - b?).max(0.0));
    let rates_month = difference(bill.iops, lower.iops).zip(difference(bill.rate, lower.rate));
    let sells_rates = offer.iops.sold || offer.rate.sold;
    unused.unused_month = rates_month.filter(|_| sells_rates).map(|(iops, rate)| iops + rate);
    if volume.size_bytes.is_some() {
        unused.month = bill.total();
        let used_gib = volume.used_bytes.map(|bytes| (bytes / GIB).max(offer.gib[0]).min(gib));
        let smaller = used_gib.map(|gib| offer.monthly_bill(&VolumeChoice { gib, ..has }).capacity);
        unused.unused_capacity_month =
            smaller.filter(|_| offer.gib[0] < offer.gib[1]).and_then(|smaller| difference(bill.capacity, smaller));
    }
    if unused.month.is_some() || unused.unused_month.is_some() {
        unused.currency = Some(offer.price.currency.clone());
        unused.region = Some(offer.region.clone());
        unused.price_date = Some(offer.date.clone());
        unused.price_source = Some(offer.source.clone());
    }
    unused.because = match (sells_rates, &offer.unverified) {
        (false, _) => Some(format!("{} sells no rates apart from the size: they go with it", offer.id)),
        (true, Some(doubt)) => Some(format!("the price is not confirmed: {doubt}")),
        (true, None) => None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::built_in_prices;

    fn volume(type_id: &str, gib: f64, provisioned: [f64; 2], seen: [f64; 2]) -> ProvisionedVolume {
        ProvisionedVolume {
            device: "sda".into(),
            type_id: type_id.into(),
            size_bytes: Some(gib * GIB),
            requests_per_s: provisioned[0],
            bytes_per_s: provisioned[1],
            max_requests_per_s: seen[0],
            max_bytes_per_s: seen[1],
            used_bytes: None,
        }
    }

    /// gp3: 0.005 USD for each of the 13,000 requests/s above the 3,000 that come with it, 0.04 USD for each of the 875
    /// MiB/s above 125 (price list of us-east-1).
    #[test]
    fn what_was_never_used_costs_its_price() {
        const MIB: f64 = 1_048_576.0;
        let idle = volume("aws-gp3", 500.0, [16_000.0, 1000.0 * MIB], [272.0, 10.0 * MIB]);
        let unused = built_in_prices().unused_provision(&idle);
        assert_eq!(unused.unused_requests_per_s, 13_000.0);
        assert_eq!(unused.unused_bytes_per_s, 875.0 * MIB);
        let month = unused.unused_month.unwrap();
        assert!((month - (13_000.0 * 0.005 + 875.0 * 0.04)).abs() < 1e-9, "{month}");
        assert!((unused.month.unwrap() - (500.0 * 0.08 + month)).abs() < 1e-9);
        assert_eq!(unused.currency.as_deref(), Some("USD"));
        // what comes with every volume cannot be given back
        let small = volume("aws-gp3", 500.0, [3000.0, 125.0 * MIB], [0.0, 0.0]);
        let unused = built_in_prices().unused_provision(&small);
        assert_eq!((unused.unused_requests_per_s, unused.unused_month), (0.0, Some(0.0)));
    }

    /// io2: 64,000 requests/s cost 32,000 x 0.065 + 32,000 x 0.0455 USD a month; with 40,000 used, 24,000 of the second
    /// tier are saved.
    #[test]
    fn tiers_are_taken_off_from_the_top() {
        let io2 = volume("aws-io2", 1000.0, [64_000.0, 4000.0 * 1_048_576.0], [40_000.0, 1e8]);
        let unused = built_in_prices().unused_provision(&io2);
        assert!((unused.unused_month.unwrap() - 24_000.0 * 0.0455).abs() < 1e-6, "{unused:?}");
    }

    #[test]
    fn unused_capacity_is_told_apart() {
        let gp3 = volume("aws-gp3", 500.0, [3000.0, 131_072_000.0], [2000.0, 1e8]);
        let unused = built_in_prices().unused_provision(&ProvisionedVolume { used_bytes: Some(100.0 * GIB), ..gp3 });
        assert!((unused.unused_capacity_month.unwrap() - 400.0 * 0.08).abs() < 1e-9);
    }

    #[test]
    fn a_missing_price_is_told_and_never_nothing() {
        let p30 = built_in_prices().unused_provision(&volume("azure-p30", 1024.0, [5000.0, 2e8], [10.0, 1e6]));
        assert_eq!(p30.month, None);
        assert!(p30.because.unwrap().contains("size"));
        let other = built_in_prices().unused_provision(&volume("azure-p60", 8192.0, [16_000.0, 5e8], [10.0, 1e6]));
        assert_eq!((other.month, other.unused_month, other.unused_requests_per_s), (None, None, 15_990.0));
        assert!(other.because.unwrap().contains("no price of azure-p60"));
    }
}
