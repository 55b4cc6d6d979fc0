//! Many clients: users who think, daemons doubled until a limit, and the mixes
//! of a file server and of a database.

use super::{SEQUENTIAL, Session, Suite, Writes, best, knee};
use crate::error::ProbeError;
use crate::pattern::{Pace, Pattern, Placement};
use crate::result::RunResult;

/// Numbers of users.
const CLIENTS: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128];
/// Time that a user thinks, seconds.
const THINK_S: f64 = 0.05;

/// Throughput and response by users.
pub const USERS: Suite = Suite {
    id: "users",
    title: "throughput and response by number of users who think",
    explain: "Each user asks for 8 KiB at random (two reads for each write where writing is allowed), waits, thinks \
              for 50 ms in the mean, asks again. While the device has room, throughput grows with the users; past the \
              knee each further user only makes the others wait (doc 002's server with more and more users).",
    good: "A knee beyond the number of users that you have.",
    writes: Writes::IfAllowed,
    run: users,
};

fn users(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let read_share = if session.writes { 2.0 / 3.0 } else { 1.0 };
    for &users in CLIENTS {
        let base = session.pattern(format!("users-{users}"), Placement::Uniform, 8 << 10, 1);
        let pace = Pace::Users { users, think_s: THINK_S, random: true };
        session.run(&Pattern { pace, read_share, ..base })?;
    }
    if let Some(at) = knee(&session.runs, 0.9, |r| r.requests_per_s) {
        let (users, rate) = (f64::from(at.users.unwrap_or(0)), at.requests_per_s);
        session.found(
            "knee_users",
            users,
            "count",
            format!("users that reach 90 % of the most ({rate:.0} requests a second)"),
        );
    }
    // the law of the knee: N* = (R(1) + Z) / D, where D is the time by request at saturation
    if let (Some(first), Some(most)) = (session.runs[0].latency_s.mean, best(&session.runs, |r| r.requests_per_s)) {
        let bound = (first + THINK_S) * most.requests_per_s;
        let text = "users at which the asymptotes of throughput meet (Denning and Buzen, 1978)";
        session.found("asymptotic_users", bound, "count", text);
    }
    Ok(())
}

/// Most daemons that are tried.
const MOST_DAEMONS: u32 = 4096;

/// The CTO Labs load benchmark, doc 004.
pub const LOAD: Suite = Suite {
    id: "load",
    title: "daemons doubled until the response passes a limit (100 ms)",
    explain: "Each daemon asks for 8 KiB at random, one request after another without a pause; their number doubles \
              until the mean response, or the percentile named by --limit-share, passes the limit. Doc 004 calls 100 \
              ms the most that users bear, and plots I/Os a second up to there.",
    good: "More I/Os a second at the limit than the application asks for at its busiest, with a margin.",
    writes: Writes::Never,
    run: load,
};

fn load(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let (limit, share) = (session.limit_s, session.limit_share);
    let response = move |run: &RunResult| match share {
        None => run.latency_s.mean,
        Some(share) if share >= 0.999 => run.latency_s.p999,
        Some(share) if share >= 0.99 => run.latency_s.p99,
        Some(share) if share >= 0.95 => run.latency_s.p95,
        Some(_) => run.latency_s.p50,
    };
    let mut daemons = 1;
    let mut within: Option<(f64, f64)> = None;
    while daemons <= MOST_DAEMONS {
        let pattern = session.pattern(format!("daemons-{daemons}"), Placement::Uniform, 8 << 10, daemons);
        let run = session.run(&pattern)?;
        match response(run) {
            Some(seconds) if seconds <= limit => within = Some((f64::from(daemons), run.requests_per_s)),
            _ => break,
        }
        daemons *= 2;
    }
    let what = share.map_or("mean response".into(), |s| format!("{} % response", s * 100.0));
    match within {
        Some((daemons, rate)) => {
            let text = format!("requests a second with a {what} of at most {limit} s");
            session.found("requests_per_s_at_limit", rate, "per_s", text);
            session.found("daemons_at_limit", daemons, "count", "daemons that gave it, the last of the doublings");
        }
        None => session.say("requests_per_s_at_limit", format!("one daemon alone has a {what} above {limit} s")),
    }
    Ok(())
}

