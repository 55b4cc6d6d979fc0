//! How near cloud volumes and their instance are to their limits, and what is left of their burst credits.
//!
//! A bucket of credits fills at the baseline and is drawn from at the rate of use (AWS EC2 user guide, "I/O credits and
//! burst performance"; Azure, disk-bursting.md). Nothing tells how full it was when the watch began, so that two levels
//! are followed: of a bucket that was empty, and of one that was full. The truth is between both.

use std::ops::Range;
use std::sync::Arc;

use diskwright_base::catalogue::Catalogue;
use diskwright_base::cloud_volume::{REQUEST_BYTES, RateCap};
use diskwright_base::counter_ids::physical_disk;
use diskwright_base::{CloudInstance, CloudVolume, CounterPlan, Device, Frame, Schema, Topology};

use crate::compile::{LOAD_COUNTERS, PLAIN_COUNTERS};
use crate::sums::counted_load;

/// Share of a limit from which a volume counts as near it, and as at it. Ours.
pub(crate) const NEAR_LIMIT: f64 = 0.8;
pub(crate) const AT_LIMIT: f64 = 0.95;
/// Time over which the present rate is averaged, seconds.
const RECENT_S: f64 = 60.0;
/// A rate this near to the baseline, for this long and with requests waiting, shows that the credits are used up. Ours.
const MAX_PINNED_DIFFERENCE: f64 = 0.05;
const MIN_PINNED_S: f64 = 10.0;
const MIN_PINNED_QUEUE: f64 = 1.0;
/// Largest number of volumes that are watched.
const MAX_VOLUMES: usize = 1024;

/// Use of one limit: of requests or of bytes.
#[derive(Clone, Debug)]
pub(crate) struct LimitWatch {
    pub cap: RateCap,
    /// Time of the ticks with a value, s.
    pub seconds: f64,
    /// Sum of rate times seconds.
    amount: f64,
    /// Highest rate of a tick.
    pub max: f64,
    /// Sum of the shares of what was allowed, times seconds; and the highest.
    share_amount: f64,
    pub max_share: f64,
    pub near_s: f64,
    pub at_s: f64,
    /// Credits of a bucket that was empty at first, and of one that was full.
    pub levels: [f64; 2],
    /// Mean rate of the last minute.
    pub recent: f64,
    pinned_s: f64,
    /// True if a stretch at the baseline with requests waiting showed that the credits were used up.
    pub was_spent: bool,
}

impl LimitWatch {
    fn new(cap: RateCap) -> LimitWatch {
        LimitWatch {
            cap,
            seconds: 0.0,
            amount: 0.0,
            max: 0.0,
            share_amount: 0.0,
            max_share: 0.0,
            near_s: 0.0,
            at_s: 0.0,
            levels: [0.0, cap.credits],
            recent: 0.0,
            pinned_s: 0.0,
            was_spent: false,
        }
    }

    /// Rate that may be allowed now: the burst, unless even a bucket that was full at first is empty.
    pub fn allowed(&self) -> f64 {
        if self.cap.has_credits() && self.levels[1] > 0.0 { self.cap.burst } else { self.cap.baseline }
    }

