//! A system solved in microseconds, where the simulation needs seconds: mean
//! times of devices in closed form, and mean value analysis over them.

mod mechanical;
mod served;

pub use mechanical::{Asked, mechanical};
pub use served::{Cost, DEPTHS, Depths, Served, at_depth};
