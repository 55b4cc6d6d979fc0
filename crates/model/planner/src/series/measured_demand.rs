//! Computes a demand from the sums of a log.

use std::collections::HashSet;

use diskwright_statistics::{LineFit, WeightedPoint, blocks};
use serde::Serialize;

use super::hidden_load::{HiddenLoad, find_hidden_load};
use super::log_rating::{LogRating, rate_log};
use super::space::{SpaceSource, SpaceSummary, summarize_space};
use super::time_distribution::TimeDistribution;
use super::{FrontLoad, LoadSeries, LoadTick, SwapLoad};
use crate::demand::{CapacityGrowth, Demand, EstimatedField};

/// Options for computing a demand from a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureOptions {
    /// Percent of the time for which the load is not exceeded.
    pub percentile: f64,
    /// Factor by which the rates are multiplied.
    pub comfort: f64,
    /// Number of programs, if known.
    pub users: Option<f64>,
    /// Offset for the hours of the day, seconds east of Greenwich.
    pub utc_offset_s: i64,
}

/// 95, as Azure Migrate uses and Live Optics shows beside the peak: the highest 5 % of a day are 72 minutes, which
/// include a nightly backup but not a short burst.
pub const DEFAULT_PERCENTILE: f64 = 95.0;

impl Default for MeasureOptions {
    fn default() -> Self {
        MeasureOptions { percentile: DEFAULT_PERCENTILE, comfort: 1.0, users: None, utc_offset_s: 0 }
    }
}

/// Reason why a log gives no demand.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoDemand {
    /// No disk has counters of requests.
    #[error("not enough data: the log has no disk with counters of reads and writes")]
    NoDisk,
    /// Nothing but gaps, or too short.
    #[error(
        "not enough data: reads and writes of all disks are known for only {seconds:.0} s (ticks: {ticks}); at least \
         {min_ticks} ticks are needed"
    )]
    TooShort {
        /// Complete ticks.
        ticks: usize,
        /// Their duration, s.
        seconds: f64,
        /// Minimum number of ticks.
        min_ticks: usize,
    },
    /// Disks that were idle most of the time.
    #[error(
        "the disks were idle for {percentile} % of the time, so the load at that percentile is 0; it was above 0 for \
         {:.2} %: choose a higher percentile (--percentile 99 or 100), or a busier part of the log (--since, --until)",
        .busy_share * 100.0
    )]
    IdleAt {
        /// Percentile of the demand.
        percentile: f64,
        /// Share of the time with any request.
        busy_share: f64,
    },
    /// Disks that did nothing but swap.
    #[error(
        "all that the disks did was swapping: memory is short, and there is no other load to plan for; \
         `diskwright why` names who uses it"
    )]
    OnlySwapping,
    /// Disks that were always idle.
    #[error("the disks were idle throughout the log: there is no load to plan for")]
    Idle,
}

/// Ticks belong to a percentile if their load differs from it by at most this factor.
const NEAR_LOAD_SHARE: f64 = 0.9;

/// Assumed bytes of a request of unknown size.
const DEFAULT_REQUEST_BYTES: f64 = 4096.0;
/// Least transfer of a disk, bytes.
const SECTOR_BYTES: f64 = 512.0;

/// Minimum number of ticks for a distribution over time.
pub const MIN_TICKS: usize = 10;

/// Percentiles of a quantity over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadPercentiles {
    /// The mean over time.
    pub mean: f64,
    /// Not exceeded for half of the time.
    pub p50: f64,
    /// For 90 %.
    pub p90: f64,
    /// For 95 %.
    pub p95: f64,
    /// For 99 %.
    pub p99: f64,
    /// The highest tick.
    pub max: f64,
}

/// One device that programs use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontSummary {
    /// Its name.
    pub name: String,
    /// Level, where it is an array.
    pub level: Option<&'static str>,
    /// Disks that share its load.
    pub members: usize,
    /// True if its load was computed from its members'.
    pub from_members: bool,
    /// The percentile of its requests per second.
    pub requests_per_s: f64,
    /// I/Os per second of each member on average, by the level's factor.
    pub member_load_per_s: f64,
    /// Mean number of requests in flight.
    pub queue: Option<f64>,
    /// The same for each member.
    pub member_queue: Option<f64>,
    /// Mean response, s.
    pub response_s: Option<f64>,
}

