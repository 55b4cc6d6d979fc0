//! Changes predicted from the log of a simulated machine, compared with the same machine simulated after the change.

#![allow(clippy::disallowed_macros, reason = "a test prints what it measured")]

use std::sync::Arc;

use diskwright_base::{Frame, RaidLevel, Schema, Series, Tick};
use diskwright_planner::prices::{PriceList, built_in_prices};
use diskwright_planner::series::{LoadCollector, LoadSeries, MeasureOptions, demand_from_series};
use diskwright_planner::what_if::bounds::{Limits, bound_change};
use diskwright_planner::what_if::{WhatIfError, predict_change};

use crate::hidden::simulate_series;

/// A system under a load that rises and falls, from a quarter to all of `rate`.
fn system(count: u32, level: u32, rate: f64, read_share: f64) -> String {
    let mut text = format!(
        "[watch]\nwarm_up = \"10s\"\nduration = \"1500s\"\n[[drive]]\nmodel = \"st32171w\"\ncount = {count}\n\
         [[array]]\nlevel = {level}\n[[workload]]\nrate = \"{rate}/s\"\nsize = \"8KB\"\nread_share = {read_share}\n"
    );
    for _ in 0..8 {
        text.push_str("[[workload.phase]]\nlasts = \"100s\"\nfrom = 0.25\nto = 1.0\n");
        text.push_str("[[workload.phase]]\nlasts = \"100s\"\nfrom = 1.0\nto = 0.25\n");
    }
    text
}

/// Response at the highest loads, as `what_if` measures it.
fn measured(text: &str) -> f64 {
    let log = simulate_series(text);
    predict_change(&log, "load +1%", 90.0, None, &PriceList::default()).expect("a model").before.response_s
}

