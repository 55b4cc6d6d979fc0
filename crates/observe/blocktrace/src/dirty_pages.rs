//! Threads that dirty pages. Buffered writes go to memory first, and kernel threads write the pages to the device
//! later; no event shows who dirtied the pages of a request. The kernel does report which thread dirtied a page of
//! which device: the best approximation available.

use std::collections::HashMap;
use std::fs;

use crate::devices::device_number;
use crate::layout::{FieldPosition, LayoutError, parse_field};

/// Names of the event: folios since 5.18, pages before.
pub const DIRTY_EVENTS: [&str; 2] = ["writeback/writeback_dirty_folio", "writeback/writeback_dirty_page"];
/// Largest number of pairs of thread and device that are distinguished; pages of further threads count as unknown.
const MAX_THREADS: usize = 4096;

/// Positions of the event's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirtyLayout {
    /// The event, as a folder of `events`.
    pub event: &'static str,
    /// Its number in this boot's buffers.
    pub id: u16,
    /// Offset of the thread's id, bytes.
    pid: usize,
    /// The device as text, `MAJOR:MINOR` of the disk.
    name: FieldPosition,
}

impl DirtyLayout {
    /// Parses the file `format` of the event.
    ///
    /// # Errors
    /// When a required field is missing, or has an unknown size.
    pub fn parse(event: &'static str, text: &str) -> Result<DirtyLayout, LayoutError> {
        let missing = |field| LayoutError::Missing { event: event.to_owned(), field };
        let find = |name: &str| text.lines().filter_map(parse_field).find(|(n, _)| *n == name).map(|(_, field)| field);
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let pid = find("common_pid").ok_or_else(|| missing("common_pid"))?;
        let name = find("name").ok_or_else(|| missing("name"))?;
        if pid.size != 4 {
            return Err(LayoutError::Size { event: event.to_owned(), field: "common_pid", size: pid.size });
        }
        if !(8..=256).contains(&name.size) || name.offset > 4096 {
            return Err(LayoutError::Size { event: event.to_owned(), field: "name", size: name.size });
        }
        Ok(DirtyLayout { event, id: id.ok_or_else(|| missing("ID"))?, pid: pid.offset, name })
    }

    /// Decodes the id of the thread, and the device if the filesystem is on a single one. Returns `None` for another
    /// event, or a truncated one.
    pub fn decode(&self, data: &[u8]) -> Option<(i32, Option<u32>)> {
        if u16::from_ne_bytes(*data.first_chunk::<2>()?) != self.id {
            return None;
        }
        let pid = i32::from_ne_bytes(*data.get(self.pid..)?.first_chunk::<4>()?);
        let name = data.get(self.name.offset..)?.get(..self.name.size)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Some((pid, std::str::from_utf8(name).ok().and_then(parse_device)))
    }
}

/// Parses `7:0`. Other names belong to filesystems without a single device (btrfs, network filesystems).
fn parse_device(name: &str) -> Option<u32> {
    let (major, minor) = name.split_once(':')?;
    Some(device_number(major.parse().ok().filter(|n| *n < 4096)?, minor.parse().ok().filter(|n| *n < 1 << 20)?))
}

/// Pages that a thread dirtied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirtyingThread {
    /// Id of the thread; 0 stands for all threads that were not distinguished.
    pub pid: i32,
    /// Its name; empty if the thread ended before the name was read.
    pub comm: String,
    /// Number of pages; where the filesystem uses folios of several pages, number of folios.
    pub pages: u64,
}

/// Certainty of the attribution of pages that kernel threads write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyCertainty {
    /// Threads of one name dirtied at least nine of ten pages (`LIKELY_SHARE`).
    Likely,
    /// Several programs dirtied pages: the write-back is divided by their shares.
    Guess,
    /// No thread was seen: the pages were dirtied earlier.
    Unknown,
}

impl DirtyCertainty {
    /// Name in output.
    pub fn name(self) -> &'static str {
        ["likely", "guess", "unknown"][self as usize]
    }
}

/// A program that dirtied at least this share of all pages is assumed to have dirtied those that are written back.
const LIKELY_SHARE: f64 = 0.9;

/// Pages dirtied since the start, or since they were last taken.
#[derive(Clone, Debug, Default)]
pub struct DirtyPages {
    /// Number of pages by device and thread.
    pages: HashMap<(u32, i32), u64>,
    /// Names of threads.
    names: HashMap<i32, String>,
    /// Pages of filesystems whose device is not reported.
    pub without_device: u64,
}

