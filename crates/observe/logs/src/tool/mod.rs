//! Shared parts of the readers of other tools' tables: lines with padding behind them, cells, tables of names, and the
//! row of a tick with its checks.

pub(crate) mod cells;
pub(crate) mod line_cursor;
pub(crate) mod process_tables;
pub(crate) mod running_totals;
pub(crate) mod tick_row;
pub(crate) mod tool_names;
