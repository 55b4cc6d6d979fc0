//! Compares a load with the ceiling that a probe measured for its device.

use diskwright_base::units::{format_significant, format_value};
use diskwright_base::{Ceiling, DeviceClass};

use crate::pseudo::Pseudo;
use crate::rule::{Absent, Rule};

/// Largest share of a load that may be of an unmeasured kind.
const NEGLIGIBLE: f64 = 0.1;
/// Share of the ceiling from which a device counts as saturated whatever unmeasured requests it had.
const FULL: f64 = 0.9;
/// Multiple of a rotational disk's random requests that only sequential requests can reach.
const IN_ORDER: f64 = 1.15;
/// Size of the requests whose standalone latency is measured, bytes.
const PLAIN_BYTES: f64 = 4096.0;

/// Load of a device in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceLoad {
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Bytes read per second.
    pub read_bytes: f64,
    /// Bytes written per second.
    pub write_bytes: f64,
}

/// A device's measured ceilings, `None` where one was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DeviceCeiling {
    reads: Option<f64>,
    writes: Option<f64>,
    read_bytes: Option<f64>,
    write_bytes: Option<f64>,
    read_s: Option<f64>,
    write_s: Option<f64>,
    turns: bool,
}

/// Sum over reads and writes, and whether both were known.
fn sum(reads: Option<f64>, writes: Option<f64>) -> (f64, bool) {
    (reads.unwrap_or(0.0) + writes.unwrap_or(0.0), reads.is_some() && writes.is_some())
}

/// Amount over its ceiling; an unmeasured amount counts as 0 where it is negligible, else `None`.
fn part(amount: f64, total: f64, ceiling: Option<f64>) -> Option<f64> {
    match ceiling {
        Some(ceiling) => Some(amount / ceiling),
        None => (amount <= NEGLIGIBLE * total).then_some(0.0),
    }
}

impl DeviceCeiling {
    /// Ceilings of a device of this class.
    pub fn of(ceiling: &Ceiling, class: DeviceClass) -> DeviceCeiling {
        DeviceCeiling {
            reads: ceiling.reads_per_s,
            writes: ceiling.writes_per_s,
            read_bytes: ceiling.read_bytes_per_s,
            write_bytes: ceiling.write_bytes_per_s,
            read_s: ceiling.read_s,
            write_s: ceiling.write_s,
            turns: class == DeviceClass::Rotational,
        }
    }

    /// Share of the ceiling of requests, and whether reads and writes were both measured.
    ///
    /// By the utilization law (Denning and Buzen, "The Operational Analysis of Queueing Network Models", 1978), the
    /// utilization of a device is the sum of throughput times demand over the classes of requests. A device with a
    /// ceiling of `m` requests per second of a class spends `1 / m` seconds on each, so reads and writes together use
    /// `r / r_max + w / w_max` of it.
    fn requests(&self, load: &DeviceLoad) -> (f64, bool) {
        let all = load.reads + load.writes;
        sum(part(load.reads, all, self.reads), part(load.writes, all, self.writes))
    }

    /// Share of the ceiling of bytes, and whether reads and writes were both measured.
    fn bytes(&self, load: &DeviceLoad) -> (f64, bool) {
        let all = load.read_bytes + load.write_bytes;
        sum(part(load.read_bytes, all, self.read_bytes), part(load.write_bytes, all, self.write_bytes))
    }

    /// True for a share of requests that a rotational disk reaches only sequentially.
    fn is_in_order(&self, requests: f64) -> bool {
        self.turns && requests > IN_ORDER
    }

    /// Share of the ceiling that a load uses: the larger of its shares of requests and of bytes, since small requests
    /// are limited by the one and large requests by the other. `NaN` where an unmeasured part could add to a share
    /// below saturation. More requests than a rotational disk does at random were sequential; then only the bytes
    /// count.
    pub fn used(&self, load: &DeviceLoad) -> f64 {
        let (requests, all_requests) = self.requests(load);
        let (bytes, all_bytes) = self.bytes(load);
        let (used, known) = match self.is_in_order(requests) {
            true => (bytes, all_bytes),
            false => (requests.max(bytes), all_requests && all_bytes),
        };
        if known || used >= FULL { used } else { f64::NAN }
    }

    /// Mean seconds of the load's requests at queue depth 1: the standalone latency of 4 KiB, plus the further bytes at
    /// full bandwidth. `NaN` where that was not measured.
    pub fn alone_s(&self, load: &DeviceLoad) -> f64 {
        let all = load.reads + load.writes;
        let of = |count: f64, bytes: f64, standalone: Option<f64>, ceiling: Option<f64>| match (standalone, ceiling) {
            (Some(standalone), Some(ceiling)) => {
                let further_bytes = (bytes - PLAIN_BYTES * count).max(0.0);
                Some(count * standalone + further_bytes / ceiling)
            }
            _ => (count <= NEGLIGIBLE * all).then_some(0.0),
        };
        let reads = of(load.reads, load.read_bytes, self.read_s, self.read_bytes);
        let writes = of(load.writes, load.write_bytes, self.write_s, self.write_bytes);
        match sum(reads, writes) {
            (seconds, true) if all > 0.0 => seconds / all,
            _ => f64::NAN,
        }
    }

