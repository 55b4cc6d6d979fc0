//! What begins within the window and lasts to its end is a bottleneck too; what ended, what comes and goes, and what
//! lasts for a moment is none.

use crate::common::*;
use diskwright_base::{DeviceClass, Topology};
use diskwright_diagnosis::{Bottleneck, Verdict};

const DISK: Bottleneck = Bottleneck::Disk;
const CPU: Bottleneck = Bottleneck::Cpu;
/// A rule of the whole window needs two fifths of it: a job in the last quarter is hidden by the calm before.
const TICKS: usize = 100;

fn is_in(times: &[(usize, usize)], tick: usize) -> bool {
    times.iter().any(|(from, to)| (*from..*to).contains(&tick))
}

/// Eight readers that queue at 8 ms on `sdb` in the ticks `busy`, beside `sda`, which does nothing.
fn machine(ticks: usize, busy: &[(usize, usize)]) -> Recording {
    let devices = ["sda", "sdb"].map(|name| device(name, DeviceClass::Flash, &[], None));
    let busy = busy.to_vec();
    let level = |quiet: f64, loud: f64| {
        let busy = busy.clone();
        move |tick: usize| if is_in(&busy, tick) { loud } else { quiet }
    };
    let rate = level(5.0, 1000.0);
    // a rate that is flat would be a cap
    let uneven = |tick: usize| 1.0 + 0.4 * (2.0 * noise::Noise::new(tick as u64).even() - 1.0);
    Recording::new(ticks)
        .topology(Topology { devices: devices.into(), processors: 4, ..Topology::default() })
        .with_disk("sda", 1.0, 1.0, 4096.0, 0.0002)
        .with("physical_disk.reads", "sdb", move |tick| rate(tick) * uneven(tick))
        .with("physical_disk.writes", "sdb", |_| 0.0)
        .with("physical_disk.read_bytes", "sdb", level(5.0 * 4096.0, 1000.0 * 4096.0))
        .with("physical_disk.write_bytes", "sdb", |_| 0.0)
        .with("physical_disk.read_time_s", "sdb", level(5.0 * 0.0002, 8.0))
        .with("physical_disk.write_time_s", "sdb", |_| 0.0)
        .with("physical_disk.weighted_time_s", "sdb", level(5.0 * 0.0002, 8.0))
        .with("physical_disk.busy_time_s", "sdb", level(0.001, 1.0))
        .with("pressure.io_some_s", "", level(0.01, 0.9))
        .with("pressure.memory_some_s", "", |_| 0.0)
}

fn with_processors(recording: Recording, is_full: bool) -> Recording {
    let share = if is_full { 0.97 } else { 0.05 };
    recording
        .with("processor.user", "_total", move |_| share)
        .with("processor.system", "_total", |_| 0.02)
        .with("processor.busy", "_total", move |_| share + 0.02)
        .with("system.running", "", move |_| if is_full { 12.0 } else { 0.1 })
        .with("pressure.cpu_some_s", "", move |_| if is_full { 0.8 } else { 0.0 })
}

fn judged(busy: &[(usize, usize)], has_full_processors: bool) -> Verdict {
    with_processors(machine(TICKS, busy), has_full_processors).by_default()
}

fn listed(verdict: &Verdict) -> Vec<(Bottleneck, &str)> {
    verdict.bottlenecks.iter().map(|listed| (listed.bottleneck, listed.instance.as_str())).collect()
}

fn second(text: &str) -> i64 {
    (diskwright_base::timestamp::parse_rfc3339(text).expect("a time") - START) / SECOND as i64
}

#[test]
fn a_job_that_begins_in_the_last_quarter_is_named_beside_what_lasts() {
    for has_full_processors in [true, false] {
        let verdict = judged(&[(75, TICKS)], has_full_processors);
        let expected = if has_full_processors { vec![(CPU, ""), (DISK, "sdb")] } else { vec![(DISK, "sdb")] };
        assert_eq!(listed(&verdict), expected, "{}", verdict.sentence);
        let disk = verdict.bottlenecks.last().unwrap();
        assert!((second(disk.since.as_deref().unwrap()) - 75).abs() <= 2, "{:?}", disk.since);
        assert!(disk.sentence.contains("100 % of the last 25 s"), "{}", disk.sentence);
        assert!(disk.confidence > 0.5 && !disk.advice.is_empty());
        let finding = &verdict.findings[disk.positions[0]];
        assert_eq!((finding.share, finding.judged_s), (1.0, 25.0));
        assert!(verdict.ruled_out.iter().all(|ruled| ruled.bottleneck != DISK), "{:?}", verdict.ruled_out);
        assert!(verdict.episodes.is_empty(), "{:?}", verdict.episodes);
        if has_full_processors {
            assert_eq!(verdict.bottlenecks[0].since, None, "there all the time");
        }
        let last = verdict.phases.last().unwrap();
        assert_eq!(last.seconds, 25.0, "{:#?}", verdict.phases);
        let of_phase = |phase: &diskwright_diagnosis::verdict::VerdictPhase| {
            let first = [(phase.bottleneck, phase.instance.clone())];
            let mut list: Vec<_> =
                first.into_iter().chain(phase.also.iter().map(|p| (p.bottleneck, p.instance.clone()))).collect();
            list.sort();
            list
        };
        let mut in_phase: Vec<_> =
            expected.iter().map(|(bottleneck, name)| (*bottleneck, (*name).to_owned())).collect();
        in_phase.sort();
        assert_eq!(of_phase(last), in_phase);
        let calm = if has_full_processors { CPU } else { Bottleneck::None };
        assert_eq!(of_phase(&verdict.phases[0]), [(calm, String::new())]);
    }
}

