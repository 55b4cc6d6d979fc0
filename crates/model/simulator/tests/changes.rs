//! Drives that slow down, hang, fail and are replaced during a run.

use std::sync::Arc;

use crate::random_system::{pick_one, random_system};
use diskwright_base::Rng;
use diskwright_simulator::Io;
use diskwright_simulator::Ns;
use diskwright_simulator::array::{ArrayLevel, MemberSet};
use diskwright_simulator::device::{DeviceModel, PlainSpec};
use diskwright_simulator::run::{
    ChangeError, ExternalCompletion, ExternalRequest, JobPurpose, Simulation, SystemChange,
};
use diskwright_simulator::sample_rows::SampleRows;
use diskwright_simulator::service_time::ServiceTimeDistribution;
use diskwright_simulator::system::*;

const MS: Ns = 1_000_000;
const S: Ns = 1000 * MS;

/// 32 MB that need 1 ms for a request.
fn plain(servers: u32) -> DeviceModel {
    let (service, blocks, bytes_per_s) = (ServiceTimeDistribution::Constant(MS), 1 << 16, f64::INFINITY);
    DeviceModel::Plain(Arc::new(PlainSpec { name: "plain".into(), blocks, servers, service, bytes_per_s }))
}

fn drives(count: u32, device: DeviceModel) -> System {
    System { drives: vec![DriveGroupSpec::new("disk", count, device)], ..System::new("drives") }
}

fn set(level: ArrayLevel, members: u32, spares: u32) -> System {
    let mut set = ArraySpec::new("set", level, (0..members).collect());
    set.spares = (members..members + spares).collect();
    set.rebuild = (spares > 0).then(BackgroundWork::default);
    System { arrays: vec![set], ..drives(members + spares, plain(1)) }
}

fn simulate_serving(system: &System) -> Simulation {
    let targets = match system.arrays.len() {
        0 => (0..system.drive_count()).map(WorkloadTarget::Drive).collect(),
        n => (0..n).map(WorkloadTarget::Array).collect::<Vec<_>>(),
    };
    Simulation::with_external_targets(system, &targets).expect("possible")
}

fn submit_at_once(simulation: &mut Simulation, io: Io, tag: u32) {
    let now = simulation.now();
    simulation.submit_at(now, ExternalRequest { target: 0, io, tag });
}

fn take_completions(simulation: &mut Simulation) -> Vec<(u32, Ns)> {
    simulation.drain_completions().map(|answer: ExternalCompletion| (answer.tag, answer.done_ns)).collect()
}

fn complete_everything(simulation: &mut Simulation) -> Vec<(u32, Ns)> {
    while let Some(time) = simulation.next_event_time() {
        simulation.advance_until(time);
    }
    take_completions(simulation)
}

fn fail(member: u16) -> SystemChange {
    SystemChange::Fail { array: 0, member }
}

fn replace(member: u16) -> SystemChange {
    SystemChange::Replace { array: 0, member, settings: None }
}

fn hang(drive: u32, on: bool) -> SystemChange {
    SystemChange::Hang { drive, on }
}

fn members(of: &[u16]) -> MemberSet {
    of.iter().copied().collect()
}

#[test]
fn a_slow_drive_takes_the_factor_longer_queues_included() {
    let mut disk = simulate_serving(&drives(1, plain(1)));
    submit_at_once(&mut disk, Io::read(0, 8), 0);
    disk.advance_until(MS / 2);
    disk.apply_change(SystemChange::Slow { drive: 0, factor: 10.0 }).expect("possible");
    submit_at_once(&mut disk, Io::read(0, 8), 1);
    submit_at_once(&mut disk, Io::read(0, 8), 2);
    assert_eq!(
        complete_everything(&mut disk),
        [(0, MS), (1, 11 * MS), (2, 21 * MS)],
        "what is under way ends as foreseen"
    );
    disk.apply_change(SystemChange::Slow { drive: 0, factor: 1.0 }).expect("possible");
    submit_at_once(&mut disk, Io::read(0, 8), 3);
    assert_eq!(complete_everything(&mut disk), [(3, 22 * MS)]);
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
        let error = disk.apply_change(SystemChange::Slow { drive: 0, factor }).expect_err("too much");
        assert!(error.to_string().contains("0.001 to 1000000"), "{error}");
    }
    assert_eq!(disk.apply_change(SystemChange::Slow { drive: 1, factor: 2.0 }), Err(ChangeError::NoDrive(1, 1)));
}

