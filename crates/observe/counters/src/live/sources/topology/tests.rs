//! Cases of the topology: stacks, loop devices over various files, links, properties of
//! a disk.

use diskwright_base::{DeviceClass, DeviceKind, Note, RaidLevel};

use super::*;
use crate::live::fake::FakeMachine;

fn ordinary() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.ordinary();
    machine
}

#[test]
fn an_array_over_partitions_and_lvm_over_it() {
    let machine = ordinary();
    machine.disk("sdb", "8:16", 9999).partition("sda", "sda1", "8:1").partition("sdb", "sdb1", "8:17");
    machine.disk("md0", "9:0", 5000).disk("dm-0", "253:0", 4000);
    machine
        .put("sys/block/md0/md/level", "raid1\n")
        .put("sys/block/md0/md/degraded", "1\n")
        .put("sys/block/md0/md/chunk_size", "0\n")
        .put("sys/block/md0/md/sync_action", "recover\n")
        .put("sys/block/md0/md/dev-sda1/slot", "0\n")
        .put("sys/block/md0/md/dev-sdb1/slot", "1\n")
        .put("sys/block/md0/md/dev-sdc1/slot", "none\n")
        .put("sys/block/md0/slaves/sdc1/size", "1\n")
        .put("sys/block/dm-0/dm/name", "vg-root\n")
        .put("sys/block/dm-0/dm/uuid", "LVM-abc\n")
        .put("sys/block/dm-0/slaves/md0/size", "1\n");
    machine.put("proc/self/mountinfo", "1 0 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n");
    let topology = read(&machine.roots());
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
    assert_eq!(read(&crate::live::Roots::default()).page_bytes, rustix::param::page_size() as u64);
    assert_eq!(read(&ordinary().roots()).page_bytes, 0, "of files of another machine nobody knows");
}

fn with_loop(machine: &FakeMachine, file: &str) -> diskwright_base::Device {
    machine.disk("loop0", "7:0", 2048).put("sys/block/loop0/loop/backing_file", format!("{file}\n"));
    read(&machine.roots()).find_device("loop0").unwrap().clone()
}

#[test]
fn a_loop_over_a_file_on_a_disk_is_stacked() {
    let machine = ordinary();
    machine.put("sys/block/sda/device/model", "QEMU HARDDISK\n");
    let device = with_loop(&machine, "/srv/disk.img (deleted)");
    assert_eq!((device.kind, device.below), (DeviceKind::Loop, vec!["sda".to_owned()]));
    assert_eq!(device.class, DeviceClass::Virtual);
    assert_eq!(device.backing.as_deref(), Some("/srv/disk.img"));
}

#[test]
fn a_broken_array_without_redundancy_lacks_a_member() {
    let machine = ordinary();
    machine.disk("md1", "9:1", 5000).put("sys/block/md1/md/level", "raid0\n");
    machine.put("sys/block/md1/md/array_state", "clean\n");
    assert_eq!(read(&machine.roots()).find_device("md1").unwrap().missing, 0);
    machine.put("sys/block/md1/md/array_state", "broken\n");
    assert_eq!(read(&machine.roots()).find_device("md1").unwrap().missing, 1);
}

