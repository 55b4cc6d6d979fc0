//! `docker stats`, `podman stats`, `kubectl top` and `svmon -G`: processors and memory of containers and nodes.

use diskwright_base::counter_ids::{cgroup, memory, processor};

use super::Snapshot;

/// Table whose rows follow.
#[derive(Default)]
pub struct ContainerState {
    headings: Vec<String>,
    /// Nodes of this table.
    nodes: u32,
}

/// Bytes of a page of AIX.
const AIX_PAGE_BYTES: f64 = 4096.0;
/// Fewest cells of a row: its name, processors, and memory.
const MIN_CELLS: usize = 3;

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let text = line.trim();
    let is_heading = ["CONTAINER", "ID ", "NAME "].iter().any(|start| text.starts_with(start))
        && text.contains("CPU %")
        || ["NAME", "POD"].iter().any(|start| text.starts_with(start)) && text.contains("CPU(cores)");
    if is_heading {
        snapshot.begin_piece("containers");
        snapshot.containers = ContainerState { headings: split_columns(text), nodes: 0 };
        return true;
    }
    read_svmon(snapshot, text) || read_row(snapshot, text)
}

/// Splits a line where two blanks stand.
fn split_columns(text: &str) -> Vec<String> {
    text.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

/// Parses `3.91GiB`, `123.4MB`, `14123Mi`, `812kB`.
fn parse_bytes(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim_end_matches('B') {
        "" => 1.0,
        "k" | "K" => 1e3,
        "Ki" => 1024.0,
        "M" => 1e6,
        "Mi" => 1_048_576.0,
        "G" => 1e9,
        "Gi" => 1_073_741_824.0,
        "T" => 1e12,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(number * factor)
}

fn parse_percent(text: &str) -> Option<f64> {
    Some(text.strip_suffix('%')?.parse::<f64>().ok()? / 100.0)
}

/// Parses `1998m` and `2`.
fn parse_cores(text: &str) -> Option<f64> {
    match text.strip_suffix('m') {
        Some(thousandths) => Some(thousandths.parse::<f64>().ok()? / 1000.0),
        None => text.parse().ok(),
    }
}

fn read_row(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let state = &mut snapshot.containers;
    let cells = split_columns(text);
    // the last cells of a row may be cut
    let is_cut = cells.len() < state.headings.len() && cells.len() < MIN_CELLS;
    if state.headings.is_empty() || is_cut {
        return false;
    }
    let cell = |name: &str| {
        let index = state.headings.iter().position(|heading| heading == name)?;
        cells.get(index).map(String::as_str)
    };
    let memory_cell = cell("MEM USAGE / LIMIT").and_then(|usage| usage.split_once(" / "));
    let used = memory_cell.map_or_else(|| cell("MEMORY(bytes)"), |(used, _)| Some(used)).and_then(parse_bytes);
    let limit = memory_cell.and_then(|(_, limit)| parse_bytes(limit));
    let processors = cell("CPU %").and_then(parse_percent).or_else(|| cell("CPU(cores)").and_then(parse_cores));
    if processors.is_none() && used.is_none() {
        return false;
    }
    if let Some(busy) = cell("CPU%").and_then(parse_percent) {
        let memory_share = cell("MEMORY%").and_then(parse_percent);
        let name = cells[0].clone();
        state.nodes += 1;
        put_node(snapshot, &name, busy, used, memory_share);
        return true;
    }
    let name = cell("NAME").or_else(|| cell("POD")).unwrap_or(&cells[0]).to_owned();
    for (counter, value) in
        [(cgroup::PROCESSOR, processors), (cgroup::MEMORY_BYTES, used), (cgroup::MEMORY_LIMIT_BYTES, limit)]
    {
        if let Some(value) = value {
            snapshot.put_value(counter, &name, value);
        }
    }
    true
}

/// Puts a node of a cluster: a table of one is of the machine, of several only the first can be.
fn put_node(snapshot: &mut Snapshot<'_, '_>, name: &str, busy: f64, used: Option<f64>, share: Option<f64>) {
    snapshot.put_value("foreign.kubernetes.node_busy", name, busy);
    if snapshot.containers.nodes > 1 {
        return;
    }
    snapshot.topology.host = name.to_owned();
    snapshot.put_value(processor::BUSY, "_total", busy);
    if let (Some(used), Some(share)) = (used, share.filter(|share| *share > 0.0)) {
        snapshot.put_value(memory::TOTAL_BYTES, "", used / share);
        snapshot.put_value(memory::AVAILABLE_BYTES, "", (used / share - used).max(0.0));
    }
}

/// Reads the lines of `svmon -G`, in pages of 4 KiB.
fn read_svmon(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.starts_with(&["size", "inuse"]) {
        snapshot.begin_piece("svmon");
        return true;
    }
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse::<f64>().ok()).collect();
    match (&words[..], &numbers[..]) {
        (["memory", ..], [size, _, free, ..]) => {
            snapshot.put_value(memory::TOTAL_BYTES, "", size * AIX_PAGE_BYTES);
            snapshot.put_value(memory::FREE_BYTES, "", free * AIX_PAGE_BYTES);
            snapshot.topology.memory_bytes = (size * AIX_PAGE_BYTES) as u64;
        }
        (["pg", "space", ..], [size, used, ..]) => {
            snapshot.put_value(memory::SWAP_TOTAL_BYTES, "", size * AIX_PAGE_BYTES);
            snapshot.put_value(memory::SWAP_FREE_BYTES, "", (size - used).max(0.0) * AIX_PAGE_BYTES);
        }
        (["work" | "in", ..], [_, ..]) => {}
        _ => return false,
    }
    true
}
