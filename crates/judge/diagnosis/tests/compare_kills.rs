//! A remedy against kills: they are few, and must be compared as counts.

use diskwright_diagnosis::compare::{ChangeOutcome, WindowComparison, compare_windows};

use crate::common::Recording;
use crate::compare::watched;

const GROUP: &str = "/app";

/// A cgroup whose programs were killed at these seconds of `seconds`.
fn service(seconds: usize, kills: &'static [usize]) -> Recording {
    let killed = move |tick: usize| if kills.contains(&tick) { 1.0 } else { 0.0 };
    Recording::new(seconds)
        .with("paging.oom_kills", "", killed)
        .with("cgroup.oom_kills", GROUP, killed)
        .with("cgroup.memory_bytes", GROUP, |_| 90e6)
        .with("cgroup.memory_limit_bytes", GROUP, |_| 96e6)
        .with("processor.busy_fraction", "", |_| 0.1)
}

fn compared(before: &Recording, after: &Recording) -> WindowComparison {
    let ((first, before), (second, after)) = (watched(before), watched(after));
    compare_windows(&first, &second, before, after)
}

#[test]
fn kills_that_end_helped_if_the_second_window_is_long_enough() {
    let before = service(20, &[2, 7, 12, 17]);
    let both = compared(&before, &service(60, &[]));
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    let words = "The change helped: programs in /app were killed 4 times in 20 s before and not killed in 60 s after.";
    assert!(both.sentence.contains(words), "{}", both.sentence);
    // (20 / 80)^4, for each side
    assert!((both.kills[0].p_value - 2.0 * 0.25f64.powi(4)).abs() < 1e-9, "{:?}", both.kills);
    let short = compared(&before, &service(30, &[]));
    assert_eq!(short.outcome, ChangeOutcome::Unclear, "{}", short.sentence);
    assert_eq!(short.kills[0].needed_s, Some(40.0), "{:?}", short.kills);
    assert!(short.sentence.contains("40 s without a kill would show"), "{}", short.sentence);
}

#[test]
fn kills_that_begin_got_worse() {
    let both = compared(&service(30, &[]), &service(30, &[2, 6, 10, 14, 18, 22, 26]));
    assert_eq!(both.outcome, ChangeOutcome::Worse, "{}", both.sentence);
}

/// A service that was stopped is not killed any more, and that is no remedy.
#[test]
fn a_group_that_is_gone_decides_nothing() {
    let gone = Recording::new(90).with("paging.oom_kills", "", |_| 0.0).with("processor.busy_fraction", "", |_| 0.1);
    let both = compared(&service(20, &[2, 7, 12, 17]), &gone);
    assert_eq!(both.outcome, ChangeOutcome::Unclear, "{}", both.sentence);
    assert_eq!(both.kills[0].needed_s, None);
}

/// One shortage that kills several programs is one occasion.
#[test]
fn kills_within_a_second_are_one_occasion() {
    let many = |tick: usize| if tick == 5 { 6.0 } else { 0.0 };
    let before = Recording::new(20).with("cgroup.oom_kills", GROUP, many).with("cgroup.memory_bytes", GROUP, |_| 90e6);
    let both = compared(&before, &service(60, &[]));
    assert_eq!((both.kills[0].before, both.kills[0].outcome), (6, ChangeOutcome::Unclear), "{:?}", both.kills);
}
