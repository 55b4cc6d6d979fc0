//! All tests of the planner, linked once.
mod answer;
mod devices;
mod hidden;
mod honest;
mod keeps_up;
mod load;
mod model_distance;
mod prices;
mod reliability;
mod search;
mod space;
mod ways;
mod what_if;
mod worked;
