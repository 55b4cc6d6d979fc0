//! Suites with the loads of applications, which are data (`mixes.toml`): a file server's mix by number
//! of clients, and a database's reads and writes by limit of requests in flight.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_count;
use diskwright_base::{Problems, toml_reader};
use serde::Deserialize;

use super::{DEFAULT_RUN_TIME, SEQUENTIAL, Suite, SuiteSession, Writes, best_run, knee_run};
use crate::error::ProbeError;
use crate::pattern::{Pace, Pattern, Placement};

/// A mix, as in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Name of the mix.
    pub id: String,
    /// Sizes with their weights, bytes.
    sizes: Vec<(u32, f64)>,
    read_share: f64,
    #[serde(default)]
    sequential: bool,
    /// Exponent of Zipf's law; uniform if `None`.
    theta: Option<f64>,
    /// Numbers of clients that are tried.
    #[serde(default)]
    clients: Vec<u32>,
    /// Limits of requests in flight that are tried.
    #[serde(default)]
    limits: Vec<u32>,
    /// Work space of a client, bytes.
    client_bytes: Option<u64>,
    #[serde(default)]
    think_s: f64,
    /// Publication that describes it.
    pub source: String,
    /// Assumptions that are this program's own.
    pub own: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MixFile {
    mix: Vec<Mix>,
}

/// Loads all mixes. The file is part of the program: a test reads it.
pub fn load_mixes() -> Result<Vec<Mix>, Problems> {
    toml_reader::read::<MixFile>("mixes.toml", include_str!("mixes.toml")).map(|file| file.mix)
}

fn find_mix(id: &str) -> Result<Mix, ProbeError> {
    let error = |because: String| ProbeError::Pattern { name: id.into(), because };
    let mixes = load_mixes().map_err(|e| error(e.to_string()))?;
    mixes.into_iter().find(|m| m.id == id).ok_or_else(|| error("no such mix".into()))
}

impl Mix {
    /// Builds the mix as a pattern of this session; sizes that are no multiples of the sector are left out.
    fn build_pattern(&self, session: &SuiteSession<'_>, name: String) -> Pattern {
        let sector = session.settings.sector;
        let placement = match self.theta {
            Some(theta) => Placement::Zipf { theta },
            None if self.sequential => SEQUENTIAL,
            None => Placement::Uniform,
        };
        let base = session.build_pattern(name, placement, self.sizes[0].0, 1);
        let fits = |s: &(u32, f64)| session.settings.buffered || u64::from(s.0).is_multiple_of(sector);
        let sizes: Vec<_> = self.sizes.iter().copied().filter(fits).collect();
        let align_bytes = if sizes.len() > 1 { sector.max(4096) } else { 0 };
        let read_share = if session.settings.writes { self.read_share } else { 1.0 };
        Pattern { sizes, read_share, align_bytes, ..base }
    }
}

