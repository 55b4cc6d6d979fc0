//! Performance Monitor logs of real machines, where they are available: in the folder that `DISKWRIGHT_SAMPLES` names,
//! or in `shared/samples` beside the checkout. They are not part of the project; without them these tests print a
//! message and pass.

#![allow(clippy::disallowed_macros, reason = "what a test prints is shown when it fails")]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskwright_base::{Note, Topology};
use diskwright_logs::{LogError, LogInput, LogOptions, LogPiece, ReadSummary, read};

fn find_sample(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/samples");
    let folder = std::env::var_os("DISKWRIGHT_SAMPLES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let file = folder.join("perfmon").join(name);
    if file.is_file() {
        return Some(file);
    }
    println!("skipped: no sample {}", file.display());
    None
}

/// All cells by counter and instance, scaled; times; notes.
#[derive(Default)]
struct ReadOutcome {
    series: HashMap<(String, String), Vec<f64>>,
    times: Vec<i64>,
    notes: Vec<Note>,
}

impl ReadOutcome {
    fn cells_of(&self, counter: &str, instance: &str) -> &[f64] {
        let key = (counter.to_owned(), instance.to_owned());
        self.series.get(&key).unwrap_or_else(|| panic!("no {counter} of {instance}"))
    }

    fn read_topology(&self) -> Topology {
        let note = self.notes.iter().find(|n| n.kind == Note::TOPOLOGY).expect("a topology note");
        Arc::unwrap_or_clone(note.read_topology().expect("a topology"))
    }
}

fn read_all(file: &Path, options: &LogOptions) -> (ReadOutcome, Result<ReadSummary, LogError>) {
    let mut log = ReadOutcome::default();
    let mut sink = |piece: LogPiece<'_>| {
        match piece {
            LogPiece::Frame(frame) => {
                log.times.extend(frame.ticks().iter().map(|t| t.time_ns));
                for (column, series) in frame.schema().series.iter().enumerate() {
                    let cells = log.series.entry((series.counter.clone(), series.instance.clone())).or_default();
                    cells.extend(frame.column(column).iter().map(|c| c * series.scale));
                }
            }
            LogPiece::Note(note) => log.notes.push(note),
        }
        ControlFlow::Continue(())
    };
    let mut input = LogInput::open(file).expect("the sample opens");
    let summary = read(&mut input, options, &mut sink);
    (log, summary)
}

const HOUR_NS: i64 = 3_600_000_000_000;

/// Returns the sum and the number of the cells that hold a value.
fn sum_values(cells: &[f64]) -> (f64, usize) {
    let present = cells.iter().filter(|c| !c.is_nan());
    (present.clone().sum(), present.count())
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= expected.abs() * 1e-12, "{value} for {expected}");
}

/// Returns series, foreign ones, ticks, values and gaps, as a CSV reader counts them in the file.
fn summary_counts(summary: &ReadSummary) -> [u64; 5] {
    [summary.series, summary.foreign, summary.ticks, summary.values, summary.gaps]
}

#[test]
fn reads_two_spanish_tsv_logs() {
    let Some(file) = find_sample("ruflas_es_DataCollector01.tsv") else { return };
    let (log, summary) = read_all(&file, &LogOptions::default());
    let summary = summary.unwrap();
    // five series are the sum over disks, which is no disk
    assert_eq!(summary_counts(&summary), [14, 5, 323, 4512, 10]);
    assert!(summary.skipped.is_empty(), "{:?}", summary.skipped);
    assert_eq!(log.read_topology().host, "GI-AN-B3_08");
    // 09/26/2022 10:48:36.777, two hours east of Greenwich
    assert_eq!(log.times[0], 1_664_189_316_777_000_000 - 2 * HOUR_NS);
    assert_eq!(log.cells_of("processor.busy", "_total")[1], 0.402_961_818_633_762_46 * 0.01);
    assert_near(sum_values(log.cells_of("processor.busy", "_total")).0, 263.1594399636178);
    assert_near(sum_values(log.cells_of("paging.pages_per_s", "")).0, 850586.2160966068);
    assert_near(sum_values(log.cells_of("memory.available_bytes", "")).0, 5183088480256.0);
    let link = log.cells_of("network.link_bytes_per_s", "Controladora Realtek PCIe GBE Family");
    assert_eq!(link[0], 125e6);
    let idle = log.cells_of(r"foreign.PhysicalDisk\% Idle Time", "_Total");
    assert!(idle[0].is_nan());
    assert_eq!(idle[1], 99.534_179_835_209_14);

    let Some(file) = find_sample("ruflas_sesion3_head400.tsv") else { return };
    let (log, summary) = read_all(&file, &LogOptions::default());
    assert_eq!(summary_counts(&summary.unwrap()), [14, 5, 399, 5576, 10]);
    assert_near(sum_values(log.cells_of("paging.faults_per_s", "")).0, 847011.947505249);
}

