//! Alerts of synthetic machines: each built-in alert on both sides of its limit, and their changes over time.

mod alert_cases;

use std::sync::Arc;

use alert_cases::{CASES, PRESSURE, READS, SPACE, usual, volume};
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::{Device, DeviceClass, Frame, Note, Schema, Series, Tick, Topology};
use diskwright_dashboard::alerts::{AlertChange, AlertEngine, AlertEvent, rules};
use diskwright_diagnosis::packs;

const SECOND: i64 = 1_000_000_000;
/// 2026-11-21 22:00:00 UTC.
const START: i64 = 1_795_298_400 * SECOND;

/// A machine whose cells are given tick by tick.
struct Machine {
    schema: Arc<Schema>,
    engine: AlertEngine,
    every: i64,
    now: i64,
}

impl Machine {
    fn new(series: &[(&str, &str)]) -> Machine {
        let alerts = rules::builtin_alerts();
        Machine::with(series, alerts)
    }

    fn with(series: &[(&str, &str)], alerts: diskwright_diagnosis::Pack) -> Machine {
        let judging = packs::builtin_pack("default").expect("our pack").expect("is right");
        let mut engine = AlertEngine::new(alerts, judging, Vec::new());
        let disk = |name: &str| Device { name: name.into(), class: DeviceClass::Flash, ..Device::default() };
        let devices = vec![disk("sda"), volume("sdb", 1000.0, 0.0), volume("sdc", 3000.0, 5.4e6)];
        let topology = Topology { processors: 4, memory_bytes: 8 << 30, devices, ..Topology::default() };
        let text = serde_json::to_string(&topology).expect("a topology");
        engine.add_note(&Note::new(START, Note::TOPOLOGY, text));
        Machine { schema: schema(series), engine, every: SECOND, now: START }
    }

    fn tick(&mut self, row: &[f64]) -> Vec<AlertEvent> {
        self.now += self.every;
        let mut frame = Frame::new(self.schema.clone(), 1);
        frame.push(Tick { time_ns: self.now, elapsed_ns: self.every as u64 }, row);
        self.engine.add_tick(&frame, 0)
    }

    /// Repeats the same row for a number of seconds.
    fn last(&mut self, seconds: i64, row: &[f64]) -> Vec<AlertEvent> {
        (0..seconds * SECOND / self.every).flat_map(|_| self.tick(row)).collect()
    }
}

fn schema(series: &[(&str, &str)]) -> Arc<Schema> {
    let one = |(counter, instance): &(&str, &str)| Series {
        counter: (*counter).into(),
        instance: (*instance).into(),
        scale: 1.0,
    };
    Arc::new(Schema::new(series.iter().map(one).collect()))
}

/// Changes of alerts as texts, without repetitions of lasting ones.
fn words(events: &[AlertEvent]) -> Vec<String> {
    let is_change = |event: &&AlertEvent| event.change != AlertChange::Still;
    let word = |event: &AlertEvent| format!("{:?} {} {}", event.change, event.alert.id, event.alert.instance);
    events.iter().filter(is_change).map(word).collect()
}

#[test]
fn each_alert_is_silent_below_its_limit() {
    for case in CASES {
        let mut machine = Machine::new(case.series);
        let mut events = machine.last(case.warm_s, &usual(case));
        events.extend(machine.last(case.hold_s + 120, case.quiet));
        assert!(events.is_empty(), "{}: {:?}", case.id, words(&events));
    }
}

