//! Layout of the counts that the programs write, and the code that writes them: sums and steps in the single value of
//! an array map, which this process reads as memory.
//!
//! | from word | contents |
//! |---|---|
//! | 0 | the numbers 0 to 63 (the reason follows) |
//! | 64 | counts of requests that could not be counted |
//! | 80 | regions, one per processor, or one for several where that would take too much memory |
//!
//! A region has sums, eight words per device and operation, followed by steps: of latency, then of the time at the
//! device, for each device and operation. A processor with its own region adds without a locked instruction:
//! no other processor writes there, and no program interrupts itself.
//!
//! The verifier examines every path that differs in a constant. A device's position is therefore loaded from memory,
//! where the verifier sees one unknown number instead of sixty-four constants.

use super::assembler::{Arithmetic, Assembler, JumpCondition, Label, Register, STACK, Width};
use crate::event::TracedOperation;
use crate::latency::{BUCKET_BITS, BUCKET_COUNT, MAX_LATENCY_BITS, MIN_LATENCY_BITS};

/// Largest number of devices that one program distinguishes.
pub(super) const MAX_DEVICES: usize = 64;
/// Number of operations.
pub(super) const OPERATION_COUNT: usize = TracedOperation::ALL.len();
/// Word with the number of completions without a beginning.
pub(super) const WITHOUT_BEGINNING: usize = 64;
/// Word with the number of beginnings for which the table was full.
pub(super) const NO_ROOM: usize = 65;
/// First word of the regions.
pub(super) const REGIONS_START: usize = 80;
/// Number of words for the sums of a device and operation, and the position of each sum: latencies and times at the
/// device, the longest of both, bytes, errors.
pub(super) const SUM_WORDS: usize = 8;
pub(super) const LATENCY_WORD: usize = 0;
pub(super) const DEVICE_WORD: usize = 1;
pub(super) const LONGEST_WORD: usize = 2;
pub(super) const LONGEST_DEVICE_WORD: usize = 3;
pub(super) const BYTES_WORD: usize = 4;
pub(super) const ERRORS_WORD: usize = 5;
/// Largest value that older kernels accept, bytes (`KMALLOC_MAX_SIZE` with pages of 4 KiB).
const MAX_VALUE_BYTES: usize = (4 << 20) - 4096;
const MAX_REGIONS: usize = 64;

const _: () = {
    assert!(MAX_DEVICES <= WITHOUT_BEGINNING, "the numbers of devices stand before the counts");
    assert!(WITHOUT_BEGINNING < NO_ROOM && NO_ROOM < REGIONS_START, "the regions stand behind the counts");
    assert!(ERRORS_WORD < SUM_WORDS, "each sum has its word");
};

// registers that calls preserve
pub(super) const CONTEXT: Register = 6;
pub(super) const DEVICE: Register = 7;
pub(super) const OPERATION: Register = 8;
/// Holds the processor's region once the operation is no longer needed.
const REGION: Register = 8;
pub(super) const NOW: Register = 9;

// the stack: a key of device (4), class (4) and sector (8); an entry of start (8), issue (8),
// sectors left (4) and sectors (4); values kept across calls
pub(super) const KEY: i16 = -16;
pub(super) const KEY_CLASS: i16 = KEY + 4;
pub(super) const KEY_SECTOR: i16 = KEY + 8;
pub(super) const ENTRY: i16 = -40;
pub(super) const ENTRY_ISSUE: i16 = ENTRY + 8;
pub(super) const ENTRY_LEFT: i16 = ENTRY + 16;
pub(super) const ENTRY_SECTORS: i16 = ENTRY + 20;
/// Time from which the latency counts.
const LATENCY_START: i16 = -48;
const ISSUE: i16 = -56;
const SECTORS: i16 = -64;

/// Numbers of functions of the kernel (include/uapi/linux/bpf.h).
const CLOCK: i32 = 5;
const PROCESSOR: i32 = 8;

/// Layout of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountWords {
    /// Descriptor of the map.
    pub counts: i32,
    /// Number of devices, each with a position.
    pub positions: usize,
    /// Number of regions, a power of two.
    pub regions: usize,
    /// Each processor has its own region.
    pub is_exclusive: bool,
}

/// Offset of a word, bytes.
const fn word_offset(word: usize) -> i16 {
    word as i16 * 8
}

