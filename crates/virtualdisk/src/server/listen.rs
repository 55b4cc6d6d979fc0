//! Sockets that clients come to, and how a running disk is found again.

use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::ServeError;

/// Clients that may wait to be taken.
const BACKLOG: i32 = 1024;
/// Longest path of a socket, bytes (`sun_path` of unix(7), and its end).
const MOST_PATH: usize = 107;
/// Servers that this process has had.
static SERVERS: AtomicU32 = AtomicU32::new(0);

/// Where clients come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address.
    Tcp(SocketAddr),
}

impl Place {
    /// `127.0.0.1:10809`, `localhost:10809`, `[::1]:10809`.
    ///
    /// # Errors
    /// What is no address, or one that is not known.
    pub fn address(text: &str) -> Result<Place, String> {
        let mut found = text.to_socket_addrs().map_err(|e| format!("`{text}` is no HOST:PORT ({e})"))?;
        found.next().map(Place::Tcp).ok_or_else(|| format!("`{text}` has no address"))
    }

    /// True where others than this machine's own programs can come.
    pub fn is_open(&self) -> bool {
        matches!(self, Place::Tcp(address) if !address.ip().is_loopback())
    }

    /// The file of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Place::Unix(path) => Some(path),
            Place::Tcp(_) => None,
        }
    }

    /// The URI of an export, as libnbd, QEMU and nbdkit understand it.
    pub fn uri(&self, export: &str) -> String {
        let name = escaped(export);
        match self {
            Place::Unix(path) => format!("nbd+unix:///{name}?socket={}", escaped(&path.display().to_string())),
            Place::Tcp(address) => format!("nbd://{address}/{name}"),
        }
    }
}

/// With `%` codes for what has a meaning in a URI; `/` may stay.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// A socket that listens, and the file that goes away with it.
#[derive(Debug)]
pub struct Listener {
    pub fd: OwnedFd,
    pub place: Place,
    file: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // it may have been removed by somebody else
            let _ = fs::remove_file(file);
        }
    }
}

impl Listener {
    /// Listens; a socket's file that nobody serves any more is replaced.
    ///
    /// # Errors
    /// A place that is taken or cannot be had.
    pub fn bind(place: &Place) -> Result<Listener, ServeError> {
        let wrong = |because: String| ServeError::Listen { place: place.uri(""), because };
        match place {
            Place::Unix(path) => {
                fits(path).map_err(wrong)?;
                clear(path).map_err(wrong)?;
                let fd = private(path).map_err(|e| wrong(std::io::Error::from(e).to_string()))?;
                Ok(Listener { fd, place: place.clone(), file: Some(path.clone()) })
            }
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(|e| wrong(e.to_string()))?;
                listener.set_nonblocking(true).map_err(|e| wrong(e.to_string()))?;
                // port 0 has become a real one
                let address = listener.local_addr().map_err(|e| wrong(e.to_string()))?;
                Ok(Listener { fd: listener.into(), place: Place::Tcp(address), file: None })
            }
        }
    }
}

/// A Unix socket that only this user can connect to.
fn private(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // the file gets the mode that the socket has, so that nobody else can connect at any moment;
    // the process's mask would be every thread's
    rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(0o600))?;
    net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Sockets have room for so long a name only.
fn fits(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().len();
    match bytes <= MOST_PATH {
        true => Ok(()),
        false => Err(format!(
            "its path has {bytes} bytes, and a socket's {MOST_PATH} at most, `.control` behind it counted; \
             say a shorter one"
        )),
    }
}

/// Removes a socket that nobody serves. Anything else in its place stays.
fn clear(path: &Path) -> Result<(), String> {
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    if !there.file_type().is_socket() {
        return Err("there is something else of that name".into());
    }
    if UnixStream::connect(path).is_ok() {
        return Err("another server serves there".into());
    }
    fs::remove_file(path).map_err(|e| e.to_string())
}

/// The control socket of a server: beside a Unix socket, else in the folder of
/// this user's servers.
///
/// # Errors
/// When that folder cannot be had.
pub fn control_of(place: &Place) -> Result<PathBuf, ServeError> {
    match place {
        Place::Unix(path) => Ok(beside(path)),
        Place::Tcp(address) => Ok(folder()?.join(format!("tcp-{}.control", address.port()))),
    }
}

