use super::*;
use crate::document::tests::sample;
use crate::result::Latency;

/// A result with a run for each rate; the latency is one divided by the rate.
fn document_with_rates(name: &str, rates: &[f64]) -> ProbeDocument {
    let run = |rate: &f64| RunResult {
        name: name.into(),
        requests_per_s: *rate,
        bytes_per_s: rate * 4096.0,
        size_bytes: 4096.0,
        latency_s: Latency { mean: Some(1.0 / rate), p99: Some(3.0 / rate), ..Latency::default() },
        ..RunResult::default()
    };
    ProbeDocument { runs: rates.iter().map(run).collect(), ..sample() }
}

fn find_row<'a>(comparison: &'a ResultComparison, counter: &str) -> &'a ResultRow {
    comparison.counters.iter().find(|r| r.counter == counter).unwrap()
}

#[test]
fn worked_example_of_welch() {
    // 10 12 14: mean 12, variance of the mean 4/3; 20 24 28 24: mean 24, 32/3/4 = 8/3. t = 12 / sqrt(4) = 6,
    // df = 16 / ((4/3)²/2 + (8/3)²/3) = 4.909, chance 0.00197 (integrated by hand of the density)
    let comparison = compare_results(
        &[("a", &document_with_rates("one", &[10.0, 12.0, 14.0]))],
        &[("b", &document_with_rates("one", &[20.0, 24.0, 28.0, 24.0]))],
    );
    let row = find_row(&comparison, "requests_per_s");
    assert_eq!((row.before.mean, row.after.mean, row.difference, row.ratio), (12.0, 24.0, 12.0, Some(2.0)));
    assert_eq!((row.before.values, row.after.values), (3, 4));
    // the interval of the first: 12 ± 4.303 sqrt(4/3)
    assert!((row.before.high.unwrap() - 12.0 - 4.303 * (4.0f64 / 3.0).sqrt()).abs() < 1e-3);
    // three questions: rate, mean, 99 %; the byte rate repeats the request rate
    assert_eq!(comparison.questions, 3);
    let significance = row.significance.unwrap();
    let is_close = |chance: f64| (chance - 0.00197).abs() < 2e-5;
    assert!(is_close(significance / 3.0) || is_close(significance / 2.0), "{significance}");
    assert_eq!(find_row(&comparison, "bytes_per_s").significance, row.significance);
    assert_eq!((row.noise, row.better, comparison.outcome), (Some(false), true, ResultOutcome::Helped));
    assert!((row.worse_by() + 1.0).abs() < 1e-12 && find_row(&comparison, "latency_s.mean").worse_by() < 0.0);
}

#[test]
fn bucket_width_is_not_a_difference() {
    // each side is exactly steady, and they are one bucket apart: 1/64
    let flat = |rate: f64| document_with_rates("one", &[rate, rate, rate]);
    let (a, b) = (flat(100.0), flat(101.0));
    let comparison = compare_results(&[("a", &a)], &[("b", &b)]);
    assert_eq!(find_row(&comparison, "latency_s.p99").noise, Some(true));
    assert_eq!(find_row(&comparison, "latency_s.mean").noise, Some(false));
}

#[test]
fn single_runs_are_unclear() {
    let comparison = compare_results(
        &[("a", &document_with_rates("one", &[10.0]))],
        &[("b", &document_with_rates("one", &[20.0, 21.0]))],
    );
    assert_eq!(comparison.outcome, ResultOutcome::Unclear);
    assert!(comparison.sentence.contains("--repeat 5"), "{}", comparison.sentence);
    let row = find_row(&comparison, "requests_per_s");
    assert_eq!((row.noise, row.significance, row.difference_low), (None, None, None));
    assert_eq!(row.ratio, Some(2.05));
}

#[test]
fn each_of_several_files_is_one_value() {
    // repeats within a file agree, files do not: no difference
    let file = |rate: f64| document_with_rates("one", &[rate, rate + 0.1, rate - 0.1]);
    let (a, b, c, d) = (file(10.0), file(20.0), file(12.0), file(24.0));
    let comparison = compare_results(&[("a", &a), ("b", &b)], &[("c", &c), ("d", &d)]);
    let row = find_row(&comparison, "requests_per_s");
    assert_eq!((row.before.values, row.noise), (2, Some(true)));
    assert_eq!(comparison.outcome, ResultOutcome::Unchanged);
}

