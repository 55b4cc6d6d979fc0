//! State that the last recorder left in a log: the numbers to continue with, and
//! the content of its tail.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::Schema;
use diskwright_hostfiles::private_files;

use crate::compression::Unpacker;
use crate::damage::{Damage, Loss};
use crate::error::StoreError;
use crate::format::{
    BLOCK_KIND, BlockHead, END_KIND, EndRecord, HEAD_KIND, HeadRecord, MAX_BLOCK_CELLS, NOTES_KIND, SCHEMA_KIND,
    TAIL_FILE, TICK_KIND,
};
use crate::notes::{self, StoredNote};
use crate::record_scanner::{HEADER_READ_BYTES, Peek, READ_AHEAD_BYTES, RecordScanner, RecordSource};
use crate::schema::SchemaCache;
use crate::segment_list::{self, SegmentFile};
use crate::tail::{self, TailTick};

/// Largest tail that is read, bytes. A recorder's is a hundredth of this.
pub(crate) const MAX_TAIL_BYTES: u64 = 1 << 26;

/// Largest number of missing schemas that are searched in other files. A recorder's tail has one schema.
const MAX_MISSING_SCHEMAS: usize = 4;

/// Content of a tail.
#[derive(Debug, Default)]
pub(crate) struct TailContent {
    pub head: Option<HeadRecord>,
    pub schemas: SchemaCache,
    pub ticks: Vec<TailTick>,
    /// The cells of the ticks that no block contains, row after row.
    pub cells: Vec<f64>,
    /// Ticks before this number are in blocks. If syncs are slow, the tail has many of them.
    first_tick_outside_blocks: u64,
    pub notes: Vec<(u64, StoredNote)>,
    /// Damages, each with the count of ticks before it.
    pub damages: Vec<(usize, Damage)>,
    unpacker: Unpacker,
}

impl TailContent {
    /// Returns true if the cells of a tick are here, because no block contains it.
    pub fn has_cells(&self, tick: &TailTick) -> bool {
        tick.number >= self.first_tick_outside_blocks
    }

    /// Returns a tick's schema; `None` if it is lost.
    pub fn schema(&self, tick: &TailTick) -> Option<&Arc<Schema>> {
        self.schemas.get(tick.schema_id).filter(|schema| schema.series.len() == tick.columns)
    }

