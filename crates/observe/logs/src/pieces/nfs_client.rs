//! `nfsstat -c` (also of Solaris): calls of the client and how many were sent again.

use diskwright_base::counter_ids::network_filesystem;

use super::Snapshot;

/// Smallest number of calls whose share of repeats means anything.
const MIN_CALLS: f64 = 1000.0;

/// Headings of the table that is being read.
#[derive(Default)]
pub struct NfsState {
    is_client: bool,
    title: String,
    headings: Vec<String>,
}

/// Reads a line of nfsstat.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    if line.starts_with("Client rpc") {
        snapshot.begin_piece("nfsstat");
        snapshot.nfs.is_client = true;
        return true;
    }
    if line.starts_with("Client nfs") || line.starts_with("Server ") {
        snapshot.nfs.is_client = false;
        return true;
    }
    if !snapshot.nfs.is_client {
        return false;
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
