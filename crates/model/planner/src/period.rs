//! How often a price is paid.

use serde::Serialize;

/// How often a price is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PricePeriod {
    /// When it is bought.
    #[default]
    Once,
    /// Every month.
    Month,
}
