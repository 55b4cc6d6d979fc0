//! Totals of the network's protocols: `netstat -s` of Linux, BSD, macOS, AIX, HP-UX, Solaris and Windows, `nstat`,
//! /proc/net/snmp, snmp6 and netstat. The names are in `protocols.toml`.

use std::sync::OnceLock;

use diskwright_base::counter_ids::network;
use diskwright_base::toml_reader;
use serde::Deserialize;

use super::Snapshot;

/// Protocol whose lines follow.
#[derive(Default)]
pub struct ProtocolState {
    /// In lower case; empty before a title.
    protocol: String,
    /// Names of the numbers that follow, in /proc/net/snmp.
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesFile {
    total: Vec<ProtocolTotal>,
}

/// A total that is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProtocolTotal {
    counter: String,
    names: Vec<String>,
    phrases: Vec<String>,
}

fn totals() -> &'static [ProtocolTotal] {
    static TOTALS: OnceLock<Vec<ProtocolTotal>> = OnceLock::new();
    TOTALS.get_or_init(|| {
        toml_reader::read_built_in::<NamesFile>("pieces/protocols.toml", include_str!("protocols.toml")).total
    })
}

const SENT: &str = "foreign.network.tcp_sent";
const RETRANSMITTED: &str = "foreign.network.tcp_retransmitted";
const ACCEPTED: &str = "foreign.network.tcp_accepted";
const LISTEN_OVERFLOWS: &str = "foreign.network.listen_overflows";
const UDP_RECEIVED: &str = "foreign.network.udp_received";
const UDP_ARRIVED: &str = "foreign.network.udp_arrived";
const UDP_ERRORS: &str = "foreign.network.udp_receive_errors";
const UDP_BUFFER_ERRORS: &str = "foreign.network.udp_buffer_errors";

/// Protocols, in lower case; those of IPv6 have a 6 behind them.
const PROTOCOLS: [&str; 22] = [
    "ip", "icmp", "icmpmsg", "igmp", "ipsec", "tcp", "udp", "udplite", "tcpext", "ipext", "mptcpext", "sctp", "rip",
    "pfkey", "unix", "mptcp", "kctl", "arp", "rawip", "carp", "pim", "divert",
];
/// Smallest number of segments whose share of repeats means something.
const MIN_SEGMENTS: f64 = 10_000.0;
/// Smallest number of datagrams or connections whose share of losses means something.
const MIN_DATAGRAMS: f64 = 1000.0;

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    if text == "#kernel" || text.starts_with("{\"kernel\"") {
        snapshot.begin_piece("netstat nstat");
        text.split(['{', ',', '}']).for_each(|pair| _ = read_named(snapshot, pair));
        return true;
    }
    if let Some((title, rest)) = text.split_once(':')
        && is_protocol(title)
    {
        return read_title(snapshot, title, rest);
    }
    if let Some(title) = title_of_windows(text) {
        snapshot.begin_piece(&format!("netstat {text}"));
        title.clone_into(&mut snapshot.protocols.protocol);
        return true;
    }
    if read_named(snapshot, text) || read_assignments(snapshot, text) {
        return true;
    }
    !snapshot.protocols.protocol.is_empty() && read_phrase(snapshot, line)
}

/// True for `Tcp`, `TcpExt`, `udp6`.
fn is_protocol(title: &str) -> bool {
    title.len() <= 10 && PROTOCOLS.contains(&title.to_lowercase().trim_end_matches('6'))
}

/// Returns the protocol of `TCP Statistics for IPv4`.
fn title_of_windows(text: &str) -> Option<String> {
    let (title, _) = text.split_once(" Statistics")?;
    let protocol = title.to_lowercase().trim_end_matches(['4', '6']).trim_end_matches('v').to_owned();
    PROTOCOLS.contains(&protocol.as_str()).then_some(protocol)
}

/// Reads a title of netstat, or one of the two lines of a protocol in /proc/net/snmp.
fn read_title(snapshot: &mut Snapshot<'_, '_>, title: &str, rest: &str) -> bool {
    let words: Vec<&str> = rest.split_whitespace().collect();
    if words.is_empty() {
        snapshot.begin_piece(&format!("netstat {title}"));
        snapshot.protocols.protocol = title.to_lowercase().trim_end_matches('6').to_owned();
        return true;
    }
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if numbers.is_empty() {
        snapshot.begin_piece(&format!("netstat snmp {title}"));
        snapshot.protocols.names = words.iter().map(|name| format!("{title}{name}")).collect();
    } else {
        let names = std::mem::take(&mut snapshot.protocols.names);
        for (name, number) in names.iter().zip(numbers) {
            put_named(snapshot, name, number);
        }
    }
    true
}

/// Reads `UdpInErrors  31  0.0` of nstat, `Udp6InErrors 31` of snmp6, and `"UdpInErrors": 31,` of `nstat --json`.
fn read_named(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let separators = |c: char| c.is_whitespace() || matches!(c, '"' | ':' | ',');
    let words: Vec<&str> = text.split(separators).filter(|word| !word.is_empty()).collect();
    let [name, number, ..] = words[..] else { return false };
    let Ok(number) = number.parse::<f64>() else { return false };
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
        && ["Ip", "Icmp", "Tcp", "Udp", "MPTcp", "Sctp"].iter().any(|start| name.starts_with(start));
    if !is_name || words.len() > 3 {
        return false;
    }
    // nstat shows what is not zero, so any name may be the first of a dump
    if totals().iter().any(|total| has_name(total, name)) {
        snapshot.begin_piece(&format!("netstat {name}"));
    }
    put_named(snapshot, name, number);
    true
}

