//! The programs at typed tracepoints, which read the request itself, where the kernel describes its types. The kernel
//! keeps the start time in each request, so that its end alone gives its latency, without a table. A second program
//! keeps the issue times of requests, by their addresses, for the time at the device.

use super::assembler::{Arithmetic, Assembler, JumpCondition, Label, STACK, Width};
use super::counting::{CONTEXT, CountWords, ENTRY, KEY, NO_ROOM, NOW, OPERATION, WITHOUT_BEGINNING, field_offset};
use super::program::{DELETE, LOOK_UP, UPDATE};
use super::types::RequestFields;
use crate::event::TracedOperation;

/// Sizes of a key and of an entry of the table: a request's address, and its issue time.
pub(super) const TYPED_KEY_BYTES: u32 = 8;
pub(super) const TYPED_ENTRY_BYTES: u32 = 8;

/// Input of the code generation of a program.
#[derive(Clone, Debug)]
pub(super) struct TypedPlan<'a> {
    pub fields: &'a RequestFields,
    /// Numbers of disks and their positions.
    pub devices: &'a [(u32, u32)],
    /// Bits of a sector that are zero if it is in the sample.
    pub mask: u64,
    /// Descriptor of the table, if a program at the issue keeps times in it.
    pub table: Option<i32>,
    /// Layout of the counts.
    pub words: CountWords,
}

/// Offsets of the arguments of `block_rq_complete`: request (0), error, bytes.
const ERROR: i16 = 8;
const BYTES: i16 = 16;

impl TypedPlan<'_> {
    /// Generates the program at the end of requests; `None` where fields are too far apart.
    pub(super) fn complete(&self) -> Option<Vec<[u8; 8]>> {
        let mut a = Assembler::default();
        let (exit, whole, started, bare) = (a.label(), a.label(), a.label(), a.label());
        self.begin(&mut a, 0, exit)?;
        // the second completion of a write whose data completed before its flush
        a.load(Width::Long, 4, CONTEXT, BYTES);
        let has_data = a.label();
        a.jump_if(JumpCondition::Equal, OPERATION, TracedOperation::Flush as i32, has_data);
        a.jump_if(JumpCondition::Equal, 4, 0, exit);
        a.here(has_data);
        a.load(Width::Long, 1, CONTEXT, 0);
        a.load(Width::Word, 2, 1, field_offset(self.fields.length)?);
        a.jump_if_register(JumpCondition::AtLeast, 4, 2, whole);
        // a part has completed
        a.register(Arithmetic::Move, NOW, 4);
        self.words.part(&mut a)?;
        a.jump(exit);
        a.here(whole);
        a.load(Width::Long, 3, 1, field_offset(self.fields.start)?);
        a.jump_if(JumpCondition::NotEqual, 3, 0, started);
        self.words.count(&mut a, WITHOUT_BEGINNING);
        a.jump(exit);
        a.here(started);
        a.store(Width::Long, STACK, ENTRY, 3);
        a.value(Arithmetic::ShiftRight, 4, 9);
        a.store(Width::Word, STACK, ENTRY + 20, 4);
        a.value(Arithmetic::Move, 2, 0);
        a.store(Width::Long, STACK, ENTRY + 8, 2);
        self.words.now(&mut a);
        if let Some(table) = self.table {
            self.key(&mut a, 0, table);
            a.call(LOOK_UP);
            a.jump_if(JumpCondition::Equal, 0, 0, bare);
            a.load(Width::Long, 2, 0, 0);
            a.store(Width::Long, STACK, ENTRY + 8, 2);
            self.key(&mut a, 0, table);
            a.call(DELETE);
        }
        a.here(bare);
        self.words.request(&mut a, Some(ERROR))?;
        a.here(exit);
        a.exit();
        a.finish()
    }

    /// Generates the program at the issue; `None` without a table.
    pub(super) fn issue(&self) -> Option<Vec<[u8; 8]>> {
        let mut a = Assembler::default();
        let exit = a.label();
        let request = i16::try_from(self.fields.issue_argument * 8).ok()?;
        self.begin(&mut a, request, exit)?;
        self.words.now(&mut a);
        a.store(Width::Long, STACK, ENTRY, NOW);
        self.key(&mut a, request, self.table?);
        a.register(Arithmetic::Move, 3, STACK);
        a.value(Arithmetic::Add, 3, i32::from(ENTRY));
        a.value(Arithmetic::Move, 4, 0);
        a.call(UPDATE);
        a.jump_if(JumpCondition::Equal, 0, 0, exit);
        self.words.count(&mut a, NO_ROOM);
        a.here(exit);
        a.exit();
        a.finish()
    }

    /// Emits the table and the request's address as key, as a function's first arguments.
    fn key(&self, a: &mut Assembler, request: i16, table: i32) {
        a.load(Width::Long, 1, CONTEXT, request);
        a.store(Width::Long, STACK, KEY, 1);
        a.map(1, table);
        a.register(Arithmetic::Move, 2, STACK);
        a.value(Arithmetic::Add, 2, i32::from(KEY));
    }

    /// Emits an exit unless device, sector and operation are counted; else sets device and operation.
    fn begin(&self, a: &mut Assembler, request: i16, exit: Label) -> Option<()> {
        let fields = self.fields;
        a.register(Arithmetic::Move, CONTEXT, 1);
        a.load(Width::Long, 1, CONTEXT, request);
        // a field of no structure reads as zero
        a.load(Width::Long, 2, 1, field_offset(fields.queue)?);
        a.load(Width::Long, 2, 2, field_offset(fields.disk)?);
        a.load(Width::Word, 3, 2, field_offset(fields.major)?);
        a.load(Width::Word, 4, 2, field_offset(fields.first_minor)?);
        a.value(Arithmetic::ShiftLeft, 3, 20);
        a.register(Arithmetic::Add, 3, 4);
        self.words.device(a, 3, self.devices, exit)?;
        self.operation(a, exit)
    }

    /// Sets the operation by code and flags of the request in register 1, as the letters of an event do.
    fn operation(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        use TracedOperation::{Discard, Flush, Read, SyncWrite, Write};
        let fields = self.fields;
        let number = |value: u32| i32::try_from(value).ok();
        let (placed, set) = (a.label(), a.label());
        a.load(Width::Word, 4, 1, field_offset(fields.flags)?);
        a.register(Arithmetic::Move, 5, 4);
        a.value(Arithmetic::And, 5, number(fields.operation_mask)?);
        let [discard, erase] = fields.discards;
        for (code, operation) in [(fields.read, Read), (discard, Discard), (erase, Discard), (fields.flush, Flush)] {
            let next = a.label();
            a.jump_if(JumpCondition::NotEqual, 5, number(code)?, next);
            a.value(Arithmetic::Move, OPERATION, operation as i32);
            // a flush has no sector and is always counted
            a.jump(if operation == Flush { set } else { placed });
            a.here(next);
        }
        a.jump_if(JumpCondition::NotEqual, 5, number(fields.write)?, exit);
        a.value(Arithmetic::Move, OPERATION, SyncWrite as i32);
        a.jump_if(JumpCondition::AnyBit, 4, number(fields.sync)?, placed);
        a.value(Arithmetic::Move, OPERATION, Write as i32);
        a.here(placed);
        if self.mask > 0 {
            a.load(Width::Long, 3, 1, field_offset(fields.sector)?);
            a.jump_if(JumpCondition::AnyBit, 3, number(u32::try_from(self.mask).ok()?)?, exit);
        }
        a.here(set);
        Some(())
    }
}
