//! `disk`: a described system as a disk that real programs use; `disk attach`
//! and the other orders to one that is served.

mod attach;

use clap::{Args, Subcommand};

use super::Failure;

/// Arguments of `disk`: a system to serve, or an order.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    order: Option<Order>,
}

#[derive(Subcommand)]
enum Order {
    /// Make an NBD export a block device of this machine, by the best path its kernel has
    Attach(attach::Attach),
    /// Give back block devices that `disk attach` made
    Detach(attach::Detach),
    /// Stays with an attached device and undoes it in the end; `attach` starts it
    #[command(hide = true)]
    Keep(attach::Keep),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.order {
        Some(Order::Attach(arguments)) => attach::attach(arguments),
        Some(Order::Detach(arguments)) => attach::detach(arguments),
        Some(Order::Keep(arguments)) => attach::keep(arguments),
        None => Err(Failure::Usage("a system to serve, or an order; see `diskwright disk --help`".into())),
    }
}
