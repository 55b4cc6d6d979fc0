//! A small log, cut at every offset and with every bit flipped: records that were
//! complete are read, and lost ones are reported.
#![allow(clippy::expect_used)]

use std::path::{Path, PathBuf};

use crate::common::{LogContents, SECOND, TempDir, options, push_ticks, schema, tick, tick_numbers};
use crate::sweep::sweep;
use diskwright_base::Note;
use diskwright_datastore::{Damage, LogReader, LogWriter, Loss, add_bookmark};

const BLOCK: u64 = 4;
const TICKS: u64 = 14;

/// Writes a log of three blocks and two further ticks: closed, or as after a kill.
fn small_log(closed: bool) -> TempDir {
    let dir = TempDir::new();
    let schema = schema(3);
    let mut writer = LogWriter::create_or_append(&dir.0, options(BLOCK as usize)).expect("new log");
    push_ticks(&mut writer, &schema, 0..6);
    writer.add_note(&Note::new(tick(6).time_ns, Note::BOOKMARK, "middle")).expect("writable");
    push_ticks(&mut writer, &schema, 6..TICKS);
    match closed {
        true => writer.close().expect("writable"),
        false => std::mem::forget(writer),
    }
    dir
}

/// Returns start, end and kind of the records of a file.
fn records(bytes: &[u8]) -> Vec<(u8, usize, usize)> {
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let length = u32::from_le_bytes([bytes[offset + 5], bytes[offset + 6], bytes[offset + 7], 0]) as usize;
        found.push((bytes[offset + 4], offset, offset + 16 + length));
        offset += 16 + length;
    }
    assert_eq!(offset, bytes.len(), "a sound file");
    found
}

struct Case {
    dir: TempDir,
    file: PathBuf,
    sound: Vec<u8>,
    /// End of each block in the file.
    blocks: Vec<(usize, usize)>,
}

impl Case {
    fn new(closed: bool, name: &str) -> Case {
        let dir = small_log(closed);
        let file = dir.0.join(name);
        let sound = std::fs::read(&file).expect("written");
        let blocks = records(&sound).into_iter().filter(|r| r.0 == 3).map(|r| (r.1, r.2)).collect();
        Case { dir, file, sound, blocks }
    }

    fn read(&self, bytes: &[u8]) -> Option<LogContents> {
        std::fs::write(&self.file, bytes).expect("writable");
        LogReader::open(&self.dir.0).ok().map(|mut reader| LogContents::read_from(&mut reader))
    }
}

fn lost_ticks(damages: &[Damage]) -> Option<u64> {
    damages.iter().map(|d| d.ticks).sum()
}

#[test]
fn a_closed_log_cut_anywhere_keeps_its_blocks_and_reports_the_loss() {
    let case = Case::new(true, "00000001.dwlog");
    assert_eq!(case.blocks.len(), 4);
    for cut in 0..case.sound.len() {
        let seen = case.read(&case.sound[..cut]).expect("the name says that it is a log");
        let complete_blocks = case.blocks.iter().filter(|b| b.1 <= cut).count() as u64;
        assert_eq!(seen.checked_numbers(), tick_numbers(0..(complete_blocks * BLOCK).min(TICKS)), "cut at {cut}");
        assert!(!seen.damages.is_empty(), "cut at {cut} is not reported");
        let end = seen.damages.iter().map(|d| d.offset + d.bytes).max();
        assert_eq!(end, Some(cut as u64), "cut at {cut}");
    }
}

#[test]
fn a_killed_log_cut_anywhere_keeps_its_blocks_and_reports_lost_ticks() {
    let case = Case::new(false, "00000001.dwlog");
    assert_eq!(case.blocks.len(), 3);
    for cut in 0..case.sound.len() {
        let seen = case.read(&case.sound[..cut]).expect("the name says that it is a log");
        let complete_blocks = case.blocks.iter().filter(|b| b.1 <= cut).count() as u64;
        // The two ticks of the tail are always read.
        let expected: Vec<u64> = (0..complete_blocks * BLOCK).chain(12..TICKS).collect();
        assert_eq!(seen.checked_numbers(), expected, "cut at {cut}");
        assert!(!seen.damages.is_empty() || complete_blocks == 3, "cut at {cut} is not reported");
        if cut >= case.blocks[0].0 {
            assert_eq!(lost_ticks(&seen.damages), Some(TICKS - expected.len() as u64), "cut at {cut}");
        }
    }
}

