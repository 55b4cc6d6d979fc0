//! Pastes of many shapes, and every fixture, which is no paste.

use super::*;

/// Headings and rows of vmstat.
pub(super) const VM: &str = "procs -----------memory---------- ---swap-- -----io---- -system-- ----cpu----\n \
                  r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n";
pub(super) const VM_ROWS: &str = " 1  7      0  50210   1200  40311    0    0   410   512  700  900  3  4 20 73\n \
                       2  6      0  50190   1210  40320    0    0   420   498  710  905  4  4 21 71\n";
/// A report of iostat.
pub(super) const IO: &str = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
                  4.00    0.00    2.00   61.00    0.00   33.00\n\n\
                  Device:  rrqm/s  wrqm/s  r/s  w/s  rkB/s  wkB/s avgrq-sz avgqu-sz await svctm %util\n\
                  sdq       0.00   12.00 7.00 81.00 28.00 655.00   15.50     3.10 35.20 11.00 96.80\n\n";
pub(super) const TOP: &str = "top - 11:22:33 up 5 days,  2:01,  2 users,  load average: 6.50, 6.10, 5.90\n\
                   Tasks: 141 total,   1 running, 140 sleeping,   0 stopped,   0 zombie\n\
                   %Cpu(s):  2.0 us,  3.0 sy,  0.0 ni,  5.0 id, 90.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\
                   KiB Mem :  2048000 total,    40000 free,   900000 used,  1108000 buff/cache\n\n  \
                   PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n \
                   4711 web       20   0  200000  30000   9000 D   2.0  1.5   1:02.03 worker\n";
pub(super) const MP: &str = "11:22:33 AM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest   %idle\n\
                  11:22:34 AM  all    3.00    0.00    4.00   70.00    0.00    1.00    0.00    0.00   22.00\n\
                  11:22:35 AM  all    3.50    0.00    4.00   69.50    0.00    1.00    0.00    0.00   22.00\n";
pub(super) const BANNER: &str = "Linux 5.9.1 (host7) \t09/08/2024 \t_x86_64_\t(4 CPU)\n";

/// Sections as `program interval lines`.
fn section_texts(text: &str) -> Vec<String> {
    let Some(transcript) = split_transcript(text.as_bytes()) else { return vec!["clean".into()] };
    let describe = |section: &Section| {
        let interval = section.interval.map_or("-".to_owned(), |interval| interval.as_secs_f64().to_string());
        let rows = section.text.lines().filter(|line| tool_lines::number_percent(line) >= 50).count();
        format!("{} {interval} {rows}", section.program)
    };
    transcript.sections.iter().map(describe).collect()
}

pub(super) fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

fn vmstat_rows() -> String {
    format!("{VM}{VM_ROWS}")
}

