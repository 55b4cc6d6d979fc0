//! Number of accessed blocks, and how uneven the accesses are, from a bounded sample.
//!
//! The disk is divided into blocks of 4 KiB. A block is followed if the hash of its number is below a threshold. When
//! too many blocks are followed, the threshold is halved and the blocks above it are dropped. So the followed blocks
//! are an unbiased sample of all accessed blocks, and their number, divided by the share of hashes below the threshold,
//! estimates the total. As long as no block was dropped, the counts are exact.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Size of a block, bytes.
const BLOCK_BYTES: u64 = 4096;
/// Largest number of followed blocks, with which the error of an estimate is about 1 %.
const MAX_BLOCKS: usize = 1 << 14;
/// Largest number of blocks of one request that are counted (16 MiB): no disk accepts more at once.
const MAX_BLOCKS_PER_REQUEST: u64 = 4096;

/// Shares of the accessed blocks for which [`Footprint::hot_access_shares`] is given.
pub const HOT_SHARES: [f64; 4] = [0.01, 0.05, 0.1, 0.2];

/// Accessed part of a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Distinct bytes accessed by reads and writes, in whole blocks of 4 KiB;
    /// an estimate if it is not exact.
    pub bytes: u64,
    /// True if every block was counted.
    pub is_exact: bool,
    /// Share of all block accesses that went to the hottest 1, 5, 10 and 20 %
    /// of the accessed blocks ([`HOT_SHARES`]).
    pub hot_access_shares: Option<[f64; 4]>,
}

/// Hasher for keys that are already hashes.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }
    fn write_u64(&mut self, number: u64) {
        // the map uses the upper bits to distinguish entries of a slot, but
        // sampling makes them equal, so the halves are swapped
        self.0 = number.rotate_left(32);
    }
}

/// Sample of accessed blocks with their access counts.
pub(super) struct BlockFollower {
    /// Number of accesses by the hash of the block.
    blocks: HashMap<u64, u64, BuildHasherDefault<IdentityHasher>>,
    /// A block is followed if this many upper bits of its hash are 0.
    dropped_bits: u32,
    /// Blocks of a very large request were not counted.
    is_truncated: bool,
}

/// Hashes a block of a device, so that each input bit changes half of the output (two rounds of shift and
/// multiplication, after Steele and Vigna).
fn hash_block(device: u16, block: u64) -> u64 {
    // the first multiplication separates neighbors: mixing alone would sample rows of them unevenly
    let mut z = (block ^ u64::from(device) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn is_hash_followed(hash: u64, dropped_bits: u32) -> bool {
    dropped_bits == 0 || hash >> (64 - dropped_bits) == 0
}

impl BlockFollower {
    pub(super) fn new() -> BlockFollower {
        BlockFollower { blocks: HashMap::default(), dropped_bits: 0, is_truncated: false }
    }

    pub(super) fn push(&mut self, device: u16, offset: u64, length: u32) {
        if length == 0 {
            return;
        }
        let first = offset / BLOCK_BYTES;
        let last = offset.saturating_add(u64::from(length) - 1) / BLOCK_BYTES;
        self.is_truncated |= last - first >= MAX_BLOCKS_PER_REQUEST;
        for block in first..=last.min(first + MAX_BLOCKS_PER_REQUEST - 1) {
            let hash = hash_block(device, block);
            if is_hash_followed(hash, self.dropped_bits) {
                *self.blocks.entry(hash).or_default() += 1;
            }
        }
        self.drop_excess_blocks();
    }

    fn drop_excess_blocks(&mut self) {
        while self.blocks.len() > MAX_BLOCKS {
            self.dropped_bits += 1;
            let dropped_bits = self.dropped_bits;
            self.blocks.retain(|hash, _| is_hash_followed(*hash, dropped_bits));
        }
    }

    pub(super) fn merge_follower(&mut self, other: &BlockFollower) {
        self.dropped_bits = self.dropped_bits.max(other.dropped_bits);
        self.is_truncated |= other.is_truncated;
        let dropped_bits = self.dropped_bits;
        self.blocks.retain(|hash, _| is_hash_followed(*hash, dropped_bits));
        for (hash, accesses) in &other.blocks {
            if is_hash_followed(*hash, dropped_bits) {
                *self.blocks.entry(*hash).or_default() += accesses;
            }
        }
        self.drop_excess_blocks();
    }

    pub(super) fn footprint(&self) -> Footprint {
        let mut accesses: Vec<u64> = self.blocks.values().copied().collect();
        accesses.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = accesses.iter().sum();
        let hottest_share = |share: f64| {
            let count = ((accesses.len() as f64 * share).round() as usize).max(1);
            accesses[..count.min(accesses.len())].iter().sum::<u64>() as f64 / total as f64
        };
        let block_count = (accesses.len() as u64).checked_shl(self.dropped_bits).unwrap_or(u64::MAX);
        let bytes = block_count.saturating_mul(BLOCK_BYTES);
        let hot_access_shares = (!accesses.is_empty()).then(|| HOT_SHARES.map(hottest_share));
        Footprint { bytes, is_exact: self.dropped_bits == 0 && !self.is_truncated, hot_access_shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_are_counted_exactly() {
        let mut touched = BlockFollower::new();
        touched.push(0, 0, 4096);
        touched.push(0, 512, 512);
        touched.push(0, 4095, 2);
        touched.push(1, 0, 8192);
        touched.push(0, 9999, 0);
        let footprint = touched.footprint();
        assert_eq!((footprint.bytes, footprint.is_exact), (4 * 4096, true));
    }

    #[test]
    fn many_blocks_are_estimated_within_two_per_cent() {
        let mut touched = BlockFollower::new();
        for block in 0..1_000_000u64 {
            touched.push(0, block * BLOCK_BYTES, 4096);
        }
        let footprint = touched.footprint();
        assert!(touched.blocks.len() <= MAX_BLOCKS && !footprint.is_exact);
        assert!((footprint.bytes as f64 / (1e6 * BLOCK_BYTES as f64) - 1.0).abs() < 0.02, "{}", footprint.bytes);
        // every block was accessed once: the hottest tenth has a tenth of the accesses
        let [_, _, tenth, _] = footprint.hot_access_shares.expect("touched");
        assert!((tenth - 0.1).abs() < 0.01);
    }

    #[test]
    fn hot_blocks_get_their_share() {
        let mut touched = BlockFollower::new();
        for round in 0..1000u64 {
            touched.push(0, round * BLOCK_BYTES, 4096);
            // half of all accesses go to 1 % of the blocks
            touched.push(0, round % 10 * BLOCK_BYTES, 4096);
        }
        let [hundredth, ..] = touched.footprint().hot_access_shares.expect("touched");
        assert!((hundredth - 0.505).abs() < 0.01, "{hundredth}");
    }

    #[test]
    fn merging_equals_following_together() {
        let (mut one, mut two, mut both) = (BlockFollower::new(), BlockFollower::new(), BlockFollower::new());
        for block in 0..100_000u64 {
            let part = if block < 99_000 { &mut one } else { &mut two };
            part.push((block % 3) as u16, block * BLOCK_BYTES, 4096);
            both.push((block % 3) as u16, block * BLOCK_BYTES, 4096);
        }
        two.merge_follower(&one);
        assert_eq!(two.footprint(), both.footprint());
    }

    #[test]
    fn a_huge_request_is_cut() {
        let mut touched = BlockFollower::new();
        for _ in 0..1000 {
            touched.push(0, u64::MAX - 5, u32::MAX);
            touched.push(0, 0, u32::MAX);
        }
        assert!(!touched.footprint().is_exact);
    }
}
