//! The cache above a layer that completes in random order, checked against the version last written to every block.

use diskwright_base::Rng;

use super::*;

/// An I/O in flight below, with the versions that it writes, or that it read once it was applied.
struct Under {
    number: u32,
    io: Io,
    data: Option<Vec<u64>>,
    applied: bool,
}

/// An incomplete write, and how far it was posted.
struct Writing {
    who: u32,
    io: Io,
    posted: u64,
}

/// Test bed with versions in place of data: a write's version is its id; 0 is the initial content.
struct World {
    cache: Cache,
    spec: BlockCacheSpec,
    store: Vec<u64>,
    /// Version of a block in the cache, if it is cached.
    copy: Vec<Option<u64>>,
    newest: Vec<u64>,
    under: Vec<Under>,
    writing: Vec<Writing>,
    waiting: Vec<u32>,
    answered: u64,
    wake: Option<Ns>,
    log: Vec<u64>,
}

impl World {
    fn new(spec: BlockCacheSpec, line_shift: u32, volumes: &[(u64, u64)]) -> World {
        let mut cache = Cache::over(&spec, volumes);
        let blocks = cache.blocks;
        // as in real caches, more than one entry must fit
        let fits = (0..=line_shift).rev().find(|shift| cache.clean_most > 1 << shift);
        cache.sizes.line_shift = fits.unwrap_or(0);
        let all = blocks as usize;
        World {
            cache,
            spec,
            store: vec![0; all],
            copy: vec![None; all],
            newest: vec![0; all],
            under: Vec::new(),
            writing: Vec::new(),
            waiting: Vec::new(),
            answered: 0,
            wake: None,
            log: Vec::new(),
        }
    }

    /// Returns how far a write was posted, according to the cache.
    fn cursor(&self, writing: &Writing) -> u64 {
        let mut waiting = (0..).map_while(|index| self.cache.flights.every_asked(index));
        let known = waiting.find(|asked| asked.who == writing.who);
        known.map_or(writing.io.end(), |a| (a.next << self.cache.sizes.page_shift).clamp(a.io.first, a.io.end()))
    }

    /// Applies the actions of a call, and checks the invariants.
    fn take(&mut self, out: &CacheActions, answer: Option<(u32, CacheAnswer)>) {
        self.log.extend(out.send.iter().map(|b| u64::from(b.number) << 40 ^ b.io.first << 8 ^ u64::from(b.io.blocks)));
        self.log.extend(out.ready.iter().map(|request_id| u64::from(*request_id)));
        if let Some((request_id, CacheAnswer::Wait)) = answer {
            self.waiting.push(request_id);
        }
        for request_id in &out.ready {
            let index = self.waiting.iter().position(|w| w == request_id).expect("answered once, and only who waits");
            self.waiting.swap_remove(index);
        }
        self.answered += out.ready.len() as u64 + u64::from(matches!(answer, Some((_, CacheAnswer::Done))));
        for index in 0..self.writing.len() {
            let upto = self.cursor(&self.writing[index]);
            let writing = &mut self.writing[index];
            for block in writing.posted..upto {
                self.newest[block as usize] = u64::from(writing.who);
                self.copy[block as usize] = Some(u64::from(writing.who));
            }
            writing.posted = upto.max(writing.posted);
        }
        let waiting = &self.waiting;
        self.writing.retain(|writing| waiting.contains(&writing.who));
        for below in &out.send {
            let io = below.io;
            assert!(io.blocks > 0 && io.end() <= self.store.len() as u64, "{io:?}");
            for other in &self.under {
                let apart = other.io.end() <= io.first || io.end() <= other.io.first;
                assert!(apart || other.io.write != io.write, "{io:?} and {:?} at once", other.io);
            }
            let data = io.write.then(|| (io.first..io.end()).map(|b| self.data_of(b)).collect());
            self.under.push(Under { number: below.number, io, data, applied: false });
        }
        if let Some(index) = out.wake_at {
            assert!(self.wake.is_none(), "one call at a time");
            self.wake = Some(index);
        }
        self.check();
    }