#[test]
fn slow_drives_of_all_kinds_serve_as_many_times_less() {
    use diskwright_simulator::catalogue;
    for (id, load) in [("ibm-dpss-309170", 4), ("samsung-870evo-1tb", 64), ("aws-gp3", 64), ("", 4)] {
        let known = catalogue::built_in_entries()
            .iter()
            .find(|e| e.id == id || id == "ibm-dpss-309170" && e.class == catalogue::DriveClass::Hdd);
        let device = known.map_or_else(|| plain(2), |entry| entry.build_device().expect("possible"));
        let rate = |factor: f64| {
            let mut disk = simulate_serving(&drives(1, device.clone()));
            let blocks = disk.target_blocks(0).expect("it is served");
            disk.apply_change(SystemChange::Slow { drive: 0, factor }).expect("possible");
            let mut rng = Rng::new(1, 1);
            let mut read =
                |disk: &mut Simulation| submit_at_once(disk, Io::read(rng.next_below(blocks / 8 - 1) * 8, 8), 0);
            (0..load).for_each(|_| read(&mut disk));
            for _ in 0..2000 {
                let time = disk.next_event_time().expect("some are under way");
                disk.advance_until(time);
                let done = disk.drain_completions().count();
                (0..done).for_each(|_| read(&mut disk));
            }
            let report = disk.report_interval();
            let part = &report.components[1];
            (part.counts.request_count() as f64 / report.elapsed_s(), part.utilisation())
        };
        let (usual, slow) = (rate(1.0), rate(8.0));
        assert!((usual.0 / slow.0 / 8.0 - 1.0).abs() < 0.05, "{id}: {usual:?} {slow:?}");
        assert!((usual.1 - slow.1).abs() < 0.05, "{id}: as full as before: {usual:?} {slow:?}");
    }
}

#[test]
fn a_hung_drive_completes_when_it_is_released() {
    let mut system = drives(2, plain(1));
    system.drives[0].depth = 2;
    let mut disk = simulate_serving(&system);
    (0..3).for_each(|tag| submit_at_once(&mut disk, Io::read(0, 8), tag));
    disk.advance_until(MS / 2);
    disk.apply_change(hang(0, true)).expect("possible");
    disk.apply_change(hang(0, true)).expect("it hangs already, which is no harm");
    disk.advance_until(S);
    submit_at_once(&mut disk, Io::write(0, 8), 3);
    disk.submit_with_purpose(S, JobPurpose::Flush, ExternalRequest { target: 0, io: Io::read(0, 0), tag: 4 });
    disk.submit_at(S, ExternalRequest { target: 1, io: Io::read(0, 8), tag: 5 });
    disk.advance_until(2 * S);
    assert_eq!(take_completions(&mut disk), [(5, S + MS)], "others go on");
    let report = disk.report_interval();
    assert!(
        report.find_component("disk0").is_some_and(|part| part.totals.busy_share() > 0.99),
        "whoever asks sees it at work"
    );
    disk.apply_change(hang(0, false)).expect("possible");
    let done_ns = |n: Ns| 2 * S + n * MS;
    assert_eq!(
        complete_everything(&mut disk),
        [(0, done_ns(0)), (1, done_ns(1)), (2, done_ns(2)), (3, done_ns(3)), (4, done_ns(4))]
    );
    assert_eq!(disk.in_flight_count(), 0);
    // an idle drive that hangs counts as busy from its first request on
    disk.apply_change(hang(0, true)).expect("possible");
    disk.report_interval();
    disk.advance_until(4 * S);
    submit_at_once(&mut disk, Io::read(0, 8), 6);
    disk.advance_until(5 * S);
    let part = disk.report_interval().find_component("disk0").expect("there").totals;
    assert_eq!((part.busy_ns, part.service_ns), (S, u128::from(S)));
    disk.apply_change(hang(0, false)).expect("possible");
    assert_eq!(complete_everything(&mut disk), [(6, 5 * S + MS)]);
}

