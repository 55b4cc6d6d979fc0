//! The analytic solution of times and systems, against the simulation.

use std::sync::Arc;

use crate::sweep::sweep;
use diskwright_base::Rng;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Io;
use diskwright_simulator::Simulation;
use diskwright_simulator::analytic::{
    DriveDemand, UnsolvedPart, UnsolvedReason, cost_at_depth, mechanical_costs, solve,
};
use diskwright_simulator::catalogue::{self, EntryKind};
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::drive::{
    ChannelSpec, DataSheet, DriveCacheSpec, DriveQueue, MechanicalDrive, Model, Overheads, PositioningModel,
    QueuePolicy, SeekCurve, Sparing, Spec, TrackOrder, ZoneSpec,
};
use diskwright_simulator::load::{
    ClosedSpec, DurationDistribution, LoadSpec, OpenSpec, OperationClass, OperationTransfer, RequestSizes,
};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::solve::{machine_repairman, mg1};
use diskwright_simulator::system::read::read;
use diskwright_simulator::system::{
    ArraySpec, Bus, Channel, Controller, DriveGroupSpec, HostSpec, RunBy, System, WatchSpec, Workload, WorkloadTarget,
};

/// Mean time of a request, s, at a drive with a constant queue depth.
fn simulated(model: &Arc<Model>, demand: &DriveDemand, requests: u32) -> f64 {
    let blocks = demand.blocks as u32;
    let (mut drive, mut queue, mut rng) = (MechanicalDrive::new(model), DriveQueue::new(demand.order), Rng::new(3, 0));
    let places = demand.used_blocks / u64::from(blocks);
    let (mut now, mut start) = (0, 0);
    for request in 0..requests + requests / 5 {
        if request == requests / 5 {
            start = now;
        }
        while queue.len() < demand.depth as usize {
            let first = rng.next_below(places) * u64::from(blocks);
            queue.push(&drive, Io { first, blocks, write: rng.next_bool(demand.write_share) }, ());
        }
        let Some((io, ())) = queue.next(now, &drive) else { break };
        now = drive.start(now, &io).done_at;
    }
    (now - start) as f64 * 1e-9 / f64::from(requests)
}

fn catalogue_drive(id: &str) -> Arc<Model> {
    let device = catalogue::find_entry(id).expect("in the catalogue").build_device().expect("possible");
    let DeviceModel::Mechanical(model) = device else { panic!("{id} is no mechanical drive") };
    model
}

/// Relative error of the solution against the simulation.
fn relative_error(model: &Arc<Model>, demand: &DriveDemand) -> f64 {
    let served = mechanical_costs(model, demand);
    let costs = if demand.write_share > 0.5 { &served.write } else { &served.read };
    cost_at_depth(costs, f64::from(demand.depth)).hold_s / simulated(model, demand, 12_000) - 1.0
}

#[test]
fn a_single_drive_is_solved_within_two_percent() {
    let model = catalogue_drive("st32171w");
    for write_share in [0.0, 1.0] {
        for (blocks, used) in [(8.0, 1.0), (1.0, 1.0), (16.0, 0.1), (128.0, 1.0), (8.0, 0.02)] {
            let used_blocks = (model.capacity_blocks() as f64 * used) as u64;
            let demand =
                DriveDemand { blocks, used_blocks, write_share, order: QueuePolicy::FirstComeFirstServed, depth: 1 };
            let error = relative_error(&model, &demand);
            assert!(error.abs() < 0.02, "{write_share} {blocks} {used}: {error}");
        }
    }
}

#[test]
fn a_queue_is_solved_within_four_percent() {
    let model = catalogue_drive("st32171w");
    for order in QueuePolicy::ALL {
        for depth in [2, 4, 8, 16, 32, 64] {
            let used_blocks = model.capacity_blocks();
            let demand = DriveDemand { blocks: 8.0, used_blocks, write_share: 0.0, order, depth };
            let error = relative_error(&model, &demand);
            assert!(error.abs() < 0.04, "{} {depth}: {error}", order.name());
        }
    }
}

