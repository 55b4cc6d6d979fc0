//! Encoder of the kernel's binary event records, written only from the public
//! header, so that it is an independent check of the reader.

#![allow(dead_code, reason = "each test uses a part")]

use diskwright_base::Request;
use diskwright_traces::{LogInput, Trace, TraceSummary, from_inputs};

/// Category bits.
pub const READ: u64 = 1;
pub const WRITE: u64 = 2;
pub const FLUSH: u64 = 4;
pub const PASSED_THROUGH: u64 = 0x200;
pub const NOTIFY: u64 = 0x400;
pub const DISCARD: u64 = 0x2000;

/// Action codes.
pub const Q: u64 = 1;
pub const M: u64 = 2;
pub const G: u64 = 4;
pub const R: u64 = 6;
pub const D: u64 = 7;
pub const C: u64 = 8;
pub const I: u64 = 12;
pub const X: u64 = 13;
pub const A: u64 = 15;

/// Version and byte order of records.
#[derive(Clone, Copy)]
pub struct RecordFormat {
    pub big_endian: bool,
    pub version: u8,
}

/// The format of most machines.
pub const DEFAULT_FORMAT: RecordFormat = RecordFormat { big_endian: false, version: 7 };

/// Content of one record.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub time_ns: u64,
    pub action: u64,
    pub category: u64,
    pub sector: u64,
    pub bytes: u32,
    pub device: u32,
    pub behind: &'a [u8],
}

/// An event of a request on the device 8,0.
pub fn event(time_ns: u64, action: u64, category: u64, sector: u64, sectors: u32) -> Entry<'static> {
    Entry { time_ns, action, category, sector, bytes: sectors * 512, device: 8 << 20, behind: &[] }
}

impl RecordFormat {
    fn encode_word(self, out: &mut Vec<u8>, little: &[u8]) {
        if self.big_endian { out.extend(little.iter().rev()) } else { out.extend(little) }
    }

    /// Encodes a record.
    pub fn encode_record(self, entry: &Entry<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let action = entry.action | (entry.category << 16);
        self.encode_word(&mut out, &(0x6561_7400 | u32::from(self.version)).to_le_bytes());
        self.encode_word(&mut out, &1u32.to_le_bytes());
        self.encode_word(&mut out, &entry.time_ns.to_le_bytes());
        self.encode_word(&mut out, &entry.sector.to_le_bytes());
        self.encode_word(&mut out, &entry.bytes.to_le_bytes());
        if self.version == 7 {
            self.encode_word(&mut out, &(action as u32).to_le_bytes());
            self.encode_word(&mut out, &77u32.to_le_bytes());
        } else {
            self.encode_word(&mut out, &77u32.to_le_bytes());
            self.encode_word(&mut out, &action.to_le_bytes());
        }
        self.encode_word(&mut out, &entry.device.to_le_bytes());
        self.encode_word(&mut out, &0u32.to_le_bytes());
        self.encode_word(&mut out, &0u16.to_le_bytes());
        self.encode_word(&mut out, &(entry.behind.len() as u16).to_le_bytes());
        if self.version == 8 {
            out.extend([0; 12]);
        }
        out.extend(entry.behind);
        out
    }

    /// Encodes a stream of records.
    pub fn encode_stream(self, entries: &[Entry<'_>]) -> Vec<u8> {
        entries.iter().flat_map(|entry| self.encode_record(entry)).collect()
    }
}

/// Opens the contents of files as a trace.
pub fn open_trace(files: &[Vec<u8>]) -> Trace {
    let input = |(index, bytes): (usize, &Vec<u8>)| {
        LogInput::from_bytes(&format!("t{index}.trace"), bytes.clone()).expect("opens")
    };
    from_inputs(files.iter().enumerate().map(input).collect()).expect("recognised")
}

/// Reads all requests and the summary from the contents of files.
pub fn read_all(files: &[Vec<u8>]) -> (Vec<Request>, TraceSummary) {
    let mut trace = open_trace(files);
    let requests = trace.by_ref().map(|request| request.expect("memory is readable")).collect();
    (requests, trace.summary())
}
