//! Queries to stores that fail in ways in which real ones rarely do.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use diskwright_remote::fleet::Fleet;
use diskwright_remote::host::{self, HostQuery};
use diskwright_remote::{MetricStore, RemoteError, Selector, StoreAccess};

use crate::common::{FakeStore, http_response};

const LONG_TIMEOUT: Duration = Duration::from_secs(30);

fn host_query() -> HostQuery {
    HostQuery {
        selector: Selector::default(),
        host_label: "instance".into(),
        from_ms: 1_700_000_000_000,
        to_ms: 1_700_003_600_000,
        step_ms: None,
    }
}

fn read_host(access: &StoreAccess) -> RemoteError {
    let store = MetricStore::new(access).unwrap();
    host::read(&store, &host_query(), &mut |_| ControlFlow::Continue(())).unwrap_err()
}

fn query_store(store: &FakeStore, timeout: Duration) -> RemoteError {
    read_host(&StoreAccess { timeout, max_response_bytes: 10_000, ..StoreAccess::new(&store.url("u:secret@", "")) })
}

fn find_fleet(store: &FakeStore) -> RemoteError {
    let access =
        StoreAccess { timeout: LONG_TIMEOUT, max_response_bytes: 4 << 20, ..StoreAccess::new(&store.url("", "")) };
    let found = Fleet::discover_hosts(&MetricStore::new(&access).unwrap(), host_query(), &BTreeSet::new());
    found.err().unwrap()
}

