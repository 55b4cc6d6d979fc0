//! From ticks to a demand, on series with known properties.

use diskwright_base::Histogram;
use diskwright_planner::prices::{PriceList, built_in_prices};
use diskwright_planner::series::measured_demand::{NoDemand, utc_offsets};
use diskwright_planner::series::{FrontLoad, LoadSeries, LoadTick, LoadedTick, MeasureOptions, demand_from_series};
use diskwright_planner::what_if::predict_change;
use diskwright_planner::{Demand, PlanLimits, plan};

use crate::hidden::simulate_series;

const DAY_S: i64 = 86_400;

fn options(percentile: f64) -> MeasureOptions {
    MeasureOptions { percentile, ..MeasureOptions::default() }
}

/// Two disks, one of which works while the other is idle.
fn disks_loaded_in_turn() -> LoadSeries {
    let disk = |name: &str, first: f64, then: f64| {
        format!(
            "[[drive]]\nname = \"{name}\"\nmodel = \"st32171w\"\n[[workload]]\nname = \"on-{name}\"\non = \"{name}\"\n\
             rate = \"60/s\"\nsize = \"8KB\"\n[[workload.phase]]\nlasts = \"300s\"\nfrom = {first}\nto = {first}\n\
             [[workload.phase]]\nlasts = \"300s\"\nfrom = {then}\nto = {then}\n"
        )
    };
    simulate_series(&format!("[watch]\nduration = \"600s\"\n{}{}", disk("day", 1.0, 0.05), disk("night", 0.05, 1.0)))
}

#[test]
fn disks_are_summed_before_percentiles_are_taken() {
    let found = demand_from_series(&disks_loaded_in_turn(), &options(50.0)).expect("a load");
    let median = found.summary.requests_per_s.p50;
    // 63 a second at any time, though each disk has 60 at its own 95 %
    assert!((median / 63.0 - 1.0).abs() < 0.05, "{median}");
    let found = demand_from_series(&disks_loaded_in_turn(), &options(95.0)).expect("a load");
    let (planned, each) = (found.demand.requests_per_s(), found.summary.sum_of_percentiles_per_s);
    assert!((planned / 76.0 - 1.0).abs() < 0.06, "{planned}");
    assert!((found.summary.oversize - each / planned).abs() < 1e-9 && found.summary.oversize > 1.7, "{each}");
}

#[test]
fn a_single_disk_has_the_percentile_of_all_requests() {
    let alone = simulate_series(
        "[watch]\nduration = \"300s\"\n[[drive]]\nmodel = \"st32171w\"\n[[workload]]\nrate = \"60/s\"\n\
         size = \"8KB\"\n",
    );
    for percentile in [50.0, 95.0, 99.0] {
        let found = demand_from_series(&alone, &options(percentile)).expect("a load");
        let [disk] = &found.summary.devices[..] else { panic!("{:?}", found.summary.devices) };
        let planned = found.demand.requests_per_s();
        assert!((disk.requests_per_s / planned - 1.0).abs() < 1e-9, "{} and {planned}", disk.requests_per_s);
        assert!((found.summary.oversize - 1.0).abs() < 1e-9, "{}", found.summary.oversize);
    }
}

/// Of 60 a second before a fifth disk came, and 60 after it, 60 a second are the array's own at any time.
#[test]
fn an_array_that_grows_within_the_log_is_one_device() {
    let mut log = disks_loaded_in_turn();
    log.fronts.truncate(1);
    log.fronts[0].rates = Histogram::new();
    log.fronts[0].rates.record_many(6000, 300_000);
    let grown = FrontLoad { members: log.fronts[0].members + 1, ..log.fronts[0].clone() };
    log.fronts.push(grown);
    log.ticks.iter_mut().for_each(|tick| (tick.reads, tick.writes) = (60.0, 0.0));
    let found = demand_from_series(&log, &options(95.0)).expect("a load").summary;
    assert_eq!(found.devices.len(), 2, "with what each number of members did");
    assert!((found.sum_of_percentiles_per_s / 60.0 - 1.0).abs() < 0.02, "{}", found.sum_of_percentiles_per_s);
    assert!((found.oversize - 1.0).abs() < 0.02, "{}", found.oversize);
}

