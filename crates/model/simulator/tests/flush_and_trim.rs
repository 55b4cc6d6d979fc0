//! External flushes and trims: the work of each kind of part, and its duration.

use std::sync::Arc;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::cache::{BlockCacheSpec, WriteBackPolicy, WritePolicy};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::flash::{FlashModel, FlashSpec, InitialState};
use diskwright_simulator::run::{ComponentKind, ExternalCompletion, ExternalRequest, JobPurpose, Simulation};
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::read::read;
use diskwright_simulator::system::*;

const MS: Ns = 1_000_000;

fn mechanical(early: bool) -> DeviceModel {
    let text = format!("[[drive]]\nmodel = \"st32171w\"\nwrite_cache = {early}\n[[workload]]\n");
    let none = |_: &str| Err("no other files".to_owned());
    let described = read("drive.toml", &text, &[], &none).expect("a valid description");
    described.system.drives[0].device.clone()
}

fn plain() -> DeviceModel {
    let service = ServiceTimeDistribution::Constant(MS);
    let (blocks, servers, bytes_per_s) = (1 << 20, 1, f64::INFINITY);
    DeviceModel::Plain(Arc::new(PlainSpec { name: "plain".into(), blocks, servers, service, bytes_per_s }))
}

fn ssd(change: impl Fn(&mut FlashSpec)) -> DeviceModel {
    let known = catalogue::built_in_entries().iter().find(|e| e.id == "samsung-870evo-1tb").expect("it is known");
    let Ok(DeviceModel::Flash(model)) = known.build_device() else { panic!("it is an SSD") };
    let mut spec = model.spec().clone();
    change(&mut spec);
    DeviceModel::Flash(Arc::new(FlashModel::new(&spec).expect("possible")))
}

fn single_drive(device: DeviceModel) -> System {
    System { drives: vec![DriveGroupSpec::new("disk", 1, device)], ..System::new("one drive") }
}

fn simulate_serving(system: &System, target: WorkloadTarget) -> Simulation {
    Simulation::with_external_targets(system, &[target]).expect("possible")
}

/// Submits requests at once, tagged with their positions in the list; returns their response times, ns.
fn response_times(simulation: &mut Simulation, wanted: &[(JobPurpose, Io)]) -> Vec<Ns> {
    let now = simulation.now();
    for (tag, (purpose, io)) in (0..).zip(wanted) {
        simulation.submit_with_purpose(now, *purpose, ExternalRequest { target: 0, io: *io, tag });
    }
    while let Some(time) = simulation.next_event_time() {
        simulation.advance_until(time);
    }
    let mut found: Vec<ExternalCompletion> = simulation.drain_completions().collect();
    assert_eq!((found.len(), simulation.in_flight_count()), (wanted.len(), 0));
    found.sort_by_key(|answer| answer.tag);
    found.iter().map(|answer| answer.done_ns - now).collect()
}

const FLUSH: (JobPurpose, Io) = (JobPurpose::Flush, Io { first: 0, blocks: 0, write: false });

fn write(first: u64) -> (JobPurpose, Io) {
    (JobPurpose::Transfer, Io::write(first, 8))
}

#[test]
fn a_flush_writes_acknowledged_data_before_it_completes() {
    let mut disk = simulate_serving(&single_drive(mechanical(true)), WorkloadTarget::Drive(0));
    let written = response_times(&mut disk, &[write(2_000_000)])[0];
    let flushed = response_times(&mut disk, &[FLUSH])[0];
    let again = response_times(&mut disk, &[FLUSH])[0];
    assert!(written < 2 * MS, "reported early: {written}");
    assert!(flushed > 4 * MS && flushed < 40 * MS, "arm and rotation: {flushed}");
    assert!(again < 2 * MS, "there is nothing to write: {again}");
    let counts =
        disk.report_interval().components.iter().find(|part| part.kind == ComponentKind::Drive).map(|part| part.counts);
    let counted = counts.map(|counts| (counts.writes, counts.flushes, counts.flush_ns));
    assert_eq!(counted, Some((1, 2, flushed + again)));
    // no request waits for data that are on the medium already
    let mut disk = simulate_serving(&single_drive(mechanical(true)), WorkloadTarget::Drive(0));
    response_times(&mut disk, &[write(2_000_000)]);
    let later = disk.now() + 100 * MS;
    disk.advance_until(later);
    assert!(response_times(&mut disk, &[FLUSH])[0] < 2 * MS);
}

