//! `serve [LOG…]`: the live view as a web page. The page and its access control are in the crate `webview`; here are
//! the hosts that it shows.

mod sources;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_diagnosis::{Pack, packs};
use diskwright_webview::{HostNames, HostSource, WebAccess, WebSettings, WebView, check_address, random_text};

use super::alerts::AlertArguments;
use super::capture::CaptureArguments;
use super::log::{self, LogWindow, Logs};
use super::metric_store::StoreArguments;
use super::pacer::Pacer;
use super::{
    Failure, ceilings, credentials, first_given_option, fleet, local_host_name, metric_store, output, time_argument,
    watch, why,
};
use sources::{LateSource, LogFetch, ServedSource};

/// Default address of the page.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:9190";
/// Random bytes of a generated token.
const TOKEN_BYTES: usize = 24;

/// Address of the page, and access to it.
#[derive(Args, Clone)]
#[command(next_help_heading = "Page")]
pub struct PageArguments {
    /// Read the access token from this file; if the file is missing, it is created with a random
    /// token. Requests without the token are refused. Required for addresses other than the
    /// loopback interface
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Another host name that browsers may use, such as that of a proxy (repeatable)
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// What the page shows, instead of the built-in panels; by default ~/.config/diskwright/watch.toml, if it exists
    #[arg(long, value_name = "FILE.toml")]
    panels: Option<PathBuf>,
}

impl PageArguments {
    /// Returns the first of these options that was given and has no effect without a page. `--name` has one for
    /// `/metrics` too, if that is served.
    pub fn first_unused_option(&self, has_metrics: bool) -> Option<&'static str> {
        first_given_option(&[
            ("--token-file", self.token_file.is_some()),
            ("--name", !self.names.is_empty() && !has_metrics),
            ("--panels", self.panels.is_some()),
        ])
    }

    /// The host names that requests may use.
    pub fn host_names(&self) -> &[String] {
        &self.names
    }
}

/// Arguments of `serve`.
#[derive(Args)]
pub struct Arguments {
    /// Logs to show, of Diskwright or other tools, even while they are being recorded; by default, this machine, live
    #[arg(conflicts_with = "prometheus")]
    log: Vec<PathBuf>,
    /// Where to listen: a port (on the loopback interface), or ADDRESS:PORT
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "PORT|ADDRESS:PORT")]
    listen: String,
    /// Sampling interval of this machine; by default 1s
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    every: Option<Duration>,
    #[command(flatten)]
    page: PageArguments,
    #[command(flatten)]
    window: LogWindow,
    #[command(flatten)]
    judging: why::JudgingArguments,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    alerts: AlertArguments,
    #[command(flatten)]
    capture: CaptureArguments,
    /// Print the address as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `serve`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.judging.refuse_beyond_pack()?;
    if arguments.store.is_given()? || !arguments.log.is_empty() {
        super::pacer::refuse_live_options(&[("--every", arguments.every.is_some())])?;
        arguments.capture.refuse_for_logs()?;
    }
    if arguments.every.is_some_and(|every| every < Duration::from_millis(100)) {
        return Err(Failure::Usage("--every takes at least 100 ms".into()));
    }
    let pack = arguments.judging.load_packs(false)?.swap_remove(0);
    let hosts = host_sources(arguments, &pack)?;
    // a signal ends it cleanly
    let pacer = Pacer::new(Duration::from_secs(1), None)?;
    let view = start_web_view(("--listen", &arguments.listen), &arguments.page, pack, hosts)?;
    if arguments.json {
        let address = view.address();
        output::print_json(
            &serde_json::json!({ "schema": "diskwright.serve/1", "url": format!("http://{address}/") }),
        )?;
    }
    while !pacer.is_stopped() {
        super::pacer::sleep_interruptibly(std::time::Duration::from_millis(200));
    }
    Ok(())
}

