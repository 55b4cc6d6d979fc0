//! `watch [LOG…]`: the live screen, for this machine or for logs. The view and the keys are in the crate `dashboard`;
//! here are its source and its terminal.

pub mod live_feed;
mod log_alerts;
pub mod range_comparison;
#[cfg(test)]
mod replay_tests;
pub mod sources;
mod terminal;
mod unattended;

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_dashboard::screen::{OwnCost, ScreenStyle, WatchScreen, draw_screen};
use diskwright_dashboard::{Panels, ViewWindow, Viewer};
use diskwright_report::DisplayZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::alerts::{AlertArguments, AlertMonitor};
use super::capture::{CaptureArguments, CaptureThread};
use super::live_volumes::{self, CloudOptions};
use super::log::{self, LogWindow};
use super::ssh::SshArguments;
use super::ssh::background_log::follow_host;
use super::{Failure, ceilings, output, pacer, why};
use live_feed::LiveFeed;
use sources::WatchSource;
use unattended::UnattendedRun;

/// Arguments of `watch`.
#[derive(Args, Clone)]
pub struct Arguments {
    /// Logs to watch, of Diskwright or other tools, even while they are being recorded; by default,
    /// this machine, live
    log: Vec<PathBuf>,
    /// Sampling interval of this machine; by default 1s
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    every: Option<Duration>,
    #[command(flatten)]
    window: LogWindow,
    #[command(flatten)]
    judging: why::JudgingArguments,
    #[command(flatten)]
    cloud: CloudOptions,
    /// What the screen shows, instead of the built-in panels; by default
    /// ~/.config/diskwright/watch.toml, if it exists
    #[arg(long, value_name = "FILE.toml")]
    panels: Option<PathBuf>,
    /// Print one screen (the end of the log, or this machine after ten seconds) and exit
    #[arg(long)]
    once: bool,
    /// Print the screen as JSON; with --no-screen, one line of JSON when an alert begins, gets worse or ends
    #[arg(long)]
    json: bool,
    /// Show no screen: print a line when an alert begins, gets worse or ends
    #[arg(long, conflicts_with = "once")]
    no_screen: bool,
    /// Exit with code 1 when this alert begins, alone or as a part of another one of the same cause, or `any`
    /// (repeatable); implies --no-screen
    #[arg(long, value_name = "ID", conflicts_with = "once")]
    fail_on: Vec<String>,
    /// How long to watch with --no-screen, also a log that has ended, to which a recorder may add; by default until
    /// Ctrl-C, or the end of a log
    #[arg(long = "for", value_parser = parse_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    #[command(flatten)]
    alerts: AlertArguments,
    #[command(flatten)]
    capture: CaptureArguments,
    #[command(flatten)]
    ssh: SshArguments,
}

/// Default sampling interval of this machine.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// Ticks of a live machine before a printed screen.
const TICKS_BEFORE_PRINT: usize = 11;
/// Size of a printed screen if there is no terminal.
const DEFAULT_SCREEN_SIZE: (u16, u16) = (80, 24);

/// Runs `watch`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.judging.refuse_beyond_pack()?;
    if arguments.ssh.is_given()? {
        return watch_over_ssh(arguments);
    }
    let is_unattended = arguments.no_screen || !arguments.fail_on.is_empty();
    if arguments.duration.is_some() && !is_unattended {
        return Err(Failure::Usage("--for goes with --no-screen or --fail-on".into()));
    }
    if arguments.panels.is_some() && is_unattended {
        return Err(Failure::Usage("--panels is for the screen, which --no-screen and --fail-on do not show".into()));
    }
    let once = arguments.once || arguments.json;
    let on_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !(once || on_terminal || is_unattended) {
        let reason = "`watch` needs a terminal; use --once for one screen, --no-screen for alerts, or `why` \
                      for the verdict";
        return Err(Failure::Usage(reason.into()));
    }
    if !arguments.log.is_empty() {
        pacer::refuse_live_options(&[("--every", arguments.every.is_some())])?;
        arguments.capture.refuse_for_logs()?;
        arguments.cloud.refuse_for_logs()?;
    }
    if arguments.capture.is_given() && once && !is_unattended {
        let reason = "--capture waits for alerts, and one screen is printed at once; use --no-screen, or the screen";
        return Err(Failure::Usage(reason.into()));
    }
    let every = arguments.every.unwrap_or(DEFAULT_INTERVAL);
    if every < Duration::from_millis(100) {
        return Err(Failure::Usage("--every takes at least 100 ms".into()));
    }
    if arguments.log.is_empty() {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("--from and --to need a log".into()));
        }
        arguments.window.refuse_log_options()?;
        live_volumes::prepare(arguments.window.volume_options(), &arguments.cloud)?;
    }
    // the first tick takes as long as loading the rules
    let started_feed =
        (!is_unattended && arguments.log.is_empty()).then(|| LiveFeed::begin_sampling(every)).transpose()?;
    let pack = arguments.judging.load_packs(false)?.swap_remove(0);
    let monitor = AlertMonitor::new(&arguments.alerts, pack.clone())?;
    if is_unattended {
        return run_unattended(arguments, monitor);
    }
    let mut viewer = Viewer::new(load_panels(arguments.panels.as_deref())?, pack, ceilings::known_ceilings().to_vec());
    let mut source = match started_feed {
        Some(feed) => WatchSource::Live(feed.with_alerts(monitor, CaptureThread::start_or_warn(&arguments.capture))),
        None => WatchSource::from_logs(log::open(&arguments.log, &arguments.window)?, &arguments.log)
            .with_alerts(monitor)?,
    };
    if once {
        print_screen(arguments, &mut source, &mut viewer)
    } else {
        terminal::run_screen(&mut source, &mut viewer)
    }
}

