//! Filesystems, alignment of partitions, PCIe links and the clock.

use super::{format_fill_level, format_rate, unknown_fact};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::filesystem_space::{self, FilesystemSpace};
use crate::host_facts::{HostFacts, sysfs_name};
use diskwright_base::arithmetic::pcie_bytes_per_s;
use diskwright_base::byte_size::ByteSize;
use diskwright_base::text::quote_for_shell;

const GIB: f64 = 1_073_741_824.0;
/// Free space that can be used up within moments, bytes. Our choice.
const LOW_SPACE_BYTES: f64 = 5.0 * GIB;

/// Returns the space of a filesystem, or why it is unknown.
fn filesystem_space<'a>(host: &'a HostFacts, point: &str) -> Result<&'a FilesystemSpace, String> {
    let refusal = host.tree.unreadable.get(filesystem_space::SPACE_FILE);
    let because = || refusal.cloned().unwrap_or_else(|| "its space was not recorded".into());
    host.space.iter().find(|s| s.mount == point && s.blocks > 0.0).ok_or_else(because)
}

/// Judges free space.
pub(super) fn judge_space(host: &HostFacts, point: &str) -> CheckOutcome {
    let space = match filesystem_space(host, point) {
        Ok(space) => space,
        Err(because) => return CheckOutcome::Unknown(because),
    };
    let (used, free) = (1.0 - space.free_blocks / space.blocks, space.free_blocks * space.block_bytes);
    // on a filesystem of many terabytes, even five percent is plenty
    if used < 0.9 || free > 100.0 * GIB {
        return CheckOutcome::Good;
    }
    let is_full = used >= 0.97 && free < LOW_SPACE_BYTES;
    let severity = if is_full { AdviceSeverity::Critical } else { AdviceSeverity::Warning };
    Proposal::new(format!("{} used, {} free", format_fill_level(used), ByteSize::capacity(free)))
        .with_severity(severity)
        .into_outcome()
}

/// Judges free inodes.
pub(super) fn judge_inodes(host: &HostFacts, point: &str) -> CheckOutcome {
    let space = match filesystem_space(host, point) {
        Ok(space) => space,
        Err(because) => return CheckOutcome::Unknown(because),
    };
    // xfs and btrfs create inodes on demand
    let used = 1.0 - space.free_inodes / space.total_inodes;
    if space.total_inodes <= 0.0 || used < 0.9 {
        return CheckOutcome::Good;
    }
    Proposal::new(format!("{} of the inodes used", format_fill_level(used))).into_outcome()
}

/// Judges write barriers.
pub(super) fn judge_barriers(host: &HostFacts, point: &str) -> CheckOutcome {
    let Some(mount) = host.mount_at(point) else { return unknown_fact(host, "proc/self/mountinfo") };
    let option = mount.options.split(',').find(|option| matches!(*option, "nobarrier" | "barrier=0"));
    let Some(option) = option else { return CheckOutcome::Good };
    let filesystem = host.topology.filesystems.iter().find(|filesystem| filesystem.mount == point);
    let disks = filesystem.map(|filesystem| host.topology.leaves_under(&filesystem.device)).unwrap_or_default();
    let is_safe = |disk: &&str| !super::queue::may_lose_writes(host, disk);
    let proposal = Proposal::new(format!("{} is mounted with {option}", mount.kind));
    // without a volatile cache there is nothing to flush
    if !disks.is_empty() && disks.iter().all(is_safe) {
        let seen = format!("{}, on disks that report no volatile cache", proposal.seen);
        return Proposal { seen, ..proposal }.with_severity(AdviceSeverity::Info).into_outcome();
    }
    proposal.into_outcome()
}

/// Judges updates of access times.
pub(super) fn judge_access_times(host: &HostFacts, point: &str) -> CheckOutcome {
    let Some(mount) = host.mount_at(point) else { return unknown_fact(host, "proc/self/mountinfo") };
    // a filesystem in memory writes nothing to a device
    if matches!(mount.kind.as_str(), "rootfs" | "ramfs" | "tmpfs") {
        return CheckOutcome::Absent;
    }
    let has_option = |word: &str| mount.flags.split(',').chain(mount.options.split(',')).any(|flag| flag == word);
    // lazytime keeps access times in memory
    if has_option("relatime")
        || has_option("noatime")
        || has_option("lazytime")
        || mount.flags.split(',').any(|flag| flag == "ro")
    {
        return CheckOutcome::Good;
    }
    let mut proposal = Proposal::new("each read writes the access time");
    if mount.kind == "zfs" {
        let dataset = quote_for_shell(&mount.source);
        proposal.apply = Some(format!("zfs set relatime=on {dataset}"));
        proposal.undo = Some(format!("zfs set relatime=off {dataset}"));
    }
    proposal.into_outcome()
}

