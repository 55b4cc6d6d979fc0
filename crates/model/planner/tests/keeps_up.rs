//! Designs that keep up in the simulation: a long queue may be stable, a growing one is not.

use diskwright_planner::analysis::StorageDesign;
use diskwright_planner::design_part::list_parts;
use diskwright_planner::prices::built_in_prices;
use diskwright_planner::search::sustainable_factor;
use diskwright_planner::simulation::{ArrayCondition, SimulatedResponse, simulate_design};
use diskwright_planner::{Demand, PlanLimits};
use diskwright_simulator::ArrayLevel;

/// An array of large disks at a share of the load that it sustains by analysis.
fn loaded(share: f64, (level, count): (ArrayLevel, u16), requests: u32) -> SimulatedResponse {
    let demand = Demand::from_rates(700.0, 300.0, 8192.0);
    let limits = PlanLimits {
        drives: vec!["st18000nm000j".into()],
        ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23")
    };
    let part = list_parts(&demand, &limits).expect("a drive").remove(0);
    let design = StorageDesign { part: &part, level, count, unit_bytes: 65_536, path: None };
    let demand = demand.scaled_by(share * sustainable_factor(&design, &demand));
    simulate_design(&design, &demand, ArrayCondition::Healthy, requests).expect("simulated")
}

const ARRAYS: [(ArrayLevel, u16); 3] = [(ArrayLevel::Raid1, 2), (ArrayLevel::Raid10, 8), (ArrayLevel::Raid5, 6)];

#[test]
fn a_long_queue_that_does_not_grow_keeps_up() {
    let mut full = 0;
    for array in ARRAYS {
        for share in [0.85, 0.9] {
            let [short, long] = [5_000, 20_000].map(|requests| loaded(share, array, requests));
            full += u32::from(short.busiest_share >= 0.999);
            let means = [short, long].map(|found| found.response_s.map_or(f64::NAN, |response| response[0]));
            // NaN is no agreement: both keep up
            assert!((means[0] / means[1] - 1.0).abs() < 0.1, "{array:?} at {share}: {short:?} {long:?}");
        }
    }
    assert!(full > 0, "none of them is always busy");
}

#[test]
fn a_queue_that_grows_does_not_keep_up() {
    for array in ARRAYS {
        for (share, requests) in [(1.3, 5_000), (1.3, 20_000), (2.0, 5_000), (2.0, 20_000)] {
            let found = loaded(share, array, requests);
            assert_eq!(found.response_s, None, "{array:?} at {share}, {requests} requests: {found:?}");
            assert!(found.busiest_share >= 0.999, "{found:?}");
        }
    }
}
