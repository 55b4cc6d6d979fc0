//! `/proc/mdstat`: Linux software arrays: their members, missing members, and the check, resync, recovery or reshape
//! that runs on them. An operation that is DELAYED or PENDING waits and causes no load.

use diskwright_base::counter_ids::array;
use std::hint::black_box;

use crate::live::counter_table::{ABSENT, CounterReset, CounterTable, TableColumn, level_column, total_column};
use crate::live::open_file::{OpenFile, read_number};
use crate::live::text_scan::{WordIter, parse_number, text_lines};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "mdstat",
    files: &["/proc/mdstat", "/sys/block/mdN/md/mismatch_cnt"],
    explain: "Software arrays: members, missing ones, background work and its progress.",
    parse_any: |bytes| parse_arrays(bytes, |array| _ = black_box(array)),
    open: |roots, _: &SamplerOptions| Some(Box::new(Mdstat::new(roots))),
};

const COLUMNS: [TableColumn; 6] = [
    level_column(array::MEMBERS, 1.0),
    level_column(array::MISSING, 1.0),
    level_column(array::DEGRADED, 1.0),
    level_column(array::BACKGROUND, 1.0),
    total_column(array::SYNC_BYTES, 1024.0),
    level_column(array::MISMATCHES, 1.0),
];

/// An active array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdArray<'a> {
    /// Kernel name.
    pub name: &'a [u8],
    /// Members that work.
    pub members: u64,
    /// Members that are failed or absent.
    pub missing: u64,
    /// Background operation: `check`, `resync`, `recovery`, `reshape`.
    pub background: Option<&'a [u8]>,
    /// Progress of the operation, KiB.
    pub done_kib: Option<u64>,
}

/// Parses the file, array by array. Arrays that are not active (containers of external metadata among them) serve no
/// requests and are skipped. A broken array has lost more members than its level tolerates.
pub fn parse_arrays<'a>(text: &'a [u8], mut found: impl FnMut(MdArray<'a>)) {
    let mut array: Option<MdArray> = None;
    for line in text_lines(text) {
        let is_indented = line.first().is_none_or(|b| *b == b' ' || *b == b'\t');
        if !is_indented {
            array.take().map(&mut found);
            array = parse_heading(line);
        } else if let Some(array) = &mut array {
            parse_detail(line, array);
        }
    }
    array.map(found);
}

/// Parses `md0 : active (auto-read-only) raid1 sdb1[1] sda1[0](F) sdc1[2](S)`. For a broken array, newer kernels write
/// `broken` instead of `active` (drivers/md/md.c, md_seq_show).
fn parse_heading(line: &[u8]) -> Option<MdArray<'_>> {
    let mut words = WordIter::new(line);
    let name = words.next_word()?;
    if words.next_word()? != b":" {
        return None;
    }
    let is_broken = match words.next_word()? {
        b"active" => false,
        b"broken" => true,
        _ => return None,
    };
    let mut members = 0;
    while let Some(word) = words.next_word() {
        // a member has its number in brackets; F marks a failed, S a spare, J a journal device; W and R ones still work
        let is_inactive = word.ends_with(b"(S)") || word.ends_with(b"(F)") || word.ends_with(b"(J)");
        members += u64::from(word.contains(&b'[') && !is_inactive);
    }
    // a level without redundancy has no line that counts working members, and the lost one stays in the list
    let missing = u64::from(is_broken);
    Some(MdArray { name, members: members.saturating_sub(missing), missing, background: None, done_kib: None })
}

fn parse_detail<'a>(line: &'a [u8], array: &mut MdArray<'a>) {
    let mut words = WordIter::new(line);
    let mut last_word: &[u8] = b"";
    while let Some(word) = words.next_word() {
        if word == b"=" {
            array.background = Some(last_word);
        } else if let Some((all_members, working)) = parse_pair(word, b'[', b']') {
            array.members = working;
            array.missing = all_members.saturating_sub(working);
        } else if let Some((done, _)) = parse_pair(word, b'(', b')')
            && array.background.is_some()
        {
            array.done_kib = Some(done);
        }
        last_word = word;
    }
}

