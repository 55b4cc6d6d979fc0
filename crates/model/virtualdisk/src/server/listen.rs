//! Sockets that clients connect to, and the links by which a running disk is found.

use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use diskwright_hostfiles::private_files;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::ServeError;

/// Largest number of clients that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Longest path of a socket, bytes (`sun_path` of unix(7) without its terminator).
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Number of servers that this process has started.
static SERVER_COUNT: AtomicU32 = AtomicU32::new(0);

/// Address that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl ListenAddress {
    /// Parses `127.0.0.1:10809`, `localhost:10809`, `[::1]:10809`.
    ///
    /// # Errors
    /// A description if the text is not an address or its host name is unknown.
    pub fn parse_tcp(text: &str) -> Result<ListenAddress, String> {
        let mut addresses = text.to_socket_addrs().map_err(|e| format!("`{text}` is not HOST:PORT ({e})"))?;
        addresses.next().map(ListenAddress::Tcp).ok_or_else(|| format!("`{text}` has no address"))
    }

    /// Returns true if other machines can connect.
    pub fn is_public(&self) -> bool {
        matches!(self, ListenAddress::Tcp(address) if !address.ip().is_loopback())
    }

    /// Returns the file of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            ListenAddress::Unix(path) => Some(path),
            ListenAddress::Tcp(_) => None,
        }
    }

    /// Returns the URI of an export, as libnbd, QEMU and nbdkit understand it.
    pub fn uri(&self, export: &str) -> String {
        let name = percent_encode(export);
        match self {
            ListenAddress::Unix(path) => {
                format!("nbd+unix:///{name}?socket={}", percent_encode(&path.display().to_string()))
            }
            ListenAddress::Tcp(address) => format!("nbd://{address}/{name}"),
        }
    }
}

/// Replaces characters that have a meaning in a URI by `%` codes; `/` stays.
fn percent_encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode_byte = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode_byte).collect()
}

/// A listening socket, and its file, which is removed on drop.
#[derive(Debug)]
pub struct Listener {
    pub fd: OwnedFd,
    pub address: ListenAddress,
    file: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // something else may have removed it already
            let _ = fs::remove_file(file);
        }
    }
}

impl Listener {
    /// Binds and listens; the file of a dead socket is replaced.
    ///
    /// # Errors
    /// An address that is in use or cannot be bound.
    pub fn bind_address(requested: &ListenAddress) -> Result<Listener, ServeError> {
        let listen_error = |reason: String| ServeError::Listen { address: requested.uri(""), reason };
        match requested {
            ListenAddress::Unix(path) => {
                check_path_length(path).map_err(listen_error)?;
                remove_dead_socket(path).map_err(listen_error)?;
                let fd = bind_private_socket(path).map_err(|e| listen_error(std::io::Error::from(e).to_string()))?;
                Ok(Listener { fd, address: requested.clone(), file: Some(path.clone()) })
            }
            ListenAddress::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(|e| listen_error(e.to_string()))?;
                listener.set_nonblocking(true).map_err(|e| listen_error(e.to_string()))?;
                // port 0 was replaced by a real one
                let address = listener.local_addr().map_err(|e| listen_error(e.to_string()))?;
                Ok(Listener { fd: listener.into(), address: ListenAddress::Tcp(address), file: None })
            }
        }
    }
}

/// Binds a Unix socket that only this user can connect to.
fn bind_private_socket(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // the file inherits the mode of the socket, so that no other user can connect at any moment;
    // the process's umask would apply to every thread
    rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(0o600))?;
    net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Checks the length of a socket path, which the kernel limits.
fn check_path_length(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().len();
    match bytes <= MAX_SOCKET_PATH_BYTES {
        true => Ok(()),
        false => Err(format!(
            "its path has {bytes} bytes; the limit of a socket is {MAX_SOCKET_PATH_BYTES}, `.control` included; \
             use a shorter path"
        )),
    }
}

/// Removes the file of a socket that no process serves. Any other file stays.
fn remove_dead_socket(path: &Path) -> Result<(), String> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err("another file has that name".into());
    }
    if UnixStream::connect(path).is_ok() {
        return Err("another server uses it".into());
    }
    fs::remove_file(path).map_err(|e| e.to_string())
}

