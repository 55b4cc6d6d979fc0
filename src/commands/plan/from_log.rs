//! `plan --from LOG`: the demand of a log, a store, a trace or a described workload, and the questions about it:
//! designs, a change (`--what-if`), the credits of a volume (`--volume`), a whole fleet.

use std::path::{Path, PathBuf};

use clap::Args;
use diskwright_base::byte_size::{ByteSize, parse_capacity};
use diskwright_base::units::{format_significant, format_value, parse_percentage};
use diskwright_base::user_input::did_you_mean;
use diskwright_base::{Frame, LogPiece, Note};
use diskwright_diagnosis::Verdict;
use diskwright_ingest::Input;
use diskwright_planner::bucket_replay::{self, BucketReplay};
use diskwright_planner::operation_rule::{DEFAULT_RULE, OperationRule, continuing_share};
use diskwright_planner::prices::unused::UnusedProvision;
use diskwright_planner::prices::{InstanceCaps, PriceList, VolumeOffer};
use diskwright_planner::series::measured_demand::{DEFAULT_PERCENTILE, utc_offsets};
use diskwright_planner::series::model_distance::{DeviceDistance, find_model_distances, find_uncompared};
use diskwright_planner::series::request_load::RequestLoad;
use diskwright_planner::series::space::{SpaceSource, summarize_space};
use diskwright_planner::series::{
    LoadCollector, LoadSeries, LoadTick, MeasureOptions, MeasuredDemand, demand_from_series,
};
use diskwright_planner::what_if::bounds::{WhatIfBounds, bound_change};
use diskwright_planner::what_if::{WhatIf, WhatIfError, predict_change};
use diskwright_planner::{PlanAnswer, PlanLimits, plan};
use diskwright_simulator::sample_rows::SampleRows;
use diskwright_traces::Statistics;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::written_designs::UsedDesigns;
use super::{Arguments, live_space, load_screen, log_verdict, screen};
use crate::commands::foreign::ForeignOptions;
use crate::commands::log::{self, LogWindow, Logs};
use crate::commands::metric_store::{self, StoreArguments};
use crate::commands::simulate::ChartArguments;
use crate::commands::topology_options::TopologyOptions;
use crate::commands::volume_lines::{draw_unused, draw_volumes, find_unused};
use crate::commands::{Failure, local_host_name, model_distance, output, simulate};

/// Sources of a demand.
#[derive(Args)]
#[command(next_help_heading = "Demand from a log")]
pub struct FromOptions {
    /// Logs of one machine, of any format that `why` reads, or a request trace; with --fleet, of one machine each
    #[arg(long = "from", value_name = "LOG", num_args = 1.., conflicts_with_all = ["prometheus", "trace", "workload"])]
    pub logs: Vec<PathBuf>,
    /// A request trace, of any format that `show` reads
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with_all = ["prometheus", "workload"])]
    pub trace: Vec<PathBuf>,
    /// A described system; its workloads are simulated, and the result is the load (docs/systems.md)
    #[arg(long, value_name = "SYSTEM.toml", conflicts_with = "prometheus")]
    pub workload: Option<PathBuf>,
    /// Start of the window: 2026-11-21T22:15:00Z, "2026-11-21 22:15", 22:15, or -7d (before the log's end)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", conflicts_with_all = ["trace", "workload"])]
    pub since: Option<String>,
    /// End of the window, written like --since
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", conflicts_with_all = ["trace", "workload"])]
    pub until: Option<String>,
    /// Only the load of these disks, arrays, partitions and volumes, by their names in the log (md0,sdb) [default: all
    /// disks and arrays]
    #[arg(long = "device", value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["trace", "workload"])]
    pub devices: Vec<String>,
    /// Plan for this percentile of the load over time [default: 95]
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = parse_percentage)]
    pub percentile: Option<f64>,
    /// Comfort factor: plan for this multiple of the load [default: 1]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, conflicts_with = "what_if")]
    pub comfort: Option<f64>,
    /// Number of concurrent programs or users, if known; it reveals the load that saturation hides
    #[arg(long, value_name = "N")]
    pub users: Option<f64>,
    /// Predict a change: 'memory +16GB', 'move swap to its own disk', 'raid5 to raid10', 'disks +4', 'load +50%',
    /// 'gp3 iops 6000'
    #[arg(long, value_name = "CHANGE")]
    pub what_if: Option<String>,
    /// Replay the load against a volume's limits and credits: NAME:SIZE[:IOPS], such as gp2:500GiB;
    /// with --instance, also against the instance's
    #[arg(long, value_name = "NAME:SIZE", conflicts_with = "what_if")]
    pub volume: Option<String>,
    /// Treat each log, or each machine of the store, as a separate machine, and print one purchase list for all
    #[arg(long, conflicts_with_all = ["what_if", "volume", "trace", "workload", "devices"])]
    pub fleet: bool,
    /// Print the demand, without searching for designs
    #[arg(long)]
    pub demand_only: bool,
    #[command(flatten)]
    reading: ForeignOptions,
    #[command(flatten)]
    arrays: TopologyOptions,
    #[command(flatten)]
    pub store: StoreArguments,
}

