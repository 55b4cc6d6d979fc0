//! Channels: drives that release them fill their buffers at the media rate and send at the channel's rate. The worked
//! examples are those of Compaq 1997 (W8 to W12), and the lesson of NT Magazine 1998.

use diskwright_simulator::Simulation;
use diskwright_simulator::analytic::solve;
use diskwright_simulator::run::SimulationReport;
use diskwright_simulator::system::System;
use diskwright_simulator::system::read::read;

fn parse_system(text: &str) -> System {
    let no_files = |path: &str| Err(format!("no file {path}"));
    read("channels.toml", text, &[], &no_files).unwrap_or_else(|problems| panic!("{problems}\n{text}")).system
}

fn run(system: &System) -> SimulationReport {
    Simulation::new(system).expect("a system that can be").run(|_| {})
}

/// A group of drives of one sustained rate on every track, whose interface is faster than any channel here.
fn drives(name: &str, count: u32, channel: &str, rate: u32) -> String {
    format!(
        "[[drive]]\nname = \"{name}\"\ncount = {count}\nchannel = \"{channel}\"\ncapacity = \"2GB\"\n\
         [drive.mechanical]\nrpm = 7200\nheads = 8\nsustained_mb_s = [{rate}, {rate}]\nseek_ms = [1, 9, 18]\n\
         head_switch_ms = 1\nwrite_settle_ms = 1\ncommand_ms = 0.2\nhit_ms = 0.1\ncache_kb = 512\nsegments = 2\n\
         read_ahead = true\nwrite_cache = false\ninterface_mb_s = 1000\nqueue = 64\npolicy = \"first-come\"\n"
    )
}

/// A reader in sequence on each of these drives.
fn readers(names: &[String]) -> String {
    let one = |name: &String| {
        format!(
            "[[workload]]\nname = \"r{name}\"\non = \"{name}\"\nusers = 2\nstreams = 1\n\
             access = \"sequential\"\nsize = \"64KB\"\n"
        )
    };
    names.iter().map(one).collect()
}

fn numbered(name: &str, count: u32) -> Vec<String> {
    if count == 1 { vec![name.to_owned()] } else { (0..count).map(|index| format!("{name}{index}")).collect() }
}

/// Drives of one rate read sequentially over one channel of another, MB/s.
fn streams(count: u32, rate: u32, channel: u32, more: &str) -> SimulationReport {
    let channel = format!("[[channel]]\nname = \"scsi\"\nrate = \"{channel}MB/s\"\n{more}\n");
    run(&parse_system(&[channel, drives("d", count, "scsi", rate), readers(&numbered("d", count))].concat()))
}

fn busy_share(report: &SimulationReport, name: &str) -> f64 {
    report.find_component(name).unwrap_or_else(|| panic!("no {name}")).utilisation()
}

/// Total throughput of the workloads, MB/s.
fn moved_mb_s(report: &SimulationReport) -> f64 {
    report.workloads.iter().map(|w| w.counts.byte_count() as f64).sum::<f64>() / report.elapsed_s() / 1e6
}

#[track_caller]
fn assert_near(value: f64, expected: f64, within: f64) {
    assert!((value / expected - 1.0).abs() <= within, "{value} for {expected}");
}

/// W8: a drive of 5 MB/s leaves a channel of 40 MB/s idle for 87.5 % of the time, two leave it three quarters idle.
#[test]
fn w8_a_channel_is_held_for_its_bytes_at_its_own_rate() {
    let idle = |drives: u32| 1.0 - busy_share(&streams(drives, 5, 40, ""), "scsi");
    assert_near(idle(1), 0.875, 0.01);
    assert_near(idle(2), 0.75, 0.01);
    // the drives are saturated, and the channel is not blamed
    let two = streams(2, 5, 40, "");
    assert_near(moved_mb_s(&two), 10.0, 0.03);
    let fullest = two.bottleneck().expect("time went by");
    assert_eq!((fullest.kind.name(), fullest.utilisation() > 0.97), ("drive", true), "{fullest:?}");
}

