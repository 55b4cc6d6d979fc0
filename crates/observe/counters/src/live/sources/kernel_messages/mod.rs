//! `/dev/kmsg`: the kernel's messages about errors, timeouts and resets of disks and their links, counted by
//! disk from the start of the recording, and events: kills, filesystems that turn read-only, devices that fail. The
//! file is read without blocking. The table of messages is in `base` (`kernel_messages.toml`).

mod events;

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use diskwright_base::Note;
use diskwright_base::counter_ids::physical_disk;
use diskwright_base::diskstats::parse_nvme_path;
use diskwright_base::kernel_messages::{device_of_message, is_drive_without_medium};

use crate::live::counter_table::{CounterReset, CounterTable, TableColumn, total_column};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use crate::live::open_file::{error_reason, read_text};
use crate::live::watched_read::{canonicalize, list_folder};
use events::KernelEvents;

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "kernel_messages",
    files: &["/dev/kmsg"],
    explain: "Messages of the kernel about errors, timeouts and resets, by disk; programs killed because memory ran \
              out, filesystems that turned read-only, devices that failed.",
    parse_any: |bytes| _ = black_box(String::from_utf8_lossy(bytes).lines().filter_map(device_of_message).count()),
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(KernelMessages::default())),
};

const COLUMNS: [TableColumn; 1] = [total_column(physical_disk::KERNEL_MESSAGES, 1.0)];
/// Largest number of messages that a tick reads; a flood is read over several ticks.
const MAX_MESSAGES_PER_TICK: usize = 512;

/// Returns the disk of a device, a part of it, or a path to it: `sda1`, `nvme0c1n1`, `nvme0`, `ata1`, `8:16`.
fn disk_of_device(sys: &Path, device: &str) -> Option<String> {
    let names = || list_folder(&sys.join("block"));
    let disks: Vec<String> = names().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // a path of an NVMe multipath disk counts for the disk
    let head = parse_nvme_path(device).map(|(head, _)| head).filter(|head| disks.contains(head));
    // a slash in a name (cciss/c0d0) is written ! in sysfs
    let device = &head.unwrap_or_else(|| device.replace('/', "!"));
    let is_part = |disk: &&String| sys.join("block").join(disk).join(device).is_dir();
    // a controller's number is in the names of its paths; only a disk without paths has it in its own name
    let path = disks.iter().filter_map(|name| parse_nvme_path(name)).find(|(_, controller)| controller == device);
    let is_behind_path = |disk: &&String| path.as_ref().is_some_and(|(head, _)| head == *disk);
    let is_controller = |disk: &&String| {
        let is_shared = || disks.iter().filter_map(|name| parse_nvme_path(name)).any(|(head, _)| head == **disk);
        let is_own = disk.strip_prefix(device.as_str()).is_some_and(|rest| rest.starts_with('n'));
        device.starts_with("nvme") && is_own && !is_shared()
    };
    let is_behind_port = |disk: &&String| {
        let sysfs_path = canonicalize(&sys.join("block").join(disk));
        device.starts_with("ata") && sysfs_path.is_ok_and(|path| path.iter().any(|part| part == device.as_str()))
    };
    let has_number = |disk: &&String| {
        let number = read_text(&sys.join("block").join(disk).join("dev"));
        device.contains(':') && number.is_some_and(|number| number == *device)
    };
    let found = disks.iter().find(|disk| disk.as_str() == device.as_str()).or_else(|| disks.iter().find(is_part));
    found
        .or_else(|| disks.iter().find(is_behind_path))
        .or_else(|| disks.iter().find(is_controller))
        .or_else(|| disks.iter().find(is_behind_port))
        .or_else(|| disks.iter().find(has_number))
        .filter(|disk| !is_drive_without_medium(disk))
        .map(|disk| disk.replace('!', "/"))
}

#[derive(Default)]
struct KernelMessages {
    file: Option<File>,
    failure_noted: bool,
    buffer: Vec<u8>,
    counts: Vec<(String, u64)>,
    events: KernelEvents,
    table: Option<[CounterTable; 1]>,
}

