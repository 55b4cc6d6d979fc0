//! The driver's own statistics of a network adapter (`ethtool -S`): those that count packets that were lost before they
//! reached the kernel or after they left it, and packets over what a cloud allows the machine.
//!
//! Each driver has its own names. Most drivers count sums, and the same for each queue under names with a digit: if a
//! direction has a sum, its queues are left out.

#![allow(unsafe_code, reason = "an ioctl that fills a buffer behind a pointer has no safe form in any crate")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, socket};

/// Maximum number of statistics of an adapter that are read. The kernel writes as many as the driver has at that
/// moment, so the buffers are twice as large: queues may be added between the two requests.
const MAX_STATISTICS: usize = 8192;
/// `ETH_GSTRING_LEN` of linux/ethtool.h.
const NAME_BYTES: usize = 32;
/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: u64 = 0x8946;
/// `ETHTOOL_GSTRINGS`, `ETHTOOL_GSTATS` and `ETHTOOL_GSSET_INFO` of linux/ethtool.h.
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_INFO: u32 = 0x37;
/// `ETH_SS_STATS`: the set of names of the statistics.
const STATISTICS_SET: u32 = 1;

/// `struct ifreq` with a pointer.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    data: *mut u64,
    rest: [u64; 2],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40 || size_of::<usize>() != 8);

/// Packets that an adapter lost, by its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AdapterLosses {
    /// Received packets that it dropped; `None` if it counts none.
    pub received: Option<u64>,
    /// Packets to be sent that it dropped.
    pub sent: Option<u64>,
    /// Packets over what the cloud allows the machine.
    pub over_allowance: Option<u64>,
}

/// Reads the statistics of adapters, one after the other, into the same buffers.
#[derive(Default)]
pub(super) struct StatisticsReader {
    names: Vec<u64>,
    values: Vec<u64>,
}

impl StatisticsReader {
    /// Reads what an adapter lost.
    ///
    /// # Errors
    /// When the driver keeps no statistics, or the kernel refuses them.
    pub fn read_losses(&mut self, interface: &str) -> io::Result<AdapterLosses> {
        let asked = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let mut info = [u64::from(GET_SET_INFO), 1 << STATISTICS_SET, 0];
        request_statistics(&asked, interface, &mut info)?;
        let count = (info[2] & u64::from(u32::MAX)) as usize;
        if info[1] == 0 || count == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if count > MAX_STATISTICS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{count} statistics")));
        }
        let (names, values) = self.buffers();
        // the first word has command and set, the first half of the second their number; the names follow
        names[0] = two_halves(GET_STRINGS, STATISTICS_SET);
        names[1] = two_halves(count as u32, 0);
        request_statistics(&asked, interface, names)?;
        values[0] = two_halves(GET_STATISTICS, count as u32);
        request_statistics(&asked, interface, values)?;
        // another number means that the queues have changed: names and values may not belong together
        let counts = [split_halves(names[1])[0], split_halves(values[0])[1]];
        if counts != [count as u32; 2] {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let named: Vec<(String, u64)> =
            values[1..].iter().take(count).enumerate().map(|(index, value)| (name_at(names, index), *value)).collect();
        Ok(sum_losses(&named))
    }

    /// Returns the buffers for names and values, which are made for the first adapter. They hold the largest number of
    /// statistics; of their memory, the kernel gives only the pages that are used.
    fn buffers(&mut self) -> (&mut [u64], &mut [u64]) {
        let words = 2 * MAX_STATISTICS;
        if self.names.is_empty() {
            (self.names, self.values) = (vec![0; 2 + words * NAME_BYTES / 8], vec![0; 1 + words]);
        }
        (&mut self.names, &mut self.values)
    }
}

