//! Activity of database servers over the window: the sums of their notes.

use std::collections::BTreeMap;

use diskwright_base::DatabaseActivity;
use diskwright_base::database_activity::{
    DatabaseProcessRow, LockRow, RelationRow, SessionRow, StatementRow, TransactionRow,
};

/// Servers that are followed.
const MAX_SERVERS: usize = 64;
/// Rows of each list that are followed.
const MAX_ROWS: usize = 1_000;
/// Rows of each list that a verdict shows.
const MAX_SHOWN: usize = 8;
/// Names of the processes of servers.
const SERVER_PROGRAMS: [&str; 5] = ["postgres", "postmaster", "mariadbd", "mysqld", "mysqld_safe"];

/// Database servers over the window, by the instance of their counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseTotals {
    servers: BTreeMap<String, DatabaseActivity>,
}

impl DatabaseTotals {
    /// Adds a note.
    pub fn add_activity(&mut self, activity: &DatabaseActivity) {
        if !self.servers.contains_key(&activity.name) && self.servers.len() >= MAX_SERVERS {
            return;
        }
        let known = self.servers.entry(activity.name.clone()).or_default();
        let seconds = known.elapsed_s + activity.elapsed_s;
        let samples = known.samples.saturating_add(activity.samples);
        let lists = std::mem::replace(known, activity.clone());
        (known.elapsed_s, known.samples) = (seconds, samples);
        merge_rows(&mut known.locks, lists.locks, |row| row.holder.id, merge_lock);
        merge_rows(&mut known.sessions, lists.sessions, |row| row.identity.id, merge_session);
        merge_rows(&mut known.statements, lists.statements, |row| row.statement.clone(), merge_statement);
        merge_rows(&mut known.relations, lists.relations, |row| row.name.clone(), merge_relation);
        merge_rows(&mut known.processes, lists.processes, |row| row.kind.clone(), merge_process);
        merge_rows(
            &mut known.waits,
            lists.waits,
            |row| row.event.clone(),
            |now, before| now.waited_s += before.waited_s,
        );
        merge_rows(&mut known.transactions, lists.transactions, |row| row.identity.id, merge_transaction);
        if let Some(before) = lists.checkpoints {
            known.checkpoints.get_or_insert_default().add_sums(&before);
        }
        known.locks.sort_by(|a, b| b.waited_s.total_cmp(&a.waited_s));
        known.sessions.sort_by(|a, b| b.times.active_s.total_cmp(&a.times.active_s));
        known.statements.sort_by(|a, b| b.times.active_s.total_cmp(&a.times.active_s));
        known.relations.sort_by(|a, b| moved_bytes(b).total_cmp(&moved_bytes(a)));
        known.waits.sort_by(|a, b| b.waited_s.total_cmp(&a.waited_s));
        known.transactions.sort_by(|a, b| b.transaction_s.total_cmp(&a.transaction_s));
        known.waits.truncate(MAX_ROWS);
        known.transactions.truncate(MAX_ROWS);
        known.locks.truncate(MAX_ROWS);
        known.sessions.truncate(MAX_ROWS);
        known.statements.truncate(MAX_ROWS);
        known.relations.truncate(MAX_ROWS);
    }

    /// The server whose counters have this instance.
    pub fn server(&self, instance: &str) -> Option<&DatabaseActivity> {
        self.servers.get(instance)
    }

    /// The servers on this machine.
    pub fn local_servers(&self) -> impl Iterator<Item = &DatabaseActivity> {
        self.servers.values().filter(|server| server.is_local)
    }

    /// The servers with the first rows of each list.
    pub fn shown_servers(&self) -> Vec<DatabaseActivity> {
        let mut servers: Vec<DatabaseActivity> = self.servers.values().cloned().collect();
        for server in &mut servers {
            server.locks.truncate(MAX_SHOWN);
            server.sessions.truncate(MAX_SHOWN);
            server.statements.truncate(MAX_SHOWN);
            server.relations.truncate(MAX_SHOWN);
            server.waits.truncate(MAX_SHOWN);
            server.transactions.truncate(MAX_SHOWN);
        }
        servers
    }
}

/// True for a process of a database server, by its name.
pub(crate) fn is_database_program(name: &str) -> bool {
    SERVER_PROGRAMS.contains(&name)
}

/// Bytes that were read and written for a table.
pub(crate) fn moved_bytes(row: &RelationRow) -> f64 {
    row.read_bytes + row.written_bytes.unwrap_or(0.0)
}

/// Adds the rows of before to those of now, those of one key together.
fn merge_rows<T, K: Ord>(now: &mut Vec<T>, before: Vec<T>, key: impl Fn(&T) -> K, merge: impl Fn(&mut T, T)) {
    let mut positions: BTreeMap<K, usize> = now.iter().enumerate().map(|(index, row)| (key(row), index)).collect();
    for row in before {
        match positions.get(&key(&row)) {
            Some(index) => merge(&mut now[*index], row),
            None => {
                positions.insert(key(&row), now.len());
                now.push(row);
            }
        }
    }
}

fn add_known(sum: &mut Option<f64>, other: Option<f64>) {
    if let Some(other) = other {
        *sum = Some(sum.unwrap_or(0.0) + other);
    }
}

/// What the later note says of the holder stays.
fn merge_lock(now: &mut LockRow, before: LockRow) {
    now.waiting = now.waiting.max(before.waiting);
    now.waited_s += before.waited_s;
    if before.longest_wait_s > now.longest_wait_s {
        now.longest_wait_s = before.longest_wait_s;
        now.waiting_statement = before.waiting_statement;
    }
    if now.what.is_empty() {
        now.what = before.what;
    }
}

fn merge_session(now: &mut SessionRow, before: SessionRow) {
    if before.times.active_s > now.times.active_s && !before.statement.is_empty() {
        (now.statement, now.waits_for) = (before.statement, before.waits_for);
    }
    now.times.add_times(&before.times);
}

/// The longer transaction of a session stays.
fn merge_transaction(now: &mut TransactionRow, before: TransactionRow) {
    if before.transaction_s > now.transaction_s {
        *now = before;
    }
}

fn merge_statement(now: &mut StatementRow, before: StatementRow) {
    now.times.add_times(&before.times);
    add_known(&mut now.calls, before.calls);
    add_known(&mut now.time_s, before.time_s);
    add_known(&mut now.read_bytes, before.read_bytes);
}

fn merge_relation(now: &mut RelationRow, before: RelationRow) {
    now.read_bytes += before.read_bytes;
    add_known(&mut now.written_bytes, before.written_bytes);
    add_known(&mut now.rows_changed, before.rows_changed);
}

fn merge_process(now: &mut DatabaseProcessRow, before: DatabaseProcessRow) {
    now.read_bytes += before.read_bytes;
    now.written_bytes += before.written_bytes;
    now.syncs += before.syncs;
    add_known(&mut now.read_s, before.read_s);
    add_known(&mut now.write_s, before.write_s);
    add_known(&mut now.sync_s, before.sync_s);
}
