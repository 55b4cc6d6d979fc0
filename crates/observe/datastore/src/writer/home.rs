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
use crate::format::{LEDGER, LOCK, MARKS, TAIL, segment_number};
use crate::ledger::{LedgerFile, TickLedger, boot_id};
use crate::lock::Lock;
use crate::order::{self, SegmentPlace};
use crate::output::WriteFault;
use crate::recover::TailContent;
use crate::segment::{GLANCE, RecordScanner};

/// The folder, open and locked.
#[derive(Debug)]
pub(super) struct LogFolder {
    pub folder: Arc<File>,
    lock: Lock,
}

impl LogFolder {
    /// Creates the folder, or opens an existing one that no other user
    /// can change, and locks it.
    pub fn enter(dir: &Path) -> Result<LogFolder, StoreError> {
        refuse_foreign(dir)?;
        private_files::create_folder(dir).map_err(|e| StoreError::distrust(dir, e))?;
        let lock = Lock::take(dir)?;
        let folder = File::open(dir).map_err(|e| StoreError::io(dir, e))?;
        Ok(LogFolder { folder: Arc::new(folder), lock })
    }

    /// Returns true if the path now names another folder, or none.
    fn is_lost(&self, dir: &Path) -> bool {
        let Ok(held) = self.folder.metadata() else { return false };
        match std::fs::metadata(dir) {
            Ok(found) => (found.dev(), found.ino()) != (held.dev(), held.ino()),
            Err(e) => matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }

    /// Returns an error if the folder was replaced or removed. Used by imports, which can be run again.
    pub fn require(&self, dir: &Path) -> Result<(), WriteFault> {
        if !self.is_lost(dir) {
            return Ok(());
        }
        let source = std::io::Error::new(ErrorKind::NotFound, "the folder was removed while it was being written");
        Err(WriteFault::Fatal(StoreError::Io { path: dir.to_owned(), source }))
    }
}

/// Returns the first tick of a log without a ledger, if it can be determined.
pub(super) fn first_tick(dir: &Path, places: &[SegmentPlace], left: &TailContent) -> Option<u64> {
    let Some(place) = places.first() else {
        return Some(left.ticks.first().map_or(0, |tick| tick.number));
    };
    let head = RecordScanner::open(&place.path(dir), GLANCE).and_then(|mut scanner| scanner.head());
    let begins_log = (place.number == 1).then_some(0);
    head.ok().flatten().map(|head| head.next_tick).or(begins_log)
}

impl LogWriter {
    /// Continues from the ledger, and adds a note about ticks that it counts but no
    /// file contains: they were truncated, or lost in a power cut.
    pub(super) fn adopt(&mut self, found: Option<TickLedger>) {
        match found {
            None => self.ledger.begins = self.next.tick,
            Some(ledger) => {
                let lost = ledger.next.saturating_sub(self.next.tick);
                let went_down = !ledger.closed && ledger.boot != boot_id();
                if went_down || lost > 0 {
                    let how = if went_down {
                        "the machine went down during recording"
                    } else {
                        "recording resumed after a loss"
                    };
                    let lost = match lost {
                        0 => "at most the ticks since the last sync before this are lost".into(),
                        some => format_count(some, "tick before this is lost", "ticks before this are lost"),
                    };
                    self.due.push((Note::GAP, format!("{how}; {lost}")));
                }
                // Numbers of lost ticks are not used again, so that readers see the gap.
                self.next.tick = self.next.tick.max(ledger.next);
            }
        }
        self.ledger.closed = false;
        self.ledger.import = self.options.bulk;
        self.ledger.boot = boot_id();
        self.put_ledger();
    }

    /// Writes the ledger with the current number of ticks.
    pub(super) fn put_ledger(&mut self) {
        let held = if self.options.bulk { self.buffer.frame().ticks().len() as u64 } else { 0 };
        self.ledger.next = self.next.tick - held;
        self.ledger_file.put(&self.ledger);
    }

