//! A made-up machine for the tests: a disk that is asked for too much, with
//! names that try to break out of the page.

use diskwright_base::{Class, Device, DeviceKind, Filesystem, Level, Note, Topology};

use crate::downsample::Bucket;
use crate::model::{Chart, Line};
use crate::verdict::*;

pub(crate) const EVIL: &str = "<script>alert('x')</script>";
pub(crate) const FROM_NS: i64 = 1_795_299_611_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;
const SECONDS: i64 = 300;

fn wave(middle: f64, swing: f64, shift: f64) -> Vec<Bucket> {
    let bucket = |i: usize| {
        if (88..100).contains(&i) {
            return Bucket::GAP;
        }
        let x = i as f64;
        let calm = if i < 40 { 0.12 } else { 1.0 };
        let ripple = (x * 1.7 + shift).sin() * 0.35 + (x * 0.21 + shift).sin() * 0.65;
        let mean = (middle + swing * ripple).max(0.0) * calm;
        Bucket { least: mean * 0.7, mean, most: mean * 1.15, gap_share: 0.0 }
    };
    (0..150).map(bucket).collect()
}

fn finding(rule: &str, title: &str, instance: &str, counter: &str, numbers: [f64; 3], unit: &str) -> Finding {
    let [value, limit, share] = numbers;
    Finding {
        rule: rule.into(),
        title: title.into(),
        bottleneck: Bottleneck::Disk,
        severity: Severity::Critical,
        object: "physical_disk".into(),
        instance: instance.into(),
        counter: counter.into(),
        value,
        limit,
        above: true,
        unit: unit.into(),
        share,
        from_ns: FROM_NS + 80 * SECOND_NS,
        to_ns: FROM_NS + SECONDS * SECOND_NS,
        explain: "Two requests outstanding keep a turning disk at work: it serves one while the next is known. \
                  What waits beyond them only waits. The longer queue is the mark of a disk that is asked for \
                  more than it can do."
            .into(),
        source: "doc 003, Recognizing Disk Bottlenecks".into(),
        evidence: vec![
            Evidence {
                counter: "physical_disk.busy".into(),
                instance: instance.into(),
                value: 0.98,
                unit: "fraction".into(),
            },
            Evidence {
                counter: "physical_disk.avg_s_per_transfer".into(),
                instance: instance.into(),
                value: 0.0482,
                unit: "s".into(),
            },
        ],
        series: wave(value, value * 0.3, 0.0).iter().map(|b| b.mean).collect(),
    }
}

pub(crate) fn verdict() -> Verdict {
    let remedy =
        |id: &str, text: &str, source: &str| Remedy { id: id.into(), text: text.into(), source: source.into() };
    Verdict {
        pack: "default".into(),
        host: "db1".into(),
        bottleneck: Bottleneck::Disk,
        instance: "sda".into(),
        confidence: 0.92,
        sentence: "The disk sda holds this machine back: it is asked for more than it can serve, so that each \
                   request waits 48 ms where the disk alone needs 9 ms."
            .into(),
        findings: vec![
            finding(
                "disk.queue-per-spindle",
                "more than two requests wait for each disk",
                "sda",
                "physical_disk.avg_queue_length",
                [6.21, 2.0, 0.93],
                "requests",
            ),
            Finding {
                severity: Severity::Warning,
                ..finding(
                    "disk.latency-for-class",
                    "each transfer takes longer than its class of disk should need",
                    "sda",
                    "physical_disk.avg_s_per_transfer",
                    [0.0482, 0.02, 0.88],
                    "s",
                )
            },
            Finding {
                severity: Severity::Info,
                object: "machine".into(),
                ..finding(
                    "disk.waiting",
                    "tasks stand still for I/O",
                    "",
                    "pressure.io_some",
                    [0.71, 0.2, 0.9],
                    "fraction",
                )
            },
        ],
        ruled_out: vec![
            RuledOut {
                bottleneck: Bottleneck::Memory,
                because:
                    "no pages came back from swap, 3.1 GB are available, and tasks waited for memory 0 % of the time"
                        .into(),
            },
            RuledOut { bottleneck: Bottleneck::Cpu, because: "processors were 12 % busy (limit 85 %)".into() },
            RuledOut {
                bottleneck: Bottleneck::Interrupts,
                because: "interrupts took 1.1 % of the processors' time (limit 15 %)".into(),
            },
            RuledOut { bottleneck: Bottleneck::Network, because: "eth0 carried 2 % of its link".into() },
        ],
        set_aside: vec![SetAside {
            rule: "application.small-records".into(),
            instance: "sda".into(),
            because: "small requests are no cause while the disk has no room to spare (disk.queue-per-spindle holds)"
                .into(),
        }],
        unjudged: vec![Unjudged {
            rule: "controller.full".into(),
            missing: vec!["physical_disk.ceiling.bytes_per_s".into()],
        }],
        culprits: vec![
            Culprit {
                name: "postgres".into(),
                pid: Some(812),
                cgroup: "/system.slice/postgresql.service".into(),
                does: "reads 11 MB/s and writes 2.4 MB/s, blocked 81 % of the time".into(),
            },
            Culprit { name: EVIL.into(), pid: Some(4711), cgroup: "/user.slice".into(), does: "reads 1.9 MB/s".into() },
        ],
        advice: vec![
            remedy(
                "disk.move-load",
                "Move work that need not run now to quieter hours: backups, scrubs and reports that share `sda`.",
                "doc 000, Appendix A, tip 7",
            ),
            remedy(
                "disk.spread",
                "Spread the data over more disks: the queue of one disk becomes the work of several. \
                 Put log and data on disks of their own first.",
                "doc 003, Resolving a Disk Bottleneck",
            ),
            remedy(
                "disk.faster",
                "Replace the disk by flash, which serves random requests a hundred times as fast.",
                "doc 002; modern equivalent ours",
            ),
        ],
        notes: vec!["a check of md0 was running from 22:21:00 on".into()],
        certainty_limits: vec!["The machine was watched for 5 min; what comes by the day was not seen.".into()],
        window: Window {
            from_ns: FROM_NS,
            to_ns: FROM_NS + SECONDS * SECOND_NS,
            seconds: SECONDS as f64,
            ticks: 288,
            gaps: 1,
        },
    }
}

