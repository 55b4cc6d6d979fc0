//! The cache against closed forms: hit ratios, lengths of runs, limits.

use diskwright_base::Rng;
use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::cache::*;

/// A cache above a layer that completes every I/O at once.
struct DirectCache {
    cache: Cache,
    out: CacheActions,
    now: Ns,
    /// I/Os sent to the layer below.
    sent: Vec<Io>,
}

impl DirectCache {
    fn new(spec: &BlockCacheSpec, blocks: u64) -> DirectCache {
        spec.check_limits().expect("a possible cache");
        DirectCache { cache: Cache::new(spec, blocks), out: CacheActions::new(), now: 0, sent: Vec::new() }
    }

    /// Submits a request and completes all I/Os below; true if it was done at once.
    fn submit(&mut self, io: Io) -> bool {
        let answer = self.cache.submit(self.now, 7, &io, &mut self.out);
        let waited = self.complete_backing_ios();
        assert_eq!(waited, u32::from(answer == SubmitResult::Wait));
        answer == SubmitResult::Done
    }

    /// Completes all I/Os below; returns the number of requests that became ready.
    fn complete_backing_ios(&mut self) -> u32 {
        let (mut under, mut ready) = (Vec::new(), 0);
        loop {
            under.append(&mut self.out.send);
            ready += self.out.ready.len() as u32;
            if under.is_empty() {
                return ready;
            }
            let below = under.remove(0);
            self.sent.push(below.io);
            self.cache.complete_io(self.now, below.flight_number, &mut self.out);
        }
    }

    /// Hit share of single-page reads, after as many to warm up.
    fn hit_share(&mut self, reads: u32, mut page: impl FnMut() -> u64) -> f64 {
        (0..reads).for_each(|_| _ = self.submit(Io::read(page() * 8, 8)));
        let before = self.cache.counters(self.now);
        (0..reads).for_each(|_| _ = self.submit(Io::read(page() * 8, 8)));
        self.cache.counters(self.now).added_since(&before).hit_share()
    }
}

fn plain(pages: u64) -> BlockCacheSpec {
    BlockCacheSpec { bytes: pages * 4096, read_ahead: CacheReadAhead::None, ..BlockCacheSpec::default() }
}

fn assert_near(value: f64, wanted: f64, by: f64) {
    assert!((value - wanted).abs() <= by, "{value} where {wanted} is right");
}

#[test]
fn uniform_reads_hit_by_the_share_that_is_cached() {
    for (pages, set) in [(1000, 2000), (3000, 4000), (100, 10_000), (4096, 4000)] {
        let (mut world, mut rng) = (DirectCache::new(&plain(pages), set * 8), Rng::new(pages, set));
        let share = world.hit_share(60_000, || rng.next_below(set));
        assert_near(share, (pages as f64 / set as f64).min(1.0), 0.01);
    }
}

#[test]
fn a_long_read_faults_piece_by_piece() {
    let spec = BlockCacheSpec { fault_blocks: Some(128), ..plain(1000) };
    let mut cache = Cache::new(&spec, 1 << 16);
    let mut out = CacheActions::new();
    // 172 KiB, of which page 20 is here already
    cache.submit(0, 1, &Io::read(160, 8), &mut out);
    let page = out.send.remove(0);
    cache.complete_io(0, page.flight_number, &mut out);
    out.ready.clear();
    assert_eq!(cache.submit(0, 2, &Io::read(0, 344), &mut out), SubmitResult::Wait);
    let mut sent = Vec::new();
    while let Some(below) = out.send.pop() {
        assert!(out.send.is_empty(), "one piece at a time");
        sent.push((below.io.first, below.io.blocks));
        assert!(out.ready.is_empty(), "not before all is here");
        cache.complete_io(0, below.flight_number, &mut out);
    }
    assert_eq!(sent, [(0, 128), (128, 32), (168, 128), (296, 48)]);
    assert_eq!(out.ready, [2]);
}

