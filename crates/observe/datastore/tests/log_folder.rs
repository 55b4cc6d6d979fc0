//! The log, or a file of it, is removed during recording; and root records in
//! folders of other users.
#![allow(clippy::expect_used)]

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use crate::common::{LogContents, TempDir, options, push_ticks, schema, tick, tick_numbers};
use diskwright_base::Note;
use diskwright_datastore::{LogReader, LogWriter, Loss, StoreError, WriterOptions, add_bookmark};

fn with_syncs() -> WriterOptions {
    WriterOptions { sync_every: Some(Duration::from_millis(1)), ..options(10) }
}

fn gap_notes(seen: &LogContents) -> Vec<&str> {
    seen.notes.iter().filter(|note| note.kind == Note::GAP).map(Note::text).collect()
}

#[test]
fn a_removed_folder_is_created_again_at_the_next_tick_and_noted() {
    for options in [options(10), with_syncs()] {
        let dir = TempDir::new();
        let log = dir.0.join("log");
        let mut writer = LogWriter::create_or_append(&log, options).expect("new log");
        writer.add_note(&Note::new(0, Note::TOPOLOGY, "{}")).expect("writable");
        push_ticks(&mut writer, &schema(3), 0..25);
        fs::remove_dir_all(&log).expect("was there");
        push_ticks(&mut writer, &schema(3), 25..26);
        // Ticks that were in no block yet are kept; blocks were removed with the folder.
        let seen = LogContents::read_log(&log);
        assert_eq!(seen.checked_numbers(), tick_numbers(20..26));
        assert!(
            gap_notes(&seen)[0].contains("removed or moved") && gap_notes(&seen)[0].contains("20 ticks with it"),
            "{seen:?}"
        );
        assert_eq!(seen.note_texts().first(), Some(&"{}"), "the machine is described in the new folder too");
        assert_eq!((writer.take_remarks().len(), writer.removed_ticks()), (1, 20));
        push_ticks(&mut writer, &schema(3), 26..60);
        writer.close().expect("writable");
        let seen = LogContents::read_log(&log);
        assert_eq!((seen.checked_numbers(), seen.damages), (tick_numbers(20..60), vec![]));
        assert_eq!(fs::metadata(&log).expect("made").mode() & 0o777, 0o700);
    }
}

/// Each removal adds what was in the folder at that time; what was counted as removed before is not in it.
#[test]
fn every_removal_counts_what_went_with_it() {
    let dir = TempDir::new();
    let log = dir.0.join("log");
    let mut writer = LogWriter::create_or_append(&log, options(10)).expect("new log");
    push_ticks(&mut writer, &schema(3), 0..25);
    fs::remove_file(log.join("00000001.dwlog")).expect("was there");
    push_ticks(&mut writer, &schema(3), 25..45);
    assert_eq!(writer.removed_ticks(), 20);
    fs::remove_dir_all(&log).expect("was there");
    push_ticks(&mut writer, &schema(3), 45..46);
    // 20 to 39 were in blocks; 0 to 19 were not there any more
    assert_eq!(writer.removed_ticks(), 40);
    fs::remove_dir_all(&log).expect("was there");
    push_ticks(&mut writer, &schema(3), 46..47);
    assert_eq!(writer.removed_ticks(), 40, "all were in memory");
    let seen = LogContents::read_log(&log);
    assert!(gap_notes(&seen).iter().any(|note| note.contains("no tick is lost")), "{seen:?}");
    writer.close().expect("writable");
    // the next recorder's account begins with the log that it finds
    let mut writer = LogWriter::create_or_append(&log, options(10)).expect("a log");
    push_ticks(&mut writer, &schema(3), 47..48);
    fs::remove_dir_all(&log).expect("was there");
    push_ticks(&mut writer, &schema(3), 48..49);
    assert_eq!(writer.removed_ticks(), 7, "40 to 46");
}

#[test]
fn a_moved_folder_is_left_alone_and_stays_a_log() {
    let dir = TempDir::new();
    let (log, moved) = (dir.0.join("log"), dir.0.join("moved"));
    let mut writer = LogWriter::create_or_append(&log, options(10)).expect("new log");
    push_ticks(&mut writer, &schema(3), 0..4);
    // Devices appeared while the block was open.
    push_ticks(&mut writer, &schema(4), 4..25);
    fs::rename(&log, &moved).expect("moved");
    push_ticks(&mut writer, &schema(4), 25..40);
    writer.close().expect("writable");
    assert_eq!(LogContents::read_log(&moved).checked_numbers(), tick_numbers(0..25));
    assert_eq!(LogContents::read_log(&log).checked_numbers(), tick_numbers(20..40));
}