/// Largest size of an extended partition, which holds only a table, in sectors of 512 bytes: the kernel reports it as
/// 1 KiB or one sector of the disk, at most 4 KiB.
const TABLE_SECTORS: f64 = 8.0;
/// Largest size of an unused partition that is taken for a boot loader's or an installer's reserve, sectors (256 MiB).
/// Our choice.
const RESERVED_SECTORS: f64 = 524_288.0;
/// Maximum block size of a real disk, bytes; only bridges and arrays report more.
const MAX_BLOCK_BYTES: f64 = 1_048_576.0;

/// Judges the alignment of a partition.
pub(super) fn judge_partition(host: &HostFacts, name: &str) -> CheckOutcome {
    let disk = host.find_device(name).and_then(|device| device.below.first());
    let Some(disk) = disk else { return CheckOutcome::Absent };
    let partition_file = |file: &str| format!("sys/block/{}/{}/{file}", sysfs_name(disk), sysfs_name(name));
    let Some(start) = host.tree.number_in(&partition_file("start")) else {
        return unknown_fact(host, &partition_file("start"));
    };
    let block_size_file = format!("sys/block/{}/queue/physical_block_size", sysfs_name(disk));
    let Some(block) = host.tree.number_in(&block_size_file).filter(|bytes| *bytes <= MAX_BLOCK_BYTES) else {
        return unknown_fact(host, &block_size_file);
    };
    // the first block of some disks begins before the first sector
    let first_block = host.block_number(disk, "alignment_offset").unwrap_or(0.0);
    let offset = (start * 512.0 - first_block).rem_euclid(block.max(512.0));
    let sectors = host.find_device(name).and_then(|device| device.bytes).map_or(f64::MAX, |bytes| bytes as f64 / 512.0);
    let is_used = host.topology.filesystems.iter().any(|filesystem| filesystem.device == name)
        || host.topology.swaps.iter().any(|swap| swap.device == name)
        || host.topology.devices.iter().any(|device| device.below.iter().any(|below| below == name));
    if offset == 0.0 || sectors <= TABLE_SECTORS || !is_used && sectors <= RESERVED_SECTORS {
        return CheckOutcome::Good;
    }
    let seen = format!("starts {offset:.0} bytes into a block of {block:.0} bytes");
    if is_used {
        return Proposal::new(seen).into_outcome();
    }
    Proposal::new(format!("{seen}; nothing uses it now")).with_severity(AdviceSeverity::Info).into_outcome()
}

/// Clocks that programs read without a system call.
const FAST_CLOCKS: &[&str] = &[
    "tsc",
    "kvm-clock",
    "hyperv_clocksource",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "timebase",
    "riscv_clocksource",
];

/// Judges the clock source.
pub(super) fn judge_clock(host: &HostFacts, _: &str) -> CheckOutcome {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let Some(now) = host.tree.get(&format!("{folder}/current_clocksource")) else {
        return unknown_fact(host, &format!("{folder}/current_clocksource"));
    };
    let available = host.tree.get(&format!("{folder}/available_clocksource")).unwrap_or_default();
    // only clocks known to be slow are reported; any other counts as good
    if !matches!(now, "hpet" | "acpi_pm" | "jiffies" | "xen" | "pit" | "refined-jiffies") {
        return CheckOutcome::Good;
    }
    let fast_clock = available.split_whitespace().find(|name| FAST_CLOCKS.contains(name));
    let flags = host.tree.get("proc/cpuinfo").unwrap_or_default();
    let has_flag = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    match fast_clock {
        // under Xen the kernel chooses Xen's clock at each start
        Some(name) if now == "xen" => {
            let mut proposal = Proposal::new(format!("the clock is {now}, though {name} is available"));
            let file = format!("/{folder}/current_clocksource");
            let persistence_hint = "until the next restart; clocksource= on the kernel's command line keeps it";
            proposal.apply = Some(format!("echo '{name}' > {file} # {persistence_hint}"));
            proposal.undo = Some(format!("echo 'xen' > {file}"));
            proposal.into_outcome()
        }
        Some(name) => Proposal::new(format!("the clock is {now}, though {name} is available")).into_outcome(),
        // a clock that the kernel found unstable is no longer available
        None if has_flag("constant_tsc") && has_flag("nonstop_tsc") => {
            let seen =
                format!("the clock is {now}: the processors have an invariant TSC, but the kernel has rejected it");
            Proposal::new(seen).into_outcome()
        }
        None => CheckOutcome::Good,
    }
}

