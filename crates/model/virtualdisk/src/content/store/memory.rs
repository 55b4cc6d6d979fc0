//! Drives in memory: pages are allocated when they are written.

use super::ContentExtent;
use crate::content::error::{AccessError, ContentError, ShortWrite};

/// Size of a page, bytes: the usual write size of filesystems and databases, so that a random write
/// takes no more memory than it writes.
const PAGE_BYTES: usize = 4096;

/// Pages of a leaf: 32 MB of a drive by 64 KB of table.
const LEAF_PAGES: usize = 8192;

/// Size of a leaf without its pages, bytes.
const LEAF_BYTES: u64 = (LEAF_PAGES * size_of::<Option<MemoryPage>>()) as u64;

type MemoryPage = Box<[u8; PAGE_BYTES]>;

struct Leaf {
    pages: Vec<Option<MemoryPage>>,
    /// Allocated pages.
    present: usize,
}

/// All drives, and their memory limit.
pub(in crate::content) struct MemoryStore {
    drives: Vec<Vec<Option<Box<Leaf>>>>,
    used_bytes: u64,
    max_bytes: u64,
}

/// Returns the position of a byte: leaf, page in it, byte in that.
#[inline]
fn locate_byte(offset: u64) -> (usize, usize, usize) {
    let page = offset / PAGE_BYTES as u64;
    ((page / LEAF_PAGES as u64) as usize, (page % LEAF_PAGES as u64) as usize, (offset % PAGE_BYTES as u64) as usize)
}

impl MemoryStore {
    /// Creates drives of these sizes, which use at most `limit` bytes together.
    pub fn new(bytes: &[u64], limit: Option<u64>) -> Result<MemoryStore, ContentError> {
        let mut drives = Vec::new();
        for bytes in bytes {
            let leaves = bytes.div_ceil((PAGE_BYTES * LEAF_PAGES) as u64);
            let mut table = Vec::new();
            let reserved = usize::try_from(leaves).ok().and_then(|n| table.try_reserve_exact(n).ok());
            reserved.ok_or(ContentError::NoMemory(*bytes))?;
            table.resize_with(leaves as usize, || None);
            drives.push(table);
        }
        Ok(MemoryStore { drives, used_bytes: 0, max_bytes: limit.unwrap_or(u64::MAX) })
    }

    /// Returns the bytes used by pages and their tables.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns the bytes that may still be used.
    pub fn remaining_bytes(&self) -> u64 {
        self.max_bytes - self.used_bytes
    }

    /// Returns the largest memory that writing a range can take, bytes.
    pub fn max_write_cost(bytes: u64) -> u64 {
        (bytes / PAGE_BYTES as u64 + 2) * PAGE_BYTES as u64
            + (bytes / (PAGE_BYTES * LEAF_PAGES) as u64 + 2) * LEAF_BYTES
    }

    /// Returns the memory that writing a range takes if it contains no zeros, bytes.
    pub fn write_cost(&self, drive: usize, from: u64, bytes: u64) -> u64 {
        let (mut offset, mut cost) = (from, 0);
        let mut last = None;
        while offset < from + bytes {
            let (leaf, page, skip) = locate_byte(offset);
            let table = self.drives[drive][leaf].as_ref();
            cost += if table.is_none() && last != Some(leaf) { LEAF_BYTES } else { 0 };
            cost += if table.is_none_or(|t| t.pages[page].is_none()) { PAGE_BYTES as u64 } else { 0 };
            last = Some(leaf);
            offset += (PAGE_BYTES - skip) as u64;
        }
        cost
    }

    /// Reads bytes of a drive; unallocated pages read as zeros.
    #[inline]
    pub fn read(&self, drive: usize, from: u64, into: &mut [u8]) {
        let (mut offset, mut remaining) = (from, into);
        while !remaining.is_empty() {
            let (leaf, page, skip) = locate_byte(offset);
            let bytes = (PAGE_BYTES - skip).min(remaining.len());
            let (part, rest) = remaining.split_at_mut(bytes);
            match self.drives[drive][leaf].as_ref().and_then(|leaf| leaf.pages[page].as_ref()) {
                Some(page) => part.copy_from_slice(&page[skip..skip + bytes]),
                None => part.fill(0),
            }
            remaining = rest;
            offset += bytes as u64;
        }
    }

