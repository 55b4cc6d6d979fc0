//! `record --remote-write URL` and `--listen`: the recorder's ticks for external dashboards.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use diskwright_base::Note;
use diskwright_base::units::format_count;
use diskwright_counters::live::Sampler;
use diskwright_remote::feed::SeriesFeed;
use diskwright_remote::{HostNames, LastTick, MetricStore, MetricsServer, RemoteWriter, ServerLimits};
use serde_json::{Value, json};

use super::credentials::{self, Credentials};
use super::{Failure, local_host_name, output};

/// Minimum interval between reports of the same trouble.
const TROUBLE_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Destinations of ticks besides the log.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Prometheus")]
pub struct FeedArguments {
    /// Send each tick to a store: http://[USER@]HOST:PORT (then /api/v1/write), or a full write URL
    #[arg(long, value_name = "URL")]
    remote_write: Option<String>,
    /// Add a header to each request of --remote-write, such as 'X-Scope-OrgID: NAME' (repeatable)
    #[arg(long, requires = "remote_write", value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The `instance` label that --remote-write sends; by default the host name
    #[arg(long, requires = "remote_write", value_name = "NAME")]
    instance: Option<String>,
    /// Serve the counters at /metrics: a port (on the loopback interface), or ADDRESS:PORT
    #[arg(long, value_name = "PORT|ADDRESS:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
}

impl FeedArguments {
    /// True if any of them is given.
    pub fn is_given(&self) -> bool {
        self.remote_write.is_some() || self.listen.is_some()
    }

    /// True if `/metrics` is served.
    pub fn has_server(&self) -> bool {
        self.listen.is_some()
    }
}

/// The feeds of a recording.
pub struct Feeds {
    options: FeedArguments,
    feed: SeriesFeed,
    writer: Option<RemoteWriter>,
    last_tick: LastTick,
    server: Option<MetricsServer>,
    reported: ReportedTrouble,
}

/// State of the store as last reported.
#[derive(Default)]
struct ReportedTrouble {
    has_reported_loss: bool,
    trouble: Option<(String, Instant)>,
}

impl Feeds {
    /// Starts the feeds that were requested. Scrapers may use these names of this host, and its own.
    pub fn start(options: &FeedArguments, names: &[String]) -> Result<Feeds, Failure> {
        let last = LastTick::default();
        let server =
            options.listen.as_deref().map(|address| start_metrics_server(address, names, &last)).transpose()?;
        match &options.remote_write {
            Some(url) => {
                credentials::warn_about_visible_secrets(url, &options.header);
                // a wrong address is reported at once, not at the first tick
                open_store(url, options)?;
            }
            None if options.credentials.is_given() => {
                return Err(Failure::Usage("a password or token needs --remote-write".into()));
            }
            None => {}
        }
        let (writer, reported) = (None, ReportedTrouble::default());
        Ok(Feeds { options: options.clone(), feed: SeriesFeed::new(), writer, last_tick: last, server, reported })
    }

    /// True if any feed is active.
    pub fn is_active(&self) -> bool {
        self.server.is_some() || self.options.remote_write.is_some()
    }

    /// Handles a note of the sampler.
    pub fn handle_note(&mut self, note: &Note) -> Result<(), Failure> {
        if !self.is_active() {
            return Ok(());
        }
        self.feed.add_note(note);
        if note.kind == Note::TOPOLOGY
            && self.writer.is_none()
            && let Some(url) = &self.options.remote_write
        {
            let topology = note.read_topology().unwrap_or_default();
            let name = self.options.instance.clone().unwrap_or_else(|| topology.host.clone());
            let labels = vec![("instance".to_owned(), name), ("job".to_owned(), "diskwright".to_owned())];
            self.writer = Some(RemoteWriter::start(open_store(url, &self.options)?, labels)?);
        }
        Ok(())
    }

    /// Publishes the sampler's last tick; `log` is the log that also has it.
    pub fn publish_tick(&mut self, sampler: &Sampler, log: Option<&Path>) {
        if !self.is_active() {
            return;
        }
        self.feed.add_tick(sampler.tick_stamp(), sampler.schema(), sampler.row());
        if let Some(writer) = &self.writer {
            writer.push(self.feed.snapshot());
            self.reported.report_changes(writer, log);
        }
        if self.server.is_some() {
            self.last_tick.set(self.feed.snapshot());
        }
    }

