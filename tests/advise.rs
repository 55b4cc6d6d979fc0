//! The command `advise`: another host given as a folder, host settings in a log, undone changes, exit codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{folder, json, stderr, success, text};

fn run_advise(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    command.arg("advise").args(arguments).env("DISKWRIGHT_STATE", state).env("TZ", "UTC");
    command.output().expect("the program runs")
}

/// Creates a folder that stands for a host with one disk whose statistics are off; returns its root.
fn create_host_folder(folder: &Path) -> std::path::PathBuf {
    let root = folder.join("host");
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put("proc/sys/kernel/osrelease", "6.1.0\n");
    put("proc/sys/vm/zone_reclaim_mode", "0\n");
    put("proc/7/comm", "postgres\n");
    put("sys/block/sda/size", "1000000\n");
    put("sys/block/sda/dev", "8:0\n");
    put("sys/block/sda/queue/iostats", "0\n");
    put("sys/block/sda/queue/rotational", "1\n");
    root
}

#[test]
fn advises_another_host_from_a_folder_and_fails_at_the_chosen_severity() {
    let bench = folder("advise_folder");
    let root = create_host_folder(&bench);
    let document = success(&run_advise(&bench, &["--root", text(&root), "--json"]));
    assert_eq!(document["schema"], "diskwright.advice/1");
    assert_eq!((document["role"].as_str(), document["role_from"].as_str()), (Some("database"), Some("postgres")));
    assert_eq!(document["items"][0]["id"], "queue.iostats@sda");
    assert_eq!(document["items"][0]["undo"], "echo '0' > /sys/block/sda/queue/iostats");
    assert!(document["unknown"].as_array().is_some_and(|unknown| !unknown.is_empty()));
    assert_eq!(run_advise(&bench, &["--root", text(&root), "--fail-on", "warning"]).status.code(), Some(1));
    assert_eq!(run_advise(&bench, &["--root", text(&root), "--fail-on", "critical"]).status.code(), Some(0));
    assert_eq!(run_advise(&bench, &["--root", text(&root), "--fail-on", "grave"]).status.code(), Some(2));
    // an ignored item stays ignored until --unignore
    success(&run_advise(&bench, &["--root", text(&root), "--ignore", "queue.iostats", "--json"]));
    let ignored = success(&run_advise(&bench, &["--root", text(&root), "--json"]));
    assert_eq!((ignored["ignored"].as_u64(), ignored["items"].as_array().map(Vec::len)), (Some(1), Some(0)));
    let again = success(&run_advise(&bench, &["--root", text(&root), "--unignore", "queue.iostats", "--json"]));
    assert_eq!(again["items"][0]["id"], "queue.iostats@sda");
    let wrong = run_advise(&bench, &["--root", text(&root), "--apply", "queue.iostats@sda"]);
    assert!(!wrong.status.success() && stderr(&wrong).contains("cannot be used with"), "{}", stderr(&wrong));
    let wrong = run_advise(&bench, &["--ignore", "queue.iostat"]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("queue.iostats"), "{}", stderr(&wrong));
    for (words, expected) in [
        (&["--diff", "--fail-on", "info"][..], "--fail-on is for the list of items"),
        (&["--save", "--ignore", "queue.iostats"], "--ignore is for the list of items"),
        (&["--undo", "queue.iostats", "log"], "are about this host"),
    ] {
        let wrong = run_advise(&bench, words);
        assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains(expected), "{words:?}: {}", stderr(&wrong));
    }
    let wrong = run_advise(&bench, &["--role", "databse"]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("database"), "{}", stderr(&wrong));
}

#[test]
fn gives_each_disk_of_an_item_its_own_command() {
    let bench = folder("advise_disks");
    let root = create_host_folder(&bench);
    for (number, disk) in ["sdb", "sdc", "sdd", "sde"].into_iter().enumerate() {
        let block = root.join("sys/block").join(disk);
        fs::create_dir_all(block.join("queue")).expect("a folder");
        let dev = format!("8:{}\n", 16 * (number + 1));
        for (file, content) in
            [("size", "1000000\n"), ("dev", dev.as_str()), ("queue/iostats", "0\n"), ("queue/rotational", "1\n")]
        {
            fs::write(block.join(file), content).expect("a file");
        }
    }
    let screen = run_advise(&bench, &["--root", text(&root)]);
    let screen = String::from_utf8_lossy(&screen.stdout);
    assert!(screen.contains("queue.iostats on sda, sdb, sdc and 2 more"), "{screen}");
    for disk in ["sda", "sdb", "sdc"] {
        assert!(screen.contains(&format!("apply: echo '1' > /sys/block/{disk}/queue/iostats")), "{screen}");
        assert!(screen.contains(&format!("undo: echo '0' > /sys/block/{disk}/queue/iostats")), "{screen}");
    }
    assert!(screen.contains("apply: the same for 2 more; --json has all commands"), "{screen}");
}

