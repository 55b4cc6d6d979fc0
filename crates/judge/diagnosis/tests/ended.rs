//! A live view must not blame for another minute what has just been mended.

use diskwright_diagnosis::{Bottleneck, Verdict};

use crate::common::{Recording, SECOND};

/// A minute in which a disk is in trouble while `is_slow`, tick by tick.
fn minute(is_slow: fn(usize) -> bool) -> Recording {
    let pick = move |slow: f64, calm: f64| move |tick: usize| if is_slow(tick) { slow } else { calm };
    Recording::new(60)
        .with("physical_disk.reads", "sda", pick(120.0, 5.0))
        .with("physical_disk.writes", "sda", |_| 0.0)
        .with("physical_disk.read_bytes", "sda", pick(120.0 * 4096.0, 5.0 * 4096.0))
        .with("physical_disk.write_bytes", "sda", |_| 0.0)
        .with("physical_disk.read_time_s", "sda", pick(6.0, 0.25))
        .with("physical_disk.write_time_s", "sda", |_| 0.0)
        .with("physical_disk.weighted_time_s", "sda", pick(6.0, 0.25))
        .with("physical_disk.busy_time_s", "sda", pick(1.0, 0.25))
        .with("pressure.io_some_s", "", pick(0.9, 0.0))
        .with("processor.busy_fraction", "", |_| 0.1)
}

fn judged(is_slow: fn(usize) -> bool) -> Verdict {
    minute(is_slow).by_default()
}

/// Seconds before the end of the window.
fn ended_s(verdict: &Verdict) -> Option<i64> {
    let end_ns = diskwright_base::timestamp::parse_rfc3339(&verdict.window.to).unwrap();
    verdict.ended_ns().map(|ended_ns| (end_ns - ended_ns) / SECOND as i64)
}

#[test]
fn what_stopped_half_a_minute_ago_has_ended_and_what_pauses_has_not() {
    let verdict = judged(|tick| tick < 32);
    assert_eq!(verdict.bottleneck, Bottleneck::Disk, "{}", verdict.sentence);
    assert_eq!(ended_s(&verdict), Some(28));
    // it may come back
    assert_eq!(ended_s(&judged(|tick| tick < 50)), None);
    assert_eq!(ended_s(&judged(|tick| tick % 6 < 3)), None);
    // a pause as long as others before it
    assert_eq!(ended_s(&judged(|tick| tick < 14 || (28..42).contains(&tick))), None);
    assert_eq!(ended_s(&judged(|_| true)), None);
}

#[test]
fn what_has_ended_is_told_with_what_is_there_now() {
    let earlier = judged(|tick| tick < 32);
    let mut now = judged(|_| false);
    assert_eq!(now.bottleneck, Bottleneck::None, "{}", now.sentence);
    now.set_after(&earlier, earlier.ended_ns().unwrap());
    assert!(now.sentence.ends_with("The disk (sda) held it back until 28 s ago."), "{}", now.sentence);
    assert_eq!(now.ended.as_ref().map(|ended| ended.bottleneck), Some(Bottleneck::Disk));
    // the same one that is back is told once
    let mut again = judged(|_| true);
    again.set_after(&earlier, earlier.ended_ns().unwrap());
    assert_eq!(again.ended, None);
}

#[test]
fn of_two_troubles_the_one_that_ended_is_not_listed_as_lasting() {
    let mut verdict = judged(|_| true);
    let mut ended = verdict.bottlenecks[0].clone();
    (ended.bottleneck, ended.instance) = (Bottleneck::Throttle, "/shop@sdb".into());
    let stretch = verdict.findings[0].stretches[0].clone();
    ended.was_there = Some(stretch);
    verdict.bottlenecks.push(ended);
    verdict.drop_ended();
    assert!(verdict.bottlenecks.iter().all(|listed| listed.was_there.is_none()), "{:?}", verdict.bottlenecks);
    assert_eq!(verdict.bottleneck, Bottleneck::Disk, "{}", verdict.sentence);
    assert!(verdict.ended.is_some());
}

#[test]
fn what_ended_alone_stays() {
    let mut verdict = judged(|tick| tick < 32);
    let before = verdict.clone();
    assert!(verdict.bottlenecks[0].was_there.is_some());
    verdict.drop_ended();
    assert_eq!(verdict, before);
}