/// A file server's mix.
pub const NETBENCH_MIX: Suite = Suite {
    id: "netbench-mix",
    title: "a file server's mix by number of clients, 1 to 60",
    explain: "Requests of 512 B to 64 KiB, mostly small, two thirds of them reads, most of them to few places (Zipf). \
              They come from 1 to 60 clients that never pause, each with 15 MB more work space. Compaq 1997 ran \
              NetBench 5.0's Disk Mix like this (15 MB of work space, no think time), but prints neither the mix nor \
              the number of clients. Both are this program's own model of office file service. In Compaq 1997 the \
              server's memory served clients first; here every request goes to the device.",
    good: "Throughput that still rises at your number of clients.",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: |session| {
        let mix = find_mix("netbench-disk")?;
        for &clients in &mix.clients {
            let base = mix.build_pattern(session, format!("clients-{clients}"));
            let work_bytes = mix.client_bytes.unwrap_or(u64::MAX).saturating_mul(u64::from(clients));
            let range_bytes = Some((work_bytes / 4096 * 4096).min(session.settings.target_bytes));
            let pace = Pace::Users { users: clients, think_s: mix.think_s, random: true };
            session.run(&Pattern { pace, range_bytes, ..base })?;
        }
        let best = best_run(&session.runs, |r| r.bytes_per_s).map(|r| (r.users.unwrap_or(0), r.bytes_per_s));
        if let Some((clients, rate)) = best {
            let text = format!("maximum throughput, with {}", format_count(clients, "client", "clients"));
            session.report_value("most_bytes_per_s", rate, "bytes_per_s", text);
        }
        let knee = knee_run(&session.runs, 0.9, |r| r.bytes_per_s).and_then(|r| r.users);
        if knee == mix.clients.last().copied() {
            session.report_text("knee_clients", "throughput still rises at the largest number of clients tried");
        } else if let Some(clients) = knee.map(f64::from) {
            session.report_value(
                "knee_clients",
                clients,
                "count",
                "clients that reach 90 % of it; more clients only wait longer",
            );
        }
        session.report_text("mix", format!("published: {}; this program's own: {}", mix.source, mix.own));
        let max_clients = mix.clients.last().copied().unwrap_or(1);
        let needed_bytes = mix.client_bytes.unwrap_or(0) * u64::from(max_clients);
        if needed_bytes > session.settings.target_bytes {
            let target = ByteSize::capacity(session.settings.target_bytes as f64);
            let needed = ByteSize::capacity(needed_bytes as f64);
            let clients = format_count(max_clients, "client", "clients");
            let text = format!("{clients} need {needed}; the target has {target}, which they share");
            session.report_text("work_space", text);
        }
        Ok(())
    },
};

/// Default limit of requests in flight of SQL Server 7 (InfoStor 1999).
const DEFAULT_LIMIT: u32 = 32;

/// SQL Server's loads, SAS 1998 and InfoStor 1999.
pub const SQL: Suite = Suite {
    id: "sql",
    title: "database lookups (random 8 KiB) and scans (sequential 64 KiB) by limit of requests in flight, 1 to 512",
    explain: "SQL Server reads random 8 KiB pages for lookups and sequential 64 KiB extents for scans, and writes \
              sequential extents when it builds cubes. It limits the requests in flight (max async I/O, 32 by \
              default). InfoStor 1999: one disk serves about 100 lookups per second, 800 KB/s, whatever the bus could \
              carry; an array needs a far higher limit. Here the limit goes from 1 to 512 and shows where raising it \
              stops helping.",
    good: "Scans close to diskmax at a low limit. Lookups that rise until all spindles or channels are busy. On a \
           good array, writes within 5 % of scans (the RAID 10 in InfoStor 1999).",
    writes: Writes::IfAllowed,
    time: DEFAULT_RUN_TIME,
    run: run_sql,
};

