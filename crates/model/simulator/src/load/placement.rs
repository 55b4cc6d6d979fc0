//! Block addresses and lengths of requests: areas of a target, and generators that draw from them.

use diskwright_base::Rng;
use diskwright_base::zipf::{Zipf, scatter_rank};

use crate::io::BLOCK_BYTES;
use crate::load::{AccessPattern, LoadError, Region, RequestSizes, TargetPart};

/// Number of normal draws that may fall outside of the part before the mean, clamped to the part, is used.
const MAX_NORMAL_DRAWS: usize = 64;

/// Largest number of sequential streams in a part.
const MAX_STREAMS: u32 = 1 << 20;

/// Largest request, bytes.
const MAX_REQUEST_BYTES: u64 = 1 << 30;

/// Returns the size of a target in blocks.
pub(super) fn find_target_blocks(target: u16, target_blocks: &[u64], item: &str) -> Result<u64, LoadError> {
    target_blocks
        .get(usize::from(target))
        .copied()
        .ok_or_else(|| LoadError::new(item, format!("target {target} of {}, counted from 0", target_blocks.len())))
}

impl Region {
    /// Returns first block and number of blocks of the region.
    pub(super) fn resolve_blocks(&self, target_blocks: &[u64], item: &str) -> Result<(u64, u64), LoadError> {
        resolve_part(&self.part, find_target_blocks(self.target, target_blocks, item)?)
            .map_err(|LoadError { reason, .. }| LoadError::new(item, reason))
    }
}

/// Returns first block and number of blocks of a part of a target.
pub(super) fn resolve_part(part: &TargetPart, target_blocks: u64) -> Result<(u64, u64), LoadError> {
    let (from, blocks) = match *part {
        TargetPart::All => (0, target_blocks),
        TargetPart::Bytes { from, bytes } => (from / BLOCK_BYTES, bytes / BLOCK_BYTES),
        TargetPart::Share { from, to } => {
            if !((0.0..=1.0).contains(&from) && (0.0..=1.0).contains(&to) && from < to) {
                return Err(LoadError::new("part", format!("{from} to {to} is not an area: 0 <= from < to <= 1")));
            }
            let first = (from * target_blocks as f64) as u64;
            (first, (to * target_blocks as f64) as u64 - first)
        }
    };
    if blocks == 0 || from.checked_add(blocks).is_none_or(|end| end > target_blocks) {
        let reason = format!(
            "{blocks} blocks from block {from} do not fit in a target of {target_blocks}; an area needs at least one"
        );
        return Err(LoadError::new("part", reason));
    }
    Ok((from, blocks))
}

/// Distribution of request lengths, blocks.
#[derive(Clone, Debug)]
pub(super) enum LengthDistribution {
    One(u32),
    /// Lengths, each with the cumulative share up to it; the last share is 1.
    Weighted(Vec<(u32, f64)>),
    Uniform(u32, u32),
}

impl LengthDistribution {
    pub(super) fn new(sizes: &RequestSizes, item: &str) -> Result<LengthDistribution, LoadError> {
        let blocks = |bytes: u64| {
            let is_valid = bytes.is_multiple_of(BLOCK_BYTES) && (BLOCK_BYTES..=MAX_REQUEST_BYTES).contains(&bytes);
            let reason = || format!("{bytes} bytes; expected a multiple of 512, from 512 to 1 GiB");
            if is_valid { Ok((bytes / BLOCK_BYTES) as u32) } else { Err(LoadError::new(item, reason())) }
        };
        match sizes {
            RequestSizes::One(bytes) => Ok(LengthDistribution::One(blocks(*bytes)?)),
            RequestSizes::Uniform { from, to } => {
                let (from, to) = (blocks(*from)?, blocks(*to)?);
                if from > to {
                    return Err(LoadError::new(item, "the smaller size comes first"));
                }
                Ok(LengthDistribution::Uniform(from, to))
            }
            RequestSizes::Weighted(sizes) => {
                let up_to = cumulative_shares(sizes.iter().map(|s| s.1), item)?;
                let sizes = sizes.iter().map(|s| blocks(s.0)).collect::<Result<Vec<_>, _>>()?;
                Ok(LengthDistribution::Weighted(sizes.into_iter().zip(up_to).collect()))
            }
        }
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        match self {
            LengthDistribution::One(blocks) => *blocks,
            LengthDistribution::Uniform(from, to) => from + rng.next_below(u64::from(to - from) + 1) as u32,
            LengthDistribution::Weighted(sizes) => {
                let share = rng.next_f64();
                let index = sizes.iter().position(|s| share < s.1).unwrap_or(sizes.len() - 1);
                sizes[index].0
            }
        }
    }

