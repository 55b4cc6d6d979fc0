//! The kernel's own description of its types (BTF, Documentation/bpf/btf.rst): offsets of a request's fields. Programs
//! at typed tracepoints read the fields directly, which costs less than an event's record and cannot be interrupted by
//! another event's program.

use std::fs;

/// File in which a running kernel describes its types.
const BTF_FILE: &str = "/sys/kernel/btf/vmlinux";
const BTF_MAGIC: u16 = 0xeb9f;

// kinds of types
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCTURE: u32 = 4;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const PROTOTYPE: u32 = 13;

/// All types, by number.
#[derive(Debug)]
pub(super) struct KernelTypes {
    bytes: Vec<u8>,
    /// Offset of each type; 0 is `void`.
    types: Vec<usize>,
    /// Offset of the strings.
    strings: usize,
}

/// Offsets of the fields of a request, bytes, and the codes of its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestFields {
    /// Types of the tracepoints `block_rq_complete` and `block_rq_issue`.
    pub complete: u32,
    pub issue: u32,
    /// Type of the tracepoint for calibration ([`crate::trace_cost::CALIBRATION_EVENT`]).
    pub rename: u32,
    /// Index of the argument of `block_rq_issue` that is the request; of `block_rq_complete` it is the first.
    pub issue_argument: usize,
    pub queue: usize,
    pub disk: usize,
    pub major: usize,
    pub first_minor: usize,
    pub flags: usize,
    pub sector: usize,
    pub length: usize,
    pub start: usize,
    pub operation_mask: u32,
    pub read: u32,
    pub write: u32,
    pub flush: u32,
    pub discards: [u32; 2],
    /// Flags of writes that a thread waits for.
    pub sync: u32,
}

impl KernelTypes {
    /// Reads the types of this kernel; `None` where it does not describe them.
    pub(super) fn read() -> Option<KernelTypes> {
        KernelTypes::parse(fs::read(BTF_FILE).ok()?)
    }

    /// Parses the contents of [`BTF_FILE`]; `None` if they have no BTF header.
    pub(super) fn parse(bytes: Vec<u8>) -> Option<KernelTypes> {
        let word = |offset: usize| read_u32(&bytes, offset);
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != BTF_MAGIC {
            return None;
        }
        // `struct btf_header`: hdr_len, type_off, type_len, str_off; the offsets count from the end of the header
        let header_bytes = word(4)? as usize;
        let (types_offset, length) = (word(8)? as usize, word(12)? as usize);
        let strings = header_bytes.checked_add(word(16)? as usize)?;
        let mut next = header_bytes.checked_add(types_offset)?;
        let end = next.checked_add(length)?.min(bytes.len());
        let mut types = vec![0];
        while next + 12 <= end {
            types.push(next);
            let info = word(next + 4)?;
            let members = (info & 0xffff) as usize;
            next += 12
                + match info >> 24 & 0x1f {
                    // integers, variables and tags have one more word
                    1 | 14 | 17 => 4,
                    ARRAY => 12,
                    // structures and unions, sections, enums of 64 bits
                    STRUCTURE | 5 | 15 | 19 => members * 12,
                    ENUM | PROTOTYPE => members * 8,
                    _ => 0,
                };
        }
        Some(KernelTypes { bytes, types, strings })
    }

    fn type_kind(&self, number: u32) -> Option<u32> {
        let offset = *self.types.get(number as usize).filter(|offset| **offset > 0)?;
        Some(read_u32(&self.bytes, offset + 4)? >> 24 & 0x1f)
    }

    /// Returns the type that a pointer, a typedef or a qualifier refers to.
    fn referenced_type(&self, number: u32) -> Option<u32> {
        read_u32(&self.bytes, self.types.get(number as usize)? + 8)
    }

    fn string_at(&self, offset: u32) -> Option<&[u8]> {
        let text = self.bytes.get(self.strings.checked_add(offset as usize)?..)?;
        text.split(|byte| *byte == 0).next()
    }

    /// Returns the numbers of the types of a kind and name.
    fn types_named(&self, kind: u32, name: &str) -> impl Iterator<Item = u32> {
        (1..self.types.len() as u32).filter(move |number| {
            self.type_kind(*number) == Some(kind)
                && read_u32(&self.bytes, self.types[*number as usize]).and_then(|text| self.string_at(text))
                    == Some(name.as_bytes())
        })
    }

    /// Returns the members of a type, each of 2 or 3 words; a missing third word is 0.
    fn type_members(&self, number: u32, words: usize) -> impl Iterator<Item = [u32; 3]> {
        let offset = self.types.get(number as usize).copied().filter(|offset| *offset > 0);
        let info = offset.and_then(|offset| read_u32(&self.bytes, offset + 4));
        let count = info.map_or(0, |info| info & 0xffff) as usize;
        (0..count).filter_map(move |index| {
            let begin = offset? + 12 + index * words * 4;
            let third = if words > 2 { read_u32(&self.bytes, begin + 8)? } else { 0 };
            Some([read_u32(&self.bytes, begin)?, read_u32(&self.bytes, begin + 4)?, third])
        })
    }

