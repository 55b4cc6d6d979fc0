use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::live::fake::FakeMachine;
use crate::live::note_collector::NoteCollector;

/// A made-up machine and the source alone, with a made-up drive behind the ioctl.
struct HealthBench {
    machine: FakeMachine,
    source: HealthSource,
    notes: NoteCollector,
    now_ns: u64,
}

impl HealthBench {
    fn new(ask: fn(&Path, &DriveAccess) -> HealthReport) -> HealthBench {
        let machine = FakeMachine::new();
        machine.put_file("sys/block/nvme0n1/device/model", "Made up\n");
        HealthBench { machine, source: HealthSource::new(ask), notes: NoteCollector::default(), now_ns: NS_PER_S }
    }

    /// A tick so many seconds later, with the round before it over.
    fn tick(&mut self, seconds: u64) {
        self.source.queries.wait_for_round();
        self.tick_at_once(seconds);
    }

    fn tick_at_once(&mut self, seconds: u64) {
        self.now_ns += seconds * NS_PER_S;
        let (roots, options) = (self.machine.roots(), SamplerOptions::default());
        let mut context = TickContext {
            roots: &roots,
            options: &options,
            notes: &mut self.notes,
            time_ns: self.now_ns as i64,
            running_ns: self.now_ns,
            since_boot_ns: self.now_ns,
            elapsed_ns: seconds * NS_PER_S,
            is_slow_tick: true,
            devices_due: true,
            processes_due: false,
            topology_due: false,
        };
        self.source.read_tick(&mut context);
    }

    fn value(&self, counter: &str) -> f64 {
        let column = COLUMNS.iter().position(|c| c.counter.ends_with(&format!(".{counter}"))).expect("a column");
        self.source.tables[0].cell(0, column) * COLUMNS[column].scale
    }
}

fn answer(media_errors: u64) -> HealthReport {
    let health = DriveHealth {
        failing: Some(false),
        wear_percent: Some(12),
        temperature_c: Some(40),
        media_errors: Some(media_errors),
        power_on_h: Some(2),
        ..DriveHealth::default()
    };
    HealthReport { health: Some(health), ..HealthReport::default() }
}

#[test]
fn health_is_a_level_and_its_errors_are_an_increase() {
    static ERRORS: AtomicU64 = AtomicU64::new(3);
    let mut bench = HealthBench::new(|_, _| answer(ERRORS.load(Ordering::Relaxed)));
    bench.tick(0);
    assert_eq!(bench.source.tables[0].len(), 0, "it has not answered yet");
    bench.tick(5);
    assert_eq!((bench.value("wear_used"), bench.value("temperature"), bench.value("power_on_s")), (0.12, 40.0, 7200.0));
    assert!(bench.value("media_errors").is_nan());
    ERRORS.store(5, Ordering::Relaxed);
    bench.tick(5);
    assert_eq!(bench.value("media_errors"), 0.0, "asked a minute apart");
    bench.tick(60);
    bench.tick(5);
    assert_eq!((bench.value("media_errors"), bench.value("media_errors_ever")), (2.0, 5.0));
    bench.tick(1);
    assert_eq!(bench.value("media_errors"), 0.0);
}