impl KernelMessages {
    fn open_file(&mut self, context: &mut TickContext) {
        let path = context.roots.resolve_path("/dev/kmsg");
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = File::options().read(true).custom_flags(nonblock).open(&path).and_then(|mut file| {
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        });
        match opened {
            Ok(file) => self.file = Some(file),
            Err(error) if !self.failure_noted => {
                self.failure_noted = true;
                let text = format!(
                    "{}: {}; errors that the kernel reports are not seen",
                    path.display(),
                    error_reason(&error)
                );
                context.notes.push(context.time_ns, Note::UNSEEN, text);
            }
            Err(_) => {}
        }
    }

    /// Drops the disks that are gone from the schema. A disk that comes back counts from zero.
    fn drop_gone(&mut self, context: &TickContext) {
        let block = context.roots.sys.join("block");
        let exists = |disk: &str| block.join(disk.replace('/', "!")).exists();
        if self.counts.iter().all(|(disk, _)| exists(disk)) {
            return;
        }
        self.counts.retain(|(disk, _)| exists(disk));
        if let Some([table]) = &mut self.table {
            table.retain_rows(|disk, _| exists(disk));
        }
    }

    /// Reads the pending messages; each read of the kernel's file returns one.
    fn read_messages(&mut self, context: &mut TickContext) {
        let Some(file) = &mut self.file else { return };
        self.buffer.resize(8192, 0);
        for _ in 0..MAX_MESSAGES_PER_TICK {
            let length = match file.read(&mut self.buffer) {
                Ok(0) => return,
                Ok(length) => length,
                // messages were overwritten before they were read
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => continue,
                Err(_) => return,
            };
            let text = String::from_utf8_lossy(&self.buffer[..length]);
            // `6,1234,5678901,-;the message`; lines that begin with a blank continue it
            let messages = text.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_once(';'));
            for (head, message) in messages {
                let sys = &context.roots.sys;
                self.events.add_record(head, message, context, |device| disk_of_device(sys, device));
                let Some(disk) = device_of_message(message).and_then(|device| disk_of_device(sys, device)) else {
                    continue;
                };
                match self.counts.iter_mut().find(|(known, _)| *known == disk) {
                    Some((_, count)) => *count += 1,
                    None => self.counts.push((disk, 1)),
                }
            }
        }
    }
}

impl CounterSource for KernelMessages {
    fn read_tick(&mut self, context: &mut TickContext) {
        if self.file.is_none() && context.is_slow_tick {
            self.open_file(context);
        }
        if context.is_slow_tick {
            self.drop_gone(context);
        }
        self.read_messages(context);
        if self.counts.is_empty() {
            return;
        }
        let [table] =
            self.table.get_or_insert_with(|| [CounterTable::new("messages of", &COLUMNS, CounterReset::WholeRow)]);
        table.begin_tick();
        for (disk, count) in &self.counts {
            let is_new = table.find_row(disk).is_none();
            let row = table.row_or_insert(disk);
            table.row_mut(row)[0] = *count;
            if is_new {
                // start at zero, so that the first message is an increase
                table.set_previous(row, 0, 0);
            }
        }
        table.compute_cells(context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        self.table.as_mut().map_or(&mut [], |table| table.as_mut_slice())
    }
}

#[cfg(test)]
mod tests {
    use crate::live::fake::FakeMachine;

    #[test]
    fn a_drive_without_its_medium_has_no_errors() {
        let machine = FakeMachine::new();
        machine
            .put_ordinary_files()
            .put_file("dev/kmsg", "")
            .put_file("sys/block/sr0/size", "0\n")
            .put_file("sys/block/fd0/size", "0\n");
        let mut watch = machine.watch_default();
        watch.tick();
        let lines = ["sr0", "fd0", "sda"].map(|disk| format!("3,1,1,-;I/O error, dev {disk}, sector 0\n"));
        machine.put_file("dev/kmsg", lines.concat());
        watch.tick_after(1.0);
        assert_eq!(watch.value("physical_disk.kernel_messages", "sda"), 1.0);
        for disk in ["sr0", "fd0"] {
            assert!(watch.find_value("physical_disk.kernel_messages", disk).is_none(), "{disk}");
        }
    }

    /// Counts of these disks after messages of these texts.
    fn counted(machine: &FakeMachine, messages: &[&str], disks: &[&str]) -> Vec<Option<f64>> {
        machine.put_ordinary_files().put_file("dev/kmsg", "");
        let mut watch = machine.watch_default();
        watch.tick();
        let lines: String = messages.iter().map(|text| format!("3,1,1,-;{text}\n")).collect();
        machine.put_file("dev/kmsg", lines);
        watch.tick_after(1.0);
        disks.iter().map(|disk| watch.find_value("physical_disk.kernel_messages", disk)).collect()
    }

