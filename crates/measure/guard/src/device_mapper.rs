//! Tables of the device mapper (LVM, LUKS, multipath and others): on which bytes of which devices a
//! mapped device lies. They show that two logical volumes on one disk are only neighbors, and do not
//! use each other.

use std::fs::File;
use std::path::Path;

use diskwright_counters::live::{Roots, mountinfo};
use rustix::fs::makedev;
use rustix::ioctl::{Updater, ioctl, opcode};

use crate::device_graph::{Slice, StorageNode};
use crate::loop_devices::SECTOR_BYTES;
use crate::node::DeviceNumber;

/// Buffer for the table after the header, bytes; a longer table is not used.
const TABLE_BUFFER_BYTES: usize = 1 << 16;

/// `struct dm_ioctl` of linux/dm-ioctl.h.
#[repr(C)]
struct DmIoctl {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event: u32,
    padding: u32,
    device: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// Buffer of a `DM_TABLE_STATUS` call: the header, then the table.
#[repr(C)]
struct TableRequest {
    head: DmIoctl,
    buffer: [u8; TABLE_BUFFER_BYTES],
}

/// `DM_TABLE_STATUS`: command 12 of the device mapper's ioctls.
const DM_TABLE_STATUS: u32 = opcode::read_write::<DmIoctl>(0xfd, 12);
/// `DM_STATUS_TABLE_FLAG`: returns the table instead of the status.
const DM_STATUS_TABLE_FLAG: u32 = 1 << 4;
/// `DM_BUFFER_FULL_FLAG`: the buffer was too short.
const DM_BUFFER_FULL_FLAG: u32 = 1 << 8;

/// Reads a mapped device's table, one line per target: start, length, kind, parameters of the kind.
/// `None` if the driver does not show it to us.
#[allow(unsafe_code, reason = "the device mapper is queried by an ioctl that no crate has as a safe call")]
pub(crate) fn read_table(roots: &Roots, number: DeviceNumber) -> Option<String> {
    // a test's fake machine has no driver
    let control = (roots.root == Path::new("/")).then(|| File::open("/dev/mapper/control").ok())??;
    let size = size_of::<DmIoctl>();
    let head = DmIoctl {
        version: [4, 0, 0],
        data_size: (size + TABLE_BUFFER_BYTES) as u32,
        data_start: size as u32,
        target_count: 0,
        open_count: 0,
        flags: DM_STATUS_TABLE_FLAG,
        event: 0,
        padding: 0,
        device: makedev(number.0 as u32, number.1 as u32),
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    let mut request = Box::new(TableRequest { head, buffer: [0; TABLE_BUFFER_BYTES] });
    // SAFETY: DM_TABLE_STATUS reads the head and writes at most `data_size` bytes from the head's start; that is the
    // size of `TableRequest`. All fields are plain integers.
    unsafe { ioctl(control, Updater::<DM_TABLE_STATUS, TableRequest>::new(&mut request)) }.ok()?;
    if request.head.flags & DM_BUFFER_FULL_FLAG != 0 || request.head.data_start as usize != size {
        return None;
    }
    parse_targets(&request.buffer, request.head.target_count)
}

/// Parses consecutive targets. Each has a start and a length in sectors, a status, the offset of the
/// next target from the first, a kind of 16 bytes, and parameters that end with a zero byte.
fn parse_targets(buffer: &[u8], count: u32) -> Option<String> {
    let text_of = |bytes: &[u8]| {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let (mut text, mut start) = (String::new(), 0);
    for _ in 0..count {
        // struct dm_target_spec: sector_start, length, status (bytes 16 to 19), next, target_type
        let target = buffer.get(start..)?;
        let number = |offset: usize| Some(u64::from_ne_bytes(target.get(offset..offset + 8)?.try_into().ok()?));
        let next = u32::from_ne_bytes(target.get(20..24)?.try_into().ok()?);
        let (kind, parameters) = (text_of(target.get(24..40)?), text_of(target.get(40..)?));
        text += &format!("{} {} {kind} {parameters}\n", number(0)?, number(8)?);
        start = next as usize;
    }
    Some(text)
}

/// Returns the slices of lower devices that a table names. Each stripe of a striped target is spread
/// over the whole upper device. A target of an unknown kind uses every device that it names as a whole.
pub(crate) fn parse_table(table: &str) -> Vec<Slice> {
    table.lines().filter_map(parse_target_line).flatten().collect()
}

fn parse_target_line(line: &str) -> Option<Vec<Slice>> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (start, length): (u64, u64) = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?);
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    let device = |word: &str| mountinfo::parse_device_number(word.as_bytes()).map(StorageNode::Device);
    let parameters = words.get(3..)?;
    let from = |word: Option<&&str>| word.and_then(|word| word.parse().ok()).map_or(0, bytes);
    Some(match *words.get(2)? {
        // device, start
        "linear" => vec![Slice::byte_range(
            device(parameters.first()?)?,
            from(parameters.get(1)),
            Some(bytes(length)),
            bytes(start),
        )],
        // cipher, key, offset of the first sector's number, device, start
        "crypt" => vec![Slice::byte_range(
            device(parameters.get(3)?)?,
            from(parameters.get(4)),
            Some(bytes(length)),
            bytes(start),
        )],
        // number of stripes, size of a stripe unit, then device and start of each
        "striped" => {
            let stripes = parameters.first()?.parse::<u64>().ok().filter(|stripes| *stripes > 0)?;
            let pairs = parameters.get(2..)?.chunks_exact(2);
            let stripe = |pair: &[&str]| {
                let range = Slice::byte_range(device(pair[0])?, from(pair.get(1)), Some(bytes(length / stripes)), 0);
                Some(Slice { offset: None, ..range })
            };
            pairs.filter_map(stripe).collect()
        }
        // a pool; or an origin, whose blocks are copied before they change, and the device for the copies
        "thin" | "snapshot" | "snapshot-merge" => {
            let first = Slice { is_isolated: true, ..Slice::whole_node(device(parameters.first()?)?) };
            let copies = parameters.get(1).and_then(|word| device(word)).map(Slice::whole_node);
            std::iter::once(first).chain(copies).collect()
        }
        _ => parameters.iter().filter_map(|word| device(word)).map(Slice::whole_node).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_tables() {
        let disk = StorageNode::Device((8, 16));
        assert_eq!(size_of::<DmIoctl>(), 312);
        assert_eq!(
            parse_table("0 8192 linear 8:16 2048\n8192 100 linear 8:32 0\n"),
            [
                Slice::byte_range(disk, 2048 * 512, Some(8192 * 512), 0),
                Slice::byte_range(StorageNode::Device((8, 32)), 0, Some(100 * 512), 8192 * 512),
            ]
        );
        let crypt = "0 4096 crypt aes-xts-plain64 :64:logon:cryptsetup:x 0 8:16 32768 1 allow_discards";
        assert_eq!(parse_table(crypt), [Slice::byte_range(disk, 32_768 * 512, Some(4096 * 512), 0)]);
        let striped = parse_table("0 2000 striped 2 128 8:16 0 8:32 64");
        assert_eq!((striped[0].below.clone(), striped[0].offset), (0..512_000, None));
        assert_eq!(striped[1].below, 64 * 512..64 * 512 + 512_000);
        let paths = "0 4096 multipath 0 0 1 1 service-time 0 2 2 8:16 1 1 8:32 1 1";
        assert_eq!(parse_table(paths), [Slice::whole_node(disk), Slice::whole_node(StorageNode::Device((8, 32)))]);
        let thin = parse_table("0 4096 thin 253:4 1");
        assert!(thin.len() == 1 && thin[0].is_isolated);
        let snapshot = parse_table("0 4096 snapshot 253:1 253:2 P 16");
        assert!(snapshot[0].is_isolated && !snapshot[1].is_isolated);
        assert!(parse_table("0 100 zero \n nonsense \n0 1 linear nowhere 0\n").is_empty());
    }

    #[test]
    fn parses_driver_responses() {
        let mut room = vec![0; 200];
        let mut put = |position: usize, start: u64, next: u32, kind: &[u8], words: &[u8]| {
            room[position..position + 8].copy_from_slice(&start.to_ne_bytes());
            room[position + 8..position + 16].copy_from_slice(&64u64.to_ne_bytes());
            room[position + 20..position + 24].copy_from_slice(&next.to_ne_bytes());
            room[position + 24..position + 24 + kind.len()].copy_from_slice(kind);
            room[position + 40..position + 40 + words.len()].copy_from_slice(words);
        };
        put(0, 0, 64, b"linear", b"8:16 0");
        put(64, 64, 128, b"zero", b"");
        assert_eq!(parse_targets(&room, 2).unwrap(), "0 64 linear 8:16 0\n64 64 zero \n");
        assert_eq!(parse_targets(&room[..100], 2), None);
    }
}