/// `PATH.control`.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".control");
    name.into()
}

/// A user's folder where the system gives him none.
fn own_folder(user: u32) -> PathBuf {
    std::env::temp_dir().join(format!("diskwright-{user}"))
}

/// A folder that only this user can enter, for sockets without a name of their own.
///
/// # Errors
/// When it cannot be made, or is another's.
pub fn folder() -> Result<PathBuf, ServeError> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let path = match runtime {
        Some(runtime) => runtime.join("diskwright"),
        None => own_folder(user),
    };
    let wrong = |because: String| ServeError::Listen { place: path.display().to_string(), because };
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(wrong(error.to_string())),
        _ => {}
    }
    let there = fs::symlink_metadata(&path).map_err(|e| wrong(e.to_string()))?;
    if !there.is_dir() || there.uid() != user || there.mode() & 0o077 != 0 {
        return Err(wrong("it is no folder that only this user can enter".into()));
    }
    Ok(path)
}

/// Tells where the control socket of a server is, for commands that are not
/// told; goes away with it.
#[derive(Debug)]
pub struct Notice(PathBuf);

impl Notice {
    /// Of this process's server.
    ///
    /// # Errors
    /// When the folder cannot be had.
    pub fn put(control: &Path) -> Result<Notice, ServeError> {
        let path = match SERVERS.fetch_add(1, Ordering::Relaxed) {
            0 => folder()?.join(format!("disk-{}", std::process::id())),
            another => folder()?.join(format!("disk-{}-{another}", std::process::id())),
        };
        // left behind by a process of the same number
        let _ = fs::remove_file(&path);
        let control = std::path::absolute(control).unwrap_or_else(|_| control.to_owned());
        std::os::unix::fs::symlink(control, &path)
            .map_err(|e| ServeError::Listen { place: path.display().to_string(), because: e.to_string() })?;
        Ok(Notice(path))
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The folders of the user who became root by sudo, to attach what he serves.
fn folders_before_sudo() -> Vec<PathBuf> {
    let user = std::env::var("SUDO_UID").ok().and_then(|user| user.parse::<u32>().ok());
    let Some(user) = user.filter(|_| rustix::process::geteuid().is_root()) else { return Vec::new() };
    let places = [PathBuf::from(format!("/run/user/{user}/diskwright")), own_folder(user)];
    let is_his = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|there| there.is_dir() && there.uid() == user && there.mode() & 0o077 == 0)
    };
    places.into_iter().filter(is_his).collect()
}

/// The control sockets of this user's servers that answer, and of those of the user who became root by sudo.
/// What killed servers left is removed.
///
/// # Errors
/// When the folder cannot be had.
pub fn running() -> Result<Vec<PathBuf>, ServeError> {
    let mut folders = folders_before_sudo();
    folders.push(folder()?);
    let entries = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let mut found = Vec::new();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("disk-")) {
        let Ok(control) = fs::read_link(entry.path()) else { continue };
        match UnixStream::connect(&control) {
            Ok(_) => found.push(control),
            Err(_) => {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn uris() {
        let place = Place::Unix("/tmp/a b.sock".into());
        assert_eq!(place.uri("data"), "nbd+unix:///data?socket=/tmp/a%20b.sock");
        let place = Place::address("127.0.0.1:10809").expect("an address");
        assert_eq!((place.uri(""), place.is_open()), ("nbd://127.0.0.1:10809/".into(), false));
        assert!(Place::address("0.0.0.0:1").expect("an address").is_open());
        assert!(Place::address("nowhere").is_err());
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.sock");
        let place = Place::Unix(path.clone());
        let first = Listener::bind(&place).expect("free");
        let taken = Listener::bind(&place).expect_err("taken").to_string();
        assert!(taken.contains("another server serves there"), "{taken}");
        drop(first);
        assert!(!path.exists());
        // a killed server leaves its file
        drop(UnixListener::bind(&path).expect("free"));
        let second = Listener::bind(&place).expect("dead");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        drop(second);
        fs::write(&path, "precious").expect("written");
        let kept = Listener::bind(&place).expect_err("a file").to_string();
        assert!(kept.contains("something else"), "{kept}");
    }
}
