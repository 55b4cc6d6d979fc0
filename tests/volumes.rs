//! Limits of cloud volumes: options, the metadata service of a cloud (by a stand-in), and money.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{command, diskwright, folder, json, stderr, success, text};

/// Two minutes of iostat: one disk with so many reads a second of 16 KiB, and so many requests in flight.
fn iostat_log(test: &str, reads: f64, queue: f64) -> PathBuf {
    let mut log = String::from("Linux 6.1.0 (cloud1) \t03/02/2026 \t_x86_64_\t(4 CPU)\n");
    for second in 0..120 {
        let (kib, wait_ms) = (reads * 16.0, queue / reads * 1000.0);
        let _ = write!(
            log,
            "\n03/02/2026 08:{:02}:{:02} AM\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          \
             1.00    0.00    1.00   20.00    0.00   78.00\n\nDevice:         rrqm/s   wrqm/s     r/s     w/s    \
             rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\nnvme1n1 0.00 0.00 {reads:.2} \
             0.00 {kib:.2} 0.00 32.00 {queue:.2} {wait_ms:.2} {wait_ms:.2} 0.00 0.10 90.00\n",
            second / 60,
            second % 60
        );
    }
    let path = folder(&format!("volumes-{test}")).join("iostat.txt");
    std::fs::write(&path, log).expect("a file");
    path
}

fn find<'a>(verdict: &'a Value, rule: &str) -> Option<&'a Value> {
    verdict["findings"].as_array().expect("findings").iter().find(|finding| finding["rule"] == rule)
}

#[test]
fn a_volume_at_its_limit_is_a_throttle_and_named_with_its_share() {
    let log = iostat_log("limit", 2970.0, 12.0);
    let verdict = success(&diskwright(&["why", text(&log), "--volume-type", "nvme1n1=gp3", "--json"]));
    assert_eq!((&verdict["bottleneck"], &verdict["instance"]), (&"throttle".into(), &"nvme1n1".into()));
    let finding = find(&verdict, "throttle.volume-limit").expect("the limit");
    let limit_from = finding["limit_from"].as_str().expect("words");
    assert!(limit_from.starts_with("99 % of its 3,000 requests/s on average"), "{limit_from}");
    assert!(limit_from.ends_with("(AWS EBS gp3, by --volume-type)"), "{limit_from}");
    let requests = &verdict["volumes"][0]["requests"];
    assert_eq!((&requests["limit_per_s"], &requests["credits"]), (&3000.0.into(), &Value::Null));
    // without the type, nothing is said of limits
    let plain = success(&diskwright(&["why", text(&log), "--json"]));
    assert!(plain.get("volumes").is_none() && find(&plain, "throttle.volume-limit").is_none());
    let screen = diskwright(&["why", text(&log), "--volume-type", "nvme1n1=gp3"]);
    let shown = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(shown.contains("Cloud volumes") && shown.contains("volume nvme1n1 (AWS EBS gp3): 99 % of its"), "{shown}");
}

#[test]
fn near_a_limit_is_a_warning_and_no_bottleneck() {
    let log = iostat_log("near", 2600.0, 0.4);
    let verdict = success(&diskwright(&["why", text(&log), "--volume-type", "nvme1n1=gp3", "--json"]));
    let finding = find(&verdict, "volume.near-limit").expect("a warning");
    assert_eq!(finding["severity"], "warning");
    assert_ne!(verdict["bottleneck"], "throttle");
}

/// gp2 of 100 GiB: 300 requests/s and 5.4 million credits. At 1,500 requests/s for 119 s (the first report has no
/// length), a bucket that was full has 5,400,000 - 1,200 x 119 left, which last as much divided by 1,200.
#[test]
fn minutes_of_burst_are_a_range_because_the_level_at_first_is_not_known() {
    let log = iostat_log("burst", 1500.0, 0.4);
    let verdict = success(&diskwright(&["why", text(&log), "--volume-type", "nvme1n1=gp2:100GiB", "--json"]));
    assert!(find(&verdict, "volume.draws-credits").is_some());
    let credits = &verdict["volumes"][0]["requests"]["credits"];
    let left_s = credits["left_s"].as_array().expect("a range");
    assert_eq!(left_s[0], 0.0);
    let most = left_s[1].as_f64().expect("a time");
    assert!((4370.0..4390.0).contains(&most), "{most}");
    let sentence = verdict["volumes"][0]["sentence"].as_str().expect("words");
    assert!(
        sentence.contains("last at most 72 minutes more at this rate, then it has 300 requests/s")
            || sentence.contains("last at most 73 minutes more"),
        "{sentence}"
    );
}