/// A drive with seeks of 2 ms, a turn of 10 ms, ten sectors on a track, and half a millisecond of command overhead.
#[test]
fn matches_hand_computed_drive_costs() {
    let zone = ZoneSpec {
        first_cylinder: 0,
        last_cylinder: 9999,
        sectors_per_track: 10,
        offset: 0.0,
        track_skew: 0.0,
        cylinder_skew: 0.0,
        empty_sectors: 0,
        spares: 0,
        slips: Vec::new(),
        defects: Vec::new(),
    };
    let spec = Spec {
        name: "by hand".into(),
        surfaces: 1,
        cylinders: 10_000,
        rpm: 6000.0,
        track_order: TrackOrder::Ascending,
        sparing: Sparing::None,
        zones: vec![zone],
        seek: SeekCurve::Constant(2.0),
        head_switch_ns: 0,
        write_settle_ns: 0,
        positioning_model: PositioningModel::Exact,
        overheads: Overheads { read_miss: [500_000; 2], ..Overheads::default() },
        cache: DriveCacheSpec::none(),
        channel: ChannelSpec::default(),
        queue_policy: QueuePolicy::FirstComeFirstServed,
        queue_slots: 1,
    };
    let model = Model::new(&spec).expect("possible");
    let used_blocks = model.capacity_blocks();
    let demand =
        DriveDemand { blocks: 1.0, used_blocks, write_share: 0.0, order: QueuePolicy::FirstComeFirstServed, depth: 1 };
    let read = mechanical_costs(&model, &demand).read[0];
    // 0.5 command, 2 arm, 5 half a turn, 1 the sector; the arm's time varies only at distance 0
    assert!((read.hold_s * 1e3 - 8.5).abs() < 0.05, "{read:?}");
    assert!((read.variance_s2.sqrt() * 1e3 - 10.0 / 12f64.sqrt()).abs() < 0.05, "{read:?}");
    assert_eq!((read.after_s, read.response_s()), (0.0, read.hold_s));
    // among very many requests, one is always just in time: the command, the arm and the sector
    let demand = DriveDemand { order: QueuePolicy::ShortestPositioning, depth: 256, ..demand };
    let min_hold_ms = mechanical_costs(&model, &demand).read[8].hold_s * 1e3;
    assert!(min_hold_ms > 3.5 && min_hold_ms < 3.9, "{min_hold_ms}");
}

const SECOND: u64 = 1_000_000_000;

/// A system of drives in an array, or one drive, under a load.
fn system(device: DeviceModel, array: Option<(ArrayLevel, u16)>, load: LoadSpec) -> System {
    let members = array.map_or(1, |(_, members)| members);
    let mut drives = DriveGroupSpec::new("drive", members.into(), device.clone());
    if let DeviceModel::Mechanical(model) = &device {
        (drives.order, drives.depth) = (model.queue_policy(), model.queue_slots());
    }
    let target = if array.is_some() { WorkloadTarget::Array(0) } else { WorkloadTarget::Drive(0) };
    System {
        watch: WatchSpec { warm_up: 20 * SECOND, duration: 300 * SECOND, ..WatchSpec::default() },
        drives: vec![drives],
        arrays: array
            .map(|(level, members)| ArraySpec::new("set", level, (0..members.into()).collect()))
            .into_iter()
            .collect(),
        workloads: vec![Workload { name: "users".into(), targets: vec![target], load }],
        ..System::new("test")
    }
}

fn users(users: u32, think_s: f64, read_share: f64) -> LoadSpec {
    let classes = vec![OperationClass::with_transfer(
        "io",
        1.0,
        OperationTransfer { read_share, ..OperationTransfer::default() },
    )];
    LoadSpec::Closed(ClosedSpec {
        users,
        think: DurationDistribution::Exponential { mean_s: think_s },
        classes,
        ..ClosedSpec::default()
    })
}

