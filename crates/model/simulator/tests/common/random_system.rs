//! Random systems that are possible.

use std::sync::Arc;

use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::cache::{BlockCacheSpec, CacheReadAhead, FlushOrder, WriteBackPolicy, WritePolicy};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::drive::QueuePolicy;
use diskwright_simulator::load::{
    AccessPattern, ClosedSpec, DurationDistribution, LoadSpec, OperationClass, OperationTransfer as Asked, RequestSizes,
};
use diskwright_simulator::spread::ServiceTimeDistribution;
use diskwright_simulator::system::*;

/// A random one of several.
pub fn one<T: Clone>(dice: &mut Rng, of: &[T]) -> T {
    of[dice.below(of.len() as u64) as usize].clone()
}

/// Some of the time something.
fn maybe<T>(dice: &mut Rng, share: f64, what: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    if dice.chance(share) { Some(what(dice)) } else { None }
}

fn device(dice: &mut Rng) -> DeviceModel {
    if dice.chance(0.3) {
        let mechanical = |e: &&catalogue::CatalogueEntry| e.class == catalogue::DriveClass::Hdd;
        let known: Vec<&catalogue::CatalogueEntry> = catalogue::all().iter().filter(mechanical).collect();
        if !known.is_empty() {
            return one(dice, &known).device().expect("drives of the catalogue are possible");
        }
    }
    let mean = 200_000 + dice.below(5_000_000);
    let service = match dice.below(3) {
        0 => ServiceTimeDistribution::Constant(mean),
        1 => ServiceTimeDistribution::Exponential { mean },
        _ => ServiceTimeDistribution::Uniform { least: mean / 2, most: mean * 2 },
    };
    let bytes_per_s = if dice.chance(0.5) { f64::INFINITY } else { 5e6 + 1e8 * dice.share() };
    let servers = 1 + dice.below(3) as u32;
    DeviceModel::Plain(Arc::new(PlainSpec { name: "plain".into(), blocks: 1 << 20, servers, service, bytes_per_s }))
}

fn cache(dice: &mut Rng) -> BlockCacheSpec {
    let dirty_limit = 0.1 + 0.9 * dice.share();
    let back = WriteBackPolicy {
        dirty_limit,
        flush_at: dirty_limit * dice.share(),
        flush_after: maybe(dice, 0.5, |dice| dice.below(2_000_000_000)),
        flush_every: 0,
        coalesce_blocks: 8 << dice.below(6),
        flush_depth: 1 + dice.below(16) as u32,
        order: one(dice, &[FlushOrder::Address, FlushOrder::Age]),
        protected: false,
    };
    let read = match dice.below(3) {
        0 => CacheReadAhead::None,
        1 => CacheReadAhead::Fixed { blocks: 8 << dice.below(5) },
        _ => CacheReadAhead::Doubling { from: 8 << dice.below(3), to: 64 << dice.below(3) },
    };
    BlockCacheSpec {
        bytes: (64 + dice.below(2000)) * 4096,
        read,
        early: dice.chance(0.5),
        write: one(dice, &[WritePolicy::Through, WritePolicy::Back(back)]),
        reserve_for_writes: 0.5 * dice.share(),
        allocate_on_write: dice.chance(0.5),
        read_before_partial_write: dice.chance(0.5),
        ..BlockCacheSpec::default()
    }
}

fn path(dice: &mut Rng, system: &mut System, caches: bool) {
    let buses = dice.below(2);
    let bus = |_| Bus { name: "bus".into(), rate: 20_000_000 + dice.below(200_000_000), overhead: dice.below(5000) };
    system.buses = (0..buses).map(bus).collect();
    for number in 0..dice.below(3) {
        let transfer = match dice.below(3) {
            0 => TransferMode::Pio { interrupt_blocks: 1 + dice.below(8) as u32, byte_ps: dice.below(20_000) },
            1 => TransferMode::Dma { interrupt_blocks: Some(8) },
            _ => TransferMode::Dma { interrupt_blocks: None },
        };
        system.controllers.push(Controller {
            bus: (!system.buses.is_empty()).then_some(0),
            command: dice.below(200_000),
            member_command: dice.below(50_000),
            rate: maybe(dice, 0.5, |dice| 10_000_000 + dice.below(80_000_000)),
            xor_byte_ps: dice.below(20_000),
            galois_byte_ps: dice.below(40_000),
            cache: maybe(dice, if caches { 0.6 } else { 0.0 }, cache),
            outstanding: maybe(dice, 0.3, |dice| 1 + dice.below(16) as u32),
            transfer_blocks: maybe(dice, 0.3, |dice| 8 << dice.below(5)),
            transfer,
            ..Controller::new(&format!("controller{number}"))
        });
    }
    for number in 0..dice.below(3) {
        let controllers = system.controllers.len() as u64;
        system.channels.push(Channel {
            name: format!("channel{number}"),
            controller: (controllers > 0).then(|| dice.below(controllers) as usize),
            rate: maybe(dice, 0.7, |dice| 5_000_000 + dice.below(60_000_000)),
            overhead: dice.below(100_000),
            disconnects: dice.chance(0.7),
        });
    }
}

