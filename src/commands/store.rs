//! `--prometheus URL`: a store of metrics instead of a log.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_logs::Summary;
use diskwright_remote::host::{self, Wanted};
use diskwright_remote::{Access, Selector, Store};

use super::log::{Logs, Window};
use super::{Failure, foreign};

/// How a store is asked.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Stores of metrics")]
pub struct Asking {
    /// A store with the query API of Prometheus (VictoriaMetrics, Mimir …): http://[USER:PASSWORD@]HOST:PORT
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Which machine: label matchers, such as '{instance="db1:9100"}'
    #[arg(long = "match", requires = "prometheus", value_name = "MATCHERS")]
    matching: Option<String>,
    /// The label that names machines there
    #[arg(long, requires = "prometheus", default_value = "instance", value_name = "LABEL")]
    by: String,
    /// Time between two ticks; what suits the window where it is not given, and never less than a scrape
    #[arg(long, requires = "prometheus", value_parser = parse_duration, value_name = "DURATION")]
    step: Option<Duration>,
    /// A header for each request, such as 'Authorization: Bearer …' (repeatable)
    #[arg(long, requires = "prometheus", value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The tenant of a store that has several (sent as X-Scope-OrgID)
    #[arg(long, requires = "prometheus", value_name = "NAME")]
    tenant: Option<String>,
    /// The most that one query may take
    #[arg(long, requires = "prometheus", default_value = "120s", value_parser = parse_duration, value_name = "TIME")]
    timeout: Duration,
}

impl Asking {
    /// True where a store was named.
    pub fn is_asked(&self) -> bool {
        self.prometheus.is_some()
    }

    /// The store, not asked yet.
    pub fn store(&self) -> Result<Store, Failure> {
        let url = self.prometheus.as_deref().ok_or_else(|| Failure::Usage("no store named".into()))?;
        let mut access = Access { headers: self.header.clone(), timeout: self.timeout, ..Access::new(url) };
        access.headers.extend(self.tenant.iter().map(|tenant| format!("X-Scope-OrgID: {tenant}")));
        Store::new(&access).map_err(|e| Failure::Usage(e.to_string()))
    }

    /// What is wanted of it; `usual` is the window where none is given.
    pub fn wanted(&self, window: &Window, usual: Duration) -> Result<Wanted, Failure> {
        let now_ns = SystemClock.read().wall_ns;
        let (from, to) = window.ends(now_ns)?;
        let to_ns = to.unwrap_or(now_ns);
        let usual_ns = i64::try_from(usual.as_nanos()).unwrap_or(i64::MAX);
        let from_ns = from.unwrap_or(to_ns.saturating_sub(usual_ns));
        if from_ns >= to_ns {
            return Err(Failure::Usage("--from is not before --to".into()));
        }
        let selector = Selector::parse(self.matching.as_deref().unwrap_or_default());
        Ok(Wanted {
            selector: selector.map_err(|e| Failure::Usage(e.to_string()))?,
            by: self.by.clone(),
            from_ms: from_ns.div_euclid(1_000_000),
            to_ms: to_ns.div_euclid(1_000_000),
            step_ms: self.step.map(|step| i64::try_from(step.as_millis()).unwrap_or(i64::MAX)),
        })
    }
}

/// Reads one machine of a store into a log of ours.
pub fn fetch(asking: &Asking, window: &Window, to: &Path) -> Result<Summary, Failure> {
    let store = asking.store()?;
    let wanted = asking.wanted(window, Duration::from_secs(3600))?;
    let summary = foreign::keep(to, |sink| host::read(&store, &wanted, sink))?;
    foreign::tell_skipped(Path::new(store.shown()), &summary);
    let (queries, seconds, bytes) = store.spent();
    let size = diskwright_base::units::display(bytes as f64, "bytes");
    eprintln!("diskwright: {}: {queries} queries, {seconds:.2} s, {size}", store.shown());
    Ok(summary)
}

/// One machine of a store as a log; it goes away with the value.
pub fn logs(asking: &Asking, window: &Window) -> Result<Logs, Failure> {
    let made = tempfile::Builder::new().prefix("diskwright-").tempdir()?;
    fetch(asking, window, made.path())?;
    Logs::of_made(made, window)
}
