//! Commands to the kernel's NBD client, by generic netlink. Messages are built and parsed here as
//! bytes; the numbers are those of the kernel's headers `linux/netlink.h`, `linux/genetlink.h` and
//! `linux/nbd-netlink.h`.
//!
//! This replaces the program nbd-client, with three advantages: the kernel itself chooses a free device,
//! so that two concurrent attaches cannot get the same one; the kernel keeps our name with the device,
//! by which the device of a killed process is found again; and nothing has to be installed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

const NLMSG_ERROR: u16 = 2;
/// Flags of a request that is always acknowledged.
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
/// The family that resolves other families' names.
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const NBD_CMD_CONNECT: u8 = 1;
const NBD_CMD_DISCONNECT: u8 = 2;
const NBD_ATTR_INDEX: u16 = 1;
const NBD_ATTR_SIZE_BYTES: u16 = 2;
const NBD_ATTR_BLOCK_SIZE_BYTES: u16 = 3;
const NBD_ATTR_SERVER_FLAGS: u16 = 5;
const NBD_ATTR_SOCKETS: u16 = 7;
const NBD_ATTR_BACKEND_IDENTIFIER: u16 = 10;
const NBD_SOCK_ITEM: u16 = 1;
const NBD_SOCK_FD: u16 = 1;
/// Bit of an attribute that contains attributes.
const NLA_F_NESTED: u16 = 1 << 15;
/// Bits of an attribute's type that describe its encoding.
const NLA_TYPE_FLAGS: u16 = 3 << 14;

/// Size of a message header, bytes.
const HEADER_BYTES: usize = 16;
/// Size of the generic header after it, bytes.
const GENERIC_HEADER_BYTES: usize = 4;
/// Size of the receive buffer; replies are far shorter.
const MAX_REPLY_BYTES: usize = 16 << 10;

/// Description of a device to make.
#[derive(Clone, Copy, Debug)]
pub struct NbdDevice<'a> {
    /// Connections that have negotiated, without structured replies.
    pub sockets: &'a [BorrowedFd<'a>],
    /// Size in bytes, whole blocks.
    pub bytes: u64,
    /// Size of a logical block, bytes.
    pub block_bytes: u64,
    /// The export's transmission flags.
    pub flags: u16,
    /// Text that the kernel shows as the device's `backend` in /sys.
    pub backend: &'a str,
}

/// A connection to the kernel's NBD client.
#[derive(Debug)]
pub struct NetlinkConnection {
    socket: OwnedFd,
    family: u16,
}

impl NetlinkConnection {
    /// Looks up the NBD client.
    ///
    /// # Errors
    /// `ENOENT` if this kernel has none, or its module is not loaded.
    pub fn open() -> io::Result<NetlinkConnection> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::GENERIC))?;
        let query =
            encode_message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &encode_attribute(CTRL_ATTR_FAMILY_NAME, b"nbd\0"));
        let family = send_and_receive(&socket, &query, CTRL_ATTR_FAMILY_ID)?.ok_or(io::ErrorKind::InvalidData)?;
        let family = family.get(..2).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
        Ok(NetlinkConnection { socket, family: family.ok_or(io::ErrorKind::InvalidData)? })
    }

    /// Makes a device from connections, and returns the N of its name nbdN, the first free one.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn connect_device(&self, device: &NbdDevice<'_>) -> io::Result<u32> {
        let reply = send_and_receive(
            &self.socket,
            &encode_message(self.family, NBD_CMD_CONNECT, &device_attributes(device)),
            NBD_ATTR_INDEX,
        )?;
        let index = reply.as_deref().and_then(|b| b.get(..4)?.try_into().ok());
        index.map(u32::from_ne_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Ends a device's connections; requests in flight fail.
    ///
    /// # Errors
    /// The kernel's error; a device without a connection is no error.
    pub fn disconnect_device(&self, index: u32) -> io::Result<()> {
        let command =
            encode_message(self.family, NBD_CMD_DISCONNECT, &encode_attribute(NBD_ATTR_INDEX, &index.to_ne_bytes()));
        send_and_receive(&self.socket, &command, NBD_ATTR_INDEX).map(|_| ())
    }
}

