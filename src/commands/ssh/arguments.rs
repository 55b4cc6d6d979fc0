//! Options that name other hosts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use diskwright_sshhosts::{ConnectOptions, ProgramCopy, SshTarget, parse_hosts};

use crate::commands::{Failure, first_given_option, read_description};

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Value of `--ssh-copy` without a program: the running one, even if its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Other hosts to ask.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Other hosts")]
pub struct SshArguments {
    /// Ask this host, over the `ssh` on PATH: by diskwright there, else by a shell loop (repeatable)
    #[arg(long = "ssh", value_name = "[USER@]HOST")]
    hosts: Vec<String>,
    /// Ask all hosts of a file, one on each line
    #[arg(long = "ssh-hosts", value_name = "FILE")]
    host_files: Vec<PathBuf>,
    /// Where diskwright is missing, copy this program, or another one (for another processor), to a private temporary
    /// file, which is removed
    #[arg(long = "ssh-copy", value_name = "PROGRAM", num_args = 0..=1, default_missing_value = THIS_PROGRAM,
        require_equals = true)]
    copy: Option<PathBuf>,
    /// Configuration of ssh instead of the user's (ssh -F)
    #[arg(long = "ssh-config", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SshArguments {
    /// True if a host is named.
    ///
    /// # Errors
    /// When options for hosts are given without any.
    pub fn is_given(&self) -> Result<bool, Failure> {
        let is_given = !self.hosts.is_empty() || !self.host_files.is_empty();
        let others = [("--ssh-copy", self.copy.is_some()), ("--ssh-config", self.config.is_some())];
        match first_given_option(&others).filter(|_| !is_given) {
            Some(option) => Err(Failure::Usage(format!("{option} needs --ssh HOST or --ssh-hosts FILE"))),
            None => Ok(is_given),
        }
    }

    /// The hosts, each once, in the order in which they are named.
    ///
    /// # Errors
    /// When a name is none that `ssh` may be given, or a file cannot be read.
    pub fn targets(&self) -> Result<Vec<SshTarget>, Failure> {
        let usage = |error: diskwright_sshhosts::SshError| Failure::Usage(format!("--ssh: {error}"));
        let mut targets =
            self.hosts.iter().map(|name| SshTarget::parse(name)).collect::<Result<Vec<_>, _>>().map_err(usage)?;
        for path in &self.host_files {
            let text = read_description(path)?;
            let named = parse_hosts(&text)
                .map_err(|(line, error)| Failure::Usage(format!("{}:{line}: {error}", path.display())))?;
            targets.extend(named);
        }
        let mut known = std::collections::HashSet::new();
        targets.retain(|target| known.insert(target.clone()));
        match targets.is_empty() {
            true => Err(Failure::Usage("--ssh-hosts: no host is named there".into())),
            false => Ok(targets),
        }
    }

    /// The only host.
    ///
    /// # Errors
    /// When several are named; `what` tells what takes one only.
    pub fn only_target(&self, what: &str) -> Result<SshTarget, Failure> {
        let mut targets = self.targets()?;
        match targets.len() {
            1 => Ok(targets.swap_remove(0)),
            count => Err(Failure::Usage(format!("{what} takes one host, and --ssh names {count}"))),
        }
    }

    /// How to connect to that many hosts.
    ///
    /// # Errors
    /// When the program to copy cannot be read.
    pub fn connect_options(
        &self,
        hosts: usize,
        every: Duration,
        lasts: Option<Duration>,
    ) -> Result<ConnectOptions, Failure> {
        let copy = match &self.copy {
            None => None,
            Some(path) => Some(ProgramCopy::read(path)?),
        };
        // ssh would read an endless one for ever
        self.config.as_deref().map_or(Ok(()), |path| read_description(path).map(drop))?;
        Ok(ConnectOptions {
            config: self.config.clone(),
            // passwords are asked for one host, on a terminal
            is_batch: hosts > 1 || !std::io::IsTerminal::is_terminal(&std::io::stdin()),
            timeout: CONNECT_TIMEOUT,
            copy: copy.map(Arc::new),
            every,
            lasts,
            command: Vec::new(),
            open: diskwright_sshhosts::OpenConnections::default(),
        })
    }
}