/// Hit share of an LRU cache of `pages` under independent references: page i stays for a time T after its last use, the
/// same for all pages, so that the 1 - exp(-q_i T) add up to the size of the cache. Source: Che, Tung and Wang,
/// "Hierarchical Web caching systems", IEEE JSAC 20 (2002), as in Fricker, Robert and Roberts, "A versatile and
/// accurate approximation for LRU cache performance", arXiv 1202.3974.
fn che_hit_share(popularity: &[f64], pages: f64) -> f64 {
    let held = |t: f64| popularity.iter().map(|q| 1.0 - (-q * t).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e12);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if held(middle) < pages { low = middle } else { high = middle }
    }
    popularity.iter().map(|q| q * (1.0 - (-q * low).exp())).sum()
}

#[test]
fn independent_references_hit_as_ches_formula() {
    // worked: two equal pages and room for one: T = 2 ln 2, half of all hit
    assert_near(che_hit_share(&[0.5, 0.5], 1.0), 0.5, 1e-9);
    for (exponent, pages, set) in [(0.6, 500, 5000), (0.8, 1000, 5000), (1.0, 200, 10_000), (1.2, 2000, 10_000)] {
        let weights: Vec<f64> = (1..=set).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let all: f64 = weights.iter().sum();
        let popularity: Vec<f64> = weights.iter().map(|w| w / all).collect();
        let sums: Vec<f64> = popularity.iter().scan(0.0, |sum, q| Some(std::mem::replace(sum, *sum + q) + q)).collect();
        let (mut world, mut rng) = (DirectCache::new(&plain(pages), u64::from(set as u32) * 8), Rng::new(5, pages));
        let share = world.hit_share(150_000, || {
            let drawn = rng.next_f64();
            (sums.partition_point(|sum| *sum < drawn) as u64).min(u64::from(set as u32) - 1)
        });
        assert_near(share, che_hit_share(&popularity, pages as f64), 0.01);
    }
}

#[test]
fn reads_agree_with_a_list_in_order_of_use() {
    let (mut world, mut rng) = (DirectCache::new(&plain(50), 200 * 8), Rng::new(3, 3));
    let mut list: Vec<u64> = Vec::new();
    for _ in 0..20_000 {
        let (first, count) = (rng.next_below(196), 1 + rng.next_below(4));
        let mut hit = true;
        for page in first..first + count {
            let known = list.iter().position(|p| *p == page);
            hit &= known.is_some();
            match known {
                Some(index) => _ = list.remove(index),
                None if list.len() == 50 => _ = list.remove(0),
                None => {}
            }
            list.push(page);
        }
        assert_eq!(world.submit(Io::read(first * 8, count as u32 * 8)), hit);
    }
    assert!((0..200).all(|page| world.cache.holds_block(page * 8) == list.contains(&page)));
}

#[test]
fn a_cache_of_64_gb_in_bounded_memory_still_hits_by_the_share_that_is_cached() {
    // one entry of 64 pages each; few enough reads that nothing has to go
    let mut world = DirectCache::new(&BlockCacheSpec { bytes: 64 << 30, ..plain(1) }, 1 << 32);
    let mut rng = Rng::new(6, 4);
    let pages: Vec<u64> = (0..20_000).map(|_| rng.next_below(1 << 29)).collect();
    let mut next = 0;
    let share = world.hit_share(20_000, || {
        next += 1;
        pages[next % pages.len()]
    });
    assert_near(share, 1.0, 1e-9);
    assert_eq!(world.cache.counters(0).held_blocks, 160_000);
}

