//! Connections to NBD servers, over Unix sockets or TCP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

use super::AttachError;
use super::export_address::{ExportAddress, NbdAddress};
use crate::nbd::client::{ClientOptions, NbdClient};

/// Time in which a server must respond.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number and interval of keepalive probes after which a host counts as dead.
const KEEPALIVE_PROBES: (u32, Duration) = (3, Duration::from_secs(5));

/// A connection's socket.
#[derive(Debug)]
pub enum NbdStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl NbdStream {
    fn open(address: &NbdAddress) -> io::Result<NbdStream> {
        match address {
            NbdAddress::Unix(path) => Ok(NbdStream::Unix(UnixStream::connect(path)?)),
            NbdAddress::Tcp(host, port) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                        Ok(stream) => return NbdStream::with_keepalive(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Sets a TCP stream to send without delay, and to notice a dead host.
    fn with_keepalive(stream: TcpStream) -> io::Result<NbdStream> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_PROBES.1)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_PROBES.1)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES.0)?;
        Ok(NbdStream::Tcp(stream))
    }

    /// Duplicates the handle, for another thread.
    pub fn clone_handle(&self) -> io::Result<NbdStream> {
        match self {
            NbdStream::Unix(stream) => stream.try_clone().map(NbdStream::Unix),
            NbdStream::Tcp(stream) => stream.try_clone().map(NbdStream::Tcp),
        }
    }

    fn set_timeouts(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            NbdStream::Unix(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
            NbdStream::Tcp(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
        }
    }
}

impl Read for NbdStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            NbdStream::Unix(stream) => stream.read(buffer),
            NbdStream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for NbdStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            NbdStream::Unix(stream) => stream.write(data),
            NbdStream::Tcp(stream) => stream.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for NbdStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            NbdStream::Unix(stream) => stream.as_fd(),
            NbdStream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// Connects to a server and negotiates an export as the kernel needs it: without structured replies.
/// The connection has no timeouts afterwards.
pub fn connect_export(export: &ExportAddress) -> Result<NbdClient<NbdStream>, AttachError> {
    let fail = |why: String| AttachError::Server { uri: export.to_string(), why };
    let stream = NbdStream::open(&export.address).map_err(|e| fail(e.to_string()))?;
    stream.set_timeouts(Some(CONNECT_TIMEOUT)).map_err(|e| fail(e.to_string()))?;
    let options = ClientOptions { structured: false, block_status: false };
    let client = NbdClient::start(stream, &export.name, options).map_err(|e| fail(e.to_string()))?;
    client.stream().set_timeouts(None).map_err(|e| fail(e.to_string()))?;
    Ok(client)
}
