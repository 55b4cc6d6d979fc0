//! Regression tests for answers that contradicted themselves or lacked information.

use diskwright_planner::answer::{PricePeriod, SizedBy};
use diskwright_planner::demand::{CapacityGrowth, ResponseStatistic, ResponseTarget};
use diskwright_planner::prices::{built_in_prices, read_price_list};
use diskwright_planner::{Demand, PartFilter, PlanAnswer, PlanLimits, plan};
use diskwright_simulator::ArrayLevel;

fn limits() -> PlanLimits {
    PlanLimits { simulated_requests: 5000, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") }
}

fn only(filters: &[&str]) -> PlanLimits {
    let only = filters.iter().map(|text| PartFilter::parse(text).expect(text)).collect();
    PlanLimits { only, ..limits() }
}

fn within(ms: f64, demand: Demand) -> Demand {
    Demand { response: Some(ResponseTarget { target_s: ms / 1e3, statistic: ResponseStatistic::Mean }), ..demand }
}

fn answer(demand: &Demand, limits: &PlanLimits) -> PlanAnswer {
    plan(demand, limits).expect("an answer")
}

fn notes(found: &PlanAnswer) -> String {
    found.notes.join("\n")
}

#[test]
fn break_even_price_puts_the_named_design_first() {
    let demand = Demand { capacity_bytes: Some(36e9), ..Demand::from_rates(126.0, 73.0, 8192.0) };
    let found = answer(&within(20.0, demand), &limits());
    assert!(!found.break_even.is_empty(), "{found:?}");
    let drives = |design: &diskwright_planner::PlannedDesign| f64::from(design.count + design.spares);
    for turn in &found.break_even {
        let named =
            found.designs.iter().find(|d| turn.design.starts_with(&format!("{} of", d.level)) && d.part == turn.part);
        let at_that_price = turn.below * drives(named.expect("on the list"));
        for other in found.designs.iter().filter(|design| design.part == turn.part) {
            assert!(at_that_price <= turn.below * drives(other) * 1.000_001, "{} {}", turn.sentence, other.level);
        }
    }
}

#[test]
fn failing_design_is_cheaper_only_if_it_costs_less() {
    let demand = Demand { capacity_bytes: Some(36e9), ..Demand::from_rates(126.0, 73.0, 8192.0) };
    let found = answer(&within(20.0, demand.clone()), &limits());
    let first = found.designs[0].cost.expect("a price");
    assert!(found.rejected.iter().any(|r| r.cheaper == Some(true)), "{:?}", found.rejected);
    for rejected in &found.rejected {
        assert_eq!(rejected.cheaper, rejected.cost.map(|cost| cost < first), "{rejected:?}");
        let months = if rejected.price_period == PricePeriod::Month { 60.0 } else { 1.0 };
        assert_eq!(rejected.cost, rejected.price.map(|price| price * months), "{rejected:?}");
    }
    // nobody knows what the first costs: none is cheaper
    let drives = vec!["compaq-4gb".to_owned()];
    let found = answer(&within(80.0, demand), &PlanLimits { drives, ..limits() });
    assert!(found.designs[0].cost.is_none() && found.rejected.iter().all(|r| r.cheaper.is_none()), "{found:?}");
    assert!(found.designs[0].why.contains("no design that meets the demand has a known price"), "{found:?}");
}

#[test]
fn design_without_price_is_not_cheap() {
    // nobody knows what the controllers cost, nor the disks of 10,000 rpm: those of a known price go before them
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(126.0, 73.0, 8192.0) };
    let drives = ["huc156060css200", "hus726t6tale6l4"].map(str::to_owned).to_vec();
    let controllers = vec!["sas3-hba-8".to_owned()];
    let found = answer(&demand, &PlanLimits { drives, controllers, ..limits() });
    let unknown = |d: &diskwright_planner::PlannedDesign| d.bought.iter().filter(|item| item.price.is_none()).count();
    let counts: Vec<usize> = found.designs.iter().map(unknown).collect();
    assert!(counts.is_sorted() && counts.first() == Some(&1) && counts.last() == Some(&2), "{counts:?}");
}

