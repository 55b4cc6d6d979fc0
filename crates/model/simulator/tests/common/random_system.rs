//! Random systems that are possible.

use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::cache::{BlockCacheSpec, CacheReadAhead, FlushOrder, WriteBackPolicy, WritePolicy};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::drive::QueuePolicy;
use diskwright_simulator::load::{
    AccessPattern, ClosedSpec, DurationDistribution, LoadSpec, OperationClass, OperationTransfer as Transfer,
    RequestSizes,
};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::*;

/// Picks one of several values.
pub fn pick_one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.next_below(of.len() as u64) as usize].clone()
}

/// Draws a value with a probability.
fn draw_optional<T>(rng: &mut Rng, share: f64, draw: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    if rng.next_bool(share) { Some(draw(rng)) } else { None }
}

fn random_device(rng: &mut Rng) -> DeviceModel {
    if rng.next_bool(0.3) {
        let mechanical = |e: &&catalogue::CatalogueEntry| e.class == catalogue::DriveClass::Hdd;
        let known: Vec<&catalogue::CatalogueEntry> = catalogue::built_in_entries().iter().filter(mechanical).collect();
        if !known.is_empty() {
            return pick_one(rng, &known).build_device().expect("drives of the catalogue are possible");
        }
    }
    let mean = 200_000 + rng.next_below(5_000_000);
    let service = match rng.next_below(3) {
        0 => ServiceTimeDistribution::Constant(mean),
        1 => ServiceTimeDistribution::Exponential { mean },
        _ => ServiceTimeDistribution::Uniform { min: mean / 2, max: mean * 2 },
    };
    let bytes_per_s = if rng.next_bool(0.5) { f64::INFINITY } else { 5e6 + 1e8 * rng.next_f64() };
    let servers = 1 + rng.next_below(3) as u32;
    DeviceModel::Plain(Arc::new(PlainSpec { name: "plain".into(), blocks: 1 << 20, servers, service, bytes_per_s }))
}

fn random_cache(rng: &mut Rng) -> BlockCacheSpec {
    let dirty_limit = 0.1 + 0.9 * rng.next_f64();
    let back = WriteBackPolicy {
        dirty_limit,
        flush_at: dirty_limit * rng.next_f64(),
        flush_after: draw_optional(rng, 0.5, |rng| rng.next_below(2_000_000_000)),
        flush_every: 0,
        coalesce_blocks: 8 << rng.next_below(6),
        flush_depth: 1 + rng.next_below(16) as u32,
        order: pick_one(rng, &[FlushOrder::Address, FlushOrder::Age]),
        survives_power_loss: false,
    };
    let read = match rng.next_below(3) {
        0 => CacheReadAhead::None,
        1 => CacheReadAhead::Fixed { blocks: 8 << rng.next_below(5) },
        _ => CacheReadAhead::Doubling { from: 8 << rng.next_below(3), to: 64 << rng.next_below(3) },
    };
    BlockCacheSpec {
        bytes: (64 + rng.next_below(2000)) * 4096,
        read_ahead: read,
        starts_early: rng.next_bool(0.5),
        write: pick_one(rng, &[WritePolicy::Through, WritePolicy::Back(back)]),
        reserve_for_writes: 0.5 * rng.next_f64(),
        allocate_on_write: rng.next_bool(0.5),
        read_before_partial_write: rng.next_bool(0.5),
        ..BlockCacheSpec::default()
    }
}

fn add_random_path(rng: &mut Rng, system: &mut System, caches: bool) {
    let buses = rng.next_below(2);
    let bus = |_| Bus {
        name: "bus".into(),
        rate: 20_000_000 + rng.next_below(200_000_000),
        overhead_ns: rng.next_below(5000),
    };
    system.buses = (0..buses).map(bus).collect();
    for number in 0..rng.next_below(3) {
        let transfer = match rng.next_below(3) {
            0 => TransferMode::Pio { interrupt_blocks: 1 + rng.next_below(8) as u32, byte_ps: rng.next_below(20_000) },
            1 => TransferMode::Dma { interrupt_blocks: Some(8) },
            _ => TransferMode::Dma { interrupt_blocks: None },
        };
        system.controllers.push(Controller {
            bus: (!system.buses.is_empty()).then_some(0),
            command_ns: rng.next_below(200_000),
            member_command_ns: rng.next_below(50_000),
            rate: draw_optional(rng, 0.5, |rng| 10_000_000 + rng.next_below(80_000_000)),
            xor_byte_ps: rng.next_below(20_000),
            gf_mul_byte_ps: rng.next_below(40_000),
            cache: draw_optional(rng, if caches { 0.6 } else { 0.0 }, random_cache),
            max_outstanding: draw_optional(rng, 0.3, |rng| 1 + rng.next_below(16) as u32),
            transfer_blocks: draw_optional(rng, 0.3, |rng| 8 << rng.next_below(5)),
            transfer,
            ..Controller::new(&format!("controller{number}"))
        });
    }
    for number in 0..rng.next_below(3) {
        let controllers = system.controllers.len() as u64;
        system.channels.push(Channel {
            name: format!("channel{number}"),
            controller: (controllers > 0).then(|| rng.next_below(controllers) as usize),
            rate: draw_optional(rng, 0.7, |rng| 5_000_000 + rng.next_below(60_000_000)),
            overhead_ns: rng.next_below(100_000),
            disconnects: rng.next_bool(0.7),
        });
    }
}

