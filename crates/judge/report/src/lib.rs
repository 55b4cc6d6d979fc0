//! Rendering of Diskwright's answers: the one screen of `why`, tables, charts in
//! the terminal, and the self-contained HTML page. This crate does not measure or
//! judge; it draws its input.

pub mod axis;
pub mod bars;
pub mod beside;
pub mod book;
pub mod chart;
pub mod compare;
pub mod curves;
pub mod downsample;
#[cfg(test)]
mod expect;
pub mod explain;
#[cfg(test)]
mod fixture;
pub mod heat;
pub mod html;
pub mod markup;
pub mod model;
mod palette;
pub mod plot;
pub mod probe;
pub mod screen;
mod sections;
pub mod sheet;
pub mod spark;
pub mod style;
pub mod svg;
pub mod table;
pub mod text;
pub mod time;

mod trends;

pub use book::ChartBook;
pub use downsample::{ChartBucket, Downsampler};
pub use html::HtmlReport;
pub use model::{Chart, ChartLine};
pub use style::{Ink, Style};
pub use table::{Align, TextTable};
pub use time::DisplayZone;
mod words;
