//! Description of a cache, as plain data.

use crate::Ns;

/// Largest number of entries of a cache. A cache of more pages keeps several neighboring pages in one entry, which are
/// evicted together.
pub(super) const MAX_LINES: u64 = 1 << 20;

/// Largest number of pages of an entry: the bits of its masks.
pub(super) const MAX_LINE_PAGES: u64 = 64;

/// Description of a block cache: the host's file cache or a controller's.
///
/// A page is the unit of validity and dirtiness: requests are rounded out to whole pages, except a write-through, which
/// goes to the backing device as requested. Replacement is least recently used. It is exact up to 2^18 pages; a larger
/// cache keeps 2 to 64 neighboring pages in one entry that is evicted as a whole, up to 2^20 entries. A cache of more
/// than 2^24 pages uses larger pages, so it never needs more than about 100 MB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockCacheSpec {
    /// Size, bytes.
    pub bytes: u64,
    /// Blocks of a page; a power of two.
    pub page_blocks: u32,
    /// Read-ahead.
    pub read_ahead: CacheReadAhead,
    /// Number of sequential readers tracked; the least recently active are forgotten.
    pub streams: u32,
    /// True if the next run begins when the reader enters the last one; false if it begins only when the reader has
    /// reached the end of the last run, and waits.
    pub starts_early: bool,
    /// Largest read of missing blocks: longer requests are read piece by piece, each when the previous one has arrived,
    /// as by a kernel that copies from its file cache and faults. `None` means all at once.
    pub fault_blocks: Option<u32>,
    /// Completion of writes.
    pub write: WritePolicy,
    /// Share of the pages reserved for writes that are not yet on the backing device.
    pub reserve_for_writes: f64,
    /// True if blocks written through stay in the cache. Posted blocks always stay.
    pub allocate_on_write: bool,
    /// True if a posted write of a part of a page that is not cached waits until the page is read, as in file caches;
    /// otherwise the other blocks of the page count as known (a new part of a file, a page the size of a write).
    pub read_before_partial_write: bool,
}

/// Read-ahead of a cache. Lengths are rounded up to whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheReadAhead {
    /// No read-ahead.
    None,
    /// Every miss is read in a run of a fixed number of blocks, sequential or not.
    Fixed {
        /// Blocks of a run, including the requested ones.
        blocks: u32,
    },
    /// Read-ahead for sequential readers, in runs that double. With `from` equal to `to` all runs have one length.
    Doubling {
        /// Blocks of the first run.
        from: u32,
        /// Blocks of the longest run.
        to: u32,
    },
}

/// Completion of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WritePolicy {
    /// Write-through: complete when it is complete on the backing device.
    Through,
    /// Write-back: complete when it is in the cache (posted); flushed later.
    Back(WriteBackPolicy),
}

/// Policy of flushing posted writes. Shares are of the whole cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteBackPolicy {
    /// Share of dirty pages (including those being flushed) at which writers wait.
    pub dirty_limit: f64,
    /// Share of dirty pages (not yet being flushed) above which flushing begins; 0 means at once.
    pub flush_at: f64,
    /// Age at which a dirty page is flushed; `None` means never because of its age.
    pub flush_after: Option<Ns>,
    /// Interval of checking ages, so that pages that come of age between two checks are flushed together (Windows NT's
    /// lazy writer: once a second); 0 means continuously.
    pub flush_every: Ns,
    /// Largest flush of neighboring pages, blocks.
    pub coalesce_blocks: u32,
    /// Largest number of flushes in flight.
    pub flush_depth: u32,
    /// Order of flushing.
    pub order: FlushOrder,
    /// True if posted writes survive a power loss (battery, flash), so that a flush has nothing to wait for.
    pub survives_power_loss: bool,
}

/// Order of flushing dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushOrder {
    /// Ascending by address, then from the lowest again (C-LOOK).
    Address,
    /// The page dirty for longest first.
    Age,
}

impl Default for WriteBackPolicy {
    /// Linux: writers wait at 20 %, flushing begins at 10 % or after 30 s
    /// (Documentation/admin-guide/sysctl/vm.rst: `dirty_ratio`, `dirty_background_ratio`,
    /// `dirty_expire_centisecs`); length of runs and depth are our own choice.
    fn default() -> WriteBackPolicy {
        WriteBackPolicy {
            dirty_limit: 0.2,
            flush_at: 0.1,
            flush_after: Some(30_000_000_000),
            flush_every: 0,
            coalesce_blocks: 1024,
            flush_depth: 32,
            order: FlushOrder::Address,
            survives_power_loss: false,
        }
    }
}