/// Twenty minutes of ticks; a disk is saturated in ticks from one to another, and hides as much as it does: 100 users
/// of whom half wait send 200 a second to a disk that keeps nobody waiting.
fn saturated(requests: impl Fn(i64) -> f32, times: [std::ops::Range<i64>; 2]) -> LoadSeries {
    let mut log = disks_loaded_in_turn();
    let second = log.ticks[0];
    let tick = |number: i64| LoadTick {
        time_ns: number * 1_000_000_000,
        seconds: 1.0,
        reads: requests(number),
        writes: 0.0,
        read_bytes: requests(number) * 8192.0,
        ..second
    };
    log.ticks = (0..1200).map(tick).collect();
    for (front, times) in log.fronts.iter_mut().zip(times) {
        front.loaded_s = times.clone().count() as f64;
        front.loaded = times
            .map(|number| LoadedTick {
                number: number as u32,
                time_ns: number * 1_000_000_000,
                seconds: 1.0,
                requests: 100.0,
                queue: 50.0,
            })
            .collect();
    }
    log
}

#[test]
fn hidden_load_counts_within_the_percentile_time() {
    let planned = |log: &LoadSeries, percentile: f64| {
        let known = MeasureOptions { users: Some(100.0), ..options(percentile) };
        demand_from_series(log, &known).expect("a load").demand.requests_per_s()
    };
    let is_near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
    // one after the other: at any time, one of them hides 100
    let in_turn = planned(&saturated(|_| 105.0, [0..600, 600..1200]), 95.0);
    assert!(is_near(in_turn, 205.0), "{in_turn}");
    // both at a time
    let together = planned(&saturated(|_| 200.0, [0..1200, 0..1200]), 95.0);
    assert!(is_near(together, 400.0), "{together}");
    // below the time in which one of them is saturated nothing is hidden
    let seldom = saturated(|number| if number < 360 { 105.0 } else { 20.0 }, [0..360, 0..0]);
    let (middle, peak) = (planned(&seldom, 50.0), planned(&seldom, 95.0));
    assert!(is_near(middle, 20.0) && is_near(peak, 205.0), "{middle} {peak}");
}

/// Ten days of one-minute ticks with a busy afternoon, and room that grows by so much a day.
fn days(count: i64, grows: impl Fn(f64) -> f64) -> LoadSeries {
    let mut one = disks_loaded_in_turn();
    one.ticks = (1..=count * 1440)
        .map(|minute| {
            let afternoon = (13..17).contains(&(minute * 60 % DAY_S / 3600));
            let (reads, writes) = if afternoon { (300.0, 100.0) } else { (30.0, 10.0) };
            LoadTick {
                time_ns: minute * 60 * 1_000_000_000,
                seconds: 60.0,
                reads,
                writes,
                read_bytes: reads * 8192.0,
                write_bytes: writes * 4096.0,
                queue: 1.0,
            }
        })
        .collect();
    one.used_space = (0..=count * 24).map(|hour| (hour * 3_600_000_000_000, grows(hour as f64 / 24.0))).collect();
    one
}

#[test]
fn busy_hours_mix_sizes_and_growth_of_days() {
    let found = demand_from_series(&days(10, |day| 1e12 + day * 5e9), &options(95.0)).expect("a load");
    // four hours of a day are more than 5 % of it, so that the percentile is one of these
    assert_eq!((found.demand.reads_per_s, found.demand.writes_per_s), (300.0, 100.0));
    assert_eq!((found.demand.read_size_bytes, found.demand.write_size_bytes), (8192.0, 4096.0));
    assert_eq!(found.summary.busy_hours.as_deref(), Some(&[13, 14, 15, 16][..]));
    // twice the load has twice as many requests in flight, which disks are counted for
    let twice = MeasureOptions { comfort: 2.0, ..options(95.0) };
    let twice = demand_from_series(&days(10, |day| 1e12 + day * 5e9), &twice).expect("a load").demand;
    assert_eq!((found.demand.queue, twice.queue, twice.reads_per_s), (Some(1.0), Some(2.0), 600.0));
    let growth = found.demand.growth.expect("ten days");
    let (low, high) = growth.interval_bytes_per_day.expect("its interval");
    assert!((growth.bytes_per_day / 5e9 - 1.0).abs() < 1e-6, "{growth:?}");
    assert!(low <= growth.bytes_per_day && growth.bytes_per_day <= high, "{growth:?}");
    // ups and downs of a terabyte tell no growth of a gigabyte: the interval holds both signs
    let noisy = days(10, |day| 1e12 + 1e9 * day + 1e11 * (day * 37.0).sin());
    let (low, high) = demand_from_series(&noisy, &options(95.0))
        .expect("a load")
        .demand
        .growth
        .and_then(|growth| growth.interval_bytes_per_day)
        .expect("an interval");
    assert!(low < 0.0 && high > 0.0, "{low} {high}");
    // below a day there is no growth and there are no busy hours
    let mut short = days(1, |_| 1e12);
    short.ticks.truncate(600);
    short.used_space.truncate(10);
    let found = demand_from_series(&short, &options(95.0)).expect("a load");
    assert_eq!((found.summary.busy_hours, found.demand.growth), (None, None));
}

