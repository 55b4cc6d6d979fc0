//! `/proc/swaps`: swap areas. They are part of the topology; this source only detects changes of them.

use std::hint::black_box;

use crate::live::mountinfo::unescape_path;
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "swaps",
    files: &["/proc/swaps"],
    explain: "Swap areas; on zram they are memory, not disk.",
    parse_any: |bytes| _ = black_box(parse_areas(bytes).count()),
    open: |roots: &Roots, _: &SamplerOptions| {
        let file = OpenFile::in_pieces(roots.proc.join("swaps"), "the location of swap space is unknown");
        Some(Box::new(Swaps { file, last_areas: Vec::new() }))
    },
};

/// A swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// Device or file.
    pub path: String,
    /// Size, bytes.
    pub size_bytes: u64,
}

/// Parses the file; its first line is a heading.
pub fn parse_areas(text: &[u8]) -> impl Iterator<Item = SwapArea> {
    text_lines(text).filter_map(|line| {
        let mut words = WordIter::new(line);
        let path = words.next_word()?;
        let _kind = words.next_word()?;
        let kib = words.next_number()??;
        path.starts_with(b"/").then(|| SwapArea { path: unescape_path(path), size_bytes: kib.saturating_mul(1024) })
    })
}

struct Swaps {
    file: OpenFile,
    last_areas: Vec<SwapArea>,
}

impl CounterSource for Swaps {
    fn read_tick(&mut self, context: &mut TickContext) {
        if !context.is_slow_tick {
            return;
        }
        let Some(text) = self.file.read(context) else { return };
        let now: Vec<SwapArea> = parse_areas(text).collect();
        if now != self.last_areas {
            self.last_areas = now;
            context.topology_due = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_read_and_the_heading_is_not_one() {
        let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /dev/zram0                              partition\t4194300\t\t0\t\t100\n\
            /swap\\040file                           file\t\t1024\t\t0\t\t-2\n\
            /broken file x\n";
        let areas: Vec<SwapArea> = parse_areas(text).collect();
        assert_eq!(areas.len(), 2);
        assert_eq!(areas[0], SwapArea { path: "/dev/zram0".into(), size_bytes: 4_194_300 * 1024 });
        assert_eq!(areas[1].path, "/swap file");
    }
}
