//! Servers for tests: each in a temporary folder, on a Unix socket, as an unprivileged user, until it is dropped. They
//! are those that the distribution installed, and those that `tests/fetch_servers.py` put into `target/servers`.

// each test program uses a part of this
#![allow(dead_code)]

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time for a server to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The user `nobody`, where root runs the tests: servers refuse to run as root.
const NOBODY: u32 = 65534;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    Postgres,
    Mariadb,
    Mysql,
}

/// A server that can be started.
#[derive(Clone, Debug)]
struct Installation {
    /// What the tests call it: `postgresql-18`, or the distribution's.
    name: String,
    brand: Brand,
    /// PostgreSQL: the folder of its programs. The others: the root of its files, `/` if they are installed.
    folder: PathBuf,
}

/// A running server.
pub struct Server {
    folder: tempfile::TempDir,
    process: Child,
    client: PathBuf,
    brand: Brand,
}

impl Drop for Server {
    fn drop(&mut self) {
        // one that was stopped does not take the order to end
        signal(&self.process, "CONT");
        // PostgreSQL: fast shutdown; MariaDB and MySQL: shutdown
        signal(&self.process, if self.brand == Brand::Postgres { "INT" } else { "TERM" });
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
    fs::metadata("/proc/self").expect("a proc filesystem").uid() == 0
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

/// Memory that servers may fill, bytes: those of the tests that run at once.
const NEEDED_MEMORY: u64 = 4 << 30;

/// A folder that belongs to that user. Its path is short, because that of a socket must be. In memory, making the files
/// of a server takes half of the processor time.
fn server_folder() -> tempfile::TempDir {
    let free = Command::new("df").args(["--output=avail", "-B1", "/dev/shm"]).output().map(|done| done.stdout);
    let free = free.ok().and_then(|text| String::from_utf8(text).ok()?.lines().last()?.trim().parse::<u64>().ok());
    let place = if free.is_some_and(|bytes| bytes >= NEEDED_MEMORY) { "/dev/shm" } else { "/tmp" };
    let folder = tempfile::Builder::new().prefix("dw-db").tempdir_in(place).expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its owner");
    if is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root");
    }
    folder
}

/// Folders of servers that were fetched, in cargo's target folder, below which the program of a test is.
fn fetched_folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().expect("its own path");
    let places = program.ancestors().skip(1).take(4).map(|folder| folder.join("servers"));
    let entries = places.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    folders
}

/// Servers of `tests/servers.toml` that should have been fetched and are not here. Some are for `./check full` only.
pub fn missing_servers() -> Vec<&'static str> {
    let is_full = std::env::var("DISKWRIGHT_SWEEP").is_ok_and(|sweep| sweep == "all");
    let names: Vec<_> = fetched_folders().iter().filter_map(|f| f.file_name().map(|name| name.to_owned())).collect();
    let servers = include_str!("../../../../tests/servers.toml").split("[[server]]").skip(1);
    let value = |server: &'static str, key: &str| {
        let line = server.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap_or_default().trim_matches('"')
    };
    let due =
        servers.filter(|server| is_full || value(server, "when") == "check").map(|server| value(server, "folder"));
    due.filter(|name| !names.iter().any(|known| known == name)).collect()
}

/// True where the user that runs servers can read a folder.
fn can_reach(folder: &Path) -> bool {
    unprivileged(Path::new("ls")).arg(folder).status().is_ok_and(|status| status.success())
}

/// The newest PostgreSQL of the distribution, and the fetched ones.
fn postgres_installations() -> Vec<Installation> {
    let is_server = |folder: &PathBuf| folder.join("bin/initdb").is_file();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let of_distribution = versions.map(|entry| entry.expect("an entry").path()).filter(is_server).max();
    let all = of_distribution.into_iter().chain(fetched_folders().into_iter().filter(is_server));
    let installation = |folder: PathBuf| Installation {
        name: folder.display().to_string(),
        brand: Brand::Postgres,
        folder: folder.join("bin"),
    };
    all.map(installation).collect()
}

