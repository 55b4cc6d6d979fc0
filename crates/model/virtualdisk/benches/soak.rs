//! Soak test: a day of random reads, writes, trims, zeros, flushes and connection losses,
//! compressed by the time scale, every byte checked against a shadow, while members fail and are
//! replaced.
//!
//!     cargo bench -p diskwright-virtualdisk --bench soak [-- --hours 24 --speed 1000]
//!
//! With `--tiny`, and when `cargo test` runs it, it does only a little.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

#[path = "../tests/served/mod.rs"]
mod served;
#[path = "../tests/shadow/mod.rs"]
mod shadow;

use std::time::Instant;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::System;
use diskwright_virtualdisk::server::DiskCommand;
use served::{Running, array, plain_drives, serve};
use shadow::Load;

/// Size of a drive, blocks.
const BLOCKS: u64 = 16_384;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let number = |key: &str, usual: f64| {
        let text = arguments.iter().skip_while(|a| *a != key).nth(1);
        text.and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let tiny = has("--tiny") || !has("--bench");
    let (hours, speed) = (number("--hours", if tiny { 0.01 } else { 24.0 }), number("--speed", 1000.0));
    let systems: [(&str, System); 5] = [
        // each request takes 5 ms, and a drive does one at a time
        ("a drive", plain_drives(1, BLOCKS, 1, 5_000_000)),
        ("RAID 1 of 2", array(plain_drives(2, BLOCKS, 1, 5_000_000), ArrayLevel::Raid1)),
        ("RAID 5 of 4", array(plain_drives(4, BLOCKS, 1, 5_000_000), ArrayLevel::Raid5)),
        ("RAID 6 of 5", array(plain_drives(5, BLOCKS, 1, 5_000_000), ArrayLevel::Raid6)),
        ("RAID 10 of 4", array(plain_drives(4, BLOCKS, 1, 5_000_000), ArrayLevel::Raid10)),
    ];
    let each_s = hours * 3600.0 / systems.len() as f64;
    println!("# {hours} hours at {speed} times the speed, the same part of it for each");
    for (seed, (name, system)) in (1..).zip(systems) {
        one(name, system, seed, each_s, speed);
    }
}

fn one(name: &str, system: System, seed: u64, lasts_s: f64, speed: f64) {
    let redundant = !system.arrays.is_empty();
    let began = Instant::now();
    let running = serve(system, |options| options.speed = speed);
    let mut load = Load::new(&running.path, "", seed);
    let (mut failures, mut virtual_s, mut round) = (0, 0.0, 0);
    while virtual_s < lasts_s {
        load.run_requests(500);
        load.break_random_connection();
        round += 1;
        if redundant && round % 4 == 0 {
            failures += u32::from(change_member(&running, round));
        }
        virtual_s =
            running.send_command(&DiskCommand::Status).expect("a status")["virtual_s"].as_f64().unwrap_or(f64::NAN);
    }
    load.wait_for_all();
    load.verify_disk();
    println!(
        "{name:14} {virtual_s:8.0} s, {:5.0} by the clock: {:?}, {failures} failures of members",
        began.elapsed().as_secs_f64(),
        load.tally
    );
}

/// Fails a member if all are healthy, otherwise replaces the failed one. Returns true if one
/// failed.
fn change_member(running: &Running, round: usize) -> bool {
    let status = running.send_command(&DiskCommand::Status).expect("a status");
    let members = status["arrays"][0]["members"].as_array().expect("members");
    let of = |state: &str| members.iter().find(|member| member["state"] == state);
    let name = |member: &serde_json::Value| member["drive"].as_str().expect("a drive").to_owned();
    if of("rebuilding").is_some() {
        return false;
    }
    if let Some(failed) = of("failed") {
        running.send_command(&DiskCommand::Replace { member: name(failed) }).expect("replaced");
        return false;
    }
    running.send_command(&DiskCommand::Fail { member: name(&members[round % members.len()]) }).expect("failed");
    true
}
