//! The program that counts requests in the kernel, written for this kernel's events.
//!
//! One program an event. Beginnings go to a table by device, class of operation and sector;
//! completions take them out and count their times in steps. The table is a hash map; the
//! counts lie in the one value of an array map, which this process reads as memory:
//!
//! | words from | what |
//! |---|---|
//! | 0 | the numbers 0 to 63, see below |
//! | 64 | counts of the program itself |
//! | 80 | sums, eight words a device and operation |
//! | behind | steps: of latency, then of the device's time, for each device and operation |
//!
//! The verifier walks every path that differs in a constant. A device's position is
//! therefore loaded from memory, where it sees a number and not sixty-four.

use super::assembler::{Arithmetic, Assembler, JumpCondition, Label, Register, STACK, Width};
use crate::event::{BlockEventKind, TracedOperation};
use crate::latency::{FIRST_BITS, LAST_BITS, STEP_BITS, STEPS};
use crate::layout::EventLayout;

/// Devices that one program tells apart.
pub(super) const MOST_DEVICES: usize = 64;
/// Operations.
pub(super) const OPERATIONS: usize = TracedOperation::ALL.len();
/// Completions without a beginning.
pub(super) const WITHOUT_BEGINNING: usize = 64;
/// Beginnings that found no room.
pub(super) const NO_ROOM: usize = 65;
/// Where the sums begin, and how many words a device and operation has.
pub(super) const SUMS: usize = 80;
pub(super) const SUM_WORDS: usize = 8;

/// Where the steps of devices begin.
pub(super) fn steps_from(devices: usize) -> usize {
    SUMS + devices * OPERATIONS * SUM_WORDS
}

/// Words of the value for so many devices.
pub(super) fn value_words(devices: usize) -> usize {
    steps_from(devices) + devices * OPERATIONS * 2 * STEPS
}

/// Bytes of a key and of an entry of the table.
pub(super) const KEY_BYTES: u32 = 16;
pub(super) const ENTRY_BYTES: u32 = 24;

/// What a program needs to know.
#[derive(Clone, Debug)]
pub(super) struct ProgramPlan<'a> {
    pub(super) layout: &'a EventLayout,
    /// Numbers of devices (partitions too) and their positions.
    pub(super) devices: &'a [(u32, u32)],
    /// How many positions there are.
    pub(super) positions: usize,
    /// Bits of a sector that are zero where its place is counted.
    pub(super) mask: u64,
    /// Descriptors of the maps.
    pub(super) table: i32,
    pub(super) counts: i32,
}

// registers that stay over calls
const CONTEXT: Register = 6;
const DEVICE: Register = 7;
const OPERATION: Register = 8;
const NOW: Register = 9;

// the stack: a key of device (4), class (4) and sector (8); an entry of start (8), issue (8),
// sectors not done (4) and sectors (4); times kept over calls
const KEY: i16 = -16;
const ENTRY: i16 = -40;
const BASE: i16 = -48;
const ISSUE: i16 = -56;
const SECTORS: i16 = -64;

// functions of the kernel (include/uapi/linux/bpf.h)
const LOOK_UP: i32 = 1;
const UPDATE: i32 = 2;
const DELETE: i32 = 3;
const CLOCK: i32 = 5;

