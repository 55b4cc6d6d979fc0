//! `disk SYSTEM.toml`: serves a described system.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use diskwright_base::byte_size::{ByteSize, parse_capacity, parse_memory_size};
use diskwright_base::units::parse_duration;
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_datastore::WriterOptions;
use diskwright_simulator::system::read::Setting;
use diskwright_virtualdisk::content::ContentBacking;
use diskwright_virtualdisk::server::{DiskExport, DiskServer, ListenAddress, ServeOptions, socket_folder};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::simulate::sample_log::SimulationLog;
use super::super::simulate::system::parse_setting;
use super::super::simulate::system_run::read_system;
use super::super::{Failure, output};

/// Options for serving a system.
#[derive(Args)]
pub struct ServeArguments {
    /// A system: controllers, channels, drives and arrays in TOML (docs/systems.md)
    #[arg(value_name = "SYSTEM.toml")]
    system: Option<PathBuf>,
    /// Serve on this Unix socket; by default on one in a private folder
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// Serve on this address, such as 127.0.0.1:10809
    #[arg(long, value_name = "HOST:PORT", value_parser = ListenAddress::parse_tcp)]
    listen: Option<ListenAddress>,
    /// Limit the default export to this many bytes
    #[arg(long, value_parser = parse_capacity, value_name = "SIZE")]
    size: Option<u64>,
    /// Where to keep the content: `memory`, or a sparse file
    #[arg(long, default_value = "memory", value_parser = parse_backing, value_name = "memory|FILE")]
    backing: BackingArgument,
    /// Memory limit for the content, in bytes; by default half of the memory available now
    #[arg(long, value_parser = parse_memory_size, value_name = "SIZE")]
    memory: Option<u64>,
    /// Run the described system's time this many times as fast
    #[arg(long, default_value_t = 1.0, value_parser = parse_speed, value_name = "N")]
    speed: f64,
    /// Never sleep: keeps one processor busy, and replies are more exactly on time
    #[arg(long)]
    awake: bool,
    /// Record the counters of the described system to this log
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Sampling interval
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "DURATION")]
    every: Duration,
    /// Serve for this long; by default until Ctrl-C
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    /// Also run the workloads of the description, beside the clients (their data is not kept)
    #[arg(long)]
    workloads: bool,
    /// Override a value of the description: drive.depth=32 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<Setting>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where the content of the drives is kept.
#[derive(Clone, Debug, PartialEq)]
enum BackingArgument {
    Memory,
    File(PathBuf),
}

fn parse_backing(text: &str) -> Result<BackingArgument, Infallible> {
    Ok(if text == "memory" { BackingArgument::Memory } else { BackingArgument::File(text.into()) })
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| (0.001..=1000.0).contains(speed));
    speed.ok_or_else(|| "write a number from 0.001 to 1000".into())
}

/// Serves a system until it is stopped.
pub fn serve_system(arguments: &ServeArguments) -> Result<(), Failure> {
    let Some(path) = &arguments.system else {
        return Err(Failure::Usage("give a system to serve, or a command; see `diskwright disk --help`".into()));
    };
    if arguments.memory.is_some() && arguments.backing != BackingArgument::Memory {
        return Err(Failure::Usage("--memory is for content in memory; a file is limited by its filesystem".into()));
    }
    let (system, notes) = read_system(path, &arguments.set)?;
    notes.iter().for_each(output::print_note);
    let options = ServeOptions {
        address: listen_address(arguments)?,
        default_export_bytes: arguments.size,
        backing: content_backing(arguments),
        speed: arguments.speed,
        never_sleep: arguments.awake,
        sample_interval: arguments.every,
        workloads: arguments.workloads,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut server = DiskServer::new(system, &options)?;
    if options.address.is_public() {
        let uri = server.address().uri("");
        output::print_to_stderr(&format!(
            "warning: NBD has no password: anyone who can reach {uri} can read and write\n"
        ));
    }
    let mut log = arguments.record.as_deref().map(|dir| open_log(dir, &server)).transpose()?;
    announce_server(&server, arguments.json)?;
    let end_time = arguments.duration.map(|duration| std::time::Instant::now() + duration);
    let result = server.run(&stop, end_time, &mut |report| {
        log.as_mut().map_or(Ok(()), |log| log.add_interval(report).map_err(|failure| failure.to_string()))
    });
    let closed = log.map(SimulationLog::close_log).transpose();
    // possibly lost data of clients matters more than a log that could not be closed
    result.map_err(Failure::from)?;
    closed?;
    Ok(())
}

fn open_log(dir: &Path, server: &DiskServer) -> Result<SimulationLog, Failure> {
    SimulationLog::open(
        dir,
        server.system(),
        SystemClock.read_clocks().wall_ns,
        "virtual disk",
        WriterOptions::default(),
    )
}

/// Returns the address to serve on: the requested one, or a socket of this process.
fn listen_address(arguments: &ServeArguments) -> Result<ListenAddress, Failure> {
    match (&arguments.listen, &arguments.socket) {
        (Some(address), _) => Ok(address.clone()),
        (None, Some(path)) => Ok(ListenAddress::Unix(path.clone())),
        (None, None) => Ok(ListenAddress::Unix(socket_folder()?.join(format!("{}.sock", std::process::id())))),
    }
}

fn content_backing(arguments: &ServeArguments) -> ContentBacking {
    match &arguments.backing {
        BackingArgument::Memory => {
            ContentBacking::Memory { max_bytes: arguments.memory.or_else(half_available_memory) }
        }
        BackingArgument::File(path) => ContentBacking::File(path.clone()),
    }
}

/// Half of the available memory; `None` if the kernel does not report it.
fn half_available_memory() -> Option<u64> {
    diskwright_hostfiles::cgroup::machine_available_bytes(Path::new("/")).map(|bytes| bytes / 2)
}

/// Prints the address and the exports, once they can be used.
fn announce_server(server: &DiskServer, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let export_json = |(export, bytes): (&DiskExport, u64)| {
            json!({
                "name": export.name,
                "uri": server.address().uri(&export.name),
                "bytes": bytes,
                "kind": export.kind,
            })
        };
        let exports: Vec<Value> = server.exports().map(export_json).collect();
        let control = server.control_address().path().map(|path| path.display().to_string());
        return output::print_json(&json!({
            "schema": "diskwright.disk/1",
            "exports": exports,
            "control": control,
            "pid": std::process::id(),
        }));
    }
    let mut text = String::new();
    for (export, bytes) in server.exports() {
        let size = ByteSize::capacity(bytes as f64);
        let (name, uri) = (output::escape_name(&export.name), output::escape_name(server.address().uri(&export.name)));
        text += &format!("serving {name} ({}, {size}): {uri}\n", output::escape_name(&export.kind));
    }
    output::print_text(&text)
}
