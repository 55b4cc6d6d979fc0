use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::result::Latency;

fn run(depth: u32, rate: f64) -> RunResult {
    RunResult {
        place: "uniform".into(),
        depth: Some(depth),
        size_bytes: 4096.0,
        read_share: 1.0,
        measured_s: 3.0,
        requests_per_s: rate,
        bytes_per_s: rate * 4096.0,
        latency_s: Latency { mean: Some(f64::from(depth) / rate), ..Latency::default() },
        engine: "io_uring".into(),
        workers: 2,
        ..RunResult::default()
    }
}

fn sequential(read_share: f64, bytes: f64) -> RunResult {
    RunResult {
        place: "sequential".into(),
        size_bytes: 1048576.0,
        read_share,
        requests_per_s: bytes / 1048576.0,
        bytes_per_s: bytes,
        ..run(8, 1.0)
    }
}

fn device() -> DeviceFacts {
    let (key, class) = ("serial:M:X".into(), "nvme".into());
    DeviceFacts {
        key,
        class,
        name: "nvme0n1".into(),
        bytes: Some(1 << 40),
        kernel: "6.1".into(),
        ..DeviceFacts::default()
    }
}

fn complete_context() -> MeasurementContext {
    let (measured, suite) = ("2026-03-01T00:00:00Z".into(), "quick".into());
    MeasurementContext {
        measured,
        suite,
        seed: 7,
        target_bytes: 1 << 40,
        complete: true,
        ..MeasurementContext::default()
    }
}

/// Runs on a device that serves eight requests at once, 1 ms each.
fn eight_at_once() -> Vec<RunResult> {
    vec![run(1, 1000.0), run(4, 4000.0), run(16, 8000.0), run(64, 8100.0), sequential(1.0, 5e8), sequential(0.0, 3e8)]
}

#[test]
fn figures_record_how_they_were_measured() {
    let profile = Profile::from_runs(&device(), &eight_at_once(), &complete_context());
    let values: Vec<_> = profile.figures.iter().map(|f| (f.figure.as_str(), f.value, f.depth)).collect();
    let expected = [
        ("reads_per_s", 8100.0, Some(64)),
        ("read_bytes_per_s", 5e8, Some(8)),
        ("write_bytes_per_s", 3e8, Some(8)),
        ("read_s", 0.001, Some(1)),
        ("knee_depth", 16.0, Some(16)),
    ];
    assert_eq!(values, expected);
    for figure in &profile.figures {
        assert!(figure.at_least.is_empty(), "{figure:?}");
        assert_eq!((figure.seed, figure.kernel.as_str(), figure.fill.as_str()), (7, "6.1", "as found"));
    }
    let ceiling = profile.ceiling();
    assert!(ceiling.is_firm());
    assert_eq!((ceiling.requests_per_s, ceiling.bytes_per_s), (Some(8100.0), Some(5e8)));
    assert_eq!((ceiling.writes_per_s, ceiling.knee_depth), (None, Some(16.0)));
}

#[test]
fn a_lower_bound_says_why() {
    let because = |runs: &[RunResult], occasion: &MeasurementContext| {
        let profile = Profile::from_runs(&device(), runs, occasion);
        profile.figure("reads_per_s").map(|f| f.at_least.join("; "))
    };
    let changed = |change: &dyn Fn(&mut RunResult)| {
        let mut runs = eight_at_once();
        runs.iter_mut().for_each(change);
        runs
    };
    let says =
        |runs: &[RunResult], expected: &str| assert_eq!(because(runs, &complete_context()).as_deref(), Some(expected));
    says(&[run(1, 1000.0), run(4, 4000.0)], "the rate still rose at queue depth 4");
    says(&[run(64, 4000.0)], "measured only at queue depth 64");
    says(&changed(&|r| r.measured_s = 0.2), "measured for 0.2 s only");
    says(&changed(&|r| r.measured_s = 1.0), "measured for 1.0 s only");
    says(&changed(&|r| r.steady = Some(false)), "the rate was not steady");
    says(&changed(&|r| r.cpu_share = Some(1.8)), "the processor was saturated, not the device");
    let four = DeviceFacts { processors: 4, ..device() };
    let of_threads =
        Profile::from_runs(&four, &changed(&|r| (r.workers, r.cpu_share) = (256, Some(3.9))), &complete_context());
    let reasons = of_threads.figure("reads_per_s").map(|f| f.at_least.join("; "));
    assert_eq!(reasons.as_deref(), Some("the processor was saturated, not the device"));
    // one request at a time, or failed requests: not enough for a figure
    assert_eq!(because(&[run(1, 1000.0)], &complete_context()), None);
    assert_eq!(because(&changed(&|r| r.failed = 1), &complete_context()), None);
    assert_eq!(because(&changed(&|r| r.concurrent_runs = vec!["other".into()]), &complete_context()), None);
    assert_eq!(because(&changed(&|r| r.target = Some("/dev/sdz".into())), &complete_context()), None);
    let file = MeasurementContext { is_file: true, was_filled: true, ..complete_context() };
    assert_eq!(because(&eight_at_once(), &file).as_deref(), Some("measured through a file on a filesystem"));
    let limited = MeasurementContext { is_io_limited: true, ..complete_context() };
    assert!(because(&eight_at_once(), &limited).is_some_and(|why| why.contains("cgroup")));
    let live = MeasurementContext { live: true, ..complete_context() };
    assert_eq!(because(&eight_at_once(), &live).as_deref(), Some("others used the device at the same time"));
}

