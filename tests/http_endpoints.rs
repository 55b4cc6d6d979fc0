//! HTTP of the real binary in both directions: stores and clients that misbehave, and passwords that must stay secret.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{diskwright, folder, interrupt, stderr};

use serde_json::Value;

const SECRET: &str = "s3cr3t-passw0rd";
/// Limit for an exit that takes a second or two on an idle machine.
const MAX_EXIT_TIME: Duration = Duration::from_secs(15);

fn piped_command(arguments: &[&str]) -> Command {
    let mut command = crate::common::command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a store that answers every request with the same bytes (`None`: never); returns its address and the heads of
/// the requests it gets.
fn start_store(answer: Option<&'static str>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let list = Arc::clone(&list);
            std::thread::spawn(move || answer_request(stream, answer, &list));
        }
    });
    (address, heads)
}

/// Reads a request, keeps its head and answers it; without an answer, waits until the client closes.
fn answer_request(mut stream: TcpStream, answer: Option<&str>, list: &Mutex<Vec<String>>) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        input.read_line(&mut head).ok().filter(|read| *read > 0)?;
        if let Some(number) = head[from..].to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().ok()?;
        }
    }
    input.read_exact(&mut vec![0; length]).ok()?;
    list.lock().ok()?.push(head);
    match answer {
        Some(answer) => stream.write_all(answer.as_bytes()).ok(),
        None => input.read(&mut [0]).ok().map(drop),
    }
}

const NO_CONTENT_RESPONSE: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
const BAD_REQUEST_RESPONSE: &str =
    "HTTP/1.1 400 Bad Request\r\nContent-Length: 13\r\nConnection: close\r\n\r\nout of bounds";
const EMPTY_LIST_RESPONSE: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 30\r\nConnection: close\r\n\r\n{\"status\":\"success\",\"data\":[]}";

fn run_record(more: &[&str]) -> Output {
    diskwright(&[&["record", "--every", "100ms", "--for", "500ms", "--json"], more].concat())
}

/// Summary of the remote write in the JSON answer.
fn remote_write_summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", stderr(output)));
    document["remote_write"].clone()
}

#[test]
fn fails_when_samples_are_lost_for_good() {
    let (address, _) = start_store(Some(BAD_REQUEST_RESPONSE));
    let url = format!("http://{address}");
    let done = run_record(&["--remote-write", &url]);
    let lost = remote_write_summary(&done)["samples_lost"].as_u64().expect("a number");
    assert!(
        lost > 0 && remote_write_summary(&done)["samples_lost_for_good"] == lost,
        "{}",
        remote_write_summary(&done)
    );
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    let text = stderr(&done);
    assert!(text.contains("permanently lost") && text.contains(&lost.to_string()), "{text}");
    assert!(text.contains("out of bounds") && !text.contains("has them"), "{text}");
}