/// Each field has its own number, so that two columns that were exchanged would show.
#[test]
fn each_column_shows_its_own_field() {
    let health = DriveHealth {
        failing: Some(true),
        wear_percent: Some(11),
        spare_percent: Some(12),
        spare_limit_percent: Some(13),
        temperature_c: Some(14),
        temperature_limit_c: Some(15),
        hot_s: Some(16),
        thermal_throttles: Some(17),
        media_errors: Some(18),
        link_errors: Some(19),
        reallocated: Some(20),
        pending: Some(21),
        self_test_failed: Some(false),
        self_test_age_h: Some(22),
        power_on_h: Some(23),
        unsafe_shutdowns: Some(24),
        load_cycles: Some(25),
        written_bytes: Some(26),
        read_bytes: Some(27),
    };
    let expected = [
        (physical_disk::FAILING, 1),
        (physical_disk::WEAR_USED, 11),
        (physical_disk::SPARE_LEFT, 12),
        (physical_disk::SPARE_LIMIT, 13),
        (physical_disk::TEMPERATURE, 14),
        (physical_disk::TEMPERATURE_LIMIT, 15),
        (physical_disk::HOT_S, 16),
        (physical_disk::THERMAL_THROTTLES, 17),
        (physical_disk::MEDIA_ERRORS, 18),
        (physical_disk::MEDIA_ERRORS_EVER, 18),
        (physical_disk::LINK_ERRORS, 19),
        (physical_disk::LINK_ERRORS_EVER, 19),
        (physical_disk::REALLOCATED_SECTORS, 20),
        (physical_disk::PENDING_SECTORS, 21),
        (physical_disk::SELF_TEST_FAILED, 0),
        (physical_disk::SELF_TEST_AGE_S, 22),
        (physical_disk::POWER_ON_S, 23),
        (physical_disk::UNSAFE_SHUTDOWNS, 24),
        (physical_disk::LOAD_CYCLES, 25),
        (physical_disk::LIFETIME_WRITTEN_BYTES, 26),
        (physical_disk::LIFETIME_READ_BYTES, 27),
    ];
    for (counter, value) in expected {
        let (_, field) = HEALTH_COLUMNS.iter().find(|(column, _)| column.counter == counter).expect(counter);
        assert_eq!(field(&health), Some(value), "{counter}");
    }
    assert_eq!(HEALTH_COLUMNS.len(), expected.len(), "a new column needs its line here");
}

/// As above, for a volume's limits: each grew by a different time in the ten seconds between two reports.
#[test]
fn each_column_of_a_volume_shows_its_own_quantity() {
    let histogram = |us: u64| VolumeHistogram { bins: vec![(us, 1000)] };
    let before = VolumeLimits::default();
    let now = VolumeLimits {
        volume_iops_us: 1_000_000,
        volume_throughput_us: 2_000_000,
        instance_iops_us: 3_000_000,
        instance_throughput_us: 4_000_000,
        queue_length: 5,
        reads: histogram(600),
        writes: histogram(700),
    };
    let interval = VolumeInterval { now: &now, before: Some(&before), elapsed_us: 10_000_000 };
    let expected = [
        (physical_disk::VOLUME_IOPS_LIMITED, 100_000),
        (physical_disk::VOLUME_THROUGHPUT_LIMITED, 200_000),
        (physical_disk::INSTANCE_IOPS_LIMITED, 300_000),
        (physical_disk::INSTANCE_THROUGHPUT_LIMITED, 400_000),
        (physical_disk::VOLUME_QUEUE_LENGTH, 5),
        (physical_disk::VOLUME_READ_P99_S, 600),
        (physical_disk::VOLUME_WRITE_P99_S, 700),
    ];
    for (counter, value) in expected {
        let (_, quantity) = VOLUME_COLUMNS.iter().find(|(column, _)| column.counter == counter).expect(counter);
        assert_eq!(quantity(&interval), Some(value), "{counter}");
    }
    assert_eq!(VOLUME_COLUMNS.len(), expected.len(), "a new column needs its line here");
}

/// 3 errors of one drive, and 57 of the one that was put in its place, are no increase of 54.
#[test]
fn a_replaced_drive_starts_from_its_own_totals() {
    static ERRORS: AtomicU64 = AtomicU64::new(3);
    let mut bench = HealthBench::new(|_, _| answer(ERRORS.load(Ordering::Relaxed)));
    bench.tick(0);
    bench.tick(5);
    assert_eq!(bench.value("media_errors_ever"), 3.0);
    ERRORS.store(57, Ordering::Relaxed);
    // both are there at a time, so that they are two folders
    bench.machine.put_file("sys/made/device/model", "Made up too\n");
    let folder = bench.machine.folder().to_path_buf();
    bench.machine.remove("sys/block/nvme0n1");
    std::fs::rename(folder.join("sys/made"), folder.join("sys/block/nvme0n1")).unwrap();
    bench.tick(60);
    bench.tick(5);
    assert_eq!(bench.value("media_errors_ever"), 57.0);
    assert!(bench.value("media_errors").is_nan());
    ERRORS.store(58, Ordering::Relaxed);
    bench.tick(60);
    bench.tick(5);
    assert_eq!(bench.value("media_errors"), 1.0);
}

