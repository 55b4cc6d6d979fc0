//! The sources, one file or folder each. To add one: a `pub mod` line, a list entry, and a file with an `open`
//! function, a `CounterSource` and its cases.

use super::counter_table::CounterTable;
use super::tick_context::TickContext;
use super::{Roots, SamplerOptions};

pub mod btrfs;
pub mod cgroup;
pub mod container;
pub mod diskstats;
pub mod hardware;
pub mod health;
pub mod interrupts;
pub mod kernel_messages;
pub mod loadavg;
pub mod mdstat;
pub mod meminfo;
pub mod mounts;
pub mod netdev;
pub mod network_filesystems;
pub mod nfsd;
pub mod pressure;
pub mod processes;
pub mod softirqs;
pub mod stat;
pub mod swaps;
pub mod topology;
pub mod vmstat;

/// A running source.
pub(crate) trait CounterSource: Send {
    /// Reads its files at this tick and computes the cells of its tables.
    fn read_tick(&mut self, context: &mut TickContext);

    /// Tables with the source's cells; none for a source that only produces notes.
    fn tables(&mut self) -> &mut [CounterTable] {
        &mut []
    }
}

/// An entry of the register.
pub struct SourceInfo {
    /// Name of the source, and of its file or folder here.
    pub id: &'static str,
    /// The files it reads.
    pub files: &'static [&'static str],
    /// Description in a sentence or two.
    pub explain: &'static str,
    /// Feeds bytes to the source's parsers and discards the result, for fuzzing. No bytes may make it panic.
    pub parse_any: fn(&[u8]),
    pub(crate) open: fn(&Roots, &SamplerOptions) -> Option<Box<dyn CounterSource>>,
}

/// All sources, in the order of a tick. A source that depends on others comes after them: `processes` scans at once
/// when one before it saw trouble.
pub const SOURCES: &[SourceInfo] = &[
    container::SOURCE,
    diskstats::SOURCE,
    mdstat::SOURCE,
    btrfs::SOURCE,
    stat::SOURCE,
    loadavg::SOURCE,
    meminfo::SOURCE,
    vmstat::SOURCE,
    pressure::SOURCE,
    interrupts::SOURCE,
    softirqs::SOURCE,
    netdev::SOURCE,
    mounts::SOURCE,
    network_filesystems::SOURCE,
    nfsd::SOURCE,
    swaps::SOURCE,
    health::SOURCE,
    hardware::SOURCE,
    kernel_messages::SOURCE,
    cgroup::SOURCE,
    topology::SOURCE,
    processes::SOURCE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_registered() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/live/sources");
        let mut on_disk: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "mod")
            .collect();
        on_disk.sort_unstable();
        let mut registered: Vec<&str> = SOURCES.iter().map(|s| s.id).collect();
        registered.sort_unstable();
        assert_eq!(on_disk, registered);
    }

    #[test]
    fn no_bytes_make_a_parser_panic() {
        let texts: &[&[u8]] = &[
            b"",
            b"\n",
            b"\0",
            b" ",
            b"cpu",
            b"cpu ",
            b"cpu0 1 2",
            b"1 2",
            b"a b c d e f",
            b"8 0 sda -1",
            b"\xff\xfe\xfd",
            b"md0 : active",
            b"(((((",
            b"[[[]]]",
            b"99999999999999999999999 1 1",
            b"some avg10=",
            b"1 (a",
            b"1 (a)) R",
            b": : : :",
        ];
        for source in SOURCES {
            for text in texts {
                (source.parse_any)(text);
            }
        }
    }

    #[test]
    fn changed_bytes_in_ordinary_files_make_no_parser_panic() {
        // Marsaglia's xorshift: the same changes every time
        let mut random_state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut roll = |sides: usize| {
            random_state ^= random_state << 13;
            random_state ^= random_state >> 7;
            random_state ^= random_state << 17;
            (random_state % sides.max(1) as u64) as usize
        };
        for (_, text) in crate::live::fake::ORDINARY_FILES {
            for _ in 0..200 {
                let mut bytes = text.as_bytes().to_vec();
                for _ in 0..=roll(4) {
                    let place = roll(bytes.len());
                    match roll(3) {
                        0 => bytes.truncate(place),
                        1 => bytes.insert(place, b"\0\xff9 -:()[]/=\n"[roll(13)]),
                        _ => bytes.splice(place..place, *b"18446744073709551616").for_each(drop),
                    }
                }
                SOURCES.iter().for_each(|source| (source.parse_any)(&bytes));
            }
        }
    }
}
