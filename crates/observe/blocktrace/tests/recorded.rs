//! Pages recorded on real kernels (Linux 5.10, 6.1 and 6.12 of Debian with a virtio disk, 6.18 with a loop
//! device; `lab/trace_pages.py` records those of another), while a known load ran: 6 direct reads of 4 KiB,
//! 3 direct writes of 64 KiB and a sync, 2 writes of 4 KiB with `O_DSYNC`, and one buffered write of 32 KiB with
//! a sync.

use diskwright_blocktrace::reader::EventSorter;
use diskwright_blocktrace::{BlockEvent, BlockEventKind, RequestPairing, TracedOperation, TracedRequest};

use crate::common::{KERNELS, layouts, pages};

fn events(kernel: &str) -> Vec<BlockEvent> {
    let (table, layout) = layouts(kernel);
    let mut sorter = EventSorter::default();
    pages(kernel).iter().for_each(|(cpu, page)| sorter.add_page(*cpu, page, &layout, &table));
    let mut events = Vec::new();
    sorter.drain_before(u64::MAX, |event| events.push(*event));
    assert_eq!((sorter.counts.unknown, sorter.counts.truncated_pages), (0, 0), "{kernel}");
    events
}

fn requests(kernel: &str) -> (Vec<TracedRequest>, RequestPairing) {
    let has_start = layouts(kernel).0.find_layout(BlockEventKind::Start).is_some();
    assert_eq!(has_start, matches!(kernel, "6.12" | "6.18"));
    let mut pairing = RequestPairing::new(has_start, None);
    let mut done = Vec::new();
    events(kernel).iter().for_each(|event| pairing.handle_event(event, &mut |request| done.push(request)));
    (done, pairing)
}

#[test]
fn events_of_every_recorded_kernel_are_complete_and_in_order() {
    for kernel in KERNELS {
        let events = events(kernel);
        assert!(events.len() > 30, "{kernel}: {}", events.len());
        assert!(events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "{kernel}");
        assert!(events.iter().all(|event| event.operation().is_some()), "{kernel}");
        assert!(events.iter().any(|event| event.comm.starts_with(b"dd\0")), "{kernel}");
    }
}

/// The kernel counted as many while the pages were recorded (its `stat` before and after): 6 reads, and
/// writes with the callers' flushes among them; the one of 32 KiB became one or several.
#[test]
fn requests_of_every_recorded_kernel_are_those_of_the_load() {
    // the `dd` of the machine with 6.1 knew no O_DSYNC
    for (kernel, small, counted_writes, flushes) in
        [("5.10", 2, 10, 6), ("6.1", 0, 6, 2), ("6.12", 2, 10, 6), ("6.18", 2, 10, 6)]
    {
        let (done, pairing) = requests(kernel);
        let of = |operation| done.iter().filter(|r| r.operation == operation).collect::<Vec<_>>();
        let reads = of(TracedOperation::Read);
        assert_eq!(reads.len(), 6, "{kernel}: {done:?}");
        assert!(reads.iter().all(|r| r.sectors == 8 && r.depth == 1 && r.comm.starts_with(b"dd\0")), "{kernel}");
        let mut places: Vec<u64> = reads.iter().map(|r| r.sector).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 8, 16, 24, 32, 40], "{kernel}");
        let writes = of(TracedOperation::SyncWrite);
        assert_eq!(writes.iter().filter(|r| r.sectors == 128).count(), 3, "{kernel}");
        assert_eq!(writes.iter().filter(|r| r.sectors == 8 && r.sector == 800 || r.sector == 808).count(), small);
        assert_eq!(writes.iter().map(|r| r.sectors).sum::<u32>(), 3 * 128 + small as u32 * 8 + 64, "{kernel}");
        let calls = of(TracedOperation::FlushCall).len();
        assert_eq!(writes.len() + of(TracedOperation::Write).len() + calls, counted_writes, "{kernel}");
        assert_eq!(of(TracedOperation::Flush).len(), flushes, "{kernel}");
        assert!(done.iter().all(|r| r.done_ns >= r.arrived_ns()), "{kernel}");
        // the flush behind a forced write is the kernel's own doing
        let transfers = done.iter().filter(|r| r.operation != TracedOperation::Flush);
        assert!(transfers.into_iter().all(|r| r.comm.starts_with(b"dd\0")), "{kernel}");
        assert!(reads.iter().all(|r| r.queue_ns().is_some() && r.scheduler_ns().is_some()), "{kernel}");
        assert_eq!((pairing.counts.without_beginning, pairing.counts.without_start), (0, 0), "{kernel}");
        assert_eq!(pairing.unfinished_count(), 0, "{kernel}");
    }
}

