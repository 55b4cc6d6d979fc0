//! The guard of `probe` on real devices: each refusal, and that nothing was written. Needs root and loop devices;
//! prints why it skips where there are none.

use crate::devices;

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::process::Command;

use crate::devices::{Bench, md5_sum, report_skip, run_tool, write_at};

const READ_SUITE: &str = "minread";
const WRITE_SUITE: &str = "commit";

/// Expects that a device counts as in use: reading needs `--live`, and no option allows writing.
fn expect_guarded(bench: &Bench, device: &str, why: &str) {
    bench.expect_refused(&[READ_SUITE, device], device, &[why, "use --live"]);
    bench.measure(&[READ_SUITE, device, "--live", "--brake", "60s"]);
    let all: [&[&str]; 4] = [
        &[WRITE_SUITE, device],
        &[WRITE_SUITE, device, "--live"],
        &[WRITE_SUITE, device, "--destroy-data-on", device],
        &[WRITE_SUITE, device, "--live", "--destroy-data-on", device],
    ];
    bench.expect_all_refused(&all, device, &[why, "no option allows writing to it"]);
}

#[test]
fn guards_a_mounted_device() {
    let Some(mut bench) = Bench::new("devices-mounted") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    if run_tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    // noload: the kernel writes no journal meanwhile, so the data can be compared
    let Some(point) = bench.mount(&device, "point", "ro,noload") else { return };
    expect_guarded(&bench, &device, &format!("is mounted on {}", point.display()));
}

#[test]
fn guards_a_device_with_a_mounted_partition() {
    let Some(mut bench) = Bench::new("devices-partition") else { return };
    let Some(device) = bench.new_loop_device("disk", 32) else { return };
    // an MBR with one Linux partition: 2048 sectors from the start, 40960 long
    let mut entry = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
    entry.extend(2048u32.to_le_bytes().iter().chain(&40960u32.to_le_bytes()));
    write_at(&device, 446, &entry);
    write_at(&device, 510, &[0x55, 0xaa]);
    if run_tool("partx", &["-a", &device]).is_none() {
        return;
    }
    bench.run_at_end("partx", &["-d", &device]);
    let part = format!("{device}p1");
    bench.expect_refused(
        &[WRITE_SUITE, &device],
        &device,
        &["the partition loop", "partition table or boot sector (MBR)"],
    );
    if run_tool("mkfs.ext4", &["-q", &part]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&part, "point", "ro,noload") else { return };
    let why = format!("p1 is mounted on {}", point.display());
    expect_guarded(&bench, &device, &why);
    expect_guarded(&bench, &part, &why);
}

#[test]
fn guards_swap_on_a_device_and_in_a_file() {
    let Some(mut bench) = Bench::new("devices-swap") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    // the lowest priority, so that nothing is swapped out to it
    if run_tool("mkswap", &[&device]).is_none() || run_tool("swapon", &["-p", "0", &device]).is_none() {
        return;
    }
    bench.run_at_end("swapoff", &[&device]);
    // the kernel may change its bytes, so they are not compared
    bench.expect_failure(&[READ_SUITE, &device], &["is swap", "use --live"]);
    bench.expect_failure(
        &[WRITE_SUITE, &device, "--destroy-data-on", &device],
        &["is swap", "no option allows writing to it"],
    );
    let file = bench.path("swapfile");
    fs::write(&file, vec![0; 8 << 20]).expect("a file");
    let name = file.display().to_string();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
    if run_tool("mkswap", &[&name]).is_none() || run_tool("swapon", &["-p", "0", &name]).is_none() {
        return;
    }
    bench.run_at_end("swapoff", &[&name]);
    bench.expect_failure(
        &[WRITE_SUITE, &name, "--destroy-data-on", &name],
        &["it is swap", "no option allows writing to it"],
    );
}

#[test]
fn guards_devices_that_others_are_built_on() {
    let Some(mut bench) = Bench::new("devices-held") else { return };
    let (Some(below), Some(first), Some(second)) =
        (bench.new_loop_device("below", 16), bench.new_loop_device("first", 128), bench.new_loop_device("second", 128))
    else {
        return;
    };
    // a loop device does not claim the device below it
    let Some(over) = bench.attach_loop_device(below.as_ref(), &[]) else { return };
    expect_guarded(&bench, &below, &format!("is below {}", over.trim_start_matches("/dev/")));
    if run_tool("mkfs.btrfs", &["-q", "-d", "raid0", "-m", "raid1", &first, &second]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&first, "btrfs", "ro") else { return };
    expect_guarded(&bench, &first, &format!("is mounted on {}", point.display()));
    // only the first is in the table of mounts
    expect_guarded(&bench, &second, "is a member of the btrfs");
}