fn drives(dice: &mut Rng, system: &mut System) {
    for group in 0..1 + dice.below(3) {
        let channels = system.channels.len() as u64;
        system.drives.push(Drives {
            channel: (channels > 0).then(|| dice.below(channels) as usize),
            order: one(dice, &QueuePolicy::ALL),
            depth: one(dice, &[1, 4, 32, u32::MAX]),
            ..Drives::new(&format!("group{group}-"), 1 + dice.below(5) as u32, device(dice))
        });
    }
}

/// Arrays of drives that nothing else uses; the drives that are left.
fn arrays(dice: &mut Rng, system: &mut System) -> Vec<u32> {
    let mut left: Vec<u32> = (0..system.drive_count()).collect();
    for number in 0..dice.below(3) {
        let level = one(dice, &ArrayLevel::ALL);
        let more = if level == ArrayLevel::Raid01 { 2 } else { 1 };
        let count = usize::from(level.info().members_least) + more * dice.below(3) as usize;
        if count > left.len() {
            continue;
        }
        let members: Vec<u32> = left.drain(..count).collect();
        let controllers = system.controllers.len() as u64;
        let by_controller = controllers > 0 && dice.chance(0.5);
        let run_by = if by_controller { RunBy::Controller(dice.below(controllers) as usize) } else { RunBy::Host };
        let unit_blocks = 8 << dice.below(6);
        let member_blocks = Some(1 << 18);
        system.arrays.push(Set {
            unit_blocks,
            member_blocks,
            run_by,
            ..Set::new(&format!("array{number}"), level, members)
        });
    }
    left
}

/// Users who each ask for one thing at a time, so often in all.
fn load(dice: &mut Rng, target: WorkloadTarget, cached: bool, most: u64) -> Workload {
    let access = match dice.below(3) {
        0 => AccessPattern::Sequential { streams: dice.below(3) as u32 },
        1 => AccessPattern::Uniform,
        _ => AccessPattern::Zipf { theta: 0.9 },
    };
    let asked = Asked {
        access,
        read_share: one(dice, &[0.0, 0.5, 1.0]),
        bytes: RequestSizes::One(4096 << dice.below(6)),
        compute: DurationDistribution::Exponential { mean_s: one(dice, &[0.0, 1e-4]) },
        cached: cached && dice.chance(0.7),
        ..Asked::default()
    };
    let spec = ClosedSpec {
        users: 1 + dice.below(6) as u32,
        outstanding: 1 + dice.below(3) as u32,
        think: DurationDistribution::Exponential { mean_s: one(dice, &[0.0, 0.005]) },
        classes: vec![OperationClass::of("io", 1.0, asked)],
        most_operations: Some(most),
        ..ClosedSpec::default()
    };
    Workload { name: "load".into(), targets: vec![target], load: LoadSpec::Closed(spec) }
}

/// A random system on which each workload does so many operations of one
/// request each. No two workloads share drives.
pub fn random_system(dice: &mut Rng, caches: bool, operations: u64) -> System {
    let mut system = System::new("random");
    let second = 1_000_000_000;
    system.watch = WatchSpec { seed: dice.bits(), warm_up: 0, duration: 100_000 * second, interval: second };
    system.host = HostSpec {
        processors: 1 + dice.below(4) as u32,
        request: dice.below(200_000),
        interrupt: dice.below(50_000),
        copy_byte_ps: dice.below(20_000),
        xor_byte_ps: dice.below(20_000),
        galois_byte_ps: dice.below(40_000),
        cache: maybe(dice, if caches { 0.7 } else { 0.0 }, cache),
        transfer_blocks: maybe(dice, 0.3, |dice| 16 << dice.below(5)),
        memory_rate: maybe(dice, 0.3, |dice| 50_000_000 + dice.below(100_000_000)),
        ..HostSpec::default()
    };
    path(dice, &mut system, caches);
    drives(dice, &mut system);
    let single = arrays(dice, &mut system);
    let cached = system.host.cache.is_some();
    let targets =
        (0..system.arrays.len()).map(WorkloadTarget::Array).chain(single.into_iter().map(WorkloadTarget::Drive));
    let targets: Vec<WorkloadTarget> = targets.take(4).collect();
    system.workloads = targets.into_iter().map(|target| load(dice, target, cached, operations)).collect();
    system
}