    pub(super) fn min_blocks(&self) -> u32 {
        match self {
            LengthDistribution::One(blocks) => *blocks,
            LengthDistribution::Uniform(from, _) => *from,
            LengthDistribution::Weighted(sizes) => sizes.iter().map(|s| s.0).min().unwrap_or(1),
        }
    }

    pub(super) fn max_blocks(&self) -> u32 {
        match self {
            LengthDistribution::One(blocks) => *blocks,
            LengthDistribution::Uniform(_, to) => *to,
            LengthDistribution::Weighted(sizes) => sizes.iter().map(|s| s.0).max().unwrap_or(1),
        }
    }
}

/// Returns the cumulative shares of weights; the last is 1, which is above any share that can be drawn.
pub(super) fn cumulative_shares(weights: impl Iterator<Item = f64>, item: &str) -> Result<Vec<f64>, LoadError> {
    let weights: Vec<f64> = weights.collect();
    let total: f64 = weights.iter().sum();
    let is_valid = weights.iter().all(|w| *w >= 0.0) && total > 0.0 && total.is_finite();
    if !is_valid {
        return Err(LoadError::new(item, "weights must be at least 0, and their sum greater than 0"));
    }
    let mut sum = 0.0;
    let up_to = weights.iter().map(|weight| {
        sum += weight;
        sum / total
    });
    Ok(up_to.collect())
}

/// Draws block addresses in a part of a target.
#[derive(Clone, Debug)]
pub(super) struct PlaceGenerator {
    first: u64,
    blocks: u64,
    align: u64,
    /// Length of the latest request, and the number of positions at which a request of that length fits: cached because
    /// the division costs as much as all other work of a draw.
    cached_fit: (u64, u64),
    pattern: PlacementPattern,
}

#[derive(Clone, Debug)]
enum PlacementPattern {
    Sequential {
        /// Next block of each stream, counted from the start of the part.
        next: Vec<u64>,
        /// Length of a stream's slice, blocks.
        slice: u64,
    },
    Uniform,
    Normal {
        mean: f64,
        deviation: f64,
    },
    Zipf(Zipf),
}

impl PlaceGenerator {
    /// Builds a generator in an area of a target, for transfers of up to `longest` blocks at multiples of `align`.
    pub(super) fn new(
        access: &AccessPattern,
        (first, blocks): (u64, u64),
        align: u64,
        longest: u64,
        users: u32,
    ) -> Result<PlaceGenerator, LoadError> {
        let align = align.max(1);
        if longest > blocks {
            let reason = format!("a transfer of {longest} blocks does not fit in an area of {blocks}");
            return Err(LoadError::new("part", reason));
        }
        let pattern = match *access {
            AccessPattern::Uniform => PlacementPattern::Uniform,
            AccessPattern::Normal { mean, deviation } => {
                if !((0.0..=1.0).contains(&mean) && (0.0..=1e6).contains(&deviation)) {
                    return Err(LoadError::new("access", "expected a mean from 0 to 1 and a deviation of at least 0"));
                }
                PlacementPattern::Normal { mean, deviation }
            }
            AccessPattern::Zipf { theta } => {
                if !(0.0..=100.0).contains(&theta) {
                    return Err(LoadError::new("access", format!("a Zipf exponent of {theta}; expected 0 to 100")));
                }
                PlacementPattern::Zipf(Zipf::new((blocks - longest) / align + 1, theta))
            }
            AccessPattern::Sequential { streams } => build_sequential_pattern(streams, blocks, align, longest, users)?,
        };
        Ok(PlaceGenerator { first, blocks, align, cached_fit: (longest, (blocks - longest) / align + 1), pattern })
    }

