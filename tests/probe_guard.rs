//! The guard of `probe` where a device or file in use is reached by another way: second loop devices, hard links, other
//! device nodes, mounts over paths, overlays. Each is refused, as device and as file, and the data is compared;
//! unrelated neighbours are measured. Needs root and loop devices; prints why it skips where there are none.

use crate::devices;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::devices::{Bench, run_tool, wait_up_to_10_s, write_at};

const WRITE_SUITE: &str = "commit";

/// Expects that no option makes `probe` write, and that the bytes of `data` stay the same.
fn expect_never_written(bench: &Bench, target: &str, data: &Path, why: &[&str]) {
    let data = data.display().to_string();
    let expected = [why, &["no option allows writing to it"]].concat();
    let all: [&[&str]; 4] = [
        &[WRITE_SUITE, target],
        &[WRITE_SUITE, target, "--live"],
        &[WRITE_SUITE, target, "--destroy-data-on", target],
        &[WRITE_SUITE, target, "--live", "--destroy-data-on", target],
    ];
    bench.expect_all_refused(&all, &data, &expected);
}

/// Expects that `probe` writes to the target when its name is typed.
fn expect_writable(bench: &Bench, target: &str) {
    bench.measure(&[WRITE_SUITE, target, "--destroy-data-on", target]);
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Makes a sparse file with ext4 on it.
fn make_ext4_image(bench: &Bench, name: &str) -> Option<std::path::PathBuf> {
    // under an overlay the guard may compare files by size alone, so concurrent tests use different sizes
    static BEFORE: AtomicU64 = AtomicU64::new(1);
    let path = bench.sparse_file(name, (16 << 20) + 4096 * BEFORE.fetch_add(1, Ordering::Relaxed));
    run_tool("mkfs.ext4", &["-q", "-F", &text(&path)])?;
    Some(path)
}

fn kernel_name(device: &str) -> &str {
    device.trim_start_matches("/dev/")
}

/// Writes a table of two Linux partitions: from 1 MiB and from 17 MiB, 16 MiB each.
fn write_partition_table(device: &str) {
    let entry = |start: u32| {
        let mut entry = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
        entry.extend(start.to_le_bytes().iter().chain(&32_768u32.to_le_bytes()));
        entry
    };
    write_at(device, 446, &[entry(2048), entry(34_816)].concat());
    write_at(device, 510, &[0x55, 0xaa]);
}

const READ_ONLY_MOUNT: &str = "ro,noload";

#[test]
fn guards_a_second_loop_device_over_a_mounted_file() {
    let Some(mut bench) = Bench::new("guard-second") else { return };
    let Some(image) = make_ext4_image(&bench, "image") else { return };
    let (Some(first), Some(second)) = (bench.attach_loop_device(&image, &[]), bench.attach_loop_device(&image, &[]))
    else {
        return;
    };
    let other = bench.new_loop_device("other", 16).expect("a device beside it");
    let Some(point) = bench.mount(&first, "point", READ_ONLY_MOUNT) else { return };
    let (first_name, second_name) = (kernel_name(&first), kernel_name(&second));
    let why = format!(
        "{second_name} uses the file {}, which is also behind {first_name}, and {first_name} is mounted on {}",
        image.display(),
        point.display()
    );
    expect_never_written(&bench, &second, &image, &[&why]);
    bench.expect_refused(&["minread", &second], &text(&image), &[&why, "use --live"]);
    expect_never_written(&bench, &first, &image, &["is mounted on"]);
    let why = format!("it is the disk behind {first_name}, and {first_name} is mounted on {}", point.display());
    expect_never_written(&bench, &text(&image), &image, &[&why]);
    // a loop device over another file on the same filesystem
    expect_writable(&bench, &other);
}

#[test]
fn guards_a_loop_device_with_an_offset_over_a_mounted_partition() {
    let Some(mut bench) = Bench::new("guard-offset") else { return };
    let image = bench.sparse_file("image", 34 << 20);
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    write_partition_table(&device);
    if run_tool("partx", &["-a", &device]).is_none() {
        return;
    }
    bench.run_at_end("partx", &["-d", &device]);
    if run_tool("mkfs.ext4", &["-q", &format!("{device}p1")]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&format!("{device}p1"), "point", READ_ONLY_MOUNT) else { return };
    let why = format!("p1 is mounted on {}", point.display());
    let sizes = ["--sizelimit", "16777216", "--offset"];
    let Some(over) = bench.attach_loop_device(&image, &[&sizes[..], &["1048576"]].concat()) else { return };
    expect_never_written(&bench, &over, &image, &[&why]);
    let Some(across) = bench.attach_loop_device(&image, &["--offset", "4194304"]) else { return };
    expect_never_written(&bench, &across, &image, &[&why]);
    expect_never_written(&bench, &device, &image, &[&why]);
    expect_never_written(&bench, &text(&image), &image, &[&why]);
    // a loop device over the bytes of the second partition, unused at first
    bench.detach(&across);
    let Some(beside) = bench.attach_loop_device(&image, &[&sizes[..], &["17825792"]].concat()) else { return };
    let open = File::open(&beside).expect("opens");
    expect_never_written(
        &bench,
        &format!("{device}p2"),
        &image,
        &["which is also behind", kernel_name(&beside), "has loop"],
    );
    drop(open);
    let before = fs::read(&image).expect("the image");
    expect_writable(&bench, &format!("{device}p2"));
    let after = fs::read(&image).expect("the image");
    assert_eq!(before[..17 << 20], after[..17 << 20], "the mounted neighbour");
    assert_ne!(before[17 << 20..], after[17 << 20..]);
}

#[test]
fn guards_a_partition_of_a_mounted_disk() {
    let Some(mut bench) = Bench::new("guard-whole") else { return };
    let image = bench.sparse_file("image", 34 << 20);
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    // ext4 leaves the first kilobyte alone
    if run_tool("mkfs.ext4", &["-q", "-F", &device]).is_none() {
        return;
    }
    write_partition_table(&device);
    if run_tool("partx", &["-a", &device]).is_none() {
        return;
    }
    bench.run_at_end("partx", &["-d", &device]);
    let Some(_point) = bench.mount(&device, "point", READ_ONLY_MOUNT) else { return };
    expect_never_written(&bench, &format!("{device}p2"), &image, &["p2 is a part of loop", "is mounted on"]);
}

#[test]
fn guards_a_loop_device_over_a_mounted_loop_device() {
    let Some(mut bench) = Bench::new("guard-over") else { return };
    let Some(image) = make_ext4_image(&bench, "image") else { return };
    let Some(below) = bench.attach_loop_device(&image, &[]) else { return };
    let Some(over) = bench.attach_loop_device(below.as_ref(), &[]) else { return };
    let Some(point) = bench.mount(&below, "point", READ_ONLY_MOUNT) else { return };
    let (over_name, name) = (kernel_name(&over), kernel_name(&below));
    let why = format!("{over_name} is built on {name}, and {name} is mounted on {}", point.display());
    expect_never_written(&bench, &over, &image, &[&why]);
    bench.undo_now("umount", &[&text(&point)]);
    let Some(point) = bench.mount(&over, "point", READ_ONLY_MOUNT) else { return };
    let why = format!("{name} is below {over_name}, and {over_name} is mounted on {}", point.display());
    expect_never_written(&bench, &below, &image, &[&why]);
    expect_never_written(&bench, &text(&image), &image, &[&format!("{over_name} is mounted on {}", point.display())]);
}

#[test]
fn guards_a_file_under_another_hard_link() {
    let Some(mut bench) = Bench::new("guard-links") else { return };
    let Some(image) = make_ext4_image(&bench, "image") else { return };
    let second = bench.path("second");
    fs::hard_link(&image, &second).expect("a second name");
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let Some(_point) = bench.mount(&device, "point", READ_ONLY_MOUNT) else { return };
    fs::remove_file(&image).expect("unlinked");
    let Some(over) = bench.attach_loop_device(&second, &[]) else { return };
    let why = format!("which is also behind {0}, and {0} is mounted on", kernel_name(&device));
    expect_never_written(&bench, &over, &second, &[&why]);
    expect_never_written(&bench, &text(&second), &second, &["it is the disk behind", "is mounted on"]);
    // a new file of the same size under the old name
    let image = bench.sparse_file("image", 16 << 20);
    write_at(&text(&image), 0, &[1; 4096]);
    expect_writable(&bench, &text(&image));
}

#[test]
fn guards_a_file_whose_path_was_mounted_over() {
    let Some(mut bench) = Bench::new("guard-covered") else { return };
    let (folder, other) = (bench.path("folder"), bench.path("other"));
    fs::create_dir_all(&folder).expect("a folder");
    fs::create_dir_all(&other).expect("a folder");
    let Some(image) = make_ext4_image(&bench, "folder/image") else { return };
    let bytes = fs::metadata(&image).expect("there").len();
    // a loop device over a file of that size in an overlay looks like the covered file and must not mislead the guard
    if mount_overlay(&mut bench).is_some() {
        let decoy = bench.sparse_file("merged/decoy", bytes);
        bench.attach_loop_device(&decoy, &[]);
    }
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let Some(_point) = bench.mount(&device, "point", READ_ONLY_MOUNT) else { return };
    if run_tool("mount", &["--bind", &text(&folder), &text(&other)]).is_none() {
        return;
    }
    bench.run_at_end("umount", &[&text(&other)]);
    // with shared mounts, the tmpfs over the folder would appear over its bind mount as well
    if run_tool("mount", &["--make-private", &text(&other)]).is_none() {
        return;
    }
    if run_tool("mount", &["-t", "tmpfs", "none", &text(&folder)]).is_none() {
        return;
    }
    bench.run_at_end("umount", &[&text(&folder)]);
    // another file of that size now has the old path
    bench.sparse_file("folder/image", bytes);
    let reached = other.join("image");
    let Some(over) = bench.attach_loop_device(&reached, &[]) else { return };
    let why = format!("which is also behind {0}, and {0} is mounted on", kernel_name(&device));
    expect_never_written(&bench, &over, &reached, &[&why]);
    expect_never_written(&bench, &text(&reached), &reached, &["it is the disk behind", "is mounted on"]);
    let covering = text(&image);
    write_at(&covering, 0, &[1; 4096]);
    let buffered = ["minread", covering.as_str(), "--buffered"];
    bench.measure(&buffered);
}

/// Mounts an overlay over folders of the bench: `lower`, `upper`, `merged`.
fn mount_overlay(bench: &mut Bench) -> Option<()> {
    for folder in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(bench.path(folder)).expect("a folder");
    }
    let place = |name: &str| text(&bench.path(name));
    let options = format!("lowerdir={},upperdir={},workdir={}", place("lower"), place("upper"), place("work"));
    let merged = place("merged");
    run_tool("mount", &["-t", "overlay", "overlay", "-o", &options, &merged])?;
    bench.run_at_end("umount", &[&merged]);
    Some(())
}

