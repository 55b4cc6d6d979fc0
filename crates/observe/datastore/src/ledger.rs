//! The ledger: the recorder's own count of the log's ticks. It shows what
//! truncated segments and tails cannot: how many ticks the log has in
//! total, and how many `keep` removed.
//!
//! One record of fixed length, overwritten in place after every tick.
//! Payload, all u64 unless noted: number from which every tick was counted
//! here; first tick not yet removed by `keep` (all bits set: not known); next
//! tick; ticks that were on the device at the last sync; segments, bytes and
//! ticks removed by `keep`, their smallest and largest wall time i64; flags
//! u8 (1: the log was closed, 2: an import is running); boot id of the machine, 16 bytes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_hostfiles::private_files::{self, PrivateFileError};

use crate::damage::{Damage, Loss};
use crate::format::{HEADER_BYTES, LEDGER_FILE, LEDGER_KIND, RecordHeader, close_record, open_record, u64_at};
use crate::record_file::WriteFault;
use crate::recorder_lock::is_same_file;

/// Length of the payload, bytes.
const PAYLOAD_BYTES: usize = 9 * 8 + 1 + 16;
const CLOSED_FLAG: u8 = 1;
const IMPORT_FLAG: u8 = 2;
/// Largest number of attempts to read a ledger that is invalid and keeps changing.
const MAX_READS: usize = 100;

/// Segments that were removed to stay within the retention limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimSummary {
    /// Number of segment files.
    pub segments: u64,
    /// Ticks in them.
    pub ticks: u64,
    /// Total size of the files, bytes.
    pub bytes: u64,
    /// Smallest and largest wall time of these ticks; `None` if nothing was removed.
    pub range: Option<(i64, i64)>,
}

/// Content of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickLedger {
    /// Number from which on every tick was counted here.
    pub counted_from: u64,
    /// First tick that `keep` has not removed; `None` if not known.
    pub first_kept: Option<u64>,
    /// Number of the next tick.
    pub next_tick: u64,
    /// Ticks before this number are known to be on the device.
    pub durable_ticks: u64,
    pub trimmed: TrimSummary,
    pub closed: bool,
    /// An import is running, or was killed: it buffers ticks that it has not counted yet.
    pub importing: bool,
    pub boot_id: [u8; 16],
}

