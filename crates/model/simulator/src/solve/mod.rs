//! Queues in closed form and by mean value analysis: microseconds where a simulation takes seconds. Times are seconds,
//! rates per second; a queue without a steady state (an open queue at or beyond its capacity) gives `None`.

mod closed;
mod fork_join;
mod open;

pub use closed::{
    ClosedNetwork, MvaCenter, NetworkSolution, machine_repairman, solve_exact, solve_schweitzer, throughput_bounds,
};
pub use fork_join::{fork_join, fork_join_empty, fork_join_two, fork_join_two_closed, harmonic_number};
pub use open::{QueueSolution, erlang_c, md1, mg1, mm1, mmc};
