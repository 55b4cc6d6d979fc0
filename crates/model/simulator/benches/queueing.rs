//! Queueing theory through the complete engine: a table of mean responses beside their closed forms.
//!
//!     cargo bench -p diskwright-simulator --bench queueing
//!
//! With `--tiny`, and when `cargo test` runs it, it runs one case only, to see that it works. It fails unless every
//! case is within 1 %.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "../tests/common/truth.rs"]
mod truth;

use std::time::Instant;

use truth::*;

/// Half-width of the 95 % interval, as a share of the mean.
const MAX_RELATIVE_HALF_WIDTH: f64 = 0.0025;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let cases = if tiny { vec![mm1_at(0.3)] } else { all_cases() };
    let half = if tiny { 0.05 } else { MAX_RELATIVE_HALF_WIDTH };
    println!("| case | closed form, ms | found, ms | 95 % interval | off | others off | requests |");
    println!("|---|---|---|---|---|---|---|");
    let (start, mut requests, mut worst) = (Instant::now(), 0, 0f64);
    for case in &cases {
        let row = case.run(half);
        println!(
            "| {} | {:.4} | {:.4} | ± {:.2} % | {:+.2} % | {:.2} % | {} |",
            row.label,
            row.truth_s * 1e3,
            row.found.mean * 1e3,
            row.found.relative_half_width() * 1e2,
            row.error * 1e2,
            row.others * 1e2,
            row.requests
        );
        requests += row.requests;
        worst = worst.max(row.error.abs());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("\n{requests} requests in {seconds:.1} s; the worst is {:.2} % off", worst * 1e2);
    // approximate formulas are not exact references
    for case in if tiny { vec![] } else { vec![fork_many(4, 0.5), fork_many(8, 0.3), fork_many(8, 0.6)] } {
        let row = case.run(MAX_RELATIVE_HALF_WIDTH);
        println!("{}: formula {:+.2} % off what is found", row.label, (row.truth_s / row.found.mean - 1.0) * 1e2);
    }
    assert!(tiny || worst < 0.01, "{worst}");
}

fn all_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [0.1, 0.3, 0.5, 0.7, 0.8].map(mm1_at).into();
    cases.extend([0.3, 0.6, 0.8].map(md1_at));
    cases.extend([0.5, 0.7].map(me1_at));
    cases.extend([0.2, 0.5].map(mh1_at));
    cases.extend([mmc_at(2, 0.7), mmc_at(3, 0.7), mmc_at(8, 0.8), mmc_at(32, 0.8)]);
    cases.extend([repairman(5, 4.0, 1), repairman(10, 9.0, 1), repairman(20, 5.0, 4), repairman(3, 0.5, 2)]);
    cases.extend([0.2, 0.5, 0.7].map(fork_two));
    cases.extend([1, 2, 4, 16].map(fork_closed));
    cases.extend([4, 8].map(fork_alone));
    cases.extend([tandem(0.3, 0.5), tandem(0.7, 0.5), network(4, 2.0, 0.5), network(16, 10.0, 0.8)]);
    cases.push(shared_processor(0.5));
    cases
}