    /// Returns the offset of a field in a structure, bytes.
    fn find_field_offset(&self, structure: &str, field: &str) -> Option<usize> {
        self.types_named(STRUCTURE, structure).find_map(|number| {
            let is_field = |[name, ..]: &[u32; 3]| self.string_at(*name) == Some(field.as_bytes());
            let member = self.type_members(number, 3).find(is_field);
            // the upper byte is a bit field's width
            member.map(|[_, _, bits]| (bits & 0xff_ffff) as usize / 8)
        })
    }

    /// Returns the value of a name in an enum.
    fn find_enum_value(&self, enum_name: &str, name: &str) -> Option<u32> {
        self.types_named(ENUM, enum_name).find_map(|number| {
            let is_value = |[text, ..]: &[u32; 3]| self.string_at(*text) == Some(name.as_bytes());
            let member = self.type_members(number, 2).find(is_value);
            member.map(|[_, value, _]| value)
        })
    }

    /// Returns the index of the tracepoint's argument that points to a request.
    fn request_argument(&self, tracepoint: u32) -> Option<usize> {
        let prototype = self.referenced_type(self.referenced_type(tracepoint)?)?;
        if self.type_kind(prototype)? != PROTOTYPE {
            return None;
        }
        // the first argument is internal to the tracer
        self.type_members(prototype, 2).skip(1).position(|[_, argument, _]| {
            self.type_kind(argument) == Some(POINTER)
                && self
                    .referenced_type(argument)
                    .is_some_and(|pointee| self.types_named(STRUCTURE, "request").any(|number| number == pointee))
        })
    }

    /// Returns everything that a program needs; `None` where this kernel's requests have another layout (before 5.17).
    pub(super) fn request_fields(&self) -> Option<RequestFields> {
        let tracepoint = |name: &str| self.types_named(TYPEDEF, name).next();
        let (complete, issue) = (tracepoint("btf_trace_block_rq_complete")?, tracepoint("btf_trace_block_rq_issue")?);
        if self.request_argument(complete)? != 0 {
            return None;
        }
        let operation = |name: &str| self.find_enum_value("req_op", name);
        let flag = |name: &str| self.find_enum_value("req_flag_bits", name).and_then(|bit| 1u32.checked_shl(bit));
        let request = |name: &str| self.find_field_offset("request", name);
        Some(RequestFields {
            complete,
            issue,
            rename: tracepoint("btf_trace_task_rename")?,
            issue_argument: self.request_argument(issue)?,
            queue: request("q")?,
            disk: self.find_field_offset("request_queue", "disk")?,
            major: self.find_field_offset("gendisk", "major")?,
            first_minor: self.find_field_offset("gendisk", "first_minor")?,
            flags: request("cmd_flags")?,
            sector: request("__sector")?,
            length: request("__data_len")?,
            start: request("start_time_ns")?,
            // the first flag follows the operation's bits
            operation_mask: flag("__REQ_FAILFAST_DEV")? - 1,
            read: operation("REQ_OP_READ")?,
            write: operation("REQ_OP_WRITE")?,
            flush: operation("REQ_OP_FLUSH")?,
            discards: [operation("REQ_OP_DISCARD")?, operation("REQ_OP_SECURE_ERASE")?],
            sync: flag("__REQ_SYNC")? | flag("__REQ_FUA")? | flag("__REQ_PREFLUSH")?,
        })
    }
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's words and numbers of include/linux/blk_types.h: `REQ_OP_READ` 0, `WRITE` 1, `FLUSH` 2, `DISCARD` 3,
    /// `SECURE_ERASE` 5 and eight bits of operation, which no kernel has changed since 4.10.
    #[test]
    fn this_kernels_requests_are_found() {
        let Some(fields) = KernelTypes::read().and_then(|types| types.request_fields()) else {
            eprintln!("skipped: this kernel does not tell its types, or makes requests otherwise");
            return;
        };
        assert_eq!((fields.read, fields.write, fields.flush, fields.discards), (0, 1, 2, [3, 5]));
        assert_eq!((fields.operation_mask, fields.sync.count_ones()), (0xff, 3));
        assert_eq!(fields.sync & fields.operation_mask, 0);
        assert!(fields.complete != fields.issue && fields.issue_argument <= 1);
        let request = [fields.queue, fields.flags, fields.sector, fields.length, fields.start];
        assert!(request.iter().all(|bytes| *bytes < 1024), "{fields:?}");
        assert_eq!(fields.first_minor - fields.major, 4);
    }

    #[test]
    fn truncated_or_missing_types_give_no_program() {
        assert!(KernelTypes::parse(Vec::new()).is_none());
        assert!(KernelTypes::parse(b"no types at all, but long enough for a head".to_vec()).is_none());
        let Ok(all_types) = fs::read(BTF_FILE) else {
            eprintln!("skipped: this kernel does not tell its types");
            return;
        };
        for part in [1, 4, 8, 20, 24, 25, 40, 100, 1000, all_types.len() / 4, all_types.len() / 2] {
            let types = KernelTypes::parse(all_types[..part].to_vec());
            assert!(types.is_none_or(|types| types.request_fields().is_none()), "{part}");
        }
        // a head that lies
        let mut wild = all_types[..4096].to_vec();
        wild[8..24].fill(0xff);
        assert!(KernelTypes::parse(wild).is_none_or(|types| types.request_fields().is_none()));
    }
}