#[test]
fn guards_a_file_reached_through_an_overlay() {
    let Some(mut bench) = Bench::new("guard-overlay") else { return };
    fs::create_dir_all(bench.path("lower")).expect("a folder");
    let Some(image) = make_ext4_image(&bench, "lower/image") else { return };
    let twin = bench.path("lower/twin");
    fs::copy(&image, &twin).expect("a file beside it");
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let Some(_point) = bench.mount(&device, "point", READ_ONLY_MOUNT) else { return };
    if mount_overlay(&mut bench).is_none() {
        return;
    }
    let reached = bench.path("merged/image");
    assert_ne!(fs::metadata(&reached).expect("there").dev(), fs::metadata(&image).expect("there").dev());
    expect_never_written(&bench, &text(&reached), &image, &["it is the disk behind", "is mounted on"]);
    let Some(over) = bench.attach_loop_device(&reached, &["--read-only"]) else { return };
    let why = format!("which is also behind {0}, and {0} is mounted on", kernel_name(&device));
    bench.expect_refused(&["minread", &over], &text(&image), &[&why, "use --live"]);
    expect_never_written(&bench, &text(&image), &image, &["it is the disk behind", "is mounted on"]);
    // the same bytes in another file, reached through the folder and through the overlay
    expect_writable(&bench, &text(&twin));
    expect_writable(&bench, &text(&bench.path("merged/twin")));
}