/// Description of the load in a log, besides the demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadSummary {
    /// First time, RFC 3339.
    pub from: String,
    /// Last time, RFC 3339.
    pub to: String,
    /// Ticks that count.
    pub ticks: usize,
    /// Ticks with an unknown disk.
    pub gap_ticks: u64,
    /// Median length of a tick, s.
    pub interval_s: f64,
    /// Confidence in the log.
    pub rating: LogRating,
    /// Requests per second of all disks together.
    pub requests_per_s: LoadPercentiles,
    /// Bytes per second of all disks together.
    pub bytes_per_s: LoadPercentiles,
    /// Requests in flight; `None` if the log has no queue.
    pub queue: Option<LoadPercentiles>,
    /// Sum of the percentiles of each device, requests per second.
    pub sum_of_percentiles_per_s: f64,
    /// Ratio of that sum to the percentile of the sum: the oversizing that it would cause.
    pub oversize: f64,
    /// Variance over mean of the number of requests in a tick, over the whole log.
    pub dispersion: Option<f64>,
    /// Requests that were merged into adjacent ones before they reached the disks, as a share of all before that;
    /// `None` if there were none, or the log does not count them.
    pub merged_share: Option<f64>,
    /// Hours of the day with at least 70 % of the busiest hour's load; `None` for less than a day.
    pub busy_hours: Option<Vec<u8>>,
    /// Mean response at the demand's load, s.
    pub response_s: Option<f64>,
    /// Swapping, which is not in the demand; `None` if there was none.
    pub swap: Option<SwapLoad>,
    /// The devices that programs use.
    pub devices: Vec<FrontSummary>,
    /// Devices that could not keep up.
    pub hidden: Vec<HiddenLoad>,
    /// Space on these devices, and where it is from.
    pub space: SpaceSummary,
    /// Notes on the figures.
    pub notes: Vec<String>,
}

/// A demand and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredDemand {
    /// The demand.
    pub demand: Demand,
    /// Other figures from the log.
    pub summary: LoadSummary,
}

/// Computes the demand of a log.
///
/// # Errors
/// The data that the log lacks.
pub fn demand_from_series(series: &LoadSeries, options: &MeasureOptions) -> Result<MeasuredDemand, NoDemand> {
    let seconds: f64 = series.ticks.iter().map(|t| f64::from(t.seconds)).fold(0.0, |sum, s| sum + s);
    if series.fronts.is_empty() {
        return Err(NoDemand::NoDisk);
    }
    if series.ticks.len() < MIN_TICKS {
        return Err(NoDemand::TooShort { ticks: series.ticks.len(), seconds, min_ticks: MIN_TICKS });
    }
    let rates = time_distribution(&series.ticks, |t| t.requests_per_s() as f32);
    let reached = rates.percentile(options.percentile).unwrap_or(0.0);
    if rates.percentile(100.0).unwrap_or(0.0) <= 0.0 {
        return Err(if series.swap[2] > 0.0 { NoDemand::OnlySwapping } else { NoDemand::Idle });
    }
    if reached <= 0.0 {
        let busy_s: f64 = series.ticks.iter().filter(|t| t.requests_per_s() > 0.0).map(|t| f64::from(t.seconds)).sum();
        return Err(NoDemand::IdleAt { percentile: options.percentile, busy_share: busy_s / seconds });
    }
    let busy = BusyTime::from_ticks(&series.ticks, reached);
    let hidden_of_front = |front: &FrontLoad| {
        let found = find_hidden_load(front, options.users)?;
        Some((waiting_time_share(&series.ticks, front, reached), found))
    };
    let hidden: Vec<(f64, HiddenLoad)> = series.fronts.iter().filter_map(hidden_of_front).collect();
    let mut demand = busy.to_demand(reached, options);
    apply_estimates(series, &hidden, &mut demand, options.comfort);
    let rating = rate_log(time_range(&series.ticks), sampled_s(&series.ticks), options.utc_offset_s);
    demand.confidence = Some(rating.confidence);
    demand.percentile = Some(options.percentile);
    demand.burstiness = arrival_dispersion(&series.ticks).map(|value| value.clamp(1.0, 1e6));
    demand.capacity_bytes = series.used_space.last().map(|(_, bytes)| *bytes).filter(|bytes| *bytes > 0.0);
    demand.growth = capacity_growth(&series.used_space);
    let response_s = busy.response_s();
    let hidden = hidden.into_iter().map(|(_, found)| found).collect();
    let inputs = SummaryInputs { options, rates: &rates, reached, response_s, rating, hidden, demand: &demand };
    let summary = summarize_load(series, inputs);
    Ok(MeasuredDemand { demand, summary })
}

