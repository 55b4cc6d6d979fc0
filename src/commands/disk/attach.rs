//! `disk attach`, `disk detach`: an NBD export as a block device.

use std::env;
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diskwright_base::units::format_count;
use diskwright_hostfiles::programs;
use diskwright_virtualdisk::attach::export_address::{ExportAddress, NbdAddress};
use diskwright_virtualdisk::attach::journal::{JOURNAL_FOLDER, JournalEntry};
use diskwright_virtualdisk::attach::launcher::{self, AttachRequest};
use diskwright_virtualdisk::attach::{AttachError, AttachMethod, AttachReport, detach, fuse_file, keeper};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::{Failure, output};
use super::control_commands;

/// Arguments of `disk attach`.
#[derive(Args)]
pub struct AttachArguments {
    /// The export, as `disk` prints it: nbd+unix:///NAME?socket=PATH, nbd://HOST:PORT/NAME
    #[arg(conflicts_with_all = ["socket", "host", "export"])]
    uri: Option<String>,
    /// The server's Unix socket; by default that of the only disk served on this machine
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The server's host and port
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "socket")]
    host: Option<String>,
    /// The export's name; by default the server's default export
    #[arg(long, default_value = "", value_name = "NAME")]
    export: String,
    /// How to attach to the kernel; by default the best way that works here
    #[arg(long, value_enum)]
    by: Option<AttachMethodArgument>,
    /// Number of connections to the server, if it accepts several; by default 1 for nbd and 4 for fuse
    #[arg(long, value_name = "CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: Option<u32>,
    /// Make the device read-only
    #[arg(long)]
    read_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    journal: JournalArguments,
}

/// Arguments of `disk detach`.
#[derive(Args)]
pub struct DetachArguments {
    /// A device that `disk attach` made
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    device: Option<PathBuf>,
    /// Detach everything that `disk attach` made on this machine, and what killed processes left behind
    #[arg(long)]
    all: bool,
    /// Also detach a device that is in use or whose server hangs; its users then get I/O errors
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    journal: JournalArguments,
}

/// Arguments of `disk keep`.
#[derive(Args)]
pub struct KeepArguments {
    /// The folder of the journal's entry
    entry: PathBuf,
}

/// Arguments of `disk file`.
#[derive(Args)]
pub struct FileArguments {
    /// The folder in which the file is shown
    folder: PathBuf,
    /// The export
    uri: String,
    /// Connections to the server
    #[arg(long)]
    connections: u32,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
}

