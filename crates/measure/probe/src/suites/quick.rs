//! The suite `quick`: the profile of a device in about a minute, with the ceilings with which diagnosis
//! compares a load.

use super::{DEFAULT_RUN_TIME, SEQUENTIAL, Suite, SuiteSession, Writes, best_run};
use crate::error::ProbeError;
use crate::pattern::{Pattern, Placement};

/// The suite `quick`.
pub const QUICK: Suite = Suite {
    id: "quick",
    title: "the device's profile in about a minute",
    explain: "Random 4 KiB reads at queue depths 1, 4, 16, 64 and 256, and sequential 64 KiB and 1 MiB reads. If \
              writing is allowed, the same writes, reads beside writes, and a commit: 16 runs, else 7. The \
              maximum is saved as the device's ceiling, and from then on `why` judges saturation by it.",
    good: "It depends on the device. What matters is that today's result is as good as last month's.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: run_quick,
};

fn run_quick(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let directions: &[(&str, f64)] =
        if session.settings.writes { &[("read", 1.0), ("write", 0.0)] } else { &[("read", 1.0)] };
    for &(name, read_share) in directions {
        let first_run = session.runs.len();
        for depth in [1, 4, 16, 64, 256] {
            let base =
                session.build_pattern(format!("random-{name}-4k-depth-{depth}"), Placement::Uniform, 4 << 10, depth);
            session.run(&Pattern { read_share, ..base })?;
        }
        for size in session.usable_sizes(&[64 << 10, 1 << 20]) {
            let base = session.build_pattern(format!("sequential-{name}-{size}"), SEQUENTIAL, size, 8);
            session.run(&Pattern { read_share, ..base })?;
        }
        let runs = &session.runs[first_run..];
        let requests = best_run(runs, |r| r.requests_per_s).map_or(0.0, |r| r.requests_per_s);
        let bytes = best_run(runs, |r| r.bytes_per_s).map_or(0.0, |r| r.bytes_per_s);
        let single = runs[0].latency_s;
        session.report_value(
            &format!("{name}_requests_per_s"),
            requests,
            "per_s",
            format!("maximum of {name}s per second"),
        );
        session.report_value(
            &format!("{name}_bytes_per_s"),
            bytes,
            "bytes_per_s",
            format!("maximum of bytes per second, {name}s"),
        );
        if let Some(seconds) = single.mean {
            session.report_value(
                &format!("{name}_s"),
                seconds,
                "s",
                format!("one random 4 KiB {name} at queue depth 1"),
            );
        }
    }
    if session.settings.writes {
        // how reads and writes affect each other does not follow from separate measurements
        let base = session.build_pattern("random-mixed-4k-depth-16".to_owned(), Placement::Uniform, 4 << 10, 16);
        session.run(&Pattern { read_share: 0.5, ..base })?;
        let base = session.build_pattern("commit", SEQUENTIAL, 4 << 10, 1);
        let commit = Pattern { read_share: 0.0, durable: crate::pattern::Durability::Fdatasync, ..base };
        if let Some(seconds) = session.run(&commit)?.latency_s.mean {
            session.report_value("commit_s", seconds, "s", "a 4 KiB write with fdatasync");
        }
    }
    Ok(())
}
