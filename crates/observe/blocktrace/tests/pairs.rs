//! Requests from handmade events: one case for each behaviour of the kernel.

use diskwright_blocktrace::BlockEventKind::{
    BackMerge, BioComplete, Complete, FrontMerge, Issue, Queue, Remap, RequestMerge, Requeue, Split, Start,
};
use diskwright_blocktrace::devices::BlockDeviceNames;
use diskwright_blocktrace::{
    BlockEvent, BlockEventKind, PairingCounts, RequestPairing, TracedOperation, TracedRequest,
};

use crate::common::event;

fn paired(events: &[BlockEvent]) -> (Vec<TracedRequest>, RequestPairing) {
    let mut pairing = RequestPairing::new(true, None);
    let mut done = Vec::new();
    events.iter().for_each(|event| pairing.handle_event(event, &mut |request| done.push(request)));
    (done, pairing)
}

/// The four steps of a request at a place.
fn steps(us: u64, letters: &str, sector: u64, sectors: u32) -> [BlockEvent; 4] {
    let step = |kind, after| event(kind, us + after, letters, sector, sectors);
    [step(Queue, 0), step(Start, 10), step(Issue, 30), step(Complete, 130)]
}

#[test]
fn a_request_has_three_stages() {
    let (done, pairing) = paired(&steps(1000, "RA", 2048, 8));
    let [request] = done[..] else { panic!("{done:?}") };
    assert_eq!((request.operation, request.sector, request.sectors), (TracedOperation::Read, 2048, 8));
    assert_eq!(request.queue_ns(), Some(10_000));
    assert_eq!(request.scheduler_ns(), Some(20_000));
    assert_eq!((request.device_ns(), request.latency_ns()), (Some(100_000), 130_000));
    assert_eq!((request.pid, request.depth, &request.comm[..6]), (42, 1, &b"reader"[..]));
    assert_eq!((pairing.counts, pairing.unfinished_count()), (PairingCounts::default(), 0));
}

#[test]
fn two_requests_of_one_place_are_first_in_first_out() {
    let mut events = [steps(0, "R", 8, 8), steps(50, "R", 8, 8)].concat();
    events.sort_by_key(|e| e.time_ns);
    let (done, _) = paired(&events);
    assert_eq!(done.iter().map(TracedRequest::latency_ns).collect::<Vec<_>>(), [130_000, 130_000]);
    assert_eq!(done.iter().map(|r| r.depth).collect::<Vec<_>>(), [1, 2]);
    // a write at the same place is another one
    let mut events = [steps(0, "R", 8, 8), steps(1, "WS", 8, 8)].concat();
    events.sort_by_key(|e| e.time_ns);
    let (done, _) = paired(&events);
    assert_eq!(
        done.iter().map(|r| r.operation).collect::<Vec<_>>(),
        [TracedOperation::Read, TracedOperation::SyncWrite]
    );
}

/// The end of the first request at a place is lost. Each later one takes 130 us and is alone at the driver.
#[test]
fn a_lost_end_does_not_shift_the_ends_behind_it() {
    let mut pairing = RequestPairing::new(true, None);
    let mut done: Vec<TracedRequest> = Vec::new();
    let mut take = |pairing: &mut RequestPairing, events: &[BlockEvent]| {
        events.iter().for_each(|event| pairing.handle_event(event, &mut |request| done.push(request)));
    };
    take(&mut pairing, &steps(0, "WS", 8, 8)[..3]);
    pairing.note_loss(1_000_000);
    for seconds in [10, 20, 30] {
        take(&mut pairing, &steps(seconds * 1_000_000, "WS", 8, 8));
    }
    assert_eq!(done.iter().map(|r| (r.latency_ns(), r.depth)).collect::<Vec<_>>(), [(130_000, 1); 3]);
    assert_eq!((pairing.unfinished_count(), pairing.counts.without_end), (0, 1));
}

#[test]
fn a_lost_end_is_dropped_before_the_trace_ends() {
    let mut pairing = RequestPairing::new(true, None);
    steps(0, "R", 8, 8)[..3].iter().for_each(|event| pairing.handle_event(event, &mut |_| {}));
    pairing.note_loss(1_000_000);
    // it began after the loss: its end can only be late
    steps(2000, "R", 800, 8)[..3].iter().for_each(|event| pairing.handle_event(event, &mut |_| {}));
    pairing.give_up_lost(20_000_000_000);
    assert_eq!(pairing.unfinished_count(), 2);
    pairing.give_up_lost(31_000_000_000);
    assert_eq!((pairing.unfinished_count(), pairing.counts.without_end), (1, 1));
    pairing.give_up_lost(400_000_000_000);
    assert_eq!(pairing.unfinished_count(), 1);
    let mut depth = 0;
    steps(400_000_000, "R", 80, 8)
        .iter()
        .for_each(|event| pairing.handle_event(event, &mut |request| depth = request.depth));
    assert_eq!(depth, 2);
}

