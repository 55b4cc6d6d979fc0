//! Logs in the shapes of sysstat's tools, with the same numbers each time.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A kind of log to generate.
pub struct Shape {
    /// File name.
    pub file: &'static str,
    /// Title for the output.
    pub title: &'static str,
    /// Set where other programs read it too.
    pub has_peers: bool,
    write: fn(&mut dyn Write, &mut Numbers, u64) -> io::Result<()>,
    begin: &'static str,
    end: &'static str,
}

const JSON_HEAD: &str = "{\"sysstat\": {\n\t\"hosts\": [\n\t\t{\n\t\t\t\"nodename\": \"db1\",\n\t\t\t\"sysname\": \
    \"Linux\",\n\t\t\t\"release\": \"6.1.0\",\n\t\t\t\"number-of-cpus\": 16,\n\t\t\t\"file-date\": \
    \"2026-03-02\",\n\t\t\t\"statistics\": [\n";
const JSON_END: &str = "\n\t\t\t],\n\t\t\t\"restarts\": [\n\t\t\t]\n\t\t}\n\t]\n}}\n";

/// All kinds of logs.
pub const SHAPES: &[Shape] = &[
    Shape {
        file: "all.json",
        title: "sadf -j -- -A, 24 disks, 16 cpus",
        has_peers: true,
        write: |to, numbers, tick| write_json(to, numbers, tick, true),
        begin: JSON_HEAD,
        end: JSON_END,
    },
    Shape {
        file: "disks.json",
        title: "sadf -j -- -d -u, 24 disks",
        has_peers: false,
        write: |to, numbers, tick| write_json(to, numbers, tick, false),
        begin: JSON_HEAD,
        end: JSON_END,
    },
    Shape {
        file: "disks.xml",
        title: "sadf -x -- -d, 24 disks",
        has_peers: false,
        write: write_xml,
        begin: "<?xml version=\"1.0\"?>\n<sysstat>\n\t<host nodename=\"db1\">\n\t\t<statistics>\n",
        end: "\t\t</statistics>\n\t</host>\n</sysstat>\n",
    },
    Shape {
        file: "disks.txt",
        title: "sar -d, 24 disks, text",
        has_peers: false,
        write: write_text,
        begin: "Linux 6.1.0 (db1) \t2026-03-02 \t_x86_64_\t(16 CPU)\n\n00:00:00          DEV       tps     rkB/s     \
                wkB/s   areq-sz    aqu-sz     await     %util\n",
        end: "",
    },
];

const DISK: [&str; 13] = [
    "tps",
    "rd_sec",
    "wr_sec",
    "dc_sec",
    "rkB",
    "wkB",
    "dkB",
    "avgrq-sz",
    "areq-sz",
    "avgqu-sz",
    "aqu-sz",
    "await",
    "util-percent",
];
const PROCESSOR: [&str; 10] = ["usr", "nice", "sys", "iowait", "steal", "irq", "soft", "guest", "gnice", "idle"];
const NETWORK: [&str; 8] = ["rxpck", "txpck", "rxkB", "txkB", "rxcmp", "txcmp", "rxmcst", "ifutil-percent"];
const MEMORY: [&str; 18] = [
    "memfree",
    "avail",
    "memused",
    "memused-percent",
    "buffers",
    "cached",
    "commit",
    "commit-percent",
    "active",
    "inactive",
    "dirty",
    "anonpg",
    "slab",
    "kstack",
    "pgtbl",
    "vmused",
    "swpfree",
    "swpused",
];

/// A congruential generator, which gives the same numbers on every machine, about half of them zero, as in a real log.
pub struct Numbers(u64);

impl Numbers {
    fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 31) >> 20
    }

    fn next_value(&mut self) -> f64 {
        match self.next_number() % 8 {
            0..=3 => 0.0,
            4 | 5 => (self.next_number() % 1000) as f64 * 0.01,
            6 => (self.next_number() % 100_000) as f64 * 0.01,
            _ => (self.next_number() % 10_000_000) as f64 * 0.01,
        }
    }
}

/// Writes samples until the file has its size.
pub fn write(path: &Path, shape: &Shape, bytes: u64) -> io::Result<()> {
    let mut to = BufWriter::new(CountingFile { file: File::create(path)?, bytes: 0 });
    to.write_all(shape.begin.as_bytes())?;
    let mut numbers = Numbers(1);
    let mut tick = 0;
    while to.get_ref().bytes < bytes {
        (shape.write)(&mut to, &mut numbers, tick)?;
        tick += 1;
    }
    to.write_all(shape.end.as_bytes())?;
    to.flush()
}

struct CountingFile {
    file: File,
    bytes: u64,
}

