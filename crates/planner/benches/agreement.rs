//! How far analysis and simulation of designs are apart.
//!
//!     cargo bench -p diskwright-planner --bench agreement
//!
//! Every drive that is sold and every volume at one size, at the planner's levels, with 3, 6 and 12
//! members (as far as a level can have so many), under 20, 50 and 80 % of what the design sustains, at 70 % and
//! 30 % reads of 8 KiB. When `cargo test` runs it, it tries few.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use diskwright_planner::analysis::StorageDesign;
use diskwright_planner::parts::{DesignPart, parts};
use diskwright_planner::prices::built_in;
use diskwright_planner::search::sustained;
use diskwright_planner::simulated::{ArrayCondition, simulate};
use diskwright_planner::{Demand, PlanLimits};
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::catalogue::DriveClass;

/// One design under one load: its class and utilization, deviations of mean, 95 % and 99 %.
struct DeviationRow {
    class: &'static str,
    load: f64,
    apart: [f64; 3],
    name: String,
}

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::typed(700.0, 300.0, 8192.0) };
    let limits = PlanLimits { max_volumes: 1, ..PlanLimits::usual(built_in(), "2026-11-23") };
    let all = parts(&demand, &limits).expect("parts");
    let mut rows = Vec::new();
    for part in all.iter().step_by(if tiny { 12 } else { 1 }) {
        for (level, count) in shapes(part) {
            for reads in [700.0, 300.0] {
                let demand = Demand { reads_per_s: reads, writes_per_s: 1000.0 - reads, ..demand.clone() };
                let design = StorageDesign { part, level, count, unit_bytes: 65_536 };
                rows.extend(loads(&design, &demand, if tiny { 1000 } else { 20_000 }));
            }
        }
    }
    for class in ["hdd", "ssd", "cloud"] {
        for load in [0.2, 0.5, 0.8] {
            table(
                &format!("{class} at {load:.1} of what it sustains"),
                rows.iter().filter(|r| r.class == class && r.load == load),
            );
        }
    }
    rows.sort_by(|a, b| b.apart[0].abs().total_cmp(&a.apart[0].abs()));
    for row in rows.iter().take(6) {
        println!("{}: {:+.1} %", row.name, row.apart[0] * 100.0);
    }
}

fn shapes(part: &DesignPart) -> Vec<(ArrayLevel, u16)> {
    if part.volume.is_some() {
        return vec![(ArrayLevel::Linear, 1)];
    }
    let levels = [ArrayLevel::Raid1, ArrayLevel::Raid10, ArrayLevel::Raid5, ArrayLevel::Raid6];
    let counts = [2, 3, 6, 12];
    let all = levels.into_iter().flat_map(|level| counts.map(|count| (level, count)));
    let sensible = |(level, count): &(ArrayLevel, u16)| match level {
        ArrayLevel::Raid1 => *count == 2,
        ArrayLevel::Raid10 => *count >= 6,
        _ => *count >= 3 && *count >= level.info().members_least,
    };
    all.filter(sensible).collect()
}

fn loads(design: &StorageDesign<'_>, demand: &Demand, requests: u32) -> Vec<DeviationRow> {
    let most = sustained(design, demand);
    let class = match design.part.class {
        DriveClass::Hdd => "hdd",
        DriveClass::Cloud => "cloud",
        _ => "ssd",
    };
    let at = |load: f64| {
        let demand = demand.scaled(most * load);
        let analysis = design.respond(&demand).ok()??;
        let percentiles = design.percentiles(&demand, &analysis)?;
        let found = simulate(design, &demand, ArrayCondition::Healthy, requests).ok()?.response_s?;
        let apart = [analysis.mean_s / found[0], percentiles[0] / found[1], percentiles[1] / found[2]].map(|r| r - 1.0);
        let name = format!(
            "{} of {} x {} at {load}, {:.0} % reads",
            design.level,
            design.count,
            design.part.name,
            demand.read_share() * 100.0
        );
        Some(DeviationRow { class, load, apart, name })
    };
    [0.2, 0.5, 0.8].into_iter().filter_map(at).collect()
}

fn table<'a>(title: &str, rows: impl Iterator<Item = &'a DeviationRow>) {
    let rows: Vec<&DeviationRow> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let n = rows.len() as f64;
    let mean = |at: usize| rows.iter().map(|row| row.apart[at].abs()).sum::<f64>() / n * 100.0;
    let within = rows.iter().filter(|row| row.apart[0].abs() <= 0.15).count();
    println!(
        "{title}: {} designs; mean response {:.1} % apart, {:.1} % within 15 %; 95 %: {:.1} %, 99 %: {:.1} %",
        rows.len(),
        mean(0),
        within as f64 / n * 100.0,
        mean(1),
        mean(2)
    );
}
