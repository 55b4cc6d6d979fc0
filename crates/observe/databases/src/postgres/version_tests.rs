//! What the versions of PostgreSQL count and where: of servers that are here, and in rows as versions 15 to 18 answered
//! them, with numbers that are easy to add up.

use serde_json::json;

use super::*;
use crate::client_process::ClientProcess;
use crate::servers::{Server, on_each_postgres};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
const BLOCK: f64 = 8192.0;

/// Rows of `pg_stat_io`: two processes; since 18 the log, and bytes instead of the size of an operation.
fn io_rows(version: u32) -> Vec<Value> {
    let row = |kind: &str, object: &str, [reads, writes, fsyncs]: [u64; 3], fsync_ms: f64| {
        let mut row = json!({ "backend_type": kind, "object": object, "context": "normal", "reads": reads,
            "read_time": 2.5, "writes": writes, "write_time": 1.5, "writebacks": 0, "writeback_time": 0, "extends": 3,
            "extend_time": 0, "hits": 9, "evictions": 0, "reuses": null, "fsyncs": fsyncs, "fsync_time": fsync_ms,
            "stats_reset": null });
        if version >= 180_000 {
            row["read_bytes"] = json!(reads * 8192);
            row["write_bytes"] = json!(writes * 8192);
            row["extend_bytes"] = json!(3 * 8192);
        } else {
            row["op_bytes"] = json!(8192);
        }
        row
    };
    let mut rows =
        vec![row("client backend", "relation", [100, 10, 1], 5.0), row("checkpointer", "relation", [0, 1000, 7], 70.0)];
    if version >= 180_000 {
        rows.push(row("client backend", "wal", [0, 50, 40], 80.0));
        rows.push(row("walwriter", "wal", [0, 4, 2], 4.0));
    }
    rows
}

/// The row of `pg_stat_bgwriter`.
fn writer_row(version: u32) -> Value {
    let mut row = json!({ "buffers_clean": 6, "maxwritten_clean": 0, "buffers_alloc": 900, "stats_reset": null });
    if version < 170_000 {
        row["checkpoints_timed"] = json!(3);
        row["checkpoints_req"] = json!(5);
        row["checkpoint_write_time"] = json!(4000);
        row["checkpoint_sync_time"] = json!(250);
        row["buffers_checkpoint"] = json!(1000);
        row["buffers_backend"] = json!(10);
        row["buffers_backend_fsync"] = json!(1);
    }
    row
}

/// The row of `pg_stat_checkpointer`, since version 17.
fn checkpointer_row(version: u32) -> Value {
    let mut row = json!({ "num_timed": 3, "num_requested": 5, "restartpoints_timed": 0, "restartpoints_req": 0,
        "restartpoints_done": 0, "write_time": 4000, "sync_time": 250, "buffers_written": 1000, "stats_reset": null });
    if version >= 180_000 {
        row["num_done"] = json!(7);
        row["slru_written"] = json!(2);
    }
    row
}

/// The row of `pg_stat_wal`.
fn log_row(version: u32) -> Value {
    let mut row = json!({ "wal_records": 77, "wal_fpi": 8, "wal_bytes": 123_456, "wal_buffers_full": 11,
        "stats_reset": null });
    if version < 180_000 {
        row["wal_write"] = json!(54);
        row["wal_sync"] = json!(42);
        row["wal_write_time"] = json!(3);
        row["wal_sync_time"] = json!(84);
    }
    row
}

/// The views of a version with their rows.
fn views(version: u32) -> Vec<(&'static str, Vec<Value>)> {
    let mut views = vec![("pg_stat_bgwriter", vec![writer_row(version)]), ("pg_stat_wal", vec![log_row(version)])];
    if version >= 160_000 {
        views.push(("pg_stat_io", io_rows(version)));
    }
    if version >= 170_000 {
        views.push(("pg_stat_checkpointer", vec![checkpointer_row(version)]));
    }
    views
}

fn queries(version: u32) -> PostgresQueries {
    PostgresQueries {
        version,
        block_bytes: BLOCK,
        max_connections: 100.0,
        has_io_times: true,
        has_log_times: true,
        statements_schema: None,
    }
}