#[test]
fn a_held_channel_hangs_with_its_drive() {
    for disconnects in [false, true] {
        let mut system = drives(2, plain(1));
        let text = "[[drive]]\nmodel = \"st32171w\"\n[[workload]]\n";
        let none = |_: &str| Err("no other files".to_owned());
        let described = read::read("drive.toml", text, &[], &none).expect("valid").system;
        system.drives[0].device = described.drives[0].device.clone();
        let overhead = 100_000;
        let channel = Channel {
            name: "scsi".into(),
            controller: None,
            rate: Some(20_000_000),
            overhead_ns: overhead,
            disconnects,
        };
        system.channels.push(channel);
        system.drives[0].channel = Some(0);
        let mut disk = simulate_serving(&system);
        (0..4).for_each(|tag| submit_at_once(&mut disk, Io::read(u64::from(tag) * 100_000, 8), tag));
        disk.advance_until(MS);
        disk.apply_change(hang(0, true)).expect("possible");
        disk.submit_at(MS, ExternalRequest { target: 1, io: Io::read(70_000, 8), tag: 9 });
        disk.advance_until(S);
        assert_eq!(take_completions(&mut disk).len(), usize::from(disconnects), "{disconnects}");
        disk.apply_change(hang(0, false)).expect("possible");
        assert_eq!(complete_everything(&mut disk).len(), 5 - usize::from(disconnects));
    }
}

#[test]
fn requests_to_a_failed_member_go_to_the_others() {
    let mut raid = simulate_serving(&set(ArrayLevel::Raid5, 3, 0));
    // the unit at the beginning lies on one member; its drive hangs, and is then thrown out
    let member = raid.array_geometry(0).and_then(|array| array.map_block(0, 8, 0)).expect("there").member;
    raid.apply_change(hang(u32::from(member), true)).expect("possible");
    submit_at_once(&mut raid, Io::read(0, 8), 0);
    submit_at_once(&mut raid, Io::write(8, 8), 1);
    raid.advance_until(30 * S);
    assert_eq!(take_completions(&mut raid), []);
    raid.apply_change(fail(member)).expect("possible");
    assert_eq!(raid.array_state(0).expect("there").failed, members(&[member]));
    let found = complete_everything(&mut raid);
    // of the write only the data were missing, and their parity is written; the read is sent to both others
    assert_eq!(found, [(1, 30 * S), (0, 30 * S + MS)]);
    let report = raid.report_interval();
    assert_eq!((report.arrays[0].failed, report.arrays[0].lost_blocks), (1, 0));
    let name = format!("disk{member}");
    let again = |raid: &mut Simulation| raid.apply_change(fail(member)).expect_err("twice").to_string();
    assert!(again(&mut raid).contains(&format!("`{name}` has failed already")));
    assert_eq!(raid.apply_change(hang(u32::from(member), true)), Err(ChangeError::AlreadyFailed(name)));
    // without a second copy data are lost, and reported
    raid.apply_change(fail((member + 1) % 3)).expect("possible");
    submit_at_once(&mut raid, Io::read(0, 256), 2);
    assert_eq!(complete_everything(&mut raid).len(), 1);
    assert!(raid.report_interval().arrays[0].lost_blocks >= 128);
    assert_eq!(raid.apply_change(replace(member)), Err(ChangeError::DataLost("set".into())));
    assert_eq!(raid.in_flight_count(), 0);
}