#[test]
fn guards_the_lower_file_of_an_overlay_in_use() {
    let Some(mut bench) = Bench::new("guard-below") else { return };
    if mount_overlay(&mut bench).is_none() {
        return;
    }
    // created through the overlay, the file lies in the upper folder
    let Some(image) = make_ext4_image(&bench, "merged/image") else { return };
    let upper = bench.path("upper/image");
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let Some(_point) = bench.mount(&device, "point", READ_ONLY_MOUNT) else { return };
    expect_never_written(&bench, &text(&upper), &upper, &["it is the disk behind", "is mounted on"]);
    let Some(over) = bench.attach_loop_device(&upper, &[]) else { return };
    let why = format!("which is also behind {0}, and {0} is mounted on", kernel_name(&device));
    expect_never_written(&bench, &over, &upper, &[&why]);
    bench.detach(&over);
    // once it is unlinked in the overlay, only its size and birth time identify it
    let second = bench.path("upper-second");
    fs::hard_link(&upper, &second).expect("a second name");
    fs::remove_file(&image).expect("unlinked");
    let refused = ["behind", kernel_name(&device), "is mounted on"];
    expect_never_written(&bench, &text(&second), &second, &refused);
    // a file that a process has open through the overlay
    let other = bench.path("merged/other");
    fs::write(&other, vec![7; 1 << 20]).expect("a file");
    File::open(&other).and_then(|file| file.sync_all()).expect("on the disk");
    let writer = File::options().write(true).open(&other).expect("opens");
    let below = bench.path("upper/other");
    expect_never_written(&bench, &text(&below), &below, &[&format!("process {}", std::process::id()), "has it open"]);
    drop(writer);
    expect_writable(&bench, &text(&below));
}