#[test]
fn noise_alone_is_rarely_a_difference() {
    // 400 comparisons of equal sides; the rate of false alarms stays below 5 %
    let mut rng = diskwright_base::Rng::new(5, 0);
    let mut noisy = || {
        let runs: Vec<f64> = (0..5).map(|_| 1000.0 * (1.0 + 0.05 * rng.draw_exponential(1.0))).collect();
        document_with_rates("one", &runs)
    };
    let alarms = (0..400)
        .filter(|_| compare_results(&[("a", &noisy())], &[("b", &noisy())]).outcome != ResultOutcome::Unchanged);
    let alarms = alarms.count();
    assert!(alarms <= 27, "{alarms} of 400");
}

#[test]
fn stopped_runs_count_as_common_but_are_not_compared() {
    let (a, mut b) = (document_with_rates("one", &[10.0]), document_with_rates("one", &[10.0]));
    b.runs[0].stopped = true;
    let comparison = compare_results(&[("a", &a)], &[("b", &b)]);
    assert_eq!((comparison.outcome, comparison.counters.len()), (ResultOutcome::Unclear, 0));
    assert!(comparison.sentence.contains("were stopped"), "{}", comparison.sentence);
    assert!(comparison.only_before.is_empty() && comparison.only_after.is_empty());
    assert_eq!(comparison.ended_early.len(), 1);
    // together with another run, which is compared
    let two = |stopped: bool| {
        let mut both = document_with_rates("one", &[10.0, 11.0]);
        both.runs.extend(document_with_rates("two", &[10.0, 11.0]).runs);
        both.runs.iter_mut().filter(|r| r.name == "two").for_each(|r| r.stopped = stopped);
        both
    };
    let early = |b: &ProbeDocument| compare_results(&[("a", &two(false))], &[("b", b)]).ended_early;
    assert_eq!(early(&two(true)), [OneSidedRun { counter: "run", instance: "two".into() }]);
    assert!(early(&two(false)).is_empty());
}

#[test]
fn failed_requests_are_a_circumstance() {
    let (a, mut b) = (document_with_rates("one", &[10.0, 10.0]), document_with_rates("one", &[10.0, 10.0]));
    (b.runs[0].failed, b.runs[1].short_transfers) = (7, 1);
    let comparison = compare_results(&[("a", &a)], &[("b", &b)]);
    let found = comparison.circumstances.iter().find(|c| c.name == "failed_requests");
    assert_eq!(found.map(|c| (c.before.as_str(), c.after.as_str())), Some(("0", "8")));
    assert!(compare_results(&[("a", &a)], &[("c", &a.clone())]).circumstances.is_empty());
}

#[test]
fn other_differences_are_reported() {
    let mut a = document_with_rates("one", &[1.0, 2.0]);
    let mut b = document_with_rates("other", &[1.0]);
    b.runs.extend(document_with_rates("one", &[1.0, 2.0]).runs);
    b.device.scheduler = Some("none".into());
    b.machine.queue.insert("read_ahead_kb".into(), "128".into());
    b.seed = 7;
    let pattern = crate::pattern::Pattern::random_reads(4096, 1);
    a.runs.iter_mut().for_each(|r| r.pattern = Some(pattern.clone()));
    let longer = crate::pattern::Pattern { duration: std::time::Duration::from_secs(9), seed: 7, ..pattern };
    b.runs.iter_mut().for_each(|r| r.pattern = Some(longer.clone()));
    let comparison = compare_results(&[("a", &a)], &[("b", &b)]);
    let reported: Vec<String> =
        comparison.circumstances.iter().map(|c| format!("{} {} {}", c.name, c.before, c.after)).collect();
    let expected = ["device.scheduler unknown none", "queue.read_ahead_kb unknown 128", "pattern.lasts_s 5.0 9.0"];
    assert_eq!(reported, expected);
    assert_eq!((comparison.only_before.len(), comparison.only_after[0].instance.as_str()), (0, "other"));
    let none = compare_results(&[("a", &a)], &[("b", &document_with_rates("two", &[1.0]))]);
    assert_eq!((none.counters.len(), none.outcome), (0, ResultOutcome::Unclear));
    assert!(none.sentence.contains("no run in common"));
}
