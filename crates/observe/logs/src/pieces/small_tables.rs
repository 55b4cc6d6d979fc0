//! Tables of a few rows: `numastat`, `prstat -m` of Solaris, `ss -l` and its like.

use diskwright_base::counter_ids::{memory, network, system};

use super::Snapshot;

/// Tables whose rows follow.
#[derive(Default)]
pub struct TableState {
    /// Pages from the node that was wanted, and from another.
    numa_hits: f64,
    numa_misses: f64,
    /// Headings of prstat.
    prstat: Vec<String>,
    /// Busiest thread or process so far, processors.
    busiest: f64,
    /// Set below the headings of ss.
    is_ss: bool,
    full_queues: f64,
}

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    read_numastat(snapshot, &words) || read_prstat(snapshot, &words) || read_ss(snapshot, &words)
}

/// Reads `numa_miss  123456  2123456789`, a number for each node.
fn read_numastat(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    let is_node = |word: &&str| word.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    if !words.is_empty() && words.iter().all(is_node) {
        snapshot.begin_piece("numastat");
        snapshot.tables = TableState::default();
        return true;
    }
    let Some((name, numbers)) = words.split_first() else { return false };
    let sum = numbers.iter().map(|number| number.parse::<f64>().ok()).sum::<Option<f64>>();
    let Some(sum) = sum.filter(|_| !numbers.is_empty()) else { return false };
    match *name {
        "numa_hit" => snapshot.tables.numa_hits = sum,
        "numa_miss" => snapshot.tables.numa_misses = sum,
        "numa_foreign" | "interleave_hit" | "local_node" | "other_node" => return true,
        _ => return false,
    }
    let (hits, misses) = (snapshot.tables.numa_hits, snapshot.tables.numa_misses);
    if hits + misses > 0.0 {
        snapshot.replace_value(memory::NUMA_MISS_FRACTION, "", misses / (hits + misses));
    }
    true
}

/// Reads `1234 oracle 95 3.1 0.0 0.0 0.0 0.0 0.0 2.0 12 900 4K 0 oracle/1` below the headings of `prstat -m`.
fn read_prstat(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    if words.starts_with(&["PID", "USERNAME", "USR", "SYS"]) {
        snapshot.begin_piece("prstat");
        snapshot.tables = TableState::default();
        snapshot.tables.prstat = words.iter().map(|word| (*word).to_owned()).collect();
        return true;
    }
    if snapshot.tables.prstat.is_empty() {
        return false;
    }
    if let [.., "load", "averages:", one, five, fifteen] = words {
        let loads = [(system::LOAD_1, one), (system::LOAD_5, five), (system::LOAD_15, fifteen)];
        for (counter, word) in loads {
            if let Ok(load) = word.trim_end_matches(',').parse::<f64>() {
                snapshot.replace_value(counter, "", load);
            }
        }
        return true;
    }
    let headings = snapshot.tables.prstat.clone();
    let share = |name: &str| {
        let index = headings.iter().position(|heading| heading == name)?;
        words.get(index)?.parse::<f64>().ok()
    };
    let (Some(user), Some(system_share)) = (share("USR"), share("SYS")) else { return false };
    let busy = (user + system_share) / 100.0;
    snapshot.tables.busiest = snapshot.tables.busiest.max(busy);
    // shares of -m are of one thread, or the mean of a process's threads
    let busiest = snapshot.tables.busiest;
    snapshot.replace_value(system::BUSIEST_PROCESS, "", busiest);
    true
}

/// Reads `LISTEN 129 128 0.0.0.0:80 0.0.0.0:*` of `ss -l`: connections that wait, and how many may.
fn read_ss(snapshot: &mut Snapshot<'_, '_>, words: &[&str]) -> bool {
    if words.contains(&"Recv-Q") && words.contains(&"Send-Q") && words.contains(&"State") {
        snapshot.begin_piece("ss");
        snapshot.tables = TableState { is_ss: true, ..TableState::default() };
        return true;
    }
    let Some(state) = words.iter().position(|word| *word == "LISTEN").filter(|_| snapshot.tables.is_ss) else {
        let is_other = words.iter().any(|word| matches!(*word, "ESTAB" | "UNCONN" | "TIME-WAIT" | "CLOSE-WAIT"));
        return snapshot.tables.is_ss && is_other;
    };
    let number = |index: usize| words.get(index)?.parse::<f64>().ok();
    let (Some(waiting), Some(room)) = (number(state + 1), number(state + 2)) else { return false };
    if room > 0.0 && waiting >= room {
        snapshot.tables.full_queues += 1.0;
        let socket = words.get(state + 3).copied().unwrap_or("a socket");
        snapshot.push_warning(format!("{socket}: {waiting} connections wait to be accepted, as many as may ({room})"));
    }
    let full = snapshot.tables.full_queues;
    snapshot.replace_value(network::FULL_LISTEN_QUEUES, "TCP", full);
    true
}
