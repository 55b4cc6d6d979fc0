//! The load of named devices: disks, arrays, and the devices on them.

use std::sync::Arc;

use diskwright_base::topology::Swap;
use diskwright_base::{Device, DeviceClass, DeviceKind, Filesystem, Frame, RaidLevel, Schema, Series, Tick, Topology};
use diskwright_planner::series::hidden_load::find_hidden_load;
use diskwright_planner::series::{LoadCollector, LoadSeries, MeasureOptions, MeasuredDemand, demand_from_series};

/// Devices and those below them: two disks, partitions, a volume over both, one over a partition, a loop device on it.
const STACK: [(&str, &[&str]); 7] = [
    ("sda", &[]),
    ("sdb", &[]),
    ("sda1", &["sda"]),
    ("sda2", &["sda"]),
    ("dm-0", &["sda2", "sdb"]),
    ("dm-1", &["sda1"]),
    ("loop0", &["dm-1"]),
];

/// Reads per second of each: partitions add up to their disk, and volumes to the devices below them.
const READS: [f64; 7] = [100.0, 40.0, 30.0, 70.0, 90.0, 30.0, 20.0];

/// A minute of the machine, limited to these devices.
fn load_of_devices(only: &[&str]) -> LoadSeries {
    let device = |(name, below): &(&str, &[&str])| Device {
        name: (*name).into(),
        class: if below.is_empty() { DeviceClass::Rotational } else { DeviceClass::Virtual },
        below: below.iter().map(|lower| (*lower).to_owned()).collect(),
        ..Device::default()
    };
    let filesystem =
        |mount: &str, device: &str| Filesystem { mount: mount.into(), device: device.into(), ..Filesystem::default() };
    let topology = Topology {
        devices: STACK.iter().map(device).collect(),
        filesystems: vec![filesystem("/one", "dm-1"), filesystem("/two", "dm-0")],
        ..Topology::default()
    };
    let counters = ["reads", "writes", "read_bytes", "write_bytes", "weighted_time_s", "busy_time_s"];
    let series = |object: &str, counter: &str, instance: &str| Series {
        counter: format!("{object}.{counter}"),
        instance: instance.into(),
        scale: 1.0,
    };
    let mut all = Vec::new();
    let mut row = Vec::new();
    for ((name, _), reads) in STACK.iter().zip(READS) {
        all.extend(counters.map(|counter| series("physical_disk", counter, name)));
        row.extend([reads, 0.0, reads * 4096.0, 0.0, 0.5, 0.5]);
    }
    for (mount, used) in [("/one", 1e9), ("/two", 5e9)] {
        all.extend(["total_bytes", "free_bytes"].map(|counter| series("logical_disk", counter, mount)));
        row.extend([10e9, 10e9 - used]);
    }
    let mut frame = Frame::new(Arc::new(Schema::new(all)), 60);
    for i in 1..=60 {
        frame.push(Tick { time_ns: i * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &row);
    }
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    let mut collector = LoadCollector::for_devices(&only);
    collector.set_topology(topology);
    collector.add_frame(&frame);
    collector.finish()
}

/// Names of the devices that count, and their total reads per second.
fn counted_devices(only: &[&str]) -> (Vec<String>, f64, String) {
    let series = load_of_devices(only);
    let names = series.fronts.iter().map(|front| front.name.clone()).collect();
    (names, series.ticks.last().map_or(f64::NAN, |tick| f64::from(tick.reads)), series.notes.join("\n"))
}

#[test]
fn named_partitions_and_volumes_count_by_themselves() {
    assert_eq!(counted_devices(&[]), (vec!["sda".into(), "sdb".into()], 140.0, String::new()));
    for (name, reads) in [("sda1", 30.0), ("dm-0", 90.0), ("dm-1", 30.0), ("loop0", 20.0)] {
        assert_eq!(counted_devices(&[name]), (vec![name.into()], reads, String::new()), "{name}");
    }
    // two parts of a disk, and one named twice
    assert_eq!(counted_devices(&["sda1", "sda2"]).1, 100.0);
    assert_eq!(counted_devices(&["sda1", "sda1"]).1, 30.0);
    assert_eq!(load_of_devices(&["sda1"]).unselected_devices, ["sda", "sdb"]);
    // the room of what is on it alone
    let used = |name: &str| load_of_devices(&[name]).used_space.last().map(|(_, bytes)| *bytes);
    assert_eq!((used("sda1"), used("dm-0"), used("sda")), (Some(1e9), Some(5e9), Some(6e9)));
}

#[test]
fn device_on_another_named_one_counts_there_once() {
    for (names, host, reads) in [
        (&["sda", "sda1"][..], "sda", 100.0),
        (&["sda1", "sda"], "sda", 100.0),
        (&["dm-1", "sda1"], "sda1", 30.0),
        (&["loop0", "dm-1"], "dm-1", 30.0),
        (&["loop0", "sda"], "sda", 100.0),
        (&["dm-0", "sda", "sdb"], "sda", 140.0),
    ] {
        let (_, found, notes) = counted_devices(names);
        assert_eq!(found, reads, "{names:?}");
        assert!(notes.contains(&format!("part of that of {host}, which is named too")), "{names:?}: {notes}");
        assert!(!notes.contains("is not counted"), "{names:?}: {notes}");
    }
    // a volume over two disks of which one is named
    let (names, reads, notes) = counted_devices(&["dm-0", "sda"]);
    assert_eq!((names, reads), (vec!["sda".to_owned()], 100.0));
    assert!(notes.contains("its load on sdb is not counted"), "{notes}");
    // devices that there are not stay unknown
    assert_eq!(counted_devices(&["sda1", "sdx"]).0, ["sda1"]);
}

#[test]
fn a_long_saturation_counts_in_full() {
    // fourteen hours with eight requests in flight; not every one of so many ticks is kept
    let counters = ["reads", "writes", "read_bytes", "write_bytes", "weighted_time_s", "busy_time_s"];
    let series =
        |counter: &str| Series { counter: format!("physical_disk.{counter}"), instance: "sda".into(), scale: 1.0 };
    let mut frame = Frame::new(Arc::new(Schema::new(Vec::from(counters.map(series)))), 50_000);
    for second in 1..=50_000 {
        let tick = Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 };
        frame.push(tick, &[100.0, 0.0, 409_600.0, 0.0, 8.0, 1.0]);
    }
    let mut collector = LoadCollector::default();
    collector.add_frame(&frame);
    let load = collector.finish();
    let found = find_hidden_load(&load.fronts[0], None).expect("a saturated disk");
    assert!((found.saturated_s - 50_000.0).abs() < 1e-3 && (found.queue - 8.0).abs() < 1e-9, "{found:?}");
}

