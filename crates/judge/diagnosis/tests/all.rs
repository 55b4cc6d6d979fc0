//! All integration tests of this crate in one program: one link instead of many.

mod ceilings;
mod common;
mod compare;
mod compare_devices;
mod default_pack;
mod fitting;
mod grammar;
mod loading;
mod memory_first;
mod mutants;
mod packs;
mod pairs;
mod pastes;
mod ranking;
mod rooms;
mod several_bottlenecks;
mod stand_ins;
mod streaming;
mod threads;
mod ticks;
mod trends;
mod unlisted;
mod waiting;
mod windows;