/// Reads `UDP     udpInDatagrams  = 4938  udpInErrors  =  0` of Solaris, and `  Datagrams Received  = 83` of Windows.
fn read_assignments(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let Some((before, _)) = text.split_once('=') else { return false };
    let is_solaris = |word: &str| {
        ["tcp", "udp", "ip", "icmp", "rawip", "sctp"].iter().any(|start| word.starts_with(start))
            && word.contains(|c: char| c.is_ascii_uppercase())
    };
    if !before.split_whitespace().last().is_some_and(is_solaris) {
        let protocol = snapshot.protocols.protocol.clone();
        let number = text.rsplit('=').next().and_then(|number| number.trim().parse::<f64>().ok());
        return match number.filter(|_| !protocol.is_empty()) {
            Some(number) => {
                put_phrase(snapshot, &format!("{protocol} ="), before, number);
                true
            }
            None => false,
        };
    }
    let spaced = text.replace('=', " = ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    for window in words.windows(3) {
        if let [name, "=", number] = window
            && let Ok(number) = number.parse::<f64>()
            && is_solaris(name)
        {
            if matches!(*name, "udpInDatagrams" | "tcpRtoAlgorithm") {
                snapshot.begin_piece(&format!("netstat {name}"));
            }
            put_named(snapshot, name, number);
        }
    }
    true
}

/// Reads `    31 packet receive errors`, and `    RcvbufErrors: 31`.
fn read_phrase(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    let protocol = snapshot.protocols.protocol.clone();
    if let Some((number, words)) = text.split_once(char::is_whitespace)
        && let Ok(number) = number.parse::<f64>()
    {
        put_phrase(snapshot, &protocol, words, number);
        return true;
    }
    // `    Forwarding: 1`, `    TCPRenoRecovery: 12`
    if let Some((name, number)) = text.split_once(": ")
        && let Ok(number) = number.trim().parse::<f64>()
    {
        put_named(snapshot, &format!("{protocol}{name}"), number);
        return true;
    }
    line.starts_with("    ") && (text.contains("connection") || text.contains("listen") || text.ends_with(':'))
}

/// Puts a number by its words: `40443 data packets (7010112 bytes) retransmitted`.
fn put_phrase(snapshot: &mut Snapshot<'_, '_>, protocol: &str, words: &str, number: f64) {
    let mut plain = String::from(protocol) + ":";
    let mut depth = 0;
    for word in words.to_lowercase().split_whitespace() {
        depth += word.matches('(').count();
        if depth == 0 {
            plain.push(' ');
            plain.push_str(singular(word));
        }
        depth = depth.saturating_sub(word.matches(')').count());
    }
    if let Some(total) = totals().iter().find(|total| total.phrases.contains(&plain)) {
        snapshot.add_total(&total.counter, "", number);
    }
}

/// The singular of a word that BSD writes in both numbers.
fn singular(word: &str) -> &str {
    const PLURALS: [&str; 13] = [
        "packets",
        "segments",
        "datagrams",
        "errors",
        "buffers",
        "overflows",
        "times",
        "syns",
        "sockets",
        "accepts",
        "opens",
        "connections",
        "openings",
    ];
    if PLURALS.contains(&word) { &word[..word.len() - 1] } else { word }
}

fn has_name(total: &ProtocolTotal, name: &str) -> bool {
    total.names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn put_named(snapshot: &mut Snapshot<'_, '_>, name: &str, number: f64) {
    if let Some(total) = totals().iter().find(|total| has_name(total, name)) {
        snapshot.add_total(&total.counter, "", number);
    }
}

/// Completes the totals of UDP: its errors, where only those of full buffers are shown, and what programs received.
pub fn complete_totals(snapshot: &mut Snapshot<'_, '_>) {
    let total = |counter| snapshot.totals.total(counter, "");
    if let Some(full) = total(UDP_BUFFER_ERRORS).filter(|full| total(UDP_ERRORS).is_none_or(|all| all < *full)) {
        snapshot.put_total(UDP_ERRORS, "", full);
    }
    if let Some(arrived) = snapshot.totals.total(UDP_ARRIVED, "") {
        let lost = snapshot.totals.total(UDP_ERRORS, "").unwrap_or(0.0);
        snapshot.put_total(UDP_RECEIVED, "", (arrived - lost).max(0.0));
    }
}

/// Puts the shares of what was sent again, lost on arrival or turned away, of enough of them.
pub fn put_fractions(snapshot: &mut Snapshot<'_, '_>) {
    for (counter, instance, part, whole, is_beside, least) in [
        (network::TCP_RETRANSMITTED_FRACTION, "TCP", RETRANSMITTED, SENT, false, MIN_SEGMENTS),
        (network::UDP_LOST_FRACTION, "UDP", UDP_ERRORS, UDP_RECEIVED, true, MIN_DATAGRAMS),
        (network::LISTEN_OVERFLOW_FRACTION, "TCP", LISTEN_OVERFLOWS, ACCEPTED, true, MIN_DATAGRAMS),
    ] {
        let added = snapshot.totals.added_share([part, whole], is_beside, "");
        let Some((part, all)) = added.filter(|(_, all)| *all >= least) else { continue };
        snapshot.replace_value(counter, instance, (part / all).min(1.0));
    }
}