#[test]
fn what_ended_before_the_window_did_is_history() {
    for busy in [(0, 25), (40, 65), (70, 95)] {
        let verdict = judged(&[busy], true);
        assert_eq!(listed(&verdict), [(CPU, "")], "{busy:?}");
        assert_eq!(judged(&[busy], false).bottleneck, Bottleneck::None);
    }
}

#[test]
fn a_moment_at_the_end_is_no_bottleneck() {
    for begin in [91, 96, 99] {
        assert_eq!(judged(&[(begin, TICKS)], false).bottleneck, Bottleneck::None, "{begin}");
        assert_eq!(listed(&judged(&[(begin, TICKS)], true)), [(CPU, "")], "{begin}");
    }
    // a minute is long, and one tick of it is still a moment
    let minutes = with_processors(machine(60, &[(59, 60)]), false).every(60).by_default();
    assert_eq!(minutes.bottleneck, Bottleneck::None);
}

#[test]
fn what_comes_and_goes_has_not_begun() {
    // a rhythm that the end of the window cuts, and one burst as long before
    let bursts = [(5, 17), (45, 57), (88, 100)];
    assert_eq!(judged(&bursts, false).bottleneck, Bottleneck::None);
    assert_eq!(judged(&[(10, 25), (82, 100)], false).bottleneck, Bottleneck::None);
    // a few moments before are no rhythm
    assert_eq!(listed(&judged(&[(10, 12), (40, 41), (75, 100)], false)), [(DISK, "sdb")]);
}

#[test]
fn a_lull_of_a_tick_does_not_end_it() {
    assert_eq!(listed(&judged(&[(75, 85), (86, 98)], false)), [(DISK, "sdb")]);
    assert_eq!(judged(&[(75, 85), (86, 96)], false).bottleneck, Bottleneck::None, "it has ended");
}

#[test]
fn paging_that_begins_with_the_disk_is_its_reason() {
    let paging = |tick: usize| if tick >= 75 { 900.0 } else { 0.0 };
    let mut topology = machine(TICKS, &[]).described().clone();
    topology.swaps.push(diskwright_base::topology::Swap {
        path: "/dev/sdb".into(),
        device: "sdb".into(),
        bytes: 1 << 32,
    });
    let run = with_processors(machine(TICKS, &[(75, TICKS)]).without("pressure.memory_some_s"), false)
        .topology(topology)
        .with("pressure.memory_some_s", "", move |tick| if tick >= 75 { 0.6 } else { 0.0 })
        .with("paging.swap_in_pages", "", paging)
        .with("paging.swap_out_pages", "", paging)
        .with("paging.major_faults", "", paging)
        .with("memory.total_bytes", "", |_| 8e9);
    let verdict = run.by_default();
    assert_eq!(listed(&verdict), [(Bottleneck::Memory, "")], "{}", verdict.sentence);
}

#[test]
fn the_beginning_does_not_depend_on_how_ticks_are_cut() {
    let run = with_processors(machine(TICKS, &[(75, TICKS)]), true);
    let pack = || vec![diskwright_diagnosis::packs::builtin_pack("default").unwrap().unwrap()];
    let whole = run.judge(pack(), run.options(), TICKS).remove(0);
    for cut in [1, 7, 64] {
        assert_eq!(run.judge(pack(), run.options(), cut).remove(0), whole, "{cut}");
    }
}

#[test]
fn an_idle_machine_gains_nothing() {
    for seed in 0..30 {
        let noise = noise::Noise::new(seed).remembering(0.8, 300);
        let load: Vec<f64> = noise.iter().map(|n| (20.0 * (1.0 + 0.8 * n)).max(0.0)).collect();
        let of = |each: f64| {
            let load = load.clone();
            move |tick: usize| load[tick] * each
        };
        let run = Recording::new(300)
            .with("physical_disk.reads", "sda", of(1.0))
            .with("physical_disk.read_time_s", "sda", of(0.004))
            .with("physical_disk.weighted_time_s", "sda", of(0.004))
            .with("physical_disk.busy_time_s", "sda", of(0.004))
            .with("pressure.io_some_s", "", of(0.003))
            .with("pressure.cpu_some_s", "", of(0.004))
            .with("pressure.memory_some_s", "", |_| 0.0);
        let verdict = with_processors(run.without("pressure.cpu_some_s"), false).by_default();
        assert_eq!(
            (verdict.bottleneck, verdict.findings.iter().filter(|f| f.since.is_some()).count()),
            (Bottleneck::None, 0)
        );
    }
}

/// Requests come one at a time at first, and queue then: neither rule alone holds for long.
#[test]
fn a_load_that_passes_from_one_rule_to_the_next_began_with_the_first() {
    let in_flight = |tick: usize| match tick {
        0..75 => 0.001,
        75..87 => 1.5,
        _ => 2.6,
    };
    let run = machine(TICKS, &[(75, TICKS)])
        .without("physical_disk.read_time_s")
        .without("physical_disk.weighted_time_s")
        .with("physical_disk.read_time_s", "sda", |_| 0.0002)
        .with("physical_disk.weighted_time_s", "sda", |_| 0.0004)
        .with("physical_disk.read_time_s", "sdb", in_flight)
        .with("physical_disk.weighted_time_s", "sdb", in_flight)
        .without("physical_disk.reads")
        .with("physical_disk.reads", "sda", |_| 1.0)
        .with("physical_disk.reads", "sdb", |tick| if tick < 75 { 5.0 } else { 20.0 });
    let verdict = with_processors(run, true).by_default();
    assert_eq!(listed(&verdict), [(CPU, ""), (DISK, "sdb")], "{}", verdict.sentence);
    assert!((second(verdict.bottlenecks[1].since.as_deref().unwrap()) - 75).abs() <= 2);
}
