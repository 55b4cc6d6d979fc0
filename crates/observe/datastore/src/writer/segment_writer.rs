//! Writing of a segment.

use std::path::PathBuf;

use diskwright_base::Tick;

use crate::format::{EndRecord, FileRole, HeadRecord};
use crate::notes::{self, StoredNote};
use crate::record_file::{RecordFile, WriteFault};
use crate::recovery::NextNumbers;
use crate::schema::StoredSchema;

/// Size of all schemas after which a new segment begins, because each is written twice, bytes.
const MAX_SCHEMA_BYTES: usize = 1 << 16;

/// A segment file and the content of its end record.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    out: RecordFile,
    first_tick: u64,
    /// Its first schema, which has no base.
    base: Option<StoredSchema>,
    /// Ids of the schemas in the file.
    known_schema_ids: Vec<u64>,
    /// Records of these schemas, which are written again after the blocks.
    schema_records: Vec<u8>,
    covered_ns: u64,
    min_time_ns: i64,
    max_time_ns: i64,
}

impl SegmentWriter {
    /// Creates the file with its head and the notes that describe the machine.
    pub fn create(
        path: PathBuf,
        next: NextNumbers,
        standing: &[StoredNote],
        scratch: &mut notes::NoteScratch,
    ) -> Result<SegmentWriter, WriteFault> {
        let mut record = Vec::new();
        HeadRecord { role: FileRole::Segment, segment: next.segment, next_tick: next.tick, next_note: next.note }
            .write(&mut record);
        if !standing.is_empty() {
            notes::write(&mut record, scratch, next.note, standing);
        }
        let mut out = RecordFile::create(path)?;
        if let Err(fault) = out.append(&record) {
            // If even this fails, an empty file is left, which readers skip.
            let _ = std::fs::remove_file(&out.path);
            return Err(fault);
        }
        Ok(SegmentWriter {
            out,
            first_tick: next.tick,
            base: None,
            known_schema_ids: Vec::new(),
            schema_records: Vec::new(),
            covered_ns: 0,
            min_time_ns: i64::MAX,
            max_time_ns: i64::MIN,
        })
    }

    /// Ensures that the file contains the schema, before blocks that use it.
    pub fn ensure_schema(&mut self, stored: &StoredSchema) -> Result<(), WriteFault> {
        if self.known_schema_ids.contains(&stored.id) {
            return Ok(());
        }
        let record = match &self.base {
            None => stored.record.clone(),
            Some(base) => stored.record_after(base),
        };
        self.out.append(&record)?;
        self.schema_records.extend_from_slice(&record);
        self.known_schema_ids.push(stored.id);
        if self.base.is_none() {
            self.base = Some(stored.clone());
        }
        Ok(())
    }

    /// Appends notes and a block with these ticks.
    pub fn append(&mut self, records: &[u8], ticks: &[Tick]) -> Result<(), WriteFault> {
        self.out.append(records)?;
        if let (Some(first), Some(last)) = (ticks.first(), ticks.last()) {
            self.min_time_ns = self.min_time_ns.min(first.time_ns);
            self.max_time_ns = self.max_time_ns.max(last.time_ns);
        }
        let elapsed = |sum: u64, tick: &Tick| sum.saturating_add(tick.elapsed_ns);
        self.covered_ns = ticks.iter().fold(self.covered_ns, elapsed);
        Ok(())
    }

    /// Returns true if the segment has reached the limit of time, size or schemas.
    pub fn is_full(&self, span_ns: u128, bytes: u64) -> bool {
        u128::from(self.covered_ns) >= span_ns || self.out.end >= bytes || self.schema_records.len() > MAX_SCHEMA_BYTES
    }

    /// Returns true if it has blocks, and these records would make it larger than this.
    pub fn would_exceed(&self, record_bytes: usize, max_bytes: u64) -> bool {
        const END_RECORD_BYTES: u64 = 128;
        let end = self.out.end.saturating_add((record_bytes + self.schema_records.len()) as u64);
        self.min_time_ns <= self.max_time_ns && end.saturating_add(END_RECORD_BYTES) > max_bytes
    }

    /// Appends the schemas again and the end record.
    pub fn close(&mut self, next_tick: u64) -> Result<(), WriteFault> {
        let mut record = self.schema_records.clone();
        let covered_ns = Some(self.covered_ns);
        EndRecord { next_tick, min_time_ns: self.min_time_ns, max_time_ns: self.max_time_ns, covered_ns }
            .write(&mut record);
        self.out.append(&record)
    }

    /// Number of the first tick that the segment can contain.
    pub fn first_tick(&self) -> u64 {
        self.first_tick
    }

    /// The file.
    pub fn record_file(&self) -> &RecordFile {
        &self.out
    }
}
