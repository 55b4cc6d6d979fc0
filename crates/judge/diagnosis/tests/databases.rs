//! What database servers say of themselves, connected with disks and processes.

use crate::common::*;
use diskwright_base::database_activity::{
    DatabaseActivity, LockRow, RelationRow, SessionIdentity, SessionRow, SessionTimes, StatementRow,
};
use diskwright_base::topology::{Filesystem, Topology};
use diskwright_base::{DeviceClass, Note, ProcessRow, ProcessTable};
use diskwright_diagnosis::{Bottleneck, Verdict};

const SERVER: &str = "postgres:shop";

fn quiet_machine() -> Recording {
    machine_with_disks_of(None)
}

fn machine_with_disks_of(bytes: Option<u64>) -> Recording {
    let disk = |name| diskwright_base::Device { bytes, ..device(name, DeviceClass::Flash, &[], None) };
    let topology = Topology {
        devices: ["sda", "sdb"].map(disk).into(),
        filesystems: [("/", "sda"), ("/data", "sdb")]
            .map(|(mount, device)| Filesystem { mount: mount.into(), kind: "ext4".into(), device: device.into() })
            .into(),
        processors: 4,
        ..Topology::default()
    };
    [("processor.user", "_total", 0.05), ("processor.system", "_total", 0.02), ("pressure.io_some_s", "", 0.01)]
        .into_iter()
        .fold(Recording::new(60).topology(topology), |r, (counter, instance, value)| {
            r.with(counter, instance, move |_| value)
        })
        .with("pressure.memory_some_s", "", |_| 0.0)
}

/// A session that does nothing holds a lock for which others wait.
fn with_lock(recording: Recording) -> Recording {
    let levels = [("idle_lock_holders", 1.0), ("sessions_waiting_lock", 5.0), ("active_sessions", 6.0)];
    let recording = levels
        .into_iter()
        .fold(recording, |r, (name, value)| r.with(&format!("database.{name}"), SERVER, move |_| value));
    recording.with("database.longest_lock_wait_s", SERVER, |tick| tick as f64)
}

fn with_full_disk(recording: Recording, name: &str) -> Recording {
    recording.disk(name, 1000.0, 0.008, 1.0).without("pressure.io_some_s").with("pressure.io_some_s", "", |_| 0.9)
}

fn activity() -> DatabaseActivity {
    DatabaseActivity {
        name: SERVER.into(),
        engine: "postgres".into(),
        address: "postgres://watch@/shop?host=/run/my sockets".into(),
        is_local: true,
        elapsed_s: 10.0,
        samples: 10,
        ..DatabaseActivity::default()
    }
}

fn lock() -> LockRow {
    LockRow {
        holder: SessionIdentity {
            id: 1122,
            tid: Some(1122),
            user: "app".into(),
            application: "psql".into(),
            ..SessionIdentity::default()
        },
        state: "idle in transaction".into(),
        is_idle: true,
        statement: "UPDATE orders SET note = ?".into(),
        transaction_s: Some(40.0),
        what: "a row of orders".into(),
        waiting: 5,
        longest_wait_s: 38.0,
        waited_s: 50.0,
        seen_ns: START + 60 * SECOND as i64,
        ..LockRow::default()
    }
}

fn session(pid: u64, statement: &str) -> SessionRow {
    SessionRow {
        identity: SessionIdentity { id: pid, tid: Some(pid as u32), ..SessionIdentity::default() },
        times: SessionTimes { active_s: 10.0, data_s: 9.0, ..SessionTimes::default() },
        statement: statement.into(),
        ..SessionRow::default()
    }
}