#[test]
fn reads_host_settings_from_a_log() {
    let bench = folder("advise_log");
    let log = bench.join("log");
    let recorded = crate::common::diskwright(&["record", text(&log), "--every", "500ms", "--for", "2s"]);
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let document = success(&run_advise(&bench, &[text(&log), "--json"]));
    assert_eq!(document["from"], "the log");
    // the settings were noted before this window and still apply in it
    let end = success(&run_advise(&bench, &[text(&log), "--from", "-1s", "--json"]));
    assert_eq!((end["from"].as_str(), end["remarks"].as_array().map(Vec::len)), (Some("the log"), Some(0)), "{end}");
    assert!(document["well"].as_u64().is_some_and(|well| well > 3), "{document}");
    // the log is of this host, so that its items could be applied; this item is not among them
    let wrong = run_advise(&bench, &[text(&log), "--apply", "queue.iostats@nothing"]);
    assert!(!wrong.status.success() && stderr(&wrong).contains("queue.iostats@nothing"), "{}", stderr(&wrong));
}

/// Other recorders may run on this machine at the same time, so that the log need not be this one.
#[test]
fn finds_the_log_that_is_being_recorded_here() {
    let bench = folder("advise_live");
    let log = bench.join("log");
    let arguments = ["record", text(&log), "--every", "200ms"];
    let mut recorder = crate::common::command(&arguments).spawn().expect("the program runs");
    let advise = || success(&run_advise(&bench, &["--json"]));
    crate::common::wait_until("a log that is recorded", || advise()["log"].is_string());
    let document = advise();
    let found = document["log"].as_str().expect("a log").to_owned();
    let remarks = document["remarks"].to_string();
    assert!(remarks.contains("was used, its last 5 minutes") && remarks.contains(&found), "{document}");
    assert!(found == text(&log) || remarks.contains("other log"), "{found}: {document}");
    assert!(document["verdict"]["sentence"].is_string() && document["from"] == "this host", "{document}");
    let without = success(&run_advise(&bench, &["--no-log", "--json"]));
    assert!(without["log"].is_null() && without["verdict"].is_null(), "{without}");
    crate::common::interrupt(&recorder);
    recorder.wait().expect("it ends");
}

/// Two disks with the same wrong setting: that of the blamed one comes first.
#[test]
fn puts_what_bears_on_the_verdict_first_and_says_so() {
    let bench = folder("advise_bears");
    let root = create_host_folder(&bench);
    for (disk, dev) in [("sda", "8:0\n"), ("sdb", "8:16\n")] {
        let block = root.join("sys/block").join(disk);
        fs::create_dir_all(block.join("queue")).expect("a folder");
        for (file, content) in
            [("size", "1000000\n"), ("dev", dev), ("queue/nomerges", "2\n"), ("queue/rotational", "1\n")]
        {
            fs::write(block.join(file), content).expect("a file");
        }
    }
    let log = crate::compare::write_log(&bench.join("log"), 300, 1, |_| 200.0, |_| 0.03, |_| 0.5);
    let document = success(&run_advise(&bench, &[text(&log), "--root", text(&root), "--json"]));
    let blamed = &document["verdict"]["bottlenecks"][0];
    assert_eq!((&blamed["bottleneck"], &blamed["instance"]), (&"disk".into(), &"sda".into()), "{document}");
    let items = document["items"].as_array().expect("a list");
    assert_eq!((&items[0]["id"], &items[0]["bears_on"]), (&"queue.nomerges@sda".into(), &"disk sda".into()));
    let other = items.iter().find(|item| item["id"] == "queue.nomerges@sdb").expect("the other disk");
    assert!(other["bears_on"].is_null(), "{other}");
    let screen = run_advise(&bench, &[text(&log), "--root", text(&root)]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("verdict: ") && screen.contains("bears on the verdict: disk sda"), "{screen}");
    let without = success(&run_advise(&bench, &["--root", text(&root), "--json"]));
    assert!(without["items"].as_array().expect("a list").iter().all(|item| item["bears_on"].is_null()), "{without}");
}