    /// `1,940 of at most 2,000 reads/s and 3 of at most 500 writes/s`, or bytes where [`DeviceCeiling::used`] goes by
    /// them.
    pub fn told(&self, load: &DeviceLoad, bound: &str) -> String {
        let requests = self.requests(load).0;
        let by_bytes = self.is_in_order(requests) || self.bytes(load).0 > requests;
        let of = |amount: f64, ceiling: Option<f64>, number: fn(f64) -> String, what: &str| {
            let ceiling = ceiling.filter(|_| amount > 0.0)?;
            Some(format!("{} of at {bound} {} {what}", number(amount), number(ceiling)))
        };
        let both = if by_bytes {
            [
                of(load.read_bytes, self.read_bytes, bytes, "read"),
                of(load.write_bytes, self.write_bytes, bytes, "written"),
            ]
        } else {
            [of(load.reads, self.reads, count, "reads/s"), of(load.writes, self.writes, count, "writes/s")]
        };
        both.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

fn bytes(value: f64) -> String {
    format_value(value, "bytes_per_s")
}

/// Formats a count as `1,940`: readers compare requests digit by digit.
fn count(value: f64) -> String {
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
    /// True for a rule that applies only with a measured ceiling; without one it is ignored.
    pub(crate) fn sleeps_without_ceiling(&self) -> bool {
        let of_ceiling = |p: Pseudo| {
            use Pseudo::*;
            matches!(p, CeilingUsed | CeilingLatency | CeilingKnee | CeilingFirm | CeilingRequests | CeilingBytes)
        };
        let names = || self.all.iter().flat_map(|c| c.quantity.names());
        self.absent == Absent::Inapplicable && names().any(|n| n.pseudo.is_some_and(of_ceiling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most() -> DeviceCeiling {
        DeviceCeiling {
            reads: Some(1000.0),
            writes: Some(500.0),
            read_bytes: Some(200e6),
            write_bytes: Some(100e6),
            read_s: Some(0.004),
            write_s: Some(0.002),
            turns: false,
        }
    }

    fn load(reads: f64, writes: f64, size: f64) -> DeviceLoad {
        DeviceLoad { reads, writes, read_bytes: reads * size, write_bytes: writes * size }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn reads_and_writes_add_up_by_the_utilisation_law() {
        // 400 of 1000 reads and 250 of 500 writes: 0.4 + 0.5
        near(most().used(&load(400.0, 250.0, 4096.0)), 0.9);
        near(most().used(&load(0.0, 0.0, 4096.0)), 0.0);
    }

    #[test]
    fn large_requests_are_held_against_bandwidth() {
        // 150 reads of 1 MiB: 15 % of the requests, 78.6432 % of 200 MB/s
        near(most().used(&load(150.0, 0.0, 1048576.0)), 0.786432);
        near(most().used(&load(150.0, 0.0, 4096.0)), 0.15);
    }

    #[test]
    fn what_was_not_measured_can_only_add() {
        let reads_only = DeviceCeiling { writes: None, write_bytes: None, ..most() };
        near(reads_only.used(&load(500.0, 20.0, 4096.0)), 0.5);
        assert!(reads_only.used(&load(500.0, 100.0, 4096.0)).is_nan());
        near(reads_only.used(&load(920.0, 400.0, 4096.0)), 0.92);
        let no_requests = DeviceCeiling { reads: None, writes: None, ..most() };
        assert!(no_requests.used(&load(500.0, 0.0, 4096.0)).is_nan());
        near(no_requests.used(&load(190.0, 0.0, 1e6)), 0.95);
    }

    #[test]
    fn more_than_an_arm_does_at_random_was_in_order() {
        let disk = DeviceCeiling { reads: Some(100.0), turns: true, ..most() };
        near(disk.used(&load(110.0, 0.0, 4096.0)), 1.1);
        near(disk.used(&load(10_000.0, 0.0, 4096.0)), 0.2048);
        near(DeviceCeiling { turns: false, ..disk }.used(&load(10_000.0, 0.0, 4096.0)), 100.0);
        // a stream of 1 MiB requests: 186 where the random ceiling is 100, and 97.5 % of the bytes
        let stream = load(186.0, 0.0, 1_048_576.0);
        near(disk.used(&stream), 0.97517568);
        assert_eq!(disk.told(&stream, "most"), "195 MB/s of at most 200 MB/s read");
        assert_eq!(disk.told(&load(95.0, 0.0, 4096.0), "most"), "95 of at most 100 reads/s");
    }

    #[test]
    fn alone_is_the_mean_by_reads_and_writes_and_longer_for_large_ones() {
        // 3 reads of 4 ms, 1 write of 2 ms
        near(most().alone_s(&load(300.0, 100.0, 4096.0)), 0.0035);
        // a read of 1,004,096 bytes: 4 ms and 1 MB at 200 MB/s
        near(most().alone_s(&load(10.0, 0.0, 1_004_096.0)), 0.009);
        assert!(most().alone_s(&load(0.0, 0.0, 4096.0)).is_nan());
        assert!(DeviceCeiling { write_s: None, ..most() }.alone_s(&load(1.0, 1.0, 4096.0)).is_nan());
    }
}
