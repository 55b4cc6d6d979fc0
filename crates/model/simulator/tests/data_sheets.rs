//! Mechanical drives from data sheets: the resulting times and capacities.

use std::sync::Arc;

use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::drive::{
    DataSheet, DataSheetSeek, DriveQueue, MechanicalDrive, Model, QueuePolicy, RootAndLine, SeekCurve, TrackRate,
};

fn data_sheet() -> DataSheet {
    DataSheet {
        name: "of print".into(),
        rpm: 7200.0,
        heads: 4,
        capacity_bytes: None,
        cylinders: Some(6000),
        outer: TrackRate::Sectors(200.0),
        inner: TrackRate::Sectors(120.0),
        zones: 9,
        seek: DataSheetSeek::Points([1.5, 8.5, 17.0]),
        head_switch_ms: 1.0,
        write_settle_ms: 0.5,
        command_ms: 0.5,
        hit_ms: 0.2,
        cache_bytes: 1 << 20,
        segments: 4,
        read_ahead: true,
        write_cache: false,
        interface_bytes_per_s: 40e6,
        never_disconnects: false,
        on_arrival: false,
        queue_slots: 64,
        queue_policy: QueuePolicy::ShortestPositioning,
    }
}

fn model(printed: &DataSheet) -> Arc<Model> {
    Arc::new(Model::new(&printed.to_spec().expect("possible")).expect("possible"))
}

