//! The live view, as in Performance Monitor: the state of a machine at one moment, with the verdict on the time before
//! it.
//!
//! A [`DashboardView`] is computed from a [`History`], which is either filled by a live sampler or read from a log. The
//! view does not depend on which, so that a replayed log shows the same as the live machine. `screen` draws it into
//! cells of a terminal.
//!
//! In the order of processing:
//!
//! - `history`: recorded ticks and notes, and how they are read
//! - `panels`: the shown counters, from `data/panels.toml` or a user's file
//! - `alerts`: rules that held for their hold time
//! - `view`: the moment: `devices`, `process_means`, the timeline, the verdict
//! - `overview`: all quantities of a whole log, reduced to points
//! - `screen`: handles keys and the mouse, and draws the view into cells

pub mod alerts;
mod devices;
pub mod history;
pub mod overview;
pub mod panels;
mod process_means;
pub mod screen;
mod timeline;
pub mod view;

pub use alerts::{Alert, AlertPeak};
pub use history::{History, RecentHistory};
pub use panels::Panels;
pub use process_means::{ProcessOrder, ProcessSummary};
pub use view::{DashboardView, ViewWindow, Viewer};
