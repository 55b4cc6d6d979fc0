//! Help: keys, and the meaning of columns.

use diskwright_base::Catalogue;

use super::tables::{DeviceColumn, SHORT_CEILING_TITLE};
use crate::view::DashboardView;

/// Keys and their actions.
pub(super) const KEYS: [(&str, &str); 21] = [
    ("space", "pause; again: follow the end"),
    ("left, right", "one tick back, forward"),
    ("PgUp, PgDn", "a tenth of the timeline back, forward"),
    ("Home, End", "the beginning, the end (now)"),
    ("g", "go to a time: 22:15, 2026-11-21 22:15, or -10m"),
    ("+, -", "shorter, longer timeline"),
    ("[, ]", "previous, next bookmark or alert"),
    ("m", "set a bookmark here"),
    ("v", "the verdict in full: evidence, culprits, what to do"),
    ("a", "all alerts of the timeline, and what was captured then"),
    ("c", "compare this stretch with a second one"),
    ("j", "length of the judged stretch"),
    ("t", "what the timeline shows (m mark, A alert, c capture, g gap)"),
    ("up, down", "select a device"),
    ("<, >, tab, e", "select a column; e (or enter) explains it"),
    ("d", "all block devices (volumes, arrays, loops), or only disks"),
    ("s", "sort devices by the selected column; again: as before"),
    ("o", "sort order of the processes"),
    ("/", "show only names that contain a text"),
    ("mouse", "click: time, device or column; wheel: back, forward"),
    ("?, h, q", "these keys; quit. ctrl-z suspends, ctrl-l redraws"),
];

/// Explanation of a column of the devices: its title, its counter, and the text, pitfalls included.
pub(super) fn explain_column(view: &DashboardView, position: usize) -> (String, String, String) {
    let DeviceColumn::Panel(index) = DeviceColumn::at_position(view, position) else {
        let text = "The load as a share of its measured maximum, by requests or by bytes, whichever is larger. \
                    Measure the maximum with `diskwright probe`; without a measurement, the column shows a dash.";
        return (SHORT_CEILING_TITLE.into(), "ceiling.used".into(), text.into());
    };
    let shown = &view.columns[index];
    let counter = Catalogue::builtin().get(&shown.counter);
    let text =
        counter.map_or_else(String::new, |counter| format!("{} {}", counter.explain.trim(), counter.trap.trim()));
    (shown.title.clone(), shown.counter.clone(), text.trim().replace('\n', " "))
}