impl FromOptions {
    /// True if the demand is measured, not typed.
    pub fn is_given(&self) -> Result<bool, Failure> {
        let has_source = !self.logs.is_empty() || !self.trace.is_empty() || self.workload.is_some();
        if has_source || self.store.is_given()? {
            return Ok(true);
        }
        let options = [
            ("--what-if", self.what_if.is_some()),
            ("--volume", self.volume.is_some()),
            ("--fleet", self.fleet),
            ("--demand-only", self.demand_only),
            ("--percentile", self.percentile.is_some()),
            ("--comfort", self.comfort.is_some()),
            ("--users", self.users.is_some()),
            ("--device", !self.devices.is_empty()),
            ("--since", self.since.is_some()),
            ("--until", self.until.is_some()),
        ];
        match options.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!("{option} needs a log: --from LOG"))),
            None => {
                self.log_window().refuse_volume_options()?;
                self.log_window().refuse_log_options().map(|()| false)
            }
        }
    }

    /// Returns the options for measuring demands.
    pub fn measure_options(&self) -> Result<MeasureOptions, Failure> {
        let usage = |text: String| Err(Failure::Usage(text));
        let (percentile, comfort) = (self.percentile.unwrap_or(DEFAULT_PERCENTILE), self.comfort.unwrap_or(1.0));
        if !(1.0..=100.0).contains(&percentile) {
            return usage(format!("--percentile {percentile}: expected 1 to 100"));
        }
        if !(0.01..=100.0).contains(&comfort) {
            return usage(format!("--comfort {comfort}: expected 0.01 to 100"));
        }
        if self.users.is_some_and(|users| !(users > 0.0 && users <= 1e9)) {
            return usage("--users: expected more than 0".into());
        }
        Ok(MeasureOptions { percentile, comfort, users: self.users, utc_offset_s: 0 })
    }

    /// Refuses chart options, --write and --try if no designs are searched, because they need designs.
    fn check_chart_options(
        &self,
        pictures: &ChartArguments,
        use_of_designs: Option<&'static str>,
    ) -> Result<(), Failure> {
        let options = [
            ("--what-if", self.what_if.is_some()),
            ("--volume", self.volume.is_some()),
            ("--fleet", self.fleet),
            ("--demand-only", self.demand_only),
        ];
        let shown = pictures.are_given().then_some("--html and --svg show designs");
        let Some(given) = use_of_designs.or(shown) else { return Ok(()) };
        match options.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::Usage(format!("{given}, but {option} prints none; leave one of them out")))
            }
            None => Ok(()),
        }
    }

    /// Returns the window of the log, with the options for reading it.
    pub fn log_window(&self) -> LogWindow {
        LogWindow::for_reading(self.since.clone(), self.until.clone(), self.reading.clone(), self.arrays.clone())
            .with_option_names("--since", "--until")
    }
}

