//! A token bucket with random arrivals, in closed form.
//!
//! The backlog of a bucket falls by one second per second and grows by each request's service time at the allowed rate.
//! A request that arrives at backlog v waits for the part of it beyond the window. In a steady state the backlog
//! crosses each level upwards as often as downwards (Brill and Posner, "Level crossings in point processes applied to
//! queues", Operations Research 25(4), 1977): with arrival rate λ(v) and service times B,
//!
//! ```text
//! f(v) = λ(0) p0 P(B > v) + ∫ λ(u) f(u) P(B > v - u) du
//! ```
//!
//! The integral covers only levels below v, so one pass over the levels solves it. With a constant λ it is M/G/1,
//! exactly; users with finite think times are arrivals whose rate falls as users wait.

/// Demand on a token bucket.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BucketDemand<'a> {
    /// Service times at the allowed rate, s, each with its share of the requests.
    pub service_times: &'a [(f64, f64)],
    /// Unused capacity of this time may be used at once, s.
    pub window_s: f64,
    /// Open arrivals, requests per second.
    pub open_per_s: f64,
    /// Closed users: their number, and the time from the end of a wait to their next request, s.
    pub closed_users: &'a [(f64, f64)],
}

/// Resulting state of a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BucketBacklog {
    /// Requests per second of each kind of users.
    pub closed_per_s: Vec<f64>,
    /// Mean wait, s, and its variance, s².
    pub wait_s: f64,
    pub wait_variance_s2: f64,
    /// Share of the requests that wait.
    pub waiting_share: f64,
}

/// Largest number of levels.
const MAX_LEVELS: usize = 600;
/// Levels per mean service time.
const LEVELS_PER_MEAN: f64 = 4.0;

/// Solves a bucket; `None` if more requests arrive than are allowed.
pub(super) fn solve_bucket(demand: &BucketDemand) -> Option<BucketBacklog> {
    let mean: f64 = demand.service_times.iter().map(|(time, share)| time * share).sum();
    let users: f64 = demand.closed_users.iter().map(|(users, _)| users).sum();
    let open = demand.open_per_s * mean;
    let is_idle = mean <= 0.0 || users + demand.open_per_s <= 0.0;
    if open >= 0.9999 && !is_idle {
        return None;
    }
    let rate_without_wait = |(users, pause): &(f64, f64)| users / pause.max(1e-12);
    if is_idle {
        return Some(BucketBacklog {
            closed_per_s: demand.closed_users.iter().map(rate_without_wait).collect(),
            ..BucketBacklog::default()
        });
    }
    if users <= 0.0 {
        return Some(solve_open_arrivals(demand, open));
    }
    // the backlog of open arrivals alone has a tail of this length (M/G/1, heavy traffic)
    let square = service_moment(demand, 2);
    let longest = demand.service_times.iter().fold(0.0, |a: f64, b| a.max(b.0));
    let tail = demand.open_per_s * square / (2.0 * (1.0 - open));
    let range =
        demand.window_s + (users / (1.0 - open) + 2.0) * longest + 14.0 * tail.max(if open > 0.0 { mean } else { 0.0 });
    let step = (mean / LEVELS_PER_MEAN).max(range / MAX_LEVELS as f64);
    Some(integrate_levels(demand, mean, step, (range / step).ceil() as usize + 1))
}

/// Returns the mean of a power of the service times.
fn service_moment(demand: &BucketDemand, power: i32) -> f64 {
    demand.service_times.iter().map(|(time, share)| time.powi(power) * share).sum()
}

