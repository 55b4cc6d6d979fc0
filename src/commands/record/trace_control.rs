//! Control of tracing in a running recorder: a socket in a folder of its owner, one line of JSON per request and per
//! answer. The next recorder removes sockets that killed recorders left.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use diskwright_hostfiles::private_files;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

/// Folder for root's recorders.
const ROOT_FOLDER: &str = "/run/diskwright";
/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Timeout for the other end's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The folder for this user's recorders; created if it is missing.
fn socket_folder() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("diskwright"));
    let root_folder = rustix::process::geteuid().is_root().then(|| PathBuf::from(ROOT_FOLDER));
    let Some(base) = runtime.or(root_folder) else {
        return Err(io::Error::other("XDG_RUNTIME_DIR names no folder of this user"));
    };
    let folder = base.join("recorders");
    private_files::create_folder(&folder).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(folder)
}

/// Removes sockets without a listener.
fn sweep_dead_sockets(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let refused = UnixStream::connect(entry.path()).err();
        if refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A recorder's socket; its file is removed with it.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Opens the socket.
    ///
    /// # Errors
    /// If the folder or the socket cannot be created.
    pub fn open() -> io::Result<ControlSocket> {
        let folder = socket_folder()?;
        sweep_dead_sockets(&folder);
        let path = folder.join(format!("{}.sock", std::process::id()));
        // left by a process with the same id
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(ControlSocket { listener, path })
    }

    /// Waits this long for clients, and answers them.
    pub fn answer_requests(&self, duration: Duration, mut answer: impl FnMut(&Value) -> Value) {
        let timeout = rustix::event::Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&timeout)), Ok(1..)) {
            return;
        }
        while let Ok((stream, _)) = self.listener.accept() {
            // a client that sends nothing delays the trace only briefly
            let _ = answer_client(&stream, &mut answer);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn answer_client(mut stream: &UnixStream, answer: &mut impl FnMut(&Value) -> Value) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    // the folder keeps other users out; requests over a socket that was passed on are refused as well
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd())?;
    let (own_uid, peer_uid) = (rustix::process::geteuid(), peer.uid);
    if peer_uid != own_uid && !peer_uid.is_root() {
        return Ok(());
    }
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line)?;
    let request: Value = serde_json::from_str(&line).unwrap_or_default();
    writeln!(stream, "{}", answer(&request))
}

/// Sends a request to one recorder.
fn query_recorder(path: &Path, request: &Value) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    writeln!(stream, "{request}")?;
    let mut line = String::new();
    BufReader::new((&stream).take(MAX_LINE_BYTES)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Lists this user's recorders that respond, with their sockets.
pub fn list_recorders() -> Vec<(PathBuf, Value)> {
    let Ok(folder) = socket_folder() else { return Vec::new() };
    sweep_dead_sockets(&folder);
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter_map(|path| Some((path.clone(), query_recorder(&path, &json!({ "order": "status" })).ok()?))).collect()
}

/// Sends a command (`on`, `off`) and returns the answer.
///
/// # Errors
/// If the recorder does not respond.
pub fn send_command(path: &Path, command: &str, budget: f64) -> io::Result<Value> {
    query_recorder(path, &json!({ "order": command, "budget": budget }))
}