#[test]
fn read_ahead_makes_a_sequential_readers_ios_as_long_as_configured() {
    for early in [false, true] {
        let read = CacheReadAhead::Doubling { from: 32, to: 256 };
        let mut world =
            DirectCache::new(&BlockCacheSpec { read_ahead: read, starts_early: early, ..plain(4096) }, 1 << 20);
        let waits = (0..2048).filter(|page| !world.submit(Io::read(page * 8, 8))).count();
        let lengths: Vec<u32> = world.sent.iter().map(|io| io.blocks).collect();
        assert_eq!(lengths[..5], [8, 32, 64, 128, 256]);
        assert!(lengths[4..].iter().all(|blocks| *blocks == 256), "{lengths:?}");
        // in time, no read waits once the runs are established
        assert_eq!(waits, if early { 2 } else { lengths.len() });
        let counters = world.cache.counters(0);
        assert_eq!(counters.total_reads(), 2048);
        assert!(counters.blocks_ahead - counters.blocks_ahead_used <= 2 * 256, "{counters:?}");
    }
    let mut world =
        DirectCache::new(&BlockCacheSpec { read_ahead: CacheReadAhead::Fixed { blocks: 128 }, ..plain(4096) }, 1 << 20);
    (0..2048).for_each(|page| _ = world.submit(Io::read(page * 8, 8)));
    assert!(world.sent.len() == 128 && world.sent.iter().all(|io| io.blocks == 128));
    // also for readers that jump: missing blocks are read in such runs
    let mut rng = Rng::new(1, 1);
    (0..100).for_each(|_| _ = world.submit(Io::read(rng.next_below(100_000) * 8 + 20_000, 8)));
    assert!(world.sent[128..].iter().all(|io| io.blocks <= 128 && io.blocks % 8 == 0));
}

#[test]
fn sequential_writes_go_below_in_runs_as_configured() {
    // writes of 512 bytes; pages of 512 bytes and of 4 KB
    for page_blocks in [1, 8] {
        for order in [FlushOrder::Address, FlushOrder::Age] {
            let back = WriteBackPolicy {
                flush_at: 0.1,
                coalesce_blocks: 128,
                order,
                flush_depth: 1,
                ..WriteBackPolicy::default()
            };
            let spec = BlockCacheSpec { bytes: 4 << 20, page_blocks, write: WritePolicy::Back(back), ..plain(1) };
            let mut world = DirectCache::new(&spec, 1 << 20);
            for block in 0..8192 {
                assert!(world.submit(Io::write(block, 1)), "posted");
            }
            world.cache.flush_all(world.now, &mut world.out);
            world.complete_backing_ios();
            assert!(world.cache.is_clean());
            assert_eq!(world.sent.iter().map(|io| u64::from(io.blocks)).sum::<u64>(), 8192);
            assert!(world.sent.iter().all(|io| io.blocks == 128 && io.write), "{:?}", world.sent);
            let counters = world.cache.counters(world.now);
            assert_eq!((counters.writes_posted, counters.flush_ios, counters.blocks_flushed), (8192, 64, 8192));
            assert_eq!(counters.pages_merged, 8192 / u64::from(page_blocks) - 64);
        }
    }
}

#[test]
fn a_write_through_goes_as_it_was_asked() {
    let mut world = DirectCache::new(&BlockCacheSpec { write: WritePolicy::Through, ..plain(100) }, 1 << 20);
    assert!(!world.submit(Io::write(13, 22)));
    assert_eq!(world.sent, [Io::write(13, 22)]);
    // pages 2 and 3 were written in full
    assert!(
        !world.cache.holds_block(13)
            && world.cache.holds_block(16)
            && world.cache.holds_block(31)
            && !world.cache.holds_block(32)
    );
    assert!(world.submit(Io::read(16, 16)));
    let mut world = DirectCache::new(
        &BlockCacheSpec { write: WritePolicy::Through, allocate_on_write: false, ..plain(100) },
        1 << 20,
    );
    assert!(!world.submit(Io::write(0, 32)) && !world.submit(Io::read(0, 8)));
}

