//! `disk`: a described system as a disk that real programs use; `disk attach`
//! and the other orders to one that is served.

mod attach;
mod orders;
mod serve;
mod status;

use clap::{Args, Subcommand};

use super::Failure;

/// Arguments of `disk`: a system to serve, or an order.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    order: Option<Order>,
    #[command(flatten)]
    serve: serve::Serve,
}

#[derive(Subcommand)]
enum Order {
    /// Make an NBD export a block device of this machine, by the best path its kernel has
    Attach(attach::Attach),
    /// Give back block devices that `disk attach` made
    Detach(attach::Detach),
    /// Tell how a disk that is served is: members, rebuilds, components, lateness
    Status(orders::Status),
    /// Let a member fail: its data is lost
    Fail(orders::Member),
    /// Put an empty drive in the place of a failed member; the rebuild begins
    Replace(orders::Member),
    /// Let a member take so many times as long
    Slow(orders::Slow),
    /// Let a member answer nothing
    Hang(orders::Member),
    /// Let a member that hangs answer again
    Release(orders::Member),
    /// Let a share of a member's requests fail
    Error(orders::Failing),
    /// End the server in order
    Stop(orders::Status),
    /// Stays with an attached device and undoes it in the end; `attach` starts it
    #[command(hide = true)]
    Keep(attach::Keep),
    /// Shows an export as a file in a folder; `keep` starts it
    #[command(hide = true)]
    File(attach::Shown),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.order {
        Some(Order::Attach(arguments)) => attach::attach(arguments),
        Some(Order::Detach(arguments)) => attach::detach(arguments),
        Some(Order::Keep(arguments)) => attach::keep(arguments),
        Some(Order::File(arguments)) => attach::show(arguments),
        Some(Order::Status(arguments)) => orders::status(arguments),
        Some(Order::Fail(arguments)) => orders::fail(arguments),
        Some(Order::Replace(arguments)) => orders::replace(arguments),
        Some(Order::Slow(arguments)) => orders::slow(arguments),
        Some(Order::Hang(arguments)) => orders::hang(arguments),
        Some(Order::Release(arguments)) => orders::release(arguments),
        Some(Order::Error(arguments)) => orders::error(arguments),
        Some(Order::Stop(arguments)) => orders::stop(arguments),
        None => serve::serve(&arguments.serve),
    }
}
