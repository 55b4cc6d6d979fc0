//! Who waits for whose lock, in MariaDB and in MySQL 8.

use serde_json::Value;

use crate::json_rows::{number_of, rows_called, text_of};
use crate::sample::{SampledSession, WaitKind};

/// The statement that reads who waits for whom.
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
        if session.blocked_by.is_empty() && session.lock.is_empty() {
            // metadata locks have no holder that the server would show without an instrument
            session.lock =
                if session.waits_for.contains("metadata") { "a table's definition".into() } else { String::new() };
        }
    }
}
