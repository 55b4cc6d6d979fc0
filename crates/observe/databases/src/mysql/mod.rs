//! MariaDB and MySQL: statements and what the answers mean. Tried with MariaDB 10.11 and 11.8 and with MySQL 9.7, whose
//! tables are those of MySQL 8. Settings that only one of the two has stand in comments that only that one executes.

mod lock_rows;
#[cfg(test)]
mod version_tests;

use std::collections::BTreeMap;
use std::process::Command;

use diskwright_base::counter_ids::database;
use diskwright_base::database_activity::{RelationRow, SessionIdentity, StatementRow};
use serde_json::Value;

use crate::activity_sums::session_values;
use crate::address::DatabaseAddress;
use crate::cell_board::SampleValues;
use crate::client_process::ClientError;
use crate::json_rows::{number_of, parse_rows, rows_called, text_of};
use crate::sample::{Ask, Details, Sample, SampledSession, ServerFacts, ServerQueries, WaitKind};
use crate::statement_text::{QuoteStyle, mask_statement};
use lock_rows::add_locks;

/// Picoseconds, in which performance_schema counts time, as seconds.
const PS_TO_S: f64 = 1e-12;
/// Milliseconds as seconds.
const MS_TO_S: f64 = 1e-3;
/// Makes the client print the end mark.
pub(crate) const END_STATEMENT: &str = "SELECT '-- end of answer --';";

/// What a session begins with: it changes nothing, and waits for nothing for long.
const SESSION_STATEMENTS: &str = "SET SESSION TRANSACTION READ ONLY; SET SESSION lock_wait_timeout=1; \
    SET SESSION innodb_lock_wait_timeout=1; /*M! SET SESSION max_statement_time=2 */; \
    /*!50708 SET SESSION max_execution_time=2000 */;";

/// The command that starts the client for an address.
pub(crate) fn client_command(program: Command, address: &DatabaseAddress, password: Option<&str>) -> Command {
    let mut command = program;
    command.args(["--batch", "--raw", "--skip-column-names", "--unbuffered", "--force", "--connect-timeout=5"]);
    command.args(["--default-character-set=utf8mb4", "--skip-reconnect"]);
    let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
    command.args(option("user", &address.user));
    match &address.socket {
        Some(path) => _ = command.arg(format!("--socket={path}")),
        None => _ = command.args(option("host", &address.host.as_deref().map(without_brackets))),
    }
    command.args(address.port.map(|port| format!("--port={port}")));
    command.args(option("database", &address.database));
    password.into_iter().for_each(|password| _ = command.env("MYSQL_PWD", password));
    command
}