#[test]
fn measurements_that_are_not_of_the_device_give_no_figures() {
    let none = |facts: &DeviceFacts, occasion: MeasurementContext, why: &str| {
        assert!(occasion.reason_to_discard(facts).is_some_and(|reason| reason.contains(why)), "{why}");
        assert!(Profile::from_runs(facts, &eight_at_once(), &occasion).figures.is_empty());
    };
    none(&device(), MeasurementContext { buffered: true, ..complete_context() }, "page cache");
    none(&device(), MeasurementContext { complete: false, ..complete_context() }, "not completed");
    none(&device(), MeasurementContext { has_holes: true, ..complete_context() }, "holes");
    none(&DeviceFacts { key: String::new(), ..device() }, complete_context(), "memory");
}

#[test]
fn a_short_stroke_gives_no_random_ceiling_of_a_rotating_disk() {
    let disk = DeviceFacts { class: "rotational".into(), ..device() };
    let part = MeasurementContext { target_bytes: 1 << 30, ..complete_context() };
    let names = |occasion: &MeasurementContext| -> Vec<String> {
        Profile::from_runs(&disk, &eight_at_once(), occasion).figures.into_iter().map(|f| f.figure).collect()
    };
    assert_eq!(names(&part), ["read_bytes_per_s", "write_bytes_per_s"]);
    assert_eq!(names(&complete_context()).len(), 5);
}

#[test]
fn the_better_figure_stands_and_a_firm_one_before_a_weak_one() {
    let folder = tempfile::tempdir().unwrap();
    let keep = |runs: &[RunResult], occasion: &MeasurementContext, anew: bool| {
        save_profile(folder.path(), Profile::from_runs(&device(), runs, occasion), anew).unwrap().profile
    };
    let later = MeasurementContext { measured: "2026-04-01T00:00:00Z".into(), ..complete_context() };
    let through_file = MeasurementContext { is_file: true, ..later.clone() };
    let reads = |p: &Profile| p.figure_value("reads_per_s").unwrap();
    assert_eq!(reads(&keep(&[run(16, 9000.0), run(64, 9000.0)], &through_file, false)), 9000.0);
    assert_eq!(reads(&keep(&eight_at_once(), &complete_context(), false)), 8100.0, "firm counts more");
    assert_eq!(reads(&keep(&[run(16, 9000.0), run(64, 9000.0)], &through_file, false)), 8100.0);
    let both = keep(&[run(1, 900.0), run(16, 8500.0), run(64, 8600.0)], &later, false);
    assert_eq!((reads(&both), both.figure_value("read_s")), (8600.0, Some(0.001)));
    assert_eq!(both.ceiling().measured, "2026-04-01T00:00:00Z");
    assert_eq!(both.figure_value("write_bytes_per_s"), Some(3e8), "what was not measured now stays");
    let anew = keep(&[run(16, 5000.0), run(64, 5000.0)], &later, true);
    assert_eq!((reads(&anew), anew.figure_value("write_bytes_per_s")), (5000.0, None));
}

