//! Cases of the topology: stacks, loop devices over various files, links, properties of
//! a disk.

use diskwright_base::{DeviceClass, DeviceKind, Note, RaidLevel};

use super::*;
use crate::live::fake::FakeMachine;

fn ordinary() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.put_ordinary_files();
    machine
}

#[test]
fn an_array_over_partitions_and_lvm_over_it() {
    let machine = ordinary();
    machine.put_disk("sdb", "8:16", 9999).put_partition("sda", "sda1", "8:1").put_partition("sdb", "sdb1", "8:17");
    machine.put_disk("md0", "9:0", 5000).put_disk("dm-0", "253:0", 4000);
    machine
        .put_file("sys/block/md0/md/level", "raid1\n")
        .put_file("sys/block/md0/md/degraded", "1\n")
        .put_file("sys/block/md0/md/chunk_size", "0\n")
        .put_file("sys/block/md0/md/sync_action", "recover\n")
        .put_file("sys/block/md0/md/dev-sda1/slot", "0\n")
        .put_file("sys/block/md0/md/dev-sdb1/slot", "1\n")
        .put_file("sys/block/md0/md/dev-sdc1/slot", "none\n")
        .put_file("sys/block/md0/slaves/sdc1/size", "1\n")
        .put_file("sys/block/dm-0/dm/name", "vg-root\n")
        .put_file("sys/block/dm-0/dm/uuid", "LVM-abc\n")
        .put_file("sys/block/dm-0/slaves/md0/size", "1\n");
    machine.put_file("proc/self/mountinfo", "1 0 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n");
    let topology = read_topology(&machine.roots());
    let md = topology.find_device("md0").unwrap();
    assert_eq!((md.kind, md.level, md.missing), (DeviceKind::Md, Some(RaidLevel::Raid1), 1));
    assert_eq!(md.below, ["sda1", "sdb1"], "a spare takes no part");
    assert_eq!(md.background.as_deref(), Some("recover"));
    assert_eq!((md.class, md.stripe_bytes), (DeviceClass::Rotational, None));
    assert_eq!(topology.leaves_under("dm-0"), ["sda", "sdb"]);
    assert_eq!(topology.filesystems[0].device, "dm-0");
    assert_eq!(topology.find_device("sda1").unwrap().kind, DeviceKind::Partition);
    assert_eq!((topology.host.as_str(), topology.processors, topology.memory_bytes), ("made-up", 1, 8_192_000_000));
}

#[test]
fn pages_are_as_large_as_those_of_this_kernel() {
    assert_eq!(read_topology(&crate::live::Roots::default()).page_bytes, rustix::param::page_size() as u64);
    assert_eq!(read_topology(&ordinary().roots()).page_bytes, 0, "of files of another machine nobody knows");
}

fn with_loop(machine: &FakeMachine, file: &str) -> diskwright_base::Device {
    machine.put_disk("loop0", "7:0", 2048).put_file("sys/block/loop0/loop/backing_file", format!("{file}\n"));
    read_topology(&machine.roots()).find_device("loop0").unwrap().clone()
}

#[test]
fn a_loop_over_a_file_on_a_disk_is_stacked() {
    let machine = ordinary();
    machine.put_file("sys/block/sda/device/model", "QEMU HARDDISK\n");
    let device = with_loop(&machine, "/srv/disk.img (deleted)");
    assert_eq!((device.kind, device.below), (DeviceKind::Loop, vec!["sda".to_owned()]));
    assert_eq!(device.class, DeviceClass::Virtual);
    assert_eq!(device.backing.as_deref(), Some("/srv/disk.img"));
}

#[test]
fn a_broken_array_without_redundancy_lacks_a_member() {
    let machine = ordinary();
    machine.put_disk("md1", "9:1", 5000).put_file("sys/block/md1/md/level", "raid0\n");
    machine.put_file("sys/block/md1/md/array_state", "clean\n");
    assert_eq!(read_topology(&machine.roots()).find_device("md1").unwrap().missing, 0);
    machine.put_file("sys/block/md1/md/array_state", "broken\n");
    assert_eq!(read_topology(&machine.roots()).find_device("md1").unwrap().missing, 1);
}

