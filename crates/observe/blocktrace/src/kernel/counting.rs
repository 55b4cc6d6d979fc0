//! Layout of the counts that the programs write, and the code that writes them: sums and steps in the single value of
//! an array map, which this process reads as memory.
//!
//! | from word | contents |
//! |---|---|
//! | 0 | the numbers 0 to 63, see below |
//! | 64 | counts of the program itself |
//! | 80 | regions, one per processor, or one for several where that would take too much memory |
//!
//! A region has sums, eight words per device and operation, followed by steps: of latency, then of the time at the
//! device, for each device and operation. A processor with its own region adds without a locked instruction:
//! no other processor writes there, and no program interrupts itself.
//!
//! The verifier walks every path that differs in a constant. A device's position is therefore loaded from memory,
//! where the verifier sees one unknown number instead of sixty-four constants.

use super::assembler::{Arithmetic, Assembler, JumpCondition, Label, Register, STACK, Width};
use crate::event::TracedOperation;
use crate::latency::{FIRST_BITS, LAST_BITS, STEP_BITS, STEP_COUNT};

/// Most devices that one program distinguishes.
pub(super) const MOST_DEVICES: usize = 64;
/// Number of operations.
pub(super) const OPERATIONS: usize = TracedOperation::ALL.len();
/// Word with the number of completions without a beginning.
pub(super) const WITHOUT_BEGINNING: usize = 64;
/// Word with the number of beginnings for which the table was full.
pub(super) const NO_ROOM: usize = 65;
/// First word of the regions.
pub(super) const REGIONS: usize = 80;
/// Words of sums of a device and operation.
pub(super) const SUM_WORDS: usize = 8;
/// Largest value that older kernels accept, bytes (`KMALLOC_MAX_SIZE` with pages of 4 KiB).
const MOST_BYTES: usize = (4 << 20) - 4096;
const MOST_REGIONS: usize = 64;

// registers that stay over calls
pub(super) const CONTEXT: Register = 6;
pub(super) const DEVICE: Register = 7;
pub(super) const OPERATION: Register = 8;
/// Holds the processor's region once the operation is no longer needed.
const REGION: Register = 8;
pub(super) const NOW: Register = 9;

// the stack: a key of device (4), class (4) and sector (8); an entry of start (8), issue (8),
// sectors not done (4) and sectors (4); times kept over calls
pub(super) const KEY: i16 = -16;
pub(super) const ENTRY: i16 = -40;
const BASE: i16 = -48;
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
    /// Number of devices.
    pub positions: usize,
    /// Number of regions, a power of two.
    pub regions: usize,
    /// No two processors share a region.
    pub is_exclusive: bool,
}

/// Converts the offset of a field to that of an instruction; `None` where no instruction reaches so far.
pub(super) fn field_offset(bytes: usize) -> Option<i16> {
    i16::try_from(bytes).ok()
}

impl CountWords {
    /// Lays out the words for `positions` devices, on a machine whose processors have numbers below `processors`.
    pub(super) fn new(positions: usize, processors: usize) -> CountWords {
        let room = MOST_BYTES / 8 - REGIONS;
        let fit = (room / region_words(positions)).clamp(1, MOST_REGIONS);
        let fit = 1 << fit.ilog2();
        let regions = processors.max(1).next_power_of_two().min(fit);
        CountWords { counts: -1, positions, regions, is_exclusive: regions >= processors }
    }

    /// Number of words of the value.
    pub(super) fn words(self) -> usize {
        REGIONS + self.regions * region_words(self.positions)
    }

    /// Returns the first word of the sums of a device and operation in a region, and that of its steps.
    pub(super) fn of(self, region: usize, pair: usize) -> (usize, usize) {
        let from = REGIONS + region * region_words(self.positions);
        let steps = from + self.positions * OPERATIONS * SUM_WORDS;
        (from + pair * SUM_WORDS, steps + pair * 2 * STEP_COUNT)
    }

    /// Emits code that adds one to a count of the program itself.
    pub(super) fn count(self, a: &mut Assembler, word: usize) {
        a.map_value(1, self.counts, (word * 8) as i32);
        a.value(Arithmetic::Move, 2, 1);
        a.add_to_memory(1, 0, 2);
    }

    /// Emits an exit unless a register holds the number of one of these devices; else its position is in [`DEVICE`].
    pub(super) fn device(self, a: &mut Assembler, number: Register, devices: &[(u32, u32)], exit: Label) -> Option<()> {
        let known = a.label();
        for (device, position) in devices {
            let next = a.label();
            a.jump_if_word(JumpCondition::NotEqual, number, *device, next);
            a.map_value(2, self.counts, i32::try_from(*position).ok()? * 8);
            a.jump(known);
            a.here(next);
        }
        a.jump(exit);
        a.here(known);
        a.load(Width::Long, DEVICE, 2, 0);
        a.jump_if(JumpCondition::AtLeast, DEVICE, i32::try_from(self.positions).ok()?, exit);
        Some(())
    }

