//! /proc/self/mountstats: totals of each NFS mount since it was mounted. A single dump gives means over that time, two
//! give what happened in between.

use diskwright_base::counter_ids::network_filesystem as nfs;

use super::Snapshot;

/// Mount whose lines follow.
#[derive(Default)]
pub struct NfsMountState {
    mount: String,
}

/// Lines of a mount that hold no number that is read.
const OTHER_LINES: [&str; 9] =
    ["opts:", "caps:", "nfsv4:", "sec:", "impl_id:", "RPC iostats", "per-op", "lease", "fsc:"];

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    if let Some(rest) = text.strip_prefix("device ") {
        let mount = rest.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype "));
        let Some((mount, kind)) = mount else { return rest.contains(" mounted on ") };
        snapshot.nfs_mounts.mount.clear();
        if kind.starts_with("nfs") && !kind.starts_with("nfsd") {
            snapshot.begin_piece(&format!("mountstats {mount}"));
            mount.clone_into(&mut snapshot.nfs_mounts.mount);
        }
        return true;
    }
    if snapshot.nfs_mounts.mount.is_empty() {
        return false;
    }
    let Some((name, rest)) = text.split_once(':') else { return text.starts_with("per-op") };
    let numbers: Vec<f64> = rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let mount = snapshot.nfs_mounts.mount.clone();
    match (name, &numbers[..]) {
        ("age", [seconds, ..]) => snapshot.age_s = Some(snapshot.age_s.map_or(*seconds, |age: f64| age.max(*seconds))),
        ("events", [..]) => {}
        ("bytes", [read, written, ..]) => {
            snapshot.put_total(nfs::APPLICATION_READ_BYTES, &mount, *read);
            snapshot.put_total(nfs::APPLICATION_WRITE_BYTES, &mount, *written);
            if let [_, _, _, _, read, written, ..] = numbers[..] {
                snapshot.put_total(nfs::READ_BYTES, &mount, read);
                snapshot.put_total(nfs::WRITE_BYTES, &mount, written);
            }
        }
        ("xprt", _) => read_transport(snapshot, &mount, rest),
        (_, [operations, sent, timeouts, _, _, queue, round_trip, execution, ..]) => {
            read_operation(snapshot, &mount, name, [*operations, *sent, *timeouts, *queue, *round_trip, *execution]);
        }
        _ => return OTHER_LINES.iter().any(|start| text.starts_with(start)),
    }
    true
}

/// Reads `tcp 812 1 2 0 12 sends replies bad …`, `udp 900 1 sends replies bad …`.
fn read_transport(snapshot: &mut Snapshot<'_, '_>, mount: &str, rest: &str) {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let first = match words.first() {
        Some(&"tcp") => 6,
        Some(&"udp") => 3,
        _ => return,
    };
    let number = |index: usize| words.get(first + index).and_then(|word| word.parse::<f64>().ok());
    // sends, answers, bad answers, slots in use added up, requests that waited for one added up
    for (counter, index) in [(nfs::SENDS, 0), (nfs::REPLIES, 1), (nfs::BAD_REPLIES, 2), (nfs::BACKLOG, 4)] {
        if let Some(total) = number(index) {
            snapshot.add_total(counter, mount, total);
        }
    }
}

/// Reads an operation's number, times sent, timeouts, and milliseconds in the queue, on the way and in all.
fn read_operation(snapshot: &mut Snapshot<'_, '_>, mount: &str, name: &str, numbers: [f64; 6]) {
    let class = match name {
        "READ" | "READ_PLUS" => "read",
        "WRITE" => "write",
        "COMMIT" => "commit",
        _ => "metadata",
    };
    let count = if class == "metadata" { "metadata_operations".to_owned() } else { format!("{class}s") };
    let [operations, sent, timeouts, queue_ms, round_trip_ms, execution_ms] = numbers;
    for (counter, total) in [
        (count, operations),
        (format!("{class}_retransmissions"), (sent - operations).max(0.0)),
        (format!("{class}_queue_s"), queue_ms * 1e-3),
        (format!("{class}_round_trip_s"), round_trip_ms * 1e-3),
        (format!("{class}_execution_s"), execution_ms * 1e-3),
    ] {
        snapshot.add_total(&format!("network_filesystem.{counter}"), mount, total);
    }
    snapshot.add_total(nfs::MAJOR_TIMEOUTS, mount, timeouts);
}