#[test]
fn each_alert_comes_one_tick_after_its_hold_time_at_most_and_ends() {
    for case in CASES {
        let mut machine = Machine::new(case.series);
        machine.last(case.warm_s, &usual(case));
        let begin = machine.now;
        let events = machine.last(case.hold_s + 5, case.loud);
        assert_eq!(words(&events), [format!("Begin {} {}", case.id, case.instance)], "{}", case.id);
        let alert = &events[0].alert;
        assert_eq!(alert.begin_ns, begin, "{}: begins when the rule began to hold", case.id);
        let delay = alert.raised_ns - begin - case.hold_s * SECOND;
        assert!((0..=machine.every).contains(&delay), "{}: {delay} ns after its hold time", case.id);
        assert!(!alert.sentence.is_empty() && !alert.next_step.is_empty(), "{alert:?}");
        let terms = rules::builtin_alerts().find_rule(case.id).and_then(|rule| rule.alert.clone()).expect("an alert");
        let ended = machine.last(terms.clear_hold_s as i64 + 60, &usual(case));
        let ended: Vec<&AlertEvent> = ended.iter().filter(|event| event.change == AlertChange::End).collect();
        assert_eq!(ended.len(), 1, "{}", case.id);
        assert_eq!(ended[0].alert.end_ns, Some(begin + (case.hold_s + 5) * SECOND), "{}", case.id);
        assert!(machine.engine.open().next().is_none());
    }
}

/// A machine's filesystem: a point a minute, as its counters come.
#[test]
fn a_filesystem_that_fills_up_within_a_day_is_told_and_a_slow_one_is_not() {
    let filling = |bytes_a_minute: f64| {
        let mut machine = Machine::new(&[("logical_disk.free_bytes", "/srv"), ("logical_disk.total_bytes", "/srv")]);
        machine.every = 10 * SECOND;
        let mut free = 100e9;
        let mut events = Vec::new();
        for _ in 0..6 * 90 {
            free -= bytes_a_minute / 6.0;
            events.extend(machine.tick(&[free, 1e12]));
        }
        words(&events)
    };
    // 100 GB at 100 MB a minute are full in 16 hours, at 50 MB a minute in 33
    assert_eq!(filling(100e6), ["Begin filesystem.fills-up /srv"]);
    assert!(filling(50e6).is_empty());
    assert!(filling(0.0).is_empty() && filling(-100e6).is_empty());
}

#[test]
fn a_full_filesystem_is_told_and_an_image_is_not() {
    let alerts_of = |row: [f64; 4]| words(&Machine::new(SPACE).last(120, &row));
    // squashfs, ISO 9660 with and without a number of inodes
    for image in [[0.0, 6e7, 0.0, 5000.0], [0.0, 4e9, 0.0, 0.0], [0.0, 4e9, f64::NAN, f64::NAN]] {
        assert_eq!(alerts_of(image), [""; 0], "{image:?}");
    }
    // without a byte for users, and one that has no table of inodes
    for full in [[0.0, 1e11, 5e6, 6e6], [4096.0, 1e11, f64::NAN, f64::NAN], [4096.0, 1e11, 0.0, 0.0]] {
        assert_eq!(alerts_of(full), ["Begin filesystem.full /srv"], "{full:?}");
    }
    assert_eq!(alerts_of([5e10, 1e11, 0.0, 6e6]), ["Begin filesystem.inodes-used /srv"]);
    let almost = Machine::new(SPACE).last(120, &[9e9, 1e12, 5e6, 6e6]);
    assert!(almost[0].alert.sentence.contains("almost full"), "{}", almost[0].alert.sentence);
    // both at once are one alert
    assert_eq!(alerts_of([4096.0, 1e11, 2.0, 6e6]), ["Begin filesystem.full /srv", "Also filesystem.full /srv"]);
}

#[test]
fn a_filesystem_that_fills_up_and_is_full_is_one_alert_that_gets_worse() {
    let mut machine = Machine::new(SPACE);
    machine.every = 10 * SECOND;
    let mut events = Vec::new();
    for index in 0..6 * 100 {
        let free = 50e9 - f64::from(index) * 50e9 / 600.0;
        events.extend(machine.tick(&[free, 1e11, 5e6, 6e6]));
    }
    events.extend(machine.last(120, &[0.0, 1e11, 5e6, 6e6]));
    assert_eq!(words(&events), ["Begin filesystem.fills-up /srv", "Worse filesystem.fills-up /srv"]);
}