#[test]
fn a_folder_removed_just_before_the_end_is_noted_too() {
    let dir = TempDir::new();
    let log = dir.0.join("log");
    let mut writer = LogWriter::create_or_append(&log, options(10)).expect("new log");
    push_ticks(&mut writer, &schema(3), 0..25);
    fs::remove_dir_all(&log).expect("was there");
    writer.finish().expect("writable");
    assert_eq!(writer.take_remarks().len(), 1);
    drop(writer);
    assert_eq!(LogContents::read_log(&log).checked_numbers(), tick_numbers(20..25));
    // An import no longer has what it wrote before: it fails, and can be run again.
    let bulk = WriterOptions { block_ticks: 10, ..WriterOptions::for_bulk_import() };
    let mut writer = LogWriter::create_or_append(&log, bulk).expect("a log");
    push_ticks(&mut writer, &schema(3), 30..35);
    fs::remove_dir_all(&log).expect("was there");
    assert!(matches!(writer.finish(), Err(StoreError::Io { .. })));
}

#[test]
fn a_folder_replaced_by_something_else_is_an_error() {
    let dir = TempDir::new();
    let log = dir.0.join("log");
    let mut writer = LogWriter::create_or_append(&log, options(10)).expect("new log");
    push_ticks(&mut writer, &schema(3), 0..5);
    fs::remove_dir_all(&log).expect("was there");
    fs::write(&log, "a letter").expect("writable");
    let pushed = writer.push(&schema(3), tick(5), &common::row(5, 3));
    assert!(pushed.is_err(), "{pushed:?}");
    drop(writer);
    assert_eq!(fs::read(&log).expect("still there"), b"a letter");
}

#[test]
fn removed_files_of_a_log_are_created_again_and_the_loss_is_noted() {
    for (file, lost) in [("00000001.dwlog", 20), ("tail", 0), ("ledger", 0), ("lock", 0)] {
        for options in [options(10), with_syncs()] {
            let dir = TempDir::new();
            let mut writer = LogWriter::create_or_append(&dir.0, options).expect("new log");
            push_ticks(&mut writer, &schema(3), 0..25);
            fs::remove_file(dir.0.join(file)).expect("was there");
            push_ticks(&mut writer, &schema(3), 25..26);
            let seen = LogContents::read_log(&dir.0);
            assert_eq!(seen.checked_numbers(), tick_numbers(lost..26), "{file}");
            let lost_ticks: Option<u64> = seen.damages.iter().map(|damage| damage.ticks).sum();
            assert_eq!(lost_ticks, Some(lost), "{file}: {:?}", seen.damages);
            assert_eq!(gap_notes(&seen).len(), usize::from(lost > 0), "{file}: {:?}", gap_notes(&seen));
            assert!(dir.0.join("lock").exists() && dir.0.join("ledger").exists());
            let second = LogWriter::create_or_append(&dir.0, common::options(4));
            assert!(matches!(second, Err(StoreError::LockHeld { .. })), "{file}: {second:?}");
            push_ticks(&mut writer, &schema(3), 26..50);
            writer.close().expect("writable");
            assert_eq!(LogContents::read_log(&dir.0).checked_numbers(), tick_numbers(lost..50), "{file}");
        }
    }
}

/// Devices appeared while a block was open; only the removed segment contained the block's first schema.
#[test]
fn ticks_that_wait_while_their_segment_is_removed_keep_all_their_schemas() {
    for options in [options(10), with_syncs()] {
        let dir = TempDir::new();
        let mut writer = LogWriter::create_or_append(&dir.0, options).expect("new log");
        push_ticks(&mut writer, &schema(3), 0..22);
        push_ticks(&mut writer, &schema(4), 22..25);
        fs::remove_file(dir.0.join("00000001.dwlog")).expect("was there");
        push_ticks(&mut writer, &schema(4), 25..35);
        writer.close().expect("writable");
        let seen = LogContents::read_log(&dir.0);
        assert_eq!(seen.checked_numbers(), tick_numbers(20..35));
        let lost_ticks: Option<u64> = seen.damages.iter().map(|damage| damage.ticks).sum();
        assert_eq!(lost_ticks, Some(20), "{:?}", seen.damages);
    }
}

