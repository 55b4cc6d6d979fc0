//! Two windows of known difference: changes are reported, noise is not, and "faster at a lower load" does not count as
//! success.

use crate::common::noise::Noise;
use crate::common::*;
use diskwright_base::{Catalogue, CounterPlan};
use diskwright_diagnosis::compare::{
    ALL_INSTANCES, ChangeDirection, ChangeOutcome, ComparisonRow, CounterWindow, WindowComparison, compare_windows,
};
use diskwright_diagnosis::{Bottleneck, Verdict, packs};

pub(crate) const TICKS: usize = 600;

/// A disk that serves `reads` a second, each in `seconds`, with noise of a tenth.
pub(crate) fn disk(name: &str, reads: f64, seconds: f64, seed: u64) -> Recording {
    with_disk(Recording::new(TICKS), name, reads, seconds, seed)
}

pub(crate) fn with_disk(recording: Recording, name: &str, reads: f64, seconds: f64, seed: u64) -> Recording {
    let count: Vec<f64> =
        Noise(seed).remembering(0.7, TICKS).iter().map(|n| (reads * (1.0 + 0.1 * n)).round().max(1.0)).collect();
    let each: Vec<f64> = Noise(seed + 1000).remembering(0.7, TICKS).iter().map(|n| seconds * (1.0 + 0.1 * n)).collect();
    let time: Vec<f64> = count.iter().zip(&each).map(|(c, e)| c * e).collect();
    let busy = time.iter().map(|t| t.min(1.0)).collect::<Vec<f64>>();
    let bytes: Vec<f64> = count.iter().map(|c| c * 4096.0).collect();
    let of = |values: Vec<f64>| move |i: usize| values[i];
    recording
        .with("physical_disk.reads", name, of(count))
        .with("physical_disk.writes", name, |_| 0.0)
        .with("physical_disk.read_bytes", name, of(bytes))
        .with("physical_disk.write_bytes", name, |_| 0.0)
        .with("physical_disk.read_time_s", name, of(time.clone()))
        .with("physical_disk.write_time_s", name, |_| 0.0)
        .with("physical_disk.weighted_time_s", name, of(time.clone()))
        .with("physical_disk.busy_time_s", name, of(busy))
        .with("pressure.io_some_s", "", move |i| (time[i] / 4.0).min(0.9))
}

pub(crate) fn watched(recording: &Recording) -> (CounterWindow, Verdict) {
    let mut watch = CounterWindow::new(recording.options().expected.unwrap());
    for start in (0..recording.ticks).step_by(250) {
        watch.add_frame(&recording.frame(start..(start + 250).min(recording.ticks)));
    }
    (watch, recording.by_default())
}

pub(crate) fn compared(before: &Recording, after: &Recording) -> WindowComparison {
    let ((first, before), (second, after)) = (watched(before), watched(after));
    compare_windows(&first, &second, before, after)
}

fn row<'a>(comparison: &'a WindowComparison, counter: &str, instance: &str) -> &'a ComparisonRow {
    let found = comparison.counters.iter().find(|r| r.counter == counter && r.instance == instance);
    found.unwrap_or_else(|| panic!("{counter} {instance} is not there"))
}

#[test]
fn a_faster_disk_helped() {
    let both = compared(&disk("sda", 200.0, 0.03, 1), &disk("sda", 200.0, 0.002, 9));
    assert_eq!((both.before.bottleneck, both.after.bottleneck), (Bottleneck::Disk, Bottleneck::None));
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    let response = both.requests.response.as_ref().unwrap();
    assert_eq!(
        (both.requests.load.as_ref().unwrap().change, response.change),
        (ChangeDirection::Same, ChangeDirection::Down)
    );
    for words in ["The change helped: the disk (sda) is no longer", "30", "No bottleneck remains."] {
        assert!(both.sentence.contains(words), "{}", both.sentence);
    }
    let latency = row(&both, "physical_disk.avg_s_per_transfer", "sda");
    assert_eq!(latency.noise, Some(false));
    assert!((latency.ratio.unwrap() - 2.0 / 30.0).abs() < 0.01, "{latency:?}");
    let (low, high) = (latency.difference_low.unwrap(), latency.difference_high.unwrap());
    assert!(low < -0.028 && -0.028 < high && high < 0.0, "{latency:?}");
}

/// The path to it is as quick as before, and no sign of what was blamed.
#[test]
fn a_file_server_that_responds_faster_helped() {
    let mount = |seconds: f64, seed: u64| {
        let each: Vec<f64> = Noise(seed).remembering(0.7, TICKS).iter().map(|n| seconds * (1.0 + 0.1 * n)).collect();
        Recording::new(TICKS)
            .with("network_filesystem.network_round_trip_s", "/mnt", |_| 0.0002)
            .with("network_filesystem.avg_round_trip_s", "/mnt", move |i| each[i])
            .with("network_filesystem.requests_in_flight", "/mnt", |_| 2.0)
    };
    let both = compared(&mount(0.03, 1), &mount(0.005, 9));
    assert_eq!(both.before.bottleneck, Bottleneck::Network, "{}", both.before.sentence);
    assert_eq!(both.goals[0].counter, "network_filesystem.avg_round_trip_s");
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
}