/// Returns the path of a server's control socket: beside a Unix socket, else in the folder of this
/// user's servers.
///
/// # Errors
/// When that folder cannot be created.
pub fn control_path(address: &ListenAddress) -> Result<PathBuf, ServeError> {
    match address {
        ListenAddress::Unix(path) => Ok(control_path_beside(path)),
        ListenAddress::Tcp(address) => Ok(socket_folder()?.join(format!("tcp-{}.control", address.port()))),
    }
}

/// Returns `PATH.control`.
pub fn control_path_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".control");
    name.into()
}

/// Folder for the links of root's servers; no other user can create a folder there.
const ROOT_FOLDER: &str = "/run/diskwright/disks";
/// Number of names that are tried in a folder in which every user can create files.
const MAX_FOLDER_NAMES: u32 = 8;

/// Returns folders for a user's sockets, the best first: the runtime folder that the system
/// provides, if it does.
fn candidate_folders(user: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
    let runtime = runtime.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]).filter(is_own);
    let root_folder = (user == 0).then(|| PathBuf::from(ROOT_FOLDER));
    let shared = (0..MAX_FOLDER_NAMES).map(|number| match number {
        0 => own_folder(user),
        number => std::env::temp_dir().join(format!("diskwright-{user}-{number}")),
    });
    runtime.map(|path| path.join("diskwright")).chain(root_folder).chain(shared).collect()
}

/// Returns a user's folder if the system provides none.
fn own_folder(user: u32) -> PathBuf {
    std::env::temp_dir().join(format!("diskwright-{user}"))
}

/// Checks that only this user can enter a folder; returns the reason if not. Links are not
/// followed.
fn check_private_folder(path: &Path, user: u32) -> Result<(), String> {
    let metadata = fs::symlink_metadata(path).map_err(|e| e.to_string())?;
    match metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err("it is not a folder that only this user can enter".into()),
    }
}

/// Returns a folder that only this user can enter, for sockets without an explicit path. If another
/// user has taken its name, the next name is used.
///
/// # Errors
/// When none can be created.
pub fn socket_folder() -> Result<PathBuf, ServeError> {
    let user = rustix::process::geteuid().as_raw();
    let mut first_error = None;
    for path in candidate_folders(user, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)) {
        match private_files::create_folder(&path)
            .map_err(|e| e.to_string())
            .and_then(|()| check_private_folder(&path, user))
        {
            Ok(()) => return Ok(path),
            Err(reason) => first_error = first_error.or(Some((path, reason))),
        }
    }
    let (path, reason) = first_error.unwrap_or_default();
    let reason = format!("{reason}; set XDG_RUNTIME_DIR to a folder of your own");
    Err(ServeError::Listen { address: path.display().to_string(), reason })
}

/// Link to the control socket of a server, by which commands without an explicit path find it;
/// removed on drop.
#[derive(Debug)]
pub struct ServerLink(PathBuf);