fn arrivals(per_s: f64, read_share: f64) -> LoadSpec {
    let classes = vec![OperationClass::with_transfer(
        "io",
        1.0,
        OperationTransfer { read_share, ..OperationTransfer::default() },
    )];
    LoadSpec::Open(OpenSpec {
        gap: DurationDistribution::Exponential { mean_s: 1.0 / per_s },
        classes,
        ..OpenSpec::default()
    })
}

/// Servers with a service time.
fn plain(servers: u32, service: ServiceTimeDistribution) -> DeviceModel {
    let spec = PlainSpec { name: "plain".into(), blocks: 1 << 22, servers, service, bytes_per_s: f64::INFINITY };
    DeviceModel::Plain(Arc::new(spec))
}

/// True if a drive acknowledges writes before they are on the medium.
fn acknowledges_writes_early(system: &System) -> bool {
    system
        .drives
        .iter()
        .any(|group| matches!(&group.device, DeviceModel::Mechanical(m) if m.cache().acknowledges_early))
}

/// Relative errors of throughput and response against the simulation.
fn errors(system: &System) -> (f64, f64) {
    let solution = solve(system).expect("it can be solved");
    let report = Simulation::new(system).expect("possible").run(|_| {});
    let workload = &report.workloads[0];
    let throughput = workload.counts.request_count() as f64 / report.elapsed_s();
    let response = workload.responses.mean().expect("some") * 1e-9;
    for (name, busy) in &solution.utilisations {
        let component = report.find_component(name).expect("the same names");
        // of writes acknowledged early, the simulation counts the part that is waited for
        assert!(
            acknowledges_writes_early(system) || (component.utilisation() - busy).abs() < 0.1,
            "{name}: {busy} {}",
            component.utilisation()
        );
    }
    (solution.throughput_per_s / throughput - 1.0, solution.response_s / response - 1.0)
}

#[test]
fn matches_closed_forms_of_queues() {
    let exponential = ServiceTimeDistribution::Exponential { mean: 10_000_000 };
    for users_ in [1, 3, 10, 40] {
        let solution = solve(&system(plain(1, exponential.clone()), None, users(users_, 0.05, 1.0))).expect("solved");
        let truth = machine_repairman(users_, 0.05, 0.01, 1);
        assert!((solution.throughput_per_s / truth.throughput_per_s - 1.0).abs() < 1e-6, "{users_}");
    }
    for (rate, service) in [(30.0, exponential), (80.0, ServiceTimeDistribution::Constant(10_000_000))] {
        let cv2 = service.variation_squared();
        let solution = solve(&system(plain(1, service), None, arrivals(rate, 1.0))).expect("solved");
        let truth = mg1(rate, 0.01, cv2).expect("steady");
        assert!((solution.response_s / truth.response_s - 1.0).abs() < 1e-6, "{rate}");
        assert!((solution.utilisations[0].1 - truth.utilisation).abs() < 1e-9);
    }
    let over = solve(&system(plain(1, ServiceTimeDistribution::Constant(10_000_000)), None, arrivals(101.0, 1.0)));
    assert_eq!(over, Err(UnsolvedReason::Overload("users".into())));
}

#[test]
fn solves_arrivals_and_thinking_users() {
    let model = DeviceModel::Mechanical(catalogue_drive("st32171w"));
    let all = [
        (None, arrivals(40.0, 1.0)),
        (None, users(10, 0.2, 0.5)),
        (Some((ArrayLevel::Raid0, 4)), arrivals(150.0, 0.5)),
        (Some((ArrayLevel::Raid5, 6)), arrivals(80.0, 0.7)),
        (Some((ArrayLevel::Raid10, 6)), users(40, 0.2, 0.7)),
        (Some((ArrayLevel::Raid6, 8)), users(30, 0.5, 0.5)),
    ];
    for (array, load) in all {
        let (throughput, response) = errors(&system(model.clone(), array, load));
        assert!(throughput.abs() < 0.05 && response.abs() < 0.12, "{array:?}: {throughput:+.3} {response:+.3}");
    }
}

