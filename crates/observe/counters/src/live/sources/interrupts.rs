//! `/proc/interrupts`: interrupts by purpose.
//!
//! Clock, network, disk and inter-processor interrupts are distinguished by the names of their actions; a row whose
//! actions have no known purpose, or two different purposes, is `other`. Each processor's count is a 32-bit number that
//! wraps separately, so sums are compared modulo 2^32, and a processor or row that appears or disappears makes the tick
//! a gap.

use diskwright_base::counter_ids::interrupts;
use std::hint::black_box;
use std::path::PathBuf;

use crate::live::counter_table::{CounterTable, TableColumn, column_index, sum32_column};
use crate::live::open_file::OpenFile;
use crate::live::text_scan::{WordIter, text_lines, trim_blanks};
use crate::live::tick_context::TickContext;
use crate::live::watched_read::{list_folder, read_link};
use crate::live::{Roots, SamplerOptions};

use super::{CounterSource, SourceInfo};

/// This source.
pub const SOURCE: SourceInfo = SourceInfo {
    id: "interrupts",
    files: &["/proc/interrupts"],
    explain: "Interrupts by source: clock, network, disk, other processors.",
    parse_any: |bytes| {
        let processors = processor_count(text_lines(bytes).next().unwrap_or_default());
        text_lines(bytes).for_each(|line| {
            _ = black_box(parse_row(line, processors).map(|r| purpose_of_row(&r, &InterruptNames::default())))
        });
    },
    open: |roots, _: &SamplerOptions| Some(Box::new(Interrupts::new(roots))),
};

/// Purpose of interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptPurpose {
    /// Timers.
    Clock,
    /// Network adapters.
    Network,
    /// Disk and storage adapters.
    Disk,
    /// Processors that call each other.
    InterProcessor,
    /// Anything else, and unknown purposes.
    Other,
}

const COLUMNS: [TableColumn; 6] = [
    sum32_column(interrupts::TOTAL),
    sum32_column(interrupts::CLOCK),
    sum32_column(interrupts::NETWORK),
    sum32_column(interrupts::DISK),
    sum32_column(interrupts::INTER_PROCESSOR),
    sum32_column(interrupts::OTHER),
];

const TOTAL_COLUMN: usize = column_index(&COLUMNS, "interrupts.total");

impl InterruptPurpose {
    fn column(self) -> usize {
        const CLOCK_COLUMN: usize = column_index(&COLUMNS, "interrupts.clock");
        const NETWORK_COLUMN: usize = column_index(&COLUMNS, "interrupts.network");
        const DISK_COLUMN: usize = column_index(&COLUMNS, "interrupts.disk");
        const INTER_PROCESSOR_COLUMN: usize = column_index(&COLUMNS, "interrupts.inter_processor");
        const OTHER_COLUMN: usize = column_index(&COLUMNS, "interrupts.other");
        match self {
            InterruptPurpose::Clock => CLOCK_COLUMN,
            InterruptPurpose::Network => NETWORK_COLUMN,
            InterruptPurpose::Disk => DISK_COLUMN,
            InterruptPurpose::InterProcessor => INTER_PROCESSOR_COLUMN,
            InterruptPurpose::Other => OTHER_COLUMN,
        }
    }
}

/// A row of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptRow<'a> {
    /// Number or short name.
    pub label: &'a [u8],
    /// Sum over processors, modulo 2^64.
    pub sum: u64,
    /// Text after the counts: controller, trigger, actions.
    pub tail: &'a [u8],
}

/// Returns the number of processors in the heading.
pub fn processor_count(heading: &[u8]) -> usize {
    let mut words = WordIter::new(heading);
    std::iter::from_fn(|| words.next_word()).filter(|w| w.starts_with(b"CPU")).count()
}

/// Parses a row; `None` for other lines, such as `ERR:` and `MIS:`, which have one number regardless of the number of
/// processors.
pub fn parse_row(line: &[u8], processors: usize) -> Option<InterruptRow<'_>> {
    let colon = memchr::memchr(b':', line)?;
    let label = trim_blanks(&line[..colon]);
    if label == b"ERR" || label == b"MIS" {
        return None;
    }
    let mut words = WordIter::new(&line[colon + 1..]);
    let mut sum = 0u64;
    for _ in 0..processors {
        sum = sum.wrapping_add(words.next_number()??);
    }
    Some(InterruptRow { label, sum, tail: words.rest() })
}

/// Names in sysfs that occur in action names.
#[derive(Debug, Default)]
struct InterruptNames {
    interfaces: Vec<String>,
    /// virtio devices, each with its driver.
    virtio: Vec<(String, String)>,
}