#[test]
fn writers_wait_at_the_limit_and_old_pages_go_in_time() {
    let second: Ns = 1_000_000_000;
    let back = WriteBackPolicy { dirty_limit: 0.5, flush_at: 0.25, flush_depth: 1, ..WriteBackPolicy::default() };
    let mut cache = Cache::new(&BlockCacheSpec { write: WritePolicy::Back(back), ..plain(100) }, 1 << 20);
    let mut out = CacheActions::new();
    let ask =
        |cache: &mut Cache, out: &mut CacheActions, now, page: u64| cache.submit(now, 1, &Io::write(page * 16, 8), out);
    assert_eq!(ask(&mut cache, &mut out, 0, 0), SubmitResult::Done);
    // nothing goes at once, but after 30 s
    assert_eq!((out.send.len(), out.wake_at), (0, Some(30 * second)));
    (1..25).for_each(|page| assert_eq!(ask(&mut cache, &mut out, second, page), SubmitResult::Done));
    assert_eq!((out.send.len(), out.wake_at), (0, None));
    // above a quarter one goes, as one may be under way
    assert_eq!((ask(&mut cache, &mut out, second, 25), out.send.len()), (SubmitResult::Done, 1));
    let first = out.send[0];
    assert_eq!(first.io, Io::write(0, 8));
    (26..50).for_each(|page| assert_eq!(ask(&mut cache, &mut out, second, page), SubmitResult::Done));
    assert_eq!((ask(&mut cache, &mut out, second, 50), out.send.len()), (SubmitResult::Wait, 0));
    cache.complete_io(2 * second, first.flight_number, &mut out);
    assert_eq!((&out.ready[..], out.send.len()), (&[1][..], 1));
    let counters = cache.counters(2 * second);
    assert_eq!((counters.dirty_blocks, counters.writes_posted, counters.writes_waited), (50 * 8, 50, 1));
    // one page for the first second, 50 of them for the next
    assert_eq!(counters.dirty_block_ns, u128::from(second) * 8 * 51);
    cache.handle_wake(31 * second, &mut out);
    assert_eq!(out.wake_at, None, "what is overdue goes with those under way");
}

#[test]
fn volumes_are_flushed_side_by_side_and_read_ahead_each_to_its_end() {
    let back = WriteBackPolicy {
        dirty_limit: 1.0,
        flush_at: 1.0,
        flush_depth: 2,
        coalesce_blocks: 8,
        ..WriteBackPolicy::default()
    };
    let volumes = [(0, 1000), (1 << 20, 1000), (2 << 20, 1000)];
    let spec = BlockCacheSpec {
        write: WritePolicy::Back(back),
        read_ahead: CacheReadAhead::Fixed { blocks: 64 },
        ..plain(4096)
    };
    let (mut cache, mut out) = (Cache::above_volumes(&spec, &volumes), CacheActions::new());
    for (first, _) in volumes {
        (0..10).for_each(|page| _ = cache.submit(0, 1, &Io::write(first + page * 8, 8), &mut out));
    }
    cache.flush_all(0, &mut out);
    let sent: Vec<u64> = out.send.iter().map(|below| below.io.first).collect();
    assert_eq!(sent, [0, 1 << 20, 2 << 20, 8, (1 << 20) + 8, (2 << 20) + 8]);
    cache.submit(0, 1, &Io::read((1 << 20) + 976, 8), &mut out);
    assert_eq!(out.send[0].io, Io::read((1 << 20) + 976, 24));
}

#[test]
fn ignores_unknown_numbers_and_completes_empty_requests() {
    // unknown numbers are ignored, and empty requests are done
    let mut cache = Cache::new(&BlockCacheSpec { bytes: 0, page_blocks: 0, ..BlockCacheSpec::default() }, 100);
    let mut out = CacheActions::new();
    assert_eq!(cache.submit(0, 1, &Io::read(100, 8), &mut out), SubmitResult::Done);
    assert_eq!(cache.submit(0, 1, &Io::read(u64::MAX, u32::MAX), &mut out), SubmitResult::Done);
    cache.complete_io(5, 77, &mut out);
    cache.handle_wake(3, &mut out);
    assert_eq!(out, CacheActions::new());
    assert_eq!(cache.submit(0, 1, &Io::read(99, u32::MAX), &mut out), SubmitResult::Wait);
    assert_eq!(out.send[0].io, Io::read(99, 1));
}
