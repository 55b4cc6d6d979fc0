//! `/metrics` with clients that misbehave: whatever they do, a proper request is answered.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_remote::feed::{SeriesName, SeriesSnapshot};
use diskwright_remote::{HostNames, LastTick, MetricsServer, ServerLimits};

const GET_REQUEST: &str = "GET /metrics HTTP/1.1\r\nHost: db1:9191\r\n\r\n";
const GET_AND_CLOSE: &str = "GET /metrics HTTP/1.1\r\nHost: db1:9191\r\nConnection: close\r\n\r\n";
/// Much longer than an answer takes on the slowest machine, and shorter than any timeout of [`patient_limits`].
const MAX_WAIT: Duration = Duration::from_secs(20);

fn test_snapshot(series: usize) -> SeriesSnapshot {
    let named = |index| SeriesName {
        metric: "diskwright_x".into(),
        labels: vec![("device".into(), format!("disk{index:08}"))],
        help: "X.".into(),
        is_total: false,
    };
    SeriesSnapshot { time_ms: 1000, names: Arc::new((0..series).map(named).collect()), values: vec![2.5; series] }
}

fn start_server(series: usize, limits: ServerLimits) -> MetricsServer {
    let last = LastTick::default();
    last.set(&test_snapshot(series));
    MetricsServer::start("0", HostNames(vec!["db1".into()]), last, limits).unwrap()
}

