//! Totals of network adapters: ifconfig in its old and new form, `ip -s link`, /proc/net/dev, `ethtool -S`.

use std::collections::HashMap;

use diskwright_base::counter_ids::network;

use super::Snapshot;

/// Adapter whose lines follow.
#[derive(Default)]
pub struct NetworkState {
    device: String,
    /// Headings of the row that follows in `ip -s link`, and whether it is of packets received.
    headings: Vec<String>,
    is_received: bool,
    is_ethtool: bool,
    /// Sums of ethtool's numbers by name: several queues have the same.
    sums: HashMap<String, f64>,
    /// Packets beyond the limits of the cloud.
    exceeded: f64,
}

/// Smallest number of packets whose share of drops means anything.
const MIN_PACKETS: f64 = 100_000.0;

/// Numbers of /proc/net/dev in their order; an empty name is not read.
const NET_DEV: [&str; 16] = [
    "received_bytes",
    "received_packets",
    "received_errors",
    "received_dropped",
    "received_missed",
    "",
    "",
    "",
    "sent_bytes",
    "sent_packets",
    "sent_errors",
    "sent_dropped",
    "",
    "",
    "",
    "",
];

/// Words of ifconfig and ip, and what they count.
const WORDS: [(&str, &str); 6] = [
    ("packets", "packets"),
    ("bytes", "bytes"),
    ("errors", "errors"),
    ("dropped", "dropped"),
    ("overruns", "missed"),
    ("overrun", "missed"),
];

/// Names of ethtool that count packets lost in the adapter; drivers count some of them under two names.
const MISSED: [&str; 13] = [
    "rx_missed_errors",
    "rx_missed",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_no_buffer_count",
    "rx_out_of_buffer",
    "rx_no_dma_resources",
    "rx_discards_phy",
    "rx_discards",
    "rx_no_buffer_discards",
    "port.rx_dropped",
    "pkts rx OOB",
    "drv dropped rx total",
];
const DAMAGED: [&str; 4] = ["rx_crc_errors", "rx_crc_errors_phy", "rx_frame_errors", "rx_align_errors"];

/// Counters, and the names that drivers give to them.
const ETHTOOL: [(&str, &[&str]); 10] = [
    (network::RECEIVED_PACKETS, &["rx_packets", "ucast pkts rx"]),
    (network::SENT_PACKETS, &["tx_packets", "ucast pkts tx"]),
    (network::RECEIVED_BYTES, &["rx_bytes", "ucast bytes rx"]),
    (network::SENT_BYTES, &["tx_bytes", "ucast bytes tx"]),
    (network::RECEIVED_ERRORS, &["rx_errors"]),
    (network::SENT_ERRORS, &["tx_errors"]),
    (network::RECEIVED_DROPPED, &["rx_dropped"]),
    (network::SENT_DROPPED, &["tx_dropped"]),
    (network::RECEIVED_MISSED, &MISSED),
    (network::RECEIVED_DAMAGED, &DAMAGED),
];

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    if text == "NIC statistics:" {
        let device = snapshot.file.strip_prefix("ethtool ").unwrap_or("the adapter").to_owned();
        begin_device(snapshot, "ethtool", &device);
        snapshot.network.is_ethtool = true;
        return true;
    }
    if text.starts_with("Inter-|") || text.starts_with("face |") {
        if text.starts_with("Inter-|") {
            begin_device(snapshot, "net/dev", "");
        }
        return true;
    }
    if let Some(device) = device_of_heading(line) {
        begin_device(snapshot, "adapter", &device);
        return true;
    }
    read_net_dev(snapshot, text) || read_adapter(snapshot, text) || read_ethtool(snapshot, text)
}

fn begin_device(snapshot: &mut Snapshot<'_, '_>, piece: &str, device: &str) {
    snapshot.begin_piece(&format!("{piece} {device}"));
    snapshot.network = NetworkState { device: device.to_owned(), ..NetworkState::default() };
}

/// Parses `eth0: flags=4163<UP> mtu 1500`, `eth1  Link encap:Ethernet`, `2: eth0: <BROADCAST,UP> mtu 1500`.
fn device_of_heading(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = match words[..] {
        [name, flags, ..] if flags.starts_with("flags=") => name,
        [name, "Link", encap, ..] if encap.starts_with("encap:") => name,
        [number, name, flags, ..] if number.ends_with(':') && flags.starts_with('<') && line.contains(" mtu ") => name,
        _ => return None,
    };
    Some(name.trim_end_matches(':').split('@').next().unwrap_or(name).to_owned())
}

/// Adapters within the machine count nothing that a cable carries.
fn is_read_device(device: &str) -> bool {
    let starts = ["veth", "docker", "br-", "virbr", "cali", "flannel", "cni", "tap", "ifb", "vnet"];
    device != "lo" && !starts.iter().any(|start| device.starts_with(start))
}

