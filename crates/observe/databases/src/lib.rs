//! Asks database servers who waits for what, and what they read and write: PostgreSQL by `psql`, MariaDB and MySQL by
//! `mariadb` or `mysql`, which are found among the programs of the host. The client does authentication and TLS.
//!
//! Reading order: [`DatabaseMonitor`] (a thread for each server), `sample.rs` (what a server answers), `postgres` and
//! `mysql` (the statements, and what the answers mean), `cell_board.rs` (from samples to the cells of ticks),
//! `activity_sums.rs` (from samples to notes), `client_process.rs` (the client as a co-process).
//!
//! The session is read-only and has limits of time. Nothing waits for this crate: a server that hangs costs gaps.

mod activity_sums;
mod address;
mod cell_board;
mod client_process;
mod json_rows;
mod monitor;
mod mysql;
mod postgres;
#[cfg(test)]
mod read_only_tests;
mod sample;
#[cfg(test)]
#[path = "../tests/servers.rs"]
mod servers;
mod statement_text;

pub use address::{AddressError, DatabaseAddress, DatabaseEngine};
pub use monitor::{DatabaseMonitor, MonitorOptions};