impl TickLedger {
    /// Creates the ledger of a log that has none yet and continues at tick `next`.
    pub fn starting_at(next: u64, first_kept: Option<u64>) -> TickLedger {
        let trimmed = TrimSummary::default();
        TickLedger {
            counted_from: next,
            first_kept,
            next_tick: next,
            durable_ticks: 0,
            trimmed,
            closed: false,
            importing: false,
            boot_id: boot_id(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(
            self.counted_from <= self.next_tick && self.durable_ticks <= self.next_tick,
            "no tick counts before it was written: {self:?}"
        );
        let start = open_record(out);
        let TrimSummary { segments, ticks, bytes, range } = self.trimmed;
        let (min_time_ns, max_time_ns) = range.unwrap_or((i64::MAX, i64::MIN));
        let numbers = [
            self.counted_from,
            self.first_kept.unwrap_or(u64::MAX),
            self.next_tick,
            self.durable_ticks,
            segments,
            bytes,
            ticks,
        ];
        numbers.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        out.extend_from_slice(&min_time_ns.to_le_bytes());
        out.extend_from_slice(&max_time_ns.to_le_bytes());
        out.push((u8::from(self.closed) * CLOSED_FLAG) | (u8::from(self.importing) * IMPORT_FLAG));
        out.extend_from_slice(&self.boot_id);
        close_record(out, start, LEDGER_KIND);
    }

    fn parse(bytes: &[u8]) -> Option<TickLedger> {
        let header = RecordHeader::parse(bytes)?;
        let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes)?;
        let is_intact = header.kind == LEDGER_KIND
            && crc32fast::hash(payload) == header.payload_crc
            && payload.len() >= PAYLOAD_BYTES;
        // the numbers in the order of `write`
        let number = |index: usize| u64_at(payload, index * 8);
        if !is_intact {
            return None;
        }
        let first_kept = number(1).filter(|n| *n != u64::MAX);
        let (min_time_ns, max_time_ns) = (number(7)? as i64, number(8)? as i64);
        let range = (min_time_ns <= max_time_ns).then_some((min_time_ns, max_time_ns));
        let ledger = TickLedger {
            counted_from: number(0)?,
            first_kept,
            next_tick: number(2)?,
            durable_ticks: number(3)?,
            trimmed: TrimSummary { segments: number(4)?, bytes: number(5)?, ticks: number(6)?, range },
            closed: payload[72] & CLOSED_FLAG != 0,
            importing: payload[72] & IMPORT_FLAG != 0,
            boot_id: payload.get(73..PAYLOAD_BYTES)?.try_into().ok()?,
        };
        // `write` never writes numbers above that of the next tick
        let is_sound = ledger.counted_from <= ledger.next_tick && ledger.durable_ticks <= ledger.next_tick;
        is_sound.then_some(ledger)
    }

    /// Reads the ledger of a log; `None` if there is none (logs of earlier
    /// releases) or if it is unusable, which is returned as a damage.
    pub fn read(dir: &Path) -> (Option<TickLedger>, Option<Damage>) {
        let path = dir.join(LEDGER_FILE);
        let damage = |bytes, loss| Damage { ticks: Some(0), ..Damage::with_unknown_size(&path, 0, bytes, loss) };
        let mut bytes = Vec::new();
        for _ in 0..MAX_READS {
            let content = match private_files::open_for_reading(&path) {
                Ok(file) => {
                    let mut content = Vec::with_capacity(HEADER_BYTES + PAYLOAD_BYTES + 1);
                    if file.take(1 << 12).read_to_end(&mut content).is_err() {
                        return (None, Some(damage(0, Loss::Refused)));
                    }
                    content
                }
                Err(PrivateFileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    return (None, None);
                }
                Err(_) => return (None, Some(damage(0, Loss::Refused))),
            };
            if let Some(ledger) = TickLedger::parse(&content) {
                return (Some(ledger), None);
            }
            // a recorder may be overwriting it: only bytes that stay the same are damaged
            if content == bytes {
                break;
            }
            bytes = content;
        }
        // An empty file: the disk was full when the ledger was first written.
        if bytes.is_empty() { (None, None) } else { (None, Some(damage(bytes.len() as u64, Loss::Damaged))) }
    }
}

/// The ledger being written.
#[derive(Debug)]
pub(crate) struct LedgerFile {
    pub file: Arc<File>,
    path: PathBuf,
    record: Vec<u8>,
}

impl LedgerFile {
    /// Opens the file, and creates it if needed.
    pub fn open(dir: &Path) -> Result<LedgerFile, WriteFault> {
        let path = dir.join(LEDGER_FILE);
        let file = private_files::open(&path).map_err(|e| WriteFault::from_distrust(&path, e))?;
        Ok(LedgerFile { file: Arc::new(file), path, record: Vec::new() })
    }

    /// Returns true if the path now names another file, or none.
    pub fn is_file_replaced(&self) -> bool {
        !is_same_file(&self.file, &self.path)
    }

    /// Writes the ledger. If the write fails, the old ledger stays, which is
    /// outdated but not wrong, and the result is false.
    pub fn write_ledger(&mut self, ledger: &TickLedger) -> bool {
        self.record.clear();
        ledger.write(&mut self.record);
        self.file.write_all_at(&self.record, 0).is_ok()
    }
}

/// Reads the id of the machine's current boot; all zeros if it is not available.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(32).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_round_trips_and_any_flipped_bit_is_rejected() {
        let trimmed = TrimSummary { segments: 3, ticks: 70, bytes: 999, range: Some((-5, 8)) };
        let numbers =
            TickLedger { counted_from: 1, next_tick: 100, durable_ticks: 90, ..TickLedger::starting_at(0, Some(70)) };
        let ledger = TickLedger { trimmed, closed: true, importing: true, ..numbers };
        let mut record = Vec::new();
        ledger.write(&mut record);
        assert_eq!(TickLedger::parse(&record), Some(ledger));
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(TickLedger::parse(&flipped), None, "bit {bit}");
        }
        let unknown = TickLedger::starting_at(7, None);
        record.clear();
        unknown.write(&mut record);
        assert_eq!(TickLedger::parse(&record), Some(unknown));
    }
}