/// On a channel that is held from the command on, two drives do the work of one, and are as busy as the channel.
#[test]
fn connected_transfers_are_supported() {
    let random = |more: &str| {
        let channel = format!("[[channel]]\nname = \"scsi\"\nrate = \"40MB/s\"\n{more}\n");
        let users: String =
            (0..2).map(|index| format!("[[workload]]\nname = \"r{index}\"\non = \"d{index}\"\n")).collect();
        run(&parse_system(&[channel, drives("d", 2, "scsi", 5), users].concat()))
    };
    let (free, kept) = (random(""), random("disconnects = false"));
    assert!(
        busy_share(&kept, "scsi") > 0.97 && busy_share(&free, "scsi") < 0.03,
        "{} {}",
        busy_share(&kept, "scsi"),
        busy_share(&free, "scsi")
    );
    assert_near(moved_mb_s(&kept), moved_mb_s(&free) / 2.0, 0.03);
}

/// W9: six drives of 7 MB/s fill 40 MB/s, and four of 5 MB/s fill 20 MB/s; one less does not.
#[test]
fn w9_drives_that_fill_a_channel() {
    for (drives, rate, channel) in [(6, 7, 40), (4, 5, 20)] {
        let full = streams(drives, rate, channel, "");
        assert!(busy_share(&full, "scsi") > 0.95, "{drives}: {}", busy_share(&full, "scsi"));
        assert_near(moved_mb_s(&full), f64::from(channel), 0.05);
        let fewer = streams(drives - 1, rate, channel, "");
        assert_near(busy_share(&fewer, "scsi"), f64::from((drives - 1) * rate) / f64::from(channel), 0.03);
        assert_near(moved_mb_s(&fewer), f64::from((drives - 1) * rate), 0.03);
    }
}

/// W10: three controllers, each with a full channel of 40 MB/s, take 120 of 133 MB/s; a fourth one fills the bus.
#[test]
fn w10_controllers_that_a_bus_carries() {
    let system = |controllers: u32| {
        let mut text = "[[bus]]\nname = \"pci\"\nrate = \"133MB/s\"\n".to_owned();
        let mut all = Vec::new();
        for index in 0..controllers {
            text += &format!("[[controller]]\nname = \"c{index}\"\nbus = \"pci\"\n");
            text += &format!("[[channel]]\nname = \"s{index}\"\ncontroller = \"c{index}\"\nrate = \"40MB/s\"\n");
            text += &drives(&format!("d{index}x"), 7, &format!("s{index}"), 7);
            all.extend(numbered(&format!("d{index}x"), 7));
        }
        run(&parse_system(&(text + &readers(&all))))
    };
    let (three, four) = (system(3), system(4));
    assert_near(busy_share(&three, "pci"), 120.0 / 133.0, 0.03);
    assert_near(moved_mb_s(&three), 120.0, 0.03);
    assert!(busy_share(&four, "pci") > 0.98, "{}", busy_share(&four, "pci"));
    assert_near(moved_mb_s(&four), 133.0, 0.03);
}

/// W11: of 5, 40, 40 and 540 MB/s the drive is the slowest, and is named.
#[test]
fn w11_the_slowest_part_of_a_path_is_the_drive() {
    let path = "[host]\nmemory_rate = \"540MB/s\"\n[[controller]]\nname = \"c\"\nrate = \"40MB/s\"\n\
                [[channel]]\nname = \"scsi\"\nrate = \"40MB/s\"\n";
    let report = run(&parse_system(&[path, &drives("d", 1, "scsi", 5), &readers(&numbered("d", 1))].concat()));
    assert_near(moved_mb_s(&report), 5.0, 0.03);
    assert_near(busy_share(&report, "memory bus"), 5.0 / 540.0, 0.03);
    for part in ["scsi", "c port"] {
        assert_near(busy_share(&report, part), 0.125, 0.03);
    }
    assert_eq!(report.bottleneck().map(|c| c.name.as_str()), Some("d"));
}

