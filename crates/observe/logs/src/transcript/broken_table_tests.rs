//! Tables that posting broke, and several runs in one text.

use super::tests::{BANNER, IO, MP, TOP, VM, VM_ROWS, each_line};
use super::*;
use crate::{LogInput, LogOptions, LogPiece};

/// A report of iostat of 2020 and later.
const WIDE: &str = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm \
                    w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  \
                    %util\n\
                    sdq             13.00    416.00     0.00   0.00   21.31    32.00   77.00    616.00     5.00   \
                    6.10   31.20     8.00    0.00      0.00     0.00   0.00    0.00     0.00    9.00   41.70    \
                    3.05  97.10\n\
                    sdr              0.00      0.00     0.00   0.00    0.00     0.00    1.00      4.00     0.00   \
                    0.00    0.90     4.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00   \
                    0.00   0.10\n";

/// What the readers make of a text: values of a counter at an instance, over all sections.
fn counter_values(text: &str, counter: &str, instance: &str) -> Vec<f64> {
    let texts: Vec<String> = match split_transcript(text.as_bytes()) {
        Some(transcript) => transcript.sections.into_iter().map(|section| section.text).collect(),
        None => vec![text.to_owned()],
    };
    let mut values = Vec::new();
    for text in texts {
        let mut sink = |piece: LogPiece<'_>| {
            if let LogPiece::Frame(frame) = piece {
                let series = frame.schema().series.iter();
                let column = series.clone().position(|s| s.counter == counter && s.instance == instance);
                if let Some(column) = column {
                    let scale = frame.schema().series[column].scale;
                    values.extend(frame.column(column).iter().map(|value| (value * scale * 1e6).round() / 1e6));
                }
            }
            std::ops::ControlFlow::Continue(())
        };
        let mut input = LogInput::from_bytes("paste", text.into_bytes()).expect("a text");
        // a section without samples gives no values
        let _ = crate::salvage(&mut input, &LogOptions::default(), &mut sink);
    }
    values
}

fn queue_of(text: &str) -> Vec<f64> {
    counter_values(text, "physical_disk.avg_queue_length", "sdq")
}

/// Breaks lines as a terminal does: at a column, within words too.
fn wrap_hard(text: &str, width: usize) -> String {
    each_line(text, |line| {
        let letters: Vec<char> = line.chars().collect();
        let parts: Vec<String> = letters.chunks(width).map(|part| part.iter().collect()).collect();
        parts.join("\n")
    })
}

#[test]
fn a_terminal_of_any_width_breaks_nothing() {
    for width in [60, 72, 80, 81, 97, 100, 120, 132, 160] {
        assert_eq!(queue_of(&wrap_hard(WIDE, width)), [3.05], "{width}:\n{}", wrap_hard(WIDE, width));
        assert_eq!(queue_of(&wrap_hard(IO, width)), [3.1], "{width}");
    }
}

#[test]
fn marks_around_cells_and_rows_go() {
    let barred = |text: &str| {
        each_line(text, |line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            if cells.is_empty() { String::new() } else { format!("| {} |", cells.join(" | ")) }
        })
    };
    let numbered = |text: &str| -> String {
        text.lines().enumerate().map(|(index, line)| format!("{:3} {line}\n", index + 1)).collect()
    };
    let remarked = |text: &str, remark: &str| {
        each_line(text, |line| if line.starts_with("sdq") { format!("{line} {remark}") } else { line.to_owned() })
    };
    for (name, text) in [
        ("table", barred(WIDE)),
        ("bar before lines", each_line(WIDE, |line| format!("| {line}"))),
        ("numbers", numbered(&format!("{WIDE}\n{VM}{VM_ROWS}"))),
        ("arrow", remarked(WIDE, "  <-- here, 97 %")),
        ("words", remarked(WIDE, "this one is slow")),
        ("brackets", remarked(WIDE, "(slow!)")),
        ("bold name", WIDE.replace("sdq  ", "**sdq**")),
        ("bold cell", WIDE.replace("  97.10", "  **97.10**")),
        ("one line", WIDE.split_whitespace().collect::<Vec<_>>().join(" ")),
        ("no headings", WIDE.lines().skip(1).collect::<Vec<_>>().join("\n") + "\n"),
        ("no end", WIDE.trim_end().to_owned()),
    ] {
        assert_eq!(queue_of(&text), [3.05], "{name}:\n{text}");
    }
}

