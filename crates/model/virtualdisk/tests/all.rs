//! All integration tests of this crate in one program: one link instead of many.

mod bad_clients;
mod content;
mod content_through_the_socket;
mod kills;
mod memory_of_clients;
mod nbd_bad_input;
mod nbd_bad_servers;
mod nbd_peers;
mod nbd_server;
mod served;
mod server_flood;
mod shadow;
