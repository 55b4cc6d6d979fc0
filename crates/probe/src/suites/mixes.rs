//! What applications ask, as data (`mixes.toml`): a file server's mix by number
//! of clients, a database's reads and writes by outstanding limit.

use serde::Deserialize;

use super::{EACH, SEQUENTIAL, Session, Suite, Writes, best, knee, words};
use crate::error::ProbeError;
use crate::pattern::{Pace, Pattern, Placement};

/// One mix, as the file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Its name.
    pub id: String,
    /// Sizes with their weights, bytes.
    sizes: Vec<(u32, f64)>,
    read_share: f64,
    #[serde(default)]
    sequential: bool,
    /// Exponent of Zipf's law; uniform where there is none.
    theta: Option<f64>,
    #[serde(default)]
    clients: Vec<u32>,
    #[serde(default)]
    limits: Vec<u32>,
    /// What a client works in, bytes.
    client_bytes: Option<u64>,
    #[serde(default)]
    think_s: f64,
    /// Where it is printed, and what is this program's own.
    pub source: String,
    /// See above.
    pub own: String,
}

#[derive(Deserialize)]
struct File {
    mix: Vec<Mix>,
}

/// All mixes. The file is a part of the program: a test reads it.
pub fn mixes() -> Result<Vec<Mix>, toml::de::Error> {
    toml::from_str::<File>(include_str!("mixes.toml")).map(|file| file.mix)
}

fn mix(id: &str) -> Result<Mix, ProbeError> {
    let wrong = |because: String| ProbeError::Pattern { name: id.into(), because };
    let all = mixes().map_err(|e| wrong(e.to_string()))?;
    all.into_iter().find(|m| m.id == id).ok_or_else(|| wrong("no such mix".into()))
}

impl Mix {
    /// The mix as a pattern of this session; sizes below the sector are left out.
    fn pattern(&self, session: &Session<'_>, name: String) -> Pattern {
        let sector = session.set.sector;
        let place = match self.theta {
            Some(theta) => Placement::Zipf { theta },
            None if self.sequential => SEQUENTIAL,
            None => Placement::Uniform,
        };
        let base = session.pattern(name, place, self.sizes[0].0, 1);
        let fits = |s: &(u32, f64)| session.set.buffered || u64::from(s.0).is_multiple_of(sector);
        let sizes: Vec<_> = self.sizes.iter().copied().filter(fits).collect();
        let mixed = sizes.len() > 1;
        let read_share = if session.set.writes { self.read_share } else { 1.0 };
        Pattern { sizes, read_share, align_bytes: if mixed { sector.max(4096) } else { 0 }, ..base }
    }
}

/// A file server's mix.
pub const NETBENCH_MIX: Suite = Suite {
    id: "netbench-mix",
    title: "a file server's mix by number of clients, 1 to 60",
    explain: "Requests of 512 B to 64 KiB, mostly small, two of three reads, most of them to few places (Zipf), by 1 \
              to 60 clients that never pause, each with 15 MB more to work in. Doc 001 ran NetBench 5.0's Disk Mix so \
              (15 MB of work space, no think time), but does not print what the mix asks: sizes and shares are this \
              program's own stand-in for office file service. Doc 001's clients met the server's memory first; here \
              every request goes to the device.",
    good: "Throughput that is still rising at the number of clients that you have.",
    writes: Writes::IfAllowed,
    time: EACH,
    run: |session| {
        let mix = mix("netbench-disk")?;
        for &users in &mix.clients {
            let base = mix.pattern(session, format!("clients-{users}"));
            let work = mix.client_bytes.unwrap_or(u64::MAX).saturating_mul(u64::from(users));
            let range_bytes = Some((work / 4096 * 4096).min(session.set.room));
            let pace = Pace::Users { users, think_s: mix.think_s, random: true };
            session.run(&Pattern { pace, range_bytes, ..base })?;
        }
        let most = best(&session.runs, |r| r.bytes_per_s).map(|r| (r.users.unwrap_or(0), r.bytes_per_s));
        if let Some((users, rate)) = most {
            session.found(
                "most_bytes_per_s",
                rate,
                "bytes_per_s",
                format!("the most throughput, with {users} clients"),
            );
        }
        let knee = knee(&session.runs, 0.9, |r| r.bytes_per_s).and_then(|r| r.users);
        if knee == mix.clients.last().copied() {
            session.say("knee_clients", "throughput still rises at the most clients that are tried");
        } else if let Some(at) = knee.map(f64::from) {
            session.found("knee_clients", at, "count", "clients that reach 90 % of it; more of them only wait longer");
        }
        session.say("mix", format!("printed: {}; this program's own: {}", mix.source, mix.own));
        let largest = mix.client_bytes.unwrap_or(0) * u64::from(*mix.clients.last().unwrap_or(&1));
        if largest > session.set.room {
            let (have, want) = (words(session.set.room as f64, "bytes"), words(largest as f64, "bytes"));
            session.say(
                "work_space",
                format!("60 clients would work in {want}; the target has {have}, and they share it"),
            );
        }
        Ok(())
    },
};

