//! Designs that the search finds and refuses.

use diskwright_planner::answer::SizedBy;
use diskwright_planner::controller_path::find_controllers;
use diskwright_planner::demand::{ResponseStatistic, ResponseTarget};
use diskwright_planner::design_part::list_parts;
use diskwright_planner::prices::built_in_prices;
use diskwright_planner::search::{JudgedDesign, SearchOutcome, search_designs};
use diskwright_planner::{Demand, PartFilter, PlanLimits};
use diskwright_simulator::ArrayLevel;

fn limits() -> PlanLimits {
    PlanLimits::with_defaults(built_in_prices(), "2026-11-23")
}

fn within(ms: f64, demand: Demand) -> Demand {
    Demand { response: Some(ResponseTarget { target_s: ms / 1e3, statistic: ResponseStatistic::Mean }), ..demand }
}

fn found(demand: &Demand, limits: &PlanLimits) -> SearchOutcome {
    let offers = find_controllers(limits).expect("controllers");
    search_designs(demand, limits, &list_parts(demand, limits).expect("parts"), &offers)
}

fn least(outcome: &SearchOutcome) -> Option<&JudgedDesign> {
    outcome.feasible.iter().filter(|d| d.spares == 0).min_by_key(|d| d.count)
}

#[test]
fn doc_002s_example_is_found_and_five_large_disks_are_not() {
    let demand = Demand { capacity_bytes: Some(34e9), queue: Some(16.0), ..Demand::from_rates(126.0, 73.0, 8192.0) };
    let mut limits = PlanLimits { levels: vec![ArrayLevel::Raid5], ..limits() };
    limits.drives = vec!["compaq-9gb".into()];
    let outcome = found(&within(60.0, demand.clone()), &limits);
    // eight disks for 16 in flight, though five hold the data
    assert_eq!(least(&outcome).map(|d| (d.count, d.sized_by)), Some((8, SizedBy::Queue)));
    let fails = outcome.failing.iter().find(|d| d.count == 5).expect("five of 9 GB");
    let failure = fails.failure.as_ref().expect("a reason");
    assert_eq!(failure.limit, "queue per spindle");
    assert!(
        failure.reason.contains("3.2 requests are in flight") && (failure.factor - 1.6).abs() < 1e-9,
        "{failure:?}"
    );
    // ten of 4 GB for 36 GB, by room
    limits.drives = vec!["compaq-4gb".into()];
    let outcome = found(&within(60.0, Demand { capacity_bytes: Some(36e9), ..demand }), &limits);
    assert_eq!(least(&outcome).map(|d| (d.count, d.sized_by)), Some((10, SizedBy::Capacity)));
}

#[test]
fn finds_the_minimum_number_of_members() {
    let demand = Demand { capacity_bytes: Some(4e12), ..Demand::from_rates(900.0, 300.0, 8192.0) };
    for (level, ms) in [(ArrayLevel::Raid10, 15.0), (ArrayLevel::Raid5, 22.0), (ArrayLevel::Raid6, 30.0)] {
        let demand = within(ms, demand.clone());
        let limits =
            PlanLimits { levels: vec![level], drives: vec!["st18000nm000j".into()], max_drives: 60, ..limits() };
        let all = list_parts(&demand, &limits).expect("parts");
        let outcome = search_designs(&demand, &limits, &all, &[]);
        let best = least(&outcome).expect("one that will do");
        let meets = |count: u16| {
            let design = diskwright_planner::analysis::StorageDesign {
                part: &all[0],
                level,
                count,
                unit_bytes: best.unit_bytes,
                path: None,
            };
            matches!(design.predict_response(&demand), Ok(Some(found)) if found.mean_s <= ms / 1e3)
        };
        // halving found what trying each one finds
        let first = (level.info().min_members.max(2)..=60).find(|count| meets(*count));
        assert_eq!(Some(best.count), first, "{level}");
        assert!((best.count..=60).all(meets), "{level}: more are not slower");
        assert!(best.count > 8 && best.sized_by == SizedBy::Response, "{best:?}");
    }
}

#[test]
fn volumes_are_bought_as_large_as_needed_and_the_instance_limits_them() {
    let demand = within(3.0, Demand { capacity_bytes: Some(500e9), ..Demand::from_rates(3000.0, 1000.0, 16384.0) });
    let aws = PlanLimits { only: vec![PartFilter::Provider("aws".into())], ..limits() };
    let outcome = found(&demand, &aws);
    let best = outcome.feasible.iter().min_by(|a, b| a.cost.partial_cmp(&b.cost).expect("prices")).expect("one");
    let all = list_parts(&demand, &aws).expect("parts");
    assert_eq!(all[best.part_index].id, "aws-gp3");
    // two volumes bring 3,000 operations each, so that nothing is paid but the room: 2 x 233 GiB
    assert_eq!((best.count, (best.price.expect("a price") * 100.0).round()), (2, 3728.0));
    // m6i.large has 3,600 for ever: no volume helps
    let small = PlanLimits { instance: Some("m6i.large".into()), ..aws.clone() };
    let outcome = found(&demand, &small);
    assert!(outcome.feasible.is_empty());
    let limits: Vec<&str> = outcome.failing.iter().map(|d| d.failure.as_ref().expect("why").limit.as_str()).collect();
    assert!(limits.contains(&"instance m6i.large IOPS"), "{limits:?}");
    assert!(!found(&demand, &PlanLimits { instance: Some("m6i.xlarge".into()), ..aws }).feasible.is_empty());
}

#[test]
fn respects_budget_and_loss_limits() {
    let demand = within(15.0, Demand { capacity_bytes: Some(5e12), ..Demand::from_rates(300.0, 100.0, 8192.0) });
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], ..limits() };
    let all = found(&demand, &hdd);
    let cheapest = all.feasible.iter().filter_map(|d| d.cost).fold(f64::INFINITY, f64::min);
    let poor = found(&demand, &PlanLimits { budget: Some(cheapest * 0.9), ..hdd.clone() });
    assert!(poor.feasible.is_empty());
    assert!(poor.failing.iter().any(|d| d.failure.as_ref().is_some_and(|f| f.limit == "budget")));
    // no price is not a price of nothing
    assert!(poor.failing.iter().any(|d| d.failure.as_ref().is_some_and(|f| f.limit == "price")));
    let safe = found(&demand, &PlanLimits { max_loss: Some(1e-4), ..hdd });
    assert!(!safe.feasible.is_empty() && safe.feasible.len() < all.feasible.len());
    assert!(safe.feasible.iter().all(|d| d.level != ArrayLevel::Raid5), "RAID 5 of large disks loses data too often");
}