#[test]
fn prompts_and_marks_of_one_tool() {
    let spaced = |text: &str| each_line(text, |line| format!("{line}\n"));
    let nbsp = |text: &str| text.replace(' ', "\u{a0}");
    let colored = |text: &str| each_line(text, |line| format!("\u{1b}[1m{line}\u{1b}[0m"));
    for (name, text, wanted) in [
        ("clean", vmstat_rows(), &["clean"][..]),
        ("clean iostat", format!("{BANNER}\n{IO}{IO}"), &["clean"]),
        ("colors alone", colored(&vmstat_rows()), &["clean"]),
        ("dollar prompt", format!("$ vmstat 7\n{}", vmstat_rows()), &["vmstat 7 2"]),
        ("prompt of root", format!("[root@host7 ~]# vmstat 2 5\n{}[root@host7 ~]# \n", vmstat_rows()), &["vmstat 2 2"]),
        ("ubuntu", format!("me@host7:~$ iostat -x 3\n{BANNER}\n{IO}^C\nme@host7:~$ "), &["iostat 3 2"]),
        ("sudo", format!("sudo iostat -xz 4\n{BANNER}\n{IO}"), &["iostat 4 2"]),
        ("arrow", format!("-> vmstat 6\n{}", vmstat_rows()), &["vmstat 6 2"]),
        ("zsh", format!("host7% vmstat 6\n{}host7% ls\nfile1\n", vmstat_rows()), &["vmstat 6 2"]),
        ("folder prompt", format!("~ # vmstat 5\n\n{}", spaced(&vmstat_rows())), &["vmstat 5 2"]),
        ("fish", format!("me@host7 ~> mpstat 1\n{BANNER}\n{MP}"), &["mpstat 1 2"]),
        ("power line", format!("➜  ~ vmstat 9\n{}", vmstat_rows()), &["vmstat 9 2"]),
        ("quotes", each_line(&vmstat_rows(), |line| format!("> {line}")), &["vmstat - 2"]),
        ("double quotes", each_line(&vmstat_rows(), |line| format!(">> {line}")), &["vmstat - 2"]),
        ("code marks", format!("```\n$ vmstat 3\n{}```\n", vmstat_rows()), &["vmstat 3 2"]),
        ("heading of markdown", format!("## `iostat -mx 10`\n{IO}"), &["iostat 10 2"]),
        ("bold heading", vmstat_rows().replace(" wa", " **wa**"), &["vmstat - 2"]),
        ("bold number", vmstat_rows().replace(" 73", " **73**"), &["vmstat - 2"]),
        ("tags", format!("<pre>\n{}</pre>", vmstat_rows()), &["vmstat - 2"]),
        ("forum code", format!("[code]$ vmstat 8\n{}[/code]", vmstat_rows()), &["vmstat 8 2"]),
        ("no-break blanks", nbsp(&vmstat_rows()), &["vmstat - 2"]),
        ("tabs and prompt", format!("# vmstat 4\n{}", vmstat_rows().replace("  ", "\t")), &["vmstat 4 2"]),
        (
            "entities",
            format!("&gt; $ vmstat 4\n{}", each_line(&vmstat_rows(), |line| format!("&gt; {line}"))),
            &["vmstat 4 2"],
        ),
        (
            "quoted-printable",
            vmstat_rows().replace("---swap--", "---swap=2D=2D").replace(" wa\n", "=20wa=20\n"),
            &["vmstat - 2"],
        ),
        (
            "numbers before lines",
            vmstat_rows().lines().enumerate().map(|(i, l)| format!("{:6}\t{l}\n", i + 1)).collect(),
            &["vmstat - 2"],
        ),
        ("dash of a word processor", format!("# iostat \u{2013}x 2\n[…]\n{IO}[…]\n"), &["iostat 2 2"]),
        ("blank lines", format!("$ vmstat 1\n{}", spaced(&vmstat_rows())), &["vmstat 1 2"]),
        ("decimal commas", format!("$ iostat -x 5\n{}", IO.replace('.', ",")), &["iostat 5 2"]),
        ("sentence above", format!("Here is vmstat 20 while it hangs:\n\n{}", vmstat_rows()), &["vmstat 20 2"]),
        ("remark between rows", format!("$ vmstat 1\n{}it got slow here\n{VM_ROWS}", vmstat_rows()), &["vmstat 1 4"]),
        (
            "heading after a screen",
            format!("$ vmstat 1\n{VM}{}{}", VM_ROWS.repeat(11), vmstat_rows()),
            &["vmstat 1 24"],
        ),
        ("loop", format!("$ while true; do iostat -x; sleep 30; done\n{IO}{IO}"), &["iostat 30 4"]),
        ("windows line ends", format!("$ vmstat 1\n{}", vmstat_rows()).replace('\n', "\r\n"), &["vmstat 1 2"]),
        ("rows above their heading", format!("{VM_ROWS}{VM}{VM_ROWS}"), &["clean"]),
        ("setting before the program", format!("$ LANG=C vmstat 1 | tee x\n{}", vmstat_rows()), &["vmstat 1 2"]),
        ("top", format!("root@host7 # top\n{TOP}(...)\n"), &["top 3 2"]),
    ] {
        assert_eq!(section_texts(&text), wanted, "{name}:\n{text}");
    }
}

