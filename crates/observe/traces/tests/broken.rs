//! Damaged traces: truncated, with wrong lengths, changing columns,
//! times that go back, or files of several formats. Nothing panics, valid requests
//! are kept, and the rest is reported with its place.

use std::path::PathBuf;

use crate::common::*;
use diskwright_base::{Operation, Request};
use diskwright_traces::{FORMATS, LogInput, Statistics, TraceError, open, with_format, write_csv_line};

/// A small trace of each format, with the number of its requests.
fn sample_traces() -> Vec<(&'static str, Vec<u8>, usize)> {
    let blktrace: Vec<Entry<'_>> = (0..20)
        .flat_map(|i| [event(i * 100, Q, READ, i * 8, 8), event(i * 100 + 5, D, READ, i * 8, 8)])
        .chain((0..20).map(|i| event(i * 100 + 3000, C, READ, i * 8, 8)))
        .collect();
    let lines = |line: &dyn Fn(u32) -> String| (0..20).map(line).collect::<String>().into_bytes();
    let blkparse = |i: u32| {
        let event =
            |ns: u32, action: &str| format!("  8,0    1 {i:8}     0.{ns:09} 31365  {action}   R {} + 8 [fio]\n", i * 8);
        event(i * 100, "Q") + &event(i * 100 + 10, "D") + &event(i * 100 + 90, "C")
    };
    let mut csv = diskwright_traces::CSV_HEADING.to_owned();
    for i in 0..20 {
        let request = Request::new(i * 1000, 0, Operation::Write, 4096, 512);
        write_csv_line(&mut csv, &Request { completion_ns: i * 1000 + 50, ..request }, "a, b");
    }
    vec![
        ("blktrace", DEFAULT_FORMAT.encode_stream(&blktrace), 20),
        ("blkparse", lines(&blkparse), 20),
        (
            "msr-cambridge",
            lines(&|i| format!("{},hm,1,Read,{},4096,413\n", 128_166_372_003_061_629 + u64::from(i), i * 512)),
            20,
        ),
        ("requests-csv", csv.into_bytes(), 20),
        ("disksim-validation", lines(&|i| format!("R Hit {} 4 8724.00000 33808.00000\n", i * 7)), 20),
        ("disksim", lines(&|i| format!("{i}.500000 0 {} 8 1\n", i * 16)), 20),
        ("mqsim", lines(&|i| format!("{} 0 {} 8 {}\n", 48_513_000 + i * 200_000, i * 16, i % 2)), 20),
        ("spc", lines(&|i| format!("0,{},8192,W,{i}.551706\n", i * 16)), 20),
        (
            "alibaba-block",
            lines(&|i| format!("419,W,{},4096,{}\n", i * 4096, 1_577_808_144_360_767 + u64::from(i))),
            20,
        ),
        ("tencent-cbs", lines(&|i| format!("{},{},8,1,1283\n", 1_538_323_200 + i, i * 8)), 20),
        ("systor17", lines(&|i| format!("{}.013118000,0.000806000,R,4,{},4096\n", 1_456_135_200 + i, i * 512)), 20),
        ("vscsi", (0..20).flat_map(|i| vscsi_record(1, 0x28, i)).collect(), 20),
    ]
}

/// Records of either version: 4 KiB each, one millisecond apart.
fn vscsi_record(version: u16, command: u16, i: u32) -> Vec<u8> {
    let (sequence, length, segments) = (i.to_le_bytes(), 4096_u32.to_le_bytes(), 1_u32.to_le_bytes());
    let (command, version_word) = (command.to_le_bytes(), (version << 8).to_le_bytes());
    let tail = [u64::from(i * 8).to_le_bytes(), (5_633_898_368_802 + u64::from(i) * 1000).to_le_bytes()].concat();
    match version {
        1 => [&sequence[..], &length, &segments, &command, &version_word, &tail].concat(),
        _ => [&command[..], &version_word, &sequence, &length, &segments, &tail, &77_u64.to_le_bytes()].concat(),
    }
}

#[test]
fn each_format_is_recognised_by_its_content_alone() {
    let all = sample_traces();
    assert_eq!(all.len(), FORMATS.len());
    for (id, bytes, count) in all {
        let trace = open_trace(std::slice::from_ref(&bytes));
        assert_eq!(trace.format().id, id);
        let (requests, summary) = read_all(&[bytes]);
        assert_eq!((requests.len(), summary.skipped.len()), (count, 0), "{id}: {summary:?}");
    }
}

