//! The machine's hardware, apart from the health of its disks: PCI Express links and their errors, memory errors,
//! sensors, power, errors of network adapters, of SCSI commands and of ext4. Reading some of these small files of /sys
//! queries a slow controller: a thread reads them once per minute, and a tick collects the readings.

mod adapter_statistics;
mod readings;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, channel};

use diskwright_base::Note;
use diskwright_base::counter_ids::{hardware, logical_disk, network, physical_disk};

use crate::live::counter_table::{
    ABSENT, CounterReset, CounterTable, TableColumn, column_index, level_column, total_column,
};
use crate::live::tick_context::TickContext;
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};
use readings::{CoreId, HardwareReadings};

/// Stack of the thread: the default of 2 MiB is much where the address space is limited (`ulimit -v`).
const STACK_BYTES: usize = 512 << 10;
/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "hardware",
    files: &[
        "/sys/bus/pci/devices/ADDRESS/aer_dev_*",
        "/sys/bus/pci/devices/ADDRESS/current_link_*",
        "/sys/devices/system/edac/mc/mcN",
        "/sys/class/hwmon/hwmonN",
        "/sys/class/powercap",
        "/sys/devices/system/cpu/cpuN/thermal_throttle",
        "/sys/block/sdX/device/ioerr_cnt",
        "/sys/class/net/INTERFACE/statistics",
        "SIOCETHTOOL of INTERFACE",
        "/sys/fs/ext4/DEVICE/errors_count",
    ],
    explain: "Errors and speed of PCI Express links, memory errors, temperatures, power, fans, throttling; errors of \
              SCSI commands, network adapters and ext4.",
    parse_any: |bytes| {
        _ = black_box((
            readings::parse_aer_total(bytes),
            readings::parse_hexadecimal(bytes),
            readings::parse_transfer_rate(bytes),
        ));
    },
    open: |_: &Roots, _: &SamplerOptions| Some(Box::new(HardwareSource::new())),
};

pub(super) const PART_COLUMNS: [TableColumn; 14] = [
    total_column(hardware::CORRECTED_MEMORY_ERRORS, 1.0),
    total_column(hardware::UNCORRECTED_MEMORY_ERRORS, 1.0),
    total_column(hardware::PCIE_CORRECTED_ERRORS, 1.0),
    total_column(hardware::PCIE_UNCORRECTED_ERRORS, 1.0),
    level_column(hardware::LINK_WIDTH_SHARE, 1e-6),
    level_column(hardware::LINK_SPEED_SHARE, 1e-6),
    level_column(hardware::LINK_BYTES_PER_S, 1.0),
    level_column(hardware::TEMPERATURE, 1e-3),
    level_column(hardware::TEMPERATURE_LIMIT, 1e-3),
    level_column(hardware::POWER, 1e-6),
    level_column(hardware::FAN_SPEED, 1.0),
    total_column(hardware::THERMAL_THROTTLES, 1.0),
    total_column(hardware::ENERGY_USED, 1e-6),
    level_column(hardware::POWER_CAP, 1e-6),
];

const fn part_column(counter: &str) -> usize {
    column_index(&PART_COLUMNS, counter)
}

const CORRECTED_MEMORY_COLUMN: usize = part_column("hardware.corrected_memory_errors");
const UNCORRECTED_MEMORY_COLUMN: usize = part_column("hardware.uncorrected_memory_errors");
const CORRECTED_PCIE_COLUMN: usize = part_column("hardware.pcie_corrected_errors");
const UNCORRECTED_PCIE_COLUMN: usize = part_column("hardware.pcie_uncorrected_errors");
const LINK_WIDTH_COLUMN: usize = part_column("hardware.link_width_share");
const LINK_SPEED_COLUMN: usize = part_column("hardware.link_speed_share");
const LINK_RATE_COLUMN: usize = part_column("hardware.link_bytes_per_s");
const TEMPERATURE_COLUMN: usize = part_column("hardware.temperature");
const TEMPERATURE_LIMIT_COLUMN: usize = part_column("hardware.temperature_limit");
const POWER_COLUMN: usize = part_column("hardware.power");
const FAN_COLUMN: usize = part_column("hardware.fan_speed");
const THROTTLES_COLUMN: usize = part_column("hardware.thermal_throttles");
const ENERGY_COLUMN: usize = part_column("hardware.energy_used");
const CAP_COLUMN: usize = part_column("hardware.power_cap");

