//! A mechanical drive under random requests: how long one takes when so many
//! wait, in closed form.
//!
//! Arm: the share of the stroke that it crosses has a distribution that depends
//! on the order of service and on how many wait, and not on the drive; it is
//! `travel.csv`. Weighted with the drive's own times by distance it gives mean
//! and second moment. Rotation is half a turn in the mean and a twelfth of its
//! square about that. Shortest positioning is the least of so many independent
//! times of arm and rotation.

use std::sync::{Arc, LazyLock};

use super::served::{DEPTHS, IoCost, LoadCosts};
use crate::drive::{Model, PositioningModel, QueuePolicy};

/// Ways of the arm that are tabulated: the square of 0 to 24 twenty-fourths of the stroke.
const NODES: usize = 25;

/// Orders whose ways are tabulated at depths 2 to 256.
const SWEEPS: [QueuePolicy; 3] = [QueuePolicy::Elevator, QueuePolicy::CircularLook, QueuePolicy::ShortestSeek];

/// How often each way is taken: first come, then each of [`SWEEPS`] from depth 2 on.
struct Travel {
    first_come: [f64; NODES],
    sweeps: [[[f64; NODES]; DEPTHS - 1]; SWEEPS.len()],
}

static TRAVEL: LazyLock<Travel> = LazyLock::new(|| {
    let mut travel = Travel { first_come: [0.0; NODES], sweeps: [[[0.0; NODES]; DEPTHS - 1]; SWEEPS.len()] };
    for line in include_str!("travel.csv").lines() {
        let mut fields = line.split(',');
        let order = fields.next().and_then(QueuePolicy::from_name);
        let depth: u32 = fields.next().and_then(|depth| depth.parse().ok()).unwrap_or(0);
        let mut row = [0.0; NODES];
        for (to, field) in row.iter_mut().zip(fields) {
            *to = field.parse().unwrap_or(f64::NAN);
        }
        match SWEEPS.iter().position(|sweep| Some(*sweep) == order) {
            Some(sweep) => travel.sweeps[sweep][(depth.max(2).ilog2() as usize).min(DEPTHS - 1) - 1] = row,
            None => travel.first_come = row,
        }
    }
    travel
});

/// What a drive is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveDemand {
    /// Blocks of a request.
    pub blocks: f64,
    /// Part of the drive in use, blocks from its first on.
    pub used_blocks: u64,
    /// Share of its I/Os that write.
    pub write_share: f64,
    /// Which is next.
    pub order: QueuePolicy,
    /// How many it sees at a time.
    pub depth: u32,
}

/// The same, with the blocks below which equal shares of the requests go.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedDemand {
    pub blocks: f64,
    pub write_share: f64,
    pub order: QueuePolicy,
    pub depth: u32,
    /// From the first block asked for to the last; two of them where places are all alike.
    pub quantiles: Vec<u64>,
}

impl From<&DriveDemand> for PlacedDemand {
    fn from(asked: &DriveDemand) -> PlacedDemand {
        let DriveDemand { blocks, used_blocks, write_share, order, depth } = *asked;
        PlacedDemand { blocks, write_share, order, depth, quantiles: vec![0, used_blocks] }
    }
}

/// What drives cost, as far as it was asked for before: by model and demand.
#[derive(Debug, Default)]
pub(super) struct CostMemory(Vec<(Arc<Model>, PlacedDemand, LoadCosts)>);

/// Costs that are remembered at a time.
const REMEMBERED: usize = 64;

impl CostMemory {
    /// What requests to a drive cost it.
    pub fn placed(&mut self, model: &Arc<Model>, asked: &PlacedDemand) -> LoadCosts {
        let same = |known: &&(Arc<Model>, PlacedDemand, LoadCosts)| Arc::ptr_eq(&known.0, model) && known.1 == *asked;
        if let Some((_, _, costs)) = self.0.iter().find(same) {
            return costs.clone();
        }
        let costs = placed(model, asked);
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push((Arc::clone(model), asked.clone(), costs.clone()));
        costs
    }
}

/// Mean and variance of a time, s and s².
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub mean: f64,
    pub variance: f64,
}

/// What requests to a mechanical drive cost it, by how many wait.
pub fn mechanical(model: &Model, asked: &DriveDemand) -> LoadCosts {
    placed(model, &asked.into())
}

