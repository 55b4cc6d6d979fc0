//! Escape sequences in names, cells, keys and answers, through every command that reads them: none reaches a terminal.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use diskwright_base::note::{ProcessRow, ProcessTable};
use diskwright_base::text::is_control;
use diskwright_base::{Frame, Note, Schema, Series, Tick};
use diskwright_datastore::{LogWriter, WriterOptions};

/// Sets a window's title, clears the screen (by both sets of control characters), turns
/// the text round and ends the line.
const HOSTILE: &str = "x\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{7f}\u{202e}\u{2066}\u{2028}\u{85}\x08y";

/// Text as a JSON string, in which the control characters that JSON allows raw are escaped as well.
fn quote_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("JSON");
    diskwright_base::text::escape_json(&quoted).into_owned()
}

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file; returns its name.
    fn write_file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), text).expect("written");
        name.to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
        command.current_dir(self.folder.path()).env("XDG_STATE_HOME", self.folder.path()).env("LANG", "C.UTF-8");
        command.args(arguments).stdin(Stdio::null()).output().expect("runs")
    }

    /// Runs the command and asserts that it wrote no control characters and did not panic.
    fn run_checked(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_no_control_characters(&output.stderr, arguments, "standard error");
        assert_no_control_characters(&output.stdout, arguments, "standard output");
        assert_ne!(output.status.code(), Some(101), "{arguments:?} panicked");
        output
    }
}

/// Asserts that the output is UTF-8 without control characters but line breaks.
fn assert_no_control_characters(bytes: &[u8], arguments: &[&str], stream: &str) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{arguments:?}: {stream}: {e}"));
    let raw: Vec<char> = text.chars().filter(|&c| is_control(c) && c != '\n').collect();
    assert!(raw.is_empty(), "{arguments:?}: {stream} has {raw:?}:\n{text:?}");
}

/// Ten minutes of Performance Monitor with hostile names of disks and processes, and hostile cells.
fn hostile_perfmon_text() -> String {
    let counters = [
        format!("PhysicalDisk(0 {HOSTILE})\\Disk Read Bytes/sec"),
        format!("PhysicalDisk(0 {HOSTILE})\\Avg. Disk Queue Length"),
        format!("PhysicalDisk(0 {HOSTILE})\\Avg. Disk sec/Transfer"),
        format!("Process({HOSTILE})\\IO Data Bytes/sec"),
        format!("Made Up {HOSTILE}({HOSTILE})\\{HOSTILE}"),
    ];
    let mut text = String::from("\"(PDH-CSV 4.0) (UTC)(0)\"");
    counters.iter().for_each(|c| text += &format!(",\"\\\\HOST{HOSTILE}\\{c}\""));
    for tick in 0..60 {
        let time = format!("11/21/2026 10:{:02}:{:02}.000", tick / 6, tick % 6 * 10);
        text += &format!("\r\n\"{time}\",\"{tick}\",\"40\",\"0.5\",\"7\",\"1\"");
    }
    text += &format!("\r\n\"{HOSTILE}\",\"1\",\"1\",\"1\",\"1\",\"1\"");
    text + &format!("\r\n\"11/21/2026 10:10:00.000\",\"{HOSTILE}\",\"1\",\"1\",\"{HOSTILE}\",\"1\"\r\n")
}

/// Schema with the counters of one disk.
fn disk_schema(name: &str) -> Schema {
    let counters = ["reads", "read_bytes", "weighted_time_s", "busy_time_s", "writes", "write_bytes"];
    let series = |counter| Series { counter: format!("physical_disk.{counter}"), instance: name.into(), scale: 1.0 };
    Schema::new(counters.map(series).to_vec())
}

/// Writes a log in the own format with one disk of this name.
fn write_log_of_disk(folder: &Path, name: &str) {
    let mut writer = LogWriter::create_or_append(folder, WriterOptions::default()).expect("a log");
    let mut frame = Frame::new(Arc::new(disk_schema(name)), 60);
    for i in 1..=60 {
        let time_ns = 1_760_000_000_000_000_000 + i * 1_000_000_000;
        frame.push(Tick { time_ns, elapsed_ns: 1_000_000_000 }, &[100.0, 4e5, 30.0, 1.0, 10.0, 4e4]);
    }
    writer.push_frame(&frame).expect("written");
    writer.close().expect("closed");
}

