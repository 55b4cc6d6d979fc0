//! One event of the kernel's block layer, decoded.

use crate::dirty_pages::DirtyLayout;
use crate::layout::EventLayout;

/// The events that are read (`include/trace/events/block.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockEventKind {
    /// A bio arrived at a device.
    Queue,
    /// A bio gets a request; in kernels before 6.5 this is the start of a request.
    GetRequest,
    /// Accounting of a request starts (6.5 and later).
    Start,
    /// A request goes to the scheduler.
    Insert,
    /// A request goes to the driver.
    Issue,
    /// A request, or a part of it, completes.
    Complete,
    /// A driver returned a request to the queue.
    Requeue,
    /// A bio joined a request at its end.
    BackMerge,
    /// A bio joined a request at its beginning.
    FrontMerge,
    /// A request joined the one before it.
    RequestMerge,
    /// A bio of a device without requests completes.
    BioComplete,
    /// A bio was redirected to another device or position.
    Remap,
    /// A bio was split in two.
    Split,
}

impl BlockEventKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [BlockEventKind; 13] = [
        BlockEventKind::Queue,
        BlockEventKind::GetRequest,
        BlockEventKind::Start,
        BlockEventKind::Insert,
        BlockEventKind::Issue,
        BlockEventKind::Complete,
        BlockEventKind::Requeue,
        BlockEventKind::BackMerge,
        BlockEventKind::FrontMerge,
        BlockEventKind::RequestMerge,
        BlockEventKind::BioComplete,
        BlockEventKind::Remap,
        BlockEventKind::Split,
    ];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            BlockEventKind::Queue => "block_bio_queue",
            BlockEventKind::GetRequest => "block_getrq",
            BlockEventKind::Start => "block_io_start",
            BlockEventKind::Insert => "block_rq_insert",
            BlockEventKind::Issue => "block_rq_issue",
            BlockEventKind::Complete => "block_rq_complete",
            BlockEventKind::Requeue => "block_rq_requeue",
            BlockEventKind::BackMerge => "block_bio_backmerge",
            BlockEventKind::FrontMerge => "block_bio_frontmerge",
            BlockEventKind::RequestMerge => "block_rq_merge",
            BlockEventKind::BioComplete => "block_bio_complete",
            BlockEventKind::Remap => "block_bio_remap",
            BlockEventKind::Split => "block_split",
        }
    }
}

/// Operation of a request. Writes that a thread waits for are distinguished from those
/// that the kernel does later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TracedOperation {
    /// Data from the device.
    Read,
    /// Data to the device that no thread waits for (write-back).
    Write,
    /// Data to the device that a thread waits for (`O_SYNC`, `fsync`, `O_DIRECT`, journals).
    SyncWrite,
    /// Flush of the device's cache; the kernel issues one flush for all callers that wait.
    Flush,
    /// A caller's flush without data. The kernel counts it among the writes.
    FlushCall,
    /// Discard (trim) of a range.
    Discard,
}

impl TracedOperation {
    /// All operations, in the order of their discriminants.
    pub const ALL: [TracedOperation; 6] = [
        TracedOperation::Read,
        TracedOperation::Write,
        TracedOperation::SyncWrite,
        TracedOperation::Flush,
        TracedOperation::FlushCall,
        TracedOperation::Discard,
    ];

