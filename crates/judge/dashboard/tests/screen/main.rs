//! The screen as text, and keys by a script, over a made-up machine.

mod rows;
mod watched;

use std::collections::BTreeSet;
use std::sync::Arc;

use diskwright_base::{Ceiling, Device, LogPiece, Note, ProcessRow, ProcessTable, Schema, Series, Tick, Topology};
use diskwright_dashboard::screen::{ScreenAction, ScreenKey, WatchScreen};
use diskwright_dashboard::{History, Panels, RecentHistory, Viewer};
use watched::{SECOND, START, Watched, machine, processes};

#[test]
fn a_usual_terminal_shows_verdict_devices_processes_and_time() {
    let lines = Watched::new((80, 24)).draw();
    let has = |row: usize, text: &str| assert!(lines[row].contains(text), "{row}: {text}\n{}", lines.join("\n"));
    has(0, "live  2026-11-21 22:10:00 UTC");
    has(4, "device       rd/s   wr/s rd B/s wr B/s rd lat wr lat fl lat  inflt   util   size");
    // the mean of the last 5 s, after the change
    has(5, "!sda          200      0   819k      0 10.0ms      -      -    2.0");
    has(6, " sdb            0      0");
    has(1, "The disk sda is the bottleneck");
    has(10, "process, by I/O        pid");
    assert!(lines.iter().any(|line| line.starts_with("Pressure   I/O some 25%!")), "{}", lines.join("\n"));
    assert!(lines.iter().any(|line| line.starts_with("reader                   8")), "{}", lines.join("\n"));
    has(23, "? help");
}

#[test]
fn no_name_from_outside_moves_the_columns_of_its_row() {
    for (unicode, hostile) in [(true, "idle\u{fffd}]0;pwn\u{fffd}<i> x"), (false, "idle?]0;pwn?<i> x")] {
        let mut watched = Watched::new((80, 24));
        watched.unicode = unicode;
        let lines = watched.draw();
        let first = lines.iter().position(|line| line.starts_with("process, by")).expect("a heading") + 1;
        // the line below a process says who it is
        for line in lines[first..first + 4].iter().filter(|line| !line.starts_with("    ")) {
            // a wide character is in one cell, and the one behind it is empty
            let behind: String = line.chars().rev().take(62).collect::<Vec<_>>().into_iter().rev().collect();
            let cells: Vec<&str> = behind.split_whitespace().collect();
            assert!(["7", "8", "9"].contains(&cells[0]) && behind.find(cells[0]) == Some(7), "{line:?}");
            assert!(cells.len() == 7 && cells[6] == "4.77Mi" && behind.find("4.77Mi") == Some(56), "{line:?}");
        }
        assert!(lines[first..].iter().any(|line| line.starts_with(hostile)), "{}", lines.join("\n"));
    }
}

#[test]
fn the_share_of_the_ceiling_is_the_last_column_where_a_ceiling_is_known() {
    let mut watched = Watched::new((80, 24));
    let (reads_per_s, read_bytes_per_s) = (Some(400.0), Some(1e8));
    let known = Ceiling { device: "sda".into(), reads_per_s, read_bytes_per_s, ..Ceiling::default() };
    let pack = watched.viewer.pack().clone();
    watched.viewer = Viewer::new(Panels::builtin(), pack, vec![known]);
    let lines = watched.draw();
    assert!(lines[4].trim_end().ends_with("inflt   util of max"), "{}", lines.join("\n"));
    assert!(lines[5].trim_end().ends_with(" 50%    50%"), "{}", lines.join("\n"));
    // selecting it scrolls to the last of the other columns
    watched.press(&[ScreenKey::Tab(true)]);
    let lines = watched.draw();
    assert!(lines[4].trim_end().ends_with("util   size of max"), "{}", lines.join("\n"));
    // and without one it is the last that is selected
    let mut watched = Watched::new((80, 24));
    watched.press(&[ScreenKey::Tab(true)]);
    let lines = watched.draw();
    assert!(lines[4].trim_end().ends_with("util   size of max"), "{}", lines.join("\n"));
}