#[test]
fn the_path_to_the_drives_adds_time() {
    let mut system = system(
        plain(1, ServiceTimeDistribution::Exponential { mean: 1_000_000 }),
        Some((ArrayLevel::Raid5, 5)),
        users(12, 0.0, 0.5),
    );
    system.host = HostSpec { request_ns: 200_000, interrupt_ns: 100_000, xor_byte_ps: 10_000, ..HostSpec::default() };
    system.buses = vec![Bus { name: "pci".into(), rate: 20_000_000, overhead_ns: 10_000 }];
    let controller =
        Controller { bus: Some(0), command_ns: 150_000, rate: Some(50_000_000), ..Controller::new("adapter") };
    system.controllers = vec![controller];
    let channel = Channel {
        name: "scsi".into(),
        controller: Some(0),
        rate: Some(20_000_000),
        overhead_ns: 50_000,
        disconnects: true,
    };
    system.channels = vec![channel];
    system.drives[0].channel = Some(0);
    for run_by in [RunBy::Host, RunBy::Controller(0)] {
        system.arrays[0].run_by = run_by;
        let (throughput, response) = errors(&system);
        assert!(throughput.abs() < 0.12 && response.abs() < 0.12, "{run_by:?}: {throughput:+.3} {response:+.3}");
    }
}

#[test]
fn members_are_spread_over_channels_and_controllers() {
    let device = plain(1, ServiceTimeDistribution::Exponential { mean: 1_000_000 });
    let mut system = system(device.clone(), Some((ArrayLevel::Raid0, 6)), users(12, 0.0, 0.7));
    let adapter = |index: usize| Controller { rate: Some(20_000_000), ..Controller::new(&format!("adapter {index}")) };
    system.controllers = (0..2).map(adapter).collect();
    let channel = |index: usize| Channel {
        name: format!("scsi {index}"),
        controller: Some(index % 2),
        rate: Some(10_000_000),
        overhead_ns: 100_000,
        disconnects: true,
    };
    system.channels = (0..3).map(channel).collect();
    // two members on each of three channels, four on one controller and two on the other
    let group = |index: usize| DriveGroupSpec {
        channel: Some(index / 2),
        ..DriveGroupSpec::new(&format!("d{index}"), 1, device.clone())
    };
    system.drives = (0..6).map(group).collect();
    let (throughput, response) = errors(&system);
    assert!(throughput.abs() < 0.10 && response.abs() < 0.10, "{throughput:+.3} {response:+.3}");
    // each channel has a third of the bytes, the first controller two of three channels
    let solved = solve(&system).expect("solved");
    let busy = |name: &str| solved.utilisations.iter().find(|part| part.0 == name).expect(name).1;
    let bytes = solved.throughput_per_s * 4096.0;
    let overhead = solved.throughput_per_s / 3.0 * 100e-6;
    assert!((busy("scsi 2") - bytes / 3.0 / 10e6 - overhead).abs() < 1e-6, "{:?}", solved.utilisations);
    assert!((busy("adapter 0 port") - bytes * 2.0 / 3.0 / 20e6).abs() < 1e-6, "{:?}", solved.utilisations);
    // channels that are not alike are left to the simulation
    system.channels[1].rate = Some(5_000_000);
    assert!(matches!(solve(&system), Err(UnsolvedReason::Part { part: UnsolvedPart::UnequalMembers, .. })));
}