#[test]
fn a_write_restarts_when_a_member_it_read_fails() {
    let mut system = set(ArrayLevel::Raid5, 4, 0);
    system.arrays[0].policy.write_by = diskwright_simulator::array::ParityUpdate::ReadModifyWrite;
    let mut raid = simulate_serving(&system);
    let member = raid.array_geometry(0).and_then(|array| array.map_block(0, 8, 0)).expect("there").member;
    raid.apply_change(hang(u32::from(member), true)).expect("possible");
    submit_at_once(&mut raid, Io::write(0, 8), 0);
    raid.advance_until(S);
    raid.apply_change(fail(member)).expect("possible");
    assert_eq!(complete_everything(&mut raid), [(0, S + 2 * MS)], "the other data are read, and the parity written");
    let report = raid.report_interval();
    let writes = report.components.iter().map(|part| part.counts.writes).sum::<u64>();
    assert_eq!((writes, raid.in_flight_count()), (1, 0));
}

#[test]
fn a_rebuild_computes_its_parity() {
    let ended = |xor_byte_ps: u64| {
        let mut system = set(ArrayLevel::Raid5, 3, 1);
        (system.arrays[0].failed, system.host.xor_byte_ps) = (vec![0], xor_byte_ps);
        let mut raid = simulate_serving(&system);
        complete_everything(&mut raid);
        raid.report_interval().arrays[0].background.and_then(|work| work.ended_ns).expect("it was rebuilt")
    };
    // one block of 512 KB folded onto another, 64 times: 1 ns a byte
    assert_eq!((ended(0), ended(1000)), (128 * MS, 128 * MS + 64 * (512 << 10)));
}

#[test]
fn a_spare_replaces_a_member_automatically() {
    let mut raid = simulate_serving(&set(ArrayLevel::Raid5, 3, 1));
    assert_eq!((raid.find_array_member(1), raid.find_array_member(3)), (Some((0, 1)), None));
    raid.advance_until(S);
    raid.apply_change(fail(1)).expect("possible");
    assert_eq!((raid.find_array_member(1), raid.find_array_member(3)), (None, Some((0, 1))));
    let begun = raid.array_state(0).expect("there");
    assert_eq!((begun.failed, begun.rebuilding, begun.good_below), (members(&[1]), members(&[1]), 0));
    assert_eq!(raid.apply_change(replace(1)), Err(ChangeError::AlreadyRebuilding("disk3".into())));
    // 64 steps of 512 KB of 2 ms each
    raid.advance_until(S + 21 * MS);
    let state = raid.array_state(0).expect("there");
    assert_eq!(state.good_below, 10 * 1024, "{state:?}");
    raid.advance_until(3 * S);
    assert_eq!(raid.array_state(0).expect("there"), Default::default());
    let report = raid.report_interval();
    let background = report.arrays[0].background.expect("it was rebuilt");
    assert_eq!((background.ended_ns, report.arrays[0].failed), (Some(S + 128 * MS), 0));
    assert_eq!(report.find_component("disk3").map(|part| part.counts.bytes_written), Some(32 << 20));
    assert_eq!(raid.apply_change(replace(1)), Err(ChangeError::NotFailed("disk3".into())));
    // no spare is left
    raid.apply_change(fail(1)).expect("it works again, and may fail again");
    assert_eq!(raid.array_state(0).expect("there").rebuilding, MemberSet::NONE);
    raid.apply_change(replace(1)).expect("a fresh drive");
    complete_everything(&mut raid);
    assert_eq!(raid.array_state(0).expect("there"), Default::default());
}

