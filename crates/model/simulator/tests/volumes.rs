//! Cloud volumes against what their providers print.

use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::Simulation;
use diskwright_simulator::catalogue::{self, EntryKind};
use diskwright_simulator::device::DeviceModel;
use diskwright_simulator::run::ExternalRequest;
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::{DriveGroupSpec, System, WorkloadTarget};
use diskwright_simulator::volume::{CloudVolume, RateLimit, VolumeSpec};

const SECOND: Ns = 1_000_000_000;

/// 1000 operations/s, no other limit, 1 ms each.
fn spec() -> VolumeSpec {
    VolumeSpec {
        name: "by hand".into(),
        blocks: 1 << 24,
        slots: 64,
        operations: RateLimit::constant_rate(1000.0),
        bytes: RateLimit::unlimited(),
        operation_bytes: 262_144,
        merges: false,
        whole_operations: false,
        write_cost: 1.0,
        writes: None,
        shared: None,
        window_ns: 0,
        read: ServiceTimeDistribution::Constant(1_000_000),
        write: ServiceTimeDistribution::Constant(2_000_000),
        stream_bytes_per_s: f64::INFINITY,
    }
}

fn volume(spec: VolumeSpec) -> CloudVolume {
    assert_eq!(spec.check_limits(), Ok(()));
    CloudVolume::new(&Arc::new(spec), Rng::new(1, 0))
}

fn built_in(id: &str) -> VolumeSpec {
    match &catalogue::find_entry(id).expect(id).kind {
        EntryKind::Volume(spec) => (**spec).clone(),
        other => panic!("{id} is {other:?}"),
    }
}

/// Requests done in a stretch of time, 64 at a time.
fn count_completions(volume: &mut CloudVolume, from: Ns, until: Ns, io: impl Fn(u64) -> Io) -> u64 {
    let mut ends = [from; 64];
    let mut number = 0;
    loop {
        let index = (number % 64) as usize;
        let now = ends.iter().copied().min().unwrap_or(0).max(ends[index]);
        if now >= until {
            return number;
        }
        ends[index] = volume.submit_request(now, &io(number));
        number += 1;
    }
}

#[test]
fn operations_are_paced_and_latency_comes_on_top() {
    let mut volume = volume(spec());
    for index in 0..5u64 {
        // all at once: one a millisecond, each 1 ms after it began
        assert_eq!(volume.submit_request(0, &Io::read(index * 100, 8)), (index + 1) * 1_000_000);
    }
    assert_eq!(volume.submit_request(SECOND, &Io::write(0, 8)), SECOND + 2_000_000);
    assert_eq!(volume.totals().operations, 6);
    // a window lets through what was not used within it: ten more at once
    let mut loose = self::volume(VolumeSpec { window_ns: 10_000_000, ..spec() });
    let ends: Vec<Ns> = (0..12).map(|index| loose.submit_request(SECOND, &Io::read(index * 100, 8)) - SECOND).collect();
    assert_eq!(ends[..11], [1_000_000; 11]);
    assert_eq!(ends[11], 2_000_000);
}

#[test]
fn large_requests_count_as_several_and_small_ones_in_order_as_one() {
    let operations = |spec: VolumeSpec, ios: &[Io]| {
        let mut volume = volume(spec);
        for io in ios {
            volume.submit_request(0, io);
        }
        volume.totals().operations
    };
    // 1 MiB at 256 KiB an operation
    assert_eq!(operations(spec(), &[Io::read(0, 2048)]), 4);
    assert_eq!(operations(spec(), &[Io::read(0, 513)]), 2);
    let stream: Vec<Io> = (0..64).map(|index| Io::read(index * 8, 8)).collect();
    assert_eq!(operations(spec(), &stream), 64);
    // 64 times 4 KiB behind each other are one of 256 KiB
    let merging = VolumeSpec { merges: true, ..spec() };
    assert_eq!(operations(merging.clone(), &stream), 1);
    let turned: Vec<Io> = stream.iter().rev().copied().collect();
    assert_eq!(operations(merging, &turned), 64);
}

/// AWS, general-purpose.md, table of gp2: seconds of a burst of 3,000 and of filling an empty bucket.
#[test]
fn gp2_bursts_as_long_as_its_table_says() {
    for (gib, baseline, burst_s, refill_s) in [
        (33, 100.0, 1862.0, 54_000.0),
        (100, 300.0, 2000.0, 18_000.0),
        (334, 1002.0, 2703.0, 5389.0),
        (750, 2250.0, 7200.0, 2400.0),
    ] {
        let limit = RateLimit { baseline, burst: 3000.0, credits: 5_400_000.0 };
        assert!((limit.burst_seconds(3000.0).expect("ends") - burst_s).abs() < 1.0, "{gib} GiB");
        assert!((limit.refill_seconds().expect("fills") - refill_s).abs() < 1.0, "{gib} GiB");
        assert_eq!(limit.burst_seconds(baseline), None);
    }
    assert_eq!(RateLimit::constant_rate(100.0).burst_seconds(1000.0), None);
}