#[test]
fn compares_with_the_saved_settings_and_undoes_only_applied_items() {
    let bench = folder("advise_saved");
    assert_eq!(run_advise(&bench, &["--diff"]).status.code(), Some(1));
    success(&run_advise(&bench, &["--save", "--json"]));
    assert_eq!(json(&run_advise(&bench, &["--diff", "--json"]))["schema"], "diskwright.advice-diff/1");
    let saved = bench.join("advice/baseline.json");
    let other = fs::read_to_string(&saved).expect("kept").replacen(
        "proc/sys/vm/swappiness\": \"",
        "proc/sys/vm/swappiness\": \"1",
        1,
    );
    fs::write(&saved, other).expect("changed");
    let changes = json(&run_advise(&bench, &["--diff", "--json"]));
    let swappiness =
        changes["changes"].as_array().expect("a list").iter().any(|c| c["what"] == "/proc/sys/vm/swappiness");
    assert!(swappiness, "{changes}");
    let undone = run_advise(&bench, &["--undo", "memory.swappiness"]);
    assert!(undone.status.code() == Some(1) && stderr(&undone).contains("not applied"), "{}", stderr(&undone));
}

/// Model names and mount points come from outside and may hold escape sequences.
#[test]
fn escapes_control_characters_of_device_names_and_mounts() {
    let bench = folder("advise_hostile");
    let root = create_host_folder(&bench);
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put("sys/block/sda/device/model", "SSD \u{1b}]0;owned\u{7}\u{9b}31m");
    put("sys/block/sda/sda1/partition", "1\n");
    put("sys/block/sda/sda1/start", "63\n");
    put("sys/block/sda/sda1/size", "900000\n");
    put("sys/block/sda/sda1/dev", "8:1\n");
    put("sys/class/dmi/id/product_name", "\u{1b}[2Jmachine");
    put(
        "proc/self/mountinfo",
        "21 1 8:1 / /a\\012Nothing\\040is\\040worth\\033[31m rw - ext4 /dev/sda1 rw,nobarrier\n",
    );
    for arguments in [&["--all"][..], &[], &["--json"], &["--fail-on", "critical"]] {
        let output = run_advise(&bench, &[&["--root", text(&root)], arguments].concat());
        let all = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        let raw: Vec<char> = all.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(raw.is_empty(), "{arguments:?}: {raw:?}\n{all}");
        assert!(!all.lines().any(|line| line.starts_with("Nothing")), "{all}");
    }
    let document = success(&run_advise(&bench, &["--root", text(&root), "--json"]));
    let items = document["items"].as_array().expect("a list");
    let barriers = items.iter().find(|item| item["check"] == "filesystem.barriers").expect("an item");
    let apply = barriers["apply"].as_str().expect("a command");
    assert!(apply.starts_with(r"mount -o remount,barrier $'/a\x0aNothing is worth\x1b[31m'"), "{apply}");
}

#[test]
fn reports_damaged_state_files_without_changing_them() {
    let bench = folder("advise_damaged");
    let root = create_host_folder(&bench);
    success(&run_advise(&bench, &["--save", "--json"]));
    let state = bench.join("advice");
    for broken in ["", "{", "[1, 2]", "\u{0}\u{1b}[31m", "null"] {
        for file in ["applied.json", "ignored.json", "baseline.json"] {
            fs::write(state.join(file), broken).expect("written");
        }
        for (arguments, file) in [
            (&["--diff"][..], "baseline.json"),
            (&["--undo", "memory.swappiness"], "applied.json"),
            (&["--root", text(&root), "--ignore", "queue.iostats"], "ignored.json"),
        ] {
            let output = run_advise(&bench, arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {broken:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(file) && stderr(&output).contains("is damaged"), "{}", stderr(&output));
            assert_eq!(fs::read_to_string(state.join(file)).expect("still there"), broken);
        }
        // a command that only reads still answers, with a remark on the damaged file
        let document = success(&run_advise(&bench, &["--root", text(&root), "--json"]));
        assert_eq!(document["items"][0]["id"], "queue.iostats@sda");
        let here = success(&run_advise(&bench, &["--json"]));
        let remarks = |document: &serde_json::Value| document["remarks"].to_string();
        assert!(remarks(&document).contains("ignored.json"), "{document}");
        // applied.json is about this host, so the answer on the folder does not mention it
        assert!(!remarks(&document).contains("applied.json") && remarks(&here).contains("applied.json"), "{here}");
    }
}