#[test]
fn a_flush_of_a_write_through_drive_costs_a_command() {
    let mut disk = simulate_serving(&single_drive(mechanical(false)), WorkloadTarget::Drive(0));
    let found = response_times(&mut disk, &[write(2_000_000)])[0];
    let flushed = response_times(&mut disk, &[FLUSH])[0];
    assert!(found > 4 * MS && flushed < 2 * MS, "{found} {flushed}");
}

#[test]
fn a_mechanical_drive_that_flushes_does_nothing_else() {
    let mut disk = simulate_serving(&single_drive(mechanical(false)), WorkloadTarget::Drive(0));
    let read = |first| (JobPurpose::Transfer, Io::read(first, 8));
    let wanted = [read(100_000), read(3_000_000), FLUSH, read(1_000_000), FLUSH, read(2_000_000)];
    let found = response_times(&mut disk, &wanted);
    assert!(found[0].max(found[1]) < found[2], "it ends what it has seen: {found:?}");
    assert!(found[2] < found[3] && found[3] < found[4] && found[4] < found[5], "{found:?}");
}

#[test]
fn orders_keep_their_turn_at_a_drive_that_sees_few_requests() {
    let mut system = single_drive(mechanical(false));
    system.drives[0].depth = 2;
    let mut disk = simulate_serving(&system, WorkloadTarget::Drive(0));
    let read = |first| (JobPurpose::Transfer, Io::read(first, 8));
    let trim = (JobPurpose::Trim, Io::write(0, 8));
    let wanted = [read(0), read(900_000), read(1_800_000), FLUSH, read(2_700_000), trim, FLUSH, read(10)];
    let found = response_times(&mut disk, &wanted);
    assert!(found[0].max(found[1]).max(found[2]) < found[3], "{found:?}");
    assert!(found[3] < found[4] && found[4] < found[6] && found[6] < found[7], "{found:?}");
    assert!(found[5] >= found[3] && found[5] <= found[6], "a trim takes its turn and no time: {found:?}");
}

#[test]
fn flushes_use_the_channel_of_a_drive() {
    for disconnects in [true, false] {
        let mut system = single_drive(mechanical(true));
        system.channels.push(Channel {
            name: "scsi".into(),
            controller: None,
            rate: Some(20_000_000),
            overhead_ns: 300_000,
            disconnects,
        });
        system.drives[0].channel = Some(0);
        let mut disk = simulate_serving(&system, WorkloadTarget::Drive(0));
        response_times(&mut disk, &[write(2_000_000)]);
        let found = response_times(&mut disk, &[FLUSH, write(500_000), FLUSH]);
        assert!(found[0] > 4 * MS && found[1] > found[0] && found[2] > found[1] + 4 * MS, "{found:?}");
    }
}

#[test]
fn an_ssd_programs_what_its_buffer_holds_unless_that_is_safe() {
    let mut unsafe_one = simulate_serving(&single_drive(ssd(|_| {})), WorkloadTarget::Drive(0));
    let mut safe =
        simulate_serving(&single_drive(ssd(|spec| spec.survives_power_loss = true)), WorkloadTarget::Drive(0));
    let mut none = simulate_serving(&single_drive(ssd(|spec| spec.buffer_bytes = 0)), WorkloadTarget::Drive(0));
    let model = ssd(|_| {});
    let DeviceModel::Flash(model) = model else { panic!("it is an SSD") };
    let program = model.spec().slc.map_or(model.spec().program_ns, |slc| slc.program_ns);
    let found = [&mut unsafe_one, &mut safe, &mut none].map(|disk| {
        response_times(disk, &[write(0)]);
        response_times(disk, &[FLUSH])[0]
    });
    assert!(found[0] >= program, "{found:?} {program}");
    assert!(found[1] < MS / 5 && found[2] < MS / 5, "{found:?}");
    assert!(response_times(&mut unsafe_one, &[FLUSH])[0] < MS / 5, "there is nothing to program");
    // reads go on while it flushes
    response_times(&mut unsafe_one, &[write(8)]);
    let both = response_times(&mut unsafe_one, &[FLUSH, (JobPurpose::Transfer, Io::read(1 << 20, 8))]);
    assert!(both[1] < both[0], "{both:?}");
}

