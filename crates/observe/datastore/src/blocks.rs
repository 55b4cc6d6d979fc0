//! Decodes a block into frames: one per part, each with its own schema.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use diskwright_base::{Frame, Schema, Series, Tick};

use crate::codec::Decoder;
use crate::format::BlockHead;
use crate::union::Union;

/// Schema and number of ticks of a part.
pub(crate) type BlockPart = (Arc<Schema>, usize);

/// Ticks of a decoded block that the caller has not received yet.
#[derive(Debug)]
struct BlockTicks {
    schema: Arc<Schema>,
    ticks: Range<usize>,
    /// Indices of its columns in the block; `None` if it has all columns of the block, in order.
    columns: Option<Vec<usize>>,
}

/// Decodes blocks and returns them part by part.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    decoder: Decoder,
    /// A block of several parts, with the union of their columns.
    block: Frame,
    nameless: Arc<Schema>,
    parts: VecDeque<BlockTicks>,
    /// First tick (index) of the block that is wanted; those before it are left out.
    from: usize,
}

impl Blocks {
    /// Returns true while a part has not been returned.
    pub fn is_open(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Leaves out the first ticks of the block, which were already read elsewhere.
    pub fn leave_out(&mut self, ticks: usize) {
        self.from = ticks;
    }

    /// Decodes a block: into `frame` if it has a single part, else into a buffer
    /// from which `next_part` copies. Returns false if it is damaged.
    pub fn decode(&mut self, head: &BlockHead, parts: Vec<BlockPart>, code: &[u8], frame: &mut Frame) -> bool {
        self.parts.clear();
        if let [(schema, ticks)] = &parts[..] {
            if schema.series.len() != head.columns {
                return false;
            }
            frame.reset(schema.clone(), head.ticks);
            self.parts.push_back(BlockTicks { schema: schema.clone(), ticks: 0..*ticks, columns: None });
            return self.sound(head, code, frame);
        }
        let schemas: Vec<Arc<Schema>> = parts.iter().map(|(schema, _)| schema.clone()).collect();
        let mut union = Union::default();
        let mut from = 0;
        for (schema, (_, ticks)) in schemas.iter().zip(&parts) {
            let columns = Some(union.join(&schema.series));
            self.parts.push_back(BlockTicks { schema: schema.clone(), ticks: from..from + ticks, columns });
            from += ticks;
        }
        if union.series.len() != head.columns {
            self.parts.clear();
            return false;
        }
        let mut block = std::mem::take(&mut self.block);
        if block.schema().series.len() != head.columns {
            // Nothing reads the names of the columns of this frame.
            let nameless = Series { counter: String::new(), instance: String::new(), scale: 1.0 };
            self.nameless = Arc::new(Schema::new(vec![nameless; head.columns]));
        }
        block.reset(self.nameless.clone(), head.ticks);
        let sound = self.sound(head, code, &mut block);
        self.block = block;
        sound
    }

    /// Decodes the columns into `frame`. Returns false, and drops the parts, if the code is damaged.
    fn sound(&mut self, head: &BlockHead, code: &[u8], frame: &mut Frame) -> bool {
        let sound = self.decoder.decode(code, head.from_ns, head.ticks, frame).is_some();
        if !sound {
            self.parts.clear();
        }
        sound
    }

    /// Fills `frame` with the next part that has ticks from `from_ns` to `to_ns`;
    /// returns false when none is left.
    pub fn next_part(&mut self, frame: &mut Frame, from_ns: i64, to_ns: i64) -> bool {
        while let Some(part) = self.parts.pop_front() {
            let unread = self.from.saturating_sub(part.ticks.start);
            if let Some(columns) = &part.columns {
                let ticks = part.ticks;
                frame.reset(part.schema, ticks.len());
                frame.set_ticks(&self.block.ticks()[ticks.clone()]);
                for (column, &from) in columns.iter().enumerate() {
                    frame.column_mut(column).copy_from_slice(&self.block.column(from)[ticks.clone()]);
                }
            }
            let inside = |time: i64| time >= from_ns && time <= to_ns;
            let wanted = |(index, tick): (usize, &Tick)| index >= unread && inside(tick.time_ns);
            let first = frame.ticks().iter().enumerate().position(wanted);
            let last = frame.ticks().iter().rposition(|t| inside(t.time_ns));
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