#[test]
fn errors_at_each_reading_are_one_alert_and_its_value_is_of_its_quantity() {
    let series = [("physical_disk.media_errors", "sda"), ("physical_disk.io_timeouts", "sda")];
    let mut machine = Machine::new(&series);
    machine.every = 10 * SECOND;
    assert!(machine.last(600, &[0.0, 0.0]).is_empty());
    let mut events = machine.tick(&[1.0, 0.0]);
    // other errors are no value of the first; a drive that does not answer proves nothing
    for row in [[0.0, 50.0], [3.0, 0.0], [f64::NAN, f64::NAN]] {
        events.extend(machine.last(590, &[0.0, 0.0]));
        events.extend(machine.tick(&row));
    }
    events.extend(machine.last(1900, &[0.0, 0.0]));
    assert_eq!(words(&events), ["Begin disk.errors sda", "End disk.errors sda"]);
    let peak = &events.last().expect("its end").alert.peak;
    assert_eq!((peak.quantity.as_str(), peak.value), ("physical_disk.media_errors", Some(3.0)));
}

#[test]
fn an_instance_at_its_limit_is_one_alert_for_all_its_volumes() {
    let series = [("physical_disk.instance_iops_limited", "sda"), ("physical_disk.instance_iops_limited", "sdb")];
    assert_eq!(words(&Machine::new(&series).last(120, &[0.5, 0.5])), ["Begin instance.throttled "]);
}

#[test]
fn a_verdict_that_stays_for_a_minute_is_an_alert_with_sentence_and_next_step() {
    // tasks wait for memory, which is swapped in from sda
    let series = [
        ("pressure.memory_some_s", ""),
        ("pressure.io_some_s", ""),
        ("paging.swap_in_pages", ""),
        ("paging.swap_out_pages", ""),
        ("physical_disk.reads", "sda"),
        ("physical_disk.read_bytes", "sda"),
        ("physical_disk.read_time_s", "sda"),
        ("physical_disk.writes", "sda"),
        ("physical_disk.write_bytes", "sda"),
        ("physical_disk.write_time_s", "sda"),
        ("physical_disk.weighted_time_s", "sda"),
        ("physical_disk.busy_time_s", "sda"),
    ];
    let quiet = [0.0, 0.0, 0.0, 0.0, 5.0, 20480.0, 0.001, 0.0, 0.0, 0.0, 0.001, 0.001];
    let loud = [0.6, 0.6, 2000.0, 2000.0, 2000.0, 8.2e6, 2.0, 500.0, 8.2e6, 1.0, 3.0, 0.95];
    let mut machine = Machine::new(&series);
    assert!(machine.last(120, &quiet).is_empty());
    let before = machine.now;
    let events = machine.last(150, &loud);
    assert_eq!(words(&events), ["Begin verdict.stable "]);
    let alert = &events[0].alert;
    assert_eq!(alert.bottleneck.name(), "memory");
    assert!(alert.raised_ns - alert.begin_ns >= 60 * SECOND && alert.raised_ns - alert.begin_ns <= 61 * SECOND);
    // the verdict takes no longer than the 30 seconds that it is of
    assert!(alert.begin_ns - before <= 30 * SECOND, "{} s", (alert.begin_ns - before) / SECOND);
    assert!(!alert.sentence.is_empty() && !alert.next_step.is_empty(), "{alert:?}");
    let ended = machine.last(120, &quiet);
    assert_eq!(words(&ended), ["End verdict.stable "]);
    // what lasts shorter is no alert
    let mut machine = Machine::new(&series);
    machine.last(120, &quiet);
    let mut events = machine.last(45, &loud);
    events.extend(machine.last(120, &quiet));
    assert!(events.is_empty(), "{:?}", words(&events));
}

