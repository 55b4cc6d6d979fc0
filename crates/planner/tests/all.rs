//! All tests of the planner, linked once.