/// Sets the zone's offset at the end of a load in the options, for hours of the day. Earlier offsets are stored in the
/// load.
pub fn with_end_offset(options: &MeasureOptions, series: &mut LoadSeries) -> MeasureOptions {
    let zone = TimeZone::system();
    let offset_at = |time_ns: i64| {
        let time = jiff::Timestamp::from_nanosecond(i128::from(time_ns));
        time.map_or(0, |time| i64::from(zone.to_offset(time).seconds()))
    };
    series.utc_offsets = utc_offsets(&series.ticks, offset_at);
    MeasureOptions { utc_offset_s: series.utc_offsets.last().map_or(0, |(_, offset_s)| *offset_s), ..*options }
}

/// Answers from a measured load.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let from = &arguments.from;
    let options = from.measure_options()?;
    let limits = arguments.plan_limits()?;
    arguments.pictures.check_writable()?;
    arguments.demand.refuse_with_log()?;
    from.check_chart_options(&arguments.pictures, arguments.use_of_designs())?;
    if from.fleet {
        return super::fleet::run(arguments, &options, &limits);
    }
    let volume = check_typed_options(from, &limits)?;
    let (mut series, verdict) = read_load(from)?;
    let options = with_end_offset(&options, &mut series);
    let mut measured = demand_from_series(&series, &options).map_err(|e| Failure::Usage(e.to_string()))?;
    let host = verdict.as_ref().map_or("", |verdict| verdict.host.as_str());
    complete_space(&mut series, &mut measured, host);
    measured.demand = arguments.demand.complete_measured(measured.demand)?;
    if arguments.demand.gives_capacity() {
        measured.summary.space.source = Some(SpaceSource::Given);
    }
    let members = measured.summary.devices.iter().max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s));
    let existing = arguments.limits.existing_drives(members.map(|device| device.members))?;
    let limits = PlanLimits { existing, ..limits };
    let predicted =
        from.what_if.as_deref().map(|change| predict_from_series(&series, change, &options, &limits.prices));
    let predicted = predicted.transpose()?;
    let buckets =
        volume.map(|volume| replay_buckets(&series, &volume, &limits, &mut measured, options.comfort)).transpose()?;
    let searches_designs = predicted.is_none() && buckets.is_none() && !from.demand_only;
    let answer = searches_designs.then(|| plan(&measured.demand, &limits)).transpose().map_err(super::plan_failure)?;
    if let Some(answer) = &answer {
        let charts = super::charts::plan_charts(answer);
        arguments.pictures.write_charts("Plan", &charts, || super::charts::plan_sheet(answer, &limits))?;
    }
    if arguments.pictures.write_to_stdout() {
        return Ok(());
    }
    let used = answer.as_ref().map(|answer| arguments.use_designs(answer)).transpose()?.unwrap_or_default();
    let distances = find_model_distances(&series);
    let uncompared = if from.arrays.declares_models() { find_uncompared(&series) } else { Vec::new() };
    let unused = verdict.as_ref().map(|v| find_unused(v, &measured.summary.space, &limits.prices)).unwrap_or_default();
    let findings = LogAnswer { measured, verdict, distances, uncompared, unused, predicted, buckets, answer, used };
    if arguments.json { output::print_json(&findings.document()) } else { findings.print(&options, &limits) }
}

/// All that a log answers.
struct LogAnswer {
    measured: MeasuredDemand,
    verdict: Option<Verdict>,
    distances: Vec<DeviceDistance>,
    /// Disks with a declared model that are not compared, and why.
    uncompared: Vec<(String, String)>,
    unused: Vec<UnusedProvision>,
    predicted: Option<Prediction>,
    buckets: Option<Vec<BucketReplay>>,
    answer: Option<PlanAnswer>,
    used: UsedDesigns,
}

