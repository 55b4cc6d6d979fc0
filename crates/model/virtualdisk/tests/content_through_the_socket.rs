//! Random reads, writes, trims, zeros and flushes through the socket of a real server, over several
//! connections that break in between, compared with the expected content of the disk.

use crate::served::{Running, array, plain, serve};
use crate::shadow::Load;
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::System;
use diskwright_virtualdisk::content::ContentBacking;
use diskwright_virtualdisk::server::DiskCommand;

const BLOCKS: u64 = 4096;

fn soak(system: System, seed: u64, change: impl FnOnce(&mut diskwright_virtualdisk::server::ServeOptions)) {
    let running = serve(system, |options| {
        options.speed = 100.0;
        change(options);
    });
    let mut load = Load::new(&running.path, "", seed);
    for _ in 0..20 {
        load.run(150);
        load.lose_a_connection();
    }
    load.settle();
    load.verify();
    running.end().expect("it serves to its end");
}

#[test]
fn a_drive() {
    soak(plain(1, BLOCKS, 4, 200_000), 1, |_| {});
}

#[test]
fn arrays_of_every_level() {
    let levels = [ArrayLevel::Raid0, ArrayLevel::Raid1, ArrayLevel::Raid5, ArrayLevel::Raid6, ArrayLevel::Raid10];
    for (seed, level) in (10..).zip(levels) {
        soak(array(plain(4, BLOCKS, 4, 200_000), level), seed, |_| {});
    }
}

#[test]
fn in_a_file_and_after_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("content");
    let system = || array(plain(3, BLOCKS, 4, 50_000), ArrayLevel::Raid5);
    let serve_file = || serve(system(), |options| options.backing = ContentBacking::File(file.clone()));
    let running = serve_file();
    let mut load = Load::new(&running.path, "", 5);
    load.run(1500);
    load.settle();
    load.forget_connections();
    running.end().expect("it serves to its end");
    let running = serve_file();
    load.move_to(&running.path);
    load.verify();
    load.run(500);
    load.settle();
    load.verify();
}

fn member(running: &Running, order: impl FnOnce(String) -> DiskCommand, name: &str) {
    running.order(&order(name.into())).expect("carried out");
}

#[test]
fn members_fail_and_are_rebuilt_meanwhile() {
    for (seed, level) in (20..).zip([ArrayLevel::Raid1, ArrayLevel::Raid5, ArrayLevel::Raid6, ArrayLevel::Raid10]) {
        let running = serve(array(plain(4, BLOCKS, 4, 100_000), level), |options| options.speed = 100.0);
        let mut load = Load::new(&running.path, "", seed);
        for round in 0..3 {
            let name = format!("disk{}", round % 4);
            load.run(200);
            member(&running, |member| DiskCommand::Fail { member }, &name);
            load.run(200);
            load.lose_a_connection();
            member(&running, |member| DiskCommand::Replace { member }, &name);
            load.run(200);
            await_health(&running, &mut load);
        }
        load.settle();
        load.verify();
    }
}

/// Waits until no member is failed or rebuilding.
fn await_health(running: &Running, load: &mut Load) {
    for _ in 0..2000 {
        let status = running.order(&DiskCommand::Status).expect("a status");
        let members = status["arrays"][0]["members"].as_array().expect("members");
        if members.iter().all(|member| member["state"] == "well") {
            return;
        }
        load.run(20);
    }
    panic!("never well again: {}", running.order(&DiskCommand::Status).expect("a status")["arrays"]);
}