#[test]
fn errors_contain_the_message_of_the_store() {
    let huge = format!("{{\"status\":\"success\",\"data\":[{}]}}", "\"a\",".repeat(5_000));
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n{\"status\":\"succ".to_vec();
    let too_many = r#"{"status":"error","errorType":"execution","error":"too many points"}"#;
    let elsewhere = "Location: https://u:secret@elsewhere/x?token=secret\r\n";
    let cases = [
        ("422", http_response("422 Unprocessable Entity", "", too_many), vec!["HTTP 422", "too many points"]),
        (
            "503",
            http_response("503 Service Unavailable", "", "<html><b>try  later</b>"),
            vec!["HTTP 503", "<b>try later</b>"],
        ),
        ("an echo", http_response("401 Unauthorized", "", "no u:secret dTpzZWNyZXQ="), vec!["HTTP 401: no u:*** ***"]),
        (
            "html",
            http_response("200 OK", "", "<!doctype html><p>login</p>"),
            vec!["not a response of a query API", "login"],
        ),
        ("cut", cut, vec!["broke off at byte 15"]),
        ("half a document", http_response("200 OK", "", r#"{"status":"success","da"#), vec!["broke off at byte 23"]),
        ("redirect", http_response("302 Found", elsewhere, ""), vec!["HTTP 302", "https://elsewhere/x?token=***"]),
        ("huge", http_response("200 OK", "", &huge), vec!["longer than", "use a shorter window", "--match"]),
        ("packed", http_response("200 OK", "Content-Encoding: gzip\r\n", "\x1f\x08"), vec!["encoding (gzip)"]),
        ("an error with 200", http_response("200 OK", "", r#"{"status":"error","error":"no luck"}"#), vec!["no luck"]),
        ("no HTTP", b"SSH-2.0-x\r\n".to_vec(), vec!["http"]),
        ("a long header", http_response("200 OK", &format!("X: {}\r\n", "x".repeat(1 << 20)), ""), vec!["header"]),
    ];
    for (name, answer, wanted) in cases {
        let message = query_store(&FakeStore::with_response(answer), LONG_TIMEOUT).to_string();
        for part in wanted {
            assert!(message.contains(part), "{name}: {message}");
        }
        assert!(
            message.contains("http://127.0.0.1") && !message.contains("secret") && message.len() < 1000,
            "{name}: {message}"
        );
    }
}

#[test]
fn a_store_that_never_finishes_times_out() {
    let endings: [FakeStore; 3] = [
        FakeStore::without_response(),
        // the head arrives, and nothing more
        FakeStore::start(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{{")?;
            std::io::Read::read(stream, &mut [0]).map(drop)
        }),
        // an occasional byte
        FakeStore::start(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n{{")?;
            loop {
                stream.write_all(b" ")?;
                let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
            }
        }),
    ];
    for (index, store) in endings.iter().enumerate() {
        let begun = Instant::now();
        let error = query_store(store, Duration::from_millis(300));
        assert!(matches!(error, RemoteError::Connection { .. }), "{index}: {error}");
        assert!(error.to_string().contains("0.3 s"), "{index}: {error}");
        assert!(begun.elapsed() < LONG_TIMEOUT, "{index}");
    }
}

#[test]
fn endless_answers_are_limited_by_their_items() {
    let names = FakeStore::with_endless_response(r#"{"status":"success","data":["#, r#""node_load1","#);
    let message = find_fleet(&names).to_string();
    assert!(message.contains("more than 100000 values of __name__") && message.contains("--match"), "{message}");
    for (start, again) in [
        ("", " "),
        (r#"{"status":"success","data":[""#, "x"),
        (r#"{"x":"#, "["),
        (r#"{"x":"#, r#"{"y":"#),
        (r#"{"x":"#, "1"),
        (r#"{"data":["#, "[],"),
    ] {
        let error = find_fleet(&FakeStore::with_endless_response(start, again));
        assert!(matches!(error, RemoteError::Answer { .. }), "{start}{again}: {error}");
    }
}

#[test]
fn a_machine_with_too_many_series_is_an_error_with_a_hint() {
    let store = FakeStore::start(|request, stream| {
        if request.path().starts_with("/api/v1/label/") {
            return stream.write_all(&http_response("200 OK", "", r#"{"status":"success","data":["a"]}"#));
        }
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n{{\"status\":\"success\",\"data\":[")?;
        for index in 0.. {
            write!(stream, r#"{{"__name__":"node_disk_reads_completed_total","instance":"a","device":"d{index}"}},"#)?;
        }
        Ok(())
    });
    let error = read_host(&StoreAccess::new(&store.url("", "")));
    assert!(matches!(error, RemoteError::TooMuch { .. }), "{error}");
    assert!(error.to_string().contains("300000 series") && error.to_string().contains("--match"), "{error}");
}

#[test]
fn connection_and_tls_failures_are_explained() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = read_host(&StoreAccess { timeout: LONG_TIMEOUT, ..StoreAccess::new(&format!("http://{address}")) });
    assert!(matches!(error, RemoteError::Connection { .. }), "{error}");
    let plain = FakeStore::with_response(http_response("400 Bad Request", "", "what?"));
    // a fake store waits for the end of a head, which a TLS handshake does not contain
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = read_host(&StoreAccess { timeout: LONG_TIMEOUT, ..StoreAccess::new(&format!("https://{address}")) });
    assert!(error.to_string().contains("http://"), "{error}");
    drop(plain);
}

#[test]
fn credentials_are_in_the_header_and_not_in_the_address() {
    let authorization = |access: StoreAccess, store: &FakeStore| {
        let _ = read_host(&access);
        let seen = store.seen();
        assert!(!seen[0].path().contains("secret"), "{}", seen[0].head);
        seen[0].header("authorization").map(str::to_owned)
    };
    let store = || FakeStore::with_response(http_response("404 Not Found", "", ""));
    let one = store();
    assert_eq!(authorization(StoreAccess::new(&one.url("u:secret@", "")), &one).as_deref(), Some("Basic dTpzZWNyZXQ="));
    let one = store();
    let access = StoreAccess { password: Some("secret".into()), ..StoreAccess::new(&one.url("u@", "")) };
    assert_eq!(authorization(access, &one).as_deref(), Some("Basic dTpzZWNyZXQ="));
    let one = store();
    let access = StoreAccess { token: Some("secret".into()), ..StoreAccess::new(&one.url("", "")) };
    assert_eq!(authorization(access, &one).as_deref(), Some("Bearer secret"));
}

#[test]
fn warns_about_a_list_of_machines_that_may_be_incomplete() {
    let names = r#"{"status":"success","isPartial":true,"warnings":["dc2 is away"],"data":["node_load1"]}"#;
    let hosts = r#"{"status":"success","data":["a"]}"#;
    let store = FakeStore::start(move |request, stream| {
        let body = if request.path().starts_with("/api/v1/label/__name__/") { names } else { hosts };
        stream.write_all(&http_response("200 OK", "", body))
    });
    let access = StoreAccess { timeout: LONG_TIMEOUT, ..StoreAccess::new(&store.url("", "")) };
    let queried_store = MetricStore::new(&access).unwrap();
    // the queries after the lists get invalid answers
    assert!(Fleet::discover_hosts(&queried_store, host_query(), &BTreeSet::new()).is_err());
    let warnings = queried_store.warnings();
    assert!(warnings.len() == 2 && warnings[0] == "dc2 is away" && warnings[1].contains("partial"), "{warnings:?}");
}

#[test]
fn several_machines_are_named_without_listing_their_series() {
    let store =
        FakeStore::with_documents(&[("/api/v1/label/instance/values", r#"{"status":"success","data":["a","b"]}"#)]);
    let message = query_store(&store, LONG_TIMEOUT).to_string();
    assert!(message.contains("2 machines match: a, b") && message.contains("--fleet"), "{message}");
    assert_eq!(store.seen().len(), 1);
    let nothing = FakeStore::with_documents(&[("/api/v1/", r#"{"status":"success","data":[]}"#)]);
    let message = query_store(&nothing, LONG_TIMEOUT).to_string();
    assert!(message.contains("no metrics of node_exporter"), "{message}");
}
