//! What people paste: several tools in one text, with prompts and marks of posting, from a file or standard input.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{command, diskwright, folder, stderr, success};

const PROMPT: &str = "[root@host3 ~]# ";

/// Rows of `vmstat 5`: tasks that are blocked, and much waiting.
fn vmstat_text() -> String {
    let mut text = format!(
        "{PROMPT}vmstat 5\n\
         procs -----------memory---------- ---swap-- -----io---- -system-- ----cpu----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n"
    );
    for row in 0..20 {
        writeln!(
            text,
            " 1  9      0 {} 20000 300000    0    0   100  {}  800  900  3  4 13 80",
            60_000 + row,
            600 + row
        )
        .expect("written");
    }
    text
}

/// Reports of `iostat -x 5`: a disk that is always busy, with 30 ms a request.
fn iostat_text() -> String {
    let mut text = format!("{PROMPT}iostat -x 5\nLinux 5.9.1 (host3) \t09/08/2024 \t_x86_64_\t(4 CPU)\n\n");
    for report in 0..20 {
        let writes = 80 + report % 5;
        writeln!(
            text,
            "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
             3.00    0.00    4.00   80.00    0.00   13.00\n\n\
             Device   r/s   w/s   rkB/s   wkB/s   rrqm/s   wrqm/s r_await w_await aqu-sz  svctm  %util\n\
             sdq     2.00  {writes}.00  16.00  660.00   0.00   12.00   31.00   95.00   8.50  11.00 100.00\n"
        )
        .expect("written");
    }
    text
}

#[test]
fn tools_in_one_text_are_judged_together() {
    let folder = folder("pasted-text");
    let text = format!(
        "Since this morning it is slow:\n\n{}\n{}{PROMPT}lsblk -d\nNAME MAJ:MIN\nsdq 8:0\n",
        vmstat_text(),
        iostat_text()
    );
    let quoted: String = text.lines().map(|line| format!("> {line}\n")).collect();
    for (name, text) in [("plain.txt", &text), ("quoted.txt", &quoted)] {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        let done = diskwright(&["why", path.to_str().expect("plain"), "--json"]);
        let answer = success(&done);
        assert_eq!(answer["bottleneck"], "disk", "{name}: {answer:#}");
        assert_eq!(answer["instance"], "sdq", "{name}");
        // 20 reports of 5 s: the first of vmstat is like the next, so it is none since boot
        assert_eq!(answer["window"]["ticks"], 20, "{name}: {}", stderr(&done));
        for part in ["(vmstat)", "(iostat)", "not read here"] {
            assert!(stderr(&done).contains(part), "{name}: {part}: {}", stderr(&done));
        }
    }
}

#[test]
fn two_tools_that_contradict_each_other_are_both_shown() {
    let folder = folder("pasted-contradiction");
    let idle = iostat_text()
        .replace("80.00    0.00   13.00", " 0.30    0.00   92.70")
        .replace("31.00   95.00   8.50  11.00 100.00", " 0.00    0.40   0.00   0.10   0.20")
        .replace(".00   16.00  660.00", ".00    0.00    8.00");
    let path = folder.join("both.txt");
    fs::write(&path, vmstat_text() + &idle).expect("written");
    let answer = success(&diskwright(&["why", path.to_str().expect("plain"), "--json"]));
    assert_eq!(answer["bottleneck"], "unknown", "{answer:#}");
    let sentence = answer["sentence"].as_str().expect("text");
    assert!(sentence.contains("not for the disks shown") && sentence.contains("sdq"), "{sentence}");
    let notes = answer["notes"].to_string();
    assert!(notes.contains("iowait is 80 %") && notes.contains("0.3 %"), "{notes}");
}

