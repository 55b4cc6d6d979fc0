//! All tests of the planner, linked once.
mod prices;
mod reliability;
mod search;
mod worked;
