//! The log's folder: opening and locking it, continuing its log, and watching it, because
//! another process may remove it, or one of its files, during recording.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use diskwright_base::Note;
use diskwright_base::units::format_count;
use diskwright_hostfiles::private_files;

use super::LogWriter;
use crate::error::StoreError;
use crate::format::{LEDGER_FILE, LOCK_FILE, MARKS_FILE, TAIL_FILE, parse_segment_number};
use crate::ledger::{LedgerFile, TickLedger, boot_id};
use crate::record_file::WriteFault;
use crate::record_scanner::{HEADER_READ_BYTES, RecordScanner};
use crate::recorder_lock::RecorderLock;
use crate::recovery::TailContent;
use crate::segment_list::{self, SegmentFile};

/// The folder, open and locked.
#[derive(Debug)]
pub(super) struct LogFolder {
    pub dir_file: Arc<File>,
    lock: RecorderLock,
    /// Descriptors for the log's next files, taken before others use up those that this process may have.
    spare_descriptors: Vec<File>,
}

/// Descriptors that the log takes before it has a segment: one for it, one for a folder or the segment after it.
const SPARE_DESCRIPTORS: usize = 2;

impl LogFolder {
    /// Creates the folder, or opens an existing one that no other user
    /// can change, and locks it.
    pub fn open_locked(dir: &Path) -> Result<LogFolder, StoreError> {
        refuse_foreign(dir)?;
        private_files::create_folder(dir).map_err(|e| StoreError::from_distrust(dir, e))?;
        let lock = RecorderLock::acquire_lock(dir)?;
        let folder = File::open(dir).map_err(|e| StoreError::from_io(dir, e))?;
        let spare: Result<Vec<File>, _> = (0..SPARE_DESCRIPTORS).map(|_| folder.try_clone()).collect();
        let spare_descriptors = spare.map_err(|e| StoreError::from_io(dir, e))?;
        Ok(LogFolder { dir_file: Arc::new(folder), lock, spare_descriptors })
    }

    /// Frees the spare descriptors for files that are opened now.
    pub fn release_descriptors(&mut self) {
        self.spare_descriptors.clear();
    }

    /// Takes a spare descriptor again, if there is one.
    pub fn retake_descriptor(&mut self) {
        if self.spare_descriptors.is_empty() {
            self.spare_descriptors.extend(self.dir_file.try_clone());
        }
    }

    /// Returns true if the path now names another folder, or none.
    fn is_folder_replaced(&self, dir: &Path) -> bool {
        let Ok(open_folder) = self.dir_file.metadata() else { return false };
        match std::fs::metadata(dir) {
            Ok(named_folder) => (named_folder.dev(), named_folder.ino()) != (open_folder.dev(), open_folder.ino()),
            Err(e) => matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }

    /// Returns an error if the folder was replaced or removed. Used by imports, which can be run again.
    pub fn require_in_place(&self, dir: &Path) -> Result<(), WriteFault> {
        if !self.is_folder_replaced(dir) {
            return Ok(());
        }
        let source = std::io::Error::new(ErrorKind::NotFound, "the folder was removed while it was being written");
        Err(WriteFault::Fatal(StoreError::Io { path: dir.to_owned(), source }))
    }
}

/// Returns the first tick of a log without a ledger, if it can be determined.
pub(super) fn first_tick(dir: &Path, segments: &[SegmentFile], old_tail: &TailContent) -> Option<u64> {
    let Some(segment) = segments.first() else {
        return Some(old_tail.ticks.first().map_or(0, |tick| tick.number));
    };
    let head = RecordScanner::open(&segment.path(dir), HEADER_READ_BYTES).and_then(|mut scanner| scanner.read_head());
    let first_of_log = (segment.number == 1).then_some(0);
    head.ok().flatten().map(|head| head.next_tick).or(first_of_log)
}

impl LogWriter {
    /// Continues from the ledger, and adds a note about ticks that it counts but no
    /// file contains: they were truncated, or lost in a power cut.
    pub(super) fn resume_from_ledger(&mut self, old_ledger: Option<TickLedger>) {
        match old_ledger {
            None => self.ledger.counted_from = self.next_numbers.tick,
            Some(ledger) => {
                let lost = ledger.next_tick.saturating_sub(self.next_numbers.tick);
                let went_down = !ledger.closed && ledger.boot_id != boot_id();
                if went_down || lost > 0 {
                    let cause = if went_down {
                        "the machine went down during recording"
                    } else {
                        "recording resumed after a loss"
                    };
                    let lost = match lost {
                        0 => "at most the ticks since the last sync before this are lost".into(),
                        count => format_count(count, "tick before this is lost", "ticks before this are lost"),
                    };
                    self.pending_notes.push((Note::GAP, format!("{cause}; {lost}")));
                }
                self.missing_ticks += lost;
                // Numbers of lost ticks are not used again, so that readers see the gap.
                self.next_numbers.tick = self.next_numbers.tick.max(ledger.next_tick);
            }
        }
        self.ledger.closed = false;
        self.ledger.importing = self.options.bulk;
        self.ledger.boot_id = boot_id();
        self.write_ledger();
    }