/// Parses `[8/7]` or `(123/456)`.
fn parse_pair(word: &[u8], open: u8, close: u8) -> Option<(u64, u64)> {
    let inner = word.strip_prefix(&[open])?.strip_suffix(&[close])?;
    let slash = memchr::memchr(b'/', inner)?;
    Some((parse_number(&inner[..slash])?, parse_number(&inner[slash + 1..])?))
}

/// State of an array at the last tick.
#[derive(Debug, Default)]
struct MdProgress {
    name: Vec<u8>,
    row: usize,
    /// Background operation; empty if none runs.
    running: Vec<u8>,
    /// Members that work, and those that are missing.
    members: (u64, u64),
    /// Progress of the running operation.
    position_kib: Option<u64>,
    /// Sum of all progress seen.
    sum_kib: u64,
    mismatches: u64,
}

impl MdProgress {
    /// Returns the running sum of synced KiB; `ABSENT` if this tick's progress is unknown, as when it went back because
    /// the operation restarted.
    fn advance_to(&mut self, done_kib: Option<u64>) -> u64 {
        let before = std::mem::replace(&mut self.position_kib, done_kib);
        match (before, done_kib) {
            (Some(before), Some(now)) if now < before => return ABSENT,
            (Some(before), Some(now)) => self.sum_kib += now - before,
            // it began within this tick, from an unknown position
            (None, Some(_)) => return ABSENT,
            // nothing runs, or it ended: its last part is not reported
            (_, None) => {}
        }
        self.sum_kib
    }
}

struct Mdstat {
    file: OpenFile,
    known: Vec<MdProgress>,
    tables: [CounterTable; 1],
}

impl Mdstat {
    fn new(roots: &Roots) -> Mdstat {
        Mdstat {
            file: OpenFile::in_pieces(
                roots.proc.join("mdstat"),
                "software arrays (md), if there are any, are not seen",
            ),
            known: Vec::new(),
            tables: [CounterTable::new("array", &COLUMNS, CounterReset::WholeRow)],
        }
    }
}

impl CounterSource for Mdstat {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        if context.is_slow_tick && table.any_gone() {
            context.topology_due = true;
            self.known.retain(|known| !table.is_gone(known.row));
            table.retain_rows(|_, gone| !gone);
            for known in &mut self.known {
                known.row = table.row_or_insert(&String::from_utf8_lossy(&known.name));
            }
        }
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        table.begin_tick();
        let known = &mut self.known;
        parse_arrays(text, |array| {
            let index = known.iter().position(|k| k.name == array.name).unwrap_or_else(|| {
                let row = table.row_or_insert(&String::from_utf8_lossy(array.name));
                context.topology_due = true;
                known.push(MdProgress { name: array.name.to_vec(), row, mismatches: ABSENT, ..MdProgress::default() });
                known.len() - 1
            });
            let progress = &mut known[index];
            let running = array.background.unwrap_or_default();
            let members = (array.members, array.missing);
            if progress.running != running || progress.members != members {
                running.clone_into(&mut progress.running);
                progress.members = members;
                context.topology_due = true;
            }
            if context.is_slow_tick {
                let name = String::from_utf8_lossy(array.name);
                let file = context.roots.sys.join("block").join(&*name).join("md/mismatch_cnt");
                progress.mismatches = read_number(&file).unwrap_or(ABSENT);
            }
            let values = [
                array.members,
                array.missing,
                u64::from(array.missing > 0),
                u64::from(array.background.is_some()),
                progress.advance_to(array.done_kib),
                progress.mismatches,
            ];
            table.row_mut(progress.row).copy_from_slice(&values);
        });
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::FakeMachine;

    /// Name, working, missing, what runs.
    fn read(text: &str) -> Vec<(String, u64, u64, Option<String>)> {
        let mut found = Vec::new();
        let word = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        parse_arrays(text.as_bytes(), |a| found.push((word(a.name), a.members, a.missing, a.background.map(word))));
        found
    }