    /// Sends what is left, for at most a second or two, and returns the totals. Fails if samples were lost that no log
    /// has: `log` is its folder and the number of ticks that it lost itself.
    pub fn finish_sending(&mut self, log: Option<(&Path, u64)>) -> (Option<Value>, Result<(), Failure>) {
        let Some(writer) = &mut self.writer else { return (None, Ok(())) };
        let result = writer.finish();
        let (sent, lost, retries) = (result.sent, result.lost, result.retries);
        let permanently_lost = if log.is_some_and(|(_, lost_ticks)| lost_ticks == 0) { 0 } else { lost };
        let document = json!({
            "samples_sent": sent, "samples_lost": lost, "retries": retries, "samples_lost_for_good": permanently_lost,
        });
        if lost == 0 {
            return (Some(document), Ok(()));
        }
        let trouble = writer.current_trouble().map_or_else(String::new, |text| format!(" ({text})"));
        let sent = format_count(sent, "sample", "samples");
        let summary = format!("--remote-write: {sent} sent, {lost} rejected or not delivered{trouble}");
        let outcome = match log {
            Some((dir, 0)) => {
                output::print_warning(format_args!("{summary}; {}", resend_hint(dir)));
                Ok(())
            }
            Some((dir, ticks)) => {
                let (dir, ticks) = (dir.display(), format_count(ticks, "tick", "ticks"));
                Err(Failure::Failed(format!("{summary}; {dir} has all of them except {ticks} that it lost itself")))
            }
            None => Err(Failure::Failed(format!(
                "{summary}: permanently lost, because there is no log; use `record DIR --remote-write …` to keep one"
            ))),
        };
        (Some(document), outcome)
    }
}

impl ReportedTrouble {
    /// Reports when sending starts to fail, and when it works again.
    fn report_changes(&mut self, writer: &RemoteWriter, log: Option<&Path>) {
        match (writer.current_trouble(), &self.trouble) {
            (Some(text), before) => {
                let is_due = before.as_ref().is_none_or(|(_, last)| last.elapsed() >= TROUBLE_REPORT_INTERVAL);
                if is_due && before.as_ref().is_none_or(|(reported, _)| *reported != text) {
                    output::print_warning(format_args!("--remote-write: {text}"));
                    self.trouble = Some((text, Instant::now()));
                }
            }
            (None, Some(_)) => {
                output::print_warning(format_args!("--remote-write: the store accepts samples again"));
                self.trouble = None;
            }
            (None, None) => {}
        }
        if writer.send_result().lost > 0 && !self.has_reported_loss {
            self.has_reported_loss = true;
            match log {
                Some(dir) => output::print_warning(format_args!(
                    "--remote-write: samples are missing from the store; {}",
                    resend_hint(dir)
                )),
                None => output::print_warning(format_args!(
                    "--remote-write: samples are permanently lost, because there is no log"
                )),
            }
        }
    }
}

/// Hint on how to send samples that a store did not accept.
fn resend_hint(dir: &Path) -> String {
    let dir = dir.display();
    format!("{dir} has them: `diskwright export {dir} --as prometheus -o FILE` writes a file to import")
}

fn start_metrics_server(address: &str, names: &[String], last: &LastTick) -> Result<MetricsServer, Failure> {
    let failed = |e: std::io::Error| {
        let text = format!("--listen {address}: {e}");
        if e.kind() == std::io::ErrorKind::InvalidInput { Failure::Usage(text) } else { Failure::Failed(text) }
    };
    // no other site can let the plain name of this host resolve to anything
    let own = Some(local_host_name()).filter(|name| !name.is_empty());
    let names = HostNames(names.iter().cloned().chain(own).collect());
    let server = MetricsServer::start(address, names, last.clone(), ServerLimits::default()).map_err(failed)?;
    let address = server.address();
    let audience =
        if address.ip().is_loopback() { "" } else { ", without a password, to everyone who can reach this machine" };
    output::print_warning(format_args!("serving http://{address}/metrics{audience}"));
    Ok(server)
}

fn open_store(url: &str, options: &FeedArguments) -> Result<MetricStore, Failure> {
    let mut access = options.credentials.store_access(url, &options.header)?;
    access.timeout = Duration::from_secs(10);
    MetricStore::for_writing(&access).map_err(|e| Failure::Usage(e.to_string()))
}
