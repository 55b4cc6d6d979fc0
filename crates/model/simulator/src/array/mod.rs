//! Disk arrays: levels as data, address mapping, and plans of member I/Os. Pure: no time passes here.
//!
//! [`ArrayGeometry`] maps blocks to members ([`ArrayGeometry::map_block`]) and back
//! ([`ArrayGeometry::content_of_member_block`]); [`Planner`] turns a request to the array into I/Os of its members
//! ([`MemberIoPlan`]), also with members failed or being rebuilt; [`RequestsInFlight`] tracks plans in flight. All
//! sizes are in blocks of the caller's choice (usually 512 bytes).

mod array_state;
mod description;
mod fast_divisor;
mod geometry;
mod in_flight;
mod layout;
mod level;
mod parity_row_plan;
mod plan;
mod planner;
mod repair_pass;

pub use array_state::{ArrayState, MemberSet};
pub use description::{ArrayDescription, ArrayError};
pub use fast_divisor::FastDivisor;
pub use geometry::{ArrayGeometry, MemberBlock, MemberPiece};
pub use in_flight::{ArrayProgress, RequestsInFlight};
pub use layout::ArrayLayout;
pub use level::{ArrayLevel, CopyCount, LevelForm, LevelInfo, levels};
pub use plan::{MemberIo, MemberIoPart, MemberIoPlan, ParityWork};
pub use planner::{ArrayPolicy, ArrayRequest, CopyChoice, ParityUpdate, Planner};
pub use repair_pass::{PassKind, RepairPass, SparePool, pause_ns};
