//! Logs in the shapes of the tools, with the same numbers each time.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A kind of log to generate.
pub struct ToolShape {
    /// File name.
    pub file: &'static str,
    /// Title for the output.
    pub title: &'static str,
    /// Number of lines above the headings, and the separator, where it is a table.
    pub table: Option<(u32, &'static str)>,
    begin: fn() -> String,
    tick: fn(&mut String, &mut Figures, u64),
}

const DISKS: u64 = 24;
const PROCESSORS: u64 = 16;

/// All kinds of logs.
pub const SHAPES: &[ToolShape] = &[
    ToolShape {
        file: "dstat.csv",
        title: "dstat --full, CSV",
        table: Some((6, ",")),
        begin: dstat_head,
        tick: dstat_row,
    },
    ToolShape { file: "nmon.nmon", title: "nmon of Linux", table: None, begin: nmon_head, tick: nmon_tick },
    ToolShape {
        file: "collectl.txt",
        title: "collectl -P, details",
        table: Some((6, " ")),
        begin: collectl_table_head,
        tick: collectl_row,
    },
    ToolShape { file: "collectl.raw", title: "collectl, recording", table: None, begin: collectl_head, tick: raw_tick },
    ToolShape {
        file: "atop.txt",
        title: "atop -P ALL, 60 processes",
        table: None,
        begin: String::new,
        tick: atop_tick,
    },
    ToolShape {
        file: "panel.csv",
        title: "CSV of a dashboard",
        table: Some((0, ",")),
        begin: panel_head,
        tick: panel_row,
    },
];

/// A congruential generator, which gives the same numbers on every machine.
pub struct Figures(u64);

impl Figures {
    fn next_below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn next_value(&mut self) -> f64 {
        self.next_below(1_000_000) as f64 * 1e-3
    }
}

/// Writes a log of about `bytes` bytes.
pub fn write(path: &Path, shape: &ToolShape, bytes: u64) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut text = (shape.begin)();
    let (mut figures, mut written, mut tick) = (Figures(7), 0, 0);
    while written < bytes {
        (shape.tick)(&mut text, &mut figures, tick);
        file.write_all(text.as_bytes())?;
        written += text.len() as u64;
        tick += 1;
        text.clear();
    }
    file.flush()
}

