//! A remedy that takes from one program what another one gets: means over the machine do not show it, what programs use
//! does.

use diskwright_base::{Note, ProcessRow, ProcessTable};
use diskwright_diagnosis::compare::{ChangeDirection, ChangeOutcome, CounterWindow, WindowComparison, compare_windows};
use diskwright_diagnosis::{Bottleneck, Judge, packs};

use crate::common::noise::Noise;
use crate::common::{Recording, SECOND, START};
use crate::compare::with_disk;

const TICKS: usize = 60;
/// Seconds between two tables.
const EVERY: usize = 2;

/// A program: its command line, the share of a processor, and bytes read a second.
type Program<'p> = (&'p str, f64, f64);

/// Tables of these programs, each with noise of a tenth.
fn tables(programs: &[Program<'_>], every: usize, seed: u64) -> Vec<Note> {
    let ends: Vec<usize> = (every..=TICKS).step_by(every).collect();
    tables_until(programs, &ends, seed)
}

/// Tables that end at these ticks, each with what was used since the one before.
fn tables_until(programs: &[Program<'_>], ends: &[usize], seed: u64) -> Vec<Note> {
    let noise_of = |index: usize| Noise::new(100 * seed + index as u64).remembering(0.3, TICKS);
    let noise: Vec<Vec<f64>> = (0..programs.len()).map(noise_of).collect();
    let begins = std::iter::once(&0).chain(ends);
    begins
        .zip(ends)
        .map(|(begin, &end)| {
            let rows = programs.iter().zip(&noise).enumerate().map(|(index, ((command, processor, bytes), noise))| {
                let factor = 1.0 + 0.1 * noise[end - 1];
                ProcessRow {
                    pid: 100 + index as u32,
                    name: command.split(' ').next().unwrap_or_default().to_owned(),
                    cgroup: "/".into(),
                    command_line: Some((*command).to_owned()),
                    processor: processor * factor,
                    read_bytes_per_s: Some(bytes * factor),
                    ..ProcessRow::default()
                }
            });
            let table =
                ProcessTable { elapsed_s: (end - begin) as f64, rows: rows.collect(), ..ProcessTable::default() };
            Note::processes(START + (end as u64 * SECOND) as i64, table)
        })
        .collect()
}

/// A window in which all processors are busy.
fn busy(seed: u64) -> Recording {
    let noise: Vec<f64> = Noise::new(seed).remembering(0.5, TICKS);
    Recording::new(TICKS)
        .with("processor.user", "_total", |_| 0.95)
        .with("processor.system", "_total", |_| 0.04)
        .with("processor.busy", "_total", move |tick| 0.98 + 0.005 * noise[tick].clamp(-1.0, 1.0))
        .with("system.running", "", |_| 12.0)
        .with("pressure.cpu_some_s", "", |_| 0.8)
        .with("pressure.io_some_s", "", |_| 0.0)
        .with("pressure.memory_some_s", "", |_| 0.0)
}

fn watched(run: &Recording, notes: &[Note]) -> (CounterWindow, diskwright_diagnosis::Verdict) {
    let mut window = CounterWindow::new(run.options().expected.unwrap());
    let mut judge = Judge::new(vec![packs::builtin_pack("default").unwrap().unwrap()], run.options());
    for note in notes {
        window.add_note(note);
        judge.add_note(note);
    }
    let frame = run.frame(0..run.ticks);
    window.add_frame(&frame);
    judge.add_frame(&frame);
    (window, judge.finish().remove(0))
}

fn compared(before: (&Recording, &[Note]), after: (&Recording, &[Note])) -> WindowComparison {
    let ((first, before), (second, after)) = (watched(before.0, before.1), watched(after.0, after.1));
    compare_windows(&first, &second, before, after)
}

fn compare_busy(before: &[Program<'_>], after: &[Program<'_>], every: usize) -> WindowComparison {
    compared((&busy(1), &tables(before, every, 5)), (&busy(2), &tables(after, every, 6)))
}

const SERVICE: &str = "python3 /srv/service.py --port 80";

#[test]
fn a_runaway_that_is_reniced_helped_who_waited_for_it() {
    let both =
        compare_busy(&[("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0)], &[("yes", 0.3, 0.0), (SERVICE, 0.29, 0.0)], EVERY);
    assert_eq!(both.before.bottleneck, Bottleneck::Cpu, "{}", both.before.sentence);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    assert!(both.sentence.starts_with("The change helped: python3 service.py gets "), "{}", both.sentence);
    for words in [" of a processor; yes ", "The processors are still the bottleneck."] {
        assert!(both.sentence.contains(words), "{words}: {}", both.sentence);
    }
    let [yes, service] = both.programs.as_slice() else { panic!("{:?}", both.programs) };
    assert_eq!((yes.name.as_str(), yes.change, yes.takes_most), ("yes", ChangeDirection::Down, true));
    assert_eq!((service.script.as_deref(), service.change), (Some("service.py"), ChangeDirection::Up));
    assert!((service.before - 0.12).abs() < 0.01 && (service.after - 0.29).abs() < 0.02, "{service:?}");
    let document = serde_json::to_value(service).unwrap();
    assert_eq!((document["bottleneck"].as_str(), document["quantity_unit"].as_str()), (Some("cpu"), Some("fraction")));
}

/// What it gains is less than the noise of the backup.
#[test]
fn who_reads_small_pieces_beside_a_backup_got_more() {
    let full = |seed| with_disk(Recording::new(TICKS), "sda", 120.0, 0.05, seed);
    let programs = |backup: f64, service: f64| [("tar", 0.0, backup), (SERVICE, 0.0, service)];
    let compare = |before: [Program<'_>; 2], after: [Program<'_>; 2]| {
        compared((&full(1), &tables(&before, EVERY, 5)), (&full(2), &tables(&after, EVERY, 6)))
    };
    let both = compare(programs(7e6, 80e3), programs(6.6e6, 250e3));
    assert_eq!(both.before.bottleneck, Bottleneck::Disk, "{}", both.before.sentence);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{} {:#?}", both.sentence, both.programs);
    assert!(both.sentence.contains("service.py gets "), "{}", both.sentence);
    let more = compare(programs(7e6, 80e3), programs(7.9e6, 250e3));
    assert_ne!(more.outcome, ChangeOutcome::Helped, "the backup moves more, too: {}", more.sentence);
}

/// Nine tables that come in pairs are no series of equal steps, but enough repetitions.
#[test]
fn tables_at_uneven_times_show_who_got_more() {
    let before = [("yes", 1.8, 0.0), (SERVICE, 0.16, 0.0)];
    let after = [("yes", 1.45, 0.0), (SERVICE, 0.48, 0.0)];
    let uneven = [9, 10, 19, 20, 29, 30, 49, 50, 60];
    let both = compared(
        (&busy(1), &tables_until(&before, &uneven, 5)),
        (&busy(2), &tables_until(&after, &[10, 20, 30, 40, 50, 60], 6)),
    );
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{} {:#?}", both.sentence, both.programs);
}

#[test]
fn a_runaway_of_short_windows_need_not_lose_what_its_victim_gains() {
    // seven tables: 1.8 processors less a fifth are several times what the service had
    let both = compare_busy(
        &[("yes", 1.8, 0.0), (SERVICE, 0.12, 0.0)],
        &[("yes", 1.44, 0.0), (SERVICE, 0.42, 0.0)],
        TICKS / 7,
    );
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{} {:#?}", both.sentence, both.programs);
    // a gain of a fifth may be chance in so few
    let both = compare_busy(
        &[("yes", 1.8, 0.0), (SERVICE, 0.12, 0.0)],
        &[("yes", 1.44, 0.0), (SERVICE, 0.145, 0.0)],
        TICKS / 7,
    );
    assert_ne!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
}

#[test]
fn the_same_again_is_unchanged() {
    let mut helped = 0;
    for seed in 0..20 {
        let programs = [("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0), ("cron", 0.05, 0.0), ("sshd", 0.02, 0.0)];
        let (first, second) = (tables(&programs, EVERY, seed), tables(&programs, EVERY, seed + 500));
        let both = compared((&busy(seed), &first), (&busy(seed + 900), &second));
        helped += usize::from(both.outcome != ChangeOutcome::Unchanged);
    }
    // 5 % of 20 are 1; more than 4 come by chance once in 400 times
    assert!(helped <= 4, "{helped} of 20");
}

#[test]
fn the_opposite_got_worse_and_a_second_loser_leaves_it_open() {
    let (calm, loud) = ([("yes", 0.3, 0.0), (SERVICE, 0.29, 0.0)], [("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0)]);
    let both = compare_busy(&calm, &loud, EVERY);
    assert_eq!(both.outcome, ChangeOutcome::Worse, "{}", both.sentence);
    assert!(both.sentence.starts_with("It got worse: python3 service.py gets "), "{}", both.sentence);
    let before = [("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0), ("nginx", 0.3, 0.0)];
    let after = [("yes", 0.3, 0.0), (SERVICE, 0.29, 0.0), ("nginx", 0.1, 0.0)];
    let both = compare_busy(&before, &after, EVERY);
    assert_eq!(both.outcome, ChangeOutcome::Unchanged, "{}", both.sentence);
}

#[test]
fn a_program_that_only_does_less_helped_nobody() {
    let both =
        compare_busy(&[("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0)], &[("yes", 0.3, 0.0), (SERVICE, 0.12, 0.0)], EVERY);
    assert_eq!(both.outcome, ChangeOutcome::Unchanged, "{}", both.sentence);
    assert_eq!(both.programs[0].change, ChangeDirection::Down, "{:#?}", both.programs);
}

#[test]
fn a_window_of_few_tables_shows_large_changes() {
    let loads = ("python3 /lab/loads.py burn", "python3 /lab/loads.py serve");
    let both =
        compare_busy(&[(loads.0, 0.9, 0.0), (loads.1, 0.12, 0.0)], &[(loads.0, 0.3, 0.0), (loads.1, 0.29, 0.0)], 15);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "two processes of one script are two: {}", both.sentence);
    assert!(both.sentence.contains("python3 loads.py serve gets 1"), "{}", both.sentence);
    assert!(both.sentence.contains("; python3 loads.py burn "), "{}", both.sentence);
    let small =
        compare_busy(&[("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0)], &[("yes", 0.8, 0.0), (SERVICE, 0.14, 0.0)], 15);
    assert_eq!(small.outcome, ChangeOutcome::Unchanged, "{}", small.sentence);
}

#[test]
fn who_comes_and_goes_does_not_matter_but_who_took_most_and_was_stopped() {
    let before = [("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0), ("rustc --crate-name a", 0.4, 0.0)];
    let after = [(SERVICE, 0.29, 0.0), ("rustc --crate-name b", 0.2, 0.0)];
    let both = compare_busy(&before, &after, EVERY);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{:#?}", both.programs);
    assert_eq!(both.programs.iter().map(|program| program.name.as_str()).collect::<Vec<_>>(), ["yes", "python3"]);
    assert!(both.sentence.contains("; yes ") && both.sentence.contains("→ 0 %"), "{}", both.sentence);
}

#[test]
fn two_tables_show_nothing() {
    let both = compare_busy(&[("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0)], &[("yes", 0.3, 0.0), (SERVICE, 0.29, 0.0)], 30);
    assert_eq!(both.outcome, ChangeOutcome::Unchanged, "{}", both.sentence);
    assert!(both.programs.iter().all(|program| program.change == ChangeDirection::Unknown), "{:?}", both.programs);
    let missing = "oo few process tables (2 and 2) to show which programs use more of the processors and which less: \
                   record longer";
    assert!(both.sentence.contains(missing), "{}", both.sentence);
    let document = serde_json::to_value(&both).unwrap();
    assert!(document["programs_missing"].as_str().is_some_and(|text| text.contains(missing)), "{document}");
}

#[test]
fn few_tables_are_not_mentioned_if_nothing_changed_or_the_change_is_shown() {
    let same = [("yes", 0.9, 0.0), (SERVICE, 0.12, 0.0)];
    let more = [("yes", 0.3, 0.0), (SERVICE, 0.29, 0.0)];
    for (after, every) in [(&same, 30), (&same, EVERY), (&more, EVERY), (&more, 15)] {
        let both = compare_busy(&same, after, every);
        assert_eq!(both.programs_missing, None, "{}", both.sentence);
        assert!(!both.sentence.contains("process tables"), "{}", both.sentence);
    }
}

#[test]
fn a_backup_that_yields_the_disk_helped_whoever_else_reads() {
    // requests as many and as slow on average: the backup now waits for longer, the service for less
    let disk = |seed: u64| with_disk(Recording::new(TICKS), "sda", 200.0, 0.03, seed);
    let before = tables(&[("tar", 0.02, 8e6), (SERVICE, 0.01, 2e5)], EVERY, 5);
    let after = tables(&[("tar", 0.02, 5e6), (SERVICE, 0.01, 3e6)], EVERY, 6);
    let both = compared((&disk(1), &before), (&disk(9), &after));
    assert_eq!(both.before.bottleneck, Bottleneck::Disk);
    assert_eq!(both.outcome, ChangeOutcome::Helped, "{}", both.sentence);
    assert!(both.sentence.contains("MB/s of disks; tar"), "{}", both.sentence);
    let same =
        compared((&disk(1), &before), (&disk(9), &tables(&[("tar", 0.02, 8e6), (SERVICE, 0.01, 2e5)], EVERY, 7)));
    assert_eq!(same.outcome, ChangeOutcome::Unchanged, "{}", same.sentence);
}
