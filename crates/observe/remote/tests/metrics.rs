//! `/metrics` with clients that misbehave: whatever they do, a proper request is answered.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskwright_remote::feed::{SeriesName, SeriesSnapshot};
use diskwright_remote::{LastTick, MetricsServer, ServerLimits};

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
const ONCE: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// Much longer than an answer takes on the slowest machine, and shorter than any timeout of [`patient`].
const SOON: Duration = Duration::from_secs(20);

fn shot(series: usize) -> SeriesSnapshot {
    let named = |at| SeriesName {
        metric: "diskwright_x".into(),
        labels: vec![("device".into(), format!("disk{at:08}"))],
        help: "X.".into(),
        is_total: false,
    };
    SeriesSnapshot { time_ms: 1000, names: Arc::new((0..series).map(named).collect()), values: vec![2.5; series] }
}

fn server(series: usize, limits: ServerLimits) -> MetricsServer {
    let last = LastTick::default();
    last.set(&shot(series));
    MetricsServer::start("0", last, limits).unwrap()
}

/// Limits with which no client is disconnected for being slow.
fn patient() -> ServerLimits {
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
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream
}

fn ask(server: &MetricsServer, request: &str) -> String {
    let mut stream = connect(server.address());
    stream.write_all(request.as_bytes()).unwrap();
    rest(&mut stream)
}

/// Reads until the server closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Reads one answer from a connection that stays open.
fn answer(stream: &mut TcpStream) -> (String, String) {
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
fn is_hung_up_on(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_page_and_nothing_else() {
    let server = server(1, ServerLimits::default());
    let page = ask(&server, ONCE);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\ndiskwright_x{device=\"disk00000000\"} 2.5\n"), "{page}");
    assert!(ask(&server, "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let refused = ask(&server, "POST /metrics HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
    assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    assert!(ask(&server, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask(&server, &"x".repeat(20_000)).starts_with("HTTP/1.1 431 "));
    let head = ask(&server, "HEAD /metrics HTTP/1.0\r\n\r\n");
    let length = page.split_once("\r\n\r\n").unwrap().1.len();
    assert!(head.contains(&format!("Content-Length: {length}\r\n")) && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn nothing_that_a_client_says_comes_back() {
    let server = server(1, ServerLimits::default());
    for target in ["/x%0d%0aSet-Cookie:evil", "/x\rSet-Cookie:evil", "//evil", "/metrics?evil", "http://evil/"] {
        let answer = ask(&server, &format!("GET {target} HTTP/1.1\r\nevil: evil\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 ") && !answer.contains("evil"), "{target}: {answer}");
    }
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let server = server(3, ServerLimits::default());
    let mut stream = connect(server.address());
    // two requests at once, and one more later
    stream.write_all(format!("{}HEAD /nothing HTTP/1.1\r\n\r\n", GET).as_bytes()).unwrap();
    let (head, body) = answer(&mut stream);
    assert!(head.contains("Connection: keep-alive\r\n") && body.contains("disk00000002"), "{head}{body}");
    let mut second = [0; 12];
    stream.read_exact(&mut second).unwrap();
    assert_eq!(&second, b"HTTP/1.1 404");
    stream.write_all(ONCE.as_bytes()).unwrap();
    assert!(rest(&mut stream).contains("disk00000002"));
}

#[test]
fn one_that_has_said_all_and_hung_up_its_half_is_answered() {
    let server = server(3, ServerLimits::default());
    let mut stream = connect(server.address());
    stream.write_all(GET.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&mut stream).contains("disk00000002"));
}

#[test]
fn idle_slow_and_greedy_clients_delay_nobody() {
    // so many series that the page does not fit into the buffers of a connection
    let server = server(300_000, patient());
    let mut hostile = Vec::new();
    for index in 0..60 {
        let mut stream = connect(server.address());
        match index % 3 {
            0 => {}
            1 => stream.write_all(b"GET /metr").unwrap(),
            // sends a request, and never reads
            _ => stream.write_all(GET.as_bytes()).unwrap(),
        }
        hostile.push(stream);
    }
    for _ in 0..3 {
        let page = ask(&server, ONCE);
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
fn a_new_client_takes_the_place_of_the_one_that_wastes_it() {
    let server = server(1, ServerLimits { max_clients: 10, ..patient() });
    let first = connect(server.address());
    let more: Vec<TcpStream> = (0..40).map(|_| connect(server.address())).collect();
    assert!(ask(&server, ONCE).starts_with("HTTP/1.1 200 "));
    assert!(is_hung_up_on(first));
    drop(more);
}

#[test]
fn who_takes_too_long_is_hung_up_on() {
    let short = Duration::from_millis(100);
    let server = server(
        300_000,
        ServerLimits {
            max_clients: 10,
            request_timeout: short,
            response_timeout: short,
            idle_timeout: short,
            ..patient()
        },
    );
    let silent = connect(server.address());
    let mut idle = connect(server.address());
    idle.write_all(b"GET /nothing HTTP/1.1\r\n\r\n").unwrap();
    answer(&mut idle);
    let mut greedy = connect(server.address());
    greedy.write_all(GET.as_bytes()).unwrap();
    // an occasional byte does not count as a request
    let mut dripping = connect(server.address());
    let begun = Instant::now();
    while begun.elapsed() < SOON && dripping.write_all(b"x").is_ok() {
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 20_000_000 });
    }
    assert!(begun.elapsed() < SOON, "the dripping one was never hung up on");
    assert!(is_hung_up_on(silent) && is_hung_up_on(idle));
    let mut got = Vec::new();
    // the content of the buffers arrives; the whole page does not
    let _ = greedy.read_to_end(&mut got);
    assert!(!got.ends_with(b"diskwright_time_seconds 1\n"), "{} bytes", got.len());
}

#[test]
fn it_ends_when_dropped_whoever_is_connected() {
    let server = server(1, patient());
    let stream = connect(server.address());
    let address = server.address();
    drop(server);
    assert!(is_hung_up_on(stream));
    assert!(TcpStream::connect(address).is_err());
}