/// Solves a bucket with random arrivals only, in closed form: near saturation, levels would be too coarse. The
/// probability that the backlog exceeds a level tends to an exponential (Asmussen, "Applied Probability and Queues",
/// 2003, chapter XIII); without a window, mean and variance of the wait are those of Pollaczek and Khinchin, and
/// Takács.
fn solve_open_arrivals(demand: &BucketDemand, busy: f64) -> BucketBacklog {
    let (per_s, window_s) = (demand.open_per_s, demand.window_s);
    let longest = demand.service_times.iter().fold(0.0, |a: f64, b| a.max(b.0));
    let mean = per_s * service_moment(demand, 2) / (2.0 * (1.0 - busy));
    let square = 2.0 * mean * mean + per_s * service_moment(demand, 3) / (3.0 * (1.0 - busy));
    // the decay rate balances the exponentially weighted arriving work with the work done
    let sum = |weight: &dyn Fn(f64) -> f64| {
        per_s * demand.service_times.iter().map(|(time, share)| share * weight(*time)).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, (1.0 / mean).min(600.0 / longest));
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if sum(&|time| (middle * time).exp_m1()) < middle { low = middle } else { high = middle }
    }
    let decay = 0.5 * (low + high);
    let tail_factor = (1.0 - busy) / (sum(&|time| time * (decay * time).exp()) - 1.0);
    // for windows of only a few service times the probability is not yet exponential: the exact value without a window
    // counts the more, the shorter the window
    let exact_weight = (-window_s / longest).exp();
    let beyond_window = (-decay * window_s).exp();
    let blend = |without: f64, tail: f64| tail * beyond_window * (1.0 + (without / tail - 1.0) * exact_weight);
    let wait_s = blend(mean, tail_factor / decay);
    let square = blend(square, 2.0 * tail_factor / (decay * decay));
    BucketBacklog {
        closed_per_s: vec![0.0; demand.closed_users.len()],
        wait_s,
        wait_variance_s2: (square - wait_s * wait_s).max(0.0),
        waiting_share: blend(busy, tail_factor).min(1.0),
    }
}

impl BucketDemand<'_> {
    /// Returns the arrivals per second at a backlog; writes those of each kind of users to `rates`.
    fn arrival_rate_at(&self, backlog: f64, mean: f64, rates: &mut [f64]) -> f64 {
        // each waiting user has contributed one service time to the backlog; the last one does not wait for its own
        let wait = (backlog - self.window_s).max(0.0);
        let is_single_kind = self.closed_users.len() == 1 && self.open_per_s <= 0.0;
        let waiting = ((wait / mean - 1e-9).ceil() - 1.0).max(0.0);
        for ((users, pause), rate) in self.closed_users.iter().zip(rates.iter_mut()) {
            *rate = match is_single_kind {
                true => (users - waiting).max(0.0) / pause.max(1e-12),
                false => users / (pause.max(1e-12) + (wait - mean).max(0.0)),
            };
        }
        self.open_per_s + rates.iter().sum::<f64>()
    }
}

/// Integrates over all levels once.
fn integrate_levels(demand: &BucketDemand, mean: f64, step: f64, count: usize) -> BucketBacklog {
    // requests smaller than a level are lumped together
    let lumps: Vec<(usize, f64)> = discretize_times(demand.service_times, mean, step);
    let lumped: f64 = lumps.iter().map(|(size, share)| *size as f64 * step * share).sum();
    let scale = mean / lumped;
    let (mut passed, mut rates) = (Vec::with_capacity(count + 1), vec![0.0; demand.closed_users.len()]);
    let rate_at = |level: f64, rates: &mut [f64]| demand.arrival_rate_at(level, mean, rates) * scale;
    let first = rate_at(0.0, &mut rates);
    // cumulative arrivals, starting with those at no backlog; everything in units of p0
    let (mut sum, mut mass, mut first_mass) = (first, 1.0, 1.0);
    let mut by_chain = rates.clone();
    let (mut arrivals, mut waits, mut squares, mut waited) = (first, 0.0, 0.0, 0.0);
    passed.push(sum);
    for level in 0..count {
        // the arrivals one service time below the middle of the step
        let arrivals_below = |(size, share): &(usize, f64)| match level.checked_sub(*size) {
            Some(from) => share * 0.5 * (passed[from] + passed[from + 1]),
            None => 0.0,
        };
        let density = (sum - lumps.iter().map(arrivals_below).sum::<f64>()).max(0.0);
        let backlog = (level as f64 + 0.5) * step;
        let rate = rate_at(backlog, &mut rates);
        // within the step the sum grows exponentially
        let growth = (rate * step).min(60.0);
        let step_mass = match growth {
            // the first terms of exp, exact to 1e-6
            0.0..0.1 => density * step * (1.0 + growth / 2.0 * (1.0 + growth / 3.0 * (1.0 + growth / 4.0))),
            _ => density * growth.exp_m1() / rate,
        };
        sum += rate * step_mass;
        mass += step_mass;
        arrivals += rate * step_mass;
        let wait = (backlog - demand.window_s).max(0.0);
        waits += rate * step_mass * wait;
        squares += rate * step_mass * wait * wait;
        waited += if wait > 0.0 { rate * step_mass } else { 0.0 };
        by_chain.iter_mut().zip(&rates).for_each(|(sum, rate)| *sum += rate * step_mass);
        passed.push(sum);
        if sum > 1e100 {
            for value in passed.iter_mut().chain(by_chain.iter_mut()) {
                *value *= 1e-100;
            }
            for value in [&mut sum, &mut mass, &mut first_mass, &mut arrivals, &mut waits, &mut squares, &mut waited] {
                *value *= 1e-100;
            }
        }
    }
    let wait_s = waits / arrivals;
    // the backlog falls by one second per second while it is not empty, and each request adds its service time: work
    // arriving equals work done, whatever error the steps make in the rates
    let conserved = (mass - first_mass) / (mean * arrivals);
    BucketBacklog {
        closed_per_s: by_chain.iter().map(|sum| sum * conserved / mass).collect(),
        wait_s,
        wait_variance_s2: (squares / arrivals - wait_s * wait_s).max(0.0),
        waiting_share: waited / arrivals,
    }
}

