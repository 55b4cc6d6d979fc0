//! Compares a load with the ceiling that a probe measured for its device.

use diskwright_base::units::{format_significant, format_value};
use diskwright_base::{Ceiling, DeviceClass};

use crate::rules::pseudo_counters::Pseudo;
use crate::rules::rule::{Absent, Rule};

/// Largest share of a load that may have an unmeasured kind of request.
const NEGLIGIBLE_SHARE: f64 = 0.1;
/// Share of the ceiling from which a device counts as saturated, however many unmeasured requests it had.
const SATURATED_SHARE: f64 = 0.9;
/// Multiple of a rotational disk's ceiling of random requests that only sequential requests exceed.
const SEQUENTIAL_FACTOR: f64 = 1.15;
/// Size of the requests whose standalone latency is measured, bytes.
const LATENCY_REQUEST_BYTES: f64 = 4096.0;

/// Load of a device in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceLoad {
    /// Reads per second.
    pub reads_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// Bytes read per second.
    pub read_bytes_per_s: f64,
    /// Bytes written per second.
    pub write_bytes_per_s: f64,
}

/// A device's measured ceilings; `None` for those that were not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DeviceCeiling {
    /// Per second, as the three that follow.
    reads: Option<f64>,
    writes: Option<f64>,
    read_bytes: Option<f64>,
    write_bytes: Option<f64>,
    /// Standalone latency of a request.
    read_s: Option<f64>,
    write_s: Option<f64>,
    is_rotational: bool,
}

/// Sum over reads and writes, and true where both are known.
fn sum_known(reads: Option<f64>, writes: Option<f64>) -> (f64, bool) {
    (reads.unwrap_or(0.0) + writes.unwrap_or(0.0), reads.is_some() && writes.is_some())
}

/// Amount divided by its ceiling. Without a ceiling, a negligible amount counts as 0; any other is `None`.
fn ceiling_share(amount: f64, total: f64, ceiling: Option<f64>) -> Option<f64> {
    match ceiling {
        Some(ceiling) => Some(amount / ceiling),
        None => (amount <= NEGLIGIBLE_SHARE * total).then_some(0.0),
    }
}

impl DeviceCeiling {
    /// Ceilings of a device of this class.
    pub fn for_device(ceiling: &Ceiling, class: DeviceClass) -> DeviceCeiling {
        DeviceCeiling {
            reads: ceiling.reads_per_s,
            writes: ceiling.writes_per_s,
            read_bytes: ceiling.read_bytes_per_s,
            write_bytes: ceiling.write_bytes_per_s,
            read_s: ceiling.read_s,
            write_s: ceiling.write_s,
            is_rotational: class == DeviceClass::Rotational,
        }
    }

    /// Share of the ceiling of requests, and true where both reads and writes were measured.
    ///
    /// By the utilization law (Denning and Buzen, "The Operational Analysis of Queueing Network Models", 1978), the
    /// utilization of a device is the sum of throughput times demand over the classes of requests. A device with a
    /// ceiling of `m` requests per second of a class spends `1 / m` seconds on each, so reads and writes together use
    /// `r / r_max + w / w_max` of it.
    fn request_share(&self, load: &DeviceLoad) -> (f64, bool) {
        let total = load.reads_per_s + load.writes_per_s;
        sum_known(
            ceiling_share(load.reads_per_s, total, self.reads),
            ceiling_share(load.writes_per_s, total, self.writes),
        )
    }

    /// Share of the ceiling of bytes, and true where both reads and writes were measured.
    fn byte_share(&self, load: &DeviceLoad) -> (f64, bool) {
        let total = load.read_bytes_per_s + load.write_bytes_per_s;
        sum_known(
            ceiling_share(load.read_bytes_per_s, total, self.read_bytes),
            ceiling_share(load.write_bytes_per_s, total, self.write_bytes),
        )
    }

    /// True for a share of requests that a rotational disk reaches only sequentially.
    fn is_sequential(&self, requests: f64) -> bool {
        self.is_rotational && requests > SEQUENTIAL_FACTOR
    }