#[test]
fn a_loop_over_fuse_or_memory_is_a_leaf() {
    let machine = ordinary();
    machine.put_file(
        "proc/self/mountinfo",
        "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 0:5 / /shm rw - tmpfs tmpfs rw\n\
         3 2 0:6 / /shm/slow.nbd rw - fuse /dev/fuse rw\n4 1 0:7 / /net rw - nfs4 server:/x rw\n",
    );
    let leaf = |file, class| {
        let device = with_loop(&machine, file);
        assert!(device.below.is_empty(), "{file}");
        assert_eq!(device.class, class, "{file}");
    };
    leaf("/shm/slow.nbd", DeviceClass::Network);
    leaf("/shm/fast.img", DeviceClass::Memory);
    leaf("/net/disk.img", DeviceClass::Network);
}

#[test]
fn a_loop_in_an_overlay_is_on_the_disk_of_the_upper_layer() {
    let machine = ordinary();
    machine.put_file(
        "proc/self/mountinfo",
        "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/disk/upper,workdir=/w\n\
         2 1 8:0 / /disk rw - ext4 /dev/sda rw\n",
    );
    assert_eq!(with_loop(&machine, "/var/x.img").below, ["sda"]);
}

#[test]
fn unbound_loops_and_hidden_paths_are_left_out() {
    let machine = ordinary();
    machine
        .put_disk("loop1", "7:1", 0)
        .put_disk("nvme0c0n1", "259:7", 100)
        .put_file("sys/block/nvme0c0n1/hidden", "1\n");
    let topology = read_topology(&machine.roots());
    assert_eq!(topology.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["sda"]);
}

#[test]
fn a_shared_nvme_disk_has_the_class_of_its_controllers() {
    for (controller, class) in [
        ("virtual/nvme-fabrics/ctl/nvme2", DeviceClass::Network),
        ("pci0000:00/0000:01:00.0/nvme/nvme2", DeviceClass::Nvme),
    ] {
        let machine = ordinary();
        let subsystem = "virtual/nvme-subsystem/nvme-subsys2";
        machine
            .put_file(&format!("sys/devices/{controller}/state"), "live\n")
            .put_file(&format!("sys/devices/{subsystem}/nvme2n1/size"), "100\n")
            .put_file(&format!("sys/devices/{subsystem}/nvme2n1/queue/rotational"), "0\n")
            .put_link(&format!("sys/devices/{subsystem}/nvme2"), &format!("../../../{controller}"))
            .put_link("sys/block/nvme2n1", &format!("../devices/{subsystem}/nvme2n1"));
        assert_eq!(read_topology(&machine.roots()).find_device("nvme2n1").unwrap().class, class, "{controller}");
    }
}

