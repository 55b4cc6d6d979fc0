//! Performance Monitor text in all its dialects, and broken in many ways. The fixtures are made here, in the shapes of
//! real files.

use std::ops::ControlFlow;

use diskwright_base::Note;
use diskwright_logs::{LogError, LogInput, LogOptions, LogPiece, ReadSummary, TimeBasis, read};

/// Output of a reading: counter, instance and scaled cells in order of columns; times in seconds; notes.
#[derive(Default, Debug)]
struct ReadOutcome {
    series: Vec<(String, String, Vec<f64>)>,
    times: Vec<f64>,
    notes: Vec<Note>,
}

impl ReadOutcome {
    fn format_cells(&self, counter: &str) -> String {
        let found = self.series.iter().find(|(c, _, _)| c == counter);
        format!("{:?}", found.unwrap_or_else(|| panic!("no {counter} in {self:?}")).2)
    }

    fn has_note(&self, kind: &str) -> bool {
        self.notes.iter().any(|n| n.kind == kind)
    }
}

fn read_with(bytes: &[u8], options: &LogOptions) -> (ReadOutcome, Result<ReadSummary, LogError>) {
    let mut log = ReadOutcome::default();
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Frame(frame) => {
                log.times.extend(frame.ticks().iter().map(|t| t.time_ns as f64 * 1e-9));
                for (column, one) in frame.schema().series.iter().enumerate() {
                    let cells = frame.column(column).iter().map(|c| c * one.scale);
                    match log.series.iter_mut().find(|(c, i, _)| *c == one.counter && *i == one.instance) {
                        Some((_, _, all)) => all.extend(cells),
                        None => log.series.push((one.counter.clone(), one.instance.clone(), cells.collect())),
                    }
                }
            }
            LogPiece::Note(note) => log.notes.push(note),
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::from_bytes("test.csv", bytes.to_vec()).expect("not packed");
    let summary = read(&mut input, options, &mut sink);
    (log, summary)
}

/// Reads a log that needs no options, and returns what was left out: `where: why xN`.
fn read_log(text: impl AsRef<[u8]>) -> (ReadOutcome, Vec<String>) {
    let (log, summary) = read_with(text.as_ref(), &LogOptions::default());
    let skipped = summary.unwrap_or_else(|e| panic!("{e}")).skipped;
    (log, skipped.into_iter().map(|s| format!("{}: {} x{}", s.context, s.reason, s.count)).collect())
}

const HEAD: &str = r#""(PDH-CSV 4.0) (UTC)(0)","\\H\PhysicalDisk(0 C:)\Disk Reads/sec","\\H\Memory\Available MBytes""#;
/// Time of the first row, 09/19/2022 22:44:00 UTC.
const START: f64 = 1_663_627_440.0;

fn make_row(second: u32, cells: &str) -> String {
    format!("\"09/19/2022 22:44:{second:02}.000\",{cells}\r\n")
}

fn make_log(rows: &[&str]) -> String {
    let rows: Vec<String> = rows.iter().enumerate().map(|(index, cells)| make_row(index as u32, cells)).collect();
    format!("{HEAD}\r\n{}", rows.concat())
}

#[test]
fn reads_a_plain_log() {
    let (log, skipped) = read_log(make_log(&["\" \",\"100\"", "\"1.5\",\"200\"", "\"8.57e-005\",\" \""]));
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!(log.format_cells("physical_disk.reads_per_s"), "[NaN, 1.5, 8.57e-5]");
    assert_eq!(log.format_cells("memory.available_bytes"), "[104857600.0, 209715200.0, NaN]");
    assert_eq!(log.times, [START, START + 1.0, START + 2.0]);
    let topology = log.notes.iter().find(|n| n.kind == Note::TOPOLOGY).expect("a topology");
    let topology = topology.read_topology().unwrap();
    assert_eq!((topology.host.as_str(), topology.devices[0].name.as_str()), ("H", "0 C:"));
    assert_eq!((topology.filesystems[0].mount.as_str(), topology.filesystems[0].device.as_str()), ("C:", "0 C:"));
    assert!(!log.has_note(Note::WARNING));
}

