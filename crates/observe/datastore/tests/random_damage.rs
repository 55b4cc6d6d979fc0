//! Logs damaged at random: ticks that are read and ticks that are reported lost add up to
//! the ticks that were written.
#![allow(clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{LogContents, TempDir, options, push_ticks, schema};
use diskwright_datastore::{LogReader, LogWriter, WriterOptions};

const LOGS: u64 = 750;

/// A small random generator with the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Writes a log of several segments, closed or killed; returns its number of ticks.
fn write_random_log(dir: &Path, random: &mut Random) -> u64 {
    let mut ticks = 0;
    for run in 0..1 + random.below(3) {
        let span = Duration::from_secs(8 + random.next() % 30);
        let options = WriterOptions { segment_span: span, ..options(2 + random.below(7)) };
        let mut writer = LogWriter::create_or_append(dir, options).expect("a log");
        let more = ticks + 1 + random.next() % 60;
        let schema = schema(1 + (run + random.below(2)) % 3);
        push_ticks(&mut writer, &schema, ticks..more);
        ticks = more;
        match random.below(2) {
            0 => writer.close().expect("writable"),
            _ => {
                // As after a kill, which would also free the lock.
                std::mem::forget(writer);
                std::fs::remove_file(dir.join("lock")).expect("was locked");
            }
        }
    }
    ticks
}

fn list_files(dir: &Path, with: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry"));
    let mut files: Vec<PathBuf> =
        entries.filter(|e| with(&e.file_name().to_string_lossy())).map(|e| e.path()).collect();
    files.sort();
    files
}

/// Damages the log in one way, and returns a description.
fn damage_log(dir: &Path, random: &mut Random) -> String {
    let segments = list_files(dir, |name| name.ends_with(".dwlog"));
    let all = list_files(dir, |name| name.ends_with(".dwlog") || name == "tail");
    if segments.is_empty() {
        return "no segment is left".to_owned();
    }
    let file = &all[random.below(all.len())];
    let other = &segments[random.below(segments.len())];
    let mut bytes = std::fs::read(file).unwrap_or_default();
    let position = random.below(bytes.len());
    let end = (position + 1 + random.below(80)).min(bytes.len());
    let name = file.file_name().expect("a name").to_string_lossy();
    let damage = match random.below(9) {
        0 => {
            let bit = random.below(8);
            bytes.iter_mut().skip(position).take(1).for_each(|byte| *byte ^= 1 << bit);
            format!("{name}: bit {bit} of byte {position}")
        }
        1 => {
            bytes.truncate(position);
            format!("{name}: cut to {position}")
        }
        2 => {
            bytes[position..end].fill(0);
            format!("{name}: zeros from {position} to {end}")
        }
        3 => {
            bytes.drain(position..end);
            format!("{name}: {position} to {end} cut out")
        }
        4 => {
            bytes.drain(..end);
            format!("{name}: its first {end} bytes cut off")
        }
        5 => {
            std::fs::remove_file(file).expect("was there");
            return format!("{name}: removed");
        }
        6 => {
            let copy = dir.join(format!("{:08}.dwlog", 1 + random.below(40)));
            let segment_bytes = std::fs::read(other).expect("readable");
            if !copy.exists() {
                std::fs::write(copy, segment_bytes).expect("writable");
            }
            return format!("{} copied", other.display());
        }
        7 => {
            let second = &segments[random.below(segments.len())];
            let (one, two) = (std::fs::read(other).expect("readable"), std::fs::read(second).expect("readable"));
            std::fs::write(other, two).expect("writable");
            std::fs::write(second, one).expect("writable");
            return format!("{} and {} swapped", other.display(), second.display());
        }
        _ => {
            bytes.splice(position..position, (0..end - position).map(|_| random.next() as u8));
            format!("{name}: bytes put in at {position}")
        }
    };
    std::fs::write(file, bytes).expect("writable");
    damage
}

#[test]
fn ticks_read_and_ticks_reported_lost_add_up_to_ticks_written() {
    let mut lost_anything = 0;
    for seed in 0..LOGS {
        let mut random = Random(seed);
        let dir = TempDir::new();
        let written = write_random_log(&dir.0, &mut random);
        let damages: Vec<String> = (0..1 + random.below(3)).map(|_| damage_log(&dir.0, &mut random)).collect();
        let seen = LogContents::read_log(&dir.0);
        let found = seen.checked_numbers();
        let distinct: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(found.len(), distinct.len(), "seed {seed}: a tick was read twice: {damages:?}");
        let reported: Option<u64> = seen.damages.iter().map(|damage| damage.ticks).sum();
        let place = format!("seed {seed}: {damages:?}: {:#?}", seen.damages);
        assert_eq!(reported, Some(written - found.len() as u64), "{place}");
        lost_anything += u64::from(reported != Some(0));
        // A window over the whole log shows the same losses.
        let mut reader = LogReader::open(&dir.0).expect("a log");
        if let Some((from, to)) = reader.time_range().expect("readable") {
            reader.set_window(from, to);
            let seen = LogContents::read_from(&mut reader);
            let reported: Option<u64> = seen.damages.iter().map(|damage| damage.ticks).sum();
            assert_eq!(reported, Some(written - seen.ticks.len() as u64), "window: {place}");
        }
        // The next recorder does not hide the losses.
        let mut writer = LogWriter::create_or_append(&dir.0, options(4)).expect("a log");
        push_ticks(&mut writer, &schema(2), written..written + 9);
        writer.close().expect("writable");
        let seen = LogContents::read_log(&dir.0);
        let reported: Option<u64> = seen.damages.iter().map(|damage| damage.ticks).sum();
        assert_eq!(reported, Some(written + 9 - seen.ticks.len() as u64), "recorded on: {place}: {:#?}", seen.damages);
    }
    assert!(lost_anything > LOGS / 4, "{lost_anything} of {LOGS} lost any tick");
}

#[test]
fn a_damaged_or_missing_ledger_loses_no_tick() {
    let dir = TempDir::new();
    let written = write_random_log(&dir.0, &mut Random(3));
    let ledger = dir.0.join("ledger");
    let sound = std::fs::read(&ledger).expect("written");
    for index in (0..sound.len()).step_by(5) {
        let mut bytes = sound.clone();
        bytes[index] ^= 8;
        std::fs::write(&ledger, bytes).expect("writable");
        let seen = LogContents::read_log(&dir.0);
        assert_eq!(seen.checked_numbers().len() as u64, written);
        let reported: Vec<_> = seen.damages.iter().map(|d| (d.file.clone(), d.ticks)).collect();
        assert_eq!(reported, [(ledger.clone(), Some(0))], "byte {index}");
    }
    std::fs::remove_file(&ledger).expect("was there");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!((seen.checked_numbers().len() as u64, seen.damages), (written, vec![]));
}
