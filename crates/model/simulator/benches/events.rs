//! What an event costs, what a queueing simulation made of them costs, and
//! what the analytic solvers cost.
//!
//!     cargo bench -p diskwright-simulator --bench events
//!
//! With `--tiny`, and when `cargo test` runs it, it does a few only, to see
//! that it works; then the numbers mean nothing. Each line is the least of
//! several rounds: what else the machine does only adds.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::array::*;
use diskwright_simulator::events::Events;
use diskwright_simulator::solve::{ClosedNetwork, MvaCenter, exact, schweitzer};
use diskwright_simulator::station::{Station, StationJob};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, count) = if tiny { (2, 1000) } else { (7, 2_000_000) };
    println!("# events, {rounds} rounds of {count}");
    for waiting in [1, 8, 40, 1000, 100_000] {
        let ns = best(rounds, count, || hold(waiting, count));
        println!("{:<52} {ns:>9.1} ns", format!("an event taken and another added, {waiting} waiting"));
    }
    let ns = best(rounds, count, || queue(count));
    println!("{:<52} {ns:>9.1} ns", "a job of M/M/1, 80 % busy (two events)");
    for writes in [0.0, 0.5, 1.0] {
        let mut ios = 0;
        let ns = best(rounds, count, || ios = raid5(count, writes));
        let per_io = ns * count as f64 / ios as f64;
        let what = format!("RAID 5 of 8 simple drives, 32 users, {:.0} % writes", writes * 100.0);
        println!("{what:<52} {per_io:>9.1} ns a member I/O, {:.1} million/s", 1e3 / per_io);
    }
    let solves = if tiny { 10 } else { 20_000 };
    for users in [1, 8, 32, 200] {
        let centers = vec![MvaCenter::Queue(0.01); 16];
        let network = ClosedNetwork { users, think_s: 0.1, centers };
        for (name, solve) in [("exact", exact as fn(&ClosedNetwork) -> _), ("Schweitzer", schweitzer)] {
            let ns = best(rounds, solves, || (0..solves).for_each(|_| _ = black_box(solve(black_box(&network)))));
            let what = format!("{name}, {users} users, 16 centers");
            println!("{what:<52} {:>9.2} us", ns * 1e-3);
        }
    }
}

/// Least time of a round, ns for each of `count`.
fn best(rounds: u32, count: usize, mut what: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        what();
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    (0..rounds).map(round).fold(f64::MAX, f64::min)
}

/// The hold model: each event taken adds one at a random time to come.
fn hold(waiting: u32, count: usize) {
    let (mut events, mut dice) = (Events::new(), Rng::new(1, 0));
    (0..waiting).for_each(|i| events.schedule(dice.below(1 << 30), i));
    for _ in 0..count {
        if let Some((_, what)) = events.take() {
            events.after(dice.below(1 << 30), black_box(what));
        }
    }
}

/// Users who ask a RAID 5 of eight for 4 KB each, again and again: member I/Os.
/// Drives are stations that need a random time, so that this is what arrays,
/// events and queues cost, without a drive's mechanics.
fn raid5(requests: usize, writes: f64) -> usize {
    let array = ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid5, 8, 1 << 27, 128)).expect("a valid array");
    let places = array.blocks() / 8;
    let (mut planner, mut plan, mut flights) =
        (Planner::new(array, ArrayPolicy::default()), MemberIoPlan::new(), ArrayFlights::new());
    let (mut events, mut dice) = (Events::new(), Rng::new(6, 0));
    let mut drives = vec![Station::new(1); 8];
    let (mut begun, mut ios, mut free) = (0, 0, 32);
    let mut send =
        |io: &MemberIo, id, events: &mut Events<(u16, StationJob)>, drives: &mut [Station], dice: &mut Rng| {
            // the lowest bit tells a write
            let id = id * 2 + u32::from(io.write);
            let job = StationJob { id, arrived: events.now(), service: 4_000_000 + dice.below(8_000_000) };
            ios += 1;
            if let Some(end) = drives[usize::from(io.member)].arrive(events.now(), job) {
                events.schedule(end, (io.member, job));
            }
        };
    loop {
        while free > 0 && begun < requests {
            let request = ArrayRequest::read(dice.below(places) * 8, 8);
            planner.plan(ArrayRequest { write: dice.chance(writes), ..request }, &mut plan);
            let Some(id) = flights.begin(&mut plan) else { continue };
            for io in plan.reads.iter().chain(&plan.writes) {
                send(io, id, &mut events, &mut drives, &mut dice);
            }
            (begun, free) = (begun + 1, free - 1);
        }
        let Some((now, (member, job))) = events.take() else { return ios };
        if let Some((end, next)) = drives[usize::from(member)].complete(now, &job) {
            events.schedule(end, (member, next));
        }
        let id = job.id / 2;
        match flights.done(id, job.id % 2 == 1) {
            ArrayProgress::Waiting => {}
            ArrayProgress::Send(after, _) => {
                for io in after {
                    send(io, id, &mut events, &mut drives, &mut dice);
                }
            }
            ArrayProgress::Done => free += 1,
        }
    }
}

fn queue(count: usize) {
    let (mut events, mut dice, mut station) = (Events::new(), Rng::new(1, 0), Station::new(1));
    events.schedule(0, None);
    let mut done = 0;
    while done < count {
        match events.take() {
            Some((now, None)) => {
                events.after(dice.exponential(1250.0) as u64, None);
                let job = StationJob { id: 0, arrived: now, service: dice.exponential(1000.0) as u64 };
                if let Some(end) = station.arrive(now, job) {
                    events.schedule(end, Some(job));
                }
            }
            Some((now, Some(job))) => {
                done += 1;
                if let Some((end, next)) = station.complete(now, &job) {
                    events.schedule(end, Some(next));
                }
            }
            None => return,
        }
    }
    black_box(station.totals(events.now()));
}
