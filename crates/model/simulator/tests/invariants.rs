//! Properties of every system, tested on random ones: no request is lost or done twice, times and bytes add up, nothing
//! exceeds its capacity, and one seed gives one result.

use crate::random_system::random_system;
use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::DeviceModel;
use diskwright_simulator::cache::WritePolicy;
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::station::StationTotals;
use diskwright_simulator::system::*;
use diskwright_simulator::{Component, Simulation, SimulationReport};

const OPERATIONS: u64 = 150;

struct RandomRun {
    seed: u64,
    system: System,
    report: SimulationReport,
    samples: Vec<SimulationReport>,
    /// Requests still under way at the end.
    left: usize,
}

fn run(seed: u64, caches: bool) -> RandomRun {
    let system = random_system(&mut Rng::new(seed, 5), caches, OPERATIONS);
    let mut simulation = Simulation::new(&system).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut samples = Vec::new();
    let report = simulation.run(|sample| samples.push(sample.clone()));
    RandomRun { seed, report, samples, left: simulation.in_flight_count(), system }
}

/// Runs a number of random systems of each kind.
fn for_random_systems(count: u64, mut check: impl FnMut(&RandomRun)) {
    for seed in 0..count {
        check(&run(seed, false));
        check(&run(seed + 1_000_000, true));
    }
}

#[test]
fn every_request_is_answered_once() {
    let mut emptied = 0;
    for_random_systems(30, |ran| {
        let RandomRun { seed, report, system, .. } = ran;
        let cached = system.host.cache.is_some() || system.controllers.iter().any(|c| c.cache.is_some());
        for workload in &report.workloads {
            let operations: u64 = workload.operations.iter().map(|o| o.totals.done).sum();
            assert_eq!((workload.counts.request_count(), operations), (OPERATIONS, OPERATIONS), "seed {seed}");
            assert!(workload.operations.iter().map(|o| o.totals.begun).sum::<u64>() == OPERATIONS, "seed {seed}");
            assert_eq!(workload.responses.count(), OPERATIONS, "seed {seed}");
        }
        assert!(cached || ran.left == 0, "seed {seed}: {} are left", ran.left);
        emptied += u32::from(ran.left == 0);
    });
    assert!(emptied >= 30);
}

#[test]
fn integrals_add_up() {
    for_random_systems(30, |ran| {
        let seed = ran.seed;
        for component in &ran.report.components {
            let Component { name, servers, totals, .. } = component;
            let StationTotals { elapsed_ns, service_ns, busy_ns, queue_ns, response_ns, .. } = *totals;
            let context = format!("seed {seed}, {name}: {totals:?}");
            assert_eq!(elapsed_ns, ran.report.to - ran.report.from, "{context}");
            assert!(u128::from(busy_ns) <= service_ns && busy_ns <= elapsed_ns, "{context}");
            assert!(service_ns <= u128::from(elapsed_ns) * u128::from(*servers), "{context}");
            assert!(service_ns <= queue_ns && response_ns <= queue_ns, "{context}");
            assert!(component.utilisation() <= 1.0 + 1e-9, "{context}");
            if ran.left == 0 {
                // Little's law without an end to disturb it: the integral of
                // those present is the sum of the times that they stayed
                assert_eq!(queue_ns, response_ns, "{context}");
            }
        }
        for array in &ran.report.arrays {
            assert!(array.totals.response_ns <= array.totals.queue_ns);
            assert!(ran.left > 0 || array.totals.response_ns == array.totals.queue_ns, "seed {seed}");
        }
    });
}

#[test]
fn samples_add_up_to_the_whole() {
    for_random_systems(20, |ran| {
        for (index, component) in ran.report.components.iter().enumerate() {
            let sum = |of: fn(&StationTotals) -> u128| -> u128 {
                ran.samples.iter().map(|s| of(&s.components[index].totals)).sum()
            };
            let fields: [fn(&StationTotals) -> u128; 6] = [
                |t| u128::from(t.elapsed_ns),
                |t| t.service_ns,
                |t| u128::from(t.busy_ns),
                |t| t.queue_ns,
                |t| u128::from(t.arrived) << 32 | u128::from(t.completed),
                |t| t.response_ns,
            ];
            for of in fields {
                assert_eq!(sum(of), of(&component.totals), "seed {}, {}", ran.seed, component.name);
            }
        }
        for (index, component) in ran.report.workloads.iter().enumerate() {
            let bytes: u64 = ran.samples.iter().map(|s| s.workloads[index].counts.byte_count()).sum();
            assert_eq!(bytes, component.counts.byte_count(), "seed {}", ran.seed);
        }
        for (index, component) in ran.report.caches.iter().enumerate() {
            let requested: u64 = ran
                .samples
                .iter()
                .map(|s| s.caches[index].counters.total_reads() + s.caches[index].counters.total_writes())
                .sum();
            assert_eq!(
                requested,
                component.counters.total_reads() + component.counters.total_writes(),
                "seed {}",
                ran.seed
            );
        }
    });
}

/// Specified bytes per second of a component, if it has a limit.
fn rate_bound(system: &System, component: &Component) -> Option<f64> {
    let named = |name: &str| component.name == name;
    let bus = system.buses.iter().find(|bus| named(&bus.name)).map(|bus| bus.rate);
    let channel = system.channels.iter().find(|channel| named(&channel.name)).and_then(|channel| channel.rate);
    let port = |c: &&Controller| named(&format!("{} port", c.name));
    let port = system.controllers.iter().find(port).and_then(|controller| controller.rate);
    let memory = system.host.memory_rate.filter(|_| named("memory bus"));
    // a transfer of a block or more is rounded by half a nanosecond at most
    let rate = bus.or(channel).or(port).or(memory)? as f64;
    Some(1.0 / (1.0 / rate - 0.5e-9 / 512.0))
}

