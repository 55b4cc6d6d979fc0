//! Logs of other tools, from the file to the answer.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{command, diskwright, folder, stderr, success, text, wait_until};
use crate::sweep::sweep;

/// Writes a log of Performance Monitor of twenty minutes in which disk 0 has `queue` requests outstanding, each served
/// in `seconds`; returns its path.
fn write_perfmon_log(path: &Path, from_minute: u32, queue: f64, seconds: f64) -> String {
    let counters = [
        r"PhysicalDisk(0 C:)\Avg. Disk Queue Length",
        r"PhysicalDisk(0 C:)\Avg. Disk sec/Transfer",
        r"PhysicalDisk(0 C:)\Disk Transfers/sec",
        r"PhysicalDisk(0 C:)\Disk Bytes/sec",
        r"PhysicalDisk(0 C:)\% Idle Time",
        r"PhysicalDisk(_Total)\Disk Transfers/sec",
        r"Processor(_Total)\% Processor Time",
        r"Memory\Pages Input/sec",
        r"Memory\Available MBytes",
        r"Process(sqlservr)\Handle Count",
    ];
    let mut text = String::from("\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\"");
    counters.iter().for_each(|c| write!(text, ",\"\\\\DB1\\{c}\"").unwrap());
    for tick in 0..80u32 {
        let time = from_minute * 60 + tick * 15;
        let (hour, minute, second) = (10 + time / 3600, time / 60 % 60, time % 60);
        write!(text, "\r\n\"11/21/2026 {hour:02}:{minute:02}:{second:02}.000\"").unwrap();
        // some variation, so that no counter is constant
        let wobble = 1.0 + 0.02 * f64::from(tick % 5);
        let rate = queue * wobble / seconds;
        let idle = if queue > 1.0 { 0.0 } else { 100.0 * (1.0 - queue) };
        let cells = [queue * wobble, seconds, rate, rate * 8192.0, idle, rate, 12.0 * wobble, 0.0, 2048.0, 611.0];
        for cell in cells {
            if tick == 0 { text.push_str(",\" \"") } else { write!(text, ",\"{cell}\"").unwrap() }
        }
    }
    text.push_str("\r\n");
    fs::write(path, text).expect("written");
    path.to_str().expect("plain").to_owned()
}

#[test]
fn judges_reports_and_imports_a_perfmon_log() {
    let folder = folder("foreign-foreign-perfmon");
    let log = write_perfmon_log(&folder.join("no-name-tells.txt"), 0, 6.0, 0.030);
    let verdict = success(&diskwright(&["why", &log, "--json"]));
    assert_eq!(verdict["schema"], "diskwright.verdict/1");
    assert_eq!((&verdict["bottleneck"], &verdict["instance"]), (&"disk".into(), &"0 C:".into()), "{verdict:#}");
    assert_eq!(verdict["host"], "DB1");
    let advice = verdict["bottlenecks"][0]["advice"].to_string();
    assert!(advice.contains("Resource Monitor") && !advice.contains("pidstat"), "in the words of Windows: {advice}");
    // the answer says how to record what is missing, with the tool that made the log
    let how = verdict["missing"]["how"].as_array().expect("how to record").iter();
    assert!(how.clone().any(|line| line.as_str().is_some_and(|l| l.contains("typeperf"))), "{:#}", verdict["missing"]);

    // each step names the next: what to buy, and the proof after it
    let steps = verdict["next_steps"].as_array().expect("steps");
    let commands: Vec<&str> = steps.iter().filter_map(|step| step["command"].as_str()).collect();
    assert_eq!(commands, [format!("diskwright plan --from {log}"), format!("diskwright compare {log} AFTER")]);
    let answer = diskwright(&["why", &log]);
    let answer = String::from_utf8_lossy(&answer.stdout);
    assert!(answer.contains("\nNext\n") && answer.contains(commands[0]), "{answer}");
    assert!(diskwright(&["plan", "--from", &log, "--demand-only"]).status.success());

    let kept = folder.join("kept");
    let answer = success(&diskwright(&["import", &log, "--to", kept.to_str().unwrap(), "--json"]));
    assert_eq!(answer["schema"], "diskwright.import/1");
    assert_eq!(answer["format"], "perfmon-text");
    assert_eq!((&answer["ticks"], &answer["series"]), (&80.into(), &10.into()));
    // the total over disks and the unknown counter are kept as foreign series
    assert_eq!(answer["foreign_series"], 2);
    assert_eq!(answer["gaps"], 10);
    assert_eq!(answer["from"], "2026-11-21T09:00:00.000Z");
    let again = success(&diskwright(&["why", kept.to_str().unwrap(), "--json"]));
    assert_eq!(again["bottleneck"], "disk");

    let page = folder.join("page.html");
    let answer = success(&diskwright(&["report", &log, "-o", page.to_str().unwrap(), "--json"]));
    assert!(answer["bytes"].as_u64().is_some_and(|b| b > 10_000));
    let shown = success(&diskwright(&["show", &log, "--json", "--counter", "physical_disk.avg_queue_length"]));
    assert_eq!(shown["series"][0]["instance"], "0 C:");
}

