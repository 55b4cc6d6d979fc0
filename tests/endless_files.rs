//! Every argument that names a file to read is given one without an end. The arguments are taken from `--help`, so that
//! a new one is tried too: what it takes must be classified here, and what is read must be refused in little memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{command, diskwright, folder, stderr, text};

/// Address space of the program, KiB. With it, reading a device without a limit fails for want of memory.
const MAX_ADDRESS_SPACE_KIB: u32 = 900_000;
/// Longest time of a refusal, seconds, on a busy machine and without optimization; it takes a tenth of one.
const MAX_REFUSAL_S: u32 = 60;

/// What `--help` calls values that name no file.
const PLAIN_VALUES: [&str; 83] = [
    "ADDRESS",
    "AGE|SIZE",
    "BY",
    "CHANGE",
    "CLASS",
    "CLASS,…",
    "CODE",
    "COMMAND",
    "CONNECTIONS",
    "COUNT",
    "DEVICE",
    "DEVICE,…",
    "DEVICE|status|on|off",
    "DISK=LEVEL:MEMBERS",
    "DISK=MODEL",
    "DOC",
    "DRIVE",
    "DURATION",
    "ENGINE",
    "FACTOR",
    "FILES",
    "FORM",
    "FORMAT",
    "GLOB",
    "HOST:PORT",
    "ID",
    "KEY=VALUE",
    "KINDS",
    "LABEL",
    "LEVEL:N",
    "LEVELS",
    "MATCHERS",
    "MEMBER",
    "METHOD",
    "N",
    "N1,N2,...",
    "NAME",
    "NAME,…",
    "NAME: VALUE",
    "NAME:SIZE",
    "NAME=COUNTER",
    "NAMES",
    "OFFSET",
    "PART.KEY=V1,V2,...",
    "PART.KEY=VALUE",
    "PATH",
    "PER-SECOND",
    "PERCENT",
    "PORT|ADDRESS:PORT",
    "PRICE",
    "ROLE",
    "ROWS",
    "RUNS",
    "SEED",
    "SEVERITY",
    "SHARE",
    "SHELL",
    "SIZE",
    "SIZE,…",
    "SIZES",
    "STATISTIC",
    "TARGET",
    "TEXT",
    "THREADS",
    "TIME",
    "TIMES",
    "URI",
    "URL",
    "USERS",
    "WHAT",
    "yes|no",
    "FOLDERS",
    "RATE",
    "SUITE",
    "SYSTEM",
    "OPERATIONS",
    "PAGES",
    "NUMBER",
    "[N:]DRIVE",
    "[USER@]HOST",
    "CLOUD",
    "DISK=TYPE",
    "TYPE",
];
/// Values that name a file or a folder.
const PATH_VALUES: [&str; 18] = [
    "DIR",
    "DIR,…",
    "DIR|FILE",
    "FILE",
    "FILE.html",
    "FILE.json",
    "FILE.svg",
    "FILE.toml",
    "ID|FILE",
    "LOG",
    "PROGRAM",
    "RESULT",
    "RESULT.json",
    "SUITE|SCRIPT",
    "SYSTEM.toml",
    "TRACE",
    "memory|FILE",
    "SOCKET",
];
/// Options whose file is written, or whose name is that of a folder or a device.
const UNREAD_OPTIONS: [&str; 15] = [
    "--backing",
    "--description",
    "--dir",
    "--html",
    "--keep",
    "--out",
    "--output",
    "--places",
    "--record",
    "--root",
    "--socket",
    "--svg",
    "--target",
    "--to",
    "--work",
];

/// An argument of a command: its option, empty for one without, and the name of its value.
type Argument = (String, String);

/// Reads the arguments and the subcommands in a text of `--help`.
fn parse_help(help: &str) -> (Vec<Argument>, Vec<String>) {
    let (mut arguments, mut commands, mut section) = (Vec::new(), Vec::new(), "");
    for line in help.lines() {
        let entry = line.trim_start();
        let is_indented = line.starts_with("  ") && !line.starts_with("          ");
        if !line.starts_with(' ') {
            section = line;
        } else if section == "Commands:" && line.starts_with("  ") && !line.starts_with("   ") {
            commands.extend(entry.split(' ').next().map(str::to_owned));
        } else if is_indented && entry.starts_with('-') {
            let option = entry.split([' ', '[', '=', ',']).find(|word| word.starts_with("--")).unwrap_or_default();
            let value = entry.split("  ").next().and_then(|head| head.split_once('<')).map(|(_, rest)| rest);
            let value = value.and_then(|rest| rest.split_once('>')).map(|(name, _)| name);
            arguments.extend(value.map(|value| (option.to_owned(), value.to_owned())));
        } else if is_indented && section == "Arguments:" {
            let value = entry.strip_prefix(['<', '[']).and_then(|rest| rest.split_once(['>', ']']));
            arguments.extend(value.map(|(value, _)| (String::new(), value.to_owned())));
        }
    }
    (arguments, commands)
}

