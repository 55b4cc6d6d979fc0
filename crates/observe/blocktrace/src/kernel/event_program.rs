//! The programs that count requests in the kernel, generated for this kernel's events.
//!
//! There is one program per event. Beginnings go to a table (a hash map) by device, class of operation and sector;
//! completions remove and count them (`count_map.rs`).

use super::assembler::{Arithmetic, Assembler, JumpCondition, Label, STACK, Width};
use super::count_map::{
    CONTEXT, CountWords, DEVICE, ENTRY, ENTRY_ISSUE, ENTRY_LEFT, ENTRY_SECTORS, KEY, KEY_CLASS, KEY_SECTOR, NO_ROOM,
    NOW, OPERATION, WITHOUT_BEGINNING, field_offset,
};
use crate::event::{BlockEventKind, TracedOperation};
use crate::layout::EventLayout;

/// Sizes of a key and of an entry of the table.
pub(super) const KEY_BYTES: u32 = 16;
pub(super) const ENTRY_BYTES: u32 = 24;

/// Input of the code generation of a program.
#[derive(Clone, Debug)]
pub(super) struct ProgramPlan<'a> {
    pub(super) layout: &'a EventLayout,
    /// Numbers of devices (partitions too) and their positions.
    pub(super) devices: &'a [(u32, u32)],
    /// Bits of a sector that are zero if it is in the sample.
    pub(super) mask: u64,
    /// Descriptor of the table.
    pub(super) table: i32,
    /// Layout of the counts.
    pub(super) words: CountWords,
}

// functions of the kernel (include/uapi/linux/bpf.h)
pub(super) const LOOK_UP: i32 = 1;
pub(super) const UPDATE: i32 = 2;
pub(super) const DELETE: i32 = 3;

