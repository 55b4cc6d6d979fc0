//! Random systems of six kinds: simulated results, and the accuracy of the analysis.
//!
//!     cargo bench -p diskwright-simulator --bench mixed                          solves those of grid/mixed.csv
//!     cargo bench -p diskwright-simulator --bench mixed -- --worst 10            and names the worst
//!     cargo bench -p diskwright-simulator --bench mixed -- --show 7              and tells of one all it knows
//!     cargo bench -p diskwright-simulator --bench mixed -- --against FILE        solves those of another file
//!     cargo bench -p diskwright-simulator --bench mixed -- --simulate --seed 77 --count 500    writes such a file
//!
//! Simulating takes two processors for some minutes. When `cargo test` runs it, it runs a few only, to see that it
//! works.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a file and measures time")]

#[path = "../tests/common/mixed.rs"]
mod mixed;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskwright_simulator::Simulation;
use mixed::{MixedOutcome, SimulatedWorkload};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let value = |name: &str| {
        let index = arguments.iter().position(|argument| argument == name)?;
        arguments.get(index + 1).cloned()
    };
    let number = |name: &str, usual: u64| value(name).and_then(|value| value.parse().ok()).unwrap_or(usual);
    let tiny = has("--tiny") || !has("--bench");
    if has("--simulate") {
        simulate_systems(number("--seed", 77), number("--count", 500) as usize);
        return;
    }
    let text = match value("--against") {
        Some(file) => std::fs::read_to_string(file).expect("a file that can be read"),
        None => include_str!("../grid/mixed.csv").to_owned(),
    };
    let systems = mixed::simulated(&text);
    if let Some(wanted) = value("--show").and_then(|number| number.parse::<usize>().ok()) {
        systems.iter().filter(|rows| rows[0].number == wanted).for_each(|rows| show_system(rows));
        return;
    }
    let systems: Vec<_> = systems.into_iter().step_by(if tiny { 50 } else { 1 }).collect();
    print_error_tables(&systems, number("--worst", 0) as usize);
}

/// Simulates systems, and prints the results in their order.
fn simulate_systems(seed: u64, count: usize) {
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let text = simulate_one(seed, index);
            lines.lock().expect("no worker failed").insert(index, text);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    println!("{}", mixed::HEADING);
    lines.into_inner().expect("no worker failed").values().for_each(|text| print!("{text}"));
}

/// The lines of a system.
fn simulate_one(seed: u64, number: usize) -> String {
    let report = Simulation::new(&mixed::system(seed, number)).expect("possible").run(|_| {});
    let (part, used) = report.bottleneck().map_or(("none", 0.0), |part| (&part.name, part.utilisation()));
    let mut text = String::new();
    for (index, workload) in report.workloads.iter().enumerate() {
        let quantile = |share: f64| workload.responses.quantile(share).unwrap_or(f64::NAN) * 1e-9;
        text += &format!(
            "{seed},{number},{index},{:.4},{:.6e},{:.6e},{:.6e},{part},{used:.4}\n",
            workload.counts.request_count() as f64 / report.elapsed_s(),
            workload.responses.mean().unwrap_or(f64::NAN) * 1e-9,
            quantile(0.95),
            quantile(0.99),
        );
    }
    text
}

/// Prints tables of errors.
fn print_error_tables(systems: &[Vec<SimulatedWorkload>], worst: usize) {
    let mut found: Vec<(&str, usize, f64)> = Vec::new();
    let (mut refused, mut percentiles) = (BTreeMap::<String, usize>::new(), [Vec::new(), Vec::new()]);
    let mut refusals: Vec<&str> = Vec::new();
    for rows in systems {
        let kind = mixed::kind(rows[0].number);
        match mixed::outcome(rows) {
            MixedOutcome::Refused(why) => {
                let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why).to_owned();
                *refused.entry(why).or_default() += 1;
                refusals.push(kind);
            }
            MixedOutcome::Solved(error, by_percentile) => {
                found.push((kind, rows[0].number, error));
                by_percentile
                    .iter()
                    .for_each(|errors| (0..2).for_each(|which| percentiles[which].push(errors[which].abs())));
            }
        }
    }
    println!("# largest error of throughput, response and the most used part: systems, refused, solved within 15 %,");
    println!("# mean, median, 90 % below, largest");
    for kind in mixed::KINDS {
        let errors = found.iter().filter(|(of, ..)| *of == kind).map(|(.., error)| *error).collect();
        print_table_row(kind, refusals.iter().filter(|of| **of == kind).count(), errors);
    }
    print_table_row("all", refusals.len(), found.iter().map(|(.., error)| *error).collect());
    let [p95, p99] = percentiles;
    print_table_row("p95", 0, p95);
    print_table_row("p99", 0, p99);
    refused.iter().for_each(|(why, count)| println!("refused {count:>3}: {why}"));
    found.sort_by(|a, b| b.2.total_cmp(&a.2));
    found.iter().take(worst).for_each(|(kind, number, error)| println!("{error:8.3} {kind} {number}"));
}

/// Prints everything about a system: its description, and the results of simulation and analysis.
fn show_system(rows: &[SimulatedWorkload]) {
    let system = mixed::system(rows[0].seed, rows[0].number);
    for group in &system.drives {
        println!("{} {} x {}, {:?}, depth {}", group.name, group.count, group.device.name(), group.order, group.depth);
    }
    println!("{:?}\n{:?}\n{:?}", system.arrays, system.host.cache, system.controllers);
    system.workloads.iter().for_each(|workload| println!("{:?} {:?}", workload.targets, workload.load));
    let solution = diskwright_simulator::analytic::solve(&system);
    for row in rows {
        let (rate, ms) = (row.throughput_per_s, row.response_s * 1e3);
        let (p95, p99) = (row.p95_s * 1e3, row.p99_s * 1e3);
        println!("simulated {rate:.1}/s {ms:.4} ms, 95 % {p95:.3}, 99 % {p99:.3}, {} {:.3}", row.part, row.utilization);
        if let Ok(found) = solution.as_ref().map(|solution| &solution.workloads[row.workload]) {
            let (p95, p99) = (found.percentile_s(0.95) * 1e3, found.percentile_s(0.99) * 1e3);
            println!(
                "solved    {:.1}/s {:.4} ms, 95 % {p95:.3}, 99 % {p99:.3}",
                found.throughput_per_s,
                found.response_s * 1e3
            );
        }
    }
    match solution {
        Ok(solution) => println!("{:.3?}", solution.utilisations),
        Err(why) => println!("{why}"),
    }
}

fn print_table_row(name: &str, refused: usize, mut errors: Vec<f64>) {
    errors.retain(|error| error.is_finite());
    errors.sort_by(f64::total_cmp);
    let count = errors.len().max(1) as f64;
    let quantile = |share: f64| errors.get((share * (count - 1.0)) as usize).copied().unwrap_or(f64::NAN) * 100.0;
    let within = errors.iter().filter(|error| **error <= 0.15).count();
    println!(
        "{name:<9} {:>4} {refused:>4} {within:>4} ({:5.1} %)  {:6.1} % {:6.1} % {:6.1} % {:7.1} %",
        errors.len() + refused,
        within as f64 / count * 100.0,
        errors.iter().sum::<f64>() / count * 100.0,
        quantile(0.5),
        quantile(0.9),
        quantile(1.0),
    );
}