/// The same for requests that go anywhere.
pub(super) fn placed(model: &Model, asked: &PlacedDemand) -> LoadCosts {
    let fixed = FixedTimes::of(model, asked);
    let arm = ArmTimes::of(model, asked, 0.0);
    let reads = arm.positioning(asked, fixed.late);
    // a large write waits for its data while the arm moves
    let writes = match fixed.data > arm.times[1] {
        true => ArmTimes::of(model, asked, fixed.data).positioning(asked, fixed.late),
        false => reads,
    };
    let mut served = LoadCosts::default();
    let most = f64::from(asked.depth.max(1)).log2();
    for depth in 0..DEPTHS {
        // beyond what it sees at a time it gets no better
        let seen = most.min(depth as f64);
        served.read[depth] = fixed.read(between(&reads, seen));
        served.write[depth] = fixed.write(between(&writes, seen));
    }
    let rotation = Moments { mean: fixed.turn / 2.0, variance: fixed.turn * fixed.turn / 12.0 };
    served.again = fixed.again;
    served.again_late = fixed.write(rotation);
    served.arm_variance = (reads[0].variance - rotation.variance).max(0.0);
    served
}

/// At a depth of 2 to the power of `at`.
fn between(known: &[Moments; DEPTHS], power: f64) -> Moments {
    let low = (power as usize).min(DEPTHS - 2);
    let (a, b, share) = (known[low], known[low + 1], power - low as f64);
    Moments { mean: a.mean + (b.mean - a.mean) * share, variance: a.variance + (b.variance - a.variance) * share }
}

/// What does not depend on the arm.
struct FixedTimes {
    turn: f64,
    read: f64,
    write: f64,
    /// A write cannot begin sooner after the arm set out.
    data: f64,
    /// By how much the command takes longer than the order of service reckons with.
    late: f64,
    /// Of a write: what the host waits for, where that is told; then the drive goes on alone.
    early: Option<f64>,
    again: IoCost,
}

impl FixedTimes {
    fn of(model: &Model, asked: &PlacedDemand) -> FixedTimes {
        const S: f64 = 1e-9;
        let (overheads, cache, channel) = (model.overheads(), model.cache(), model.channel());
        let after =
            |times: [u64; 2]| (times[0] as f64 * (1.0 - asked.write_share) + times[1] as f64 * asked.write_share) * S;
        let media = Media::of(model, asked);
        let reselect = if channel.never_leaves { 0.0 } else { overheads.reselect as f64 * S };
        let (reading, writing) = (channel.read_block as f64 * S, channel.write_block as f64 * S);
        let prepare = overheads.prepare as f64 * S;
        let span = media.span;
        // the channel ends a block after the disk, or later where it is the slower one
        let of = if cache.mark_of_request { asked.blocks } else { f64::from(cache.segment_blocks) };
        let mark = (of * cache.read_mark).floor().clamp(1.0, asked.blocks);
        let passing = span + media.crossing[0];
        let sent = span * mark / asked.blocks + reselect + prepare + asked.blocks * reading;
        let tail = sent.max(passing + reading) - passing + overheads.read_done as f64 * S;
        let fits = cache.segments > 0 && asked.blocks <= f64::from(cache.segment_blocks);
        let early = (cache.reports_early && fits)
            .then(|| after(overheads.write_hit) + prepare + asked.blocks * writing + overheads.write_done as f64 * S);
        let (command, ending) = match (&overheads.early_disconnect, early) {
            (_, Some(_)) => (after(overheads.write_hit), 0.0),
            (Some(early), None) => {
                let again = if channel.never_leaves { 0 } else { overheads.reselect_again };
                ((early.command + early.seek) as f64 * S, (again + overheads.write_done) as f64 * S)
            }
            (None, None) => (after(overheads.write_miss), reselect + overheads.write_done as f64 * S),
        };
        let turn = model.turn_s();
        // the block comes round again a turn after it was read
        let round = ((command + tail + span) / turn).ceil().max(1.0) * turn - tail + ending;
        let again =
            IoCost { hold_s: round, after_s: early.map_or(0.0, |seen| (round - seen).max(0.0)), variance_s2: 0.0 };
        // the drive has its data in time, or begins later; a turn is lost where the order of
        // service reckoned with a shorter command
        let reserve = if overheads.early_disconnect.is_some() { asked.blocks.min(10.0) } else { 1.0 };
        let data = (asked.blocks * writing + prepare - media.span).max(reserve * writing + prepare);
        let reckoned = after(overheads.write_miss);
        FixedTimes {
            turn,
            read: after(overheads.read_miss) + passing + tail,
            write: command + media.settle + span + media.crossing[1] + ending,
            data: data - media.settle,
            late: (command - reckoned).max(0.0) * asked.write_share,
            early,
            again,
        }
    }