#[test]
fn faster_at_a_lower_load_does_not_count_as_help() {
    let both = compared(&disk("sda", 200.0, 0.03, 1), &disk("sda", 20.0, 0.004, 9));
    assert_eq!(both.outcome, ChangeOutcome::LowerLoad, "{}", both.sentence);
    assert_eq!(both.requests.load.as_ref().unwrap().change, ChangeDirection::Down);
    assert!(both.sentence.starts_with("The load was lower in the second window"), "{}", both.sentence);
}

#[test]
fn a_higher_load_and_slower_service_are_distinguished() {
    let calm = disk("sda", 100.0, 0.002, 1);
    let busier = compared(&calm, &disk("sda", 150.0, 0.003, 9));
    assert_eq!(busier.outcome, ChangeOutcome::HigherLoad, "{}", busier.sentence);
    let slower = compared(&calm, &disk("sda", 100.0, 0.003, 9));
    assert_eq!(slower.outcome, ChangeOutcome::Worse, "{}", slower.sentence);
    let stuck = compared(&calm, &disk("sda", 100.0, 0.05, 9));
    assert_eq!((stuck.outcome, stuck.after.bottleneck), (ChangeOutcome::Worse, Bottleneck::Disk), "{}", stuck.sentence);
    assert!(stuck.sentence.ends_with("The disk (sda) is now the bottleneck."), "{}", stuck.sentence);
    let more = compared(&disk("sda", 200.0, 0.03, 1), &disk("sda", 400.0, 0.02, 9));
    assert_eq!(more.outcome, ChangeOutcome::Helped, "{}", more.sentence);
    assert!(more.sentence.contains("The disk (sda) is still the bottleneck."), "{}", more.sentence);
}

#[test]
fn the_same_again_is_noise() {
    let mut reported = 0;
    for seed in 0..24 {
        let both = compared(&disk("sda", 100.0, 0.002, seed), &disk("sda", 100.0, 0.002, seed + 1000));
        reported += usize::from(both.counters.iter().any(|r| r.noise == Some(false)));
        if seed == 0 {
            assert_eq!(both.outcome, ChangeOutcome::Unchanged, "{}", both.sentence);
            assert!(both.questions > 3, "{}", both.questions);
        }
    }
    // 5 % of 24 are 1.2; more than 5 come by chance once in 650 times
    assert!(reported <= 5, "{reported} of 24");
}

#[test]
fn paging_that_is_gone_does_not_count_as_a_lower_load() {
    let thrashing = disk("sda", 300.0, 0.01, 1)
        .with("paging.swap_in_pages", "", |i| 800.0 + (i % 7) as f64)
        .with("paging.swap_out_pages", "", |i| 700.0 + (i % 5) as f64)
        .with("pressure.memory_some_s", "", |_| 0.5);
    let cured = disk("sda", 30.0, 0.002, 9)
        .with("paging.swap_in_pages", "", |_| 0.0)
        .with("paging.swap_out_pages", "", |_| 0.0)
        .with("pressure.memory_some_s", "", |_| 0.0);
    let both = compared(&thrashing, &cured);
    assert_eq!(both.before.bottleneck, Bottleneck::Memory);
    assert_eq!((both.outcome, both.requests.load.clone()), (ChangeOutcome::Helped, None), "{}", both.sentence);
    assert!(both.sentence.starts_with("The change helped: memory is no longer a bottleneck."), "{}", both.sentence);
}

#[test]
fn means_are_those_of_the_summary() {
    let recording = disk("sda", 100.0, 0.005, 3);
    let both = compared(&recording, &recording);
    let frame = recording.frame(0..TICKS);
    for counter in ["avg_s_per_transfer", "avg_queue_length", "transfers_per_s", "busy", "avg_bytes_per_read"] {
        let id = format!("physical_disk.{counter}");
        let plan = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), &id, "sda").unwrap();
        let expected = plan.summary_value(&plan.summarise_ticks(&frame, |_| true)).unwrap();
        let found = row(&both, &id, "sda");
        assert!((found.before.mean / expected - 1.0).abs() < 1e-9, "{id}: {found:?} {expected}");
        assert_eq!((found.before.mean, found.difference, found.noise), (found.after.mean, 0.0, Some(true)));
        let (low, high) = (found.before.low.unwrap(), found.before.high.unwrap());
        assert!(low <= expected && expected <= high && high - low < 0.2 * expected, "{found:?}");
        assert!(high > low || counter == "avg_bytes_per_read", "all reads are alike: {found:?}");
    }
    // what another counter tells by the second is not compared by the tick
    assert!(both.counters.iter().all(|r| r.counter != "physical_disk.reads"));
}