#[test]
fn the_help_lists_exactly_the_letters_that_do_something() {
    let mut watched = Watched::new((80, 40));
    watched.draw();
    let (view, range) = (watched.view.clone().expect("drawn"), watched.range());
    let does = |letter: &char| {
        let mut screen = watched.screen.clone();
        let before = format!("{screen:?}");
        screen.handle_key(ScreenKey::Char(*letter), &view, range) != ScreenAction::Redraw
            || format!("{screen:?}") != before
    };
    // the same keys without shift are not listed
    let is_twin = |letter: &char| ['=', '.', ','].contains(letter);
    let taken: BTreeSet<char> = (' '..='~').filter(does).filter(|letter| !is_twin(letter)).collect();
    watched.press(&[ScreenKey::Char('?')]);
    let lines = watched.draw();
    let keys = |line: &String| line.chars().take(13).collect::<String>().trim().to_owned();
    let rows: Vec<String> = lines.iter().map(keys).take_while(|keys| !keys.is_empty()).collect();
    let letter = |key: &str| match key {
        "space" => Some(' '),
        _ => key.chars().next().filter(|_| key.chars().count() == 1),
    };
    let listed: BTreeSet<char> = rows.iter().flat_map(|keys| keys.split(", ").filter_map(letter)).collect();
    assert_eq!(listed, taken);
}