    /// Draws the first block of the next transfer of `blocks` blocks.
    #[inline]
    pub(super) fn draw(&mut self, user: u32, blocks: u64, rng: &mut Rng) -> u64 {
        if self.cached_fit.0 != blocks {
            self.cached_fit = (blocks, self.blocks.saturating_sub(blocks) / self.align + 1);
        }
        let places = self.cached_fit.1;
        let offset = match &mut self.pattern {
            PlacementPattern::Uniform => rng.next_below(places) * self.align,
            PlacementPattern::Zipf(zipf) => scatter_rank(zipf.draw_rank(rng), places) * self.align,
            PlacementPattern::Normal { mean, deviation } => {
                let count = places as f64;
                let mut offsets = (0..MAX_NORMAL_DRAWS).map(|_| (*mean + *deviation * rng.draw_normal()) * count);
                let offset = offsets.find(|offset| (0.0..count).contains(offset)).unwrap_or(*mean * count);
                (offset as u64).min(places - 1) * self.align
            }
            PlacementPattern::Sequential { next, slice } => {
                let stream = user as usize % next.len();
                let base = stream as u64 * *slice;
                let offset = if next[stream] + blocks > base + *slice { base } else { next[stream] };
                next[stream] = offset + blocks;
                offset
            }
        };
        self.first + offset
    }
}

