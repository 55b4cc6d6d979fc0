//! Logical disks in the place of physical ones, as Windows logs bring them.

use crate::common::*;
use diskwright_base::{Device, DeviceClass, Note, RaidLevel, Topology};
use diskwright_diagnosis::recording_hints::LogOrigin;
use diskwright_diagnosis::{Judge, Verdict, packs};

/// A Windows log of two letters, ready-made, of which C: is slow and full of
/// requests; `object` is what the logger was told to record.
fn letters(object: &'static str) -> Recording {
    let mut recording = Recording::new(40).every(15);
    for (instance, queue, latency, reads) in
        [("C:", 4.0, 0.04, 100.0), ("D:", 0.01, 0.002, 5.0), ("_Total", 4.01, 0.038, 105.0)]
    {
        recording = recording
            .with(&format!("{object}.avg_queue_length"), instance, move |_| queue)
            .with(&format!("{object}.avg_read_queue_length"), instance, move |_| queue)
            .with(&format!("{object}.avg_s_per_transfer"), instance, move |_| latency)
            .with(&format!("{object}.transfers_per_s"), instance, move |_| reads);
    }
    recording
}

fn names_stand_ins(verdict: &Verdict) -> bool {
    verdict.certainty_limits.iter().any(|limit| limit.contains("logical disks"))
}

#[test]
fn a_log_of_letters_alone_is_judged_by_them_and_says_so() {
    let verdict = letters("logical_disk").by_default();
    assert_eq!((verdict.bottleneck.name(), verdict.instance.as_str()), ("disk", "C:"), "{}", verdict.sentence);
    let finding = &verdict.findings[0];
    assert_eq!((finding.rule.as_str(), finding.object.as_str()), ("disk.saturated", "logical_disk"));
    assert_eq!(finding.counter, "logical_disk.avg_queue_length");
    assert!(finding.evidence.iter().any(|e| e.counter == "logical_disk.transfers_per_s" && e.value == Some(100.0)));
    assert!(verdict.findings.iter().all(|f| f.instance != "_Total"), "a sum is no disk");
    assert!(names_stand_ins(&verdict), "{:?}", verdict.certainty_limits);
    assert!(!verdict.unjudged.iter().any(|u| u.rule == "disk.saturated"));
    // what letters cannot have stays unjudged, and names the disk's counter
    let stuck = verdict.unjudged.iter().find(|u| u.rule == "disk.stalled").unwrap();
    assert_eq!(stuck.missing, ["physical_disk.stalled", "pressure.io_some"]);
}

#[test]
fn a_physical_disk_of_another_set_of_counters_does_not_stand_in_the_way() {
    let verdict = letters("logical_disk").with("physical_disk.current_queue_length", "0 C: D:", |_| 4.0).by_default();
    assert_eq!((verdict.bottleneck.name(), verdict.instance.as_str()), ("disk", "C:"));
    assert!(names_stand_ins(&verdict));
}

#[test]
fn where_disks_can_be_judged_letters_are_left_alone() {
    let mut recording = letters("logical_disk");
    for short in ["avg_queue_length", "avg_read_queue_length", "avg_s_per_transfer", "transfers_per_s"] {
        recording = recording.with(&format!("physical_disk.{short}"), "0 C: D:", |_| 0.001);
    }
    let verdict = recording.by_default();
    assert_eq!(verdict.bottleneck.name(), "none", "{}", verdict.sentence);
    // of disks alone nobody can be sure that nothing holds the machine back
    assert!(verdict.confidence < 0.4, "{}", verdict.confidence);
    assert!(verdict.findings.iter().all(|f| f.object != "logical_disk"));
    let judged = letters("physical_disk").by_default();
    assert_eq!((judged.instance.as_str(), names_stand_ins(&judged)), ("C:", false));
}

