//! What is learned of real PostgreSQL servers.

use std::time::{Duration, Instant};

use diskwright_base::{DatabaseActivity, Note};
use diskwright_databases::{DatabaseAddress, DatabaseEngine, DatabaseMonitor, MonitorOptions};

use crate::servers::{Server, missing_servers, on_each_postgres};

const TICK: Duration = Duration::from_millis(250);
/// Longest time for something to be seen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A monitor whose ticks a test takes.
pub struct Watch {
    monitor: DatabaseMonitor,
    pub notes: Vec<Note>,
    /// The longest that a tick took.
    pub longest_tick: Duration,
}

impl Watch {
    pub fn start(engine: DatabaseEngine, url: &str, password: Option<&str>) -> Watch {
        let address = DatabaseAddress::parse(engine, url).expect("an address");
        let options = MonitorOptions {
            instance: address.instance_name(),
            address,
            password: password.map(str::to_owned),
            tick_interval: TICK,
            note_interval: Duration::from_secs(1),
            wall_clock: || 1_767_225_600_000_000_000,
            stack_bytes: 512 << 10,
        };
        let monitor = DatabaseMonitor::start(options).expect("a client");
        Watch { monitor, notes: Vec::new(), longest_tick: Duration::ZERO }
    }

    /// Takes ticks until something holds; it gets the watch after each.
    #[track_caller]
    pub fn tick_until(&mut self, event: &str, holds: impl Fn(&Watch) -> bool) {
        let begin = Instant::now();
        loop {
            std::thread::park_timeout(TICK);
            let tick = Instant::now();
            self.monitor.begin_tick(&mut self.notes);
            self.longest_tick = self.longest_tick.max(tick.elapsed());
            if holds(self) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "waited for {event}: {:#?}", self.notes);
        }
    }

    /// The value of a counter at the last tick; `None` for a gap or where there is no such column.
    pub fn value(&self, counter: &str) -> Option<f64> {
        let columns = self.monitor.series().iter().zip(self.monitor.cells());
        let mut found =
            columns.filter(|(series, _)| series.counter == counter).map(|(series, cell)| cell * series.scale);
        found.next_back().filter(|value| !value.is_nan())
    }

    pub fn has_column(&self, counter: &str) -> bool {
        self.monitor.series().iter().any(|series| series.counter == counter)
    }

    pub fn has_note(&self, kind: &str, words: &str) -> bool {
        self.notes.iter().any(|note| note.kind == kind && note.text().contains(words))
    }

    /// The last note of the server's activity for which something holds.
    pub fn activity(&self, holds: impl Fn(&DatabaseActivity) -> bool) -> Option<DatabaseActivity> {
        let notes = self.notes.iter().rev().filter(|note| note.kind == Note::DATABASE);
        notes.filter_map(|note| note.read_database().ok()).map(|a| (*a).clone()).find(|activity| holds(activity))
    }
}

fn watch(server: &Server) -> Watch {
    Watch::start(DatabaseEngine::Postgres, &server.address("postgres"), None)
}

/// The others of this folder test what is here, so that what is not must be told.
#[test]
fn servers_of_the_list_are_here() {
    for name in missing_servers() {
        eprintln!("skipped: no {name} in target/servers (tests/fetch_servers.py)");
    }
}

#[test]
fn shows_who_holds_a_lock_and_who_waits_for_it() {
    on_each_postgres(&[], |server| {
        server.execute("CREATE TABLE orders(id int PRIMARY KEY, note text); INSERT INTO orders VALUES (1, 'a')");
        let holder = server.open_session("BEGIN; UPDATE orders SET note = 'secret' WHERE id = 1;");
        server.wait_for_idle_transaction();
        let mut watch = watch(&server);
        watch.tick_until("an answer", |watch| watch.value("database.sessions").is_some_and(|sessions| sessions >= 1.0));
        let waiting: Vec<_> =
            (0..2).map(|_| server.open_session("UPDATE orders SET note = 'hidden' WHERE id = 1;")).collect();
        watch.tick_until("the waits", |watch| {
            watch.value("database.sessions_waiting_lock") == Some(2.0)
                && watch.value("database.idle_lock_holders") == Some(1.0)
                && watch.value("database.longest_lock_wait_s").is_some_and(|wait| wait > 1.0)
        });
        let is_complete = |activity: &DatabaseActivity| activity.locks.first().is_some_and(|lock| lock.waiting == 2);
        watch.tick_until("a note", |watch| watch.activity(is_complete).is_some());
        let activity = watch.activity(is_complete).unwrap();
        let lock = &activity.locks[0];
        assert!(lock.is_idle && lock.state == "idle in transaction", "{lock:?}");
        assert_eq!((lock.what.as_str(), lock.holder.user.as_str()), ("a row of public.orders", "postgres"));
        assert_eq!(lock.statement, "UPDATE orders SET note = ? WHERE id = ?");
        assert_eq!(lock.waiting_statement, "UPDATE orders SET note = ? WHERE id = ?");
        assert!(lock.transaction_s.is_some_and(|seconds| seconds > 1.0));
        // our own session may be between two statements
        let holders = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' \
                       AND application_name <> 'diskwright'";
        let pid = server.execute(holders);
        assert_eq!(lock.holder.id.to_string(), pid);
        assert!(activity.is_local && activity.settings.contains_key("max_wal_size"));
        let told: String = watch.notes.iter().map(Note::text).collect();
        assert!(!told.contains("secret") && !told.contains("hidden"), "{told}");
        drop((holder, waiting));
        watch.tick_until("the end of the waits", |watch| watch.value("database.sessions_waiting_lock") == Some(0.0));
    });
}

