//! The documented loads: shares checked against their sources, requests calculated by hand.

use std::collections::BTreeSet;

use super::*;

const MS: Ns = 1_000_000;
/// 512 MiB each.
const TARGETS: [u64; 2] = [1 << 20, 1 << 20];

fn build_load(spec: LoadSpec) -> Load {
    Load::new(&spec, &TARGETS, Rng::new(11, 0)).unwrap()
}

fn assert_refused(spec: LoadSpec, item: &str) {
    let error = Load::new(&spec, &TARGETS, Rng::new(1, 1)).map(|_| ()).unwrap_err();
    assert_eq!(error.item, item, "{error}");
}

#[test]
fn netbench_issues_requests_in_the_shares_of_its_source() {
    let spec = NetbenchSpec { clients: 8, most_operations: Some(400_000), ..NetbenchSpec::default() };
    let mut mix = build_load(LoadSpec::Netbench(spec));
    let issued = run_load(&mut mix, Ns::MAX, |_| 1000);
    assert!(mix.is_finished() && issued.len() == 400_000);
    let begun: Vec<f64> = mix.operations().iter().map(|class| class.totals.begun as f64).collect();
    // the capture has 64,170 reads, 12,100 writes, and 3,781 changes of directories
    let all = 64_170.0 + 12_100.0 + 3_781.0;
    let near = |found: f64, expected: f64, label: &str| {
        assert!((found / expected - 1.0).abs() < 0.02, "{label}: {found} for {expected}");
    };
    for (found, (count, label)) in begun.iter().zip([(64_170.0, "read"), (12_100.0, "write"), (3_781.0, "directory")]) {
        near(found / 400_000.0, count / all, label);
    }
    let bytes = |class: usize| mix.operations()[class].totals.bytes as f64 / begun[class];
    // 209,973,248 bytes read and 117,575,168 written, whole blocks
    near(bytes(0), 209_973_248.0 / 64_170.0, "mean read");
    near(bytes(1), 117_575_168.0 / 12_100.0, "mean write");
    let data = |write: bool| issued.iter().filter(move |(_, request)| request.io.write == write);
    let small = data(false).filter(|(_, request)| request.io.blocks == 1).count() as f64;
    near(small / begun[0], 40_970.0 / 64_170.0, "smallest reads");
    let through = data(true).filter(|(_, request)| !request.cached).count() as f64;
    near(through / begun[1], 598.0 / 12_100.0, "flushed");
    assert!(data(false).all(|(_, request)| request.cached));
}

#[test]
fn netbench_clients_stay_in_their_workspaces_and_touched_pages() {
    let spec = NetbenchSpec { clients: 4, most_operations: Some(200_000), ..NetbenchSpec::default() };
    let issued = run_load(&mut build_load(LoadSpec::Netbench(spec)), Ns::MAX, |_| 1000);
    let (workspace, spaces) = (15u64 << 11, 4 * 8u64);
    let (mut pages, mut follows, mut reads) = (BTreeSet::new(), 0.0, 0.0);
    let mut last = [0; 4];
    for (_, request) in &issued {
        if request.io.write && request.io.first < spaces {
            assert_eq!((request.io.first, request.io.blocks), (u64::from(request.agent) * 8, 8));
            continue;
        }
        let base = spaces + u64::from(request.agent) * workspace;
        assert!(request.io.first >= base && request.io.end() <= base + workspace, "{request:?}");
        if !request.io.write {
            reads += 1.0;
            follows += if last[request.agent as usize] == request.io.first { 1.0 } else { 0.0 };
        }
        if request.agent == 0 && last[0] != request.io.first {
            pages.insert((request.io.first - base) / 8);
        }
        last[request.agent as usize] = request.io.end();
    }
    // requests that do not follow their forerunner begin on one of 1786 pages, most of which are seen
    assert!(pages.len() > 1200 && pages.len() <= 1786, "{}", pages.len());
    assert!(pages.iter().all(|page| *page < 1786));
    let share: f64 = follows / reads;
    assert!((share - 0.513).abs() < 0.01, "{share}");
    assert_refused(LoadSpec::Netbench(NetbenchSpec { clients: 0, ..NetbenchSpec::default() }), "clients");
    assert_refused(LoadSpec::Netbench(NetbenchSpec { clients: 40, ..NetbenchSpec::default() }), "clients");
    assert_refused(LoadSpec::Netbench(NetbenchSpec { target: 2, ..NetbenchSpec::default() }), "target");
    assert_refused(
        LoadSpec::Netbench(NetbenchSpec { workspace_bytes: 1 << 20, ..NetbenchSpec::default() }),
        "workspace_bytes",
    );
}