#[test]
fn more_drives_than_an_array_can_have_are_no_reason_to_drop_a_level() {
    // a hundred disks or more for the load, where 500 may be bought and an array has 128 at most
    let demand = Demand { capacity_bytes: Some(1e14), ..Demand::from_rates(22_000.0, 0.0, 8192.0) };
    let levels = vec![ArrayLevel::Raid5];
    let found =
        answer(&demand, &PlanLimits { max_drives: 500, levels, drives: vec!["hus726t6tale6l4".into()], ..limits() });
    assert!(found.feasible && (70..=128).contains(&found.designs[0].count), "{found:?}");
    // whether the least number or one more: no response was asked for
    assert_eq!(found.designs[0].sized_by, SizedBy::Load, "{found:?}");
    assert!(!notes(&found).contains("not checked"), "{}", notes(&found));
    let more = Demand { capacity_bytes: Some(1e15), ..demand };
    let found = answer(&more, &PlanLimits { max_drives: 500, drives: vec!["hus726t6tale6l4".into()], ..limits() });
    assert!(!found.feasible && !notes(&found).contains("not checked"), "{found:?}");
    assert!(found.rejected.iter().any(|r| r.because.contains("128 of them hold")), "{:?}", found.rejected);
}

#[test]
fn spares_that_are_wanted_are_in_every_design() {
    let demand = Demand { capacity_bytes: Some(20e12), ..Demand::from_rates(2000.0, 800.0, 8192.0) };
    let found = answer(&demand, &PlanLimits { spares: vec![2], ..only(&["hdd", "ssd"]) });
    assert!(found.feasible, "{:?}", found.rejected);
    for design in &found.designs {
        assert_eq!((design.spares, design.count + design.spares <= 24), (2, true), "{design:?}");
    }
}

#[test]
fn mirrors_of_stripe_sets_are_recommended_in_pairs() {
    // 29 TB are on ten disks of 6 TB, and a quarter more are 12.5
    let demand = Demand { capacity_bytes: Some(29e12), ..Demand::from_rates(10.0, 5.0, 8192.0) };
    let drives = vec!["hus726t6tale6l4".to_owned()];
    let found = answer(&demand, &PlanLimits { levels: vec![ArrayLevel::Raid01], drives, ..limits() });
    let design = &found.designs[0];
    assert_eq!((design.sized_by, design.count, design.recommended_count), (SizedBy::Capacity, 10, 14), "{design:?}");
}

#[test]
fn overload_is_load_over_sustained_load() {
    let demand = Demand { capacity_bytes: Some(3e12), ..Demand::from_rates(600.0, 300.0, 8192.0) };
    let limits = PlanLimits { levels: vec![ArrayLevel::Raid10], max_drives: 5, ..only(&["hdd"]) };
    let found = answer(&demand, &limits);
    let nearest = &found.designs[0];
    assert!(!found.feasible && nearest.recommended_count == nearest.count, "{nearest:?}");
    let share = nearest.member_load_per_s / nearest.member_sustains_per_s;
    assert!((nearest.utilization[0].utilization / share - 1.0).abs() < 0.01, "{share} {nearest:?}");
    let because = &found.rejected[0].because;
    let percent = because.split("the demand is ").nth(1).and_then(|rest| rest.split(' ').next());
    let percent: f64 = percent.and_then(|text| text.parse().ok()).expect(because);
    assert!((percent - (share * 100.0).max(101.0)).abs() < 1.5, "{share} {because}");
}

#[test]
fn a_rebuild_under_load_takes_no_less_than_at_best() {
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(1.0, 0.0, 8192.0) };
    let found = answer(&demand, &only(&["hdd"]));
    for design in &found.designs {
        let (best, loaded) = (design.rebuild_s.expect("a disk"), design.rebuild_loaded_s.expect("was watched"));
        assert!(loaded >= best && loaded < 5.0 * best, "{best} {loaded}");
    }
}

#[test]
fn overloaded_degraded_design_is_overloaded_while_rebuilding() {
    // as many disks as just keep up: one less does not
    let demand = Demand { capacity_bytes: Some(40e12), ..Demand::from_rates(480.0, 240.0, 8192.0) };
    let limits = PlanLimits { drives: vec!["hus726t6tale6l4".into()], levels: vec![ArrayLevel::Raid5], ..limits() };
    let found = answer(&demand, &limits);
    let design = &found.designs[0];
    assert!(design.utilization[0].utilization > 0.9, "{design:?}");
    assert!(design.degraded_response_s.is_none() && design.rebuilding_response_s.is_none(), "{design:?}");
    assert!(notes(&found).contains("rank 1: it cannot keep up with the demand after a member"), "{}", notes(&found));
}