    /// Reads the schemas that are damaged here from the segments of `dir`.
    fn load_missing_schemas(&mut self, dir: &Path, segments: &[SegmentFile]) -> Result<(), StoreError> {
        let mut missing_ids: Vec<u64> = self.ticks.iter().map(|tick| tick.schema_id).collect();
        missing_ids.dedup();
        missing_ids.retain(|id| self.schemas.get(*id).is_none());
        for id in missing_ids.into_iter().take(MAX_MISSING_SCHEMAS) {
            for segment in segments.iter().rev() {
                let Ok(scanner) = RecordScanner::open(&segment.path(dir), HEADER_READ_BYTES) else { continue };
                if let Some(schema) = find_schema_in_file(scanner, id)? {
                    self.schemas.add_schema(id, schema);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Returns the tail's path and its bytes; no bytes if there is no tail.
pub(crate) fn read_tail_bytes(dir: &Path) -> Result<(PathBuf, Vec<u8>), StoreError> {
    let path = dir.join(TAIL_FILE);
    let to_store_error = |e| StoreError::from_io(&path, e);
    let file = match private_files::open_for_reading(&path).map_err(|e| StoreError::from_distrust(&path, e)) {
        Ok(file) => file,
        Err(e) if e.is_not_found() => return Ok((path, Vec::new())),
        Err(e) => return Err(e),
    };
    let length = file.metadata().map_err(to_store_error)?.len();
    if length > MAX_TAIL_BYTES {
        let found = format!("{length} bytes");
        return Err(StoreError::NotALog { path, offset: 0, expected: "a tail of ticks", found });
    }
    let mut bytes = Vec::new();
    file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes).map_err(to_store_error)?;
    Ok((path, bytes))
}

/// Reads the tail of the log in `dir` with these segments. Ticks before number `ticks_in_blocks` get no cells.
pub(crate) fn read_tail_of_log(
    dir: &Path,
    segments: &[SegmentFile],
    ticks_in_blocks: u64,
) -> Result<TailContent, StoreError> {
    let (path, bytes) = match read_tail_bytes(dir) {
        Err(StoreError::NotAFile(_)) => {
            let damage = Damage::with_unknown_size(&dir.join(TAIL_FILE), 0, 0, Loss::Refused);
            return Ok(TailContent { damages: vec![(0, damage)], ..TailContent::default() });
        }
        other => other?,
    };
    let mut content = read_tail(&path, bytes, ticks_in_blocks)?;
    content.load_missing_schemas(dir, segments)?;
    Ok(content)
}

/// Finds a schema in a file by its id.
pub(crate) fn find_schema_in_file(mut scanner: RecordScanner, id: u64) -> Result<Option<Arc<Schema>>, StoreError> {
    let mut schemas = SchemaCache::default();
    loop {
        match scanner.peek_record()? {
            Peek::Record(header) if header.kind == SCHEMA_KIND => {
                if let Some(payload) = scanner.read_payload(&header)? {
                    schemas.parse_and_add(payload);
                }
                if let Some(schema) = schemas.get(id) {
                    return Ok(Some(schema.clone()));
                }
            }
            Peek::Record(header) => scanner.skip_record(&header),
            Peek::Lost { loss: Loss::Damaged, .. } => {}
            Peek::Lost { .. } | Peek::End => return Ok(None),
        }
    }
}

/// Parses a tail. Ticks before number `ticks_in_blocks` get no cells.
pub(crate) fn read_tail(path: &Path, bytes: Vec<u8>, ticks_in_blocks: u64) -> Result<TailContent, StoreError> {
    let mut scanner = RecordScanner::new(RecordSource::Bytes(bytes), path, READ_AHEAD_BYTES)?;
    let mut content = TailContent { first_tick_outside_blocks: ticks_in_blocks, ..TailContent::default() };
    let mut row = Vec::new();
    let damage = |offset, bytes, loss| Damage::with_unknown_size(path, offset, bytes, loss);
    loop {
        let offset = scanner.offset();
        match scanner.peek_record()? {
            Peek::End => return Ok(content),
            Peek::Lost { offset, bytes, loss } => {
                content.damages.push((content.ticks.len(), damage(offset, bytes, loss)));
                if loss != Loss::Damaged {
                    return Ok(content);
                }
            }
            Peek::Record(header) => {
                let is_sound = match scanner.read_payload(&header)? {
                    Some(payload) => add_tail_record(header.kind, payload, path, &mut content, &mut row)?,
                    None => false,
                };
                if !is_sound {
                    content.damages.push((content.ticks.len(), damage(offset, header.record_bytes(), Loss::Damaged)));
                }
            }
        }
    }
}

/// Adds one record of a tail to `content`; returns false if it is invalid.
fn add_tail_record(
    kind: u8,
    payload: &[u8],
    path: &Path,
    content: &mut TailContent,
    row: &mut Vec<f64>,
) -> Result<bool, StoreError> {
    match kind {
        HEAD_KIND => content.head = HeadRecord::parse(payload, path)?,
        SCHEMA_KIND => return Ok(content.schemas.parse_and_add(payload)),
        NOTES_KIND => match notes::parse(payload, &mut content.unpacker) {
            Some((first, notes)) => content.notes.extend(notes::number_notes(first, notes)),
            None => return Ok(false),
        },
        TICK_KIND => match tail::parse_tick(payload, row) {
            Some(tick) if !content.has_cells(&tick) => content.ticks.push(tick),
            Some(tick) if content.cells.len() + row.len() <= 4 * MAX_BLOCK_CELLS => {
                content.ticks.push(tick);
                content.cells.extend_from_slice(row);
            }
            _ => return Ok(false),
        },
        _ => {}
    }
    Ok(true)
}

/// Numbers of the next segment, tick and note of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextNumbers {
    pub segment: u32,
    pub tick: u64,
    pub note: u64,
}

impl NextNumbers {
    /// Returns the number of the first of the `count` ticks that were numbered last.
    pub fn first_held_tick(&self, count: usize) -> u64 {
        assert!(count as u64 <= self.tick, "{count} ticks are held, and the next has number {}", self.tick);
        self.tick - count as u64
    }

    /// Returns the number of the first of the `count` notes that were numbered last.
    pub fn first_held_note(&self, count: usize) -> u64 {
        assert!(count as u64 <= self.note, "{count} notes are held, and the next has number {}", self.note);
        self.note - count as u64
    }
}

/// Determines the next numbers from the newest segment that contains any.
pub(crate) fn find_next_numbers(dir: &Path, segments: &[SegmentFile]) -> Result<NextNumbers, StoreError> {
    let mut next = NextNumbers { segment: segment_list::next_free_number(segments), tick: 0, note: 0 };
    for segment in segments.iter().rev() {
        if raise_next_numbers(&segment.path(dir), &mut next)? {
            break;
        }
    }
    Ok(next)
}

/// Raises the numbers to those of a segment; returns true if it contains any.
fn raise_next_numbers(path: &Path, next: &mut NextNumbers) -> Result<bool, StoreError> {
    let mut scanner = match RecordScanner::open(path, READ_AHEAD_BYTES) {
        Err(StoreError::NotAFile(_)) => return Ok(false),
        other => other?,
    };
    let mut has_numbers = false;
    let mut unpacker = Unpacker::default();
    loop {
        let header = match scanner.peek_record()? {
            Peek::Record(header) => header,
            Peek::Lost { loss: Loss::Damaged, .. } => continue,
            Peek::Lost { .. } | Peek::End => return Ok(has_numbers),
        };
        let Some(payload) = scanner.read_payload(&header)? else { continue };
        let (tick, note) = match header.kind {
            HEAD_KIND => HeadRecord::parse(payload, path)?.map_or((0, 0), |h| (h.next_tick, h.next_note)),
            BLOCK_KIND => {
                BlockHead::parse(payload).map_or((0, 0), |b| (b.first_tick.saturating_add(b.ticks as u64), b.next_note))
            }
            END_KIND => EndRecord::parse(payload).map_or((0, 0), |e| (e.next_tick, 0)),
            NOTES_KIND => notes::parse(payload, &mut unpacker)
                .map_or((0, 0), |(first, notes)| (0, notes::number_after(first, &notes))),
            _ => continue,
        };
        has_numbers = true;
        next.tick = next.tick.max(tick);
        next.note = next.note.max(note);
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Tick;

    use super::*;
    use crate::format::MAX_SERIES;

    /// If the device syncs blocks slowly, their ticks stay in the tail, more than fit into memory at once.
    #[test]
    fn ticks_already_in_blocks_use_no_cells() {
        let (mut bytes, row) = (Vec::new(), vec![0.0; MAX_SERIES]);
        let max_ticks = 4 * MAX_BLOCK_CELLS / MAX_SERIES;
        for number in 0..max_ticks as u64 + 2 {
            assert!(tail::write_tick(&mut bytes, number, 7, &Tick { time_ns: number as i64, elapsed_ns: 1 }, &row));
        }
        let content = read_tail(Path::new("x"), bytes.clone(), max_ticks as u64 + 1).expect("in memory");
        assert_eq!((content.ticks.len(), content.damages.len()), (max_ticks + 2, 0));
        assert_eq!(content.cells.len(), MAX_SERIES);
        // cells beyond the limit of a recorder's tail are reported as damage
        let content = read_tail(Path::new("x"), bytes, 0).expect("in memory");
        assert_eq!((content.ticks.len(), content.cells.len()), (max_ticks, 4 * MAX_BLOCK_CELLS));
        assert_eq!(content.damages.len(), 2);
    }
}