/// A part's name and its readings.
type PartReadings = (String, [u64; PART_COLUMNS.len()]);
const DISK_COLUMNS: [TableColumn; 2] =
    [total_column(physical_disk::IO_ERRORS, 1.0), total_column(physical_disk::IO_TIMEOUTS, 1.0)];
pub(super) const ADAPTER_COLUMNS: [TableColumn; 6] = [
    total_column(network::RECEIVED_MISSED, 1.0),
    total_column(network::RECEIVED_DAMAGED, 1.0),
    total_column(network::LINK_CHANGES, 1.0),
    total_column(network::RECEIVED_ADAPTER_DROPS, 1.0),
    total_column(network::SENT_ADAPTER_DROPS, 1.0),
    total_column(network::OVER_ALLOWANCE, 1.0),
];
const FILESYSTEM_COLUMNS: [TableColumn; 1] = [level_column(logical_disk::ERRORS_RECORDED, 1.0)];

/// Interval at which the files are read, nanoseconds.
const READ_INTERVAL_NS: u64 = 60_000_000_000;
/// Time after which a reader that has not returned counts as hanging, and earlier readings as outdated, nanoseconds.
const HANG_AFTER_NS: u64 = 3 * READ_INTERVAL_NS;

struct HardwareSource {
    /// Running time when the newest reading was started.
    started_ns: Option<u64>,
    /// Running time when the reading in `last` was started; energy was read later, by its `energy_after_s`.
    last_started_ns: Option<u64>,
    hang_noted: bool,
    pending_reading: Option<Receiver<HardwareReadings>>,
    last: HardwareReadings,
    throttles: ThrottleSum,
    tables: [CounterTable; 4],
}

/// Number of times that cores were throttled since the first reading. While a core is offline, its count is missing:
/// the plain sum of all counts would fall, and rise again later as if all cores had become hot at once.
#[derive(Default)]
struct ThrottleSum {
    known: HashMap<CoreId, u64>,
    sum: u64,
}

impl ThrottleSum {
    /// Adds the increases since the last call and returns the sum; `None` if no core shows a count.
    fn add_increases(&mut self, cores: &[(CoreId, u64)]) -> Option<u64> {
        for (core, count) in cores {
            let before = self.known.insert(*core, *count);
            self.sum = self.sum.saturating_add(before.map_or(0, |before| count.saturating_sub(before)));
        }
        (!cores.is_empty()).then_some(self.sum)
    }
}

impl HardwareSource {
    fn new() -> HardwareSource {
        let table = |instance_kind, columns| CounterTable::new(instance_kind, columns, CounterReset::WholeRow);
        HardwareSource {
            started_ns: None,
            last_started_ns: None,
            hang_noted: false,
            pending_reading: None,
            last: HardwareReadings::default(),
            throttles: ThrottleSum::default(),
            tables: [
                table("sensor", &PART_COLUMNS),
                table("the SCSI error count of", &DISK_COLUMNS),
                table("the error count of", &ADAPTER_COLUMNS),
                table("the error count of", &FILESYSTEM_COLUMNS),
            ],
        }
    }

    fn start_reading(&mut self, context: &TickContext) {
        let since_ns = self.started_ns.map_or(u64::MAX, |started| context.running_ns.saturating_sub(started));
        // no second reader is started while the first hangs in a controller
        if since_ns < READ_INTERVAL_NS || self.pending_reading.is_some() {
            return;
        }
        self.started_ns = Some(context.running_ns);
        let (sender, receiver) = channel();
        let roots = context.roots.clone();
        let read = move || _ = sender.send(readings::read_hardware(&roots));
        let thread = std::thread::Builder::new().name("hardware".into()).stack_size(STACK_BYTES).spawn(read);
        self.pending_reading = thread.ok().map(|_| receiver);
    }