#[test]
fn names_parts_that_are_not_solved() {
    let device = plain(1, ServiceTimeDistribution::Constant(1));
    let good = system(device, Some((ArrayLevel::Raid5, 4)), users(1, 0.0, 1.0));
    let mut none = good.clone();
    none.workloads.clear();
    assert_eq!(solve(&none), Err(UnsolvedReason::Missing("workload")));
    let mut lost = good.clone();
    lost.arrays[0].failed = vec![1, 2];
    assert_eq!(solve(&lost), Err(UnsolvedReason::Part { of: "set".into(), part: UnsolvedPart::Lost }));
    let mut shared = good.clone();
    shared.workloads[0].targets.push(WorkloadTarget::Drive(1));
    let mut elsewhere = good.workloads[0].clone();
    elsewhere.targets = vec![WorkloadTarget::Drive(1)];
    shared.workloads.push(elsewhere);
    assert_eq!(solve(&shared), Err(UnsolvedReason::Part { of: "drive1".into(), part: UnsolvedPart::Shared }));
    let mut few = good.clone();
    few.arrays[0].members = vec![0, 1];
    assert!(matches!(solve(&few), Err(UnsolvedReason::Array(..))));
    let mut nowhere = good.clone();
    nowhere.workloads[0].targets = vec![WorkloadTarget::Drive(9)];
    assert_eq!(solve(&nowhere), Err(UnsolvedReason::Missing("drive")));
    let mut cached = good;
    if let LoadSpec::Closed(spec) = &mut cached.workloads[0].load {
        spec.classes[0].transfers[0].cached = true;
    }
    let text = solve(&cached).expect_err("a cache").to_string();
    assert_eq!(
        text,
        "`io`: a cache that is not simply one of the least recently used cannot be solved analytically; simulate it"
    );
}

#[test]
fn solves_writes_acknowledged_early() {
    let entry = catalogue::find_entry("st32171w").expect("in the catalogue");
    let EntryKind::Mechanical(printed) = &entry.kind else { panic!("it is mechanical") };
    let printed =
        DataSheet { write_cache: true, queue_policy: QueuePolicy::FirstComeFirstServed, ..(**printed).clone() };
    let device = DeviceModel::Mechanical(Arc::new(Model::new(&printed.to_spec().expect("good")).expect("good")));
    for (level, members, max_error) in
        [(ArrayLevel::Raid0, 4, 0.15), (ArrayLevel::Raid1, 2, 0.15), (ArrayLevel::Raid5, 5, 0.1)]
    {
        for (n, read_share) in [(1, 0.0), (1, 0.5), (16, 0.5)] {
            let (throughput, response) =
                errors(&system(device.clone(), Some((level, members)), users(n, 0.0, read_share)));
            assert!(response.abs() < max_error, "{level} {n} {read_share}: {throughput:+.3} {response:+.3}");
        }
    }
}

/// Device, level, members, share of reads and size of requests that arrive at a rate.
type OpenSystem<'a> = (&'a DeviceModel, ArrayLevel, u16, f64, u64);

fn open_system((device, level, members, read_share, bytes): OpenSystem<'_>, rate: f64) -> System {
    let transfer = OperationTransfer { read_share, bytes: RequestSizes::One(bytes), ..OperationTransfer::default() };
    let gap = DurationDistribution::Exponential { mean_s: 1.0 / rate };
    let classes = vec![OperationClass::with_transfer("all", 1.0, transfer)];
    let load = LoadSpec::Open(OpenSpec { gap, classes, ..OpenSpec::default() });
    system(device.clone(), Some((level, members)), load)
}

/// Mean response at a rate, s; `None` if the system does not keep up.
fn response_at_rate(demand: OpenSystem<'_>, rate: f64) -> Option<f64> {
    match solve(&open_system(demand, rate)) {
        Ok(solution) => Some(solution.response_s),
        Err(UnsolvedReason::Overload(_)) => None,
        Err(other) => panic!("{} of {} at {rate}/s: {other}", demand.1, demand.2),
    }
}