/// All versions count the same, wherever they show it.
fn assert_totals(values: &SampleValues, version: u32) {
    let written = if version < 160_000 { 1016.0 } else { 1010.0 };
    for (counter, expected) in [
        (database::CHECKPOINTS_TIMED, 3.0),
        (database::CHECKPOINTS_REQUESTED, 5.0),
        (database::CHECKPOINT_WRITE_TIME_S, 4.0),
        (database::CHECKPOINT_SYNC_TIME_S, 0.25),
        (database::CHECKPOINT_WRITTEN_BYTES, 1000.0 * BLOCK),
        (database::WRITTEN_BYTES, written * BLOCK),
        (database::SESSION_WRITTEN_BYTES, 10.0 * BLOCK),
        (database::SESSION_SYNCS, 1.0),
        (database::LOG_BYTES, 123_456.0),
        (database::LOG_SYNCS, 42.0),
        (database::LOG_SYNC_TIME_S, 0.084),
        (database::LOG_BUFFER_WAITS, 11.0),
    ] {
        assert_eq!(values.get(counter), Some(&expected), "{version}: {counter}");
    }
}

fn assert_processes(processes: &[DatabaseProcessRow], version: u32) {
    let row = |kind: &str| processes.iter().find(|row| row.kind == kind).unwrap_or_else(|| panic!("{version} {kind}"));
    let (client, checkpointer) = (row("client backend"), row("checkpointer"));
    assert_eq!((checkpointer.written_bytes, checkpointer.syncs), (1000.0 * BLOCK, 7.0), "{version}");
    assert_eq!(checkpointer.sync_s, Some(0.07));
    let (written, syncs) = if version < 180_000 { (10.0, 1.0) } else { (60.0, 41.0) };
    assert_eq!((client.read_bytes, client.written_bytes), (100.0 * BLOCK, written * BLOCK), "{version}");
    assert_eq!(client.syncs, syncs, "{version}");
    assert_eq!(processes.iter().any(|row| row.kind == "walwriter"), version >= 180_000);
}

fn client_of(server: &Server) -> ClientProcess {
    let address = DatabaseAddress::parse(crate::DatabaseEngine::Postgres, &server.address("postgres")).unwrap();
    ClientProcess::start(client_command(Command::new("psql"), &address, None), END_STATEMENT).unwrap()
}

/// Totals that grow when sessions write and commit and a checkpoint writes what they wrote.
const GROWING: [&str; 7] = [
    database::COMMITS,
    database::FOUND_BLOCKS,
    database::CHECKPOINTS_REQUESTED,
    database::CHECKPOINT_WRITTEN_BYTES,
    database::WRITTEN_BYTES,
    database::LOG_BYTES,
    database::LOG_SYNCS,
];
/// What else every version since 15 shows, whether something happened or not.
const SHOWN: [&str; 17] = [
    database::ROLLBACKS,
    database::READ_BLOCKS,
    database::READ_BYTES,
    database::READ_TIME_S,
    database::WRITE_TIME_S,
    database::TEMPORARY_BYTES,
    database::DEADLOCKS,
    database::LOG_BUFFER_WAITS,
    // nothing, where the files are in memory
    database::LOG_SYNC_TIME_S,
    database::CHECKPOINTS_TIMED,
    database::CHECKPOINT_WRITE_TIME_S,
    database::CHECKPOINT_SYNC_TIME_S,
    database::CHECKPOINT_HURRYING,
    database::SESSION_WRITTEN_BYTES,
    database::SESSION_SYNCS,
    database::SESSIONS,
    database::CONNECTIONS_USED_FRACTION,
];