#[test]
fn takes_array_layouts_from_options_and_files() {
    let folder = folder("foreign-foreign-array");
    let few = write_perfmon_log(&folder.join("few.csv"), 0, 3.6, 0.012);
    let many = write_perfmon_log(&folder.join("many.csv"), 0, 7.2, 0.012);
    // did the rule of NT Magazine 1998 on the queue per disk fire, and could it be judged?
    let rule = |log: &str, arguments: &[&str]| {
        let mut all = vec!["why", log, "--pack", "ntmag-1998", "--json"];
        all.extend(arguments);
        let verdict = success(&diskwright(&all));
        let has = |part: &str| {
            verdict[part].as_array().is_some_and(|list| list.iter().any(|f| f["rule"] == "array.queue-above-two"))
        };
        (has("findings"), !has("unjudged"))
    };
    // without an option the number of member disks is unknown
    assert_eq!(rule(&many, &[]), (false, false));
    // 3.6 requests on three disks are fewer than two per disk
    assert_eq!(rule(&few, &["--array", "PhysicalDisk(0)=raid5:3"]), (false, true));
    assert_eq!(rule(&many, &["--array", "PhysicalDisk(0)=raid5:3"]), (true, true));
    assert_eq!(rule(&many, &["--array", "*=raid10:8:rotational"]), (false, true));
    // the same in a file
    let file = folder.join("arrays.toml");
    fs::write(&file, "[[array]]\ndisk = \"0\"\nlevel = \"raid5\"\nmembers = 3\nstripe = \"64K\"\n").unwrap();
    assert_eq!(rule(&many, &["--topology", file.to_str().unwrap()]), (true, true));
    // a disk that is not in the log is wrong usage; the message lists the disks
    let wrong = diskwright(&["why", &few, "--array", "9=single"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("0 C:"));
}

/// NT Magazine 1998: sixteen requests on three disks are a bottleneck; twelve on ten disks are what the article bought.
/// A RAID 10 of 24 disks with twenty requests has 0.83 on each.
#[test]
fn a_declared_array_may_have_as_many_requests_in_flight_as_its_disks() {
    let folder = folder("foreign-array-limits");
    let log = |name: &str, queue: f64, seconds: f64| write_perfmon_log(&folder.join(name), 0, queue, seconds);
    let few_disks = log("three.csv", 16.0, 0.121);
    let many_disks = log("ten.csv", 12.0, 0.049);
    let mirrors = log("mirrors.csv", 20.0, 0.02);
    let judge = |log: &str, array: &str, pack: &str| {
        success(&diskwright(&["why", log, "--array", &format!("*={array}:rotational"), "--pack", pack, "--json"]))
    };
    for pack in ["default", "ntmag-1998"] {
        let full = judge(&few_disks, "raid5:3", pack);
        assert_eq!(full["bottleneck"], "disk", "{pack}");
        assert_ne!(judge(&many_disks, "raid5:10", pack)["bottleneck"], "disk", "{pack}");
        // undeclared, it is one disk
        assert_eq!(judge(&many_disks, "single:1", pack)["bottleneck"], "disk", "{pack}");
    }
    assert_ne!(judge(&mirrors, "raid10:24", "default")["bottleneck"], "disk");
    let full = judge(&few_disks, "raid5:3", "default");
    let overloaded = full["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "disk.saturated-rotational");
    let overloaded = overloaded.expect("sixteen on three disks");
    assert_eq!((&overloaded["limit"], &overloaded["limit_disks"]), (&6.0.into(), &3.0.into()));
    let answer = diskwright(&["why", &few_disks, "--array", "*=raid5:3:rotational", "--full"]);
    let page = String::from_utf8_lossy(&answer.stdout);
    assert!(page.contains("2 for each of 3 disks"), "{page}");
    // the purchase of the article: more work in less time, on an array of its own on each side
    let sides = ["--array", "*=raid5:3:rotational", "--against-array", "*=raid5:10:rotational", "--json"];
    let both = success(&diskwright(&[&["compare", &few_disks, &many_disks], &sides[..]].concat()));
    assert_eq!(both["outcome"], "helped", "{}", both["sentence"]);
    assert_eq!((&both["before"]["bottleneck"], &both["after"]["bottleneck"]), (&"disk".into(), &"none".into()));
    let one_log = diskwright(&["compare", &few_disks, "--at", "10:10", "--against-array", "*=raid5:10"]);
    assert_eq!(one_log.status.code(), Some(2), "{}", stderr(&one_log));
}

#[test]
fn reads_logs_in_any_order_and_from_standard_input() {
    let folder = folder("foreign-foreign-order");
    let first = write_perfmon_log(&folder.join("one.csv"), 0, 0.2, 0.004);
    let second = write_perfmon_log(&folder.join("two.csv"), 20, 6.0, 0.030);
    let both = success(&diskwright(&["why", &second, &first, "--json"]));
    assert_eq!(both["window"]["from"], "2026-11-21T09:00:00Z", "{}", both["window"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_diskwright"))
        .args(["why", "-", "--json"])
        .stdin(fs::File::open(&second).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let status = child.wait().expect("ends");
    assert!(status.success());
}

#[test]
fn refuses_files_that_are_no_log_and_tells_of_a_missing_zone() {
    let folder = folder("foreign-foreign-wrong");
    let text = folder.join("letter.txt");
    fs::write(&text, "Dear server,\nplease be faster.\n").unwrap();
    let done = diskwright(&["why", text.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        stderr.contains("letter.txt") && stderr.contains("iostat, vmstat, top") && !stderr.contains("perfmon-text"),
        "{stderr}"
    );
    // times without a zone are taken as UTC, and the answer says so
    let log = folder.join("no-zone.csv");
    let text = "\"(PDH-CSV 4.0)\",\"\\\\A\\Memory\\Pages/sec\"\n\"11/21/2026 10:00:00.000\",\"1\"\n";
    fs::write(&log, format!("{text}\"11/21/2026 10:00:15.000\",\"2\"\n")).unwrap();
    let answer = success(&diskwright(&["why", log.to_str().unwrap(), "--json"]));
    assert!(answer.to_string().contains("--utc-offset"), "{answer}");
    let answer = success(&diskwright(&[
        "import",
        log.to_str().unwrap(),
        "--to",
        folder.join("k").to_str().unwrap(),
        "--utc-offset",
        "+02:00",
        "--json",
    ]));
    assert_eq!(answer["from"], "2026-11-21T08:00:00.000Z");
}

/// Text of iostat with a report every second.
fn iostat_text(reports: u32) -> String {
    let report = |second: u32| {
        format!(
            "2026-11-21T19:05:{second:02}+0000\nDevice r/s w/s rkB/s wkB/s r_await w_await aqu-sz %util\n\
             sda 5.0 {second}.0 40 80 1.0 2.0 0.1 1.0\n\n"
        )
    };
    let reports: String = (0..reports).map(report).collect();
    format!("nohup: ignoring input\nLinux 6.1.0 (db1) \t11/21/26 \t_x86_64_\t(4 CPU)\n\n{reports}")
}

#[test]
fn imports_only_the_given_window() {
    let folder = folder("foreign-import-window");
    let log = folder.join("iostat.txt");
    fs::write(&log, iostat_text(30)).expect("written");
    let (log, kept) = (log.to_str().unwrap(), folder.join("kept"));
    let window = ["--from", "2026-11-21T19:05:10Z", "--until", "2026-11-21T19:05:14Z"];
    let host_options = ["--memory", "2GB", "--array", "sda=raid5:3"];
    let import = [&["import", log, "--to", kept.to_str().unwrap()][..], &window, &host_options].concat();
    let imported = diskwright(&import);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let shown = success(&diskwright(&["show", kept.to_str().unwrap(), "--json"]));
    assert_eq!(shown["window"]["from"], "2026-11-21T19:05:10.000Z");
    assert_eq!(shown["window"]["to"], "2026-11-21T19:05:14.000Z");
    // the same window by the option names of the other commands
    for end in ["--to", "--until"] {
        let arguments = ["show", log, "--json", "--from", "-19s", end, "2026-11-21T19:05:14Z"];
        assert_eq!(success(&diskwright(&arguments))["window"], shown["window"], "{end}");
    }
}

/// A named pipe can be read only once, and its writer must not get a broken pipe.
#[test]
fn imports_from_a_named_pipe() {
    let folder = folder("foreign-named-pipe");
    let (pipe, kept) = (folder.join("pipe"), folder.join("kept"));
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        return;
    }
    let arguments = ["import", text(&pipe), "--to", text(&kept)];
    let child = RefCell::new(command(&arguments).stdout(Stdio::null()).spawn().expect("the program runs"));
    let writer = std::thread::spawn(move || fs::write(&pipe, iostat_text(30)));
    wait_until("the import of a pipe", || child.borrow_mut().try_wait().is_ok_and(|status| status.is_some()));
    let status = child.borrow_mut().wait().expect("its exit code");
    assert!(status.success() && writer.join().expect("the writer").is_ok(), "{status}");
    let shown = success(&diskwright(&["show", text(&kept), "--json"]));
    assert_eq!(shown["window"]["to"], "2026-11-21T19:05:29.000Z");
}

#[test]
fn shows_foreign_counters_of_a_log_without_known_ones() {
    let folder = folder("foreign-own-series");
    let page = |value: u32, time: u64| format!("# TYPE app_jobs counter\napp_jobs {value} {time}000\n# EOF\n");
    let log = folder.join("pages.prom");
    fs::write(&log, page(5, 1_700_000_000) + &page(9, 1_700_000_010) + &page(19, 1_700_000_020)).expect("written");
    let log = log.to_str().unwrap();
    let output = diskwright(&["show", log, "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("no counter of the catalogue"), "{stderr}");
    let shown = success(&output);
    assert_eq!(shown["series"][0]["counter"], "foreign.app_jobs");
    assert_eq!(shown["series"][0]["most"], 10.0);
    let chosen = success(&diskwright(&["show", log, "--json", "--counter", "foreign.*"]));
    assert_eq!(chosen["series"], shown["series"]);
    let none = diskwright(&["show", log, "--counter", "physical_disk.busy"]);
    let stderr = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(!none.status.success() && stderr.contains("foreign.app_jobs"), "{stderr}");
}

#[test]
fn refusals_name_the_file_type_and_what_to_record() {
    let folder = folder("foreign-refusals");
    for (name, bytes, parts) in [
        ("a", &b"ElfFile\0 and more"[..], ["EVTX", "logman"]),
        ("b", b"PK\x03\x04 and more", ["the archive is truncated or damaged", "invalid Zip archive"]),
        ("c", b"\x96\xd5\x70\x21\x09\x00\x04\x00 and more", ["sysstat", "sar -A"]),
        ("d", b"*** Sampled system activity (noon) ***\n", ["powermetrics", "iostat -w 1"]),
        ("e", b"", ["is empty", "give a log file"]),
    ] {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("written");
        let output = diskwright(&["why", path.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_told = parts.iter().all(|part| stderr.contains(part)) || stderr.contains("cannot be run here");
        assert!(!output.status.success() && is_told, "{name}: {stderr}");
    }
}

#[test]
fn lists_log_trace_and_compression_formats() {
    let listed = success(&diskwright(&["list", "formats", "--json"]));
    let ids: Vec<&str> = listed["entries"].as_array().unwrap().iter().filter_map(|e| e["id"].as_str()).collect();
    for id in ["diskwright", "sar-text", "pcp", "blktrace", "disksim", "gzip", "bzip2", "xz", "zstd"] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
}

/// Verdicts of `why` on a foreign log, streamed, and on the log imported from it; `None` if neither can be read.
fn judge_streamed_and_imported(log: &Path, folder: &Path) -> Option<[String; 2]> {
    let kept = folder.join(format!("kept-{}", log.file_name()?.display()));
    let _ = fs::remove_dir_all(&kept);
    let import = diskwright(&["import", text(log), "--to", text(&kept), "--utc-offset", "0"]);
    let nowhere = folder.join("no-temporary-folder");
    let mut why = command(&["why", text(log), "--all-packs", "--json", "--utc-offset", "0"]);
    let streamed = why.env("TMPDIR", &nowhere).output().expect("the program runs");
    assert_eq!(import.status.code(), streamed.status.code(), "{}: {}", log.display(), stderr(&streamed));
    import.status.success().then(|| {
        let copied = diskwright(&["why", text(&kept), "--all-packs", "--json"]);
        // the next steps name the log
        [(streamed, text(log)), (copied, text(&kept))]
            .map(|(output, path)| String::from_utf8(output.stdout).expect("JSON").replace(path, "LOG"))
    })
}

#[test]
fn streamed_logs_get_the_verdict_of_imported_ones() {
    let folder = folder("foreign-streamed");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/observe/logs/tests/fixtures");
    let mut logs: Vec<_> = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()).collect();
    // those that programs of sysstat or atop unpack need a temporary folder
    let is_unpacked = |name: &str| ["sa-binary", "atop-raw"].iter().any(|format| name.starts_with(format));
    logs.retain(|path| path.is_file() && !is_unpacked(&path.file_name().unwrap().to_string_lossy()));
    logs.sort();
    assert!(logs.len() > 40, "{} fixtures", logs.len());
    let (tried, mut compared) = (sweep(logs.len(), logs.len() / 2), 0);
    for log in tried.iter().map(|number| &logs[*number]) {
        let Some([streamed, copied]) = judge_streamed_and_imported(log, &folder) else { continue };
        assert!(streamed == copied, "{}:\n{streamed}\n{copied}", log.display());
        compared += 1;
    }
    assert!(compared * 2 > tried.len(), "only {compared} of {} fixtures were compared", tried.len());
}

/// The window of a large log is guessed from its two ends; where the last line misleads, the log is read again.
#[test]
fn judges_a_large_log_whose_end_misleads() {
    let folder = folder("foreign-streamed-large");
    let log = folder.join("large.csv");
    let mut lines = "\"(PDH-CSV 4.0) (Coordinated Universal Time)(0)\",\"\\\\A\\PhysicalDisk(0)\\% Idle Time\",\
                     \"\\\\A\\PhysicalDisk(0)\\Current Disk Queue Length\"\r\n"
        .to_owned();
    // larger than its two ends together, 2 MiB; long numbers reach that with fewer ticks
    for tick in 0..32_000u32 {
        let (day, second) = (1 + tick / 5760, tick % 5760 * 15);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (idle, queue, zeros) = (tick % 90, if tick > 20_000 { 7 } else { 0 }, "000000000000000");
        let time = format!("11/{day:02}/2026 {hour:02}:{minute:02}:{second:02}.000");
        write!(lines, "\"{time}\",\"{idle}.{zeros}\",\"{queue}.{zeros}\"\r\n").unwrap();
    }
    assert!(lines.len() > 2 << 20, "{} bytes", lines.len());
    for end in ["", "\"11/03/2026 00:00:00.000\",\"5\",\"5\"\r\n", "\"12/30/2026 00:00:00.000\",\"cut of"] {
        fs::write(&log, format!("{lines}{end}")).expect("written");
        let [streamed, copied] = judge_streamed_and_imported(&log, &folder).expect("it is read");
        assert!(streamed == copied && streamed.contains("2026-11-01T00:00:00Z"), "behind {end:?}:\n{streamed}");
    }
}

/// Answers on logs that fit in memory need no temporary folder, and are those on the imported log.
#[test]
fn logs_that_fit_in_memory_are_not_copied() {
    let folder = folder("foreign-in-memory");
    let nowhere = folder.join("no-temporary-folder");
    let answer = |arguments: &[&str]| {
        let output = command(arguments).env("TMPDIR", &nowhere).output().expect("the program runs");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let log = write_perfmon_log(&folder.join("before.csv"), 0, 6.0, 0.030);
    let later = write_perfmon_log(&folder.join("after.csv"), 60, 0.4, 0.002);
    let kept = folder.join("kept");
    answer(&["import", &log, "--to", text(&kept)]);
    for wanted in [
        ["show", "--json"].as_slice(),
        &["show", "--as", "csv", "--counter", "physical_disk.*"],
        &["show", "--as", "table", "--from", "-10m", "--to", "-5m"],
        &["why", "--json", "--from", "-10m"],
        &["export", "--as", "jsonl"],
    ] {
        let of_foreign: Vec<&str> = [&wanted[..1], &[log.as_str()], &wanted[1..]].concat();
        let of_kept: Vec<&str> = [&wanted[..1], &[text(&kept)], &wanted[1..]].concat();
        let (of_foreign, of_kept) = (answer(&of_foreign).replace(&log, "LOG"), answer(&of_kept));
        assert_eq!(of_foreign, of_kept.replace(text(&kept), "LOG"), "{wanted:?}");
    }
    let page = folder.join("page.html");
    answer(&["report", &log, "-o", text(&page)]);
    answer(&["compare", &log, &later, "--json"]);
    // several logs, joined or one after the other, and one in a folder
    let verdict = answer(&["why", &log, &later, "--json"]);
    assert!(verdict.contains("2026-11-21T10:19:"), "both are judged: {verdict}");
    let alone = folder.join("alone");
    fs::create_dir(&alone).expect("a folder");
    fs::copy(&log, alone.join("perfmon.csv")).expect("copied");
    let of_folder = answer(&["why", text(&alone), "--json"]).replace(text(&alone), "LOG");
    assert_eq!(of_folder, answer(&["why", &log, "--json"]).replace(&log, "LOG"));
}
