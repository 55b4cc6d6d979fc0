//! A made-up machine for the tests: an overloaded disk, and names that try to
//! break out of the page.

use diskwright_base::DatabaseActivity;
use diskwright_base::counter_ids::{memory, physical_disk, pressure};
use diskwright_base::database_activity::*;
use diskwright_base::{
    Device, DeviceClass, DeviceKind, Filesystem, Note, ProcessContainer, ProcessPlace, RaidLevel, Topology,
};
use diskwright_diagnosis::recording_hints::{LogOrigin, MissingCounters};
use diskwright_diagnosis::trends::{Trend, TrendShape, TrendStep};
use diskwright_diagnosis::verdict::*;
use diskwright_diagnosis::{Advice, Bottleneck, Severity};

use crate::chart_model::{Chart, ChartLine};
use crate::downsample::ChartBucket;

pub(crate) const EVIL: &str = "<script>alert('x')</script>";
pub(crate) const FROM_NS: i64 = 1_795_299_611_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;
const SECONDS: i64 = 300;

fn wave_buckets(middle: f64, swing: f64, shift: f64) -> Vec<ChartBucket> {
    let bucket = |i: usize| {
        if (88..100).contains(&i) {
            return ChartBucket::GAP;
        }
        let x = i as f64;
        let calm = if i < 40 { 0.12 } else { 1.0 };
        let ripple = (x * 1.7 + shift).sin() * 0.35 + (x * 0.21 + shift).sin() * 0.65;
        let mean = (middle + swing * ripple).max(0.0) * calm;
        ChartBucket { min: mean * 0.7, mean, max: mean * 1.15, gap_share: 0.0, weight: 1.0 }
    };
    (0..150).map(bucket).collect()
}

fn sample_finding(rule: &str, title: &str, instance: &str, counter: &str, numbers: [f64; 3], unit: &str) -> Finding {
    let [value, limit, share] = numbers;
    let evidence = |counter: &str, value: f64, unit: &str| Evidence {
        counter: counter.into(),
        value: Some(value).filter(|v| v.is_finite()),
        max: None,
        unit: unit.into(),
    };
    Finding {
        rule: rule.into(),
        title: title.into(),
        bottleneck: Bottleneck::Disk,
        severity: Severity::Critical,
        weight: 1.0,
        object: "physical_disk".into(),
        instance: instance.into(),
        counter: counter.into(),
        quantity: counter.into(),
        value,
        mean: Some(value * share),
        compare: "above",
        limit,
        unit: unit.into(),
        limit_disks: None,
        limit_from: None,
        share,
        value_share: None,
        judged_s: SECONDS as f64,
        since: None,
        seconds: share * SECONDS as f64,
        longest_s: 90.0,
        longest_from: "2026-11-21T22:21:31Z".into(),
        times: 2,
        stretches: vec![
            HoldInterval { from: "2026-11-21T22:21:31Z".into(), to: "2026-11-21T22:23:01Z".into() },
            HoldInterval { from: "2026-11-21T22:24:01Z".into(), to: "2026-11-21T22:25:11Z".into() },
        ],
        from: "2026-11-21T22:21:31Z".into(),
        to: "2026-11-21T22:25:11Z".into(),
        explain: "Two requests in flight keep a rotating disk busy: it serves one while the next is known. \
                  Further requests only wait. A longer queue means that the disk cannot keep up."
            .into(),
        source: "NT Resource Kit, Recognizing Disk Bottlenecks".into(),
        evidence: vec![
            evidence(physical_disk::BUSY, 0.98, "fraction"),
            evidence(physical_disk::AVG_S_PER_TRANSFER, 0.0482, "s"),
            evidence(pressure::IO_FULL, f64::NAN, "fraction"),
        ],
        advice: vec!["disk.spread".into()],
        series: sample_points(value),
    }
}

/// Returns 60 points, as many as the diagnosis gives.
fn sample_points(value: f64) -> Vec<Option<f64>> {
    let buckets = wave_buckets(value, value * 0.3, 0.0);
    (0..60).map(|index| Some(buckets[index * buckets.len() / 60].mean).filter(|v| v.is_finite())).collect()
}

