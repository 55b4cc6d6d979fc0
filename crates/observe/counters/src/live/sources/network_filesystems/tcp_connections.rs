//! TCP's own statistics of the connection to a server: the smallest round trip of the last minutes, and retransmitted
//! segments. They distinguish the network from the server behind it: TCP's acknowledgement needs no disk. This
//! machine's kernel is queried by netlink (sock_diag(7)); nothing is sent to the server.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Statistics of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConnection {
    /// Smallest round trip of the last five minutes, microseconds.
    pub round_trip_us: u32,
    /// Segments retransmitted since the connection was established.
    pub retransmissions: u32,
}

const HEADER_BYTES: usize = 16;
const SOCKET_ID_BYTES: usize = 48;
/// Sizes of `struct inet_diag_req_v2` and of `struct inet_diag_msg` (linux/inet_diag.h).
const REQUEST_BYTES: usize = 8 + SOCKET_ID_BYTES;
const MESSAGE_BYTES: usize = 4 + SOCKET_ID_BYTES + 20;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const INET_DIAG_INFO: u16 = 2;
const ANY_STATE: u32 = u32::MAX;
const ESTABLISHED: u32 = 1 << 1;
const TCP: u8 = 6;
/// Offsets in `struct tcp_info` (linux/tcp.h).
const TOTAL_RETRANS_OFFSET: usize = 100;
const MIN_RTT_OFFSET: usize = 148;

/// A netlink socket for the kernel's socket diagnostics.
#[derive(Debug)]
pub struct SocketDiagnosis(OwnedFd);

impl SocketDiagnosis {
    /// Opens the socket; `None` if the kernel has no socket diagnostics.
    pub fn open() -> Option<SocketDiagnosis> {
        let (family, kind, flags) = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
        rustix::net::socket_with(family, kind, flags, Some(netlink::SOCK_DIAG)).ok().map(SocketDiagnosis)
    }

    /// Queries the connection from a local port to a server; `None` where there is none.
    pub fn query_connection(&self, port: u16, route: ServerRoute) -> Option<TcpConnection> {
        let request = encode_request(port, route, ANY_STATE, NLM_F_REQUEST)?;
        rustix::net::send(&self.0, &request, SendFlags::empty()).ok()?;
        let mut answer = [0; 1024];
        // the kernel has answered when send returns
        let (length, _) = rustix::net::recv(&self.0, &mut answer, RecvFlags::DONTWAIT).ok()?;
        decode_message(answer.get(..length)?)
    }

