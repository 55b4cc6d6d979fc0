//! A fake store on the loopback interface that answers what real ones answer
//! only on bad days.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use diskwright_remote::feed::{Named, Shot};
use diskwright_remote::host::{self, Wanted};
use diskwright_remote::{Access, RemoteError, RemoteWriter, Selector, Store};

/// Answers every request with the same bytes; `None` never answers.
fn fake_store(answer: Option<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, answer.as_deref());
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: Option<&[u8]>) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part)?;
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    match answer {
        Some(bytes) => stream.write_all(bytes),
        // until the client hangs up
        None => stream.read(&mut part).map(drop),
    }
}

fn http(status: &str, headers: &str, body: &str) -> Option<Vec<u8>> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    Some(text.into_bytes())
}

fn ask(address: SocketAddr, timeout: Duration) -> RemoteError {
    let access = Access { timeout, most_bytes: 10_000, ..Access::new(&format!("http://u:secret@{address}")) };
    let store = Store::new(&access).unwrap();
    let wanted = Wanted {
        selector: Selector::default(),
        by: "instance".into(),
        from_ms: 1_700_000_000_000,
        to_ms: 1_700_003_600_000,
        step_ms: None,
    };
    host::read(&store, &wanted, &mut |_| ControlFlow::Continue(())).unwrap_err()
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn bad_days_are_told_in_the_stores_own_words() {
    let huge = format!("{{\"status\":\"success\",\"data\":[{}]}}", "{\"a\":\"b\"},".repeat(5_000));
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n{\"status\":\"succ".to_vec();
    type Case = (&'static str, Option<Vec<u8>>, &'static [&'static str]);
    let cases: [Case; 9] = [
        (
            "422",
            http(
                "422 Unprocessable Entity",
                "",
                r#"{"status":"error","errorType":"execution","error":"too many points"}"#,
            ),
            &["HTTP 422", "too many points"],
        ),
        ("503", http("503 Service Unavailable", "", "<html><b>try  later</b>"), &["HTTP 503", "<b>try later</b>"]),
        ("html", http("200 OK", "", "<!doctype html><p>login</p>"), &["no answer of a query API", "login"]),
        ("cut", Some(cut), &["breaks off after 15 bytes"]),
        ("half a document", http("200 OK", "", r#"{"status":"success","da"#), &["breaks off after 23 bytes"]),
        ("redirect", http("302 Found", "Location: https://elsewhere/x\r\n", ""), &["HTTP 302", "https://elsewhere/x"]),
        ("huge", http("200 OK", "", &huge), &["longer than 10000 bytes"]),
        ("an error with 200", http("200 OK", "", r#"{"status":"error","error":"no luck"}"#), &["no luck"]),
        ("nothing there", http("200 OK", "", r#"{"status":"success","data":[]}"#), &["no metrics of node_exporter"]),
    ];
    for (name, answer, wanted) in cases {
        let said = ask(fake_store(answer), LONG).to_string();
        for part in wanted {
            assert!(said.contains(part), "{name}: {said}");
        }
        assert!(said.contains("http://127.0.0.1") && !said.contains("secret"), "{name}: {said}");
    }
}

#[test]
fn a_store_that_never_answers_is_given_up() {
    let error = ask(fake_store(None), Duration::from_millis(200));
    assert!(matches!(error, RemoteError::Connection { .. }), "{error}");
}

#[test]
fn nobody_there_is_said() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask(address, LONG);
    assert!(matches!(error, RemoteError::Connection { .. }), "{error}");
}

/// Writes a tick to a fake store; sent, lost and tried again.
fn write_to(address: SocketAddr) -> (u64, u64, u64) {
    let store = Store::new(&Access { timeout: LONG, ..Access::new(&format!("http://{address}")) }).unwrap();
    let mut writer = RemoteWriter::start(store, Vec::new()).unwrap();
    let named = Named { metric: "diskwright_x".into(), labels: Vec::new(), help: String::new(), is_total: false };
    writer.push(&Shot { time_ms: 1, names: Arc::new(vec![named]), values: vec![1.0] });
    writer.finish();
    let fate = writer.fate();
    [&fate.sent, &fate.lost, &fate.retries].map(|n| n.load(Ordering::Relaxed)).into()
}

#[test]
fn samples_that_a_store_refuses_are_counted() {
    assert_eq!(write_to(fake_store(http("204 No Content", "", ""))), (1, 0, 0));
    assert_eq!(write_to(fake_store(http("400 Bad Request", "", "out of bounds"))), (0, 1, 0));
    // one that may come back is tried again, until the recording has ended for some seconds
    let (sent, lost, retries) = write_to(fake_store(http("503 Service Unavailable", "", "")));
    assert!((sent, lost) == (0, 1) && retries > 0, "{retries}");
}

#[test]
fn several_machines_are_named() {
    let series = r#"{"status":"success","data":[{"__name__":"node_load1","instance":"a"},
        {"__name__":"node_load1","instance":"b"}]}"#;
    let said = ask(fake_store(http("200 OK", "", series)), LONG).to_string();
    assert!(said.contains("2 machines match: a, b") && said.contains("--fleet"), "{said}");
}
