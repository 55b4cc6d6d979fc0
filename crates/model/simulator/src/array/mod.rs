//! Disk arrays: levels as data, address mapping, and plans of member I/Os. Pure: no time passes here.
//!
//! [`ArrayGeometry`] maps blocks to members ([`ArrayGeometry::map`]) and back ([`ArrayGeometry::place`]);
//! [`Planner`] turns a request to the array into I/Os of its members ([`MemberIoPlan`]), also with members failed or
//! being rebuilt; [`ArrayFlights`] tracks plans in flight. All sizes are in blocks of the caller's choice (usually 512
//! bytes).

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

pub use describe::{ArrayDescription, ArrayError};
pub use divide::FastDivisor;
pub use flights::{ArrayFlights, ArrayProgress};
pub use layout::ArrayLayout;
pub use level::{ArrayLevel, Count, LevelForm, LevelInfo, levels};
pub use place::{ArrayGeometry, MemberBlock, MemberPiece};
pub use plan::{MemberIo, MemberIoPart, MemberIoPlan, ParityWork};
pub use planner::{ArrayPolicy, ArrayRequest, Planner, ReadFrom, WriteBy};
pub use repair::{Pass, Spares, Task, pause_ns};
pub use state::{ArrayState, Members};
