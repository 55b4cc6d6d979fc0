//! What MariaDB 10.11 and MySQL 9.7 answered, in the numbers of one case. Names of tables and columns are the same in
//! MySQL 8.0 by its documentation (performance_schema.data_lock_waits and data_locks, 29.12.13).

use serde_json::json;

use super::*;

/// Tables and columns that only one of the two has.
const OF_MARIADB: [&str; 3] = ["INNODB_LOCK_WAITS", "INNODB_LOCKS", "TIME_MS"];
const OF_MYSQL: [&str; 2] = ["performance_schema.data_lock_waits", "performance_schema.data_locks"];

/// A server of one of the two, which refuses what it does not have.
struct RecordedServer {
    is_mariadb: bool,
}

impl RecordedServer {
    fn answer(&self, statements: &str) -> Vec<String> {
        let foreign: &[&str] = if self.is_mariadb { &OF_MYSQL } else { &OF_MARIADB };
        assert!(!foreign.iter().any(|name| statements.contains(name)), "{statements}");
        let (pairs, rows) = if statements.contains("GLOBAL VARIABLES") {
            (
                self.variables(),
                vec![
                    json!({ "t": "user", "name": "watch@localhost", "shown": 1 }),
                    json!({ "t": "files", "enabled": 1 }),
                    json!({ "t": "process", "pid": 812 }),
                ],
            )
        } else if statements.contains("GLOBAL STATUS") {
            (self.status(), self.sessions())
        } else {
            (&[][..], vec![self.lock()])
        };
        let pairs = pairs.iter().map(|(name, value)| format!("{name}\t{value}"));
        pairs.chain(rows.iter().map(Value::to_string)).collect()
    }

    fn variables(&self) -> &'static [(&'static str, &'static str)] {
        if self.is_mariadb {
            &[("version", "10.11.6-MariaDB"), ("performance_schema", "ON"), ("innodb_log_file_size", "100663296")]
        } else {
            &[("version", "9.7.4-2"), ("performance_schema", "ON"), ("innodb_redo_log_capacity", "104857600")]
        }
    }

    /// The log is nine tenths full.
    fn status(&self) -> &'static [(&'static str, &'static str)] {
        if self.is_mariadb {
            &[
                ("Innodb_checkpoint_age", "72477720"),
                ("Innodb_checkpoint_max_age", "80530800"),
                ("Innodb_deadlocks", "3"),
                ("Innodb_os_log_fsyncs", "42"),
            ]
        } else {
            &[
                ("Innodb_redo_log_checkpoint_lsn", "1000000000"),
                ("Innodb_redo_log_current_lsn", "1094371840"),
                // of information_schema.INNODB_METRICS
                ("Innodb_deadlocks", "3"),
                ("Innodb_os_log_fsyncs", "42"),
            ]
        }
    }

    fn sessions(&self) -> Vec<Value> {
        let holder = json!({ "t": "session", "id": 8, "user": "app", "host": "localhost", "database": "shop",
            "command": "Sleep", "state": "", "query": null, "statement_s": 9, "transaction": "RUNNING",
            "transaction_s": 9.5, "lock_wait_s": null, "tid": 900, "event": null });
        let waiting = json!({ "t": "session", "id": 9, "user": "app", "host": "10.0.0.7:41234", "database": "shop",
            "command": "Query", "state": "updating", "query": "UPDATE orders SET note = 'b' WHERE id = 1",
            "statement_s": 5, "transaction": "LOCK WAIT", "transaction_s": 5.5, "lock_wait_s": 5.25, "tid": 901,
            "event": null });
        vec![holder, waiting]
    }

    fn lock(&self) -> Value {
        let table = if self.is_mariadb { "`shop`.`orders`" } else { "shop.orders" };
        json!({ "t": "blocked", "id": 9, "by": 8, "table": table, "kind": "RECORD" })
    }
}

fn sample_of(is_mariadb: bool) -> Sample {
    let server = RecordedServer { is_mariadb };
    let mut queries = MysqlQueries::default();
    let facts = queries.read_facts(&mut |statements| Ok(server.answer(statements))).unwrap();
    assert_eq!((facts.pids, facts.unseen), (vec![812], Vec::<String>::new()));
    queries.read_sample(&mut |statements| Ok(server.answer(statements))).unwrap()
}

#[test]
fn locks_of_mariadb_and_of_mysql_are_read_alike() {
    for is_mariadb in [true, false] {
        let sample = sample_of(is_mariadb);
        let waiting = &sample.sessions[1];
        assert_eq!((waiting.wait, waiting.lock_wait_s), (WaitKind::Lock, Some(5.25)), "{is_mariadb}");
        assert_eq!((waiting.blocked_by.as_slice(), waiting.lock.as_str()), (&[8][..], "a row of shop.orders"));
        assert!(sample.sessions[0].is_idle_in_transaction);
        assert_eq!(sample.values[database::IDLE_LOCK_HOLDERS], 1.0);
    }
}

#[test]
fn the_status_of_mariadb_and_of_mysql_tells_how_full_the_log_is() {
    for is_mariadb in [true, false] {
        let values = sample_of(is_mariadb).values;
        assert!((values[database::CHECKPOINT_AGE_FRACTION] - 0.9).abs() < 1e-6, "{is_mariadb}: {values:?}");
        assert_eq!(values[database::LOG_SYNCS], 42.0);
        assert_eq!(values[database::DEADLOCKS], 3.0);
    }
}

#[test]
fn mysql_without_performance_schema_tells_that_it_hides_who_holds_a_lock() {
    for (version, expected) in [("9.7.4-2", true), ("11.8.9-MariaDB", false)] {
        let mut queries = MysqlQueries::default();
        let answer = [
            format!("version\t{version}"),
            "performance_schema\tOFF".into(),
            json!({ "t": "user", "name": "watch@localhost", "shown": 1 }).to_string(),
        ];
        let facts = queries.read_facts(&mut |_| Ok(answer.to_vec())).unwrap();
        assert_eq!(facts.unseen.iter().any(|text| text.contains("who holds a lock")), expected, "{facts:?}");
    }
}
