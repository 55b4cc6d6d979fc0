//! Requests that LVM, md and partitions pass on: each counts once, at the last
//! device, in the kernel's records and in blkparse's text of them.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::*;
use diskwright_base::{Operation, Request};
use diskwright_traces::{LogInput, PassedOn, Trace, TraceSummary, from_inputs};

const fn device(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

const VOLUME: u32 = device(253, 0);
const ARRAY: u32 = device(9, 0);
const DISK: u32 = device(8, 0);
const OTHER_DISK: u32 = device(8, 16);
const PARTITION: u32 = device(8, 2);

/// An event of a request of 8 sectors; a remap has its source.
#[derive(Clone, Copy)]
struct Step {
    time_ns: u64,
    action: u64,
    category: u64,
    device: u32,
    sector: u64,
    from: Option<(u32, u64)>,
}

fn step(time_ns: u64, action: u64, category: u64, device: u32, sector: u64) -> Step {
    Step { time_ns, action, category, device, sector, from: None }
}

fn remap(time_ns: u64, category: u64, to: (u32, u64), from: (u32, u64)) -> Step {
    Step { from: Some(from), ..step(time_ns, A, category, to.0, to.1) }
}

/// Encodes the steps as the kernel's records, which contain the traced disk and never its partition.
fn to_records(steps: &[Step], traced: impl Fn(u32) -> u32) -> Vec<u8> {
    let one = |step: &Step| {
        let behind = step.from.map_or_else(Vec::new, |(source, sector)| {
            [&source.to_be_bytes()[..], &step.device.to_be_bytes(), &sector.to_be_bytes()].concat()
        });
        let entry = event(step.time_ns, step.action, step.category, step.sector, 8);
        DEFAULT_FORMAT.encode_record(&Entry { device: traced(step.device), behind: &behind, ..entry })
    };
    steps.iter().flat_map(one).collect()
}

/// Formats the steps as blkparse's text.
fn to_blkparse_text(steps: &[Step], named: impl Fn(u32) -> u32) -> Vec<u8> {
    let pair = |device: u32| format!("{},{}", device >> 20, device & 0xf_ffff);
    let mut out = String::new();
    for (index, step) in steps.iter().enumerate() {
        let letter = match step.action {
            Q => 'Q',
            A => 'A',
            D => 'D',
            C => 'C',
            M => 'M',
            X => 'X',
            other => panic!("{other}"),
        };
        let kind = if step.category & READ != 0 { "R" } else { "WS" };
        let behind = match step.from {
            Some((source, sector)) => format!("<- ({}) {sector}", pair(source)),
            None => "[fio]".into(),
        };
        let (seconds, ns) = (step.time_ns / 1_000_000_000, step.time_ns % 1_000_000_000);
        let device = pair(named(step.device));
        out += &format!(
            "{device:>6} 0 {index:8} {seconds:5}.{ns:09} 1606 {letter:>2} {kind:>3} {} + 8 {behind}\n",
            step.sector
        );
    }
    out.into_bytes()
}

/// Returns the disk of a partition.
fn disk_of(device: u32) -> u32 {
    if device == PARTITION { DISK } else { device }
}

fn open_traces(bytes: Vec<u8>) -> Trace {
    from_inputs(vec![LogInput::from_bytes("t.trace", bytes).expect("opens")]).expect("recognised")
}

fn read_all_requests(mut trace: Trace) -> (Vec<Request>, TraceSummary) {
    let requests = trace.by_ref().map(|request| request.expect("memory is readable")).collect();
    (requests, trace.summary())
}

/// Counts the requests of each device.
fn count_by_device(requests: &[Request], summary: &TraceSummary) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(summary.devices[usize::from(request.device)].clone()).or_insert(0) += 1;
    }
    counts
}

