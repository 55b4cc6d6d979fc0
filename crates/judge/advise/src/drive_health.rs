//! Health of the drives in a log, as far as advice needs it: increases of error counts, and last values.

use std::collections::BTreeMap;

use diskwright_base::counter_ids::physical_disk;
use diskwright_base::counter_plan::CounterPlan;
use diskwright_base::{Catalogue, Frame, Schema};

/// A drive's health over a log. Values that the log lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthLoad {
    /// Increase of media errors.
    pub media_errors: Option<f64>,
    /// Pending sectors (unreadable, waiting to be read again or rewritten) at the end.
    pub pending_sectors: Option<f64>,
    /// Pending sectors at the beginning.
    pub first_pending_sectors: Option<f64>,
    /// Increase of transmission errors.
    pub link_errors: Option<f64>,
    /// 1 if the drive reported that it fails.
    pub failing: Option<f64>,
    /// Share of the rated life used at the end.
    pub wear: Option<f64>,
    /// Seconds between the first and the last value of the wear, and its increase in that time.
    pub wear_rise: Option<(f64, f64)>,
    /// The highest temperature, and the drive's own limit.
    pub max_temperature_and_limit: Option<(f64, f64)>,
    /// Share of the time with a known temperature at or above the limit.
    pub hot_share: Option<f64>,
}

const HEALTH_COUNTERS: [&str; 7] = [
    physical_disk::MEDIA_ERRORS,
    physical_disk::PENDING_SECTORS,
    physical_disk::LINK_ERRORS,
    physical_disk::FAILING,
    physical_disk::WEAR_USED,
    physical_disk::TEMPERATURE,
    physical_disk::TEMPERATURE_LIMIT,
];

/// Sums over the ticks so far.
#[derive(Debug, Default)]
struct HealthSums {
    load: HealthLoad,
    /// Time and value of the first known wear.
    first_wear: Option<(i64, f64)>,
    /// Time of the last known wear.
    last_wear_ns: i64,
    /// Seconds at or above the drive's limit.
    hot_s: f64,
    /// Seconds with a known temperature and limit.
    known_s: f64,
}

/// Collects drive health from frames.
#[derive(Default)]
pub(crate) struct HealthReader {
    plans: Vec<(String, [Option<CounterPlan>; HEALTH_COUNTERS.len()])>,
    sums: BTreeMap<String, HealthSums>,
}

impl HealthReader {
    /// Prepares for another schema.
    pub fn resolve_plans(&mut self, schema: &Schema) {
        let catalogue = Catalogue::builtin();
        let disk_plans =
            |disk: &str| HEALTH_COUNTERS.map(|counter| CounterPlan::resolve_counter(catalogue, schema, counter, disk));
        let disks = schema.instances("physical_disk").into_iter().map(|disk| (disk.to_owned(), disk_plans(disk)));
        self.plans = disks.filter(|(_, plans)| plans.iter().any(Option::is_some)).collect();
    }

    /// Adds a frame.
    pub fn add_frame(&mut self, frame: &Frame) {
        let mut columns: [Vec<f64>; HEALTH_COUNTERS.len()] = Default::default();
        for (disk, plans) in &self.plans {
            for (plan, out) in plans.iter().zip(&mut columns) {
                out.clear();
                match plan {
                    Some(plan) => plan.compute_values(frame, out),
                    None => out.resize(frame.ticks().len(), f64::NAN),
                }
            }
            let sums = self.sums.entry(disk.clone()).or_default();
            for (index, tick) in frame.ticks().iter().enumerate() {
                sums.add_tick(
                    tick.time_ns,
                    tick.elapsed_ns as f64 / 1e9,
                    columns.each_ref().map(|column| column[index]),
                );
            }
        }
    }

    /// Returns the health of all drives with at least one value.
    pub fn into_loads(self) -> BTreeMap<String, HealthLoad> {
        let to_load = |(disk, sums): (String, HealthSums)| (disk, sums.into_load());
        self.sums.into_iter().map(to_load).filter(|(_, health)| *health != HealthLoad::default()).collect()
    }
}

impl HealthSums {
    fn add_tick(&mut self, time_ns: i64, seconds: f64, values: [f64; HEALTH_COUNTERS.len()]) {
        let [media, pending, link, failing, wear, temperature, limit] =
            values.map(|value| Some(value).filter(|value| value.is_finite()));
        let add = |sum: &mut Option<f64>, value: Option<f64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + value);
            }
        };
        add(&mut self.load.media_errors, media);
        add(&mut self.load.link_errors, link);
        self.load.first_pending_sectors = self.load.first_pending_sectors.or(pending);
        self.load.pending_sectors = pending.or(self.load.pending_sectors);
        self.load.failing = failing.or(self.load.failing);
        if let Some(wear) = wear {
            self.first_wear.get_or_insert((time_ns, wear));
            (self.load.wear, self.last_wear_ns) = (Some(wear), time_ns);
        }
        if let Some((temperature, limit)) = temperature.zip(limit) {
            self.known_s += seconds;
            self.hot_s += if temperature >= limit { seconds } else { 0.0 };
            let hottest = self.load.max_temperature_and_limit.map_or(temperature, |(max, _)| max.max(temperature));
            self.load.max_temperature_and_limit = Some((hottest, limit));
        }
    }

    fn into_load(mut self) -> HealthLoad {
        let rise = |(first_ns, first): (i64, f64)| {
            let seconds = (self.last_wear_ns - first_ns) as f64 / 1e9;
            self.load.wear.filter(|_| seconds > 0.0).map(|last| (seconds, last - first))
        };
        self.load.wear_rise = self.first_wear.and_then(rise);
        self.load.hot_share = (self.known_s > 0.0).then(|| self.hot_s / self.known_s);
        self.load
    }
}
