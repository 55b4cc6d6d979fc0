//! Measures how long it takes to judge a hundred thousand designs.
//!
//!     cargo bench -p diskwright-planner --bench search
//!
//! Under `cargo test` it judges only a few.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::time::Instant;

use diskwright_planner::demand::{ResponseStatistic, ResponseTarget};
use diskwright_planner::design_part::list_parts;
use diskwright_planner::prices::built_in_prices;
use diskwright_planner::search::search_designs;
use diskwright_planner::{Demand, PlanLimits};

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    let max_drives = if tiny { 16 } else { 300 };
    let spares = if tiny { vec![0] } else { (0..4).collect() };
    let limits = PlanLimits { max_drives, spares, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") };
    for (name, ms, size) in [("8 KiB", 20.0, 8192.0), ("96 KiB", 40.0, 98_304.0)] {
        let response = Some(ResponseTarget { target_s: ms / 1e3, statistic: ResponseStatistic::Mean });
        let demand = Demand { capacity_bytes: Some(40e12), response, ..Demand::from_rates(2000.0, 700.0, size) };
        // the tables of flash models are built once
        let all = list_parts(&demand, &limits).expect("parts");
        let first = Instant::now();
        let outcome = search_designs(&demand, &limits, &all, &[]);
        let cold = first.elapsed();
        let mut best = cold;
        for _ in 0..if tiny { 1 } else { 5 } {
            let begin = Instant::now();
            assert_eq!(search_designs(&demand, &limits, &all, &[]).searched, outcome.searched);
            best = best.min(begin.elapsed());
        }
        println!(
            "{name}: {} designs judged in {:.3} s at first, {:.3} s at best; {} of them meet the demand and are kept",
            outcome.searched,
            cold.as_secs_f64(),
            best.as_secs_f64(),
            outcome.feasible.len()
        );
    }
}
