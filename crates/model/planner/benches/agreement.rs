//! Measures the deviation between analysis and simulation, over random demands and designs.
//!
//!     cargo bench -p diskwright-planner --bench agreement
//!     cargo bench -p diskwright-planner --bench agreement -- --seed 7 --designs 300
//!
//! A seed and an index determine a design: a drive that is sold today or a volume, a level, members, a stripe unit,
//! sizes and shares of reads and writes, and a load of 10 to 90 % of what the design sustains. The planner
//! (`StorageDesign`) and the simulator's analysis, with different percentiles, are compared with the simulation. Under
//! `cargo test` it tries only a few.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use diskwright_base::Rng;
use diskwright_planner::analysis::StorageDesign;
use diskwright_planner::design_part::{DesignPart, list_parts};
use diskwright_planner::prices::built_in_prices;
use diskwright_planner::search::sustainable_factor;
use diskwright_planner::simulation::{ArrayCondition, simulate_design};
use diskwright_planner::{Demand, PlanLimits};
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::analytic;
use diskwright_simulator::catalogue::DriveClass;

/// Deviations of mean, 95 % and 99 % from the simulation.
type Apart = [f64; 3];

/// One design under one load.
struct DeviationRow {
    class: &'static str,
    own: Apart,
    solver: Option<Apart>,
    name: String,
}

fn option(name: &str, usual: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).map_or(usual, |value| value.parse().unwrap_or_else(|_| panic!("{name} {value}: a number")))
}

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    let designs = option("--designs", if tiny { 12 } else { 300 });
    let requests = if tiny { 1000 } else { 20_000 };
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(700.0, 300.0, 8192.0) };
    let limits = PlanLimits { max_volumes: 1, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") };
    let all = list_parts(&demand, &limits).expect("parts");
    let seed = option("--seed", 19);
    let mut rows: Vec<DeviationRow> =
        (0..designs).filter_map(|number| row(&all, &mut Rng::new(seed, number), requests)).collect();
    println!("seed {seed}: {designs} designs, {} that keep up in the simulation of {requests} requests", rows.len());
    for class in ["hdd", "ssd", "cloud"] {
        let of_class: Vec<&DeviationRow> = rows.iter().filter(|row| row.class == class).collect();
        table(&format!("{class}, the planner"), of_class.iter().map(|row| row.own));
        table(&format!("{class}, the simulator's analysis"), of_class.iter().filter_map(|row| row.solver));
    }
    rows.sort_by(|a, b| b.own[0].abs().total_cmp(&a.own[0].abs()));
    for row in rows.iter().take(6) {
        println!("{}: {:+.1} %", row.name, row.own[0] * 100.0);
    }
}

/// Picks one element.
fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.next_below(all.len() as u64) as usize]
}

fn row(all: &[DesignPart], rng: &mut Rng, requests: u32) -> Option<DeviationRow> {
    let media = pick(rng, &[DriveClass::Hdd, DriveClass::NvmeSsd, DriveClass::Cloud]);
    let flash = [DriveClass::SataSsd, DriveClass::SasSsd, DriveClass::NvmeSsd];
    let is_one = |part: &&DesignPart| part.class == media || flash.contains(&media) && flash.contains(&part.class);
    let of_class: Vec<&DesignPart> = all.iter().filter(is_one).collect();
    let part = pick(rng, &of_class);
    let (level, count) = match &part.volume {
        Some(_) => (ArrayLevel::Linear, 1),
        None => match pick(rng, &[ArrayLevel::Raid1, ArrayLevel::Raid10, ArrayLevel::Raid5, ArrayLevel::Raid6]) {
            ArrayLevel::Raid1 => (ArrayLevel::Raid1, 2),
            ArrayLevel::Raid10 => (ArrayLevel::Raid10, 2 * (2 + rng.next_below(9) as u16)),
            level => (level, 4 + rng.next_below(13) as u16),
        },
    };
    let unit_bytes = pick(rng, &[16_384, 65_536, 262_144]);
    let size = |rng: &mut Rng| f64::from(pick(rng, &[4096, 8192, 16_384, 65_536, 131_072]));
    let reads = pick(rng, &[0.0, 300.0, 500.0, 700.0, 900.0, 1000.0]);
    let (read_size_bytes, write_size_bytes) = (size(rng), size(rng));
    let demand = Demand { read_size_bytes, write_size_bytes, ..Demand::from_rates(reads, 1000.0 - reads, 4096.0) };
    let load = 0.1 + 0.8 * rng.next_f64();
    let design = StorageDesign { part, level, count, unit_bytes, path: None };
    compare(&design, &demand.scaled_by(load * sustainable_factor(&design, &demand)), load, requests)
}

fn compare(design: &StorageDesign<'_>, demand: &Demand, load: f64, requests: u32) -> Option<DeviationRow> {
    let found = simulate_design(design, demand, ArrayCondition::Healthy, requests).ok()?.response_s?;
    let apart = |of: Apart| -> Apart { std::array::from_fn(|index| of[index] / found[index] - 1.0) };
    let analysis = design.predict_response(demand).ok()??;
    let [p95, p99] = design.estimate_percentiles(demand, &analysis)?;
    let solved = analytic::solve(&design.to_system(demand, 0)).ok();
    let solver = solved.map(|found| {
        let workload = &found.workloads[0];
        apart([found.response_s, workload.percentile_s(0.95), workload.percentile_s(0.99)])
    });
    let class = match design.part.class {
        DriveClass::Hdd => "hdd",
        DriveClass::Cloud => "cloud",
        _ => "ssd",
    };
    let name = format!(
        "{} of {} x {} at {load:.2}, {:.0} % reads of {}, writes of {}, units of {}",
        design.level,
        design.count,
        design.part.id,
        demand.read_share() * 100.0,
        demand.read_size_bytes,
        demand.write_size_bytes,
        design.unit_bytes
    );
    Some(DeviationRow { class, own: apart([analysis.mean_s, p95, p99]), solver, name })
}

fn table(title: &str, rows: impl Iterator<Item = Apart>) {
    let rows: Vec<Apart> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let n = rows.len() as f64;
    let mean = |index: usize| rows.iter().map(|row| row[index].abs()).sum::<f64>() / n * 100.0;
    let within = |index: usize| rows.iter().filter(|row| row[index].abs() <= 0.15).count() as f64 / n * 100.0;
    println!(
        "{title}: {} designs; mean {:.1} % apart, {:.1} % within 15 %; 95 %: {:.1} %, {:.1} %; 99 %: {:.1} %, {:.1} %",
        rows.len(),
        mean(0),
        within(0),
        mean(1),
        within(1),
        mean(2),
        within(2)
    );
}