    /// Mean rate; `None` before the first tick.
    pub fn mean(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.amount / self.seconds)
    }

    /// Mean share of what was allowed.
    pub fn mean_share(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.share_amount / self.seconds)
    }

    /// Seconds for which the credits last at the rate of the last minute, at least and at most; `None` where the volume
    /// does not draw on them.
    pub fn left_s(&self) -> Option<[f64; 2]> {
        let drain = self.recent.min(self.cap.burst) - self.cap.baseline;
        let is_drawn = self.cap.has_credits() && self.seconds > 0.0 && drain > 0.0;
        is_drawn.then(|| self.levels.map(|level| level / drain))
    }

    fn add_tick(&mut self, rate: f64, seconds: f64, queue: Option<f64>) {
        let share = rate / self.allowed();
        self.recent += (rate - self.recent) * if self.seconds > 0.0 { 1.0 - (-seconds / RECENT_S).exp() } else { 1.0 };
        self.seconds += seconds;
        self.amount += rate * seconds;
        self.max = self.max.max(rate);
        self.share_amount += share * seconds;
        self.max_share = self.max_share.max(share);
        self.near_s += if share >= NEAR_LIMIT { seconds } else { 0.0 };
        self.at_s += if share >= AT_LIMIT { seconds } else { 0.0 };
        self.draw_credits(rate, seconds, queue);
    }

    fn draw_credits(&mut self, rate: f64, seconds: f64, queue: Option<f64>) {
        if !self.cap.has_credits() {
            return;
        }
        let gain = (self.cap.baseline - rate.min(self.cap.burst)) * seconds;
        self.levels = self.levels.map(|level| (level + gain).clamp(0.0, self.cap.credits));
        let is_pinned = (rate / self.cap.baseline - 1.0).abs() <= MAX_PINNED_DIFFERENCE
            && queue.is_some_and(|queue| queue > MIN_PINNED_QUEUE);
        self.pinned_s = if is_pinned { self.pinned_s + seconds } else { 0.0 };
        if self.pinned_s >= MIN_PINNED_S {
            self.levels = [0.0; 2];
            self.was_spent = true;
        }
    }

    /// Passes over time of which nothing is known: the credits may have been used up or filled up.
    fn add_gap(&mut self, seconds: f64) {
        self.pinned_s = 0.0;
        let [low, high] = &mut self.levels;
        *low = (*low - (self.cap.burst - self.cap.baseline) * seconds).max(0.0);
        *high = (*high + self.cap.baseline * seconds).min(self.cap.credits);
    }
}

/// A volume that is watched.
#[derive(Clone, Debug)]
pub(crate) struct WatchedVolume {
    pub device: String,
    pub volume: Option<CloudVolume>,
    /// Requests and bytes; `None` of a device whose type is not known, which counts only for the instance.
    pub limits: Option<[LimitWatch; 2]>,
    plans: Option<LoadPlans>,
}

/// Plans of reads, bytes read, writes and bytes written per second, and of the queue.
#[derive(Clone, Debug)]
struct LoadPlans {
    loads: Vec<CounterPlan>,
    queue: Option<CounterPlan>,
}

/// All volumes of a machine, and the machine itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeWatch {
    pub volumes: Vec<WatchedVolume>,
    pub instance: Option<CloudInstance>,
    /// Requests and bytes of all volumes.
    pub instance_limits: Option<[LimitWatch; 2]>,
    schema: Option<Arc<Schema>>,
    last_ns: Option<i64>,
}

impl WatchedVolume {
    fn new(device: &Device) -> WatchedVolume {
        let volume = device.cloud_volume.clone().filter(CloudVolume::is_possible);
        let limits = volume.as_ref().map(|volume| [volume.requests, volume.bytes].map(LimitWatch::new));
        WatchedVolume { device: device.name.clone(), limits, volume, plans: None }
    }

    fn plan_load(&mut self, schema: &Schema) {
        let plan = |counter: &str| CounterPlan::resolve_counter(Catalogue::builtin(), schema, counter, &self.device);
        let all = |names: &[&str]| -> Option<Vec<CounterPlan>> {
            names.iter().map(|name| plan(&format!("physical_disk.{name}"))).collect()
        };
        let loads = all(&LOAD_COUNTERS).or_else(|| all(&PLAIN_COUNTERS));
        self.plans = loads.map(|loads| LoadPlans { loads, queue: plan(physical_disk::AVG_QUEUE_LENGTH) });
    }

    /// Requests and bytes per second that the provider counts at each tick, `NaN` where they are not known.
    fn count_loads(&self, frame: &Frame, range: &Range<usize>, seconds: &[f64]) -> Option<Vec<[f64; 2]>> {
        let plans = self.plans.as_ref()?;
        let columns: Vec<Vec<f64>> =
            plans.loads.iter().map(|plan| compute_column(plan, frame, range, seconds)).collect();
        let (request_bytes, write_cost) =
            self.volume.as_ref().map_or((REQUEST_BYTES, 1.0), |volume| (volume.request_bytes, volume.write_cost));
        let value = |column: usize, tick: usize| columns.get(column).map_or(0.0, |values| values[tick]);
        let load = |tick: usize| {
            counted_load(std::array::from_fn(|column| value(column, tick)), request_bytes as f64, write_cost)
        };
        Some((0..range.len()).map(load).collect())
    }