fn sample_remedies() -> Vec<Advice> {
    let remedy = |id: &str, text: &str, source: &str, cost: u8| Advice {
        command: None,
        undo: None,
        id: id.into(),
        text: text.into(),
        modern: String::new(),
        source: source.into(),
        cost,
        windows: None,
        unix: None,
        when: Default::default(),
    };
    vec![
        remedy(
            "disk.move-load",
            "Move work that need not run now to quieter hours: backups, scrubs and reports that share `sda`.",
            "SAS 1998, Appendix A, tip 7",
            1,
        ),
        remedy(
            "disk.spread",
            "Spread the data over more disks: the queue of one disk becomes the work of several. \
             Put log and data on disks of their own first.",
            "NT Resource Kit, Resolving a Disk Bottleneck",
            4,
        ),
        remedy(
            "disk.faster",
            "Replace the disk by flash, which serves random requests a hundred times as fast.",
            "NT Magazine 1998; modern equivalent ours",
            6,
        ),
    ]
}

fn sample_findings() -> Vec<Finding> {
    vec![
        sample_finding(
            "disk.queue-per-spindle",
            "more than two requests wait for each disk",
            "sda",
            physical_disk::AVG_QUEUE_LENGTH,
            [6.21, 2.0, 0.93],
            "requests",
        ),
        Finding {
            severity: Severity::Warning,
            ..sample_finding(
                "disk.latency-for-class",
                "each transfer takes longer than its class of disk should need",
                "sda",
                physical_disk::AVG_S_PER_TRANSFER,
                [0.0482, 0.02, 0.88],
                "s",
            )
        },
        Finding {
            severity: Severity::Info,
            object: "machine".into(),
            quantity: "physical_disk.bytes_per_s / physical_disk.transfers_per_s".into(),
            compare: "below",
            ..sample_finding(
                "application.small-records",
                "requests are small",
                "",
                physical_disk::BYTES_PER_S,
                [7800.0, 16384.0, 0.9],
                "bytes",
            )
        },
    ]
}

fn sample_exclusions() -> Vec<Exclusion> {
    let ruled = |bottleneck, because: &str| Exclusion { bottleneck, because: because.into() };
    let memory = "no pages came back from swap, 3.1 GB are available, and tasks waited for memory 0 % of the time";
    vec![
        ruled(Bottleneck::Memory, memory),
        ruled(Bottleneck::Cpu, "processors were 12 % busy (limit 85 %)"),
        ruled(Bottleneck::Interrupts, "interrupts took 1.1 % of the processors' time (limit 15 %)"),
        ruled(Bottleneck::Network, "eth0 carried 2 % of its link"),
    ]
}

fn sample_culprits() -> Vec<Culprit> {
    let culprit = |pid: u32, name: &str, cgroup: &str, description: &str| Culprit {
        kind: "process".into(),
        pid: Some(pid),
        name: name.into(),
        cgroup: cgroup.into(),
        processes: 1,
        share: Some(0.8),
        description: description.into(),
        ..Culprit::default()
    };
    let does = "reads 11 MB/s and writes 2.4 MB/s, blocked 81 % of the time";
    let server = Culprit {
        user: Some("postgres".into()),
        command_line: Some("postgres: app shop [local] COMMIT".into()),
        place: ProcessPlace { unit: Some("postgresql.service".into()), ..ProcessPlace::default() },
        ..culprit(812, "postgres", "/system.slice/postgresql.service", does)
    };
    let contained = ProcessContainer { runtime: "docker".into(), name: Some(EVIL.into()), id: "0123456789ab".into() };
    let other = Culprit {
        command_line: Some(format!("/bin/sh -c {EVIL}")),
        place: ProcessPlace { container: Some(contained), ..ProcessPlace::default() },
        ..culprit(4711, EVIL, "/user.slice", "reads 1.9 MB/s")
    };
    vec![server, other]
}

fn sample_episode() -> Episode {
    Episode {
        rule: "cpu.saturated".into(),
        title: "the processors have no time left and work waits for them".into(),
        bottleneck: Bottleneck::Cpu,
        object: "machine".into(),
        instance: String::new(),
        share: 0.08,
        judged_s: SECONDS as f64,
        longest_s: 720.0,
        from: "2026-11-21T22:02:00.000Z".into(),
        to: "2026-11-21T22:14:00.000Z".into(),
    }
}

