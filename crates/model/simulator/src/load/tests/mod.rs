//! Loads driven by the simplest possible system: each request takes the service time that the test sets, and
//! nothing ever queues.

mod published;
mod random;

use super::*;
use crate::event_queue::EventQueue;

/// Requests with the times at which they were issued.
pub(super) type IssuedRequests = Vec<(Ns, LoadRequest)>;

/// Runs a load until it ends or `until` is reached; `service` returns the service time of a request.
pub(super) fn run_load(load: &mut Load, until: Ns, mut service: impl FnMut(&LoadRequest) -> Ns) -> IssuedRequests {
    let (mut events, mut requests, mut issued) = (EventQueue::new(), Vec::new(), Vec::new());
    (0..load.user_count()).for_each(|agent| load.next(0, agent, Cause::Start, &mut requests));
    loop {
        for request in requests.drain(..) {
            assert!(request.start_ns >= events.now(), "{request:?} before {}", events.now());
            let out = request.start_ns.saturating_add(request.compute_ns);
            if request.report_issued {
                events.schedule(out, (request.agent, Cause::Issued));
            }
            let took = if request.io.blocks == 0 { 0 } else { service(&request) };
            if request.report_done {
                events.schedule(out.saturating_add(took), (request.agent, Cause::Done));
            }
            if request.io.blocks > 0 {
                issued.push((out, request));
            }
        }
        match events.pop() {
            Some((now, (agent, cause))) if now < until => load.next(now, agent, cause, &mut requests),
            _ => return issued,
        }
    }
}

/// Two targets of a million blocks each.
const TARGET: [u64; 2] = [1 << 20, 1 << 20];
const S: Ns = 1_000_000_000;

fn closed_load(spec: ClosedSpec) -> Load {
    Load::new(&LoadSpec::Closed(spec), &TARGET, Rng::new(7, 0)).unwrap()
}

fn open_load(spec: OpenSpec) -> Load {
    Load::new(&LoadSpec::Open(spec), &TARGET, Rng::new(7, 0)).unwrap()
}

#[test]
fn users_keep_exactly_their_requests_in_flight() {
    let mut load = closed_load(ClosedSpec { users: 3, outstanding: 4, ..ClosedSpec::default() });
    let issued = run_load(&mut load, S, |_| 1_000_000);
    // twelve at a time, each a millisecond
    assert_eq!(issued.len(), 12 * 1000);
    let totals = load.operations()[0].totals;
    assert_eq!((totals.done, totals.begun, totals.bytes), (11_988, 12_000, 12_000 * 4096));
    assert_eq!(totals.mean_response_s(), 1e-3);
    load.reset_counters();
    assert_eq!((load.operations()[0].totals, load.operations()[0].responses.count()), (OperationTotals::default(), 0));
}

#[test]
fn think_times_slow_users_down_as_the_interactive_law_says() {
    for think in [DurationDistribution::Constant { s: 0.009 }, DurationDistribution::Exponential { mean_s: 0.009 }] {
        let mut load = closed_load(ClosedSpec { users: 20, think, ..ClosedSpec::default() });
        let issued = run_load(&mut load, 50 * S, |_| 1_000_000);
        // X = N / (R + Z): 20 / 10 ms
        let per_s = issued.len() as f64 / 50.0;
        assert!((per_s / 2000.0 - 1.0).abs() < 0.01, "{think:?}: {per_s}");
    }
}

#[test]
fn a_transfer_is_split_into_pieces_in_parallel() {
    let transfer = OperationTransfer {
        bytes: RequestSizes::One(65_536),
        total_bytes: Some(1_000_448),
        parallel: 4,
        read_share: 0.0,
        align_bytes: 4096,
        ..OperationTransfer::default()
    };
    let class = OperationClass::with_transfer("copy", 1.0, transfer);
    let mut load = closed_load(ClosedSpec { classes: vec![class], most_operations: Some(3), ..ClosedSpec::default() });
    let issued = run_load(&mut load, Ns::MAX, |_| 10);
    assert!(load.is_finished());
    // 1954 blocks: 15 pieces of 128 and one of 34; four rounds of 10 ns
    assert_eq!(issued.len(), 3 * 16);
    let first: Vec<u32> = issued[..16].iter().map(|(_, request)| request.io.blocks).collect();
    assert_eq!((first[0], first[14], first[15]), (128, 128, 34));
    assert!(issued[..16].windows(2).all(|pair| pair[0].1.io.end() == pair[1].1.io.first));
    assert!(issued.iter().all(|(_, request)| request.io.write));
    let totals = load.operations()[0].totals;
    assert_eq!((totals.done, totals.total_response_ns, totals.requests), (3, 3 * 40, 48));
}

