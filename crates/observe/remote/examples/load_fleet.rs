//! Fills VictoriaMetrics with a synthetic fleet, and prints its known bottlenecks.
//!
//!     cargo run --release -p diskwright-remote --example load_fleet -- URL HOSTS HOURS END_S
//!
//! `END_S` is the time of the last sample, seconds since 1970. Standard output has one line
//! per machine: its name and its bottleneck.

#![allow(clippy::disallowed_macros, reason = "a program of its own, whose output is small")]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use diskwright_remote::{MetricStore, StoreAccess};

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

const EVERY_S: f64 = 15.0;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, hosts, hours, end_s] = arguments.as_slice() else {
        return Err("usage: load_fleet URL HOSTS HOURS END_S".into());
    };
    let (hosts, hours): (usize, f64) = (hosts.parse()?, hours.parse()?);
    let end_ms = (end_s.parse::<f64>()? * 1e3) as i64;
    let ticks = (hours * 3600.0 / EVERY_S) as usize + 1;
    let first_ms = end_ms - ((ticks - 1) as f64 * EVERY_S * 1e3) as i64;
    let timestamps = synthetic::timestamps_json(first_ms, ticks, EVERY_S);
    let store = MetricStore::new(&StoreAccess::new(url))?;
    let (next, samples) = (AtomicUsize::new(0), AtomicU64::new(0));
    let started = Instant::now();
    let send = || -> Result<(), diskwright_remote::RemoteError> {
        let mut body = Vec::new();
        loop {
            let host = next.fetch_add(1, Ordering::Relaxed);
            if host >= hosts {
                return Ok(());
            }
            body.clear();
            let series = synthetic::host_series(host, hosts, ticks, EVERY_S);
            series.iter().for_each(|s| synthetic::write_import_line(s, &timestamps, &mut body));
            store.send("/api/v1/import", &[], &body)?;
            samples.fetch_add((series.len() * ticks) as u64, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(send), scope.spawn(send)];
        workers.into_iter().try_for_each(|w| w.join().unwrap_or(Ok(())))
    })?;
    let (count, seconds) = (samples.load(Ordering::Relaxed), started.elapsed().as_secs_f64());
    eprintln!("{count} samples of {hosts} machines loaded in {seconds:.0} s");
    for host in 0..hosts {
        println!("{} {}", synthetic::host_name(host), synthetic::trouble_of_host(host, hosts).bottleneck());
    }
    Ok(())
}