impl DirtyPages {
    /// Counts a page; the thread's name is read when it is first seen.
    pub fn add_page(&mut self, mut pid: i32, device: Option<u32>) {
        let Some(device) = device else {
            self.without_device += 1;
            return;
        };
        if self.pages.len() >= MAX_THREADS && !self.pages.contains_key(&(device, pid)) {
            pid = 0;
        }
        let count = self.pages.entry((device, pid)).or_insert(0);
        *count += 1;
        if *count == 1 && pid > 0 && self.names.len() < MAX_THREADS && !self.names.contains_key(&pid) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            self.names.insert(pid, name.trim_end().to_owned());
        }
    }

    /// Threads that dirtied pages of a device, most pages first.
    pub fn threads_of_device(&self, device: u32) -> Vec<DirtyingThread> {
        let counts = self.pages.iter().filter(|((counted_device, _), _)| *counted_device == device);
        let mut threads: Vec<DirtyingThread> = counts
            .map(|((_, pid), pages)| DirtyingThread {
                pid: *pid,
                comm: self.names.get(pid).cloned().unwrap_or_default(),
                pages: *pages,
            })
            .collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.pages), thread.pid));
        threads
    }

    /// The devices whose pages were dirtied.
    pub fn devices(&self) -> Vec<u32> {
        let mut devices: Vec<u32> = self.pages.keys().map(|(device, _)| *device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Removes and returns all counts.
    pub fn take_pages(&mut self) -> DirtyPages {
        std::mem::take(self)
    }
}

/// Returns the certainty that pages written back were dirtied by these threads.
pub fn assess_certainty(threads: &[DirtyingThread]) -> DirtyCertainty {
    let total: u64 = threads.iter().map(|thread| thread.pages).sum();
    let mut by_name: HashMap<(&str, i32), u64> = HashMap::new();
    for thread in threads {
        // threads without a name are not the same program
        let key = (thread.comm.as_str(), if thread.comm.is_empty() { thread.pid } else { 0 });
        *by_name.entry(key).or_insert(0) += thread.pages;
    }
    match by_name.values().max() {
        None | Some(0) => DirtyCertainty::Unknown,
        Some(max_count) if *max_count as f64 >= LIKELY_SHARE * total as f64 => DirtyCertainty::Likely,
        Some(_) => DirtyCertainty::Guess,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 describes it.
    const FOLIO: &str = "name: writeback_dirty_folio\nID: 1009\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char name[32];\toffset:8;\tsize:32;\tsigned:0;\n\
        \tfield:ino_t ino;\toffset:40;\tsize:8;\tsigned:0;\n";

    fn event(pid: i32, name: &str) -> Vec<u8> {
        let mut data = vec![0; 56];
        data[..2].copy_from_slice(&1009u16.to_ne_bytes());
        data[4..8].copy_from_slice(&pid.to_ne_bytes());
        data[8..8 + name.len()].copy_from_slice(name.as_bytes());
        data
    }

    #[test]
    fn a_thread_and_a_device_are_read_or_refused() {
        let layout = DirtyLayout::parse(DIRTY_EVENTS[0], FOLIO).expect("known");
        assert_eq!(layout.decode(&event(42, "7:3")), Some((42, Some(device_number(7, 3)))));
        for name in ["btrfs-1", "", "7:", ":3", "4096:0", "7:1048576", "-1:0"] {
            assert_eq!(layout.decode(&event(42, name)), Some((42, None)), "{name}");
        }
        let complete = event(42, "7:3");
        for cut in 0..40 {
            assert_eq!(layout.decode(&complete[..cut]), None, "{cut}");
        }
        let mut other = complete;
        other[0] ^= 1;
        assert_eq!(layout.decode(&other), None);
        let error = DirtyLayout::parse(DIRTY_EVENTS[0], &FOLIO.replace(" name[32]", " bdi[32]")).expect_err("no name");
        assert_eq!(error.to_string(), "writeback/writeback_dirty_folio: its format has no name");
        assert!(
            DirtyLayout::parse(DIRTY_EVENTS[0], &FOLIO.replace("offset:8;\tsize:32", "offset:8;\tsize:4")).is_err()
        );
        assert!(DirtyLayout::parse(DIRTY_EVENTS[1], "").is_err());
    }

    #[test]
    fn certainty_depends_on_the_number_of_dirtying_threads() {
        let mut pages = DirtyPages::default();
        assert_eq!(assess_certainty(&pages.threads_of_device(7)), DirtyCertainty::Unknown);
        let me = std::process::id() as i32;
        (0..90).for_each(|_| pages.add_page(me, Some(7)));
        (0..10).for_each(|_| pages.add_page(-5, Some(7)));
        pages.add_page(me, Some(8));
        pages.add_page(me, None);
        let threads = pages.threads_of_device(7);
        assert_eq!((threads.len(), threads[0].pid, threads[0].pages, pages.without_device), (2, me, 90, 1));
        assert!(!threads[0].comm.is_empty() && threads[1].comm.is_empty());
        assert_eq!(assess_certainty(&threads), DirtyCertainty::Likely);
        pages.add_page(-5, Some(7));
        assert_eq!(assess_certainty(&pages.threads_of_device(7)), DirtyCertainty::Guess);
        assert_eq!(pages.devices(), [7, 8]);
        assert_eq!((pages.take_pages().devices().len(), pages.devices().len()), (2, 0));
    }
}
