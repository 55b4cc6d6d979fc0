//! Complete answers of the planner.

use diskwright_planner::answer::SizedBy;
use diskwright_planner::demand::{CapacityGrowth, ResponseStatistic, ResponseTarget};
use diskwright_planner::prices::built_in_prices;
use diskwright_planner::{Demand, PartFilter, PlanAnswer, PlanError, PlanLimits, plan};
use diskwright_simulator::ArrayLevel;

fn limits() -> PlanLimits {
    PlanLimits { simulated_requests: 5000, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") }
}

fn within(ms: f64, demand: Demand) -> Demand {
    Demand { response: Some(ResponseTarget { target_s: ms / 1e3, statistic: ResponseStatistic::Mean }), ..demand }
}

fn answer(demand: &Demand, limits: &PlanLimits) -> PlanAnswer {
    plan(demand, limits).expect("an answer")
}

#[test]
fn doc_002_array_is_replaced_as_described() {
    let demand = Demand { capacity_bytes: Some(36e9), queue: Some(16.0), ..Demand::from_rates(126.0, 73.0, 8192.0) };
    let drives = ["compaq-4gb", "compaq-9gb"].map(str::to_owned).to_vec();
    let limits = PlanLimits { levels: vec![ArrayLevel::Raid5], drives, spares: vec![0], ..limits() };
    let found = answer(&within(80.0, demand), &limits);
    let large = found.designs.iter().find(|d| d.part == "compaq-9gb").expect("nine GB");
    assert_eq!((large.count, large.recommended_count, large.sized_by), (8, 10, SizedBy::Queue));
    let small = found.designs.iter().find(|d| d.part == "compaq-4gb").expect("four GB");
    assert_eq!((small.count, small.sized_by, small.simulated), (10, SizedBy::Capacity, true));
    let five = found.rejected.iter().find(|r| r.design == "raid5 of 5 x compaq-9gb").expect("five hold the data");
    assert!(five.limit == "queue per spindle" && five.because.contains("3.2"), "{five:?}");
    // nobody knows what they cost
    assert!(found.designs.iter().all(|d| d.price.is_none() && d.cost.is_none() && d.watts.is_none()));
}

#[test]
fn every_listed_design_is_simulated_and_ordered() {
    let demand = Demand { capacity_bytes: Some(4e12), ..Demand::from_rates(600.0, 200.0, 8192.0) };
    let found = answer(&within(20.0, demand), &limits());
    assert!(found.feasible && found.designs.len() == 5 && found.searched > 1000);
    let costs: Vec<f64> = found.designs.iter().map(|d| d.cost.unwrap_or(f64::INFINITY)).collect();
    assert!(costs.is_sorted(), "{costs:?}");
    for design in &found.designs {
        assert!(design.simulated && design.response_s.mean <= 0.02, "{design:?}");
        assert!(design.response_s.mean < design.response_s.p95 && design.response_s.p95 <= design.response_s.p99);
        assert!(design.headroom >= 1.0 && design.usable_bytes >= 4e12 && !design.why.is_empty());
        assert_eq!(design.agrees, design.deviation.map(|deviation| deviation.abs() <= 0.15));
        assert_eq!(design.limit, design.utilization[0].part);
    }
    // other media than the cheapest are there too
    assert!(found.designs.iter().any(|d| d.part.starts_with("aws") || d.part.starts_with("gcp")));
    assert!(found.designs.iter().any(|d| d.rebuild_s.is_some() && d.loss.spec.is_some() && d.loss.drawn.is_some()));
    // the frontier falls as it gets dearer
    let frontier: Vec<(f64, f64)> = found.frontier.iter().map(|point| (point.cost, point.response_s)).collect();
    assert!(frontier.len() > 1 && frontier.is_sorted_by(|a, b| a.0 <= b.0 && a.1 > b.1), "{frontier:?}");
}

#[test]
fn lists_cheaper_failing_designs_and_break_even_prices() {
    let demand = Demand { capacity_bytes: Some(60e12), ..Demand::from_rates(1800.0, 500.0, 8192.0) };
    let limits = PlanLimits { only: vec![PartFilter::Hdd, PartFilter::Ssd], max_drives: 60, ..limits() };
    let found = answer(&within(30.0, demand), &limits);
    let first = &found.designs[0];
    assert_eq!(
        (first.sized_by, limits.prices.find_group(&first.part).map(|g| g.id.as_str())),
        (SizedBy::Response, Some("nearline"))
    );
    // smaller kinds do not hold the data; of the first's kind and level, fewer do, and do not carry the load
    let cheaper = found.rejected.iter().filter(|r| r.price.is_some_and(|p| p < first.price.expect("a price")));
    let group = |part: &str| limits.prices.find_group(part).map(|group| group.id.clone());
    let is_alike = |design: &str| {
        let part = design.split(" x ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        design.starts_with(&format!("{} of ", first.level)) && group(part) == group(&first.part)
    };
    let fewer: Vec<_> = cheaper.filter(|r| is_alike(&r.design)).collect();
    assert!(!fewer.is_empty(), "{:?}", found.rejected);
    assert!(fewer.iter().all(|why| why.limit == "response" || why.limit == "members"), "{fewer:?}");
    // flash would be first below this price of a drive: then it costs what the first costs
    let turn = found.break_even.iter().find(|turn| turn.now.is_some()).expect("flash has a price");
    assert!(turn.below < turn.now.expect("a price") && turn.sentence.contains("would rank first below"));
    let design = found.designs.iter().find(|d| d.part == turn.part).expect("on the list");
    let total = turn.below * f64::from(design.count + design.spares);
    assert!((total / first.cost.expect("a price") - 1.0).abs() < 1e-9);
}

#[test]
fn unmet_demand_gets_the_nearest_design_and_its_limit() {
    let demand = Demand { capacity_bytes: Some(500e9), ..Demand::from_rates(3000.0, 1000.0, 16384.0) };
    let aws = vec![PartFilter::Provider("aws".into())];
    let capped = PlanLimits { only: aws, instance: Some("m6i.large".into()), ..limits() };
    let found = answer(&within(3.0, demand.clone()), &capped);
    assert!(!found.feasible && found.designs.len() == 1);
    assert_eq!(found.rejected[0].limit, "instance m6i.large IOPS");
    // 4,000 where 3,600 are allowed
    let design = &found.designs[0];
    assert!((design.headroom - 0.9).abs() < 0.05 && design.sustains_any_load(), "{}", design.headroom);
    assert!(design.why.contains("it sustains 0.8") && design.why.contains("instance m6i.large IOPS"), "{}", design.why);
    // too little room in what may be bought
    let small = PlanLimits { max_drives: 2, only: vec![PartFilter::Hdd], ..limits() };
    let found = answer(&Demand { capacity_bytes: Some(1e15), ..Demand::from_rates(10.0, 0.0, 4096.0) }, &small);
    assert_eq!((found.feasible, found.rejected[0].limit.as_str()), (false, "capacity"));
    // no arm is that quick
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], ..limits() };
    let found = answer(&within(1.0, demand), &hdd);
    assert_eq!((found.feasible, found.rejected[0].limit.as_str()), (false, "response"));
    // so its headroom is none, for that reason
    let design = &found.designs[0];
    assert_eq!((design.sustains_any_load(), design.format_headroom().as_str()), (false, "none: response"));
    assert!(design.why.contains("too short even for single requests"), "{}", design.why);
}