#[test]
fn rules_of_a_class_or_a_set_have_no_stand_in() {
    let rules = "
        [[rule]]
        id = 'class'
        classes = ['rotational']
        all = [{ counter = 'avg_queue_length', above = 1 }]
        [[rule]]
        id = 'set'
        which = 'set'
        all = [{ counter = 'avg_queue_length', above = 1 }]
        [[rule]]
        id = 'probe'
        all = [{ counter = 'transfers_per_s', above = 'ceiling.requests_per_s' }]
        [[rule]]
        id = 'sum'
        object = 'machine'
        all = [{ counter = 'physical_disk.transfers_per_s', above = 104 }]";
    let verdict = letters("logical_disk").by(rules);
    assert_eq!(only(&verdict).rule, "sum");
    near(only(&verdict).value, 105.0);
    assert_eq!(only(&verdict).counter, "logical_disk.transfers_per_s");
    let unjudged: Vec<&str> = verdict.unjudged.iter().map(|u| u.rule.as_str()).collect();
    assert_eq!(unjudged, ["class", "set", "probe"]);
}

/// PAL has rules for both objects: its rules on disks wait for disks.
#[test]
fn a_pack_may_forbid_stand_ins() {
    let pal = packs::builtin_pack("pal").unwrap().unwrap();
    let recording = letters("logical_disk");
    let verdict = recording.judge(vec![pal], recording.options(), 40).remove(0);
    assert!(verdict.findings.iter().any(|f| f.rule == "disk.logical-slow-25" && f.instance == "C:"));
    assert!(verdict.unjudged.iter().any(|u| u.rule == "disk.physical-queue"));
    assert!(!names_stand_ins(&verdict));
}

#[test]
fn missing_counters_are_named_in_the_words_of_the_recording_tool() {
    let recording = letters("logical_disk");
    let mut judge = Judge::new(vec![packs::builtin_pack("default").unwrap().unwrap()], recording.options());
    judge.add_note(&Note::new(START, Note::SOURCE, "perfmon-text"));
    judge.add_frame(&recording.frame(0..40));
    let verdict = judge.finish().remove(0);
    assert_eq!(verdict.missing.source, LogOrigin::Perfmon);
    assert!(verdict.notes.is_empty(), "it is no remark: {:?}", verdict.notes);
    assert!(verdict.missing.counters.contains(&"memory.available_fraction".to_owned()));
    assert!(
        verdict.missing.instructions[0].contains(r"\PhysicalDisk(*)\Avg. Disk Queue Length"),
        "{:?}",
        verdict.missing.instructions
    );
    assert!(
        verdict.missing.unavailable.iter().any(|n| n.contains("pressure.memory_some")),
        "{:?}",
        verdict.missing.unavailable
    );
    let ours = recording.by_default();
    assert_eq!(ours.missing.source, LogOrigin::Live);
}

/// Usual counters of Windows logs: only the reads and their times show whether tasks wait.
#[test]
fn reads_that_wait_are_seen_in_rates_and_times() {
    let log = |reads: f64| {
        Recording::new(40)
            .every(15)
            .with("physical_disk.avg_queue_length", "0 C:", |_| 4.0)
            .with("physical_disk.avg_s_per_transfer", "0 C:", |_| 0.015)
            .with("physical_disk.avg_s_per_read", "0 C:", |_| 0.015)
            .with("physical_disk.reads_per_s", "0 C:", move |_| reads)
            .by_default()
    };
    assert_eq!(log(100.0).findings[0].rule, "disk.saturated", "1.5 reads outstanding");
    assert!(log(50.0).findings.is_empty(), "0.75");
}

#[test]
fn paging_on_windows_is_memory_and_not_its_disk() {
    let log = |available: f64| {
        Recording::new(40)
            .every(15)
            .with("physical_disk.avg_queue_length", "0 C:", |_| 6.0)
            .with("physical_disk.avg_s_per_transfer", "0 C:", |_| 0.030)
            .with("paging.pages_per_s", "", |_| 900.0)
            .with("memory.available_bytes", "", move |_| available)
            .by_default()
    };
    let short = log(20e6);
    assert_eq!((short.bottleneck.name(), short.findings[0].rule.as_str()), ("memory", "memory.pages-sinking"));
    // mapped files are read with pages too: with memory to spare it is the disk
    assert_eq!(log(4e9).bottleneck.name(), "disk");
}