#[test]
fn any_flipped_bit_loses_at_most_its_own_block_and_is_reported() {
    for closed in [true, false] {
        let case = Case::new(closed, "00000001.dwlog");
        let head = records(&case.sound)[0].2;
        let end = records(&case.sound).last().expect("records").1;
        // one bit of each byte; all bits in a full sweep
        for bit in sweep(case.sound.len() * 8, case.sound.len()) {
            let index = bit / 8;
            let mut bytes = case.sound.clone();
            bytes[index] ^= 1 << (bit % 8);
            let seen = case.read(&bytes).expect("the name says that it is a log");
            assert!(!seen.damages.is_empty(), "bit {bit} is not reported");
            let lost = |i: &u64| case.blocks.get((i / BLOCK) as usize).is_some_and(|b| index >= b.0 && index < b.1);
            let expected: Vec<u64> = (0..TICKS).filter(|i| !lost(i)).collect();
            assert_eq!(seen.checked_numbers(), expected, "bit {bit}");
            // Without a head the first number is not known; after the last block of
            // a file without an end record the last number is not known.
            let telling = if closed { end } else { case.blocks[2].0 };
            if index >= head && index < telling {
                assert_eq!(
                    lost_ticks(&seen.damages),
                    Some(TICKS - expected.len() as u64),
                    "bit {bit}: {:?}",
                    seen.damages
                );
            }
        }
    }
}

#[test]
fn a_damaged_tail_loses_only_the_damaged_tick() {
    let case = Case::new(false, "tail");
    let ticks: Vec<_> = records(&case.sound).into_iter().filter(|r| r.0 == 5).collect();
    assert_eq!(ticks.len(), 2);
    for bit in sweep(case.sound.len() * 8, case.sound.len()) {
        let index = bit / 8;
        let mut bytes = case.sound.clone();
        bytes[index] ^= 1 << (bit % 8);
        let seen = case.read(&bytes).expect("a log");
        assert!(!seen.damages.is_empty(), "bit {bit} is not reported");
        let all = seen.checked_numbers();
        assert_eq!(all[..12], tick_numbers(0..12)[..], "bit {bit}");
        let hit = ticks.iter().filter(|t| index >= t.1 && index < t.2).count();
        assert_eq!(all.len(), TICKS as usize - hit, "bit {bit}");
    }
    for cut in 0..case.sound.len() {
        let seen = case.read(&case.sound[..cut]).expect("a log");
        let complete_ticks = ticks.iter().filter(|t| t.2 <= cut).count() as u64;
        assert_eq!(seen.checked_numbers(), tick_numbers(0..12 + complete_ticks), "cut at {cut}");
    }
}

#[test]
fn a_recorder_continues_after_any_damage_without_changing_existing_files() {
    let case = Case::new(false, "00000001.dwlog");
    let tail = std::fs::read(case.dir.0.join("tail")).expect("killed");
    for index in (0..case.sound.len()).step_by(7) {
        for cut in [true, false] {
            let mut bytes = case.sound.clone();
            bytes[index] ^= 0x10;
            let bytes = if cut { &case.sound[..index] } else { &bytes[..] };
            std::fs::write(&case.file, bytes).expect("writable");
            std::fs::write(case.dir.0.join("tail"), &tail).expect("writable");
            let _ = std::fs::remove_file(case.dir.0.join("00000002.dwlog"));
            let _ = std::fs::remove_file(case.dir.0.join("lock"));
            let before = case.read(bytes).expect("a log").checked_numbers();
            let mut writer = LogWriter::create_or_append(&case.dir.0, options(4)).expect("a log");
            push_ticks(&mut writer, &schema(3), 20..26);
            writer.close().expect("writable");
            let seen = LogContents::read_log(&case.dir.0);
            let expected: Vec<u64> = before.into_iter().chain(20..26).collect();
            assert_eq!(seen.checked_numbers(), expected, "at {index}, cut {cut}");
            assert_eq!(std::fs::read(&case.file).expect("readable"), bytes, "the damaged file is left as it is");
        }
    }
}

#[test]
fn with_changing_schemas_a_flipped_bit_still_loses_only_its_block() {
    let dir = TempDir::new();
    let file = dir.0.join("00000001.dwlog");
    let schemas = [schema(40), schema(41), schema(42)];
    let mut writer = LogWriter::create_or_append(&dir.0, options(6)).expect("new log");
    for i in 0..24 {
        push_ticks(&mut writer, &schemas[i as usize / 4 % 3], i..i + 1);
    }
    writer.close().expect("writable");
    let sound = std::fs::read(&file).expect("written");
    let blocks: Vec<_> = records(&sound).into_iter().filter(|r| r.0 == 3).collect();
    assert_eq!(blocks.len(), 4);
    for bit in sweep(sound.len() * 8, sound.len()) {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&file, bytes).expect("writable");
        let seen = LogContents::read_log(&dir.0);
        let hit = blocks.iter().position(|b| bit / 8 >= b.1 && bit / 8 < b.2);
        let expected: Vec<u64> = (0..24).filter(|i| Some(*i as usize / 6) != hit).collect();
        assert_eq!(seen.checked_numbers(), expected, "bit {bit}");
        assert!(!seen.damages.is_empty(), "bit {bit} is not reported");
    }
}

