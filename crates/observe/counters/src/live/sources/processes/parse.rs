//! The files of a process: `stat`, `io`, `cgroup`, `status`.

use crate::live::text_scan::{WordIter, parse_number, split_key_and_number, text_lines, trim_blanks};

/// Number of the field of `stat` that has the niceness.
const NICE_FIELD: usize = 19;

/// Fields of a process's `stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStat {
    /// Command name, unchanged.
    pub name: Vec<u8>,
    /// State letter; `D` is an uninterruptible wait.
    pub state: u8,
    /// Process id of its parent.
    pub parent: u32,
    /// Flags of the kernel; see [`ProcessStat::is_kernel_thread`].
    pub flags: u64,
    /// Major faults since the start.
    pub major_faults: u64,
    /// Processor time in user mode, hundredths of a second.
    pub user_ticks: u64,
    /// Processor time in system mode, hundredths of a second.
    pub system_ticks: u64,
    /// Niceness, -20 to 19; `None` where it cannot be read.
    pub nice: Option<i32>,
    /// Number of threads.
    pub threads: u64,
    /// Start, hundredths of a second after boot.
    pub start_ticks: u64,
    /// Resident memory, pages.
    pub resident_pages: u64,
    /// Real-time priority, 1 to 99; 0 for an ordinary thread, and for one with a deadline.
    pub realtime_priority: u64,
    /// Time spent waiting for block I/O, hundredths of a second; needs delay accounting.
    pub block_delay_ticks: u64,
}

impl ProcessStat {
    /// Returns true for a task of a real-time class, which runs before all ordinary ones.
    pub fn has_realtime_priority(&self) -> bool {
        (1..=99).contains(&self.realtime_priority)
    }

    /// Returns true for a kernel thread, which has no I/O account.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & 0x0020_0000 != 0
    }
}

/// Parses `stat`. The name is in parentheses and may contain any bytes, including parentheses and blanks, so the last
/// `)` ends it.
pub fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    let open = memchr::memchr(b'(', text)?;
    let close = memchr::memrchr(b')', text)?;
    let name = text.get(open + 1..close)?.to_vec();
    let mut words = WordIter::new(trim_blanks(&text[close + 1..]));
    let state = *words.next_word()?.first()?;
    // fields are numbered from 1, and the state is the third
    let mut fields = [0u64; 43];
    let mut nice = None;
    for (number, field) in fields.iter_mut().enumerate().skip(4) {
        let Some(word) = words.next_word() else { break };
        // some fields are negative; of those used here, one
        *field = parse_number(word).unwrap_or(0);
        if number == NICE_FIELD {
            nice = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        }
    }
    Some(ProcessStat {
        name,
        state,
        parent: u32::try_from(fields[4]).unwrap_or(0),
        flags: fields[9],
        major_faults: fields[12],
        user_ticks: fields[14],
        system_ticks: fields[15],
        nice,
        threads: fields[20],
        start_ticks: fields[22],
        resident_pages: fields[24],
        realtime_priority: fields[40],
        block_delay_ticks: fields[42],
    })
}

/// Fields of a process's `io`, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Bytes requested by read calls.
    pub requested_read: u64,
    /// Bytes passed to write calls.
    pub requested_write: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
    /// Bytes that were read from devices for the process.
    pub read_bytes: u64,
    /// Bytes of pages that the process dirtied.
    pub write_bytes: u64,
    /// Bytes of dirty pages discarded before they were written.
    pub cancelled_bytes: u64,
}

impl ProcessIo {
    fn as_fields(&self) -> [u64; 7] {
        [
            self.requested_read,
            self.requested_write,
            self.read_calls,
            self.write_calls,
            self.read_bytes,
            self.write_bytes,
            self.cancelled_bytes,
        ]
    }

    fn from_fields(fields: [u64; 7]) -> ProcessIo {
        let [requested_read, requested_write, read_calls, write_calls, read_bytes, write_bytes, cancelled_bytes] =
            fields;
        ProcessIo { requested_read, requested_write, read_calls, write_calls, read_bytes, write_bytes, cancelled_bytes }
    }