fn time_range(ticks: &[LoadTick]) -> (i64, i64) {
    let first = ticks.first().map_or(0, |t| t.time_ns - (f64::from(t.seconds) * 1e9) as i64);
    (first, ticks.last().map_or(first, |t| t.time_ns))
}

/// Median length of a tick, s: by number, because one long tick may be longer than all others together.
fn median_tick_s(ticks: &[LoadTick]) -> f64 {
    let mut lengths: Vec<f32> = ticks.iter().map(|t| t.seconds).collect();
    lengths.sort_unstable_by(f32::total_cmp);
    lengths.get(lengths.len() / 2).map_or(0.0, |s| f64::from(*s))
}

/// Seconds of the log that were sampled: a tick much longer than the others is one value for a gap.
fn sampled_s(ticks: &[LoadTick]) -> f64 {
    const LONG_TICK_RATIO: f64 = 5.0;
    let max_tick_s = LONG_TICK_RATIO * median_tick_s(ticks);
    ticks.iter().map(|t| f64::from(t.seconds)).map(|s| if s > max_tick_s { 0.0 } else { s }).fold(0.0, |sum, s| sum + s)
}

fn time_distribution(ticks: &[LoadTick], value: impl Fn(&LoadTick) -> f32) -> TimeDistribution {
    TimeDistribution::from_values(ticks.iter().map(|t| (value(t), t.seconds)))
}

fn load_percentiles(distribution: &TimeDistribution) -> Option<LoadPercentiles> {
    let quantile = |percent| distribution.percentile(percent);
    let (p50, p90, p95, p99, max) =
        (quantile(50.0)?, quantile(90.0)?, quantile(95.0)?, quantile(99.0)?, quantile(100.0)?);
    Some(LoadPercentiles { mean: distribution.mean()?, p50, p90, p95, p99, max })
}

/// Time at or above the percentile: a demand has the mix and the sizes of its busy time.
struct BusyTime {
    seconds: f64,
    reads: f64,
    writes: f64,
    read_bytes: f64,
    write_bytes: f64,
    queue_s: f64,
    /// Reads and writes of ticks whose bytes are known.
    sized: [f64; 2],
}

impl BusyTime {
    fn from_ticks(ticks: &[LoadTick], reached: f64) -> BusyTime {
        let mut sums = [0.0; 8];
        // f32 keeps seven digits
        for tick in ticks.iter().filter(|t| t.requests_per_s() >= reached * (1.0 - 1e-6) && t.requests_per_s() > 0.0) {
            let LoadTick { reads, writes, read_bytes, write_bytes, queue, .. } = *tick;
            let sized = |count: f32, bytes: f32| if bytes > 0.0 { count } else { 0.0 };
            let (sized_reads, sized_writes) = (sized(reads, read_bytes), sized(writes, write_bytes));
            let each = [1.0, reads, writes, read_bytes, write_bytes, queue, sized_reads, sized_writes];
            for (sum, value) in sums.iter_mut().zip(each) {
                *sum += f64::from(value) * f64::from(tick.seconds);
            }
        }
        let [seconds, reads, writes, read_bytes, write_bytes, queue_s, sized_reads, sized_writes] = sums;
        BusyTime { seconds, reads, writes, read_bytes, write_bytes, queue_s, sized: [sized_reads, sized_writes] }
    }

