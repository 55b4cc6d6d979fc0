//! Prometheus metric and label names of our counters: one place for every command
//! that writes them or reads them back.

use crate::catalogue::{Counter, CounterKind};

/// Name of a counter's metric: `diskwright_`, the object, the counter, its unit
/// spelt out, and `_total` where it only grows.
///
/// ```
/// use diskwright_base::{Catalogue, prometheus_names::metric_name};
/// let name = |id| metric_name(Catalogue::builtin().get(id).unwrap());
/// assert_eq!(name("physical_disk.read_time_s"), "diskwright_physical_disk_read_time_seconds_total");
/// assert_eq!(name("physical_disk.stalled"), "diskwright_physical_disk_stalled_ratio");
/// assert_eq!(name("memory.total_bytes"), "diskwright_memory_size_bytes");
/// ```
pub fn metric_name(counter: &Counter) -> String {
    let (object, name) = counter.id.split_once('.').unwrap_or(("", &counter.id));
    let mut name = name.to_owned();
    // true if the name had the suffix
    let replace_suffix = |text: &mut String, suffix: &str, with: &str| {
        if let Some(stem) = text.strip_suffix(suffix) {
            *text = format!("{stem}{with}");
            true
        } else {
            false
        }
    };
    match counter.unit.as_str() {
        "s" => {
            let is_replaced = replace_suffix(&mut name, "_s", "_seconds");
            if !is_replaced {
                name = name.replace("_s_per_", "_seconds_per_").replace("avg_s_", "avg_seconds_");
            }
        }
        "per_s" | "bytes_per_s" | "pages_per_s" => _ = replace_suffix(&mut name, "_per_s", "_per_second"),
        "fraction" => {
            let is_replaced = replace_suffix(&mut name, "_fraction", "_ratio");
            if !is_replaced {
                name.push_str("_ratio");
            }
        }
        _ => {}
    }
    // in Prometheus, `total` is reserved for values that only grow
    replace_suffix(&mut name, "total_bytes", "size_bytes");
    let ending = if counter.kind == CounterKind::Total { "_total" } else { "" };
    if ending.is_empty() || name == "total" {
        replace_suffix(&mut name, "total", "all");
    }
    format!("diskwright_{object}_{name}{ending}")
}

/// The label that names a counter's instance. It is never `instance`: in Prometheus
/// that is the scraped machine, and a scraper overwrites it.
pub fn label_name(object: &str) -> &'static str {
    match object {
        "physical_disk" | "array" | "channel" | "controller" | "network" => "device",
        "logical_disk" | "network_filesystem" => "mountpoint",
        "processor" | "interrupts" => "cpu",
        "cgroup" => "cgroup",
        "process" => "process",
        _ => "name",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Catalogue;

    #[test]
    fn every_counter_has_a_unique_valid_prometheus_name() {
        let mut seen = HashSet::new();
        for counter in Catalogue::builtin().counters() {
            let name = metric_name(counter);
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), counter.kind == CounterKind::Total, "{name}");
            assert!(seen.insert(name.clone()), "{name} twice");
        }
    }
}
