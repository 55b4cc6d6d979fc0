//! `/proc/fs/cifs/Stats`: operations of each SMB share. Kernels count operations and bytes; durations only with
//! CONFIG_CIFS_STATS2, which distributions leave out. Counts of operations have 32 bits, which the kernel prints with a
//! sign (fs/smb/client/smb2ops.c, smb2_print_stats).

use crate::live::text_scan::{WordIter, parse_number, text_lines};

/// Largest unsigned 32-bit difference that counts as positive; larger ones are slightly negative.
const MAX_POSITIVE: u64 = (1 << 32) - (1 << 20);

/// Statistics of a share; a number is `None` if the kernel does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareStats<'a> {
    /// Name of the share: `\\server\share`.
    pub name: &'a [u8],
    /// All operations.
    pub operations: Option<u64>,
    /// Reads.
    pub reads: Option<u64>,
    /// Writes.
    pub writes: Option<u64>,
    /// Flushes.
    pub flushes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
}

impl ShareStats<'_> {
    /// Operations that are neither read nor write nor flush, modulo 2^32 like the counts.
    pub fn metadata_operations(&self) -> Option<u64> {
        let data = self.reads?.wrapping_add(self.writes?).wrapping_add(self.flushes?);
        let metadata = u64::from(self.operations?.wrapping_sub(data) as u32);
        // the kernel reads the total shortly before its parts, so it may be a little less than their sum
        Some(if metadata > MAX_POSITIVE { 0 } else { metadata })
    }
}

/// Parses the file, share by share.
pub fn parse_shares<'a>(text: &'a [u8], mut found: impl FnMut(&ShareStats<'a>)) {
    let mut share: Option<ShareStats> = None;
    for line in text_lines(text) {
        if let Some(name) = parse_heading(line) {
            share.take().iter().for_each(&mut found);
            share = Some(ShareStats { name, ..ShareStats::default() });
        } else if let Some(share) = &mut share {
            parse_detail(line, share);
        }
    }
    share.iter().for_each(found);
}

/// Parses `1) \\server\share`, possibly with a word after a tab. The name of a share may contain blanks.
fn parse_heading(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let blank = line.iter().position(|b| *b == b' ')?;
    parse_number(line[..blank].strip_suffix(b")")?)?;
    let name = line[blank..].trim_ascii();
    let end = name.iter().position(|b| *b == b'\t').unwrap_or(name.len());
    Some(name[..end].trim_ascii_end()).filter(|name| name.starts_with(b"\\\\"))
}

/// Parses the next word as a count of 32 bits: above 2^31 it is printed as a negative number.
fn parse_count(words: &mut WordIter) -> Option<u64> {
    let word = words.next_word()?;
    match word.strip_prefix(b"-") {
        Some(below) => parse_number(below).filter(|n| (1..=1 << 31).contains(n)).map(|n| (1 << 32) - n),
        None => parse_number(word),
    }
}

/// Parses the bytes of `Reads:  10 Bytes: 4096`, where version 1 of the protocol has them (smb1ops.c,
/// cifs_print_stats).
fn parse_trailing_bytes(words: &mut WordIter) -> Option<u64> {
    if words.next_word()? == b"Bytes:" { words.next_number().flatten() } else { None }
}

fn parse_detail(line: &[u8], share: &mut ShareStats) {
    let mut words = WordIter::new(line);
    let first = words.next_word().unwrap_or_default();
    match first {
        b"SMBs:" => share.operations = parse_count(&mut words),
        b"Reads:" => {
            share.reads = parse_count(&mut words);
            share.read_bytes = parse_trailing_bytes(&mut words).or(share.read_bytes);
        }
        b"Writes:" => {
            share.writes = parse_count(&mut words);
            share.write_bytes = parse_trailing_bytes(&mut words).or(share.write_bytes);
        }
        b"Flushes:" => share.flushes = parse_count(&mut words),
        // `Bytes read: 12  Bytes written: 34`
        b"Bytes" if words.next_word() == Some(b"read:") => {
            share.read_bytes = words.next_number().flatten();
            let (_, _) = (words.next_word(), words.next_word());
            share.write_bytes = words.next_number().flatten();
        }
        _ => {}
    }
}
