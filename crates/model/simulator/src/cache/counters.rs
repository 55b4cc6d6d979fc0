//! What a cache counts.

/// Totals of a cache from the beginning. Differences of two moments
/// ([`CacheCounters::since`]) are a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Reads answered, all of whose pages were here when they were come to.
    pub reads_hit: u64,
    /// Reads answered for which nothing was read, but some was under way already.
    pub reads_joined: u64,
    /// Reads answered for which a part was here or under way, and a part was read.
    pub reads_part: u64,
    /// Reads answered for which all was read.
    pub reads_missed: u64,
    /// Writes posted at once.
    pub writes_posted: u64,
    /// Writes posted after waiting for room.
    pub writes_waited: u64,
    /// Writes that were done below first.
    pub writes_through: u64,
    /// I/Os read below, and their blocks.
    pub read_ios: u64,
    /// Blocks read below, also those read ahead.
    pub blocks_read: u64,
    /// Blocks read ahead of those asked for.
    pub blocks_ahead: u64,
    /// Blocks read ahead that were asked for later.
    pub blocks_ahead_used: u64,
    /// Writes sent below: those through, and those of what was posted.
    pub write_ios: u64,
    /// Blocks written below.
    pub blocks_written: u64,
    /// Blocks that went below because they were dirty.
    pub blocks_flushed: u64,
    /// I/Os that carried them.
    pub flush_ios: u64,
    /// Blocks written again before they went below: writes that were saved.
    pub blocks_overwritten: u64,
    /// Posted pages that went below in the I/O of a neighbour.
    pub pages_merged: u64,
    /// Entries that gave way to others.
    pub evictions: u64,
    /// Blocks newer here than below, now; those on their way count.
    pub dirty_blocks: u64,
    /// Their integral over time, block ns.
    pub dirty_block_ns: u128,
    /// Blocks here now.
    pub held_blocks: u64,
    /// Requests waiting now.
    pub waiting: u64,
}

impl CacheCounters {
    /// What was added since an earlier moment; levels (`dirty_blocks`, `held_blocks`, `waiting`) as they are.
    pub fn since(&self, earlier: &CacheCounters) -> CacheCounters {
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

    /// Reads answered.
    pub fn reads(&self) -> u64 {
        self.reads_hit + self.reads_joined + self.reads_part + self.reads_missed
    }

    /// Writes answered.
    pub fn writes(&self) -> u64 {
        self.writes_posted + self.writes_waited + self.writes_through
    }

    /// Share of reads that found all of it here; NaN where none was asked.
    pub fn hit_share(&self) -> f64 {
        self.reads_hit as f64 / self.reads() as f64
    }
}