#[test]
fn properties_of_a_disk_are_read_from_sysfs() {
    let machine = ordinary();
    let put = |file: &str, text: &str| _ = machine.put_file(&format!("sys/block/sda/{file}"), text);
    put("queue/scheduler", "none [mq-deadline] kyber\n");
    put("queue/write_cache", "write back\n");
    put("queue/nr_requests", "256\n");
    put("queue/max_sectors_kb", "1280\n");
    put("device/queue_depth", "32\n");
    put("device/vendor", "ATA     \n");
    put("device/model", "MADE UP 4000\n");
    machine.put_file("sys/block/sda/device/vpd_pg80", b"\0\x80\0\x08SER12345");
    let topology = read_topology(&machine.roots());
    let disk = topology.find_device("sda").unwrap();
    assert_eq!(disk.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!((disk.queue_requests, disk.device_depth), (Some(256), Some(32)));
    assert_eq!((disk.max_request_bytes, disk.bytes), (Some(1280 * 1024), Some(512_000_000)));
    assert_eq!(disk.model.as_deref(), Some("MADE UP 4000"));
    assert_eq!(disk.serial.as_deref(), Some("SER12345"));
    assert_eq!((disk.rotational, disk.class), (Some(true), DeviceClass::Rotational));
}

#[test]
fn a_virtio_disk_is_virtual_although_it_reports_rotation() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().remove("sys/block/sda");
    machine
        .put_file("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/size", "100\n")
        .put_file("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/queue/rotational", "1\n")
        .put_file("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/device/vendor", "0x1af4\n")
        .put_link("sys/block/vda", "../devices/pci0000:00/0000:00:02.0/virtio1/block/vda");
    let topology = read_topology(&machine.roots());
    let disk = topology.find_device("vda").unwrap();
    assert_eq!((disk.rotational, disk.class, disk.model.as_deref()), (Some(true), DeviceClass::Virtual, None));
}

/// Creates a disk deep in a fake device tree; returns its link speed.
fn link_speed(place: &str, files: &[(&str, &str)]) -> Option<f64> {
    let machine = FakeMachine::new();
    let name = place.rsplit('/').next().unwrap();
    machine.put_file(&format!("sys/devices/{place}/size"), "100\n");
    for (path, text) in files {
        machine.put_file(&format!("sys/devices/{path}"), text);
    }
    machine.put_link(&format!("sys/block/{name}"), &format!("../devices/{place}"));
    read_topology(&machine.roots()).find_device(name).unwrap().link_bytes_per_s
}

#[test]
fn link_speeds_of_every_kind_are_read() {
    let near = |speed: Option<f64>, expected: f64| assert!((speed.unwrap() - expected).abs() < 1.0, "{speed:?}");
    let pcie = [("pci0/00:1d.0/current_link_speed", "8.0 GT/s PCIe\n"), ("pci0/00:1d.0/current_link_width", "4\n")];
    near(link_speed("pci0/00:1d.0/nvme/nvme0/nvme0n1", &pcie), 4.0 * 8e9 * 128.0 / 130.0 / 8.0);
    let sata = [
        ("pci0/00:17.0/ata1/link1/ata_link/link1/sata_spd", "6.0 Gbps\n"),
        ("pci0/00:17.0/current_link_speed", "8.0 GT/s PCIe\n"),
        ("pci0/00:17.0/current_link_width", "8\n"),
    ];
    near(link_speed("pci0/00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", &sata), 600e6);
    let sas = [
        ("pci0/03:00.0/host1/port-1:0/phy-1:0/sas_phy/phy-1:0/negotiated_linkrate", "12.0 Gbit\n"),
        ("pci0/03:00.0/host1/port-1:0/phy-1:1/sas_phy/phy-1:1/negotiated_linkrate", "12.0 Gbit\n"),
    ];
    near(link_speed("pci0/03:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdb", &sas), 2.4e9);
    let fc = [("pci0/04:00.0/host2/fc_host/host2/speed", "16 Gbit\n")];
    near(link_speed("pci0/04:00.0/host2/rport-2:0-1/target2:0:0/2:0:0:0/block/sdc", &fc), 1.6e9);
    let usb = [("pci0/00:14.0/usb2/2-1/speed", "5000\n"), ("pci0/00:14.0/usb2/2-1/busnum", "2\n")];
    near(link_speed("pci0/00:14.0/usb2/2-1/2-1:1.0/host3/target3:0:0/3:0:0:0/block/sdd", &usb), 500e6);
    // a hardware controller's own lanes are not a disk's
    let raid = [("pci0/05:00.0/current_link_speed", "8.0 GT/s PCIe\n"), ("pci0/05:00.0/current_link_width", "8\n")];
    assert_eq!(link_speed("pci0/05:00.0/host4/target4:2:0/4:2:0:0/block/sde", &raid), None);
}

