//! Headings of a section, parsed into a plan for its rows.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::tool::cells::CellPlan;
use crate::tool::tick_row::TickRow;
use crate::tool::tool_names::{ColumnTarget, ToolNames};
use diskwright_base::counter_ids::{logical_disk, network, physical_disk};
use diskwright_base::diskstats::disk_of_partition;

fn tool_names() -> &'static ToolNames {
    static NAMES: OnceLock<ToolNames> = OnceLock::new();
    NAMES.get_or_init(|| ToolNames::builtin(include_str!("names.toml")))
}

/// Sections whose columns are instances: counter, factor, and whether the value is the rest to 100.
const BY_INSTANCE: [(&str, &str, f64, bool); 13] = [
    ("DISKBUSY", physical_disk::BUSY, 0.01, false),
    ("DISKREAD", physical_disk::READ_BYTES_PER_S, 1024.0, false),
    ("DISKWRITE", physical_disk::WRITE_BYTES_PER_S, 1024.0, false),
    ("DISKXFER", physical_disk::TRANSFERS_PER_S, 1.0, false),
    ("DISKRXFER", physical_disk::READS_PER_S, 1.0, false),
    ("DISKRIO", physical_disk::READS_PER_S, 1.0, false),
    ("DISKWIO", physical_disk::WRITES_PER_S, 1.0, false),
    ("DISKBSIZE", physical_disk::AVG_BYTES_PER_TRANSFER, 1024.0, false),
    // AIX counts the wait in the driver's queue and the service time separately
    ("DISKSERV", SERVICE, 0.001, false),
    ("DISKWAIT", WAIT, 0.001, false),
    ("JFSFILE", logical_disk::FREE_FRACTION, 0.01, true),
    ("JFSINODE", logical_disk::INODES_FREE_FRACTION, 0.01, true),
    ("DISKINFLIGHT", physical_disk::CURRENT_QUEUE_LENGTH, 1.0, false),
];
const SERVICE: &str = "foreign.DISKSERV";
const WAIT: &str = "foreign.DISKWAIT";

/// Subtrees of the root filesystem that are not on a disk.
const NO_DISK: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Plan for the cells of a section.
#[derive(Clone, Debug, Default)]
pub struct NmonSection {
    /// Plan of all cells; the section's name and the tick number, which come first, are left out.
    pub plan: Vec<CellPlan>,
    /// The heading with an empty description, if it may have come without one: rows then have a cell more.
    pub undescribed: Option<Vec<String>>,
}

/// Returns a section's name without the number of its part (`DISKBUSY1`): a line of AIX and Linux holds at most 150
/// disks.
fn section_family(tag: &str) -> &str {
    if tag.starts_with("DISK") { tag.trim_end_matches(|c: char| c.is_ascii_digit()) } else { tag }
}

/// Converts `CPU001` or `CPU01` to `cpu0`.
fn processor_instance(tag: &str) -> Option<String> {
    let number: u32 = tag.strip_prefix("CPU").filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
    Some(format!("cpu{}", number.checked_sub(1)?))
}

/// Strips one of these endings off a name; `None` if it has none of them.
fn strip_ending<'n>(name: &'n str, endings: &[&str]) -> Option<&'n str> {
    endings.iter().find_map(|ending| name.strip_suffix(ending)).filter(|n| !n.is_empty())
}

fn find_target(tag: &str, name: &str) -> ColumnTarget {
    let new_target = |counter: &str, instance: &str, scale: f64, is_rest: bool| ColumnTarget {
        counter: counter.to_owned(),
        instance: instance.to_owned(),
        scale,
        is_rest,
    };
    let family = section_family(tag);
    if let Some((_, counter, scale, is_rest)) = BY_INSTANCE.into_iter().find(|(known, ..)| *known == family) {
        return new_target(counter, name, scale, is_rest);
    }
    let (reads, writes) = (["-read-KB/s", "-read/s", "-reads/s"], ["-write-KB/s", "-write/s", "-writes/s"]);
    let found = match family {
        "NET" => strip_ending(name, &reads[..1])
            .map(|interface| new_target(network::RECEIVED_BYTES_PER_S, interface, 1024.0, false))
            .or_else(|| {
                strip_ending(name, &writes[..1])
                    .map(|interface| new_target(network::SENT_BYTES_PER_S, interface, 1024.0, false))
            }),
        "NETPACKET" => strip_ending(name, &reads[1..])
            .map(|interface| new_target(network::RECEIVED_PACKETS_PER_S, interface, 1.0, false))
            .or_else(|| {
                strip_ending(name, &writes[1..])
                    .map(|interface| new_target(network::SENT_PACKETS_PER_S, interface, 1.0, false))
            }),
        _ if family.starts_with("DISK") => Some(new_target(&format!("foreign.{family}"), name, 1.0, false)),
        _ => processor_instance(tag).map(|cpu| tool_names().find_target(&cpu, name)),
    };
    found.unwrap_or_else(|| tool_names().find_target(tag, name))
}

