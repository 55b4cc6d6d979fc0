//! Devices that `iostat -z` and `sar -z` leave out of a report because they were idle: their rates are 0 and not
//! unknown. Otherwise only the ticks in which all devices are active would count.
//!
//! Without `-z` an idle device has a row of zeros. Where such a row was seen, a device that is missing was removed, and
//! its values are unknown.

use super::report_row::ReportRow;

/// Text of the note, once per log.
pub const OMITTED_DEVICES_NOTE: &str =
    "the tool's option -z left devices out of some reports; there, they are taken as idle";

/// Tables that leave devices out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleTable {
    /// Disks.
    Disk,
    /// Network adapters.
    Network,
    /// Errors of network adapters, which have a table of their own.
    NetworkErrors,
}

/// Number of tables.
pub const TABLE_COUNT: usize = 3;

/// Keys of the tables in JSON documents; in XML adapters and their errors stand in one element.
pub const DOCUMENT_KEYS: [&str; TABLE_COUNT] = ["\"disk\"", "\"net-dev\"", "\"net-edev\""];

impl IdleTable {
    /// Returns the table whose devices have this counter, if it is an amount, which is 0 while the device is idle:
    /// averages over requests are unknown then.
    pub fn of_counter(counter: &str) -> Option<IdleTable> {
        let is_amount = |rest: &str| !["avg_s_per", "avg_bytes_per"].iter().any(|mean| rest.starts_with(mean));
        match counter.split_once('.')? {
            ("physical_disk", rest) if is_amount(rest) => Some(IdleTable::Disk),
            ("network", rest) if rest.contains("_errors_") || rest.contains("_dropped_") => {
                Some(IdleTable::NetworkErrors)
            }
            ("network", _) => Some(IdleTable::Network),
            _ => None,
        }
    }
}

/// Cells of a device in a table.
struct DeviceCells {
    table: IdleTable,
    instance: String,
    columns: Vec<u32>,
    /// Set if it was in a report of this start.
    is_seen: bool,
}

/// Devices of one start of a tool.
#[derive(Default)]
pub struct IdleDevices {
    devices: Vec<DeviceCells>,
    /// Number of the row's series that the devices were learned from.
    series_count: usize,
    generation: u32,
    /// Set for tables in which a row of zeros was seen.
    has_zeros: [bool; TABLE_COUNT],
    /// Set once omitted devices were reported.
    is_reported: bool,
}

impl IdleDevices {
    /// Notes that the tool was started: devices and options may differ.
    pub fn begin_start(&mut self) {
        self.devices.iter_mut().for_each(|device| device.is_seen = false);
        self.has_zeros = [false; TABLE_COUNT];
    }

    /// Fills in zeros for the devices that were left out of the complete tables of the row. Returns true if that
    /// must be reported.
    pub fn fill_omitted(&mut self, row: &mut ReportRow, complete: [bool; TABLE_COUNT]) -> bool {
        self.learn_columns(row);
        let (mut has_filled, mut has_zeros) = (false, self.has_zeros);
        for device in self.devices.iter_mut().filter(|device| !self.has_zeros[device.table as usize]) {
            let values =
                device.columns.iter().map(|column| row.cells[*column as usize]).filter(|value| !value.is_nan());
            // largest value, if there is one
            let largest = values.fold(None, |max: Option<f64>, value| Some(max.map_or(value, |max| max.max(value))));
            device.is_seen |= largest.is_some();
            has_zeros[device.table as usize] |= largest == Some(0.0);
        }
        self.has_zeros = has_zeros;
        for device in self.devices.iter().filter(|device| device.is_seen) {
            let table = device.table as usize;
            let is_left_out = device.columns.iter().all(|column| row.cells[*column as usize].is_nan());
            if is_left_out && complete[table] && !self.has_zeros[table] {
                device.columns.iter().for_each(|column| row.cells[*column as usize] = 0.0);
                has_filled = true;
            }
        }
        let is_first_time = has_filled && !self.is_reported;
        self.is_reported |= has_filled;
        is_first_time
    }

    /// Learns the columns that the row has added since.
    fn learn_columns(&mut self, row: &ReportRow) {
        if self.generation != row.generation {
            (self.generation, self.series_count) = (row.generation, 0);
            self.devices.clear();
        }
        for (column, series) in row.series().iter().enumerate().skip(self.series_count) {
            let Some(table) = IdleTable::of_counter(&series.counter) else { continue };
            let is_same_device =
                |device: &&mut DeviceCells| device.table == table && device.instance == series.instance;
            // the columns of a device were added in succession
            match self.devices.iter_mut().rev().find(is_same_device) {
                Some(device) => device.columns.push(column as u32),
                None => self.devices.push(DeviceCells {
                    table,
                    instance: series.instance.clone(),
                    columns: vec![column as u32],
                    is_seen: false,
                }),
            }
        }
        self.series_count = row.series().len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ReadOutcome, read_text};

