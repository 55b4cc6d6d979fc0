//! Reasons to doubt a result: properties of the target, and problems during the run. One sentence each, before the
//! suite's findings.

use diskwright_base::units::format_count;
use diskwright_probe::ProbeTarget;
use diskwright_results::facts::{DeviceFacts, SuiteRemark};
use diskwright_results::result::RunResult;

/// Finds all doubts about a result.
pub fn find_doubts(target: &ProbeTarget, runs: &[RunResult]) -> Vec<SuiteRemark> {
    let mut remarks: Vec<SuiteRemark> =
        target.cautions.iter().map(|text| new_remark("target", None, text.clone())).collect();
    remarks.extend(runs.iter().filter(|run| run.failed > 0).map(failures_remark));
    remarks.extend(runs.iter().filter(|run| run.short_transfers > 0).map(|run| {
        let text = format!(
            "requests of {} moved less data than requested and are not counted: the target has shrunk",
            run.name
        );
        new_remark("short", Some(run.short_transfers), text)
    }));
    remarks.extend(runs.iter().filter(|run| is_overloaded(run)).map(|run| {
        let text = format!(
            "{} of {} were due and never sent: the target, or the probe, did not keep up with the offered rate; \
             latencies do not include them",
            format_count(run.unsent, "request", "requests"),
            run.name
        );
        new_remark("unsent", Some(run.unsent), text)
    }));
    remarks.extend(runs.iter().filter(|run| run.unanswered > 0).map(|run| {
        let text = format!(
            "{} of {} had not completed at the end of the run, the oldest after {:.1} s; latencies do not \
             include what did not complete",
            format_count(run.unanswered, "request", "requests"),
            run.name,
            run.unanswered_s
        );
        new_remark("unanswered", Some(run.unanswered), text)
    }));
    remarks
}

/// Finds a filesystem that compresses data: there, a test also measures cache and processors (NT Resource Kit, Disk
/// Testing Tips). ZFS compresses unless a property forbids it, and no mount option shows that.
pub fn find_compression(device: &DeviceFacts) -> Option<SuiteRemark> {
    let kind = device.filesystem.as_deref()?;
    let mut options = device.options.as_deref().unwrap_or_default().split(',');
    let is_off = |option: &str| matches!(option.rsplit('=').next(), Some("no" | "none" | "0"));
    let begins: &[&str] = match kind {
        "btrfs" => &["compress"],
        "f2fs" => &["compress_algorithm", "compress_extension"],
        "bcachefs" | "ntfs3" => &["compression", "compress"],
        _ => &[],
    };
    let found = options.find(|o| begins.iter().any(|begin| o.starts_with(begin)) && !is_off(o));
    let named = match (found, kind) {
        (Some(option), _) => format!("({kind}, {option}) compresses data"),
        (None, "zfs") => "(zfs) may compress data (see `zfs get compression`)".to_owned(),
        _ => return None,
    };
    let text = format!(
        "the filesystem {named}: reads and writes there also measure its cache and the processors; measure a file that \
         is not compressed, or the device"
    );
    Some(new_remark("compression", None, text))
}

/// Share of requests that were never sent from which they are reported.
const UNSENT_SHARE: f64 = 0.001;

fn is_overloaded(run: &RunResult) -> bool {
    let offered = run.offered_per_s.unwrap_or(0.0) * run.measured_s;
    run.unsent as f64 > UNSENT_SHARE * offered
}

fn failures_remark(run: &RunResult) -> SuiteRemark {
    let answered = run.requests_per_s * run.measured_s;
    let share = run.failed as f64 / (run.failed as f64 + answered) * 100.0;
    let reasons: Vec<String> = run.errors.iter().map(|e| format!("{} of them: {}", e.count, e.message)).collect();
    let text = format!(
        "requests of {} failed (about {share:.1} %); rates and latencies do not include them; {}",
        run.name,
        reasons.join(", ")
    );
    new_remark("failed", Some(run.failed), text)
}

fn new_remark(id: &str, count: Option<u64>, text: String) -> SuiteRemark {
    let unit = count.map(|_| "count".to_owned());
    SuiteRemark { id: id.to_owned(), text, value: count.map(|c| c as f64), unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_that_compresses_is_reported() {
        let told = |kind: &str, options: &str| {
            let (filesystem, options) = (Some(kind.to_owned()), Some(options.to_owned()));
            let found = find_compression(&DeviceFacts { filesystem, options, ..DeviceFacts::default() });
            found.map(|remark| remark.text)
        };
        let text = told("btrfs", "rw,noatime,compress-force=zstd:3,space_cache=v2").expect("told");
        assert!(text.starts_with("the filesystem (btrfs, compress-force=zstd:3) compresses"), "{text}");
        assert!(told("zfs", "rw,xattr").is_some_and(|text| text.contains("zfs get compression")));
        for (kind, options) in [("btrfs", "rw"), ("btrfs", "rw,compress=no"), ("ext4", "rw,compress=zstd"), ("xfs", "")]
        {
            assert_eq!(told(kind, options), None, "{kind} {options}");
        }
        assert_eq!(find_compression(&DeviceFacts::default()), None);
    }

    #[test]
    fn reports_an_open_loop_that_fell_behind() {
        let run =
            |unsent: u64| RunResult { unsent, offered_per_s: Some(1000.0), measured_s: 10.0, ..RunResult::default() };
        // a single one at the very end is a late wake-up
        assert!(!is_overloaded(&run(0)) && !is_overloaded(&run(1)) && is_overloaded(&run(5000)));
        assert!(!is_overloaded(&RunResult::default()));
    }
}