#[test]
fn volumes_and_plain_servers_flush_like_a_request_without_data() {
    let mut disk = simulate_serving(&single_drive(plain()), WorkloadTarget::Drive(0));
    let trim = (JobPurpose::Trim, Io::write(0, 8));
    assert_eq!(response_times(&mut disk, &[write(0), FLUSH, write(8)]), [MS, 2 * MS, 3 * MS], "one server");
    assert_eq!(response_times(&mut disk, &[trim]), [0]);
    let known =
        catalogue::built_in_entries().iter().find(|e| e.class == catalogue::DriveClass::Cloud).expect("there are some");
    let mut volume = simulate_serving(&single_drive(known.build_device().expect("possible")), WorkloadTarget::Drive(0));
    let found = response_times(&mut volume, &[FLUSH])[0];
    assert!(found > 0 && found < 100 * MS, "{found}");
}

#[test]
fn a_write_through_is_a_write_and_a_flush() {
    let mut disk = simulate_serving(&single_drive(plain()), WorkloadTarget::Drive(0));
    assert_eq!(response_times(&mut disk, &[(JobPurpose::FuaWrite, Io::write(0, 8))]), [2 * MS]);
    assert_eq!(response_times(&mut disk, &[(JobPurpose::FuaWrite, Io::read(0, 8))]), [MS]);
    let counts = disk.report_interval().find_component("disk").expect("the drive").counts;
    assert_eq!((counts.writes, counts.reads, counts.byte_count()), (1, 1, 8192), "flushes are no transfers");
}

fn set(level: ArrayLevel, members: u32, device: DeviceModel) -> System {
    let set = ArraySpec::new("set", level, (0..members).collect());
    System { drives: vec![DriveGroupSpec::new("disk", members, device)], arrays: vec![set], ..System::new("set") }
}

#[test]
fn an_array_flushes_all_members_that_are_there() {
    let mut raid = simulate_serving(&set(ArrayLevel::Raid5, 4, mechanical(true)), WorkloadTarget::Array(0));
    response_times(&mut raid, &[write(1_000_000)]);
    let flushed = response_times(&mut raid, &[FLUSH])[0];
    assert!(flushed > 3 * MS, "{flushed}");
    let mut system = set(ArrayLevel::Raid5, 4, plain());
    let mut raid = simulate_serving(&system, WorkloadTarget::Array(0));
    assert_eq!(response_times(&mut raid, &[FLUSH]), [MS], "all at once");
    let reports = raid.report_interval();
    assert!(reports.components[1..].iter().all(|part| part.totals.completed == u64::from(part.name.starts_with('d'))));
    system.arrays[0].failed = vec![1];
    let mut raid = simulate_serving(&system, WorkloadTarget::Array(0));
    response_times(&mut raid, &[FLUSH]);
    let done = |report: &diskwright_simulator::SimulationReport, name: &str| {
        report.find_component(name).map_or(9, |part| part.totals.completed)
    };
    let report = raid.report_interval();
    assert_eq!((done(&report, "disk0"), done(&report, "disk1")), (1, 0));
    assert_eq!(report.arrays[0].totals.completed, 1);
}

fn cached(battery: bool, device: DeviceModel) -> System {
    let mut controller = Controller::new("adapter");
    let back = WriteBackPolicy {
        survives_power_loss: battery,
        flush_at: 1.0,
        flush_after: None,
        ..WriteBackPolicy::battery_backed()
    };
    controller.cache =
        Some(BlockCacheSpec { bytes: 4 << 20, write: WritePolicy::Back(back), ..BlockCacheSpec::default() });
    let channel = Channel { name: "bus".into(), controller: Some(0), rate: None, overhead_ns: 0, disconnects: true };
    let mut system = single_drive(device);
    (system.controllers, system.channels) = (vec![controller], vec![channel]);
    system.drives[0].channel = Some(0);
    system
}

#[test]
fn a_cache_without_a_battery_is_written_out_and_then_what_is_below() {
    let writes: Vec<(JobPurpose, Io)> = (0..10).map(|index| write(index * 1000)).collect();
    let mut safe = simulate_serving(&cached(true, plain()), WorkloadTarget::Drive(0));
    assert_eq!(response_times(&mut safe, &writes), vec![0; 10]);
    assert_eq!(response_times(&mut safe, &[FLUSH]), [0]);
    let mut disk = simulate_serving(&cached(false, plain()), WorkloadTarget::Drive(0));
    response_times(&mut disk, &writes);
    assert_eq!(response_times(&mut disk, &[FLUSH]), [11 * MS], "ten writes, and the drive's own flush");
    assert_eq!(response_times(&mut disk, &[FLUSH]), [MS], "it is clean");
    // written again while it is on its way: the flush asked for after that waits for both
    response_times(&mut disk, &writes[..1]);
    let found = response_times(&mut disk, &[FLUSH, writes[0], FLUSH]);
    assert_eq!(found[0], 2 * MS, "the first does not wait for what came after it: {found:?}");
    assert!(found[2] >= 3 * MS, "{found:?}");
}

