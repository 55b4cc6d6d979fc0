//! Designs that were judged, and where they fail.

use diskwright_simulator::ArrayLevel;

use crate::analysis::DesignResponse;
use crate::paths::JudgedPath;
use crate::simulated::SimulatedResponse;

/// What the response limit is called where it binds.
pub const RESPONSE: &str = "response";
/// What makes a design as large as it is, where fewer hold the data and cannot keep up.
pub(crate) const LOAD: &str = "load";

/// A design that was judged.
#[derive(Clone, Debug)]
pub struct JudgedDesign {
    /// Position of its part.
    pub part: usize,
    /// Level.
    pub level: ArrayLevel,
    /// Members.
    pub count: u16,
    /// Spares.
    pub spares: u16,
    /// Stripe unit, bytes.
    pub unit_bytes: u64,
    /// Controllers before it; `None` for ports that limit nothing.
    pub path: Option<JudgedPath>,
    /// What it does; `None` where it cannot keep up or was not looked at.
    pub response: Option<DesignResponse>,
    /// Price, once or a month.
    pub price: Option<f64>,
    /// What of the price is known.
    pub known_price: f64,
    /// How many sorts of what is bought have no known price.
    pub unknown_prices: usize,
    /// What it costs over the mission.
    pub cost: Option<f64>,
    /// What made it as large as it is.
    pub sized_by: &'static str,
    /// What the simulation says of it; `None` where it was not simulated.
    pub simulated: Option<SimulatedResponse>,
    /// Where it fails; `None` where it meets everything.
    pub failure: Option<DesignFailure>,
}

impl JudgedDesign {
    /// Whether it differs in number and spares alone.
    pub fn is_alike(&self, other: &JudgedDesign) -> bool {
        let of = |design: &JudgedDesign| (design.part, design.level, design.unit_bytes);
        of(self) == of(other) && self.path == other.path
    }

    /// Whether it is made of the same in the same way.
    pub fn is_same(&self, other: &JudgedDesign) -> bool {
        self.is_alike(other) && (self.count, self.spares) == (other.count, other.spares)
    }
}

/// Where a design fails.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignFailure {
    /// At what: `capacity`, `response`, a part, `budget`.
    pub limit: String,
    /// As a sentence.
    pub because: String,
    /// How far: what is needed over what there is, above 1.
    pub factor: f64,
}

/// All that were judged.
#[derive(Clone, Debug, Default)]
pub struct SearchOutcome {
    /// Of each family the least design that meets the demand, and larger ones for the frontier.
    pub feasible: Vec<JudgedDesign>,
    /// Of each family the largest that still fails though it holds the data, or the nearest.
    pub failing: Vec<JudgedDesign>,
    /// How many designs were judged.
    pub searched: u64,
    /// What could not be solved, each once.
    pub unsolved: Vec<String>,
}