    fn to_demand(&self, reached: f64, options: &MeasureOptions) -> Demand {
        let requests = self.reads + self.writes;
        let size = |bytes: f64, count: f64, sized: f64| match count > 0.0 {
            // no disk transfers less than a sector: such a mean lacks bytes
            true if sized > 0.0 && bytes >= 0.999 * SECTOR_BYTES * sized => (bytes / sized).max(SECTOR_BYTES),
            // the size of requests without bytes is assumed, and marked
            true => 0.0,
            false => DEFAULT_REQUEST_BYTES,
        };
        let rate = |count: f64| reached * options.comfort * count / requests;
        // a multiple of the load keeps a multiple of the requests in flight
        let queue = Some(options.comfort * self.queue_s / self.seconds).filter(|q| q.is_finite() && *q > 0.0);
        Demand {
            read_size_bytes: size(self.read_bytes, self.reads, self.sized[0]),
            write_size_bytes: size(self.write_bytes, self.writes, self.sized[1]),
            queue,
            ..Demand::from_rates(rate(self.reads), rate(self.writes), 4096.0)
        }
    }

    fn response_s(&self) -> Option<f64> {
        Some(self.queue_s / (self.reads + self.writes)).filter(|s| s.is_finite())
    }
}

/// Share of the time near a load in which requests waited at a device, which then hid some. Devices may be saturated at
/// different times.
fn waiting_time_share(ticks: &[LoadTick], front: &FrontLoad, reached: f64) -> f64 {
    let waiting: HashSet<i64> = front.loaded.iter().map(|tick| tick.time_ns).collect();
    let kept_s: f64 = front.loaded.iter().map(|tick| f64::from(tick.seconds)).sum();
    // of a long log, not every such tick is kept
    let is_cut = front.loaded_s > 1.001 * kept_s;
    let until_ns = front.loaded.last().filter(|_| is_cut).map_or(i64::MAX, |tick| tick.time_ns);
    let (mut all_s, mut waiting_s) = (0.0, 0.0);
    for tick in ticks.iter().filter(|tick| tick.time_ns <= until_ns) {
        if (NEAR_LOAD_SHARE * reached..=reached / NEAR_LOAD_SHARE).contains(&tick.requests_per_s()) {
            all_s += f64::from(tick.seconds);
            waiting_s += if waiting.contains(&tick.time_ns) { f64::from(tick.seconds) } else { 0.0 };
        }
    }
    if all_s > 0.0 { waiting_s / all_s } else { 0.0 }
}

/// Adds estimates to the demand, and marks them. Hidden load counts by its device's share of the demand's time.
fn apply_estimates(series: &LoadSeries, hidden: &[(f64, HiddenLoad)], demand: &mut Demand, comfort: f64) {
    let mut marks: Vec<EstimatedField> = Vec::new();
    let mut mark = |field: &str, how: String| marks.push(EstimatedField { field: field.into(), how });
    demand.sequential_share = series.sequential_share;
    let amount = |count: fn(&LoadTick) -> f32| {
        series.ticks.iter().map(|tick| f64::from(count(tick)) * f64::from(tick.seconds)).sum::<f64>()
    };
    let amounts = [amount(|tick| tick.reads), amount(|tick| tick.writes)];
    let sizes = [
        ("read_size_bytes", demand.reads_per_s, &mut demand.read_size_bytes),
        ("write_size_bytes", demand.writes_per_s, &mut demand.write_size_bytes),
    ];
    for ((field, count, size), (without_bytes, all)) in
        sizes.into_iter().zip(series.unsized_requests.iter().zip(amounts))
    {
        if count > 0.0 && *size <= 0.0 {
            *size = DEFAULT_REQUEST_BYTES;
            mark(field, "the log has requests without bytes; 4 KiB each are assumed".into());
        } else if *without_bytes > 0.0 && all > 0.0 {
            let percent = (100.0 * without_bytes / all).clamp(1.0, 100.0);
            mark(
                field,
                format!("{percent:.0} % of them have no bytes in the log and are taken to be as large as the others"),
            );
        }
    }
    for completion in &series.completions {
        completion.fields().iter().for_each(|field| mark(field, completion.text().into()));
    }
    if series.swap[2] > 0.0 {
        mark(
            "reads_per_s, writes_per_s",
            "without swapping, assuming that its requests are as large as the others".into(),
        );
    }
    for front in series.fronts.iter().filter(|front| front.from_members && front.level.is_some()) {
        mark(
            "reads_per_s, writes_per_s",
            format!("{}: from its members' load, assuming that all writes are small", front.name),
        );
    }
    demand.estimated.append(&mut marks);
    let hidden_of_device = |(share, h): &(f64, HiddenLoad)| Some(share * (h.asked_per_s? - h.plateau_per_s).max(0.0));
    let hidden_per_s: f64 = hidden.iter().filter_map(hidden_of_device).sum();
    if hidden_per_s > 0.0 {
        let before = demand.requests_per_s() / comfort;
        let factor = (before + hidden_per_s) / before;
        *demand = demand.scaled_by(factor);
        let how = hidden.iter().find(|(_, h)| h.asked_per_s.is_some()).map_or("", |(_, h)| h.method.as_str());
        let how = format!("{how}; saturation hid {:.0} %", (1.0 - 1.0 / factor) * 100.0);
        demand.estimated.push(EstimatedField { field: "reads_per_s, writes_per_s".into(), how });
    }
}

