//! Clocks of processors: `cpupower frequency-info`, and the lines of /proc/cpuinfo that hold them.

use diskwright_base::counter_ids::processor;

use super::Snapshot;

/// Facts of the processor whose lines follow.
#[derive(Default)]
pub struct FrequencyState {
    processor: String,
    /// Highest clock, Hz.
    highest_hz: Option<f64>,
}

/// Reads a line.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = line.trim();
    if let Some(number) = line.strip_prefix("analyzing CPU ").and_then(|rest| rest.strip_suffix(':')) {
        if snapshot.frequency.processor.is_empty() || number == "0" {
            snapshot.begin_piece("cpupower");
        }
        snapshot.frequency.processor = format!("cpu{number}");
        snapshot.frequency.highest_hz = None;
        return true;
    }
    if snapshot.frequency.processor.is_empty() {
        return false;
    }
    if let Some(limits) = line.strip_prefix("hardware limits:") {
        snapshot.frequency.highest_hz = limits.split_once(" - ").and_then(|(_, highest)| parse_hz(highest));
        return true;
    }
    let allowed = line.split_once("frequency should be within ").and_then(|(_, range)| range.split_once(" and "));
    if let Some((_, limit)) = allowed {
        let limit = parse_hz(limit.trim_end_matches('.')).zip(snapshot.frequency.highest_hz);
        if let Some((limit, highest)) = limit.filter(|(_, highest)| *highest > 0.0) {
            let name = snapshot.frequency.processor.clone();
            snapshot.put_value(processor::FREQUENCY_LIMIT_FRACTION, &name, limit / highest);
        }
        return true;
    }
    if let Some(current) = line.strip_prefix("current CPU frequency:") {
        let shares = parse_hz(current).zip(snapshot.frequency.highest_hz);
        if let Some((current, highest)) = shares.filter(|(_, highest)| *highest > 0.0) {
            let name = snapshot.frequency.processor.clone();
            snapshot.put_value(processor::FREQUENCY_FRACTION, &name, current / highest);
        }
        return true;
    }
    let beginnings = [
        "driver:",
        "CPUs which",
        "maximum transition",
        "available",
        "within this range",
        "The governor",
        "boost state",
        "Supported:",
        "Active:",
        "perf-",
        "AMD",
        "Boost",
        "Total",
        "Pstate",
        "cpufreq stats",
    ];
    beginnings.iter().any(|beginning| line.starts_with(beginning))
}

/// Parses `2.10 GHz`, `400 MHz (asserted by call to kernel)`.
fn parse_hz(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.replace(',', ".").parse().ok()?;
    let factor = match words.next()? {
        "GHz" => 1e9,
        "MHz" => 1e6,
        "kHz" => 1e3,
        _ => return None,
    };
    Some(number * factor)
}