fn run_sql(session: &mut SuiteSession<'_>) -> Result<(), ProbeError> {
    let mut kinds = vec![("lookup", "lookups"), ("scan", "scans")];
    if session.settings.writes {
        kinds.push(("build", "writes of a build"));
    }
    let mut max_rates = Vec::new();
    for (kind, plural) in kinds {
        let mix = find_mix(&format!("sql-{kind}"))?;
        let first_run = session.runs.len();
        for &depth in &mix.limits {
            let base = mix.build_pattern(session, format!("{kind}-{depth}"));
            session.run(&Pattern { pace: Pace::Closed { depth }, ..base })?;
        }
        let runs = &session.runs[first_run..];
        let max_rate = best_run(runs, |r| r.requests_per_s).map_or(0.0, |r| r.requests_per_s);
        let default_run = runs.iter().find(|r| r.depth == Some(DEFAULT_LIMIT));
        let default_share = default_run.map(|r| r.requests_per_s / max_rate);
        let knee_depth = knee_run(runs, 0.9, |r| r.requests_per_s).map(|r| f64::from(r.depth.unwrap_or(0)));
        max_rates.push(max_rate);
        session.report_text(&format!("{kind}_source"), mix.source);
        session.report_value(&format!("{kind}s_per_s"), max_rate, "per_s", format!("maximum of {plural} per second"));
        if let Some(depth) = knee_depth {
            let text = format!("limit of requests in flight that gives {plural} 90 % of the maximum");
            session.report_value(&format!("{kind}_limit"), depth, "requests", text);
        }
        if let Some(share) = default_share {
            let text = format!("of the maximum of {plural} at SQL Server 7's default limit of {DEFAULT_LIMIT}");
            session.report_value(&format!("{kind}_at_default"), share, "fraction", text);
        }
    }
    let text = "lookups per second, divided by the 100 that InfoStor 1999 gives for a basic disk of 1999";
    session.report_value("basic_disks", max_rates[0] / 100.0, "count", text);
    if let (Some(scan), Some(build)) = (max_rates.get(1), max_rates.get(2)) {
        session.report_value("build_to_scan", build / scan, "fraction", "sequential 64 KiB writes per such read");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, remark_value, run_on_fake};
    use super::*;
    use crate::engine::fake::FakeDevice;

    #[test]
    fn every_mix_is_complete_and_cites_its_source() {
        let all = load_mixes().unwrap();
        let cited = |source: &str| ["Compaq 1997", "InfoStor 1999"].iter().any(|name| source.starts_with(name));
        for mix in &all {
            assert!(!mix.sizes.is_empty() && cited(&mix.source), "{}", mix.id);
            assert_eq!(mix.clients.is_empty(), !mix.limits.is_empty(), "{}", mix.id);
        }
        let limits = &all.iter().find(|m| m.id == "sql-lookup").unwrap().limits;
        assert_eq!((limits[0], limits[limits.len() - 1]), (1, 512));
    }

    #[test]
    fn texts_of_the_suites_name_the_numbers_in_the_file() {
        let all = load_mixes().unwrap();
        let find = |id: &str| all.iter().find(|mix| mix.id == id).unwrap();
        let netbench = find("netbench-disk");
        assert!(NETBENCH_MIX.title.ends_with(&format!(
            "{} to {}",
            netbench.clients[0],
            netbench.clients.last().unwrap()
        )));
        let lookup = find("sql-lookup");
        assert!(SQL.title.ends_with(&format!("{} to {}", lookup.limits[0], lookup.limits.last().unwrap())));
    }

    #[test]
    fn sql_names_the_limit_from_which_on_nothing_is_gained() {
        // InfoStor 1999's RAID 10 of twelve drives, 10 ms each: 12 at once, so 1200 lookups/s from a limit of 16 on
        let (_, remarks) = run_on_fake(&SQL, 64 * MIB, || FakeDevice::with_service_time(12, 10_000_000));
        assert_eq!(remark_value(&remarks, "lookup_limit"), 16.0);
        assert!((remark_value(&remarks, "lookups_per_s") - 1200.0).abs() < 20.0, "{remarks:?}");
        assert!((remark_value(&remarks, "basic_disks") - 12.0).abs() < 0.2);
        assert!((remark_value(&remarks, "lookup_at_default") - 1.0).abs() < 0.02);
        assert!((remark_value(&remarks, "build_to_scan") - 1.0).abs() < 0.02);
    }

    #[test]
    fn clients_of_the_file_server_never_pause() {
        let (runs, remarks) = run_on_fake(&NETBENCH_MIX, 64 * MIB, || FakeDevice::with_service_time(4, 1_000_000));
        // four at once, 1 ms each: 4000 a second from four clients on
        let rate = |index: usize| runs[index].requests_per_s;
        assert!((rate(0) - 1000.0).abs() < 10.0 && (rate(1) - 4000.0).abs() < 40.0, "{} {}", rate(0), rate(1));
        assert_eq!(remark_value(&remarks, "knee_clients"), 4.0);
    }
}