/// Writes a log in the own format with hostile names of disks and processes, and hostile notes.
fn write_hostile_log(folder: &Path) {
    let schema = Arc::new(disk_schema(HOSTILE));
    let mut writer = LogWriter::create_or_append(folder, WriterOptions::default()).expect("a log");
    let start = 1_760_000_000_000_000_000;
    for kind in [Note::BOOKMARK, Note::GAP, Note::UNSEEN, Note::CLOCK, Note::WARNING, Note::SOURCE, Note::TOPOLOGY] {
        writer.add_note(&Note::new(start, kind, format!("{kind} {HOSTILE}"))).expect("noted");
    }
    let row = ProcessRow {
        pid: 7,
        name: HOSTILE.into(),
        cgroup: format!("/{HOSTILE}"),
        processor: 1.0,
        ..Default::default()
    };
    let table = ProcessTable { elapsed_s: 1.0, rows: vec![row], ..ProcessTable::default() };
    let mut frame = Frame::new(Arc::clone(&schema), 120);
    for i in 1..=120 {
        let time_ns = start + i * 1_000_000_000;
        frame.push(Tick { time_ns, elapsed_ns: 1_000_000_000 }, &[100.0, 4e5, 30.0, 1.0, 0.0, 0.0]);
        let text = serde_json::to_string(&table).expect("JSON");
        writer.add_note(&Note::new(time_ns, Note::PROCESSES, text)).expect("noted");
    }
    writer.push_frame(&frame).expect("written");
    writer.close().expect("closed");
}

#[test]
fn escapes_cells_and_names_of_logs() {
    let bench = Bench::new();
    let foreign = bench.write_file("foreign.csv", hostile_perfmon_text());
    write_hostile_log(&bench.path("own"));
    for log in [foreign.as_str(), "own"] {
        let all = ["--counter", "physical_disk.*"];
        for form in ["table", "chart", "csv"] {
            bench.run_checked(&["show", log, "--as", form]);
            bench.run_checked(&[&["show", log, "--as", form][..], &all].concat());
        }
        bench.run_checked(&["show", log, "--json"]);
        bench.run_checked(&["why", log]);
        bench.run_checked(&["why", log, "--json"]);
        bench.run_checked(&["why", log, "--all-packs"]);
        bench.run_checked(&["report", log, "-o", "page.html"]);
        bench.run_checked(&["compare", log, "--at", "-1m"]);
        bench.run_checked(&["compare", log, "--at", "-1m", "--json"]);
        bench.run_checked(&["export", log, "--as", "jsonl", "-o", "out", "--json"]);
        let output = bench.run(&["export", log, "--as", "prometheus"]);
        assert_no_control_characters(&output.stderr, &["export", log], "standard error");
    }
    let page = fs::read(bench.path("page.html")).expect("a page");
    assert_no_control_characters(&page, &["report"], "the page");
    bench.run_checked(&["import", &foreign, "--to", "made"]);
    bench.run_checked(&["import", &foreign, "--to", "made"]);
    bench.run_checked(&["import", &foreign, "--to", "made2", "--json"]);
}

