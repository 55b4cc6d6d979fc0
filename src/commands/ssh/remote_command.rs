//! Runs a command of our program on another host, where it is or was copied, and passes on what it prints.

use std::io::{BufRead, Read};
use std::time::Duration;

use diskwright_base::text::printable_line;
use diskwright_sshhosts::{ConnectOptions, Connection, SshError, SshTarget};

use super::arguments::SshArguments;
use crate::commands::{Failure, output};

/// Longest line that is passed on whole, bytes.
const MAX_LINE_BYTES: u64 = 1 << 16;
/// Options that are of this side, with the number of words of each value.
const OWN_OPTIONS: [&str; 4] = ["--ssh", "--ssh-hosts", "--ssh-copy", "--ssh-config"];

/// Runs the command line of this process on the only host, without the options of this side.
///
/// # Errors
/// When the host does not answer, or has none of our program; with its exit code when the command failed there.
pub fn run_on_host(ssh: &SshArguments, what: &str) -> Result<(), Failure> {
    let (target, connection) = open_for_command(ssh, what)?;
    pass_on_output(&target, connection.map_err(|error| Failure::Failed(format!("{target}: {error}")))?)
}

/// As [`run_on_host`] where our program is there; false where it is not.
///
/// # Errors
/// As [`run_on_host`], but for a host without our program.
pub fn run_if_program_is_there(ssh: &SshArguments, what: &str) -> Result<bool, Failure> {
    let (target, connection) = open_for_command(ssh, what)?;
    match connection {
        Err(SshError::NoWay(_)) => Ok(false),
        Err(error) => Err(Failure::Failed(format!("{target}: {error}"))),
        Ok(connection) => pass_on_output(&target, connection).map(|()| true),
    }
}

fn open_for_command(ssh: &SshArguments, what: &str) -> Result<(SshTarget, Result<Connection, SshError>), Failure> {
    let target = ssh.only_target(what)?;
    let options = ssh.connect_options(1, Duration::from_secs(1), None)?;
    let command = words_for_host(std::env::args().skip(1));
    let connection = Connection::open(&target, &ConnectOptions { command, ..options });
    Ok((target, connection))
}

fn pass_on_output(target: &SshTarget, mut connection: Connection) -> Result<(), Failure> {
    connection.end_deadline();
    output::print_note(format_args!("{target}: asked {}", connection.way().describe()));
    let mut line = Vec::new();
    // what a host prints must not act on this terminal
    while connection.output().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line));
        output::print_text(&format!("{}\n", printable_line(&text)))?;
        line.clear();
    }
    let (code, last) = connection.finish()?;
    match code {
        Some(0) => Ok(()),
        code => {
            let last = if last.is_empty() { String::new() } else { format!(": {last}") };
            output::print_failure(format_args!("{target}: it ended with {}{last}", code.unwrap_or(255)));
            Err(Failure::AlreadyReported(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
        }
    }
}

/// The words of a command line without the options of this side.
fn words_for_host(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut list = Vec::new();
    let mut is_value = false;
    for word in words {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let name = word.split('=').next().unwrap_or_default();
        if OWN_OPTIONS.contains(&name) {
            // `--ssh-copy` takes its value behind `=` only
            is_value = !word.contains('=') && name != "--ssh-copy";
            continue;
        }
        list.push(word);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_gets_the_command_without_options_of_this_side() {
        let line = "trace sda --ssh root@db1 --for 5s --ssh-copy --json --ssh-config=x --ssh-copy=/tmp/p";
        let words: Vec<String> = words_for_host(line.split(' ').map(str::to_owned));
        assert_eq!(words, ["trace", "sda", "--for", "5s", "--json"]);
    }
}
