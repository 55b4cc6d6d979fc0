//! `trace`: single requests of this machine's disks, live. `screen` and `heat_map` draw text, `document` makes JSON;
//! the crate `blocktrace` does the tracing.

mod document;
pub mod heat_map;
mod interval_lines;
mod recorder_control;
mod screen;
mod status;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use diskwright_base::units::{parse_duration, parse_share_of_whole};
use diskwright_blocktrace::devices::BlockDeviceNames;
use diskwright_blocktrace::session::SessionError;
use diskwright_blocktrace::{BlktraceWriter, BlockEvent, MethodChoice, SessionOptions, TraceSession, diskstats};
use diskwright_counters::live::{Clock, SystemClock};

use super::pacer::Pacer;
use super::ssh::{SshArguments, run_on_host};
use super::{Failure, output, output_file};
use interval_lines::IntervalLines;

/// Interval between reads of events: a processor's buffer of 8 MiB holds about 120,000.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time over which the request rate is measured before a method is chosen.
const RATE_WINDOW: Duration = Duration::from_millis(250);

/// Arguments of `trace`.
#[derive(Args)]
pub struct Arguments {
    /// Disks to trace, by name or path of a disk or partition; by default all. Or `status`: show
    /// what can be traced here, and running traces. Or `on` or `off`: make a running recorder start
    /// or stop tracing; name its log's folder if several recorders run
    #[arg(value_name = "DEVICE|status|on|off")]
    devices: Vec<String>,
    /// How long to trace
    #[arg(long = "for", default_value = "60s", value_parser = parse_duration, value_name = "DURATION")]
    duration: Duration,
    /// Print one line per device and operation at this interval
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "DURATION")]
    every: Duration,
    /// How to trace: every event (tracefs), histograms in the kernel (bpf), or whichever suits the request rate
    #[arg(long, value_enum, default_value_t = TraceMethodArgument::Auto)]
    method: TraceMethodArgument,
    /// Maximum share of all processors' time for tracing; above it, tracing is reduced, and the result says so
    #[arg(long, default_value = "1%", value_parser = parse_budget, value_name = "SHARE")]
    budget: f64,
    /// Write the requests to this file in blktrace's format, which `show`, `simulate --replay` and blkparse read
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    ssh: SshArguments,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceMethodArgument {
    Auto,
    Tracefs,
    Bpf,
}

/// Parses a share of the processors above 0.
pub(super) fn parse_budget(text: &str) -> Result<f64, String> {
    let share = parse_share_of_whole(text).map_err(|error| error.to_string())?;
    (share > 0.0).then_some(share).ok_or_else(|| "with no budget, nothing can be traced".into())
}

/// Runs `trace`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.ssh.is_given()? {
        if arguments.out.is_some() {
            return Err(Failure::Usage(
                "--out would write on the other host; record it with `record DIR --trace` there".into(),
            ));
        }
        return run_on_host(&arguments.ssh, "trace");
    }
    let words: Vec<&str> = arguments.devices.iter().map(String::as_str).collect();
    let is_command = matches!(words.as_slice(), ["status"] | ["on" | "off", ..]);
    if is_command && (arguments.out.is_some() || arguments.method != TraceMethodArgument::Auto) {
        let reason = format!("--out and --method are for a trace of disks, not for `trace {}`", words[0]);
        return Err(Failure::Usage(reason));
    }
    if words == ["status"] {
        return status::print_status(arguments.json);
    }
    if let [command @ ("on" | "off"), log @ ..] = words.as_slice() {
        return match log {
            [] | [_] => recorder_control::send_command(command, log.first().copied(), arguments.budget, arguments.json),
            _ => Err(Failure::Usage(format!("trace {command} takes one log"))),
        };
    }
    let disks = find_disks(&arguments.devices)?;
    if arguments.every < POLL_INTERVAL {
        return Err(Failure::Usage(format!("--every takes at least {} ms", POLL_INTERVAL.as_millis())));
    }
    if arguments.out.is_some() && arguments.method == TraceMethodArgument::Bpf {
        return Err(Failure::Usage("--out needs single requests, which --method bpf does not keep".into()));
    }
    match &arguments.out {
        Some(path) => output_file::write_in_pieces(path, |out| trace_disks(arguments, disks, Some((path, out)))),
        None => trace_disks(arguments, disks, None),
    }
}

/// Finds the disks with these names or paths.
fn find_disks(devices: &[String]) -> Result<Vec<u32>, Failure> {
    let mut names = BlockDeviceNames::default();
    let mut disks = Vec::new();
    for device in devices {
        let name = device.strip_prefix("/dev/").unwrap_or(device);
        // links such as /dev/mapper/NAME or /dev/disk/by-id/NAME
        let target = std::fs::canonicalize(device).ok().filter(|_| device.starts_with('/'));
        // a name may contain a slash: /dev/cciss/c0d0
        let device_name = |path: &Path| {
            let file = path.strip_prefix("/dev").ok().or_else(|| path.file_name().map(Path::new))?;
            file.to_str().map(str::to_owned)
        };
        let target = target.as_deref().and_then(device_name).unwrap_or_else(|| name.to_owned());
        let Some(number) = names.find_number(&target) else {
            return Err(Failure::Failed(format!("{}: no such block device", output::escape_name(device))));
        };
        let disk = names.disk_of(number);
        if !disks.contains(&disk) {
            disks.push(disk);
        }
    }
    Ok(disks)
}

/// Output file for single events.
struct EventSink<'a> {
    file: Option<BlktraceWriter<Box<dyn Write + Send>>>,
    path: Option<&'a Path>,
    failure: Option<std::io::Error>,
}

