//! Tests of the worker loops, on fake devices in virtual time.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::engine::fake::FakeDevice;
use crate::pattern::Pattern;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn measure(mut device: FakeDevice, pattern: &Pattern, slots: u32, lasts_s: u64) -> WorkerTally {
    let (stop, done, shelf) = (AtomicBool::new(false), LiveCounters::default(), Mutex::default());
    let (pace, durable) = (pattern.pace.clone(), pattern.durable);
    let plan = WorkerPlan {
        pace,
        durable,
        ramp_ns: S,
        duration_ns: lasts_s * S,
        stop: &stop,
        live: &done,
        parked_tally: &shelf,
        brake_ns: None,
        start_delay_ns: 0,
        sync_every: pattern.sync_every,
        max_bytes: pattern.max_bytes,
    };
    let mut generator = RequestGenerator::new(pattern, 1 << 30, 0, 1);
    run_worker(&mut device, &mut generator, &plan, slots).unwrap()
}

fn pattern_with_pace(pace: Pace) -> Pattern {
    Pattern { pace, ..Pattern::random_reads(4096, 1) }
}

#[test]
fn a_closed_loop_keeps_its_depth() {
    // one server of 5 ms at depth 8: 200 a second, each waits 40 ms (Little's law)
    let tally = measure(FakeDevice::with_service_time(1, 5 * MS), &pattern_with_pace(Pace::Closed { depth: 8 }), 8, 10);
    assert_eq!(tally.reads.requests, 2000);
    let mean = tally.reads.latency.mean().unwrap() / MS as f64;
    assert!((mean - 40.0).abs() < 0.1, "{mean}");
    // as many servers as requests: none waits
    let tally = measure(FakeDevice::with_service_time(8, 5 * MS), &pattern_with_pace(Pace::Closed { depth: 8 }), 8, 10);
    assert_eq!(tally.reads.requests, 16_000);
}

#[test]
fn users_obey_the_response_time_law() {
    // 20 users thinking 100 ms before 10 servers of 5 ms: X = N / (R + Z), Denning and Buzen 1978
    let pace = Pace::Users { users: 20, think_s: 0.1, random: true };
    let tally = measure(FakeDevice::with_service_time(10, 5 * MS), &pattern_with_pace(pace), 20, 100);
    let rate = tally.reads.requests as f64 / 100.0;
    let response = tally.reads.latency.mean().unwrap() / S as f64;
    assert!((rate - 20.0 / (response + 0.1)).abs() / rate < 0.02, "{rate} {response}");
}

#[test]
fn an_open_loop_shows_a_stall_and_a_closed_one_hides_it() {
    // 1 ms a request, but nothing moves in the first second of every ten
    let stalling = || {
        FakeDevice::new(
            1,
            Box::new(|_, begins| {
                let into = begins % (10 * S);
                Ok(if into < S { S - into + MS } else { MS })
            }),
        )
    };
    let open = Pace::Open { rate_per_s: 100.0, poisson: false };
    let open = measure(stalling(), &pattern_with_pace(open), 4096, 100);
    let closed = measure(stalling(), &pattern_with_pace(Pace::Closed { depth: 1 }), 1, 100);
    let p99 = |t: &WorkerTally| t.reads.latency.quantile(0.99).unwrap() / MS as f64;
    // a tenth of all requests fall into the stall and wait half of it on average
    assert!(p99(&open) > 800.0, "{}", p99(&open));
    assert!(p99(&closed) < 2.0, "{}", p99(&closed));
    assert!(closed.longest_silence_ns >= S, "{}", closed.longest_silence_ns);
}

#[test]
fn counts_requests_that_an_open_loop_could_not_send() {
    // 100 a second are served and 1000 offered: in 11 s, with the ramp, 1108 of 11,000 find one of eight slots
    let pace = Pace::Open { rate_per_s: 1000.0, poisson: false };
    let tally = measure(FakeDevice::with_service_time(1, 10 * MS), &pattern_with_pace(pace.clone()), 8, 10);
    assert!((9_885..=9_895).contains(&tally.unsent), "{}", tally.unsent);
    assert_eq!(measure(FakeDevice::with_service_time(2, MS), &pattern_with_pace(pace), 8, 10).unsent, 0);
}

