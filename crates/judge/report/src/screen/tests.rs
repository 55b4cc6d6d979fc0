use diskwright_base::{EventKind, ProcessContainer, ProcessPlace};
use diskwright_diagnosis::Bottleneck;
use diskwright_diagnosis::verdict::{VerdictBottleneck, VerdictEvent};

use super::*;
use crate::{expected_output, fixture};

#[test]
fn screens_stay_as_expected() {
    let utc = DisplayZone::utc();
    let verdict = fixture::sample_verdict();
    let ascii = Style { unicode: false, ..Style::plain(72) };
    let colour = Style { colour: true, ..Style::plain(100) };
    expected_output::assert_expected("screen/disk.txt", &draw_screen(&verdict, &utc, &Style::plain(80)));
    expected_output::assert_expected("screen/disk-ascii.txt", &draw_screen(&verdict, &utc, &ascii));
    expected_output::assert_expected("screen/disk-colour.txt", &draw_screen(&verdict, &utc, &colour));
    expected_output::assert_expected(
        "screen/others.txt",
        &other_packs_table(&[verdict, fixture::other_verdict()], &Style::plain(80)),
    );
    expected_output::assert_expected(
        "screen/none.txt",
        &draw_screen(&fixture::other_verdict(), &utc, &Style::plain(80)),
    );
}

#[test]
fn lists_phases_when_the_answer_changed() {
    use diskwright_diagnosis::verdict::VerdictPhase;
    let phase = |from: &str, to: &str, seconds: f64, bottleneck: Bottleneck| VerdictPhase {
        from: format!("2026-11-21T{from}Z"),
        to: format!("2026-11-21T{to}Z"),
        seconds,
        bottleneck,
        instance: if bottleneck == Bottleneck::Disk { "sda".into() } else { String::new() },
        confidence: 0.87,
        rule: String::new(),
        title: if bottleneck == Bottleneck::Disk { "it is overloaded".into() } else { String::new() },
        bookmark: if bottleneck == Bottleneck::Disk { "backup".into() } else { String::new() },
        also: Vec::new(),
    };
    let mut verdict = fixture::sample_verdict();
    verdict.phases = vec![
        phase("22:21:00", "22:22:00", 60.0, Bottleneck::None),
        phase("22:22:00", "22:22:25", 25.0, Bottleneck::Disk),
        phase("22:22:25", "22:23:30", 65.0, Bottleneck::None),
    ];
    let screen = draw_screen(&verdict, &DisplayZone::utc(), &Style::plain(100)).replace('\n', " ");
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Timeline"), "{words}");
    let expected = "22:22:00 to 22:22:25 UTC (25 s) after \u{201c}backup\u{201d}: disk sda, it is overloaded \
                (confidence 87 %)";
    assert!(words.contains(expected), "{words}");
    verdict.phases.truncate(1);
    assert!(!draw_screen(&verdict, &DisplayZone::utc(), &Style::plain(100)).contains("Timeline"));
}

#[test]
fn lists_what_programs_wait_for_when_nothing_is_blamed() {
    let mut verdict = fixture::sample_verdict();
    verdict.bottleneck = Bottleneck::None;
    verdict.findings.clear();
    verdict.culprits.clear();
    verdict.programs = fixture::sample_programs();
    let screen = draw_screen(&verdict, &DisplayZone::utc(), &Style::plain(100));
    assert!(screen.contains("What the programs do and wait for"), "{screen}");
    assert!(screen.contains("shop (31)") && screen.contains("24 threads wait for a lock"), "{screen}");
    assert!(screen.contains("`gdb -p 31 -batch"), "{screen}");
    assert!(!screen.contains('\x1b'), "{screen}");
}

#[test]
fn any_verdict_fits_on_one_screen() {
    let mut verdict = fixture::sample_verdict();
    for _ in 0..4 {
        verdict.findings.extend(verdict.findings.clone());
        verdict.culprits.extend(verdict.culprits.clone());
        verdict.advice.extend(verdict.advice.clone());
        verdict.ruled_out.extend(verdict.ruled_out.clone());
        verdict.certainty_limits.extend(verdict.certainty_limits.clone());
        verdict.unjudged.extend(verdict.unjudged.clone());
    }
    verdict.sentence = verdict.sentence.repeat(9);
    let programs = (0..4).flat_map(|_| fixture::sample_programs()).collect();
    let nothing = Verdict { bottleneck: Bottleneck::None, programs, culprits: Vec::new(), ..verdict.clone() };
    for (width, height) in [(40, 45), (60, 45), (80, 45), (100, 45), (80, 23), (100, 23), (80, 30)] {
        for unicode in [true, false] {
            let style = Style { unicode, height, ..Style::plain(width) };
            for verdict in [&verdict, &nothing, &fixture::sample_verdict(), &fixture::other_verdict()] {
                let screen = draw_screen(verdict, &DisplayZone::utc(), &style);
                assert!(screen.lines().count() <= style.height, "{width}:\n{screen}");
                // a screen too short for the section has a hint to it instead, with the same words
                assert!(screen.contains("How far to trust this"), "{width}:\n{screen}");
                assert!(unicode || screen.is_ascii());
                for line in screen.lines() {
                    assert!(text::display_width(line) <= width, "{width}: {line}");
                }
            }
        }
    }
}

