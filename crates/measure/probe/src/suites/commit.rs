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
    let alone = session.run(&Pattern { read_share: 0.0, ..plain })?.latency_s.mean;
    let ways = [("fdatasync", Durability::Fdatasync), ("fsync", Durability::Fsync), ("dsync", Durability::Dsync)];
    for (name, durable) in ways {
        let mut rates = Vec::new();
        let mut one = None;
        for &committers in COMMITTERS {
            let base = session.build_pattern(format!("{name}-{committers}"), SEQUENTIAL, 4 << 10, committers);
            let run = session.run(&Pattern { read_share: 0.0, durable, ..base })?;
            if committers == 1 {
                one = run.latency_s.mean.zip(Some(run.requests_per_s * run.measured_s));
            }
            rates.push((committers, run.requests_per_s));
        }
        report_commits(session, name, one, alone, &rates);
    }
    Ok(())
}

/// Smallest gain that counts as one.
const MIN_GROUP_GAIN: f64 = 1.3;
/// Gain per committer from which they share their flushes.
const MIN_SHARED_GAIN_PER_COMMITTER: f64 = 0.25;

/// Smallest number of commits of one committer for which a gain is computed.
const MIN_COMMITS: f64 = 10.0;

fn report_commits(
    session: &mut SuiteSession<'_>,
    name: &str,
    one: Option<(f64, f64)>,
    alone: Option<f64>,
    rates: &[(u32, f64)],
) {
    let Some((seconds, count)) = one else {
        let text = format!("no commit by {name} completed during its run; measure longer with --for");
        return session.report_text(&format!("{name}_s"), text);
    };
    let text = match alone {
        Some(alone) => {
            format!(
                "one commit by {name} by a single committer; the write itself takes {}",
                format_quantity(alone, "s")
            )
        }
        None => format!("one commit by {name} by a single committer"),
    };
    session.report_value(&format!("{name}_s"), seconds, "s", text);
    let Some(&(_, first)) = rates.first() else { return };
    let Some(&(many, max_rate)) = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    if count < MIN_COMMITS {
        let text = format!("too few commits by {name} of a single committer completed ({count:.0}) to compute a gain");
        return session.report_text(&format!("{name}_group_gain"), text);
    }
    let gain = max_rate / first;
    let text = if gain > f64::from(many) {
        format!(
            "more than there are committers ({many}), by {name}: the run with a single committer was disturbed; \
                 measure again"
        )
    } else if gain < MIN_GROUP_GAIN {
        format!("no group commit by {name}: many committers reach no more commits than a single one")
    } else if gain >= MIN_SHARED_GAIN_PER_COMMITTER * f64::from(many) {
        format!(
            "group commit by {name}: {many} committers reach this many commits per commit of a single one; they share \
             flushes, or the device serves many together"
        )
    } else {
        format!(
            "maximum of commits by {name} per commit of a single committer, with {many} committers; few share a \
                 flush"
        )
    };
    session.report_value(&format!("{name}_group_gain"), gain, "times", text);
    session.report_value(
        &format!("{name}_per_s"),
        max_rate,
        "per_s",
        format!("maximum of commits by {name}, with {many} committers"),
    );
}