/// Limits with which no client is disconnected for being slow.
fn patient_limits() -> ServerLimits {
    let long = Duration::from_secs(600);
    ServerLimits {
        max_clients: 100,
        request_timeout: long,
        response_timeout: long,
        idle_timeout: long,
        ..ServerLimits::default()
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
    stream.set_write_timeout(Some(MAX_WAIT)).unwrap();
    stream
}

fn send_request(server: &MetricsServer, request: &str) -> String {
    let mut stream = connect(server.address());
    stream.write_all(request.as_bytes()).unwrap();
    read_to_end(&mut stream)
}

/// Reads until the server closes the connection.
fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Reads one answer from a connection that stays open.
fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Returns true if the server closes the connection within a reasonable time.
fn is_closed_by_server(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn serves_only_the_metrics_page() {
    let server = start_server(1, ServerLimits::default());
    let page = send_request(&server, GET_AND_CLOSE);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\ndiskwright_x{device=\"disk00000000\"} 2.5\n"), "{page}");
    assert!(send_request(&server, "GET / HTTP/1.0\r\nHost: ::1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let refused = send_request(&server, "POST /metrics HTTP/1.0\r\nHost: db1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    assert!(send_request(&server, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(send_request(&server, &"x".repeat(20_000)).starts_with("HTTP/1.1 431 "));
    let head = send_request(&server, "HEAD /metrics HTTP/1.0\r\nHost: db1\r\n\r\n");
    let length = page.split_once("\r\n\r\n").unwrap().1.len();
    assert!(head.contains(&format!("Content-Length: {length}\r\n")) && head.ends_with("\r\n\r\n"), "{head}");
}

/// A page of another site may let its name resolve to our address.
#[test]
fn answers_only_to_its_own_names() {
    let server = start_server(1, ServerLimits::default());
    let ask = |host: &str| send_request(&server, &format!("GET /metrics HTTP/1.1\r\n{host}Connection: close\r\n\r\n"));
    for ours in ["127.0.0.1", "127.0.0.1:9191", "localhost:9191", "[::1]:9191", "db1", "DB1:9191"] {
        assert!(ask(&format!("Host: {ours}\r\n")).starts_with("HTTP/1.1 200 "), "{ours}");
    }
    for strange in ["evil.example", "evil.example:9191", "db1.evil.example", "127.0.0.1.evil.example", ""] {
        let refused = ask(&format!("Host: {strange}\r\n"));
        assert!(refused.starts_with("HTTP/1.1 403 ") && !refused.contains("diskwright_x"), "{strange}: {refused}");
    }
    assert!(ask("").starts_with("HTTP/1.1 403 "));
}

#[test]
fn requests_are_not_echoed() {
    let server = start_server(1, ServerLimits::default());
    for target in ["/x%0d%0aSet-Cookie:evil", "/x\rSet-Cookie:evil", "//evil", "/metrics?evil", "http://evil/"] {
        let answer = send_request(
            &server,
            &format!("GET {target} HTTP/1.1\r\nHost: db1\r\nevil: evil\r\nConnection: close\r\n\r\n"),
        );
        assert!(answer.starts_with("HTTP/1.1 ") && !answer.contains("evil"), "{target}: {answer}");
    }
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let server = start_server(3, ServerLimits::default());
    let mut stream = connect(server.address());
    // two requests at once, and one more later
    stream.write_all(format!("{}HEAD /nothing HTTP/1.1\r\nHost: db1\r\n\r\n", GET_REQUEST).as_bytes()).unwrap();
    let (head, body) = read_answer(&mut stream);
    assert!(head.contains("Connection: keep-alive\r\n") && body.contains("disk00000002"), "{head}{body}");
    let mut second = [0; 12];
    stream.read_exact(&mut second).unwrap();
    assert_eq!(&second, b"HTTP/1.1 404");
    stream.write_all(GET_AND_CLOSE.as_bytes()).unwrap();
    assert!(read_to_end(&mut stream).contains("disk00000002"));
}

#[test]
fn a_client_that_closed_its_write_half_is_answered() {
    let server = start_server(3, ServerLimits::default());
    let mut stream = connect(server.address());
    stream.write_all(GET_REQUEST.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(read_to_end(&mut stream).contains("disk00000002"));
}

#[test]
fn idle_slow_and_greedy_clients_do_not_delay_others() {
    // so many series that the page does not fit into the buffers of a connection
    let server = start_server(300_000, patient_limits());
    let mut hostile = Vec::new();
    for index in 0..60 {
        let mut stream = connect(server.address());
        match index % 3 {
            0 => {}
            1 => stream.write_all(b"GET /metr").unwrap(),
            // sends a request, and never reads
            _ => stream.write_all(GET_REQUEST.as_bytes()).unwrap(),
        }
        hostile.push(stream);
    }
    for _ in 0..3 {
        let page = send_request(&server, GET_AND_CLOSE);
        assert!(page.ends_with("diskwright_time_seconds 1\n"), "{} bytes", page.len());
    }
    for stream in &mut hostile {
        stream.set_nonblocking(true).unwrap();
        let got = stream.read(&mut [0]);
        let stays = !matches!(got, Ok(0)) && !got.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(stays, "nobody was hung up on for it");
    }
}

#[test]
fn a_new_client_replaces_the_least_useful_connection() {
    let server = start_server(1, ServerLimits { max_clients: 10, ..patient_limits() });
    let first = connect(server.address());
    let more: Vec<TcpStream> = (0..40).map(|_| connect(server.address())).collect();
    assert!(send_request(&server, GET_AND_CLOSE).starts_with("HTTP/1.1 200 "));
    assert!(is_closed_by_server(first));
    drop(more);
}

#[test]
fn slow_clients_are_disconnected() {
    let short = Duration::from_millis(100);
    let server = start_server(
        300_000,
        ServerLimits {
            max_clients: 10,
            request_timeout: short,
            response_timeout: short,
            idle_timeout: short,
            ..patient_limits()
        },
    );
    let silent = connect(server.address());
    let mut idle = connect(server.address());
    idle.write_all(b"GET /nothing HTTP/1.1\r\nHost: db1\r\n\r\n").unwrap();
    read_answer(&mut idle);
    let mut greedy = connect(server.address());
    greedy.write_all(GET_REQUEST.as_bytes()).unwrap();
    // an occasional byte does not count as a request
    let mut dripping = connect(server.address());
    let begun = Instant::now();
    while begun.elapsed() < MAX_WAIT && dripping.write_all(b"x").is_ok() {
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 20_000_000 });
    }
    assert!(begun.elapsed() < MAX_WAIT, "the dripping one was never hung up on");
    assert!(is_closed_by_server(silent) && is_closed_by_server(idle));
    let mut got = Vec::new();
    // the content of the buffers arrives; the whole page does not
    let _ = greedy.read_to_end(&mut got);
    assert!(!got.ends_with(b"diskwright_time_seconds 1\n"), "{} bytes", got.len());
}

#[test]
fn dropping_the_server_ends_it_with_clients_connected() {
    let server = start_server(1, patient_limits());
    let stream = connect(server.address());
    let address = server.address();
    drop(server);
    assert!(is_closed_by_server(stream));
    assert!(TcpStream::connect(address).is_err());
}
