//! Orders to a disk that is served: `disk status`, `fail`, `replace`, `slow`,
//! `hang`, `release`, `error`, `stop`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diskwright_virtualdisk::server::{self, Order, What, control_beside};

use super::super::{Failure, output};
use super::status;

/// Which disk.
#[derive(Args)]
pub struct Which {
    /// The disk's socket (or its control socket); where only one is served on this machine, that one
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `disk status` and `disk stop`.
#[derive(Args)]
pub struct Status {
    #[command(flatten)]
    which: Which,
}

/// Arguments of orders about a member.
#[derive(Args)]
pub struct Member {
    /// A drive by its name in the description
    member: String,
    #[command(flatten)]
    which: Which,
}

/// Arguments of `disk slow`.
#[derive(Args)]
pub struct Slow {
    #[command(flatten)]
    member: Member,
    /// How many times as long everything takes; 1 undoes it
    #[arg(long, value_name = "N")]
    factor: f64,
}

/// Arguments of `disk error`.
#[derive(Args)]
pub struct Failing {
    #[command(flatten)]
    member: Member,
    /// Share of its requests that fail, 0 to 1; 0 undoes it
    #[arg(long, value_name = "SHARE")]
    share: f64,
    /// Which requests
    #[arg(long, value_enum, default_value = "all")]
    what: Requests,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Requests {
    Reads,
    Writes,
    All,
}

pub fn status(arguments: &Status) -> Result<(), Failure> {
    give(&arguments.which, &Order::Status)
}

pub fn stop(arguments: &Status) -> Result<(), Failure> {
    give(&arguments.which, &Order::Stop)
}

pub fn fail(arguments: &Member) -> Result<(), Failure> {
    give(&arguments.which, &Order::Fail { member: arguments.member.clone() })
}

pub fn replace(arguments: &Member) -> Result<(), Failure> {
    give(&arguments.which, &Order::Replace { member: arguments.member.clone() })
}

pub fn hang(arguments: &Member) -> Result<(), Failure> {
    give(&arguments.which, &Order::Hang { member: arguments.member.clone() })
}

pub fn release(arguments: &Member) -> Result<(), Failure> {
    give(&arguments.which, &Order::Release { member: arguments.member.clone() })
}

pub fn slow(arguments: &Slow) -> Result<(), Failure> {
    let order = Order::Slow { member: arguments.member.member.clone(), factor: arguments.factor };
    give(&arguments.member.which, &order)
}

pub fn error(arguments: &Failing) -> Result<(), Failure> {
    let what = match arguments.what {
        Requests::Reads => What::Reads,
        Requests::Writes => What::Writes,
        Requests::All => What::All,
    };
    let order = Order::Error { member: arguments.member.member.clone(), share: arguments.share, what };
    give(&arguments.member.which, &order)
}

fn give(which: &Which, order: &Order) -> Result<(), Failure> {
    let answer = server::give(&control(which.socket.as_deref())?, order)?;
    if which.json {
        return output::json(&answer);
    }
    output::text(&status::screen(&answer))
}

/// The control socket of the disk that is meant.
pub fn control(socket: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(socket) = socket {
        let (beside, named) = (control_beside(socket), socket.extension().is_some_and(|end| end == "control"));
        // a disk's own socket may be called so
        return Ok(if named && !beside.exists() { socket.to_owned() } else { beside });
    }
    let running = server::running()?;
    match running.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Failed("no disk of this user is served on this machine; of another's, say --socket".into())),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            Err(Failure::Usage(format!("several disks are served; say which by --socket: {}", names.join(", "))))
        }
    }
}
