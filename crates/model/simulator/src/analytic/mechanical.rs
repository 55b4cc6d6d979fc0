//! A mechanical drive under random requests: its service time by queue depth, in closed form.
//!
//! Arm: the distribution of seek distances, as shares of the stroke, depends on the scheduling policy and the queue
//! depth, not on the drive; it is tabulated in `travel.csv`. The drive's seek times at these distances, weighted with
//! it, give the mean and the second moment. Rotation takes half a revolution on average, with a variance of a twelfth
//! of a revolution squared. Shortest positioning is the minimum of independent times of arm and rotation.

use std::sync::{Arc, LazyLock};

use super::io_costs::{DEPTHS, IoCost, LoadCosts};
use crate::drive::{Model, PositioningModel, QueuePolicy};

/// Number of tabulated seek distances: the squares of 0 to 24 twenty-fourths, as shares of the stroke.
const TRAVEL_NODES: usize = 25;

/// Policies whose distances are tabulated at depths 2 to 256.
const TABULATED_POLICIES: [QueuePolicy; 3] =
    [QueuePolicy::Elevator, QueuePolicy::CircularLook, QueuePolicy::ShortestSeek];

/// Frequency of each distance: first come first served, then each of [`TABULATED_POLICIES`] from depth 2 on.
struct TravelTable {
    first_come: [f64; TRAVEL_NODES],
    sweeps: [[[f64; TRAVEL_NODES]; DEPTHS - 1]; TABULATED_POLICIES.len()],
}

static TRAVEL_TABLE: LazyLock<TravelTable> = LazyLock::new(|| {
    let mut travel = TravelTable {
        first_come: [0.0; TRAVEL_NODES],
        sweeps: [[[0.0; TRAVEL_NODES]; DEPTHS - 1]; TABULATED_POLICIES.len()],
    };
    for line in include_str!("travel.csv").lines() {
        let mut fields = line.split(',');
        let order = fields.next().and_then(QueuePolicy::from_name);
        let depth: u32 = fields.next().and_then(|depth| depth.parse().ok()).unwrap_or(0);
        let mut row = [0.0; TRAVEL_NODES];
        for (to, field) in row.iter_mut().zip(fields) {
            *to = field.parse().unwrap_or(f64::NAN);
        }
        match TABULATED_POLICIES.iter().position(|sweep| Some(*sweep) == order) {
            Some(sweep) => {
                let power = depth.checked_ilog2().unwrap_or(0) as usize;
                assert!((1..DEPTHS).contains(&power), "a row of depth {depth} is not in the table");
                travel.sweeps[sweep][power - 1] = row;
            }
            None => {
                assert!(order == Some(QueuePolicy::FirstComeFirstServed), "the row `{line}` is of no tabulated policy");
                travel.first_come = row;
            }
        }
    }
    travel
});

/// Demand on a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveDemand {
    /// Blocks per request.
    pub blocks: f64,
    /// Blocks in use, from the first on.
    pub used_blocks: u64,
    /// Share of writes.
    pub write_share: f64,
    /// Scheduling policy.
    pub order: QueuePolicy,
    /// Number of requests that the drive may hold and choose from.
    pub depth: u32,
}

/// Demand with its positions: equal shares of the requests lie between neighbouring quantiles.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedDemand {
    pub blocks: f64,
    pub write_share: f64,
    pub order: QueuePolicy,
    pub depth: u32,
    /// Blocks in ascending order, from the first block used to the last; only two for uniform positions.
    pub quantiles: Vec<u64>,
}

impl From<&DriveDemand> for PlacedDemand {
    fn from(demand: &DriveDemand) -> PlacedDemand {
        let DriveDemand { blocks, used_blocks, write_share, order, depth } = *demand;
        PlacedDemand { blocks, write_share, order, depth, quantiles: vec![0, used_blocks] }
    }
}

/// Costs of drives computed before, by model and demand.
#[derive(Debug, Default)]
pub(super) struct CostCache(Vec<(Arc<Model>, PlacedDemand, LoadCosts)>);

/// Largest number of costs kept.
const MAX_CACHED_COSTS: usize = 64;