    const HEAD: &str = "Linux 6.1.0 (db1) \t2026-11-21 \t_x86_64_\t(4 CPU)\n\n";

    fn has_omitted_note(read: &ReadOutcome) -> usize {
        read.notes.iter().filter(|note| note.text().contains("taken as idle")).count()
    }

    /// Makes sar's output from 13:20:09 on, every ten seconds: a processor at each time, and these rows of disks.
    fn sar(rows: &str) -> ReadOutcome {
        read_text(&format!(
            "{HEAD}13:20:09 CPU %user %idle\n13:20:19 all 1 99\n13:20:29 all 1 99\n13:20:39 all 1 99\n\
             13:20:49 all 1 99\nAverage: all 1 99\n\n13:20:09 DEV tps rkB/s aqu-sz await\n{rows}\
             Average: sda 6 1 0.6 2.5\n"
        ))
    }

    #[test]
    fn disks_that_sar_leaves_out_are_idle_up_to_the_last_row_of_their_table() {
        let read = sar("13:20:19 sda 5 20 0.5 2\n13:20:19 sdb 4 16 0.5 2\n13:20:39 sdb 7 28 0.7 3\n");
        let column = |counter: &str, disk: &str| read.series_values(&format!("physical_disk.{counter}"), disk);
        let sda = column("transfers_per_s", "sda");
        assert_eq!(sda[..3], [5.0, 0.0, 0.0]);
        assert_eq!(column("transfers_per_s", "sdb")[..3], [4.0, 0.0, 7.0]);
        assert!(column("avg_s_per_transfer", "sdb")[1].is_nan() && sda[3].is_nan(), "{sda:?}");
        assert_eq!(has_omitted_note(&read), 1);
    }

    #[test]
    fn without_the_option_a_missing_disk_is_gone() {
        let read =
            sar("13:20:19 sda 5 20 0.5 2\n13:20:19 sdb 4 16 0.5 2\n13:20:29 sda 0 0 0 0\n13:20:29 sdb 1 4 0 1\n\
             13:20:39 sda 7 28 0.7 3\n");
        assert!(read.series_values("physical_disk.transfers_per_s", "sdb")[2].is_nan());
        assert_eq!(has_omitted_note(&read), 0);
    }

    #[test]
    fn fills_no_device_after_a_broken_row() {
        let read =
            sar("13:20:19 sda 5 20 0.5 2\n13:20:19 sdb 4 16 0.5 2\n13:20:29 sda 5 20\n13:20:39 sdb 7 28 0.7 3\n");
        // its whole cells are read
        assert_eq!(read.series_values("physical_disk.transfers_per_s", "sda")[1], 5.0);
        assert!(read.series_values("physical_disk.avg_queue_length", "sda")[1].is_nan());
    }

    #[test]
    fn documents_leave_out_disks_and_adapters() {
        let sample = |second: u32, disks: &str| {
            format!(
                "{{\"timestamp\": \"2026-11-21T19:05:{second:02}+0000\", \"avg-cpu\": {{\"user\": 1.0, \
                 \"idle\": 99.0}}, \"disk\": [{disks}]}}"
            )
        };
        let disk = |name: &str, reads: u32| {
            format!("{{\"disk_device\": \"{name}\", \"r/s\": {reads}.0, \"rkB/s\": {}.0, \"r_await\": 2.0}}", 4 * reads)
        };
        let samples = [
            sample(1, &disk("sda", 1)),
            sample(2, &format!("{}, {}", disk("sda", 10), disk("sdb", 5))),
            sample(3, ""),
            sample(4, &disk("sdb", 6)),
        ];
        let text = format!(
            "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"db1\", \"release\": \"6.1.0\", \"date\": \"2026-11-21\", \
             \"statistics\": [{}]}}]}}}}",
            samples.join(", ")
        );
        let read = read_text(&text);
        let column = |counter: &str, disk: &str| read.series_values(&format!("physical_disk.{counter}"), disk);
        assert_eq!(column("reads_per_s", "sda"), [10.0, 0.0, 0.0]);
        assert_eq!(column("reads_per_s", "sdb"), [5.0, 0.0, 6.0]);
        assert!(column("avg_s_per_read", "sda")[1].is_nan());
        assert_eq!(has_omitted_note(&read), 1);

        let text = format!(
            "{HEAD}13:20:09 IFACE rxpck/s txpck/s rxkB/s txkB/s\n13:20:19 lo 2 2 1 1\n13:20:19 eth0 5 5 1 1\n\
             13:20:29 eth0 6 6 1 1\n13:20:39 lo 3 3 1 1\n"
        );
        let read = read_text(&text);
        assert_eq!(read.series_values("network.received_packets_per_s", "lo"), [2.0, 0.0, 3.0]);
        assert_eq!(read.series_values("network.received_packets_per_s", "eth0"), [5.0, 6.0, 0.0]);
    }
}
