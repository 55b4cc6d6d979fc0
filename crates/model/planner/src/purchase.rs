//! Purchases of a design, item by item.

use serde::Serialize;

use crate::controller_path::DesignPath;
use crate::design_part::DesignPart;

/// Several equal items of a design.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoughtItem {
    /// Id of a drive, volume or controller.
    pub item: String,
    /// Number of items.
    pub count: u32,
    /// Price of all of them; `None` if unknown.
    pub price: Option<f64>,
}

/// Lists drives or volumes, and the controllers in front of them.
pub fn list_purchases(
    part: &DesignPart,
    drives: u16,
    path: Option<&DesignPath<'_>>,
    currency: &str,
) -> Vec<BoughtItem> {
    let mut items = Vec::new();
    if drives > 0 {
        let price = part.price.as_ref().map(|price| price.amount * f64::from(drives));
        items.push(BoughtItem { item: part.id.clone(), count: drives.into(), price });
    }
    if let Some(path) = path {
        let price = path.offer.price.as_ref().filter(|price| price.currency == currency).and_then(|price| price.each);
        let price = price.map(|each| each * f64::from(path.controllers));
        items.push(BoughtItem { item: path.offer.id.clone(), count: path.controllers.into(), price });
    }
    items
}