/// At 80 columns the first rows have the verdict, its evidence, a culprit and the first remedy.
#[test]
fn first_rows_hold_evidence_and_first_remedy() {
    let mut much = fixture::sample_verdict();
    for _ in 0..4 {
        much.findings.extend(much.findings.clone());
        much.culprits.extend(much.culprits.clone());
        much.advice.extend(much.advice.clone());
    }
    much.sentence = much.sentence.repeat(3);
    much.findings[0].explain = much.findings[0].explain.repeat(5);
    for verdict in [&fixture::sample_verdict(), &much] {
        let screen = draw_screen(verdict, &DisplayZone::utc(), &Style::plain(80));
        let first: Vec<&str> = screen.lines().take(FIRST_LOOK_ROWS).collect();
        let place = |words: &str| first.iter().position(|line| line.contains(words));
        let order = ["confidence 92 %", "sda: more than two requests", "postgres (812)", "  1. Move work"].map(place);
        assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}:\n{screen}");
    }
}

#[test]
fn unjudged_rules_take_one_line() {
    let mut verdict = fixture::sample_verdict();
    verdict.notes.retain(|remark| remark.kind == Note::UNSEEN);
    verdict.notes.truncate(1);
    verdict.unjudged.truncate(1);
    let screen = draw_screen(&verdict, &DisplayZone::utc(), &Style::plain(80));
    let lines: Vec<&str> = screen.lines().filter(|line| line.contains("lacked data")).collect();
    let unseen = if verdict.notes.is_empty() { "" } else { ", 1 source could not be read" };
    let line = format!("1 rule lacked data{unseen} (`--json`, `report`)");
    assert!(lines.len() == 1 && lines[0].ends_with(&line), "{screen}");
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let mut verdict = fixture::sample_verdict();
    let evil = "\x1b]0;owned\x07\x1b[2J\nx";
    verdict.instance = evil.into();
    verdict.host = evil.into();
    verdict.sentence = evil.into();
    verdict.findings[0].instance = evil.into();
    verdict.culprits[0].name = evil.into();
    verdict.advice[0].text = evil.into();
    verdict.ruled_out[0].because = evil.into();
    let screen = draw_screen(&verdict, &DisplayZone::utc(), &Style::plain(80));
    assert!(!screen.contains(['\x1b', '\x07']));
}

#[test]
fn nothing_is_cut_on_a_whole_page() {
    let mut verdict = fixture::sample_verdict();
    let long = |word: &str| format!("{} end-of-{word}", format!("{word} ").repeat(200));
    verdict.certainty_limits = vec![long("remark")];
    verdict.set_aside = vec![diskwright_diagnosis::verdict::SetAsideFinding {
        rule: "disk.busy".into(),
        title: long("title"),
        bottleneck: Bottleneck::Disk,
        instance: "sdb".into(),
        because: long("reason"),
    }];
    for culprit in &mut verdict.culprits {
        culprit.command_line = Some(long("argument"));
        culprit.description = long("activity");
    }
    for columns in [20, 40, 80, 200] {
        let screen = draw_whole(&verdict, &DisplayZone::utc(), &Style::plain(columns));
        // narrow columns break words
        let screen: String = screen.split_whitespace().collect();
        for word in ["remark", "title", "reason", "argument", "activity"] {
            assert!(screen.contains(&format!("end-of-{word}")), "{columns} {word}: {screen}");
        }
        assert!(!screen.contains('…') && !screen.contains("--full"), "{columns}: {screen}");
    }
}

#[test]
fn a_first_screen_has_a_whole_command_against_each_bottleneck() {
    let mut verdict = fixture::sample_verdict();
    let command = "systemctl set-property --runtime backup-of-all-tables.service IOReadBandwidthMax='/dev/sda 2000000'";
    verdict.advice[0].command = Some(command.into());
    verdict.unlisted = vec!["much belongs to others".repeat(5)];
    let first = VerdictBottleneck {
        bottleneck: Bottleneck::Disk,
        instance: "sda".into(),
        confidence: 0.9,
        sentence: verdict.sentence.clone(),
        findings: vec![verdict.findings[0].rule.clone()],
        since: None,
        was_there: None,
        positions: vec![0],
        culprits: verdict.culprits.clone(),
        unlisted: None,
        advice: verdict.advice.clone(),
    };
    let mut second = VerdictBottleneck { bottleneck: Bottleneck::Cpu, instance: String::new(), ..first.clone() };
    second.advice[0].command = Some("renice -n 19 -p 4711".into());
    second.positions = vec![1];
    verdict.bottlenecks = vec![first, second];
    for height in [24, 50] {
        let screen = draw_screen(&verdict, &DisplayZone::utc(), &Style { height, ..Style::plain(80) });
        assert!(screen.lines().count() <= height, "{screen}");
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(command) && words.contains("renice -n 19 -p 4711"), "{screen}");
    }
}