#[test]
fn queue_lengths_follow_from_rates_and_times() {
    let head =
        HEAD.replace("Available MBytes", "Pages/sec").replace("\\Memory\\Pages", "\\PhysicalDisk(0 C:)\\Avg. Disk sec");
    let head = head.replace("Avg. Disk sec/sec", "Avg. Disk sec/Read");
    let (log, _) = read_log(format!("{head}\n{}", make_row(0, "\"100\",\"0.02\"")));
    assert_eq!(log.format_cells("physical_disk.avg_read_queue_length"), "[2.0]");
}

#[test]
fn reads_the_same_log_in_other_dialects() {
    let (plain, _) = read_log(make_log(&["\"1.5\",\"100\"", "\"0.25\",\"200\""]));
    let semicolons = "(PDH-CSV 4.0) (UTC)(0);\\\\H\\PhysicalDisk(0 C:)\\Disk Reads/sec;\
        \\\\H\\Memory\\Available MBytes;\n19.09.2022 22:44:00;1,5;100;\n19.09.2022 22:44:01,000;0,25;200;\n";
    let tabs = make_log(&["\"1.5\"\t\"100\"", "\"0.25\"\t\"200\""]).replace("\",\"", "\"\t\"").replace("CSV", "TSV");
    let typeperf = format!("\r\n{}Exiting, please wait...\r\n", make_log(&["\"1.5\",\"100\"", "\"0.25\",\"200\""]));
    let esxtop = make_log(&["\"1.50\",\"100\"", "\"0.25\",\"200\""]).replace(".000\"", "\"");
    let no_host = make_log(&["\"1.5\",\"100\"", "\"0.25\",\"200\""]).replace("\\\\H\\", "\\");
    let iso = make_log(&["1.5,100", "0.25,200"]).replace("09/19/2022", "2022-09-19").replace("\r\n", "\n");
    let wide: Vec<u8> = "\u{feff}".encode_utf16().chain(tabs.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let marked = format!("\u{feff}{}", make_log(&["\"1.5\",\"100\"", "\"0.25\",\"200\""]));
    let commas = make_log(&["\"1,5\",\"100\"", "\"0,25\",\"200\""]);
    let english = make_log(&["\"1.5\",\"100\"", "\"0.25\",\"200\""]).replace("09/19/2022 22:44:", "9/19/2022 10:44:");
    let english = english.replace(".000\"", " PM\"");
    for text in [semicolons, &tabs, &typeperf, &esxtop, &no_host, &iso, &marked, &commas, &english] {
        let (log, _) = read_log(text);
        assert_eq!((&log.series, &log.times), (&plain.series, &plain.times), "{text}");
    }
    assert_eq!(read_log(wide).0.series, plain.series);
}

#[test]
fn reads_zones_and_tells_where_one_is_missing() {
    let east = make_log(&["\"1\",\"1\""]).replace("(UTC)(0)", "(India Standard Time)(-330)");
    assert_eq!(read_log(&east).0.times, [START - 19_800.0]);
    for title in ["(PDH-CSV 4.0)", "(PDH-CSV 4.0) (RTZ 2 (", "(PDH-CSV 4.0) ("] {
        let text = make_log(&["\"1\",\"1\""]).replace("(PDH-CSV 4.0) (UTC)(0)", title);
        let (log, summary) = read_with(text.as_bytes(), &LogOptions::default());
        assert_eq!((log.times.as_slice(), summary.unwrap().time_basis), (&[START][..], TimeBasis::NoZone), "{title}");
        assert!(log.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("--utc-offset")));
        let options = LogOptions { utc_offset_s: Some(3600), ..LogOptions::default() };
        assert_eq!(read_with(text.as_bytes(), &options).0.times, [START - 3600.0]);
    }
}

#[test]
fn rows_that_lost_their_seconds_are_spread_over_the_minute() {
    let row = |minute: u32, reads: u32| format!("9/19/2022 22:{minute:02};{reads};100\n");
    let rows: String = (0..4).flat_map(|minute| (0..3).map(move |n| row(44 + minute, minute * 3 + n))).collect();
    let head = HEAD.replace("\",\"", "\";\"");
    let (log, skipped) = read_log(format!("{head}\n{rows}"));
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!(log.times, (0..12).map(|n| START + 20.0 * f64::from(n)).collect::<Vec<_>>());
    assert!(log.notes.iter().any(|note| note.kind == Note::WARNING && note.text().contains("spread evenly")));
}

