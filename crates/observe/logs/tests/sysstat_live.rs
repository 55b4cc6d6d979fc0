//! Comparison with the installed sysstat, where there is one: the values read from a binary file and those that `sar
//! -d` prints of it are the same, row by row.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

use diskwright_logs::{LogInput, LogOptions, LogPiece};

/// Columns of `sar -d`, their counters, and the factor to the counter's unit.
const COLUMNS: [(&str, &str, f64); 5] = [
    ("tps", "physical_disk.transfers_per_s", 1.0),
    ("wkB/s", "physical_disk.write_bytes_per_s", 1024.0),
    ("areq-sz", "physical_disk.avg_bytes_per_transfer", 1024.0),
    ("aqu-sz", "physical_disk.avg_queue_length", 1.0),
    ("%util", "physical_disk.busy", 0.01),
];

#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn report_skip(because: &str) {
    eprintln!("skipped: {because}");
}

fn sysstat_command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").env("S_TIME_FORMAT", "ISO").stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Parses device, column and value of each cell that sar prints, tick by tick.
fn parse_sar(text: &str) -> Vec<(String, usize, f64)> {
    let mut headings: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with("Average")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(device) = headings.iter().position(|h| *h == "DEV").filter(|_| words.len() == headings.len()) else {
            if words.contains(&"DEV") {
                headings = words;
            }
            continue;
        };
        if words.contains(&"DEV") {
            continue;
        }
        for (column, (name, _, _)) in COLUMNS.iter().enumerate() {
            let value = headings.iter().position(|h| h == name).and_then(|index| words[index].parse().ok());
            found.extend(value.map(|value| (words[device].to_owned(), column, value)));
        }
    }
    found
}

/// Reads the same cells from the file, in sar's units.
fn read_file(path: &Path) -> Vec<(String, usize, f64)> {
    let mut input = LogInput::open(path).unwrap();
    let mut found = Vec::new();
    let mut sink = |piece: LogPiece<'_>| {
        if let LogPiece::Frame(frame) = piece {
            for tick in 0..frame.ticks().len() {
                for device in frame.schema().instances("physical_disk") {
                    for (column, (_, counter, times)) in COLUMNS.iter().enumerate() {
                        let Some(index) = frame.schema().column(counter, device) else { continue };
                        let value = frame.column(index)[tick] * frame.schema().series[index].scale / times;
                        found.push((device.to_owned(), column, value));
                    }
                }
            }
        }
        ControlFlow::Continue(())
    };
    diskwright_logs::read(&mut input, &LogOptions::default(), &mut sink).unwrap_or_else(|e| panic!("{e}"));
    found
}

#[test]
fn a_binary_file_gives_the_values_that_sar_prints() {
    let folder = tempfile::tempdir().unwrap();
    let growing = folder.path().join("sa.growing");
    let recorded = sysstat_command("sar").arg("-o").arg(&growing).args(["2", "2"]).stdout(Stdio::null()).status();
    if !recorded.is_ok_and(|status| status.success()) || !growing.exists() {
        return report_skip("sysstat is not installed, or sar cannot record here");
    }
    // the collector that sar started may write its last sample after sar has ended
    let file = folder.path().join("sa.bin");
    std::fs::copy(&growing, &file).unwrap();
    let output = sysstat_command("sar").args(["-d", "-f"]).arg(&file).output().unwrap();
    let expected = parse_sar(&String::from_utf8_lossy(&output.stdout));
    if expected.is_empty() {
        return report_skip("sar shows no disk here");
    }
    let found = read_file(&file);
    assert_eq!(found.len(), expected.len(), "{found:?} against {expected:?}");
    for ((device, column, value), (wanted, same, expected)) in found.iter().zip(&expected) {
        assert_eq!((device, column), (wanted, same));
        // both are printed with two decimals; sectors and kB are rounded apart
        assert!((value - expected).abs() <= 0.011, "{device} {}: {value}, sar prints {expected}", COLUMNS[*column].0);
    }
}
