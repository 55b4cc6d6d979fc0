//! `disk`: serves a described system as a disk for real programs; `disk attach` and the other commands to a served
//! disk.

mod attach;
mod control_commands;
mod serve;
mod status;

use clap::{Args, Subcommand};

use super::Failure;

/// Arguments of `disk`: a system to serve, or a subcommand.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    subcommand: Option<DiskSubcommand>,
    #[command(flatten)]
    serve: serve::ServeArguments,
}

#[derive(Subcommand)]
enum DiskSubcommand {
    /// Attach an NBD export as a block device of this machine, in the best way its kernel supports
    Attach(attach::AttachArguments),
    /// Detach block devices that `disk attach` made
    Detach(attach::DetachArguments),
    /// Show the state of a served disk: members, rebuilds, components, lateness
    Status(control_commands::StatusArguments),
    /// Make a member fail; its data is lost
    Fail(control_commands::MemberArguments),
    /// Replace a failed member with an empty drive, which starts the rebuild
    Replace(control_commands::MemberArguments),
    /// Slow a member down by a factor
    Slow(control_commands::SlowArguments),
    /// Make a member hang: it answers no request
    Hang(control_commands::MemberArguments),
    /// Make a hanging member answer again
    Release(control_commands::MemberArguments),
    /// Make a share of a member's requests fail
    Error(control_commands::ErrorArguments),
    /// Stop the server cleanly
    Stop(control_commands::StatusArguments),
    /// Watch over an attached device and detach it at the end; `attach` starts this
    #[command(hide = true)]
    Keep(attach::KeepArguments),
    /// Show an export as a file in a folder; `keep` starts this
    #[command(hide = true)]
    File(attach::FileArguments),
}

/// Runs `disk`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.subcommand {
        Some(DiskSubcommand::Attach(arguments)) => attach::attach_device(arguments),
        Some(DiskSubcommand::Detach(arguments)) => attach::detach_devices(arguments),
        Some(DiskSubcommand::Keep(arguments)) => attach::keep_device(arguments),
        Some(DiskSubcommand::File(arguments)) => attach::show_file(arguments),
        Some(DiskSubcommand::Status(arguments)) => control_commands::print_status(arguments),
        Some(DiskSubcommand::Fail(arguments)) => control_commands::fail_member(arguments),
        Some(DiskSubcommand::Replace(arguments)) => control_commands::replace_member(arguments),
        Some(DiskSubcommand::Slow(arguments)) => control_commands::slow_member(arguments),
        Some(DiskSubcommand::Hang(arguments)) => control_commands::hang_member(arguments),
        Some(DiskSubcommand::Release(arguments)) => control_commands::release_member(arguments),
        Some(DiskSubcommand::Error(arguments)) => control_commands::inject_errors(arguments),
        Some(DiskSubcommand::Stop(arguments)) => control_commands::stop_server(arguments),
        None => serve::serve_system(&arguments.serve),
    }
}