#[test]
fn reads_names_in_another_language_and_code_page() {
    let (head, cells) = (
        r#""(PDH-CSV 4.0) (Hora de verano romance)(-120)","\\H\Disco físico(0 C:)\Lecturas de disco/s","#,
        r#""\\H\Memoria\Bytes disponibles","\\H\Memoria\Cosas/s""#,
    );
    let text = format!("{head}{cells}\r\n{}", make_row(0, "\"1\",\"2\",\"3\""));
    for (code, name) in [(0xed, "windows-1252"), (0xa1, "cp850")] {
        let mut bytes = Vec::new();
        text.chars().for_each(|c| bytes.push(if c.is_ascii() { c as u8 } else { code }));
        let (log, skipped) = read_log(bytes);
        assert_eq!(log.format_cells("physical_disk.reads_per_s"), "[1.0]", "{name}");
        assert_eq!(log.format_cells("memory.available_bytes"), "[2.0]", "{name}");
        assert_eq!(log.format_cells(r"foreign.Memoria\Cosas/s"), "[3.0]", "{name}");
        assert_eq!(skipped, [r"Memoria\Cosas/s: not in the table of es names; kept under its own x1"]);
    }
}

#[test]
fn reads_one_of_several_hosts() {
    let head = r#""(PDH-CSV 4.0) (UTC)(0)","\\A\Memory\Pages/sec","\\B\Memory\Pages/sec","\\A\Memory\Page Reads/sec""#;
    let text = format!("{head}\n{}", make_row(0, "\"1\",\"2\",\"3\""));
    let (log, skipped) = read_log(&text);
    assert_eq!(
        (log.format_cells("paging.pages_per_s"), log.format_cells("paging.page_reads_per_s")),
        ("[1.0]".into(), "[3.0]".into())
    );
    assert_eq!(skipped, ["B: another machine; to read it use --host B x1"]);
    let b = LogOptions { host: Some("b".into()), ..LogOptions::default() };
    let (log, _) = read_with(text.as_bytes(), &b);
    assert_eq!(log.format_cells("paging.pages_per_s"), "[2.0]");
    let c = LogOptions { host: Some("c".into()), ..LogOptions::default() };
    let message = read_with(text.as_bytes(), &c).1.unwrap_err().to_string();
    assert!(message.contains("line 1") && message.contains("A, B"), "{message}");
}

#[test]
fn reports_broken_rows_and_keeps_the_rest() {
    // rows; what is kept of reads; what is said
    let cases: &[(&[&str], &str, &str)] = &[
        (&["\"1\",\"1\"", "\"2\"", "\"3\",\"1\""], "[1.0, 2.0, 3.0]", "line 3, column 3: a row has fewer fields"),
        (&["\"1\",\"1\",\"9\"", "\"2\",\"1\""], "[1.0, 2.0]", "line 2: a row has more fields"),
        (
            &["\"x\",\"1\"", "\"2\",\"1\""],
            "[NaN, 2.0]",
            "line 2, column 2 (physical_disk.reads_per_s 0 C:): x: not a number",
        ),
        (&["\"1", "\"2\",\"1\""], "[NaN, 2.0]", "line 2: a quote is not closed"),
        (&["\"-1\",\"1\"", "\"2\",\"1\""], "[NaN, 2.0]", "physical_disk.reads_per_s 0 C:: a value below zero"),
        (&["\"1.#IND\",\"1\"", "\"5\",\"1\""], "[NaN, 5.0]", ""),
        (&["\"1e999\",\"1\"", "\"5\",\"1\""], "[NaN, 5.0]", "line 2, column 2 (physical_disk.reads_per_s 0 C:): 1e999"),
    ];
    for (rows, kept, expected) in cases {
        let (log, skipped) = read_log(make_log(rows));
        assert_eq!(log.format_cells("physical_disk.reads_per_s"), *kept, "{rows:?}");
        match skipped.as_slice() {
            [] => assert!(expected.is_empty(), "{rows:?}"),
            all => assert!(!expected.is_empty() && all.iter().any(|s| s.starts_with(expected)), "{rows:?}: {all:?}"),
        }
    }
}