    fn add_ticks(&mut self, loads: &[[f64; 2]], frame: &Frame, range: &Range<usize>, seconds: &[f64]) {
        let queue = self.plans.as_ref().and_then(|plans| plans.queue.as_ref());
        let queue = queue.map(|plan| compute_column(plan, frame, range, seconds));
        for limit in 0..2 {
            let Some(watch) = self.limits.as_mut().map(|limits| &mut limits[limit]) else { return };
            for (tick, load) in loads.iter().enumerate() {
                let queue = queue.as_ref().map(|values| values[tick]);
                add_known(watch, load[limit], seconds[tick], queue);
            }
        }
    }
}

fn add_known(watch: &mut LimitWatch, rate: f64, seconds: f64, queue: Option<f64>) {
    if seconds.is_nan() {
        return;
    }
    if rate.is_finite() { watch.add_tick(rate.max(0.0), seconds, queue) } else { watch.add_gap(seconds) }
}

/// Values of a plan at each tick of a range; `NaN` for a gap.
fn compute_column(plan: &CounterPlan, frame: &Frame, range: &Range<usize>, seconds: &[f64]) -> Vec<f64> {
    let (mut values, mut weights) = (vec![0.0; range.len()], vec![0.0; range.len()]);
    plan.compute_weighted_values(frame, range.clone(), seconds, &mut values, &mut weights);
    values.iter_mut().zip(&weights).filter(|(_, weight)| weight.is_nan()).for_each(|(value, _)| *value = f64::NAN);
    values
}

impl VolumeWatch {
    /// Follows a topology; what was seen of volumes that stay as they are is kept.
    pub fn set_topology(&mut self, topology: &Topology) {
        let known = std::mem::take(&mut self.volumes);
        let find = |device: &Device| {
            let new = WatchedVolume::new(device);
            let before = known.iter().find(|old| old.device == new.device && old.volume == new.volume);
            before.cloned().unwrap_or(new)
        };
        self.volumes = topology.cloud_volumes().take(MAX_VOLUMES).map(find).collect();
        if self.instance != topology.cloud_instance {
            self.instance = topology.cloud_instance.clone();
            let caps = self.instance.as_ref().and_then(CloudInstance::caps);
            self.instance_limits = caps.map(|caps| caps.map(LimitWatch::new));
        }
        self.schema = None;
    }

    /// Adds the ticks `range` of a frame.
    pub fn add_ticks(&mut self, frame: &Frame, range: Range<usize>) {
        if self.volumes.is_empty() {
            return;
        }
        let is_known = self.schema.as_ref().is_some_and(|s| Arc::ptr_eq(s, frame.schema()) || s == frame.schema());
        if !is_known {
            self.volumes.iter_mut().for_each(|volume| volume.plan_load(frame.schema()));
            self.schema = Some(Arc::clone(frame.schema()));
        }
        let ticks = &frame.ticks()[range.clone()];
        let Some((first, last)) = ticks.first().zip(ticks.last()) else { return };
        let gap_ns = self.last_ns.map_or(0, |last_ns| first.start_ns() - last_ns);
        self.pass_gap(gap_ns as f64 * 1e-9);
        let seconds: Vec<f64> =
            ticks.iter().map(|t| if t.elapsed_ns == 0 { f64::NAN } else { t.elapsed_ns as f64 * 1e-9 }).collect();
        let mut sums = vec![[0.0; 2]; range.len()];
        let mut is_summed = false;
        for volume in &mut self.volumes {
            let Some(loads) = volume.count_loads(frame, &range, &seconds) else { continue };
            volume.add_ticks(&loads, frame, &range, &seconds);
            is_summed = true;
            sums.iter_mut().zip(&loads).for_each(|(sum, load)| *sum = [sum[0] + load[0], sum[1] + load[1]]);
        }
        if let Some(limits) = self.instance_limits.as_mut().filter(|_| is_summed) {
            for (limit, watch) in limits.iter_mut().enumerate() {
                sums.iter().zip(&seconds).for_each(|(sum, seconds)| add_known(watch, sum[limit], *seconds, None));
            }
        }
        self.last_ns = Some(last.time_ns);
    }

