//! Notifications to systemd (sd_notify(3)) from a recorder that it runs: started, still alive, stopping. Without
//! systemd nothing is sent.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager that started this process, if there is one.
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time without a notification after which the manager kills this process.
    watchdog: Option<Duration>,
    /// Time of the last notification, since the start.
    last_sent: Duration,
}

impl ServiceManager {
    /// Creates the manager from the variables `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_environment() -> ServiceManager {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            _ => SocketAddr::from_pathname(name).ok(),
        });
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            // a manager that does not read must not delay a tick
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_for_this_process = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| is_for_this_process).map(Duration::from_micros);
        ServiceManager { socket, watchdog, last_sent: Duration::ZERO }
    }

    /// Reports that the first tick was taken.
    pub fn notify_ready(&self) {
        self.send_message("READY=1\nSTATUS=recording");
    }

    /// Reports that the recorder is alive, at a third of the manager's timeout. Called often, with the time since the
    /// start.
    pub fn notify_alive(&mut self, elapsed: Duration) {
        let is_due = |watchdog: Duration| elapsed.saturating_sub(self.last_sent) >= watchdog / 3;
        if self.watchdog.is_some_and(is_due) {
            self.last_sent = elapsed;
            self.send_message("WATCHDOG=1");
        }
    }

    /// Reports that it stops; queued ticks are still written.
    pub fn notify_stopping(&self) {
        self.send_message("STOPPING=1\nSTATUS=writing the remaining ticks");
    }

    /// Sends a message; a lost one is no reason to stop recording.
    fn send_message(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}
