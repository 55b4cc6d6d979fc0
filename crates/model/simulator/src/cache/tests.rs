//! The cache above a layer that completes in random order, checked against the version last written to every block.

use diskwright_base::Rng;

use super::*;

/// An I/O in flight below, with the versions that it writes, or that it read once it was applied.
struct IoBelow {
    number: u32,
    io: Io,
    data: Option<Vec<u64>>,
    applied: bool,
}

/// An incomplete write, and how far it was posted.
struct PendingWrite {
    request_id: u32,
    io: Io,
    posted: u64,
}

/// Test bed with versions in place of data: a write's version is its id; 0 is the initial content.
struct TestBed {
    cache: Cache,
    spec: BlockCacheSpec,
    blocks_below: Vec<u64>,
    /// Version of a block in the cache, if it is cached.
    cached_versions: Vec<Option<u64>>,
    newest_versions: Vec<u64>,
    ios_below: Vec<IoBelow>,
    pending_writes: Vec<PendingWrite>,
    waiting: Vec<u32>,
    answered: u64,
    wake: Option<Ns>,
    log: Vec<u64>,
}

impl TestBed {
    fn new(spec: BlockCacheSpec, line_shift: u32, volumes: &[(u64, u64)]) -> TestBed {
        let mut cache = Cache::above_volumes(&spec, volumes);
        let blocks = cache.capacity_blocks;
        // as in real caches, more than one entry must fit
        let fits = (0..=line_shift).rev().find(|shift| cache.max_clean_pages > 1 << shift);
        cache.sizes.line_shift = fits.unwrap_or(0);
        let all = blocks as usize;
        TestBed {
            cache,
            spec,
            blocks_below: vec![0; all],
            cached_versions: vec![None; all],
            newest_versions: vec![0; all],
            ios_below: Vec::new(),
            pending_writes: Vec::new(),
            waiting: Vec::new(),
            answered: 0,
            wake: None,
            log: Vec::new(),
        }
    }

    /// Returns how far a write was posted, according to the cache.
    fn posted_end(&self, writing: &PendingWrite) -> u64 {
        let mut waiting = (0..).map_while(|index| self.cache.flights.request_slot(index));
        let known = waiting.find(|request| request.request_id == writing.request_id);
        known.map_or(writing.io.end(), |a| (a.next_page << self.cache.sizes.page_shift).clamp(a.io.first, a.io.end()))
    }

    /// Applies the actions of a call, and checks the invariants.
    fn apply_actions(&mut self, out: &CacheActions, answer: Option<(u32, SubmitResult)>) {
        self.log.extend(
            out.send.iter().map(|b| u64::from(b.flight_number) << 40 ^ b.io.first << 8 ^ u64::from(b.io.blocks)),
        );
        self.log.extend(out.ready.iter().map(|request_id| u64::from(*request_id)));
        if let Some((request_id, SubmitResult::Wait)) = answer {
            self.waiting.push(request_id);
        }
        for request_id in &out.ready {
            let index = self.waiting.iter().position(|w| w == request_id).expect("answered once, and only who waits");
            self.waiting.swap_remove(index);
        }
        self.answered += out.ready.len() as u64 + u64::from(matches!(answer, Some((_, SubmitResult::Done))));
        for index in 0..self.pending_writes.len() {
            let upto = self.posted_end(&self.pending_writes[index]);
            let writing = &mut self.pending_writes[index];
            for block in writing.posted..upto {
                self.newest_versions[block as usize] = u64::from(writing.request_id);
                self.cached_versions[block as usize] = Some(u64::from(writing.request_id));
            }
            writing.posted = upto.max(writing.posted);
        }
        let waiting = &self.waiting;
        self.pending_writes.retain(|writing| waiting.contains(&writing.request_id));
        for below in &out.send {
            let io = below.io;
            assert!(io.blocks > 0 && io.end() <= self.blocks_below.len() as u64, "{io:?}");
            for other in &self.ios_below {
                let apart = other.io.end() <= io.first || io.end() <= other.io.first;
                assert!(apart || other.io.write != io.write, "{io:?} and {:?} at once", other.io);
            }
            let data = io.write.then(|| (io.first..io.end()).map(|b| self.version_to_write(b)).collect());
            self.ios_below.push(IoBelow { number: below.flight_number, io, data, applied: false });
        }
        if let Some(index) = out.wake_at {
            assert!(self.wake.is_none(), "one call at a time");
            self.wake = Some(index);
        }
        self.check_invariants();
    }

