//! `disk`: serves a described system as a disk for real programs; `disk attach` and the other commands to a served
//! disk.

mod attach;
mod orders;
mod serve;
mod status;

use clap::{Args, Subcommand};

use super::Failure;

/// Arguments of `disk`: a system to serve, or a subcommand.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    order: Option<DiskSubcommand>,
    #[command(flatten)]
    serve: serve::Serve,
}

#[derive(Subcommand)]
enum DiskSubcommand {
    /// Attach an NBD export as a block device of this machine, in the best way its kernel supports
    Attach(attach::Attach),
    /// Detach block devices that `disk attach` made
    Detach(attach::Detach),
    /// Show the state of a served disk: members, rebuilds, components, lateness
    Status(orders::StatusArguments),
    /// Make a member fail; its data is lost
    Fail(orders::MemberArguments),
    /// Replace a failed member with an empty drive, which starts the rebuild
    Replace(orders::MemberArguments),
    /// Slow a member down by a factor
    Slow(orders::SlowArguments),
    /// Make a member hang: it answers no request
    Hang(orders::MemberArguments),
    /// Make a hanging member answer again
    Release(orders::MemberArguments),
    /// Make a share of a member's requests fail
    Error(orders::ErrorArguments),
    /// Stop the server cleanly
    Stop(orders::StatusArguments),
    /// Watch over an attached device and detach it at the end; `attach` starts this
    #[command(hide = true)]
    Keep(attach::KeepArguments),
    /// Show an export as a file in a folder; `keep` starts this
    #[command(hide = true)]
    File(attach::FileArguments),
}

/// Runs `disk`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.order {
        Some(DiskSubcommand::Attach(arguments)) => attach::attach(arguments),
        Some(DiskSubcommand::Detach(arguments)) => attach::detach(arguments),
        Some(DiskSubcommand::Keep(arguments)) => attach::keep(arguments),
        Some(DiskSubcommand::File(arguments)) => attach::show(arguments),
        Some(DiskSubcommand::Status(arguments)) => orders::status(arguments),
        Some(DiskSubcommand::Fail(arguments)) => orders::fail(arguments),
        Some(DiskSubcommand::Replace(arguments)) => orders::replace(arguments),
        Some(DiskSubcommand::Slow(arguments)) => orders::slow(arguments),
        Some(DiskSubcommand::Hang(arguments)) => orders::hang(arguments),
        Some(DiskSubcommand::Release(arguments)) => orders::release(arguments),
        Some(DiskSubcommand::Error(arguments)) => orders::error(arguments),
        Some(DiskSubcommand::Stop(arguments)) => orders::stop(arguments),
        None => serve::serve(&arguments.serve),
    }
}