#[test]
fn links_and_pipes_in_a_log_are_not_written_through() {
    let dir = TempDir::new();
    let precious = dir.0.join("precious");
    for name in ["lock", "tail", "ledger", "marks.dwlog", "00000003.dwlog"] {
        let log = dir.0.join(format!("log-{name}"));
        let mut writer = LogWriter::create_or_append(&log, options(4)).expect("new log");
        push_ticks(&mut writer, &schema(2), 0..9);
        writer.close().expect("writable");
        fs::write(&precious, "precious").expect("writable");
        let _ = fs::remove_file(log.join(name));
        symlink(&precious, log.join(name)).expect("a link");
        let marked = add_bookmark(&log, &Note::new(0, Note::BOOKMARK, "here"));
        let recorded = LogWriter::create_or_append(&log, options(4)).and_then(|mut writer| {
            writer.push(&schema(2), tick(9), &[1.0, 2.0])?;
            writer.close()
        });
        let refused = if name == "marks.dwlog" { marked.is_err() } else { recorded.is_err() };
        assert!(refused || name == "00000003.dwlog", "{name}: {marked:?} {recorded:?}");
        assert_eq!(fs::read(&precious).expect("there"), b"precious", "{name}");
        // Readers skip it, and report that if a tick could be in it.
        let seen = LogContents::read_log(&log);
        assert!(seen.ticks.len() >= 9, "{name}");
        let refused = seen.damages.iter().filter(|damage| damage.loss == Loss::Refused).count();
        assert_eq!(refused, usize::from(name != "lock"), "{name}: {:?}", seen.damages);
    }
}

#[test]
fn a_pipe_in_a_log_does_not_block_a_reader() {
    let dir = TempDir::new();
    let mut writer = LogWriter::create_or_append(&dir.0, options(4)).expect("new log");
    push_ticks(&mut writer, &schema(2), 0..9);
    writer.close().expect("writable");
    for name in ["00000002.dwlog", "tail", "marks.dwlog"] {
        let made = std::process::Command::new("mkfifo").arg(dir.0.join(name)).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no mkfifo program");
            return;
        }
    }
    let seen = LogContents::read_log(&dir.0);
    assert_eq!(seen.checked_numbers(), tick_numbers(0..9));
    assert_eq!(seen.damages.iter().filter(|damage| damage.loss == Loss::Refused).count(), 3);
    assert!(LogReader::open(&dir.0).expect("a log").time_range().expect("readable").is_some());
}

#[test]
fn folders_of_others_are_refused_and_new_ones_are_private() {
    let dir = TempDir::new();
    let log = dir.0.join("new/log");
    let mut writer = LogWriter::create_or_append(&log, options(4)).expect("new log");
    push_ticks(&mut writer, &schema(2), 0..9);
    add_bookmark(&log, &Note::new(0, Note::BOOKMARK, "here")).expect("a log");
    for name in ["00000001.dwlog", "tail", "ledger", "lock", "marks.dwlog"] {
        assert_eq!(fs::metadata(log.join(name)).expect("made").mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&log).expect("made").mode() & 0o777, 0o700);
    writer.close().expect("writable");
    // Logs of earlier releases are readable by others; they can be continued.
    fs::set_permissions(log.join("00000001.dwlog"), fs::Permissions::from_mode(0o644)).expect("ours");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o755)).expect("ours");
    LogWriter::create_or_append(&log, options(4)).expect("a log").close().expect("writable");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o777)).expect("ours");
    assert_refused(&log, "every user");
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root meets folders of others");
        return;
    }
    fs::set_permissions(&log, fs::Permissions::from_mode(0o755)).expect("ours");
    chown(&log, Some(65_534), Some(65_534)).expect("root");
    assert_refused(&log, "another user (uid 65534)");
    assert_eq!(LogContents::read_log(&log).checked_numbers(), tick_numbers(0..9), "reading harms nobody");
    // A file of another user in our own folder is refused too.
    chown(&log, Some(0), Some(0)).expect("root");
    chown(log.join("lock"), Some(65_534), None).expect("root");
    assert!(matches!(LogWriter::create_or_append(&log, options(4)), Err(StoreError::Distrust(_))));
}

fn assert_refused(log: &Path, why: &str) {
    let before = fs::read_dir(log).expect("a folder").count();
    let recorded = LogWriter::create_or_append(log, options(4)).expect_err("not to be trusted").to_string();
    let marked = add_bookmark(log, &Note::new(0, Note::BOOKMARK, "here")).expect_err("not to be trusted").to_string();
    assert!(recorded.contains(why) && marked.contains(why), "{recorded}; {marked}");
    assert_eq!(fs::read_dir(log).expect("a folder").count(), before);
}