    fn data_of(&self, block: u64) -> u64 {
        match self.spec.write {
            WritePolicy::Through => self.newest[block as usize],
            WritePolicy::Back(_) => {
                assert!(self.cache.holds(block), "{block} goes below and is not here");
                self.copy[block as usize].expect("what is here is known")
            }
        }
    }

    fn check(&mut self) {
        for block in 0..self.store.len() {
            if !self.cache.holds(block as u64) {
                self.copy[block] = None;
            } else {
                assert_eq!(self.copy[block], Some(self.newest[block]), "block {block} is stale");
            }
        }
        let page = u64::from(self.spec.page_blocks);
        let counters = self.cache.counters(self.cache.now);
        assert!(counters.held_blocks <= self.cache.sizes.pages * page);
        if let WritePolicy::Back(back) = self.spec.write {
            assert!(counters.dirty_blocks <= self.cache.dirty_most * page, "{counters:?}");
            let clean = counters.held_blocks - counters.dirty_blocks;
            // pages written while they are read may turn clean before they can be evicted
            let settled = self.cache.sizes.line_shift == 0 && self.under.iter().all(|u| u.io.write);
            assert!(!settled || clean <= self.cache.clean_most * page, "{counters:?}");
            let volume = |u: &Under| self.cache.volume_of((u.io.first / page) >> self.cache.sizes.line_shift);
            for index in 0..self.cache.volumes.len() {
                let under = self.under.iter().filter(|u| u.io.write && volume(u) == index).count();
                assert!(under <= back.flush_depth as usize);
            }
            assert!(self.under.iter().all(|u| !u.io.write || u.io.blocks <= back.coalesce_blocks.max(page as u32)));
        } else {
            assert_eq!(counters.dirty_blocks, 0);
        }
        assert_eq!(counters.waiting, self.waiting.len() as u64);
        assert_eq!(counters.reads() + counters.writes(), self.answered);
    }

    /// Applies or completes a random I/O in flight.
    fn below(&mut self, now: Ns, rng: &mut Rng, out: &mut CacheActions) {
        let index = rng.next_below(self.under.len() as u64) as usize;
        let under = &mut self.under[index];
        let blocks = under.io.first as usize..under.io.end() as usize;
        if !under.applied {
            under.applied = true;
            match &under.data {
                Some(data) => self.store[blocks].copy_from_slice(data),
                None => under.data = Some(self.store[blocks].to_vec()),
            }
            if rng.next_bool(0.5) {
                return;
            }
        }
        let Under { number, io, data, .. } = self.under.swap_remove(index);
        for (block, version) in (io.first..).zip(data.unwrap_or_default()) {
            if !io.write && !self.cache.holds(block) {
                assert_eq!(version, self.newest[block as usize], "block {block} came stale");
                self.copy[block as usize] = Some(version);
            }
        }
        self.cache.finished(now, number, out);
        self.take(out, None);
    }
}

fn any_spec(rng: &mut Rng) -> BlockCacheSpec {
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
        protected: false,
    };
    BlockCacheSpec {
        bytes: u64::from(page_blocks) * 512 * (4 + rng.next_below(60)),
        page_blocks,
        read,
        streams: 1 + rng.next_below(4) as u32,
        early: rng.next_bool(0.5),
        fault_blocks: if rng.next_bool(0.3) { Some(1 + rng.next_below(64) as u32) } else { None },
        write: if rng.next_bool(0.6) { WritePolicy::Back(back) } else { WritePolicy::Through },
        reserve_for_writes: 0.9 * rng.next_f64() * rng.next_below(2) as f64,
        allocate_on_write: rng.next_bool(0.5),
        read_before_partial_write: true,
    }
}