impl Write for CountingFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns date and time of a sample; there is one every second.
fn sample_time(tick: u64) -> (String, String) {
    let (day, clock) = (tick / 86_400, tick % 86_400);
    let time = format!("{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60);
    (format!("2026-03-{:02}", 2 + day % 28), time)
}

fn write_list(
    to: &mut dyn Write,
    numbers: &mut Numbers,
    report: &str,
    instance: &str,
    names: &[&str],
    instances: &[String],
) -> io::Result<()> {
    write!(to, ",\n\t\t\t\t\t\"{report}\": [")?;
    for (index, name) in instances.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(to, "{comma}\n\t\t\t\t\t\t{{\"{instance}\": \"{name}\"")?;
        let mut busy = 0.0;
        for name in names {
            let value = match *name {
                "idle" => 100.0 - busy,
                name if names == PROCESSOR.as_slice() && name != "guest" && name != "gnice" => {
                    numbers.next_value() % 10.0
                }
                "guest" | "gnice" => 0.0,
                name if name.ends_with("percent") => numbers.next_value() % 100.0,
                _ => numbers.next_value(),
            };
            busy += value;
            write!(to, ", \"{name}\": {value:.2}")?;
        }
        write!(to, "}}")?;
    }
    write!(to, "\n\t\t\t\t\t]")
}

fn disk_names() -> Vec<String> {
    (0..24u8).map(|i| format!("sd{}", char::from(b'a' + i))).collect()
}

fn write_json(to: &mut dyn Write, numbers: &mut Numbers, tick: u64, all: bool) -> io::Result<()> {
    let (date, time) = sample_time(tick);
    let comma = if tick > 0 { ",\n" } else { "" };
    write!(to, "{comma}\t\t\t\t{{\n\t\t\t\t\t\"timestamp\": {{\"date\": \"{date}\", \"time\": \"{time}\", ")?;
    write!(to, "\"utc\": 1, \"interval\": 1}}")?;
    let processors: Vec<String> = ["all".to_owned()].into_iter().chain((0..16).map(|i| i.to_string())).collect();
    write_list(to, numbers, "cpu-load", "cpu", &PROCESSOR, &processors)?;
    write_list(to, numbers, "disk", "disk-device", &DISK, &disk_names())?;
    if all {
        let names: Vec<String> = ["all".to_owned()].into_iter().chain((0..16).map(|i| format!("CPU{i}"))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let lines: Vec<String> = ["sum".to_owned()].into_iter().chain((20..60).map(|i| i.to_string())).collect();
        write_list(to, numbers, "interrupts", "intr", &names, &lines)?;
        write!(to, ",\n\t\t\t\t\t\"memory\": {{\"tlbflush\": 0")?;
        for name in MEMORY {
            write!(to, ", \"{name}\": {}", numbers.next_number() % 30_000_000)?;
        }
        write!(to, "}},\n\t\t\t\t\t\"queue\": {{\"runq-sz\": 1, \"ldavg-1\": {:.2}}}", numbers.next_value())?;
        write!(to, ",\n\t\t\t\t\t\"network\": {{\n\t\t\t\t\t\t\"net-nfs\": {{\"call\": 0.00}}")?;
        let faces: Vec<String> = (0..6).map(|i| format!("eth{i}")).collect();
        write_list(to, numbers, "net-dev", "iface", &NETWORK, &faces)?;
        write!(to, "\n\t\t\t\t\t}}")?;
    }
    write!(to, "\n\t\t\t\t}}")
}

fn write_xml(to: &mut dyn Write, numbers: &mut Numbers, tick: u64) -> io::Result<()> {
    let (date, time) = sample_time(tick);
    writeln!(to, "\t\t\t<timestamp date=\"{date}\" time=\"{time}\" utc=\"1\" interval=\"1\">")?;
    writeln!(to, "\t\t\t\t<disk per=\"second\">")?;
    for disk in disk_names() {
        write!(to, "\t\t\t\t\t<disk-device dev=\"{disk}\"")?;
        for name in DISK {
            write!(to, " {name}=\"{:.2}\"", numbers.next_value())?;
        }
        writeln!(to, "/>")?;
    }
    writeln!(to, "\t\t\t\t</disk>\n\t\t\t</timestamp>")
}

fn write_text(to: &mut dyn Write, numbers: &mut Numbers, tick: u64) -> io::Result<()> {
    let (_, time) = sample_time(tick + 1);
    for disk in disk_names() {
        write!(to, "{time} {disk:>12}")?;
        for _ in 0..7 {
            write!(to, " {:>9.2}", numbers.next_value())?;
        }
        writeln!(to)?;
    }
    Ok(())
}