#[test]
fn several_tools_in_one_text() {
    for (name, text, wanted) in [
        (
            "two by prompts",
            format!("$ vmstat 1\n{}$ iostat -x 5\n{BANNER}\n{IO}", vmstat_rows()),
            &["vmstat 1 2", "iostat 5 2"][..],
        ),
        ("two by headings", format!("{}\n{IO}", vmstat_rows()), &["vmstat - 2", "iostat - 2"]),
        ("top and vmstat", format!("{TOP}\n\n{}", vmstat_rows()), &["top - 2", "vmstat - 2"]),
        (
            "three with sentences",
            format!("First vmstat 2:\n{}and now the disks, iostat -x 3:\n{IO}and mpstat:\n{MP}", vmstat_rows()),
            &["vmstat 2 2", "iostat 3 2", "sar - 2"],
        ),
        (
            "before and after",
            format!("{}\nAfter the change of the scheduler:\n{}", vmstat_rows(), vmstat_rows()),
            &["vmstat - 2", "vmstat - 2"],
        ),
        (
            "one tool twice",
            format!("$ vmstat 1\n{}$ vmstat 5\n{}", vmstat_rows(), vmstat_rows()),
            &["vmstat 1 2", "vmstat 5 2"],
        ),
        (
            "quoted mail",
            each_line(&format!("$ vmstat 1\n{}\n$ iostat -x 2\n{IO}", vmstat_rows()), |l| format!("> {l}")),
            &["vmstat 1 2", "iostat 2 2"],
        ),
        (
            "unknown program between",
            format!("me@host7:~$ vmstat 1\n{}me@host7:~$ ls\nsome files\nme@host7:~$ mpstat 2\n{MP}", vmstat_rows()),
            &["vmstat 1 2", "mpstat 2 2"],
        ),
    ] {
        let found: Vec<String> = section_texts(&text);
        assert_eq!(found, wanted, "{name}:\n{text}");
    }
}

#[test]
fn broken_rows_are_joined() {
    let wrapped = |text: &str, width: usize| {
        each_line(text, |line| match line.char_indices().rfind(|(place, c)| *c == ' ' && *place < width) {
            Some((place, _)) if line.len() > width => format!("{}\n{}", &line[..place], &line[place + 1..]),
            _ => line.to_owned(),
        })
    };
    for (name, text, program) in [
        ("vmstat", wrapped(&vmstat_rows(), 60), "vmstat"),
        ("iostat", format!("$ iostat -x 5\n{}", wrapped(IO, 70)), "iostat"),
    ] {
        let transcript = split_transcript(text.as_bytes()).unwrap_or_else(|| panic!("{name}:\n{text}"));
        let section = &transcript.sections[0];
        let width = |line: &str| line.split_whitespace().count();
        let rows: Vec<usize> =
            section.text.lines().filter(|line| tool_lines::number_percent(line) >= 50).map(width).collect();
        assert_eq!(section.program, program);
        assert!(rows.iter().all(|columns| [16, 6, 12].contains(columns)), "{name}: {rows:?}\n{}", section.text);
    }
}

/// Times of the ticks, seconds since 1970, as a reader gets them of a section.
fn tick_times(text: &str) -> Vec<i64> {
    let transcript = split_transcript(text.as_bytes()).unwrap_or_else(|| panic!("clean:\n{text}"));
    let mut times = Vec::new();
    for section in transcript.sections {
        let mut sink = |piece: crate::LogPiece<'_>| {
            if let crate::LogPiece::Frame(frame) = piece {
                times.extend(frame.ticks().iter().map(|tick| tick.time_ns / 1_000_000_000));
            }
            std::ops::ControlFlow::Continue(())
        };
        let interval = section.interval.or(Some(Duration::from_secs(1)));
        let options = crate::LogOptions { interval, ..crate::LogOptions::default() };
        let mut input = crate::LogInput::from_bytes("paste", section.text.clone().into_bytes()).unwrap();
        crate::salvage(&mut input, &options, &mut sink).unwrap_or_else(|error| panic!("{error}\n{}", section.text));
    }
    times
}

#[test]
fn times_before_lines_are_those_of_the_reports() {
    let stamp = |text: &str, stamps: &[&str]| {
        let mut report = 0_usize;
        let begins =
            |line: &str| line.starts_with("avg-cpu") || line.len() > 70 && tool_lines::number_percent(line) > 95;
        let stamped = text.lines().map(|line| {
            report += usize::from(begins(line));
            format!("{} {line}\n", stamps[report.saturating_sub(1).min(stamps.len() - 1)])
        });
        stamped.collect::<String>()
    };
    let rows = format!("{VM}{VM_ROWS}{VM_ROWS}");
    let reports = format!("{IO}{IO}{IO}");
    const NOON: i64 = 43_200;
    for (text, wanted) in [
        (
            stamp(&rows, &["[12:00:00]", "[12:00:10]", "[12:00:20]", "[12:00:30]"]),
            vec![NOON + 10, NOON + 20, NOON + 30],
        ),
        (
            stamp(&reports, &["2024-09-08 12:00:00", "2024-09-08 12:00:10", "2024-09-08 12:00:20"]),
            vec![1_725_796_810, 1_725_796_820],
        ),
        (
            stamp(&reports, &["Sep 08 12:00:00", "Sep 08 12:00:10", "Sep 08 12:00:20"]),
            vec![250 * 86_400 + NOON + 10, 250 * 86_400 + NOON + 20],
        ),
    ] {
        assert_eq!(tick_times(&text), wanted, "{text}");
    }
}

