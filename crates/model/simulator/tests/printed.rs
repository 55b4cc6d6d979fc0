//! Mechanical drives from data sheets: the resulting times and capacities.

use std::sync::Arc;

use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::drive::{
    DataSheet, DataSheetSeek, DriveQueue, MechanicalDrive, Model, QueuePolicy, RootAndLine, Seek, TrackRate,
};

fn printed() -> DataSheet {
    DataSheet {
        name: "of print".into(),
        rpm: 7200.0,
        heads: 4,
        capacity: None,
        cylinders: Some(6000),
        outer: TrackRate::Sectors(200.0),
        inner: TrackRate::Sectors(120.0),
        zones: 9,
        seek: DataSheetSeek::Points([1.5, 8.5, 17.0]),
        head_switch_ms: 1.0,
        write_settle_ms: 0.5,
        command_ms: 0.5,
        hit_ms: 0.2,
        cache: 1 << 20,
        segments: 4,
        read_ahead: true,
        write_cache: false,
        interface: 40e6,
        never_leaves: false,
        on_arrival: false,
        slots: 64,
        policy: QueuePolicy::ShortestPositioning,
    }
}

fn model(printed: &DataSheet) -> Arc<Model> {
    Arc::new(Model::new(&printed.spec().expect("possible")).expect("possible"))
}

/// Mean over the distances of two uniform places, from the table of a curve.
fn mean_ms(seek: &Seek, cylinders: u32) -> f64 {
    let times = seek.table(cylinders).expect("possible");
    let all = f64::from(cylinders);
    let weighted = times.iter().enumerate().map(|(d, ns)| 2.0 * (all - d as f64) * f64::from(*ns) / 1e6);
    weighted.sum::<f64>() / (all * all)
}

#[test]
fn the_curve_goes_through_its_three_points() {
    // (next cylinder, mean, full stroke): print of 1990 to 2020, and both ends of what a root and a line can do
    for [one, mean, full] in [
        [8.0, 28.0, 60.0],
        [1.943, 9.33, 16.679],
        [0.2, 4.0, 8.1],
        [0.3, 8.0, 16.0],
        [1.0, 7.0, 18.0],
        [1.0, 9.9, 18.0],
    ] {
        for cylinders in [600, 5172, 558_000] {
            let sheet =
                DataSheet { seek: DataSheetSeek::Points([one, mean, full]), cylinders: Some(cylinders), ..printed() };
            let seek = sheet.spec().expect("possible").seek;
            let times = seek.table(cylinders).expect("possible");
            let name = format!("{one} {mean} {full} over {cylinders}");
            assert!((f64::from(times[1]) / 1e6 - one).abs() < 0.02, "{name}: {}", times[1]);
            assert!((f64::from(times[cylinders as usize - 1]) / 1e6 / full - 1.0).abs() < 0.005, "{name}");
            assert!((mean_ms(&seek, cylinders) / mean - 1.0).abs() < 0.01, "{name}: {}", mean_ms(&seek, cylinders));
            assert!(times.windows(2).all(|t| t[0] <= t[1]), "{name}: it falls");
        }
    }
}

/// Worked: 1 + 15 sqrt(d/D) has the mean 1 + 15 * 8/15 = 9, so that print of 1, 9 and 16 ms is a root all along.
#[test]
fn a_root_all_along_by_hand() {
    let sheet = DataSheet { seek: DataSheetSeek::Points([1.0, 8.99, 16.0]), cylinders: Some(10_001), ..printed() };
    let times = sheet.spec().expect("possible").seek.table(10_001).expect("possible");
    // a quarter of the way: 1 + 15 / 2
    assert!((f64::from(times[2500]) / 1e6 - 8.5).abs() < 0.1, "{}", times[2500]);
}

#[test]
fn print_that_no_root_and_line_fits_gets_a_power() {
    // 0.45 of the way is between; 0.6 and 0.3 are not
    for share in [0.6, 0.3, 0.15, 0.85] {
        let mean = 1.0 + 15.0 * share;
        let sheet = DataSheet { seek: DataSheetSeek::Points([1.0, mean, 16.0]), ..printed() };
        let seek = sheet.spec().expect("possible").seek;
        assert!(matches!(seek, Seek::Table(_)));
        assert!((mean_ms(&seek, 6000) / mean - 1.0).abs() < 0.02, "{share}: {}", mean_ms(&seek, 6000));
    }
}