#[test]
fn guards_a_device_that_a_process_has_open() {
    const O_EXCL: i32 = 0o200;
    let Some(mut bench) = Bench::new("devices-open") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    let process = format!("process {}", std::process::id());
    let open = File::open(&device).expect("opens");
    expect_guarded(&bench, &device, &process);
    drop(open);
    let claimed = File::options().read(true).custom_flags(O_EXCL).open(&device).expect("opens");
    expect_guarded(&bench, &device, &process);
    drop(claimed);
    bench.measure(&[READ_SUITE, &device]);
}

#[test]
fn a_writing_probe_opens_the_device_exclusively() {
    let Some(mut bench) = Bench::new("devices-claim") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    if run_tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let mut child =
        bench.command(&[WRITE_SUITE, &device, "--destroy-data-on", &device, "--for", "60s"]).spawn().expect("runs");
    let busy = || File::options().read(true).custom_flags(0o200).open(&device).is_err();
    let claimed = devices::wait_up_to_10_s(busy);
    let point = bench.path("point");
    fs::create_dir_all(&point).expect("a folder");
    let mounted = std::process::Command::new("mount").arg(&device).arg(&point).output().expect("runs");
    child.kill().expect("ends");
    child.wait().expect("ends");
    assert!(claimed.is_some(), "it never had the device");
    assert!(!mounted.status.success(), "mounted while it is written to");
}