    fn read(&self, position: Moments) -> IoCost {
        IoCost { hold_s: self.read + position.mean, after_s: 0.0, variance_s2: position.variance }
    }

    fn write(&self, position: Moments) -> IoCost {
        let hold_s = self.write + position.mean;
        let after_s = self.early.map_or(0.0, |seen| (hold_s - seen).max(0.0));
        IoCost { hold_s, after_s, variance_s2: position.variance }
    }
}

/// Times of the sectors of a request.
struct Media {
    /// Under the head.
    span: f64,
    /// Crossing into the next track, where it does: of a read, and of a write,
    /// which settles longer and may lose a turn.
    crossing: [f64; 2],
    /// What a write waits longer than a read.
    settle: f64,
}

impl Media {
    fn of(model: &Model, asked: &PlacedDemand) -> Media {
        const PLACES: u32 = 8;
        let (geometry, turn) = (model.geometry(), model.turn_s());
        let (mut span, mut crossing) = (0.0, [0.0; 2]);
        for index in 0..PLACES {
            let block = share(asked, (f64::from(index) + 0.5) / f64::from(PLACES));
            let place = geometry.place(block);
            let sectors = f64::from(geometry.sectors(&place));
            span += turn * asked.blocks / sectors / f64::from(PLACES);
            let crossed = (asked.blocks - 1.0) / sectors;
            let skew = model.skew_s(&place, block);
            for (crossing, write) in crossing.iter_mut().zip([false, true]) {
                let (skew, switch) =
                    skew.map_or((0.0, 0.0), |(skew, next)| (skew, model.travel_s(&place, &next, write)));
                let lost = ((switch - skew) / turn).ceil().max(0.0) * turn;
                *crossing += crossed * (skew + lost) / f64::from(PLACES);
            }
        }
        let (near, far) = (geometry.place(0), geometry.place(share(asked, 1.0)));
        let settle = model.travel_s(&near, &far, true) - model.travel_s(&near, &far, false);
        Media { span, crossing, settle }
    }
}

/// The block below which a share of the requests go. Who waits in an order by place
/// has so many of the others between, wherever they are: ways that are shares of the
/// stroke where places are alike are shares of the requests where they are not.
fn share(asked: &PlacedDemand, place: f64) -> u64 {
    let known = &asked.quantiles;
    let place = place.clamp(0.0, 1.0) * (known.len() - 1) as f64;
    let low = (place as usize).min(known.len() - 2);
    let between = (known[low + 1] - known[low]) as f64 * (place - low as f64);
    (known[low] + between as u64).min(known[known.len() - 1].saturating_sub(1))
}

/// Times of the arm.
struct ArmTimes<'a> {
    model: &'a Model,
    turn: f64,
    /// It waits so long at least.
    least: f64,
    /// Of the ways of [`NODES`].
    times: [f64; NODES],
}

