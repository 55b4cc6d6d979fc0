//! Writer of events as blktrace's binary records, version 7 (`include/uapi/linux/blktrace_api.h`): one stream
//! of all processors, as `blktrace -o -` writes it, which `blkparse -i -` and our own readers accept.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use crate::devices::BlockDeviceNames;
use crate::event::{BlockEvent, BlockEventKind};

const MAGIC: u32 = 0x6561_7407;
/// First bit of the categories in a record's action.
const CATEGORY_SHIFT: u32 = 16;
/// `BLK_TN_PROCESS` and `BLK_TN_TIMESTAMP`, of the category "notify".
const PROCESS_ACTION: u32 = 1 << (CATEGORY_SHIFT + 10);
const TIMESTAMP_ACTION: u32 = 1 | 1 << (CATEGORY_SHIFT + 10);
/// Largest number of thread names that are remembered as written; beyond it, names are written again.
const MAX_NAMED_THREADS: usize = 1 << 16;

/// Writes events to a stream as they come.
pub struct BlktraceWriter<W> {
    out: W,
    /// Number of the last record of each processor.
    sequences: HashMap<u16, u32>,
    /// Threads, by id and name, whose names were written.
    named_threads: HashSet<(i32, [u8; 16])>,
    names: BlockDeviceNames,
    /// Number of records written.
    pub records: u64,
}

/// Fields of a record that differ between records.
#[derive(Default)]
struct BlktraceFields {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: i32,
    device: u32,
    cpu: u16,
    error: u16,
}

impl<W: Write> BlktraceWriter<W> {
    /// Starts a stream with a record of the time of day: `wall_ns` since 1970 UTC at `time_ns` on the trace's clock.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, time_ns: u64, wall_ns: i64) -> io::Result<BlktraceWriter<W>> {
        let (sequences, named_threads) = (HashMap::new(), HashSet::new());
        let mut writer =
            BlktraceWriter { out, sequences, named_threads, names: BlockDeviceNames::default(), records: 0 };
        let to_word = |number: i64| u32::try_from(number).unwrap_or(0).to_ne_bytes();
        let payload = [to_word(wall_ns / 1_000_000_000), to_word(wall_ns % 1_000_000_000)].concat();
        let fields = BlktraceFields { time_ns, action: TIMESTAMP_ACTION, ..BlktraceFields::default() };
        writer.write_record(&fields, &payload)?;
        Ok(writer)
    }

    /// Writes an event, and before it the name of a new thread.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_event(&mut self, event: &BlockEvent) -> io::Result<()> {
        // blktrace records disks; sectors are already relative to the disk
        let device = self.names.disk_of(event.device);
        let mut fields = BlktraceFields {
            time_ns: event.time_ns,
            sector: event.sector,
            bytes: event.sectors.saturating_mul(512),
            action: action_code(event.kind) | category_bits(&event.letters) << CATEGORY_SHIFT,
            pid: event.pid,
            device,
            cpu: event.cpu,
            error: event.error.unsigned_abs() as u16,
        };
        let payload: Vec<u8> = match event.kind {
            BlockEventKind::Split => {
                let first_sectors = event.other_sector.saturating_sub(event.sector);
                fields.bytes = u32::try_from(first_sectors).unwrap_or(0).saturating_mul(512);
                event.other_sector.to_be_bytes().to_vec()
            }
            BlockEventKind::Remap => {
                if self.names.disk_of(event.other_device) == device {
                    // a remap from a partition to its disk is omitted: sectors are always relative to the disk
                    return Ok(());
                }
                let numbers = [event.other_device.to_be_bytes(), device.to_be_bytes()].concat();
                [numbers, event.other_sector.to_be_bytes().to_vec()].concat()
            }
            _ => Vec::new(),
        };
        if event.comm[0] != 0 && !self.named_threads.contains(&(event.pid, event.comm)) {
            if self.named_threads.len() >= MAX_NAMED_THREADS {
                self.named_threads.clear();
            }
            self.named_threads.insert((event.pid, event.comm));
            let (time_ns, pid, cpu) = (event.time_ns, event.pid, event.cpu);
            let fields = BlktraceFields { time_ns, action: PROCESS_ACTION, pid, cpu, ..BlktraceFields::default() };
            self.write_record(&fields, &event.comm)?;
        }
        self.write_record(&fields, &payload)
    }

    fn write_record(&mut self, fields: &BlktraceFields, payload: &[u8]) -> io::Result<()> {
        let sequence = self.sequences.entry(fields.cpu).or_insert(0);
        *sequence = sequence.wrapping_add(1);
        let mut head = [0; 48];
        let mut offset = 0;
        let mut put = |bytes: &[u8]| {
            head[offset..offset + bytes.len()].copy_from_slice(bytes);
            offset += bytes.len();
        };
        put(&MAGIC.to_ne_bytes());
        put(&sequence.to_ne_bytes());
        put(&fields.time_ns.to_ne_bytes());
        put(&fields.sector.to_ne_bytes());
        put(&fields.bytes.to_ne_bytes());
        put(&fields.action.to_ne_bytes());
        put(&fields.pid.to_ne_bytes());
        put(&fields.device.to_ne_bytes());
        put(&u32::from(fields.cpu).to_ne_bytes());
        put(&fields.error.to_ne_bytes());
        put(&(payload.len() as u16).to_ne_bytes());
        self.out.write_all(&head)?;
        self.records += 1;
        self.out.write_all(payload)
    }

    /// Flushes the stream.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the action with its category: queue, requeue, issue, completion.
