//! Synthetic recordings: series as functions of the tick, by default one tick per second.

// each test file uses a part of this
#![allow(dead_code)]

#[path = "../../../../foundation/statistics/src/noise.rs"]
pub mod noise;

use std::sync::Arc;

use diskwright_base::{Device, DeviceClass, Frame, Note, RaidLevel, Schema, Series, Tick, Topology};
use diskwright_diagnosis::{Finding, Judge, JudgeOptions, Pack, Verdict};

pub const SECOND: u64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z.
pub const START: i64 = 1_767_225_600 * SECOND as i64;

type Values = Box<dyn Fn(usize) -> f64>;

/// A synthetic recording.
pub struct Recording {
    pub ticks: usize,
    tick_ns: u64,
    series: Vec<(Series, Values)>,
    topology: Option<Topology>,
    start_ns: i64,
}

impl Recording {
    pub fn new(ticks: usize) -> Recording {
        Recording { ticks, tick_ns: SECOND, series: Vec::new(), topology: None, start_ns: START }
    }

    /// The same with ticks of so many seconds.
    pub fn every(self, tick_s: u64) -> Recording {
        Recording { tick_ns: tick_s * SECOND, ..self }
    }

    /// The same with ticks of so many milliseconds.
    pub fn every_ms(self, tick_ms: u64) -> Recording {
        Recording { tick_ns: tick_ms * SECOND / 1000, ..self }
    }

    /// A series whose cells are in the counter's unit.
    pub fn with(mut self, counter: &str, instance: &str, values: impl Fn(usize) -> f64 + 'static) -> Recording {
        let series = Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
        self.series.push((series, Box::new(values)));
        self
    }

    /// The same without the series of a counter.
    pub fn without(mut self, counter: &str) -> Recording {
        self.series.retain(|(series, _)| series.counter != counter);
        self
    }

    /// A series of one value, unless the recording has that series already.
    pub fn unless_there(self, counter: &str, instance: &str, value: f64) -> Recording {
        let there = self.series.iter().any(|(s, _)| s.counter == counter && s.instance == instance);
        if there { self } else { self.with(counter, instance, move |_| value) }
    }

    /// A disk under steady load: reads a second, seconds a read, share of time busy.
    pub fn disk(self, name: &str, reads: f64, seconds: f64, busy: f64) -> Recording {
        self.with("physical_disk.reads", name, move |_| reads)
            .with("physical_disk.writes", name, |_| 0.0)
            .with("physical_disk.read_bytes", name, move |_| reads * 4096.0)
            .with("physical_disk.write_bytes", name, |_| 0.0)
            .with("physical_disk.read_time_s", name, move |_| reads * seconds)
            .with("physical_disk.write_time_s", name, |_| 0.0)
            .with("physical_disk.weighted_time_s", name, move |_| reads * seconds)
            .with("physical_disk.busy_time_s", name, move |_| busy)
    }

    /// Sets the time at which it begins.
    pub fn start(&mut self, start_ns: i64) {
        self.start_ns = start_ns;
    }

    pub fn topology(mut self, topology: Topology) -> Recording {
        self.topology = Some(topology);
        self
    }

    /// The topology that was given.
    pub fn described(&self) -> &Topology {
        self.topology.as_ref().expect("a topology was given")
    }

    pub fn frame(&self, ticks: std::ops::Range<usize>) -> Frame {
        let schema = Schema::new(self.series.iter().map(|(s, _)| s.clone()).collect());
        let mut frame = Frame::new(Arc::new(schema), ticks.len());
        for i in ticks {
            let row: Vec<f64> = self.series.iter().map(|(_, values)| values(i)).collect();
            let time_ns = self.start_ns + (i as i64 + 1) * self.tick_ns as i64;
            frame.push(Tick { time_ns, elapsed_ns: self.tick_ns }, &row);
        }
        frame
    }

    pub fn options(&self) -> JudgeOptions {
        JudgeOptions {
            expected: Some((self.start_ns, self.start_ns + (self.ticks as u64 * self.tick_ns) as i64)),
            ..JudgeOptions::default()
        }
    }

