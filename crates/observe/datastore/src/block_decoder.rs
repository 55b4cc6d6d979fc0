//! Decodes a block into frames: one for each part, because each part has its own schema.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use diskwright_base::{Frame, Schema, Series, Tick};

use crate::codec::Decoder;
use crate::format::BlockHead;
use crate::union::ColumnUnion;

/// Schema and number of ticks of a part.
pub(crate) type BlockPart = (Arc<Schema>, usize);

/// Ticks of a decoded block that the caller has not received yet.
#[derive(Debug)]
struct PendingPart {
    schema: Arc<Schema>,
    ticks: Range<usize>,
    /// Indices of its columns in the block; `None` if it has all columns of the block, in order.
    columns: Option<Vec<usize>>,
}

/// Decodes blocks and returns them part by part.
#[derive(Debug, Default)]
pub(crate) struct BlockDecoder {
    decoder: Decoder,
    /// A block of several parts, with the union of their columns.
    union_frame: Frame,
    nameless_schema: Arc<Schema>,
    pending_parts: VecDeque<PendingPart>,
    /// Number of ticks at the start of the block that are left out.
    skipped_ticks: usize,
}

impl BlockDecoder {
    /// Returns true while a part has not been returned.
    pub fn has_pending_part(&self) -> bool {
        !self.pending_parts.is_empty()
    }

    /// Leaves out the first ticks of the block, which were already read elsewhere.
    pub fn skip_first_ticks(&mut self, ticks: usize) {
        self.skipped_ticks = ticks;
    }

    /// Decodes a block: into `frame` if it has a single part, else into a buffer
    /// from which `next_part` copies. Returns false if it is damaged.
    pub fn decode_block(&mut self, head: &BlockHead, parts: Vec<BlockPart>, code: &[u8], frame: &mut Frame) -> bool {
        self.pending_parts.clear();
        if let [(schema, ticks)] = &parts[..] {
            if schema.series.len() != head.columns {
                return false;
            }
            frame.reset(schema.clone(), head.ticks);
            self.pending_parts.push_back(PendingPart { schema: schema.clone(), ticks: 0..*ticks, columns: None });
            return self.decode_columns(head, code, frame);
        }
        let schemas: Vec<Arc<Schema>> = parts.iter().map(|(schema, _)| schema.clone()).collect();
        let mut union = ColumnUnion::default();
        let mut start = 0;
        for (schema, (_, ticks)) in schemas.iter().zip(&parts) {
            let columns = Some(union.add_series(&schema.series));
            self.pending_parts.push_back(PendingPart { schema: schema.clone(), ticks: start..start + ticks, columns });
            start += ticks;
        }
        if union.series.len() != head.columns {
            self.pending_parts.clear();
            return false;
        }
        let mut block = std::mem::take(&mut self.union_frame);
        if block.schema().series.len() != head.columns {
            // Nothing reads the names of the columns of this frame.
            let nameless = Series { counter: String::new(), instance: String::new(), scale: 1.0 };
            self.nameless_schema = Arc::new(Schema::new(vec![nameless; head.columns]));
        }
        block.reset(self.nameless_schema.clone(), head.ticks);
        let is_sound = self.decode_columns(head, code, &mut block);
        self.union_frame = block;
        is_sound
    }

    /// Decodes the columns into `frame`. Returns false, and drops the parts, if the code is damaged.
    fn decode_columns(&mut self, head: &BlockHead, code: &[u8], frame: &mut Frame) -> bool {
        let is_sound = self.decoder.decode(code, head.first_time_ns, head.ticks, frame).is_some();
        if !is_sound {
            self.pending_parts.clear();
        }
        is_sound
    }

    /// Fills `frame` with the next part that has ticks from `from_ns` to `to_ns`;
    /// returns false when none is left.
    pub fn next_part(&mut self, frame: &mut Frame, from_ns: i64, to_ns: i64) -> bool {
        while let Some(part) = self.pending_parts.pop_front() {
            let first_unread = self.skipped_ticks.saturating_sub(part.ticks.start);
            if let Some(columns) = &part.columns {
                let ticks = part.ticks;
                frame.reset(part.schema, ticks.len());
                frame.set_ticks(&self.union_frame.ticks()[ticks.clone()]);
                for (column, &union_column) in columns.iter().enumerate() {
                    frame.column_mut(column).copy_from_slice(&self.union_frame.column(union_column)[ticks.clone()]);
                }
            }
            let is_inside = |time: i64| time >= from_ns && time <= to_ns;
            let is_wanted = |(index, tick): (usize, &Tick)| index >= first_unread && is_inside(tick.time_ns);
            let first = frame.ticks().iter().enumerate().position(is_wanted);
            let last = frame.ticks().iter().rposition(|t| is_inside(t.time_ns));
            if let (Some(first), Some(last)) = (first, last)
                && first <= last
            {
                frame.keep_ticks(first..last + 1);
                return true;
            }
        }
        false
    }
}
