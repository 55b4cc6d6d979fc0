//! What a database server has to do with a bottleneck: who holds a lock, which statements and tables are behind the
//! load of a disk, what a checkpoint does. A server is linked with a disk only where a process of it is among those
//! that cause the load.

use diskwright_base::DatabaseActivity;
use diskwright_base::counter_ids::{database, physical_disk};
use diskwright_base::database_activity::{LockRow, StatementRow};
use diskwright_base::timestamp::format_rfc3339;
use diskwright_base::units::{format_count, format_duration, format_value};

use crate::answer::verdict::{Culprit, Finding};
use crate::culprits::{is_database_program, moved_bytes};
use crate::rules::{ActionFacts, Bottleneck};
use crate::run::Observation;

/// Object of rules on database servers.
pub(crate) const DATABASE: &str = "database";
const PHYSICAL_DISK: &str = "physical_disk";
/// Begin of the ids of rules on locks.
const LOCK_RULES: &str = "database.lock-";
/// The rule on checkpoints that come before their time.
const CHECKPOINT_RULE: &str = "database.checkpoints";
/// Smallest number of sessions, on average, that wait in a statement which is named.
const MIN_NAMED_SESSIONS: f64 = 0.1;
/// Smallest rate of a table which is named, bytes per second.
const MIN_NAMED_RATE: f64 = 1e5;
/// Largest number of tables that are named.
const MAX_NAMED_TABLES: usize = 2;
/// Largest length of a statement in a sentence, characters.
const MAX_STATEMENT_CHARS: usize = 100;

/// True where a finding is about locks, which no disk could free.
pub(crate) fn is_about_lock(finding: &Finding) -> bool {
    is_lock_rule(&finding.object, &finding.rule)
}

/// True for a rule about locks.
pub(crate) fn is_lock_rule(object: &str, rule: &str) -> bool {
    object == DATABASE && rule.starts_with(LOCK_RULES)
}

/// True for a rule by which a lock is held by a session that does nothing: nothing else can be the reason for it.
pub(crate) fn is_idle_lock_holder(counter: &str) -> bool {
    counter == database::IDLE_LOCK_HOLDERS
}

/// A statement in a sentence.
fn quote_statement(statement: &str) -> String {
    match statement.char_indices().nth(MAX_STATEMENT_CHARS) {
        Some((end, _)) => format!("`{}…`", &statement[..end]),
        None => format!("`{statement}`"),
    }
}

/// The lock for which sessions waited longest in total.
pub(crate) fn worst_lock<'a>(
    observed: &'a Observation,
    finding: &Finding,
) -> Option<(&'a DatabaseActivity, &'a LockRow)> {
    let server = observed.databases.server(&finding.instance).filter(|_| is_about_lock(finding))?;
    // the rule on idle holders is about one of them
    let is_meant = |lock: &&LockRow| !is_idle_lock_holder(&finding.counter) || lock.is_idle;
    server.locks.iter().find(is_meant).or(server.locks.first()).map(|lock| (server, lock))
}

/// Since when a lock can have been held, and what its holder does.
fn holder_text(server: &DatabaseActivity, lock: &LockRow) -> String {
    let what = if lock.what.is_empty() { "it".to_owned() } else { format!("the lock on {}", lock.what) };
    let since = lock.transaction_s.map(|seconds| {
        let began_ns = lock.seen_ns.saturating_sub((seconds * 1e9) as i64);
        let time = format_rfc3339(began_ns);
        let time = time.get(11..19).unwrap_or_default().to_owned();
        format!(", in a transaction that began at {time} UTC, open for {},", format_duration(seconds.round()))
    });
    let does = match (lock.is_idle, lock.waits_for.is_empty()) {
        (true, _) => " and is idle: its client sends nothing".to_owned(),
        (false, false) => format!(" and itself waits ({})", lock.waits_for),
        (false, true) => " and runs".to_owned(),
    };
    let statement = match lock.statement.as_str() {
        "" => String::new(),
        text if lock.is_idle => format!("; its last statement: {}", quote_statement(text)),
        text => format!("; it runs {}", quote_statement(text)),
    };
    format!("{} holds {what}{}{does}{statement}", lock.holder.describe(&server.engine), since.unwrap_or_default())
}