/// Returns the hosts to show: this machine, those of logs, or those of a store.
fn host_sources(arguments: &Arguments, pack: &Pack) -> Result<Vec<Box<dyn HostSource>>, Failure> {
    if arguments.store.is_given()? {
        return sources_of_store(arguments, pack);
    }
    if arguments.log.is_empty() {
        if !arguments.window.is_whole() {
            return Err(Failure::Usage("--from and --to need a log".into()));
        }
        arguments.window.refuse_log_options()?;
        let every = arguments.every.unwrap_or(watch::DEFAULT_INTERVAL);
        let options = (&arguments.alerts, &arguments.capture);
        return Ok(vec![Box::new(ServedSource::from_this_machine(every, pack.clone(), options)?)]);
    }
    sources_of_logs(arguments, pack)
}

/// Groups the logs by host; logs without a host name are one host each.
fn sources_of_logs(arguments: &Arguments, pack: &Pack) -> Result<Vec<Box<dyn HostSource>>, Failure> {
    let Arguments { log: paths, window, alerts, .. } = arguments;
    let mut groups: Vec<(String, Vec<PathBuf>, Logs)> = Vec::new();
    for path in paths {
        let logs = log::open(std::slice::from_ref(path), window)?;
        let host = logs.host_name();
        match groups.iter_mut().find(|(name, ..)| !host.is_empty() && *name == host) {
            Some((_, known, opened)) => {
                known.push(path.clone());
                *opened = log::open(known, window)?;
            }
            None => {
                let file = || path.file_name().map_or_else(|| path.display().to_string(), |f| f.display().to_string());
                groups.push((if host.is_empty() { file() } else { host }, vec![path.clone()], logs));
            }
        }
    }
    let source = |(name, paths, logs): (String, Vec<PathBuf>, Logs)| -> Result<Box<dyn HostSource>, Failure> {
        Ok(Box::new(ServedSource::from_logs(name, logs, &paths, (pack.clone(), Some(alerts)))?))
    };
    groups.into_iter().map(source).collect()
}

/// Returns the machines of a store, worst first; each is read when somebody opens it.
fn sources_of_store(arguments: &Arguments, pack: &Pack) -> Result<Vec<Box<dyn HostSource>>, Failure> {
    let (store_arguments, window) = (arguments.store.clone(), fix_window(&arguments.store, &arguments.window)?);
    let ranked = fleet::rank_hosts(&store_arguments, &window, &arguments.judging)?;
    let fetch: LogFetch =
        Arc::new(move |host: &str| metric_store::fetch_as_logs(&store_arguments.for_host(host)?, &window));
    let source = |(name, verdict)| -> Box<dyn HostSource> {
        Box::new(LateSource {
            name,
            verdict: Some(verdict),
            pack: pack.clone(),
            alerts: Some(arguments.alerts.clone()),
            is_live: false,
            interval_ns: 1_000_000_000,
            paths: Vec::new(),
            fetch: Arc::clone(&fetch),
            fetched: OnceLock::new(),
            fetch_lock: Mutex::default(),
        })
    };
    Ok(ranked.into_iter().map(source).collect())
}

/// Fixes the ends of a ranking's window, so that a page opened later shows what was ranked.
fn fix_window(store_arguments: &StoreArguments, window: &LogWindow) -> Result<LogWindow, Failure> {
    let query = store_arguments.host_query(window, fleet::DEFAULT_WINDOW)?;
    let end = |ms: i64| Some(time_argument::rfc3339(ms * 1_000_000));
    Ok(window.with_ends(end(query.from_ms), end(query.to_ms)))
}

