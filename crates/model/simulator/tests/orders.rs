//! External flushes and trims: the work of each kind of part, and its duration.

use std::sync::Arc;

use diskwright_simulator::ArrayLevel;
use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::cache::{BlockCacheSpec, WriteBackPolicy, WritePolicy};
use diskwright_simulator::catalogue;
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::flash::{FlashModel, FlashSpec, Start};
use diskwright_simulator::run::{ComponentKind, ExternalCompletion, ExternalRequest, JobPurpose, Simulation};
use diskwright_simulator::spread::ServiceTimeDistribution;
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
    let known = catalogue::all().iter().find(|e| e.id == "samsung-870evo-1tb").expect("it is known");
    let Ok(DeviceModel::Flash(model)) = known.device() else { panic!("it is an SSD") };
    let mut spec = model.spec().clone();
    change(&mut spec);
    DeviceModel::Flash(Arc::new(FlashModel::new(&spec).expect("possible")))
}

fn one(device: DeviceModel) -> System {
    System { drives: vec![Drives::new("disk", 1, device)], ..System::new("one drive") }
}

fn serving(system: &System, target: WorkloadTarget) -> Simulation {
    Simulation::serving(system, &[target]).expect("possible")
}

/// Submits requests at once, tagged with their positions in the list; returns their response times, ns.
fn took(simulation: &mut Simulation, wanted: &[(JobPurpose, Io)]) -> Vec<Ns> {
    let now = simulation.now();
    for (tag, (what, io)) in (0..).zip(wanted) {
        simulation.ask_for(now, *what, ExternalRequest { target: 0, io: *io, tag });
    }
    while let Some(time) = simulation.next_at() {
        simulation.pass_until(time);
    }
    let mut found: Vec<ExternalCompletion> = simulation.answers().collect();
    assert_eq!((found.len(), simulation.under_way()), (wanted.len(), 0));
    found.sort_by_key(|answer| answer.tag);
    found.iter().map(|answer| answer.at - now).collect()
}

const FLUSH: (JobPurpose, Io) = (JobPurpose::Flush, Io { first: 0, blocks: 0, write: false });

fn write(first: u64) -> (JobPurpose, Io) {
    (JobPurpose::Transfer, Io::write(first, 8))
}

#[test]
fn a_drive_that_reports_early_writes_before_it_answers() {
    let mut disk = serving(&one(mechanical(true)), WorkloadTarget::Drive(0));
    let written = took(&mut disk, &[write(2_000_000)])[0];
    let flushed = took(&mut disk, &[FLUSH])[0];
    let again = took(&mut disk, &[FLUSH])[0];
    assert!(written < 2 * MS, "reported early: {written}");
    assert!(flushed > 4 * MS && flushed < 40 * MS, "arm and rotation: {flushed}");
    assert!(again < 2 * MS, "there is nothing to write: {again}");
    let counts =
        disk.interval().components.iter().find(|part| part.kind == ComponentKind::Drive).map(|part| part.counts);
    let counted = counts.map(|counts| (counts.writes, counts.flushes, counts.flush_ns));
    assert_eq!(counted, Some((1, 2, flushed + again)));
    // no request waits for data that are on the medium already
    let mut disk = serving(&one(mechanical(true)), WorkloadTarget::Drive(0));
    took(&mut disk, &[write(2_000_000)]);
    let later = disk.now() + 100 * MS;
    disk.pass_until(later);
    assert!(took(&mut disk, &[FLUSH])[0] < 2 * MS);
}

#[test]
fn a_drive_that_writes_through_answers_at_the_cost_of_a_command() {
    let mut disk = serving(&one(mechanical(false)), WorkloadTarget::Drive(0));
    let found = took(&mut disk, &[write(2_000_000)])[0];
    let flushed = took(&mut disk, &[FLUSH])[0];
    assert!(found > 4 * MS && flushed < 2 * MS, "{found} {flushed}");
}

#[test]
fn a_mechanical_drive_that_flushes_does_nothing_else() {
    let mut disk = serving(&one(mechanical(false)), WorkloadTarget::Drive(0));
    let read = |first| (JobPurpose::Transfer, Io::read(first, 8));
    let wanted = [read(100_000), read(3_000_000), FLUSH, read(1_000_000), FLUSH, read(2_000_000)];
    let found = took(&mut disk, &wanted);
    assert!(found[0].max(found[1]) < found[2], "it ends what it has seen: {found:?}");
    assert!(found[2] < found[3] && found[3] < found[4] && found[4] < found[5], "{found:?}");
}