    #[test]
    fn arrays_of_every_sort() {
        let text = "Personalities : [raid1] [raid6] [linear]\n\
            md1 : active raid6 sda1[0] sdb1[1](F) sdc1[2] sdd1[3] sde1[4](S)\n      \
            300 blocks super 1.2 level 6, 64k chunk, algorithm 2 [4/3] [U_UU]\n      \
            bitmap: 0/30 pages [0KB], 65536KB chunk\n\n\
            md2 : active (auto-read-only) raid1 sda2[0] sdb2[1]\n      200 blocks [2/2] [UU]\n      \
            \tresync=PENDING\n\n\
            md3 : active raid1 sda3[0] sdb3[1]\n      200 blocks [2/2] [UU]\n      resync=DELAYED\n\n\
            md4 : active linear sda4[0] sdb4[1]\n      100 blocks 0k rounding\n\n\
            md127 : inactive sdx[1](S) sdy[0](S)\n      64 blocks super external:imsm\n\n\
            md126 : active raid0 sdx[1] sdy[0]\n      500 blocks super external:/md127/0 128k chunks\n\n\
            unused devices: <none>\n";
        let md = |name: &str, working, missing| (name.to_owned(), working, missing, None);
        // one that waits makes no load, and a container serves nothing
        assert_eq!(read(text), [md("md1", 3, 1), md("md2", 2, 0), md("md3", 2, 0), md("md4", 2, 0), md("md126", 2, 0)]);
    }

    #[test]
    fn a_broken_array_is_not_gone() {
        let text = "md0 : broken raid0 sda[0] sdb[1]\n      900 blocks super 1.2 512k chunks\n\n\
            md1 : broken (read-only) raid1 sdc[0](F) sdd[1](F)\n      300 blocks super 1.2 [2/0] [__]\n";
        let md = |name: &str, working, missing| (name.to_owned(), working, missing, None);
        assert_eq!(read(text), [md("md0", 1, 1), md("md1", 0, 2)]);
    }

    #[test]
    fn background_operations_and_their_progress_are_parsed() {
        for word in ["check", "resync", "recovery", "reshape"] {
            let text = format!(
                "md0 : active raid5 sda[0] sdb[1] sdc[2]\n      900 blocks level 5 [3/3] [UUU]\n      \
                 [=>...]  {word} =  5.7% (114176/1993728) finish=0.2min speed=114176K/sec\n"
            );
            let mut done = None;
            parse_arrays(text.as_bytes(), |a| done = a.done_kib);
            assert_eq!(read(&text)[0].3.as_deref(), Some(word));
            assert_eq!(done, Some(114_176));
        }
    }

    #[test]
    fn progress_is_the_increase_in_the_tick() {
        let machine = FakeMachine::new();
        let text = |line: String| format!("md0 : active raid1 sda[0] sdb[1]\n      900 blocks [2/2] [UU]\n{line}\n");
        let check = |kib: u64| text(format!("      [>....]  check =  1.0% ({kib}/900000) finish=1min speed=1K/sec\n"));
        machine
            .put_ordinary_files()
            .put_file("proc/mdstat", text(String::new()))
            .put_file("sys/block/md0/md/mismatch_cnt", "8\n");
        let mut watch = machine.watch_default();
        watch.tick().tick_after(1.0);
        let value = |watch: &crate::live::fake::FakeWatch| watch.value("array.sync_bytes", "md0");
        assert_eq!((value(&watch), watch.value("array.background", "md0")), (0.0, 0.0));
        assert_eq!(watch.value("array.mismatches", "md0"), 8.0);
        machine.put_file("proc/mdstat", check(1000));
        watch.tick_after(1.0);
        assert!(value(&watch).is_nan(), "it began within the tick");
        assert_eq!(watch.value("array.background", "md0"), 1.0);
        machine.put_file("proc/mdstat", check(3000));
        watch.tick_after(1.0);
        assert!(value(&watch).is_nan());
        machine.put_file("proc/mdstat", check(3500));
        watch.tick_after(1.0);
        assert_eq!(value(&watch), 500.0 * 1024.0);
        machine.put_file("proc/mdstat", check(10));
        watch.tick_after(1.0);
        assert!(value(&watch).is_nan(), "another one began");
    }

    #[test]
    fn a_machine_without_md_is_noted_once() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().remove("proc/mdstat");
        let mut watch = machine.watch_default();
        watch.tick().tick_after(10.0);
        assert!(watch.sampler.schema().instances("array").is_empty());
        assert!(watch.has_note(diskwright_base::Note::UNSEEN, "mdstat: does not exist here"));
    }
}