/// Two disks, on which are two mirrors, a partition with a filesystem of its own, and one to swap to.
const SHARED: [(&str, DeviceKind, &[&str]); 10] = [
    ("sda", DeviceKind::Disk, &[]),
    ("sdb", DeviceKind::Disk, &[]),
    ("sda1", DeviceKind::Partition, &["sda"]),
    ("sdb1", DeviceKind::Partition, &["sdb"]),
    ("sda2", DeviceKind::Partition, &["sda"]),
    ("sdb2", DeviceKind::Partition, &["sdb"]),
    ("sda3", DeviceKind::Partition, &["sda"]),
    ("sda4", DeviceKind::Partition, &["sda"]),
    ("md0", DeviceKind::Md, &["sda1", "sdb1"]),
    ("md1", DeviceKind::Md, &["sda2", "sdb2"]),
];

/// A minute of them, with counters of whole devices and of these partitions, and 50 pages per second swapped in.
fn load_of_shared_disks(parts: &[&str], only: &[&str]) -> LoadSeries {
    load_of_arrays(&["md0", "md1"], parts, only)
}

/// A minute of them, with counters of these arrays only.
fn load_of_arrays(arrays: &[&str], parts: &[&str], only: &[&str]) -> LoadSeries {
    let device = |(name, kind, below): &(&str, DeviceKind, &[&str])| Device {
        name: (*name).into(),
        kind: *kind,
        class: DeviceClass::Rotational,
        level: (*kind == DeviceKind::Md).then_some(RaidLevel::Raid1),
        below: below.iter().map(|lower| (*lower).to_owned()).collect(),
        ..Device::default()
    };
    let filesystem =
        |mount: &str, device: &str| Filesystem { mount: mount.into(), device: device.into(), ..Filesystem::default() };
    let topology = Topology {
        devices: SHARED.iter().map(device).collect(),
        filesystems: vec![filesystem("/data", "md0"), filesystem("/", "md1"), filesystem("/boot", "sda3")],
        swaps: vec![Swap { path: "/dev/sda4".into(), device: "sda4".into(), ..Swap::default() }],
        ..Topology::default()
    };
    let counters = ["reads", "writes", "read_bytes", "write_bytes", "weighted_time_s", "busy_time_s"];
    let one = |counter: String, instance: &str| Series { counter, instance: instance.into(), scale: 1.0 };
    let wholes = [("sda", 150.0), ("sdb", 90.0), ("md0", 100.0), ("md1", 40.0)];
    let is_counted = |(name, _): &(&str, f64)| !name.starts_with("md") || arrays.iter().any(|array| array == name);
    let wholes = wholes.into_iter().filter(is_counted).map(|disk| ("physical_disk", disk));
    let parts = parts.iter().map(|name| ("logical_disk", (*name, if *name == "sda4" { 50.0 } else { 5.0 })));
    let (mut all, mut row) = (vec![one("paging.swap_in_pages".into(), "")], vec![50.0]);
    for (object, (name, reads)) in wholes.chain(parts) {
        all.extend(counters.map(|counter| one(format!("{object}.{counter}"), name)));
        row.extend([reads, 0.0, reads * 4096.0, 0.0, 0.5, 0.5]);
    }
    for (mount, used) in [("/data", 5e9), ("/", 1e9), ("/boot", 0.5e9)] {
        all.extend(["total_bytes", "free_bytes"].map(|counter| one(format!("logical_disk.{counter}"), mount)));
        row.extend([10e9, 10e9 - used]);
    }
    let mut frame = Frame::new(Arc::new(Schema::new(all)), 60);
    for second in 1..=60 {
        frame.push(Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &row);
    }
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    let mut collector = LoadCollector::for_devices(&only);
    collector.set_topology(topology);
    collector.add_frame(&frame);
    collector.finish()
}