#[test]
fn a_rebuild_that_loses_its_drive_begins_again_on_the_next() {
    let mut raid = simulate_serving(&set(ArrayLevel::Raid1, 2, 2));
    raid.apply_change(fail(0)).expect("possible");
    raid.advance_until(50 * MS);
    assert!(raid.array_state(0).expect("there").good_below > 10_000);
    raid.apply_change(fail(0)).expect("the spare fails");
    assert_eq!(raid.find_array_member(3), Some((0, 0)));
    let state = raid.array_state(0).expect("there");
    assert_eq!((state.good_below, state.rebuilding), (0, members(&[0])));
    // the member that is read from fails: nothing is left
    raid.advance_until(80 * MS);
    raid.apply_change(fail(1)).expect("possible");
    let state = raid.array_state(0).expect("there");
    assert_eq!((state.failed, state.rebuilding, state.good_below), (members(&[0, 1]), MemberSet::NONE, 0));
    assert_eq!(complete_everything(&mut raid), []);
    assert_eq!(raid.in_flight_count(), 0);
}

#[test]
fn an_array_that_has_lost_data_takes_no_spare() {
    let mut raid = simulate_serving(&set(ArrayLevel::Raid5, 3, 2));
    raid.apply_change(fail(0)).expect("possible");
    raid.apply_change(fail(1)).expect("possible");
    assert_eq!(
        (raid.find_array_member(3), raid.find_array_member(1), raid.find_array_member(4)),
        (Some((0, 0)), Some((0, 1)), None)
    );
    // neither of them is being rebuilt, and neither can be
    for member in [0, 1] {
        assert_eq!(raid.apply_change(replace(member)), Err(ChangeError::DataLost("set".into())));
    }
    let mut stripes = simulate_serving(&set(ArrayLevel::Raid0, 2, 1));
    stripes.apply_change(fail(0)).expect("possible");
    assert_eq!((stripes.find_array_member(0), stripes.find_array_member(2)), (Some((0, 0)), None));
}

#[test]
fn initially_lost_data_are_not_rebuilt() {
    for (level, failed) in
        [(ArrayLevel::Raid0, vec![1]), (ArrayLevel::Linear, vec![0]), (ArrayLevel::Raid1, vec![0, 1])]
    {
        let mut system = set(level, 2, 2);
        system.arrays[0].failed = failed.clone();
        let mut array = simulate_serving(&system);
        array.advance_until(S);
        assert_eq!(array.array_state(0).expect("there").failed, members(&failed), "{level}");
        assert_eq!((array.find_array_member(2), array.find_array_member(3)), (None, None), "{level}");
        assert!(array.report_interval().arrays[0].background.is_none(), "{level}");
    }
    // a scrub of nothing: 65,536 steps without an I/O
    let mut system = set(ArrayLevel::Raid1, 2, 0);
    system.arrays[0].failed = vec![0, 1];
    system.arrays[0].scrub = Some(BackgroundWork { step_blocks: 1, ..BackgroundWork::default() });
    let mut array = simulate_serving(&system);
    array.advance_until(S);
    let scrub = array.report_interval().arrays[0].background.expect("a scrub");
    assert!(scrub.ended_ns.is_some(), "{scrub:?}");
}

#[test]
fn initially_failed_members_are_rebuilt_onto_spares() {
    // one stripe set of the mirror is out of service with its failed member: one spare is enough
    let mut system = set(ArrayLevel::Raid01, 4, 1);
    system.arrays[0].failed = vec![0];
    let mut raid = simulate_serving(&system);
    raid.advance_until(MS);
    let state = raid.array_state(0).expect("there");
    assert_eq!((state.failed, state.rebuilding), (members(&[0, 1]), members(&[0, 1])));
    assert_eq!((raid.find_array_member(4), raid.find_array_member(1)), (Some((0, 0)), Some((0, 1))));
    complete_everything(&mut raid);
    assert_eq!(raid.array_state(0).expect("there"), Default::default());
    // two failed, and one spare
    let mut system = set(ArrayLevel::Raid6, 5, 1);
    system.arrays[0].failed = vec![0, 2];
    let mut raid = simulate_serving(&system);
    complete_everything(&mut raid);
    assert_eq!((raid.find_array_member(5), raid.array_state(0).expect("there").failed), (Some((0, 0)), members(&[2])));
}