#[test]
fn escapes_file_names_in_every_command() {
    let bench = Bench::new();
    let log = bench.write_file(&format!("{HOSTILE}.csv"), hostile_perfmon_text());
    bench.write_file(&format!("{HOSTILE}.txt"), "no log at all");
    bench.write_file(&format!("{HOSTILE}.toml"), "no = [description");
    bench.write_file(&format!("{HOSTILE}.json"), format!("{{\"schema\": \"diskwright.probe/999{HOSTILE}\"}}"));
    fs::create_dir(bench.path(HOSTILE)).expect("a folder");
    let broken = OsStr::from_bytes(b"bad\xff\x1b[2J.csv");
    fs::write(bench.path("").join(broken), "no log").expect("written");
    let names = [HOSTILE.to_owned(), format!("gone{HOSTILE}"), format!("{HOSTILE}.txt"), format!("{HOSTILE}.toml")];
    for name in names.iter().map(String::as_str).chain([log.as_str(), &format!("{HOSTILE}.json")]) {
        bench.run_checked(&["why", name]);
        bench.run_checked(&["show", name]);
        bench.run_checked(&["show", name, "--as", "csv"]);
        bench.run_checked(&["export", name, "--as", "jsonl"]);
        bench.run_checked(&["report", name, "-o", &format!("{HOSTILE}.html")]);
        bench.run_checked(&["report", name, "-o", &format!("{HOSTILE}/no/page.html")]);
        bench.run_checked(&["report", name, "-o", name]);
        bench.run_checked(&["compare", name, name]);
        bench.run_checked(&["import", name, "--to", &format!("to{HOSTILE}")]);
        bench.run_checked(&["mark", name, HOSTILE]);
        bench.run_checked(&["simulate", name]);
        bench.run_checked(&["probe", name]);
        bench.run_checked(&["probe", "quick", &format!("no/{name}")]);
        bench.run_checked(&["experiments", name]);
        bench.run_checked(&["why", "own", "--pack", name]);
        bench.run_checked(&["disk", "status", name]);
        bench.run_checked(&["record", "--for", "1ms", "--to", &format!("/proc/{name}")]);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskwright"));
    let output = command.current_dir(bench.path("")).arg("why").arg(broken).output().expect("runs");
    assert_no_control_characters(&output.stderr, &["why", "bad bytes"], "standard error");
}

#[test]
fn escapes_arguments_in_messages() {
    let bench = Bench::new();
    write_hostile_log(&bench.path("own"));
    for arguments in [
        &["--", HOSTILE][..],
        &[HOSTILE],
        &["why", &format!("--{HOSTILE}")],
        &["why", "--for", HOSTILE],
        &["why", "--pack", HOSTILE],
        &["show", "own", "--as", HOSTILE],
        &["show", "own", "--counter", HOSTILE],
        &["show", "own", "--counter", &format!("*{HOSTILE}")],
        &["show", "own", "--instance", HOSTILE],
        &["show", "own", "--from", HOSTILE],
        &["show", "own", "--utc-offset", HOSTILE],
        &["show", "own", "--host", HOSTILE],
        &["export", "own", "--as", "csv", "--counter", HOSTILE],
        &["explain", HOSTILE],
        &["list", HOSTILE],
        &["probe", HOSTILE, "x"],
        &["why", "--prometheus", HOSTILE],
        &["why", "--prometheus", "http://127.0.0.1:1", "--match", HOSTILE],
        &["why", "--prometheus", "http://127.0.0.1:1", "--header", HOSTILE],
        &["disk", HOSTILE],
        &["disk", "attach", HOSTILE],
    ] {
        let output = bench.run_checked(arguments);
        assert_ne!(output.status.code(), None, "{arguments:?}");
    }
}

/// A line break, and text that could pass for a message of the program.
const LINE_BREAK: &str = "x\ndiskwright: done";

/// Asserts that a command fails and that no line of its message begins with the text behind the line break.
fn expect_one_line_error(bench: &Bench, arguments: &[&str]) {
    let output = bench.run_checked(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("diskwright: done"), "{arguments:?}: {stderr}");
    let is_false = |line: &str| line.trim_start().starts_with("diskwright: done");
    assert!(!stderr.lines().any(is_false), "{arguments:?}: {stderr}");
}

#[test]
fn reports_names_with_line_breaks_in_one_line() {
    let bench = Bench::new();
    write_log_of_disk(&bench.path("own"), "sda");
    write_log_of_disk(&bench.path("named"), LINE_BREAK);
    let (pair, list) = (format!("a={LINE_BREAK}"), format!("{LINE_BREAK},md0"));
    let system = bench.write_file("system.toml", "[[drive]]\nmodel = \"st32171w\"\n[[workload]]\n");
    let demand = ["plan", "--reads", "5", "--size", "8K"];
    for more in ["--drives", "--levels", "--only", "--instance", "--controllers", "--budget", "--keep-existing"] {
        expect_one_line_error(&bench, &[&demand[..], &[more, LINE_BREAK]].concat());
    }
    for arguments in [
        &["plan", "--from", "own", "--device", LINE_BREAK][..],
        &["plan", "--from", "own", "--device", &list],
        &["plan", "--from", "own", "--what-if", LINE_BREAK],
        &["plan", "--from", "own", "--volume", LINE_BREAK],
        &["plan", "--from", LINE_BREAK],
        &["plan", "--workload", LINE_BREAK],
        &["simulate", LINE_BREAK],
        &["simulate", &system, "--set", LINE_BREAK],
        &["simulate", &system, "--set", &pair],
        &["simulate", &system, "--sweep", LINE_BREAK],
        &["simulate", &system, "--sweep", &pair],
        &["why", LINE_BREAK],
        &["why", "own", "--pack", LINE_BREAK],
        &["show", "own", "--from", LINE_BREAK],
        &["show", "own", "--counter", LINE_BREAK],
        &["show", "own", "--array", LINE_BREAK],
        &["explain", LINE_BREAK],
        &["probe", LINE_BREAK],
        &["experiments", LINE_BREAK],
        &["advise", "--role", LINE_BREAK],
        &["baseline", LINE_BREAK],
    ] {
        expect_one_line_error(&bench, arguments);
    }
    // names of the log that are listed where the given one is not in it
    expect_one_line_error(&bench, &["plan", "--from", "named", "--device", "sda"]);
    // keys and values of a file
    let [broken, pack] = ["watch", "pack"].map(|table| {
        let text = format!("[{table}]\n{} = 1\n", serde_json::to_string(LINE_BREAK).expect("JSON"));
        bench.write_file(&format!("{table}.toml"), text)
    });
    for arguments in [&["simulate", &broken][..], &["plan", "--workload", &broken], &["why", "own", "--pack", &pack]] {
        expect_one_line_error(&bench, arguments);
    }
}

#[test]
fn escapes_keys_and_values_of_descriptions() {
    let bench = Bench::new();
    let quoted = serde_json::to_string(HOSTILE).expect("JSON").replace('\u{7f}', "\\u007f");
    let descriptions = [
        format!("{quoted} = 1\n"),
        format!("[host]\n{quoted} = 1\n"),
        format!("[host]\nname = {quoted}\nprocessors = {quoted}\n"),
        format!("[[drives]]\nname = {quoted}\nmodel = {quoted}\n"),
        format!("broken {HOSTILE}\n"),
        format!("[[rule]]\nid = {quoted}\n{quoted} = 3\n"),
        format!("id = {quoted}\nname = {quoted}\n[[rule]]\nid = {quoted}\nobject = {quoted}\n"),
    ];
    write_hostile_log(&bench.path("own"));
    for description in descriptions {
        let file = bench.write_file("description.toml", description);
        bench.run_checked(&["simulate", &file]);
        bench.run_checked(&["why", "own", "--pack", &file]);
        bench.run_checked(&["experiments", &file]);
        bench.run_checked(&["show", "own", "--arrays", &file]);
        bench.run_checked(&["probe", &file]);
    }
    for job in [
        format!("[{HOSTILE}]\nrw=read\n{HOSTILE}=1\nfilename={HOSTILE}\n"),
        format!("[global]\nrw={HOSTILE}\n[job]\nfilename=/dev/null\nbs={HOSTILE}\n"),
        format!("{HOSTILE}\n"),
    ] {
        let file = bench.write_file("job.fio", job);
        bench.run_checked(&["probe", &file]);
        bench.run_checked(&["probe", &file, "target"]);
    }
}

#[test]
fn escapes_labels_of_exposition_pages_and_traces() {
    let bench = Bench::new();
    let label = HOSTILE.replace('\n', "\\n");
    let mut page = String::new();
    for (metric, value) in [("node_disk_read_bytes_total", 5), ("node_disk_reads_completed_total", 1), (HOSTILE, 1)] {
        page += &format!("# TYPE {metric} counter\n{metric}{{device=\"{label}\"}} {value} 1760000000000\n");
        page += &format!("{metric}{{device=\"{label}\"}} {} 1760000010000\n", value * 2);
    }
    page += &format!("node_load1 {HOSTILE}\nnode_uname_info{{nodename=\"{label}\"}} 1 1760000000000\n");
    let page = bench.write_file("page.prom", page);
    bench.run_checked(&["show", &page]);
    bench.run_checked(&["why", &page]);
    bench.run_checked(&["import", &page, "--to", "made"]);
    let heading = "arrival_s,device,operation,offset_bytes,length_bytes,issued_s,completion_s";
    let line = |i: usize| format!("{i}.000000000,{HOSTILE},read,4096,4096,,{i}.001000000\n");
    let lines: String = (0..20).map(line).collect();
    let trace =
        bench.write_file("trace.csv", format!("{heading}\n{lines}{HOSTILE},a,read,1,1,,\n1.0,a,{HOSTILE},1,1,,\n"));
    for form in ["table", "chart", "csv"] {
        bench.run_checked(&["show", &trace, "--as", form]);
    }
    bench.run_checked(&["show", &trace, "--json"]);
    bench.run_checked(&["show", &trace, "--instance", "none"]);
}

#[test]
fn escapes_answers_of_a_store() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let Ok(mut client) = client else { return };
            let _ = client.read(&mut [0; 8192]);
            let escaped = serde_json::to_string(HOSTILE).expect("JSON");
            let (status, body) = match number % 3 {
                0 => (format!("500 {HOSTILE}"), HOSTILE.repeat(30)),
                1 => {
                    ("400 Bad".into(), format!("{{\"status\":\"error\",\"errorType\":{escaped},\"error\":{escaped}}}"))
                }
                _ => ("200 OK".into(), format!("{{\"status\":\"success\",\"data\":{escaped}}}")),
            };
            let length = body.len();
            let _ = write!(client, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        }
    });
    for _ in 0..6 {
        bench.run_checked(&["why", "--prometheus", &url]);
        bench.run_checked(&["why", "--prometheus", &url, "--fleet"]);
    }
}