#[test]
fn a_loop_over_fuse_or_memory_is_a_leaf() {
    let machine = ordinary();
    machine.put(
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
fn a_loop_in_an_overlay_lies_where_its_upper_layer_does() {
    let machine = ordinary();
    machine.put(
        "proc/self/mountinfo",
        "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/disk/upper,workdir=/w\n\
         2 1 8:0 / /disk rw - ext4 /dev/sda rw\n",
    );
    assert_eq!(with_loop(&machine, "/var/x.img").below, ["sda"]);
}

#[test]
fn loops_bound_to_nothing_and_hidden_paths_are_left_out() {
    let machine = ordinary();
    machine.disk("loop1", "7:1", 0).disk("nvme0c0n1", "259:7", 100).put("sys/block/nvme0c0n1/hidden", "1\n");
    let topology = read(&machine.roots());
    assert_eq!(topology.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["sda"]);
}

#[test]
fn a_shared_nvme_disk_is_where_its_controllers_are() {
    for (controller, class) in [
        ("virtual/nvme-fabrics/ctl/nvme2", DeviceClass::Network),
        ("pci0000:00/0000:01:00.0/nvme/nvme2", DeviceClass::Nvme),
    ] {
        let machine = ordinary();
        let subsystem = "virtual/nvme-subsystem/nvme-subsys2";
        machine
            .put(&format!("sys/devices/{controller}/state"), "live\n")
            .put(&format!("sys/devices/{subsystem}/nvme2n1/size"), "100\n")
            .put(&format!("sys/devices/{subsystem}/nvme2n1/queue/rotational"), "0\n")
            .link(&format!("sys/devices/{subsystem}/nvme2"), &format!("../../../{controller}"))
            .link("sys/block/nvme2n1", &format!("../devices/{subsystem}/nvme2n1"));
        assert_eq!(read(&machine.roots()).find_device("nvme2n1").unwrap().class, class, "{controller}");
    }
}

#[test]
fn what_the_files_say_of_a_disk() {
    let machine = ordinary();
    let put = |file: &str, text: &str| _ = machine.put(&format!("sys/block/sda/{file}"), text);
    put("queue/scheduler", "none [mq-deadline] kyber\n");
    put("queue/write_cache", "write back\n");
    put("queue/nr_requests", "256\n");
    put("queue/max_sectors_kb", "1280\n");
    put("device/queue_depth", "32\n");
    put("device/vendor", "ATA     \n");
    put("device/model", "MADE UP 4000\n");
    machine.put("sys/block/sda/device/vpd_pg80", b"\0\x80\0\x08SER12345");
    let topology = read(&machine.roots());
    let disk = topology.find_device("sda").unwrap();
    assert_eq!(disk.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!((disk.queue_requests, disk.device_depth), (Some(256), Some(32)));
    assert_eq!((disk.max_request_bytes, disk.bytes), (Some(1280 * 1024), Some(512_000_000)));
    assert_eq!(disk.model.as_deref(), Some("MADE UP 4000"));
    assert_eq!(disk.serial.as_deref(), Some("SER12345"));
    assert_eq!((disk.rotational, disk.class), (Some(true), DeviceClass::Rotational));
}

#[test]
fn a_virtio_disk_says_that_it_turns_and_is_virtual() {
    let machine = FakeMachine::new();
    machine.ordinary().remove("sys/block/sda");
    machine
        .put("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/size", "100\n")
        .put("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/queue/rotational", "1\n")
        .put("sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/device/vendor", "0x1af4\n")
        .link("sys/block/vda", "../devices/pci0000:00/0000:00:02.0/virtio1/block/vda");
    let topology = read(&machine.roots());
    let disk = topology.find_device("vda").unwrap();
    assert_eq!((disk.rotational, disk.class, disk.model.as_deref()), (Some(true), DeviceClass::Virtual, None));
}

/// Creates a disk deep in a fake device tree; returns its link speed.
fn link_speed(place: &str, files: &[(&str, &str)]) -> Option<f64> {
    let machine = FakeMachine::new();
    let name = place.rsplit('/').next().unwrap();
    machine.put(&format!("sys/devices/{place}/size"), "100\n");
    for (path, text) in files {
        machine.put(&format!("sys/devices/{path}"), text);
    }
    machine.link(&format!("sys/block/{name}"), &format!("../devices/{place}"));
    read(&machine.roots()).find_device(name).unwrap().link_bytes_per_s
}

#[test]
fn links_of_every_sort() {
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
fn swap_areas_and_what_bears_them() {
    let machine = ordinary();
    machine.disk("zram0", "252:0", 8192).partition("sda", "sda2", "8:2");
    let table = "Filename Type Size Used Priority\n/dev/zram0 partition 4096 0 100\n\
        /dev/sda2 partition 1024 0 -2\n/swapfile file 2048 0 -3\n";
    machine.put("proc/swaps", table);
    let topology = read(&machine.roots());
    let bearers: Vec<&str> = topology.swaps.iter().map(|s| s.device.as_str()).collect();
    assert_eq!(bearers, ["zram0", "sda2", "sda"]);
    assert_eq!(topology.find_device("zram0").unwrap().kind, DeviceKind::Zram);
    assert_eq!(topology.find_device("zram0").unwrap().class, DeviceClass::Memory);
    assert_eq!(topology.swaps[2].bytes, 2048 * 1024);
}

#[test]
fn btrfs_bears_what_is_mounted_from_its_devices() {
    let machine = ordinary();
    machine.disk("sdb", "8:16", 9999);
    for device in ["sda", "sdb"] {
        machine.put(&format!("sys/fs/btrfs/1234/devices/{device}/size"), "1\n");
    }
    machine.put("sys/fs/btrfs/1234/allocation/data/raid0/total_bytes", "10\n");
    machine.put("proc/self/mountinfo", "1 0 0:30 / /pool rw - btrfs /dev/sdb rw\n");
    let topology = read(&machine.roots());
    let volume = topology.find_device("btrfs:1234").unwrap();
    assert_eq!((volume.kind, volume.level), (DeviceKind::Btrfs, Some(RaidLevel::Raid0)));
    assert_eq!(topology.leaves_under("btrfs:1234"), ["sda", "sdb"]);
    assert_eq!(topology.filesystems[0].device, "btrfs:1234");
}

#[test]
fn it_goes_out_at_the_start_and_after_a_change_and_not_between() {
    let machine = ordinary();
    machine.put("sys/kernel/uevent_seqnum", "5\n");
    let mut watch = machine.watch();
    watch.tick().tick_after(1.0).tick_after(10.0).tick_after(100.0);
    assert_eq!(watch.notes(Note::TOPOLOGY).len(), 1);
    machine.put("proc/swaps", "Filename Type Size Used Priority\n/dev/sda partition 4096 0 100\n");
    watch.tick_after(10.0);
    assert_eq!(watch.notes(Note::TOPOLOGY).len(), 2);
    // the kernel reports a disk that has grown
    machine.put("sys/block/sda/size", "123456\n");
    machine.put("sys/kernel/uevent_seqnum", "6\n");
    watch.tick_after(10.0);
    assert_eq!(watch.topology().find_device("sda").unwrap().bytes, Some(123_456 * 512));
    assert_eq!(watch.notes(Note::TOPOLOGY).len(), 3);
    watch.tick_after(10.0);
    // an attribute that changes by itself is found a minute later at the latest
    machine.put("sys/block/sda/queue/scheduler", "[none]\n");
    watch.tick_after(10.0);
    assert_eq!(watch.notes(Note::TOPOLOGY).len(), 3);
    watch.tick_after(60.0);
    assert_eq!(watch.topology().find_device("sda").unwrap().scheduler.as_deref(), Some("none"));
}

#[test]
fn a_hidden_sysfs_is_told() {
    let machine = FakeMachine::new();
    machine.ordinary().remove("sys/block");
    let mut watch = machine.watch();
    watch.tick().tick_after(100.0);
    let count = watch.notes(Note::UNSEEN).iter().filter(|n| n.contains("no block device can be seen")).count();
    assert_eq!(count, 1);
    // its counters are recorded nevertheless
    assert_eq!(watch.value("physical_disk.reads", "sda"), 0.0);
}