#[test]
fn iostat_without_its_first_report_keeps_all() {
    let text = format!("iostat -x 2 -y\n{BANNER}\n{IO}{IO}");
    let transcript = split_transcript(text.as_bytes()).expect("a paste");
    assert!(transcript.sections[0].is_first_report_kept);
    assert_eq!(tick_times(&text).len(), 2, "{}", transcript.sections[0].text);
}

#[test]
fn words_among_sar_s_rows_do_not_divide_it() {
    let banner = "Linux 5.9.1 (host7) \t2024-09-08 \t_x86_64_\t(4 CPU)\n\n";
    let table = "11:22:33        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                 11:22:43        all      3.00      0.00      4.00     70.00      0.00     23.00\n\
                 Average:        all      3.00      0.00      4.00     70.00      0.00     23.00\n\n";
    let usb = "11:22:33        BUS    idvendor    idprod  maxpower                manufact     product\n\
               11:22:43          3      174c      55aa         0 Left Hand Works Quick Disk Bridge\n\
               Summary:          3      174c      55aa         0 Left Hand Works Quick Disk Bridge\n\n";
    let restart = "12:37:29     LINUX RESTART\t(4 CPU)\n\n";
    let later = table.replace("11:22", "13:22");
    for middle in [restart, usb] {
        assert_eq!(section_texts(&[banner, table, middle, &later].concat()), ["clean"], "{middle}");
    }
}

#[test]
fn what_is_not_read_is_named() {
    let text = format!("$ vmstat 1\n{}$ lsblk -d\nNAME MAJ:MIN\nsdq 8:0\n", vmstat_rows());
    let transcript = split_transcript(text.as_bytes()).expect("a paste");
    assert_eq!(transcript.sections.len(), 1);
    assert!(transcript.unread[0].reason.contains("not read here"), "{:?}", transcript.unread);
    assert_eq!(transcript.unread[0].lines, (7, 8));
    assert!(split_transcript(b"only words\nand more of them\n").is_none());
    // a log of the kernel without a message that counts was read
    let text = format!("$ vmstat 1\n{}$ dmesg | tail -1\n[    1.000000] usb 1-1: new device\n", vmstat_rows());
    assert!(split_transcript(text.as_bytes()).expect("a paste").unread.is_empty());
}

#[test]
fn fixtures_are_no_pastes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("fixtures") {
        let path = entry.expect("entry").path();
        let bytes = std::fs::read(&path).expect("fixture");
        let head = &bytes[..bytes.len().min(MAX_HEAD_BYTES)];
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_cut = may_be_transcript(&InputHead { name, bytes: head }) && split_transcript(&bytes).is_some();
        assert!(!is_cut, "{name}: {:?}", split_transcript(&bytes));
        count += 1;
    }
    assert!(count >= 50, "{count} fixtures");
}

#[test]
fn messages_of_the_kernel_are_one_section_wherever_they_stand() {
    let old = "Linux version 2.6.18\nsome driver is here\nata7: soft resetting link\nanother driver is here\n";
    let (first, second) = ("[900.5] I/O error, dev sdg, sector 9\n", "[901.5] ata7: hard resetting link\n");
    let wrapped = "[902.5] blk_update_request: I/O error, dev sdg, sector 77 op 0x1:(WRITE) flags\n0x800 phys_seg 1\n";
    for (name, text, messages) in [
        ("a command", format!("[root@host7 ~]# dmesg\n{old}[root@host7 ~]# vmstat 5\n{}", vmstat_rows()), 4),
        ("around a table", format!("{first}\n{}\n{second}", vmstat_rows()), 2),
        ("between rows", format!("{VM}{first}{VM_ROWS}"), 1),
        ("a wrapped line", format!("{}\n{wrapped}", vmstat_rows()), 1),
        ("no output", format!("$ dmesg | grep -i oom\n$ vmstat 5\n{}", vmstat_rows()), 0),
        (
            "quoted words",
            format!("I read of 'I/O error, dev sdg' and ata7: hard resetting link.\n\n{}", vmstat_rows()),
            0,
        ),
    ] {
        let sections = split_transcript(text.as_bytes()).map(|transcript| transcript.sections).unwrap_or_default();
        let found = sections.iter().find(|section| section.program == "messages of the kernel");
        let lines = found.map_or(0, |section| section.text.lines().count() - 1);
        assert_eq!(lines, messages, "{name}: {sections:?}");
        assert!(found.is_none_or(|section| format_of_text(&section.text).is_some_and(|f| f.id == MESSAGES)), "{name}");
        let rows = sections.iter().find(|section| section.program == "vmstat");
        assert!(messages == 0 || rows.is_some(), "{name}: {sections:?}");
    }
}