#[test]
fn lower_rates_keep_up_and_respond_sooner() {
    // drives that choose among waiting requests are faster the more requests wait
    let drives = ["st24000nm002h", "st3600057ss", "hp97560", "samsung-870evo-1tb", "samsung-pm9a3-7680", "aws-gp3"];
    let levels = [
        (ArrayLevel::Raid0, 3),
        (ArrayLevel::Raid1, 2),
        (ArrayLevel::Raid5, 4),
        (ArrayLevel::Raid6, 6),
        (ArrayLevel::Raid10, 4),
        (ArrayLevel::Raid01, 4),
    ];
    let kinds = [(0.0, 4096), (0.3, 65_536), (0.7, 8192), (1.0, 262_144)];
    let devices =
        drives.map(|drive| catalogue::find_entry(drive).expect("in the catalogue").build_device().expect("possible"));
    // each drive in each level with one of the kinds; in a full sweep with all of them
    let sets = drives.len() * levels.len();
    let numbers = sweep(sets * kinds.len(), sets);
    let mut tried = 0;
    for number in &numbers {
        let (set, (read_share, bytes)) = (number / kinds.len(), kinds[number % kinds.len()]);
        let (drive, (level, members)) = (set / levels.len(), levels[set % levels.len()]);
        let found = responses_at_rates((&devices[drive], level, members, read_share, bytes));
        let of = format!("{} {level} {read_share} {bytes}", drives[drive]);
        for pair in found.windows(2) {
            let [(low, sooner), (high, later)] = [pair[0], pair[1]];
            let [sooner, later] = [sooner, later].map(|response| response.unwrap_or(f64::INFINITY));
            assert!(sooner <= later * 1.0001, "{of}: {sooner} s at {low}/s, {later} s at {high}/s");
            tried += 1;
        }
        let keeps_up = found.iter().filter(|(_, response)| response.is_some()).count();
        assert!(keeps_up > 5 && keeps_up < found.len(), "{of}: {keeps_up}");
    }
    assert!(numbers.len() >= sets && tried > 20 * numbers.len(), "{tried}");
}