#[test]
fn the_last_part_completes_a_request() {
    let mut events = steps(0, "W", 100, 32).to_vec();
    events.pop();
    events.push(event(Complete, 200, "W", 100, 8));
    events.push(event(Complete, 300, "W", 108, 16));
    let (done, pairing) = paired(&events);
    assert!(done.is_empty());
    assert_eq!(pairing.unfinished_count(), 1);
    events.push(event(Complete, 400, "W", 124, 8));
    let (done, pairing) = paired(&events);
    assert_eq!((done.len(), done[0].sectors, done[0].latency_ns()), (1, 32, 400_000));
    assert_eq!(pairing.counts.without_beginning, 0);
}

#[test]
fn a_requeued_request_counts_from_its_last_issue() {
    let mut events = steps(0, "R", 8, 8).to_vec();
    events.insert(3, event(Requeue, 40, "R", 8, 8));
    events.insert(4, event(Issue, 90, "R", 8, 8));
    let (done, pairing) = paired(&events);
    assert_eq!((done.len(), done[0].device_ns(), done[0].scheduler_ns()), (1, Some(40_000), Some(80_000)));
    assert_eq!((done[0].requeues, done[0].depth, pairing.counts.requeues), (1, 1, 1));
}

#[test]
fn bios_that_join_a_request_end_with_it() {
    let events = [
        event(Queue, 0, "W", 108, 8),
        event(Start, 1, "W", 108, 8),
        event(Queue, 2, "W", 116, 8),
        event(BackMerge, 3, "W", 116, 8),
        event(Queue, 4, "W", 100, 8),
        event(FrontMerge, 5, "W", 100, 8),
        event(Issue, 6, "W", 100, 24),
        event(Complete, 106, "W", 100, 24),
    ];
    let (done, pairing) = paired(&events);
    assert_eq!((done.len(), done[0].sector, done[0].sectors, done[0].latency_ns()), (1, 100, 24, 106_000));
    assert_eq!((pairing.counts.merged_bios, pairing.counts.without_start, pairing.unfinished_count()), (2, 0, 0));
}

#[test]
fn a_merged_request_is_not_counted() {
    let events = [
        event(Start, 0, "W", 0, 8),
        event(Start, 1, "W", 8, 8),
        event(RequestMerge, 2, "W", 8, 8),
        event(Issue, 3, "W", 0, 16),
        event(Complete, 4, "W", 0, 16),
    ];
    let (done, pairing) = paired(&events);
    assert_eq!((done.len(), pairing.counts.merged_requests, pairing.unfinished_count()), (1, 1, 0));
}

/// As recorded on Linux 6.18: the caller's flush loses its letter, the device's has no place at its end.
#[test]
fn a_flush_is_two_requests_the_callers_and_the_devices() {
    let events = [
        event(Queue, 0, "FWS", 0, 0),
        event(Start, 1, "FWS", 0, 0),
        event(Issue, 10, "FF", 0, 0),
        event(Complete, 60, "FF", u64::MAX, 0),
        event(Complete, 61, "WS", 0, 0),
    ];
    let (done, pairing) = paired(&events);
    let found: Vec<_> = done.iter().map(|r| (r.operation, r.latency_ns())).collect();
    assert_eq!(found, [(TracedOperation::Flush, 50_000), (TracedOperation::FlushCall, 61_000)]);
    assert_eq!((pairing.counts, pairing.unfinished_count()), (PairingCounts::default(), 0));
}

