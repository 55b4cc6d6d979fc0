//! Shared parts of the readers of other tools' tables: lines with padding behind them, cells, tables of names, and the
//! row of a tick with its checks.

pub(crate) mod cells;
pub(crate) mod lines;
pub(crate) mod names;
pub(crate) mod processes;
pub(crate) mod row;
pub(crate) mod totals;
