//! Recorded kernels, and events made by hand.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use diskwright_blocktrace::layout::{EventLayout, PageLayout};
use diskwright_blocktrace::{BlockEvent, BlockEventKind, EventTable};

/// Kernels that pages were recorded on, as folders of `fixtures`.
pub const KERNELS: [&str; 5] = ["5.10", "6.1", "6.1-dm", "6.12", "6.18"];

pub fn fixture(kernel: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kernel)
}

/// The layouts of a recorded kernel: its format files one behind the other, and its page header.
pub fn layouts(kernel: &str) -> (EventTable, PageLayout) {
    let text = fs::read_to_string(fixture(kernel).join("formats")).expect("formats");
    let by_name: HashMap<&str, &str> =
        text.split("name: ").filter_map(|part| Some((part.split_whitespace().next()?, part))).collect();
    let known = BlockEventKind::ALL.into_iter().filter_map(|kind| {
        let text = by_name.get(kind.name())?;
        Some(EventLayout::parse(kind, text).unwrap_or_else(|e| panic!("{kernel}: {e}")))
    });
    let header = fs::read_to_string(fixture(kernel).join("header_page")).expect("header");
    (EventTable::new(known.collect()), PageLayout::parse(&header).expect("a known header"))
}

/// The pages of a recorded kernel with their processors.
pub fn pages(kernel: &str) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    for cpu in 0..2u16 {
        let bytes = fs::read(fixture(kernel).join(format!("cpu{cpu}"))).unwrap_or_default();
        found.extend(bytes.chunks(4096).map(|page| (cpu, page.to_vec())));
    }
    found
}

/// An event at a time (microseconds) of a place; letters as the kernel writes them.
pub fn event(kind: BlockEventKind, us: u64, letters: &str, sector: u64, sectors: u32) -> BlockEvent {
    let mut operation = [0; 12];
    operation[..letters.len()].copy_from_slice(letters.as_bytes());
    let mut comm = [0; 16];
    comm[..6].copy_from_slice(b"reader");
    BlockEvent {
        time_ns: us * 1000,
        kind,
        cpu: 0,
        pid: 42,
        // no device of any machine: major 4095
        device: (4095 << 20) | 7,
        sector,
        sectors,
        letters: operation,
        comm,
        other_device: 0,
        other_sector: 0,
        error: 0,
    }
}