fn sample_trends() -> Vec<Trend> {
    let time = |text: &str| Some(text.to_owned());
    let memory = Trend {
        counter: memory::AVAILABLE_FRACTION.into(),
        quantity: memory::AVAILABLE_FRACTION.into(),
        instance: String::new(),
        unit: "fraction".into(),
        rule: "memory.low".into(),
        title: "little memory is left".into(),
        bottleneck: Bottleneck::None,
        compare: "below",
        limit: 0.05,
        shape: TrendShape::Line,
        now: 0.095,
        slope_per_day: -0.015,
        slope_low: Some(-0.018),
        slope_high: Some(-0.012),
        slope_significance: 0.001,
        crosses: time("2026-11-24T22:25:11Z"),
        crosses_earliest: time("2026-11-23T22:25:11Z"),
        crosses_latest: time("2026-11-26T22:25:11Z"),
        step: None,
        rhythm: None,
        rhythms: Vec::new(),
        matters: true,
        growing: None,
        series: sample_points(0.1),
    };
    let stepped = |counter: &str, unit: &str, [before, after, limit]: [f64; 3]| Trend {
        counter: counter.into(),
        quantity: counter.into(),
        instance: "sda".into(),
        unit: unit.into(),
        rule: "disk.queue-per-spindle".into(),
        compare: "above",
        limit,
        shape: TrendShape::Step,
        now: after,
        crosses: None,
        crosses_earliest: None,
        crosses_latest: None,
        step: Some(TrendStep { time: "2026-11-21T22:21:31Z".into(), before, after, significance: 0.002 }),
        series: sample_points(after),
        ..memory.clone()
    };
    let queue = stepped(physical_disk::AVG_QUEUE_LENGTH, "requests", [0.4, 6.2, 2.0]);
    let latency = stepped(physical_disk::AVG_S_PER_TRANSFER, "s", [0.009, 0.0482, 0.02]);
    vec![memory, queue, latency]
}

pub(crate) fn sample_verdict() -> Verdict {
    Verdict {
        schema: "diskwright.verdict/1",
        pack: "default".into(),
        pack_title: "Diskwright's own rules".into(),
        host: "db1".into(),
        bottleneck: Bottleneck::Disk,
        bottlenecks: Vec::new(),
        instance: "sda".into(),
        confidence: 0.92,
        sentence: "The disk sda is the bottleneck: it cannot keep up with its requests, so each of them waits \
                   48 ms where the disk alone needs 9 ms."
            .into(),
        events: Vec::new(),
        changes: Vec::new(),
        has_process_tables: true,
        findings: sample_findings(),
        episodes: vec![sample_episode()],
        phases: Vec::new(),
        set_aside: vec![SetAsideFinding {
            rule: "application.small-records".into(),
            title: "requests are small".into(),
            bottleneck: Bottleneck::Application,
            instance: "sda".into(),
            because:
                "small requests are not the cause while the disk has no capacity to spare (disk.queue-per-spindle \
                 holds)"
                    .into(),
        }],
        ended: None,
        ruled_out: sample_exclusions(),
        missing: missing_counters(),
        unjudged: unjudged_rules(),
        ranking: vec![Rank { bottleneck: Bottleneck::Disk, score: 1.1, findings: Vec::new() }],
        ceilings: Vec::new(),
        culprits: sample_culprits(),
        unlisted: Vec::new(),
        requesters: Vec::new(),
        volumes: Vec::new(),
        cloud_instance: None,
        databases: Vec::new(),
        programs: Vec::new(),
        advice: sample_remedies(),
        notes: sample_remarks(),
        send_next: Vec::new(),
        captures: Vec::new(),
        certainty_limits: vec!["The machine was watched for 5 min; what comes by the day was not seen.".into()],
        trends: sample_trends(),
        trend_questions: 840,
        window: WatchWindow {
            from: "2026-11-21T22:20:11Z".into(),
            to: "2026-11-21T22:25:11Z".into(),
            seconds: SECONDS as f64,
            ticks: 288,
            gaps: 1,
            ticks_missed: 0,
            reports: None,
            is_dated: true,
        },
    }
}

