//! Random loads: every request lies in its part, none is lost or duplicated, and impossible loads are rejected
//! without a panic.

use super::*;

fn random_duration(rng: &mut Rng) -> DurationDistribution {
    let mean_s = rng.next_f64() * 1e-4;
    match rng.next_below(7) {
        0 => DurationDistribution::NONE,
        1 => DurationDistribution::Constant { s: mean_s },
        2 => DurationDistribution::Exponential { mean_s },
        3 => DurationDistribution::Uniform { from_s: 0.0, to_s: mean_s },
        4 => DurationDistribution::Erlang { stages: rng.next_below(4) as u32, mean_s },
        5 => DurationDistribution::Normal { mean_s, deviation_s: mean_s },
        _ => DurationDistribution::Hyper { mean_s, cv2: 0.5 + 4.0 * rng.next_f64() },
    }
}

fn random_sizes(rng: &mut Rng) -> RequestSizes {
    let mut bytes = || 512 * rng.next_below(200);
    match bytes() % 3 {
        0 => RequestSizes::One(bytes()),
        1 => RequestSizes::Uniform { from: bytes(), to: 512 * 300 },
        _ => RequestSizes::Weighted(vec![(bytes(), 1.0), (bytes(), 0.3)]),
    }
}

fn random_transfer(rng: &mut Rng) -> OperationTransfer {
    let access = match rng.next_below(4) {
        0 => AccessPattern::Sequential { streams: rng.next_below(4) as u32 },
        1 => AccessPattern::Uniform,
        2 => AccessPattern::Normal { mean: rng.next_f64(), deviation: rng.next_f64() },
        _ => AccessPattern::Zipf { theta: 1.5 * rng.next_f64() },
    };
    let part = match rng.next_below(3) {
        0 => TargetPart::All,
        1 => TargetPart::Bytes { from: 512 * rng.next_below(1 << 21), bytes: rng.next_below(1 << 28) },
        _ => TargetPart::Share { from: rng.next_f64(), to: rng.next_f64() },
    };
    OperationTransfer {
        target: rng.next_below(3) as u16,
        part,
        access,
        align_bytes: 512 * rng.next_below(20),
        read_share: 1.1 * rng.next_f64(),
        bytes: random_sizes(rng),
        write_bytes: rng.next_bool(0.3).then(|| random_sizes(rng)),
        total_bytes: rng.next_bool(0.4).then(|| 512 * rng.next_below(2000)),
        parallel: rng.next_below(6) as u32,
        pause: DurationDistribution::NONE,
        compute: random_duration(rng),
        cached: rng.next_bool(0.5),
        posted: rng.next_bool(0.2),
    }
}

fn random_classes(rng: &mut Rng) -> Vec<OperationClass> {
    let class = |rng: &mut Rng| OperationClass {
        name: "any".into(),
        weight: rng.next_f64(),
        transfers: (0..=rng.next_below(2)).map(|_| random_transfer(rng)).collect(),
        rounds: 1 + rng.next_below(3) as u32,
    };
    (0..=rng.next_below(2)).map(|_| class(rng)).collect()
}

fn random_spec(rng: &mut Rng) -> LoadSpec {
    let classes = random_classes(rng);
    let phase = |rng: &mut Rng| LoadPhase {
        lasts: rng.next_below(1 << 21),
        from: rng.next_f64(),
        to: rng.next_f64(),
        weights: if rng.next_bool(0.5) { vec![1.0; classes.len()] } else { Vec::new() },
    };
    let phases = if rng.next_bool(0.5) { (0..3).map(|_| phase(rng)).collect() } else { Vec::new() };
    let most_operations = rng.next_bool(0.5).then(|| rng.next_below(200));
    if rng.next_bool(0.5) {
        let (users, outstanding) = (rng.next_below(6) as u32, 1 + rng.next_below(3) as u32);
        return LoadSpec::Closed(ClosedSpec {
            users,
            outstanding,
            think: random_duration(rng),
            classes,
            phases,
            most_operations,
        });
    }
    LoadSpec::Open(OpenSpec {
        gap: DurationDistribution::Exponential { mean_s: 1e-5 },
        batch: [ArrivalBatch::One, ArrivalBatch::Fixed(3), ArrivalBatch::Geometric(2.5)][rng.next_below(3) as usize],
        bursts: rng.next_bool(0.3).then(|| Bursts { on: random_duration(rng), off: random_duration(rng) }),
        classes,
        phases,
        most_operations,
        most_outstanding: 1 + rng.next_below(40) as u32,
    })
}

#[test]
fn random_loads_lose_nothing_and_stay_in_their_parts() {
    let (mut possible, mut ended) = (0, 0);
    for seed in 0..3000 {
        let mut rng = Rng::new(seed, 9);
        let spec = random_spec(&mut rng);
        let Ok(mut load) = Load::new(&spec, &TARGET, Rng::new(seed, 1)) else { continue };
        possible += 1;
        let issued = run_load(&mut load, 2_000_000, |request| 1000 + request.io.first % 50_000);
        for (_, request) in &issued {
            assert!(
                request.io.blocks > 0 && request.io.end() <= TARGET[usize::from(request.target)],
                "{seed}: {request:?}"
            );
            assert!(request.report_done, "{seed}: {request:?}");
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
        assert_eq!(sum.requests, issued.len() as u64, "{seed}");
        assert_eq!(
            sum.bytes,
            issued.iter().map(|(_, request)| u64::from(request.io.blocks) * 512).sum::<u64>(),
            "{seed}"
        );
        let in_flight = sum.begun - sum.done;
        let max = match &spec {
            LoadSpec::Closed(spec) => u64::from(spec.users * spec.outstanding),
            LoadSpec::Open(spec) => u64::from(spec.most_outstanding),
            _ => 0,
        };
        assert!(in_flight <= max, "{seed}: {in_flight} of {max}");
        if load.is_finished() {
            assert_eq!(in_flight, 0, "{seed}");
            ended += 1;
        }
    }
    // enough of both, so that this means something
    assert!(possible > 200 && ended > 50, "{possible} {ended}");
}
