//! Tests against real servers, which are started in folders of their own.

mod mysql;
mod postgres;
mod servers;