#[test]
fn a_window_ignores_the_times_of_a_damaged_block() {
    let case = Case::new(true, "00000001.dwlog");
    for bit in sweep(case.sound.len() * 8, case.sound.len()) {
        let mut bytes = case.sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&case.file, bytes).expect("writable");
        let mut reader = LogReader::open(&case.dir.0).expect("the name says that it is a log");
        reader.set_window(tick(5).time_ns, tick(9).time_ns);
        let seen = LogContents::read_from(&mut reader);
        let sound = |i: &u64| {
            let block = case.blocks[(i / BLOCK) as usize];
            bit / 8 < block.0 || bit / 8 >= block.1
        };
        assert_eq!(seen.checked_numbers(), (5..10).filter(sound).collect::<Vec<_>>(), "bit {bit}");
        // Losses wholly before or after the window are not reported.
        let near = bit / 8 >= case.blocks[1].0 && bit / 8 < case.blocks[3].0;
        assert_eq!(!seen.damages.is_empty(), near, "bit {bit}");
    }
}

#[test]
fn a_damaged_bookmark_loses_no_other_and_is_reported() {
    let dir = small_log(true);
    for i in [2, 5, 9] {
        add_bookmark(&dir.0, &Note::new(tick(i).time_ns, Note::BOOKMARK, format!("mark {i}"))).expect("a log");
    }
    let file = dir.0.join("marks.dwlog");
    let sound = std::fs::read(&file).expect("written");
    let marks: Vec<_> = records(&sound).into_iter().filter(|r| r.0 == 4).collect();
    assert_eq!(LogContents::read_log(&dir.0).note_texts(), ["mark 2", "mark 5", "middle", "mark 9"]);
    for index in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[index] ^= 4;
        std::fs::write(&file, bytes).expect("writable");
        let seen = LogContents::read_log(&dir.0);
        let hit = marks.iter().filter(|m| index >= m.1 && index < m.2).count();
        assert_eq!((seen.notes.len(), seen.damages.len()), (4 - hit, 1), "byte {index}: {:?}", seen.damages);
        assert_eq!(seen.damages[0].file, file);
        std::fs::write(&file, &sound[..index]).expect("writable");
        let seen = LogContents::read_log(&dir.0);
        assert_eq!(seen.notes.len(), 1 + marks.iter().filter(|m| m.2 <= index).count(), "cut at {index}");
    }
    std::fs::write(&file, []).expect("writable");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!((seen.damages[0].loss, seen.damages[0].ticks, &seen.damages[0].file), (Loss::Emptied, Some(0), &file));
}

#[test]
fn a_deleted_segment_is_reported_in_ticks() {
    let dir = TempDir::new();
    for run in 0..3 {
        let mut writer = LogWriter::create_or_append(&dir.0, options(4)).expect("a log");
        push_ticks(&mut writer, &schema(2), run * 10..run * 10 + 10);
        writer.close().expect("writable");
    }
    std::fs::remove_file(dir.0.join("00000002.dwlog")).expect("written");
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), (0..10).chain(20..30).collect::<Vec<_>>());
    assert_eq!(seen.damages.len(), 1);
    assert_eq!((seen.damages[0].loss, seen.damages[0].ticks), (Loss::Missing, Some(10)));
}

#[test]
fn a_single_segment_can_be_read_alone_damaged_or_not() {
    let case = Case::new(true, "00000001.dwlog");
    let alone = TempDir::new();
    let file: &Path = &alone.0.join("sent.dwlog");
    std::fs::write(file, &case.sound).expect("writable");
    let seen = LogContents::read_log(file);
    assert_eq!((seen.checked_numbers(), seen.damages), (tick_numbers(0..TICKS), vec![]));
    let mut bytes = case.sound.clone();
    bytes[3] ^= 1;
    std::fs::write(file, &bytes).expect("writable");
    let seen = LogContents::read_log(file);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..TICKS));
    assert_eq!(seen.damages[0].offset, 0);
    assert_eq!(seen.notes[0].time_ns, 1006 * SECOND);
}