/// Small requests, one at a time: the verdict names the application's pattern.
#[test]
fn a_pattern_of_requests_is_an_alert_only_where_tasks_are_known_to_wait() {
    let disk = [
        ("physical_disk.reads", "sda"),
        ("physical_disk.writes", "sda"),
        ("physical_disk.read_bytes", "sda"),
        ("physical_disk.write_bytes", "sda"),
        ("physical_disk.read_time_s", "sda"),
        ("physical_disk.write_time_s", "sda"),
        ("physical_disk.weighted_time_s", "sda"),
        ("physical_disk.busy_time_s", "sda"),
    ];
    let row = [3200.0, 800.0, 2.62e7, 6.55e6, 0.8, 0.2, 1.0, 0.63];
    // content with less than ours, so that it is the pattern that decides
    let rule = r#"
[pack]
id = "own"
title = "own"
source = "test"
explain = "test"
[[rule]]
id = "verdict.stable"
title = "a bottleneck"
object = "machine"
bottleneck = "unknown"
severity = "warning"
all = [{ counter = "verdict_confidence", at_least = 0.3 }]
any = [{ counter = "pressure.io_some", above = 0.2 }]
source = "test"
explain = "test"
alert = { hold = "60s" }
"#;
    let machine =
        |series: &[(&str, &str)]| Machine::with(series, rules::builtin_with_own("own.toml", rule).expect("a pack"));
    assert_eq!(words(&machine(&disk).last(200, &row)), [""; 0], "nothing says that anybody waits");
    let series = [&disk[..], &[("pressure.io_some_s", "")]].concat();
    assert_eq!(words(&machine(&series).last(200, &[&row[..], &[0.1]].concat())), [""; 0], "nobody waits much");
    let events = machine(&series).last(200, &[&row[..], &[0.9]].concat());
    assert_eq!(words(&events), ["Begin verdict.stable sda"]);
    assert_eq!(events[0].alert.bottleneck.name(), "application");
}

#[test]
fn between_the_limits_an_alert_lasts_and_afterwards_its_cause_is_silent() {
    let mut machine = Machine::new(PRESSURE);
    assert_eq!(words(&machine.last(40, &[0.3, 0.0])), ["Begin pressure.io "]);
    // below the limit, above the clearing limit
    assert_eq!(words(&machine.last(300, &[0.15, 0.0])), [""; 0]);
    assert_eq!(words(&machine.last(40, &[0.05, 0.0])), ["End pressure.io "]);
    // it holds again within ten minutes of silence, and nobody is notified until they are over
    assert!(machine.last(500, &[0.3, 0.0]).is_empty());
    let events = machine.last(200, &[0.3, 0.0]);
    assert_eq!(words(&events), ["Begin pressure.io "]);
    assert!(events[0].alert.raised_ns - events[0].alert.begin_ns > 500 * SECOND, "it says since when");
}

#[test]
fn rules_of_one_cause_share_an_alert() {
    let series = [("pressure.io_full_s", ""), ("pressure.memory_full_s", ""), ("physical_disk.stalled", "sda")];
    let mut machine = Machine::new(&series);
    let events = machine.last(60, &[0.5, 0.0, 1.0]);
    assert_eq!(words(&events), ["Begin disk.stall sda", "Also disk.stall sda"]);
    let open = machine.engine.open().next().expect("one is open");
    assert_eq!(open.also, ["pressure.io"]);
    // it lasts until both have cleared
    assert!(machine.last(60, &[0.5, 0.0, 0.0]).is_empty());
    assert_eq!(words(&machine.last(60, &[0.0, 0.0, 0.0])), ["End disk.stall sda"]);
    // two devices raise two alerts
    let mut machine = Machine::new(&[("physical_disk.stalled", "sda"), ("physical_disk.stalled", "sdb")]);
    assert_eq!(words(&machine.last(10, &[1.0, 1.0])), ["Begin disk.stall sda", "Begin disk.stall sdb"]);
}

#[test]
fn a_thousand_devices_at_once_call_a_bounded_number_of_times() {
    let names: Vec<String> = (0..1000).map(|n| format!("disk{n:04}")).collect();
    let series: Vec<(&str, &str)> = names.iter().map(|name| ("physical_disk.stalled", name.as_str())).collect();
    let mut machine = Machine::new(&series);
    let events = machine.last(20, &vec![1.0; 1000]);
    assert_eq!(words(&events).len(), 32);
}

