//! A made-up machine, and the screen that watches it.

use std::sync::Arc;

use diskwright_base::{Note, ProcessRow, ProcessTable, Schema, Series, Tick};
use diskwright_dashboard::screen::{OwnCost, ScreenAction, ScreenKey, ScreenStyle, WatchScreen, draw_screen};
use diskwright_dashboard::{DashboardView, History, Panels, RecentHistory, Viewer};
use diskwright_report::DisplayZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub const SECOND: i64 = 1_000_000_000;
/// 2026-11-21 22:00:00 UTC.
pub const START: i64 = 1_795_298_400 * SECOND;

/// Ten minutes of two disks: `sda` does 100 reads of 4 KiB a second in 10 ms each, `sdb` nothing; after
/// five minutes `sda` does twice as many.
pub fn machine() -> RecentHistory {
    let series =
        |counter: &str, instance: &str| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
    let mut all = Vec::new();
    for disk in ["sda", "sdb"] {
        for counter in [
            "reads",
            "writes",
            "read_bytes",
            "write_bytes",
            "read_time_s",
            "write_time_s",
            "busy_time_s",
            "weighted_time_s",
        ] {
            all.push(series(&format!("physical_disk.{counter}"), disk));
        }
    }
    all.push(series("pressure.io_some_s", ""));
    let schema = Arc::new(Schema::new(all));
    let mut history = RecentHistory::new(1 << 24);
    for second in 0..=600 {
        let time_ns = START + second * SECOND;
        let reads = if second <= 300 { 100.0 } else { 200.0 };
        let mut row = vec![reads, 0.0, reads * 4096.0, 0.0, reads * 0.01, 0.0, 0.5, reads * 0.01];
        row.extend([0.0; 8]);
        row.push(0.25);
        if second % 5 == 0 {
            history.add_note(Note::new(time_ns, Note::PROCESSES, processes()));
        }
        if second == 300 {
            history.add_note(Note::new(time_ns, Note::BOOKMARK, "second reader"));
        }
        history.push(&schema, Tick { time_ns, elapsed_ns: SECOND as u64 }, &row);
    }
    history
}

/// Their table of processes.
pub fn processes() -> String {
    let row = |pid: u32, name: &str, bytes: f64| ProcessRow {
        pid,
        name: name.into(),
        read_bytes_per_s: Some(bytes),
        resident_bytes: 5e6,
        ..ProcessRow::default()
    };
    // a name from outside with codes of a terminal
    let rows = vec![
        row(7, "idle\u{1b}]0;pwn\u{7}<i>\nx", 0.0),
        row(9, "磁盘磁盘磁盘磁盘磁盘", 0.0),
        ProcessRow {
            command_line: Some("tar cf /backup\u{1b}[2J.tar /srv".into()),
            cgroup: "/system.slice/cron.service".into(),
            ..row(8, "reader", 409_600.0)
        },
    ];
    serde_json::to_string(&ProcessTable { elapsed_s: 5.0, rows, ..ProcessTable::default() }).expect("a table")
}

/// A screen over a history.
pub struct Watched {
    pub history: RecentHistory,
    pub viewer: Viewer,
    pub screen: WatchScreen,
    pub view: Option<DashboardView>,
    pub size: (u16, u16),
    pub unicode: bool,
}

impl Watched {
    pub fn new(size: (u16, u16)) -> Watched {
        let history = machine();
        let pack = diskwright_diagnosis::packs::builtin_packs().expect("our packs").swap_remove(0);
        let viewer = Viewer::new(Panels::builtin(), pack, Vec::new());
        Watched { history, viewer, screen: WatchScreen::new(true, SECOND, 0), view: None, size, unicode: true }
    }

    pub fn range(&self) -> (i64, i64) {
        self.history.range().expect("ticks")
    }

    pub fn draw(&mut self) -> Vec<String> {
        let window = self.screen.view_window(self.range(), self.size.0);
        let view = self.viewer.build_view(&self.history, &window).expect("a view");
        let mut buffer = Buffer::empty(Rect::new(0, 0, self.size.0, self.size.1));
        let style = ScreenStyle { colour: true, unicode: self.unicode, zone: DisplayZone::utc() };
        draw_screen(&mut self.screen, &view, OwnCost::default(), &style, &mut buffer);
        self.view = Some(view);
        let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        buffer.content.chunks(usize::from(self.size.0)).map(line).collect()
    }

    pub fn press(&mut self, keys: &[ScreenKey]) -> Vec<ScreenAction> {
        let mut actions = Vec::new();
        for key in keys {
            self.draw();
            let (view, range) = (self.view.clone().expect("drawn"), self.range());
            actions.push(self.screen.handle_key(*key, &view, range));
        }
        actions
    }

    pub fn moment(&mut self) -> i64 {
        self.draw();
        (self.view.as_ref().expect("drawn").cursor_ns - START) / SECOND
    }
}
