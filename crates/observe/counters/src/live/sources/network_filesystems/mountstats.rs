//! `/proc/self/mountstats`: the kernel's running sums of each NFS mount.
//!
//! A mount is a block of lines. Its first line names it; `bytes:` counts the bytes that programs and the server
//! transferred; an `xprt:` line is a transport (several with `nconnect`), whose layout depends on the protocol; and
//! after `per-op statistics` comes one line per operation, with 8 numbers, or 9 since Linux 5.3 (fs/nfs/super.c,
//! net/sunrpc/stats.c, net/sunrpc/xprtsock.c).

use crate::live::text_scan::{WordIter, parse_number, text_lines};

/// Class of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsClass {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// COMMIT: written data must reach stable storage.
    Commit,
    /// All others: attributes, names, opens, locks.
    Metadata,
}

impl NfsClass {
    /// All classes.
    pub const ALL: [NfsClass; 4] = [NfsClass::Read, NfsClass::Write, NfsClass::Commit, NfsClass::Metadata];

    fn from_operation(name: &[u8]) -> NfsClass {
        match name {
            b"READ" | b"READ_PLUS" => NfsClass::Read,
            b"WRITE" => NfsClass::Write,
            b"COMMIT" => NfsClass::Commit,
            _ => NfsClass::Metadata,
        }
    }
}

/// Sums over the operations of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationSums {
    /// Operations that ended.
    pub operations: u64,
    /// Number of times that operations were sent.
    pub transmissions: u64,
    /// Number of times that the server did not answer within a whole timeout.
    pub major_timeouts: u64,
    /// Bytes sent, headers included.
    pub sent_bytes: u64,
    /// Bytes received, headers included.
    pub received_bytes: u64,
    /// Time from the start of the operations until they were sent, milliseconds.
    pub queue_ms: u64,
    /// Time from sending to the answer, milliseconds.
    pub round_trip_ms: u64,
    /// Time from start to end, milliseconds.
    pub execution_ms: u64,
    /// Operations that ended with an error.
    pub errors: u64,
}

impl OperationSums {
    fn add_numbers(&mut self, numbers: &[u64; 9]) {
        let fields = [
            &mut self.operations,
            &mut self.transmissions,
            &mut self.major_timeouts,
            &mut self.sent_bytes,
            &mut self.received_bytes,
            &mut self.queue_ms,
            &mut self.round_trip_ms,
            &mut self.execution_ms,
            &mut self.errors,
        ];
        for (field, number) in fields.into_iter().zip(numbers) {
            *field = field.saturating_add(*number);
        }
    }
}

/// Largest number of connections of a mount whose round-trip time is queried; `nconnect` allows 16.
pub const MAX_PORTS: usize = 16;

/// Sums over the transports of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportSums {
    /// Number of transports.
    pub count: u64,
    /// Requests sent.
    pub sends: u64,
    /// Answers received.
    pub replies: u64,
    /// Replies that matched no request.
    pub bad_replies: u64,
    /// Connections made.
    pub connects: u64,
    /// Number of requests that waited for a slot at each send, added up.
    pub backlog: u64,
    /// Largest number of slots that were in use at once; `None` for RDMA, which does not report it.
    pub max_slots: Option<u64>,
    /// Local ports of TCP connections; the first 0 ends the list.
    pub ports: [u16; MAX_PORTS],
}

/// Statistics of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountStats<'a> {
    /// `server:/export`, as the kernel escapes it.
    pub device: &'a [u8],
    /// Mount point, as the kernel escapes it.
    pub mount_point: &'a [u8],
    /// Seconds since it was mounted.
    pub age_s: Option<u64>,
    /// Mount options.
    pub options: &'a [u8],
    /// Bytes in this order: read by programs, written by programs, read with O_DIRECT, written with O_DIRECT, read from
    /// the server, written to the server.
    pub bytes: Option<[u64; 6]>,
    /// Number of times that the server asked the client to retry later.
    pub delays: Option<u64>,
    /// Sums by [`NfsClass`].
    pub operations: [OperationSums; 4],
    /// True if the mount has a line per operation, as in statistics of version 1.0 and later.
    pub has_operations: bool,
    /// All its transports.
    pub transports: TransportSums,
}

/// Parses the file and passes each NFS mount to `found`.
pub fn parse_mounts<'a>(text: &'a [u8], mut found: impl FnMut(&MountStats<'a>)) {
    let mut mount: Option<MountStats> = None;
    for line in text_lines(text) {
        let is_indented = line.first().is_none_or(u8::is_ascii_whitespace);
        if is_indented {
            if let Some(mount) = &mut mount {
                parse_detail(line, mount);
            }
            continue;
        }
        mount.take().iter().for_each(&mut found);
        mount = parse_heading(line);
    }
    mount.iter().for_each(found);
}

