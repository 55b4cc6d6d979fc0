//! Who waits for whose lock, in MariaDB and in MySQL 8: for rows by InnoDB's tables, for the definitions of tables
//! (metadata locks) by performance_schema, whose instrument MySQL has on and MariaDB off by default.

use serde_json::Value;

use crate::json_rows::{number_of, rows_called, text_of};
use crate::sample::{SampledSession, WaitKind};

/// The statement that reads who waits for whose rows.
pub(super) fn lock_statement(is_mariadb: bool) -> &'static str {
    if is_mariadb {
        "SELECT JSON_OBJECT('t','blocked','id',r.trx_mysql_thread_id,'by',b.trx_mysql_thread_id,\
         'table',l.lock_table,'kind',l.lock_type) FROM information_schema.INNODB_LOCK_WAITS w \
         JOIN information_schema.INNODB_TRX r ON r.trx_id=w.requesting_trx_id \
         JOIN information_schema.INNODB_TRX b ON b.trx_id=w.blocking_trx_id \
         LEFT JOIN information_schema.INNODB_LOCKS l ON l.lock_id=w.requested_lock_id LIMIT 500;"
    } else {
        "SELECT JSON_OBJECT('t','blocked','id',r.trx_mysql_thread_id,'by',b.trx_mysql_thread_id,\
         'table',CONCAT(l.OBJECT_SCHEMA,'.',l.OBJECT_NAME),'kind',l.LOCK_TYPE) \
         FROM performance_schema.data_lock_waits w \
         JOIN information_schema.INNODB_TRX r ON r.trx_id=w.REQUESTING_ENGINE_TRANSACTION_ID \
         JOIN information_schema.INNODB_TRX b ON b.trx_id=w.BLOCKING_ENGINE_TRANSACTION_ID \
         LEFT JOIN performance_schema.data_locks l ON l.ENGINE_LOCK_ID=w.REQUESTING_ENGINE_LOCK_ID LIMIT 500;"
    }
}

/// The statement that reads the metadata locks of tables for whose definition somebody waits.
pub(super) const DEFINITION_STATEMENT: &str = "SELECT JSON_OBJECT('t','definition','id',t.PROCESSLIST_ID,\
    'table',CONCAT(m.OBJECT_SCHEMA,'.',m.OBJECT_NAME),'kind',m.LOCK_TYPE,'status',m.LOCK_STATUS) \
    FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.THREAD_ID=m.OWNER_THREAD_ID \
    WHERE m.OBJECT_TYPE='TABLE' AND m.LOCK_STATUS IN ('GRANTED','PENDING') AND (m.OBJECT_SCHEMA,m.OBJECT_NAME) IN \
    (SELECT OBJECT_SCHEMA,OBJECT_NAME FROM performance_schema.metadata_locks \
    WHERE OBJECT_TYPE='TABLE' AND LOCK_STATUS='PENDING') LIMIT 1000;";