#[test]
fn a_device_that_goes_ends_its_alert() {
    let mut machine = Machine::new(&[("physical_disk.stalled", "sda"), ("physical_disk.stalled", "sdb")]);
    assert_eq!(words(&machine.last(10, &[1.0, 0.0])), ["Begin disk.stall sda"]);
    machine.schema = schema(&[("physical_disk.stalled", "sdb")]);
    assert_eq!(words(&machine.last(30, &[0.0])), ["End disk.stall sda"]);
}

#[test]
fn a_silent_recorder_is_an_alert_while_it_is_silent_and_in_its_log() {
    let mut machine = Machine::new(PRESSURE);
    machine.last(60, &[0.0, 0.0]);
    let last = machine.now;
    assert!(machine.engine.check_clock(last + 12 * SECOND).is_empty(), "three intervals and ten seconds");
    let events = machine.engine.check_clock(last + 14 * SECOND);
    assert_eq!(words(&events), ["Begin recorder.silent "]);
    assert_eq!(events[0].alert.begin_ns, last);
    machine.now += 29 * SECOND;
    assert_eq!(words(&machine.tick(&[0.0, 0.0])), ["End recorder.silent "]);
    // a log gives the same alerts afterwards, both at one tick
    let mut machine = Machine::new(PRESSURE);
    machine.last(60, &[0.0, 0.0]);
    machine.now += 29 * SECOND;
    assert_eq!(words(&machine.tick(&[0.0, 0.0])), ["Begin recorder.silent ", "End recorder.silent "]);
}

#[test]
fn ticks_of_different_lengths_are_no_silence() {
    // a store's or another tool's log: a short first tick, then long ones that cover all the time between
    let mut machine = Machine::new(PRESSURE);
    machine.last(5, &[0.0, 0.0]);
    machine.every = 100 * SECOND;
    assert_eq!(words(&machine.last(500, &[0.0, 0.0])), [""; 0]);
    // reports now and then, as a timer makes them with another tool
    let mut machine = Machine::new(PRESSURE);
    machine.engine.expect_pauses();
    machine.last(5, &[0.0, 0.0]);
    machine.now += 600 * SECOND;
    assert_eq!(words(&machine.last(5, &[0.0, 0.0])), [""; 0]);
    // a recorder of ours that was stopped says so
    let mut machine = Machine::new(PRESSURE);
    machine.last(5, &[0.0, 0.0]);
    machine.engine.add_note(&Note::new(machine.now, Note::GAP, "no sample: this process was stopped"));
    machine.every = 3600 * SECOND;
    assert_eq!(words(&machine.tick(&[f64::NAN, f64::NAN])), ["Begin recorder.silent ", "End recorder.silent "]);
}

#[test]
fn a_suspended_machine_and_a_clock_that_is_set_are_no_silence() {
    let mut machine = Machine::new(PRESSURE);
    machine.last(60, &[0.0, 0.0]);
    machine.engine.add_note(&Note::new(machine.now, Note::CLOCK, "the machine slept for 8 h"));
    machine.now += 8 * 3600 * SECOND;
    assert!(machine.tick(&[0.0, 0.0]).is_empty());
    // an hour back, in the middle of an alert: it lasts and ends as ever
    assert_eq!(words(&machine.last(40, &[0.5, 0.0])), ["Begin pressure.io "]);
    machine.engine.add_note(&Note::new(machine.now, Note::CLOCK, "the clock was set back"));
    machine.now -= 3600 * SECOND;
    assert!(machine.last(60, &[0.5, 0.0]).is_empty());
    assert_eq!(words(&machine.last(40, &[0.0, 0.0])), ["End pressure.io "]);
}

#[test]
fn an_alert_that_lasts_says_so_every_ten_minutes() {
    let mut machine = Machine::new(PRESSURE);
    machine.last(40, &[0.5, 0.0]);
    let events = machine.last(1210, &[0.5, 0.0]);
    assert_eq!(events.iter().map(|event| event.change).collect::<Vec<_>>(), [AlertChange::Still; 2]);
}

