//! Tests on fake machines: each layer that the kernel can put between a disk and its users is
//! refused if bytes are shared, and left alone if they are not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use diskwright_counters::live::Roots;

use crate::device_graph::{DeviceGraph, StorageNode};
use crate::mounts::MountTable;
use crate::node::DeviceNumber;
use crate::usage;

/// A fake /sys and /proc.
struct FakeMachine {
    folder: tempfile::TempDir,
    tables: Vec<(DeviceNumber, String)>,
}

impl FakeMachine {
    fn new() -> FakeMachine {
        let tree = FakeMachine { folder: tempfile::tempdir().unwrap(), tables: Vec::new() };
        tree.write("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        tree.write("proc/swaps", "Filename Type Size Used Priority\n");
        tree
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn roots(&self) -> Roots {
        Roots::from_root(self.folder.path())
    }

    /// Adds a device; `folder` is below sys/devices, the disk's for a partition.
    fn add_device(&self, number: &str, folder: &str) -> String {
        let folder = format!("sys/devices/{folder}");
        self.write(&format!("{folder}/dev"), &format!("{number}\n"));
        fs::create_dir_all(self.path("sys/dev/block")).unwrap();
        symlink(self.path(&folder), self.path(&format!("sys/dev/block/{number}"))).unwrap();
        folder
    }

    fn add_disk(&self, name: &str, number: &str) {
        self.add_device(number, name);
    }

    /// Adds a partition, in sectors.
    fn add_partition(&self, disk: &str, name: &str, number: &str, start: u64, size: u64) {
        let folder = self.add_device(number, &format!("{disk}/{name}"));
        for (file, value) in [("partition", 1), ("start", start), ("size", size)] {
            self.write(&format!("{folder}/{file}"), &format!("{value}\n"));
        }
    }

    /// Adds a device that stands on others, shown from both sides.
    fn add_layer(&self, name: &str, number: &str, lower: &[(&str, &str)]) {
        let folder = self.add_device(number, name);
        for (lower, number) in lower {
            self.write(&format!("{folder}/slaves/{lower}/dev"), &format!("{number}\n"));
            self.write(&format!("sys/dev/block/{number}/holders/{name}"), "");
        }
    }

    /// Adds a device of the device mapper with its table.
    fn add_mapped_device(&mut self, name: &str, number: &str, lower: &[(&str, &str)], table: &str) {
        self.add_layer(name, number, lower);
        self.write(&format!("sys/devices/{name}/dm/name"), name);
        let (major, minor) = number.split_once(':').unwrap();
        self.tables.push(((major.parse().unwrap(), minor.parse().unwrap()), table.to_owned()));
    }

    fn add_loop(&self, number: u64, backing: &str, offset: u64, sectors: u64) {
        let folder = self.add_device(&format!("7:{number}"), &format!("loop{number}"));
        self.write(&format!("{folder}/size"), &format!("{sectors}\n"));
        self.write(&format!("{folder}/loop/backing_file"), &format!("{backing}\n"));
        self.write(&format!("{folder}/loop/offset"), &format!("{offset}\n"));
        fs::create_dir_all(self.path("sys/block")).unwrap();
        symlink(self.path(&folder), self.path(&format!("sys/block/loop{number}"))).unwrap();
    }

    fn add_mount(&self, number: &str, point: &str) {
        let path = "proc/self/mountinfo";
        let text = fs::read_to_string(self.path(path)).unwrap();
        self.write(path, &format!("{text}9 1 {number} / {point} rw - ext4 /dev/x rw\n"));
    }

    /// Adds a process that has a file open with these flags.
    fn add_process(&self, id: u32, name: &str, file: &Path, flags: &str) {
        self.write(&format!("proc/{id}/comm"), &format!("{name}\n"));
        self.write(&format!("proc/{id}/fdinfo/5"), &format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t1\n"));
        fs::create_dir_all(self.path(&format!("proc/{id}/fd"))).unwrap();
        symlink(file, self.path(&format!("proc/{id}/fd/5"))).unwrap();
    }

    fn device_users(&self, number: DeviceNumber) -> Vec<String> {
        let roots = self.roots();
        let table = |_: &Roots, number: DeviceNumber| {
            self.tables.iter().find(|(mapped, _)| *mapped == number).map(|(_, table)| table.clone())
        };
        let graph = DeviceGraph::with_tables(&roots, MountTable::read(&roots), None, &table);
        usage::node_users(&graph, StorageNode::Device(number))
    }

    fn file_users(&self, name: &str) -> Vec<String> {
        usage::file_users(&self.roots(), &fs::File::open(self.path(name)).unwrap(), name)
    }
}

const NO_USERS: [&str; 0] = [];

#[test]
fn partitions_are_neighbours_and_the_disk_is_all_of_them() {
    let tree = FakeMachine::new();
    tree.add_disk("sda", "8:0");
    tree.add_partition("sda", "sda1", "8:1", 2048, 2048);
    tree.add_partition("sda", "sda2", "8:2", 4096, 2048);
    assert_eq!(tree.device_users((8, 1)), ["sda1 is mounted on /"]);
    assert_eq!(tree.device_users((8, 0)), ["sda1 is mounted on /"]);
    assert_eq!(tree.device_users((8, 2)), NO_USERS);
    tree.add_mount("8:0", "/whole");
    assert_eq!(tree.device_users((8, 2)), ["sda2 is a part of sda, and sda is mounted on /whole"]);
    assert_eq!(
        usage::with_partitions(&tree.roots(), (8, 0)).iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
        ["sda", "sda1", "sda2"]
    );
}

#[test]
fn arrays_keep_their_members_and_no_neighbours() {
    let tree = FakeMachine::new();
    for (disk, minor) in [("sdb", 16), ("sdc", 32)] {
        tree.add_disk(disk, &format!("8:{minor}"));
        tree.add_partition(disk, &format!("{disk}1"), &format!("8:{}", minor + 1), 2048, 2048);
        tree.add_partition(disk, &format!("{disk}2"), &format!("8:{}", minor + 2), 4096, 2048);
    }
    tree.add_layer("md0", "9:0", &[("sdb1", "8:17"), ("sdc1", "8:33")]);
    tree.add_layer("md1", "9:1", &[("sdb2", "8:18"), ("sdc2", "8:34")]);
    assert_eq!(tree.device_users((8, 17)), ["sdb1 is held by md0"]);
    assert_eq!(tree.device_users((9, 0)), NO_USERS, "nobody uses the array");
    tree.add_mount("9:0", "/data");
    assert_eq!(tree.device_users((8, 17)), ["sdb1 is held by md0, and md0 is mounted on /data"]);
    assert_eq!(tree.device_users((8, 16)).len(), 2, "both arrays lie on the disk");
    assert_eq!(tree.device_users((9, 0)), ["md0 is mounted on /data"]);
    assert_eq!(tree.device_users((9, 1)), NO_USERS, "the other array has other bytes");
}

#[test]
fn volumes_are_neighbours_by_their_tables() {
    let mut tree = FakeMachine::new();
    tree.add_disk("sdb", "8:16");
    let lower = [("sdb", "8:16")];
    tree.add_mapped_device("dm-0", "253:0", &lower, "0 2048 linear 8:16 2048\n2048 2048 linear 8:16 8192\n");
    tree.add_mapped_device("dm-1", "253:1", &lower, "0 4096 linear 8:16 4096\n");
    tree.add_mapped_device("dm-2", "253:2", &lower, "0 100 linear 8:16 9000\n");
    // encrypted, on the first
    tree.add_mapped_device("dm-3", "253:3", &[("dm-0", "253:0")], "0 4000 crypt aes-xts-plain64 :64:x 0 253:0 64\n");
    tree.add_mount("253:3", "/secret");
    let expected =
        ["dm-0 is built on sdb, and sdb is held by dm-2", "dm-0 is held by dm-3, and dm-3 is mounted on /secret"];
    assert_eq!(tree.device_users((253, 0)), expected);
    assert_eq!(tree.device_users((253, 1)), NO_USERS, "it lies between the pieces of the first");
    let expected =
        "dm-2 is built on sdb, and sdb is held by dm-0, and dm-0 is held by dm-3, and dm-3 is mounted on /secret";
    assert_eq!(tree.device_users((253, 2)), [expected], "it overlaps the first's second piece");
    let expected = tree.device_users((8, 16));
    assert!(expected.contains(&"sdb is held by dm-1".to_owned()) && expected.iter().any(|s| s.ends_with("on /secret")));
}

#[test]
fn tells_paths_pools_and_snapshots_apart() {
    let mut tree = FakeMachine::new();
    for (disk, number) in [("sdb", "8:16"), ("sdc", "8:32"), ("sdd", "8:48")] {
        tree.add_disk(disk, number);
    }
    let paths = "0 100 multipath 0 0 1 1 service-time 0 2 2 8:16 1 1 8:32 1 1\n";
    tree.add_mapped_device("dm-0", "253:0", &[("sdb", "8:16"), ("sdc", "8:32")], paths);
    assert_eq!(tree.device_users((8, 32)), ["sdc is held by dm-0"]);
    assert_eq!(tree.device_users((253, 0)), NO_USERS);
    // a thin pool with two volumes
    tree.add_mapped_device("dm-1", "253:1", &[("sdd", "8:48")], "0 100 linear 8:48 0\n");
    tree.add_mapped_device("dm-2", "253:2", &[("dm-1", "253:1")], "0 100 thin-pool 253:1 253:1 128 0\n");
    tree.add_mapped_device("dm-3", "253:3", &[("dm-2", "253:2")], "0 50 thin 253:2 1\n");
    tree.add_mapped_device("dm-4", "253:4", &[("dm-2", "253:2")], "0 50 thin 253:2 2\n");
    tree.add_mount("253:3", "/thin");
    assert_eq!(tree.device_users((253, 4)), NO_USERS, "volumes of a pool share no bytes");
    assert_eq!(tree.device_users((253, 3)), ["dm-3 is mounted on /thin"]);
    assert!(tree.device_users((8, 48)).iter().any(|user| user.ends_with("dm-3 is mounted on /thin")));
    // an origin and its snapshot
    tree.add_mapped_device("dm-5", "253:5", &[("sdd", "8:48")], "0 100 linear 8:48 1000\n");
    tree.add_mapped_device("dm-6", "253:6", &[("dm-5", "253:5")], "0 100 snapshot-origin 253:5\n");
    tree.add_mapped_device("dm-7", "253:7", &[("sdd", "8:48")], "0 100 linear 8:48 2000\n");
    let lower = [("dm-5", "253:5"), ("dm-7", "253:7")];
    tree.add_mapped_device("dm-8", "253:8", &lower, "0 100 snapshot 253:5 253:7 P 16\n");
    tree.add_mount("253:6", "/origin");
    assert_eq!(tree.device_users((253, 8)), NO_USERS, "a snapshot has its own room");
    assert_eq!(tree.device_users((253, 7)), ["dm-7 is held by dm-8"]);
}

#[test]
fn mapped_devices_without_a_table_stand_on_the_whole_device() {
    let tree = FakeMachine::new();
    tree.add_disk("sdb", "8:16");
    tree.add_layer("dm-0", "253:0", &[("sdb", "8:16")]);
    tree.add_layer("dm-1", "253:1", &[("sdb", "8:16")]);
    tree.add_mount("253:0", "/data");
    assert_eq!(
        tree.device_users((253, 1)),
        ["dm-1 is built on sdb, and sdb is held by dm-0, and dm-0 is mounted on /data"]
    );
}

#[test]
fn finds_array_members_and_holders() {
    let tree = FakeMachine::new();
    for (disk, number) in [("sdb", "8:16"), ("sdc", "8:32"), ("sdd", "8:48"), ("sde", "8:64"), ("nbd0", "43:0")] {
        tree.add_disk(disk, number);
    }
    for disk in ["sdb", "sdc"] {
        tree.write(&format!("sys/fs/btrfs/b7f0/devices/{disk}"), "");
    }
    tree.write("sys/fs/btrfs/features/x", "");
    assert_eq!(tree.device_users((8, 32)), ["sdc is a member of the btrfs b7f0"]);
    tree.write("sys/devices/sdd/bcache/state", "clean\n");
    assert_eq!(tree.device_users((8, 48)), ["sdd is a part of a bcache"]);
    // a holder that is not a block device
    tree.write("sys/devices/sde/holders/drbd1", "");
    assert_eq!(tree.device_users((8, 64)), ["sde is held by drbd1"]);
    assert_eq!(tree.device_users((43, 0)), NO_USERS);
    tree.add_mount("43:0", "/nbd");
    assert_eq!(tree.device_users((43, 0)), ["nbd0 is mounted on /nbd"]);
}

#[test]
fn finds_loops_over_one_file_by_any_name() {
    let tree = FakeMachine::new();
    tree.write("disk.img", &"x".repeat(8192));
    fs::hard_link(tree.path("disk.img"), tree.path("second")).unwrap();
    tree.write("other.img", &"x".repeat(8192));
    tree.add_loop(1, "/disk.img", 0, 16);
    tree.add_loop(2, "/second", 4096, 8);
    tree.add_loop(3, "/other.img", 0, 16);
    assert_eq!(tree.device_users((7, 3)), NO_USERS);
    assert_eq!(tree.device_users((7, 1)), NO_USERS, "nobody uses the other");
    tree.add_mount("7:2", "/mnt");
    let expected = "loop1 uses the file /disk.img, which is also behind loop2, and loop2 is mounted on /mnt";
    assert_eq!(tree.device_users((7, 1)), [expected]);
    assert_eq!(tree.file_users("disk.img")[0], "it is the disk behind loop1");
    assert_eq!(tree.file_users("second")[1], "it is the disk behind loop2, and loop2 is mounted on /mnt");
    assert_eq!(tree.file_users("other.img"), ["it is the disk behind loop3"]);
}

#[test]
fn loops_over_parts_of_a_file_are_neighbours() {
    let tree = FakeMachine::new();
    tree.write("disk.img", &"x".repeat(8192));
    tree.add_loop(1, "/disk.img", 0, 8);
    tree.add_loop(2, "/disk.img", 4096, 8);
    tree.add_mount("7:1", "/mnt");
    assert_eq!(tree.device_users((7, 2)), NO_USERS);
    tree.add_partition("loop2", "loop2p1", "259:0", 0, 4);
    tree.add_partition("loop2", "loop2p2", "259:1", 4, 4);
    tree.add_mount("259:0", "/part");
    assert_eq!(tree.device_users((259, 1)), NO_USERS);
    assert_eq!(tree.device_users((7, 2)), ["loop2p1 is mounted on /part"]);
}

#[test]
fn files_to_which_no_path_leads_are_doubted_by_their_size() {
    let tree = FakeMachine::new();
    tree.write("kept.img", &"x".repeat(8192));
    tree.write("small.img", &"x".repeat(4096));
    let device = crate::node::FileId::from_metadata(&fs::metadata(tree.path("kept.img")).unwrap()).device;
    tree.write("proc/self/mountinfo", &format!("1 0 {}:{} / / rw - ext4 /dev/x rw\n", device.0, device.1));
    tree.add_loop(1, "/gone.img (deleted)", 0, 16);
    let users = tree.file_users("kept.img");
    assert_eq!(users, ["it may be the file behind loop1, to which no path leads any more"]);
    assert_eq!(tree.file_users("small.img"), NO_USERS);
}

#[test]
fn processes_count_by_what_they_may_do() {
    let tree = FakeMachine::new();
    tree.write("disk.img", &"x".repeat(8192));
    tree.add_loop(1, "/disk.img", 0, 16);
    let file = tree.path("disk.img");
    tree.add_process(4_000_001, "postgres", &file, "0100000");
    tree.add_process(4_000_002, "(udev-worker)", &file, "0100000");
    tree.add_process(4_000_004, "name", &file, "010000002");
    assert_eq!(tree.device_users((7, 1)), NO_USERS, "readers of what is below do no harm and take none");
    let users = tree.file_users("disk.img");
    assert_eq!(users, ["it is the disk behind loop1", "process 4000001 (postgres) has it open"]);
    tree.add_process(4_000_003, "qemu", &file, "0100002");
    let users = "loop1 uses the file /disk.img, and process 4000003 (qemu) has /disk.img open for writing";
    assert_eq!(tree.device_users((7, 1)), [users]);
}

#[test]
fn mapped_files_count_without_a_descriptor() {
    let tree = FakeMachine::new();
    tree.write("data", &"x".repeat(8192));
    let id = crate::node::FileId::from_metadata(&fs::metadata(tree.path("data")).unwrap());
    let line = |inode| {
        format!(
            "55d0-55d1 r-xp 00000000 00:00 0 \n\
             55d1-55d2 r-xp 00000000 {:02x}:{:02x} {inode}                     /a b\n",
            id.device.0, id.device.1
        )
    };
    tree.write("proc/4000001/comm", "database\n");
    tree.write("proc/4000001/maps", &line(id.inode + 1));
    assert_eq!(tree.file_users("data"), NO_USERS);
    tree.write("proc/4000001/maps", &line(id.inode));
    assert_eq!(tree.file_users("data"), ["process 4000001 (database) runs from it or has it mapped"]);
    // btrfs shows another device number there, and the file itself shows the right one
    tree.write("proc/4000001/maps", "55d1-55d2 r--s 00000000 00:2a 999 /data\n");
    assert_eq!(tree.file_users("data"), NO_USERS);
    fs::create_dir_all(tree.path("proc/4000001/map_files")).unwrap();
    symlink(tree.path("data"), tree.path("proc/4000001/map_files/55d1-55d2")).unwrap();
    assert_eq!(tree.file_users("data"), ["process 4000001 (database) runs from it or has it mapped"]);
}

#[test]
fn files_in_use_by_the_kernel_are_seen() {
    let tree = FakeMachine::new();
    tree.write("swap file", "swap");
    tree.write("proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n");
    assert_eq!(tree.file_users("swap file"), ["it is swap"]);
    tree.write("lun", "x");
    tree.write("sys/kernel/config/target/core/fileio_0/disk/udev_path", "/lun\n");
    assert_eq!(tree.file_users("lun"), ["it is exported by the SCSI target"]);
}

#[test]
fn a_cycle_of_devices_ends() {
    let tree = FakeMachine::new();
    tree.add_disk("dm-0", "253:0");
    tree.add_disk("dm-1", "253:1");
    tree.write("sys/devices/dm-0/slaves/dm-1/dev", "253:1\n");
    tree.write("sys/devices/dm-1/slaves/dm-0/dev", "253:0\n");
    assert!(tree.device_users((253, 0)).len() < 3);
    assert_eq!(tree.device_users((253, 9)), NO_USERS);
}