/// Parses `device server:/export mounted on /mnt with fstype nfs4 statvers=1.1`; `None` for all other filesystems.
fn parse_heading(line: &[u8]) -> Option<MountStats<'_>> {
    let mut words = WordIter::new(line);
    let device = (words.next_word()? == b"device").then(|| words.next_word())??;
    let mount_point =
        (words.next_word()? == b"mounted" && words.next_word()? == b"on").then(|| words.next_word())??;
    let kind = (words.next_word()? == b"with" && words.next_word()? == b"fstype").then(|| words.next_word())??;
    matches!(kind, b"nfs" | b"nfs4").then(|| MountStats { device, mount_point, ..MountStats::default() })
}

fn parse_detail<'a>(line: &'a [u8], mount: &mut MountStats<'a>) {
    let mut words = WordIter::new(line);
    let Some(key) = words.next_word().and_then(|word| word.strip_suffix(b":")) else { return };
    match key {
        b"opts" => mount.options = words.next_word().unwrap_or_default(),
        b"age" => mount.age_s = words.next_number().flatten(),
        b"bytes" => mount.bytes = parse_numbers(&mut words),
        // the 25th of the NFS event counters
        b"events" => mount.delays = parse_numbers::<25>(&mut words).map(|events| events[24]),
        b"xprt" => parse_transport(&mut words, &mut mount.transports),
        b"caps" | b"sec" | b"nfsv4" | b"impl_id" | b"fsc" => {}
        _ => parse_operation(key, &mut words, mount),
    }
}

fn parse_numbers<const N: usize>(words: &mut WordIter) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next_number()??;
    }
    Some(numbers)
}

/// Parses `READ: 10 10 0 1840 1311720 0 85 87 [0]`.
fn parse_operation(name: &[u8], words: &mut WordIter, mount: &mut MountStats) {
    let Some(first) = parse_numbers::<8>(words) else { return };
    let mut numbers = [0; 9];
    numbers[..8].copy_from_slice(&first);
    numbers[8] = words.next_number().flatten().unwrap_or(0);
    mount.has_operations = true;
    mount.operations[NfsClass::from_operation(name) as usize].add_numbers(&numbers);
}

/// Positions of the numbers on a transport's line, which depend on the protocol.
struct TransportLayout {
    port: Option<usize>,
    connects: Option<usize>,
    /// Position of the sends; answers, bad answers, requests in flight and the backlog follow.
    sends: usize,
    slots: Option<usize>,
}

fn transport_layout(protocol: &[u8]) -> Option<TransportLayout> {
    match protocol {
        b"udp" => Some(TransportLayout { port: None, connects: None, sends: 2, slots: Some(7) }),
        b"tcp" => Some(TransportLayout { port: Some(0), connects: Some(2), sends: 5, slots: Some(10) }),
        b"local" => Some(TransportLayout { port: None, connects: Some(1), sends: 4, slots: Some(9) }),
        b"rdma" => Some(TransportLayout { port: None, connects: Some(2), sends: 5, slots: None }),
        _ => None,
    }
}

fn parse_transport(words: &mut WordIter, sums: &mut TransportSums) {
    let Some(TransportLayout { port, connects, sends, slots }) = words.next_word().and_then(transport_layout) else {
        return;
    };
    let mut numbers = [None; 16];
    for number in &mut numbers {
        // a negative number, such as the connect time may be, leaves its position empty
        let Some(word) = words.next_word() else { break };
        *number = parse_number(word);
    }
    let (Some(sent), Some(replies)) = (numbers[sends], numbers[sends + 1]) else { return };
    if let Some(port) =
        port.and_then(|position| numbers[position]).and_then(|port| u16::try_from(port).ok()).filter(|p| *p > 0)
        && let Some(free) = sums.ports.iter_mut().find(|p| **p == 0)
    {
        *free = port;
    }
    let add = |sum: &mut u64, more: Option<u64>| *sum = sum.saturating_add(more.unwrap_or(0));
    sums.count += 1;
    add(&mut sums.sends, Some(sent));
    add(&mut sums.replies, Some(replies));
    add(&mut sums.bad_replies, numbers[sends + 2]);
    add(&mut sums.connects, connects.and_then(|position| numbers[position]));
    add(&mut sums.backlog, numbers[sends + 4]);
    // statistics of version 1.0 end before the slots
    if let Some(slots) = slots.and_then(|position| numbers[position]) {
        sums.max_slots = Some(sums.max_slots.unwrap_or(0).saturating_add(slots));
    }
}
