//! Counters of a cache.

/// Totals of a cache since the beginning. The difference between two times ([`CacheCounters::added_since`]) is a
/// sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Reads completed that found every page in the cache.
    pub reads_hit: u64,
    /// Reads completed that read nothing themselves, but waited for reads in flight.
    pub reads_joined: u64,
    /// Reads completed for which some pages were cached or in flight, and others were read.
    pub reads_part: u64,
    /// Reads completed for which everything was read.
    pub reads_missed: u64,
    /// Writes posted at once.
    pub writes_posted: u64,
    /// Writes posted after waiting for space.
    pub writes_waited: u64,
    /// Writes that waited for their completion below.
    pub writes_through: u64,
    /// Reads sent below.
    pub read_ios: u64,
    /// Blocks read below, including read-ahead.
    pub blocks_read: u64,
    /// Blocks read ahead.
    pub blocks_ahead: u64,
    /// Blocks read ahead that were requested later.
    pub blocks_ahead_used: u64,
    /// Writes sent below: write-through and flushes.
    pub write_ios: u64,
    /// Blocks written below.
    pub blocks_written: u64,
    /// Dirty blocks flushed.
    pub blocks_flushed: u64,
    /// Writes that flushed dirty blocks.
    pub flush_ios: u64,
    /// Blocks overwritten before they were flushed: writes saved.
    pub blocks_overwritten: u64,
    /// Dirty pages flushed in the I/O of a neighbour.
    pub pages_merged: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Current dirty blocks, including those being flushed.
    pub dirty_blocks: u64,
    /// Integral of the dirty blocks over time, block ns.
    pub dirty_block_ns: u128,
    /// Current blocks held.
    pub held_blocks: u64,
    /// Current waiting requests.
    pub waiting: u64,
}

impl CacheCounters {
    /// Returns the difference to an earlier time; levels (`dirty_blocks`, `held_blocks`, `waiting`) are current.
    pub fn added_since(&self, earlier: &CacheCounters) -> CacheCounters {
        CacheCounters {
            reads_hit: self.reads_hit - earlier.reads_hit,
            reads_joined: self.reads_joined - earlier.reads_joined,
            reads_part: self.reads_part - earlier.reads_part,
            reads_missed: self.reads_missed - earlier.reads_missed,
            writes_posted: self.writes_posted - earlier.writes_posted,
            writes_waited: self.writes_waited - earlier.writes_waited,
            writes_through: self.writes_through - earlier.writes_through,
            read_ios: self.read_ios - earlier.read_ios,
            blocks_read: self.blocks_read - earlier.blocks_read,
            blocks_ahead: self.blocks_ahead - earlier.blocks_ahead,
            blocks_ahead_used: self.blocks_ahead_used - earlier.blocks_ahead_used,
            write_ios: self.write_ios - earlier.write_ios,
            blocks_written: self.blocks_written - earlier.blocks_written,
            blocks_flushed: self.blocks_flushed - earlier.blocks_flushed,
            flush_ios: self.flush_ios - earlier.flush_ios,
            blocks_overwritten: self.blocks_overwritten - earlier.blocks_overwritten,
            pages_merged: self.pages_merged - earlier.pages_merged,
            evictions: self.evictions - earlier.evictions,
            dirty_block_ns: self.dirty_block_ns - earlier.dirty_block_ns,
            ..*self
        }
    }

    /// Number of reads completed.
    pub fn total_reads(&self) -> u64 {
        self.reads_hit + self.reads_joined + self.reads_part + self.reads_missed
    }

    /// Number of writes completed.
    pub fn total_writes(&self) -> u64 {
        self.writes_posted + self.writes_waited + self.writes_through
    }

    /// Share of reads that found everything in the cache; NaN if there were none.
    pub fn hit_share(&self) -> f64 {
        self.reads_hit as f64 / self.total_reads() as f64
    }
}
