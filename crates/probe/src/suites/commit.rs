//! Commits: what a database's log sees of the device.

use super::{SEQUENTIAL, Session, Suite, Writes};
use crate::error::ProbeError;
use crate::pattern::{Durable, Pattern};

/// Commits.
pub const COMMIT: Suite = Suite {
    id: "commit",
    title: "write and sync: fdatasync, fsync, O_DSYNC, by number of committers",
    explain: "A commit is a small write that must survive a power cut: 4 KiB in sequence, then fdatasync, fsync, or \
              the write itself with O_DSYNC. With several committers at once the filesystem or device can make many \
              durable with one flush (group commit); the gain shows how well.",
    good: "Well under a millisecond where the cache is safe from power loss; a turning disk without one needs a \
           rotation, 4 to 8 ms. A time far shorter than the medium can be is a cache that lies, or one with a battery.",
    writes: Writes::Always,
    run: commit,
};

fn commit(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let ways = [("fdatasync", Durable::Fdatasync), ("fsync", Durable::Fsync), ("dsync", Durable::Dsync)];
    for (name, durable) in ways {
        let from = session.runs.len();
        for committers in [1, 4, 16] {
            let base = session.pattern(format!("{name}-{committers}"), SEQUENTIAL, 4 << 10, committers);
            session.run(&Pattern { read_share: 0.0, durable, ..base })?;
        }
        let runs = &session.runs[from..];
        let (one, many) = (runs[0].clone(), runs[2].requests_per_s);
        if let Some(seconds) = one.latency_s.mean {
            session.found(&format!("{name}_s"), seconds, "s", format!("one commit by {name}, nobody else committing"));
        }
        let gain = many / one.requests_per_s;
        session.found(
            &format!("{name}_group_gain"),
            gain,
            "fraction",
            format!("commits of 16 committers for each of one, {name}"),
        );
    }
    Ok(())
}
