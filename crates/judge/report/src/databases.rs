//! Database servers of a verdict as tables of texts, for the page of `report` and that of `serve`.

use diskwright_base::DatabaseActivity;
use diskwright_base::byte_size::CAPACITY_UNIT;
use diskwright_base::database_activity::{DatabaseProcessRow, LockRow, RelationRow, StatementRow, TransactionRow};
use diskwright_base::units::format_value;
use diskwright_base::units::{format_count, format_duration, format_significant};
use diskwright_diagnosis::Verdict;
use serde::Serialize;

/// Largest number of rows of a table.
const MAX_ROWS: usize = 6;

/// What is told of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatabaseSummary {
    /// Its name and version.
    pub title: String,
    /// Sentences on it.
    pub sentences: Vec<String>,
    /// Its tables that have rows.
    pub tables: Vec<DatabaseTable>,
}

/// A table of texts; the first cell of a row names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatabaseTable {
    /// What it is about.
    pub title: &'static str,
    /// Titles of the columns.
    pub columns: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// The column that has statements of SQL.
    pub statements: Option<usize>,
}

/// Summarizes the servers that were asked.
pub fn summarize_databases(verdict: &Verdict) -> Vec<DatabaseSummary> {
    verdict.databases.iter().map(summarize_server).collect()
}

fn summarize_server(server: &DatabaseActivity) -> DatabaseSummary {
    let tables = [
        lock_table(server),
        wait_table(server),
        transaction_table(server),
        statement_table(server),
        relation_table(server),
        process_table(server),
    ];
    let looks = format_count(server.samples, "time", "times");
    let mut sentences = vec![format!(
        "Its sessions were looked at {looks} within {}; times are sums over all sessions.",
        format_duration(server.elapsed_s)
    )];
    sentences.extend(checkpoint_sentence(server));
    let engine = if server.engine == "postgres" { "PostgreSQL " } else { "" };
    let version = if server.version.is_empty() { String::new() } else { format!(" ({engine}{})", server.version) };
    DatabaseSummary {
        title: format!("{}{version}", server.name),
        sentences,
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
    }
}

fn make_table<T>(
    title: &'static str,
    columns: Vec<&'static str>,
    statements: Option<usize>,
    rows: &[T],
    texts: impl Fn(&T) -> Vec<String>,
) -> DatabaseTable {
    let rows: Vec<Vec<String>> = rows.iter().take(MAX_ROWS).map(texts).collect();
    // a column of which nothing is known only takes room
    let kept: Vec<usize> = (0..columns.len()).filter(|index| rows.iter().any(|row| !row[*index].is_empty())).collect();
    DatabaseTable {
        title,
        columns: kept.iter().map(|index| columns[*index]).collect(),
        statements: statements.and_then(|column| kept.iter().position(|index| *index == column)),
        rows: rows.iter().map(|row| kept.iter().map(|index| row[*index].clone()).collect()).collect(),
    }
}

/// A value whose unit stays in its line.
fn unbroken_text(value: f64, unit: &str) -> String {
    format_value(value, unit).replace(' ', "\u{a0}")
}

/// A duration; empty where there is none.
fn duration_text(seconds: f64) -> String {
    if seconds > 0.0 { unbroken_text(seconds, "s") } else { String::new() }
}

fn bytes_text(bytes: f64) -> String {
    if bytes > 0.0 { unbroken_text(bytes, CAPACITY_UNIT) } else { String::new() }
}

fn lock_table(server: &DatabaseActivity) -> DatabaseTable {
    let texts = |lock: &LockRow| {
        let age = lock.transaction_s.map_or(String::new(), |s| format!(", for {}", format_duration(s.round())));
        let held = if lock.what.is_empty() { "a lock" } else { &lock.what };
        let waiting = format_count(lock.waiting, "session waits", "sessions wait");
        vec![
            lock.holder.describe(&server.engine),
            format!("{held}{age}"),
            if lock.is_idle { "idle: its client sends nothing".to_owned() } else { lock.state.clone() },
            format!("{waiting}, the longest for {}", format_duration(lock.longest_wait_s.round())),
            lock.statement.clone(),
        ]
    };
    let columns = vec!["Session", "Lock", "State", "Who waits", "Its last statement"];
    make_table("Who holds locks that others wait for", columns, Some(4), &server.locks, texts)
}

fn wait_table(server: &DatabaseActivity) -> DatabaseTable {
    make_table("What sessions waited for", vec!["Event", "Time", "Sessions on average"], None, &server.waits, |wait| {
        let average = if server.elapsed_s > 0.0 { wait.waited_s / server.elapsed_s } else { 0.0 };
        vec![wait.event.clone(), duration_text(wait.waited_s), format!("{average:.2}")]
    })
}