impl NmonSection {
    /// Parses a heading's cells: the section, its title, its columns.
    pub fn from_heading(cells: &[String], row: &mut TickRow) -> NmonSection {
        let tag = cells[0].as_str();
        let columns: Vec<&str> = cells.iter().skip(2).map(|c| c.trim()).collect();
        let disks: HashSet<&str> = columns.iter().copied().collect();
        let mut used = HashSet::new();
        let mut plan = vec![CellPlan::Skip; 2];
        for name in &columns {
            let is_file = tag.starts_with("JFS");
            let is_no_disk = |root: &str| *name == root || name.starts_with(&format!("{root}/"));
            if name.is_empty() || is_file && NO_DISK.iter().any(|root| is_no_disk(root)) {
                plan.push(CellPlan::Skip);
                continue;
            }
            let mut target = find_target(tag, name);
            // the disk may be the last one of the section's previous part (`DISKBUSY` before `DISKBUSY1`)
            let is_disk_known =
                |disk: String| disks.contains(disk.as_str()) || row.find_column(&target.counter, &disk).is_some();
            if !is_file && disk_of_partition(name).is_some_and(is_disk_known) {
                target = target.into_partition();
            }
            let column = row.target_column(&target).filter(|column| used.insert(*column));
            plan.push(CellPlan::for_column(column, target.is_rest));
        }
        if matches!(section_family(tag), "DISKSERV" | "DISKWAIT") {
            columns.iter().for_each(|disk| add_response_time(disk, row));
        }
        // descriptions are words: `Disk %Busy db1`
        let may_lack_description = |second: &&String| !second.is_empty() && !second.trim().contains(' ');
        let undescribed = cells.get(1).filter(may_lack_description).map(|_| {
            let described = [cells[0].clone(), String::new()];
            described.into_iter().chain(cells[1..].iter().cloned()).collect()
        });
        NmonSection { plan, undescribed }
    }
}

/// Adds the time that a transfer takes including its wait: the sum of wait and service time.
fn add_response_time(disk: &str, row: &mut TickRow) {
    if let (Some(service), Some(wait)) = (row.find_column(SERVICE, disk), row.find_column(WAIT, disk)) {
        row.add_sum_column(physical_disk::AVG_S_PER_TRANSFER, disk, 0.001, &[service, wait]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_linux_and_aix() {
        let find = |tag: &str, name: &str| {
            let found = find_target(tag, name);
            (found.counter, found.instance, found.scale)
        };
        for (tag, name, counter, instance, times) in [
            ("DISKBUSY", "hdisk0", "physical_disk.busy", "hdisk0", 0.01),
            ("DISKREAD12", "hdisk1800", "physical_disk.read_bytes_per_s", "hdisk1800", 1024.0),
            ("DISKREADSERV", "hdisk0", "foreign.DISKREADSERV", "hdisk0", 1.0),
            ("CPU001", "User%", "processor.user", "cpu0", 0.01),
            ("CPU16", "Idle%", "processor.idle", "cpu15", 0.01),
            ("CPU_ALL", "Sys%", "processor.privileged", "_total", 0.01),
            ("PCPU01", "User", "foreign.PCPU01.User", "", 1.0),
            ("NET", "en0-read-KB/s", "network.received_bytes_per_s", "en0", 1024.0),
            ("NETPACKET", "en0-writes/s", "network.sent_packets_per_s", "en0", 1.0),
            ("NETPACKET", "lo-read/s", "network.received_packets_per_s", "lo", 1.0),
            ("MEM", "Real free(MB)", "memory.free_bytes", "", 1_048_576.0),
            ("LPAR", "PhysicalCPU", "foreign.LPAR.PhysicalCPU", "", 1.0),
        ] {
            assert_eq!(find(tag, name), (counter.into(), instance.into(), times), "{tag} {name}");
        }
    }
}
