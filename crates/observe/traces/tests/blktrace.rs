//! Building requests from the kernel's events, for each sequence of events that occurs.

use crate::common::*;
use diskwright_base::{Operation, Request};

/// Returns arrival, issue, completion, first sector and number of sectors of each request.
fn request_paths(entries: &[Entry<'_>]) -> Vec<(i64, i64, i64, u64, u32)> {
    let (requests, _) = read_all(&[DEFAULT_FORMAT.encode_stream(entries)]);
    let path = |r: &Request| (r.arrival_ns, r.issued_ns, r.completion_ns, r.offset_bytes / 512, r.length_bytes / 512);
    requests.iter().map(path).collect()
}

const UNKNOWN: i64 = Request::UNKNOWN_NS;

#[test]
fn a_plain_request() {
    let entries = [event(100, Q, READ, 8, 8), event(110, G, READ, 8, 8), event(120, I, READ, 8, 8)];
    let entries = [&entries[..], &[event(150, D, READ, 8, 8), event(400, C, READ, 8, 8)]].concat();
    // without a time of day, the clock begins at the first event
    assert_eq!(request_paths(&entries), [(0, 50, 300, 8, 8)]);
}

#[test]
fn merged_requests_stay_apart_and_end_together() {
    let entries = [
        event(0, Q, WRITE, 100, 8),
        event(1, Q, WRITE, 108, 8),
        event(2, M, WRITE, 108, 8),
        event(3, Q, WRITE, 92, 8),
        event(10, D, WRITE, 92, 24),
        event(50, C, WRITE, 92, 24),
    ];
    assert_eq!(request_paths(&entries), [(0, 10, 50, 100, 8), (1, 10, 50, 108, 8), (3, 10, 50, 92, 8)]);
}

#[test]
fn a_request_that_was_cut_ends_with_its_last_part() {
    let entries = [
        event(0, Q, READ, 0, 256),
        event(5, D, READ, 0, 128),
        event(6, D, READ, 128, 128),
        event(20, C, READ, 128, 128),
        event(30, C, READ, 0, 128),
    ];
    assert_eq!(request_paths(&entries), [(0, 5, 30, 0, 256)]);
    // a completion in two parts
    let parts = [event(0, Q, READ, 0, 16), event(1, D, READ, 0, 16), event(2, C, READ, 0, 8), event(9, C, READ, 8, 8)];
    assert_eq!(request_paths(&parts), [(0, 1, 9, 0, 16)]);
}

#[test]
fn an_old_kernel_queues_the_second_part_again() {
    let split_sector = 128u64.to_be_bytes();
    let split = Entry { behind: &split_sector, ..event(1, X, READ, 0, 256) };
    let entries = [
        event(0, Q, READ, 0, 256),
        split,
        event(2, Q, READ, 128, 128),
        event(3, D, READ, 0, 128),
        event(4, D, READ, 128, 128),
        event(10, C, READ, 0, 128),
        event(11, C, READ, 128, 128),
    ];
    assert_eq!(request_paths(&entries), [(0, 3, 10, 0, 128), (2, 4, 11, 128, 128)]);
}

#[test]
fn a_requeued_request_counts_from_its_last_issue() {
    let entries = [
        event(0, Q, WRITE, 8, 8),
        event(1, D, WRITE, 8, 8),
        event(2, R, WRITE, 8, 8),
        event(7, D, WRITE, 8, 8),
        event(9, C, WRITE, 8, 8),
    ];
    assert_eq!(request_paths(&entries), [(0, 7, 9, 8, 8)]);
}

#[test]
fn a_remapped_request_is_one_request() {
    let behind = [0; 16];
    let remap = |time_ns| Entry { behind: &behind, ..event(time_ns, A, READ, 2056, 8) };
    // through a partition: a Q follows
    let partition = [remap(0), event(0, Q, READ, 2056, 8), event(4, D, READ, 2056, 8), event(9, C, READ, 2056, 8)];
    assert_eq!(request_paths(&partition), [(0, 4, 9, 2056, 8)]);
    // through an array that passes requests on unchanged: no Q follows
    let array = [remap(0), event(4, D, READ, 2056, 8), event(9, C, READ, 2056, 8)];
    assert_eq!(request_paths(&array), [(0, 4, 9, 2056, 8)]);
    // through two layers; it arrives at its Q, as blkparse and btt count
    let two = [remap(0), remap(1), event(2, Q, READ, 2056, 8), event(4, D, READ, 2056, 8), event(9, C, READ, 2056, 8)];
    assert_eq!(request_paths(&two), [(2, 4, 9, 2056, 8)]);
}

#[test]
fn a_device_without_a_queue_has_no_issue() {
    assert_eq!(request_paths(&[event(0, Q, READ, 8, 8), event(9, C, READ, 8, 8)]), [(0, UNKNOWN, 9, 8, 8)]);
}

#[test]
fn simultaneous_reads_of_one_place_are_distinguished() {
    let entries = [
        event(0, Q, READ, 8, 8),
        event(1, Q, READ, 8, 8),
        event(2, D, READ, 8, 8),
        event(3, D, READ, 8, 8),
        event(10, C, READ, 8, 8),
        event(20, C, READ, 8, 8),
    ];
    assert_eq!(request_paths(&entries), [(0, 2, 10, 8, 8), (1, 3, 20, 8, 8)]);
    // the same without a Q: no request is lost
    let issues: Vec<Entry<'_>> = entries.iter().filter(|e| e.action != Q).copied().collect();
    assert_eq!(request_paths(&issues), [(0, UNKNOWN, 8, 8, 8), (1, UNKNOWN, 18, 8, 8)]);
    // a write at the place of a read in flight
    let both = [event(0, Q, READ, 8, 8), event(1, D, READ, 8, 8), event(2, Q, WRITE, 8, 8), event(3, D, WRITE, 8, 8)];
    let both = [&both[..], &[event(4, C, WRITE, 8, 8), event(9, C, READ, 8, 8)]].concat();
    assert_eq!(request_paths(&both), [(0, 1, 9, 8, 8), (2, 3, 4, 8, 8)]);
}

#[test]
fn flushes_and_discards() {
    let nowhere = u64::MAX;
    let entries = [
        event(0, Q, WRITE | FLUSH, nowhere, 0),
        event(1, Q, WRITE | FLUSH, nowhere, 0),
        event(5, D, FLUSH, nowhere, 0),
        event(9, C, FLUSH, 0, 0),
        // the write that carried the flush ends too, and is not a request
        event(10, C, WRITE, 0, 0),
        event(11, Q, DISCARD | WRITE, 0, 1024),
        event(12, D, DISCARD | WRITE, 0, 1024),
        event(13, C, DISCARD | WRITE, 0, 1024),
    ];
    let (requests, summary) = read_all(&[DEFAULT_FORMAT.encode_stream(&entries)]);
    let found: Vec<_> = requests.iter().map(|r| (r.operation, r.issued_ns, r.completion_ns)).collect();
    let flush = (Operation::Flush, 5, 9);
    assert_eq!(found, [flush, flush, (Operation::Discard, 12, 13)]);
    assert!(summary.skipped.is_empty(), "{summary:?}");
}

#[test]
fn a_trace_that_begins_in_the_middle() {
    let entries = [
        event(0, C, READ, 800, 8),
        event(1, D, READ, 8, 8),
        event(9, C, READ, 8, 8),
        event(10, Q, READ, 64, 8),
        event(11, Q, READ, 16, 8),
        event(12, D, READ, 16, 8),
        event(13, C, READ, 16, 8),
        event(14, D, PASSED_THROUGH | READ, 0, 1),
    ];
    let (requests, summary) = read_all(&[DEFAULT_FORMAT.encode_stream(&entries)]);
    // without a Q it counts from its issue, and the queue time is not known
    let path = |r: &Request| (r.arrival_ns, r.issued_ns, r.completion_ns);
    assert_eq!(requests.iter().map(path).collect::<Vec<_>>(), [(1, UNKNOWN, 9), (10, UNKNOWN, UNKNOWN), (11, 12, 13)]);
    assert_eq!((summary.without_arrival, summary.unfinished), (1, 1));
    let reasons: Vec<&str> = summary.skipped.iter().map(|s| s.reason.as_str()).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}

#[test]
fn processors_and_machines() {
    let times: Vec<u64> = (0..1000).map(|i| i * 10).collect();
    for big_endian in [false, true] {
        for version in [7, 8] {
            let machine = RecordFormat { big_endian, version };
            // queued on one processor, completed on another
            let issued: Vec<Entry<'_>> =
                times.iter().flat_map(|t| [event(*t, Q, READ, *t, 8), event(t + 1, D, READ, *t, 8)]).collect();
            let done: Vec<Entry<'_>> = times.iter().map(|t| event(t + 25, C, READ, *t, 8)).collect();
            let (one, two) = (machine.encode_stream(&issued), machine.encode_stream(&done));
            let (apart, _) = read_all(&[one.clone(), two.clone()]);
            assert_eq!(apart.len(), 1000);
            assert!(apart.iter().all(|r| (r.queue_ns(), r.service_ns()) == (Some(1), Some(24))));
            // the same as one stream, with one processor's buffer after the other's
            let (stream, summary) = read_all(&[[one, two].concat()]);
            assert_eq!(stream, apart);
            assert_eq!((summary.out_of_order, summary.devices.as_slice()), (0, &["8,0".to_owned()][..]));
        }
    }
}

#[test]
fn the_time_of_day_is_known_if_the_trace_contains_it() {
    for big_endian in [false, true] {
        let machine = RecordFormat { big_endian, version: 7 };
        let order = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let day = [order(1_700_000_000), order(500)].concat();
        let clock_entry = Entry { behind: &day, ..event(1000, 1, NOTIFY, 0, 0) };
        let (requests, summary) = read_all(&[machine.encode_stream(&[clock_entry, event(3000, Q, READ, 8, 8)])]);
        assert!(summary.wall_clock);
        assert_eq!(requests[0].arrival_ns, 1_700_000_000_000_002_500);
    }
}

#[test]
fn a_lost_completion_does_not_consume_the_next_one_at_its_place() {
    let minute = 60_000_000_000;
    let entries = [
        event(0, Q, WRITE, 8, 8),
        event(1, D, WRITE, 8, 8),
        event(minute, Q, WRITE, 8, 8),
        event(minute + 1, D, WRITE, 8, 8),
        event(minute + 2, C, WRITE, 8, 8),
    ];
    let later = |ns: u64| i64::try_from(minute + ns).expect("small");
    assert_eq!(request_paths(&entries), [(0, 1, UNKNOWN, 8, 8), (later(0), later(1), later(2), 8, 8)]);
    assert_eq!(read_all(&[DEFAULT_FORMAT.encode_stream(&entries)]).1.unfinished, 1);
}

#[test]
fn a_lost_completion_does_not_block_later_requests() {
    let count = 400_000u64;
    let mut entries = vec![event(0, Q, WRITE, 1 << 40, 8)];
    for i in 1..=count {
        entries.extend([event(i * 10, Q, READ, i * 8, 8), event(i * 10 + 1, C, READ, i * 8, 8)]);
    }
    let mut trace = open_trace(&[DEFAULT_FORMAT.encode_stream(&entries)]);
    let requests: Vec<Request> = trace.by_ref().map(|r| r.expect("memory is readable")).collect();
    assert_eq!((requests.len() as u64, trace.summary().unfinished), (count + 1, 1));
    assert!(requests.windows(2).all(|w| w[0].arrival_ns <= w[1].arrival_ns));
}