#[test]
fn a_burst_ends_when_its_credits_do_and_comes_back() {
    // a gp2 of 100 GiB with a hundredth of its credits: 20 s
    let mut spec = built_in("aws-gp2-100");
    spec.operations.credits /= 100.0;
    let mut volume = volume(spec);
    let io = |index: u64| Io::read(index * 7919 % 1_000_000, 8);
    let burst = count_completions(&mut volume, 0, 20 * SECOND, io);
    assert!((59_000..61_000).contains(&burst), "{burst} in 20 s");
    let after = count_completions(&mut volume, 21 * SECOND, 31 * SECOND, io);
    // 300 a second, and what a second without requests earned
    assert!((3200..3400).contains(&after), "{after} in 10 s");
    // a minute of rest earns 18,000 credits, which last 6.7 s
    let again = count_completions(&mut volume, 91 * SECOND, 97 * SECOND, io);
    assert!((17_000..18_600).contains(&again), "{again} in 6 s");
}

/// hdd-vols.md: a request of 1 MiB or less counts as 1 MiB, in order they are merged.
#[test]
fn st1_draws_a_whole_mebibyte_for_each_small_random_request() {
    let spec = built_in("aws-st1-1tib");
    let random =
        count_completions(&mut volume(spec.clone()), 0, 10 * SECOND, |index| Io::read(index * 7919 % 1_000_000 * 8, 8));
    // 250 MiB/s of burst
    assert!((2450..2600).contains(&random), "{random}");
    let in_order = count_completions(&mut volume(spec), 0, 10 * SECOND, |index| Io::read(index * 8, 8));
    assert!(in_order > 50_000, "{in_order}");
}

/// hdd-vols.md: a full bucket of 1 TiB is a scan of 1.17 hours at 250 MiB/s; earning 40 MiB/s meanwhile, it
/// lasts 1.39 hours.
#[test]
fn st1_scans_itself_with_a_full_bucket() {
    let bytes = built_in("aws-st1-1tib").bytes;
    let hours = bytes.burst_seconds(f64::INFINITY).expect("ends") / 3600.0;
    assert!((hours - 1.387).abs() < 0.01, "{hours}");
}

/// Used share of the scarcest limit at this rate of requests.
fn used_share(spec: VolumeSpec, per_s: u64, io: impl Fn(u64) -> Io) -> f64 {
    let mut system = System::new("volume");
    system.drives.push(DriveGroupSpec::new("volume", 1, DeviceModel::Volume(Arc::new(spec))));
    let mut disk = Simulation::with_external_targets(&system, &[WorkloadTarget::Drive(0)]).expect("possible");
    for number in 0..10 * per_s {
        disk.submit_at(number * SECOND / per_s, ExternalRequest { target: 0, io: io(number), tag: number as u32 });
    }
    disk.advance_until(10 * SECOND);
    disk.report_interval().find_component("volume").expect("there").utilisation()
}

#[test]
fn utilization_counts_what_the_limits_count() {
    // each small random read draws a mebibyte of the 250 a second
    let st1 = used_share(built_in("aws-st1-1tib"), 200, |number| Io::read(number * 7919 % 1_000_000 * 8, 8));
    assert!((0.76..0.84).contains(&st1), "{st1}");
    let apart = VolumeSpec {
        operations: RateLimit::constant_rate(100.0),
        writes: Some([RateLimit::constant_rate(1000.0), RateLimit::unlimited()]),
        ..spec()
    };
    let written = used_share(apart.clone(), 500, |number| Io::write(number * 8, 8));
    let read = used_share(apart, 50, |number| Io::read(number * 8, 8));
    assert!((written - 0.5).abs() < 0.02 && (read - 0.5).abs() < 0.02, "{written} {read}");
}

#[test]
fn impossible_volumes_are_refused() {
    let wrong: Vec<VolumeSpec> = vec![
        VolumeSpec { slots: 0, ..spec() },
        VolumeSpec { operation_bytes: 0, ..spec() },
        VolumeSpec { operations: RateLimit::constant_rate(0.0), ..spec() },
        VolumeSpec { operations: RateLimit { baseline: 10.0, burst: 5.0, credits: 1.0 }, ..spec() },
        VolumeSpec { bytes: RateLimit { baseline: 10.0, burst: 20.0, credits: f64::NAN }, ..spec() },
        VolumeSpec { write_cost: 0.0, ..spec() },
        VolumeSpec { stream_bytes_per_s: f64::NAN, ..spec() },
        VolumeSpec { read: ServiceTimeDistribution::Quantiles(Vec::new()), ..spec() },
    ];
    for spec in wrong {
        assert!(spec.check_limits().is_err(), "{spec:?}");
    }
}
