//! Generates the requests of a pattern (offset, length, direction) and the random times between them. The generator is
//! seeded: the same pattern generates the same requests.

use diskwright_base::Rng;
use diskwright_base::zipf::{Zipf, scatter_rank};

use crate::pattern::{MixStep, NormalSpread, Pattern, Placement};

/// Draws a quantity as Response Probe does (Windows NT Workstation 4.0 Resource Kit, ch. 11, "How
/// Response Probe Works"): the mean, plus the deviation times (the sum of 14 numbers between 0 and 1,
/// minus 7). A negative value loses its sign. The true deviation is therefore sqrt(14/12), or 1.08,
/// times the given one.
pub fn draw_bell_curve(rng: &mut Rng, spread: &NormalSpread) -> f64 {
    if spread.deviation == 0.0 {
        return spread.mean;
    }
    let sum: f64 = (0..14).map(|_| rng.next_f64()).sum();
    (spread.mean + (sum - 7.0) * spread.deviation).abs()
}

/// One request of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternRequest {
    /// First byte.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// True for a write, false for a read.
    pub write: bool,
}

/// Generates the requests of one worker of a pattern.
#[derive(Clone, Debug)]
pub struct RequestGenerator {
    rng: Rng,
    /// Sizes with their weights.
    sizes: Vec<(u32, f64)>,
    /// Sizes of writes; empty if they are those of reads.
    write_sizes: Vec<(u32, f64)>,
    read_share: f64,
    mix_steps: Vec<MixStep>,
    mix_index: usize,
    align_bytes: u64,
    write_align_bytes: u64,
    range_start: u64,
    range_bytes: u64,
    offsets: OffsetGenerator,
    /// Separate sequence of offsets for writes, if the pattern keeps them apart from reads.
    write_offsets: Option<OffsetGenerator>,
    scattered: bool,
    /// Number of contiguous requests from each random offset on.
    run_length: u32,
    /// Number of requests that remain of the current run.
    run_remaining: u32,
    /// Offset of the next request of the current run.
    run_offset: u64,
}

/// Placement of a pattern, with its state. Offsets count from the start of the range.
#[derive(Clone, Debug)]
enum OffsetGenerator {
    Sequential {
        /// Next offset of each stream.
        next: Vec<u64>,
        /// Bytes of the range that each stream has.
        stream_bytes: u64,
        /// Stream of the next request.
        next_stream: usize,
    },
    Uniform,
    Normal {
        mean: f64,
        deviation: f64,
    },
    Zipf(Zipf),
    Pareto {
        exponent: f64,
    },
    Strided {
        stride: u64,
        next: u64,
    },
}

impl RequestGenerator {
    /// Creates the generator of one of several workers, on a target of `target_bytes`. Sequential
    /// streams and strides are split among the workers, so that no two threads read the same bytes
    /// one after the other.
    ///
    /// # Panics
    /// If the largest request does not fit into the range, a fault that [`Pattern::find_fault`] reports.
    pub fn new(pattern: &Pattern, target_bytes: u64, worker: u32, workers: u32) -> RequestGenerator {
        let range = pattern.range_bytes.unwrap_or(target_bytes.saturating_sub(pattern.from_bytes));
        let largest = u64::from(pattern.max_request_bytes());
        assert!(worker < workers, "worker {worker} of {workers}");
        assert!(0 < largest && largest <= range, "requests of {largest} bytes in a range of {range}");
        let smallest = |sizes: &[(u32, f64)]| sizes.iter().map(|s| u64::from(s.0)).min().unwrap_or(1).max(1);
        let aligned = |sizes| if pattern.align_bytes == 0 { smallest(sizes) } else { pattern.align_bytes };
        let align = aligned(&pattern.sizes);
        let offsets = match &pattern.placement {
            Placement::Sequential { streams } => {
                let stream_count = u64::from((*streams).max(1)) * u64::from(workers);
                let stream_bytes = (range / stream_count / align).max(1) * align;
                let per_worker = u64::from((*streams).max(1));
                let first = u64::from(worker) * per_worker;
                OffsetGenerator::Sequential {
                    next: (first..first + per_worker).map(|s| s * stream_bytes % range.max(1)).collect(),
                    stream_bytes,
                    next_stream: 0,
                }
            }
            Placement::Uniform => OffsetGenerator::Uniform,
            Placement::Normal { mean, deviation } => OffsetGenerator::Normal { mean: *mean, deviation: *deviation },
            Placement::Zipf { theta } => {
                OffsetGenerator::Zipf(Zipf::new((range.saturating_sub(largest) / align + 1).max(1), *theta))
            }
            Placement::Pareto { power } => OffsetGenerator::Pareto { exponent: power.ln() / (1.0 - power).ln() },
            Placement::Strided { stride_bytes } => {
                let stride = (*stride_bytes).max(align);
                let strides = |count: u32| stride.saturating_mul(u64::from(count));
                OffsetGenerator::Strided { stride: strides(workers), next: strides(worker) }
            }
        };
        RequestGenerator {
            rng: Rng::new(pattern.seed, u64::from(worker)),
            sizes: pattern.sizes.clone(),
            write_sizes: pattern.write_sizes.clone(),
            read_share: pattern.read_share,
            mix_steps: pattern.read_write_order.clone(),
            mix_index: 0,
            align_bytes: align,
            write_align_bytes: if pattern.write_sizes.is_empty() { align } else { aligned(&pattern.write_sizes) },
            range_start: pattern.from_bytes,
            range_bytes: range,
            write_offsets: pattern.separate_positions.then(|| offsets.clone()),
            offsets,
            scattered: pattern.scattered,
            run_length: pattern.run_requests.max(1),
            run_remaining: 0,
            run_offset: 0,
        }
    }

