//! Load that saturation hides. A device that cannot keep up slows the programs that wait for it; a faster one would get
//! more requests. Their number is estimated from how the queue changes.
//!
//! The interactive response time law (Lazowska et al. 1984, ch. 3): `N` programs that each pause for `Z` between two
//! requests issue `X = N / (R + Z)` per second, at most `N / Z` if nothing keeps them waiting. While the device is
//! saturated its throughput is constant, and the queue of waiting programs follows `dq/dt = (N - q) / Z - X`: its
//! memory decays with the time constant `Z`. The means of a queue over ticks of length `T` then have the first
//! autocorrelation `(1 - e^-a)^2 / (2 (a - 1 + e^-a))`, `a = T / Z` (the time average of a process whose correlation is
//! exponential). So `Z` is read from the correlation of neighbouring ticks, `N = q + X Z`, and the load without waiting
//! is `N / Z = X + q / Z`. If the throughput still rises with the queue (a drive that sorts its requests), the queue's
//! memory decays faster, by `dX/dq`, which is subtracted: the regression of the throughput on the queue with the queue
//! of the previous tick as instrument, because within a tick a good throughput makes the queue short. A slowly changing
//! number of programs looks like a long pause, so that the estimate is then too low rather than too high.

use serde::Serialize;

use super::FrontLoad;

/// Minimum number of ticks with waiting requests for an estimate.
const MIN_TICKS: usize = 60;
/// Elasticity below which the throughput does not follow the queue: by Little's law it is 1 if the response does not
/// depend on the load, and 0 on a plateau.
const PLATEAU_ELASTICITY: f64 = 0.2;

/// A device that cannot keep up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HiddenLoad {
    /// Name of the device.
    pub device: String,
    /// Seconds in which it was saturated.
    pub saturated_s: f64,
    /// Requests per second that it completes then.
    pub plateau_per_s: f64,
    /// Requests in flight then.
    pub queue: f64,
    /// Pause between two requests of a program, s; `None` if it cannot be estimated.
    pub think_s: Option<f64>,
    /// Number of programs; `None` if it cannot be estimated.
    pub population: Option<f64>,
    /// Requests per second that a device without waiting would get.
    pub asked_per_s: Option<f64>,
    /// The 95 % interval of that load, from the correlation alone; no upper end if the pause may be zero.
    pub interval_per_s: Option<(f64, Option<f64>)>,
    /// Method of the estimate, or the reason why there is none.
    pub method: String,
}

/// Checks whether a device was saturated, and estimates the load that it did not get. With a known number of programs,
/// the law itself gives the pause.
pub fn find_hidden_load(front: &FrontLoad, population: Option<f64>) -> Option<HiddenLoad> {
    let ticks = &front.loaded;
    if ticks.len() < MIN_TICKS || throughput_elasticity(front)? > PLATEAU_ELASTICITY {
        return None;
    }
    let kept_s: f64 = ticks.iter().map(|t| f64::from(t.seconds)).sum();
    let mean = |value: fn(&super::LoadedTick) -> f32| {
        ticks.iter().map(|t| f64::from(value(t)) * f64::from(t.seconds)).sum::<f64>() / kept_s
    };
    let (plateau, queue) = (mean(|t| t.requests), mean(|t| t.queue));
    let mut found = HiddenLoad {
        device: front.name.clone(),
        // of a long log, not every tick is kept
        saturated_s: front.loaded_s.max(kept_s),
        plateau_per_s: plateau,
        queue,
        think_s: None,
        population: None,
        asked_per_s: None,
        interval_per_s: None,
        method: String::new(),
    };
    let tick_s = kept_s / ticks.len() as f64;
    match population {
        Some(population) => use_known_population(&mut found, population),
        None => estimate_by_correlation(&mut found, queue_autocorrelation(front), tick_s, throughput_rise(front)),
    }
    Some(found)
}

fn use_known_population(found: &mut HiddenLoad, population: f64) {
    let think = population / found.plateau_per_s - found.queue / found.plateau_per_s;
    found.population = Some(population);
    if think > 0.0 {
        found.think_s = Some(think);
        found.asked_per_s = Some(population / think);
        found.method = "interactive response time law with the given number of users".into();
    } else {
        found.method = "all given users wait: without think time, they use all that a device can deliver".into();
    }
}

fn estimate_by_correlation(found: &mut HiddenLoad, correlation: Option<(f64, f64)>, tick_s: f64, rise: f64) {
    const METHOD: &str = "interactive response time law; think time from the autocorrelation of the queue";
    let Some((rho, error)) = correlation else {
        found.method = "not enough data: too few consecutive ticks with requests waiting".into();
        return;
    };
    let think = |rho: f64| pause_ratio(rho).map(|a| a / tick_s - rise).filter(|rate| *rate > 0.0).map(f64::recip);
    let demand_with_pause = |think: f64| found.plateau_per_s + found.queue / think;
    let max_rho = (rho + 2.0 * error).min(0.9999);
    let Some(estimate) = think(rho) else {
        let reason = if pause_ratio(rho).is_some() {
            "the queue changes no faster than the device itself makes it change"
        } else {
            "programs send their next request within a tick; record with a shorter interval"
        };
        found.method = format!("not enough data: {reason}");
        return;
    };
    // if the queue may decay no faster than the device itself makes it, only the completed load is certain
    let lowest = think(max_rho).map_or(found.plateau_per_s, demand_with_pause);
    // a pause that may be zero leaves no upper end
    let low = think(rho - 2.0 * error);
    if low.is_none() {
        found.interval_per_s = Some((lowest, None));
        found.method = "not enough data for an estimate: think time may be zero, so only a lower bound is given".into();
        return;
    }
    found.think_s = Some(estimate);
    found.population = Some(found.queue + found.plateau_per_s * estimate);
    found.asked_per_s = Some(demand_with_pause(estimate));
    found.interval_per_s = Some((lowest, low.map(demand_with_pause)));
    found.method = METHOD.into();
}