/// Returns the visible commands with their arguments, subcommands included.
fn find_commands() -> Vec<(Vec<String>, Vec<Argument>)> {
    let overview = String::from_utf8(diskwright(&["--help"]).stdout).expect("text");
    let names = overview.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.flat_map(|line| line.trim().split("  ").next().unwrap_or_default().split(", "));
    let mut pending: Vec<Vec<String>> = names.map(|name| vec![name.to_owned()]).collect();
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let (arguments, commands) = parse_help(&String::from_utf8_lossy(&diskwright(&words).stdout));
        let inner = commands.into_iter().filter(|name| name != "help");
        pending.extend(inner.map(|name| path.iter().cloned().chain([name]).collect()));
        found.push((path, arguments));
    }
    assert!(found.len() > 30, "{found:?}");
    found
}

/// Arguments beside the endless file that make a command read it; `log` is a good log, and `own` a folder to write to.
fn arguments_beside<'a>(command: &str, option: &str, log: &'a str, own: &'a str) -> Vec<&'a str> {
    const STORE: [&str; 2] = ["--prometheus", "http://user@127.0.0.1:9/"];
    match (command, option) {
        ("record", "--password-file" | "--bearer-token-file") => {
            vec![own, "--for", "1s", "--remote-write", "http://user@127.0.0.1:9/"]
        }
        ("record", "--token-file" | "--panels") => vec![own, "--for", "1s", "--serve=127.0.0.1:0"],
        ("record", "--postgres-password-file") => vec![own, "--for", "1s", "--postgres", "postgres://127.0.0.1:9/"],
        ("record", "--mysql-password-file") => vec![own, "--for", "1s", "--mysql", "mysql://127.0.0.1:9/"],
        ("why", "--postgres-password-file") => vec!["--for", "2s", "--postgres", "postgres://127.0.0.1:9/"],
        ("why", "--mysql-password-file") => vec!["--for", "2s", "--mysql", "mysql://127.0.0.1:9/"],
        ("record", "--ssh-copy" | "--ssh-config") => vec![own, "--for", "1s", "--ssh", "host"],
        ("watch", "--ssh-hosts") => vec!["--once"],
        ("watch", "--ssh-copy" | "--ssh-config") => vec!["--once", "--ssh", "host"],
        ("probe", "--from") => vec!["for", "etcd"],
        ("probe", "--ssh-hosts") => vec!["minread"],
        ("probe", "--ssh-copy" | "--ssh-config") => vec!["minread", "--ssh", "host"],
        (_, "--ssh-copy" | "--ssh-config") => vec!["--ssh", "host"],
        ("record", _) => vec![own, "--for", "1s"],
        ("plan", "--catalogue" | "--prices") => vec!["--reads", "100", "--capacity", "1TB"],
        ("plan", "--topology") => vec!["--from", log],
        ("plan", "--log") | ("simulate", "--log") => vec!["--calibrate", RESULT],
        ("simulate" | "plan", "--against") => vec!["--calibrate", RESULT],
        ("simulate", "--replay") => vec!["--drive", DRIVE],
        ("simulate", "--drive") => vec!["--replay", log],
        (_, "--password-file" | "--bearer-token-file") if command == "import" => [&STORE[..], &["--to", own]].concat(),
        (_, "--password-file" | "--bearer-token-file") => STORE.to_vec(),
        ("import", "") => vec!["--to", own],
        ("import", _) => vec![log, "--to", own],
        ("export", "") => vec!["--as", "csv"],
        ("export", _) => vec![log, "--as", "csv"],
        ("watch", "") => vec!["--once"],
        ("watch", _) => vec![log, "--once"],
        ("serve", "") => vec!["--listen", "127.0.0.1:0"],
        ("serve", _) => vec![log, "--listen", "127.0.0.1:0"],
        ("report", "") => vec!["-o", "/dev/null"],
        ("report", _) => vec![log, "-o", "/dev/null"],
        ("compare", "") => vec![log],
        ("compare", "--beside") => vec![log, OTHER_LOG, "--output", "/dev/null"],
        ("compare", _) => vec![log, OTHER_LOG],
        ("workload sort", _) => vec!["--work", "/tmp", "--target", "/tmp"],
        ("mark", _) => vec!["text"],
        ("why" | "show" | "advise", "--topology" | "--pack") => vec![log],
        _ => Vec::new(),
    }
}

const RESULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/measure/results/tests/fixtures/depth.json");
const DRIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/model/simulator/tests/drives/disk7200.diskspecs");
const OTHER_LOG: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/crates/observe/logs/tests/fixtures/perfmon-text_wide.csv");
const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/observe/logs/tests/fixtures/perfmon-text.csv");

