//! PostgreSQL: statements and what its answers mean. Views differ between versions, so rows come as JSON objects, and
//! what a version lacks is not there. Tried with versions 15 to 18.

mod answer_rows;
#[cfg(test)]
mod version_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use diskwright_base::counter_ids::database;
use diskwright_base::database_activity::{DatabaseProcessRow, RelationRow, StatementRow};
use serde_json::Value;

use crate::activity_sums::session_values;
use crate::address::DatabaseAddress;
use crate::cell_board::SampleValues;
use crate::client_process::ClientError;
use crate::json_rows::{number_of, parse_rows, rows_called, text_of};
use crate::sample::{Ask, Details, Sample, ServerFacts, ServerQueries, WaitKind};
use crate::statement_text::{QuoteStyle, mask_statement};
use answer_rows::{add_locks, read_session};

/// Milliseconds as seconds.
const MS_TO_S: f64 = 1e-3;

/// Makes psql print the end mark. `\echo` is a command of psql: it works also where the server refuses statements.
pub(crate) const END_STATEMENT: &str = "\\echo '-- end of answer --'";

/// Settings that a session begins with: it changes nothing, and waits for nothing for long. What the address or a
/// service file says in `options` takes their place, and a pooler drops them, so [`in_transaction`] repeats them.
const SESSION_OPTIONS: &str = "-c default_transaction_read_only=on -c statement_timeout=2000 -c lock_timeout=200 \
    -c idle_in_transaction_session_timeout=5000 -c client_min_messages=error -c search_path=pg_catalog";
/// Seconds to connect.
const CONNECT_TIMEOUT_S: &str = "5";

/// Puts statements into a transaction that cannot write, with the limits of time. They are of the transaction, not of
/// the session, which a pooler may share with others. One transaction, too, because each counts among the commits.
pub(crate) fn in_transaction(statements: &str) -> String {
    format!(
        "BEGIN TRANSACTION READ ONLY;\n\
         SELECT pg_catalog.set_config('statement_timeout','2000',true),\
         pg_catalog.set_config('lock_timeout','200',true),\
         pg_catalog.set_config('search_path','pg_catalog',true);\n\
         {statements}\nCOMMIT;"
    )
}

/// The command that starts `psql` for an address.
pub(crate) fn client_command(program: Command, address: &DatabaseAddress, password: Option<&str>) -> Command {
    let mut command = program;
    command.args(["-X", "-q", "-A", "-t", "-w", "-d"]).arg(&address.url);
    let given = std::env::var("PGOPTIONS").unwrap_or_default();
    command.env("PGOPTIONS", format!("{given} {SESSION_OPTIONS}"));
    command.env("PGAPPNAME", "diskwright").env("PGCONNECT_TIMEOUT", CONNECT_TIMEOUT_S).env("PGCLIENTENCODING", "UTF8");
    password.into_iter().for_each(|password| _ = command.env("PGPASSWORD", password));
    command
}

/// The statements for a PostgreSQL server, and what is known of it.
#[derive(Debug, Default)]
pub(crate) struct PostgresQueries {
    version: u32,
    block_bytes: f64,
    max_connections: f64,
    has_io_times: bool,
    has_log_times: bool,
    /// Schema of the extension that counts statements.
    statements_schema: Option<String>,
}

/// Settings that a verdict or its advice may name.
const SETTINGS: &str = "'unix_socket_directories','port',\
    'max_wal_size','min_wal_size','checkpoint_timeout','checkpoint_completion_target',\
    'checkpoint_flush_after','synchronous_commit','fsync','commit_delay','commit_siblings','wal_sync_method',\
    'full_page_writes','wal_compression','wal_buffers','shared_buffers','effective_io_concurrency','work_mem',\
    'bgwriter_lru_maxpages','track_io_timing','track_wal_io_timing','synchronous_standby_names','max_connections',\
    'data_directory','log_lock_waits','deadlock_timeout'";