impl ArmTimes<'_> {
    fn of<'a>(model: &'a Model, asked: &PlacedDemand, least: f64) -> ArmTimes<'a> {
        let starts = if asked.quantiles.len() > 2 { 8 } else { 2 };
        let geometry = model.geometry();
        let mut times = [0.0; NODES];
        for (node, time) in times.iter_mut().enumerate() {
            let way = (node as f64 / (NODES - 1) as f64).powi(2);
            for start in 0..starts {
                let from = (1.0 - way) * (f64::from(start) + 0.5) / f64::from(starts);
                let places = [from, from + way].map(|place| geometry.place(share(asked, place)));
                *time += model.travel_s(&places[0], &places[1], false).max(least) / f64::from(starts);
            }
        }
        ArmTimes { model, turn: model.turn_s(), least, times }
    }

    /// Arm and rotation of the next request, by depth.
    fn positioning(&self, asked: &PlacedDemand, late: f64) -> [Moments; DEPTHS] {
        if let PositioningModel::Constant(time) = self.model.access() {
            return [Moments { mean: time as f64 * 1e-9, variance: 0.0 }; DEPTHS];
        }
        let exact = self.model.access() == PositioningModel::Exact;
        if asked.order == QueuePolicy::ShortestPositioning && exact && asked.depth > 1 {
            return self.soonest(asked, late);
        }
        let rows = SWEEPS.iter().position(|sweep| *sweep == asked.order).map(|sweep| &TRAVEL.sweeps[sweep]);
        std::array::from_fn(|depth| {
            let weights = match rows {
                Some(rows) if depth > 0 => &rows[depth - 1],
                _ => &TRAVEL.first_come,
            };
            let mean: f64 = weights.iter().zip(&self.times).map(|(weight, time)| weight * time).sum();
            let square: f64 = weights.iter().zip(&self.times).map(|(weight, time)| weight * time * time).sum();
            let rotation = if exact { self.turn * self.turn / 12.0 } else { 0.0 };
            Moments { mean: mean + self.turn / 2.0, variance: (square - mean * mean).max(0.0) + rotation }
        })
    }

    /// The least of so many independent times of arm and rotation, over arms
    /// anywhere. Those that are left behind are the hard ones, so that the least
    /// of n is as the least of 1.11 n^0.85 independent ones: within 3 % of the
    /// simulated drives up to n = 64.
    fn soonest(&self, asked: &PlacedDemand, late: f64) -> [Moments; DEPTHS] {
        const PLACES: usize = 6;
        let longest = self.times.iter().fold(0.0, |a: f64, b| a.max(*b)) + self.turn;
        let mut sums = [ArmSums::default(); 2 * DEPTHS - 1];
        for place in 0..PLACES {
            let middle = (place as f64 + 0.5) / PLACES as f64;
            self.soonest_from(asked, middle, longest, &mut sums);
        }
        let halves = sums.map(|sums| sums.moments(PLACES as f64, late, self.turn));
        std::array::from_fn(|depth| {
            let depth = depth as f64;
            let row = 2.0 * if depth < 1.0 { depth } else { 1.0 + 0.85 * (depth - 1.0) };
            let (low, share) = (row as usize, row.fract());
            let (a, b) = (halves[low], halves[(low + 1).min(2 * DEPTHS - 2)]);
            Moments {
                mean: a.mean + (b.mean - a.mean) * share,
                variance: a.variance + (b.variance - a.variance) * share,
            }
        })
    }

    /// Adds what holds for an arm at one place: for the least of 2 to the power of
    /// half the position.
    fn soonest_from(&self, asked: &PlacedDemand, place: f64, longest: f64, sums: &mut [ArmSums; 2 * DEPTHS - 1]) {
        const WAYS: usize = 10;
        const STEPS: usize = 48;
        let geometry = self.model.geometry();
        let from = geometry.place(share(asked, place));
        let step = longest / STEPS as f64;
        // chance that one is not there by the middle of each step, and that its arm arrives in it
        let (mut later, mut arrives) = ([0.0; STEPS], [0.0; STEPS]);
        for side in [-place, 1.0 - place] {
            for way in 0..WAYS {
                let root = (way as f64 + 0.5) / WAYS as f64;
                let weight = 2.0 * root / WAYS as f64 * side.abs();
                let to = geometry.place(share(asked, place + side * root * root));
                let travel = self.model.travel_s(&from, &to, false).max(self.least);
                arrives[((travel / step) as usize).min(STEPS - 1)] += weight;
                for (bin, later) in later.iter_mut().enumerate() {
                    let rotated = ((bin as f64 + 0.5) * step - travel) / self.turn;
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
                sums.just += count * none * arrives[bin];
                power[bin] = none * none;
            }
        }
    }
}

/// Sums over arms at several places.
#[derive(Clone, Copy, Debug, Default)]
struct ArmSums {
    mean: f64,
    square: f64,
    /// Density, in shares of a turn, of those chosen whose rotation is none.
    just: f64,
}

impl ArmSums {
    /// A request that was reckoned to be reached just in time, and whose command
    /// then is `late`, costs another turn.
    fn moments(&self, places: f64, late: f64, turn: f64) -> Moments {
        let (mean, square) = (self.mean / places, self.square / places);
        let missed = (self.just / places * late / turn).min(1.0);
        let variance = (square - mean * mean).max(0.0) + missed * (1.0 - missed) * turn * turn;
        Moments { mean: mean + missed * turn, variance }
    }
}
