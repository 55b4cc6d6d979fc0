//! Controllers, channels and caches in front of drives; existing drives; the horizon; figures in plain arithmetic.

use diskwright_planner::analysis::StorageDesign;
use diskwright_planner::controller_path::{ControllerOffer, DesignPath, find_controllers};
use diskwright_planner::demand::{CapacityGrowth, ResponseStatistic, ResponseTarget};
use diskwright_planner::design_part::list_parts;
use diskwright_planner::limits::ExistingDrives;
use diskwright_planner::prices::{built_in_prices, read_price_list};
use diskwright_planner::search::sustainable_factor;
use diskwright_planner::simulation::{ArrayCondition, simulate_design};
use diskwright_planner::{Demand, PartFilter, PlanError, PlanLimits, plan};
use diskwright_simulator::ArrayLevel;

fn limits() -> PlanLimits {
    PlanLimits { simulated_requests: 5000, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-23") }
}

fn within(ms: f64, demand: Demand) -> Demand {
    Demand { response: Some(ResponseTarget { target_s: ms / 1e3, statistic: ResponseStatistic::Mean }), ..demand }
}

fn offer(id: &str) -> ControllerOffer {
    find_controllers(&PlanLimits { controllers: vec![id.into()], ..limits() }).expect("a controller").remove(0)
}

/// The part that large reads saturate first, and its utilization at half of the sustained load.
fn first_to_saturate(id: &str, boards: u16, drives: u16) -> (String, f64) {
    let demand = Demand::from_rates(100.0, 0.0, 1_048_576.0);
    let limits = PlanLimits { drives: vec!["st32171w".into()], ..limits() };
    let part = list_parts(&demand, &limits).expect("a drive").remove(0);
    let offer = offer(id);
    let path = Some(DesignPath { offer: &offer, controllers: boards, write_back: false });
    let design = StorageDesign { part: &part, level: ArrayLevel::Raid0, count: drives, unit_bytes: 2 << 20, path };
    let max_factor = sustainable_factor(&design, &demand);
    let response = design.predict_response(&demand.scaled_by(0.5 * max_factor)).expect("solved").expect("it keeps up");
    (response.utilization[0].0.clone(), max_factor * demand.bytes_per_s() / 1e6)
}

#[test]
fn names_saturated_channels_and_bus_of_doc_001() {
    // W9 and W10: drives fill a channel of 40 MB/s, three such controllers fit on PCI's 133 MB/s, a fourth does not
    let (name, rate) = first_to_saturate("ultra-wide-scsi", 1, 2);
    assert!(name == "members" && rate < 40.0, "{name} {rate}");
    for (boards, name, max_rate) in [
        (1, "channels of ultra-wide-scsi", 40.0),
        (2, "channels of ultra-wide-scsi", 80.0),
        (3, "channels of ultra-wide-scsi", 120.0),
        (4, "PCI bus", 133.0),
    ] {
        let (found, rate) = first_to_saturate("ultra-wide-scsi", boards, 14 * boards);
        assert!(found == name && (rate / max_rate - 1.0).abs() < 0.02, "{boards}: {found} at {rate} MB/s");
    }
    // W12: 14 drives of 2 GB or 4 GB on an adapter are 28 or 56 GB
    let drives = f64::from(offer("ultra-wide-scsi").drive_capacity(1));
    assert_eq!((drives * 2.0, drives * 4.0), (28.0, 56.0));
    // and at half of the rate four drives of 5 MB/s are enough (W9)
    assert_eq!(offer("fast-wide-scsi").channel_mb_s / 5.0, 4.0);
}

#[test]
fn sequential_requests_need_fewer_disks() {
    let demand = Demand { sequential_share: Some(0.9), ..Demand::from_rates(30.0, 0.0, 65_536.0) };
    let random = Demand { sequential_share: None, ..demand.clone() };
    let limits = PlanLimits { drives: vec!["st24000nm002h".into()], ..limits() };
    let part = list_parts(&demand, &limits).expect("a drive").remove(0);
    let mut report = Vec::new();
    for (level, count, reads, share) in [
        (ArrayLevel::Raid0, 1, 1.0, 0.5),
        (ArrayLevel::Raid0, 1, 1.0, 0.9),
        (ArrayLevel::Raid0, 4, 1.0, 0.7),
        (ArrayLevel::Raid0, 4, 0.7, 0.7),
        (ArrayLevel::Raid5, 6, 0.9, 0.8),
        (ArrayLevel::Raid5, 4, 0.6, 0.5),
        (ArrayLevel::Raid10, 4, 0.7, 0.8),
    ] {
        let design = StorageDesign { part: &part, level, count, unit_bytes: 65_536, path: None };
        let mixed = |sequential_share| Demand {
            sequential_share,
            ..Demand::from_rates(30.0 * reads, 30.0 * (1.0 - reads), 16_384.0)
        };
        let (demand, random) = (mixed(Some(share)), mixed(None));
        let max_factor = sustainable_factor(&design, &demand);
        let more = max_factor / sustainable_factor(&design, &random);
        let demand = demand.scaled_by(0.5 * max_factor);
        let analysis = design.predict_response(&demand).expect("solved").expect("it keeps up");
        let found = simulate_design(&design, &demand, ArrayCondition::Healthy, 10_000).expect("simulated");
        let mean = found.response_s.expect("what the analysis sustains half of keeps up")[0];
        report.push(format!(
            "{level} of {count}, {reads} reads, {share}: {:+.3}, {more:.2}x",
            analysis.mean_s / mean - 1.0
        ));
        // with what the drive reads ahead it is quicker still, but never as slow as if all were random
        assert!(analysis.mean_s > 0.85 * mean && more > 0.99, "{report:?}");
    }
    let single = StorageDesign { part: &part, level: ArrayLevel::Raid0, count: 1, unit_bytes: 65_536, path: None };
    assert!(sustainable_factor(&single, &demand) > 2.0 * sustainable_factor(&single, &random), "{report:?}");
}

#[test]
fn channels_links_and_caches_as_simulated() {
    let demand = Demand::from_rates(300.0, 100.0, 65_536.0);
    let limits =
        PlanLimits { drives: ["st32171w", "samsung-pm1643-3840", "st4000nm0023"].map(String::from).into(), ..limits() };
    // behind the cache a disk that is much larger: what the cache answers of reads is in no analysis
    let all = list_parts(&demand, &limits).expect("drives");
    let (scsi, sas, raid) = (offer("ultra-wide-scsi"), offer("sas3-expander-24"), offer("sas3-raid-8"));
    let cases = [
        (0, &scsi, 1, false, ArrayLevel::Raid10, 12),
        (0, &scsi, 2, false, ArrayLevel::Raid10, 24),
        (0, &scsi, 2, false, ArrayLevel::Raid5, 15),
        (1, &sas, 1, false, ArrayLevel::Raid10, 6),
        (2, &raid, 1, true, ArrayLevel::Raid10, 8),
        (2, &raid, 1, true, ArrayLevel::Raid5, 6),
    ];
    for (part, offer, boards, write_back, level, count) in cases {
        let path = Some(DesignPath { offer, controllers: boards, write_back });
        let design = StorageDesign { part: &all[part], level, count, unit_bytes: 65_536, path };
        let demand = demand.scaled_by(0.5 * sustainable_factor(&design, &demand));
        let analysis = design.predict_response(&demand).expect("solved").expect("it keeps up");
        let found = simulate_design(&design, &demand, ArrayCondition::Healthy, 100_000).expect("simulated");
        let mean = found.response_s.expect("it keeps up")[0];
        let apart = analysis.mean_s / mean - 1.0;
        assert!(apart.abs() < 0.12, "{level} of {count} on {boards} x {}: {apart:+.3}", offer.id);
        // writes that a cache takes are answered in the time of its link
        if write_back {
            let without =
                StorageDesign { path: Some(DesignPath { offer, controllers: 1, write_back: false }), ..design };
            let without = without.predict_response(&demand).expect("solved").expect("it keeps up");
            assert!(analysis.read_write_s[1] < 1e-4 && without.read_write_s[1] > 5e-3, "{analysis:?} {without:?}");
        }
    }
}

#[test]
fn controllers_are_in_the_search_and_unknown_prices_stay_unknown() {
    let demand = within(20.0, Demand { capacity_bytes: Some(40e12), ..Demand::from_rates(400.0, 200.0, 8192.0) });
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], ..limits() };
    let limits = PlanLimits { controllers: vec!["sas3-hba-8".into(), "sas3-raid-8".into()], ..hdd.clone() };
    let found = plan(&demand, &limits).expect("an answer");
    assert!(found.feasible);
    for design in &found.designs {
        let controller = design.controller.as_ref().expect("each is on controllers");
        assert!(controller.channels * controller.drives_per_channel >= design.count + design.spares);
        assert!(design.price.is_none() && design.cost.is_none(), "nobody knows what the controller costs");
        assert!(design.bought.iter().any(|item| item.item == controller.id && item.price.is_none()));
        assert!(design.agrees == Some(true), "{design:?}");
    }
    // with a price for it the price is that of drives and controllers
    let own = "[[controller]]\nid = \"own\"\nname = \"an adapter\"\ntakes = [\"hdd\"]\nchannels = 2\n\
               drives_per_channel = 8\nchannel_mb_s = 600\nwatts = 10.5\ndate = \"2026-11-01\"\nsource = \"an offer\"\n\
               price = { each = 300.0, currency = \"USD\", region = \"DE\", date = \"2026-11-01\", \
               source = \"an offer\" }";
    let mut prices = built_in_prices();
    prices.extend(read_price_list("own.toml", own).expect("a price list"));
    let found = plan(&demand, &PlanLimits { controllers: vec!["own".into()], prices, ..hdd }).expect("an answer");
    let first = &found.designs[0];
    let drives = first.bought.iter().find(|item| item.item == first.part).and_then(|item| item.price).expect("a price");
    let boards = f64::from(first.controller.as_ref().expect("controllers").count);
    assert!((first.price.expect("all is known") - drives - 300.0 * boards).abs() < 1e-6, "{first:?}");
}