const WEEK: [(&str, &str); 32] = [
    ("pressure.io_full_s", ""),
    ("pressure.io_some_s", ""),
    ("pressure.memory_full_s", ""),
    ("pressure.memory_some_s", ""),
    ("pressure.cpu_some_s", ""),
    ("processor.user_s", "_total"),
    ("processor.system_s", "_total"),
    ("processor.idle_s", "_total"),
    ("processor.iowait_s", "_total"),
    ("physical_disk.reads", "sda"),
    ("physical_disk.read_bytes", "sda"),
    ("physical_disk.read_time_s", "sda"),
    ("physical_disk.writes", "sda"),
    ("physical_disk.write_bytes", "sda"),
    ("physical_disk.write_time_s", "sda"),
    ("physical_disk.weighted_time_s", "sda"),
    ("physical_disk.busy_time_s", "sda"),
    ("physical_disk.stalled", "sda"),
    ("logical_disk.free_bytes", "/"),
    ("logical_disk.total_bytes", "/"),
    ("paging.oom_kills", ""),
    ("array.degraded", "md0"),
    ("cgroup.cpu_periods", "/web"),
    ("cgroup.cpu_throttled_periods", "/web"),
    ("cgroup.cpu_throttled_s", "/web"),
    ("logical_disk.inodes_free", "/"),
    ("logical_disk.inodes_total", "/"),
    ("physical_disk.media_errors", "sda"),
    ("physical_disk.io_timeouts", "sda"),
    ("physical_disk.volume_iops_limited", "sda"),
    ("physical_disk.volume_throughput_limited", "sda"),
    ("hardware.thermal_throttles", "processors"),
];

/// Five minutes at an hour of the day: a daily rhythm, bursts, a backup at night, noise from 0 to 1.
fn part_of_a_week(hour: f64, noise: f64, free: f64) -> [f64; WEEK.len()] {
    let part_s = 300.0;
    let day = 0.5 - 0.4 * (hour / 24.0 * std::f64::consts::TAU).cos();
    // a backup reads in large requests for an hour each night, with a queue, and nobody waits much
    let backup = (2.0..3.0).contains(&hour);
    let reads = part_s * (20.0 + 300.0 * day * (0.5 + noise)) + if backup { part_s * 200.0 } else { 0.0 };
    let latency = (0.0004 + 0.0006 * noise) * if backup { 3.0 } else { 1.0 };
    let writes = part_s * (10.0 + 100.0 * day * noise);
    let busy = part_s * (0.05 + 0.5 * day * noise + if backup { 0.3 } else { 0.0 });
    let user = part_s * 4.0 * (0.05 + 0.5 * day * noise);
    let waits = part_s * (0.002 + 0.03 * noise + if backup { 0.05 } else { 0.0 });
    [
        waits * 0.3,
        waits,
        0.0,
        0.0,
        waits,
        user,
        user * 0.2,
        part_s * 4.0 - user * 1.2,
        0.0,
        reads,
        reads * 16384.0,
        reads * latency,
        writes,
        writes * 8192.0,
        writes * 0.0005,
        reads * latency + writes * 0.0005,
        busy.min(part_s),
        0.0,
        free,
        1e12,
        0.0,
        0.0,
        600.0,
        (600.0 * 0.1 * noise).floor(),
        0.5 * noise,
        4e6,
        6e6,
        0.0,
        0.0,
        0.15 * noise,
        0.1 * noise,
        0.0,
    ]
}

