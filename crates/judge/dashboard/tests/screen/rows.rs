//! What stands in the rows of screens of several sizes: no row stays blank, nothing is said twice, and what was saved
//! when an alert began can be read.

use diskwright_base::capture::{BlockedTasks, MomentCapture, OpenFiles, WaitingIn};
use diskwright_base::{Ceiling, Note, ProcessRow, ProcessTable};
use diskwright_dashboard::screen::ScreenKey;
use diskwright_dashboard::{Panels, Viewer};

use crate::watched::{SECOND, START, Watched};

/// A table of processes that replaces the usual one at the end of the history.
fn put_processes(watched: &mut Watched, rows: Vec<ProcessRow>) {
    let table = ProcessTable { elapsed_s: 1000.0, rows, ..ProcessTable::default() };
    let text = serde_json::to_string(&table).expect("a table");
    watched.history.add_note(Note::new(START + 600 * SECOND, Note::PROCESSES, text));
}

fn busy_row(pid: u32, name: &str, command_line: &str, cgroup: &str) -> ProcessRow {
    ProcessRow {
        pid,
        name: name.into(),
        command_line: Some(command_line.into()),
        cgroup: cgroup.into(),
        processor: 0.5,
        read_bytes_per_s: Some(1e9 / f64::from(pid)),
        ..ProcessRow::default()
    }
}

#[test]
fn no_row_of_a_large_screen_stays_blank_and_the_remedies_stand_there() {
    for (size, wanted) in [((160, 50), true), ((100, 30), true), ((200, 70), true), ((80, 20), false)] {
        let lines = Watched::new(size).draw();
        let text = lines.join("\n");
        // below the verdict, which may need no third row, and above the values of the timeline
        let end = lines.iter().position(|line| line.contains("I/O pressure, some, at most")).expect("a timeline");
        let blank = lines[4..end].iter().filter(|line| line.trim().is_empty()).count();
        assert_eq!(blank, 0, "{text}");
        assert_eq!(text.contains("What to do, cheapest first"), wanted, "{text}");
        // it is said once
        assert_eq!(text.contains("Do first: "), !wanted, "{text}");
        assert_eq!(lines.len(), usize::from(size.1));
    }
    let text = Watched::new((160, 50)).draw().join("\n");
    assert!(text.contains("\nEvidence ") && text.contains(" for 100 % of the time"), "{text}");
}

#[test]
fn a_click_on_any_row_of_a_tall_timeline_goes_there() {
    let mut watched = Watched::new((160, 60));
    let lines = watched.draw();
    let title = lines.iter().position(|line| line.contains("I/O pressure, some, at most")).expect("a timeline");
    let (row, last) = (u16::try_from(title + 1).expect("small"), 57);
    assert!(row < last - 3, "it is tall: {}", lines.join("\n"));
    for row in row..=last {
        watched.press(&[ScreenKey::End, ScreenKey::Click(80, row)]);
        assert!((295..305).contains(&watched.moment()), "{row}: {}", watched.moment());
    }
}

#[test]
fn a_folder_that_several_processes_share_is_shown_once() {
    let folder = "/machines/blue/customers";
    let mut watched = Watched::new((160, 50));
    let row =
        |pid| busy_row(pid, "worker", &format!("/opt/site/releases/2026/bin/w{pid} --x"), &format!("{folder}/{pid}"));
    put_processes(&mut watched, (11..=16).map(row).collect());
    let text = watched.draw().join("\n");
    assert_eq!(text.matches(folder).count(), 1, "{text}");
    assert_eq!(text.matches("/opt/site/releases").count(), 1, "{text}");
    for pid in 12..=16 {
        assert!(text.contains(&format!("…/w{pid} --x")) && text.contains(&format!("…/{pid}")), "{text}");
    }
}

