//! Comparison of our figures with those of `blkparse` and `btt`, if these are
//! installed, on our fixture and (as root, on request) on a fresh trace of this
//! kernel:
//!
//!     cargo test -p diskwright-traces --test peers -- --ignored --nocapture

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use diskwright_base::{Histogram, Request};
use diskwright_traces::open;

/// Runs a program in a folder; returns its output, or the reason of the failure.
fn run_program(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(program).args(arguments).current_dir(folder).output();
    let done = done.map_err(|e| format!("{program}: {e}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{program}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr)))
}

/// Parses minimum, mean, maximum (seconds) and count of a line of btt's first table.
fn parse_btt_line(text: &str, name: &str) -> Option<[f64; 4]> {
    let found = text.lines().find(|l| l.split_whitespace().next() == Some(name))?;
    let numbers: Vec<f64> = found.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    numbers.try_into().ok()
}

fn our_statistics(times: impl Iterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new();
    times.for_each(|t| histogram.record(t));
    histogram
}

/// Compares the statistics of `NAME.blktrace.*` in a folder with btt's.
fn compare_with_btt(folder: &Path, name: &str) {
    let dump = format!("{name}.bin");
    let made = run_program(folder, "blkparse", &["-q", "-O", "-i", name, "-d", &dump]);
    let text = match made.and_then(|_| run_program(folder, "btt", &["-i", &dump])) {
        Ok(text) => text,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut trace = open(&[folder.join(format!("{name}.blktrace.0"))]).expect("opens");
    // btt ignores requests without sectors
    let requests: Vec<Request> = trace.by_ref().map(|r| r.expect("readable")).filter(|r| r.length_bytes > 0).collect();
    let summary = trace.summary();
    assert_eq!((summary.unfinished, summary.without_arrival), (0, 0), "{summary:?}");
    let pairs = requests.windows(2).map(|w| w[0].arrival_ns.abs_diff(w[1].arrival_ns));
    let ours = [
        ("Q2Q", our_statistics(pairs)),
        ("D2C", our_statistics(requests.iter().filter_map(Request::service_ns))),
        ("Q2C", our_statistics(requests.iter().filter_map(Request::response_ns))),
    ];
    for (name, histogram) in ours {
        let [min, mean, max, count] = parse_btt_line(&text, name).unwrap_or_else(|| panic!("no {name} in\n{text}"));
        println!("{name}: btt {count} of mean {mean} s; ours {} of {:?} ns", histogram.count(), histogram.mean());
        assert_eq!(histogram.count() as f64, count, "{name}");
        let same = |ours: Option<f64>, theirs: f64| ours.is_some_and(|ns| (ns * 1e-9 - theirs).abs() < 1.5e-9);
        assert!(same(histogram.min().map(|l| l as f64), min), "{name}");
        assert!(same(histogram.mean(), mean), "{name}");
        assert!(same(histogram.max().map(|m| m as f64), max), "{name}");
    }
}

#[test]
fn our_figures_match_btt_on_the_fixture() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in ["small.blktrace.0", "small.blktrace.1"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
        std::fs::copy(from, folder.join(file)).expect("copied");
    }
    compare_with_btt(&folder, "small");
}

/// Traces a loop device under dd with blktrace, or, if the kernel refuses its
/// buffers, with the kernel's own tracer, which writes the same records. Runs in a
/// separate mount namespace, so that nothing stays mounted.
const RECORD_SCRIPT: &str = r#"
set -e
truncate -s 64M disk
device=$(losetup -f --show disk)
name=${device#/dev/}
tracing=/sys/kernel/tracing
end() {
    echo 0 > /sys/block/$name/trace/enable || true
    if [ -e $tracing/current_tracer ]; then
        echo nop > $tracing/current_tracer
        echo nobin > $tracing/trace_options
        echo context-info > $tracing/trace_options
    fi
    losetup -d $device
}
trap end EXIT
load() {
    dd if=/dev/urandom of=$device bs=4k count=600 oflag=direct status=none
    dd if=$device of=/dev/null bs=64k count=200 iflag=direct status=none & one=$!
    dd if=$device of=/dev/null bs=4k skip=4000 count=600 iflag=direct status=none & two=$!
    dd if=/dev/zero of=$device bs=16k seek=1000 count=200 conv=fsync status=none
    wait $one $two
}
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || true
blktrace -d $device -o real > blktrace.out 2>&1 & tracer=$!
sleep 1
if kill -0 $tracer 2>/dev/null; then
    load
    kill -INT $tracer
    wait $tracer
    echo "blktrace"
else
    rm -f real.blktrace.*
    mountpoint -q $tracing || mount -t tracefs none $tracing
    test "$(cat $tracing/current_tracer)" = nop
    echo 16384 > $tracing/buffer_size_kb
    echo bin > $tracing/trace_options
    echo nocontext-info > $tracing/trace_options
    echo blk > $tracing/current_tracer
    echo 1 > /sys/block/$name/trace/enable
    readers=""
    for cpu in $tracing/per_cpu/cpu*; do
        cat $cpu/trace_pipe > real.blktrace.${cpu##*cpu} & readers="$readers $!"
    done
    load
    sleep 1
    echo 0 > /sys/block/$name/trace/enable
    sleep 1
    kill $readers
    echo "the blk tracer, because: $(head -n 1 blktrace.out)"
fi
"#;

#[test]
#[ignore = "makes a loop device and uses the kernel's tracer, as root"]
fn our_figures_match_btt_on_a_fresh_trace() {
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers-real");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    match run_program(&folder, "timeout", &["60", "unshare", "-m", "bash", "-c", RECORD_SCRIPT]) {
        Ok(how) => println!("recorded by {}", how.lines().last().unwrap_or_default()),
        Err(why) => return println!("skipped: {why}"),
    }
    compare_with_btt(&folder, "real");
}