#[test]
fn existing_drives_stay_and_cost_nothing() {
    let demand = within(40.0, Demand { capacity_bytes: Some(20e12), ..Demand::from_rates(300.0, 100.0, 8192.0) });
    let keep =
        |count| PlanLimits { existing: Some(ExistingDrives { count, drive: "st18000nm000j".into() }), ..limits() };
    let each = 22.8 * 18.0;
    let found = plan(&demand, &keep(4)).expect("an answer");
    assert!(found.feasible && found.designs.iter().all(|d| d.part == "st18000nm000j" && d.count >= 4));
    for design in &found.designs {
        let added = f64::from(design.count + design.spares - 4);
        assert!((design.price.expect("a price") - added * each).abs() < 1.0, "{design:?}");
        assert_eq!(design.kept, 4);
    }
    // where enough is there nothing is bought, and that is no unknown price
    let found = plan(&demand, &keep(20)).expect("an answer");
    assert_eq!((found.designs[0].price, found.designs[0].bought.len()), (Some(0.0), 0));
    assert!(found.designs[0].price.is_some_and(f64::is_sign_positive), "-0 is reported as -0");
    let contradictions = [
        PlanLimits { only: vec![PartFilter::Cloud], ..keep(4) },
        PlanLimits { drives: vec!["st20000nm007d".into()], ..keep(4) },
        PlanLimits { max_drives: 3, ..keep(4) },
        PlanLimits { cache_bytes: Some(1e9), ..limits() },
        PlanLimits { instance: Some("m6i.large".into()), controllers: vec!["sas3-hba-8".into()], ..limits() },
    ];
    for limits in contradictions {
        assert!(matches!(plan(&demand, &limits), Err(PlanError::Contradiction(_))));
    }
    let near = |limits: &PlanLimits| match plan(&demand, limits) {
        Err(PlanError::Unknown { near, .. }) => near,
        other => panic!("{other:?}"),
    };
    let existing = Some(ExistingDrives { count: 3, drive: "st18000nm000k".into() });
    assert_eq!(near(&PlanLimits { existing, ..limits() }).as_deref(), Some("st18000nm000j"));
    assert_eq!(near(&PlanLimits { controllers: vec!["sas3-hba".into()], ..limits() }).as_deref(), Some("sas3-hba-8"));
}

