//! Programs that sent requests to each device, by operation, from recorded traces; for writeback by the kernel, the
//! programs that most likely dirtied the pages.

use std::collections::{BTreeMap, HashMap};

use diskwright_base::{RequesterRow, RequesterTable};

use crate::culprits::culprit::{AttributionCertainty, OperationRequesters, RequestingProgram};

/// Largest number of different keys (device, operation, program) that are kept; later ones are ignored.
const MAX_KEYS: usize = 4096;
/// Largest number of programs named for an operation.
const MAX_NAMED_PROGRAMS: usize = 5;
/// Smallest share of an operation's time for which a program is named.
const MIN_NAMED_SHARE: f64 = 0.05;
/// Share of all dirtied bytes from which a program is likely the one whose pages are written back.
const SOLE_WRITER_SHARE: f64 = 0.9;

/// Sums over the requests of a program.
#[derive(Clone, Copy, Debug, Default)]
struct RequestSums {
    requests: u64,
    bytes: u64,
    device_s: f64,
    /// Requests sent by kernel threads.
    kernel_requests: u64,
}

/// Requests and dirtied bytes over the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requesters {
    /// By device, operation and program.
    sums: BTreeMap<(String, String, String), RequestSums>,
    /// Bytes that programs dirtied, by device and name.
    dirtied: HashMap<String, HashMap<String, f64>>,
}

impl Requesters {
    /// Adds a table of traced requests.
    pub fn add_table(&mut self, table: &RequesterTable) {
        for row in &table.rows {
            if row.operation == RequesterRow::DIRTIED {
                let dirtied = self.dirtied.entry(row.device.clone()).or_default();
                if dirtied.len() < MAX_KEYS || dirtied.contains_key(&row.name) {
                    *dirtied.entry(row.name.clone()).or_default() += row.bytes as f64;
                }
                continue;
            }
            let key = (row.device.clone(), row.operation.clone(), row.name.clone());
            if self.sums.len() >= MAX_KEYS && !self.sums.contains_key(&key) {
                continue;
            }
            let sums = self.sums.entry(key).or_default();
            sums.requests += row.requests;
            sums.bytes += row.bytes;
            sums.device_s += row.device_s;
            // a process that has ended is classified by its name
            if row.kernel.unwrap_or_else(|| is_kernel_name(&row.name)) {
                sums.kernel_requests += row.requests;
            }
        }
    }

    /// Programs that sent requests to a device, operation by operation, most time first. `dirtied` holds the bytes that
    /// programs wrote into memory or files over the same time, by name; a trace of dirtied pages of this device takes
    /// precedence.
    pub fn operations_on(&self, device: &str, dirtied: &HashMap<String, f64>) -> Vec<OperationRequesters> {
        let dirtied = self.dirtied.get(device).unwrap_or(dirtied);
        let mut operations: BTreeMap<&str, Vec<(&str, RequestSums)>> = BTreeMap::new();
        for ((known, operation, name), sums) in &self.sums {
            if known == device {
                operations.entry(operation).or_default().push((name, *sums));
            }
        }
        let mut summaries: Vec<OperationRequesters> = operations
            .into_iter()
            .map(|(operation, programs)| summarize_operation(device, operation, programs, dirtied))
            .collect();
        summaries.sort_by(|a, b| b.device_s.total_cmp(&a.device_s));
        summaries
    }

    /// Like [`Requesters::operations_on`] for a disk with several paths: a trace may have its requests only under the
    /// paths.
    pub fn operations_on_paths(
        &self,
        disk: &str,
        paths: &[String],
        dirtied: &HashMap<String, f64>,
    ) -> Vec<OperationRequesters> {
        if paths.is_empty() || self.sums.keys().any(|(device, ..)| device == disk) {
            return self.operations_on(disk, dirtied);
        }
        let mut on_disk = Requesters::default();
        for ((device, operation, name), sums) in &self.sums {
            if paths.contains(device) {
                let disk_sums = on_disk.sums.entry((disk.to_owned(), operation.clone(), name.clone())).or_default();
                disk_sums.requests += sums.requests;
                disk_sums.bytes += sums.bytes;
                disk_sums.device_s += sums.device_s;
                disk_sums.kernel_requests += sums.kernel_requests;
            }
        }
        // pages belong to the disk, whichever path they were written through
        let devices = std::iter::once(disk).chain(paths.iter().map(String::as_str));
        for (name, bytes) in devices.filter_map(|device| self.dirtied.get(device)).flatten() {
            *on_disk.dirtied.entry(disk.to_owned()).or_default().entry(name.clone()).or_default() += bytes;
        }
        on_disk.operations_on(disk, dirtied)
    }
}