#[test]
fn a_weaker_measurement_lowers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let keep = |runs: &[RunResult], occasion: &MeasurementContext| {
        save_profile(folder.path(), Profile::from_runs(&device(), runs, occasion), false).unwrap().profile
    };
    let reads_only: Vec<RunResult> = eight_at_once().into_iter().filter(|r| r.read_share == 1.0).collect();
    let firm = keep(&reads_only, &complete_context());
    assert!(firm.ceiling().is_firm());
    // a second of writes at one depth, as a script makes them, would make the whole a lower bound
    let short = RunResult { measured_s: 1.0, read_share: 0.0, ..run(64, 3000.0) };
    let file = MeasurementContext { is_file: true, ..complete_context() };
    for occasion in [&complete_context(), &file] {
        let joined = keep(&[short.clone(), RunResult { read_share: 1.0, ..short.clone() }], occasion);
        assert_eq!(joined, Profile { measured: joined.measured.clone(), ..firm.clone() });
        assert!(joined.ceiling().is_firm());
    }
    // a quick run that may write adds its own figures
    let whole_again = keep(&eight_at_once(), &complete_context());
    assert_eq!(whole_again.figure_value("write_bytes_per_s"), Some(3e8));
    assert!(whole_again.ceiling().is_firm());
}

#[test]
fn profiles_are_files_that_everybody_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("a/b");
    assert_eq!(load_profiles(&state), (Vec::new(), Vec::new()));
    let mut slash = Profile::from_runs(&device(), &eight_at_once(), &complete_context());
    slash.key = "serial/M/X".into();
    save_profile(&state, slash, false).unwrap();
    let stored =
        save_profile(&state, Profile::from_runs(&device(), &eight_at_once(), &complete_context()), false).unwrap();
    assert_eq!(fs::metadata(&stored.path).unwrap().permissions().mode() & 0o777 & !0o022, 0o644 & !0o022);
    let (found, damaged) = load_profiles(&state);
    assert_eq!((found.len(), damaged.len()), (2, 0));
    assert_eq!(found[1], stored);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 2, "no part is left");
}

#[test]
fn names_a_damaged_profile_and_its_fault() {
    let good = serde_json::to_string(&Profile::from_runs(&device(), &eight_at_once(), &complete_context())).unwrap();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "EOF"),
        (b"no profile".to_vec(), "expected"),
        (good.as_bytes()[..good.len() / 2].to_vec(), "EOF"),
        (good.replace("profile/1", "profile/9").into_bytes(), "profile/9"),
        (good.replace("8100.0", "-1.0").into_bytes(), "reads_per_s is -1"),
        (good.replace("8100.0", "1e999").into_bytes(), "no profile"),
        (good.replace("\"per_s\"", "\"per_min\"").into_bytes(), "per_min"),
        (good.replace("reads_per_s", "beans_per_s").into_bytes(), "beans_per_s"),
        (b"{}".to_vec(), "schema"),
        (b"{\"schema\":\"diskwright.profile/1\"}".to_vec(), "no key"),
        ("[".repeat(100_000).into_bytes(), "no profile"),
        (vec![b' '; MAX_PROFILE_BYTES as usize + 2], "larger"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (index, (bytes, _)) in cases.iter().enumerate() {
        fs::write(folder.path().join(format!("{index:02}.json")), bytes).unwrap();
    }
    fs::create_dir(folder.path().join("folder.json")).unwrap();
    fs::write(folder.path().join("other.txt"), "no profile, and does not say it is").unwrap();
    let (found, damaged) = load_profiles(folder.path());
    assert!(found.is_empty());
    assert_eq!(damaged.len(), cases.len() + 1);
    for ((_, expected), message) in cases.iter().zip(&damaged) {
        assert!(message.because.contains(expected), "{}: {} ({expected})", message.path.display(), message.because);
    }
    // a newer version's profile is not overwritten
    let stored = save_profile(folder.path(), parse(good.as_bytes()).unwrap(), false).unwrap();
    fs::write(&stored.path, good.replace("profile/1", "profile/9")).unwrap();
    let refused = save_profile(folder.path(), stored.profile.clone(), false).unwrap_err();
    assert!(refused.to_string().contains("profile/9"));
    // a damaged one is, even if its fault mentions a schema
    fs::write(&stored.path, good.replace("reads_per_s", "schema")).unwrap();
    assert!(save_profile(folder.path(), stored.profile, false).is_ok());
}