    pub(super) fn now(self, a: &mut Assembler) {
        a.call(CLOCK);
        a.register(Arithmetic::Move, NOW, 0);
    }

    /// Emits an addition to a word of the region; register 0 is overwritten.
    fn add(self, a: &mut Assembler, to: Register, offset: i16, from: Register) {
        if self.is_exclusive {
            a.load(Width::Long, 0, to, offset);
            a.register(Arithmetic::Add, 0, from);
            a.store(Width::Long, to, offset, 0);
        } else {
            a.add_to_memory(to, offset, from);
        }
    }

    /// Emits code that turns [`DEVICE`] into the index of device and operation, with the address of its sums in
    /// register 3.
    fn pair(self, a: &mut Assembler) -> Option<()> {
        a.value(Arithmetic::Mul, DEVICE, OPERATIONS as i32);
        a.register(Arithmetic::Add, DEVICE, OPERATION);
        a.value(Arithmetic::Move, REGION, 0);
        if self.regions > 1 {
            a.call(PROCESSOR);
            a.value(Arithmetic::And, 0, i32::try_from(self.regions).ok()? - 1);
            a.value(Arithmetic::Mul, 0, i32::try_from(region_words(self.positions) * 8).ok()?);
            a.register(Arithmetic::Move, REGION, 0);
        }
        a.map_value(3, self.counts, (REGIONS * 8) as i32);
        a.register(Arithmetic::Move, 4, DEVICE);
        a.value(Arithmetic::Mul, 4, (SUM_WORDS * 8) as i32);
        a.register(Arithmetic::Add, 3, 4);
        a.register(Arithmetic::Add, 3, REGION);
        Some(())
    }

    /// Emits the addition of the bytes in register 9, of a part of a request.
    pub(super) fn part(self, a: &mut Assembler) -> Option<()> {
        self.pair(a)?;
        self.add(a, 3, 32, NOW);
        Some(())
    }

    /// Emits the count of the request whose entry is on the stack, which ends now. `error` is the offset of its error
    /// in the context.
    pub(super) fn request(self, a: &mut Assembler, error: Option<i16>) -> Option<()> {
        self.sums(a, error)?;
        self.step(a, BASE, 0)?;
        // a device without requests has no issue
        let done = a.label();
        a.load(Width::Long, 1, STACK, ISSUE);
        a.jump_if(JumpCondition::Equal, 1, 0, done);
        self.step(a, ISSUE, STEP_COUNT)?;
        a.here(done);
        Some(())
    }

    /// Emits the sums of latencies, of times at the device, of bytes, errors, and the longest times. Where processors
    /// share a region, two requests that end in the same instant may overwrite each other's longest; the steps are
    /// exact.
    fn sums(self, a: &mut Assembler, error: Option<i16>) -> Option<()> {
        let has_start = a.label();
        // latency counts from the start, or from the issue where there is no start
        a.load(Width::Long, 1, STACK, ENTRY);
        a.load(Width::Long, 2, STACK, ENTRY + 8);
        a.store(Width::Long, STACK, ISSUE, 2);
        a.jump_if(JumpCondition::NotEqual, 1, 0, has_start);
        a.register(Arithmetic::Move, 1, 2);
        a.here(has_start);
        a.store(Width::Long, STACK, BASE, 1);
        a.load(Width::Word, 1, STACK, ENTRY + 20);
        a.store(Width::Long, STACK, SECTORS, 1);
        self.pair(a)?;
        for (from, word) in [(BASE, 0), (ISSUE, 1)] {
            let (none, shorter) = (a.label(), a.label());
            a.load(Width::Long, 1, STACK, from);
            a.jump_if(JumpCondition::Equal, 1, 0, none);
            a.register(Arithmetic::Move, 2, NOW);
            a.jump_if_register(JumpCondition::Greater, 1, 2, none);
            a.register(Arithmetic::Sub, 2, 1);
            self.add(a, 3, word * 8, 2);
            a.load(Width::Long, 1, 3, 16 + word * 8);
            a.jump_if_register(JumpCondition::AtLeast, 1, 2, shorter);
            a.store(Width::Long, 3, 16 + word * 8, 2);
            a.here(shorter);
            a.here(none);
        }
        a.load(Width::Long, 1, STACK, SECTORS);
        a.value(Arithmetic::ShiftLeft, 1, 9);
        self.add(a, 3, 32, 1);
        if let Some(error) = error {
            let fine = a.label();
            a.load(Width::Word, 1, CONTEXT, error);
            a.jump_if(JumpCondition::Equal, 1, 0, fine);
            a.value(Arithmetic::Move, 1, 1);
            self.add(a, 3, 40, 1);
            a.here(fine);
        }
        Some(())
    }

