//! What systemd is told of a recorder that it runs (sd_notify(3)): that it records, that it still
//! does, and that it stops. Without systemd nothing is sent.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager that started this process, where there is one.
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// It ends a process of which it hears nothing for so long.
    patience: Option<Duration>,
    /// When it heard of us last, since the start.
    heard: Duration,
}

impl ServiceManager {
    /// From `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_environment() -> ServiceManager {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            _ => SocketAddr::from_pathname(name).ok(),
        });
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            // a manager that does not read must not hold up a tick
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let patience = number("WATCHDOG_USEC").filter(|_| ours).map(Duration::from_micros);
        ServiceManager { socket, patience, heard: Duration::ZERO }
    }

    /// The first tick is taken.
    pub fn ready(&self) {
        self.send("READY=1\nSTATUS=recording");
    }

    /// Called often, with the time since the start; sends at a third of the manager's patience.
    pub fn alive(&mut self, elapsed: Duration) {
        let is_due = |patience: Duration| elapsed.saturating_sub(self.heard) >= patience / 3;
        if self.patience.is_some_and(is_due) {
            self.heard = elapsed;
            self.send("WATCHDOG=1");
        }
    }

    /// It ends; what is queued is still written.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=writing the remaining ticks");
    }

    /// A message that is lost is no reason to stop recording.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}