/// Signatures: name of the content, offset on the device (from the end where negative), bytes.
const SIGNATURES: &[(&str, i64, &[u8])] = &[
    ("XFS", 0, b"XFSB"),
    ("ext2, ext3 or ext4", 0x438, &[0x53, 0xef]),
    ("btrfs", 0x1_0040, b"_BHRfS_M"),
    ("swap", 0xff6, b"SWAPSPACE2"),
    ("LUKS", 0, b"LUKS\xba\xbe"),
    ("an LVM volume", 0x218, b"LVM2 001"),
    ("an md member", 0x1000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    // version 0.90: in the last whole 64 KiB but one
    ("an md member", -0x1_0000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    // one of the uberblocks, in both byte orders
    ("ZFS", 0x2_0000 + 7 * 1024, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    ("ZFS", 0x2_0000 + 100 * 1024, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]),
    ("a partition table (GPT)", 512, b"EFI PART"),
    ("a partition table (GPT, its copy at the end)", -512, b"EFI PART"),
    ("a partition table or boot sector (MBR)", 510, &[0x55, 0xaa]),
    // unknown data is guarded as well
    ("no known signature, but perhaps data", 0x8_0000, b"somebody's data"),
];

#[test]
fn writes_to_a_device_with_data_only_by_name() {
    let Some(mut bench) = Bench::new("devices-marks") else { return };
    let disk = bench.exact_sparse_file("disk", 4 << 20);
    let Some(device) = bench.attach_loop_device(&disk, &[]) else { return };
    for (content, offset, bytes) in SIGNATURES {
        write_at(&device, 0, &vec![0; 4 << 20]);
        write_at(&device, *offset, bytes);
        bench.expect_refused(&[WRITE_SUITE, &device], &device, &[content, &format!("use --destroy-data-on {device}")]);
        // reading is harmless and needs no option
        let before = md5_sum(&device);
        bench.measure(&[READ_SUITE, &device]);
        assert_eq!(md5_sum(&device), before, "{content}");
    }
    let wrong = bench.path("other").display().to_string();
    for typed in [&wrong, &device[1..], &device[..device.len() - 1], "", "yes"] {
        let arguments = [WRITE_SUITE, &device, "--destroy-data-on", typed];
        bench.expect_refused(&arguments, &device, &["nothing was written", &device]);
    }
    let before = md5_sum(&device);
    // a suite that writes only where allowed does not write here
    bench.measure(&["users", &device, "--for", "20ms"]);
    assert_eq!(md5_sum(&device), before, "reads write nothing");
    bench.measure(&[WRITE_SUITE, &device, "--destroy-data-on", &device]);
    assert_ne!(md5_sum(&device), before, "by its name it is written to");
}

#[test]
fn recognizes_real_filesystems() {
    let Some(mut bench) = Bench::new("devices-mkfs") else { return };
    // with the smallest size that each accepts, MiB
    let makers: &[(&str, u64, &[&str], &str)] = &[
        ("mkfs.ext4", 16, &["-q", "-F"], "ext2, ext3 or ext4"),
        ("mkfs.btrfs", 128, &["-q", "-f"], "btrfs"),
        ("mkfs.xfs", 320, &["-q", "-f"], "XFS"),
        ("mkfs.vfat", 16, &[], "FAT"),
        ("mkswap", 16, &[], "swap"),
        ("pvcreate", 16, &["-q", "-ff", "-y"], "an LVM volume"),
    ];
    for (number, (maker, mib, options, content)) in makers.iter().enumerate() {
        let Some(device) = bench.new_loop_device(&format!("disk{number}"), *mib) else { return };
        // LVM would open the devices of other tests, and fail where one of them goes meanwhile
        let only_own = format!("devices {{ filter = [\"a|^{device}$|\", \"r|.*|\"] use_devicesfile = 0 }}");
        let lvm_options: &[&str] = if *maker == "pvcreate" { &["--config", &only_own] } else { &[] };
        if run_tool(maker, &[options, lvm_options, &[device.as_str()]].concat()).is_some() {
            bench.expect_refused(&[WRITE_SUITE, &device], &device, &[content]);
        }
    }
}

/// `losetup` of another test opens the free device that it is offered, and `lvm` all devices, for a moment.
#[test]
fn who_has_a_device_open_for_a_moment_does_not_hide_its_content() {
    let Some(mut bench) = Bench::new("devices-moment") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    write_at(&device, 0x438, &[0x53, 0xef]);
    let opened = File::open(&device).expect("opens");
    let mut passing = Command::new("sleep").arg("0.5").stdin(opened).spawn().expect("runs");
    bench.expect_refused(&[WRITE_SUITE, &device], &device, &["ext2, ext3 or ext4"]);
    passing.wait().expect("ends");
}

#[test]
fn guards_a_device_under_its_other_names() {
    let Some(mut bench) = Bench::new("devices-names") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    let link = bench.path("by-id");
    symlink(&device, &link).expect("a link");
    let link = link.display().to_string();
    let round = format!("/dev/../dev/./{}", device.trim_start_matches("/dev/"));
    for name in [&link, &round] {
        bench.expect_refused(&[WRITE_SUITE, name], &device, &[&format!("use --destroy-data-on {name}")]);
        // the name must be typed exactly as TARGET, so that the user checks it twice
        bench.expect_refused(&[WRITE_SUITE, name, "--destroy-data-on", &device], &device, &["nothing was written"]);
        bench.measure(&[WRITE_SUITE, name, "--destroy-data-on", name]);
    }
    if run_tool("mkfs.ext4", &["-q", "-F", &device]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&device, "point", "ro,noload") else { return };
    for name in [&link, &round] {
        bench.expect_refused(
            &[WRITE_SUITE, name, "--destroy-data-on", name],
            &device,
            &["is mounted on", "no option allows writing to it"],
        );
    }
}

#[test]
fn refuses_to_write_to_files_in_use() {
    let Some(mut bench) = Bench::new("devices-files") else { return };
    let Some(device) = bench.new_loop_device("disk", 16) else { return };
    let image = bench.path("disk").display().to_string();
    let destroy = |name: &str, expected: &[&str]| {
        bench.expect_refused(&[WRITE_SUITE, name, "--destroy-data-on", name], name, expected);
    };
    let node = device.trim_start_matches("/dev/").to_owned();
    destroy(&image, &["it is the disk behind", &node]);
    // a hard link is the same file
    let second = bench.path("second").display().to_string();
    fs::hard_link(&image, &second).expect("a second name");
    destroy(&second, &[&node]);
    let program = bench.path("program");
    if fs::copy("/bin/sleep", &program).is_err() {
        return report_skip("no /bin/sleep to copy");
    }
    let program = program.display().to_string();
    let mut running = std::process::Command::new(&program).arg("60").spawn().expect("runs");
    destroy(&program, &["runs from it", &running.id().to_string()]);
    running.kill().expect("ends");
    running.wait().expect("ends");
    if run_tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&device, "point", "ro,noload") else { return };
    let why = format!("is mounted on {}", point.display());
    bench.expect_refused(&[WRITE_SUITE, &image, "--destroy-data-on", &image], &image, &[&why]);
}
