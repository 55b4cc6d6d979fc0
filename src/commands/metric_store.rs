//! `--prometheus URL`: a metric store instead of a log.

use std::time::Duration;

use clap::Args;
use diskwright_base::units::parse_duration;
use diskwright_counters::live::{Clock, SystemClock};
use diskwright_ingest::{Input, report_store_warnings};
use diskwright_remote::host::HostQuery;
use diskwright_remote::{MetricStore, Selector};

use super::Failure;
use super::credentials::{self, Credentials};
use super::log::{self, LogWindow, Logs};

/// Window of a store if none is given.
const DEFAULT_WINDOW: Duration = Duration::from_secs(3600);

/// Access to a metric store.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Metric stores")]
pub struct StoreArguments {
    /// Read from a store with the Prometheus query API (VictoriaMetrics, Mimir …): http://[USER@]HOST:PORT
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Label matchers that select the machine, such as '{instance="db1:9100"}'
    #[arg(long = "match", requires = "prometheus", value_name = "MATCHERS")]
    matching: Option<String>,
    /// The label that identifies machines in the store
    #[arg(long, requires = "prometheus", default_value = "instance", value_name = "LABEL")]
    by: String,
    /// Sampling interval; by default chosen to suit the window, and never shorter than the scrape interval
    #[arg(long, requires = "prometheus", value_parser = parse_duration, value_name = "DURATION")]
    step: Option<Duration>,
    /// Add a header to each request, such as 'X-Cluster: eu' (repeatable)
    #[arg(long, requires = "prometheus", value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The tenant, for a store with several (sent as X-Scope-OrgID)
    #[arg(long, requires = "prometheus", value_name = "NAME")]
    tenant: Option<String>,
    /// Timeout of one query
    #[arg(long, requires = "prometheus", default_value = "120s", value_parser = parse_duration, value_name = "TIME")]
    timeout: Duration,
    #[command(flatten)]
    credentials: Credentials,
}

impl StoreArguments {
    /// True if a store was named.
    pub fn is_given(&self) -> Result<bool, Failure> {
        if self.prometheus.is_none() && self.credentials.is_given() {
            return Err(Failure::Usage("a password or token needs --prometheus".into()));
        }
        Ok(self.prometheus.is_some())
    }

    /// Returns the store, before any query.
    pub fn open_store(&self) -> Result<MetricStore, Failure> {
        let url = self.prometheus.as_deref().ok_or_else(|| Failure::Usage("no store given".into()))?;
        credentials::warn_about_visible_secrets(url, &self.header);
        let mut access = self.credentials.store_access(url, &self.header)?;
        access.timeout = self.timeout;
        access.headers.extend(self.tenant.iter().map(|tenant| format!("X-Scope-OrgID: {tenant}")));
        MetricStore::new(&access).map_err(|e| Failure::Usage(e.to_string()))
    }

    /// Returns the arguments narrowed to one machine.
    pub fn for_host(&self, host: &str) -> Result<StoreArguments, Failure> {
        let given = self.matching.as_deref().unwrap_or_default().trim();
        let matchers = given.trim_start_matches('{').trim_end_matches('}').trim().trim_end_matches(',');
        let value = host.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let separator = if matchers.is_empty() { "" } else { "," };
        let matching = format!("{{{matchers}{separator}{}=\"{value}\"}}", self.by);
        Selector::parse(&matching).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(StoreArguments { matching: Some(matching), ..self.clone() })
    }

    /// Returns the query; `default_window` applies if no window is given.
    pub fn host_query(&self, window: &LogWindow, default_window: Duration) -> Result<HostQuery, Failure> {
        let now_ns = SystemClock.read_clocks().wall_ns;
        let (from, to) = window.parse_ends(now_ns)?;
        let to_ns = to.unwrap_or(now_ns);
        let default_ns = i64::try_from(default_window.as_nanos()).unwrap_or(i64::MAX);
        let from_ns = from.unwrap_or(to_ns.saturating_sub(default_ns));
        window.check_ends(Some((from_ns, to_ns)))?;
        let selector = Selector::parse(self.matching.as_deref().unwrap_or_default());
        Ok(HostQuery {
            selector: selector.map_err(|e| Failure::Usage(e.to_string()))?,
            host_label: self.by.clone(),
            from_ms: from_ns.div_euclid(1_000_000),
            to_ms: to_ns.div_euclid(1_000_000),
            step_ms: self.step.map(|step| i64::try_from(step.as_millis()).unwrap_or(i64::MAX)),
        })
    }
}

/// Reports the store's warnings: if a part of the store did not respond, its machines are missing.
pub fn report_warnings(store: &MetricStore) {
    report_store_warnings(store, &log::new_reporter());
}

/// Returns one machine of a store.
pub fn new_input(store_arguments: &StoreArguments, window: &LogWindow) -> Result<Input, Failure> {
    let store = store_arguments.open_store()?;
    let query = store_arguments.host_query(window, DEFAULT_WINDOW)?;
    Ok(Input::from_store(store, query, &log::new_reporter()))
}

/// Reads one machine of a store as a log.
pub fn fetch_as_logs(store_arguments: &StoreArguments, window: &LogWindow) -> Result<Logs, Failure> {
    window.refuse_reading_options()?;
    log::open_input(&new_input(store_arguments, window)?, window)
}
