//! Commands to the kernel's NBD client, by generic netlink. Messages are built and parsed here as
//! bytes; the numbers are those of the kernel's headers `linux/netlink.h`, `linux/genetlink.h` and
//! `linux/nbd-netlink.h`.
//!
//! The program nbd-client is not used: this way the kernel itself chooses a free device, so that
//! two concurrent attaches cannot get the same one; it keeps our name with the device, by which a
//! killed process' device is found again; and nothing has to be installed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

const ERROR: u16 = 2;
/// Flags of a request that is always acknowledged.
const REQUEST_AND_ANSWER: u16 = 1 | 4;
/// The family that resolves other families' names.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
/// Bit of an attribute that contains attributes.
const NESTED: u16 = 1 << 15;
/// Bits of an attribute's type that describe its encoding.
const HOW: u16 = 3 << 14;

/// Bytes of a message header, and of the generic header after it.
const HEAD: usize = 16;
const GENERIC_HEAD: usize = 4;
/// Size of the receive buffer; replies are far shorter.
const LONGEST_ANSWER: usize = 16 << 10;

/// Description of a device to make.
#[derive(Clone, Copy, Debug)]
pub struct NbdDevice<'a> {
    /// Connections that have negotiated, without structured replies.
    pub sockets: &'a [BorrowedFd<'a>],
    /// Size in bytes, whole blocks.
    pub bytes: u64,
    /// Size of a logical block, bytes.
    pub block: u64,
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
        let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::GENERIC));
        let socket = socket_with(kind.0, kind.1, kind.2, kind.3)?;
        let wanted = message(CONTROL, GET_FAMILY, &attribute(FAMILY_NAME, b"nbd\0"));
        let family = ask(&socket, &wanted, FAMILY_ID)?.ok_or(io::ErrorKind::InvalidData)?;
        let family = family.get(..2).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
        Ok(NetlinkConnection { socket, family: family.ok_or(io::ErrorKind::InvalidData)? })
    }

    /// Makes a device from connections, and returns the N of its name nbdN, the first free one.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn connect(&self, device: &NbdDevice<'_>) -> io::Result<u32> {
        let answer = ask(&self.socket, &message(self.family, CONNECT, &connect(device)), INDEX)?;
        let index = answer.as_deref().and_then(|b| b.get(..4)?.try_into().ok());
        index.map(u32::from_ne_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Ends a device's connections; requests in flight fail.
    ///
    /// # Errors
    /// The kernel's error; a device without a connection is no error.
    pub fn disconnect(&self, index: u32) -> io::Result<()> {
        let wanted = message(self.family, DISCONNECT, &attribute(INDEX, &index.to_ne_bytes()));
        ask(&self.socket, &wanted, INDEX).map(|_| ())
    }
}

fn connect(device: &NbdDevice<'_>) -> Vec<u8> {
    let item = |socket: &BorrowedFd<'_>| {
        attribute(SOCKET_ITEM | NESTED, &attribute(SOCKET_FD, &socket.as_raw_fd().to_ne_bytes()))
    };
    let sockets: Vec<u8> = device.sockets.iter().flat_map(item).collect();
    // no index: the kernel takes the first free one. No timeout: a disk that hangs should hang
    [
        attribute(SIZE_BYTES, &device.bytes.to_ne_bytes()),
        attribute(BLOCK_SIZE_BYTES, &device.block.to_ne_bytes()),
        attribute(SERVER_FLAGS, &u64::from(device.flags).to_ne_bytes()),
        attribute(SOCKETS | NESTED, &sockets),
        attribute(BACKEND_IDENTIFIER, &[device.backend.as_bytes(), b"\0"].concat()),
    ]
    .concat()
}

/// Encodes an attribute: its length without the padding, its type, its value.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut out = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn message(family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEAD + GENERIC_HEAD + attributes.len()).unwrap_or(u32::MAX);
    let (sequence, from) = (1u32.to_ne_bytes(), 0u32.to_ne_bytes());
    let head = [&length.to_ne_bytes()[..], &family.to_ne_bytes(), &REQUEST_AND_ANSWER.to_ne_bytes(), &sequence, &from];
    [&head.concat()[..], &[command, 1, 0, 0], attributes].concat()
}