/// A server whose session 77 reads a table.
fn reading(folder: &str) -> DatabaseActivity {
    DatabaseActivity {
        settings: [("data_directory".to_owned(), folder.to_owned())].into(),
        sessions: vec![session(77, "SELECT sum(price) FROM orders")],
        statements: vec![StatementRow {
            statement: "SELECT sum(price) FROM orders".into(),
            times: SessionTimes { active_s: 10.0, data_s: 9.0, ..SessionTimes::default() },
            ..StatementRow::default()
        }],
        relations: vec![RelationRow { name: "public.orders".into(), read_bytes: 4e7, ..RelationRow::default() }],
        ..activity()
    }
}

fn reading_process(pid: u32) -> Note {
    let row = ProcessRow {
        pid,
        name: "postgres".into(),
        cgroup: "/".into(),
        read_bytes_per_s: Some(4e6),
        ..ProcessRow::default()
    };
    Note::processes(START, ProcessTable { elapsed_s: 10.0, rows: vec![row], ..ProcessTable::default() })
}

fn judge(recording: &Recording, notes: &[Note]) -> Verdict {
    recording.with_tables(notes)
}

#[test]
fn a_lock_is_named_with_its_holder_and_no_disk_is_blamed() {
    let note = Note::database(START, DatabaseActivity { locks: vec![lock()], ..activity() });
    let verdict = judge(&with_lock(quiet_machine().disk("sda", 5.0, 0.001, 0.01)), &[note]);
    assert_eq!((verdict.bottleneck, verdict.instance.as_str()), (Bottleneck::Application, SERVER));
    for words in [
        "A lock in postgres:shop is the bottleneck, not a disk: 5 sessions wait for it, the longest for 38 s",
        "PID 1122 (user app, psql) holds the lock on a row of orders, in a transaction that began at 00:00:20 UTC",
        "its client sends nothing; its last statement: `UPDATE orders SET note = ?`",
    ] {
        assert!(verdict.sentence.contains(words), "{words}: {}", verdict.sentence);
    }
    let culprit = &verdict.culprits[0];
    assert_eq!((culprit.pid, culprit.statement.as_deref()), (Some(1122), Some("UPDATE orders SET note = ?")));
    let command = verdict.advice[0].command.as_deref();
    let expected = "psql -U postgres -d 'postgres:///shop?host=/run/my sockets' -c 'SELECT pg_terminate_backend(1122)'";
    assert_eq!(command, Some(expected));
    let settings = [("unix_socket_directories", "/run/my sockets, /tmp"), ("port", "5433")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let note = Note::database(START, DatabaseActivity { locks: vec![lock()], settings, ..activity() });
    let local = judge(&with_lock(quiet_machine().disk("sda", 5.0, 0.001, 0.01)), &[note]);
    let expected = "runuser -u postgres -- psql -h '/run/my sockets' -p 5433 -c 'SELECT pg_terminate_backend(1122)'";
    assert_eq!(local.advice[0].command.as_deref(), Some(expected), "here its superuser is a user of the machine");
    assert_eq!(verdict.databases[0].locks, [lock()]);
}

#[test]
fn a_lock_and_a_full_disk_are_two() {
    let note = Note::database(START, DatabaseActivity { locks: vec![lock()], ..activity() });
    let verdict = judge(&with_lock(with_full_disk(quiet_machine(), "sda")), &[note]);
    let listed: Vec<_> = verdict.bottlenecks.iter().map(|b| (b.bottleneck, b.instance.as_str())).collect();
    assert_eq!(listed, [(Bottleneck::Disk, "sda"), (Bottleneck::Application, SERVER)]);
}

#[test]
fn a_lock_without_its_holder_is_still_no_disk() {
    let verdict = judge(&with_lock(quiet_machine().disk("sda", 5.0, 0.001, 0.01)), &[]);
    assert_eq!(verdict.bottleneck, Bottleneck::Application);
    assert!(
        verdict.sentence.starts_with("Locks in postgres:shop are the bottleneck, not a disk"),
        "{}",
        verdict.sentence
    );
    assert!(verdict.culprits.is_empty() && verdict.advice.iter().all(|advice| advice.command.is_none()));
}

#[test]
fn a_disk_is_connected_with_the_statement_and_the_table_of_its_server() {
    let recording = with_full_disk(quiet_machine(), "sda");
    let verdict = judge(&recording, &[reading_process(77), Note::database(START, reading("/var/lib/pg"))]);
    assert_eq!(verdict.bottleneck, Bottleneck::Disk);
    let words = "postgres:shop: 0.9 sessions on average wait for data in `SELECT sum(price) FROM orders`; \
                 it reads 4 MB/s of public.orders.";
    assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
    let culprit = &verdict.culprits[0];
    assert_eq!(culprit.statement.as_deref(), Some("SELECT sum(price) FROM orders"));
    assert!(culprit.description.ends_with("executes `SELECT sum(price) FROM orders`"), "{}", culprit.description);
}

#[test]
fn a_process_that_works_for_all_sessions_is_connected_too() {
    let server = DatabaseActivity { pids: vec![70], sessions: Vec::new(), ..reading("/var/lib/pg") };
    let verdict = judge(&with_full_disk(quiet_machine(), "sda"), &[reading_process(70), Note::database(START, server)]);
    assert!(verdict.sentence.contains("postgres:shop: 0.9 sessions"), "{}", verdict.sentence);
    let words = "its sessions wait most in `SELECT sum(price) FROM orders`";
    assert!(verdict.culprits[0].description.ends_with(words), "{}", verdict.culprits[0].description);
}

#[test]
fn a_server_is_not_connected_with_what_is_not_its_own() {
    let recording = with_full_disk(quiet_machine(), "sda");
    // its data are on the other disk
    let elsewhere = judge(&recording, &[reading_process(77), Note::database(START, reading("/data/pg"))]);
    // the process belongs to a server that nobody asks
    let other = judge(&recording, &[reading_process(78), Note::database(START, reading("/var/lib/pg"))]);
    // it runs on another machine, where the same id is another process
    let remote = DatabaseActivity { is_local: false, ..reading("/var/lib/pg") };
    let remote = judge(&recording, &[reading_process(77), Note::database(START, remote)]);
    for verdict in [elsewhere, other, remote] {
        assert_eq!(verdict.bottleneck, Bottleneck::Disk);
        assert!(!verdict.sentence.contains("postgres:shop"), "{}", verdict.sentence);
    }
}

/// The verdict on checkpoints that hurry, on disks of a size.
fn judge_checkpoints(disk_bytes: Option<u64>) -> Verdict {
    let settings = [
        ("max_wal_size", "1GB"),
        ("checkpoint_timeout", "5min"),
        ("checkpoint_completion_target", "0.9"),
        ("data_directory", "/data/pg"),
    ];
    let activity = DatabaseActivity {
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..activity()
    };
    let levels = [("checkpoint_hurrying", 1.0), ("is_local", 1.0), ("log_bytes", 1e7)];
    let recording = levels
        .into_iter()
        .fold(machine_with_disks_of(disk_bytes), |r, (name, value)| {
            r.with(&format!("database.{name}"), SERVER, move |_| value)
        })
        .without("pressure.io_some_s")
        .with("pressure.io_some_s", "", |_| 0.5);
    judge(&recording, &[Note::database(START, activity)])
}

#[test]
fn checkpoints_get_a_log_for_which_the_disk_has_room() {
    let command = |bytes: u64| judge_checkpoints(Some(bytes)).advice.iter().find_map(|advice| advice.command.clone());
    let has_size = |bytes: u64, size: &str| command(bytes).is_some_and(|command| command.contains(size));
    assert!(has_size(36 << 30, "max_wal_size = '7GB'"), "7 GB are a fifth of 35");
    // a fifth of 34 GiB, and of 10 GiB, which is twice the present 1 GB
    assert!(has_size(34 << 30, "max_wal_size = '6963MB'"), "{:?}", command(34 << 30));
    assert!(has_size(10 << 30, "max_wal_size = '2048MB'"), "{:?}", command(10 << 30));
    assert_eq!(command(9 << 30), None, "a log that is hardly larger helps little");
}

#[test]
fn checkpoints_get_a_size_of_the_log_that_lasts() {
    let verdict = judge_checkpoints(None);
    assert_eq!((verdict.bottleneck, verdict.instance.as_str()), (Bottleneck::Disk, SERVER));
    assert!(verdict.sentence.starts_with("The disk under postgres:shop is the bottleneck"), "{}", verdict.sentence);
    // 10 MB/s for 300 s, times 1.9, a fifth more
    let command = verdict.advice[0].command.as_deref().unwrap_or_default();
    assert!(command.contains("\"ALTER SYSTEM SET max_wal_size = '7GB'\""), "{command}");
    assert!(verdict.advice[0].undo.as_deref().is_some_and(|undo| undo.contains("= '1GB'")), "{:?}", verdict.advice[0]);
}

#[test]
fn notes_of_several_times_add_up() {
    let early = DatabaseActivity { locks: vec![LockRow { waiting: 9, ..lock() }], ..reading("/var/lib/pg") };
    let late = DatabaseActivity { locks: vec![LockRow { transaction_s: Some(50.0), ..lock() }], ..early.clone() };
    let notes = [Note::database(START, early), Note::database(START + 1, late)];
    let verdict = judge(&with_lock(quiet_machine()), &notes);
    let server = &verdict.databases[0];
    assert_eq!((server.samples, server.elapsed_s), (20, 20.0));
    let lock = &server.locks[0];
    assert_eq!((lock.waiting, lock.waited_s, lock.transaction_s), (9, 100.0, Some(50.0)));
    assert_eq!((server.statements[0].times.data_s, server.relations[0].read_bytes), (18.0, 8e7));
}

/// The commands for a disk whose flushes of 8 ms a server waits for, with these settings.
fn commit_commands(settings: &[(&str, &str)], folder: &str) -> Vec<String> {
    let places = [("unix_socket_directories", "/run/pg"), ("port", "5432"), ("data_directory", folder)];
    let settings = settings.iter().chain(&places).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let times = SessionTimes { active_s: 10.0, log_s: 9.0, ..SessionTimes::default() };
    let server = DatabaseActivity {
        settings: settings.collect(),
        sessions: vec![SessionRow { times, ..session(77, "COMMIT") }],
        ..activity()
    };
    let recording = quiet_machine()
        .disk("sda", 0.0, 0.008, 0.9)
        .with("physical_disk.flushes", "sda", |_| 110.0)
        .with("physical_disk.flush_time_s", "sda", |_| 110.0 * 0.008)
        .without("pressure.io_some_s")
        .with("pressure.io_some_s", "", |_| 0.9);
    let verdict = judge(&recording, &[reading_process(77), Note::database(START, server)]);
    assert_eq!(verdict.findings[0].rule, "disk.flush-bound", "{}", verdict.sentence);
    verdict.advice.into_iter().filter_map(|advice| advice.command).collect()
}

#[test]
fn commits_that_wait_for_flushes_get_settings_that_flush_less_often() {
    let settings = [("commit_delay", "0"), ("synchronous_commit", "on")];
    let commands = commit_commands(&settings, "/var/lib/pg");
    assert!(commands[0].contains("-h /run/pg -p 5432 -c 'ALTER SYSTEM SET commit_delay = 4000'"), "{commands:?}");
    assert!(commands[1].contains("synchronous_commit = off"), "{commands:?}");
    // what is set already is not set again, and a server on another disk is left alone
    let set = commit_commands(&[("commit_delay", "500"), ("synchronous_commit", "off")], "/var/lib/pg");
    let elsewhere = commit_commands(&settings, "/data/pg");
    for commands in [set, elsewhere] {
        assert!(commands.iter().all(|command| !command.contains("commit")), "{commands:?}");
    }
}