    /// Returns the sum, field by field.
    pub fn add_io(&self, other: &ProcessIo) -> ProcessIo {
        let mut sum = self.as_fields();
        sum.iter_mut().zip(other.as_fields()).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        ProcessIo::from_fields(sum)
    }

    /// Returns true if none of its fields is larger than the other's.
    pub fn is_within(&self, other: &ProcessIo) -> bool {
        self.as_fields().iter().zip(other.as_fields()).all(|(mine, theirs)| *mine <= theirs)
    }
}

/// Parses `io`; `None` where a number is missing.
pub fn parse_io(text: &[u8]) -> Option<ProcessIo> {
    let mut io = ProcessIo::default();
    let mut found = 0;
    for line in text_lines(text) {
        let Some((key, Some(value))) = split_key_and_number(line) else { continue };
        let field = match key {
            b"rchar" => &mut io.requested_read,
            b"wchar" => &mut io.requested_write,
            b"syscr" => &mut io.read_calls,
            b"syscw" => &mut io.write_calls,
            b"read_bytes" => &mut io.read_bytes,
            b"write_bytes" => &mut io.write_bytes,
            b"cancelled_write_bytes" => &mut io.cancelled_bytes,
            _ => continue,
        };
        *field = value;
        found += 1;
    }
    (found == 7).then_some(io)
}

/// Returns the control group that accounts a process's I/O: that of version 1's `blkio`, else that of its `memory`,
/// else that of version 2. A root group does not count; `/` if there is no other.
pub fn parse_cgroup(text: &[u8]) -> String {
    let (mut blkio, mut memory, mut unified) = (None, None, None);
    for line in text_lines(text) {
        let mut parts = line.splitn(3, |b| *b == b':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let has_controller = |name: &[u8]| controllers.split(|b| *b == b',').any(|c| c == name);
        let path = (path != b"/").then_some(path);
        if has_controller(b"blkio") {
            blkio = path;
        }
        if has_controller(b"memory") {
            memory = path;
        }
        if controllers.is_empty() {
            unified = path;
        }
    }
    String::from_utf8_lossy(blkio.or(memory).or(unified).unwrap_or(b"/")).into_owned()
}

/// Parses swapped-out memory from `status`, bytes.
pub fn parse_swapped_bytes(text: &[u8]) -> Option<u64> {
    text_lines(text).filter_map(split_key_and_number).find(|(key, _)| *key == b"VmSwap")?.1?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_any_bytes() {
        let text = b"77 (a) R (b) c) D 1 77 77 0 -1 4194304 100 0 12 0 30 40 0 0 20 0 4 0 555 1000 25 \
            18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 66 0 0\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat.name, b"a) R (b) c");
        assert_eq!((stat.state, stat.major_faults, stat.user_ticks, stat.system_ticks), (b'D', 12, 30, 40));
        assert_eq!((stat.threads, stat.start_ticks, stat.resident_pages, stat.block_delay_ticks), (4, 555, 25, 66));
        assert!(!stat.is_kernel_thread());
    }

    #[test]
    fn a_truncated_stat_is_rejected() {
        assert_eq!(parse_stat(b"77 (a"), None);
        assert_eq!(parse_stat(b"77 )a("), None);
        assert_eq!(parse_stat(b"77 (a)"), None);
        assert_eq!(parse_io(b"rchar: 1\nwchar: 2\n"), None);
    }

    #[test]
    fn io_and_cgroup_and_swap() {
        let read = parse_io(
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n",
        );
        assert_eq!(read.map(|i| (i.requested_read, i.read_bytes, i.cancelled_bytes)), Some((1, 5, 7)));
        assert_eq!(parse_cgroup(b"4:memory:/m\n7:blkio:/b\n0::/u\n"), "/b");
        assert_eq!(parse_cgroup(b"4:memory:/m\n7:blkio:/\n0::/u\n"), "/m");
        assert_eq!(parse_cgroup(b"0::/u:v\n"), "/u:v");
        assert_eq!(parse_cgroup(b""), "/");
        assert_eq!(parse_swapped_bytes(b"Name: x\nVmSwap:\t  12 kB\n"), Some(12_288));
    }
}