#[test]
fn samples_kept_in_the_log_are_not_lost_for_good() {
    let (address, _) = start_store(Some(BAD_REQUEST_RESPONSE));
    let (url, log) = (format!("http://{address}"), folder("feeds-log").join("log"));
    let log = log.to_str().expect("plain");
    let done = run_record(&[log, "--remote-write", &url]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        remote_write_summary(&done)["samples_lost"].as_u64() > Some(0)
            && remote_write_summary(&done)["samples_lost_for_good"] == 0
    );
    let text = stderr(&done);
    let resend = format!("diskwright export {log} --as prometheus -o ");
    assert!(text.contains(&resend) && !text.contains("permanently"), "{text}");
    let page = folder("feeds-resend").join("page.txt");
    let done = diskwright(&["export", log, "--as", "prometheus", "-o", page.to_str().expect("plain")]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(fs::read_to_string(page).expect("a page").contains("diskwright_"));
}

#[test]
fn succeeds_when_samples_arrive() {
    let (address, heads) = start_store(Some(NO_CONTENT_RESPONSE));
    for path in ["", "/api/v1/write"] {
        let done = run_record(&["--remote-write", &format!("http://{address}{path}")]);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        assert_eq!((remote_write_summary(&done)["samples_lost"].as_u64(), stderr(&done).as_str()), (Some(0), ""));
    }
    let heads = heads.lock().expect("no panic");
    assert!(heads.len() >= 2 && heads.iter().all(|head| head.starts_with("POST /api/v1/write HTTP/1.1")), "{heads:?}");
}

#[test]
fn a_hanging_store_does_not_delay_the_exit() {
    let (address, heads) = start_store(None);
    let mut recorder = piped_command(&["record", "--every", "100ms", "--remote-write", &format!("http://{address}")])
        .spawn()
        .expect("runs");
    wait_for("the first request", || !heads.lock().expect("no panic").is_empty());
    let begun = Instant::now();
    interrupt(&recorder);
    let status = recorder.wait().expect("ends");
    assert!(begun.elapsed() < MAX_EXIT_TIME, "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(1));
}

/// A page of another site can let its name resolve to this machine; the browser then states that name.
#[test]
fn metrics_are_not_served_under_a_foreign_name() {
    let arguments = ["record", "--every", "100ms", "--listen", "0", "--name", "db1.example"];
    let mut recorder = piped_command(&arguments).spawn().expect("runs");
    let mut line = String::new();
    BufReader::new(recorder.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.trim().trim_start_matches("diskwright: serving http://").trim_end_matches("/metrics");
    let ask = |host: &str| {
        let mut stream = TcpStream::connect(address).expect("connects");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("asks");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("an answer");
        page
    };
    let own = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    for host in [address, "localhost:1", "db1.example", own.trim()] {
        assert!(ask(host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    for host in ["evil.example", "db1.example.evil.example"] {
        let refused = ask(host);
        assert!(refused.starts_with("HTTP/1.1 403 ") && !refused.contains("diskwright_"), "{host}: {refused}");
    }
    interrupt(&recorder);
    assert!(recorder.wait().expect("ends").success());
}

#[test]
fn idle_clients_do_not_delay_a_scrape() {
    let mut recorder = piped_command(&["record", "--every", "100ms", "--listen", "0"]).spawn().expect("runs");
    let mut line = String::new();
    let mut stderr = BufReader::new(recorder.stderr.take().expect("piped"));
    stderr.read_line(&mut line).expect("a line");
    let address = line.trim().trim_start_matches("diskwright: serving http://").trim_end_matches("/metrics");
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).expect("connects")).collect();
    let mut page = String::new();
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("asks");
    stream.read_to_string(&mut page).expect("answers");
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    // none of the idle connections was closed for that
    for mut stream in idle {
        stream.set_nonblocking(true).expect("a socket");
        let got = stream.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(got, Err(std::io::ErrorKind::WouldBlock));
    }
    interrupt(&recorder);
    let status = recorder.wait().expect("ends");
    let mut more = String::new();
    stderr.read_to_string(&mut more).expect("text");
    assert_eq!(status.code(), Some(0), "{status}: {more}");
}

#[test]
fn an_early_interrupt_exits_cleanly() {
    for _ in 0..5 {
        let mut recorder = piped_command(&["record", "--every", "100ms", "--listen", "0"]).spawn().expect("runs");
        let mut stderr = BufReader::new(recorder.stderr.take().expect("piped"));
        stderr.read_line(&mut String::new()).expect("a line");
        interrupt(&recorder);
        let status = recorder.wait().expect("ends");
        assert_eq!(status.code(), Some(0), "{status}");
    }
}

#[test]
fn reads_a_password_from_a_file_or_the_environment() {
    let (address, heads) = start_store(Some(EMPTY_LIST_RESPONSE));
    let file = folder("feeds-password").join("password");
    fs::write(&file, format!("{SECRET}\n")).expect("a file");
    let file = file.to_str().expect("plain");
    let url = format!("http://u@{address}");
    let ask = |more: &[&str]| diskwright(&[&["why", "--prometheus"], more].concat());
    let done = ask(&[&url, "--password-file", file]);
    assert!(stderr(&done).contains("other users can read it"), "{}", stderr(&done));
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("ours");
    let done = ask(&[&url, "--password-file", file]);
    assert!(!stderr(&done).contains("other users") && !stderr(&done).contains("`ps`"), "{}", stderr(&done));
    let mut asking = piped_command(&["why", "--prometheus", &url]);
    assert!(!stderr(&asking.env("DISKWRIGHT_PASSWORD", SECRET).output().expect("runs")).contains("`ps`"));
    let token = ask(&[&format!("http://{address}"), "--bearer-token-file", file]);
    assert_eq!(token.status.code(), Some(1), "{}", stderr(&token));
    // u:s3cr3t-passw0rd
    let basic = "authorization: basic dtpzm2nym3qtcgfzc3cwcmq=";
    let heads = heads.lock().expect("no panic");
    // a command sends two requests: for names, then for series
    let firsts = || heads.iter().filter(|head| head.starts_with("GET "));
    let with = |header: &str| firsts().filter(|head| head.to_lowercase().contains(header)).count();
    assert_eq!((with(basic), with(&format!("authorization: bearer {SECRET}"))), (3, 1), "{heads:?}");
    for wrong in [
        ["--password-file", "/nowhere", &url],
        // a password without a user
        ["--password-file", file, &format!("http://{address}")],
        // a password without an address
        ["--password-file", file, "a log"],
    ] {
        let address = if wrong[2].contains("://") { &["--prometheus", wrong[2]][..] } else { &[wrong[2]] };
        let done = diskwright(&[&["why", wrong[0], wrong[1]], address].concat());
        assert!(matches!(done.status.code(), Some(1 | 2)) && !stderr(&done).contains(SECRET), "{}", stderr(&done));
    }
}

#[test]
fn warns_of_a_password_on_the_command_line_and_never_prints_it() {
    let (address, _) = start_store(Some(BAD_REQUEST_RESPONSE));
    let log = folder("feeds-shown").join("log");
    let log = log.to_str().expect("plain");
    let here = format!("http://u:{SECRET}@{address}");
    let odd = [format!("u:{SECRET}@host"), format!("http://u:{SECRET}@"), format!("http://u:a/{SECRET}@host")];
    let by_token = format!("http://{address}/api/v1/write?token={SECRET}");
    let mut all = vec![run_record(&[log, "--remote-write", &here]), run_record(&[log, "--remote-write", &by_token])];
    all.push(diskwright(&["why", "--prometheus", &here, "--fleet", "--json"]));
    all.push(diskwright(&["why", "--prometheus", &here]));
    for output in &all {
        assert_eq!(stderr(output).matches("`ps` shows").count(), 1, "{}", stderr(output));
    }
    for url in &odd {
        all.push(run_record(&["--remote-write", url]));
        all.push(diskwright(&["why", "--prometheus", url]));
        all.push(diskwright(&["import", "--to", log, "--prometheus", url]));
    }
    let header = format!("Authorization {SECRET}");
    all.push(diskwright(&["why", "--prometheus", "http://h", "--header", &header]));
    for output in &all {
        let text = format!("{}{}", stderr(output), String::from_utf8_lossy(&output.stdout));
        assert!(!text.contains(SECRET) && !text.contains("czNjcjN0"), "{text}");
    }
    for entry in fs::read_dir(log).expect("a log") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a file");
        assert!(!bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()));
    }
}

#[test]
fn rejects_wrong_listen_addresses_and_warns_of_open_ones() {
    for wrong in [":9191", "nonsense", "70000"] {
        let done = run_record(&["--listen", wrong]);
        assert_eq!(done.status.code(), Some(2), "{wrong}: {}", stderr(&done));
        assert!(stderr(&done).contains(wrong), "{}", stderr(&done));
    }
    let done = run_record(&["--listen", "0.0.0.0:0"]);
    assert!(stderr(&done).contains("without a password, to everyone who can reach this machine"), "{}", stderr(&done));
}

/// Waits up to a minute for a condition.
fn wait_for(condition: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{condition} does not come");
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 20_000_000 });
    }
}
