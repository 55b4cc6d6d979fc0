//! A server small enough for a page or two, which no client holds up.
//!
//! One thread waits for all clients (`poll`). Each has a deadline for its request
//! and for reading the answer; their number is bounded, and a new one takes the
//! place of the one that has kept its place the longest for nothing, or waits in
//! the kernel's queue where all are as new. Answers that take a moment are made by
//! a few threads. Events go to all readers of a channel as the same bytes; who is
//! slow loses some. A library would bring an async runtime (hyper), or a thread a
//! client that a slow reader keeps (tiny_http).
//!
//! - `request`: what a client says, bounded; `answer`: what a service says
//! - `connection`: one client; `server`: the loop over all of them
//! - `workers`: threads for answers that take a moment; `streams`: events

mod answer;
mod connection;
mod request;
mod server;
mod streams;
mod workers;

pub use answer::{AnswerWork, HttpAnswer, HttpReply, HttpService};
pub use request::HttpRequest;
pub use server::{HttpServer, ServerLimits, check_address};
pub use streams::StreamHub;

/// What is measured and recorded goes first where a processor is scarce.
const NICENESS: i32 = 5;