#[test]
fn poisson_arrivals_wait_as_md1_theory_predicts() {
    // M/D/1 at load 0.8: waiting = rho / (2 (1 - rho)) services (Pollaczek and Khinchine)
    let pace = Pace::Open { rate_per_s: 800.0, poisson: true };
    let tally = measure(FakeDevice::with_service_time(1, MS), &pattern_with_pace(pace), 4096, 2000);
    let mean = tally.reads.latency.mean().unwrap() / MS as f64;
    assert!((mean - 3.0).abs() < 0.15, "{mean}");
}

#[test]
fn a_durable_write_is_one_request() {
    let pattern =
        Pattern { read_share: 0.0, durable: Durability::Fdatasync, ..pattern_with_pace(Pace::Closed { depth: 1 }) };
    let tally = measure(FakeDevice::with_service_time(1, 5 * MS), &pattern, 1, 1);
    // the sync of the last may end with the run
    assert!((199..=200).contains(&tally.writes.requests) && tally.reads.requests == 0);
}

/// Runs for 100 s with a brake at 50 ms; checks that the brake stops all workers.
fn measure_with_brake(mut device: FakeDevice, pace: Pace, slots: u32) -> (WorkerTally, u64) {
    let (stop, done, shelf) = (AtomicBool::new(false), LiveCounters::default(), Mutex::default());
    let pattern = pattern_with_pace(pace.clone());
    let plan = WorkerPlan {
        pace,
        durable: Durability::No,
        ramp_ns: 0,
        duration_ns: 100 * S,
        stop: &stop,
        live: &done,
        parked_tally: &shelf,
        brake_ns: Some(50 * MS),
        start_delay_ns: 0,
        sync_every: 1,
        max_bytes: None,
    };
    let tally = run_worker(&mut device, &mut RequestGenerator::new(&pattern, 1 << 30, 0, 1), &plan, slots).unwrap();
    assert!(stop.load(Ordering::Relaxed));
    (tally, device.now())
}

#[test]
fn a_brake_ends_the_run_at_the_first_slow_answer() {
    let device = FakeDevice::new(1, Box::new(|_, offset| Ok(if offset > 2 * S { 80 * MS } else { MS })));
    let (tally, ended) = measure_with_brake(device, Pace::Closed { depth: 1 }, 1);
    // the brake acts before the response arrives, which is then waited for
    assert!(tally.braked_ns.is_some_and(|ns| (50 * MS..65 * MS).contains(&ns)), "{:?}", tally.braked_ns);
    assert!(ended < 3 * S && tally.unanswered == 0);
}

#[test]
fn a_brake_notices_one_hanging_request_among_others() {
    // one of eight never comes back; the others take a millisecond each
    let device = || {
        let mut count = 0;
        FakeDevice::new(
            8,
            Box::new(move |_, _| {
                count += 1;
                Ok(if count == 500 { 3600 * S } else { MS })
            }),
        )
    };
    for (pace, slots) in [
        (Pace::Closed { depth: 8 }, 8),
        (Pace::Open { rate_per_s: 1000.0, poisson: false }, 4096),
        (Pace::Users { users: 8, think_s: 0.001, random: false }, 8),
    ] {
        let (tally, ended) = measure_with_brake(device(), pace.clone(), slots);
        assert!(tally.braked_ns.is_some_and(|ns| (50 * MS..70 * MS).contains(&ns)), "{pace:?}: {:?}", tally.braked_ns);
        assert!(ended < 2 * S && tally.reads.requests > 400, "{pace:?}: {ended}");
        assert_eq!(tally.unanswered, 1);
        assert!((250 * MS..350 * MS).contains(&tally.unanswered_ns), "{pace:?}: {}", tally.unanswered_ns);
    }
}