fn action_code(kind: BlockEventKind) -> u32 {
    let (queue, requeue, issue, complete) = (1 << 4, 1 << 5, 1 << 6, 1 << 7);
    let (code, category) = match kind {
        BlockEventKind::Queue => (1, queue),
        BlockEventKind::BackMerge | BlockEventKind::RequestMerge => (2, queue),
        BlockEventKind::FrontMerge => (3, queue),
        BlockEventKind::GetRequest | BlockEventKind::Start => (4, queue),
        BlockEventKind::Requeue => (6, requeue),
        BlockEventKind::Issue => (7, issue),
        BlockEventKind::Complete | BlockEventKind::BioComplete => (8, complete),
        BlockEventKind::Insert => (12, queue),
        BlockEventKind::Split => (13, 0),
        BlockEventKind::Remap => (15, queue),
    };
    code | category << CATEGORY_SHIFT
}

/// Returns the categories of the kernel's letters: F before the operation is a flush, after it forced unit access.
fn category_bits(letters: &[u8]) -> u32 {
    let (mut bits, mut has_operation) = (0, false);
    for letter in letters.iter().take_while(|letter| **letter != 0) {
        bits |= match (letter, has_operation) {
            (b'F', false) => 1 << 2,
            (b'F', true) => 1 << 15,
            (b'R', _) => 1,
            (b'W', _) => 1 << 1,
            // a discard counts as a write too (BLK_TC_DISCARD with BLK_TC_WRITE)
            (b'D', _) => 1 << 13 | 1 << 1,
            (b'S', _) => 1 << 3,
            (b'M', _) => 1 << 12,
            (b'A', _) => 1 << 11,
            _ => 0,
        };
        has_operation |= matches!(letter, b'R' | b'W' | b'D' | b'N');
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_record_has_the_kernels_layout() {
        let mut out = Vec::new();
        let mut writer = BlktraceWriter::new(&mut out, 5, 1_700_000_000_000_000_009).expect("memory");
        let event = BlockEvent {
            time_ns: 0x1122,
            kind: BlockEventKind::Issue,
            cpu: 3,
            pid: 77,
            device: (7 << 20) | 5,
            sector: 2048,
            sectors: 8,
            letters: *b"WFS\0\0\0\0\0\0\0\0\0",
            comm: *b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            other_device: 0,
            other_sector: 0,
            error: -5,
        };
        writer.write_event(&event).expect("memory");
        assert_eq!(writer.records, 3);
        assert_eq!(out.len(), 48 + 8 + 48 + 16 + 48);
        assert_eq!(out[..8], [0x07, 0x74, 0x61, 0x65, 1, 0, 0, 0]);
        assert_eq!(out[48..56], [0x00, 0xf1, 0x53, 0x65, 9, 0, 0, 0]);
        let record = &out[48 + 8 + 48 + 16..];
        assert_eq!(record[..16], [0x07, 0x74, 0x61, 0x65, 2, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record[16..28], [0, 8, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]);
        // D, and write, sync, issue, forced access
        let action = 7u32 | (1 << 1 | 1 << 3 | 1 << 6 | 1 << 15) << 16;
        assert_eq!(record[28..32], action.to_le_bytes());
        assert_eq!(record[32..48], [77, 0, 0, 0, 5, 0, 0x70, 0, 3, 0, 0, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn a_preflush_is_distinguished_from_forced_unit_access() {
        assert_eq!(category_bits(b"FWFS\0"), 1 << 2 | 1 << 1 | 1 << 15 | 1 << 3);
        assert_eq!(category_bits(b"FF"), 1 << 2);
        assert_eq!((category_bits(b"RA"), category_bits(b"D\0W")), (1 | 1 << 11, 1 << 13 | 1 << 1));
    }
}