/// Watches another host: what it sends becomes a log, which the screen follows.
fn watch_over_ssh(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.log.is_empty() {
        return Err(Failure::Usage("--ssh watches a host now; it does not go with a log".into()));
    }
    let log = follow_host(&arguments.ssh, "watch", arguments.every.unwrap_or(DEFAULT_INTERVAL))?;
    let ssh = SshArguments::default();
    run(&Arguments { log: vec![log.path()], every: None, ssh, ..arguments.clone() })
}

/// Watches for alerts without a screen.
fn run_unattended(arguments: &Arguments, monitor: AlertMonitor) -> Result<(), Failure> {
    let Arguments { fail_on, json, duration, .. } = arguments;
    let run =
        UnattendedRun { fail_on: fail_on.clone(), json: *json, duration: *duration, has_alerts: Cell::new(false) };
    run.check_alert_ids(&arguments.alerts.load_alert_pack()?)?;
    if arguments.log.is_empty() {
        let captures = CaptureThread::start_or_warn(&arguments.capture);
        return run.watch_this_machine(arguments.every.unwrap_or(DEFAULT_INTERVAL), monitor, captures);
    }
    run.watch_logs(&arguments.log, &arguments.window, monitor)
}

/// Loads the panels of a file, of the user's own file, or the built-in ones.
pub fn load_panels(file: Option<&Path>) -> Result<Panels, Failure> {
    let Some(path) = file.map(Path::to_owned).or_else(|| super::find_user_config_file("watch.toml")) else {
        return Ok(Panels::builtin());
    };
    let name = path.display().to_string();
    let text = super::read_description(&path)?;
    Panels::load(&name, &text).map_err(|problems| Failure::Usage(problems.to_string()))
}

/// Returns the style for this terminal.
fn screen_style() -> ScreenStyle {
    let style = output::stdout_style();
    ScreenStyle { colour: style.colour, unicode: style.unicode, zone: DisplayZone::local() }
}

/// Prints one screen, as text or JSON.
fn print_screen(arguments: &Arguments, source: &mut WatchSource, viewer: &mut Viewer) -> Result<(), Failure> {
    let (columns, rows) =
        terminal::terminal_size().filter(|_| io::stdout().is_terminal()).unwrap_or(DEFAULT_SCREEN_SIZE);
    if !source.is_live() {
        // the verdict on a wide log takes seconds, and so does the search for its alerts in another thread
        let (_, window) = last_window(source, columns)?;
        viewer.judge_ahead(source.history(), &window).map_err(Failure::Failed)?;
    }
    source.wait_for_ticks(TICKS_BEFORE_PRINT)?;
    let (mut screen, window) = last_window(source, columns)?;
    let view = viewer.build_view(source.history(), &window).map_err(Failure::Failed)?;
    if arguments.json {
        return output::print_json(&view);
    }
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let style = ScreenStyle { colour: false, ..screen_style() };
    draw_screen(&mut screen, &view, OwnCost::default(), &style, &mut buffer);
    output::print_text(&buffer_text(&buffer))
}

/// Returns the window of the last moment, for a screen of this width.
fn last_window(source: &WatchSource, columns: u16) -> Result<(WatchScreen, ViewWindow), Failure> {
    let Some(range) = source.range() else { return Err(Failure::Failed("nothing was recorded".into())) };
    let mut screen = WatchScreen::new(source.is_live(), source.interval_ns(), range.1 - range.0);
    // nothing follows: the verdict covers the whole last minute
    let window = ViewWindow { judged_step_ns: 0, ..screen.view_window(range, columns) };
    Ok((screen, window))
}

/// Converts cells to lines of text.
fn buffer_text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    buffer.content.chunks(width).map(line).collect()
}