#[test]
fn same_demand_gives_the_same_answer() {
    let demand = within(20.0, Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(300.0, 100.0, 8192.0) });
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], list_length: 2, ..limits() };
    assert_eq!(format!("{:?}", answer(&demand, &hdd)), format!("{:?}", answer(&demand, &hdd)));
}

#[test]
fn capacity_lasts_until_the_horizon() {
    let growth = Some(CapacityGrowth { bytes_per_day: 100e9, interval_bytes_per_day: None });
    let demand = Demand { capacity_bytes: Some(10e12), growth, ..Demand::from_rates(50.0, 10.0, 8192.0) };
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], list_length: 1, ..limits() };
    let (now, later) = (answer(&demand, &hdd), answer(&demand, &PlanLimits { horizon_days: 365.0, ..hdd }));
    assert!(later.designs[0].usable_bytes >= 46.5e12 && now.designs[0].usable_bytes < 46.5e12);
    let days = later.designs[0].full_after_days.expect("it grows");
    assert!((days - (later.designs[0].usable_bytes - 10e12) / 100e9).abs() < 1e-6 && days >= 365.0);
}

#[test]
fn rejects_unknown_names_and_impossible_limits() {
    let demand = Demand::from_rates(100.0, 0.0, 4096.0);
    let refused = |limits: PlanLimits| plan(&demand, &limits).expect_err("refused");
    let near = |error| match error {
        PlanError::Unknown { near, .. } => near,
        other => panic!("{other}"),
    };
    let drives = vec!["st24000nm002g".to_owned()];
    assert_eq!(near(refused(PlanLimits { drives, ..limits() })).as_deref(), Some("st24000nm002h"));
    let instance = Some("m6i.larg".to_owned());
    assert_eq!(near(refused(PlanLimits { instance, ..limits() })).as_deref(), Some("m6i.large"));
    let only = vec![PartFilter::Provider("awz".into())];
    assert_eq!(near(refused(PlanLimits { only, ..limits() })).as_deref(), Some("aws"));
    let contradictions = [
        PlanLimits { instance: Some("m6i.large".into()), only: vec![PartFilter::Hdd], ..limits() },
        PlanLimits { instance: Some("m6i.large".into()), only: vec![PartFilter::Provider("gcp".into())], ..limits() },
        PlanLimits { currency: "XYZ".into(), ..limits() },
        PlanLimits { max_drives: 2, levels: vec![ArrayLevel::Raid6], ..limits() },
    ];
    for limits in contradictions {
        assert!(matches!(refused(limits), PlanError::Contradiction(_)));
    }
}