/// Index of dispersion of the arrivals around a changing load: half the mean square of the difference of neighbouring
/// ticks, over their mean (Allan's variance, which slow changes do not increase; Poisson arrivals give 1 at any length
/// of the tick).
fn arrival_dispersion(ticks: &[LoadTick]) -> Option<f64> {
    let count = |t: &LoadTick| t.requests_per_s() * f64::from(t.seconds);
    let (mut squares, mut sum, mut pairs) = (0.0, 0.0, 0.0);
    for pair in ticks.windows(2) {
        let [a, b] = pair else { continue };
        let is_same_length = (a.seconds / b.seconds - 1.0).abs() < 0.05;
        let is_adjacent = ((b.time_ns - a.time_ns) as f64 * 1e-9 / f64::from(b.seconds) - 1.0).abs() < 0.5;
        if is_same_length && is_adjacent {
            squares += 0.5 * (count(a) - count(b)).powi(2);
            sum += 0.5 * (count(a) + count(b));
            pairs += 1.0;
        }
    }
    (pairs >= 30.0 && sum > 0.0).then(|| squares / sum)
}

/// Variance over mean of the requests in a tick, over the whole log: only for ticks of one length, because longer ones
/// hold more at the same load.
fn request_dispersion(ticks: &[LoadTick]) -> Option<f64> {
    let median_s = median_tick_s(ticks);
    let same_length = ticks.iter().filter(|t| (f64::from(t.seconds) / median_s - 1.0).abs() < 0.05);
    let counts: Vec<f64> = same_length.map(|t| t.requests_per_s() * f64::from(t.seconds)).collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
    (mean > 0.0).then(|| variance / mean)
}

/// Growth of the used space, with its interval; `None` for less than a day or if nothing can be said.
fn capacity_growth(used: &[(i64, f64)]) -> Option<CapacityGrowth> {
    const DAY_S: f64 = 86_400.0;
    let (first, last) = (used.first()?.0, used.last()?.0);
    let second = |ns: i64| (ns - first) as f64 * 1e-9;
    if second(last) < 0.99 * DAY_S {
        return None;
    }
    let points: Vec<WeightedPoint> =
        used.iter().map(|(ns, value)| WeightedPoint { time_s: second(*ns), value: *value, weight: 1.0 }).collect();
    if blocks::is_constant(&points) {
        return Some(CapacityGrowth { bytes_per_day: 0.0, interval_bytes_per_day: Some((0.0, 0.0)) });
    }
    let line = LineFit::fit(&blocks::block_means(&points))?;
    let interval = (line.slope_interval.0 * DAY_S, line.slope_interval.1 * DAY_S);
    let finite = interval.0.is_finite() && interval.1.is_finite();
    Some(CapacityGrowth { bytes_per_day: line.slope * DAY_S, interval_bytes_per_day: finite.then_some(interval) })
}