/// A file server's mix.
pub const NETBENCH_MIX: Suite = Suite {
    id: "netbench-mix",
    title: "a file server's mix by number of clients",
    explain: "Requests of 512 B to 64 KiB, mostly small, two of three reads, a fifth of the place asked for most of \
              the time (Zipf), by 1 to 60 clients. Doc 001 ran NetBench 5.0's Disk Mix with up to 60 clients but does \
              not print what is in it: sizes and shares here are this program's own stand-in for office file service.",
    good: "Throughput that is still rising at the number of clients that you have.",
    writes: Writes::IfAllowed,
    run: |session| {
        let sizes = vec![(512, 0.1), (4 << 10, 0.4), (8 << 10, 0.2), (16 << 10, 0.1), (32 << 10, 0.1), (64 << 10, 0.1)];
        let sector = session.sector;
        let sizes: Vec<_> =
            sizes.into_iter().filter(|(s, _)| session.buffered || u64::from(*s) % sector == 0).collect();
        let read_share = if session.writes { 2.0 / 3.0 } else { 1.0 };
        for users in [1, 4, 12, 28, 44, 60] {
            let base = session.pattern(format!("clients-{users}"), Placement::Zipf { theta: 0.9 }, 4 << 10, 1);
            let pace = Pace::Users { users, think_s: 0.01, random: true };
            session.run(&Pattern { pace, read_share, sizes: sizes.clone(), align_bytes: sector.max(4096), ..base })?;
        }
        if let Some((users, rate)) =
            best(&session.runs, |r| r.bytes_per_s).map(|r| (r.users.unwrap_or(0), r.bytes_per_s))
        {
            session.found(
                "most_bytes_per_s",
                rate,
                "bytes_per_s",
                format!("the most throughput, with {users} clients"),
            );
        }
        Ok(())
    },
};

/// SQL Server's two ways of asking, doc 000 and doc 004.
pub const SQL: Suite = Suite {
    id: "sql",
    title: "a database's reads: 8 KiB at random, 64 KiB in sequence, by outstanding limit",
    explain: "SQL Server reads pages of 8 KiB at random for lookups and extents of 64 KiB in sequence for scans, and \
              limits how many it has outstanding; 1 to 512 here. It shows where raising that limit stops to pay.",
    good: "Scans near diskmax at a low limit; lookups that rise until the spindles or channels are all at work.",
    writes: Writes::Never,
    run: |session| {
        for (name, placement, size) in [("lookup", Placement::Uniform, 8 << 10), ("scan", SEQUENTIAL, 64 << 10)] {
            let from = session.runs.len();
            for depth in [1, 4, 16, 64, 256, 512] {
                let pattern = session.pattern(format!("{name}-{depth}"), placement.clone(), size, depth);
                session.run(&pattern)?;
            }
            if let Some(at) = knee(&session.runs[from..], 0.9, |r| r.requests_per_s) {
                let depth = f64::from(at.depth.unwrap_or(0));
                session.found(
                    &format!("{name}_limit"),
                    depth,
                    "requests",
                    format!("outstanding limit that gives {name}s 90 % of the most"),
                );
            }
        }
        Ok(())
    },
};

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, on_fake, value};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn load_stops_at_the_limit() {
        // one server of 10 ms: n daemons wait n x 10 ms, so 8 are within 100 ms and 16 are not
        let (runs, remarks) = on_fake(&LOAD, 64 * MIB, || FakeDevice::steady(1, 10_000_000));
        assert_eq!(value(&remarks, "daemons_at_limit"), 8.0);
        assert!((value(&remarks, "requests_per_s_at_limit") - 100.0).abs() < 1.0);
        assert_eq!(runs.len(), 5);
    }

    #[test]
    fn users_meet_the_asymptotes() {
        // D = 5 ms at one server, Z = 50 ms: N* = 11
        let (_, remarks) = on_fake(&USERS, 64 * MIB, || FakeDevice::steady(1, 5_000_000));
        assert!((value(&remarks, "asymptotic_users") - 11.0).abs() < 0.6, "{remarks:?}");
        assert_eq!(value(&remarks, "knee_users"), 16.0);
    }
}