    /// Returns the random generator, for think times and arrivals.
    pub fn rng_mut(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Generates the next request.
    #[inline]
    pub fn next_request(&mut self) -> PatternRequest {
        let mut length = self.draw_size(false);
        let write = if self.mix_steps.is_empty() {
            match self.read_share {
                1.0 => false,
                0.0 => true,
                share => self.rng.next_f64() >= share,
            }
        } else {
            let step = self.mix_steps[self.mix_index];
            self.mix_index = (self.mix_index + 1) % self.mix_steps.len();
            step == MixStep::Write
        };
        if write && !self.write_sizes.is_empty() {
            length = self.draw_size(true);
        }
        let position = self.draw_offset(u64::from(length), write);
        debug_assert!(
            position + u64::from(length) <= self.range_bytes,
            "{length} bytes from {position} leave the range"
        );
        PatternRequest { offset: self.range_start + position, length, write }
    }

    #[inline]
    fn draw_size(&mut self, write: bool) -> u32 {
        let sizes = if write { &self.write_sizes } else { &self.sizes };
        if let [(only, _)] = sizes[..] {
            return only;
        }
        let total_weight: f64 = sizes.iter().map(|s| s.1).sum();
        let mut remaining = self.rng.next_f64() * total_weight;
        for &(size, weight) in sizes {
            remaining -= weight;
            if remaining < 0.0 {
                return size;
            }
        }
        // only rounding errors lead here
        sizes[0].0
    }

    /// Draws the offset of the next request in the range: in a run of contiguous requests, or at random.
    #[inline]
    fn draw_offset(&mut self, length: u64, write: bool) -> u64 {
        if self.run_length == 1 {
            return self.draw_position(length, write);
        }
        if self.run_remaining == 0 || self.run_offset + length > self.range_bytes {
            (self.run_offset, self.run_remaining) = (self.draw_position(length, write), self.run_length);
        }
        let position = self.run_offset;
        self.run_remaining -= 1;
        self.run_offset += length;
        position
    }

    /// Draws an offset in the range at which a request of this length fits.
    #[inline]
    fn draw_position(&mut self, length: u64, write: bool) -> u64 {
        let align = if write { self.write_align_bytes } else { self.align_bytes };
        // offsets are drawn as multiples of `align`
        let count = (self.range_bytes - length) / align + 1;
        let scattered = self.scattered;
        let spread = |index: u64| if scattered { scatter_rank(index, count) } else { index };
        let offsets = match &mut self.write_offsets {
            Some(writes) if write => writes,
            _ => &mut self.offsets,
        };
        match offsets {
            OffsetGenerator::Uniform => self.rng.next_below(count) * align,
            OffsetGenerator::Normal { mean, deviation } => {
                // values outside the range are drawn again; after 64 in sequence the mean must do
                for _ in 0..64 {
                    let index = (*mean + *deviation * self.rng.draw_normal()) * count as f64;
                    if index >= 0.0 && index < count as f64 {
                        return spread(index as u64) * align;
                    }
                }
                spread((*mean * count as f64).clamp(0.0, (count - 1) as f64) as u64) * align
            }
            OffsetGenerator::Zipf(zipf) => {
                let rank = zipf.draw_rank(&mut self.rng);
                scatter_rank(rank, count) * align
            }
            OffsetGenerator::Pareto { exponent } => {
                let rank = (count as f64 * self.rng.next_f64().powf(*exponent)) as u64;
                scatter_rank(rank.min(count - 1), count) * align
            }
            OffsetGenerator::Sequential { next, stream_bytes, next_stream } => {
                let stream = *next_stream;
                *next_stream = (stream + 1) % next.len();
                let position = next[stream];
                let stream_start = position / *stream_bytes * *stream_bytes;
                let position = if position + length > self.range_bytes {
                    stream_start.min(self.range_bytes - length)
                } else {
                    position
                };
                let end = position + length;
                let is_at_end = end >= stream_start + *stream_bytes || end >= self.range_bytes;
                next[stream] = if is_at_end { stream_start } else { end };
                position
            }
            OffsetGenerator::Strided { stride, next } => {
                // each worker wraps around to its own start, so that no two workers read the same bytes
                let max_offset = self.range_bytes - length;
                let first = || Some(*next % *stride).filter(|first| *first <= max_offset).unwrap_or(0);
                let position = if *next <= max_offset { *next } else { first() };
                *next = position.saturating_add(*stride);
                position
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pattern(placement: Placement) -> Pattern {
        Pattern { placement, ..Pattern::random_reads(4096, 1) }
    }

    fn draw_requests(pattern: &Pattern, count: usize) -> Vec<PatternRequest> {
        let mut generator = RequestGenerator::new(pattern, 64 * MIB, 0, 1);
        (0..count).map(|_| generator.next_request()).collect()
    }

    #[test]
    fn every_request_lies_in_the_range_and_is_aligned() {
        let places = [
            Placement::Uniform,
            Placement::Sequential { streams: 3 },
            Placement::Normal { mean: 0.9, deviation: 0.3 },
            Placement::Zipf { theta: 0.99 },
            Placement::Pareto { power: 0.2 },
            Placement::Strided { stride_bytes: 10_000 },
        ];
        for place in places {
            let sizes = vec![(4096, 1.0), (65_536, 1.0)];
            let one = Pattern { from_bytes: MIB, range_bytes: Some(MIB), sizes, ..pattern(place) };
            for drawn in draw_requests(&one, 20_000) {
                let end = drawn.offset + u64::from(drawn.length);
                assert!(drawn.offset >= MIB && end <= 2 * MIB, "{:?}: {drawn:?}", one.placement);
                let strided = matches!(one.placement, Placement::Strided { .. });
                assert!(strided || drawn.offset % 4096 == 0, "{:?}: {drawn:?}", one.placement);
            }
        }
    }

    #[test]
    fn sequential_wraps_around_and_streams_stay_apart() {
        let one = Pattern { range_bytes: Some(5 * 4096), ..pattern(Placement::Sequential { streams: 1 }) };
        let offsets: Vec<u64> = draw_requests(&one, 7).iter().map(|d| d.offset / 4096).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 0, 1]);
        let two = Pattern { range_bytes: Some(8 * 4096), ..pattern(Placement::Sequential { streams: 2 }) };
        let offsets: Vec<u64> = draw_requests(&two, 6).iter().map(|d| d.offset / 4096).collect();
        assert_eq!(offsets, [0, 4, 1, 5, 2, 6]);
    }

    #[test]
    fn response_probes_seek_has_its_mean_and_deviation() {
        // NT Resource Kit: a 20 MB file of 512-byte records, mean 20000, deviation 6667 records
        let (mean, deviation) = (20_000.0, 6_667.0);
        let records = 20.0 * MIB as f64 / 512.0;
        let place = Placement::Normal { mean: mean / records, deviation: deviation / records };
        let one = Pattern { sizes: vec![(512, 1.0)], range_bytes: Some(20 * MIB), ..pattern(place) };
        let found: Vec<f64> = draw_requests(&one, 100_000).iter().map(|d| d.offset as f64 / 512.0).collect();
        let average = found.iter().sum::<f64>() / found.len() as f64;
        let spread = (found.iter().map(|f| (f - average).powi(2)).sum::<f64>() / found.len() as f64).sqrt();
        // cut off at both ends three deviations away
        assert!((average - mean).abs() < 100.0 && (spread - deviation).abs() < 150.0, "{average} {spread}");
    }

    #[test]
    fn pareto_gives_a_fifth_of_the_places_four_fifths_of_the_requests() {
        let found = draw_requests(&pattern(Placement::Pareto { power: 0.2 }), 200_000);
        let mut counts = std::collections::HashMap::new();
        found.iter().for_each(|d| *counts.entry(d.offset).or_insert(0u32) += 1);
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // 16384 offsets, some of which the hash maps to the same place
        let wanted = counts[..16_384 / 5].iter().sum::<u32>();
        assert!((f64::from(wanted) / 2e5 - 0.8).abs() < 0.05, "{wanted}");
    }

    #[test]
    fn reads_and_sizes_come_in_their_shares() {
        let one = Pattern { read_share: 0.7, sizes: vec![(4096, 3.0), (8192, 1.0)], ..pattern(Placement::Uniform) };
        let found = draw_requests(&one, 100_000);
        let reads = found.iter().filter(|d| !d.write).count() as f64 / 1e5;
        let small = found.iter().filter(|d| d.length == 4096).count() as f64 / 1e5;
        assert!((reads - 0.7).abs() < 0.01 && (small - 0.75).abs() < 0.01, "{reads} {small}");
        assert_eq!(draw_requests(&one, 10), draw_requests(&one, 10));
    }

    #[test]
    fn bell_curve_has_the_spread_of_fourteen_uniform_numbers() {
        // sum of 14 numbers of variance 1/12 each
        let (mut rng, spread) = (Rng::new(3, 0), NormalSpread { mean: 100.0, deviation: 10.0 });
        let found: Vec<f64> = (0..100_000).map(|_| draw_bell_curve(&mut rng, &spread)).collect();
        let mean = found.iter().sum::<f64>() / 1e5;
        let deviation = (found.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!((mean - 100.0).abs() < 0.2 && (deviation / (10.0 * (14.0f64 / 12.0).sqrt()) - 1.0).abs() < 0.01);
        // negative values are folded: a time of -16 becomes 16
        let spread = NormalSpread { mean: 0.0, deviation: 1.0 };
        assert!((0..1000).all(|_| draw_bell_curve(&mut rng, &spread) >= 0.0));
    }

    #[test]
    fn mix_steps_come_in_order_and_runs_are_contiguous() {
        let turns = vec![MixStep::Read, MixStep::Read, MixStep::Write];
        let one = Pattern { read_write_order: turns, run_requests: 3, ..pattern(Placement::Uniform) };
        let found = draw_requests(&one, 300);
        for access in found.chunks(3) {
            assert!(!access[0].write && !access[1].write && access[2].write);
            assert!(access.windows(2).all(|w| w[1].offset == w[0].offset + 4096));
        }
        assert!(found.chunks(3).zip(found[3..].chunks(3)).any(|(a, b)| b[0].offset != a[2].offset + 4096));
    }

    #[test]
    fn reads_and_writes_have_separate_sizes_and_streams() {
        let sizes = vec![(8192, 1.0)];
        let sequential = pattern(Placement::Sequential { streams: 1 });
        let one = Pattern { read_share: 0.5, write_sizes: sizes, separate_positions: true, ..sequential };
        assert_eq!(one.max_request_bytes(), 8192);
        let found = draw_requests(&one, 1000);
        for (write, length) in [(false, 4096), (true, 8192)] {
            let line: Vec<_> = found.iter().filter(|d| d.write == write).collect();
            assert!(
                line.iter().enumerate().all(|(i, d)| d.offset == i as u64 * length && u64::from(d.length) == length)
            );
        }
    }

    #[test]
    fn strides_of_two_workers_stay_apart_when_they_wrap_around() {
        // requests of 64 KiB with holes of 4 KiB, four of them in the range
        let stride = 68 << 10;
        let sizes = vec![(64 << 10, 1.0)];
        let one = Pattern { sizes, ..pattern(Placement::Strided { stride_bytes: stride }) };
        let one = Pattern { range_bytes: Some(4 * stride), ..one };
        let places = |worker| -> Vec<u64> {
            let mut generator = RequestGenerator::new(&one, 64 * MIB, worker, 2);
            (0..5).map(|_| generator.next_request().offset / stride).collect()
        };
        assert_eq!((places(0), places(1)), (vec![0, 2, 0, 2, 0], vec![1, 3, 1, 3, 1]));
        // a stride longer than the target stays at the start
        let huge = pattern(Placement::Strided { stride_bytes: u64::MAX });
        let mut generator = RequestGenerator::new(&huge, 64 * MIB, 1, 2);
        assert!((0..5).all(|_| generator.next_request().offset == 0));
    }

    #[test]
    fn scattered_places_keep_their_distribution_but_spread_out() {
        let place = Placement::Normal { mean: 0.5, deviation: 0.01 };
        let near = |scattered| {
            let found = draw_requests(&Pattern { scattered, ..pattern(place.clone()) }, 1000);
            found.iter().filter(|d| d.offset.abs_diff(32 * MIB) < 4 * MIB).count()
        };
        assert!(near(false) == 1000 && near(true) < 300, "{} {}", near(false), near(true));
    }
}
