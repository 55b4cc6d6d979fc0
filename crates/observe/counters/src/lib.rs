//! Sampling of counters. [`live`] reads this machine.

pub mod live;
