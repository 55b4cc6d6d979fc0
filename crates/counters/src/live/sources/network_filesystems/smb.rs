//! `/proc/fs/cifs/Stats`: what each SMB share has done. Kernels count operations and bytes; how long
//! an operation took only with CONFIG_CIFS_STATS2, which distributions leave out.

use crate::live::scan::{WordIter, lines, number};

/// What a share has done; `None` is what the kernel does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareStats<'a> {
    /// `\\server\share`.
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
    /// Operations that are neither read nor write nor flush.
    pub fn metadata(&self) -> Option<u64> {
        let data = self.reads?.saturating_add(self.writes?).saturating_add(self.flushes?);
        Some(self.operations?.saturating_sub(data))
    }
}

/// Reads the file, share by share.
pub fn parse<'a>(text: &'a [u8], mut found: impl FnMut(&ShareStats<'a>)) {
    let mut share: Option<ShareStats> = None;
    for line in lines(text) {
        if let Some(name) = heading(line) {
            share.take().iter().for_each(&mut found);
            share = Some(ShareStats { name, ..ShareStats::default() });
        } else if let Some(share) = &mut share {
            detail(line, share);
        }
    }
    share.iter().for_each(found);
}

/// `1) \\server\share`, perhaps with a word behind a tab. The name of a share may have blanks.
fn heading(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let blank = line.iter().position(|b| *b == b' ')?;
    number(line[..blank].strip_suffix(b")")?)?;
    let name = line[blank..].trim_ascii();
    let end = name.iter().position(|b| *b == b'\t').unwrap_or(name.len());
    Some(name[..end].trim_ascii_end()).filter(|name| name.starts_with(b"\\\\"))
}

fn detail(line: &[u8], share: &mut ShareStats) {
    let mut words = WordIter::new(line);
    let first = words.word().unwrap_or_default();
    match first {
        b"SMBs:" => share.operations = words.number().flatten(),
        b"Reads:" => share.reads = words.number().flatten(),
        b"Writes:" => share.writes = words.number().flatten(),
        b"Flushes:" => share.flushes = words.number().flatten(),
        // `Bytes read: 12  Bytes written: 34`
        b"Bytes" if words.word() == Some(b"read:") => {
            share.read_bytes = words.number().flatten();
            let (_, _) = (words.word(), words.word());
            share.write_bytes = words.number().flatten();
        }
        _ => {}
    }
}