/// Converts service times to numbers of steps; times shorter than a step are lumped together.
fn discretize_times(times: &[(f64, f64)], mean: f64, step: f64) -> Vec<(usize, f64)> {
    if mean < step {
        return vec![(1, 1.0)];
    }
    times.iter().map(|(time, share)| (((time / step).round() as usize).max(1), *share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_arrivals_match_m_g_1() {
        for (times, rate) in
            [(vec![(0.01, 1.0)], 30.0), (vec![(0.01, 1.0)], 80.0), (vec![(0.005, 0.5), (0.015, 0.5)], 70.0)]
        {
            let found = solve_bucket(&BucketDemand {
                service_times: &times,
                window_s: 0.0,
                open_per_s: rate,
                closed_users: &[],
            });
            let square: f64 = times.iter().map(|(time, share)| time * time * share).sum();
            let truth = rate * square / (2.0 * (1.0 - rate * 0.01));
            let wait = found.expect("steady").wait_s;
            assert!((wait / truth - 1.0).abs() < 1e-6, "{times:?} {rate}: {wait} {truth}");
        }
        assert_eq!(
            solve_bucket(&BucketDemand {
                service_times: &[(0.01, 1.0)],
                window_s: 0.0,
                open_per_s: 101.0,
                closed_users: &[]
            }),
            None
        );
    }

    /// Compares with the recursion of the backlog: V' = max(V - gap, 0) + time.
    #[test]
    fn waits_beyond_a_window_match_a_recursion() {
        for (busy, window) in [(0.5, 2.0), (0.9, 5.0), (0.95, 10.0), (0.95, 3.0)] {
            let mut rng = diskwright_base::Rng::new(5, 1);
            let (mut backlog, mut waits, count) = (0.0f64, 0.0, 4_000_000);
            for _ in 0..count {
                backlog = (backlog + (1.0 - rng.next_f64()).ln() / busy).max(0.0);
                waits += (backlog - window).max(0.0);
                backlog += 1.0;
            }
            let demand =
                BucketDemand { service_times: &[(1.0, 1.0)], window_s: window, open_per_s: busy, closed_users: &[] };
            let (wait, drawn) = (solve_bucket(&demand).expect("steady").wait_s, waits / f64::from(count));
            assert!((wait / drawn - 1.0).abs() < 0.05, "{busy} {window}: {wait} {drawn}");
        }
    }

    #[test]
    fn users_get_no_more_than_is_allowed() {
        let closed = |users: f64, pause: f64, window_s: f64| {
            let closed = [(users, pause)];
            let demand =
                BucketDemand { service_times: &[(0.01, 1.0)], window_s, open_per_s: 0.0, closed_users: &closed };
            solve_bucket(&demand).expect("users wait").closed_per_s[0]
        };
        // far above and far below the rate of 100 a second
        assert!((closed(50.0, 0.01, 0.0) - 100.0).abs() < 2.0, "{}", closed(50.0, 0.01, 0.0));
        assert!((closed(50.0, 0.01, 1.0) - 100.0).abs() < 2.0, "{}", closed(50.0, 0.01, 1.0));
        assert!((closed(2.0, 1.0, 0.0) - 2.0).abs() < 0.05);
        // a single user without think time waits for the service time of its last request
        assert!((closed(1.0, 1e-6, 0.0) - 100.0).abs() < 2.0, "{}", closed(1.0, 1e-6, 0.0));
    }
}
