//! Messages of the kernel beside what tools measured: what they decide, and what they do not.

use std::fmt::Write as _;
use std::fs;

use crate::common::{diskwright, folder, stderr, success};

const KILL: &str = "Out of memory: Killed process 812 (indexd) total-vm:900kB, anon-rss:800kB";

/// Reports of `iostat -dxt 5` on 2026-11-25 at 10 o'clock, of a disk with nothing to do.
fn dated_iostat() -> String {
    let mut text = "Linux 6.1.0 (pump7) \t11/25/2026 \t_x86_64_\t(4 CPU)\n\n".to_owned();
    for report in 0..12 {
        writeln!(text, "11/25/2026 10:00:{:02} AM\n{}", report * 5, idle_report()).expect("written");
    }
    text
}

fn idle_report() -> String {
    "Device            r/s     w/s     rkB/s     wkB/s   rrqm/s   wrqm/s r_await w_await aqu-sz %util\n\
     sdg              2.00    5.00     40.00     60.00     0.00     1.00    0.40    0.60   0.01  0.30\n"
        .to_owned()
}

fn answer_of(name: &str, text: &str) -> serde_json::Value {
    let path = folder(&format!("kernel-logs-{name}")).join(name);
    fs::write(&path, text).expect("written");
    let done = diskwright(&["why", path.to_str().expect("plain"), "--json"]);
    success(&done)
}

#[test]
fn events_of_days_before_decide_nothing() {
    for (index, line) in [
        format!("[Fri Nov 20 03:12:55 2026] {KILL}"),
        format!("Nov 20 03:12:55 pump7 kernel: {KILL}"),
        format!("2026-11-20T03:12:55,123456+01:00 {KILL}"),
        format!("<3>1 2026-11-20T03:12:55.003Z pump7 kernel - - - {KILL}"),
        "Nov 20 03:12:55 pump7 kernel: I/O error, dev sdg, sector 9".to_owned(),
        "[Fri Nov 20 03:12:55 2026] INFO: task jbd2/sdg1-8:3 blocked for more than 120 seconds.".to_owned(),
        "Nov 20 03:12:55 pump7 kernel: EXT4-fs (sdg1): Remounting filesystem read-only".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        for text in [format!("{}\n{line}\n{line}\n", dated_iostat()), format!("{line}\n{line}\n\n{}", dated_iostat())] {
            let answer = answer_of(&format!("old-{index}.txt"), &text);
            assert_eq!(answer["bottleneck"], "none", "{line}: {answer:#}");
            assert!(answer.to_string().contains("history"), "{line}: {answer:#}");
            assert_eq!(answer["window"]["ticks"], 11, "{line}: {answer:#}");
        }
    }
    let inside = format!("{}\n[Wed Nov 25 10:00:22 2026] {KILL}\n", dated_iostat());
    assert_eq!(answer_of("inside.txt", &inside)["bottleneck"], "memory");
}

#[test]
fn files_of_their_own_are_laid_beside_each_other_by_their_dates() {
    let folder = folder("kernel-logs-apart");
    let (log, measured) = (folder.join("dmesg.txt"), folder.join("iostat.txt"));
    fs::write(&log, format!("[Fri Nov 20 03:12:55 2026] {KILL}\n")).expect("written");
    fs::write(&measured, dated_iostat()).expect("written");
    let done = diskwright(&["why", log.to_str().expect("plain"), measured.to_str().expect("plain"), "--json"]);
    let answer = success(&done);
    assert_eq!(answer["bottleneck"], "none", "{answer:#}");
    assert!(!stderr(&done).contains("without dates"), "{}", stderr(&done));
}

#[test]
fn the_day_of_reports_and_the_uptime_place_events_too() {
    let reports =
        format!("Linux 6.1.0 (pump7) \t11/25/2026 \t_x86_64_\t(4 CPU)\n\n{}", (idle_report() + "\n").repeat(9));
    let other_day = format!("{reports}\n[Fri Nov 20 03:12:55 2026] {KILL}\n");
    assert_eq!(answer_of("other-day.txt", &other_day)["bottleneck"], "none");
    let same_day = format!("{reports}\n[Wed Nov 25 03:12:55 2026] {KILL}\n");
    assert_eq!(answer_of("same-day.txt", &same_day)["bottleneck"], "memory");
    let uptime = " 10:00:05 up 40 days,  3:02,  1 user,  load average: 0.10, 0.12, 0.09\n";
    for (seconds, wanted) in [(12_345, "none"), (3_466_900, "memory")] {
        let text = format!("$ uptime\n{uptime}{reports}\n[{seconds}.678901] {KILL}\n");
        assert_eq!(answer_of("uptime.txt", &text)["bottleneck"], wanted, "{seconds}");
    }
}

#[test]
fn sentences_that_quote_a_message_are_no_facts() {
    let text = format!(
        "I googled 'Out of memory: Killed process 812' but do not have it. A customer saw nfs: server vault3 not \
         responding last year.\nThe manual speaks of ata7: hard resetting link, too.\n\n{}",
        dated_iostat()
    );
    let answer = answer_of("quoted.txt", &text);
    assert_eq!(answer["bottleneck"], "none", "{answer:#}");
    assert_eq!(answer["findings"].as_array().map(Vec::len), Some(0), "{answer:#}");
}

#[test]
fn a_syslog_of_many_programs_is_read() {
    let mut text = String::new();
    for line in 0..1500 {
        writeln!(text, "Nov 25 10:{:02}:{:02} pump7 CRON[{line}]: (root) CMD (true)", line / 60, line % 60)
            .expect("written");
    }
    text += "Nov 25 10:59:01 pump7 kernel: [81234.5] I/O error, dev sdg, sector 9\n";
    let path = folder("kernel-logs-syslog").join("syslog");
    fs::write(&path, &text).expect("written");
    let done = diskwright(&["why", path.to_str().expect("plain"), "--json"]);
    let answer = success(&done);
    assert_eq!((answer["bottleneck"].as_str(), answer["instance"].as_str()), (Some("disk"), Some("sdg")));
    assert!(answer["confidence"].as_f64().is_some_and(|confidence| confidence <= 0.25), "{answer:#}");
    assert!(stderr(&done).contains("1,500 lines of other programs"), "{}", stderr(&done));
}
