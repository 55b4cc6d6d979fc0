//! Swap devices and files.

use std::fs;

use diskwright_counters::live::{Roots, mountinfo};

/// Returns the paths of devices and files in use as swap.
pub(crate) fn swap_paths(roots: &Roots) -> Vec<String> {
    let text = fs::read(roots.resolve_path("/proc/swaps")).unwrap_or_default();
    let path_of_line = |line: &[u8]| line.split(|b| b.is_ascii_whitespace()).next().map(mountinfo::unescape_path);
    // the first line has the headings
    text.split(|b| *b == b'\n').skip(1).filter_map(path_of_line).filter(|path| !path.is_empty()).collect()
}
