//! An export as a file: a FUSE filesystem with one file, `disk`, whose reads and writes go to the
//! NBD server. A loop device over this file keeps as many requests in flight as the kernel allows
//! ([`MAX_IN_FLIGHT`]). Replies are passed on in the order in which the server sends them.

mod connections;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use rustix::fs::FallocateFlags;

use super::AttachError;
use super::export_address::ExportAddress;
use crate::nbd::client::ClientRequest;
use crate::nbd::wire::{NbdCommand, TransmissionFlags};
use connections::ExportConnections;

/// Name of the file.
pub const FILE_NAME: &str = "disk";
/// Largest number of requests that the kernel passes on at the same time: as many as a loop device
/// has.
pub const MAX_IN_FLIGHT: u16 = 128;
/// Largest request, bytes: 256 pages, the kernel's usual limit for FUSE.
pub const MAX_REQUEST_BYTES: u32 = 1 << 20;

const FOLDER_INODE: INodeNo = INodeNo::ROOT;
const FILE_INODE: INodeNo = INodeNo(2);
/// Validity of cached attributes: neither name nor size changes.
const ATTRIBUTE_TTL: Duration = Duration::from_secs(1 << 30);

/// Shows an export as the file [`FILE_NAME`] in a folder, until it is unmounted. The caller knows
/// whether the server supports several connections and writes.
///
/// # Errors
/// If the server or the mount fails, or the server closes the connection.
pub fn serve_file(export: &ExportAddress, folder: &Path, connections: u32, read_only: bool) -> Result<(), AttachError> {
    // high priority, because a disk does not wait for other programs; without the privilege it stays as it is
    let _ = rustix::process::setpriority_process(None, -15);
    let (end_sender, end_receiver) = channel();
    let export_connections = ExportConnections::open(export, connections, &end_sender)?;
    let mut config = Config::default();
    let access = if read_only { MountOption::RO } else { MountOption::RW };
    config.mount_options = vec![
        MountOption::FSName("diskwright".into()),
        access,
        MountOption::CUSTOM(format!("max_read={}", max_request_bytes(&export_connections))),
    ];
    let step = |e: io::Error| AttachError::step_error("FUSE", e);
    let session = Session::new(FuseFolder { connections: Arc::clone(&export_connections), read_only }, folder, &config)
        .map_err(step)?;
    let serve = move || {
        let result = session.run();
        let _ = end_sender.send(result.map_err(step));
    };
    thread::Builder::new().name("fuse".into()).spawn(serve).map_err(step)?;
    // wait for the unmount or for the end of a connection, whichever comes first; the kernel abandons its
    // pending requests when this process exits
    let result = end_receiver.recv().unwrap_or(Ok(()));
    export_connections.disconnect_all();
    result
}

/// Returns the largest request to this server, bytes.
fn max_request_bytes(connections: &ExportConnections) -> u32 {
    MAX_REQUEST_BYTES.min(connections.export_info().max_request_bytes)
}

/// The folder with its file.
struct FuseFolder {
    connections: Arc<ExportConnections>,
    read_only: bool,
}

impl FuseFolder {
    fn inode_attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let bytes = self.connections.export_info().bytes;
        let (kind, size, perm) = match inode {
            FOLDER_INODE => (FileType::Directory, 0, 0o500),
            FILE_INODE => (FileType::RegularFile, bytes, if self.read_only { 0o400 } else { 0o600 }),
            _ => return None,
        };
        let (owner, never) = (rustix::process::geteuid().as_raw(), UNIX_EPOCH);
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            kind,
            perm,
            nlink: 1,
            uid: owner,
            gid: 0,
            rdev: 0,
            blksize: self.connections.export_info().preferred_block_bytes,
            flags: 0,
        })
    }

    fn reply_when_done(&self, request: ClientRequest<'_>, reply: ReplyEmpty) {
        let answer = move |answer: connections::NbdAnswer<'_>| match answer {
            Ok(_) => reply.ok(),
            Err(error) => reply.error(to_fuse_errno(error)),
        };
        self.connections.send_request(request, Box::new(answer));
    }
}

fn to_fuse_errno(code: u32) -> Errno {
    Errno::from_i32(i32::try_from(code).unwrap_or(5))
}

impl Filesystem for FuseFolder {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        // none of these is required: without one of them, fewer requests are in flight
        let _ = kernel.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = kernel.set_max_background(MAX_IN_FLIGHT);
        let _ = kernel.set_congestion_threshold(MAX_IN_FLIGHT);
        let _ = kernel.set_max_write(max_request_bytes(&self.connections));
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.inode_attributes(FILE_INODE).filter(|_| parent == FOLDER_INODE && name == FILE_NAME) {
            Some(attributes) => reply.entry(&ATTRIBUTE_TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.inode_attributes(inode) {
            Some(attributes) => reply.attr(&ATTRIBUTE_TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let entries = [
            (FOLDER_INODE, FileType::Directory, "."),
            (FOLDER_INODE, FileType::Directory, ".."),
            (FILE_INODE, FileType::RegularFile, FILE_NAME),
        ];
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        for ((inode, kind, name), offset) in entries.into_iter().zip(1..).skip(skipped) {
            if reply.add(inode, offset, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // direct I/O: the kernel caches no data of this file
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.connections.export_info().bytes.saturating_sub(offset);
        let length = u32::try_from(left).map_or(size, |left| left.min(size));
        if length == 0 {
            return reply.data(&[]);
        }
        let answer = move |answer: connections::NbdAnswer<'_>| match answer {
            Ok(data) => reply.data(data),
            Err(error) => reply.error(to_fuse_errno(error)),
        };
        self.connections.send_request(ClientRequest::Read { offset, length }, Box::new(answer));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // at most MAX_REQUEST_BYTES
        let length = data.len() as u32;
        if offset.checked_add(length.into()).is_none_or(|end| end > self.connections.export_info().bytes) {
            return reply.error(Errno::ENOSPC);
        }
        let answer = move |answer: connections::NbdAnswer<'_>| match answer {
            Ok(_) => reply.written(length),
            Err(error) => reply.error(to_fuse_errno(error)),
        };
        self.connections.send_request(ClientRequest::Write { offset, data }, Box::new(answer));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // sent on close; needs no flush of the medium
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.connections.export_info().flags.has(TransmissionFlags::FLUSH) {
            self.reply_when_done(ClientRequest::Flush, reply);
        } else {
            reply.ok();
        }
    }

    /// Handles a loop device's discards and writes of zeroes. Both read as zeroes afterwards, which
    /// a trim does not promise. Without trim support, discards are refused, as by a disk: writing
    /// as many zeroes would take hours.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let flags = self.connections.export_info().flags;
        let zeroing_modes = if flags.has(TransmissionFlags::TRIM) {
            FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE
        } else {
            FallocateFlags::ZERO_RANGE
        };
        let is_zeroing = mode.intersects(zeroing_modes) && mode.contains(FallocateFlags::KEEP_SIZE);
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.connections.export_info().bytes);
        match u32::try_from(length) {
            Ok(length) if is_zeroing && is_inside && flags.has(TransmissionFlags::WRITE_ZEROES) => {
                self.reply_when_done(ClientRequest::Other { command: NbdCommand::WriteZeroes, offset, length }, reply);
            }
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }
}