/// W12: a controller of fourteen drives of 2 GB holds 28 GB.
#[test]
fn w12_a_controller_holds_fourteen_drives() {
    let set = "[[array]]\nname = \"set\"\nlevel = \"raid0\"\nstripe_unit = \"512B\"\n[[workload]]\non = \"set\"\n";
    let channel = "[[channel]]\nname = \"scsi\"\n".to_owned();
    let system = parse_system(&[channel, drives("d", 14, "scsi", 5), set.to_owned()].concat());
    let array = system.array_geometry(&system.arrays[0]).expect("an array");
    // a drive made from print has a whole number of cylinders
    assert_near(array.capacity_blocks() as f64 * 512.0, 28e9, 0.005);
}

/// Random reads of a known rate: each has the channel for its command and for its bytes at the channel's rate,
/// however long the disk takes for them. The solver says the same.
#[test]
fn channel_utilization_matches_a_known_answer() {
    let channel =
        "[watch]\nduration = \"200s\"\n[[channel]]\nname = \"scsi\"\nrate = \"10MB/s\"\noverhead = \"0.5ms\"\n";
    for (size, bytes) in [("8KB", 8192.0), ("64KB", 65536.0)] {
        let load = format!("[[workload]]\non = \"d\"\nrate = \"20/s\"\nsize = \"{size}\"\n");
        let system = parse_system(&[channel, &drives("d", 1, "scsi", 5), &load].concat());
        let expected = 20.0 * (0.5e-3 + bytes / 10e6);
        assert_near(busy_share(&run(&system), "scsi"), expected, 0.03);
        let solved = solve(&system).expect("solved");
        let found = solved.utilisations.iter().find(|(name, _)| name == "scsi").expect("the channel").1;
        assert_near(found, expected, 0.001);
    }
}

/// NT Magazine 1998: the same space of more and smaller disks serves more. A channel that is not full does not
/// turn that round, by simulation and by solution.
#[test]
fn more_and_smaller_disks_serve_more_on_a_channel() {
    let rates = |channel: &str| -> Vec<(f64, f64)> {
        let of = |(count, model): (u32, &str)| {
            let text = format!(
                "[[controller]]\nname = \"raid\"\n[[channel]]\nname = \"scsi\"\nrate = \"40MB/s\"\n\
                 overhead = \"0.2ms\"\n[[drive]]\ncount = {count}\nmodel = \"{model}\"\nchannel = \"{channel}\"\n\
                 [[array]]\nname = \"data\"\nlevel = \"raid5\"\nstripe_unit = \"64KB\"\nrun_by = \"{}\"\n\
                 [[workload]]\nusers = 20\nread_share = \"60%\"\nsize = \"16KB\"\n",
                if channel == "none" { "host" } else { "raid" }
            );
            let system = parse_system(&text);
            let report = run(&system);
            let rate = report.workloads[0].counts.request_count() as f64 / report.elapsed_s();
            if channel != "none" {
                // each member I/O has it for 0.2 ms and at most 16 KB at 40 MB/s
                assert!(busy_share(&report, "scsi") < 0.8, "{count}: {}", busy_share(&report, "scsi"));
            }
            (rate, solve(&system).expect("solved").throughput_per_s)
        };
        [(5, "compaq-9gb"), (10, "compaq-4gb"), (19, "compaq-2gb")].into_iter().map(of).collect()
    };
    let (with, without) = (rates("scsi"), rates("none"));
    for pair in with.windows(2) {
        assert!(pair[1].0 > 1.2 * pair[0].0 && pair[1].1 > 1.2 * pair[0].1, "{with:?}");
    }
    for (with, without) in with.iter().zip(&without) {
        assert!(with.0 > 0.8 * without.0, "{with:?} {without:?}");
        assert_near(with.1, with.0, 0.15);
    }
}
