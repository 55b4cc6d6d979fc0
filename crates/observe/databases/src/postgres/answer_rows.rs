//! Rows of PostgreSQL's answers about sessions and locks.

use diskwright_base::database_activity::SessionIdentity;
use serde_json::Value;

use crate::json_rows::{number_of, rows_called, text_of};
use crate::sample::{SampledSession, WaitKind};
use crate::statement_text::{QuoteStyle, mask_statement};

/// Kind of processes that serve clients.
const CLIENT: &str = "client backend";

/// What an event of waiting is for. Names changed their case in version 17.
fn wait_kind(kind: &str, event: &str) -> WaitKind {
    let is_of_log = event.to_ascii_lowercase().starts_with("wal");
    match kind {
        "Lock" => WaitKind::Lock,
        // WALWrite is also the latch of the session that writes for others
        "IO" | "LWLock" if is_of_log => WaitKind::Log,
        "IO" => WaitKind::Data,
        // another session reads the same block
        "LWLock" | "IPC" if event == "BufferIO" || event == "BufferIo" => WaitKind::Data,
        _ => WaitKind::Other,
    }
}

fn row_wait(row: &Value) -> WaitKind {
    wait_kind(row["wait_kind"].as_str().unwrap_or_default(), row["wait"].as_str().unwrap_or_default())
}

/// Number of sessions of clients that wait for data.
pub(super) fn waiting_for_data(rows: &[Value]) -> f64 {
    let clients = rows_called(rows, "session").filter(|row| row["kind"] == CLIENT);
    clients.filter(|row| row["state"] == "active" && row_wait(row) == WaitKind::Data).count() as f64
}

/// 1 where a checkpoint works without pauses, else 0. The checkpointer is listed only while it works.
pub(super) fn hurrying_checkpoint(rows: &[Value]) -> f64 {
    let works = |row: &Value| row["kind"] == "checkpointer" && row["wait"] != "CheckpointWriteDelay";
    f64::from(u8::from(rows_called(rows, "session").any(works)))
}

/// Reads a row of `pg_stat_activity`.
pub(super) fn read_session(row: &Value) -> SampledSession {
    let (kind, state) = (text_of(row, "kind"), text_of(row, "state"));
    let id = number_of(row, "pid").unwrap_or(0.0) as u64;
    let is_client = kind == CLIENT || kind == "parallel worker";
    let (wait_type, event) = (text_of(row, "wait_kind"), text_of(row, "wait"));
    let is_active = is_client && state == "active" || kind == "autovacuum worker";
    let wait = if is_active { row_wait(row) } else { WaitKind::Other };
    let is_idle = is_client && state.starts_with("idle in transaction");
    SampledSession {
        identity: SessionIdentity {
            id,
            tid: u32::try_from(id).ok(),
            user: text_of(row, "user"),
            database: text_of(row, "database"),
            application: if is_client { text_of(row, "application") } else { kind },
            client: text_of(row, "client"),
        },
        is_active,
        is_idle_in_transaction: is_idle,
        waits_for: if is_active && !event.is_empty() { format!("{wait_type}: {event}") } else { String::new() },
        wait,
        transaction_s: number_of(row, "transaction_s").filter(|_| is_client),
        // until the lock itself says since when
        lock_wait_s: number_of(row, "statement_s").filter(|_| wait == WaitKind::Lock),
        statement: mask_statement(row["query"].as_str().unwrap_or_default(), QuoteStyle::Standard),
        state,
        ..SampledSession::default()
    }
}

/// Adds who holds the locks, which they are, and since when they are waited for.
pub(super) fn add_locks(sessions: &mut [SampledSession], rows: &[Value]) {
    for session in sessions.iter_mut().filter(|session| session.wait == WaitKind::Lock) {
        let is_own = |row: &&Value| number_of(row, "pid") == Some(session.identity.id as f64);
        let holders = rows_called(rows, "blocked").filter(is_own).filter_map(|row| row["by"].as_array()).flatten();
        // 0 stands for a prepared transaction, which has no process
        session.blocked_by = holders.filter_map(Value::as_u64).collect();
        let locks = || rows_called(rows, "lock").filter(is_own);
        let awaited = locks().find(|row| row["granted"] == false);
        session.lock_wait_s = awaited.and_then(|row| number_of(row, "wait_s")).or(session.lock_wait_s);
        let relation = locks().map(|row| text_of(row, "relation")).find(|name| !name.is_empty());
        let kind = awaited.map(|row| text_of(row, "kind")).unwrap_or_default();
        session.lock = match (kind.as_str(), relation) {
            ("transactionid" | "tuple", Some(relation)) => format!("a row of {relation}"),
            ("transactionid" | "tuple", None) => "a row".into(),
            ("relation" | "extend" | "page", Some(relation)) => relation,
            ("", _) => String::new(),
            (kind, _) => kind.to_owned(),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_all_versions_are_known() {
        for (kind, event, expected) in [
            ("Lock", "transactionid", WaitKind::Lock),
            ("IO", "WALSync", WaitKind::Log),
            ("IO", "WalSync", WaitKind::Log),
            ("LWLock", "WALWrite", WaitKind::Log),
            ("IO", "DataFileRead", WaitKind::Data),
            ("IPC", "BufferIO", WaitKind::Data),
            ("IPC", "BufferIo", WaitKind::Data),
            // version 18: another process reads for the session
            ("IO", "AioIoCompletion", WaitKind::Data),
            ("LWLock", "AioWorkerSubmissionQueue", WaitKind::Other),
            ("LWLock", "BufferContent", WaitKind::Other),
            ("Client", "ClientRead", WaitKind::Other),
        ] {
            assert_eq!(wait_kind(kind, event), expected, "{kind} {event}");
        }
    }

    #[test]
    fn a_checkpoint_hurries_unless_it_pauses_or_sleeps() {
        let of = |wait: &str| [json!({ "t": "session", "kind": "checkpointer", "wait": wait })];
        assert_eq!(hurrying_checkpoint(&of("DataFileWrite")), 1.0);
        assert_eq!(hurrying_checkpoint(&of("CheckpointWriteDelay")), 0.0);
        assert_eq!(hurrying_checkpoint(&[]), 0.0);
    }

    #[test]
    fn a_session_is_read_with_its_statement_masked_and_without_control_characters() {
        let row = json!({ "t": "session", "pid": 7, "kind": "client backend", "user": "a\u{1b}b", "state": "active",
            "wait_kind": "Lock", "wait": "tuple", "statement_s": 3.5, "query": "UPDATE t SET a = 'secret'" });
        let session = read_session(&row);
        assert_eq!(session.identity.user, "a\u{fffd}b");
        assert_eq!((session.wait, session.lock_wait_s), (WaitKind::Lock, Some(3.5)));
        assert_eq!(session.statement, "UPDATE t SET a = ?");
        let row = json!({ "t": "session", "pid": 8, "kind": "client backend", "state": "idle in transaction",
            "wait_kind": "Client", "wait": "ClientRead", "query": "SELECT 1" });
        let session = read_session(&row);
        assert!(session.is_idle_in_transaction && !session.is_active && session.waits_for.is_empty());
    }
}
