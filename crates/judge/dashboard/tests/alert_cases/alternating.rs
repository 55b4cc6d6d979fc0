//! Bottlenecks that take turns, and pressure over the host's own norm.

use diskwright_dashboard::alerts::AlertEvent;

use super::super::{Machine, SECOND, words};

const SERIES: &[(&str, &str)] = &[
    ("pressure.io_some_s", ""),
    ("pressure.cpu_some_s", ""),
    ("processor.user_s", "_total"),
    ("processor.idle_s", "_total"),
    ("system.running", ""),
    ("physical_disk.reads", "sda"),
    ("physical_disk.read_bytes", "sda"),
    ("physical_disk.read_time_s", "sda"),
    ("physical_disk.writes", "sda"),
    ("physical_disk.write_bytes", "sda"),
    ("physical_disk.write_time_s", "sda"),
    ("physical_disk.weighted_time_s", "sda"),
    ("physical_disk.busy_time_s", "sda"),
];
/// Eight readers queue at 80 ms, and the processors have little to do.
const DISK: [f64; 13] = [0.9, 0.0, 0.2, 3.8, 1.0, 100.0, 409_600.0, 8.0, 0.0, 0.0, 0.0, 8.0, 1.0];
/// Sixteen tasks on four processors, and a disk that is hardly used.
const PROCESSORS: [f64; 13] = [0.0, 0.95, 4.0, 0.0, 16.0, 5.0, 20_480.0, 0.001, 0.0, 0.0, 0.0, 0.001, 0.001];
const QUIET: [f64; 13] = [0.0, 0.0, 0.2, 3.8, 1.0, 5.0, 20_480.0, 0.001, 0.0, 0.0, 0.0, 0.001, 0.001];

/// Turns of a number of seconds each.
fn turns(machine: &mut Machine, seconds: i64, count: usize, rows: [&[f64]; 2]) -> Vec<AlertEvent> {
    (0..count).flat_map(|turn| machine.last(seconds, rows[turn % 2])).collect()
}

#[test]
fn bottlenecks_that_take_turns_are_one_trouble_that_persists() {
    let mut machine = Machine::new(SERIES);
    machine.last(60, &QUIET);
    let begin = machine.now;
    let events = turns(&mut machine, 40, 8, [&DISK, &PROCESSORS]);
    assert_eq!(words(&events), ["Begin verdict.alternates "]);
    let alert = &events[0].alert;
    assert!(alert.alternated.len() >= 2, "{:?}", alert.alternated);
    assert!(alert.alternated.iter().any(|one| one.bottleneck.name() == "disk" && one.instance == "sda"));
    for one in &alert.alternated {
        assert!(alert.sentence.contains(&format!("{} {} (", one.bottleneck.name(), one.instance).replace("  ", " ")));
    }
    assert!(alert.raised_ns - begin <= 180 * SECOND, "{} s", (alert.raised_ns - begin) / SECOND);
    assert!(!alert.next_step.is_empty());
    assert_eq!(words(&machine.last(120, &QUIET)), ["End verdict.alternates "]);
}

#[test]
fn one_bottleneck_that_lasts_alternates_with_nothing() {
    let mut machine = Machine::new(SERIES);
    machine.last(60, &QUIET);
    let events = machine.last(400, &DISK);
    assert_eq!(words(&events)[0], "Begin verdict.stable sda");
    assert!(events.iter().all(|event| event.alert.alternated.is_empty()), "{:?}", words(&events));
}

#[test]
fn turns_that_nobody_waits_in_or_that_end_soon_are_no_alert() {
    let idle = |row: [f64; 13]| [&[0.0, 0.0], &row[2..]].concat();
    let mut machine = Machine::new(SERIES);
    assert!(turns(&mut machine, 40, 8, [&idle(DISK), &idle(PROCESSORS)]).is_empty());
    let mut machine = Machine::new(SERIES);
    machine.last(60, &QUIET);
    let mut events = turns(&mut machine, 40, 2, [&DISK, &PROCESSORS]);
    events.extend(machine.last(300, &QUIET));
    assert!(events.is_empty(), "{:?}", words(&events));
}

/// A second in which nobody waits, in every three, is no end of what waits for the rest.
#[test]
fn a_lull_of_a_second_does_not_hide_what_lasts() {
    let mut lull = DISK;
    lull[0] = 0.1;
    let mut machine = Machine::new(SERIES);
    machine.last(60, &QUIET);
    let events: Vec<AlertEvent> =
        (0..60).flat_map(|_| [machine.last(2, &DISK), machine.last(1, &lull)].concat()).collect();
    assert_eq!(words(&events)[0], "Begin verdict.stable sda");
}

/// A host that always waits as much is as it should be: the norm is its own.
#[test]
fn pressure_that_is_usual_on_this_host_is_no_alert() {
    for (counter, usual, loud) in [("io", 0.2, 0.5), ("memory", 0.05, 0.12), ("cpu", 0.3, 0.8)] {
        let name = format!("pressure.{counter}_some_s");
        let mut machine = Machine::new(&[(&name, "")]);
        assert!(machine.last(1900, &[usual]).is_empty());
        assert!(machine.last(400, &[loud]).is_empty(), "{counter}: less than three times the usual");
        let mut machine = Machine::new(&[(&name, "")]);
        assert!(machine.last(600, &[loud]).is_empty(), "{counter}: no norm is known so early");
    }
}
