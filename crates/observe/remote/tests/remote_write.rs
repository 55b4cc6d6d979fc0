//! Remote write to stores that misbehave: the recorder never waits, and lost samples are counted.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diskwright_remote::feed::{SeriesName, SeriesSnapshot};
use diskwright_remote::{MetricStore, RemoteWriter, SendResult, StoreAccess};

use crate::common::{FakeStore, http_response};

/// Limit of the time to finish: a second and a half, and more for a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(8);

fn snapshot_with_values(time_ms: i64, series: usize) -> SeriesSnapshot {
    let named = SeriesName { metric: "diskwright_x".into(), labels: Vec::new(), help: String::new(), is_total: false };
    SeriesSnapshot { time_ms, names: Arc::new(vec![named; series]), values: vec![1.0; series] }
}

fn start_writer(url: &str) -> RemoteWriter {
    let store =
        MetricStore::for_writing(&StoreAccess { timeout: Duration::from_secs(60), ..StoreAccess::new(url) }).unwrap();
    RemoteWriter::start(store, Vec::new()).unwrap()
}

/// Writes two ticks to a store and finishes at once.
fn write_two_ticks(store: &FakeStore) -> (SendResult, Option<String>) {
    let mut writer = start_writer(&store.url("", ""));
    writer.push(&snapshot_with_values(1, 1));
    writer.push(&snapshot_with_values(2, 2));
    let begun = Instant::now();
    let result = writer.finish();
    assert!(begun.elapsed() < MAX_WAIT, "{:?}", begun.elapsed());
    assert_eq!(result.sent + result.lost, 3, "{result:?}");
    assert_eq!(writer.send_result(), result);
    (result, writer.current_trouble())
}

#[test]
fn sent_and_lost_samples_are_counted() {
    let (result, trouble) = write_two_ticks(&FakeStore::with_response(http_response("204 No Content", "", "")));
    assert_eq!((result, trouble), (SendResult { sent: 3, lost: 0, retries: 0 }, None));
    // permanent errors are not retried
    for (status, headers) in [("400 Bad Request", ""), ("404 Not Found", ""), ("302 Found", "Location: http://x\r\n")] {
        let store = FakeStore::with_response(http_response(status, headers, "out of bounds"));
        let (result, trouble) = write_two_ticks(&store);
        assert_eq!((result.lost, result.retries), (3, 0), "{status}");
        assert!(trouble.unwrap().contains(&status[..3]), "{status}");
    }
}

#[test]
fn temporary_failures_are_retried_while_there_is_time() {
    for status in ["503 Service Unavailable", "429 Too Many Requests"] {
        let (result, trouble) = write_two_ticks(&FakeStore::with_response(http_response(status, "", "")));
        assert!(result.lost == 3 && result.retries > 0, "{status}: {result:?}");
        assert!(trouble.unwrap().contains(&status[..3]));
    }
    // the third try succeeds
    let tries = AtomicUsize::new(0);
    let store = FakeStore::start(move |_, stream| {
        let is_up = tries.fetch_add(1, Ordering::SeqCst) >= 2;
        stream.write_all(&http_response(if is_up { "200 OK" } else { "500 Internal Server Error" }, "", ""))
    });
    let mut writer = start_writer(&store.url("", ""));
    writer.push(&snapshot_with_values(1, 4));
    let begun = Instant::now();
    while writer.send_result().sent == 0 && begun.elapsed() < Duration::from_secs(60) {
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
    }
    assert_eq!(writer.finish(), SendResult { sent: 4, lost: 0, retries: 2 });
    assert_eq!(writer.current_trouble(), None, "what is over is no trouble");
}

#[test]
fn retry_after_is_respected() {
    let store = FakeStore::with_response(http_response("429 Too Many Requests", "Retry-After: 3600\r\n", ""));
    let mut writer = start_writer(&store.url("", ""));
    writer.push(&snapshot_with_values(1, 1));
    let begun = Instant::now();
    while store.seen().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
    }
    // longer than the pause without `Retry-After`
    let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 1, tv_nsec: 500_000_000 });
    assert_eq!(store.seen().len(), 1);
    let begun = Instant::now();
    assert_eq!(writer.finish().lost, 1);
    assert!(begun.elapsed() < MAX_WAIT, "an hour was not waited for");
}

#[test]
fn no_store_delays_the_recorder_or_its_end() {
    let stores = [
        FakeStore::without_response(),
        // begins to answer, one byte at a time
        FakeStore::start(|_, stream| {
            loop {
                stream.write_all(b"H")?;
                let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 50_000_000 });
            }
        }),
        // closes the connection in the middle
        FakeStore::start(|_, stream| stream.write_all(b"HTTP/1.1 20")),
        // an endless error
        FakeStore::start(|_, stream| {
            write!(stream, "HTTP/1.1 500 No\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 1 << 16])?;
            }
        }),
        // accepts no connection
        FakeStore::start(|_, _| {
            loop {
                std::thread::park()
            }
        }),
    ];
    for (index, store) in stores.iter().enumerate() {
        let mut writer = start_writer(&store.url("", ""));
        let begun = Instant::now();
        (0..2_000).for_each(|time_ms| writer.push(&snapshot_with_values(time_ms, 10)));
        assert!(begun.elapsed() < MAX_WAIT, "{index}: pushing took {:?}", begun.elapsed());
        let begun = Instant::now();
        let result = writer.finish();
        assert!(begun.elapsed() < MAX_WAIT, "{index}: ending took {:?}", begun.elapsed());
        assert_eq!((result.sent, result.lost), (0, 20_000), "{index}");
    }
}

#[test]
fn an_endless_success_response_counts_as_success() {
    let store = FakeStore::with_endless_response("", "x");
    let (result, _) = write_two_ticks(&store);
    assert_eq!(result.sent, 3);
}

#[test]
fn the_queue_is_bounded() {
    let store = FakeStore::without_response();
    let mut writer = start_writer(&store.url("", ""));
    (0..1_000).for_each(|time_ms| writer.push(&snapshot_with_values(time_ms, 1)));
    let lost = writer.send_result().lost;
    // 600 ticks are queued, and one batch is being sent
    assert!((1..=400).contains(&lost), "{lost}");
    assert_eq!(writer.finish().lost, 1_000);
    writer.push(&snapshot_with_values(1, 1));
    assert_eq!(writer.send_result().lost, 1_000, "after its end nothing is counted twice");
}

#[test]
fn a_full_write_address_is_used_unchanged() {
    for (path, wanted) in [
        ("", "/api/v1/write"),
        ("/prom/", "/prom/api/v1/write"),
        ("/api/v1/write", "/api/v1/write"),
        ("/api/v1/push", "/api/v1/push"),
        ("/write", "/write"),
        ("/insert/0/prometheus/api/v1/write", "/insert/0/prometheus/api/v1/write"),
        ("/api/v1/prom/write?db=x", "/api/v1/prom/write?db=x"),
    ] {
        let store = FakeStore::with_response(http_response("204 No Content", "", ""));
        let mut writer = start_writer(&store.url("u:secret@", path));
        writer.push(&snapshot_with_values(1, 1));
        assert_eq!(writer.finish().sent, 1, "{path}");
        let seen = store.seen();
        assert_eq!(seen[0].path(), wanted);
        assert_eq!(seen[0].header("authorization"), Some("Basic dTpzZWNyZXQ="));
    }
}
