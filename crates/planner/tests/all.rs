//! All tests of the planner, linked once.
mod hidden;
mod prices;
mod reliability;
mod search;
mod worked;
mod what_if;
