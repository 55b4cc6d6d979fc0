//! Contents of a device, recognized by the signatures that filesystems, partition tables, arrays and
//! other formats leave at known offsets. The offsets are from each format's public description.

use std::io;
use std::os::fd::OwnedFd;

/// A signature of a format.
struct SignatureMark {
    /// Name of the format, for messages.
    content: &'static str,
    /// Offset from the start; from the end if negative. Bytes.
    offset: i64,
    bytes: &'static [u8],
}

const fn mark(content: &'static str, offset: i64, bytes: &'static [u8]) -> SignatureMark {
    SignatureMark { content, offset, bytes }
}

/// Known signatures. The MBR's signature is also in boot sectors of FAT and NTFS, which are just as
/// good a reason not to write.
const MARKS: &[SignatureMark] = &[
    mark("a partition table (GPT)", 512, b"EFI PART"),
    mark("a partition table (GPT)", 4096, b"EFI PART"),
    mark("a partition table (GPT, its copy at the end)", -512, b"EFI PART"),
    mark("a partition table (GPT, its copy at the end)", -4096, b"EFI PART"),
    mark("a partition table or boot sector (MBR)", 510, &[0x55, 0xaa]),
    mark("ext2, ext3 or ext4", 0x438, &[0x53, 0xef]),
    mark("XFS", 0, b"XFSB"),
    mark("btrfs", 0x1_0040, b"_BHRfS_M"),
    mark("btrfs (its second copy)", 0x400_0040, b"_BHRfS_M"),
    mark("F2FS", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    mark("bcachefs or bcache", 0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    mark("NTFS", 3, b"NTFS    "),
    mark("exFAT", 3, b"EXFAT   "),
    mark("FAT", 0x36, b"FAT"),
    mark("FAT32", 0x52, b"FAT32"),
    mark("ISO 9660", 0x8001, b"CD001"),
    mark("squashfs", 0, b"hsqs"),
    mark("EROFS", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    mark("swap", 0xff6, b"SWAPSPACE2"),
    // the signature is at the end of the first page, whose size depends on the machine that wrote it
    mark("swap (8 KiB pages)", 0x1ff6, b"SWAPSPACE2"),
    mark("swap (16 KiB pages)", 0x3ff6, b"SWAPSPACE2"),
    mark("swap (32 KiB pages)", 0x7ff6, b"SWAPSPACE2"),
    mark("swap (64 KiB pages)", 0xfff6, b"SWAPSPACE2"),
    mark("suspended memory", 0xff6, b"S1SUSPEND"),
    mark("suspended memory", 0x3ff6, b"S1SUSPEND"),
    mark("suspended memory", 0xfff6, b"S1SUSPEND"),
    mark("LUKS", 0, b"LUKS\xba\xbe"),
    mark("LUKS (its second header)", 0x4000, b"SKUL\xba\xbe"),
    mark("an LVM volume", 0x218, b"LVM2 001"),
    mark("an LVM volume", 0x18, b"LVM2 001"),
    mark("an LVM volume", 0x418, b"LVM2 001"),
    mark("an LVM volume", 0x618, b"LVM2 001"),
    mark("BitLocker", 3, b"-FVE-FS-"),
    mark("ReFS", 3, b"ReFS\0\0\0\0"),
    mark("APFS", 0x20, b"NXSB"),
    mark("HFS+", 0x400, b"H+\0\x04"),
    mark("JFS", 0x8000, b"JFS1"),
    mark("ReiserFS", 0x1_0034, b"ReIsEr"),
    mark("GFS2", 0x1_0000, &[0x01, 0x16, 0x19, 0x70]),
    mark("OCFS2", 0x2000, b"OCFSV2"),
    mark("VMFS", 0x10_0000, &[0x0d, 0xd0, 0x01, 0xc0]),
    mark("NILFS2", 0x406, &[0x34, 0x34]),
    mark("a Ceph object store", 0, b"bluestore block device"),
    mark("Oracle ASM", 0x20, b"ORCLDISK"),
    mark("a Stratis pool", 0x204, b"!Stra0tis"),
    mark("VDO", 0, b"dmvdo001"),
    mark("an md member", 0x1000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    mark("an md member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    mark("a DDF array's member", -512, &[0xde, 0x11, 0xde, 0x11]),
    mark("an Intel RAID member", -1024, b"Intel Raid ISM Cfg Sig. "),
    mark("DRBD", -4096 + 0x3c, &[0x83, 0x74, 0x02, 0x6b]),
];

/// Magic number of md's superblocks. Those of versions 0.90 and 1.0 are near the end of the device.
const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// Magic number of ZFS's uberblocks in both byte orders; each label has 128 of them.
const ZFS_MAGICS: [[u8; 8]; 2] = [[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]];

/// Finds the known formats on a target of `bytes` bytes; empty if none is found.
///
/// # Errors
/// If the device cannot be read.
pub fn find_signatures(file: &OwnedFd, bytes: u64) -> io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    let mut add = |content| {
        if !found.contains(&content) {
            found.push(content);
        }
    };
    for mark in MARKS {
        let offset =
            if mark.offset >= 0 { Some(mark.offset as u64) } else { bytes.checked_sub(mark.offset.unsigned_abs()) };
        if let Some(offset) = offset
            && has_bytes_at(file, offset, mark.bytes)?
        {
            add(mark.content);
        }
    }
    // 0.90: in the last whole 64 KiB block; 1.0: at least 8 KiB before the end, at a multiple of 4 KiB
    let version_0_90 = (bytes / 0x1_0000 * 0x1_0000).saturating_sub(0x1_0000);
    let version_1_0 = (bytes / 512).saturating_sub(16) / 8 * 8 * 512;
    for offset in [version_0_90, version_1_0] {
        if has_bytes_at(file, offset, &MD_MAGIC)? {
            add("an md member");
        }
    }
    for offset in (0x2_0000u64..0x4_0000).step_by(1024) {
        if has_bytes_at(file, offset, &ZFS_MAGICS[0])? || has_bytes_at(file, offset, &ZFS_MAGICS[1])? {
            add("ZFS");
            break;
        }
    }
    Ok(found)
}

fn has_bytes_at(file: &OwnedFd, offset: u64, expected: &[u8]) -> io::Result<bool> {
    let mut buffer = [0u8; 32];
    let found = &mut buffer[..expected.len()];
    let mut filled = 0;
    while filled < found.len() {
        match rustix::io::pread(file, &mut found[filled..], offset + filled as u64)? {
            0 => return Ok(false),
            count => filled += count,
        }
    }
    Ok(found == expected)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    const SIZE: u64 = 80 << 20;

    fn image() -> std::fs::File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        file
    }

    fn signatures_of(file: std::fs::File) -> Vec<&'static str> {
        find_signatures(&OwnedFd::from(file), SIZE).unwrap()
    }

    #[test]
    fn every_mark_is_seen_where_it_stands() {
        for mark in MARKS {
            let mut file = image();
            let from = if mark.offset < 0 { SeekFrom::End(mark.offset) } else { SeekFrom::Start(mark.offset as u64) };
            file.seek(from).unwrap();
            file.write_all(mark.bytes).unwrap();
            assert!(signatures_of(file).contains(&mark.content), "{}", mark.content);
        }
    }

    #[test]
    fn swap_is_seen_whatever_the_page_size() {
        for kib in [4u64, 8, 16, 32, 64] {
            let mut file = image();
            file.seek(SeekFrom::Start(kib * 1024 - 10)).unwrap();
            file.write_all(b"SWAPSPACE2").unwrap();
            assert!(signatures_of(file).iter().any(|content| content.starts_with("swap")), "{kib} KiB");
        }
    }

    #[test]
    fn an_empty_device_holds_nothing_and_a_short_one_is_no_error() {
        assert!(signatures_of(image()).is_empty());
        let tiny = tempfile::tempfile().unwrap();
        tiny.set_len(100).unwrap();
        assert!(find_signatures(&OwnedFd::from(tiny), 100).unwrap().is_empty());
    }
}
