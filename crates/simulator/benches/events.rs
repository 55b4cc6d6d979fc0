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

use diskwright_base::Dice;
use diskwright_simulator::events::Events;
use diskwright_simulator::solve::{Center, Network, exact, schweitzer};
use diskwright_simulator::station::{Job, Station};

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
    let solves = if tiny { 10 } else { 20_000 };
    for users in [1, 8, 32, 200] {
        let centers = vec![Center::Queue(0.01); 16];
        let network = Network { users, think_s: 0.1, centers };
        for (name, solve) in [("exact", exact as fn(&Network) -> _), ("Schweitzer", schweitzer)] {
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
    let (mut events, mut dice) = (Events::new(), Dice::new(1, 0));
    (0..waiting).for_each(|i| events.at(dice.below(1 << 30), i));
    for _ in 0..count {
        if let Some((_, what)) = events.take() {
            events.after(dice.below(1 << 30), black_box(what));
        }
    }
}

fn queue(count: usize) {
    let (mut events, mut dice, mut station) = (Events::new(), Dice::new(1, 0), Station::new(1));
    events.at(0, None);
    let mut done = 0;
    while done < count {
        match events.take() {
            Some((now, None)) => {
                events.after(dice.exponential(1250.0) as u64, None);
                let job = Job { id: 0, arrived: now, service: dice.exponential(1000.0) as u64 };
                if let Some(end) = station.arrive(now, job) {
                    events.at(end, Some(job));
                }
            }
            Some((now, Some(job))) => {
                done += 1;
                if let Some((end, next)) = station.complete(now, &job) {
                    events.at(end, Some(next));
                }
            }
            None => return,
        }
    }
    black_box(station.totals(events.now()));
}
