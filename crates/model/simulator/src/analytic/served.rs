//! What a device is to a queue: how long each kind of I/O holds it, by how
//! many wait there.

/// Depths that are tabulated: 1, 2, 4 and so on to 256.
pub const DEPTHS: usize = 9;

/// What an I/O costs a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoCost {
    /// The device is held, s.
    pub hold_s: f64,
    /// The last part of that, after whoever asked was told that it is done, s.
    pub after_s: f64,
    /// Variance of the time it is held, s².
    pub variance_s2: f64,
}

impl IoCost {
    /// What whoever asked sees of it, s.
    pub fn seen_s(&self) -> f64 {
        self.hold_s - self.after_s
    }
}

/// What the I/Os of one load cost a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadCosts {
    /// A read somewhere, by depth.
    pub read: [IoCost; DEPTHS],
    /// A write somewhere.
    pub write: [IoCost; DEPTHS],
    /// A write of what was just read, when nothing else came between: at once.
    pub again: IoCost,
    /// The same some time later.
    pub again_late: IoCost,
    /// Variance of the arm's time alone, s².
    pub arm_variance: f64,
}

/// Between the costs of the depths on either side, straight over the logarithm.
pub fn at_depth(costs: &[IoCost; DEPTHS], waiting: f64) -> IoCost {
    let (low, share) = tabulated(waiting);
    let (a, b) = (&costs[low], &costs[low + 1]);
    let between = |a: f64, b: f64| a + (b - a) * share;
    IoCost {
        hold_s: between(a.hold_s, b.hold_s),
        after_s: between(a.after_s, b.after_s),
        variance_s2: between(a.variance_s2, b.variance_s2),
    }
}

/// Of one figure at each of the tabulated depths, that between them, straight over the logarithm.
pub(super) fn between_depths(figures: &[f64; DEPTHS], waiting: f64) -> f64 {
    let (low, share) = tabulated(waiting);
    figures[low] + (figures[low + 1] - figures[low]) * share
}

/// The tabulated depth below a depth, and how far it is to the next.
fn tabulated(waiting: f64) -> (usize, f64) {
    let power = waiting.max(1.0).log2().min((DEPTHS - 1) as f64);
    let low = (power as usize).min(DEPTHS - 2);
    (low, power - low as f64)
}

/// How many wait where a device takes up its next I/O: depths, each with its share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depths([(f64, f64); 3]);

impl Depths {
    /// Nobody waits.
    pub const NONE: Depths = Depths([(1.0, 1.0), (0.0, 1.0), (0.0, 1.0)]);

    /// One depth.
    pub fn one(depth: f64) -> Depths {
        Depths([(1.0, depth), (0.0, 1.0), (0.0, 1.0)])
    }

    /// A device is busy for a share of the time, when another I/O comes, and then
    /// has so many I/Os in the mean with this variance; else it takes the new one at once.
    pub fn of(busy: f64, queue: f64, variance: f64) -> Depths {
        let busy = busy.clamp(0.0, 1.0);
        if busy < 1e-6 {
            return Depths::one(1.0);
        }
        let mean = (queue / busy).max(1.0);
        let spread = ((variance + queue * queue) / busy - mean * mean).max(0.0);
        Depths::split(busy, mean, spread, 1.0)
    }

    /// One at a time, and for a share two depths with this mean and variance, none below the least.
    pub(super) fn split(share: f64, mean: f64, variance: f64, least: f64) -> Depths {
        let low = (mean - variance.sqrt()).max(least);
        if variance < 1e-6 || mean - low < 1e-3 {
            return Depths([(1.0 - share, 1.0), (share, mean), (0.0, 1.0)]);
        }
        let high = mean + variance / (mean - low);
        let lower = (high - mean) / (high - low);
        Depths([(1.0 - share, 1.0), (share * lower, low), (share * (1.0 - lower), high)])
    }

    /// As those find it who come to a busy device: each depth as often as I/Os wait there.
    pub fn weighted(&self) -> Depths {
        let [_, low, high] = self.0;
        let all = low.0 * low.1 + high.0 * high.1;
        if all <= 0.0 {
            return *self;
        }
        Depths([(0.0, 1.0), (low.0 * low.1 / all, low.1), (high.0 * high.1 / all, high.1)])
    }

    /// The mean cost.
    pub fn cost(&self, costs: &[IoCost; DEPTHS]) -> IoCost {
        let mut mean = IoCost::default();
        for (share, depth) in self.0 {
            let cost = at_depth(costs, depth);
            mean.hold_s += share * cost.hold_s;
            mean.after_s += share * cost.after_s;
            mean.variance_s2 += share * cost.variance_s2;
        }
        mean
    }
}