#[test]
fn a_stopped_run_does_not_wait_for_a_hanging_device() {
    for pace in [
        Pace::Closed { depth: 8 },
        Pace::Open { rate_per_s: 1000.0, poisson: true },
        Pace::Users { users: 8, think_s: 0.001, random: true },
    ] {
        // nothing completes after the first second; the stop comes after ten
        let mut device = FakeDevice::new(8, Box::new(|_, offset| Ok(if offset > S { 3600 * S } else { MS })));
        let (stop, done, shelf) = (AtomicBool::new(false), LiveCounters::default(), Mutex::default());
        let pattern = pattern_with_pace(pace.clone());
        let plan = WorkerPlan {
            pace: pace.clone(),
            durable: Durability::No,
            ramp_ns: 0,
            duration_ns: 100 * S,
            stop: &stop,
            live: &done,
            parked_tally: &shelf,
            brake_ns: None,
            start_delay_ns: 0,
            sync_every: 1,
            max_bytes: None,
        };
        let mut impatient = StopAfter { device: &mut device, stop: &stop, from: 10 * S };
        let tally = run_worker(&mut impatient, &mut RequestGenerator::new(&pattern, 1 << 30, 0, 1), &plan, 8).unwrap();
        assert!(tally.reads.requests > 500 && tally.unanswered == 8, "{pace:?}: {}", tally.unanswered);
        assert!((9 * S..11 * S).contains(&tally.unanswered_ns), "{pace:?}: {}", tally.unanswered_ns);
        assert!(device.now() < 11 * S, "{pace:?}: {}", device.now());
    }
}

/// A device whose run is stopped from outside at a given time.
struct StopAfter<'a> {
    device: &'a mut FakeDevice,
    stop: &'a AtomicBool,
    from: u64,
}

impl IoEngine for StopAfter<'_> {
    fn now(&self) -> u64 {
        self.device.now()
    }

    fn queue_op(&mut self, op: Op) {
        self.device.queue_op(op);
    }

    fn submit_and_wait(&mut self, wait: WaitFor, done: &mut Vec<Completion>) -> io::Result<()> {
        let turned = self.device.submit_and_wait(wait, done);
        self.stop.fetch_or(self.now() >= self.from, Ordering::Relaxed);
        turned
    }
}

#[test]
fn a_brake_takes_the_load_off_a_device_that_answers_nothing() {
    // it serves one a millisecond for a second, then nothing for an hour
    let device = FakeDevice::new(1, Box::new(|_, offset| Ok(if offset > S { 3600 * S } else { MS })));
    let (tally, _) = measure_with_brake(device, Pace::Open { rate_per_s: 100.0, poisson: false }, 4096);
    // no more requests were made than arrived in 50 ms
    assert!(tally.braked_ns.is_some_and(|ns| ns < 70 * MS) && tally.reads.latency.count() < 110, "{tally:?}");
}

#[test]
fn a_stall_at_the_end_shows_in_latency_and_silence() {
    // nothing moves in the last second of five (the second of which is the first that counts)
    let device = || FakeDevice::new(1, Box::new(|_, offset| Ok(if offset > 5 * S { 10 * S } else { MS })));
    let open = measure(device(), &pattern_with_pace(Pace::Open { rate_per_s: 100.0, poisson: false }), 4096, 5);
    let p99 = open.reads.latency.quantile(0.99).unwrap();
    assert!(p99 > 5.0 * S as f64, "{p99}");
    assert!((395..=405).contains(&open.reads.requests), "{}", open.reads.requests);
    for tally in [open, measure(device(), &pattern_with_pace(Pace::Closed { depth: 1 }), 1, 5)] {
        let silence = tally.longest_silence_ns;
        assert!((990 * MS..=S).contains(&silence), "{silence}");
    }
}

#[test]
fn counts_completions_that_all_come_just_after_the_end() {
    // from the fifth second on, all of eight are answered together, 50 ms after the end
    let device = FakeDevice::new(8, Box::new(|_, begins| Ok(if begins > 5 * S { 6_050 * MS - begins } else { MS })));
    let tally = measure(device, &pattern_with_pace(Pace::Open { rate_per_s: 100.0, poisson: false }), 8, 5);
    let longest = tally.reads.latency.max().unwrap();
    assert!((S..=1_050 * MS).contains(&longest), "{longest}");
    assert_eq!(tally.reads.latency.count(), tally.reads.requests + 8);
}