/// What SQL Server 7 had outstanding by default (doc 004).
const DEFAULT_LIMIT: u32 = 32;

/// SQL Server's ways of asking, doc 000 and doc 004.
pub const SQL: Suite = Suite {
    id: "sql",
    title: "a database's lookups (8 KiB at random) and scans (64 KiB in sequence) by outstanding limit, 1 to 512",
    explain: "SQL Server reads pages of 8 KiB at random for lookups and extents of 64 KiB in sequence for scans, \
              writes extents in sequence when it builds cubes, and limits how much it has outstanding (max async I/O, \
              32 by default). Doc 004: one disk gives about 100 lookups a second, 800 KB/s, whatever the bus could \
              carry; an array needs a far higher limit. Here the limit goes from 1 to 512, and shows where raising it \
              stops to pay.",
    good: "Scans near diskmax at a low limit; lookups that rise until the spindles or channels are all at work; on a \
           good array writes within 5 % of scans (doc 004's RAID 10).",
    writes: Writes::IfAllowed,
    time: EACH,
    run: sql,
};

fn sql(session: &mut Session<'_>) -> Result<(), ProbeError> {
    let mut kinds = vec![("lookup", "lookups"), ("scan", "scans")];
    if session.set.writes {
        kinds.push(("build", "writes of a build"));
    }
    let mut most = Vec::new();
    for (kind, many) in kinds {
        let mix = mix(&format!("sql-{kind}"))?;
        let from = session.runs.len();
        for &depth in &mix.limits {
            let base = mix.pattern(session, format!("{kind}-{depth}"));
            session.run(&Pattern { pace: Pace::Closed { depth }, ..base })?;
        }
        let runs = &session.runs[from..];
        let rate = |depth: u32| runs.iter().find(|r| r.depth == Some(depth)).map(|r| r.requests_per_s);
        let top = best(runs, |r| r.requests_per_s).map_or(0.0, |r| r.requests_per_s);
        let usual = rate(DEFAULT_LIMIT).map(|r| r / top);
        let at = knee(runs, 0.9, |r| r.requests_per_s).map(|r| f64::from(r.depth.unwrap_or(0)));
        most.push(top);
        session.say(&format!("{kind}_source"), mix.source);
        session.found(&format!("{kind}s_per_s"), top, "per_s", format!("the most {many} a second"));
        if let Some(depth) = at {
            let text = format!("outstanding limit that gives {many} 90 % of the most");
            session.found(&format!("{kind}_limit"), depth, "requests", text);
        }
        if let Some(usual) = usual {
            let text = format!("of the most {many} come with SQL Server 7's default limit of {DEFAULT_LIMIT}");
            session.found(&format!("{kind}_at_default"), usual, "fraction", text);
        }
    }
    let text = "lookups a second for each of the 100 that doc 004 gives a basic disk of 1999";
    session.found("basic_disks", most[0] / 100.0, "count", text);
    if let (Some(scan), Some(build)) = (most.get(1), most.get(2)) {
        session.found("build_to_scan", build / scan, "fraction", "64 KiB writes in sequence for each such read");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, on_fake, value};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn the_file_of_mixes_is_whole() {
        let all = mixes().unwrap();
        for mix in &all {
            assert!(!mix.sizes.is_empty() && mix.source.starts_with("doc "), "{}", mix.id);
            assert_eq!(mix.clients.is_empty(), !mix.limits.is_empty(), "{}", mix.id);
        }
        let limits = &all.iter().find(|m| m.id == "sql-lookup").unwrap().limits;
        assert_eq!((limits[0], limits[limits.len() - 1]), (1, 512));
    }

    #[test]
    fn sql_names_the_limit_from_which_on_nothing_is_gained() {
        // doc 004's RAID 10 of twelve drives, 10 ms each: 12 at once, so 1200 lookups a second from a limit of 16 on
        let (_, remarks) = on_fake(&SQL, 64 * MIB, || FakeDevice::steady(12, 10_000_000));
        assert_eq!(value(&remarks, "lookup_limit"), 16.0);
        assert!((value(&remarks, "lookups_per_s") - 1200.0).abs() < 20.0, "{remarks:?}");
        assert!((value(&remarks, "basic_disks") - 12.0).abs() < 0.2);
        assert!((value(&remarks, "lookup_at_default") - 1.0).abs() < 0.02);
        assert!((value(&remarks, "build_to_scan") - 1.0).abs() < 0.02);
    }

    #[test]
    fn clients_of_the_file_server_never_pause() {
        let (runs, remarks) = on_fake(&NETBENCH_MIX, 64 * MIB, || FakeDevice::steady(4, 1_000_000));
        // four at once, 1 ms each: 4000 a second from four clients on
        let rate = |at: usize| runs[at].requests_per_s;
        assert!((rate(0) - 1000.0).abs() < 10.0 && (rate(1) - 4000.0).abs() < 40.0, "{} {}", rate(0), rate(1));
        assert_eq!(value(&remarks, "knee_clients"), 4.0);
    }
}
