//! From findings to one answer: which bottleneck wins, what is ruled out and
//! in which words, how sure it is.

use crate::common::*;
use diskwright_base::{DeviceClass, Note, ProcessRow, ProcessTable, RaidLevel, RecordingCost, Topology};
use diskwright_diagnosis::{Bottleneck, Judge, JudgeOptions};

/// A rule about `system.running` that holds, for a bottleneck.
fn rule(id: &str, bottleneck: &str, more: &str) -> String {
    format!(
        "[[rule]]\nid = '{id}'\nobject = 'machine'\nbottleneck = '{bottleneck}'\n\
        all = [{{ counter = 'system.running', above = 1 }}]\n{more}\n"
    )
}

fn running() -> Recording {
    Recording::new(60).with("system.running", "", |_| 4.0).with("pressure.io_some_s", "", |_| 0.0)
}

fn answer(rules: &[String]) -> Bottleneck {
    running().by(&rules.concat()).bottleneck
}

#[test]
fn the_finding_with_the_largest_weight_is_the_answer() {
    assert_eq!(answer(&[rule("a", "cpu", "weight = 0.8"), rule("b", "disk", "weight = 0.9")]), Bottleneck::Disk);
    assert_eq!(answer(&[rule("a", "cpu", "weight = 0.8"), rule("b", "disk", "weight = 0.7")]), Bottleneck::Cpu);
}

#[test]
fn memory_comes_before_disk_unless_it_is_much_weaker() {
    let disk = rule("d", "disk", "weight = 1.2");
    assert_eq!(answer(&[disk.clone(), rule("m", "memory", "severity = 'warning'")]), Bottleneck::Memory);
    assert_eq!(answer(&[disk, rule("m", "memory", "weight = 0.5")]), Bottleneck::Disk);
    // which is between memory and disk alone
    let cpu = rule("c", "cpu", "weight = 1.2");
    assert_eq!(answer(&[cpu, rule("m", "memory", "severity = 'warning'")]), Bottleneck::Cpu);
}

#[test]
fn equal_scores_follow_the_order_of_suspicion() {
    let order = ["memory", "disk", "cpu", "interrupts", "channel", "controller", "network", "application", "throttle"];
    for pair in order.windows(2) {
        let verdict = running().by(&[rule("z", pair[0], ""), rule("a", pair[1], "")].concat());
        assert_eq!(verdict.bottleneck.name(), pair[0]);
    }
}

#[test]
fn info_rules_blame_nothing() {
    let verdict = running().by(&[rule("a", "disk", "severity = 'info'"), rule("b", "none", "")].concat());
    assert_eq!(verdict.bottleneck, Bottleneck::None);
    assert_eq!(verdict.findings.len(), 2);
    assert!(verdict.sentence.starts_with("No bottleneck found"), "{}", verdict.sentence);
}

#[test]
fn one_rule_sets_another_aside_but_only_where_it_is_a_finding_itself() {
    let all = [rule("a", "memory", ""), rule("b", "disk", "none = ['a']"), rule("c", "cpu", "none = ['b']")];
    let verdict = running().by(&all.concat());
    let found: Vec<&str> = verdict.findings.iter().map(|f| f.rule.as_str()).collect();
    assert_eq!(found, ["a", "c"]);
    assert_eq!(verdict.set_aside[0].because, "a explains it");
    let ruled_out = verdict.ruled_out.iter().find(|r| r.bottleneck == Bottleneck::Disk).unwrap();
    assert_eq!(ruled_out.because, "it is so, but a explains it");
}

#[test]
fn on_the_same_object_a_rule_explains_only_the_same_instance() {
    let rules = "[[rule]]\nid = 'full'\nall = [{ counter = 'busy', above = 0.8 }]\n\
        [[rule]]\nid = 'used'\nbottleneck = 'none'\nnone = ['full']\nall = [{ counter = 'busy', above = 0.5 }]\n";
    let verdict = Recording::new(20).disk("sda", 10.0, 0.1, 0.9).disk("sdb", 10.0, 0.1, 0.6).by(rules);
    let found: Vec<String> = verdict.findings.iter().map(|f| format!("{} {}", f.rule, f.instance)).collect();
    assert_eq!(found, ["full sda", "used sdb"]);
    assert_eq!(verdict.set_aside[0].instance, "sda");
}