#[test]
fn capacity_comes_from_cylinders_or_makes_them() {
    // 6000 cylinders of 4 tracks of 160 sectors in the mean
    let blocks = model(&printed()).blocks() as f64;
    assert!((blocks / (6000.0 * 4.0 * 160.0) - 1.0).abs() < 0.01, "{blocks}");
    let found = DataSheet { cylinders: None, capacity: Some(6000 * 4 * 160 * 512), ..printed() };
    assert!((f64::from(found.spec().expect("possible").cylinders) - 6000.0).abs() < 10.0);
    // both: the rates of the edges stay and the zones between bend
    let both = DataSheet { capacity: Some(6000 * 4 * 170 * 512), ..printed() };
    let spec = both.spec().expect("possible");
    assert_eq!((spec.zones[0].sectors, spec.zones[8].sectors), (200, 120));
    assert!((model(&both).blocks() as f64 / (6000.0 * 4.0 * 170.0) - 1.0).abs() < 0.02);
    // few zones too: 4 of them whose tracks have 145 sectors on average
    let few = DataSheet { capacity: Some(6000 * 4 * 145 * 512), zones: 4, ..printed() };
    let off = model(&few).blocks() as f64 / (6000.0 * 4.0 * 145.0) - 1.0;
    assert!(off.abs() < 0.01, "{off}");
    // one zone has what all tracks have on average
    let one = DataSheet { zones: 1, ..found };
    assert_eq!((one.spec().expect("possible").zones[0].sectors, model(&one).blocks()), (160, 6000 * 4 * 160));
    let bent = DataSheet { zones: 1, ..both };
    assert_eq!(bent.spec().expect("possible").zones[0].sectors, 170);
}

/// Time of reading or writing the first megabytes in order.
fn stream(model: &Arc<Model>, depth: u32, blocks: u32, requests: u64, write: bool) -> f64 {
    let mut drive = MechanicalDrive::new(model);
    let mut queue = DriveQueue::new(model.policy());
    let io = |index: u64| Io { first: index * u64::from(blocks), blocks, write };
    let mut next = 0;
    for _ in 0..depth {
        queue.push(&drive, io(next), ());
        next += 1;
    }
    let mut now: Ns = 0;
    for _ in 0..requests {
        let (io_now, ()) = queue.next(now, &drive).expect("it is never empty");
        now = drive.start(now, &io_now).done;
        queue.push(&drive, io(next), ());
        next += 1;
    }
    requests as f64 * f64::from(blocks) * 512.0 / (now as f64 / 1e9)
}

/// Worked: 200 sectors in 8.33 ms are 12.29 MB/s while a track passes; a switch of head costs
/// 1 + 0.5 ms and a hundredth of a turn, 19 %, of cylinder 25 %, in whole sectors, 20.5 % in the mean of four.
#[test]
fn a_long_read_has_the_sustained_rate_at_any_depth() {
    let model = model(&printed());
    let rate = 200.0 * 512.0 * 120.0 / 1.205;
    for (depth, blocks) in [(1, 8), (1, 128), (1, 1024), (4, 8), (4, 128), (32, 64)] {
        let found = stream(&model, depth, blocks, 20_000 / u64::from(blocks), false);
        assert!((found / rate - 1.0).abs() < 0.02, "{depth} of {blocks}: {found} and {rate}");
    }
    // and the other way: from the sustained rate to the sectors
    let sheet = DataSheet { outer: TrackRate::Sustained(rate), inner: TrackRate::Sustained(rate * 0.6), ..printed() };
    let sectors = sheet.spec().expect("possible").zones[0].sectors;
    assert!((198..=202).contains(&sectors), "{sectors}");
    let media = DataSheet { outer: TrackRate::Media(200.0 * 512.0 * 120.0), ..printed() };
    assert_eq!(media.spec().expect("possible").zones[0].sectors, 200);
}

