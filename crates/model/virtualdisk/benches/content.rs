//! Measures the cost of content per request, and the speed of parity computation.
//!
//!     cargo bench -p diskwright-virtualdisk --bench content
//!
//! With `--tiny`, and when `cargo test` runs it, it does a few requests only, to check that it
//! works; the numbers then mean nothing. Each line is the minimum of several rounds, because other
//! activity of the machine only adds. The first line is the lower bound: moving the same bytes,
//! random 4 KB of as much memory.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::{ArraySpec, DriveGroupSpec, System, WorkloadTarget};
use diskwright_virtualdisk::content::{Content, ContentBacking, gf256};

const SIZE: usize = 4096;

struct Scale {
    rounds: usize,
    requests: usize,
    /// Size of the content that requests go to, bytes.
    bytes: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|a| a == wanted);
    let tiny = has("--tiny") || !has("--bench");
    let scale = match tiny {
        true => Scale { rounds: 1, requests: 100, bytes: 4 << 20 },
        false => Scale { rounds: 7, requests: 200_000, bytes: 512 << 20 },
    };
    println!("# {} rounds of {} requests on {} bytes (goal: about 1 us)", scale.rounds, scale.requests, scale.bytes);
    println!("{:<44} {:>10} {:>10} {:>10}", "random 4 KB", "ns read", "ns write", "ns first");
    copy_bytes(&scale);
    let file = std::env::temp_dir().join(format!("diskwright-content-bench-{}.img", std::process::id()));
    let single = (ArrayLevel::Linear, 1, None);
    print_line("one drive, memory", &scale, single, None);
    print_line("one drive, file", &scale, single, Some(&file));
    for (name, level, failed) in [
        ("RAID 10 of 8, memory", ArrayLevel::Raid10, None),
        ("RAID 5 of 8, memory", ArrayLevel::Raid5, None),
        ("RAID 5 of 8, one failed, memory", ArrayLevel::Raid5, Some(3)),
        ("RAID 6 of 8, memory", ArrayLevel::Raid6, None),
        ("RAID 7 of 8, memory", ArrayLevel::Raid7, None),
    ] {
        print_line(name, &scale, (level, 8, failed), None);
    }
    print_line("RAID 5 of 8, file", &scale, (ArrayLevel::Raid5, 8, None), Some(&file));
    print_computation_rates(&scale);
}

fn system(level: ArrayLevel, members: u32, scale: &Scale) -> System {
    let spec = PlainSpec {
        name: "plain".to_owned(),
        blocks: scale.bytes / 512,
        servers: 1,
        service: ServiceTimeDistribution::Constant(0),
        bytes_per_s: f64::INFINITY,
    };
    let mut system = System::new("bench");
    system.drives.push(DriveGroupSpec::new("disk", members, DeviceModel::Plain(Arc::new(spec))));
    if members > 1 {
        system.arrays.push(ArraySpec::new("array", level, (0..members).collect()));
    }
    system
}

/// Returns the smallest time per request over all rounds, ns.
fn min_request_ns(scale: &Scale, mut request: impl FnMut(u64)) -> f64 {
    let mut best = f64::MAX;
    for round in 0..scale.rounds {
        let mut rng = Rng::new(1, round as u64);
        let start = Instant::now();
        for _ in 0..scale.requests {
            request(rng.next_below(scale.bytes / SIZE as u64) * SIZE as u64);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / scale.requests as f64);
    }
    best
}

fn copy_bytes(scale: &Scale) {
    let mut memory = vec![1u8; scale.bytes as usize];
    let mut buffer = [2u8; SIZE];
    let read = min_request_ns(scale, |position| {
        buffer.copy_from_slice(&memory[position as usize..position as usize + SIZE]);
        black_box(&mut buffer);
    });
    let write = min_request_ns(scale, |position| {
        memory[position as usize..position as usize + SIZE].copy_from_slice(black_box(&buffer));
    });
    println!("{:<44} {read:>10.0} {write:>10.0} {:>10}", "copying alone", "");
}

fn print_line(
    name: &str,
    scale: &Scale,
    (level, members, failed): (ArrayLevel, u32, Option<u16>),
    file: Option<&PathBuf>,
) {
    let backing = match file {
        Some(path) => ContentBacking::File(path.clone()),
        None => ContentBacking::Memory { max_bytes: None },
    };
    let mut content = Content::new(&system(level, members, scale), &backing).expect("content");
    let target = if members > 1 { WorkloadTarget::Array(0) } else { WorkloadTarget::Drive(0) };
    if let Some(member) = failed {
        content.fail_member(0, member).expect("a member");
    }
    let mut buffer: Vec<u8> = (0..SIZE).map(|i| i as u8 | 1).collect();
    let start = Instant::now();
    for index in (0..scale.bytes).step_by(SIZE) {
        content.write(target, index, &buffer).expect("room");
    }
    let first = start.elapsed().as_nanos() as f64 / (scale.bytes / SIZE as u64) as f64;
    let read = min_request_ns(scale, |offset| content.read(target, offset, black_box(&mut buffer)).expect("bytes"));
    let write = min_request_ns(scale, |offset| content.write(target, offset, black_box(&buffer)).expect("room"));
    println!("{name:<44} {read:>10.0} {write:>10.0} {first:>10.0}");
    if let Some(path) = file {
        std::fs::remove_file(path).expect("the file is ours");
    }
}

/// Copies bytes.
type Kind = fn(&mut [u8], &[u8]);

/// Prints the bytes per second of each computation, in cache and beyond it.
fn print_computation_rates(scale: &Scale) {
    println!("{:<44} {:>10} {:>10}", "GB/s", "in 64 KB", "in 64 MB");
    let kinds: [(&str, Kind); 6] = [
        ("copying", |to, from| to.copy_from_slice(from)),
        ("P: XOR", |to, from| gf256::horner_step(0, to, from)),
        ("Q: doubling and XOR", |to, from| gf256::horner_step(1, to, from)),
        ("R: doubling twice and XOR", |to, from| gf256::horner_step(2, to, from)),
        ("times 2^3 and XOR", |to, from| gf256::add_multiple(to, 8, from)),
        ("times any and XOR", |to, from| gf256::add_multiple(to, 0xe9, from)),
    ];
    for (name, kind) in kinds {
        let [near, far] = [1 << 16, 1 << 26].map(|len: usize| {
            let len = len.min(scale.bytes as usize);
            let (mut to, from) = (vec![1u8; len], vec![2u8; len]);
            let times = (scale.bytes as usize / len).max(1);
            let mut best = f64::MAX;
            for _ in 0..scale.rounds {
                let start = Instant::now();
                (0..times).for_each(|_| kind(black_box(&mut to), black_box(&from)));
                best = best.min(start.elapsed().as_secs_f64());
            }
            (len * times) as f64 / best / 1e9
        });
        println!("{name:<44} {near:>10.1} {far:>10.1}");
    }
}
