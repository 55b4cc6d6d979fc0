//! Quantities whose changes of level are looked for (`change_quantities.toml`).

use std::sync::OnceLock;

use diskwright_base::toml_reader;
use serde::Deserialize;

/// What of a process may be the reason of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Activity {
    /// Bytes read and written.
    Disk,
    Processor,
    Any,
}

/// A quantity.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeQuantity {
    /// Id of the counter.
    pub counter: String,
    /// How texts call it.
    pub word: String,
    /// Smallest difference of two levels, in the unit of the counter.
    pub min_change: f64,
    pub activity: Activity,
}

impl ChangeQuantity {
    /// The object of the counter.
    pub fn object(&self) -> &str {
        self.counter.split_once('.').map_or("", |(object, _)| object)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuantityFile {
    quantity: Vec<ChangeQuantity>,
}

/// All quantities, the one that people feel most first.
pub(crate) fn change_quantities() -> &'static [ChangeQuantity] {
    static READ: OnceLock<Vec<ChangeQuantity>> = OnceLock::new();
    READ.get_or_init(|| {
        toml_reader::read_built_in::<QuantityFile>("change_quantities.toml", include_str!("change_quantities.toml"))
            .quantity
    })
}

#[cfg(test)]
mod tests {
    use diskwright_base::Catalogue;

    use super::*;

    #[test]
    fn every_quantity_is_a_counter_of_the_catalogue() {
        for quantity in change_quantities() {
            assert!(Catalogue::builtin().get(&quantity.counter).is_some(), "{}", quantity.counter);
            assert!(quantity.min_change > 0.0 && !quantity.word.is_empty(), "{}", quantity.counter);
        }
    }
}
