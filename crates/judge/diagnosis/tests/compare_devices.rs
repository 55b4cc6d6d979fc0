//! Several disks in two windows: each is judged by itself, and a neighbor's noise does not decide.

use diskwright_diagnosis::Bottleneck;
use diskwright_diagnosis::compare::{ALL_INSTANCES, ChangeOutcome, WindowComparison};

use crate::common::Recording;
use crate::compare::{TICKS, compared, disk, with_disk};

/// Two disks: requests a second, and seconds for each.
fn disks([(reads, seconds), (other_reads, other_seconds)]: [(f64, f64); 2], seed: u64) -> Recording {
    with_disk(disk("sda", reads, seconds, seed), "sdb", other_reads, other_seconds, seed + 50)
}

fn names(comparison: &WindowComparison) -> Vec<(&str, ChangeOutcome)> {
    comparison.devices.iter().map(|device| (device.instance.as_str(), device.outcome)).collect()
}

/// The busy neighbor has fifty times the requests, so the sums over both disks hardly move.
#[test]
fn a_disk_that_got_three_times_better_is_seen_beside_a_busy_neighbor() {
    let both = compared(&disks([(40.0, 0.06), (2000.0, 0.0003)], 1), &disks([(40.0, 0.02), (2000.0, 0.0003)], 9));
    assert_eq!(both.before.instance, "sda", "{}", both.before.sentence);
    assert_eq!(names(&both), [("sda", ChangeOutcome::Helped), ("sdb", ChangeOutcome::Unchanged)], "{}", both.sentence);
    assert!(both.devices[0].blamed && !both.devices[1].blamed);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    let equal = both.devices[0].requests.equal_load.as_ref().expect("the load is the same");
    assert!((equal.ratio - 1.0 / 3.0).abs() < 0.03, "{equal:?}");
    for words in ["requests of sda", "Judged by sda, which a verdict blames", "sdb did not change"] {
        assert!(both.sentence.to_lowercase().contains(&words.to_lowercase()), "{}", both.sentence);
    }
    assert!(both.counters.iter().any(|row| row.instance == ALL_INSTANCES), "the sums are still there");
}

/// The neighbor gets twice the requests and takes longer for each; the disk in question did not change.
#[test]
fn a_neighbor_that_got_worse_decides_nothing_about_the_blamed_disk() {
    let both = compared(&disks([(200.0, 0.03), (500.0, 0.0005)], 1), &disks([(200.0, 0.03), (1000.0, 0.001)], 9));
    assert_eq!(both.before.instance, "sda", "{}", both.before.sentence);
    assert_eq!((names(&both)[0], both.outcome), (("sda", ChangeOutcome::Unchanged), ChangeOutcome::Unchanged));
    assert_eq!(names(&both)[1].0, "sdb");
    assert!(
        both.sentence.contains("sdb had a higher load") || both.sentence.contains("sdb got worse"),
        "{}",
        both.sentence
    );
}

/// A backup of large requests is stopped: small requests, more of them, each faster, and no bottleneck.
#[test]
fn more_requests_in_less_time_without_a_bottleneck_helped_though_they_are_of_another_kind() {
    let with_size = |recording: Recording, requests: f64, bytes: f64| {
        recording.without("physical_disk.read_bytes").with("physical_disk.read_bytes", "sda", move |_| requests * bytes)
    };
    let before = with_size(disk("sda", 30.0, 0.11, 1), 30.0, 131_072.0);
    let after = with_size(disk("sda", 134.0, 0.004, 9), 134.0, 8192.0);
    let both = compared(&before, &after);
    assert_eq!(both.before.instance, "sda", "{}", both.before.sentence);
    assert!(!both.after.bottleneck.blames(), "{}", both.after.sentence);
    assert_eq!(names(&both), [("sda", ChangeOutcome::Helped)], "{}", both.sentence);
    // with fewer requests, what is left may be faster because of that alone
    let fewer = compared(&before, &with_size(disk("sda", 20.0, 0.004, 9), 20.0, 8192.0));
    assert_ne!(fewer.outcome, ChangeOutcome::Helped, "{}", fewer.sentence);
}

#[test]
fn without_a_blamed_disk_the_one_that_changed_most_comes_first() {
    let both = compared(&disks([(100.0, 0.001), (20.0, 0.003)], 1), &disks([(100.0, 0.001), (20.0, 0.001)], 9));
    assert!(!both.before.bottleneck.blames() && !both.after.bottleneck.blames(), "{}", both.before.sentence);
    assert_eq!(names(&both), [("sdb", ChangeOutcome::Helped), ("sda", ChangeOutcome::Unchanged)], "{}", both.sentence);
    assert!(both.sentence.contains("Judged by sdb, which changed most"), "{}", both.sentence);
}