fn build_sequential_pattern(
    streams: u32,
    blocks: u64,
    align: u64,
    longest: u64,
    users: u32,
) -> Result<PlacementPattern, LoadError> {
    let streams = if streams == 0 { users.max(1) } else { streams };
    if streams > MAX_STREAMS {
        return Err(LoadError::new("access", format!("{streams} streams; the limit is {MAX_STREAMS}")));
    }
    let slice = blocks / u64::from(streams) / align * align;
    // a single stream has the whole part, including a last piece shorter than `align`
    let slice = if streams == 1 { blocks } else { slice };
    if slice < longest {
        let reason =
            format!("{streams} streams in {blocks} blocks have {slice} each, less than a transfer of {longest}");
        return Err(LoadError::new("access", reason));
    }
    Ok(PlacementPattern::Sequential { next: (0..u64::from(streams)).map(|s| s * slice).collect(), slice })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw_places(access: AccessPattern, count: usize) -> Vec<u64> {
        let mut places = PlaceGenerator::new(&access, (1000, 8000), 8, 8, 2).unwrap();
        let mut rng = Rng::new(3, 0);
        (0..count).map(|i| places.draw(i as u32 % 2, 8, &mut rng)).collect()
    }

    #[test]
    fn every_place_lies_in_its_part_and_is_aligned() {
        for access in [
            AccessPattern::Sequential { streams: 0 },
            AccessPattern::Uniform,
            AccessPattern::Normal { mean: 0.9, deviation: 0.4 },
            AccessPattern::Normal { mean: 1.0, deviation: 0.0 },
            AccessPattern::Zipf { theta: 0.99 },
        ] {
            for block in draw_places(access, 20_000) {
                assert!((1000..=8992).contains(&block) && (block - 1000) % 8 == 0, "{access:?}: {block}");
            }
        }
    }

    #[test]
    fn streams_have_separate_slices_and_wrap_around() {
        assert_eq!(draw_places(AccessPattern::Sequential { streams: 0 }, 5), [1000, 5000, 1008, 5008, 1016]);
        assert_eq!(draw_places(AccessPattern::Sequential { streams: 1 }, 4), [1000, 1008, 1016, 1024]);
        let long = draw_places(AccessPattern::Sequential { streams: 0 }, 1003);
        assert_eq!(&long[998..], [1000 + 499 * 8, 5000 + 499 * 8, 1000, 5000, 1008]);
    }

    #[test]
    fn uniform_and_normal_places_have_their_moments() {
        let moments = |access| {
            let all: Vec<f64> =
                draw_places(access, 200_000).iter().map(|block| (block - 1000) as f64 / 8000.0).collect();
            let mean = all.iter().sum::<f64>() / 2e5;
            (mean, (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2e5).sqrt())
        };
        let near = |found: (f64, f64), mean: f64, deviation: f64| {
            assert!((found.0 - mean).abs() < 0.003 && (found.1 - deviation).abs() < 0.003, "{found:?}");
        };
        near(moments(AccessPattern::Uniform), 0.5, 12f64.sqrt().recip());
        // NT Resource Kit's settings, 156 and 52 of 312 records: a third of the half; cut at three deviations
        near(moments(AccessPattern::Normal { mean: 0.5, deviation: 1.0 / 6.0 }), 0.5, 0.1645);
    }

    #[test]
    fn sizes_are_drawn_in_their_shares() {
        let sizes = RequestSizes::Weighted(vec![(512, 1.0), (4096, 2.0), (65_536, 1.0)]);
        let lengths = LengthDistribution::new(&sizes, "bytes").unwrap();
        assert_eq!((lengths.min_blocks(), lengths.max_blocks()), (1, 128));
        let mut rng = Rng::new(8, 0);
        let mut count = std::collections::BTreeMap::new();
        (0..100_000).for_each(|_| *count.entry(lengths.draw(&mut rng)).or_insert(0) += 1);
        let shares: Vec<(u32, f64)> = count.into_iter().map(|(size, n)| (size, f64::from(n) / 1e5)).collect();
        for ((size, share), (right, expected)) in shares.iter().zip([(1, 0.25), (8, 0.5), (128, 0.25)]) {
            assert!(*size == right && (share - expected).abs() < 0.005, "{shares:?}");
        }
        let any = LengthDistribution::new(&RequestSizes::Uniform { from: 512, to: 2048 }, "bytes").unwrap();
        let drawn: std::collections::BTreeSet<u32> = (0..1000).map(|_| any.draw(&mut rng)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn rejects_parts_and_sizes_that_do_not_fit() {
        for part in [
            TargetPart::Bytes { from: 0, bytes: 51_201 * 512 },
            TargetPart::Bytes { from: u64::MAX, bytes: u64::MAX },
            TargetPart::Bytes { from: 0, bytes: 100 },
            TargetPart::Share { from: 0.5, to: 0.5 },
            TargetPart::Share { from: 0.0, to: f64::NAN },
        ] {
            assert_eq!(resolve_part(&part, 1000).unwrap_err().item, "part", "{part:?}");
        }
        assert_eq!(resolve_part(&TargetPart::Share { from: 0.25, to: 1.0 }, 1000), Ok((250, 750)));
        for sizes in [
            RequestSizes::One(0),
            RequestSizes::One(513),
            RequestSizes::Weighted(vec![]),
            RequestSizes::Weighted(vec![(512, -1.0), (1024, 2.0)]),
            RequestSizes::Weighted(vec![(512, f64::NAN)]),
            RequestSizes::Uniform { from: 1024, to: 512 },
        ] {
            assert_eq!(LengthDistribution::new(&sizes, "bytes").unwrap_err().item, "bytes", "{sizes:?}");
        }
        let place = |access| PlaceGenerator::new(&access, (0, 100), 1, 50, 1).map(|_| ());
        assert!(place(AccessPattern::Sequential { streams: 2 }).is_ok());
        assert!(place(AccessPattern::Sequential { streams: 3 }).is_err());
        assert!(place(AccessPattern::Zipf { theta: -1.0 }).is_err());
        assert!(place(AccessPattern::Normal { mean: 2.0, deviation: 0.0 }).is_err());
        assert!(PlaceGenerator::new(&AccessPattern::Uniform, (0, 100), 1, 101, 1).is_err());
    }
}
