//! Cost of planning, per member I/O.
//!
//!     cargo bench -p diskwright-simulator --bench arrays
//!
//! With `--tiny`, and when `cargo test` runs it, it runs a few requests only, to see that it works; then the numbers
//! are meaningless. Each line is the minimum of several rounds: other load on the machine only adds time.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::array::{
    ArrayDescription, ArrayGeometry, ArrayLevel, ArrayPolicy, ArrayRequest, ArrayState, CopyChoice, MemberIoPlan,
    Planner,
};

/// A load on a level with a number of members.
struct Load {
    level: ArrayLevel,
    members: u16,
    blocks: u32,
    writes: f64,
    failed: Option<u16>,
}

impl Load {
    const fn new(level: ArrayLevel, members: u16, blocks: u32, writes: f64) -> Load {
        Load { level, members, blocks, writes, failed: None }
    }
}

const LOADS: &[(&str, Load)] = &[
    ("RAID 5 of 8, 4 KB reads", Load::new(ArrayLevel::Raid5, 8, 8, 0.0)),
    ("RAID 5 of 8, 4 KB, half writes", Load::new(ArrayLevel::Raid5, 8, 8, 0.5)),
    ("RAID 5 of 8, 4 KB writes", Load::new(ArrayLevel::Raid5, 8, 8, 1.0)),
    ("RAID 5 of 8, 64 KB, half writes", Load::new(ArrayLevel::Raid5, 8, 128, 0.5)),
    ("RAID 5 of 8, 1 MB writes", Load::new(ArrayLevel::Raid5, 8, 2048, 1.0)),
    ("RAID 5 of 8, 4 KB, half writes, one failed", Load { failed: Some(3), ..Load::new(ArrayLevel::Raid5, 8, 8, 0.5) }),
    ("RAID 6 of 8, 4 KB writes", Load::new(ArrayLevel::Raid6, 8, 8, 1.0)),
    ("RAID 0 of 8, 4 KB reads", Load::new(ArrayLevel::Raid0, 8, 8, 0.0)),
    ("RAID 0 of 8, 1 MB reads", Load::new(ArrayLevel::Raid0, 8, 2048, 0.0)),
    ("RAID 10 of 8, 4 KB, half writes", Load::new(ArrayLevel::Raid10, 8, 8, 0.5)),
    ("RAID 10 of 14, 4 KB, half writes", Load::new(ArrayLevel::Raid10, 14, 8, 0.5)),
];

/// Policies of mirrored reads that are compared.
const READS: &[(&str, CopyChoice)] = &[
    ("mirror of 2, 4 KB reads, round robin", CopyChoice::RoundRobin),
    ("mirror of 2, 4 KB reads, nearest", CopyChoice::Nearest),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, requests) = if tiny { (2, 1000) } else { (7, 1_000_000) };
    println!("# cost of planning, {rounds} rounds of {requests} requests (goal: well below 50 ns a member I/O)");
    println!("{:<44} {:>12} {:>12} {:>14}", "", "ns/request", "ns/member", "members/request");
    for (name, load) in LOADS {
        let array =
            ArrayGeometry::new(&ArrayDescription::new(load.level, load.members, 1 << 27, 128)).expect("a valid array");
        let mut planner = Planner::new(array, ArrayPolicy::default());
        planner.set_state(ArrayState::with_failed(load.failed));
        print_line(name, &mut planner, load.blocks, load.writes, rounds, requests);
    }
    for (name, read_from) in READS {
        let array =
            ArrayGeometry::new(&ArrayDescription::new(ArrayLevel::Raid1, 2, 1 << 27, 0)).expect("a valid array");
        let mut planner = Planner::new(array, ArrayPolicy { read_from: *read_from, ..ArrayPolicy::default() });
        print_line(name, &mut planner, 8, 0.0, rounds, requests);
    }
}

fn print_line(name: &str, planner: &mut Planner, blocks: u32, writes: f64, rounds: u32, requests: usize) {
    let mut rng = Rng::new(1, 0);
    let places = planner.array().capacity_blocks() / 8 - u64::from(blocks);
    let batch: Vec<ArrayRequest> = (0..requests.min(1 << 16))
        .map(|_| ArrayRequest {
            write: rng.next_bool(writes),
            ..ArrayRequest::read(rng.next_below(places) * 8, blocks)
        })
        .collect();
    let mut plan = MemberIoPlan::new();
    let (mut best, mut ios) = (f64::MAX, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        let mut count = 0;
        for request in batch.iter().cycle().take(requests) {
            planner.plan_request(*request, &mut plan);
            count += black_box(&plan).io_count();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / requests as f64);
        ios = count;
    }
    let share = ios as f64 / requests as f64;
    println!("{name:<44} {best:>12.1} {:>12.1} {share:>14.2}", best / share);
}
