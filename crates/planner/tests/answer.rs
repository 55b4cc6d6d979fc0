//! Whole answers.

use diskwright_planner::demand::{ResponseStatistic, ResponseTarget};
use diskwright_planner::prices::built_in;
use diskwright_planner::{Demand, PlanLimits, plan};

fn limits() -> PlanLimits {
    PlanLimits { simulated_requests: 4000, ..PlanLimits::usual(built_in(), "2026-11-23") }
}

#[test]
fn a_typed_demand_is_answered() {
    let target = Some(ResponseTarget { target_s: 0.02, of: ResponseStatistic::Mean });
    let demand = Demand { capacity_bytes: Some(2e12), response: target, ..Demand::typed(600.0, 200.0, 8192.0) };
    let answer = plan(&demand, &limits()).expect("an answer");
    eprintln!("{answer:#?}");
    assert!(answer.feasible);
}
