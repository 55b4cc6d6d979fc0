//! Free space of another host's filesystems, by its `df -Pkl`: the sampler would ask this machine's kernel.

use std::sync::{Arc, Mutex, PoisonError};

use diskwright_base::counter_ids::logical_disk;
use diskwright_base::{Note, Series, Tick};
use diskwright_counters::live::AttachedColumns;

/// Largest number of filesystems.
const MAX_FILESYSTEMS: usize = 500;
/// Blocks of `df -k`, bytes.
const BLOCK_BYTES: f64 = 1024.0;
/// Filesystems that hold no data on a disk.
const WITHOUT_DEVICE: [&str; 8] = ["tmpfs", "devtmpfs", "udev", "none", "overlay", "shm", "cgroup", "proc"];

/// A filesystem of `df`.
#[derive(Clone, Debug, PartialEq)]
struct Space {
    mount: String,
    free_bytes: f64,
    used_bytes: f64,
    total_bytes: f64,
}

/// What the last `df` printed.
#[derive(Clone, Default)]
pub(crate) struct SpaceTable(Arc<Mutex<Vec<Space>>>);

impl SpaceTable {
    /// Replaces the table by the output of `df -Pkl`. Lines that are no filesystem are left out.
    pub fn replace(&self, text: &str) {
        let list = text.lines().filter_map(parse_space).take(MAX_FILESYSTEMS).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = list;
    }

    fn rows(&self) -> Vec<Space> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Parses `/dev/sda1 41152736 5243252 33787016 14% /var/lib`.
fn parse_space(line: &str) -> Option<Space> {
    let mut words = line.split_ascii_whitespace();
    let device = words.next()?;
    let blocks = |word: Option<&str>| word?.parse::<u64>().ok();
    let (total, used, free) = (blocks(words.next())?, blocks(words.next())?, blocks(words.next())?);
    words.next().filter(|share| share.ends_with('%'))?;
    let mount = words.collect::<Vec<_>>().join(" ");
    let is_on_disk = total > 0 && mount.starts_with('/') && !WITHOUT_DEVICE.contains(&device);
    let [free_bytes, used_bytes, total_bytes] = [free, used, total].map(|blocks| blocks as f64 * BLOCK_BYTES);
    is_on_disk.then_some(Space { mount, free_bytes, used_bytes, total_bytes })
}

/// The columns of the table.
pub(crate) struct SpaceColumns {
    table: SpaceTable,
    rows: Vec<Space>,
}

impl SpaceColumns {
    /// Columns of a table that is filled while they are read.
    pub fn new(table: SpaceTable) -> SpaceColumns {
        SpaceColumns { table, rows: Vec::new() }
    }
}

impl AttachedColumns for SpaceColumns {
    fn measure_tick(&mut self, _: Tick) -> bool {
        let rows = self.table.rows();
        let has_changed = rows.iter().map(|row| &row.mount).ne(self.rows.iter().map(|row| &row.mount));
        self.rows = rows;
        has_changed
    }

    fn append_series(&self, out: &mut Vec<Series>) {
        for row in &self.rows {
            for counter in [logical_disk::FREE_BYTES, logical_disk::USED_BYTES, logical_disk::TOTAL_BYTES] {
                out.push(Series { counter: counter.to_owned(), instance: row.mount.clone(), scale: 1.0 });
            }
        }
    }

    fn append_cells(&mut self, out: &mut Vec<f64>) {
        self.rows.iter().for_each(|row| out.extend([row.free_bytes, row.used_bytes, row.total_bytes]));
    }

    fn take_notes(&mut self) -> Vec<Note> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_read_from_df() {
        let table = SpaceTable::default();
        table.replace(
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 100 60 30 67% /\n\
             tmpfs 50 0 50 0% /run\n/dev/sdb1 200 100 100 50% /srv/my data\nbroken\n",
        );
        let mut columns = SpaceColumns::new(table);
        assert!(columns.measure_tick(Tick::default()));
        assert!(!columns.measure_tick(Tick::default()));
        let (mut series, mut cells) = (Vec::new(), Vec::new());
        columns.append_series(&mut series);
        columns.append_cells(&mut cells);
        assert_eq!(cells, [30_720.0, 61_440.0, 102_400.0, 102_400.0, 102_400.0, 204_800.0]);
        assert_eq!(series[3].instance, "/srv/my data");
    }
}
