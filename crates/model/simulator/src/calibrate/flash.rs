//! An SSD, or any other device of many equal parts behind one processor and one link, whose throughput rises with the
//! queue depth until a part saturates. Writes are acknowledged from a buffer, or not.

use diskwright_base::units::format_count;

use super::ModelKind;
use super::form::ModelForm;
use super::known::KnownCells;
use crate::flash::{FlashSpec, Start};
use crate::io::BLOCK_BYTES;

/// Number of fitted numbers for reads, and for writes.
pub(super) const READS: usize = 5;
pub(super) const WRITES: usize = 3;
/// Numbers of parts that are tried.
const PARTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Page sizes that are tried, bytes.
const PAGES: [u32; 2] = [4 << 10, 16 << 10];
/// Size of the write buffer, if there is one, bytes.
const BUFFER: u64 = 1 << 20;
/// Each die has its own channel, so the link limits the bytes.
const DIES_A_CHANNEL: u32 = 1;
/// Spare capacity so large that nothing is ever moved: the measured rate already includes garbage collection.
const SPARE: f64 = 10.0;

/// Returns all combinations, with initial numbers taken from the cells.
pub(super) fn forms(known: &KnownCells) -> Vec<ModelForm> {
    let (reads, writes) = (known.reads, known.written());
    let mut all = Vec::new();
    for parts in PARTS {
        for page in PAGES {
            for buffer in [true, false] {
                let command = 0.7 / reads.most_per_s;
                // the part's share of a single read: no more than the highest rate allows
                let max_part = f64::from(parts * page) / reads.most_bytes_per_s;
                let part = (f64::from(parts) / reads.most_per_s).min(0.7 * (reads.alone_s - command).max(command));
                let part = part.min(max_part);
                let rest = (reads.alone_s - command - part).max(0.05 * reads.alone_s);
                let link = 1.1 * reads.most_bytes_per_s.max(writes.most_bytes_per_s);
                let channel = 1.5 * reads.most_bytes_per_s / f64::from(parts);
                let mut numbers = vec![rest, command, part, link, channel];
                if known.writes.is_some() {
                    let program = f64::from(parts * page) / writes.most_bytes_per_s;
                    // the limit of small writes, unless it is bytes
                    let small = writes.most_per_s * f64::from(known.small) * BLOCK_BYTES as f64;
                    let busy = if writes.most_bytes_per_s > 2.0 * small { 0.8 } else { 0.3 };
                    let program = if buffer { program } else { program.min(0.9 * writes.alone_s) };
                    numbers.extend([0.5 * writes.alone_s, busy / writes.most_per_s, program]);
                    // the last number, after those of writes: without writes, a mixed log alone does not determine it
                    if known.mixes {
                        numbers.push(part);
                    }
                }
                let words = ["its writes on the medium", "a write buffer"][usize::from(buffer)];
                all.push(ModelForm {
                    kind: ModelKind::Flash,
                    choices: vec![parts, page, u32::from(buffer)],
                    numbers,
                    chosen: 2,
                    what: format!("{} of {} KB, {words}", format_count(parts, "part", "parts"), page >> 10),
                });
            }
        }
    }
    all
}

/// Returns the SSD.
pub(super) fn spec(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> FlashSpec {
    let [parts, page, buffer] = [0, 1, 2].map(|index| form.choices.get(index).copied().unwrap_or(1));
    let number = |index: usize| numbers.get(index).copied();
    let ns = |index: usize, fallback: usize| (number(index).or(number(fallback)).unwrap_or(0.0) * 1e9).round() as u64;
    let link = number(3).unwrap_or(1e9);
    FlashSpec {
        name: known.device.name.clone(),
        blocks: known.device.bytes / BLOCK_BYTES,
        slots: 1024,
        link,
        duplex: true,
        latency_read: ns(0, 0),
        command_read: ns(1, 1),
        latency_write: ns(5, 0),
        command_write: ns(6, 1),
        channels: parts,
        dies: DIES_A_CHANNEL,
        planes: 1,
        independent_planes: false,
        page,
        pages: 256,
        unit: 4096,
        read: ns(2, 2).max(1),
        program: ns(7, 2).max(1),
        erase: 0,
        suspend: number(8).map(|s| (s * 1e9).round() as u64),
        channel: number(4).unwrap_or(link).min(link),
        spare: SPARE,
        buffer: if buffer > 0 { BUFFER.max(4 * u64::from(page * parts)) } else { 0 },
        protected: true,
        slc: None,
        start: Start { filled: 0.0, overwritten: 0.0 },
    }
}
