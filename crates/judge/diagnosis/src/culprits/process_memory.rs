//! Peak memory of processes of one name: processes that ran one after the other are not added up.

/// Presence of a process in the tables, seconds into the window, and its memory, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessMemory {
    pub from_s: f64,
    pub to_s: f64,
    pub resident_bytes: f64,
    pub swapped_bytes: f64,
    /// What it holds, resident or not, in its first table and its last.
    pub held_first: f64,
    pub held_bytes: f64,
}

/// Sum over the processes that ran at the moment of the largest total memory.
pub(crate) fn peak_memory(processes: &[ProcessMemory]) -> ProcessMemory {
    let memory_bytes = |process: &ProcessMemory| process.resident_bytes.max(process.held_bytes) + process.swapped_bytes;
    let changes =
        |process: &ProcessMemory| [(process.to_s, -memory_bytes(process)), (process.from_s, memory_bytes(process))];
    let mut changes: Vec<(f64, f64)> = processes.iter().flat_map(changes).collect();
    // at the same moment, processes that end are subtracted before those that start are added
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut total, mut largest, mut peak_time_s) = (0.0, 0.0, 0.0);
    for (time_s, change) in changes {
        total += change;
        if total > largest {
            (largest, peak_time_s) = (total, time_s);
        }
    }
    let mut sum = ProcessMemory { from_s: peak_time_s, to_s: peak_time_s, ..ProcessMemory::default() };
    for process in processes.iter().filter(|process| process.from_s <= peak_time_s && peak_time_s < process.to_s) {
        sum.resident_bytes += process.resident_bytes;
        sum.swapped_bytes += process.swapped_bytes;
        sum.held_first += process.held_first;
        sum.held_bytes += process.held_bytes;
    }
    sum
}

#[cfg(test)]
mod tests {
    use diskwright_base::{ProcessRow, ProcessTable};

    use super::*;
    use crate::culprits::process_totals::Culprits;
    use crate::rules::Bottleneck;

    #[test]
    fn adds_up_only_processes_that_ran_at_the_same_time() {
        let one = |from_s, to_s, resident| ProcessMemory {
            from_s,
            to_s,
            resident_bytes: resident,
            ..ProcessMemory::default()
        };
        assert_eq!(peak_memory(&[one(0.0, 10.0, 5.0), one(10.0, 20.0, 7.0)]).resident_bytes, 7.0);
        assert_eq!(peak_memory(&[one(0.0, 20.0, 5.0), one(10.0, 20.0, 7.0)]).resident_bytes, 12.0);
        assert_eq!(peak_memory(&[]), ProcessMemory::default());
    }

    #[test]
    fn processes_that_come_and_go_hold_no_more_than_they_did_at_once() {
        let mut culprits = Culprits::default();
        for pid in 0..20 {
            let server = |pid: u32| ProcessRow {
                pid,
                name: "postgres".into(),
                resident_bytes: 2e6,
                blocked_share: 0.5,
                ..ProcessRow::default()
            };
            let job = ProcessRow {
                pid: 1000 + pid,
                name: "php".into(),
                resident_bytes: 50e6,
                blocked_share: if pid == 0 { 1.0 } else { 0.0 },
                major_faults_per_s: 1.0,
                ..ProcessRow::default()
            };
            let rows = vec![server(1), server(2), job];
            culprits.add_table(&ProcessTable { elapsed_s: 10.0, rows, ..ProcessTable::default() });
        }
        let named = |bottleneck: Bottleneck, name: &str| {
            let found = culprits
                .for_bottleneck(bottleneck, None, None)
                .into_iter()
                .find(|culprit| culprit.name == name)
                .unwrap();
            (found.processes, found.description)
        };
        let (processes, description) = named(Bottleneck::Memory, "php");
        assert_eq!(processes, 20);
        assert!(description.contains("47.7 MiB resident") && !description.contains("grew"), "{description}");
        // it waited for a twentieth of the window, not all of the time
        assert!(description.contains("waits for I/O for 5 % of the time"), "{description}");
        let (processes, description) = named(Bottleneck::Disk, "postgres");
        assert_eq!(processes, 2);
        assert!(description.contains("waits for I/O for 50 % of the time"), "{description}");
    }

    #[test]
    fn a_process_that_was_there_for_a_while_waits_for_a_part_of_the_time() {
        let mut culprits = Culprits::default();
        let tar = ProcessRow { pid: 7, name: "tar".into(), blocked_share: 1.0, ..ProcessRow::default() };
        for rows in [vec![tar], Vec::new(), Vec::new(), Vec::new()] {
            culprits.add_table(&ProcessTable { elapsed_s: 10.0, rows, ..ProcessTable::default() });
        }
        assert_eq!(
            culprits.for_bottleneck(Bottleneck::Disk, None, None)[0].description,
            "waits for I/O for 25 % of the time"
        );
    }
}