#[test]
fn exclusions_give_numbers() {
    let rules = [
        rule("cpu", "cpu", ""),
        "[[rule]]\nid = 'm'\nobject = 'machine'\nbottleneck = 'memory'\nall = [\
        { counter = 'paging.swap_in_pages_per_s', above = 10 }, { counter = 'pressure.memory_some', above = 0.1 }]\n"
            .into(),
        "[[rule]]\nid = 'd'\nall = [{ counter = 'avg_queue_length', above = 2 }]\n".into(),
        "[[rule]]\nid = 'n'\nobject = 'network'\nbottleneck = 'network'\n\
        all = [{ counter = 'received_bytes_per_s', above = 1e6 }]\n"
            .into(),
    ];
    let recording = running()
        .with("paging.swap_in_pages", "", |_| 4.0)
        .with("pressure.memory_some_s", "", |_| 0.002)
        .disk("sda", 10.0, 0.03, 0.3)
        .disk("sdb", 50.0, 0.03, 0.9);
    let verdict = recording.by(&rules.concat());
    let because = |b: Bottleneck| verdict.ruled_out.iter().find(|r| r.bottleneck == b).map(|r| r.because.as_str());
    // the condition that was furthest from holding
    assert_eq!(because(Bottleneck::Memory), Some("memory pressure (some) 0.2 % (limit 10 %)"));
    // the disk that came nearest
    assert_eq!(because(Bottleneck::Disk), Some("average queue length 1.5 requests on sdb (limit 2)"));
    // what could not be judged is never ruled out
    assert_eq!(because(Bottleneck::Network), None);
    assert_eq!(verdict.unjudged[0].missing, ["network.received_bytes_per_s"]);
    assert_eq!(because(Bottleneck::Cpu), None);
}

#[test]
fn a_rule_that_held_too_briefly_is_excluded_with_its_time() {
    let recording = Recording::new(100).with("system.running", "", |i| if i < 20 { 1000.0 } else { 0.0 });
    let verdict = recording.by(&rule("r", "cpu", ""));
    assert_eq!(verdict.ruled_out[0].because, "it is so held for only 20 % of the time (50 % needed)");
}

#[test]
fn an_unjudged_suspect_is_told_and_lowers_confidence() {
    let memory = "[[rule]]\nid = 'm'\nobject = 'machine'\nbottleneck = 'memory'\n\
        all = [{ counter = 'pressure.memory_some', above = 0.1 }]\n";
    let with = running().by(&format!("{}{memory}", rule("d", "disk", "")));
    let without = running().by(&rule("d", "disk", ""));
    assert!(with.confidence < without.confidence);
    let expected = "memory could not be judged: pressure.memory_some missing";
    assert!(with.certainty_limits.iter().any(|l| l == expected), "{:?}", with.certainty_limits);
}

#[test]
fn short_windows_steal_and_rivals_lower_confidence() {
    let by = |r: &Recording, rules: &str| r.by(rules).confidence;
    let long = by(&running(), &rule("d", "disk", ""));
    let mut few = running();
    few.ticks = 5;
    let short = by(&few, &rule("d", "disk", ""));
    assert!(short < long && long > 0.9, "{short} {long}");
    let stolen = by(&running().with("processor.steal", "_total", |_| 0.2), &rule("d", "disk", ""));
    assert!(stolen < long);
    let rival = by(&running(), &[rule("d", "disk", ""), rule("c", "application", "weight = 0.95")].concat());
    assert!(rival < long);
    let beside = by(&running(), &[rule("d", "disk", ""), rule("c", "cpu", "weight = 0.95")].concat());
    assert_eq!(beside, long, "a second bottleneck makes the first no less certain");
    let verdict = running().with("processor.steal", "_total", |_| 0.2).by(&rule("d", "disk", ""));
    assert!(verdict.certainty_limits[0].contains("withheld 20 %"), "{:?}", verdict.certainty_limits);
}

#[test]
fn a_set_is_named_where_all_its_members_show_the_same() {
    let rules = one("counter = 'avg_queue_length', above = 2");
    let set = |slow: f64| {
        Recording::new(20)
            .disk("sda", 100.0, 0.03, 1.0)
            .disk("sdb", 100.0, slow, 1.0)
            .topology(array(2, DeviceClass::Flash, RaidLevel::Raid0))
            .by(&rules)
            .instance
    };
    assert_eq!(set(0.04), "md0");
    assert_eq!(set(0.01), "sda");
}