/// The afternoon is from 13 to 17 on the clock, which goes back by an hour in the middle of ten days.
#[test]
fn busy_hours_follow_clock_changes() {
    let mut log = days(10, |_| 1e12);
    let change_ns = 5 * DAY_S * 1_000_000_000;
    let of_zone = |time_ns: i64| if time_ns < change_ns { 3600 } else { 0 };
    for tick in log.ticks.iter_mut().filter(|tick| tick.time_ns < change_ns) {
        let hour = (tick.time_ns / 1_000_000_000 + 3600) % DAY_S / 3600;
        (tick.reads, tick.writes) = if (13..17).contains(&hour) { (300.0, 100.0) } else { (30.0, 10.0) };
    }
    log.utc_offsets = utc_offsets(&log.ticks, of_zone);
    assert_eq!(log.utc_offsets, [(i64::MIN, 3600), (change_ns, 0)]);
    let found = demand_from_series(&log, &options(95.0)).expect("a load");
    assert_eq!(found.summary.busy_hours.as_deref(), Some(&[13, 14, 15, 16][..]));
}

#[test]
fn reports_logs_that_give_no_demand() {
    let mut short = disks_loaded_in_turn();
    short.ticks.truncate(9);
    let error = demand_from_series(&short, &options(95.0)).expect_err("nine ticks");
    assert!(matches!(error, NoDemand::TooShort { ticks: 9, .. }), "{error}");
    let mut idle = disks_loaded_in_turn();
    idle.ticks.iter_mut().for_each(|tick| (tick.reads, tick.writes) = (0.0, 0.0));
    assert_eq!(demand_from_series(&idle, &options(95.0)).expect_err("idle"), NoDemand::Idle);
    // swapping is no demand for disks, but it is not idleness either
    idle.swap = [1e9, 1e9, 1e5];
    assert_eq!(demand_from_series(&idle, &options(95.0)).expect_err("swapping"), NoDemand::OnlySwapping);
    // a job of 3 % of the time is below the 95 % point, and above the 99 % point
    let mut nightly = days(1, |_| 1e12);
    for (number, tick) in nightly.ticks.iter_mut().enumerate() {
        let rate = if number < 43 { 500.0 } else { 0.0 };
        (tick.reads, tick.writes, tick.read_bytes, tick.write_bytes) = (rate, 0.0, rate * 8192.0, 0.0);
    }
    let error = demand_from_series(&nightly, &options(95.0)).expect_err("idle at 95 %").to_string();
    assert!(
        error.contains("idle for 95 %") && error.contains("2.99 %") && error.contains("--percentile 99"),
        "{error}"
    );
    assert_eq!(demand_from_series(&nightly, &options(99.0)).expect("a load").demand.reads_per_s, 500.0);
    let none = LoadSeries::default();
    assert_eq!(demand_from_series(&none, &options(95.0)).expect_err("empty"), NoDemand::NoDisk);
}

