//! A synthetic fleet with series like node_exporter's: most machines are
//! healthy, some have a known trouble. Used by the tests and by
//! `examples/load_fleet.rs`; seeded, so that it is the same everywhere.

#![allow(dead_code, reason = "each user takes a part of it")]

/// Trouble of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Healthy.
    None,
    /// A rotational disk that cannot keep up with its requests.
    Disk,
    /// Swapping.
    Memory,
    /// More runnable tasks than processors.
    Cpu,
    /// A volume at its rate limit.
    Throttle,
}

impl Trouble {
    /// The bottleneck that a verdict should name.
    pub fn bottleneck(self) -> &'static str {
        match self {
            Trouble::None => "none",
            Trouble::Disk => "disk",
            Trouble::Memory => "memory",
            Trouble::Cpu => "cpu",
            Trouble::Throttle => "throttle",
        }
    }
}

/// Returns the trouble of a machine: every 25th has one, each kind in turn; in a fleet of
/// fewer than a hundred, every second one.
pub fn trouble_of_host(host: usize, hosts: usize) -> Trouble {
    let (every, first) = if hosts < 100 { (2, 1) } else { (25, 3) };
    if host % every != first {
        return Trouble::None;
    }
    [Trouble::Disk, Trouble::Memory, Trouble::Cpu, Trouble::Throttle][host / every % 4]
}

/// The `instance` label of a machine.
pub fn host_name(host: usize) -> String {
    format!("host{host:04}:9100")
}

/// A series with its values.
pub struct Series {
    /// Its labels as JSON.
    pub labels: String,
    /// Number of decimals.
    pub decimals: u8,
    /// Its values times ten to the power of `decimals`.
    pub values: Vec<i64>,
}

/// Marsaglia's xorshift generator.
struct Rng(u64);