#[test]
fn messages_of_the_kernel_among_rows_do_not_end_a_table() {
    let message = "[12345.678901] INFO: task worker:373 blocked for more than 120 seconds.\n";
    let text = format!("{}{message}{VM_ROWS}{message}", vmstat_rows());
    assert_eq!(section_texts(&text)[0], "vmstat - 4", "{text}");
    let text = format!("{IO}{message}{IO}");
    assert_eq!(section_texts(&text)[0], "iostat - 4", "{text}");
}

#[test]
fn sections_name_their_machines_and_runs() {
    let text = format!(
        "before:\nroot@web1:~# vmstat 1\n{}after:\nroot@web1:~# vmstat 1\n{}root@db2:~$ ssh db3 vmstat 1\n{}",
        vmstat_rows(),
        vmstat_rows(),
        vmstat_rows()
    );
    let transcript = split_transcript(text.as_bytes()).expect("a paste");
    let found: Vec<(&str, usize, &str)> = transcript
        .sections
        .iter()
        .map(|section| (section.host.as_str(), section.run, section.run_name.as_str()))
        .collect();
    assert_eq!(found, [("web1", 0, "before"), ("web1", 1, "after"), ("db3", 1, "after")]);
}

/// Shortest of three times that cutting a text takes.
fn cutting_time(text: &str) -> Duration {
    let time = |_| {
        let begin = std::time::Instant::now();
        std::hint::black_box(split_transcript(text.as_bytes()));
        begin.elapsed()
    };
    (0..3).map(time).min().unwrap_or_default()
}

#[test]
fn the_time_to_cut_a_text_grows_with_its_lines_and_not_with_their_square() {
    let outputs = |count: usize| format!("root@db1:~# vmstat 1 2\n{}", vmstat_rows()).repeat(count);
    let prompts = |count: usize| {
        let prompts: String = (0..count * 10).map(|index| format!("root@db1:/tmp/{index}# ls\n")).collect();
        prompts + &vmstat_rows()
    };
    let messages = |count: usize| -> String {
        let line =
            |i| format!("Nov 21 10:{:02}:{:02} db1 sshd[{i}]: Failed password from 10.1.2.3\n", i / 60 % 60, i % 60);
        (0..count).map(line).collect()
    };
    let dumps = |count: usize| "$ uptime\n 10:00:00 up 3 days, 2 users, load average: 0.5, 0.1, 0.9\n".repeat(count);
    let makers: [(&str, &dyn Fn(usize) -> String); 4] =
        [("outputs", &outputs), ("prompts", &prompts), ("messages", &messages), ("dumps", &dumps)];
    for (name, make) in makers {
        let (one, four) = (cutting_time(&make(400)), cutting_time(&make(1600)));
        // four times the lines: 4 times the time where it is linear, 16 times where it is not
        assert!(four < one * 10 + Duration::from_millis(100), "{name}: {one:?}, then {four:?}");
    }
}

#[test]
fn titles_of_netstat_are_no_machines() {
    let text =
        format!("{}Ip:\n    900 total packets received\nTcp:\n    12 active connection openings\n", vmstat_rows());
    assert!(may_be_transcript(&InputHead { name: "x", bytes: text.as_bytes() }));
    assert_eq!(section_texts(&text)[0], "vmstat - 2");
}

#[test]
fn a_loop_of_many_prompts_is_one_log() {
    let text = format!("root@db1:~# vmstat 1 2\n{}", vmstat_rows()).repeat(MAX_SECTIONS + 1);
    let transcript = split_transcript(text.as_bytes()).expect("a paste");
    assert_eq!(transcript.sections.len(), 1);
    assert_eq!(transcript.sections[0].text.matches("swpd").count(), MAX_SECTIONS + 1);
}