/// Clock changes within a load: the times from which each offset of a zone applies.
pub fn utc_offsets(ticks: &[LoadTick], zone_offset_s: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    let mut offsets: Vec<(i64, i64)> = Vec::new();
    for tick in ticks {
        let offset_s = zone_offset_s(tick.time_ns);
        if offsets.last().is_none_or(|(_, last)| *last != offset_s) {
            offsets.push((if offsets.is_empty() { i64::MIN } else { tick.time_ns }, offset_s));
        }
    }
    offsets
}

/// Hours of the day with at least 70 % of the busiest hour's mean.
fn busy_hours(series: &LoadSeries, utc_offset_s: i64) -> Option<Vec<u8>> {
    const BUSY_SHARE: f64 = 0.7;
    let ticks = &series.ticks;
    let (first, last) = time_range(ticks);
    let offset_s = |time_ns: i64| {
        let offset = series.utc_offsets.iter().rev().find(|(from_ns, _)| *from_ns <= time_ns);
        offset.map_or(utc_offset_s, |(_, offset_s)| *offset_s)
    };
    if (last - first) as f64 * 1e-9 < 0.99 * 86_400.0 {
        return None;
    }
    let mut hours = [(0.0, 0.0); 24];
    for tick in ticks {
        let half_s = (f64::from(tick.seconds) / 2.0) as i64;
        let middle = tick.time_ns.div_euclid(1_000_000_000) + offset_s(tick.time_ns) - half_s;
        let hour = &mut hours[(middle.rem_euclid(86_400) / 3600) as usize % 24];
        hour.0 += tick.requests_per_s() * f64::from(tick.seconds);
        hour.1 += f64::from(tick.seconds);
    }
    let mean = |hour: &(f64, f64)| if hour.1 > 0.0 { hour.0 / hour.1 } else { 0.0 };
    let busiest = hours.iter().map(mean).fold(0.0, f64::max);
    Some((0..24u8).filter(|hour| mean(&hours[usize::from(*hour)]) >= BUSY_SHARE * busiest && busiest > 0.0).collect())
}

fn front_summary(front: &FrontLoad, percentile: f64) -> FrontSummary {
    let sums = &front.sums;
    let (reads, writes) = (sums.reads / sums.seconds, sums.writes / sums.seconds);
    FrontSummary {
        name: front.name.clone(),
        level: front.level.map(|level| level.name()),
        members: front.members,
        from_members: front.from_members,
        requests_per_s: front.rates.quantile(percentile / 100.0).unwrap_or(0.0) / 100.0,
        member_load_per_s: front.member_load(reads, writes),
        queue: front.queue(),
        member_queue: front.member_queue(),
        response_s: Some(sums.response_s()).filter(|s| s.is_finite()),
    }
}

/// Sum of the percentiles of each device. An array whose members changed within the log is one device at all times.
fn sum_of_percentiles(fronts: &[FrontLoad], devices: &[FrontSummary], percentile: f64) -> f64 {
    let mut sum = 0.0;
    for (index, (front, device)) in fronts.iter().zip(devices).enumerate() {
        let is_same = |other: &&FrontLoad| other.name == front.name;
        if fronts[..index].iter().any(|other| is_same(&other)) {
            continue;
        }
        let others: Vec<&FrontLoad> = fronts[index + 1..].iter().filter(is_same).collect();
        let mut rates = front.rates.clone();
        others.iter().for_each(|other| rates.merge(&other.rates));
        let merged_percentile = || rates.quantile(percentile / 100.0).unwrap_or(0.0) / 100.0;
        sum += if others.is_empty() { device.requests_per_s } else { merged_percentile() };
    }
    sum
}

/// Inputs of a summary.
struct SummaryInputs<'a> {
    options: &'a MeasureOptions,
    rates: &'a TimeDistribution,
    /// The percentile of all requests per second.
    reached: f64,
    response_s: Option<f64>,
    rating: LogRating,
    hidden: Vec<HiddenLoad>,
    demand: &'a Demand,
}