    fn version_to_write(&self, block: u64) -> u64 {
        match self.spec.write {
            WritePolicy::Through => self.newest_versions[block as usize],
            WritePolicy::Back(_) => {
                assert!(self.cache.holds_block(block), "{block} goes below and is not here");
                self.cached_versions[block as usize].expect("what is here is known")
            }
        }
    }

    fn check_invariants(&mut self) {
        for block in 0..self.blocks_below.len() {
            if !self.cache.holds_block(block as u64) {
                self.cached_versions[block] = None;
            } else {
                assert_eq!(self.cached_versions[block], Some(self.newest_versions[block]), "block {block} is stale");
            }
        }
        let page = u64::from(self.spec.page_blocks);
        let counters = self.cache.counters(self.cache.now);
        assert!(counters.held_blocks <= self.cache.sizes.pages * page);
        if let WritePolicy::Back(back) = self.spec.write {
            assert!(counters.dirty_blocks <= self.cache.max_dirty_pages * page, "{counters:?}");
            let clean = counters.held_blocks - counters.dirty_blocks;
            // pages written while they are read may turn clean before they can be evicted
            let settled = self.cache.sizes.line_shift == 0 && self.ios_below.iter().all(|u| u.io.write);
            assert!(!settled || clean <= self.cache.max_clean_pages * page, "{counters:?}");
            let volume = |u: &IoBelow| self.cache.find_volume((u.io.first / page) >> self.cache.sizes.line_shift);
            for index in 0..self.cache.volumes.len() {
                let under = self.ios_below.iter().filter(|u| u.io.write && volume(u) == index).count();
                assert!(under <= back.flush_depth as usize);
            }
            assert!(self.ios_below.iter().all(|u| !u.io.write || u.io.blocks <= back.coalesce_blocks.max(page as u32)));
        } else {
            assert_eq!(counters.dirty_blocks, 0);
        }
        assert_eq!(counters.waiting, self.waiting.len() as u64);
        assert_eq!(counters.total_reads() + counters.total_writes(), self.answered);
    }

    /// Applies or completes a random I/O in flight.
    fn serve_one_below(&mut self, now: Ns, rng: &mut Rng, out: &mut CacheActions) {
        let index = rng.next_below(self.ios_below.len() as u64) as usize;
        let under = &mut self.ios_below[index];
        let blocks = under.io.first as usize..under.io.end() as usize;
        if !under.applied {
            under.applied = true;
            match &under.data {
                Some(data) => self.blocks_below[blocks].copy_from_slice(data),
                None => under.data = Some(self.blocks_below[blocks].to_vec()),
            }
            if rng.next_bool(0.5) {
                return;
            }
        }
        let IoBelow { number, io, data, .. } = self.ios_below.swap_remove(index);
        for (block, version) in (io.first..).zip(data.unwrap_or_default()) {
            if !io.write && !self.cache.holds_block(block) {
                assert_eq!(version, self.newest_versions[block as usize], "block {block} came stale");
                self.cached_versions[block as usize] = Some(version);
            }
        }
        self.cache.complete_io(now, number, out);
        self.apply_actions(out, None);
    }
}

fn random_spec(rng: &mut Rng) -> BlockCacheSpec {
    let page_blocks = 1 << rng.next_below(4);
    let read = match rng.next_below(4) {
        0 => CacheReadAhead::None,
        1 => CacheReadAhead::Fixed { blocks: 1 + rng.next_below(40) as u32 },
        _ => CacheReadAhead::Doubling { from: 1 + rng.next_below(8) as u32, to: 8 + rng.next_below(60) as u32 },
    };
    let dirty_limit = rng.next_f64();
    let back = WriteBackPolicy {
        dirty_limit,
        flush_at: dirty_limit * rng.next_f64() * rng.next_below(2) as f64,
        flush_after: rng.next_bool(0.5).then(|| rng.next_below(3000)),
        flush_every: 500 * rng.next_below(2),
        coalesce_blocks: 1 + rng.next_below(40) as u32,
        flush_depth: 1 + rng.next_below(6) as u32,
        order: if rng.next_bool(0.5) { FlushOrder::Address } else { FlushOrder::Age },
        survives_power_loss: false,
    };
    BlockCacheSpec {
        bytes: u64::from(page_blocks) * 512 * (4 + rng.next_below(60)),
        page_blocks,
        read_ahead: read,
        streams: 1 + rng.next_below(4) as u32,
        starts_early: rng.next_bool(0.5),
        fault_blocks: if rng.next_bool(0.3) { Some(1 + rng.next_below(64) as u32) } else { None },
        write: if rng.next_bool(0.6) { WritePolicy::Back(back) } else { WritePolicy::Through },
        reserve_for_writes: 0.9 * rng.next_f64() * rng.next_below(2) as f64,
        allocate_on_write: rng.next_bool(0.5),
        read_before_partial_write: true,
    }
}