fn add_random_drives(rng: &mut Rng, system: &mut System) {
    for group in 0..1 + rng.next_below(3) {
        let channels = system.channels.len() as u64;
        system.drives.push(DriveGroupSpec {
            channel: (channels > 0).then(|| rng.next_below(channels) as usize),
            order: pick_one(rng, &QueuePolicy::ALL),
            depth: pick_one(rng, &[1, 4, 32, u32::MAX]),
            ..DriveGroupSpec::new(&format!("group{group}-"), 1 + rng.next_below(5) as u32, random_device(rng))
        });
    }
}

/// Adds arrays of drives that nothing else uses; returns the remaining drives.
fn add_random_arrays(rng: &mut Rng, system: &mut System) -> Vec<u32> {
    let mut left: Vec<u32> = (0..system.drive_count()).collect();
    for number in 0..rng.next_below(3) {
        let level = pick_one(rng, &ArrayLevel::ALL);
        let more = if level == ArrayLevel::Raid01 { 2 } else { 1 };
        let count = usize::from(level.info().min_members) + more * rng.next_below(3) as usize;
        if count > left.len() {
            continue;
        }
        let members: Vec<u32> = left.drain(..count).collect();
        let controllers = system.controllers.len() as u64;
        let by_controller = controllers > 0 && rng.next_bool(0.5);
        let run_by = if by_controller { RunBy::Controller(rng.next_below(controllers) as usize) } else { RunBy::Host };
        let unit_blocks = 8 << rng.next_below(6);
        let member_blocks = Some(1 << 18);
        system.arrays.push(ArraySpec {
            unit_blocks,
            member_blocks,
            run_by,
            ..ArraySpec::new(&format!("array{number}"), level, members)
        });
    }
    left
}

/// Draws users who each send one request at a time, with a total limit.
fn random_load(rng: &mut Rng, target: WorkloadTarget, cached: bool, max_users: u64) -> Workload {
    let access = match rng.next_below(3) {
        0 => AccessPattern::Sequential { streams: rng.next_below(3) as u32 },
        1 => AccessPattern::Uniform,
        _ => AccessPattern::Zipf { theta: 0.9 },
    };
    let transfer = Transfer {
        access,
        read_share: pick_one(rng, &[0.0, 0.5, 1.0]),
        bytes: RequestSizes::One(4096 << rng.next_below(6)),
        compute: DurationDistribution::Exponential { mean_s: pick_one(rng, &[0.0, 1e-4]) },
        cached: cached && rng.next_bool(0.7),
        ..Transfer::default()
    };
    let spec = ClosedSpec {
        users: 1 + rng.next_below(6) as u32,
        outstanding: 1 + rng.next_below(3) as u32,
        think: DurationDistribution::Exponential { mean_s: pick_one(rng, &[0.0, 0.005]) },
        classes: vec![OperationClass::with_transfer("io", 1.0, transfer)],
        most_operations: Some(max_users),
        ..ClosedSpec::default()
    };
    Workload { name: "load".into(), targets: vec![target], load: LoadSpec::Closed(spec) }
}

/// Draws a random system on which each workload does a number of operations of one request each. No two workloads share
/// drives.
pub fn random_system(rng: &mut Rng, caches: bool, operations: u64) -> System {
    let mut system = System::new("random");
    let second = 1_000_000_000;
    system.watch = WatchSpec { seed: rng.next_u64(), warm_up: 0, duration: 100_000 * second, interval: second };
    system.host = HostSpec {
        processors: 1 + rng.next_below(4) as u32,
        request_ns: rng.next_below(200_000),
        interrupt_ns: rng.next_below(50_000),
        copy_byte_ps: rng.next_below(20_000),
        xor_byte_ps: rng.next_below(20_000),
        gf_mul_byte_ps: rng.next_below(40_000),
        cache: draw_optional(rng, if caches { 0.7 } else { 0.0 }, random_cache),
        transfer_blocks: draw_optional(rng, 0.3, |rng| 16 << rng.next_below(5)),
        memory_rate: draw_optional(rng, 0.3, |rng| 50_000_000 + rng.next_below(100_000_000)),
        ..HostSpec::default()
    };
    add_random_path(rng, &mut system, caches);
    add_random_drives(rng, &mut system);
    let single = add_random_arrays(rng, &mut system);
    let cached = system.host.cache.is_some();
    let targets =
        (0..system.arrays.len()).map(WorkloadTarget::Array).chain(single.into_iter().map(WorkloadTarget::Drive));
    let targets: Vec<WorkloadTarget> = targets.take(4).collect();
    system.workloads = targets.into_iter().map(|target| random_load(rng, target, cached, operations)).collect();
    system
}
