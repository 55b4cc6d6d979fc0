//! Filesystems, alignment, links and the clock.

use super::{percent, unknown};
use crate::check::{AdviceSeverity, CheckOutcome, Proposal};
use crate::scene::{HostScene, file_name};
use crate::space::{self, FilesystemSpace};

const GIB: f64 = 1_073_741_824.0;

fn space_of<'a>(scene: &'a HostScene, point: &str) -> Result<&'a FilesystemSpace, String> {
    let late = scene.tree.lacking.get(space::FILE);
    let because = || late.cloned().unwrap_or_else(|| "its space was not recorded".into());
    scene.space.iter().find(|s| s.mount == point && s.blocks > 0.0).ok_or_else(because)
}

pub(super) fn space(scene: &HostScene, point: &str) -> CheckOutcome {
    let space = match space_of(scene, point) {
        Ok(space) => space,
        Err(because) => return CheckOutcome::Unknown(because),
    };
    let (used, free) = (1.0 - space.free / space.blocks, space.free * space.block_bytes);
    // of a filesystem of many terabytes a twentieth is plenty
    if used < 0.9 || free > 100.0 * GIB {
        return CheckOutcome::Good;
    }
    let severity = if used >= 0.97 { AdviceSeverity::Critical } else { AdviceSeverity::Warning };
    Proposal::new(format!("{} used, {} free", percent(used), super::bytes(free))).severity(severity).propose()
}

pub(super) fn inodes(scene: &HostScene, point: &str) -> CheckOutcome {
    let space = match space_of(scene, point) {
        Ok(space) => space,
        Err(because) => return CheckOutcome::Unknown(because),
    };
    // xfs and btrfs make inodes as they are needed
    let used = 1.0 - space.inodes_free / space.inodes;
    if space.inodes <= 0.0 || used < 0.9 {
        return CheckOutcome::Good;
    }
    Proposal::new(format!("{} of the inodes used", percent(used))).propose()
}

pub(super) fn barriers(scene: &HostScene, point: &str) -> CheckOutcome {
    let Some(mount) = scene.mount(point) else { return unknown(scene, "proc/self/mountinfo") };
    let off = mount.options.split(',').find(|option| matches!(*option, "nobarrier" | "barrier=0"));
    match off {
        Some(option) => Proposal::new(format!("{} is mounted with {option}", mount.kind)).propose(),
        None => CheckOutcome::Good,
    }
}

pub(super) fn access_times(scene: &HostScene, point: &str) -> CheckOutcome {
    let Some(mount) = scene.mount(point) else { return unknown(scene, "proc/self/mountinfo") };
    // of a filesystem in memory nothing is written anywhere
    if matches!(mount.kind.as_str(), "rootfs" | "ramfs" | "tmpfs") {
        return CheckOutcome::Absent;
    }
    let has = |word: &str| mount.flags.split(',').any(|flag| flag == word);
    if has("relatime") || has("noatime") || has("ro") {
        return CheckOutcome::Good;
    }
    Proposal::new("each read writes the access time").propose()
}

pub(super) fn partition(scene: &HostScene, name: &str) -> CheckOutcome {
    let disk = scene.device(name).and_then(|device| device.below.first());
    let Some(disk) = disk else { return CheckOutcome::Absent };
    let start = scene.block_number(disk, &format!("{}/start", file_name(name)));
    let Some(start) = start else { return unknown(scene, &format!("sys/block/{disk}/{name}/start")) };
    let Some(block) = scene.queue_number(disk, "physical_block_size") else {
        return unknown(scene, &format!("sys/block/{disk}/queue/physical_block_size"));
    };
    let offset = (start * 512.0) % block.max(512.0);
    if offset == 0.0 {
        return CheckOutcome::Good;
    }
    Proposal::new(format!("starts {offset:.0} bytes into a block of {block:.0} bytes")).propose()
}

/// Clocks that are read without leaving the program, by architecture and hypervisor.
const FAST_CLOCKS: &[&str] =
    &["tsc", "kvm-clock", "hyperv_clocksource", "arch_sys_counter", "timebase", "riscv_clocksource"];

pub(super) fn clock(scene: &HostScene, _: &str) -> CheckOutcome {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let Some(now) = scene.tree.get(&format!("{folder}/current_clocksource")) else {
        return unknown(scene, &format!("{folder}/current_clocksource"));
    };
    let available = scene.tree.get(&format!("{folder}/available_clocksource")).unwrap_or_default();
    // one of another architecture is not known to be slow
    if !matches!(now, "hpet" | "acpi_pm" | "jiffies" | "xen" | "pit" | "refined-jiffies") {
        return CheckOutcome::Good;
    }
    let better = available.split_whitespace().find(|name| FAST_CLOCKS.contains(name));
    match better {
        Some(name) => Proposal::new(format!("the clock is {now}, though {name} is available")).propose(),
        None => CheckOutcome::Good,
    }
}

/// `8.0 GT/s PCIe` or `4`.
fn link_number(scene: &HostScene, folder: &str, file: &str) -> Option<f64> {
    scene.tree.number(&format!("{folder}/{file}")).filter(|number| *number > 0.0)
}

pub(super) fn pcie(scene: &HostScene, disk: &str) -> CheckOutcome {
    if !disk.starts_with("nvme") {
        return CheckOutcome::Absent;
    }
    let place = scene.tree.place(&format!("sys/block/{}", file_name(disk)));
    let Some(function) = place.and_then(|place| place.split("/nvme/").next().filter(|f| f.contains("/pci"))) else {
        return CheckOutcome::Absent;
    };
    let Some((port, _)) = function.rsplit_once('/') else { return CheckOutcome::Absent };
    let mut below = Vec::new();
    for (what, unit) in [("speed", " GT/s"), ("width", " lanes")] {
        let Some(now) = link_number(scene, function, &format!("current_link_{what}")) else {
            return unknown(scene, &format!("{function}/current_link_{what}"));
        };
        let end = |folder: &str| link_number(scene, folder, &format!("max_link_{what}"));
        // both ends must be able to do it; a port that is not shown limits nothing that is known
        let Some(most) = end(function).map(|own| end(port).map_or(own, |other| own.min(other))) else {
            return unknown(scene, &format!("{function}/max_link_{what}"));
        };
        if now < most {
            below.push(format!("{now}{unit} of {most}"));
        }
    }
    if below.is_empty() {
        CheckOutcome::Good
    } else {
        Proposal::new(format!("the link runs at {}", below.join(" and "))).propose()
    }
}
