//! Our alerts, each with cells on both sides of its limit.

mod alternating;
mod pressure;

use diskwright_base::cloud_volume::{REQUEST_BYTES, RateCap};
use diskwright_base::{CloudVolume, Device, DeviceClass};

use super::{Machine, SECOND, words};

/// One of our alerts: its series, cells on the quiet side of its limit and on the other, and its hold time.
pub struct Case {
    pub id: &'static str,
    pub instance: &'static str,
    pub series: &'static [(&'static str, &'static str)],
    pub warm_s: i64,
    pub quiet: &'static [f64],
    pub loud: &'static [f64],
    pub hold_s: i64,
}

pub const PRESSURE: &[(&str, &str)] = &[("pressure.io_full_s", ""), ("pressure.memory_full_s", "")];
pub const READS: &[(&str, &str)] = &[("physical_disk.reads", "sda"), ("physical_disk.read_time_s", "sda")];

/// Free and total space and inodes of a filesystem.
pub const SPACE: &[(&str, &str)] = &[
    ("logical_disk.free_bytes", "/srv"),
    ("logical_disk.total_bytes", "/srv"),
    ("logical_disk.inodes_free", "/srv"),
    ("logical_disk.inodes_total", "/srv"),
];

pub const CASES: &[Case] = &[
    Case {
        id: "pressure.io",
        instance: "",
        series: PRESSURE,
        warm_s: 10,
        quiet: &[0.19, 0.0],
        loud: &[0.21, 0.0],
        hold_s: 30,
    },
    Case {
        id: "pressure.memory",
        instance: "",
        series: PRESSURE,
        warm_s: 10,
        quiet: &[0.0, 0.09],
        loud: &[0.0, 0.11],
        hold_s: 20,
    },
    Case {
        id: "pressure.io-unusual",
        instance: "",
        series: &[("pressure.io_some_s", "")],
        warm_s: 1900,
        quiet: &[0.29],
        loud: &[0.31],
        hold_s: 120,
    },
    Case {
        id: "pressure.memory-unusual",
        instance: "",
        series: &[("pressure.memory_some_s", "")],
        warm_s: 1900,
        quiet: &[0.09],
        loud: &[0.11],
        hold_s: 120,
    },
    Case {
        id: "pressure.cpu-unusual",
        instance: "",
        series: &[("pressure.cpu_some_s", "")],
        warm_s: 1900,
        quiet: &[0.49],
        loud: &[0.51],
        hold_s: 120,
    },
    Case {
        id: "disk.stall",
        instance: "sda",
        series: &[("physical_disk.stalled", "sda"), ("physical_disk.stalled", "sdb")],
        warm_s: 10,
        quiet: &[0.0, 0.0],
        loud: &[1.0, 0.0],
        hold_s: 5,
    },
    Case {
        id: "disk.tail",
        instance: "sda",
        series: &[("physical_disk.read_latency_p99_s", "sda"), ("physical_disk.reads", "sda")],
        warm_s: 1900,
        quiet: &[0.009, 100.0],
        loud: &[0.012, 100.0],
        hold_s: 60,
    },
    Case {
        id: "disk.slow",
        instance: "sda",
        series: READS,
        warm_s: 1900,
        quiet: &[100.0, 0.9],
        loud: &[100.0, 1.3],
        hold_s: 60,
    },
    Case {
        id: "memory.killed",
        instance: "",
        series: &[("paging.oom_kills", "")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "array.degraded",
        instance: "md0",
        series: &[("array.degraded", "md0")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 10,
    },
    Case {
        id: "array.errors",
        instance: "md0",
        series: &[("array.device_errors", "md0")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[3.0],
        hold_s: 0,
    },
    Case {
        id: "cgroup.throttled",
        instance: "/web",
        series: &[
            ("cgroup.cpu_periods", "/web"),
            ("cgroup.cpu_throttled_periods", "/web"),
            ("cgroup.cpu_throttled_s", "/web"),
        ],
        warm_s: 10,
        quiet: &[10.0, 2.0, 0.2],
        loud: &[10.0, 3.0, 0.2],
        hold_s: 60,
    },
    Case {
        id: "filesystem.full",
        instance: "/srv",
        series: SPACE,
        warm_s: 10,
        quiet: &[1.1e9, 1e11, 1e6, 6e6],
        loud: &[0.9e9, 1e11, 1e6, 6e6],
        hold_s: 60,
    },
    Case {
        id: "filesystem.full",
        instance: "/srv",
        series: SPACE,
        warm_s: 10,
        quiet: &[1.1e10, 2e13, 1e6, 6e6],
        loud: &[0.9e10, 2e13, 1e6, 6e6],
        hold_s: 60,
    },
    Case {
        id: "filesystem.inodes-used",
        instance: "/srv",
        series: SPACE,
        warm_s: 10,
        quiet: &[5e10, 1e11, 70_000.0, 6e6],
        loud: &[5e10, 1e11, 50_000.0, 6e6],
        hold_s: 60,
    },
    Case {
        id: "filesystem.inodes-used",
        instance: "/srv",
        series: SPACE,
        warm_s: 10,
        quiet: &[5e12, 1e13, 110_000.0, 1e9],
        loud: &[5e12, 1e13, 90_000.0, 1e9],
        hold_s: 60,
    },
    Case {
        id: "disk.errors",
        instance: "sda",
        series: &[("physical_disk.media_errors", "sda")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "disk.errors",
        instance: "sda",
        series: &[("physical_disk.link_errors", "sda")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "disk.errors",
        instance: "sda",
        series: &[("physical_disk.io_timeouts", "sda")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "disk.errors",
        instance: "sda",
        series: &[("physical_disk.kernel_messages", "sda")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "disk.reports-failure",
        instance: "sda",
        series: &[("physical_disk.failing", "sda")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "disk.throttled",
        instance: "sda",
        series: &[("physical_disk.thermal_throttles", "sda")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "hardware.throttled",
        instance: "processors",
        series: &[("hardware.thermal_throttles", "processors")],
        warm_s: 10,
        quiet: &[0.0],
        loud: &[1.0],
        hold_s: 0,
    },
    Case {
        id: "volume.throttled",
        instance: "sda",
        series: &[("physical_disk.volume_iops_limited", "sda"), ("physical_disk.volume_throughput_limited", "sda")],
        warm_s: 10,
        quiet: &[0.19, 0.19],
        loud: &[0.21, 0.0],
        hold_s: 60,
    },
    Case {
        id: "volume.throttled",
        instance: "sda",
        series: &[("physical_disk.volume_iops_limited", "sda"), ("physical_disk.volume_throughput_limited", "sda")],
        warm_s: 10,
        quiet: &[0.19, 0.19],
        loud: &[0.0, 0.21],
        hold_s: 60,
    },
    Case {
        id: "volume.near-limit",
        instance: "sdb",
        series: &[
            ("physical_disk.reads", "sdb"),
            ("physical_disk.writes", "sdb"),
            ("physical_disk.read_bytes", "sdb"),
            ("physical_disk.write_bytes", "sdb"),
        ],
        warm_s: 10,
        quiet: &[400.0, 390.0, 1e6, 1e6],
        loud: &[400.0, 410.0, 1e6, 1e6],
        hold_s: 60,
    },
    Case {
        id: "volume.draws-credits",
        instance: "sdc",
        series: &[
            ("physical_disk.reads", "sdc"),
            ("physical_disk.writes", "sdc"),
            ("physical_disk.read_bytes", "sdc"),
            ("physical_disk.write_bytes", "sdc"),
        ],
        warm_s: 10,
        quiet: &[500.0, 540.0, 1e6, 1e6],
        loud: &[500.0, 560.0, 1e6, 1e6],
        hold_s: 300,
    },
    Case {
        id: "instance.throttled",
        instance: "",
        series: &[("physical_disk.instance_iops_limited", "sda"), ("physical_disk.instance_throughput_limited", "sda")],
        warm_s: 10,
        quiet: &[0.19, 0.19],
        loud: &[0.21, 0.0],
        hold_s: 60,
    },
    Case {
        id: "instance.throttled",
        instance: "",
        series: &[("physical_disk.instance_iops_limited", "sda"), ("physical_disk.instance_throughput_limited", "sda")],
        warm_s: 10,
        quiet: &[0.19, 0.19],
        loud: &[0.0, 0.21],
        hold_s: 60,
    },
];

/// A cloud volume of 1,000 requests/s and 1 GB/s, with bursts of requests where there are credits.
pub fn volume(name: &str, burst: f64, credits: f64) -> Device {
    let volume = CloudVolume {
        requests: RateCap { baseline: 1000.0, burst, credits },
        bytes: RateCap::constant_rate(1e9),
        request_bytes: REQUEST_BYTES,
        write_cost: 1.0,
        ..CloudVolume::default()
    };
    Device { name: name.into(), class: DeviceClass::Flash, cloud_volume: Some(volume), ..Device::default() }
}

/// Cells of a case's machine during the warm-up: its usual state.
pub fn usual(case: &Case) -> Vec<f64> {
    match case.id {
        "disk.tail" => vec![0.002, 100.0],
        "disk.slow" => vec![100.0, 0.2],
        "pressure.io" | "pressure.memory" => vec![0.0, 0.0],
        "pressure.io-unusual" | "pressure.cpu-unusual" => vec![0.05],
        "pressure.memory-unusual" => vec![0.01],
        "cgroup.throttled" => vec![10.0, 0.0, 0.0],
        "volume.near-limit" | "volume.draws-credits" => vec![0.0; 4],
        "volume.throttled" | "instance.throttled" => vec![0.0, 0.0],
        _ => case.quiet.to_vec(),
    }
}

#[test]
fn a_cgroup_is_judged_alike_by_short_and_long_ticks() {
    let series =
        [("cgroup.cpu_periods", "/web"), ("cgroup.cpu_throttled_periods", "/web"), ("cgroup.cpu_throttled_s", "/web")];
    // half of ten periods a second, held back for a twentieth or a fifth of the time
    let alerts_of = |seconds: i64, share: f64| {
        let mut machine = Machine::new(&series);
        machine.every = seconds * SECOND;
        let length = seconds as f64;
        words(&machine.last(120, &[10.0 * length, 5.0 * length, share * length]))
    };
    for seconds in [1, 10] {
        assert!(alerts_of(seconds, 0.05).is_empty(), "ticks of {seconds} s");
        assert_eq!(alerts_of(seconds, 0.2), ["Begin cgroup.throttled /web"], "ticks of {seconds} s");
    }
}

#[test]
fn a_cgroup_that_loses_no_time_any_more_ends_its_alert() {
    let series =
        [("cgroup.cpu_periods", "/web"), ("cgroup.cpu_throttled_periods", "/web"), ("cgroup.cpu_throttled_s", "/web")];
    // stopped in nine of ten periods still, for a hundredth of the time; or in few, on many processors; or it sleeps
    for after in [[10.0, 9.0, 0.01], [10.0, 0.2, 0.6], [0.0, 0.0, 0.0]] {
        let mut machine = Machine::new(&series);
        assert_eq!(words(&machine.last(120, &[10.0, 9.0, 0.5])), ["Begin cgroup.throttled /web"]);
        assert_eq!(words(&machine.last(120, &after)), ["End cgroup.throttled /web"], "{after:?}");
    }
    let mut machine = Machine::new(&series);
    machine.last(120, &[10.0, 9.0, 0.5]);
    assert!(words(&machine.last(120, &[10.0, 9.0, 0.05])).is_empty(), "a twentieth of the time is lost");
}
