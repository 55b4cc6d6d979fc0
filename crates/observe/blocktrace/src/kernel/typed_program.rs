//! The programs at typed tracepoints, for kernels that describe their types: they read the request itself. The kernel
//! keeps the start time in each request, so a program at its end suffices for the latency, without a table. A second
//! program keeps the issue times of requests, by their addresses, for the time at the device.

use super::assembler::{Arithmetic, Assembler, JumpCondition, Label, STACK, Width};
use super::count_map::{
    CONTEXT, CountWords, ENTRY, ENTRY_ISSUE, ENTRY_SECTORS, KEY, NO_ROOM, NOW, OPERATION, WITHOUT_BEGINNING,
    field_offset,
};
use super::event_program::{DELETE, LOOK_UP, UPDATE};
use super::kernel_types::RequestFields;
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
const ERROR_ARGUMENT: i16 = 8;
const BYTES_ARGUMENT: i16 = 16;

impl TypedPlan<'_> {
    /// Generates the program at the end of requests; `None` if fields are too far apart.
    pub(super) fn completion_program(&self) -> Option<Vec<[u8; 8]>> {
        let mut a = Assembler::default();
        let (exit, is_complete, started, no_issue) = (a.new_label(), a.new_label(), a.new_label(), a.new_label());
        self.emit_device_filter(&mut a, 0, exit)?;
        // a write whose data completed before its flush completes a second time, without bytes: not counted
        a.load(Width::Long, 4, CONTEXT, BYTES_ARGUMENT);
        let is_counted = a.new_label();
        a.jump_if(JumpCondition::Equal, OPERATION, TracedOperation::Flush as i32, is_counted);
        a.jump_if(JumpCondition::Equal, 4, 0, exit);
        a.place_label(is_counted);
        a.load(Width::Long, 1, CONTEXT, 0);
        a.load(Width::Word, 2, 1, field_offset(self.fields.length)?);
        a.jump_if_register(JumpCondition::AtLeast, 4, 2, is_complete);
        // a part has completed: its bytes are passed in NOW
        a.op_register(Arithmetic::Move, NOW, 4);
        self.words.emit_part(&mut a)?;
        a.jump(exit);
        a.place_label(is_complete);
        a.load(Width::Long, 3, 1, field_offset(self.fields.start)?);
        a.jump_if(JumpCondition::NotEqual, 3, 0, started);
        self.words.emit_count(&mut a, WITHOUT_BEGINNING);
        a.jump(exit);
        a.place_label(started);
        a.store(Width::Long, STACK, ENTRY, 3);
        a.op_immediate(Arithmetic::ShiftRight, 4, 9);
        a.store(Width::Word, STACK, ENTRY_SECTORS, 4);
        a.op_immediate(Arithmetic::Move, 2, 0);
        a.store(Width::Long, STACK, ENTRY_ISSUE, 2);
        self.words.emit_now(&mut a);
        if let Some(table) = self.table {
            self.emit_key_arguments(&mut a, 0, table);
            a.call(LOOK_UP);
            a.jump_if(JumpCondition::Equal, 0, 0, no_issue);
            a.load(Width::Long, 2, 0, 0);
            a.store(Width::Long, STACK, ENTRY_ISSUE, 2);
            self.emit_key_arguments(&mut a, 0, table);
            a.call(DELETE);
        }
        a.place_label(no_issue);
        self.words.emit_request(&mut a, Some(ERROR_ARGUMENT))?;
        a.place_label(exit);
        a.exit();
        a.into_code()
    }

    /// Generates the program at the issue; `None` without a table.
    pub(super) fn issue_program(&self) -> Option<Vec<[u8; 8]>> {
        let mut a = Assembler::default();
        let exit = a.new_label();
        let request = i16::try_from(self.fields.issue_argument * 8).ok()?;
        self.emit_device_filter(&mut a, request, exit)?;
        self.words.emit_now(&mut a);
        a.store(Width::Long, STACK, ENTRY, NOW);
        self.emit_key_arguments(&mut a, request, self.table?);
        a.op_register(Arithmetic::Move, 3, STACK);
        a.op_immediate(Arithmetic::Add, 3, i32::from(ENTRY));
        a.op_immediate(Arithmetic::Move, 4, 0);
        a.call(UPDATE);
        a.jump_if(JumpCondition::Equal, 0, 0, exit);
        self.words.emit_count(&mut a, NO_ROOM);
        a.place_label(exit);
        a.exit();
        a.into_code()
    }

    /// Emits code that loads the first two arguments of a function of the table: the table, and the request's address
    /// as key.
    fn emit_key_arguments(&self, a: &mut Assembler, request: i16, table: i32) {
        a.load(Width::Long, 1, CONTEXT, request);
        a.store(Width::Long, STACK, KEY, 1);
        a.load_map(1, table);
        a.op_register(Arithmetic::Move, 2, STACK);
        a.op_immediate(Arithmetic::Add, 2, i32::from(KEY));
    }

    /// Emits code that exits unless device, sector and operation are counted, and sets device and operation.
    fn emit_device_filter(&self, a: &mut Assembler, request: i16, exit: Label) -> Option<()> {
        let fields = self.fields;
        a.op_register(Arithmetic::Move, CONTEXT, 1);
        a.load(Width::Long, 1, CONTEXT, request);
        // a field of no structure reads as zero
        a.load(Width::Long, 2, 1, field_offset(fields.queue)?);
        a.load(Width::Long, 2, 2, field_offset(fields.disk)?);
        a.load(Width::Word, 3, 2, field_offset(fields.major)?);
        a.load(Width::Word, 4, 2, field_offset(fields.first_minor)?);
        a.op_immediate(Arithmetic::ShiftLeft, 3, 20);
        a.op_register(Arithmetic::Add, 3, 4);
        self.words.emit_device_lookup(a, 3, self.devices, exit)?;
        self.emit_operation_filter(a, exit)
    }

    /// Emits code that sets the operation by the code and flags of the request in register 1, as the letters of an
    /// event would; exits if the operation or the sector is not counted.
    fn emit_operation_filter(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        use TracedOperation::{Discard, Flush, Read, SyncWrite, Write};
        let fields = self.fields;
        let number = |value: u32| i32::try_from(value).ok();
        let (has_operation, is_counted) = (a.new_label(), a.new_label());
        a.load(Width::Word, 4, 1, field_offset(fields.flags)?);
        a.op_register(Arithmetic::Move, 5, 4);
        a.op_immediate(Arithmetic::And, 5, number(fields.operation_mask)?);
        let [discard, erase] = fields.discards;
        for (code, operation) in [(fields.read, Read), (discard, Discard), (erase, Discard), (fields.flush, Flush)] {
            let next = a.new_label();
            a.jump_if(JumpCondition::NotEqual, 5, number(code)?, next);
            a.op_immediate(Arithmetic::Move, OPERATION, operation as i32);
            // a flush has no sector and is always counted
            a.jump(if operation == Flush { is_counted } else { has_operation });
            a.place_label(next);
        }
        a.jump_if(JumpCondition::NotEqual, 5, number(fields.write)?, exit);
        a.op_immediate(Arithmetic::Move, OPERATION, SyncWrite as i32);
        a.jump_if(JumpCondition::AnyBit, 4, number(fields.sync)?, has_operation);
        a.op_immediate(Arithmetic::Move, OPERATION, Write as i32);
        a.place_label(has_operation);
        if self.mask > 0 {
            a.load(Width::Long, 3, 1, field_offset(fields.sector)?);
            a.jump_if(JumpCondition::AnyBit, 3, number(u32::try_from(self.mask).ok()?)?, exit);
        }
        a.place_label(is_counted);
        Some(())
    }
}