#[test]
fn waiting_for_work_is_no_silence() {
    let tally = measure(
        FakeDevice::with_service_time(1, MS),
        &pattern_with_pace(Pace::Open { rate_per_s: 2.0, poisson: false }),
        8,
        10,
    );
    assert!(tally.longest_silence_ns <= MS, "{}", tally.longest_silence_ns);
}

#[test]
fn some_errors_do_not_end_a_run_and_short_transfers_are_not_counted() {
    let mut count = 0;
    let service = move |_: &Op, _| {
        count += 1;
        if count % 10 == 0 { Err(5) } else { Ok(100_000) }
    };
    let tally = measure(FakeDevice::new(1, Box::new(service)), &pattern_with_pace(Pace::Closed { depth: 1 }), 1, 10);
    // 100 us a request, and errors take no time
    assert_eq!(tally.reads.requests, 100_000);
    assert!((12_000..12_400).contains(&tally.failed_requests()), "{}", tally.failed_requests());
}

#[test]
fn errors_are_counted_and_end_a_run() {
    let broken = FakeDevice::new(1, Box::new(|_, _| Err(5)));
    let tally = measure(broken, &pattern_with_pace(Pace::Closed { depth: 4 }), 4, 1_000_000);
    assert_eq!(tally.reads.requests, 0);
    assert_eq!(tally.errors[0].0, 5);
    assert!(tally.failed_requests() >= MAX_CONSECUTIVE_ERRORS);
}

#[test]
fn errors_that_come_after_the_end_are_counted() {
    // the first request takes longer than the run, and the second fails behind it
    let mut count = 0;
    let service = move |_: &Op, _| {
        count += 1;
        if count == 1 { Ok(10 * S) } else { Err(5) }
    };
    let tally = measure(FakeDevice::new(1, Box::new(service)), &pattern_with_pace(Pace::Closed { depth: 2 }), 2, 5);
    assert_eq!((tally.reads.requests, tally.errors), (0, vec![(5, 1)]));
}

#[test]
fn the_sync_of_a_write_that_ends_late_is_a_part_of_its_latency() {
    // the last ten writes take a second each, one after the other, and their syncs come behind all of them
    let service = |_: &Op, begins: u64| Ok(if begins >= 1_900 * MS { S } else { MS });
    let pace = Pace::Open { rate_per_s: 100.0, poisson: false };
    let pattern = Pattern { read_share: 0.0, durable: Durability::Fdatasync, ..pattern_with_pace(pace) };
    let tally = measure(FakeDevice::new(1, Box::new(service)), &pattern, 4096, 1);
    let p95 = tally.writes.latency.quantile(0.95).unwrap();
    assert!(p95 > 9.0 * S as f64, "{p95}");
}

#[test]
fn cycles_think_request_and_compute() {
    // 10 ms of thinking, 4 requests of 5 ms, 20 ms of computing: 4 requests every 50 ms
    let pace = Pace::Cycles {
        users: 1,
        think_s: NormalSpread::fixed(0.01),
        requests: NormalSpread::fixed(4.0),
        compute_s: NormalSpread::fixed(0.02),
    };
    let tally = measure(FakeDevice::with_service_time(1, 5 * MS), &pattern_with_pace(pace), 1, 10);
    assert!((796..=804).contains(&tally.reads.requests), "{}", tally.reads.requests);
    assert!((tally.reads.latency.mean().unwrap() / (5 * MS) as f64 - 1.0).abs() < 0.01);
}