impl Rng {
    /// Returns a number from `1 - spread` to `1 + spread`.
    fn around_one(&mut self, spread: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1.0 - spread + 2.0 * spread * (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Activity of a machine in a tick: amounts per second, shares and levels.
struct MachineActivity {
    user: f64,
    system: f64,
    iowait: f64,
    running: f64,
    reads: f64,
    writes: f64,
    read_s: f64,
    write_s: f64,
    in_flight: f64,
    swap_in: f64,
    swap_out: f64,
    available: f64,
    cpu_some: f64,
    io_some: f64,
    io_full: f64,
    memory_some: f64,
    memory_full: f64,
}

fn healthy_activity(rng: &mut Rng, day: f64) -> MachineActivity {
    let load = (0.6 + 0.4 * (day * std::f64::consts::TAU).sin()) * rng.around_one(0.3);
    MachineActivity {
        user: 0.25 * load,
        system: 0.06 * load,
        iowait: 0.01 * load,
        running: 1.0,
        reads: 40.0 * load,
        writes: 60.0 * load,
        read_s: 0.0004,
        write_s: 0.0006,
        in_flight: 0.0,
        swap_in: 0.0,
        swap_out: 0.0,
        available: 0.45,
        cpu_some: 0.02 * load,
        io_some: 0.01 * load,
        io_full: 0.005 * load,
        memory_some: 0.0,
        memory_full: 0.0,
    }
}

fn troubled_activity(trouble: Trouble, rng: &mut Rng, day: f64) -> MachineActivity {
    let base = healthy_activity(rng, day);
    let n = rng.around_one(0.1);
    match trouble {
        Trouble::None => base,
        Trouble::Disk => MachineActivity {
            iowait: 0.5 * n,
            reads: 150.0 * n,
            writes: 40.0 * n,
            read_s: 0.045,
            write_s: 0.06,
            in_flight: 9.0,
            io_some: 0.7 * n,
            io_full: 0.5 * n,
            ..base
        },
        Trouble::Memory => MachineActivity {
            system: 0.15 * n,
            iowait: 0.4 * n,
            reads: 300.0 * n,
            writes: 250.0 * n,
            read_s: 0.012,
            write_s: 0.02,
            in_flight: 8.0,
            swap_in: 900.0 * n,
            swap_out: 1100.0 * n,
            available: 0.02,
            io_some: 0.6 * n,
            io_full: 0.4 * n,
            memory_some: 0.5 * n,
            memory_full: 0.3 * n,
            ..base
        },
        Trouble::Cpu => {
            MachineActivity { user: 0.9, system: 0.08, iowait: 0.0, running: 7.0 * n, cpu_some: 0.8, ..base }
        }
        // 3,000 requests/s whatever the load; the service time of one request is 0.1 ms
        Trouble::Throttle => MachineActivity {
            reads: 2000.0 * rng.around_one(0.002),
            writes: 1000.0 * rng.around_one(0.002),
            read_s: 0.004,
            write_s: 0.004,
            in_flight: 12.0,
            io_some: 0.5 * n,
            io_full: 0.3 * n,
            ..base
        },
    }
}

/// Number of processors of each machine.
const PROCESSOR_COUNT: usize = 2;
const MEMORY_BYTES: f64 = 16e9;

/// Generates all series of a machine: `ticks` samples, `every_s` seconds apart. The
/// trouble begins after the first quarter of the window.
pub fn host_series(host: usize, hosts: usize, ticks: usize, every_s: f64) -> Vec<Series> {
    let trouble = trouble_of_host(host, hosts);
    let mut rng = Rng(host as u64 * 7919 + 0x9e37_79b9_7f4a_7c15);
    let mut table = SeriesBuilder::new(host, ticks);
    for tick in 0..ticks {
        let day = (tick as f64 * every_s / 86_400.0).fract();
        let is_bad = trouble != Trouble::None && tick * 4 > ticks;
        let mut now = if is_bad { troubled_activity(trouble, &mut rng, day) } else { healthy_activity(&mut rng, day) };
        if trouble == Trouble::Throttle && !is_bad {
            (now.read_s, now.write_s) = (0.0001, 0.0001);
        }
        table.begin_tick();
        add_processors(&mut table, &now, every_s);
        add_disk(&mut table, trouble, &now, every_s);
        add_memory(&mut table, &now, every_s);
        add_other_series(&mut table, &now, every_s, &mut rng);
    }
    table.series
}

fn add_processors(table: &mut SeriesBuilder, now: &MachineActivity, s: f64) {
    let idle = (1.0 - now.user - now.system - now.iowait).max(0.0);
    let states = [
        ("idle", idle),
        ("iowait", now.iowait),
        ("irq", 0.0),
        ("nice", 0.0),
        ("softirq", 0.004),
        ("steal", 0.0),
        ("system", now.system),
        ("user", now.user),
    ];
    for cpu in 0..PROCESSOR_COUNT {
        for (mode, share) in states {
            let labels = || format!(",\"cpu\":\"{cpu}\",\"mode\":\"{mode}\"");
            table.add_total("node_cpu_seconds_total", labels, 2, share * s);
        }
    }
}

fn add_disk(table: &mut SeriesBuilder, trouble: Trouble, now: &MachineActivity, s: f64) {
    let name = if trouble == Trouble::Throttle { "nvme0n1" } else { "sda" };
    let rotational = u8::from(trouble == Trouble::Disk);
    let device = || format!(",\"device\":\"{name}\"");
    let busy = (now.reads * now.read_s + now.writes * now.write_s).min(1.0);
    table.add_level("node_disk_info", || format!("{},\"rotational\":\"{rotational}\"", device()), 0, 1.0);
    table.add_total("node_disk_reads_completed_total", device, 0, now.reads * s);
    table.add_total("node_disk_writes_completed_total", device, 0, now.writes * s);
    table.add_total("node_disk_read_bytes_total", device, 0, now.reads * s * 16384.0);
    table.add_total("node_disk_written_bytes_total", device, 0, now.writes * s * 16384.0);
    table.add_total("node_disk_reads_merged_total", device, 0, now.reads * s * 0.05);
    table.add_total("node_disk_writes_merged_total", device, 0, now.writes * s * 0.3);
    table.add_total("node_disk_read_time_seconds_total", device, 3, now.reads * now.read_s * s);
    table.add_total("node_disk_write_time_seconds_total", device, 3, now.writes * now.write_s * s);
    table.add_total("node_disk_io_time_seconds_total", device, 3, busy * s);
    let weighted = (now.reads * now.read_s + now.writes * now.write_s) * s;
    table.add_total("node_disk_io_time_weighted_seconds_total", device, 3, weighted);
    table.add_level("node_disk_io_now", device, 0, now.in_flight);
    table.add_total("node_disk_flush_requests_total", device, 0, s * 0.2);
    table.add_total("node_disk_flush_requests_time_seconds_total", device, 3, s * 0.0002);
}

fn add_memory(table: &mut SeriesBuilder, now: &MachineActivity, s: f64) {
    let available = MEMORY_BYTES * now.available;
    let levels = [
        ("MemTotal", MEMORY_BYTES),
        ("MemAvailable", available),
        ("MemFree", available * 0.2),
        ("Buffers", 2e8),
        ("Cached", available * 0.7),
        ("Dirty", 2e7),
        ("Writeback", 1e6),
        ("SwapTotal", 8e9),
        ("SwapFree", if now.swap_in > 0.0 { 2e9 } else { 8e9 }),
        ("Committed_AS", MEMORY_BYTES * 0.8),
    ];
    for (name, value) in levels {
        table.add_level(&format!("node_memory_{name}_bytes"), String::new, 0, value);
    }
    let totals = [
        ("pgfault", 2000.0),
        ("pgmajfault", now.swap_in * 0.5),
        ("pgpgin", now.reads * 16.0),
        ("pgpgout", now.writes * 16.0),
        ("pswpin", now.swap_in),
        ("pswpout", now.swap_out),
    ];
    for (name, rate) in totals {
        table.add_total(&format!("node_vmstat_{name}"), String::new, 0, rate * s);
    }
    let pressures = [
        ("cpu_waiting", now.cpu_some),
        ("io_waiting", now.io_some),
        ("io_stalled", now.io_full),
        ("memory_waiting", now.memory_some),
        ("memory_stalled", now.memory_full),
    ];
    for (name, share) in pressures {
        table.add_total(&format!("node_pressure_{name}_seconds_total"), String::new, 6, share.min(1.0) * s);
    }
}

fn add_other_series(table: &mut SeriesBuilder, now: &MachineActivity, s: f64, rng: &mut Rng) {
    for (name, share) in [("node_load1", 1.0), ("node_load5", 0.95), ("node_load15", 0.9)] {
        table.add_level(name, String::new, 2, (now.running + now.in_flight) * share);
    }
    table.add_level("node_procs_running", String::new, 0, now.running.round());
    table.add_level("node_procs_blocked", String::new, 0, now.in_flight);
    table.add_total("node_context_switches_total", String::new, 0, 3000.0 * s * rng.around_one(0.2));
    table.add_total("node_intr_total", String::new, 0, 2000.0 * s * rng.around_one(0.2));
    table.add_total("node_forks_total", String::new, 0, 2.0 * s);
    let device = || ",\"device\":\"eth0\"".to_owned();
    table.add_level("node_network_speed_bytes", device, 0, 125e6);
    for (way, bytes) in [("receive", 2e6), ("transmit", 1e6)] {
        let bytes = bytes * s * rng.around_one(0.3);
        table.add_total(&format!("node_network_{way}_bytes_total"), device, 0, bytes);
        table.add_total(&format!("node_network_{way}_packets_total"), device, 0, bytes / 900.0);
    }
    let mount = || ",\"mountpoint\":\"/\",\"fstype\":\"ext4\",\"device\":\"/dev/sda1\"".to_owned();
    table.add_level("node_filesystem_avail_bytes", mount, 0, 4e10);
    table.add_level("node_filesystem_size_bytes", mount, 0, 1e11);
    table.add_level("node_time_seconds", String::new, 0, 1.7e9);
}

/// Collects series in the order of the first tick; every tick must contain all of them.
struct SeriesBuilder {
    host: String,
    ticks: usize,
    series: Vec<Series>,
    sums: Vec<f64>,
    next: usize,
}

impl SeriesBuilder {
    fn new(host: usize, ticks: usize) -> SeriesBuilder {
        SeriesBuilder { host: host_name(host), ticks, series: Vec::new(), sums: Vec::new(), next: 0 }
    }

    fn begin_tick(&mut self) {
        self.next = 0;
    }

    /// Adds to a running total.
    fn add_total(&mut self, metric: &str, labels: impl Fn() -> String, decimals: u8, added: f64) {
        self.add_value(metric, labels, decimals, added, true);
    }

    fn add_level(&mut self, metric: &str, labels: impl Fn() -> String, decimals: u8, value: f64) {
        self.add_value(metric, labels, decimals, value, false);
    }

    fn add_value(&mut self, metric: &str, labels: impl Fn() -> String, decimals: u8, value: f64, total: bool) {
        let index = self.next;
        self.next += 1;
        if index == self.series.len() {
            let labels =
                format!("{{\"__name__\":\"{metric}\",\"job\":\"node\",\"instance\":\"{}\"{}}}", self.host, labels());
            self.series.push(Series { labels, decimals, values: Vec::with_capacity(self.ticks) });
            self.sums.push(0.0);
        }
        self.sums[index] = if total { self.sums[index] + value } else { value };
        let scaled = self.sums[index] * 10_f64.powi(i32::from(decimals));
        self.series[index].values.push(scaled.round() as i64);
    }
}

/// Writes a line of VictoriaMetrics' JSON import; `timestamps` is the list as text.
pub fn write_import_line(series: &Series, timestamps: &str, out: &mut Vec<u8>) {
    use std::io::Write;
    out.extend_from_slice(b"{\"metric\":");
    out.extend_from_slice(series.labels.as_bytes());
    out.extend_from_slice(b",\"values\":[");
    let unit = 10_i64.pow(u32::from(series.decimals));
    for (index, value) in series.values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let width = usize::from(series.decimals);
        // writing to memory cannot fail
        let _ = match width {
            0 => write!(out, "{value}"),
            _ => write!(out, "{}.{:0width$}", value / unit, value % unit),
        };
    }
    out.extend_from_slice(b"],\"timestamps\":[");
    out.extend_from_slice(timestamps.as_bytes());
    out.extend_from_slice(b"]}\n");
}

/// Formats the times of the samples, milliseconds, as a JSON list.
pub fn timestamps_json(first_ms: i64, ticks: usize, every_s: f64) -> String {
    let time = |tick: usize| (first_ms + (tick as f64 * every_s * 1e3) as i64).to_string();
    (0..ticks).map(time).collect::<Vec<_>>().join(",")
}
