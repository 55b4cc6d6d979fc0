//! Journal of writes that belong together, saved before they are made: those of a row of an array
//! with a lost member, which could not be reconstructed if only a part of them were made, and the
//! ledger's. It is at the end of the file and holds the last group. The next server repeats these
//! writes, which changes nothing if they were made.
//!
//! A killed server's writes are in the file in the order in which it made them. After a crash of
//! the whole machine they may not be: the checksum shows whether the journal is complete.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{WriteSource, ZeroPolicy};
use crate::content::error;

const MAGIC: u64 = u64::from_le_bytes(*b"dwredo01");

/// Size of the header, bytes: the checksum, the number of writes, and each one's offset, length and
/// kind. It is one page, which a killed program writes completely or not at all.
const HEADER_BYTES: usize = 4096;
const FIXED_HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 24;
/// Largest number of writes.
const MAX_ENTRIES: usize = (HEADER_BYTES - FIXED_HEADER_BYTES) / ENTRY_BYTES;

/// Kinds of writes.
const KIND_DATA: u64 = 0;
const KIND_ALLOCATE: u64 = 1;
const KIND_DEALLOCATE: u64 = 2;

/// Position of the journal, and buffers to build it.
#[derive(Default)]
pub(super) struct WriteJournal {
    start: u64,
    /// Its header exists.
    has_header: bool,
    head: Vec<u8>,
    data: Vec<u8>,
}

/// A write to repeat: its offset and its data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JournalWrite {
    Data(u64, Vec<u8>),
    Zeros(u64, u64, ZeroPolicy),
}

impl JournalWrite {
    /// Returns the offset in the file and the content of the write.
    pub fn source(&self) -> (u64, WriteSource<'_>) {
        match self {
            JournalWrite::Data(offset, data) => (*offset, WriteSource::Data(data)),
            JournalWrite::Zeros(offset, bytes, policy) => (*offset, WriteSource::Zeros(*bytes, *policy)),
        }
    }
}

impl WriteJournal {
    /// Creates a journal that begins at this offset of a file.
    pub fn new(start: u64) -> WriteJournal {
        WriteJournal { start, ..WriteJournal::default() }
    }

    /// Saves these writes in place of any earlier ones.
    pub fn save_writes<'a>(
        &mut self,
        file: &File,
        writes: impl Iterator<Item = (u64, WriteSource<'a>)>,
    ) -> io::Result<()> {
        let WriteJournal { start, has_header, head, data } = self;
        head.clear();
        head.resize(FIXED_HEADER_BYTES, 0);
        data.clear();
        for (offset, source) in writes {
            let kind = match source {
                WriteSource::Data(bytes) => {
                    data.extend_from_slice(bytes);
                    KIND_DATA
                }
                WriteSource::Zeros(_, ZeroPolicy::Allocate) => KIND_ALLOCATE,
                WriteSource::Zeros(_, ZeroPolicy::Deallocate) => KIND_DEALLOCATE,
            };
            [offset, source.byte_count(), kind].iter().for_each(|word| head.extend_from_slice(&word.to_le_bytes()));
        }
        let count = (head.len() - FIXED_HEADER_BYTES) / ENTRY_BYTES;
        assert!(count <= MAX_ENTRIES, "an array has fewer members");
        head[16..24].copy_from_slice(&(count as u64).to_le_bytes());
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let sum = checksum(&head[16..], data);
        head[8..16].copy_from_slice(&sum.to_le_bytes());
        if !*has_header {
            // marks a file that is longer than its drives as one with a journal
            file.write_all_at(&MAGIC.to_le_bytes(), *start)?;
            *has_header = true;
        }
        file.write_all_at(data, *start + HEADER_BYTES as u64)?;
        file.write_all_at(head, *start)
    }

    /// Clears the journal, and deallocates its space.
    pub fn clear_journal(&mut self, file: &File) -> io::Result<()> {
        self.has_header = false;
        if file.metadata()?.len() <= self.start {
            return Ok(());
        }
        match file.set_len(self.start) {
            // a full btrfs cannot even deallocate: a header with a wrong checksum is an empty
            // journal too
            Err(full) if error::is_full(&full) && self.read_writes(file)?.is_empty() => Ok(()),
            Err(full) if error::is_full(&full) => file.write_all_at(&[0; 16], self.start + 8),
            result => result,
        }
    }