    /// Writes the ledger with the current number of ticks.
    pub(super) fn write_ledger(&mut self) {
        let uncounted = if self.options.bulk { self.buffer.frame().ticks().len() } else { 0 };
        self.ledger.next_tick = self.next_numbers.first_held_tick(uncounted);
        self.ledger_file.write_ledger(&self.ledger);
    }

    /// Checks that the folder and its files still exist. Creates removed ones
    /// again, and adds a remark.
    pub(super) fn restore_removed_files(&mut self) -> Result<(), WriteFault> {
        if self.folder.is_folder_replaced(&self.dir) {
            self.folder.release_descriptors();
            return self.recreate_log();
        }
        if self.folder.lock.is_file_replaced() {
            self.folder.lock = RecorderLock::acquire_lock(&self.dir).map_err(WriteFault::from_store_error)?;
        }
        if self.ledger_file.is_file_replaced() {
            self.ledger_file = LedgerFile::open(&self.dir)?;
            self.write_ledger();
        }
        if let Some(segment) = self.segment.as_ref().filter(|segment| segment.record_file().is_file_replaced()) {
            let first_held = self.next_numbers.first_held_tick(self.buffer.frame().ticks().len());
            assert!(segment.first_tick() <= first_held, "a segment begins with the ticks that are held, or earlier");
            let lost = first_held - segment.first_tick();
            let name = segment.record_file().path.display();
            self.removed_ticks += lost;
            self.missing_ticks += lost;
            let lost = format_count(lost, "tick in it is lost", "ticks in it are lost");
            self.add_remark(Note::GAP, format!("{name} was removed while it was being written; {lost}"));
            self.segment = None;
            self.next_numbers.segment = self.next_numbers.segment.max(segment_list::next_free_number(
                &segment_list::list_segments(&self.dir).map_err(WriteFault::from_store_error)?,
            ));
        }
        if let Some(tail) = self.tail.as_ref().filter(|tail| tail.record_file().is_file_replaced()) {
            let name = tail.record_file().path.display();
            self.add_remark(Note::WARNING, format!("{name} was removed while it was being written; no tick is lost"));
            self.tail = None;
            self.write_block()?;
        }
        Ok(())
    }

    /// Adds a message for the user and a note with the same text.
    pub(super) fn add_remark(&mut self, kind: &'static str, text: String) {
        const MAX_REMARKS: usize = 64;
        if self.remarks.len() < MAX_REMARKS && self.pending_notes.len() < MAX_REMARKS {
            self.remarks.push(text.clone());
            self.pending_notes.push((kind, text));
        }
    }

