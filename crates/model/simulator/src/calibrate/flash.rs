//! An SSD, or any other device of many equal parts behind one processor and one link, whose throughput rises with the
//! queue depth until a part saturates. Writes are acknowledged from a buffer, or not.

use diskwright_base::units::format_count;

use super::ModelKind;
use super::known_cells::KnownCells;
use super::model_form::ModelForm;
use crate::flash::{FlashSpec, InitialState};
use crate::io::BLOCK_BYTES;

/// Number of fitted numbers for reads.
pub(super) const READ_NUMBERS: usize = 5;
/// Number of fitted numbers for writes.
pub(super) const WRITE_NUMBERS: usize = 3;
/// Numbers of parts that are tried.
const PART_COUNTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Page sizes that are tried, bytes.
const PAGE_BYTES: [u32; 2] = [4 << 10, 16 << 10];
/// Size of the write buffer, if there is one, bytes.
const BUFFER_BYTES: u64 = 1 << 20;
/// Each die has its own channel, so the link limits the bytes.
const DIES_PER_CHANNEL: u32 = 1;
/// Spare capacity so large that nothing is ever moved: the measured rate already includes garbage collection.
const SPARE_RATIO: f64 = 10.0;

/// Returns all combinations, with initial numbers taken from the cells.
pub(super) fn flash_forms(known: &KnownCells) -> Vec<ModelForm> {
    let (reads, writes) = (known.reads, known.write_direction());
    let mut forms = Vec::new();
    for parts in PART_COUNTS {
        for page in PAGE_BYTES {
            for buffer in [true, false] {
                let command = 0.7 / reads.max_per_s;
                // the time of a part in a single read: no more than the highest rate allows
                let max_part = f64::from(parts * page) / reads.max_bytes_per_s;
                let part = (f64::from(parts) / reads.max_per_s).min(0.7 * (reads.standalone_s - command).max(command));
                let part = part.min(max_part);
                let latency = (reads.standalone_s - command - part).max(0.05 * reads.standalone_s);
                let link = 1.1 * reads.max_bytes_per_s.max(writes.max_bytes_per_s);
                let channel = 1.5 * reads.max_bytes_per_s / f64::from(parts);
                let mut numbers = vec![latency, command, part, link, channel];
                if known.writes.is_some() {
                    let program = f64::from(parts * page) / writes.max_bytes_per_s;
                    // the rate of small writes in bytes, to tell whether bytes or operations limit the writes
                    let small = writes.max_per_s * f64::from(known.small_blocks) * BLOCK_BYTES as f64;
                    let busy = if writes.max_bytes_per_s > 2.0 * small { 0.8 } else { 0.3 };
                    let program = if buffer { program } else { program.min(0.9 * writes.standalone_s) };
                    numbers.extend([0.5 * writes.standalone_s, busy / writes.max_per_s, program]);
                    // comes last, after the numbers of writes: without writes, a mixed log does not determine it
                    if known.has_mixes {
                        numbers.push(part);
                    }
                }
                let buffer_text = ["its writes on the medium", "a write buffer"][usize::from(buffer)];
                forms.push(ModelForm {
                    kind: ModelKind::Flash,
                    choices: vec![parts, page, u32::from(buffer)],
                    numbers,
                    chosen_count: 2,
                    description: format!(
                        "{} of {} KiB, {buffer_text}",
                        format_count(parts, "part", "parts"),
                        page >> 10
                    ),
                });
            }
        }
    }
    forms
}

/// Returns the SSD.
pub(super) fn flash_spec(form: &ModelForm, numbers: &[f64], known: &KnownCells) -> FlashSpec {
    let [parts, page, buffer] = [0, 1, 2].map(|index| form.choices.get(index).copied().unwrap_or(1));
    // five numbers of reads, three of writes, and the time of a suspension
    debug_assert!(matches!(numbers.len(), 5 | 8 | 9), "an SSD has no {} numbers", numbers.len());
    let number = |index: usize| numbers.get(index).copied();
    let ns = |index: usize, fallback: usize| (number(index).or(number(fallback)).unwrap_or(0.0) * 1e9).round() as u64;
    let link = number(3).unwrap_or(1e9);
    FlashSpec {
        name: known.device.name.clone(),
        blocks: known.device.bytes / BLOCK_BYTES,
        queue_slots: 1024,
        link_bytes_per_s: link,
        duplex: true,
        latency_read: ns(0, 0),
        command_read: ns(1, 1),
        latency_write: ns(5, 0),
        command_write: ns(6, 1),
        channels: parts,
        dies_per_channel: DIES_PER_CHANNEL,
        planes: 1,
        independent_planes: false,
        page_bytes: page,
        pages_per_block: 256,
        unit_bytes: 4096,
        read_ns: ns(2, 2).max(1),
        program_ns: ns(7, 2).max(1),
        erase_ns: 0,
        suspend_ns: number(8).map(|s| (s * 1e9).round() as u64),
        channel_bytes_per_s: number(4).unwrap_or(link).min(link),
        spare_share: SPARE_RATIO,
        buffer_bytes: if buffer > 0 { BUFFER_BYTES.max(4 * u64::from(page * parts)) } else { 0 },
        survives_power_loss: true,
        slc: None,
        initial_state: InitialState { filled_share: 0.0, overwrite_passes: 0.0 },
    }
}