/// A week of a machine that does its work: a daily rhythm, bursts, backups at night, noise.
#[test]
fn a_healthy_week_gives_no_alert() {
    let mut machine = Machine::new(&WEEK);
    machine.every = 300 * SECOND;
    let (mut seed, mut free) = (1_u64, 400e9);
    let mut events = Vec::new();
    for index in 0..7 * 24 * 12 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (seed >> 33) as f64 / f64::from(1_u32 << 31);
        // logs grow by 2 GB a day and are rotated at midnight
        free += if index % 288 == 0 { 2e9 } else { -2e9 / 288.0 };
        let row = part_of_a_week(f64::from(index) / 12.0 % 24.0, noise, free);
        events.extend(machine.tick(&row));
    }
    let alerts: Vec<String> =
        events.iter().map(|event| format!("{} {}", event.alert.begin, event.alert.sentence)).collect();
    assert!(events.is_empty(), "{alerts:#?}");
}

#[test]
fn a_worse_rule_of_the_same_cause_makes_the_alert_worse_and_is_told() {
    let series = [("pressure.io_full_s", ""), ("pressure.memory_full_s", ""), ("physical_disk.stalled", "sda")];
    let mut machine = Machine::new(&series);
    assert_eq!(words(&machine.last(40, &[0.5, 0.0, 0.0])), ["Begin pressure.io "]);
    let events = machine.last(20, &[0.5, 0.0, 1.0]);
    assert_eq!(words(&events), ["Worse pressure.io "]);
    let alert = &events[0].alert;
    assert_eq!((alert.severity.name(), alert.also.as_slice()), ("critical", &["disk.stall".to_owned()][..]));
    assert!(alert.sentence.starts_with("sda: it stalls"), "{}", alert.sentence);
    assert!(alert.peak.quantity.contains("stalled"), "{:?}", alert.peak);
    // a rule that is no more severe is reported as `Also` and notifies nobody
    let mut machine = Machine::new(&series);
    assert_eq!(words(&machine.last(10, &[0.5, 0.0, 1.0])), ["Begin disk.stall sda"]);
    let events = machine.last(40, &[0.5, 0.0, 1.0]);
    assert_eq!(words(&events), ["Also disk.stall sda"]);
    assert!(!events[0].change.notifies_people() && events[0].change.is_new());
}

#[test]
fn the_silence_after_a_warning_hides_nothing_worse() {
    let series = [("pressure.io_full_s", ""), ("pressure.memory_full_s", ""), ("physical_disk.stalled", "sda")];
    let mut machine = Machine::new(&series);
    machine.last(40, &[0.5, 0.0, 0.0]);
    assert_eq!(words(&machine.last(60, &[0.0, 0.0, 0.0])), ["End pressure.io "]);
    assert_eq!(words(&machine.last(60, &[0.0, 0.0, 1.0])), ["Begin disk.stall sda"]);
    assert_eq!(words(&machine.last(60, &[0.0, 0.0, 0.0])), ["End disk.stall sda"]);
    // neither the same rule nor a milder one notifies anybody within the silence
    assert_eq!(words(&machine.last(60, &[0.5, 0.0, 1.0])), [""; 0]);
    // a killed program is reported even shortly after an alert of memory pressure
    let series = [("pressure.memory_full_s", ""), ("paging.oom_kills", "")];
    let mut machine = Machine::new(&series);
    assert_eq!(words(&machine.last(40, &[0.5, 0.0])), ["Begin pressure.memory "]);
    assert_eq!(words(&machine.last(60, &[0.0, 0.0])), ["End pressure.memory "]);
    assert_eq!(words(&machine.tick(&[0.0, 1.0])), ["Begin memory.killed "]);
}

#[test]
fn unknown_time_does_not_count_as_hold_time() {
    // one slow tick, and then no values at all: the rule was not seen to hold for a minute
    let mut machine = Machine::new(&[("physical_disk.read_latency_p99_s", "sda")]);
    machine.last(1900, &[0.002]);
    let mut events = machine.tick(&[0.012]);
    events.extend(machine.last(600, &[f64::NAN]));
    assert_eq!(words(&events), [""; 0]);
}