/// The device mapper on Linux 6.1: a linear target over a virtio disk. The upper device takes bios and
/// has a beginning and an end of each; the lower one has requests of the same program.
/// The kernel counted 6 reads and 13 writes of the upper one, two of them callers' flushes.
#[test]
fn the_device_mapper_and_its_lower_device_are_both_traced() {
    let (done, pairing) = requests("6.1-dm");
    let (upper, lower) = (253 << 20, 254 << 20);
    let of = |device, operation| done.iter().filter(|r| r.device == device && r.operation == operation).count();
    use TracedOperation::{FlushCall, Read, SyncWrite, Write};
    assert_eq!((of(upper, Read), of(lower, Read)), (6, 6), "{done:?}");
    assert_eq!(of(upper, Write) + of(upper, SyncWrite) + of(upper, FlushCall), 13);
    assert!(done.iter().filter(|r| r.device == upper).all(|r| r.issued_ns.is_none() && r.depth == 0));
    let reads: Vec<u64> = done.iter().filter(|r| r.device == lower && r.operation == Read).map(|r| r.sector).collect();
    // the target begins at sector 2048 of the disk below
    assert_eq!(reads, [2048, 2056, 2064, 2072, 2080, 2088]);
    assert!(done.iter().filter(|r| r.operation == Read).all(|r| r.comm.starts_with(b"dd\0")));
    assert_eq!((pairing.counts.without_beginning, pairing.counts.without_start), (0, 0));
}

/// A page that lost its end, its middle or a few bits gives fewer events, and nothing worse.
#[test]
fn damaged_pages_are_counted() {
    for kernel in KERNELS {
        let (table, layout) = layouts(kernel);
        let (cpu, page) = pages(kernel).into_iter().max_by_key(|(_, p)| p[8]).expect("a page");
        let undamaged_events = {
            let mut sorter = EventSorter::default();
            sorter.add_page(cpu, &page, &layout, &table);
            let mut events = 0;
            sorter.drain_before(u64::MAX, |_| events += 1);
            events
        };
        for cut in (0..page.len()).step_by(37) {
            let mut sorter = EventSorter::default();
            sorter.add_page(cpu, &page[..cut], &layout, &table);
            let mut events = 0;
            sorter.drain_before(u64::MAX, |_| events += 1);
            assert!(events <= undamaged_events, "{kernel} {cut}");
        }
        let mut noticed = 0;
        for flip in 0..2000usize {
            let mut damaged = page.clone();
            let offset = 16 + flip * 7919 % 1000;
            damaged[offset] ^= 1 << (flip % 8);
            let mut sorter = EventSorter::default();
            sorter.add_page(cpu, &damaged, &layout, &table);
            noticed += sorter.counts.truncated_pages + sorter.counts.unknown;
        }
        assert!(noticed > 0, "{kernel}: no damage was ever noticed");
    }
}

/// Kernels lack events (`block_io_start` before 6.5). If any event except issue and completion is missing, all requests
/// of the load are complete, with the data of the other events.
#[test]
fn a_kernel_without_an_event_shows_every_request() {
    for kernel in ["5.10", "6.1", "6.12", "6.18"] {
        for missing in BlockEventKind::ALL {
            if matches!(missing, BlockEventKind::Issue | BlockEventKind::Complete) {
                continue;
            }
            let has_start = matches!(kernel, "6.12" | "6.18") && missing != BlockEventKind::Start;
            let mut pairing = RequestPairing::new(has_start, None);
            let mut reads = Vec::new();
            for event in events(kernel).iter().filter(|event| event.kind != missing) {
                pairing.handle_event(event, &mut |r| reads.extend((r.operation == TracedOperation::Read).then_some(r)));
            }
            assert_eq!(reads.len(), 6, "{kernel} without {}", missing.name());
            assert!(
                reads.iter().all(|r| r.device_ns().is_some() && r.done_ns >= r.arrived_ns()),
                "{kernel} {missing:?}"
            );
            let knows_queue = reads.iter().all(|r| r.queue_ns().is_some());
            // later kernels have both events at the start of a request
            let needs_it = matches!(missing, BlockEventKind::Queue)
                || matches!(kernel, "5.10" | "6.1") && matches!(missing, BlockEventKind::GetRequest);
            assert_eq!(knows_queue, !needs_it, "{kernel} without {}", missing.name());
        }
    }
}