    /// Name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            TracedOperation::Read => "read",
            TracedOperation::Write => "write",
            TracedOperation::SyncWrite => "sync_write",
            TracedOperation::Flush => "flush",
            TracedOperation::FlushCall => "flush_call",
            TracedOperation::Discard => "discard",
        }
    }

    /// Name on the screen.
    pub fn title(self) -> &'static str {
        match self {
            TracedOperation::SyncWrite => "sync write",
            TracedOperation::FlushCall => "flush call",
            operation => operation.name(),
        }
    }

    /// Class of operations that a bio and its request always share: a write stays a write, whether
    /// a thread waits for it or not.
    pub(crate) fn pairing_class(self) -> u8 {
        match self {
            TracedOperation::Read => 0,
            TracedOperation::Write | TracedOperation::SyncWrite => 1,
            TracedOperation::Flush => 2,
            TracedOperation::FlushCall => 3,
            TracedOperation::Discard => 4,
        }
    }

    /// Parses the kernel's letters: F (preflush), one of R W D DE F N, then F (FUA), A, S, M, U
    /// (`blk_fill_rwbs`, kernel/trace/blktrace.c). `None` for requests that neither move nor flush nor discard
    /// data: pass-through, zone management.
    pub fn from_letters(letters: &[u8], sectors: u32) -> Option<TracedOperation> {
        let end = letters.iter().position(|b| *b == 0).unwrap_or(letters.len());
        let letters = &letters[..end];
        // an F before the operation is a preflush, even if the operation is a flush (FF)
        let (is_preflush, letters) = match letters {
            [b'F', letters @ ..] => (true, letters),
            letters => (false, letters),
        };
        let (operation, flags) = letters.split_first()?;
        match operation {
            b'R' => Some(TracedOperation::Read),
            b'W' if sectors == 0 && is_preflush => Some(TracedOperation::FlushCall),
            b'W' if flags.contains(&b'S') || flags.contains(&b'F') || is_preflush => Some(TracedOperation::SyncWrite),
            b'W' => Some(TracedOperation::Write),
            b'F' => Some(TracedOperation::Flush),
            b'D' => Some(TracedOperation::Discard),
            _ => None,
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Time on the trace clock, nanoseconds.
    pub time_ns: u64,
    /// Kind of the event.
    pub kind: BlockEventKind,
    /// Number of the processor.
    pub cpu: u16,
    /// Id of the running thread.
    pub pid: i32,
    /// Device, the kernel's own number (major in the upper 12 bits).
    pub device: u32,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Letters of the operation, ended by a zero.
    pub letters: [u8; 12],
    /// Name of the running thread; zeros if the event has none.
    pub comm: [u8; 16],
    /// For a remap, the original device.
    pub other_device: u32,
    /// For a remap, the original sector; for a split, the first sector of the second part.
    pub other_sector: u64,
    /// For a completion, the error.
    pub error: i32,
}

impl BlockEvent {
    /// Operation of the request.
    pub fn operation(&self) -> Option<TracedOperation> {
        TracedOperation::from_letters(&self.letters, self.sectors)
    }
}

/// Reads `N` bytes from `offset`.
fn read_bytes<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..)?.first_chunk::<N>().copied()
}

/// The layouts of a kernel's events by their numbers.
#[derive(Clone, Debug, Default)]
pub struct EventTable {
    layouts: Vec<EventLayout>,
    /// Position in `layouts` by the event's number.
    by_id: Vec<Option<u8>>,
    /// Layout of the event that reports a dirtied page, if the kernel has it.
    pub dirty: Option<DirtyLayout>,
}

impl EventTable {
    /// Creates a table of these layouts.
    pub fn new(layouts: Vec<EventLayout>) -> EventTable {
        let max_id = layouts.iter().map(|l| usize::from(l.id)).max().unwrap_or(0);
        let mut by_id = vec![None; max_id + 1];
        for (position, layout) in (0..=u8::MAX).zip(&layouts) {
            by_id[usize::from(layout.id)] = Some(position);
        }
        EventTable { layouts, by_id, dirty: None }
    }

    /// The layouts.
    pub fn layouts(&self) -> &[EventLayout] {
        &self.layouts
    }

    /// Returns the layout of a kind of event.
    pub fn find_layout(&self, kind: BlockEventKind) -> Option<&EventLayout> {
        self.layouts.iter().find(|l| l.kind == kind)
    }

