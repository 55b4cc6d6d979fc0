//! An HTTP server for a few pages that no client can block.
//!
//! One thread waits for all clients (`poll`). Each has a deadline for its request
//! and for reading the response; their number is bounded, and a new client replaces
//! the one that has been idle for longest, or waits in
//! the kernel's queue while all are new. Slow responses are produced by
//! a few worker threads. Events go to all readers of a channel as the same bytes; slow
//! readers lose some. A library would bring an async runtime (hyper), or one thread per
//! client that a slow reader occupies (tiny_http).
//!
//! - `request`: parsing of requests, bounded; `response`: responses of a service
//! - `connection`: one client; `server`: the loop over all of them
//! - `host_names`: the names under which a server may be asked
//! - `workers`: threads for slow responses; `streams`: events

mod connection;
mod host_names;
mod request;
mod response;
mod server;
mod streams;
mod workers;

pub use host_names::{HostNames, host_name};
pub use request::HttpRequest;
pub use response::{HttpReply, HttpResponse, HttpService, ResponseJob};
pub use server::{HttpServer, ServerLimits, check_address};
pub use streams::StreamHub;

/// Niceness of the server's threads: measuring and recording take precedence where processor time is scarce.
const NICENESS: i32 = 5;
