//! Size of latency distributions in a log: at most 60 bytes per busy device and tick.
#![allow(clippy::expect_used)]

use std::sync::Arc;

use diskwright_base::latency::bucket_index;
use diskwright_base::latency_series::LatencyTable;
use diskwright_base::{LatencyOperation, Rng, Schema, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};

use crate::common::{SECOND, TempDir};

const TICKS: u64 = 480;
const DEVICES: usize = 3;

/// Load of a device in a tick: operation, requests, median in microseconds, width (sigma of the logarithm).
type DeviceLoad = &'static [(LatencyOperation, f64, f64, f64)];

/// A solid-state disk of a database: reads in a narrow band, commits, a flush for some of them.
const FLASH: DeviceLoad = &[
    (LatencyOperation::Read, 2000.0, 110.0, 0.25),
    (LatencyOperation::SyncWrite, 300.0, 40.0, 0.3),
    (LatencyOperation::Flush, 20.0, 900.0, 0.3),
];
/// A rotational disk under random reads, with occasional write-back.
const ROTATIONAL: DeviceLoad =
    &[(LatencyOperation::Read, 120.0, 9000.0, 0.4), (LatencyOperation::Write, 20.0, 12_000.0, 0.6)];
/// A cloud volume: one operation with a wide distribution.
const VOLUME: DeviceLoad = &[(LatencyOperation::Read, 1000.0, 800.0, 0.5)];

/// Returns the size of a log of these devices; `load` may be empty.
fn log_bytes(load: DeviceLoad) -> u64 {
    let dir = TempDir::new();
    let mut writer = LogWriter::create_or_append(&dir.0, WriterOptions::default()).expect("new log");
    let (mut table, mut random, mut schema) = (LatencyTable::default(), Rng::new(20, 1), Arc::new(Schema::default()));
    for tick in 0..TICKS {
        for device in 0..DEVICES {
            for (operation, requests, median_us, sigma) in load {
                // the load goes up and down by a third over four minutes
                let swing = 1.0 + 0.33 * (tick as f64 / 38.0).sin();
                let count = (requests * swing + random.draw_normal() * (requests * swing).sqrt()).max(0.0) as u64;
                let latency = |random: &mut Rng| (median_us * 1000.0 * (sigma * random.draw_normal()).exp()) as u64;
                let steps: Vec<(usize, u64)> = (0..count).map(|_| (bucket_index(latency(&mut random)), 1)).collect();
                table.add_requests(&format!("sd{device}"), *operation, steps.into_iter());
            }
        }
        if table.take_changed() {
            let mut series = Vec::new();
            table.append_series(&mut series);
            schema = Arc::new(Schema::new(series));
        }
        let mut row = Vec::new();
        table.drain_cells(&mut row);
        let stamp = Tick { time_ns: (1000 + tick as i64) * SECOND, elapsed_ns: 1_000_000_000 };
        writer.push(&schema, stamp, &row).expect("writable");
    }
    writer.close().expect("writable");
    let files = std::fs::read_dir(&dir.0).expect("a log").flatten();
    files.map(|file| file.metadata().expect("a file").len()).sum()
}

#[test]
fn distributions_take_at_most_sixty_bytes_per_busy_device_and_tick() {
    let nothing = log_bytes(&[]);
    for (name, load) in [("flash", FLASH), ("rotational", ROTATIONAL), ("volume", VOLUME)] {
        let each = (log_bytes(load) - nothing) as f64 / (TICKS * DEVICES as u64) as f64;
        // with 4 devices and 1,200 ticks: 54.9, 33.5 and 39.0
        assert!((10.0..=60.0).contains(&each), "{name}: {each:.1} bytes a device and tick");
    }
}
