//! Formulas of the literature about arms, stripes and failures. Each has its source, a worked example, and a test that
//! does not depend on the formula.

mod arms;
mod failures;
mod stripes;

pub use arms::{farthest_arm, nearest_arm, rotational_latency_s, slowest_rotation};
pub use failures::{FailureRates, mttdl, unreadable_probability};
pub use stripes::{stripe_unit_bytes, stripe_unit_without_knowledge_bytes};
