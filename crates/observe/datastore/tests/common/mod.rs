//! Logs in temporary directories, and functions that read them.
#![allow(dead_code, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use diskwright_base::{Frame, Note, Schema, Series, Tick};
use diskwright_datastore::{Damage, LogItem, LogReader, LogWriter, WriteOutcome, WriterOptions};

/// A directory that is deleted when dropped.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dwlog-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // In memory if possible: some tests write a file ten thousand times.
        let memory = Path::new("/dev/shm");
        let path = if memory.is_dir() { memory.join(name) } else { std::env::temp_dir().join(name) };
        std::fs::create_dir_all(&path).expect("a temporary directory");
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub const SECOND: i64 = 1_000_000_000;

pub fn schema(series: usize) -> Arc<Schema> {
    let one = |i: usize| Series { counter: "physical_disk.reads".into(), instance: format!("sd{i}"), scale: 1.0 };
    Arc::new(Schema::new((0..series).map(one).collect()))
}

/// Tick `i` of a log that starts at second 1000.
pub fn tick(i: u64) -> Tick {
    Tick { time_ns: (1000 + i as i64) * SECOND, elapsed_ns: 1_000_000_000 + i % 3 }
}

/// A row whose cells contain the number of its tick, or are gaps.
pub fn row(i: u64, series: usize) -> Vec<f64> {
    (0..series as u64).map(|s| if (i + s).is_multiple_of(17) { f64::NAN } else { (i * 1000 + s) as f64 }).collect()
}

pub fn options(block_ticks: usize) -> WriterOptions {
    WriterOptions { block_ticks, time_unit_ns: 1, sync_every: None, ..WriterOptions::default() }
}

pub fn push_ticks(writer: &mut LogWriter, schema: &Arc<Schema>, ticks: std::ops::Range<u64>) {
    for i in ticks {
        let state = writer.push(schema, tick(i), &row(i, schema.series.len())).expect("writable");
        assert_eq!(state, WriteOutcome::Recorded);
    }
}

/// Everything that a reader returns.
#[derive(Debug, Default)]
pub struct LogContents {
    pub ticks: Vec<Tick>,
    /// Bits of the cells, row by row; all NaNs have the same.
    pub rows: Vec<Vec<u64>>,
    /// Schema of each row.
    pub schemas: Vec<Arc<Schema>>,
    /// Number of frames in which the ticks came.
    pub frames: usize,
    pub notes: Vec<Note>,
    pub damages: Vec<Damage>,
}

pub fn cell_bits(cell: f64) -> u64 {
    if cell.is_nan() { f64::NAN.to_bits() } else { cell.to_bits() }
}

impl LogContents {
    pub fn read_from(reader: &mut LogReader) -> LogContents {
        let mut seen = LogContents::default();
        let mut frame = Frame::default();
        while let Some(item) = reader.next(&mut frame).expect("readable") {
            match item {
                LogItem::Note(note) => seen.notes.push(note),
                LogItem::Damage(damage) => seen.damages.push(damage),
                LogItem::Frame => {
                    seen.frames += 1;
                    for (index, tick) in frame.ticks().iter().enumerate() {
                        let width = frame.schema().series.len();
                        seen.rows.push((0..width).map(|c| cell_bits(frame.column(c)[index])).collect());
                        seen.ticks.push(*tick);
                        seen.schemas.push(frame.schema().clone());
                    }
                }
            }
        }
        seen
    }

    pub fn read_log(path: &Path) -> LogContents {
        LogContents::read_from(&mut LogReader::open(path).expect("a log"))
    }

    /// Numbers of the ticks, checked cell by cell against [`row`].
    pub fn checked_numbers(&self) -> Vec<u64> {
        let number = |(index, t): (usize, &Tick)| {
            let i = (t.time_ns / SECOND - 1000) as u64;
            assert_eq!(*t, tick(i));
            let expected: Vec<u64> = row(i, self.rows[index].len()).into_iter().map(cell_bits).collect();
            assert_eq!(self.rows[index], expected, "tick {i}");
            i
        };
        self.ticks.iter().enumerate().map(number).collect()
    }

    pub fn note_texts(&self) -> Vec<&str> {
        self.notes.iter().map(|n| n.text()).collect()
    }
}

pub fn tick_numbers(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}