#[test]
fn standard_input_is_read_as_a_file() {
    let text = format!("{}{}", vmstat_text(), iostat_text());
    let mut child = command(&["why", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let done = child.wait_with_output().expect("ended");
    assert_eq!(success(&done)["bottleneck"], "disk", "{}", stderr(&done));
}

#[test]
fn one_unreadable_file_does_not_end_the_reading_of_others() {
    let folder = folder("pasted-unreadable");
    let (log, other) = (folder.join("iostat.txt"), folder.join("words.txt"));
    fs::write(&log, iostat_text()).expect("written");
    fs::write(&other, "nothing but words\n").expect("written");
    let [log, other] = [log, other].map(|path| path.to_str().expect("plain").to_owned());
    let done = diskwright(&["why", &log, &other, "--json"]);
    assert_eq!(success(&done)["bottleneck"], "disk");
    assert!(stderr(&done).contains("words.txt") && stderr(&done).contains("(left out)"), "{}", stderr(&done));
    // a name that is wrong is a mistake, and so is a log that cannot be read alone
    assert_eq!(diskwright(&["why", &log, "/nonexistent"]).status.code(), Some(1));
    assert_eq!(diskwright(&["why", &other]).status.code(), Some(1));
}

#[test]
fn what_to_run_elsewhere_is_printed_and_its_output_is_read() {
    let block = diskwright(&["why", "--how", "linux"]);
    assert!(block.status.success(), "{}", stderr(&block));
    // a fifth of the time, and a machine without sysstat
    let block =
        String::from_utf8(block.stdout).expect("text").replace("n=10", "n=2").replace("command -v iostat", "false");
    let run = Command::new("sh").arg("-c").arg(&block).output().expect("a shell");
    let folder = folder("pasted-how");
    let path = folder.join("output.txt");
    fs::write(&path, &run.stdout).expect("written");
    let done = diskwright(&["why", path.to_str().expect("plain"), "--json"]);
    let verdict = success(&done);
    assert!(verdict["bottleneck"].is_string(), "{verdict}");
    assert!(!stderr(&done).contains("left out"), "{}", stderr(&done));

    let document = success(&diskwright(&["why", "--how", "SmartOS", "--json"]));
    assert_eq!((&document["schema"], &document["id"]), (&"diskwright.how/1".into(), &"solaris".into()));
    let unknown = diskwright(&["why", "--how", "windws"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean `windows`?"), "{}", stderr(&unknown));
    assert_eq!(diskwright(&["why", "--how", "linux", "log"]).status.code(), Some(2));
}

/// A table of iostat with a busy disk and an idle one, whose row may be changed.
fn disk_table(change: impl Fn(&str) -> String) -> String {
    let busy = "sdq     2.00  81.00  16.00  660.00   0.00   12.00   31.00   95.00   8.50  11.00 100.00";
    format!(
        "Device   r/s   w/s   rkB/s   wkB/s   rrqm/s   wrqm/s r_await w_await aqu-sz  svctm  %util\n\
         sdr     0.00   0.00   0.00    0.00   0.00    0.00    0.00    0.00   0.00   0.00   0.00\n{}\n",
        change(busy)
    )
}

#[test]
fn a_quiet_run_does_not_hide_a_busy_one() {
    let folder = folder("pasted-runs");
    let quiet: String = vmstat_text()
        .lines()
        .map(|line| match line.strip_prefix(" 1  9") {
            Some(rest) => format!(" 0  0{}\n", rest.replace("  3  4 13 80", "  1  1 98  0")),
            None => format!("{line}\n"),
        })
        .collect();
    let run =
        |text: &str, rows: usize| text.lines().skip(1).take(2 + rows).map(|l| format!("{l}\n")).collect::<String>();
    let text = format!(
        "This is how it was in the morning:\n\n{}\nand this is how it is since the change of the cable:\n\n{}",
        run(&vmstat_text(), 2),
        run(&quiet, 20).repeat(3)
    );
    let path = folder.join("runs.txt");
    fs::write(&path, text).expect("written");
    let done = diskwright(&["why", path.to_str().expect("plain"), "--json"]);
    let answer = success(&done);
    assert_eq!(answer["bottleneck"], "disk", "{answer:#}");
    let limits = answer["certainty_limits"].to_string();
    assert!(limits.contains("lines 3-6") && limits.contains("judged by itself"), "{limits}");
}

#[test]
fn a_disk_of_which_rows_are_left_out_is_not_ruled_out() {
    let folder = folder("pasted-left-out");
    for (name, change) in [
        ("cut.txt", (|row: &str| row[..45].to_owned()) as fn(&str) -> String),
        ("words.txt", |row| row.replace("660.00   0.00", "660.00   zero and something")),
        ("more.txt", |row| row.replace("660.00", "660.00 660.00 660.00")),
    ] {
        let path = folder.join(name);
        fs::write(&path, disk_table(change)).expect("written");
        let done = diskwright(&["why", path.to_str().expect("plain"), "--json"]);
        let answer = success(&done);
        assert_ne!(answer["bottleneck"], "none", "{name}: {answer:#}");
        assert!(!answer["ruled_out"].to_string().contains("\"disk\""), "{name}: {answer:#}");
        assert!(answer["notes"].to_string().contains("no disk is ruled out"), "{name}: {answer:#}");
    }
    let path = folder.join("whole.txt");
    fs::write(&path, disk_table(|row| format!("{row}   <-- this one is slow"))).expect("written");
    let answer = success(&diskwright(&["why", path.to_str().expect("plain"), "--json"]));
    assert_eq!((&answer["bottleneck"], &answer["instance"]), (&"disk".into(), &"sdq".into()), "{answer:#}");
}

#[test]
fn an_empty_file_is_named_and_the_others_are_judged() {
    let folder = folder("pasted-empty");
    let (log, empty) = (folder.join("iostat.txt"), folder.join("empty.txt"));
    fs::write(&log, iostat_text()).expect("written");
    fs::write(&empty, "").expect("written");
    let [log, empty] = [log, empty].map(|path| path.to_str().expect("plain").to_owned());
    for paths in [[&log, &empty], [&empty, &log]] {
        let done = diskwright(&["why", paths[0], paths[1], "--json"]);
        assert_eq!(success(&done)["bottleneck"], "disk", "{}", stderr(&done));
        assert!(stderr(&done).contains("empty.txt"), "{}", stderr(&done));
    }
}