#[test]
fn predictions_are_held_against_the_change_made() {
    // disks, level, rate, read share; the change; disks, level and rate after it
    let cases = [
        (4, 5, 80.0, 0.63, "load +50%", 4, 5, 120.0),
        (4, 5, 110.0, 0.63, "disks +4", 8, 5, 110.0),
        (4, 5, 110.0, 0.63, "raid5 to raid10", 4, 10, 110.0),
        (4, 10, 180.0, 0.7, "load +50%", 4, 10, 270.0),
        (4, 10, 220.0, 0.7, "disks +4", 8, 10, 220.0),
        (6, 0, 300.0, 0.8, "load +50%", 6, 0, 450.0),
    ];
    let mut errors = Vec::new();
    for (count, level, rate, share, change, count_after, level_after, rate_after) in cases {
        let log = simulate_series(&system(count, level, rate, share));
        let found = predict_change(&log, change, 90.0, None, &PriceList::default()).expect(change);
        let truth = measured(&system(count_after, level_after, rate_after, share));
        let error = found.after.response_s / truth - 1.0;
        let [before, modelled] = [found.before, found.modelled_before].map(|c| c.response_s * 1e3);
        println!("{level} of {count}, {change}: before {before:.1} ms, modelled {modelled:.1}");
        println!(
            "    error of the model {:.3}; after {:.1} ms, truth {:.1}: {:.3}",
            found.model_error,
            found.after.response_s * 1e3,
            truth * 1e3,
            error
        );
        errors.push(error.abs());
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    println!("mean {mean:.3}");
    assert!(mean < 0.08, "{errors:?}");
    assert!(errors.iter().all(|e| *e < 0.15), "{errors:?}");
}

/// Users with a mean pause of 0.1 s on an array of drives.
fn users(count: u32, level: u32, members: u32) -> String {
    format!(
        "[watch]\nwarm_up = \"10s\"\nduration = \"300s\"\n[[drive]]\nmodel = \"st32171w\"\ncount = {members}\n\
         [[array]]\nlevel = {level}\n[[workload]]\nusers = {count}\nthink = {{ exponential = \"100ms\" }}\n\
         size = \"4KB\"\nread_share = 0.67\n"
    )
}

#[test]
fn predicts_closed_load_with_more_disks() {
    let mut errors = Vec::new();
    for (level, members, more) in [(0, 3, 2), (0, 4, 4), (5, 3, 4), (10, 4, 4)] {
        // few, some and many of them, as in the laboratory
        let mut log = simulate_series(&users(40, level, members));
        for count in [4, 10] {
            let other = simulate_series(&users(count, level, members));
            log.fronts[0].curve.append_curve(&other.fronts[0].curve);
            let sums = other.fronts[0].sums;
            log.fronts[0].sums.add_sums(&sums);
        }
        let change = format!("disks +{more}");
        let found = predict_change(&log, &change, 67.0, Some(40.0), &PriceList::default()).expect("a model");
        let truth = simulate_series(&users(40, level, members + more));
        let sums = truth.fronts[0].sums;
        let [rate, response] = [
            found.after.requests_per_s / sums.requests_per_s() - 1.0,
            found.after.response_s / sums.response_s() - 1.0,
        ];
        println!("raid{level} of {members}, {change}: requests {rate:+.3}, response {response:+.3}");
        errors.extend([rate.abs(), response.abs()]);
    }
    // promised are 10 %
    assert!(errors.iter().all(|e| *e < 0.1), "{errors:?}");
}

#[test]
fn refuses_unknown_devices_and_unpredictable_changes() {
    let log = simulate_series(&system(4, 5, 60.0, 0.63));
    let ask = |change: &str| predict_change(&log, change, 90.0, None, &PriceList::default()).expect_err(change);
    for change in ["move swap to its own disk", "raid10 to raid5", "controller +1", "coffee +1", "gp9 iops 6000"] {
        assert!(matches!(ask(change), WhatIfError::Names(..)), "{change}: {}", ask(change));
    }
    // RAID 5 has three disks at least; gp3 has 3,000 to 80,000 operations, and the size of gp2 decides
    let volumes = |change: &str| predict_change(&log, change, 90.0, None, &built_in_prices()).expect_err(change);
    for (error, says) in [
        (ask("disks -2"), "needs at least 3"),
        (volumes("gp3 iops 100000"), "3000 to 80000 operations"),
        (volumes("gp3 iops 1000"), "3000 to 80000 operations"),
        (volumes("gp2 iops 6000"), "its size decides"),
    ] {
        assert!(matches!(error, WhatIfError::Names(..)) && error.to_string().contains(says), "{error}");
    }
    // so does RAID 4
    let mut log4 = log.clone();
    (log4.fronts[0].level, log4.fronts[0].members) = (Some(RaidLevel::Raid4), 3);
    let error = predict_change(&log4, "disks -1", 90.0, None, &PriceList::default()).expect_err("two disks");
    assert!(error.to_string().contains("needs at least 3"), "{error}");
    // the log counts no swapping, and ten times the load is too much
    for change in ["memory +16GB", "load +900%"] {
        assert!(matches!(ask(change), WhatIfError::Refused(..)), "{change}: {}", ask(change));
    }
}

#[test]
fn swapping_is_on_the_device_that_holds_its_area() {
    let mut log = simulate_series(&system(4, 5, 60.0, 0.63));
    let requests = log.fronts[0].sums.reads + log.fronts[0].sums.writes;
    log.swap = [0.0, 0.0, 0.1 * requests];
    let ask = |log: &LoadSeries| predict_change(log, "move swap to its own disk", 90.0, None, &PriceList::default());
    let left = |log: &LoadSeries| {
        let found = ask(log).expect("a model");
        found.after.requests_per_s / found.before.requests_per_s
    };
    assert!((left(&log) - 0.9).abs() < 1e-9, "{}", left(&log));
    // a second device with as many requests, fewer of them in flight: half of it, if nobody knows where the area is
    let mut other = log.fronts[0].clone();
    (other.name, other.sums.queue_s) = ("other".into(), 0.5 * other.sums.queue_s);
    log.fronts.push(other);
    assert!((left(&log) - 0.95).abs() < 1e-9, "{}", left(&log));
    (log.fronts[0].holds_swap, log.fronts[1].holds_swap) = (Some(true), Some(false));
    assert!((left(&log) - 0.9).abs() < 1e-9, "{}", left(&log));
    (log.fronts[0].holds_swap, log.fronts[1].holds_swap) = (Some(false), Some(true));
    let error = ask(&log).expect_err("it is on the other one");
    assert!(matches!(error, WhatIfError::Names(..)) && error.to_string().contains("holds no swap area"), "{error}");
    let error = predict_change(&log, "memory +16GB", 90.0, None, &PriceList::default()).expect_err("the same");
    assert!(matches!(error, WhatIfError::Refused(..)) && error.to_string().contains("holds no swap area"), "{error}");
}

#[test]
fn a_simulated_array_is_a_demand_of_its_front_end() {
    let log = simulate_series(&system(3, 5, 80.0, 0.63));
    let found =
        demand_from_series(&log, &MeasureOptions { percentile: 50.0, ..MeasureOptions::default() }).expect("load");
    let demand = &found.demand;
    // from a quarter to all of 80 a second: 50 in the middle, of 8 KB, and not its members' I/Os as well
    assert!((demand.requests_per_s() / 50.0 - 1.0).abs() < 0.05, "{demand:?}");
    assert!((demand.read_share() - 0.63).abs() < 0.02, "{demand:?}");
    assert_eq!((demand.read_size_bytes, demand.write_size_bytes), (8192.0, 8192.0));
    let [device] = &found.summary.devices[..] else { panic!("{:?}", found.summary.devices) };
    assert_eq!((device.level, device.members, device.from_members), (Some("raid5"), 3, false));
    // Poisson arrivals: 1
    assert!((demand.burstiness.expect("many ticks") - 1.0).abs() < 0.15, "{demand:?}");
    assert!(found.summary.dispersion.expect("many ticks") > 3.0);
    assert_eq!(found.summary.rating.stars, 1);
}

#[test]
fn more_operations_of_a_volume_may_need_more_throughput() {
    let of = |users: u32| {
        simulate_series(&format!(
            "[watch]\nwarm_up = \"10s\"\nduration = \"300s\"\n[[drive]]\nmodel = \"aws-gp3\"\n[[workload]]\n\
             users = {users}\nthink = {{ exponential = \"2s\" }}\nsize = \"64K\"\n"
        ))
    };
    // 125 MiB/s are 2,000 of 64 KiB a second; 8,000 users with pauses of 2 s would send 4,000
    let mut log = of(8000);
    for users in [500, 1500, 2500, 3500] {
        let more = of(users);
        let (front, other) = (&mut log.fronts[0], &more.fronts[0]);
        front.curve.append_curve(&other.curve);
    }
    let found =
        predict_change(&log, "gp3 iops 6000", 95.0, Some(8000.0), &built_in_prices()).expect("a limit was reached");
    assert!((found.after.requests_per_s / 4000.0 - 1.0).abs() < 0.05, "{found:?}");
    let notes = found.notes.join("\n");
    assert!(notes.contains("aws-gp3 includes only 131 MB/s: buy throughput as well"), "{notes}");
    assert!(notes.contains("need at least 12 GiB"), "{notes}");
}

/// NT Magazine 1998: three disks in RAID 5 with 126 reads and 73 writes a second of 0.12 s each. Ten disks then did 147
/// reads and 117 writes of 0.049 s.
#[test]
fn a_single_load_gives_bounds_that_hold_the_published_change() {
    let mut log = constant_load(126.0, 73.0, 199.0 * 0.12, None);
    (log.fronts[0].level, log.fronts[0].members) = (Some(RaidLevel::Raid5), 3);
    let error = predict_change(&log, "disks +7", 95.0, None, &PriceList::default()).expect_err("a single load");
    assert!(matches!(error, WhatIfError::NoModel(..)), "{error}");
    let found = bound_change(&log, "disks +7", 95.0).expect("bounds");
    let is_within = |limits: Limits, value: f64| {
        limits.least.is_some_and(|least| least <= value) && limits.most.is_some_and(|most| value <= most)
    };
    assert!(is_within(found.bounds.requests_per_s, 147.0 + 117.0), "{found:?}");
    assert!(is_within(found.bounds.response_s, 0.049), "{found:?}");
    // no busy time: U / (1 - U) = 23.88 / 3; (126 + 4 x 73) / 10 of (126 + 3 x 73) / 3 on each member
    let utilization = 7.96 / 8.96;
    assert!((found.utilization_before - utilization).abs() < 1e-9, "{found:?}");
    assert!((found.bounds.member_utilization - utilization * 41.8 / 115.0).abs() < 1e-9, "{found:?}");
    // a write takes 3 services of ten members, and 2.5 of three: 1.735 / 1.551 services of a mean request
    assert!(found.bounds.requests_per_s.least.is_some_and(|least| (least - 177.95).abs() < 0.01), "{found:?}");
    // 199 / U x 115 / 41.8
    assert!(found.bounds.requests_per_s.most.is_some_and(|most| (most - 616.2).abs() < 0.5), "{found:?}");
    assert!(found.notes.iter().any(|note| note.contains("no busy time")), "{:?}", found.notes);
}

#[test]
fn bounds_of_more_load_end_at_what_the_disk_serves() {
    // half busy: a third more fits, three times as much does not
    let log = constant_load(50.0, 0.0, 0.6, Some(0.5));
    let more = bound_change(&log, "load +33%", 95.0).expect("bounds").bounds;
    assert!((more.member_utilization - 0.665).abs() < 1e-9, "{more:?}");
    assert_eq!((more.requests_per_s.least, more.response_s.most), (Some(50.0), None));
    assert!(more.requests_per_s.most.is_some_and(|most| (most - 66.5).abs() < 1e-9), "{more:?}");
    let most = bound_change(&log, "load +200%", 95.0).expect("bounds").bounds;
    assert_eq!((most.requests_per_s.most, most.member_utilization), (Some(100.0), 1.5));
    // less load is never slower, and not faster than a request alone: 0.5 / 50 s
    let less = bound_change(&log, "load -50%", 95.0).expect("bounds").bounds;
    let is = |found: Option<f64>, right: f64| found.is_some_and(|found| (found - right).abs() < 1e-9);
    assert!(is(less.response_s.least, 0.01) && is(less.response_s.most, 0.012), "{less:?}");
    for change in ["disks +2", "coffee +1", "controller +1"] {
        assert!(bound_change(&log, change, 95.0).is_err(), "{change}");
    }
}

/// Ten minutes of a disk with these requests and a queue, and with a busy share if the log has one.
fn constant_load(reads: f64, writes: f64, queue: f64, busy: Option<f64>) -> LoadSeries {
    let mut cells = vec![("reads", reads), ("writes", writes), ("avg_queue_length", queue)];
    cells.extend(busy.map(|busy| ("busy", busy)));
    let series = |(name, _): &(&str, f64)| Series {
        counter: format!("physical_disk.{name}"),
        instance: "sda".into(),
        scale: 1.0,
    };
    let schema = Schema::new(cells.iter().map(series).collect());
    let row: Vec<f64> = cells.iter().map(|cell| cell.1).collect();
    let mut frame = Frame::new(Arc::new(schema), 600);
    for second in 1..=600 {
        frame.push(Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &row);
    }
    let mut collector = LoadCollector::default();
    collector.add_frame(&frame);
    collector.finish()
}
