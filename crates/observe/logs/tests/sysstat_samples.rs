//! Real files in `../shared/samples/sysstat`, where they are available: each is read or refused with a reason, and
//! values equal those that the tools print.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use diskwright_base::Catalogue;
use diskwright_base::counter_plan::{CounterPlan, CounterSummary};
use diskwright_logs::{LogError, LogInput, LogOptions, LogPiece};

fn sample_folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/samples/sysstat");
    if folder.is_dir() { Some(folder) } else { report_skip(&folder) }
}

#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn report_skip(folder: &Path) -> Option<PathBuf> {
    eprintln!("skipped: no samples in {}", folder.display());
    None
}

/// Returns the mean of one counter over a log, and the summary.
fn read_mean(
    path: &Path,
    counter: &str,
    instance: &str,
) -> Result<(Option<f64>, diskwright_logs::ReadSummary), LogError> {
    let mut input = LogInput::open(path)?;
    let mut sum = CounterSummary::default();
    let mut plan = None;
    let mut sink = |piece: LogPiece<'_>| {
        if let LogPiece::Frame(frame) = piece
            && let Some(found) = CounterPlan::resolve_counter(Catalogue::builtin(), frame.schema(), counter, instance)
        {
            sum.merge_summary(&found.summarise_ticks(frame, |_| true));
            plan = Some(found);
        }
        ControlFlow::Continue(())
    };
    let options = LogOptions {
        utc_offset_s: Some(0),
        interval: Some(std::time::Duration::from_secs(1)),
        ..LogOptions::default()
    };
    let summary = diskwright_logs::read(&mut input, &options, &mut sink)?;
    Ok((plan.and_then(|p| p.summary_value(&sum)), summary))
}

/// Files of the samples whose reading fails, and a part of the reason.
const REFUSED_SAMPLES: &[(&str, &str)] = &[
    ("-err", "refuses"),
    ("-SARerr", "refuses"),
    ("data-12.7.1-A_IRQ_overflow", "refuses"),
    ("data-9.1.5", "older than any"),
    ("data-non-printable", "no sample"),
    ("data-trunc", "no sample"),
    ("expected.iostat-foo", "no sample"),
    ("expected.iostat-gH", "no sample"),
    ("expected.sadf-dh", "several lists"),
];

#[test]
fn every_sample_is_read_or_refused_with_a_reason() {
    let Some(folder) = sample_folder() else { return };
    for part in ["live", "tests"] {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder.join(part)).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for path in files {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match read_mean(&path, "physical_disk.avg_queue_length", "vda") {
                Ok((_, summary)) => assert!(summary.values > 0, "{name}: nothing read"),
                Err(
                    LogError::UnknownFormat { .. }
                    | LogError::EmptyFile { .. }
                    | LogError::UnsupportedFormat { .. }
                    | LogError::Tool { .. },
                ) => {}
                // a single report is of the time since boot
                Err(LogError::NoSamples { because, .. }) if because.contains("since boot") => {}
                Err(error) => {
                    let message = error.to_string();
                    let is_known =
                        REFUSED_SAMPLES.iter().any(|(end, why)| name.ends_with(end) && message.contains(why));
                    assert!(is_known, "{message}");
                }
            }
        }
    }
}

#[test]
fn means_equal_those_that_sar_prints() {
    let Some(folder) = sample_folder() else { return };
    // the row `Average: vda` of live/sar-d.txt; all of these are of the same minutes
    let text = ["sar-d.txt", "sar-d-iso.txt", "sar-dp.txt", "sadf-d_disk.csv", "sadf-dh_disk.csv", "sadf-p_disk.tsv"];
    for log in ["sadf-j.json", "sadf-jA.json", "sadf-x.xml"].into_iter().chain(text) {
        for (counter, times, printed, within) in [
            ("physical_disk.transfers_per_s", 1.0, 300.5, 0.005),
            ("physical_disk.read_bytes_per_s", 1024.0, 18.0, 0.005),
            ("physical_disk.write_bytes_per_s", 1024.0, 77_337.0, 0.005),
            ("physical_disk.avg_bytes_per_transfer", 1024.0, 257.62, 0.005),
            ("physical_disk.avg_queue_length", 1.0, 0.04, 0.005),
            ("physical_disk.avg_s_per_transfer", 0.001, 0.12, 0.005),
            ("physical_disk.busy", 0.01, 3.9, 0.005),
        ] {
            let (value, _) = read_mean(&folder.join("live").join(log), counter, "vda").unwrap();
            let value = value.unwrap() / times;
            assert!((value - printed).abs() <= within, "{log}: {counter} is {value}, printed {printed}");
        }
    }
}