/// Output of a command on a terminal, by script(1); `None` where that is not installed.
fn run_on_terminal(bench: &Bench, command: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_diskwright");
    // progress bars, with escape sequences of the program itself, are drawn on standard error
    let line = format!("'{program}' {command} 2>errors");
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(bench.folder.path()).stdin(Stdio::null());
    script.env("TERM", "xterm").env("LANG", "C.UTF-8");
    let output = script.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = fs::read_to_string(bench.path("errors"));
    assert!(output.status.success(), "{command}: {text} {errors:?}");
    Some(text)
}

#[test]
fn escapes_data_on_a_terminal_and_keeps_it_in_a_file() {
    let bench = Bench::new();
    write_hostile_log(&bench.path("own"));
    for form in ["csv", "csv --long", "jsonl", "prometheus"] {
        let Some(text) = run_on_terminal(&bench, &format!("export own --as {form}")) else {
            return eprintln!("skipped: no script(1)");
        };
        assert!(text.contains("owned"), "{form}: {text}");
        let raw: Vec<char> = text.chars().filter(|&c| is_control(c) && !matches!(c, '\r' | '\n')).collect();
        assert!(raw.is_empty(), "{form}: {raw:?}");
        let options: Vec<&str> = form.split(' ').collect();
        assert!(bench.run(&[&["export", "own", "-o", "out", "--as"], &options[..]].concat()).status.success());
        let data = fs::read_to_string(bench.path("out")).expect("UTF-8");
        let name = if form == "jsonl" { quote_json(HOSTILE) } else { HOSTILE.to_owned() };
        assert!(data.contains(name.trim_matches('"')), "{form}");
    }
    let text = run_on_terminal(&bench, "why own").expect("script ran before");
    let own = text.replace('\u{1b}', "").len();
    assert!(text.contains("\u{1b}[1m") && own < text.len(), "own colours stay");
    assert!(!text.contains("\u{1b}]") && !text.contains("\u{1b}[2J") && !text.contains('\u{9b}'), "{text:?}");
}