impl InterruptNames {
    fn read_from_sysfs(roots: &Roots) -> InterruptNames {
        let names = |folder: PathBuf| {
            let entries = list_folder(&folder);
            entries.map(|e| e.file_name().to_string_lossy().into_owned())
        };
        let folder = roots.sys.join("bus/virtio/devices");
        let driver = |name: String| {
            let link = read_link(&folder.join(&name).join("driver")).ok()?;
            Some((name, link.file_name()?.to_string_lossy().into_owned()))
        };
        InterruptNames {
            interfaces: names(roots.sys.join("class/net")).collect(),
            virtio: names(folder.clone()).filter_map(driver).collect(),
        }
    }
}

/// Returns the purpose of a row by its label. ARM's inter-processor rows are numbered and described in words.
fn purpose_of_row(row: &InterruptRow, names: &InterruptNames) -> InterruptPurpose {
    let has_text = |text: &[u8]| memchr::memmem::find(row.tail, text).is_some();
    match row.label {
        // HVS: the timer of Hyper-V, which replaces the local one (arch/x86/kernel/irq.c)
        b"LOC" | b"BCT" | b"CLK" | b"HVS" => InterruptPurpose::Clock,
        b"RES" | b"CAL" | b"TLB" | b"DBL" => InterruptPurpose::InterProcessor,
        label if label.starts_with(b"IPI") && has_text(b"Timer") => InterruptPurpose::Clock,
        label if label.starts_with(b"IPI") => InterruptPurpose::InterProcessor,
        label if label.iter().all(u8::is_ascii_digit) => purpose_of_actions(row.tail, names),
        _ => InterruptPurpose::Other,
    }
}

/// Returns the purpose on which all actions of a row with a known purpose agree, else `Other`.
fn purpose_of_actions(tail: &[u8], names: &InterruptNames) -> InterruptPurpose {
    let mut found = None;
    let text = String::from_utf8_lossy(tail);
    for word in text.split([' ', ',', '\t']).filter(|w| !w.is_empty()) {
        match (purpose_of_action(word, names), found) {
            (Some(purpose), None) => found = Some(purpose),
            (Some(purpose), Some(other)) if purpose != other => return InterruptPurpose::Other,
            _ => {}
        }
    }
    found.unwrap_or(InterruptPurpose::Other)
}

/// Prefixes of the action names that drivers give.
const ACTION_NAMES: &[(InterruptPurpose, &[&str])] = &[
    (InterruptPurpose::Clock, &["timer", "arch_timer", "hpet", "rtc"]),
    (
        InterruptPurpose::Disk,
        &[
            "3w-",
            "aacraid",
            "ahci",
            "aic7",
            "aic9",
            "arcmsr",
            "ata_",
            "bfa",
            "blkif",
            "cciss",
            "fnic",
            "hisi_sas",
            "hpsa",
            "ide0",
            "ide1",
            "isci",
            "lpfc",
            "megaraid",
            "megasas",
            "mmc",
            "mpi3mr",
            "mpt2sas",
            "mpt3sas",
            "mvsas",
            "nvme",
            "pata_",
            "pm80",
            "pvscsi",
            "qla2",
            "sata_",
            "smartpqi",
            "sym53c",
            "ufshcd",
            "vmw_pvscsi",
        ],
    ),
    (
        InterruptPurpose::Network,
        &[
            "ath1",
            "be2net",
            "bnx2",
            "bnxt",
            "cxgb",
            "e1000",
            "ena-mgmnt",
            "eth",
            "fm10k",
            "gve",
            "hns3",
            "i40e",
            "iavf",
            "ice-",
            "idpf",
            "igb",
            "iwlwifi",
            "ixgbe",
            "mana_",
            "mlx4",
            "mlx5",
            "qede",
            "r8169",
            "sfc",
            "tg3",
            "vif",
            "vmxnet",
            "wlan",
            "xen-netif",
        ],
    ),
];

fn purpose_of_action(word: &str, names: &InterruptNames) -> Option<InterruptPurpose> {
    if let Some(rest) = word.strip_prefix("virtio") {
        return purpose_of_virtio_queue(word, rest, names);
    }
    let is_suffix = |rest: &str| rest.is_empty() || rest.starts_with(|c: char| !c.is_ascii_alphanumeric());
    if names.interfaces.iter().any(|name| word.strip_prefix(name.as_str()).is_some_and(is_suffix)) {
        return Some(InterruptPurpose::Network);
    }
    let entry = ACTION_NAMES.iter().find(|(_, prefixes)| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    entry
        .map(|(purpose, _)| *purpose)
        .or_else(|| is_predictable_network_name(word).then_some(InterruptPurpose::Network))
}

/// Returns true for a network name that udev assigned: `enp3s0-TxRx-1`, `eno1`, `ens160-rxtx-0`.
fn is_predictable_network_name(word: &str) -> bool {
    ["eno", "ens", "enp", "enP", "enx", "wlp"]
        .iter()
        .any(|start| word.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit())))
}