#[test]
fn a_split_bio_gives_two_requests_that_were_queued_together() {
    let mut pairing = RequestPairing::new(true, None);
    let mut done = Vec::new();
    let split = BlockEvent { other_sector: 8, ..event(Split, 1, "R", 0, 0) };
    // the device is known to take requests from the first one on
    let before = steps(0, "W", 500, 8);
    let events = [event(Queue, 200, "R", 0, 16), split, event(Start, 202, "R", 0, 8), event(Start, 203, "R", 8, 8)];
    let ends = [(204, 0), (205, 8)].map(|(us, sector)| event(Issue, us, "R", sector, 8));
    let done_at = [(304, 0), (405, 8)].map(|(us, sector)| event(Complete, us, "R", sector, 8));
    for event in before.iter().chain(&events).chain(&ends).chain(&done_at) {
        pairing.handle_event(event, &mut |request| done.push(request));
    }
    let reads: Vec<_> = done[1..].iter().map(|r| (r.sector, r.queued_ns, r.latency_ns())).collect();
    assert_eq!(reads, [(0, Some(200_000), 104_000), (8, Some(200_000), 205_000)]);
}

#[test]
fn devices_of_bios_have_a_beginning_and_an_end() {
    let (done, pairing) = paired(&[event(Queue, 0, "R", 8, 8), event(BioComplete, 50, "R", 8, 8)]);
    assert_eq!((done.len(), done[0].latency_ns(), done[0].issued_ns, done[0].depth), (1, 50_000, None, 0));
    assert_eq!(pairing.counts, PairingCounts::default());
    // the end of its second part stands for the whole
    let split = BlockEvent { other_sector: 16, ..event(Split, 1, "R", 8, 0) };
    let (done, _) = paired(&[event(Queue, 0, "R", 8, 32), split, event(BioComplete, 90, "R", 16, 24)]);
    assert_eq!((done.len(), done[0].sectors, done[0].latency_ns()), (1, 32, 90_000));
}

/// Device mapper passes a bio down from its own thread: the requesting thread stays the same.
#[test]
fn a_remapped_bio_keeps_its_requesting_thread() {
    let upper = (4095 << 20) | 9;
    let mut queued = event(Queue, 0, "W", 0, 8);
    (queued.device, queued.pid) = (upper, 7);
    let mut remap = event(Remap, 1, "W", 2048, 8);
    (remap.other_device, remap.other_sector, remap.pid) = (upper, 0, 99);
    let mut below = steps(2, "W", 2048, 8);
    below.iter_mut().for_each(|event| event.pid = 99);
    let mut end = event(BioComplete, 200, "W", 0, 8);
    end.device = upper;
    let (done, _) = paired(&[&[queued, remap][..], &below, &[end]].concat());
    assert_eq!(done.iter().map(|r| (r.device, r.pid)).collect::<Vec<_>>(), [(below[0].device, 7), (upper, 7)]);
}