#[test]
fn a_group_is_named_before_the_groups_that_contain_it() {
    let recording = ["/", "/jobs", "/jobs/fio", "/other"].into_iter().fold(Recording::new(20), |r, group| {
        r.with("cgroup.memory_some_s", group, move |_| if group == "/other" { 0.21 } else { 0.5 })
    });
    let rules = "[[rule]]\nid = 'r'\nobject = 'cgroup'\nbottleneck = 'memory'\n\
        all = [{ counter = 'memory_some', above = 0.2 }]\n";
    assert_eq!(recording.by(rules).instance, "/jobs/fio");
}

#[test]
fn advice_is_of_the_answer_cheapest_first_and_each_once() {
    let verdict = running().by(&[
        rule("a", "disk", "advice = ['disk.more-spindles', 'disk.find-process']"),
        rule("b", "disk", "advice = ['disk.find-process', 'disk.dirty-limits']"),
        rule("c", "cpu", "weight = 0.4\nadvice = ['cpu.add']"),
    ]
    .concat());
    let costs: Vec<u8> = verdict.advice.iter().map(|a| a.cost).collect();
    assert_eq!(verdict.advice.len(), 3);
    assert!(costs.is_sorted(), "{costs:?}");
    assert!(verdict.advice.iter().all(|a| a.id.starts_with("disk.")));
}

#[test]
fn notes_name_culprits_gaps_and_the_host() {
    let recording = running();
    let mut judge = Judge::new(vec![pack(&rule("d", "disk", ""))], recording.options());
    let topology = Topology { host: "server7".into(), ..Topology::default() };
    let reader = ProcessRow { pid: 42, name: "fio".into(), read_bytes_per_s: Some(5e6), ..ProcessRow::default() };
    let table = ProcessTable { elapsed_s: 5.0, unreadable: 3, rows: vec![reader], ..ProcessTable::default() };
    judge.add_note(&Note::new(START, Note::TOPOLOGY, serde_json::to_string(&topology).unwrap()));
    judge.add_note(&Note::new(START, Note::PROCESSES, serde_json::to_string(&table).unwrap()));
    judge.add_note(&Note::new(START, Note::GAP, "sdb vanished"));
    judge.add_note(&Note::new(START, Note::CLOCK, "stepped by 3 s"));
    let cost = RecordingCost { seconds: 60.0, processor_s: 1.5, resident_bytes: Some(40e6), ticks: 60 };
    judge.add_note(&Note::cost(START, &cost));
    judge.add_note(&Note::new(START, Note::PROCESSES, "{ no table"));
    judge.add_frame(&recording.frame(0..60));
    let verdict = judge.finish().remove(0);
    assert_eq!(verdict.host, "server7");
    assert_eq!((verdict.culprits[0].pid, verdict.culprits[0].description.as_str()), (Some(42), "reads 5 MB/s"));
    assert_eq!(verdict.window.gaps, 1);
    assert_eq!(verdict.notes.iter().filter(|n| n.kind == "warning").count(), 1);
    let cost = "recording itself took 2.5 % of one processor and 38.1 MiB";
    for expected in ["the log has 1 gap", "clock was stepped", "the I/O of 3 processes", cost] {
        assert!(
            verdict.certainty_limits.iter().any(|l| l.contains(expected)),
            "{expected}: {:?}",
            verdict.certainty_limits
        );
    }
}

#[test]
fn a_recorder_that_costs_little_is_not_told() {
    let recording = running();
    let mut judge = Judge::new(vec![pack(&rule("d", "disk", ""))], recording.options());
    let cost = RecordingCost { seconds: 3600.0, processor_s: 20.0, ..RecordingCost::default() };
    judge.add_note(&Note::cost(START, &cost));
    judge.add_note(&Note::new(START, Note::COST, "{ cut"));
    judge.add_frame(&recording.frame(0..60));
    let verdict = judge.finish().remove(0);
    assert!(verdict.certainty_limits.iter().all(|l| !l.contains("recording itself")), "{:?}", verdict.certainty_limits);
}

#[test]
fn an_empty_window_gives_no_findings() {
    let verdict = Judge::new(vec![pack(&rule("d", "disk", ""))], JudgeOptions::default()).finish().remove(0);
    assert_eq!((verdict.bottleneck, verdict.confidence), (Bottleneck::Unknown, 0.0));
    assert_eq!(verdict.sentence, "Not enough data: nothing was recorded in this time.");
}