/// True for names of kernel threads that write for others.
fn is_kernel_name(name: &str) -> bool {
    // arrays and loop devices: `md0_raid1`, `md_home_raid1`, `loop3`, but not a program such as mdadm
    let is_device_suffix = |c: char| c.is_ascii_digit() || c == '_';
    let is_device = |prefix: &str| name.strip_prefix(prefix).is_some_and(|suffix| suffix.starts_with(is_device_suffix));
    ["kworker", "jbd2/", "kswapd", "xfsaild", "btrfs-", "flush-", "dmcrypt"].iter().any(|p| name.starts_with(p))
        || is_device("md")
        || is_device("loop")
}

fn summarize_operation(
    device: &str,
    operation: &str,
    mut programs: Vec<(&str, RequestSums)>,
    dirtied: &HashMap<String, f64>,
) -> OperationRequesters {
    programs.sort_by(|a, b| b.1.device_s.total_cmp(&a.1.device_s).then(b.1.requests.cmp(&a.1.requests)));
    let (device_s, requests) =
        programs.iter().fold((0.0, 0), |(time, count), (_, sums)| (time + sums.device_s, count + sums.requests));
    let by_kernel: u64 = programs.iter().map(|(_, sums)| sums.kernel_requests).sum();
    let share = |sums: &RequestSums| match device_s > 0.0 {
        true => sums.device_s / device_s,
        false => sums.requests as f64 / requests.max(1) as f64,
    };
    let named = programs.iter().filter(|(_, sums)| share(sums) >= MIN_NAMED_SHARE).take(MAX_NAMED_PROGRAMS);
    let named: Vec<RequestingProgram> = named
        .map(|(name, sums)| RequestingProgram {
            name: (*name).to_owned(),
            share: share(sums),
            requests: sums.requests,
            bytes: sums.bytes,
            kernel: sums.kernel_requests * 2 > sums.requests,
        })
        .collect();
    // kernel threads read for themselves, but write pages that programs dirtied
    let is_for_others = operation.contains("write") && by_kernel * 2 > requests;
    let (dirtied_by, certainty) =
        if is_for_others { likely_writers(dirtied) } else { (Vec::new(), AttributionCertainty::Sure) };
    OperationRequesters {
        device: device.to_owned(),
        operation: operation.to_owned(),
        programs: programs.len(),
        requests,
        device_s,
        askers: named,
        dirtied_by,
        certainty,
    }
}

