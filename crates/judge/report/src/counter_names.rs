//! Short names of counters for the columns of a table: `queue length`, `read latency`. The unit stands with the values
//! and the object in the column beside, so the name repeats neither.

use diskwright_base::counter_ids::{memory, network, physical_disk, processor, system};

/// Names that no rule gives.
const NAMES: &[(&str, &str)] = &[
    (physical_disk::AVG_S_PER_TRANSFER, "latency"),
    (physical_disk::AVG_BYTES_PER_TRANSFER, "request size"),
    (physical_disk::BYTES_PER_S, "throughput"),
    (physical_disk::DISK_TIME_NT, "NT disk time"),
    (physical_disk::DISK_READ_TIME_NT, "NT read time"),
    (physical_disk::DISK_WRITE_TIME_NT, "NT write time"),
    (network::BYTES_PER_S, "network traffic"),
    (network::RECEIVED_BYTES_PER_S, "network received"),
    (network::SENT_BYTES_PER_S, "network sent"),
    (memory::AVAILABLE_FRACTION, "available memory"),
    (memory::AVAILABLE_BYTES, "available bytes"),
    (processor::BUSY, "processor busy"),
    (processor::IOWAIT, "I/O wait"),
    (system::RUNNING, "runnable tasks"),
    (system::BLOCKED, "blocked tasks"),
];

/// Objects whose name is left out: the instance beside it says what it is, or the words are clear without it.
const UNNAMED_OBJECTS: &[&str] = &["physical_disk", "logical_disk", "network_filesystem", "array", "paging", "system"];

/// Returns a short name of a counter: two or three words, no unit.
pub fn short_counter_name(id: &str) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == id) {
        return (*name).to_owned();
    }
    let (object, counter) = id.split_once('.').unwrap_or(("", id));
    if let Some(name) = pressure_name(counter) {
        return if object == "cgroup" { format!("cgroup {name}") } else { name };
    }
    let counter = counter.strip_suffix("_per_s").unwrap_or(counter);
    let name = if let Some(operation) = counter.strip_prefix("avg_s_per_") {
        format!("{} latency", request_word(operation)).trim_start().to_owned()
    } else if let Some(operation) = counter.strip_prefix("avg_bytes_per_") {
        format!("{} size", if operation == "transfer" { "request" } else { operation })
    } else {
        let counter = counter.strip_prefix("avg_").unwrap_or(counter);
        let counter = counter.strip_suffix("_s").unwrap_or(counter);
        if counter == "transfers" { "requests".to_owned() } else { counter.replace('_', " ") }
    };
    match object {
        "" => name,
        _ if UNNAMED_OBJECTS.contains(&object) => name,
        _ => format!("{} {name}", object.replace('_', " ")),
    }
}

/// `I/O pressure` for `io_some`, `I/O pressure (all)` for `io_full`.
fn pressure_name(counter: &str) -> Option<String> {
    let stalled = counter.strip_suffix("_s").unwrap_or(counter);
    let (resource, all) = match stalled.strip_suffix("_some") {
        Some(resource) => (resource, ""),
        None => (stalled.strip_suffix("_full")?, " (all)"),
    };
    let resource = match resource {
        "io" => "I/O",
        "irq" => "interrupt",
        resource => resource,
    };
    Some(format!("{resource} pressure{all}"))
}

/// A transfer needs no word: each request is one.
fn request_word(operation: &str) -> &str {
    if operation == "transfer" { "" } else { operation }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use diskwright_base::{Catalogue, CounterKind};

    use super::*;

    #[test]
    fn names_are_short_and_without_units() {
        for (id, name) in [
            ("physical_disk.avg_queue_length", "queue length"),
            ("physical_disk.avg_s_per_read", "read latency"),
            ("physical_disk.avg_s_per_transfer", "latency"),
            ("physical_disk.transfers_per_s", "requests"),
            ("physical_disk.read_bytes_per_s", "read bytes"),
            ("physical_disk.avg_bytes_per_write", "write size"),
            ("paging.swap_in_pages_per_s", "swap in pages"),
            ("processor.user", "processor user"),
            ("pressure.io_some", "I/O pressure"),
            ("pressure.memory_full", "memory pressure (all)"),
            ("cgroup.cpu_some", "cgroup cpu pressure"),
            ("own.thing", "own thing"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(short_counter_name(id), name, "{id}");
        }
    }

    #[test]
    fn two_counters_of_an_object_never_share_a_name() {
        let mut known: HashMap<(&str, String), &str> = HashMap::new();
        for counter in Catalogue::builtin().counters().iter().filter(|c| c.kind != CounterKind::Total) {
            let key = (counter.object_name(), short_counter_name(&counter.id));
            if let Some(other) = known.insert(key.clone(), &counter.id) {
                panic!("{other} and {} are both `{}`", counter.id, key.1);
            }
        }
    }
}