/// Converts the offset of a field to that of an instruction; `None` if no instruction reaches so far.
pub(super) fn field_offset(bytes: usize) -> Option<i16> {
    i16::try_from(bytes).ok()
}

impl CountWords {
    /// Lays out the words for `positions` devices, on a machine whose processors have numbers below `processors`.
    pub(super) fn new(positions: usize, processors: usize) -> CountWords {
        let max_words = MAX_VALUE_BYTES / 8 - REGIONS_START;
        let max_regions = (max_words / region_words(positions)).clamp(1, MAX_REGIONS);
        let max_regions = 1 << max_regions.ilog2();
        let regions = processors.max(1).next_power_of_two().min(max_regions);
        CountWords { counts: -1, positions, regions, is_exclusive: regions >= processors }
    }

    /// Number of words of the value.
    pub(super) fn word_count(self) -> usize {
        REGIONS_START + self.regions * region_words(self.positions)
    }

    /// Returns the first word of the sums of a device and operation in a region, and that of its steps.
    pub(super) fn pair_offsets(self, region: usize, pair: usize) -> (usize, usize) {
        let region_start = REGIONS_START + region * region_words(self.positions);
        let steps_start = region_start + self.positions * OPERATION_COUNT * SUM_WORDS;
        let (sums, steps) = (region_start + pair * SUM_WORDS, steps_start + pair * 2 * BUCKET_COUNT);
        assert!(
            sums + SUM_WORDS <= steps_start && steps + 2 * BUCKET_COUNT <= self.word_count(),
            "region {region} of {self:?} has the device and operation {pair}"
        );
        (sums, steps)
    }

    /// Emits code that adds 1 to a count of requests that could not be counted.
    pub(super) fn emit_count(self, a: &mut Assembler, word: usize) {
        a.load_map_value(1, self.counts, (word * 8) as i32);
        a.op_immediate(Arithmetic::Move, 2, 1);
        a.add_to_memory(1, 0, 2);
    }

    /// Emits code that exits unless a register holds the number of one of these devices, and puts the device's position
    /// into [`DEVICE`].
    pub(super) fn emit_device_lookup(
        self,
        a: &mut Assembler,
        number: Register,
        devices: &[(u32, u32)],
        exit: Label,
    ) -> Option<()> {
        let known = a.new_label();
        for (device, position) in devices {
            let next = a.new_label();
            a.jump_if_word(JumpCondition::NotEqual, number, *device, next);
            a.load_map_value(2, self.counts, i32::try_from(*position).ok()? * 8);
            a.jump(known);
            a.place_label(next);
        }
        a.jump(exit);
        a.place_label(known);
        a.load(Width::Long, DEVICE, 2, 0);
        a.jump_if(JumpCondition::AtLeast, DEVICE, i32::try_from(self.positions).ok()?, exit);
        Some(())
    }

    /// Emits code that puts the time on the monotonic clock into [`NOW`].
    pub(super) fn emit_now(self, a: &mut Assembler) {
        a.call(CLOCK);
        a.op_register(Arithmetic::Move, NOW, 0);
    }

    /// Emits an addition to a word of the region; register 0 is overwritten.
    fn emit_add(self, a: &mut Assembler, to: Register, offset: i16, from: Register) {
        if self.is_exclusive {
            a.load(Width::Long, 0, to, offset);
            a.op_register(Arithmetic::Add, 0, from);
            a.store(Width::Long, to, offset, 0);
        } else {
            a.add_to_memory(to, offset, from);
        }
    }

    /// Emits code that turns [`DEVICE`] into the index of device and operation, with the address of its sums in
    /// register 3.
    fn emit_pair_address(self, a: &mut Assembler) -> Option<()> {
        a.op_immediate(Arithmetic::Mul, DEVICE, OPERATION_COUNT as i32);
        a.op_register(Arithmetic::Add, DEVICE, OPERATION);
        a.op_immediate(Arithmetic::Move, REGION, 0);
        if self.regions > 1 {
            a.call(PROCESSOR);
            a.op_immediate(Arithmetic::And, 0, i32::try_from(self.regions).ok()? - 1);
            a.op_immediate(Arithmetic::Mul, 0, i32::try_from(region_words(self.positions) * 8).ok()?);
            a.op_register(Arithmetic::Move, REGION, 0);
        }
        a.load_map_value(3, self.counts, (REGIONS_START * 8) as i32);
        a.op_register(Arithmetic::Move, 4, DEVICE);
        a.op_immediate(Arithmetic::Mul, 4, (SUM_WORDS * 8) as i32);
        a.op_register(Arithmetic::Add, 3, 4);
        a.op_register(Arithmetic::Add, 3, REGION);
        Some(())
    }