/// Returns the purpose of `virtio1-req.0` by its driver; where sysfs is hidden, by the queue's name if only one driver
/// has such queues.
fn purpose_of_virtio_queue(word: &str, rest: &str, names: &InterruptNames) -> Option<InterruptPurpose> {
    let (device, queue) = word.split_once('-')?;
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match names.virtio.iter().find(|(name, _)| name == device).map(|(_, driver)| driver.as_str()) {
        Some("virtio_blk" | "virtio_scsi") => Some(InterruptPurpose::Disk),
        Some("virtio_net") => Some(InterruptPurpose::Network),
        Some(_) => Some(InterruptPurpose::Other),
        None if queue.starts_with("req") => Some(InterruptPurpose::Disk),
        // without a number it may be the random number generator's
        None if queue.starts_with("input.") || queue.starts_with("output.") => Some(InterruptPurpose::Network),
        None => None,
    }
}

struct Interrupts {
    file: OpenFile,
    heading: Vec<u8>,
    processors: usize,
    rows: Vec<InterruptColumn>,
    tables: [CounterTable; 1],
}

struct InterruptColumn {
    label: Box<[u8]>,
    tail: Box<[u8]>,
    column: usize,
}

impl Interrupts {
    fn new(roots: &Roots) -> Interrupts {
        Interrupts {
            file: OpenFile::in_pieces(roots.proc.join("interrupts"), "interrupts are not counted by source"),
            heading: Vec::new(),
            processors: 0,
            rows: Vec::new(),
            tables: [CounterTable::single_row(&COLUMNS)],
        }
    }
}