#[test]
fn transfers_of_a_class_follow_each_other_round_by_round() {
    let read = OperationTransfer { access: AccessPattern::Sequential { streams: 1 }, ..OperationTransfer::default() };
    let write = OperationTransfer {
        target: 1,
        read_share: 0.0,
        compute: DurationDistribution::Constant { s: 5e-9 },
        ..read.clone()
    };
    let class = OperationClass { name: "copy".into(), weight: 1.0, transfers: vec![read, write], rounds: 2 };
    let mut load = closed_load(ClosedSpec { classes: vec![class], most_operations: Some(1), ..ClosedSpec::default() });
    let issued = run_load(&mut load, Ns::MAX, |_| 10);
    let seen: Vec<_> = issued.iter().map(|(time, request)| (*time, request.target, request.io)).collect();
    let (read, write) = (|first| Io::read(first, 8), |first| Io::write(first, 8));
    assert_eq!(seen, [(0, 0, read(0)), (15, 1, write(0)), (25, 0, read(8)), (40, 1, write(8))]);
    assert_eq!(load.operations()[0].totals.total_response_ns, 50);
}

#[test]
fn posted_requests_are_not_waited_for() {
    let posted = OperationTransfer {
        read_share: 0.0,
        posted: true,
        compute: DurationDistribution::Constant { s: 1e-6 },
        ..OperationTransfer::default()
    };
    let class = OperationClass::with_transfer("post", 1.0, posted);
    let mut load = closed_load(ClosedSpec { classes: vec![class], most_operations: Some(5), ..ClosedSpec::default() });
    let issued = run_load(&mut load, Ns::MAX, |_| S);
    assert_eq!(issued.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [1000, 2000, 3000, 4000, 5000]);
    assert!(load.is_finished());
}

#[test]
fn classes_and_reads_come_in_their_shares() {
    let of = |name, weight, read_share| {
        OperationClass::with_transfer(name, weight, OperationTransfer { read_share, ..OperationTransfer::default() })
    };
    let classes = vec![of("one", 3.0, 0.7), of("two", 1.0, 0.0)];
    let mut load = closed_load(ClosedSpec { classes, ..ClosedSpec::default() });
    let issued = run_load(&mut load, 100_000, |_| 1);
    let all = issued.len() as f64;
    let one = load.operations()[0].totals.begun as f64;
    let reads = issued.iter().filter(|(_, request)| !request.io.write).count() as f64;
    assert!((one / all - 0.75).abs() < 0.01, "{}", one / all);
    assert!((reads / one - 0.7).abs() < 0.01, "{}", reads / one);
}

#[test]
fn arrivals_keep_their_rate_whatever_the_response_times() {
    let cases = [
        (DurationDistribution::Exponential { mean_s: 1e-3 }, 1.0),
        (DurationDistribution::Constant { s: 1e-3 }, 0.0),
        (DurationDistribution::Hyper { mean_s: 1e-3, cv2: 4.0 }, 4.0),
    ];
    for (gap, cv2) in cases {
        let mut load = open_load(OpenSpec { gap, ..OpenSpec::default() });
        let issued = run_load(&mut load, 100 * S, |_| 3 * S);
        let gaps: Vec<f64> = issued.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 * 1e-9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e-3 - 1.0).abs() < 0.02, "{gap:?}: {mean}");
        assert!((variance / mean.powi(2) - cv2).abs() < 0.05 * (1.0 + cv2), "{gap:?}");
    }
}

