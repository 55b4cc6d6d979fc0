//! What `plan --from` says of the log before it offers a disk: whether disks are what holds the machine back.

use crate::common::{diskwright, folder, success, text};
use crate::plan_from_logs::{number_at, write_nt_log};

#[test]
fn paging_is_told_before_any_disk_is_sold() {
    let log = write_nt_log(
        "plan-paging",
        &[
            ("PhysicalDisk(0)\\Avg. Disk Queue Length", 3.5),
            ("PhysicalDisk(0)\\Disk Reads/sec", 70.0),
            ("PhysicalDisk(0)\\Disk Writes/sec", 40.0),
            ("PhysicalDisk(0)\\Disk Bytes/sec", 900_000.0),
            ("PhysicalDisk(0)\\Avg. Disk sec/Transfer", 0.03),
            ("Memory\\Page Reads/sec", 60.0),
            ("Memory\\Page Writes/sec", 30.0),
            ("Memory\\Pages Input/sec", 180.0),
            ("Memory\\Available Bytes", 3e6),
        ],
    );
    let answer = success(&diskwright(&["plan", "--from", &log, "--json"]));
    assert_eq!(answer["verdict"]["bottleneck"], "memory", "{}", answer["verdict"]["sentence"]);
    // total bytes, divided by requests: 900,000 / 110
    assert!((number_at(&answer, "/demand/read_size_bytes") - 8_182.0).abs() < 2.0, "{}", answer["demand"]);
    let screen = diskwright(&["plan", "--from", &log]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    let [paging, design] = ["were page reads and writes", "Cheapest design"].map(|part| {
        screen.split_whitespace().collect::<Vec<_>>().join(" ").find(part).unwrap_or_else(|| panic!("{part}: {screen}"))
    });
    assert!(screen.starts_with("Before you buy: disks are not what holds this machine back."), "{screen}");
    assert!(paging < design, "{screen}");
}

/// NT Magazine's three disks. The log agrees that disks are short only if it shows that memory is not.
#[test]
fn disks_are_not_called_short_where_memory_was_not_seen() {
    let disk = [
        ("PhysicalDisk(0)\\Avg. Disk Queue Length", 16.0),
        ("PhysicalDisk(0)\\Disk Reads/sec", 126.0),
        ("PhysicalDisk(0)\\Disk Writes/sec", 73.0),
        ("PhysicalDisk(0)\\Avg. Disk sec/Transfer", 0.08),
        ("PhysicalDisk(0)\\% Disk Time", 100.0),
    ];
    let memory = [("Memory\\Available Bytes", 64e6), ("Memory\\Page Reads/sec", 0.1)];
    let screen_of = |name: &str, counters: &[(&str, f64)]| {
        let log = write_nt_log(name, counters);
        let screen = diskwright(&["plan", "--from", &log, "--array", "*=raid5:3:rotational"]);
        String::from_utf8_lossy(&screen.stdout).into_owned()
    };
    let screen = screen_of("plan-unseen", &disk);
    assert!(screen.starts_with("The log suggests that disks are short, and does not rule out memory."), "{screen}");
    assert!(screen.contains("typeperf"), "{screen}");
    let screen = screen_of("plan-seen", &[&disk[..], &memory].concat());
    assert!(screen.starts_with("The log agrees that disks are short."), "{screen}");
}

/// Screen of `plan --from` on one line.
fn plan_screen(arguments: &[&str]) -> String {
    let screen = diskwright(&[&["plan", "--from"], arguments].concat());
    assert!(screen.status.success(), "{}", String::from_utf8_lossy(&screen.stderr));
    String::from_utf8_lossy(&screen.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Compaq 1997: the change of a part that is not the limit gains nothing. Six disks on a channel of 5 MB/s.
#[test]
fn a_full_channel_is_no_lack_of_disks() {
    let log = folder("plan-narrow").join("log");
    let system = format!("{}/examples/systems/narrow-channel.toml", env!("CARGO_MANIFEST_DIR"));
    success(&diskwright(&["simulate", &system, "--out", text(&log), "--json"]));
    let answer = success(&diskwright(&["plan", "--from", text(&log), "--json"]));
    assert_eq!(answer["verdict"]["bottleneck"], "channel", "{}", answer["verdict"]);
    let screen = plan_screen(&[text(&log)]);
    assert!(screen.starts_with("Before you buy: the way to the disks is full"), "{screen}");
    assert!(screen.contains("A faster channel or controller, or a second one, helps."), "{screen}");
    assert!(!screen.contains("disks are short"), "{screen}");
}

/// One request at a time, each of which waits for the disk: `why` says that more disks do not help, and so does `plan`.
#[test]
fn waiting_for_single_requests_is_no_lack_of_disks() {
    let log = write_nt_log(
        "plan-latency",
        &[
            ("PhysicalDisk(0)\\Avg. Disk Queue Length", 0.95),
            ("PhysicalDisk(0)\\Disk Reads/sec", 78.0),
            ("PhysicalDisk(0)\\Disk Writes/sec", 1.0),
            ("PhysicalDisk(0)\\Avg. Disk Bytes/Transfer", 8192.0),
            ("PhysicalDisk(0)\\Avg. Disk sec/Transfer", 0.012),
            ("Memory\\Available Bytes", 64e6),
            ("Memory\\Page Reads/sec", 0.1),
        ],
    );
    let declared = ["--array", "*=single:rotational"];
    let answer = success(&diskwright(&[&["plan", "--from", &log, "--json"][..], &declared].concat()));
    assert_eq!(answer["verdict"]["bottleneck"], "disk", "{}", answer["verdict"]);
    let screen = plan_screen(&[&[log.as_str()][..], &declared].concat());
    assert!(screen.starts_with("Before you buy: single requests wait for a disk"), "{screen}");
    assert!(screen.contains("compare the mean response, not the number of disks"), "{screen}");
}
