//! A remedy of a database server: its transactions show what requests of disks do not.

use diskwright_diagnosis::Bottleneck;
use diskwright_diagnosis::compare::{ChangeDirection, ChangeOutcome, WindowComparison};

use crate::common::Recording;
use crate::common::noise::Noise;
use crate::compare::{TICKS, compared, disk};

const SERVER: &str = "postgres:shop";

/// A server on a disk whose requests take 8 ms: transactions per second, and sessions that wait for its log.
fn server(commits_per_s: f64, waiting: f64, seed: u64) -> Recording {
    let noise: Vec<f64> = Noise::new(seed).remembering(0.5, TICKS);
    let count = move |tick: usize| commits_per_s * (1.0 + 0.1 * noise[tick]);
    disk("sda", 120.0, 0.03, seed + 50)
        .with("database.commits", SERVER, count)
        .with("database.sessions_waiting_log", SERVER, move |_| waiting)
        .with("database.sessions_waiting_lock", SERVER, |_| 0.0)
        .with("database.sessions_waiting_data", SERVER, |_| 0.0)
}

fn compare_servers(before: (f64, f64), after: (f64, f64)) -> WindowComparison {
    compared(&server(before.0, before.1, 3), &server(after.0, after.1, 4))
}

#[test]
fn more_transactions_while_as_many_sessions_wait_helped_although_the_disk_is_as_slow() {
    let both = compare_servers((180.0, 22.0), (280.0, 22.0));
    assert_eq!(both.before.bottleneck, Bottleneck::Disk, "{}", both.before.sentence);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    assert!(both.sentence.contains("The change helped: postgres:shop commits "), "{}", both.sentence);
    assert!(both.sentence.contains("The disk (sda) is still the bottleneck."), "{}", both.sentence);
    let [database] = both.databases.as_slice() else { panic!("{:?}", both.databases) };
    assert_eq!((database.commits.change, database.waiting.change), (ChangeDirection::Up, ChangeDirection::Same));
    assert_eq!((database.waiting.before, database.waiting.after), (22.0, 22.0));
    // Little's law: 22 / 180 and 22 / 280 s
    assert!(both.sentence.contains("while 22 → 22 sessions wait, 122 → 78"), "{}", both.sentence);
}

#[test]
fn fewer_transactions_while_as_many_sessions_wait_got_worse() {
    let both = compare_servers((280.0, 22.0), (180.0, 22.0));
    assert_eq!(both.outcome, ChangeOutcome::Worse, "{}", both.sentence);
}

/// More clients: more transactions, which wait no less.
#[test]
fn a_higher_load_of_a_server_is_no_remedy() {
    let both = compare_servers((180.0, 22.0), (280.0, 40.0));
    assert_eq!(both.databases[0].outcome, ChangeOutcome::HigherLoad, "{:?}", both.databases);
    assert_ne!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
}

/// A lock: nothing is committed while others wait for it.
#[test]
fn a_lock_that_is_gone_helped() {
    let both = compare_servers((0.0, 5.0), (80.0, 0.0));
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    assert!(both.sentence.contains(" commits 0 → "), "{}", both.sentence);
}

#[test]
fn a_server_whose_sessions_did_not_wait_decides_nothing() {
    let both = compare_servers((180.0, 0.2), (280.0, 0.1));
    assert!(both.databases.is_empty(), "{:?}", both.databases);
}