#[test]
fn a_drive_that_never_answers_blocks_no_tick_and_becomes_a_gap() {
    static ANSWERS: AtomicU64 = AtomicU64::new(0);
    static HANGS: Mutex<()> = Mutex::new(());
    let held = HANGS.lock().unwrap();
    let mut bench = HealthBench::new(|_, _| {
        if ANSWERS.fetch_add(1, Ordering::Relaxed) > 0 {
            drop(HANGS.lock());
        }
        answer(0)
    });
    bench.tick(0);
    bench.tick(5);
    assert_eq!(bench.value("wear_used"), 0.12);
    for _ in 0..10 {
        bench.tick_at_once(60);
    }
    // the thread may have begun late, and no other one was begun beside it
    while ANSWERS.load(Ordering::Relaxed) < 2 {
        std::thread::yield_now();
    }
    bench.tick_at_once(60);
    assert_eq!(ANSWERS.load(Ordering::Relaxed), 2, "no second question while one is open");
    assert!(bench.value("wear_used").is_nan());
    drop(held);
}

#[test]
fn an_unreachable_drive_is_noted_once() {
    let mut bench =
        HealthBench::new(|_, _| HealthReport { error: Some("no permission".into()), ..HealthReport::default() });
    bench.tick(0);
    bench.tick(60);
    bench.tick(60);
    let notes: Vec<String> = bench.notes.take_notes().into_iter().map(Note::into_text).collect();
    assert_eq!(
        notes.iter().filter(|text| text.contains("the health of nvme0n1 is not known: no permission")).count(),
        1
    );
    bench.machine.remove("sys/block/nvme0n1");
    bench.tick(5);
    assert!(bench.source.drives.is_empty());
}

#[test]
fn limits_of_a_volume_are_shares_of_the_time_between_two_reports() {
    static LIMITED_US: AtomicU64 = AtomicU64::new(1_000_000);
    let mut bench = HealthBench::new(|_, _| {
        let limited = LIMITED_US.fetch_add(4_000_000, Ordering::Relaxed);
        let reads = VolumeHistogram { bins: vec![(500, limited / 1000), (8000, limited / 100_000)] };
        let volume = VolumeLimits { volume_iops_us: limited, queue_length: 9, reads, ..VolumeLimits::default() };
        HealthReport { volume: Some(volume), ..HealthReport::default() }
    });
    bench.machine.put_file("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store\n");
    bench.tick(0);
    bench.tick(10);
    assert_eq!(bench.value("volume_queue_length"), 9.0);
    assert!(bench.value("volume_iops_limited").is_nan());
    bench.tick(10);
    assert!((bench.value("volume_iops_limited") - 0.4).abs() < 1e-9);
    assert_eq!(bench.value("instance_iops_limited"), 0.0);
    assert!((bench.value("volume_read_p99_s") - 500e-6).abs() < 1e-12);
    assert!(bench.value("volume_write_p99_s").is_nan());
}

/// The time since a failed answer was shorter than what the statistics counted over, and a volume seemed held back for
/// twice as long as it was.
#[test]
fn a_failed_query_does_not_start_a_volumes_interval() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let mut bench = HealthBench::new(|_, _| {
        // 2 s of each 10; the second answer is none
        match ASKED.fetch_add(1, Ordering::Relaxed) {
            1 => HealthReport { error: Some("made up".into()), ..HealthReport::default() },
            query_count => {
                let volume = VolumeLimits { volume_iops_us: query_count * 2_000_000, ..VolumeLimits::default() };
                HealthReport { volume: Some(volume), ..HealthReport::default() }
            }
        }
    });
    bench.machine.put_file("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store\n");
    bench.tick(0);
    bench.tick(10);
    bench.tick(10);
    assert!(bench.value("volume_iops_limited").is_nan());
    bench.tick(10);
    assert!((bench.value("volume_iops_limited") - 0.2).abs() < 1e-9);
}

/// A drive that fails is silent for a while, and its errors of that time were never counted.
#[test]
fn errors_that_were_added_while_a_drive_was_silent_are_counted_when_it_answers() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let mut bench = HealthBench::new(|_, _| match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 => answer(3),
        1 => HealthReport { error: Some("made up".into()), ..HealthReport::default() },
        _ => answer(7),
    });
    bench.tick(0);
    bench.tick(5);
    bench.tick(60);
    bench.tick(5);
    assert!(bench.value("media_errors").is_nan() && bench.value("media_errors_ever").is_nan());
    bench.tick(60);
    bench.tick(5);
    assert_eq!((bench.value("media_errors"), bench.value("media_errors_ever")), (4.0, 7.0));
    bench.tick(1);
    assert_eq!(bench.value("media_errors"), 0.0);
}
