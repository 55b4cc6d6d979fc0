//! Pressure whose cause is known: one alert, about the cause.

use diskwright_dashboard::alerts::{Alert, AlertEvent};

use super::super::{Machine, words};

const SERIES: &[(&str, &str)] = &[
    ("pressure.io_full_s", ""),
    ("pressure.io_some_s", ""),
    ("pressure.memory_some_s", ""),
    ("pressure.memory_full_s", ""),
    ("cgroup.memory_used_fraction", "/db"),
    ("cgroup.memory_some", "/db"),
    ("cgroup.read_limit_used", "/db@sda"),
];
const QUIET: [f64; 7] = [0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0];
/// A cgroup at its limit that reads its pages again and again.
const THRASH: [f64; 7] = [0.5, 0.6, 0.05, 0.05, 0.99, 0.6, 0.0];
/// A cgroup at its limit of reads.
const THROTTLE: [f64; 7] = [0.5, 0.6, 0.0, 0.0, 0.5, 0.0, 1.0];
/// Tasks wait for disks, and nothing shows why.
const UNEXPLAINED: [f64; 7] = [0.5, 0.6, 0.0, 0.0, 0.5, 0.0, 0.0];

/// The only alert that began.
fn only(events: &[AlertEvent]) -> &Alert {
    let list = words(events);
    assert_eq!(list.iter().filter(|word| word.starts_with("Begin")).count(), 1, "{list:?}");
    &events.last().expect("an event").alert
}

#[test]
fn pressure_of_a_known_cause_is_one_alert_with_the_remedy_of_the_cause() {
    for (row, bottleneck, remedy) in [(THRASH, "memory", "of a cgroup"), (THROTTLE, "throttle", "limit")] {
        let mut machine = Machine::new(SERIES);
        machine.last(60, &QUIET);
        let events = machine.last(180, &row);
        assert!(words(&events)[0].starts_with("Begin pressure.io"), "{:?}", words(&events));
        for event in &events {
            assert_eq!(event.alert.bottleneck.name(), bottleneck, "{}", event.alert.sentence);
            assert!(event.alert.next_step.contains(remedy), "{}", event.alert.next_step);
            assert!(!event.alert.next_step.contains("pidstat"), "{}", event.alert.next_step);
        }
        let alert = only(&events);
        assert!(alert.sentence.contains("/db"), "{}", alert.sentence);
        assert_eq!(alert.also, ["verdict.stable"]);
        let end = machine.last(240, &QUIET);
        assert!(words(&end)[0].starts_with("End pressure.io"), "{:?}", words(&end));
    }
}

#[test]
fn a_cause_that_shows_later_is_told_in_the_alert_on_pressure() {
    let mut machine = Machine::new(SERIES);
    machine.last(60, &QUIET);
    let begun = machine.last(60, &UNEXPLAINED);
    assert_eq!(words(&begun), ["Begin pressure.io "]);
    assert!(begun[0].alert.next_step.contains("pidstat"), "nothing is known yet: {}", begun[0].alert.next_step);
    let events = machine.last(180, &THRASH);
    assert_eq!(words(&events), ["Worse pressure.io "]);
    let alert = &events[0].alert;
    assert_eq!((alert.bottleneck.name(), alert.also.as_slice()), ("memory", &["verdict.stable".to_owned()][..]));
    assert!(alert.sentence.contains("/db") && alert.next_step.contains("of a cgroup"), "{alert:?}");
}