impl LogAnswer {
    fn document(&self) -> Value {
        let mut document = match &self.answer {
            Some(answer) => {
                let mut document = super::plan_document(answer);
                self.used.add_to_json(&mut document);
                document
            }
            None => json!({ "schema": "diskwright.plan/1", "demand": demand_json(&self.measured) }),
        };
        document["load"] = json!(self.measured.summary);
        document["verdict"] = json!(self.verdict);
        document["model_distances"] = json!(self.distances);
        document["provisioned"] = json!(self.unused);
        if let Some(predicted) = &self.predicted {
            document["what_if"] = predicted.to_json();
        }
        if let Some(buckets) = &self.buckets {
            document["buckets"] = json!(buckets);
        }
        document
    }

    fn print(&self, options: &MeasureOptions, limits: &PlanLimits) -> Result<(), Failure> {
        let style = output::wide_table_style();
        let mut text = match &self.verdict {
            Some(verdict) => log_verdict::draw_verdict(verdict, &self.measured.summary, &style),
            None => String::new(),
        };
        text += &match &self.predicted {
            // the model's error comes before its predictions
            Some(Prediction::Modeled(predicted)) => load_screen::draw_what_if(predicted, &style),
            Some(Prediction::Bounded(bounds, because)) => load_screen::draw_bounds(bounds, because, &style),
            None => load_screen::draw_load(&self.measured, options, &style),
        };
        text += &model_distance::draw_distances(&self.distances, &self.uncompared, &style);
        text += &self.verdict.iter().map(|verdict| draw_volumes(verdict, &style)).collect::<String>();
        text += &draw_unused(&self.unused, self.measured.summary.interval_s, &style);
        if let Some(buckets) = &self.buckets {
            text += &load_screen::draw_buckets(buckets, &style);
        }
        if let Some(answer) = &self.answer {
            text += &screen::draw_plan(answer, limits, &style);
            text += &self.used.draw_designs(&style);
        }
        output::print_text(&text)
    }
}

/// Checks typed values before a long log is read; returns the named volume.
fn check_typed_options(from: &FromOptions, limits: &PlanLimits) -> Result<Option<ReplayedVolume>, Failure> {
    let volume = from.volume.as_deref().map(|text| parse_volume(text, &limits.prices)).transpose()?;
    if let Some(volume) = &volume {
        find_instance(&volume.offer, limits)?;
    }
    if let Some(change) = &from.what_if {
        diskwright_planner::what_if::parse_change(change)
            .map_err(|reason| Failure::Usage(format!("--what-if `{change}`: {reason}")))?;
    }
    Ok(volume)
}

/// Returns the demand as JSON, with the documented derived fields.
pub fn demand_json(measured: &MeasuredDemand) -> Value {
    let mut value = json!(measured.demand);
    value["size_bytes"] = json!(measured.demand.size_bytes());
    value
}

/// Reads the requested load, and judges the log that it is from; requests and descriptions have no verdict.
fn read_load(from: &FromOptions) -> Result<(LoadSeries, Option<Verdict>), Failure> {
    if !from.trace.is_empty() || from.workload.is_some() {
        from.log_window().refuse_log_options()?;
        from.log_window().refuse_volume_options()?;
    }
    if !from.trace.is_empty() {
        return Ok((load_from_trace(&log::new_input(&from.trace))?, None));
    }
    if let Some(path) = &from.workload {
        return Ok((load_from_workload(path)?, None));
    }
    let window = from.log_window();
    let input = log::new_input(&from.logs);
    if window.is_whole() && from.devices.is_empty() && input.is_request_trace() {
        return Ok((load_from_trace(&input)?, None));
    }
    let logs = match from.store.is_given()? {
        true => metric_store::fetch_as_logs(&from.store, &window)?,
        false => log::open_input(&input, &window)?,
    };
    // a long log is read once for both
    let (mut judge, mut collector) = (log_verdict::new_judge(&logs)?, LoadCollector::for_devices(&from.devices));
    logs.read::<Failure>(|piece| {
        collect_piece(&mut collector, &piece)?;
        log::judge_piece(&mut judge, piece);
        Ok(())
    })?;
    Ok((finish_load(collector, &from.devices)?, judge.finish().into_iter().next()))
}