    /// Checks that the folder and its files still exist. Creates removed ones
    /// again, and adds a remark.
    pub(super) fn stay_home(&mut self) -> Result<(), WriteFault> {
        if self.home.is_lost(&self.dir) {
            return self.move_in();
        }
        if self.home.lock.is_lost() {
            self.home.lock = Lock::take(&self.dir).map_err(WriteFault::of)?;
        }
        if self.ledger_file.is_lost() {
            self.ledger_file = LedgerFile::open(&self.dir)?;
            self.put_ledger();
        }
        if let Some(segment) = self.segment.as_ref().filter(|segment| segment.out().is_lost()) {
            let lost = self.next.tick - self.buffer.frame().ticks().len() as u64 - segment.first_tick();
            let name = segment.out().path.display();
            let lost = format_count(lost, "tick in it is lost", "ticks in it are lost");
            self.tell(Note::GAP, format!("{name} was removed while it was being written; {lost}"));
            self.segment = None;
            self.next.segment =
                self.next.segment.max(order::free(&order::segments(&self.dir).map_err(WriteFault::of)?));
        }
        if let Some(tail) = self.tail.as_ref().filter(|tail| tail.out().is_lost()) {
            let name = tail.out().path.display();
            self.tell(Note::WARNING, format!("{name} was removed while it was being written; no tick is lost"));
            self.tail = None;
            self.complete()?;
        }
        Ok(())
    }

    /// Adds a message for the user and a note with the same text.
    pub(super) fn tell(&mut self, kind: &'static str, text: String) {
        const MOST: usize = 64;
        if self.remarks.len() < MOST && self.due.len() < MOST {
            self.remarks.push(text.clone());
            self.due.push((kind, text));
        }
    }

    /// Creates a new log where the folder was, with the ticks and notes held in memory.
    fn move_in(&mut self) -> Result<(), WriteFault> {
        let mut fresh = LogWriter::create_or_append(&self.dir, self.options.clone()).map_err(WriteFault::of)?;
        let held = self.buffer.pushed();
        let lost = self.next.tick - held.len() as u64 - self.ledger.first.unwrap_or(0);
        let (dir, lost) = (self.dir.display(), format_count(lost, "tick", "ticks"));
        let text = format!(
            "{dir} was removed or moved during recording, and {lost} with it; \
             recording continues in a new folder"
        );
        fresh.remarks.append(&mut self.remarks);
        fresh.due.append(&mut self.due);
        fresh.tell(Note::GAP, text);
        let standing: Vec<Note> = self.standing.drain(..).collect();
        for note in &standing {
            fresh.note(note).map_err(WriteFault::Fatal)?;
        }
        for stored in self.notes.drain(..).filter(|stored| !standing.contains(&stored.note)) {
            fresh.note(&stored.note).map_err(WriteFault::Fatal)?;
        }
        fresh.tell_due(held.first().map_or(self.last_ns, |(_, tick, _)| tick.time_ns))?;
        for (schema, tick, row) in held {
            fresh.advance(&schema, tick, &row)?;
        }
        fresh.pause = self.pause.take();
        fresh.last_ns = self.last_ns;
        // The open files are in the moved folder; they are left as after a kill.
        (self.segment, self.tail) = (None, None);
        *self = fresh;
        Ok(())
    }
}

/// Returns an error if the directory contains files but no log.
fn refuse_foreign(dir: &Path) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io(dir, e)),
    };
    let mut foreign = None;
    for entry in entries {
        let name = entry.map_err(|e| StoreError::io(dir, e))?.file_name();
        let name = name.to_string_lossy();
        if segment_number(&name).is_some() {
            return Ok(());
        }
        let ours = [TAIL, MARKS, LOCK, LEDGER].contains(&&*name);
        foreign = foreign.or_else(|| (!ours).then(|| name.into_owned()));
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
    fn a_machine_that_went_down_is_told_and_its_lost_ticks_are_counted() {
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
            writer.ledger.boot = [7; 16];
            writer.ledger.next += 5;
            writer.ledger_file.put(&writer.ledger);
            std::mem::forget(writer);
            std::fs::remove_file(dir.join(LOCK)).expect("was locked");
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
            assert!(notes[0].text.contains("the machine went down") && notes[0].text.contains("5 ticks"), "{notes:?}");
            assert_eq!(notes[0].time_ns, 20, "it stands where recording goes on");
        }
    }
}