fn total_reads(series: &LoadSeries) -> f64 {
    series.ticks.last().map_or(f64::NAN, |tick| f64::from(tick.reads))
}

#[test]
fn partitions_beside_array_members_count_and_uncounted_ones_are_not_subtracted() {
    // 100 and 40 of the mirrors, 5 of the filesystem beside them; the 50 of swapping are counted and subtracted
    let all = load_of_shared_disks(&["sda3", "sda4"], &[]);
    let names: Vec<&str> = all.fronts.iter().map(|front| front.name.as_str()).collect();
    assert_eq!(names, ["md0", "md1", "sda3", "sda4"]);
    let holds: Vec<Option<bool>> = all.fronts.iter().map(|front| front.holds_swap).collect();
    assert_eq!(holds, [false, false, false, true].map(Some));
    assert!((total_reads(&all) - 145.0).abs() < 1e-3, "{}", total_reads(&all));
    assert!((all.swap[2] - 50.0 * 60.0).abs() < 1e-3, "{:?}", all.swap);
    // a log without counters of partitions has none of what was swapped
    let wholes = load_of_shared_disks(&[], &[]);
    assert!((total_reads(&wholes) - 140.0).abs() < 1e-3 && wholes.swap[2] == 0.0, "{:?}", wholes.swap);
}