/// Serves a log that this process records; the page and the recorder share nothing but the log. `raises_alerts` is true
/// if the recorder raises alerts, so that the page need not search for them.
pub fn serve_recording(
    listen: &str,
    page: &PageArguments,
    (dir, every): (&Path, Duration),
    raises_alerts: bool,
) -> Result<WebView, Failure> {
    let missing = || Failure::Failed("there is no rule pack `default`".into());
    let pack = packs::builtin_pack("default").ok_or_else(missing)??;
    let paths = vec![dir.to_owned()];
    let log = paths.clone();
    let source = LateSource {
        name: local_host_name(),
        verdict: None,
        pack: pack.clone(),
        alerts: (!raises_alerts).then(AlertArguments::default),
        is_live: true,
        interval_ns: i64::try_from(every.as_nanos()).unwrap_or(i64::MAX),
        paths,
        fetch: Arc::new(move |_: &str| log::open(&log, &LogWindow::default())),
        fetched: OnceLock::new(),
        fetch_lock: Mutex::default(),
    };
    start_web_view(("--serve", listen), page, pack, vec![Box::new(source)])
}

/// Serves hosts at the address that an option gave, and prints it.
fn start_web_view(
    (option, listen): (&str, &str),
    page: &PageArguments,
    pack: Pack,
    hosts: Vec<Box<dyn HostSource>>,
) -> Result<WebView, Failure> {
    let failed = |e: std::io::Error| {
        let text = format!("{option} {listen}: {e}");
        if e.kind() == std::io::ErrorKind::InvalidInput { Failure::Usage(text) } else { Failure::Failed(text) }
    };
    // an invalid address is not open to anybody
    check_address(listen).map_err(failed)?;
    let is_open =
        listen.parse::<u16>().is_err() && !listen.parse::<SocketAddr>().is_ok_and(|a| is_loopback_address(a.ip()));
    if is_open && page.token_file.is_none() {
        // the address that a name resolves to is unknown here
        let verb = if listen.parse::<SocketAddr>().is_ok() { "is" } else { "may be" };
        let reason = format!(
            "{option} {listen} {verb} reachable from other machines; give --token-file FILE to restrict access"
        );
        return Err(Failure::Usage(reason));
    }
    let token = page.token_file.as_deref().map(read_or_make_token).transpose()?;
    let mut names = page.names.clone();
    // a token protects the page whatever the name resolves to
    names.extend(Some(local_host_name()).filter(|name| token.is_some() && !name.is_empty()));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let panels = watch::load_panels(page.panels.as_deref())?;
    let settings = WebSettings { panels, pack, ceilings: ceilings::known_ceilings().to_vec(), version };
    let access = WebAccess { names: HostNames(names), token: token.clone() };
    let view = WebView::start(listen, access, settings, hosts).map_err(failed)?;
    let address = view.address();
    match (&token, &page.token_file) {
        // on a terminal only, because other outputs may be stored
        (Some(token), _) if output::is_stderr_terminal() => {
            output::print_warning(format_args!("serving http://{address}/?token={token}"));
        }
        (Some(_), Some(file)) => {
            output::print_warning(format_args!(
                "serving http://{address}/ to clients with the token in {}",
                file.display()
            ));
        }
        _ => {
            output::print_warning(format_args!("serving http://{address}/ to this machine only; press Ctrl-C to stop"))
        }
    }
    Ok(view)
}

fn is_loopback_address(address: IpAddr) -> bool {
    address.is_loopback()
}

/// Reads the token from a file, which is created if it is missing.
fn read_or_make_token(path: &Path) -> Result<String, Failure> {
    if !path.exists() {
        let new_token = random_text(TOKEN_BYTES)?;
        let mut file = diskwright_hostfiles::private_files::create(path)?;
        std::io::Write::write_all(&mut file, format!("{new_token}\n").as_bytes())?;
    }
    let token = credentials::read_secret(path)?;
    if token.len() < 16 || !token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b)) {
        let reason = "a token needs at least 16 letters, digits, `-`, `_`, `.` or `~`";
        return Err(Failure::Failed(format!("{}: {reason}", path.display())));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranking_window_does_not_move() {
        let window = fix_window(&StoreArguments::default(), &LogWindow::default()).unwrap();
        let (from, to) = window.parse_ends(0).unwrap();
        assert_eq!(to.zip(from).map(|(to, from)| to - from), Some(24 * 3600 * 1_000_000_000));
        assert_eq!(window.parse_ends(i64::MAX / 2).unwrap(), (from, to));
    }
}
