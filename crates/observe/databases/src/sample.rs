//! What a server answers: facts when it is first asked, samples at short intervals, details at the slow interval.

use std::collections::BTreeMap;

use diskwright_base::database_activity::{DatabaseProcessRow, RelationRow, SessionIdentity, StatementRow};

use crate::cell_board::SampleValues;
use crate::client_process::ClientError;

/// Facts about a server that change seldom.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerFacts {
    /// Its version as it says it.
    pub version: String,
    /// Ids of its processes that serve no single client.
    pub pids: Vec<u32>,
    /// Settings that bear on disks.
    pub settings: BTreeMap<String, String>,
    /// What it does not measure or show to this user, and how to change that: a sentence each.
    pub unseen: Vec<String>,
}

/// What a session that is active waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// Nothing that is known: it computes, or waits for its client, another process, or a latch.
    #[default]
    Other,
    /// A lock.
    Lock,
    /// The transaction log.
    Log,
    /// Reads or writes of data.
    Data,
}

/// A session at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SampledSession {
    /// Who it is.
    pub identity: SessionIdentity,
    /// Its state.
    pub state: String,
    /// True while a statement runs.
    pub is_active: bool,
    /// True while a transaction is open and the client sends nothing.
    pub is_idle_in_transaction: bool,
    /// What it waits for, as the server names it.
    pub waits_for: String,
    /// Its kind.
    pub wait: WaitKind,
    /// Age of its transaction, seconds.
    pub transaction_s: Option<f64>,
    /// Time for which it has waited for a lock, seconds.
    pub lock_wait_s: Option<f64>,
    /// Its statement, or the last one, masked.
    pub statement: String,
    /// Sessions that hold the lock for which it waits.
    pub blocked_by: Vec<u64>,
    /// The lock for which it waits.
    pub lock: String,
}

/// One look at a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Running totals and levels that the server counts itself.
    pub values: SampleValues,
    /// Its sessions, but for idle ones and our own.
    pub sessions: Vec<SampledSession>,
}

/// Running totals by table, statement and kind of process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Details {
    pub relations: Vec<RelationRow>,
    pub statements: Vec<StatementRow>,
    pub processes: Vec<DatabaseProcessRow>,
}

/// Asks the server; the answer is its lines.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<String>, ClientError>;

/// The statements for one kind of server, and what its answers mean.
pub(crate) trait ServerQueries: Send {
    /// Prepares the session and reads the facts.
    fn read_facts(&mut self, ask: Ask<'_>) -> Result<ServerFacts, ClientError>;
    /// Looks at the sessions and reads the totals.
    fn read_sample(&mut self, ask: Ask<'_>) -> Result<Sample, ClientError>;
    /// Reads totals by table, statement and kind of process.
    fn read_details(&mut self, ask: Ask<'_>) -> Result<Details, ClientError>;
}