#[test]
fn another_member_may_fail_while_one_is_rebuilt() {
    let mut system = set(ArrayLevel::Raid6, 5, 1);
    system.arrays[0].rebuild = Some(BackgroundWork { depth: 4, ..BackgroundWork::default() });
    let mut raid = simulate_serving(&system);
    raid.apply_change(fail(2)).expect("possible");
    raid.advance_until(40 * MS);
    raid.apply_change(fail(4)).expect("possible");
    let state = raid.array_state(0).expect("there");
    assert_eq!((state.failed, state.rebuilding), (members(&[2, 4]), members(&[2])));
    raid.apply_change(SystemChange::Replace { array: 0, member: 4, settings: Some(BackgroundWork::default()) })
        .expect("possible");
    assert_eq!(raid.array_state(0).expect("there").rebuilding, members(&[2]), "one after the other");
    raid.advance_until(S);
    let state = raid.array_state(0).expect("there");
    assert_eq!(state, Default::default(), "both are good again");
    let written =
        |raid: &mut Simulation, name: &str| raid.report_interval().find_component(name).map(|c| c.counts.bytes_written);
    assert!(written(&mut raid, "disk5") >= Some(32 << 20));
    assert_eq!(raid.in_flight_count(), 0);
}

#[test]
fn a_rebuild_of_several_steps_at_a_time_gets_on() {
    // each of 512 steps reads two members and writes one: 1 ms, and 1 ms
    let mut system = set(ArrayLevel::Raid5, 3, 1);
    system.arrays[0].rebuild = Some(BackgroundWork { step_blocks: 128, depth: 4, rate: None });
    let mut raid = simulate_serving(&system);
    raid.apply_change(fail(2)).expect("possible");
    let mut before = 0;
    for step in 1..=4 {
        raid.advance_until(step * 100 * MS);
        let state = raid.array_state(0).expect("there");
        let done = raid.report_interval().arrays[0].background.expect("a rebuild").done_bytes;
        assert_eq!(done, state.good_below * 512);
        assert!(done >= before + (5 << 20), "after {step} tenths of a second {done} bytes are done");
        before = done;
    }
    raid.advance_until(S);
    assert_eq!(raid.array_state(0).expect("there"), Default::default(), "it is good again");
}

#[test]
fn refuses_changes_to_missing_parts() {
    let mut raid = simulate_serving(&set(ArrayLevel::Raid5, 3, 0));
    let error_of = |raid: &mut Simulation, change| raid.apply_change(change).expect_err("impossible").to_string();
    assert_eq!(error_of(&mut raid, SystemChange::Fail { array: 1, member: 0 }), "there is no array 1; there are 1");
    assert_eq!(error_of(&mut raid, fail(3)), "`set` has no member 3; it has 3");
    assert_eq!(error_of(&mut raid, hang(3, true)), "there is no drive 3; there are 3");
    assert!(error_of(&mut raid, replace(0)).starts_with("`disk0` has not failed"));
    let mut stripes = simulate_serving(&set(ArrayLevel::Raid0, 2, 0));
    stripes.apply_change(fail(0)).expect("possible");
    assert!(error_of(&mut stripes, replace(0)).starts_with("`set` has lost data"));
}

#[test]
fn an_initially_failed_member_can_be_replaced() {
    let mut system = set(ArrayLevel::Raid10, 4, 0);
    system.arrays[0].failed = vec![3];
    let mut raid = simulate_serving(&system);
    raid.apply_change(replace(3)).expect("possible");
    complete_everything(&mut raid);
    assert_eq!(raid.array_state(0).expect("there"), Default::default());
    assert_eq!(raid.report_interval().find_component("disk3").map(|part| part.counts.bytes_written), Some(32 << 20));
}

