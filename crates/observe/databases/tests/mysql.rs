//! What is learned of real MariaDB and MySQL servers.

use diskwright_base::{DatabaseActivity, Note};
use diskwright_databases::DatabaseEngine;

use crate::postgres::Watch;
use crate::servers::on_each_mysql;

#[test]
fn shows_who_holds_a_lock_and_who_waits_for_it() {
    on_each_mysql(&["--performance-schema=ON"], |server| {
        server.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders(id int PRIMARY KEY, note text) ENGINE=InnoDB; \
             INSERT INTO shop.orders VALUES (1, 'a')",
        );
        let holder = server.open_session("BEGIN; UPDATE shop.orders SET note = 'secret' WHERE id = 1;");
        server.wait_for_idle_transaction();
        let mut watch = Watch::start(DatabaseEngine::Mysql, &server.address("root"), None);
        watch.tick_until("an answer", |watch| watch.value("database.sessions").is_some_and(|sessions| sessions >= 1.0));
        let waiting: Vec<_> =
            (0..2).map(|_| server.open_session("UPDATE shop.orders SET note = 'hidden' WHERE id = 1;")).collect();
        watch.tick_until("the waits", |watch| {
            watch.value("database.sessions_waiting_lock") == Some(2.0)
                && watch.value("database.idle_lock_holders") == Some(1.0)
                && watch.value("database.longest_lock_wait_s").is_some_and(|wait| wait > 1.0)
        });
        let is_complete = |activity: &DatabaseActivity| activity.locks.first().is_some_and(|lock| lock.waiting == 2);
        watch.tick_until("a note", |watch| watch.activity(is_complete).is_some());
        let activity = watch.activity(is_complete).unwrap();
        let lock = &activity.locks[0];
        assert!(lock.is_idle, "{lock:?}");
        assert_eq!((lock.what.as_str(), lock.holder.user.as_str()), ("a row of shop.orders", "root"));
        assert_eq!(lock.waiting_statement, "UPDATE shop.orders SET note = ? WHERE id = ?");
        let told: String = watch.notes.iter().map(Note::text).collect();
        assert!(!told.contains("secret") && !told.contains("hidden"), "{told}");
        drop((holder, waiting));
        watch.tick_until("the end of the waits", |watch| watch.value("database.sessions_waiting_lock") == Some(0.0));
    });
}

/// A reader that neither commits nor goes on, an alteration that waits for it, a reader that waits for the alteration.
#[test]
fn shows_who_keeps_a_table_from_being_altered() {
    // MySQL has the instrument on by default
    let options = ["--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"];
    on_each_mysql(&options, |server| {
        server.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders(id int PRIMARY KEY) ENGINE=InnoDB; \
             INSERT INTO shop.orders VALUES (1)",
        );
        let holder = server.open_session("BEGIN; SELECT * FROM shop.orders;");
        server.wait_until("SELECT COUNT(*) FROM information_schema.INNODB_TRX", "1");
        let alteration = server.open_session("ALTER TABLE shop.orders ADD note text;");
        let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock'";
        server.wait_until(waiting, "1");
        let reader = server.open_session("SELECT COUNT(*) FROM shop.orders;");
        let mut watch = Watch::start(DatabaseEngine::Mysql, &server.address("root"), None);
        watch.tick_until("the waits", |watch| {
            watch.value("database.sessions_waiting_lock") == Some(2.0)
                && watch.value("database.idle_lock_holders") == Some(1.0)
        });
        let is_complete = |activity: &DatabaseActivity| activity.locks.first().is_some_and(|lock| lock.waiting == 2);
        watch.tick_until("a note", |watch| watch.activity(is_complete).is_some());
        let lock = watch.activity(is_complete).unwrap().locks[0].clone();
        assert_eq!((lock.is_idle, lock.what.as_str()), (true, "the definition of shop.orders"), "{lock:?}");
        let id = server.execute("SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX ORDER BY trx_started");
        assert_eq!(lock.holder.id.to_string(), id.lines().next().unwrap_or_default());
        drop((holder, alteration, reader));
    });
}

#[test]
fn times_are_there_only_with_performance_schema() {
    on_each_mysql(&["--performance-schema=ON"], |server| {
        let mut watch = Watch::start(DatabaseEngine::Mysql, &server.address("root"), None);
        watch.tick_until("times", |watch| {
            ["read_time_s", "checkpoint_age_fraction", "deadlocks"]
                .iter()
                .all(|name| watch.value(&format!("database.{name}")).is_some())
        });
    });
    on_each_mysql(&["--performance-schema=OFF"], |server| {
        let mut watch = Watch::start(DatabaseEngine::Mysql, &server.address("root"), None);
        watch.tick_until("commits", |watch| watch.value("database.commits").is_some());
        assert!(!watch.has_column("database.read_time_s"));
        assert!(watch.has_note(Note::UNSEEN, "performance_schema is off"), "{:?}", watch.notes);
    });
}

#[test]
fn a_user_without_rights_is_told_which_it_needs() {
    on_each_mysql(&["--performance-schema=ON"], |server| {
        server.execute("CREATE USER watch@localhost IDENTIFIED BY 'pw of the user'");
        let url = server.address("watch");
        let mut refused = Watch::start(DatabaseEngine::Mysql, &url, None);
        refused.tick_until("a refusal", |watch| watch.has_note(Note::GAP, "Access denied for user"));
        let mut watch = Watch::start(DatabaseEngine::Mysql, &url, Some("pw of the user"));
        watch.tick_until("hints", |watch| watch.has_note(Note::UNSEEN, "GRANT PROCESS ON *.*"));
        watch.tick_until("hints", |watch| watch.has_note(Note::UNSEEN, "GRANT SELECT ON performance_schema.*"));
        assert!(watch.notes.iter().all(|note| !note.text().contains("pw of")));
    });
}
