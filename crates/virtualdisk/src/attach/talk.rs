//! A connection to a server, by whichever address.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

use super::AttachError;
use super::export::{Address, Export};
use crate::nbd::client::{Client, Wishes};

/// A server that says nothing for so long is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// A host that does not answer to this many probes at this distance is dead.
const PROBES: (u32, Duration) = (3, Duration::from_secs(5));

/// A connection's socket.
#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn open(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
            Address::Tcp(host, port) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, PATIENCE) {
                        Ok(stream) => return Stream::lively(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Sends at once, and notices a dead host.
    fn lively(stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, PROBES.1)?;
        sockopt::set_tcp_keepintvl(&stream, PROBES.1)?;
        sockopt::set_tcp_keepcnt(&stream, PROBES.0)?;
        Ok(Stream::Tcp(stream))
    }

    /// The same connection, for another thread.
    pub fn twin(&self) -> io::Result<Stream> {
        match self {
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
        }
    }

    fn patience(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
            Stream::Tcp(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(from),
            Stream::Tcp(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// Connects and negotiates an export, as the kernel wants it: without
/// structured replies, and patient from then on.
pub fn open(export: &Export) -> Result<Client<Stream>, AttachError> {
    let fail = |why: String| AttachError::Server { uri: export.to_string(), why };
    let stream = Stream::open(&export.address).map_err(|e| fail(e.to_string()))?;
    stream.patience(Some(PATIENCE)).map_err(|e| fail(e.to_string()))?;
    let wishes = Wishes { structured: false, block_status: false };
    let client = Client::start(stream, &export.name, wishes).map_err(|e| fail(e.to_string()))?;
    client.stream().patience(None).map_err(|e| fail(e.to_string()))?;
    Ok(client)
}