#[test]
fn planned_changes_happen_and_samples_show_them() {
    let mut system = set(ArrayLevel::Raid5, 3, 1);
    system.arrays[0].rebuild = Some(BackgroundWork { rate: Some(8 << 20), ..BackgroundWork::default() });
    let text = "[[drive]]\nmodel = \"st32171w\"\n[[workload]]\nthink = \"5ms\"\nread_share = 0.5\n";
    let none = |_: &str| Err("no other files".to_owned());
    system.workloads = read::read("load.toml", text, &[], &none).expect("valid").system.workloads;
    system.workloads[0].targets = vec![WorkloadTarget::Array(0)];
    system.watch = WatchSpec { warm_up: S, duration: 11 * S, interval: S, ..WatchSpec::default() };
    let planned = |second: Ns, change| ScheduledChange { time_ns: second * S, change };
    system.events =
        vec![planned(3, fail(0)), planned(3, fail(7)), planned(9, hang(2, true)), planned(10, hang(2, false))];
    let mut simulation = Simulation::new(&system).expect("possible");
    let mut samples = SampleRows::new(&system);
    let schema = Arc::clone(samples.schema());
    let column = |counter: &str| schema.column(counter, "set").expect("there");
    let wanted = ["array.failed", "array.degraded", "array.background", "array.members"].map(column);
    let busy = schema.column("physical_disk.busy_time_s", "disk2").expect("there");
    let mut seen = Vec::new();
    let mut waits = Vec::new();
    simulation.run(|report| {
        let mut row = Vec::new();
        samples.build_row(report, &mut row);
        seen.push(wanted.map(|column| row[column] as u32));
        waits.push(row[busy]);
    });
    // 32 MB at 8 MB/s are 4 s, less the pause after the last step; it fails at the very end of a sample
    let (well, ill) = ([0, 0, 0, 3], [1, 1, 1, 2]);
    assert_eq!(seen, [well, ill, ill, ill, ill, well, well, well, well, well, well]);
    assert!(waits[8] > 0.99 && waits[7] < 0.9 && waits[9] < 0.9, "it hangs from 9 s to 10 s: {waits:?}");
    let refused: Vec<String> =
        simulation.refused_changes().iter().map(|(time, error)| format!("{time} {error}")).collect();
    assert_eq!(refused, ["3000000000 `set` has no member 7; it has 3"]);
}

#[test]
fn a_run_continues_while_all_requests_hang() {
    let mut system = drives(1, plain(1));
    let text = "[[drive]]\nmodel = \"st32171w\"\n[[workload]]\n";
    let none = |_: &str| Err("no other files".to_owned());
    system.workloads = read::read("load.toml", text, &[], &none).expect("valid").system.workloads;
    system.watch = WatchSpec { warm_up: 0, duration: 10 * S, interval: S, ..WatchSpec::default() };
    system.events = vec![ScheduledChange { time_ns: 2 * S, change: hang(0, true) }];
    let mut intervals = 0;
    let report = Simulation::new(&system).expect("possible").run(|_| intervals += 1);
    assert_eq!((report.elapsed_s(), intervals), (10.0, 10));
    assert_eq!(report.workloads[0].counts.request_count(), 1999);
}

fn random_change(rng: &mut Rng, system: &System) -> SystemChange {
    let drive = rng.next_below(u64::from(system.drive_count())) as u32;
    let array = rng.next_below(system.arrays.len().max(1) as u64) as usize;
    let count = system.arrays.get(array).map_or(1, |set| set.members.len());
    let member = rng.next_below(count as u64) as u16;
    match rng.next_below(6) {
        0 => SystemChange::Slow { drive, factor: pick_one(rng, &[0.1, 1.0, 3.0, 50.0]) },
        1 | 2 => SystemChange::Hang { drive, on: rng.next_bool(0.6) },
        3 => SystemChange::Fail { array, member },
        _ => {
            let step_blocks = 256 << rng.next_below(6);
            let settings = BackgroundWork { step_blocks, depth: 1 + rng.next_below(4) as u32, rate: None };
            SystemChange::Replace { array, member, settings: rng.next_bool(0.5).then_some(settings) }
        }
    }
}