/// Programs whose pages are written back, and the certainty. The kernel does not record who dirtied a page: one program
/// that wrote nearly everything is likely, several are a guess by their shares.
fn likely_writers(dirtied: &HashMap<String, f64>) -> (Vec<RequestingProgram>, AttributionCertainty) {
    let total: f64 = dirtied.values().sum();
    let mut writers: Vec<(&String, f64)> =
        dirtied.iter().filter(|(name, bytes)| **bytes > 0.0 && !is_kernel_name(name)).map(|(n, b)| (n, *b)).collect();
    writers.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let Some((_, max_written)) = writers.first() else { return (Vec::new(), AttributionCertainty::Unknown) };
    let is_sole_writer = *max_written >= SOLE_WRITER_SHARE * total;
    let certainty = if is_sole_writer { AttributionCertainty::Likely } else { AttributionCertainty::Guess };
    let named = writers.iter().filter(|(_, bytes)| *bytes >= MIN_NAMED_SHARE * total).take(MAX_NAMED_PROGRAMS);
    let writer = |(name, bytes): &(&String, f64)| RequestingProgram {
        name: (*name).clone(),
        share: bytes / total,
        requests: 0,
        bytes: *bytes as u64,
        kernel: false,
    };
    (named.map(writer).collect(), certainty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: &str, name: &str, kernel: Option<bool>, requests: u64, device_s: f64) -> RequesterRow {
        RequesterRow {
            device: "sda".into(),
            operation: operation.into(),
            pid: 7,
            name: name.into(),
            kernel,
            requests,
            bytes: requests * 4096,
            device_s,
        }
    }

    fn table(rows: Vec<RequesterRow>) -> RequesterTable {
        RequesterTable { elapsed_s: 10.0, rows }
    }

    #[test]
    fn a_program_is_no_thread_of_an_array_or_a_loop_device() {
        assert!(["md0_raid1", "md_home_raid1", "loop3", "kworker/0:1"].into_iter().all(is_kernel_name));
        assert!(!["mdadm", "mdworker", "loopback"].into_iter().any(is_kernel_name));
    }

    #[test]
    fn names_the_programs_of_each_operation() {
        let mut askers = Requesters::default();
        askers.add_table(&table(vec![
            row("read", "postgres", Some(false), 100, 3.0),
            row("read", "backup", Some(false), 50, 1.0),
            row("read", "find", Some(false), 1, 0.01),
            row("sync_write", "postgres", Some(false), 10, 0.2),
        ]));
        askers.add_table(&table(vec![row("read", "postgres", None, 100, 3.0)]));
        let found = askers.operations_on("sda", &HashMap::new());
        assert_eq!(found.iter().map(|o| o.operation.as_str()).collect::<Vec<_>>(), ["read", "sync_write"]);
        let names: Vec<&str> = found[0].askers.iter().map(|a| a.name.as_str()).collect();
        assert_eq!((names, found[0].programs), (vec!["postgres", "backup"], 3));
        assert!((found[0].askers[0].share - 6.0 / 7.01).abs() < 1e-9);
        assert_eq!((found[0].certainty, found[1].askers[0].requests), (AttributionCertainty::Sure, 10));
        assert!(askers.operations_on("sdb", &HashMap::new()).is_empty());
    }

    #[test]
    fn sums_the_requesters_of_all_paths_of_a_disk() {
        let on = |device: &str, row: RequesterRow| RequesterRow { device: device.into(), ..row };
        let mut askers = Requesters::default();
        askers.add_table(&table(vec![
            on("sda", row("read", "postgres", Some(false), 100, 3.0)),
            on("sdb", row("read", "postgres", Some(false), 50, 1.0)),
            on("sdc", row("read", "backup", Some(false), 900, 9.0)),
        ]));
        let paths = ["sda".to_owned(), "sdb".to_owned()];
        let of = |askers: &Requesters| askers.operations_on_paths("dm-0", &paths, &HashMap::new());
        let found = of(&askers);
        assert_eq!((found.len(), found[0].device.as_str(), found[0].requests), (1, "dm-0", 150));
        assert_eq!((found[0].programs, found[0].askers[0].requests), (1, 150));
        // where the disk's own requests are traced, those of its paths are the same again
        askers.add_table(&table(vec![on("dm-0", row("read", "postgres", Some(false), 140, 4.0))]));
        assert_eq!(of(&askers)[0].requests, 140);
    }

    #[test]
    fn attributes_writeback_to_the_programs_that_dirtied_the_pages() {
        let mut askers = Requesters::default();
        askers.add_table(&table(vec![row("write", "kworker/u4:1", None, 500, 2.0)]));
        let of = |dirtied: &[(&str, f64)]| {
            let dirtied = dirtied.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
            let mut found = askers.operations_on("sda", &dirtied);
            assert!(found[0].askers[0].kernel);
            let found = found.remove(0);
            (found.dirtied_by.iter().map(|a| a.name.clone()).collect::<Vec<_>>().join(" "), found.certainty)
        };
        assert_eq!(of(&[("cp", 9.0e6), ("sh", 1.0e6)]), ("cp sh".into(), AttributionCertainty::Likely));
        assert_eq!(of(&[("cp", 8.9e6), ("tar", 1.1e6)]), ("cp tar".into(), AttributionCertainty::Guess));
        assert_eq!(of(&[]), (String::new(), AttributionCertainty::Unknown));
        assert_eq!(of(&[("kworker/u4:1", 5.0)]), (String::new(), AttributionCertainty::Unknown));
    }

    /// Other programs wrote more on the machine, but one program dirtied nearly all pages of this device.
    #[test]
    fn pages_that_were_traced_count_before_what_processes_wrote_anywhere() {
        let mut askers = Requesters::default();
        let rows =
            [("write", "kworker/u4:1", 500), (RequesterRow::DIRTIED, "cp", 95), (RequesterRow::DIRTIED, "sh", 5)];
        askers.add_table(&table(rows.map(|(operation, name, n)| row(operation, name, None, n, 0.0)).into()));
        let found = askers.operations_on("sda", &HashMap::from([("tar".to_owned(), 9.0e9)]));
        assert_eq!(
            (found.len(), found[0].certainty, found[0].dirtied_by[0].name.as_str()),
            (1, AttributionCertainty::Likely, "cp")
        );
        assert!((found[0].dirtied_by[0].share - 0.95).abs() < 1e-9);
    }
}
