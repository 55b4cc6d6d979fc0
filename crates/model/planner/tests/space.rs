//! Space in use: of the devices of the load alone, each filesystem once, and checked against the sizes of the devices.

use std::sync::Arc;

use diskwright_base::{Device, DeviceClass, Filesystem, Frame, Schema, Series, Tick, Topology};
use diskwright_planner::series::space::{SpaceSource, SpaceSummary, summarize_space};
use diskwright_planner::series::{LoadCollector, MeasureOptions, demand_from_series};

/// A filesystem: mount point, its device (empty if the topology does not show it), size and free bytes.
type Mounted = (&'static str, &'static str, f64, f64);

/// A minute of requests to these disks, whose sizes are given, with these filesystems.
fn frame_of(disks: &[(&str, u64)], filesystems: &[Mounted], start_s: i64) -> Frame {
    let mut all = Vec::new();
    let mut row = Vec::new();
    let mut add = |counter: String, instance: &str, value: f64| {
        all.push(Series { counter, instance: instance.into(), scale: 1.0 });
        row.push(value);
    };
    for (disk, _) in disks {
        for (counter, value) in [("reads", 100.0), ("writes", 10.0), ("read_bytes", 4e5), ("write_bytes", 4e4)] {
            add(format!("physical_disk.{counter}"), disk, value);
        }
    }
    for (mount, _, total, free) in filesystems {
        add("logical_disk.total_bytes".into(), mount, *total);
        add("logical_disk.free_bytes".into(), mount, *free);
    }
    let mut frame = Frame::new(Arc::new(Schema::new(all)), 60);
    for second in start_s + 1..=start_s + 60 {
        frame.push(Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &row);
    }
    frame
}

/// The topology of the disks, of a disk `sdz` without counters, and of the filesystems whose device is told.
fn topology_of(disks: &[(&str, u64)], filesystems: &[Mounted]) -> Topology {
    let device = |(name, bytes): &(&str, u64)| Device {
        name: (*name).into(),
        class: DeviceClass::Flash,
        bytes: Some(*bytes).filter(|bytes| *bytes > 0),
        ..Device::default()
    };
    let told = filesystems.iter().filter(|filesystem| !filesystem.1.is_empty());
    Topology {
        devices: disks.iter().chain(&[("sdz", 0)]).map(device).collect(),
        filesystems: told
            .map(|(mount, device, ..)| Filesystem {
                mount: (*mount).into(),
                device: (*device).into(),
                ..Filesystem::default()
            })
            .collect(),
        ..Topology::default()
    }
}

/// The space of a log, and the capacity of its demand, which has to be the same.
fn space_of(disks: &[(&str, u64)], filesystems: &[Mounted], only: &[&str]) -> SpaceSummary {
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    let mut collector = LoadCollector::for_devices(&only);
    collector.set_topology(topology_of(disks, filesystems));
    collector.add_frame(&frame_of(disks, filesystems, 0));
    let series = collector.finish();
    let measured = demand_from_series(&series, &MeasureOptions::default()).expect("a demand");
    assert_eq!(measured.demand.capacity_bytes, measured.summary.space.used_bytes);
    assert_eq!(summarize_space(&series, SpaceSource::Log), measured.summary.space);
    measured.summary.space
}

#[test]
fn only_the_devices_of_the_load_count() {
    let disks = [("sda", 100_000_000_000), ("sdb", 1_000_000_000_000)];
    let filesystems = [("/", "sda", 95e9, 55e9), ("/data", "sdb", 990e9, 90e9), ("/usb", "sdz", 5e12, 1e12)];
    let all = space_of(&disks, &filesystems, &[]);
    assert_eq!((all.used_bytes, all.total_bytes, all.device_bytes), (Some(940e9), Some(1085e9), Some(1100e9)));
    assert_eq!((all.source, all.remarks.len()), (Some(SpaceSource::Log), 0), "{:?}", all.remarks);
    assert_eq!((all.left_out[0].mount.as_str(), all.left_out[0].used_bytes), ("/usb", 4e12));
    assert!(all.left_out[0].because.is_some_and(|because| because.contains("none of the disks")));
    // never the sum of other disks
    let data = space_of(&disks, &filesystems, &["sdb"]);
    assert_eq!((data.used_bytes, data.device_bytes, data.left_out.len()), (Some(900e9), Some(1e12), 2));
    let bare = space_of(&disks, &filesystems[..1], &["sdb"]);
    assert_eq!((bare.source, bare.used_bytes), (None, None));
    assert!(bare.remarks[0].contains("no filesystem of the log is on sdb; give"), "{:?}", bare.remarks);
    // half of the load goes to a disk that no filesystem is on
    let part = space_of(&disks, &filesystems[..1], &[]);
    assert!(part.remarks[0].contains("is on sdb: its space is not included; give --capacity"), "{:?}", part.remarks);
}

