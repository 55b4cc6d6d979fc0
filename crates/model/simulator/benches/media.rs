//! Requests per second of a simulated SSD and a cloud volume on one core: 4 KB at random positions, queue depth 64,
//! without a system.
//!
//!     cargo bench -p diskwright-simulator --bench media [-- --drive ID]
//!
//! With `--tiny`, and when `cargo test` runs it, it runs a few requests only, to see that it works; then the numbers
//! are meaningless.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::Io;
use diskwright_simulator::catalogue;
use diskwright_simulator::flash::FlashDevice;
use diskwright_simulator::volume::CloudVolume;

/// Requests in flight.
const DEPTH: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let named = arguments.iter().position(|a| a == "--drive").and_then(|index| arguments.get(index + 1));
    let drives = named.map_or_else(|| vec!["intel-p5500-7680", "samsung-pm883-960", "aws-gp3-most"], |id| vec![id]);
    let (rounds, requests) = if tiny { (1, 2_000) } else { (5, 5_000_000) };
    println!("# 4 KB anywhere, {DEPTH} at a time: million requests a second of one core");
    for id in drives {
        let Some(entry) = catalogue::find_entry(id) else { panic!("{id} is not in the catalogue") };
        let device = entry.build_device().unwrap_or_else(|e| panic!("{id}: {e}"));
        for writes in [0.0, 0.3, 1.0] {
            let mut rates: Vec<f64> = (0..rounds).map(|_| measure_rate(&device, writes, requests)).collect();
            rates.sort_by(f64::total_cmp);
            let best = rates[rates.len() - 1];
            println!("{id:24} {:3.0} % writes {:8.2} (best {best:.2})", writes * 100.0, rates[rates.len() / 2]);
        }
    }
}

fn measure_rate(device: &DeviceModel, writes: f64, requests: u64) -> f64 {
    let mut rng = Rng::new(1, 0);
    let places = device.block_count() / 8;
    let started = Instant::now();
    let end = match device {
        DeviceModel::Flash(model) => {
            let mut flash = FlashDevice::new(model);
            run_closed(&mut rng, places, writes, requests, |now, io| flash.submit(now, io))
        }
        DeviceModel::Volume(spec) => {
            let mut volume = CloudVolume::new(spec, Rng::new(1, 1));
            run_closed(&mut rng, places, writes, requests, |now, io| volume.submit_request(now, io))
        }
        _ => panic!("an SSD or a cloud volume"),
    };
    black_box(end);
    requests as f64 / started.elapsed().as_secs_f64() / 1e6
}

/// A ring of requests: each slot is reused when its last request is done, so that little but the device is measured.
fn run_closed(rng: &mut Rng, places: u64, writes: f64, requests: u64, mut submit: impl FnMut(u64, &Io) -> u64) -> u64 {
    let mut done = [0u64; DEPTH];
    let mut now = 0;
    for index in 0..requests as usize {
        now = now.max(done[index % DEPTH]);
        let io = Io { first: rng.next_below(places) * 8, blocks: 8, write: rng.next_bool(writes) };
        done[index % DEPTH] = submit(now, &io);
    }
    now
}
