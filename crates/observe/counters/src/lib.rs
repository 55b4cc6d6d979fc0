//! Where samples come from. [`live`] reads this machine.

pub mod live;
