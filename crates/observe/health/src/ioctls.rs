//! The two ioctls that query drives: an NVMe admin command, and SG_IO. Both are used only for
//! commands that read: the callers are in `query.rs`.

#![allow(unsafe_code, reason = "an ioctl that fills a buffer behind a pointer has no safe form in any crate")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `NVME_IOCTL_ADMIN_CMD` of linux/nvme_ioctl.h.
const NVME_ADMIN: u64 = 0xc048_4e41;
/// `SG_IO` of scsi/sg.h.
const SG_IO: u64 = 0x2285;
/// Timeout of a command: a drive that is busy with its own repairs may take seconds.
const TIMEOUT_MS: u32 = 10_000;
/// `SG_DXFER_NONE` of scsi/sg.h.
const NO_DATA: i32 = -1;
/// `SG_DXFER_FROM_DEV` of scsi/sg.h.
const FROM_DEVICE: i32 = -3;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct NvmePassthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_length: u32,
    length: u32,
    cdw: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// `struct sg_io_hdr`.
#[repr(C)]
struct SgHeader {
    interface: i32,
    direction: i32,
    command_length: u8,
    sense_length: u8,
    scatter: u16,
    length: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message: u8,
    sense_written: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

const _: () = assert!(size_of::<NvmePassthrough>() == 72);
const _: () = assert!(size_of::<SgHeader>() == 88 || size_of::<usize>() != 8);

/// Sends an NVMe admin command that returns data.
pub fn send_nvme_admin(file: &File, opcode: u8, nsid: u32, cdw10: u32, data: &mut [u8]) -> io::Result<()> {
    let mut command = NvmePassthrough {
        opcode,
        nsid,
        address: data.as_mut_ptr() as u64,
        length: data.len() as u32,
        cdw: [cdw10, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..NvmePassthrough::default()
    };
    // SAFETY: the structure has the kernel's layout (its size is checked above), and its address and length are
    // those of `data`, which lives and is borrowed mutably until the call is over
    let code = unsafe { libc::ioctl(file.as_raw_fd(), NVME_ADMIN as _, &raw mut command) };
    match code {
        0 => Ok(()),
        // a status of the drive: it does not know the command or the page
        1.. => Err(io::Error::new(io::ErrorKind::Unsupported, format!("the drive answered with status {code:#x}"))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Result of a SCSI command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiOutcome {
    /// Status byte; 0 is good, 2 means that there are sense data.
    pub status: u8,
    /// Sense data.
    pub sense: Vec<u8>,
}

/// Sends a SCSI command that fills `data`, or that returns no data if `data` is empty.
pub fn send_scsi(file: &File, command: &[u8], data: &mut [u8]) -> io::Result<ScsiOutcome> {
    let mut sense = [0; 64];
    let mut header = SgHeader {
        interface: i32::from(b'S'),
        direction: if data.is_empty() { NO_DATA } else { FROM_DEVICE },
        command_length: command.len() as u8,
        sense_length: sense.len() as u8,
        scatter: 0,
        length: data.len() as u32,
        data: data.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message: 0,
        sense_written: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the structure has the kernel's layout (its size is checked above); its pointers and lengths are those of
    // `command`, `data` and `sense`, which live until the call is over, and the kernel writes only to the last two
    let code = unsafe { libc::ioctl(file.as_raw_fd(), SG_IO as _, &raw mut header) };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    if header.host_status != 0 {
        return Err(io::Error::other(format!("the adapter failed with status {:#x}", header.host_status)));
    }
    let written = usize::from(header.sense_written).min(sense.len());
    Ok(ScsiOutcome { status: header.status, sense: sense[..written].to_vec() })
}