#[test]
fn disks_that_changed_in_opposite_directions_decide_nothing_where_none_is_blamed() {
    let both = compared(&disks([(100.0, 0.001), (20.0, 0.003)], 1), &disks([(100.0, 0.003), (20.0, 0.001)], 9));
    assert!(!both.before.bottleneck.blames() && !both.after.bottleneck.blames(), "{}", both.before.sentence);
    assert_eq!(both.outcome, ChangeOutcome::Unclear, "{}", both.sentence);
    assert!(both.sentence.contains("opposite directions"), "{}", both.sentence);
    assert!(both.sentence.contains("less time on sdb") && both.sentence.contains("longer on sda"), "{}", both.sentence);
}

#[test]
fn a_disk_without_requests_is_not_listed_and_the_only_disk_needs_no_name() {
    let both = compared(&disks([(200.0, 0.03), (0.0, 0.001)], 1), &disks([(200.0, 0.002), (0.0, 0.001)], 9));
    assert_eq!(names(&both).len(), 2, "a disk of one request a second is loaded: {:?}", names(&both));
    let alone = compared(&disk("sda", 200.0, 0.03, 1), &disk("sda", 200.0, 0.002, 9));
    assert_eq!(names(&alone), [("sda", ChangeOutcome::Helped)]);
    assert!(
        !alone.sentence.contains("Judged by") && alone.sentence.contains("requests of the disks")
            || alone.sentence.contains("Requests of the disks"),
        "{}",
        alone.sentence
    );
}

/// Noise of sums and of 24 disks: in a comparison of the same with the same, no disk changes.
#[test]
fn the_same_again_changes_no_disk() {
    let mut changed = 0;
    for seed in 0..16u64 {
        let window = |seed: u64| {
            (0..4u64).fold(Recording::new(TICKS), |recording, number| {
                with_disk(recording, &format!("sd{number}"), 80.0, 0.002, seed * 10 + number)
            })
        };
        let both = compared(&window(seed), &window(seed + 100));
        changed += usize::from(both.devices.iter().any(|device| device.has_changed()));
    }
    // 5 % of 16 are 0.8; more than 4 come by chance once in 900 times
    assert!(changed <= 4, "{changed} of 16");
}

/// A cgroup's limit held the work back: the device below was never slow, and the limit's counters end with the limit.
/// The group's own rate decides, whatever noise the requests of the disk have.
#[test]
fn a_group_that_does_more_than_its_limit_allowed_is_held_back_no_more() {
    let limited = |recording: Recording, rate: f64, limit: f64| {
        recording.with("cgroup.reads", "/shop@sda", move |_| rate).with(
            "cgroup.read_limit_per_s",
            "/shop@sda",
            move |_| limit,
        )
    };
    let before = limited(disk("sda", 50.0, 0.0008, 1), 50.0, 50.0);
    let both = compared(&before, &limited(disk("sda", 150.0, 0.002, 9), 150.0, f64::NAN));
    assert_eq!(both.before.bottleneck, Bottleneck::Throttle, "{}", both.before.sentence);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    assert!(
        both.sentence.contains("/shop@sda does more than its earlier limit allowed: reads 50/s → 150/s"),
        "{}",
        both.sentence
    );
    // as much as before: nobody was held back, or nothing is asked
    let same = compared(&before, &limited(disk("sda", 50.0, 0.0008, 9), 50.0, f64::NAN));
    assert_eq!(same.exceeded_limit, None, "{}", same.sentence);
}

#[test]
fn a_limit_that_is_removed_helped_if_more_work_is_done() {
    let before = disk("sda", 50.0, 0.0008, 1).with("cgroup.read_limit_used", "/shop@sda", |_| 1.0);
    let both = compared(&before, &disk("sda", 900.0, 0.0008, 9));
    assert_eq!(both.before.bottleneck, Bottleneck::Throttle, "{}", both.before.sentence);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    // nobody does more, so nobody was held back, or nothing was asked
    let idle = compared(&before, &disk("sda", 20.0, 0.0008, 9));
    assert_ne!(idle.outcome, ChangeOutcome::Helped, "{}", idle.sentence);
}