#[test]
fn command_lines_containers_pods_and_units_stand_on_eighty_columns() {
    let mut watched = Watched::new((80, 24));
    let container = "/docker/8d19c375a1c68d19c375a1c68d19c375a1c68d19c375a1c68d19c375a1c6aaaa";
    let pod = "/kubepods/burstable/pod12345678-1234-1234-1234-123456789012";
    put_processes(
        &mut watched,
        vec![
            busy_row(11, "fio", "fio --name=x --rw=randread", container),
            busy_row(12, "tar", "tar cf /backup.tar /srv", "/system.slice/backup.service"),
            busy_row(13, "java", "java -jar app.jar", pod),
        ],
    );
    let text = watched.draw().join("\n");
    for words in [
        "fio --name=x --rw=randread (docker 8d19c375a1c6",
        "tar cf /backup.tar /srv (backup.service)",
        "java -jar app.jar (pod ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_was_not_measured_is_a_dash_and_no_zero() {
    let mut watched = Watched::new((80, 24));
    let waits = ProcessRow { block_delay: Some(0.0), ..busy_row(12, "measured", "", "") };
    put_processes(&mut watched, vec![busy_row(11, "unmeasured", "", ""), waits]);
    let lines = watched.draw();
    let wait = |name: &str| {
        let line = lines.iter().find(|line| line.starts_with(name)).expect("its row");
        line.split_whitespace().nth(5).expect("a wait").to_owned()
    };
    assert_eq!((wait("unmeasured"), wait("measured")), ("-".to_owned(), "0%".to_owned()));
}

#[test]
fn the_share_of_the_measured_maximum_has_its_whole_name_where_it_fits() {
    let title = |width: u16| {
        let mut watched = Watched::new((width, 30));
        let known = Ceiling { device: "sda".into(), reads_per_s: Some(400.0), ..Ceiling::default() };
        let pack = watched.viewer.pack().clone();
        watched.viewer = Viewer::new(Panels::builtin(), pack, vec![known]);
        let lines = watched.draw();
        // the column is selected at any of its cells
        let heading = lines.iter().position(|line| line.starts_with("device")).expect("a heading");
        let row = u16::try_from(heading).expect("small");
        watched.press(&[ScreenKey::Click(if width > 121 { 100 } else { 75 }, row)]);
        assert!(watched.draw().concat().contains("of max: The load as a share of its measured maximum"), "{width}");
        lines[heading].clone()
    };
    assert!(title(80).contains(" of max") && title(140).contains(" of its measured maximum"));
}

#[test]
fn what_was_saved_when_an_alert_began_is_marked_and_can_be_read() {
    let mut watched = Watched::new((100, 40));
    let capture = MomentCapture {
        time: "2026-11-21T22:08:20Z".into(),
        alert: "own.always".into(),
        blocked: BlockedTasks {
            count: 7,
            looked_at: 99,
            waits: vec![WaitingIn { function: "io_schedule".into(), tasks: 7 }],
            ..BlockedTasks::default()
        },
        open_files: vec![OpenFiles { pid: 7, name: "a\u{1b}[2Jb".into(), count: 90, ..OpenFiles::default() }],
        ..MomentCapture::default()
    };
    let text = serde_json::to_string(&capture).expect("JSON");
    watched.history.add_note(Note::new(START + 500 * SECOND, Note::CAPTURE, text));
    watched.history.add_note(Note::new(START + 501 * SECOND, Note::CAPTURE, "{broken"));
    let lines = watched.draw();
    let marks = &lines[lines.len() - 3];
    assert_eq!(marks.matches('c').count(), 1, "{}", lines.join("\n"));
    watched.press(&[ScreenKey::Char('[')]);
    assert!(watched.draw().concat().contains("capture: 7 tasks wait in io_schedule"), "{}", watched.draw().join("\n"));
    watched.press(&[ScreenKey::Char('a')]);
    let page = watched.draw().join("\n");
    for words in ["own.always", "captured at 2026-11-21T22:08:20Z: 7 tasks wait in io_schedule", "90 open files"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains('\u{1b}'), "{page}");
}