#[test]
fn a_volume_that_is_held_to_its_baseline_has_no_credits_left() {
    let log = iostat_log("spent", 302.0, 8.0);
    let verdict = success(&diskwright(&["why", text(&log), "--volume-type", "nvme1n1=gp2:100GiB", "--json"]));
    assert_eq!(verdict["bottleneck"], "throttle");
    assert!(find(&verdict, "throttle.volume-burst-spent").is_some());
    assert_eq!(verdict["volumes"][0]["requests"]["credits"]["was_spent"], true);
}

#[test]
fn an_instance_has_limits_of_its_own_or_that_is_said() {
    let log = iostat_log("instance", 3590.0, 12.0);
    let with = |instance: &str| {
        let options = ["--volume-type", "nvme1n1=gp3:500GiB:10000", "--instance-type", instance, "--json"];
        success(&diskwright(&[&["why", text(&log)], options.as_slice()].concat()))
    };
    let known = with("m6i.large");
    assert!(find(&known, "throttle.instance-burst-spent").is_some(), "3,600 requests/s are sustained");
    assert_eq!(known["cloud_instance"]["requests"]["limit_per_s"], 3600.0);
    let unknown = with("z99.large");
    assert_eq!(unknown["cloud_instance"]["sentence"], "instance z99.large: its limits are not known");
}

#[test]
fn wrong_types_are_usage_errors() {
    let log = iostat_log("wrong", 100.0, 0.1);
    let cases = [
        ("nvme1n1=gp9", "unknown type"),
        ("sdz=gp3", "no disk `sdz`"),
        ("nvme1n1=gp2", "depend on its size"),
        ("nvme1n1", "such as sda=gp3:500GiB"),
    ];
    for (given, says) in cases {
        let output = diskwright(&["why", text(&log), "--volume-type", given]);
        assert_eq!(output.status.code(), Some(2), "{given}");
        assert!(stderr(&output).contains(says), "{given}: {}", stderr(&output));
    }
    let cloud = diskwright(&["why", text(&log), "--cloud", "aws"]);
    assert_eq!(cloud.status.code(), Some(2));
}

/// 13,000 requests/s x 0.005 and 875 MiB/s x 0.04 USD a month.
#[test]
fn what_is_provisioned_and_never_used_is_money_a_month() {
    let log = iostat_log("money", 272.0, 0.1);
    let volume = "nvme1n1=gp3:500GiB:16000:1000";
    let options = ["--volume-type", volume, "--demand-only", "--json"];
    let plan = success(&diskwright(&[&["plan", "--from", text(&log)], options.as_slice()].concat()));
    let unused = &plan["provisioned"][0];
    assert_eq!(unused["unused_requests_per_s"], 13_000.0);
    let month = unused["unused_month"].as_f64().expect("a price");
    assert!((month - 100.0).abs() < 1e-6, "{month}");
    let shown = diskwright(&["plan", "--from", text(&log), "--volume-type", volume, "--demand-only"]);
    let shown = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("Provisioned and never used") && shown.contains("100.00 USD a month"), "{shown}");
}

/// A stand-in for the instance metadata service of Azure; it is no cloud. It answers for as long as the test runs.
fn azure_stand_in() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"vmSize":"Standard_D8s_v5","storageProfile":{"dataDisks":[]}}"#;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + body).as_bytes());
        }
    });
    address
}

fn record_two_ticks(log: &Path, cloud: &str, address: &str) -> Value {
    let options = ["record", text(log), "--for", "2s", "--every", "1s", "--cloud", cloud, "--json"];
    json(&command(&options).env("DISKWRIGHT_METADATA_URL", address).output().expect("the program runs"))
}

#[test]
fn a_log_keeps_what_a_stand_in_of_a_cloud_tells() {
    let address = azure_stand_in();
    let log = folder("volumes-azure").join("log");
    record_two_ticks(&log, "azure", &address);
    let verdict = success(&diskwright(&["why", text(&log), "--json"]));
    let instance = &verdict["cloud_instance"];
    assert_eq!((&instance["type"], &instance["provider"]), (&"Standard_D8s_v5".into(), &"azure".into()));
    assert_eq!(instance["told_by"], "Azure instance metadata");
    // nobody is asked, or nobody may be
    let none = folder("volumes-none").join("log");
    record_two_ticks(&none, "none", &address);
    assert!(success(&diskwright(&["why", text(&none), "--json"])).get("cloud_instance").is_none());
    let far = folder("volumes-far").join("log");
    record_two_ticks(&far, "azure", "http://192.0.2.1");
    let verdict = success(&diskwright(&["why", text(&far), "--json"]));
    let notes = verdict["notes"].as_array().expect("notes");
    assert!(
        notes.iter().any(|note| note["text"].as_str().is_some_and(|text| text.contains("no link-local"))),
        "{notes:?}"
    );
}
