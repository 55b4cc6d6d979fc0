//! Cost of an event, of a queueing simulation made of events, and of the analytic solvers.
//!
//!     cargo bench -p diskwright-simulator --bench events
//!
//! With `--tiny`, and when `cargo test` runs it, it runs a few only, to see that it works; then the numbers are
//! meaningless. Each line is the minimum of several rounds: other load on the machine only adds time.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::array::*;
use diskwright_simulator::event_queue::EventQueue;
use diskwright_simulator::solve::{ClosedNetwork, MvaCenter, solve_exact, solve_schweitzer};
use diskwright_simulator::station::{Station, StationJob};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, count) = if tiny { (2, 1000) } else { (7, 2_000_000) };
    println!("# events, {rounds} rounds of {count}");
    for waiting in [1, 8, 40, 1000, 100_000] {
        let ns = best_time_ns(rounds, count, || run_hold_model(waiting, count));
        println!("{:<52} {ns:>9.1} ns", format!("an event taken and another added, {waiting} waiting"));
    }
    let ns = best_time_ns(rounds, count, || run_mm1(count));
    println!("{:<52} {ns:>9.1} ns", "a job of M/M/1, 80 % busy (two events)");
    for writes in [0.0, 0.5, 1.0] {
        let mut ios = 0;
        let ns = best_time_ns(rounds, count, || ios = run_raid5(count, writes));
        let per_io = ns * count as f64 / ios as f64;
        let label = format!("RAID 5 of 8 simple drives, 32 users, {:.0} % writes", writes * 100.0);
        println!("{label:<52} {per_io:>9.1} ns a member I/O, {:.1} million/s", 1e3 / per_io);
    }
    let solves = if tiny { 10 } else { 20_000 };
    for users in [1, 8, 32, 200] {
        let centers = vec![MvaCenter::Queue(0.01); 16];
        let network = ClosedNetwork { users, think_s: 0.1, centers };
        for (name, solve) in [("exact", solve_exact as fn(&ClosedNetwork) -> _), ("Schweitzer", solve_schweitzer)] {
            let ns =
                best_time_ns(rounds, solves, || (0..solves).for_each(|_| _ = black_box(solve(black_box(&network)))));
            let label = format!("{name}, {users} users, 16 centers");
            println!("{label:<52} {:>9.2} us", ns * 1e-3);
        }
    }
}

/// Shortest time of a round, ns for each of `count`.
fn best_time_ns(rounds: u32, count: usize, mut action: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        action();
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    (0..rounds).map(round).fold(f64::MAX, f64::min)
}

/// The hold model: each event popped schedules one at a random time.
fn run_hold_model(waiting: u32, count: usize) {
    let (mut events, mut rng) = (EventQueue::new(), Rng::new(1, 0));
    (0..waiting).for_each(|i| events.schedule(rng.next_below(1 << 30), i));
    for _ in 0..count {
        if let Some((_, payload)) = events.pop() {
            events.schedule_after(rng.next_below(1 << 30), black_box(payload));
        }
    }
}

/// Users who repeatedly send requests of 4 KB to a RAID 5 of eight drives; returns the number of member I/Os. Drives
/// are stations with a random service time, so that this is the cost of arrays, events and queues without a drive's
/// mechanics.
fn run_raid5(requests: usize, writes: f64) -> usize {
    let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid5, 8, 1 << 27, 128)).expect("a valid array");
    let places = array.capacity_blocks() / 8;
    let (mut planner, mut plan, mut flights) =
        (Planner::new(array, ArrayPolicy::default()), MemberIoPlan::new(), RequestsInFlight::new());
    let (mut events, mut rng) = (EventQueue::new(), Rng::new(6, 0));
    let mut drives = vec![Station::new(1); 8];
    let (mut begun, mut ios, mut free) = (0, 0, 32);
    let mut send =
        |io: &MemberIo, id, events: &mut EventQueue<(u16, StationJob)>, drives: &mut [Station], rng: &mut Rng| {
            // the lowest bit marks a write
            let id = id * 2 + u32::from(io.write);
            let job = StationJob { id, arrived_ns: events.now(), service_ns: 4_000_000 + rng.next_below(8_000_000) };
            ios += 1;
            if let Some(end) = drives[usize::from(io.member)].add_job(events.now(), job) {
                events.schedule(end, (io.member, job));
            }
        };
    loop {
        while free > 0 && begun < requests {
            let request = ArrayRequest::read(rng.next_below(places) * 8, 8);
            planner.plan_request(ArrayRequest { write: rng.next_bool(writes), ..request }, &mut plan);
            let Some(id) = flights.begin_plan(&mut plan) else { continue };
            for io in plan.reads.iter().chain(&plan.writes) {
                send(io, id, &mut events, &mut drives, &mut rng);
            }
            (begun, free) = (begun + 1, free - 1);
        }
        let Some((now, (member, job))) = events.pop() else { return ios };
        if let Some((end, next)) = drives[usize::from(member)].complete_job(now, &job) {
            events.schedule(end, (member, next));
        }
        let id = job.id / 2;
        match flights.complete_io(id, job.id % 2 == 1) {
            ArrayProgress::Waiting => {}
            ArrayProgress::Send(after, _) => {
                for io in after {
                    send(io, id, &mut events, &mut drives, &mut rng);
                }
            }
            ArrayProgress::Done => free += 1,
        }
    }
}

fn run_mm1(count: usize) {
    let (mut events, mut rng, mut station) = (EventQueue::new(), Rng::new(1, 0), Station::new(1));
    events.schedule(0, None);
    let mut done = 0;
    while done < count {
        match events.pop() {
            Some((now, None)) => {
                events.schedule_after(rng.draw_exponential(1250.0) as u64, None);
                let job = StationJob { id: 0, arrived_ns: now, service_ns: rng.draw_exponential(1000.0) as u64 };
                if let Some(end) = station.add_job(now, job) {
                    events.schedule(end, Some(job));
                }
            }
            Some((now, Some(job))) => {
                done += 1;
                if let Some((end, next)) = station.complete_job(now, &job) {
                    events.schedule(end, Some(next));
                }
            }
            None => return,
        }
    }
    black_box(station.totals(events.now()));
}
