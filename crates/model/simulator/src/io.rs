//! Requests to a drive, an array or a volume.

/// Size of a block, bytes: all addresses in this crate count blocks of 512 bytes.
pub use diskwright_base::units::BLOCK_BYTES;

use crate::Ns;

/// A request for `blocks` blocks of 512 bytes, starting at `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Io {
    /// First block.
    pub first: u64,
    /// Number of blocks; 0 only for requests without data.
    pub blocks: u32,
    /// True for a write.
    pub write: bool,
}

impl Io {
    /// A read.
    pub fn read(first: u64, blocks: u32) -> Io {
        Io { first, blocks, write: false }
    }

    /// A write.
    pub fn write(first: u64, blocks: u32) -> Io {
        Io { first, blocks, write: true }
    }

    /// The block after the last one.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.blocks))
    }
}

/// Transfer time of `bytes` at a rate in bytes/s, to the nearest ns; rate 0 is no limit. Computed over all bytes at
/// once, since the time of a single byte would be rounded: at 150 GB/s it is 6.67 ps, and whole picoseconds would be 11
/// % too fast.
pub(crate) fn transfer_time_ns(bytes: u64, rate: u64) -> Ns {
    if rate == 0 {
        return 0;
    }
    let rate = u128::from(rate);
    ((u128::from(bytes) * 1_000_000_000 + rate / 2) / rate) as Ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_times_are_rounded_to_the_nearest_ns() {
        // 1 MiB: 1,048,576 B at 150 GB/s are 6990.5 ns, at 3 TB/s 349.5 ns, at 133 MB/s 7.884 ms
        assert_eq!(transfer_time_ns(1 << 20, 150_000_000_000), 6_991);
        assert_eq!(transfer_time_ns(1 << 20, 3_000_000_000_000), 350);
        assert_eq!(transfer_time_ns(1 << 20, 133_000_000), 7_884_030);
        // the largest request, and no limit
        assert_eq!(transfer_time_ns(u64::from(u32::MAX) * BLOCK_BYTES, 1_000_000_000), 2_199_023_255_040);
        assert_eq!(transfer_time_ns(1 << 20, 0), 0);
    }
}
