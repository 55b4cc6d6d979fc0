//! Loads of chance: whatever is asked for lies where it may, nothing is lost,
//! nothing comes twice, and what cannot be is refused without a panic.

use super::*;

fn spell(dice: &mut Rng) -> DurationDistribution {
    let mean_s = dice.share() * 1e-4;
    match dice.below(7) {
        0 => DurationDistribution::NONE,
        1 => DurationDistribution::Constant { s: mean_s },
        2 => DurationDistribution::Exponential { mean_s },
        3 => DurationDistribution::Uniform { from_s: 0.0, to_s: mean_s },
        4 => DurationDistribution::Erlang { stages: dice.below(4) as u32, mean_s },
        5 => DurationDistribution::Normal { mean_s, deviation_s: mean_s },
        _ => DurationDistribution::Hyper { mean_s, cv2: 0.5 + 4.0 * dice.share() },
    }
}

fn sizes(dice: &mut Rng) -> RequestSizes {
    let mut bytes = || 512 * dice.below(200);
    match bytes() % 3 {
        0 => RequestSizes::One(bytes()),
        1 => RequestSizes::Uniform { from: bytes(), to: 512 * 300 },
        _ => RequestSizes::Weighted(vec![(bytes(), 1.0), (bytes(), 0.3)]),
    }
}

fn transfer(dice: &mut Rng) -> OperationTransfer {
    let access = match dice.below(4) {
        0 => AccessPattern::Sequential { streams: dice.below(4) as u32 },
        1 => AccessPattern::Uniform,
        2 => AccessPattern::Normal { mean: dice.share(), deviation: dice.share() },
        _ => AccessPattern::Zipf { theta: 1.5 * dice.share() },
    };
    let part = match dice.below(3) {
        0 => TargetPart::All,
        1 => TargetPart::Bytes { from: 512 * dice.below(1 << 21), bytes: dice.below(1 << 28) },
        _ => TargetPart::Share { from: dice.share(), to: dice.share() },
    };
    OperationTransfer {
        target: dice.below(3) as u16,
        part,
        access,
        align_bytes: 512 * dice.below(20),
        read_share: 1.1 * dice.share(),
        bytes: sizes(dice),
        write_bytes: dice.chance(0.3).then(|| sizes(dice)),
        total_bytes: dice.chance(0.4).then(|| 512 * dice.below(2000)),
        parallel: dice.below(6) as u32,
        pause: DurationDistribution::NONE,
        compute: spell(dice),
        cached: dice.chance(0.5),
        posted: dice.chance(0.2),
    }
}

fn classes(dice: &mut Rng) -> Vec<OperationClass> {
    let class = |dice: &mut Rng| OperationClass {
        name: "any".into(),
        weight: dice.share(),
        transfers: (0..=dice.below(2)).map(|_| transfer(dice)).collect(),
        rounds: 1 + dice.below(3) as u32,
    };
    (0..=dice.below(2)).map(|_| class(dice)).collect()
}

fn spec(dice: &mut Rng) -> LoadSpec {
    let classes = classes(dice);
    let phase = |dice: &mut Rng| LoadPhase {
        lasts: dice.below(1 << 21),
        from: dice.share(),
        to: dice.share(),
        weights: if dice.chance(0.5) { vec![1.0; classes.len()] } else { Vec::new() },
    };
    let phases = if dice.chance(0.5) { (0..3).map(|_| phase(dice)).collect() } else { Vec::new() };
    let most_operations = dice.chance(0.5).then(|| dice.below(200));
    if dice.chance(0.5) {
        let (users, outstanding) = (dice.below(6) as u32, 1 + dice.below(3) as u32);
        return LoadSpec::Closed(ClosedSpec {
            users,
            outstanding,
            think: spell(dice),
            classes,
            phases,
            most_operations,
        });
    }
    LoadSpec::Open(OpenSpec {
        gap: DurationDistribution::Exponential { mean_s: 1e-5 },
        batch: [ArrivalBatch::One, ArrivalBatch::Fixed(3), ArrivalBatch::Geometric(2.5)][dice.below(3) as usize],
        bursts: dice.chance(0.3).then(|| Bursts { on: spell(dice), off: spell(dice) }),
        classes,
        phases,
        most_operations,
        most_outstanding: 1 + dice.below(40) as u32,
    })
}

#[test]
fn loads_of_chance_lose_nothing_and_stay_where_they_may() {
    let (mut possible, mut ended) = (0, 0);
    for seed in 0..3000 {
        let mut dice = Rng::new(seed, 9);
        let spec = spec(&mut dice);
        let Ok(mut load) = Load::new(&spec, &TARGET, Rng::new(seed, 1)) else { continue };
        possible += 1;
        let asked = drive(&mut load, 2_000_000, |ask| 1000 + ask.io.first % 50_000);
        for (_, ask) in &asked {
            assert!(ask.io.blocks > 0 && ask.io.end() <= TARGET[usize::from(ask.target)], "{seed}: {ask:?}");
            assert!(ask.wait, "{seed}: {ask:?}");
        }
        let mut sum = OperationTotals::default();
        for class in load.operations() {
            let of = class.totals;
            sum.requests += of.requests;
            sum.bytes += of.bytes;
            sum.begun += of.begun;
            sum.done += of.done;
            assert_eq!(of.done, class.responses.count(), "{seed}");
        }
        assert_eq!(sum.requests, asked.len() as u64, "{seed}");
        assert_eq!(sum.bytes, asked.iter().map(|(_, ask)| u64::from(ask.io.blocks) * 512).sum::<u64>(), "{seed}");
        let under_way = sum.begun - sum.done;
        let most = match &spec {
            LoadSpec::Closed(spec) => u64::from(spec.users * spec.outstanding),
            LoadSpec::Open(spec) => u64::from(spec.most_outstanding),
            _ => 0,
        };
        assert!(under_way <= most, "{seed}: {under_way} of {most}");
        if load.finished() {
            assert_eq!(under_way, 0, "{seed}");
            ended += 1;
        }
    }
    // enough of both, so that this means something
    assert!(possible > 200 && ended > 50, "{possible} {ended}");
}