    /// Emits the count of the time since the one on the stack in its step, as [`crate::latency::step_index`] does.
    fn step(self, a: &mut Assembler, from: i16, behind: usize) -> Option<()> {
        let (forward, short, bounded) = (a.label(), a.label(), a.label());
        a.load(Width::Long, 1, STACK, from);
        a.register(Arithmetic::Move, 2, NOW);
        a.register(Arithmetic::Sub, 2, 1);
        a.jump_if_register(JumpCondition::AtLeast, NOW, 1, forward);
        a.value(Arithmetic::Move, 2, 0);
        a.here(forward);
        // the step's number in register 5
        a.value(Arithmetic::Move, 5, 0);
        a.jump_if(JumpCondition::Below, 2, 1 << FIRST_BITS, short);
        // the highest bit in register 3
        a.value(Arithmetic::Move, 3, 0);
        a.register(Arithmetic::Move, 4, 2);
        for bits in [32, 16, 8, 4, 2, 1] {
            let lower = a.label();
            a.register(Arithmetic::Move, 1, 4);
            a.value(Arithmetic::ShiftRight, 1, bits);
            a.jump_if(JumpCondition::Equal, 1, 0, lower);
            a.register(Arithmetic::Move, 4, 1);
            a.value(Arithmetic::Add, 3, bits);
            a.here(lower);
        }
        a.value(Arithmetic::Move, 5, STEP_COUNT as i32 - 1);
        a.jump_if(JumpCondition::AtLeast, 3, LAST_BITS as i32, short);
        a.register(Arithmetic::Move, 5, 3);
        a.value(Arithmetic::Add, 3, -(STEP_BITS as i32));
        // the verifier refuses a shift that could exceed 63 bits, and does not know the range of the octaves
        a.value(Arithmetic::And, 3, 63);
        a.register(Arithmetic::ShiftRight, 2, 3);
        a.value(Arithmetic::And, 2, (1 << STEP_BITS) - 1);
        a.value(Arithmetic::Add, 5, -(FIRST_BITS as i32));
        a.value(Arithmetic::ShiftLeft, 5, STEP_BITS as i32);
        a.register(Arithmetic::Add, 5, 2);
        a.value(Arithmetic::Add, 5, 1);
        a.here(short);
        a.jump_if(JumpCondition::Below, 5, STEP_COUNT as i32, bounded);
        a.value(Arithmetic::Move, 5, STEP_COUNT as i32 - 1);
        a.here(bounded);
        a.register(Arithmetic::Move, 1, DEVICE);
        a.value(Arithmetic::Mul, 1, (2 * STEP_COUNT * 8) as i32);
        a.value(Arithmetic::Mul, 5, 8);
        a.register(Arithmetic::Add, 1, 5);
        let steps = (REGIONS + self.positions * OPERATIONS * SUM_WORDS + behind) * 8;
        a.map_value(2, self.counts, i32::try_from(steps).ok()?);
        a.register(Arithmetic::Add, 2, 1);
        a.register(Arithmetic::Add, 2, REGION);
        a.value(Arithmetic::Move, 1, 1);
        self.add(a, 2, 0, 1);
        Some(())
    }
}

/// Number of words of a region.
fn region_words(positions: usize) -> usize {
    positions * OPERATIONS * (SUM_WORDS + 2 * STEP_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_fit_in_memory_and_are_shared_only_where_they_do_not() {
        let few = CountWords::new(1, 2);
        assert_eq!((few.regions, few.is_exclusive), (2, true));
        assert!(CountWords::new(3, 12).is_exclusive);
        for (positions, processors) in [(1, 1), (1, 500), (MOST_DEVICES, 2), (MOST_DEVICES, 200), (8, 16)] {
            let words = CountWords::new(positions, processors);
            assert!(words.regions.is_power_of_two() && words.words() * 8 <= MOST_BYTES, "{words:?}");
            assert_eq!(words.is_exclusive, words.regions >= processors, "{words:?}");
            let (_, last) = words.of(words.regions - 1, positions * OPERATIONS - 1);
            assert_eq!(last + 2 * STEP_COUNT, words.words(), "{words:?}");
        }
    }
}