#[test]
fn a_pause_counts_neither_as_hold_time_nor_towards_the_end() {
    // two seconds of waiting with an hour between them; the tick after a process was stopped covers the hour
    for kind in [Note::UNSEEN, Note::CLOCK, Note::GAP] {
        let mut machine = Machine::new(PRESSURE);
        machine.engine.expect_pauses();
        machine.last(10, &[0.0, 0.0]);
        let mut events = machine.tick(&[0.5, 0.0]);
        machine.engine.add_note(&Note::new(START, kind, "an hour of which nothing is known"));
        machine.every = if kind == Note::GAP { 3600 * SECOND } else { 0 };
        machine.now += 3600 * SECOND - machine.every;
        events.extend(machine.tick(&[f64::NAN, f64::NAN]));
        machine.every = SECOND;
        events.extend(machine.tick(&[0.5, 0.0]));
        events.extend(machine.last(60, &[0.0, 0.0]));
        assert_eq!(words(&events), [""; 0]);
    }
    // one good second, a pause, and then it goes on
    let mut machine = Machine::new(&[("physical_disk.stalled", "sda")]);
    machine.engine.expect_pauses();
    assert_eq!(words(&machine.last(10, &[1.0])), ["Begin disk.stall sda"]);
    let mut events = machine.tick(&[0.0]);
    machine.now += 3600 * SECOND;
    events.extend(machine.last(10, &[1.0]));
    assert_eq!(words(&events), [""; 0]);
    assert_eq!(words(&machine.last(20, &[0.0])), ["End disk.stall sda"]);
}

#[test]
fn a_clock_that_is_set_back_makes_no_silence_longer() {
    let mut machine = Machine::new(PRESSURE);
    machine.last(40, &[0.5, 0.0]);
    assert_eq!(words(&machine.last(60, &[0.0, 0.0])), ["End pressure.io "]);
    machine.now -= 3600 * SECOND;
    machine.last(600, &[0.0, 0.0]);
    assert_eq!(words(&machine.last(60, &[0.5, 0.0])), ["Begin pressure.io "]);
    // nor the time until an alert says again that it lasts
    machine.now -= 3600 * SECOND;
    let events = machine.last(610, &[0.5, 0.0]);
    assert_eq!(events.iter().map(|event| event.change).collect::<Vec<_>>(), [AlertChange::Still]);
}

#[test]
fn the_worst_value_is_that_since_the_rule_began_to_hold_with_the_time_of_its_tick() {
    let mut machine = Machine::new(PRESSURE);
    machine.last(10, &[0.0, 0.0]);
    let mut events = machine.tick(&[0.9, 0.0]);
    let worst_ns = machine.now;
    events.extend(machine.last(40, &[0.3, 0.0]));
    let peak = &events[0].alert.peak;
    assert!(peak.value.is_some_and(|value| (value - 0.9).abs() < 1e-9), "{peak:?}");
    assert_eq!(peak.time, format_rfc3339(worst_ns));
    machine.tick(&[0.95, 0.0]);
    let now_ns = machine.now;
    assert_eq!(machine.engine.open().next().map(|open| open.peak.time.clone()), Some(format_rfc3339(now_ns)));
}

#[test]
fn a_disk_that_is_read_no_more_ends_the_alert_on_its_reads() {
    let mut machine = Machine::new(READS);
    machine.last(1900, &[100.0, 0.2]);
    assert_eq!(words(&machine.last(70, &[100.0, 1.3])), ["Begin disk.slow sda"]);
    let began = machine.now;
    let events = machine.last(120, &[0.0, 0.0]);
    assert_eq!(words(&events), ["End disk.slow sda"]);
    assert_eq!(events[0].alert.end_ns, Some(began));
}

/// The example of the documentation is a pack that can be read.
#[test]
fn the_documented_example_is_right() {
    let text = include_str!("../../../../docs/alerts.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let pack = rules::builtin_with_own("own.toml", example).expect("it can be read");
    let terms = pack.find_rule("own.disks").and_then(|rule| rule.alert.clone()).expect("an alert");
    assert_eq!((terms.hold_s, terms.clear_hold_s, terms.silence_s, terms.clear.len()), (30.0, 30.0, 600.0, 1));
}
