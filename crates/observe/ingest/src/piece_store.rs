//! Keeps what a reader delivers: in memory, or in a temporary folder once there is too much of it.

use std::sync::Arc;

use diskwright_base::{Frame, LogPiece, Note, Schema, Tick};
use diskwright_datastore::{LogReader, LogWriter};

use crate::IngestError;
use crate::log_writer::open_writer;
use crate::memory_log::{MemoryBudget, MemoryLog, MemoryPiece};
use crate::stored_log::StoredLog;
use crate::temporary::TemporaryFolder;

/// Ticks between two checks of free space.
const TICKS_PER_SPACE_CHECK: u32 = 1000;

/// A log that was read, with its first and last time.
pub type KeptLog = (StoredLog, (i64, i64));

/// A log that is being kept.
pub struct PieceStore {
    place: Place,
    ticks_since_check: u32,
}

enum Place {
    Memory(MemoryLog),
    Folder(TemporaryFolder, Box<LogWriter>),
}

impl PieceStore {
    /// Returns an empty store, which takes memory from a budget; without any, it begins in a folder.
    pub fn new(budget: &MemoryBudget) -> Result<PieceStore, IngestError> {
        let mut store = PieceStore { place: Place::Memory(MemoryLog::new(budget)), ticks_since_check: 0 };
        if budget.is_spent() {
            store.folder()?;
        }
        Ok(store)
    }

    /// Adds a frame or note.
    pub fn add_piece(&mut self, piece: LogPiece<'_>) -> Result<(), IngestError> {
        match piece {
            LogPiece::Frame(frame) => self.push_frame(frame),
            LogPiece::Note(note) => self.add_note(&note),
        }
    }

    /// Adds the ticks of a frame.
    pub fn push_frame(&mut self, frame: &Frame) -> Result<(), IngestError> {
        if let Place::Memory(log) = &mut self.place
            && log.push_frame(frame)
        {
            return Ok(());
        }
        let (folder, writer) = self.folder()?;
        folder.check_free_space().map_err(IngestError::NoSpace)?;
        Ok(writer.push_frame(frame)?)
    }

    /// Adds a tick.
    pub fn push_tick(&mut self, schema: &Arc<Schema>, tick: Tick, row: &[f64]) -> Result<(), IngestError> {
        if let Place::Memory(log) = &mut self.place
            && log.push_tick(schema, tick, row)
        {
            return Ok(());
        }
        let is_space_checked = self.ticks_since_check == 0;
        self.ticks_since_check = (self.ticks_since_check + 1) % TICKS_PER_SPACE_CHECK;
        let (folder, writer) = self.folder()?;
        if is_space_checked {
            folder.check_free_space().map_err(IngestError::NoSpace)?;
        }
        writer.push(schema, tick, row)?;
        Ok(())
    }

    /// Adds a note.
    pub fn add_note(&mut self, note: &Note) -> Result<(), IngestError> {
        if let Place::Memory(log) = &mut self.place
            && log.add_note(note)
        {
            return Ok(());
        }
        let (_, writer) = self.folder()?;
        writer.add_note(note)?;
        Ok(())
    }

    /// Returns the log; `None` if it has no tick.
    pub fn finish(self) -> Result<Option<KeptLog>, IngestError> {
        match self.place {
            Place::Memory(mut log) => {
                log.finish_frame();
                Ok(log.range_ns().map(|range| (StoredLog::InMemory(Arc::new(log)), range)))
            }
            Place::Folder(folder, writer) => {
                writer.close()?;
                let range = LogReader::open(folder.log_path())?.time_range()?;
                Ok(range.map(|range| (StoredLog::InFolder(Arc::new(folder)), range)))
            }
        }
    }

    /// Returns the temporary folder and its writer; what is in memory is moved there first.
    fn folder(&mut self) -> Result<(&TemporaryFolder, &mut LogWriter), IngestError> {
        if let Place::Memory(log) = &mut self.place {
            log.finish_frame();
            let folder = TemporaryFolder::new()?;
            let mut writer = open_writer(folder.log_path())?;
            for piece in log.pieces() {
                match piece {
                    MemoryPiece::Frame(frame) => writer.push_frame(frame)?,
                    MemoryPiece::Note(note) => drop(writer.add_note(note)?),
                }
            }
            self.place = Place::Folder(folder, Box::new(writer));
        }
        match &mut self.place {
            Place::Folder(folder, writer) => Ok((folder, writer)),
            Place::Memory(_) => unreachable!("what was in memory was moved"),
        }
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Series, Topology};
    use diskwright_datastore::LogItem;

    use super::*;
    use crate::stored_log::StoredReader;

    const SECOND: i64 = 1_000_000_000;

    fn schema(instances: &[&str]) -> Arc<Schema> {
        let series = |instance: &&str| Series {
            counter: "physical_disk.reads".into(),
            instance: (*instance).to_owned(),
            scale: 1.0,
        };
        Arc::new(Schema::new(instances.iter().map(series).collect()))
    }