#[test]
fn array_on_partitions_has_only_the_space_of_its_own_filesystems() {
    let used = |name: &str| load_of_shared_disks(&["sda3", "sda4"], &[name]).used_space.last().map(|(_, bytes)| *bytes);
    assert_eq!((used("md0"), used("md1"), used("sda3")), (Some(5e9), Some(1e9), Some(0.5e9)));
    let md0 = load_of_shared_disks(&["sda3", "sda4"], &["md0"]);
    assert!((total_reads(&md0) - 100.0).abs() < 1e-3 && md0.swap[2] == 0.0, "{:?}", md0.swap);
    // a partition below an array is found where it was counted
    let below = load_of_shared_disks(&["sda1"], &["sda1"]);
    assert!((total_reads(&below) - 5.0).abs() < 1e-3, "{}", total_reads(&below));
}

/// 50 pages of 64 KiB per second are half of 100 reads of 64 KiB.
#[test]
fn swapped_pages_have_the_kernel_page_size() {
    let swaps = vec![Swap { path: "/dev/sda2".into(), device: "sda".into(), ..Swap::default() }];
    let devices = vec![Device { name: "sda".into(), class: DeviceClass::Rotational, ..Device::default() }];
    let of = |counter: &str, instance: &str| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
    let disk = ["reads", "writes", "read_bytes", "write_bytes"];
    let mut all: Vec<Series> = disk.iter().map(|name| of(&format!("physical_disk.{name}"), "sda")).collect();
    all.push(of("paging.swap_in_pages", ""));
    let mut frame = Frame::new(Arc::new(Schema::new(all)), 60);
    for second in 1..=60 {
        let tick = Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 };
        frame.push(tick, &[100.0, 0.0, 100.0 * 65_536.0, 0.0, 50.0]);
    }
    let mut collector = LoadCollector::default();
    collector.set_topology(Topology { devices, swaps, page_bytes: 65_536, ..Topology::default() });
    collector.add_frame(&frame);
    let found = total_reads(&collector.finish());
    assert!((found - 50.0).abs() < 1e-3, "{found}");
}

#[test]
fn requests_without_bytes_get_assumed_sizes() {
    let one =
        |counter: &str| Series { counter: format!("physical_disk.{counter}"), instance: "sda".into(), scale: 1.0 };
    let mut frame = Frame::new(Arc::new(Schema::new(Vec::from(["reads", "writes"].map(one)))), 60);
    for second in 1..=60 {
        frame.push(Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 }, &[90.0, 10.0]);
    }
    let mut collector = LoadCollector::default();
    collector.add_frame(&frame);
    let found = demand_from_series(&collector.finish(), &MeasureOptions::default()).expect("sixty ticks");
    assert!((found.demand.requests_per_s() - 100.0).abs() < 1e-3, "{:?}", found.demand);
    assert_eq!((found.demand.read_size_bytes, found.demand.write_size_bytes), (4096.0, 4096.0));
    assert!(found.demand.estimated.iter().any(|mark| mark.field == "read_size_bytes"), "{:?}", found.demand);
    assert!(found.summary.notes.iter().any(|note| note.contains("without bytes")), "{:?}", found.summary.notes);
}

/// Demand of a disk whose log has bytes and of another one without them; requests and bytes per second.
fn demand_of_a_disk_with_bytes(with_bytes: [f64; 4], without_bytes: [f64; 2]) -> MeasuredDemand {
    let of = |counter: &str, instance: &str| Series {
        counter: format!("physical_disk.{counter}"),
        instance: instance.into(),
        scale: 1.0,
    };
    let mut series: Vec<Series> =
        ["reads", "writes", "read_bytes", "write_bytes"].iter().map(|counter| of(counter, "sda")).collect();
    series.extend(["reads", "writes"].iter().map(|counter| of(counter, "sdb")));
    let mut frame = Frame::new(Arc::new(Schema::new(series)), 60);
    for second in 1..=60 {
        let tick = Tick { time_ns: second * 1_000_000_000, elapsed_ns: 1_000_000_000 };
        frame.push(tick, &[&with_bytes[..], &without_bytes].concat());
    }
    let mut collector = LoadCollector::default();
    collector.add_frame(&frame);
    demand_from_series(&collector.finish(), &MeasureOptions::default()).expect("sixty ticks")
}