    /// Writes bytes to a drive, allocating pages up to the limit.
    #[inline]
    pub fn write(&mut self, drive: usize, from: u64, data: &[u8]) -> Result<(), ShortWrite> {
        let mut written_bytes = 0;
        while written_bytes < data.len() {
            let (leaf, page, skip) = locate_byte(from + written_bytes as u64);
            let bytes = (PAGE_BYTES - skip).min(data.len() - written_bytes);
            let data = &data[written_bytes..written_bytes + bytes];
            let page_data = self.drives[drive][leaf].as_mut().and_then(|leaf| leaf.pages[page].as_mut());
            match page_data {
                Some(page) => page[skip..skip + bytes].copy_from_slice(data),
                // zeros in an unallocated page are there already
                None if is_zero(data) => {}
                None => self
                    .allocate_page(drive, leaf, page, skip, data)
                    .ok_or(ShortWrite { written_bytes, reason: AccessError::NoSpace })?,
            }
            written_bytes += bytes;
        }
        Ok(())
    }

    /// Allocates a page with these data.
    fn allocate_page(&mut self, drive: usize, leaf: usize, page: usize, skip: usize, data: &[u8]) -> Option<()> {
        let table = &mut self.drives[drive][leaf];
        let cost = PAGE_BYTES as u64 + if table.is_none() { LEAF_BYTES } else { 0 };
        let used = self.used_bytes.checked_add(cost).filter(|used| *used <= self.max_bytes)?;
        let fresh = new_page(skip, data)?;
        let table = match table {
            Some(table) => table,
            None => {
                let mut pages = Vec::new();
                pages.try_reserve_exact(LEAF_PAGES).ok()?;
                pages.resize_with(LEAF_PAGES, || None);
                table.insert(Box::new(Leaf { pages, present: 0 }))
            }
        };
        table.pages[page] = Some(fresh);
        table.present += 1;
        assert!(table.present <= LEAF_PAGES, "{} pages in a leaf of {LEAF_PAGES}", table.present);
        self.used_bytes = used;
        Some(())
    }

    /// Zeroes a range and frees the pages that lie completely within it.
    pub fn write_zeros(&mut self, drive: usize, from: u64, bytes: u64) {
        let (mut offset, end) = (from, from + bytes);
        while offset < end {
            let (leaf, page, skip) = locate_byte(offset);
            let Some(table) = &mut self.drives[drive][leaf] else {
                offset = (leaf as u64 + 1) * (LEAF_PAGES * PAGE_BYTES) as u64;
                continue;
            };
            let bytes = ((PAGE_BYTES - skip) as u64).min(end - offset) as usize;
            if bytes == PAGE_BYTES {
                if table.pages[page].take().is_some() {
                    table.present -= 1;
                    self.used_bytes -= PAGE_BYTES as u64;
                }
                if table.present == 0 {
                    self.drives[drive][leaf] = None;
                    self.used_bytes -= LEAF_BYTES;
                }
            } else if let Some(page) = &mut table.pages[page] {
                page[skip..skip + bytes].fill(0);
            }
            offset += bytes as u64;
        }
    }

    /// Returns the data or hole that begins at `from`, at most `bytes` long.
    pub fn extent_at(&self, drive: usize, from: u64, bytes: u64) -> ContentExtent {
        let (mut offset, end) = (from, from + bytes);
        let mut kind = None;
        while offset < end {
            let (leaf, page, skip) = locate_byte(offset);
            let table = self.drives[drive][leaf].as_ref();
            let hole = table.is_none_or(|table| table.pages[page].is_none());
            if *kind.get_or_insert(hole) != hole {
                break;
            }
            offset += match table {
                Some(_) => (PAGE_BYTES - skip) as u64,
                None => ((LEAF_PAGES - page) * PAGE_BYTES - skip) as u64,
            };
        }
        ContentExtent { bytes: offset.min(end) - from, is_hole: kind.unwrap_or(true) }
    }
}

/// Returns a page with these data and zeros around them.
fn new_page(skip: usize, data: &[u8]) -> Option<MemoryPage> {
    let mut page = Vec::new();
    page.try_reserve_exact(PAGE_BYTES).ok()?;
    page.resize(skip, 0);
    page.extend_from_slice(data);
    page.resize(PAGE_BYTES, 0);
    page.into_boxed_slice().try_into().ok()
}

/// Returns whether all bytes are zero.
pub(in crate::content) fn is_zero(data: &[u8]) -> bool {
    let (lanes, rest) = data.as_chunks::<64>();
    let zero = |bytes: &[u8]| bytes.iter().fold(0, |union, byte| union | byte) == 0;
    lanes.iter().all(|lane| zero(lane)) && zero(rest)
}