#[test]
fn unknown_sizes_are_marked_and_merges_are_not_sequential() {
    let mut log = days(1, |_| 1e12);
    log.ticks.iter_mut().for_each(|tick| (tick.read_bytes, tick.write_bytes) = (0.0, tick.writes * 4096.0));
    log.merged = (300.0, 100.0);
    let found = demand_from_series(&log, &options(95.0)).expect("a load");
    assert_eq!((found.demand.read_size_bytes, found.demand.write_size_bytes), (4096.0, 4096.0));
    let marks: Vec<&str> = found.demand.estimated.iter().map(|mark| mark.field.as_str()).collect();
    assert_eq!(marks, ["read_size_bytes"]);
    // what is left after merging may lie anywhere
    assert_eq!((found.demand.sequential_share, found.summary.merged_share), (None, Some(0.75)));
}

#[test]
fn one_long_tick_among_short_ones_is_a_gap() {
    let mut log = days(1, |_| 1e12);
    log.ticks.truncate(600);
    // 600 ticks of a minute, then one of ten hours
    let last = *log.ticks.last().expect("ticks");
    log.ticks.push(LoadTick { time_ns: last.time_ns + 36_000_000_000_000, seconds: 36_000.0, ..last });
    let found = demand_from_series(&log, &options(95.0)).expect("a load").summary;
    assert_eq!((found.interval_s, found.ticks), (60.0, 601));
    assert!((found.rating.sampled_share - 0.5).abs() < 1e-6, "{:?}", found.rating);
    // the same load all the time has no spread
    assert!(found.dispersion.expect("a load") < 1e-9, "{:?}", found.dispersion);
}

#[test]
fn users_who_wait_are_served_faster_by_more_disks() {
    let of = |disks: u32, users: u32| {
        simulate_series(&format!(
            "[watch]\nwarm_up = \"10s\"\nduration = \"600s\"\n[[drive]]\nmodel = \"st32171w\"\ncount = {disks}\n\
             [[array]]\nlevel = 0\n[[workload]]\nusers = {users}\nthink = \"200ms\"\nsize = \"8KB\"\nread_share = 0.7\n"
        ))
    };
    // a log that saw 8, 20 and 40 of them
    let mut log = of(3, 8);
    for users in [20, 40] {
        let more = of(3, users);
        let (front, other) = (&mut log.fronts[0], &more.fronts[0]);
        front.sums.add_sums(&other.sums);
        front.curve.append_curve(&other.curve);
    }
    let found = predict_change(&log, "disks +3", 80.0, Some(40.0), &PriceList::default()).expect("a model");
    let truth = &of(6, 40).fronts[0].sums;
    let (rate, response) = (truth.requests_per_s(), truth.response_s());
    assert!(found.model_error < 0.10, "{found:?}");
    assert!((found.after.requests_per_s / rate - 1.0).abs() < 0.10, "{rate} {found:?}");
    assert!((found.after.response_s / response - 1.0).abs() < 0.15, "{response} {found:?}");
    // as many users as requests in flight do not pause; fewer cannot be
    let error = predict_change(&log, "disks +3", 80.0, Some(2.0), &PriceList::default()).expect_err("two users");
    assert!(error.to_string().contains("--users 2: at the highest loads"), "{error}");
}

#[test]
fn unknown_price_is_never_zero() {
    let demand = Demand { capacity_bytes: Some(1e12), ..Demand::from_rates(100.0, 50.0, 8192.0) };
    let drives = ["huc156060css200", "samsung-870evo-1tb", "st20000nm007d"].map(str::to_owned).to_vec();
    let limits =
        PlanLimits { drives, simulated_requests: 2000, ..PlanLimits::with_defaults(built_in_prices(), "2026-11-24") };
    let found = plan(&demand, &limits).expect("an answer");
    let known: Vec<bool> = found.designs.iter().map(|design| design.price.is_some()).collect();
    assert!(known.contains(&true) && known.contains(&false), "{known:?}");
    // those without a price stand after all that have one, and on no frontier
    assert!(known.is_sorted_by(|a, b| a >= b), "{known:?}");
    for design in found.designs.iter().filter(|design| design.price.is_none()) {
        assert!(design.cost.is_none() && design.bought.iter().any(|item| item.price.is_none()), "{design:?}");
        assert!(found.frontier.iter().all(|point| !point.design.contains(&design.part)), "{design:?}");
    }
    // and none is within a budget
    let limits = PlanLimits { budget: Some(1e9), ..limits };
    let found = plan(&demand, &limits).expect("an answer");
    assert!(found.designs.iter().all(|design| design.price.is_some()), "{:?}", found.designs);
}