impl EventSink<'_> {
    fn write_event(&mut self, event: &BlockEvent) {
        let Some(file) = self.file.as_mut().filter(|_| self.failure.is_none()) else { return };
        self.failure = file.write_event(event).err();
    }

    fn check_write(&mut self) -> Result<(), Failure> {
        let Some(error) = self.failure.take() else { return Ok(()) };
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Err(Failure::ClosedPipe);
        }
        let path = self.path.map(|path| output::escape_name(path.display())).unwrap_or_default();
        Err(Failure::Failed(format!("{path}: {error}")))
    }
}

fn trace_disks(
    arguments: &Arguments,
    disks: Vec<u32>,
    out: Option<(&PathBuf, Box<dyn Write + Send>)>,
) -> Result<(), Failure> {
    let to_stdout = out.as_ref().is_some_and(|(path, _)| output_file::is_stdout(path));
    let mut pacer = Pacer::new(POLL_INTERVAL.min(arguments.every), Some(arguments.duration))?;
    let rate = request_rate(&disks, arguments)?;
    let begin = SystemClock.read_clocks();
    let mut session = TraceSession::start(session_options(arguments, disks), rate, begin.running_ns)
        .map_err(explain_session_error)?;
    let path = out.as_ref().map(|(path, _)| path.as_path());
    let file = out.map(|(_, out)| {
        BlktraceWriter::new(
            Box::new(std::io::BufWriter::with_capacity(1 << 18, out)) as Box<dyn Write + Send>,
            begin.running_ns,
            begin.wall_ns,
        )
    });
    let mut sink = EventSink { file: file.transpose()?, path, failure: None };
    let is_live = !arguments.json && !to_stdout;
    let mut lines = IntervalLines::new(begin.running_ns, arguments.every);
    pacer.reset_start();
    while pacer.wait_for_tick(|_| {}) {
        session
            .poll(SystemClock.read_clocks().running_ns, &mut |event| sink.write_event(event))
            .map_err(explain_session_error)?;
        sink.check_write()?;
        session.enforce_budget().map_err(explain_session_error)?;
        if is_live
            && let Some(text) =
                lines.interval_text(&mut session, SystemClock.read_clocks(), &output::wide_table_style())
        {
            output::print_text(&text)?;
        }
    }
    let end = SystemClock.read_clocks();
    session.finish(end.running_ns, &mut |event| sink.write_event(event)).map_err(explain_session_error)?;
    if let Some(file) = &mut sink.file {
        let error = file.flush().err();
        sink.failure = sink.failure.take().or(error);
    }
    sink.check_write()?;
    let totals = diskstats::read_totals();
    let clock = screen::TraceClock { wall_ns: end.wall_ns, monotonic_ns: end.running_ns };
    if arguments.json && !to_stdout {
        return output::print_json(&document::live_trace_document(&mut session, &totals, clock));
    }
    let text = screen::draw_trace(&mut session, &totals, clock, &output::wide_table_style());
    if to_stdout {
        output::print_to_stderr(&text)
    } else {
        output::print_text(&text)?
    }
    Ok(())
}

fn session_options(arguments: &Arguments, disks: Vec<u32>) -> SessionOptions {
    let method = match arguments.method {
        TraceMethodArgument::Auto => MethodChoice::Auto,
        TraceMethodArgument::Tracefs => MethodChoice::Tracefs,
        TraceMethodArgument::Bpf => MethodChoice::Bpf,
    };
    // about as many columns as a terminal has
    let column = (arguments.duration / 80).max(Duration::from_millis(100)).min(arguments.every);
    let column_ns = u64::try_from(column.as_nanos()).unwrap_or(u64::MAX);
    SessionOptions { disks, method, budget: arguments.budget, needs_events: arguments.out.is_some(), column_ns }
}

/// Measures the request rate of the disks, but only if the method is still to be chosen; else 0.
fn request_rate(disks: &[u32], arguments: &Arguments) -> Result<f64, Failure> {
    if arguments.method != TraceMethodArgument::Auto || arguments.out.is_some() {
        return Ok(0.0);
    }
    let before = diskstats::read_totals();
    super::pacer::sleep_interruptibly(RATE_WINDOW);
    let requests =
        diskstats::requests_of_disks(&BlockDeviceNames::default(), disks, &before, &diskstats::read_totals());
    Ok(requests as f64 / RATE_WINDOW.as_secs_f64())
}

/// Adds to an error what is lost without tracing, and what would enable it.
fn explain_session_error(error: SessionError) -> Failure {
    let is_refusal = match &error {
        SessionError::Tracefs(error) => error.is_refusal() || !rustix::process::geteuid().is_root(),
        SessionError::Kernel(_) => !rustix::process::geteuid().is_root(),
    };
    // a name that is not UTF-8 must not end the program
    let arguments = std::env::args_os().skip(1).map(|word| output::escape_name(word.to_string_lossy()));
    let command_line = arguments.collect::<Vec<_>>().join(" ");
    let remedy = if is_refusal {
        format!(
            "Tracing needs root, or the capabilities CAP_SYS_ADMIN (tracefs) or CAP_BPF and CAP_PERFMON (bpf). Run\n\
             sudo diskwright {command_line}"
        )
    } else {
        "These events need a kernel with CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE; see\ndiskwright trace \
         status"
            .into()
    };
    Failure::Failed(format!(
        "cannot trace single requests: {error}.\n{remedy}\nUntil then, use averages: diskwright why"
    ))
}