/// Returns day and time of a tick; there is one every second.
fn tick_time(tick: u64) -> (u64, String) {
    let (day, clock) = (tick / 86_400, tick % 86_400);
    (2 + day % 28, format!("{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60))
}

fn disk_name(offset: u64) -> String {
    format!("sd{}", char::from(b'a' + offset as u8))
}

fn join_all(count: u64, form: impl Fn(u64) -> String) -> String {
    (0..count).map(form).collect()
}

fn dstat_head() -> String {
    let groups = join_all(DISKS, |d| format!(",\"dsk/{}\",", disk_name(d)))
        + &join_all(DISKS, |d| format!(",\"io/{}\",", disk_name(d)));
    let columns = join_all(DISKS, |d| format!(",\"dsk/{0}:read\",\"dsk/{0}:writ\"", disk_name(d)))
        + &join_all(DISKS, |d| format!(",\"io/{0}:read\",\"io/{0}:writ\"", disk_name(d)));
    format!(
        "\"Dstat 0.7.3 CSV output\"\n\"Author:\",\"x\",,,,\"URL:\",\"http://x/\"\n\
         \"Host:\",\"db1\",,,,\"User:\",\"root\"\n\
         \"Cmdline:\",\"dstat\",,,,\"Date:\",\"02 Mar 2026 00:00:00 UTC\"\n\n\
         \"epoch\",\"total cpu usage\",,,,{groups}\n\
         \"epoch\",\"usr\",\"sys\",\"idl\",\"wai\",\"stl\"{columns}\n"
    )
}

fn dstat_row(to: &mut String, figures: &mut Figures, tick: u64) {
    *to += &format!("{}.250,30.5,9.5,40.0,20.0,0.0", 1_772_409_600 + tick);
    *to += &join_all(2 * DISKS, |_| format!(",{:.3}", tick_value(tick)));
    (0..2 * DISKS).for_each(|_| *to += &format!(",{:.3}", figures.next_value()));
    *to += "\n";
}

/// Returns a number that changes from tick to tick.
fn tick_value(tick: u64) -> f64 {
    (tick.wrapping_mul(7919) % 1_000_000_007) as f64 * 1e-1
}

fn nmon_head() -> String {
    let mut text = "AAA,progname,nmon\nAAA,host,db1\nAAA,OS,Linux,6.1.0\n".to_owned();
    let disks = join_all(DISKS, |d| format!(",{}", disk_name(d)));
    for section in ["DISKBUSY", "DISKREAD", "DISKWRITE", "DISKXFER", "DISKBSIZE"] {
        text += &format!("{section},Disks db1{disks}\n");
    }
    text += &join_all(PROCESSORS, |p| format!("CPU{:03},CPU {} db1,User%,Sys%,Wait%,Idle%,Steal%\n", p + 1, p + 1));
    text
}

fn nmon_tick(to: &mut String, figures: &mut Figures, tick: u64) {
    let (day, clock) = tick_time(tick);
    let number = tick + 1;
    *to += &format!("ZZZZ,T{number:04},{clock},{day:02}-MAR-2026\n");
    *to += &join_all(PROCESSORS, |p| format!("CPU{:03},T{number:04},30.5,9.5,20.0,40.0,0.0\n", p + 1));
    for section in ["DISKBUSY", "DISKREAD", "DISKWRITE", "DISKXFER", "DISKBSIZE"] {
        *to += &format!("{section},T{number:04}");
        (0..DISKS).for_each(|_| *to += &format!(",{:.1}", figures.next_value() / 10.0));
        *to += "\n";
    }
}

fn collectl_head() -> String {
    "####\n# Collectl:   V4.3.1-1\n# Host:       db1  DaemonOpts:\n\
     # Date:       20260302-000000  Secs: 1772409600 TZ: +0000\n\
     # HZ:         100  Arch: x86_64 PageSize: 4096\n####\n"
        .to_owned()
}

fn collectl_table_head() -> String {
    let disks = join_all(DISKS, |d| {
        let names = [
            "Name", "Reads", "RMerge", "RKBytes", "WaitR", "Writes", "WMerge", "WKBytes", "WaitW", "Request", "QueLen",
            "Wait", "SvcTim", "Util",
        ];
        names.map(|name| format!(" [DSK:{}]{name}", disk_name(d))).concat()
    });
    collectl_head() + &format!("#Date Time{disks}\n")
}

fn collectl_row(to: &mut String, figures: &mut Figures, tick: u64) {
    let (day, clock) = tick_time(tick);
    *to += &format!("202603{day:02} {clock}");
    for d in 0..DISKS {
        *to += &format!(" {}", disk_name(d));
        (0..12).for_each(|_| *to += &format!(" {}", figures.next_below(5000)));
        *to += &format!(" {}", figures.next_below(100));
    }
    *to += "\n";
}

fn raw_tick(to: &mut String, figures: &mut Figures, tick: u64) {
    *to += &format!(">>> {}.001 <<<\ncpu  {} 0 {tick} {} 0 0 0 0 0 0\n", 1_772_409_600 + tick, 70_000 + tick, 5 * tick);
    *to += &join_all(PROCESSORS, |p| format!("cpu{p} {} 0 {tick} {} 0 0 0 0 0 0\n", 70_000 + tick, 5 * tick));
    for d in 0..DISKS {
        let more = tick * 1000 + figures.next_below(1000);
        *to += &format!(
            "disk    8 {:>7} {} {more} 14530 {more} 62056 {more} 120978 {more} 185521 0 {tick} {more}\n",
            16 * d,
            disk_name(d)
        );
    }
    *to += &format!(
        "ctxt {}\nprocs_running 5\nMemTotal:       24684092 kB\nMemFree:        {} kB\n",
        900 * tick,
        figures.next_below(1 << 24)
    );
}

fn atop_tick(to: &mut String, figures: &mut Figures, tick: u64) {
    let (day, clock) = tick_time(tick);
    let head = format!("db1 {} 2026/03/{day:02} {clock} 1", 1_772_409_600 + tick);
    *to += &join_all(PROCESSORS, |p| format!("cpu {head} 100 {p} 10 30 0 40 20 0 0 0 0 2596 100 0 0\n"));
    (0..DISKS).for_each(|d| {
        *to += &format!(
            "DSK {head} {} {} 100 1600 50 400 0 0 1 {:.2}\n",
            disk_name(d),
            figures.next_below(1000),
            figures.next_value() / 100.0
        )
    });
    for p in 1..=60 {
        *to += &format!(
            "PRG {head} {p} (postgres) S 0 0 {p} 1 0 1772409000 (postgres: writer process) \
             1 0 1 0 0 0 0 0 0 0 0 y 0 0 - N ()\n"
        );
        *to += &format!(
            "PRC {head} {p} (postgres) S 100 {} 20 0 120 0 0 1 0 {p} y 0 (ep_poll) 25 -3 -3\n",
            figures.next_below(100)
        );
        *to += &format!("PRM {head} {p} (postgres) S 4096 9000 2048 1 0 0 5 0 1 1 1 0 {p} y 0 0 -3 -3 -3 -3\n");
        *to += &format!("PRD {head} {p} (postgres) S n y 10 1600 5 400 0 {p} n y\n");
    }
    *to += "SEP\n";
}

fn panel_head() -> String {
    format!(
        "Time{}\n",
        join_all(DISKS, |d| format!(",physical_disk.reads_per_s {0},physical_disk.avg_s_per_read {0}", disk_name(d)))
    )
}

fn panel_row(to: &mut String, figures: &mut Figures, tick: u64) {
    let (day, clock) = tick_time(tick);
    *to += &format!("2026-03-{day:02} {clock}");
    (0..DISKS).for_each(|_| *to += &format!(",{:.2},{:.5}", figures.next_value(), figures.next_value() * 1e-3));
    *to += "\n";
}