impl ServerQueries for PostgresQueries {
    fn read_facts(&mut self, ask: Ask<'_>) -> Result<ServerFacts, ClientError> {
        let lines = ask(&in_transaction(&format!(
            "SELECT json_build_object('t','facts','version',current_setting('server_version'),\
             'number',current_setting('server_version_num')::int,\
             'block',current_setting('block_size')::int,\
             'is_monitor',(SELECT coalesce(bool_or(pg_has_role(oid,'USAGE')),false) FROM pg_roles \
               WHERE rolname IN ('pg_monitor','pg_read_all_stats')) OR current_setting('is_superuser')='on',\
             'user',current_user,\
             'pids',(SELECT json_agg(pid) FROM pg_stat_activity WHERE backend_type<>'client backend'),\
             'statements',(SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n \
               ON n.oid=e.extnamespace WHERE e.extname='pg_stat_statements'));\n\
             SELECT json_build_object('t','settings','all',json_object_agg(name,current_setting(name,true))) \
             FROM pg_settings WHERE name IN ({SETTINGS});"
        )))?;
        let rows = parse_rows(&lines);
        let facts = rows_called(&rows, "facts").next().ok_or(ClientError::Unreadable("it has no facts"))?;
        let settings: BTreeMap<String, String> = rows_called(&rows, "settings")
            .filter_map(|row| row["all"].as_object())
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        let is_on = |name: &str| settings.get(name).is_some_and(|value| value == "on");
        self.version = number_of(facts, "number").unwrap_or(0.0) as u32;
        self.block_bytes = number_of(facts, "block").unwrap_or(8192.0);
        self.max_connections = settings.get("max_connections").and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
        (self.has_io_times, self.has_log_times) = (is_on("track_io_timing"), is_on("track_wal_io_timing"));
        self.statements_schema = facts["statements"].as_str().map(str::to_owned);
        let mut unseen = Vec::new();
        if facts["is_monitor"].as_bool() != Some(true) {
            let user = text_of(facts, "user");
            unseen.push(format!(
                "statements and waits of other users are hidden from the role {user}: GRANT pg_monitor TO {user}"
            ));
        }
        unseen.extend((!self.has_io_times).then(|| missing_times("reads and writes", "track_io_timing")));
        let lacks_log_times = self.version >= 140_000 && !self.has_log_times;
        unseen.extend(lacks_log_times.then(|| missing_times("flushes of the log", "track_wal_io_timing")));
        let pids = facts["pids"].as_array().into_iter().flatten().filter_map(Value::as_u64);
        let pids = pids.filter_map(|pid| u32::try_from(pid).ok()).collect();
        Ok(ServerFacts { version: text_of(facts, "version"), pids, settings, unseen })
    }

    fn read_sample(&mut self, ask: Ask<'_>) -> Result<Sample, ClientError> {
        let rows = parse_rows(&ask(&self.sample_statements())?);
        if rows_called(&rows, "database").next().is_none() {
            return Err(ClientError::Unreadable("the server refused the statements"));
        }
        let mut sessions: Vec<_> = rows_called(&rows, "session").map(read_session).collect();
        let waiting: Vec<String> = sessions
            .iter()
            .filter(|session| session.wait == WaitKind::Lock)
            .take(MAX_WAITING)
            .map(|session| session.identity.id.to_string())
            .collect();
        if !waiting.is_empty() {
            add_locks(&mut sessions, &parse_rows(&ask(&in_transaction(&lock_statements(&waiting.join(","))))?));
        }
        let mut values = session_values(&sessions);
        self.add_totals(&mut values, &rows);
        values.insert(database::CHECKPOINT_HURRYING, answer_rows::hurrying_checkpoint(&rows));
        Ok(Sample { values, sessions })
    }

    fn read_details(&mut self, ask: Ask<'_>) -> Result<Details, ClientError> {
        let mut statements = format!(
            "SELECT json_build_object('t','relation','name',schemaname||'.'||relname,\
             'read',coalesce(heap_blks_read,0)+coalesce(idx_blks_read,0)+coalesce(toast_blks_read,0)\
               +coalesce(tidx_blks_read,0),\
             'changed',n_tup_ins+n_tup_upd+n_tup_del) \
             FROM (SELECT s.*,t.n_tup_ins,t.n_tup_upd,t.n_tup_del FROM pg_statio_user_tables s \
               JOIN pg_stat_user_tables t USING (relid,schemaname,relname) \
               ORDER BY coalesce(heap_blks_read,0)+coalesce(idx_blks_read,0)+n_tup_ins+n_tup_upd+n_tup_del DESC \
               LIMIT {MAX_RELATIONS}) r;\n"
        );
        if self.version >= 160_000 {
            statements += "SELECT json_build_object('t','io','row',to_jsonb(i)) FROM pg_stat_io i;\n";
        }
        // the extension may be there and not be loaded: an error, and the end of the transaction
        if let Some(schema) = &self.statements_schema {
            statements += &format!(
                "SELECT json_build_object('t','statement','row',(to_jsonb(s)-'query')||jsonb_build_object('query',\
                 left(s.query,1000))) FROM (SELECT * FROM {schema}.pg_stat_statements \
                 ORDER BY shared_blks_read DESC LIMIT {MAX_STATEMENTS}) s;\n"
            );
        }
        let rows = parse_rows(&ask(&in_transaction(&statements))?);
        Ok(self.read_detail_rows(&rows))
    }
}