/// The verdict on a lock; `held` says for how much of the window. `None` where the log does not show its holder.
pub(crate) fn lock_sentence(observed: &Observation, finding: &Finding, noun: &str, held: &str) -> Option<String> {
    let (server, lock) = worst_lock(observed, finding)?;
    let waiting = format_count(u64::from(lock.waiting), "session waits", "sessions wait");
    let longest = format_duration(lock.longest_wait_s.round());
    Some(format!(
        "A lock in {} is {noun}, not a disk: {waiting} for it, the longest for {longest} ({held}). {}.",
        finding.instance,
        holder_text(server, lock)
    ))
}

/// The session that holds a lock, as a culprit.
pub(crate) fn lock_culprits(observed: &Observation, finding: &Finding) -> Vec<Culprit> {
    let Some((server, lock)) = worst_lock(observed, finding) else { return Vec::new() };
    let is_process = server.engine == "postgres" && server.is_local;
    vec![Culprit {
        kind: if is_process { "process" } else { "session" }.into(),
        pid: lock.holder.tid.filter(|_| is_process),
        name: if is_process { "postgres".into() } else { finding.instance.clone() },
        statement: Some(lock.statement.clone()).filter(|text| !text.is_empty()),
        processes: 1,
        description: holder_text(server, lock),
        ..Culprit::default()
    }]
}

/// The server that a process belongs to, if it is watched. A process of PostgreSQL is known by its session, one of
/// MariaDB by its id: there may be other servers on the machine.
fn server_of_culprit<'a>(observed: &'a Observation, culprit: &Culprit) -> Option<&'a DatabaseActivity> {
    let pid = culprit.pid.filter(|_| is_database_program(&culprit.name))?;
    let is_own = |server: &&DatabaseActivity| {
        server.pids.contains(&pid) || server.sessions.iter().any(|row| row.identity.tid == Some(pid))
    };
    observed.databases.local_servers().find(is_own)
}