#[test]
fn the_json_contract_has_its_fields() {
    let verdict = Recording::new(20).disk("sda", 100.0, 0.03, 1.0).by(&one("counter = 'avg_queue_length', above = 2"));
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(json["schema"], "diskwright.verdict/1");
    assert_eq!(json["bottleneck"], "disk");
    let has = |value: &serde_json::Value, keys: &str| {
        for key in keys.split(' ') {
            assert!(value.get(key).is_some(), "{key} is missing");
        }
    };
    has(&json, "bottleneck instance confidence findings ruled_out unjudged culprits advice window");
    has(&json["findings"][0], "rule severity object instance counter value limit unit share from to");
    has(&json["window"], "from to seconds ticks gaps");
    let expected =
        "The disk sda is the bottleneck: it is so (average queue length 3 requests, limit 2; 100 % of 20 s).";
    assert_eq!(verdict.sentence, expected);
}

#[test]
fn an_episode_is_not_hidden_by_another_disks() {
    let queue = |of: f64| move |i: usize| if (100..200).contains(&i) { of } else { 0.1 };
    let recording = Recording::new(1200).with("physical_disk.avg_queue_length", "sda", queue(3.0)).with(
        "physical_disk.avg_queue_length",
        "sdb",
        queue(1.5),
    );
    let rules = "[[rule]]\nid = 'r'\nall = [{ counter = 'avg_queue_length', above = 2 }]\n\
                 [[rule]]\nid = 's'\nall = [{ counter = 'avg_queue_length', above = 1 }]\nnone = ['r']\n";
    let episodes = recording.by(rules).episodes;
    let found: Vec<(&str, &str)> = episodes.iter().map(|e| (e.rule.as_str(), e.instance.as_str())).collect();
    assert_eq!(found, [("r", "sda"), ("s", "sdb")]);
}

#[test]
fn a_disk_explains_nothing_of_an_array_that_it_is_not_in() {
    let rules = "[[rule]]\nid = 'r'\nall = [{ counter = 'avg_queue_length', above = 2 }]\n\
                 [[rule]]\nid = 's'\nwhich = 'set'\nnone = ['r']\n\
                 all = [{ counter = 'avg_queue_length', above = 0.5 }]\n";
    let mut topology = array(2, DeviceClass::Flash, RaidLevel::Raid0);
    topology.devices.push(device("sdc", DeviceClass::Flash, &[], None));
    let found = |queues: [f64; 3]| {
        let disks = ["sda", "sdb", "sdc"].into_iter().zip(queues);
        let recording = disks.fold(Recording::new(20), |r, (name, queue)| r.disk(name, 100.0, queue / 100.0, 1.0));
        let verdict = recording.topology(topology.clone()).by(rules);
        verdict.findings.iter().any(|f| f.rule == "s" && f.instance == "md0")
    };
    assert!(found([1.0, 1.0, 3.0]), "its own disks show nothing of it");
    assert!(!found([3.0, 1.0, 0.1]), "one of its disks explains it");
}

#[test]
fn a_cgroups_limit_explains_only_the_disk_that_it_is_for() {
    let rules = "[[rule]]\nid = 'quota'\nobject = 'cgroup'\nbottleneck = 'throttle'\n\
                 all = [{ counter = 'cpu_throttled', above = 0.5 }]\n\
                 [[rule]]\nid = 'limit'\nobject = 'cgroup'\nbottleneck = 'throttle'\n\
                 all = [{ counter = 'read_limit_used', above = 0.9 }]\n\
                 [[rule]]\nid = 'queue'\nnone = ['quota', 'limit']\n\
                 all = [{ counter = 'avg_queue_length', above = 2 }]\n";
    let devices = ["sda", "sdb"].map(|name| device(name, DeviceClass::Flash, &[], None));
    let topology = Topology { devices: devices.into(), ..Topology::default() };
    let found = |limited: &str| {
        let recording = Recording::new(20).topology(topology.clone()).disk("sda", 100.0, 0.03, 1.0);
        let recording = recording.with("cgroup.cpu_throttled", "/web", |_| 0.9);
        let verdict = recording.with("cgroup.read_limit_used", limited, |_| 0.95).by(rules);
        verdict.findings.iter().any(|f| f.rule == "queue")
    };
    assert!(found("/jobs@sdb"), "neither a limit on another disk nor one of processor time is why");
    assert!(!found("/jobs@sda"));
    assert!(!found("/jobs@8:0"), "the log does not show which disk that is");
}
