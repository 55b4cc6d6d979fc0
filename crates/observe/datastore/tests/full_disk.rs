//! Recording on a full disk: a small tmpfs.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::process::Command;

use crate::common::{LogContents, SECOND, TempDir, options, schema, tick, tick_numbers};
use diskwright_base::{Note, Tick};
use diskwright_datastore::{LogWriter, StoreError, WriteOutcome};

/// A mounted tmpfs, unmounted when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(size: &str) -> Option<SmallDisk> {
        let dir = TempDir::new();
        let size = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&dir.0).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(dir)),
            Ok(output) => {
                eprintln!("skipped: no small disk: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(e) => {
                eprintln!("skipped: no mount program: {e}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0.0).output();
    }
}

/// Fills all free space.
fn fill_up(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("room for a name");
    while file.write_all(&[1; 4096]).is_ok() {}
}

/// A row that does not compress, so that the disk is full soon.
fn noisy_row(i: u64) -> Vec<f64> {
    let cell = |s: u64| ((i * 50 + s).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as f64;
    (0..50).map(cell).collect()
}

/// Returns the numbers of the ticks that were read, and checks their rows.
fn read_numbers(seen: &LogContents) -> Vec<u64> {
    let number = |(index, t): (usize, &Tick)| {
        let i = (t.time_ns / SECOND - 1000) as u64;
        let expected: Vec<u64> = noisy_row(i).into_iter().map(f64::to_bits).collect();
        assert_eq!((*t, &seen.rows[index]), (tick(i), &expected));
        i
    };
    seen.ticks.iter().enumerate().map(number).collect()
}

#[test]
fn a_full_disk_pauses_recording_until_there_is_space() {
    let Some(disk) = SmallDisk::new("1m") else { return };
    let log = disk.0.0.join("log");
    let ballast = disk.0.0.join("ballast");
    let schema = schema(50);
    let mut writer = LogWriter::create_or_append(&log, options(10)).expect("new log");
    let mut kept = Vec::new();
    let mut paused = 0;
    for i in 0..900 {
        match i {
            200 | 500 => fill_up(&ballast),
            350 | 650 => std::fs::remove_file(&ballast).expect("was written"),
            _ => {}
        }
        match writer.push(&schema, tick(i), &noisy_row(i)).expect("no other trouble") {
            WriteOutcome::Recorded => kept.push(i),
            WriteOutcome::Paused => paused += 1,
        }
        if i == 300 || i == 600 {
            let seen = LogContents::read_log(&log);
            assert_eq!(read_numbers(&seen), kept, "what is there can be read while the disk is full");
        }
    }
    assert!(paused > 200 && paused <= 300, "{paused} ticks lost");
    writer.close().expect("writable");
    let seen = LogContents::read_log(&log);
    assert_eq!(read_numbers(&seen), kept);
    assert_eq!(kept[kept.len() - 250..], tick_numbers(650..900)[..]);
    let gaps: Vec<_> = seen.notes.iter().filter(|n| n.kind == Note::GAP).collect();
    assert_eq!(gaps.len(), 2, "{:?}", seen.notes);
    assert!(
        gaps[0].text().contains("ticks are lost") && gaps[0].text().contains("No space left"),
        "{}",
        gaps[0].text()
    );
    let first_lost = (0..).find(|i| !kept.contains(i)).expect("some were lost");
    assert_eq!(gaps[0].time_ns, tick(first_lost).time_ns);
    assert_eq!(seen.damages, []);
}

#[test]
fn creating_a_log_on_a_full_disk_is_an_error() {
    let Some(disk) = SmallDisk::new("64k") else { return };
    fill_up(&disk.0.0.join("ballast"));
    match LogWriter::create_or_append(&disk.0.0.join("log"), options(10)) {
        Err(StoreError::Io { source, .. }) => assert_eq!(source.kind(), std::io::ErrorKind::StorageFull),
        other => panic!("{other:?}"),
    }
}
