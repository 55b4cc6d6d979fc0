//! Random systems that are possible.

use std::sync::Arc;

use diskwright_base::Dice;
use diskwright_simulator::array::Level;
use diskwright_simulator::cache::{Back, CacheSpec, FlushOrder, ReadAhead, Write};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::{Device, PlainSpec};
use diskwright_simulator::drive::Policy;
use diskwright_simulator::load::{Access, Class, ClosedSpec, LoadSpec, Sizes, Spell, Transfer as Asked};
use diskwright_simulator::spread::Spread;
use diskwright_simulator::system::*;

/// A random one of several.
pub fn one<T: Clone>(dice: &mut Dice, of: &[T]) -> T {
    of[dice.below(of.len() as u64) as usize].clone()
}

/// Some of the time something.
fn maybe<T>(dice: &mut Dice, share: f64, what: impl FnOnce(&mut Dice) -> T) -> Option<T> {
    if dice.chance(share) { Some(what(dice)) } else { None }
}

fn device(dice: &mut Dice) -> Device {
    if dice.chance(0.3) {
        let mechanical = |e: &&catalogue::Entry| e.class == catalogue::Class::Hdd;
        let known: Vec<&catalogue::Entry> = catalogue::all().iter().filter(mechanical).collect();
        if !known.is_empty() {
            return one(dice, &known).device().expect("drives of the catalogue are possible");
        }
    }
    let mean = 200_000 + dice.below(5_000_000);
    let service = match dice.below(3) {
        0 => Spread::Constant(mean),
        1 => Spread::Exponential { mean },
        _ => Spread::Uniform { least: mean / 2, most: mean * 2 },
    };
    let bytes_per_s = if dice.chance(0.5) { f64::INFINITY } else { 5e6 + 1e8 * dice.share() };
    let servers = 1 + dice.below(3) as u32;
    Device::Plain(Arc::new(PlainSpec { name: "plain".into(), blocks: 1 << 20, servers, service, bytes_per_s }))
}

fn cache(dice: &mut Dice) -> CacheSpec {
    let dirty_limit = 0.1 + 0.9 * dice.share();
    let back = Back {
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
        0 => ReadAhead::None,
        1 => ReadAhead::Fixed { blocks: 8 << dice.below(5) },
        _ => ReadAhead::Doubling { from: 8 << dice.below(3), to: 64 << dice.below(3) },
    };
    CacheSpec {
        bytes: (64 + dice.below(2000)) * 4096,
        read,
        early: dice.chance(0.5),
        write: one(dice, &[Write::Through, Write::Back(back)]),
        reserve_for_writes: 0.5 * dice.share(),
        allocate_on_write: dice.chance(0.5),
        read_before_partial_write: dice.chance(0.5),
        ..CacheSpec::default()
    }
}

fn path(dice: &mut Dice, system: &mut System, caches: bool) {
    let buses = dice.below(2);
    let bus = |_| Bus { name: "bus".into(), rate: 20_000_000 + dice.below(200_000_000), overhead: dice.below(5000) };
    system.buses = (0..buses).map(bus).collect();
    for number in 0..dice.below(3) {
        let transfer = match dice.below(3) {
            0 => Transfer::Pio { interrupt_blocks: 1 + dice.below(8) as u32, byte_ps: dice.below(20_000) },
            1 => Transfer::Dma { interrupt_blocks: Some(8) },
            _ => Transfer::Dma { interrupt_blocks: None },
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

fn drives(dice: &mut Dice, system: &mut System) {
    for group in 0..1 + dice.below(3) {
        let channels = system.channels.len() as u64;
        system.drives.push(Drives {
            channel: (channels > 0).then(|| dice.below(channels) as usize),
            order: one(dice, &Policy::ALL),
            depth: one(dice, &[1, 4, 32, u32::MAX]),
            ..Drives::new(&format!("group{group}-"), 1 + dice.below(5) as u32, device(dice))
        });
    }
}

/// Arrays of drives that nothing else uses; the drives that are left.
fn arrays(dice: &mut Dice, system: &mut System) -> Vec<u32> {
    let mut left: Vec<u32> = (0..system.drive_count()).collect();
    for number in 0..dice.below(3) {
        let level = one(dice, &Level::ALL);
        let more = if level == Level::Raid01 { 2 } else { 1 };
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
fn load(dice: &mut Dice, target: Target, cached: bool, most: u64) -> Workload {
    let access = match dice.below(3) {
        0 => Access::Sequential { streams: dice.below(3) as u32 },
        1 => Access::Uniform,
        _ => Access::Zipf { theta: 0.9 },
    };
    let asked = Asked {
        access,
        read_share: one(dice, &[0.0, 0.5, 1.0]),
        bytes: Sizes::One(4096 << dice.below(6)),
        compute: Spell::Exponential { mean_s: one(dice, &[0.0, 1e-4]) },
        cached: cached && dice.chance(0.7),
        ..Asked::default()
    };
    let spec = ClosedSpec {
        users: 1 + dice.below(6) as u32,
        outstanding: 1 + dice.below(3) as u32,
        think: Spell::Exponential { mean_s: one(dice, &[0.0, 0.005]) },
        classes: vec![Class::of("io", 1.0, asked)],
        most_operations: Some(most),
        ..ClosedSpec::default()
    };
    Workload { name: "load".into(), targets: vec![target], load: LoadSpec::Closed(spec) }
}

/// A random system on which each workload does so many operations of one
/// request each. No two workloads share drives.
pub fn random_system(dice: &mut Dice, caches: bool, operations: u64) -> System {
    let mut system = System::new("random");
    let second = 1_000_000_000;
    system.watch = Watch { seed: dice.bits(), warm_up: 0, duration: 100_000 * second, interval: second };
    system.host = Host {
        processors: 1 + dice.below(4) as u32,
        request: dice.below(200_000),
        interrupt: dice.below(50_000),
        copy_byte_ps: dice.below(20_000),
        xor_byte_ps: dice.below(20_000),
        galois_byte_ps: dice.below(40_000),
        cache: maybe(dice, if caches { 0.7 } else { 0.0 }, cache),
        transfer_blocks: maybe(dice, 0.3, |dice| 16 << dice.below(5)),
        memory_rate: maybe(dice, 0.3, |dice| 50_000_000 + dice.below(100_000_000)),
        ..Host::default()
    };
    path(dice, &mut system, caches);
    drives(dice, &mut system);
    let single = arrays(dice, &mut system);
    let cached = system.host.cache.is_some();
    let targets = (0..system.arrays.len()).map(Target::Array).chain(single.into_iter().map(Target::Drive));
    let targets: Vec<Target> = targets.take(4).collect();
    system.workloads = targets.into_iter().map(|target| load(dice, target, cached, operations)).collect();
    system
}
