//! The grid of 500 systems: simulated results, accuracy of the analysis, and its cost.
//!
//!     cargo bench -p diskwright-simulator --bench grid                  solves all, against grid/grid.csv
//!     cargo bench -p diskwright-simulator --bench grid -- --simulate    writes what belongs into grid/grid.csv
//!     cargo bench -p diskwright-simulator --bench grid -- --others      simulates systems beside the grid
//!
//! Simulating takes all processors for some minutes. When `cargo test` runs it, it runs a few only, to see that it
//! works.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "../tests/common/grid.rs"]
mod grid;

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use diskwright_simulator::DeviceModel;
use diskwright_simulator::Simulation;
use diskwright_simulator::System;
use diskwright_simulator::analytic;
use grid::{Point, Row};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let devices = grid::devices();
    if has("--simulate") {
        println!("{}", grid::HEADING);
        for row in simulate_points(&grid::split().0, &devices) {
            println!("{}", grid::line(&row));
        }
        return;
    }
    let rows = if has("--others") {
        let others: Vec<Point> = grid::split().1.into_iter().step_by(if tiny { 500 } else { 5 }).collect();
        simulate_points(&others, &devices)
    } else {
        grid::simulated().into_iter().step_by(if tiny { 50 } else { 1 }).collect()
    };
    print_errors(&rows, &devices, has("--worst"));
    print_solution_times(&rows, &devices, if tiny { 1 } else { 200 });
}

/// Simulates points on all processors.
fn simulate_points(points: &[Point], devices: &[(String, DeviceModel)]) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut rows = Vec::new();
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = Simulation::new(&grid::system(point, devices)).expect("possible").run(|_| {});
            let users = &report.workloads[0];
            rows.push(Row {
                point: point.clone(),
                throughput_per_s: users.counts.request_count() as f64 / report.elapsed_s(),
                response_s: users.responses.mean().unwrap_or(f64::NAN) * 1e-9,
            });
        }
        rows
    };
    let mut rows: Vec<Row> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a worker")).collect()
    });
    rows.sort_by_key(|row| points.iter().position(|point| *point == row.point));
    rows
}

/// Prints a table of errors, and the worst of them.
fn print_errors(rows: &[Row], devices: &[(String, DeviceModel)], worst: bool) {
    let mut found: Vec<(f64, f64, String, &Row)> = Vec::new();
    for row in rows {
        let solution = analytic::solve(&grid::system(&row.point, devices)).expect("it is solved");
        let response = solution.response_s / row.response_s - 1.0;
        let throughput = solution.throughput_per_s / row.throughput_per_s - 1.0;
        found.push((throughput, response, format!("{throughput:+.3} {response:+.3} {}", grid::line(row)), row));
    }
    println!("# errors of throughput, response: mean, 90 % below, largest, share within 10 %");
    print_table_row("all", found.iter());
    for drive in grid::drives() {
        print_table_row(&drive.id, found.iter().filter(|f| f.3.point.drive == drive.id));
    }
    for level in ["raid0", "raid1", "raid5", "raid6", "raid10"] {
        print_table_row(level, found.iter().filter(|f| f.3.point.level.to_string() == level));
    }
    for users in [1, 4, 16, 64] {
        print_table_row(&format!("{users} users"), found.iter().filter(|f| f.3.point.users == users));
    }
    if worst {
        found.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        found.iter().take(60).for_each(|(_, _, line, _)| println!("{line}"));
    }
}

fn print_table_row<'a>(name: &str, found: impl Iterator<Item = &'a (f64, f64, String, &'a Row)>) {
    let (mut throughput, mut response): (Vec<f64>, Vec<f64>) = found.map(|f| (f.0.abs(), f.1.abs())).unzip();
    let mut columns = String::new();
    for errors in [&mut throughput, &mut response] {
        errors.sort_by(f64::total_cmp);
        let count = errors.len().max(1) as f64;
        let mean = errors.iter().sum::<f64>() / count;
        let within = errors.iter().filter(|error| **error <= 0.1).count() as f64 / count;
        let quantile = |share: f64| errors.get((share * (count - 1.0)) as usize).copied().unwrap_or(f64::NAN);
        columns += &format!(
            "  {:5.1} % {:5.1} % {:5.1} % {:6.1} %",
            mean * 100.0,
            quantile(0.9) * 100.0,
            quantile(1.0) * 100.0,
            within * 100.0
        );
    }
    println!("{name:<10} {:>5} {columns}", throughput.len());
}

/// Prints the time of a complete solution, including the drive's tables.
fn print_solution_times(rows: &[Row], devices: &[(String, DeviceModel)], rounds: u32) {
    let systems: Vec<System> = rows.iter().map(|row| grid::system(&row.point, devices)).collect();
    let mut times: Vec<f64> = Vec::new();
    for system in &systems {
        let once = |_| {
            let start = Instant::now();
            let _ = black_box(analytic::solve(black_box(system)));
            start.elapsed().as_secs_f64() * 1e6
        };
        times.push((0..rounds).map(once).fold(f64::MAX, f64::min));
    }
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[(share * (times.len() - 1) as f64) as usize];
    println!(
        "# microseconds a system: mean {:.1}, median {:.1}, 90 % below {:.1}, largest {:.1}",
        times.iter().sum::<f64>() / times.len() as f64,
        quantile(0.5),
        quantile(0.9),
        quantile(1.0)
    );
}
