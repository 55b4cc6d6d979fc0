//! Remote write to stores that misbehave: the recorder never waits, and lost samples are counted.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diskwright_remote::feed::{SeriesName, SeriesSnapshot};
use diskwright_remote::{MetricStore, RemoteWriter, SendResult, StoreAccess};

use crate::common::{FakeStore, http};

/// Limit of the time to finish: a second and a half, and more for a busy machine.
const SOON: Duration = Duration::from_secs(8);

fn shot(time_ms: i64, series: usize) -> SeriesSnapshot {
    let named = SeriesName { metric: "diskwright_x".into(), labels: Vec::new(), help: String::new(), is_total: false };
    SeriesSnapshot { time_ms, names: Arc::new(vec![named; series]), values: vec![1.0; series] }
}

fn writer(url: &str) -> RemoteWriter {
    let store =
        MetricStore::for_writing(&StoreAccess { timeout: Duration::from_secs(60), ..StoreAccess::new(url) }).unwrap();
    RemoteWriter::start(store, Vec::new()).unwrap()
}

/// Writes two ticks to a store and finishes at once.
fn write_to(store: &FakeStore) -> (SendResult, Option<String>) {
    let mut writer = writer(&store.url("", ""));
    writer.push(&shot(1, 1));
    writer.push(&shot(2, 2));
    let begun = Instant::now();
    let result = writer.finish();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(result.sent + result.lost, 3, "{result:?}");
    assert_eq!(writer.result(), result);
    (result, writer.trouble())
}

#[test]
fn what_a_store_takes_or_not_is_counted() {
    let (result, trouble) = write_to(&FakeStore::saying(http("204 No Content", "", "")));
    assert_eq!((result, trouble), (SendResult { sent: 3, lost: 0, retries: 0 }, None));
    // permanent errors are not retried
    for (status, headers) in [("400 Bad Request", ""), ("404 Not Found", ""), ("302 Found", "Location: http://x\r\n")] {
        let store = FakeStore::saying(http(status, headers, "out of bounds"));
        let (result, trouble) = write_to(&store);
        assert_eq!((result.lost, result.retries), (3, 0), "{status}");
        assert!(trouble.unwrap().contains(&status[..3]), "{status}");
    }
}

#[test]
fn a_store_that_may_come_back_is_asked_again_while_there_is_time() {
    for status in ["503 Service Unavailable", "429 Too Many Requests"] {
        let (result, trouble) = write_to(&FakeStore::saying(http(status, "", "")));
        assert!(result.lost == 3 && result.retries > 0, "{status}: {result:?}");
        assert!(trouble.unwrap().contains(&status[..3]));
    }
    // the third try succeeds
    let tries = AtomicUsize::new(0);
    let store = FakeStore::start(move |_, stream| {
        let is_up = tries.fetch_add(1, Ordering::SeqCst) >= 2;
        stream.write_all(&http(if is_up { "200 OK" } else { "500 Internal Server Error" }, "", ""))
    });
    let mut writer = writer(&store.url("", ""));
    writer.push(&shot(1, 4));
    let begun = Instant::now();
    while writer.result().sent == 0 && begun.elapsed() < Duration::from_secs(60) {
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
    }
    assert_eq!(writer.finish(), SendResult { sent: 4, lost: 0, retries: 2 });
    assert_eq!(writer.trouble(), None, "what is over is no trouble");
}

#[test]
fn a_store_is_left_alone_for_as_long_as_it_says() {
    let store = FakeStore::saying(http("429 Too Many Requests", "Retry-After: 3600\r\n", ""));
    let mut writer = writer(&store.url("", ""));
    writer.push(&shot(1, 1));
    let begun = Instant::now();
    while store.seen().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
    }
    // longer than the pause without `Retry-After`
    let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 1, tv_nsec: 500_000_000 });
    assert_eq!(store.seen().len(), 1);
    let begun = Instant::now();
    assert_eq!(writer.finish().lost, 1);
    assert!(begun.elapsed() < SOON, "an hour was not waited for");
}

#[test]
fn no_store_holds_up_the_recorder_or_its_end() {
    let stores = [
        FakeStore::hanging(),
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
        let mut writer = writer(&store.url("", ""));
        let begun = Instant::now();
        (0..2_000).for_each(|time_ms| writer.push(&shot(time_ms, 10)));
        assert!(begun.elapsed() < SOON, "{index}: pushing took {:?}", begun.elapsed());
        let begun = Instant::now();
        let result = writer.finish();
        assert!(begun.elapsed() < SOON, "{index}: ending took {:?}", begun.elapsed());
        assert_eq!((result.sent, result.lost), (0, 20_000), "{index}");
    }
}

#[test]
fn an_endless_welcome_is_a_welcome() {
    let store = FakeStore::endless("", "x");
    let (result, _) = write_to(&store);
    assert_eq!(result.sent, 3);
}

#[test]
fn what_waits_is_bounded() {
    let store = FakeStore::hanging();
    let mut writer = writer(&store.url("", ""));
    (0..1_000).for_each(|time_ms| writer.push(&shot(time_ms, 1)));
    let lost = writer.result().lost;
    // 600 ticks are queued, and one batch is being sent
    assert!((1..=400).contains(&lost), "{lost}");
    assert_eq!(writer.finish().lost, 1_000);
    writer.push(&shot(1, 1));
    assert_eq!(writer.result().lost, 1_000, "after its end nothing is counted twice");
}

#[test]
fn a_full_write_address_is_used_as_it_is() {
    for (path, wanted) in [
        ("", "/api/v1/write"),
        ("/prom/", "/prom/api/v1/write"),
        ("/api/v1/write", "/api/v1/write"),
        ("/api/v1/push", "/api/v1/push"),
        ("/write", "/write"),
        ("/insert/0/prometheus/api/v1/write", "/insert/0/prometheus/api/v1/write"),
        ("/api/v1/prom/write?db=x", "/api/v1/prom/write?db=x"),
    ] {
        let store = FakeStore::saying(http("204 No Content", "", ""));
        let mut writer = writer(&store.url("u:secret@", path));
        writer.push(&shot(1, 1));
        assert_eq!(writer.finish().sent, 1, "{path}");
        let seen = store.seen();
        assert_eq!(seen[0].path(), wanted);
        assert_eq!(seen[0].header("authorization"), Some("Basic dTpzZWNyZXQ="));
    }
}
