//! Totals of the network's protocols: `netstat -s`, `nstat -a`, /proc/net/snmp and /proc/net/netstat.

use diskwright_base::counter_ids::network;

use super::Snapshot;

/// Protocol whose lines follow.
#[derive(Default)]
pub struct ProtocolState {
    protocol: String,
    /// Names of the numbers that follow, in /proc/net/snmp.
    names: Vec<String>,
}

const SENT: &str = "foreign.network.tcp_sent";
const RETRANSMITTED: &str = "foreign.network.tcp_retransmitted";
const UDP_RECEIVED: &str = "foreign.network.udp_received";
const UDP_ERRORS: &str = "foreign.network.udp_receive_errors";
const LISTEN_OVERFLOWS: &str = "foreign.network.listen_overflows";

/// Names of nstat, which are those of the files with their protocol before them.
const NAMES: [(&str, &str); 5] = [
    ("TcpOutSegs", SENT),
    ("TcpRetransSegs", RETRANSMITTED),
    ("UdpInDatagrams", UDP_RECEIVED),
    ("UdpInErrors", UDP_ERRORS),
    ("TcpExtListenOverflows", LISTEN_OVERFLOWS),
];

/// Words of `netstat -s` behind a number, below the title of their protocol.
const PHRASES: [(&str, &str, &str); 9] = [
    ("tcp", "packets sent", SENT),
    ("Tcp", "segments sent out", SENT),
    ("Tcp", "segments send out", SENT),
    ("Tcp", "segments retransmitted", RETRANSMITTED),
    ("Tcp", "segments retransmited", RETRANSMITTED),
    ("Udp", "packets received", UDP_RECEIVED),
    ("Udp", "packet receive errors", UDP_ERRORS),
    ("TcpExt", "times the listen queue of a socket overflowed", LISTEN_OVERFLOWS),
    ("TcpExt", "SYNs to LISTEN sockets dropped", "foreign.network.listen_drops"),
];

const TITLES: [&str; 10] = ["Ip", "Icmp", "IcmpMsg", "Tcp", "Udp", "UdpLite", "TcpExt", "IpExt", "MPTcpExt", "Ip6"];
/// Titles of the BSDs and macOS.
const BSD_TITLES: [&str; 14] =
    ["tcp", "udp", "ip", "icmp", "igmp", "ipsec", "ip6", "icmp6", "rip6", "pfkey", "unix", "mptcp", "kctl", "arp"];
/// Smallest number of segments whose share of repeats means something.
const MIN_SEGMENTS: f64 = 10_000.0;

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    if text == "#kernel" {
        snapshot.begin_piece("nstat");
        return true;
    }
    if let Some((title, rest)) = text.split_once(':')
        && TITLES.contains(&title)
    {
        return read_title(snapshot, title, rest);
    }
    if let Some(title) = text.strip_suffix(':').filter(|title| BSD_TITLES.contains(title)) {
        if title == "tcp" {
            snapshot.begin_piece("netstat");
        }
        title.clone_into(&mut snapshot.protocols.protocol);
        return true;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [name, number, ..] = words[..]
        && let Ok(number) = number.parse::<f64>()
        && TITLES.iter().any(|title| name.starts_with(title))
    {
        put_named(snapshot, name, number);
        return true;
    }
    if snapshot.protocols.protocol.is_empty() {
        return false;
    }
    if let Some((number, words)) = text.split_once(' ')
        && let Ok(number) = number.parse::<f64>()
    {
        let protocol = snapshot.protocols.protocol.clone();
        let phrase = PHRASES.iter().find(|(of, phrase, _)| *of == protocol && *phrase == words.trim());
        if let Some((_, _, counter)) = phrase {
            snapshot.put_total(counter, "", number);
        }
        // `40443 data packets (7010112 bytes) retransmitted`
        if protocol == "tcp" && words.starts_with("data packet") && words.ends_with("retransmitted") {
            snapshot.put_total(RETRANSMITTED, "", number);
        }
        return true;
    }
    // `    Forwarding: 1`, `    TCPRenoRecovery: 12`
    let is_pair = text.split_once(": ").is_some_and(|(_, number)| number.trim().parse::<f64>().is_ok());
    is_pair || line.starts_with("    ") && text.contains("connection")
}

/// Reads a title of netstat, or one of the two lines of a protocol in /proc/net/snmp.
fn read_title(snapshot: &mut Snapshot<'_, '_>, title: &str, rest: &str) -> bool {
    let words: Vec<&str> = rest.split_whitespace().collect();
    if words.is_empty() {
        if title == "Ip" {
            snapshot.begin_piece("netstat");
        }
        snapshot.protocols.protocol = title.to_owned();
        return true;
    }
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if numbers.is_empty() {
        if title == "Ip" || title == "TcpExt" {
            snapshot.begin_piece(&format!("snmp {title}"));
        }
        snapshot.protocols.names = words.iter().map(|name| format!("{title}{name}")).collect();
    } else {
        let names = std::mem::take(&mut snapshot.protocols.names);
        for (name, number) in names.iter().zip(numbers) {
            put_named(snapshot, name, number);
        }
    }
    true
}

/// Puts the share of segments sent again, of enough of them.
pub fn put_repeats(snapshot: &mut Snapshot<'_, '_>) {
    let sent = snapshot.totals.added(SENT, "").filter(|sent| *sent >= MIN_SEGMENTS);
    if let (Some(sent), Some(repeats)) = (sent, snapshot.totals.added(RETRANSMITTED, "")) {
        snapshot.replace_value(network::TCP_RETRANSMITTED_FRACTION, "TCP", (repeats / sent).min(1.0));
    }
}

fn put_named(snapshot: &mut Snapshot<'_, '_>, name: &str, number: f64) {
    if let Some((_, counter)) = NAMES.iter().find(|(known, _)| *known == name) {
        snapshot.put_total(counter, "", number);
    }
}
