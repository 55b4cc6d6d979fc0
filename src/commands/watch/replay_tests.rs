//! Tests that a replay shows the same cells as the live view: the same ticks of this machine go into memory, as for
//! `watch`, and into a log, as for `record`.

use std::time::Duration;

use diskwright_counters::live::{Roots, Sampler, SamplerOptions, SystemClock};
use diskwright_dashboard::alerts::{AlertEvent, rules};
use diskwright_dashboard::screen::{OwnCost, ScreenStyle, WatchScreen, draw_screen};
use diskwright_dashboard::{History, Panels, RecentHistory, Viewer};
use diskwright_datastore::{LogWriter, WriterOptions};
use diskwright_diagnosis::packs;
use diskwright_report::DisplayZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::alerts::AlertMonitor;
use super::super::log::{self, LogWindow};
use super::sources::{LoggedHistory, WatchSource};

const TICKS: usize = 12;
const SIZES: [(u16, u16); 3] = [(80, 24), (200, 60), (40, 10)];
const INTERVAL: Duration = Duration::from_millis(150);

/// An alert that every machine raises at its second tick.
const ALWAYS_ALERT: &str = r#"
[pack]
id = "own"
title = "own"
source = "test"
explain = "test"
[[rule]]
id = "own.always"
title = "there is memory"
object = "machine"
bottleneck = "none"
severity = "warning"
all = [{ counter = "memory.total_bytes", above = 0 }]
source = "test"
explain = "test"
alert = { hold = "100ms" }
"#;

/// Screens of a viewer that follows the end, in all sizes.
struct Follower {
    viewer: Viewer,
    screens: Vec<WatchScreen>,
}

impl Follower {
    fn new() -> Follower {
        let pack = packs::builtin_pack("default").expect("our pack").expect("is right");
        let interval_ns = i64::try_from(INTERVAL.as_nanos()).expect("short");
        let screens = SIZES.map(|_| WatchScreen::new(true, interval_ns, 0)).to_vec();
        Follower { viewer: Viewer::new(Panels::builtin(), pack, Vec::new()), screens }
    }

    fn follow_end(&mut self, history: &dyn History) -> Vec<Buffer> {
        let style = ScreenStyle { colour: true, unicode: true, zone: DisplayZone::utc() };
        let range = history.range().expect("ticks");
        let draw_one = |(screen, (columns, rows)): (&mut WatchScreen, (u16, u16))| {
            let view = self.viewer.build_view(history, &screen.view_window(range, columns)).expect("a view");
            let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
            draw_screen(screen, &view, OwnCost::default(), &style, &mut buffer);
            buffer
        };
        self.screens.iter_mut().zip(SIZES).map(draw_one).collect()
    }
}

/// The log as it was at a time.
fn cut_log_at(logged: &LoggedHistory, time_ns: i64) -> LoggedHistory {
    let logs = logged.logs_of_range((i64::MIN, time_ns));
    match WatchSource::from_logs(logs, &[]) {
        WatchSource::Logged(logged) => *logged,
        WatchSource::Live(_) => unreachable!("a log was given"),
    }
}

#[test]
fn replay_shows_the_same_cells_as_the_live_screen() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("log");
    let options = WriterOptions::default();
    let mut writer = LogWriter::create_or_append(&place, options.clone()).expect("a log");
    let judging = packs::builtin_pack("default").expect("our pack").expect("is right");
    let mut monitor =
        AlertMonitor::from_packs(rules::builtin_with_own("own.toml", ALWAYS_ALERT).expect("a rule"), judging);
    let sampling = SamplerOptions { slow_interval: INTERVAL * 3, ..SamplerOptions::default() };
    let mut sampler = Sampler::new(Roots::default(), Box::new(SystemClock), sampling);
    let (mut memory, mut live) = (RecentHistory::new(64 << 20), Follower::new());
    let mut seen: Vec<(i64, Vec<Buffer>)> = Vec::new();
    for _ in 0..TICKS {
        sampler.tick();
        let tick = options.round_tick(sampler.tick_stamp());
        let notes = sampler.take_notes();
        for note in &notes {
            // a busy machine reports some data late, for an earlier tick, which the live view could not show
            seen.retain(|(time_ns, _)| *time_ns < note.time_ns);
            monitor.handle_note(note);
            writer.add_note(note).expect("noted");
            memory.add_note(note.clone());
        }
        let raised = monitor.handle_tick(sampler.schema(), tick, sampler.row());
        writer.push(sampler.schema(), tick, sampler.row()).expect("room");
        memory.push(sampler.schema(), tick, sampler.row());
        for note in raised.iter().map(AlertEvent::to_log_note) {
            writer.add_note(&note).expect("noted");
            memory.add_note(note);
        }
        seen.push((tick.time_ns, live.follow_end(&memory)));
        crate::commands::pacer::sleep_interruptibly(INTERVAL);
    }
    writer.close().expect("closed");
    let logs = log::open(std::slice::from_ref(&place), &LogWindow::default()).expect("our log");
    let WatchSource::Logged(logged) = WatchSource::from_logs(logs, &[]) else { unreachable!("a log was given") };
    let shown = |buffers: &[Buffer]| buffers.iter().map(super::buffer_text).collect::<Vec<_>>().join("\n");
    for (number, (time_ns, buffers)) in seen.iter().enumerate() {
        let replayed = Follower::new().follow_end(&cut_log_at(&logged, *time_ns));
        let (before, after) = (shown(buffers), shown(&replayed));
        assert!(replayed == *buffers, "tick {number}:\n{before}\n in the log:\n{after}");
    }
    assert!(seen.len() >= 2, "the notes of all ticks were late");
    let last = shown(&seen[seen.len() - 1].1);
    assert!(last.contains("ALERT own.always") && last.contains("Memory"), "{last}");
}