    /// A disk that is always busy: reads and writes a second, bytes and seconds of each.
    pub fn with_disk(self, name: &str, reads: f64, writes: f64, size: f64, seconds: f64) -> Recording {
        self.with("physical_disk.reads", name, move |_| reads)
            .with("physical_disk.writes", name, move |_| writes)
            .with("physical_disk.read_bytes", name, move |_| reads * size)
            .with("physical_disk.write_bytes", name, move |_| writes * size)
            .with("physical_disk.read_time_s", name, move |_| reads * seconds)
            .with("physical_disk.write_time_s", name, move |_| writes * seconds)
            .with("physical_disk.weighted_time_s", name, move |_| (reads + writes) * seconds)
            .with("physical_disk.busy_time_s", name, |_| 1.0)
    }

    /// Judged by packs, in frames of `cut` ticks.
    pub fn judge(&self, packs: Vec<Pack>, options: JudgeOptions, cut: usize) -> Vec<Verdict> {
        let mut judge = Judge::new(packs, options);
        if let Some(topology) = &self.topology {
            judge.add_note(&Note::new(START, Note::TOPOLOGY, serde_json::to_string(topology).unwrap()));
        }
        for start in (0..self.ticks).step_by(cut) {
            judge.add_frame(&self.frame(start..(start + cut).min(self.ticks)));
        }
        judge.finish()
    }

    /// Judged by the rules in `text`.
    pub fn by(&self, text: &str) -> Verdict {
        self.judge(vec![pack(text)], self.options(), self.ticks.max(1)).remove(0)
    }

    /// Judged by the default pack, with process tables.
    pub fn with_tables(&self, tables: &[Note]) -> Verdict {
        self.read_by_clock(tables, None)
    }

    /// The same, read when this clock says.
    pub fn read_by_clock(&self, tables: &[Note], clock: Option<fn() -> i64>) -> Verdict {
        let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
        let mut judge = Judge::new(vec![pack], JudgeOptions { clock, ..self.options() });
        judge.add_note(&Note::new(START, Note::TOPOLOGY, serde_json::to_string(self.described()).unwrap()));
        tables.iter().for_each(|note| judge.add_note(note));
        judge.add_frame(&self.frame(0..self.ticks));
        judge.finish().remove(0)
    }

    /// Judged by the default pack.
    pub fn by_default(&self) -> Verdict {
        let pack = diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap();
        self.judge(vec![pack], self.options(), self.ticks.max(1)).remove(0)
    }
}

/// A pack of the rules in `text`; each lacks only what every rule must have.
pub fn pack(text: &str) -> Pack {
    let head = "[pack]\nid = \"t\"\ntitle = \"t\"\nsource = \"s\"\nexplain = \"e\"\n";
    let mut body = String::new();
    for rule in text.split("[[rule]]").skip(1) {
        body += "[[rule]]\n";
        for (key, default) in [
            ("title", "\"it is so\""),
            ("object", "\"physical_disk\""),
            ("bottleneck", "\"disk\""),
            ("severity", "\"critical\""),
            ("source", "\"s\""),
            ("explain", "\"e\""),
        ] {
            if !rule.lines().any(|line| line.trim_start().starts_with(&format!("{key} ="))) {
                body += &format!("{key} = {default}\n");
            }
        }
        body += rule;
        body.push('\n');
    }
    Pack::load("rules/t.toml", &format!("{head}{body}")).unwrap_or_else(|error| panic!("{error}"))
}

/// A pack of one rule `r` with one condition, on a physical disk.
pub fn one(condition: &str) -> String {
    format!("[[rule]]\nid = \"r\"\nall = [{{ {condition} }}]\n")
}

pub fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
}

/// The only finding.
pub fn only(verdict: &Verdict) -> &Finding {
    assert_eq!(verdict.findings.len(), 1, "{:#?}", verdict.findings);
    &verdict.findings[0]
}

pub fn device(name: &str, class: DeviceClass, below: &[&str], level: Option<RaidLevel>) -> Device {
    Device {
        name: name.into(),
        class,
        below: below.iter().map(|s| s.to_string()).collect(),
        level,
        ..Device::default()
    }
}

/// `sda`, `sdb`, … of a class, and an array over them.
pub fn array(members: usize, class: DeviceClass, level: RaidLevel) -> Topology {
    let names: Vec<String> = (0..members).map(|i| format!("sd{}", (b'a' + i as u8) as char)).collect();
    let mut devices: Vec<Device> = names.iter().map(|n| device(n, class, &[], None)).collect();
    let below: Vec<&str> = names.iter().map(String::as_str).collect();
    devices.push(device("md0", class, &below, Some(level)));
    Topology { devices, processors: 2, ..Topology::default() }
}
