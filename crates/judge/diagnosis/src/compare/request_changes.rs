//! Load and response time in both windows, of one disk or of all together.

use serde::Serialize;

use super::answer_quantities::{AnswerQuantities, QuantityChange};
use super::equal_load::EqualLoad;

/// Load and response time of a disk, or of all disks together; of links only the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestChanges {
    /// Requests, or bytes of links.
    pub load: Option<QuantityChange>,
    /// Sizes of the requests and the share of reads among them.
    pub mix: Vec<QuantityChange>,
    /// Response time of the requests.
    pub response: Option<QuantityChange>,
    /// Response time at equal load; `null` where it cannot be compared.
    pub equal_load: Option<EqualLoad>,
    /// Reason why it cannot be compared; `null` where it can, or where the answer does not depend on disks.
    pub equal_load_missing: Option<String>,
}

impl RequestChanges {
    /// Takes over the quantities, and the response time at equal load or the reason why there is none.
    pub(super) fn new(
        quantities: AnswerQuantities,
        (equal_load, equal_load_missing): (Option<EqualLoad>, Option<String>),
    ) -> RequestChanges {
        let AnswerQuantities { load, mix, response, .. } = quantities;
        RequestChanges { load, mix, response, equal_load, equal_load_missing }
    }

    /// The response time of the second window over that of the first at equal load, where it can be compared.
    pub(super) fn ratio_at_equal_load(&self) -> Option<f64> {
        self.equal_load.as_ref().map(|equal| equal.ratio)
    }
}
