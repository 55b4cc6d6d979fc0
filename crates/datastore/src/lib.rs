//! The log: frames and notes to disk and back. It knows no counter by name.
//!
//! Reading order: `format` (what lies on disk, and what survives what),
//! `codec` (how a block's numbers become small), [`Writer`], [`Reader`].

mod account;
mod bits;
mod blocks;
mod codec;
mod damage;
mod error;
mod flow;
mod format;
mod lock;
mod marks;
mod notes;
mod output;
mod pack;
mod place;
mod reader;
mod recover;
mod retention;
mod schema;
mod segment;
mod tail;
mod union;
mod writer;

pub use damage::{Damage, Loss};
pub use error::StoreError;
pub use format::explain;
pub use marks::mark;
pub use place::lies_on;
pub use reader::{Item, Reader, is_log};
pub use writer::{State, Writer, WriterOptions};
