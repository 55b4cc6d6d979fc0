//! What stands in the rows of screens of several sizes: no row stays blank, nothing is said twice, and what was saved
//! when an alert began can be read.

use diskwright_base::capture::{BlockedTasks, MomentCapture, OpenFiles, WaitingIn};
use std::sync::Arc;

use diskwright_base::{
    Ceiling, Device, DeviceClass, DeviceKind, Note, ProcessRow, ProcessTable, Schema, Series, Tick, Topology,
};
use diskwright_dashboard::screen::ScreenKey;
use diskwright_dashboard::{Panels, RecentHistory, Viewer};

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
        assert_eq!(text.contains("What to do"), wanted, "{text}");
        // it is said once
        assert_eq!(text.contains("Do first: ") || text.contains("For later: "), !wanted, "{text}");
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

/// Ten minutes of these series, and the devices of a topology.
fn put_history(watched: &mut Watched, series: &[(&str, &str, f64)], devices: Vec<Device>) {
    let one = |(counter, instance, _): &(&str, &str, f64)| Series {
        counter: (*counter).into(),
        instance: (*instance).into(),
        scale: 1.0,
    };
    let schema = Arc::new(Schema::new(series.iter().map(one).collect()));
    let row: Vec<f64> = series.iter().map(|(.., value)| *value).collect();
    watched.history = RecentHistory::new(1 << 24);
    let topology = Topology { devices, processors: 4, ..Topology::default() };
    let text = serde_json::to_string(&topology).expect("a topology");
    watched.history.add_note(Note::new(START, Note::TOPOLOGY, text));
    for second in 0..=600 {
        watched.history.push(&schema, Tick { time_ns: START + second * SECOND, elapsed_ns: SECOND as u64 }, &row);
    }
}

const BUSY_PROCESSORS: [(&str, &str, f64); 5] = [
    ("processor.user", "_total", 0.95),
    ("processor.system", "_total", 0.04),
    ("processor.busy", "_total", 0.99),
    ("system.running", "", 12.0),
    ("pressure.cpu_some_s", "", 0.9),
];

#[test]
fn processes_are_sorted_by_the_resource_that_is_blamed_first() {
    let mut watched = Watched::new((80, 24));
    put_history(&mut watched, &BUSY_PROCESSORS, Vec::new());
    let hog = ProcessRow { processor: 3.9, read_bytes_per_s: Some(0.0), ..busy_row(20, "hog", "", "") };
    let reader = ProcessRow { processor: 0.01, ..busy_row(10, "reader", "", "") };
    put_processes(&mut watched, vec![reader, hog]);
    let order = |watched: &mut Watched| {
        let lines = watched.draw();
        let row = |name: &str| lines.iter().position(|line| line.starts_with(name)).expect("its row");
        let heading = lines[row("process, by")].clone();
        assert!(heading.contains("CPU") && heading.contains("rd B/s"), "{heading}");
        (heading.contains("by CPU "), row("hog ") < row("reader "))
    };
    assert_eq!(order(&mut watched), (true, true), "{}", watched.draw().join("\n"));
    // whoever chooses an order keeps it
    watched.press(&[ScreenKey::Char('o'), ScreenKey::Char('o')]);
    assert_eq!(order(&mut watched), (false, false), "{}", watched.draw().join("\n"));
}

#[test]
fn a_loop_device_in_use_has_a_row_that_says_what_it_is_built_on() {
    let mut watched = Watched::new((80, 24));
    let disk = |name: &str, reads: f64| {
        let counters = [("reads", reads), ("read_bytes", reads * 4096.0), ("read_time_s", reads * 0.001)];
        let rest = [("writes", 0.0), ("write_bytes", 0.0), ("write_time_s", 0.0), ("weighted_time_s", reads * 0.001)];
        let name = name.to_owned();
        counters
            .into_iter()
            .chain(rest)
            .map(move |(counter, value)| (format!("physical_disk.{counter}"), name.clone(), value))
    };
    let cells: Vec<(String, String, f64)> =
        [disk("sda", 100.0), disk("loop0", 100.0), disk("loop1", 0.0), disk("loop2", 50.0)]
            .into_iter()
            .flatten()
            .collect();
    let series: Vec<(&str, &str, f64)> = cells.iter().map(|(c, i, value)| (c.as_str(), i.as_str(), *value)).collect();
    let device = |name: &str, kind, class, below: &[&str]| Device {
        name: name.into(),
        kind,
        class,
        below: below.iter().map(|name| (*name).to_owned()).collect(),
        ..Device::default()
    };
    let devices = vec![
        device("sda", DeviceKind::Disk, DeviceClass::Flash, &[]),
        device("loop0", DeviceKind::Loop, DeviceClass::Flash, &["sda"]),
        device("loop1", DeviceKind::Loop, DeviceClass::Flash, &["sda"]),
        // over FUSE it stands on nothing that is counted
        device("loop2", DeviceKind::Loop, DeviceClass::Network, &[]),
    ];
    put_history(&mut watched, &series, devices);
    let text = watched.draw().join("\n");
    for (words, is_shown) in
        [("\n+sda", false), (" +loop0 ", true), ("loop1", false), (" loop2 ", true), ("+loop2", false)]
    {
        assert_eq!(text.contains(words), is_shown, "{words}: {text}");
    }
    let rows = &watched.view.as_ref().expect("drawn").devices;
    let stacked: Vec<(&str, bool)> = rows.iter().map(|row| (row.name.as_str(), row.stacked)).collect();
    assert_eq!(stacked, [("sda", false), ("loop2", false), ("loop0", true)]);
}

#[test]
fn what_can_be_typed_comes_first_and_the_rest_is_for_later() {
    use diskwright_report::remedies::remedies_in_order;
    let mut watched = Watched::new((80, 20));
    let text = watched.draw().join("\n");
    let view = watched.view.clone().expect("drawn");
    let mut verdict = view.verdict.expect("a verdict");
    let first = remedies_in_order(&verdict)[0].clone();
    let label = if first.is_act() { "Do first: " } else { "For later: " };
    assert!(text.contains(label), "{text}");
    // a second bottleneck, and only against it there is something to type
    let mut second = verdict.bottlenecks[0].clone();
    second.instance = "sdb".into();
    second.advice.truncate(1);
    second.advice[0].command = Some("renice -n 19 -p 7".into());
    for advice in &mut verdict.bottlenecks[0].advice {
        (advice.command, advice.text) = (None, "Use larger requests.".into());
    }
    verdict.bottlenecks.push(second);
    let remedies = remedies_in_order(&verdict);
    assert_eq!(remedies[0].command.as_deref(), Some("renice -n 19 -p 7"));
    assert!(!remedies[1].is_act() && remedies[1].text == "Use larger requests.");
}