/// A pack that sees it otherwise.
pub(crate) fn other_verdict() -> Verdict {
    let mut other = verdict();
    other.pack = "sql7-1999".into();
    other.bottleneck = Bottleneck::None;
    other.instance = String::new();
    other.confidence = 0.5;
    other.sentence = "Nothing holds this machine back.".into();
    other.findings.clear();
    other
}

pub(crate) fn chart(counter: &str, instances: &[&str], middle: f64) -> Chart {
    let line = |(at, name): (usize, &&str)| Line {
        instance: (*name).into(),
        buckets: wave(middle / (at + 1) as f64, middle * 0.25, at as f64 * 2.0),
    };
    let lines = instances.iter().enumerate().map(line).collect();
    Chart::new(counter, FROM_NS, FROM_NS + SECONDS * SECOND_NS, lines)
}

pub(crate) fn notes() -> Vec<Note> {
    vec![
        Note::new(FROM_NS + 80 * SECOND_NS, Note::BOOKMARK, "nightly report started"),
        Note::new(FROM_NS + 212 * SECOND_NS, Note::BOOKMARK, format!("tried {EVIL}")),
        Note::new(FROM_NS + 176 * SECOND_NS, Note::GAP, "the recorder was stopped for 24 s"),
        Note::new(FROM_NS, Note::UNSEEN, "/proc/mdstat: no such file"),
    ]
}

pub(crate) fn topology() -> Topology {
    let disk = |name: &str, model: &str| Device {
        name: name.into(),
        kind: DeviceKind::Disk,
        class: Class::Rotational,
        bytes: Some(4_000_787_030_016),
        model: Some(model.into()),
        scheduler: Some("mq-deadline".into()),
        write_cache: Some("write back".into()),
        ..Device::default()
    };
    let part = |name: &str, below: &str| Device {
        name: name.into(),
        kind: DeviceKind::Partition,
        class: Class::Rotational,
        below: vec![below.into()],
        bytes: Some(3_999_000_000_000),
        ..Device::default()
    };
    let md = Device {
        name: "md0".into(),
        kind: DeviceKind::Md,
        class: Class::Rotational,
        below: vec!["sda1".into(), "sdb1".into()],
        level: Some(Level::Raid1),
        missing: 1,
        background: Some("check".into()),
        bytes: Some(3_999_000_000_000),
        ..Device::default()
    };
    Topology {
        host: "db1".into(),
        kernel: "6.1.0-28-amd64".into(),
        processors: 8,
        memory_bytes: 33_567_000_000,
        devices: vec![
            disk("sda", "HGST HUS726T4TALA6L4"),
            part("sda1", "sda"),
            disk("sdb", EVIL),
            part("sdb1", "sdb"),
            md,
        ],
        filesystems: vec![Filesystem {
            mount: "/var/lib/postgresql".into(),
            kind: "ext4".into(),
            device: "md0".into(),
        }],
        swaps: Vec::new(),
    }
}