/// Reads `  eth0: 912345 1234 0 …` with 16 numbers.
fn read_net_dev(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let Some((device, rest)) = text.split_once(':') else { return false };
    let numbers: Vec<f64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
    if numbers.len() != NET_DEV.len() || device.contains(' ') {
        return false;
    }
    let named = NET_DEV.iter().zip(&numbers).filter(|(name, _)| !name.is_empty() && is_read_device(device));
    for (name, total) in named {
        snapshot.put_total(&format!("network.{name}"), device, *total);
    }
    true
}

/// Reads the lines below an adapter's heading.
fn read_adapter(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    if snapshot.network.device.is_empty() || snapshot.network.is_ethtool {
        return false;
    }
    let words: Vec<&str> = text.split([' ', ':', '\t']).filter(|word| !word.is_empty()).collect();
    let Some(first) = words.first() else { return false };
    if matches!(*first, "RX" | "TX") {
        snapshot.network.is_received = *first == "RX";
        let is_heading = words[1..].iter().all(|word| word.parse::<f64>().is_err());
        if is_heading {
            snapshot.network.headings = words[1..].iter().map(|word| (*word).to_owned()).collect();
        } else {
            read_words(snapshot, &words);
        }
        return true;
    }
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if !snapshot.network.headings.is_empty() && numbers.len() == words.len() {
        let headings = std::mem::take(&mut snapshot.network.headings);
        for (heading, total) in headings.iter().zip(&numbers) {
            put_word(snapshot, heading, *total);
        }
        return true;
    }
    let others = [
        "inet",
        "inet6",
        "ether",
        "loop",
        "UP",
        "collisions",
        "Interrupt",
        "link/ether",
        "link/loopback",
        "device",
        "altname",
        "unspec",
        "BROADCAST",
        "LOOPBACK",
        "Memory",
        "options",
        "media",
        "status",
        "nd6",
        "Base",
        "RX",
        "TX",
        "link/none",
        "HWaddr",
    ];
    others.contains(first)
}

/// Reads `RX packets 12 bytes 34` and `RX packets:12 errors:0 dropped:3`, also with TX behind RX.
fn read_words(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) {
    for two in words.windows(2) {
        match two[0] {
            "RX" | "TX" => snapshot.network.is_received = two[0] == "RX",
            _ => {}
        }
        if let Ok(total) = two[1].parse::<f64>() {
            put_word(snapshot, two[0], total);
        }
    }
}

fn put_word(snapshot: &mut Snapshot<'_, '_>, word: &str, total: f64) {
    let Some((_, name)) = WORDS.iter().find(|(known, _)| *known == word) else { return };
    let direction = if snapshot.network.is_received { "received" } else { "sent" };
    // overruns of what is sent mean something else
    let is_known = snapshot.network.is_received || *name != "missed";
    let device = snapshot.network.device.clone();
    if is_known && is_read_device(&device) {
        snapshot.put_total(&format!("network.{direction}_{name}"), &device, total);
    }
}

/// Reads `rx_missed_errors: 12`; drivers have hundreds of names.
fn read_ethtool(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    if !snapshot.network.is_ethtool {
        return false;
    }
    let Some((name, number)) = text.rsplit_once(':') else { return false };
    let Ok(number) = number.trim().parse::<f64>() else { return false };
    let (name, device) = (name.trim(), snapshot.network.device.clone());
    // a virtual machine's adapter counts what the cloud's limits cost it
    if name.ends_with("_allowance_exceeded") {
        snapshot.network.exceeded += number;
        let exceeded = snapshot.network.exceeded;
        snapshot.replace_value(network::ALLOWANCE_EXCEEDED, &device, exceeded);
    }
    let Some((counter, names)) = ETHTOOL.iter().find(|(_, names)| names.contains(&name)) else { return true };
    let sums = &mut snapshot.network.sums;
    *sums.entry(name.to_owned()).or_default() += number;
    // drivers count the same packets under two names
    let total = names.iter().filter_map(|name| sums.get(*name).copied()).reduce(f64::max);
    if let Some(total) = total {
        snapshot.put_total(counter, &device, total);
    }
    true
}

/// Puts the share of packets received that were dropped, where enough were received.
pub fn put_drop_fractions(snapshot: &mut Snapshot<'_, '_>) {
    for device in snapshot.totals.instances("network.received_packets") {
        let added = |name: &str| snapshot.totals.added(&format!("network.received_{name}"), &device);
        // drivers count the same packets under both names
        let lost = [added("dropped"), added("missed")].into_iter().flatten().reduce(f64::max);
        if let (Some(lost), Some(packets)) = (lost, added("packets").filter(|packets| *packets >= MIN_PACKETS)) {
            snapshot.replace_value(network::RECEIVED_DROP_FRACTION, &device, lost / packets);
        }
    }
}