/// The MariaDB of the distribution, and the fetched servers of both brands.
fn mysql_installations() -> Vec<Installation> {
    let all = std::iter::once(PathBuf::from("/")).chain(fetched_folders());
    let installation = |folder: PathBuf| {
        let has = |program: &str| folder.join("usr/sbin").join(program).is_file();
        let brand = if has("mariadbd") { Brand::Mariadb } else { Brand::Mysql };
        let name = folder.display().to_string();
        (has("mariadbd") || has("mysqld")).then_some(Installation { name, brand, folder })
    };
    all.filter_map(installation).collect()
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

impl Installation {
    /// Starts it with these settings.
    fn start(&self, settings: &[&str]) -> Option<Server> {
        let client_names: &[&str] = if self.brand == Brand::Postgres { &["psql"] } else { &["mariadb", "mysql"] };
        let Some(client) = first_program(client_names) else {
            eprintln!("skipped: no {} here", client_names[0]);
            return None;
        };
        if !can_reach(&self.folder) {
            eprintln!("skipped: nobody cannot read {}", self.folder.display());
            return None;
        }
        let folder = server_folder();
        let data = folder.path().join("data");
        let mut server = match self.brand {
            Brand::Postgres => self.prepare_postgres(folder.path(), &data),
            Brand::Mariadb | Brand::Mysql => self.prepare_mysql(folder.path(), &data),
        };
        match self.brand {
            Brand::Postgres => settings.iter().for_each(|setting| _ = server.args(["-c", setting])),
            Brand::Mariadb | Brand::Mysql => _ = server.args(settings),
        }
        let process = server.spawn().expect("the server starts");
        let server = Server { folder, process, client, brand: self.brand };
        server.wait_until_ready();
        Some(server)
    }

    /// Makes the files of a PostgreSQL; returns the command that starts it.
    fn prepare_postgres(&self, folder: &Path, data: &Path) -> Command {
        let mut made = unprivileged(&self.folder.join("initdb"));
        made.args(["-N", "-A", "trust", "-U", "postgres", "--locale=C", "-E", "UTF8", "-D"]).arg(data);
        make_data(&mut made);
        let mut server = unprivileged(&self.folder.join("postgres"));
        server.arg("-D").arg(data).arg("-k").arg(folder).args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        server
    }

    /// Makes the files of a MariaDB or MySQL; returns the command that starts it.
    fn prepare_mysql(&self, folder: &Path, data: &Path) -> Command {
        match self.brand {
            Brand::Mysql => {
                make_data(self.mysql_program(folder, data).args(["--secure-file-priv=", "--initialize-insecure"]));
            }
            _ if self.folder == Path::new("/") => {
                let mut made = unprivileged(&first_program(&["mariadb-install-db"]).expect("it comes with the server"));
                made.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
                made.env("TMPDIR", folder).arg(format!("--datadir={}", data.display()));
                make_data(&mut made);
            }
            _ => self.bootstrap_mariadb(folder, data),
        }
        let mut server = self.mysql_program(folder, data);
        server.args(["--skip-networking", "--innodb-buffer-pool-size=16M"]);
        if self.brand == Brand::Mysql {
            server.args(["--mysqlx=OFF", "--secure-file-priv="]);
        }
        server.arg(format!("--socket={}", folder.join("sock").display()));
        server.arg(format!("--pid-file={}", folder.join("pid").display()));
        server
    }

    /// Makes the files as `mariadb-install-db` does, which finds its programs only where they are installed.
    fn bootstrap_mariadb(&self, folder: &Path, data: &Path) {
        fs::create_dir(data).expect("a folder");
        if is_root() {
            chown(data, Some(NOBODY), Some(NOBODY)).expect("root");
        }
        let statements = folder.join("bootstrap.sql");
        // a statement a line
        let mut text =
            b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n\
            SET @current_hostname='localhost';\n"
                .to_vec();
        for part in ["system_tables", "performance_tables", "system_tables_data", "sys_schema"] {
            let file = self.folder.join(format!("usr/share/mariadb/mariadb_{part}.sql"));
            text.extend(fs::read(file).expect("its tables"));
        }
        fs::write(&statements, text).expect("a file");
        let mut made = self.mysql_program(folder, data);
        make_data(made.arg("--bootstrap").stdin(File::open(&statements).expect("it was written")));
    }

    /// The server, with what it always needs. Unpacked, it runs with the libraries that were unpacked with it.
    fn mysql_program(&self, folder: &Path, data: &Path) -> Command {
        let name = if self.brand == Brand::Mysql { "mysqld" } else { "mariadbd" };
        let program = self.folder.join("usr/sbin").join(name);
        let mut command = match self.loader() {
            Some(loader) => {
                let mut command = unprivileged(&loader);
                command.arg("--library-path").arg(loader.parent().expect("its folder")).arg(program);
                command
            }
            None => unprivileged(&program),
        };
        // MariaDB removes temporary tables that it finds when it starts: in a shared folder, those of other tests
        command.env("TMPDIR", folder).arg("--no-defaults").arg(format!("--datadir={}", data.display()));
        if self.folder != Path::new("/") {
            let messages = if self.brand == Brand::Mysql { "mysql" } else { "mariadb" };
            command.arg(format!("--basedir={}", self.folder.join("usr").display()));
            command.arg(format!("--lc-messages-dir={}", self.folder.join("usr/share").join(messages).display()));
        }
        command
    }

    /// The program that loads libraries, of an unpacked server.
    fn loader(&self) -> Option<PathBuf> {
        let libraries = Some(self.folder.join("usr/lib")).filter(|_| self.folder != Path::new("/"))?;
        let folders = fs::read_dir(libraries).ok()?.map(|entry| entry.expect("an entry").path());
        let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let is_loader = |path: &PathBuf| {
            let is_named_so = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
            is_named_so && path.with_file_name("libc.so.6").exists()
        };
        files.map(|entry| entry.expect("an entry").path()).find(is_loader)
    }
}

/// Starts the PostgreSQL of the distribution with these settings; `None`, and why, where there is none.
pub fn start_postgres(settings: &[&str]) -> Option<Server> {
    let first = postgres_installations().into_iter().next();
    if first.is_none() {
        eprintln!("skipped: no PostgreSQL here");
    }
    first?.start(settings)
}

/// Starts every PostgreSQL that is here with these settings, and tests each, side by side. It says so if there is none.
pub fn on_each_postgres(settings: &[&str], test: impl Fn(Server) + Sync) {
    on_each(&postgres_installations(), "PostgreSQL", |server| server.start(settings).into_iter().for_each(&test));
}

/// Starts every MariaDB and MySQL that is here with these options, and tests each, side by side.
pub fn on_each_mysql(options: &[&str], test: impl Fn(Server) + Sync) {
    on_each(&mysql_installations(), "MariaDB", |server| server.start(options).into_iter().for_each(&test));
}

/// Tests each in a thread, whose name tells which failed.
fn on_each(installations: &[Installation], brand: &str, test: impl Fn(&Installation) + Sync) {
    if installations.is_empty() {
        eprintln!("skipped: no {brand} here");
    }
    let test = &test;
    std::thread::scope(|scope| {
        for installation in installations {
            let builder = std::thread::Builder::new().name(installation.name.clone());
            builder.spawn_scoped(scope, move || test(installation)).expect("a thread");
        }
    });
}

impl Server {
    /// Its kind.
    pub fn brand(&self) -> Brand {
        self.brand
    }

    /// User that is asked as.
    fn user(&self) -> &'static str {
        if self.brand == Brand::Postgres { "postgres" } else { "root" }
    }

    fn wait_until_ready(&self) {
        let begin = Instant::now();
        while !self.run_as(self.user(), "SELECT 1").status.success() {
            assert!(begin.elapsed() < START_TIMEOUT, "the server does not answer");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    fn client_command(&self, user: &str) -> Command {
        let mut command = Command::new(&self.client);
        if self.brand == Brand::Postgres {
            command.args(["-X", "-q", "-A", "-t", "-w", "-U", user, "-d", "postgres", "-h"]).arg(self.folder.path());
        } else {
            command.args(["--no-defaults", "--batch", "--skip-column-names", "-u", user]);
            command.arg(format!("--socket={}", self.folder.path().join("sock").display()));
        }
        command
    }

    fn run_as(&self, user: &str, statements: &str) -> Output {
        let option = if self.brand == Brand::Postgres { "-c" } else { "-e" };
        self.client_command(user).args([option, statements]).stdin(Stdio::null()).output().expect("the client runs")
    }

    /// Executes statements and returns what they print.
    pub fn execute(&self, statements: &str) -> String {
        let output = self.run_as(self.user(), statements);
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
        let statements = match self.brand {
            Brand::Postgres => "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'",
            Brand::Mariadb | Brand::Mysql => {
                "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0"
            }
        };
        self.wait_until(statements, "1");
    }

    /// A session that stays open after these statements.
    pub fn open_session(&self, statements: &str) -> Session {
        let mut command = self.client_command(self.user());
        let mut client =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        let mut input = client.stdin.take().expect("a pipe");
        writeln!(input, "{statements}").expect("it reads");
        Session { client, _input: input }
    }

    /// Address of a user's database, by the socket.
    pub fn address(&self, user: &str) -> String {
        let folder = self.folder.path();
        match self.brand {
            Brand::Postgres => format!("postgres://{user}@/postgres?host={}", folder.display()),
            Brand::Mariadb | Brand::Mysql => {
                format!("mysql://{user}@localhost/?socket={}", folder.join("sock").display())
            }
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