#[test]
fn bytes_are_divided_by_the_requests_of_the_disks_that_have_them() {
    let found = demand_of_a_disk_with_bytes([2.0, 4.0, 16_384.0, 16_384.0], [140.0, 80.0]);
    assert!((found.demand.requests_per_s() - 226.0).abs() < 1e-3, "{:?}", found.demand);
    let sizes = (found.demand.read_size_bytes, found.demand.write_size_bytes);
    assert!((sizes.0 - 8192.0).abs() < 0.1 && (sizes.1 - 4096.0).abs() < 0.1, "{sizes:?}");
    let marks = &found.demand.estimated;
    assert!(marks.iter().any(|mark| mark.field == "read_size_bytes" && mark.how.contains("99 %")), "{marks:?}");
    assert!((found.summary.bytes_per_s.p50 - 142.0 * 8192.0 - 84.0 * 4096.0).abs() < 10.0, "{:?}", found.summary);
    // an idle disk with bytes says nothing about the other
    let found = demand_of_a_disk_with_bytes([0.0; 4], [140.0, 80.0]);
    assert_eq!((found.demand.read_size_bytes, found.demand.write_size_bytes), (4096.0, 4096.0));
    assert!(found.demand.estimated.iter().any(|mark| mark.how.contains("4 KiB")), "{:?}", found.demand.estimated);
}

#[test]
fn a_mean_below_a_sector_is_no_size() {
    let found = demand_of_a_disk_with_bytes([100.0, 50.0, 9_000.0, 409_600.0], [0.0, 0.0]);
    assert_eq!((found.demand.read_size_bytes, found.demand.write_size_bytes.round()), (4096.0, 8192.0));
    assert!(found.demand.estimated.iter().any(|mark| mark.field == "read_size_bytes"), "{:?}", found.demand.estimated);
}

#[test]
fn filesystem_sizes_are_sampled_evenly() {
    // twelve weeks of ten minutes: more ticks than are kept
    let series =
        |(counter, instance): (&str, &str)| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
    let all = [("physical_disk.reads", "sda"), ("logical_disk.total_bytes", "/"), ("logical_disk.free_bytes", "/")];
    let mut frame = Frame::new(Arc::new(Schema::new(Vec::from(all.map(series)))), 12_000);
    for tick in 1..=12_000 {
        frame.push(Tick { time_ns: tick * 600_000_000_000, elapsed_ns: 600_000_000_000 }, &[10.0, 9e9, 4e9]);
    }
    let mut collector = LoadCollector::default();
    collector.add_frame(&frame);
    let used = collector.finish().used_space;
    let distances: Vec<i64> = used.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let (min_distance, max_distance) = (distances.iter().min().copied(), distances.iter().max().copied());
    assert!(
        used.len() > 1000 && max_distance <= min_distance.map(|min_distance| 2 * min_distance),
        "{min_distance:?} to {max_distance:?}"
    );
}

#[test]
fn unmeasured_array_has_only_the_load_of_its_partitions() {
    // as btrfs beside an array of md: 5 and 5 of its partitions, 100 of the array, 5 of the partition beside them
    let series = load_of_arrays(&["md0"], &["sda2", "sdb2", "sda3", "sda4"], &[]);
    let names: Vec<(&str, bool)> =
        series.fronts.iter().map(|front| (front.name.as_str(), front.from_members)).collect();
    assert_eq!(names, [("md0", false), ("md1", true), ("sda3", false), ("sda4", false)]);
    assert!((total_reads(&series) - 115.0).abs() < 1e-3, "{}", total_reads(&series));
    // without counters of its partitions, it has that of its disks, of which 50 are swapping
    let series = load_of_arrays(&["md0"], &[], &["md1"]);
    assert!((total_reads(&series) - 190.0).abs() < 1e-3, "{}", total_reads(&series));
}