/// Runs the program with little memory and time.
fn run_bounded(arguments: &[&str], state: &str) -> Output {
    let own = command(arguments);
    let script = format!("ulimit -v {MAX_ADDRESS_SPACE_KIB}; exec timeout {MAX_REFUSAL_S} \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(own.get_program()).args(own.get_args());
    shell.env("DISKWRIGHT_STATE", state).env("TZ", "UTC").env_remove("DISKWRIGHT_PASSWORD");
    shell.stdin(std::process::Stdio::null()).output().expect("sh runs")
}

/// Expects a refusal that names the file and is not for want of memory.
fn check_refusal(arguments: &[&str], file: &str, output: &Output) -> Result<(), String> {
    let (code, message) = (output.status.code(), stderr(output));
    let is_named = message.contains(file) && !message.contains("out of memory") && !message.contains("Usage:");
    if matches!(code, Some(1 | 2)) && is_named { Ok(()) } else { Err(format!("{arguments:?}: {code:?}: {message}")) }
}

#[test]
fn a_file_without_end_is_refused_by_every_argument_that_reads_one() {
    let folder = folder("endless_files");
    let file = folder.join("endless.fio");
    symlink("/dev/zero", &file).expect("a link");
    let (file, own, state) = (text(&file).to_owned(), folder.join("own"), folder.join("state"));
    let (mut unknown, mut wrong, mut tried) = (BTreeSet::new(), Vec::new(), 0);
    for (path, arguments) in find_commands() {
        for (option, value) in arguments {
            if !PATH_VALUES.contains(&value.as_str()) {
                if !PLAIN_VALUES.contains(&value.as_str()) {
                    unknown.insert(format!("{path:?} {option} <{value}>"));
                }
                continue;
            }
            let is_folder = value == "DIR" || (path[0] == "workload" && option == "--log");
            if UNREAD_OPTIONS.contains(&option.as_str()) || is_folder {
                continue;
            }
            let name = path.join(" ");
            let beside = arguments_beside(&name, &option, LOG, text(&own));
            let joined = format!("{option}={file}");
            let given: Vec<&str> = if option.is_empty() { vec![file.as_str()] } else { vec![joined.as_str()] };
            // an argument without an option stands where the command has its first one
            let words = path.iter().map(String::as_str).chain(given).chain(beside);
            let words: Vec<&str> = words.collect();
            let output = run_bounded(&words, text(&state));
            wrong.extend(check_refusal(&words, &file, &output).err());
            tried += 1;
        }
    }
    let unknown: Vec<String> = unknown.into_iter().collect();
    assert!(
        unknown.is_empty() && wrong.is_empty(),
        "add values that name no file, or files that are written, to the lists of this test:\n{}\nnot refused:\n{}",
        unknown.join("\n"),
        wrong.join("\n")
    );
    assert!(tried > 40, "{tried}");
}

#[test]
fn a_file_without_end_that_a_description_names_is_refused() {
    let folder = folder("endless_inner_files");
    let path = folder.join("system.toml");
    for (place, key) in [("system", "catalogue"), ("drive", "file")] {
        let drive = "[[drive]]\nname = \"disk\"\n";
        let inner = if place == "drive" { "file = \"/dev/zero\"\n" } else { "model = \"own\"\n" };
        let system = if place == "system" { format!("[system]\n{key} = \"/dev/zero\"\n") } else { String::new() };
        let load = "[[workload]]\nname = \"load\"\nusers = 2\nsize = \"4KB\"\n";
        fs::write(&path, format!("{system}{drive}{inner}{load}")).expect("written");
        let arguments = ["simulate", text(&path)];
        let output = run_bounded(&arguments, text(&folder));
        check_refusal(&arguments, "/dev/zero", &output).unwrap_or_else(|wrong| panic!("{key}: {wrong}"));
        assert!(stderr(&output).contains("the limit of 4 MiB"), "{}", stderr(&output));
    }
}

#[test]
fn a_hole_of_ten_gigabytes_is_refused_at_once() {
    let folder = folder("endless_holes");
    let path = folder.join("large.toml");
    fs::File::create(&path).and_then(|file| file.set_len(10 << 30)).expect("a hole");
    for before in
        [&["simulate"][..], &["why", LOG, "--topology"], &["plan", "--reads", "9", "--capacity", "1TB", "--prices"]]
    {
        let arguments: Vec<&str> = before.iter().copied().chain([text(&path)]).collect();
        let output = run_bounded(&arguments, text(&folder));
        check_refusal(&arguments, "larger than the limit of 4 MiB", &output).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert!(Path::new(LOG).is_file());
}