fn without_brackets(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// The statements for a MariaDB or MySQL server, and what is known of it.
#[derive(Debug, Default)]
pub(crate) struct MysqlQueries {
    is_mariadb: bool,
    has_file_times: bool,
    /// The user may read performance_schema.
    sees_threads: bool,
    /// The user has the right PROCESS.
    sees_transactions: bool,
    max_connections: f64,
    log_capacity: Option<f64>,
}

/// Settings that a verdict or its advice may name, or that say what is measured.
const SETTINGS: &str = "'version','performance_schema','innodb_flush_log_at_trx_commit','sync_binlog',\
    'innodb_flush_method','innodb_log_file_size','innodb_log_files_in_group','innodb_redo_log_capacity',\
    'innodb_log_buffer_size','innodb_io_capacity','innodb_io_capacity_max','innodb_buffer_pool_size',\
    'innodb_doublewrite','innodb_lock_wait_timeout','max_connections','datadir','log_bin',\
    'binlog_group_commit_sync_delay','binlog_commit_wait_count','binlog_commit_wait_usec'";
/// Counters of the server that become ours.
const STATUS: &str = "'Threads_connected','Handler_commit','Handler_rollback','Innodb_deadlocks',\
    'Innodb_row_lock_time',\
    'Innodb_buffer_pool_reads','Innodb_buffer_pool_read_requests','Innodb_data_read','Innodb_data_written',\
    'Innodb_data_fsyncs','Innodb_buffer_pool_wait_free','Innodb_checkpoint_age','Innodb_checkpoint_max_age',\
    'Innodb_redo_log_checkpoint_lsn','Innodb_redo_log_current_lsn','Innodb_os_log_written','Innodb_os_log_fsyncs',\
    'Innodb_log_waits','Innodb_page_size'";
/// What MySQL does not tell without performance_schema.
const TIMES_AND_HOLDERS: &str = "times of reads, writes and flushes, and who holds a lock,";
/// Largest number of sessions in a sample, and of tables and statements that are followed.
const MAX_SESSIONS: usize = 500;
const MAX_RELATIONS: usize = 1_000;
const MAX_STATEMENTS: usize = 100;

impl ServerQueries for MysqlQueries {
    fn read_facts(&mut self, ask: Ask<'_>) -> Result<ServerFacts, ClientError> {
        let lines = ask(&format!(
            "{SESSION_STATEMENTS}\nSHOW GLOBAL VARIABLES WHERE Variable_name IN ({SETTINGS});\n\
             SELECT JSON_OBJECT('t','user','name',CURRENT_USER(),'shown',\
             (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN ('PROCESS','SUPER')));\n\
             SELECT JSON_OBJECT('t','files','enabled',COUNT(*)) FROM performance_schema.setup_instruments \
             WHERE ENABLED='YES' AND TIMED='YES' AND NAME='wait/io/file/innodb/innodb_data_file';\n\
             SELECT JSON_OBJECT('t','process','pid',THREAD_OS_ID) FROM performance_schema.threads \
             WHERE NAME='thread/sql/main';"
        ))?;
        let settings = read_pairs(&lines);
        if settings.is_empty() {
            return Err(ClientError::Unreadable("it has no variables"));
        }
        let rows = parse_rows(&lines);
        let number = |name: &str| settings.get(name).and_then(|text| text.parse::<f64>().ok());
        let version = settings.get("version").cloned().unwrap_or_default();
        self.is_mariadb = version.contains("MariaDB");
        self.max_connections = number("max_connections").unwrap_or(f64::NAN);
        self.log_capacity = number("innodb_redo_log_capacity");
        let has_schema = settings.get("performance_schema").is_some_and(|value| value == "ON");
        let files = rows_called(&rows, "files").next().and_then(|row| number_of(row, "enabled"));
        self.has_file_times = has_schema && files.is_some_and(|count| count > 0.0);
        self.sees_threads = has_schema && files.is_some();
        // MySQL shows row locks in performance_schema only, MariaDB in information_schema
        let what = if self.is_mariadb { "times of reads, writes and flushes" } else { TIMES_AND_HOLDERS };
        let mut unseen = Vec::new();
        let user = rows_called(&rows, "user").next();
        let name = user.map(|row| text_of(row, "name")).unwrap_or_default();
        self.sees_transactions = user.and_then(|row| number_of(row, "shown")).is_some_and(|rights| rights > 0.0);
        if !self.sees_transactions {
            unseen.push(format!(
                "sessions, statements and locks of other users are hidden from {name}: GRANT PROCESS ON *.* TO it"
            ));
        }
        if !has_schema {
            unseen.push(format!(
                "{what} are not measured, because performance_schema is off: set performance_schema=ON in the server's \
                 settings and restart it"
            ));
        } else if files.is_none() {
            unseen.push(format!("{what} are hidden from {name}: GRANT SELECT ON performance_schema.* TO it"));
        } else if !self.has_file_times {
            unseen.push("times of reads and writes are not measured: wait/io/file is off in setup_instruments".into());
        }
        let pid = rows_called(&rows, "process").next().and_then(|row| number_of(row, "pid"));
        Ok(ServerFacts { version, pids: pid.map(|pid| pid as u32).into_iter().collect(), settings, unseen })
    }

    fn read_sample(&mut self, ask: Ask<'_>) -> Result<Sample, ClientError> {
        let lines = ask(&self.sample_statements())?;
        let (status, rows) = (read_pairs(&lines), parse_rows(&lines));
        if status.is_empty() {
            return Err(ClientError::Unreadable("the server refused the statements"));
        }
        let mut sessions: Vec<SampledSession> = rows_called(&rows, "session").map(read_session).collect();
        let lock_statements = self.lock_statements(&sessions);
        if !lock_statements.is_empty() {
            add_locks(&mut sessions, &parse_rows(&ask(&lock_statements)?));
        }
        let mut values = session_values(&sessions);
        self.add_totals(&mut values, &status);
        self.add_file_times(&mut values, &rows);
        Ok(Sample { values, sessions })
    }

    fn read_details(&mut self, ask: Ask<'_>) -> Result<Details, ClientError> {
        if !self.has_file_times {
            return Ok(Details::default());
        }
        let rows = parse_rows(&ask(&format!(
            "SELECT JSON_OBJECT('t','file','name',FILE_NAME,'read',SUM_NUMBER_OF_BYTES_READ,\
             'written',SUM_NUMBER_OF_BYTES_WRITE) FROM performance_schema.file_summary_by_instance \
             WHERE EVENT_NAME='wait/io/file/innodb/innodb_data_file' \
             AND SUM_NUMBER_OF_BYTES_READ+SUM_NUMBER_OF_BYTES_WRITE>0 \
             ORDER BY SUM_NUMBER_OF_BYTES_READ+SUM_NUMBER_OF_BYTES_WRITE DESC LIMIT {MAX_RELATIONS};\n\
             SELECT JSON_OBJECT('t','statement','text',LEFT(DIGEST_TEXT,1000),'calls',COUNT_STAR,\
             'time_ps',SUM_TIMER_WAIT) FROM performance_schema.events_statements_summary_by_digest \
             WHERE DIGEST_TEXT IS NOT NULL ORDER BY SUM_TIMER_WAIT DESC LIMIT {MAX_STATEMENTS};"
        ))?);
        Ok(read_detail_rows(&rows))
    }
}

/// Name and value of the lines that are not JSON.
fn read_pairs(lines: &[String]) -> BTreeMap<String, String> {
    let pairs = lines.iter().filter(|line| !line.starts_with('{')).filter_map(|line| line.split_once('\t'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Table of a file of InnoDB, such as `shop.orders`; the file's name where it is not one of a table.
fn relation_of_file(path: &str) -> String {
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    match (file.strip_suffix(".ibd"), parts.next()) {
        // a partition's file goes on with #p#
        (Some(table), Some(schema)) => {
            format!("{schema}.{}", table.split_once("#p#").map_or(table, |(table, _)| table).replace("#P#", " "))
        }
        _ => file.to_owned(),
    }
}

fn read_detail_rows(rows: &[Value]) -> Details {
    let mut relations: BTreeMap<String, RelationRow> = BTreeMap::new();
    for row in rows_called(rows, "file") {
        let name = relation_of_file(&text_of(row, "name"));
        let relation = relations.entry(name.clone()).or_insert_with(|| RelationRow { name, ..RelationRow::default() });
        relation.read_bytes += number_of(row, "read").unwrap_or(0.0);
        let written = number_of(row, "written").unwrap_or(0.0);
        relation.written_bytes = Some(relation.written_bytes.unwrap_or(0.0) + written);
    }
    let statements = rows_called(rows, "statement").map(|row| StatementRow {
        statement: mask_statement(&text_of(row, "text"), QuoteStyle::Mysql),
        calls: number_of(row, "calls"),
        time_s: number_of(row, "time_ps").map(|ps| ps * PS_TO_S),
        ..StatementRow::default()
    });
    Details { relations: relations.into_values().collect(), statements: statements.collect(), processes: Vec::new() }
}

/// What a session waits for, by its state and by the event that performance_schema shows, where that is switched on.
fn wait_kind(state: &str, event: &str, transaction: &str) -> WaitKind {
    let state = state.to_ascii_lowercase();
    let is_lock = transaction == "LOCK WAIT"
        || (state.starts_with("waiting for") && state.ends_with("lock") && !state.contains("binlog"))
        || state == "user lock";
    match event {
        _ if is_lock => WaitKind::Lock,
        _ if event.contains("innodb_log_file") || event.ends_with("/binlog") => WaitKind::Log,
        _ if event.starts_with("wait/io/file/innodb") => WaitKind::Data,
        // the rest of a commit, without the log, takes no time that could be seen
        _ if state == "commit" || state.contains("committing") || state == "waiting for handler commit" => {
            WaitKind::Log
        }
        _ => WaitKind::Other,
    }
}

fn read_session(row: &Value) -> SampledSession {
    let (command, state) = (text_of(row, "command"), text_of(row, "state"));
    let (event, transaction) = (text_of(row, "event"), text_of(row, "transaction"));
    let is_sleeping = command == "Sleep";
    let wait = if is_sleeping { WaitKind::Other } else { wait_kind(&state, &event, &transaction) };
    // the port of a client says nothing
    let client = text_of(row, "host");
    let client = client.rsplit_once(':').map_or(client.as_str(), |(host, _)| host);
    SampledSession {
        identity: SessionIdentity {
            id: number_of(row, "id").unwrap_or(0.0) as u64,
            tid: number_of(row, "tid").map(|tid| tid as u32),
            user: text_of(row, "user"),
            database: text_of(row, "database"),
            application: String::new(),
            client: if client == "localhost" { String::new() } else { client.to_owned() },
        },
        is_active: !is_sleeping,
        is_idle_in_transaction: is_sleeping,
        waits_for: match (is_sleeping, event.is_empty()) {
            (true, _) => String::new(),
            (false, false) => event,
            (false, true) => state.clone(),
        },
        wait,
        transaction_s: number_of(row, "transaction_s"),
        lock_wait_s: number_of(row, "lock_wait_s")
            .or_else(|| number_of(row, "statement_s"))
            .filter(|_| wait == WaitKind::Lock),
        statement: mask_statement(row["query"].as_str().unwrap_or_default(), QuoteStyle::Mysql),
        state: if is_sleeping { "idle in transaction".into() } else { state },
        ..SampledSession::default()
    }
}

impl MysqlQueries {
    /// The statements that read who holds the locks for which sessions wait; empty where nobody waits.
    fn lock_statements(&self, sessions: &[SampledSession]) -> String {
        let mut statements = String::new();
        if self.sees_transactions && sessions.iter().any(|session| session.wait == WaitKind::Lock) {
            statements += lock_rows::lock_statement(self.is_mariadb);
        }
        if self.sees_threads && sessions.iter().any(lock_rows::awaits_definition) {
            statements += "\n";
            statements += lock_rows::DEFINITION_STATEMENT;
        }
        statements
    }

    /// A table that the user may not read would fail the whole statement, so it is left out.
    fn sample_statements(&self) -> String {
        let time = if self.is_mariadb { "p.TIME_MS/1000" } else { "p.TIME" };
        let (mut columns, mut joins, mut idle) = (String::new(), String::new(), "");
        if self.sees_transactions {
            columns += ",'transaction',x.trx_state,\
                'transaction_s',TIMESTAMPDIFF(MICROSECOND,x.trx_started,NOW(6))/1000000,\
                'lock_wait_s',TIMESTAMPDIFF(MICROSECOND,x.trx_wait_started,NOW(6))/1000000";
            joins += " LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id=p.ID";
            idle = " OR x.trx_id IS NOT NULL";
        }
        if self.sees_threads {
            columns += ",'tid',t.THREAD_OS_ID,'event',(SELECT w.EVENT_NAME FROM \
                performance_schema.events_waits_current w WHERE w.THREAD_ID=t.THREAD_ID AND w.END_EVENT_ID IS NULL \
                ORDER BY w.EVENT_ID DESC LIMIT 1)";
            joins += " LEFT JOIN performance_schema.threads t ON t.PROCESSLIST_ID=p.ID";
        }
        let mut statements = format!(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ({STATUS});\n\
             SELECT JSON_OBJECT('t','session','id',p.ID,'user',p.USER,'host',p.HOST,'database',p.DB,\
             'command',p.COMMAND,'state',p.STATE,'query',LEFT(p.INFO,2000),'statement_s',{time}{columns}) \
             FROM information_schema.PROCESSLIST p{joins} \
             WHERE p.ID<>CONNECTION_ID() AND p.COMMAND NOT IN ('Daemon','Binlog Dump','Binlog Dump GTID','Slave_IO',\
             'Slave_SQL','Slave_worker') AND (p.COMMAND<>'Sleep'{idle}) LIMIT {MAX_SESSIONS};\n"
        );
        if !self.is_mariadb && self.sees_transactions {
            // MySQL has no status variable of them
            statements += "SELECT 'Innodb_deadlocks',COUNT FROM information_schema.INNODB_METRICS \
                WHERE NAME='lock_deadlocks' AND STATUS='enabled';\n";
        }
        if self.has_file_times {
            statements += "SELECT JSON_OBJECT('t','file','event',EVENT_NAME,'read_ps',SUM_TIMER_READ,\
                'write_ps',SUM_TIMER_WRITE,'other_ps',SUM_TIMER_MISC) \
                FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME IN \
                ('wait/io/file/innodb/innodb_data_file','wait/io/file/innodb/innodb_log_file');";
        }
        statements
    }

    fn add_totals(&self, values: &mut SampleValues, status: &BTreeMap<String, String>) {
        let number = |name: &str| status.get(name).and_then(|text| text.parse::<f64>().ok());
        let mut set = |counter: &'static str, value: Option<f64>| values.extend(value.map(|value| (counter, value)));
        set(database::SESSIONS, number("Threads_connected").map(|count| (count - 1.0).max(0.0)));
        let used = number("Threads_connected").map(|count| count / self.max_connections);
        set(database::CONNECTIONS_USED_FRACTION, used.filter(|share| share.is_finite()));
        set(database::COMMITS, number("Handler_commit"));
        set(database::ROLLBACKS, number("Handler_rollback"));
        set(database::DEADLOCKS, number("Innodb_deadlocks"));
        set(database::LOCK_WAIT_TIME_S, number("Innodb_row_lock_time").map(|ms| ms * MS_TO_S));
        let reads = number("Innodb_buffer_pool_reads");
        set(database::READ_BLOCKS, reads);
        let requests = number("Innodb_buffer_pool_read_requests");
        set(database::FOUND_BLOCKS, requests.zip(reads).map(|(all, read)| (all - read).max(0.0)));
        set(database::READ_BYTES, number("Innodb_data_read"));
        set(database::WRITTEN_BYTES, number("Innodb_data_written"));
        set(database::DATA_SYNCS, number("Innodb_data_fsyncs"));
        set(database::CACHE_WAITS, number("Innodb_buffer_pool_wait_free"));
        set(database::LOG_BYTES, number("Innodb_os_log_written"));
        set(database::LOG_SYNCS, number("Innodb_os_log_fsyncs"));
        set(database::LOG_BUFFER_WAITS, number("Innodb_log_waits"));
        let lsn = number("Innodb_redo_log_current_lsn").zip(number("Innodb_redo_log_checkpoint_lsn"));
        let age = number("Innodb_checkpoint_age").or_else(|| lsn.map(|(now, done)| now - done));
        let largest = number("Innodb_checkpoint_max_age").or(self.log_capacity);
        let share = age.zip(largest).map(|(age, largest)| age / largest).filter(|share| share.is_finite());
        set(database::CHECKPOINT_AGE_FRACTION, share);
    }

    fn add_file_times(&self, values: &mut SampleValues, rows: &[Value]) {
        if !self.has_file_times {
            return;
        }
        let time_s = |event: &str, name: &str| {
            let mut of_event = rows_called(rows, "file").filter(|row| row["event"].as_str() == Some(event));
            of_event.next().and_then(|row| number_of(row, name)).map(|ps| ps * PS_TO_S)
        };
        const DATA: &str = "wait/io/file/innodb/innodb_data_file";
        values.extend(time_s(DATA, "read_ps").map(|time| (database::READ_TIME_S, time)));
        values.extend(time_s(DATA, "write_ps").map(|time| (database::WRITE_TIME_S, time)));
        // MariaDB writes its log without instruments since 10.8: nothing counted is nothing known
        let log = time_s("wait/io/file/innodb/innodb_log_file", "other_ps").filter(|time| *time > 0.0);
        values.extend(log.map(|time| (database::LOG_SYNC_TIME_S, time)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn states_and_events_tell_what_a_session_waits_for() {
        for (state, event, transaction, expected) in [
            ("Updating", "", "LOCK WAIT", WaitKind::Lock),
            ("Waiting for table metadata lock", "", "", WaitKind::Lock),
            ("Commit", "", "RUNNING", WaitKind::Log),
            ("Sending data", "wait/io/file/innodb/innodb_data_file", "RUNNING", WaitKind::Data),
            ("Sending data", "", "RUNNING", WaitKind::Other),
        ] {
            assert_eq!(wait_kind(state, event, transaction), expected, "{state} {event}");
        }
    }

    #[test]
    fn a_file_is_named_for_its_table() {
        assert_eq!(relation_of_file("/var/lib/mysql/shop/orders.ibd"), "shop.orders");
        assert_eq!(relation_of_file("./shop/orders#p#p0.ibd"), "shop.orders");
        assert_eq!(relation_of_file("/var/lib/mysql/ibdata1"), "ibdata1");
    }

    #[test]
    fn a_sleeping_session_with_a_transaction_is_idle_in_it() {
        let row = json!({ "t": "session", "id": 9, "user": "app", "host": "10.0.0.7:41234", "command": "Sleep",
            "state": "", "transaction": "RUNNING", "transaction_s": 12.5 });
        let session = read_session(&row);
        assert!(session.is_idle_in_transaction && !session.is_active);
        assert_eq!((session.identity.client.as_str(), session.transaction_s), ("10.0.0.7", Some(12.5)));
    }
}
