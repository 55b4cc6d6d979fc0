//! `--ssh HOST`: commands on other hosts, over the `ssh` of this one. What a host sends becomes a log; the commands
//! read it like any other.

pub mod arguments;
pub mod asked_hosts;
pub mod background_log;
mod judged_hosts;
mod received_log;
mod recorded_hosts;
pub mod remote_command;
pub mod stream_counters;

pub use arguments::SshArguments;
pub use judged_hosts::{HostQuestion, answer_for_hosts};
pub use recorded_hosts::{HostRecording, record_hosts};
pub use remote_command::{run_if_program_is_there, run_on_host};
