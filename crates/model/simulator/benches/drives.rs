//! Requests per second of a simulated mechanical drive on one core: random reads of 4 KB one after the other, and
//! sixteen waiting at a time under shortest positioning first.
//!
//!     cargo bench -p diskwright-simulator --bench drives [-- --drive FILE.diskspecs] [--requests N]
//!
//! `--requests` makes each line one run of that many requests, for counting instructions. With `--tiny`, and when
//! `cargo test` runs it, it runs a few requests only, to see that it works; then the numbers are meaningless.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use diskwright_simulator::Io;
use diskwright_simulator::diskspecs;
use diskwright_simulator::drive::{DriveQueue, MechanicalDrive, Model, QueuePolicy};

/// A small generator (Marsaglia's xorshift).
struct XorShift(u64);

impl XorShift {
    fn next_read(&mut self, blocks: u64) -> Io {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let units = u128::from(blocks / 8);
        Io::read(((u128::from(self.0) * units) >> 64) as u64 * 8, 8)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let named = arguments.iter().position(|a| a == "--drive").and_then(|index| arguments.get(index + 1));
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drives/disk7200.diskspecs");
    let file = named.map_or_else(|| PathBuf::from(own), PathBuf::from);
    let load = |path: &str| std::fs::read_to_string(path).map_err(|e| e.to_string());
    let name = file.display().to_string();
    let text = load(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let drive = diskspecs::read_drive(&name, &text, &load).unwrap_or_else(|e| panic!("{e}"));
    let model = Arc::new(Model::new(&drive.spec).unwrap_or_else(|e| panic!("{name}: {e}")));
    println!("# {}: random reads of 4 KB, million a second of one core", model.name());
    let given_requests = arguments.iter().skip_while(|a| *a != "--requests").nth(1).and_then(|n| n.parse().ok());
    let (rounds, requests) = match given_requests {
        Some(requests) => (1, requests),
        None if tiny => (1, 2_000),
        None => (7, 3_000_000),
    };
    print_rates("one at a time", rounds, || run_sequentially(&model, requests));
    print_rates("one at a time, ten times as many", rounds.min(3), || run_sequentially(&model, requests * 10));
    for policy in QueuePolicy::ALL {
        print_rates(&format!("16 waiting, {}", policy.name()), rounds, || run_queued(&model, policy, 16, requests));
    }
}

fn print_rates(name: &str, rounds: u32, run: impl Fn() -> (u64, u64)) {
    let mut rates = Vec::new();
    let mut iops = 0.0;
    for _ in 0..rounds {
        let started = Instant::now();
        let (requests, end) = run();
        rates.push(requests as f64 / started.elapsed().as_secs_f64() / 1e6);
        iops = requests as f64 / (end as f64 / 1e9);
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:40} {:8.2} (best {:.2}); the drive does {iops:.1}/s",
        rates[rates.len() / 2],
        rates[rates.len() - 1]
    );
}

fn run_sequentially(model: &Arc<Model>, requests: u64) -> (u64, u64) {
    let (mut drive, mut rng, mut now) = (MechanicalDrive::new(model), XorShift(88_172_645_463_325_252), 0);
    for _ in 0..requests {
        now = drive.start(now, &rng.next_read(model.capacity_blocks())).done_at;
    }
    (requests, black_box(now))
}

fn run_queued(model: &Arc<Model>, policy: QueuePolicy, depth: u32, requests: u64) -> (u64, u64) {
    let (mut drive, mut rng, mut now) = (MechanicalDrive::new(model), XorShift(88_172_645_463_325_252), 0);
    let mut queue = DriveQueue::new(policy);
    for tag in 0..depth {
        queue.push(&drive, rng.next_read(model.capacity_blocks()), tag);
    }
    for _ in 0..requests {
        if let Some((io, tag)) = queue.next(now, &drive) {
            now = drive.start(now, &io).done_at;
            queue.push(&drive, rng.next_read(model.capacity_blocks()), tag);
        }
    }
    (requests, black_box(now))
}