fn sample_remarks() -> Vec<LogRemark> {
    vec![
        LogRemark {
            time: "2026-11-21T22:23:07Z".into(),
            kind: "gap".into(),
            text: "the recorder was stopped for 24 s".into(),
            times: 1,
        },
        LogRemark {
            time: "2026-11-21T22:20:11Z".into(),
            kind: "unseen".into(),
            text: "/proc/mdstat: no such file".into(),
            times: 3,
        },
    ]
}

fn missing_counters() -> MissingCounters {
    let unjudged = unjudged_rules();
    MissingCounters::from_counters(unjudged.iter().flat_map(UnjudgedRule::unrecorded_counters), LogOrigin::Perfmon)
}

fn unjudged_rules() -> Vec<UnjudgedRule> {
    let missing = |ids: &[&str]| ids.iter().map(|id| id.to_string()).collect();
    vec![
        UnjudgedRule {
            rule: "controller.full".into(),
            bottleneck: Bottleneck::Controller,
            missing: missing(&["physical_disk.ceiling.bytes_per_s"]),
            has_only_gaps: false,
        },
        UnjudgedRule {
            rule: "memory.low".into(),
            bottleneck: Bottleneck::Memory,
            missing: missing(&[memory::AVAILABLE_BYTES, pressure::MEMORY_SOME]),
            has_only_gaps: false,
        },
    ]
}

/// Programs of a machine without a bottleneck to blame.
pub(crate) fn sample_programs() -> Vec<ProgramActivity> {
    let lock = Sleep { kind: "lock".into(), waits_in: "futex_wait_queue".into(), threads: 24 };
    let program = |name: &str, pid: u32| ProgramActivity {
        name: name.into(),
        pid,
        processes: 1,
        processor: 0.08,
        blocked: 0.0,
        sleeps: vec![lock.clone()],
        description: "8 % of a processor, 24 threads wait for a lock, or for work (futex_wait_queue)".into(),
        next_step: format!("find out who holds the lock: `gdb -p {pid} -batch -ex 'thread apply all bt'`"),
    };
    vec![program("shop", 31), program(EVIL, 4711)]
}

pub(crate) fn other_verdict() -> Verdict {
    let mut other = sample_verdict();
    other.pack = "sql7-1999".into();
    other.pack_title = "SQL Server 7.0 tuning, 1999".into();
    other.bottleneck = Bottleneck::None;
    other.instance = String::new();
    other.confidence = 0.5;
    other.sentence = "No bottleneck found.".into();
    other.findings.clear();
    other
}

pub(crate) fn sample_chart(counter: &str, instances: &[&str], middle: f64) -> Chart {
    let line = |(index, name): (usize, &&str)| ChartLine {
        instance: (*name).into(),
        buckets: wave_buckets(middle / (index + 1) as f64, middle * 0.25, index as f64 * 2.0),
    };
    let lines = instances.iter().enumerate().map(line).collect();
    Chart::new(counter, FROM_NS, FROM_NS + SECONDS * SECOND_NS, lines)
}

/// The chart of the verdict's finding.
pub(crate) fn finding_chart(index: usize, middle: f64) -> Chart {
    let finding = &sample_findings()[index];
    let mut chart = sample_chart(&finding.counter, &[&finding.instance], middle);
    crate::chart_book::mark_finding(&mut chart, finding);
    chart
}

pub(crate) fn sample_notes() -> Vec<Note> {
    vec![
        Note::new(FROM_NS + 80 * SECOND_NS, Note::BOOKMARK, "nightly report started"),
        Note::new(FROM_NS + 212 * SECOND_NS, Note::BOOKMARK, format!("tried {EVIL}")),
        Note::new(FROM_NS + 176 * SECOND_NS, Note::GAP, "the recorder was stopped for 24 s"),
        Note::new(FROM_NS, Note::UNSEEN, "/proc/mdstat: no such file"),
    ]
}