/// Returns a random or sequential request; writes never overlap an incomplete write, so that it is known which is
/// newer.
fn random_io(world: &TestBed, rng: &mut Rng, position: &mut u64, longest: u64) -> Io {
    let blocks = world.blocks_below.len() as u64;
    let length = 1 + rng.next_below(longest) as u32;
    if rng.next_bool(0.3) {
        *position = rng.next_below(blocks);
    }
    let mut io = Io { first: *position, blocks: length, write: rng.next_bool(0.4) };
    *position = io.end() % blocks;
    io.write &= world.pending_writes.iter().all(|w| w.io.end() <= io.first || io.end() <= w.io.first);
    io
}

fn run_seed(seed: u64, steps: u32) -> (Vec<u64>, CacheCounters) {
    let mut rng = Rng::new(seed, 0);
    let spec = random_spec(&mut rng);
    assert_eq!(spec.check_limits(), Ok(()));
    let line_shift = if rng.next_bool(0.4) { 1 + rng.next_below(6) as u32 } else { 0 };
    let blocks = 1 + rng.next_below(500);
    let middle = rng.next_below(blocks + 1) / 64 * 64;
    let volumes = [(0, middle), (middle, blocks - middle)];
    let mut world = TestBed::new(spec, line_shift, &volumes[usize::from(rng.next_bool(0.7))..]);
    let blocks = world.cache.capacity_blocks;
    let longest = [4, 20, 300][rng.next_below(3) as usize];
    let max_waiting = 1 + rng.next_below(12) as usize;
    let (mut out, mut now, mut index, mut issued) = (CacheActions::new(), 0, 0, 0);
    let (mut step, mut rounds) = (0, 0);
    while step < steps || !world.cache.is_idle() || !world.cache.is_clean() || !world.waiting.is_empty() {
        now += rng.next_below(100);
        rounds += 1;
        assert!(rounds < 1000 * steps, "seed {seed} never ends: {:?} {:?}", world.cache.counters(now), world.spec);
        if world.wake.is_some_and(|index| index <= now) {
            world.wake = None;
            world.cache.handle_wake(now, &mut out);
            world.apply_actions(&out, None);
        } else if step < steps && world.waiting.len() < max_waiting && rng.next_bool(0.6) {
            step += 1;
            issued += 1;
            let io = random_io(&world, &mut rng, &mut index, longest);
            if io.write {
                let io = Io { blocks: (io.end().min(blocks) - io.first) as u32, ..io };
                world.pending_writes.push(PendingWrite { request_id: issued, io, posted: io.first });
            }
            let answer = world.cache.submit(now, issued, &io, &mut out);
            world.apply_actions(&out, Some((issued, answer)));
        } else if !world.ios_below.is_empty() {
            world.serve_one_below(now, &mut rng, &mut out);
        } else if step == steps {
            world.cache.flush_all(now, &mut out);
            world.apply_actions(&out, None);
        }
    }
    assert!(world.waiting.is_empty() && world.ios_below.is_empty());
    assert_eq!((world.answered, &world.blocks_below), (u64::from(issued), &world.newest_versions), "seed {seed}");
    (world.log, world.cache.counters(now))
}

#[test]
fn nothing_is_lost_stale_or_answered_twice() {
    let mut sum = CacheCounters::default();
    for seed in 0..100 {
        let (_, counters) = run_seed(seed, 300);
        sum.reads_joined += counters.reads_joined;
        sum.reads_part += counters.reads_part;
        sum.writes_waited += counters.writes_waited;
        sum.blocks_overwritten += counters.blocks_overwritten;
        sum.pages_merged += counters.pages_merged;
        sum.blocks_ahead_used += counters.blocks_ahead_used;
    }
    // the runs covered all of these cases
    let min_count = sum.reads_joined.min(sum.reads_part).min(sum.writes_waited).min(sum.blocks_overwritten);
    assert!(min_count.min(sum.pages_merged).min(sum.blocks_ahead_used) > 700, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1000..1010 {
        assert_eq!(run_seed(seed, 200), run_seed(seed, 200));
    }
}