#[test]
fn instances_are_matched_by_name_and_summed() {
    let before = with_disk(disk("sda", 100.0, 0.002, 1), "sdb", 50.0, 0.002, 5);
    let after = with_disk(disk("sda", 100.0, 0.002, 11), "sdc", 50.0, 0.002, 15).with("foreign.x", "y", |_| 7.0);
    let both = compared(&before, &after);
    let named = |list: &[diskwright_diagnosis::compare::CounterInstance], instance: &str| {
        list.iter().any(|n| n.counter == "physical_disk.busy" && n.instance == instance)
    };
    assert!(named(&both.only_before, "sdb") && named(&both.only_after, "sdc"));
    assert!(!named(&both.only_before, "sda") && both.counters.iter().all(|r| r.instance != "sdb"));
    let all = row(&both, "physical_disk.transfers_per_s", ALL_INSTANCES);
    assert!((all.before.mean - 150.0).abs() < 5.0 && all.noise == Some(true), "{all:?}");
    assert!(both.only_after.iter().any(|n| n.counter == "foreign.x" && n.instance == "y"));
    let twice = compared(&after, &after);
    assert_eq!(row(&twice, "foreign.x", "y").before.mean, 7.0);
}

#[test]
fn lines_of_few_ticks_have_no_holes() {
    let mut sparse = disk("sda", 100.0, 0.002, 1).every(60);
    sparse.ticks = 50;
    let (watch, _) = watched(&sparse);
    let window = sparse.options().expected.unwrap();
    let points = watch.part_means("physical_disk.transfers_per_s", "sda", window, 120).unwrap();
    assert!(points.len() >= 20 && points.iter().all(Option::is_some), "{points:?}");
}

#[test]
fn few_ticks_give_an_unclear_outcome() {
    let mut short = disk("sda", 100.0, 0.002, 1);
    short.ticks = 4;
    let both = compared(&short, &disk("sda", 100.0, 0.02, 9));
    let latency = row(&both, "physical_disk.avg_s_per_transfer", "sda");
    assert_eq!((latency.noise, latency.significance, latency.difference_low), (None, None, None));
    assert!(latency.difference > 0.0 && latency.before.low.is_none());
    assert_eq!(both.requests.response.unwrap().change, ChangeDirection::Unknown);
}

#[test]
fn the_comparison_does_not_depend_on_frame_sizes() {
    let recording = disk("sda", 100.0, 0.005, 3);
    let pack = packs::builtin_pack("default").unwrap().unwrap();
    let answer = |cut: usize| {
        let mut watch = CounterWindow::new(recording.options().expected.unwrap());
        (0..TICKS).step_by(cut).for_each(|s| watch.add_frame(&recording.frame(s..(s + cut).min(TICKS))));
        let verdict = recording.judge(vec![pack.clone()], recording.options(), cut).remove(0);
        serde_json::to_string(&compare_windows(&watch, &watch, verdict.clone(), verdict)).unwrap()
    };
    let uncut = answer(TICKS);
    for cut in [1, 255, 256, 300] {
        assert!(answer(cut) == uncut, "cut into frames of {cut}");
    }
}

#[test]
fn what_may_be_a_tenth_or_ten_times_is_not_called_the_same() {
    let bursts = |from: usize, to: usize, rate: f64| {
        let reads = move |i: usize| if (from..to).contains(&i) { rate } else { 3.0 };
        Recording::new(30)
            .with("physical_disk.reads", "sda", reads)
            .with("physical_disk.writes", "sda", |_| 0.0)
            .with("physical_disk.read_time_s", "sda", move |i| reads(i) * 0.001)
            .with("physical_disk.write_time_s", "sda", |_| 0.0)
            .with("physical_disk.weighted_time_s", "sda", move |i| reads(i) * 0.001)
    };
    let both = compared(&bursts(12, 14, 9000.0), &bursts(3, 17, 20_000.0));
    let rate = row(&both, "physical_disk.transfers_per_s", "sda");
    assert_eq!((rate.noise, rate.difference_low, rate.difference_high), (None, None, None), "{rate:?}");
    assert!(rate.after.high.is_none_or(|high| high < 1e6), "{rate:?}");
    assert!(!both.sentence.contains("either the load nor the time"), "{}", both.sentence);
    // a steady pair of the same length is still known to be the same
    let (steady, other) = (disk("sda", 100.0, 0.005, 3), disk("sda", 100.0, 0.005, 8));
    assert_eq!(row(&compared(&steady, &other), "physical_disk.transfers_per_s", "sda").noise, Some(true));
}