/// 1 MiB of 8192 records in memory for 256 KiB: four runs; seven buffers of 32 KiB.
fn small_sort() -> SortSpec {
    SortSpec {
        data_bytes: 1 << 20,
        record_bytes: 128,
        key_bytes: 0,
        memory_factor: 1.0,
        memory_bytes: 256 << 10,
        merge_bytes: 32 << 10,
        ..SortSpec::default()
    }
}

fn run_sort(spec: SortSpec, service: Ns) -> (Load, IssuedRequests) {
    let mut sort = build_load(LoadSpec::Sort(spec));
    let issued = run_load(&mut sort, Ns::MAX, |_| service);
    assert!(sort.is_finished() && sort.operations()[0].totals.done == 1);
    (sort, issued)
}

/// Returns the blocks read or written in a range, in order.
fn sorted_blocks(issued: &IssuedRequests, write: bool, from: u64, to: u64) -> Vec<u64> {
    let of =
        issued.iter().map(|(_, request)| request.io).filter(|io| io.write == write && (from..to).contains(&io.first));
    let mut all: Vec<u64> = of.flat_map(|io| io.first..io.end()).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_sort_of_one_merge_agrees_with_hand_calculation() {
    let (sort, issued) = run_sort(small_sort(), 0);
    // 16 reads of input, 16 writes of runs, 32 reads of them in halves, 16 writes of output
    let totals = sort.operations()[0].totals;
    assert_eq!((issued.len(), totals.requests, totals.bytes), (80, 80, 4 << 20));
    // four runs of 2048 records: 11 comparisons each; a merge of four: 2 each; every record moved twice, 1 us each
    let seconds = 1e-6 * (8192.0 * 11.0 + 8192.0 * 2.0 + 2.0 * 8192.0);
    assert!((totals.mean_response_s() / seconds - 1.0).abs() < 1e-6, "{} {seconds}", totals.mean_response_s());
    let spans: Vec<&str> = sort.operations()[0].spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(spans, ["runs", "merge 1"]);
    // input in the first quarter, work from there, output in the last
    let (quarter, all) = (1u64 << 18, 1 << 20);
    let first = |from: u64| (from..from + 2048).collect::<Vec<u64>>();
    assert_eq!(sorted_blocks(&issued, false, 0, quarter), first(0));
    assert_eq!(sorted_blocks(&issued, true, quarter, 3 * quarter), first(quarter));
    assert_eq!(sorted_blocks(&issued, false, quarter, 3 * quarter), first(quarter));
    assert_eq!(sorted_blocks(&issued, true, 3 * quarter, all), first(3 * quarter));
    // merging reads all four runs in turns
    let merged: BTreeSet<u64> =
        issued[32..36].iter().map(|(_, request)| (request.io.first.max(quarter) - quarter) / 512).collect();
    assert!(merged.len() >= 3, "{merged:?}");
}

#[test]
fn a_sort_in_memory_is_one_pass() {
    let (sort, issued) = run_sort(SortSpec { memory_bytes: 1 << 20, ..small_sort() }, MS);
    assert_eq!(issued.len(), 32);
    assert_eq!(sort.operations()[0].spans[0].name, "in memory");
    // one after the other: 32 requests, 8192 records moved, 13 comparisons each
    let seconds = 0.032 + 1e-6 * 8192.0 * 14.0;
    assert!((sort.operations()[0].totals.mean_response_s() / seconds - 1.0).abs() < 1e-6);
    // SAS 1998's formula: with keys of 32 bytes and a tenth more it does not fit
    let (_, issued) =
        run_sort(SortSpec { memory_bytes: 1 << 20, key_bytes: 32, memory_factor: 1.1, ..small_sort() }, 0);
    assert!(issued.len() > 32);
}

#[test]
fn sorts_of_two_and_three_passes_agree_with_hand_calculation() {
    // three buffers to read: three runs are merged, the fourth waits for the second pass
    let (sort, issued) = run_sort(SortSpec { merge_bytes: 64 << 10, ..small_sort() }, 0);
    assert_eq!(issued.len(), 16 + 16 + 2 * 12 + 2 * 16);
    assert_eq!(sort.operations()[0].spans.len(), 3);
    let (_, issued) = run_sort(SortSpec { memory_bytes: 64 << 10, merge_bytes: 16 << 10, ..small_sort() }, 0);
    // 16 runs, three at a time: 16 (the last stays) to 6, 2, 1: three passes, reads in quarters
    // the one left alone is not copied: 15/16 of all in the first pass
    assert_eq!(issued.len(), 16 + 16 + (60 + 15) + (64 + 16) + (64 + 16));
}

#[test]
fn a_window_lets_reading_writing_and_computing_overlap() {
    let time = |window| run_sort(SortSpec { window, ..small_sort() }, MS).0.operations()[0].totals.mean_response_s();
    let (one, two, four) = (time(1), time(2), time(4));
    // 80 ms of requests, 122.88 ms of computing: one after the other, then side by side
    assert!((one - 0.20288).abs() < 1e-9, "{one}");
    assert!(two < 0.165 && four < two && four > 0.12288, "{two} {four}");
    let more = run_sort(SortSpec { processors: 2, ..small_sort() }, 0).0.operations()[0].totals.mean_response_s();
    // two processors halve the comparisons of the runs, nothing else
    assert!((more - (0.12288 - 0.5 * 8192.0 * 11e-6)).abs() < 1e-9, "{more}");
}

#[test]
fn impossible_sorts_are_refused() {
    let refuse = |spec: SortSpec, item: &str| assert_refused(LoadSpec::Sort(spec), item);
    refuse(SortSpec { data_bytes: 0, ..small_sort() }, "data_bytes");
    refuse(SortSpec { record_bytes: 0, ..small_sort() }, "record_bytes");
    refuse(SortSpec { memory_bytes: 1024, ..small_sort() }, "memory_bytes");
    refuse(SortSpec { merge_bytes: 128 << 10, ..small_sort() }, "merge_bytes");
    refuse(SortSpec { io_bytes: 1000, ..small_sort() }, "io_bytes");
    refuse(SortSpec { data_bytes: 1 << 40, ..small_sort() }, "memory_bytes");
    refuse(SortSpec { data_bytes: 1 << 30, memory_bytes: 1 << 20, ..small_sort() }, "input");
    refuse(SortSpec { compare_s: f64::NAN, ..small_sort() }, "compare_s");
    refuse(SortSpec { window: 0, ..small_sort() }, "window");
    refuse(SortSpec { memory_factor: 0.0, ..small_sort() }, "memory_factor");
    let nowhere = Region { target: 9, part: TargetPart::All };
    refuse(SortSpec { work: nowhere, ..small_sort() }, "work");
    let small = Region { target: 1, part: TargetPart::Bytes { from: 0, bytes: 1 << 20 } };
    // two passes want two halves
    refuse(SortSpec { work: small, merge_bytes: 64 << 10, ..small_sort() }, "work");
    run_sort(SortSpec { work: small, ..small_sort() }, 0);
}

/// A query of 100 extents.
fn small_scan() -> ScanSpec {
    ScanSpec {
        query_bytes: 6_553_600,
        ahead: 1,
        compute: DurationDistribution::Constant { s: 0.002 },
        most_operations: Some(1),
        ..ScanSpec::default()
    }
}

#[test]
fn a_scan_reads_ahead_of_the_processor() {
    let time = |spec: ScanSpec| {
        let mut scan = build_load(LoadSpec::Scan(spec));
        let issued = run_load(&mut scan, Ns::MAX, |_| MS);
        assert!(scan.is_finished() && issued.len() == 100);
        scan.operations()[0].totals.total_response_ns as u64
    };
    // the first is waited for, then the processor is the slower one
    assert_eq!(time(small_scan()), MS + 100 * 2 * MS);
    assert_eq!(time(ScanSpec { degree: 2, ..small_scan() }), MS + 50 * 2 * MS);
    // a query waits for a thread, and takes as many as there are
    assert_eq!(time(ScanSpec { degree: 4, workers: 2, ..small_scan() }), MS + 50 * 2 * MS);
    // without computing one read ahead is all there is
    assert_eq!(time(ScanSpec { compute: DurationDistribution::NONE, ..small_scan() }), 100 * MS);
    assert_eq!(time(ScanSpec { compute: DurationDistribution::NONE, ahead: 10, ..small_scan() }), 10 * MS);
}

#[test]
fn a_scan_reads_each_extent_once_and_limits_reads_in_flight() {
    let file = |target| Region { target, part: TargetPart::All };
    let files = vec![file(0), file(1)];
    let mut scan = build_load(LoadSpec::Scan(ScanSpec { files, degree: 3, ..small_scan() }));
    let issued = run_load(&mut scan, Ns::MAX, |_| MS);
    // extents go round the two files
    let mut extents: Vec<u64> =
        issued.iter().map(|(_, request)| request.io.first / 128 * 2 + u64::from(request.target)).collect();
    extents.sort_unstable();
    assert!(extents.windows(2).all(|pair| pair[1] == pair[0] + 1) && extents.len() == 100);
    assert!(issued.iter().all(|(_, request)| request.io.blocks == 128 && request.io.first % 128 == 0));
    // four users' threads want 64 each; at most 32 are out at a moment, and never fewer while they want
    let spec =
        ScanSpec { users: 4, ahead: 64, most_operations: None, compute: DurationDistribution::NONE, ..small_scan() };
    let issued = run_load(&mut build_load(LoadSpec::Scan(spec)), 1000 * MS, |_| MS);
    for moment in 0..900 {
        let out = issued.iter().filter(|(time, _)| *time == moment * MS).count();
        assert!(out <= 32, "{moment}: {out}");
    }
    assert!(issued.len() > 30_000, "{}", issued.len());
    assert_refused(LoadSpec::Scan(ScanSpec { files: vec![], ..small_scan() }), "files");
    assert_refused(LoadSpec::Scan(ScanSpec { query_bytes: 1 << 40, ..small_scan() }), "query_bytes");
    assert_refused(LoadSpec::Scan(ScanSpec { degree: 0, ..small_scan() }), "degree");
    assert_refused(LoadSpec::Scan(ScanSpec { extent_bytes: 100, ..small_scan() }), "extent_bytes");
}

#[test]
fn a_transaction_reads_its_pages_and_waits_for_the_log() {
    let spec = OltpSpec { pages: 4, hit_share: 0.0, changed: 1, most_operations: Some(100), ..OltpSpec::default() };
    let mut oltp = build_load(LoadSpec::Oltp(OltpSpec { checkpoint_s: 0.0, ..spec.clone() }));
    let issued = run_load(&mut oltp, Ns::MAX, |_| MS);
    let totals = oltp.operations()[0].totals;
    assert!(oltp.is_finished());
    // few pages are dirty, so that hardly one must give way
    let lazy = issued.len() - 500;
    assert!((1..10).contains(&lazy), "{lazy}");
    assert_eq!((totals.done, totals.total_response_ns), (100, 100 * u128::from(5 * MS)));
    let log: Vec<Io> =
        issued.iter().filter(|(_, request)| request.io.blocks == 2).map(|(_, request)| request.io).collect();
    assert!(log.len() == 100 && log.windows(2).all(|pair| pair[1].first == pair[0].end()));
    // nothing changed: nothing logged
    let mut oltp = build_load(LoadSpec::Oltp(OltpSpec { changed: 0, hit_share: 0.5, ..spec }));
    let issued = run_load(&mut oltp, Ns::MAX, |_| MS);
    assert!(issued.iter().all(|(_, request)| !request.io.write) && (issued.len() as f64 / 200.0 - 1.0).abs() < 0.15);
}

#[test]
fn commits_share_log_writes_and_checkpoints_write_each_dirty_page_once() {
    let spec = OltpSpec {
        users: 100,
        think: DurationDistribution::Exponential { mean_s: 0.05 },
        hit_share: 1.0,
        changed: 1,
        checkpoint_s: 0.5,
        compute: DurationDistribution::Exponential { mean_s: 0.001 },
        ..OltpSpec::default()
    };
    let mut oltp = build_load(LoadSpec::Oltp(spec.clone()));
    let issued = run_load(&mut oltp, 4000 * MS, |_| 10 * MS);
    let log = issued.iter().filter(|(_, request)| request.agent == 100).count() as f64;
    let done = oltp.operations()[0].totals.done as f64;
    assert!(done / log > 10.0, "{done} in {log}");
    // at most 60 KB: 60 commits of 1 KiB
    assert!(issued.iter().all(|(_, request)| request.agent != 100 || request.io.blocks <= 120));
    let sweeps: Vec<&(Ns, LoadRequest)> = issued.iter().filter(|(_, request)| request.agent == 102).collect();
    assert!(oltp.operations()[1].totals.done >= 2 && sweeps.iter().all(|(_, request)| request.io.blocks == 16));
    let out = |time: Ns| sweeps.iter().filter(|(from, _)| (*from..from + 10 * MS).contains(&time)).count();
    assert!((0..400).all(|ten| out(ten * 10 * MS) <= 32));
    // the first sweep goes up through the database
    let first: Vec<u64> = sweeps.iter().take(100).map(|(_, request)| request.io.first).collect();
    assert!(first.is_sorted() && first.iter().collect::<BTreeSet<_>>().len() == 100);
    assert_refused(LoadSpec::Oltp(OltpSpec { pages: 0, ..spec.clone() }), "pages");
    assert_refused(LoadSpec::Oltp(OltpSpec { changed: 11, ..spec.clone() }), "changed");
    assert_refused(LoadSpec::Oltp(OltpSpec { hit_share: 1.5, ..spec.clone() }), "hit_share");
    assert_refused(LoadSpec::Oltp(OltpSpec { log_bytes: 100_000, ..spec.clone() }), "log_bytes");
    assert_refused(LoadSpec::Oltp(OltpSpec { data: Region { target: 3, part: TargetPart::All }, ..spec }), "data");
}

fn recorded_request(arrival_ns: Ns, pause: Ns, first: u64, write: bool) -> TraceRequest {
    TraceRequest { arrival_ns, pause_ns: pause, first_block: first, blocks: 8, target: 0, write }
}

#[test]
fn a_trace_is_replayed_at_its_times_or_one_after_the_other() {
    let requests: std::sync::Arc<[TraceRequest]> =
        [recorded_request(0, 0, 0, false), recorded_request(100, 40, 8, true), recorded_request(130, 70, 16, false)]
            .into();
    let spec = |timing| TraceSpec { requests: requests.clone(), timing, fold: false, cached: false };
    let run = |timing| {
        let mut trace = build_load(LoadSpec::Trace(spec(timing)));
        let issued = run_load(&mut trace, Ns::MAX, |_| 60);
        assert!(trace.is_finished() && trace.operations().iter().map(|class| class.totals.done).sum::<u64>() == 3);
        issued.iter().map(|(time, _)| *time).collect::<Vec<Ns>>()
    };
    assert_eq!(run(Timing::Open { scale: 1.0 }), [0, 100, 130]);
    assert_eq!(run(Timing::Open { scale: 0.5 }), [0, 50, 65]);
    assert_eq!(run(Timing::Closed { depth: 1, scale: 1.0 }), [0, 100, 230]);
    assert_eq!(run(Timing::Closed { depth: 1, scale: 0.0 }), [0, 60, 120]);
    assert_eq!(run(Timing::Closed { depth: 2, scale: 0.0 }), [0, 0, 60]);
    assert_refused(LoadSpec::Trace(spec(Timing::Open { scale: -1.0 })), "scale");
    assert_refused(LoadSpec::Trace(spec(Timing::Closed { depth: 0, scale: 1.0 })), "depth");
    let far = [recorded_request(5, 0, (1 << 20) - 7, false)];
    let beyond = TraceSpec { requests: far.into(), ..spec(Timing::Open { scale: 1.0 }) };
    assert_refused(LoadSpec::Trace(beyond.clone()), "requests");
    let issued = run_load(&mut build_load(LoadSpec::Trace(TraceSpec { fold: true, ..beyond })), Ns::MAX, |_| 1);
    assert_eq!(issued[0].1.io, Io::read(0, 8));
}

#[test]
fn imported_requests_become_trace_requests() {
    use diskwright_base::{Operation, Request};
    let mut read = Request::new(1_000, 0, Operation::Read, 1024, 700);
    read.completion_ns = 1_500;
    let flush = Request::new(1_600, 0, Operation::Flush, 0, 0);
    let write = Request::new(1_800, 1, Operation::Write, 512, 512);
    let (found, left_out) = TraceSpec::from_requests([read, flush, write]);
    assert_eq!(left_out, 1);
    // 700 bytes from 1024 on touch blocks 2 and 3
    assert_eq!(
        found[0],
        TraceRequest { arrival_ns: 0, pause_ns: 0, first_block: 2, blocks: 2, target: 0, write: false }
    );
    assert_eq!(
        found[1],
        TraceRequest { arrival_ns: 800, pause_ns: 300, first_block: 1, blocks: 1, target: 1, write: true }
    );
}
