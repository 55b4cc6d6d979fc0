//! Each fixture is recognized by the format that its file name begins with (`perfmon-text.csv`,
//! `perfmon-text_german.csv`), and by no other.

use std::io::Read;
use std::path::Path;

use diskwright_logs::{FORMATS, LogInput};

#[test]
fn recognizes_each_fixture_as_exactly_one_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = name.split(['.', '_']).next().unwrap();
        let input = LogInput::open(&path).unwrap();
        let found: Vec<&str> = FORMATS.iter().filter(|f| (f.recognize)(&input.head())).map(|f| f.id).collect();
        assert_eq!(found, [wanted], "{name}");
        seen += 1;
    }
    assert!(seen > 0, "no fixture");
}

/// Lines that may stand before a log.
const PREFIXES: &[&str] = &[
    "nohup: ignoring input\n",
    "[root@db1 ~]# sar -A 10 > log &\n[1] 4711\n",
    "zzz ***Sat Nov 21 13:20:09 UTC 2026\n",
    "\n\n",
    "\u{feff}",
    "Last login: Sat Nov 21 13:20:09 2026 from 10.0.0.1\r\n\u{1b}[?2004h$ cat log\r\n",
    "procs are many, memory is short, and Device names are too\n13:20:09 root in free cache r b\n",
];

#[test]
fn recognizes_each_fixture_behind_other_lines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = name.split(['.', '_']).next().unwrap();
        let mut text = String::new();
        // binary files are recognized by their first bytes or their name
        if LogInput::open(&path).unwrap().read_to_string(&mut text).is_err() || text.contains('\0') {
            continue;
        }
        for before in PREFIXES {
            let input = LogInput::from_bytes(&name, format!("{before}{text}").into_bytes()).unwrap();
            let found: Vec<&str> = FORMATS.iter().filter(|f| (f.recognize)(&input.head())).map(|f| f.id).collect();
            assert_eq!(found, [wanted], "{name} behind {before:?}");
        }
        seen += 1;
    }
    assert!(seen > 10, "only {seen} fixtures");
}

#[test]
fn does_not_recognize_other_files() {
    // a tool of sysstat that has no reader
    let tapes = r#"{"sysstat": {
        "hosts": [{"nodename": "db1", "date": "2026-03-02", "statistics": [
            {"timestamp": "23:59:58", "tape": [{"tape_device": "st0", "r/s": 3}]}"#;
    let empty = ["", "\n\n", "{}", "{\"sysstat\": 1}", "<html></html>"];
    let texts = empty.into_iter().chain(["hello, world\n", "a;b;c\n1;2;3\n", "12:00:00\n", tapes]);
    for text in texts {
        let input = LogInput::from_bytes("x", text.as_bytes().to_vec()).unwrap();
        let found: Vec<&str> = FORMATS.iter().filter(|f| (f.recognize)(&input.head())).map(|f| f.id).collect();
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}
