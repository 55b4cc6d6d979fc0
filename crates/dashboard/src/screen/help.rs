//! The help page.

/// Keys and what they do.
pub(super) const KEYS: [(&str, &str); 15] = [
    ("space", "pause, and follow the end again"),
    ("left, right", "one tick back, forward"),
    ("PgUp, PgDn", "a tenth of the time line back, forward"),
    ("Home, End", "the beginning, the end (now)"),
    ("+, -", "a shorter, a longer time line"),
    ("[, ]", "the mark before, the next mark"),
    ("m", "set a bookmark here"),
    ("c", "compare this stretch with a second one"),
    ("j", "length of the stretch that is judged"),
    ("t", "what the time line shows"),
    ("up, down", "select a device; its columns are explained below"),
    ("s", "order of the devices"),
    ("o", "order of the processes"),
    ("/", "show only names that contain a text"),
    ("q", "quit"),
];