impl CounterSource for Interrupts {
    fn read_tick(&mut self, context: &mut TickContext) {
        let [table] = &mut self.tables;
        let Some(text) = self.file.read(context) else { return table.blank_all() };
        let mut lines = text_lines(text);
        let heading = lines.next().unwrap_or_default();
        let mut has_changed = heading != self.heading;
        if has_changed {
            self.heading = heading.to_vec();
            self.processors = processor_count(heading);
        }
        let mut names = None;
        let mut sums = [0u64; COLUMNS.len()];
        let mut count = 0;
        for row in lines.filter_map(|line| parse_row(line, self.processors)) {
            let is_known = self.rows.get(count).is_some_and(|l| *l.label == *row.label && *l.tail == *row.tail);
            if !is_known {
                has_changed = true;
                let names = names.get_or_insert_with(|| InterruptNames::read_from_sysfs(context.roots));
                let column = purpose_of_row(&row, names).column();
                self.rows.truncate(count);
                self.rows.push(InterruptColumn { label: row.label.into(), tail: row.tail.into(), column });
            }
            let column = self.rows[count].column;
            sums[column] = sums[column].wrapping_add(row.sum);
            sums[TOTAL_COLUMN] = sums[TOTAL_COLUMN].wrapping_add(row.sum);
            count += 1;
        }
        has_changed |= self.rows.len() != count;
        self.rows.truncate(count);
        if has_changed {
            // the sums of different rows or processors cannot be compared
            table.forget_previous();
        }
        table.begin_tick();
        for (to, sum) in table.row_mut(0).iter_mut().zip(sums) {
            *to = sum & u64::from(u32::MAX);
        }
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

    fn purpose(tail: &str) -> InterruptPurpose {
        let known = InterruptNames {
            interfaces: vec!["lan0".into()],
            virtio: vec![("virtio4".into(), "virtio_rng".into()), ("virtio1".into(), "virtio_blk".into())],
        };
        purpose_of_actions(tail.as_bytes(), &known)
    }

    #[test]
    fn actions_give_the_purpose() {
        assert_eq!(purpose(" IO-APIC 2-edge timer"), InterruptPurpose::Clock);
        assert_eq!(purpose(" PCI-MSI 1048576-edge nvme0q1"), InterruptPurpose::Disk);
        assert_eq!(purpose(" PCI-MSI 512000-edge ahci[0000:00:1f.2]"), InterruptPurpose::Disk);
        assert_eq!(purpose(" PCI-MSI 32768-edge mpt3sas0-msix3"), InterruptPurpose::Disk);
        assert_eq!(purpose(" xen-dyn -event blkif"), InterruptPurpose::Disk);
        assert_eq!(purpose(" PCI-MSI 1-edge eth0-TxRx-0"), InterruptPurpose::Network);
        assert_eq!(purpose(" PCI-MSI 1-edge enp3s0f1-rx-0"), InterruptPurpose::Network);
        assert_eq!(purpose(" PCI-MSI 1-edge mlx5_comp3@pci:0000:03:00.0"), InterruptPurpose::Network);
        assert_eq!(purpose(" PCI-MSI 1-edge lan0-TxRx-0"), InterruptPurpose::Network);
        assert_eq!(purpose(" PCI-MSIX-0000:00:04.0 1-edge iavf-ens4-TxRx-0"), InterruptPurpose::Network);
        assert_eq!(purpose(" Hyper-V PCIe MSI 1-edge mana_q1@pci:7870:00:00.0"), InterruptPurpose::Network);
        assert_eq!(purpose(" IO-APIC 1-edge i8042"), InterruptPurpose::Other);
    }

    #[test]
    fn a_virtio_queue_is_its_drivers() {
        assert_eq!(purpose(" PCI-MSIX 1-edge virtio1-req.0"), InterruptPurpose::Disk);
        assert_eq!(purpose(" PCI-MSIX 1-edge virtio1-config"), InterruptPurpose::Disk);
        assert_eq!(purpose(" PCI-MSIX 1-edge virtio4-input"), InterruptPurpose::Other);
        // no driver seen
        assert_eq!(purpose(" PCI-MSIX 1-edge virtio2-input.0"), InterruptPurpose::Network);
        assert_eq!(purpose(" PCI-MSIX 1-edge virtio7-req.1"), InterruptPurpose::Disk);
        assert_eq!(purpose(" PCI-MSIX 1-edge virtio7-input"), InterruptPurpose::Other);
    }

    #[test]
    fn a_shared_line_with_two_purposes_is_not_guessed() {
        assert_eq!(purpose(" IO-APIC 16-fasteoi ahci, eth0"), InterruptPurpose::Other);
        assert_eq!(purpose(" IO-APIC 16-fasteoi ahci, ehci_hcd:usb1"), InterruptPurpose::Disk);
    }

    #[test]
    fn rows_and_their_names() {
        assert_eq!(processor_count(b"           CPU0       CPU1"), 2);
        let row = parse_row(b" 24:  1  2 PCI-MSI 1-edge nvme0q0", 2).unwrap();
        assert_eq!((row.label, row.sum), (&b"24"[..], 3));
        assert_eq!(parse_row(b"ERR:          0", 2), None);
        assert_eq!(parse_row(b" 24:  1", 2), None);
        let named = |label: &[u8], tail: &[u8]| {
            purpose_of_row(&InterruptRow { label, sum: 0, tail }, &InterruptNames::default())
        };
        assert_eq!(named(b"LOC", b""), InterruptPurpose::Clock);
        assert_eq!(named(b"HVS", b" Hyper-V stimer0 interrupts"), InterruptPurpose::Clock);
        assert_eq!(named(b"TLB", b""), InterruptPurpose::InterProcessor);
        assert_eq!(named(b"IPI0", b" Rescheduling interrupts"), InterruptPurpose::InterProcessor);
        assert_eq!(named(b"IPI4", b" Timer broadcast interrupts"), InterruptPurpose::Clock);
        assert_eq!(named(b"HYP", b" Hypervisor callback interrupts"), InterruptPurpose::Other);
    }

    #[test]
    fn each_processors_count_wraps_by_itself() {
        let machine = FakeMachine::new();
        let text = |ahci: [u32; 2]| {
            let [a, b] = ahci;
            format!("  CPU0 CPU1\n 1: {a} {b} IO-APIC 1-edge ahci\nLOC: 5 5 Local timer interrupts\nERR: 9\n")
        };
        machine.put_ordinary_files().put_file("proc/interrupts", text([u32::MAX, 100]));
        let mut watch = machine.watch_default();
        watch.tick();
        assert!(watch.value("interrupts.disk", "").is_nan());
        machine.put_file("proc/interrupts", text([4, 110]));
        watch.tick_after(1.0);
        assert_eq!(watch.value("interrupts.disk", ""), 15.0);
        assert_eq!(watch.value("interrupts.total", ""), 15.0);
        assert_eq!(watch.value("interrupts.clock", ""), 0.0);
    }

    #[test]
    fn a_changed_set_of_rows_or_processors_makes_a_gap() {
        let machine = FakeMachine::new();
        machine.put_ordinary_files().put_file("proc/interrupts", "  CPU0 CPU1\n 1: 900 900 IO-APIC 1-edge ahci\n");
        let mut watch = machine.watch_default();
        watch.tick();
        machine.put_file("proc/interrupts", "  CPU0\n 1: 901 IO-APIC 1-edge ahci\n");
        watch.tick_after(1.0);
        assert!(watch.value("interrupts.disk", "").is_nan());
        machine.put_file("proc/interrupts", "  CPU0\n 1: 905 IO-APIC 1-edge ahci\n 2: 7 IO-APIC 2-edge nvme0q1\n");
        watch.tick_after(1.0);
        assert!(watch.value("interrupts.disk", "").is_nan());
        watch.tick_after(1.0);
        assert_eq!(watch.value("interrupts.disk", ""), 0.0);
    }
}
