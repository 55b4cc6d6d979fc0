//! Commits: the load of a database's log.

use super::{DEFAULT_RUN_TIME, SEQUENTIAL, Suite, SuiteSession, Writes, format_quantity};
use crate::error::ProbeError;
use crate::pattern::{Durability, Pattern};

/// The suite `commit`.
pub const COMMIT: Suite = Suite {
    id: "commit",
    title: "write and sync: fdatasync, fsync, O_DSYNC, by number of committers",
    explain: "A commit is a small write that must survive a power cut: a sequential 4 KiB write followed by fdatasync \
              or fsync, or the write itself with O_DSYNC. Write and sync count as one. With several committers, the \
              filesystem or device can make many commits durable with one flush (group commit). The commits of n \
              committers per commit of a single one show how well: 1 is one flush each. n / 2 is the maximum if a \
              commit that arrives during a flush waits for the next one. The file already has its blocks; a growing \
              log also pays for its metadata.",
    good: "Well under 1 ms with a cache that is protected from power loss. Without one, a rotating disk needs a \
           rotation, 4 to 8 ms, and flash about 1 ms. Commits much faster than random writes mean a battery, or a \
           cache that acknowledges flushes without doing them.",
    writes: Writes::Always,
    time: DEFAULT_RUN_TIME,
    run: run_commit,
};

/// Numbers of concurrent committers.
const COMMITTERS: &[u32] = &[1, 2, 4, 8, 16, 32, 64];

fn run_commit(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let plain = session.build_pattern("write-only", SEQUENTIAL, 4 << 10, 1);
    let write_s = session.run(&Pattern { read_share: 0.0, ..plain })?.latency_s.mean;
    let methods = [("fdatasync", Durability::Fdatasync), ("fsync", Durability::Fsync), ("dsync", Durability::Dsync)];
    for (name, durable) in methods {
        let mut rates = Vec::new();
        // mean time and number of the commits of a single committer
        let mut single = None;
        for &committers in COMMITTERS {
            let base = session.build_pattern(format!("{name}-{committers}"), SEQUENTIAL, 4 << 10, committers);
            let run = session.run(&Pattern { read_share: 0.0, durable, ..base })?;
            if committers == 1 {
                single = run.latency_s.mean.zip(Some(run.requests_per_s * run.measured_s));
            }
            rates.push((committers, run.requests_per_s));
        }
        report_commits(session, name, single, write_s, &rates);
    }
    Ok(())
}

/// Smallest gain by which several committers are said to reach more commits than a single one.
const MIN_GROUP_GAIN: f64 = 1.3;
/// Smallest gain per committer by which committers are said to share their flushes.
const MIN_SHARED_GAIN_PER_COMMITTER: f64 = 0.25;

/// Smallest number of commits of one committer for which a gain is computed.
const MIN_COMMITS: f64 = 10.0;

/// Reports the commits of one method: `single` has the mean time and the number of commits of a single
/// committer, `write_s` the time of a write without a sync, `rates` the commits per second by number of
/// committers.
fn report_commits(
    session: &mut SuiteSession<'_>,
    name: &str,
    single: Option<(f64, f64)>,
    write_s: Option<f64>,
    rates: &[(u32, f64)],
) {
    let Some((seconds, count)) = single else {
        let text = format!("no commit by {name} completed during its run; measure longer with --for");
        return session.report_text(&format!("{name}_s"), text);
    };
    let text = match write_s.map(|seconds| format_quantity(seconds, "s")) {
        Some(write) => format!("one commit by {name} by a single committer; the write itself takes {write}"),
        None => format!("one commit by {name} by a single committer"),
    };
    session.report_value(&format!("{name}_s"), seconds, "s", text);
    let Some(&(_, single_rate)) = rates.first() else { return };
    let Some(&(committers, max_rate)) = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    if count < MIN_COMMITS {
        let text = format!("too few commits by {name} of a single committer completed ({count:.0}) to compute a gain");
        return session.report_text(&format!("{name}_group_gain"), text);
    }
    let gain = max_rate / single_rate;
    let text = if gain > f64::from(committers) {
        format!(
            "more than there are committers ({committers}), by {name}: the run with a single committer was disturbed; \
             measure again"
        )
    } else if gain < MIN_GROUP_GAIN {
        format!("no group commit by {name}: many committers reach no more commits than a single one")
    } else if gain >= MIN_SHARED_GAIN_PER_COMMITTER * f64::from(committers) {
        format!(
            "group commit by {name}: {committers} committers reach this many commits per commit of a single one; they \
             share flushes, or the device serves many together"
        )
    } else {
        format!(
            "maximum of commits by {name} per commit of a single committer, with {committers} committers; few share a \
             flush"
        )
    };
    session.report_value(&format!("{name}_group_gain"), gain, "times", text);
    session.report_value(
        &format!("{name}_per_s"),
        max_rate,
        "per_s",
        format!("maximum of commits by {name}, with {committers} committers"),
    );
}