    /// Returns true if there is a journal, even an incomplete one.
    pub fn has_journal(&self, file: &File) -> bool {
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, self.start).is_ok() && magic == MAGIC.to_le_bytes()
    }

    /// Returns the saved writes; none if there are none, or not all of them, or one exceeds the
    /// space before the journal.
    pub fn read_writes(&self, file: &File) -> io::Result<Vec<JournalWrite>> {
        let len = file.metadata()?.len().saturating_sub(self.start);
        let Some(space) = len.checked_sub(HEADER_BYTES as u64) else { return Ok(Vec::new()) };
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, self.start)?;
        let words: Vec<u64> = head.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [magic, expected, count, entries @ ..] = &words[..] else { return Ok(Vec::new()) };
        let count = usize::try_from(*count).ok().filter(|count| *magic == MAGIC && *count <= MAX_ENTRIES);
        let Some(count) = count else { return Ok(Vec::new()) };
        let entries = &entries.as_chunks::<3>().0[..count];
        let lies_within =
            |[offset, bytes, _]: &[u64; 3]| offset.checked_add(*bytes).is_some_and(|end| end <= self.start);
        let of_data = entries.iter().filter(|entry| entry[2] == KIND_DATA);
        let bytes = of_data.clone().try_fold(0u64, |sum, entry| sum.checked_add(entry[1]));
        let Some(bytes) = bytes.filter(|bytes| *bytes <= space && entries.iter().all(lies_within)) else {
            return Ok(Vec::new());
        };
        let mut data = vec![0; bytes as usize];
        file.read_exact_at(&mut data, self.start + HEADER_BYTES as u64)?;
        if checksum(&head[16..FIXED_HEADER_BYTES + count * ENTRY_BYTES], &data) != *expected {
            return Ok(Vec::new());
        }
        let mut remaining = &data[..];
        let write = |[offset, bytes, kind]: &[u64; 3]| match *kind {
            KIND_DATA => {
                let (part, rest) = remaining.split_at(*bytes as usize);
                remaining = rest;
                JournalWrite::Data(*offset, part.to_vec())
            }
            KIND_ALLOCATE => JournalWrite::Zeros(*offset, *bytes, ZeroPolicy::Allocate),
            _ => JournalWrite::Zeros(*offset, *bytes, ZeroPolicy::Deallocate),
        };
        Ok(entries.iter().map(write).collect())
    }
}

/// Computes a checksum that shows whether the journal is complete; it does not protect against
/// manipulation.
fn checksum(head: &[u8], data: &[u8]) -> u64 {
    let mut sum = MAGIC;
    for part in [head, data] {
        let (words, rest) = part.as_chunks::<8>();
        let mut add = |word: u64| sum = (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| add(u64::from(*byte)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_complete_writes_and_nothing_else() {
        let file = tempfile::tempfile().unwrap();
        let mut journal = WriteJournal::new(10_000);
        assert!(journal.read_writes(&file).unwrap().is_empty());
        let long = vec![7; 5000];
        let writes = [
            (5, WriteSource::Data(&long)),
            (70, WriteSource::Zeros(30, ZeroPolicy::Allocate)),
            (9999, WriteSource::Data(b"x")),
        ];
        journal.save_writes(&file, [(1, WriteSource::Data(&long))].into_iter()).unwrap();
        journal.save_writes(&file, writes.into_iter()).unwrap();
        let wanted = [
            JournalWrite::Data(5, long.clone()),
            JournalWrite::Zeros(70, 30, ZeroPolicy::Allocate),
            JournalWrite::Data(9999, b"x".to_vec()),
        ];
        assert_eq!(journal.read_writes(&file).unwrap(), wanted);
        assert!(journal.has_journal(&file) && !WriteJournal::new(9_000).has_journal(&file));
        // each flipped bit and each truncation is detected
        for index in (10_000..10_096).chain([14_096, 19_000, 19_096]) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, index).unwrap();
            file.write_all_at(&[byte[0] ^ 64], index).unwrap();
            assert!(journal.read_writes(&file).unwrap().is_empty(), "{index}");
            file.write_all_at(&byte, index).unwrap();
        }
        assert_eq!(journal.read_writes(&file).unwrap(), wanted);
        let len = file.metadata().unwrap().len();
        file.set_len(len - 1).unwrap();
        assert!(journal.read_writes(&file).unwrap().is_empty());
        journal.clear_journal(&file).unwrap();
        assert!(!journal.has_journal(&file) && journal.read_writes(&file).unwrap().is_empty());
        // no write may exceed the space before the journal
        journal.save_writes(&file, [(9999, WriteSource::Data(b"xy"))].into_iter()).unwrap();
        assert!(journal.read_writes(&file).unwrap().is_empty());
    }
}