    /// Emits code that adds the bytes of a completed part of a request, which are in the register [`NOW`].
    pub(super) fn emit_part(self, a: &mut Assembler) -> Option<()> {
        self.emit_pair_address(a)?;
        self.emit_add(a, 3, word_offset(BYTES_WORD), NOW);
        Some(())
    }

    /// Emits code that counts a request that ends now; its entry is on the stack. `error` is the offset of its error in
    /// the context.
    pub(super) fn emit_request(self, a: &mut Assembler, error: Option<i16>) -> Option<()> {
        self.emit_sums(a, error)?;
        self.emit_step(a, LATENCY_START, 0)?;
        // a device without requests has no issue
        let done = a.new_label();
        a.load(Width::Long, 1, STACK, ISSUE);
        a.jump_if(JumpCondition::Equal, 1, 0, done);
        self.emit_step(a, ISSUE, BUCKET_COUNT)?;
        a.place_label(done);
        Some(())
    }

    /// Emits code that adds up latencies, times at the device, bytes and errors, and keeps the longest times. Where
    /// processors share a region, two requests that end in the same instant may overwrite each other's longest time;
    /// the steps are exact.
    fn emit_sums(self, a: &mut Assembler, error: Option<i16>) -> Option<()> {
        let has_start = a.new_label();
        // latency counts from the start, or from the issue where there is no start
        a.load(Width::Long, 1, STACK, ENTRY);
        a.load(Width::Long, 2, STACK, ENTRY_ISSUE);
        a.store(Width::Long, STACK, ISSUE, 2);
        a.jump_if(JumpCondition::NotEqual, 1, 0, has_start);
        a.op_register(Arithmetic::Move, 1, 2);
        a.place_label(has_start);
        a.store(Width::Long, STACK, LATENCY_START, 1);
        a.load(Width::Word, 1, STACK, ENTRY_SECTORS);
        a.store(Width::Long, STACK, SECTORS, 1);
        self.emit_pair_address(a)?;
        for (start, sum, longest) in
            [(LATENCY_START, LATENCY_WORD, LONGEST_WORD), (ISSUE, DEVICE_WORD, LONGEST_DEVICE_WORD)]
        {
            let (none, shorter) = (a.new_label(), a.new_label());
            a.load(Width::Long, 1, STACK, start);
            a.jump_if(JumpCondition::Equal, 1, 0, none);
            a.op_register(Arithmetic::Move, 2, NOW);
            a.jump_if_register(JumpCondition::Greater, 1, 2, none);
            a.op_register(Arithmetic::Sub, 2, 1);
            self.emit_add(a, 3, word_offset(sum), 2);
            a.load(Width::Long, 1, 3, word_offset(longest));
            a.jump_if_register(JumpCondition::AtLeast, 1, 2, shorter);
            a.store(Width::Long, 3, word_offset(longest), 2);
            a.place_label(shorter);
            a.place_label(none);
        }
        a.load(Width::Long, 1, STACK, SECTORS);
        a.op_immediate(Arithmetic::ShiftLeft, 1, 9);
        self.emit_add(a, 3, word_offset(BYTES_WORD), 1);
        if let Some(error) = error {
            let no_error = a.new_label();
            a.load(Width::Word, 1, CONTEXT, error);
            a.jump_if(JumpCondition::Equal, 1, 0, no_error);
            a.op_immediate(Arithmetic::Move, 1, 1);
            self.emit_add(a, 3, word_offset(ERRORS_WORD), 1);
            a.place_label(no_error);
        }
        Some(())
    }