impl WriteBackPolicy {
    /// Returns when a page that has been dirty since `since` is flushed because of its age.
    pub(super) fn due_time(&self, since: Ns) -> Option<Ns> {
        let due = since.saturating_add(self.flush_after?);
        Some(if self.flush_every == 0 { due } else { due.checked_next_multiple_of(self.flush_every).unwrap_or(due) })
    }

    /// Policy of a controller's battery-backed memory: all of it accepts writes, which are flushed at once. A power
    /// loss does no harm, so a page need not be flushed because of its age.
    pub fn battery_backed() -> WriteBackPolicy {
        WriteBackPolicy {
            dirty_limit: 1.0,
            flush_at: 0.0,
            flush_after: None,
            survives_power_loss: true,
            ..WriteBackPolicy::default()
        }
    }
}

impl Default for BlockCacheSpec {
    /// A file cache of 64 MB that reads up to 128 KB ahead (Linux: `read_ahead_kb`).
    fn default() -> BlockCacheSpec {
        BlockCacheSpec {
            bytes: 64 << 20,
            page_blocks: 8,
            read_ahead: CacheReadAhead::Doubling { from: 32, to: 256 },
            streams: 32,
            starts_early: true,
            fault_blocks: None,
            write: WritePolicy::Back(WriteBackPolicy::default()),
            reserve_for_writes: 0.0,
            allocate_on_write: true,
            read_before_partial_write: false,
        }
    }
}

/// Invalid value in a [`BlockCacheSpec`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CacheSpecError {
    /// Invalid page size.
    #[error("page_blocks is {0}; expected a power of two from 1 to 32768")]
    Page(u32),
    /// Cache too small.
    #[error("{bytes} bytes are less than four pages of {page_bytes} bytes")]
    Small {
        /// Size of the cache, bytes.
        bytes: u64,
        /// Size of a page, bytes.
        page_bytes: u64,
    },
    /// Share out of range.
    #[error("{name} is {value}; expected a share from {from} to {to}")]
    Share {
        /// Name of the share.
        name: &'static str,
        /// Value of the share.
        value: f64,
        /// Smallest valid value.
        from: f64,
        /// Largest valid value.
        to: f64,
    },
    /// A number that must not be 0.
    #[error("{0} is 0; expected at least 1")]
    Zero(&'static str),
    /// First run longer than the last.
    #[error("read-ahead doubles from {from} to {to} blocks: the first run must not be longer than the last")]
    Doubling {
        /// Blocks of the first run.
        from: u32,
        /// Blocks of the longest run.
        to: u32,
    },
}

impl BlockCacheSpec {
    /// Checks the description.
    ///
    /// # Errors
    ///
    /// A page that is no power of two, a size of less than four pages, a share out of its range, a length or number of
    /// 0.
    pub fn check_limits(&self) -> Result<(), CacheSpecError> {
        if !self.page_blocks.is_power_of_two() || self.page_blocks > 1 << 15 {
            return Err(CacheSpecError::Page(self.page_blocks));
        }
        if self.bytes / self.page_bytes() < 4 {
            return Err(CacheSpecError::Small { bytes: self.bytes, page_bytes: self.page_bytes() });
        }
        check_share("reserve_for_writes", self.reserve_for_writes, 0.0, 0.9)?;
        match self.read_ahead {
            CacheReadAhead::None => {}
            CacheReadAhead::Fixed { blocks } => check_at_least_one("blocks of read-ahead", blocks)?,
            CacheReadAhead::Doubling { from, to } => {
                check_at_least_one("blocks of read-ahead", from)?;
                check_at_least_one("streams", self.streams)?;
                if from > to {
                    return Err(CacheSpecError::Doubling { from, to });
                }
            }
        }
        if let Some(blocks) = self.fault_blocks {
            check_at_least_one("fault_blocks", blocks)?;
        }
        if let WritePolicy::Back(back) = &self.write {
            check_share("dirty_limit", back.dirty_limit, 0.0, 1.0)?;
            check_share("flush_at", back.flush_at, 0.0, back.dirty_limit)?;
            check_at_least_one("coalesce_blocks", back.coalesce_blocks)?;
            check_at_least_one("flush_depth", back.flush_depth)?;
        }
        Ok(())
    }

    pub(super) fn page_bytes(&self) -> u64 {
        u64::from(self.page_blocks) * crate::io::BLOCK_BYTES
    }
}

fn check_share(name: &'static str, value: f64, from: f64, to: f64) -> Result<(), CacheSpecError> {
    // also false for NaN
    if (from..=to).contains(&value) { Ok(()) } else { Err(CacheSpecError::Share { name, value, from, to }) }
}

