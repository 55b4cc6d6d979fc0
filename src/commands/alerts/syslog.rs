//! An entry in the system log (RFC 3164 to /dev/log, which syslog daemons and the journal read).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use diskwright_dashboard::alerts::{AlertChange, AlertEvent};
use diskwright_diagnosis::Severity;

use super::event_line;

const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility daemon, RFC 3164 table 1.
const FACILITY_DAEMON: u8 = 3;

/// Writes an event to the system log.
///
/// # Errors
/// If no daemon listens.
pub fn write_event(event: &AlertEvent) -> io::Result<()> {
    write_event_to(Path::new(SYSLOG_SOCKET), event)
}

fn write_event_to(path: &Path, event: &AlertEvent) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // a daemon that does not read must not delay the next alert
    socket.set_nonblocking(true)?;
    socket.send_to(format_message(event).as_bytes(), path).map(drop)
}

/// Formats an event with its severity by RFC 3164, table 2: critical 2, warning 4, notice 5.
fn format_message(event: &AlertEvent) -> String {
    let severity = match (event.change, event.alert.severity) {
        (AlertChange::End, _) | (_, Severity::Info) => 5,
        (_, Severity::Warning) => 4,
        (_, Severity::Critical) => 2,
    };
    format!("<{}>diskwright[{}]: {}", FACILITY_DAEMON * 8 + severity, std::process::id(), event_line(event))
}

#[cfg(test)]
mod tests {
    use super::super::command::tests::sample_event;
    use super::*;

    #[test]
    fn a_daemon_gets_one_line_with_facility_and_severity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        write_event_to(&path, &sample_event()).unwrap();
        let mut buffer = [0; 4096];
        let count = daemon.recv(&mut buffer).unwrap();
        let got = String::from_utf8_lossy(&buffer[..count]).into_owned();
        assert!(got.starts_with("<26>diskwright[") && got.contains("alert disk.stall sda begins: "), "{got}");
        assert!(!got.contains('\n'), "{got}");
    }
}