#[test]
fn reads_a_spanish_csv_with_twenty_digits() {
    let Some(file) = find_sample("ruflas_juan2.csv") else { return };
    let (log, summary) = read_all(&file, &LogOptions::default());
    assert_eq!(summary_counts(&summary.unwrap()), [14, 5, 42, 577, 11]);
    let transfer = log.cells_of(r"foreign.PhysicalDisk\Avg. Disk sec/Transfer", "_Total");
    assert_eq!(transfer[1], "8.5699999999999996016e-005".parse::<f64>().unwrap());
    assert_near(sum_values(log.cells_of("system.context_switches_per_s", "")).0, 6619999.865564115);
    assert_near(sum_values(log.cells_of("paging.pages_input_per_s", "")).0, 4783.443191381341);
    assert!(log.notes.iter().all(|n| n.kind != Note::WARNING), "{:?}", log.notes);
}

#[test]
fn reads_a_russian_csv_without_a_zone() {
    let Some(file) = find_sample("waflia_DataCollector01.csv") else { return };
    let (log, summary) = read_all(&file, &LogOptions::default());
    assert_eq!((log.times[0], summary.unwrap().ticks), (1_632_156_497_954_000_000, 26));
    let is_told = |note: &Note| note.text().contains("RTZ 2") && note.text().contains("--utc-offset");
    assert!(log.notes.iter().any(is_told), "{:?}", log.notes);
    let moscow = LogOptions { utc_offset_s: Some(3 * 3600), ..LogOptions::default() };
    let (log, summary) = read_all(&file, &moscow);
    // four counters of the sum over processes and of the idle loop are no process
    assert_eq!(summary_counts(&summary.unwrap()), [1104, 8, 26, 27871, 833]);
    assert_eq!(log.times[0], 1_632_156_497_954_000_000 - 3 * HOUR_NS);
    let idle = log.cells_of(r"foreign.Process\% Processor Time", "Idle");
    assert_near(sum_values(idle).0, 25685.830016106214);
    assert_near(sum_values(log.cells_of("process.processor", "System")).0, 0.40604291383368086);
    let tables: Vec<_> = log.notes.iter().filter(|n| n.kind == Note::PROCESSES).collect();
    assert_eq!(tables.len(), 2);
    let table = tables[0].read_processes().unwrap();
    assert_eq!(table.rows[0].name, "MsMpEng");
}

#[test]
fn reads_instances_of_one_name() {
    let Some(file) = find_sample("jg_process_instances.csv") else { return };
    let (log, summary) = read_all(&file, &LogOptions::default());
    assert_eq!(summary_counts(&summary.unwrap()), [8, 5, 208, 1664, 0]);
    assert_eq!(log.times[0], 1_631_778_718_569_000_000 + 4 * HOUR_NS);
    assert_eq!(sum_values(log.cells_of("process.private_bytes", "AnyDesk#2")), (11757436928.0, 208));
}

#[test]
fn reads_a_log_that_names_no_zone() {
    let Some(file) = find_sample("mizosk_small.csv") else { return };
    let utc = LogOptions { utc_offset_s: Some(0), ..LogOptions::default() };
    let (log, summary) = read_all(&file, &utc);
    assert_eq!(summary_counts(&summary.unwrap()), [2, 0, 30, 60, 0]);
    assert_eq!(sum_values(log.cells_of("process.private_bytes", "test2")), (240300000.0, 30));
}