    /// Share of the ceiling that a load uses: the larger of its shares of requests and of bytes, because the first
    /// limits small requests and the second large ones. `NaN` where an unmeasured part could add to a share below
    /// saturation. If a rotational disk served more requests than it can at random, they were sequential; then only
    /// the bytes count.
    pub fn used_share(&self, load: &DeviceLoad) -> f64 {
        let (requests, are_requests_known) = self.request_share(load);
        let (bytes, are_bytes_known) = self.byte_share(load);
        let (used, is_known) = match self.is_sequential(requests) {
            true => (bytes, are_bytes_known),
            false => (requests.max(bytes), are_requests_known && are_bytes_known),
        };
        if is_known || used >= SATURATED_SHARE { used } else { f64::NAN }
    }

    /// Mean seconds of the load's requests at queue depth 1: the standalone latency of 4 KiB, plus the further bytes at
    /// full bandwidth. `NaN` where that was not measured.
    pub fn standalone_s(&self, load: &DeviceLoad) -> f64 {
        let total = load.reads_per_s + load.writes_per_s;
        let summed_s =
            |count: f64, bytes: f64, standalone: Option<f64>, ceiling: Option<f64>| match (standalone, ceiling) {
                (Some(standalone), Some(ceiling)) => {
                    let further_bytes = (bytes - LATENCY_REQUEST_BYTES * count).max(0.0);
                    Some(count * standalone + further_bytes / ceiling)
                }
                _ => (count <= NEGLIGIBLE_SHARE * total).then_some(0.0),
            };
        let reads = summed_s(load.reads_per_s, load.read_bytes_per_s, self.read_s, self.read_bytes);
        let writes = summed_s(load.writes_per_s, load.write_bytes_per_s, self.write_s, self.write_bytes);
        match sum_known(reads, writes) {
            (seconds, true) if total > 0.0 => seconds / total,
            _ => f64::NAN,
        }
    }

