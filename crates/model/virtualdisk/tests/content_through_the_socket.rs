//! Random reads, writes, trims, zeros and flushes through the socket of a real server, over several
//! connections that break in between, compared with the expected content of the disk.

use crate::served::{Running, array, plain_drives, serve};
use crate::shadow::Load;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::System;
use diskwright_virtualdisk::content::ContentBacking;
use diskwright_virtualdisk::server::DiskCommand;

const BLOCKS: u64 = 4096;

fn run_soak(system: System, seed: u64, change: impl FnOnce(&mut diskwright_virtualdisk::server::ServeOptions)) {
    let running = serve(system, |options| {
        options.speed = 100.0;
        change(options);
    });
    let mut load = Load::new(&running.path, "", seed);
    for _ in 0..20 {
        load.run_requests(150);
        load.break_random_connection();
    }
    load.wait_for_all();
    load.verify_disk();
    running.end().expect("it serves to its end");
}

#[test]
fn soak_of_a_drive() {
    run_soak(plain_drives(1, BLOCKS, 4, 200_000), 1, |_| {});
}

#[test]
fn soak_of_arrays_of_every_level() {
    let levels = [ArrayLevel::Raid0, ArrayLevel::Raid1, ArrayLevel::Raid5, ArrayLevel::Raid6, ArrayLevel::Raid10];
    for (seed, level) in (10..).zip(levels) {
        run_soak(array(plain_drives(4, BLOCKS, 4, 200_000), level), seed, |_| {});
    }
}

#[test]
fn file_content_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("content");
    let system = || array(plain_drives(3, BLOCKS, 4, 50_000), ArrayLevel::Raid5);
    let serve_file = || serve(system(), |options| options.backing = ContentBacking::File(file.clone()));
    let running = serve_file();
    let mut load = Load::new(&running.path, "", 5);
    load.run_requests(1500);
    load.wait_for_all();
    load.forget_connections();
    running.end().expect("it serves to its end");
    let running = serve_file();
    load.move_to(&running.path);
    load.verify_disk();
    load.run_requests(500);
    load.wait_for_all();
    load.verify_disk();
}

fn member(running: &Running, order: impl FnOnce(String) -> DiskCommand, name: &str) {
    running.send_command(&order(name.into())).expect("carried out");
}

#[test]
fn data_survives_failing_and_rebuilding_members() {
    for (seed, level) in (20..).zip([ArrayLevel::Raid1, ArrayLevel::Raid5, ArrayLevel::Raid6, ArrayLevel::Raid10]) {
        let running = serve(array(plain_drives(4, BLOCKS, 4, 100_000), level), |options| options.speed = 100.0);
        let mut load = Load::new(&running.path, "", seed);
        for round in 0..3 {
            let name = format!("disk{}", round % 4);
            load.run_requests(200);
            member(&running, |member| DiskCommand::Fail { member }, &name);
            load.run_requests(200);
            load.break_random_connection();
            member(&running, |member| DiskCommand::Replace { member }, &name);
            load.run_requests(200);
            await_health(&running, &mut load);
        }
        load.wait_for_all();
        load.verify_disk();
    }
}

/// Waits until no member is failed or rebuilding.
fn await_health(running: &Running, load: &mut Load) {
    for _ in 0..2000 {
        let status = running.send_command(&DiskCommand::Status).expect("a status");
        let members = status["arrays"][0]["members"].as_array().expect("members");
        if members.iter().all(|member| member["state"] == "well") {
            return;
        }
        load.run_requests(20);
    }
    panic!("never well again: {}", running.send_command(&DiskCommand::Status).expect("a status")["arrays"]);
}