#[test]
fn horizon_reports_remaining_capacity_and_headroom() {
    let growth = Some(CapacityGrowth { bytes_per_day: 10e9, interval_bytes_per_day: Some((5e9, 200e9)) });
    let demand = Demand { capacity_bytes: Some(10e12), growth, ..Demand::from_rates(50.0, 10.0, 8192.0) };
    let hdd = PlanLimits { only: vec![PartFilter::Hdd], list_length: 1, horizon_days: 100.0, ..limits() };
    let found = plan(&demand, &hdd).expect("an answer");
    let design = &found.designs[0];
    let horizon = design.horizon.expect("it grows");
    assert_eq!((horizon.days, horizon.capacity_bytes), (100.0, 11e12));
    assert_eq!(horizon.capacity_interval_bytes, Some((10.5e12, 30e12)));
    assert_eq!(horizon.holds_upper_end, Some(design.usable_bytes >= 30e12));
    assert!((horizon.free_bytes - (design.usable_bytes - 11e12)).abs() < 1.0);
    assert!((horizon.headroom - design.headroom / 1.1).abs() < 1e-9);
    // filesystems that are emptied: what is in use today is needed, and the arithmetic says the same
    let growth = Some(CapacityGrowth { bytes_per_day: -5e9, interval_bytes_per_day: Some((-6e9, -4e9)) });
    let shrinks = plan(&Demand { growth, ..demand.clone() }, &hdd).expect("an answer");
    let step = shrinks.designs[0].arithmetic.iter().find(|step| step.figure == "horizon.capacity_bytes");
    let step = step.expect("there is a horizon");
    assert_eq!((step.value, evaluate_arithmetic(&step.numbers)), (10e12, 10e12), "{step:?}");
    assert_eq!(plan(&demand, &PlanLimits { horizon_days: 0.0, ..hdd }).expect("an answer").designs[0].horizon, None);
}