#[test]
fn swap_areas_have_their_devices() {
    let machine = ordinary();
    machine.put_disk("zram0", "252:0", 8192).put_partition("sda", "sda2", "8:2");
    let table = "Filename Type Size Used Priority\n/dev/zram0 partition 4096 0 100\n\
        /dev/sda2 partition 1024 0 -2\n/swapfile file 2048 0 -3\n";
    machine.put_file("proc/swaps", table);
    let topology = read_topology(&machine.roots());
    let bearers: Vec<&str> = topology.swaps.iter().map(|s| s.device.as_str()).collect();
    assert_eq!(bearers, ["zram0", "sda2", "sda"]);
    assert_eq!(topology.find_device("zram0").unwrap().kind, DeviceKind::Zram);
    assert_eq!(topology.find_device("zram0").unwrap().class, DeviceClass::Memory);
    assert_eq!(topology.swaps[2].bytes, 2048 * 1024);
}

#[test]
fn mounts_of_btrfs_devices_are_on_the_volume() {
    let machine = ordinary();
    machine.put_disk("sdb", "8:16", 9999);
    for device in ["sda", "sdb"] {
        machine.put_file(&format!("sys/fs/btrfs/1234/devices/{device}/size"), "1\n");
    }
    machine.put_file("sys/fs/btrfs/1234/allocation/data/raid0/total_bytes", "10\n");
    machine.put_file("proc/self/mountinfo", "1 0 0:30 / /pool rw - btrfs /dev/sdb rw\n");
    let topology = read_topology(&machine.roots());
    let volume = topology.find_device("btrfs:1234").unwrap();
    assert_eq!((volume.kind, volume.level), (DeviceKind::Btrfs, Some(RaidLevel::Raid0)));
    assert_eq!(topology.leaves_under("btrfs:1234"), ["sda", "sdb"]);
    assert_eq!(topology.filesystems[0].device, "btrfs:1234");
}

#[test]
fn the_topology_is_noted_at_the_start_and_after_changes_only() {
    let machine = ordinary();
    machine.put_file("sys/kernel/uevent_seqnum", "5\n");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(1.0).tick_after(10.0).tick_after(100.0);
    assert_eq!(watch.notes_of_kind(Note::TOPOLOGY).len(), 1);
    machine.put_file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda partition 4096 0 100\n");
    watch.tick_after(10.0);
    assert_eq!(watch.notes_of_kind(Note::TOPOLOGY).len(), 2);
    // the kernel reports a disk that has grown
    machine.put_file("sys/block/sda/size", "123456\n");
    machine.put_file("sys/kernel/uevent_seqnum", "6\n");
    watch.tick_after(10.0);
    assert_eq!(watch.last_topology().find_device("sda").unwrap().bytes, Some(123_456 * 512));
    assert_eq!(watch.notes_of_kind(Note::TOPOLOGY).len(), 3);
    watch.tick_after(10.0);
    // an attribute that changes by itself is found a minute later at the latest
    machine.put_file("sys/block/sda/queue/scheduler", "[none]\n");
    watch.tick_after(10.0);
    assert_eq!(watch.notes_of_kind(Note::TOPOLOGY).len(), 3);
    watch.tick_after(60.0);
    assert_eq!(watch.last_topology().find_device("sda").unwrap().scheduler.as_deref(), Some("none"));
}

#[test]
fn a_hidden_sysfs_is_noted() {
    let machine = FakeMachine::new();
    machine.put_ordinary_files().remove("sys/block");
    let mut watch = machine.watch_default();
    watch.tick().tick_after(100.0);
    let count = watch.notes_of_kind(Note::UNSEEN).iter().filter(|n| n.contains("no block device can be seen")).count();
    assert_eq!(count, 1);
    // its counters are recorded nevertheless
    assert_eq!(watch.value("physical_disk.reads", "sda"), 0.0);
}
