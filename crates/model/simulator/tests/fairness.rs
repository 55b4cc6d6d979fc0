//! Shortest positioning under random mixes: no request waits longer than a bound, and every stream gets a share.

use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::diskspecs;
use diskwright_simulator::drive::{
    DataSheet, DataSheetSeek, DriveQueue, MechanicalDrive, Model, QueuePolicy, TrackRate,
};

const S: Ns = 1_000_000_000;
/// Duration of a mix.
const RUN: Ns = 20 * S;
/// An arm and a turn take 30 ms at most on these drives, which six thousandths of five seconds are.
const MAX_WAIT: Ns = 5 * S;
/// Requests of each stream in a run: one per second.
const MIN_REQUESTS: u64 = 20;

fn from_file() -> Arc<Model> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drives/disk7200.diskspecs");
    let load = |path: &str| std::fs::read_to_string(path).map_err(|e| e.to_string());
    let found = diskspecs::read_drive(file, &load(file).expect("fixture"), &load).expect("a drive");
    Arc::new(Model::new(&found.spec).expect("possible"))
}

/// As catalogues have them: reads on after hits, reports writes early.
fn printed() -> Arc<Model> {
    let sheet = DataSheet {
        name: "of print".into(),
        rpm: 7200.0,
        heads: 4,
        capacity_bytes: None,
        cylinders: Some(6000),
        outer: TrackRate::Sectors(200.0),
        inner: TrackRate::Sectors(120.0),
        zones: 9,
        seek: DataSheetSeek::Points([1.5, 8.5, 17.0]),
        head_switch_ms: 1.0,
        write_settle_ms: 0.5,
        command_ms: 0.5,
        hit_ms: 0.2,
        cache_bytes: 1 << 20,
        segments: 4,
        read_ahead: true,
        write_cache: true,
        interface_bytes_per_s: 40e6,
        never_disconnects: false,
        on_arrival: false,
        queue_slots: 64,
        queue_policy: QueuePolicy::ShortestPositioning,
    };
    Arc::new(Model::new(&sheet.to_spec().expect("possible")).expect("possible"))
}

/// A stream of requests: sequential or random, reading or writing, of a fixed size.
struct RequestStream {
    next: Option<u64>,
    write: bool,
    blocks: u32,
    came: Ns,
    served: u64,
}

impl RequestStream {
    fn random(rng: &mut Rng, blocks: u64, sequential: bool) -> RequestStream {
        let next = sequential.then(|| rng.next_below(blocks / 2));
        RequestStream { next, write: rng.next_below(4) == 0, blocks: 1 << rng.next_below(6), came: 0, served: 0 }
    }

    fn next_request(&mut self, rng: &mut Rng, blocks: u64, now: Ns) -> Io {
        self.came = now;
        let room = blocks - u64::from(self.blocks);
        let first = match &mut self.next {
            Some(next) => {
                *next += u64::from(self.blocks);
                (*next - u64::from(self.blocks)) % room
            }
            None => rng.next_below(room),
        };
        Io { first, blocks: self.blocks, write: self.write }
    }
}

/// Runs one mix; returns the longest wait, and the count of the stream with the fewest requests.
fn run_mix(model: &Arc<Model>, seed: u64) -> (Ns, u64, String) {
    let mut rng = Rng::new(seed, 0);
    let (streams, others) = (1 + rng.next_below(4), rng.next_below(13));
    let blocks = model.capacity_blocks();
    let mut askers: Vec<RequestStream> =
        (0..streams + others).map(|n| RequestStream::random(&mut rng, blocks, n < streams)).collect();
    let mut drive = MechanicalDrive::new(model);
    let mut queue = DriveQueue::new(QueuePolicy::ShortestPositioning);
    for (index, asker) in askers.iter_mut().enumerate() {
        queue.push(&drive, asker.next_request(&mut rng, blocks, 0), index);
    }
    let (mut now, mut longest) = (0, 0);
    while now < RUN {
        let (io, index) = queue.next(now, &drive).expect("each has one request there");
        now = drive.start(now, &io).done_at;
        longest = longest.max(now - askers[index].came);
        askers[index].served += 1;
        let io = askers[index].next_request(&mut rng, blocks, now);
        queue.push(&drive, io, index);
    }
    let min_served = askers.iter().map(|asker| asker.served).min().unwrap_or(0);
    (longest, min_served, format!("{streams} streams, {others} others, seed {seed}"))
}

#[test]
fn no_stream_starves() {
    for (name, model) in [("file", from_file()), ("printed", printed())] {
        for seed in 0..30 {
            let (longest, min_served, context) = run_mix(&model, seed);
            assert!(longest <= MAX_WAIT, "{name}: {context}: {longest} ns");
            assert!(min_served >= MIN_REQUESTS, "{name}: {context}: {min_served} requests");
        }
    }
}