/// Evaluates `(126 x 1 + 73 x 1 x 4) / 3`: sums of products, from the left, and brackets.
fn evaluate_arithmetic(text: &str) -> f64 {
    fn sum(left: &mut &str) -> f64 {
        let mut value = product(left);
        loop {
            let sign = match left.trim_start().as_bytes().first() {
                Some(b'+') => 1.0,
                Some(b'-') => -1.0,
                _ => return value,
            };
            *left = &left.trim_start()[1..];
            value += sign * product(left);
        }
    }
    fn product(left: &mut &str) -> f64 {
        let mut value = factor(left);
        loop {
            let by = match left.trim_start().as_bytes().first() {
                Some(b'x') => false,
                Some(b'/') => true,
                _ => return value,
            };
            *left = &left.trim_start()[1..];
            let other = factor(left);
            value = if by { value / other } else { value * other };
        }
    }
    fn factor(left: &mut &str) -> f64 {
        *left = left.trim_start();
        if let Some(inside) = left.strip_prefix('(') {
            *left = inside;
            let value = sum(left);
            *left = left.trim_start().strip_prefix(')').expect("a bracket");
            return value;
        }
        let end = left.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(left.len());
        let (number, rest) = left.split_at(end);
        *left = rest;
        number.parse().expect("a number")
    }
    let mut left = text;
    let value = sum(&mut left);
    assert!(left.trim().is_empty(), "{text}: `{left}` is left");
    value
}

#[test]
fn every_step_works_out_to_its_figure() {
    assert_eq!(evaluate_arithmetic("(126 x 1 + 73 x 1 x 4) / 2 - 9"), 200.0);
    let growth = Some(CapacityGrowth { bytes_per_day: 10e9, interval_bytes_per_day: None });
    let demand =
        |size| within(30.0, Demand { capacity_bytes: Some(2e12), growth, ..Demand::from_rates(260.0, 70.0, size) });
    let direct = PlanLimits { horizon_days: 50.0, stripe_units: vec![65_536], ..limits() };
    let boards = PlanLimits {
        controllers: vec!["ultra-wide-scsi".into(), "sas3-expander-24".into()],
        only: vec![PartFilter::Hdd],
        ..direct.clone()
    };
    let mut figures: Vec<&str> = Vec::new();
    // writes of more than a stripe unit cost less than as many small ones, so that parts are less busy then
    for (size, limits) in [(98_304.0, direct), (98_304.0, boards.clone()), (8192.0, boards)] {
        for design in plan(&demand(size), &limits).expect("an answer").designs {
            for step in design.arithmetic {
                let value = evaluate_arithmetic(&step.numbers);
                assert!((value / step.value - 1.0).abs() < 1e-4 || value == step.value, "{step:?} is {value}");
                // parts that nothing but bytes uses are as busy as the analysis has them
                let busy = design.utilization.iter().find(|part| part.part.starts_with(step.figure));
                let busy = busy.filter(|_| size < 65_536.0);
                assert!(busy.is_none_or(|part| (value / part.utilization - 1.0).abs() < 0.02), "{step:?} {busy:?}");
                figures.push(step.figure);
            }
        }
    }
    for figure in ["member_load_per_s", "queue_per_spindle", "channels", "usable_bytes", "price", "horizon.headroom"] {
        assert!(figures.contains(&figure), "{figure} of {figures:?}");
    }
}