    /// Passes over time between frames; ticks that come a little late are no gap.
    fn pass_gap(&mut self, seconds: f64) {
        if seconds > 1.0 {
            let own = self.volumes.iter_mut().flat_map(|volume| volume.limits.iter_mut().flatten());
            own.chain(self.instance_limits.iter_mut().flatten()).for_each(|watch| watch.add_gap(seconds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gp2 of 100 GiB: 300 requests/s, bursts to 3,000 with 5.4 million credits.
    fn gp2() -> LimitWatch {
        LimitWatch::new(RateCap { baseline: 300.0, burst: 3000.0, credits: 5.4e6 })
    }

    /// AWS EC2 user guide, general-purpose.md: a full bucket of 100 GiB lasts 5,400,000 / (3,000 - 300) = 2,000 s.
    #[test]
    fn a_burst_lasts_as_long_as_published() {
        let mut watch = gp2();
        watch.add_tick(3000.0, 1.0, Some(8.0));
        let [least, most] = watch.left_s().unwrap();
        assert_eq!(least, 0.0, "nothing tells that there was any credit");
        assert!((most - 1999.0).abs() < 1e-6, "{most}");
        (0..1999).for_each(|_| watch.add_tick(3000.0, 1.0, Some(8.0)));
        assert_eq!((watch.levels, watch.allowed()), ([0.0, 0.0], 300.0));
        assert!((watch.at_s - 2000.0).abs() < 1e-6 && (watch.mean().unwrap() - 3000.0).abs() < 1e-6);
    }

    /// Idle, an empty bucket fills at the baseline: 300 credits a second (general-purpose.md), full after 18,000 s.
    #[test]
    fn credits_fill_at_the_baseline_and_the_range_closes() {
        let mut watch = gp2();
        watch.add_tick(0.0, 9000.0, Some(0.0));
        assert_eq!((watch.levels, watch.left_s()), ([2.7e6, 5.4e6], None));
        watch.add_tick(100.0, 13_500.0, Some(0.0));
        assert_eq!(watch.levels, [5.4e6; 2], "200 a second more");
        assert!(watch.mean_share().unwrap() < 0.03);
    }

    #[test]
    fn a_rate_held_at_the_baseline_shows_that_the_credits_are_spent() {
        let mut watch = gp2();
        (0..9).for_each(|_| watch.add_tick(302.0, 1.0, Some(6.0)));
        assert!(watch.levels[1] > 5e6 && !watch.was_spent);
        watch.add_tick(299.0, 1.0, Some(6.0));
        assert_eq!((watch.levels, watch.was_spent, watch.allowed()), ([0.0, 0.0], true, 300.0));
        let mut idle = gp2();
        (0..60).for_each(|_| idle.add_tick(300.0, 1.0, Some(0.4)));
        assert!(!idle.was_spent, "nothing waits");
        assert!(
            !(0..60)
                .fold(gp2(), |mut w, _| {
                    w.add_tick(300.0, 1.0, None);
                    w
                })
                .was_spent,
            "no queue in the log"
        );
    }

    #[test]
    fn nothing_is_known_of_the_credits_after_a_gap() {
        let mut watch = gp2();
        watch.add_tick(0.0, 9000.0, Some(0.0));
        watch.add_gap(600.0);
        assert_eq!(watch.levels, [2.7e6 - 2700.0 * 600.0, 5.4e6]);
        watch.add_gap(1e6);
        assert_eq!(watch.levels, [0.0, 5.4e6]);
        let mut constant = LimitWatch::new(RateCap::constant_rate(5.0));
        constant.add_gap(5.0);
        constant.add_tick(4.5, 1.0, Some(9.0));
        assert_eq!((constant.levels, constant.left_s(), constant.near_s, constant.at_s), ([0.0; 2], None, 1.0, 0.0));
    }
}