#[test]
fn sequential_requests_to_volumes_count_by_their_bytes() {
    // 1,000 of 64 KiB a second are 62.5 MiB/s; as random ones, they count as 1,000 MiB/s on st1
    let demand = Demand { capacity_bytes: Some(5e12), ..Demand::from_rates(1000.0, 0.0, 65_536.0) };
    let aws = PlanLimits { drives: vec!["aws-st1".into()], ..limits() };
    let stream = answer(&Demand { sequential_share: Some(1.0), ..demand.clone() }, &aws);
    let first = &stream.designs[0];
    assert!(stream.feasible && first.count == 1 && first.name.contains("4657 GiB"), "{first:?}");
    // 4,657 GiB have 182 MiB/s
    assert!((first.utilization[0].utilization - 62.5 / 181.9).abs() < 0.01, "{first:?}");
    assert!(first.simulated && first.agrees == Some(true), "{first:?}");
    let random = answer(&demand, &aws);
    assert!(random.designs[0].price > first.price, "{random:?}");
}

#[test]
fn the_part_that_limits_a_volume_is_named() {
    // what st1 charges for small random requests does not pass the instance
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(1500.0, 1000.0, 8192.0) };
    let capped =
        PlanLimits { drives: vec!["aws-st1".into()], instance: Some("m6i.large".into()), max_volumes: 1, ..limits() };
    let found = answer(&demand, &capped);
    assert!(!found.feasible && found.designs[0].limit.starts_with("aws-st1 "), "{found:?}");
    // the share is exact; the nearest is the fastest that there is: 500 MiB/s
    let share = found.designs[0].utilization[0].utilization;
    assert!((share - 2500.0 / 500.0).abs() < 1e-6 && found.designs[0].name.contains("500 MiB/s"), "{found:?}");
}

#[test]
fn notes_risk_wear_machines_and_growth() {
    // RAID 5 of a hundred large disks loses data with a chance of 83 % by the data sheet
    let demand = Demand { capacity_bytes: Some(2e15), ..Demand::from_rates(500.0, 100.0, 65_536.0) };
    let many = PlanLimits { max_drives: 200, levels: vec![ArrayLevel::Raid5], ..only(&["hdd"]) };
    let found = answer(&demand, &many);
    let loss = found.designs[0].loss.spec.expect("data sheets");
    assert!(loss > 0.8 && notes(&found).contains("rank 1: the chance of losing data in 5 years is 8"), "{found:?}");
    let limited = answer(&demand, &PlanLimits { max_loss: Some(1.0), ..many });
    assert!(!notes(&limited).contains("--max-loss"), "{}", notes(&limited));
    // 200,000 writes of 4 KiB a second on RAID 10 of 10 TB: 70.8 TB a day, twice
    let demand = Demand { capacity_bytes: Some(10e12), ..Demand::from_rates(0.0, 200_000.0, 4096.0) };
    let found = answer(&demand, &PlanLimits { levels: vec![ArrayLevel::Raid10], ..only(&["ssd"]) });
    let design = &found.designs[0];
    let times = 2.0 * 200_000.0 * 4096.0 * 86_400.0 / (design.usable_bytes * 2.0);
    let expected = format!("is written {} times a day", diskwright_base::units::format_significant(times));
    assert!(notes(&found).contains(&expected), "{expected}: {}", notes(&found));
    // the machine of a volume
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(100.0, 50.0, 8192.0) };
    let found = answer(&demand, &only(&["cloud:aws"]));
    assert!(notes(&found).contains("aws: the instance that uses the volume") && notes(&found).contains("--instance"));
    let named = answer(&demand, &PlanLimits { instance: Some("m6i.large".into()), ..only(&["cloud:aws"]) });
    assert!(!notes(&named).contains("the instance that uses the volume"), "{}", notes(&named));
    // growth without a horizon
    let growth = Some(CapacityGrowth { bytes_per_day: 1e9, interval_bytes_per_day: None });
    let found = answer(&Demand { growth, ..demand }, &only(&["ssd"]));
    assert!(notes(&found).contains("--horizon") && found.designs[0].full_after_days.is_some(), "{}", notes(&found));
    // a horizon without growth, as with a log of less than a day
    let unknown = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(100.0, 50.0, 8192.0) };
    let found = answer(&unknown, &PlanLimits { horizon_days: 365.0, ..only(&["ssd"]) });
    assert!(notes(&found).contains("the growth is unknown"), "{}", notes(&found));
}