#[test]
fn a_log_cut_anywhere_keeps_what_came_before() {
    let full_text = make_log(&["\"1.25\",\"100\"", "\"2.25\",\"200\"", "\"3.25\",\"300\""]);
    let last = full_text[..full_text.len() - 2].rfind("\r\n").unwrap() + 2;
    for end in last..full_text.len() {
        let (log, skipped) = read_log(&full_text[..end]);
        let cells = log.format_cells("physical_disk.reads_per_s");
        assert!(cells.starts_with("[1.25, 2.25"), "{cells}");
        assert!(["[1.25, 2.25]", "[1.25, 2.25, NaN]", "[1.25, 2.25, 3.25]"].contains(&cells.as_str()), "{cells}");
        let is_whole = end >= full_text.len() - 2;
        assert_eq!(skipped.is_empty(), is_whole || end == last, "{end}: {skipped:?}");
    }
    // without quotes a number that is cut looks like a number
    let bare = full_text.replace("\"3.25\",\"300\"\r\n", "3.2");
    assert_eq!(read_log(bare).0.format_cells("physical_disk.reads_per_s"), "[1.25, 2.25, NaN]");
    for end in crate::sweep::sweep(last, 120) {
        let _ = read_with(&full_text.as_bytes()[..end], &LogOptions::default());
    }
}

#[test]
fn another_header_within_the_log_is_another_schema() {
    let second = HEAD.replace("Disk Reads/sec", "Disk Writes/sec").replace("(UTC)(0)", "(UTC)(60)");
    let text = make_log(&["\"1\",\"1\""]) + &format!("{second}\r\n{}", make_row(1, "\"5\",\"1\""));
    let (log, skipped) = read_log(text);
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!(log.format_cells("physical_disk.writes_per_s"), "[5.0]");
    assert_eq!(log.times, [START, START + 3601.0]);
    let cut = make_log(&["\"1\",\"1\""]) + "\"(PDH-CSV 4.0\r\n" + &make_row(1, "\"2\",\"1\"");
    let (log, skipped) = read_log(cut);
    assert_eq!(log.format_cells("physical_disk.reads_per_s"), "[1.0, 2.0]");
    assert_eq!(skipped, ["line 3: no header, and none before it x1"]);
}

#[test]
fn joined_logs_of_several_machines_do_not_mix() {
    let other = make_log(&["\"7\",\"1\"", "\"8\",\"1\""]).replace("\\\\H\\", "\\\\I\\");
    let (log, skipped) = read_log(make_log(&["\"1\",\"1\""]) + &other + HEAD + "\r\n" + &make_row(9, "\"2\",\"1\""));
    assert_eq!(log.format_cells("physical_disk.reads_per_s"), "[1.0, 2.0]");
    assert_eq!(skipped, ["line 3: a log of another machine: no column belongs to host H; hosts in the log: I x1"]);
}

#[test]
fn handles_times_that_go_back_and_clocks_that_change() {
    let log_of = |times: &[&str]| {
        let rows: Vec<String> = times.iter().map(|t| format!("\"{t}\",\"1\",\"1\"\n")).collect();
        read_log(format!("{HEAD}\n{}", rows.concat()))
    };
    let (log, skipped) = log_of(&[
        "10/30/2022 02:59:30.000",
        "10/30/2022 02:59:45.000",
        "10/30/2022 02:00:00.000",
        "10/30/2022 02:00:15.000",
    ]);
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!(log.times.iter().map(|t| t - log.times[0]).collect::<Vec<_>>(), [0.0, 15.0, 30.0, 45.0]);
    assert!(log.has_note(Note::CLOCK));
    let (log, skipped) = log_of(&["10/30/2022 02:59:30.000", "10/30/2022 02:59:45.000", "10/30/2022 01:10:00.000"]);
    assert_eq!((log.times.len(), skipped.len()), (2, 1));
    assert!(skipped[0].contains("time goes back"));
    let (log, _) = log_of(&["10/30/2022 02:00:00.000", "10/30/2022 02:00:15.000", "10/30/2022 02:20:00.000"]);
    assert!(log.has_note(Note::GAP));
}

