//! `--postgres URL` and `--mysql URL`: database servers that are asked beside the sampler, by threads of their own.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use diskwright_base::{Note, Series, Tick};
use diskwright_counters::live::{AttachedColumns, Clock, SystemClock};
use diskwright_databases::{DatabaseAddress, DatabaseEngine, DatabaseMonitor, MonitorOptions};

use super::Failure;
use super::credentials::read_secret;
use super::process_limits::SMALL_STACK_BYTES;

/// Largest number of servers: each takes a thread and a process.
const MAX_SERVERS: usize = 16;

/// Database servers to ask.
#[derive(Args, Default)]
pub struct DatabaseArguments {
    /// Also ask this PostgreSQL server, by `psql`: postgres://USER@HOST:PORT/DATABASE, or
    /// postgres://USER@/DATABASE?host=/FOLDER for a Unix socket; without a password, which comes from ~/.pgpass or
    /// PGPASSFILE (repeatable)
    #[arg(long, value_name = "URL", help_heading = "Databases")]
    postgres: Vec<String>,
    /// Also ask this MariaDB or MySQL server, by `mariadb` or `mysql`: mysql://USER@HOST:PORT, or
    /// mysql://USER@localhost/?socket=/PATH; without a password, which comes from ~/.my.cnf (repeatable)
    #[arg(long, value_name = "URL", help_heading = "Databases")]
    mysql: Vec<String>,
    /// Read the password for --postgres from this file
    #[arg(long, value_name = "FILE", requires = "postgres", help_heading = "Databases")]
    postgres_password_file: Option<PathBuf>,
    /// Read the password for --mysql from this file
    #[arg(long, value_name = "FILE", requires = "mysql", help_heading = "Databases")]
    mysql_password_file: Option<PathBuf>,
}

impl DatabaseArguments {
    /// The first option that was given.
    pub fn first_given_option(&self) -> Option<&'static str> {
        let given = [("--postgres", !self.postgres.is_empty()), ("--mysql", !self.mysql.is_empty())];
        super::first_given_option(&given)
    }

    /// The addresses with their files of passwords; refuses what is no address, or holds a password.
    pub fn addresses(&self) -> Result<Vec<(DatabaseAddress, Option<&PathBuf>)>, Failure> {
        let engines = [
            (DatabaseEngine::Postgres, &self.postgres, &self.postgres_password_file),
            (DatabaseEngine::Mysql, &self.mysql, &self.mysql_password_file),
        ];
        let mut servers = Vec::new();
        for (engine, urls, password_file) in engines {
            for url in urls {
                let address = DatabaseAddress::parse(engine, url);
                servers.push((address.map_err(|error| Failure::Usage(error.to_string()))?, password_file.as_ref()));
            }
        }
        if servers.len() > MAX_SERVERS {
            return Err(Failure::Usage(format!("at most {MAX_SERVERS} databases can be asked")));
        }
        Ok(servers)
    }

    /// Starts a thread for each server; `None` if there is none. Servers that cannot be reached yet are no failure.
    pub fn start(&self, every: Duration, note_every: Duration) -> Result<Option<Box<dyn AttachedColumns>>, Failure> {
        let mut monitors: Vec<DatabaseMonitor> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for (address, password_file) in self.addresses()? {
            let instance = unused_name(&address.instance_name(), &names);
            names.push(instance.clone());
            let options = MonitorOptions {
                address,
                instance,
                password: password_file.map(|file| read_secret(file)).transpose()?,
                tick_interval: every,
                note_interval: note_every,
                wall_clock: || SystemClock.read_clocks().wall_ns,
                stack_bytes: SMALL_STACK_BYTES,
            };
            let started = DatabaseMonitor::start(options);
            monitors.push(started.map_err(|error| Failure::Failed(format!("a database cannot be asked: {error}")))?);
        }
        let columns = DatabaseColumns { monitors, notes: Vec::new() };
        Ok((!columns.monitors.is_empty()).then(|| Box::new(columns) as Box<dyn AttachedColumns>))
    }
}

/// The name, with a number behind it where another server has it already.
fn unused_name(name: &str, used: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}#{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|candidate| !used.contains(candidate)).unwrap_or_default()
}

/// The columns of the servers in the sampler's rows.
struct DatabaseColumns {
    monitors: Vec<DatabaseMonitor>,
    notes: Vec<Note>,
}

impl AttachedColumns for DatabaseColumns {
    fn measure_tick(&mut self, _: Tick) -> bool {
        let mut changed = false;
        for monitor in &mut self.monitors {
            changed |= monitor.begin_tick(&mut self.notes);
        }
        changed
    }

    fn append_series(&self, out: &mut Vec<Series>) {
        self.monitors.iter().for_each(|monitor| out.extend_from_slice(monitor.series()));
    }

    fn append_cells(&mut self, out: &mut Vec<f64>) {
        self.monitors.iter().for_each(|monitor| out.extend_from_slice(monitor.cells()));
    }

    fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_name_are_numbered() {
        let used = ["postgres:shop".to_owned(), "postgres:shop#2".to_owned()];
        assert_eq!(unused_name("postgres:shop", &used), "postgres:shop#3");
        assert_eq!(unused_name("mysql:shop", &used), "mysql:shop");
    }
}
