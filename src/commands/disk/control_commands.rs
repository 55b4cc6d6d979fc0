//! Commands to a served disk: `disk status`, `fail`, `replace`, `slow`, `hang`, `release`, `error`, `stop`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diskwright_base::units::parse_share_of_whole;
use diskwright_virtualdisk::server::{self, DiskCommand, FailureScope, control_beside};

use super::super::{Failure, output};
use super::status;

/// Selection of a served disk.
#[derive(Args)]
pub struct DiskSelector {
    /// The disk's socket or control socket; by default that of the only disk served on this machine
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `disk status` and `disk stop`.
#[derive(Args)]
pub struct StatusArguments {
    #[command(flatten)]
    disk: DiskSelector,
}

/// Arguments of commands about a member.
#[derive(Args)]
pub struct MemberArguments {
    /// A drive by its name in the description
    member: String,
    #[command(flatten)]
    disk: DiskSelector,
}

/// Arguments of `disk slow`.
#[derive(Args)]
pub struct SlowArguments {
    #[command(flatten)]
    member: MemberArguments,
    /// Multiply all service times by this factor; 1 restores normal speed
    #[arg(long, value_name = "N")]
    factor: f64,
}

/// Arguments of `disk error`.
#[derive(Args)]
pub struct ErrorArguments {
    #[command(flatten)]
    member: MemberArguments,
    /// Share of the member's requests that fail (10%); 0 ends the errors
    #[arg(long, value_name = "SHARE", value_parser = parse_share_of_whole)]
    share: f64,
    /// Which requests fail
    #[arg(long, value_enum, default_value = "all")]
    what: RequestKind,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RequestKind {
    Reads,
    Writes,
    All,
}

/// Prints the status of a disk.
pub fn print_status(arguments: &StatusArguments) -> Result<(), Failure> {
    send_command(&arguments.disk, &DiskCommand::Status)
}

/// Stops the server of a disk.
pub fn stop_server(arguments: &StatusArguments) -> Result<(), Failure> {
    send_command(&arguments.disk, &DiskCommand::Stop)
}

/// Makes a member fail.
pub fn fail_member(arguments: &MemberArguments) -> Result<(), Failure> {
    send_command(&arguments.disk, &DiskCommand::Fail { member: arguments.member.clone() })
}

/// Replaces a failed member.
pub fn replace_member(arguments: &MemberArguments) -> Result<(), Failure> {
    send_command(&arguments.disk, &DiskCommand::Replace { member: arguments.member.clone() })
}

/// Makes a member hang.
pub fn hang_member(arguments: &MemberArguments) -> Result<(), Failure> {
    send_command(&arguments.disk, &DiskCommand::Hang { member: arguments.member.clone() })
}

/// Makes a hanging member respond again.
pub fn release_member(arguments: &MemberArguments) -> Result<(), Failure> {
    send_command(&arguments.disk, &DiskCommand::Release { member: arguments.member.clone() })
}

/// Slows a member down.
pub fn slow_member(arguments: &SlowArguments) -> Result<(), Failure> {
    let command = DiskCommand::Slow { member: arguments.member.member.clone(), factor: arguments.factor };
    send_command(&arguments.member.disk, &command)
}

/// Makes a share of a member's requests fail.
pub fn inject_errors(arguments: &ErrorArguments) -> Result<(), Failure> {
    let scope = match arguments.what {
        RequestKind::Reads => FailureScope::Reads,
        RequestKind::Writes => FailureScope::Writes,
        RequestKind::All => FailureScope::All,
    };
    let command = DiskCommand::Error { member: arguments.member.member.clone(), share: arguments.share, what: scope };
    send_command(&arguments.member.disk, &command)
}

fn send_command(disk: &DiskSelector, command: &DiskCommand) -> Result<(), Failure> {
    let answer = server::send_command(&find_control_socket(disk.socket.as_deref())?, command)?;
    if disk.json {
        return output::print_json(&answer);
    }
    output::print_text(&status::draw_status(&answer))
}

/// Finds the control socket of the selected disk.
pub fn find_control_socket(socket: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(socket) = socket {
        let control_socket = control_beside(socket);
        let is_named_control = socket.extension().is_some_and(|extension| extension == "control");
        // a disk's own socket may have this name
        return Ok(if is_named_control && !control_socket.exists() { socket.to_owned() } else { control_socket });
    }
    let running = server::running_servers()?;
    match running.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure::Failed(
            "this user serves no disk on this machine; for another user's disk, give --socket".into(),
        )),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            Err(Failure::Usage(format!("several disks are served; choose one with --socket: {}", names.join(", "))))
        }
    }
}