#[test]
fn reports_ambiguous_dates() {
    let text = make_log(&["\"1\",\"1\""]).replace("09/19/2022 22:44:00.000", "05/06/2022 22:44");
    assert!(read_log(&text).0.has_note(Note::WARNING));
    let settled = text + "\"13/06/2022 22:44\",\"1\",\"1\"\n";
    let (log, _) = read_log(settled);
    assert!(!log.has_note(Note::WARNING));
    assert_eq!(log.times[1] - log.times[0], 8.0 * 86_400.0);
}

#[test]
fn rejects_files_without_samples() {
    for (text, expected) in [
        (format!("{HEAD}\r\n"), "no sample"),
        (format!("{HEAD}\r\nnothing, really\r\n"), "not a sample"),
        (format!("{HEAD}\r\n\"44:32,8\",\"1\",\"2\"\r\n"), "does not begin with a time"),
    ] {
        let error = read_with(text.as_bytes(), &LogOptions::default()).1.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Replaces, drops and doubles every byte of a small log, in all dialects; any result is accepted.
#[test]
fn no_mutation_panics() {
    let seed = make_log(&["\" \",\"100\"", "\"1.5\",\"200\"", "\"-8.57e-005\",\"x\""]);
    let options = LogOptions { utc_offset_s: Some(0), ..LogOptions::default() };
    let wide: Vec<u8> = seed.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for seed in [seed.as_bytes(), &wide] {
        for index in crate::sweep::sweep(seed.len(), 80) {
            for byte in [b'"', b',', b'\n', b'9', 0xff] {
                let mut broken = seed.to_vec();
                broken[index] = byte;
                let _ = read_with(&broken, &options);
                broken.insert(index, byte);
                let _ = read_with(&broken, &options);
            }
        }
    }
}

/// Three ticks of a disk and a drive letter whose requests are `requests`, on a machine that pages.
fn paging_log(requests: [f64; 3]) -> String {
    let names = [
        r"PhysicalDisk(0 C:)\Avg. Disk Queue Length",
        r"LogicalDisk(C:)\Disk Reads/sec",
        r"LogicalDisk(C:)\Free Megabytes",
        r"Memory\Page Reads/sec",
    ];
    let mut text = String::from(r#""(PDH-CSV 4.0) (UTC)(0)""#);
    names.iter().for_each(|name| text += &format!(r#","\\H\{name}""#));
    for (second, requests) in requests.iter().enumerate() {
        text += &format!("\r\n\"03/02/1998 10:00:0{second}.000\",\"{requests}\",\"{requests}\",\"0\",\"38.6\"");
    }
    text + "\r\n"
}

#[test]
fn zeros_of_disks_that_were_not_measured_are_gaps() {
    // Diskperf is off: pages are read, but no disk has a request
    let (log, _) = read_log(paging_log([0.0; 3]));
    assert_eq!(log.format_cells("physical_disk.avg_queue_length"), "[NaN, NaN, NaN]");
    assert_eq!(log.format_cells("logical_disk.reads_per_s"), "[NaN, NaN, NaN]");
    assert_eq!(log.format_cells("logical_disk.free_bytes"), "[0.0, 0.0, 0.0]");
    let remarks = log.notes.iter().filter(|note| note.kind == Note::WARNING);
    assert_eq!(remarks.filter(|note| format!("{note:?}").contains("diskperf -y")).count(), 1);
    // Diskperf is on, and the disk is idle some of the time
    let (log, _) = read_log(paging_log([0.0, 2.0, 0.0]));
    assert_eq!(log.format_cells("physical_disk.avg_queue_length"), "[0.0, 2.0, 0.0]");
    assert!(!log.has_note(Note::WARNING));
    // nothing shows that the disk was needed
    let (log, _) = read_log(paging_log([0.0; 3]).replace("38.6", "0"));
    assert_eq!(log.format_cells("physical_disk.avg_queue_length"), "[0.0, 0.0, 0.0]");
}
