//! Reports of what was skipped in logs.

use std::collections::BTreeMap;

use diskwright_base::units::format_count;
use diskwright_logs::ReadSummary;

use crate::given_log::GivenLog;
use crate::report::Reporter;

/// Skipped parts of several logs. Each reason in those of a bundle is reported once, because many logs of a tool have
/// the same.
#[derive(Default)]
pub struct SkipReport {
    /// The first log with each reason, and how often it occurred.
    reasons: BTreeMap<String, (String, u64)>,
}

impl SkipReport {
    /// Reports skipped parts of a log that was given directly; collects those of a bundle's logs.
    pub fn add_summary(&mut self, log: &GivenLog, summary: &ReadSummary, reporter: &Reporter) {
        if !log.is_bundled {
            return report_skipped(&log.name, summary, reporter);
        }
        for skip in &summary.skipped {
            let first = || (format!("{}: {}", log.name, skip.context), 0);
            self.reasons.entry(skip.reason.clone()).or_insert_with(first).1 += skip.count;
        }
    }

    /// Reports the collected reasons, the most frequent first.
    pub fn report_skips(self, reporter: &Reporter) {
        const MAX_REASONS: usize = 8;
        let mut reasons: Vec<_> = self.reasons.into_iter().collect();
        reasons.sort_by_key(|(_, (_, times))| std::cmp::Reverse(*times));
        for (because, (first, times)) in reasons.iter().take(MAX_REASONS) {
            let times = if *times > 1 { format!(" ({times} times in all)") } else { String::new() };
            reporter.warn(format_args!("{first}: {because}{times}"));
        }
        if reasons.len() > MAX_REASONS {
            let more = format_count(reasons.len() - MAX_REASONS, "more reason", "more reasons");
            reporter.warn(format_args!("{more}; `import --json` lists them"));
        }
    }
}

/// Reports skipped parts of a log in brief.
pub fn report_skipped(file: &str, summary: &ReadSummary, reporter: &Reporter) {
    const MAX_REPORTED: usize = 5;
    for skipped in summary.skipped.iter().take(MAX_REPORTED) {
        let times = if skipped.count > 1 { format!(" ({} times)", skipped.count) } else { String::new() };
        reporter.warn(format_args!("{file}: {}: {}{times}", skipped.context, skipped.reason));
    }
    if summary.series > 0 && summary.foreign == summary.series {
        let series = summary.series;
        reporter.warn(format_args!(
            "{file}: none of its {series} series is a counter of the catalogue, so no rule can be judged; `show` lists \
             them"
        ));
    }
    if summary.skipped.len() > MAX_REPORTED {
        let more = format_count(summary.skipped.len() - MAX_REPORTED, "more reason", "more reasons");
        reporter.warn(format_args!("{file}: {more}; `import --json` lists them"));
    }
}