/// Reads the load of these devices in logs, or of all devices if none is named.
pub fn load_from_logs(logs: &Logs, devices: &[String]) -> Result<LoadSeries, Failure> {
    let mut collector = LoadCollector::for_devices(devices);
    logs.read::<Failure>(|piece| collect_piece(&mut collector, &piece))?;
    finish_load(collector, devices)
}

/// Returns what was collected, if all devices that were named are in the log.
fn finish_load(collector: LoadCollector, devices: &[String]) -> Result<LoadSeries, Failure> {
    let mut series = collector.finish();
    let is_known = |name: &&String| {
        series.fronts.iter().any(|f| f.name == **name || f.leaves.contains(name))
            || series.nested_devices.iter().any(|(within, _)| within == *name)
    };
    if let Some(name) = devices.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> =
            series.fronts.iter().map(|f| &f.name).chain(&series.unselected_devices).map(String::as_str).collect();
        let (suggestion, known) =
            (output::escape_name(did_you_mean(name, &known)), output::escape_name(known.join(", ")));
        let name = output::escape_name(name);
        return Err(Failure::Usage(format!(
            "--device `{name}`: the log has no such disk or array{suggestion}; it has {known}"
        )));
    }
    if !series.unselected_devices.is_empty() {
        series.notes.push(format!("left out: {} (--device)", series.unselected_devices.join(", ")));
    }
    Ok(series)
}

/// Compares the space in use with `df` of this machine, if the log is of it, or takes it from there.
fn complete_space(series: &mut LoadSeries, measured: &mut MeasuredDemand, host: &str) {
    if host.is_empty() || host != local_host_name() {
        return;
    }
    let found = live_space::read_filesystems(&series.fronts);
    let space = &mut measured.summary.space;
    if space.source.is_some() {
        space.remarks.extend(live_space::describe_difference(&space.filesystems, &found));
    } else if !found.is_empty() {
        series.filesystems = found;
        *space = summarize_space(series, SpaceSource::Host);
        measured.demand.capacity_bytes = space.used_bytes.filter(|bytes| *bytes > 0.0);
    }
}

/// Passes a piece of a log to a collector.
pub fn collect_piece(collector: &mut LoadCollector, piece: &LogPiece<'_>) -> Result<(), Failure> {
    match piece {
        LogPiece::Frame(frame) => collector.add_frame(frame),
        LogPiece::Note(note) if note.kind == Note::TOPOLOGY => {
            collector.set_topology(std::sync::Arc::unwrap_or_clone(note.read_topology()?));
        }
        LogPiece::Note(note) if note.kind == Note::SOURCE => collector.set_log_format(note.text()),
        LogPiece::Note(_) => {}
    }
    Ok(())
}

fn load_from_trace(input: &Input) -> Result<LoadSeries, Failure> {
    let mut trace = input.open_requests(None)?;
    let (mut load, mut statistics) = (RequestLoad::default(), Statistics::new());
    for request in trace.by_ref() {
        let request = request?;
        load.push(&request);
        statistics.push(&request);
    }
    let summary = trace.summary();
    let report = statistics.finish(&summary.devices);
    let name = summary.files.first().cloned().unwrap_or_default();
    let mut series = load.into_series(&name);
    series.sequential_share = report.all.sequential_in_streams.or(report.all.sequential);
    if report.all.footprint.bytes > 0 {
        let bytes = ByteSize::capacity(report.all.footprint.bytes as f64);
        series.notes.push(format!("its requests touch {bytes}; give the capacity needed with --capacity"));
    }
    Ok(series)
}