/// A filesystem of 252 GB may have 12 GB of files and only 80 GB for users.
#[test]
fn what_users_cannot_have_is_not_in_use() {
    let mount = |counter: &str| Series { counter: counter.into(), instance: "/".into(), scale: 1.0 };
    let reads = Series { counter: "physical_disk.reads".into(), instance: "sda".into(), scale: 1.0 };
    let counters = ["logical_disk.total_bytes", "logical_disk.free_bytes", "logical_disk.used_bytes"];
    let schema = Schema::new(counters.into_iter().map(mount).chain([reads]).collect());
    let mut frame = Frame::new(Arc::new(schema), 60);
    for second in 1..=60 {
        let tick = Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 };
        frame.push(tick, &[252e9, 80e9, 12e9, 100.0]);
    }
    let mut collector = LoadCollector::default();
    collector.set_topology(topology_of(&[("sda", 252_000_000_000)], &[("/", "sda", 252e9, 80e9)]));
    collector.add_frame(&frame);
    assert_eq!(summarize_space(&collector.finish(), SpaceSource::Log).used_bytes, Some(12e9));
}

#[test]
fn sizes_that_do_not_agree_are_reported() {
    let wrong = space_of(&[("sda", 50_000_000_000)], &[("/", "sda", 95e9, 55e9)], &[]);
    assert!(wrong.remarks[0].contains("do not agree: sda with 50 GB"), "{:?}", wrong.remarks);
    let part = space_of(&[("sda", 500_000_000_000)], &[("/", "sda", 95e9, 55e9)], &[]);
    assert!(part.remarks[0].contains("cover 95 GB of the 500 GB of sda"), "{:?}", part.remarks);
    let unknown = space_of(&[("sda", 0)], &[("/", "sda", 95e9, 55e9)], &[]);
    assert_eq!((unknown.device_bytes, unknown.remarks.len()), (None, 0));
}

#[test]
fn a_second_view_of_a_filesystem_does_not_count() {
    // the root of a container has the size and the space of the filesystem below it
    let filesystems = [("/etc/hosts", "sda", 95e9, 55e9), ("/", "", 95e9, 55e9 - 4096.0)];
    let space = space_of(&[("sda", 100_000_000_000)], &filesystems, &[]);
    assert_eq!((space.used_bytes, space.left_out[0].mount.as_str()), (Some(40e9), "/"));
    // another one of unknown place counts, with a remark
    let others = [("/etc/hosts", "sda", 95e9, 55e9), ("/other", "", 20e9, 10e9)];
    let space = space_of(&[("sda", 100_000_000_000)], &others, &[]);
    assert_eq!(space.used_bytes, Some(50e9));
    assert!(space.remarks[0].contains("does not show which disk holds /other"), "{:?}", space.remarks);
}

#[test]
fn unknown_space_says_how_to_give_it() {
    let none = space_of(&[("sda", 0)], &[], &[]);
    assert!(none.source.is_none() && none.remarks[0].contains("give the needed space with --capacity"));
    let unplaced = space_of(&[("sda", 0), ("sdb", 0)], &[("/", "", 95e9, 55e9)], &["sda"]);
    assert!(unplaced.remarks[0].contains("does not show which filesystems are on sda"), "{:?}", unplaced.remarks);
}

#[test]
fn what_was_unmounted_does_not_count() {
    let disks = [("sda", 100_000_000_000)];
    let before = [("/", "sda", 95e9, 55e9), ("/backup", "sda", 4e9, 1e9)];
    let mut collector = LoadCollector::default();
    let mut topology = topology_of(&disks, &before);
    topology.filesystems[1].device = "sda1".into();
    topology.devices.push(Device { name: "sda1".into(), below: vec!["sda".into()], ..Device::default() });
    collector.set_topology(topology);
    collector.add_frame(&frame_of(&disks, &before, 0));
    collector.add_frame(&frame_of(&disks, &before[..1], 60));
    let series = collector.finish();
    let space = summarize_space(&series, SpaceSource::Log);
    assert_eq!((space.used_bytes, series.used_space.last().map(|last| last.1)), (Some(40e9), Some(40e9)));
    assert_eq!(series.used_space.first().map(|first| first.1), Some(43e9));
    assert_eq!(space.left_out[0].because, Some("not mounted at the end of the log"));
}