#[test]
fn names_the_limit_of_the_headroom() {
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], list_length: 1, ..limits() };
    let demand = Demand { capacity_bytes: Some(4e12), ..Demand::from_rates(60.0, 20.0, 8192.0) };
    // the response limit, long before anything saturates
    let design = answer(&within(14.0, demand.clone()), &hdd).designs.remove(0);
    assert_eq!((design.headroom_limit.as_deref(), design.limit.as_str()), (Some("response"), "members"));
    assert!(design.saturates_at > 1.5 * design.headroom, "{} {}", design.saturates_at, design.headroom);
    let words = "limited by the response time (saturates first: members, at ";
    assert!(design.why.contains(words), "{}", design.why);
    // without one, the part
    let design = answer(&demand, &hdd).designs.remove(0);
    assert_eq!(design.headroom_limit.as_deref(), Some("members"));
    assert!((design.headroom / design.saturates_at - 1.0).abs() < 0.01 && design.why.ends_with("limited by members"));
    // a bucket, with a response limit that is longer than its latency
    let aws = PlanLimits { only: vec![PartFilter::Provider("aws".into())], list_length: 1, ..limits() };
    let design = answer(&within(2000.0, demand), &aws).designs.remove(0);
    assert_eq!(design.headroom_limit.as_deref(), Some(design.limit.as_str()), "{design:?}");
    assert!(design.limit.contains("IOPS") || design.limit.contains("throughput"), "{}", design.limit);
}

#[test]
fn arms_are_not_named_where_their_channel_saturates_first() {
    let drives = vec!["st24000nm002h".to_owned()];
    let levels = vec![ArrayLevel::Raid0];
    let (controllers, list) = (vec!["fast-wide-scsi".to_owned()], 1);
    let limits = PlanLimits { drives, levels, controllers, list_length: list, max_controllers: 1, ..limits() };
    // large requests fill the channel while arms seem as busy
    for (bytes, limit) in [(8192.0, "members"), (1_048_576.0, "channels of fast-wide-scsi")] {
        let demand = Demand { capacity_bytes: Some(90e12), ..Demand::from_rates(5.0, 0.0, bytes) };
        let design = answer(&demand, &limits).designs.remove(0);
        assert_eq!(design.headroom_limit.as_deref(), Some(limit), "{bytes}: {design:?}");
    }
}

#[test]
fn says_which_requirement_to_relax() {
    let demand = Demand { capacity_bytes: Some(10e12), ..Demand::from_rates(200.0, 50.0, 8192.0) };
    let of = |statistic, ms: f64| Demand {
        response: Some(ResponseTarget { target_s: ms / 1e3, statistic }),
        ..demand.clone()
    };
    let drives = vec!["st24000nm002h".to_owned()];
    let limits = PlanLimits { drives, levels: vec![ArrayLevel::Raid10], stripe_units: vec![65536], ..limits() };
    let found = answer(&of(ResponseStatistic::P95, 2.0), &limits);
    assert!(!found.feasible);
    let first = &found.relax[0];
    let needed = first.needed.expect("a time");
    assert!(first.requirement == "response" && needed > 0.002 && first.designs > 0, "{first:?}");
    assert!(first.sentence.starts_with("p95 response of 2 ms: with "), "{first:?}");
    // what it names is enough, and not much less is
    assert!(answer(&of(ResponseStatistic::P95, needed * 1e3), &limits).feasible);
    assert!(!answer(&of(ResponseStatistic::P95, needed * 1e3 / 1.25), &limits).feasible);
    // no other requirement alone makes an arm as quick; flash is, if other drives are allowed
    let names: Vec<&str> = found.relax.iter().map(|relaxation| relaxation.requirement).collect();
    assert_eq!(names, ["response", "drives"], "{:?}", found.relax);
    // met demands need no relaxation
    assert!(answer(&of(ResponseStatistic::Mean, 40.0), &limits).relax.is_empty());
}