#[test]
fn flushes_end_while_others_go_on_writing() {
    let mut system = cached(false, plain());
    let described = "[[workload]]\nusers = 4\nthink = \"2ms\"\nread_share = 0\narea = \"1MB\"\n";
    let none = |_: &str| Err("no other files".to_owned());
    let text = format!("[[drive]]\nmodel = \"st32171w\"\n{described}");
    system.workloads = read("load.toml", &text, &[], &none).expect("valid").system.workloads;
    let mut disk = simulate_serving(&system, WorkloadTarget::Drive(0));
    disk.advance_until(1000 * MS);
    let now = disk.now();
    disk.submit_with_purpose(now, JobPurpose::Flush, ExternalRequest { target: 0, io: Io::read(0, 0), tag: 7 });
    disk.advance_until(now + 5000 * MS);
    let answers: Vec<ExternalCompletion> = disk.drain_completions().collect();
    assert_eq!(answers.len(), 1, "256 pages of 1 ms each at most");
    assert!(answers[0].done_ns > now + MS, "{answers:?}");
}

#[test]
fn trims_reach_the_flash_of_those_who_hold_the_data() {
    let full = |device: &dyn Fn(&mut FlashSpec)| {
        ssd(|spec| {
            (spec.blocks, spec.slc) = (1 << 18, None);
            spec.initial_state = InitialState { filled_share: 1.0, overwrite_passes: 2.0 };
            device(spec);
        })
    };
    let moved = |trim: bool, level: ArrayLevel, members: u32| {
        let mut raid = simulate_serving(&set(level, members, full(&|_| {})), WorkloadTarget::Array(0));
        let blocks = raid.target_blocks(0).expect("it is served");
        if trim {
            response_times(&mut raid, &[(JobPurpose::Trim, Io::write(0, blocks as u32))]);
        }
        raid.report_interval();
        for index in 0..400 {
            response_times(
                &mut raid,
                &[(JobPurpose::Transfer, Io::write(index * 7919 * 8 % (blocks - 512) / 8 * 8, 512))],
            );
        }
        let report = raid.report_interval();
        report.components.iter().filter_map(|part| part.flash).map(|flash| flash.pages_moved).sum::<u64>()
    };
    for (level, members) in
        [(ArrayLevel::Raid0, 2), (ArrayLevel::Raid1, 2), (ArrayLevel::Raid5, 3), (ArrayLevel::Raid10, 4)]
    {
        let (before, after) = (moved(false, level, members), moved(true, level, members));
        assert!(before > 100 && after < before / 2, "{level}: {before} {after}");
    }
}

#[test]
fn a_trim_of_part_of_a_row_reaches_no_member() {
    let mut system = set(ArrayLevel::Raid5, 3, plain());
    system.arrays[0].unit_blocks = 16;
    let mut raid = simulate_serving(&system, WorkloadTarget::Array(0));
    let trims = |raid: &mut Simulation, first: u64, blocks: u32| {
        response_times(raid, &[(JobPurpose::Trim, Io::write(first, blocks))]);
        let report = raid.report_interval();
        let drives = report.components.iter().filter(|part| part.name.starts_with("disk"));
        drives.map(|part| part.totals.completed).sum::<u64>()
    };
    assert_eq!(trims(&mut raid, 0, 31), 0);
    assert_eq!(trims(&mut raid, 5, 50), 0, "two halves of rows");
    assert_eq!(trims(&mut raid, 5, 59), 3, "one row between two parts: data and parity");
    assert_eq!(trims(&mut raid, 0, 1 << 20), 3 * 8, "the first half, 64 MB at a time, joined");
    assert_eq!(trims(&mut raid, u64::MAX - 3, u32::MAX), 0);
    assert_eq!(trims(&mut raid, 0, u32::MAX), 3 * 16, "what lies beyond is left out");
}