fn check_at_least_one(name: &'static str, value: u32) -> Result<(), CacheSpecError> {
    if value == 0 { Err(CacheSpecError::Zero(name)) } else { Ok(()) }
}

/// Sizes that follow from a [`BlockCacheSpec`], in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheSizes {
    /// Blocks of a page, as a power of two.
    pub page_shift: u32,
    /// Pages of an entry, as a power of two.
    pub line_shift: u32,
    /// Pages of the cache.
    pub pages: u64,
    /// Largest number of entries.
    pub lines: u64,
}

impl CacheSizes {
    /// Computes the sizes. Invalid descriptions are replaced by the nearest valid one; `check_limits` reports them.
    pub fn from_spec(spec: &BlockCacheSpec) -> CacheSizes {
        let mut page_shift = spec.page_blocks.clamp(1, 1 << 15).ilog2();
        while (spec.bytes >> (page_shift + 9)) > MAX_LINES / 4 * MAX_LINE_PAGES && page_shift < 40 {
            page_shift += 1;
        }
        let pages = (spec.bytes >> (page_shift + 9)).max(4);
        let mut line_shift = 0;
        while pages >> line_shift > MAX_LINES / 4 && 1 << line_shift < MAX_LINE_PAGES {
            line_shift += 1;
        }
        CacheSizes { page_shift, line_shift, pages, lines: pages.min(MAX_LINES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_bounded() {
        let of = |bytes, page_blocks| {
            CacheSizes::from_spec(&BlockCacheSpec { bytes, page_blocks, ..BlockCacheSpec::default() })
        };
        let sizes = |page_shift, line_shift, pages, lines| CacheSizes { page_shift, line_shift, pages, lines };
        assert_eq!(of(64 << 20, 8), sizes(3, 0, 1 << 14, 1 << 14));
        assert_eq!(of(1 << 30, 8), sizes(3, 0, 1 << 18, 1 << 18));
        assert_eq!(of(4 << 30, 8), sizes(3, 2, 1 << 20, 1 << 20));
        assert_eq!(of(64 << 30, 8), sizes(3, 6, 1 << 24, 1 << 20));
        assert_eq!(of(1 << 40, 8), sizes(7, 6, 1 << 24, 1 << 20));
        assert_eq!(of(64 << 30, 1), sizes(3, 6, 1 << 24, 1 << 20));
        let max_size = of(u64::MAX, 1);
        assert!(max_size.pages <= 1 << 24 && max_size.lines == 1 << 20, "{max_size:?}");
    }

    #[test]
    fn errors_name_the_invalid_value() {
        let good = BlockCacheSpec::default();
        assert_eq!(good.check_limits(), Ok(()));
        let back = WriteBackPolicy::default();
        let with = |back| BlockCacheSpec { write: WritePolicy::Back(back), ..good };
        let table = [
            (BlockCacheSpec { page_blocks: 0, ..good }, "page_blocks is 0; expected a power of two from 1 to 32768"),
            (BlockCacheSpec { page_blocks: 12, ..good }, "page_blocks is 12; expected a power"),
            (BlockCacheSpec { bytes: 16383, ..good }, "16383 bytes are less than four pages of 4096 bytes"),
            (BlockCacheSpec { reserve_for_writes: 1.0, ..good }, "reserve_for_writes is 1; expected a share from 0"),
            (BlockCacheSpec { reserve_for_writes: f64::NAN, ..good }, "reserve_for_writes is NaN"),
            (BlockCacheSpec { read_ahead: CacheReadAhead::Fixed { blocks: 0 }, ..good }, "blocks of read-ahead is 0"),
            (
                BlockCacheSpec { read_ahead: CacheReadAhead::Doubling { from: 9, to: 8 }, ..good },
                "doubles from 9 to 8 blocks",
            ),
            (BlockCacheSpec { streams: 0, ..good }, "streams is 0; expected at least 1"),
            (with(WriteBackPolicy { dirty_limit: 1.5, ..back }), "dirty_limit is 1.5; expected a share from 0 to 1"),
            (with(WriteBackPolicy { flush_at: 0.3, ..back }), "flush_at is 0.3; expected a share from 0 to 0.2"),
            (with(WriteBackPolicy { coalesce_blocks: 0, ..back }), "coalesce_blocks is 0"),
            (with(WriteBackPolicy { flush_depth: 0, ..back }), "flush_depth is 0"),
        ];
        for (spec, expected) in table {
            let error = spec.check_limits().expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