#[test]
fn only_each_fourth_write_is_made_durable() {
    let pattern = Pattern {
        read_share: 0.0,
        durable: Durability::Fdatasync,
        sync_every: 4,
        ..pattern_with_pace(Pace::Closed { depth: 1 })
    };
    let syncs = std::sync::Arc::new(AtomicU64::new(0));
    let count = std::sync::Arc::clone(&syncs);
    let service = move |op: &Op, _| {
        count.fetch_add(u64::from(op.action == Action::Fdatasync), Ordering::Relaxed);
        Ok(5 * MS)
    };
    let tally = measure(FakeDevice::new(1, Box::new(service)), &pattern, 1, 1);
    let writes = tally.writes.requests + 200;
    assert!(syncs.load(Ordering::Relaxed).abs_diff(writes / 4) <= 1, "{writes}");
}

#[test]
fn a_limit_of_bytes_ends_a_run_and_all_of_it_counts() {
    let pattern = Pattern { max_bytes: Some(100 * 4096), ..pattern_with_pace(Pace::Closed { depth: 8 }) };
    let tally = measure(FakeDevice::with_service_time(4, 5 * MS), &pattern, 8, 1000);
    // the ramp is not counted against it
    assert!((100..=108).contains(&tally.reads.requests), "{}", tally.reads.requests);
}

#[test]
fn late_wake_ups_are_reported_and_part_of_the_latency() {
    // an idle device of 1 ms, used every 10 ms by a worker that wakes 0.2 ms late
    let mut device = FakeDevice::with_service_time(4, MS);
    device.wake_delay_ns = MS / 5;
    let tally = measure(device, &pattern_with_pace(Pace::Open { rate_per_s: 100.0, poisson: false }), 64, 10);
    let (late, latency) = (&tally.lateness, &tally.reads.latency);
    assert_eq!((late.min(), late.max()), (Some(MS / 5), Some(MS / 5)));
    assert_eq!((latency.min(), latency.max()), (Some(MS + MS / 5), Some(MS + MS / 5)));
    // a busy device makes requests wait, and that is not our lateness
    let tally = measure(
        FakeDevice::with_service_time(1, 20 * MS),
        &pattern_with_pace(Pace::Open { rate_per_s: 100.0, poisson: false }),
        2,
        10,
    );
    assert!(tally.lateness.max().unwrap() == 0 && tally.late > 400, "{:?} {}", tally.lateness.max(), tally.late);
    // users who wake late are late too, but did not wait for the device
    let mut device = FakeDevice::with_service_time(4, MS);
    device.wake_delay_ns = MS / 5;
    let tally = measure(device, &pattern_with_pace(Pace::Users { users: 1, think_s: 0.01, random: false }), 1, 10);
    assert_eq!((tally.lateness.max(), tally.reads.latency.max()), (Some(MS / 5), Some(MS)));
}

#[test]
fn immediate_completions_are_seen_soon() {
    // submission takes 1 us and completes the request: in batches of 64 it would be seen 64 us
    // later
    let mut device = FakeDevice::with_service_time(1, 0);
    device.overhead_ns = 1000;
    let tally = measure(device, &pattern_with_pace(Pace::Closed { depth: 64 }), 64, 1);
    assert_eq!(tally.reads.latency.max(), Some(32_000));
    // a slow device gets all 64: nothing is held back
    let tally =
        measure(FakeDevice::with_service_time(64, 5 * MS), &pattern_with_pace(Pace::Closed { depth: 64 }), 64, 1);
    assert_eq!(tally.reads.requests, 64 * 200);
}

#[test]
fn retries_temporary_errors_but_not_for_ever() {
    let mut calls = 0;
    let busy = move |_: &Op, _| {
        calls += 1;
        if calls % 3 == 0 { Ok(MS) } else { Err(libc::EAGAIN) }
    };
    let tally = measure(FakeDevice::new(1, Box::new(busy)), &pattern_with_pace(Pace::Closed { depth: 1 }), 1, 1);
    assert!(tally.errors.is_empty() && tally.reads.requests >= 998, "{:?}", tally.errors);
    assert!(tally.retried >= 2 * tally.reads.requests, "{}", tally.retried);
    let never = FakeDevice::new(1, Box::new(|_, _| Err(libc::EINTR)));
    let tally = measure(never, &pattern_with_pace(Pace::Closed { depth: 2 }), 2, 1);
    assert_eq!((tally.reads.requests, tally.errors[0].0), (0, libc::EINTR));
}