#[test]
fn a_log_without_waiting_counters_is_reported_as_such() {
    let log = |latency: f64| {
        Recording::new(40).every(15).with("physical_disk.avg_queue_length", "hda", |_| 4.0).with(
            "physical_disk.avg_s_per_transfer",
            "hda",
            move |_| latency,
        )
    };
    let verdict = log(0.021).by_default();
    assert_eq!((verdict.bottleneck.name(), verdict.findings[0].rule.as_str()), ("disk", "disk.saturated-unseen"));
    assert!(log(0.02).by_default().findings.is_empty());
    // a class that is known changes nothing, but a turning disk has a rule of its own
    let known = log(0.021).topology(array(2, DeviceClass::Flash, RaidLevel::Raid0));
    let flash = known.with("physical_disk.avg_queue_length", "sda", |_| 4.0);
    let flash = flash.with("physical_disk.avg_s_per_transfer", "sda", |_| 0.021).by_default();
    assert!(flash.findings.iter().any(|f| f.instance == "sda" && f.rule == "disk.saturated-unseen"));
    let known = log(0.021).topology(array(2, DeviceClass::Rotational, RaidLevel::Raid0));
    let turning = known.with("physical_disk.avg_queue_length", "sda", |_| 4.0);
    let turning = turning.with("physical_disk.avg_s_per_transfer", "sda", |_| 0.021).by_default();
    assert!(turning.findings.iter().any(|f| f.instance == "sda" && f.rule == "disk.saturated-rotational"));
}

/// A pack that could judge next to nothing has not ruled anything out.
#[test]
fn confidence_in_no_bottleneck_is_limited_by_the_share_of_judged_rules() {
    let recording = Recording::new(40).with("processor.user", "_total", |_| 0.1);
    for verdict in recording.judge(packs::builtin_packs().unwrap(), recording.options(), 40) {
        let pack = packs::builtin_pack(&verdict.pack).unwrap().unwrap();
        let blaming = |id: &str| pack.find_rule(id).is_some_and(|r| r.weight > 0.0 && r.bottleneck.name() != "none");
        let open = verdict.unjudged.iter().filter(|u| blaming(&u.rule)).count();
        let all = pack.rules.iter().filter(|r| blaming(&r.id)).count();
        assert!(open > 0 && verdict.confidence < 0.5, "{}: {open} of {all}, {}", verdict.pack, verdict.confidence);
    }
}

#[test]
fn the_total_instance_of_a_log_stands_for_the_machine() {
    let recording = Recording::new(40).with("processor.busy", "_Total", |_| 0.9);
    let verdict =
        recording.judge(vec![packs::builtin_pack("pal").unwrap().unwrap()], recording.options(), 40).remove(0);
    assert_eq!((verdict.bottleneck.name(), verdict.instance.as_str()), ("cpu", ""));
    assert!(verdict.sentence.starts_with("The processors are the bottleneck"), "{}", verdict.sentence);
}

/// A drive letter that the user declared as an array has the limits of one, as a disk has.
#[test]
fn a_letter_that_is_a_declared_array_is_judged_as_one() {
    let rules = "
        [[rule]]
        id = 'each'
        all = [{ counter = 'avg_queue_length', above = 2, each = 'disk' }]
        [[rule]]
        id = 'single'
        which = 'single'
        all = [{ counter = 'avg_queue_length', above = 2 }]
        [[rule]]
        id = 'set'
        which = 'set'
        all = [{ counter = 'avg_queue_length', per = 'spindle', above = 2 }]
        [[rule]]
        id = 'load'
        which = 'set'
        all = [{ counter = 'back_end_load', above = 50 }]";
    // RAID 5 of ten disks: 100 reads and four operations for each of 110 writes
    let log = |queue: f64, members: Option<u32>| {
        let mut recording = Recording::new(40).every(15);
        if let Some(members) = members {
            let device = Device {
                name: "E:".into(),
                level: Some(RaidLevel::Raid5),
                members: Some(members),
                ..Device::default()
            };
            recording = recording.topology(Topology { devices: vec![device], ..Topology::default() });
        }
        recording
            .with("logical_disk.avg_queue_length", "E:", move |_| queue)
            .with("logical_disk.reads_per_s", "E:", |_| 100.0)
            .with("logical_disk.writes_per_s", "E:", |_| 110.0)
            .by(rules)
    };
    let found = |verdict: &Verdict| verdict.findings.iter().map(|f| f.rule.clone()).collect::<Vec<_>>();
    assert_eq!(found(&log(12.0, None)), ["each", "single"]);
    let verdict = log(12.0, Some(10));
    assert_eq!(found(&verdict), ["load"]);
    near(verdict.findings[0].value, 54.0);
    assert_eq!(found(&log(21.0, Some(10))), ["each", "load", "set"]);
}