/// Reads the number at the beginning of `8.0 GT/s PCIe` or `4`; `None` if it is 0.
fn link_number(host: &HostFacts, folder: &str, file: &str) -> Option<f64> {
    host.tree.number_in(&format!("{folder}/{file}")).filter(|number| *number > 0.0)
}

/// Returns the folder of the PCI function that a disk is attached to: the last one on its path.
fn pci_function<'a>(host: &'a HostFacts, disk: &str) -> Option<&'a str> {
    let path = host.device_path(disk)?;
    let is_address = |name: &str| {
        let (slot, function) = name.rsplit_once('.').unwrap_or_default();
        slot.matches(':').count() == 2 && function.len() == 1 && slot.chars().all(|c| c == ':' || c.is_ascii_hexdigit())
    };
    let mut end = 0;
    let mut last = None;
    for name in path.split('/') {
        end += name.len() + usize::from(end > 0);
        last = if is_address(name) { Some(&path[..end]) } else { last };
    }
    last
}

/// Judges the PCIe link of a disk's adapter; of several disks on one adapter, only for the first.
pub(super) fn judge_pcie(host: &HostFacts, disk: &str) -> CheckOutcome {
    let Some(function) = pci_function(host, disk) else { return CheckOutcome::Absent };
    let Some((port, _)) = function.rsplit_once('/') else { return CheckOutcome::Absent };
    let is_nvme = disk.starts_with("nvme");
    let mut others = host.topology.devices.iter().map(|device| device.name.as_str());
    let is_first = !others.any(|other| other < disk && pci_function(host, other) == Some(function));
    // an adapter within the chipset has no link
    let has_link = link_number(host, function, "current_link_width").is_some();
    if !(is_nvme || has_link && is_first) {
        return CheckOutcome::Absent;
    }
    let mut slow_properties = Vec::new();
    let (mut now_rates, mut max_rates) = ([0.0; 2], [0.0; 2]);
    for (index, (property, unit)) in [("speed", " GT/s"), ("width", "")].into_iter().enumerate() {
        let Some(now) = link_number(host, function, &format!("current_link_{property}")) else {
            return unknown_fact(host, &format!("{function}/current_link_{property}"));
        };
        let max_of = |folder: &str| link_number(host, folder, &format!("max_link_{property}"));
        // both ends must support it; a port without a known maximum is assumed not to limit
        let disk_max = max_of(function);
        let Some(max_rate) = disk_max.map(|disk_max| max_of(port).map_or(disk_max, |max| disk_max.min(max))) else {
            return unknown_fact(host, &format!("{function}/max_link_{property}"));
        };
        (now_rates[index], max_rates[index]) = (now, max_rate);
        if now < max_rate {
            slow_properties
                .push(format!("{now}{unit} of {max_rate}{}", if property == "width" { " lanes" } else { "" }));
        }
    }
    if slow_properties.is_empty() {
        return CheckOutcome::Good;
    }
    let rate = |[speed, lanes]: [f64; 2]| format_rate(pcie_bytes_per_s(speed, lanes));
    let (now, max) = (rate(now_rates), rate(max_rates));
    let adapter = if is_nvme {
        String::new()
    } else {
        format!(" of its adapter {}", function.rsplit('/').next().unwrap_or_default())
    };
    let slow = slow_properties.join(" and ");
    Proposal::new(format!("the link{adapter} runs at {slow}: at most {now} instead of {max}")).into_outcome()
}
