//! Payment period of a price.

use serde::Serialize;

/// Payment period of a price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PricePeriod {
    /// At the purchase.
    #[default]
    Once,
    /// Every month.
    Month,
}