    /// Notes and frames of a log whose disks change, and whose clock was set back within a frame.
    fn fill(add: &mut dyn FnMut(LogPiece<'_>)) {
        for (round, disks) in [["sda"].as_slice(), &["sda", "sdb"], &["sda"]].into_iter().enumerate() {
            let start = 100 + 20 * round as i64;
            let topology = Topology { host: format!("host{round}"), ..Topology::default() };
            add(LogPiece::Note(Note::topology(start * SECOND, topology)));
            add(LogPiece::Note(Note::new((start + 5) * SECOND, Note::BOOKMARK, "here")));
            let mut frame = Frame::new(schema(disks), 40);
            for second in (start..start + 15).chain(start + 10..start + 20) {
                let tick = Tick { time_ns: second * SECOND, elapsed_ns: SECOND.unsigned_abs() };
                frame.push(tick, &vec![second as f64; disks.len()]);
            }
            add(LogPiece::Frame(&frame));
        }
    }

    /// Everything that a reader returns: time and text of notes, times and values of ticks.
    fn read_all(mut reader: StoredReader, window: (i64, i64)) -> Vec<(i64, String)> {
        reader.set_window(window.0, window.1);
        let (mut frame, mut found) = (Frame::default(), Vec::new());
        while let Some(item) = reader.next(&mut frame).unwrap() {
            match item {
                LogItem::Note(note) => found.push((note.time_ns / SECOND, note.text().to_owned())),
                LogItem::Frame => {
                    for (index, tick) in frame.ticks().iter().enumerate() {
                        let width = frame.schema().series.len();
                        let cells: Vec<f64> = (0..width).map(|column| frame.column(column)[index]).collect();
                        found.push((tick.time_ns / SECOND, format!("{cells:?}")));
                    }
                }
                LogItem::Damage(damage) => panic!("{damage}"),
            }
        }
        found
    }

    #[test]
    fn log_in_memory_is_read_like_a_diskwright_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = open_writer(folder.path()).unwrap();
        fill(&mut |piece| match piece {
            LogPiece::Frame(frame) => writer.push_frame(frame).unwrap(),
            LogPiece::Note(note) => drop(writer.add_note(&note).unwrap()),
        });
        writer.close().unwrap();
        let mut store = PieceStore::new(&MemoryBudget::of_bytes(1 << 20)).unwrap();
        fill(&mut |piece| store.add_piece(piece).unwrap());
        let (stored, range) = store.finish().unwrap().unwrap();
        assert!(matches!(stored, StoredLog::InMemory(_)));
        assert_eq!(range, (100 * SECOND, 159 * SECOND));
        for (from, to) in [(0, 1000), (100, 105), (106, 118), (112, 130), (125, 141), (159, 159)] {
            let window = (from * SECOND, to * SECOND);
            let on_disk = StoredReader::Log(Box::new(LogReader::open(folder.path()).unwrap()));
            let expected = read_all(on_disk, window);
            assert_eq!(read_all(stored.open_reader().unwrap(), window), expected, "{from} to {to}");
        }
    }

    #[test]
    fn too_long_a_log_moves_to_a_folder_and_gives_its_memory_back() {
        let budget = MemoryBudget::of_bytes(2_000);
        let mut store = PieceStore::new(&budget).unwrap();
        fill(&mut |piece| store.add_piece(piece).unwrap());
        let (stored, range) = store.finish().unwrap().unwrap();
        assert!(matches!(stored, StoredLog::InFolder(_)));
        assert_eq!(range, (100 * SECOND, 159 * SECOND));
        let mut next = PieceStore::new(&budget).unwrap();
        next.push_tick(&schema(&["sda"]), Tick::default(), &[1.0]).unwrap();
        drop(next);
        let ticks = read_all(stored.open_reader().unwrap(), (i64::MIN, i64::MAX));
        assert_eq!(ticks.len(), 3 * (25 + 2));
    }

    #[test]
    fn ticks_make_frames() {
        let mut store = PieceStore::new(&MemoryBudget::of_bytes(1 << 20)).unwrap();
        let (one, two) = (schema(&["sda"]), schema(&["sdb"]));
        for second in 0..600 {
            let schema = if second < 500 { &one } else { &two };
            let tick = Tick { time_ns: second * SECOND, elapsed_ns: SECOND.unsigned_abs() };
            store.push_tick(schema, tick, &[second as f64]).unwrap();
        }
        let (stored, range) = store.finish().unwrap().unwrap();
        assert_eq!(range, (0, 599 * SECOND));
        let ticks = read_all(stored.open_reader().unwrap(), (i64::MIN, i64::MAX));
        assert_eq!(ticks.len(), 600);
        assert_eq!(ticks[599], (599, "[599.0]".to_owned()));
    }
}