/// Largest number of sessions whose locks are looked up in a sample: each takes a moment of the lock table.
const MAX_WAITING: usize = 50;
/// Largest number of sessions in a sample.
const MAX_SESSIONS: usize = 500;
/// Largest number of tables that are followed.
const MAX_RELATIONS: usize = 1_000;
/// Largest number of statements that are followed.
const MAX_STATEMENTS: usize = 100;

fn missing_times(what: &str, setting: &str) -> String {
    format!(
        "the time of its {what} is not measured, because {setting} is off: ALTER SYSTEM SET {setting} = on; \
         SELECT pg_reload_conf()"
    )
}

/// Who blocks whom, and the locks that are waited for. A row that is locked is known by the transaction that has it;
/// its table is known of the first that waits, which holds a lock on the row's place.
fn lock_statements(pids: &str) -> String {
    format!(
        "SELECT json_build_object('t','blocked','pid',p,'by',pg_blocking_pids(p)) \
         FROM unnest(ARRAY[{pids}]::int[]) p;\n\
         SELECT json_build_object('t','lock','pid',l.pid,'kind',l.locktype,'mode',l.mode,'granted',l.granted,\
           'wait_s',extract(epoch from clock_timestamp()-(to_jsonb(l)->>'waitstart')::timestamptz),\
           'relation',CASE WHEN l.database=(SELECT oid FROM pg_database WHERE datname=current_database()) \
             THEN l.relation::regclass::text END) \
         FROM pg_locks l WHERE l.pid=ANY(ARRAY[{pids}]::int[]) AND (NOT l.granted OR l.locktype='tuple');"
    )
}

impl PostgresQueries {
    fn sample_statements(&self) -> String {
        let mut statements = format!(
            "SELECT json_build_object('t','session','pid',pid,'kind',backend_type,'user',usename,\
             'database',datname,'application',application_name,'client',client_addr,'state',state,\
             'wait_kind',wait_event_type,\
             'wait',wait_event,'transaction_s',extract(epoch from clock_timestamp()-xact_start),\
             'statement_s',extract(epoch from clock_timestamp()-query_start),'query',left(query,2000)) \
             FROM (SELECT * FROM pg_stat_activity WHERE pid<>pg_backend_pid() AND state IS DISTINCT FROM 'idle' \
               AND (state IS NOT NULL OR wait_event_type IS DISTINCT FROM 'Activity') \
               ORDER BY wait_event_type='Lock' DESC NULLS LAST, query_start LIMIT {MAX_SESSIONS}) a;\n\
             SELECT json_build_object('t','count','sessions',(SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type='client backend' AND pid<>pg_backend_pid()));\n\
             SELECT json_build_object('t','database','row',to_jsonb(d)) FROM (SELECT sum(xact_commit) commits,\
               sum(xact_rollback) rollbacks,sum(blks_read) blocks_read,sum(blks_hit) blocks_hit,\
               sum(temp_bytes) temp_bytes,sum(deadlocks) deadlocks,sum(blk_read_time) read_ms,\
               sum(blk_write_time) write_ms FROM pg_stat_database) d;\n\
             SELECT json_build_object('t','writer','row',to_jsonb(b)) FROM pg_stat_bgwriter b;\n"
        );
        if self.version >= 140_000 {
            statements += "SELECT json_build_object('t','log','row',to_jsonb(w)) FROM pg_stat_wal w;\n";
        }
        if self.version >= 160_000 {
            statements += "SELECT json_build_object('t','io','row',to_jsonb(i)) FROM (SELECT backend_type,object,\
                sum(coalesce(write_bytes,writes*op_bytes)) written,sum(fsyncs) fsyncs,sum(fsync_time) fsync_ms \
                FROM (SELECT backend_type,object,writes,fsyncs,fsync_time,\
                (to_jsonb(x)->>'op_bytes')::numeric op_bytes,(to_jsonb(x)->>'write_bytes')::numeric write_bytes \
                FROM pg_stat_io x WHERE object<>'wal' OR context<>'init') y GROUP BY 1,2) i;\n";
        }
        if self.version >= 170_000 {
            statements +=
                "SELECT json_build_object('t','checkpointer','row',to_jsonb(c)) FROM pg_stat_checkpointer c;\n";
        }
        in_transaction(&statements)
    }