    fn collect_readings(&mut self) {
        let Some(receiver) = &self.pending_reading else { return };
        match receiver.try_recv() {
            Ok(mut readings) => {
                self.pending_reading = None;
                let energy_ns = |started: u64, readings: &HardwareReadings| {
                    started.saturating_add(readings.energy_after_s.saturating_mul(1_000_000_000))
                };
                let now_ns = self.started_ns.map(|started| energy_ns(started, &readings));
                let last_ns = self.last_started_ns.map(|started| energy_ns(started, &self.last));
                let since_ns = now_ns.zip(last_ns).map(|(now, last)| now.saturating_sub(last));
                compute_power(&self.last.parts, &mut readings.parts, since_ns.unwrap_or(0));
                self.last_started_ns = self.started_ns;
                if let Some(throttles) = self.throttles.add_increases(&readings.throttles) {
                    let mut values = [ABSENT; PART_COLUMNS.len()];
                    values[THROTTLES_COLUMN] = throttles;
                    readings.parts.push(("processors".into(), values));
                }
                let [parts, disks, adapters, filesystems] = &mut self.tables;
                retain_rows(parts, &readings.parts);
                retain_rows(disks, &readings.disks);
                retain_rows(adapters, &readings.adapters);
                retain_rows(filesystems, &readings.filesystems);
                self.last = readings;
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
            Err(std::sync::mpsc::TryRecvError::Disconnected) => self.pending_reading = None,
        }
    }
}

impl HardwareSource {
    /// Returns true if the reader hangs in a controller, and notes that once.
    fn is_hanging(&mut self, context: &mut TickContext) -> bool {
        let since_ns = self.started_ns.map_or(0, |started| context.running_ns.saturating_sub(started));
        let is_hanging = self.pending_reading.is_some() && since_ns >= HANG_AFTER_NS;
        if is_hanging && !self.hang_noted {
            let text = "a sensor or controller does not answer: temperatures, power and errors of the hardware are \
                        unknown until it does";
            context.notes.push(context.time_ns, Note::GAP, text);
        }
        self.hang_noted = is_hanging;
        is_hanging
    }
}

/// Computes the power of parts that only count their energy; not of a part whose count restarted.
fn compute_power(before: &[PartReadings], now: &mut [PartReadings], since_ns: u64) {
    for (name, values) in now {
        let energy = |part: &[u64; PART_COLUMNS.len()]| Some(part[ENERGY_COLUMN]).filter(|energy| *energy != ABSENT);
        let last = before.iter().find(|(known, _)| known == name).and_then(|(_, values)| energy(values));
        let used = energy(values).zip(last).and_then(|(now, last)| now.checked_sub(last));
        if let Some(used) = used.filter(|_| since_ns > 0 && values[POWER_COLUMN] == ABSENT) {
            let power = u128::from(used) * 1_000_000_000 / u128::from(since_ns);
            values[POWER_COLUMN] = u64::try_from(power).unwrap_or(ABSENT);
        }
    }
}

fn retain_rows<const N: usize>(table: &mut CounterTable, rows: &[(String, [u64; N])]) {
    table.retain_rows(|name, _| rows.iter().any(|(known, _)| known == name));
}

fn fill_and_compute<const N: usize>(table: &mut CounterTable, rows: &[(String, [u64; N])], context: &mut TickContext) {
    if rows.is_empty() && table.len() == 0 {
        return;
    }
    table.begin_tick();
    for (index, (name, values)) in rows.iter().enumerate() {
        let row = if table.is_row(index, name.as_bytes()) { index } else { table.row_or_insert(name) };
        table.row_mut(row).copy_from_slice(values);
    }
    table.compute_cells(context);
}

impl CounterSource for HardwareSource {
    fn read_tick(&mut self, context: &mut TickContext) {
        self.collect_readings();
        if context.is_slow_tick {
            self.start_reading(context);
        }
        if self.is_hanging(context) {
            self.tables.iter_mut().for_each(CounterTable::blank_all);
            return;
        }
        let [parts, disks, adapters, filesystems] = &mut self.tables;
        fill_and_compute(parts, &self.last.parts, context);
        fill_and_compute(disks, &self.last.disks, context);
        fill_and_compute(adapters, &self.last.adapters, context);
        fill_and_compute(filesystems, &self.last.filesystems, context);
    }