/// Responses at rates well below saturation, just below it, and beyond.
fn responses_at_rates(demand: OpenSystem<'_>) -> Vec<(f64, Option<f64>)> {
    let with_response = |rate: f64| (rate, response_at_rate(demand, rate));
    let mut found: Vec<(f64, Option<f64>)> = Vec::new();
    let too_much = loop {
        let (rate, response) = with_response(1.25f64.powi(found.len() as i32));
        found.push((rate, response));
        if response.is_none() {
            break rate;
        }
        assert!(found.len() < 70, "no limit up to {rate}/s");
    };
    let near = (0..20).map(|step| too_much / 1.25 * (0.8 + 0.02 * f64::from(step)));
    let beyond = (2..12).map(|times| too_much * f64::from(times));
    found.extend(near.chain(beyond).map(with_response));
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

#[test]
fn drives_saturate_where_the_simulation_does() {
    // beyond the rate at which each single request would saturate the arm, up to just below the limit
    let entry = catalogue::find_entry("st24000nm002h").expect("in the catalogue");
    let device = entry.build_device().expect("possible");
    for (level, members, read_share, rates) in [
        (ArrayLevel::Raid0, 8, 0.7, [600.0, 900.0, 1100.0]),
        (ArrayLevel::Raid10, 4, 0.7, [280.0, 330.0, 500.0]),
        (ArrayLevel::Raid5, 4, 1.0, [300.0, 450.0, 600.0]),
        (ArrayLevel::Raid0, 4, 0.0, [150.0, 300.0, 450.0]),
    ] {
        for rate in rates {
            let demand = (&device, level, members, read_share, 8192);
            let solved = response_at_rate(demand, rate).unwrap_or_else(|| panic!("{level} {rate}/s: keeps up"));
            let report = Simulation::new(&open_system(demand, rate)).expect("possible").run_without_samples();
            let simulated = report.workloads[0].responses.mean().expect("answers") * 1e-9;
            let error = solved / simulated - 1.0;
            assert!(error.abs() < 0.1, "{level} {read_share} {rate}/s: {solved} s, simulated {simulated} s");
        }
        // and not at higher rates
        let demand = (&device, level, members, read_share, 8192);
        assert_eq!(response_at_rate(demand, 3.0 * rates[2]), None, "{level}");
    }
}

#[test]
fn accounts_for_pauses_and_lost_arrivals() {
    let solved = |load: &str| {
        let text = format!(
            "[[drive]]\ncapacity = \"1GB\"\n[drive.plain]\nservers = 1\nservice = {{ constant_us = 10000 }}\n\
             [[workload]]\n{load}\n"
        );
        let system = read("a.toml", &text, &[], &|_| Err(String::new())).unwrap_or_else(|p| panic!("{p}")).system;
        solve(&system)
    };
    // 10 ms at the drive and 90 ms away from it
    for load in ["think = \"90ms\"", "pause = \"90ms\"", "think = \"60ms\"\npause = { exponential = \"30ms\" }"] {
        let found = solved(load).unwrap_or_else(|why| panic!("{load}: {why}"));
        assert!((found.throughput_per_s - 10.0).abs() < 0.1, "{load}: {}", found.throughput_per_s);
        assert!((found.response_s - 0.01).abs() < 1e-4, "{load}: {}", found.response_s);
    }
    assert!(solved("rate = \"50/s\"").is_ok());
    let few = solved("rate = \"50/s\"\nmost_outstanding = 2");
    assert!(matches!(few, Err(UnsolvedReason::Part { part: UnsolvedPart::Gate, .. })), "{few:?}");
}

#[test]
fn volumes_with_similar_names_have_separate_credits() {
    // 400/s of the first draw 100 credits a second, which last for 15 hours; the second has none, and is busy
    let of = |other: &str| {
        let text = format!(
            "[watch]\nwarm_up = \"100s\"\nduration = \"5000s\"\n[[drive]]\nname = \"data\"\nmodel = \"aws-gp2-100\"\n\
             [[drive]]\nname = \"{other}\"\nmodel = \"aws-gp2-5334\"\n\
             [[workload]]\nname = \"a\"\non = \"data\"\nrate = \"400/s\"\nsize = \"4KB\"\n\
             [[workload]]\nname = \"b\"\non = \"{other}\"\nrate = \"14000/s\"\nsize = \"4KB\"\n"
        );
        let system = read("a.toml", &text, &[], &|_| Err(String::new())).unwrap_or_else(|p| panic!("{p}")).system;
        solve(&system).expect("credits that last").response_s
    };
    let (alike, other) = (of("data2"), of("other"));
    assert!((alike / other - 1.0).abs() < 1e-9, "{alike} s and {other} s");
}

#[test]
fn a_scrub_of_a_degraded_array_and_members_of_other_settings_are_not_left_out() {
    let part = |text: &str| {
        let system = read("a.toml", text, &[], &|_| Err(String::new())).unwrap_or_else(|p| panic!("{p}")).system;
        match solve(&system) {
            Err(UnsolvedReason::Part { part, .. }) => Some(part),
            _ => None,
        }
    };
    let degraded = |more: &str| {
        let drives = "[[drive]]\ncount = 4\nmodel = \"samsung-870evo-1tb\"\n";
        part(&format!("{drives}[[array]]\nlevel = 5\nfailed = [0]\n{more}[[workload]]\nrate = \"100/s\"\n"))
    };
    assert_eq!((degraded(""), degraded("scrub = true\n")), (None, Some(UnsolvedPart::Scrub)));
    let pair = |write_cache: bool| {
        let drive =
            |name: &str, on: bool| format!("[[drive]]\nname = \"{name}\"\nmodel = \"st32171w\"\nwrite_cache = {on}\n");
        let drives = format!("{}{}", drive("a", false), drive("b", write_cache));
        part(&format!("{drives}[[array]]\nlevel = 1\n[[workload]]\nrate = \"20/s\"\nread_share = 0.5\n"))
    };
    assert_eq!((pair(false), pair(true)), (None, Some(UnsolvedPart::UnequalMembers)));
}