/// Location of the journal; tests have their own.
#[derive(Args)]
struct JournalArguments {
    #[arg(long = "journal", value_name = "DIR", default_value = JOURNAL_FOLDER, hide = true)]
    folder: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AttachMethodArgument {
    /// The kernel's NBD client
    Nbd,
    /// The kernel's user-space block devices
    Ublk,
    /// A file over FUSE and a loop device
    Fuse,
}

impl From<AttachMethodArgument> for AttachMethod {
    fn from(argument: AttachMethodArgument) -> AttachMethod {
        match argument {
            AttachMethodArgument::Nbd => AttachMethod::Nbd,
            AttachMethodArgument::Ublk => AttachMethod::Ublk,
            AttachMethodArgument::Fuse => AttachMethod::Fuse,
        }
    }
}

impl AttachArguments {
    fn export_address(&self) -> Result<ExportAddress, Failure> {
        let usage = |error: diskwright_virtualdisk::attach::export_address::UriError| Failure::Usage(error.to_string());
        let address = match (&self.uri, &self.socket, &self.host) {
            (Some(uri), ..) => return ExportAddress::parse(uri).map_err(usage),
            (None, Some(socket), _) => NbdAddress::Unix(socket.clone()),
            (None, None, Some(host)) => NbdAddress::parse_tcp(host).map_err(usage)?,
            (None, None, None) => NbdAddress::Unix(only_served_socket()?),
        };
        Ok(ExportAddress { address, name: self.export.clone() })
    }
}

/// Socket of the only disk that is served on this machine.
fn only_served_socket() -> Result<PathBuf, Failure> {
    let control = control_commands::find_control_socket(None)?;
    let socket = control.with_extension("");
    if socket.exists() {
        return Ok(socket);
    }
    Err(Failure::Usage(format!(
        "{} is not a Unix socket of a served disk; give the URI that `disk` printed",
        control.display()
    )))
}

/// Attaches an export as a device.
pub fn attach_device(arguments: &AttachArguments) -> Result<(), Failure> {
    let request = AttachRequest {
        export: arguments.export_address()?,
        by: arguments.by.map(AttachMethod::from),
        connections: arguments.connections,
        read_only: arguments.read_only,
        journal: arguments.journal.folder.clone(),
    };
    diskwright_guard::check_new(&request.journal.join("entry"))?;
    let program = env::current_exe()?;
    let (attached, notes) = launcher::attach_export(&request, |entry| {
        let mut command = programs::command_without_secrets(program);
        command.args(["disk", "keep"]).arg(entry);
        command
    })?;
    let mut text = String::new();
    for note in &notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = write!(text, "{}", describe_attachment(&attached));
    output::print_to_stderr(&text);
    if arguments.json { output::print_json(&attached) } else { output::print_text(&format!("{}\n", attached.device)) }
}

/// Describes an attached device as text.
fn describe_attachment(attached: &AttachReport) -> String {
    let method = match attached.by {
        AttachMethod::Nbd => "the kernel's NBD client",
        AttachMethod::Ublk => "ublk",
        AttachMethod::Fuse => "FUSE and a loop device",
    };
    let access = if attached.read_only { "read-only, " } else { "" };
    let connections = format_count(attached.connections, "connection", "connections");
    let mut text = format!("{} is {} by {method}, {access}{connections}\n", attached.device, attached.uri);
    for limit in &attached.limits {
        let _ = writeln!(text, "limit: {limit}");
    }
    text
}

/// Detaches devices.
pub fn detach_devices(arguments: &DetachArguments) -> Result<(), Failure> {
    launcher::check_root()?;
    let folder = std::path::absolute(&arguments.journal.folder)?;
    let (detached, failed) = match &arguments.device {
        Some(device) => detach_device(&folder, device, arguments.force),
        None => detach::detach_all_devices(&folder, arguments.force),
    };
    if arguments.json {
        let item = |a: &AttachReport| json!({ "device": a.device, "by": a.by, "uri": a.uri });
        let detached: Vec<_> = detached.iter().map(item).collect();
        let failed: Vec<_> = failed.iter().map(ToString::to_string).collect();
        output::print_json(&json!({ "schema": "diskwright.detach/1", "detached": detached, "failed": failed }))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
}

fn detach_device(folder: &Path, device: &Path, force: bool) -> (Vec<AttachReport>, Vec<AttachError>) {
    match detach::detach_device(folder, device, force) {
        Ok(report) => (vec![report], Vec::new()),
        Err(error) => (Vec::new(), vec![error]),
    }
}

/// Shows an export as a file; `keep` starts it.
pub fn show_file(arguments: &FileArguments) -> Result<(), Failure> {
    let export = ExportAddress::parse(&arguments.uri).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(fuse_file::serve_file(&export, &arguments.folder, arguments.connections, arguments.read_only)?)
}

/// Runs the keeper of a device, which detaches it at the end; `attach` starts it.
pub fn keep_device(arguments: &KeepArguments) -> Result<(), Failure> {
    launcher::check_root()?;
    let (stop, signal_writer) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, signal_writer.try_clone()?)?;
    }
    let stop = OwnedFd::from(stop);
    keeper::run_keeper(&JournalEntry::from_folder(&arguments.entry), stop.as_fd(), |message| {
        let line = serde_json::to_string(message).map(|line| line + "\n");
        line.is_ok_and(|line| output::print_text(&line).is_ok())
    })?;
    Ok(())
}