impl CostCache {
    /// Returns the costs of requests to a drive.
    pub fn drive_costs(&mut self, model: &Arc<Model>, demand: &PlacedDemand) -> LoadCosts {
        let is_same =
            |known: &&(Arc<Model>, PlacedDemand, LoadCosts)| Arc::ptr_eq(&known.0, model) && known.1 == *demand;
        if let Some((_, _, costs)) = self.0.iter().find(is_same) {
            return costs.clone();
        }
        let costs = placed_costs(model, demand);
        if self.0.len() == MAX_CACHED_COSTS {
            self.0.remove(0);
        }
        self.0.push((Arc::clone(model), demand.clone(), costs.clone()));
        costs
    }
}

/// Mean and variance of a time, s and s².
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub mean: f64,
    pub variance: f64,
}

/// Returns the costs of requests to a mechanical drive, by queue depth.
pub fn mechanical_costs(model: &Model, demand: &DriveDemand) -> LoadCosts {
    placed_costs(model, &demand.into())
}

/// Returns the costs of requests at any distribution of positions.
pub(super) fn placed_costs(model: &Model, demand: &PlacedDemand) -> LoadCosts {
    let fixed = FixedTimes::for_demand(model, demand);
    let arm = ArmTimes::for_demand(model, demand, 0.0);
    let reads = arm.positioning_moments(demand, fixed.command_delay_s);
    // a large write waits for its data while the arm moves
    let writes = match fixed.min_write_start_s > arm.travel_s[1] {
        true => ArmTimes::for_demand(model, demand, fixed.min_write_start_s)
            .positioning_moments(demand, fixed.command_delay_s),
        false => reads,
    };
    let mut costs = LoadCosts::default();
    let max_power = f64::from(demand.depth.max(1)).log2();
    for depth in 0..DEPTHS {
        // the drive gains nothing from queues deeper than it can see
        let power = max_power.min(depth as f64);
        costs.read[depth] = fixed.read_cost(interpolate_moments(&reads, power));
        costs.write[depth] = fixed.write_cost(interpolate_moments(&writes, power));
    }
    let rotation = Moments { mean: fixed.revolution_s / 2.0, variance: fixed.revolution_s * fixed.revolution_s / 12.0 };
    costs.rewrite = fixed.rewrite;
    costs.late_rewrite = fixed.write_cost(rotation);
    costs.arm_variance = (reads[0].variance - rotation.variance).max(0.0);
    costs
}

/// Interpolates at a depth of 2 to the power of `power`.
fn interpolate_moments(known: &[Moments; DEPTHS], power: f64) -> Moments {
    let low = (power as usize).min(DEPTHS - 2);
    let (a, b, share) = (known[low], known[low + 1], power - low as f64);
    Moments { mean: a.mean + (b.mean - a.mean) * share, variance: a.variance + (b.variance - a.variance) * share }
}

/// Times that do not depend on the arm.
struct FixedTimes {
    revolution_s: f64,
    read_s: f64,
    write_s: f64,
    /// Earliest start of a write after the arm started to move.
    min_write_start_s: f64,
    /// By how much the command takes longer than the scheduling policy assumes.
    command_delay_s: f64,
    /// Response time of an acknowledged write, if the drive caches writes; it then continues in the background.
    acknowledged_s: Option<f64>,
    rewrite: IoCost,
}

