//! Measures how long it takes to judge a hundred thousand designs, and what an answer takes that has no design, so that
//! each requirement is relaxed, beside one that has designs.
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
use diskwright_planner::{Demand, PlanLimits, plan};

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
    time_answers(tiny);
}

/// Times answers with designs and without.
fn time_answers(tiny: bool) {
    let drives = if tiny { vec!["st24000nm002h".to_owned()] } else { Vec::new() };
    let simulated_requests = if tiny { 500 } else { 20_000 };
    let limits =
        PlanLimits { drives, simulated_requests, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") };
    for (target_s, budget) in [(0.02, None), (1e-5, None), (1e-5, Some(1e6))] {
        let response = Some(ResponseTarget { target_s, statistic: ResponseStatistic::Mean });
        let demand = Demand { capacity_bytes: Some(4e12), response, ..Demand::from_rates(600.0, 200.0, 8192.0) };
        let begin = Instant::now();
        let answer = plan(&demand, &PlanLimits { budget, ..limits.clone() }).expect("an answer");
        println!(
            "within {target_s} s, budget {budget:?}: {} designs, {} relaxations, in {:.3} s",
            if answer.feasible { answer.designs.len() } else { 0 },
            answer.relax.len(),
            begin.elapsed().as_secs_f64()
        );
    }
}