#[test]
fn guards_a_loop_device_over_a_file_that_a_process_writes_to() {
    let Some(mut bench) = Bench::new("guard-writer") else { return };
    let image = bench.sparse_file("image", 16 << 20);
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let reader = File::open(&image).expect("opens");
    expect_writable(&bench, &device);
    drop(reader);
    let writer = File::options().write(true).open(&image).expect("opens");
    let why = format!("uses the file {}, and process {} (", image.display(), std::process::id());
    expect_never_written(&bench, &device, &image, &[&why, "open for writing"]);
    drop(writer);
    // a neighbour that is open for writing is no obstacle
    let _beside = File::options().write(true).open(bench.sparse_file("beside", 16 << 20)).expect("opens");
    expect_writable(&bench, &device);
}

#[test]
fn guards_a_device_that_is_open_through_another_node() {
    let Some(mut bench) = Bench::new("guard-node") else { return };
    let image = bench.sparse_file("image", 16 << 20);
    let Some(device) = bench.attach_loop_device(&image, &[]) else { return };
    let number = fs::metadata(&device).expect("there").rdev();
    let node = text(&bench.path("node"));
    let (major, minor) = (device_major(number).to_string(), device_minor(number).to_string());
    if run_tool("mknod", &[&node, "b", &major, &minor]).is_none() || File::open(&node).is_err() {
        return devices::report_skip("no device nodes work in the tests' folder");
    }
    let open = File::open(&node).expect("opens");
    let process = format!("process {}", std::process::id());
    expect_never_written(&bench, &device, &image, &[&process, "has it open"]);
    drop(open);
    if run_tool("mkfs.ext4", &["-q", &device]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&node, "point", READ_ONLY_MOUNT) else { return };
    expect_never_written(&bench, &device, &image, &["is mounted on"]);
    expect_never_written(&bench, &node, &image, &["is mounted on"]);
}

/// Major number of a device, as in `makedev(3)`.
fn device_major(number: u64) -> u64 {
    ((number >> 8) & 0xfff) | ((number >> 32) & 0xffff_f000)
}

/// Minor number of a device.
fn device_minor(number: u64) -> u64 {
    (number & 0xff) | ((number >> 12) & 0xffff_ff00)
}

/// Python that maps a file, closes it and sleeps.
const MAPPING_SCRIPT: &str = "import ctypes, os, sys, time\n\
    libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n\
    file = os.open(sys.argv[1], os.O_RDWR)\n\
    place = libc.mmap(None, ctypes.c_size_t(4096), 3, 1, file, ctypes.c_long(0))\n\
    os.close(file); print(place, flush=True); time.sleep(60)\n";

#[test]
fn guards_a_mapped_file_on_btrfs() {
    let Some(mut bench) = Bench::new("guard-mapped") else { return };
    let Some(disk) = bench.new_loop_device("disk", 128) else { return };
    if run_tool("mkfs.btrfs", &["-q", &disk]).is_none() {
        return;
    }
    let Some(point) = bench.mount(&disk, "btrfs", "rw") else { return };
    let volume = point.join("volume");
    if run_tool("btrfs", &["-q", "subvolume", "create", &text(&volume)]).is_none() {
        return;
    }
    let (file, beside) = (volume.join("data"), point.join("data"));
    for file in [&file, &beside] {
        fs::write(file, vec![7; 8 << 20]).expect("a file");
    }
    let Some(process) = bench.start_program("python3", &["-c", MAPPING_SCRIPT, &text(&file)]) else { return };
    // undone before the filesystem is unmounted
    bench.run_at_end("kill", &["-KILL", &process.to_string()]);
    let maps = || fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    if wait_up_to_10_s(|| maps().contains("/volume/data")).is_none() {
        return devices::report_skip("python3 maps nothing");
    }
    let mapper = format!("process {process} (python3)");
    expect_never_written(&bench, &text(&file), &file, &[&mapper, "runs from it", "or has it mapped"]);
    let Some(over) = bench.attach_loop_device(&file, &[]) else { return };
    expect_never_written(&bench, &over, &file, &[&mapper, "mapped"]);
    // files of other volumes may have the same inode number
    expect_writable(&bench, &text(&beside));
}

