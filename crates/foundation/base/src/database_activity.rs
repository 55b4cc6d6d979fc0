//! What a database server did over a period, beside its counters: who waited for what, which statements and tables
//! moved most, who held a lock. Texts of statements have their literals masked and are cut.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Activity of one database server between two notes. An empty list is one of which nothing is known, or nothing
/// happened; what could not be read is told in `unseen` notes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseActivity {
    /// Instance of its counters, such as `postgres:shop`.
    pub name: String,
    /// `postgres` or `mysql`; MariaDB is `mysql`.
    pub engine: String,
    /// Its version as it says it.
    pub version: String,
    /// Address that it was asked at, without a password.
    pub address: String,
    /// Ids of its processes that serve no single client: of MariaDB the only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// True where it runs on this machine, by its address.
    pub is_local: bool,
    /// Period that it covers, seconds.
    pub elapsed_s: f64,
    /// Number of times that the sessions were looked at.
    pub samples: u32,
    /// Settings that bear on disks, locks and checkpoints, as the server prints them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Sessions that held locks for which others waited, longest wait first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockRow>,
    /// Sessions that were active, most active first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionRow>,
    /// Statements, most time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementRow>,
    /// Tables, most bytes first; of PostgreSQL those of the database in the address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<RelationRow>,
    /// I/O by kind of process, most bytes first; PostgreSQL from version 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<DatabaseProcessRow>,
    /// What active sessions waited for, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitRow>,
    /// Transactions that were open longest, idle ones too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transactions: Vec<TransactionRow>,
    /// Checkpoints, where the server counts them: PostgreSQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointSums>,
}

/// Something that active sessions waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitRow {
    /// The event, as the server names it: `Lock: transactionid`, `wait/io/file/innodb/innodb_data_file`.
    pub event: String,
    /// Time that all sessions waited for it, seconds; sampled.
    pub waited_s: f64,
}

/// A transaction that was open for long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransactionRow {
    /// Its session.
    #[serde(flatten)]
    pub identity: SessionIdentity,
    /// State of the session when it was seen last: `active`, `idle in transaction`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Its age when it was seen last, seconds.
    pub transaction_s: f64,
    /// Its statement, or the last one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
}

/// Checkpoints over the period, by the server's own statistics, which count one at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSums {
    /// Number that began because it was time.
    pub timed: f64,
    /// Number that began because the log had reached its size, or on demand.
    pub requested: f64,
    /// Bytes that they wrote.
    pub written_bytes: f64,
    /// Time in which they wrote, pauses included, seconds.
    pub write_s: f64,
    /// Time in which they flushed files, seconds.
    pub sync_s: f64,
    /// Time in which one worked without pauses, seconds; sampled.
    pub hurrying_s: f64,
}

impl CheckpointSums {
    /// Adds other sums.
    pub fn add_sums(&mut self, other: &CheckpointSums) {
        self.timed += other.timed;
        self.requested += other.requested;
        self.written_bytes += other.written_bytes;
        self.write_s += other.write_s;
        self.sync_s += other.sync_s;
        self.hurrying_s += other.hurrying_s;
    }
}

/// Time that sessions spent by what they did or waited for, seconds; sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionTimes {
    /// All of the time in which a statement ran.
    pub active_s: f64,
    /// Of that, waiting for locks.
    pub lock_s: f64,
    /// Of that, waiting for the transaction log.
    pub log_s: f64,
    /// Of that, waiting for reads and writes of data.
    pub data_s: f64,
}

impl SessionTimes {
    /// Adds other times.
    pub fn add_times(&mut self, other: &SessionTimes) {
        self.active_s += other.active_s;
        self.lock_s += other.lock_s;
        self.log_s += other.log_s;
        self.data_s += other.data_s;
    }
}

/// Who a session is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionIdentity {
    /// Id by which the server knows it and ends it: of PostgreSQL the id of its process, of MySQL that of the
    /// connection.
    pub id: u64,
    /// Id of its process or thread on the server's machine, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Its database.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub database: String,
    /// Name that its program gave; of a process of the server itself, what it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub application: String,
    /// Address of its client; empty for one on the same machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client: String,
}