#[test]
fn orders_keep_their_turn_at_a_drive_that_sees_few_requests() {
    let mut system = one(mechanical(false));
    system.drives[0].depth = 2;
    let mut disk = serving(&system, WorkloadTarget::Drive(0));
    let read = |first| (JobPurpose::Transfer, Io::read(first, 8));
    let trim = (JobPurpose::Trim, Io::write(0, 8));
    let wanted = [read(0), read(900_000), read(1_800_000), FLUSH, read(2_700_000), trim, FLUSH, read(10)];
    let found = took(&mut disk, &wanted);
    assert!(found[0].max(found[1]).max(found[2]) < found[3], "{found:?}");
    assert!(found[3] < found[4] && found[4] < found[6] && found[6] < found[7], "{found:?}");
    assert!(found[5] >= found[3] && found[5] <= found[6], "a trim takes its turn and no time: {found:?}");
}

#[test]
fn flushes_use_the_channel_of_a_drive() {
    for disconnects in [true, false] {
        let mut system = one(mechanical(true));
        system.channels.push(Channel {
            name: "scsi".into(),
            controller: None,
            rate: Some(20_000_000),
            overhead: 300_000,
            disconnects,
        });
        system.drives[0].channel = Some(0);
        let mut disk = serving(&system, WorkloadTarget::Drive(0));
        took(&mut disk, &[write(2_000_000)]);
        let found = took(&mut disk, &[FLUSH, write(500_000), FLUSH]);
        assert!(found[0] > 4 * MS && found[1] > found[0] && found[2] > found[1] + 4 * MS, "{found:?}");
    }
}

#[test]
fn an_ssd_programs_what_its_buffer_holds_unless_that_is_safe() {
    let mut unsafe_one = serving(&one(ssd(|_| {})), WorkloadTarget::Drive(0));
    let mut safe = serving(&one(ssd(|spec| spec.protected = true)), WorkloadTarget::Drive(0));
    let mut none = serving(&one(ssd(|spec| spec.buffer = 0)), WorkloadTarget::Drive(0));
    let model = ssd(|_| {});
    let DeviceModel::Flash(model) = model else { panic!("it is an SSD") };
    let program = model.spec().slc.map_or(model.spec().program, |slc| slc.program);
    let found = [&mut unsafe_one, &mut safe, &mut none].map(|disk| {
        took(disk, &[write(0)]);
        took(disk, &[FLUSH])[0]
    });
    assert!(found[0] >= program, "{found:?} {program}");
    assert!(found[1] < MS / 5 && found[2] < MS / 5, "{found:?}");
    assert!(took(&mut unsafe_one, &[FLUSH])[0] < MS / 5, "there is nothing to program");
    // reads go on while it flushes
    took(&mut unsafe_one, &[write(8)]);
    let both = took(&mut unsafe_one, &[FLUSH, (JobPurpose::Transfer, Io::read(1 << 20, 8))]);
    assert!(both[1] < both[0], "{both:?}");
}

#[test]
fn volumes_and_plain_servers_answer_as_to_a_request_without_data() {
    let mut disk = serving(&one(plain()), WorkloadTarget::Drive(0));
    let trim = (JobPurpose::Trim, Io::write(0, 8));
    assert_eq!(took(&mut disk, &[write(0), FLUSH, write(8)]), [MS, 2 * MS, 3 * MS], "one server");
    assert_eq!(took(&mut disk, &[trim]), [0]);
    let known = catalogue::all().iter().find(|e| e.class == catalogue::DriveClass::Cloud).expect("there are some");
    let mut volume = serving(&one(known.device().expect("possible")), WorkloadTarget::Drive(0));
    let found = took(&mut volume, &[FLUSH])[0];
    assert!(found > 0 && found < 100 * MS, "{found}");
}

#[test]
fn a_write_through_is_a_write_and_a_flush() {
    let mut disk = serving(&one(plain()), WorkloadTarget::Drive(0));
    assert_eq!(took(&mut disk, &[(JobPurpose::Through, Io::write(0, 8))]), [2 * MS]);
    assert_eq!(took(&mut disk, &[(JobPurpose::Through, Io::read(0, 8))]), [MS]);
    let counts = disk.interval().component("disk").expect("the drive").counts;
    assert_eq!((counts.writes, counts.reads, counts.bytes()), (1, 1, 8192), "flushes are no transfers");
}

fn set(level: ArrayLevel, members: u32, device: DeviceModel) -> System {
    let set = Set::new("set", level, (0..members).collect());
    System { drives: vec![Drives::new("disk", members, device)], arrays: vec![set], ..System::new("set") }
}

