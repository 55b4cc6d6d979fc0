//! All tests of the planner, linked once.
mod answer;
mod prices;
mod reliability;
mod search;
mod worked;
