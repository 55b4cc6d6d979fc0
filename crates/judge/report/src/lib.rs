//! Rendering of Diskwright's answers: the one screen of `why`, tables, charts in
//! the terminal, and the self-contained HTML page. This crate does not measure or
//! judge; it draws its input.

pub mod axis;
pub mod bar_chart;
pub mod beside_document;
pub mod captures;
pub mod changes;
pub mod chart_book;
pub mod chart_model;
pub mod compare;
mod counter_names;
pub mod curves;
pub mod databases;
pub mod downsample;
pub mod events;
#[cfg(test)]
mod expected_output;
pub mod explain;
#[cfg(test)]
mod fixture;
pub mod heat_map;
pub mod html;
pub mod identity;
mod markup;
mod palette;
pub mod probe;
pub mod remedies;
pub mod screen;
mod sections;
pub mod sheet;
pub mod sparkline;
pub mod style;
pub mod svg;
pub mod table;
pub mod terminal_chart;
pub mod terminal_curves;
pub mod text;
pub mod time;
mod trends;
mod verdict_words;

pub use chart_book::ChartBook;
pub use chart_model::{Chart, ChartLine};
pub use downsample::{ChartBucket, Downsampler};
pub use html::HtmlReport;
pub use style::{Ink, Style};
pub use table::{Align, TextTable};
pub use time::DisplayZone;