impl ProgramPlan<'_> {
    /// The program, or `None` where the event's fields lie too far apart.
    pub(super) fn assemble(&self) -> Option<Vec<[u8; 8]>> {
        let mut a = Assembler::default();
        let exit = a.label();
        self.begin(&mut a, exit)?;
        match self.layout.kind {
            BlockEventKind::Start | BlockEventKind::GetRequest | BlockEventKind::Queue => self.start(&mut a, exit)?,
            BlockEventKind::Issue => self.issue(&mut a, exit)?,
            BlockEventKind::Complete | BlockEventKind::BioComplete => self.complete(&mut a, exit)?,
            BlockEventKind::FrontMerge => self.front_merge(&mut a, exit)?,
            BlockEventKind::RequestMerge => self.table_call(&mut a, DELETE),
            _ => return None,
        }
        a.here(exit);
        a.exit();
        a.finish()
    }

    fn offset(&self, at: usize) -> Option<i16> {
        i16::try_from(at).ok()
    }

    /// Leaves unless device, place and operation are counted; then device, operation and key are set.
    fn begin(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        a.register(Arithmetic::Move, CONTEXT, 1);
        a.load(Width::Word, 1, CONTEXT, self.offset(self.layout.device)?);
        let known = a.label();
        for (device, position) in self.devices {
            let next = a.label();
            a.jump_if_word(JumpCondition::NotEqual, 1, *device, next);
            a.map_value(2, self.counts, i32::try_from(*position).ok()? * 8);
            a.jump(known);
            a.here(next);
        }
        a.jump(exit);
        a.here(known);
        a.load(Width::Long, DEVICE, 2, 0);
        a.jump_if(JumpCondition::AtLeast, DEVICE, i32::try_from(self.positions).ok()?, exit);
        a.load(Width::Long, 3, CONTEXT, self.offset(self.layout.sector)?);
        a.load(Width::Word, 4, CONTEXT, self.offset(self.layout.sectors?)?);
        self.operation(a, exit)?;
        if self.mask > 0 {
            a.jump_if(JumpCondition::AnyBit, 3, i32::try_from(self.mask).ok()?, exit);
        }
        a.store(Width::Word, STACK, KEY, DEVICE);
        a.store(Width::Long, STACK, KEY + 8, 3);
        Some(())
    }

    /// By the letters: sets the operation and the class, and the sector (register 3) of a flush to 0.
    /// A caller's flush is not counted here: it ends under other letters, without a place.
    fn operation(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        use TracedOperation::{Discard, Flush, Read, SyncWrite, Write};
        let letters = self.offset(self.layout.letters.offset)?;
        let (plain, write, sync, set) = (a.label(), a.label(), a.label(), a.label());
        let put = |a: &mut Assembler, operation: TracedOperation| {
            a.value(Arithmetic::Move, 5, i32::from(operation.class()));
            a.value(Arithmetic::Move, OPERATION, operation as i32);
            a.jump(set);
        };
        let when = |a: &mut Assembler, letter: u8, operation: TracedOperation| {
            let next = a.label();
            a.jump_if(JumpCondition::NotEqual, 1, i32::from(letter), next);
            put(a, operation);
            a.here(next);
        };
        a.load(Width::Byte, 1, CONTEXT, letters);
        a.jump_if(JumpCondition::NotEqual, 1, i32::from(b'F'), plain);
        a.load(Width::Byte, 1, CONTEXT, letters + 1);
        a.jump_if(JumpCondition::Equal, 1, i32::from(b'W'), sync);
        let no_flush = a.label();
        a.jump_if(JumpCondition::NotEqual, 1, i32::from(b'F'), no_flush);
        a.value(Arithmetic::Move, 3, 0);
        put(a, Flush);
        a.here(no_flush);
        a.jump(exit);
        a.here(plain);
        when(a, b'R', Read);
        when(a, b'D', Discard);
        a.jump_if(JumpCondition::NotEqual, 1, i32::from(b'W'), exit);
        // what stands behind the zero is left from another event
        for behind in 1..4 {
            a.load(Width::Byte, 1, CONTEXT, letters + behind);
            a.jump_if(JumpCondition::Equal, 1, 0, write);
            a.jump_if(JumpCondition::Equal, 1, i32::from(b'S'), sync);
            a.jump_if(JumpCondition::Equal, 1, i32::from(b'F'), sync);
        }
        a.here(write);
        a.jump_if(JumpCondition::Equal, 4, 0, exit);
        put(a, Write);
        a.here(sync);
        a.jump_if(JumpCondition::Equal, 4, 0, exit);
        put(a, SyncWrite);
        a.here(set);
        a.store(Width::Word, STACK, KEY + 4, 5);
        Some(())
    }

    /// Calls a function of the table with the key, and the entry where it takes one.
    fn table_call(&self, a: &mut Assembler, function: i32) {
        a.map(1, self.table);
        a.register(Arithmetic::Move, 2, STACK);
        a.value(Arithmetic::Add, 2, i32::from(KEY));
        if function == UPDATE {
            a.register(Arithmetic::Move, 3, STACK);
            a.value(Arithmetic::Add, 3, i32::from(ENTRY));
            a.value(Arithmetic::Move, 4, 0);
        }
        a.call(function);
    }

    /// Adds one to a count of the program's own.
    fn count(&self, a: &mut Assembler, word: usize) {
        a.map_value(1, self.counts, (word * 8) as i32);
        a.value(Arithmetic::Move, 2, 1);
        a.add_to_memory(1, 0, 2);
    }

    /// Stores the entry at the key, and counts it where there is no room.
    fn update(&self, a: &mut Assembler, exit: Label) {
        self.table_call(a, UPDATE);
        a.jump_if(JumpCondition::Equal, 0, 0, exit);
        self.count(a, NO_ROOM);
    }

    fn now(&self, a: &mut Assembler) {
        a.call(CLOCK);
        a.register(Arithmetic::Move, NOW, 0);
    }

    /// Sectors of the event, to both words of the entry.
    fn sectors(&self, a: &mut Assembler) -> Option<()> {
        a.load(Width::Word, 1, CONTEXT, self.offset(self.layout.sectors?)?);
        a.store(Width::Word, STACK, ENTRY + 16, 1);
        a.store(Width::Word, STACK, ENTRY + 20, 1);
        Some(())
    }

    fn start(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        self.now(a);
        a.store(Width::Long, STACK, ENTRY, NOW);
        a.value(Arithmetic::Move, 1, 0);
        a.store(Width::Long, STACK, ENTRY + 8, 1);
        self.sectors(a)?;
        self.update(a, exit);
        Some(())
    }

    fn issue(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        let fresh = a.label();
        self.now(a);
        self.table_call(a, LOOK_UP);
        a.jump_if(JumpCondition::Equal, 0, 0, fresh);
        a.store(Width::Long, 0, 8, NOW);
        // it may have grown since its start
        a.load(Width::Word, 1, CONTEXT, self.offset(self.layout.sectors?)?);
        a.store(Width::Word, 0, 16, 1);
        a.store(Width::Word, 0, 20, 1);
        a.jump(exit);
        a.here(fresh);
        a.value(Arithmetic::Move, 1, 0);
        a.store(Width::Long, STACK, ENTRY, 1);
        a.store(Width::Long, STACK, ENTRY + 8, NOW);
        self.sectors(a)?;
        self.update(a, exit);
        Some(())
    }

    /// A request begins earlier on the device now: its entry moves.
    fn front_merge(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        let sectors = self.offset(self.layout.sectors?)?;
        a.load(Width::Long, 1, STACK, KEY + 8);
        a.load(Width::Word, 2, CONTEXT, sectors);
        a.register(Arithmetic::Add, 1, 2);
        a.store(Width::Long, STACK, KEY + 8, 1);
        self.table_call(a, LOOK_UP);
        a.jump_if(JumpCondition::Equal, 0, 0, exit);
        self.copy_entry(a);
        self.table_call(a, DELETE);
        a.load(Width::Long, 1, CONTEXT, self.offset(self.layout.sector)?);
        a.store(Width::Long, STACK, KEY + 8, 1);
        self.update(a, exit);
        Some(())
    }

    /// From the table (register 0) to the stack.
    fn copy_entry(&self, a: &mut Assembler) {
        for offset in [0, 8, 16] {
            a.load(Width::Long, 1, 0, offset);
            a.store(Width::Long, STACK, ENTRY + offset, 1);
        }
    }

    fn complete(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        let (found, whole) = (a.label(), a.label());
        self.now(a);
        self.table_call(a, LOOK_UP);
        a.jump_if(JumpCondition::NotEqual, 0, 0, found);
        self.count(a, WITHOUT_BEGINNING);
        a.jump(exit);
        a.here(found);
        self.copy_entry(a);
        self.table_call(a, DELETE);
        if self.layout.kind == BlockEventKind::Complete {
            // a part is done: the rest goes on from there
            a.load(Width::Word, 1, STACK, ENTRY + 16);
            a.load(Width::Word, 2, CONTEXT, self.offset(self.layout.sectors?)?);
            a.jump_if(JumpCondition::Equal, 2, 0, whole);
            a.jump_if_register(JumpCondition::AtLeast, 2, 1, whole);
            a.register(Arithmetic::Sub, 1, 2);
            a.store(Width::Word, STACK, ENTRY + 16, 1);
            a.load(Width::Long, 3, STACK, KEY + 8);
            a.register(Arithmetic::Add, 3, 2);
            a.store(Width::Long, STACK, KEY + 8, 3);
            self.update(a, exit);
            a.jump(exit);
        }
        a.here(whole);
        self.sums(a)?;
        self.step(a, BASE, 0)?;
        // a device without requests has no issue
        a.load(Width::Long, 1, STACK, ISSUE);
        a.jump_if(JumpCondition::Equal, 1, 0, exit);
        self.step(a, ISSUE, STEPS)?;
        Some(())
    }

    /// Sums of latencies, of times at the device, of bytes, errors, and the longest ones. Two requests
    /// that end in the same instant may overwrite each other's longest; the steps know better.
    fn sums(&self, a: &mut Assembler) -> Option<()> {
        let has_start = a.label();
        // what it is counted from: the start, or the issue where there is none
        a.load(Width::Long, 1, STACK, ENTRY);
        a.load(Width::Long, 2, STACK, ENTRY + 8);
        a.store(Width::Long, STACK, ISSUE, 2);
        a.jump_if(JumpCondition::NotEqual, 1, 0, has_start);
        a.register(Arithmetic::Move, 1, 2);
        a.here(has_start);
        a.store(Width::Long, STACK, BASE, 1);
        a.load(Width::Word, 1, STACK, ENTRY + 20);
        a.store(Width::Long, STACK, SECTORS, 1);
        a.value(Arithmetic::Mul, DEVICE, OPERATIONS as i32);
        a.register(Arithmetic::Add, DEVICE, OPERATION);
        a.map_value(3, self.counts, (SUMS * 8) as i32);
        a.register(Arithmetic::Move, 4, DEVICE);
        a.value(Arithmetic::Mul, 4, (SUM_WORDS * 8) as i32);
        a.register(Arithmetic::Add, 3, 4);
        for (from, word) in [(BASE, 0), (ISSUE, 1)] {
            let (none, shorter) = (a.label(), a.label());
            a.load(Width::Long, 1, STACK, from);
            a.jump_if(JumpCondition::Equal, 1, 0, none);
            a.register(Arithmetic::Move, 2, NOW);
            a.jump_if_register(JumpCondition::Greater, 1, 2, none);
            a.register(Arithmetic::Sub, 2, 1);
            a.add_to_memory(3, word * 8, 2);
            a.load(Width::Long, 1, 3, 16 + word * 8);
            a.jump_if_register(JumpCondition::AtLeast, 1, 2, shorter);
            a.store(Width::Long, 3, 16 + word * 8, 2);
            a.here(shorter);
            a.here(none);
        }
        a.load(Width::Long, 1, STACK, SECTORS);
        a.value(Arithmetic::ShiftLeft, 1, 9);
        a.add_to_memory(3, 32, 1);
        if let Some(error) = self.layout.error {
            let fine = a.label();
            a.load(Width::Word, 1, CONTEXT, self.offset(error)?);
            a.jump_if(JumpCondition::Equal, 1, 0, fine);
            a.value(Arithmetic::Move, 1, 1);
            a.add_to_memory(3, 40, 1);
            a.here(fine);
        }
        Some(())
    }

    /// Counts the time from what is on the stack until now in its step; as [`crate::latency::step_of`].
    fn step(&self, a: &mut Assembler, from: i16, behind: usize) -> Option<()> {
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
        a.value(Arithmetic::Move, 5, STEPS as i32 - 1);
        a.jump_if(JumpCondition::AtLeast, 3, LAST_BITS as i32, short);
        a.register(Arithmetic::Move, 5, 3);
        a.value(Arithmetic::Add, 3, -(STEP_BITS as i32));
        // a shift by more than 63 is refused, and the verifier does not know of the octaves
        a.value(Arithmetic::And, 3, 63);
        a.register(Arithmetic::ShiftRight, 2, 3);
        a.value(Arithmetic::And, 2, (1 << STEP_BITS) - 1);
        a.value(Arithmetic::Add, 5, -(FIRST_BITS as i32));
        a.value(Arithmetic::ShiftLeft, 5, STEP_BITS as i32);
        a.register(Arithmetic::Add, 5, 2);
        a.value(Arithmetic::Add, 5, 1);
        a.here(short);
        a.jump_if(JumpCondition::Below, 5, STEPS as i32, bounded);
        a.value(Arithmetic::Move, 5, STEPS as i32 - 1);
        a.here(bounded);
        a.register(Arithmetic::Move, 1, DEVICE);
        a.value(Arithmetic::Mul, 1, (2 * STEPS * 8) as i32);
        a.value(Arithmetic::Mul, 5, 8);
        a.register(Arithmetic::Add, 1, 5);
        let steps = (steps_from(self.positions) + behind) * 8;
        a.map_value(2, self.counts, i32::try_from(steps).ok()?);
        a.register(Arithmetic::Add, 2, 1);
        a.value(Arithmetic::Move, 1, 1);
        a.add_to_memory(2, 0, 1);
        Some(())
    }
}