impl FixedTimes {
    fn for_demand(model: &Model, demand: &PlacedDemand) -> FixedTimes {
        const S: f64 = 1e-9;
        let (overheads, cache, channel) = (model.overheads(), model.cache(), model.channel());
        let after =
            |times: [u64; 2]| (times[0] as f64 * (1.0 - demand.write_share) + times[1] as f64 * demand.write_share) * S;
        let media = MediaTimes::for_demand(model, demand);
        let reselect = if channel.never_disconnects { 0.0 } else { overheads.reselect as f64 * S };
        let (reading, writing) = (channel.read_block as f64 * S, channel.write_block as f64 * S);
        let prepare = overheads.prepare as f64 * S;
        let span = media.transfer_s;
        // the channel transfer ends a block after the media transfer, or later if the channel is slower
        let basis = if cache.marks_are_request_shares { demand.blocks } else { f64::from(cache.segment_blocks) };
        let mark = (basis * cache.read_mark).floor().clamp(1.0, demand.blocks);
        let passing = span + media.crossing_s[0];
        let sent = span * mark / demand.blocks + reselect + prepare + demand.blocks * reading;
        let tail = sent.max(passing + reading) - passing + overheads.read_done as f64 * S;
        let fits = cache.segments > 0 && demand.blocks <= f64::from(cache.segment_blocks);
        let early = (cache.acknowledges_early && fits)
            .then(|| after(overheads.write_hit) + prepare + demand.blocks * writing + overheads.write_done as f64 * S);
        let (command, ending) = match (&overheads.early_disconnect, early) {
            (_, Some(_)) => (after(overheads.write_hit), 0.0),
            (Some(early), None) => {
                let again = if channel.never_disconnects { 0 } else { overheads.reselect_again };
                ((early.command + early.seek) as f64 * S, (again + overheads.write_done) as f64 * S)
            }
            (None, None) => (after(overheads.write_miss), reselect + overheads.write_done as f64 * S),
        };
        let turn = model.revolution_s();
        // for a rewrite, the block passes the head again a revolution after it was read
        let round = ((command + tail + span) / turn).ceil().max(1.0) * turn - tail + ending;
        let rewrite =
            IoCost { hold_s: round, after_s: early.map_or(0.0, |seen| (round - seen).max(0.0)), variance_s2: 0.0 };
        // the drive has its data in time, or begins later; a revolution is lost where the scheduling policy assumed a
        // shorter command
        let reserve = if overheads.early_disconnect.is_some() { demand.blocks.min(10.0) } else { 1.0 };
        let data = (demand.blocks * writing + prepare - media.transfer_s).max(reserve * writing + prepare);
        let assumed_command_s = after(overheads.write_miss);
        FixedTimes {
            revolution_s: turn,
            read_s: after(overheads.read_miss) + passing + tail,
            write_s: command + media.write_settle_s + span + media.crossing_s[1] + ending,
            min_write_start_s: data - media.write_settle_s,
            command_delay_s: (command - assumed_command_s).max(0.0) * demand.write_share,
            acknowledged_s: early,
            rewrite,
        }
    }

    fn read_cost(&self, position: Moments) -> IoCost {
        IoCost { hold_s: self.read_s + position.mean, after_s: 0.0, variance_s2: position.variance }
    }

    fn write_cost(&self, position: Moments) -> IoCost {
        let hold_s = self.write_s + position.mean;
        let after_s = self.acknowledged_s.map_or(0.0, |seen| (hold_s - seen).max(0.0));
        IoCost { hold_s, after_s, variance_s2: position.variance }
    }
}

/// Media times of a request.
struct MediaTimes {
    /// Transfer under the head.
    transfer_s: f64,
    /// Crossing into the next track, where that happens: of a read, and of a write, which settles longer and may lose a
    /// revolution.
    crossing_s: [f64; 2],
    /// Extra settling time of a write.
    write_settle_s: f64,
}

impl MediaTimes {
    fn for_demand(model: &Model, demand: &PlacedDemand) -> MediaTimes {
        const PLACES: u32 = 8;
        let (geometry, turn) = (model.geometry(), model.revolution_s());
        let (mut span, mut crossing) = (0.0, [0.0; 2]);
        for index in 0..PLACES {
            let block = block_at_share(demand, (f64::from(index) + 0.5) / f64::from(PLACES));
            let place = geometry.locate_block(block);
            let sectors = f64::from(geometry.sectors_per_track(&place));
            span += turn * demand.blocks / sectors / f64::from(PLACES);
            let crossed = (demand.blocks - 1.0) / sectors;
            let skew = model.skew_time_s(&place, block);
            for (crossing, write) in crossing.iter_mut().zip([false, true]) {
                let (skew, switch) =
                    skew.map_or((0.0, 0.0), |(skew, next)| (skew, model.travel_time_s(&place, &next, write)));
                let lost = ((switch - skew) / turn).ceil().max(0.0) * turn;
                *crossing += crossed * (skew + lost) / f64::from(PLACES);
            }
        }
        let (near, far) = (geometry.locate_block(0), geometry.locate_block(block_at_share(demand, 1.0)));
        let settle = model.travel_time_s(&near, &far, true) - model.travel_time_s(&near, &far, false);
        MediaTimes { transfer_s: span, crossing_s: crossing, write_settle_s: settle }
    }
}