#[test]
fn size_price_loss_and_level_are_relaxed_one_at_a_time() {
    let demand = Demand { capacity_bytes: Some(100e12), ..Demand::from_rates(50.0, 10.0, 8192.0) };
    let drives = vec!["st24000nm002h".to_owned()];
    let base = PlanLimits { drives, levels: vec![ArrayLevel::Raid10], spares: vec![0], ..limits() };
    let relax = |limits: PlanLimits| {
        let found = answer(&demand, &limits);
        assert!(!found.feasible);
        found.relax.into_iter().map(|relaxation| (relaxation.requirement, relaxation)).collect::<Vec<_>>()
    };
    let find = |all: &[(&str, _)], name: &str| -> diskwright_planner::answer::Relaxation {
        all.iter()
            .find(|(requirement, _)| *requirement == name)
            .map(|(_, relaxation)| relaxation)
            .cloned()
            .expect("one")
    };
    // eight drives of 24 TB hold 96 TB in pairs
    let small = relax(PlanLimits { max_drives: 8, ..base.clone() });
    let capacity = find(&small, "capacity").needed.expect("bytes");
    assert!((94e12..=96e12).contains(&capacity), "{capacity}");
    assert_eq!(find(&small, "max_drives").needed, Some(10.0));
    let level = find(&small, "levels");
    assert_eq!(level.option.as_deref(), Some("--levels raid10,raid5"), "{level:?}");
    assert_eq!(small[0].0, "capacity", "the smallest change is first");
    // its price
    let dear = relax(PlanLimits { budget: Some(100.0), ..base.clone() });
    let budget = find(&dear, "budget");
    let cost = budget.cost.expect("a price");
    assert!(budget.needed.is_some_and(|needed| needed >= cost && needed <= 1.05 * cost), "{budget:?}");
    // its chance of loss
    let safe = relax(PlanLimits { max_loss: Some(1e-9), ..base });
    let loss = find(&safe, "loss").needed.expect("a chance");
    assert!(loss > 1e-9 && loss < 0.1, "{loss}");
}

/// A response that no arm has, and a budget that buys no drive: neither alone is enough.
#[test]
fn two_requirements_that_exclude_every_design_are_relaxed_together() {
    let response = Some(ResponseTarget { target_s: 0.002, statistic: ResponseStatistic::P95 });
    let demand = Demand { capacity_bytes: Some(10e12), response, ..Demand::from_rates(200.0, 50.0, 8192.0) };
    let drives = vec!["st24000nm002h".to_owned()];
    let limits = PlanLimits { drives, levels: vec![ArrayLevel::Raid10], stripe_units: vec![65536], ..limits() };
    let limits = PlanLimits { budget: Some(100.0), ..limits };
    let found = answer(&demand, &limits);
    assert!(!found.feasible);
    let pair = found.relax.first().expect("a pair");
    let also = pair.also.as_ref().expect("the second");
    let mut names = [pair.requirement, also.requirement];
    names.sort_unstable();
    assert_eq!(names, ["budget", "response"], "{:?}", found.relax);
    let value = |name: &str| if pair.requirement == name { pair.needed.expect("a value") } else { also.needed };
    // what it names is enough, and neither half of it is
    let relaxed = |response_s: f64, budget: f64| {
        let response = Some(ResponseTarget { target_s: response_s, statistic: ResponseStatistic::P95 });
        let limits = PlanLimits { budget: Some(budget), ..limits.clone() };
        answer(&Demand { response, ..demand.clone() }, &limits).feasible
    };
    assert!(relaxed(value("response"), value("budget")), "{pair:?}");
    assert!(!relaxed(value("response"), 100.0) && !relaxed(0.002, value("budget")), "{pair:?}");
    assert!(pair.sentence.contains(", and ") && pair.designs > 0, "{pair:?}");
}