#[test]
fn guards_a_loop_device_over_a_swap_file() {
    let Some(mut bench) = Bench::new("guard-swap") else { return };
    let file = bench.path("swapfile");
    fs::write(&file, vec![0; 8 << 20]).expect("a file");
    let second = bench.path("second");
    fs::hard_link(&file, &second).expect("a second name");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
    if run_tool("mkswap", &[&text(&file)]).is_none() || run_tool("swapon", &["-p", "0", &text(&file)]).is_none() {
        return;
    }
    bench.run_at_end("swapoff", &[&text(&file)]);
    // the kernel may change its bytes, so they are not compared
    for name in [text(&file), text(&second)] {
        bench.expect_failure(
            &[WRITE_SUITE, &name, "--destroy-data-on", &name],
            &["it is swap", "no option allows writing to it"],
        );
    }
    let Some(device) = bench.attach_loop_device(&second, &[]) else { return };
    bench.expect_failure(
        &[WRITE_SUITE, &device, "--destroy-data-on", &device],
        &["is swap", "no option allows writing to it"],
    );
}

#[test]
fn guards_second_loop_devices_over_btrfs_members_and_swap() {
    let Some(mut bench) = Bench::new("guard-members") else { return };
    let (Some(first), Some(second)) = (bench.new_loop_device("first", 128), bench.new_loop_device("second", 128))
    else {
        return;
    };
    if run_tool("mkfs.btrfs", &["-q", "-d", "raid0", "-m", "raid1", &first, &second]).is_none() {
        return;
    }
    let Some(_point) = bench.mount(&first, "btrfs", "ro") else { return };
    let file = bench.path("second");
    expect_never_written(&bench, &second, &file, &["is a member of the btrfs"]);
    let Some(over) = bench.attach_loop_device(&file, &[]) else { return };
    expect_never_written(&bench, &over, &file, &["which is also behind", "is a member of the btrfs"]);
    expect_never_written(&bench, &text(&file), &file, &["it is the disk behind", "is a member of the btrfs"]);
    let swap = bench.sparse_file("swap", 16 << 20);
    let (Some(device), Some(again)) = (bench.attach_loop_device(&swap, &[]), bench.attach_loop_device(&swap, &[]))
    else {
        return;
    };
    if run_tool("mkswap", &[&device]).is_none() || run_tool("swapon", &["-p", "0", &device]).is_none() {
        return;
    }
    bench.run_at_end("swapoff", &[&device]);
    let why = format!("{} is swap", kernel_name(&device));
    bench
        .expect_failure(&[WRITE_SUITE, &again, "--destroy-data-on", &again], &[&why, "no option allows writing to it"]);
}

#[test]
fn guards_a_device_mounted_in_another_namespace() {
    let Some(mut bench) = Bench::new("guard-namespace") else { return };
    let Some(image) = make_ext4_image(&bench, "image") else { return };
    let (Some(first), Some(second)) = (bench.attach_loop_device(&image, &[]), bench.attach_loop_device(&image, &[]))
    else {
        return;
    };
    let point = bench.path("point");
    fs::create_dir_all(&point).expect("a folder");
    let script = "mount -o ro,noload \"$0\" \"$1\" && touch \"$2\" && exec sleep 60";
    let ready = text(&bench.path("ready"));
    let words = ["--mount", "sh", "-c", script, &first, &text(&point), &ready];
    let Some(process) = bench.start_program("unshare", &words) else { return };
    bench.run_at_end("kill", &["-KILL", &process.to_string()]);
    if wait_up_to_10_s(|| Path::new(&ready).exists()).is_none() {
        return devices::report_skip("no mount namespaces here");
    }
    let seen = format!("is mounted on {} (as process {process} sees it)", point.display());
    expect_never_written(&bench, &first, &image, &[&seen]);
    expect_never_written(&bench, &second, &image, &["which is also behind", &seen]);
}

#[test]
fn creates_nothing_in_kernel_folders() {
    let Some(bench) = Bench::new("guard-kernel") else { return };
    for path in ["/dev/no-such-disk", "/proc/no-such-disk", "/sys/block/no-such-disk", "/dev/../dev/no-such-disk"] {
        for suite in ["diskmax", "quick", WRITE_SUITE] {
            bench.expect_failure(&[suite, path], &["no file is created in /dev, /proc or /sys", path]);
            bench.expect_failure(&[suite, path, "--size", "2MB", "--keep"], &["no file is created in /dev"]);
            assert!(!Path::new(path).exists(), "{path}");
        }
    }
}
