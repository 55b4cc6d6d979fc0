//! Costs of a device in a queueing model: how long each kind of I/O occupies it, by queue depth.

/// Number of tabulated depths: 1, 2, 4 and so on to 256.
pub const DEPTHS: usize = 9;

/// Cost of an I/O at a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoCost {
    /// Time that the device is occupied, s.
    pub hold_s: f64,
    /// Part of that time after the acknowledgement, s.
    pub after_s: f64,
    /// Variance of the occupied time, s².
    pub variance_s2: f64,
}

impl IoCost {
    /// Returns the response time, s.
    pub fn response_s(&self) -> f64 {
        self.hold_s - self.after_s
    }
}

/// Costs of the I/Os of one load at a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadCosts {
    /// A read at any position, by depth.
    pub read: [IoCost; DEPTHS],
    /// A write at any position, by depth.
    pub write: [IoCost; DEPTHS],
    /// An immediate rewrite of a block just read, undisturbed by other I/Os.
    pub rewrite: IoCost,
    /// A rewrite some time later.
    pub late_rewrite: IoCost,
    /// Variance of the arm's time, s².
    pub arm_variance: f64,
}

/// Interpolates the costs between tabulated depths, linearly over the logarithm.
pub fn cost_at_depth(costs: &[IoCost; DEPTHS], waiting: f64) -> IoCost {
    let (low, share) = table_position(waiting);
    let (a, b) = (&costs[low], &costs[low + 1]);
    let between = |a: f64, b: f64| a + (b - a) * share;
    IoCost {
        hold_s: between(a.hold_s, b.hold_s),
        after_s: between(a.after_s, b.after_s),
        variance_s2: between(a.variance_s2, b.variance_s2),
    }
}

/// Interpolates a figure between tabulated depths, linearly over the logarithm.
pub(super) fn interpolate_depths(figures: &[f64; DEPTHS], waiting: f64) -> f64 {
    let (low, share) = table_position(waiting);
    figures[low] + (figures[low + 1] - figures[low]) * share
}

/// Returns the tabulated depth below a depth, and the fraction of the way to the next.
fn table_position(waiting: f64) -> (usize, f64) {
    let power = waiting.max(1.0).log2().min((DEPTHS - 1) as f64);
    let low = (power as usize).min(DEPTHS - 2);
    (low, power - low as f64)
}

/// Distribution of the queue depth at which a device starts its next I/O: shares, each with its depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depths([(f64, f64); 3]);

impl Depths {
    /// No queue.
    pub const NONE: Depths = Depths([(1.0, 1.0), (0.0, 1.0), (0.0, 1.0)]);

    /// A single depth.
    pub fn single_depth(depth: f64) -> Depths {
        Depths([(1.0, depth), (0.0, 1.0), (0.0, 1.0)])
    }

    /// The device is busy for a share of the time when another I/O arrives, and then has `queue / busy` I/Os on
    /// average; otherwise it starts the new one at once.
    pub fn from_queue(busy: f64, queue: f64, variance: f64) -> Depths {
        let busy = busy.clamp(0.0, 1.0);
        if busy < 1e-6 {
            return Depths::single_depth(1.0);
        }
        let mean = (queue / busy).max(1.0);
        let spread = ((variance + queue * queue) / busy - mean * mean).max(0.0);
        Depths::two_depths(busy, mean, spread, 1.0)
    }

    /// Depth 1, and for a share of the time two depths with this mean and variance, none below `min_depth`.
    pub(super) fn two_depths(share: f64, mean: f64, variance: f64, min_depth: f64) -> Depths {
        let low = (mean - variance.sqrt()).max(min_depth);
        if variance < 1e-6 || mean - low < 1e-3 {
            return Depths([(1.0 - share, 1.0), (share, mean), (0.0, 1.0)]);
        }
        let high = mean + variance / (mean - low);
        let lower = (high - mean) / (high - low);
        Depths([(1.0 - share, 1.0), (share * lower, low), (share * (1.0 - lower), high)])
    }

    /// Returns the depths as seen by arrivals at a busy device: each weighted with the I/Os that wait there.
    pub fn weighted_by_depth(&self) -> Depths {
        let [_, low, high] = self.0;
        let mean = low.0 * low.1 + high.0 * high.1;
        if mean <= 0.0 {
            return *self;
        }
        Depths([(0.0, 1.0), (low.0 * low.1 / mean, low.1), (high.0 * high.1 / mean, high.1)])
    }

    /// Returns the mean cost.
    pub fn mean_cost(&self, costs: &[IoCost; DEPTHS]) -> IoCost {
        let mut mean = IoCost::default();
        for (share, depth) in self.0 {
            let cost = cost_at_depth(costs, depth);
            mean.hold_s += share * cost.hold_s;
            mean.after_s += share * cost.after_s;
            mean.variance_s2 += share * cost.variance_s2;
        }
        mean
    }
}