#[test]
fn a_gap_of_fractional_nanoseconds_keeps_its_rate() {
    let gap = DurationDistribution::Constant { s: 1.0 / 3e6 };
    let mut load = open_load(OpenSpec { gap, ..OpenSpec::default() });
    let issued = run_load(&mut load, S / 100, |_| 10);
    assert_eq!(issued.len(), 29_999);
    assert_eq!((issued[2].0, issued[29_998].0), (1000, 9_999_666));
}

#[test]
fn batches_and_bursts_keep_their_rates() {
    let per_second = DurationDistribution::Constant { s: 1.0 };
    let mut load = open_load(OpenSpec { gap: per_second, batch: ArrivalBatch::Fixed(5), ..OpenSpec::default() });
    assert_eq!(run_load(&mut load, 10 * S + 1, |_| 10).len(), 50);
    let mut load = open_load(OpenSpec {
        gap: DurationDistribution::Exponential { mean_s: 1e-3 },
        batch: ArrivalBatch::Geometric(4.0),
        ..OpenSpec::default()
    });
    let found = run_load(&mut load, 50 * S, |_| 10).len() as f64;
    assert!((found / 200_000.0 - 1.0).abs() < 0.03, "{found}");
    // 10 ms of every 50 ms, one a millisecond: the first at 1 ms, nothing from 10 ms to 50 ms
    let bursts = Some(Bursts {
        on: DurationDistribution::Constant { s: 0.01 },
        off: DurationDistribution::Constant { s: 0.04 },
    });
    let mut load =
        open_load(OpenSpec { gap: DurationDistribution::Constant { s: 1e-3 }, bursts, ..OpenSpec::default() });
    let issued = run_load(&mut load, S, |_| 10);
    assert!((198..=200).contains(&issued.len()), "{}", issued.len());
    assert!(issued.iter().all(|(time, _)| time % 50_000_000 <= 10_000_000));
}

#[test]
fn arrivals_beyond_the_limit_are_lost_and_counted() {
    let mut load = open_load(OpenSpec {
        gap: DurationDistribution::Constant { s: 1e-3 },
        most_outstanding: 7,
        most_operations: Some(100),
        ..OpenSpec::default()
    });
    let issued = run_load(&mut load, Ns::MAX, |_| S);
    let totals = load.operations()[0].totals;
    assert_eq!((issued.len(), totals.begun, totals.done, totals.lost), (7, 7, 7, 93));
    assert!(load.is_finished());
}

#[test]
fn phases_raise_and_lower_a_load() {
    let phase = |lasts, from, to| LoadPhase { lasts, from, to, weights: Vec::new() };
    let phases = vec![phase(10 * S, 0.0, 1.0), phase(10 * S, 1.0, 1.0), phase(10 * S, 0.0, 0.0)];
    let gap = DurationDistribution::Exponential { mean_s: 1e-3 };
    let mut load = open_load(OpenSpec { gap, phases: phases.clone(), ..OpenSpec::default() });
    let issued = run_load(&mut load, Ns::MAX, |_| 10);
    let within = |from: Ns, to: Ns| issued.iter().filter(|(time, _)| (from * S..to * S).contains(time)).count() as f64;
    // half of 10 s x 1000/s while it grows, a quarter of that in the first half
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.06, "{found} {expected}");
    near(within(0, 5), 1250.0);
    near(within(0, 10), 5000.0);
    near(within(10, 20), 10_000.0);
    assert!(within(20, 40) == 0.0 && load.is_finished());
    // ten users, one a second; each is there from its second on
    let mut load = closed_load(ClosedSpec { users: 10, phases, ..ClosedSpec::default() });
    let issued = run_load(&mut load, Ns::MAX, |_| 10_000_000);
    for second in 0..20 {
        let users: std::collections::BTreeSet<u32> =
            issued.iter().filter(|(time, _)| time / S == second).map(|(_, request)| request.agent).collect();
        assert_eq!(users.len() as u64, (second + 1).min(10), "{second}");
    }
    assert!(load.is_finished() && issued.iter().all(|(time, _)| *time < 20 * S));
}