    /// Creates a new log where the folder was, with the ticks and notes held in memory.
    fn recreate_log(&mut self) -> Result<(), WriteFault> {
        let mut new_writer =
            LogWriter::create_or_append(&self.dir, self.options.clone()).map_err(WriteFault::from_store_error)?;
        let held_ticks = self.buffer.to_pushed_ticks();
        // the first tick is from a file, which can name any
        let numbered =
            self.next_numbers.first_held_tick(held_ticks.len()).saturating_sub(self.ledger.first_kept.unwrap_or(0));
        let lost = numbered.saturating_sub(self.missing_ticks);
        let text = describe_removal(&self.dir, lost, held_ticks.len());
        new_writer.removed_ticks = self.removed_ticks + lost;
        new_writer.remarks.append(&mut self.remarks);
        new_writer.pending_notes.append(&mut self.pending_notes);
        new_writer.add_remark(Note::GAP, text);
        let standing: Vec<Note> = self.standing_notes.drain(..).collect();
        for note in &standing {
            new_writer.add_note(note).map_err(WriteFault::Fatal)?;
        }
        for stored in self.notes.drain(..).filter(|stored| !standing.contains(&stored.note)) {
            new_writer.add_note(&stored.note).map_err(WriteFault::Fatal)?;
        }
        new_writer.write_pending_notes(held_ticks.first().map_or(self.last_time_ns, |(_, tick, _)| tick.time_ns))?;
        for (schema, tick, row) in held_ticks {
            new_writer.record_tick(&schema, tick, &row)?;
        }
        new_writer.pause = self.pause.take();
        new_writer.last_time_ns = self.last_time_ns;
        // The open files are in the moved folder. They stay as a killed recorder leaves them.
        (self.segment, self.tail) = (None, None);
        *self = new_writer;
        Ok(())
    }
}

/// Describes the removal of a folder with ticks in its blocks, and of ticks that were in memory as well.
fn describe_removal(dir: &Path, lost: u64, held: usize) -> String {
    let dir = dir.display();
    let gone = match lost {
        0 => "no tick is lost".to_owned(),
        _ => format!("{} with it", format_count(lost, "tick", "ticks")),
    };
    let kept = match held {
        0 => String::new(),
        _ => format!(
            "; {} in the new folder too",
            format_count(held as u64, "tick from before is", "ticks from before are")
        ),
    };
    format!("{dir} was removed or moved during recording: {gone}{kept}; recording continues in a new folder")
}

/// Returns an error if the directory contains files but no log.
fn refuse_foreign(dir: &Path) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::from_io(dir, e)),
    };
    let mut foreign = None;
    for entry in entries {
        let name = entry.map_err(|e| StoreError::from_io(dir, e))?.file_name();
        let name = name.to_string_lossy();
        if parse_segment_number(&name).is_some() {
            return Ok(());
        }
        let is_of_log = [TAIL_FILE, MARKS_FILE, LOCK_FILE, LEDGER_FILE].contains(&&*name);
        foreign = foreign.or_else(|| (!is_of_log).then(|| name.into_owned()));
    }
    match foreign {
        None => Ok(()),
        Some(found) => Err(StoreError::NotALog {
            path: dir.to_owned(),
            offset: 0,
            expected: "an empty folder or segment files (00000001.dwlog)",
            found: format!("`{found}`"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Frame, Schema, Series, Tick};

    use super::*;
    use crate::reader::{LogItem, LogReader};

    #[test]
    fn notes_that_the_machine_went_down_and_counts_lost_ticks() {
        for bulk in [false, true] {
            let dir = std::env::temp_dir().join(format!("dwlog-down-{}-{bulk}", std::process::id()));
            let series = Series { counter: "a.b".into(), instance: String::new(), scale: 1.0 };
            let schema = Arc::new(Schema::new(vec![series]));
            let tick = |i: i64| Tick { time_ns: i, elapsed_ns: 1 };
            let options = |bulk| crate::WriterOptions { sync_every: None, time_unit_ns: 1, bulk, ..Default::default() };
            let mut writer = LogWriter::create_or_append(&dir, options(false)).expect("new log");
            for i in 0..9 {
                writer.push(&schema, tick(i), &[1.0]).expect("writable");
            }
            // State after a power cut: the ledger reached the device, the last five ticks did not.
            writer.ledger.boot_id = [7; 16];
            writer.ledger.next_tick += 5;
            writer.ledger_file.write_ledger(&writer.ledger);
            std::mem::forget(writer);
            std::fs::remove_file(dir.join(LOCK_FILE)).expect("was locked");
            // The next recorder, or an import, continues the log.
            let mut writer = LogWriter::create_or_append(&dir, options(bulk)).expect("a log");
            let mut frame = Frame::new(schema.clone(), 2);
            (20..22).for_each(|i| frame.push(tick(i), &[1.0]));
            writer.push_frame(&frame).expect("writable");
            writer.close().expect("writable");
            let (mut ticks, mut lost, mut notes) = (0, 0, Vec::new());
            let mut reader = LogReader::open(&dir).expect("a log");
            while let Some(item) = reader.next(&mut frame).expect("readable") {
                match item {
                    LogItem::Frame => ticks += frame.ticks().len(),
                    LogItem::Damage(damage) => lost += damage.ticks.expect("known"),
                    LogItem::Note(note) => notes.push(note),
                }
            }
            std::fs::remove_dir_all(&dir).expect("was there");
            assert_eq!((ticks, lost), (11, 5));
            assert!(
                notes[0].text().contains("the machine went down") && notes[0].text().contains("5 ticks"),
                "{notes:?}"
            );
            assert_eq!(notes[0].time_ns, 20, "it stands where recording goes on");
        }
    }
}