/// The device of the filesystem that holds the data of a server, where both are known.
fn data_device<'a>(observed: &'a Observation, server: &DatabaseActivity) -> Option<&'a str> {
    let setting = |name: &str| server.settings.get(name);
    let folder = setting("data_directory").or_else(|| setting("datadir"))?;
    let holds = |mount: &str| {
        let rest = folder.strip_prefix(mount.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let held_by = observed.topology.as_ref()?.filesystems.iter().filter(|filesystem| holds(&filesystem.mount));
    held_by.max_by_key(|filesystem| filesystem.mount.len()).map(|filesystem| filesystem.device.as_str())
}

/// True where the data of a server are known to lie on other disks than this one.
fn is_known_elsewhere(observed: &Observation, server: &DatabaseActivity, disk: &str) -> bool {
    let Some(topology) = observed.topology.as_ref().filter(|topology| topology.find_device(disk).is_some()) else {
        return false;
    };
    data_device(observed, server).is_some_and(|device| {
        topology.find_device(device).is_some() && !topology.stands_on(device, disk) && !topology.stands_on(disk, device)
    })
}

/// Adds to processes of database servers what they execute.
pub(crate) fn add_statements(observed: &Observation, culprits: &mut [Culprit]) {
    for culprit in culprits.iter_mut().filter(|culprit| culprit.pid.is_some() && culprit.statement.is_none()) {
        let Some(server) = server_of_culprit(observed, culprit) else { continue };
        let own = server.sessions.iter().find(|row| row.identity.tid.is_some() && row.identity.tid == culprit.pid);
        let (does, statement) = match own {
            Some(row) => ("executes", Some(row.statement.as_str())),
            // it works for all sessions: of them that which waits most for disks
            None => ("its sessions wait most in", waiting_statements(server).first().map(|row| row.statement.as_str())),
        };
        let Some(statement) = statement.filter(|text| !text.is_empty()) else { continue };
        culprit.description += &format!("; {does} {}", quote_statement(statement));
        culprit.statement = Some(statement.to_owned());
    }
}

/// Statements that wait for data or the log, or that read, the heaviest first.
fn waiting_statements(server: &DatabaseActivity) -> Vec<&StatementRow> {
    let disk_s = |row: &StatementRow| row.times.data_s + row.times.log_s;
    let mut rows: Vec<&StatementRow> = server.statements.iter().filter(|row| disk_s(row) > 0.0).collect();
    rows.sort_by(|a, b| disk_s(b).total_cmp(&disk_s(a)));
    rows
}

/// What the servers among the culprits do to a disk: the statement that waits most, and the tables that are moved most.
pub(crate) fn disk_load_text(observed: &Observation, finding: &Finding, culprits: &[Culprit]) -> String {
    if finding.bottleneck != Bottleneck::Disk {
        return String::new();
    }
    let mut servers: Vec<&DatabaseActivity> =
        culprits.iter().filter_map(|culprit| server_of_culprit(observed, culprit)).collect();
    if finding.object == DATABASE {
        servers.extend(observed.databases.server(&finding.instance));
    }
    if finding.object == PHYSICAL_DISK {
        servers.retain(|server| !is_known_elsewhere(observed, server, &finding.instance));
    }
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers.dedup_by(|a, b| a.name == b.name);
    servers.into_iter().filter_map(server_load_text).collect()
}

fn server_load_text(server: &DatabaseActivity) -> Option<String> {
    if server.elapsed_s <= 0.0 {
        return None;
    }
    let mut parts: Vec<String> = Vec::new();
    if let Some(row) = waiting_statements(server).first() {
        let (data, log) = (row.times.data_s / server.elapsed_s, row.times.log_s / server.elapsed_s);
        if data.max(log) >= MIN_NAMED_SESSIONS {
            let what = if data >= log { "for data" } else { "for its log" };
            let sessions = format_value(data.max(log), "");
            parts.push(format!("{sessions} sessions on average wait {what} in {}", quote_statement(&row.statement)));
        }
    }
    let rate = |bytes: f64| bytes / server.elapsed_s;
    let moved = server.relations.iter().filter(|row| rate(moved_bytes(row)) >= MIN_NAMED_RATE);
    let tables: Vec<String> = moved
        .take(MAX_NAMED_TABLES)
        .map(|row| {
            let written = row.written_bytes.filter(|bytes| rate(*bytes) >= MIN_NAMED_RATE);
            let written = written.map(|bytes| format!("writes {} of", format_value(rate(bytes), "bytes_per_s")));
            let read = format!("reads {} of", format_value(rate(row.read_bytes), "bytes_per_s"));
            let does = if rate(row.read_bytes) >= MIN_NAMED_RATE { Some(read) } else { None };
            let does: Vec<String> = does.into_iter().chain(written).collect();
            format!("it {} {}", does.join(" and "), row.name)
        })
        .collect();
    parts.extend(tables);
    (!parts.is_empty()).then(|| format!(" {}: {}.", server.name, parts.join("; ")))
}

/// What the subject of a sentence on a database server is called.
pub(crate) fn database_subject(finding: &Finding, noun: &str) -> String {
    let server = &finding.instance;
    match finding.bottleneck {
        Bottleneck::Application => format!("Locks in {server} are {noun}, not a disk"),
        _ if finding.rule == CHECKPOINT_RULE => format!("The disk under {server} is {noun}"),
        _ => format!("The transaction log of {server} is {noun}"),
    }
}

/// Facts for commands against what a server does.
pub(crate) fn add_database_facts(facts: &mut ActionFacts, observed: &Observation, finding: &Finding) {
    if finding.rule == FLUSH_RULE {
        add_commit_facts(facts, observed, finding);
    }
    let Some(server) = observed.databases.server(&finding.instance).filter(|_| finding.object == DATABASE) else {
        return;
    };
    match server.engine.as_str() {
        "postgres" => add_postgres_place(facts, server),
        _ => facts.extend(mysql_place(&server.address).map(|place| ("mysql_place", place))),
    }
    if let Some((_, lock)) = worst_lock(observed, finding) {
        facts.insert("lock_holder", lock.holder.id.to_string());
        if lock.is_idle {
            facts.insert("idle_holder", String::new());
        }
    }
    if finding.rule == CHECKPOINT_RULE {
        add_log_size(facts, observed, server, finding);
    }
}

/// Where a role that may change something reaches a PostgreSQL server: the role that asks it may only read.
fn add_postgres_place(facts: &mut ActionFacts, server: &DatabaseActivity) {
    let (scheme, place) = server.address.split_once("://").unwrap_or(("postgres", &server.address));
    let end = place.find(['/', '?']).unwrap_or(place.len());
    let host = place[..end].rsplit('@').next().unwrap_or_default();
    facts.insert("postgres_url", format!("{scheme}://{host}{}", &place[end..]));
    let name = host.trim_start_matches('[').split([']', ':']).next().unwrap_or_default();
    let names_remote_host = place.contains("host=") && !place.contains("host=/") && !place.contains("host=%2F");
    let is_local = (host.is_empty() && !names_remote_host)
        || host.starts_with("[::1]")
        || matches!(name, "localhost" | "127.0.0.1");
    let setting = |name: &str| server.settings.get(name).filter(|text| !text.is_empty());
    let folder = setting("unix_socket_directories").and_then(|list| list.split(',').next());
    if let (true, Some(folder), Some(port)) = (is_local, folder, setting("port")) {
        facts.insert("postgres_socket", folder.trim().to_owned());
        facts.insert("postgres_port", port.clone());
    }
}

/// Rule on commits that wait for a disk's flushes.
const FLUSH_RULE: &str = "disk.flush-bound";
/// Largest `commit_delay` of PostgreSQL, microseconds.
const MAX_COMMIT_DELAY_US: f64 = 100_000.0;

/// What can change how often a PostgreSQL server flushes the blamed disk: the server whose sessions wait most for their
/// log, if its data are not known to lie elsewhere.
fn add_commit_facts(facts: &mut ActionFacts, observed: &Observation, finding: &Finding) {
    let waited_s = |server: &DatabaseActivity| server.sessions.iter().map(|row| row.times.log_s).sum::<f64>();
    let servers = observed.databases.local_servers();
    let waiting = servers.filter(|server| server.engine == "postgres" && waited_s(server) > 0.0);
    let here = waiting.filter(|server| !is_known_elsewhere(observed, server, &finding.instance));
    let Some(server) = here.max_by(|a, b| waited_s(a).total_cmp(&waited_s(b))) else { return };
    add_postgres_place(facts, server);
    let setting = |name: &str| server.settings.get(name).map(String::as_str);
    let flush = finding.evidence.iter().find(|e| e.counter == physical_disk::AVG_S_PER_FLUSH).and_then(|e| e.value);
    if let (Some("0"), Some(flush_s)) = (setting("commit_delay"), flush) {
        // PostgreSQL 16, 30.5: half of the time of a flush
        let delay_us = (flush_s * 1e6 / 2.0).round().clamp(1.0, MAX_COMMIT_DELAY_US);
        facts.insert("commit_delay", format!("{delay_us:.0}"));
    }
    if setting("synchronous_commit") == Some("on") {
        facts.insert("waits_for_log", String::new());
    }
}

/// The option that names a MariaDB or MySQL server, without its dashes.
fn mysql_place(address: &str) -> Option<String> {
    let (place, options) = address.split_once('?').unwrap_or((address, ""));
    let socket = options.split('&').find_map(|option| option.strip_prefix("socket="));
    let server = place.split_once("://")?.1.split('/').next()?;
    let host = server.rsplit('@').next().filter(|host| !host.is_empty() && !host.contains([':', '[']));
    match (socket, host) {
        (Some(path), _) => Some(format!("socket={}", path.replace("%2F", "/"))),
        (None, Some(host)) => Some(format!("host={host}")),
        (None, None) => None,
    }
}

/// The size of the log with which checkpoints come by time, from the bytes that were logged; where the disk has no room
/// for it, the size that fits.
fn add_log_size(facts: &mut ActionFacts, observed: &Observation, server: &DatabaseActivity, finding: &Finding) {
    let rate = finding.evidence.iter().find(|e| e.counter == database::LOG_BYTES_PER_S).and_then(|e| e.value);
    let setting = |name: &str| server.settings.get(name).map(String::as_str);
    let (Some(now), Some(rate)) = (setting("max_wal_size"), rate) else { return };
    let timeout_s = setting("checkpoint_timeout").and_then(parse_setting_s).unwrap_or(300.0);
    let target = setting("checkpoint_completion_target").and_then(|text| text.parse().ok()).unwrap_or(0.9);
    // PostgreSQL begins a checkpoint when the log since the last one reaches max_wal_size / (1 + target)
    let needed = rate * timeout_s * (1.0 + target) * 1.2;
    let needed = (needed / GIB).ceil().max(1.0) * GIB;
    let current = diskwright_base::byte_size::parse_memory_size(now).map_or(0.0, |bytes| bytes as f64);
    let device = observed.topology.as_ref().zip(data_device(observed, server));
    let device_bytes = device.and_then(|(topology, name)| topology.find_device(name)?.bytes);
    let room = device_bytes.map_or(MAX_LOG_BYTES, |bytes| (MAX_LOG_SHARE * bytes as f64).min(MAX_LOG_BYTES));
    facts.insert("max_wal_size", now.to_owned());
    if needed <= room && needed > current {
        facts.insert("more_wal", format!("{:.0}GB", needed / GIB));
    } else if room < needed && room >= MIN_LOG_GROWTH * current && current > 0.0 {
        facts.insert("enough_wal", format!("{:.0}GB", needed / GIB));
        facts.insert("some_wal", format!("{:.0}MB", (room / MIB).floor()));
        facts.insert("times", format!("{:.0}", room / current));
    }
}

const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;
/// Smallest factor by which a log that is still too small is raised. Our choice.
const MIN_LOG_GROWTH: f64 = 2.0;
/// Largest log that is advised: it is read again after a crash.
const MAX_LOG_BYTES: f64 = 64.0 * GIB;
/// Largest share of the data's device that is advised for the log: a full one stops the server. Our choice.
const MAX_LOG_SHARE: f64 = 0.2;

/// Seconds of a setting such as `5min`, `30s` or `1h`.
fn parse_setting_s(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "" | "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_time_are_read() {
        assert_eq!(parse_setting_s("5min"), Some(300.0));
        assert_eq!((parse_setting_s("30s"), parse_setting_s("1h")), (Some(30.0), Some(3600.0)));
        assert_eq!(parse_setting_s("soon"), None);
    }

    #[test]
    fn a_server_is_named_for_its_client() {
        assert_eq!(mysql_place("mysql://watch@localhost/?socket=/run/a.sock").as_deref(), Some("socket=/run/a.sock"));
        assert_eq!(mysql_place("mysql://watch@db1/shop").as_deref(), Some("host=db1"));
        // a port or an address of version 6 takes options of its own
        assert_eq!((mysql_place("mysql://watch@db1:3307/"), mysql_place("mysql://[::1]/")), (None, None));
    }
}