/// The name of a statistic, in a buffer whose names begin after three halves of words.
fn name_at(names: &[u64], index: usize) -> String {
    let start = 12 + index * NAME_BYTES;
    let byte_at = |place: usize| names.get(place / 8).map_or(0, |word| word.to_ne_bytes()[place % 8]);
    let bytes: Vec<u8> = (start..start + NAME_BYTES).map(byte_at).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Two 32-bit numbers, one after the other in memory.
fn two_halves(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn split_halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// Sends a request of ethtool, whose answer replaces it.
fn request_statistics(asked: &OwnedFd, interface: &str, data: &mut [u64]) -> io::Result<()> {
    let mut request = InterfaceRequest { name: [0; 16], data: data.as_mut_ptr(), rest: [0; 2] };
    let name = interface.as_bytes();
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name);
    // SAFETY: the request has the kernel's layout (its size is checked above), and its pointer is that of `data`, which
    // is borrowed mutably until the call is over. All three commands only read from the driver. The kernel writes at
    // most the numbers of a driver, and `data` has room for twice the largest number that `read_losses` accepts.
    let code = unsafe { libc::ioctl(asked.as_fd().as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What a statistic counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossKind {
    Received,
    Sent,
    OverAllowance,
}

/// Words in the names of drivers for packets that were lost: virtio `rx_drops`, e1000e `rx_no_buffer_count`, mlx5
/// `rx_out_of_buffer` and `rx_discards_phy`, ixgbe `rx_missed_errors`, bnxt `rx_discards`, `tx_fifo_errors`.
const LOSS_WORDS: &[&str] =
    &["drop", "discard", "no_buf", "nobuf", "out_of_buf", "missed", "no_dma_res", "fifo_err", "overrun"];
/// Packets that a program, a filter or a pause frame drops on purpose are not lost.
const WANTED_WORDS: &[&str] = &["xdp", "filter", "pause", "fcoe", "steer"];

/// Returns what a statistic counts; `None` if no loss.
fn loss_kind(name: &str) -> Option<LossKind> {
    let name = name.to_ascii_lowercase();
    // Amazon's adapter: bw_in, bw_out, pps, conntrack, linklocal
    if name.ends_with("allowance_exceeded") {
        return Some(LossKind::OverAllowance);
    }
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if !has(LOSS_WORDS) || has(WANTED_WORDS) {
        return None;
    }
    let is_sent = name.contains("tx") || name.contains("xmit");
    Some(if is_sent { LossKind::Sent } else { LossKind::Received })
}

/// Adds up the losses among named statistics.
fn sum_losses(named: &[(String, u64)]) -> AdapterLosses {
    let sum = |kind: LossKind| {
        let counted: Vec<&(String, u64)> = named.iter().filter(|(name, _)| loss_kind(name) == Some(kind)).collect();
        let is_sum = |name: &str| !name.contains(|c: char| c.is_ascii_digit());
        let has_sum = counted.iter().any(|(name, _)| is_sum(name));
        let chosen = counted.iter().filter(|(name, _)| !has_sum || is_sum(name));
        chosen.map(|(_, value)| *value).reduce(u64::saturating_add)
    };
    AdapterLosses {
        received: sum(LossKind::Received),
        sent: sum(LossKind::Sent),
        over_allowance: sum(LossKind::OverAllowance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(named: &[(&str, u64)]) -> AdapterLosses {
        sum_losses(&named.iter().map(|(name, value)| (name.to_string(), *value)).collect::<Vec<_>>())
    }

    #[test]
    fn the_names_of_drivers_tell_what_was_lost() {
        // virtio has only queues
        let virtio =
            [("rx_queue_0_packets", 9), ("rx_queue_0_drops", 3), ("rx_queue_1_drops", 4), ("tx_queue_0_kicks", 8)];
        assert_eq!(losses(&virtio), AdapterLosses { received: Some(7), ..AdapterLosses::default() });
        // a sum, and its queues
        let ixgbe = [("rx_missed_errors", 5), ("rx_no_buffer_count", 1), ("rx_queue_0_drops", 6), ("tx_dropped", 2)];
        assert_eq!(losses(&ixgbe), AdapterLosses { received: Some(6), sent: Some(2), over_allowance: None });
        let cloud = [("bw_in_allowance_exceeded", 40), ("pps_allowance_exceeded", 2), ("queue_0_rx_bad_csum", 7)];
        assert_eq!(losses(&cloud), AdapterLosses { over_allowance: Some(42), ..AdapterLosses::default() });
        // dropped on purpose
        assert_eq!(losses(&[("rx_xdp_drop", 9), ("rx_filter_drops", 9)]), AdapterLosses::default());
        assert_eq!(losses(&[]), AdapterLosses::default());
    }

    #[test]
    fn numbers_of_requests_are_one_behind_the_other() {
        let bytes = two_halves(0x1b, 1).to_ne_bytes();
        assert_eq!((&bytes[..4], &bytes[4..]), (&0x1b_u32.to_ne_bytes()[..], &1_u32.to_ne_bytes()[..]));
        assert_eq!(split_halves(two_halves(7, 9)), [7, 9]);
    }

    #[test]
    fn an_adapter_without_statistics_is_an_error_and_not_zero() {
        let mut reader = StatisticsReader::default();
        assert!(reader.read_losses("lo").is_err());
        assert!(reader.read_losses("there-is-no-such-adapter").is_err());
        assert!(reader.names.is_empty(), "nothing is made for adapters without statistics");
    }

    #[test]
    fn adapters_share_buffers_and_each_name_is_read_in_its_place() {
        let mut reader = StatisticsReader::default();
        let places = |reader: &mut StatisticsReader| {
            let (names, values) = reader.buffers();
            (names.as_ptr(), names.len(), values.as_ptr(), values.len())
        };
        assert_eq!(places(&mut reader), places(&mut reader));
        let mut bytes = vec![0_u8; 12];
        for name in ["rx_drops", "tx_queue_0_dropped_by_the_adapter"] {
            let mut field = name.as_bytes()[..name.len().min(NAME_BYTES)].to_vec();
            field.resize(NAME_BYTES, 0);
            bytes.extend(field);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let names: Vec<u64> = words.collect();
        assert_eq!((name_at(&names, 0).as_str(), name_at(&names, 1).len()), ("rx_drops", NAME_BYTES));
        assert_eq!(name_at(&names, 99), "");
    }
}
