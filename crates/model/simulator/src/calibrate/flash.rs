//! A device of many equal parts behind one processor and one link: what an SSD is, and anything else whose
//! throughput rises with the queue until a part of it is full. Writes are reported from a buffer, or not.

use diskwright_base::units::plural;

use super::ModelKind;
use super::form::ModelForm;
use super::known::KnownCells;
use crate::flash::{FlashSpec, Start};
use crate::io::BLOCK_BYTES;

/// Numbers of reads, and of writes.
pub(super) const READS: usize = 5;
pub(super) const WRITES: usize = 3;
/// Parts that are tried.
const PARTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Bytes of a page.
const PAGES: [u32; 2] = [4 << 10, 16 << 10];
/// A buffer, where there is one.
const BUFFER: u64 = 1 << 20;
/// Where each die has a channel of its own, the link is what bounds bytes.
const DIES_A_CHANNEL: u32 = 1;
/// So much room to write that nothing is ever moved: the measured rate has that in it.
const SPARE: f64 = 10.0;

/// All combinations, with numbers that the cells show.
pub(super) fn forms(known: &KnownCells) -> Vec<ModelForm> {
    let (reads, writes) = (known.reads, known.written());
    let mut all = Vec::new();
    for parts in PARTS {
        for page in PAGES {
            for buffer in [true, false] {
                let command = 0.7 / reads.most_per_s;
                // of a read by itself, what its part takes: no more than lets the best rate come out
                let most = f64::from(parts * page) / reads.most_bytes_per_s;
                let part = (f64::from(parts) / reads.most_per_s).min(0.7 * (reads.alone_s - command).max(command));
                let part = part.min(most);
                let rest = (reads.alone_s - command - part).max(0.05 * reads.alone_s);
                let link = 1.1 * reads.most_bytes_per_s.max(writes.most_bytes_per_s);
                let channel = 1.5 * reads.most_bytes_per_s / f64::from(parts);
                let mut numbers = vec![rest, command, part, link, channel];
                if known.writes.is_some() {
                    let program = f64::from(parts * page) / writes.most_bytes_per_s;
                    // what bounds small writes, where it is not bytes
                    let small = writes.most_per_s * f64::from(known.small) * BLOCK_BYTES as f64;
                    let busy = if writes.most_bytes_per_s > 2.0 * small { 0.8 } else { 0.3 };
                    let program = if buffer { program } else { program.min(0.9 * writes.alone_s) };
                    numbers.extend([0.5 * writes.alone_s, busy / writes.most_per_s, program]);
                    // behind those of writes: without them, a log's mix alone tells nothing of it
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
                    what: format!("{} of {} KB, {words}", plural(parts, "part", "parts"), page >> 10),
                });
            }
        }
    }
    all
}

/// The SSD.
pub(super) fn spec(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> FlashSpec {
    let [parts, page, buffer] = [0, 1, 2].map(|index| form.choices.get(index).copied().unwrap_or(1));
    let number = |index: usize| numbers.get(index).copied();
    let ns = |index: usize, or: usize| (number(index).or(number(or)).unwrap_or(0.0) * 1e9).round() as u64;
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
