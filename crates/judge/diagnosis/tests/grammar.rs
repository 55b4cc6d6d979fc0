//! Every feature of the rule grammar, each with numbers worked out by hand.

use crate::common::*;
use diskwright_base::{DeviceClass, RaidLevel, Topology};
use diskwright_diagnosis::{Bottleneck, JudgeOptions};

#[test]
fn a_counter_against_a_limit() {
    // 100 reads of 30 ms a second are a queue of 3
    let verdict = Recording::new(60).disk("sda", 100.0, 0.03, 1.0).by(&one("counter = 'avg_queue_length', above = 2"));
    let finding = only(&verdict);
    near(finding.value, 3.0);
    assert_eq!((finding.limit, finding.share, finding.seconds, finding.longest_s), (2.0, 1.0, 60.0, 60.0));
    assert_eq!((finding.counter.as_str(), finding.unit.as_str()), ("physical_disk.avg_queue_length", "requests"));
    assert_eq!((finding.from.as_str(), finding.to.as_str()), ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"));
    assert_eq!(verdict.instance, "sda");
    assert_eq!(finding.series.len(), 60);
    assert!(finding.series.iter().all(|p| (p.unwrap() - 3.0).abs() < 1e-9));
}

#[test]
fn each_comparator_is_exact_at_its_limit() {
    for (compare, limit, holds) in [
        ("above", 99.0, true),
        ("above", 100.0, false),
        ("at_least", 100.0, true),
        ("at_least", 100.5, false),
        ("below", 100.5, true),
        ("below", 100.0, false),
        ("at_most", 100.0, true),
        ("at_most", 99.0, false),
    ] {
        let rule = one(&format!("counter = 'reads_per_s', {compare} = {limit}"));
        let verdict = Recording::new(10).disk("sda", 100.0, 0.001, 0.1).by(&rule);
        assert_eq!(verdict.findings.len() == 1, holds, "{compare} {limit}");
    }
}

#[test]
fn averages_are_weighted_by_operations_over_the_ticks_that_held() {
    // 10 reads of 50 ms, then 90 of 10 ms, and idle seconds in between
    let reads = |i: usize| [10.0, 90.0, 0.0][i % 3];
    let times = |i: usize| [0.5, 0.9, 0.0][i % 3];
    let recording = Recording::new(30)
        .with("physical_disk.reads", "sda", reads)
        .with("physical_disk.writes", "sda", |_| 0.0)
        .with("physical_disk.read_time_s", "sda", times)
        .with("physical_disk.write_time_s", "sda", |_| 0.0);
    let verdict = recording.by(&one("counter = 'avg_s_per_transfer', above = 0.001"));
    let finding = only(&verdict);
    near(finding.value, 1.4 / 100.0);
    // an idle second is judged, and does not hold
    near(finding.share, 2.0 / 3.0);
    let verdict = recording.by(&one("counter = 'avg_s_per_transfer', below = 1"));
    near(only(&verdict).share, 2.0 / 3.0);
}

#[test]
fn a_gap_counts_neither_for_nor_against_a_rule() {
    let recording = Recording::new(100).with("pressure.io_some_s", "", |i| match i {
        0..20 => 0.5,
        20..80 => f64::NAN,
        _ => 0.0,
    });
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\nall = [{ counter = 'pressure.io_some', above = 0.4 }]";
    let finding = recording.by(rule).findings.remove(0);
    near(finding.share, 0.5);
    near(finding.seconds, 20.0);
    assert_eq!(finding.series.iter().filter(|p| p.is_none()).count(), 30, "60 of 100 ticks, two a point");
}

#[test]
fn counter_against_counter_with_a_factor() {
    let recording = Recording::new(20)
        .with("memory.committed_bytes", "", |_| 7.5e9)
        .with("memory.total_bytes", "", |_| 8e9)
        .with("memory.available_bytes", "", |_| 1e9);
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\nbottleneck = 'memory'\n\
        all = [{ counter = 'memory.committed_bytes', above = 'memory.total_bytes', limit_times = 0.9 }]";
    let verdict = recording.by(rule);
    near(only(&verdict).limit, 7.2e9);
    let wider = rule.replace("0.9", "0.95");
    assert!(recording.by(&wider).findings.is_empty());
}

#[test]
fn sums_ratios_and_products() {
    // 100 reads and 50 writes a second, 4096 and 8192 bytes each, 10 and 20 ms
    let recording = Recording::new(20)
        .with("physical_disk.reads", "sda", |_| 100.0)
        .with("physical_disk.writes", "sda", |_| 50.0)
        .with("physical_disk.read_bytes", "sda", |_| 409_600.0)
        .with("physical_disk.write_bytes", "sda", |_| 409_600.0)
        .with("physical_disk.read_time_s", "sda", |_| 1.0)
        .with("physical_disk.write_time_s", "sda", |_| 1.0)
        .with("physical_disk.weighted_time_s", "sda", |_| 2.0);
    let value = |condition: &str| only(&recording.by(&one(condition))).value;
    near(value("counter = 'reads_per_s', plus = ['writes_per_s'], above = 0"), 150.0);
    near(value("counter = 'reads_per_s', minus = ['writes_per_s'], above = 0"), 50.0);
    // a rest is never below nothing
    near(value("counter = 'writes_per_s', minus = ['reads_per_s'], at_most = 0"), 0.0);
    near(value("counter = 'bytes_per_s', over = 'transfers_per_s', above = 0"), 819_200.0 / 150.0);
    near(value("counter = 'avg_queue_length', times = 'avg_s_per_transfer', above = 0"), 2.0 * 2.0 / 150.0);
    near(value("counter = 'reads_per_s', plus = ['writes_per_s'], times = 2, over = 3, above = 0"), 100.0);
}

#[test]
fn a_ratios_mean_is_the_ratio_of_the_means() {
    let recording = Recording::new(40)
        .with("physical_disk.reads", "sda", |i| if i % 2 == 0 { 1.0 } else { 99.0 })
        .with("physical_disk.read_bytes", "sda", |i| if i % 2 == 0 { 1e6 } else { 0.0 })
        .with("physical_disk.writes", "sda", |_| 0.0)
        .with("physical_disk.write_bytes", "sda", |_| 0.0);
    let verdict = recording.by(&one("counter = 'read_bytes_per_s', over = 'reads_per_s', at_least = 0"));
    near(only(&verdict).value, 1e4);
}

#[test]
fn the_share_of_the_disk_in_interrupt_time_as_printed() {
    // NT Resource Kit: 426.5 interrupts a second, 100 by the clock, 91.5 % of the time
    let recording = Recording::new(20)
        .with("interrupts.total", "", |_| 426.5)
        .with("interrupts.clock", "", |_| 100.0)
        .with("interrupts.network", "", |_| 0.0)
        .with("processor.interrupt", "_total", |_| 0.915);
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\nbottleneck = 'interrupts'\nall = [{ counter = \
        'interrupts.total_per_s', minus = ['interrupts.clock_per_s', 'interrupts.network_per_s'], times = \
        'processor.interrupt', over = 'interrupts.total_per_s', at_least = 0.7 }]";
    let verdict = recording.by(rule);
    near(only(&verdict).value, 326.5 * 0.915 / 426.5);
    assert_eq!(only(&verdict).unit, "fraction");
}

#[test]
fn per_spindle_and_per_processor() {
    let topology = array(3, DeviceClass::Rotational, RaidLevel::Raid5);
    let recording = Recording::new(20)
        .disk("sda", 100.0, 0.03, 1.0)
        .disk("sdb", 100.0, 0.03, 1.0)
        .disk("sdc", 0.0, 0.0, 0.0)
        .with("system.context_switches", "", |_| 5000.0)
        .topology(topology);
    let rule = "[[rule]]\nid = 'r'\nwhich = 'set'\n\
        all = [{ counter = 'avg_queue_length', per = 'spindle', above = 1 }]";
    let verdict = recording.by(rule);
    // queues of 3, 3 and 0 over three disks
    near(only(&verdict).value, 2.0);
    assert_eq!(only(&verdict).instance, "md0");
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\n\
        all = [{ counter = 'system.context_switches_per_s', per = 'processor', above = 1 }]";
    near(only(&recording.by(rule)).value, 2500.0);
}

#[test]
fn load_on_members_by_the_levels_factor() {
    // NT Magazine 1998: 126 reads and 73 writes a second on three disks in RAID 5: 139
    let recording = Recording::new(20)
        .disk("sda", 90.0, 0.01, 0.9)
        .with("physical_disk.reads", "md0", |_| 126.0)
        .with("physical_disk.writes", "md0", |_| 73.0)
        .topology(array(3, DeviceClass::Rotational, RaidLevel::Raid5));
    let rule = "[[rule]]\nid = 'r'\nwhich = 'set'\nall = [{ counter = 'back_end_load', above = 100 }]\n\
        evidence = ['reads_per_s', 'writes_per_s', 'spindles']";
    let verdict = recording.by(rule);
    near(only(&verdict).value, 418.0 / 3.0);
    let evidence: Vec<f64> = only(&verdict).evidence.iter().take(3).map(|e| e.value.unwrap()).collect();
    assert_eq!(evidence, [126.0, 73.0, 3.0]);
}

#[test]
fn what_the_members_counted_goes_before_the_levels_factor() {
    // 126 reads and 73 writes make 126 + 3 x 73 = 345 small operations on three members, 115 on each;
    // writes of whole rows cost less
    let recording = |seen: &[&str]| {
        let with = |recording: Recording, disk: &&str| recording.disk(disk, 80.0, 0.01, 0.9);
        seen.iter()
            .fold(Recording::new(20), with)
            .with("physical_disk.reads", "md0", |_| 126.0)
            .with("physical_disk.writes", "md0", |_| 73.0)
            .topology(array(3, DeviceClass::Rotational, RaidLevel::Raid5))
    };
    let rule = "[[rule]]\nid = 'r'\nwhich = 'set'\nall = [{ counter = 'member_load', above = 50 }]\n\
        evidence = ['back_end_load']";
    let verdict = recording(&["sda", "sdb", "sdc"]).by(rule);
    near(only(&verdict).value, 80.0);
    near(only(&verdict).evidence[0].value.unwrap(), 418.0 / 3.0);
    // a member that nobody counted may have done anything
    near(only(&recording(&["sda", "sdb"]).by(rule)).value, 115.0);
}

#[test]
fn load_on_members_of_a_set_without_counters_of_its_own() {
    let mut topology = array(2, DeviceClass::Flash, RaidLevel::Raid1);
    topology.devices[2].name = "btrfs:data".into();
    let recording = Recording::new(20).disk("sda", 90.0, 0.01, 0.9).disk("sdb", 110.0, 0.01, 0.9).topology(topology);
    let verdict = recording.by("[[rule]]\nid = 'r'\nwhich = 'set'\nall = [{ counter = 'back_end_load', above = 50 }]");
    near(only(&verdict).value, 100.0);
    assert_eq!(only(&verdict).instance, "btrfs:data");
}

#[test]
fn the_same_request_is_never_counted_twice() {
    let mut topology = array(2, DeviceClass::Flash, RaidLevel::Raid0);
    topology.devices.push(device("dm-0", DeviceClass::Flash, &["md0"], None));
    topology.devices.push(device("zram0", DeviceClass::Memory, &[], None));
    let recording = Recording::new(20)
        .disk("sda", 50.0, 0.01, 0.5)
        .disk("sdb", 50.0, 0.01, 0.5)
        .disk("md0", 100.0, 0.01, 0.5)
        .disk("dm-0", 100.0, 0.01, 0.5)
        .disk("zram0", 1000.0, 0.00001, 0.01)
        .topology(topology);
    let total = "[[rule]]\nid = 'r'\nwhich = 'total'\nall = [{ counter = 'reads_per_s', above = 0 }]\n\
        evidence = ['avg_s_per_read', 'busy']";
    let finding = recording.by(total).findings.remove(0);
    near(finding.value, 100.0);
    near(finding.evidence[0].value.unwrap(), 0.01);
    near(finding.evidence[1].value.unwrap(), 0.5);
    let machine =
        total.replace("which = 'total'", "object = 'machine'").replace("'reads_per_s'", "'physical_disk.reads_per_s'");
    let machine = machine.replace("'avg_s_per_read', 'busy'", "'physical_disk.busy', 'spindles'");
    let finding = recording.by(&machine).findings.remove(0);
    near(finding.value, 100.0);
    near(finding.evidence[1].value.unwrap(), 2.0);
}

#[test]
fn which_instances_a_rule_is_for() {
    let mut topology = array(2, DeviceClass::Flash, RaidLevel::Raid0);
    topology.devices.push(device("sda1", DeviceClass::Flash, &["sda"], None));
    topology.devices.push(device("sdc", DeviceClass::Rotational, &[], None));
    let recording = ["sda", "sdb", "sdc", "md0", "sda1"]
        .into_iter()
        .fold(Recording::new(10), |r, name| r.disk(name, 10.0, 0.01, 0.1))
        .topology(topology);
    let found = |which: &str| {
        let rule = format!("[[rule]]\nid = 'r'\n{which}\nall = [{{ counter = 'reads_per_s', above = 0 }}]");
        let mut names: Vec<String> = recording.by(&rule).findings.into_iter().map(|f| f.instance).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(found(""), "sda sdb sdc");
    assert_eq!(found("which = 'set'"), "md0");
    assert_eq!(found("which = 'stacked'"), "md0 sda1");
    assert_eq!(found("which = 'all'"), "md0 sda sda1 sdb sdc");
    assert_eq!(found("classes = ['rotational']"), "sdc");
    assert_eq!(found("except_classes = ['rotational', 'memory']"), "sda sdb");
}

#[test]
fn any_needs_one_and_judges_by_what_is_there() {
    let recording = Recording::new(20).disk("sda", 100.0, 0.03, 1.0);
    let rule = |any: &str| format!("[[rule]]\nid = 'r'\nall = [{{ counter = 'busy', above = 0.5 }}]\nany = [{any}]");
    let low = "{ counter = 'avg_queue_length', above = 5 }";
    let high = "{ counter = 'avg_queue_length', above = 2 }";
    let absent = "{ counter = 'pressure.io_some', above = 0.1 }";
    assert!(recording.by(&rule(low)).findings.is_empty());
    assert_eq!(recording.by(&rule(&format!("{low}, {high}"))).findings.len(), 1);
    assert_eq!(recording.by(&rule(&format!("{absent}, {high}"))).findings.len(), 1);
    let unjudged = recording.by(&rule(absent)).unjudged;
    assert_eq!(unjudged[0].missing, ["pressure.io_some"]);
}

#[test]
fn a_rule_of_any_alone_is_told_by_what_held_longest() {
    let recording = Recording::new(20).with("paging.swap_in_pages", "", |i| if i < 4 { 100.0 } else { 0.0 }).with(
        "paging.swap_out_pages",
        "",
        |_| 300.0,
    );
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\nany = [{ counter = 'paging.swap_in_pages_per_s', above = 10 }, \
        { counter = 'paging.swap_out_pages_per_s', above = 200 }]";
    let finding = recording.by(rule).findings.remove(0);
    assert_eq!(finding.counter, "paging.swap_out_pages_per_s");
    near(finding.value, 300.0);
}

#[test]
fn sustained_share_and_time_with_the_cap() {
    // busy in the first 20 of 60 seconds
    let recording = |ticks: usize| {
        Recording::new(ticks).with("physical_disk.busy_time_s", "sda", |i| if i < 20 { 1.0 } else { 0.0 })
    };
    let rule = |sustained: &str| format!("{}sustained = {sustained}", one("counter = 'busy', above = 0.85"));
    let found = |ticks, sustained: &str| recording(ticks).by(&rule(sustained)).findings.len();
    assert_eq!(found(60, "{ share = 0.3 }"), 1);
    assert_eq!(found(60, "{ share = 0.34 }"), 0);
    assert_eq!(found(60, "{ share = 0.1, at_least = '20s' }"), 1);
    assert_eq!(found(60, "{ share = 0.1, at_least = '21s' }"), 0);
    // 60 s are capped at half of the 40 s watched
    assert_eq!(found(40, "{ share = 0.1, at_least = '60s' }"), 1);
    let verdict = recording(40).by(&rule("{ share = 0.1, at_least = '60s' }"));
    assert!(
        verdict.certainty_limits.iter().any(|l| l.contains("window of 40 s is short")),
        "{:?}",
        verdict.certainty_limits
    );
}

#[test]
fn change_against_the_start() {
    // 100 interrupts a second in the first quarter, then 160
    let recording = Recording::new(40).with("interrupts.total", "", |i| if i < 10 { 100.0 } else { 160.0 });
    let rule = |limit: f64| {
        format!(
            "[[rule]]\nid = 'r'\nobject = 'machine'\nall = [{{ counter = 'interrupts.total_per_s', \
            change = {{ against = 'start', share = 0.25 }}, above = {limit} }}]"
        )
    };
    let finding = recording.by(&rule(1.5)).findings.remove(0);
    near(finding.value, 1.6);
    near(finding.share, 1.0);
    assert_eq!(finding.unit, "");
    assert!(recording.by(&rule(1.7)).findings.is_empty());
    // without the window's length nobody knows where its first quarter ends
    let verdict = recording.judge(vec![pack(&rule(1.5))], JudgeOptions::default(), 40).remove(0);
    assert_eq!(verdict.unjudged[0].missing, ["length of the window"]);
}

#[test]
fn steadiness_is_of_the_ticks_inside_the_stretch() {
    let flat = |i: usize| if (10..40).contains(&i) { if i == 10 { 120.0 } else { 250.0 } } else { (i * 7 % 13) as f64 };
    let recording = Recording::new(60)
        .with("physical_disk.reads", "sda", flat)
        .with("physical_disk.writes", "sda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "sda", move |i| if (10..40).contains(&i) { 8.0 } else { 0.1 });
    let rule = "[[rule]]\nid = 'r'\nsustained = { share = 0.3 }\nall = [{ counter = 'avg_queue_length', above = 2 }, \
        { counter = 'transfers_per_s', steadiness = true, below = 0.01 }]";
    assert_eq!(recording.by(rule).findings.len(), 1);
    let rule = "[[rule]]\nid = 'r'\nsustained = { share = 0.3 }\n\
        all = [{ counter = 'transfers_per_s', steadiness = true, below = 0.01 }]";
    assert!(recording.by(rule).findings.is_empty());
}

#[test]
fn trend_is_growth_a_day() {
    let day = 86_400.0;
    let recording = Recording::new(1000).with("memory.available_bytes", "", move |i| 1e9 * (1.0 + i as f64 / day));
    let rule = |limit: f64| {
        format!(
            "[[rule]]\nid = 'r'\nobject = 'machine'\n\
            all = [{{ counter = 'memory.available_bytes', trend = true, above = {limit} }}]"
        )
    };
    let finding = recording.by(&rule(0.9)).findings.remove(0);
    assert!((finding.value - 1.0).abs() < 0.01, "{}", finding.value);
    assert!(recording.by(&rule(1.1)).findings.is_empty());
}

#[test]
fn a_cap_is_seen_by_light_load_and_a_steady_plateau() {
    // 100 reads a second of 1.2 ms, then 250 a second with a queue of 8
    let recording = Recording::new(60)
        .with("physical_disk.reads", "vda", |i| if i < 20 { 100.0 } else { 250.0 })
        .with("physical_disk.writes", "vda", |_| 0.0)
        .with("physical_disk.read_time_s", "vda", |i| if i < 20 { 0.12 } else { 8.0 })
        .with("physical_disk.write_time_s", "vda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "vda", |i| if i < 20 { 0.12 } else { 8.0 });
    let rule = "[[rule]]\nid = 'r'\nbottleneck = 'throttle'\nsustained = { share = 0.3, at_least = '5s' }\nall = [\
        { counter = 'avg_queue_length', above = 2 }, { counter = 'busy_steadiness', below = 0.02 },\
        { counter = 'transfers_per_s', times = 'light_load_s', below = 0.5 }]\nevidence = ['light_load_s']";
    let verdict = recording.by(rule);
    near(only(&verdict).evidence[0].value.unwrap(), 0.0012);
    // 250 x 1.2 ms are 0.3
    assert!(recording.by(&rule.replace("below = 0.5", "below = 0.29")).findings.is_empty());
    assert_eq!(recording.by(&rule.replace("below = 0.5", "below = 0.31")).findings.len(), 1);
}

#[test]
fn a_cap_is_seen_after_a_burst_with_little_waiting() {
    // 900 a second of 1.3 ms (1.2 outstanding), then 300 of 30 ms: never idle, and on two levels
    let volume = |early_s: f64| {
        Recording::new(30)
            .with("physical_disk.reads", "vda", |i| if i < 10 { 900.0 } else { 300.0 })
            .with("physical_disk.writes", "vda", |_| 0.0)
            .with("physical_disk.read_time_s", "vda", move |i| if i < 10 { 900.0 * early_s } else { 9.0 })
            .with("physical_disk.write_time_s", "vda", |_| 0.0)
            .with("physical_disk.weighted_time_s", "vda", move |i| if i < 10 { 900.0 * early_s } else { 9.0 })
    };
    let verdict = volume(0.0013).by_default();
    assert_eq!(verdict.findings[0].rule, "throttle.volume-cap");
    assert_eq!(verdict.bottleneck, Bottleneck::Throttle);
    // one that had as much waiting before tells nothing of what it could do
    let verdict = volume(0.0100).by_default();
    assert!(verdict.findings.iter().all(|f| f.rule != "throttle.volume-cap"));
}

#[test]
fn larger_requests_under_load_are_no_cap() {
    // 100 reads a second of 4 KiB and 0.1 ms, then 1,000 a second with a queue of 4
    let found = |late_bytes: f64| -> Vec<String> {
        let recording = Recording::new(30)
            .with("physical_disk.reads", "vda", |i| if i < 10 { 100.0 } else { 1000.0 })
            .with("physical_disk.writes", "vda", |_| 0.0)
            .with("physical_disk.read_bytes", "vda", move |i| if i < 10 { 409_600.0 } else { 1000.0 * late_bytes })
            .with("physical_disk.write_bytes", "vda", |_| 0.0)
            .with("physical_disk.read_time_s", "vda", |i| if i < 10 { 0.01 } else { 4.0 })
            .with("physical_disk.write_time_s", "vda", |_| 0.0)
            .with("physical_disk.weighted_time_s", "vda", |i| if i < 10 { 0.01 } else { 4.0 });
        recording.by_default().findings.iter().map(|finding| finding.rule.clone()).collect()
    };
    let as_large = found(4096.0);
    assert!(as_large.iter().any(|rule| rule == "throttle.volume-cap"), "{as_large:?}");
    // half a gigabyte a second may be all that the disk can do
    let larger = found(524_288.0);
    assert!(larger.iter().all(|rule| rule != "throttle.volume-cap"), "{larger:?}");
    assert!(larger.iter().any(|rule| rule == "disk.larger-under-load"), "{larger:?}");
}

#[test]
fn a_slow_member_stands_out_from_its_fellows() {
    let set = |slow: f64| {
        Recording::new(20)
            .disk("sda", 50.0, 0.002, 0.1)
            .disk("sdb", 50.0, slow, 1.0)
            .disk("sdc", 50.0, 0.003, 0.15)
            .disk("sdd", 50.0, 0.004, 0.2)
            .topology(array(4, DeviceClass::Flash, RaidLevel::Raid0))
    };
    let rule = one("counter = 'member_latency_ratio', above = 3");
    let verdict = set(0.030).by(&rule);
    assert_eq!(verdict.instance, "sdb");
    // 30 ms over the median of 2, 3 and 4 ms
    near(only(&verdict).value, 10.0);
    assert!(set(0.008).by(&rule).findings.is_empty());
    let queue = set(0.030).by(&one("counter = 'member_queue_ratio', above = 3"));
    near(only(&queue).value, 10.0);
    // a disk in no set is not judged by its fellows, and nothing is missing
    let alone = Recording::new(20).disk("sda", 50.0, 0.002, 0.1).by(&rule);
    assert!(alone.findings.is_empty() && alone.unjudged.is_empty());
}

#[test]
fn rules_for_roles_apply_only_with_that_role() {
    let rule = format!("{}roles = ['file-server']", one("counter = 'reads_per_s', above = 10"));
    let recording = Recording::new(10).disk("sda", 100.0, 0.001, 0.1);
    assert!(recording.by(&rule).findings.is_empty());
    let options = JudgeOptions { role: Some("file-server".into()), ..recording.options() };
    assert_eq!(recording.judge(vec![pack(&rule)], options, 10)[0].findings.len(), 1);
}

#[test]
fn rules_that_a_role_makes_useless_do_not_apply_with_that_role() {
    let rule = format!("{}except_roles = ['data-warehouse']", one("counter = 'reads_per_s', above = 10"));
    let recording = Recording::new(10).disk("sda", 100.0, 0.001, 0.1);
    let found = |role: Option<&str>| {
        let options = JudgeOptions { role: role.map(str::to_owned), ..recording.options() };
        recording.judge(vec![pack(&rule)], options, 10)[0].findings.len()
    };
    assert_eq!([found(None), found(Some("file-server")), found(Some("data-warehouse"))], [1, 1, 0]);
}

#[test]
fn groups_devices_and_limits() {
    let recording = Recording::new(20)
        .with("cgroup.reads", "/jobs@sda", |_| 299.0)
        .with("cgroup.writes", "/jobs@sda", |_| 0.0)
        .with("cgroup.read_limit_per_s", "/jobs@sda", |_| 300.0)
        .with("cgroup.io_some_s", "/jobs", |_| 0.9)
        .disk("sda", 299.0, 0.0001, 0.03)
        .disk("sdb", 0.0, 0.0, 0.0);
    let rule = "[[rule]]\nid = 'r'\nobject = 'cgroup'\nbottleneck = 'throttle'\n\
        all = [{ counter = 'read_limit_used', above = 0.9 }]\nevidence = ['io_some', 'physical_disk.busy']";
    let verdict = recording.by(rule);
    assert_eq!(verdict.instance, "/jobs@sda");
    near(only(&verdict).value, 299.0 / 300.0);
    // of the group itself, and of the disk that the instance names
    near(only(&verdict).evidence[0].value.unwrap(), 0.9);
    near(only(&verdict).evidence[1].value.unwrap(), 0.03);
    // nobody set a write limit
    let writes = rule.replace("read_limit_used", "write_limit_used");
    assert_eq!(recording.by(&writes).unjudged.len(), 1);
    assert!(recording.by(&format!("{writes}\nabsent = 'inapplicable'")).unjudged.is_empty());
}

#[test]
fn processors_one_by_one_and_together() {
    let cpu = |r: Recording, name: &str, busy: f64| {
        r.with("processor.user_s", name, move |_| busy)
            .with("processor.idle_s", name, move |_| 1.0 - busy)
            .with("processor.nice_s", name, |_| 0.0)
            .with("processor.system_s", name, |_| 0.0)
            .with("processor.iowait_s", name, |_| 0.0)
            .with("processor.irq_s", name, |_| 0.0)
            .with("processor.softirq_s", name, |_| 0.0)
            .with("processor.steal_s", name, |_| 0.0)
    };
    let recording = cpu(cpu(cpu(Recording::new(10), "_total", 0.6), "cpu0", 1.0), "cpu1", 0.2);
    let each = recording.by("[[rule]]\nid = 'r'\nobject = 'processor'\nall = [{ counter = 'busy', above = 0.5 }]");
    assert_eq!(only(&each).instance, "cpu0");
    let all =
        recording.by("[[rule]]\nid = 'r'\nobject = 'machine'\nall = [{ counter = 'processor.busy', above = 0.5 }]");
    near(only(&all).value, 0.6);
}

#[test]
fn background_work_is_told_apart() {
    let recording = Recording::new(20)
        .disk("sda", 100.0, 0.01, 0.9)
        .disk("sdb", 100.0, 0.01, 0.9)
        .with("array.background", "md0", |i| if i < 12 { 1.0 } else { 0.0 })
        .with("array.sync_bytes", "md0", |i| if i < 12 { 307_200.0 } else { 0.0 })
        .topology(array(2, DeviceClass::Rotational, RaidLevel::Raid1));
    let rule = format!("{}evidence = ['background_share']", one("counter = 'background', above = 0"));
    let verdict = recording.by(&rule);
    near(verdict.findings[0].share, 0.6);
    // 307 200 of 409 600 bytes a second
    near(verdict.findings[0].evidence[0].value.unwrap(), 0.75);
}

#[test]
fn waiting_is_derived_from_the_best_counter_of_the_log() {
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\nall = [{ counter = 'waiting', above = 0 }]";
    let value = |r: Recording| only(&r.by(rule)).value;
    near(value(Recording::new(10).with("pressure.io_some_s", "", |_| 0.3).with("system.blocked", "", |_| 9.0)), 0.3);
    near(value(Recording::new(10).with("system.blocked", "", |_| 3.0)), 1.0);
    near(value(Recording::new(10).with("processor.iowait", "_total", |_| 0.2)), 0.2);
}

#[test]
fn an_amount_adds_up_instead_of_averaging() {
    let recording = Recording::new(60).with("paging.oom_kills", "", |i| if i % 20 == 7 { 2.0 } else { 0.0 });
    let rule = "[[rule]]\nid = 'r'\nobject = 'machine'\nsustained = { share = 0 }\n\
        all = [{ counter = 'paging.oom_kills', above = 0 }]";
    near(only(&recording.by(rule)).value, 6.0);
}

#[test]
fn a_link_of_two_directions_is_as_full_as_the_busier_one() {
    let sas = "pci0000:00/0000:00:05.0/host0/port-0:0/end_device-0:0/target0:0:0";
    let fibre = "pci0000:00/0000:00:06.0/host1/rport-1:0-2/target1:0:0";
    let sata = "pci0000:00/0000:00:1f.2/ata1/host2/target2:0:0";
    let cases = [
        (DeviceClass::Nvme, "", 0.4),
        (DeviceClass::Rotational, sas, 0.4),
        (DeviceClass::Flash, fibre, 0.4),
        (DeviceClass::Flash, sata, 0.7),
        (DeviceClass::Flash, "", 0.7),
    ];
    for (class, path, used) in cases {
        let mut sda = device("sda", class, &[], None);
        sda.link_bytes_per_s = Some(1e6);
        sda.path = Some(path.to_owned()).filter(|path| !path.is_empty());
        let topology = Topology { devices: vec![sda], ..Topology::default() };
        let recording = Recording::new(10)
            .with("physical_disk.reads", "sda", |_| 100.0)
            .with("physical_disk.writes", "sda", |_| 75.0)
            .with("physical_disk.read_bytes", "sda", |_| 4e5)
            .with("physical_disk.write_bytes", "sda", |_| 3e5)
            .topology(topology);
        near(only(&recording.by(&one("counter = 'link_used', above = 0"))).value, used);
    }
}

#[test]
fn links_ceilings_and_memory_come_from_outside_the_log() {
    let mut sda = device("sda", DeviceClass::Nvme, &[], None);
    sda.link_bytes_per_s = Some(819_200.0);
    let swap =
        |device: &str, bytes| diskwright_base::topology::Swap { device: device.into(), bytes, ..Default::default() };
    let topology = Topology {
        devices: vec![sda, device("zram0", DeviceClass::Memory, &[], None)],
        memory_bytes: 8 << 30,
        swaps: vec![swap("zram0", 3 << 30), swap("sda", 1 << 30)],
        ..Topology::default()
    };
    let recording = Recording::new(10).disk("sda", 100.0, 0.001, 0.1).topology(topology);
    near(only(&recording.by(&one("counter = 'link_used', above = 0"))).value, 0.5);
    let machine = "[[rule]]\nid = 'r'\nobject = 'machine'\n\
        all = [{ counter = 'swap_in_memory', above = 0 }]\nevidence = ['memory_bytes']";
    let verdict = recording.by(machine);
    near(only(&verdict).value, 0.75);
    near(only(&verdict).evidence[0].value.unwrap(), (8u64 << 30) as f64);
    let rule = one("counter = 'reads_per_s', above = 'ceiling.requests_per_s', limit_times = 0.9");
    assert_eq!(recording.by(&rule).unjudged[0].missing, ["physical_disk.ceiling.requests_per_s"]);
    let ceiling =
        diskwright_diagnosis::Ceiling { device: "sda".into(), requests_per_s: Some(105.0), ..Default::default() };
    let options = JudgeOptions { ceilings: vec![ceiling], ..recording.options() };
    near(only(&recording.judge(vec![pack(&rule)], options, 10)[0]).limit, 94.5);
}

#[test]
fn ready_made_counters_of_a_log_are_used() {
    let recording = Recording::new(10).with("physical_disk.avg_queue_length", "0 C:", |_| 3.0).with(
        "physical_disk.avg_queue_length",
        "_Total",
        |_| 3.0,
    );
    let verdict = recording.by(&one("counter = 'avg_queue_length', above = 2"));
    assert_eq!(only(&verdict).instance, "0 C:");
}
