//! `--on-alert COMMAND`: the user's own command, with the alert in variables and on standard input. It has a time
//! limit, and its output is discarded, because it could disturb the screen.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use diskwright_base::text::printable_line;
use diskwright_dashboard::alerts::AlertEvent;
use rustix::process::{Pid, Signal, kill_process_group};

use super::change_name;

/// Time limit of a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between checks whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the command and waits; kills it and its children when the time is over.
///
/// # Errors
/// If it could not be started, failed, or took too long.
pub fn run_command(text: &str, event: &AlertEvent, host: &str, json: &str) -> io::Result<()> {
    run_with_timeout(text, (event, host), json, COMMAND_TIMEOUT)
}

fn run_with_timeout(text: &str, (event, host): (&AlertEvent, &str), json: &str, timeout: Duration) -> io::Result<()> {
    let alert = &event.alert;
    let culprit = alert.culprits.first().map_or("", |culprit| culprit.name.as_str());
    let value = alert.peak.value.map_or_else(String::new, |value| value.to_string());
    let variables = [
        ("STATE", change_name(event.change)),
        ("HOST", host),
        ("ID", &alert.id),
        ("SEVERITY", alert.severity.name()),
        ("BOTTLENECK", alert.bottleneck.name()),
        ("INSTANCE", &alert.instance),
        ("BEGIN", &alert.begin),
        ("END", alert.end.as_deref().unwrap_or_default()),
        ("PEAK", &value),
        ("CULPRIT", culprit),
        ("SENTENCE", &alert.sentence),
        ("NEXT", &alert.next_step),
    ];
    let mut command = diskwright_hostfiles::programs::command_without_secrets("/bin/sh");
    command.arg("-c").arg(text).process_group(0);
    // names of processes and mount points may contain line ends and codes of terminals; a command may print, mail or
    // log them, and the JSON has them unchanged. A variable cannot contain a zero byte
    let variable =
        |(name, value): (&str, &str)| (format!("DISKWRIGHT_ALERT_{name}"), printable_line(value).into_owned());
    command.envs(variables.map(variable));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let writer = write_stdin(&mut child, json);
    let result = wait_for_exit(&mut child, timeout);
    // the writer ends with the child, whose end of the pipe is closed by then
    let _ = writer.map(std::thread::JoinHandle::join);
    result
}

/// Writes the alert in a thread: a command that does not read must not block this one.
fn write_stdin(child: &mut Child, json: &str) -> Option<std::thread::JoinHandle<()>> {
    let (mut input, json) = (child.stdin.take()?, format!("{json}\n"));
    let write = move || {
        // a command need not read its input
        let _ = input.write_all(json.as_bytes());
    };
    std::thread::Builder::new()
        .name("alert-input".into())
        .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
        .spawn(write)
        .ok()
}

fn wait_for_exit(child: &mut Child, timeout: Duration) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() {
                Ok(())
            } else {
                Err(io::Error::other(format!("the command ended: {status}")))
            };
        }
        if begin.elapsed() >= timeout {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            group.map(|group| kill_process_group(group, Signal::KILL)).transpose()?;
            child.wait()?;
            let seconds = timeout.as_secs();
            return Err(io::Error::other(format!("the command was killed: it took more than {seconds} s")));
        }
        crate::commands::pacer::sleep_interruptibly(POLL_INTERVAL);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use diskwright_dashboard::alerts::{Alert, AlertChange, AlertPeak, SCHEMA};
    use diskwright_diagnosis::{Bottleneck, Severity};

    use super::*;

    /// A sample event for tests.
    pub fn sample_event() -> AlertEvent {
        let peak = AlertPeak {
            quantity: String::new(),
            value: Some(0.5),
            limit: None,
            unit: String::new(),
            time: String::new(),
        };
        let alert = Alert {
            schema: SCHEMA.into(),
            id: "disk.stall".into(),
            severity: Severity::Critical,
            bottleneck: Bottleneck::Disk,
            instance: "sda".into(),
            begin: "2026-11-21T22:00:00Z".into(),
            end: None,
            begin_ns: 0,
            end_ns: None,
            raised_ns: 0,
            peak,
            also: Vec::new(),
            alternated: Vec::new(),
            culprits: Vec::new(),
            sentence: "sda: $(touch /tmp/never) stalls".into(),
            next_step: String::new(),
        };
        AlertEvent { change: AlertChange::Begin, alert, time_ns: 0 }
    }

    #[test]
    fn a_command_gets_the_alert_as_variables_and_as_json() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let text = format!("(env | grep -E 'ALERT_(S|H)'; cat) > {}", out.display());
        run_command(&text, &sample_event(), "db1", r#"{"id":"disk.stall"}"#).unwrap();
        let got = std::fs::read_to_string(out).unwrap();
        assert!(got.contains("DISKWRIGHT_ALERT_STATE=begin\n"), "{got}");
        assert!(got.contains("DISKWRIGHT_ALERT_HOST=db1\n"), "{got}");
        assert!(got.contains("DISKWRIGHT_ALERT_SENTENCE=sda: $(touch /tmp/never) stalls\n"), "{got}");
        assert!(got.ends_with("{\"id\":\"disk.stall\"}\n"), "{got}");
    }

    #[test]
    fn a_name_from_outside_adds_no_line_and_no_terminal_code_to_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut event = sample_event();
        event.alert.instance = "/mnt/a\nDISKWRIGHT_ALERT_STATE=end\x1b[2J\0\u{202e}b".into();
        let text = format!("printf '%s' \"$DISKWRIGHT_ALERT_INSTANCE\" > {}", out.display());
        run_command(&text, &event, "db1", "{}").unwrap();
        let got = std::fs::read_to_string(out).unwrap();
        assert_eq!(got, "/mnt/a DISKWRIGHT_ALERT_STATE=end\u{fffd}[2J\u{fffd}\u{fffd}b");
    }

    #[test]
    fn kills_a_hanging_command_with_its_children_and_reports_failures() {
        let begin = Instant::now();
        let timeout = Duration::from_millis(200);
        let slow = run_with_timeout("sleep 60 & sleep 60; true", (&sample_event(), ""), "{}", timeout).unwrap_err();
        assert!(slow.to_string().contains("was killed") && begin.elapsed() < Duration::from_secs(10), "{slow}");
        let failed = run_command("exit 3", &sample_event(), "", "{}").unwrap_err();
        assert!(failed.to_string().contains("exit status: 3"), "{failed}");
        // the input is larger than a pipe's buffer, and the command does not read it
        run_command("true", &sample_event(), "", &"x".repeat(1 << 20)).unwrap();
    }
}