pub(crate) fn sample_topology() -> Topology {
    let disk = |name: &str, model: &str| Device {
        name: name.into(),
        kind: DeviceKind::Disk,
        class: DeviceClass::Rotational,
        bytes: Some(4_000_787_030_016),
        model: Some(model.into()),
        scheduler: Some("mq-deadline".into()),
        write_cache: Some("write back".into()),
        ..Device::default()
    };
    let part = |name: &str, below: &str| Device {
        name: name.into(),
        kind: DeviceKind::Partition,
        class: DeviceClass::Rotational,
        below: vec![below.into()],
        bytes: Some(3_999_000_000_000),
        ..Device::default()
    };
    let md = Device {
        name: "md0".into(),
        kind: DeviceKind::Md,
        class: DeviceClass::Rotational,
        below: vec!["sda1".into(), "sdb1".into()],
        level: Some(RaidLevel::Raid1),
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
        page_bytes: 0,
        cloud_instance: None,
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

/// A verdict with a PostgreSQL server of a bad hour, and a MariaDB server of which little is known.
pub(crate) fn verdict_with_databases() -> Verdict {
    let mysql = DatabaseActivity {
        name: "mysql:local".into(),
        engine: "mysql".into(),
        version: "10.11.6-MariaDB".into(),
        elapsed_s: 300.0,
        samples: 1,
        ..DatabaseActivity::default()
    };
    Verdict { databases: vec![sample_postgres(), mysql], ..sample_verdict() }
}

/// The session that holds a lock.
fn sample_holder() -> SessionIdentity {
    SessionIdentity {
        id: 1122,
        user: "app".into(),
        application: "psql".into(),
        client: "10.0.0.7".into(),
        ..SessionIdentity::default()
    }
}

/// What the holder executed last.
const HOLDER_STATEMENT: &str = "UPDATE orders SET note = ? WHERE id = ?";

fn sample_transactions() -> Vec<TransactionRow> {
    let other = SessionIdentity { id: 1130, application: EVIL.into(), ..SessionIdentity::default() };
    let transaction = |identity, transaction_s, statement: &str| TransactionRow {
        identity,
        state: "idle in transaction".into(),
        transaction_s,
        statement: statement.into(),
    };
    vec![transaction(sample_holder(), 212.0, HOLDER_STATEMENT), transaction(other, 3.0, EVIL)]
}

fn sample_postgres() -> DatabaseActivity {
    let settings = [("max_wal_size", "64MB"), ("checkpoint_timeout", "5min")];
    let lock = LockRow {
        holder: sample_holder(),
        state: "idle in transaction".into(),
        is_idle: true,
        statement: HOLDER_STATEMENT.into(),
        transaction_s: Some(212.0),
        what: "a row of public.orders".into(),
        waiting: 2,
        longest_wait_s: 198.0,
        ..LockRow::default()
    };
    let wait = |event: &str, waited_s: f64| WaitRow { event: event.into(), waited_s };
    let times = SessionTimes { active_s: 250.0, lock_s: 240.0, log_s: 6.0, data_s: 0.0 };
    DatabaseActivity {
        name: "postgres:shop".into(),
        engine: "postgres".into(),
        version: "16.4".into(),
        is_local: true,
        elapsed_s: 300.0,
        samples: 60,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        locks: vec![lock],
        statements: vec![StatementRow { statement: HOLDER_STATEMENT.into(), times, ..StatementRow::default() }],
        relations: vec![RelationRow {
            name: "public.orders".into(),
            read_bytes: 48e6,
            written_bytes: None,
            rows_changed: Some(120_000.0),
        }],
        processes: vec![DatabaseProcessRow {
            kind: "checkpointer".into(),
            written_bytes: 480e6,
            syncs: 96.0,
            write_s: Some(31.0),
            sync_s: Some(12.0),
            ..DatabaseProcessRow::default()
        }],
        waits: vec![wait("Lock: transactionid", 240.0), wait("IO: WALSync", 6.2), wait(EVIL, 0.2)],
        transactions: sample_transactions(),
        checkpoints: Some(CheckpointSums {
            timed: 2.0,
            requested: 14.0,
            written_bytes: 480e6,
            write_s: 55.0,
            sync_s: 12.0,
            hurrying_s: 40.0,
        }),
        ..DatabaseActivity::default()
    }
}