#[test]
fn simulates_designs_that_only_the_analysis_rejects() {
    // the analysis takes the places of what is sequential as random
    let demand = Demand { sequential_share: Some(0.9), ..Demand::from_rates(300.0, 20.0, 65536.0) };
    // with a price, and of drives whose price nobody knows
    for (drive, ms) in [("st24000nm002h", 10.0), ("compaq-4gb", 20.0)] {
        let drives = vec![drive.to_owned()];
        let found = answer(&within(ms, demand.clone()), &PlanLimits { drives, ..limits() });
        let first = &found.designs[0];
        let (analysis, simulated) = (first.analysis_response_s.mean * 1e3, first.response_s.mean * 1e3);
        assert!(
            found.feasible && simulated <= ms && analysis > ms,
            "{analysis} ms, simulated {simulated} ms: {first:?}"
        );
        assert_eq!(first.agrees, Some(false), "{first:?}");
    }
    // what misses the limit in both is rejected by what the simulation says
    let drives = vec!["st24000nm002h".to_owned()];
    let found = answer(&within(3.0, Demand::from_rates(100.0, 0.0, 8192.0)), &PlanLimits { drives, ..limits() });
    assert!(!found.feasible && found.rejected.iter().any(|r| r.limit == "response"), "{:?}", found.rejected);
}

#[test]
fn nearest_design_may_be_refused_by_the_simulation_alone() {
    // the analysis accepts 24 disks at 29.3 ms; four, which hold the data, carry less than half of the load
    let demand = Demand { capacity_bytes: Some(4e12), ..Demand::from_rates(1051.01, 525.5, 8192.0) };
    let drives = vec!["hus726t6tale6l4".to_owned()];
    let limits = PlanLimits {
        drives,
        levels: vec![ArrayLevel::Raid10],
        ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23")
    };
    let found = answer(&within(30.0, demand), &limits);
    let nearest = &found.designs[0];
    assert!(!found.feasible && nearest.count == 24, "{nearest:?}");
    assert!(nearest.simulated && nearest.analysis_response_s.mean < 0.03, "{nearest:?}");
    assert!((0.03..0.031).contains(&nearest.response_s.mean), "{nearest:?}");
    let first = &found.rejected[0];
    assert!(first.limit == "response" && first.because.contains("simulated, its mean response is 30."), "{first:?}");
    // it is told once, and on no frontier as one that meets the demand
    assert_eq!(found.rejected.iter().filter(|other| other.design == first.design).count(), 1, "{:?}", found.rejected);
    assert!(!found.frontier.is_empty() && found.frontier.iter().all(|point| !point.meets), "{:?}", found.frontier);
}

#[test]
fn names_the_limit_that_sizes_a_design() {
    let demand = Demand { capacity_bytes: Some(4e12), ..Demand::from_rates(1800.0, 500.0, 8192.0) };
    let sized = |demand: &Demand| -> Vec<(SizedBy, String)> {
        let drives = vec!["hus726t6tale6l4".to_owned()];
        let levels = vec![ArrayLevel::Raid10, ArrayLevel::Raid5];
        let found = answer(demand, &PlanLimits { max_drives: 60, drives, levels, ..limits() });
        assert!(found.feasible && found.designs.len() == 2, "{found:?}");
        found.designs.into_iter().map(|design| (design.sized_by, design.why)).collect()
    };
    // without a limit of the response, and with one that is far away
    for demand in [demand.clone(), within(60_000.0, demand.clone())] {
        let sized = sized(&demand);
        assert!(
            sized.iter().all(|(by, why)| *by == SizedBy::Load && why.contains("fewer cannot keep up")),
            "{sized:?}"
        );
    }
    let sized = sized(&within(35.0, demand));
    assert!(
        sized.iter().all(|(by, why)| *by == SizedBy::Response && why.contains("by the response time")),
        "{sized:?}"
    );
}

#[test]
fn notes_old_rows_of_instances_and_controllers() {
    let rows = "[[instance]]\nid = \"old.large\"\nprovider = \"aws\"\nbaseline = { mb_s = 500, iops = 20000 }\n\
                date = \"2024-01-01\"\nsource = \"s\"\n\
                [[controller]]\nid = \"old\"\nname = \"o\"\ntakes = [\"hdd\"]\nchannels = 8\ndrives_per_channel = 1\n\
                channel_mb_s = 600\ndate = \"2026-01-01\"\nsource = \"s\"\n\
                price = { each = 90.0, currency = \"USD\", region = \"DE\", date = \"2024-02-02\", source = \"s\" }\n";
    let mut prices = built_in_prices();
    prices.extend(read_price_list("own.toml", rows).expect("good rows"));
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(100.0, 50.0, 8192.0) };
    let of =
        |limits: PlanLimits| notes(&answer(&demand, &PlanLimits { prices: prices.clone(), list_length: 1, ..limits }));
    let found = of(PlanLimits { instance: Some("old.large".into()), ..limits() });
    assert!(found.contains("the limits of old.large are older than a year (2024-01-01)"), "{found}");
    let found = of(PlanLimits { controllers: vec!["old".into()], max_controllers: 1, ..only(&["hdd"]) });
    assert!(found.contains("the price of old is older than a year (2024-02-02)"), "{found}");
}