fn counts(named: &[(&str, usize)]) -> BTreeMap<String, usize> {
    named.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn passed_on(device: &str, requests: u64) -> Vec<PassedOn> {
    vec![PassedOn { device: device.into(), requests }]
}

/// Steps of requests to a volume on a partition of a disk; with `upper` also the volume's own events.
fn volume_steps(count: u64, upper: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for i in 0..count {
        let (time, requested) = (i * 1000, i * 64);
        let (turned, placed) = (requested + 2048, requested + 4096);
        let category = if i % 3 == 0 { WRITE } else { READ };
        let own = [
            step(time, Q, category, VOLUME, requested),
            remap(time + 1, category, (PARTITION, turned), (VOLUME, requested)),
            remap(time + 2, category, (DISK, placed), (PARTITION, turned)),
            step(time + 3, Q, category, DISK, placed),
            step(time + 9, D, category, DISK, placed),
            step(time + 700, C, category, DISK, placed),
            step(time + 710, C, category, VOLUME, requested),
        ];
        steps.extend(own.into_iter().filter(|step| upper || step.device != VOLUME));
    }
    steps
}

#[test]
fn a_volume_on_a_partition_counts_once_at_the_disk() {
    for upper in [true, false] {
        let steps = volume_steps(113, upper);
        let forms = [
            ("records", to_records(&steps, disk_of)),
            ("text that names the partition", to_blkparse_text(&steps, |device| device)),
            ("text that names the disk", to_blkparse_text(&steps, disk_of)),
        ];
        for (form, bytes) in forms {
            let (requests, summary) = read_all_requests(open_traces(bytes));
            assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 113)]), "{form}, volume traced: {upper}");
            assert_eq!(summary.devices, ["8,0"], "{form}");
            assert_eq!(summary.passed_on, if upper { passed_on("253,0", 113) } else { vec![] }, "{form}");
            assert_eq!((summary.unfinished, summary.without_arrival, summary.out_of_order), (0, 0, 0), "{form}");
            assert!(summary.skipped.is_empty(), "{form}: {summary:?}");
            // from the disk's Q to the disk's C
            let times = |r: &Request| (r.queue_ns(), r.response_ns());
            assert!(requests.iter().all(|r| times(r) == (Some(6), Some(697))), "{form}");
            assert_eq!(requests[5].offset_bytes, (5 * 64 + 4096) * 512, "{form}");
        }
    }
}

#[test]
fn every_layer_has_the_requests_of_each_device() {
    let steps = volume_steps(20, true);
    for bytes in
        [to_records(&steps, disk_of), to_blkparse_text(&steps, |device| device), to_blkparse_text(&steps, disk_of)]
    {
        let (requests, summary) = read_all_requests(open_traces(bytes).with_every_layer());
        assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 20), ("253,0", 20)]));
        assert_eq!((summary.unfinished, summary.passed_on), (0, passed_on("253,0", 20)));
        let upper = requests.iter().filter(|r| summary.devices[usize::from(r.device)] == "253,0");
        assert!(upper.clone().all(|r| r.response_ns() == Some(710) && r.issue_time_ns().is_none()));
    }
}

/// A mirrored write is two requests of disks; a read served by one member is one.
#[test]
fn an_array_counts_at_its_members() {
    let mut steps = Vec::new();
    for i in 0..30_u64 {
        let (time, requested, placed) = (i * 1000, i * 8, i * 8 + 2048);
        let (category, members) = if i < 10 { (WRITE, &[DISK, OTHER_DISK][..]) } else { (READ, &[OTHER_DISK][..]) };
        steps.push(step(time, Q, category, ARRAY, requested));
        for member in members {
            steps.push(remap(time + 1, category, (*member, placed), (ARRAY, requested)));
            steps.push(step(time + 2, Q, category, *member, placed));
            steps.push(step(time + 3, D, category, *member, placed));
        }
        steps.extend(members.iter().map(|member| step(time + 50, C, category, *member, placed)));
        steps.push(step(time + 60, C, category, ARRAY, requested));
    }
    for bytes in [to_records(&steps, disk_of), to_blkparse_text(&steps, |device| device)] {
        let (requests, summary) = read_all_requests(open_traces(bytes));
        assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 10), ("8,16", 30)]));
        assert_eq!(summary.passed_on, passed_on("9,0", 30));
        let writes = requests.iter().filter(|r| r.operation == Operation::Write).count();
        assert_eq!((writes, summary.unfinished), (20, 0));
    }
}

