//! Cost of generating requests: loads without a system, every request completed at once.
//!
//!     cargo bench -p diskwright-simulator --bench loads
//!
//! With `--tiny`, and when `cargo test` runs it, it runs a few only, to see that it works; then the numbers are
//! meaningless.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::load::*;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let (rounds, requests) = if tiny { (1, 1000) } else { (5, 3_000_000) };
    println!("# loads, best of {rounds} rounds of {requests} requests");
    for (label, spec) in named_loads() {
        let round = |_| measure_load_ns(&spec, requests);
        let ns = (0..rounds).map(round).fold(f64::MAX, f64::min);
        println!("{label:<48} {ns:>7.1} ns a request");
    }
}

fn named_loads() -> Vec<(&'static str, LoadSpec)> {
    let users = |transfer: OperationTransfer| {
        LoadSpec::Closed(ClosedSpec {
            users: 32,
            classes: vec![OperationClass::with_transfer("io", 1.0, transfer)],
            ..ClosedSpec::default()
        })
    };
    let mixed = RequestSizes::Weighted(vec![(4096, 0.6), (8192, 0.3), (65_536, 0.1)]);
    let zipf = OperationTransfer {
        access: AccessPattern::Zipf { theta: 0.99 },
        bytes: mixed,
        read_share: 0.7,
        ..OperationTransfer::default()
    };
    let copy = OperationTransfer {
        bytes: RequestSizes::One(65_536),
        total_bytes: Some(4 << 20),
        parallel: 4,
        ..OperationTransfer::default()
    };
    let sort = SortSpec { data_bytes: 10_000_000_000, memory_bytes: 64 << 20, ..SortSpec::default() };
    let large = OltpSpec { users: 32, checkpoint_s: 0.0, buffers: 1 << 20, ..OltpSpec::default() };
    vec![
        ("32 users, uniform 4 KB reads", users(OperationTransfer::default())),
        ("32 users, zipf, three sizes, 70 % reads", users(zipf)),
        ("32 users, files of 4 MB in pieces of 64 KB", users(copy)),
        ("Poisson arrivals, uniform 4 KB reads", LoadSpec::Open(OpenSpec::default())),
        ("NetBench, 32 clients", LoadSpec::Netbench(NetbenchSpec { clients: 32, ..NetbenchSpec::default() })),
        ("scans, 4 users of 4 threads", LoadSpec::Scan(ScanSpec { users: 4, degree: 4, ..ScanSpec::default() })),
        // without checkpoints: their clock is meaningless where every request completes at once
        ("transactions, 32 users", LoadSpec::Oltp(OltpSpec { users: 32, checkpoint_s: 0.0, ..OltpSpec::default() })),
        // on 4 TB, where few of half a billion pages are dirty
        ("transactions on a very large database, 32 users", LoadSpec::Oltp(large)),
        ("external sort of 10 GB in 64 MB", LoadSpec::Sort(sort)),
    ]
}

/// Generates requests, one completion at a time; ns for each.
fn measure_load_ns(spec: &LoadSpec, requests: u64) -> f64 {
    let blocks = match spec {
        LoadSpec::Oltp(oltp) if oltp.buffers >= 1 << 20 => 1 << 33,
        _ => 1 << 30,
    };
    let mut load = Load::new(spec, &[blocks], Rng::new(1, 1)).expect("a possible load");
    let (mut asks, mut out) = (Vec::new(), std::collections::VecDeque::new());
    let start = Instant::now();
    (0..load.user_count()).for_each(|user| load.next(0, user, Cause::Start, &mut asks));
    let (mut now, mut done) = (0, 0);
    while done < requests && !load.is_finished() {
        out.extend(asks.drain(..));
        let Some(ask) = out.pop_front() else { break };
        now = ask.start_ns.max(now) + 1;
        done += u64::from(ask.io.blocks > 0);
        load.next(now, ask.agent, Cause::Done, &mut asks);
    }
    start.elapsed().as_secs_f64() * 1e9 / done as f64
}