#[test]
fn a_cut_row_keeps_its_whole_cells() {
    let lines: Vec<&str> = WIDE.lines().collect();
    let text = format!("{}\n{}", lines[0], &lines[1][..lines[1].len() - 30]);
    assert_eq!(counter_values(&text, "physical_disk.writes_per_s", "sdq"), [77.0]);
    assert!(queue_of(&text).iter().all(|queue| queue.is_nan()), "{:?}", queue_of(&text));
}

#[test]
fn rows_of_sar_and_mpstat_without_headings() {
    let rows = MP.lines().skip(1).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(counter_values(&rows, "processor.iowait", "_total"), [0.7, 0.695], "{rows}");
    let disks = "10:10:01  dev8-16  30.00  200.00  400.00  20.00  1.50  4.00  2.00  50.00\n\
                 10:20:01  dev8-16  40.00  200.00  600.00  20.00  2.50  4.00  2.00  70.00\n";
    assert_eq!(counter_values(disks, "physical_disk.avg_queue_length", "dev8-16"), [1.5, 2.5]);
}

#[test]
fn vmstat_in_one_line_of_an_article() {
    let flat = format!("{VM}{VM_ROWS}").split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [format!("We see this: {flat} 3 1 and no end.\n"), format!("{flat}\n")] {
        assert_eq!(counter_values(&text, "system.blocked", ""), [7.0, 6.0], "{text}");
    }
}

#[test]
fn two_frames_say_no_less_than_one_and_uptime_is_no_frame() {
    let later = TOP.replace("11:22:33", "11:44:33").replace("90.0 wa", "80.0 wa").replace("5.0 id", "15.0 id");
    let uptime = " 11:22:30 up 5 days,  2:01,  2 users,  load average: 6.50, 6.10, 5.90\n";
    let waits = |text: &str| counter_values(text, "processor.iowait", "_total");
    assert_eq!(waits(TOP), [0.9]);
    for text in [
        format!("root@host7:~# top\n{TOP}\nroot@host7:~# top\n{later}"),
        format!("{TOP}\nand twenty minutes later it looks so:\n\n{later}"),
    ] {
        assert_eq!(waits(&text), [0.9, 0.8], "{text}");
    }
    for text in [
        format!("{uptime}{TOP}"),
        format!("{uptime}\n{TOP}"),
        format!("{TOP}\n{uptime}"),
        format!("$ uptime\n{uptime}$ top -bn1\n{TOP}"),
    ] {
        assert_eq!(waits(&text), [0.9], "{text}");
    }
}

#[test]
fn two_machines_are_two_sections() {
    let quiet = IO.replace("3.10 35.20", "0.01  0.20").replace("96.80", " 0.80");
    let text = format!("one node has this all the time:\n{IO}\nbut the others are like this, quite idle:\n\n{quiet}");
    let transcript = split_transcript(text.as_bytes()).expect("a paste");
    assert_eq!(transcript.sections.len(), 2, "{transcript:?}");
    assert_eq!(queue_of(&text), [3.1, 0.01]);
}

#[test]
fn a_short_table_in_a_long_post_is_found() {
    let free = "              total        used        free      shared  buff/cache   available\n\
                Mem:           7821        2210         310          40        5301        5210\n\
                Swap:          2047           0        2047\n";
    let prose = "I have had this trouble since the last update of the kernel, and nobody knows why.\n".repeat(30);
    for text in
        [format!("{prose}{free}{prose}"), format!("{prose}\n{free}\n{prose}"), format!("{prose}$ free -m\n{free}")]
    {
        let transcript = split_transcript(text.as_bytes()).expect("a paste");
        assert_eq!(transcript.sections.len(), 1, "{transcript:?}");
        assert_eq!(transcript.sections[0].program, "free");
        assert_eq!(counter_values(&text, "memory.available_bytes", "").len(), 1, "{text}");
    }
}

#[test]
fn times_before_lines_keep_a_report_whole() {
    // each line has a second of its own
    let stamp = |text: &str| -> String {
        text.lines().enumerate().map(|(index, line)| format!("Nov 29 18:01:{index:02} {line}\n")).collect()
    };
    let busier = IO.replace("3.10 35.20", "4.10 45.20");
    assert_eq!(queue_of(&stamp(&format!("{IO}{busier}{busier}"))), [4.1, 4.1]);
    assert_eq!(counter_values(&stamp(&format!("{VM}{VM_ROWS}{VM_ROWS}")), "system.blocked", ""), [6.0, 7.0, 6.0]);
    let text = format!("{BANNER}\n{IO}{busier}");
    assert_eq!(queue_of(&text), [3.1, 4.1]);
}