/// Length of a tick over the pause, from the first autocorrelation of means over ticks; `None` if the correlation is
/// too small for any estimate (below a = 8, or 1 / 16).
fn pause_ratio(rho: f64) -> Option<f64> {
    let autocorrelation = |a: f64| (1.0 - (-a).exp()).powi(2) / (2.0 * (a - 1.0 + (-a).exp()));
    let (mut low, mut high) = (1e-4_f64, 8.0_f64);
    if rho < autocorrelation(high) {
        return None;
    }
    debug_assert!(rho <= autocorrelation(low), "the correlation {rho} is beyond the shortest tick of the search");
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if autocorrelation(middle) > rho { low = middle } else { high = middle }
    }
    Some(0.5 * (low + high))
}

/// Elasticity of the throughput with respect to the queue: the slope of their logarithms.
fn throughput_elasticity(front: &FrontLoad) -> Option<f64> {
    let points: Vec<(f64, f64)> = front
        .loaded
        .iter()
        .filter(|t| t.requests > 0.0)
        .map(|t| (f64::from(t.queue).ln(), f64::from(t.requests).ln()))
        .collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / count, sum.1 + p.1 / count));
    let (squares, product) =
        points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + (p.0 - x).powi(2), sum.1 + (p.0 - x) * (p.1 - y)));
    match squares {
        _ if points.len() < MIN_TICKS => None,
        // a queue that never changes: the throughput cannot have followed it
        w if w <= 1e-12 * count => Some(0.0),
        w => Some(product / w),
    }
}

/// Increase of the throughput per request in flight, per second; 0 if there is none.
fn throughput_rise(front: &FrontLoad) -> f64 {
    let ticks = &front.loaded;
    let pairs = || ticks.windows(2).filter(|pair| pair[1].number == pair[0].number + 1);
    let count = pairs().count() as f64;
    let mean = |value: &dyn Fn(&[super::LoadedTick]) -> f32| pairs().map(|p| f64::from(value(p))).sum::<f64>() / count;
    let (previous_queue, queue, rate) = (mean(&|p| p[0].queue), mean(&|p| p[1].queue), mean(&|p| p[1].requests));
    let (mut rate_covariance, mut queue_covariance) = (0.0, 0.0);
    for pair in pairs() {
        let instrument = f64::from(pair[0].queue) - previous_queue;
        rate_covariance += instrument * (f64::from(pair[1].requests) - rate);
        queue_covariance += instrument * (f64::from(pair[1].queue) - queue);
    }
    if queue_covariance > 0.0 { (rate_covariance / queue_covariance).max(0.0) } else { 0.0 }
}

/// First autocorrelation of the queue over consecutive ticks, and its standard error (Bartlett; with a correlation
/// `rho` per tick the variance is `(1 - rho^2) / n`). An estimate from `n` values is low by `(1 + 4 rho) / n` (Kendall
/// 1954; as in the statistics crate), which is corrected.
fn queue_autocorrelation(front: &FrontLoad) -> Option<(f64, f64)> {
    let ticks = &front.loaded;
    let mean = ticks.iter().map(|t| f64::from(t.queue)).sum::<f64>() / ticks.len() as f64;
    let deviation = |index: usize| f64::from(ticks[index].queue) - mean;
    let variance = (0..ticks.len()).map(|index| deviation(index).powi(2)).sum::<f64>() / ticks.len() as f64;
    debug_assert!(ticks.is_sorted_by(|a, b| a.number < b.number), "ticks are kept in their order, each once");
    let is_consecutive = |index: &usize| ticks[*index].number == ticks[index - 1].number + 1;
    let pairs: Vec<usize> = (1..ticks.len()).filter(is_consecutive).collect();
    if pairs.len() < MIN_TICKS || variance <= 0.0 {
        return None;
    }
    let count = pairs.len() as f64;
    let covariance = pairs.iter().map(|&index| deviation(index) * deviation(index - 1)).sum::<f64>() / count;
    let raw = (covariance / variance).clamp(-1.0, 1.0);
    let rho = (raw + (1.0 + 4.0 * raw) / count).clamp(-1.0, 0.9999);
    Some((rho, ((1.0 - rho * rho).max(1e-9) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovers_the_pause_from_the_correlation() {
        // ticks as long as the pause: (1 - 1/e)^2 / (2 / e) = 0.543
        let a = pause_ratio(0.543_080_6).unwrap();
        assert!((a - 1.0).abs() < 1e-5, "{a}");
        // ticks that are short against it: 1 - 2 a / 3
        let a = pause_ratio(1.0 - 0.02).unwrap();
        assert!((a - 0.03).abs() < 0.001, "{a}");
        assert_eq!(pause_ratio(0.05), None);
        assert_eq!(pause_ratio(-0.5), None);
    }
}