    fn tables(&mut self) -> &mut [CounterTable] {
        &mut self.tables
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::Note;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use crate::live::fake::{FakeMachine, FakeWatch};

    #[test]
    fn a_core_that_goes_offline_and_back_adds_no_throttling() {
        let (one, other) = ((Some(0), Some(0)), (Some(0), Some(1)));
        let mut sum = super::ThrottleSum::default();
        assert_eq!(sum.add_increases(&[(one, 5), (other, 20_000)]), Some(0));
        assert_eq!(sum.add_increases(&[(one, 6)]), Some(1));
        assert_eq!(sum.add_increases(&[(one, 6), (other, 20_002)]), Some(3));
        assert_eq!(super::ThrottleSum::default().add_increases(&[]), None);
    }

    /// Ticks until the thread's readings have arrived.
    fn wait_for_readings(watch: &mut FakeWatch, seconds: f64) {
        watch.tick_after(seconds);
        for _ in 0..2000 {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        watch.tick_after(1.0);
    }

    #[test]
    fn parts_have_their_errors_sensors_and_links() {
        let machine = FakeMachine::new();
        let pci = "sys/bus/pci/devices/0000:01:00.0";
        let aer = |errors: u32| format!("RxErr {errors}\nBadTLP 0\nTOTAL_ERR_COR {errors}\n");
        machine.put_ordinary_files().put_file(&format!("{pci}/class"), "0x010802\n");
        machine.put_file(&format!("{pci}/aer_dev_correctable"), aer(4));
        machine.put_file(&format!("{pci}/aer_dev_nonfatal"), "TOTAL_ERR_NONFATAL 1\n");
        machine.put_file(&format!("{pci}/aer_dev_fatal"), "TOTAL_ERR_FATAL 2\n");
        machine.put_file(&format!("{pci}/current_link_speed"), "8.0 GT/s PCIe\n");
        machine.put_file(&format!("{pci}/max_link_speed"), "16.0 GT/s PCIe\n");
        machine.put_file(&format!("{pci}/current_link_width"), "4\n").put_file(&format!("{pci}/max_link_width"), "4\n");
        machine.put_file("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
        machine.put_file("sys/devices/system/edac/mc/mc0/ce_count", "7\n");
        machine.put_file("sys/devices/system/edac/mc/mc0/ue_count", "0\n");
        let hwmon = "sys/class/hwmon/hwmon2";
        machine
            .put_file(&format!("{hwmon}/name"), "coretemp\n")
            .put_file(&format!("{hwmon}/temp1_label"), "Package id 0\n");
        machine
            .put_file(&format!("{hwmon}/temp1_input"), "71000\n")
            .put_file(&format!("{hwmon}/temp1_crit"), "100000\n");
        machine.put_file(&format!("{hwmon}/temp2_input"), "-5000\n").put_file(&format!("{hwmon}/fan1_input"), "900\n");
        machine.put_file("sys/class/hwmon/hwmon3/name", "drivetemp\n");
        machine.put_file("sys/class/hwmon/hwmon3/temp1_input", "30000\n");
        machine
            .put_file("sys/block/sda/device/ioerr_cnt", "0x1f\n")
            .put_file("sys/block/sda/device/iotmo_cnt", "0x0\n");
        let mut watch = machine.watch_default();
        wait_for_readings(&mut watch, 1.0);
        assert_eq!(watch.value("hardware.link_speed_share", "0000:01:00.0"), 0.5);
        assert_eq!(watch.value("hardware.link_width_share", "0000:01:00.0"), 1.0);
        assert_eq!(watch.value("hardware.link_bytes_per_s", "0000:01:00.0"), 3_938_461_538.0);
        assert_eq!(watch.value("hardware.temperature", "coretemp/Package id 0"), 71.0);
        assert_eq!(watch.value("hardware.temperature_limit", "coretemp/Package id 0"), 100.0);
        assert_eq!(watch.value("hardware.fan_speed", "coretemp/fan1"), 900.0);
        assert!(watch.find_value("hardware.temperature", "coretemp/temp2").is_none(), "below zero");
        let schema = watch.sampler.schema().clone();
        assert!(!schema.series.iter().any(|s| s.instance.contains("drivetemp")), "it would ask the drive");
        machine.put_file(&format!("{pci}/aer_dev_correctable"), aer(9));
        machine.put_file("sys/devices/system/edac/mc/mc0/ce_count", "8\n");
        machine.put_file("sys/block/sda/device/ioerr_cnt", "0x22\n");
        watch.tick_after(5.0);
        assert_eq!(watch.value("hardware.pcie_corrected_errors", "0000:01:00.0"), 0.0, "read once a minute");
        wait_for_readings(&mut watch, 60.0);
        assert_eq!(watch.value("hardware.pcie_corrected_errors", "0000:01:00.0"), 5.0);
        assert_eq!(watch.value("hardware.pcie_uncorrected_errors", "0000:01:00.0"), 0.0);
        assert_eq!(watch.value("hardware.corrected_memory_errors", "mc0"), 1.0);
        assert_eq!(watch.value("physical_disk.io_errors", "sda"), 3.0);
    }

    /// A pipe without a writer: opening it blocks for ever.
    #[test]
    fn a_sensor_that_hangs_leaves_no_old_readings() {
        let machine = FakeMachine::new();
        let sensor = "sys/class/hwmon/hwmon2/temp1_input";
        machine.put_ordinary_files().put_file("sys/class/hwmon/hwmon2/name", "coretemp\n").put_file(sensor, "71000\n");
        let mut watch = machine.watch_default();
        wait_for_readings(&mut watch, 1.0);
        assert_eq!(watch.value("hardware.temperature", "coretemp/temp1"), 71.0);
        machine.remove(sensor);
        mknodat(CWD, machine.folder().join(sensor), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        watch.tick_after(60.0).tick_after(170.0);
        assert_eq!(watch.value("hardware.temperature", "coretemp/temp1"), 71.0);
        watch.tick_after(20.0).tick_after(60.0);
        assert!(watch.value("hardware.temperature", "coretemp/temp1").is_nan());
        let count = watch.notes_of_kind(Note::GAP).iter().filter(|text| text.contains("does not answer")).count();
        assert_eq!(count, 1);
    }

    #[test]
    fn a_slot_with_fewer_lanes_than_its_card_is_not_degraded() {
        let machine = FakeMachine::new();
        let port = "devices/pci0000:00/0000:00:1d.0";
        machine.put_ordinary_files().put_file(&format!("sys/{port}/max_link_width"), "2\n");
        let card = format!("sys/{port}/0000:02:00.0");
        machine.put_file(&format!("{card}/class"), "0x010802\n").put_file(&format!("{card}/max_link_width"), "4\n");
        machine.put_file(&format!("{card}/current_link_width"), "2\n");
        machine.put_link("sys/bus/pci/devices/0000:02:00.0", &format!("../../../{port}/0000:02:00.0"));
        let mut watch = machine.watch_default();
        wait_for_readings(&mut watch, 1.0);
        assert_eq!(watch.value("hardware.link_width_share", "0000:02:00.0"), 1.0);
        machine.put_file(&format!("{card}/current_link_width"), "1\n");
        wait_for_readings(&mut watch, 60.0);
        assert_eq!(watch.value("hardware.link_width_share", "0000:02:00.0"), 0.5);
    }

    #[test]
    fn a_sensor_with_an_average_counts_once() {
        let machine = FakeMachine::new();
        let hwmon = "sys/class/hwmon/hwmon2";
        machine
            .put_ordinary_files()
            .put_file(&format!("{hwmon}/name"), "amdgpu\n")
            .put_file(&format!("{hwmon}/power1_input"), "9000000\n");
        machine.put_file(&format!("{hwmon}/power1_average"), "8000000\n");
        machine.put_file(&format!("{hwmon}/power2_average"), "3000000\n");
        let mut watch = machine.watch_default();
        wait_for_readings(&mut watch, 1.0);
        assert_eq!(watch.sampler.schema().instances("hardware"), ["amdgpu/power1", "amdgpu/power2"]);
        assert_eq!(watch.value("hardware.power", "amdgpu/power1"), 9.0);
        assert_eq!(watch.value("hardware.power", "amdgpu/power2"), 3.0);
    }

    #[test]
    fn a_package_listed_twice_counts_once() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        let put = |zone: &str, energy: u64| {
            let folder = format!("sys/class/powercap/{zone}");
            machine.put_file(&format!("{folder}/name"), "package-0\n");
            machine.put_file(&format!("{folder}/energy_uj"), format!("{energy}\n"));
        };
        put("intel-rapl:0", 5_000_000);
        put("intel-rapl-mmio:0", 1_000_000);
        let mut watch = machine.watch_default();
        wait_for_readings(&mut watch, 1.0);
        put("intel-rapl:0", 8_000_000);
        put("intel-rapl-mmio:0", 4_000_000);
        wait_for_readings(&mut watch, 60.0);
        assert!((watch.value("hardware.energy_used", "package-0") - 3.0).abs() < 1e-9);
        // 3 J in the 61 s between the readings
        assert!((watch.value("hardware.power", "package-0") - 3.0 / 61.0).abs() < 1e-5);
    }

    #[test]
    fn a_disabled_power_limit_is_none() {
        let machine = FakeMachine::new();
        for (zone, enabled, limit) in [(0, 1, 65_000_000), (1, 0, 65_000_000), (2, 1, 0)] {
            let folder = format!("sys/class/powercap/intel-rapl:{zone}");
            machine.put_file(&format!("{folder}/name"), format!("zone-{zone}\n"));
            machine.put_file(&format!("{folder}/enabled"), format!("{enabled}\n"));
            machine.put_file(&format!("{folder}/energy_uj"), "5000000\n");
            machine.put_file(&format!("{folder}/constraint_0_power_limit_uw"), format!("{limit}\n"));
        }
        let parts = super::readings::read_hardware(&machine.roots()).parts;
        let cap =
            |name: &str| parts.iter().find(|(known, _)| known == name).map(|(_, values)| values[super::CAP_COLUMN]);
        assert_eq!(cap("zone-0"), Some(65_000_000));
        assert_eq!((cap("zone-1"), cap("zone-2")), (Some(super::ABSENT), Some(super::ABSENT)));
    }

    #[test]
    fn cores_count_once_and_adapters_and_filesystems_have_their_errors() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files();
        for (cpu, core, count) in [("cpu0", 0, 5), ("cpu1", 1, 7), ("cpu2", 0, 5)] {
            let folder = format!("sys/devices/system/cpu/{cpu}");
            machine.put_file(&format!("{folder}/topology/core_id"), format!("{core}\n"));
            machine.put_file(&format!("{folder}/topology/physical_package_id"), "0\n");
            machine.put_file(&format!("{folder}/thermal_throttle/core_throttle_count"), format!("{count}\n"));
        }
        machine
            .put_file("sys/class/net/eth0/device/vendor", "0x8086\n")
            .put_file("sys/class/net/lo/carrier_changes", "1\n");
        machine.put_file("sys/class/net/eth0/statistics/rx_missed_errors", "3\n");
        machine.put_file("sys/class/net/eth0/carrier_changes", "2\n");
        machine.put_file("sys/class/block/sda/dev", "8:0\n").put_file("sys/fs/ext4/sda/errors_count", "4\n");
        machine.put_file("sys/class/powercap/intel-rapl:0/name", "package-0\n");
        machine.put_file("sys/class/powercap/intel-rapl:0/energy_uj", "5000000\n");
        machine.put_file("sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", "65000000\n");
        let mut watch = machine.watch_default();
        wait_for_readings(&mut watch, 1.0);
        assert_eq!(watch.value("logical_disk.errors_recorded", "/"), 4.0);
        assert_eq!(watch.value("hardware.power_cap", "package-0"), 65.0);
        machine.put_file("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "9\n");
        machine.put_file("sys/class/net/eth0/statistics/rx_missed_errors", "13\n");
        machine.put_file("sys/class/powercap/intel-rapl:0/energy_uj", "8000000\n");
        wait_for_readings(&mut watch, 60.0);
        assert_eq!(watch.value("hardware.thermal_throttles", "processors"), 2.0);
        assert_eq!(watch.value("network.received_missed", "eth0"), 10.0);
        assert_eq!(watch.value("network.link_changes", "eth0"), 0.0);
        assert!((watch.value("hardware.energy_used", "package-0") - 3.0).abs() < 1e-9);
        // 3 J in the 61 s between the readings
        assert!((watch.value("hardware.power", "package-0") - 3.0 / 61.0).abs() < 1e-5);
        assert!(watch.find_value("network.link_changes", "lo").is_none());
    }
}
