//! Round values for an axis, and the words for units and counters.

use diskwright_base::byte_size::{ByteSize, CAPACITY_UNIT};
use diskwright_base::counter_ids::system;
use diskwright_base::units;

/// Round values from `low` to at least `high`, in steps of 1, 2, 2.5 or 5
/// times a power of ten; at most about `max_count` of them, never fewer than two.
/// The first is at or below `low`, the last at or above `high`.
pub fn round_values(low: f64, high: f64, max_count: usize) -> Vec<f64> {
    let (low, high) = if high > low { (low, high) } else { (low, low + 1.0) };
    let min_step = (high - low) / (max_count.max(2) - 1) as f64;
    let power = 10f64.powf(min_step.log10().floor());
    // steps of 2.5 go with tens and hundreds, not with single requests
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0];
    let has_few_values = |step: f64| {
        let count = (high / step - 1e-9).ceil() - (low / step + 1e-9).floor();
        count <= (max_count.max(2) - 1) as f64
    };
    let step = steps.iter().map(|s| s * power).find(|&s| has_few_values(s)).unwrap_or(20.0 * power);
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil();
    (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect()
}

/// Returns the axis for values between `low` and `high`. It starts at zero
/// unless values are below zero. An axis of fractions ends at 1 if `high` is
/// above one half and at most 1.
pub fn value_axis(low: f64, high: f64, unit: &str, max_count: usize) -> Vec<f64> {
    let low = low.min(0.0);
    if unit == "fraction" && low == 0.0 && high > 0.5 && high <= 1.0 {
        let step = if max_count >= 5 { 0.25 } else { 0.5 };
        return (0..=(1.0 / step) as usize).map(|i| i as f64 * step).collect();
    }
    let high = if high > low { high } else { low + 1.0 };
    if unit == "bytes" {
        // round in KiB or MiB
        let scale = high / ByteSize::memory(high).scale().0;
        return round_values(low / scale, high / scale, max_count).into_iter().map(|value| value * scale).collect();
    }
    let mut values = round_values(low, high, max_count);
    if unit == "fraction" && high <= 1.0 {
        values.retain(|v| *v <= 1.0 + 1e-9);
    }
    values
}

/// Formats a value beside an axis: with its unit if that is short, as a bare
/// number otherwise.
pub fn axis_label(value: f64, unit: &str) -> String {
    // adding up steps leaves a rounding error at zero
    let value = if value.abs() < 1e-12 { 0.0 } else { value };
    match unit {
        _ if value == 0.0 => "0".into(),
        "s" | "bytes" | CAPACITY_UNIT | "bytes_per_s" | "fraction" => units::format_value(value, unit),
        "per_s" | "count" => units::format_value(value, "per_s").trim_end_matches("/s").trim_end().to_owned(),
        _ => units::format_significant(value),
    }
}

/// Spells a unit out in words, to stand beside a title.
pub fn unit_words(unit: &str) -> String {
    match unit {
        "s" => "seconds".into(),
        "per_s" => "per second".into(),
        "bytes_per_s" => "bytes per second".into(),
        "fraction" => "share".into(),
        CAPACITY_UNIT => "bytes".into(),
        "" => "number".into(),
        other => other.replace("_per_s", " per second").replace('_', " "),
    }
}

/// Returns the unit in words to stand beside a title, or nothing if the title
/// or the labels of the axis already carry it.
pub fn unit_caption(unit: &str, title: &str) -> String {
    let words = unit_words(unit);
    match unit {
        "s" | "bytes" | CAPACITY_UNIT | "bytes_per_s" | "fraction" => String::new(),
        "count" | "" => String::new(),
        _ if title.ends_with(&words) => String::new(),
        _ => words,
    }
}

/// Returns a counter with its object, for a title: `sda: average queue length`
/// for one instance, `physical disk: average queue length` for several.
pub fn counter_title(id: &str, instances: &[&str]) -> String {
    let object = id.split_once('.').map_or("", |(object, _)| object);
    match instances {
        [instance] if !instance.is_empty() && *instance != "_total" => format!("{instance}: {}", counter_words(id)),
        _ if object == "pressure" || SPELLED_OUT_COUNTERS.iter().any(|(known, _)| *known == id) => counter_words(id),
        _ => format!("{}: {}", object.replace('_', " "), counter_words(id)),
    }
}

/// Counters whose ids do not say enough, with the words for them.
const SPELLED_OUT_COUNTERS: &[(&str, &str)] =
    &[(system::RUNNING, "tasks running or waiting for a processor"), (system::BLOCKED, "tasks blocked by I/O")];

