//! Arrays: levels as data, address mapping and plans of member I/Os. Pure: no
//! time passes here.
//!
//! [`Array`] says where each block lies ([`Array::map`], [`Array::place`]);
//! [`Planner`] turns a request to the array into the I/Os of its members
//! ([`Plan`]), also with members failed or being rebuilt; [`Flights`] keeps the
//! plans that are under way. All sizes are in blocks of the caller's choice
//! (usually 512 bytes).

mod describe;
mod divide;
mod flights;
mod layout;
mod level;
mod parity;
mod place;
mod plan;
mod planner;
mod repair;
mod state;

pub use describe::{ArrayError, Description};
pub use divide::Divisor;
pub use flights::{Flights, Progress};
pub use layout::Layout;
pub use level::{Count, Form, Level, LevelInfo, levels};
pub use place::{Array, Piece, Place};
pub use plan::{MemberIo, Part, Plan, Work};
pub use planner::{Planner, Policy, ReadFrom, Request, WriteBy};
pub use repair::{Pass, Spares, Task, pause_ns};
pub use state::{Members, State};