    /// `1,940 of at most 2,000 reads/s and 3 of at most 500 writes/s`, or bytes where [`DeviceCeiling::used_share`] is
    /// their share. `bound` is `most`, or `least` for a ceiling that is only a lower bound.
    pub fn describe_load(&self, load: &DeviceLoad, bound: &str) -> String {
        let requests = self.request_share(load).0;
        let by_bytes = self.is_sequential(requests) || self.byte_share(load).0 > requests;
        let part_text = |amount: f64, ceiling: Option<f64>, number: fn(f64) -> String, operations: &str| {
            let ceiling = ceiling.filter(|_| amount > 0.0)?;
            Some(format!("{} of at {bound} {} {operations}", number(amount), number(ceiling)))
        };
        let both = if by_bytes {
            [
                part_text(load.read_bytes_per_s, self.read_bytes, format_bytes, "read"),
                part_text(load.write_bytes_per_s, self.write_bytes, format_bytes, "written"),
            ]
        } else {
            [
                part_text(load.reads_per_s, self.reads, format_count, "reads/s"),
                part_text(load.writes_per_s, self.writes, format_count, "writes/s"),
            ]
        };
        both.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

fn format_bytes(value: f64) -> String {
    format_value(value, "bytes_per_s")
}

/// Formats a count as `1,940`: readers compare requests digit by digit.
pub(crate) fn format_count(value: f64) -> String {
    if value < 100.0 {
        return format_significant(value);
    }
    let plain = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in plain.chars().enumerate() {
        if position > 0 && (plain.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Rule {
    /// True for a rule that applies only where the limits of a cloud volume or instance are known; else it is ignored.
    pub(crate) fn needs_volume_limits(&self) -> bool {
        use Pseudo::*;
        let reads_limit =
            |p: Pseudo| matches!(p, VolumeUsed | VolumeBaselineUsed | InstanceUsed | InstanceBaselineUsed);
        self.conditions().flat_map(|c| c.quantity.counters()).any(|name| name.pseudo.is_some_and(reads_limit))
    }

    /// True for a rule that applies only with a measured ceiling; without one it is ignored.
    pub(crate) fn needs_ceiling(&self) -> bool {
        let reads_ceiling = |p: Pseudo| {
            use Pseudo::*;
            matches!(p, CeilingUsed | CeilingLatency | CeilingKnee | CeilingFirm | CeilingRequests | CeilingBytes)
        };
        let names = || self.all.iter().flat_map(|c| c.quantity.counters());
        self.absent == Absent::Inapplicable && names().any(|n| n.pseudo.is_some_and(reads_ceiling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured_ceiling() -> DeviceCeiling {
        DeviceCeiling {
            reads: Some(1000.0),
            writes: Some(500.0),
            read_bytes: Some(200e6),
            write_bytes: Some(100e6),
            read_s: Some(0.004),
            write_s: Some(0.002),
            is_rotational: false,
        }
    }

    fn load(reads: f64, writes: f64, size: f64) -> DeviceLoad {
        DeviceLoad {
            reads_per_s: reads,
            writes_per_s: writes,
            read_bytes_per_s: reads * size,
            write_bytes_per_s: writes * size,
        }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn reads_and_writes_add_up_by_the_utilisation_law() {
        // 400 of 1000 reads and 250 of 500 writes: 0.4 + 0.5
        near(measured_ceiling().used_share(&load(400.0, 250.0, 4096.0)), 0.9);
        near(measured_ceiling().used_share(&load(0.0, 0.0, 4096.0)), 0.0);
    }

    #[test]
    fn large_requests_are_held_against_bandwidth() {
        // 150 reads of 1 MiB: 15 % of the requests, 78.6432 % of 200 MB/s
        near(measured_ceiling().used_share(&load(150.0, 0.0, 1048576.0)), 0.786432);
        near(measured_ceiling().used_share(&load(150.0, 0.0, 4096.0)), 0.15);
    }

    #[test]
    fn an_unmeasured_kind_of_request_leaves_the_share_unknown_unless_saturated() {
        let reads_only = DeviceCeiling { writes: None, write_bytes: None, ..measured_ceiling() };
        near(reads_only.used_share(&load(500.0, 20.0, 4096.0)), 0.5);
        assert!(reads_only.used_share(&load(500.0, 100.0, 4096.0)).is_nan());
        near(reads_only.used_share(&load(920.0, 400.0, 4096.0)), 0.92);
        let no_requests = DeviceCeiling { reads: None, writes: None, ..measured_ceiling() };
        assert!(no_requests.used_share(&load(500.0, 0.0, 4096.0)).is_nan());
        near(no_requests.used_share(&load(190.0, 0.0, 1e6)), 0.95);
    }

    #[test]
    fn more_requests_than_a_rotational_disk_does_at_random_are_sequential() {
        let disk = DeviceCeiling { reads: Some(100.0), is_rotational: true, ..measured_ceiling() };
        near(disk.used_share(&load(110.0, 0.0, 4096.0)), 1.1);
        near(disk.used_share(&load(10_000.0, 0.0, 4096.0)), 0.2048);
        near(DeviceCeiling { is_rotational: false, ..disk }.used_share(&load(10_000.0, 0.0, 4096.0)), 100.0);
        // a stream of 1 MiB requests: 186 where the random ceiling is 100, and 97.5 % of the bytes
        let stream = load(186.0, 0.0, 1_048_576.0);
        near(disk.used_share(&stream), 0.97517568);
        assert_eq!(disk.describe_load(&stream, "most"), "195 MB/s of at most 200 MB/s read");
        assert_eq!(disk.describe_load(&load(95.0, 0.0, 4096.0), "most"), "95 of at most 100 reads/s");
    }

    #[test]
    fn standalone_latency_averages_reads_and_writes_and_grows_with_request_size() {
        // 3 reads of 4 ms, 1 write of 2 ms
        near(measured_ceiling().standalone_s(&load(300.0, 100.0, 4096.0)), 0.0035);
        // a read of 1,004,096 bytes: 4 ms and 1 MB at 200 MB/s
        near(measured_ceiling().standalone_s(&load(10.0, 0.0, 1_004_096.0)), 0.009);
        assert!(measured_ceiling().standalone_s(&load(0.0, 0.0, 4096.0)).is_nan());
        assert!(DeviceCeiling { write_s: None, ..measured_ceiling() }.standalone_s(&load(1.0, 1.0, 4096.0)).is_nan());
    }
}
