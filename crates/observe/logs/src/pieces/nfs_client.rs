//! `nfsstat -c` (also of Solaris): calls of the client and how many were sent again. `nfsstat -s`: calls of the server.

use diskwright_base::counter_ids::{network_filesystem, nfs_server};

use super::Snapshot;

/// Smallest number of calls whose share of repeats means anything.
const MIN_CALLS: f64 = 1000.0;

/// Headings of the table that is being read.
#[derive(Default)]
pub struct NfsState {
    is_client: bool,
    is_server: bool,
    title: String,
    headings: Vec<String>,
}

/// Reads a line of nfsstat.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    if line.starts_with("Client rpc") {
        snapshot.begin_piece("nfsstat");
        snapshot.nfs = NfsState { is_client: true, ..NfsState::default() };
        return true;
    }
    if line.starts_with("Server rpc") || line.starts_with("Server nfs") || line.starts_with("Server packet") {
        if line.starts_with("Server rpc") {
            snapshot.begin_piece("nfsstat -s");
        }
        snapshot.nfs = NfsState { is_server: true, ..NfsState::default() };
        return true;
    }
    if line.starts_with("Client nfs") || line.starts_with("Server ") || line.starts_with("Client packet") {
        snapshot.nfs = NfsState::default();
        // tables of operations follow
        "operations".clone_into(&mut snapshot.nfs.title);
        return true;
    }
    if snapshot.nfs.is_server {
        return read_server(snapshot, line);
    }
    if !snapshot.nfs.is_client {
        return snapshot.nfs.title == "operations" && is_of_operations(line);
    }
    if let Some(title) = line.strip_suffix(':') {
        title.clone_into(&mut snapshot.nfs.title);
        return true;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase())) {
        snapshot.nfs.headings = words.iter().map(|word| (*word).to_owned()).collect();
        return true;
    }
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if numbers.len() != words.len() {
        return false;
    }
    let headings = std::mem::take(&mut snapshot.nfs.headings);
    let value = |wanted: &str| headings.iter().zip(&numbers).find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    if let (Some(calls), Some(repeated)) = (value("calls"), value("retrans"))
        && calls >= MIN_CALLS
    {
        let title = snapshot.nfs.title.clone();
        let share = (repeated / calls).min(1.0);
        snapshot.put_value(network_filesystem::RETRANSMISSION_FRACTION, &title, share);
        if let Some(unmatched) = value("badxids").or_else(|| value("badxid")) {
            let share = (unmatched / calls).min(1.0);
            snapshot.put_value(network_filesystem::DUPLICATE_REPLY_FRACTION, &title, share);
        }
    }
    true
}

/// True for names of operations, and for their numbers with shares behind them.
fn is_of_operations(line: &str) -> bool {
    let is_part = |word: &str| {
        let is_name = word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-') || b.is_ascii_digit());
        is_name || word.trim_end_matches('%').parse::<f64>().is_ok()
    };
    !line.is_empty() && line.split_whitespace().all(is_part)
}

/// Reads headings and numbers of the server's calls and of its operations.
fn read_server(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    if !is_of_operations(line) {
        return line.ends_with(':');
    }
    let words: Vec<&str> = line.split_whitespace().filter(|word| !word.ends_with('%')).collect();
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if numbers.len() != words.len() {
        snapshot.nfs.headings = words.iter().map(|word| (*word).to_owned()).collect();
        return true;
    }
    let headings = std::mem::take(&mut snapshot.nfs.headings);
    for (heading, number) in headings.iter().zip(numbers) {
        let counter = match heading.as_str() {
            "calls" => nfs_server::CALLS,
            "badcalls" => nfs_server::BAD_CALLS,
            "read" => nfs_server::READS,
            "write" => nfs_server::WRITES,
            "commit" => nfs_server::COMMITS,
            _ => continue,
        };
        // versions of NFS each have a table
        snapshot.add_total(counter, "", number);
    }
    true
}
