//! What stands against believing a result: what the target is, and what went
//! wrong on the way. A sentence each, before what the suite found.

use diskwright_probe::result::RunResult;
use diskwright_probe::suites::Remark;
use diskwright_probe::target::Target;

/// All doubts.
pub fn doubts(target: &Target, runs: &[RunResult]) -> Vec<Remark> {
    let mut found: Vec<Remark> = target.cautions.iter().map(|text| remark("target", None, text.clone())).collect();
    found.extend(runs.iter().filter(|run| run.failed > 0).map(failures));
    found.extend(runs.iter().filter(|run| run.short > 0).map(|run| {
        let text = format!(
            "requests of {} moved less than was asked and are not counted: the target is smaller than it was",
            run.name
        );
        remark("short", Some(run.short), text)
    }));
    found
}

fn failures(run: &RunResult) -> Remark {
    let answered = run.requests_per_s * run.measured_s;
    let share = run.failed as f64 / (run.failed as f64 + answered) * 100.0;
    let reasons: Vec<String> = run.errors.iter().map(|e| format!("{} of them: {}", e.count, e.what)).collect();
    let text = format!(
        "requests of {} failed (about {share:.1} %) and are in no rate and no latency; {}",
        run.name,
        reasons.join(", ")
    );
    remark("failed", Some(run.failed), text)
}

fn remark(id: &str, count: Option<u64>, text: String) -> Remark {
    let unit = count.map(|_| "count".to_owned());
    Remark { id: id.to_owned(), text, value: count.map(|c| c as f64), unit }
}