    /// Emits code that counts the time since `start`, which is on the stack, in its step, as
    /// [`crate::latency::bucket_index`] does. `skipped_steps` is 0 for latencies, [`BUCKET_COUNT`] for times at the
    /// device.
    fn emit_step(self, a: &mut Assembler, start: i16, skipped_steps: usize) -> Option<()> {
        let (forward, has_step, bounded) = (a.new_label(), a.new_label(), a.new_label());
        a.load(Width::Long, 1, STACK, start);
        a.op_register(Arithmetic::Move, 2, NOW);
        a.op_register(Arithmetic::Sub, 2, 1);
        a.jump_if_register(JumpCondition::AtLeast, NOW, 1, forward);
        a.op_immediate(Arithmetic::Move, 2, 0);
        a.place_label(forward);
        // the step's number in register 5
        a.op_immediate(Arithmetic::Move, 5, 0);
        a.jump_if(JumpCondition::Below, 2, 1 << MIN_LATENCY_BITS, has_step);
        // the highest bit in register 3
        a.op_immediate(Arithmetic::Move, 3, 0);
        a.op_register(Arithmetic::Move, 4, 2);
        for bits in [32, 16, 8, 4, 2, 1] {
            let lower = a.new_label();
            a.op_register(Arithmetic::Move, 1, 4);
            a.op_immediate(Arithmetic::ShiftRight, 1, bits);
            a.jump_if(JumpCondition::Equal, 1, 0, lower);
            a.op_register(Arithmetic::Move, 4, 1);
            a.op_immediate(Arithmetic::Add, 3, bits);
            a.place_label(lower);
        }
        a.op_immediate(Arithmetic::Move, 5, BUCKET_COUNT as i32 - 1);
        a.jump_if(JumpCondition::AtLeast, 3, MAX_LATENCY_BITS as i32, has_step);
        a.op_register(Arithmetic::Move, 5, 3);
        a.op_immediate(Arithmetic::Add, 3, -(BUCKET_BITS as i32));
        // the verifier refuses a shift that could exceed 63 bits, and does not know the range of the octaves
        a.op_immediate(Arithmetic::And, 3, 63);
        a.op_register(Arithmetic::ShiftRight, 2, 3);
        a.op_immediate(Arithmetic::And, 2, (1 << BUCKET_BITS) - 1);
        a.op_immediate(Arithmetic::Add, 5, -(MIN_LATENCY_BITS as i32));
        a.op_immediate(Arithmetic::ShiftLeft, 5, BUCKET_BITS as i32);
        a.op_register(Arithmetic::Add, 5, 2);
        a.op_immediate(Arithmetic::Add, 5, 1);
        a.place_label(has_step);
        a.jump_if(JumpCondition::Below, 5, BUCKET_COUNT as i32, bounded);
        a.op_immediate(Arithmetic::Move, 5, BUCKET_COUNT as i32 - 1);
        a.place_label(bounded);
        a.op_register(Arithmetic::Move, 1, DEVICE);
        a.op_immediate(Arithmetic::Mul, 1, (2 * BUCKET_COUNT * 8) as i32);
        a.op_immediate(Arithmetic::Mul, 5, 8);
        a.op_register(Arithmetic::Add, 1, 5);
        let steps = (REGIONS_START + self.positions * OPERATION_COUNT * SUM_WORDS + skipped_steps) * 8;
        a.load_map_value(2, self.counts, i32::try_from(steps).ok()?);
        a.op_register(Arithmetic::Add, 2, 1);
        a.op_register(Arithmetic::Add, 2, REGION);
        a.op_immediate(Arithmetic::Move, 1, 1);
        self.emit_add(a, 2, 0, 1);
        Some(())
    }
}

/// Number of words of a region.
fn region_words(positions: usize) -> usize {
    positions * OPERATION_COUNT * (SUM_WORDS + 2 * BUCKET_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_fit_in_memory_and_are_shared_only_where_they_do_not() {
        let few = CountWords::new(1, 2);
        assert_eq!((few.regions, few.is_exclusive), (2, true));
        assert!(CountWords::new(3, 12).is_exclusive);
        for (positions, processors) in [(1, 1), (1, 500), (MAX_DEVICES, 2), (MAX_DEVICES, 200), (8, 16)] {
            let words = CountWords::new(positions, processors);
            assert!(words.regions.is_power_of_two() && words.word_count() * 8 <= MAX_VALUE_BYTES, "{words:?}");
            assert_eq!(words.is_exclusive, words.regions >= processors, "{words:?}");
            let (_, last) = words.pair_offsets(words.regions - 1, positions * OPERATION_COUNT - 1);
            assert_eq!(last + 2 * BUCKET_COUNT, words.word_count(), "{words:?}");
        }
    }
}