fn device_attributes(device: &NbdDevice<'_>) -> Vec<u8> {
    let item = |socket: &BorrowedFd<'_>| {
        encode_attribute(
            NBD_SOCK_ITEM | NLA_F_NESTED,
            &encode_attribute(NBD_SOCK_FD, &socket.as_raw_fd().to_ne_bytes()),
        )
    };
    let sockets: Vec<u8> = device.sockets.iter().flat_map(item).collect();
    // no index: the kernel takes the first free one. No timeout: a disk that hangs should hang
    [
        encode_attribute(NBD_ATTR_SIZE_BYTES, &device.bytes.to_ne_bytes()),
        encode_attribute(NBD_ATTR_BLOCK_SIZE_BYTES, &device.block_bytes.to_ne_bytes()),
        encode_attribute(NBD_ATTR_SERVER_FLAGS, &u64::from(device.flags).to_ne_bytes()),
        encode_attribute(NBD_ATTR_SOCKETS | NLA_F_NESTED, &sockets),
        encode_attribute(NBD_ATTR_BACKEND_IDENTIFIER, &[device.backend.as_bytes(), b"\0"].concat()),
    ]
    .concat()
}

/// Encodes an attribute: its length without the padding, its type, its value.
fn encode_attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut out = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn encode_message(family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + GENERIC_HEADER_BYTES + attributes.len()).unwrap_or(u32::MAX);
    let (sequence, port) = (1u32.to_ne_bytes(), 0u32.to_ne_bytes());
    let head = [&length.to_ne_bytes()[..], &family.to_ne_bytes(), &NLM_F_REQUEST_ACK.to_ne_bytes(), &sequence, &port];
    // the generic header: command, version 1, two reserved bytes
    [&head.concat()[..], &[command, 1, 0, 0], attributes].concat()
}

