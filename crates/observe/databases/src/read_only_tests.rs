//! Our session cannot write, and waits for nothing for long: real servers refuse it, by the rights of the role of
//! docs/databases.md and by the session's own settings.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::address::{DatabaseAddress, DatabaseEngine};
use crate::client_process::ClientProcess;
use crate::sample::ServerQueries;
use crate::servers::{Brand, Server, on_each_mysql, on_each_postgres, start_postgres};
use crate::{mysql, postgres};

const TIMEOUT: Duration = Duration::from_secs(60);
const PASSWORD: &str = "pw of the role";

/// The statements of the document that make the role, of one kind of server.
fn documented_role(comment: &str) -> String {
    let document = include_str!("../../../../docs/databases.md");
    let rest = document.split_once(&format!("\n-- {comment}\n")).expect("the comment").1;
    let statements: Vec<&str> = rest.lines().take_while(|line| line.ends_with(';')).collect();
    assert!(statements.len() >= 2, "{statements:?}");
    statements.join("\n").replace('…', PASSWORD)
}

/// A session as the monitor has one.
fn open_session(engine: DatabaseEngine, url: &str, password: Option<&str>) -> ClientProcess {
    let address = DatabaseAddress::parse(engine, url).unwrap();
    let (command, end, mut queries): (_, _, Box<dyn ServerQueries>) = match engine {
        DatabaseEngine::Postgres => {
            let command = postgres::client_command(Command::new("psql"), &address, password);
            (command, postgres::END_STATEMENT, Box::<postgres::PostgresQueries>::default())
        }
        DatabaseEngine::Mysql => {
            let command = mysql::client_command(Command::new("mariadb"), &address, password);
            (command, mysql::END_STATEMENT, Box::<mysql::MysqlQueries>::default())
        }
    };
    let mut client = ClientProcess::start(command, end).unwrap();
    queries.read_facts(&mut |statements| client.ask(statements, TIMEOUT)).unwrap();
    client
}

/// Asks what must be refused with these words, in time.
#[track_caller]
fn assert_refused(client: &mut ClientProcess, statement: &str, words: &str) {
    let begin = Instant::now();
    client.ask(statement, TIMEOUT).unwrap();
    let said = client.error_line();
    assert!(said.contains(words), "{statement}: {said}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{statement}: {:?}", begin.elapsed());
}

fn count_of(server: &Server) -> String {
    server.execute("SELECT count(*) FROM shop.orders")
}

#[test]
fn postgres_refuses_to_write_in_our_session() {
    on_each_postgres(&[], |server| {
        server.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders(id int); INSERT INTO shop.orders VALUES (1)");
        server.execute(&documented_role("PostgreSQL"));
        const WRITE: &str = "INSERT INTO shop.orders VALUES (2);";
        let mut of_role = open_session(DatabaseEngine::Postgres, &server.address("watch"), None);
        assert_refused(&mut of_role, WRITE, "permission denied");
        // even with every right
        let mut client = open_session(DatabaseEngine::Postgres, &server.address("postgres"), None);
        for statement in
            [WRITE, "CREATE TABLE shop.more(id int);", "DROP TABLE shop.orders;", "DELETE FROM shop.orders;"]
        {
            assert_refused(&mut client, statement, "in a read-only transaction");
        }
        assert_refused(&mut client, "SELECT pg_sleep(30);", "statement timeout");
        let _holder = server.open_session("BEGIN; LOCK TABLE shop.orders; SELECT 1;");
        server.wait_until("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted", "1");
        assert_refused(&mut client, "SELECT * FROM shop.orders;", "lock timeout");
        drop(_holder);
        assert_eq!(count_of(&server), "1");
    });
}

#[test]
fn options_of_an_address_do_not_let_our_questions_write_or_wait() {
    let Some(server) = start_postgres(&[]) else { return };
    server.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders(id int)");
    let options = "-c%20default_transaction_read_only%3Doff%20-c%20statement_timeout%3D0";
    let url = format!("{}&options={options}", server.address("postgres"));
    let mut client = open_session(DatabaseEngine::Postgres, &url, None);
    let write = postgres::in_transaction("INSERT INTO shop.orders VALUES (2);");
    assert_refused(&mut client, &write, "in a read-only transaction");
    assert_refused(&mut client, &postgres::in_transaction("SELECT pg_sleep(30);"), "statement timeout");
    assert_eq!(count_of(&server), "0");
}

#[test]
fn mariadb_and_mysql_refuse_to_write_in_our_session() {
    on_each_mysql(&["--performance-schema=ON"], |server| {
        server.execute("CREATE DATABASE shop; CREATE TABLE shop.orders(id int) ENGINE=InnoDB;");
        server.execute("INSERT INTO shop.orders VALUES (1)");
        server.execute(&documented_role("MariaDB, MySQL"));
        const WRITE: &str = "INSERT INTO shop.orders VALUES (2);";
        let mut of_role = open_session(DatabaseEngine::Mysql, &server.address("watch"), Some(PASSWORD));
        assert_refused(&mut of_role, WRITE, "denied");
        let mut client = open_session(DatabaseEngine::Mysql, &server.address("root"), None);
        for statement in
            [WRITE, "CREATE TABLE shop.more(id int);", "DROP TABLE shop.orders;", "DELETE FROM shop.orders;"]
        {
            assert_refused(&mut client, statement, "READ ONLY transaction");
        }
        const LONG: &str = "SELECT COUNT(*) FROM information_schema.COLUMNS a, information_schema.COLUMNS b, \
            information_schema.COLUMNS c WHERE a.COLUMN_NAME < b.COLUMN_NAME AND b.COLUMN_NAME < c.COLUMN_NAME;";
        let words =
            if server.brand() == Brand::Mysql { "maximum statement execution time" } else { "max_statement_time" };
        assert_refused(&mut client, LONG, words);
        let _holder = server.open_session("BEGIN; INSERT INTO shop.orders VALUES (3); SELECT 1;");
        server.wait_for_idle_transaction();
        assert_refused(&mut client, "SELECT * FROM shop.orders LOCK IN SHARE MODE;", "Lock wait timeout");
        drop(_holder);
        server.wait_until("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0", "0");
        assert_eq!(count_of(&server), "1");
    });
}