/// A kind of metadata lock that is asked for, the kinds that keep it waiting when others have them, and when others
/// wait for them (MySQL 8.0, sql/mdl.cc, `MDL_object_lock::m_granted_incompatible` and `m_waiting_incompatible`).
/// `EXCLUSIVE` is kept waiting by all that others have.
const DEFINITION_CONFLICTS: [(&str, &[&str], &[&str]); 8] = [
    ("SHARED", &["EXCLUSIVE"], &["EXCLUSIVE"]),
    ("SHARED_HIGH_PRIO", &["EXCLUSIVE"], &[]),
    ("SHARED_READ", &["SHARED_NO_READ_WRITE", "EXCLUSIVE"], &["SHARED_NO_READ_WRITE", "EXCLUSIVE"]),
    (
        "SHARED_WRITE",
        &["SHARED_READ_ONLY", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
    ),
    (
        "SHARED_UPGRADABLE",
        &["SHARED_UPGRADABLE", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["EXCLUSIVE"],
    ),
    (
        "SHARED_READ_ONLY",
        &["SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
        &["SHARED_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE"],
    ),
    (
        "SHARED_NO_WRITE",
        &[
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        &["EXCLUSIVE"],
    ),
    (
        "SHARED_NO_READ_WRITE",
        &[
            "SHARED_READ",
            "SHARED_WRITE",
            "SHARED_WRITE_LOW_PRIO",
            "SHARED_UPGRADABLE",
            "SHARED_READ_ONLY",
            "SHARED_NO_WRITE",
            "SHARED_NO_READ_WRITE",
            "EXCLUSIVE",
        ],
        &["EXCLUSIVE"],
    ),
];

/// True where a metadata lock of another session, which has it or waits for it, keeps one that is asked for waiting.
fn is_in_the_way(asked: &str, other: &str, is_granted: bool) -> bool {
    match DEFINITION_CONFLICTS.iter().find(|(kind, ..)| *kind == asked) {
        Some((_, granted, waiting)) => if is_granted { granted } else { waiting }.contains(&other),
        None => is_granted,
    }
}

/// True for a session that waits for a metadata lock.
pub(super) fn awaits_definition(session: &SampledSession) -> bool {
    session.wait == WaitKind::Lock && session.waits_for.contains("metadata")
}

/// Adds who holds the locks, and which they are.
pub(super) fn add_locks(sessions: &mut [SampledSession], rows: &[Value]) {
    for session in sessions.iter_mut().filter(|session| session.wait == WaitKind::Lock) {
        let own = rows_called(rows, "blocked").filter(|row| number_of(row, "id") == Some(session.identity.id as f64));
        for row in own {
            session.blocked_by.extend(number_of(row, "by").map(|id| id as u64));
            let table = text_of(row, "table").replace('`', "");
            session.lock = match (text_of(row, "kind").as_str(), table.is_empty()) {
                ("RECORD", false) => format!("a row of {table}"),
                ("RECORD", true) => "a row".into(),
                _ => table,
            };
        }
        if awaits_definition(session) {
            add_definition_lock(session, rows);
        }
    }
}

/// Adds who is in the way of a session that waits for the definition of a table. Without the instrument, nobody is
/// known.
fn add_definition_lock(session: &mut SampledSession, rows: &[Value]) {
    let rows: Vec<&Value> = rows_called(rows, "definition").collect();
    let is_own = |row: &Value| number_of(row, "id") == Some(session.identity.id as f64);
    let awaited = rows.iter().find(|row| is_own(row) && row["status"] == "PENDING");
    session.lock =
        awaited.map_or("a table's definition".into(), |row| format!("the definition of {}", text_of(row, "table")));
    let Some(awaited) = awaited else { return };
    let asked = text_of(awaited, "kind");
    let in_the_way = rows.iter().filter(|row| {
        let of_table = row["table"] == awaited["table"] && !is_own(row);
        of_table && is_in_the_way(&asked, &text_of(row, "kind"), row["status"] == "GRANTED")
    });
    session.blocked_by.extend(in_the_way.filter_map(|row| number_of(row, "id")).map(|id| id as u64));
    session.blocked_by.sort_unstable();
    session.blocked_by.dedup();
}

#[cfg(test)]
mod tests {
    use diskwright_base::database_activity::SessionIdentity;
    use serde_json::json;

    use super::*;

    fn waiting(id: u64) -> SampledSession {
        SampledSession {
            identity: SessionIdentity { id, ..SessionIdentity::default() },
            wait: WaitKind::Lock,
            waits_for: "Waiting for table metadata lock".into(),
            ..SampledSession::default()
        }
    }

    fn row(id: u64, kind: &str, status: &str) -> Value {
        json!({ "t": "definition", "id": id, "table": "shop.orders", "kind": kind, "status": status })
    }

    /// As MySQL 9.7 answered: 13 and 14 have written in open transactions, 15 alters the table, 16 reads it.
    #[test]
    fn an_alteration_waits_for_all_who_use_the_table_and_readers_wait_for_the_alteration() {
        let rows = [
            row(13, "SHARED_WRITE", "GRANTED"),
            row(14, "SHARED_WRITE", "GRANTED"),
            row(15, "SHARED_UPGRADABLE", "GRANTED"),
            row(15, "EXCLUSIVE", "PENDING"),
            row(16, "SHARED_READ", "PENDING"),
        ];
        let mut sessions = [waiting(15), waiting(16), waiting(17)];
        add_locks(&mut sessions, &rows);
        assert_eq!(
            (sessions[0].blocked_by.as_slice(), sessions[0].lock.as_str()),
            (&[13, 14][..], "the definition of shop.orders")
        );
        assert_eq!(sessions[1].blocked_by, [15]);
        let unknown = (sessions[2].blocked_by.len(), sessions[2].lock.as_str());
        assert_eq!(unknown, (0, "a table's definition"), "nothing is known of 17, as without the instrument");
    }

    #[test]
    fn readers_are_in_no_readers_way() {
        for (asked, other, is_granted, expected) in [
            ("SHARED_READ", "SHARED_READ", true, false),
            ("SHARED_READ", "SHARED_UPGRADABLE", true, false),
            ("SHARED_WRITE", "SHARED_NO_WRITE", true, true),
            ("SHARED_READ", "SHARED_NO_WRITE", true, false),
            ("SHARED_READ", "EXCLUSIVE", false, true),
            ("EXCLUSIVE", "SHARED_READ", true, true),
            ("EXCLUSIVE", "SHARED_READ", false, false),
        ] {
            assert_eq!(is_in_the_way(asked, other, is_granted), expected, "{asked} {other}");
        }
    }
}