#[test]
fn times_that_are_not_measured_are_no_zeros_and_can_be_switched_on() {
    on_each_postgres(&["shared_buffers=1MB"], |server| {
        let mut watch = watch(&server);
        watch.tick_until("commits", |watch| watch.value("database.commits").is_some_and(|commits| commits > 0.0));
        assert!(!watch.has_column("database.read_time_s") && watch.has_column("database.read_bytes"));
        let words = "track_io_timing is off: ALTER SYSTEM SET track_io_timing = on; SELECT pg_reload_conf()";
        assert!(watch.has_note(Note::UNSEEN, words), "{:?}", watch.notes);
        server.execute("ALTER SYSTEM SET track_io_timing = on");
        server.execute("SELECT pg_reload_conf()");
        watch.tick_until("times", |watch| watch.value("database.read_time_s").is_some());
        server.execute("CREATE TABLE big AS SELECT i, repeat('x', 500) t FROM generate_series(1, 20000) i");
        let reads = |activity: &DatabaseActivity| {
            activity.relations.iter().any(|row| row.name == "public.big" && row.read_bytes > 1e6)
        };
        let mut tries = 0;
        while watch.activity(reads).is_none() && tries < 60 {
            tries += 1;
            server.execute("SELECT sum(length(t)) FROM big");
            let count = watch.notes.len();
            watch.tick_until("a note", |watch| watch.notes.len() > count);
        }
        assert!(watch.activity(reads).is_some(), "{:#?}", watch.notes);
    });
}

#[test]
fn a_server_that_hangs_or_is_gone_costs_gaps_and_a_note_and_no_time() {
    on_each_postgres(&[], |server| {
        let url = server.address("postgres");
        let mut watch = Watch::start(DatabaseEngine::Postgres, &url, None);
        watch.tick_until("an answer", |watch| watch.value("database.commits").is_some());
        let sessions = server.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'diskwright'");
        assert_eq!(sessions, "1");
        server.set_stopped(true);
        watch.tick_until("a gap", |watch| watch.value("database.commits").is_none());
        watch
            .tick_until("a note", |watch| watch.has_note(Note::GAP, "postgres:postgres: no answer: it was silent for"));
        server.set_stopped(false);
        watch.tick_until("its return", |watch| watch.has_note(Note::GAP, "postgres:postgres: it answers again, after"));
        watch.tick_until("an answer", |watch| watch.value("database.commits").is_some());
        drop(server);
        watch.tick_until("a gap", |watch| watch.value("database.sessions").is_none());
        assert!(watch.longest_tick < Duration::from_secs(1), "{:?}", watch.longest_tick);
    });
}

#[test]
fn a_role_needs_a_password_and_is_told_of_the_rights_that_it_lacks() {
    on_each_postgres(&[], |server| {
        server.execute("CREATE ROLE watch LOGIN PASSWORD 'pw of the role'");
        let hba = server.folder().join("data/pg_hba.conf");
        std::fs::write(&hba, "local all postgres trust\nlocal all all scram-sha-256\n").unwrap();
        server.execute("SELECT pg_reload_conf()");
        let url = server.address("watch");
        let mut refused = Watch::start(DatabaseEngine::Postgres, &url, None);
        refused.tick_until("a refusal", |watch| watch.has_note(Note::GAP, "no password supplied"));
        let mut watch = Watch::start(DatabaseEngine::Postgres, &url, Some("pw of the role"));
        watch.tick_until("a hint", |watch| watch.has_note(Note::UNSEEN, "GRANT pg_monitor TO watch"));
        assert!(watch.notes.iter().all(|note| !note.text().contains("pw of")));
        let psql = server.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'watch' LIMIT 1");
        assert!(!psql.is_empty());
        server.execute("GRANT pg_monitor TO watch");
        let holder = server.open_session("BEGIN; LOCK TABLE pg_class IN SHARE MODE; SELECT 'open';");
        watch.tick_until("an age", |watch| watch.value("database.longest_transaction_s").is_some_and(|age| age > 1.0));
        drop(holder);
    });
}