impl ProgramPlan<'_> {
    /// Generates the program; `None` if the event's fields are too far apart, or no program
    /// runs at this event.
    pub(super) fn assemble(&self) -> Option<Vec<[u8; 8]>> {
        let mut a = Assembler::default();
        let exit = a.new_label();
        self.emit_filter(&mut a, exit)?;
        match self.layout.kind {
            BlockEventKind::Start | BlockEventKind::GetRequest | BlockEventKind::Queue => {
                self.emit_start(&mut a, exit)?
            }
            BlockEventKind::Issue => self.emit_issue(&mut a, exit)?,
            BlockEventKind::Complete | BlockEventKind::BioComplete => self.emit_complete(&mut a, exit)?,
            BlockEventKind::FrontMerge => self.emit_front_merge(&mut a, exit)?,
            BlockEventKind::RequestMerge => self.emit_table_call(&mut a, DELETE),
            _ => return None,
        }
        a.place_label(exit);
        a.exit();
        a.into_code()
    }

    /// Emits code that exits unless device, sector and operation are counted, and sets device, operation and key.
    fn emit_filter(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        a.op_register(Arithmetic::Move, CONTEXT, 1);
        a.load(Width::Word, 1, CONTEXT, field_offset(self.layout.device)?);
        self.words.emit_device_lookup(a, 1, self.devices, exit)?;
        a.load(Width::Long, 3, CONTEXT, field_offset(self.layout.sector)?);
        a.load(Width::Word, 4, CONTEXT, field_offset(self.layout.sectors?)?);
        self.emit_operation(a, exit)?;
        if self.mask > 0 {
            a.jump_if(JumpCondition::AnyBit, 3, i32::try_from(self.mask).ok()?, exit);
        }
        a.store(Width::Word, STACK, KEY, DEVICE);
        a.store(Width::Long, STACK, KEY_SECTOR, 3);
        Some(())
    }

    /// Emits code that sets the operation and the class by the letters, and the sector (register 3) of a flush to 0.
    /// A caller's flush is not counted here: its end has other letters and no sector.
    fn emit_operation(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        use TracedOperation::{Discard, Flush, Read, SyncWrite, Write};
        let letters = field_offset(self.layout.letters.offset)?;
        let (plain, write, sync, set) = (a.new_label(), a.new_label(), a.new_label(), a.new_label());
        let emit_operation = |a: &mut Assembler, operation: TracedOperation| {
            a.op_immediate(Arithmetic::Move, 5, i32::from(operation.pairing_class()));
            a.op_immediate(Arithmetic::Move, OPERATION, operation as i32);
            a.jump(set);
        };
        let emit_if_letter = |a: &mut Assembler, letter: u8, operation: TracedOperation| {
            let next = a.new_label();
            a.jump_if(JumpCondition::NotEqual, 1, i32::from(letter), next);
            emit_operation(a, operation);
            a.place_label(next);
        };
        a.load(Width::Byte, 1, CONTEXT, letters);
        a.jump_if(JumpCondition::NotEqual, 1, i32::from(b'F'), plain);
        a.load(Width::Byte, 1, CONTEXT, letters + 1);
        a.jump_if(JumpCondition::Equal, 1, i32::from(b'W'), sync);
        let no_flush = a.new_label();
        a.jump_if(JumpCondition::NotEqual, 1, i32::from(b'F'), no_flush);
        a.op_immediate(Arithmetic::Move, 3, 0);
        emit_operation(a, Flush);
        a.place_label(no_flush);
        a.jump(exit);
        a.place_label(plain);
        emit_if_letter(a, b'R', Read);
        emit_if_letter(a, b'D', Discard);
        a.jump_if(JumpCondition::NotEqual, 1, i32::from(b'W'), exit);
        // bytes after the zero are left over from another event
        for position in 1..4 {
            a.load(Width::Byte, 1, CONTEXT, letters + position);
            a.jump_if(JumpCondition::Equal, 1, 0, write);
            a.jump_if(JumpCondition::Equal, 1, i32::from(b'S'), sync);
            a.jump_if(JumpCondition::Equal, 1, i32::from(b'F'), sync);
        }
        a.place_label(write);
        a.jump_if(JumpCondition::Equal, 4, 0, exit);
        emit_operation(a, Write);
        a.place_label(sync);
        a.jump_if(JumpCondition::Equal, 4, 0, exit);
        emit_operation(a, SyncWrite);
        a.place_label(set);
        a.store(Width::Word, STACK, KEY_CLASS, 5);
        Some(())
    }

    /// Emits a call of a function of the table with the key, and with the entry for [`UPDATE`].
    fn emit_table_call(&self, a: &mut Assembler, function: i32) {
        a.load_map(1, self.table);
        a.op_register(Arithmetic::Move, 2, STACK);
        a.op_immediate(Arithmetic::Add, 2, i32::from(KEY));
        if function == UPDATE {
            a.op_register(Arithmetic::Move, 3, STACK);
            a.op_immediate(Arithmetic::Add, 3, i32::from(ENTRY));
            a.op_immediate(Arithmetic::Move, 4, 0);
        }
        a.call(function);
    }

    /// Emits code that stores the entry at the key, and counts a failure if the table is full.
    fn emit_update(&self, a: &mut Assembler, exit: Label) {
        self.emit_table_call(a, UPDATE);
        a.jump_if(JumpCondition::Equal, 0, 0, exit);
        self.words.emit_count(a, NO_ROOM);
    }

    /// Emits code that copies the event's sectors to both words of the entry.
    fn emit_sectors(&self, a: &mut Assembler) -> Option<()> {
        a.load(Width::Word, 1, CONTEXT, field_offset(self.layout.sectors?)?);
        a.store(Width::Word, STACK, ENTRY_LEFT, 1);
        a.store(Width::Word, STACK, ENTRY_SECTORS, 1);
        Some(())
    }

    fn emit_start(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        self.words.emit_now(a);
        a.store(Width::Long, STACK, ENTRY, NOW);
        a.op_immediate(Arithmetic::Move, 1, 0);
        a.store(Width::Long, STACK, ENTRY_ISSUE, 1);
        self.emit_sectors(a)?;
        self.emit_update(a, exit);
        Some(())
    }

    fn emit_issue(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        let fresh = a.new_label();
        self.words.emit_now(a);
        self.emit_table_call(a, LOOK_UP);
        a.jump_if(JumpCondition::Equal, 0, 0, fresh);
        a.store(Width::Long, 0, ENTRY_ISSUE - ENTRY, NOW);
        // the request may have grown since its start
        a.load(Width::Word, 1, CONTEXT, field_offset(self.layout.sectors?)?);
        a.store(Width::Word, 0, ENTRY_LEFT - ENTRY, 1);
        a.store(Width::Word, 0, ENTRY_SECTORS - ENTRY, 1);
        a.jump(exit);
        a.place_label(fresh);
        a.op_immediate(Arithmetic::Move, 1, 0);
        a.store(Width::Long, STACK, ENTRY, 1);
        a.store(Width::Long, STACK, ENTRY_ISSUE, NOW);
        self.emit_sectors(a)?;
        self.emit_update(a, exit);
        Some(())
    }

    /// Emits the handling of a front merge: the request now begins at an earlier sector, so its entry moves.
    fn emit_front_merge(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        let sectors = field_offset(self.layout.sectors?)?;
        a.load(Width::Long, 1, STACK, KEY_SECTOR);
        a.load(Width::Word, 2, CONTEXT, sectors);
        a.op_register(Arithmetic::Add, 1, 2);
        a.store(Width::Long, STACK, KEY_SECTOR, 1);
        self.emit_table_call(a, LOOK_UP);
        a.jump_if(JumpCondition::Equal, 0, 0, exit);
        self.emit_copy_entry(a);
        self.emit_table_call(a, DELETE);
        a.load(Width::Long, 1, CONTEXT, field_offset(self.layout.sector)?);
        a.store(Width::Long, STACK, KEY_SECTOR, 1);
        self.emit_update(a, exit);
        Some(())
    }

    /// Emits the copy of the entry from the table (register 0) to the stack.
    fn emit_copy_entry(&self, a: &mut Assembler) {
        for offset in [0, 8, 16] {
            a.load(Width::Long, 1, 0, offset);
            a.store(Width::Long, STACK, ENTRY + offset, 1);
        }
    }

    /// Emits code for a completion: removes the entry and counts the request, or puts the entry back for the part that
    /// has not completed.
    fn emit_complete(&self, a: &mut Assembler, exit: Label) -> Option<()> {
        let (found, is_complete) = (a.new_label(), a.new_label());
        self.words.emit_now(a);
        self.emit_table_call(a, LOOK_UP);
        a.jump_if(JumpCondition::NotEqual, 0, 0, found);
        self.words.emit_count(a, WITHOUT_BEGINNING);
        a.jump(exit);
        a.place_label(found);
        self.emit_copy_entry(a);
        self.emit_table_call(a, DELETE);
        if self.layout.kind == BlockEventKind::Complete {
            // a part has completed: the remaining sectors follow it
            a.load(Width::Word, 1, STACK, ENTRY_LEFT);
            a.load(Width::Word, 2, CONTEXT, field_offset(self.layout.sectors?)?);
            a.jump_if(JumpCondition::Equal, 2, 0, is_complete);
            a.jump_if_register(JumpCondition::AtLeast, 2, 1, is_complete);
            a.op_register(Arithmetic::Sub, 1, 2);
            a.store(Width::Word, STACK, ENTRY_LEFT, 1);
            a.load(Width::Long, 3, STACK, KEY_SECTOR);
            a.op_register(Arithmetic::Add, 3, 2);
            a.store(Width::Long, STACK, KEY_SECTOR, 3);
            self.emit_update(a, exit);
            a.jump(exit);
        }
        a.place_label(is_complete);
        let error = match self.layout.error {
            Some(error) => Some(field_offset(error)?),
            None => None,
        };
        self.words.emit_request(a, error)
    }
}
