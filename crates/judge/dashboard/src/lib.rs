//! The live view of Performance Monitor's kind: what a moment of a machine looks
//! like, with the verdict for the time around it.
//!
//! One model, two faces. A [`DashboardView`] is computed from a [`History`], which a
//! live sampler fills or a log is; it does not know which, so that a replayed log
//! shows what was shown live. `screen` draws it in cells of a terminal.
//!
//! In the order in which it happens:
//!
//! - `history`: what was recorded, and how it is read again
//! - `panels`: which counters are shown where, from `data/panels.toml` or a user's file
//! - `alerts`: rules that held for their time, and who hears of it
//! - `view`: the moment: `devices`, `processes`, the time line, the verdict
//! - `overview`: all quantities of a whole log, reduced to points
//! - `screen`: keys and the mouse to what is looked at, and the view to cells

pub mod alerts;
mod devices;
pub mod history;
pub mod overview;
pub mod panels;
mod processes;
pub mod screen;
mod timeline;
pub mod view;

pub use alerts::{Alert, AlertPeak};
pub use history::{History, RecentHistory};
pub use panels::Panels;
pub use processes::{ProcessOrder, ProcessSummary};
pub use view::{DashboardView, ViewWindow, Viewer};