/// Checks that the state of every array is possible.
fn check_array_states(simulation: &Simulation, system: &System, seed: u64) {
    for (index, set) in system.arrays.iter().enumerate() {
        let (state, array) =
            (simulation.array_state(index).expect("there"), simulation.array_geometry(index).expect("there"));
        assert!(state.rebuilding.difference(state.failed).is_empty(), "seed {seed}: {} {state:?}", set.level);
        assert!(state.good_below <= array.member_blocks(), "seed {seed}: {state:?}");
        assert!(state.good_below == 0 || !state.rebuilding.is_empty(), "seed {seed}: {state:?}");
        let drives = simulation.array_drives(index).expect("there");
        for (member, drive) in drives.iter().enumerate() {
            assert_eq!(simulation.find_array_member(*drive), Some((index, member as u16)), "seed {seed}");
        }
    }
}

/// Random systems, random changes, random requests: every request completes once, and nothing is left after everything
/// was released.
#[test]
fn no_request_is_lost_under_random_changes() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed, 77);
        let mut system = random_system(&mut rng, seed % 2 == 0, 60);
        let used: Vec<u32> = system.workloads.iter().flat_map(|w| &w.targets).filter_map(target_drive).collect();
        for set in &mut system.arrays {
            set.rebuild = rng.next_bool(0.5).then(BackgroundWork::default);
        }
        let targets: Vec<WorkloadTarget> = (0..system.arrays.len()).map(WorkloadTarget::Array).collect();
        let targets = [targets, used.into_iter().map(WorkloadTarget::Drive).collect()].concat();
        let mut simulation = Simulation::with_external_targets(&system, &targets).expect("possible");
        let (mut submitted, mut answers) = (0, Vec::new());
        for _ in 0..200 {
            if !targets.is_empty() && rng.next_bool(0.7) {
                let target = rng.next_below(targets.len() as u64) as u16;
                let first = rng.next_below(simulation.target_blocks(target).expect("served") / 8) * 8;
                let io = Io { first, blocks: 8 << rng.next_below(7), write: rng.next_bool(0.5) };
                let purpose = pick_one(
                    &mut rng,
                    &[
                        JobPurpose::Transfer,
                        JobPurpose::Transfer,
                        JobPurpose::FuaWrite,
                        JobPurpose::Flush,
                        JobPurpose::Trim,
                    ],
                );
                let time = simulation.now() + rng.next_below(3 * MS);
                simulation.submit_with_purpose(time, purpose, ExternalRequest { target, io, tag: submitted });
                submitted += 1;
            }
            if rng.next_bool(0.15) {
                // includes impossible changes, which change nothing
                let _ = simulation.apply_change(random_change(&mut rng, &system));
                check_array_states(&simulation, &system, seed);
            }
            let until = simulation.now() + rng.next_below(8 * MS);
            simulation.advance_until(until);
            answers.extend(simulation.drain_completions().map(|answer| answer.tag));
        }
        for drive in 0..system.drive_count() {
            let _ = simulation.apply_change(SystemChange::Hang { drive, on: false });
            let _ = simulation.apply_change(SystemChange::Slow { drive, factor: 1.0 });
        }
        let mut events = 0;
        while let Some(time) = simulation.next_event_time() {
            simulation.advance_until(time);
            answers.extend(simulation.drain_completions().map(|answer| answer.tag));
            events += 1;
            assert!(events < 1_000_000, "seed {seed}: it never ends");
        }
        answers.sort_unstable();
        assert_eq!(answers, (0..submitted).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(simulation.in_flight_count(), 0, "seed {seed}");
        check_array_states(&simulation, &system, seed);
        let report = simulation.report_interval();
        let left = report.components.iter().filter(|part| part.totals.arrived != part.totals.completed);
        assert_eq!(left.map(|part| &part.name).collect::<Vec<_>>(), Vec::<&String>::new(), "seed {seed}");
    }
}

fn target_drive(target: &WorkloadTarget) -> Option<u32> {
    match target {
        WorkloadTarget::Drive(drive) => Some(*drive),
        WorkloadTarget::Array(_) => None,
    }
}