#[test]
fn every_version_counts_what_commits_flush_and_a_checkpoint_writes() {
    let libraries = "shared_preload_libraries=pg_stat_statements";
    on_each_postgres(&["fsync=on", "track_io_timing=on", "track_wal_io_timing=on", libraries], |server| {
        server.execute("CREATE EXTENSION pg_stat_statements");
        let (mut client, mut queries) = (client_of(&server), PostgresQueries::default());
        let mut ask = |statements: &str| {
            let answer = client.ask(statements, TIMEOUT);
            assert_eq!(client.error_line(), "");
            answer
        };
        queries.read_facts(&mut ask).unwrap();
        let before = queries.read_sample(&mut ask).unwrap().values;
        server.execute("CREATE TABLE orders AS SELECT i, repeat('x', 500) t FROM generate_series(1, 20000) i");
        server.execute("CHECKPOINT");
        // the background writer may be quicker with some of it
        let most_bytes = server.execute("SELECT pg_relation_size('orders')").parse::<f64>().unwrap() / 2.0;
        let begin = Instant::now();
        // processes report what they counted some time after they did it
        let after = loop {
            let after = queries.read_sample(&mut ask).unwrap().values;
            let least = |name: &str| if name.ends_with("written_bytes") { most_bytes } else { 0.0 };
            let has_grown = |name: &&str| {
                let grown = after.get(name).zip(before.get(name)).map(|(now, then)| now - then);
                grown.is_some_and(|grown| grown > 0.0 && grown >= least(name))
            };
            let still: Vec<&str> = GROWING.into_iter().filter(|name| !has_grown(name)).collect();
            if still.is_empty() {
                break after;
            }
            assert!(begin.elapsed() < TIMEOUT, "{} did not count {still:?}", queries.version);
            std::thread::park_timeout(Duration::from_millis(200));
        };
        let missing: Vec<&str> = SHOWN.into_iter().filter(|name| !after.contains_key(name)).collect();
        assert!(missing.is_empty(), "{} does not show {missing:?}", queries.version);
        let details = queries.read_details(&mut ask).unwrap();
        let made = details.statements.iter().find(|row| row.statement.starts_with("CREATE TABLE orders"));
        assert!(made.is_some_and(|row| row.calls == Some(1.0) && row.time_s > Some(0.0)), "{:?}", details.statements);
        let table = details.relations.iter().find(|row| row.name == "public.orders");
        assert_eq!(table.and_then(|row| row.rows_changed), Some(20_000.0), "{:?}", details.relations);
        let checkpointer = details.processes.iter().find(|process| process.kind == "checkpointer");
        assert_eq!(checkpointer.is_some(), queries.version >= 160_000);
        assert!(checkpointer.is_none_or(|process| process.written_bytes >= most_bytes), "{checkpointer:?}");
    });
}

/// Answers without a server: that to a sample has the sums of `pg_stat_io`, as a server made them.
fn recorded_answers(version: u32, statements: &str) -> Vec<String> {
    let row = |kind: &str, row: Value| json!({ "t": kind, "row": row }).to_string();
    if statements.contains("'relation'") {
        return views(version)
            .into_iter()
            .filter(|(view, _)| *view == "pg_stat_io")
            .flat_map(|(_, rows)| rows)
            .map(|io| row("io", io))
            .collect();
    }
    let mut lines = vec![
        row(
            "database",
            json!({ "commits": 12, "rollbacks": 0, "blocks_read": 1, "blocks_hit": 2, "temp_bytes": 0,
            "deadlocks": 0, "read_ms": 0, "write_ms": 0 }),
        ),
        row("writer", writer_row(version)),
        row("log", log_row(version)),
    ];
    let sums = |kind: &str, object: &str, [written, fsyncs]: [u32; 2], fsync_ms: u32| {
        row(
            "io",
            json!({ "backend_type": kind, "object": object, "written": written, "fsyncs": fsyncs,
            "fsync_ms": fsync_ms }),
        )
    };
    if version >= 160_000 {
        lines.push(sums("client backend", "relation", [81_920, 1], 5));
        lines.push(sums("checkpointer", "relation", [8_192_000, 7], 70));
    }
    if version >= 170_000 {
        lines.push(row("checkpointer", checkpointer_row(version)));
    }
    if version >= 180_000 {
        lines.push(sums("client backend", "wal", [409_600, 40], 80));
        lines.push(sums("walwriter", "wal", [32_768, 2], 4));
    }
    lines
}

#[test]
fn answers_of_all_versions_count_the_same() {
    for version in [150_000, 160_000, 170_000, 180_000] {
        let mut queries = queries(version);
        let known: Vec<&str> = views(version).into_iter().map(|(view, _)| view).collect();
        let mut ask = |statements: &str| {
            for view in ["pg_stat_io", "pg_stat_checkpointer"] {
                assert!(!statements.contains(view) || known.contains(&view), "{version} has no {view}");
            }
            Ok(recorded_answers(version, statements))
        };
        assert_totals(&queries.read_sample(&mut ask).unwrap().values, version);
        let processes = queries.read_details(&mut ask).unwrap().processes;
        if version < 160_000 {
            assert!(processes.is_empty(), "only later versions tell them apart");
        } else {
            assert_processes(&processes, version);
        }
    }
}

#[test]
fn a_time_of_which_a_part_is_not_measured_is_not_known() {
    let mut queries = PostgresQueries { has_log_times: false, ..queries(180_000) };
    let details = queries.read_details(&mut |statements| Ok(recorded_answers(180_000, statements))).unwrap();
    let sync_s = |kind: &str| details.processes.iter().find(|row| row.kind == kind).and_then(|row| row.sync_s);
    assert_eq!((sync_s("client backend"), sync_s("walwriter")), (None, None), "flushes of the log are not timed");
    assert_eq!(sync_s("checkpointer"), Some(0.07));
}