    /// Queries all connections to a server from any local port: the smallest round trip, and the sum of the
    /// retransmitted segments. The kernel shows an NFS mount's local port only where it had to choose a new one.
    pub fn query_all_connections(&self, route: ServerRoute) -> Option<TcpConnection> {
        let request = encode_request(0, route, ESTABLISHED, NLM_F_REQUEST | NLM_F_DUMP)?;
        rustix::net::send(&self.0, &request, SendFlags::empty()).ok()?;
        let mut answer = vec![0; 1 << 15];
        let mut found: Option<TcpConnection> = None;
        // the kernel filters by the server's port; each answer holds several connections
        while let Ok((length, _)) = rustix::net::recv(&self.0, answer.as_mut_slice(), RecvFlags::DONTWAIT) {
            let mut rest = answer.get(..length)?;
            while let Some(size) = rest.get(..4).and_then(|b| Some(u32::from_ne_bytes(b.try_into().ok()?) as usize)) {
                let Some(message) = rest.get(..size).filter(|message| message.len() >= HEADER_BYTES) else {
                    return found;
                };
                if matches!(u16::from_ne_bytes([message[4], message[5]]), NLMSG_DONE | NLMSG_ERROR) {
                    return found;
                }
                if let Some(connection) = decode_message(message).filter(|_| is_connection_to(message, route)) {
                    let sum = found.unwrap_or(TcpConnection { round_trip_us: u32::MAX, retransmissions: 0 });
                    found = Some(TcpConnection {
                        round_trip_us: sum.round_trip_us.min(connection.round_trip_us),
                        retransmissions: sum.retransmissions.wrapping_add(connection.retransmissions),
                    });
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        found
    }
}

/// Returns true if an answer describes a connection to this server: `struct inet_diag_msg` has 4 bytes, two ports, and
/// two addresses of 16 bytes.
fn is_connection_to(message: &[u8], route: ServerRoute) -> bool {
    let has_port = message.get(HEADER_BYTES + 6..HEADER_BYTES + 8) == Some(&route.server.port().to_be_bytes()[..]);
    let has_address = |octets: &[u8]| message.get(HEADER_BYTES + 24..HEADER_BYTES + 24 + octets.len()) == Some(octets);
    has_port
        && match route.server.ip() {
            IpAddr::V4(ip) => has_address(&ip.octets()),
            IpAddr::V6(ip) => has_address(&ip.octets()),
        }
}

/// A server, and the address that this machine uses towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRoute {
    server: SocketAddr,
    source: IpAddr,
}

impl ServerRoute {
    /// Looks up the route to a server by connecting a UDP socket, which sends nothing.
    pub fn look_up(server: SocketAddr) -> Option<ServerRoute> {
        let unspecified: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(unspecified).ok()?;
        socket.connect(server).ok()?;
        Some(ServerRoute { server, source: socket.local_addr().ok()?.ip() })
    }
}

fn encode_request(
    port: u16,
    route: ServerRoute,
    states: u32,
    flags: u16,
) -> Option<[u8; HEADER_BYTES + REQUEST_BYTES]> {
    let ServerRoute { server, source } = route;
    let mut bytes = [0; HEADER_BYTES + REQUEST_BYTES];
    bytes[..4].copy_from_slice(&((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    let diag = &mut bytes[HEADER_BYTES..];
    diag[1] = TCP;
    diag[2] = 1 << (INET_DIAG_INFO - 1);
    diag[4..8].copy_from_slice(&states.to_ne_bytes());
    diag[8..10].copy_from_slice(&port.to_be_bytes());
    diag[10..12].copy_from_slice(&server.port().to_be_bytes());
    match (source, server.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            diag[0] = 2;
            diag[12..16].copy_from_slice(&from.octets());
            diag[28..32].copy_from_slice(&to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            diag[0] = 10;
            diag[12..28].copy_from_slice(&from.octets());
            diag[28..44].copy_from_slice(&to.octets());
        }
        _ => return None,
    }
    // accept any cookie of the socket
    diag[48..56].fill(0xff);
    Some(bytes)
}

/// Decodes a message of the kernel's answer; `None` for an error, which is another type of message.
pub fn decode_message(bytes: &[u8]) -> Option<TcpConnection> {
    let word = |offset: usize| Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?));
    if word(4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut offset = HEADER_BYTES + MESSAGE_BYTES;
    loop {
        let (length, kind) = (usize::from(word(offset)?), word(offset + 2)?);
        if kind == INET_DIAG_INFO {
            let info = bytes.get(offset + 4..offset + length)?;
            let number = |offset: usize| Some(u32::from_ne_bytes(info.get(offset..offset + 4)?.try_into().ok()?));
            let round_trip_us = number(MIN_RTT_OFFSET).filter(|us| *us > 0 && *us != u32::MAX)?;
            return Some(TcpConnection { round_trip_us, retransmissions: number(TOTAL_RETRANS_OFFSET)? });
        }
        if length < 4 {
            return None;
        }
        offset += length.next_multiple_of(4);
    }
}

/// Parses the server's address in the options of a mount: `addr=`, and `port=` unless it is 2049. The options in
/// mountinfo have both; those in mountstats omit the address.
pub fn server_address(options: &[u8]) -> Option<SocketAddr> {
    let options = std::str::from_utf8(options).ok()?;
    let option = |name: &str| options.split(',').find_map(|o| o.strip_prefix(name)?.strip_prefix('='));
    let port = option("port").and_then(|port| port.parse().ok()).filter(|port| *port > 0).unwrap_or(2049);
    Some(SocketAddr::new(option("addr")?.parse().ok()?, port))
}
