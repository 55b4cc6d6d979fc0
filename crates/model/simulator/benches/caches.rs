//! Cost of a request at a cache.
//!
//!     cargo bench -p diskwright-simulator --bench caches
//!
//! With `--tiny`, and when `cargo test` runs it, it runs a few only, to see that it works; then the numbers are
//! meaningless. Each line is the minimum of several rounds: other load on the machine only adds time.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::Io;
use diskwright_simulator::cache::*;

/// A cache above a layer that completes every I/O at once.
struct DirectCache {
    cache: Cache,
    out: CacheActions,
    under: Vec<BackingIo>,
    now: u64,
}

impl DirectCache {
    fn new(spec: &BlockCacheSpec) -> DirectCache {
        DirectCache { cache: Cache::new(spec, 1 << 32), out: CacheActions::new(), under: Vec::new(), now: 0 }
    }

    #[inline]
    fn submit(&mut self, io: Io) {
        self.now += 1000;
        black_box(self.cache.submit(self.now, 1, &io, &mut self.out));
        if !self.out.send.is_empty() {
            self.complete_backing_ios();
        }
    }

    fn complete_backing_ios(&mut self) {
        self.under.append(&mut self.out.send);
        while let Some(below) = self.under.pop() {
            self.cache.complete_io(self.now, below.flight_number, &mut self.out);
            self.under.append(&mut self.out.send);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, count) = if tiny { (2, 1000) } else { (7, 1_000_000) };
    println!("# caches, {rounds} rounds of {count}");
    for (name, bytes) in [("4 MB", 4 << 20), ("64 MB", 64 << 20), ("1 GB", 1 << 30), ("64 GB", 64u64 << 30)] {
        let pages = if tiny { 1000 } else { (bytes / 4096).min(4 << 20) };
        let spec = BlockCacheSpec { bytes, ..BlockCacheSpec::default() };
        for (label, read) in [("", CacheReadAhead::None), (", looking for sequences", spec.read_ahead)] {
            let mut world = DirectCache::new(&BlockCacheSpec { read_ahead: read, ..spec });
            (0..pages / 16).for_each(|run| world.submit(Io::read(run * 128, 128)));
            let line = format!("a page hit, {name}, random{label}");
            let io = |rng: &mut Rng, _| Io::read(rng.next_below(pages / 16 * 16) * 8, 8);
            print_best_time(&line, rounds, count, &mut world, io);
        }
    }
    let none = BlockCacheSpec { read_ahead: CacheReadAhead::None, ..BlockCacheSpec::default() };
    let far = |rng: &mut Rng, write| Io { first: rng.next_below(1 << 28) * 8, blocks: 8, write };
    print_best_time("a page missed, 64 MB, random", rounds, count, &mut DirectCache::new(&none), |rng, _| {
        far(rng, false)
    });
    let ahead = |_: &mut Rng, page| Io::read(page * 8, 8);
    print_best_time(
        "a page of a sequential reader",
        rounds,
        count,
        &mut DirectCache::new(&BlockCacheSpec::default()),
        ahead,
    );
    for order in [FlushOrder::Address, FlushOrder::Age] {
        let back = WriteBackPolicy { order, ..WriteBackPolicy::default() };
        let spec = BlockCacheSpec { write: WritePolicy::Back(back), ..none };
        let line = format!("a page posted and flushed by {order:?}, random");
        print_best_time(&line, rounds, count, &mut DirectCache::new(&spec), |rng, _| far(rng, true));
        let line = format!("a page posted and flushed by {order:?}, sequential");
        print_best_time(&line, rounds, count, &mut DirectCache::new(&spec), |_, page| Io::write(page * 8, 8));
    }
    let through = BlockCacheSpec { write: WritePolicy::Through, ..none };
    print_best_time("a page written through, random", rounds, count, &mut DirectCache::new(&through), |rng, _| {
        far(rng, true)
    });
}

/// Prints the shortest time of a round, ns per request.
fn print_best_time(label: &str, rounds: u32, count: u64, world: &mut DirectCache, io: impl Fn(&mut Rng, u64) -> Io) {
    let mut rng = Rng::new(1, 0);
    let mut round = |round: u64| {
        let start = Instant::now();
        (0..count).for_each(|index| world.submit(io(&mut rng, round * count + index)));
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    let best_ns = (0..u64::from(rounds)).map(&mut round).fold(f64::MAX, f64::min);
    println!("{label:<56} {best_ns:>8.1} ns");
}