fn load_from_workload(path: &Path) -> Result<LoadSeries, Failure> {
    let (system, notes) = simulate::system_run::read_system(path, &[])?;
    let mut samples = SampleRows::new(&system);
    let mut collector = LoadCollector::default();
    collector.set_topology(samples.topology().clone());
    let (mut frame, mut row) = (Frame::default(), Vec::new());
    let outcome = simulate::system_run::simulate_system(system, notes, |report| {
        let tick = samples.build_row(report, &mut row);
        frame.reset(samples.schema().clone(), 1);
        frame.push(tick, &row);
        collector.add_frame(&frame);
        Ok(())
    })?;
    if let Some(reason) = outcome.unmeasured_reason() {
        return Err(Failure::Failed(format!("{}: {reason}", path.display())));
    }
    let mut series = collector.finish();
    series.notes.extend(outcome.notes);
    series
        .notes
        .push("simulated on the described system; its drives affect the rate at which users send requests".into());
    Ok(series)
}

fn predict_from_series(
    series: &LoadSeries,
    change: &str,
    options: &MeasureOptions,
    prices: &PriceList,
) -> Result<Prediction, Failure> {
    let failure = |error: WhatIfError| match error {
        WhatIfError::Names(..) => Failure::Usage(error.to_string()),
        WhatIfError::Refused(..) | WhatIfError::NoModel(..) => Failure::Failed(error.to_string()),
    };
    match predict_change(series, change, options.percentile, options.users, prices) {
        Ok(predicted) => Ok(Prediction::Modeled(predicted)),
        Err(WhatIfError::NoModel(_, because)) => {
            Ok(Prediction::Bounded(bound_change(series, change, options.percentile).map_err(failure)?, because))
        }
        Err(error) => Err(failure(error)),
    }
}

/// What a log says of a change.
enum Prediction {
    Modeled(WhatIf),
    /// Bounds, and why no model fits.
    Bounded(WhatIfBounds, String),
}

impl Prediction {
    /// Bounds have the fields of a prediction too: those that they lack are null.
    fn to_json(&self) -> Value {
        match self {
            Prediction::Modeled(predicted) => json!(predicted),
            Prediction::Bounded(bounds, because) => {
                let mut document = json!(bounds);
                for field in ["model_error", "modelled_before", "after"] {
                    document[field] = Value::Null;
                }
                document["because"] = json!(because);
                document
            }
        }
    }
}

/// A volume with a size, and purchased operations.
struct ReplayedVolume {
    offer: VolumeOffer,
    gib: f64,
    iops: Option<f64>,
}

/// Parses `gp2:500GiB`, `gp3:1TiB:6000`.
fn parse_volume(text: &str, prices: &PriceList) -> Result<ReplayedVolume, Failure> {
    let volume_error = |because: String| Failure::Usage(format!("--volume `{text}`: {because}"));
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default().to_lowercase();
    let offer = prices.find_volume(&name).cloned().ok_or_else(|| {
        let ids: Vec<&str> = prices.volumes.iter().map(|v| v.id.as_str()).collect();
        let short_names = ids.iter().filter_map(|id| Some(id.split_once('-')?.1));
        let suggestion = did_you_mean(&name, short_names.chain(ids.iter().copied()).collect::<Vec<&str>>());
        volume_error(format!("unknown volume{suggestion}; volumes: {}", ids.join(", ")))
    })?;
    let size = parts.next().ok_or_else(|| volume_error("write a name and a size, such as gp2:500GiB".into()))?;
    let gib = parse_capacity(size).map_err(|error| volume_error(error.to_string()))? as f64 / 1_073_741_824.0;
    if !(offer.gib[0]..=offer.gib[1]).contains(&gib) {
        return Err(volume_error(format!("{gib:.0} GiB; it has {:.0} to {:.0}", offer.gib[0], offer.gib[1])));
    }
    let iops = parts.next().map(|text| text.parse::<f64>().ok().filter(|n| *n > 0.0).ok_or(text)).transpose();
    let iops = iops.map_err(|text| volume_error(format!("`{text}` is not a number of operations per second")))?;
    if parts.next().is_some() {
        return Err(volume_error("write NAME:SIZE or NAME:SIZE:IOPS, such as gp3:1TiB:6000".into()));
    }
    match iops {
        Some(_) if !offer.iops.sold => Err(volume_error(format!("{} sells no IOPS: its size decides them", offer.id))),
        Some(iops) if iops > offer.iops.max_value(gib) => {
            Err(volume_error(format!("at most {:.0} operations per second at this size", offer.iops.max_value(gib))))
        }
        Some(iops) if iops < offer.iops.base => {
            Err(volume_error(format!("{} has at least {:.0} operations per second", offer.id, offer.iops.base)))
        }
        iops => Ok(ReplayedVolume { offer, gib, iops }),
    }
}