impl ServerLink {
    /// Creates the link of this process's server.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn create_link(control: &Path) -> Result<ServerLink, ServeError> {
        let folder = socket_folder()?;
        remove_dead_links(&folder);
        let path = match SERVER_COUNT.fetch_add(1, Ordering::Relaxed) {
            0 => folder.join(format!("disk-{}", std::process::id())),
            count => folder.join(format!("disk-{}-{count}", std::process::id())),
        };
        // an earlier process with the same id may have left one
        let _ = fs::remove_file(&path);
        let control = std::path::absolute(control).unwrap_or_else(|_| control.to_owned());
        std::os::unix::fs::symlink(control, &path)
            .map_err(|e| ServeError::Listen { address: path.display().to_string(), reason: e.to_string() })?;
        Ok(ServerLink(path))
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes links that killed servers left in a folder: another server may get the same socket name,
/// and would be found under the old link.
fn remove_dead_links(folder: &Path) {
    let process_id = |name: &str| name.strip_prefix("disk-")?.split('-').next()?.parse::<u32>().ok();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let has_ended = |id: u32| !Path::new(&format!("/proc/{id}")).exists();
        if process_id(&entry.file_name().to_string_lossy()).is_some_and(has_ended) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the folders in which this user looks for servers: the user's own, and those of the user
/// who became root by sudo, whose disks root may attach.
fn readable_folders() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let before_sudo = std::env::var("SUDO_UID").ok().and_then(|user| user.parse::<u32>().ok()).filter(|_| user == 0);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let private_folders = |user, runtime| {
        candidate_folders(user, runtime).into_iter().filter(move |path| check_private_folder(path, user).is_ok())
    };
    private_folders(user, runtime).chain(before_sudo.into_iter().flat_map(|user| private_folders(user, None))).collect()
}

/// Returns the control sockets of this user's servers that answer, and of those of the user who
/// became root by sudo. Links that killed servers left are removed.
///
/// # Errors
/// When this user has no folder at all.
pub fn running_servers() -> Result<Vec<PathBuf>, ServeError> {
    let own = socket_folder()?;
    let mut found = Vec::new();
    for folder in readable_folders() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("disk-")) {
            let Ok(control) = fs::read_link(entry.path()) else { continue };
            match UnixStream::connect(&control) {
                Ok(_) if found.contains(&control) => {}
                Ok(_) => found.push(control),
                // links in another user's folder are not removed
                Err(_) if folder == own => drop(fs::remove_file(entry.path())),
                Err(_) => {}
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn removes_links_of_dead_servers_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut gone = std::process::Command::new("true").spawn().expect("runs");
        gone.wait().expect("ends");
        let names = [format!("disk-{}", gone.id()), format!("disk-{}-1", gone.id())];
        let stay = [format!("disk-{}", std::process::id()), "disk-x".into(), "other".into()];
        for name in names.iter().chain(&stay) {
            std::os::unix::fs::symlink("/nowhere/s.control", folder.path().join(name)).expect("ours");
        }
        remove_dead_links(folder.path());
        let is_there = |name: &String| fs::symlink_metadata(folder.path().join(name)).is_ok();
        assert!(!names.iter().any(is_there) && stay.iter().all(is_there));
    }

    #[test]
    fn formats_uris_and_parses_addresses() {
        let place = ListenAddress::Unix("/tmp/a b.sock".into());
        assert_eq!(place.uri("data"), "nbd+unix:///data?socket=/tmp/a%20b.sock");
        let place = ListenAddress::parse_tcp("127.0.0.1:10809").expect("an address");
        assert_eq!((place.uri(""), place.is_public()), ("nbd://127.0.0.1:10809/".into(), false));
        assert!(ListenAddress::parse_tcp("0.0.0.0:1").expect("an address").is_public());
        assert!(ListenAddress::parse_tcp("nowhere").is_err());
    }

    #[test]
    fn skips_a_folder_name_that_another_user_has_taken() {
        let bench = tempfile::tempdir().expect("a folder");
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
        let user = rustix::process::geteuid().as_raw();
        let all = candidate_folders(user, Some(bench.path().to_owned()));
        assert_eq!(all[0], bench.path().join("diskwright"));
        assert_eq!(all.iter().any(|path| path == Path::new(ROOT_FOLDER)), user == 0);
        assert!(all.ends_with(&[std::env::temp_dir().join(format!("diskwright-{user}-7"))]));
        // a folder of another user is not one that the system provided to this one
        assert!(!candidate_folders(user + 1, Some(bench.path().to_owned())).contains(&all[0]));
        let (open, link) = (bench.path().join("open"), bench.path().join("link"));
        fs::create_dir(&open).expect("a folder");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("a mode");
        std::os::unix::fs::symlink(bench.path(), &link).expect("a link");
        assert!(
            check_private_folder(bench.path(), user).is_ok() && check_private_folder(bench.path(), user + 1).is_err()
        );
        assert!(check_private_folder(&open, user).is_err() && check_private_folder(&link, user).is_err());
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.sock");
        let place = ListenAddress::Unix(path.clone());
        let first = Listener::bind_address(&place).expect("free");
        let taken = Listener::bind_address(&place).expect_err("taken").to_string();
        assert!(taken.contains("another server uses it"), "{taken}");
        drop(first);
        assert!(!path.exists());
        // a killed server leaves its file; this one never listened, because a child that another
        // test forks at this moment would keep a listening socket open a little longer
        let dead = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        net::bind(&dead, &SocketAddrUnix::new(&path).expect("short")).expect("free");
        let second = Listener::bind_address(&place).expect("dead");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        drop(second);
        fs::write(&path, "precious").expect("written");
        let kept = Listener::bind_address(&place).expect_err("a file").to_string();
        assert!(kept.contains("another file"), "{kept}");
    }
}