fn transaction_table(server: &DatabaseActivity) -> DatabaseTable {
    let texts = |row: &TransactionRow| {
        let age = format_duration(row.transaction_s.round());
        vec![row.identity.describe(&server.engine), age, row.state.clone(), row.statement.clone()]
    };
    let columns = vec!["Session", "Age", "State", "Its last statement"];
    make_table("Longest transactions", columns, Some(3), &server.transactions, texts)
}

fn statement_table(server: &DatabaseActivity) -> DatabaseTable {
    let texts = |row: &StatementRow| {
        vec![
            row.statement.clone(),
            duration_text(row.time_s.unwrap_or(row.times.active_s)),
            row.calls.map_or(String::new(), format_significant),
            duration_text(row.times.lock_s),
            duration_text(row.times.log_s),
            duration_text(row.times.data_s),
            bytes_text(row.read_bytes.unwrap_or(0.0)),
        ]
    };
    let columns =
        vec!["Statement", "Time", "Calls", "Waited for locks", "Waited for the log", "Waited for data", "Read"];
    make_table("Statements", columns, Some(0), &server.statements, texts)
}

fn relation_table(server: &DatabaseActivity) -> DatabaseTable {
    let texts = |row: &RelationRow| {
        let changed = row.rows_changed.filter(|rows| *rows > 0.0).map_or(String::new(), format_significant);
        vec![row.name.clone(), bytes_text(row.read_bytes), bytes_text(row.written_bytes.unwrap_or(0.0)), changed]
    };
    make_table("Tables", vec!["Table", "Read", "Written", "Rows changed"], None, &server.relations, texts)
}

fn process_table(server: &DatabaseActivity) -> DatabaseTable {
    let texts = |row: &DatabaseProcessRow| {
        let time = |seconds: Option<f64>| duration_text(seconds.unwrap_or(0.0));
        let flushes = if row.syncs > 0.0 { format_significant(row.syncs) } else { String::new() };
        vec![
            row.kind.clone(),
            bytes_text(row.read_bytes),
            time(row.read_s),
            bytes_text(row.written_bytes),
            time(row.write_s),
            flushes,
            time(row.sync_s),
        ]
    };
    let columns = vec!["Process", "Read", "Time of reads", "Written", "Time of writes", "Flushes", "Time of flushes"];
    make_table("I/O by kind of process", columns, None, &server.processes, texts)
}

/// What checkpoints did, where the server counts them.
fn checkpoint_sentence(server: &DatabaseActivity) -> Option<String> {
    let sums = server.checkpoints?;
    let setting = |name: &str| server.settings.get(name).map_or(String::new(), |value| format!(" ({name} = {value})"));
    if sums.timed + sums.requested <= 0.0 && sums.written_bytes <= 0.0 && sums.hurrying_s <= 0.0 {
        return Some("No checkpoint ended.".into());
    }
    let hurrying = match sums.hurrying_s {
        s if s > 0.0 => format!(" For {} of the time, one worked without pauses.", format_duration(s)),
        _ => String::new(),
    };
    Some(format!(
        "Checkpoints: {} because it was time{}, {} because the log had reached its size{} or on demand. They wrote {} \
         within {} and flushed for {}.{hurrying}",
        format_significant(sums.timed),
        setting("checkpoint_timeout"),
        format_significant(sums.requested),
        setting("max_wal_size"),
        format_value(sums.written_bytes, CAPACITY_UNIT),
        format_duration(sums.write_s),
        format_duration(sums.sync_s),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_server_is_told_with_locks_waits_transactions_processes_and_checkpoints() {
        let verdict = fixture::verdict_with_databases();
        let found = summarize_databases(&verdict);
        assert_eq!(found[0].title, "postgres:shop (PostgreSQL 16.4)");
        let first_cells: Vec<&str> = found[0].tables.iter().map(|table| table.rows[0][0].as_str()).collect();
        let holder = "PID 1122 (user app, psql, from 10.0.0.7)";
        let statement = "UPDATE orders SET note = ? WHERE id = ?";
        assert_eq!(first_cells, [holder, "Lock: transactionid", holder, statement, "public.orders", "checkpointer"]);
        assert_eq!(found[0].tables[1].rows[0][1..], ["240\u{a0}s", "0.80"]);
        let checkpoints = &found[0].sentences[1];
        assert!(checkpoints.contains("14 because the log had reached its size (max_wal_size = 64MB)"), "{checkpoints}");
        assert!(found[0].tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.columns.len())));
        assert_eq!(found[0].tables[5].columns, ["Process", "Written", "Time of writes", "Flushes", "Time of flushes"]);
        // MariaDB counts neither checkpoints nor processes
        assert_eq!((found[1].title.as_str(), found[1].sentences.len()), ("mysql:local (10.11.6-MariaDB)", 1));
    }

    #[test]
    fn without_servers_there_is_nothing_to_tell() {
        assert!(summarize_databases(&fixture::sample_verdict()).is_empty());
    }
}