#[test]
fn an_array_flushes_all_members_that_are_there() {
    let mut raid = serving(&set(ArrayLevel::Raid5, 4, mechanical(true)), WorkloadTarget::Array(0));
    took(&mut raid, &[write(1_000_000)]);
    let flushed = took(&mut raid, &[FLUSH])[0];
    assert!(flushed > 3 * MS, "{flushed}");
    let mut system = set(ArrayLevel::Raid5, 4, plain());
    let mut raid = serving(&system, WorkloadTarget::Array(0));
    assert_eq!(took(&mut raid, &[FLUSH]), [MS], "all at once");
    let reports = raid.interval();
    assert!(reports.components[1..].iter().all(|part| part.totals.completed == u64::from(part.name.starts_with('d'))));
    system.arrays[0].failed = vec![1];
    let mut raid = serving(&system, WorkloadTarget::Array(0));
    took(&mut raid, &[FLUSH]);
    let done = |report: &diskwright_simulator::SimulationReport, name: &str| {
        report.component(name).map_or(9, |part| part.totals.completed)
    };
    let report = raid.interval();
    assert_eq!((done(&report, "disk0"), done(&report, "disk1")), (1, 0));
    assert_eq!(report.arrays[0].totals.completed, 1);
}

fn cached(battery: bool, device: DeviceModel) -> System {
    let mut controller = Controller::new("adapter");
    let back = WriteBackPolicy { protected: battery, flush_at: 1.0, flush_after: None, ..WriteBackPolicy::battery() };
    controller.cache =
        Some(BlockCacheSpec { bytes: 4 << 20, write: WritePolicy::Back(back), ..BlockCacheSpec::default() });
    let channel = Channel { name: "bus".into(), controller: Some(0), rate: None, overhead: 0, disconnects: true };
    let mut system = one(device);
    (system.controllers, system.channels) = (vec![controller], vec![channel]);
    system.drives[0].channel = Some(0);
    system
}

#[test]
fn a_cache_without_a_battery_is_written_out_and_then_what_is_below() {
    let writes: Vec<(JobPurpose, Io)> = (0..10).map(|index| write(index * 1000)).collect();
    let mut safe = serving(&cached(true, plain()), WorkloadTarget::Drive(0));
    assert_eq!(took(&mut safe, &writes), vec![0; 10]);
    assert_eq!(took(&mut safe, &[FLUSH]), [0]);
    let mut disk = serving(&cached(false, plain()), WorkloadTarget::Drive(0));
    took(&mut disk, &writes);
    assert_eq!(took(&mut disk, &[FLUSH]), [11 * MS], "ten writes, and the drive's own flush");
    assert_eq!(took(&mut disk, &[FLUSH]), [MS], "it is clean");
    // written again while it is on its way: the flush asked for after that waits for both
    took(&mut disk, &writes[..1]);
    let found = took(&mut disk, &[FLUSH, writes[0], FLUSH]);
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
    let mut disk = serving(&system, WorkloadTarget::Drive(0));
    disk.pass_until(1000 * MS);
    let now = disk.now();
    disk.ask_for(now, JobPurpose::Flush, ExternalRequest { target: 0, io: Io::read(0, 0), tag: 7 });
    disk.pass_until(now + 5000 * MS);
    let answers: Vec<ExternalCompletion> = disk.answers().collect();
    assert_eq!(answers.len(), 1, "256 pages of 1 ms each at most");
    assert!(answers[0].at > now + MS, "{answers:?}");
}

#[test]
fn trims_reach_the_flash_of_those_who_hold_the_data() {
    let full = |device: &dyn Fn(&mut FlashSpec)| {
        ssd(|spec| {
            (spec.blocks, spec.slc) = (1 << 18, None);
            spec.start = Start { filled: 1.0, overwritten: 2.0 };
            device(spec);
        })
    };
    let moved = |trim: bool, level: ArrayLevel, members: u32| {
        let mut raid = serving(&set(level, members, full(&|_| {})), WorkloadTarget::Array(0));
        let blocks = raid.target_blocks(0).expect("it is served");
        if trim {
            took(&mut raid, &[(JobPurpose::Trim, Io::write(0, blocks as u32))]);
        }
        raid.interval();
        for index in 0..400 {
            took(&mut raid, &[(JobPurpose::Transfer, Io::write(index * 7919 * 8 % (blocks - 512) / 8 * 8, 512))]);
        }
        let report = raid.interval();
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
fn a_trim_of_a_part_of_a_row_reaches_nobody() {
    let mut system = set(ArrayLevel::Raid5, 3, plain());
    system.arrays[0].unit_blocks = 16;
    let mut raid = serving(&system, WorkloadTarget::Array(0));
    let trims = |raid: &mut Simulation, first: u64, blocks: u32| {
        took(raid, &[(JobPurpose::Trim, Io::write(first, blocks))]);
        let report = raid.interval();
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