#[test]
fn no_component_exceeds_its_capacity() {
    let (mut bounds, mut constants) = (0, 0);
    for_random_systems(30, |ran| {
        let RandomRun { seed, report, system, .. } = ran;
        for component in &report.components {
            if let Some(rate) = rate_bound(system, component).filter(|_| ran.left == 0) {
                let bytes_per_s = component.counts.bytes_read as f64 / report.elapsed_s();
                assert!(bytes_per_s <= rate, "seed {seed}, {}: {bytes_per_s} of {rate}", component.name);
                bounds += u32::from(bytes_per_s > 0.0);
            }
        }
        for drive in 0..system.drive_count() {
            let (group, _) = system.find_drive_group(drive).expect("it is there");
            let DeviceModel::Plain(spec) = &system.drives[group].device else { continue };
            let component = report.find_component(&system.drive_name(drive)).expect("in the report");
            let ServiceTimeDistribution::Constant(each) = spec.service else { continue };
            if ran.left == 0 && spec.bytes_per_s.is_infinite() {
                let service = component.totals.service_ns;
                assert_eq!(service, u128::from(component.counts.request_count() * each), "seed {seed}");
                constants += u32::from(service > 0);
            }
        }
    });
    assert!(bounds > 10 && constants > 5, "{bounds} {constants}");
}

#[test]
fn bytes_match_the_requests() {
    let (mut singles, mut sets) = (0, 0);
    for_random_systems(30, |ran| {
        let RandomRun { seed, report, system, .. } = ran;
        let cached = system.host.cache.is_some() || system.controllers.iter().any(|c| c.cache.is_some());
        if cached {
            return;
        }
        for (workload, described) in report.workloads.iter().zip(&system.workloads) {
            let requested = (workload.counts.bytes_read, workload.counts.bytes_written);
            match described.targets[0] {
                WorkloadTarget::Drive(drive) => {
                    let counts = report.find_component(&system.drive_name(drive)).expect("it is there").counts;
                    assert_eq!(requested, (counts.bytes_read, counts.bytes_written), "seed {seed}");
                    singles += 1;
                }
                WorkloadTarget::Array(index) => {
                    let array = &report.arrays[index];
                    assert_eq!(requested, (array.counts.bytes_read, array.counts.bytes_written), "seed {seed}");
                    check_member_ios(ran, index);
                    sets += 1;
                }
            }
        }
    });
    assert!(singles > 10 && sets > 5, "{singles} {sets}");
}

/// Checks that member I/Os reach the drives, and carry what the level needs.
fn check_member_ios(ran: &RandomRun, index: usize) {
    let (array, set) = (&ran.report.arrays[index], &ran.system.arrays[index]);
    let drives = array.members.iter().filter_map(|drive| ran.report.find_component(&ran.system.drive_name(*drive)));
    let counts: Vec<_> = drives.map(|drive| drive.counts).collect();
    let context = format!("seed {}, {:?}: {:?} on {counts:?}", ran.seed, set.level, array.counts);
    let requests: u64 = counts.iter().map(|c| c.request_count()).sum();
    let split = ran.system.controllers.iter().any(|c| c.transfer_blocks.is_some());
    assert!(requests == array.member_ios || split && requests >= array.member_ios, "{context}");
    let read: u64 = counts.iter().map(|c| c.bytes_read).sum();
    let written: u64 = counts.iter().map(|c| c.bytes_written).sum();
    let copies = match set.level {
        ArrayLevel::Linear | ArrayLevel::Raid0 => 1,
        ArrayLevel::Raid1 => set.members.len() as u64,
        // the usual copies of these are two
        ArrayLevel::Raid10 | ArrayLevel::Raid01 => 2,
        _ => 0,
    };
    if copies > 0 {
        assert_eq!((read, written), (array.counts.bytes_read, copies * array.counts.bytes_written), "{context}");
    } else {
        assert!(written >= array.counts.bytes_written && read >= array.counts.bytes_read, "{context}");
    }
}

#[test]
fn posted_writes_are_flushed_or_still_dirty() {
    let mut posted_in_all = 0;
    for_random_systems(30, |ran| {
        let (Some(spec), Some(cache)) = (&ran.system.host.cache, ran.report.caches.first()) else { return };
        let WritePolicy::Back(back) = spec.write else { return };
        let (counters, seed) = (&cache.counters, ran.seed);
        let posted: u64 = ran
            .report
            .workloads
            .iter()
            .zip(&ran.system.workloads)
            .filter(|(_, w)| uses_file_cache(w))
            .map(|(w, _)| w.counts.bytes_written)
            .sum();
        let posted = posted / 512;
        // blocks of every write are as large as pages or a multiple, and lie on them
        let gone = counters.blocks_overwritten + counters.blocks_flushed;
        assert!(gone <= posted && posted <= gone + counters.dirty_blocks, "seed {seed}: {posted} {counters:?}");
        let max_dirty = (back.dirty_limit * spec.bytes as f64 / 512.0).max(8.0);
        assert!(counters.dirty_blocks as f64 <= max_dirty, "seed {seed}");
        posted_in_all += posted;
    });
    assert!(posted_in_all > 5000);
}

/// True if a workload uses the file cache.
fn uses_file_cache(workload: &Workload) -> bool {
    use diskwright_simulator::load::LoadSpec;
    matches!(&workload.load, LoadSpec::Closed(spec) if spec.classes[0].transfers[0].cached)
}

#[test]
fn one_seed_gives_one_result() {
    for seed in 0..10 {
        for caches in [false, true] {
            let text = || format!("{:?}", run(seed + 5000, caches).report);
            assert_eq!(text(), text(), "seed {seed}");
        }
    }
}
