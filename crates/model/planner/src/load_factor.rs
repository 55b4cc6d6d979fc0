//! Multiples of a demand: how much of it a design sustains, and what saturates first.

use diskwright_simulator::DeviceModel;

use crate::analysis::{DesignResponse, MEMBERS_PART, StorageDesign};
use crate::demand::Demand;

/// Maximum factor of the demand that is tried.
pub const MAX_LOAD_FACTOR: f64 = 65_536.0;

/// Multiple of the demand that a design can sustain; below 1 if it cannot keep up.
pub fn sustainable_factor(design: &StorageDesign<'_>, demand: &Demand) -> f64 {
    largest_factor(|factor| matches!(design.predict_response(&demand.scaled_by(factor)), Ok(Some(_))))
}

/// Returns the part that saturates first, at `sustainable` times the demand, from the utilizations at `factor` times
/// the demand: the part with the highest utilization. Arms are busy long before they saturate, because they get faster
/// as more requests wait. So they are only named if no other part is full then, each of which is used in proportion to
/// the load.
pub fn first_saturated_part(
    design: &StorageDesign<'_>,
    sustainable: f64,
    (factor, response): (f64, Option<&DesignResponse>),
) -> String {
    let parts = response.map_or(&[][..], |response| &response.utilization);
    let is_arm = matches!(design.part.device, DeviceModel::Mechanical(_));
    let first = match is_arm {
        true => parts.iter().find(|(name, share)| name != MEMBERS_PART && share * sustainable >= 0.98 * factor),
        false => parts.first(),
    };
    first.map_or(MEMBERS_PART, |part| &part.0).to_owned()
}

/// Returns the largest factor at which a condition holds, to half a percent; [`MAX_LOAD_FACTOR`] if it is larger.
pub fn largest_factor(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while holds(high) {
        if high >= MAX_LOAD_FACTOR {
            return MAX_LOAD_FACTOR;
        }
        (low, high) = (high, high * 2.0);
    }
    while high - low > 0.005 * high {
        let middle = 0.5 * (low + high);
        debug_assert!(low < middle && middle < high, "bisection narrows {low} to {high}");
        if holds(middle) {
            low = middle
        } else {
            high = middle
        }
        if high < 1e-6 {
            break;
        }
    }
    low.max(1e-9)
}
