//! Judged designs, and the limits at which they fail.

use diskwright_simulator::ArrayLevel;
use serde::Serialize;

use crate::analysis::DesignResponse;
use crate::controller_path::JudgedPath;
use crate::simulation::SimulatedResponse;

/// Name of the response limit.
pub const RESPONSE_LIMIT: &str = "response";

/// Requirement that determines the size of a design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizedBy {
    /// Fewer members would not hold the data.
    #[default]
    Capacity,
    /// Fewer would respond too late.
    Response,
    /// Fewer could not keep up.
    Load,
    /// Fewer would have too many requests in flight each.
    Queue,
    /// The level has no fewer members.
    Level,
    /// A volume is as large and fast as needed.
    Offer,
}

/// A design that was judged.
#[derive(Clone, Debug)]
pub struct JudgedDesign {
    /// Index of its part.
    pub part_index: usize,
    /// Level.
    pub level: ArrayLevel,
    /// Members.
    pub count: u16,
    /// Spares.
    pub spares: u16,
    /// Stripe unit, bytes.
    pub unit_bytes: u64,
    /// Controllers in front of it; `None` for ports that limit nothing.
    pub path: Option<JudgedPath>,
    /// Predicted behaviour; `None` if it cannot keep up or was not analysed.
    pub response: Option<DesignResponse>,
    /// Price, once or per month.
    pub price: Option<f64>,
    /// Known part of the price.
    pub known_price: f64,
    /// Number of purchased items without a known price.
    pub unknown_prices: usize,
    /// Cost over the mission.
    pub cost: Option<f64>,
    /// Requirement that determined its size.
    pub sized_by: SizedBy,
    /// Simulated behaviour; `None` if it was not simulated.
    pub simulated: Option<SimulatedResponse>,
    /// Its failure; `None` if it meets everything.
    pub failure: Option<DesignFailure>,
}

impl JudgedDesign {
    /// True if the designs differ only in the number of members and of spares.
    pub fn is_same_family(&self, other: &JudgedDesign) -> bool {
        let key = |design: &JudgedDesign| (design.part_index, design.level, design.unit_bytes);
        key(self) == key(other) && self.path == other.path
    }

    /// True if both consist of the same parts in the same way.
    pub fn is_same_design(&self, other: &JudgedDesign) -> bool {
        self.is_same_family(other) && (self.count, self.spares) == (other.count, other.spares)
    }
}

/// Failure of a design.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignFailure {
    /// The limit: `capacity`, `response`, a part, `budget`.
    pub limit: String,
    /// As a sentence.
    pub reason: String,
    /// Needed amount divided by the available one, above 1.
    pub factor: f64,
}

/// All judged designs.
#[derive(Clone, Debug, Default)]
pub struct SearchOutcome {
    /// The smallest design of each family that meets the demand, and larger ones for the frontier.
    pub feasible: Vec<JudgedDesign>,
    /// The largest design of each family that holds the data and fails, or the nearest.
    pub failing: Vec<JudgedDesign>,
    /// Number of designs that were judged.
    pub searched: u64,
    /// Parts that could not be solved, each once.
    pub unsolved: Vec<String>,
}
