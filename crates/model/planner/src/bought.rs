//! What a design has to be paid for, item by item.

use serde::Serialize;

use crate::parts::DesignPart;
use crate::paths::DesignPath;

/// Some equal things of a design.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoughtItem {
    /// Id of a drive, volume or controller.
    pub item: String,
    /// How many are bought.
    pub count: u32,
    /// What all of them cost; `None` where it is not known.
    pub price: Option<f64>,
}

/// So many drives or volumes, and the controllers before them.
pub fn bought(part: &DesignPart, drives: u16, path: Option<&DesignPath<'_>>, currency: &str) -> Vec<BoughtItem> {
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