/// A bio arrives at the disk and is remapped to a path, whose number the request carries.
#[test]
fn a_request_of_a_hidden_path_is_one_of_its_nvme_disk() {
    let root = std::env::temp_dir().join(format!("diskwright-pairs-{}", std::process::id()));
    let (disk, path) = ((4095 << 20) | 1, (4095 << 20) | 2);
    for (file, text) in [
        ("proc/diskstats", "4095 2 nvme0c0n1 1 0 8 1\n4095 1 nvme0n1 1 0 8 1\n"),
        ("sys/class/block/nvme0n1/dev", "4095:1\n"),
        ("sys/dev/block/4095:1/dev", "4095:1\n"),
    ] {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
    let mut pairing = RequestPairing::new(true, Some(std::collections::HashSet::from([disk])));
    pairing.names = BlockDeviceNames::from_root(&root);
    let mut events = steps(0, "R", 2048, 8).map(|event| BlockEvent { device: path, ..event }).to_vec();
    events[0].device = disk;
    let turned = event(Remap, 5, "R", 2048, 8);
    events.insert(1, BlockEvent { device: path, other_device: disk, other_sector: 2048, ..turned });
    let mut done: Vec<TracedRequest> = Vec::new();
    events.iter().for_each(|event| pairing.handle_event(event, &mut |request| done.push(request)));
    std::fs::remove_dir_all(root).expect("ours");
    let [request] = done[..] else { panic!("{done:?}") };
    assert_eq!((request.device, request.queue_ns(), request.latency_ns()), (disk, Some(10_000), 130_000));
    assert_eq!(pairing.counts, PairingCounts::default());
}

/// Times of two processors may differ a little: the end is seen before the issue.
#[test]
fn a_completion_that_is_ahead_of_its_issue_waits_for_it() {
    let events = [
        event(Start, 100, "R", 8, 8),
        event(Complete, 300, "R", 16, 8),
        event(Issue, 900, "R", 16, 8),
        event(Issue, 901, "R", 8, 8),
        event(Complete, 902, "R", 8, 8),
    ];
    let (done, pairing) = paired(&events);
    assert_eq!(done.iter().map(|r| (r.sector, r.latency_ns())).collect::<Vec<_>>(), [(16, 0), (8, 802_000)]);
    assert_eq!((pairing.counts.clock_back, pairing.counts.without_beginning), (1, 0));
    // one that comes much later is another request
    let late = [event(Complete, 300, "R", 16, 8), event(Issue, 5_000, "R", 16, 8)];
    let (done, pairing) = paired(&late);
    assert_eq!((done.len(), pairing.counts.without_beginning, pairing.unfinished_count()), (0, 1, 1));
}

/// A stall is seen before it ends.
#[test]
fn an_unfinished_request_is_reported_with_its_time_so_far() {
    let events = [event(Queue, 10, "R", 8, 8), event(Start, 20, "R", 8, 8), event(Issue, 30, "R", 8, 8)];
    let (_, pairing) = paired(&events);
    let open = pairing.unfinished_at(2_000_000_000);
    assert_eq!(open.iter().map(|r| (r.sector, r.latency_ns())).collect::<Vec<_>>(), [(8, 1_999_990_000)]);
    assert!(paired(&steps(0, "R", 8, 8)).1.unfinished_at(5).is_empty());
}

#[test]
fn requests_begun_before_the_trace_are_counted_and_left_out() {
    let events = [event(Complete, 5, "R", 8, 8), event(Queue, 5_000, "R", 800, 8)];
    let (done, pairing) = paired(&events);
    assert_eq!((done.len(), pairing.counts.without_beginning), (0, 1));
    let (done, pairing) = paired(&[event(Issue, 5, "R", 8, 8), event(Complete, 50, "R", 8, 8)]);
    assert_eq!((done.len(), done[0].latency_ns(), pairing.counts.without_start), (1, 45_000, 1));
    assert_eq!((done[0].queue_ns(), done[0].scheduler_ns()), (None, None));
}

#[test]
fn pass_through_and_zone_commands_are_counted_separately() {
    let (done, pairing) = paired(&steps(0, "N", 0, 0));
    assert_eq!((done.len(), pairing.counts.other_operations), (0, 4));
}

#[test]
fn only_named_disks_are_paired() {
    let device = event(Queue, 0, "R", 0, 8).device;
    for (disk, expected) in [(device, 1), (device + 1, 0)] {
        let mut pairing = RequestPairing::new(true, Some([disk].into()));
        let mut done = 0;
        steps(0, "R", 0, 8).iter().for_each(|event| pairing.handle_event(event, &mut |_| done += 1));
        assert_eq!(done, expected);
    }
}

/// Both ends of a request are at the same sector, so a sample by sector has complete requests.
#[test]
fn a_smaller_sample_drops_requests_that_will_not_end() {
    let (_, mut pairing) = paired(&[
        event(Start, 0, "R", 0, 8),
        event(Issue, 1, "R", 0, 8),
        event(Start, 2, "R", 256, 8),
        event(Issue, 3, "R", 256, 8),
    ]);
    pairing.forget_unsampled(256);
    assert_eq!(pairing.unfinished_count(), 1);
    let mut done = Vec::new();
    pairing.handle_event(&event(Issue, 4, "R", 512, 8), &mut |_| {});
    pairing.handle_event(&event(Complete, 5, "R", 512, 8), &mut |request| done.push(request));
    assert_eq!(done[0].depth, 2);
}

/// Any order of any events: nothing panics, and nothing is handed out twice.
#[test]
fn any_order_of_events_gives_no_more_requests_than_completions() {
    let mut state = 88_172_645_463_325_252u64;
    let mut roll = |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % sides as u64) as usize
    };
    let mut pairing = RequestPairing::new(true, None);
    let (mut done, mut completions) = (0, 0);
    for n in 0..200_000u64 {
        let kind = BlockEventKind::ALL[roll(BlockEventKind::ALL.len())];
        let letters = ["R", "W", "WS", "FWS", "FF", "D", "N"][roll(7)];
        let sector = [0, 8, 16, u64::MAX][roll(4)];
        let mut event = event(kind, n, letters, sector, [0, 8, 16, u32::MAX][roll(4)]);
        event.device += roll(2) as u32;
        (event.other_device, event.other_sector) = (event.device, roll(32) as u64);
        completions += u64::from(matches!(kind, Complete | BioComplete));
        pairing.handle_event(&event, &mut |_| done += 1);
    }
    assert!(done > 0 && done <= completions, "{done} of {completions}");
}
