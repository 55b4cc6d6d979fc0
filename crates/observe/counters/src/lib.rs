//! Sampling of counters. [`live`] reads this machine; [`moment`] reads what no counter keeps, once.

pub mod live;
pub mod moment;
