//! When: what lasts from a moment of the window to its end, what held for a while, and the timeline.

pub(super) mod episodes;
pub(super) mod latest;
pub(super) mod phases;
