//! `record --remote-write URL` and `--listen`: the recorder's ticks for other
//! people's dashboards.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use diskwright_base::{Note, Topology};
use diskwright_counters::live::Sampler;
use diskwright_remote::feed::{Feed, Shot};
use diskwright_remote::{Access, RemoteWriter, Server, Store};
use serde_json::{Value, json};

use super::Failure;

/// Where ticks go besides the log.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Prometheus")]
pub struct Feeding {
    /// Send each tick to a store's /api/v1/write: http://[USER:PASSWORD@]HOST:PORT
    #[arg(long, value_name = "URL")]
    remote_write: Option<String>,
    /// A header for each request of --remote-write, such as 'Authorization: Bearer …' (repeatable)
    #[arg(long, requires = "remote_write", value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The `instance` label that --remote-write sends; the host name where it is not given
    #[arg(long, requires = "remote_write", value_name = "NAME")]
    instance: Option<String>,
    /// Serve the counters at /metrics: a port (on the loopback interface), or ADDRESS:PORT
    #[arg(long, value_name = "PORT|ADDRESS:PORT")]
    listen: Option<String>,
}

/// The feeds of a recording.
pub struct Feeds {
    options: Feeding,
    feed: Feed,
    writer: Option<RemoteWriter>,
    shot: Arc<Mutex<Shot>>,
    server: Option<Server>,
    /// Samples that were told to be lost.
    told_lost: u64,
    told_trouble: Option<String>,
}

impl Feeds {
    /// Starts what was asked for.
    pub fn start(options: &Feeding) -> Result<Feeds, Failure> {
        let shot: Arc<Mutex<Shot>> = Arc::default();
        let server = match &options.listen {
            Some(address) => {
                let server = Server::start(address, Arc::clone(&shot))
                    .map_err(|e| Failure::Failed(format!("--listen {address}: {e}")))?;
                eprintln!("diskwright: serving http://{}/metrics", server.address());
                Some(server)
            }
            None => None,
        };
        if let Some(url) = &options.remote_write {
            // a wrong address is said at once, not at the first tick
            store(url, options)?;
        }
        Ok(Feeds {
            options: options.clone(),
            feed: Feed::new(),
            writer: None,
            shot,
            server,
            told_lost: 0,
            told_trouble: None,
        })
    }

    /// True where anything is fed.
    pub fn is_on(&self) -> bool {
        self.server.is_some() || self.options.remote_write.is_some()
    }

    /// Takes in a note of the sampler.
    pub fn note(&mut self, note: &Note) -> Result<(), Failure> {
        if !self.is_on() {
            return Ok(());
        }
        self.feed.note(note);
        if note.kind == Note::TOPOLOGY
            && self.writer.is_none()
            && let Some(url) = &self.options.remote_write
        {
            let topology: Topology = serde_json::from_str(&note.text).unwrap_or_default();
            let name = self.options.instance.clone().unwrap_or(topology.host);
            let labels = vec![("instance".to_owned(), name), ("job".to_owned(), "diskwright".to_owned())];
            self.writer = Some(RemoteWriter::start(store(url, &self.options)?, labels)?);
        }
        Ok(())
    }

    /// Takes in the sampler's last tick.
    pub fn tick(&mut self, sampler: &Sampler) {
        if !self.is_on() {
            return;
        }
        self.feed.tick(sampler.stamp(), sampler.schema(), sampler.row());
        if let Some(writer) = &self.writer {
            writer.push(self.feed.shot());
        }
        if self.server.is_some()
            && let Ok(mut shot) = self.shot.lock()
        {
            shot.clone_from(self.feed.shot());
        }
        self.tell();
    }

    /// Says what went wrong since it was last said.
    fn tell(&mut self) {
        let Some(writer) = &self.writer else { return };
        let trouble = writer.fate().trouble.lock().map(|t| t.clone()).unwrap_or_default();
        if trouble != self.told_trouble {
            if let Some(text) = &trouble {
                eprintln!("diskwright: --remote-write: {text}");
            }
            self.told_trouble = trouble;
        }
        let lost = writer.fate().lost.load(Ordering::Relaxed);
        if lost > 0 && self.told_lost == 0 {
            eprintln!("diskwright: --remote-write: samples are being lost; the log has them");
        }
        self.told_lost = lost;
    }

    /// Sends what is left, and gives what became of all of it.
    pub fn finish(&mut self) -> Option<Value> {
        let writer = self.writer.as_mut()?;
        writer.finish();
        let count = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
        let fate = writer.fate();
        let (sent, lost, retries) = (count(&fate.sent), count(&fate.lost), count(&fate.retries));
        if lost > 0 {
            eprintln!("diskwright: --remote-write: {sent} samples sent, {lost} lost");
        }
        Some(json!({ "samples_sent": sent, "samples_lost": lost, "retries": retries }))
    }
}

fn store(url: &str, options: &Feeding) -> Result<Store, Failure> {
    let access = Access { headers: options.header.clone(), timeout: Duration::from_secs(10), ..Access::new(url) };
    Store::new(&access).map_err(|e| Failure::Usage(e.to_string()))
}
