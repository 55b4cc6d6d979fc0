//! `--postgres` and `--mysql`: a server is recorded, judged and never in the way.

#[path = "../crates/observe/databases/tests/servers.rs"]
mod servers;

use serde_json::Value;

use crate::common::{diskwright, folder, stderr, success, text};

#[test]
fn an_address_with_a_password_is_refused_and_not_repeated() {
    let log = folder("databases-password").join("log");
    for (option, url, place) in [
        ("--postgres", "postgres://u:hunter2@h/d", "~/.pgpass"),
        ("--mysql", "mysql://u:hunter2@h/d", "~/.my.cnf"),
        ("--postgres", "postgres:/u:hunter2@h/d", "is not a database address"),
    ] {
        for command in [vec!["record", text(&log), "--for", "1s"], vec!["why", "--for", "2s"]] {
            let refused = diskwright(&[&command[..], &[option, url]].concat());
            let said = stderr(&refused);
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(place) && !said.contains("hunter2"), "{said}");
        }
    }
    assert!(!log.exists());
}

#[test]
fn a_log_is_not_asked_again() {
    let refused = diskwright(&["why", "some.log", "--postgres", "postgres://h/d"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("--postgres asks a server while this machine is watched"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_recorded_lock_is_in_the_verdict_with_its_holder() {
    servers::on_each_postgres(&[], |server| assert_lock_is_told(&server));
}

fn assert_lock_is_told(server: &servers::Server) {
    server.execute("CREATE TABLE orders(id int PRIMARY KEY, note text); INSERT INTO orders VALUES (1, 'a')");
    let _holder = server.open_session("BEGIN; UPDATE orders SET note = 'q7x-one' WHERE id = 1;");
    server.wait_for_idle_transaction();
    let _waiting = server.open_session("UPDATE orders SET note = 'q7x-two' WHERE id = 1;");
    let name = format!("databases-lock-{}", server.execute("SHOW server_version_num"));
    let (log, url) = (folder(&name).join("log"), server.address("postgres"));
    // long ticks: on a full machine, an answer takes its time
    let recorded = diskwright(&["record", text(&log), "--every", "3s", "--for", "30s", "--postgres", &url, "--json"]);
    assert!(success(&recorded)["ticks"].as_u64().is_some_and(|ticks| ticks >= 2), "{}", stderr(&recorded));
    let verdict = success(&diskwright(&["why", text(&log), "--json"]));
    // other tests may keep processors and disks busy meanwhile
    let is_of_lock = |finding: &Value| finding["rule"] == "database.lock-idle-holder";
    assert!(verdict["findings"].as_array().is_some_and(|known| known.iter().any(is_of_lock)), "{verdict:#}");
    let lock = &verdict["databases"][0]["locks"][0];
    assert_eq!((lock["what"].as_str(), lock["is_idle"].as_bool()), (Some("a row of public.orders"), Some(true)));
    let pid = server.execute("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'");
    assert_eq!(lock["holder"]["id"].to_string(), pid);
    let told = verdict.to_string();
    assert!(!told.contains("q7x-"), "{told}");
    assert!(told.contains(&format!("pg_terminate_backend({pid})")), "{told}");
}
