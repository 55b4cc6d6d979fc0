//! Monthly cost of volumes, and the duration of their bursts.

use super::{VolumeLimit, VolumeOffer, VolumePrice};

/// Hours of a month, as clouds count.
pub const MONTH_HOURS: f64 = 730.0;

/// A volume with a size and speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeChoice {
    /// Size, GiB.
    pub gib: f64,
    /// Operations per second.
    pub iops: f64,
    /// Rate per second, in the offer's unit.
    pub rate: f64,
}

/// A monthly bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonthlyBill {
    /// Capacity.
    pub capacity: Option<f64>,
    /// Operations per second beyond those included.
    pub iops: Option<f64>,
    /// Rate beyond that included.
    pub rate: Option<f64>,
}

impl MonthlyBill {
    /// Total; `None` if any part of it is unknown.
    pub fn total(&self) -> Option<f64> {
        Some(self.capacity? + self.iops? + self.rate?)
    }
}

/// Size from which a volume has the maximum of a limit.
fn max_reached_from_gib(limit: &VolumeLimit) -> f64 {
    let base = if limit.adds { limit.base } else { 0.0 };
    let grown = match (limit.sold, limit.per_gib, limit.grows_per_gib) {
        (true, Some(per_gib), _) if per_gib > 0.0 => limit.max / per_gib,
        (false, _, grows) if grows > 0.0 => (limit.max - base) / grows,
        _ => 0.0,
    };
    // above a size, not from it on
    limit.with_above.map_or(grown, |[above, _]| grown.max(above + 1.0))
}

/// Part of a value that is paid for in addition to the size.
fn paid_value(limit: &VolumeLimit, gib: f64, value: f64) -> f64 {
    (value - limit.free.unwrap_or(limit.included_value(gib))).max(0.0)
}

impl VolumeOffer {
    /// Chooses the cheapest volume with at least this much of each; `None` if none can have it.
    pub fn choose_volume(&self, gib: f64, iops: f64, rate: f64) -> Option<VolumeChoice> {
        let (iops_limit, rate_limit) = (&self.iops, &self.rate);
        // a rate may need operations, and operations may need capacity
        let iops = rate_limit.per_iops.filter(|_| rate_limit.sold).map_or(iops, |per| iops.max(rate / per));
        let mut gib = gib.max(self.gib[0]);
        for (limit, needed) in [(iops_limit, iops), (rate_limit, rate)] {
            let per_gib = if limit.sold { limit.per_gib.unwrap_or(0.0) } else { limit.grows_per_gib };
            if limit.included_value(gib) < needed && per_gib > 0.0 {
                let base = if limit.adds { limit.base } else { 0.0 };
                gib = gib.max((needed - base) / per_gib);
            }
            if let Some([above, base_above]) =
                limit.with_above.filter(|[_, value]| limit.included_value(gib) < needed && *value >= needed)
            {
                debug_assert!(base_above > 0.0);
                gib = gib.max(above + 1.0);
            }
        }
        let gib = gib.ceil();
        let choice = VolumeChoice {
            gib,
            iops: if iops_limit.sold { iops.max(iops_limit.base).ceil() } else { iops_limit.included_value(gib) },
            rate: if rate_limit.sold { rate.max(rate_limit.base).ceil() } else { rate_limit.included_value(gib) },
        };
        let is_possible = gib <= self.gib[1]
            && choice.iops >= iops
            && choice.rate >= rate
            && choice.iops <= iops_limit.max_value(gib)
            && choice.rate <= rate_limit.max_value(gib);
        is_possible.then_some(choice)
    }

    /// The smallest size, of at least this much, at which a volume has its maximum speed.
    pub fn fastest_gib(&self, gib: f64) -> f64 {
        let fast = max_reached_from_gib(&self.iops).max(max_reached_from_gib(&self.rate)).ceil();
        gib.max(fast.min(self.gib[1]))
    }

    /// Returns the monthly bill.
    pub fn monthly_bill(&self, choice: &VolumeChoice) -> MonthlyBill {
        let price = &self.price;
        if self.gib[0] == self.gib[1] {
            return MonthlyBill { capacity: price.month, iops: Some(0.0), rate: Some(0.0) };
        }
        let iops = paid_value(&self.iops, choice.gib, choice.iops);
        let rate = if self.rate.sold { paid_value(&self.rate, choice.gib, choice.rate) } else { 0.0 };
        let bill = |units: f64, unit_price: Option<f64>| match units > 0.0 {
            true => unit_price.map(|price| price * units),
            false => Some(0.0),
        };
        MonthlyBill {
            capacity: bill(choice.gib, price.gib_month.or(price.gib_hour.map(|hour| hour * MONTH_HOURS))),
            iops: if self.iops.sold { price.iops_bill(iops) } else { Some(0.0) },
            rate: bill(rate, price.rate_month.or(price.rate_hour.map(|hour| hour * MONTH_HOURS))),
        }
    }
}

impl VolumePrice {
    /// Bill for operations per second by tiers: each part at the price of its tier.
    fn iops_bill(&self, iops: f64) -> Option<f64> {
        if iops <= 0.0 {
            return Some(0.0);
        }
        if let Some(hour) = self.iops_hour {
            return Some(iops * hour * MONTH_HOURS);
        }
        let (mut sum, mut from) = (0.0, 0.0);
        for [limit, price] in self.iops_month.as_ref()? {
            sum += (iops.min(*limit) - from).max(0.0) * price;
            from = *limit;
        }
        (iops <= from).then_some(sum)
    }
}

/// Transactions of an on-demand burst (Azure): the operations above the disk's own limit, or the bytes above it in
/// pieces of 256 KiB, whichever is more, times the seconds.
pub fn burst_transactions(iops_above: f64, mib_s_above: f64, seconds: f64) -> f64 {
    iops_above.max(mib_s_above * 1024.0 / 256.0) * seconds
}

/// Units of 10,000 transactions that are billed.
pub fn burst_units(transactions: f64) -> f64 {
    (transactions / 10_000.0).ceil()
}