/// Sends a message and receives replies up to the acknowledgement. Returns the attribute `wanted` of a
/// reply before it.
fn send_and_receive(socket: &OwnedFd, message: &[u8], wanted: u16) -> io::Result<Option<Vec<u8>>> {
    // an unconnected netlink socket sends to the kernel, which replies before `send` returns
    send(socket, message, SendFlags::empty())?;
    let mut found = None;
    // a reply and its acknowledgement may arrive together or separately
    for _ in 0..4 {
        let mut buffer = vec![0; MAX_REPLY_BYTES];
        let (read, _) = recv(socket, &mut buffer, RecvFlags::DONTWAIT)?;
        match parse_replies(buffer.get(..read).unwrap_or_default(), wanted)? {
            (attribute, true) => return Ok(attribute.or(found)),
            (attribute, false) => found = attribute.or(found),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Parses messages; returns the wanted attribute, and whether there was an acknowledgement.
///
/// # Errors
/// The kernel's error, or that this is not a valid reply.
pub fn parse_replies(mut rest: &[u8], wanted: u16) -> io::Result<(Option<Vec<u8>>, bool)> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut found = None;
    while !rest.is_empty() {
        let length = rest.first_chunk().map(|b| u32::from_ne_bytes(*b)).ok_or_else(broken)?;
        let length = usize::try_from(length).ok().filter(|l| *l >= HEADER_BYTES).ok_or_else(broken)?;
        let message = rest.get(..length).ok_or_else(broken)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = message.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes).ok_or_else(broken)?;
        let body = message.get(HEADER_BYTES..).ok_or_else(broken)?;
        if kind == NLMSG_ERROR {
            let code = body.first_chunk().map(|b| i32::from_ne_bytes(*b)).ok_or_else(broken)?;
            return match code {
                0 => Ok((found, true)),
                code => Err(io::Error::from_raw_os_error(code.checked_neg().ok_or_else(broken)?)),
            };
        }
        found = body.get(GENERIC_HEADER_BYTES..).and_then(|attributes| find_attribute(attributes, wanted)).or(found);
    }
    Ok((found, false))
}

/// Finds an attribute among several.
fn find_attribute(mut rest: &[u8], wanted: u16) -> Option<Vec<u8>> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..length)?;
        if kind & !NLA_TYPE_FLAGS == wanted {
            return Some(value.to_vec());
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn attributes_are_padded_and_their_lengths_are_not() {
        assert_eq!(encode_attribute(2, b"nbd\0"), [8u16.to_ne_bytes(), 2u16.to_ne_bytes(), *b"nb", *b"d\0"].concat());
        let odd = encode_attribute(10, b"/run\0");
        assert_eq!((odd.len(), &odd[..2], &odd[9..]), (12, &9u16.to_ne_bytes()[..], &[0; 3][..]));
        assert_eq!(find_attribute(&[odd, encode_attribute(3, &[7])].concat(), 3), Some(vec![7]));
    }

    #[test]
    fn a_device_is_described_by_its_attributes() {
        let file = tempfile::tempfile().unwrap();
        let sockets = [file.as_fd(), file.as_fd()];
        let device =
            NbdDevice { sockets: &sockets, bytes: 1 << 30, block_bytes: 512, flags: 0x105, backend: "/run/x/1" };
        let text = device_attributes(&device);
        assert_eq!(find_attribute(&text, NBD_ATTR_SIZE_BYTES).unwrap(), (1u64 << 30).to_ne_bytes());
        assert_eq!(find_attribute(&text, NBD_ATTR_SERVER_FLAGS).unwrap(), 0x105u64.to_ne_bytes());
        assert_eq!(find_attribute(&text, NBD_ATTR_BACKEND_IDENTIFIER).unwrap(), b"/run/x/1\0");
        let sockets = find_attribute(&text, NBD_ATTR_SOCKETS).unwrap();
        assert_eq!(sockets.len(), 2 * 12);
        assert_eq!(
            find_attribute(&find_attribute(&sockets, NBD_SOCK_ITEM).unwrap(), NBD_SOCK_FD).unwrap(),
            file.as_raw_fd().to_ne_bytes()
        );
    }

    /// Builds a message as the kernel sends it.
    fn kernel_message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut out = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat();
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn parses_replies() {
        let index = kernel_message(
            30,
            &[&[NBD_CMD_CONNECT, 1, 0, 0], &encode_attribute(NBD_ATTR_INDEX, &5u32.to_ne_bytes())[..]].concat(),
        );
        let well = kernel_message(NLMSG_ERROR, &[&0i32.to_ne_bytes()[..], &[0; 16]].concat());
        let busy = kernel_message(NLMSG_ERROR, &[&(-16i32).to_ne_bytes()[..], &[0; 16]].concat());
        let five = Some(5u32.to_ne_bytes().to_vec());
        assert_eq!(parse_replies(&index, NBD_ATTR_INDEX).unwrap(), (five.clone(), false));
        assert_eq!(parse_replies(&well, NBD_ATTR_INDEX).unwrap(), (None, true));
        assert_eq!(parse_replies(&[index, well].concat(), NBD_ATTR_INDEX).unwrap(), (five, true));
        assert_eq!(parse_replies(&busy, NBD_ATTR_INDEX).unwrap_err().raw_os_error(), Some(16));
    }

    #[test]
    fn rejects_broken_replies() {
        let well = kernel_message(
            30,
            &[&[NBD_CMD_CONNECT, 1, 0, 0], &encode_attribute(NBD_ATTR_INDEX, &5u32.to_ne_bytes())[..]].concat(),
        );
        for cut in 1..well.len() {
            let _ = parse_replies(&well[..cut], NBD_ATTR_INDEX);
        }
        for length in [0u32, 3, 15, 17, 29, u32::MAX] {
            let mut text = well.clone();
            text[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(parse_replies(&text, NBD_ATTR_INDEX).is_err() || length >= 16, "{length}");
        }
        for length in [0u16, 1, 3, 9, u16::MAX] {
            let mut text = well.clone();
            text[20..22].copy_from_slice(&length.to_ne_bytes());
            assert!(matches!(parse_replies(&text, NBD_ATTR_INDEX), Ok((None, false))), "{length}");
        }
        let min_error = kernel_message(NLMSG_ERROR, &i32::MIN.to_ne_bytes());
        assert!(parse_replies(&min_error, NBD_ATTR_INDEX).is_err());
    }
}