    /// Decodes an event's bytes; `None` for an event that is unknown or too short.
    pub fn decode_event(&self, time_ns: u64, cpu: u16, data: &[u8]) -> Option<BlockEvent> {
        let id = u16::from_ne_bytes(read_bytes(data, 0)?);
        let position = (*self.by_id.get(usize::from(id))?)?;
        let layout = &self.layouts[usize::from(position)];
        if data.len() < layout.bytes {
            return None;
        }
        let word = |offset: usize| read_bytes(data, offset).map(u32::from_ne_bytes);
        let long = |offset: usize| read_bytes(data, offset).map(u64::from_ne_bytes);
        let mut letters = [0; 12];
        let length = layout.letters.size.min(letters.len() - 1);
        letters[..length].copy_from_slice(data.get(layout.letters.offset..)?.get(..length)?);
        Some(BlockEvent {
            time_ns,
            kind: layout.kind,
            cpu,
            pid: word(layout.pid)? as i32,
            device: word(layout.device)?,
            sector: long(layout.sector)?,
            sectors: layout.sectors.map_or(Some(0), word)?,
            letters,
            comm: layout.comm.map_or(Some([0; 16]), |offset| read_bytes(data, offset))?,
            other_device: layout.other_device.map_or(Some(0), word)?,
            other_sector: layout.other_sector.map_or(Some(0), long)?,
            error: layout.error.map_or(Some(0), word)? as i32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_kinds() {
        for (number, kind) in BlockEventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        assert_eq!(BlockEventKind::Split.name(), "block_split");
        for (number, operation) in TracedOperation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }

    #[test]
    fn letters_give_the_operation() {
        use TracedOperation::{Discard, Flush, FlushCall, Read, SyncWrite, Write};
        let cases: [(&[u8], u32, Option<TracedOperation>); 13] = [
            (b"R\0", 8, Some(Read)),
            (b"RA\0", 8, Some(Read)),
            (b"W\0\0", 8, Some(Write)),
            (b"WM", 8, Some(Write)),
            (b"WS\0", 8, Some(SyncWrite)),
            (b"WFS", 8, Some(SyncWrite)),
            (b"FWFSM", 8, Some(SyncWrite)),
            (b"FWS", 0, Some(FlushCall)),
            (b"FF", 0, Some(Flush)),
            (b"DS", 8, Some(Discard)),
            (b"DE", 8, Some(Discard)),
            (b"N", 0, None),
            (b"\0W", 8, None),
        ];
        for (letters, sectors, operation) in cases {
            assert_eq!(TracedOperation::from_letters(letters, sectors), operation, "{letters:?}");
        }
        assert_eq!(TracedOperation::from_letters(b"", 8), None);
        assert_eq!(TracedOperation::from_letters(b"F", 8), None);
    }

    #[test]
    fn short_or_unknown_events_are_not_decoded() {
        let text = "ID: 7\n\tfield:int common_pid; offset:4; size:4;\n\tfield:dev_t dev; offset:8; size:4;\n\
            \tfield:sector_t sector; offset:16; size:8;\n\tfield:unsigned int nr_sector; offset:24; size:4;\n\
            \tfield:char rwbs[8]; offset:28; size:8;\n";
        let table = EventTable::new(vec![EventLayout::parse(BlockEventKind::Issue, text).expect("known")]);
        let mut data = vec![0; 36];
        data[..2].copy_from_slice(&7u16.to_ne_bytes());
        data[8..12].copy_from_slice(&((8u32 << 20) | 1).to_ne_bytes());
        data[16..24].copy_from_slice(&2048u64.to_ne_bytes());
        data[24..28].copy_from_slice(&8u32.to_ne_bytes());
        data[28] = b'R';
        let event = table.decode_event(5, 1, &data).expect("whole");
        assert_eq!((event.device, event.sector, event.sectors), ((8 << 20) | 1, 2048, 8));
        assert_eq!(event.operation(), Some(TracedOperation::Read));
        for cut in 0..data.len() {
            assert_eq!(table.decode_event(5, 1, &data[..cut]), None, "{cut}");
        }
        data[0] = 8;
        assert_eq!(table.decode_event(5, 1, &data), None);
        data[1] = 0xff;
        assert_eq!(table.decode_event(5, 1, &data), None);
    }
}