#[test]
fn quotes_names_that_a_spreadsheet_would_run() {
    let bench = Bench::new();
    let heading = "arrival_s,device,operation,offset_bytes,length_bytes,issued_s,completion_s";
    let trace = bench.write_file("trace.csv", format!("{heading}\n1.000000000,=cmd,read,4096,4096,,1.001000000\n"));
    let shown = |options: &[&str]| {
        let output = bench.run(&[&["show", &trace, "--as", "csv"], options].concat());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(shown(&[]).contains("\n1.000000000,'=cmd,read,4096"), "{}", shown(&[]));
    assert!(shown(&["--spreadsheet-safe=no"]).contains("\n1.000000000,=cmd,read,4096"));
    // a quoted name is read back without the quote
    let again = bench.write_file("again.csv", shown(&[]));
    let output = bench.run_checked(&["show", &again, "--json"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"=cmd\""));

    let series =
        |instance: &str| Series { counter: "physical_disk.queue_length".into(), instance: instance.into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(["=1+1", "-a", "@b", "sda"].map(series).to_vec()));
    let mut writer = LogWriter::create_or_append(&bench.path("log"), WriterOptions::default()).expect("a log");
    for i in 1..=3 {
        let tick = Tick { time_ns: 1_760_000_000_000_000_000 + i * 1_000_000_000, elapsed_ns: 1_000_000_000 };
        writer.push(&schema, tick, &[-1.5; 4]).expect("written");
    }
    writer.close().expect("closed");
    let exported = |options: &[&str]| {
        let output = bench.run(&[&["export", "log", "--raw", "--as", "csv", "--long"], options].concat());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let safe = exported(&[]);
    for name in [",'=1+1,", ",'-a,", ",'@b,", ",sda,", ",-1.5\r\n"] {
        assert!(safe.contains(name), "{name}: {safe}");
    }
    assert!(exported(&["--spreadsheet-safe=no"]).contains(",=1+1,"));
}