/// Returns the block below which a share of the requests lies. The policy picks among the waiting requests by rank,
/// wherever they are: for non-uniform positions, distances that are shares of the stroke become shares of the requests.
fn block_at_share(demand: &PlacedDemand, share: f64) -> u64 {
    let known = &demand.quantiles;
    debug_assert!(known.len() >= 2 && known.is_sorted(), "quantiles ascend from the first block to the last");
    let position = share.clamp(0.0, 1.0) * (known.len() - 1) as f64;
    let low = (position as usize).min(known.len() - 2);
    let between = (known[low + 1] - known[low]) as f64 * (position - low as f64);
    (known[low] + between as u64).min(known[known.len() - 1].saturating_sub(1))
}

/// Times of the arm.
struct ArmTimes<'a> {
    model: &'a Model,
    revolution_s: f64,
    /// Lower bound of the arm's time.
    min_travel_s: f64,
    /// Travel time at each of the [`TRAVEL_NODES`].
    travel_s: [f64; TRAVEL_NODES],
}

impl ArmTimes<'_> {
    fn for_demand<'a>(model: &'a Model, demand: &PlacedDemand, min_travel_s: f64) -> ArmTimes<'a> {
        let starts = if demand.quantiles.len() > 2 { 8 } else { 2 };
        let geometry = model.geometry();
        let mut times = [0.0; TRAVEL_NODES];
        for (node, time) in times.iter_mut().enumerate() {
            let distance = (node as f64 / (TRAVEL_NODES - 1) as f64).powi(2);
            for start in 0..starts {
                let from = (1.0 - distance) * (f64::from(start) + 0.5) / f64::from(starts);
                let ends = [from, from + distance].map(|share| geometry.locate_block(block_at_share(demand, share)));
                *time += model.travel_time_s(&ends[0], &ends[1], false).max(min_travel_s) / f64::from(starts);
            }
        }
        ArmTimes { model, revolution_s: model.revolution_s(), min_travel_s, travel_s: times }
    }

    /// Moments of the time that arm and rotation need for the next request, by depth.
    fn positioning_moments(&self, demand: &PlacedDemand, late: f64) -> [Moments; DEPTHS] {
        if let PositioningModel::Constant(time) = self.model.positioning_model() {
            return [Moments { mean: time as f64 * 1e-9, variance: 0.0 }; DEPTHS];
        }
        let exact = self.model.positioning_model() == PositioningModel::Exact;
        if demand.order == QueuePolicy::ShortestPositioning && exact && demand.depth > 1 {
            return self.shortest_positioning(demand, late);
        }
        let rows =
            TABULATED_POLICIES.iter().position(|sweep| *sweep == demand.order).map(|sweep| &TRAVEL_TABLE.sweeps[sweep]);
        std::array::from_fn(|depth| {
            let weights = match rows {
                Some(rows) if depth > 0 => &rows[depth - 1],
                _ => &TRAVEL_TABLE.first_come,
            };
            let mean: f64 = weights.iter().zip(&self.travel_s).map(|(weight, time)| weight * time).sum();
            let square: f64 = weights.iter().zip(&self.travel_s).map(|(weight, time)| weight * time * time).sum();
            let rotation = if exact { self.revolution_s * self.revolution_s / 12.0 } else { 0.0 };
            Moments { mean: mean + self.revolution_s / 2.0, variance: (square - mean * mean).max(0.0) + rotation }
        })
    }

    /// Minimum of independent times of arm and rotation, averaged over arm positions. Requests left behind are the
    /// expensive ones, so that the minimum of n behaves like the minimum of 1.11 n^0.85 independent ones: within 3 % of
    /// the simulated drives up to n = 64.
    fn shortest_positioning(&self, demand: &PlacedDemand, late: f64) -> [Moments; DEPTHS] {
        const PLACES: usize = 6;
        let longest = self.travel_s.iter().fold(0.0, |a: f64, b| a.max(*b)) + self.revolution_s;
        let mut sums = [ArmSums::default(); 2 * DEPTHS - 1];
        for place in 0..PLACES {
            let middle = (place as f64 + 0.5) / PLACES as f64;
            self.add_shortest_positioning(demand, middle, longest, &mut sums);
        }
        let halves = sums.map(|sums| sums.moments(PLACES as f64, late, self.revolution_s));
        std::array::from_fn(|depth| {
            let depth = depth as f64;
            let row = 2.0 * if depth < 1.0 { depth } else { 1.0 + 0.85 * (depth - 1.0) };
            let (low, share) = (row as usize, row.fract());
            debug_assert!(low <= 2 * DEPTHS - 2, "row {row} of {} rows", 2 * DEPTHS - 1);
            let (a, b) = (halves[low], halves[(low + 1).min(2 * DEPTHS - 2)]);
            Moments {
                mean: a.mean + (b.mean - a.mean) * share,
                variance: a.variance + (b.variance - a.variance) * share,
            }
        })
    }

    /// Adds the sums for an arm at one position: row `i` for the minimum of 2 to the power of i/2 requests.
    fn add_shortest_positioning(
        &self,
        demand: &PlacedDemand,
        place: f64,
        longest: f64,
        sums: &mut [ArmSums; 2 * DEPTHS - 1],
    ) {
        const DISTANCES: usize = 10;
        const STEPS: usize = 48;
        let geometry = self.model.geometry();
        let from = geometry.locate_block(block_at_share(demand, place));
        let step = longest / STEPS as f64;
        // probability that a request is not reached by the middle of each step, and that its seek ends in it
        let (mut later, mut arrives) = ([0.0; STEPS], [0.0; STEPS]);
        for side in [-place, 1.0 - place] {
            for distance in 0..DISTANCES {
                let root = (distance as f64 + 0.5) / DISTANCES as f64;
                let weight = 2.0 * root / DISTANCES as f64 * side.abs();
                let to = geometry.locate_block(block_at_share(demand, place + side * root * root));
                let travel = self.model.travel_time_s(&from, &to, false).max(self.min_travel_s);
                arrives[((travel / step) as usize).min(STEPS - 1)] += weight;
                for (bin, later) in later.iter_mut().enumerate() {
                    let rotated = ((bin as f64 + 0.5) * step - travel) / self.revolution_s;
                    *later += weight * (1.0 - rotated.clamp(0.0, 1.0));
                }
            }
        }
        let mut powers = [later, later.map(|later| later.powf(std::f64::consts::SQRT_2))];
        for (half, sums) in sums.iter_mut().enumerate() {
            let power = &mut powers[half % 2];
            let count = (half as f64 / 2.0).exp2();
            for bin in 0..STEPS {
                let none = power[bin];
                sums.mean += none * step;
                sums.square += none * (2.0 * bin as f64 + 1.0) * step * step;
                sums.just_in_time += count * none * arrives[bin];
                power[bin] = none * none;
            }
        }
    }
}

/// Sums over several arm positions.
#[derive(Clone, Copy, Debug, Default)]
struct ArmSums {
    mean: f64,
    square: f64,
    /// Probability density, per revolution, of chosen requests without rotational latency.
    just_in_time: f64,
}

impl ArmSums {
    /// Returns the moments. A request that was expected just in time, and whose command then takes `late` longer, costs
    /// another revolution.
    fn moments(&self, places: f64, late: f64, turn: f64) -> Moments {
        let (mean, square) = (self.mean / places, self.square / places);
        let missed = (self.just_in_time / places * late / turn).min(1.0);
        let variance = (square - mean * mean).max(0.0) + missed * (1.0 - missed) * turn * turn;
        Moments { mean: mean + missed * turn, variance }
    }
}