/// Returns a random or sequential request; writes never overlap an incomplete write, so that it is known which is
/// newer.
fn any_io(world: &World, rng: &mut Rng, position: &mut u64, longest: u64) -> Io {
    let blocks = world.store.len() as u64;
    let length = 1 + rng.next_below(longest) as u32;
    if rng.next_bool(0.3) {
        *position = rng.next_below(blocks);
    }
    let mut io = Io { first: *position, blocks: length, write: rng.next_bool(0.4) };
    *position = io.end() % blocks;
    io.write &= world.writing.iter().all(|w| w.io.end() <= io.first || io.end() <= w.io.first);
    io
}

fn run(seed: u64, steps: u32) -> (Vec<u64>, CacheCounters) {
    let mut rng = Rng::new(seed, 0);
    let spec = any_spec(&mut rng);
    assert_eq!(spec.check(), Ok(()));
    let line_shift = if rng.next_bool(0.4) { 1 + rng.next_below(6) as u32 } else { 0 };
    let blocks = 1 + rng.next_below(500);
    let middle = rng.next_below(blocks + 1) / 64 * 64;
    let volumes = [(0, middle), (middle, blocks - middle)];
    let mut world = World::new(spec, line_shift, &volumes[usize::from(rng.next_bool(0.7))..]);
    let blocks = world.cache.blocks;
    let longest = [4, 20, 300][rng.next_below(3) as usize];
    let most = 1 + rng.next_below(12) as usize;
    let (mut out, mut now, mut index, mut asked) = (CacheActions::new(), 0, 0, 0);
    let (mut step, mut rounds) = (0, 0);
    while step < steps || !world.cache.is_idle() || !world.cache.is_clean() || !world.waiting.is_empty() {
        now += rng.next_below(100);
        rounds += 1;
        assert!(rounds < 1000 * steps, "seed {seed} never ends: {:?} {:?}", world.cache.counters(now), world.spec);
        if world.wake.is_some_and(|index| index <= now) {
            world.wake = None;
            world.cache.wake(now, &mut out);
            world.take(&out, None);
        } else if step < steps && world.waiting.len() < most && rng.next_bool(0.6) {
            step += 1;
            asked += 1;
            let io = any_io(&world, &mut rng, &mut index, longest);
            if io.write {
                let io = Io { blocks: (io.end().min(blocks) - io.first) as u32, ..io };
                world.writing.push(Writing { who: asked, io, posted: io.first });
            }
            let answer = world.cache.ask(now, asked, &io, &mut out);
            world.take(&out, Some((asked, answer)));
        } else if !world.under.is_empty() {
            world.below(now, &mut rng, &mut out);
        } else if step == steps {
            world.cache.flush_all(now, &mut out);
            world.take(&out, None);
        }
    }
    assert!(world.waiting.is_empty() && world.under.is_empty());
    assert_eq!((world.answered, &world.store), (u64::from(asked), &world.newest), "seed {seed}");
    (world.log, world.cache.counters(now))
}

#[test]
fn nothing_is_lost_stale_or_answered_twice() {
    let mut sum = CacheCounters::default();
    for seed in 0..100 {
        let (_, counters) = run(seed, 300);
        sum.reads_joined += counters.reads_joined;
        sum.reads_part += counters.reads_part;
        sum.writes_waited += counters.writes_waited;
        sum.blocks_overwritten += counters.blocks_overwritten;
        sum.pages_merged += counters.pages_merged;
        sum.blocks_ahead_used += counters.blocks_ahead_used;
    }
    // the runs covered all of these cases
    let least = sum.reads_joined.min(sum.reads_part).min(sum.writes_waited).min(sum.blocks_overwritten);
    assert!(least.min(sum.pages_merged).min(sum.blocks_ahead_used) > 700, "{sum:?}");
}

#[test]
fn the_same_again_is_the_same() {
    for seed in 1000..1010 {
        assert_eq!(run(seed, 200), run(seed, 200));
    }
}