/// Sends a message and reads up to its acknowledgement; returns an attribute of the reply before
/// it.
fn ask(socket: &OwnedFd, message: &[u8], wanted: u16) -> io::Result<Option<Vec<u8>>> {
    // unconnected netlink sockets reach the kernel, which replies before `send` returns
    send(socket, message, SendFlags::empty())?;
    let mut found = None;
    // a reply and its acknowledgement may come in one piece or two
    for _ in 0..4 {
        let mut buffer = vec![0; LONGEST_ANSWER];
        let (read, _) = recv(socket, &mut buffer, RecvFlags::DONTWAIT)?;
        match answers(buffer.get(..read).unwrap_or_default(), wanted)? {
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
pub fn answers(mut rest: &[u8], wanted: u16) -> io::Result<(Option<Vec<u8>>, bool)> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut found = None;
    while !rest.is_empty() {
        let length = rest.first_chunk().map(|b| u32::from_ne_bytes(*b)).ok_or_else(broken)?;
        let length = usize::try_from(length).ok().filter(|l| *l >= HEAD).ok_or_else(broken)?;
        let message = rest.get(..length).ok_or_else(broken)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = message.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes).ok_or_else(broken)?;
        let body = message.get(HEAD..).ok_or_else(broken)?;
        if kind == ERROR {
            let code = body.first_chunk().map(|b| i32::from_ne_bytes(*b)).ok_or_else(broken)?;
            return match code {
                0 => Ok((found, true)),
                code => Err(io::Error::from_raw_os_error(code.checked_neg().ok_or_else(broken)?)),
            };
        }
        found = body.get(GENERIC_HEAD..).and_then(|attributes| pick(attributes, wanted)).or(found);
    }
    Ok((found, false))
}

/// Finds an attribute among several.
fn pick(mut rest: &[u8], wanted: u16) -> Option<Vec<u8>> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..length)?;
        if kind & !HOW == wanted {
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
        assert_eq!(attribute(2, b"nbd\0"), [8u16.to_ne_bytes(), 2u16.to_ne_bytes(), *b"nb", *b"d\0"].concat());
        let odd = attribute(10, b"/run\0");
        assert_eq!((odd.len(), &odd[..2], &odd[9..]), (12, &9u16.to_ne_bytes()[..], &[0; 3][..]));
        assert_eq!(pick(&[odd, attribute(3, &[7])].concat(), 3), Some(vec![7]));
    }

    #[test]
    fn a_device_is_described_by_its_attributes() {
        let file = tempfile::tempfile().unwrap();
        let sockets = [file.as_fd(), file.as_fd()];
        let device = NbdDevice { sockets: &sockets, bytes: 1 << 30, block: 512, flags: 0x105, backend: "/run/x/1" };
        let text = connect(&device);
        assert_eq!(pick(&text, SIZE_BYTES).unwrap(), (1u64 << 30).to_ne_bytes());
        assert_eq!(pick(&text, SERVER_FLAGS).unwrap(), 0x105u64.to_ne_bytes());
        assert_eq!(pick(&text, BACKEND_IDENTIFIER).unwrap(), b"/run/x/1\0");
        let sockets = pick(&text, SOCKETS).unwrap();
        assert_eq!(sockets.len(), 2 * 12);
        assert_eq!(pick(&pick(&sockets, SOCKET_ITEM).unwrap(), SOCKET_FD).unwrap(), file.as_raw_fd().to_ne_bytes());
    }

    /// Builds a message as the kernel sends it.
    fn sent(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEAD + body.len()).unwrap();
        let mut out = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat();
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn answers_are_read() {
        let index = sent(30, &[&[CONNECT, 1, 0, 0], &attribute(INDEX, &5u32.to_ne_bytes())[..]].concat());
        let well = sent(ERROR, &[&0i32.to_ne_bytes()[..], &[0; 16]].concat());
        let busy = sent(ERROR, &[&(-16i32).to_ne_bytes()[..], &[0; 16]].concat());
        let five = Some(5u32.to_ne_bytes().to_vec());
        assert_eq!(answers(&index, INDEX).unwrap(), (five.clone(), false));
        assert_eq!(answers(&well, INDEX).unwrap(), (None, true));
        assert_eq!(answers(&[index, well].concat(), INDEX).unwrap(), (five, true));
        assert_eq!(answers(&busy, INDEX).unwrap_err().raw_os_error(), Some(16));
    }

    #[test]
    fn broken_answers_are_refused() {
        let well = sent(30, &[&[CONNECT, 1, 0, 0], &attribute(INDEX, &5u32.to_ne_bytes())[..]].concat());
        for cut in 1..well.len() {
            let _ = answers(&well[..cut], INDEX);
        }
        for length in [0u32, 3, 15, 17, 29, u32::MAX] {
            let mut text = well.clone();
            text[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(answers(&text, INDEX).is_err() || length >= 16, "{length}");
        }
        for length in [0u16, 1, 3, 9, u16::MAX] {
            let mut text = well.clone();
            text[20..22].copy_from_slice(&length.to_ne_bytes());
            assert!(matches!(answers(&text, INDEX), Ok((None, false))), "{length}");
        }
        let most = sent(ERROR, &i32::MIN.to_ne_bytes());
        assert!(answers(&most, INDEX).is_err());
    }
}