#[test]
fn names_from_outside_and_terminals_without_unicode_are_safe() {
    let mut watched = Watched::new((100, 30));
    watched.unicode = false;
    let text = watched.draw().concat();
    assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn any_size_can_be_drawn() {
    for size in [(1, 1), (10, 3), (40, 10), (79, 11), (80, 24), (200, 60), (500, 5)] {
        let lines = Watched::new(size).draw();
        assert_eq!(lines.len(), usize::from(size.1));
    }
}

#[test]
fn the_cursor_goes_back_and_the_end_is_followed_again() {
    let mut watched = Watched::new((80, 24));
    assert_eq!(watched.moment(), 600);
    watched.press(&[ScreenKey::Left, ScreenKey::Left]);
    assert_eq!(watched.moment(), 598);
    assert!(!watched.screen.is_following_end());
    watched.press(&[ScreenKey::PageUp, ScreenKey::Home]);
    assert_eq!(watched.moment(), 0);
    watched.press(&[ScreenKey::Char(']')]);
    // the bookmark
    assert_eq!(watched.moment(), 300);
    assert!(watched.draw().concat().contains("bookmark: second reader"));
    watched.press(&[ScreenKey::End]);
    assert!(watched.screen.is_following_end());
    // what was before the change is shown as it was then
    watched.press(&[ScreenKey::Home, ScreenKey::PageDown]);
    assert_eq!(watched.moment(), 60);
    assert!(watched.draw()[5].contains("!sda          100 "), "{}", watched.draw().join("\n"));
}

#[test]
fn keys_that_come_between_two_frames_all_count() {
    let mut watched = Watched::new((80, 24));
    watched.draw();
    let (view, range) = (watched.view.clone().expect("drawn"), watched.range());
    for _ in 0..3 {
        watched.screen.handle_key(ScreenKey::Left, &view, range);
    }
    assert_eq!(watched.moment(), 597);
}

#[test]
fn a_click_on_the_time_line_goes_there() {
    let mut watched = Watched::new((80, 24));
    watched.press(&[ScreenKey::Click(40, 20)]);
    assert!((295..305).contains(&watched.moment()), "{}", watched.moment());
}

#[test]
fn keys_ask_for_bookmarks_and_comparisons() {
    let mut watched = Watched::new((80, 24));
    let typed =
        [ScreenKey::Char('m'), ScreenKey::Char('h'), ScreenKey::Char('j'), ScreenKey::Backspace, ScreenKey::Char('i')];
    watched.press(&typed);
    assert!(watched.draw()[23].contains("bookmark at 22:10:00: hi_"), "{}", watched.draw()[23]);
    let set = watched.press(&[ScreenKey::Enter]);
    assert_eq!(set, [ScreenAction::Mark(START + 600 * SECOND, "hi".into())]);
    watched.press(&[ScreenKey::Home, ScreenKey::PageDown, ScreenKey::PageDown, ScreenKey::Char('c'), ScreenKey::End]);
    let compared = watched.press(&[ScreenKey::Char('c')]);
    let minute = |end: i64| (START + (end - 60) * SECOND, START + end * SECOND);
    assert_eq!(compared, [ScreenAction::Compare(minute(120), minute(600))]);
    assert_eq!(watched.press(&[ScreenKey::Char('q')]), [ScreenAction::Quit]);
}

#[test]
fn a_filter_leaves_names_and_help_explains_columns() {
    let mut watched = Watched::new((80, 40));
    watched.press(&[ScreenKey::Char('/'), ScreenKey::Char('b'), ScreenKey::Enter]);
    // below the verdict, which says what it says
    let lines = watched.draw();
    let end = lines.iter().position(|line| line.starts_with("What to do")).expect("the remedies");
    let text = lines[4..end].concat();
    assert!(text.contains("sdb") && !text.contains("sda") && !text.contains("reader "), "{text}");
    watched.press(&[ScreenKey::Char('?')]);
    let text = watched.draw().concat();
    assert!(text.contains("pause; again: follow the end") && text.contains("Reads that the device completed"));
}

/// Replay is live: what a view shows does not depend on where its history comes from.
#[test]
fn a_history_read_in_other_pieces_gives_the_same_view() {
    struct TickByTick(RecentHistory);
    impl History for TickByTick {
        fn range(&self) -> Option<(i64, i64)> {
            self.0.range()
        }
        fn read(&self, from_ns: i64, to_ns: i64, each: &mut dyn FnMut(LogPiece<'_>)) -> Result<(), String> {
            self.0.read(from_ns, to_ns, &mut |piece| match piece {
                LogPiece::Frame(frame) => {
                    for index in 0..frame.ticks().len() {
                        let mut one = diskwright_base::Frame::new(frame.schema().clone(), 1);
                        one.append_ticks(frame, index..index + 1);
                        each(LogPiece::Frame(&one));
                    }
                }
                note => each(note),
            })
        }
    }
    let mut watched = Watched::new((80, 24));
    let window = watched.screen.view_window(watched.range(), 80);
    let one_piece = watched.viewer.build_view(&watched.history, &window).expect("a view");
    let mut other = Watched::new((80, 24));
    let pieces = other.viewer.build_view(&TickByTick(machine()), &window).expect("a view");
    let (one_piece, pieces) = (serde_json::to_string(&one_piece), serde_json::to_string(&pieces));
    assert_eq!(one_piece.expect("JSON"), pieces.expect("JSON"));
}

/// An alert of `sda` that lasts from the fifth minute to the seventh.
fn with_alert(watched: &mut Watched) {
    use diskwright_dashboard::alerts::{AlertEngine, rules};
    let pack = || diskwright_diagnosis::packs::builtin_pack("default").expect("our pack").expect("is right");
    let mut engine = AlertEngine::new(rules::builtin_alerts(), pack(), Vec::new());
    let series = Series { counter: "physical_disk.stalled".into(), instance: "sda".into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(vec![series]));
    for second in 290..=440 {
        let mut frame = diskwright_base::Frame::new(schema.clone(), 1);
        let stalled = f64::from(u8::from((300..420).contains(&second)));
        frame.push(Tick { time_ns: START + second * SECOND, elapsed_ns: SECOND as u64 }, &[stalled]);
        engine.add_tick(&frame, 0).iter().for_each(|event| watched.history.add_note(event.to_log_note()));
    }
}

#[test]
fn alerts_stand_below_the_verdict_while_they_last_and_can_be_jumped_to() {
    let mut watched = Watched::new((80, 24));
    with_alert(&mut watched);
    assert!(!watched.draw().concat().contains("ALERT"), "it has ended");
    watched.press(&[ScreenKey::Home, ScreenKey::Char(']'), ScreenKey::Char(']')]);
    // it began in the second before the bookmark's end
    watched.press(&[ScreenKey::Right, ScreenKey::Right]);
    let lines = watched.draw();
    assert!(lines[4].starts_with("! ALERT disk.stall since 22:04:59"), "{}", lines.join("\n"));
    assert!(lines[5].starts_with("device"), "{}", lines.join("\n"));
    assert!(lines.iter().any(|line| line.contains('A')), "its sign is on the time line");
    watched.press(&[ScreenKey::Char('a')]);
    let page = watched.draw().join("\n");
    assert!(page.contains("disk.stall sda (critical)") && page.contains("next: "), "{page}");
}

#[test]
fn the_selected_device_stays_selected_by_its_name_and_a_gone_one_is_said() {
    let mut watched = Watched::new((80, 24));
    watched.press(&[ScreenKey::Down]);
    // ordered by reads, sda comes first in either direction of names; sdb stays selected
    watched.press(&[ScreenKey::Char('s'), ScreenKey::Char('/'), ScreenKey::Char('b'), ScreenKey::Enter]);
    assert!(watched.draw()[5].starts_with(" sdb"));
    watched.press(&[ScreenKey::Char('/'), ScreenKey::Backspace, ScreenKey::Char('a'), ScreenKey::Enter]);
    let hidden = "the filter `a` hides sdb";
    assert!(watched.draw()[23].contains(hidden), "{}", watched.draw().join("\n"));
    // one that is gone, and not hidden, is said to be gone
    watched.press(&[ScreenKey::Char('/'), ScreenKey::Backspace, ScreenKey::Enter]);
    let schema = Arc::new(Schema::new(vec![Series {
        counter: "physical_disk.reads".into(),
        instance: "sda".into(),
        scale: 1.0,
    }]));
    for second in 601..=670 {
        let tick = Tick { time_ns: START + second * SECOND, elapsed_ns: SECOND as u64 };
        watched.history.push(&schema, tick, &[1.0]);
    }
    let gone = "sdb does not exist at this time";
    assert!(watched.draw()[23].contains(gone), "{}", watched.draw().join("\n"));
    // it covers no other word, and is not said where the device is back
    watched.screen.show_message("bookmark set");
    assert!(watched.draw()[23].contains("bookmark set"), "{}", watched.draw()[23]);
    watched.press(&[ScreenKey::Escape]);
    assert!(watched.draw()[23].contains(gone), "{}", watched.draw()[23]);
    let range = watched.range();
    watched.screen.go_to_time(START + 300 * SECOND, range);
    assert!(!watched.draw()[23].contains(gone), "{}", watched.draw()[23]);
}

#[test]
fn devices_that_stand_on_others_are_shown_where_they_are_wanted() {
    let mut watched = Watched::new((80, 24));
    let device = |name: &str, below: &[&str]| Device {
        name: name.into(),
        below: below.iter().map(|&disk| disk.into()).collect(),
        ..Device::default()
    };
    let topology = Topology { devices: vec![device("sda", &[]), device("sdb", &["sda"])], ..Topology::default() };
    let text = serde_json::to_string(&topology).expect("JSON");
    watched.history.add_note(Note::new(START + 590 * SECOND, Note::TOPOLOGY, text));
    let has_volume = |lines: &[String]| lines.iter().any(|line| line.starts_with(" +sdb "));
    assert!(!has_volume(&watched.draw()));
    watched.press(&[ScreenKey::Char('d')]);
    let lines = watched.draw();
    assert!(has_volume(&lines) && lines[23].starts_with("all block devices"), "{}", lines.join("\n"));
    watched.press(&[ScreenKey::Char('d')]);
    assert!(!has_volume(&watched.draw()));
}

#[test]
fn a_column_is_selected_by_keys_and_mouse_and_explained() {
    let mut watched = Watched::new((40, 10));
    watched.draw();
    // three columns and the share of the ceiling fit; the fifth is brought in
    watched.press(&[ScreenKey::Char('>'), ScreenKey::Char('>'), ScreenKey::Char('>'), ScreenKey::Tab(false)]);
    assert!(watched.draw().concat().contains("rd lat"), "{}", watched.draw().join("\n"));
    watched.press(&[ScreenKey::Char('e')]);
    assert!(watched.draw().concat().contains("physical_disk.avg_s_per_read"));
    let mut wide = Watched::new((80, 24));
    wide.draw();
    wide.press(&[ScreenKey::Click(66, 5)]);
    assert!(wide.draw()[23].starts_with("util: "), "{}", wide.draw()[23]);
}

#[test]
fn a_thousand_devices_and_five_thousand_processes_are_drawn() {
    let names: Vec<String> = (0..1000).map(|n| format!("disk{n:04}")).collect();
    let one = |name: &String| Series { counter: "physical_disk.reads".into(), instance: name.clone(), scale: 1.0 };
    let schema = Arc::new(Schema::new(names.iter().map(one).collect()));
    let mut watched = Watched::new((200, 60));
    watched.history = RecentHistory::new(1 << 26);
    let row = |pid: u32| ProcessRow { pid, name: format!("p{pid}"), processor: 0.1, ..ProcessRow::default() };
    let table = ProcessTable { elapsed_s: 1.0, rows: (0..5000).map(row).collect(), ..ProcessTable::default() };
    for second in 0..30 {
        let time_ns = START + second * SECOND;
        watched.history.push(&schema, Tick { time_ns, elapsed_ns: SECOND as u64 }, &vec![1.0; 1000]);
        let text = serde_json::to_string(&table).expect("a table");
        watched.history.add_note(Note::new(time_ns, Note::PROCESSES, text));
    }
    let lines = watched.draw();
    assert!(lines.iter().any(|line| line.contains("disk0000")) && lines.iter().any(|line| line.contains("p1 ")));
    // the number of those that are hidden hides no title
    watched.size = (80, 24);
    let heading = watched.draw().into_iter().find(|line| line.starts_with("dev +")).expect("a heading");
    assert!(heading.trim_end().ends_with("util   size"), "{heading}");
    // a storm of sizes
    for step in 0..60_u16 {
        watched.size = (1 + step * 7 % 200, 1 + step * 3 % 60);
        watched.draw();
    }
}

#[test]
fn the_time_line_goes_round_through_what_is_recorded() {
    let mut watched = Watched::new((80, 24));
    let title = |watched: &mut Watched| watched.draw()[19].trim().to_owned();
    // of the panels' quantities this machine has one
    for _ in 0..5 {
        assert_eq!(title(&mut watched), "I/O pressure, some, at most 25 %");
        watched.press(&[ScreenKey::Char('t')]);
    }
    let mut seen = Vec::new();
    let panels = include_str!("../../data/panels.toml").replace("processor.busy", "physical_disk.busy");
    let own = panels.replace("pressure.memory_some", "pressure.io_some");
    watched.viewer = Viewer::new(
        Panels::load("own.toml", &own).expect("panels"),
        diskwright_diagnosis::packs::builtin_packs().expect("our packs").swap_remove(0),
        Vec::new(),
    );
    for _ in 0..4 {
        seen.push(title(&mut watched));
        watched.press(&[ScreenKey::Char('t')]);
    }
    assert_eq!((&seen[0], &seen[1]), (&seen[2], &seen[3]), "{seen:?}");
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn a_bookmark_is_of_the_moment_at_which_its_key_was_pressed() {
    let mut watched = Watched::new((80, 24));
    watched.press(&[ScreenKey::Char('m'), ScreenKey::Char('x')]);
    let pressed = watched.range().1;
    assert!(watched.draw()[23].starts_with("bookmark at 22:10:00: x_"));
    // the machine goes on while the text is typed
    let schema = Arc::new(Schema::new(vec![Series {
        counter: "pressure.io_some_s".into(),
        instance: String::new(),
        scale: 1.0,
    }]));
    watched.history.push(&schema, Tick { time_ns: pressed + 20 * SECOND, elapsed_ns: SECOND as u64 }, &[0.0]);
    assert_eq!(watched.press(&[ScreenKey::Enter]), [ScreenAction::Mark(pressed, "x".into())]);
}

#[test]
fn what_comes_into_a_time_line_that_stands_still_is_shown_once_it_is_renewed() {
    let mut watched = Watched::new((80, 24));
    // a log that has ended: its alerts are found while it is on the screen
    watched.screen = WatchScreen::new(false, SECOND, 600 * SECOND);
    assert!(!watched.draw().iter().any(|line| line.contains("ALERT")));
    let marks = |watched: &Watched| watched.view.as_ref().map_or(0, |view| view.marks.len());
    assert_eq!(marks(&watched), 1);
    with_alert(&mut watched);
    watched.history.add_note(Note::new(START + 400 * SECOND, Note::BOOKMARK, "set just now"));
    watched.viewer.renew_timeline();
    let lines = watched.draw();
    let bookmarks = watched.view.as_ref().map_or(0, |view| view.marks.iter().filter(|m| m.kind == "bookmark").count());
    assert!(bookmarks == 2 && marks(&watched) > 2, "{}", lines.join("\n"));
}

#[test]
fn a_filter_is_said_as_long_as_it_hides_something() {
    let mut watched = Watched::new((80, 24));
    watched.press(&[ScreenKey::Down, ScreenKey::Char('/')]);
    watched.press(&"sda".chars().map(ScreenKey::Char).collect::<Vec<_>>());
    watched.press(&[ScreenKey::Enter]);
    assert!(watched.draw()[23].starts_with("the filter `sda` hides sdb"), "{}", watched.draw()[23]);
    watched.press(&[ScreenKey::Up]);
    assert!(watched.draw()[23].starts_with("only names with `sda`: / changes it"), "{}", watched.draw()[23]);
}

#[test]
fn where_not_all_devices_fit_the_busy_ones_come_before_idle_ones() {
    let names: Vec<String> = (0..8).map(|n| format!("idle{n}")).chain(["vda".to_owned()]).collect();
    let one =
        |name: &String| Series { counter: "physical_disk.weighted_time_s".into(), instance: name.clone(), scale: 1.0 };
    let schema = Arc::new(Schema::new(names.iter().map(one).collect()));
    let mut watched = Watched::new((80, 24));
    watched.history = RecentHistory::new(1 << 24);
    for second in 0..60 {
        let tick = Tick { time_ns: START + second * SECOND, elapsed_ns: SECOND as u64 };
        watched.history.push(&schema, tick, &[0.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0]);
        watched.history.add_note(Note::new(tick.time_ns, Note::PROCESSES, processes()));
    }
    let rows = |watched: &mut Watched| {
        let lines = watched.draw().into_iter().filter(|line| line.starts_with(" idle") || line.starts_with("!vda"));
        lines.map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let shown = rows(&mut watched);
    assert!(shown.len() < 9 && shown.starts_with(&["!vda", "idle1", "idle0"].map(String::from)), "{shown:?}");
    // where there is room, the machine's order stays
    watched.size = (80, 40);
    assert_eq!(rows(&mut watched).last().map(String::as_str), Some("!vda"));
}

#[test]
fn an_explanation_that_does_not_fit_says_where_all_of_it_is() {
    let mut watched = Watched::new((80, 24));
    watched.press(&[ScreenKey::Char('?')]);
    let lines = watched.draw();
    assert!(lines[23].trim_end().ends_with("... (e)"), "{}", lines[23]);
    watched.size = (80, 40);
    assert!(watched.draw().iter().all(|line| !line.contains("... (e)")));
}

#[test]
fn a_page_ends_where_its_text_ends() {
    let mut watched = Watched::new((80, 24));
    watched.screen.show_page((1..=40).fold(String::new(), |text, line| text + &format!("line {line}\n")));
    watched.press(&[ScreenKey::PageDown; 9]);
    let lines = watched.draw();
    assert!(lines[22].starts_with("line 40"), "{}", lines[22]);
    assert!(lines[23].contains("lines 18-40 of 40"), "{}", lines[23]);
    watched.press(&[ScreenKey::Up]);
    assert!(watched.draw()[22].starts_with("line 39"), "one key goes back");
}

#[test]
fn a_long_name_of_a_host_gives_way_to_the_moment() {
    let mut watched = Watched::new((80, 24));
    let topology = Topology { host: "ip-10-20-130-140.eu-central-1.compute.internal".into(), ..Topology::default() };
    let text = serde_json::to_string(&topology).expect("a topology");
    watched.history.add_note(Note::new(START + 600 * SECOND, Note::TOPOLOGY, text));
    let first = watched.draw().remove(0);
    assert!(first.contains("22:10:00 UTC  values: mean of 5 s, verdict: 60 s"), "{first}");
    assert!(first.starts_with("ip-10-") && first.contains('~'), "{first}");
}

#[test]
fn a_stretch_is_marked_where_the_keys_before_it_went() {
    let mut watched = Watched::new((80, 24));
    watched.draw();
    let (view, range) = (watched.view.clone().expect("drawn"), watched.range());
    // both come before the next frame
    watched.screen.handle_key(ScreenKey::Home, &view, range);
    watched.screen.handle_key(ScreenKey::Char('c'), &view, range);
    let actions = watched.press(&[ScreenKey::End, ScreenKey::Char('c')]);
    let ScreenAction::Compare(first, second) = &actions[1] else { panic!("{actions:?}") };
    assert_eq!((first.1, second.1), (START, START + 600 * SECOND));
}

#[test]
fn processes_say_who_they_are_where_there_is_room() {
    // below the table's heading: who does it stands below the verdict, too
    let is_row = |line: &String| line.contains("tar cf /backup") && !line.starts_with("Who: ");
    let drawn = |width: u16| Watched::new((width, 50)).draw().into_iter().find(is_row);
    for width in [80, 160] {
        let line = drawn(width).expect("who the reader is");
        assert!(line.contains(".tar /srv (cron.service)") && !line.contains('\u{1b}'), "{line}");
        assert_eq!(line.contains("reader"), width > 120, "{line}");
    }
}