fn summarize_load(series: &LoadSeries, inputs: SummaryInputs<'_>) -> LoadSummary {
    let (ticks, options) = (&series.ticks, inputs.options);
    let bytes = time_distribution(ticks, |t| t.bytes_per_s() as f32);
    let mut devices: Vec<FrontSummary> =
        series.fronts.iter().map(|front| front_summary(front, options.percentile)).collect();
    // devices have histograms; for a single device, all requests are its own
    if let ([single], true) = (&mut devices[..], series.swap[2] <= 0.0) {
        single.requests_per_s = inputs.reached;
    }
    let sum_per_device = sum_of_percentiles(&series.fronts, &devices, options.percentile);
    let none = LoadPercentiles { mean: 0.0, p50: 0.0, p90: 0.0, p95: 0.0, p99: 0.0, max: 0.0 };
    let interval_s = median_tick_s(ticks);
    let (from, to) = time_range(ticks);
    LoadSummary {
        from: diskwright_base::timestamp::format_rfc3339(from),
        to: diskwright_base::timestamp::format_rfc3339(to),
        ticks: ticks.len(),
        gap_ticks: series.gaps.0,
        interval_s,
        rating: inputs.rating,
        requests_per_s: load_percentiles(inputs.rates).unwrap_or(none),
        bytes_per_s: load_percentiles(&bytes).unwrap_or(none),
        queue: load_percentiles(&time_distribution(ticks, |t| t.queue)),
        sum_of_percentiles_per_s: sum_per_device,
        oversize: if inputs.reached > 0.0 { sum_per_device / inputs.reached } else { 1.0 },
        dispersion: request_dispersion(ticks),
        merged_share: Some(series.merged.0 / (series.merged.0 + series.merged.1)).filter(|share| *share > 0.0),
        busy_hours: busy_hours(series, options.utc_offset_s),
        response_s: inputs.response_s,
        swap: summarize_swap(series, inputs.rates.mean().unwrap_or(0.0)),
        devices,
        hidden: inputs.hidden,
        space: summarize_space(series, SpaceSource::Log),
        notes: load_notes(series, options, &bytes, interval_s, inputs.demand),
    }
}

/// Swapping on average; `None` if there was none.
fn summarize_swap(series: &LoadSeries, others_per_s: f64) -> Option<SwapLoad> {
    let seconds: f64 = series.ticks.iter().map(|t| f64::from(t.seconds)).sum();
    let [read_bytes_per_s, write_bytes_per_s, requests_per_s] = series.swap.map(|amount| amount / seconds);
    let share = requests_per_s / (requests_per_s + others_per_s);
    (requests_per_s > 0.0).then_some(SwapLoad { read_bytes_per_s, write_bytes_per_s, requests_per_s, share })
}

fn load_notes(
    series: &LoadSeries,
    options: &MeasureOptions,
    bytes: &TimeDistribution,
    interval_s: f64,
    demand: &Demand,
) -> Vec<String> {
    /// Bytes above the demand's by this factor are a separate peak.
    const SEPARATE_PEAK_RATIO: f64 = 1.2;
    /// Ticks longer than this hide peaks, s.
    const LONG_TICK_S: f64 = 60.0;
    let mut notes = series.notes.clone();
    let reached = bytes.percentile(options.percentile).unwrap_or(0.0) * options.comfort;
    if reached > SEPARATE_PEAK_RATIO * demand.bytes_per_s() {
        notes.push(format!(
            "bytes peak at a different time: {:.1} MB/s at this percentile, but the demand's requests amount to \
             {:.1} MB/s; plan for that too (large requests come at other times)",
            reached / 1e6,
            demand.bytes_per_s() / 1e6
        ));
    }
    if interval_s > LONG_TICK_S {
        notes.push(format!("ticks of {interval_s:.0} s hide peaks that are shorter"));
    }
    if demand.growth.is_none() && demand.capacity_bytes.is_some() {
        notes.push("growth: not enough data (at least a day of filesystem sizes is needed)".into());
    }
    notes
}