/// A verdict on so many bottlenecks, each with long names, a command line, a container and a long command.
fn crowded_verdict(count: usize) -> Verdict {
    let mut verdict = fixture::sample_verdict();
    verdict.findings.truncate(1);
    let finding = verdict.findings.remove(0);
    let kinds = [Bottleneck::Disk, Bottleneck::Cpu, Bottleneck::Memory];
    verdict.bottlenecks = (0..count)
        .map(|index| {
            let instance = format!("mapper-of-a-very-long-volume-group-name-{index}");
            verdict.findings.push(Finding {
                bottleneck: kinds[index],
                instance: instance.clone(),
                title: format!("{} {index}", "many more requests wait than the device can serve".repeat(2)),
                ..finding.clone()
            });
            let culprit = Culprit {
                pid: Some(4_111_000 + index as u32),
                name: format!("nightly-reindex{index}"),
                command_line: Some(format!(
                    "/opt/site/bin/nightly-reindex{index} --all --verbose --from /srv/data/folder/of/the/documents"
                )),
                place: ProcessPlace {
                    container: Some(ProcessContainer {
                        runtime: "docker".into(),
                        name: Some(format!("shop-backend-{index}")),
                        id: "0123456789ab".into(),
                    }),
                    ..ProcessPlace::default()
                },
                description: "71 % of the bytes: it reads 51.2 MB/s and writes 12.8 MB/s, and waits for 40 %".into(),
                ..verdict.culprits[0].clone()
            };
            let command = format!("ionice -c3 -p $(ls /proc/{}/task)", 4_111_000 + index);
            let mut advice = verdict.advice.clone();
            advice[0].command = Some(command);
            advice[0].undo = Some("ionice -c2 -n4 -p 1".into());
            VerdictBottleneck {
                bottleneck: kinds[index],
                instance,
                confidence: 0.9,
                sentence: "The disk is a bottleneck: ".repeat(6),
                findings: vec![finding.rule.clone()],
                since: Some(format!("2026-11-21T22:2{index}:31Z")),
                was_there: None,
                positions: vec![index],
                culprits: vec![culprit; 3],
                unlisted: Some("much belongs to others ".repeat(5)),
                advice,
            }
        })
        .collect();
    verdict.culprits = verdict.bottlenecks.iter().map(|listed| listed.culprits[0].clone()).collect();
    verdict
}

#[test]
fn the_first_screen_holds_what_matters_of_each_bottleneck() {
    let kill = VerdictEvent {
        kind: EventKind::OomKill,
        time_ns: Some(1_795_299_600_000_000_000),
        time_text: None,
        victim: Some("postgres".into()),
        pid: Some(77),
        group: Some("/system.slice/postgresql.service".into()),
        limit_bytes: None,
        times: 1,
        because: "the kernel".into(),
        sentence: "postgres (77) in /system.slice/postgresql.service was killed because memory ran out".into(),
    };
    let style = Style { height: 23, ..Style::plain(80) };
    for count in 1..=3 {
        for events in [vec![], vec![kill.clone(); 3]] {
            let has_kill = !events.is_empty();
            let verdict = Verdict { events, ..crowded_verdict(count) };
            let screen = draw_screen(&verdict, &DisplayZone::utc(), &style);
            assert!(screen.lines().count() <= style.height, "{count}:\n{screen}");
            assert!(screen.lines().all(|line| text::display_width(line) <= 80), "{screen}");
            let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(!has_kill || words.contains("postgres (77)"), "{screen}");
            for (index, listed) in verdict.bottlenecks.iter().enumerate() {
                let name = verdict_words::bottleneck_name(listed.bottleneck).to_uppercase();
                let badge = screen.lines().find(|line| line.starts_with(&name)).unwrap_or_else(|| panic!("{screen}"));
                assert!(badge.contains(&format!("since 22:2{index}:31")), "{badge}");
                for wanted in [
                    "more than 2 for 93 % of the time".to_owned(),
                    "…/documents (docker".to_owned(),
                    format!("(docker shop-backend-{index}"),
                    listed.advice[0].command.clone().expect("a command"),
                ] {
                    assert!(words.contains(&wanted), "{wanted}:\n{screen}");
                }
            }
            assert_eq!(words.matches("more than 2 for 93 % of the time").count(), count, "{screen}");
            assert!(words.contains("--full"), "{screen}");
            let whole = draw_whole(&verdict, &DisplayZone::utc(), &style);
            assert!(!whole.contains("--full") && whole.lines().count() > 40, "{whole}");
        }
    }
}