#[test]
fn the_same_seed_issues_the_same_requests() {
    let spec = OpenSpec { batch: ArrivalBatch::Geometric(2.0), ..OpenSpec::default() };
    let run = || run_load(&mut open_load(spec.clone()), S, |request| request.io.first % 1000);
    assert_eq!(run(), run());
    let other = &mut Load::new(&LoadSpec::Open(spec.clone()), &TARGET, Rng::new(8, 0)).unwrap();
    assert_ne!(run(), run_load(other, S, |request| request.io.first % 1000));
}

#[test]
fn errors_name_the_field_of_an_impossible_load() {
    let refused = |spec: LoadSpec, item: &str| {
        let error = Load::new(&spec, &TARGET, Rng::new(1, 1)).map(|_| ()).unwrap_err();
        assert_eq!(error.item, item, "{error}");
        assert!(!error.reason.is_empty());
    };
    let base = ClosedSpec::default;
    let with = |transfer: OperationTransfer| {
        LoadSpec::Closed(ClosedSpec { classes: vec![OperationClass::with_transfer("x", 1.0, transfer)], ..base() })
    };
    refused(LoadSpec::Closed(ClosedSpec { users: 0, ..base() }), "users");
    refused(LoadSpec::Closed(ClosedSpec { users: u32::MAX, outstanding: 9, ..base() }), "users");
    refused(LoadSpec::Closed(ClosedSpec { classes: vec![], ..base() }), "classes");
    refused(
        LoadSpec::Closed(ClosedSpec {
            classes: vec![OperationClass { weight: -1.0, ..OperationClass::default() }],
            ..base()
        }),
        "weight",
    );
    refused(
        LoadSpec::Closed(ClosedSpec {
            classes: vec![OperationClass { rounds: 0, ..OperationClass::default() }],
            ..base()
        }),
        "transfers",
    );
    refused(LoadSpec::Closed(ClosedSpec { think: DurationDistribution::Constant { s: -1.0 }, ..base() }), "think");
    refused(with(OperationTransfer { target: 2, ..OperationTransfer::default() }), "target");
    refused(with(OperationTransfer { read_share: f64::NAN, ..OperationTransfer::default() }), "read_share");
    refused(with(OperationTransfer { parallel: 0, ..OperationTransfer::default() }), "parallel");
    refused(with(OperationTransfer { total_bytes: Some(0), ..OperationTransfer::default() }), "total_bytes");
    refused(with(OperationTransfer { total_bytes: Some(1 << 40), ..OperationTransfer::default() }), "part");
    refused(with(OperationTransfer { align_bytes: 100, ..OperationTransfer::default() }), "align_bytes");
    refused(
        with(OperationTransfer { write_bytes: Some(RequestSizes::One(1)), ..OperationTransfer::default() }),
        "write_bytes",
    );
    let open = OpenSpec::default;
    refused(LoadSpec::Open(OpenSpec { gap: DurationDistribution::NONE, ..open() }), "gap");
    refused(LoadSpec::Open(OpenSpec { batch: ArrivalBatch::Fixed(0), ..open() }), "batch");
    refused(LoadSpec::Open(OpenSpec { batch: ArrivalBatch::Geometric(f64::NAN), ..open() }), "batch");
    refused(
        LoadSpec::Open(OpenSpec {
            bursts: Some(Bursts { on: DurationDistribution::NONE, off: DurationDistribution::NONE }),
            ..open()
        }),
        "bursts",
    );
    refused(LoadSpec::Open(OpenSpec { most_outstanding: 0, ..open() }), "most_outstanding");
}

#[test]
fn endless_posting_lets_time_pass_and_fills_buffers() {
    let posted = OperationTransfer { posted: true, read_share: 0.0, ..OperationTransfer::default() };
    let mut load = closed_load(ClosedSpec {
        classes: vec![OperationClass::with_transfer("post", 1.0, posted)],
        ..ClosedSpec::default()
    });
    let issued = run_load(&mut load, 100_000, |_| S);
    // one a nanosecond until 65,536 are out; the next one is waited for
    assert_eq!((issued.len(), issued[65_535].0, issued[65_536].0), (65_537, 65_536, 65_536));
}