impl SessionIdentity {
    /// Its name as people look for it: `PID 1122 (user app, psql, from 10.0.0.7)`.
    #[must_use]
    pub fn describe(&self, engine: &str) -> String {
        let id = if engine == "postgres" { "PID" } else { "Connection" };
        let parts = [("user ", &self.user), ("", &self.application), ("from ", &self.client)];
        let known = parts.into_iter().filter(|(_, value)| !value.is_empty());
        let who: Vec<String> = known.map(|(label, value)| format!("{label}{value}")).collect();
        let who = if who.is_empty() { String::new() } else { format!(" ({})", who.join(", ")) };
        format!("{id} {}{who}", self.id)
    }
}

/// A session that was active.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Who it is.
    #[serde(flatten)]
    pub identity: SessionIdentity,
    /// Its state when it was seen last: `active`, `idle in transaction`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// What it waited for most often, as the server names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// Its times.
    #[serde(flatten)]
    pub times: SessionTimes,
    /// Age of its transaction when it was seen last, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction_s: Option<f64>,
    /// The statement that it ran longest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
}

/// A session that held a lock for which others waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockRow {
    /// Who held it.
    pub holder: SessionIdentity,
    /// Its state: `active`, `idle in transaction`, `sleep`.
    pub state: String,
    /// What itself waits for, as the server names it; empty where it computes, or waits for its client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// True where its transaction is open and its client sends nothing.
    pub is_idle: bool,
    /// Its last statement, which need not be the one that took the lock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// Age of its transaction when it was seen last, seconds: the longest that it can have held the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction_s: Option<f64>,
    /// The lock: a table, or what kind of lock it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The most sessions that waited for it at once, through others too.
    pub waiting: u32,
    /// The longest that one waited, seconds.
    pub longest_wait_s: f64,
    /// Time that all of them waited, seconds; sampled.
    pub waited_s: f64,
    /// The statement that waited longest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting_statement: String,
    /// Time at which it was seen last, nanoseconds since 1970 UTC.
    pub seen_ns: i64,
}

/// A statement of any session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatementRow {
    /// Its text, literals masked.
    pub statement: String,
    /// Sampled times of the sessions that ran it.
    #[serde(flatten)]
    pub times: SessionTimes,
    /// Number of times that it was run, by the server's own statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<f64>,
    /// Time that it took, seconds, by the server's own statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// Bytes that it read from the system, by the server's own statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<f64>,
}

/// A table with its indexes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelationRow {
    /// Its name with that of its schema or database.
    pub name: String,
    /// Bytes read from the system.
    pub read_bytes: f64,
    /// Bytes written, where the server counts them by table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<f64>,
    /// Rows inserted, changed and deleted, where the server counts them by table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_changed: Option<f64>,
}

/// I/O of one kind of process of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseProcessRow {
    /// The kind: `client backend`, `checkpointer`, `autovacuum worker`.
    pub kind: String,
    /// Bytes read from the system.
    pub read_bytes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Flushes of files.
    pub syncs: f64,
    /// Time of reads, seconds; not there where the server does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_s: Option<f64>,
    /// Time of writes, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_s: Option<f64>,
    /// Time of flushes, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_s: Option<f64>,
}

impl DatabaseActivity {
    /// Approximate memory of the rows, bytes.
    pub fn memory_bytes(&self) -> usize {
        let rows = self.sessions.len() + self.statements.len() + self.relations.len() + self.locks.len();
        let rows = rows + self.waits.len() + self.transactions.len();
        let texts: usize = self.statements.iter().map(|row| row.statement.len()).sum();
        size_of::<DatabaseActivity>() + rows * size_of::<LockRow>() + texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_what_is_known_of_it() {
        let identity = SessionIdentity {
            id: 1122,
            user: "app".into(),
            application: "psql".into(),
            client: "10.0.0.7".into(),
            ..SessionIdentity::default()
        };
        assert_eq!(identity.describe("postgres"), "PID 1122 (user app, psql, from 10.0.0.7)");
        assert_eq!(SessionIdentity { id: 7, ..SessionIdentity::default() }.describe("mysql"), "Connection 7");
    }
}