    fn add_totals(&self, values: &mut SampleValues, rows: &[Value]) {
        let block = self.block_bytes;
        let row_of = |name: &'static str| rows_called(rows, name).next().map(|row| &row["row"]);
        let mut set = |counter: &'static str, row: Option<&Value>, name: &str, factor: f64| {
            values.extend(row.and_then(|row| number_of(row, name)).map(|value| (counter, value * factor)));
        };
        let sums = row_of("database");
        set(database::COMMITS, sums, "commits", 1.0);
        set(database::ROLLBACKS, sums, "rollbacks", 1.0);
        set(database::READ_BLOCKS, sums, "blocks_read", 1.0);
        set(database::READ_BYTES, sums, "blocks_read", block);
        set(database::FOUND_BLOCKS, sums, "blocks_hit", 1.0);
        set(database::TEMPORARY_BYTES, sums, "temp_bytes", 1.0);
        set(database::DEADLOCKS, sums, "deadlocks", 1.0);
        // off, it counts nothing, and 0 would be a lie
        if self.has_io_times {
            set(database::READ_TIME_S, sums, "read_ms", MS_TO_S);
            set(database::WRITE_TIME_S, sums, "write_ms", MS_TO_S);
        }
        let log = row_of("log");
        set(database::LOG_BYTES, log, "wal_bytes", 1.0);
        set(database::LOG_SYNCS, log, "wal_sync", 1.0);
        set(database::LOG_BUFFER_WAITS, log, "wal_buffers_full", 1.0);
        if self.has_log_times {
            set(database::LOG_SYNC_TIME_S, log, "wal_sync_time", MS_TO_S);
        }
        let (writer, checkpointer) = (row_of("writer"), row_of("checkpointer"));
        set(database::CHECKPOINTS_TIMED, writer, "checkpoints_timed", 1.0);
        set(database::CHECKPOINTS_TIMED, checkpointer, "num_timed", 1.0);
        set(database::CHECKPOINTS_REQUESTED, writer, "checkpoints_req", 1.0);
        set(database::CHECKPOINTS_REQUESTED, checkpointer, "num_requested", 1.0);
        set(database::CHECKPOINT_WRITE_TIME_S, writer, "checkpoint_write_time", MS_TO_S);
        set(database::CHECKPOINT_WRITE_TIME_S, checkpointer, "write_time", MS_TO_S);
        set(database::CHECKPOINT_SYNC_TIME_S, writer, "checkpoint_sync_time", MS_TO_S);
        set(database::CHECKPOINT_SYNC_TIME_S, checkpointer, "sync_time", MS_TO_S);
        set(database::CHECKPOINT_WRITTEN_BYTES, writer, "buffers_checkpoint", block);
        set(database::CHECKPOINT_WRITTEN_BYTES, checkpointer, "buffers_written", block);
        let sessions = rows_called(rows, "count").next().and_then(|row| number_of(row, "sessions"));
        values.extend(sessions.map(|count| (database::SESSIONS, count)));
        let used = sessions.map(|count| count / self.max_connections).filter(|share| share.is_finite());
        values.extend(used.map(|share| (database::CONNECTIONS_USED_FRACTION, share)));
        values.insert(database::SESSIONS_WAITING_DATA, answer_rows::waiting_for_data(rows));
        self.add_log_syncs(values, rows);
        self.add_written(values, rows);
    }

    /// Flushes of the log, which version 18 counts in `pg_stat_io` only. Those of the context `init` make files for the
    /// log to come, and no commit waits for them; earlier versions do not count them either.
    fn add_log_syncs(&self, values: &mut SampleValues, rows: &[Value]) {
        let of_log = || rows_called(rows, "io").map(|row| &row["row"]).filter(|row| row["object"] == "wal");
        if of_log().next().is_none() {
            return;
        }
        let sum = |name: &str| -> f64 { of_log().filter_map(|row| number_of(row, name)).sum() };
        values.insert(database::LOG_SYNCS, sum("fsyncs"));
        if self.has_log_times {
            values.insert(database::LOG_SYNC_TIME_S, sum("fsync_ms") * MS_TO_S);
        }
    }

    /// What was written, by the processes that wrote it: from version 16 on in `pg_stat_io`, before in
    /// `pg_stat_bgwriter`.
    fn add_written(&self, values: &mut SampleValues, rows: &[Value]) {
        let block = self.block_bytes;
        let io = || rows_called(rows, "io").map(|row| &row["row"]).filter(|row| row["object"] != "wal");
        if io().next().is_some() {
            let sum = |name: &str, is_of: &dyn Fn(&Value) -> bool| -> f64 {
                io().filter(|row| is_of(row)).filter_map(|row| number_of(row, name)).sum()
            };
            let of_client = |row: &Value| row["backend_type"] == "client backend";
            values.insert(database::WRITTEN_BYTES, sum("written", &|_| true));
            values.insert(database::SESSION_WRITTEN_BYTES, sum("written", &of_client));
            values.insert(database::SESSION_SYNCS, sum("fsyncs", &of_client));
            return;
        }
        let Some(writer) = rows_called(rows, "writer").next().map(|row| &row["row"]) else { return };
        let blocks = |name: &str| number_of(writer, name).map(|blocks| blocks * block);
        let parts = [blocks("buffers_checkpoint"), blocks("buffers_clean"), blocks("buffers_backend")];
        if parts.iter().all(Option::is_some) {
            values.insert(database::WRITTEN_BYTES, parts.iter().flatten().sum());
        }
        values.extend(parts[2].map(|bytes| (database::SESSION_WRITTEN_BYTES, bytes)));
        values.extend(number_of(writer, "buffers_backend_fsync").map(|syncs| (database::SESSION_SYNCS, syncs)));
    }

    fn read_detail_rows(&self, rows: &[Value]) -> Details {
        let relations = rows_called(rows, "relation").map(|row| RelationRow {
            name: text_of(row, "name"),
            read_bytes: number_of(row, "read").unwrap_or(0.0) * self.block_bytes,
            written_bytes: None,
            rows_changed: number_of(row, "changed"),
        });
        // one text may have several users and plans
        let mut statements: BTreeMap<String, StatementRow> = BTreeMap::new();
        for row in rows_called(rows, "statement").map(|row| &row["row"]) {
            let statement = mask_statement(&text_of(row, "query"), QuoteStyle::Standard);
            let add = |sum: &mut Option<f64>, value: Option<f64>| {
                if let Some(value) = value {
                    *sum = Some(sum.unwrap_or(0.0) + value);
                }
            };
            let known = statements
                .entry(statement.clone())
                .or_insert_with(|| StatementRow { statement, ..StatementRow::default() });
            add(&mut known.calls, number_of(row, "calls"));
            let time_ms = number_of(row, "total_exec_time").or_else(|| number_of(row, "total_time"));
            add(&mut known.time_s, time_ms.map(|ms| ms * MS_TO_S));
            add(&mut known.read_bytes, number_of(row, "shared_blks_read").map(|blocks| blocks * self.block_bytes));
        }
        Details {
            relations: relations.collect(),
            statements: statements.into_values().collect(),
            processes: self.process_rows(rows),
        }
    }

    fn process_rows(&self, rows: &[Value]) -> Vec<DatabaseProcessRow> {
        let mut processes: BTreeMap<String, DatabaseProcessRow> = BTreeMap::new();
        let mut untimed: BTreeSet<String> = BTreeSet::new();
        for row in rows_called(rows, "io").map(|row| &row["row"]) {
            let kind = text_of(row, "backend_type");
            let process = processes
                .entry(kind.clone())
                .or_insert_with(|| DatabaseProcessRow { kind, ..DatabaseProcessRow::default() });
            let number = |name: &str| number_of(row, name).unwrap_or(0.0);
            // version 18 counts bytes, those before operations of one size
            let size = number_of(row, "op_bytes").unwrap_or(self.block_bytes);
            process.read_bytes += number_of(row, "read_bytes").unwrap_or(number("reads") * size);
            process.written_bytes += number_of(row, "write_bytes").unwrap_or(number("writes") * size);
            process.syncs += number("fsyncs");
            let add = |sum: &mut Option<f64>, name: &str| *sum = Some(sum.unwrap_or(0.0) + number(name) * MS_TO_S);
            add(&mut process.read_s, "read_time");
            add(&mut process.write_s, "write_time");
            add(&mut process.sync_s, "fsync_time");
            // since version 18, the log has rows of its own, which another setting times
            let is_timed = if row["object"] == "wal" { self.has_log_times } else { self.has_io_times };
            if !is_timed {
                untimed.insert(text_of(row, "backend_type"));
            }
        }
        for kind in untimed {
            // a sum of which a part is not measured is not known
            let process = processes.entry(kind).or_default();
            (process.read_s, process.write_s, process.sync_s) = (None, None, None);
        }
        processes.into_values().collect()
    }
}
