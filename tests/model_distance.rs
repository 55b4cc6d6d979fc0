//! Disks beside their models in the catalogue: in `why`, `plan --from` and `probe`.

use std::fs;

use crate::common::{diskwright, folder, stderr, success, text};
use crate::plan_from_logs::write_nt_log;

/// A disk of 1997 that eight users read at random places without a pause.
const BUSY_DISK: &str = "[watch]\nwarm_up = \"5s\"\nduration = \"90s\"\n[[drive]]\nname = \"data\"\n\
                         model = \"st32171w\"\n[[workload]]\nusers = 8\nsize = \"4KB\"\n";

#[test]
fn a_blamed_disk_is_put_beside_its_model_and_beside_a_declared_one() {
    let folder = folder("model-distance");
    let (system, log) = (folder.join("system.toml"), folder.join("log"));
    fs::write(&system, BUSY_DISK).expect("written");
    success(&diskwright(&["simulate", text(&system), "--out", text(&log), "--json"]));
    for command in [["why"].as_slice(), &["plan", "--demand-only", "--from"]] {
        let ask = |more: &[&str]| diskwright(&[command, &[text(&log)], more].concat());
        let found = success(&ask(&["--json"]))["model_distances"][0].clone();
        assert_eq!(
            (&found["device"], &found["drive"], &found["is_far"]),
            (&"data".into(), &"st32171w".into(), &false.into())
        );
        assert!(found["slower_share"].as_f64().is_some_and(|share| share.abs() < 0.15), "{found}");
        // declared as a disk of 15,000 rpm, which does more than twice as much
        let declared = ["--drive", "data=st3600057ss"];
        let found = success(&ask(&[&declared[..], &["--json"]].concat()))["model_distances"][0].clone();
        assert_eq!((&found["drive"], &found["is_far"]), (&"st3600057ss".into(), &true.into()), "{found}");
        let screen = String::from_utf8_lossy(&ask(&declared).stdout).into_owned();
        assert!(screen.contains("Disks beside their models") && screen.contains("data (Seagate Cheetah"), "{screen}");
        let unknown = ask(&["--drive", "data=st3600057sx"]);
        assert_eq!(unknown.status.code(), Some(2));
        assert!(stderr(&unknown).contains("did you mean `st3600057ss`?"), "{}", stderr(&unknown));
    }
}

/// Windows NT 4 has no % Idle Time: the queue tells whether the disk was at work, and if it does not, that is said.
#[test]
fn a_disk_of_a_log_without_busy_times_is_compared_by_its_queue() {
    let log = |name: &str, queue: f64, reads: f64, writes: f64| {
        write_nt_log(
            name,
            &[
                (r"PhysicalDisk(0)\Avg. Disk Queue Length", queue),
                (r"PhysicalDisk(0)\% Disk Time", 100.0),
                (r"PhysicalDisk(0)\Disk Reads/sec", reads),
                (r"PhysicalDisk(0)\Disk Writes/sec", writes),
                (r"PhysicalDisk(0)\Disk Read Bytes/sec", reads * 8192.0),
                (r"PhysicalDisk(0)\Disk Write Bytes/sec", writes * 8192.0),
            ],
        )
    };
    let screen = |log: &str| {
        let shown = diskwright(&["why", log, "--drive", "0=st32171w"]);
        String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let slow = log("model-queue", 4.8, 60.0, 0.0);
    let found = success(&diskwright(&["why", &slow, "--drive", "0=st32171w", "--json"]));
    let found = &found["model_distances"][0];
    assert_eq!((&found["drive"], &found["by_queue"]), (&"st32171w".into(), &true.into()), "{found}");
    assert!(found["slower_share"].as_f64().is_some_and(|share| share > 0.25), "{found}");
    assert!(screen(&slow).contains("by its queue: the log has no busy time"), "{}", screen(&slow));
    let quiet = screen(&log("model-quiet", 1.2, 60.0, 0.0));
    assert!(quiet.contains("not compared: the log does not show when it was at work"), "{quiet}");
    let writes = screen(&log("model-writes", 4.8, 30.0, 30.0));
    assert!(writes.contains("not compared: too many of its requests were writes"), "{writes}");
}

#[test]
fn a_probed_file_is_put_beside_a_declared_drive() {
    let target = folder("model-distance-probe").join("probe.dat");
    let probe = |more: &[&str]| {
        let basic = ["probe", "depth", text(&target), "--size", "8MB", "--for", "50ms", "--ramp", "0", "--json"];
        diskwright(&[&basic[..], more].concat())
    };
    let answer = success(&probe(&["--drive", "st18000nm000j"]));
    let remarks = answer["remarks"].as_array().expect("remarks");
    let beside = remarks.iter().find(|remark| remark["id"] == "beside_model").expect("compared");
    assert!(beside["text"].as_str().is_some_and(|text| text.contains("Seagate Exos X18")), "{beside}");
    assert!(beside["value"].is_number() && beside["unit"] == "fraction", "{beside}");
    assert_eq!(probe(&["--drive", "st9"]).status.code(), Some(2));
}
