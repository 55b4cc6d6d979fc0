//! `ifconfig`, `ip -s link` and `ethtool -S`: packets that an adapter received and dropped, counted since it came up.

use diskwright_base::counter_ids::network;

use super::Snapshot;

/// Smallest number of packets whose share of drops means anything.
const MIN_PACKETS: f64 = 100_000.0;

/// Adapter whose lines follow, and its numbers.
#[derive(Default)]
pub struct AdapterState {
    name: String,
    packets: Option<f64>,
    dropped: f64,
    missed: f64,
    exceeded: Option<f64>,
    /// Headings of `ip -s link` whose numbers follow.
    headings: Vec<String>,
    is_of_ethtool: bool,
}

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    if read_name(snapshot, line) {
        return true;
    }
    let text = line.trim();
    if snapshot.adapter.is_of_ethtool {
        return read_statistic(snapshot, text);
    }
    if snapshot.adapter.name.is_empty() && !text.starts_with("RX packets") {
        return false;
    }
    if let Some(rest) = text.strip_prefix("RX packets").or_else(|| text.strip_prefix("RX errors")) {
        // `RX packets:812 errors:0 dropped:3 overruns:1 frame:0`, in later versions on two lines
        let value = |name: &str| number_after(text, name);
        if text.starts_with("RX packets") {
            snapshot.adapter.packets = number_of(rest);
        }
        let (dropped, overruns) = (value("dropped"), value("overruns"));
        if dropped.is_some() || overruns.is_some() {
            snapshot.adapter.dropped = dropped.unwrap_or(0.0) + overruns.unwrap_or(0.0);
            put_drops(snapshot);
        }
        return true;
    }
    read_ip_numbers(snapshot, text) || is_other_line(text)
}

/// Reads the line that begins an adapter: `eth0: flags=…`, `eth0      Link encap:Ethernet`, `2: eth0: <BROADCAST,…>`;
/// of ethtool its prompt or title.
fn read_name(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let is_ethtool = line.trim() == "NIC statistics:";
    let name = if let Some((_, rest)) = line.split_once("ethtool -S ") {
        rest.split_whitespace().next()
    } else if is_ethtool {
        Some("")
    } else if line.contains(": flags=") {
        line.split(':').next()
    } else if line.contains("Link encap:") {
        line.split_whitespace().next()
    } else if line.contains(": <") && line.contains(" mtu ") {
        line.split(": ").nth(1)
    } else {
        None
    };
    let Some(name) = name else { return false };
    let known = snapshot.adapter.name.clone();
    let name = if is_ethtool && !known.is_empty() { known } else { name.trim().to_owned() };
    let is_of_ethtool = is_ethtool || line.contains("ethtool -S ");
    snapshot.adapter = AdapterState { name, is_of_ethtool, ..AdapterState::default() };
    true
}

/// Reads `     rx_missed_errors: 8812` of ethtool; the names differ from driver to driver.
fn read_statistic(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let Some((name, value)) = text.split_once(':') else { return false };
    let (name, Ok(value)) = (name.trim(), value.trim().parse::<f64>()) else { return false };
    if name.contains(' ') && !name.starts_with("rx") {
        return true;
    }
    let state = &mut snapshot.adapter;
    match name {
        "rx_packets" | "rx packets" | "rx_total_packets" => state.packets = Some(value),
        "rx_dropped" | "rx_discards" | "rx_fw_discards" | "rx_out_of_buffer" | "rx_no_buffer_count" => {
            state.dropped = state.dropped.max(value);
        }
        "rx_missed_errors" | "rx_fifo_errors" | "rx_over_errors" | "rx_no_dma_resources" | "port.rx_dropped" => {
            state.missed = state.missed.max(value);
        }
        _ if name.ends_with("_allowance_exceeded") => {
            state.exceeded = Some(state.exceeded.unwrap_or(0.0) + value);
        }
        _ => return true,
    }
    if let Some(exceeded) = snapshot.adapter.exceeded {
        let name = snapshot.adapter.name.clone();
        snapshot.replace_value(network::ALLOWANCE_EXCEEDED, &name, exceeded);
    }
    put_drops(snapshot);
    true
}

/// Reads `RX: bytes packets errors dropped missed mcast` of `ip -s link`, and the numbers below.
fn read_ip_numbers(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.first() == Some(&"RX:") && words.contains(&"packets") {
        snapshot.adapter.headings = words[1..].iter().map(|word| (*word).to_owned()).collect();
        return true;
    }
    let headings = std::mem::take(&mut snapshot.adapter.headings);
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if headings.is_empty() || numbers.len() != words.len() {
        return false;
    }
    let value = |name: &str| headings.iter().position(|heading| heading == name).and_then(|i| numbers.get(i).copied());
    snapshot.adapter.packets = value("packets");
    let lost = ["dropped", "missed", "overrun"];
    snapshot.adapter.dropped = lost.iter().filter_map(|name| value(name)).sum();
    put_drops(snapshot);
    true
}

/// Puts the share of packets that were dropped.
fn put_drops(snapshot: &mut Snapshot<'_, '_>) {
    let state = &snapshot.adapter;
    // drivers show the same packets under several names
    let lost = state.dropped.max(state.missed);
    if let Some(packets) = state.packets.filter(|packets| *packets >= MIN_PACKETS) {
        let (name, share) = (state.name.clone(), lost / packets);
        snapshot.replace_value(network::RECEIVED_DROP_FRACTION, &name, share);
    }
}

/// Number behind a name and a colon or blank: `dropped:3`, `dropped 3`.
fn number_after(text: &str, name: &str) -> Option<f64> {
    number_of(text.split_once(name)?.1)
}

fn number_of(text: &str) -> Option<f64> {
    text.trim_start_matches([':', ' ']).split([' ', ',']).next()?.parse().ok()
}

/// True for other lines of ifconfig and `ip`.
fn is_other_line(text: &str) -> bool {
    let starts = [
        "inet",
        "TX",
        "RX",
        "UP ",
        "ether ",
        "collisions",
        "Interrupt:",
        "link/",
        "loop ",
        "unspec",
        "valid_lft",
        "device ",
        "Memory:",
        "altname",
    ];
    starts.iter().any(|start| text.starts_with(start))
        || text.split_whitespace().all(|word| word.parse::<f64>().is_ok()) && !text.is_empty()
}
