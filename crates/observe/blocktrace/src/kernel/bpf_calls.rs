//! bpf(2) and perf_event_open(2). No crate has them as safe calls; the structures are those of
//! `include/uapi/linux/bpf.h` and `perf_event.h`, truncated after the fields that are used;
//! the kernel takes the missing fields as zeros (bpf(2), "size").

use std::ffi::{c_long, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
const RAW_TRACEPOINT: c_long = 17;
const ENABLE_STATS: c_long = 32;
const OBJECT_INFO: c_long = 15;
/// `BPF_MAP_TYPE_HASH` and `_ARRAY`.
pub(super) const HASH_MAP: u32 = 1;
pub(super) const ARRAY_MAP: u32 = 2;
/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;
/// `BPF_PROG_TYPE_TRACEPOINT`.
const TRACEPOINT_PROGRAM: u32 = 5;
/// `BPF_PROG_TYPE_TRACING`, and `BPF_TRACE_RAW_TP`: a typed tracepoint (5.5 and later).
const TYPED_PROGRAM: u32 = 26;
const TYPED_TRACEPOINT: u32 = 23;
/// `PERF_TYPE_TRACEPOINT`, and the ioctls of perf events: `_IO('$', 0)`, `_IOW('$', 8, __u32)`.
const PERF_TRACEPOINT: u32 = 2;
const PERF_ENABLE: libc::c_ulong = 0x2400;
const PERF_SET_PROGRAM: libc::c_ulong = 0x4004_2408;
/// `PERF_FLAG_FD_CLOEXEC`.
const PERF_CLOEXEC: libc::c_ulong = 8;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attached: u32,
    /// Type information of the program itself, which it does not have.
    types: [u32; 9],
    attached_type: u32,
    padding: [u32; 2],
}

#[repr(C)]
struct RawTracepoint {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ObjectInfo {
    object: u32,
    bytes: u32,
    info: u64,
}

/// `struct perf_event_attr` of the first version, 64 bytes.
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
    kind: u32,
    bytes: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    more: u64,
}

#[allow(unsafe_code, reason = "bpf(2) has no safe wrapper")]
fn call_bpf<T>(command: c_long, attributes: &mut T) -> io::Result<RawFd> {
    let bytes = size_of::<T>() as c_long;
    // SAFETY: `attributes` is a structure of the layout that the command takes, of the size that is given, and
    // outlives the call; its pointers are to memory that the caller keeps until then.
    let descriptor = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), bytes) };
    if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(descriptor as RawFd) }
}

#[allow(unsafe_code, reason = "a descriptor that the kernel has just given us")]
fn into_owned_fd(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the call before returned this descriptor as new, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Returns the name of an object as the kernel wants it: 16 bytes, ended by a zero.
fn object_name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name.iter_mut().zip(text.bytes().take(15)).for_each(|(to, from)| *to = from);
    name
}

/// Creates a map; a shared map can be read as memory.
pub(super) fn create_map(
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    is_shared: bool,
) -> io::Result<OwnedFd> {
    let flags = if is_shared { MMAPABLE } else { 0 };
    let mut attributes =
        MapCreate { kind, key_bytes, value_bytes, entries, flags, inner: 0, node: 0, name: object_name("diskwright") };
    call_bpf(MAP_CREATE, &mut attributes).map(into_owned_fd)
}