/// Tracks of thousands of short sectors, read for minutes: roundings must not add up to a missed turn.
#[test]
fn a_drive_of_today_streams_without_missing_a_turn() {
    let big = DataSheet {
        heads: 20,
        cylinders: None,
        capacity: Some(20_000_000_000_000),
        outer: TrackRate::Sustained(285e6),
        inner: TrackRate::Sustained(137e6),
        zones: 32,
        seek: DataSheetSeek::Points([0.3, 8.0, 16.0]),
        cache: 256 << 20,
        segments: 64,
        interface: 600e6,
        ..printed()
    };
    let model = model(&big);
    assert!((model.blocks() as f64 * 512.0 / 20e12 - 1.0).abs() < 0.01);
    for (depth, blocks) in [(1, 256), (4, 256), (1, 600)] {
        let found = stream(&model, depth, blocks, 10_000, false);
        assert!((found / 285e6 - 1.0).abs() < 0.01, "{depth} of {blocks}: {found}");
    }
}

#[test]
fn early_reported_writes_are_no_faster_than_the_disk() {
    let cached = DataSheet { write_cache: true, ..printed() };
    let model = model(&cached);
    let rate = 200.0 * 512.0 * 120.0 / 1.205;
    for (depth, blocks) in [(1, 128), (4, 128), (16, 64)] {
        let found = stream(&model, depth, blocks, 40_000 / u64::from(blocks), true);
        assert!((0.9..1.05).contains(&(found / rate)), "{depth} of {blocks}: {found} and {rate}");
    }
}

#[test]
fn random_reads_take_seek_turn_and_overhead() {
    let model = model(&printed());
    let (mut drive, mut now) = (MechanicalDrive::new(&model), 0);
    let mut rng = diskwright_base::Rng::new(3, 0);
    let all = 20_000;
    for _ in 0..all {
        now = drive.start(now, &Io::read(rng.next_below(model.blocks() / 8) * 8, 8)).done;
    }
    // 0.5 command, 8.5 seek, 4.17 turn, 8 of 160 sectors 0.42
    let mean = now as f64 / 1e6 / f64::from(all);
    assert!((mean / (0.5 + 8.5 + 4.17 + 0.42) - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn impossible_print_is_refused_with_what_would_be_right() {
    let points = |ms| DataSheetSeek::Points(ms);
    let wrong: Vec<(&str, DataSheet)> = vec![
        ("rpm", DataSheet { rpm: 0.0, ..printed() }),
        ("rpm", DataSheet { rpm: f64::NAN, ..printed() }),
        ("heads", DataSheet { heads: 0, ..printed() }),
        ("zones", DataSheet { zones: 0, ..printed() }),
        ("zones", DataSheet { zones: 1000, ..printed() }),
        ("cylinders", DataSheet { cylinders: Some(0), ..printed() }),
        ("cylinders", DataSheet { cylinders: Some(u32::MAX), ..printed() }),
        ("capacity", DataSheet { cylinders: None, capacity: None, ..printed() }),
        ("capacity", DataSheet { cylinders: None, capacity: Some(u64::MAX), ..printed() }),
        ("capacity", DataSheet { capacity: Some(1000), ..printed() }),
        ("outer tracks", DataSheet { outer: TrackRate::Sectors(0.0), ..printed() }),
        ("outer tracks", DataSheet { outer: TrackRate::Media(1e15), ..printed() }),
        ("inner tracks", DataSheet { inner: TrackRate::Sectors(201.0), ..printed() }),
        ("seek", DataSheet { seek: points([5.0, 3.0, 9.0]), ..printed() }),
        ("seek", DataSheet { seek: points([1.0, 1.1, 30.0]), ..printed() }),
        ("seek", DataSheet { seek: points([1.0, f64::NAN, 30.0]), ..printed() }),
        ("seek", DataSheet { seek: points([1.0, 5000.0, 9000.0]), ..printed() }),
        ("head switch", DataSheet { head_switch_ms: -1.0, ..printed() }),
        ("interface", DataSheet { interface: 0.0, ..printed() }),
        ("segments", DataSheet { segments: 0, ..printed() }),
        ("segments", DataSheet { segments: 100_000, ..printed() }),
    ];
    for (item, printed) in wrong {
        let error = printed.spec().map(|_| ()).expect_err(item);
        assert_eq!(error.item, item, "{error}");
    }
    let falling = RootAndLine { from: 100.0, short: 2.0, root: 0.1, long: -100.0, slope: 0.001, first: Vec::new() };
    let odd = DataSheet { seek: DataSheetSeek::Curve(falling), ..printed() };
    assert!(Model::new(&odd.spec().expect("its numbers are possible")).is_err());
}