/// Replays the credits of a volume and of the named instance along a load, and adds notes about them.
fn replay_buckets(
    series: &LoadSeries,
    volume: &ReplayedVolume,
    limits: &PlanLimits,
    measured: &mut MeasuredDemand,
    comfort: f64,
) -> Result<Vec<BucketReplay>, Failure> {
    let offer = &volume.offer;
    let ticks: Vec<LoadTick> = series.ticks.iter().map(|tick| tick.scaled_by(comfort)).collect();
    let rule = OperationRule::for_offer(offer);
    // a log shows no sequential share; only a typed one (--sequential) is known
    let sequential = measured.demand.sequential_share;
    let continuing = continuing_share(sequential, measured.demand.read_share());
    let mut replays: Vec<BucketReplay> = bucket_replay::volume_buckets(offer, volume.gib, volume.iops, None)
        .iter()
        .map(|bucket| bucket_replay::replay_bucket(bucket, &ticks, &rule, continuing))
        .collect();
    if let Some(caps) = find_instance(offer, limits)? {
        // an instance counts the bytes that are moved
        replays.extend(
            bucket_replay::instance_buckets(caps)
                .iter()
                .map(|bucket| bucket_replay::replay_bucket(bucket, &ticks, &DEFAULT_RULE, 0.0)),
        );
    }
    let mut notes = Vec::new();
    if let Some(caps) = find_instance(offer, limits)?.filter(|caps| caps.burst.is_none()) {
        notes.push(format!("{}: no rates above its baseline are known, so only the baseline is allowed", caps.id));
    }
    if let Some(bytes) = measured.demand.capacity_bytes.filter(|bytes| *bytes > volume.gib * 1_073_741_824.0) {
        notes.push(format!(
            "{} are in use, more than the volume's {} GiB",
            ByteSize::capacity(bytes),
            format_significant(volume.gib)
        ));
    }
    if rule.draws_whole_units {
        let unit = format_value(rule.unit_bytes, "bytes");
        notes.push(match sequential {
            Some(_) => format!("{}: every request that does not continue the previous one counts as {unit}", offer.id),
            None => format!("{}: the log does not show the order of requests, so each counts as {unit}", offer.id),
        });
    }
    let unknown_s = bucket_replay::unknown_time_s(&ticks);
    if unknown_s > 0.0 {
        let gaps = format_value(unknown_s, "s");
        notes.push(format!("gaps of {gaps} in all: the load is unknown then, and credits and delays stay the same"));
    }
    if !measured.summary.hidden.is_empty() {
        notes.push(
            "the disks were saturated: only the load that they served was replayed, not what programs would send to \
             a faster volume"
                .into(),
        );
    }
    measured.summary.notes.append(&mut notes);
    Ok(replays)
}

/// Finds the named instance, which must be of the volume's provider.
fn find_instance<'a>(offer: &VolumeOffer, limits: &'a PlanLimits) -> Result<Option<&'a InstanceCaps>, Failure> {
    match limits.instance_caps().map_err(super::plan_failure)? {
        Some(caps) if caps.provider != offer.provider => Err(Failure::Usage(format!(
            "--instance {} belongs to {}, but --volume {} to {}",
            caps.id, caps.provider, offer.id, offer.provider
        ))),
        caps => Ok(caps),
    }
}
