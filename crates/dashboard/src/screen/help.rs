//! What keys do, and what fields mean.

use diskwright_base::Catalogue;

use crate::view::DashboardView;

/// Keys and what they do.
pub(super) const KEYS: [(&str, &str); 19] = [
    ("space", "pause, and follow the end again"),
    ("left, right", "one tick back, forward"),
    ("PgUp, PgDn", "a tenth of the time line back, forward (mouse wheel, too)"),
    ("Home, End", "the beginning, the end (now)"),
    ("g", "go to a time: 22:15, 2026-11-21 22:15, or -10m"),
    ("+, -", "a shorter, a longer time line"),
    ("[, ]", "the bookmark or alert before, the next one"),
    ("m", "set a bookmark here"),
    ("a", "all alerts of the time line"),
    ("c", "compare this stretch with a second one"),
    ("j", "length of the stretch that is judged"),
    ("t", "what the time line shows"),
    ("up, down", "select a device"),
    ("<, >, tab", "select a column; e or enter explains it"),
    ("d", "all block devices (volumes, arrays, loops), or the disks alone"),
    ("s", "order devices by the selected column, or as they were"),
    ("o", "order of the processes"),
    ("/", "show only names that contain a text"),
    ("q", "quit"),
];

/// What a column of the devices means: title, counter, text, trap.
pub(super) fn explained(view: &DashboardView, column: usize) -> (String, String, String) {
    let Some(shown) = view.columns.get(column) else {
        let text = "Load as a share of the most that a probe measured of this device, by requests or by bytes, \
                    whichever is more. `diskwright probe` measures it; a dash where nobody did.";
        return ("of max".into(), "ceiling.used".into(), text.into());
    };
    let counter = Catalogue::builtin().get(&shown.counter);
    let text =
        counter.map_or_else(String::new, |counter| format!("{} {}", counter.explain.trim(), counter.trap.trim()));
    (shown.title.clone(), shown.counter.clone(), text.trim().replace('\n', " "))
}