/// A stripe passes requests on unchanged: no Q at the member, no C at the array.
#[test]
fn a_request_passed_on_whole_needs_no_second_queue_event() {
    let mut steps = Vec::new();
    for i in 0..50_u64 {
        let (time, requested, placed) = (i * 1000, i * 8, i * 4 + 4096);
        let member = [DISK, OTHER_DISK][(i % 2) as usize];
        steps.push(step(time, Q, READ, ARRAY, requested));
        steps.push(remap(time + 1, READ, (member, placed), (ARRAY, requested)));
        steps.push(step(time + 3, D, READ, member, placed));
        steps.push(step(time + 90, C, READ, member, placed));
    }
    for bytes in [to_records(&steps, disk_of), to_blkparse_text(&steps, |device| device)] {
        let (requests, summary) = read_all_requests(open_traces(bytes));
        assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 25), ("8,16", 25)]));
        assert_eq!((summary.unfinished, summary.passed_on), (0, passed_on("9,0", 50)));
        assert!(requests.iter().all(|r| r.response_ns() == Some(89)));
    }
}

/// A volume of two disks, of which one is not traced: requests to that one count at the volume.
#[test]
fn requests_to_an_untraced_disk_count_at_the_volume() {
    let steps: Vec<Step> = (0..40_u64)
        .flat_map(|i| {
            let (time, requested, placed) = (i * 1000, i * 16, i * 16 + 4096);
            let below = [
                remap(time + 1, READ, (DISK, placed), (VOLUME, requested)),
                step(time + 2, Q, READ, DISK, placed),
                step(time + 3, D, READ, DISK, placed),
                step(time + 90, C, READ, DISK, placed),
            ];
            let below = below.into_iter().filter(move |_| i % 4 != 0);
            [step(time, Q, READ, VOLUME, requested)].into_iter().chain(below).chain([step(
                time + 95,
                C,
                READ,
                VOLUME,
                requested,
            )])
        })
        .collect();
    for bytes in [to_records(&steps, disk_of), to_blkparse_text(&steps, |device| device)] {
        let (requests, summary) = read_all_requests(open_traces(bytes));
        assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 30), ("253,0", 10)]));
        assert_eq!((requests.len(), summary.passed_on), (40, passed_on("253,0", 30)));
    }
}

/// The trace of one partition: its records have the partition's number and the disk's
/// sectors, and only remaps contain the disk's number. Sequential, so that sectors of the
/// partition soon equal sectors of the disk.
#[test]
fn the_trace_of_a_partition_keeps_its_requests() {
    let mut steps = Vec::new();
    for i in 0..200_u64 {
        let (time, requested) = (i * 100, i * 8);
        steps.push(remap(time, READ, (DISK, requested + 32), (PARTITION, requested)));
        steps.push(step(time + 1, Q, READ, PARTITION, requested + 32));
        steps.push(step(time + 3, D, READ, PARTITION, requested + 32));
    }
    let done = (0..200).map(|i| step(i * 100 + 650, C, READ, PARTITION, i * 8 + 32));
    steps.extend(done);
    steps.sort_by_key(|step| step.time_ns);
    for bytes in [
        to_records(&steps, |_| PARTITION),
        to_blkparse_text(&steps, |device| device),
        to_blkparse_text(&steps, |_| PARTITION),
    ] {
        let (requests, summary) = read_all_requests(open_traces(bytes));
        assert_eq!(count_by_device(&requests, &summary), counts(&[("8,2", 200)]));
        assert_eq!((summary.unfinished, summary.passed_on), (0, vec![]));
    }
}