    #[test]
    fn names_with_a_slash_are_found_in_sysfs() {
        let machine = FakeMachine::new();
        machine.put_disk("cciss!c0d0", "104:0", 1000).put_disk("etherd!e0.1", "152:16", 1000);
        machine.put_file("sys/block/cciss!c0d0/cciss!c0d0p1/partition", "1\n");
        let messages = [
            "I/O error, dev cciss/c0d0, sector 2048",
            "Buffer I/O error on dev cciss/c0d0p1, logical block 0, async page read",
            "I/O error, dev etherd/e0.1, sector 8",
        ];
        let counts = counted(&machine, &messages, &["cciss/c0d0", "etherd/e0.1", "cciss!c0d0"]);
        assert_eq!(counts, [Some(2.0), Some(1.0), None]);
    }

    /// Two disks, each behind the controller that has the other's number.
    #[test]
    fn paths_and_controllers_of_shared_nvme_disks_lead_to_the_disk() {
        let machine = FakeMachine::new();
        for name in ["nvme0n1", "nvme1n1", "nvme0c1n1", "nvme1c0n1"] {
            machine.put_disk(name, "259:0", 1000);
        }
        let messages = [
            "I/O error, dev nvme0c1n1, sector 2048",
            "nvme nvme1: I/O 12 QID 3 timeout, aborting",
            "nvme nvme0: controller is down; will reset: CSTS=0x3",
        ];
        let counts = counted(&machine, &messages, &["nvme0n1", "nvme1n1", "nvme0c1n1"]);
        assert_eq!(counts, [Some(2.0), Some(1.0), None]);
    }

    #[test]
    fn a_failed_path_is_found_by_its_number() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("dev/kmsg", "").put_file("sys/block/sda/dev", "8:0\n");
        let mut watch = machine.watch_default();
        watch.tick();
        let lines =
            ["8:0", "8:16"].map(|path| format!("4,1,1,-;device-mapper: multipath: 253:3: Failing path {path}.\n"));
        machine.put_file("dev/kmsg", lines.concat());
        watch.tick_after(1.0);
        assert_eq!(watch.value("physical_disk.kernel_messages", "sda"), 1.0);
    }

    #[test]
    fn messages_are_counted_by_disk_from_the_start() {
        let machine = FakeMachine::new();
        let old = "3,1,1,-;ata1: hard resetting link\n";
        machine.put_ordinary_files().put_file("dev/kmsg", old).put_file("sys/block/sda/sda1/partition", "1\n");
        let mut watch = machine.watch_default();
        watch.tick();
        assert!(watch.find_value("physical_disk.kernel_messages", "sda").is_none(), "that was before");
        let first = "3,2,2,-;Buffer I/O error on dev sda1, logical block 0\n SUBSYSTEM=block\n6,3,3,-;eth0: link up\n";
        machine.put_file("dev/kmsg", format!("{old}{first}"));
        watch.tick_after(1.0);
        assert_eq!(watch.value("physical_disk.kernel_messages", "sda"), 1.0);
        watch.tick_after(1.0);
        assert_eq!(watch.value("physical_disk.kernel_messages", "sda"), 0.0);
    }

    /// A stick that is pulled out leaves messages behind.
    #[test]
    fn a_disk_that_goes_is_dropped_and_restarts_when_it_returns() {
        let machine = FakeMachine::new();
        let line = "3,1,1,-;I/O error, dev sdb, sector 0\n";
        machine.put_ordinary_files().put_file("dev/kmsg", "").put_disk("sdb", "8:16", 1000);
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("dev/kmsg", line);
        watch.tick_after(1.0);
        assert_eq!(watch.value("physical_disk.kernel_messages", "sdb"), 1.0);
        machine.remove("sys/block/sdb");
        watch.tick_after(5.0).tick_after(1.0);
        assert!(watch.find_value("physical_disk.kernel_messages", "sdb").is_none());
        machine.put_disk("sdb", "8:16", 1000).put_file("dev/kmsg", line.repeat(3));
        watch.tick_after(1.0);
        assert_eq!(watch.value("physical_disk.kernel_messages", "sdb"), 2.0);
    }
}