/// Binary formats.
const BINARY_FORMATS: [&str; 2] = ["blktrace", "vscsi"];

/// Common changes of a text: name, function, and whether a foreign line is reported.
type TextChange = (&'static str, fn(&str) -> String, bool);
const TEXT_CHANGES: &[TextChange] = &[
    ("a line of nohup before", |text| format!("nohup: ignoring input\n{text}"), true),
    ("a prompt and a time before", |text| format!("# cat x\nzzz ***Sat Nov 21 13:20:09 UTC 2026\n\n{text}"), true),
    ("a mark of the byte order", |text| format!("\u{feff}{text}"), false),
    ("carriage returns and line feeds", |text| text.replace('\n', "\r\n"), false),
    ("carriage returns", |text| text.replace('\n', "\r"), false),
    ("codes of a terminal", |text| format!("\u{1b}[?2004l\u{1b}[0m{text}"), false),
];

#[test]
fn common_changes_of_a_text_change_no_request() {
    for (id, bytes, _) in sample_traces().into_iter().filter(|(id, _, _)| !BINARY_FORMATS.contains(id)) {
        let text = String::from_utf8(bytes.clone()).expect("text");
        let (unchanged, _) = read_all(&[bytes]);
        let wide: Vec<u8> = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(read_all(&[wide]).0, unchanged, "{id}, UTF-16");
        for (name, change, is_told) in TEXT_CHANGES {
            let (requests, summary) = read_all(&[change(&text).into_bytes()]);
            assert_eq!(requests, unchanged, "{id}, {name}");
            // like blkparse's summary, a line before the events is ignored
            assert!(!is_told || !summary.skipped.is_empty() || id == "blkparse", "{id}, {name}: nothing is reported");
        }
    }
}

#[test]
fn a_trace_cut_anywhere_keeps_earlier_requests() {
    for (id, bytes, _) in sample_traces() {
        let format = FORMATS.iter().find(|f| f.id == id).expect("registered");
        let mut max_requests = 0;
        for cut in 0..bytes.len() {
            let input = LogInput::from_bytes("cut", bytes[..cut].to_vec()).expect("opens");
            let mut trace = with_format(format, vec![input]);
            let count = trace.by_ref().inspect(|r| assert!(r.is_ok())).count();
            assert!(count + 1 >= max_requests, "{id} cut at {cut}: {count} after {max_requests}");
            max_requests = max_requests.max(count);
            assert!(trace.summary().skipped.len() <= 1, "{id} cut at {cut}: {:?}", trace.summary());
        }
        assert!(max_requests >= 19, "{id}: {max_requests}");
    }
}

#[test]
fn garbage_in_the_middle_loses_no_request() {
    for (id, bytes, count) in sample_traces() {
        let place = match id {
            "blktrace" => 48 * 10,
            "vscsi" => 32 * 10,
            _ => bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(9).expect("lines").0 + 1,
        };
        for rubbish in [&b"8,0 1 2\xff\xfe,\"what, is this\n"[..], b"\0\0\0\0\0\0\0\0\n", b"0,1,2,3,4,5,6,7,8,9\n"] {
            let broken = [&bytes[..place], rubbish, &bytes[place..]].concat();
            let (requests, summary) = read_all(&[broken]);
            assert!(requests.len() + 1 >= count, "{id}: {} of {count}", requests.len());
            if id != "blkparse" {
                assert_eq!(summary.skipped.len(), 1, "{id}: {summary:?}");
                let context = &summary.skipped[0].context;
                assert!(
                    ["byte 480", "byte 320", "line 11"].iter().any(|place| context.ends_with(place)),
                    "{id}: {context}"
                );
            }
        }
    }
}

#[test]
fn a_wrong_length_loses_no_later_record() {
    let mut lying = DEFAULT_FORMAT.encode_record(&event(0, Q, READ, 8, 8));
    lying[46..48].copy_from_slice(&u16::MAX.to_le_bytes());
    let good: Vec<Entry<'_>> = (1..3000).map(|i| event(i, Q, READ, i * 8, 8)).collect();
    let (requests, summary) = read_all(&[[lying, DEFAULT_FORMAT.encode_stream(&good)].concat()]);
    assert_eq!(requests.len(), 3000);
    assert!(summary.skipped.is_empty(), "{summary:?}");
}

/// Lines that are skipped, each with a word of the reason.
const BAD_LINES: &[(&str, &str, &str)] = &[
    ("msr-cambridge", "128166372003061629,hm,1,Read,383496192,32768", "column 7"),
    ("msr-cambridge", "128166372003061629,hm,1,Verify,383496192,32768,1", "column 4"),
    ("msr-cambridge", "128166372003061629,hm,1,Read,-5,32768,1", "column 5"),
    ("msr-cambridge", "128166372003061629,hm,1,Read,5,99999999999,1", "column 6"),
    ("msr-cambridge", "128166372003061629,hm,1,Read,5,5,18446744073709551615", "column 7"),
    ("msr-cambridge", "18446744073709551615,hm,1,Read,5,5,1", "column 1"),
    ("msr-cambridge", "128166372003061629,hm,1,Read,5,5,1,2", "more than"),
    ("disksim-validation", "X Hit 1 2 3.0 4.0", "column 1"),
    ("disksim-validation", "R Maybe 1 2 3.0 4.0", "column 2"),
    ("disksim-validation", "R Hit 99999999999999999999 2 3.0 4.0", "column 3"),
    ("disksim-validation", "R Hit 1 99999999 3.0 4.0", "column 4"),
    ("disksim-validation", "R Hit 1 2 -3.0 4.0", "column 5"),
    ("disksim-validation", "R Hit 1 2 9e15 4.0", "column 5"),
    ("disksim-validation", "R Hit 1 2 3.0", "column 6"),
    ("disksim", "1.0 0 5 8", "fewer"),
    ("disksim", "1.0 0 5 8 1 1", "more"),
    ("disksim", "soon 0 5 8 1", "number"),
    ("mqsim", "148513000 0 5 8 7", "column 5"),
    ("mqsim", "148513000 0 5 8 r", "column 5"),
    ("mqsim", "148513000.5.5 0 5 8 1", "number"),
    ("mqsim", "148513000 0 5 8388608 1", "number"),
    ("mqsim", "-5 0 5 8 1", "number"),
    ("alibaba-block", "419,X,4096,4096,1577808144360767", "column 2"),
    ("alibaba-block", "419,W,-1,4096,1577808144360767", "column 3"),
    ("alibaba-block", "419,W,0,4294967296,1577808144360767", "column 4"),
    ("alibaba-block", "419,W,0,4096,1577808144", "column 5"),
    ("alibaba-block", "419,W,0,4096,9577808144360767", "column 5"),
    ("alibaba-block", "419,W,0,4096,1577808144360767,1", "more"),
    ("tencent-cbs", "1538323200,16,8,2,1283", "column 4"),
    ("tencent-cbs", "15383232000,16,8,1,1283", "column 1"),
    ("tencent-cbs", "1538323200,18446744073709551615,8,1,1283", "column 2"),
    ("tencent-cbs", "1538323200,16,8388608,1,1283", "column 3"),
    ("tencent-cbs", "1538323200,16,8,1", "fewer"),
    ("systor17", "1456135200.013118000,0.000806000,,4,0,4096", "no response"),
    ("systor17", "1456135200.013118000,-0.1,R,4,0,4096", "column 2"),
    ("systor17", "1456135200.013118000,9999999999,R,4,0,4096", "column 2"),
    ("systor17", "0.5,0.1,R,4,0,4096", "column 1"),
    ("systor17", "1456135200.0,0.1,T,4,0,4096", "column 3"),
    ("systor17", "1456135200.0,0.1,R,4,0,x", "column 6"),
    ("spc", "0,5,8192,W", "column 5"),
    ("spc", "0,5,8192,D,1.0", "column 4"),
    ("requests-csv", "1.0,sda,verify,0,512,,", "column 3"),
    ("requests-csv", "1.0,\"sda,read,0,512,,", "column 2"),
    ("requests-csv", "1.0,sda,read,0,512,,x", "column 7"),
    ("requests-csv", "1.0,sda,read,0,512,", "column 7"),
    ("blkparse", "8,0 1 2 soon 3 D R 8 + 8 [x]", "column 4"),
    ("blkparse", "8,0 1 2 0.1 3 D R 8 + 99999999 [x]", "4 GiB"),
    ("blkparse", "8,0 1 2 0.1 3 D R 18446744073709551615 + 8 [x]", "beyond"),
];

#[test]
fn impossible_lines_are_skipped_and_reported() {
    for (id, line, reason) in BAD_LINES {
        let (_, bytes, count) = sample_traces().into_iter().find(|(found, ..)| found == id).expect("a trace");
        let with = [&bytes[..], line.as_bytes(), b"\n"].concat();
        let (requests, summary) = read_all(&[with]);
        assert_eq!(requests.len(), count, "{line}");
        let reasons: Vec<&str> = summary.skipped.iter().map(|s| s.reason.as_str()).collect();
        assert!(reasons.len() == 1 && reasons[0].contains(reason), "{line}: {reasons:?}");
    }
}

#[test]
fn huge_times_do_not_overflow() {
    let line = "R Hit 1 2 9e14 9e14\n";
    let (requests, summary) = read_all(&[line.repeat(100).into_bytes()]);
    assert!((1..100).contains(&requests.len()), "{}", requests.len());
    assert!(summary.skipped[0].reason.contains("the time is out of range"));
}

#[test]
fn slightly_unordered_requests_are_sorted() {
    let line = |i: u64| format!("{},hm,1,Read,0,4096,413\n", 128_166_372_003_061_629 + i);
    let shuffled: String = (0..2000).map(|i| line(i * 1999 % 2000)).collect();
    let (requests, summary) = read_all(&[shuffled.into_bytes()]);
    assert!(requests.windows(2).all(|w| w[0].arrival_ns <= w[1].arrival_ns));
    assert_eq!(summary.out_of_order, 0);
    // and requests far out of order are counted
    let far: String = (0..20_000).rev().map(line).collect();
    let (requests, summary) = read_all(&[far.into_bytes()]);
    assert_eq!(requests.len(), 20_000);
    assert!(summary.out_of_order > 10_000);
    let report = Statistics::from_requests(requests, &summary.devices);
    assert_eq!(report.all.requests, 20_000);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let all = sample_traces();
    let inputs = |take: &[usize]| {
        take.iter().map(|i| LogInput::from_bytes(all[*i].0, all[*i].1.clone()).expect("opens")).collect::<Vec<_>>()
    };
    let refused = |take: &[usize]| diskwright_traces::from_inputs(inputs(take)).err().map(|e| e.to_string());
    assert!(refused(&[0, 2]).is_some_and(|e| e.contains("blktrace") && e.contains("msr-cambridge")));
    assert!(refused(&[]).is_some());
    let text = LogInput::from_bytes("notes.txt", b"dear diary\n".to_vec()).expect("opens");
    let error = diskwright_traces::from_inputs(vec![text]).err().expect("no trace");
    assert!(matches!(error, TraceError::Unknown { .. }) && error.to_string().contains("notes.txt"));
    assert!(open(&[PathBuf::from("/nowhere/at/all")]).is_err());
    for nothing in [&b""[..], b"\n\n\n", b"\0\0\0\0"] {
        let input = LogInput::from_bytes("x", nothing.to_vec()).expect("opens");
        assert!(diskwright_traces::from_inputs(vec![input]).is_err());
    }
}

#[test]
fn counters_of_other_tools_are_no_traces() {
    let logs: &[&[u8]] = &[
        b"\"(PDH-CSV 4.0) (Zone)(0)\",\"\\\\H\\X\"\n\"01/02/2003 00:00:00.000\",\"1\"\n",
        b"# hostname;interval;timestamp;DEV\nh;1;2020-01-01;sda\n",
        b"{\"sysstat\": {}}\n",
        b"1,2,3\n4,5,6\n",
        b"a,b,c,R,1\n",
        b"   8       0 sda 1 2 3 4\n",
        b"1.0 2.0 3.0 4.0 5.0\n",
        b"\x50\x05\x26\x02",
    ];
    for log in logs {
        let input = LogInput::from_bytes("x", log.to_vec()).expect("opens");
        assert!(diskwright_traces::recognise_format(&input.head()).is_none(), "{}", String::from_utf8_lossy(log));
    }
}

#[test]
fn many_devices_and_absurd_requests_stay_bounded() {
    let line = |i: u64| format!("{},h{i},0,Write,{},4294967295,{}\n", 128_166_372_003_061_629 + i, u64::MAX - i, i % 7);
    let text: String = (0..66_000).map(line).collect();
    let (requests, summary) = read_all(&[text.into_bytes()]);
    assert_eq!(requests.len(), 65_535);
    assert!(summary.skipped[0].reason.contains("devices"));
    let report = Statistics::from_requests(requests.into_iter().take(2000), &summary.devices);
    assert_eq!(report.devices.len(), diskwright_traces::statistics::MAX_DEVICES);
    assert_eq!(report.further_device_requests, 2000 - report.devices.len() as u64);
    assert_eq!(report.all.requests, 2000);
}

#[test]
fn both_versions_of_vscsi_and_other_commands() {
    for version in [1, 2] {
        let commands = [0x28, 0x2a, 0x88, 0x8a, 0x35, 0x12, 0x42, 0x08];
        let record = |(i, command): (usize, &u16)| vscsi_record(version, *command, u32::try_from(i).expect("few"));
        let (requests, summary) = read_all(&[commands.iter().enumerate().flat_map(record).collect()]);
        let of = |operation| requests.iter().filter(|r| r.operation == operation).count();
        let counts = (of(Operation::Read), of(Operation::Write), of(Operation::Flush));
        assert_eq!((summary.format, counts), ("vscsi", (3, 2, 1)), "{version}");
        assert_eq!((requests[1].offset_bytes, requests[1].length_bytes), (8 * 512, 4096));
        assert_eq!(requests[1].arrival_ns - requests[0].arrival_ns, 1_000_000);
        // the inquiry, and the unmap whose length is that of its list
        let because = summary.skipped.iter().map(|s| (s.count, s.reason.contains("SCSI"))).collect::<Vec<_>>();
        assert_eq!(because, [(2, true)], "{summary:?}");
    }
}

/// Whole-number arrivals, whose columns are the same in DiskSim, MQSim and SSDSim.
#[test]
fn units_of_whole_number_arrivals_are_detected_by_interval_or_ambiguous() {
    let five = |step: u64, flags: &str| {
        (0..50).map(|i| format!("{} {} {} 8 {flags}\n", i * step, i % 2, i * 16)).collect::<String>().into_bytes()
    };
    // 20 ms apart, which as nanoseconds would be 50 million requests/s
    let (requests, summary) = read_all(&[five(20, "1")]);
    assert_eq!((summary.format, requests.len()), ("disksim", 50));
    assert_eq!(requests[1].arrival_ns, 20_000_000);
    assert!(summary.assumed.as_ref().is_some_and(|a| a.contains("milliseconds")), "{summary:?}");
    // 0.2 ms apart, which as milliseconds would be minutes
    let (requests, summary) = read_all(&[five(200_000, "0")]);
    assert_eq!((summary.format, requests[1].arrival_ns), ("mqsim", 200_000));
    assert!(summary.assumed.as_ref().is_some_and(|a| a.contains("nanoseconds")), "{summary:?}");
    // the fourth hour of a truncated trace
    let late = (0..50u64).map(|i| format!("{} 0 {} 8 1\n", 11_000_000_000_000 + i * 200_000, i * 16));
    let (requests, summary) = read_all(&[late.collect::<String>().into_bytes()]);
    assert_eq!((summary.format, requests.len()), ("mqsim", 50));
    // flags that only DiskSim has
    let (requests, summary) = read_all(&[five(1000, "5")]);
    assert_eq!((summary.format, requests[1].arrival_ns, summary.assumed), ("disksim", 1_000_000_000, None));
    // 1 s or 1 us apart: ambiguous
    for unsure in [five(1000, "1"), five(0, "1"), b"5 0 16 8 1\n".to_vec()] {
        let input = LogInput::from_bytes("t", unsure).expect("opens");
        assert_eq!(diskwright_traces::ambiguous_formats(&input.head()), Some(["disksim", "mqsim"]));
        let error = diskwright_traces::from_inputs(vec![input]).err().expect("refused").to_string();
        assert!(error.contains("--trace-format disksim") && error.contains("mqsim"), "{error}");
    }
}

#[test]
fn other_tables_of_five_numbers_are_no_traces() {
    let tables: &[&[u8]] = &[
        b"90 0 5 8 1\n12 0 6 8 1\n80 0 7 8 1\n3 0 7 8 1\n70 0 8 8 1\n2 0 1 1 1\n",
        b"1 2 3 4 500\n2 3 4 5 600\n3 4 5 6 700\n",
        b"1 2 3 0 1\n2 3 4 0 1\n",
        b"1 2 3 4 1 6\n2 3 4 5 1 6\n",
    ];
    for table in tables {
        let head = diskwright_traces::InputHead { name: "t", bytes: table };
        let found = diskwright_traces::recognise_format(&head).map(|f| f.id);
        assert_eq!(
            (found, diskwright_traces::ambiguous_formats(&head)),
            (None, None),
            "{}",
            String::from_utf8_lossy(table)
        );
    }
}
