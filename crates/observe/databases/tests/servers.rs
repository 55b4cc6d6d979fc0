//! Servers for tests: each in a temporary folder, on a Unix socket, as an unprivileged user, until it is dropped.

// each test program uses a part of this
#![allow(dead_code)]

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time for a server to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The user `nobody`, where root runs the tests: servers refuse to run as root.
const NOBODY: u32 = 65534;

/// A running server.
pub struct Server {
    folder: tempfile::TempDir,
    process: Child,
    client: PathBuf,
    is_postgres: bool,
    /// User that is asked as.
    user: &'static str,
}

impl Drop for Server {
    fn drop(&mut self) {
        // one that was stopped does not take the order to end
        signal(&self.process, "CONT");
        // PostgreSQL: fast shutdown; MariaDB: shutdown
        signal(&self.process, if self.is_postgres { "INT" } else { "TERM" });
        let begin = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if begin.elapsed() > Duration::from_secs(20) {
                let _ = self.process.kill();
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

fn signal(process: &Child, name: &str) {
    let _ = Command::new("kill").args([format!("-{name}"), process.id().to_string()]).status();
}

fn is_root() -> bool {
    let own = fs::metadata("/proc/self").expect("a proc filesystem");
    std::os::unix::fs::MetadataExt::uid(&own) == 0
}

/// A command that runs as a user without privileges.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A folder that belongs to that user. Its path is short, because that of a socket must be.
fn server_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("dw-db").tempdir_in("/tmp").expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its owner");
    if is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root");
    }
    folder
}

/// The folder of the newest PostgreSQL of the distribution.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let mut found: Vec<PathBuf> = versions.filter(|folder| folder.join("initdb").is_file()).collect();
    found.sort();
    found.pop()
}

fn first_program(names: &[&str]) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];
    let paths = names.iter().flat_map(|name| folders.iter().map(move |folder| Path::new(folder).join(name)));
    paths.into_iter().find(|path| path.is_file())
}

/// Lets a program make the files of a server; where it cannot, the test tells what it said.
fn make_data(program: &mut Command) {
    let made = program.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it runs");
    let said = [made.stdout, made.stderr].concat();
    assert!(made.status.success(), "{program:?}: {}", String::from_utf8_lossy(&said));
}

/// Starts PostgreSQL with these settings; `None`, and why, where it is not installed.
pub fn start_postgres(settings: &[&str]) -> Option<Server> {
    let Some((programs, client)) = postgres_programs().zip(first_program(&["psql"])) else {
        eprintln!("skipped: no PostgreSQL here");
        return None;
    };
    let folder = server_folder();
    let data = folder.path().join("data");
    let mut made = unprivileged(&programs.join("initdb"));
    made.args(["-N", "-A", "trust", "-U", "postgres", "--locale=C", "-E", "UTF8", "-D"]).arg(&data);
    make_data(&mut made);
    let mut server = unprivileged(&programs.join("postgres"));
    server.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-c", "listen_addresses=", "-c", "fsync=off"]);
    settings.iter().for_each(|setting| _ = server.args(["-c", setting]));
    let process = server.spawn().expect("the server starts");
    let server = Server { folder, process, client, is_postgres: true, user: "postgres" };
    server.wait_until_ready();
    Some(server)
}

/// Starts MariaDB with these options; `None`, and why, where it is not installed.
pub fn start_mysql(options: &[&str]) -> Option<Server> {
    let found = [&["mariadbd"][..], &["mariadb-install-db"], &["mariadb"]].map(first_program);
    let [Some(program), Some(install), Some(client)] = found else {
        eprintln!("skipped: no MariaDB here");
        return None;
    };
    let folder = server_folder();
    let data = folder.path().join("data");
    let mut made = unprivileged(&install);
    // MariaDB removes temporary tables that it finds when it starts: in a shared folder, those of other tests
    made.env("TMPDIR", folder.path());
    made.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    made.arg(format!("--datadir={}", data.display()));
    make_data(&mut made);
    let mut server = unprivileged(&program);
    server.env("TMPDIR", folder.path());
    server.args(["--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=16M"]);
    server.arg(format!("--datadir={}", data.display()));
    server.arg(format!("--socket={}", folder.path().join("sock").display()));
    server.arg(format!("--pid-file={}", folder.path().join("pid").display())).args(options);
    let process = server.spawn().expect("the server starts");
    let server = Server { folder, process, client, is_postgres: false, user: "root" };
    server.wait_until_ready();
    Some(server)
}

impl Server {
    fn wait_until_ready(&self) {
        let begin = Instant::now();
        while !self.run_as(self.user, "SELECT 1").status.success() {
            assert!(begin.elapsed() < START_TIMEOUT, "the server does not answer");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    fn client_command(&self, user: &str) -> Command {
        let mut command = Command::new(&self.client);
        if self.is_postgres {
            command.args(["-X", "-q", "-A", "-t", "-w", "-U", user, "-d", "postgres", "-h"]).arg(self.folder.path());
        } else {
            command.args(["--no-defaults", "--batch", "--skip-column-names", "-u", user]);
            command.arg(format!("--socket={}", self.folder.path().join("sock").display()));
        }
        command
    }

    fn run_as(&self, user: &str, statements: &str) -> Output {
        let option = if self.is_postgres { "-c" } else { "-e" };
        self.client_command(user).args([option, statements]).stdin(Stdio::null()).output().expect("the client runs")
    }

    /// Executes statements and returns what they print.
    pub fn execute(&self, statements: &str) -> String {
        let output = self.run_as(self.user, statements);
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Waits until statements print this.
    pub fn wait_until(&self, statements: &str, printed: &str) {
        let begin = Instant::now();
        while self.execute(statements) != printed {
            assert!(begin.elapsed() < START_TIMEOUT, "{statements} does not print {printed}");
            // InnoDB renews its table of transactions only if nobody has read it for 0.1 s
            std::thread::park_timeout(Duration::from_millis(300));
        }
    }

    /// Waits until a session has locked what it changed and does nothing more.
    pub fn wait_for_idle_transaction(&self) {
        let statements = match self.is_postgres {
            true => "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'",
            false => "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0",
        };
        self.wait_until(statements, "1");
    }

    /// A session that stays open after these statements.
    pub fn open_session(&self, statements: &str) -> Session {
        let mut command = self.client_command(self.user);
        let mut client =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        let mut input = client.stdin.take().expect("a pipe");
        writeln!(input, "{statements}").expect("it reads");
        Session { client, _input: input }
    }

    /// Address of a user's database, by the socket.
    pub fn address(&self, user: &str) -> String {
        match self.is_postgres {
            true => format!("postgres://{user}@/postgres?host={}", self.folder.path().display()),
            false => format!("mysql://{user}@localhost/?socket={}", self.folder.path().join("sock").display()),
        }
    }

    /// Folder of the server, in which its sockets are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lets the server stand still, or go on.
    pub fn set_stopped(&self, is_stopped: bool) {
        let name = if is_stopped { "STOP" } else { "CONT" };
        // PostgreSQL serves each session by a process of its own
        let _ = Command::new("pkill").args([&format!("-{name}"), "-P", &self.process.id().to_string()]).status();
        signal(&self.process, name);
    }
}

/// A session of a client; it ends when it is dropped.
pub struct Session {
    client: Child,
    _input: std::process::ChildStdin,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}