/// Puts a counter's id in words: `physical_disk.avg_s_per_transfer` becomes
/// `time per transfer`, `paging.pages_per_s` becomes `pages per second`.
pub fn counter_words(id: &str) -> String {
    if let Some((_, words)) = SPELLED_OUT_COUNTERS.iter().find(|(known, _)| *known == id) {
        return (*words).to_owned();
    }
    let (object, name) = id.split_once('.').unwrap_or(("", id));
    let resource_words =
        |resource: &str| resource.replace("io", "I/O").replace("cpu", "a processor").replace("irq", "interrupts");
    if object == "pressure" || object == "cgroup" {
        let stalled = name.trim_end_matches("_s");
        if let Some(resource) = stalled.strip_suffix("_some") {
            return format!("some tasks waiting for {}", resource_words(resource));
        }
        if let Some(resource) = stalled.strip_suffix("_full") {
            return format!("all tasks waiting for {}", resource_words(resource));
        }
    }
    let name = name.replace("avg_s_per_", "time_per_").replace("avg_bytes_per_", "bytes_per_");
    let name = match name.strip_suffix("_per_s") {
        Some(rate) => format!("{rate}_per_second"),
        None => name,
    };
    let known: &[(&str, &str)] = &[
        ("avg", "average"),
        ("nt", "(NT's, capped)"),
        ("inodes", "file entries"),
        ("io", "I/O"),
        ("cpu", "CPU"),
        ("anon", "anonymous"),
        ("oom", "out-of-memory"),
    ];
    let word = |w: &str| known.iter().find(|(k, _)| *k == w).map_or(w, |(_, words)| words).to_owned();
    let name = name.trim_end_matches("_s").trim_end_matches("_fraction");
    let words: Vec<String> = name.split('_').map(word).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_values_are_round_and_enclose_the_data() {
        assert_eq!(round_values(0.0, 6.2, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(round_values(0.0, 100.0, 5), [0.0, 25.0, 50.0, 75.0, 100.0]);
        for high in [1e-7, 0.013, 0.7, 1.0, 3.3, 99.0, 101.0, 7.7e9] {
            for max_count in 2..9 {
                let values = round_values(0.0, high, max_count);
                assert!(values.len() >= 2 && values.len() <= max_count.max(2), "{high} {max_count}: {values:?}");
                assert!(values[0] <= 0.0 && *values.last().unwrap() >= high * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn a_fraction_axis_ends_at_one() {
        assert_eq!(value_axis(0.0, 0.93, "fraction", 5), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert!(value_axis(0.0, 0.04, "fraction", 5).last().unwrap() <= &0.05);
        assert_eq!(value_axis(0.0, 0.0, "s", 3), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn labels_carry_short_units() {
        assert_eq!(axis_label(2e7, "bytes_per_s"), "20 MB/s");
        let sizes = value_axis(0.0, 3.1e9, "bytes", 5);
        let labels: Vec<String> = sizes.iter().map(|size| axis_label(*size, "bytes")).collect();
        assert_eq!(labels, ["0", "1 GiB", "2 GiB", "3 GiB"]);
        assert_eq!(axis_label(36e9, CAPACITY_UNIT), "36 GB");
        assert_eq!(axis_label(0.0, "bytes_per_s"), "0");
        assert_eq!(axis_label(0.25, "fraction"), "25 %");
        assert_eq!(axis_label(2.0, "requests"), "2");
        assert_eq!(axis_label(2500.0, "per_s"), "2.5 k");
    }

    #[test]
    fn puts_counters_in_words() {
        assert_eq!(counter_words("physical_disk.avg_s_per_transfer"), "time per transfer");
        assert_eq!(counter_words("physical_disk.avg_queue_length"), "average queue length");
        assert_eq!(counter_words("physical_disk.read_bytes_per_s"), "read bytes per second");
        assert_eq!(counter_words("pressure.io_full"), "all tasks waiting for I/O");
        assert_eq!(counter_title("processor.busy", &[""]), "processor: busy");
        assert_eq!(counter_title("processor.busy", &["cpu0"]), "cpu0: busy");
        assert_eq!(unit_caption("per_s", "transfers per second"), "");
        assert_eq!(counter_words("memory.available_fraction"), "available");
        assert_eq!(counter_title("memory.available_fraction", &["_total"]), "memory: available");
    }
}