/// Mean over the distances of two uniform places, from the table of a curve.
fn mean_ms(seek: &SeekCurve, cylinders: u32) -> f64 {
    let times = seek.build_table(cylinders).expect("possible");
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
            let sheet = DataSheet {
                seek: DataSheetSeek::Points([one, mean, full]),
                cylinders: Some(cylinders),
                ..data_sheet()
            };
            let seek = sheet.to_spec().expect("possible").seek;
            let times = seek.build_table(cylinders).expect("possible");
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
fn a_pure_root_curve_matches_hand_computed_times() {
    let sheet = DataSheet { seek: DataSheetSeek::Points([1.0, 8.99, 16.0]), cylinders: Some(10_001), ..data_sheet() };
    let times = sheet.to_spec().expect("possible").seek.build_table(10_001).expect("possible");
    // a quarter of the way: 1 + 15 / 2
    assert!((f64::from(times[2500]) / 1e6 - 8.5).abs() < 0.1, "{}", times[2500]);
}

#[test]
fn figures_that_no_root_and_line_fit_get_a_power() {
    // 0.45 of the way is between; 0.6 and 0.3 are not
    for share in [0.6, 0.3, 0.15, 0.85] {
        let mean = 1.0 + 15.0 * share;
        let sheet = DataSheet { seek: DataSheetSeek::Points([1.0, mean, 16.0]), ..data_sheet() };
        let seek = sheet.to_spec().expect("possible").seek;
        assert!(matches!(seek, SeekCurve::Table(_)));
        assert!((mean_ms(&seek, 6000) / mean - 1.0).abs() < 0.02, "{share}: {}", mean_ms(&seek, 6000));
    }
}

#[test]
fn capacity_comes_from_cylinders_or_makes_them() {
    // 6000 cylinders of 4 tracks of 160 sectors in the mean
    let blocks = model(&data_sheet()).capacity_blocks() as f64;
    assert!((blocks / (6000.0 * 4.0 * 160.0) - 1.0).abs() < 0.01, "{blocks}");
    let found = DataSheet { cylinders: None, capacity_bytes: Some(6000 * 4 * 160 * 512), ..data_sheet() };
    assert!((f64::from(found.to_spec().expect("possible").cylinders) - 6000.0).abs() < 10.0);
    // both: the rates of the edges stay and the zones between bend
    let both = DataSheet { capacity_bytes: Some(6000 * 4 * 170 * 512), ..data_sheet() };
    let spec = both.to_spec().expect("possible");
    assert_eq!((spec.zones[0].sectors_per_track, spec.zones[8].sectors_per_track), (200, 120));
    assert!((model(&both).capacity_blocks() as f64 / (6000.0 * 4.0 * 170.0) - 1.0).abs() < 0.02);
    // few zones too: 4 of them whose tracks have 145 sectors on average
    let few = DataSheet { capacity_bytes: Some(6000 * 4 * 145 * 512), zones: 4, ..data_sheet() };
    let off = model(&few).capacity_blocks() as f64 / (6000.0 * 4.0 * 145.0) - 1.0;
    assert!(off.abs() < 0.01, "{off}");
    // one zone has what all tracks have on average
    let one = DataSheet { zones: 1, ..found };
    assert_eq!(
        (one.to_spec().expect("possible").zones[0].sectors_per_track, model(&one).capacity_blocks()),
        (160, 6000 * 4 * 160)
    );
    let bent = DataSheet { zones: 1, ..both };
    assert_eq!(bent.to_spec().expect("possible").zones[0].sectors_per_track, 170);
}

/// Time of reading or writing the first megabytes in order.
fn stream(model: &Arc<Model>, depth: u32, blocks: u32, requests: u64, write: bool) -> f64 {
    let mut drive = MechanicalDrive::new(model);
    let mut queue = DriveQueue::new(model.queue_policy());
    let io = |index: u64| Io { first: index * u64::from(blocks), blocks, write };
    let mut next = 0;
    for _ in 0..depth {
        queue.push(&drive, io(next), ());
        next += 1;
    }
    let mut now: Ns = 0;
    for _ in 0..requests {
        let (io_now, ()) = queue.next(now, &drive).expect("it is never empty");
        now = drive.start(now, &io_now).done_at;
        queue.push(&drive, io(next), ());
        next += 1;
    }
    requests as f64 * f64::from(blocks) * 512.0 / (now as f64 / 1e9)
}

/// Worked: 200 sectors in 8.33 ms are 12.29 MB/s while a track passes; a switch of head costs
/// 1 + 0.5 ms and a hundredth of a turn, 19 %, of cylinder 25 %, in whole sectors, 20.5 % in the mean of four.
#[test]
fn a_long_read_has_the_sustained_rate_at_any_depth() {
    let model = model(&data_sheet());
    let rate = 200.0 * 512.0 * 120.0 / 1.205;
    for (depth, blocks) in [(1, 8), (1, 128), (1, 1024), (4, 8), (4, 128), (32, 64)] {
        let found = stream(&model, depth, blocks, 20_000 / u64::from(blocks), false);
        assert!((found / rate - 1.0).abs() < 0.02, "{depth} of {blocks}: {found} and {rate}");
    }
    // and the other way: from the sustained rate to the sectors
    let sheet =
        DataSheet { outer: TrackRate::Sustained(rate), inner: TrackRate::Sustained(rate * 0.6), ..data_sheet() };
    let sectors = sheet.to_spec().expect("possible").zones[0].sectors_per_track;
    assert!((198..=202).contains(&sectors), "{sectors}");
    let media = DataSheet { outer: TrackRate::Media(200.0 * 512.0 * 120.0), ..data_sheet() };
    assert_eq!(media.to_spec().expect("possible").zones[0].sectors_per_track, 200);
}

/// Tracks of thousands of short sectors, read for minutes: roundings must not add up to a missed turn.
#[test]
fn a_drive_of_today_streams_without_missing_a_turn() {
    let big = DataSheet {
        heads: 20,
        cylinders: None,
        capacity_bytes: Some(20_000_000_000_000),
        outer: TrackRate::Sustained(285e6),
        inner: TrackRate::Sustained(137e6),
        zones: 32,
        seek: DataSheetSeek::Points([0.3, 8.0, 16.0]),
        cache_bytes: 256 << 20,
        segments: 64,
        interface_bytes_per_s: 600e6,
        ..data_sheet()
    };
    let model = model(&big);
    assert!((model.capacity_blocks() as f64 * 512.0 / 20e12 - 1.0).abs() < 0.01);
    for (depth, blocks) in [(1, 256), (4, 256), (1, 600)] {
        let found = stream(&model, depth, blocks, 10_000, false);
        assert!((found / 285e6 - 1.0).abs() < 0.01, "{depth} of {blocks}: {found}");
    }
}

#[test]
fn early_reported_writes_are_no_faster_than_the_disk() {
    let cached = DataSheet { write_cache: true, ..data_sheet() };
    let model = model(&cached);
    let rate = 200.0 * 512.0 * 120.0 / 1.205;
    for (depth, blocks) in [(1, 128), (4, 128), (16, 64)] {
        let found = stream(&model, depth, blocks, 40_000 / u64::from(blocks), true);
        assert!((0.9..1.05).contains(&(found / rate)), "{depth} of {blocks}: {found} and {rate}");
    }
}

#[test]
fn random_reads_take_seek_turn_and_overhead() {
    let model = model(&data_sheet());
    let (mut drive, mut now) = (MechanicalDrive::new(&model), 0);
    let mut rng = diskwright_base::Rng::new(3, 0);
    let all = 20_000;
    for _ in 0..all {
        now = drive.start(now, &Io::read(rng.next_below(model.capacity_blocks() / 8) * 8, 8)).done_at;
    }
    // 0.5 command, 8.5 seek, 4.17 turn, 8 of 160 sectors 0.42
    let mean = now as f64 / 1e6 / f64::from(all);
    assert!((mean / (0.5 + 8.5 + 4.17 + 0.42) - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn impossible_data_sheets_are_refused_with_a_remedy() {
    let points = |ms| DataSheetSeek::Points(ms);
    let wrong: Vec<(&str, DataSheet)> = vec![
        ("rpm", DataSheet { rpm: 0.0, ..data_sheet() }),
        ("rpm", DataSheet { rpm: f64::NAN, ..data_sheet() }),
        ("heads", DataSheet { heads: 0, ..data_sheet() }),
        ("zones", DataSheet { zones: 0, ..data_sheet() }),
        ("zones", DataSheet { zones: 1000, ..data_sheet() }),
        ("cylinders", DataSheet { cylinders: Some(0), ..data_sheet() }),
        ("cylinders", DataSheet { cylinders: Some(u32::MAX), ..data_sheet() }),
        ("capacity", DataSheet { cylinders: None, capacity_bytes: None, ..data_sheet() }),
        ("capacity", DataSheet { cylinders: None, capacity_bytes: Some(u64::MAX), ..data_sheet() }),
        ("capacity", DataSheet { capacity_bytes: Some(1000), ..data_sheet() }),
        ("outer tracks", DataSheet { outer: TrackRate::Sectors(0.0), ..data_sheet() }),
        ("outer tracks", DataSheet { outer: TrackRate::Media(1e15), ..data_sheet() }),
        ("inner tracks", DataSheet { inner: TrackRate::Sectors(201.0), ..data_sheet() }),
        ("seek", DataSheet { seek: points([5.0, 3.0, 9.0]), ..data_sheet() }),
        ("seek", DataSheet { seek: points([1.0, 1.1, 30.0]), ..data_sheet() }),
        ("seek", DataSheet { seek: points([1.0, f64::NAN, 30.0]), ..data_sheet() }),
        ("seek", DataSheet { seek: points([1.0, 5000.0, 9000.0]), ..data_sheet() }),
        ("head switch", DataSheet { head_switch_ms: -1.0, ..data_sheet() }),
        ("interface", DataSheet { interface_bytes_per_s: 0.0, ..data_sheet() }),
        ("segments", DataSheet { segments: 0, ..data_sheet() }),
        ("segments", DataSheet { segments: 100_000, ..data_sheet() }),
    ];
    for (item, printed) in wrong {
        let error = printed.to_spec().map(|_| ()).expect_err(item);
        assert_eq!(error.item, item, "{error}");
    }
    let falling = RootAndLine {
        long_from_cylinders: 100.0,
        short_ms: 2.0,
        root_ms: 0.1,
        long_ms: -100.0,
        slope_ms: 0.001,
        measured_ms: Vec::new(),
    };
    let odd = DataSheet { seek: DataSheetSeek::Curve(falling), ..data_sheet() };
    assert!(Model::new(&odd.to_spec().expect("its numbers are possible")).is_err());
}