#[test]
fn flushes_are_passed_on_too() {
    let nowhere = 0;
    let flush = |time_ns, action, device| {
        let category = WRITE | FLUSH;
        let behind: Vec<u8> = match action {
            A => [VOLUME.to_be_bytes(), DISK.to_be_bytes(), [0; 4], [0; 4]].concat(),
            _ => Vec::new(),
        };
        let entry = Entry { bytes: 0, device, ..event(time_ns, action, category, nowhere, 0) };
        DEFAULT_FORMAT.encode_record(&Entry { behind: &behind, ..entry })
    };
    let actions = [(0, Q, VOLUME), (1, A, DISK), (2, Q, DISK), (3, D, DISK), (90, C, DISK), (95, C, VOLUME)];
    let bytes: Vec<u8> = actions.into_iter().flat_map(|(time, action, device)| flush(time, action, device)).collect();
    let (requests, summary) = read_all_requests(open_traces(bytes));
    assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 1)]));
    assert_eq!((requests[0].response_ns(), summary.passed_on), (Some(88), passed_on("253,0", 1)));
    // `FWS 0 + 0 <- (253,0) 0` of blkparse
    let line =
        |ns: u32, device: &str, action: &str, rest: &str| format!("{device} 0 1 0.{ns:09} 1 {action} FWS {rest}\n");
    let text = [
        line(0, "253,0", "Q", "[x]"),
        line(1, "8,2", "A", "0 + 0 <- (253,0) 0"),
        line(2, "8,0", "A", "0 + 0 <- (8,2) 0"),
        line(3, "8,0", "Q", "[x]"),
        line(4, "8,0", "D", "[x]"),
        line(90, "8,0", "C", "0 [0]"),
        line(95, "253,0", "C", "0 [0]"),
    ];
    let (requests, summary) = read_all_requests(open_traces(text.concat().into_bytes()));
    assert_eq!(count_by_device(&requests, &summary), counts(&[("8,0", 1)]));
    assert_eq!(summary.passed_on, passed_on("253,0", 1));
}

#[test]
fn a_remap_that_nothing_follows_is_no_request() {
    let mut steps = volume_steps(3, true);
    steps.push(remap(9000, READ, (DISK, 999_000), (VOLUME, 5)));
    let (requests, summary) = read_all_requests(open_traces(to_records(&steps, disk_of)));
    assert_eq!((requests.len(), summary.unfinished), (3, 0));
}

/// Merges, splits and requeues on a disk below a volume.
fn eventful_steps() -> Vec<Step> {
    let mut steps = volume_steps(40, true);
    let time = 100_000;
    let disk = |after: u64, action: u64, sector: u64| step(time + after, action, WRITE, DISK, sector);
    steps.extend([
        // two that merge and are issued as two: blkparse counts queued requests
        disk(0, Q, 90_000),
        disk(1, Q, 90_008),
        disk(2, M, 90_008),
        disk(5, D, 90_000),
        disk(6, D, 90_008),
        disk(7, R, 90_000),
        disk(8, D, 90_000),
        disk(20, C, 90_008),
        disk(30, C, 90_000),
    ]);
    steps
}

/// Comparison with blkparse's totals of queued and completed requests, if it is installed.
#[test]
fn blkparse_counts_as_many() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("remaps");
    std::fs::create_dir_all(&folder).expect("a folder");
    let steps = eventful_steps();
    let bytes = to_records(&steps, disk_of);
    std::fs::write(folder.join("own.blktrace.0"), &bytes).expect("written");
    let run = Command::new("blkparse").args(["-i", "own"]).current_dir(&folder).output();
    let Ok(done) = run else { return println!("skipped: no blkparse") };
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    let queued = |word: &str| -> u64 {
        let line = output.lines().rev().find(|line| line.contains("Reads Queued")).expect("a summary");
        let (_, behind) = line.split_once(word).expect(word);
        let digits: String = behind.trim_start_matches(':').trim().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    let (all, _) = read_all_requests(open_traces(bytes).with_every_layer());
    let of = |operation| all.iter().filter(|r| r.operation == operation).count() as u64;
    let ours = (of(Operation::Read), of(Operation::Write));
    assert_eq!(ours, (queued("Reads Queued"), queued("Writes Queued")), "{output}");
    // its text gives the same requests as the records
    let (from_text, summary) = read_all_requests(open_traces(output.clone().into_bytes()));
    let (from_records, _) = read_all_requests(open_traces(to_records(&steps, disk_of)));
    assert_eq!(count_by_device(&from_text, &summary), counts(&[("8,0", 42)]), "{output}");
    assert_eq!(from_text.len(), from_records.len());
}