/// Sets the only value of an array map.
pub(super) fn set_value(map: &OwnedFd, value: &[u64]) -> io::Result<()> {
    let key = 0u32;
    let mut attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: std::ptr::from_ref(&key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    call_bpf(MAP_UPDATE, &mut attributes).map(drop)
}

/// Loads a program for a tracepoint's event; if the verifier refuses it, the error holds the verifier's message.
pub(super) fn load_program(code: &[[u8; 8]], title: &str) -> io::Result<OwnedFd> {
    load_program_as(TRACEPOINT_PROGRAM, 0, code, title)
}

/// Loads a program for the typed tracepoint of this type.
pub(super) fn load_typed(code: &[[u8; 8]], title: &str, tracepoint: u32) -> io::Result<OwnedFd> {
    load_program_as(TYPED_PROGRAM, tracepoint, code, title)
}

fn load_program_as(kind: u32, attached_type: u32, code: &[[u8; 8]], title: &str) -> io::Result<OwnedFd> {
    // first without the verifier's log, which takes time
    let mut load = ProgramLoad {
        kind,
        count: code.len() as u32,
        code: code.as_ptr() as u64,
        // only programs under a GPL-compatible license may read fields of the kernel's structures
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: object_name(title),
        interface: 0,
        attached: if attached_type > 0 { TYPED_TRACEPOINT } else { 0 },
        types: [0; 9],
        attached_type,
        padding: [0; 2],
    };
    let first_error = match call_bpf(PROGRAM_LOAD, &mut load) {
        Ok(descriptor) => return Ok(into_owned_fd(descriptor)),
        Err(error) => error,
    };
    // EPERM: privileges are missing; EACCES: the verifier refused the program, and its log says why
    if first_error.kind() == io::ErrorKind::PermissionDenied && first_error.raw_os_error() != Some(libc::EACCES) {
        return Err(first_error);
    }
    let mut log = vec![0u8; 1 << 20];
    (load.log_level, load.log_bytes, load.log) = (1, log.len() as u32, log.as_mut_ptr() as u64);
    if let Ok(descriptor) = call_bpf(PROGRAM_LOAD, &mut load) {
        return Ok(into_owned_fd(descriptor));
    }
    let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let tail: Vec<&str> = text.lines().rev().take(3).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
    Err(io::Error::new(first_error.kind(), format!("{first_error}: {tail}")))
}

/// A program that is attached to a tracepoint until this is dropped.
#[derive(Debug)]
pub(super) struct AttachedProgram {
    _event: OwnedFd,
    program: OwnedFd,
}

/// Attaches a program to the tracepoint of this number, on all processors.
#[allow(unsafe_code, reason = "perf_event_open(2) and its ioctls have no safe wrapper")]
pub(super) fn attach_program(program: OwnedFd, tracepoint: u16) -> io::Result<AttachedProgram> {
    let mut attributes = PerfAttributes {
        kind: PERF_TRACEPOINT,
        bytes: size_of::<PerfAttributes>() as u32,
        config: u64::from(tracepoint),
        period: 1,
        ..PerfAttributes::default()
    };
    // SAFETY: the attributes are a structure of the first version with its size in it, and outlive the call. -1 and 0
    // mean all processes on processor 0 (the program runs on all processors, whichever the event is opened on).
    let event = unsafe {
        libc::syscall(libc::SYS_perf_event_open, std::ptr::from_mut(&mut attributes), -1, 0, -1, PERF_CLOEXEC)
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    let event = File::from(into_owned_fd(event as RawFd));
    // SAFETY: both ioctls take plain integers and no memory of ours.
    let (set_error, enabled) = unsafe {
        let set = libc::ioctl(event.as_raw_fd(), PERF_SET_PROGRAM as _, program.as_raw_fd());
        let set_error = (set < 0).then(io::Error::last_os_error);
        (set_error, libc::ioctl(event.as_raw_fd(), PERF_ENABLE as _, 0))
    };
    match set_error {
        Some(error) => Err(error),
        None if enabled < 0 => Err(io::Error::last_os_error()),
        None => Ok(AttachedProgram { _event: event.into(), program }),
    }
}

/// Attaches a program to the typed tracepoint that it was loaded for.
pub(super) fn attach_typed(program: OwnedFd) -> io::Result<AttachedProgram> {
    let mut attributes = RawTracepoint { name: 0, program: program.as_raw_fd() as u32, padding: 0 };
    let event = call_bpf(RAW_TRACEPOINT, &mut attributes).map(into_owned_fd)?;
    Ok(AttachedProgram { _event: event, program })
}

/// Makes the kernel measure the run time of programs while the descriptor is open (5.8 and later).
pub(super) fn enable_statistics() -> io::Result<OwnedFd> {
    let mut kind = 0u32;
    call_bpf(ENABLE_STATS, &mut kind).map(into_owned_fd)
}

impl AttachedProgram {
    /// Reads the run time and the number of runs while statistics were enabled, and the number of missed events.
    pub(super) fn read_statistics(&self) -> io::Result<ProgramStatistics> {
        let mut info = [0u64; 28];
        let mut attributes = ObjectInfo {
            object: self.program.as_raw_fd() as u32,
            bytes: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        call_bpf(OBJECT_INFO, &mut attributes)?;
        Ok(ProgramStatistics { run_ns: info[RUN_TIME / 8], runs: info[RUN_COUNT / 8], misses: info[RUN_MISSES / 8] })
    }
}

/// Offsets in `struct bpf_prog_info`, bytes.
const RUN_TIME: usize = 192;
const RUN_COUNT: usize = 200;
const RUN_MISSES: usize = 208;

/// The kernel's statistics of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProgramStatistics {
    pub run_ns: u64,
    pub runs: u64,
    /// Events that came while another program ran on the same processor (counted since 5.12, of programs at events
    /// since 6.7).
    pub misses: u64,
}

/// The value of a shared array map as memory of this process.
#[derive(Debug)]
pub(super) struct SharedWords {
    start: *mut c_void,
    words: usize,
}

impl SharedWords {
    /// Maps the value.
    #[allow(unsafe_code, reason = "the counts are read from memory that the kernel shares")]
    pub(super) fn map_shared(map: &OwnedFd, words: usize) -> io::Result<SharedWords> {
        use rustix::mm::{MapFlags, ProtFlags};
        // SAFETY: a fresh mapping at an address of the kernel's choice, of the map's own size, only read.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), words * 8, ProtFlags::READ, MapFlags::SHARED, map, 0) };
        Ok(SharedWords { start: start?, words })
    }

    /// Reads a word; the kernel's processors may write it at any time.
    #[allow(unsafe_code, reason = "the counts are read from memory that the kernel shares")]
    pub(super) fn get(&self, word: usize) -> u64 {
        assert!(word < self.words);
        // SAFETY: within the mapping, aligned because mappings begin at pages; the kernel changes words at any time,
        // so they are read as atomics are.
        unsafe {
            (*self.start.cast::<std::sync::atomic::AtomicU64>().add(word)).load(std::sync::atomic::Ordering::Relaxed)
        }
    }
}

impl Drop for SharedWords {
    #[allow(unsafe_code, reason = "removes the mapping")]
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map_shared`, which nobody else has.
        let _ = unsafe { rustix::mm::munmap(self.start, self.words * 8) };
    }
}
