//! Assembler of the kernel's virtual machine (Documentation/bpf/standardization/instruction-set.rst):
//! the kinds of instructions that the programs need, with labels for jumps.

/// A register: 0 holds results, 1 to 5 arguments, which calls overwrite, 6 to 9 are preserved, 10 is the stack pointer.
pub(super) type Register = u8;

/// Register with the end of the stack.
pub(super) const STACK: Register = 10;

/// A target of jumps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Widths of accesses to memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    Byte,
    Word,
    Long,
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Arithmetic {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// Condition of a jump; comparisons are unsigned, of 64 bits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum JumpCondition {
    Equal = 0x10,
    Greater = 0x20,
    AtLeast = 0x30,
    AnyBit = 0x40,
    NotEqual = 0x50,
    Below = 0xa0,
}

/// A program being written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<[u8; 8]>,
    /// Index of the instruction at each label, once it is placed.
    labels: Vec<Option<usize>>,
    /// Indices of the jumps, and their targets.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn emit_instruction(&mut self, opcode: u8, to: Register, from: Register, offset: i16, value: i32) {
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        let (offset, value) = (offset.to_ne_bytes(), value.to_ne_bytes());
        self.code.push([opcode, registers, offset[0], offset[1], value[0], value[1], value[2], value[3]]);
    }

    /// Creates a label that is not placed yet.
    pub(super) fn new_label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label at the next instruction.
    pub(super) fn place_label(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = to op value`.
    pub(super) fn op_immediate(&mut self, op: Arithmetic, to: Register, value: i32) {
        self.emit_instruction(0x07 | op as u8, to, 0, 0, value);
    }

    /// `to = to op from`.
    pub(super) fn op_register(&mut self, op: Arithmetic, to: Register, from: Register) {
        self.emit_instruction(0x0f | op as u8, to, from, 0, 0);
    }

    /// `to = memory[from + offset]`.
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        let opcode = match width {
            Width::Byte => 0x71,
            Width::Word => 0x61,
            Width::Long => 0x79,
        };
        self.emit_instruction(opcode, to, from, offset, 0);
    }

    /// `memory[to + offset] = from`.
    pub(super) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        let opcode = match width {
            Width::Byte => 0x73,
            Width::Word => 0x63,
            Width::Long => 0x7b,
        };
        self.emit_instruction(opcode, to, from, offset, 0);
    }

    /// `memory[to + offset] += from`, atomically, 64 bits.
    pub(super) fn add_to_memory(&mut self, to: Register, offset: i16, from: Register) {
        self.emit_instruction(0xdb, to, from, offset, 0);
    }

    /// `to =` the map of this file descriptor.
    pub(super) fn load_map(&mut self, to: Register, descriptor: i32) {
        self.emit_instruction(0x18, to, 1, 0, descriptor);
        self.emit_instruction(0, 0, 0, 0, 0);
    }

    /// `to =` the address of a byte of the only value of this map.
    pub(super) fn load_map_value(&mut self, to: Register, descriptor: i32, byte: i32) {
        self.emit_instruction(0x18, to, 2, 0, descriptor);
        self.emit_instruction(0, 0, 0, 0, byte);
    }

    /// Jumps if a register and a value satisfy the condition.
    pub(super) fn jump_if(&mut self, condition: JumpCondition, register: Register, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit_instruction(0x05 | condition as u8, register, 0, 0, value);
    }

    /// Jumps if the lower 32 bits of a register and a value satisfy the condition.
    pub(super) fn jump_if_word(&mut self, condition: JumpCondition, register: Register, value: u32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit_instruction(0x06 | condition as u8, register, 0, 0, value as i32);
    }

    /// Jumps if two registers satisfy the condition.
    pub(super) fn jump_if_register(&mut self, condition: JumpCondition, left: Register, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit_instruction(0x0d | condition as u8, left, right, 0, 0);
    }

    /// Jumps unconditionally.
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit_instruction(0x05, 0, 0, 0, 0);
    }

    /// Calls a function of the kernel.
    pub(super) fn call(&mut self, function: i32) {
        self.emit_instruction(0x85, 0, 0, 0, function);
    }

    /// Ends the program with 0.
    pub(super) fn exit(&mut self) {
        self.op_immediate(Arithmetic::Move, 0, 0);
        self.emit_instruction(0x95, 0, 0, 0, 0);
    }

    /// Returns the program with its jumps resolved. `None` if a label is not placed, or too far away.
    pub(super) fn into_code(mut self) -> Option<Vec<[u8; 8]>> {
        for (index, label) in &self.jumps {
            let target = self.labels[label.0]?;
            let distance = i16::try_from(target as i64 - *index as i64 - 1).ok()?;
            self.code[*index][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As llvm-mc and the kernel's own tests write them.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_the_standard_says() {
        let mut a = Assembler::default();
        let end = a.new_label();
        a.op_immediate(Arithmetic::Move, 1, 2);
        a.op_register(Arithmetic::Add, 3, 4);
        a.load(Width::Word, 1, 6, 8);
        a.store(Width::Long, STACK, -8, 1);
        a.jump_if(JumpCondition::Equal, 1, 5, end);
        a.jump_if_word(JumpCondition::Equal, 1, 0x8000_0000, end);
        a.load_map(1, 9);
        a.load_map_value(2, 9, 16);
        a.add_to_memory(2, 8, 1);
        a.call(5);
        a.place_label(end);
        a.exit();
        let code = a.into_code().expect("whole");
        let expected: [[u8; 8]; 14] = [
            [0xb7, 0x01, 0, 0, 2, 0, 0, 0],
            [0x0f, 0x43, 0, 0, 0, 0, 0, 0],
            [0x61, 0x61, 8, 0, 0, 0, 0, 0],
            [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
            [0x15, 0x01, 7, 0, 5, 0, 0, 0],
            [0x16, 0x01, 6, 0, 0, 0, 0, 0x80],
            [0x18, 0x11, 0, 0, 9, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0x18, 0x22, 0, 0, 9, 0, 0, 0],
            [0, 0, 0, 0, 16, 0, 0, 0],
            [0xdb, 0x12, 8, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 5, 0, 0, 0],
            [0xb7, 0, 0, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(code, expected);
    }

    #[test]
    fn a_jump_to_an_unplaced_label_is_refused() {
        let mut a = Assembler::default();
        let nowhere = a.new_label();
        a.jump(nowhere);
        assert_eq!(a.into_code(), None);
    }
}
